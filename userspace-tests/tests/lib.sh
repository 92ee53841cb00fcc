# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# shellcheck shell=bash
#
# tests/lib.sh - what the userspace tests share. Source it, do not run it:
#
#	. "$(dirname "$(readlink -f "$0")")/lib.sh"
#
# Environment:
#	ROE_KO		path of roe.ko (else `modprobe roe`)
#	ROE_TYPE	link type under test: roe (default), or rxe to try a test
#			on the in-tree rdma_rxe
#	ROE_PARAMS	parameters that roe is loaded with; a test that is about one of
#			them empties it
#	ROE_KERNEL	6.1, 6.12, 7.2, debug ...; debug and kcsan machines get more time
#	ROE_SIDE	a or b, ROE_PEER the peer's IPv4 address (wire-*.sh)
#
# A test prints TAP, the plan last, and ends with tap_done, whose exit code is
# 0 only if everything was ok. Leaving a test for any reason takes down its
# links, netdevs and namespaces and unloads the modules.

set -u
export LC_ALL=C
TESTS=$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")
BUILD=$TESTS/../build
PATH=$BUILD:$PATH:/usr/sbin:/sbin
ROE_TYPE=${ROE_TYPE:-roe}
ROE_KERNEL=${ROE_KERNEL:-}
SLOW=1
# (ROE_SLOW: the kernel of this machine, or of the one at the other end of its wire)
case ${ROE_SLOW:-$ROE_KERNEL} in debug | kcsan) SLOW=5 ;; esac
export RT_TIMEOUT=$((40 * SLOW))
# rdma_rxe raises no QP events, so do not wait for them, and it crashes the
# kernel on opcodes that no user should reach.
[ "$ROE_TYPE" = rxe ] && export RT_EVENT_MS=20 RT_TIMEOUT=5 RT_TAME=1
ulimit -l unlimited 2>/dev/null
TMP=$(mktemp -d)

# ---- TAP ----

tap_n=0
tap_bad=0

tap_ok()
{
	tap_n=$((tap_n + 1))
	echo "ok $tap_n - $*"
}

tap_not_ok()
{
	tap_n=$((tap_n + 1))
	tap_bad=$((tap_bad + 1))
	echo "not ok $tap_n - $*"
}

# tap_skip TEXT REASON
tap_skip()
{
	tap_n=$((tap_n + 1))
	echo "ok $tap_n - $1 # SKIP $2"
}

tap_diag()
{
	sed 's/^/# /'
}

# check TEXT COMMAND... - ok if the command succeeds; its output is shown if not
check()
{
	local text=$1 rc
	shift
	"$@" > "$TMP/check.out" 2>&1
	rc=$?
	if [ $rc = 0 ]; then
		tap_ok "$text"
	else
		tap_not_ok "$text"
		{ echo "exit code $rc of: $*"; cat "$TMP/check.out"; } | tail -n 40 | tap_diag
	fi
	return $rc
}

# refused TEXT WORDS COMMAND... - ok if it fails, with WORDS (an extended regular
# expression) in what it or the kernel log says
refused()
{
	local text=$1 words=$2 before
	shift 2
	before=$(dmesg | wc -l)
	if "$@" > "$TMP/check.out" 2>&1; then
		tap_not_ok "$text"
		echo "was not refused: $*" | tap_diag
		return 1
	fi
	dmesg | tail -n +$((before + 1)) >> "$TMP/check.out"
	if grep -qiE "$words" "$TMP/check.out"; then
		tap_ok "$text"
		return 0
	fi
	tap_not_ok "$text"
	{ echo "refused, but without '$words': $*"; cat "$TMP/check.out"; } | tap_diag
	return 1
}

# The loop at the end of a pipe counts in this shell.
shopt -s lastpipe

