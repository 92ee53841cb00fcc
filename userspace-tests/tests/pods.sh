#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#
# pods - containers that share the device of their host, each with a macvlan or a VLAN
# over its netdev, as Kubernetes has it with mlx5:
#
#	netns ra, the host: roe0 - va 10.0.0.1          netns rb: roe1 - vb 10.0.0.2
#	   netns pa:  pa, a macvlan    10.0.0.11   ----                   |
#	   netns pb:  pb, the same     10.0.0.12        \                 |
#	   netns pv:  va.7, a VLAN     10.7.0.1    ------ veth ----  vb.7 10.7.0.2
#
# Their addresses are GIDs of roe0; packets go through the stack of the pod. Pods die,
# come back and lose their netdev to another under traffic.
#
# Arguments: none. Output: TAP. Exit code: 0 if all ok, 1 if not.

# shellcheck disable=SC2034,SC2154 # variables shared with lib.sh
# shellcheck disable=SC2317 # functions are called by check and others
. "$(dirname "$(readlink -f "$0")")/lib.sh"

# netdev_in NETNS DEV ADDRESS4 ADDRESS6
netdev_in()
{
	no_dad "$2" "$1"
	ip -n "$1" addr add "$3/24" dev "$2"
	ip -n "$1" addr add "$4/64" dev "$2" nodad
	ip -n "$1" link set "$2" up
}

# pod NETNS N - a macvlan over the host's netdev, with the same MAC each time: the others
# remember it
pod()
{
	netns_add "$1" && ip -n ra link add link va name "$1" address "02:00:00:00:00:$2" \
		netns "$1" type macvlan mode bridge && netdev_in "$1" "$1" "10.0.0.$2" "fd00:a::$2" &&
		reach "$1" 10.0.0.2 fd00:a::2
}

topo_pods()
{
	netns_add ra && netns_add rb && netns_add pv || return
	ip -n ra link add va type veth peer name vb netns rb || return
	netdev_in ra va 10.0.0.1 fd00:a::1
	netdev_in rb vb 10.0.0.2 fd00:a::2
	ip -n ra link add link va name va.7 type vlan id 7 || return
	ip -n rb link add link vb name vb.7 type vlan id 7 || return
	ip -n ra link set va.7 netns pv || return
	link_add roe0 va ra && link_add roe1 vb rb || return
	netdev_in pv va.7 10.7.0.1 fd00:7::1
	netdev_in rb vb.7 10.7.0.2 fd00:7::2
	pod pa 11 && pod pb 12 && reach pa 10.0.0.12 fd00:a::12 &&
		reach ra 10.0.0.2 && reach pv 10.7.0.2 fd00:7::2
}

# in_ns NETNS DEV ADDRESS COMMAND... - a ping-pong program with its device and GID
in_ns()
{
	local g
	g=$(ns_gid "$1" "$2" "$3") || return
	echo "ip netns exec $1 $4 -d $2 -g $g ${*:5}"
}

# pingpong PROGRAM NETNS DEV ADDRESS NETNS DEV ADDRESS [OPTION...]. The programs meet
# over IPv4
pingpong()
{
	pair_run 60 18515 "$(in_ns "$2" "$3" "$4" "$1" "${@:8}")" \
		"$(in_ns "$5" "$6" "$7" "$1" "${@:8}") $(ipv4_of "$4")"
}

# ipv4_of ADDRESS - fd00:a::11 goes with 10.0.0.11, fd00:7::1 with 10.7.0.1
ipv4_of()
{
	case $1 in
	fd00:a::*) echo "10.0.0.${1##*:}" ;;
	fd00:7::*) echo "10.7.0.${1##*:}" ;;
	*) echo "$1" ;;
	esac
}

