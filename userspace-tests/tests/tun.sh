#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#
# tun - a device on a netdev without a link layer: tun, WireGuard; with the RDMA-CM where the kernel's
# RDMA core finds a GID there. See overlays.sh.
#
# Arguments: none. Output: TAP. Exit code: 0 if all ok, 1 if not.

exec "$(dirname "$(readlink -f "$0")")/overlays.sh" l3
