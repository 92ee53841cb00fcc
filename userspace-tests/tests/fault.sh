#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#
# fault - a verified RC stream while the network below it has trouble, between
#
#	here: roe0 - va 10.0.0.1  ----  vb 10.0.0.2 - roe1 in netns peer
#
# The programs' own TCP takes another veth pair. Each trouble ends before the retries do:
# nothing may be lost, doubled or changed. Last what cannot end well has to end soon.
#
# usage: fault [REGEX]		only the troubles whose name matches
#
# Output: TAP. Exit code: 0 if all ok, 1 if not.

# shellcheck disable=SC2034,SC2154 # variables shared with lib.sh
. "$(dirname "$(readlink -f "$0")")/lib.sh"

only=${1:-.}
port=18700
in_peer="ip netns exec peer"
# 1 s, eight times
export RT_ACK_TIMEOUT=18

topo()
{
	netns_add peer && veth va vb && veth ta tb || return
	ip link set vb netns peer && ip link set tb netns peer || return
	ip addr add 10.0.0.1/24 dev va
	ip addr add 10.9.0.1/24 dev ta
	ip -n peer addr add 10.0.0.2/24 dev vb
	ip -n peer addr add 10.9.0.2/24 dev tb
	ip -n peer link set tb up
	ip -n peer link set vb mtu 9000 up
	link_add roe0 va && link_add roe1 vb peer
}

# stream MESSAGES - the peer sends to us, and reads from us, one message in 10 ms as long
# as the trouble lasts. GIDs that a trouble took away come back somewhere else as long as a
# QP holds the old ones.
stream()
{
	port=$((port + 1))
	a4=$(wait_gid roe0 10.0.0.1) && b4=$(ns_gid peer roe1 10.0.0.2) || return
	RT_PACE_MS=10 RT_PACE_WHILE=$TMP/pace pair_run 60 $port "rc_stream -d roe0 -g $a4 $port $1" \
		"$in_peer rc_stream -d roe1 -g $b4 $port $1 10.9.0.1"
}

# streaming - the client is connected
streaming()
{
	grep -q seed "$TMP/client.out"
}

# shake COMMAND... - once the stream has begun, which hurries when that is over
shake()
{
	local rc
	wait_for 20 streaming
	sleep 0.2
	"$@"
	rc=$?
	rm "$TMP/pace"
	return $rc
}

