#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#
# icrc - the module parameter icrc: what was chosen can be read, each name that
# this CPU can do carries traffic, any other is refused with a reason.
#
# Arguments: none. Output: TAP. Exit code: 0 if all ok, 1 if not.

# shellcheck disable=SC2034,SC2154 # variables shared with lib.sh
. "$(dirname "$(readlink -f "$0")")/lib.sh"

param=/sys/module/roe/parameters/icrc
module_or_die

chosen()
{
	dmesg | grep -E 'roe: ICRC by [a-z0-9]+, [0-9]+ MB/s' | tail -n 1
	dmesg | grep -q "roe: ICRC by $(cat $param), "
}

check "the log and the parameter name the same implementation" chosen

can()
{
	case $1 in
	lib | sparse) return 0 ;;
	pclmul) grep -qw pclmulqdq /proc/cpuinfo ;;
	vpclmul128) grep -qw pclmulqdq /proc/cpuinfo && grep -qw avx /proc/cpuinfo ;;
	vpclmul256) grep -qw vpclmulqdq /proc/cpuinfo && grep -qw avx2 /proc/cpuinfo ;;
	vpclmul512) grep -qw vpclmulqdq /proc/cpuinfo && grep -qw avx512f /proc/cpuinfo ;;
	esac
}

# traffic NAME - long, odd and short messages; data is compared
traffic()
{
	local opt n=$((50 / SLOW))
	insmod "$ROE_KO" icrc="$1" && grep -qx "$1" $param && topo_veth || return
	for opt in "-n $n -c -s 65536" "-n $n -c -s 4097 -m 4096" "-n $n -c -s 77"; do
		pair_run 60 18515 "ibv_rc_pingpong -d roe0 -g $(wait_gid roe0 10.0.0.1) $opt" \
			"ibv_rc_pingpong -d roe1 -g $(wait_gid roe1 10.0.0.2) $opt 127.0.0.1" || return
	done
	link_del roe0
	link_del roe1
	ip link del va
}

for name in lib sparse pclmul vpclmul128 vpclmul256 vpclmul512; do
	unload_roe
	if can $name; then
		check "icrc=$name carries traffic" traffic $name
	else
		refused "icrc=$name is refused where the CPU cannot do it" \
			"icrc=$name: this CPU cannot" insmod "$ROE_KO" icrc=$name
	fi
done

unload_roe
refused "an unknown name is refused" "icrc=crc32c: no such" insmod "$ROE_KO" icrc=crc32c
check "the module loads after that" load_roe
tap_done
