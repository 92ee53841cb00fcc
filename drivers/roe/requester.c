// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Requester: work requests to packets (IBTA 9.7, wire.md 4.6).
 *
 *        cons            next              prod        (indices into the SQ)
 *   ------|---------------|-----------------|------
 *   retired  sent, waits    started or        not posted
 *            for its ACK    not started yet
 *
 *   una lies in the WQE at cons, wqe_psn in the WQE at next. A WQE gets its
 *   PSNs when it is started and keeps them; going back is next = cons and
 *   wqe_psn = una. WQEs retire strictly in order, at cons.
 *
 *   A NAK 0x60 tells where a gap begins, not which packets from behind it the peer has. So
 *   after going back the requester sends only a few packets, the probe, and waits for the
 *   answer to them. It goes on behind what the peer had kept; with a probe twice as long if
 *   the gap is longer; with all of the rest if the peer keeps nothing. Likewise after an RNR
 *   NAK: a peer that had no receive WQE may have one now, but hardly one for each message. So
 *   one message is sent, and twice as much with each answer.
 *
 *   UC gets no answers from the peer (IBTA 9.8): what has been sent is forgotten, so una
 *   follows wqe_psn, no ACK deadline runs, and a WQE retires with its last packet.
 */
#include "mw.h"
#include "trace.h"
#include "transport.h"

static struct roe_swqe *head(const struct roe_qp *qp)
{
	return roe_sq_slot(&qp->sq, qp->sq.cons);
}

static bool is_read(const struct roe_swqe *wqe)
{
	return wqe->opcode == IB_WR_RDMA_READ;
}

static bool is_local(const struct roe_swqe *wqe)
{
	return wqe->opcode == IB_WR_LOCAL_INV || wqe->opcode == IB_WR_BIND_MW ||
	       wqe->opcode == IB_WR_REG_MR;
}

/**
 * roe_requester_retire() - the oldest WQE is done
 * @qp: SQ not empty
 * @ctx: takes notifications
 * @status: outcome
 */
void roe_requester_retire(struct roe_qp *qp, struct roe_ctx *ctx, enum ib_wc_status status)
{
	struct roe_sq *sq = &qp->sq;
	struct roe_swqe *wqe = head(qp);

	if (wqe->state == ROE_SWQE_ACTIVE) {
		qp->req.credit.done = roe_psn_add(qp->req.credit.done, 1);
		if (roe_swqe_is_query(wqe) && qp->req.rd_out)
			qp->req.rd_out--;
	}
	if (roe_qp_is_ud(qp))
		roe_ud_release(wqe);
	/*
	 * The WQE is a private copy, so the user's ring slot is released before the completion
	 * can be seen: a user who has polled it may post again at once, even into a queue of
	 * one.
	 */
	if (sq->ring)
		roe_ring_release(sq->ring, 1);
	roe_complete_send(qp, ctx, wqe, status);
	/* done with the slot: pairs with the acquire in roe_sq_full() */
	smp_store_release(&sq->cons, sq->cons + 1);
	if ((s32)(sq->cons - sq->next) > 0) {
		sq->next = sq->cons;
		qp->req.wqe_psn = qp->req.una;
	}
}

/**
 * roe_requester_fail() - the oldest WQE failed: report it, then ERR or SQE
 * @qp: SQ not empty
 * @ctx: takes notifications
 * @status: of that WQE; all others are flushed
 *
 * UC goes to SQE: it has no connection that could get out of step, so only the SQ stops (IBTA
 * 10.3.1.7, wire.md 4.6). The failed WQE is the first one that is flushed; on RC it waits, like
 * the others, until nobody reads its payload any more (qp->lent).
 */
void roe_requester_fail(struct roe_qp *qp, struct roe_ctx *ctx, enum ib_wc_status status)
{
	qp->req.failed = status;
	if (qp->type == IB_QPT_RC)
		roe_complete_error(qp, ctx);
	else
		roe_complete_sqe(qp, ctx);
}

/* Nothing is to be learnt from copies any more: what they are about is sent again, or is done. */
static void end_ask(struct roe_req *req)
{
	req->asking = false;
	req->ask_open = false;
}

/**
 * roe_requester_rewind() - send again from the oldest PSN not acknowledged
 * @qp: the QP
 *
 * Go-back-N. Local operations that are done already are not done again.
 */
void roe_requester_rewind(struct roe_qp *qp)
{
	trace_roe_retransmit(qp, qp->req.una);
	qp->sq.next = qp->sq.cons;
	qp->req.wqe_psn = qp->req.una;
	qp->req.rtt_start = 0;
	qp->req.probe = 0;
	qp->req.drop_deadline = 0;
	qp->req.trains.on = false;
	end_ask(&qp->req);
	roe_reorder_again(&qp->req);
}

/**
 * roe_requester_at_una() - is the next packet the oldest one not acknowledged?
 * @qp: the QP
 *
 * Return: true if nothing is in flight, or all of it is about to be sent again. Then the next
 * packet may take either way, network or direct: it overtakes no packet that counts.
 */
bool roe_requester_at_una(const struct roe_qp *qp)
{
	return roe_psn_diff(qp->req.max_psn, qp->req.una) <= 0 ||
	       (qp->sq.next == qp->sq.cons && qp->req.wqe_psn == qp->req.una);
}

ROE_EXPORT_FOR_TEST(roe_requester_at_una);

static void slow_down(struct roe_req *req)
{
	req->cwnd = max_t(u32, req->cwnd * ROE_WINDOW_KEPT / 10, ROE_WINDOW_MIN);
	req->ssthresh = req->cwnd;
	req->widened = 0;
}

/**
 * roe_requester_lost() - packets were lost: fewer in flight from now on
 * @qp: the QP
 *
 * Once for what was in flight together. A whole window sent again at once would only overrun the
 * same queue. A loss with less than half a window in flight does not tell how large the window
 * may be, so that stays.
 *
 * Return: true for the first loss of what was in flight together.
 */
bool roe_requester_lost(struct roe_qp *qp)
{
	struct roe_req *req = &qp->req;

	if (roe_psn_diff(req->una, req->recover) < 0)
		return false;
	if (roe_psn_diff(req->max_psn, req->una) * 2 >= (s32)req->cwnd)
		slow_down(req);
	req->recover = req->max_psn;
	req->gaps = 0;
	return true;
}

ROE_EXPORT_FOR_TEST(roe_requester_lost);

/**
 * roe_requester_pause() - a response was dropped: the page it is for is missing
 * @qp: the QP
 *
 * The request is sent again when the page is there; that counts no retry. Until then received
 * responses are dropped, for they would only seem to be out of order.
 */
void roe_requester_pause(struct roe_qp *qp)
{
	struct roe_req *req = &qp->req;

	/* no worker brings the page: a deadline finds the response missing */
	if (!req->fault.waiting)
		return;
	/* the peer has answered: nothing is wrong with the network path */
	req->retry_cnt = qp->attr.retry_cnt;
	req->backoff = 0;
	roe_requester_rewind(qp);
	/* or responses still in flight would imply a loss */
	req->rewound = true;
	roe_timer_disarm(qp);
	req->rnr_wait = true;
	req->rnr_deadline = 0;
	req->paging = true;
}

/**
 * roe_requester_resume() - pages have come
 * @qp: paused or not
 */
void roe_requester_resume(struct roe_qp *qp)
{
	struct roe_req *req = &qp->req;

	if (req->paging)
		req->rnr_wait = false;
	req->paging = false;
}

/**
 * roe_requester_retry() - send again after a loss that counts against retry_cnt
 * @qp: has a time-out, NAK 0x60 or implied NAK
 * @ctx: takes notifications
 *
 * Return: false if the retries are used up; the QP is in ERR then.
 */
bool roe_requester_retry(struct roe_qp *qp, struct roe_ctx *ctx)
{
	if (!qp->req.retry_cnt) {
		roe_qp_count(qp, ROE_STAT_RETRY_EXC);
		roe_requester_fail(qp, ctx, IB_WC_RETRY_EXC_ERR);
		return false;
	}
	qp->req.retry_cnt--;
	roe_requester_rewind(qp);
	return true;
}

