#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#
# wire-loss - 1 % netem loss on each side: right data and no dead QP, with the
# same driver on both sides and with rdma_rxe as the peer.
#
# Arguments: none; environment as in lib-wire.sh. Runs on both machines.
# Output: TAP. Exit code: 0 if all ok, 1 if not.

# shellcheck disable=SC2034,SC2154 # variables shared with lib.sh
. "$(dirname "$(readlink -f "$0")")/lib-wire.sh"

# The meetings run over TCP and bear the loss, too. The limit is large, for an
# overflow would be a local drop, which is another matter.
loss()
{
	modprobe sch_netem 2>/dev/null
	tc qdisc replace dev eth0 root netem loss "$1" limit 100000
}

loss_cases()
{
	local pt="ib_write_bw -F -d roe0 -x $GID -s 65536 -n 100"
	check "$1: set the loss" loss 1%
	for SEED in $seeds; do
		wire_stream "$1: verified stream, seed $SEED" 200
	done
	wire_case "$1: ib_write_bw" 90 "$pt" "$pt $PEER"
	pt="ib_read_bw -F -d roe0 -x $GID -s 65536 -n 50"
	wire_case "$1: ib_read_bw" 90 "$pt" "$pt $PEER"
	# ibv_rc_pingpong does not wait for the ACK of its last message to arrive: its QP
	# is gone when the peer, which has lost it, sends again. So the server stays, and has no
	# end at which it would look at its data: the streams do.
	pt="ibv_rc_pingpong -d roe0 -g $GID -s 4096 -n"
	wire_case "$1: pingpong" 240 "stay $pt 100000" "$pt 200 $PEER"
	tc qdisc del dev eth0 root
}

own=$ROE_TYPE
seeds="1 2 3"
[ -z "${ROE_BRIEF:-}" ] || seeds=1
for rxe_side in none a b; do
	[ "$SIDE" = $rxe_side ] && ROE_TYPE=rxe || ROE_TYPE=$own
	module_or_die
	topo_or_die wire_link
	if [ $rxe_side = none ]; then
		loss_cases "$own and $own"
	else
		loss_cases "$own and rxe"
	fi
	wire_sync "end-$rxe_side"
	link_del roe0
	links=()
	check "unload" unload_roe
done
tap_done
