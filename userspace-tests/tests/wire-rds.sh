#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#
# wire-rds - the kernel's RDS between two machines (on one it would not use the device):
# datagrams of up to 100000 bytes, a few at a time and answered, with the hash checked;
# then the device goes under it.
#
# Arguments: none; environment as in lib-wire.sh. Runs on both machines.
# Output: TAP. Exit code: 0 if all ok, 1 if not.

# shellcheck disable=SC2034,SC2154 # variables shared with lib.sh
. "$(dirname "$(readlink -f "$0")")/lib-wire.sh"

# rds N TEXT
rds()
{
	rm -f "$TMP/ready"
	wire_pair "$2" 120 "test -e $TMP/ready" "$TESTS/rds_echo $OWN $1 $TMP/ready" \
		"$TESTS/rds_echo $OWN $1 $PEER"
}

used()
{
	[ $(($(counter roe0 rx_pkts) - before)) -gt 150 ]
}

module_or_die
topo_or_die wire_link
check "load rds_rdma" modprobe rds_rdma
before=$(counter roe0 rx_pkts)
rds 100 "datagrams"
check "they went over the device" used
meet_or_die "used"
link_del roe0
links=()
topo_or_die wire_link
rds 20 "datagrams over the device made anew"
meet_or_die "used anew"
# Where connections have a work queue each (7.2), the exit of rds_rdma does not wait until
# those that are up have been shut down: it frees the others, warns about the memory of
# these, and loses it, with rdma_rxe, too. There the device goes first, and they with it.
if grep -qa cp_wq /sys/kernel/btf/rds; then
	check "the device goes first" link_del roe0
	links=()
fi
check "unload rds_rdma" wait_for 20 rmmod rds_rdma
tap_done
