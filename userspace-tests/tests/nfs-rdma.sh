#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#
# nfs-rdma - NFS over RDMA: the kernel's server in this namespace, its client in
# another one, or in this one as well (one device):
#
#	netns cl				here
#	  roe0 - va 10.0.0.1/24  ----  vb 10.0.0.2/24 - roe1, export
#
# The client registers the pages of each request (REG_MR), the server reads and writes
# them and takes the key back with its answer (SEND with invalidate); what is long and
# not data, such as a directory, goes by RDMA as well. Devices are taken away and come
# back while files are written.
#
# Neither side needs a program of NFS: what mountd would answer is written into the
# server's caches beforehand, and NFSv4 needs nothing else.
#
# Arguments: none. Output: TAP. Exit code: 0 if all ok, 1 if not.

# shellcheck disable=SC2034,SC2154 # variables shared with lib.sh
. "$(dirname "$(readlink -f "$0")")/lib.sh"

nfsd=/proc/fs/nfsd
export=$TMP/export
mnt=$TMP/mnt
tracing=/sys/kernel/tracing
never=2147483647		# when the answers expire
# fsid, no subtree check, asynchronous, any port
flags=$((0x2000 | 0x400 | 0x10 | 0x2))

topo_client_netns()
{
	netns_add cl && veth va vb && ip link set va netns cl || return
	no_dad va cl
	ip -n cl addr add 10.0.0.1/24 dev va && ip -n cl addr add fd00:a::1/64 dev va nodad &&
	ip -n cl link set va mtu 9000 up &&
	ip addr add 10.0.0.2/24 dev vb && ip addr add fd00:a::2/64 dev vb nodad &&
	make_link roe0 && make_link roe1 || return
	# On a veth a neighbour answers within the question. The RDMA-CM's address resolution
	# expects it later, and waits for all of its 5 s.
	reach cl 10.0.0.2 fd00:a::2
}

# make_link DEV
make_link()
{
	case $1 in
	roe0) link_add roe0 va cl && ns_gid cl roe0 10.0.0.1 && ns_gid cl roe0 fd00:a::1 ;;
	roe1) link_add roe1 vb && wait_gid roe1 10.0.0.2 && wait_gid roe1 fd00:a::2 ;;
	esac > /dev/null
}

# unmake_link DEV
unmake_link()
{
	case $1 in
	roe0) timeout $((30 * SLOW)) ip netns exec cl rdma link delete roe0 ;;
	roe1) timeout $((30 * SLOW)) rdma link delete roe1 ;;
	esac
}

server_up()
{
	local a

	modprobe nfsd && modprobe rpcrdma || return
	mkdir -p "$export" "$mnt" && mount -t tmpfs -o size=256m none "$export" || return
	mountpoint -q $nfsd || mount -t nfsd nfsd $nfsd || return
	for a in 10.0.0.1 10.0.0.2 fd00:a::1; do
		echo "nfsd $a $never client" > /proc/net/rpc/auth.unix.ip/channel || return
	done
	echo "client $export $never $flags 65534 65534 0" > /proc/net/rpc/nfsd.export/channel &&
	printf 'client 1 \\x00000000 %s %s\n' $never "$export" > /proc/net/rpc/nfsd.fh/channel &&
	echo "-3 +4 +4.1 +4.2" > $nfsd/versions && echo 10 > $nfsd/nfsv4gracetime &&
	# nobody was here before who could want a lock back; it can be told so where it has
	# a place to write down who was
	mkdir -p /var/lib/nfs/v4recovery &&
	echo "rdma 20049" > $nfsd/portlist && echo 4 > $nfsd/threads || return
	echo Y > $nfsd/v4_end_grace || sleep 10
}

# What the threads had open is closed by a worker, a moment after they have ended.
server_down()
{
	echo 0 > $nfsd/threads && wait_for 20 umount -q "$export" && umount $nfsd
}

# client_mount NETNS ADDRESS OPTIONS
client_mount()
{
	local in=() proto=rdma

	[ "$1" = here ] || in=(nsenter --net="/run/netns/$1")
	[ "${2/:/}" = "$2" ] || proto=rdma6
	timeout $((60 * SLOW)) "${in[@]}" mount -i -t nfs4 \
		-o "proto=$proto,port=20049,sec=sys,addr=$2,$3" "${2/#*:*/[$2]}:/" "$mnt"
}

client_umount()
{
	timeout $((60 * SLOW)) umount "$mnt"
}

# The pages that the client keeps are no proof.
forget()
{
	sync -f "$mnt" && echo 3 > /proc/sys/vm/drop_caches
}

# same NAME - read by NFS, and on the server
same()
{
	cmp "$TMP/data" "$export/$1" && cmp "$TMP/data" "$mnt/$1"
}

# large BLOCKSIZE BYTES DD-FLAG
large()
{
	local to=${3:+oflag=$3} from=${3:+iflag=$3}

	head -c "$2" /dev/urandom > "$TMP/data"
	# shellcheck disable=SC2086 # nothing, or one word
	dd if="$TMP/data" of="$mnt/large" bs="$1" status=none $to && forget && same large &&
	echo 3 > /proc/sys/vm/drop_caches &&
	dd if="$mnt/large" of="$TMP/back" bs="$1" status=none $from && cmp "$TMP/data" "$TMP/back" &&
	rm "$mnt/large"
}

