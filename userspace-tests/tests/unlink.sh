#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#
# unlink - devices taken away while a process has them open, with and without
# traffic: link deleted, netdev deleted, module unloaded.
#
# Arguments: none. Output: TAP. Exit code: 0 if all ok, 1 if not.

# shellcheck disable=SC2034,SC2154 # variables shared with lib.sh
. "$(dirname "$(readlink -f "$0")")/lib.sh"

start_hold()
{
	: > "$TMP/hold.out"
	background hold -d roe0 -t $((200 * SLOW)) > "$TMP/hold.out" 2>&1
	wait_for 20 grep -q ready "$TMP/hold.out"
}

# Traffic that would go on for long, on one device; by packets where KASAN looks.
start_traffic()
{
	local g
	g=$(wait_gid roe0 10.1.0.1) || return
	[ "$ROE_KERNEL" != debug ] || echo 0 > /sys/class/infiniband/roe0/direct
	background ibv_rc_pingpong -d roe0 -g "$g" -n 100000000 > "$TMP/s.out" 2>&1
	server=$bg
	wait_for 20 listening 18515 || return
	background ibv_rc_pingpong -d roe0 -g "$g" -n 100000000 127.0.0.1 > "$TMP/c.out" 2>&1
	client=$bg
	wait_for 20 moving
}

moving()
{
	local c=/sys/class/infiniband/roe0/ports/1/hw_counters

	[ $(($(cat $c/tx_pkts) + $(cat $c/direct_pkts))) -gt 100 ]
}

# They poll for ever what never comes; but nothing in the kernel may hold them.
traffic_ends()
{
	kill -9 "$server" "$client" 2>/dev/null
	wait_for 20 sh -c "! kill -0 $server && ! kill -0 $client"
}

no_device()
{
	! rdma link show | grep -q "link $1/"
}

make_link()
{
	[ -e /sys/class/net/va ] || veth va vb || return
	ip addr replace 10.1.0.1/24 dev va
	link_add roe0 va
}

told()
{
	check "$1: the user is told" wait_for 20 grep -q gone "$TMP/hold.out"
	check "$1: and ends well" wait "$bg"
}

# gone TEXT COMMAND... - with an idle user, then under traffic
gone()
{
	local text=$1
	shift
	topo_or_die make_link
	start_hold
	check "$text with an open device" timeout $((30 * SLOW)) "$@"
	check "$text: the device is gone" wait_for 20 no_device roe0
	told "$text"
	load_roe
	topo_or_die make_link
	check "$text: traffic is running" start_traffic
	check "$text under traffic" timeout $((30 * SLOW)) "$@"
	check "$text: the device is gone" wait_for 20 no_device roe0
	check "$text: the processes can end" traffic_ends
	load_roe
}

module_or_die
gone "link deleted" rdma link delete roe0
gone "netdev deleted" ip link del va
netdevs=()
topo_or_die make_link
check "module unload with an idle device" timeout $((30 * SLOW)) rmmod roe
load_roe
# A user does not pin the module: it is cut off (disassociate_ucontext).
gone "module unloaded" rmmod roe
tap_done
