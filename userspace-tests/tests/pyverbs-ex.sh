#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#
# pyverbs-ex - the parts of rdma-core's Python suite about UC, shared receive
# queues, completion queues, and extended QPs and CQs.
#
# Arguments: none. A skip of the suite is a skip here. Output: TAP. Exit code: 0
# if nothing failed, 1 if not.

# shellcheck source-path=SCRIPTDIR
. "$(dirname "$(readlink -f "$0")")/lib.sh"
. "$TESTS/lib-pyverbs.sh"

pyverbs 120 'srq|_uc_|qpex|qp_ex|cqex|cq_ex|test_cq' \
	'xrc|raw|odp|_mw'
