// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Two QPs of one device need no wire: a burst of packet descriptors goes from
 * the engines of one straight to the engines of the other, through the same
 * protocol code. Payload is copied once, from the sender's memory to the
 * receiver's.
 *
 * Why that is safe
 *   Locks: the sender's lock is dropped while the receiver's is taken. tx_busy
 *   keeps the order of bursts, as it does on the way to the network.
 *   Memory: descriptors point into MRs of the sender and are used before its RCU
 *   read-side section ends, for which dereg and destroy wait. MRs that can be revoked
 *   sooner are held by the receiver meanwhile (roe_mr_lend()).
 *   WQEs: an inline payload lies in the SQ, any other is the user's again once its
 *   WQE has failed or is flushed. So no WQE fails or is flushed while the QP is lent,
 *   from the first descriptor on: that waits for the end of the burst, and so does
 *   RESET. A WQE that succeeds was acknowledged by the receiver, which does not read its
 *   payload again.
 *   Depth: the receiver answers at once, one level down; there the chain ends,
 *   because the sender has tx_busy. Any deeper chain (QPs that name each other in a
 *   ring, handlers that post; other tasks on this CPU, with PREEMPT_RT) finds no
 *   burst left and goes on in a worker.
 *   Order: a packet on its way through the network has no order with one that goes
 *   directly, which takes no time. Requests therefore change to the direct way only
 *   where they overtake nothing (roe_requester_at_una()), and answers go the way of
 *   their request. A change to the network cannot overtake anything.
 *
 * Nothing is delivered that the network would not deliver: same device, same
 * namespace, both address vectors name each other, and the address is one of this
 * host now.
 */
#include <linux/percpu.h>
#include "direct.h"
#include "qp_run.h"
#include "transport.h"

/* Bursts of a CPU: one for a request, one for the answer to it. */
#define DEPTH	2

static struct roe_txb __percpu *txbs[DEPTH];	/* softirqs disabled while in use */
static DEFINE_PER_CPU(bool [DEPTH], busy);

int roe_direct_init(void)
{
	unsigned int i;

	for (i = 0; i < DEPTH; i++) {
		txbs[i] = alloc_percpu(struct roe_txb);
		if (!txbs[i]) {
			roe_direct_exit();
			return -ENOMEM;
		}
	}
	return 0;
}

void roe_direct_exit(void)
{
	unsigned int i;
	int cpu;

	for (i = 0; i < DEPTH; i++) {
		if (!txbs[i])
			continue;
		for_each_possible_cpu(cpu)
			roe_txb_free(per_cpu_ptr(txbs[i], cpu));
		free_percpu(txbs[i]);
	}
}

/* The checks that receive.c does on a packet, done on the two QPs. */
static bool match(const struct roe_qp *qp, const struct roe_qp *peer)
{
	const struct roe_av *out = &qp->path.av, *back = &peer->path.av;
	/* before the rest of the address vector: pairs with roe_av_set() */
	u64 cookie = smp_load_acquire(&back->net_cookie);

	return peer->dev == qp->dev && peer->type == qp->type && peer->pkey == qp->pkey &&
	       out->net_cookie == cookie &&
	       ipv6_addr_equal(&out->daddr, &back->saddr) &&
	       ipv6_addr_equal(&out->saddr, &back->daddr);
}

static struct roe_qp *find(struct roe_qp *qp)
{
	struct roe_qp *peer;

	/* RC only: its WQEs complete when they were received, those of UC and UD when they leave */
	if (qp->type != IB_QPT_RC || !READ_ONCE(qp->dev->direct))
		return NULL;
	peer = roe_qp_lookup(qp->dest_qpn);
	if (!peer || !match(qp, peer) || !roe_path_local(qp->dev, &qp->path))
		return NULL;
	return peer;
}

/**
 * roe_direct_way() - does this round go directly?
 * @qp: about to send, qp->lock held
 * @ctx: answers_only or requests_only is set if only those take this way
 * @possible: there is a peer on this device
 *
 * If requests and answers take different ways they take turns: an answer may be long, or wait.
 *
 * Return: true for the direct way, false for the network.
 */
bool roe_direct_way(struct roe_qp *qp, struct roe_ctx *ctx, bool possible)
{
	struct roe_resp *resp = &qp->resp;
	struct roe_req *req = &qp->req;
	bool differ;

	if (!possible) {
		req->direct = false;
		resp->direct = false;
	} else if (!req->direct) {
		req->direct = roe_requester_at_una(qp);
	}
	differ = roe_resp_owes(resp) && resp->direct != req->direct;
	ctx->answers_only = differ && !qp->crowded;
	ctx->requests_only = differ && qp->crowded;
	return ctx->answers_only ? resp->direct : req->direct;
}

ROE_EXPORT_FOR_TEST(roe_direct_way);

/**
 * roe_direct_peer() - find the QP to which this round goes directly
 * @qp: about to send, qp->lock held
 * @ctx: answers_only or requests_only is set if only those take this way
 *
 * Softirqs disabled, RCU read-side section, in which the result is valid.
 *
 * Return: the peer, NULL: through the network.
 */
struct roe_qp *roe_direct_peer(struct roe_qp *qp, struct roe_ctx *ctx)
{
	struct roe_qp *peer = find(qp);

	return roe_direct_way(qp, ctx, peer) ? peer : NULL;
}

/* Take a burst of this CPU that is not in use. Returns its number, or DEPTH if there is none. */
static unsigned int take_burst(void)
{
	unsigned int i;

	for (i = 0; i < DEPTH; i++)
		if (!this_cpu_xchg(busy[i], true))
			break;
	return i;
}

static u32 payload(const struct roe_txb *txb)
{
	unsigned int i;
	u32 sum = 0;

	for (i = 0; i < txb->n; i++)
		sum += txb->pkt[i].p.len;
	return sum;
}

/**
 * roe_direct_send() - send one burst to a QP of the same device
 * @qp: its tx_busy was set by this context; qp->lock held, dropped meanwhile
 * @ctx: the time; takes notifications
 * @peer: from roe_direct_peer(); may be @qp itself
 *
 * Return: whether more is to be sent.
 */
bool roe_direct_send(struct roe_qp *qp, struct roe_ctx *ctx, struct roe_qp *peer)
	__must_hold(&qp->lock)
{
	unsigned int nr = take_burst();
	struct roe_txb *txb;
	bool more;

	if (nr == DEPTH)
		return true;
	qp->lent = true;
	txb = this_cpu_ptr(txbs[nr]);
	txb->direct = true;
	txb->fresh = roe_requester_at_una(qp);
	more = roe_qp_emit(qp, ctx, txb);
	if (!txb->n) {
		roe_mr_return(txb);
		goto out;
	}
	roe_mr_let_go(txb);
	roe_qp_count_many(qp, ROE_STAT_DIRECT_PKTS, txb->n);
	roe_qp_count_many(qp, ROE_STAT_DIRECT_BYTES, payload(txb));
	spin_unlock(&qp->lock);
	roe_qp_deliver(peer, txb);
	roe_txb_reset(txb);
	spin_lock(&qp->lock);
out:
	roe_complete_returned(qp, ctx);
	this_cpu_write(busy[nr], false);
	return more;
}
