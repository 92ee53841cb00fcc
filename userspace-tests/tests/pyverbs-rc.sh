#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#
# pyverbs-rc - the RC part of rdma-core's own Python suite.
#
# Arguments: none. Runs the suite that comes with python3-pyverbs, without what
# LEAVE_OUT names: transports and objects that are not RC, and other hardware
# (test_resize_cq and test_query_data_in_order work on UD QPs; rc_queues resizes
# CQs here).
# A skip of the suite is a skip here. Output: TAP. Exit code: 0 if nothing
# failed, 1 if not.

# shellcheck disable=SC2034,SC2154 # variables shared with lib.sh
. "$(dirname "$(readlink -f "$0")")/lib.sh"

LEAVE_OUT='mlx|efa|cuda|hns|irdma|odp|rdmacm|xrc|srq|_ud|_uc|raw|mw|multicast|mcast|dmabuf|dm_|DMTest|ibv_flow|flow|rss|tag_match|shared_pd|parent_domain|_wq|import|test_resize_cq|data_in_order|atomic_write'

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
python3 run_tests.py --list-tests 2>/dev/null | grep '^tests\.\|^test' |
	grep -Evi "$LEAVE_OUT" > "$TMP/list"
if [ ! -s "$TMP/list" ]; then
	tap_not_ok "list the tests"
	tap_done
fi
# shellcheck disable=SC2046
timeout -k 5 $((120 * SLOW)) python3 run_tests.py --dev roe0 --gid "$gid" -v \
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
