#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#
# link - the life of a link: made on each kind of netdev, refused with a clear
# error, following its netdev live, and taken away under its users.
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
	wait_for 5 port_state roe0 ACTIVE || return
	traffic roe0 "$2" || return
	link_del roe0
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

# shellcheck disable=SC2120 # the device is roe0 unless said otherwise
start_hold()
{
	: > "$TMP/hold.out"
	background hold -d "${1:-roe0}" -t $((60 * SLOW)) > "$TMP/hold.out" 2>&1
	wait_for 10 grep -q ready "$TMP/hold.out"
}

no_device()
{
	! rdma link show | grep -q "link $1/"
}

module_or_die

# --- kinds of netdevs ---
modprobe -a veth bridge 8021q bonding dummy 2>/dev/null
topo_or_die veth va vb
check "veth" kind va 10.1.0.1
ip link add rbr type bridge && netdevs+=(rbr)
ip link add rdum type dummy && netdevs+=(rdum)
ip link set rdum up master rbr
check "bridge" kind rbr 10.2.0.1
ip link set rdum nomaster
check "dummy" kind rdum 10.3.0.1
ip link add link va name va.7 type vlan id 7
check "VLAN" kind va.7 10.4.0.1
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
fi

# --- refusals ---
link_del roe0 2>/dev/null
refused "unknown netdev" "no such|nodev|not found|invalid|wrong" \
	rdma link add roe0 type "$ROE_TYPE" netdev nonesuch
refused "unknown link type" "no such|nodev|not found|invalid|unknown|not supported|type" \
	rdma link add roe0 type nonesuch netdev va
if [ "$ROE_TYPE" = roe ]; then
	ip link add rtun type ipip local 10.1.0.1 remote 10.1.0.2 2>/dev/null
	modprobe ipip 2>/dev/null
	ip link add rtun type ipip local 10.1.0.1 remote 10.1.0.2 2>/dev/null
	netdevs+=(rtun)
	refused "a netdev that is not Ethernet" "roe" \
		rdma link add roe0 type roe netdev rtun
fi
check "link on va" link_add roe0 va
refused "the same name again" "exist|in use|taken" \
	rdma link add roe0 type "$ROE_TYPE" netdev vb
refused "a second link on the same netdev" "exist" \
	rdma link add roe9 type "$ROE_TYPE" netdev va
check "the first link has lost nothing" traffic roe0 10.1.0.1
refused "delete a link that is not there" "no such|nodev|not found|invalid|wrong|missing" \
	rdma link delete nonesuch

# --- following the netdev ---
start_hold
for m in 1500:1024 2200:2048 9000:4096 600:512 1500:1024; do
	ip link set va mtu "${m%:*}"
	check "netdev MTU ${m%:*} gives active_mtu ${m#*:}" \
		wait_for 3 active_mtu roe0 "${m#*:}"
done
ip link set va down
check "netdev down: port DOWN" wait_for 3 port_state roe0 DOWN
check "and a port error event" wait_for 3 event_in "port error"
ip link set va up
check "netdev up: port ACTIVE" wait_for 3 port_state roe0 ACTIVE
check "and a port active event" wait_for 3 event_in "port active"
ip link set vb down
check "carrier lost: port DOWN" wait_for 3 port_state roe0 DOWN
ip link set vb up
check "carrier back: port ACTIVE" wait_for 3 port_state roe0 ACTIVE
ip addr add 10.1.9.1/24 dev va
check "a new address gives a GID" wait_gid roe0 10.1.9.1
check "and traffic" traffic roe0 10.1.9.1
ip addr del 10.1.9.1/24 dev va
check "a removed address takes its GID along" \
	wait_for 5 eval '! gid_index roe0 10.1.9.1'
ip link set va down
ip link set va name vrenamed
ip link set vrenamed up
ip addr add 10.1.0.1/24 dev vrenamed 2>/dev/null
check "the netdev renamed: the link shows it" \
	wait_for 3 eval 'rdma link show roe0/1 | grep -q "netdev vrenamed"'
check "traffic after it" traffic roe0 10.1.0.1
check "the device renamed" rdma dev set roe0 name roe5
links+=(roe5)
check "traffic after it" traffic roe5 10.1.0.1
rdma dev set roe5 name roe0
kill "$bg" 2>/dev/null
wait "$bg" 2>/dev/null

