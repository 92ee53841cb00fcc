// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Congestion: marks of switches, CNPs, and the window that they make smaller
 * (RoCEv2 annex A17.9, wire.md section 10; DCQCN and DCTCP in terms of a window).
 *
 *	sender --- data, ECT(0) ---> switch --- data, CE ---> receiver
 *	   ^                                                     | at most one in 50 us
 *	   `------------------------ CNP <-----------------------'
 *
 * Notification point: a packet with payload that was marked on its way has a CNP sent
 * to the QP it came from. Not one without payload: less of those would help nobody.
 *
 * Reaction point, at most once a round trip:
 *
 *	cwnd  -= cwnd * alpha / 2	not below ROE_WINDOW_MIN
 *	alpha += (1 - alpha) / 16	a round trip with a mark
 *	alpha -= alpha / 16		one without
 *
 * alpha is the share of round trips that saw a mark, 1 at first. The last line is
 * computed when the next CNP comes, so nobody pays for it while there are none. Nor
 * does the window grow before that round trip is over; then it does as ever.
 *
 * The window bounds READs as well, so who gets their responses marked needs no CNP to
 * ask for less at a time.
 */
#include "transport.h"

static bool enabled(const struct roe_qp *qp)
{
	return !qp->dev || READ_ONCE(qp->dev->ecn);
}

/* What alpha has become in the round trips since the last mark that had none. */
static void decay(struct roe_req *req, u64 now)
{
	u64 round = max_t(u64, req->srtt, ROE_ALPHA_NS);

	if (!req->alpha_at)
		return;
	for (; req->alpha > ROE_ALPHA_MIN && now - req->alpha_at >= 2 * round;
	     req->alpha_at += round)
		req->alpha -= req->alpha >> ROE_ALPHA_SHIFT;
	req->alpha = max_t(u32, req->alpha, ROE_ALPHA_MIN);
}

static void ease(struct roe_req *req, u64 now)
{
	u32 cut;

	/* this round trip has had its share */
	if (roe_psn_diff(req->una, req->eased) < 0)
		return;
	decay(req, now);
	cut = max_t(u32, req->cwnd * req->alpha / (2 * ROE_ALPHA_ONE), 1);
	req->cwnd = max_t(u32, req->cwnd - cut, ROE_WINDOW_MIN);
	req->ssthresh = req->cwnd;
	req->eased = req->max_psn;
	req->alpha += (ROE_ALPHA_ONE - req->alpha) >> ROE_ALPHA_SHIFT;
	req->alpha_at = now;
}

static bool in_flight(const struct roe_req *req)
{
	return roe_psn_diff(req->max_psn, req->una) > 0;
}

/**
 * roe_cc_marked() - a switch marked this packet
 * @qp: that it is for
 * @ctx: the time
 * @p: proven packet, not looked at by its engine yet
 */
void roe_cc_marked(struct roe_qp *qp, const struct roe_ctx *ctx, const struct roe_pkt *p)
{
	u32 flags = roe_opcode(p->opcode)->flags;
	struct roe_resp *resp = &qp->resp;

	roe_stat_inc(qp->dev, ROE_STAT_NP_MARKED);
	/* of a datagram nobody knows whether its sender is who it says it is */
	if (roe_qp_is_ud(qp) || !p->len || (flags & ROE_F_CNP) || !enabled(qp))
		return;
	if ((flags & ROE_F_RESPONSE) && in_flight(&qp->req))
		ease(&qp->req, ctx->now);
	if (ctx->now < resp->cnp_after)
		return;
	resp->cnp_due = true;
	resp->cnp_after = ctx->now + ROE_CNP_INTERVAL_NS;
}

/**
 * roe_cc_emit() - the CNP that is due
 * @qp: resp.cnp_due
 * @txb: takes it, if there is room and memory; otherwise it stays due
 */
void roe_cc_emit(struct roe_qp *qp, struct roe_txb *txb)
{
	struct roe_tx_pkt *pkt = roe_txb_add(txb, ROE_OPCODE_CNP, 0);

	if (!pkt)
		return;
	/* its IP header differs from that of the others */
	pkt->again = true;
	pkt->p.qpn = qp->dest_qpn;
	pkt->p.pkey = qp->pkey;
	qp->resp.cnp_due = false;
	roe_stat_inc(qp->dev, ROE_STAT_NP_CNP_SENT);
}

/**
 * roe_cc_notified() - a CNP
 * @qp: RC or UC
 * @ctx: the time
 * @p: proven packet; whether BECN is set in it, no ICRC says
 *
 * UC has no window, and a CNP that finds nothing in flight comes too late, or is about
 * READ responses, whose number the peer bounds.
 */
void roe_cc_notified(struct roe_qp *qp, const struct roe_ctx *ctx, const struct roe_pkt *p)
{
	if (!roe_opcode_len_ok(p->opcode, p->len, qp->mtu)) {
		roe_stat_inc(qp->dev, ROE_STAT_RX_DROP);
		return;
	}
	if (!enabled(qp) || qp->type != IB_QPT_RC || !in_flight(&qp->req)) {
		roe_stat_inc(qp->dev, ROE_STAT_RP_CNP_IGNORED);
		return;
	}
	roe_stat_inc(qp->dev, ROE_STAT_RP_CNP_HANDLED);
	ease(&qp->req, ctx->now);
}
