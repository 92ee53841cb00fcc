#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#
# firewall - netfilter rules for UDP port 4791 are respected, and conntrack does
# not cost packets, also where rdma_rxe has the port:
#
#	initial namespace             netns rb
#	  roe0 - va 10.0.0.1   ----   vb 10.0.0.2 - roe1
#
# Arguments: none. Output: TAP. Exit code: 0 if all ok, 1 if not.

# shellcheck disable=SC2034,SC2154 # variables shared with lib.sh
. "$(dirname "$(readlink -f "$0")")/lib.sh"

topo()
{
	netns_add rb || return
	ip link add va type veth peer name vb netns rb && netdevs+=(va) || return
	no_dad va
	no_dad vb rb
	ip addr add 10.0.0.1/24 dev va
	ip addr add fd00:a::1/64 dev va nodad
	ip -n rb addr add 10.0.0.2/24 dev vb
	ip -n rb addr add fd00:a::2/64 dev vb nodad
	ip link set va up
	ip -n rb link set vb up
	link_add roe0 va && link_add roe1 vb rb && reach '' 10.0.0.2 fd00:a::2
}

# pp SECONDS ADDRESS-A ADDRESS-B - with events: where nothing arrives polling costs two processors
pp()
{
	local ga gb
	ga=$(wait_gid roe0 "$2") && gb=$(ns_gid rb roe1 "$3") || return
	pair_run "$1" 18515 "ibv_rc_pingpong -d roe0 -g $ga -n 100 -c -e" \
		"ip netns exec rb ibv_rc_pingpong -d roe1 -g $gb -n 100 -c -e 10.0.0.1"
}

# rules TEXT... - the only rules, for IPv4 and IPv6
rules()
{
	nft delete table inet roe 2>/dev/null
	nft -f - <<-END
		table inet roe {
			chain input {
				type filter hook input priority 0;
				$*
			}
		}
	END
}

# counted WORDS - packets of the rule with these words
counted()
{
	nft list table inet roe | sed -n "s/.*$1.* packets \([0-9]*\) .*/\1/p"
}

# Packets sent but not received, both ways together.
lost()
{
	echo $(($(counter roe0 tx_pkts) - $(counter roe0 rx_pkts) +
		$(counter roe1 tx_pkts rb) - $(counter roe1 rx_pkts rb)))
}

# none_lost BEFORE - no more than that, once the last ones are through
none_lost()
{
	[ "$(lost)" -le "$1" ]
}

dropped()
{
	rules "udp dport 4791 counter drop" || return
	pp 30 "$1" "$2" && return 1
	[ "$(counted "udp dport 4791")" -gt 0 ]
}

# The most packets that conntrack has seen in one flow to the port.
tracked_packets()
{
	sed -n 's/.*dport=4791 packets=\([0-9]*\) .*/\1/p' /proc/net/nf_conntrack |
		sort -n | tail -n 1
}

# A flow's entry is confirmed by its first packet, which is not lost. (To conntrack
# it stays NEW: what comes back is another flow, with another source port.)
tracked()
{
	local before
	rules "udp dport 4791 ct state new counter accept
	       udp dport 4791 counter drop" || return
	sysctl -qw net.netfilter.nf_conntrack_acct=1
	before=$(lost)
	pp 60 "$1" "$2" || return
	cat /proc/net/nf_conntrack
	wait_for 10 none_lost "$before"
	echo "lost: $before before, $(lost) now"
	none_lost "$before" && [ "$(tracked_packets)" -ge 100 ]
}

# told ADDRESS-A ADDRESS-B - conntrack tells who listens of the new flow from B to the port
told()
{
	python3 -c '
import socket, sys, time
s = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 12)   # NETLINK_NETFILTER
s.bind((0, 1))                                              # NF_NETLINK_CONNTRACK_NEW
s.settimeout(1)
print("listening", flush=True)
b = sys.argv[1]
kind, head = (socket.AF_INET6, b"\x14\x00\x03\x00") if ":" in b else \
             (socket.AF_INET, b"\x08\x00\x01\x00")        # CTA_IP_V6_SRC, CTA_IP_V4_SRC
peer = socket.inet_pton(kind, b)
port = b"\x06\x00\x03\x00" + (4791).to_bytes(2, "big")     # CTA_PROTO_DST_PORT
for _ in range(120):
    try:
        event = s.recv(65536)
        _, _, source = event.partition(head)                # of the first packet
        if source.startswith(peer) and port in event:
            sys.exit(0)
    except socket.timeout:
        pass
sys.exit("nobody told of a flow to the port")' "$2" > "$TMP/told" 2>&1 &
	local listener=$!
	wait_for 20 grep -q listening "$TMP/told" && pp 60 "$1" "$2" || kill $listener
	wait $listener && return
	cat "$TMP/told"
	return 1
}

run_all()
{
	check "$1: without rules" pp 60 10.0.0.1 10.0.0.2
	check "$1: a rule in INPUT stops IPv4" dropped 10.0.0.1 10.0.0.2
	check "$1: a rule in INPUT stops IPv6" dropped fd00:a::1 fd00:a::2
	if [ -e /proc/net/nf_conntrack ]; then
		check "$1: conntrack, IPv4" tracked 10.0.0.1 10.0.0.2
		check "$1: conntrack, IPv6" tracked fd00:a::1 fd00:a::2
	else
		tap_skip "$1: conntrack" "this kernel does not list its entries"
	fi
	nft delete table inet roe
	check "$1: without rules again" pp 60 10.0.0.1 10.0.0.2
}

if ! nft list tables >/dev/null 2>&1; then
	tap_skip "firewall" "this kernel has no nftables"
	tap_done
fi
module_or_die
modprobe -a veth nf_tables nft_ct nf_conntrack 2>/dev/null
topo_or_die topo
run_all "roe alone"

# conntrack's hook runs before or behind ours, as they were registered.
check "roe goes" rmmod roe
links=()
rules "udp dport 4791 ct state new counter accept"
modprobe nf_conntrack_netlink
load_roe
link_add roe0 va && link_add roe1 vb rb
check "conntrack tells of a new flow, IPv4" told 10.0.0.1 10.0.0.2
check "conntrack tells of a new flow, IPv6" told fd00:a::1 fd00:a::2
check "roe goes again" rmmod roe
links=()
if modinfo rdma_rxe >/dev/null 2>&1; then
	check "rdma_rxe has the port" modprobe rdma_rxe
	load_roe
	link_add roe0 va && link_add roe1 vb rb
	run_all "beside rdma_rxe"
else
	tap_skip "rdma_rxe has the port" "this kernel has no rdma_rxe"
fi
tap_done
