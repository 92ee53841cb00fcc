#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#
# wire-netns - a netdev that outlives its namespace: others than those that programs make
# go back to the initial one. That ends no sooner than the device on it, whoever is at
# work on that.
#
# Arguments: none; environment as in lib-wire.sh. Each machine for itself.
# Output: TAP. Exit code: 0 if all ok, 1 if not.

# shellcheck disable=SC2034,SC2154 # variables shared with lib.sh
. "$(dirname "$(readlink -f "$0")")/lib-wire.sh"

# A device in a namespace; a process outside is in a verb, until $in is closed.
busy_device()
{
	netns_add rn && ip link set eth0 netns rn && ip -n rn link set eth0 up &&
		link_add roe0 eth0 rn && mkfifo "$TMP/in" || return
	hold -d roe0 stuck < "$TMP/in" > "$TMP/hold.out" 2>&1 &
	holder=$!
	pids+=("$holder")
	exec {in}> "$TMP/in"
	wait_for 20 grep -q ready "$TMP/hold.out"
}

rmmod_waits()
{
	rmmod roe {in}>&- &
	unloader=$!
	sleep $((2 * SLOW))
	kill -0 $unloader
}

netdev_back()
{
	ip link show eth0 > /dev/null 2>&1
}

netns_waits()
{
	ip netns del rn || return
	spaces=()
	! wait_for 10 netdev_back
}

module_or_die
check "a device in a namespace, with a process in a verb" busy_device
links=()
check "the module waits for the verb" rmmod_waits
check "so does the namespace, which is deleted meanwhile" netns_waits
exec {in}>&-
check "the verb ends" wait "$holder"
check "so does the module" wait "$unloader"
check "and then the namespace" wait_for 30 netdev_back
ip link set eth0 up
ip addr replace "$OWN/24" dev eth0
ip addr replace "fd77::${OWN##*.}/64" dev eth0 nodad
tap_done
