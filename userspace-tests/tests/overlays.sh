#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#
# overlays - a device on what is no plain netdev: tunnels, encryption, parts of another
# netdev, one that takes no pieces; and those without a link layer. Between
#
#	here: roe0 - x0 10.1.0.1  ....  x1 10.1.0.2 - roe1 in netns peer
#	           ya 10.9.0.1    ----  yb 10.9.0.2
#
# where x0 and x1 lie on ya and yb, which also take the programs' own TCP.
#
# usage: overlays		what has a link layer
#	 overlays l3		what has none (tun.sh)
#
# Output: TAP. Exit code: 0 if all ok, 1 if not.

# shellcheck disable=SC2034,SC2154 # variables shared with lib.sh
. "$(dirname "$(readlink -f "$0")")/lib.sh"

port=18900
rping=1
in_b="ip netns exec peer"

topo()
{
	netns_add peer && veth ya yb && ip link set yb netns peer || return
	ip addr add 10.9.0.1/24 dev ya && ip -n peer addr add 10.9.0.2/24 dev yb &&
		ip -n peer link set yb mtu 9000 up
}

tunnel()
{
	ip link add x0 type "$1" remote 10.9.0.2 "${@:2}" &&
		ip -n peer link add x1 type "$1" remote 10.9.0.1 "${@:2}"
}

part()
{
	ip link add x0 link ya type "$@" && ip -n peer link add x1 link yb type "$@"
}

# Not encrypted: integrity alone, the bytes still leave in a packet of another kind.
macsec()
{
	local key=00112233445566778899aabbccddeeff a b
	a=$(cat /sys/class/net/ya/address)
	b=$(ip -n peer -br link show yb | awk '{ print $3 }')
	part macsec encrypt off &&
		ip macsec add x0 tx sa 0 pn 1 on key 01 $key &&
		ip macsec add x0 rx port 1 address "$b" &&
		ip macsec add x0 rx port 1 address "$b" sa 0 pn 1 on key 02 $key &&
		ip -n peer macsec add x1 tx sa 0 pn 1 on key 02 $key &&
		ip -n peer macsec add x1 rx port 1 address "$a" &&
		ip -n peer macsec add x1 rx port 1 address "$a" sa 0 pn 1 on key 01 $key
}

# A netdev without scatter-gather, whose packets are checked and copied by IP.
no_pieces()
{
	ip link add x0 type veth peer name x1 netns peer &&
		ethtool -K x0 gro on sg off tx off > /dev/null &&
		ip netns exec peer ethtool -K x1 gro on sg off tx off > /dev/null
}

# IP packets and nothing else
tun()
{
	background "$TESTS/tun_wire" x0 x1 peer
	wait_for 20 ip -n peer link show x1
}

# The same, encrypted
wireguard()
{
	local key=$TMP/key.
	(umask 077 && wg genkey > "${key}a" && wg genkey > "${key}b") &&
		ip link add x0 type wireguard && ip -n peer link add x1 type wireguard &&
		wg set x0 listen-port 5182 private-key "${key}a" peer "$(wg pubkey < "${key}b")" \
			endpoint 10.9.0.2:5182 allowed-ips 10.1.0.2/32 &&
		ip netns exec peer wg set x1 listen-port 5182 private-key "${key}b" \
			peer "$(wg pubkey < "${key}a")" endpoint 10.9.0.1:5182 allowed-ips 10.1.0.1/32
}

# made COMMAND... - the command makes x0 and x1, then each gets an address and a device
made()
{
	"$@" && ip addr add 10.1.0.1/24 dev x0 && ip link set x0 up &&
		ip -n peer addr add 10.1.0.2/24 dev x1 && ip -n peer link set x1 up &&
		link_add roe0 x0 && link_add roe1 x1 peer &&
		a=$(wait_gid roe0 10.1.0.1) && b=$(ns_gid peer roe1 10.1.0.2) && reach '' 10.1.0.2
}

# pair PROGRAM SERVER-ARGUMENTS CLIENT-ARGUMENTS
pair()
{
	port=$((port + 1))
	pair_run 60 $port "$1 ${2//PORT/$port}" "ip netns exec peer $1 ${3//PORT/$port} 10.9.0.1"
}

# over TEXT COMMAND... - the command makes x0 and x1
over()
{
	local text=$1
	shift
	if check "$text: devices" made "$@"; then
		check "$text: verified stream" pair rc_stream "-d roe0 -g $a PORT 30" \
			"-d roe1 -g $b PORT 30"
		check "$text: datagrams" pair ibv_ud_pingpong "-d roe0 -g $a -p PORT -n 50" \
			"-d roe1 -g $b -p PORT -n 50"
		check "$text: 1 MiB WRITEs" pair ib_write_bw "-F -d roe0 -x $a -p PORT -n 30 -s 1048576" \
			"-F -d roe1 -x $b -p PORT -n 30 -s 1048576"
		[ -z "$rping" ] || check "$text: rping" cm "rping -s -a 10.1.0.1 -p @P -C 10 -V" \
			"rping -c -a 10.1.0.1 -p @P -C 10 -V"
	fi
	link_del roe0
	link_del roe1
	ip link del x0
	ip -n peer link del x1 2>/dev/null
}

modprobe -qa vxlan geneve ip_gre macsec ipvlan macvtap tun wireguard
module_or_die
topo_or_die topo
if [ "${1:-}" = l3 ]; then
	# The RDMA core of 6.12 looks for GIDs of another type than RoCE's there.
	case $(uname -r) in 6.*) rping='' ;; esac
	over "tun" tun
	over "WireGuard" wireguard
	tap_done
fi
over "VXLAN" tunnel vxlan id 5 dstport 4789
over "Geneve" tunnel geneve id 5
over "GRE" tunnel gretap
over "MACsec" macsec
over "ipvlan" part ipvlan mode l2
over "macvtap" part macvtap mode bridge
over "no scatter-gather" no_pieces
tap_done
