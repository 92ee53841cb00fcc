#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#
# mcast - multicast through a bridge that forwards a group only to its members:
#
#	netns ra             netns sw               netns rb
#	  roe0 - va ----- pa - brs - pb ----- vb - roe1
#	  10.0.0.1                               10.0.0.2
#
# Arguments: none. Output: TAP. Exit code: 0 if all ok, 1 if not.

# shellcheck disable=SC2034,SC2154 # variables shared with lib.sh
. "$(dirname "$(readlink -f "$0")")/lib.sh"


# port NETNS NETDEV PORT NUMBER - one end, joined to the bridge
port()
{
	ip -n "$1" link add "$2" type veth peer name "$3" netns sw || return
	no_dad "$2" "$1"
	ip -n "$1" addr add "10.0.0.$4/24" dev "$2"
	ip -n "$1" addr add "fd00:a::$4/64" dev "$2" nodad
	ip -n "$1" link set "$2" up
	ip -n sw link set "$3" master brs up
	# What nobody on the port has asked for does not pass.
	ip netns exec sw bridge link set dev "$3" mcast_flood off
}

# The bridge has sent queries, for IPv4 and for IPv6. (Its own count as received.)
queried()
{
	ip -n sw link xstats type bridge dev brs | awk '
		/(IGMP|MLD) queries:/ { kind = $1 }
		kind && /RX:/ { for (i = 3; i <= NF; i += 2) sent[kind] += $i; kind = "" }
		END { exit !(sent["IGMP"] && sent["MLD"]) }'
}

# Without a querier a bridge forwards to nobody, and it is one for IPv6 only once a
# query has left, for which it needs a valid address of its own: its first query
# finds none, and the next one would be due after 31 s. For the time of a response
# from the beginning on it does not trust the answers. (centiseconds)
topo()
{
	netns_add ra && netns_add rb && netns_add sw || return
	ip -n sw link add name brs type bridge mcast_query_response_interval 100 \
		mcast_startup_query_interval 100 mcast_startup_query_count 60 \
		mcast_stats_enabled 1 || return
	ip -n sw link set brs type bridge mcast_querier 1
	no_dad brs sw
	ip -n sw link set brs up
	port ra va pa 1 && port rb vb pb 2 || return
	link_add roe0 va ra && link_add roe1 vb rb || return
	wait_for 20 queried && sleep 1
}

# result NAME FILE - take over the TAP of a program in the background
result()
{
	run_tap "$1" 60 cat "$2"
}

# member PORT GROUP - the bridge has seen the membership
member()
{
	ip netns exec sw bridge mdb show | grep -q "port $1 grp $2"
}

# joined NETNS NETDEV GROUP - is the netdev a member, IP and MAC filter?
joined()
{
	ip -n "$1" maddr show dev "$2" | grep -q "inet6\? *$3"
}

# dump_group GROUP - have tcpdump look at the frame of the next packet from roe0 to it
dump_group()
{
	background ip netns exec ra tcpdump -i va -Q out -nec 1 "udp port 4791 and dst host $1" \
		> "$TMP/frame" 2> "$TMP/dump.err"
	dump=$bg
	wait_for 20 grep -q "listening on" "$TMP/dump.err"
}

# frame_to MAC - that is where it went
frame_to()
{
	wait_for 20 not_running "$dump" || kill "$dump"
	wait "$dump"
	cat "$TMP/frame"
	grep -q " > $1, ethertype" "$TMP/frame"
}

# between GROUP GID-ADDRESS-A GID-ADDRESS-B MAC - from roe0 to roe1
between()
{
	local ga gb rx
	ga=$(ns_gid ra roe0 "$2")
	gb=$(ns_gid rb roe1 "$3")
	check "$1: not a member before" eval "! joined rb vb $1"
	background ip netns exec rb mcast -d roe1 -g "$gb" "$1" 3 0 20 > "$TMP/rx.out" 2>&1
	rx=$bg
	wait_for 20 grep -q ready "$TMP/rx.out"
	check "$1: the netdev is a member" joined rb vb "$1"
	check "$1: with the right MAC address" sh -c "ip -n rb maddr show dev vb | grep -q $4"
	check "$1: the bridge knows" wait_for 20 member pb "$1"
	dump_group "$1"
	run_tap "$1: sender, not a member" 60 ip netns exec ra mcast -d roe0 -g "$ga" "$1" 0 20 0
	check "$1: sent to the group's MAC address" frame_to "$4"
	wait "$rx"
	result "$1: receiver" "$TMP/rx.out"
	check "$1: not a member after it" eval "! joined rb vb $1"
	check "$1: nor its MAC address" sh -c "! ip -n rb maddr show dev vb | grep -q $4"
	run_tap "$1: local copies, the sender's own too" 60 \
		ip netns exec ra mcast -d roe0 -g "$ga" "$1" 4 20 20
	check "$1: not a member after it" eval "! joined ra va $1"
}