/*
 * Does the packet with this PSN need a receive WQE? Then the peer may have it and say nothing: a
 * roe responder that delays its RNR NAK asks for such a packet by a NAK 0x60, when the receive WQE
 * has come, and a copy that comes before that ends its patience (not_ready() of responder.c).
 */
static bool needs_rwqe(const struct roe_swqe *wqe, u32 psn)
{
	if (!roe_credit_takes(wqe))
		return false;
	return psn == (wqe->opcode == IB_WR_RDMA_WRITE_WITH_IMM ? wqe->last_psn : wqe->first_psn);
}

/* The peer may not miss the packet at una. */
static bool waited(const struct roe_qp *qp)
{
	return needs_rwqe(head(qp), qp->req.una);
}

static bool may_copy(const struct roe_swqe *wqe, u32 psn)
{
	return !roe_swqe_is_query(wqe) && !needs_rwqe(wqe, psn);
}

/**
 * roe_requester_again() - send again, as an answer says that a packet was lost
 * @qp: has a NAK 0x60 or implied NAK
 * @ctx: the time; takes notifications
 *
 * What the early deadline or roe_requester_ask() sends again counts no retry, so an answer to that
 * counts none, either: where small packets arrive and large ones do not, all retries would be gone
 * within milliseconds. Nor does an answer about packets that IP refused: they never left, and the
 * peer saw the packets behind them before the copies that the timer has sent. The Local ACK
 * Timeout runs on and counts.
 *
 * Return: as roe_requester_retry().
 */
bool roe_requester_again(struct roe_qp *qp, struct roe_ctx *ctx)
{
	struct roe_req *req = &qp->req;
	bool refused = req->drop_psn == req->una &&
		       (req->drop_deadline || ctx->now < req->drop_until);

	if (!refused && !waited(qp)) {
		req->lossy_until = ctx->now + ROE_LOSSY_NS;
		roe_timer_ask(qp, ctx->now);
	}
	if (refused || ((req->early || req->asked) && req->ack_deadline))
		roe_requester_rewind(qp);
	else if (!roe_requester_retry(qp, ctx))
		return false;
	req->reorder.asked = ctx->now;
	return true;
}

/* How many packets to send into a gap before the next answer; 0: no limit. */
static u32 next_probe(struct roe_req *req)
{
	if (req->probe && req->una == req->probe_end)
		return min(2 * req->probe, req->cwnd);
	if (req->probe_misses < ROE_PROBE_MISSES)
		return min(ROE_PROBE_PKTS << req->gaps, req->cwnd);
	/* probe a peer that kept nothing again at times: it may have been short of memory */
	if (++req->probe_misses == ROE_PROBE_AGAIN)
		req->probe_misses = ROE_PROBE_MISSES - 1;
	return 0;
}

static void limit(struct roe_req *req, u32 pkts, bool rnr)
{
	req->probe = pkts;
	req->probe_end = roe_psn_add(req->una, pkts);
	req->probe_rnr = rnr;
}

/* Limit the probe to @pkts if more than that of what was in flight is not acknowledged. */
static void probe_on(struct roe_req *req, u32 pkts)
{
	req->probe = 0;
	if (pkts && roe_psn_diff(req->max_psn, req->una) > (s32)pkts)
		limit(req, pkts, false);
}

/* The peer has taken what was sent after its RNR NAK: send twice as much. */
static void ready_again(struct roe_req *req)
{
	if (req->probe < req->cwnd)
		limit(req, 2 * req->probe, true);
	else
		req->probe = 0;
}

/**
 * roe_requester_may_ask() - is una a packet that may be copied to get an answer?
 * @qp: has packets in flight
 *
 * A READ or ATOMIC asks for more than a packet; for the others see needs_rwqe().
 *
 * Return: true if so.
 */
bool roe_requester_may_ask(const struct roe_qp *qp)
{
	return may_copy(head(qp), qp->req.una);
}

/**
 * roe_requester_probes() - has una been sent again, as a part of the probe into the gap before?
 * @req: of an RC QP
 *
 * Return: true if so.
 */
bool roe_requester_probes(const struct roe_req *req)
{
	return req->probe && !req->probe_rnr && roe_timer_is_long(req) &&
	       roe_psn_diff(req->probe_end, req->una) > 0 &&
	       roe_psn_diff(req->wqe_psn, req->una) > 0;
}

/**
 * roe_requester_gap() - NAK 0x60: the peer misses the packet at una
 * @qp: all before una is acknowledged
 * @ctx: the time; takes notifications
 */
void roe_requester_gap(struct roe_qp *qp, struct roe_ctx *ctx)
{
	struct roe_req *req = &qp->req;
	bool once = !roe_reorder_sent_twice(req);
	bool first = roe_requester_lost(qp);
	u32 probe = next_probe(req);

	if (waited(qp))
		req->trains.on = false;
	else
		roe_trains_missed(qp, &req->trains, ctx->now, req->una);
	if (!roe_requester_again(qp, ctx))
		return;
	/* the queue that was full has to have room for what is sent again */
	if (first && req->paced_at) {
		req->paced_psn = req->una;
		req->paced_at = ctx->now;
	}
	/* another copy of it was in flight already: which one arrives is not known (Karn) */
	if (!once)
		req->reorder.asked = 0;
	probe_on(req, probe);
}

ROE_EXPORT_FOR_TEST(roe_requester_gap);

/**
 * roe_requester_heard() - a plain ACK came, perhaps the answer to the copies of roe_requester_ask()
 * @qp: una has moved
 * @ctx: the time
 *
 * What was in flight when they were sent has come by now, or is lost. So the peer misses una, and
 * has said so by a NAK that was lost; unless it has just been busy: then it answers more of them
 * soon, and una moves before roe_completer_overdue().
 */
void roe_requester_heard(struct roe_qp *qp, const struct roe_ctx *ctx)
{
	struct roe_req *req = &qp->req;

	if (!req->ask_open)
		return;
	req->ask_open = false;
	/* una is sent again in any case, or may wait for a receive WQE there */
	if (!roe_requester_at_una(qp) && !waited(qp))
		roe_reorder_nak(qp, ctx, true);
}

ROE_EXPORT_FOR_TEST(roe_requester_heard);

/**
 * roe_requester_not_ready() - RNR NAK: una is to be sent again, later
 * @qp: all before una is acknowledged, una is not
 *
 * At first only the message at una is sent again, if what is left of it is shorter than the
 * window.
 */
void roe_requester_not_ready(struct roe_qp *qp)
{
	struct roe_req *req = &qp->req;
	s32 left = roe_psn_diff(head(qp)->last_psn, req->una) + 1;

	roe_requester_rewind(qp);
	if (left < (s32)req->cwnd)
		limit(req, max(left, 1), true);
}

/**
 * roe_requester_probed() - a plain ACK came, perhaps the answer to a probe
 * @qp: una has moved
 *
 * If it acknowledges the probe and nothing behind it, the peer had kept nothing.
 */
void roe_requester_probed(struct roe_qp *qp)
{
	struct roe_req *req = &qp->req;

	if (!req->probe || req->una != req->probe_end)
		return;
	/*
	 * A probe longer than the first one: by another NAK the peer has told that it keeps
	 * packets. It tells so again only after more packets than the window allows, so go on
	 * probing until all that was in flight is acknowledged.
	 */
	if (!req->probe_rnr && req->probe > ROE_PROBE_PKTS) {
		probe_on(req, next_probe(req));
		return;
	}
	req->probe = 0;
	req->probe_misses++;
}

/*
 * The largest window, in packets. Where a round trip takes some microseconds, packets in flight
 * stand in queues: 1 MiB keeps any of them busy, and no ring and no backlog has room for more
 * than ROE_WINDOW_MAX packets at once. On a long path packets in flight are on the wire, and
 * with fewer than rate times round trip the path would be idle for most of the time. There the
 * shortest round trip gives the limit. By how much the present round trip is longer tells which
 * part of the window stands in queues after all: if that is more than twice the limit of a
 * short path, the window has grown enough.
 */
