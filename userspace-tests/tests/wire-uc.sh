#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#
# wire-uc - UC and shared receive queues between two machines: roe on both, then
# the in-tree rdma_rxe on one of them, in both roles.
#
# Arguments: none; environment as in lib-wire.sh. Runs on both machines.
# Output: TAP. Exit code: 0 if all ok, 1 if not.

# shellcheck disable=SC2034,SC2154 # variables shared with lib.sh
. "$(dirname "$(readlink -f "$0")")/lib-wire.sh"

own=$ROE_TYPE
for rxe_side in none b a; do
	[ "$SIDE" = $rxe_side ] && ROE_TYPE=rxe || ROE_TYPE=$own
	echo "# rdma_rxe on side $rxe_side, this is side $SIDE with $ROE_TYPE"
	module_or_die
	topo_or_die wire_link
	wire_uc_srq_cases
	wire_sync "end-$rxe_side"
	link_del roe0
	links=()
	check "unload" unload_roe
done
tap_done
