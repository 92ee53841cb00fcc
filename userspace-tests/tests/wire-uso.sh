#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#
# wire-uso - trains cross the wire whole where both ends have UDP segmentation offload
# (scripts/wire --uso), with verified data, also to rdma_rxe; and not where it is
# switched off.
#
# Arguments: none; environment as in lib-wire.sh. Runs on both machines.
# Output: TAP. Exit code: 0 if all ok, 1 if not.

# shellcheck disable=SC2034,SC2154 # variables shared with lib.sh
. "$(dirname "$(readlink -f "$0")")/lib-wire.sh"

sent()
{
	rdma statistic show link roe0/1 | grep -o ' tx_pkts [0-9]*' | grep -o '[0-9]*$'
}

skbs()
{
	cat /sys/class/net/eth0/statistics/tx_packets
}

# dense TEXT LEAST MOST - RoCE packets for one skb, times 100, of large messages from
# b to a; told by the sender. Then a stream with verified data
dense()
{
	local p s d pt="ib_write_bw -F -d roe0 -x $GID -s 65536 -m 1024 -n 100"
	p=$(sent) s=$(skbs)
	wire_case "$1: 64 KiB messages" 60 "$pt" "$pt $PEER"
	if [ "$SIDE" = b ]; then
		p=$(($(sent) - p)) s=$(($(skbs) - s)) d=$((100 * p / s))
		echo "# $p packets in $s skbs"
		check "$1: $2 to $3 packets in 100 skbs" [ $d -ge "$2" -a $d -le "$3" ]
	fi
	wire_stream "$1: verified stream" 100
}

offload()
{
	ethtool -K eth0 tx-udp-segmentation "$1" &&
		ethtool -k eth0 | grep -q "tx-udp-segmentation: $1"
}

module_or_die
topo_or_die wire_link
if ! offload on; then
	# where the host can have it that is no reason to pass
	if [ -n "${ROE_USO_MUST:-}" ]; then
		tap_not_ok "the wire has UDP segmentation offload"
	else
		tap_skip "trains on the wire" "no UDP segmentation offload here: scripts/wire --uso"
	fi
	tap_done
fi
dense "offload" 500 100000
g4=$GID GID=$GID6
dense "offload, IPv6" 500 100000
GID=$g4
offload off
dense "none" 0 100
wire_sync "end"
link_del roe0
links=()
check "unload" unload_roe
offload on
[ "$SIDE" = a ] && ROE_TYPE=rxe
module_or_die
topo_or_die wire_link
dense "offload, to rdma_rxe" 500 100000
GID=$GID6
dense "offload, to rdma_rxe, IPv6" 500 100000
tap_done