static u32 widest(const struct roe_qp *qp)
{
	const struct roe_req *req = &qp->req;
	/* log2 of the path MTU, a power of two */
	u32 shift = __ffs(qp->mtu), max, way;

	max = clamp_t(u32, ROE_WINDOW_BYTES >> shift, ROE_WINDOW_PKTS, ROE_WINDOW_MAX);
	if (likely(!roe_timer_is_long(req)))
		return max;
	way = div_u64((u64)req->cwnd * req->rtt_min, max(req->srtt, req->rtt));
	if (req->cwnd - way > 2 * max)
		return max;
	return min_t(u64, (u64)ROE_WINDOW_PER_NS * req->rtt_min >> shift, ROE_WINDOW_LONG);
}

/*
 * By how many packets a full window grows in a round trip. On a long path a round trip that gets
 * longer tells that a queue builds up, before it overflows: every packet lost then costs a round
 * trip. Until then the window grows fast, as most of a transfer may be over before it is large.
 */
static u32 growth(const struct roe_req *req)
{
	u32 jitter = max_t(u32, req->rtt_min / 16, ROE_WAY_JITTER_NS);
	bool first = req->cwnd < req->ssthresh;

	/* a READ waits for the responses to those before it, which is no queue on the path */
	if (!roe_timer_is_long(req) || req->rd_out)
		return first ? max(ROE_WINDOW_STEP, req->cwnd / 8) : ROE_WINDOW_STEP;
	if (req->rtt - req->rtt_min > jitter)
		return first ? ROE_WINDOW_STEP : 1;
	return max(ROE_WINDOW_STEP, req->cwnd / (first ? 8 : 32));
}

/*
 * If the window is full (at least half) when an ACK comes, it is what keeps the QP from sending
 * more; as far as loss tells, the path bears more. So the window grows by a few packets per
 * round trip, no matter how many answers acknowledge them: a READ gets one for each packet, a
 * WRITE one for 32. Before the first loss it grows by an eighth per round trip, to get large
 * soon on long paths and with small packets. Doubling it, as TCP begins, would lose as much as
 * the path bears at once, and each gap takes a round trip. Where the network reorders, most
 * packets that seem lost are late: there each answer adds at least 1, which soon makes up for
 * needless reductions. A QP that does not fill its window slowly gets back what a loss took, up
 * to ROE_WINDOW_PKTS: it proves nothing about the path.
 */
static void widen(struct roe_qp *qp)
{
	struct roe_req *req = &qp->req;
	u32 max = widest(qp);
	u32 flight = (req->max_psn - req->counted) & ROE_PSN_MASK;
	u32 acked = (req->una - req->counted) & ROE_PSN_MASK;
	u32 step = ROE_WINDOW_STEP, grown;

	req->counted = req->una;
	/* the path has changed, or only seemed long: larger windows are for long paths */
	if (!roe_timer_is_long(req))
		req->cwnd = min(req->cwnd, max);
	/* no growth for the rest of the round trip that a CNP was about */
	if (roe_psn_diff(req->una, req->eased) < 0)
		return;
	req->eased = req->una;
	if (2 * flight < req->cwnd)
		max = ROE_WINDOW_PKTS;
	else
		step = growth(req);
	if (req->cwnd >= max)
		return;
	if (req->reorder.patience && acked)
		step = max(step, DIV_ROUND_UP(req->cwnd, acked));
	req->widened += acked * step;
	if (req->widened < req->cwnd)
		return;
	grown = req->widened / req->cwnd;
	req->widened -= grown * req->cwnd;
	req->cwnd = min(req->cwnd + grown, max);
}

/* una moved: let the window grow and, after an RNR NAK, the probe. */
static void allow_more(struct roe_qp *qp)
{
	struct roe_req *req = &qp->req;

	widen(qp);
	if (req->probe && req->probe_rnr && roe_psn_diff(req->una, req->probe_end) >= 0)
		ready_again(req);
}

/* una was sent again or is waited for, or a response from behind it was dropped. */
static bool in_disorder(const struct roe_req *req)
{
	return req->reorder.asked || req->reorder.until || req->reorder.dropped;
}

/**
 * roe_requester_progress() - una moved: reload the counters, restart the deadlines
 * @qp: the QP
 * @ctx: the time
 */
void roe_requester_progress(struct roe_qp *qp, struct roe_ctx *ctx)
{
	struct roe_req *req = &qp->req;

	req->retry_cnt = qp->attr.retry_cnt;
	req->rnr_retry = qp->attr.rnr_retry;
	req->rewound = false;
	req->told = false;
	req->early = false;
	req->drops = 0;
	req->asking = false;
	if (roe_psn_diff(req->ask_end, req->una) <= 0)
		req->ask_open = false;
	allow_more(qp);
	if (req->probe && roe_psn_diff(req->una, req->probe_end) > 0) {
		if (!req->probe_rnr && roe_timer_is_long(req))
			req->gaps = min(req->gaps + 1, ROE_PROBE_GAPS);
		req->probe = 0;
		req->probe_misses = 0;
	}
	/* or 2^23 packets after the last READ, gap or rewind they would be ahead of una again */
	if (roe_psn_diff(req->una, req->win_psn) > 0)
		req->win_psn = req->una;
	if (roe_psn_diff(req->una, req->recover) > 0)
		req->recover = req->una;
	roe_trains_arrived(&req->trains, req->una);
	if (roe_psn_diff(req->una, req->reorder.once_psn) > 0)
		req->reorder.once_psn = req->una;
	if (in_disorder(req))
		roe_reorder_progress(req, ctx);
	roe_timer_sample(qp, ctx->now, req->una);
	/*
	 * responses to the original READ have acknowledged it: a response with this PSN would
	 * now be one 2^24 PSNs later
	 */
	if (req->reread_at && roe_psn_diff(req->una, req->reread_psn) > 0)
		req->reread_at = 0;
	if (qp->sq.next == qp->sq.cons && roe_psn_diff(req->una, req->wqe_psn) > 0)
		req->wqe_psn = req->una;
	/* the peer has taken a copy of what its RNR NAK refused: the wait is over */
	if (req->rnr_wait && !req->paging) {
		req->rnr_wait = false;
		req->rnr_deadline = 0;
	}
	if (roe_psn_diff(req->max_psn, req->una) > 0)
		roe_timer_arm(qp, ctx);
	else
		roe_timer_disarm(qp);
}

ROE_EXPORT_FOR_TEST(roe_requester_progress);

/**
 * roe_requester_progress_part() - una moved, and will once more in this run
 * @qp: the QP
 * @ctx: the time
 *
 * Does only what depends on each single answer: the window and the probe after an RNR NAK grow,
 * and the second of two answers may tell something about a gap that the first does not. All
 * else is done once for all of them by roe_requester_progress(), which must follow.
 */
void roe_requester_progress_part(struct roe_qp *qp, struct roe_ctx *ctx)
{
	allow_more(qp);
	if (in_disorder(&qp->req))
		roe_reorder_progress(&qp->req, ctx);
}

/**
 * roe_requester_progress_by() - una moves over @n packets, one after the other
 * @qp: the QP
 * @ctx: the time
 * @n: at least 1
 */
void roe_requester_progress_by(struct roe_qp *qp, struct roe_ctx *ctx, unsigned int n)
{
	struct roe_req *req = &qp->req;

	while (--n) {
		req->una = roe_psn_add(req->una, 1);
		roe_requester_progress_part(qp, ctx);
	}
	req->una = roe_psn_add(req->una, 1);
	roe_requester_progress(qp, ctx);
}

ROE_EXPORT_FOR_TEST(roe_requester_progress_by);

/**
 * roe_requester_local_drop() - IP refused requests of a burst
 * @qp: the QP
 * @ctx: the time
 * @psn: of the first one refused
 *
 * For the protocol they are lost: they are sent again soon, and no retry is counted. The
 * refusal says nothing about the network path, so its deadlines run on.
 */
