#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#
# link - the life of a link: made on each kind of netdev, refused with a clear
# error, following its netdev live.
#
# Arguments: none. Output: TAP. Exit code: 0 if all ok, 1 if not.

# shellcheck disable=SC2034,SC2154 # variables shared with lib.sh
. "$(dirname "$(readlink -f "$0")")/lib.sh"

traffic()
{
	local g
	g=$(wait_gid "$1" "$2") || return
	pair_run 60 18515 "ibv_rc_pingpong -d $1 -g $g -n 50 -c" \
		"ibv_rc_pingpong -d $1 -g $g -n 50 -c 127.0.0.1"
}

# kind NETDEV ADDRESS - a link there comes, works and goes
kind()
{
	no_dad "$1"
	ip addr add "$2/24" dev "$1" || return
	ip link set "$1" up
	link_add roe0 "$1" || return
	wait_for 20 port_state roe0 ACTIVE || return
	traffic roe0 "$2" || return
	link_del roe0
}

# guid DEV [NETNS]
guid()
{
	local all
	all=$(${2:+ip netns exec "$2"} rdma dev show "$1") || return
	[[ $all =~ node_guid\ ([0-9a-f:]+) ]] && echo "${BASH_REMATCH[1]}"
}

# refused_by_roe TEXT WORDS COMMAND... - it fails, and roe has one line in the kernel log
# about that, with WORDS (an extended regular expression); rdma_rxe may be silent
refused_by_roe()
{
	local text=$1 words=$2 before
	shift 2
	if [ "$ROE_TYPE" != roe ]; then
		refused "$text" "too many open files|exist|$words" "$@"
		return
	fi
	before=$(dmesg | grep -c 'roe: ')
	one_line()
	{
		! "$@" || return
		dmesg | grep 'roe: ' | tail -n +$((before + 1)) > "$TMP/lines"
		cat "$TMP/lines"
		[ "$(wc -l < "$TMP/lines")" = 1 ] && grep -qE "roe: $words" "$TMP/lines"
	}
	check "$text" one_line "$@"
}

# speed MBIT RATE - the netdev rtap has that speed, and the port RATE (Gb/s and lanes)
speed()
{
	local rate

	ethtool -s rtap speed "$1" duplex full || return
	rate=$(cat /sys/class/infiniband/roe0/ports/1/rate)
	echo "$rate"
	# the name of the lanes' speed is the core's affair
	[[ $rate =~ ^"${2%:*}"\ Gb/sec\ \("${2#*:}"X\ .*\)$ ]]
}

