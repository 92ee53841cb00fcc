// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Queue pairs: numbers, birth, the frame of every run, death.
 *
 * Why destroy is safe, step by step:
 *   0. What is owed has left; no relay looks at the SQ any more, and no doorbell comes
 *      that would ask for one.
 *   1. The QPN is erased: no new receive finds the QP.
 *   2. state = RESET under the lock: who still holds it from a lookup, the
 *      timer or the worker does nothing with it, arms and queues nothing.
 *   3. A grace period: every such user was in an RCU read-side section and has
 *      left it; so tx_busy is clear and no packet of ours is being built.
 *   4. Timer and works are cancelled; they could only be running out of 2. Workers that
 *      bring pages look for a QP by number and id; what none has begun with goes.
 *   5. What is left in CQs of kernel users goes: it points to the QP. Handlers that are
 *      still to be called are called: the last QP has gone when a CQ goes.
 *   6. CQs, PD and the address vector are ours until here, then freed.
 */
#include <linux/delay.h>
#include <linux/interrupt.h>
#include <linux/netdevice.h>
#include <linux/percpu.h>
#include <linux/random.h>
#include <linux/rculist.h>
#include <linux/slab.h>
#include <linux/vmalloc.h>
#include "ah.h"
#include "direct.h"
#include "early.h"
#include "post.h"
#include "qp_state.h"
#include "relay.h"
#include "rnr.h"
#include "trace.h"
#include "transport.h"

/* 0 and 1 are the management QPs, 0xffffff is multicast. */
#define QPN_LIMIT	XA_LIMIT(16, ROE_QPN_MCAST - 1)

/*
 * One number space for all devices: a QPN alone finds its QP. Numbers are given out in
 * turn from a large space, so as a tree they would be a deep one; as a hash their low
 * bits spread them evenly.
 */
#define QPN_BUCKETS	BIT(13)
static DEFINE_XARRAY_FLAGS(qpns, XA_FLAGS_ALLOC);	/* numbers in use */
static u32 qpn_next;
static struct hlist_head buckets[QPN_BUCKETS];		/* RCU; bucket_lock on change */
static DEFINE_SPINLOCK(bucket_lock);
static struct workqueue_struct *qp_wq;
static struct workqueue_struct *order_wq;	/* runs on the CPU that it is told */
static struct roe_txb __percpu *txbs;	/* softirqs disabled while in use, and txb_lock held */
static DEFINE_PER_CPU(local_lock_t, txb_lock) = INIT_LOCAL_LOCK(txb_lock);
static DEFINE_PER_CPU(struct roe_pace, paces);

/* Bursts that one call sends; the worker does the rest. */
#define ROUNDS	4
/* ... and the worker, until it is another QP's turn. */
#define WORK_ROUNDS	4
/* The one on tx_cpu lets others run before a burst if so much waits there: 4 to 8 ms. */
#define BACKLOG_LONG	256
#define BACKLOG_WAITS	16

/* Longer than what has been sent waits in a transmit queue of this host. */
#define HOME_PAUSE	(100 * NSEC_PER_MSEC)

/* Packets that go one by one after a row that cannot be taken at once. */
#define ROW_RETRY	8

/* A QP may stay in ERR for as long as its process likes: from 20 looks a second to 1 in 3 s. */
#define FLUSH_INTERVAL	msecs_to_jiffies(50)
#define FLUSH_IDLE_MAX	6u

int roe_qp_init(void)
{
	/*
	 * Unbound: a busy poller on the doorbell's CPU must not starve it. Nor may it starve
	 * others: gigabytes may be posted at once, on many QPs, so there is no more than one
	 * worker for each CPU, of no higher priority than the process that has posted.
	 */
	qp_wq = alloc_workqueue("roe", WQ_UNBOUND | WQ_MEM_RECLAIM, num_possible_cpus());
	if (!qp_wq)
		return -ENOMEM;
	order_wq = alloc_workqueue("roe_order", WQ_PERCPU | WQ_MEM_RECLAIM, 1);
	if (!order_wq)
		goto err_order;
	txbs = alloc_percpu(struct roe_txb);
	if (!txbs)
		goto err_txbs;
	/* peers remember QPNs of connections for a while, also those of a module before this */
	qpn_next = get_random_u32() & ROE_QPN_MCAST;
	return 0;

err_txbs:
	destroy_workqueue(order_wq);
err_order:
	destroy_workqueue(qp_wq);
	return -ENOMEM;
}

void roe_qp_exit(void)
{
	int cpu;

	destroy_workqueue(order_wq);
	destroy_workqueue(qp_wq);
	for_each_possible_cpu(cpu)
		roe_txb_free(per_cpu_ptr(txbs, cpu));
	free_percpu(txbs);
	xa_destroy(&qpns);
}

static struct hlist_head *bucket_of(u32 qpn)
{
	return &buckets[qpn % QPN_BUCKETS];
}

