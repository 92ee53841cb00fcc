// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Time, as events of the protocol. Deadlines of a requester, all in ns:
 *
 * - rnr_deadline: set by an RNR NAK; until it has passed nothing is sent. Also where
 *   there was no memory to send: then it only is the time to try again.
 * - ack_deadline: the Local ACK Timeout of the oldest unacknowledged request
 *   (IBTA 9.9.2.4), 4.096 us * 2^t; each expiry counts against retry_cnt.
 * - early_deadline: below it, from the measured round trip as in RFC 6298
 *   (RTO = SRTT + max(4 * RTTVAR, ROE_RTO_MIN_NS), doubled on each expiry until there is a
 *   sample); counts nothing, so a lost tail costs round trips and not the whole verbs time-out.
 *   A sample is the time of a packet sent once, or of a READ sent again from its middle, whose
 *   responses are no others.
 *
 * - drop_deadline: the queue of this host that refused packets may have room again. Nothing
 *   is known about the way then, so neither the RTO nor a retry has to do with it.
 *
 * - reorder.until: what is missing may only be late until then (reorder.c).
 *
 * - hold.until: messages wait for company no longer (hold.c).
 *
 * - unsent.look: of what UC and UD have sent, enough may have left this host (unsent.c).
 *
 * - defer_until: the CPU that has to send them has not, it may be another's turn (backlog.c).
 *
 * And of a responder: echo.until, an ACK waits for the answer of the process no longer
 * (echo.c); ack_after, the peer does not send again what its ACK is about (answer.c);
 * rnr_look, it may have a receive WQE by now. Of both: rate.wake, after a CNP
 * or a loss what has no window may go on (cc.c); also where there was no memory for a
 * response, or IP refused one. pages_at, one of them asks once more for a page that there
 * was no memory for (fault.c).
 *
 * Who drives the QP asks roe_timer_next() after each run and calls
 * roe_timer_run() when that moment has come.
 */
#include "transport.h"

/* IBTA table 45; code in the index, 10 us units. */
static const u16 rnr_10us[32] = {
	65535, 1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768,
	1024, 1536, 2048, 3072, 4096, 6144, 8192, 12288, 16384, 24576, 32768, 49152,
};

/**
 * roe_timer_rnr_ns() - RNR NAK timer code to time
 * @code: 0 .. 31
 *
 * Return: ns that the requester waits at least.
 */
u64 roe_timer_rnr_ns(u8 code)
{
	code &= ROE_AETH_VALUE_MASK;
	/* 655.36 ms does not fit the table's 16 bits */
	return (code ? rnr_10us[code] : 65536) * 10ull * NSEC_PER_USEC;
}

ROE_EXPORT_FOR_TEST(roe_timer_rnr_ns);

/**
 * roe_timer_ack_ns() - Local ACK Timeout to time
 * @timeout: exponent t of the QP, 0 .. 31
 *
 * Return: 4.096 us * 2^t in ns; 0 (no time-out) for t = 0.
 */
u64 roe_timer_ack_ns(u8 timeout)
{
	return timeout ? 4096ull << (timeout & 31) : 0;
}

ROE_EXPORT_FOR_TEST(roe_timer_ack_ns);

static u64 rto(const struct roe_qp *qp)
{
	const struct roe_req *req = &qp->req;
	u64 ns = req->srtt + max_t(u64, 4ull * req->rttvar, ROE_RTO_MIN_NS);

	return min_t(u64, ns << min(req->backoff, 12u), ROE_RTO_MAX_NS);
}

/*
 * What a time-out of T takes. Late, for the early deadline has tried again long before, and a
 * host that stalls for a moment must not use up the retries; but who gives a peer seconds
 * waits no longer for a dead one than with hardware. T of some microseconds is what nobody
 * keeps: eight of them would be over while a processor of the peer looks after something else.
 */
static u64 ack_wait(u64 timeout_ns)
{
	u64 late = min_t(u64, ROE_ACK_TOLERANCE * timeout_ns, ROE_ACK_LATE_NS);

	return max3(timeout_ns, late, (u64)ROE_ACK_LEAST_NS);
}

static bool outstanding(const struct roe_qp *qp)
{
	return roe_psn_diff(qp->req.max_psn, qp->req.una) > 0;
}

/**
 * roe_timer_arm() - the clock of the oldest request starts (again)
 * @qp: called after the first packet of an idle QP and on each progress
 * @ctx: the time
 */
void roe_timer_arm(struct roe_qp *qp, struct roe_ctx *ctx)
{
	struct roe_req *req = &qp->req;

	/* nothing is sent meanwhile, so no time-out may count */
	if (req->rnr_wait)
		return;
	req->ack_deadline = qp->timeout_ns ? ctx->now + ack_wait(qp->timeout_ns) : 0;
	req->early_deadline = ctx->now + rto(qp);
}

ROE_EXPORT_FOR_TEST(roe_timer_arm);

/**
 * roe_timer_disarm() - nothing is outstanding, or all waits for an RNR timer
 * @qp: its ACK clocks stop
 */
