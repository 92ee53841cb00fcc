#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#
# wire-pyverbs - the whole of rdma-core's own Python suite on a device over a netdev of
# virtio-net: on side a, while b is there to wait.
#
# Arguments: [N] - run it N times; environment as in lib-wire.sh. Runs on both machines.
# Output: TAP. Exit code: 0 if nothing failed, 1 if not.

# shellcheck disable=SC2034,SC2154 # variables shared with lib.sh
. "$(dirname "$(readlink -f "$0")")/lib-wire.sh"
. "$TESTS/lib-pyverbs.sh"

n=$(times "$@") || exit 1
module_or_die
topo_or_die wire_link
[ "$SIDE" = b ] || pyverbs eth0 "$OWN" "$n"
check "both sides are at the end" wire_sync end $((n * 400))
tap_done
