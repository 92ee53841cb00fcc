#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#
# networks - what lies between two devices: VLANs, a bond and a bridge, macvlan,
# VRF, a router, and what changes there while data flows.
#
#	netns ra                              netns rb
#	  roe0 - va 10.0.0.1, fd00:a::1  ----  vb 10.0.0.2, fd00:a::2 - roe1
#	         va.7 10.7.0.1           ----  vb.7 10.7.0.2
#	netns re                              netns rf
#	  roe4 - bond0 of e1 and e2      ----  br0 of f1 and f2 - roe5
#
# Arguments: none. Output: TAP. Exit code: 0 if all ok, 1 if not.

# shellcheck disable=SC2034,SC2154 # variables shared with lib.sh
. "$(dirname "$(readlink -f "$0")")/lib.sh"


topo()
{
	netns_add ra && netns_add rb || return
	ip -n ra link add va type veth peer name vb netns rb || return
	no_dad va ra
	no_dad vb rb
	ip -n ra addr add 10.0.0.1/24 dev va
	ip -n ra addr add fd00:a::1/64 dev va nodad
	ip -n rb addr add 10.0.0.2/24 dev vb
	ip -n rb addr add fd00:a::2/64 dev vb nodad
	ip -n ra link set va mtu 4300 up
	ip -n rb link set vb mtu 4300 up
	link_add roe0 va ra && link_add roe1 vb rb && reach ra 10.0.0.2 fd00:a::2
}

# whose server is in the first namespace, whose client in the second
ends=(ra roe0 rb roe1)

# stream DEVA ADDRA DEVB ADDRB [N] - verified, between these source GIDs; the
# exchange over TCP goes to 10.0.0.1 or, in $tcp, another address of ra
stream()
{
	local ga gb
	ga=$(ns_gid "${ends[0]}" "$1" "$2") && gb=$(ns_gid "${ends[2]}" "$3" "$4") || return
	pair_run 120 18700 "ip netns exec ${ends[0]} rc_stream -d $1 -g $ga 18700 ${5:-40}" \
		"ip netns exec ${ends[2]} rc_stream -d $3 -g $gb 18700 ${5:-40} ${tcp:-10.0.0.1}"
}

# captured FILTER PATTERN COMMAND... - what the command sends looks so, in the
# words of tcpdump, when it leaves on vb
captured()
{
	local filter=$1 pattern=$2 dump
	shift 2
	# shellcheck disable=SC2086
	ip netns exec rb tcpdump -i vb -Q out -nevc 3 $filter > "$TMP/dump" 2>"$TMP/dump.err" &
	dump=$!
	pids+=("$dump")
	wait_for 20 grep -q "listening on" "$TMP/dump.err" || return
	"$@" || return
	wait_for 10 sh -c "! kill -0 $dump" || kill $dump
	wait $dump
	cat "$TMP/dump"
	tr '\n' ' ' < "$TMP/dump" | grep -qE "$pattern"
}

# while_streaming TEXT COMMAND... - a stream goes on while the command disturbs it, and
# loses nothing. It has some pace until the command is done, enough messages for that to
# take a minute on a slow machine, and hurries then.
while_streaming()
{
	local text=$1 s ga gb rc
	shift
	ga=$(ns_gid "${ends[0]}" "${ends[1]}" "${sa:-10.0.0.1}")
	gb=$(ns_gid "${ends[2]}" "${ends[3]}" "${sb:-10.0.0.2}")
	sent=$(packets_sent)
	touch "$TMP/pace"
	RT_PACE_MS=80 RT_PACE_WHILE=$TMP/pace RT_ACK_TIMEOUT=18 pair_run 120 18700 \
		"ip netns exec ${ends[0]} rc_stream -d ${ends[1]} -g $ga 18700 700" \
		"ip netns exec ${ends[2]} rc_stream -d ${ends[3]} -g $gb 18700 700 ${tcp:-10.0.0.1}" \
		> "$TMP/stream.out" 2>&1 &
	s=$!
	wait_for 20 moving || echo "the stream does not start" >> "$TMP/stream.out"
	"$@" > "$TMP/disturb.out" 2>&1
	rc=$?
	if ! kill -0 $s 2>/dev/null; then
		echo "the stream ended before the disturbance" >> "$TMP/disturb.out"
		rc=1
	fi
	rm "$TMP/pace"
	if wait $s && [ $rc = 0 ]; then
		tap_ok "$text"
	else
		tap_not_ok "$text"
		cat "$TMP/disturb.out" "$TMP/stream.out" | tail -n 30 | tap_diag
	fi
}

