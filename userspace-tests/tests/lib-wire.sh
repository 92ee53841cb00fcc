# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# shellcheck shell=bash
#
# tests/lib-wire.sh - what the two-machine tests share, on top of lib.sh. Both
# machines run the same script; side a is the server of every case.
#
#	wire_sync NAME [SECONDS]	wait until the other side is here too
#	wire_case TEXT SECONDS "SERVER" "CLIENT"	see there
#	wire_pair TEXT SECONDS "READY" "SERVER" "CLIENT"
#
# The sides meet over TCP on eth0, whose addresses are set already.

. "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/lib.sh"

SIDE=${ROE_SIDE:?}
PEER=${ROE_PEER:?}
PEER6=${ROE_PEER6:?}
[ "$SIDE" = a ] && OWN=10.77.0.1 || OWN=10.77.0.2
sync_port=19000

# A meeting in numbered order: a listens, b connects and they swap one line. b
# tries again until a is there. No interpreter is started: that takes longest on slow
# machines, and there are many meetings.
wire_sync()
{
	local limit=$((${2:-120} * SLOW)) got=
	sync_port=$((sync_port + 1))
	if [ "$SIDE" = a ]; then
		got=$(timeout $limit nc -l -N "$sync_port" <<< "$1")
	else
		local end=$((SECONDS + limit))
		until { exec 9<> "/dev/tcp/$PEER/$sync_port"; } 2>/dev/null; do
			[ $SECONDS -lt $end ] || break
			nap 0.05
		done
		{ echo "$1" >&9 && read -r -t $limit got <&9; } 2>/dev/null
		{ exec 9>&-; } 2>/dev/null
	fi
	[ "$got" = "$1" ] && return
	echo "# we are at '$1', the peer is at '$got'"
	return 1
}

# The device under test on eth0, named roe0 whatever its type.
wire_link()
{
	no_dad eth0
	if ! rdma link show roe0/1 >/dev/null 2>&1; then
		link_add roe0 eth0 || return
	fi
	GID=$(wait_gid roe0 $OWN) && GID6=$(wait_gid roe0 fd77::${OWN##*.}) || return
	# The core waits one second for a neighbour, which a busy host may not answer in
	wire_sync link && wait_for 60 ping -c 1 -W 5 "$PEER" && wait_for 60 ping -c 1 -W 5 "$PEER6"
}

meet_or_die()
{
	wire_sync "${1// /_}" && return
	tap_not_ok "$1: the sides do not meet"
	tap_done
}

# Somebody listens, on a TCP port or for the CM, or a server has ended already.
serving()
{
	ss -Hltn | grep -q . || [ -e "$listens" ] || ! kill -0 "${pids[-1]}"
}

# served SERVER-PID STAY - a server's end, with its output
served()
{
	[ "$2" = 0 ] || kill "$1" 2>/dev/null
	wait "$1"
	set -- $? "$2"
	cat "$TMP/server.out"
	{ [ "$1" = 0 ] || [ "$2" = 1 ]; } && data_ok "$TMP/server.out"
}

# asked SECONDS COMMAND - a client, with its output, which stays in $TMP/client.out
asked()
{
	local rc=0
	# shellcheck disable=SC2086
	timeout -k 5 "$1" $2 > "$TMP/client.out" 2>&1 || rc=$?
	cat "$TMP/client.out"
	[ $rc = 0 ] && data_ok "$TMP/client.out"
}

# wire_pair TEXT SECONDS "READY" "SERVER" "CLIENT" - one case on both sides: a runs
# SERVER, b runs CLIENT once READY succeeds on a. A server that does not end by itself
# begins with "stay".
wire_pair()
{
	local text=$1 limit=$(($2 * SLOW)) server=${4#stay } stay=0
	[ "$server" = "$4" ] || stay=1
	# no time of the server passes while the other machine is not there yet
	meet_or_die "$text, begin"
	if [ "$SIDE" = a ]; then
		rm -f "$listens"
		# shellcheck disable=SC2086
		timeout -k 5 $limit $tells $server > "$TMP/server.out" 2>&1 &
		pids+=($!)
		# shellcheck disable=SC2086
		wait_for 30 $3
		meet_or_die "$text"
		[ $stay = 0 ] || meet_or_die "$text, end"
		check "$text" served "${pids[-1]}" $stay
	else
		meet_or_die "$text"
		check "$text" asked $limit "$5"
		[ $stay = 0 ] || meet_or_die "$text, end"
	fi
}

# wire_case TEXT SECONDS "SERVER" "CLIENT" - a server that listens
wire_case()
{
	wire_pair "$1" "$2" serving "$3" "$4"
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
	# the stream has small messages, too
	[ -z "${ROE_BRIEF:-}" ] || return 0
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
	wire_stream "UC: verified stream" 200 RT_STREAM=uc RT_PACE_MS=5
	wire_stream "SRQ: verified stream" 200 RT_STREAM=srq
}

# wire_stream TEXT MESSAGES [VARIABLE=VALUE...] - these in both environments
wire_stream()
{
	local stream="env ${*:3} rc_stream -d roe0 -g $GID"
	wire_case "$1" 120 "$stream 18700 $2" "$stream -s ${SEED:-4711} 18700 $2 $PEER"
}
