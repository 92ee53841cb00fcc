// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Shared receive queues (IBTA 10.2.9, wire.md section 8).
 *
 * QPs take WQEs from an SRQ in parallel, under its lock, which nests inside qp->lock. A
 * WQE once taken belongs to the QP: an error in it ends that QP only.
 *
 * The limit event is raised once per arming: when fewer WQEs are left than the limit, or at
 * once if there are fewer when it is armed. A process posts without a system call, so the limit
 * is checked whenever a WQE is taken.
 */
#include <linux/uaccess.h>
#include "cq.h"
#include "srq.h"

/* Event handlers may sleep, WQEs are taken in softirqs: hence a worker. */
static void srq_limit_work(struct work_struct *work)
{
	struct roe_srq *srq = container_of(work, struct roe_srq, event_work);
	struct ib_event event = {
		.device		= srq->ib.device,
		.element.srq	= &srq->ib,
		.event		= IB_EVENT_SRQ_LIMIT_REACHED,
	};

	if (srq->ib.event_handler)
		srq->ib.event_handler(&event, srq->ib.srq_context);
}

static void check_limit(struct roe_srq *srq)
{
	lockdep_assert_held(&srq->rq.lock);
	if (!srq->limit || roe_rq_pending(&srq->rq) >= srq->limit)
		return;
	srq->limit = 0;
	roe_notify_queue(&srq->event_work);
}

/**
 * roe_srq_init() - make an empty SRQ
 * @srq: zeroed but for @ib
 * @max_wr: WQEs that it must hold
 * @max_sge: SGEs of each
 * @uctx: of the process that posts, NULL for a kernel user
 * @mi: takes how the process maps the ring; with @uctx only
 *
 * Return: 0 or negative errno; roe_srq_exit() must be called in any case.
 */
int roe_srq_init(struct roe_srq *srq, u32 max_wr, u32 max_sge, struct ib_ucontext *uctx,
		 struct mminfo *mi)
{
	INIT_WORK(&srq->event_work, srq_limit_work);
	mutex_init(&srq->resize_lock);
	return roe_rq_init(&srq->rq, max_wr, max_sge, uctx, mi);
}

ROE_EXPORT_FOR_TEST(roe_srq_init);

/**
 * roe_srq_exit() - free what roe_srq_init() has allocated
 * @srq: no QP uses it any more
 *
 * Context: process; waits for an event that is being raised.
 */
void roe_srq_exit(struct roe_srq *srq)
{
	cancel_work_sync(&srq->event_work);
	roe_rq_exit(&srq->rq);
}

ROE_EXPORT_FOR_TEST(roe_srq_exit);

/**
 * roe_srq_take() - take the oldest WQE for a QP
 * @srq: SRQ of the QP whose lock the caller holds
 * @rwqe: takes the copy; status tells whether it can be used
 * @least: bytes that the WQE must have room for; a shorter one stays in the SRQ, for any QP
 *
 * Return: false if no WQE is posted, or the oldest one is too short.
 */
bool roe_srq_take(struct roe_srq *srq, struct roe_rwqe *rwqe, u32 least)
{
	unsigned long flags;
	bool ok;

	spin_lock_irqsave(&srq->rq.lock, flags);
	ok = roe_rq_take(&srq->rq, rwqe, least);
	check_limit(srq);
	spin_unlock_irqrestore(&srq->rq.lock, flags);
	return ok;
}

ROE_EXPORT_FOR_TEST(roe_srq_take);

static int set_limit(struct roe_srq *srq, u32 limit)
{
	lockdep_assert_held(&srq->rq.lock);
	srq->limit = limit;
	check_limit(srq);
	return 0;
}

/* -EAGAIN: call again, with the lock dropped in between. */
static int set_some(struct roe_srq *srq, struct roe_rq *fresh, const u32 *limit, u32 *next)
{
	int err = 0;

	if ((limit ? *limit : srq->limit) > (fresh ? fresh : &srq->rq)->max_wr)
		return -EINVAL;
	if (fresh)
		err = roe_rq_swap(&srq->rq, fresh, next);
	return err ?: limit ? set_limit(srq, *limit) : 0;
}

/**
 * roe_srq_set() - change size and limit, both or nothing
 * @srq: in use
 * @fresh: queue of the new size, takes the old one; NULL: size stays
 * @limit: to be armed, 0 disarms; NULL: stays as it is
 *
 * Context: process, may sleep.
 * Return: 0, or -EINVAL if more WQEs are posted than fit or the limit is above
 * the size.
 */
int roe_srq_set(struct roe_srq *srq, struct roe_rq *fresh, const u32 *limit)
{
	u32 next;
	int err;

	mutex_lock(&srq->resize_lock);
	next = READ_ONCE(srq->rq.cons);
	do {
		spin_lock_irq(&srq->rq.lock);
		err = set_some(srq, fresh, limit, &next);
		spin_unlock_irq(&srq->rq.lock);
		cond_resched();
	} while (err == -EAGAIN);
	mutex_unlock(&srq->resize_lock);
	return err;
}

ROE_EXPORT_FOR_TEST(roe_srq_set);

/* SRQs are not looked up by number: RC and UD never name one, XRC is not offered. */
static atomic_t numbers = ATOMIC_INIT(0);

static bool size_ok(u32 max_wr)
{
	return max_wr && max_wr <= ROE_MAX_QP_WR;
}