packets_sent()
{
	counter "${ends[3]}" tx_pkts "${ends[2]}"
}

# Packets have left the client's device since the last call.
sent=0
moving()
{
	local n
	n=$(packets_sent)
	[ "$n" -gt $((sent + 20)) ] && sent=$n
}

# stop_and_go DOWN UP - both run in a shell, with a pause in which nothing passes
stop_and_go()
{
	bash -c "$1" || return
	sleep 0.5
	bash -c "$2" || return
	sent=$(packets_sent)
	wait_for 20 moving
}

module_or_die
modprobe -a veth 8021q bonding bridge macvlan vrf 2>/dev/null
topo_or_die topo

# --- headers ---
export RT_TCLASS=0x6a
check "IPv4: TOS of the address vector" \
	captured "udp port 4791" "tos 0x6a.*DF" stream roe0 10.0.0.1 roe1 10.0.0.2 5
# of a flow label only 20 bits are one: the others are not for the rest of the header
export RT_TCLASS=0x29 RT_FLOW=0xfff12345
check "IPv6: traffic class and flow label" \
	captured "udp port 4791" "class 0x29, flowlabel 0x12345" \
	stream roe0 fd00:a::1 roe1 fd00:a::2 5
unset RT_TCLASS RT_FLOW

# source_ports - of what tcpdump has written so far, how often each
source_ports()
{
	sed -n 's/.*IP 10\.0\.0\.2\.\([0-9]*\) >.*/\1/p' "$TMP/ports" | sort | uniq -c
}

several_ports()
{
	[ "$(source_ports | wc -l)" -ge 3 ]
}

ports()
{
	local i dump
	ip netns exec rb tcpdump -i vb -Q out -ln udp port 4791 > "$TMP/ports" 2>"$TMP/dump.err" &
	dump=$!
	pids+=("$dump")
	wait_for 20 grep -q "listening on" "$TMP/dump.err" || return
	for i in 1 2 3 4; do
		stream roe0 10.0.0.1 roe1 10.0.0.2 3 || return
	done
	# tcpdump takes its packets a second late
	wait_for 20 several_ports
	kill $dump
	wait $dump
	source_ports
	several_ports
}

check "QPs differ in their UDP source port" ports

# --- VLAN: GIDs of the VLAN netdev in the table of the device below ---
ip -n ra link add link va name va.7 type vlan id 7 egress-qos-map 4:6 5:5
ip -n rb link add link vb name vb.7 type vlan id 7 egress-qos-map 4:6 5:5
no_dad va.7 ra
no_dad vb.7 rb
ip -n ra addr add 10.7.0.1/24 dev va.7
ip -n rb addr add 10.7.0.2/24 dev vb.7
ip -n ra addr add fd00:7::1/64 dev va.7 nodad
ip -n rb addr add fd00:7::2/64 dev vb.7 nodad
ip -n ra link set va.7 up
ip -n rb link set vb.7 up
reach ra 10.7.0.2 fd00:7::2
check "VLAN: its address is a GID of the device below, with its name" \
	ns_gid ra roe0 10.7.0.1 va.7
check "VLAN: tagged packets" captured "vlan 7 and udp port 4791" "vlan 7, p 0.*4791" \
	stream roe0 10.7.0.1 roe1 10.7.0.2
check "VLAN: IPv6" captured "vlan 7 and udp port 4791" "vlan 7.*4791" stream roe0 fd00:7::1 roe1 fd00:7::2
export RT_TCLASS=0xb8
check "VLAN: priority from the traffic class" captured "vlan 7 and udp port 4791" "vlan 7, p 6" \
	stream roe0 10.7.0.1 roe1 10.7.0.2 5
unset RT_TCLASS
export RT_SL=5
check "VLAN: priority from the service level" captured "vlan 7 and udp port 4791" "vlan 7, p 5" \
	stream roe0 10.7.0.1 roe1 10.7.0.2 5
