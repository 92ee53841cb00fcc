// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Completion queues: an array of struct ib_wc for kernel users, a shared ring
 * of struct ib_uverbs_wc for processes, which poll it without a system call.
 */
#include <linux/log2.h>
#include <linux/mm.h>
#include <linux/sched/mm.h>
#include "cq.h"
#include "device.h"

static_assert(sizeof(struct ib_uverbs_wc) == 48);

/* IBV_WC_WITH_INV of libibverbs, which has no name in the kernel's headers. */
#define USER_WC_WITH_INV	BIT(3)

/* --- the worker ------------------------------------------------------------ */

static struct workqueue_struct *notify_wq;

int roe_notify_init(void)
{
	/* like the core's workqueue, which the handlers wake: they take hardly any time here */
	notify_wq = alloc_workqueue("roe_notify", WQ_PERCPU | WQ_HIGHPRI | WQ_MEM_RECLAIM, 0);
	return notify_wq ? 0 : -ENOMEM;
}

void roe_notify_exit(void)
{
	destroy_workqueue(notify_wq);
}

/**
 * roe_notify_queue - have a worker call a completion handler or raise an event
 * @work: work that does that
 *
 * Context: any.
 */
void roe_notify_queue(struct work_struct *work)
{
	queue_work(notify_wq, work);
}

/* --- adding a completion --------------------------------------------------- */

/*
 * The user's flags agree with the kernel's in bits 0 and 1 only: "with
 * invalidate" is another bit, and the other kernel bits mean something else in
 * user space.
 */
static u32 user_wc_flags(int flags)
{
	u32 user = flags & (IB_WC_GRH | IB_WC_WITH_IMM);

	if (flags & IB_WC_WITH_INVALIDATE)
		user |= USER_WC_WITH_INV;
	return user;
}

/*
 * RoCE has no SL on the wire, so for processes the field has what hardware puts there: bit 3: there
 * is a UDP header; bits 2:0: network header, 1 IPv6, 2 IPv4. UCX derives from it where in the first
 * 40 bytes the destination address is.
 */
static u8 user_sl(const struct ib_wc *wc)
{
	if (!(wc->wc_flags & IB_WC_WITH_NETWORK_HDR_TYPE))
		return wc->sl;
	return 8 | (wc->network_hdr_type == RDMA_NETWORK_IPV4 ? 2 : 1);
}

static void fill_user_wc(struct ib_uverbs_wc *uwc, const struct ib_wc *wc)
{
	uwc->wr_id = wc->wr_id;
	uwc->status = wc->status;
	uwc->opcode = wc->opcode;
	uwc->vendor_err = wc->vendor_err;
	uwc->byte_len = wc->byte_len;
	uwc->qp_num = wc->qp ? wc->qp->qp_num : 0;
	uwc->src_qp = wc->src_qp;
	uwc->wc_flags = user_wc_flags(wc->wc_flags);
	uwc->pkey_index = wc->pkey_index;
	uwc->slid = wc->slid;
	uwc->sl = user_sl(wc);
	uwc->dlid_path_bits = wc->dlid_path_bits;
	uwc->port_num = wc->port_num;
	uwc->reserved = 0;
	if (wc->wc_flags & IB_WC_WITH_INVALIDATE)
		uwc->ex.invalidate_rkey = wc->ex.invalidate_rkey;
	else
		uwc->ex.imm_data = wc->ex.imm_data;
}

/* Number of completions in the ring that the user has not polled yet. */
static u32 user_unpolled(struct roe_cq *cq)
{
	cq->user_cons = roe_ring_consumer(cq->ring, cq->user_cons);
	return (cq->ring->prod - cq->user_cons) & cq->ring->mask;
}

static bool add_user(struct roe_cq *cq, const struct ib_wc *wc)
{
	if (user_unpolled(cq) == roe_ring_capacity(cq->ring))
		return false;

	fill_user_wc(roe_ring_next(cq->ring), wc);
	roe_ring_publish(cq->ring);
	cq->added++;
	return true;
}

