#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#
# rc-wire - RC against a peer of raw sockets, packet by packet:
#
#	here: roe0 - va 10.0.0.1/24  ----  vb 10.0.0.2/24 in netns peer
#
# Then packets that arrive together and become lists, whatever they are.
#
# Arguments: none. Output: TAP. Exit code: 0 if all ok, 1 if not.

# shellcheck disable=SC2034,SC2154 # variables shared with lib.sh
. "$(dirname "$(readlink -f "$0")")/lib.sh"

topo_peer()
{
	netns_add peer && veth va vb && ip link set vb netns peer || return
	ip addr add 10.0.0.1/24 dev va
	ip -n peer addr add 10.0.0.2/24 dev vb
	ip -n peer link set vb mtu 9000 up
	link_add roe0 va && wait_gid roe0 10.0.0.1 >/dev/null
}

module_or_die
topo_or_die topo_peer
run_tap rc_wire 120 rc_wire -d roe0 -g "$(wait_gid roe0 10.0.0.1)" peer 10.0.0.2 10.0.0.1

# veth polls only for a sender without TSO; netem lets go what came in 20 ms at once
ethtool -K va gro on
ip netns exec peer ethtool -K vb tso off
tc -n peer qdisc add dev vb root netem slot 20ms
nft -f - <<-'N'
	table netdev seen {
		counter roce { }
		chain in {
			type filter hook ingress device "va" priority 0;
			udp dport 4791 counter name roce
		}
	}
N
run_tap rc_wire_lists 60 rc_wire -d roe0 -g "$(wait_gid roe0 10.0.0.1)" peer 10.0.0.2 10.0.0.1 lists
skbs=$(nft list counter netdev seen roce | sed -n 's/.*packets \([0-9]*\) .*/\1/p')
# gso.sh has one of this name: with both chains each skb there would count twice
nft delete table netdev seen
echo "# $skbs skbs for some 90 packets"
check "they came as lists" [ "$skbs" -lt 60 ]
tap_done
