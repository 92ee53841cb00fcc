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

# shellcheck source-path=SCRIPTDIR
. "$(dirname "$(readlink -f "$0")")/lib.sh"
. "$TESTS/lib-pyverbs.sh"

pyverbs 120 . 'odp|rdmacm|xrc|srq|_ud|_uc|raw|mw|multicast|mcast|shared_pd|_wq|import|test_resize_cq|data_in_order|atomic_write'
