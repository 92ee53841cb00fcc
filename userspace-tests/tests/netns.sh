#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#
# netns - two namespaces joined by a veth pair, one device in each:
#
#	netns ra                      netns rb
#	  roe0 - va 10.0.0.1/24  ----  vb 10.0.0.2/24 - roe1
#
# with RDMA namespaces shared (the default) and exclusive, then with the
# namespaces deleted under an open device.
#
# Arguments: none. Output: TAP. Exit code: 0 if all ok, 1 if not.

# shellcheck disable=SC2034,SC2154 # variables shared with lib.sh
. "$(dirname "$(readlink -f "$0")")/lib.sh"

# rxe of kernels before 7 has its sockets in the initial namespace only.
topo_netns()
{
	netns_add ra && netns_add rb || return
	ip -n ra link add va type veth peer name vb netns rb || return
	no_dad va ra
	no_dad vb rb
	ip -n ra addr add 10.0.0.1/24 dev va
	ip -n ra addr add fd00:a::1/64 dev va nodad
	ip -n rb addr add 10.0.0.2/24 dev vb
	ip -n rb addr add fd00:a::2/64 dev vb nodad
	ip -n ra link set va mtu 9000 up
	ip -n rb link set vb mtu 9000 up
	link_add roe0 va ra && link_add roe1 vb rb
}

# A driver may leave a new device in the initial namespace: move it then.
move_in()
{
	ip netns exec "$2" rdma dev show "$1" >/dev/null 2>&1 ||
		rdma dev set "$1" netns "$2"
}

drop_netns()
{
	local n
	for n in ra rb; do
		ip netns pids $n | xargs -r kill -9
		ip netns del $n
	done
	spaces=()
}

ns_gid()
{
	ip netns exec "$1" bash -c ". $TESTS/lib.sh; trap - EXIT; wait_gid $2 $3"
}

run_all()
{
	local a b a6 b6
	a=$(ns_gid ra roe0 10.0.0.1)
	b=$(ns_gid rb roe1 10.0.0.2)
	a6=$(ns_gid ra roe0 fd00:a::1)
	b6=$(ns_gid rb roe1 fd00:a::2)
	check "$1: pingpong over IPv4" pair_run 60 18515 \
		"ip netns exec ra ibv_rc_pingpong -d roe0 -g $a -n 300 -c" \
		"ip netns exec rb ibv_rc_pingpong -d roe1 -g $b -n 300 -c 10.0.0.1"
	check "$1: pingpong over IPv6, events" pair_run 60 18515 \
		"ip netns exec ra ibv_rc_pingpong -d roe0 -g $a6 -n 300 -c -e" \
		"ip netns exec rb ibv_rc_pingpong -d roe1 -g $b6 -n 300 -c -e 10.0.0.1"
	check "$1: verified stream" pair_run 90 18700 \
		"ip netns exec ra rc_stream -d roe0 -g $a 18700 200" \
		"ip netns exec rb rc_stream -d roe1 -g $b 18700 200 10.0.0.1"
	check "$1: ib_write_bw" pair_run 90 18701 \
		"ip netns exec ra ib_write_bw -F -p 18701 -d roe0 -x $a -n 50" \
		"ip netns exec rb ib_write_bw -F -p 18701 -d roe1 -x $b -n 50 10.0.0.1"
}

module_or_die
topo_or_die topo_netns
run_all shared

ip netns exec ra hold -d roe0 -t $((20 * SLOW)) > "$TMP/hold.out" 2>&1 &
pids+=($!)
wait_for 10 grep -q ready "$TMP/hold.out"
h=$!
ip netns del ra
ip netns del rb
spaces=()
check "namespace deleted under an open device: the devices go" \
	wait_for 20 sh -c '! rdma link | grep -q "roe[01]/"'
check "and the process is told and lives on" wait_for 20 sh -c \
	"grep -q gone $TMP/hold.out || ! kill -0 $h"
cat "$TMP/hold.out" | tap_diag
wait $h
links=()

# The mode can only be switched while there is no other namespace.
if wait_for 20 rdma system set netns exclusive; then
	topo_or_die topo_netns
	move_in roe0 ra
	move_in roe1 rb
	check "exclusive: each namespace sees its device only" sh -c \
		"ip netns exec ra rdma link | grep -q roe0/ &&
		 ! ip netns exec ra rdma link | grep -q roe1/ &&
		 ip netns exec rb rdma link | grep -q roe1/ &&
		 ! rdma link | grep -q 'roe[01]/'"
	run_all exclusive
	drop_netns
	check "exclusive: deleting the namespaces removes the devices" \
		wait_for 20 sh -c '! rdma link | grep -q "roe[01]/"'
	links=()
	wait_for 20 rdma system set netns shared
else
	tap_not_ok "switch RDMA namespaces to exclusive"
fi
tap_done