void roe_requester_local_drop(struct roe_qp *qp, struct roe_ctx *ctx, u32 psn)
{
	struct roe_req *req = &qp->req;

	if (roe_psn_diff(req->max_psn, req->una) <= 0)
		return;
	/* reduce the window once for what was in flight together */
	if (roe_psn_diff(req->una, req->recover) >= 0) {
		slow_down(req);
		req->recover = req->max_psn;
		req->gaps = 0;
	}
	/* the QP has gone back to @psn or before it, so @psn is sent again in any case */
	if (req->rnr_wait || roe_psn_diff(req->wqe_psn, psn) <= 0)
		return;
	if (!req->drop_deadline) {
		req->drop_deadline = ctx->now +
				     ((u64)ROE_LOCAL_DROP_NS << min(req->drops++, 8u));
		req->drop_psn = psn;
	} else if (roe_psn_diff(psn, req->drop_psn) < 0) {
		req->drop_psn = psn;
	}
}

ROE_EXPORT_FOR_TEST(roe_requester_local_drop);

/* Is @psn in this WQE, or before it? */
static bool reaches(const struct roe_swqe *wqe, u32 psn)
{
	return wqe->state == ROE_SWQE_ACTIVE && roe_psn_diff(psn, wqe->last_psn) <= 0;
}

/**
 * roe_requester_resend() - send again from the first packet that IP refused
 * @qp: the QP; as far as the requester knows, req.drop_psn was sent
 *
 * Packets in flight before req.drop_psn may be in the queue that was full, so they are not sent
 * again.
 */
void roe_requester_resend(struct roe_qp *qp)
{
	struct roe_req *req = &qp->req;
	u32 end = qp->sq.next, n = ROE_WINDOW_LONG;
	const struct roe_swqe *wqe = head(qp);

	trace_roe_retransmit(qp, req->drop_psn);
	req->drop_deadline = 0;
	req->trains.on = false;
	end_ask(req);
	if (roe_psn_diff(req->rtt_psn, req->drop_psn) >= 0)
		req->rtt_start = 0;
	else if (roe_psn_diff(req->rtt_end, req->drop_psn) > 0)
		req->rtt_end = req->drop_psn;
	qp->sq.next = qp->sq.cons;
	req->wqe_psn = req->una;
	while (qp->sq.next != end && n && !reaches(wqe, req->drop_psn)) {
		if (wqe->state == ROE_SWQE_ACTIVE)
			req->wqe_psn = roe_psn_add(wqe->last_psn, 1);
		wqe = roe_sq_slot(&qp->sq, ++qp->sq.next);
		n--;
	}
	/* a READ Request stands for all of its PSNs: it cannot begin at drop_psn */
	if (n && !roe_swqe_is_query(wqe) && roe_psn_diff(req->drop_psn, req->wqe_psn) > 0)
		req->wqe_psn = req->drop_psn;
	roe_reorder_forget(req, req->wqe_psn);
}

/**
 * roe_requester_reset() - initial state, on the way to RTS and to RESET
 * @qp: SQ empty or about to be discarded
 * @psn: sq_psn
 */
void roe_requester_reset(struct roe_qp *qp, u32 psn)
{
	struct roe_req *req = &qp->req;
	struct roe_reorder reorder = roe_reorder_reset(req, psn);

	memset(req, 0, sizeof(*req));
	req->reorder = reorder;
	req->psn = psn;
	req->max_psn = psn;
	req->una = psn;
	req->wqe_psn = psn;
	req->win_psn = psn;
	req->recover = psn;
	req->eased = psn;
	req->reread_psn = psn;
	req->alpha = ROE_ALPHA_ONE;
	req->cwnd = ROE_WINDOW_PKTS;
	req->ssthresh = U32_MAX;
	req->counted = psn;
	req->retry_cnt = qp->attr.retry_cnt;
	req->rnr_retry = qp->attr.rnr_retry;
	roe_hold_reset(qp);
	roe_cc_reset(qp);
	roe_unsent_reset(&qp->unsent);
}

ROE_EXPORT_FOR_TEST(roe_requester_reset);

/*
 * A kernel user may deregister an MR while its REG_MR is still in the SQ (SMC-R does so after a
 * long wait): wqe->reg_mr is valid only if the key table still has it. An MR that is in the
 * table lasts for this run.
 */
static int reg_mr(struct roe_qp *qp, const struct roe_swqe *wqe)
{
	if (roe_mr_find(qp->keys, wqe->rkey) != wqe->reg_mr)
		return -EINVAL;
	return roe_mr_fast_reg(qp->pd, wqe->reg_mr, wqe->rkey, wqe->reg_access);
}

/* Local operations send no packet; they are done when their turn comes. */
static enum ib_wc_status run_local(struct roe_qp *qp, struct roe_swqe *wqe)
{
	int err;

	if (wqe->opcode == IB_WR_REG_MR)
		err = reg_mr(qp, wqe);
	else if (wqe->opcode == IB_WR_BIND_MW)
		err = roe_mw_bind(qp, wqe);
	else
		err = roe_mr_invalidate(qp, wqe->inv_rkey, true);
	return err ? IB_WC_MW_BIND_ERR : IB_WC_SUCCESS;
}

/*
 * The window bounds READ responses in flight like request packets: they stand in queues on the
 * way back, and after one loss all of them are sent again. One READ may always start. So may
 * any other while at most half a window is outstanding, even if it does not fit into the
 * window: otherwise the way back would be empty for a round trip after each of them.
 *
 * Where packets have been late, no query (roe_swqe_is_query()) is added to those that are sent
 * again. If one of their responses is late as well, all is sent again from there, with what was
 * added, and more could be added to that, for ever.
 */
static bool read_window_open(const struct roe_req *req, u32 npsn)
{
	u32 out = (req->psn - req->una) & ROE_PSN_MASK;

	if (req->rd_out && req->reorder.patience && roe_reorder_sent_twice(req))
		return false;
	return !req->rd_out || out + npsn <= req->cwnd || out <= req->cwnd / 2;
}

/*
 * Nor are all READs sent again at once: the loss has made the window smaller. The oldest READ
 * may always be sent again. The others follow as its responses come: each of them leads here
 * again.
 */
static bool reread_open(const struct roe_qp *qp, const struct roe_swqe *wqe)
{
	const struct roe_req *req = &qp->req;

	return qp->sq.next == qp->sq.cons || roe_psn_diff(req->wqe_psn, req->max_psn) >= 0 ||
	       roe_psn_diff(wqe->last_psn, req->una) < (s32)req->cwnd;
}

/*
 * May the WQE at next start? Reasons to wait: a fence behind READs and ATOMICs, max_rd_atomic,
 * the window, LOCAL_INV behind any other WQE, credits, PSNs running out. And ROE_LOCAL_BEHIND
 * WQEs before a local operation: an ACK retires a message and all local operations behind it in
 * one run, with softirqs off; that run then goes on here. For small messages streams() and
 * is_small() check the same.
 */
static bool may_start(struct roe_qp *qp, const struct roe_swqe *wqe, u32 npsn)
{
	const struct roe_req *req = &qp->req;
	/* 0 (rdma_connect() with zeroed parameters) is taken for 1, as hardware does */
	u32 queries = max_t(u32, qp->attr.max_rd_atomic, 1);

	if ((wqe->flags & IB_SEND_FENCE) && req->rd_out)
		return false;
	if (wqe->opcode == IB_WR_LOCAL_INV && qp->sq.next != qp->sq.cons)
		return false;
	if (is_local(wqe) && qp->sq.next - qp->sq.cons >= ROE_LOCAL_BEHIND)
		return false;
	if (roe_swqe_is_query(wqe) &&
	    (req->rd_out >= queries || !read_window_open(req, npsn)))
		return false;
	if (req->credit.limited && !is_local(wqe) && !roe_credit_allows(qp, wqe))
		return false;
	/* a message of 2^23 packets goes alone; the window keeps its PSNs unambiguous */
	return req->psn == req->una ||
	       ((req->psn - req->una) & ROE_PSN_MASK) + npsn < ROE_PSN_SPAN;
}

