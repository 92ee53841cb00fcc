// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Who looks at what was posted, and who does what is left of a burst: doorbells, relays,
 * workers. All of them do the same, again and again: copy in what is new and send it, or
 * flush it.
 *
 * A QP has three works here: one goes on where a call has done its share, on any CPU; one
 * sends from tx_cpu (backlog.c); one looks for receives that a process has posted in ERR.
 *
 * Contexts: process, or softirq for the doorbells of kernel users; the works may be queued in
 * any. Nobody who rings holds qp->lock: each round takes it, and softirqs have their turn
 * between rounds.
 */
#include <linux/interrupt.h>
#include <linux/percpu.h>
#include "backlog.h"
#include "qp_doorbell.h"
#include "qp_run.h"
#include "relay.h"
#include "transport.h"

static struct workqueue_struct *qp_wq;		/* QPs of processes */
static struct workqueue_struct *kernel_wq;	/* ... and of the kernel */
static struct workqueue_struct *order_wq;	/* runs on the CPU that it is told */
static DEFINE_PER_CPU(struct roe_pace, paces);

/* Bursts that the worker sends until it is another QP's turn. */
#define WORK_ROUNDS	4
/* Works of one CPU that send from there at once. */
#define ORDER_WORKERS	4

/* How often who takes a QP away looks whether its last ACK has left: some milliseconds. */
#define SETTLE_LOOKS	200

/* A QP may stay in ERR for as long as its process likes: from 20 looks a second to 1 in 3 s. */
#define FLUSH_INTERVAL	msecs_to_jiffies(50)
#define FLUSH_IDLE_MAX	6u

int roe_qp_doorbell_init(void)
{
	/*
	 * Unbound: a busy poller on the doorbell's CPU must not starve it. Nor may it starve
	 * others: gigabytes may be posted at once, on many QPs, so there is no more than one
	 * worker for each CPU, of no higher priority than the process that has posted.
	 */
	qp_wq = alloc_workqueue("roe", WQ_UNBOUND | WQ_MEM_RECLAIM, num_possible_cpus());
	if (!qp_wq)
		return -ENOMEM;
	/* what writes back memory is not to queue behind processes */
	kernel_wq = alloc_workqueue("roe_kernel", WQ_UNBOUND | WQ_HIGHPRI | WQ_MEM_RECLAIM, 0);
	if (!kernel_wq)
		goto err_kernel;
	/* a few, for they may wait for the backlog of their CPU */
	order_wq = alloc_workqueue("roe_order", WQ_PERCPU | WQ_MEM_RECLAIM, ORDER_WORKERS);
	if (!order_wq)
		goto err_order;
	return 0;

err_order:
	destroy_workqueue(kernel_wq);
err_kernel:
	destroy_workqueue(qp_wq);
	return -ENOMEM;
}

void roe_qp_doorbell_exit(void)
{
	destroy_workqueue(order_wq);
	destroy_workqueue(kernel_wq);
	destroy_workqueue(qp_wq);
}

/**
 * roe_qp_defer() - a worker is to look at the QP
 * @qp: any state but on its way out; kept by the caller
 *
 * For who must not run it now: posts with interrupts off, which must not enable softirqs,
 * and whoever holds its lock; or has done his share. Any context.
 */
void roe_qp_defer(struct roe_qp *qp)
{
	queue_work(qp->user ? qp_wq : kernel_wq, &qp->work);
}

/**
 * roe_qp_defer_to() - the worker on one CPU is to send
 * @qp: as for roe_qp_defer(); UC or UD
 * @cpu: tx_cpu of the QP
 */
void roe_qp_defer_to(struct roe_qp *qp, int cpu)
{
	queue_work_on(cpu, order_wq, &qp->order_work);
}

/**
 * roe_qp_hand_over() - another CPU is to keep the time of a QP
 * @qp: as for roe_qp_defer()
 * @cpu: which; until its worker runs the timer stays where it is
 *
 * That of UC and UD stays: what they have sent last does, and the next burst has to wait for it.
 */
