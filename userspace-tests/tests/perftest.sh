#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#
# perftest - the stock perftest between two devices, few iterations: proves that its
# programs end without an error, measures nothing. By the RDMA-CM (-R, -z), which goes to an
# address of this host, both ends are on one device.
#
# Arguments: none, or "full": each program in each connection type with each option
# that it takes there, between two devices, "full one" on one, minutes.
# Output: TAP. Exit code: 0 if all ok, 1 if not.

# shellcheck disable=SC2034,SC2154 # variables shared with lib.sh
. "$(dirname "$(readlink -f "$0")")/lib.sh"

module_or_die
topo_or_die topo_veth
g0=$(wait_gid roe0 10.0.0.1)
g1=$(wait_gid roe1 10.0.0.2)
port=18600

client=roe1
# pt PROGRAM OPTIONS [DEV GID] - the client's
pt()
{
	local c="-d ${3:-$client} -x ${4:-$g1}" patient='' peer=127.0.0.1 listen_cm=
	# -z: what they tell each other beforehand goes by the CM
	if [[ $2 == *-R* || $2 == *-z* ]]; then
		# it knows no 127.0.0.1
		c="-d roe0 -x $g0" patient=$cm_patient peer=10.0.0.1 listen_cm=1
	fi
	port=$((port + 1))
	pair_run 90 $port "$1 -F -p $port -d roe0 -x $g0 $2" \
		"$patient $1 -F -p $port $c $2 $peer"
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

# Groups, which it knows by IPv6 GIDs only: one in its way of writing them, and its own, which
# has the scope of an interface (ff01::), so that IPv6 drops what comes to it from a wire.
groups()
{
	local g0 g1
	g0=$(wait_gid roe0 fd00:a::1)
	g1=$([ $client = roe0 ] && echo "$g0" || wait_gid $client fd00:b::1)
	each ib_send_bw "-g -M 255:14:0:0:0:0:0:0:0:0:0:1:0:2:0:3"
	client=roe0 g1=$g0 each ib_send_bw -g
}

full()
{
	local c t base
	local common=("-m 256" "-m 512" "-m 1024" "-m 2048" "-m 4096" "-s 1" "-s 4096" "-R"
		"-R -T 104" "-u 17 -S 3" "-z" "-D 1" "--force-link=Ethernet")
	local bw=("-a" "-b" "-q 16" "-q 4 -b" "-q 16 -R" "-t 1" "-t 512 -n 1024" "-Q 1" "-l 8"
		"-l 32 -q 4" "--use_hugepages" "-w 1 --rate_units=M" "--report_gbits"
		"--mr_per_qp -q 4" "-N")
	local lat=("-a" "-I 64 -s 32" "-I 0" "--latency_gap=10" "-U" "-H" "-C")
	local events=("-e" "-e -R")

	for c in RC UC UD; do
		base="-c $c -n 128"
		each ib_send_bw "${common[@]}" "${bw[@]}" "${events[@]}" "-r 1024 -n 2048"
		# datagrams that find no receive are lost, and the server waits for them
		[ $c = RC ] && each ib_send_bw "-r 2"
		each ib_send_lat "${common[@]}" "${lat[@]}" "${events[@]}"
		[ $c != UC ] && each ib_send_lat --use-srq
		[ $c != UC ] && each ib_send_bw --use-srq "--use-srq -R"
		# likewise: an SRQ of its own never has more than 128, for all its QPs
		[ $c = RC ] && each ib_send_bw "--use-srq -q 16"
		if [ $c = UD ]; then
			groups
			continue
		fi
		each ib_write_bw "${common[@]}" "${bw[@]}"
		each ib_write_lat "${common[@]}" "${lat[@]}"
	done
	base="-n 128"
	each ib_read_bw "${common[@]}" "${bw[@]}" "${events[@]}" "-o 1" "-o 16"
	each ib_read_lat "${common[@]}" "${events[@]}" "-o 1"
	for t in FETCH_AND_ADD CMP_AND_SWAP; do
		base="-n 128 -A $t"
		each ib_atomic_bw "-m 256" "-m 4096" "-o 1" "-o 16" "-q 16" -R -b "-t 1" \
			"${events[@]}"
		each ib_atomic_lat "-m 256" "-m 4096" "-o 1" -R "${events[@]}"
	done
}

# The programs in their connection types: those for bandwidth with a small path MTU, many QPs,
# events, by the RDMA-CM and with an SRQ, those for latency with the first and events; a minute,
# for the newest of these programs.
matrix()
{
	local base c

	for c in RC UC; do
		base="-c $c -n 64 -s 8192"
		each ib_send_bw "-m 256" "-q 16" -e -R
		each ib_send_lat "-m 256 -e"
		each ib_write_bw "-m 256" "-q 16" -R
		each ib_write_lat "-m 256"
	done
	base="-c RC -n 64 -s 8192"
	each ib_send_bw --use-srq
	each ib_read_bw "-m 256" "-q 16" -e -R
	each ib_read_lat "-m 256 -e"
	base="-c UD -n 64 -s 1024"
	each ib_send_bw "-m 1024" "-q 16" -e -R --use-srq
	each ib_send_lat "-m 4096 -e"
	base="-n 64"
	each ib_atomic_bw "-q 16" "-m 256 -e"
	each ib_atomic_lat -e
}

if [ "${1:-}" = full ]; then
	[ "${2:-}" != one ] || client=roe0 g1=$g0
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
# On the debug kernel rc_ops has these opcodes, sizes and MTUs, rnr_flood goes both ways;
# with 6.1 these are the same programs as with 6.12.
if [ $SLOW = 1 ] && [ "$ROE_KERNEL" != 6.1 ]; then
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
check "ib_write_bw one device" pt ib_write_bw "-n 50 -s 65536" roe0 "$g0"
check "ib_read_bw one device" pt ib_read_bw "-n 50 -s 65536" roe0 "$g0"
check "ib_atomic_lat one device" pt ib_atomic_lat "-n 100" roe0 "$g0"
check "ib_send_lat one device, events, inline" pt ib_send_lat "-n 100 -s 32 -I 64 -e" roe0 "$g0"
[ "$ROE_KERNEL" != 7.2 ] || matrix
tap_done
