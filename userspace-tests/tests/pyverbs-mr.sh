#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#
# pyverbs-mr - the parts of rdma-core's Python suite about memory: regions,
# windows, invalidation, ATOMIC WRITE.
#
# Arguments: none. A skip of the suite is a skip here. Output: TAP. Exit code: 0
# if nothing failed, 1 if not.

# shellcheck source-path=SCRIPTDIR
. "$(dirname "$(readlink -f "$0")")/lib.sh"
. "$TESTS/lib-pyverbs.sh"

pyverbs 120 'test_mr\.|MRTest|MWTest|_mw|atomic_write|_inv' 'xrc|srq|raw|odp'