void roe_qp_hand_over(struct roe_qp *qp, int cpu)
{
	if (qp->type == IB_QPT_RC && READ_ONCE(qp->timer_at))
		queue_work_on(cpu, order_wq, &qp->order_work);
}

/**
 * roe_qp_flush_later() - look again for receives that a process has posted
 * @qp: in ERR, with a ring; qp->lock held
 */
void roe_qp_flush_later(struct roe_qp *qp)
{
	queue_delayed_work(qp_wq, &qp->flush_work, FLUSH_INTERVAL << READ_ONCE(qp->flush_idle));
}

/*
 * Copy in what is new: how many did a process post, the last of which takes one packet? @more:
 * and there is more than is copied at a time.
 */
static u32 pull(struct roe_qp *qp, bool *more)
{
	u32 from = qp->sq.prod, n;

	*more = roe_wqe_pull(qp);
	n = qp->sq.prod - from;
	if (!qp->user || *more || !n || roe_sq_slot(&qp->sq, qp->sq.prod - 1)->length > qp->mtu)
		return 0;
	return n;
}

/* @n small messages of a user, just posted: do they wait for company? Softirqs disabled. */
static bool hold(struct roe_qp *qp, const struct roe_ctx *ctx, u32 n)
{
	struct roe_pace *pace = this_cpu_ptr(&paces);
	bool behind = roe_pace_doorbell(pace, qp, ctx->now);

	if (roe_qp_is_ud(qp) || !READ_ONCE(qp->dev->hold) ||
	    !roe_hold_message(qp, ctx, pace, behind))
		return false;
	roe_stat_add(qp->dev, ROE_STAT_HELD, n);
	roe_relay_held(ctx->now);
	return true;
}

/*
 * A doorbell has sent small messages; what was sent to this host has been received by
 * now. Are there more of them than one processor sends?
 */
static void learn(struct roe_qp *qp, u64 begin)
{
	u64 end = ktime_get_ns();

	roe_pace_sent(raw_cpu_ptr(&paces), begin, end);
	if (READ_ONCE(qp->dev->relay))
		roe_relay_notice(qp, begin, end);
}

/*
 * Copy in what is new, send; ERR and SQE flush, before RTS it is refused. @rung: by
 * a doorbell just now.
 */
static int ring_doorbell(struct roe_qp *qp, bool *more, bool rung)
{
	struct roe_ctx ctx roe_uninitialized;
	bool left = false, waits;
	u32 small = 0;
	int err = 0;

	roe_qp_begin(qp, &ctx);
	waits = qp->hold.until;
	switch (qp->state) {
	case IB_QPS_RESET:
	case IB_QPS_INIT:
	case IB_QPS_RTR:
		/*
		 * The application is told that the post failed, so it must not run later. Who
		 * comes without a doorbell leaves alone what is being posted to a QP in RTS.
		 */
		if (qp->sq.ring && rung)
			roe_ring_release(qp->sq.ring, roe_ring_pending(qp->sq.ring));
		err = -EINVAL;
		break;
	case IB_QPS_SQE:
		roe_complete_sqe(qp, &ctx);
		break;
	case IB_QPS_ERR:
		roe_complete_flush(qp, &ctx);
		break;
	default:
		if (qp->resp.rnr_look)
			roe_responder_look(qp, &ctx);
		small = pull(qp, &left);
		ctx.hold = small && rung && hold(qp, &ctx, small);
		break;
	}
	/* what has joined those that wait changes nothing: their clock runs */
	if (ctx.hold && waits)
		roe_qp_end_idle(qp);
	else
		left |= roe_qp_end_round(qp, &ctx);
	*more = left;
	/* from here on our callers keep the QP: a verb, a work or relay that destroy waits for */
	roe_backlog_enable_softirqs(qp);
	if (small && rung && !ctx.hold)
		learn(qp, ctx.now);
	return err;
}

