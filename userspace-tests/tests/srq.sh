#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#
# srq - shared receive queues by the C program, the stock ibv_srq_pingpong and
# perftest, on one device and between two.
#
# Arguments: none. Output: TAP. Exit code: 0 if all ok, 1 if not.

# shellcheck disable=SC2034,SC2154 # variables shared with lib.sh
. "$(dirname "$(readlink -f "$0")")/lib.sh"

module_or_die
topo_or_die topo_veth
run_tap "srq, one device" 60 srq -d roe0
run_tap "srq, two devices" 60 srq -d roe0 -D roe1

g0=$(wait_gid roe0 10.0.0.1)
g1=$(wait_gid roe1 10.0.0.2)
port=18800

pp()
{
	pair_run 60 18515 "ibv_srq_pingpong -d roe0 -g $g0 $3" \
		"ibv_srq_pingpong -d $1 -g $2 $3 127.0.0.1"
}

check "ibv_srq_pingpong, one device" pp roe0 "$g0" "-n 300 -q 16 -c"
check "ibv_srq_pingpong, two devices, events" pp roe1 "$g1" "-n 200 -q 4 -c -e"

# pt PROGRAM OPTIONS [DEV GID]
pt()
{
	port=$((port + 1))
	pair_run 60 $port "$1 -F -p $port -d roe0 -x $g0 $2" \
		"$1 -F -p $port -d ${3:-roe0} -x ${4:-$g0} $2 127.0.0.1"
}

check "ib_send_bw --use-srq, 4 QPs" pt ib_send_bw "--use-srq -q 4 -n 100 -s 4096"
# On the debug kernel the program srq has messages of these sizes, two devices as well.
if [ $SLOW = 1 ]; then
	check "ib_send_bw --use-srq" pt ib_send_bw "--use-srq -n 100 -s 4096"
	check "ib_send_lat --use-srq, two devices" pt ib_send_lat "--use-srq -n 100 -s 64" roe1 "$g1"
fi
tap_done
