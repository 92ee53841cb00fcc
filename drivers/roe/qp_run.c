// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * One run of a QP, the frame of all that its engines do: take the lock and read the time; do
 * what the run is for: packets, deadlines, or anything else between roe_qp_begin() and
 * roe_qp_end(); send a burst and arm the timer; drop the lock; then call completion handlers
 * and deliver events, which may take locks of their own.
 *
 * Contexts: softirq (packets, the timer), or any but hard interrupts. A run has softirqs
 * disabled and is one RCU read-side section: objects that it has looked up stay valid to its end.
 * It does one round; what is left goes to a worker (qp_doorbell.c).
 */
#include <linux/interrupt.h>
#include "qp_doorbell.h"
#include "qp_run.h"
#include "qp_tx.h"
#include "rnr.h"
#include "transport.h"

/* The SQ is drained when all WQEs that were started are acknowledged (wire.md section 5). */
static void check_drained(struct roe_qp *qp, struct roe_ctx *ctx)
{
	if (qp->state != IB_QPS_SQD || qp->sq_drained || qp->sq.next != qp->sq.cons ||
	    qp->req.psn != qp->req.una)
		return;
	qp->sq_drained = true;
	if (qp->sqd_notify)
		ctx->events |= BIT(IB_EVENT_SQ_DRAINED);
}

static void arm_timer(struct roe_qp *qp)
{
	u64 next = roe_timer_next(qp);

	/*
	 * An earlier expiry stays armed: it finds nothing to do and arms this one. In a state
	 * without a timer nobody acts on deadlines left from the last state: a timer armed for
	 * them would expire at once, again and again, and keep this CPU busy.
	 */
	if (!next || (qp->timer_at && qp->timer_at <= next) || !roe_qp_has_timer(qp))
		return;
	qp->timer_at = next;
	hrtimer_start(&qp->timer, ns_to_ktime(next), HRTIMER_MODE_ABS_SOFT);
}

static void call_event_handler(struct roe_qp *qp, u32 events)
{
	struct ib_event ev = { .device = qp->ib.device, .element.qp = &qp->ib };
	unsigned long bits = events;
	unsigned int bit;

	for_each_set_bit(bit, &bits, 32) {
		ev.event = bit;
		if (qp->ib.event_handler)
			qp->ib.event_handler(&ev, qp->ib.qp_context);
	}
}

static void deliver_late(struct work_struct *work)
{
	struct roe_qp *qp = container_of(work, struct roe_qp, event_work);

	call_event_handler(qp, atomic_xchg(&qp->events, 0));
}

/**
 * roe_qp_init_events() - prepare for events to a kernel user
 * @qp: zeroed
 */
void roe_qp_init_events(struct roe_qp *qp)
{
	INIT_WORK(&qp->event_work, deliver_late);
}

ROE_EXPORT_FOR_TEST(roe_qp_init_events);

/*
 * A kernel user may be in the middle of a post and hold a lock that its event handler takes, and
 * the handler may sleep: so a worker calls it. The handler of processes (uverbs) neither takes such
 * a lock nor sleeps.
 */
static void deliver_events(struct roe_qp *qp, u32 events)
{
	if (qp->user) {
		call_event_handler(qp, events);
		return;
	}
	atomic_or(events, &qp->events);
	roe_notify_queue(&qp->event_work);
}

/* A new RNR deadline is moved to when this CPU's share for RNR retries has room (rnr.c). */
static void pace_rnr(struct roe_qp *qp, const struct roe_ctx *ctx)
{
	struct roe_req *req = &qp->req;

	if (!req->rnr_wait || !req->rnr_deadline || req->rnr_deadline == req->rnr_paced)
		return;
	/* halved only: many QPs that each make progress now and then are still a crowd */
	if (req->rnr_una != req->una)
		req->rnr_times /= 2;
	req->rnr_una = req->una;
	req->rnr_deadline = roe_rnr_pace(req->rnr_deadline, ctx->now, req->rnr_times);
	if (req->rnr_times < U8_MAX)
		req->rnr_times++;
	req->rnr_paced = req->rnr_deadline;
}