/* Number of completions that a kernel user has not polled yet. */
static u32 kernel_unpolled(const struct roe_cq *cq)
{
	return cq->wc_prod - cq->wc_cons - (cq->wc_hole_end - cq->wc_hole);
}

static bool add_kernel(struct roe_cq *cq, const struct ib_wc *wc)
{
	if (cq->wc_prod - cq->wc_cons > cq->wc_mask)
		return false;

	cq->wc[cq->wc_prod++ & cq->wc_mask] = *wc;
	cq->added++;
	return true;
}

/* Moderation, one event for many completions: does this one's wait? That of an error does not. */
static bool hold(struct roe_cq *cq, enum ib_wc_status status)
{
	if (cq->mod_count <= 1 || !cq->mod_period || status != IB_WC_SUCCESS)
		return false;
	if (++cq->held >= cq->mod_count)
		return false;
	if (cq->held == 1)
		hrtimer_start(&cq->mod_timer, ns_to_ktime(cq->mod_period * NSEC_PER_USEC),
			      HRTIMER_MODE_REL_SOFT);
	return true;
}

/* An event is raised, for all completions added so far. */
static void disarm(struct roe_cq *cq)
{
	cq->armed = 0;
	cq->held = 0;
	cq->announced = cq->added;
}

/* Does this completion raise an event? An arm is good for one; NEXT_COMP includes SOLICITED. */
static bool take_arm(struct roe_cq *cq, enum ib_wc_status status, bool solicited)
{
	if (!(cq->armed & IB_CQ_NEXT_COMP) &&
	    !(cq->armed & IB_CQ_SOLICITED && solicited))
		return false;
	if (hold(cq, status))
		return false;
	disarm(cq);
	return true;
}

/**
 * roe_cq_post - add a completion
 * @cq: completion queue
 * @wc: the completion, with the kernel's flags and values
 * @solicited: the last packet of the message asked for an event
 *
 * Context: any; takes cq->lock, the QP's lock may be held.
 * Return: what the caller owes, enum roe_cq_result.
 */
enum roe_cq_result roe_cq_post(struct roe_cq *cq, const struct ib_wc *wc,
			       bool solicited)
{
	enum roe_cq_result result = ROE_CQ_OK;
	unsigned long flags;

	solicited |= wc->status != IB_WC_SUCCESS;
	spin_lock_irqsave(&cq->lock, flags);
	if (cq->overrun) {
		result = ROE_CQ_OVERRUN;
	} else if (!(cq->ring ? add_user(cq, wc) : add_kernel(cq, wc)) && !cq->lossy) {
		cq->overrun = true;
		roe_notify_queue(&cq->error_work);
		result = ROE_CQ_OVERRUN;
	} else {
		if (solicited)
			cq->solicited = cq->added;
		if (take_arm(cq, wc->status, solicited))
			result = ROE_CQ_NOTIFY;
	}
	spin_unlock_irqrestore(&cq->lock, flags);
	return result;
}

ROE_EXPORT_FOR_TEST(roe_cq_post);

static void fill_wc_done(struct ib_wc *wc, struct ib_qp *qp, const struct roe_done *done)
{
	*wc = (struct ib_wc) {
		.wr_id		= done->wr_id,
		.status		= IB_WC_SUCCESS,
		.opcode		= done->opcode,
		.byte_len	= done->byte_len,
		.qp		= qp,
		.ex.imm_data	= done->imm_data,
		.src_qp		= done->src_qp,
		.wc_flags	= done->wc_flags,
		.port_num	= done->port_num,
	};
}

static void fill_user_done(struct ib_uverbs_wc *uwc, const struct ib_qp *qp,
			   const struct roe_done *done)
{
	uwc->wr_id = done->wr_id;
	uwc->status = IB_WC_SUCCESS;
	uwc->opcode = done->opcode;
	uwc->vendor_err = 0;
	uwc->byte_len = done->byte_len;
	uwc->ex.imm_data = done->imm_data;
	uwc->qp_num = qp->qp_num;
	uwc->src_qp = done->src_qp;
	uwc->wc_flags = user_wc_flags(done->wc_flags);
	uwc->pkey_index = 0;
	uwc->slid = 0;
	uwc->sl = 0;
	uwc->dlid_path_bits = 0;
	uwc->port_num = done->port_num;
	uwc->reserved = 0;
}