static enum ib_wc_status check_data(struct roe_qp *qp, struct roe_ctx *ctx,
				    const struct roe_swqe *wqe, u32 npsn)
{
	int access = roe_swqe_is_query(wqe) ? IB_ACCESS_LOCAL_WRITE : 0;

	if (wqe->flags & IB_SEND_INLINE)
		return IB_WC_SUCCESS;
	/* its responses would fill half of the PSN space: 2 GiB at a path MTU of 256 */
	if (is_read(wqe) && npsn >= ROE_PSN_SPAN)
		return IB_WC_LOC_LEN_ERR;
	return roe_sge_check(qp, ctx, wqe, access) ? IB_WC_SUCCESS : IB_WC_LOC_PROT_ERR;
}

/* Give the WQE at next its PSNs. False: not now, or it cannot be sent. */
static bool start(struct roe_qp *qp, struct roe_ctx *ctx, struct roe_swqe *wqe)
{
	struct roe_req *req = &qp->req;
	bool query = roe_swqe_is_query(wqe);
	/* of the queries only a READ takes more than one PSN */
	u32 npsn = roe_psn_count(query && !is_read(wqe) ? 0 : wqe->length, qp->mtu);

	if (!may_start(qp, wqe, npsn))
		return false;
	/* a page of its destination is missing: each check would look at all its pages */
	if (query && req->fault.waiting)
		return false;
	wqe->status = check_data(qp, ctx, wqe, npsn);
	if (wqe->status != IB_WC_SUCCESS) {
		/* it begins when its pages are there */
		if (roe_fault_missed(qp, ctx, &req->fault))
			wqe->status = IB_WC_SUCCESS;
		return false;
	}
	wqe->first_psn = req->psn;
	wqe->last_psn = roe_psn_add(req->psn, npsn - 1);
	wqe->state = ROE_SWQE_ACTIVE;
	req->wqe_psn = req->psn;
	req->psn = roe_psn_add(req->psn, npsn);
	roe_credit_started(&req->credit, wqe);
	if (query) {
		req->rd_out++;
		req->win_first = wqe->first_psn;
		req->win_psn = req->psn;
	}
	return true;
}

/*
 * Packets that the window has room for from @psn on; not positive: it is full. Behind a READ or
 * ATOMIC only requests count, not the PSNs of its responses, which read_window_open() bounds.
 */
static s32 window_room(const struct roe_req *req, u32 psn)
{
	s32 behind = roe_psn_diff(psn, req->win_psn);

	if (behind < 0 || roe_psn_diff(req->win_psn, req->una) <= 0)
		return (s32)req->cwnd - roe_psn_diff(psn, req->una);
	return (s32)req->cwnd - behind - max(roe_psn_diff(req->win_first, req->una), 0);
}

/* Packets that may leave now from @psn on: the window has room, and on a long path the pace. */
static s32 window_left(const struct roe_qp *qp, u32 psn)
{
	const struct roe_req *req = &qp->req;
	s32 room = window_room(req, psn);

	return req->paced_at ? min(room, roe_psn_diff(req->paced_psn, psn)) : room;
}

/*
 * On a long path a window that opens at once, as it does behind a gap, leaves in small bursts:
 * all of it would not fit into the queue of a router whose rate fills it. In a round trip it
 * may be a quarter more than the window, so a QP that sends as ACKs come is not held up.
 */
static void pace(struct roe_qp *qp, const struct roe_ctx *ctx)
{
	struct roe_req *req = &qp->req;
	u32 burst = max_t(u32, req->cwnd / 8, ROE_PACE_PKTS);
	u32 left = max(roe_psn_diff(req->paced_psn, req->wqe_psn), 0);
	u64 more;

	/* without a sample srtt is 0, and so is rtt_min */
	if (!roe_timer_is_long(req) || !roe_qp_has_timer(qp)) {
		req->paced_at = 0;
		return;
	}
	req->pace_wake = 0;
	more = div_u64((ctx->now - req->paced_at) * req->cwnd * 5, 4 * req->srtt);
	if (left + more >= burst) {
		left = burst;
		req->paced_at = ctx->now;
	} else {
		/* the fraction of a packet counts the next time */
		left += more;
		req->paced_at += div_u64(more * 4 * req->srtt, 5 * req->cwnd);
	}
	req->paced_psn = roe_psn_add(req->wqe_psn, left);
}

/* The window has room, the pace has not: go on when a burst may leave. */
static void wait_for_pace(struct roe_req *req, const struct roe_ctx *ctx)
{
	if (req->paced_at && roe_psn_diff(req->paced_psn, req->wqe_psn) <= 0 &&
	    window_room(req, req->wqe_psn) > 0)
		req->pace_wake = ctx->now + req->srtt / 16;
}

struct op_row {
	u8 first, middle, last, only;
};

/* BTH opcodes by work request opcode and by place in the message. */
static const struct op_row op_rows[] = {
	[IB_WR_RDMA_WRITE] = {
		ROE_OP_WRITE_FIRST, ROE_OP_WRITE_MIDDLE, ROE_OP_WRITE_LAST, ROE_OP_WRITE_ONLY
	},
	[IB_WR_RDMA_WRITE_WITH_IMM] = {
		ROE_OP_WRITE_FIRST, ROE_OP_WRITE_MIDDLE, ROE_OP_WRITE_LAST_IMM,
		ROE_OP_WRITE_ONLY_IMM
	},
	[IB_WR_SEND] = {
		ROE_OP_SEND_FIRST, ROE_OP_SEND_MIDDLE, ROE_OP_SEND_LAST, ROE_OP_SEND_ONLY
	},
	[IB_WR_SEND_WITH_IMM] = {
		ROE_OP_SEND_FIRST, ROE_OP_SEND_MIDDLE, ROE_OP_SEND_LAST_IMM,
		ROE_OP_SEND_ONLY_IMM
	},
	[IB_WR_SEND_WITH_INV] = {
		ROE_OP_SEND_FIRST, ROE_OP_SEND_MIDDLE, ROE_OP_SEND_LAST_INV,
		ROE_OP_SEND_ONLY_INV
	},
};

/* The next packet is a Middle, and at least one more Middle follows. */
static bool in_middle(const struct roe_req *req, const struct roe_swqe *wqe)
{
	return req->wqe_psn != wqe->first_psn && roe_psn_diff(wqe->last_psn, req->wqe_psn) > 1;
}

static u8 pick(const struct roe_qp *qp, u8 wr_opcode, bool first, bool last)
{
	u8 xport = qp->type == IB_QPT_UC ? ROE_XPORT_UC : ROE_XPORT_RC;
	const struct op_row *row = &op_rows[wr_opcode];

	if (first)
		return xport | (last ? row->only : row->first);
	return xport | (last ? row->last : row->middle);
}

/* Does the probe let a packet leave? If not, an answer is due, so a deadline is set, too. */
static bool probe_open(const struct roe_req *req)
{
	return !req->probe || roe_psn_diff(req->wqe_psn, req->probe_end) < 0 ||
	       roe_psn_diff(req->una, req->probe_end) >= 0;
}

/*
 * If the packet before the last one of @txb ended a message, too, one AckReq does for both:
 * that of the last one, or a later one. A packet that is sent again keeps its own AckReq: on a
 * path with much loss nothing might be acknowledged otherwise.
 */
static void ask_once(struct roe_qp *qp, struct roe_txb *txb)
{
	struct roe_tx_pkt *prev;

	if (txb->n < 2 || !qp->req.since_ack)
		return;
	prev = &txb->pkt[txb->n - 2];
	if (!prev->again && (roe_opcode(prev->p.opcode)->flags & (ROE_F_SEND | ROE_F_WRITE)))
		prev->p.ackreq = false;
}

/*
 * An ACK lets as many packets leave at once as it acknowledges. On a long path the queues of
 * routers are small beside what is in flight, and full queues have room for small bursts only.
 */
static u32 ack_every(const struct roe_req *req)
{
	u32 part = req->cwnd >> (roe_timer_is_long(req) ? ROE_ACKREQ_SHIFT : 1);

	return min_t(u32, ROE_ACKREQ_EVERY, max_t(u32, part, ROE_WINDOW_MIN / 2));
}

/*
 * AckReq of the packet just added to @txb: where progress depends on it, and often enough to
 * keep the window open. The AckReq at the end of a message may move to the next one
 * (ask_once()).
 */