# ends TEXT NETNS DEV ADDRESS4 ADDRESS6 NETNS DEV ADDRESS4 ADDRESS6
ends()
{
	local t=$1 a=$2 ad=$3 a4=$4 a6=$5 b=$6 bd=$7 b4=$8 b6=$9

	check "$t: RC over IPv4" pingpong ibv_rc_pingpong "$a" "$ad" "$a4" "$b" "$bd" "$b4" -n 200 -c
	check "$t: the other end asks" pingpong ibv_rc_pingpong "$b" "$bd" "$b4" "$a" "$ad" "$a4" -n 200 -e
	check "$t: RC over IPv6" pingpong ibv_rc_pingpong "$a" "$ad" "$a6" "$b" "$bd" "$b6" -n 200 -c
	check "$t: UC" pingpong ibv_uc_pingpong "$a" "$ad" "$a4" "$b" "$bd" "$b4" -n 200
	check "$t: UD" pingpong ibv_ud_pingpong "$a" "$ad" "$a4" "$b" "$bd" "$b4" -n 200 -s 1024
	check "$t: UD over IPv6" pingpong ibv_ud_pingpong "$a" "$ad" "$a6" "$b" "$bd" "$b6" -n 200 -s 1024
	check "$t: verified stream" pair_run 90 18700 \
		"$(in_ns "$a" "$ad" "$a4" rc_stream 18700 $((200 / SLOW)))" \
		"$(in_ns "$b" "$bd" "$b4" rc_stream 18700 $((200 / SLOW)) "$a4")"
	in_a="ip netns exec $a" in_b="ip netns exec $b"
	check "$t: rping" cm "rping -s -a $a4 -p @P -C 10 -V" "rping -c -a $a4 -p @P -C 10 -V"
	check "$t: rping over IPv6" cm "rping -s -a $a6 -p @P -C 10 -V" "rping -c -a $a6 -p @P -C 10 -V"
	check "$t: udaddy" cm "udaddy -b $a4 -c 2" "udaddy -s $a4 -c 2"
	in_a='' in_b=''
}

# drop NETNS - its firewall throws packets of RoCE away. Kernels without nftables have
# no firewall.
drop()
{
	ip netns exec "$1" nft -f - <<-END
		table inet roe {
			chain in {
				type filter hook input priority 0;
				udp dport 4791 drop
			}
		}
	END
}

allow()
{
	ip netns exec "$1" nft delete table inet roe
}

one_message()
{
	pingpong ibv_rc_pingpong pa roe0 10.0.0.11 rb roe1 10.0.0.2 -n 1 -e
}

# between_pods [OPTION...] - what the firewall of the second one sees
between_pods()
{
	pingpong ibv_rc_pingpong pa roe0 10.0.0.11 pb roe0 10.0.0.12 "$@"
}

# went_directly NUMBER - has the device had more packets without a network since then?
went_directly()
{
	local n

	sleep 0.1	# the core keeps counters for 10 ms
	n=$(counter roe0 direct_pkts ra) || return
	echo "$1 direct packets before, $n now"
	[ "$n" -gt "$1" ]
}

cannot()
{
	! "$@"
}

# --- traffic while pods come and go: processes of this namespace, with GIDs of the pod ---

traffic=()
sent=0

# start_traffic NETNS ADDRESS [rc|ud]
start_traffic()
{
	local g h to=10.0.0.2
	case $2 in *:*) to=fd00:a::2 ;; esac
	sent=$(counter roe1 tx_pkts rb)
	g=$(ns_gid "$1" roe0 "$2") && h=$(ns_gid rb roe1 "$to") || return
	background "ibv_${3:-rc}_pingpong" -d roe0 -g "$g" -n 100000000 > "$TMP/s.out" 2>&1
	traffic=("$bg")
	wait_for 20 listening 18515 || return
	background "ibv_${3:-rc}_pingpong" -d roe1 -g "$h" -n 100000000 127.0.0.1 > "$TMP/c.out" 2>&1
	traffic+=("$bg")
	wait_for 20 moving
}

moving()
{
	[ "$(counter roe1 tx_pkts rb)" -gt $((sent + 100)) ]
}

traffic_ended()
{
	! kill -0 "${traffic[@]}"
}

stop_traffic()
{
	kill -9 "${traffic[@]}" 2>/dev/null
	wait_for 20 traffic_ended
}

no_gid()
{
	! ip netns exec ra bash -c 'gid_index "$@"' gid_index roe0 "$1"
}

# our socket in a pod, port 4791: its inode
port_of()
{
	ip netns exec "$1" awk '$2 ~ /:12B7$/ { print $10 }' /proc/net/udp
}

no_port()
{
	[ -z "$(port_of "$1")" ]
}

a_gid()
{
	! no_gid "$1"
}

