// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Time, as events of the protocol. Deadlines of a requester, all in ns:
 *
 * - rnr_deadline: set by an RNR NAK, with rnr_wait: nothing is sent before it has passed.
 *   Without rnr_wait there was no memory for a packet: then it is only the time to try again.
 * - ack_deadline: the Local ACK Timeout of the oldest unacknowledged request
 *   (IBTA 9.9.2.4), 4.096 us * 2^t; each expiry counts against retry_cnt.
 * - early_deadline: earlier than that, from the measured round trip as in RFC 6298
 *   (RTO = SRTT + max(4 * RTTVAR, ROE_RTO_MIN_NS), doubled on each expiry until there is a
 *   sample). It counts no retry, so a lost tail costs round trips and not the whole Local ACK
 *   Timeout. A sample is the time from a packet that was sent once to its answer, or to that of
 *   a packet sent soon after it, or from a READ that was sent again from its middle to a
 *   response that can only answer that. For such a READ it may be sooner (reread_wait()).
 *
 * - ask_at: sooner than that two packets ask for an answer, on a path that loses some
 *   (ask_after()).
 *
 * - drop_deadline: the queue of this host that refused packets may have room again. A refusal
 *   says nothing about the network path, so it changes neither the RTO nor retry_cnt.
 *
 * - pace_wake: the window has room, and on a long path more of it may leave (requester.c).
 *
 * - reorder.until: until then a missing packet may only be late (reorder.c).
 *
 * - hold.until: small messages wait no longer for others to leave with (hold.c).
 *
 * - unsent.look: of what UC and UD have sent, enough may have left this host (unsent.c).
 *
 * - defer_until: the CPU that has to send for UC or UD has not done so; another one may be
 *   allowed to (backlog.c).
 *
 * Deadlines of a responder: echo.until, an ACK waits no longer for the answer of the process
 * (echo.c); ack_after, an ACK waits no longer for the peer to send again what it acknowledges
 * (answer.c); rnr_look, the time to look for a receive WQE before an RNR NAK is sent;
 * kept_until, requests kept from behind a gap are dropped (responder.c).
 *
 * Deadlines of both: rate.wake, packets that no window bounds may go on after a CNP or a loss
 * (cc.c), also where there was no memory for a response, or IP refused one; pages_at, the time
 * to ask once more for a page that there was no memory for (fault.c).
 *
 * The code that drives the QP asks roe_timer_next() after each run and calls
 * roe_timer_run() when that moment has come.
 */
#include <linux/math64.h>
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
 * How long to wait for an ACK if the Local ACK Timeout is T. Up to ROE_ACK_TOLERANCE * T,
 * because the early deadline has sent again long before, and a host that stalls for a moment
 * must not use up the retries. But for a dead peer a QP with a T of seconds waits no longer
 * than with hardware. A T of some microseconds no peer can keep: eight of them would be over
 * while a processor of the peer does something else.
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

/*
 * When una is to be sent again to get an answer, in ns from now; 0: never.
 *
 * If the last packets of a flight are lost, or what a NAK has asked for, or that NAK itself, no
 * answer says so. Where packets get lost that happens often, and the RTO, whose margin is for a
 * busy peer, takes much longer than all the rest. So the first and the last of them are sent once
 * more before that (as TLP does for TCP, RFC 8985, section 7). Should the path have become slow
 * there is no sample of what is sent twice: then they stop after ROE_ASKS. What is answered to
 * them counts no retry, so there has to be a Local ACK Timeout, which does.
 */
static u64 ask_after(const struct roe_qp *qp, u64 now)
{
	const struct roe_req *req = &qp->req;
	u64 span = req->srtt + 4ull * req->rttvar;

	if (likely(now >= req->lossy_until) || req->asked >= ROE_ASKS || !req->srtt ||
	    span > ROE_ANSWER_SHORT_NS || !qp->timeout_ns || !roe_requester_may_ask(qp))
		return 0;
	return max_t(u64, 2 * span, ROE_ANSWER_LEAST_NS) << req->asked;
}

/**
 * roe_timer_ask() - (re)start the time after which copies ask for an answer
 * @qp: has packets in flight; una has moved or is about to be sent again, or copies were added
 * @now: ns
 */
void roe_timer_ask(struct roe_qp *qp, u64 now)
{
	u64 after = ask_after(qp, now);

	qp->req.ask_at = after ? now + after : 0;
}

/**
 * roe_timer_arm() - (re)start the ACK deadlines of the oldest request
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
	roe_timer_ask(qp, ctx->now);
}

ROE_EXPORT_FOR_TEST(roe_timer_arm);

/**
 * roe_timer_disarm() - stop the deadlines that wait for answers
 * @qp: nothing is outstanding, or it waits for an RNR timer or a page
 */
