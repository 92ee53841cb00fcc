#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#
# direct - QPs of one device talk without a network, or with one if told so;
# the way may change under traffic, and ends where the network's would.
#
# Arguments: none. Output: TAP. Exit code: 0 if all ok, 1 if not.

# shellcheck disable=SC2034,SC2154 # variables shared with lib.sh
. "$(dirname "$(readlink -f "$0")")/lib.sh"

params=${ROE_PARAMS:-}
ROE_PARAMS=	# its default is under test
module_or_die
topo_or_die topo_veth
knob=/sys/class/infiniband/roe0/direct
port=19300

# count DEV NAME - a counter of the device
count()
{
	cat "/sys/class/infiniband/$1/ports/1/hw_counters/$2"
}

# goes DIRECT|NETWORK COMMAND... - the packets of the command all take that way
goes()
{
	local way=$1 d n
	shift
	sleep 0.1	# the core keeps counters for 10 ms
	d=$(count roe0 direct_pkts) n=$(count roe0 tx_pkts)
	"$@" || return
	sleep 0.1
	d=$(($(count roe0 direct_pkts) - d)) n=$(($(count roe0 tx_pkts) - n))
	echo "$d packets directly, $n through the network"
	if [ "$way" = direct ]; then
		[ $d -gt 0 ] && [ $n = 0 ]
	else
		[ $d = 0 ] && [ $n -gt 0 ]
	fi
}

# stream MESSAGES [DEV]
stream()
{
	port=$((port + 1))
	pair_run 90 $port "rc_stream -d roe0 $port $1" \
		"rc_stream -d ${2:-roe0} -s $port $port $1 127.0.0.1"
}

toggle()
{
	while :; do
		echo $((RANDOM & 1)) > $knob
		nap 0.0$((RANDOM % 9 + 1))
	done
}

# retransmissions are no harm, but the QPs must live and the data be right
toggled()
{
	local rc pid
	toggle &
	pid=$!
	pids+=("$pid")
	stream $((SLOW > 1 ? 300 : 900))
	rc=$?
	kill $pid
	wait $pid 2>/dev/null
	echo 1 > $knob
	return $rc
}

pingpong()
{
	port=$((port + 1))
	pair_run 30 $port "ibv_rc_pingpong -d roe0 -g $g0 -n $1 -p $port" \
		"ibv_rc_pingpong -d roe0 -g $g0 -n $1 -p $port 127.0.0.1"
}

# moves - packets go directly right now
moves()
{
	local d
	d=$(count roe0 direct_pkts)
	sleep 0.1	# as long the core keeps counters, ten times
	[ "$(count roe0 direct_pkts)" -gt "$d" ]
}

# The address of two QPs that are at it goes: nothing arrives any more, directly no more than
# otherwise.
no_address()
{
	local rc=0
	port=$((port + 1))
	ibv_rc_pingpong -d roe0 -g "$g0" -n 100000000 -p $port >/dev/null 2>&1 &
	pids+=($!)
	wait_for 10 listening $port
	ibv_rc_pingpong -d roe0 -g "$g0" -n 100000000 -p $port 127.0.0.1 >/dev/null 2>&1 &
	pids+=($!)
	wait_for 10 moves && ip addr del 10.0.0.1/24 dev va && sleep 0.3 || rc=1
	! moves || rc=1
	kill -9 "${pids[@]}"
	wait "${pids[@]}" 2>/dev/null
	pids=()
	ip addr add 10.0.0.1/24 dev va
	g0=$(wait_gid roe0 10.0.0.1) || return
	return $rc
}

g0=$(wait_gid roe0 10.0.0.1)
check "direct is the default" grep -qx 1 $knob
check "pingpong goes directly" goes direct pingpong 100
check "a verified stream goes directly" goes direct stream 200
check "two devices need the network" goes network stream 50 roe1
check "the way changes under a verified stream" toggled
check "without the address there is no way" no_address
check "and with it there is one" goes direct pingpong 10
check "switch it off" eval "echo 0 > $knob"
check "pingpong goes through the network" goes network pingpong 100
progs=rc_queues
# On the debug kernel these go through the network between two devices (rc-verbs.sh).
[ $SLOW != 1 ] || progs="rc_ops rc_errors rc_queues"
# With it in the parameters rc-verbs.sh runs them that way on one device.
case " $params " in *" direct=N "*) progs= ;; esac
for p in $progs; do
	run_tap "$p, direct off" 120 "$p" -d roe0
done
check "nothing went directly meanwhile" goes network stream 20
refused "the switch knows 0 and 1" "invalid" eval "echo 7 > $knob"
tap_done
