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
. "$(dirname "$(readlink -f "$0")")/lib-disk.sh"

cfg=/sys/kernel/config/nvmet
nqn=roe-test
hostid=$(cat /proc/sys/kernel/random/uuid)	# the kernel's own belongs to its own name

target_up()
{
	ram_disk && modprobe nvmet && modprobe nvmet-rdma || return
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

# host_up OPTIONS
host_up()
{
	echo "transport=rdma,traddr=10.0.0.2,trsvcid=4420,nqn=$nqn,$1" > /dev/nvme-fabrics &&
	wait_for 20 find_disk 'nvme*n*'
}

# What is lost is sent again from the same registration: that of requests, READs and WRITEs.
lossy()
{
	local d before rc

	modprobe sch_netem
	before=$(($(counter roe0 retransmitted_pkts) + $(counter roe1 retransmitted_pkts)))
	for d in va vb; do
		tc qdisc add dev $d root netem loss 2% delay 100us limit 10000 || return
	done
	disk_copy 131072 24 && disk_copy 4096 96 && { [ "$ROE_KERNEL" != 6.12 ] || disk_parallel; }
	rc=$?
	for d in va vb; do tc qdisc del dev $d root; done
	[ $(($(counter roe0 retransmitted_pkts) + $(counter roe1 retransmitted_pkts))) -gt "$before" ] &&
		return $rc
}

# The RTU (0x14), the last message of the CM's handshake, to QP 1 is lost for the I/O queue: a command
# comes to a connection that is not established yet, and waits until the REP is sent again.
no_rtu()
{
	local rtu="udp dport 4791 @th,104,24 1 @th,352,16 0x14 limit rate 1/hour burst 1 packets" rc=0

	nft -f - <<- N || return
		table ip rtu {
			chain lost {
				type filter hook input priority 0;
				$rtu accept;
				$rtu counter drop;
			}
		}
	N
	host_up "$1" || rc=1
	nft list table ip rtu | tee "$TMP/rtu"
	nft delete table ip rtu
	grep -q "counter packets 1 .*drop" "$TMP/rtu" && return $rc
}

no_disk()
{
	! find_disk 'nvme*n*'
}

host_down()
{
	local c

	for c in /sys/class/nvme/nvme*/delete_controller; do
		echo 1 > "$c"
	done
	wait_for 20 no_disk
}

module_or_die
topo_or_die topo_veth
modprobe nvme-rdma || tap_not_ok "load nvme-rdma"
check "target: RAM disk on 10.0.0.2" target_up || tap_done
options=("host_traddr=10.0.0.2" "host_traddr=10.0.0.1,nr_io_queues=1")
# (the debug kernel takes five times as long)
[ "$SLOW" != 1 ] || options+=(host_traddr=10.0.0.1)
for opt in "${options[@]}"; do
	check "$opt: connect" host_up "hostnqn=roe-host,hostid=$hostid,$opt" || continue
	check "$opt: 4 KiB at a time" disk_copy 4096 128
	check "$opt: 128 KiB at a time" disk_copy 131072 32
	check "$opt: 1 MiB at a time" disk_copy 1048576 8
	check "$opt: four writers at once" disk_parallel
	case $opt in *queues=1) check "$opt: 2 % of packets lost" lossy ;; esac
	check "$opt: disconnect" host_down
done
modprobe -a nf_tables 2> /dev/null
if check "RTU lost: connect" no_rtu "hostnqn=roe-host,hostid=$hostid,nr_io_queues=1"; then
	check "RTU lost: 4 KiB at a time" disk_copy 4096 16
	check "RTU lost: disconnect" host_down
fi
# A page alone is named by its address then, with the key of all memory.
rmmod nvme-rdma
check "register_always=N" modprobe nvme-rdma register_always=N
if check "register_always=N: connect" host_up "hostnqn=roe-host,hostid=$hostid,host_traddr=10.0.0.1"; then
	check "register_always=N: 4 KiB at a time" disk_copy 4096 128
	check "register_always=N: 128 KiB at a time" disk_copy 131072 32
	check "register_always=N: disconnect" host_down
fi
if check "connect again" host_up "hostnqn=roe-host,hostid=$hostid,host_traddr=10.0.0.1"; then
	disk_ends "the host's device deleted" rdma link delete roe0
	check "no disk any more" wait_for 20 no_disk
fi
check "target down" target_down
rmmod nvme-rdma nvmet-rdma
tap_done