/**
 * roe_qp_lookup() - find a QP by number
 * @qpn: not that of QP1
 *
 * Caller in an RCU read-side section, in which the QP stays valid, though it may die:
 * look at its state under the lock.
 *
 * Return: the QP or NULL.
 */
struct roe_qp *roe_qp_lookup(u32 qpn)
{
	struct roe_qp *qp;

	hlist_for_each_entry_rcu(qp, bucket_of(qpn), by_qpn)
		if (qp->qpn == qpn)
			return qp;
	return NULL;
}

/* --- one run --- */

static bool has_requests(const struct roe_qp *qp)
{
	/* pairs with the release in post_one() */
	return qp->sq.next != smp_load_acquire(&qp->sq.prod);
}

/* Returns how many; @more: there are more. */
static unsigned int emit_requests(struct roe_qp *qp, struct roe_ctx *ctx, struct roe_txb *txb,
				  bool *more)
{
	unsigned int n = txb->n;

	*more |= roe_requester_emit(qp, ctx, txb);
	return txb->n - n;
}

/*
 * The ACK that waited for the requests in this burst. It may not go with them if they have
 * changed to another way: there it could overtake the responses before it.
 */
static bool emit_late_ack(struct roe_qp *qp, struct roe_ctx *ctx, struct roe_txb *txb)
{
	if (qp->resp.direct != txb->direct)
		return roe_resp_owes(&qp->resp);
	return roe_responder_emit(qp, ctx, txb);
}

static bool emit(struct roe_qp *qp, struct roe_ctx *ctx, struct roe_txb *txb)
{
	bool more = false, waits = qp->resp.echo.until;
	unsigned int requests = 0;

	if (roe_qp_is_ud(qp))
		return roe_ud_emit(qp, ctx, txb);
	qp->resp.burst++;
	if (unlikely(qp->resp.cnp_due))
		roe_cc_emit(qp, txb);
	/* responses have their order, and requests; neither has to wait for the other */
	if (qp->crowded && !ctx->answers_only)
		requests = emit_requests(qp, ctx, txb, &more);
	if (!ctx->requests_only)
		more |= roe_responder_emit(qp, ctx, txb);
	/* the requests come next, also where the answers wait: for a page, or for their time */
	if (ctx->answers_only) {
		qp->crowded = has_requests(qp);
		return qp->crowded || !qp->resp.stalled;
	}
	qp->crowded = !qp->crowded && !roe_txb_room(txb);
	requests += emit_requests(qp, ctx, txb, &more);
	if (requests)
		roe_echo_answer(qp, ctx, requests);
	if (ctx->requests_only)
		return more || (roe_resp_owes(&qp->resp) && !qp->resp.stalled);
	if (requests && waits)
		more |= emit_late_ack(qp, ctx, txb);
	return more;
}

/**
 * roe_qp_emit() - fill a burst: responses, requests, the ACK that waited for them
 * @qp: qp->lock held
 * @ctx: the time; takes notifications
 * @txb: empty
 *
 * Return: true if there is more to send than fits, or to do than one run does; then the
 * burst may be empty.
 */
bool roe_qp_emit(struct roe_qp *qp, struct roe_ctx *ctx, struct roe_txb *txb)
{
	unsigned int i;
	bool more;

	roe_qp_assert_locked(qp);
	more = emit(qp, ctx, txb);
	if (trace_roe_packet_out_enabled())
		for (i = 0; i < txb->n; i++)
			trace_roe_packet_out(qp, &txb->pkt[i].p, txb->direct);
	return more;
}

ROE_EXPORT_FOR_TEST(roe_qp_emit);

static bool may_receive(const struct roe_qp *qp)
{
	return qp->state == IB_QPS_RTR || qp->state == IB_QPS_RTS ||
	       qp->state == IB_QPS_SQD || qp->state == IB_QPS_SQE;
}

/**
 * roe_qp_dispatch() - give one proven packet to its engine
 * @qp: qp->lock held
 * @ctx: takes notifications and events
 * @pkt: of this QP's transport
 */
void roe_qp_dispatch(struct roe_qp *qp, struct roe_ctx *ctx, const struct roe_rx_pkt *pkt)
{
	u32 flags = roe_opcode(pkt->p.opcode)->flags;

	roe_qp_assert_locked(qp);
	trace_roe_packet_in(qp, &pkt->p, ctx->direct);
	if (!may_receive(qp))
		return;
	if (unlikely(pkt->ce))
		roe_cc_marked(qp, ctx, &pkt->p);
	if (roe_qp_is_ud(qp)) {
		roe_ud_receive(qp, ctx, pkt);
		return;
	}
	if (qp->state == IB_QPS_RTR && !qp->comm_est && !(flags & ROE_F_CNP)) {
		qp->comm_est = true;
		ctx->events |= BIT(IB_EVENT_COMM_EST);
	}
	if (flags & ROE_F_RESPONSE)
		roe_completer_receive(qp, ctx, pkt);
	else if (unlikely(flags & ROE_F_CNP))
		roe_cc_notified(qp, ctx, &pkt->p);
	else
		roe_responder_receive(qp, ctx, pkt);
}