static bool want_ack(struct roe_qp *qp, struct roe_txb *txb, bool last)
{
	u32 every = ack_every(&qp->req);

	if (qp->type != IB_QPT_RC)
		return false;
	ask_once(qp, txb);
	if (qp->req.probe && roe_psn_add(qp->req.wqe_psn, 1) == qp->req.probe_end)
		last = true;
	if (++qp->req.since_ack < every)
		return last;
	qp->req.since_ack = 0;
	return true;
}

/* IBTA 9.2: SE is for messages that complete a receive WQE, whatever the WQE asks for. */
static bool solicits(const struct roe_swqe *wqe)
{
	return (wqe->flags & IB_SEND_SOLICITED) && roe_credit_takes(wqe);
}

/*
 * No memory for a packet: try again later. If nothing is in flight, no answer and no other
 * deadline would make the QP run again.
 */
static void starve(struct roe_req *req, const struct roe_ctx *ctx)
{
	req->rnr_deadline = ctx->now + ROE_LOCAL_DROP_NS;
}

/* The next packet waits for a page: the last request of the burst asks for an ACK. */
static void ask_before_wait(struct roe_qp *qp, struct roe_txb *txb)
{
	struct roe_pkt *p;

	if (!txb->n || qp->type != IB_QPT_RC)
		return;
	p = &txb->pkt[txb->n - 1].p;
	if (!(roe_opcode(p->opcode)->flags & ROE_F_REQUEST))
		return;
	p->ackreq = true;
	qp->req.since_ack = 0;
}

/* A packet of a SEND or WRITE. */
static bool emit_data(struct roe_qp *qp, struct roe_ctx *ctx, struct roe_swqe *wqe,
		      struct roe_txb *txb)
{
	struct roe_req *req = &qp->req;
	u32 off = ((req->wqe_psn - wqe->first_psn) & ROE_PSN_MASK) * qp->mtu;
	u32 len = min(wqe->length - off, qp->mtu);
	bool last = off + len == wqe->length;
	struct roe_tx_pkt *pkt;

	pkt = roe_txb_add(txb, pick(qp, wqe->opcode, !off, last), len);
	if (!pkt) {
		starve(req, ctx);
		return false;
	}
	if (wqe->opcode == IB_WR_SEND_WITH_INV)
		txb->invalidates = true;
	if (!roe_sge_load(qp, ctx, wqe, off, txb)) {
		roe_txb_cancel(txb);
		if (roe_fault_missed(qp, ctx, &req->fault))
			ask_before_wait(qp, txb);
		else
			wqe->status = IB_WC_LOC_PROT_ERR;
		return false;
	}
	pkt->p.ackreq = want_ack(qp, txb, last);
	pkt->p.se = last && solicits(wqe);
	pkt->p.va = wqe->raddr;
	pkt->p.dmalen = wqe->length;
	pkt->p.rkey = wqe->opcode == IB_WR_SEND_WITH_INV ? wqe->inv_rkey : wqe->rkey;
	pkt->p.imm = wqe->imm;
	pkt->p.psn = req->wqe_psn;
	req->wqe_psn = roe_psn_add(req->wqe_psn, 1);
	return true;
}

/*
 * Set AckReq where it is due in the last @n packets of @txb: Middle packets that are sent for
 * the first time, the last of them just before wqe_psn.
 */
static void ask_in_row(struct roe_qp *qp, struct roe_ctx *ctx, struct roe_txb *txb,
		       unsigned int n)
{
	u32 every = ack_every(&qp->req);
	struct roe_req *req = &qp->req;
	struct roe_pkt *p;

	/* if the window has become smaller the next packet asks at once */
	while (n && req->since_ack + n >= every) {
		n -= max(every, req->since_ack + 1) - req->since_ack;
		req->since_ack = 0;
		p = &txb->pkt[txb->n - 1 - n].p;
		p->ackreq = true;
		roe_timer_start_sample(qp, ctx->now, p->psn);
	}
	req->since_ack += n;
}

/*
 * Add several Middle packets of a SEND or WRITE at once. The packet before them has made this
 * run look up their memory; they are sent for the first time, and nothing but the window waits
 * for an answer. False: nothing was added; the next packet goes alone, or there is no room.
 */
static bool emit_row(struct roe_qp *qp, struct roe_ctx *ctx, struct roe_swqe *wqe,
		     struct roe_txb *txb)
{
	struct roe_req *req = &qp->req;
	u32 off = ((req->wqe_psn - wqe->first_psn) & ROE_PSN_MASK) * qp->mtu;
	s32 left = min(roe_psn_diff(wqe->last_psn, req->wqe_psn),
		       window_left(qp, req->wqe_psn));
	struct roe_pkt model = {
		.opcode = pick(qp, wqe->opcode, false, false),
		.pkey = qp->pkey,
		.qpn = qp->dest_qpn,
		.psn = req->wqe_psn,
		.len = qp->mtu,
	};
	struct roe_mr *mr;
	unsigned int n;
	u32 len;
	u64 va;

	if (!ctx->source.mr || ctx->source.message != qp->sq.next || left < 2 ||
	    qp->type != IB_QPT_RC || wqe->flags & IB_SEND_INLINE || req->probe ||
	    req->wqe_psn != req->max_psn || !roe_txb_lends(txb))
		return false;
	len = left * qp->mtu;
	mr = roe_sge_source(qp, ctx, wqe, txb, off, &len, &va);
	if (!mr)
		return false;
	n = roe_txb_plan(txb, qp->mtu, len / qp->mtu);
	n = roe_mr_map_row(mr, va, &txb->pkt[txb->n], n, qp->mtu);
	if (!n)
		return false;
	roe_txb_add_row(txb, &model, n);
	req->wqe_psn = roe_psn_add(req->wqe_psn, n);
	req->max_psn = req->wqe_psn;
	ask_in_row(qp, ctx, txb, n);
	if (!req->early_deadline)
		roe_timer_arm(qp, ctx);
	return true;
}

/* The fields that depend on the opcode. */
static void fill_query(struct roe_txb *txb, struct roe_tx_pkt *pkt,
		       const struct roe_swqe *wqe)
{
	switch (wqe->opcode) {
	case IB_WR_ATOMIC_CMP_AND_SWP:
		pkt->p.swap_add = wqe->swap;
		pkt->p.compare = wqe->compare_add;
		break;
	case IB_WR_ATOMIC_FETCH_AND_ADD:
		pkt->p.swap_add = wqe->compare_add;
		pkt->p.compare = 0;
		break;
	case IB_WR_ATOMIC_WRITE:
		roe_sge_load_bytes(txb, wqe->atomic_data);
		break;
	case IB_WR_FLUSH:
		pkt->p.feth = wqe->feth;
		break;
	default:
		break;
	}
}

/* A READ Request for what is still missing, or an ATOMIC, ATOMIC WRITE or FLUSH. */
static bool emit_query(struct roe_qp *qp, struct roe_ctx *ctx, struct roe_swqe *wqe,
		       struct roe_txb *txb)
{
	static const u8 op[] = {
		[IB_WR_RDMA_READ] = ROE_OP_READ_REQ,
		[IB_WR_ATOMIC_CMP_AND_SWP] = ROE_OP_CMP_SWAP,
		[IB_WR_ATOMIC_FETCH_AND_ADD] = ROE_OP_FETCH_ADD,
		[IB_WR_ATOMIC_WRITE] = ROE_OP_ATOMIC_WRITE,
		[IB_WR_FLUSH] = ROE_OP_FLUSH,
	};
	u32 len = wqe->opcode == IB_WR_ATOMIC_WRITE ? sizeof(wqe->atomic_data) : 0;
	struct roe_req *req = &qp->req;
	u32 off = ((req->wqe_psn - wqe->first_psn) & ROE_PSN_MASK) * qp->mtu;
	struct roe_tx_pkt *pkt = roe_txb_add(txb, op[wqe->opcode], len);

