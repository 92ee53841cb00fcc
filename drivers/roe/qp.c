// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Queue pairs: QPN table, create, destroy. How a QP runs in between is in qp_run.c.
 *
 * Contexts: verbs, in process context; lookups, in an RCU read-side section. Locks:
 * bucket_lock, when the QPN table changes; the lock of a PD, for its list of UD QPs.
 *
 * Why destroy is safe, step by step:
 *   0. Posted requests and owed answers have left; no relay looks at the SQ any more, and no
 *      further doorbell comes that could ask a relay to take the QP.
 *   1. The QPN is erased: no new receive finds the QP.
 *   2. state = RESET under the lock: a context that still holds the QP from a lookup, the
 *      timer or the worker does nothing with it, arms and queues nothing.
 *   3. A grace period: every such context was in an RCU read-side section and has left it; so
 *      tx_busy is clear and no packet of this QP is being built.
 *   4. Timer and works are cancelled; if they still run, they do nothing (step 2). Workers
 *      that bring pages look up the QP by number and id; requests for pages that no worker has
 *      begun are dropped.
 *   5. Completions left in CQs of kernel users are removed, because they point to the QP.
 *      Completion handlers that are still owed are called now: a CQ may be freed once its last
 *      QP is gone.
 *   6. CQs, PD and address vector stay valid until here; they may be freed afterwards.
 */
#include <linux/jhash.h>
#include <linux/random.h>
#include <linux/rculist.h>
#include <linux/slab.h>
#include <linux/vmalloc.h>
#include "early.h"
#include "qp_doorbell.h"
#include "qp_run.h"
#include "qp_tx.h"
#include "transport.h"

/* 0 and 1 are the management QPs, 0xffffff is multicast. */
#define QPN_LIMIT	XA_LIMIT(16, ROE_QPN_MCAST - 1)

/*
 * One number space for all devices: a QPN alone finds its QP. QPNs are allocated cyclically from
 * a large space, so a lookup in the xarray would walk a deep tree; hence a hash table. A process
 * can create many QPs and keep only those with QPNs of its choice, so the hash has a secret:
 * nobody can know which QPNs share a bucket.
 */
#define QPN_BUCKETS	BIT(13)
static u32 bucket_secret __ro_after_init;
static DEFINE_XARRAY_FLAGS(qpns, XA_FLAGS_ALLOC);	/* numbers in use */
static u32 qpn_next;
static struct hlist_head buckets[QPN_BUCKETS];		/* RCU; bucket_lock on change */
static DEFINE_SPINLOCK(bucket_lock);

int roe_qp_init(void)
{
	int err;

	err = roe_qp_doorbell_init();
	if (err)
		return err;
	err = roe_qp_tx_init();
	if (err) {
		roe_qp_doorbell_exit();
		return err;
	}
	/* peers remember QPNs of ended connections for a while, also across a module reload */
	qpn_next = get_random_u32() & ROE_QPN_MCAST;
	bucket_secret = get_random_u32();
	return 0;
}

void roe_qp_exit(void)
{
	roe_qp_doorbell_exit();
	roe_qp_tx_exit();
	xa_destroy(&qpns);
}

static struct hlist_head *bucket_of(u32 qpn)
{
	return &buckets[jhash_1word(qpn, bucket_secret) % QPN_BUCKETS];
}

/**
 * roe_qp_lookup() - find a QP by number
 * @qpn: not that of QP1
 *
 * The caller is in an RCU read-side section. The QP stays allocated in it, but may be on its way
 * out: check its state under the lock.
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
	/* with an SRQ there is no RQ, so its requested size does not matter */
	if (!init->srq && (cap->max_recv_wr > ROE_MAX_QP_WR || cap->max_recv_sge > ROE_MAX_SGE))
		return -EINVAL;
	return 0;
}

/*
 * Payload room of a WQE: SGEs or inline bytes share it (abi.md section 6). One SGE is larger than
 * the 8 bytes of an ATOMIC_WRITE, so these fit, too.
 */
static u32 send_room(u32 max_sge, u32 max_inline)
{
	return max_t(u32, max_sge * sizeof(struct rxe_sge), max_inline);
}