void roe_timer_disarm(struct roe_qp *qp)
{
	qp->req.ack_deadline = 0;
	qp->req.early_deadline = 0;
	qp->req.ask_at = 0;
	qp->req.asking = false;
	qp->req.drop_deadline = 0;
	qp->req.reorder.until = 0;
	qp->req.reorder.nak = false;
}

ROE_EXPORT_FOR_TEST(roe_timer_disarm);

static void take_sample(struct roe_req *req, u64 span)
{
	/* 0 would mean that there is no sample */
	u32 rtt = clamp_t(u64, span, 1, NSEC_PER_SEC), err;

	/*
	 * Progress without a sample does not end the backoff: what was sent twice cannot be
	 * timed, and on a path that takes longer than the RTO everything would be sent twice
	 * for ever (RFC 6298, 5.7 and Karn).
	 */
	req->backoff = 0;
	req->asked = 0;
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
 * @qp: its rtt_start is 0 if no sample is running
 * @now: ns
 * @psn: of a packet that is sent for the first time and asks for an answer
 *
 * A packet behind a READ that is longer than the window is not timed: its answer waits for all
 * responses of the READ, which says nothing about the network path.
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
 * roe_timer_gap_sample() - una is missing, but a packet behind it is answered
 * @qp: takes a round-trip sample if that was sent together with the timed packet or soon after
 * @now: ns
 * @first: the first PSN that may be answered; if it was sent before the timed one, no sample
 * @last: the last one
 *
 * The sample may be too long by ROE_WAY_LONG_NS / 2, half of what makes a path a long one.
 */
void roe_timer_gap_sample(struct roe_qp *qp, u64 now, u32 first, u32 last)
{
	if (roe_psn_diff(last, qp->req.rtt_end) < 0)
		roe_timer_sample(qp, now, roe_psn_add(first, 1));
}

ROE_EXPORT_FOR_TEST(roe_timer_gap_sample);

/* The longest answer lately to a READ that was sent again, ns; it fades. 0: unknown. */
static u64 longest_reread(const struct roe_req *req, u64 now)
{
	u64 age = now - req->reread_heard;

	if (age >= ROE_REREAD_FADE_NS)
		return 0;
	return req->reread_ns - div64_u64(req->reread_ns * age, ROE_REREAD_FADE_NS);
}

/*
 * How long to wait for the answer to a READ that is sent again; 0: the RTO. If that is lost, too,
 * the peer goes on with responses in vain until the next one, and takes them for what a full
 * queue has dropped (roe_cc_lost()). So the RTO, whose margin is for a peer that is busy, is too
 * long. But where responses queue up, the answer comes behind all of them, however long that takes.
 */
static u64 reread_wait(const struct roe_req *req, u64 now)
{
	u64 longest = longest_reread(req, now);

	if (!longest || longest > ROE_ANSWER_SHORT_NS)
		return 0;
	return max_t(u64, 2 * longest, ROE_ANSWER_LEAST_NS);
}

/**
 * roe_timer_reread() - a READ is sent again from its middle
 * @qp: the QP
 * @now: ns
 * @psn: first that is still missing
 *
 * During a long READ no other packet leaves, so without a sample of this one the RTO would stay
 * doubled to the end of the READ, however many responses come.
 *
 * If it is sent again from the same PSN twice there is no sample: nobody knows which of the two
 * is answered.
 */
void roe_timer_reread(struct roe_qp *qp, u64 now, u32 psn)
{
	struct roe_req *req = &qp->req;
	u64 wait = reread_wait(req, now);

	req->reread_at = psn == req->reread_psn ? 0 : now;
	req->reread_psn = psn;
	if (req->reread_at && req->early_deadline && wait)
		req->early_deadline = min(req->early_deadline, now + wait);
}

/**
 * roe_timer_reread_sample() - a READ response that is First or Only
 * @qp: takes a round-trip sample if a READ was sent again from there
 * @now: ns
 * @psn: of the response
 *
 * The response answers the READ that was sent again: to the original one it would be Middle or
 * Last. rdma_rxe sends those in any case, so with it there is no sample.
 */
void roe_timer_reread_sample(struct roe_qp *qp, u64 now, u32 psn)
{
	struct roe_req *req = &qp->req;

	if (!req->reread_at || psn != req->reread_psn)
		return;
	take_sample(req, now - req->reread_at);
	req->reread_ns = max(req->rtt, longest_reread(req, now));
	req->reread_heard = now;
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
	/* called in each run; as a rule none of the other deadlines is set */
	if (likely(!(req->ask_at | req->pace_wake | req->rnr_deadline | req->drop_deadline |
		     req->reorder.until | resp->echo.until | resp->ack_after | resp->rnr_look |
		     resp->kept_until | qp->rate.wake | qp->unsent.look | qp->defer_until |
		     qp->pages_at)))
		return next;
	next = min_not_zero(next, req->ask_at);
	next = min_not_zero(next, req->pace_wake);
	next = min_not_zero(next, req->rnr_deadline);
	next = min_not_zero(next, req->drop_deadline);
	next = min_not_zero(next, req->reorder.until);
	next = min_not_zero(next, resp->echo.until);
	next = min_not_zero(next, resp->ack_after);
	next = min_not_zero(next, resp->rnr_look);
	next = min_not_zero(next, resp->kept_until);
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
	/*
	 * after a round trip any NAK 0x60 for packets in flight has come: the next one is for
	 * what is sent from here on
	 */
	if (req->rnr_wait && req->srtt && req->rnr_ns >= req->srtt)
		req->told = false;
	req->rnr_wait = false;
}

/*
 * The oldest packet cannot be sent again before its page has come. So the peer has nothing to
 * answer, and its silence says nothing about it. The deadlines start with the next packet.
 */
static bool waits_for_page(const struct roe_qp *qp)
{
	return qp->req.fault.waiting && roe_requester_at_una(qp);
}

/*
 * The oldest packet is sent again although no NAK has asked for it. It has AckReq set, since
 * the packets behind it may have to wait for a page. Responses that come within a round trip
 * were in flight before and imply no other loss.
 */
static void ask_again(struct roe_req *req, const struct roe_ctx *ctx)
{
	/* the packet itself leaves now */
	req->ask_at = 0;
	req->rewound = false;
	req->told = false;
	req->since_ack = ROE_ACKREQ_EVERY;
	req->implied_until = ctx->now + req->srtt;
}

/*
 * A deadline has passed without an ACK: shrink the window. Not before the first sample: if the
 * path only takes longer than the RTO, nothing was lost.
 */
static void lost(struct roe_qp *qp, const struct roe_ctx *ctx)
{
	struct roe_req *req = &qp->req;

	roe_trains_missed(qp, &req->trains, ctx->now, req->una);
	if (req->srtt)
		roe_requester_lost(qp);
}

/* Nothing was acknowledged for a whole Local ACK Timeout. */
static void ack_expired(struct roe_qp *qp, struct roe_ctx *ctx)
{
	roe_qp_count(qp, ROE_STAT_TIMEOUT);
	qp->req.lossy_until = ctx->now + ROE_LOSSY_NS;
	ask_again(&qp->req, ctx);
	lost(qp, ctx);
	if (roe_requester_retry(qp, ctx))
		roe_timer_arm(qp, ctx);
}

/*
 * Send again what IP refused. Packets before it that were lost on the path are found by the
 * other deadlines, which run on.
 */
static void drop_expired(struct roe_qp *qp, struct roe_ctx *ctx)
{
	struct roe_req *req = &qp->req;

	/*
	 * until then a NAK may ask for packets that IP refused, though they are on their way by
	 * now: it counts no retry (roe_requester_again())
	 */
	req->drop_until = ctx->now + rto(qp);
	if (roe_psn_diff(req->drop_psn, req->una) <= 0) {
		req->drop_psn = req->una;
		req->early = true;
		ask_again(req, ctx);
		/*
		 * the oldest packet leaves only now; but never set this deadline alone, without
		 * ack_deadline, which counts
		 */
		if (req->early_deadline)
			req->early_deadline = ctx->now + rto(qp);
	}
	roe_requester_resend(qp);
}

static void early_expired(struct roe_qp *qp, struct roe_ctx *ctx)
{
	struct roe_req *req = &qp->req;

	/* IP refuses packets now: the oldest packet is sent again together with those */
	if (req->drop_deadline) {
		req->drop_psn = req->una;
		req->early_deadline = ctx->now + rto(qp);
		return;
	}
	/* if it is sooner, because of reread_wait(), that says nothing about the RTO */
	if (!req->reread_at || ctx->now - req->reread_at >= rto(qp))
		req->backoff++;
	req->early_deadline = ctx->now + rto(qp);
	req->early = true;
	req->lossy_until = ctx->now + ROE_LOSSY_NS;
	ask_again(req, ctx);
	lost(qp, ctx);
	roe_requester_rewind(qp);
}

/* The RTO goes on: the copies may be lost, too. While IP refuses packets there are none. */
static void ask_expired(struct roe_req *req)
{
	req->ask_at = 0;
	req->asking = !req->drop_deadline;
}

/**
 * roe_timer_run() - act on every deadline that has passed
 * @qp: roe_qp_has_timer()
 * @ctx: the time
 */
void roe_timer_run(struct roe_qp *qp, struct roe_ctx *ctx)
{
	struct roe_req *req = &qp->req;
	/* before roe_fault_again() below, which may end the wait */
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
	if (qp->resp.kept_until && ctx->now >= qp->resp.kept_until)
		roe_responder_forget(qp);
	/* the end of this run sends, or sets them again */
	if (req->pace_wake && ctx->now >= req->pace_wake)
		req->pace_wake = 0;
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
	else if (req->ask_at && ctx->now >= req->ask_at)
		ask_expired(req);
}

ROE_EXPORT_FOR_TEST(roe_timer_run);
