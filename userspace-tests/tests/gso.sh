#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#
# gso - several packets in one skb, between two namespaces:
#
#	netns ra                      this namespace (rdma_rxe knows no other)
#	  roe0 - va 10.0.0.1/24  ----  vb 10.0.0.2/24 - roe1, or rxe1
#
# Verified data with trains whole, as lists, cut up by the device, merged by the receiver's
# GRO in both its forms, under tcpdump, behind conntrack, over IPv6, with the
# switch off; then with the in-tree rdma_rxe as the peer.
#
# Arguments: none. Output: TAP. Exit code: 0 if all ok, 1 if not.

# shellcheck disable=SC2034,SC2154 # variables shared with lib.sh
. "$(dirname "$(readlink -f "$0")")/lib.sh"

port=18750
count=$((SLOW > 1 ? 20 : 60))	# messages
in_ra="ip netns exec ra"

topo()
{
	netns_add ra || return
	ip link add vb type veth peer name va netns ra || return
	netdevs+=(vb)
	no_dad va ra
	no_dad vb
	ip -n ra addr add 10.0.0.1/24 dev va
	ip -n ra addr add fd00:a::1/64 dev va nodad
	ip addr add 10.0.0.2/24 dev vb
	ip addr add fd00:a::2/64 dev vb nodad
	ip -n ra link set va mtu 9000 up
	ip link set vb mtu 9000 up
	link_add roe0 va ra && reach ra 10.0.0.2 fd00:a::2
}

gso_switch()
{
	echo "$1" > /sys/module/roe/parameters/gso
}

# stream [GID_A GID_B] - roe0 sends, the device $peer receives and is read from
stream()
{
	port=$((port + 1))
	pair_run 60 $port "rc_stream -d $peer -g ${2:-$b4} $port $count" \
		"$in_ra rc_stream -d roe0 -g ${1:-$a4} $port $count 10.0.0.2"
}

# The other way round.
stream_back()
{
	port=$((port + 1))
	pair_run 60 $port "$in_ra rc_stream -d roe0 -g ${1:-$a4} $port $count" \
		"rc_stream -d $peer -g ${2:-$b4} $port $count 10.0.0.1"
}

# watch NETDEV [NETNS] - count the RoCE skbs that it receives: behind its GRO, which
# has nothing to do if they come as trains
watch()
{
	${2:+ip netns exec $2} nft -f - <<-N
		table netdev seen {
			counter roce { }
			counter plain { }
			chain in {
				type filter hook ingress device "$1" priority 0;
				udp dport 4791 counter name roce
				udp dport 4791 udp checksum 0 counter name plain
			}
		}
	N
}

skbs()	# [NETNS [COUNTER]]
{
	local all
	all=$(${1:+ip netns exec $1} nft list counter netdev seen "${2:-roce}") || return
	[[ $all =~ "packets "([0-9]+) ]] && echo "${BASH_REMATCH[1]}"
}

