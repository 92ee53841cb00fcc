#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#
# debug-fault - every verb, and `rdma link add`, under allocation failures.
#
# Arguments: none. Output: TAP. Exit code: 0 if all ok, 1 if not. For the debug
# kernel only (names beginning with debug- are run nowhere else).

# shellcheck disable=SC2034,SC2154 # variables shared with lib.sh
. "$(dirname "$(readlink -f "$0")")/lib.sh"

# Addresses from FUNCTION to the next symbol.
range_of()
{
	sort /proc/kallsyms | awk -v f="$1" '
		found && $1 != start { print start, $1; exit }
		!found && $3 ~ "^" f "(_noprof)?$" { found = 1; start = $1 }'
}

# Also the allocations that may wait, which are nearly all; quietly. Not those
# inside of vmalloc(): it would print a stack, which ends the machine.
setup()
{
	local f=/sys/kernel/debug x start end

	mountpoint -q $f || mount -t debugfs debugfs $f || return
	read -r start end < <(range_of __vmalloc_node_range)
	[ -n "$end" ] || return
	for x in failslab fail_page_alloc; do
		echo N > $f/$x/ignore-gfp-wait
		echo 0 > $f/$x/verbose
		echo 32 > $f/$x/stacktrace-depth
		echo $((0x$start)) > $f/$x/reject-start
		echo $((0x$end)) > $f/$x/reject-end
	done
	echo 0 > $f/fail_page_alloc/min-order
}

module_or_die
topo_or_die topo_veth
link_del roe1
check "set fault injection up" setup
run_tap fault 240 fault -d roe0 -g "$(wait_gid roe0 10.0.0.1)" vb
tap_done
