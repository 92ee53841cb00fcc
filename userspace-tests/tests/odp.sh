#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#
# odp - on-demand paging: the C program, on one device and between two devices of one
# namespace, through the network and directly; a process that dies with its pages in
# use; what the tools show; perftest on such memory; devices and module that go while
# workers wait for a page.
#
# Arguments: none. Output: TAP. Exit code: 0 if all ok, 1 if not.

# shellcheck disable=SC2034,SC2154 # variables shared with lib.sh
. "$(dirname "$(readlink -f "$0")")/lib.sh"

# Killed in the middle: the kernel log is the judge, and that the device is idle soon.
dies()
{
	local i
	for ((i = 0; i < 5; i++)); do
		odp -d roe0 -D roe1 die > /dev/null 2>&1
		[ $? = 137 ] || return
	done
	wait_for 20 no_objects
}

# What a killed process had advised is not brought any more: as long as a worker is at it the
# module is in use.
abandons()
{
	local refs
	refs=$(cat /sys/module/roe/refcnt)
	odp -d roe0 advise
	[ $? = 137 ] && wait_for 10 eval "[ \$(cat /sys/module/roe/refcnt) -le $refs ]"
}

# A device goes while threads of its user change their mappings, one or another always.
gone_while_zapped()
{
	local pid in out rc
	mkfifo "$TMP/zin" "$TMP/zout" || return
	odp -d roe0 zap < "$TMP/zin" > "$TMP/zout" &
	pid=$!
	exec {in}> "$TMP/zin" {out}< "$TMP/zout"
	timeout 60 head -c 1 <&"$out" > /dev/null && timeout 60 rdma link del roe0
	rc=$?
	kill -9 $pid
	wait $pid
	exec {in}>&- {out}<&-
	[ $rc = 0 ] && link_add roe0 va && wait_gid roe0 10.0.0.1
}

no_objects()
{
	[ -z "$(rdma resource show mr | grep -v 'comm \[ib_core\]')" ]
}

# 64 pages brought to each side, three taken back on one. The kernel may take others back
# meanwhile, to put its memory in order: as many rounds as it takes until it did not.
shows()
{
	local out i
	for i in 1 2 3 4 5; do
		out=$(odp -d roe0 -D roe1 show) || return
		echo "$out"
		[ "$(grep -c 'odp 1' <<< "$out")" = 2 ] || return
		[ "$(grep -c 'page_faults 64 ' <<< "$out")" = 2 ] &&
			grep -q 'page_invalidations 3 ' <<< "$out" && return
	done
	return 1
}

# perf PROGRAM - both sides on such memory (not ib_atomic_bw, which refuses the option)
perf()
{
	pair_run 120 18515 "$1 -d roe1 -x $gid1 --odp -s 65536 -n 50 -F" \
		"$1 -d roe0 -x $gid0 --odp -s 65536 -n 50 -F 10.0.0.2"
}

# A file system that can be frozen, for as long as the programs run.
freezer()
{
	local loop
	modprobe -q loop
	mkdir -p "$TMP/freeze" && truncate -s 16M "$TMP/freeze.img" &&
		mkfs.ext4 -q -F "$TMP/freeze.img" || return
	# mount -o loop keeps the device open, which not every kernel allows
	loop=$(losetup -f --show "$TMP/freeze.img") && mount "$loop" "$TMP/freeze" &&
		losetup -d "$loop" && export ODP_FREEZE="$TMP/freeze"
}

# A worker of the module waits for a page of a frozen file.
worker_waits()
{
	# shellcheck disable=SC2046 # several files
	grep -qsF '[roe]' $(grep -ls '^kworker' /proc/[0-9]*/comm | sed 's/comm$/stack/')
}

# Workers of the module wait for pages of a frozen file: devices go nevertheless, the
# module says that it is in use, and goes when the file has thawed.
gone_while_frozen()
{
	local pid out in rc
	mkfifo "$TMP/in" "$TMP/out" || return
	odp -d roe0 frozen "$TMP/freeze" < "$TMP/in" > "$TMP/out" &
	pid=$!
	exec {in}> "$TMP/in" {out}< "$TMP/out"
	timeout 60 head -c 1 <&"$out" > /dev/null && wait_for 30 worker_waits &&
		timeout 30 rdma link del roe0 && timeout 30 rdma link del roe1 &&
		in_use
	rc=$?
	# it thaws
	exec {in}>&-
	wait $pid
	exec {out}<&-
	[ $rc = 0 ] && wait_for 20 rmmod roe
}

in_use()
{
	local out
	out=$(timeout 30 rmmod roe 2>&1) && return 1
	echo "$out"
	grep -q "in use" <<< "$out"
}

module_or_die
topo_or_die topo_veth
gid0=$(wait_gid roe0 10.0.0.1)
gid1=$(wait_gid roe1 10.0.0.2)
huge_pages 8
echo 1 > /proc/sys/vm/unprivileged_userfaultfd 2>/dev/null
check "a file system to be frozen" freezer
run_tap "two devices" 400 odp -d roe0 -D roe1 -t 3
run_tap "one device, directly" 400 odp -d roe0 -t 3
check "a process that is killed in the middle" dies
check "one that has advised gigabytes" abandons
check "the tools show what came and went" shows
for p in ib_write_bw ib_read_bw ib_send_bw; do
	check "$p on such memory" perf $p
done
check "a device goes while its user changes its mappings" gone_while_zapped
check "devices and module go while a file is frozen" gone_while_frozen
# workers that waited for a page of it end after their process
check "the file system is not in use any more" wait_for 10 umount -q "$TMP/freeze"
tap_done
