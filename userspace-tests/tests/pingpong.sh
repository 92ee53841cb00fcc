#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#
# pingpong - the stock tools: ibv_rc_pingpong polling and with events, over
# IPv4 and IPv6 GIDs, on one device and between two; ibv_devinfo; rdma show.
#
# Arguments: none. Output: TAP. Exit code: 0 if all ok, 1 if not.

# shellcheck disable=SC2034,SC2154 # variables shared with lib.sh
. "$(dirname "$(readlink -f "$0")")/lib.sh"

module_or_die
topo_or_die topo_veth
# The client's address is only for the exchange over TCP.
g0=$(wait_gid roe0 10.0.0.1)
g1=$(wait_gid roe1 10.0.0.2)
v0=$(wait_gid roe0 fd00:a::1)
v1=$(wait_gid roe1 fd00:b::1)

pp()
{
	pair_run 60 18515 "ibv_rc_pingpong -d $1 -g $2 $5" \
		"ibv_rc_pingpong -d $3 -g $4 $5 127.0.0.1"
}

opts=("-n 500 -c -e" "-n 20 -c -s 1048576" "-n 200 -c -m 256")
# On the debug kernel rc_ops has these sizes and MTUs, one device and two, polling.
if [ $SLOW = 1 ]; then
	opts+=("-n 500 -c" "-n 200 -c -s 1" "-n 100 -c -s 65536" "-n 200 -c -m 4096 -e")
	check "two devices, IPv4" pp roe0 "$g0" roe1 "$g1" "-n 200 -c"
fi
for opt in "${opts[@]}"; do
	check "one device, IPv4: $opt" pp roe0 "$g0" roe0 "$g0" "$opt"
done
check "one device, IPv6" pp roe0 "$v0" roe0 "$v0" "-n 200 -c"
check "one device, link-local GID 0" pp roe0 0 roe0 0 "-n 200 -c"
check "two devices, IPv4, events" pp roe0 "$g0" roe1 "$g1" "-n 200 -c -e"
check "IPv6 GIDs of both devices are there" test -n "$v0" -a -n "$v1"

devinfo()
{
	ibv_devinfo -v -d roe0 > "$TMP/info" || return
	cat "$TMP/info"
	grep -Eq 'state:[[:space:]]+PORT_ACTIVE' "$TMP/info" &&
		grep -Eq 'active_mtu:[[:space:]]+4096' "$TMP/info" &&
		grep -Eq 'link_layer:[[:space:]]+Ethernet' "$TMP/info" &&
		grep -q '::ffff:10.0.0.1, RoCE v2' "$TMP/info"
}

check "ibv_devinfo -v tells the truth" devinfo
check "ibv_devices lists both" sh -c 'ibv_devices | grep -c "roe[01]" | grep -qx 2'

rdma_shows()
{
	local out
	out=$(rdma link show roe0/1) || return
	echo "$out"
	echo "$out" | grep -q 'state ACTIVE physical_state LINK_UP netdev va'
}

check "rdma link show" rdma_shows
check "rdma dev show" sh -c 'rdma dev show roe0 | tee /dev/stderr | grep -q "node_type ca"'

resources()
{
	background hold -d roe0 -t 300 > "$TMP/hold.out"
	wait_for 30 grep -q ready "$TMP/hold.out" || return
	rdma resource show qp link roe0/1 > "$TMP/res"
	rdma resource show cq dev roe0 >> "$TMP/res"
	rdma resource show mr dev roe0 >> "$TMP/res"
	cat "$TMP/res"
	kill "$bg"
	wait "$bg"
	grep -q 'type RC state RTS' "$TMP/res" && grep -q 'cqn' "$TMP/res" &&
		grep -q 'mrn' "$TMP/res" && grep -q 'comm hold' "$TMP/res"
}

check "rdma resource shows the QP, CQ and MR of a process" resources
tap_done