unset RT_SL

# The RDMA-CM has mapped its type of service, none, and gives the result as a service level.
by_cm()
{
	local in_a="ip netns exec ra" in_b="ip netns exec rb"

	cm "rping -s -a 10.7.0.1 -p @P -C 10 -V" "rping -c -a 10.7.0.1 -I 10.7.0.2 -p @P -C 10 -V"
}

ip -n ra link set va.7 type vlan egress-qos-map 0:3 3:1
ip -n rb link set vb.7 type vlan egress-qos-map 0:3 3:1
check "VLAN: priority from the service level of the RDMA-CM" \
	captured "vlan 7 and udp port 4791 and udp[8] < 0x20" "vlan 7, p 3" by_cm
ip -n ra link set va.7 type vlan egress-qos-map 0:0 3:0
ip -n rb link set vb.7 type vlan egress-qos-map 0:0 3:0
check "untagged traffic next to it" stream roe0 10.0.0.1 roe1 10.0.0.2
# A VLAN has the MAC address of the netdev below, and so the same link-local address: two
# GIDs of one device differ by netdev only. What comes in says by which.
link_local()	# NETNS NETDEV
{
	ip -n "$1" -6 -o addr show dev "$2" scope link | sed -n 's,.*inet6 \([^/]*\)/.*,\1,p'
}

# linked_by NETDEV-A NETDEV-B - RDMA-CM over link-local addresses, RC and UD (which
# knows one port only)
linked_by()
{
	local in_a="ip netns exec ra" in_b="ip netns exec rb" a b to r=$TESTS/rping_calm
	a=$(link_local ra "$1") b=$(link_local rb "$2")
	ns_gid ra roe0 "$a" "$1" && ns_gid rb roe1 "$b" "$2" || return
	to=$a%$2 a=$a%$1 b=$b%$2
	cm "$r -s -a $a -p @P -C 10 -V" "$r -c -a $to -I $b -p @P -C 10 -V" || return
	cm "udaddy -b $a -c 2" "udaddy -s $to -b $b -c 2"
}

check "VLAN and untagged: the same link-local address" \
	[ "$(link_local ra va)" = "$(link_local ra va.7)" ]
check "... RDMA-CM untagged" linked_by va vb
check "... RDMA-CM on the VLAN" linked_by va.7 vb.7
check "... tagged there" captured "vlan 7 and udp port 4791" "vlan 7.*4791" linked_by va.7 vb.7

# A bridge has the VLAN of its first port, to the core whenever it looks for a GID of its own
first_port()
{
	ip -n ra link add br8 address 02:00:00:00:08:01 type bridge && ip -n ra link add w8 type veth peer name w9 || return
	ip -n ra link set w8 mtu 9000 up master br8
	ip -n ra link add link va name va.8 up master br8 type vlan id 8
	ip -n rb link add link vb name vb.8 type vlan id 8
	no_dad br8 ra
	no_dad vb.8 rb
	ip -n ra addr add 10.8.0.1/24 dev br8
	ip -n rb addr add 10.8.0.2/24 dev vb.8
	ip -n ra link set br8 up
	ip -n rb link set vb.8 up
	reach ra 10.8.0.2 && ns_gid ra roe0 10.8.0.1 br8 && ns_gid rb roe1 10.8.0.2 vb.8
}

to_bridge()
{
	local in_a="ip netns exec ra" in_b="ip netns exec rb" r=$TESTS/rping_calm
	cm "$r -s -a 10.8.0.1 -p @P -C 10 -V" "$r -c -a 10.8.0.1 -I 10.8.0.2 -p @P -C 10 -V"
}

check "a bridge over another port and a VLAN" first_port
check "... RDMA-CM" to_bridge
ip -n ra link set w8 nomaster
check "... RDMA-CM after its first port has left" to_bridge
ip -n ra link del br8
ip -n ra link del va.8
ip -n rb link del vb.8
check "... and untagged again" captured "udp port 4791" "> [0-9a-f:]*, ethertype IPv6.*4791" \
	linked_by va vb