/* QPs of kernel users are not charged to whatever task happens to be current. */
static gfp_t gfp_of(const struct ib_ucontext *uctx)
{
	return uctx ? GFP_KERNEL_ACCOUNT : GFP_KERNEL;
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
		/* at least 1: the library maps the ring also of a QP that only receives */
		sq->ring = roe_ring_create(max_t(u32, cap->max_send_wr, 1),
					   sizeof(struct rxe_send_wqe) + room, uctx, mi);
		if (IS_ERR(sq->ring))
			return PTR_ERR(sq->ring);
		sq->mask = sq->ring->mask;
	}
	sq->max_wr = sq->mask;
	room = max_t(u32, room, sq->max_sge * sizeof(struct roe_sge));
	sq->log2 = order_base_2(sizeof(struct roe_swqe) + room);
	sq->slots = kvcalloc(sq->mask + 1, BIT(sq->log2), gfp_of(uctx) | __GFP_NOWARN);
	if (!sq->slots)
		return -ENOMEM;
	/* not for kernel users, who count with this value, also against the size of their CQs */
	if (uctx)
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
	if (uctx || qp->srq)
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
	/* datagrams: the limit is the receive buffer, and the MTU of the port */
	qp->mtu = roe_qp_is_ud(qp) ? 4096 : 256;
	qp->attr.port_num = 1;
	qp->attr.path_mig_state = IB_MIG_MIGRATED;
	roe_qp_init_works(qp);
	roe_qp_init_events(qp);
	qp->tx_cpu = ROE_TX_ANYWHERE;
	roe_qp_init_timer(qp);
}

/* QP1 is found through its device: all devices have the same number for it. */
static int publish_gsi(struct roe_qp *qp)
{
	qp->qpn = ROE_QPN_GSI;
	return cmpxchg(&qp->dev->gsi, NULL, qp) ? -EBUSY : 0;
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

	/* set before a lookup can find the QP */
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

static u32 sends(const struct roe_qp *qp)
{
	return qp->sq.mask + 1;
}

static u32 receives(const struct roe_qp *qp)
{
	return qp->srq ? 0 : qp->rq.mask + 1;
}

/*
 * When a QP fails, each of its WQEs completes, signaled or not, faster than the kernel user polls.
 * Some kernel users (nvmet) size the CQ for their signaled WQEs only. An overrun would end the CQ
 * and all QPs that share it, and a drain would wait forever.
 */
static int reserve_completions(struct roe_qp *qp)
{
	int err = roe_cq_reserve(qp->scq, sends(qp));

	if (err)
		return err;
	err = roe_cq_reserve(qp->rcq, receives(qp));
	if (err)
		roe_cq_release(qp->scq, sends(qp));
	return err;
}

static void release_completions(struct roe_qp *qp)
{
	roe_cq_release(qp->scq, sends(qp));
	roe_cq_release(qp->rcq, receives(qp));
}

static int create(struct roe_qp *qp, struct ib_qp_init_attr *init, struct ib_ucontext *uctx,
		  struct rxe_create_qp_resp *resp)
{
	int err;

	err = roe_path_init(&qp->path, gfp_of(uctx));
	if (err)
		return err;
	err = init_rq(qp, &init->cap, uctx, &resp->rq_mi);
	if (!err)
		err = init_sq(qp, &init->cap, uctx, &resp->sq_mi);
	if (!err && (qp->type == IB_QPT_UC || qp->type == IB_QPT_UD))
		err = roe_unsent_init(&qp->unsent);
	if (!err)
		err = reserve_completions(qp);
	if (!err) {
		err = publish(qp);
		if (err)
			release_completions(qp);
	}
	if (err) {
		free_queues(qp);
		roe_path_destroy(&qp->path);
		return err;
	}
	qp->cap = init->cap;
	join_pd(qp);
	return 0;
}

/**
 * roe_qp_forget_completions() - remove the completions of a kernel user's QP from its CQs
 * @qp: in RESET. Process context, may sleep
 */
void roe_qp_forget_completions(struct roe_qp *qp)
{
	roe_cq_forget(qp->scq, &qp->ib);
	if (qp->rcq != qp->scq)
		roe_cq_forget(qp->rcq, &qp->ib);
}

/* The user may free the CQs next: no completion handler may be pending or running then. */
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
	/* flush_work and order_work may queue work, which in RESET queues none of them */
	cancel_delayed_work_sync(&qp->flush_work);
	cancel_work_sync(&qp->order_work);
	cancel_work_sync(&qp->work);
	cancel_work_sync(&qp->event_work);
	roe_fault_forget_qp(qp);
	roe_qp_forget_completions(qp);
	settle_cqs(qp);
	release_completions(qp);
	rdma_destroy_ah_attr(&qp->attr.ah_attr);
	roe_path_destroy(&qp->path);
	free_queues(qp);
}

/**
 * roe_qp_create() - ib_device_ops.create_qp
 * @ibqp: zeroed, device and PD set
 * @init: capabilities requested; takes those granted
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
