# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# shellcheck shell=bash
#
# tests/lib-disk.sh - what the tests of block devices over RDMA share, on top of lib.sh:
# a RAM disk, /dev/ram0, that a target in the kernel exports, and the disk that a host on
# the same machine makes of it. What is written by the one is looked at on the other.

. "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/lib.sh"

disk=

# The RAM disk, and the file system that targets are configured by.
ram_disk()
{
	modprobe brd rd_nr=1 rd_size=65536 || return
	mountpoint -q /sys/kernel/config || mount -t configfs none /sys/kernel/config
}

# find_disk PATTERN - the first disk so named becomes $disk
find_disk()
{
	local d

	# shellcheck disable=SC2231 # the words of a pattern
	for d in /sys/block/$1; do
		[ -e "$d" ] || continue
		disk=/dev/${d##*/}
		[ -b "$disk" ] && return
	done
	return 1
}

# disk_copy BLOCKSIZE COUNT - data out by the disk of the host, compared with the disk
# of the target, and back
disk_copy()
{
	local bs=$1 count=$2

	dd if=/dev/urandom of="$TMP/data" bs=64k count=$((bs * count / 65536)) status=none &&
	dd if="$TMP/data" of="$disk" bs="$bs" oflag=direct status=none || return
	blockdev --flushbufs /dev/ram0
	cmp -n $((bs * count)) "$TMP/data" /dev/ram0 || return
	dd if="$disk" of="$TMP/back" bs="$bs" count="$count" iflag=direct status=none &&
	cmp "$TMP/data" "$TMP/back"
}

# Several readers and writers at once, each in a piece of its own.
disk_parallel()
{
	local i rc=0 p=()

	dd if=/dev/urandom of="$TMP/data" bs=1M count=4 status=none
	for i in 0 1 2 3; do
		dd if="$TMP/data" of="$disk" bs=32k oflag=direct,seek_bytes seek=$((i << 22)) \
			conv=notrunc status=none &
		p+=($!)
	done
	for i in "${p[@]}"; do
		wait "$i" || rc=1
	done
	for i in 0 1 2 3; do
		dd if="$disk" bs=32k count=128 iflag=direct,skip_bytes skip=$((i << 22)) \
			status=none | cmp - "$TMP/data" || rc=1
	done
	return $rc
}

# disk_ends TEXT COMMAND... - a reader gets an error, and does not hang, when the command
# takes the disk away
disk_ends()
{
	local text=$1 reader
	shift
	(while dd if="$disk" of=/dev/null bs=64k iflag=direct status=none; do :; done) \
		2> "$TMP/reader" &
	reader=$!
	sleep 0.3
	check "$text" timeout $((40 * SLOW)) "$@"
	check "$text: the reader ends" wait_for 60 not_running "$reader"
}
