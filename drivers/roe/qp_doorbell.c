// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Processing of posted WQEs, and of bursts that a call has left over: by doorbells, relays and
 * workers. All of them run rounds: copy new WQEs in and send them, or flush them.
 *
 * A QP has three works here: one continues, on any CPU, where a call has done its share; one
 * sends from tx_cpu (backlog.c); one looks for receives that a process has posted in ERR.
 *
 * Contexts: process, or softirq for the doorbells of kernel users; the works may be queued in
 * any. The caller of a doorbell does not hold qp->lock: each round takes it, and softirqs run
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

/* Bursts that the worker sends before it is another QP's turn. */
#define WORK_ROUNDS	4
/* Works that send from one CPU at the same time. */
#define ORDER_WORKERS	4

/* Modify and destroy look this often whether the last ACK has left: for some milliseconds. */
#define SETTLE_LOOKS	200

/* A QP may stay in ERR as long as its process likes, so from 20 looks a second down to 1 in 3 s. */
#define FLUSH_INTERVAL	msecs_to_jiffies(50)
#define FLUSH_IDLE_MAX	6u

int roe_qp_doorbell_init(void)
{
	/*
	 * Unbound: a busy poller on the doorbell's CPU must not starve the worker. Nor may the
	 * worker starve others: a process may post gigabytes at once, on many QPs, so there is at
	 * most one worker per CPU, with no higher priority than the process that has posted.
	 */
	qp_wq = alloc_workqueue("roe", WQ_UNBOUND | WQ_MEM_RECLAIM, num_possible_cpus());
	if (!qp_wq)
		return -ENOMEM;
	/* kernel users that write back memory must not queue behind processes */
	kernel_wq = alloc_workqueue("roe_kernel", WQ_UNBOUND | WQ_HIGHPRI | WQ_MEM_RECLAIM, 0);
	if (!kernel_wq)
		goto err_kernel;
	/* a few, because they may sleep until the backlog of their CPU is shorter */
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
 * roe_qp_defer() - have a worker run the QP
 * @qp: any state, but not being destroyed; kept by the caller
 *
 * For callers that must not run the QP now: posts with interrupts off, which must not enable
 * softirqs, and holders of qp->lock; and for callers that have done their share. Any context.
 */
void roe_qp_defer(struct roe_qp *qp)
{
	queue_work(qp->user ? qp_wq : kernel_wq, &qp->work);
}

/**
 * roe_qp_defer_to() - have the worker on one CPU send
 * @qp: as for roe_qp_defer(); UC or UD
 * @cpu: tx_cpu of the QP
 */
void roe_qp_defer_to(struct roe_qp *qp, int cpu)
{
	queue_work_on(cpu, order_wq, &qp->order_work);
}

/**
 * roe_qp_hand_over() - move the timer of an RC QP to another CPU
 * @qp: as for roe_qp_defer()
 * @cpu: the other CPU; until its worker runs the timer stays where it is
 *
 * The timer of UC and UD stays: so do the packets that they have sent last, in the backlog of this
 * CPU, and the next burst has to wait for these.
 */
void roe_qp_hand_over(struct roe_qp *qp, int cpu)
{
	if (qp->type == IB_QPT_RC && READ_ONCE(qp->timer_at))
		queue_work_on(cpu, order_wq, &qp->order_work);
}

/**
 * roe_qp_flush_later() - look again, later, for receives that a process has posted
 * @qp: in ERR, with a ring; qp->lock held
 */
void roe_qp_flush_later(struct roe_qp *qp)
{
	queue_delayed_work(qp_wq, &qp->flush_work, FLUSH_INTERVAL << READ_ONCE(qp->flush_idle));
}

/*
 * Copy new WQEs in. Returns how many a process has posted, if the last of them takes one packet and
 * all were copied, otherwise 0. @more: not all were copied.
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

/* Do @n small messages, just posted by a process, wait for later ones? Softirqs disabled. */
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
 * A doorbell has sent small messages; those for this host have been received by now. Note how long
 * that took, to find out whether the process posts more of them than one processor can send.
 */
static void learn(struct roe_qp *qp, u64 begin)
{
	u64 end = ktime_get_ns();

	roe_pace_sent(raw_cpu_ptr(&paces), begin, end);
	if (READ_ONCE(qp->dev->relay))
		roe_relay_notice(qp, begin, end);
}

/*
 * One round: copy new WQEs in and send them; in ERR and SQE flush them; before RTS refuse them.
 * @rung: this is the first round of a doorbell.
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
		 * The application is told that the post failed, so the WQEs must not run later. Who
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
	/* messages were waiting already: their deadline is armed, so there is nothing to do */
	if (ctx.hold && waits)
		roe_qp_end_idle(qp);
	else
		left |= roe_qp_end_round(qp, &ctx);
	*more = left;
	/* the caller keeps the QP from here on: a verb, a work or relay that destroy waits for */
	roe_backlog_enable_softirqs(qp);
	if (small && rung && !ctx.hold)
		learn(qp, ctx.now);
	return err;
}

/* @relay: preemption is off, so the rest is left to a worker when another task wants to run. */
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
 * roe_qp_doorbell() - process new send WQEs
 * @qp: any state
 *
 * If softirqs were enabled they are enabled between rounds: there packets that a round has sent
 * to this host are received. Process context or softirq.
 *
 * Return: 0, -EINVAL before RTS.
 */
int roe_qp_doorbell(struct roe_qp *qp)
{
	return ring_rounds(qp, in_softirq() ? 1 : ROE_QP_ROUNDS, false);
}

