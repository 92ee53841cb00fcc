#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#
# ecn - marks of switches, CNPs, and senders that slow down:
#
#	here: roe0, or rxe0 - va 10.0.0.1/24  ----  vb 10.0.0.2/24 - roe1 in netns peer
#
# First a peer of raw sockets (cnp_wire). Then roe on both sides: nftables marks
# everything; netem marks what it would lose; a bottleneck with RED marks where it
# would drop. Last the in-tree rdma_rxe, which knows no CNP.
#
# Arguments: none. Output: TAP. Exit code: 0 if all ok, 1 if not.

# shellcheck disable=SC2034,SC2154 # variables shared with lib.sh
. "$(dirname "$(readlink -f "$0")")/lib.sh"

port=18900
count=$((SLOW > 1 ? 30 : 100))	# messages
in_peer="ip netns exec peer"
np=np_ecn_marked_roce_packets

topo()
{
	netns_add peer && veth va vb && ip link set vb netns peer || return
	no_dad vb peer
	ip addr add 10.0.0.1/24 dev va
	ip -n peer addr add 10.0.0.2/24 dev vb
	ip addr add fd00:a::1/64 dev va nodad
	ip -n peer addr add fd00:a::2/64 dev vb nodad
	ip -n peer link set vb mtu 9000 up
	link_add roe0 va && wait_gid roe0 10.0.0.1 >/dev/null && reach '' 10.0.0.2 fd00:a::2
}

# mark WHAT [NETNS] - packets with these ECN bits leave with CE. With IPv6 the first two
# bytes are written as a whole, version, CE and a flow label that nobody asks for: "ip6 ecn
# set" writes the second byte alone, and kernel 7.2 has a list of the places in an IPv6
# header that may be written to, on which it is not (the rule ends there, silently).
mark()
{
	${2:+ip netns exec $2} nft -f - <<-N
		table inet congestion {
			chain out {
				type filter hook postrouting priority 0;
				udp dport 4791 ip ecn $1 ip ecn set ce
				udp dport 4791 ip6 ecn $1 @nh,0,16 set 0x6030
			}
		}
	N
}

unmark()	# [NETNS]
{
	${1:+ip netns exec $1} nft delete table inet congestion
}

# stream [GID_HERE GID_PEER] - verified: the peer sends to $here, and reads from it
stream()
{
	port=$((port + 1))
	pair_run 60 $port "rc_stream -d $here -g ${1:-$a4} $port $count" \
		"$in_peer rc_stream -d roe1 -g ${2:-$b4} $port $count 10.0.0.1"
}

# reads - from the peer, verified nowhere
reads()
{
	port=$((port + 1))
	pair_run 60 $port "$in_peer ib_read_bw -e -F -p $port -d roe1 -x $b4 -m 1024 -n $count" \
		"ib_read_bw -e -F -p $port -d roe0 -x $a4 -m 1024 -n $count 10.0.0.2"
}

# moves DEVICE NETNS COUNTER COMMAND... - the counter is higher after it; by how much is
# in $moved
moves()
{
	local dev=$1 ns=$2 name=$3 before
	shift 3
	moved=
	before=$(counter "$dev" "$name" $ns)
	"$@" || return
	moved=$(($(counter "$dev" "$name" $ns) - before))
	echo "$name of $dev: +$moved"
	[ $moved -gt 0 ]
}

# rests DEVICE NETNS COUNTER COMMAND... - it is the same
rests()
{
	moves "$@"
	[ "$moved" = 0 ]
}

# missing - packets that roe1 has sent so far and roe0 has not received
missing()
{
	echo $(($(counter roe1 tx_pkts peer) - $(counter roe0 rx_pkts)))
}

none_missing()
{
	[ "$(missing)" = "$before" ]
}

# whole COMMAND... - all packets that roe1 sends meanwhile arrive at roe0. The last ones
# may still wait for a processor to take them in, before and after it.
whole()
{
	local before=
	until none_missing; do
		before=$(missing)
		sleep 0.5
	done
	"$@" || return
	wait_for 20 none_missing
	echo "missing: $before before, $(missing) now"
	none_missing
}

# write_bw [OPTION...] - what the peer can write here in messages of 64 KiB, KB/s in $rate, by the
# program that run-tests puts none of its own before
write_bw()
{
	local n=300 bw=/usr/bin/ib_write_bw
	[ $SLOW = 1 ] || n=100
	port=$((port + 1))
	pair_run 60 $port "$bw -F -p $port -d roe0 -x $a4 -m 1024 -s 65536 -n $n -S 5 $*" \
		"$in_peer $bw -F -p $port -d roe1 -x $b4 -m 1024 -s 65536 -n $n -S 5 $* 10.0.0.1" ||
		return
	rate=$(awk '$1 == 65536 { print int(1000 * $4) }' "$TMP/client.out")
}

# of_qdisc WORD - dropped or marked, of the bottleneck
of_qdisc()
{
	tc -n peer -s qdisc show dev vb | tr '\n' ' ' | sed "s/.*qdisc red//" |
		sed -n "s/.*$1 \([0-9]*\).*/\1/p"
}

# queue QDISC... - for what the peer sends with service level 5
queue()
{
	tc -n peer qdisc add dev vb root handle 1: prio bands 3 \
		priomap 0 0 0 0 0 2 0 0 0 0 0 0 0 0 0 0 &&
		tc -n peer qdisc add dev vb parent 1:3 handle 2: "$@"
}

no_queue()
{
	tc -n peer qdisc del dev vb root
}