/* Returns how many completions found room. */
static unsigned int add_batch(struct roe_cq *cq, struct ib_qp *qp,
			      const struct roe_cq_batch *batch)
{
	unsigned int n, i;

	if (!cq->ring) {
		n = min(batch->n, cq->wc_mask + 1 - (cq->wc_prod - cq->wc_cons));
		for (i = 0; i < n; i++)
			fill_wc_done(&cq->wc[cq->wc_prod++ & cq->wc_mask], qp, &batch->done[i]);
		cq->added += n;
		return n;
	}
	n = min(batch->n, roe_ring_capacity(cq->ring) - user_unpolled(cq));
	for (i = 0; i < n; i++)
		fill_user_done(roe_ring_slot(cq->ring, cq->ring->prod + i), qp,
			       &batch->done[i]);
	roe_ring_publish_many(cq->ring, n);
	cq->added += n;
	return n;
}

/**
 * roe_cq_post_batch - add completions, with one read of the user's index
 * @batch: at least one completion
 * @qp: QP of the completions
 *
 * Context: as roe_cq_post(). The result is that of roe_cq_post() for each in turn; what finds no
 * room in a CQ that may lose completions stands for the last one that did.
 * Return: what the caller owes, bits of enum roe_cq_result.
 */
unsigned int roe_cq_post_batch(const struct roe_cq_batch *batch, struct ib_qp *qp)
{
	struct roe_cq *cq = batch->cq;
	unsigned int owed = ROE_CQ_OK, n = 0, added, i;
	unsigned long flags;

	spin_lock_irqsave(&cq->lock, flags);
	if (!cq->overrun)
		n = add_batch(cq, qp, batch);
	added = n;
	if (cq->lossy)
		n = batch->n;
	if (n < batch->n && !cq->overrun) {
		cq->overrun = true;
		roe_notify_queue(&cq->error_work);
	}
	if (n < batch->n)
		owed = ROE_CQ_OVERRUN;
	for (i = 0; i < n; i++) {
		if (batch->done[i].solicited)
			cq->solicited = cq->added - added + min(i + 1, added);
		if (cq->armed && take_arm(cq, IB_WC_SUCCESS, batch->done[i].solicited))
			owed |= ROE_CQ_NOTIFY;
	}
	spin_unlock_irqrestore(&cq->lock, flags);
	return owed;
}

ROE_EXPORT_FOR_TEST(roe_cq_post_batch);

/**
 * roe_cq_unpolled - how many completions wait to be polled
 * @cq: completion queue
 *
 * Context: any; takes cq->lock.
 * Return: their number, which may be out of date at once.
 */
u32 roe_cq_unpolled(struct roe_cq *cq)
{
	unsigned long flags;
	u32 n;

	spin_lock_irqsave(&cq->lock, flags);
	n = cq->ring ? user_unpolled(cq) : kernel_unpolled(cq);
	spin_unlock_irqrestore(&cq->lock, flags);
	return n;
}

ROE_EXPORT_FOR_TEST(roe_cq_unpolled);

static void call_handler(struct roe_cq *cq)
{
	if (cq->ib.comp_handler)
		cq->ib.comp_handler(&cq->ib, cq->ib.cq_context);
}

/*
 * Call the handler if a call is owed: whoever clears the bit calls, the worker or roe_cq_settle(),
 * which has cancelled the worker. With softirqs disabled: a softirq that the handler raises, as for
 * a CQ of IB_POLL_SOFTIRQ, runs in local_bh_enable() and does not wait for ksoftirqd.
 */
static void pay(struct roe_cq *cq)
{
	if (!test_and_clear_bit(0, &cq->owed))
		return;
	local_bh_disable();
	call_handler(cq);
	local_bh_enable();
}

static void notify_late(struct work_struct *work)
{
	pay(container_of(work, struct roe_cq, notify_work));
}

