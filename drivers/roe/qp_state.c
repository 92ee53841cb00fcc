// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * QP states: what modify_qp may change and what a transition does
 * (IBTA 10.3, wire.md section 5). The core's table (ib_modify_qp_is_ok) says
 * which attributes belong to a transition; this file checks and applies their values.
 */
#include <linux/delay.h>
#include <linux/slab.h>
#include <net/inet_ecn.h>
#include <rdma/ib_cache.h>
#include "ah.h"
#include "qp_doorbell.h"
#include "qp_run.h"
#include "trace.h"
#include "transport.h"

#define AV_PATIENCE	10000	/* looks, 100 us apart */

/*
 * Largest values of the protocol fields. Hardware accepts larger ones, so programs ask for them,
 * and keeps the low bits: 8 retries become none. The core's CM clamps to the maximum, as roe does.
 */
#define MOST_RETRIES	7	/* as rnr_retry: without limit */
#define MOST_RNR_TIMER	31

#define LEAST_SLOTS	16	/* for READs and ATOMICs of the peer, unless it is allowed none */

static int check_values(struct roe_qp *qp, const struct ib_qp_attr *attr, int mask)
{
	if ((mask & IB_QP_PORT) && attr->port_num != 1)
		return -EINVAL;
	if ((mask & IB_QP_PKEY_INDEX) && attr->pkey_index >= ROE_MAX_PKEYS)
		return -EINVAL;
	if ((mask & IB_QP_MAX_QP_RD_ATOMIC) && attr->max_rd_atomic > ROE_MAX_RD_ATOMIC)
		return -EINVAL;
	if ((mask & IB_QP_MAX_DEST_RD_ATOMIC) && attr->max_dest_rd_atomic > ROE_MAX_RD_ATOMIC)
		return -EINVAL;
	if ((mask & IB_QP_TIMEOUT) && attr->timeout > 31)
		return -EINVAL;
	if ((mask & IB_QP_DEST_QPN) && attr->dest_qp_num > ROE_QPN_MASK)
		return -EINVAL;
	/* a caller that arms path migration would rely on it, and there is none */
	if ((mask & IB_QP_PATH_MIG_STATE) && attr->path_mig_state != IB_MIG_MIGRATED)
		return -EINVAL;
	return 0;
}

/*
 * Packets of a PATH_MTU above the active MTU, or that of the path, never arrive (wire.md R31). In
 * SQD a QP may get another path.
 */
static int check_mtu(struct roe_qp *qp, const struct ib_qp_attr *attr, int mask)
{
	const struct rdma_ah_attr *ah = mask & IB_QP_AV ? &attr->ah_attr : &qp->attr.ah_attr;
	int mtu = ib_mtu_enum_to_int(mask & IB_QP_PATH_MTU ? attr->path_mtu : qp->attr.path_mtu);
	int most;

	most = ah->grh.sgid_attr ? roe_device_gid_mtu(qp->dev, ah->grh.sgid_attr) :
				   roe_device_mtu(qp->dev);
	if (mtu >= 256 && mtu <= most)
		return 0;
	/* most programs ask for the active MTU, but the netdev of the GID may allow less */
	if (mtu > most)
		ibdev_info_ratelimited(&qp->dev->ib,
				       "path MTU %d refused: the netdev of the GID has room for %d\n",
				       mtu, most);
	return -EINVAL;
}

static int check(struct roe_qp *qp, const struct ib_qp_attr *attr, int mask,
		 enum ib_qp_state cur, enum ib_qp_state next)
{
	int err;

	if (!ib_modify_qp_is_ok(cur, next, qp->type, mask))
		return -EINVAL;
	/* until the SQ is drained only ERR, RESET and a query are allowed (R29) */
	if (cur == IB_QPS_SQD && !qp->sq_drained && next != IB_QPS_ERR && next != IB_QPS_RESET)
		return -EINVAL;
	err = check_values(qp, attr, mask);
	if (!err && (mask & (IB_QP_PATH_MTU | IB_QP_AV)))
		err = check_mtu(qp, attr, mask);
	if (!err && (mask & IB_QP_AV) && !roe_ah_usable(qp->dev, &attr->ah_attr))
		err = -EINVAL;
	return err;
}

