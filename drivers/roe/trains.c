// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Ways that let packets through, but no trains of them.
 *
 * What is sent for the first time leaves as a train, what is sent again packet by packet
 * (frame.c). If train after train is missing from its beginning and then arrives, that is no
 * loss: somebody behind us takes single packets only. A NIC that numbers the packets of a train
 * otherwise than their ICRCs were made for lets the first one through (datapath.md 2.4); a rule
 * or a policer that looks at the length, or a broken segmentation, none. Without an end to that
 * each train would take a NAK and a round trip, or a time-out, for ever.
 *
 * One train at a time is watched. What leaves between two of them, packet by packet, says
 * nothing.
 */
#include "transport.h"
#include "trains.h"

#define BEGINNING	4	/* packets of a train that are looked at */
#define SHORT		2	/* what the first packet of a message, which is longer, may begin */

static bool is_response(const struct roe_tx_pkt *pkt)
{
	return roe_opcode(pkt->p.opcode)->flags & ROE_F_RESPONSE;
}

/* Packets from @i on that leave as a train, as roe_frame_fit() has it; 1: it leaves alone. */
static unsigned int row(const struct roe_txb *txb, unsigned int i)
{
	const struct roe_tx_pkt *pkt = &txb->pkt[i];
	u32 size = roe_tx_bytes(pkt);
	unsigned int n = 1;

	if (pkt->again)
		return 1;
	for (n = 1; n < BEGINNING && i + n < txb->n; n++) {
		const struct roe_tx_pkt *next = &pkt[n];

		if (next->again || roe_tx_bytes(next) > size ||
		    next->p.psn != roe_psn_add(pkt->p.psn, n) ||
		    is_response(next) != is_response(pkt))
			break;
		if (roe_tx_bytes(next) < size)
			return n + 1;
	}
	return n;
}

static struct roe_trains *trains_of(struct roe_qp *qp, const struct roe_tx_pkt *pkt)
{
	return is_response(pkt) ? &qp->resp.trains : &qp->req.trains;
}

/* From the beginning of train @first to that of train @last, which may be the same. */
static void watch(struct roe_trains *trains, const struct roe_tx_pkt *first,
		  const struct roe_tx_pkt *last, unsigned int n)
{
	trains->on = true;
	trains->first = first->p.psn;
	trains->end = roe_psn_add(last->p.psn, n);
}

/**
 * roe_trains_sent() - a burst is about to leave
 * @qp: RC
 * @txb: not direct
 *
 * A short train may get through where longer ones do not: its end is that of the next long one.
 *
 * Context: QP lock held.
 */
void roe_trains_sent(struct roe_qp *qp, const struct roe_txb *txb)
{
	const struct roe_tx_pkt *first = NULL;
	unsigned int i, n;

	for (i = 0; i < txb->n; i += n) {
		const struct roe_tx_pkt *pkt = &txb->pkt[i];

		if (trains_of(qp, pkt)->on)
			return;
		n = row(txb, i);
		if (n == 1 || (first && is_response(first) != is_response(pkt)))
			continue;
		if (!first)
			first = pkt;
		if (n > SHORT) {
			watch(trains_of(qp, pkt), first, pkt, n);
			return;
		}
	}
	if (first)
		watch(trains_of(qp, first), first, first, SHORT);
}

/**
 * roe_trains_missed() - the peer misses a packet, and what is behind it is sent again
 * @qp: RC; sends one by one from now on if this is one train too many
 * @trains: of its requester or responder
 * @psn: of the packet; all before it have arrived
 *
 * Context: QP lock held.
 */
void roe_trains_missed(struct roe_qp *qp, struct roe_trains *trains, u32 psn)
{
	roe_trains_arrived(trains, psn);
	if (!trains->on)
		return;
	trains->on = false;
	/* it is sent again, packet by packet, for another that was before it */
	if (roe_psn_diff(psn, trains->first) < 0 || ++trains->misses != ROE_TRAINS_MISSES)
		return;
	qp->path.alone = true;
	if (qp->dev)
		ibdev_warn_ratelimited(&qp->dev->ib,
				       "QP %u: single packets arrive and trains do not: one by one now, see gso in the README\n",
				       qp->qpn);
}

ROE_EXPORT_FOR_TEST(roe_trains_missed);

/**
 * roe_trains_arrived() - what was sent before @psn has arrived
 * @trains: as above
 * @psn: the next one
 *
 * Context: QP lock held.
 */
void roe_trains_arrived(struct roe_trains *trains, u32 psn)
{
	if (!trains->on || roe_psn_diff(psn, trains->end) < 0)
		return;
	trains->on = false;
	trains->misses = 0;
}