/**
 * roe_cq_notify - call the completion handler, after roe_cq_post() asked for it
 * @cq: completion queue
 * @may_call: the caller is not inside a post of a kernel user, who may hold a lock that the
 *	handler takes; if false a worker calls the handler of a kernel user
 *
 * Context: any, no lock of roe held: the handler may poll, arm and post.
 */
void roe_cq_notify(struct roe_cq *cq, bool may_call)
{
	if (cq->ring || may_call) {
		call_handler(cq);
		return;
	}
	/* the bit first: while roe_cq_settle() cancels the work queue_work() does nothing */
	set_bit(0, &cq->owed);
	roe_notify_queue(&cq->notify_work);
}

ROE_EXPORT_FOR_TEST(roe_cq_notify);

/* Event handlers may sleep, completions come in softirqs: hence a worker. */
static void raise_error(struct work_struct *work)
{
	struct roe_cq *cq = container_of(work, struct roe_cq, error_work);
	struct ib_event event = {
		.device		= cq->ib.device,
		.element.cq	= &cq->ib,
		.event		= IB_EVENT_CQ_ERR,
	};

	ibdev_dbg(cq->ib.device, "CQ of %d entries overrun\n", cq->ib.cqe);
	if (cq->ib.event_handler)
		cq->ib.event_handler(&event, cq->ib.cq_context);
}

/* The first completion held back by moderation has waited for a whole period. */
static enum hrtimer_restart end_period(struct hrtimer *timer)
{
	struct roe_cq *cq = container_of(timer, struct roe_cq, mod_timer);
	unsigned long flags;
	bool due;

	spin_lock_irqsave(&cq->lock, flags);
	due = cq->held;
	if (due)
		disarm(cq);
	spin_unlock_irqrestore(&cq->lock, flags);
	if (due)
		roe_cq_notify(cq, true);
	return HRTIMER_NORESTART;
}

/**
 * roe_cq_settle() - make the handler calls of a kernel user that are still owed
 * @cq: of a QP that goes; nothing is done if a process polls the CQ
 *
 * ib_free_cq() stops polling, and frees what polling needs, before it calls destroy_cq. A handler
 * called after that, by the worker or at the end of a moderation period, would start polling again.
 * So no call may be owed any more once the last QP of the CQ has gone.
 *
 * Context: process, may sleep: waits for a handler that is running, not for the worker.
 */
void roe_cq_settle(struct roe_cq *cq)
{
	if (cq->ring)
		return;
	if (hrtimer_cancel(&cq->mod_timer)) {
		/* with softirqs disabled, as the timer would */
		local_bh_disable();
		end_period(&cq->mod_timer);
		local_bh_enable();
	}
	/* other QPs of this CQ may go on meanwhile: calls owed to them are made as well */
	cancel_work_sync(&cq->notify_work);
	pay(cq);
}

ROE_EXPORT_FOR_TEST(roe_cq_settle);

/* --- life ------------------------------------------------------------------ */

static void init_common(struct roe_cq *cq)
{
	spin_lock_init(&cq->lock);
	mutex_init(&cq->resize_lock);
	hrtimer_setup(&cq->mod_timer, end_period, CLOCK_MONOTONIC, HRTIMER_MODE_REL_SOFT);
	INIT_WORK(&cq->error_work, raise_error);
	INIT_WORK(&cq->notify_work, notify_late);
}

/**
 * roe_cq_init_kernel - make a CQ for a kernel user
 * @cq: zeroed
 * @entries: completions it must hold, at least 1
 *
 * Return: 0 or -ENOMEM.
 */
int roe_cq_init_kernel(struct roe_cq *cq, u32 entries)
{
	u32 slots = roundup_pow_of_two(entries);

	init_common(cq);
	cq->wc = kvcalloc(slots, sizeof(*cq->wc), GFP_KERNEL);
	if (!cq->wc)
		return -ENOMEM;

	cq->wc_mask = slots - 1;
	cq->ib.cqe = slots;
	return 0;
}

ROE_EXPORT_FOR_TEST(roe_cq_init_kernel);

