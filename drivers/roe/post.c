// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Posting by kernel users, and the doorbell of user QPs. Kernel users may post
 * from any context, with interrupts off as well; the private queues have locks
 * of their own for that, and the engines are then left to the worker.
 */
#include <linux/interrupt.h>
#include <linux/irqflags.h>
#include "qp_doorbell.h"
#include "relay.h"
#include "transport.h"

static int post_one(struct roe_qp *qp, const struct ib_send_wr *wr)
{
	struct roe_sq *sq = &qp->sq;
	int err;

	if (roe_sq_full(sq))
		return -ENOMEM;
	err = roe_wqe_from_wr(qp, roe_sq_slot(sq, sq->prod), wr);
	if (err)
		return err;
	/* the WQE before its index: pairs with the acquires in requester and completer */
	smp_store_release(&sq->prod, sq->prod + 1);
	return 0;
}

static int post_list(struct roe_qp *qp, const struct ib_send_wr *wr,
		     const struct ib_send_wr **bad)
{
	unsigned long irqflags;
	int err = 0;

	spin_lock_irqsave(&qp->sq.post_lock, irqflags);
	for (; wr; wr = wr->next) {
		err = post_one(qp, wr);
		if (err) {
			*bad = wr;
			break;
		}
	}
	spin_unlock_irqrestore(&qp->sq.post_lock, irqflags);
	return err;
}

static bool may_post(const struct roe_qp *qp)
{
	switch (READ_ONCE(qp->state)) {
	case IB_QPS_RTS:
	case IB_QPS_SQD:
	case IB_QPS_SQE:
	case IB_QPS_ERR:
		return true;
	default:
		return false;
	}
}

/*
 * True where a post must not enable softirqs, because completion handlers may take a lock that the
 * caller holds: with interrupts off. With PREEMPT_RT a held lock leaves interrupts on, but it is an
 * RCU read-side section.
 */
static bool softirqs_stay_off(void)
{
	return irqs_disabled() || in_hardirq() ||
	       (IS_ENABLED(CONFIG_PREEMPT_RT) && !in_softirq() && rcu_preempt_depth());
}

static void kick(struct roe_qp *qp)
{
	if (softirqs_stay_off())
		roe_qp_defer(qp);
	else
		roe_qp_doorbell(qp);
}

/**
 * roe_qp_post_send() - ib_device_ops.post_send
 * @ibqp: the QP
 * @wr: list of a kernel user; for a user QP the ring counts and the list is ignored
 * @bad: first request not posted
 *
 * Any context for kernel QPs, process context for user QPs.
 *
 * Return: 0, -EINVAL, -ENOMEM.
 */
int roe_qp_post_send(struct ib_qp *ibqp, const struct ib_send_wr *wr,
		     const struct ib_send_wr **bad)
{
	struct roe_qp *qp = roe_qp(ibqp);
	int err;

	if (qp->user) {
		if (bad)
			*bad = wr;
		return roe_relay_has(qp) ? 0 : roe_qp_doorbell(qp);
	}
	if (!may_post(qp)) {
		*bad = wr;
		return -EINVAL;
	}
	err = post_list(qp, wr, bad);
	kick(qp);
	return err;
}

/**
 * roe_qp_post_recv() - ib_device_ops.post_recv
 * @ibqp: kernel QP without SRQ; a user's receives are in its ring already
 * @wr: list
 * @bad: first request not posted
 *
 * Any context. The worker runs the QP if it is in ERR, to flush the receives, or if an RNR NAK
 * waits for a receive WQE.
 *
 * Return: 0, -EINVAL, -ENOMEM.
 */
int roe_qp_post_recv(struct ib_qp *ibqp, const struct ib_recv_wr *wr,
		     const struct ib_recv_wr **bad)
{
	struct roe_qp *qp = roe_qp(ibqp);
	int err;

	if (qp->user || qp->srq || READ_ONCE(qp->state) == IB_QPS_RESET) {
		*bad = wr;
		return -EINVAL;
	}
	err = roe_rq_post(&qp->rq, wr, bad);
	/* the WQEs before the state: pairs with the barrier in roe_complete_error() */
	smp_mb();
	/* if rnr_look is being set at this moment and missed here, the timer takes the receive */
	if (READ_ONCE(qp->state) == IB_QPS_ERR || READ_ONCE(qp->resp.rnr_look))
		roe_qp_defer(qp);
	return err;
}