/* @relay: has preemption off, so it leaves the rest to a worker when somebody else is to run. */
static int ring_rounds(struct roe_qp *qp, unsigned int budget, bool relay)
{
	bool more = false, rung = !relay;
	int err;

	do {
		err = ring_doorbell(qp, &more, rung);
		rung = false;
	} while (!err && more && --budget && !(relay && need_resched()));
	if (more)
		roe_qp_defer(qp);
	return err;
}

/**
 * roe_qp_doorbell() - new send WQEs are there
 * @qp: any state
 *
 * Softirqs are enabled between rounds if they were: what a round sent to this
 * host is received there. Process context or softirq.
 *
 * Return: 0, -EINVAL before RTS.
 */
int roe_qp_doorbell(struct roe_qp *qp)
{
	return ring_rounds(qp, in_softirq() ? 1 : ROE_QP_ROUNDS, false);
}

/**
 * roe_qp_poll() - look for new send WQEs that no doorbell was rung for
 * @qp: of a relay. Process context
 */
void roe_qp_poll(struct roe_qp *qp)
{
	ring_rounds(qp, ROE_QP_ROUNDS, true);
}

static void send_rest(struct roe_qp *qp, bool in_order)
{
	unsigned int budget = WORK_ROUNDS;
	bool more;

	do {
		/* in vain: one burst for all the waiting */
		if (in_order && !roe_backlog_wait())
			budget = 1;
		/* nobody posts here; a QP that refuses posts has answers to send, in RTR */
		ring_doorbell(qp, &more, false);
		cond_resched();
	} while (more && --budget);
	/* behind the others: there are only so many workers at once */
	if (more)
		roe_qp_defer(qp);
}

static void qp_work(struct work_struct *work)
{
	send_rest(container_of(work, struct roe_qp, work), false);
}

/*
 * The same on tx_cpu. An item of its own: one that is on two workqueues may run twice at
 * once, and who cancels it waits for the last of them only. And what is executing is
 * queued where it executes, whatever CPU is asked for: if that is not tx_cpu any more, the
 * other one asks from outside.
 */
static void qp_order_work(struct work_struct *work)
{
	struct roe_qp *qp = container_of(work, struct roe_qp, order_work);

	if (qp->type == IB_QPT_RC)
		roe_qp_take_timer(qp);
	else if (roe_backlog_is_elsewhere(qp))
		roe_qp_defer(qp);
	else
		send_rest(qp, true);
}

/* There is no doorbell for receives: a user's ring in ERR is looked at now and then. */
static void flush_late(struct work_struct *work)
{
	struct roe_qp *qp = container_of(to_delayed_work(work), struct roe_qp, flush_work);
	bool more;

	/* the flush of this look sets it back if there was anything, as a new ERR does */
	spin_lock_bh(&qp->lock);
	WRITE_ONCE(qp->flush_idle, min(qp->flush_idle + 1, FLUSH_IDLE_MAX));
	spin_unlock_bh(&qp->lock);
	/* also one that refuses posts, by now in RTR: see send_rest() */
	ring_doorbell(qp, &more, false);
	if (more)
		roe_qp_defer(qp);
}

/**
 * roe_qp_init_works() - prepare what workers do for it
 * @qp: not known to anybody yet
 */
void roe_qp_init_works(struct roe_qp *qp)
{
	INIT_WORK(&qp->work, qp_work);
	INIT_WORK(&qp->order_work, qp_order_work);
	INIT_DELAYED_WORK(&qp->flush_work, flush_late);
}

/* Without the lock it is seen cleared while a worker is at the next part. */
static bool flush_unfinished(struct roe_qp *qp)
{
	bool more;

	spin_lock_bh(&qp->lock);
	more = roe_qp_flushes(qp);
	spin_unlock_bh(&qp->lock);
	return more;
}