# bottleneck SPEED - KB/s; marks or drops more and more from 30 to 90 KB on
bottleneck()
{
	queue tbf rate $((8 * $1))kbit burst 64kb limit 1000000 &&
		tc -n peer qdisc add dev vb parent 2:1 handle 3: red limit 600000 \
			min 30000 max 90000 avpkt 1000 burst 55 bandwidth $((8 * $1))kbit ecn
}

# It is one on a slow host, too: a third of what passes without it, but 5 MB/s at most.
through_bottleneck()
{
	write_bw "$@" || return
	speed=$((rate / 3))
	[ $speed -lt 5000 ] || speed=5000
	[ $speed -gt 1000 ] || speed=1000
	bottleneck $speed && write_bw "$@"
	rc=$?
	marks=$(of_qdisc marked) drops=$(of_qdisc dropped)
	tc -n peer -s qdisc show dev vb
	no_queue
	queued="$rate of $speed KB/s, $marks marked, $drops dropped"
	echo "$queued"
	return $rc
}

# How fast is also up to the host: one that is several times slower for a while does not
# fill the bottleneck, or a processor that stands still there takes no CNP in while
# another one sends. As many rounds as it takes until there was a queue, and the sender
# did with it what it should; what no round may do is checked in each.

# A window that grew while nothing queued may come all at once when the host goes on: so
# few rounds as two may have drops. Without marks all of them have.
congested()
{
	local i lossy=0
	for i in {1..10}; do
		through_bottleneck || return
		if [ "$drops" != 0 ]; then
			lossy=$((lossy + 1))
			[ $lossy -lt 3 ] || return
		elif [ "$marks" -gt 0 ] && [ $((5 * rate)) -ge $((2 * speed)) ]; then
			return
		fi
	done
	return 1
}

# UC, which completes when it has sent, is not much faster than the way
congested_uc()
{
	local i
	for i in {1..10}; do
		through_bottleneck -c UC || return
		[ "$marks" -gt 0 ] && [ $((5 * rate)) -ge $speed ] && [ "$rate" -le $((3 * speed)) ] &&
			return
	done
	return 1
}

congested_without()
{
	local i
	for i in {1..10}; do
		through_bottleneck && [ "$marks" = 0 ] || return
		[ "$drops" -gt 0 ] && return
	done
	return 1
}

modprobe -a veth sch_netem sch_tbf sch_red 2>/dev/null
module_or_die
topo_or_die topo
run_tap cnp_wire 120 cnp_wire -d roe0 -g "$(wait_gid roe0 10.0.0.1)" peer 10.0.0.2 10.0.0.1

# --- roe on both sides ---
topo_or_die link_add roe1 vb peer
here=roe0
a4=$(wait_gid roe0 10.0.0.1)
a6=$(wait_gid roe0 fd00:a::1)
b4=$(ns_gid peer roe1 10.0.0.2)
b6=$(ns_gid peer roe1 fd00:a::2)

check "no marks, no CNPs" rests roe0 "" np_cnp_sent stream
check "marking" mark ect0 peer
check "marked packets are counted and answered, CNPs handled" moves roe0 "" $np \
	moves roe0 "" np_cnp_sent moves roe1 peer rp_cnp_handled stream
check "marked, IPv6: counted, CNPs handled" moves roe0 "" $np \
	moves roe1 peer rp_cnp_handled stream "$a6" "$b6"
check "marking both ways" mark ect0
check "marked READ responses are counted" moves roe1 peer $np stream
unmark
check "... and who sends them is slowed" moves roe1 peer rp_cnp_handled reads
unmark peer

check "netem that marks what it would lose" queue netem loss 3% ecn limit 100000
check "marked packets arrive" moves roe0 "" $np whole write_bw
no_queue

# The debug kernel has no RED, and that of 6.1 tells nothing new.
if [ "$ROE_KERNEL" != debug ] && [ "$ROE_KERNEL" != 6.1 ]; then
	echo N > /sys/module/roe/parameters/gso
	check "a bottleneck that marks: nothing dropped" congested
	echo "# with marks: $queued"
	check "UC as well is slowed" congested_uc
	echo "# UC: $queued"
	echo N > /sys/module/roe/parameters/ecn
	link_del roe0
	$in_peer rdma link delete roe1
	topo_or_die link_add roe0 va
	topo_or_die link_add roe1 vb peer
	a4=$(wait_gid roe0 10.0.0.1)
	b4=$(ns_gid peer roe1 10.0.0.2)
	check "without marks it has to drop" congested_without
	echo "# without: $queued"
	echo Y > /sys/module/roe/parameters/ecn
	echo Y > /sys/module/roe/parameters/gso
	$in_peer rdma link delete roe1
	topo_or_die link_add roe1 vb peer
	b4=$(ns_gid peer roe1 10.0.0.2)
fi

# --- rdma_rxe here; its packets say that they must not be marked ---
link_del roe0
modprobe rdma_rxe && rdma link add rxe0 type rxe netdev va
links+=(rxe0)
here=rxe0
if ! modinfo -n rdma_rxe > /dev/null; then
	tap_skip "rdma_rxe as the peer" "this kernel has no rdma_rxe"
elif a4=$(wait_gid rxe0 10.0.0.1); then
	mark not-ect
	check "rdma_rxe is told of marks, and takes no harm" moves roe1 peer np_cnp_sent stream
	unmark
	mark ect0 peer
	check "rdma_rxe does not tell of marks" rests roe1 peer rp_cnp_handled stream
else
	tap_not_ok "a device of rdma_rxe on the same veth"
fi
tap_done