	if (!pkt) {
		starve(req, ctx);
		return false;
	}
	pkt->p.ackreq = true;
	pkt->p.va = wqe->raddr + off;
	pkt->p.rkey = wqe->rkey;
	pkt->p.dmalen = wqe->length - off;
	pkt->p.psn = req->wqe_psn;
	fill_query(txb, pkt, wqe);
	if (off)
		roe_timer_reread(qp, ctx->now, pkt->p.psn);
	/* for the pace the request is one packet, whatever comes back */
	req->paced_psn = roe_psn_add(req->paced_psn, wqe->last_psn - req->wqe_psn);
	req->wqe_psn = roe_psn_add(wqe->last_psn, 1);
	return true;
}

/* Book-keeping for the packet that was just added. That of small messages is in emit_stream(). */
static void sent(struct roe_qp *qp, struct roe_ctx *ctx, struct roe_txb *txb)
{
	struct roe_pkt *p = &txb->pkt[txb->n - 1].p;
	struct roe_req *req = &qp->req;

	p->qpn = qp->dest_qpn;
	p->pkey = qp->pkey;
	if (roe_psn_diff(p->psn, req->max_psn) < 0) {
		txb->pkt[txb->n - 1].again = true;
		req->reorder.again = ctx->now;
		roe_qp_count(qp, ROE_STAT_RETRANS);
	} else if (p->ackreq) {
		roe_timer_start_sample(qp, ctx->now, p->psn);
	}
	if (roe_psn_diff(req->wqe_psn, req->max_psn) > 0)
		req->max_psn = req->wqe_psn;
	if (qp->type == IB_QPT_RC) {
		if (!req->early_deadline)
			roe_timer_arm(qp, ctx);
		return;
	}
	req->una = req->wqe_psn;
	roe_cc_spend(qp, ctx, roe_tx_bytes(&txb->pkt[txb->n - 1]));
}

/* All packets of the WQE at next are in bursts; UC does not wait for more. */
static void complete_sending(struct roe_qp *qp, struct roe_ctx *ctx)
{
	qp->sq.next++;
	if (qp->type != IB_QPT_RC)
		roe_requester_retire(qp, ctx, IB_WC_SUCCESS);
}

/* A WQE that cannot be sent is reported when all before it are done. */
static void refuse(struct roe_qp *qp, struct roe_ctx *ctx, struct roe_swqe *wqe)
{
	if (qp->sq.next == qp->sq.cons)
		roe_requester_fail(qp, ctx, wqe->status);
}

static void step_local(struct roe_qp *qp, struct roe_ctx *ctx, struct roe_swqe *wqe)
{
	wqe->status = run_local(qp, wqe);
	if (wqe->status != IB_WC_SUCCESS) {
		refuse(qp, ctx, wqe);
		return;
	}
	wqe->state = ROE_SWQE_DONE;
	qp->sq.next++;
	if (qp->sq.cons + 1 == qp->sq.next)
		roe_requester_retire(qp, ctx, IB_WC_SUCCESS);
}

/*
 * Add a packet of the WQE at next, or several Middle packets. False: the window or a rate is
 * used up; there is no room, no memory or a page is missing; or wqe->status says what is wrong.
 */
static bool emit_packet(struct roe_qp *qp, struct roe_ctx *ctx, struct roe_swqe *wqe,
			struct roe_txb *txb)
{
	struct roe_req *req = &qp->req;
	bool ok;

	/* after a rewind: a later WQE that was sent before begins again */
	if (roe_psn_diff(req->wqe_psn, wqe->first_psn) < 0 ||
	    roe_psn_diff(req->wqe_psn, wqe->last_psn) > 0)
		req->wqe_psn = wqe->first_psn;
	if (!probe_open(req) || (qp->type == IB_QPT_UC && !roe_cc_open(qp, ctx)))
		return false;
	if (in_middle(req, wqe) && !roe_swqe_is_query(wqe) && emit_row(qp, ctx, wqe, txb))
		return true;
	if (roe_swqe_is_query(wqe))
		ok = reread_open(qp, wqe) && emit_query(qp, ctx, wqe, txb);
	else
		ok = window_left(qp, req->wqe_psn) > 0 && emit_data(qp, ctx, wqe, txb);
	if (ok)
		sent(qp, ctx, txb);
	return ok;
}

/*
 * Advance the WQE at next by some packets or one local operation. False: nothing more leaves in
 * this run. An ACK, a deadline, a page or a doorbell then makes the QP run again; a WQE that
 * cannot be sent waits for those before it.
 */
static bool step(struct roe_qp *qp, struct roe_ctx *ctx, struct roe_txb *txb)
{
	struct roe_swqe *wqe = roe_sq_slot(&qp->sq, qp->sq.next);

	/* in SQD it does not start before RTS, even if it cannot be sent */
	if (wqe->state == ROE_SWQE_POSTED && qp->state == IB_QPS_SQD)
		return false;
	if (wqe->status != IB_WC_SUCCESS) {
		refuse(qp, ctx, wqe);
		return false;
	}
	if (wqe->state == ROE_SWQE_DONE) {
		qp->sq.next++;
		return true;
	}
	if (is_local(wqe)) {
		if (!may_start(qp, wqe, 0))
			return false;
		step_local(qp, ctx, wqe);
		return qp->state == IB_QPS_RTS;
	}
	if ((wqe->state == ROE_SWQE_POSTED && !start(qp, ctx, wqe)) ||
	    !emit_packet(qp, ctx, wqe, txb)) {
		if (wqe->status != IB_WC_SUCCESS)
			refuse(qp, ctx, wqe);
		return false;
	}
	if (roe_psn_diff(qp->req.wqe_psn, wqe->last_psn) > 0)
		complete_sending(qp, ctx);
	return true;
}

/* May messages be sent one after the other, limited by nothing but the window? */
static bool streams(const struct roe_qp *qp, const struct roe_txb *txb)
{
	const struct roe_req *req = &qp->req;

	return qp->type == IB_QPT_RC && qp->state == IB_QPS_RTS && req->psn == req->max_psn &&
	       !req->probe && !req->credit.limited && !req->fault.waiting &&
	       roe_txb_lends(txb) &&
	       ((req->psn - req->una) & ROE_PSN_MASK) + ROE_TXB_PKTS < ROE_PSN_SPAN;
}

/* Is this a message of one packet that may start? As in may_start() and emit_packet(). */
static bool is_small(const struct roe_qp *qp, const struct roe_swqe *wqe)
{
	const struct roe_req *req = &qp->req;

	if (wqe->status != IB_WC_SUCCESS || !wqe->length || wqe->length > qp->mtu ||
	    ((wqe->flags & IB_SEND_FENCE) && req->rd_out))
		return false;
	switch (wqe->opcode) {
	case IB_WR_SEND:
	case IB_WR_SEND_WITH_IMM:
	case IB_WR_RDMA_WRITE:
	case IB_WR_RDMA_WRITE_WITH_IMM:
		return window_left(qp, req->psn) > 0;
	case IB_WR_RDMA_READ:
		return req->rd_out < max_t(u32, qp->attr.max_rd_atomic, 1) &&
		       read_window_open(req, 1);
	default:
		return false;
	}
}

/* Where its payload lies, of a READ: goes to; NULL: roe_sge_check() has to look for it. */
static void *small_place(const struct roe_ctx *ctx, const struct roe_swqe *wqe)
{
	const struct roe_run_memo *memo = is_read(wqe) ? &ctx->brings : &ctx->sends;
	const struct roe_sge *sge = wqe->sge;

	if (wqe->flags & IB_SEND_INLINE)
		return (void *)sge;
	return wqe->num_sge == 1 ? roe_mr_place(memo, sge->lkey, sge->addr, wqe->length) : NULL;
}

static bool emit_small(struct roe_qp *qp, struct roe_ctx *ctx, struct roe_swqe *wqe, void *addr,
		       struct roe_txb *txb)
{
	struct roe_req *req = &qp->req;
	struct roe_tx_pkt *pkt;