/*
 * As with hardware, RC and UC packets leave as ECN-capable (ECT(0)). Datagrams do so only if the
 * user's traffic class says it, because no mark would slow them down.
 */
static u8 traffic_class(const struct roe_qp *qp, u8 tclass)
{
	if (!roe_qp_is_ud(qp) && READ_ONCE(qp->dev->ecn) && INET_ECN_is_not_ect(tclass))
		tclass |= INET_ECN_ECT_0;
	return tclass;
}

/* The UDP source port is constant per QP, so that ECMP keeps the order of its packets. */
static void set_av(struct roe_qp *qp, const struct rdma_ah_attr *ah, u32 dest_qpn)
{
	struct roe_av *av = &qp->path.av;

	roe_av_set(av, ah);
	av->tclass = traffic_class(qp, av->tclass);
	av->sport = htons(rdma_get_udp_sport(av->flow_label, qp->qpn, dest_qpn));
}

/* Requester attributes. They are set before RTS or with the SQ drained: no retry is used then. */
static void apply_requester(struct roe_qp *qp, const struct ib_qp_attr *attr, int mask)
{
	struct ib_qp_attr *own = &qp->attr;

	if (mask & IB_QP_MAX_QP_RD_ATOMIC)
		own->max_rd_atomic = attr->max_rd_atomic;
	if (mask & IB_QP_TIMEOUT) {
		own->timeout = attr->timeout;
		qp->timeout_ns = roe_timer_ack_ns(attr->timeout);
	}
	if (mask & IB_QP_RETRY_CNT) {
		own->retry_cnt = min_t(u8, attr->retry_cnt, MOST_RETRIES);
		qp->req.retry_cnt = own->retry_cnt;
	}
	if (mask & IB_QP_RNR_RETRY) {
		own->rnr_retry = min_t(u8, attr->rnr_retry, MOST_RETRIES);
		qp->req.rnr_retry = own->rnr_retry;
	}
	if (mask & IB_QP_SQ_PSN)
		own->sq_psn = attr->sq_psn & ROE_PSN_MASK;
}

/* All attributes that a transition or a plain modify may set; qp->lock held. */
static void apply(struct roe_qp *qp, const struct ib_qp_attr *attr, int mask)
{
	struct ib_qp_attr *own = &qp->attr;

	apply_requester(qp, attr, mask);
	if (mask & IB_QP_PKEY_INDEX)
		own->pkey_index = attr->pkey_index;
	if (mask & IB_QP_PORT)
		own->port_num = attr->port_num;
	if (mask & IB_QP_QKEY)
		own->qkey = attr->qkey;
	if (mask & IB_QP_ACCESS_FLAGS) {
		own->qp_access_flags = attr->qp_access_flags;
		qp->access = attr->qp_access_flags;
	}
	if (mask & IB_QP_PATH_MTU) {
		own->path_mtu = attr->path_mtu;
		qp->mtu = ib_mtu_enum_to_int(attr->path_mtu);
	}
	if (mask & IB_QP_DEST_QPN) {
		own->dest_qp_num = attr->dest_qp_num;
		qp->dest_qpn = attr->dest_qp_num;
	}
	if (mask & IB_QP_MAX_DEST_RD_ATOMIC)
		own->max_dest_rd_atomic = attr->max_dest_rd_atomic;
	if (mask & IB_QP_MIN_RNR_TIMER)
		own->min_rnr_timer = min_t(u8, attr->min_rnr_timer, MOST_RNR_TIMER);
	if (mask & IB_QP_RQ_PSN)
		own->rq_psn = attr->rq_psn & ROE_PSN_MASK;
	if (mask & IB_QP_AV) {
		rdma_replace_ah_attr(&own->ah_attr, &attr->ah_attr);
		/* the bits above it in the IP header are not the user's to set */
		own->ah_attr.grh.flow_label &= IB_GRH_FLOWLABEL_MASK;
		set_av(qp, &own->ah_attr, qp->dest_qpn);
		roe_path_reset(&qp->path);
	}
}

