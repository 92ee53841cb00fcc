// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Transmission: collect a burst of a QP and send it, to the network or directly to a QP of this
 * device.
 *
 * Contexts: the end of every run of a QP (qp_run.c); qp->lock held, softirqs disabled, RCU
 * read-side section. The lock is dropped while a burst leaves: IP and qdiscs take their
 * time, and a QP of this device answers before the send returns. Inside the lock nests txb_lock,
 * for the burst of this CPU: with PREEMPT_RT another task may run on this CPU in between.
 */
#include <linux/percpu.h>
#include <linux/skbuff.h>
#include "ah.h"
#include "backlog.h"
#include "direct.h"
#include "qp_tx.h"
#include "transport.h"

static struct roe_txb __percpu *txbs;	/* softirqs disabled while in use, and txb_lock held */
static DEFINE_PER_CPU(local_lock_t, txb_lock) = INIT_LOCAL_LOCK(txb_lock);

/* Longer than a sent packet waits in a transmit queue of this host. */
#define HOME_PAUSE	(100 * NSEC_PER_MSEC)

int roe_qp_tx_init(void)
{
	txbs = alloc_percpu(struct roe_txb);
	return txbs ? 0 : -ENOMEM;
}

void roe_qp_tx_exit(void)
{
	int cpu;

	for_each_possible_cpu(cpu)
		roe_txb_free(per_cpu_ptr(txbs, cpu));
	free_percpu(txbs);
}

/* Build headers and ICRC. Datagrams take the path of their address handle. */
static void build(struct roe_qp *qp, struct roe_txb *txb, struct sk_buff_head *skbs,
		  struct roe_refused *refused)
{
	struct roe_ah_entry *ah = txb->ah;

	if (txb->n)
		roe_xmit_build(qp->dev, roe_qp_stats(qp), ah ? &ah->path : &qp->path,
			       &qp->unsent, txb, skbs, refused);
	roe_mr_return(txb);
	txb->ah = NULL;
	if (ah)
		roe_ah_put(ah);
}

/*
 * A netdev with several transmit queues picks the queue of the CPU that sends (XPS), and one QP
 * sends from doorbells, workers, the softirq of an ACK and the timer, on different CPUs. Queues
 * are not ordered among themselves, so all skbs of a QP name one CPU, its home, wherever they are
 * sent. The sending CPU becomes the new home once nothing can be overtaken any more: all requests
 * of RC are acknowledged, and of the packets that nobody acknowledges (READ responses, all of UC
 * and UD) none was sent for a while and none waits on this host. ACKs do not count: the newest one
 * covers all others. Compare skb->ooo_okay of TCP.
 */
static void choose_home(struct roe_qp *qp, const struct roe_ctx *ctx)
{
	bool rc = qp->type == IB_QPT_RC;
	u16 here = smp_processor_id() + 1;

	BUILD_BUG_ON(CONFIG_NR_CPUS >= U16_MAX);
	if (qp->home != here && (!rc || qp->req.una == qp->req.psn) &&
	    ctx->now >= qp->home_until && !roe_unsent_waiting(&qp->unsent))
		qp->home = here;
	if (!rc || qp->resp.rsrc_pending || qp->resp.flush_nr)
		qp->home_until = ctx->now + HOME_PAUSE;
}

/* Send a burst through the network. Returns whether more is to be sent. */
static bool send_burst(struct roe_qp *qp, struct roe_ctx *ctx)
	__must_hold(&qp->lock)
{
	struct roe_refused refused = {};
	struct sk_buff_head skbs;
	struct roe_txb *txb;
	bool more, copies;

	__skb_queue_head_init(&skbs);
	local_lock_nested_bh(&txb_lock);
	txb = this_cpu_ptr(txbs);
	txb->later = true;
	txb->apart = qp->type == IB_QPT_RC && READ_ONCE(qp->path.apart);
	choose_home(qp, ctx);
	txb->home = qp->home;
	/* no WQE may fail before build() has read the payload of the burst */
	qp->lent = true;
	more = roe_qp_emit(qp, ctx, txb);
	copies = txb->copies;
	build(qp, txb, &skbs, &refused);
	roe_complete_returned(qp, ctx);
	local_unlock_nested_bh(&txb_lock);
	if (!skb_queue_empty(&skbs)) {
		spin_unlock(&qp->lock);
		roe_xmit_send(roe_qp_stats(qp), &skbs, &refused);
		spin_lock(&qp->lock);
	}
	qp->resp.nak_leaves = false;
	if (refused.requests && !copies)
		roe_requester_local_drop(qp, ctx, refused.request);
	if (refused.responses || refused.acks)
		roe_answer_local_drop(qp, ctx, &refused);
	else if (!qp->resp.stalled)
		qp->resp.refusals = 0;
	return more;
}

/**
 * roe_qp_transmit() - send a burst, if there is one
 * @qp: in a state that may send; qp->lock held, dropped while the burst leaves
 * @ctx: the time; takes notifications and events
 *
 * The owner flag tx_busy keeps bursts in order; a run that finds it set only sets tx_again.
 *
 * Return: whether another round is wanted.
 */
bool roe_qp_transmit(struct roe_qp *qp, struct roe_ctx *ctx)
	__must_hold(&qp->lock)
{
	struct roe_qp *peer;
	bool more;

	/* stopping: a modify waits for a moment between bursts, and must not miss it */
	if (qp->tx_busy || qp->stopping) {
		qp->tx_again = roe_qp_has_work(qp);
		return false;
	}
	/* nothing to send, e.g. after the last ACK of the packets in flight */
	if (!roe_qp_has_work(qp) || roe_backlog_defer(qp, ctx->now))
		return false;
	qp->tx_busy = true;
	qp->tx_again = false;
	peer = roe_direct_peer(qp, ctx);
	if (peer)
		more = roe_direct_send(qp, ctx, peer);
	else
		more = send_burst(qp, ctx);
	qp->tx_busy = false;
	return more || qp->tx_again;
}