/**
 * roe_cq_init_user - make a CQ whose completions lie in a shared ring
 * @cq: zeroed
 * @entries: completions it must hold, at least 1
 * @uctx: user context that may map the ring; NULL in KUnit
 * @mi: takes how to map the ring; with @uctx only
 *
 * Return: 0 or a negative errno.
 */
int roe_cq_init_user(struct roe_cq *cq, u32 entries, struct ib_ucontext *uctx,
		     struct mminfo *mi)
{
	struct roe_ring *ring;

	init_common(cq);
	ring = roe_ring_create(entries, sizeof(struct ib_uverbs_wc), uctx, mi);
	if (IS_ERR(ring))
		return PTR_ERR(ring);

	cq->ring = ring;
	cq->ib.cqe = roe_ring_capacity(ring);
	return 0;
}

ROE_EXPORT_FOR_TEST(roe_cq_init_user);

/**
 * roe_cq_exit - free what roe_cq_init_*() has allocated
 * @cq: no QP uses it any more
 *
 * Context: process; waits for an event that is being raised.
 */
void roe_cq_exit(struct roe_cq *cq)
{
	struct roe_ring *ring = cq->ring;
	unsigned long flags;

	hrtimer_cancel(&cq->mod_timer);
	cancel_work_sync(&cq->error_work);
	cancel_work_sync(&cq->notify_work);
	/* "rdma resource" of an older core shows the CQ until destroy_cq has returned */
	spin_lock_irqsave(&cq->lock, flags);
	cq->ring = NULL;
	spin_unlock_irqrestore(&cq->lock, flags);
	roe_ring_destroy(ring);
	kvfree(cq->wc);
}

ROE_EXPORT_FOR_TEST(roe_cq_exit);

static int create_user(struct roe_cq *cq, u32 entries, struct ib_udata *udata)
{
	struct rxe_create_cq_resp resp = {};
	int err;

	if (udata->outlen < sizeof(resp))
		return -EINVAL;

	err = roe_cq_init_user(cq, entries, roe_udata_context(udata), &resp.mi);
	if (err)
		return err;

	err = ib_copy_to_udata(udata, &resp, sizeof(resp));
	if (err)
		roe_cq_exit(cq);
	return err;
}

/**
 * roe_cq_create - the create_cq verb
 * @ibcq: zeroed, part of a struct roe_cq
 * @attr: size and flags
 * @udata: of a process, NULL for a kernel user
 *
 * Return: 0 or a negative errno.
 */
int roe_cq_create(struct ib_cq *ibcq, const struct ib_cq_init_attr *attr,
		  struct ib_udata *udata)
{
	struct roe_dev *dev = roe_dev(ibcq->device);
	struct roe_cq *cq = roe_cq(ibcq);
	int err;

	if (attr->flags & ~IB_UVERBS_CQ_FLAGS_IGNORE_OVERRUN)
		return -EOPNOTSUPP;
	if (attr->cqe < 1 || attr->cqe > ROE_CQ_MAX_CQE)
		return -EINVAL;
	err = roe_object_add(&dev->cqs);
	if (err)
		return err;
	cq->lossy = attr->flags & IB_UVERBS_CQ_FLAGS_IGNORE_OVERRUN;
	err = udata ? create_user(cq, attr->cqe, udata) : roe_cq_init_kernel(cq, attr->cqe);
	if (err)
		atomic_dec(&dev->cqs);
	return err;
}

ROE_EXPORT_FOR_TEST(roe_cq_create);

/**
 * roe_cq_destroy - the destroy_cq verb
 * @ibcq: no QP uses it: the core has checked that
 * @udata: not used
 *
 * Return: 0.
 */
int roe_cq_destroy(struct ib_cq *ibcq, struct ib_udata *udata)
{
	roe_cq_exit(roe_cq(ibcq));
	atomic_dec(&roe_dev(ibcq->device)->cqs);
	return 0;
}

ROE_EXPORT_FOR_TEST(roe_cq_destroy);

/*
 * Move some completions to a new ring, from number *@next on (as @added counts), and make it the
 * ring of the CQ once it has all of them. Between calls the user polls and completions are added:
 * those polled before they are moved are left out, those polled after it count as polled in the new
 * ring.
 */
