#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#
# uc-verbs - UC by the C program, the stock ibv_uc_pingpong and perftest, on one
# device and between two.
#
# Arguments: none. Output: TAP. Exit code: 0 if all ok, 1 if not.

# shellcheck disable=SC2034,SC2154 # variables shared with lib.sh
. "$(dirname "$(readlink -f "$0")")/lib.sh"

module_or_die
topo_or_die topo_veth
run_tap "uc_ops, one device" 60 uc_ops -d roe0
run_tap "uc_ops, two devices" 60 uc_ops -d roe0 -D roe1

# A receive softirq that gives up early leaves packets in the backlog of its CPU.
check "a slow backlog" sysctl -qw net.core.dev_weight=1 net.core.netdev_budget=1
run_tap "uc_ops, order, one device" 60 uc_ops -d roe0 -- order
run_tap "uc_ops, order, two devices" 60 uc_ops -d roe0 -D roe1 -- order
check "a quick one again" sysctl -qw net.core.dev_weight=64 net.core.netdev_budget=300

modprobe sch_netem 2>/dev/null
check "netem on the path" tc qdisc add dev va root netem loss 4% limit 100000
run_tap "uc_ops, a path that loses packets" 60 uc_ops -d roe0 -D roe1 -- loss
tc qdisc del dev va root

g0=$(wait_gid roe0 10.0.0.1)
g1=$(wait_gid roe1 10.0.0.2)
port=18700

pp()
{
	pair_run 60 18515 "ibv_uc_pingpong -d roe0 -g $g0 $3" \
		"ibv_uc_pingpong -d $1 -g $2 $3 127.0.0.1"
}

check "ibv_uc_pingpong, events" pp roe0 "$g0" "-n 300 -c -e"
check "ibv_uc_pingpong, two devices" pp roe1 "$g1" "-n 300 -c"

# pt PROGRAM OPTIONS [DEV GID]
pt()
{
	port=$((port + 1))
	pair_run 60 $port "$1 -c UC -F -p $port -d roe0 -x $g0 $2" \
		"$1 -c UC -F -p $port -d ${3:-roe0} -x ${4:-$g0} $2 127.0.0.1"
}

# On the debug kernel uc_ops has SENDs and WRITEs of these sizes, polling.
if [ $SLOW = 1 ]; then
	check "ibv_uc_pingpong, one device" pp roe0 "$g0" "-n 300 -c"
	check "ibv_uc_pingpong, 64 KiB" pp roe0 "$g0" "-n 50 -c -s 65536"
	check "ib_send_lat -c UC" pt ib_send_lat "-n 100 -s 64"
	check "ib_write_lat -c UC" pt ib_write_lat "-n 100 -s 64"
	check "ib_send_bw -c UC" pt ib_send_bw "-n 100 -s 4096"
fi
check "ib_write_bw -c UC" pt ib_write_bw "-n 50 -s 65536"
check "ib_write_bw -c UC, two devices" pt ib_write_bw "-n 50 -s 65536" roe1 "$g1"
tap_done