	if (is_read(wqe)) {
		pkt = roe_txb_add(txb, ROE_OP_READ_REQ, 0);
		if (!pkt)
			return false;
		pkt->p.ackreq = true;
		req->rd_out++;
		req->win_first = req->psn;
		req->win_psn = roe_psn_add(req->psn, 1);
	} else {
		pkt = roe_txb_add(txb, op_rows[wqe->opcode].only, wqe->length);
		if (!pkt)
			return false;
		pkt->p.ackreq = want_ack(qp, txb, true);
		pkt->p.se = solicits(wqe);
		pkt->p.imm = wqe->imm;
		roe_sge_load_place(txb, addr);
	}
	pkt->p.va = wqe->raddr;
	pkt->p.dmalen = wqe->length;
	pkt->p.rkey = wqe->rkey;
	pkt->p.qpn = qp->dest_qpn;
	pkt->p.pkey = qp->pkey;
	pkt->p.psn = req->psn;
	if (pkt->p.ackreq && !req->rtt_start)
		roe_timer_start_sample(qp, ctx->now, req->psn);
	return true;
}

/*
 * Send messages of one packet each, for the first time. Does what step() would do with each of
 * them, as long as nothing is to be decided and the memo of this run knows their memory.
 * Returns whether any packet was added.
 */
static bool emit_stream(struct roe_qp *qp, struct roe_ctx *ctx, struct roe_txb *txb)
{
	struct roe_req *req = &qp->req;
	struct roe_sq *sq = &qp->sq;
	unsigned int n = txb->n;
	u32 prod;

	if (!streams(qp, txb))
		return false;
	/* pairs with the release in post_one(): the WQEs are complete */
	prod = smp_load_acquire(&sq->prod);
	while (sq->next != prod && roe_txb_room(txb)) {
		struct roe_swqe *wqe = roe_sq_slot(sq, sq->next);
		void *addr;

		if (wqe->state != ROE_SWQE_POSTED || !is_small(qp, wqe))
			break;
		addr = small_place(ctx, wqe);
		if (!addr || !emit_small(qp, ctx, wqe, addr, txb))
			break;
		wqe->first_psn = req->psn;
		wqe->last_psn = req->psn;
		wqe->state = ROE_SWQE_ACTIVE;
		roe_credit_started(&req->credit, wqe);
		req->psn = roe_psn_add(req->psn, 1);
		req->wqe_psn = req->psn;
		req->max_psn = req->psn;
		sq->next++;
	}
	if (txb->n == n)
		return false;
	if (!req->early_deadline)
		roe_timer_arm(qp, ctx);
	return true;
}

/*
 * Has the burst to leave before the WQE at next goes on? Local operations, and the receiver of
 * a SEND with invalidate, take the lock of an MR, whose holder may be waiting for the end of an
 * access that this burst has.
 */
static bool waits_for_mrs(struct roe_qp *qp, const struct roe_txb *txb)
{
	const struct roe_swqe *wqe;

	if (!txb->nr_mrs)
		return false;
	wqe = roe_sq_slot(&qp->sq, qp->sq.next);
	/* a local operation that is done, refused, or may not start takes no lock */
	if (is_local(wqe))
		return wqe->state == ROE_SWQE_POSTED && wqe->status == IB_WC_SUCCESS &&
		       qp->state == IB_QPS_RTS && may_start(qp, wqe, 0);
	return txb->direct && wqe->opcode == IB_WR_SEND_WITH_INV;
}

/*
 * Send a packet in flight once more, from the WQE at @index; the QP does not go back to it. False:
 * it may not be copied, its memory has gone or a page of it is missing.
 */
static bool send_copy(struct roe_qp *qp, struct roe_ctx *ctx, u32 index, u32 psn,
		      struct roe_txb *txb)
{
	struct roe_swqe *wqe = roe_sq_slot(&qp->sq, index);
	u32 next = qp->sq.next, wqe_psn = qp->req.wqe_psn;
	bool ok;

	if (!roe_txb_room(txb) || wqe->status != IB_WC_SUCCESS || !may_copy(wqe, psn))
		return false;
	qp->sq.next = index;
	qp->req.wqe_psn = psn;
	ok = emit_data(qp, ctx, wqe, txb);
	if (ok) {
		txb->pkt[txb->n - 1].p.ackreq = true;
		sent(qp, ctx, txb);
	}
	/* the answer to the packet itself may still come: the error is reported if it is not */
	wqe->status = IB_WC_SUCCESS;
	qp->sq.next = next;
	qp->req.wqe_psn = wqe_psn;
	return ok;
}

/* True if more could be sent at once. */
static bool emit(struct roe_qp *qp, struct roe_ctx *ctx, struct roe_txb *txb)
{
	unsigned int n, silent = 0;

	if (qp->req.rtt_min)
		pace(qp, ctx);
	while (roe_txb_room(txb) && silent < ROE_WQE_BATCH) {
		if (qp->state != IB_QPS_RTS && qp->state != IB_QPS_SQD)
			return false;
		/* pairs with the release in post_one(): the WQE is complete */
		if (qp->req.rnr_wait || qp->sq.next == smp_load_acquire(&qp->sq.prod))
			return false;
		if (qp->type == IB_QPT_UC && roe_unsent_full(qp, ctx, txb))
			return !qp->unsent.look;
		if (waits_for_mrs(qp, txb)) {
			/* requests go first in the next burst: its answers lend MRs as well */
			qp->crowded = true;
			return true;
		}
		n = txb->n;
		/* step() looks up the memory for the first packet, which is often the only one */
		if (n && emit_stream(qp, ctx, txb))
			continue;
		if (!step(qp, ctx, txb)) {
			wait_for_pace(&qp->req, ctx);
			return false;
		}
		if (txb->n == n)
			silent++;
	}
	/* pairs with the release in post_one(): the WQE is complete */
	return qp->sq.next != smp_load_acquire(&qp->sq.prod);
}

/**
 * roe_requester_emit() - add request packets to a burst
 * @qp: the QP
 * @ctx: the time; takes notifications
 * @txb: has room, or nothing is done
 *
 * Return: true if more could be sent at once: the burst is full, or holds MRs that the next WQE
 * waits for, or ROE_WQE_BATCH steps have added no packet (then it may be empty). False also if
 * too much of UC waits on this host: the timer goes on.
 */
bool roe_requester_emit(struct roe_qp *qp, struct roe_ctx *ctx, struct roe_txb *txb)
{
	struct roe_req *req = &qp->req;
	bool more = emit(qp, ctx, txb);

	/* an answer to any of these packets may end the timing: roe_timer_gap_sample() */
	if (ctx->now - req->rtt_start <= ROE_WAY_LONG_NS / 2 && req->wqe_psn == req->max_psn)
		req->rtt_end = req->max_psn;
	return more;
}

/**
 * roe_requester_ask() - add copies of packets in flight that ask for an answer
 * @qp: RC; req.asking is set (ask_after() in timer.c)
 * @ctx: the time
 * @txb: without any request
 *
 * una may be missing, and the last packet tells the peer how far the flight went. It answers that
 * at once, by an ACK, or by a NAK 0x60 if something between them is missing.
 *
 * Return: true if copies were added. Nothing else may go with them, since it does not matter if IP
 * refuses them.
 */
bool roe_requester_ask(struct roe_qp *qp, struct roe_ctx *ctx, struct roe_txb *txb)
{
	struct roe_req *req = &qp->req;
	u32 last = roe_psn_add(req->max_psn, -1), i = qp->sq.cons, n;

	req->asking = false;
	if (req->rnr_wait || txb->direct || roe_requester_at_una(qp))
		return false;
	txb->copies = send_copy(qp, ctx, i, req->una, txb);
	for (n = ROE_WINDOW_LONG; n && !reaches(roe_sq_slot(&qp->sq, i), last); n--)
		i++;
	if (n && last != req->una)
		txb->copies |= send_copy(qp, ctx, i, last, txb);
	if (!txb->copies)
		return false;
	req->asked++;
	req->ask_open = true;
	req->ask_end = req->max_psn;
	/* a NAK from now on may answer them */
	req->told = false;
	/* whatever is answered, it does not tell how long an answer takes (Karn) */
	req->rtt_start = 0;
	req->reorder.once_psn = req->max_psn;
	roe_timer_ask(qp, ctx->now);
	return true;
}
