#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#
# rxe - next to the in-tree rdma_rxe, which shares the driver id: loaded first or
# last, unloaded first or last, with traffic on the one that stays.
#
# rdma_rxe of kernels before 7 owns UDP port 4791 of the initial namespace from
# its load on, and refuses to load where a roe device has it. Its exit takes
# away every device of the driver id, roe's too: nothing can prevent that, but
# roe must survive and start again.
#
# Arguments: none. Output: TAP. Exit code: 0 if all ok, 1 if not.

# shellcheck disable=SC2034,SC2154 # variables shared with lib.sh
. "$(dirname "$(readlink -f "$0")")/lib.sh"

traffic()
{
	local g
	g=$(wait_gid "$1" "$2") || return
	pair_run 60 18515 "ibv_rc_pingpong -d $1 -g $g -n ${3:-50} -c" \
		"ibv_rc_pingpong -d $1 -g $g -n ${3:-50} -c 127.0.0.1"
}

no_device()
{
	! rdma link show | grep -q "link $1/"
}

roe_link()
{
	rdma link add roe0 type roe netdev va
}

load_both()
{
	rmmod roe 2>/dev/null
	rmmod rdma_rxe 2>/dev/null
	if [ "$1" = rxe ]; then
		modprobe rdma_rxe && load_roe || return
	else
		load_roe && modprobe rdma_rxe || return
	fi
	rdma link add rxe0 type rxe netdev vc && roe_link
}

# What rdma_rxe does on events of netdevs must not reach roe's devices.
events()
{
	local n
	for n in va vc; do
		ip link set $n mtu 4000
		ip link set $n down
		ip link set $n up
	done
}

# next_to_rxe FIRST GONE
next_to_rxe()
{
	load_both "$1" || return
	traffic roe0 10.1.0.1 && traffic rxe0 10.6.0.1 || return
	events
	"$2"_goes
}

# What its neighbour does meanwhile ends well.
roe_goes()
{
	local loop rc
	traffic rxe0 10.6.0.1 1000 > "$TMP/loop.out" 2>&1 &
	loop=$!
	sleep 1
	timeout $((30 * SLOW)) rmmod roe
	rc=$?
	wait $loop || { cat "$TMP/loop.out"; return 1; }
	[ $rc = 0 ] && traffic rxe0 10.6.0.1 || return
	timeout $((30 * SLOW)) rmmod rdma_rxe
}

# roe's device goes with it, under traffic: to polling users that is a silence, as with
# any device that is pulled out, so they are killed.
rxe_goes()
{
	local loop rc
	traffic roe0 10.1.0.1 1000000 > "$TMP/loop.out" 2>&1 &
	loop=$!
	sleep 1
	timeout $((30 * SLOW)) rmmod rdma_rxe
	rc=$?
	pkill -9 -x ibv_rc_pingpong
	wait $loop
	[ $rc = 0 ] || return
	no_device roe0 && { roe_link || return; }
	traffic roe0 10.1.0.1 || return
	timeout $((30 * SLOW)) rmmod roe
}

# A link first: before kernel 7 the load fails, and must leave no trace.
link_first()
{
	load_roe && roe_link || return
	if modprobe rdma_rxe; then
		[ "$ROE_KERNEL" = 7.2 ] || return
		rdma link add rxe0 type rxe netdev vc || echo "no rxe link"
	fi
	events
	traffic roe0 10.1.0.1 || return
	rmmod roe || return
	rmmod rdma_rxe 2>/dev/null
	return 0
}


module_or_die
topo_or_die veth va vb
topo_or_die veth vc vd
ip addr add 10.1.0.1/24 dev va
ip addr add 10.6.0.1/24 dev vc
for order in "rxe roe" "rxe rxe" "roe roe" "roe rxe"; do
	# shellcheck disable=SC2086
	check "rdma_rxe: ${order% *} loaded first, ${order#* } unloaded first" \
		next_to_rxe $order
done
check "a roe link before rdma_rxe is loaded" link_first
check "rdma_rxe and its link" load_both rxe
rdma link delete roe0
refused "a roe link on a netdev with an rdma_rxe link" "vc already has an rdma_rxe device" \
	rdma link add roe0 type roe netdev vc
tap_done
