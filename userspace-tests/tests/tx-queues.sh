#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#
# tx-queues - netdevs with two transmit queues, chosen by the processor that sends (XPS), of
# which one is slower than the other: what one QP sends keeps to one of them.
#
# Arguments: none. Output: TAP. Exit code: 0 if all ok, 1 if not.

# shellcheck disable=SC2034,SC2154 # variables shared with lib.sh
. "$(dirname "$(readlink -f "$0")")/lib.sh"

# two_queues NETDEV - all that comes is received on processor 0, in order
two_queues()
{
	local q=/sys/class/net/$1/queues

	ethtool -L "$1" tx 2 rx 2 || return
	echo 1 > "$q/tx-0/xps_cpus" && echo 2 > "$q/tx-1/xps_cpus" || return
	echo 1 > "$q/rx-0/rps_cpus" && echo 1 > "$q/rx-1/rps_cpus" || return
	tc qdisc add dev "$1" root handle 1: mq && tc qdisc add dev "$1" parent 1:1 pfifo &&
		tc qdisc add dev "$1" parent 1:2 netem delay 2ms limit 100000
}

# queued NETDEV - bytes that each of its queues has sent
queued()
{
	tc -s class show dev "$1" | awk '$1 == "Sent" { print $2 }'
}

# sequence errors of both ends
late()
{
	local d c sum=0
	for d in roe0 roe1; do
		for c in out_of_sequence implied_nak_seq_err packet_seq_err; do
			sum=$((sum + $(counter $d $c)))
		done
	done
	echo $sum
}

# once NETDEV SHARE OP MIB MESSAGES - all arrives in order, less than SHARE percent of what
# leaves by this netdev by the queue that has less
once()
{
	local dev=$1 share=$2 was now l less
	shift 2
	mapfile -t was < <(queued "$dev")
	l=$(late)
	tx_queues -d roe0 -D roe1 -- "$@" || return
	l=$(($(late) - l))
	mapfile -t now < <(queued "$dev")
	now=($((now[0] - was[0])) $((now[1] - was[1])))
	echo "# bytes by queue: ${now[*]}; sequence errors: $l"
	less=$((now[0] < now[1] ? now[0] : now[1]))
	[ $l -le 2 ] && [ $((less * 100)) -lt $(((now[0] + now[1]) * share)) ]
}

# in_order ... - the same. On a machine that has stood still for a tenth of a second a QP
# changes its queue with good reason: as many rounds as it takes until one did not.
in_order()
{
	local i
	for i in 1 2 3 4; do
		once "$@" && return
	done
	return 1
}

module_or_die
modprobe -a sch_netem sch_tbf 2>/dev/null
topo_or_die topo_veth
check "va: two transmit queues, one is slow" two_queues va
check "vb: two transmit queues, one is slow" two_queues vb
# What else leaves there is an ARP answer, or nothing.
check "UC: WRITEs of 8 MiB from changing processors use one queue" in_order va 1 uc-write 8192 12
check "RC: the responses of READs of 2 MiB use one queue" in_order vb 1 read 2048 40
# With all of them acknowledged the next one may leave by another.
check "RC: WRITEs of 2 MiB from changing processors" in_order va 51 write 2048 40
# Nothing was sent for more than the tenth of a second, but a message takes three to leave.
check "va: its slow queue takes 50 kB/s" \
	tc qdisc replace dev va parent 1:2 tbf rate 400kbit burst 5kb limit 1000000
run_tap "UC: WRITEs with pauses from changing processors" 60 \
	tx_queues -d roe0 -D roe1 -- uc-write 16 8 150
tap_done