/**
 * roe_srq_create() - ib_device_ops.create_srq
 * @ibsrq: zeroed, device and PD set
 * @init: size requested; takes the size granted; no limit is armed here (IBTA 11.2.3.1)
 * @udata: NULL for kernel users; answer: struct rxe_create_srq_resp
 *
 * Return: 0 or negative errno.
 */
int roe_srq_create(struct ib_srq *ibsrq, struct ib_srq_init_attr *init, struct ib_udata *udata)
{
	struct rxe_create_srq_resp resp = {};
	struct ib_srq_attr *attr = &init->attr;
	struct roe_srq *srq = roe_srq(ibsrq);
	struct roe_dev *dev = roe_dev(ibsrq->device);
	int err;

	if (init->srq_type != IB_SRQT_BASIC)
		return -EOPNOTSUPP;
	if (!size_ok(attr->max_wr) || attr->max_sge > ROE_MAX_SGE ||
	    (udata && udata->outlen < sizeof(resp)))
		return -EINVAL;
	err = roe_object_add(&dev->srqs);
	if (err)
		return err;
	err = roe_srq_init(srq, attr->max_wr, attr->max_sge, roe_udata_context(udata), &resp.mi);
	resp.srq_num = atomic_inc_return(&numbers);
	if (!err && udata)
		err = ib_copy_to_udata(udata, &resp, sizeof(resp));
	if (err) {
		roe_srq_exit(srq);
		atomic_dec(&dev->srqs);
		return err;
	}
	attr->max_wr = srq->rq.max_wr;
	attr->max_sge = srq->rq.max_sge;
	return 0;
}

ROE_EXPORT_FOR_TEST(roe_srq_create);

/*
 * The library reads no response of modify_srq; it names memory of its own and maps the ring
 * that is described there (abi.md section 17). So mminfo is written there, before anything changes.
 */
static int tell_user(struct ib_udata *udata, const struct mminfo *mi)
{
	struct rxe_modify_srq_cmd cmd;

	if (udata->inlen < sizeof(cmd) || ib_copy_from_udata(&cmd, udata, sizeof(cmd)))
		return -EINVAL;
	if (copy_to_user(u64_to_user_ptr(cmd.mmap_info_addr), mi, sizeof(*mi)))
		return -EFAULT;
	return 0;
}

static int make_queue(const struct roe_srq *srq, struct roe_rq *fresh, u32 max_wr,
		      struct ib_udata *udata)
{
	struct mminfo mi = {};
	int err;

	if (!size_ok(max_wr) || !udata != !srq->rq.ring)
		return -EINVAL;
	err = roe_rq_init(fresh, max_wr, srq->rq.max_sge, roe_udata_context(udata), &mi);
	return err ?: udata ? tell_user(udata, &mi) : 0;
}

/**
 * roe_srq_modify() - ib_device_ops.modify_srq
 * @ibsrq: the SRQ
 * @attr: max_wr, srq_limit
 * @mask: which of them are set
 * @udata: of the process, NULL for kernel users
 *
 * Return: 0, or negative errno, then nothing has changed.
 */
int roe_srq_modify(struct ib_srq *ibsrq, struct ib_srq_attr *attr, enum ib_srq_attr_mask mask,
		   struct ib_udata *udata)
{
	const u32 *limit = mask & IB_SRQ_LIMIT ? &attr->srq_limit : NULL;
	struct roe_srq *srq = roe_srq(ibsrq);
	struct roe_rq fresh = {};
	int err;

	if (!(mask & IB_SRQ_MAX_WR))
		return roe_srq_set(srq, NULL, limit);
	err = make_queue(srq, &fresh, attr->max_wr, udata);
	if (!err)
		err = roe_srq_set(srq, &fresh, limit);
	roe_rq_exit(&fresh);
	return err;
}

/**
 * roe_srq_query() - ib_device_ops.query_srq
 * @ibsrq: the SRQ
 * @attr: takes size and limit; the limit is 0 once its event was raised
 *
 * Return: 0.
 */
int roe_srq_query(struct ib_srq *ibsrq, struct ib_srq_attr *attr)
{
	struct roe_srq *srq = roe_srq(ibsrq);
	unsigned long flags;

	spin_lock_irqsave(&srq->rq.lock, flags);
	attr->max_wr = srq->rq.max_wr;
	attr->max_sge = srq->rq.max_sge;
	attr->srq_limit = srq->limit;
	spin_unlock_irqrestore(&srq->rq.lock, flags);
	return 0;
}

/**
 * roe_srq_destroy() - ib_device_ops.destroy_srq
 * @ibsrq: no QP uses it: the core has checked that
 * @udata: unused
 *
 * Return: 0.
 */
int roe_srq_destroy(struct ib_srq *ibsrq, struct ib_udata *udata)
{
	roe_srq_exit(roe_srq(ibsrq));
	atomic_dec(&roe_dev(ibsrq->device)->srqs);
	return 0;
}

ROE_EXPORT_FOR_TEST(roe_srq_destroy);

/**
 * roe_srq_post_recv() - ib_device_ops.post_srq_recv
 * @ibsrq: of a kernel user; WQEs of a process are in its ring already
 * @wr: list
 * @bad: first request not posted
 *
 * Any context.
 *
 * Return: 0, -EINVAL, -ENOMEM.
 */
int roe_srq_post_recv(struct ib_srq *ibsrq, const struct ib_recv_wr *wr,
		      const struct ib_recv_wr **bad)
{
	struct roe_srq *srq = roe_srq(ibsrq);

	if (ibsrq->uobject) {
		*bad = wr;
		return -EINVAL;
	}
	return roe_rq_post(&srq->rq, wr, bad);
}
