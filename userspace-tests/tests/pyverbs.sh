#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#
# pyverbs - the whole of rdma-core's own Python suite, which comes with
# python3-pyverbs, on a device over a veth.
#
# A test that the suite skips is a skip here if docs/conformance.md explains it:
# the reason must match a line of EXPLAINED. Any other skip is a failure.
#
# Arguments: none. Output: TAP. Exit code: 0 if nothing failed, 1 if not.

# shellcheck disable=SC2034,SC2154 # variables shared with lib.sh
. "$(dirname "$(readlink -f "$0")")/lib.sh"

# Extended regular expressions; each is a row of the table in docs/conformance.md.
EXPLAINED='XRCD? .*not supported|XRC SRQ
Device memory is not supported
dmabuf|dma-buf|DMABUF|renderD128
Rereg MR is not supported
Advise MR with flags
Parent Domain
Raw Packet QP|Create QP type 8|Create RAW
Importing|import
Extended CQ is not supported
non MLX5|EFA device
device real time
flush|FLUSH|Atomic write|atomic_write|ATOMIC_WRITE'

# The names of all tests but those of other hardware's own interfaces, some of which
# crash where that is missing.
list_tests()
{
	python3 run_tests.py --list-tests 2>/dev/null | grep '^tests\.\|^test' |
		grep -Eiv 'mlx5|mlx4|efa|hns|irdma|mana|cuda'
}

get_suite()
{
	mkdir "$TMP/py" || return
	cp -r /usr/share/doc/rdma-core/tests "$TMP/py/" 2>/dev/null ||
		cp -r /usr/share/doc/python3-pyverbs/tests "$TMP/py/" || return
	find "$TMP/py" -name '*.gz' -exec gunzip -f {} +
	cd "$TMP/py/tests" || return
	# The RDMA-CM tests look for the netdev at the PCI device, which a veth has not.
	mkdir -p "$TMP/net/roe0/va"
	sed -i "s|/sys/class/infiniband/{}/device/net/|$TMP/net/{}/|" base.py
	# One side sends before the other has a receive request, and gives up after 5 times 0.66 s:
	# have it ask for ever.
	sed -i 's/return ConnParam(qp_num=qp_num)$/return ConnParam(qp_num=qp_num, rnr_retry=7)/' \
		base_rdmacm.py
	grep -q 'rnr_retry=7' base_rdmacm.py || return
	list_tests > "$TMP/list" && [ -s "$TMP/list" ]
}

# run_tests ARGUMENT... - the suite's own runner. From Python 3.13 on without the
# collector: what a test left behind that ended by an exception, a skip too, is one
# cycle, in which pyverbs 56 closes the context before its CQs and crashes (with
# rdma_rxe as well). The end of the process gives everything back.
run_tests()
{
	local run=(run_tests.py)

	if python3 -c 'import sys; sys.exit(sys.version_info < (3, 13))'; then
		run=(-c "import atexit, gc, runpy
gc.disable()
atexit.register(gc.freeze)
runpy.run_path('$PWD/run_tests.py', run_name='__main__')")
	fi
	timeout -k 5 $((300 * SLOW)) python3 -W ignore "${run[@]}" "$@"
}

# skipped NAME REASON
skipped()
{
	if grep -Eqi "$EXPLAINED" <<< "$2"; then
		tap_skip "$1" "$2"
	else
		tap_not_ok "$1: a skip that is not explained: $2"
	fi
}

# A test with a description has its name on a line of its own before it.
read_results()
{
	local line name=
	while IFS= read -r line; do
		case $line in
		test_*" ("*)
			name=${line%% (*} ;;
		esac
		case $line in
		*" ... ok") tap_ok "$name" ;;
		*" ... skipped "*) skipped "$name" "${line#*skipped }" ;;
		*" ... "*) tap_not_ok "$name: ${line##* ... }" ;;
		esac
	done < "$TMP/py.out"
}

module_or_die
topo_or_die topo_veth
gid=$(wait_gid roe0 10.0.0.1)
# some tests want pages of 2 MiB
huge_pages 32
check "the suite is installed" get_suite || tap_done
base=$tap_n
# shellcheck disable=SC2046
run_tests --dev roe0 --gid "$gid" -v $(cat "$TMP/list") > "$TMP/py.stdout" 2> "$TMP/py.out"
rc=$?
read_results
want=$(sed -n 's/^Ran \([0-9]*\) test.*/\1/p' "$TMP/py.out")
if [ $rc != 0 ] || [ "$want" != "$((tap_n - base))" ]; then
	tap_not_ok "the suite ends well (exit code $rc, ran ${want:-?}, seen $((tap_n - base)))"
	grep -v ' \.\.\. ' "$TMP/py.out" | tail -n 60 | tap_diag
fi
tap_done