module_or_die
modprobe -a veth bridge 2>/dev/null
topo_or_die topo
between 239.1.2.3 10.0.0.1 10.0.0.2 01:00:5e:01:02:03
between ff0e::1:2 fd00:a::1 fd00:a::2 33:33:00:01:00:02
g=$(ns_gid ra roe0 10.0.0.1)
run_tap "refusals" 60 ip netns exec ra mcast -d roe0 -g "$g" 239.7.7.7 api
check "a process that ends attached leaves the group" eval '! joined ra va 239.7.7.7'

# --- two devices, one namespace each, the netdev going ---
background ip netns exec rb mcast -d roe1 -g "$(ns_gid rb roe1 10.0.0.2)" 239.1.2.3 2 0 1 > "$TMP/rx.out" 2>&1
wait_for 20 grep -q ready "$TMP/rx.out"
check "link deleted under members" timeout $((30 * SLOW)) rdma link delete roe1
check "the group is left" wait_for 10 eval '! joined rb vb 239.1.2.3'
kill -9 "$bg"
wait "$bg" 2>/dev/null
link_add roe1 vb rb

# --- a bond: the membership follows the master ---
modprobe bonding 2>/dev/null
ip -n rb link add bond type bond mode active-backup
background ip netns exec rb mcast -d roe1 -g "$(ns_gid rb roe1 10.0.0.2)" 239.1.2.3 1 0 1 > "$TMP/rx.out" 2>&1
wait_for 20 grep -q ready "$TMP/rx.out"
ip -n rb addr flush dev vb
ip -n rb link set vb down
ip -n rb link set vb master bond
ip -n rb addr add 10.0.0.2/24 dev bond
ip -n rb link set bond up
check "netdev enslaved: the bond is the member" wait_for 10 joined rb bond 239.1.2.3
check "and the slave no more" wait_for 10 eval '! joined rb vb 239.1.2.3'
first=$bg
background ip netns exec rb mcast -d roe1 -g "$(ns_gid rb roe1 10.0.0.2)" ff0e::1:9 1 0 1 > "$TMP/rx6.out" 2>&1
wait_for 20 grep -q ready "$TMP/rx6.out"
check "IPv6: the bond is a member" wait_for 10 joined rb bond ff0e::1:9
ip -n rb link set bond mtu 1200
ip -n rb link set bond mtu 1500
check "IPv6: and when it has IPv6 again" wait_for 10 joined rb bond ff0e::1:9
kill -9 "$bg"
wait "$bg" 2>/dev/null
bg=$first
ip -n rb link del bond
check "bond deleted: the netdev again" wait_for 10 joined rb vb 239.1.2.3
kill -9 "$bg"
wait "$bg" 2>/dev/null

# --- what a group is received by: a netdev of two in a VRF, what lies above one ---
# rc, in a VRF: roe2 - xa, roe3 - ya; rd, without: roe4 - xb, roe5 - yb
two_wires()
{
	local n e
	netns_add rc && netns_add rd || return
	ip -n rc link add red type vrf table 10 && ip -n rc link set red up || return
	ip -n rc link add blue type vrf table 11 && ip -n rc link set blue up || return
	for n in x y; do
		ip -n rc link add ${n}a type veth peer name ${n}b netns rd || return
		ip -n rc link set ${n}a master red || return
	done
	for e in "rc xa 10.1.0.1" "rc ya 10.2.0.1" "rd xb 10.1.0.2" "rd yb 10.2.0.2"; do
		# shellcheck disable=SC2086
		set -- $e
		no_dad "$2" "$1"
		ip -n "$1" addr add "$3/24" dev "$2"
		ip -n "$1" addr add "fd00:${3:3:1}::${3: -1}/64" dev "$2" nodad
		ip -n "$1" link set "$2" up
	done
	link_add roe2 xa rc && link_add roe3 ya rc && link_add roe4 xb rd && link_add roe5 yb rd
}

