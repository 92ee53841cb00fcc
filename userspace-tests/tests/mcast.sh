#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#
# mcast - multicast through a bridge that forwards a group only to its members:
#
#	netns ra             netns sw               netns rb
#	  roe0 - va ----- pa - brs - pb ----- vb - roe1
#	  10.0.0.1                               10.0.0.2
#
# Arguments: none. Output: TAP. Exit code: 0 if all ok, 1 if not.

# shellcheck disable=SC2034,SC2154 # variables shared with lib.sh
. "$(dirname "$(readlink -f "$0")")/lib.sh"


# port NETNS NETDEV PORT NUMBER - one end, joined to the bridge
port()
{
	ip -n "$1" link add "$2" type veth peer name "$3" netns sw || return
	no_dad "$2" "$1"
	ip -n "$1" addr add "10.0.0.$4/24" dev "$2"
	ip -n "$1" addr add "fd00:a::$4/64" dev "$2" nodad
	ip -n "$1" link set "$2" up
	ip -n sw link set "$3" master brs up
	# What nobody on the port has asked for does not pass.
	ip netns exec sw bridge link set dev "$3" mcast_flood off
}

# The bridge has sent queries, for IPv4 and for IPv6. (Its own count as received.)
queried()
{
	ip -n sw link xstats type bridge dev brs | awk '
		/(IGMP|MLD) queries:/ { kind = $1 }
		kind && /RX:/ { for (i = 3; i <= NF; i += 2) sent[kind] += $i; kind = "" }
		END { exit !(sent["IGMP"] && sent["MLD"]) }'
}

# Without a querier a bridge forwards to nobody, and it is one for IPv6 only once a
# query has left, for which it needs a valid address of its own: its first query
# finds none, and the next one would be due after 31 s. For the time of a response
# from the beginning on it does not trust the answers. (centiseconds)
topo()
{
	netns_add ra && netns_add rb && netns_add sw || return
	ip -n sw link add name brs type bridge mcast_query_response_interval 100 \
		mcast_startup_query_interval 100 mcast_startup_query_count 60 \
		mcast_stats_enabled 1 || return
	ip -n sw link set brs type bridge mcast_querier 1
	no_dad brs sw
	ip -n sw link set brs up
	port ra va pa 1 && port rb vb pb 2 || return
	link_add roe0 va ra && link_add roe1 vb rb || return
	wait_for 20 queried && sleep 1
}

# result NAME FILE - take over the TAP of a program in the background
result()
{
	run_tap "$1" 60 cat "$2"
}

# member PORT GROUP - the bridge has seen the membership
member()
{
	ip netns exec sw bridge mdb show | grep -q "port $1 grp $2"
}

# joined NETNS NETDEV GROUP - is the netdev a member, IP and MAC filter?
joined()
{
	ip -n "$1" maddr show dev "$2" | grep -q "inet6\? *$3"
}

# between GROUP GID-ADDRESS-A GID-ADDRESS-B MAC - from roe0 to roe1
between()
{
	local ga gb rx
	ga=$(ns_gid ra roe0 "$2")
	gb=$(ns_gid rb roe1 "$3")
	check "$1: not a member before" eval "! joined rb vb $1"
	background ip netns exec rb mcast -d roe1 -g "$gb" "$1" 3 0 20 > "$TMP/rx.out" 2>&1
	rx=$bg
	wait_for 20 grep -q ready "$TMP/rx.out"
	check "$1: the netdev is a member" joined rb vb "$1"
	check "$1: with the right MAC address" sh -c "ip -n rb maddr show dev vb | grep -q $4"
	check "$1: the bridge knows" wait_for 20 member pb "$1"
	run_tap "$1: sender, not a member" 60 ip netns exec ra mcast -d roe0 -g "$ga" "$1" 0 20 0
	wait "$rx"
	result "$1: receiver" "$TMP/rx.out"
	check "$1: not a member after it" eval "! joined rb vb $1"
	check "$1: nor its MAC address" sh -c "! ip -n rb maddr show dev vb | grep -q $4"
	run_tap "$1: local copies, the sender's own too" 60 \
		ip netns exec ra mcast -d roe0 -g "$ga" "$1" 4 20 20
	check "$1: not a member after it" eval "! joined ra va $1"
}

module_or_die
modprobe -a veth bridge 2>/dev/null
topo_or_die topo
between 239.1.2.3 10.0.0.1 10.0.0.2 01:00:5e:01:02:03
between ff0e::1:2 fd00:a::1 fd00:a::2 33:33:00:01:00:02
g=$(ns_gid ra roe0 10.0.0.1)
run_tap "refusals" 60 ip netns exec ra mcast -d roe0 -g "$g" 239.7.7.7 api
check "a process that ends attached leaves the group" eval '! joined ra va 239.7.7.7'

# --- two devices, one namespace each, the netdev going ---
background ip netns exec rb mcast -d roe1 -g "$(ns_gid rb roe1 10.0.0.2)" 239.1.2.3 2 0 1 > "$TMP/rx.out" 2>&1
wait_for 20 grep -q ready "$TMP/rx.out"
check "link deleted under members" timeout $((30 * SLOW)) rdma link delete roe1
check "the group is left" wait_for 10 eval '! joined rb vb 239.1.2.3'
kill -9 "$bg"
wait "$bg" 2>/dev/null
link_add roe1 vb rb

# --- a bond: the membership follows the master ---
modprobe bonding 2>/dev/null
ip -n rb link add bond type bond mode active-backup
background ip netns exec rb mcast -d roe1 -g "$(ns_gid rb roe1 10.0.0.2)" 239.1.2.3 1 0 1 > "$TMP/rx.out" 2>&1
wait_for 20 grep -q ready "$TMP/rx.out"
ip -n rb addr flush dev vb
ip -n rb link set vb down
ip -n rb link set vb master bond
ip -n rb addr add 10.0.0.2/24 dev bond
ip -n rb link set bond up
check "netdev enslaved: the bond is the member" wait_for 10 joined rb bond 239.1.2.3
check "and the slave no more" wait_for 10 eval '! joined rb vb 239.1.2.3'
ip -n rb link del bond
check "bond deleted: the netdev again" wait_for 10 joined rb vb 239.1.2.3
kill -9 "$bg"
wait "$bg" 2>/dev/null
tap_done
