#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#
# debug-fault - every verb, and `rdma link add`, under allocation failures.
#
# Arguments: none. Output: TAP. Exit code: 0 if all ok, 1 if not. For the debug
# kernel only (names beginning with debug- are run nowhere else).

# shellcheck disable=SC2034,SC2154 # variables shared with lib.sh
. "$(dirname "$(readlink -f "$0")")/lib.sh"

# Addresses from FUNCTION to the next symbol; the kernel's own are in order.
range_of()
{
	awk -v f="$1" '
		found && $1 != start { print start, $1; exit }
		!found && $3 ~ "^" f "(_noprof)?$" { found = 1; start = $1 }' "$TMP/symbols"
}

# Addresses of roe's functions.
range_of_roe()
{
	awk '$4 == "[roe]" && $2 ~ /[tT]/ { print $1 }' "$TMP/symbols" | sort |
		sed -n '1p; $p' | paste -sd' '
}

debugfs=/sys/kernel/debug

# put FILE VALUE KIND... - a setting of these kinds of failures
put()
{
	local file=$1 value=$2 x
	shift 2
	for x; do
		echo "$value" > "$debugfs/$x/$file" || return
	done
}

# Also the allocations that may wait, which are nearly all; quietly. Not those
# inside of vmalloc(): it would print a stack, which ends the machine.
setup()
{
	local start end

	mountpoint -q $debugfs || mount -t debugfs debugfs $debugfs || return
	grep -A1 --no-group-separator -E '__vmalloc_node_range|\[roe\]' /proc/kallsyms \
		> "$TMP/symbols"
	read -r start end < <(range_of __vmalloc_node_range)
	[ -n "$end" ] || return
	put ignore-gfp-wait N failslab fail_page_alloc &&
		put min-order 0 fail_page_alloc &&
		put verbose 0 failslab fail_page_alloc fail_usercopy &&
		put reject-start "0x$start" failslab fail_page_alloc &&
		put reject-end "0x$end" failslab fail_page_alloc
}

# Only what functions of roe allocate and copy to users, they and those that they
# call directly.
ours()
{
	local start end
	read -r start end < <(range_of_roe)
	[ -n "$end" ] || return
	put stacktrace-depth 8 failslab fail_page_alloc fail_usercopy &&
		put require-start "0x$start" failslab fail_page_alloc fail_usercopy &&
		put require-end "0x$end" failslab fail_page_alloc fail_usercopy
}

# All caches' objects may fail, but not those of CACHE.
all_caches_but()
{
	local file
	for file in /sys/kernel/slab/*/failslab; do
		[ "$file" = "/sys/kernel/slab/$1/failslab" ] || echo 1 > "$file" || return
	done
	echo Y > $debugfs/failslab/cache-filter
}

# All allocations of the calling process. (All copies would be those of the system
# call's arguments too, which not even a destroying verb survives.) A radix tree that
# gets one node of two for an entry loses it with the tree: so does the RDMA core's
# table of verbs (uapi_add_elm() and uverbs_destroy_api()).
anybody()
{
	all_caches_but radix_tree_node &&
	put stacktrace-depth 32 failslab fail_page_alloc &&
		put require-start 0 failslab fail_page_alloc &&
		put require-end 0xffffffffffffffff failslab fail_page_alloc &&
		put require-start 1 fail_usercopy && put require-end 1 fail_usercopy
}

module_or_die
topo_or_die topo_veth
link_del roe1
gid=$(wait_gid roe0 10.0.0.1)
# messages in skbs, which are allocated
echo 0 > /sys/class/infiniband/roe0/direct
check "set fault injection up" setup
check "for roe" ours
run_tap "roe's own" 240 fault -d roe0 -g "$gid" vb 100 ours
check "for all" anybody
run_tap "anybody's" 240 fault -d roe0 -g "$gid" vb 40 all
tap_done