# with_mtu MTU ADDRA ADDRB - between the GIDs of these addresses
with_mtu()
{
	local ga gb
	ga=$(ns_gid ra roe0 "$2") && gb=$(ns_gid rb roe1 "$3") || return
	pair_run 30 18515 "ip netns exec ra ibv_rc_pingpong -d roe0 -g $ga -m $1 -n 50 -c" \
		"ip netns exec rb ibv_rc_pingpong -d roe1 -g $gb -m $1 -n 50 -c 10.0.0.1"
}

vlan_mtu_refused()
{
	with_mtu 4096 10.7.0.1 10.7.0.2 && return 1
	grep "Failed to modify QP to RTR" "$TMP/client.out" &&
		dmesg | grep "path MTU 4096 refused: the netdev of the GID has room for 1024"
}

# moved MTU - a QP with path MTU 4096 of the untagged GID gets that of the VLAN while it is drained
moved()
{
	ip netns exec rb python3 - "$(ns_gid rb roe1 10.0.0.2)" "$(ns_gid rb roe1 10.7.0.2)" "$1" <<- 'P'
		import sys
		import pyverbs.enums as e
		from pyverbs.addr import AHAttr, GlobalRoute
		from pyverbs.cq import CQ
		from pyverbs.device import Context
		from pyverbs.pd import PD
		from pyverbs.pyverbs_error import PyverbsRDMAError
		from pyverbs.qp import QP, QPAttr, QPCap, QPInitAttr

		old, new, mtu = [int(a) for a in sys.argv[1:]]
		ctx = Context(name="roe1")
		pd, cq = PD(ctx), CQ(ctx, 2)
		qp = QP(pd, QPInitAttr(qp_type=e.IBV_QPT_RC, scq=cq, rcq=cq, cap=QPCap()))

		def at(index):
		    gid = ctx.query_gid(1, index)
		    return AHAttr(gr=GlobalRoute(dgid=gid, sgid_index=index, hop_limit=64), is_global=1, port_num=1)

		attr = QPAttr(port_num=1, path_mtu=mtu)
		attr.dest_qp_num = qp.qp_num
		attr.ah_attr = at(old)
		qp.to_rts(attr)
		attr.qp_state = e.IBV_QPS_SQD
		qp.modify(attr, e.IBV_QP_STATE)
		qp.modify(attr, e.IBV_QP_AV)
		attr.ah_attr = at(new)
		try:
		    qp.modify(attr, e.IBV_QP_AV)
		except PyverbsRDMAError as x:
		    print(x)
		    sys.exit(22 if x.error_code == 22 else 1)
	P
}

vlan_move_refused()
{
	local mtu_4096=5 rc=0
	moved $mtu_4096 || rc=$?
	[ $rc = 22 ]
}

ip -n rb link set vb.7 mtu 1500
check "a path MTU above that of the VLAN is refused" vlan_mtu_refused
check "... also on the way there in SQD" vlan_move_refused
check "... a smaller one is not" with_mtu 1024 10.7.0.1 10.7.0.2
check "... nor in SQD" moved 3
check "... nor without the VLAN" with_mtu 4096 10.0.0.1 10.0.0.2

ip -n ra link del va.7
ip -n rb link del vb.7
check "VLAN deleted: its GIDs go" wait_for 10 eval \
	'! ip netns exec ra grep -qsx 0000:0000:0000:0000:0000:ffff:0a07:0001 /sys/class/infiniband/roe0/ports/1/gids/*'

# --- another netdev of the same subnets, with less room, that other packets prefer ---
# On the same wire, or the core would not find the neighbour: it looks by the best way.
second_netdev()
{
	ip -n ra link add link va name va2 type macvlan mode bridge || return
	no_dad va2 ra
	ip -n ra addr add 10.0.0.21/24 dev va2
	ip -n ra addr add fd00:a::21/64 dev va2 metric 10 nodad
	ip -n ra link set va2 mtu 1500 up
	ip -n ra route add 10.0.0.2 dev va2
	reach ra 10.0.0.2 fd00:a::2 && ip -n ra route get 10.0.0.2 | grep -w va2 &&
		ip -n ra -6 route get fd00:a::2 | grep -w va2
}

