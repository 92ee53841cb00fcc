#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#
# cm - RDMA-CM: the stock tools of rdmacm-utils and perftest -R over IPv4 and
# IPv6, on one device and between two in namespaces of their own, joined by a
# veth pair.
#
# Arguments: none. Output: TAP. Exit code: 0 if all ok, 1 if not.

# shellcheck disable=SC2034,SC2154 # variables shared with lib.sh
. "$(dirname "$(readlink -f "$0")")/lib.sh"

# tools TEXT ADDRESS4 ADDRESS6
tools()
{
	local t=$1 a=$2 v=$3 r=$TESTS/rping_calm

	check "$t: rping, IPv4" cm "$r -s -a $a -p @P -C 20 -V" "$r -c -a $a -p @P -C 20 -V"
	check "$t: rping, IPv6" cm "$r -s -a $v -p @P -C 20 -V" "$r -c -a $v -p @P -C 20 -V"
	check "$t: ucmatose, 8 connections" cm "ucmatose -b $a -p @P -c 8 -C 20 -S 4096" \
		"ucmatose -s $a -p @P -c 8 -C 20 -S 4096"
	check "$t: udaddy, IPv4" cm "udaddy -b $a -c 4" "udaddy -s $a -c 4"
	check "$t: udaddy, IPv6" cm "udaddy -b $v -c 2" "udaddy -s $v -c 2"
	check "$t: rstream" cm "rstream -b $a -p @P -S 65536 -C 10 -I 2 -T v" \
		"rstream -s $a -p @P -S 65536 -C 10 -I 2 -T v"
	check "$t: riostream" cm "riostream -b $a -p @P -S 16384 -C 10 -I 2 -T v" \
		"riostream -s $a -p @P -S 16384 -C 10 -I 2 -T v"
	check "$t: rdma_server and rdma_client" cm "rdma_server -s $a -p @P" \
		"rdma_client -s $a -p @P"
	check "$t: rcopy moves a file" copies "$a"
	for p in ib_send_bw ib_write_lat ib_read_bw "ib_send_lat -c UD"; do
		check "$t: $p -R" cm "$p -F -R -n 50 -p @P" "$cm_patient $p -F -R -n 50 -p @P $a"
	done
}

copies()
{
	head -c 300000 /dev/urandom > "$TMP/from"
	cm "stay rcopy -p @P" "rcopy $TMP/from $1:$TMP/to -p @P" && cmp "$TMP/from" "$TMP/to"
}

# mcast GROUP ADDRESS-A ADDRESS-B - the sender waits 3 s after its own join. The netdev is
# a member before the receiver's QP is, whose library attaches it when it takes the event.
mcast()
{
	local limit=$((30 * SLOW)) s rc
	# shellcheck disable=SC2086
	timeout -k 5 $limit $in_a stdbuf -oL mckey -m "$1" -b "$2" -C 5 > "$TMP/server.out" 2>&1 &
	s=$!
	pids+=("$s")
	wait_for 30 grep -q "joined dgid" "$TMP/server.out"
	# shellcheck disable=SC2086
	timeout -k 5 $limit $in_b mckey -m "$1" -b "$3" -C 5 -s
	rc=$?
	wait $s && [ $rc = 0 ] && return
	echo "receiver:"
	cat "$TMP/server.out"
	return 1
}

in_a='' in_b=''
module_or_die
topo_or_die topo_veth
tools "one device" 10.0.0.1 fd00:a::1

# Newer ones also connect without QPs, by invented numbers. Both ends of one device
# must not invent the same: to the CM the second is a stale connection.
other_numbers()
{
	cmtime -h 2>&1 | grep -q base_qpn && echo "-q 500000"
}

# Those also meet by TCP beforehand, where the server listens last and the client asks once.
others=$(other_numbers)
[ -z "$others" ] || cm_ready="listening @P"
check "cmtime" cm "stay cmtime -b 10.0.0.1 -p @P -c 10 $others" "cmtime -s 10.0.0.1 -p @P -c 10"
cm_ready=

check "one device: mckey" mcast 239.1.1.1 10.0.0.1 10.0.0.1

refused_at_once()
{
	local rc=0
	timeout $((15 * SLOW)) rping -c -a 10.0.0.1 -p 6999 -C 1 > "$TMP/client.out" 2>&1 || rc=$?
	cat "$TMP/client.out"
	[ $rc != 0 ] && [ $rc != 124 ] && grep -q RDMA_CM_EVENT_REJECTED "$TMP/client.out"
}

check "nobody listens: refused at once" refused_at_once

# Both are of this host, each address of a device of its own.
between()
{
	local before now
	before=$(counter roe1 tx_pkts)
	cm "$@" && now=$(counter roe1 tx_pkts) && [ $((now - before)) -ge 20 ]
}

check "two devices here: rping" between "$TESTS/rping_calm -s -a 10.0.0.1 -p @P -C 20 -V" \
	"$TESTS/rping_calm -c -I 10.0.0.2 -a 10.0.0.1 -p @P -C 20 -V"
check "two devices here: udaddy" between "udaddy -b 10.0.0.2 -c 2" \
	"udaddy -b 10.0.0.1 -s 10.0.0.2 -c 2"

# Two namespaces, a device in each.
for l in "${links[@]}"; do
	link_del "$l"
done
links=()
ip link del va
netdevs=()

topo_netns()
{
	netns_add ra && netns_add rb || return
	ip -n ra link add va type veth peer name vb netns rb || return
	no_dad va ra
	no_dad vb rb
	ip -n ra addr add 10.0.0.1/24 dev va
	ip -n ra addr add fd00:a::1/64 dev va nodad
	ip -n rb addr add 10.0.0.2/24 dev vb
	ip -n rb addr add fd00:a::2/64 dev vb nodad
	ip -n ra link set va mtu 9000 up
	ip -n rb link set vb mtu 9000 up
	link_add roe0 va ra && link_add roe1 vb rb || return
	reach ra 10.0.0.2 fd00:a::2
}

topo_or_die topo_netns
in_a="ip netns exec ra" in_b="ip netns exec rb"
tools "two namespaces" 10.0.0.1 fd00:a::1
check "two namespaces: mckey" mcast 239.1.1.1 10.0.0.1 10.0.0.2
tap_done