ROE_EXPORT_FOR_TEST(roe_qp_dispatch);

/* Does this run know of memory that lasts, where a packet with @flags may go? */
static bool knows_target(const struct roe_ctx *ctx, u32 flags)
{
	if (flags & ROE_F_RESPONSE)
		return ctx->brought.mr;
	return flags & ROE_F_SEND ? !!ctx->received.mr : !!ctx->target;
}

/*
 * How many packets from @row->first on are like it: from the middle of one message, each
 * of a path MTU and with the next PSN. Those an engine may take at once. 0: it goes alone.
 */
static unsigned int row_length(const struct roe_qp *qp, const struct roe_ctx *ctx,
			       const struct roe_rx_row *row)
{
	const struct roe_pkt *first = &row->first->p;
	u32 flags = roe_opcode(first->opcode)->flags;
	unsigned int i;

	if (!(flags & ROE_F_MIDDLE) || qp->type != IB_QPT_RC || qp->state != IB_QPS_RTS ||
	    !knows_target(ctx, flags) || trace_roe_packet_in_enabled())
		return 0;
	for (i = 0; i < row->n; i++) {
		const struct roe_rx_pkt *rx = roe_rx_at(row, i);

		if (rx->p.opcode != first->opcode || rx->p.len != qp->mtu || rx->ce ||
		    rx->p.psn != roe_psn_add(first->psn, i))
			break;
	}
	return i;
}

/* Cuts @row to what was taken; false: nothing was. */
static bool take_row(struct roe_qp *qp, struct roe_ctx *ctx, struct roe_rx_row *row)
{
	if (roe_opcode(row->first->p.opcode)->flags & ROE_F_RESPONSE)
		return roe_completer_row(qp, ctx, row);
	return roe_responder_row(qp, ctx, row);
}

/**
 * roe_qp_dispatch_row() - give proven packets to their engines, in order
 * @qp: qp->lock held
 * @ctx: takes notifications and events
 * @row: of this QP's transport
 *
 * The result is that of roe_qp_dispatch() for one after the other. What they complete is
 * posted together, but before anything leaves: who has the ACK of a message may rely on its
 * completion being there.
 */
void roe_qp_dispatch_row(struct roe_qp *qp, struct roe_ctx *ctx, const struct roe_rx_row *row)
{
	struct roe_rx_row part = *row;
	unsigned int i = 0, alone = 0;

	ctx->collect = row->n > 1;
	while (i < row->n) {
		part.first = roe_rx_at(row, i);
		part.n = row->n - i;
		if (part.n > 1)
			part.n = alone ? 1 : row_length(qp, ctx, &part);
		if (part.n > 1 && take_row(qp, ctx, &part)) {
			i += part.n;
			continue;
		}
		/* odd pieces of a list, for instance: the next may be like it */
		if (part.n > 1)
			alone = ROW_RETRY;
		else if (alone)
			alone--;
		roe_qp_dispatch(qp, ctx, part.first);
		i++;
	}
	roe_complete_collected(qp, ctx);
	ctx->collect = false;
}

ROE_EXPORT_FOR_TEST(roe_qp_dispatch_row);

/* Headers and ICRC. The way of datagrams is that of their address handle. */
static void build(struct roe_qp *qp, struct roe_txb *txb, struct sk_buff_head *skbs,
		  struct roe_refused *refused)
{
	struct roe_ah_entry *ah = txb->ah;

	if (txb->n)
		roe_xmit_build(qp->dev, roe_qp_stats(qp), ah ? &ah->path : &qp->path,
			       &qp->unsent, txb, skbs, refused);
	txb->ah = NULL;
	if (ah)
		roe_ah_put(ah);
}

/*
 * A netdev with several transmit queues takes that of the CPU that sends (XPS), and for one
 * QP that is now a doorbell, now a worker, the softirq of an ACK or the timer. Queues have no
 * order among them, so all skbs of a QP name one CPU, its home, whoever sends them. Who sends
 * next becomes the home once nothing may be overtaken any more: all requests of RC are
 * acknowledged, and of what nobody acknowledges, READ responses and all of UC and UD, none
 * was sent for a while, nor does any of it wait on this host. ACKs do not count, the newest
 * says it all. As skb->ooo_okay of TCP.
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

/* A burst through the network. Returns whether more is to be sent. */
static bool send_burst(struct roe_qp *qp, struct roe_ctx *ctx)
	__must_hold(&qp->lock)
{
	struct roe_refused refused = {};
	struct sk_buff_head skbs;
	struct roe_txb *txb;
	bool more;

	__skb_queue_head_init(&skbs);
	local_lock_nested_bh(&txb_lock);
	txb = this_cpu_ptr(txbs);
	txb->later = true;
	choose_home(qp, ctx);
	txb->home = qp->home;
	/* a WQE that fails in this burst: its payload is read when the packets are built */
	qp->lent = true;
	more = roe_qp_emit(qp, ctx, txb);
	build(qp, txb, &skbs, &refused);
	roe_complete_returned(qp, ctx);
	local_unlock_nested_bh(&txb_lock);
	if (!skb_queue_empty(&skbs)) {
		spin_unlock(&qp->lock);
		roe_xmit_send(roe_qp_stats(qp), &skbs, &refused);
		spin_lock(&qp->lock);
	}
	if (refused.requests)
		roe_requester_local_drop(qp, ctx, refused.request);
	if (refused.responses || refused.acks)
		roe_responder_local_drop(qp, ctx, &refused);
	else if (!qp->resp.stalled)
		qp->resp.refusals = 0;
	return more;
}

