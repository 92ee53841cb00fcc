#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#
# small - a stream of small messages is relayed by an idle processor, or its messages
# wait for each other, and leaves in trains; a user who waits for each message is not
# kept waiting; whatever the user does, messages arrive once and in order.
#
# Arguments: none. Output: TAP. Exit code: 0 if all ok, 1 if not.

# shellcheck disable=SC2034,SC2154 # variables shared with lib.sh
. "$(dirname "$(readlink -f "$0")")/lib.sh"

module_or_die
topo_or_die topo_veth
knob=/sys/class/infiniband/roe0/relay hold=/sys/class/infiniband/roe0/hold
g0=$(wait_gid roe0 10.0.0.1) g1=$(wait_gid roe1 10.0.0.2)

# count DEV NAME - a counter of the device
count()
{
	cat "/sys/class/infiniband/$1/ports/1/hw_counters/$2"
}

# small PART... - between two devices
small()
{
	rc_small -d roe0 -g "$g0" -D roe1 -G "$g1" -- "$@"
}

# counted PART N - runs it; relayed: messages, joins: streams taken over, held: messages
# that waited, acks: of roe1
counted()
{
	local rc
	sleep 0.1	# the core keeps counters for 10 ms
	relayed=$(count roe0 relayed_messages) joins=$(count roe0 relayed_streams)
	held=$(count roe0 held_messages) acks=$(count roe1 tx_pkts)
	small "$@"
	rc=$?
	sleep 0.1
	relayed=$(($(count roe0 relayed_messages) - relayed))
	joins=$(($(count roe0 relayed_streams) - joins))
	held=$(($(count roe0 held_messages) - held))
	acks=$(($(count roe1 tx_pkts) - acks))
	echo "relayed $relayed, joins $joins, held $held, ACKs $acks"
	return $rc
}

# Whether another processor is idle is up to the host as well, on which a virtual one may
# not run for as long as a round takes: as many rounds as it takes until there is one in which
# messages were relayed and had fewer ACKs than messages.
streams()
{
	local i
	for i in $(seq 60); do
		counted stream 6000 || return
		[ $relayed -gt 300 ] && [ $((6000 - acks)) -gt 100 ] && return
	done
	return 1
}

# Joins in vain come the seldomer the more there were, which is half forgotten each second:
# as many rounds as it takes until one of them was short enough.
waits()
{
	local i
	for i in $(seq 10); do
		counted sync 4000 && [ $held = 0 ] || return
		[ $relayed -lt 1000 ] && [ $joins -lt 12 ] && return
	done
	return 1
}

# As many rounds as it takes until there is one in which some were held and had fewer ACKs than
# messages: a host with other work makes a process look slow.
holds()
{
	local i
	for i in $(seq 60); do
		counted quiet 4000 && [ $relayed = 0 ] || return
		[ $held -gt 300 ] && [ $((4000 - acks)) -gt 100 ] && return
	done
	return 1
}

holds_not()
{
	counted quiet 1000 && [ $held = 0 ]
}

off()
{
	counted stream 1000 && [ $relayed = 0 ]
}

# no_slower PART FILE - not slower than without, in one of a few rounds: what is, is so in
# all of them
no_slower()
{
	local percent i
	for i in 1 2 3 4 5; do
		percent=$(small "$@" | sed -n 's/^takes //p')
		echo "it takes $percent % of the time with the switch off"
		[ -n "$percent" ] && [ "$percent" -gt 50 ] || return
		[ "$percent" -ge 110 ] || return 0
	done
	return 1
}

# A task of real-time priority takes the processor of a relay, of which there must have been
# one for a few streams at least.
spins()
{
	local i all=0
	for i in $(seq 10); do
		counted spun 4 || return
		all=$((all + joins))
		[ $all -gt 2 ] && return
	done
	return 1
}

# A cpuset may take all other processors away for a partition of its own: nobody relays there.
isolated()
{
	local cg=$TMP/cgroup rc=1 i

	mkdir -p "$cg" && mount -t cgroup2 cgroup2 "$cg" && echo +cpuset > "$cg/cgroup.subtree_control" &&
		mkdir "$cg/isolated" && echo "1-$(($(nproc --all) - 1))" > "$cg/isolated/cpuset.cpus" &&
		echo isolated > "$cg/isolated/cpuset.cpus.partition" &&
		grep -qx isolated "$cg/isolated/cpuset.cpus.partition" && rc=0
	for i in 1 2 3 4 5; do
		[ $rc = 0 ] && counted stream 6000 && [ "$joins" = 0 ] || rc=1
	done
	rmdir "$cg/isolated"
	umount "$cg"
	return $rc
}