# --- taken away under a user ---
if [ "$ROE_TYPE" = roe ]; then
	start_hold
	check "link deleted with an open device" \
		timeout $((20 * SLOW)) rdma link delete roe0
	check "the user is told" wait_for 10 grep -q gone "$TMP/hold.out"
	check "and lives on and ends well" wait "$bg"
	tap_diag < "$TMP/hold.out"

	link_add roe0 vrenamed
	start_hold
	check "netdev deleted with an open device" \
		timeout $((20 * SLOW)) ip link del vrenamed
	check "the device is gone" wait_for 10 no_device roe0
	check "the user is told" wait_for 10 grep -q gone "$TMP/hold.out"
	check "and lives on and ends well" wait "$bg"

	veth va vb
	ip addr add 10.1.0.1/24 dev va
	link_add roe0 va
	check "module unload with an idle device" timeout $((20 * SLOW)) rmmod roe
	check "the device is gone" no_device roe0
	module_or_die
	link_add roe0 va
	start_hold
	# A user pins the module or is cut off; both are right, a hang is not.
	if timeout $((20 * SLOW)) rmmod roe 2> "$TMP/rmmod.err"; then
		check "module unload with a user: the user is told" \
			wait_for 10 grep -q gone "$TMP/hold.out"
		check "and lives on" wait "$bg"
	else
		check "module unload with a user is refused as busy" \
			grep -qi "in use" "$TMP/rmmod.err"
		check "and the user is not harmed" traffic roe0 10.1.0.1
		kill "$bg"
		wait "$bg" 2>/dev/null
		check "and it works without the user" \
			timeout $((20 * SLOW)) rmmod roe
	fi
fi

# --- next to rdma_rxe ---
# rxe of kernels before 7 owns UDP 4791 of the initial namespace from its load
# on, and refuses to load when the port is taken.
next_to_rxe()
{
	local first=$1 gone=$2 stay g loop

	rmmod roe 2>/dev/null
	rmmod rdma_rxe 2>/dev/null
	if [ "$first" = rxe ]; then
		modprobe rdma_rxe && load_roe || return
	else
		load_roe || return
		rdma link add roe0 type roe netdev va || return
		modprobe rdma_rxe || { echo "rdma_rxe does not load"; return 77; }
	fi
	rdma link add rxe0 type rxe netdev vc || return
	no_device roe0 && { rdma link add roe0 type roe netdev va || return; }
	traffic roe0 10.1.0.1 || return
	traffic rxe0 10.6.0.1 || return
	ip link set va mtu 4000
	ip link set vc mtu 4000
	ip link set vc down
	ip link set vc up
	# One goes while packets flow on the other.
	[ "$gone" = roe ] && stay=rxe0 || stay=roe0
	[ $stay = roe0 ] && g=10.1.0.1 || g=10.6.0.1
	g=$(wait_gid $stay $g)
	pair_run 60 18515 "ibv_rc_pingpong -d $stay -g $g -n 3000" \
		"ibv_rc_pingpong -d $stay -g $g -n 3000 127.0.0.1" \
		> "$TMP/loop.out" 2>&1 &
	loop=$!
	sleep 1
	timeout $((30 * SLOW)) rmmod "$(module_of "$gone")"
	echo "rmmod $gone: $?"
	wait $loop
	# rmmod rdma_rxe takes away every device of its driver id, roe's too:
	# nothing can prevent that, but roe must survive and start again.
	if [ "$gone" = roe ]; then
		traffic rxe0 10.6.0.1 || return
	else
		no_device roe0 && { rdma link add roe0 type roe netdev va || return; }
		traffic roe0 10.1.0.1 || return
	fi
	timeout $((30 * SLOW)) rmmod "$([ "$gone" = roe ] && echo rdma_rxe || echo roe)"
}

if [ "$ROE_TYPE" = roe ]; then
	ip link set vc nomaster
	ip link set vc up
	ip addr add 10.6.0.1/24 dev vc
	for order in "rxe roe" "rxe rxe" "roe roe" "roe rxe"; do
		# shellcheck disable=SC2086
		next_to_rxe $order > "$TMP/next.out" 2>&1
		rc=$?
		text="rdma_rxe: ${order% *} loaded first, ${order#* } unloaded first"
		case $rc in
		0) tap_ok "$text" ;;
		77) tap_skip "$text" "rdma_rxe wants the port for itself" ;;
		*) tap_not_ok "$text"; { tail -n 30 "$TMP/next.out"; dmesg | tail -n 8; } | tap_diag ;;
		esac
	done
fi
tap_done
