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

modprobe -a sch_tbf sch_fq 2>/dev/null
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

# It keeps 100 skbs of a flow, however small they are, and paces what it lets go.
check "a queue that counts skbs" tc qdisc replace dev va root fq maxrate 20mbit
run_tap "unsent, fq" 120 unsent -d roe0 -D roe1
check "fq has dropped nothing" none_dropped

# rdma_rxe does not get a message through to that neighbour, and does not destroy a QP before
# its packets have left.
[ "$ROE_TYPE" = roe ] || tap_done

# What waits for the answer of a neighbour is 212992 bytes at most; he is asked three times,
# once a second.
tc qdisc del dev va root
run_tap "unsent, neighbour" 60 unsent -d roe0 -D roe1 -- neighbour '
	ip link set vb arp off && ip neigh flush dev va to 10.0.0.2 || exit
	(sleep 0.5; ip link set vb arp on) &'

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