# What goes by another netdev than that of its GID does not fit.
check "a better way to the same subnet" second_netdev
check "... packets keep to the netdev of their GID, IPv4" with_mtu 4096 10.0.0.1 10.0.0.2
check "... IPv6" with_mtu 4096 fd00:a::1 fd00:a::2
ip -n ra link del va2

# --- macvlan over the device's netdev ---
ip -n ra link add link va name mv type macvlan mode bridge
ip -n ra addr add 10.0.0.11/24 dev mv
ip -n ra link set mv up
wait_for 20 ip netns exec ra ping -qc 1 -W 5 -I mv 10.0.0.2
check "macvlan: its address is a GID of the device below" \
	stream roe0 10.0.0.11 roe1 10.0.0.2
ip -n ra link del mv

# --- changes under traffic ---
while_streaming "link down and up" stop_and_go \
	"ip -n ra link set va down" "ip -n ra link set va up"
while_streaming "carrier lost and back" stop_and_go \
	"ip -n rb link set vb down" "ip -n rb link set vb up"
while_streaming "address removed and back" stop_and_go \
	"ip -n ra addr del 10.0.0.1/24 dev va" "ip -n ra addr add 10.0.0.1/24 dev va"
while_streaming "neighbour entries flushed" stop_and_go \
	"ip -n ra neigh flush dev va" "ip -n rb neigh flush dev vb"
while_streaming "MAC address changed" stop_and_go \
	"ip -n ra link set va address 02:00:00:00:00:aa" "ip -n rb neigh flush dev vb"
ip -n ra addr add 10.99.0.1/32 dev va
ip -n ra addr add 10.0.0.3/24 dev va
ip -n rb route add 10.99.0.1 via 10.0.0.1 dev vb
sa=10.99.0.1 while_streaming "gateway lost and replaced" stop_and_go \
	"ip -n rb route replace 10.99.0.1 via 10.0.0.77 dev vb" \
	"ip -n rb route replace 10.99.0.1 via 10.0.0.3 dev vb"
while_streaming "firewall shut and opened" stop_and_go \
	"ip netns exec ra nft -f - <<< 'table inet f { chain i { type filter hook input priority 0; udp dport 4791 drop; }; }'" \
	"ip netns exec ra nft delete table inet f"

# The same over IPv6; addresses have gone with their netdevs, above.
ip -n ra addr replace fd00:a::1/64 dev va nodad
ip -n rb addr replace fd00:a::2/64 dev vb nodad
ip -n ra addr add fd00:a::3/64 dev va nodad
ip -n ra addr add fd00:99::1/128 dev va nodad
ip -n rb route add fd00:99::1 via fd00:a::1 dev vb
reach rb fd00:a::1 fd00:a::3 fd00:99::1
sb=fd00:a::2
sa=fd00:a::1 while_streaming "IPv6: address removed and back" stop_and_go \
	"ip -n ra addr del fd00:a::1/64 dev va" "ip -n ra addr add fd00:a::1/64 dev va nodad"
sa=fd00:a::1 while_streaming "IPv6: neighbour entries flushed" stop_and_go \
	"ip -n ra -6 neigh flush dev va" "ip -n rb -6 neigh flush dev vb"
sa=fd00:99::1 while_streaming "IPv6: gateway lost and replaced" stop_and_go \
	"ip -n rb route replace fd00:99::1 via fd00:a::77 dev vb" \
	"ip -n rb route replace fd00:99::1 via fd00:a::3 dev vb"
unset sb

# Of IPv6 no route says that its source address has gone. What is sent ends at once, delivered
# or not.
source_gone()
{
	local ga gb rc=1 s c send="ib_send_bw -c UC -F -s 64 -D 60"

	ip -n rb addr add fd00:a::22/64 dev vb nodad || return
	ga=$(ns_gid ra roe0 fd00:a::1) && gb=$(ns_gid rb roe1 fd00:a::22) || return
	background ip netns exec ra $send -d roe0 -x "$ga"
	s=$bg
	wait_for 20 listening_in ra 18515 || return
	sent=$(packets_sent)
	background ip netns exec rb $send -d roe1 -x "$gb" 10.0.0.1
	c=$bg
	wait_for 20 moving && echo "moves" &&
		ip -n rb addr del fd00:a::22/64 dev vb && wait_for 20 standing &&
		kill -0 "$c" && rc=0
	kill "$s" "$c"
	wait "$s" "$c" 2>/dev/null
	return $rc
}

