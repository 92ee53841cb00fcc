#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#
# observe - what a device says of itself: tracepoints, resource details, counters.
#
# Arguments: none. Output: TAP. Exit code: 0 if all ok, 1 if not.

# shellcheck disable=SC2034,SC2154 # variables shared with lib.sh
. "$(dirname "$(readlink -f "$0")")/lib.sh"

ROE_PARAMS=	# it looks for both ways
module_or_die
topo_or_die topo_veth
g0=$(wait_gid roe0 10.0.0.1)
tracing=/sys/kernel/tracing
[ -d $tracing/events ] || mount -t tracefs tracefs $tracing
counters=/sys/class/infiniband/roe0/ports/1/hw_counters

pingpong()
{
	pair_run 30 19400 "ibv_rc_pingpong -d roe0 -g $g0 -n 20 -p 19400" \
		"ibv_rc_pingpong -d roe0 -g $g0 -n 20 -p 19400 127.0.0.1"
}

# seen EVENT WORDS - in the trace, of which no more is read than it takes
seen()
{
	grep -m 1 -E "roe_$1: .*$2" $tracing/trace > "$TMP/seen" && return
	tail -n 20 $tracing/trace
	return 1
}

# details KIND WORD - of what a process holds
details()
{
	rdma resource show "$1" -dd | grep "drv_" | tee "$TMP/details"
	grep -q "drv_$2" "$TMP/details"
}

# told WORD - what "hold" has said of its own
told()
{
	sed -n "s/^$1 //p" "$TMP/hold.out"
}

# What rdma says of the process that holds them is what that process was given.
truth()
{
	local of=".* pid $held "
	rdma resource show qp link roe0/1 lqpn "$(told qpn)" | tee "$TMP/shown" &&
		grep -q "type RC state RTS$of" "$TMP/shown" || return
	rdma resource show cq dev roe0 | tee "$TMP/shown" &&
		grep -q "cqe $(told cqe)$of" "$TMP/shown" || return
	rdma resource show mr dev roe0 | tee "$TMP/shown" &&
		grep -q "mrlen $(told mrlen)$of" "$TMP/shown"
}

# extents BYTES - pieces of memory that an MR of so many has
extents()
{
	rdma resource show mr dev roe0 -dd | tr '\n' ' ' | sed 's/dev roe0 mrn/\n&/g' |
		sed -n "s/.*mrlen $1 .*drv_extents \([0-9]*\).*/\1/p"
}

few_extents()
{
	local n
	n=$(extents "$1")
	echo "extents: $n"
	[ "$n" -ge 1 ] && [ "$n" -le "$2" ]
}

echo 1 > $tracing/events/roe/enable
check "pingpong under trace" pingpong
check "an RC program with errors under trace" rc_errors -d roe0
echo 0 > $tracing/events/roe/enable
check "packets out" seen packet_out "psn .* direct"
check "packets in" seen packet_in "psn .* direct"
check "completions" seen completion "recv wr_id"
check "state changes" seen qp_state "RTS -> ERR"
check "NAKs" seen nak "syndrome 0x62"
check "retransmissions" seen retransmit "from psn"

background hold -d roe0 -g "$g0" -t 300 > "$TMP/hold.out"
held=$bg
check "details of a QP" wait_for 10 details qp "sq_una"
check "details of a CQ" wait_for 10 details cq "unpolled"
check "details of an MR" wait_for 10 details mr "extents"
check "QPN, CQEs and length are those of the process" wait_for 10 truth
huge_pages 2
background hold -d roe0 -g "$g0" -t 300 huge > "$TMP/huge.out"
check "an MR of huge pages has no more extents than they are" wait_for 10 few_extents 4194304 2
kill "$bg"

# one_sided PROGRAM PORT
one_sided()
{
	pair_run 30 "$2" "$1 -F -d roe0 -x $g0 -n 5 -p $2" "$1 -F -d roe0 -x $g0 -n 5 -p $2 127.0.0.1"
}

check "WRITEs" one_sided ib_write_lat 19401
check "atomics" one_sided ib_atomic_lat 19402
for c in out_of_buffer rnr_nak_retry_err local_ack_timeout_err req_cqe_error req_cqe_flush_error \
	 resp_cqe_error resp_cqe_flush_error resp_local_length_error req_remote_invalid_request \
	 req_remote_access_errors resp_remote_access_errors req_rnr_retries_exceeded \
	 req_transport_retries_exceeded rx_read_requests rx_write_requests rx_atomic_requests; do
	check "counter $c has moved" eval "[ \$(cat $counters/$c) -gt 0 ]"
done
# what ibstat and ibv_devinfo say of the device itself
names()
{
	ibstat roe0 > "$TMP/ibstat" && ibv_devinfo -d roe0 > "$TMP/devinfo" || return
	grep -Eq "CA type: roe" "$TMP/ibstat" && grep -Eq "Firmware version: $1" "$TMP/ibstat" &&
		grep -Eq "Hardware version: 1$" "$TMP/ibstat" &&
		grep -Eq "hw_ver:[[:space:]]+0x1$" "$TMP/devinfo" &&
		grep -Eq "board_id:[[:space:]]+roe$" "$TMP/devinfo" &&
		grep -Eq "fw_ver:[[:space:]]+$1" "$TMP/devinfo"
}
# and of its port: a veth has 10 Gb/s, the GUID is made of its MAC address
port_is()
{
	local m
	IFS=: read -ra m < /sys/class/net/va/address
	ibstat roe0 > "$TMP/ibstat" && cat "$TMP/ibstat"
	grep -Eq "State: $1$" "$TMP/ibstat" && grep -Eq "Physical state: $2$" "$TMP/ibstat" &&
		grep -Eq "Rate: 10( |$)" "$TMP/ibstat" && grep -Eq "Link layer: Ethernet$" "$TMP/ibstat" &&
		grep -Eqi "Node GUID: $(printf '0x%02x%s%sfffe%s%s%s' $((0x${m[0]} ^ 2)) "${m[@]:1}")$" \
			"$TMP/ibstat"
}
# what rdma-ndd does
describes()
{
	local desc=/sys/class/infiniband/roe0/node_desc
	[ "$(cat $desc)" = roe ] && echo -n "host 1" > $desc && [ "$(cat $desc)" = "host 1" ]
}
check "a device has the description that it is given" describes
version=$(cat /sys/module/roe/version)
check "ibstat and ibv_devinfo name the driver and its version" names "$version.0"
check "ibstat has state, rate and GUID of the port" port_is Active LinkUp
ip link set vb down
check "... also of one without a carrier" wait_for 20 port_is Down Disabled
ip link set vb up
check "... and with one again" wait_for 20 port_is Active LinkUp

