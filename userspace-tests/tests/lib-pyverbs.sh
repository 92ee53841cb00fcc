# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# shellcheck shell=bash
#
# tests/lib-pyverbs.sh - rdma-core's own Python suite, which comes with python3-pyverbs,
# for tests on top of lib.sh or lib-wire.sh, which is sourced before.
#
#	times [N]			the argument of a test: how often, 1 if not given
#	pyverbs NETDEV ADDRESS N	run it N times on roe0, which is on NETDEV
#
# A test that the suite skips is a skip here if docs/conformance.md explains it: a line of
# EXPLAINED has its name and the reason. Any other skip is a failure.

# shellcheck disable=SC2154 # tap_n of lib.sh
# Extended regular expressions for "NAME REASON", whole; each is a row of the table in
# docs/conformance.md.
EXPLAINED='test_.*xrc_.* Create XRCD is not supported
test_(.*_)?dm(_.*)? Device memory is not supported
test_(mem_align|huge_page|without_allocators|default_allocators)_.* Parent Domain is not supported on this device
test_imported_.* Importing a device is not supported
test_(create|query)_raw_qp(_.*)? Create Raw Packet QP with(out)?( extended)? attrs is not supported
test_(.*_spec_flow|rss)_traffic Create QP type 8 is not supported
test_tm_.* Extended CQ is not supported
test_mr_rereg_.* Rereg MR is not supported \(Failed to rereg MR: IBV_REREG_MR_ERR_CMD\. .*\)
test_dmabuf_.* Allocating dmabuf is not supported by /dev/dri/renderD128
test_dmabuf_.* Device /dev/dri/renderD128 is not present
test_odp_.*prefetch_.* Advise MR with flags \([0-9]\) and advice \([0-9]\) is not supported'

# get_suite NETDEV N
get_suite()
{
	mkdir "$TMP/py" || return
	cp -r /usr/share/doc/rdma-core/tests "$TMP/py/" 2>/dev/null ||
		cp -r /usr/share/doc/python3-pyverbs/tests "$TMP/py/" || return
	find "$TMP/py" -name '*.gz' -exec gunzip -f {} +
	cd "$TMP/py/tests" || return
	# Modules for other hardware's own interfaces, some of which crash where that is missing;
	# no other imports them.
	rm -f test_{mlx4,mlx5,efa,hns,irdma,mana,cuda}*.py
	# The RDMA-CM tests look for the netdev at the PCI device, which a veth has not.
	if [ ! -e "/sys/class/infiniband/roe0/device/net/$1" ]; then
		mkdir -p "$TMP/net/roe0/$1"
		sed -i "s|/sys/class/infiniband/{}/device/net/|$TMP/net/{}/|" base.py
	fi
	# One side sends before the other has a receive request, and gives up after 5 times 0.66 s:
	# have it ask for ever.
	sed -i 's/return ConnParam(qp_num=qp_num)$/return ConnParam(qp_num=qp_num, rnr_retry=7)/' \
		base_rdmacm.py
	grep -q 'rnr_retry=7' base_rdmacm.py || return
	# On the debug kernel a message is sent 10 times, not 100, but where several runs look for
	# what happens now and then.
	if [ $SLOW != 1 ] && [ "$2" = 1 ]; then
		grep -q 'self\.iters = 100$' test_*.py || return
		sed -i 's/self\.iters = 100$/self.iters = 10/' test_*.py
	fi
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

# skipped NAME REASON - the reason is quoted, as Python does it
skipped()
{
	local reason=${2:1:-1}
	if [[ "$1 $reason" =~ ^(${EXPLAINED//$'\n'/|})$ ]]; then
		tap_skip "$prefix$1" "$reason"
	else
		tap_not_ok "$prefix$1: a skip that is not explained: $reason"
	fi
}

# Before each name, where there is more than one run of the suite
prefix=

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
		*" ... ok") tap_ok "$prefix$name" ;;
		*" ... skipped "*) skipped "$name" "${line#*skipped }" ;;
		*" ... "*) tap_not_ok "$prefix$name: ${line##* ... }" ;;
		esac
	done < "$TMP/py.out"
}

# suite GID-INDEX - one run
suite()
{
	local base=$tap_n rc want

	run_tests --dev roe0 --gid "$1" -v > "$TMP/py.stdout" 2> "$TMP/py.out"
	rc=$?
	read_results
	want=$(sed -n 's/^Ran \([0-9]*\) test.*/\1/p' "$TMP/py.out")
	[ $rc != 0 ] || [ "${want:-0}" = 0 ] || [ "$want" != "$((tap_n - base))" ] || return 0
	tap_not_ok "${prefix}the suite ends well (exit code $rc, ran ${want:-?}, seen $((tap_n - base)))"
	grep -v ' \.\.\. ' "$TMP/py.out" | tail -n 60 | tap_diag
}

times()
{
	case ${1:-1} in
	0 | *[!0-9]*)
		echo "not a number of runs: $1" >&2
		return 1 ;;
	esac
	echo "${1:-1}"
}

pyverbs()
{
	local gid i

	gid=$(wait_gid roe0 "$2")
	# some tests want pages of 2 MiB
	huge_pages 32
	check "the suite is installed" get_suite "$1" "$3" || return
	for ((i = 1; i <= $3; i++)); do
		[ "$3" = 1 ] || prefix="run $i: "
		suite "$gid"
	done
}
