#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#
# ud-verbs - datagrams: the C program, ibv_ud_pingpong and perftest -c UD on one
# device and between two; port counters of the performance agent in sysfs.
#
# Arguments: none. Output: TAP. Exit code: 0 if all ok, 1 if not.

# shellcheck disable=SC2034,SC2154 # variables shared with lib.sh
. "$(dirname "$(readlink -f "$0")")/lib.sh"

module_or_die
topo_or_die topo_veth
g0=$(wait_gid roe0 10.0.0.1)
g1=$(wait_gid roe1 10.0.0.2)
v0=$(wait_gid roe0 fd00:a::1)
v1=$(wait_gid roe1 fd00:b::1)

run_tap "ud_ops, one device" 60 ud_ops -d roe0
run_tap "ud_ops, two devices" 60 ud_ops -d roe0 -D roe1

pp()
{
	pair_run 60 18515 "ibv_ud_pingpong -c -d $1 -g $2 $5" \
		"ibv_ud_pingpong -c -d $3 -g $4 $5 127.0.0.1"
}

check "ibv_ud_pingpong, one device, IPv6, events" pp roe0 "$v0" roe0 "$v0" "-n 200 -e"
check "ibv_ud_pingpong, two devices, events" pp roe0 "$g0" roe1 "$g1" "-n 200 -e"
check "GIDs of both devices are there" test -n "$v0" -a -n "$v1"

port=18700
pt()
{
	port=$((port + 1))
	pair_run 60 $port "$1 -F -c UD -p $port -d roe0 -x $g0 $2" \
		"$1 -F -c UD -p $port -d roe0 -x $g0 $2 127.0.0.1"
}

# On the debug kernel ud_ops has these sizes and both families, polling.
if [ $SLOW = 1 ]; then
	check "ibv_ud_pingpong, one device, IPv4" pp roe0 "$g0" roe0 "$g0" "-n 200"
	check "ibv_ud_pingpong, link-local GID 0" pp roe0 0 roe0 0 "-n 100 -s 2048"
	check "ib_send_lat -c UD" pt ib_send_lat "-n 200 -s 64"
fi
check "ib_send_lat -c UD, inline" pt ib_send_lat "-n 200 -s 32 -I 64"
check "ib_send_lat -c UD, events, 4096 bytes" pt ib_send_lat "-n 100 -s 4096 -e"

# sysfs gets its counters by the same datagrams as perfquery
grows()
{
	local dir=/sys/class/infiniband/roe0/ports/1/counters f i=0 before after
	local names="port_xmit_data port_rcv_data port_xmit_packets port_rcv_packets"
	names+=" port_rcv_errors port_xmit_discards"
	# shellcheck disable=SC2086
	mapfile -t before < <(cd $dir && cat $names)
	pp roe0 "$g0" roe0 "$g0" "-n 10" || return
	# shellcheck disable=SC2086
	mapfile -t after < <(cd $dir && cat $names)
	for f in $names; do
		echo "$f ${before[i]} ${after[i]}"
		# ten messages of 1 KiB each way; data counts in words
		case $f in
		*data) [ $((after[i] - before[i])) -ge 5120 ] ;;
		*packets) [ $((after[i] - before[i])) -ge 20 ] ;;
		*) [ "${after[i]}" = "${before[i]}" ] ;;
		esac || return
		i=$((i + 1))
	done
}

check "sysfs port counters show the traffic" grows
check "rdma resource shows QP1" sh -c \
	'rdma resource show qp link roe0/1 | tee /dev/stderr | grep -q "lqpn 1 type GSI state RTS"'
check "P_Key table and GUIDs" sh -c \
	'cd /sys/class/infiniband/roe0 && grep -qx 0xffff ports/1/pkeys/0 &&
	 cmp -s node_guid sys_image_guid && ! grep -q 0000:0000:0000:0000 node_guid'
tap_done
