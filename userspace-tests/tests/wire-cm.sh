#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#
# wire-cm - datagrams and RDMA-CM between two machines: roe with roe, then with the
# in-tree rdma_rxe on either side.
#
# Arguments: none; environment as in lib-wire.sh. Runs on both machines.
# Output: TAP. Exit code: 0 if all ok, 1 if not.

# shellcheck disable=SC2034,SC2154 # variables shared with lib.sh
. "$(dirname "$(readlink -f "$0")")/lib-wire.sh"

own=$ROE_TYPE

# The netdev is a member before the receiver's QP is, which has joined when mckey says so.
joined()
{
	grep -q "joined dgid" "$TMP/server.out"
}

for rxe_side in none b a; do
	[ "$SIDE" = $rxe_side ] && ROE_TYPE=rxe || ROE_TYPE=$own
	echo "# rdma_rxe on side $rxe_side, this is side $SIDE with $ROE_TYPE"
	module_or_die
	topo_or_die wire_link
	pp="ibv_ud_pingpong -d roe0 -c"
	wire_case "ibv_ud_pingpong over IPv4" 60 "$pp -g $GID -n 200" "$pp -g $GID -n 200 $PEER"
	wire_case "ibv_ud_pingpong over IPv6, events" 60 "$pp -g $GID6 -n 200 -e" \
		"$pp -g $GID6 -n 200 -e $PEER"
	pt="ib_send_lat -F -c UD -d roe0 -x $GID -s 1000 -n 100"
	wire_case "ib_send_lat -c UD" 60 "$pt" "$pt $PEER"
	wire_case "rping over IPv4" 60 "$TESTS/rping_calm -s -a 10.77.0.1 -C 20 -V" \
		"$TESTS/rping_calm -c -a 10.77.0.1 -C 20 -V"
	wire_case "rping over IPv6" 60 "$TESTS/rping_calm -s -a fd77::1 -C 20 -V" \
		"$TESTS/rping_calm -c -a fd77::1 -C 20 -V"
	wire_case "ucmatose" 60 "ucmatose -b 10.77.0.1 -c 4 -C 20 -S 4096" \
		"ucmatose -s 10.77.0.1 -c 4 -C 20 -S 4096"
	wire_case "udaddy" 60 "udaddy -b 10.77.0.1 -c 4" "udaddy -s 10.77.0.1 -c 4"
	wire_case "rstream" 60 "rstream -b 10.77.0.1 -S 65536 -C 10 -I 2 -T v" \
		"rstream -s 10.77.0.1 -S 65536 -C 10 -I 2 -T v"
	[ $rxe_side = b ] && m="$TESTS/mckey_again" n=1 || m="stdbuf -oL mckey" n=5
	wire_pair "mckey" 120 joined "$m -m 239.1.1.1 -b 10.77.0.1 -C $n" \
		"$m -m 239.1.1.1 -b 10.77.0.2 -C 5 -s"
	wire_sync "end-$rxe_side"
	link_del roe0
	links=()
	check "unload" unload_roe
done
tap_done
