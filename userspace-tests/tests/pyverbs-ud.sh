#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#
# pyverbs-ud - the parts of rdma-core's Python suite about datagrams, address
# handles and RDMA-CM.
#
# Arguments: none. A skip of the suite is a skip here. Output: TAP. Exit code: 0
# if nothing failed, 1 if not.

# shellcheck source-path=SCRIPTDIR
. "$(dirname "$(readlink -f "$0")")/lib.sh"
. "$TESTS/lib-pyverbs.sh"

pyverbs 120 '_ud|test_addr|rdmacm|test_resize_cq|data_in_order' \
	'xrc|srq|raw|mcast|multicast|odp'
