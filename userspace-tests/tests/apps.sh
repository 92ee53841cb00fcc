#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#
# apps - the programs that people run over verbs, with their own defaults: qperf,
# UCX, libfabric, Open MPI over both; and programs that know only TCP, over rsockets.
#
# usage: apps [REGEX]		only the groups whose name matches: qperf, ucx,
#				fabric, mpi, rsockets
#
# Both ends are processes of this machine, on one device or on two, joined by a
# veth pair. Transports are named only where the default on one machine would be
# shared memory. Options without which a program cannot work over RoCE at all are
# explained in docs/conformance.md.
#
# Output: TAP. Exit code: 0 if all ok, 1 if not.

# shellcheck disable=SC2034,SC2154 # variables shared with lib.sh
. "$(dirname "$(readlink -f "$0")")/lib.sh"

only=${1:-.}
A=10.0.0.1

# pair SECONDS PORT "SERVER" "CLIENT" - both must succeed; the client starts once the server
# listens on the TCP port. A server that does not end by itself begins with "stay". The
# client's output stays in $TMP/client.out
pair()
{
	local limit=$(($1 * SLOW)) s rc stay='' rc1
	[[ $3 != "stay "* ]] || stay=1
	# shellcheck disable=SC2086
	timeout -k 5 $limit ${3#stay } > "$TMP/server.out" 2>&1 &
	s=$!
	pids+=("$s")
	wait_for 30 listening "$2"
	# shellcheck disable=SC2086
	timeout -k 5 $limit $4 > "$TMP/client.out" 2>&1
	rc=$?
	[ $rc = 0 ] && [ -z "$stay" ] || { sleep 0.2; kill $s 2>/dev/null; }
	wait $s 2>/dev/null
	rc1=$?
	[ $rc = 0 ] && { [ -n "$stay" ] || [ $rc1 = 0 ]; } && return
	echo "server ($rc1): $3"
	tail -n 12 "$TMP/server.out"
	echo "client ($rc): $4"
	tail -n 20 "$TMP/client.out"
	return 1
}

# --- qperf ---
# Its tests without the CM cannot set a GRH: not for RoCE

qperf_group()
{
	local t tests="rc_bw rc_bi_bw rc_lat rc_rdma_read_bw rc_rdma_write_lat
		rc_rdma_write_poll_lat ver_rc_compare_swap ver_rc_fetch_add"
	# shellcheck disable=SC2086,SC2116 # one line of it
	tests=$(echo $tests)
	check "qperf: all RC tests, CM" pair 120 19765 "stay $qperf_server" \
		"qperf $A -to 60 -t 1 -cm 1 $tests"
	for t in $tests; do
		check "qperf $t: a result" sh -c "grep -A1 '^$t:' $TMP/client.out | grep -q ' = '"
	done
}

# --- UCX ---

alone=$(ucx_alone)

# ucx TEXT SERVER-DEVICE CLIENT-DEVICE TLS [OPTION...] - the tests of $TMP/batch through the
# whole stack
ucx()
{
	local p="ucx_perftest $alone -f -v -b $TMP/batch ${*:5}"
	check "$1: all tests" pair 120 13337 "env UCX_TLS=$4 UCX_NET_DEVICES=$2:1 $p" \
		"env UCX_TLS=$4 UCX_NET_DEVICES=$3:1 $p 127.0.0.1"
	ucx_results "$1"
}

# uct TEXT DEVICE TRANSPORT - of the bare transport
uct()
{
	local p="ucx_perftest $alone -f -v -d $2:1 -x $3 -b $TMP/batch"
	check "$1: all tests" pair 60 13337 "$p" "$p 127.0.0.1"
	ucx_results "$1"
}

ucx_results()
{
	local t
	while read -r t _; do
		check "$1: $t" grep -q "^$t," "$TMP/client.out"
	done < "$TMP/batch"
}

# In $TMP/batch are lines of a name and its arguments
ucx_group()
{
	cat > "$TMP/batch" <<- B
	tag_lat -t tag_lat -n 100 -w 10 -s 8
	tag_bw_1M -t tag_bw -n 10 -w 2 -s 1048576
	get_64K -t ucp_get -n 50 -w 5 -s 65536
	put_lat -t ucp_put_lat -n 100 -w 10 -s 8
	am_lat -t ucp_am_lat -n 100 -w 10 -s 8
	stream_bw_64K -t stream_bw -n 50 -w 10 -s 65536
	put_bw_64K -t ucp_put_bw -n 50 -w 5 -s 65536
	fadd -t ucp_fadd -n 50 -w 5 -s 8
	cswap -t ucp_cswap -n 50 -w 5 -s 8
	B
	ucx "UCX rc, one device" roe0 roe0 rc,self
	ucx "UCX rc, two devices" roe0 roe1 rc,self
	cat > "$TMP/batch" <<- B
	tag_lat -t tag_lat -n 100 -w 10 -s 8
	tag_bw_64K -t tag_bw -n 20 -w 2 -s 65536
	stream_lat -t stream_lat -n 50 -w 10 -s 8
	B
	ucx "UCX ud, one device" roe0 roe0 ud,self
	ucx "UCX ud, two devices" roe0 roe1 ud,self
	# Between arming a CQ and sleeping it does not poll
	sed -i 's/-n [0-9]*/-n 1000/' "$TMP/batch"
	ucx "UCX rc, sleeping" roe0 roe1 rc,self -E sleep
	ucx "UCX ud, sleeping" roe0 roe1 ud,self -E sleep
	sed -i 's/-n [0-9]*/-n 100/' "$TMP/batch"
	sed -i '/tag_lat/!d' "$TMP/batch"
	check "UCX, nothing chosen: shared memory, whatever devices there are" pair 60 13337 "ucx_perftest $alone -f -v -b $TMP/batch" \
		"ucx_perftest $alone -f -v -b $TMP/batch 127.0.0.1"

	cat > "$TMP/batch" <<- B
	am_lat -t am_lat -D short -n 100 -w 10 -s 8
	am_bw_2K -t am_bw -D bcopy -n 100 -w 10 -s 2048
	put_lat -t put_lat -D short -n 100 -w 10 -s 8
	put_bw_64K -t put_bw -D zcopy -n 50 -w 10 -s 65536
	get_64K -t get -D zcopy -n 50 -w 5 -s 65536
	fadd -t fadd -n 100 -w 5 -s 8
	cswap -t cswap -n 100 -w 5 -s 8
	B
	uct "UCX rc_verbs alone" roe0 rc_verbs
	sed -i '/^am/!d' "$TMP/batch"
	uct "UCX ud_verbs alone" roe0 ud_verbs
}

# --- libfabric, with its data check ---

# fabric ADDRESS ARGUMENT... - once more, if libfabric has crashed: about once in a hundred times
# rxm does so when the other end closes first (docs/conformance.md has the cause)
fabric()
{
	local a=$1 i
	shift
	for i in 1 2 3; do
		pair 300 47592 "fi_pingpong -c $*" "fi_pingpong -c $* $a" && return
		[[ "$*" == *ofi_rxm* ]] && grep "terminated with signal 11" "$TMP/server.out" "$TMP/client.out" ||
			return
	done
	return 1
}

fabric_group()
{
	# fi_pingpong's own port is one that the kernel may give to anybody
	echo 47592 > /proc/sys/net/ipv4/ip_local_reserved_ports
	check "libfabric verbs, msg" fabric $A -I 20 -p verbs -e msg
	check "libfabric verbs, msg, IPv6" fabric fd00:a::1 -I 20 -p verbs -e msg -6
	check "libfabric verbs, dgram" fabric $A -I 20 -p verbs -e dgram
	check "libfabric verbs;ofi_rxm, rdm" fabric $A -I 20 -p "verbs;ofi_rxm" -e rdm
	check "libfabric verbs;ofi_rxd, rdm over UD" fabric $A -I 5 -p "verbs;ofi_rxd" -e rdm
}

# --- Open MPI ---

# mpi RANKS ARGUMENT... - of mpirun
mpi()
{
	local n=$1 rc=0
	shift
	timeout -k 5 $((300 * SLOW)) mpirun --allow-run-as-root --oversubscribe -np "$n" "$@" \
		mpi_ring 1 > "$TMP/mpi.out" 2>&1 || rc=$?
	cat "$TMP/mpi.out"
	[ $rc = 0 ] && grep -q "mpi_ring: $n ranks.*ok" "$TMP/mpi.out"
}

mpi_group()
{
	local ucx="--mca pml ucx -x UCX_NET_DEVICES=roe0:1"
	check "Open MPI, nothing chosen, 2 ranks: the same" mpi 2
	# shellcheck disable=SC2086
	{
	check "Open MPI over UCX rc, 2 ranks" mpi 2 $ucx -x UCX_TLS=rc,self
	check "Open MPI over UCX rc, 4 ranks" mpi 4 $ucx -x UCX_TLS=rc,self
	check "Open MPI over UCX ud, 2 ranks" mpi 2 $ucx -x UCX_TLS=ud,self
	}
	check "Open MPI over libfabric rxm, 2 ranks" mpi 2 --mca pml cm --mca mtl ofi \
		--mca mtl_ofi_provider_include "verbs;ofi_rxm"
}

# --- rsockets: their TCP is RC without their knowledge ---

# preloaded SECONDS PORT "SERVER" "CLIENT" - both must succeed
preloaded()
{
	local limit=$(($1 * SLOW)) lib s rc
	lib=$(echo /usr/lib/*/rsocket/librspreload.so)
	rm -f "$listens"
	# shellcheck disable=SC2086
	timeout -k 5 $limit $tells:$lib $3 > "$TMP/server.out" 2>&1 &
	s=$!
	pids+=("$s")
	wait_for 30 test -e "$listens"
	# shellcheck disable=SC2086
	LD_PRELOAD=$lib timeout -k 5 $limit $4 > "$TMP/client.out" 2>&1
	rc=$?
	wait $s && [ $rc = 0 ] && return
	cat "$TMP/server.out" "$TMP/client.out"
	return 1
}

# bytes by RDMA so far
moved()
{
	local dev n sum=0
	for dev in roe0 roe1; do
		for n in tx_bytes direct_bytes; do
			sum=$((sum + $(counter $dev $n)))
		done
	done
	echo $sum
}

# And by RDMA: where the library cannot, it leaves a program its TCP without a word.
echoed()
{
	local before
	before=$(moved)
	preloaded 60 7000 "tcp_echo server $A 7000" "tcp_echo client $A 7000" || return
	echo "# by RDMA: $(($(moved) - before)) bytes"
	[ $(($(moved) - before)) -gt 2000000 ]
}

rsockets_group()
{
	check "rsockets: a program of TCP, echoed bytes are right" echoed
}

module_or_die
topo_or_die topo_veth
for g in qperf ucx fabric mpi rsockets; do
	[[ $g =~ $only ]] || continue
	start=$SECONDS
	${g}_group
	echo "# $g: $((SECONDS - start)) s"
done
tap_done