# --- counters of some QPs ---

# lqpn PID - a QP of that process
lqpn()
{
	rdma resource show qp link roe0/1 | sed -n "s/.* lqpn \([0-9]*\) .* pid $1 .*/\1/p" |
		head -n 1
}

# of_qps WORD - what "rdma statistic qp" says behind it, of the first counter
of_qps()
{
	local all
	all=$(rdma statistic qp show link roe0/1)
	[[ $all =~ (^|[^[:alnum:]_])"$1 "'<'?([0-9]+) ]] && echo "${BASH_REMATCH[2]}"
}

# pings PORT - two processes that do not end by themselves; $client is one of them. They
# poll all the time, and leave the processors to those who ask about them.
pings()
{
	local n=100000000
	background nice -n 19 ibv_rc_pingpong -d roe0 -g "$g0" -n $n -p "$1"
	server=$bg
	wait_for 10 listening "$1" || return
	background nice -n 19 ibv_rc_pingpong -d roe0 -g "$g0" -n $n -p "$1" 127.0.0.1
	client=$bg
	wait_for 10 connected "$client" && wait_for 10 connected "$server"
}

connected()
{
	rdma resource show qp link roe0/1 | grep -q "state RTS.* pid $1 "
}

# moves WORD - more of it from one moment to a later one
moves()
{
	local before
	before=$(of_qps "$1") && [ -n "$before" ] && wait_for 10 more_than "$before" "$1"
}

more_than()
{
	local now
	now=$(of_qps "$2") && [ "$now" -gt "$1" ]
}

bind()
{
	rdma statistic qp bind link roe0/1 lqpn "$(lqpn "$1")" ${2:+cntn "$2"}
}

unbind()
{
	rdma statistic qp unbind link roe0/1 cntn "$2" lqpn "$(lqpn "$1")"
}

uncounted()
{
	[ -z "$(rdma statistic qp show link roe0/1)" ]
}

two_qps()
{
	bind "$server" "$(of_qps cntn)" && moves tx_pkts &&
		rdma statistic qp show link roe0/1 | grep -qi "lqpn:\? <[0-9]*,[0-9]*>"
}

# while it sends, so that some of what runs still counts where it did
binds_often()
{
	local q i n=$((SLOW > 1 ? 10 : 20))
	q=$(lqpn "$client") && [ -n "$q" ] || return
	for ((i = 0; i < n; i++)); do
		rdma statistic qp bind link roe0/1 lqpn "$q" &&
			rdma statistic qp unbind link roe0/1 cntn "$(of_qps cntn)" lqpn "$q" &&
			uncounted || return
	done
}

# The sum that the core makes is that which the performance agent makes: nothing twice.
same_sum()
{
	sleep 0.1	# the core keeps what it has read for 10 ms
	local core agent
	core=$(cat $counters/tx_pkts)
	agent=$(cat /sys/class/infiniband/roe0/ports/1/counters/port_xmit_packets)
	echo "core $core, agent $agent"
	[ "$core" -gt "$1" ] && [ "$core" = "$agent" ]
}

ends()
{
	kill "$@"
	wait "$@" 2> /dev/null
	wait_for 10 uncounted
}

echo 0 > /sys/class/infiniband/roe0/direct
sent=$(cat $counters/tx_pkts)
check "two processes ping each other" pings 19401
check "a QP is bound to a counter" bind "$client"
check "which counts what it sends" moves tx_pkts
check "and what it receives" moves rx_pkts
refused "a second counter is refused" "rror|nvalid|annot" bind "$client"
check "another QP is bound to it, too" two_qps
check "a QP is unbound" unbind "$server" "$(of_qps cntn)"
check "the counter goes with its last QP, which is destroyed" ends "$client" "$server"
check "and nothing is counted twice" same_sum "$sent"
sent=$(cat $counters/tx_pkts)
check "processes ping again" pings 19402
check "a QP is bound and unbound all the time" binds_often
ends "$client" "$server" > /dev/null 2>&1
check "and nothing is lost or counted twice" same_sum "$sent"
check "auto mode" rdma statistic qp set link roe0/1 auto type,pid on
check "processes ping in auto mode" pings 19403
check "their QPs are bound by themselves" moves tx_pkts
check "and unbound when they end" ends "$client" "$server"
check "auto mode ends" rdma statistic qp set link roe0/1 auto off
echo 1 > /sys/class/infiniband/roe0/direct
check "processes ping without a network" pings 19404
check "a QP without a network is bound" bind "$client"
check "and counts" moves direct_pkts
check "a device goes while a QP of it is bound" rdma link del roe0
tap_done
