#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#
# wire-rc - RC between two machines with the same driver: pingpong, perftest,
# a verified stream, and both again with jumbo frames.
#
# Arguments: none; environment as in lib-wire.sh. Runs on both machines.
# Output: TAP. Exit code: 0 if all ok, 1 if not.

# shellcheck disable=SC2034,SC2154 # variables shared with lib.sh
. "$(dirname "$(readlink -f "$0")")/lib-wire.sh"

module_or_die
topo_or_die wire_link
wire_rc_cases
tap_done