/* Something to send, as far as that is known without trying. */
static bool has_work(const struct roe_qp *qp)
{
	return roe_resp_owes(&qp->resp) || qp->resp.cnp_due || has_requests(qp);
}

/* The backlog of a CPU that went away was moved to another one, in order. */
static bool is_elsewhere(int cpu)
{
	return cpu != ROE_TX_ANYWHERE && cpu != raw_smp_processor_id() && cpu_online(cpu);
}

/*
 * The backlog of a CPU holds 1000 (net.core.netdev_max_backlog). Before 6.5 nobody but ksoftirqd
 * empties it as soon as that is to run, so a process that has the CPU until then would only
 * fill it. It leaves that to the worker, which waits for ksoftirqd, for a while.
 */
static bool backlog_is_long(void)
{
	return !IS_ENABLED(CONFIG_PREEMPT_RT) &&
	       skb_queue_len_lockless(raw_cpu_ptr(&softnet_data.input_pkt_queue)) >= BACKLOG_LONG;
}

static bool must_wait(const struct roe_qp *qp)
{
	return READ_ONCE(qp->tx_cpu) == smp_processor_id() && backlog_is_long() &&
	       !in_serving_softirq() && current_work() != &qp->order_work;
}

/*
 * What goes to this host waits in the backlog of the CPU that sent it, for long if
 * the softirq has used up its time. If the next burst left from another CPU it would
 * come first; RC asks again for what it overtook, UC and UD would lose it or change
 * the order. So until that backlog has been seen empty the QP sends from there.
 */
static bool sends_elsewhere(struct roe_qp *qp)
	__must_hold(&qp->lock)
{
	int cpu = READ_ONCE(qp->tx_cpu);

	if (qp->type == IB_QPT_RC)
		return false;
	if (!is_elsewhere(cpu) && !must_wait(qp)) {
		WRITE_ONCE(qp->tx_cpu, smp_processor_id());
		return false;
	}
	queue_work_on(cpu, order_wq, &qp->order_work);
	return true;
}

/* Is nothing left in the backlog of this CPU? It may be that of a thread (thread_backlog_napi). */
static bool backlog_is_empty(void)
{
	return !test_bit(NAPI_STATE_SCHED, &raw_cpu_ptr(&softnet_data)->backlog.state);
}

/*
 * Softirqs on; what they had to receive then has been received, unless it was too
 * much. With interrupts off, so that it is the same CPU and no timer sends in between; its
 * backlog is that of all QPs, so tx_cpu may as well be of a later burst than ours. Softirqs
 * of PREEMPT_RT need preemption, and one may be under way below us: nobody knows when the
 * backlog is empty.
 */
static void enable_softirqs(struct roe_qp *qp)
{
	if (IS_ENABLED(CONFIG_PREEMPT_RT)) {
		local_bh_enable();
		return;
	}
	preempt_disable();
	local_bh_enable();
	if (qp->type != IB_QPT_RC && !in_softirq()) {
		local_irq_disable();
		if (!(local_softirq_pending() & BIT(NET_RX_SOFTIRQ)) && backlog_is_empty())
			cmpxchg(&qp->tx_cpu, smp_processor_id(), ROE_TX_ANYWHERE);
		local_irq_enable();
	}
	preempt_enable();
}

/*
 * Collect a burst under the lock, send it without. The owner flag keeps the
 * order of bursts; whoever comes meanwhile leaves tx_again. Returns whether
 * another round is wanted.
 */
static bool transmit(struct roe_qp *qp, struct roe_ctx *ctx)
	__must_hold(&qp->lock)
{
	struct roe_qp *peer;
	bool more;

	/* as long as one burst follows the other who waits for their end may never see it */
	if (qp->tx_busy || qp->stopping) {
		qp->tx_again = has_work(qp);
		return false;
	}
	/* as after the last ACK of what was in flight */
	if (!has_work(qp) || sends_elsewhere(qp))
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
	req->rnr_deadline = roe_rnr_pace(req->rnr_deadline, ctx->now);
	req->rnr_paced = req->rnr_deadline;
}

/* Is the flush of what was posted still under way? */
static bool flushes(const struct roe_qp *qp)
{
	return qp->flush_more && (qp->state == IB_QPS_ERR || qp->state == IB_QPS_SQE);
}