static int move_some(struct roe_cq *cq, struct roe_ring *to, u32 *next)
{
	u32 unpolled = user_unpolled(cq), oldest = cq->added - unpolled, n;

	lockdep_assert_held(&cq->lock);
	if (unpolled > roe_ring_capacity(to))
		return -EINVAL;
	if ((s32)(oldest - *next) > 0)
		*next = oldest;
	for (n = 0; *next != cq->added && n < ROE_RING_BATCH; n++, ++*next) {
		memcpy(roe_ring_next(to),
		       roe_ring_slot(cq->ring, cq->ring->prod - (cq->added - *next)),
		       sizeof(struct ib_uverbs_wc));
		roe_ring_publish(to);
	}
	if (*next != cq->added)
		return -EAGAIN;
	cq->user_cons = (to->prod - unpolled) & to->mask;
	roe_ring_set_polled(to, cq->user_cons);
	cq->ring = to;
	cq->ib.cqe = roe_ring_capacity(to);
	return 0;
}

/**
 * roe_cq_swap_ring - move the unpolled completions into a ring of another size
 * @cq: a user's CQ
 * @ring: new and empty
 *
 * Context: process, may sleep: there may be millions of completions.
 * Return: the old ring, to be destroyed; ERR_PTR(-EINVAL) if @ring is too small.
 */
struct roe_ring *roe_cq_swap_ring(struct roe_cq *cq, struct roe_ring *ring)
{
	struct roe_ring *old;
	u32 next;
	int err;

	mutex_lock(&cq->resize_lock);
	old = cq->ring;
	/* not after the oldest unpolled completion, whatever is added now */
	next = READ_ONCE(cq->added) - roe_ring_capacity(old);
	do {
		spin_lock_irq(&cq->lock);
		err = move_some(cq, ring, &next);
		spin_unlock_irq(&cq->lock);
		cond_resched();
	} while (err == -EAGAIN);
	mutex_unlock(&cq->resize_lock);
	return err ? ERR_PTR(err) : old;
}

ROE_EXPORT_FOR_TEST(roe_cq_swap_ring);

/**
 * roe_cq_resize - the resize_user_cq verb
 * @ibcq: a user's CQ
 * @cqe: completions it shall hold
 * @udata: of the process
 *
 * The answer is written before anything changes: after an error the process goes
 * on with the old ring.
 *
 * Return: 0 or a negative errno.
 */
int roe_cq_resize(struct ib_cq *ibcq, unsigned int cqe, struct ib_udata *udata)
{
	struct rxe_resize_cq_resp resp = {};
	struct roe_ring *ring, *old;
	int err;

	if (cqe < 1 || cqe > ROE_CQ_MAX_CQE || !udata ||
	    udata->outlen < sizeof(resp))
		return -EINVAL;

	ring = roe_ring_create(cqe, sizeof(struct ib_uverbs_wc),
			       roe_udata_context(udata), &resp.mi);
	if (IS_ERR(ring))
		return PTR_ERR(ring);

	err = ib_copy_to_udata(udata, &resp, sizeof(resp));
	if (err)
		goto destroy_ring;

	old = roe_cq_swap_ring(roe_cq(ibcq), ring);
	if (IS_ERR(old)) {
		err = PTR_ERR(old);
		goto destroy_ring;
	}
	roe_ring_destroy(old);
	return 0;

destroy_ring:
	roe_ring_destroy(ring);
	return err;
}

/*
 * Look at some completions behind the hole, wc_hole to wc_hole_end: those of @qp from before @end
 * become part of it, all others are moved to its beginning. At the end of the queue the hole is
 * closed. Between two calls completions are added and polled, in order: polling that has come to
 * the hole goes on behind it.
 */
