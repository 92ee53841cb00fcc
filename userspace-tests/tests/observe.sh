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

# seen EVENT WORDS - in the trace
seen()
{
	grep -E "roe_$1: .*$2" $tracing/trace > "$TMP/seen" && return
	tail -n 20 $tracing/trace
	return 1
}

# details KIND WORD - of what a process holds
details()
{
	rdma resource show "$1" -dd | grep "drv_" | tee "$TMP/details"
	grep -q "drv_$2" "$TMP/details"
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

background hold -d roe0 -g "$g0" -t 300
check "details of a QP" wait_for 10 details qp "sq_una"
check "details of a CQ" wait_for 10 details cq "unpolled"
check "details of an MR" wait_for 10 details mr "extents"

for c in out_of_buffer req_cqe_error req_remote_access_errors resp_remote_access_errors \
	 req_rnr_retries_exceeded req_transport_retries_exceeded rx_read_requests; do
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
# what rdma-ndd does
describes()
{
	local desc=/sys/class/infiniband/roe0/node_desc
	[ "$(cat $desc)" = roe ] && echo -n "host 1" > $desc && [ "$(cat $desc)" = "host 1" ]
}
check "a device has the description that it is given" describes
version=$(cat /sys/module/roe/version)
check "ibstat and ibv_devinfo name the driver and its version" names "$version.0"
tap_done
