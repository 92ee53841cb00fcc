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
 * One train at a time is watched, of requests and of responses. What leaves between two of them,
 * packet by packet, says nothing; nor does one that is sent again for something before it.
 */
#include "frame.h"
#include "transport.h"

#define BEGINNING	4	/* packets of a train that are looked at */
#define SHORT		2	/* what the first packet of a message, which is longer, may begin */
/* The verdict may have been loss, or the way may be another one by now. */
#define ALONE_NS	(10 * NSEC_PER_SEC)

static bool is_response(const struct roe_tx_pkt *pkt)
{
	return roe_opcode(pkt->p.opcode)->flags & ROE_F_RESPONSE;
}

/* PSNs of the first and second packet of a train of @n, to @begin; returns one past its last. */
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
 * The first train of the burst, and the first long one if that is another: a short one may get
 * through where longer ones do not.
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
 * roe_trains_missed() - the peer misses a packet, and what is behind it is sent again
 * @qp: RC; sends one by one for a while if this is one train too many
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
	/* with one more miss it is known again */
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