/* Drop WQEs that a process has posted and no doorbell has copied in. */
static void drop_posted(struct roe_sq *sq)
{
	if (sq->ring)
		roe_ring_release(sq->ring, roe_ring_pending(sq->ring));
}

/*
 * RESET: empties the queues without completions, resets the counters, keeps the QPN. discard()
 * drops the rest of a long SQ of datagrams; no other change of the QP begins before that is done.
 */
static void enter_reset(struct roe_qp *qp)
{
	WRITE_ONCE(qp->state, IB_QPS_RESET);
	/*
	 * No namespace has cookie 0, so from now on no packet of the old peer matches this QP, also
	 * not while the next connection is set up. forget_connection() waits until packets that
	 * matched before are gone.
	 */
	if (!roe_qp_is_ud(qp))
		WRITE_ONCE(qp->path.av.net_cookie, 0);
	roe_requester_reset(qp, 0);
	roe_responder_reset(qp, 0);
	roe_sq_discard(qp, ROE_WQE_BATCH);
	drop_posted(&qp->sq);
	roe_rq_discard(&qp->rq);
	/* otherwise the next ERR would wait for a flush_work that is due in seconds only */
	if (qp->rq.ring)
		cancel_delayed_work(&qp->flush_work);
	qp->overrun = false;
	qp->flush_more = false;
	qp->comm_est = false;
	qp->sq_drained = false;
}

static void enter(struct roe_qp *qp, struct roe_ctx *ctx, const struct ib_qp_attr *attr,
		  int mask, enum ib_qp_state next)
{
	enum ib_qp_state cur = qp->state;

	/* ERR is also entered without a modify: roe_complete_error() traces it */
	if (next != cur && next != IB_QPS_ERR)
		trace_roe_qp_state(qp, next);
	switch (next) {
	case IB_QPS_RESET:
		enter_reset(qp);
		return;
	case IB_QPS_RTR:
		if (cur == IB_QPS_INIT)
			roe_responder_reset(qp, qp->attr.rq_psn);
		break;
	case IB_QPS_RTS:
		if (cur == IB_QPS_RTR) {
			/* WQEs posted before RTS: a doorbell may have left them to a relay */
			drop_posted(&qp->sq);
			roe_requester_reset(qp, qp->attr.sq_psn);
		}
		qp->sq_drained = false;
		break;
	case IB_QPS_SQD:
		if (cur != IB_QPS_SQD)
			qp->sqd_notify = (mask & IB_QP_EN_SQD_ASYNC_NOTIFY) &&
					 attr->en_sqd_async_notify;
		break;
	case IB_QPS_ERR:
		roe_complete_error(qp, ctx);
		return;
	default:
		break;
	}
	WRITE_ONCE(qp->state, next);
}

/*
 * Slots for READ and ATOMIC requests of the peer. Adapters of Mellanox and HiSilicon keep only the
 * logarithm of that number, rounded up: one that was told 5 may have 8 in flight. And hardware
 * answers one request while the next one arrives, so a few more do no harm there; here they arrive
 * in one burst, all before the first answer.
 */
static u32 slots_for(u8 max_dest_rd_atomic)
{
	if (!max_dest_rd_atomic)
		return 0;
	return max_t(u32, roundup_pow_of_two(max_dest_rd_atomic), LEAST_SLOTS);
}

static int alloc_slots(const struct roe_qp *qp, const struct ib_qp_attr *attr, int mask,
		       struct roe_rsrc **rsrc)
{
	gfp_t gfp = qp->user ? GFP_KERNEL_ACCOUNT : GFP_KERNEL;

	*rsrc = NULL;
	if (!(mask & IB_QP_MAX_DEST_RD_ATOMIC) || !attr->max_dest_rd_atomic)
		return 0;
	*rsrc = kcalloc(slots_for(attr->max_dest_rd_atomic), sizeof(**rsrc), gfp);
	return *rsrc ? 0 : -ENOMEM;
}

/*
 * Move the youngest slots to the new array: a drained SQ says nothing about the requests of the
 * peer, which may ask for their responses again. Returns the array to free once the lock is
 * dropped.
 */
