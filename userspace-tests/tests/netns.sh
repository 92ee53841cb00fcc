#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#
# netns - two namespaces joined by a veth pair, one device in each:
#
#	netns ra                      netns rb
#	  roe0 - va 10.0.0.1/24  ----  vb 10.0.0.2/24 - roe1
#
# with RDMA namespaces shared (the default) and exclusive; namespaces deleted, the
# netdev and the device moved between them, under an open device and traffic.
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
	link_add roe0 va ra && link_add roe1 vb rb && reach ra 10.0.0.2 fd00:a::2
}

# A driver may leave a new device in the initial namespace: move it then.
move_in()
{
	ip netns exec "$2" rdma dev show "$1" >/dev/null 2>&1 ||
		rdma dev set "$1" netns "$2"
}

# start_users [exclusive] - one that has roe0 open, two with traffic. Processes outside: one
# inside would keep its namespace alive. The initial namespace has no sysfs entry of a
# device of another one, but it can open it; with exclusive devices it cannot.
traffic=()
start_users()
{
	local g h in_a='' in_b='' to=127.0.0.1
	[ "${1:-}" != exclusive ] ||
		in_a="ip netns exec ra" in_b="ip netns exec rb" to=10.0.0.1
	traffic=()
	sent=$(counter roe1 tx_pkts rb)
	: > "$TMP/hold.out"
	# shellcheck disable=SC2086
	background $in_a hold -d roe0 -t $((200 * SLOW)) > "$TMP/hold.out" 2>&1
	holder=$bg
	g=$(ns_gid ra roe0 10.0.0.1) && h=$(ns_gid rb roe1 10.0.0.2) || return
	# shellcheck disable=SC2086
	background $in_a ibv_rc_pingpong -d roe0 -g "$g" -n 100000000 > "$TMP/s.out" 2>&1
	traffic=("$bg")
	if [ -n "$in_a" ]; then
		wait_for 20 listening_in ra 18515 || return
	else
		wait_for 20 listening 18515 || return
	fi
	# shellcheck disable=SC2086
	background $in_b ibv_rc_pingpong -d roe1 -g "$h" -n 100000000 $to > "$TMP/c.out" 2>&1
	traffic+=("$bg")
	wait_for 20 grep -q ready "$TMP/hold.out" && wait_for 20 moving
}

sent=0
moving()
{
	[ "$(counter roe1 tx_pkts rb)" -gt $((sent + 100)) ]
}

traffic_ended()
{
	! kill -0 "${traffic[@]}"
}

stop_traffic()
{
	kill -9 "${traffic[@]}" 2>/dev/null
	wait_for 20 traffic_ended
}

# users_end TEXT - who had roe0 open was told
users_end()
{
	check "$1: the process is told" wait_for 20 grep -q gone "$TMP/hold.out"
	check "$1: and ends well" wait "$holder"
	check "$1: processes with traffic can end" stop_traffic
}

no_device()
{
	! rdma link | grep -q "$1/"
}

no_devices()
{
	! rdma link | grep -q 'roe[01]/'
}

delete_spaces()
{
	local n
	for n in ra rb rc; do
		ip netns del $n 2>/dev/null
	done
	spaces=()
	links=()
	wait_for 30 no_devices
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
		"ip netns exec ra rc_stream -d roe0 -g $a 18700 $((200 / SLOW))" \
		"ip netns exec rb rc_stream -d roe1 -g $b 18700 $((200 / SLOW)) 10.0.0.1"
	check "$1: ib_write_bw" pair_run 90 18701 \
		"ip netns exec ra ib_write_bw -F -p 18701 -d roe0 -x $a -n 50" \
		"ip netns exec rb ib_write_bw -F -p 18701 -d roe1 -x $b -n 50 10.0.0.1"
}

# Nobody can have a reference to a device in the middle of its move: what becomes of its
# netdev then it has to find out afterwards. That it is deleted is told once a second, that
# it goes to another namespace only once. By group: to look a name up takes until after
# the move.
start_move()
{
	ip -n ra link add vm group 7 type dummy && link_add roe2 vm ra || return
	background ip netns exec rc while_moved ip -n ra link set group 7 netns rb \
		> "$TMP/moved.out" 2>&1
	wait_for 20 grep -q ready "$TMP/moved.out"
}

# The device of what is below has its addresses, too, but is in another namespace.
upper_link()
{
	ip -n ra link add link va name vu netns rc type macvlan mode bridge || return
	no_dad vu rc
	ip -n rc addr add 10.0.0.3/24 dev vu
	ip -n rc link set vu up
	link_add roe3 vu rc && move_in roe3 rc && ns_gid rc roe3 10.0.0.3 && reach rc 10.0.0.2
}

no_roe2_in()
{
	! ip netns exec "$1" rdma link | grep -q roe2/
}

module_or_die
topo_or_die topo_netns
run_all shared

check "shared: the devices can be used from outside" start_users
check "shared: namespaces deleted under users: the devices go" delete_spaces
users_end "shared: namespaces deleted"