# The GID of an address that another host has remains, though duplicate address detection has
# found that out: there is no way from there.
source_taken()
{
	local ga gb rc=1 s c send="ib_send_bw -c UC -F -s 64 -D 60"

	ip netns exec rb sysctl -qw net.ipv6.conf.vb.accept_dad=1 &&
		ip -n ra addr add fd00:a::33/64 dev va nodad &&
		ip -n ra addr add fd00:a::44/64 dev va nodad &&
		ip -n rb addr add fd00:a::33/64 dev vb && wait_for 20 dad_failed &&
		ga=$(ns_gid ra roe0 fd00:a::44) && gb=$(ns_gid rb roe1 fd00:a::33) || return
	background ip netns exec ra $send -d roe0 -x "$ga"
	s=$bg
	wait_for 20 listening_in ra 18515 || return
	sent=$(packets_sent)
	background ip netns exec rb $send -d roe1 -x "$gb" 10.0.0.1
	c=$bg
	wait_for 20 sends && sleep 1 && kill -0 "$c" && rc=0
	echo "$(($(packets_sent) - sent)) packets"
	[ "$(packets_sent)" -le $((sent + 2)) ] || rc=1
	kill "$s" "$c"
	wait "$s" "$c" 2>/dev/null
	ip -n ra addr del fd00:a::33/64 dev va && ip -n ra addr del fd00:a::44/64 dev va &&
		ip -n rb addr del fd00:a::33/64 dev vb && no_dad vb rb && return $rc
}

dad_failed()
{
	ip -n rb addr show dev vb dadfailed | grep -q "fd00:a::33/"
}

# The client is at it, whether packets leave or not.
sends()
{
	ip netns exec rb rdma resource show qp link roe1 type UC | grep -q "state RTS"
}

# standing - nothing leaves the client's device
standing()
{
	sent=$(packets_sent)
	sleep 0.5
	[ "$(packets_sent)" -le $((sent + 2)) ]
}

# Datagrams that are lost are lost, and the ping-pong would stand for ever. The new gateway
# is one that is not there yet: until it is, the one that is under way waits with the
# others of its neighbour.
ud_across()
{
	local ga gb rc=1 s c

	ga=$(ns_gid ra roe0 10.99.0.1) && gb=$(ns_gid rb roe1 10.0.0.2) || return
	ip netns exec rb sysctl -qw net.ipv4.neigh.vb.mcast_solicit=60
	sent=$(packets_sent)
	background ip netns exec ra ibv_ud_pingpong -d roe0 -g "$ga" -n 100000000
	s=$bg
	wait_for 20 listening_in ra 18515 || return
	background ip netns exec rb ibv_ud_pingpong -d roe1 -g "$gb" -n 100000000 10.0.0.1
	c=$bg
	wait_for 20 moving && echo "moves" &&
		ip -n rb route replace 10.99.0.1 via 10.0.0.88 dev vb &&
		wait_for 20 standing && echo "waits" &&
		ip -n ra addr add 10.0.0.88/24 dev va && wait_for 20 moving && rc=0
	kill "$s" "$c"
	wait "$s" "$c" 2>/dev/null
	return $rc
}

check "UD: gateway replaced" ud_across
check "IPv6: nothing is sent from an address that has gone" source_gone
check "IPv6: nor from one that is another host's" source_taken

# --- path MTU ---
mtu_refused()
{
	local ga gb
	ga=$(ns_gid ra roe0 10.0.0.1) && gb=$(ns_gid rb roe1 10.0.0.2) || return
	ip -n rb link set vb mtu 1500
	ip netns exec rb ibv_devinfo -d roe1 | grep -E 'active_mtu:[[:space:]]+1024' || return
	pair_run 30 18515 "ip netns exec ra ibv_rc_pingpong -d roe0 -g $ga -m 4096" \
		"ip netns exec rb ibv_rc_pingpong -d roe1 -g $gb -m 4096 10.0.0.1" && return 1
	grep "Failed to modify QP to RTR" "$TMP/client.out"
}