static struct roe_rsrc *swap_slots(struct roe_qp *qp, const struct ib_qp_attr *attr,
				   struct roe_rsrc *rsrc)
{
	struct roe_resp *resp = &qp->resp;
	u32 nr = slots_for(attr->max_dest_rd_atomic), n = min(nr, resp->rsrc_nr), i;
	struct roe_rsrc *old = resp->rsrc;

	resp->rsrc_pending = 0;
	for (i = 0; i < n; i++) {
		rsrc[i] = old[(resp->rsrc_head + resp->rsrc_nr - n + i) % resp->rsrc_nr];
		resp->rsrc_pending += rsrc[i].pending;
	}
	resp->rsrc = rsrc;
	resp->rsrc_nr = nr;
	resp->rsrc_head = n == nr ? 0 : n;
	return old;
}

/* In RESET, drop what is left in the SQ, in parts as the flush does. */
static void discard(struct roe_qp *qp, struct roe_ctx *ctx)
{
	while (qp->state == IB_QPS_RESET && roe_sq_discard(qp, ROE_WQE_BATCH)) {
		roe_qp_end(qp, ctx);
		cond_resched();
		roe_qp_begin(qp, ctx);
	}
}

/*
 * Must a transition wait for the end of a burst? RESET must: the direct peer may read from the SQ
 * (direct.c), and no packet handed to the network in a burst may leave after RESET, in the time of
 * the next connection. ERR must while the SQ is lent, so that what was posted is flushed when
 * modify returns. No other burst begins meanwhile, so the wait is as long as the peer needs for
 * one burst and its answers.
 */
static bool in_burst(const struct roe_qp *qp, enum ib_qp_state next)
{
	return qp->lent || (next == IB_QPS_RESET && qp->tx_busy);
}

static void begin_change(struct roe_qp *qp, struct roe_ctx *ctx, const struct ib_qp_attr *attr,
			 int mask)
{
	bool stops = (mask & IB_QP_STATE) &&
		     (attr->qp_state == IB_QPS_RESET || attr->qp_state == IB_QPS_ERR);

	roe_qp_begin(qp, ctx);
	discard(qp, ctx);
	if (!stops || !in_burst(qp, attr->qp_state))
		return;
	qp->stopping++;
	do {
		roe_qp_end(qp, ctx);
		usleep_range(10, 20);
		roe_qp_begin(qp, ctx);
	} while (in_burst(qp, attr->qp_state));
	qp->stopping--;
	/* another thread may have entered RESET meanwhile, and not be done with the SQ */
	discard(qp, ctx);
}

/*
 * Packets are matched with the addresses of the QP before qp->lock is taken, by receive.c and by a
 * direct sender of this device. The grace period makes sure that no packet that matched the ended
 * connection is delivered to the next one once modify has returned.
 */
static void forget_connection(const struct roe_qp *qp, enum ib_qp_state cur)
{
	if (!roe_qp_is_ud(qp) && cur != IB_QPS_RESET && cur != IB_QPS_INIT)
		synchronize_rcu_expedited();
}

/*
 * The core keeps a reference to the source GID of a QP in av_sgid_attr. It replaces that without a
 * lock after modify_qp has returned, and two threads of a process may modify one QP at once: both
 * would put the old reference, or one of the new ones would leak. So the thread that has changed
 * the address vector puts the old reference itself and stores NULL, and the next thread waits until
 * the core has replaced the NULL. -EBUSY if the first thread does not get to run for a second.
 */
static int begin_av(struct roe_qp *qp)
{
	int i;

	mutex_lock(&qp->av_lock);
	for (i = 0; qp->av_given && !READ_ONCE(qp->ib.av_sgid_attr); i++) {
		if (i == AV_PATIENCE) {
			mutex_unlock(&qp->av_lock);
			return -EBUSY;
		}
		usleep_range(100, 200);
	}
	return 0;
}

static void end_av(struct roe_qp *qp, bool changed)
{
	const struct ib_gid_attr *old = qp->ib.av_sgid_attr;

	if (changed) {
		WRITE_ONCE(qp->ib.av_sgid_attr, NULL);
		qp->av_given = true;
		if (old)
			rdma_put_gid_attr(old);
	}
	mutex_unlock(&qp->av_lock);
}

