#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#
# rc-verbs - the C programs for RC, on one device and between two devices of
# one namespace.
#
# Arguments: names of programs (default: all). Output: TAP. Exit code: 0 if all
# ok, 1 if not.

# shellcheck disable=SC2034,SC2154 # variables shared with lib.sh
. "$(dirname "$(readlink -f "$0")")/lib.sh"

module_or_die
topo_or_die topo_veth
# What tries at random does so most where KASAN looks; last_ack needs many turns, and none.
rounds=60 secs=4
[ $SLOW = 1 ] || rounds=15 secs=8
# by_packets COMMAND... - on the debug kernel, by packets even between QPs of one device: these
# programs have no run between two devices
by_packets()
{
	local rc direct=/sys/class/infiniband/roe0/direct was

	was=$(cat $direct)
	[ "$ROE_KERNEL" != debug ] || echo 0 > $direct
	"$@"
	rc=$?
	echo "$was" > $direct
	return $rc
}

progs=${*:-dev_attrs qp_states rc_ops rc_errors rc_queues rc_polled last_ack rc_big ring_fuzz}
for p in $progs; do
	case $p in
	ring_fuzz)
		run_tap "$p" 60 "$p" -d roe0 -t "$secs"
		[ "$ROE_KERNEL" != debug ] ||
			by_packets run_tap "$p, by packets" 60 "$p" -d roe0 -t "$secs" ;;
	dev_attrs)
		run_tap "$p" 60 "$p" -d roe0 -- va ;;
	rc_big)
		# 64 MiB by each opcode; more is the same again.
		mib=192 pages=
		[ "$ROE_KERNEL" != 6.12 ] || mib=1024
		if [ "$ROE_KERNEL" = debug ]; then
			pages=huge
			huge_pages 40
		fi
		# 2 GiB in one message take a minute of emulation, or several
		RT_TIMEOUT=600 run_tap "$p" 900 "$p" -d roe0 -- $mib $pages
		echo 0 > /proc/sys/vm/nr_hugepages ;;
	last_ack)
		run_tap "$p, one device" 120 "$p" -d roe0 -- $rounds ;;
	qp_states | rc_queues)
		by_packets run_tap "$p, one device" 120 "$p" -d roe0 ;;
	*)
		run_tap "$p, one device" 120 "$p" -d roe0 ;;
	esac
done
for p in rc_ops rc_errors rc_polled last_ack; do
	[ "$p" = last_ack ] && n=$rounds || n=
	case " $progs " in
	*" $p "*)
		# shellcheck disable=SC2086 # none or one
		run_tap "$p, two devices" 120 "$p" -d roe0 -D roe1 -- $n ;;
	esac
done
tap_done