check "a path MTU above the active MTU is refused" mtu_refused
ip -n rb link set vb mtu 4300

# --- two devices of one namespace in different subnets ---
# The core resolves the peer's address by way of the source GID's netdev, as if it
# were another host: that netdev needs a route, and answers must be allowed.
two_subnets()
{
	local dev

	netns_add rd || return
	ip -n rd link add vc type veth peer name vd || return
	for dev in all vc vd; do
		ip netns exec rd sh -c "echo 1 > /proc/sys/net/ipv4/conf/$dev/accept_local;
			echo 0 > /proc/sys/net/ipv4/conf/$dev/rp_filter"
	done
	no_dad vc rd
	no_dad vd rd
	ip -n rd addr add 10.1.0.1/24 dev vc
	ip -n rd addr add 10.2.0.1/24 dev vd
	ip -n rd addr add fd00:c::1/64 dev vc nodad
	ip -n rd addr add fd00:d::1/64 dev vd nodad
	ip -n rd link set vc up
	ip -n rd link set vd up
	ip -n rd route add fd00:d::/64 dev vc metric 2000
	ip -n rd route add fd00:c::/64 dev vd metric 2000
	link_add roe2 vc rd && link_add roe3 vd rd &&
		wait_for 20 neighbour rd vc 10.2.0.1 && wait_for 20 neighbour rd vd 10.1.0.1 &&
		wait_for 20 neighbour rd vc fd00:d::1 && wait_for 20 neighbour rd vd fd00:c::1
}

between_subnets()
{
	local g h
	g=$(ns_gid rd roe2 "$1") && h=$(ns_gid rd roe3 "$2") || return
	pair_run 60 18515 "ip netns exec rd ibv_rc_pingpong -d roe2 -g $g -n 50 -c" \
		"ip netns exec rd ibv_rc_pingpong -d roe3 -g $h -n 50 -c 127.0.0.1"
}

topo_or_die two_subnets
check "one namespace, two subnets: IPv4" between_subnets 10.1.0.1 10.2.0.1
check "one namespace, two subnets: IPv6" between_subnets fd00:c::1 fd00:d::1

# --- a bond, and a bridge across from it ---
bond_and_bridge()
{
	local n
	netns_add re && netns_add rf || return
	ip -n re link add bond0 type bond mode active-backup miimon 50 &&
		ip -n rf link add br0 type bridge || return
	for n in 1 2; do
		ip -n re link add e$n type veth peer name f$n netns rf &&
			ip -n re link set e$n master bond0 &&
			ip -n rf link set f$n master br0 || return
		ip -n re link set e$n up
		ip -n rf link set f$n up
	done
	no_dad bond0 re
	no_dad br0 rf
	ip -n re addr add 10.0.0.1/24 dev bond0
	ip -n rf addr add 10.0.0.2/24 dev br0
	ip -n re link set bond0 up
	ip -n rf link set br0 up
	link_add roe4 bond0 re && link_add roe5 br0 rf || return
	reach re 10.0.0.2
}

# fail_over N - port N of the bridge goes down, the bond sends by the other, N comes back
fail_over()
{
	ip -n rf link set "f$1" down && wait_for 20 bond_uses $((3 - $1)) || return
	sent=$(packets_sent)
	wait_for 20 moving && ip -n rf link set "f$1" up && wait_for 20 bond_has "$1"
}

bond_uses()
{
	ip netns exec re grep -qx "e$1" /sys/class/net/bond0/bonding/active_slave
}

bond_has()
{
	ip netns exec re sh -c "grep -A1 'Slave Interface: e$1' /proc/net/bonding/bond0 | grep -q 'Status: up'"
}

bridge_sees()
{
	local skbs

	skbs=$(ip netns exec rf cat /sys/class/net/br0/statistics/tx_packets)
	case ${ROE_PARAMS:-} in
	*gso=N*) [ "$(counter roe5 tx_pkts rf)" -le "$skbs" ] ;;
	*) [ "$(counter roe5 tx_pkts rf)" -gt "$skbs" ] ;;
	esac
}