void roe_timer_disarm(struct roe_qp *qp)
{
	qp->req.ack_deadline = 0;
	qp->req.early_deadline = 0;
	qp->req.drop_deadline = 0;
	qp->req.reorder.until = 0;
}

ROE_EXPORT_FOR_TEST(roe_timer_disarm);

static void take_sample(struct roe_req *req, u64 span)
{
	/* of 0 nothing would be known */
	u32 rtt = clamp_t(u64, span, 1, NSEC_PER_SEC), err;

	/*
	 * Only now: what was sent twice cannot be timed, and on a way that takes longer
	 * than the RTO everything would be sent twice for ever (RFC 6298, 5.7 and Karn).
	 */
	req->backoff = 0;
	req->rtt = rtt;
	req->rtt_min = min_not_zero(req->rtt_min, rtt);
	if (!req->srtt) {
		req->srtt = rtt;
		req->rttvar = rtt / 2;
		return;
	}
	err = rtt > req->srtt ? rtt - req->srtt : req->srtt - rtt;
	req->rttvar += ((s32)(err - req->rttvar)) / 4;
	req->srtt += ((s32)(rtt - req->srtt)) / 8;
}

/**
 * roe_timer_start_sample() - a packet leaves that may be timed
 * @qp: no sample is running if rtt_start is 0
 * @now: ns
 * @psn: of a packet that is sent for the first time and asks for an answer
 *
 * What lies behind a READ longer than the window waits for all of its responses: the time
 * that takes says nothing about the way.
 */
void roe_timer_start_sample(struct roe_qp *qp, u64 now, u32 psn)
{
	struct roe_req *req = &qp->req;

	if (req->rtt_start || roe_psn_diff(psn, req->una) > (s32)req->cwnd)
		return;
	req->rtt_psn = psn;
	req->rtt_start = now;
}

/**
 * roe_timer_sample() - a response acknowledged everything before @psn
 * @qp: takes a round-trip sample if the timed packet is among that
 * @now: ns
 * @psn: one past the last PSN acknowledged
 */
void roe_timer_sample(struct roe_qp *qp, u64 now, u32 psn)
{
	struct roe_req *req = &qp->req;

	if (!req->rtt_start || roe_psn_diff(psn, req->rtt_psn) <= 0)
		return;
	take_sample(req, now - req->rtt_start);
	req->rtt_start = 0;
}

ROE_EXPORT_FOR_TEST(roe_timer_sample);

/**
 * roe_timer_reread() - a READ is sent again from its middle
 * @qp: of a long READ no other packet leaves, so without a sample of this one the RTO
 *	would stay doubled to its end, however much comes
 * @now: ns
 * @psn: first that is still missing
 *
 * Sent from there twice, nobody knows which of them is answered.
 */
void roe_timer_reread(struct roe_qp *qp, u64 now, u32 psn)
{
	struct roe_req *req = &qp->req;

	req->reread_at = psn == req->reread_psn ? 0 : now;
	req->reread_psn = psn;
}

/**
 * roe_timer_reread_sample() - a READ response that is First or Only
 * @qp: takes a round-trip sample if a READ was sent again from there. It is the answer to
 *	that: to the READ before it would be Middle or Last. rdma_rxe sends those in any
 *	case, so of it there is no sample.
 * @now: ns
 * @psn: of the response
 */
void roe_timer_reread_sample(struct roe_qp *qp, u64 now, u32 psn)
{
	struct roe_req *req = &qp->req;

	if (!req->reread_at || psn != req->reread_psn)
		return;
	take_sample(req, now - req->reread_at);
	req->reread_at = 0;
}

/**
 * roe_timer_next() - when roe_timer_run() has something to do
 * @qp: its deadlines
 *
 * Return: ns, or 0 for never.
 */
u64 roe_timer_next(const struct roe_qp *qp)
{
	const struct roe_req *req = &qp->req;
	const struct roe_resp *resp = &qp->resp;
	u64 next = min_not_zero(req->ack_deadline, req->early_deadline);

	next = min_not_zero(next, qp->hold.until);
	/* this is asked in each run, and as a rule there are no others */
	if (likely(!(req->rnr_deadline | req->drop_deadline | req->reorder.until |
		     resp->echo.until | resp->ack_after | resp->rnr_look | qp->rate.wake |
		     qp->unsent.look | qp->defer_until | qp->pages_at)))
		return next;
	next = min_not_zero(next, req->rnr_deadline);
	next = min_not_zero(next, req->drop_deadline);
	next = min_not_zero(next, req->reorder.until);
	next = min_not_zero(next, resp->echo.until);
	next = min_not_zero(next, resp->ack_after);
	next = min_not_zero(next, resp->rnr_look);
	next = min_not_zero(next, qp->rate.wake);
	next = min_not_zero(next, qp->unsent.look);
	next = min_not_zero(next, qp->defer_until);
	next = min_not_zero(next, qp->pages_at);
	return next;
}

ROE_EXPORT_FOR_TEST(roe_timer_next);

static void rnr_expired(struct roe_qp *qp)
{
	struct roe_req *req = &qp->req;

	req->rnr_deadline = 0;
	/* a NAK for what was on its way has come: the next is for what is sent now */
	if (req->rnr_wait && req->srtt && req->rnr_ns >= req->srtt)
		req->told = false;
	req->rnr_wait = false;
}