static int modify(struct roe_qp *qp, const struct ib_qp_attr *attr, int mask)
{
	enum ib_qp_state cur, next;
	struct roe_rsrc *rsrc;
	struct roe_ctx ctx;
	int err;

	err = alloc_slots(qp, attr, mask, &rsrc);
	if (err)
		return err;
	roe_qp_settle(qp);
	begin_change(qp, &ctx, attr, mask);
	cur = mask & IB_QP_CUR_STATE ? attr->cur_qp_state : qp->state;
	next = mask & IB_QP_STATE ? attr->qp_state : cur;
	err = cur != qp->state ? -EINVAL : check(qp, attr, mask, cur, next);
	if (!err) {
		if (mask & IB_QP_MAX_DEST_RD_ATOMIC)
			rsrc = swap_slots(qp, attr, rsrc);
		apply(qp, attr, mask);
		enter(qp, &ctx, attr, mask, next);
		discard(qp, &ctx);
	}
	roe_qp_end(qp, &ctx);
	roe_qp_flushed(qp);
	if (!err && next == IB_QPS_RESET) {
		forget_connection(qp, cur);
		roe_fault_forget_qp(qp);
		roe_qp_forget_completions(qp);
	}
	kfree(rsrc);
	return err;
}

/**
 * roe_qp_modify() - ib_device_ops.modify_qp
 * @ibqp: the QP
 * @attr: values
 * @mask: which of them are set
 * @udata: unused
 *
 * Process context. Nothing changes if anything is refused.
 *
 * Return: 0, -EINVAL, -EOPNOTSUPP, -ENOMEM, or -EBUSY from begin_av().
 */
int roe_qp_modify(struct ib_qp *ibqp, struct ib_qp_attr *attr, int mask,
		  struct ib_udata *udata)
{
	struct roe_qp *qp = roe_qp(ibqp);
	int err;

	if (mask & ~IB_QP_ATTR_STANDARD_BITS)
		return -EOPNOTSUPP;
	/* no path migration is offered, so there is no alternate path to load */
	if (mask & IB_QP_ALT_PATH)
		return -EOPNOTSUPP;
	if (!(mask & IB_QP_AV))
		return modify(qp, attr, mask);
	err = begin_av(qp);
	if (err)
		return err;
	err = modify(qp, attr, mask);
	end_av(qp, !err);
	return err;
}

ROE_EXPORT_FOR_TEST(roe_qp_modify);

/**
 * roe_qp_query() - ib_device_ops.query_qp
 * @ibqp: the QP
 * @attr: takes all values, whatever @mask says
 * @mask: unused
 * @init: takes the creation attributes
 *
 * Return: 0.
 */
int roe_qp_query(struct ib_qp *ibqp, struct ib_qp_attr *attr, int mask,
		 struct ib_qp_init_attr *init)
{
	struct roe_qp *qp = roe_qp(ibqp);
	struct roe_ctx ctx;

	roe_qp_begin(qp, &ctx);
	*attr = qp->attr;
	attr->qp_state = qp->state;
	attr->cur_qp_state = qp->state;
	attr->sq_draining = qp->state == IB_QPS_SQD && !qp->sq_drained;
	attr->sq_psn = qp->req.psn;
	attr->rq_psn = qp->resp.psn;
	attr->ah_attr.grh.sgid_attr = NULL;	/* the QP keeps the reference */
	roe_qp_end(qp, &ctx);

	init->event_handler = ibqp->event_handler;
	init->qp_context = ibqp->qp_context;
	init->send_cq = ibqp->send_cq;
	init->recv_cq = ibqp->recv_cq;
	init->srq = ibqp->srq;
	init->qp_type = ibqp->qp_type;
	init->sq_sig_type = qp->sq_sig_all ? IB_SIGNAL_ALL_WR : IB_SIGNAL_REQ_WR;
	init->cap = qp->cap;
	attr->cap = qp->cap;
	return 0;
}
