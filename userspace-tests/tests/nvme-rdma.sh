#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#
# nvme-rdma - NVMe over RDMA: the kernel's own users of fast registration,
# invalidation and RDMA-CM, with a RAM disk as target.
#
# The host registers each request's pages with REG_MR, the target reads and
# writes them and invalidates the key with its answer (SEND with invalidate), or
# the host does it (LOCAL_INV) where the target does not.
#
# Arguments: none. Output: TAP. Exit code: 0 if all ok, 1 if not.

# shellcheck disable=SC2034,SC2154 # variables shared with lib.sh
. "$(dirname "$(readlink -f "$0")")/lib.sh"

cfg=/sys/kernel/config/nvmet
nqn=roe-test
size=64					# MiB
disk=
hostid=$(cat /proc/sys/kernel/random/uuid)	# the kernel's own belongs to its own name

target_up()
{
	modprobe brd rd_nr=1 rd_size=$((size * 1024)) && modprobe nvmet && modprobe nvmet-rdma ||
		return
	mountpoint -q /sys/kernel/config || mount -t configfs none /sys/kernel/config || return
	mkdir $cfg/subsystems/$nqn && echo 1 > $cfg/subsystems/$nqn/attr_allow_any_host &&
	mkdir $cfg/subsystems/$nqn/namespaces/1 &&
	echo /dev/ram0 > $cfg/subsystems/$nqn/namespaces/1/device_path &&
	echo 1 > $cfg/subsystems/$nqn/namespaces/1/enable &&
	mkdir $cfg/ports/1 && echo rdma > $cfg/ports/1/addr_trtype &&
	echo ipv4 > $cfg/ports/1/addr_adrfam && echo 10.0.0.2 > $cfg/ports/1/addr_traddr &&
	echo 4420 > $cfg/ports/1/addr_trsvcid &&
	ln -s $cfg/subsystems/$nqn $cfg/ports/1/subsystems/$nqn
}

target_down()
{
	rm -f $cfg/ports/1/subsystems/$nqn
	rmdir $cfg/ports/1 && echo 0 > $cfg/subsystems/$nqn/namespaces/1/enable &&
	rmdir $cfg/subsystems/$nqn/namespaces/1 && rmdir $cfg/subsystems/$nqn
}

find_disk()
{
	local d

	for d in /sys/block/nvme*n*; do
		[ -e "$d" ] || continue
		disk=/dev/${d##*/}
		[ -b "$disk" ] && return
	done
	return 1
}

# host_up OPTIONS
host_up()
{
	echo "transport=rdma,traddr=10.0.0.2,trsvcid=4420,nqn=$nqn,$1" > /dev/nvme-fabrics &&
	wait_for 20 find_disk
}

host_down()
{
	local c

	for c in /sys/class/nvme/nvme*/delete_controller; do
		echo 1 > "$c"
	done
	! find_disk
}

# Data out by the disk of the host, compared with the disk of the target, and back.
copy()
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
parallel()
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

module_or_die
topo_or_die topo_veth
modprobe nvme-rdma || tap_not_ok "load nvme-rdma"
check "target: RAM disk on 10.0.0.2" target_up || tap_done
for opt in host_traddr=10.0.0.2 host_traddr=10.0.0.1 host_traddr=10.0.0.1,nr_io_queues=1; do
	check "$opt: connect" host_up "hostnqn=roe-host,hostid=$hostid,$opt" || continue
	check "$opt: 4 KiB at a time" copy 4096 128
	check "$opt: 128 KiB at a time" copy 131072 32
	check "$opt: 1 MiB at a time" copy 1048576 8
	check "$opt: four writers at once" parallel
	check "$opt: disconnect" host_down
done
check "target down" target_down
rmmod nvme-rdma nvmet-rdma
tap_done
