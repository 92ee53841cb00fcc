// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * One run of a QP, the frame of all that its engines do: the lock taken and the time read;
 * what the run is for, packets or the time, or anything else between roe_qp_begin() and
 * roe_qp_end(); a burst sent and the timer armed; the lock dropped; then completion handlers
 * and events, which may take locks of their own.
 *
 * Contexts: softirq (packets, the timer), or any but hard interrupts. A run has softirqs
 * disabled and is one RCU read-side section: what it has found lasts to its end. It does one
 * round; what is left goes to a worker (qp_doorbell.c).
 */
#include <linux/interrupt.h>
#include "qp_doorbell.h"
#include "qp_run.h"
#include "qp_tx.h"
#include "rnr.h"
#include "transport.h"

/* The SQ is drained when what was started is acknowledged (wire.md section 5). */
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
	 * An earlier expiry stays: it finds nothing to do and arms this one. What was to be
	 * done in a state that has ended nobody does: armed for a time that is past, again
	 * and again, the timer would not let go of this CPU.
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
 * roe_qp_init_events() - prepare to tell a kernel user of events
 * @qp: zeroed
 */
void roe_qp_init_events(struct roe_qp *qp)
{
	INIT_WORK(&qp->event_work, deliver_late);
}

ROE_EXPORT_FOR_TEST(roe_qp_init_events);

/*
 * A kernel user may be inside of a post, with a lock held that its handler takes, and
 * its handler may sleep. That of processes does neither.
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

/* A new RNR timer: no sooner than its retry has room among those of this CPU. */
static void pace_rnr(struct roe_qp *qp, const struct roe_ctx *ctx)
{
	struct roe_req *req = &qp->req;

	if (!req->rnr_wait || !req->rnr_deadline || req->rnr_deadline == req->rnr_paced)
		return;
	/* a crowd in which each moves a bit now and then is still one */
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

/* Under the lock: engines, transmission, timer; then drop it and deliver. */
static bool finish(struct roe_qp *qp, struct roe_ctx *ctx)
	__releases(&qp->lock)
{
	bool more = false;

	if (!ctx->hold)
		qp->hold.until = 0;
	/* what found no room in the CQ is not acknowledged; but a fatal NAK leaves */
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

/* A memo without an MR says nothing, whatever else is in it. */
static void forget(struct roe_sge_memo *memo)
{
	memo->mr = NULL;
	memo->message = 0;
}

/* Field by field: one by one doorbells come, and most of it is memos. */
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
 * roe_qp_begin() - a run of a QP for anything but packets
 * @qp: any state; kept by the caller
 * @ctx: knows nothing but the time afterwards
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
 * roe_qp_end() - the end of such a run: what is to be sent leaves
 * @qp: as in roe_qp_begin(); the lock is dropped
 * @ctx: what it says is owed to CQs and users is done
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
 * roe_qp_end_round() - the end of such a run, of a caller who does what is left himself
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
 * roe_qp_end_idle() - the end of such a run that has nothing to do, and owes nothing
 * @qp: as in roe_qp_begin(); the lock is dropped. Its timer is armed for what waits
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
 * roe_qp_init_timer() - prepare the timer
 * @qp: not known to anybody yet
 */
void roe_qp_init_timer(struct roe_qp *qp)
{
	hrtimer_setup(&qp->timer, qp_timer, CLOCK_MONOTONIC, HRTIMER_MODE_ABS_SOFT);
}

/**
 * roe_qp_take_timer() - this CPU runs the QP at its next deadline
 * @qp: not locked. Process context
 *
 * One that is about to run it elsewhere does so.
 */
void roe_qp_take_timer(struct roe_qp *qp)
{
	spin_lock_bh(&qp->lock);
	if (roe_qp_has_timer(qp) && hrtimer_try_to_cancel(&qp->timer) > 0)
		hrtimer_start(&qp->timer, ns_to_ktime(qp->timer_at), HRTIMER_MODE_ABS_SOFT);
	spin_unlock_bh(&qp->lock);
}

/**
 * roe_qp_receive() - packets from the network
 * @qp: not locked
 * @pkts: proven, of its transport, in order of arrival; namespace and addresses match
 * @n: at least 1
 *
 * RCU read-side section, softirqs disabled. Answers leave before it returns.
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
	/* with the answer goes what an ACK has made room for */
	if (finish(qp, &ctx))
		roe_qp_defer(qp);
}

/**
 * roe_qp_deliver() - a burst of a QP of the same device
 * @qp: not locked
 * @txb: direct, whose sender's lock is not held; what is lent to it is let go
 *
 * As roe_qp_receive().
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