/*
 * The oldest packet cannot be sent again before its page has come, so the peer has nothing
 * to answer, and that says nothing about it. The clocks start with the next packet.
 */
static bool waits_for_page(const struct roe_qp *qp)
{
	return qp->req.fault.waiting && roe_requester_at_una(qp);
}

/*
 * The oldest packet is sent again, and nobody has said that it is missing. It asks for an
 * ACK itself: those behind it may have to wait for a page. What comes within a round trip was
 * on its way before, and implies no other loss.
 */
static void ask_again(struct roe_req *req, const struct roe_ctx *ctx)
{
	req->rewound = false;
	req->told = false;
	req->since_ack = ROE_ACKREQ_EVERY;
	req->implied_until = ctx->now + req->srtt;
}

/*
 * A clock has run out: fewer in flight, once for what was in flight together. Not before
 * the first sample: on a way longer than the RTO nothing was lost.
 */
static void lost(struct roe_qp *qp, const struct roe_ctx *ctx)
{
	struct roe_req *req = &qp->req;

	roe_trains_missed(qp, &req->trains, ctx->now, req->una);
	if (!req->srtt || roe_psn_diff(req->una, req->recover) < 0)
		return;
	roe_requester_lost(qp);
	req->recover = req->max_psn;
}

/* Nothing was acknowledged for a whole Local ACK Timeout. */
static void ack_expired(struct roe_qp *qp, struct roe_ctx *ctx)
{
	roe_qp_count(qp, ROE_STAT_TIMEOUT);
	ask_again(&qp->req, ctx);
	lost(qp, ctx);
	if (roe_requester_retry(qp, ctx))
		roe_timer_arm(qp, ctx);
}

/* What was lost on the way before it the other clocks tell, which go on. */
static void drop_expired(struct roe_qp *qp, struct roe_ctx *ctx)
{
	struct roe_req *req = &qp->req;

	/* the peer may ask for what never left when it is on its way already */
	req->drop_until = ctx->now + rto(qp);
	if (roe_psn_diff(req->drop_psn, req->una) <= 0) {
		req->drop_psn = req->una;
		req->early = true;
		ask_again(req, ctx);
		/* it has not been on its way yet; not alone, without the clock that counts */
		if (req->early_deadline)
			req->early_deadline = ctx->now + rto(qp);
	}
	roe_requester_resend(qp);
}

static void early_expired(struct roe_qp *qp, struct roe_ctx *ctx)
{
	struct roe_req *req = &qp->req;

	/* IP takes nothing now: the oldest packet goes with what it has refused */
	if (req->drop_deadline) {
		req->drop_psn = req->una;
		req->early_deadline = ctx->now + rto(qp);
		return;
	}
	req->backoff++;
	req->early_deadline = ctx->now + rto(qp);
	req->early = true;
	ask_again(req, ctx);
	lost(qp, ctx);
	roe_requester_rewind(qp);
}

/**
 * roe_timer_run() - act on every deadline that has passed
 * @qp: roe_qp_has_timer()
 * @ctx: the time
 */
void roe_timer_run(struct roe_qp *qp, struct roe_ctx *ctx)
{
	struct roe_req *req = &qp->req;
	/* also if it may ask for that page once more now */
	bool waited = waits_for_page(qp);

	roe_qp_assert_locked(qp);
	if (qp->resp.echo.until && ctx->now >= qp->resp.echo.until)
		roe_echo_expired(qp);
	if (qp->resp.ack_after && ctx->now >= qp->resp.ack_after)
		qp->resp.ack_after = 0;
	if (qp->hold.until && ctx->now >= qp->hold.until)
		roe_hold_expired(qp);
	if (qp->resp.rnr_look && ctx->now >= qp->resp.rnr_look)
		roe_responder_look(qp, ctx);
	/* the end of this run sends, or waits again */
	if (qp->rate.wake && ctx->now >= qp->rate.wake)
		qp->rate.wake = 0;
	if (qp->unsent.look && ctx->now >= qp->unsent.look)
		roe_unsent_look(&qp->unsent);
	if (ctx->now >= qp->defer_until)
		qp->defer_until = 0;
	if (qp->pages_at && ctx->now >= qp->pages_at)
		roe_fault_again(qp);
	if (req->rnr_deadline && ctx->now >= req->rnr_deadline)
		rnr_expired(qp);
	if (!outstanding(qp) || waited || waits_for_page(qp)) {
		roe_timer_disarm(qp);
		return;
	}
	if (req->ack_deadline && ctx->now >= req->ack_deadline)
		ack_expired(qp, ctx);
	else if (req->drop_deadline && ctx->now >= req->drop_deadline)
		drop_expired(qp, ctx);
	else if (req->early_deadline && ctx->now >= req->early_deadline)
		early_expired(qp, ctx);
	else if (req->reorder.until && ctx->now >= req->reorder.until)
		roe_completer_overdue(qp, ctx);
}

ROE_EXPORT_FOR_TEST(roe_timer_run);