static bool overrun(const struct roe_qp *qp)
{
	return qp->overrun && qp->state != IB_QPS_ERR && qp->state != IB_QPS_RESET;
}

/* End of a run: transmission and timer under the lock; then drop it and deliver. */
static bool finish(struct roe_qp *qp, struct roe_ctx *ctx)
	__releases(&qp->lock)
{
	bool more = false;

	if (!ctx->hold)
		qp->hold.until = 0;
	/* ERR first: a message without room in the CQ must not be ACKed; but a fatal NAK leaves */
	if (overrun(qp) && !qp->resp.fatal)
		roe_complete_error(qp, ctx);
	if (qp->state != IB_QPS_RESET && qp->state != IB_QPS_ERR && !ctx->hold)
		more = roe_qp_transmit(qp, ctx);
	if (overrun(qp))
		roe_complete_error(qp, ctx);
	check_drained(qp, ctx);
	pace_rnr(qp, ctx);
	arm_timer(qp);
	more |= roe_qp_flushes(qp);
	if (qp->state == IB_QPS_ERR && qp->rq.ring)
		roe_qp_flush_later(qp);
	spin_unlock(&qp->lock);
	if (ctx->notify_send)
		roe_cq_notify(qp->scq, ctx->may_call);
	if (ctx->notify_recv && (qp->rcq != qp->scq || !ctx->notify_send))
		roe_cq_notify(qp->rcq, ctx->may_call);
	if (ctx->events)
		deliver_events(qp, ctx->events);
	return more;
}

/* Empty the memo: without an MR its other fields mean nothing. */
static void forget(struct roe_sge_memo *memo)
{
	memo->mr = NULL;
	memo->message = 0;
}

/* Field by field: this runs for each doorbell, and most of @ctx are memos, emptied by one field. */
static void begin(struct roe_qp *qp, struct roe_ctx *ctx)
	__acquires(&qp->lock)
{
	ctx->direct = false;
	ctx->fresh = false;
	ctx->answers_only = false;
	ctx->requests_only = false;
	ctx->hold = false;
	ctx->may_call = false;
	ctx->collect = false;
	ctx->notify_send = false;
	ctx->notify_recv = false;
	ctx->events = 0;
	ctx->sends.mr = NULL;
	ctx->brings.mr = NULL;
	ctx->receives.mr = NULL;
	ctx->written.mr = NULL;
	ctx->read.mr = NULL;
	ctx->target = NULL;
	forget(&ctx->source);
	forget(&ctx->answer);
	forget(&ctx->brought);
	forget(&ctx->received);
	spin_lock(&qp->lock);
	ctx->now = ktime_get_ns();
}

/**
 * roe_qp_begin() - begin a run of a QP for anything but packets
 * @qp: any state; kept by the caller
 * @ctx: empty afterwards, except for the time
 *
 * Any context but hard interrupts. Until roe_qp_end() or roe_qp_end_round() qp->lock is
 * held, softirqs are disabled, and it is one RCU read-side section.
 */
void roe_qp_begin(struct roe_qp *qp, struct roe_ctx *ctx)
	__acquires(RCU) __acquires(&qp->lock)
{
	local_bh_disable();
	rcu_read_lock();
	begin(qp, ctx);
}

ROE_EXPORT_FOR_TEST(roe_qp_begin);

/**
 * roe_qp_end() - end a run: send a burst, drop the lock, notify
 * @qp: as in roe_qp_begin(); the lock is dropped
 * @ctx: the notifications and events that it owes are delivered
 */
void roe_qp_end(struct roe_qp *qp, struct roe_ctx *ctx)
	__releases(&qp->lock) __releases(RCU)
{
	if (finish(qp, ctx))
		roe_qp_defer(qp);
	rcu_read_unlock();
	local_bh_enable();
}

ROE_EXPORT_FOR_TEST(roe_qp_end);

/**
 * roe_qp_end_round() - end a run of a caller that does further rounds itself
 * @qp: as in roe_qp_begin(); the lock is dropped
 * @ctx: as in roe_qp_end()
 *
 * Softirqs are still disabled.
 *
 * Return: whether another round is wanted.
 */