# Several writers, and then readers, of a file each.
parallel()
{
	local i rc=0 p=()

	head -c 3000001 /dev/urandom > "$TMP/data"
	for i in 0 1 2 3; do
		dd if="$TMP/data" of="$mnt/p$i" bs=$((10000 + 8192 * i)) status=none &
		p+=($!)
	done
	for i in "${p[@]}"; do
		wait "$i" || rc=1
	done
	forget
	p=()
	for i in 0 1 2 3; do
		same p$i &
		p+=($!)
	done
	for i in "${p[@]}"; do
		wait "$i" || rc=1
	done
	rm "$mnt"/p? || rc=1
	return $rc
}

# Of every size from nothing to a page and more, and with them a directory that does
# not fit into one answer without RDMA.
small()
{
	local i n=60 names name

	mkdir "$mnt/dir" || return
	printf -v name '%0150d' 0
	head -c $((n * 101)) "$TMP/data" > "$TMP/text"
	for ((i = 0; i < n; i++)); do
		head -c $((i * 101)) "$TMP/text" > "$mnt/dir/$name.$i" || return
	done
	ln -s "$name$name$name$name" "$mnt/dir/link" || return
	forget
	names=("$mnt/dir"/*)
	[ ${#names[@]} = $((n + 1)) ] && [ "$(readlink "$mnt/dir/link")" = "$name$name$name$name" ] ||
		return
	for ((i = 0; i < n; i++)); do
		head -c $((i * 101)) "$TMP/text" | cmp - "$mnt/dir/$name.$i" || return
	done
	# A file that is still open somewhere is only renamed, until it is closed.
	wait_for 20 rm -r "$mnt/dir" && [ ! -e "$export/dir" ] && return
	ls -A "$mnt/dir" "$export/dir"
	return 1
}

# all TEXT NETNS ADDRESS OPTIONS
all()
{
	check "$1: mount" client_mount "$2" "$3" "$4" || return
	check "$1: 4 MiB, as the client likes" large 1M 4194304
	check "$1: direct I/O, pages" large 65536 1048576 direct
	check "$1: direct I/O, odd pieces" large 33333 700001 direct
	check "$1: four writers and readers at once" parallel
	check "$1: small files and a long directory" small
	check "$1: unmount" client_umount
}

# The client's transport tries again while its device is being removed. If the removal comes
# between its address and its route, rdma_resolve_route() says EINVAL, of any device, and the
# transport hands that to whoever writes, on a hard mount as well.
watch_overtaken()
{
	mountpoint -q $tracing || mount -t tracefs none $tracing || return
	# shellcheck disable=SC2016 # the kernel's $
	printf '%s\n' 'r:roe_test/route rdma_resolve_route ret=$retval:s32' \
		'r:roe_test/connect rdma_connect ret=$retval:s32' > $tracing/kprobe_events &&
		echo 1 > $tracing/events/roe_test/enable
}

unwatch_overtaken()
{
	echo 0 > $tracing/events/roe_test/enable && : > $tracing/kprobe_events
}

# overtaken - whether that is what has happened, once more than when this was last asked
overtaken()
{
	grep -q 'ret=-22$' $tracing/trace && echo "# a reconnect was overtaken" && : > $tracing/trace
}

# write_on - the same again and again, until told to stop
write_on()
{
	while [ ! -e "$TMP/stop" ]; do
		until dd if="$TMP/data" of="$mnt/lost" bs=100000 oflag=direct conv=notrunc \
			status=none; do
			overtaken || return
		done
	done
}

# mount_patient - that outlives a device. On 7.2 a client in a namespace of its own takes
# ENETUNREACH, the answer of its transport while the device is being deleted, for the end of
# a hard mount ("fatal_neterrors"); older ones do not know the word.
mount_patient()
{
	client_mount cl 10.0.0.2 vers=4.2,fatal_neterrors=none ||
		client_mount cl 10.0.0.2 vers=4.2
}

# loss DEV - both ends of a mount wait, and go on when the device is there again
loss()
{
	local dev=$1 writer

	head -c 4000000 /dev/urandom > "$TMP/data"
	rm -f "$TMP/stop"
	write_on &
	writer=$!
	pids+=("$writer")
	sleep 0.5
	check "$dev deleted under a writer" unmake_link "$dev"
	check "$dev is there again" make_link "$dev"
	touch "$TMP/stop"
	check "$dev: the writer goes on" wait_for 200 not_running "$writer"
	check "$dev: and saw no error" wait "$writer"
	echo 3 > /proc/sys/vm/drop_caches
	check "$dev: nothing is lost" same lost
	rm -f "$mnt/lost"
}

# No hard mount that waits for its server may be left when the folder is removed.
leave()
{
	unwatch_overtaken
	umount -fl "$mnt"
	[ ! -e $nfsd/threads ] || server_down
	umount -l "$export"
} 2> /dev/null

trap 'rc=$?; leave; cleanup || rc=3; exit $rc' EXIT
module_or_die
topo_or_die topo_client_netns
check "server on 10.0.0.2" server_up || tap_done
all "NFS 4.2 over a veth" cl 10.0.0.2 vers=4.2
all "NFS 4.0, IPv6" cl fd00:a::2 vers=4.0,clientaddr=fd00:a::1,rsize=65536,wsize=32768
all "NFS 4.1 on one device" here 10.0.0.2 vers=4.1
if check "mount again" mount_patient; then
	check "the client's reconnects are watched" watch_overtaken
	loss roe0
	loss roe1
	check "unmount" client_umount
	check "and no longer" unwatch_overtaken
fi
check "server down" server_down
tap_done