topo_or_die bond_and_bridge
ends=(re roe4 rf roe5)
check "a bond and a bridge" stream roe4 10.0.0.1 roe5 10.0.0.2
check "... path MTU 1024: the bridge sees superpackets, unless they are switched off" bridge_sees
while_streaming "a slave of the bond fails" fail_over 1
while_streaming "the other one fails" fail_over 2

# --- devices on a port of each, which have the addresses of what lies above ---
ports_of_both()
{
	ip -n re link set bond0 type bond active_slave e1 && wait_for 20 bond_uses 1 &&
		ip netns exec re rdma link delete roe4 && ip netns exec rf rdma link delete roe5 &&
		link_add roe4 e1 re && link_add roe5 f1 rf && ns_gid re roe4 10.0.0.1 bond0 &&
		ns_gid rf roe5 10.0.0.2 br0
}

check "a port of the bond and one of the bridge" ports_of_both
check "... a stream between the addresses of bond and bridge" stream roe4 10.0.0.1 roe5 10.0.0.2
ends=(ra roe0 rb roe1)

# RDMA-CM listens on the first of the devices that have an address; the request comes by lo.
other_port()
{
	link_add roe6 f2 rf && ns_gid rf roe6 10.0.0.2 br0
}

check "a device on the other port of the bridge, too" other_port
in_a="ip netns exec rf" in_b="ip netns exec rf" r=$TESTS/rping_calm
check "... rping to the address that both have" cm "$r -s -a 10.0.0.2 -p @P -C 10 -V" \
	"$r -c -a 10.0.0.2 -p @P -C 10 -V"
in_a='' in_b=''

# --- VRF ---
vrf()
{
	ip -n ra link add red type vrf table 10 && ip -n ra link set red up || return
	ip -n ra link set va master red
	# to be enslaved takes IPv6 addresses away
	ip -n ra addr replace fd00:a::1/64 dev va nodad
	ip -n rb addr replace fd00:a::2/64 dev vb nodad
	ip -n ra addr add 10.0.9.1/32 dev lo
	wait_for 10 ip -n ra route get 10.0.0.2 vrf red && reach rb 10.0.0.1 fd00:a::1
}

if vrf; then
	# The exchange over TCP has to cross the border of the VRF.
	ip netns exec ra sysctl -qw net.ipv4.tcp_l3mdev_accept=1
	check "VRF: IPv4" stream roe0 10.0.0.1 roe1 10.0.0.2
	check "VRF: IPv6" stream roe0 fd00:a::1 roe1 fd00:a::2
	g=$(ns_gid ra roe0 10.0.0.1)
	check "VRF: to itself" pair_run 60 18515 \
		"ip netns exec ra ip vrf exec red ibv_rc_pingpong -d roe0 -g $g -n 50 -c" \
		"ip netns exec ra ip vrf exec red ibv_rc_pingpong -d roe0 -g $g -n 50 -c 10.0.0.1"
	in_vrf="ip netns exec ra ip vrf exec red"
	h=$(ns_gid rb roe1 10.0.0.2)
	check "VRF: UD" pair_run 60 18515 "$in_vrf ibv_ud_pingpong -d roe0 -g $g -n 100" \
		"ip netns exec rb ibv_ud_pingpong -d roe1 -g $h -n 100 10.0.0.1"
	r=$TESTS/rping_calm
	in_a=$in_vrf in_b="ip netns exec rb"
	check "VRF: rping, server there" cm "$r -s -a 10.0.0.1 -p @P -C 10 -V" \
		"$r -c -a 10.0.0.1 -p @P -C 10 -V"
	check "VRF: udaddy, server there" cm "udaddy -b 10.0.0.1 -c 2" "udaddy -s 10.0.0.1 -c 2"
	in_a="ip netns exec rb" in_b=$in_vrf
	check "VRF: rping, client there" cm "$r -s -a 10.0.0.2 -p @P -C 10 -V" \
		"$r -c -I 10.0.0.1 -a 10.0.0.2 -p @P -C 10 -V"
	check "VRF: udaddy, client there" cm "udaddy -b 10.0.0.2 -c 2" \
		"udaddy -b 10.0.0.1 -s 10.0.0.2 -c 2"
	ip -n ra link del red
else
	tap_not_ok "make a VRF"
fi
tap_done