/**
 * roe_qp_poll() - process new send WQEs without a doorbell
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
		/* the backlog is still long: send one burst only */
		if (in_order && !roe_backlog_wait())
			budget = 1;
		/* -EINVAL does not matter: a QP in RTR refuses posts, but may owe answers */
		ring_doorbell(qp, &more, false);
		cond_resched();
	} while (more && --budget);
	/* queue behind other QPs: the number of workers is limited */
	if (more)
		roe_qp_defer(qp);
}

static void qp_work(struct work_struct *work)
{
	send_rest(container_of(work, struct roe_qp, work), false);
}

/*
 * The same on tx_cpu. It is a work item of its own: an item on two workqueues may run twice at the
 * same time, and cancelling it waits for the last workqueue only. And an item that is queued while
 * it executes runs on the same CPU again, whatever CPU was asked for: if that is not tx_cpu any
 * more, qp->work asks for tx_cpu, from outside of this item.
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

/* There is no doorbell for receives, so in ERR the ring of a process is polled at intervals. */
static void flush_late(struct work_struct *work)
{
	struct roe_qp *qp = container_of(to_delayed_work(work), struct roe_qp, flush_work);
	bool more;

	/* the flush below resets flush_idle if there was a receive; so does a new ERR */
	spin_lock_bh(&qp->lock);
	WRITE_ONCE(qp->flush_idle, min(qp->flush_idle + 1, FLUSH_IDLE_MAX));
	spin_unlock_bh(&qp->lock);
	/* the QP may have come to RTR by now, where it refuses posts: see send_rest() */
	ring_doorbell(qp, &more, false);
	if (more)
		roe_qp_defer(qp);
}

/**
 * roe_qp_init_works() - initialise the works of a QP
 * @qp: not published yet
 */
void roe_qp_init_works(struct roe_qp *qp)
{
	INIT_WORK(&qp->work, qp_work);
	INIT_WORK(&qp->order_work, qp_order_work);
	INIT_DELAYED_WORK(&qp->flush_work, flush_late);
}

/* Take the lock: without it flush_more may be seen cleared while a worker flushes the next part. */
static bool flush_unfinished(struct roe_qp *qp)
{
	bool more;

	spin_lock_bh(&qp->lock);
	more = roe_qp_flushes(qp);
	spin_unlock_bh(&qp->lock);
	return more;
}

/**
 * roe_qp_flushed() - flush all posted WQEs before returning
 * @qp: in any state; nothing to do except in ERR and SQE
 *
 * A process may post as fast as WQEs are flushed, so the number of rounds is limited: at least the
 * WQEs posted before this call are flushed. Process context, may sleep.
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
	/* also for rounds that others have left to the context that was sending */
	if (more)
		roe_qp_defer(qp);
}

/* Copy posted WQEs in: then they hold their address handles and need no lookup by number. */
static void take_posted(struct roe_qp *qp)
{
	u32 n = qp->sq.mask / ROE_WQE_BATCH + 1, from;
	bool more = true, taken = false;

	/* a process may post as fast as WQEs are copied: see roe_qp_flushed() */
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
	/* the doorbell or relay for these WQEs may find nothing new in the ring now */
	if (taken)
		roe_qp_defer(qp);
}

/**
 * roe_qp_take_posted() - give all posted datagrams a reference to their address handle
 * @ibpd: PD of the address handle that is destroyed, and of the QPs
 *
 * A doorbell copies in only a part of the posted WQEs, or leaves them to a relay; but the post has
 * succeeded, so the process may destroy the handle. When a process ends its handles are destroyed
 * one by one, each with a look at all UD QPs of the PD: so a QP with nothing to copy costs no lock.
 * Process context, may sleep.
 */
void roe_qp_take_posted(struct ib_pd *ibpd)
{
	struct roe_pd *pd = container_of(ibpd, struct roe_pd, ib);
	struct roe_qp *qp;

	mutex_lock(&pd->lock);
	list_for_each_entry(qp, &pd->uds, in_pd) {
		/* pairs with roe_wqe_pull(): WQEs before this index have their handle */
		if (roe_ring_posted(qp->sq.ring) != smp_load_acquire(&qp->sq.pulled))
			take_posted(qp);
		cond_resched();
	}
	mutex_unlock(&pd->lock);
}

/*
 * Have owed answers leave now. Returns whether another context is sending: then an owed ACK or NAK
 * is still to leave.
 */
static bool settle_owed(struct roe_qp *qp)
{
	struct roe_ctx ctx roe_uninitialized;
	bool left;

	/* always take the lock: a completion may be seen before the run that owes its ACK ends */
	roe_qp_begin(qp, &ctx);
	qp->resp.ack_after = 0;
	qp->resp.echo.until = 0;
	qp->resp.refused_until = 0;
	left = qp->tx_busy && qp->resp.ack_due;
	roe_qp_end(qp, &ctx);
	return left;
}

/**
 * roe_qp_settle() - send posted WQEs and owed answers before the QP changes
 * @qp: in any state
 *
 * Without its ACK a peer would send its last message again, and find no QP. Process context, may
 * sleep.
 */
void roe_qp_settle(struct roe_qp *qp)
{
	unsigned int looks = SETTLE_LOOKS;

	roe_qp_flushed(qp);
	roe_relay_part(qp);
	/* an ACK waits for packets that the peer sends again: later nobody would answer these */
	if (READ_ONCE(qp->resp.ack_after))
		usleep_range(ROE_AGAIN_US, 2 * ROE_AGAIN_US);
	/* a context that sends bursts sends it with the next one; it may need this CPU: sleep */
	while (settle_owed(qp) && --looks)
		usleep_range(10, 20);
}
