#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#
# unsent - UD and UC through a queue of this host that is slow, and short: a QP waits until
# its packets have left the host, so none is lost there. Where they never leave, it can be
# destroyed, and the module unloaded.
#
# Arguments: none. Output: TAP. Exit code: 0 if all ok, 1 if not.

# shellcheck disable=SC2034,SC2154 # variables shared with lib.sh
. "$(dirname "$(readlink -f "$0")")/lib.sh"

modprobe sch_tbf 2>/dev/null
module_or_die
topo_or_die topo_veth

# queue RATE LIMIT
queue()
{
	tc qdisc replace dev va root tbf rate "$1" burst 10kb limit "$2"
}

none_dropped()
{
	tc -s qdisc show dev va | tee /dev/stderr | grep -q 'dropped 0,'
}

# veth has two receive queues: a poll with GRO for skbs with such an owner, and the backlog.
check "a receiver whose GRO makes lists" ethtool -K vb gro on rx-gro-list on
run_tap "unsent, mixed" 60 unsent -d roe0 -D roe1 -- mixed
ethtool -K vb rx-gro-list off gro off

# The clock of a qdisc runs on any processor, each of which has a backlog of its own for what
# it sends: what arrives is received on one.
echo 1 > /sys/class/net/vb/queues/rx-0/rps_cpus
check "a slow queue" queue 20mbit 400kb
run_tap "unsent" 120 unsent -d roe0 -D roe1
check "the queue has dropped nothing" none_dropped

# rdma_rxe does not destroy a QP before its packets have left
[ "$ROE_TYPE" = roe ] || tap_done

# A packet of 4 KiB in 4 s: what is there stays, longer than the test. There is room for what
# each of the QPs leaves.
check "a queue that is stuck" queue 8kbit 4mb
run_tap "unsent, stuck" 60 unsent -d roe0 -D roe1 -- stuck

occupied()
{
	tc -s qdisc show dev va | tee /dev/stderr | grep -q 'backlog [1-9]'
}

gone()
{
	link_del roe0 && link_del roe1 && unload_roe && occupied && tc qdisc del dev va root
}

check "the module goes, and after it what was in the queue" gone
tap_done