# run_tap NAME SECONDS COMMAND... - take over the TAP lines of a program
run_tap()
{
	local name=$1 limit=$2 n=0 plan=-1 line rc
	shift 2
	rc=99
	{
		timeout -k 5 $((limit * SLOW)) "$@" 2> "$TMP/tap.err"
		echo "exit $?"
	} | while IFS= read -r line; do
		case $line in
		"exit "*)
			rc=${line#exit } ;;
		"ok "*)
			n=$((n + 1))
			tap_ok "$name: ${line#ok * - }" ;;
		"not ok "*)
			n=$((n + 1))
			tap_not_ok "$name: ${line#not ok * - }" ;;
		1..*)
			plan=${line#1..} ;;
		*)
			echo "# ${line#\# }" ;;
		esac
	done
	if [ "$plan" != "$n" ] || [ $n = 0 ] || [ $rc -gt 1 ]; then
		tap_not_ok "$name: ran to its end (exit code $rc, $n results, plan $plan)"
		tail -n 20 "$TMP/tap.err" | tap_diag
	fi
	return $rc
}

tap_done()
{
	echo "1..$tap_n"
	[ $tap_bad = 0 ] || echo "# $tap_bad of $tap_n failed"
	[ $tap_bad = 0 ]
	exit
}

# ---- module ----

module_of()
{
	[ "$1" = rxe ] && echo rdma_rxe || echo "$1"
}