static bool forget_some(struct roe_cq *cq, const struct ib_qp *qp, u32 end)
{
	const struct ib_wc *wc;
	u32 n;

	lockdep_assert_held(&cq->lock);
	if ((s32)(cq->wc_cons - cq->wc_hole_end) > 0) {
		cq->wc_hole = cq->wc_cons;
		cq->wc_hole_end = cq->wc_cons;
	}
	for (n = 0; cq->wc_hole_end != cq->wc_prod && n < ROE_RING_BATCH; n++) {
		wc = &cq->wc[cq->wc_hole_end & cq->wc_mask];
		if (wc->qp != qp || (s32)(cq->wc_hole_end - end) >= 0)
			cq->wc[cq->wc_hole++ & cq->wc_mask] = *wc;
		cq->wc_hole_end++;
	}
	if (cq->wc_hole_end != cq->wc_prod)
		return true;
	cq->wc_prod = cq->wc_hole;
	cq->wc_hole_end = cq->wc_hole;
	return false;
}

/**
 * roe_cq_forget() - drop the completions that a QP has left in a CQ
 * @cq: of the QP; nothing is done if a process polls it
 * @qp: adds no more completions, or only later ones, which are not dropped
 *
 * A user that has polled some of them already has to know itself that the QP has gone.
 *
 * Context: process, may sleep: there may be millions of completions.
 */
void roe_cq_forget(struct roe_cq *cq, const struct ib_qp *qp)
{
	bool more;
	u32 end;

	if (cq->ring)
		return;
	mutex_lock(&cq->resize_lock);
	spin_lock_irq(&cq->lock);
	cq->wc_hole = cq->wc_cons;
	cq->wc_hole_end = cq->wc_cons;
	end = cq->wc_prod;
	spin_unlock_irq(&cq->lock);
	do {
		spin_lock_irq(&cq->lock);
		more = forget_some(cq, qp, end);
		spin_unlock_irq(&cq->lock);
		cond_resched();
	} while (more);
	mutex_unlock(&cq->resize_lock);
}

ROE_EXPORT_FOR_TEST(roe_cq_forget);

/*
 * Returns the old array. All at once, since few completions wait: a kernel user polls as soon as
 * there are any.
 */
static struct ib_wc *swap_array(struct roe_cq *cq, struct ib_wc *wc, u32 mask)
{
	struct ib_wc *old = cq->wc;
	u32 i;

	lockdep_assert_held(&cq->lock);
	for (i = cq->wc_cons; i != cq->wc_prod; i++)
		wc[i & mask] = old[i & cq->wc_mask];
	cq->wc = wc;
	cq->wc_mask = mask;
	return old;
}

/**
 * roe_cq_reserve() - reserve room in a kernel user's CQ, in addition to the size asked for
 * @cq: nothing is done if a process polls it
 * @n: completions
 *
 * Context: process, may sleep.
 * Return: 0 or -ENOMEM.
 */
int roe_cq_reserve(struct roe_cq *cq, u32 n)
{
	struct ib_wc *wc = NULL;
	unsigned int noio;
	u32 slots;

	if (cq->ring)
		return 0;
	mutex_lock(&cq->resize_lock);
	/*
	 * Storage controllers share CQs. The allocation must not write pages back through a
	 * controller whose QP has failed: that waits for destroy_qp, which waits for this lock.
	 */
	noio = memalloc_noio_save();
	slots = roundup_pow_of_two(cq->ib.cqe + cq->reserved + n);
	if (slots > cq->wc_mask + 1) {
		wc = kvcalloc(slots, sizeof(*wc), GFP_KERNEL);
		if (!wc) {
			memalloc_noio_restore(noio);
			mutex_unlock(&cq->resize_lock);
			return -ENOMEM;
		}
		spin_lock_irq(&cq->lock);
		wc = swap_array(cq, wc, slots - 1);
		spin_unlock_irq(&cq->lock);
	}
	cq->reserved += n;
	memalloc_noio_restore(noio);
	mutex_unlock(&cq->resize_lock);
	kvfree(wc);
	return 0;
}

ROE_EXPORT_FOR_TEST(roe_cq_reserve);

/**
 * roe_cq_release() - release room that roe_cq_reserve() has reserved, for the next QP
 * @cq: as in roe_cq_reserve()
 * @n: completions
 *
 * Context: process, may sleep.
 */
void roe_cq_release(struct roe_cq *cq, u32 n)
{
	mutex_lock(&cq->resize_lock);
	if (!cq->ring)
		cq->reserved -= n;
	mutex_unlock(&cq->resize_lock);
}