# with_relay CMD... TEXT CHECK - where there is one at all
with_relay()
{
	if grep -q PREEMPT_RT /proc/version; then
		tap_skip "${*: -2:1}" "no relay with PREEMPT_RT"
	else
		"$@"
	fi
}

# full CMD TEXT CHECK - with full preemption, where it can be switched
full()
{
	local file=/sys/kernel/debug/sched/preempt model
	mountpoint -q /sys/kernel/debug || mount -t debugfs none /sys/kernel/debug
	model=$(sed -n 's/.*(\(.*\)).*/\1/p' $file 2>/dev/null)
	if [ -z "$model" ] || ! echo full > $file; then
		tap_skip "$2" "no switch for preemption"
		return
	fi
	"$@"
	echo "$model" > $file
}

fans()
{
	counted fan 1000 && [ $relayed = 0 ] && [ $held = 0 ]
}

# busy - ticks of all processors, and those among them that were not idle
busy()
{
	awk '/^cpu / { all = $2 + $3 + $4 + $5 + $6 + $7 + $8; print all, all - $5 - $6 }' /proc/stat
}

# One processor of two that looked at a ring all the time would be half of it, each time.
rests()
{
	local a b c d i
	for i in 1 2 3 4 5; do
		sleep 1
		read -r a b <<< "$(busy)"
		sleep 2
		read -r c d <<< "$(busy)"
		echo "busy for $((d - b)) of $((c - a)) ticks"
		[ $((c - a)) -gt 0 ] || return
		[ $((4 * (d - b))) -ge $((c - a)) ] || return 0
	done
	return 1
}

# What a device begins with is what the module's parameters say.
knobs()
{
	local k v was p rc=0

	ip link add wa type veth peer name wb || return
	netdevs+=(wa)
	for k in relay hold direct ecn; do
		p=/sys/module/roe/parameters/$k
		was=$(cat $p)
		for v in N0 Y1; do
			echo ${v%?} > $p && link_add roe9 wa &&
				grep -qx ${v#?} /sys/class/infiniband/roe9/$k || rc=1
			link_del roe9
		done
		echo "$was" > $p
	done
	return $rc
}

check "the switch is on" grep -qx 1 $knob
with_relay check "a stream is relayed, in trains" streams
check "who relays rests when there is nothing more" rests
check "a user who waits for each message is not" waits
check "... nor does one take longer" no_slower switch $knob
with_relay check "a real-time task on the processor that relays stops nobody" spins
with_relay full check "... nor does it with full preemption" spins
# the kernel says so from 6.7 on
isolates=
if mount -t cgroup2 cgroup2 /mnt; then
	[ ! -e /mnt/cpuset.cpus.isolated ] || isolates=1
	umount /mnt
fi
if [ -n "$isolates" ]; then
	check "nobody relays on a processor that a cpuset has isolated" isolated
else
	tap_skip "nobody relays on a processor that a cpuset has isolated" "no cpuset isolates here"
fi
run_tap "all users" 120 rc_small -d roe0 -g "$g0" -D roe1 -G "$g1" -- \
	bursts 400 quiet 3000 many 200 events 300 end
run_tap "one device" 120 rc_small -d roe0 -g "$g0" -- stream 2000 bursts 200 many 100 events 100 end
check "switch it off" eval "echo 0 > $knob"
check "then nothing is relayed" off
check "messages without completions wait for each other" holds
check "one for each of many peers does not" fans
check "... nor do their answers take longer" no_slower switch-fan $hold
run_tap "all users, without a relay" 120 rc_small -d roe0 -g "$g0" -D roe1 -G "$g1" -- \
	bursts 400 quiet 3000 many 200 events 300 end
check "switch that off" eval "echo 0 > $hold"
check "then none waits" holds_not
refused "the switch knows 0 and 1" "invalid" eval "echo 7 > $knob"
check "the switches of a device begin with the parameters of the module" knobs
tap_done