# above NETDEV ADDRESS-C ADDRESS-D - an address on a netdev of each end, in rc NETDEV
# as it is there, in rd the other end of the wire
above()
{
	local b=${4:-xb}
	no_dad "$1" rc
	no_dad "$b" rd
	ip -n rc addr add "$2/24" dev "$1" && ip -n rd addr add "$3/24" dev "$b" || return
	ip -n rc link set "$1" up
	ip -n rd link set "$b" up
}

# on_netdev NETDEV GROUP [NETNS] - a member of the group there, as the RDMA-CM would be
on_netdev()
{
	background ip netns exec "${3:-rc}" python3 -c '
import socket, sys, time
dev, group = socket.if_nametoindex(sys.argv[1]), sys.argv[2]
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.setsockopt(socket.IPPROTO_IP, socket.IP_ADD_MEMBERSHIP,
             socket.inet_aton(group) + bytes(4) + dev.to_bytes(4, sys.byteorder))
time.sleep(600)' "$1" "$2"
	wait_for 20 joined "${3:-rc}" "$1" "$2"
}

# listen DEVICE ADDRESS GROUP WANT - wants so many of the group, and not one more
listen()
{
	background ip netns exec rc mcast -d "$1" -g "$(ns_gid rc "$1" "$2")" "$3" 1 0 "$4" \
		> "$TMP/rx.$1" 2>&1
	wait_for 20 grep -q ready "$TMP/rx.$1"
}

tell()	# DEVICE ADDRESS GROUP NUMBER
{
	ip netns exec rd mcast -d "$1" -g "$(ns_gid rd "$1" "$2")" "$3" 0 "$4" 0
}

# apart GROUP ADDRESSES... - each device of a VRF has what comes in by its own netdev:
# who waits for 7 fails with the 20 of the other
apart()
{
	local x y
	listen roe2 "$2" "$1" 20 && x=$bg && listen roe3 "$3" "$1" 7 && y=$bg || return
	tell roe4 "$4" "$1" 20 && wait "$x" && tell roe5 "$5" "$1" 7 && wait "$y" && return
	cat "$TMP/rx.roe2" "$TMP/rx.roe3"
	return 1
}

# heard NETDEV ADDRESS-C ADDRESS-D GROUP - what comes in by NETDEV is for the device below
heard()
{
	local x
	on_netdev "$1" "$4" || return
	listen roe2 "$2" "$4" 20 && x=$bg && tell roe4 "$3" "$4" 20 && wait "$x" && return
	cat "$TMP/rx.roe2"
	return 1
}

vlan()	# NETNS NETDEV ID
{
	ip -n "$1" link add link "$2" name "$2.$3" type vlan id "$3"
}

modprobe -a vrf 8021q 2>/dev/null
topo_or_die two_wires
check "two devices in a VRF: each its own" apart 239.1.1.1 10.1.0.1 10.2.0.1 10.1.0.2 10.2.0.2
check "two devices in a VRF: IPv6" apart ff0e::1:7 fd00:1::1 fd00:2::1 fd00:1::2 fd00:2::2
vlan rc xa 7 && vlan rd xb 7 && ip -n rc link set xa.7 master blue
above xa.7 10.7.0.1 10.7.0.2 xb.7
check "a VLAN in another VRF" heard xa.7 10.7.0.1 10.7.0.2 239.1.1.7
vlan rc xa 6 && vlan rd xb 6 && ip -n rc link add br6 type bridge && ip -n rc link set xa.6 up master br6
above br6 10.6.0.1 10.6.0.2 xb.6
check "a bridge over a VLAN" heard br6 10.6.0.1 10.6.0.2 239.1.1.6
ip -n rc link add br9 type bridge && ip -n rc link set xa master br9 && ip -n rc link set br9 master red
above br9 10.9.0.1 10.9.0.2
check "a bridge in a VRF" heard br9 10.9.0.1 10.9.0.2 239.1.1.9
vlan rc br9 5 && vlan rd xb 5
above br9.5 10.5.0.1 10.5.0.2 xb.5
check "a VLAN over a bridge" heard br9.5 10.5.0.1 10.5.0.2 239.1.1.5
# A port of a bond that is a port of a bridge: the bridge has the IP, and is the member, before
# the bond is its port and after.
# A bridge lets nothing through a port before it has heard that its carrier is there, up to a
# second later.
forwards()	# NETNS NETDEV
{
	ip -n "$1" -d link show dev "$2" | grep -q "state forwarding"
}

