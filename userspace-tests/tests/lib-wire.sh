# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# shellcheck shell=bash
#
# tests/lib-wire.sh - what the two-machine tests share, on top of lib.sh. Both
# machines run the same script; side a is the server of every case.
#
#	wire_sync NAME		wait until the other side is here too
#	wire_case TEXT SECONDS "SERVER" "CLIENT"
#	wire_pair TEXT SECONDS "READY" "SERVER" "CLIENT"
#
# The sides meet over TCP on eth0, whose addresses are set already.

. "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/lib.sh"

SIDE=${ROE_SIDE:?}
PEER=${ROE_PEER:?}
[ "$SIDE" = a ] && OWN=10.77.0.1 || OWN=10.77.0.2
sync_port=19000

# A meeting in numbered order: a listens, b connects and they swap one line. b
# tries again until a is there.
wire_sync()
{
	sync_port=$((sync_port + 1))
	python3 - "$SIDE" "$PEER" $sync_port "$1" $((120 * SLOW)) <<'P'
import socket, sys, time
side, peer, port, word, limit = sys.argv[1:]
end = time.time() + float(limit)
if side == "a":
    s = socket.create_server(("", int(port)))
    s.settimeout(float(limit))
    c = s.accept()[0]
else:
    while True:
        try:
            c = socket.create_connection((peer, int(port)), 2)
            break
        except OSError:
            if time.time() > end:
                sys.exit("no peer at meeting " + word)
            time.sleep(0.1)
c.settimeout(float(limit))
c.sendall(word.encode() + b"\n")
got = c.makefile().readline().strip()
if got != word:
    sys.exit("peer is at %r, we are at %r" % (got, word))
P
}

# The device under test on eth0, named roe0 whatever its type.
wire_link()
{
	no_dad eth0
	if ! rdma link show roe0/1 >/dev/null 2>&1; then
		link_add roe0 eth0 || return
	fi
	GID=$(wait_gid roe0 $OWN) && GID6=$(wait_gid roe0 fd77::${OWN##*.})
}

# One case on both sides: a runs SERVER, b runs CLIENT once a listens on $PORT.
wire_case()
{
	local text=$1 limit=$2 cmd
	wire_sync "${text// /_}" || {
		tap_not_ok "$text: the sides do not meet"
		tap_done
	}
	[ "$SIDE" = a ] && cmd=$3 || cmd=$4
	[ "$SIDE" = b ] && sleep 1.5
	# shellcheck disable=SC2086
	check "$text" timeout -k 5 $((limit * SLOW)) $cmd
}

meet_or_die()
{
	wire_sync "${1// /_}" && return
	tap_not_ok "$1: the sides do not meet"
	tap_done
}

# served SERVER-PID STAY - a server's end, with its output
served()
{
	[ "$2" = 0 ] || kill "$1" 2>/dev/null
	wait "$1"
	set -- $? "$2"
	cat "$TMP/server.out"
	[ "$1" = 0 ] || [ "$2" = 1 ]
}

# The same for a client that may start only when READY succeeds on a. A server that
# does not end by itself begins with "stay".
wire_pair()
{
	local text=$1 limit=$(($2 * SLOW)) server=${4#stay } stay=0
	[ "$server" = "$4" ] || stay=1
	if [ "$SIDE" = a ]; then
		# shellcheck disable=SC2086
		timeout -k 5 $limit $server > "$TMP/server.out" 2>&1 &
		pids+=($!)
		# shellcheck disable=SC2086
		wait_for 30 $3
		meet_or_die "$text"
		meet_or_die "$text, end"
		check "$text" served "${pids[-1]}" $stay
	else
		meet_or_die "$text"
		# shellcheck disable=SC2086
		check "$text" timeout -k 5 $limit $5
		meet_or_die "$text, end"
	fi
}

# The standard set of RC cases, with data verified.
wire_rc_cases()
{
	local pp="ibv_rc_pingpong -d roe0" pt t
	wire_case "pingpong over IPv4" 60 "$pp -g $GID -n 300 -c" \
		"$pp -g $GID -n 300 -c $PEER"
	wire_case "pingpong over IPv6, events" 60 "$pp -g $GID6 -n 300 -c -e" \
		"$pp -g $GID6 -n 300 -c -e $PEER"
	wire_case "pingpong 64 KiB" 60 "$pp -g $GID -n 30 -s 65536 -c" \
		"$pp -g $GID -n 30 -s 65536 -c $PEER"
	wire_stream "verified stream" 300
	for t in ib_send_bw ib_write_bw ib_read_bw; do
		pt="$t -F -d roe0 -x $GID -s 65536 -n 50"
		wire_case "$t" 60 "$pt" "$pt $PEER"
	done
	for t in ib_send_lat ib_write_lat ib_read_lat; do
		pt="$t -F -d roe0 -x $GID -s 64 -n 100"
		wire_case "$t" 60 "$pt" "$pt $PEER"
	done
	for t in ib_atomic_bw ib_atomic_lat; do
		pt="$t -F -d roe0 -x $GID -n 50"
		wire_case "$t" 60 "$pt" "$pt $PEER"
	done
}

# UC and shared receive queues; UC needs a wire that loses nothing.
wire_uc_srq_cases()
{
	local pt pp
	pp="ibv_uc_pingpong -d roe0 -g $GID -n 300 -c"
	wire_case "UC pingpong" 60 "$pp" "$pp $PEER"
	pp="ibv_srq_pingpong -d roe0 -g $GID -n 300 -q 8 -c"
	wire_case "SRQ pingpong, 8 QPs" 60 "$pp" "$pp $PEER"
	pt="ib_write_bw -c UC -F -d roe0 -x $GID -s 65536 -n 50"
	wire_case "ib_write_bw -c UC" 60 "$pt" "$pt $PEER"
	pt="ib_send_lat -c UC -F -d roe0 -x $GID -s 4096 -n 100"
	wire_case "ib_send_lat -c UC" 60 "$pt" "$pt $PEER"
	pt="ib_send_bw --use-srq -F -d roe0 -x $GID -s 4096 -n 100"
	wire_case "ib_send_bw --use-srq" 60 "$pt" "$pt $PEER"
}

# wire_stream TEXT MESSAGES
wire_stream()
{
	wire_case "$1" 120 "rc_stream -d roe0 -g $GID 18700 $2" \
		"rc_stream -d roe0 -g $GID -s ${SEED:-4711} 18700 $2 $PEER"
}