# An address that comes and goes makes no work for the worker of all RDMA devices: a socket is
# closed when the pod has had no GID for a while (a busy host may be late).
keeps_port()
{
	local i before
	for i in {1..5}; do
		before=$(port_of pb)
		ip -n pb addr flush dev pb
		wait_for 30 no_gid 10.0.0.12 && ip -n pb addr add 10.0.0.12/24 dev pb &&
			wait_for 30 a_gid 10.0.0.12 || return
		[ -z "$before" ] || [ "$(port_of pb)" != "$before" ] || return 0
	done
	return 1
}

module_or_die
modprobe -a veth macvlan 8021q 2>/dev/null
topo_or_die topo_pods
ends "pod and its host's neighbour" pa roe0 10.0.0.11 fd00:a::11 rb roe1 10.0.0.2 fd00:a::2
ip netns exec ra sh -c "echo 1 > /sys/class/infiniband/roe0/direct"
direct=$(counter roe0 direct_pkts ra)
ends "two pods of one device" pa roe0 10.0.0.11 fd00:a::11 pb roe0 10.0.0.12 fd00:a::12
check "two pods of one device: all of it through their networks" cannot went_directly "$direct"
ends "pod with a VLAN" pv roe0 10.7.0.1 fd00:7::1 rb roe1 10.7.0.2 fd00:7::2
check "within a pod" pingpong ibv_rc_pingpong pa roe0 10.0.0.11 pa roe0 10.0.0.11 -n 200 -c
check "which is the way without a network" went_directly "$direct"
check "the host itself" pingpong ibv_rc_pingpong ra roe0 10.0.0.1 rb roe1 10.0.0.2 -n 200 -c

if ip netns exec ra nft list tables >/dev/null 2>&1; then
	check "the host's firewall drops" drop ra
	check "which is not the pod's" one_message
	check "and the pod's" drop pa
	check "which is" cannot one_message
	allow ra
	allow pa
	check "and lets pass again" one_message
	check "the firewall of a pod drops what another of the device sends" drop pb
	check "which is all" cannot between_pods -n 1 -e
	allow pb
	check "and lets pass again" between_pods -n 1
else
	tap_skip "firewalls of pods" "no nftables here"
fi

# Who loses a datagram asks for no route any more: what it has of the namespace it keeps
for a in "10.0.0.11 rc" "fd00:a::11 rc" "fd00:a::11 ud"; do
	# shellcheck disable=SC2086 # two words
	check "traffic of a pod, $a" start_traffic pa $a
	check "pod deleted under traffic" ip netns del pa
	check "its address is no GID any more" wait_for 30 no_gid "${a% *}"
	check "the device is there" pingpong ibv_rc_pingpong pb roe0 10.0.0.12 rb roe1 10.0.0.2 -n 200 -c
	check "processes can end" stop_traffic
	check "the pod comes back" pod pa 11
	check "and can talk" one_message
done

ip netns exec pb sh -c "echo 1 > /proc/sys/net/ipv6/conf/all/disable_ipv6"
check "a pod's address goes and comes" keeps_port
ip -n pb addr flush dev pb
check "and goes" wait_for 60 no_port pb

check "traffic again" start_traffic pa 10.0.0.11
netns_add pc
check "its netdev moves to another pod" ip -n pa link set pa netns pc
netdev_in pc pa 10.0.0.11 fd00:a::11
reach pc 10.0.0.2
check "which can talk" pingpong ibv_rc_pingpong pc roe0 10.0.0.11 rb roe1 10.0.0.2 -n 200 -c
check "processes can end" stop_traffic
check "traffic in that one" start_traffic pc 10.0.0.11
check "the device is deleted under pods" ip netns exec ra rdma link delete roe0
check "processes can end" stop_traffic
check "a new device has the GIDs of pods" link_add roe0 va ra
check "and they can talk" pingpong ibv_rc_pingpong pc roe0 10.0.0.11 rb roe1 10.0.0.2 -n 200 -c
check "traffic of pods" start_traffic pc 10.0.0.11
ip netns del ra
check "the host's namespace is deleted under pods: no device" wait_for 30 \
	sh -c '! rdma link | grep -q roe0/'
check "processes can end" stop_traffic
tap_done