# other_guid NETDEV... - a link on each of these, which have one MAC: no two GUIDs are
# the same, and the last one comes back with its link
other_guid()
{
	local n i=0 rc=0 all=()

	for n; do
		link_add roe$i "$n" && all+=("$(guid roe$i)") || return
		i=$((i + 1))
	done
	echo "${all[@]}"
	[ "$(printf '%s\n' "${all[@]}" | sort -u | wc -l)" = $# ] || rc=1
	link_del roe$((i - 1)) && link_add roe$((i - 1)) "$n" || return
	[ "$(guid roe$((i - 1)))" = "${all[i - 1]}" ] || rc=1
	while [ $i -gt 0 ]; do
		i=$((i - 1))
		link_del roe$i || return
	done
	return $rc
}

lo_guids()
{
	local a b

	netns_add rguid || return
	link_add roe0 lo && link_add roe1 lo rguid || return
	a=$(guid roe0) && b=$(guid roe1 rguid) || return
	echo "$a $b"
	link_del roe0 && ip netns exec rguid rdma link delete roe1 || return
	ip netns del rguid
	[[ $a != "$b" && "$a$b" != *0000:0000:* ]]
}

port_state()
{
	rdma link show "$1/1" | grep -q "state $2 "
}

active_mtu()
{
	ibv_devinfo -d "$1" | grep -Eq "active_mtu:[[:space:]]+$2 "
}

event_in()
{
	grep -qi "event $1" "$TMP/hold.out"
}

gid_events()
{
	grep -ci "event GID" "$TMP/hold.out"
}

# early_event DELAY - the netdev comes up so long after its link was asked for; when it
# goes down again users are told of that, however the two met
early_event()
{
	local rc=0

	ip link set va down
	(sleep "$1"; ip link set va up) &
	link_add roe0 va && wait $! && start_hold || return
	ip link set va down
	wait_for 20 event_in "port error" || rc=1
	kill "$bg"
	wait "$bg"
	link_del roe0
	return $rc
}

# Registration takes tens of milliseconds: some of these are in the middle of it.
early_events()
{
	local d rc=0

	for d in 0.00 0.01 0.02 0.03 0.04 0.05 0.06 0.08 0.10 0.13; do
		early_event $d || { echo "after $d s"; rc=1; }
	done
	ip link set va up
	return $rc
}

# start_hold [DEV [WORD]] - of the program; the device is roe0 unless said otherwise
# shellcheck disable=SC2120
start_hold()
{
	: > "$TMP/hold.out"
	background hold -d "${1:-roe0}" -t 600 "${@:2}" > "$TMP/hold.out" 2>&1
	wait_for 20 grep -q ready "$TMP/hold.out" && return
	cat "$TMP/hold.out"
	return 1
}

settled()
{
	ip -6 addr show dev "$1" scope link | grep -q inet6 &&
		! ip -6 addr show dev "$1" tentative | grep -q inet6
}

# An ipvlan asks the netdev below it for its speed, which is freed before it if somebody has
# the device on it open: not on behalf of who reads the rate of the port meanwhile. Returns 2 if
# there was no meanwhile to be seen.
below_goes()
{
	local trace=/sys/kernel/tracing del n=0

	modprobe -a dummy ipvlan
	ip link add dm type dummy && netdevs+=(dm) && ip link set dm up &&
		ip link add link dm name ivl type ipvlan || return 1
	no_dad ivl
	ip addr add 10.8.0.1/24 dev ivl && ip link set ivl up && link_add roe0 ivl &&
		wait_gid roe0 10.8.0.1 && start_hold roe0 many || return 1
	held=$bg
	for _ in 1 2 3; do
		background bash -c \
			'while read -r x < /sys/class/infiniband/roe0/ports/1/rate; do :; done' 2>/dev/null
	done
	mountpoint -q $trace || mount -t tracefs tracefs $trace || return 1
	echo "p:asked ipvlan_ethtool_get_link_ksettings" > $trace/kprobe_events || return 1
	ip link del dm &
	del=$!
	wait_for 20 [ ! -e /sys/class/net/dm ]
	echo 1 > $trace/events/kprobes/asked/enable
	[ -e /sys/class/infiniband/roe0/ports/1/rate ] || { echo "the port went first"; n=2; }
	wait_for 20 no_device roe0 && wait $del || n=1
	echo 0 > $trace/events/kprobes/asked/enable
	! grep asked: $trace/trace || n=1
	echo > $trace/kprobe_events
	return $n
}

# This process may be late.
below_gone()
{
	local held rc

	for _ in {1..20}; do
		below_goes
		rc=$?
		[ $rc = 2 ] || return $rc
		kill "$held"
		wait "$held"
	done
	return 1
}

no_device()
{
	! rdma link show | grep -q "link $1/"
}

module_or_die

# --- kinds of netdevs ---
modprobe -a veth bridge 8021q bonding dummy macvlan 2>/dev/null
topo_or_die veth va vb
check "veth" kind va 10.1.0.1
ip link add rbr type bridge && netdevs+=(rbr)
ip link add rdum type dummy && netdevs+=(rdum)
ip link set rdum up master rbr
check "bridge" kind rbr 10.2.0.1
ip link set rdum nomaster
check "dummy" kind rdum 10.3.0.1
ip link add rmac link va type macvlan mode bridge && netdevs+=(rmac)
check "macvlan" kind rmac 10.4.0.1
ip link del rmac
ip link add link va name va.7 type vlan id 7 && netdevs+=(va.7)
if [ "$ROE_TYPE" = roe ]; then
	# a second one would be a second one of va
	vlan()
	{
		kind va.7 10.7.0.1 && link_add roe0 va.7 || return
		rdma link show roe0/1 | grep "netdev va "
		! rdma link add roe1 type roe netdev va && link_del roe0
	}
	check "VLAN: the device of what is below" vlan
	ip link add link va.7 name va.7.9 type vlan id 9 && netdevs+=(va.7.9)
	check "VLAN in a VLAN" kind va.7.9 10.79.0.1
	ip link del va.7.9
fi
ip link del va.7
ip link add rbond type bond mode active-backup && netdevs+=(rbond)
ip link add vc type veth peer name vd && netdevs+=(vc)
ip link set vd up
ip link set vc master rbond
check "bond" kind rbond 10.5.0.1
if [ "$ROE_TYPE" = roe ]; then
	link_lo()
	{
		link_add roe0 lo || return
		traffic roe0 127.0.0.1 || return
		link_del roe0
	}
	check "lo" link_lo

	# The RDMA core does not look at what lo is given.
	link_lo_later()
	{
		local rc=0

		link_add roe0 lo && wait_gid roe0 127.0.0.1 >/dev/null || return
		ip addr add 10.8.8.8/32 dev lo && ip addr add fd08::8/128 dev lo || return
		wait_gid roe0 fd08::8 && traffic roe0 10.8.8.8 || rc=1
		ip addr del 10.8.8.8/32 dev lo
		ip addr del fd08::8/128 dev lo
		link_del roe0 && return $rc
	}
	check "lo, with addresses that it is given later" link_lo_later
	link_del roe0 2>/dev/null

	# Nor does it when a bond ends that is none of Ethernet: no GID may hold it.
	bond_of_tun()
	{
		local rc=0 pid

		modprobe tun 2>/dev/null
		ip tuntap add dev rlow mode tun && netdevs+=(rlow)
		ip link add rup type bond mode active-backup && ip link set rlow master rup || return
		link_add roe0 rlow || return
		ip addr add 10.9.9.1/24 dev rup && ip link set rup up || return
		ip addr add 10.9.8.1/32 dev rlow && wait_gid roe0 10.9.8.1 > /dev/null || return
		ip link del rup &
		pid=$!
		wait_for 20 not_running $pid || rc=1
		link_del roe0 && ip link del rlow && return $rc
	}
	check "a bond over a tun that has a device ends" bond_of_tun
	link_del roe0 2>/dev/null

	# Without the direct way packets cross lo.
	link_lo_crossed()
	{
		local g n

		link_add roe0 lo && g=$(wait_gid roe0 127.0.0.1) || return
		echo 0 > /sys/class/infiniband/roe0/direct
		traffic roe0 127.0.0.1 || return
		n=$(counter roe0 tx_pkts)
		[ "$n" -ge 100 ] || { echo "$n packets over lo"; return 1; }
		pair_run 60 18515 "ibv_ud_pingpong -d roe0 -g $g -n 50" \
			"ibv_ud_pingpong -d roe0 -g $g -n 50 127.0.0.1" || return
		link_del roe0
	}
	check "lo, packets cross it: RC and UD" link_lo_crossed
	link_del roe0 2>/dev/null

	# --- GUIDs ---
	ip link add rpass link vb type macvlan mode passthru && netdevs+=(rpass)
	check "a GUID of its own for each of a bond and its port" other_guid vc rbond
	check "and of a netdev and a macvlan with its MAC" other_guid vb rpass
	check "and of lo in two namespaces" lo_guids
	ip link del rpass
fi

# point_to_point TUN - it says that it is PPP (ARPHRD_PPP)
point_to_point()
{
	python3 - "$1" <<- 'EOF'
		import fcntl, struct, sys
		with open("/dev/net/tun", "r+b", buffering=0) as f:
		    fcntl.ioctl(f, 0x400454ca, struct.pack("16sH22x", sys.argv[1].encode(), 0x1001))
		    fcntl.ioctl(f, 0x400454cd, 512)	# TUNSETLINK
	EOF
	[ "$(cat "/sys/class/net/$1/type")" = 512 ]
}

# --- refusals ---
link_del roe0 2>/dev/null
refused "unknown netdev" "no such|nodev|not found|invalid|wrong" \
	rdma link add roe0 type "$ROE_TYPE" netdev nonesuch
refused "unknown link type" "no such|nodev|not found|invalid|unknown|not supported|type" \
	rdma link add roe0 type nonesuch netdev va
if [ "$ROE_TYPE" = roe ]; then
	modprobe tun 2>/dev/null
	ip tuntap add dev rtun mode tun
	netdevs+=(rtun)
	check "a netdev of another type" point_to_point rtun
	refused_by_roe "a netdev that is not Ethernet" "rtun is not an Ethernet device" \
		rdma link add roe0 type roe netdev rtun
	netns_add rvlan
	ip link add link va name va.8 type vlan id 8
	ip link set va.8 netns rvlan
	refused_by_roe "a VLAN in a namespace without what is below it" \
		"va.8 is a VLAN of another namespace's netdev" \
		ip netns exec rvlan rdma link add roe0 type roe netdev va.8
	ip netns del rvlan
	ip link set vb mtu 300
	refused_by_roe "a netdev with too small an MTU" "vb: MTU 300 is too small" \
		rdma link add roe0 type roe netdev vb
	ip link set vb mtu 9000
	# IPv6 left it with so small an MTU, and begins anew; a QP finds no way to what is tentative
	check "IPv6 is back" wait_for 20 settled vb
	ip tuntap add dev rtap mode tap && netdevs+=(rtap)
	ip link set rtap up
	check "link on a tap device" link_add roe0 rtap
	for s in 40000:40:4 10000:10:1 100000:100:4 40000:40:4; do
		check "speed and lanes follow the netdev: ${s%%:*} Mb/s" speed "${s%%:*}" "${s#*:}"
	done
	link_del roe0
	rmmod roe
	check "rdma link add loads the module" link_add roe0 va
	link_del roe0
fi
[ "$ROE_TYPE" != roe ] || check "the netdev below goes while the port is asked for its rate" below_gone
# A worker ends the device that a netdev leaves behind; who is quicker meets neither its name
# nor its netdev in use, whatever else becomes of that meanwhile.
moved()
{
	local here="" there="ip netns exec rmove" i

	netns_add rmove || return
	for i in 1 2 3 4 5 6; do
		$here rdma link add roe0 type "$ROE_TYPE" netdev vb || return
		# users make its end take longer
		[ $i != 1 ] || start_hold || return
		$here ip link set vb netns "$([ -n "$here" ] && echo 1 || echo rmove)"
		[ -n "$here" ] && here="" || here=$there
		$here ip link set vb mtu $((9000 - i))
	done
	ip netns del rmove
	ip link set vb up
	wait_for 10 no_device roe0
}
[ "$ROE_TYPE" != roe ] || check "a netdev that has just moved" moved
check "a netdev that comes up while the device is made" early_events
check "link on va" link_add roe0 va
refused_by_roe "the same name again" "vb: the name roe0 is in use" \
	rdma link add roe0 type "$ROE_TYPE" netdev vb
refused_by_roe "a second link on the same netdev" "va already has a roe device" \
	rdma link add roe9 type "$ROE_TYPE" netdev va
ip link add link va name va.6 type vlan id 6 && netdevs+=(va.6)
refused_by_roe "nor one on a VLAN over it" "va already has a roe device" \
	rdma link add roe9 type "$ROE_TYPE" netdev va.6
check "the first link has lost nothing" traffic roe0 10.1.0.1
refused "delete a link that is not there" "no such|nodev|not found|invalid|wrong|missing" \
	rdma link delete nonesuch

# --- following the netdev ---
start_hold
for m in 1500:1024 2200:2048 9000:4096 700:512 1500:1024; do
	ip link set va mtu "${m%:*}"
	check "netdev MTU ${m%:*} gives active_mtu ${m#*:}" \
		wait_for 20 active_mtu roe0 "${m#*:}"
done
ip link set va down
check "netdev down: port DOWN" wait_for 20 port_state roe0 DOWN
check "and a port error event" wait_for 20 event_in "port error"
ip link set va up
check "netdev up: port ACTIVE" wait_for 20 port_state roe0 ACTIVE
check "and a port active event" wait_for 20 event_in "port active"
ip link set vb down
check "carrier lost: port DOWN" wait_for 20 port_state roe0 DOWN
ip link set vb up
check "carrier back: port ACTIVE" wait_for 20 port_state roe0 ACTIVE
gid_events=$(gid_events)
ip addr add 10.1.9.1/24 dev va
check "a new address gives a GID" wait_gid roe0 10.1.9.1
check "and an event" wait_for 20 eval '[ "$(gid_events)" -gt "$gid_events" ]'
gid_events=$(gid_events)
check "and traffic" traffic roe0 10.1.9.1
ip addr del 10.1.9.1/24 dev va
check "a removed address takes its GID along" \
	wait_for 20 eval '! gid_index roe0 10.1.9.1'
check "and there is an event" wait_for 20 eval '[ "$(gid_events)" -gt "$gid_events" ]'
ip link set va down
ip link set va name vrenamed
ip link set vrenamed up
ip addr add 10.1.0.1/24 dev vrenamed 2>/dev/null
check "the netdev renamed: the link shows it" \
	wait_for 20 eval 'rdma link show roe0/1 | grep -q "netdev vrenamed"'
check "traffic after it" traffic roe0 10.1.0.1
check "the device renamed" rdma dev set roe0 name roe5
links+=(roe5)
check "traffic after it" traffic roe5 10.1.0.1
rdma dev set roe5 name roe0
kill "$bg" 2>/dev/null
wait "$bg" 2>/dev/null

tap_done