stacked()
{
	local x

	ip -n rc link set ya down nomaster && ip -n rc link add bond3 type bond mode active-backup &&
		ip -n rc link set ya master bond3 && ip -n rc link add br3 type bridge || return
	no_dad br3 rc
	ip -n rc addr add 10.3.0.1/24 dev bond3 && ip -n rd addr add 10.3.0.2/24 dev yb || return
	ip -n rc link set ya up && ip -n rc link set bond3 up && ip -n rc link set br3 up || return
	listen roe3 10.3.0.1 239.1.1.3 20 && x=$bg && joined rc bond3 239.1.1.3 || return
	ip -n rc addr flush dev bond3 && ip -n rc link set bond3 master br3 &&
		ip -n rc addr add 10.3.0.1/24 dev br3 && wait_for 20 joined rc br3 239.1.1.3 &&
		wait_for 20 forwards rc bond3 || return
	ns_gid rc roe3 10.3.0.1 br3 && tell roe5 10.3.0.2 239.1.1.3 20 && wait "$x" && return
	cat "$TMP/rx.roe3"
	return 1
}

modprobe -q bonding
check "a bond in a bridge" stacked

# with_options ADDRESS GROUP - a datagram from there that has IP options, which RoCE has not
with_options()
{
	ip netns exec rd python3 -c '
import socket, sys
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.setsockopt(socket.IPPROTO_IP, socket.IP_OPTIONS, bytes([1, 1, 1, 1]))
s.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_IF, socket.inet_aton(sys.argv[1]))
s.sendto(bytes(64), (sys.argv[2], 4791))' "$1" "$2"
}

# A VLAN of xa in a namespace of its own, where conntrack has its hook behind ours: the first
# packet comes by the socket, which must not keep anything of that namespace.
vlan_space()
{
	local x

	netns_add re && vlan rc xa 8 && vlan rd xb 8 && ip -n rc link set xa.8 netns re || return
	ip netns exec re nft -f - <<- N || return
		table inet roe {
			chain input { type filter hook input priority 0; ct state new accept; }
		}
	N
	no_dad xa.8 re
	no_dad xb.8 rd
	ip -n re addr add 10.8.0.1/24 dev xa.8 && ip -n rd addr add 10.8.0.2/24 dev xb.8 || return
	ip -n re link set xa.8 up
	ip -n rd link set xb.8 up
	on_netdev xa.8 239.1.1.8 re && joiner=$bg || return
	background ip netns exec re mcast -d roe2 -g "$(ns_gid re roe2 10.8.0.1)" 239.1.1.8 1 0 20 \
		> "$TMP/rx.roe2" 2>&1
	x=$bg
	wait_for 20 grep -q ready "$TMP/rx.roe2" && tell roe4 10.8.0.2 239.1.1.8 20 && wait "$x" &&
		with_options 10.8.0.2 239.1.1.8 && return
	cat "$TMP/rx.roe2"
	return 1
}

# One namespace after the other is cleaned up: when that of a veth pair is, the one before it was.
space_ends()
{
	local begin=$SECONDS

	netns_add rf && ip link add wa type veth peer name wb netns rf || return
	kill "$joiner"
	wait "$joiner" 2> /dev/null
	ip netns del re && sleep 0.5 && ip netns del rf && wait_for 60 [ ! -e /sys/class/net/wa ] || return
	echo "# after $((SECONDS - begin)) s"
	[ $((SECONDS - begin)) -lt $((7 * SLOW)) ]
}

joiner=
modprobe -a nf_tables nft_ct nf_conntrack 2>/dev/null
check "a VLAN in a namespace with conntrack" vlan_space
check "and the namespace ends at once" space_ends
tap_done