# What may tell why a stream did not get on.
state()
{
	ip -s link show va
	ip -n peer -s link show vb
	ip route get 10.0.0.2
	ip -n peer route get 10.0.0.1
	ip neigh show dev va
	ip -n peer neigh show dev vb
	nstat -asz 'Ip*' 'Icmp*' 'Udp*' | awk '$2'
	$in_peer nstat -asz 'Ip*' 'Icmp*' 'Udp*' | awk '$2'
	grep -H . /sys/class/infiniband/roe*/ports/1/hw_counters/* | grep -v ':0$'
}

# shaken COMMAND... - runs while a stream does
shaken()
{
	local rc shaker
	rm -f "$TMP/client.out"
	touch "$TMP/pace"
	shake "$@" > "$TMP/shaker.out" 2>&1 &
	shaker=$!
	stream 600
	rc=$?
	if ! wait $shaker; then
		cat "$TMP/shaker.out"
		rc=1
	fi
	[ $rc = 0 ] || state
	return $rc
}

# trouble TEXT FUNCTION
trouble()
{
	[[ $2 =~ $only ]] || return
	check "$1" shaken "$2"
}

# drop RULE SECONDS - what to do with our packets, at both ends
drop()
{
	local n
	for n in "" "$in_peer"; do
		$n nft -f - <<-N || return
			table inet trouble {
				chain in {
					type filter hook input priority 0;
					udp dport 4791 $1
				}
			}
		N
	done
	sleep "$2"
	nft delete table inet trouble && $in_peer nft delete table inet trouble
}

link_down()
{
	ip link set va down && sleep 1 && ip link set va up || return
	sleep 0.3
	ip -n peer link set vb down && sleep 0.3 && ip -n peer link set vb up
}

small_mtu()
{
	ip link set va mtu 1500 && ip -n peer link set vb mtu 1500 && sleep 0.7 &&
		ip link set va mtu 9000 && ip -n peer link set vb mtu 9000
}

neighbours()
{
	ip -n peer neigh replace 10.0.0.1 lladdr 02:00:00:00:00:99 dev vb nud permanent || return
	sleep 0.5
	ip -n peer neigh del 10.0.0.1 dev vb && ip neigh flush dev va || return
	ip -n peer link set vb address 02:00:00:00:12:34
}

address_gone()
{
	ip addr del 10.0.0.1/24 dev va && sleep 0.5 && ip addr add 10.0.0.1/24 dev va || return
	ip -n peer addr del 10.0.0.2/24 dev vb && sleep 0.3 && ip -n peer addr add 10.0.0.2/24 dev vb
}

cpu_gone()
{
	local cpu=/sys/devices/system/cpu/cpu1/online i
	for i in 1 2; do
		echo 0 > $cpu && sleep 0.2 && echo 1 > $cpu || return
		sleep 0.2
	done
}

clock_jumps()
{
	local now
	now=$(date +%s)
	date -s "@$((now + 86400))" && sleep 0.4 && date -s "@$((now - 86400))" && sleep 0.4
	date -s "@$((now + 1))"
}

short_queue()
{
	tc -n peer qdisc replace dev vb root tbf rate 20mbit burst 10kb limit 12000 &&
		sleep 1 && tc -n peer qdisc del dev vb root
}

no_acks()
{
	drop "@th,64,8 0x11 drop" 1
}

every_second()
{
	drop "numgen inc mod 2 0 drop" 1
}

rejected()
{
	drop reject 0.7
}

offloads()
{
	local o
	for o in off on; do
		ethtool -K va gso $o gro $o tx $o rx $o &&
			$in_peer ethtool -K vb gso $o gro $o tx $o rx $o || return
		sleep 0.3
	done
}

process_stops()
{
	pkill -STOP -f "rc_stream -d roe1" && sleep 2 && pkill -CONT -f "rc_stream -d roe1"
}

# all at once, both ways
netem()
{
	local how="netem loss 5% duplicate 5% reorder 5% 50% corrupt 5% delay 2ms 2ms limit 10000"
	# shellcheck disable=SC2086 # words
	tc qdisc replace dev va root $how && tc -n peer qdisc replace dev vb root $how &&
		sleep 1.5 && tc qdisc del dev va root && tc -n peer qdisc del dev vb root
}

# The peer reads 16 MiB through a queue of ours that takes 100 KB, 10 MB a second. What the
# queue refused is sent from there on, so the peer finds few gaps: 1 to 3, where there were
# 160. On a slow host the QP may stand still for longer, or its clock run out.
reads_through_queue()
{
	local p=$((port + 50)) asked rc
	tc qdisc replace dev va root tbf rate 80mbit burst 20kb limit 100kb || return
	asked=$(counter roe0 rx_read_requests)
	asked=$((asked + $(counter roe0 duplicate_request)))
	pair_run 60 $p "ib_read_bw -F -e -p $p -d roe0 -x $a4 -s 1048576 -n 16" \
		"$in_peer ib_read_bw -F -e -p $p -d roe1 -x $b4 -s 1048576 -n 16 10.9.0.1"
	rc=$?
	asked=$(($(counter roe0 rx_read_requests) + $(counter roe0 duplicate_request) - asked))
	tc -s qdisc show dev va
	tc qdisc del dev va root
	echo "# 16 READs asked for $asked times"
	[ $rc = 0 ] && [ $asked -lt 60 ]
}

# The peer reads 128 MiB over a way that changes the order of all packets: it learns to wait
# for the late ones: 40 to 530 are asked for again, on a busy host 1085 were once. One that does
# not learn asks for each READ a hundred times.
reads_overtake()
{
	local p=$((port + 51)) asked rc
	tc qdisc replace dev va root netem delay 500us 300us limit 10000 || return
	asked=$(counter roe0 duplicate_request)
	pair_run 120 $p "ib_read_bw -F -e -p $p -d roe0 -x $a4 -s 65536 -n 2048" \
		"$in_peer ib_read_bw -F -e -p $p -d roe1 -x $b4 -s 65536 -n 2048 10.9.0.1"
	rc=$?
	asked=$(($(counter roe0 duplicate_request) - asked))
	tc qdisc del dev va root
	echo "# of 2048 READs $asked were asked for again"
	[ $rc = 0 ] && [ $asked -lt 8192 ]
}

# windows - of roe1's QPs, each tenth of a second, until it is killed
windows()
{
	while sleep 0.1; do
		rdma resource show qp link roe1 -dd | grep -o 'drv_window [0-9]*'
	done
}

# 20 ms to the peer and back: with 512 packets in flight, as on a short way, that were 26 MB/s
long_way()
{
	local p=$((port + 52)) f=$TMP/windows pid rc most
	tc -n peer qdisc replace dev vb root netem delay 10ms limit 100000 || return
	tc qdisc replace dev va root netem delay 10ms limit 100000
	windows > "$f" &
	pid=$!
	pids+=("$pid")
	# (the one that knows how fast it is: run-tests puts others before it)
	pair_run 120 $p "/usr/bin/ib_write_bw -F -p $p -d roe0 -x $a4 -m 1024 -s 1048576 -n 100" \
		"$in_peer /usr/bin/ib_write_bw -F -p $p -d roe1 -x $b4 -m 1024 -s 1048576 -n 100 10.9.0.1"
	rc=$?
	kill $pid
	wait $pid
	most=$(awk '$2 > most { most = $2 } END { print most + 0 }' "$f")
	tc qdisc del dev va root
	tc -n peer qdisc del dev vb root
	echo "# up to $most packets in flight, $(awk '$1 == 1048576 { print $4 }' "$TMP/client.out") MB/s"
	[ $rc = 0 ] && [ "$most" -gt 600 ]
}

# roe2 here, roe3 at the peer, and between them a router that sends the peer 10 MB a second
# and has room for 256 KB. It marks nothing.
far()
{
	netns_add mid && veth wa ra && veth wb rb || return
	ip link set ra netns mid && ip link set rb netns mid && ip link set wb netns peer || return
	ip addr add 10.1.0.1/24 dev wa
	ip -n mid addr add 10.1.0.2/24 dev ra
	ip -n mid addr add 10.2.0.2/24 dev rb
	ip -n peer addr add 10.2.0.1/24 dev wb
	ip -n mid link set ra mtu 9000 up
	ip -n mid link set rb mtu 9000 up
	ip -n peer link set wb mtu 9000 up
	ip route add 10.2.0.0/24 via 10.1.0.2
	ip -n peer route add 10.1.0.0/24 via 10.2.0.2
	ip netns exec mid sysctl -qw net.ipv4.ip_forward=1
	tc -n mid qdisc add dev rb root tbf rate 80mbit burst 64kb limit 256kb
	link_add roe2 wa && link_add roe3 wb peer && reach '' 10.2.0.1
}

# timed PROGRAM PORT - the peer has 5 times 16 MiB written or read from here; took: ms for that.
# perftest's own rate is 0 where a busy host disturbs how it measures its clock.
timed()
{
	local what="-F -s 16777216 -n 5 -u 16 -p $2" begin=${EPOCHREALTIME/./} rc
	case $1 in
	ib_write_bw*) pair_run 60 "$2" "$in_peer $1 $what -d roe3 -x $b" "$1 $what -d roe2 -x $a 10.9.0.2" ;;
	*) pair_run 60 "$2" "$1 $what -d roe2 -x $a" "$in_peer $1 $what -d roe3 -x $b 10.9.0.1" ;;
	esac
	rc=$?
	took=$(((${EPOCHREALTIME/./} - begin) / 1000))
	return $rc
}

# READ responses have no window, only a rate once some were lost. Without one they fill that
# queue again and again, and hardly any comes through.
reads_far()
{
	local p=$((port + 52)) a b took written rc
	far || return
	a=$(wait_gid roe2 10.1.0.1) && b=$(ns_gid peer roe3 10.2.0.1) || return
	echo N > /sys/class/infiniband/roe2/ecn
	timed ib_write_bw $p || return
	written=$took
	timed "ib_read_bw -e" $((p + 1))
	rc=$?
	echo "# read in $took ms, written in $written ms"
	tc -n mid -s qdisc show dev rb
	link_del roe2
	$in_peer rdma link delete roe3
	[ $rc = 0 ] && [ "$took" -le $((2 * written)) ]
}

# ends COMMAND... - whatever dies at one end of a stream, the other is told
ends()
{
	local rc
	port=$((port + 1))
	RT_ACK_TIMEOUT=14 RT_PACE_MS=10 background rc_stream -d roe0 -g "$a4" $port 900 > "$TMP/server.out" 2>&1
	server=$bg
	rm -f "$TMP/client.out"
	wait_for 20 listening $port
	# shellcheck disable=SC2086 # words
	RT_ACK_TIMEOUT=14 RT_PACE_MS=10 background $in_peer rc_stream -d roe1 -g "$b4" $port 900 10.9.0.1 \
		> "$TMP/client.out" 2>&1
	wait_for 20 streaming
	sleep 0.2
	"$@" || return
	wait_for 15 grep -q "retry counter exceeded" "$TMP/client.out"
	rc=$?
	kill -9 "$server" "$bg" 2>/dev/null
	wait "$server" "$bg" 2>/dev/null
	cat "$TMP/client.out"
	return $rc
}

killed()
{
	kill -9 "$server"
}

modprobe -a veth sch_netem sch_tbf 2>/dev/null
module_or_die
topo_or_die topo
a4=$(wait_gid roe0 10.0.0.1)
b4=$(ns_gid peer roe1 10.0.0.2)

trouble "loss, duplicates, reordering, corruption and jitter" netem
trouble "links down and up again" link_down
trouble "the MTU shrinks and grows" small_mtu
trouble "a neighbour entry wrong, then gone, then another MAC address" neighbours
trouble "an address goes and comes back, at both ends" address_gone
trouble "a CPU goes and comes back" cpu_gone
trouble "the clock jumps" clock_jumps
trouble "a queue of one or two packets" short_queue
trouble "no ACK arrives" no_acks
trouble "every second packet is lost" every_second
trouble "a firewall rejects" rejected
trouble "offloads off and on" offloads
trouble "the process stops for a while" process_stops

if [[ reads =~ $only ]]; then
	check "READs through a queue that is full" reads_through_queue
	check "READs whose responses overtake each other" reads_overtake
	check "long READs through a full queue on the way" reads_far
fi
if [[ far =~ $only ]]; then
	check "a long way has more than 1 MiB in flight" long_way
fi
if [[ ends =~ $only ]]; then
	check "a peer is killed: error" ends killed
	check "the device is gone: error" ends link_del roe0
	check "a new device works" eval "link_add roe0 va && wait_gid roe0 10.0.0.1 && stream 20"
fi
tap_done
