#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#
# wr-api - extended QPs with their work request builders, and extended CQs, on one
# device and between two.
#
# Arguments: none. Output: TAP. Exit code: 0 if all ok, 1 if not.

# shellcheck disable=SC2034,SC2154 # variables shared with lib.sh
. "$(dirname "$(readlink -f "$0")")/lib.sh"

module_or_die
topo_or_die topo_veth
run_tap "wr_api, one device" 60 wr_api -d roe0
run_tap "wr_api, two devices" 60 wr_api -d roe0 -D roe1
tap_done