/**
 * roe_qp_flushed() - wait until what was posted is flushed
 * @qp: in any state; nothing to do but in ERR and SQE
 *
 * A process may post as fast as that: what it had posted before is flushed at least.
 * Process context, may sleep.
 */
void roe_qp_flushed(struct roe_qp *qp)
{
	u32 n = max(qp->sq.mask, qp->rq.mask) / ROE_WQE_BATCH + 1;
	bool more = flush_unfinished(qp);

	for (; more && n; n--) {
		if (ring_doorbell(qp, &more, false))
			break;
		cond_resched();
	}
	/* what others left to the one who was sending, too */
	if (more)
		roe_qp_defer(qp);
}

/* What was posted is copied in, so that it needs no table that a process names things by. */
static void take_posted(struct roe_qp *qp)
{
	u32 n = qp->sq.mask / ROE_WQE_BATCH + 1, from;
	bool more = true, taken = false;

	/* a process may post as fast as that: see roe_qp_flushed() */
	for (; more && n; n--) {
		spin_lock_bh(&qp->lock);
		/* address handles are found under RCU */
		rcu_read_lock();
		from = qp->sq.prod;
		more = (qp->state == IB_QPS_RTS || qp->state == IB_QPS_SQD) && roe_wqe_pull(qp);
		taken |= qp->sq.prod != from;
		rcu_read_unlock();
		spin_unlock_bh(&qp->lock);
		cond_resched();
	}
	/* whose doorbell or relay it was may find nothing to do now */
	if (taken)
		roe_qp_defer(qp);
}

/**
 * roe_qp_take_posted() - all datagrams that a process has posted have their address handle
 * @ibpd: of the handle, and of the QPs
 *
 * A doorbell copies in a part of what was posted, or leaves it to a relay; the post has
 * succeeded, so the process may destroy the handle. A process that ends has its handles
 * destroyed one by one, each of them with a look at all QPs: so those that have nothing cost
 * no lock. Process context, may sleep.
 */
void roe_qp_take_posted(struct ib_pd *ibpd)
{
	struct roe_pd *pd = container_of(ibpd, struct roe_pd, ib);
	struct roe_qp *qp;

	mutex_lock(&pd->lock);
	list_for_each_entry(qp, &pd->uds, in_pd) {
		/* pairs with roe_wqe_pull(): what is behind it has its handle */
		if (roe_ring_posted(qp->sq.ring) != smp_load_acquire(&qp->sq.pulled))
			take_posted(qp);
		cond_resched();
	}
	mutex_unlock(&pd->lock);
}

/* What is owed leaves now. Returns whether somebody else was sending, who has yet to do so. */
static bool settle_owed(struct roe_qp *qp)
{
	struct roe_ctx ctx roe_uninitialized;
	bool left;

	/* the lock in any case: the completion of that message may be seen before its run ends */
	roe_qp_begin(qp, &ctx);
	qp->resp.ack_after = 0;
	qp->resp.echo.until = 0;
	qp->resp.refused_until = 0;
	left = qp->tx_busy && qp->resp.ack_due;
	roe_qp_end(qp, &ctx);
	return left;
}

/**
 * roe_qp_settle() - before the QP changes: what was posted leaves, and what is owed
 * @qp: in any state
 *
 * A peer whose last message got no ACK would send it again to nobody. Process context,
 * may sleep.
 */
void roe_qp_settle(struct roe_qp *qp)
{
	unsigned int looks = SETTLE_LOOKS;

	roe_qp_flushed(qp);
	roe_relay_part(qp);
	/* nobody would answer what the peer is sending again */
	if (READ_ONCE(qp->resp.ack_after))
		usleep_range(ROE_AGAIN_US, 2 * ROE_AGAIN_US);
	/* one who sends burst after burst sends it with the next; he may wait for this processor */
	while (settle_owed(qp) && --looks)
		usleep_range(10, 20);
}