# density COMMAND... - packets that roe1 takes for one skb on its netdev meanwhile, times 100;
# messages have 8 to 10, with an atomic's one between them. What is not acknowledged in some round
# trips roe0 sends again, alone or not, on a host that stands still for longer as well: as many
# rounds as it takes until one had little of it, and that is not counted.
density()
{
	local -x RT_BULK=1
	local p s a last now i
	for i in {1..40}; do
		p=$(counter roe1 rx_pkts) s=$(skbs) a=$(counter roe0 retransmitted_pkts ra)
		"$@" || return
		# the last ones may have been counted as skbs only so far
		last='' now=
		until [ "$last" = "${now:=$(counter roe1 rx_pkts) $(skbs)}" ]; do
			last=$now now=
			nap
		done
		p=$((${last% *} - p)) s=$((${last#* } - s))
		a=$(($(counter roe0 retransmitted_pkts ra) - a))
		echo "# $p packets for roe1 in $s skbs, $a sent again"
		[ $a -ge 20 ] || break
	done
	[ $a -lt 20 ] && [ $s -gt $a ] && dense=$((100 * (p - a) / (s - a)))
}

# trains COMMAND... - leave whole; but for lists no skb, of whatever is sent alone, lacks the
# checksum that the others of its flow have
trains()
{
	local plain
	plain=$(skbs "" plain)
	density "$@" || return
	plain=$(($(skbs "" plain) - plain))
	echo "# $plain skbs without a checksum"
	[ "$dense" -gt 250 ] && { [ -n "${bare:-}" ] || [ $plain = 0 ]; }
}

singles()	# COMMAND... - every packet is an skb of its own
{
	density "$@" && [ "$dense" -le 100 ]
}

few_trains()	# COMMAND... - all but the first burst
{
	density "$@" && [ "$dense" -lt 110 ]
}

# lists COMMAND... - nearly all skbs of roe0 have no UDP checksum, as those have that are written
# for a netdev without scatter-gather; the first burst of a QP finds out
lists()
{
	local all plain bare=1
	all=$(skbs) plain=$(skbs "" plain)
	"$@" || return
	all=$(($(skbs) - all)) plain=$(($(skbs "" plain) - plain))
	echo "# $plain of $all skbs without a checksum"
	[ $((10 * plain)) -gt $((9 * all)) ]
}

# bytes and packets that roe0 has sent and roe1 has received, and those of the way back
books()
{
	local a b c
	a=$($in_ra rdma statistic show link roe0/1) && b=$(rdma statistic show link roe1/1) || return
	for c in "tx_bytes $a" "tx_pkts $a" "rx_bytes $b" "rx_pkts $b" \
		 "tx_bytes $b" "tx_pkts $b" "rx_bytes $a" "rx_pkts $a"; do
		[[ ${c#* } =~ " ${c%% *} "([0-9]+) ]] && echo "${BASH_REMATCH[1]}"
	done
}

# agree [GID_A GID_B] - both ends count the same bytes; a round in which a packet was
# lost on the way tells nothing
agree()
{
	local i n d now was last
	for i in {1..10}; do
		mapfile -t was < <(books)
		stream "$@" || return
		now='' last=
		until [ "$last" = "${now:=$(books)}" ]; do
			last=$now now=
			nap
		done
		mapfile -t d <<< "$now"
		for n in "${!d[@]}"; do
			d[n]=$((d[n] - was[n]))
		done
		echo "# bytes and packets sent and received: ${d[*]}"
		[ "${d[1]}" = "${d[3]}" ] && [ "${d[5]}" = "${d[7]}" ] || continue
		[ "${d[0]}" = "${d[2]}" ] && [ "${d[4]}" = "${d[6]}" ]
		return
	done
	return 1
}

ROE_PARAMS=	# the switch under test
module_or_die
topo_or_die topo
topo_or_die link_add roe1 vb
watch vb
peer=roe1
a4=$(ns_gid ra roe0 10.0.0.1)
a6=$(ns_gid ra roe0 fd00:a::1)
b4=$(wait_gid roe1 10.0.0.2)
b6=$(wait_gid roe1 fd00:a::2)

check "trains cross a veth whole" trains stream
check "trains over IPv6" trains stream "$a6" "$b6"
check "trains: both ends count the same bytes" agree
# On the debug kernel "trains over IPv6" sends the same packets.
if [ $SLOW = 1 ]; then
	check "trains: both ends count the same bytes, IPv6" agree "$a6" "$b6"
fi
$in_ra ethtool -K va tx-udp-segmentation off
check "a device that cuts trains up" singles stream
[ $SLOW != 1 ] || check "a device that cuts trains up, IPv6" singles stream "$a6" "$b6"
$in_ra ethtool -K va tx-udp-segmentation on
# What has no scatter-gather gets complete packets, here in lists that it passes on.
$in_ra ethtool -K va tx-scatter-gather off
check "no scatter-gather: lists" lists trains stream
check "no scatter-gather: lists, IPv6" lists trains stream "$a6" "$b6"
check "no scatter-gather: both ends count the same bytes" agree
$in_ra ethtool -K va tx-scatter-gather-fraglist off
check "no scatter-gather: a device that cuts them up" lists few_trains stream
gso_switch N
check "no scatter-gather: switched off" lists singles stream
$in_ra ethtool -K va sg on
check "switched off" singles stream
check "switched off: both ends count the same bytes" agree
# On the debug kernel IPv6 is sent like this for the lists below.
if [ $SLOW = 1 ]; then
	check "switched off, IPv6" singles stream "$a6" "$b6"
	check "switched off: both ends count the same bytes, IPv6" agree "$a6" "$b6"
fi
# Now the receiver's GRO: veth polls only for a sender without any TSO.
$in_ra ethtool -K va tso off
ethtool -K vb gro on
check "singles become lists on arrival" trains stream
check "singles become lists on arrival, IPv6" trains stream "$a6" "$b6"

# A tag that no adapter takes off.
on_vlan()
{
	local ga gb rc

	$in_ra ethtool -K va tx-vlan-offload off
	$in_ra ip link add link va name va.7 type vlan id 7 && ip link add link vb name vb.7 type vlan id 7 ||
		return
	no_dad va.7 ra
	no_dad vb.7
	$in_ra ip addr add 10.7.0.1/24 dev va.7
	ip addr add 10.7.0.2/24 dev vb.7
	$in_ra ip link set va.7 up
	ip link set vb.7 up
	ga=$(ns_gid ra roe0 10.7.0.1) && gb=$(wait_gid roe1 10.7.0.2) && reach ra 10.7.0.2 || return
	trains stream "$ga" "$gb"
	rc=$?
	ip link del vb.7
	$in_ra ip link del va.7
	$in_ra ethtool -K va tx-vlan-offload on
	return $rc
}

# What this host only forwards leaves it as it came, whatever was lost before.
through_us()
{
	local g

	netns_add rc || return
	ip link add vc type veth peer name vr netns rc || return
	netdevs+=(vc)
	ip -n rc addr add 10.1.0.2/24 dev vr
	ip addr add 10.1.0.1/24 dev vc
	ip -n rc link set vr mtu 9000 up
	ip link set vc mtu 9000 up
	ip -n rc route add default via 10.1.0.1
	$in_ra ip route add 10.1.0.0/24 via 10.0.0.2
	echo 1 > /proc/sys/net/ipv4/ip_forward
	reach ra 10.1.0.2 || return
	# each packet alone again, as on a wire
	ethtool -K vc tx-gso-list off tx-udp-segmentation off
	$in_ra tc qdisc add dev va root netem delay 2ms loss 3%
	link_add roe2 vr rc && g=$(ns_gid rc roe2 10.1.0.2) || return
	port=$((port + 1))
	pair_run 120 $port "ip netns exec rc rc_stream -d roe2 -g $g $port $count" \
		"$in_ra rc_stream -d roe0 -g $a4 $port $count 10.1.0.2" || return
	$in_ra tc qdisc del dev va root
	counters=$(counter roe2 rx_pkts rc),$(counter roe2 rx_icrc_encapsulated rc)
	echo "# received, with a wrong ICRC: $counters"
	ip netns exec rc rdma link delete roe2
	[ "${counters#*,}" = 0 ]
}

# What comes in goes on by another pair of veths, which does not take lists: they are cut
# up again, and some of their packets are missing.
cut_up()
{
	local wrong list rc
	ip link add vx type veth peer name vy address "$(cat /sys/class/net/vb/address)" || return
	netdevs+=(vx)
	ethtool -K vx tx-gso-list off
	ip link set vx mtu 9000 up && ip link set vy mtu 9000 up && tc qdisc add dev vb ingress &&
	tc filter add dev vb parent ffff: protocol ip u32 match ip protocol 17 0xff \
		match ip dport 4791 0xffff action mirred egress redirect dev vx || return
	$in_ra tc qdisc add dev va root netem delay 2ms loss 3%
	tcpdump -i vb -c 1 -w /dev/null udp dst port 4791 and greater 9100 2> "$TMP/dump.list" &
	list=$!
	pids+=("$list")
	wait_for 30 grep -q "listening on" "$TMP/dump.list"
	wrong=$(counter roe1 rx_icrc_encapsulated)
	stream
	rc=$?
	wrong=$(($(counter roe1 rx_icrc_encapsulated) - wrong))
	echo "# with a wrong ICRC: $wrong"
	$in_ra tc qdisc del dev va root
	tc -s filter show dev vb parent ffff:
	tc qdisc del dev vb ingress
	ip link del vx
	[ $rc = 0 ] && [ "$wrong" = 0 ] && wait_for 20 not_running "$list"
}

# round_trips VAR - 100 of them, in hundredths of a second
round_trips()
{
	local took
	port=$((port + 1))
	pair_run 60 $port "ibv_rc_pingpong -d roe1 -g $b4 -p $port -n 100" \
		"$in_ra ibv_rc_pingpong -d roe0 -g $a4 -p $port -n 100 10.0.0.2" || return
	took=$(sed -n 's/^100 iters in \([0-9.]*\) seconds.*/\1/p' "$TMP/client.out")
	echo "# 100 round trips: $took s"
	took=${took/./}
	printf -v "$1" %d "$((10#$took))"
}

# A NIC whose GRO holds packets for 20 ms, 2 s for 100 messages. Those that are answered do not
# wait so long: they take less than half of that longer than without, one time out of some, as
# the host may be busy.
held()
{
	local free=0 took=0 i
	for i in {1..5}; do
		echo 0 > /sys/class/net/vb/gro_flush_timeout
		round_trips free || return
		echo 20000000 > /sys/class/net/vb/gro_flush_timeout
		round_trips took || return
		[ $((took - free)) -ge 100 ] || return 0
	done
	return 1
}

check "a NIC that holds packets does not hold messages" held
check "and makes lists" trains stream
echo 0 > /sys/class/net/vb/gro_flush_timeout
check "lists on a VLAN" on_vlan
check "lists of what is forwarded" through_us
check "lists with gaps that are cut up" cut_up
ethtool -K vb rx-udp-gro-forwarding on
check "singles merged by GRO" trains stream
ethtool -K vb rx-udp-gro-forwarding off rx-gro-list on
check "singles merged to a list by GRO" trains stream
gso_switch Y
check "trains while GRO makes lists" trains stream
ethtool -K vb rx-gro-list off gro off
$in_ra ethtool -K va tso on

$in_ra tcpdump -i va -w /dev/null udp port 4791 2> "$TMP/dump.va" &
pids+=($!)
tcpdump -i vb -w /dev/null udp port 4791 2> "$TMP/dump.vb" &
pids+=($!)
wait_for 30 grep -q "listening on" "$TMP/dump.va"
wait_for 30 grep -q "listening on" "$TMP/dump.vb"
check "trains under tcpdump at both ends" trains stream
kill "${pids[@]}" 2>/dev/null
pids=()

# tracked COMMAND... - conntrack keeps its entry of the flow: what is not confirmed by its first
# packet is a new one for each of them
tracked()
{
	local known new
	nft reset counters table inet t > /dev/null
	"$@" || return
	known=$(named known) new=$(named new)
	echo "# $known skbs of flows with three before them, $new of newer ones"
	[ $known -gt $((3 * new)) ]
}

named()	# COUNTER
{
	[[ $(nft list counter inet t "$1") =~ "packets "([0-9]+) ]] && echo "${BASH_REMATCH[1]}"
}

nft -f - <<-N
	table inet t {
		counter known { }
		counter new { }
		chain in {
			type filter hook input priority 0;
			udp dport 4791 ct original packets > 3 counter name known accept
			udp dport 4791 counter name new accept
		}
	}
N
sysctl -qw net.netfilter.nf_conntrack_acct=1
check "trains behind conntrack" tracked trains stream
nft flush chain inet t in
nft add rule inet t in udp dport 4791 drop
before=$(counter roe1 rx_pkts)
sent=$(counter roe0 tx_pkts ra)
port=$((port + 1))
RT_TIMEOUT=1 timeout 10 rc_stream -d roe1 -g "$b4" $port 5 > /dev/null 2>&1 &
server=$!
wait_for 10 listening $port
RT_TIMEOUT=1 $in_ra timeout 10 rc_stream -d roe0 -g "$a4" $port 5 10.0.0.2 > /dev/null 2>&1
kill $server 2>/dev/null
wait $server 2>/dev/null
check "packets leave for a firewall that drops port 4791" [ "$(counter roe0 tx_pkts ra)" -gt "$sent" ]
check "and it stops them" [ "$(counter roe1 rx_pkts)" = "$before" ]

# found_out COMMAND... - and the QP that sends says in the kernel log that trains do not arrive
found_out()
{
	local said='roe0.*single packets arrive and trains do not' before

	before=$(dmesg | grep -c "$said")
	"$@" || return
	[ "$(dmesg | grep -c "$said")" -gt "$before" ]
}

nft flush chain inet t in
nft add rule inet t in udp dport 4791 meta length gt 5000 drop
port=$((port + 1))
check "a firewall that drops trains and nothing else" found_out pair_run 100 $port \
	"ib_write_bw -F -d roe1 -x $b4 -p $port -s 65536 -n 100" \
	"$in_ra ib_write_bw -F -d roe0 -x $a4 -p $port -s 65536 -n 100 10.0.0.2"
check "and data get through it" stream
nft delete table inet t
nft delete table netdev seen

check "no wrong ICRC" [ "$(counter roe0 rx_icrc_encapsulated ra)$(counter roe1 rx_icrc_encapsulated)" = 00 ]

# vb becomes a port of a bridge, which has its address and its rdma_rxe then.
on_bridge()
{
	rdma link delete rxe1 && ip link add rbr type bridge || return
	netdevs+=(rbr)
	ip addr flush dev vb
	ip link set vb master rbr && ip addr add 10.0.0.2/24 dev rbr &&
		ip link set rbr mtu 9000 up && rdma link add rxe1 type rxe netdev rbr &&
		b4=$(wait_gid rxe1 10.0.0.2) && reach ra 10.0.0.2 && stream "$a4" "$b4" &&
		stream_back "$a4" "$b4"
}

# rdma_rxe takes the port, so our socket there has to go first.
link_del roe1
modprobe rdma_rxe && rdma link add rxe1 type rxe netdev vb
links+=(rxe1)
if ! modinfo -n rdma_rxe > /dev/null; then
	tap_skip "rdma_rxe as the peer" "this kernel has no rdma_rxe"
elif b4=$(wait_gid rxe1 10.0.0.2) && b6=$(wait_gid rxe1 fd00:a::2); then
	peer=rxe1
	# On the debug kernel trains only: they are cut up on arrival, so it is given the same.
	[ $SLOW = 1 ] && switch="Y N" || switch=Y
	for sw in $switch; do
		gso_switch $sw
		check "gso=$sw: to and from rdma_rxe" stream
		check "gso=$sw: to and from rdma_rxe, its requests" stream_back
		check "gso=$sw: to and from rdma_rxe, IPv6" stream "$a6" "$b6"
	done
	gso_switch Y
	$in_ra ethtool -K va sg off
	check "no scatter-gather: to and from rdma_rxe" stream
	if [ $SLOW = 1 ]; then
		check "no scatter-gather: to and from rdma_rxe, IPv6" stream "$a6" "$b6"
		$in_ra ethtool -K va sg on
		check "to and from rdma_rxe on a bridge" on_bridge
	fi
	check "no wrong ICRC from rdma_rxe" [ "$(counter roe0 rx_icrc_encapsulated ra)" = 0 ]
else
	tap_not_ok "a device of rdma_rxe on the same veth"
fi
tap_done