topo_or_die topo_netns
netns_add rc
check "shared: users again" start_users
check "shared: the netdev moves away under users" ip -n ra link set va netns rc
check "shared: and takes its device down" wait_for 20 no_device roe0
users_end "shared: netdev moved"
ip -n rc addr add 10.0.0.1/24 dev va
ip -n rc link set va up
reach rc 10.0.0.2
check "shared: a new device where it is now" link_add roe0 va rc
check "shared: traffic there" pair_run 60 18515 \
	"ibv_rc_pingpong -d roe0 -g $(ns_gid rc roe0 10.0.0.1) -n 100 -c" \
	"ibv_rc_pingpong -d roe1 -g $(ns_gid rb roe1 10.0.0.2) -n 100 -c 127.0.0.1"
check "shared: all gone" delete_spaces

# The mode can only be switched while there is no other namespace.
if wait_for 30 rdma system set netns exclusive; then
	topo_or_die topo_netns
	move_in roe0 ra
	move_in roe1 rb
	check "exclusive: each namespace sees its device only" sh -c \
		"ip netns exec ra rdma link | grep -q roe0/ &&
		 ! ip netns exec ra rdma link | grep -q roe1/ &&
		 ip netns exec rb rdma link | grep -q roe1/ &&
		 ! rdma link | grep -q 'roe[01]/'"
	run_all exclusive
	in_a="ip netns exec ra" in_b="ip netns exec rb" r=$TESTS/rping_calm
	for a in 10.0.0.1 fd00:a::1; do
		check "exclusive: rping, $a" cm "$r -s -a $a -p @P -C 10 -V" "$r -c -a $a -p @P -C 10 -V"
		check "exclusive: udaddy, $a" cm "udaddy -b $a -c 2" "udaddy -s $a -c 2"
	done
	netns_add rc
	if [ "$ROE_TYPE" = roe ]; then
		check "exclusive: a macvlan elsewhere, with a device of its own" upper_link
		in_a="ip netns exec rc"
		check "exclusive: rping to it" cm "$r -s -a 10.0.0.3 -p @P -C 10 -V" \
			"$r -c -a 10.0.0.3 -p @P -C 10 -V"
		in_a="ip netns exec rb" in_b="ip netns exec rc"
		check "exclusive: rping from it" cm "$r -s -a 10.0.0.2 -p @P -C 10 -V" \
			"$r -c -I 10.0.0.3 -a 10.0.0.2 -p @P -C 10 -V"
		check "exclusive: that device goes" ip netns exec rc rdma link delete roe3
	fi
	check "exclusive: users" start_users exclusive
	check "exclusive: the device moves under traffic" \
		timeout $((30 * SLOW)) ip netns exec ra rdma dev set roe0 netns rc
	users_end "exclusive: device moved"
	check "exclusive: it is there and not here" sh -c \
		"ip netns exec rc rdma link | grep -q roe0/ &&
		 ! ip netns exec ra rdma link | grep -q roe0/"
	check "exclusive: and back" ip netns exec rc rdma dev set roe0 netns ra
	check "exclusive: traffic after it" pair_run 60 18515 \
		"ip netns exec ra ibv_rc_pingpong -d roe0 -g $(ns_gid ra roe0 10.0.0.1) -n 100 -c" \
		"ip netns exec rb ibv_rc_pingpong -d roe1 -g $(ns_gid rb roe1 10.0.0.2) -n 100 -c 10.0.0.1"
	if [ "$ROE_TYPE" = roe ]; then
		modprobe dummy numdummies=0 2>/dev/null
		check "exclusive: a device, to be moved" start_move
		check "exclusive: it moves while its netdev goes elsewhere" \
			timeout $((30 * SLOW)) ip netns exec ra rdma dev set roe2 netns rc
		check "exclusive: the netdev has gone there" wait "$bg"
		check "exclusive: and takes its device down" wait_for 20 no_roe2_in rc
	fi
	check "exclusive: deleting the namespaces removes the devices" delete_spaces
	wait_for 30 rdma system set netns shared
else
	tap_not_ok "switch RDMA namespaces to exclusive"
fi

# --- a namespace that dies while a device is made in it ---
# The netdev is looked up here, before the module is loaded: then it moves. Its new
# namespace has one process, which ends when the device opens its socket, port 4791.
loader()
{
	cat <<-E
		#!/bin/bash
		[ "\${!#}" = rdma-link-roe ] || exec /sbin/modprobe "\$@"
		ip netns exec rd bash -c 'echo > $TMP/there
			until [[ \$(< /proc/self/net/udp) == *:12B7* || \$SECONDS -gt 60 ]]; do :; done' &
		until [ -e $TMP/there ]; do sleep 0.05; done
		ip link set vc netns rd
		ip netns del rd
		${ROE_KO:+insmod }${ROE_KO:-modprobe roe}
	E
}

dying()
{
	for _ in 1 2 3; do
		rm -f "$TMP/there"
		unload_roe && netns_add rd && ip link add vc type dummy || return
		echo "$TMP/loader" > /proc/sys/kernel/modprobe
		rdma link add roe2 type roe netdev vc	# or it is too late
		echo /sbin/modprobe > /proc/sys/kernel/modprobe
		[ -e "$TMP/there" ] && wait_for 20 no_roe2 || return
	done
}

no_roe2()
{
	! rdma link | grep -q roe2/
}

if [ "$ROE_TYPE" = roe ]; then
	loader > "$TMP/loader"
	chmod +x "$TMP/loader"
	modprobe dummy numdummies=0 2>/dev/null
	check "a namespace dies while a device is made in it: no device" dying
fi
tap_done
