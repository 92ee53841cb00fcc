#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#
# wire-apps - UCX, libfabric, qperf and Open MPI between two machines. UCX and Open MPI
# over it choose their transports themselves.
#
# Arguments: none; environment as in lib-wire.sh. Runs on both machines.
# Output: TAP. Exit code: 0 if all ok, 1 if not.

# shellcheck disable=SC2034,SC2154 # variables shared with lib.sh
. "$(dirname "$(readlink -f "$0")")/lib-wire.sh"

used()
{
	rdma statistic show link roe0/1 | grep -o " $1 [0-9]*" | grep -o '[0-9]*$'
}

# Open MPI has no ssh here: mpirun on b hands the command of its daemon on a to a
# listener there. The daemon, too, wants to see the agent, by the same name. Open MPI 5
# binds each rank to a processor of its own, and refuses where there are fewer.
agent=/tmp/mpi-agent
cat > "$TMP/daemon" <<- 'D'
	#!/bin/bash
	nc -l 19900 > "$0.cmd"
	exec bash "$0.cmd"
D
cat > $agent <<- 'A'
	#!/bin/bash
	while [[ $1 == -* ]]; do shift; done
	shift
	echo "$*" | nc -N 10.77.0.1 19900
A
chmod 755 "$TMP/daemon" $agent
mpi="mpirun --allow-run-as-root --mca plm_rsh_agent $agent --mca pml ucx --bind-to none"

module_or_die
topo_or_die wire_link
cat > "$TMP/batch" <<- B
	tag_lat -t tag_lat -n 50 -w 5 -s 8
	tag_bw_64K -t tag_bw -n 20 -w 2 -s 65536
	stream_bw -t stream_bw -n 20 -w 2 -s 4096
	get_64K -t ucp_get -n 20 -w 2 -s 65536
	put_lat -t ucp_put_lat -n 50 -w 5 -s 8
	fadd -t ucp_fadd -n 20 -w 2 -s 8
B
ucx="ucx_perftest $(ucx_alone) -f -v -b $TMP/batch"
before=$(used rx_pkts)
wire_pair "UCX, nothing chosen" 90 "listening 13337" "$ucx" "$ucx $PEER"
check "UCX chose RDMA" [ $(($(used rx_pkts) - before)) -gt 300 ]
# fi_pingpong's own port is one that the kernel may give to anybody
echo 47592 > /proc/sys/net/ipv4/ip_local_reserved_ports
f="fi_pingpong -c -I 20 -p"
wire_pair "libfabric verbs, msg" 60 "listening 47592" "$f verbs -e msg" "$f verbs -e msg $PEER"
wire_pair "libfabric verbs, msg, IPv6" 60 "listening 47592" "$f verbs -e msg -6" \
	"$f verbs -e msg -6 fd77::1"
wire_pair "libfabric verbs;ofi_rxm, rdm" 60 "listening 47592" "$f verbs;ofi_rxm -e rdm" \
	"$f verbs;ofi_rxm -e rdm $PEER"
wire_pair "libfabric verbs;ofi_rxd, rdm over UD" 300 "listening 47592" \
	"$f verbs;ofi_rxd -e rdm -S 65536" "$f verbs;ofi_rxd -e rdm -S 65536 $PEER"
wire_pair "qperf, CM" 60 "listening 19765" "stay $qperf_server" \
	"qperf $PEER -to 60 -t 1 -cm 1 rc_bw rc_lat rc_rdma_read_bw ver_rc_fetch_add"
# ranks TEXT HOSTS NUMBER - its messages are right, and RDMA's
ranks()
{
	before=$(used rx_pkts)
	wire_pair "$1" 300 "listening 19900" "stay $TMP/daemon" "$mpi --host $2 -np $3 mpi_ring 1"
	check "$1: by RDMA" [ $(($(used rx_pkts) - before)) -gt 300 ]
	[ "$SIDE" = a ] || check "$1: all messages are right" \
		grep -q "mpi_ring: $3 ranks.*ok" "$TMP/client.out"
}

ranks "Open MPI over UCX, a rank on each" roe-b,roe-a 2
ranks "Open MPI over UCX, two ranks on each" roe-b:2,roe-a:2 4
tap_done
