#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#
# wire-rc - RC between two machines with the same driver: pingpong, perftest,
# a verified stream, and of these what moves bytes again with jumbo frames.
#
# Arguments: none; environment as in lib-wire.sh. Runs on both machines.
# Output: TAP. Exit code: 0 if all ok, 1 if not.

# shellcheck disable=SC2034,SC2154 # variables shared with lib.sh
. "$(dirname "$(readlink -f "$0")")/lib-wire.sh"

module_or_die
topo_or_die wire_link
wire_rc_cases
check "jumbo frames" ip link set eth0 mtu 9000
meet_or_die "jumbo frames on both sides"
for t in ib_send_bw ib_write_bw ib_read_bw; do
	pt="$t -F -d roe0 -x $GID -m 4096 -s 65536 -n 50"
	wire_case "$t, path MTU 4096" 60 "$pt" "$pt $PEER"
done
wire_stream "verified stream, jumbo frames" 300
tap_done
