#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#
# storage - SCSI over RDMA, SRP and iSER: the kernel's target (LIO) and its initiators, in
# one namespace, with a RAM disk as target.
#
# The initiators register each request's pages (REG_MR) and take the keys back themselves
# (LOCAL_INV): SRP without waiting for it, iSER with the next registration, whose pages it
# names before. The targets read and write the pages.
#
# Arguments: none. Output: TAP. Exit code: 0 if all ok, 1 if not.

# shellcheck disable=SC2034,SC2154 # variables shared with lib.sh
. "$(dirname "$(readlink -f "$0")")/lib-disk.sh"

core=/sys/kernel/config/target/core/iblock_0
srpt=/sys/kernel/config/target/srpt
iscsi=/sys/kernel/config/target/iscsi
iqn=iqn.2000-01.org.roe
srp_tpg=
iscsi_tpg=$iscsi/$iqn:target/tpgt_1

backstore_up()
{
	ram_disk && modprobe target_core_mod && modprobe target_core_iblock && modprobe sd_mod ||
		return
	mkdir -p $core/ram && echo "udev_path=/dev/ram0" > $core/ram/control &&
	echo 1 > $core/ram/enable
}

backstore_down()
{
	rmdir $core/ram $core
}

# guid DEV - as SRP names a port: the second half of its first GID
guid()
{
	local gid

	read -r gid < "/sys/class/infiniband/$1/ports/1/gids/0" && echo "${gid:20}"
}

# The session has the name of the address that it came in by: the target's own.
srp_target_up()
{
	local name

	modprobe ib_srpt && mkdir -p $srpt && name=$(guid roe1) || return
	srp_tpg=$srpt/$name/$name
	mkdir -p "$srp_tpg/lun/lun_0" && ln -s $core/ram "$srp_tpg/lun/lun_0/ram" &&
	mkdir -p "$srp_tpg/acls/10.0.0.2/lun_0" &&
	ln -s "$srp_tpg/lun/lun_0" "$srp_tpg/acls/10.0.0.2/lun_0/lun" &&
	echo 0 > "$srp_tpg/acls/10.0.0.2/lun_0/write_protect" &&
	echo 5555 > $srpt/discovery_auth/rdma_cm_port && echo 1 > "$srp_tpg/enable"
}

srp_target_down()
{
	echo 0 > "$srp_tpg/enable"
	rm "$srp_tpg/acls/10.0.0.2/lun_0/lun" && rmdir "$srp_tpg/acls/10.0.0.2/lun_0" &&
	rmdir "$srp_tpg/acls/10.0.0.2" && rm "$srp_tpg/lun/lun_0/ram" &&
	rmdir "$srp_tpg/lun/lun_0" && rmdir "$srp_tpg" && rmdir "${srp_tpg%/*}" && rmdir $srpt
}

srp_add()
{
	timeout $((40 * SLOW)) sh -c "echo $1 > /sys/class/infiniband_srp/srp-roe0-1/add_target"
}

# srp_login OPTIONS - a target that was just left may still be known
srp_login()
{
	local id

	id=$(printf '%016x' "$(cat /sys/module/ib_srpt/parameters/srpt_service_guid)") || return
	wait_for 20 srp_add "id_ext=$id,ioc_guid=$id,dest=10.0.0.2:5555,src=10.0.0.1$1" &&
	wait_for 20 find_disk 'sd*'
}

srp_logout()
{
	local p

	for p in /sys/class/srp_remote_ports/port-*/delete; do
		echo 1 > "$p"
	done
	wait_for 20 no_disk
}

no_disk()
{
	! find_disk 'sd*'
}

iser_target_up()
{
	modprobe iscsi_target_mod && modprobe ib_isert && mkdir -p $iscsi || return
	mkdir -p "$iscsi_tpg/lun/lun_0" && ln -s $core/ram "$iscsi_tpg/lun/lun_0/ram" || return
	echo 0 > "$iscsi_tpg/attrib/authentication" &&
	echo 0 > "$iscsi_tpg/attrib/demo_mode_write_protect" &&
	echo 1 > "$iscsi_tpg/attrib/generate_node_acls" &&
	echo 1 > "$iscsi_tpg/attrib/cache_dynamic_acls" &&
	mkdir "$iscsi_tpg/np/10.0.0.2:3260" && echo 1 > "$iscsi_tpg/np/10.0.0.2:3260/iser" &&
	echo 1 > "$iscsi_tpg/enable"
}

iser_target_down()
{
	echo 0 > "$iscsi_tpg/enable"
	rmdir "$iscsi_tpg/np/10.0.0.2:3260" && rm "$iscsi_tpg/lun/lun_0/ram" &&
	rmdir "$iscsi_tpg/lun/lun_0" && rmdir "$iscsi_tpg" && rmdir "$iscsi/$iqn:target" &&
	rmdir $iscsi
}

iser_initiator_up()
{
	modprobe ib_iser && mkdir -p /etc/iscsi /run/lock/iscsi || return
	echo "InitiatorName=$iqn:host" > /etc/iscsi/initiatorname.iscsi
	printf '%s\n' "node.startup = manual" "node.session.timeo.replacement_timeout = 5" \
		"node.conn[0].timeo.noop_out_interval = 0" > /etc/iscsi/iscsid.conf
	background iscsid -f > "$TMP/iscsid" 2>&1
	# who comes before it listens is not kept waiting
	wait_for 20 grep -q '00010000 .*@ISCSIADM_ABSTRACT_NAMESPACE' /proc/net/unix &&
		iser_admin -o new
}

iser_admin()
{
	timeout $((60 * SLOW)) iscsiadm -m node -T $iqn:target -p 10.0.0.2:3260 -I iser "$@"
}

iser_login()
{
	iser_admin --login && wait_for 20 find_disk 'sd*'
}

iser_logout()
{
	iser_admin --logout && wait_for 20 no_disk
}

# copies TEXT
copies()
{
	check "$1: 4 KiB at a time" disk_copy 4096 128
	check "$1: 128 KiB at a time" disk_copy 131072 16
	check "$1: 1 MiB at a time" disk_copy 1048576 4
	check "$1: four writers at once" disk_parallel
}

module_or_die
topo_or_die topo_veth
check "RAM disk" backstore_up || tap_done

modprobe ib_srp
if check "SRP target" srp_target_up; then
	for opt in "" ,ch_count=1,queue_size=8; do
		check "SRP$opt: login" srp_login "$opt" || continue
		copies "SRP$opt"
		check "SRP$opt: logout" srp_logout
	done
	if check "SRP: login again" srp_login ""; then
		disk_ends "SRP: the initiator's device deleted" rdma link delete roe0
		check "SRP: no disk any more" wait_for 20 no_disk
		link_add roe0 va && wait_gid roe0 10.0.0.1 > /dev/null
	fi
	check "SRP target down" srp_target_down
fi
rmmod ib_srp ib_srpt

iser_cases()
{
	local direct

	check "iSER target" iser_target_up && check "iSER initiator" iser_initiator_up || return
	for direct in 1 0; do
		echo $direct > /sys/class/infiniband/roe1/direct
		check "iSER, direct $direct: login" iser_login || continue
		copies "iSER, direct $direct"
		check "iSER, direct $direct: logout" iser_logout
	done
	check "iSER target down" iser_target_down
}

if command -v iscsid > /dev/null; then
	iser_cases
else
	tap_skip "iSER" "no iscsid in this image"
fi
check "RAM disk down" backstore_down
tap_done