/* Under the lock: engines, transmission, timer; then drop it and deliver. */
static bool finish(struct roe_qp *qp, struct roe_ctx *ctx)
	__releases(&qp->lock)
{
	bool more = false;

	if (!ctx->hold)
		qp->hold.until = 0;
	if (qp->state != IB_QPS_RESET && qp->state != IB_QPS_ERR && !ctx->hold)
		more = transmit(qp, ctx);
	if (qp->overrun && qp->state != IB_QPS_ERR && qp->state != IB_QPS_RESET)
		roe_complete_error(qp, ctx);
	check_drained(qp, ctx);
	pace_rnr(qp, ctx);
	arm_timer(qp);
	more |= flushes(qp);
	if (qp->state == IB_QPS_ERR && qp->rq.ring)
		queue_delayed_work(qp_wq, &qp->flush_work, FLUSH_INTERVAL << READ_ONCE(qp->flush_idle));
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
	ctx->receives.mr = NULL;
	ctx->written.mr = NULL;
	ctx->target = NULL;
	forget(&ctx->source);
	forget(&ctx->answer);
	forget(&ctx->brought);
	forget(&ctx->received);
	spin_lock(&qp->lock);
	ctx->now = ktime_get_ns();
}

/**
 * roe_qp_begin() - a run of a QP that is neither a doorbell nor a packet
 * @qp: any state; kept by the caller
 * @ctx: knows nothing but the time afterwards
 *
 * Any context but hard interrupts. Until roe_qp_end() qp->lock is held, softirqs are
 * disabled, and it is one RCU read-side section.
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
		queue_work(qp_wq, &qp->work);
	rcu_read_unlock();
	local_bh_enable();
}

ROE_EXPORT_FOR_TEST(roe_qp_end);

/*
 * Copy in what is new: did a process post something that takes one packet? @more: and
 * there is more than is copied at a time.
 */
static bool pull(struct roe_qp *qp, bool *more)
{
	u32 from = qp->sq.prod;

	*more = roe_wqe_pull(qp);
	return qp->user && !*more && qp->sq.prod != from &&
	       roe_sq_slot(&qp->sq, qp->sq.prod - 1)->length <= qp->mtu;
}

/* Small messages of a user, just posted: do they wait for company? Softirqs disabled. */
static bool hold(struct roe_qp *qp, const struct roe_ctx *ctx)
{
	struct roe_pace *pace = this_cpu_ptr(&paces);
	bool behind = roe_pace_doorbell(pace, qp, ctx->now);

	if (roe_qp_is_ud(qp) || !READ_ONCE(qp->dev->hold) ||
	    !roe_hold_message(qp, ctx, pace, behind))
		return false;
	roe_stat_inc(qp->dev, ROE_STAT_HELD);
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
	bool small = false, left = false;
	struct roe_ctx ctx roe_uninitialized;
	int err = 0;

	local_bh_disable();
	rcu_read_lock();
	begin(qp, &ctx);
	switch (qp->state) {
	case IB_QPS_RESET:
	case IB_QPS_INIT:
	case IB_QPS_RTR:
		/* the application is told that the post failed, so it must not run later */
		if (qp->sq.ring)
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
		small = pull(qp, &left) && rung;
		ctx.hold = small && hold(qp, &ctx);
		break;
	}
	*more = finish(qp, &ctx) || left;
	rcu_read_unlock();
	/* from here on our callers keep the QP: a verb, a work or relay that destroy waits for */
	enable_softirqs(qp);
	if (small && !ctx.hold)
		learn(qp, ctx.now);
	return err;
}

static int ring_rounds(struct roe_qp *qp, unsigned int budget, bool rung)
{
	bool more = false;
	int err;

	do {
		err = ring_doorbell(qp, &more, rung);
		rung = false;
	} while (!err && more && --budget);
	if (more)
		queue_work(qp_wq, &qp->work);
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
	return ring_rounds(qp, in_softirq() ? 1 : ROUNDS, true);
}

/**
 * roe_qp_poll() - look for new send WQEs that no doorbell was rung for
 * @qp: of a relay. Process context
 */
void roe_qp_poll(struct roe_qp *qp)
{
	ring_rounds(qp, ROUNDS, false);
}

/**
 * roe_qp_defer() - a worker is to look at the QP
 * @qp: any state but on its way out; kept by the caller
 *
 * For who must not run it now: posts with interrupts off, which must not enable softirqs,
 * and whoever holds its lock. Any context.
 */
void roe_qp_defer(struct roe_qp *qp)
{
	queue_work(qp_wq, &qp->work);
}

/* Rarely and not for long: many QPs may wait here, and ksoftirqd has a lower priority. */
static bool wait_for_backlog(void)
{
	unsigned int i;

	for (i = 0; backlog_is_long(); i++) {
		/* not by the clock, which runs on while a hypervisor has taken this CPU away */
		if (i == BACKLOG_WAITS)
			return false;
		usleep_range(250, 500);
	}
	return true;
}

