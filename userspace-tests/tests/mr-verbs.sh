#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#
# mr-verbs - memory windows and regions: the C programs, on one device and
# between two devices of one namespace.
#
# Arguments: names of programs (default: all). Output: TAP. Exit code: 0 if all
# ok, 1 if not.

# shellcheck disable=SC2034,SC2154 # variables shared with lib.sh
. "$(dirname "$(readlink -f "$0")")/lib.sh"

module_or_die
topo_or_die topo_veth
progs=${*:-mw mr rc_flush}
for p in $progs; do
	run_tap "$p, one device" 200 "$p" -d roe0
done
for p in $progs; do
	run_tap "$p, two devices" 200 "$p" -d roe0 -D roe1
done
tap_done
