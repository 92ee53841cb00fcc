#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#
# smc - SMC-R, sockets whose bytes go by RDMA WRITE into the peer's ring buffer, between
# two namespaces. The device is that of the netdev by which TCP would go, version 2 of the
# protocol speaks RoCE v2, and both ends belong together by a name (user EID).
#
# Arguments: none. Output: TAP. Exit code: 0 if all ok, 1 if not.

# shellcheck disable=SC2034,SC2154 # variables shared with lib.sh
. "$(dirname "$(readlink -f "$0")")/lib.sh"

topo_netns()
{
	netns_add ra && netns_add rb || return
	ip -n ra link add va type veth peer name vb netns rb || return
	ip -n ra addr add 10.0.0.1/24 dev va && ip -n ra link set va mtu 9000 up &&
	ip -n rb addr add 10.0.0.2/24 dev vb && ip -n rb link set vb mtu 9000 up &&
	link_add roe0 va ra && link_add roe1 vb rb &&
	ns_gid ra roe0 10.0.0.1 > /dev/null && ns_gid rb roe1 10.0.0.2 > /dev/null
}

# Whoever finds no device goes on with TCP, without a word: look at the device.
once_by_rdma()
{
	local before
	before=$(counter roe0 tx_bytes ra) || return
	pair_run 60 5000 "ip netns exec rb smc_stream server 5000" \
		"ip netns exec ra smc_stream client 10.0.0.2 5000" || return
	before=$(($(counter roe0 tx_bytes ra) - before))
	echo "# by RDMA: $before bytes"
	[ $before -gt 8000000 ]
}

# timeouts - connections that had to wait for their first message by RDMA too long
timeouts()
{
	local a b
	a=$(ip netns exec ra smc_stream timeouts) && b=$(ip netns exec rb smc_stream timeouts) &&
		echo $((a + b))
}

# The first message, CONFIRM LINK, has 2 s. If a side says that it fell back for that reason,
# and for that one only, there is another try.
by_rdma()
{
	local i was now
	for i in 1 2 3; do
		was=$(timeouts) || return
		once_by_rdma && return
		now=$(timeouts) || return
		echo "# try $i: fall-backs by a timeout: $((now - was))"
		[ "$now" -gt "$was" ] || return
	done
	return 1
}

module_or_die
# Debian's 7.2 is built without: SMC has become a user of DIBS, which is not set there.
if ! modinfo smc > /dev/null 2>&1; then
	tap_skip "SMC-R" "a kernel without SMC"
	tap_done
fi
modprobe smc || tap_not_ok "load smc"
topo_or_die topo_netns
check "user EID" smc_stream ueid ROE
check "a stream, by RDMA" by_rdma
check "another one, on the link that is there" by_rdma

# Larger than what an allocator gives out in one piece: many pages of a fast MR.
large_buffers()
{
	local n
	ip netns exec ra rdma link delete roe0 && ip netns exec rb rdma link delete roe1 || return
	for n in ra rb; do
		ip netns exec $n sysctl -qw net.smc.smcr_buf_type=1 net.smc.wmem=16777216 \
			net.smc.rmem=16777216 || return
	done
	link_add roe0 va ra && link_add roe1 vb rb &&
	ns_gid ra roe0 10.0.0.1 > /dev/null && ns_gid rb roe1 10.0.0.2 > /dev/null && by_rdma
}

check "buffers of 16 MiB, in single pages" large_buffers
tap_done