static void send_rest(struct roe_qp *qp, bool in_order)
{
	unsigned int budget = WORK_ROUNDS;
	bool more;

	do {
		/* in vain: one burst for all the waiting */
		if (in_order && !wait_for_backlog())
			budget = 1;
		/* nobody posts here; a QP that refuses posts has answers to send, in RTR */
		ring_doorbell(qp, &more, false);
		cond_resched();
	} while (more && --budget);
	/* behind the others: there are only so many workers at once */
	if (more)
		queue_work(qp_wq, &qp->work);
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

	if (is_elsewhere(READ_ONCE(qp->tx_cpu)))
		queue_work(qp_wq, &qp->work);
	else
		send_rest(qp, true);
}

/* There is no doorbell for receives: a user's ring in ERR is looked at now and then. */
static void flush_late(struct work_struct *work)
{
	struct roe_qp *qp = container_of(to_delayed_work(work), struct roe_qp, flush_work);
	bool more;

	/* the flush of this look sets it back if there was anything */
	WRITE_ONCE(qp->flush_idle, min(READ_ONCE(qp->flush_idle) + 1, FLUSH_IDLE_MAX));
	if (!ring_doorbell(qp, &more, false) && more)
		queue_work(qp_wq, &qp->work);
}

/* Without the lock it is seen cleared while a worker is at the next part. */
static bool flush_unfinished(struct roe_qp *qp)
{
	bool more;

	spin_lock_bh(&qp->lock);
	more = flushes(qp);
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
 * succeeded, so the process may destroy the handle. Process context, may sleep.
 */
void roe_qp_take_posted(struct ib_pd *ibpd)
{
	struct roe_pd *pd = container_of(ibpd, struct roe_pd, ib);
	struct roe_qp *qp;

	mutex_lock(&pd->lock);
	list_for_each_entry(qp, &pd->uds, in_pd)
		take_posted(qp);
	mutex_unlock(&pd->lock);
}

static bool is_in_pd(const struct roe_qp *qp)
{
	return qp->user && qp->type == IB_QPT_UD;
}

static void join_pd(struct roe_qp *qp)
{
	struct roe_pd *pd = container_of(qp->pd, struct roe_pd, ib);

	if (!is_in_pd(qp))
		return;
	mutex_lock(&pd->lock);
	list_add_tail(&qp->in_pd, &pd->uds);
	mutex_unlock(&pd->lock);
}

static void leave_pd(struct roe_qp *qp)
{
	struct roe_pd *pd = container_of(qp->pd, struct roe_pd, ib);

	if (!is_in_pd(qp))
		return;
	mutex_lock(&pd->lock);
	list_del(&qp->in_pd);
	mutex_unlock(&pd->lock);
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
	struct roe_ctx ctx roe_uninitialized;

	roe_qp_flushed(qp);
	roe_relay_part(qp);
	/* the lock in any case: the completion of that message may be seen before its run ends */
	roe_qp_begin(qp, &ctx);
	qp->resp.echo.until = 0;
	qp->resp.refused_until = 0;
	roe_qp_end(qp, &ctx);
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
		queue_work(qp_wq, &qp->work);
}

/**
 * roe_qp_deliver() - a burst of a QP of the same device
 * @qp: not locked
 * @txb: direct, whose sender's lock is not held
 *
 * As roe_qp_receive().
 */
void roe_qp_deliver(struct roe_qp *qp, const struct roe_txb *txb)
{
	struct roe_rx_row row = {
		.first = &txb->pkt[0].rx,
		.stride = sizeof(txb->pkt[0]),
		.n = txb->n,
	};
	unsigned int budget = ROUNDS;
	struct roe_ctx ctx roe_uninitialized;
	bool more;

	begin(qp, &ctx);
	ctx.direct = true;
	ctx.fresh = txb->fresh;
	roe_qp_dispatch_row(qp, &ctx, &row);
	while ((more = finish(qp, &ctx)) && --budget)
		begin(qp, &ctx);
	if (more)
		queue_work(qp_wq, &qp->work);
}

/* --- birth --- */

static int check_caps(const struct ib_qp_init_attr *init)
{
	const struct ib_qp_cap *cap = &init->cap;

	switch (init->qp_type) {
	case IB_QPT_RC:
	case IB_QPT_UC:
	case IB_QPT_UD:
	case IB_QPT_GSI:
		break;
	default:
		return -EOPNOTSUPP;
	}
	if (init->create_flags || (init->srq && init->qp_type == IB_QPT_GSI))
		return -EOPNOTSUPP;
	if (!init->send_cq || !init->recv_cq)
		return -EINVAL;
	if (cap->max_send_wr > ROE_MAX_QP_WR || cap->max_send_sge > ROE_MAX_SGE ||
	    cap->max_inline_data > ROE_MAX_INLINE)
		return -EINVAL;
	/* with an SRQ the RQ does not exist, whatever its size */
	if (!init->srq && (cap->max_recv_wr > ROE_MAX_QP_WR || cap->max_recv_sge > ROE_MAX_SGE))
		return -EINVAL;
	return 0;
}

/*
 * Payload room of a WQE: SGEs or inline bytes share it (abi.md section 6), and one SGE
 * is more than the 8 bytes of an ATOMIC_WRITE.
 */
static u32 send_room(u32 max_sge, u32 max_inline)
{
	return max_t(u32, max_sge * sizeof(struct rxe_sge), max_inline);
}

static int init_sq(struct roe_qp *qp, struct ib_qp_cap *cap, struct ib_ucontext *uctx,
		   struct mminfo *mi)
{
	struct roe_sq *sq = &qp->sq;
	u32 room;

	spin_lock_init(&sq->post_lock);
	sq->max_sge = max_t(u32, cap->max_send_sge, 1);
	room = send_room(sq->max_sge, cap->max_inline_data);
	sq->max_inline = room;
	sq->mask = roundup_pow_of_two(cap->max_send_wr + 1) - 1;
	if (uctx) {
		/* a QP that only receives; the library maps a ring in any case */
		sq->ring = roe_ring_create(max_t(u32, cap->max_send_wr, 1),
					   sizeof(struct rxe_send_wqe) + room, uctx, mi);
		if (IS_ERR(sq->ring))
			return PTR_ERR(sq->ring);
		sq->mask = sq->ring->mask;
	}
	sq->max_wr = sq->mask;
	room = max_t(u32, room, sq->max_sge * sizeof(struct roe_sge));
	sq->log2 = order_base_2(sizeof(struct roe_swqe) + room);
	sq->slots = kvcalloc(sq->mask + 1, BIT(sq->log2), GFP_KERNEL_ACCOUNT | __GFP_NOWARN);
	if (!sq->slots)
		return -ENOMEM;
	cap->max_send_wr = sq->max_wr;
	cap->max_send_sge = sq->max_sge;
	cap->max_inline_data = sq->max_inline;
	return 0;
}

static int init_rq(struct roe_qp *qp, struct ib_qp_cap *cap, struct ib_ucontext *uctx,
		   struct mminfo *mi)
{
	int err = 0;

	if (!qp->srq)
		err = roe_rq_init(&qp->rq, cap->max_recv_wr, cap->max_recv_sge, uctx, mi);
	cap->max_recv_wr = qp->rq.max_wr;
	cap->max_recv_sge = qp->rq.max_sge;
	return err;
}

static void free_queues(struct roe_qp *qp)
{
	if (!IS_ERR_OR_NULL(qp->sq.ring))
		roe_ring_destroy(qp->sq.ring);
	while (qp->sq.slots && roe_sq_discard(qp, ROE_WQE_BATCH))
		cond_resched();
	kvfree(qp->sq.slots);
	roe_rq_exit(&qp->rq);
	roe_unsent_exit(&qp->unsent);
	kfree(qp->resp.rsrc);
	roe_early_exit(&qp->resp.early);
	roe_early_exit(&qp->req.reorder.early);
}

static void init_fields(struct roe_qp *qp, const struct ib_qp_init_attr *init)
{
	spin_lock_init(&qp->lock);
	mutex_init(&qp->av_lock);
	qp->state = IB_QPS_RESET;
	qp->type = init->qp_type;
	qp->sq_sig_all = init->sq_sig_type == IB_SIGNAL_ALL_WR;
	qp->dev = roe_dev(qp->ib.device);
	qp->stats = qp->dev->stats;
	qp->keys = &qp->dev->keys;
	qp->pd = qp->ib.pd;
	roe_cc_reset(qp);
	qp->scq = roe_cq(init->send_cq);
	qp->rcq = roe_cq(init->recv_cq);
	qp->srq = init->srq ? roe_srq(init->srq) : NULL;
	qp->pkey = ROE_DEFAULT_PKEY;
	/* of datagrams: the receive buffer is the limit, and the port's MTU */
	qp->mtu = roe_qp_is_ud(qp) ? 4096 : 256;
	qp->attr.port_num = 1;
	qp->attr.path_mig_state = IB_MIG_MIGRATED;
	INIT_WORK(&qp->work, qp_work);
	INIT_WORK(&qp->order_work, qp_order_work);
	roe_qp_init_events(qp);
	qp->tx_cpu = ROE_TX_ANYWHERE;
	INIT_DELAYED_WORK(&qp->flush_work, flush_late);
	hrtimer_setup(&qp->timer, qp_timer, CLOCK_MONOTONIC, HRTIMER_MODE_ABS_SOFT);
}

/* QP1 is found by the device; the number is the same for all. */
static int publish_gsi(struct roe_qp *qp)
{
	if (cmpxchg(&qp->dev->gsi, NULL, qp))
		return -EBUSY;
	qp->qpn = ROE_QPN_GSI;
	return 0;
}

static int publish_number(struct roe_qp *qp)
{
	int err = xa_alloc_cyclic(&qpns, &qp->qpn, qp, QPN_LIMIT, &qpn_next, GFP_KERNEL);

	if (err < 0)
		return roe_table_error(err);
	spin_lock(&bucket_lock);
	hlist_add_head_rcu(&qp->by_qpn, bucket_of(qp->qpn));
	spin_unlock(&bucket_lock);
	return 0;
}

static int publish(struct roe_qp *qp)
{
	static atomic64_t last_id;
	int err;

	/* in place before anybody finds it */
	qp->id = atomic64_inc_return(&last_id);
	err = qp->type == IB_QPT_GSI ? publish_gsi(qp) : publish_number(qp);
	if (err)
		return err;
	qp->ib.qp_num = qp->qpn;
	return 0;
}

static void unpublish(struct roe_qp *qp)
{
	if (qp->type == IB_QPT_GSI) {
		WRITE_ONCE(qp->dev->gsi, NULL);
		return;
	}
	spin_lock(&bucket_lock);
	hlist_del_rcu(&qp->by_qpn);
	spin_unlock(&bucket_lock);
	xa_erase(&qpns, qp->qpn);
}

static int create(struct roe_qp *qp, struct ib_qp_init_attr *init, struct ib_ucontext *uctx,
		  struct rxe_create_qp_resp *resp)
{
	int err;

	err = roe_path_init(&qp->path, GFP_KERNEL_ACCOUNT);
	if (err)
		return err;
	err = init_rq(qp, &init->cap, uctx, &resp->rq_mi);
	if (!err)
		err = init_sq(qp, &init->cap, uctx, &resp->sq_mi);
	if (!err && (qp->type == IB_QPT_UC || qp->type == IB_QPT_UD))
		err = roe_unsent_init(&qp->unsent);
	if (!err)
		err = publish(qp);
	if (err) {
		free_queues(qp);
		roe_path_destroy(&qp->path);
		return err;
	}
	join_pd(qp);
	return 0;
}

/**
 * roe_qp_forget_completions() - what a kernel user's QP has left in its CQs goes
 * @qp: in RESET. Process context, may sleep
 */
void roe_qp_forget_completions(struct roe_qp *qp)
{
	roe_cq_forget(qp->scq, &qp->ib);
	if (qp->rcq != qp->scq)
		roe_cq_forget(qp->rcq, &qp->ib);
}

/* Who frees a CQ next must not meet its handler. */
static void settle_cqs(struct roe_qp *qp)
{
	roe_cq_settle(qp->scq);
	if (qp->rcq != qp->scq)
		roe_cq_settle(qp->rcq);
}

static void unpublish_and_free(struct roe_qp *qp)
{
	struct roe_ctx ctx roe_uninitialized;

	leave_pd(qp);
	roe_qp_settle(qp);
	unpublish(qp);
	roe_qp_begin(qp, &ctx);
	WRITE_ONCE(qp->state, IB_QPS_RESET);
	roe_qp_end(qp, &ctx);
	synchronize_rcu_expedited();
	hrtimer_cancel(&qp->timer);
	/* these may queue the next one; in RESET that queues none of them */
	cancel_delayed_work_sync(&qp->flush_work);
	cancel_work_sync(&qp->order_work);
	cancel_work_sync(&qp->work);
	cancel_work_sync(&qp->event_work);
	roe_fault_forget_qp(qp);
	roe_qp_forget_completions(qp);
	settle_cqs(qp);
	rdma_destroy_ah_attr(&qp->attr.ah_attr);
	roe_path_destroy(&qp->path);
	free_queues(qp);
}

/**
 * roe_qp_create() - ib_device_ops.create_qp
 * @ibqp: zeroed, device and PD set
 * @init: capabilities in, what they became out
 * @udata: NULL for kernel users; answer: struct rxe_create_qp_resp
 *
 * Return: 0 or negative errno.
 */
int roe_qp_create(struct ib_qp *ibqp, struct ib_qp_init_attr *init, struct ib_udata *udata)
{
	struct ib_ucontext *uctx = roe_udata_context(udata);
	struct rxe_create_qp_resp resp = {};
	struct roe_qp *qp = roe_qp(ibqp);
	int err;

	if (udata && udata->outlen < sizeof(resp))
		return -EINVAL;
	err = check_caps(init);
	if (err)
		return err;
	qp->user = !!udata;
	init_fields(qp, init);
	err = create(qp, init, uctx, &resp);
	if (err)
		return err;
	if (udata && ib_copy_to_udata(udata, &resp, sizeof(resp))) {
		unpublish_and_free(qp);
		return -EFAULT;
	}
	return 0;
}

/**
 * roe_qp_destroy() - ib_device_ops.destroy_qp
 * @ibqp: freed by the core when we return
 * @udata: unused
 *
 * Return: 0.
 */
int roe_qp_destroy(struct ib_qp *ibqp, struct ib_udata *udata)
{
	unpublish_and_free(roe_qp(ibqp));
	return 0;
}