bool roe_qp_end_round(struct roe_qp *qp, struct roe_ctx *ctx)
	__releases(&qp->lock) __releases(RCU)
{
	bool more = finish(qp, ctx);

	rcu_read_unlock();
	return more;
}

/**
 * roe_qp_end_idle() - end a run that has nothing to do, and owes nothing
 * @qp: as in roe_qp_begin(); the lock is dropped. The timer is armed already for what waits
 *
 * Softirqs are still disabled.
 */
void roe_qp_end_idle(struct roe_qp *qp)
	__releases(&qp->lock) __releases(RCU)
{
	spin_unlock(&qp->lock);
	rcu_read_unlock();
}

static enum hrtimer_restart qp_timer(struct hrtimer *timer)
{
	struct roe_qp *qp = container_of(timer, struct roe_qp, timer);
	struct roe_ctx ctx roe_uninitialized;
	bool retry;

	roe_qp_begin(qp, &ctx);
	ctx.may_call = true;
	qp->timer_at = 0;
	retry = qp->req.rnr_wait;
	if (roe_qp_has_timer(qp))
		roe_timer_run(qp, &ctx);
	retry = retry && !qp->req.rnr_wait;
	roe_qp_end(qp, &ctx);
	if (retry)
		roe_rnr_spent(ktime_get_ns() - ctx.now);
	return HRTIMER_NORESTART;
}

/**
 * roe_qp_init_timer() - initialise the timer
 * @qp: not published yet
 */
void roe_qp_init_timer(struct roe_qp *qp)
{
	hrtimer_setup(&qp->timer, qp_timer, CLOCK_MONOTONIC, HRTIMER_MODE_ABS_SOFT);
}

/**
 * roe_qp_take_timer() - move the timer of the QP to this CPU
 * @qp: not locked. Process context
 *
 * A timer that is expiring on another CPU is left there.
 */
void roe_qp_take_timer(struct roe_qp *qp)
{
	spin_lock_bh(&qp->lock);
	if (roe_qp_has_timer(qp) && hrtimer_try_to_cancel(&qp->timer) > 0)
		hrtimer_start(&qp->timer, ns_to_ktime(qp->timer_at), HRTIMER_MODE_ABS_SOFT);
	spin_unlock_bh(&qp->lock);
}

/**
 * roe_qp_receive() - run a QP with packets from the network
 * @qp: not locked
 * @pkts: proven, of the QP's transport, in order of arrival; namespace and addresses match
 * @n: at least 1
 *
 * RCU read-side section, softirqs disabled. Answers leave before this returns.
 */
void roe_qp_receive(struct roe_qp *qp, struct roe_rx_pkt *pkts, unsigned int n)
{
	struct roe_rx_row row = { .first = pkts, .stride = sizeof(*pkts), .n = n };
	struct roe_ctx ctx roe_uninitialized;

	begin(qp, &ctx);
	ctx.may_call = true;
	if (n == 1)
		roe_qp_dispatch(qp, &ctx, pkts);
	else
		roe_qp_dispatch_row(qp, &ctx, &row);
	/* answers leave, and requests for which a received ACK has opened the window */
	if (finish(qp, &ctx))
		roe_qp_defer(qp);
}

/**
 * roe_qp_deliver() - run a QP with a direct burst from a QP of the same device
 * @qp: the receiver, not locked
 * @txb: direct; the lock of its sender is not held; MRs lent to it are returned
 *
 * Otherwise as roe_qp_receive().
 */
void roe_qp_deliver(struct roe_qp *qp, struct roe_txb *txb)
{
	unsigned int budget = ROE_QP_ROUNDS;
	struct roe_ctx ctx roe_uninitialized;
	bool more;

	begin(qp, &ctx);
	ctx.direct = true;
	ctx.fresh = txb->fresh;
	roe_qp_dispatch_direct(qp, &ctx, txb);
	while ((more = finish(qp, &ctx)) && --budget)
		begin(qp, &ctx);
	if (more)
		roe_qp_defer(qp);
}