load_roe()
{
	local depends

	# each by itself, whatever becomes of the others
	modprobe -aq ib_core ib_uverbs rdma_ucm ib_umad 2>/dev/null
	if [ "$ROE_TYPE" != roe ] || [ -z "${ROE_KO:-}" ]; then
		modprobe "$(module_of "$ROE_TYPE")"
		return
	fi
	[ ! -d /sys/module/roe ] || return 0
	depends=$(modinfo -F depends "$ROE_KO")
	# shellcheck disable=SC2086 # several modules
	[ -z "$depends" ] || modprobe -a ${depends//,/ } || return
	# shellcheck disable=SC2086 # several parameters
	insmod "$ROE_KO" ${ROE_PARAMS:-}
}

unload_roe()
{
	local m
	m=$(module_of "$ROE_TYPE")
	[ -d "/sys/module/$m" ] || return 0
	rmmod "$m"
}

module_or_die()
{
	load_roe && return
	tap_not_ok "load the module"
	tap_done
}

# ---- netdevs, links, namespaces ----

links=()
netdevs=()
spaces=()
pids=()

# link_add DEV NETDEV [NETNS]
link_add()
{
	${3:+ip netns exec "$3"} rdma link add "$1" type "$ROE_TYPE" netdev "$2" || return
	links+=("$1")
}

link_del()
{
	rdma link delete "$1"
}

# veth A B - a veth pair, 9000 bytes MTU, up
veth()
{
	ip link add "$1" type veth peer name "$2" || return
	netdevs+=("$1" "$2")
	no_dad "$1"
	no_dad "$2"
	ip -batch - <<-I
		link set $1 mtu 9000 up
		link set $2 mtu 9000 up
	I
}

# no_dad NETDEV [NETNS] - IPv6 addresses are usable at once
no_dad()
{
	local file=/proc/sys/net/ipv6/conf/$1/accept_dad

	if [ -n "${2:-}" ]; then
		ip netns exec "$2" sh -c "echo 0 > $file"
	else
		echo 0 > "$file"
	fi 2>/dev/null || :
}

# netns_add NAME
netns_add()
{
	ip netns add "$1" || return
	spaces+=("$1")
	ip -n "$1" link set lo up
}

# Two devices roe0 and roe1 over a veth pair in this namespace. Both addresses
# are local, so the pair must be told to take packets from itself.
topo_veth()
{
	local dev

	veth va vb || return
	for dev in all va vb; do
		echo 1 > /proc/sys/net/ipv4/conf/$dev/accept_local
		echo 0 > /proc/sys/net/ipv4/conf/$dev/rp_filter
	done
	# -force: one that fails does not stop the others
	ip -force -batch - <<-I
		addr add 10.0.0.1/24 dev va
		addr add 10.0.0.2/24 dev vb
		addr add fd00:a::1/64 dev va nodad
		addr add fd00:b::1/64 dev vb nodad
	I
	link_add roe0 va && link_add roe1 vb || return
	wait_gid roe0 10.0.0.1 >/dev/null && wait_gid roe1 10.0.0.2 >/dev/null &&
		wait_for 20 neighbour '' va 10.0.0.2 && wait_for 20 neighbour '' vb 10.0.0.1
}

topo_or_die()
{
	"$@" && return
	tap_not_ok "make the topology: $*"
	{ ip -br addr; rdma link; dmesg | tail -n 20; } 2>&1 | tap_diag
	tap_done
}

# ip_to_gid ADDRESS - as the gids files of sysfs spell it. No program is started:
# this runs in loops on slow machines.
ip_to_gid()
{
	local left right n w o=() gid=

	case $1 in
	*:*)
		left=${1%%::*} right=
		[ "$left" = "$1" ] || right=${1#*::}
		IFS=: read -ra o <<< "$left"
		IFS=: read -ra w <<< "$right"
		for ((n = ${#o[@]} + ${#w[@]}; n < 8; n++)); do
			o+=(0)
		done
		o+=("${w[@]}")
		;;
	*)
		IFS=. read -ra w <<< "$1"
		o=(0 0 0 0 0 ffff)
		printf -v n '%x' $((w[0] << 8 | w[1]))
		printf -v w '%x' $((w[2] << 8 | w[3]))
		o+=("$n" "$w")
		;;
	esac
	for w in "${o[@]}"; do
		printf -v gid '%s:%04x' "$gid" "0x$w"
	done
	echo "${gid#:}"
}

# gid_index DEV ADDRESS [NETDEV] - index of the RoCE v2 GID of that address, in the
# beginning of the table, which is filled from there. No program is started here, either.
gid_index()
{
	local i got want port=/sys/class/infiniband/$1/ports/1

	want=$(ip_to_gid "$2")
	for i in {0..59}; do
		read -r got < "$port/gids/$i" && [ "$got" = "$want" ] || continue
		read -r got < "$port/gid_attrs/types/$i" && [ "$got" = "RoCE v2" ] || continue
		if [ -n "${3:-}" ]; then
			read -r got < "$port/gid_attrs/ndevs/$i" && [ "$got" = "$3" ] || continue
		fi
		echo "$i"
		return 0
	done 2>/dev/null
	return 1
}

# nap [SECONDS] - 0.1 s, without a program: a read from a pipe that nobody writes to
exec {nap_fd}<> <(:)
# shellcheck disable=SC2120 # for who sources this
nap()
{
	read -r -t "${1:-0.1}" -u $nap_fd || return 0
}

# wait_gid DEV ADDRESS [NETDEV] - the same, waiting for it for up to 20 s: the
# core fills its table from a work queue, and only then is an IPv6 address usable
# whose uniqueness was to be detected.
wait_gid()
{
	local end=$((SECONDS + 20 * SLOW))
	until gid_index "$@"; do
		if [ $SECONDS -ge $end ]; then
			echo "no GID $2 on $1" >&2
			return 1
		fi
		nap
	done
}

# ns_gid NETNS DEV ADDRESS [NETDEV] - wait_gid in another namespace, which has a sysfs of
# its own
export SLOW nap_fd
export -f ip_to_gid gid_index wait_gid nap
ns_gid()
{
	# shellcheck disable=SC2016 # for that shell
	ip netns exec "$1" bash -c 'wait_gid "$@"' wait_gid "${@:2}"
}

# counter DEV NAME [NETNS] - of a device in a namespace; sysfs has those of the
# initial namespace only, from kernel 7 on
counter()
{
	local all
	all=$(${3:+ip netns exec "$3"} rdma statistic show link "$1/1") || return
	[[ $all =~ " $2 "([0-9]+) ]] && echo "${BASH_REMATCH[1]}"
}

# wait_for SECONDS COMMAND... - until the command succeeds
wait_for()
{
	local end=$((SECONDS + $1 * SLOW))
	shift
	until "$@" >/dev/null 2>&1; do
		[ $SECONDS -lt $end ] || return 1
		nap
	done
}

# reach NETNS ADDRESS... - they answer in that namespace, '' for this one, and both sides know
# their neighbour then. Where a QP or an AH wants to, the RDMA core asks for it once, and
# gives it 1 s, which a busy host may not answer in.
reach()
{
	local a
	for a in "${@:2}"; do
		# shellcheck disable=SC2086
		wait_for 20 ${1:+ip netns exec $1} ping -qc 1 -W 5 "$a" || return
	done
}

# neighbour NETNS NETDEV ADDRESS - the netdev knows that neighbour, which is another netdev of
# the same namespace: then the answer to a ping may not come back to who asked
neighbour()
{
	local there=${1:+ip netns exec $1}
	# shellcheck disable=SC2086
	$there ping -qc 1 -W 1 -I "$2" "$3"
	# shellcheck disable=SC2086
	$there ip neigh show dev "$2" | grep -q "^$3 .*lladdr"
}

# not_running PROCESS
not_running()
{
	! kill -0 "$1"
}

# set_huge_pages N - one try, which may give fewer
set_huge_pages()
{
	echo 1 > /proc/sys/vm/compact_memory
	echo "$1" > /proc/sys/vm/nr_hugepages
	[ "$(cat /proc/sys/vm/nr_hugepages)" -ge "$1" ]
}

# huge_pages N - so many pages of 2 MiB. The tests before have left the memory in pieces,
# and some of it to workers that give it back. The caches are dropped only if it takes that:
# then all programs are read again.
huge_pages()
{
	set_huge_pages "$1" 2>/dev/null && return
	echo 3 > /proc/sys/vm/drop_caches
	wait_for 20 set_huge_pages "$1" || echo "# of $1 huge pages there are $(cat /proc/sys/vm/nr_hugepages)"
}

bg=
# background COMMAND... - its process id is in $bg, and it ends with the test
background()
{
	"$@" &
	bg=$!
	pids+=("$bg")
}

# listening PORT - somebody is, by TCP in this namespace, or by the RDMA-CM if $listen_cm
listening()
{
	local port line lines lines6=()
	printf -v port ':%04X ' "$1"
	mapfile -t lines < /proc/net/tcp
	[ ! -e /proc/net/tcp6 ] || mapfile -t lines6 < /proc/net/tcp6
	for line in "${lines[@]}" "${lines6[@]}"; do
		[[ $line != *"$port"*":0000 0A "* ]] || return 0
	done
	[ -n "${listen_cm:-}" ] && rdma resource show cm_id | grep -q "LISTEN.*:$1\b"
}

# In front of a client of perftest -R: see preload/cm_patient.c
# shellcheck disable=SC2034 # for who sources this
cm_patient="env LD_PRELOAD=$BUILD/cm_patient.so"

# qperf's server: see preload/listen_first.c. It waits 5 s for what the client has to say
# next, as the client does, if it is not told to wait longer.
# shellcheck disable=SC2034 # for who sources this
qperf_server="env LD_PRELOAD=$BUILD/listen_first.so qperf -lto 60"

# listening_in NETNS PORT
listening_in()
{
	ip netns exec "$1" ss -Hltn "sport = :$2" | grep -q .
}

# data_ok FILE... - what ibv_*_pingpong -c says of wrong data, and exits as if all were well,
# is not in these outputs
data_ok()
{
	! grep "invalid data" "$@"
}

# pair_run SECONDS PORT "SERVER" "CLIENT" - both must succeed; a client starts
# once its server listens on the TCP port
pair_run()
{
	local limit=$(($1 * SLOW)) port=$2 s rc1 rc2 ns
	case $3 in
	"ip netns exec "*) ns=$(echo "$3" | cut -d' ' -f4) ;;
	*) ns= ;;
	esac
	# shellcheck disable=SC2086
	timeout -k 5 $limit $3 > "$TMP/server.out" 2>&1 &
	s=$!
	pids+=("$s")
	if [ -n "$ns" ]; then
		wait_for 20 listening_in "$ns" "$port"
	else
		wait_for 20 listening "$port"
	fi
	# shellcheck disable=SC2086
	timeout -k 5 $limit $4 > "$TMP/client.out" 2>&1
	rc2=$?
	[ $rc2 = 0 ] || { sleep 1; kill $s 2>/dev/null; }
	wait $s
	rc1=$?
	[ $rc1 = 0 ] && [ $rc2 = 0 ] && data_ok "$TMP/server.out" "$TMP/client.out" && return 0
	echo "server ($rc1): $3"
	tail -n 12 "$TMP/server.out"
	echo "client ($rc2): $4"
	tail -n 12 "$TMP/client.out"
	return 1
}

# In front of a server of the RDMA-CM: $listens is there once it listens
listens=$TMP/listens
tells="env CM_LISTENS=$listens LD_PRELOAD=$BUILD/cm_listens.so"

# cm "SERVER" "CLIENT" - programs of the CM, each behind the words of $in_a and $in_b:
# both must succeed; @P in them is a new port. A server that does not end by itself begins
# with "stay". In $cm_ready is a command, with @P, that tells when the server is ready, if
# that is not when it listens by the CM.
in_a='' in_b='' cm_ready='' port=${port:-7000}
cm()
{
	local limit=$((60 * SLOW)) stay=0 server=$1 client=$2 s rc1 rc2
	port=$((port + 1))
	server=${server//@P/$port}
	client=${client//@P/$port}
	local cm_ready=${cm_ready//@P/$port}
	case $server in
	"stay "*) stay=1 server=${server#stay } ;;
	esac
	rm -f "$listens"
	# shellcheck disable=SC2086
	timeout -k 5 $limit $in_a $tells $server > "$TMP/server.out" 2>&1 &
	s=$!
	pids+=("$s")
	# shellcheck disable=SC2086
	wait_for 30 ${cm_ready:-test -e $listens}
	# shellcheck disable=SC2086
	timeout -k 5 $limit $in_b $client > "$TMP/client.out" 2>&1
	rc2=$?
	[ $rc2 = 0 ] && [ $stay = 0 ] || { sleep 0.5; kill $s 2>/dev/null; }
	wait $s
	rc1=$?
	[ $stay = 1 ] && rc1=0
	[ $rc1 = 0 ] && [ $rc2 = 0 ] && return 0
	echo "server ($rc1): $in_a $server"
	tail -n 12 "$TMP/server.out"
	echo "client ($rc2): $in_b $client"
	tail -n 12 "$TMP/client.out"
	return 1
}

# ucx_alone - what came with Open MPI, as trixie's ucx_perftest, takes its two processes
# from it where standard input is no terminal, but for an option that others do not know
ucx_alone()
{
	if ldd "$(command -v ucx_perftest)" 2>/dev/null | grep -q libmpi; then echo "-P 0"; fi
}

cleanup()
{
	local x
	trap - EXIT
	for x in "${pids[@]}"; do
		kill -9 "$x" 2>/dev/null
	done
	wait 2>/dev/null
	for x in "${links[@]}"; do
		rdma link delete "$x" 2>/dev/null
	done
	for x in "${netdevs[@]}"; do
		ip link del "$x" 2>/dev/null
	done
	for x in "${spaces[@]}"; do
		ip netns del "$x" 2>/dev/null
	done
	rm -rf "$TMP"
	if grep -q '^rdma_rxe ' /proc/modules; then rmmod rdma_rxe; fi
	# the next test would run on this one, with its parameters
	if grep -q '^roe ' /proc/modules; then rmmod roe; fi
}

trap 'rc=$?; cleanup || rc=3; exit $rc' EXIT
trap 'exit 2' INT TERM