ROE_EXPORT_FOR_TEST(roe_cq_release);

/* --- use ------------------------------------------------------------------- */

/* The next completion to poll, or NULL. */
static const struct ib_wc *take(struct roe_cq *cq)
{
	if (cq->wc_cons == cq->wc_hole) {
		cq->wc_cons = cq->wc_hole_end;
		cq->wc_hole = cq->wc_hole_end;
	}
	return cq->wc_cons == cq->wc_prod ? NULL : &cq->wc[cq->wc_cons++ & cq->wc_mask];
}

/**
 * roe_cq_poll - the poll_cq verb, for kernel users
 * @ibcq: a kernel user's CQ
 * @num: most completions to take
 * @wc: where to put them
 *
 * Context: any.
 * Return: completions taken.
 */
int roe_cq_poll(struct ib_cq *ibcq, int num, struct ib_wc *wc)
{
	struct roe_cq *cq = roe_cq(ibcq);
	const struct ib_wc *next;
	unsigned long flags;
	int n;

	spin_lock_irqsave(&cq->lock, flags);
	for (n = 0; n < num && (next = take(cq)); n++)
		wc[n] = *next;
	spin_unlock_irqrestore(&cq->lock, flags);
	return n;
}

ROE_EXPORT_FOR_TEST(roe_cq_poll);

/*
 * Is an event due for completions that are there already? Only for those that are newer than the
 * last event and not polled: if older unpolled ones counted, a user that arms before it polls would
 * get two events each time.
 */
static bool arm_late(struct roe_cq *cq, u32 unpolled)
{
	u32 n = min(unpolled, cq->added - cq->announced);

	return n && !cq->held && take_arm(cq, IB_WC_SUCCESS, cq->added - cq->solicited < n);
}

/**
 * roe_cq_arm - the req_notify_cq verb
 * @ibcq: any CQ
 * @notify: IB_CQ_SOLICITED or IB_CQ_NEXT_COMP, and IB_CQ_REPORT_MISSED_EVENTS
 *
 * A completion added between the last poll and this call raises an event as well, as on NICs:
 * UCX, for one, does not poll again between arming and sleeping. Other users may get one event too
 * many, which ibv_get_cq_event(3) allows. A user that asks about missed events gets no such event,
 * but is told by the return value.
 *
 * Context: any. The event of a kernel user comes from a worker.
 * Return: 1 if missed events were asked about and the CQ is not empty, else 0.
 */
int roe_cq_arm(struct ib_cq *ibcq, enum ib_cq_notify_flags notify)
{
	struct roe_cq *cq = roe_cq(ibcq);
	bool missed = false, late = false;
	unsigned long flags;
	u32 unpolled;

	spin_lock_irqsave(&cq->lock, flags);
	cq->armed |= notify & IB_CQ_SOLICITED_MASK;
	unpolled = cq->ring ? user_unpolled(cq) : kernel_unpolled(cq);
	if (notify & IB_CQ_REPORT_MISSED_EVENTS)
		missed = unpolled;
	else
		late = arm_late(cq, unpolled);
	spin_unlock_irqrestore(&cq->lock, flags);
	if (late)
		roe_cq_notify(cq, false);
	return missed;
}

ROE_EXPORT_FOR_TEST(roe_cq_arm);

/**
 * roe_cq_moderate - the modify_cq verb
 * @ibcq: any CQ
 * @count: completions for which an event may wait; 0, 1: it does not
 * @period: us that it waits at most; 0: it does not
 *
 * Context: any. An event that waits already keeps its deadline.
 * Return: 0.
 */
int roe_cq_moderate(struct ib_cq *ibcq, u16 count, u16 period)
{
	struct roe_cq *cq = roe_cq(ibcq);
	unsigned long flags;

	spin_lock_irqsave(&cq->lock, flags);
	cq->mod_count = count;
	cq->mod_period = period;
	spin_unlock_irqrestore(&cq->lock, flags);
	return 0;
}

ROE_EXPORT_FOR_TEST(roe_cq_moderate);
