// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Congestion: marks of switches, CNPs, and the window that they make smaller
 * (RoCEv2 annex A17.9, wire.md section 10; DCQCN and DCTCP in terms of a window).
 *
 *	sender --- data, ECT(0) ---> switch --- data, CE ---> receiver
 *	   ^                                                     | at most one in 50 us
 *	   `------------------------ CNP <-----------------------'
 *
 * Notification point: for a packet with payload that was marked on its way a CNP is sent to the
 * QP that the packet came from. Not for a packet without payload: to send fewer of those would
 * help nobody.
 *
 * Reaction point, at most once a round trip:
 *
 *	cwnd  -= cwnd * alpha / 2	not below ROE_WINDOW_MIN
 *	alpha += (1 - alpha) / 16	a round trip with a mark
 *	alpha -= alpha / 16		one without
 *
 * alpha is the share of round trips that saw a mark, 1 at first. The last line is computed when
 * the next CNP comes, so it costs nothing while there are no CNPs. The window does not grow
 * before the round trip of the CNP is over; after that it grows as always.
 *
 * The window bounds READs as well, so a requester whose READ responses are marked needs no CNP:
 * it reduces its own window and asks for less at a time.
 *
 * Requests of UC and READ responses have no window. They have no limit until a CNP comes, and
 * from then on a rate, as all flows of a ConnectX have (DCQCN). Their round trip cannot be
 * measured, so at most once a millisecond:
 *
 *	target = rate		at first: what has left in the last 10 ms; at most twice that
 *	rate  -= rate * alpha / 2	not below ROE_RATE_MIN
 *
 * and each millisecond without a cut the rate goes half of the way to the target, which
 * grows after five of them. The limit ends a second after the last cut.
 *
 * Where no switch marks, READ responses are lost: a long READ has as many of them in flight as
 * there is time for, and a READ that is repeated from its middle would only fill the same queue
 * again. So a repeated READ cuts the rate of responses, too, with or without marks. The share of
 * responses that arrived tells how much the network path bears:
 *
 *	target = rate * came / sent	at least half of a limit, else 1/4; 3/4 if few came
 *	rate   = target / 2		so that the queue gets empty
 *
 * and a round is now the time that the peer's answer took, measured by what left meanwhile.
 */
#include <linux/math64.h>
#include "transport.h"

static bool enabled(const struct roe_qp *qp)
{
	return !qp->dev || READ_ONCE(qp->dev->ecn);
}

/* Let alpha decay by the rounds without a mark since the last mark. */
static void decay(u32 *alpha, u64 *at, u64 now, u64 round)
{
	if (!*at)
		return;
	for (; *alpha > ROE_ALPHA_MIN && now - *at >= 2 * round; *at += round)
		*alpha -= *alpha >> ROE_ALPHA_SHIFT;
	*alpha = max_t(u32, *alpha, ROE_ALPHA_MIN);
}

/* A round with a mark. */
static void raise(u32 *alpha, u64 *at, u64 now)
{
	*alpha += (ROE_ALPHA_ONE - *alpha) >> ROE_ALPHA_SHIFT;
	*at = now;
}

static void ease(struct roe_req *req, u64 now)
{
	u32 cut;

	/* the window was reduced in this round trip already */
	if (roe_psn_diff(req->una, req->eased) < 0)
		return;
	decay(&req->alpha, &req->alpha_at, now, max_t(u64, req->srtt, ROE_ALPHA_NS));
	cut = max_t(u32, req->cwnd * req->alpha / (2 * ROE_ALPHA_ONE), 1);
	req->cwnd = max_t(u32, req->cwnd - cut, ROE_WINDOW_MIN);
	req->ssthresh = req->cwnd;
	req->widened = 0;
	req->eased = req->max_psn;
	raise(&req->alpha, &req->alpha_at, now);
}

/* --- without a window --- */

/* Bytes a second that have left recently. */
static u64 measured(const struct roe_rate *r, u64 now)
{
	/* over a shorter time one burst would look like any rate; over a pause, like none */
	u64 span = max_t(u64, now - r->since, ROE_RATE_ROUND_NS);
	u64 rate = div64_u64(r->bytes * NSEC_PER_SEC, span);

	return max3(rate, r->before, (u64)ROE_RATE_MIN);
}

/*
 * The rate that was too high; 0: it was cut less than ROE_RATE_ROUND_NS ago, and packets sent
 * before that may still be in flight.
 */
static u64 too_much(const struct roe_rate *r, u64 now)
{
	u64 sent;

	if (r->rate && now - r->cut_at < ROE_RATE_ROUND_NS)
		return 0;
	/* how far an unused limit has grown says nothing about the network path */
	sent = measured(r, now);
	return r->rate ? min(r->rate, 2 * sent) : sent;
}

static void limit(struct roe_rate *r, u64 now, u64 rate, u64 target, u64 round)
{
	r->target = target;
	r->rate = max_t(u64, rate, ROE_RATE_MIN);
	r->round = round;
	r->cut_at = now;
	r->grown_at = now;
	r->grown = 0;
}

static void cut(struct roe_rate *r, u64 now)
{
	u64 rate = too_much(r, now);

	if (!rate)
		return;
	decay(&r->alpha, &r->alpha_at, now, ROE_RATE_ROUND_NS);
	limit(r, now, rate - rate * r->alpha / (2 * ROE_ALPHA_ONE), rate, ROE_RATE_ROUND_NS);
	raise(&r->alpha, &r->alpha_at, now);
}

static void grow(struct roe_rate *r, u64 now)
{
	if (now - r->cut_at >= ROE_RATE_FREE_NS) {
		r->rate = 0;
		r->vain = 0;
		return;
	}
	for (; now - r->grown_at >= r->round; r->grown_at += r->round) {
		if (++r->grown > ROE_RATE_RECOVERY)
			r->target += r->target / 64 + ROE_RATE_STEP;
		r->rate += (r->target - r->rate) / 2;
	}
}

/**
 * roe_cc_open() - may a packet leave that no window bounds?
 * @qp: UC, or with READ responses to send
 * @ctx: the time
 *
 * Return: false: not before the timer has run.
 */
bool roe_cc_open(struct roe_qp *qp, const struct roe_ctx *ctx)
{
	struct roe_rate *r = &qp->rate;

	r->wake = 0;
	if (r->rate)
		grow(r, ctx->now);
	if (!r->rate || r->free_at <= ctx->now + ROE_RATE_BURST_NS || !roe_qp_has_timer(qp))
		return true;
	r->wake = r->free_at;
	return false;
}

ROE_EXPORT_FOR_TEST(roe_cc_open);

/**
 * roe_cc_spend() - packets that no window bounds have been added to a burst
 * @qp: as in roe_cc_open()
 * @ctx: the time
 * @bytes: of these packets
 */
void roe_cc_spend(struct roe_qp *qp, const struct roe_ctx *ctx, u32 bytes)
{
	struct roe_rate *r = &qp->rate;
	u64 span = ctx->now - r->since;

	if (span >= ROE_RATE_LOOK_NS) {
		r->before = div64_u64(r->bytes * NSEC_PER_SEC, span);
		r->bytes = 0;
		r->since = ctx->now;
	}
	r->bytes += bytes;
	if (r->rate)
		r->free_at = max(r->free_at, ctx->now) +
			     div64_u64((u64)bytes * NSEC_PER_SEC, r->rate);
}

ROE_EXPORT_FOR_TEST(roe_cc_spend);

/**
 * roe_cc_lost() - READ responses were lost on the way
 * @qp: RC, of the responder
 * @ctx: the time
 * @came: responses that arrived before the first lost one, since the READ was asked for
 * @vain: the first lost response and all that have left behind it
 *
 * As with the window, a few packets say nothing: a rate that leaves no more of them in flight
 * is low enough, whatever gets lost.
 */
void roe_cc_lost(struct roe_qp *qp, const struct roe_ctx *ctx, u32 came, u32 vain)
{
	struct roe_rate *r = &qp->rate;
	u64 rate, least, round;

	if (vain < (r->rate ? ROE_RATE_LOST_AGAIN : ROE_RATE_LOST)) {
		r->vain = 0;
		return;
	}
	/* not the first time: a lost request to send again makes @vain large, too */
	if (!r->rate && !r->vain++)
		return;
	rate = too_much(r, ctx->now);
	if (!rate)
		return;
	round = div64_u64((u64)vain * qp->mtu * USEC_PER_SEC, rate) * NSEC_PER_USEC;
	/* first cut: unknown how much too high the rate was; @came is of this READ only */
	least = r->rate ? rate / 2 : rate / 4;
	/*
	 * too few to tell a share: one may be lost by chance or only late, or the peer's timer
	 * has asked
	 */
	if (came < ROE_WINDOW_MIN)
		rate -= rate / 4;
	else
		rate = max(div_u64(rate * came, came + vain), least);
	rate = max_t(u64, rate, ROE_RATE_MIN);
	round = clamp_t(u64, round, ROE_RATE_ROUND_NS, ROE_RATE_ROUND_MAX_NS);
	limit(r, ctx->now, rate / 2, rate, round);
}

ROE_EXPORT_FOR_TEST(roe_cc_lost);

/**
 * roe_cc_reset() - no limit
 * @qp: on the way to RTS and to RESET
 */
void roe_cc_reset(struct roe_qp *qp)
{
	qp->rate = (struct roe_rate){ .alpha = ROE_ALPHA_ONE };
}

static bool in_flight(const struct roe_req *req)
{
	return roe_psn_diff(req->max_psn, req->una) > 0;
}

/*
 * Has any packet without a window left recently? roe_cc_spend() keeps @since within
 * ROE_RATE_LOOK_NS of the last one.
 */
static bool flows(const struct roe_rate *r, u64 now)
{
	return r->since && now - r->since < 2 * ROE_RATE_LOOK_NS;
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

	roe_qp_count(qp, ROE_STAT_NP_MARKED);
	/* nothing proves who has sent a datagram */
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
 * roe_cc_emit() - send the CNP that is due
 * @qp: resp.cnp_due
 * @txb: takes the CNP, if there is room and memory; otherwise it stays due
 */
void roe_cc_emit(struct roe_qp *qp, struct roe_txb *txb)
{
	struct roe_tx_pkt *pkt = roe_txb_add(txb, ROE_OPCODE_CNP, 0);

	if (!pkt)
		return;
	/* its IP header differs from that of the others: an skb of its own */
	pkt->again = true;
	pkt->p.qpn = qp->dest_qpn;
	pkt->p.pkey = qp->pkey;
	qp->resp.cnp_due = false;
	roe_qp_count(qp, ROE_STAT_NP_CNP_SENT);
}

/**
 * roe_cc_notified() - a CNP came
 * @qp: RC or UC
 * @ctx: the time
 * @p: proven packet; BECN is not covered by the ICRC and not looked at
 *
 * The CNP does not say which packets were marked. So it reduces both the window, if requests
 * are in flight, and the rate of packets without a window, if some have left recently. With
 * neither it came too late and is ignored.
 */
void roe_cc_notified(struct roe_qp *qp, const struct roe_ctx *ctx, const struct roe_pkt *p)
{
	bool window = qp->type == IB_QPT_RC && in_flight(&qp->req);
	bool rate = flows(&qp->rate, ctx->now);

	if (!roe_opcode_len_ok(p->opcode, p->len, qp->mtu)) {
		roe_qp_count(qp, ROE_STAT_RX_DROP);
		return;
	}
	if (!enabled(qp) || (!window && !rate)) {
		roe_qp_count(qp, ROE_STAT_RP_CNP_IGNORED);
		return;
	}
	roe_qp_count(qp, ROE_STAT_RP_CNP_HANDLED);
	if (window)
		ease(&qp->req, ctx->now);
	if (rate)
		cut(&qp->rate, ctx->now);
}
