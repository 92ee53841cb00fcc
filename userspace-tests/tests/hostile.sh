#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#
# hostile - processes that call verbs at random, side by side, and are killed; what
# they can take from the host is charged to them.
#
# Arguments: none. Output: TAP. Exit code: 0 if all ok, 1 if not.

# shellcheck disable=SC2034,SC2154 # variables shared with lib.sh
. "$(dirname "$(readlink -f "$0")")/lib.sh"

module_or_die
topo_or_die topo_veth
# Most where KASAN and lockdep look.
race=2 storm=6
[ $SLOW = 1 ] || race=5 storm=12
run_tap "modify_race" 150 modify_race -d roe0 -t $race
run_tap "verbs_storm" 150 verbs_storm -d roe0 -t $storm
run_tap "rnr_flood" 100 rnr_flood -d roe0 -D roe1
echo 1 > /sys/class/infiniband/roe0/direct
run_tap "rnr_flood, directly" 100 rnr_flood -d roe0
# through the network it is the stack's softirqs that take turns with processes
run_tap "bulk_flood" 100 bulk_flood -d roe0

# Kernels of today name the controllers in the file system alone: /proc/cgroups has only
# those that version 1 has as well.
memory_controller()
{
	mkdir -p "$TMP/cgroup" && mount -t cgroup2 cgroup2 "$TMP/cgroup" || return
	grep -qw memory "$TMP/cgroup/cgroup.controllers" || { umount "$TMP/cgroup" && return 1; }
}

# A cgroup of its own with the memory controller.
make_cgroup()
{
	echo +memory > "$TMP/cgroup/cgroup.subtree_control" && mkdir "$TMP/cgroup/charge"
}

charged()
{
	# shellcheck disable=SC2016 # expanded in there
	run_tap "charge" 120 bash -c 'echo $$ > "$0/cgroup.procs" && exec charge -d roe0 "$0"' \
		"$TMP/cgroup/charge"
	rmdir "$TMP/cgroup/charge"
}

if memory_controller; then
	check "a memory cgroup" make_cgroup && charged
	umount "$TMP/cgroup"
else
	tap_skip "charge" "a kernel without memory cgroups"
fi
tap_done
