#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#
# perftest - the RC cases of the stock perftest, few iterations: proves that
# they end without an error, measures nothing.
#
# Arguments: none, or "full": each program in each connection type with each option
# that it takes there, minutes. Output: TAP. Exit code: 0 if all ok, 1 if not.

# shellcheck disable=SC2034,SC2154 # variables shared with lib.sh
. "$(dirname "$(readlink -f "$0")")/lib.sh"

module_or_die
topo_or_die topo_veth
g0=$(wait_gid roe0 10.0.0.1)
g1=$(wait_gid roe1 10.0.0.2)
port=18600

# pt PROGRAM OPTIONS [DEV GID]
pt()
{
	local c="-d ${3:-roe0} -x ${4:-$g0}" patient=
	[[ $2 != *-R* ]] || patient=$cm_patient
	port=$((port + 1))
	pair_run 90 $port "$1 -F -p $port -d roe0 -x $g0 $2" \
		"$patient $1 -F -p $port $c $2 ${peer:-127.0.0.1}"
}

# each NAME PROGRAM OPTIONS... - one case for each of OPTIONS, behind those in $base
each()
{
	local program=$1 o
	shift
	for o in "$@"; do
		# librdmacm has no UC
		[[ $base == *"-c UC"* && $o == *-R* ]] && continue
		check "$program $base $o" pt "$program" "$base $o"
	done
}

full()
{
	local c t base listen_cm=1 peer=10.0.0.1	# the RDMA-CM knows no 127.0.0.1
	local common=("-m 256" "-m 512" "-m 1024" "-m 2048" "-m 4096" "-s 1" "-s 4096" "-R"
		"-R -T 104" "-u 17 -S 3" "-z" "-D 1" "--force-link=Ethernet")
	local bw=("-a" "-b" "-q 16" "-q 4 -b" "-q 16 -R" "-t 1" "-t 512 -n 1024" "-Q 1" "-l 8"
		"-l 32 -q 4" "--use_hugepages" "-w 1 --rate_units=M" "--report_gbits"
		"--mr_per_qp -q 4" "-N")
	local lat=("-a" "-I 64 -s 32" "-I 0" "--latency_gap=10" "-U" "-H" "-C")
	local events=("-e" "-e -R")

	for c in RC UC UD; do
		base="-c $c -n 128"
		each ib_send_bw "${common[@]}" "${bw[@]}" "${events[@]}" "-r 2" "-r 1024 -n 2048"
		each ib_send_lat "${common[@]}" "${lat[@]}" "${events[@]}"
		[ $c != UC ] && each ib_send_bw --use-srq "--use-srq -q 16" "--use-srq -R"
		[ $c = UD ] && each ib_send_bw -g "-g -M ff0e::1:2:3"
		[ $c = UD ] && continue
		each ib_write_bw "${common[@]}" "${bw[@]}"
		each ib_write_lat "${common[@]}" "${lat[@]}"
	done
	base="-n 128"
	each ib_read_bw "${common[@]}" "${bw[@]}" "${events[@]}" "-o 1" "-o 16"
	each ib_read_lat "${common[@]}" "${events[@]}" "-o 1"
	for t in FETCH_AND_ADD CMP_AND_SWAP; do
		base="-n 128 -A $t"
		each ib_atomic_bw "-o 1" "-o 16" "-q 16" -R -b "-t 1" "${events[@]}"
		each ib_atomic_lat "-o 1" -R "${events[@]}"
	done
}

if [ "${1:-}" = full ]; then
	huge_pages 64
	full
	tap_done
fi
for t in ib_send ib_write ib_read; do
	check "${t}_bw 64 KiB" pt ${t}_bw "-n 50 -s 65536"
	# perftest has no events for WRITE.
	[ $t = ib_write ] ||
		check "${t}_bw 64 B, events" pt ${t}_bw "-n 200 -s 64 -e"
	check "${t}_lat 64 B" pt ${t}_lat "-n 100 -s 64"
done
check "ib_atomic_bw FETCH_AND_ADD" pt ib_atomic_bw "-n 100 -A FETCH_AND_ADD"
check "ib_atomic_lat" pt ib_atomic_lat "-n 100"
check "ib_send_bw 16 QPs" pt ib_send_bw "-q 16 -n 50 -s 4096"
mtus="256 4096"
# On the debug kernel rc_ops has these opcodes, sizes and MTUs, rnr_flood goes both ways.
if [ $SLOW = 1 ]; then
	check "ib_atomic_bw CMP_AND_SWAP" pt ib_atomic_bw "-n 100 -A CMP_AND_SWAP"
	check "ib_send_bw all sizes" pt ib_send_bw "-a -n 5"
	check "ib_write_bw 8 QPs" pt ib_write_bw "-q 8 -n 50 -s 4096"
	check "ib_send_bw both ways" pt ib_send_bw "-b -n 50 -s 8192"
	check "ib_send_lat inline" pt ib_send_lat "-n 100 -s 32 -I 64"
	mtus="256 512 1024 2048 4096"
fi
for m in $mtus; do
	check "ib_write_bw path MTU $m" pt ib_write_bw "-m $m -n 50 -s 16384"
done
check "ib_send_bw UD" pt ib_send_bw "-c UD -n 200 -s 1024"
check "ib_write_bw two devices" pt ib_write_bw "-n 50 -s 65536" roe1 "$g1"
check "ib_read_bw two devices" pt ib_read_bw "-n 50 -s 65536" roe1 "$g1"
tap_done
