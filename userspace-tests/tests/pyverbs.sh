#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#
# pyverbs - the whole of rdma-core's own Python suite on a device over a veth.
#
# Arguments: [N] - run it N times, to find what happens now and then. Output: TAP. Exit
# code: 0 if nothing failed, 1 if not.

# shellcheck disable=SC2034,SC2154 # variables shared with lib.sh
. "$(dirname "$(readlink -f "$0")")/lib.sh"
. "$TESTS/lib-pyverbs.sh"

n=$(times "$@") || exit 1
module_or_die
topo_or_die topo_veth
pyverbs va 10.0.0.1 "$n"
tap_done
