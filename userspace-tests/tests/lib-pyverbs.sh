# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# shellcheck shell=bash disable=SC2154 # variables of lib.sh
#
# lib-pyverbs.sh - part of rdma-core's own Python suite, which comes with
# python3-pyverbs, as TAP. Source it behind lib.sh.

# Other hardware and what the stock provider does not have, see docs.
PY_FOREIGN='mlx|efa|cuda|hns|irdma|mana|ibv_flow|flow|rss|tag_match|parent_domain|dmabuf|dm_|DMTest'

# pyverbs SECONDS WANT LEAVE_OUT - run the tests whose names match WANT but not
# LEAVE_OUT (extended regular expressions) on roe0, ending with tap_done. A skip of
# the suite is a skip here.
pyverbs()
{
	local gid rc line name want
	module_or_die
	topo_or_die topo_veth
	gid=$(wait_gid roe0 10.0.0.1)
	mkdir "$TMP/py"
	cp -r /usr/share/doc/rdma-core/tests "$TMP/py/" 2>/dev/null ||
		cp -r /usr/share/doc/python3-pyverbs/tests "$TMP/py/" || {
		tap_not_ok "the suite is installed"
		tap_done
	}
	find "$TMP/py" -name '*.gz' -exec gunzip -f {} +
	cd "$TMP/py/tests" || exit 2
	# The RDMA-CM tests look for the netdev at the PCI device, which we are not.
	mkdir -p "$TMP/net/roe0/va"
	sed -i "s|/sys/class/infiniband/{}/device/net/|$TMP/net/{}/|" base.py
	python3 run_tests.py --list-tests 2>/dev/null | grep '^tests\.\|^test' |
		grep -Evi "$PY_FOREIGN|$3" | grep -Ei "$2" > "$TMP/list"
	if [ ! -s "$TMP/list" ]; then
		tap_not_ok "list the tests"
		tap_done
	fi
	# shellcheck disable=SC2046
	timeout -k 5 $(($1 * SLOW)) python3 run_tests.py --dev roe0 --gid "$gid" -v \
		$(cat "$TMP/list") > "$TMP/py.out" 2>&1
	rc=$?
	# A test with a description has its name on a line of its own before it.
	while IFS= read -r line; do
		case $line in
		test_*" ("*)
			name=${line%% (*} ;;
		esac
		case $line in
		*" ... "*) ;;
		*) continue ;;
		esac
		case $line in
		*" ... ok") tap_ok "$name" ;;
		*" ... skipped "*) tap_skip "$name" "${line#*skipped }" ;;
		*) tap_not_ok "$name: ${line##* ... }" ;;
		esac
	done < "$TMP/py.out"
	want=$(sed -n 's/^Ran \([0-9]*\) test.*/\1/p' "$TMP/py.out")
	if [ $rc != 0 ] || [ "$want" != "$tap_n" ]; then
		tap_not_ok "the suite ends well (exit code $rc, ran ${want:-?}, seen $tap_n)"
		grep -v ' \.\.\. ' "$TMP/py.out" | tail -n 60 | tap_diag
	fi
	tap_done
}
