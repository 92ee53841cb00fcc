// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Network paths that let single packets through, but no trains of them.
 *
 * Packets that are sent for the first time leave as a train, packets that are sent again leave
 * one by one (frame.c). If train after train is missing from its beginning, and its packets
 * arrive when they are sent again, that is no loss: something on the path takes single packets
 * only. A NIC that gives the packets of a train other IPv4 IDs than their ICRCs were made for
 * lets only the first one through (datapath.md 2.4); a rule or a policer that looks at the
 * length, or a broken segmentation, lets none through. Without an end to that each train would
 * take a NAK and a round trip, or a time-out, for ever.
 *
 * One train of requests and one of responses is watched at a time. Packets that leave one by one
 * between two watched trains say nothing; nor does a train that is sent again because of a loss
 * before it.
 */
#include "frame.h"
#include "transport.h"

#define BEGINNING	4	/* packets of a train that are looked at */
#define SHORT		2	/* packets of a train that is a First and the shorter next one */
/* How long packets leave one by one: it may have been loss after all, or the path may change. */
#define ALONE_NS	(10 * NSEC_PER_SEC)

static bool is_response(const struct roe_tx_pkt *pkt)
{
	return roe_opcode(pkt->p.opcode)->flags & ROE_F_RESPONSE;
}

/*
 * Stores the PSNs of the first two packets of a train of @n to @begin; returns one past its
 * last.
 */
static u32 train(const struct roe_tx_pkt *pkt, unsigned int n, u32 *begin)
{
	unsigned int i, found = 1;
	u32 last = pkt->p.psn;

	begin[0] = last;
	begin[1] = last;
	for (i = 1; i < n; i++) {
		if (is_response(&pkt[i]) != is_response(pkt))
			continue;
		last = pkt[i].p.psn;
		if (found++ == 1)
			begin[1] = last;
	}
	return roe_psn_add(last, 1);
}

/*
 * Watch the first train of the burst and, if that is a short one, the first long one as well: a
 * short train may get through where longer ones do not.
 */
static void watch(struct roe_trains *trains, const struct roe_txb *txb, bool responses)
{
	const struct roe_frame_limits limits = { .bytes = U16_MAX, .segs = BEGINNING };
	unsigned int i, n;

	for (i = 0; i < txb->n; i += n) {
		const struct roe_tx_pkt *pkt = &txb->pkt[i];

		n = roe_frame_fit(pkt, txb->n - i, &limits);
		if (n == 1 || is_response(pkt) != responses)
			continue;
		if (!trains->on)
			train(pkt, n, trains->begin);
		trains->end = train(pkt, n, trains->begin + 2);
		trains->on = true;
		if (n > SHORT)
			return;
	}
}

/**
 * roe_trains_sent() - a burst is about to leave
 * @qp: RC
 * @now: ns
 * @txb: of more than one packet, not direct; responses come before requests, an ACK may be last
 *
 * Context: QP lock held.
 */
void roe_trains_sent(struct roe_qp *qp, u64 now, const struct roe_txb *txb)
{
	bool first = is_response(txb->pkt), last = is_response(&txb->pkt[txb->n - 1]);

	if (qp->path.alone && now >= qp->path.alone_until)
		qp->path.alone = false;
	if (qp->path.alone || !qp->path.trains)
		return;
	if (!qp->req.trains.on && !(first && last))
		watch(&qp->req.trains, txb, false);
	if (!qp->resp.trains.on && first)
		watch(&qp->resp.trains, txb, true);
}

/**
 * roe_trains_missed() - the peer misses a packet; it and all behind it is sent again
 * @qp: RC; sends packets one by one for a while if too many trains in a row were missed
 * @trains: of its requester or responder
 * @now: ns
 * @psn: of the packet; all before it have arrived
 *
 * Context: QP lock held.
 */
void roe_trains_missed(struct roe_qp *qp, struct roe_trains *trains, u64 now, u32 psn)
{
	unsigned int i;

	roe_trains_arrived(trains, psn);
	if (!trains->on)
		return;
	trains->on = false;
	for (i = 0; i < ARRAY_SIZE(trains->begin) && psn != trains->begin[i]; i++)
		;
	if (i == ARRAY_SIZE(trains->begin) || ++trains->misses < ROE_TRAINS_MISSES)
		return;
	/* after ALONE_NS one more miss is enough */
	trains->misses = ROE_TRAINS_MISSES - 1;
	qp->path.alone = true;
	qp->path.alone_until = now + ALONE_NS;
	if (qp->dev && !trains->told)
		ibdev_warn_ratelimited(&qp->dev->ib,
				       "QP %u: single packets arrive and trains do not: one by one now, see gso in the README\n",
				       qp->qpn);
	trains->told = true;
}

ROE_EXPORT_FOR_TEST(roe_trains_missed);

/**
 * roe_trains_arrived() - all packets before @psn have arrived
 * @trains: of a requester or responder
 * @psn: first that has not
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
