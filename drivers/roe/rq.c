// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Queues of receive WQEs, between the user that posts them and the responder that fills them. A
 * user's WQE is read into a private copy, like a send WQE, because the process may write to its
 * ring at any time; an error found in it is reported by its completion. One that is left in the
 * ring, as it was too short for a datagram, is read and checked anew for the next.
 */
#include <linux/slab.h>
#include <roe/wire.h>
#include "rq.h"

/**
 * roe_rq_init() - make an empty queue
 * @rq: zeroed
 * @max_wr: WQEs that it must hold; it may hold more
 * @max_sge: SGEs of each
 * @uctx: of the process that posts, NULL for a kernel user
 * @mi: takes how the process maps the ring; with @uctx only
 *
 * Process context.
 *
 * Return: 0 or negative errno; roe_rq_exit() must be called in any case.
 */
int roe_rq_init(struct roe_rq *rq, u32 max_wr, u32 max_sge, struct ib_ucontext *uctx,
		struct mminfo *mi)
{
	struct roe_ring *ring;

	spin_lock_init(&rq->lock);
	rq->max_sge = max_t(u32, max_sge, 1);
	rq->mask = roundup_pow_of_two(max_wr + 1) - 1;
	if (uctx) {
		/* the library maps a ring in any case (abi.md section 1, rule 4) */
		ring = roe_ring_create(max_t(u32, max_wr, 1), sizeof(struct rxe_recv_wqe) +
				       rq->max_sge * sizeof(struct rxe_sge), uctx, mi);
		if (IS_ERR(ring))
			return PTR_ERR(ring);
		rq->ring = ring;
		rq->mask = ring->mask;
	} else {
		rq->slots = kvcalloc(rq->mask + 1, sizeof(*rq->slots), GFP_KERNEL);
		if (!rq->slots)
			return -ENOMEM;
	}
	rq->max_wr = rq->mask;
	return 0;
}

ROE_EXPORT_FOR_TEST(roe_rq_init);

/**
 * roe_rq_exit() - free a queue that nobody uses any more
 * @rq: the queue; roe_rq_init() may have failed; may be all zero
 */
void roe_rq_exit(struct roe_rq *rq)
{
	roe_ring_destroy(rq->ring);
	kvfree(rq->slots);
}

ROE_EXPORT_FOR_TEST(roe_rq_exit);

/**
 * roe_rq_pending() - number of WQEs posted and not taken
 * @rq: the caller is the only taker, or takers are locked out
 *
 * Return: at most max_wr, whatever a process has written.
 */
u32 roe_rq_pending(const struct roe_rq *rq)
{
	if (rq->ring)
		return roe_ring_pending(rq->ring);
	/* pairs with the release in post_one() */
	return smp_load_acquire(&rq->prod) - rq->cons;
}

ROE_EXPORT_FOR_TEST(roe_rq_pending);

/* Copy an element of a user's ring; each field is read once. */
static void copy_from_ring(const struct roe_rq *rq, struct roe_rwqe *rwqe, const void *slot)
{
	const struct rxe_sge *src = slot + sizeof(struct rxe_recv_wqe);
	const struct rxe_recv_wqe *u = slot;
	u32 num = READ_ONCE(u->dma.num_sge);
	u64 sum = 0;
	u32 i;

	rwqe->wr_id = READ_ONCE(u->wr_id);
	rwqe->num_sge = 0;
	rwqe->length = 0;
	rwqe->status = IB_WC_SUCCESS;
	if (num > rq->max_sge) {
		rwqe->status = IB_WC_LOC_QP_OP_ERR;
		return;
	}
	for (i = 0; i < num; i++) {
		rwqe->sge[i].addr = READ_ONCE(src[i].addr);
		rwqe->sge[i].len = READ_ONCE(src[i].length);
		rwqe->sge[i].lkey = READ_ONCE(src[i].lkey);
		sum += rwqe->sge[i].len;
	}
	rwqe->num_sge = i;
	rwqe->length = min_t(u64, sum, ROE_MSG_MAX);
}

static void copy_from_slot(struct roe_rq *rq, struct roe_rwqe *rwqe)
{
	const struct roe_rwqe *src = &rq->slots[rq->cons & rq->mask];

	memcpy(rwqe, src, offsetof(struct roe_rwqe, sge) + src->num_sge * sizeof(*src->sge));
}

/* Copy the oldest element, which stays in the queue. */
static void peek(struct roe_rq *rq, struct roe_rwqe *rwqe)
{
	if (rq->ring)
		copy_from_ring(rq, rwqe, roe_ring_peek(rq->ring, 0));
	else
		copy_from_slot(rq, rwqe);
}

/**
 * roe_rq_take() - take the oldest WQE
 * @rq: of an SRQ: rq.lock held; of a QP: qp->lock held
 * @rwqe: takes the copy; status tells whether it can be used
 * @least: bytes that the WQE must have room for; a shorter one stays in the queue
 *
 * Return: false if no WQE is posted, or the oldest one is too short.
 */
bool roe_rq_take(struct roe_rq *rq, struct roe_rwqe *rwqe, u32 least)
{
	if (!roe_rq_pending(rq))
		return false;
	peek(rq, rwqe);
	/* a malformed WQE has no length; it is taken and reported */
	if (rwqe->status == IB_WC_SUCCESS && rwqe->length < least)
		return false;
	if (rq->ring) {
		roe_ring_release(rq->ring, 1);
		rq->cons++;
	} else {
		/* pairs with the acquire in post_one(): the slot may be filled again */
		smp_store_release(&rq->cons, rq->cons + 1);
	}
	return true;
}

static int post_one(struct roe_rq *rq, const struct ib_recv_wr *wr)
{
	struct roe_rwqe *rwqe = &rq->slots[rq->prod & rq->mask];
	u64 sum = 0;
	int i;

	if (wr->num_sge < 0 || wr->num_sge > rq->max_sge)
		return -EINVAL;
	/* pairs with the release in roe_rq_take() */
	if (rq->prod - smp_load_acquire(&rq->cons) >= rq->max_wr)
		return -ENOMEM;
	for (i = 0; i < wr->num_sge; i++) {
		rwqe->sge[i].addr = wr->sg_list[i].addr;
		rwqe->sge[i].len = wr->sg_list[i].length;
		rwqe->sge[i].lkey = wr->sg_list[i].lkey;
		sum += wr->sg_list[i].length;
	}
	if (sum > ROE_MSG_MAX)
		return -EINVAL;
	rwqe->wr_id = wr->wr_id;
	rwqe->num_sge = wr->num_sge;
	rwqe->status = IB_WC_SUCCESS;
	rwqe->length = sum;
	/* pairs with the acquire in roe_rq_pending() */
	smp_store_release(&rq->prod, rq->prod + 1);
	return 0;
}

/**
 * roe_rq_post() - post receives of a kernel user
 * @rq: without a ring
 * @wr: list
 * @bad: first request not posted
 *
 * Any context.
 *
 * Return: 0, -EINVAL, -ENOMEM.
 */
int roe_rq_post(struct roe_rq *rq, const struct ib_recv_wr *wr, const struct ib_recv_wr **bad)
{
	unsigned long irqflags;
	int err = 0;

	spin_lock_irqsave(&rq->lock, irqflags);
	for (; wr; wr = wr->next) {
		err = post_one(rq, wr);
		if (err) {
			*bad = wr;
			break;
		}
	}
	spin_unlock_irqrestore(&rq->lock, irqflags);
	return err;
}

ROE_EXPORT_FOR_TEST(roe_rq_post);

/**
 * roe_rq_discard() - drop all posted WQEs
 * @rq: as for roe_rq_take()
 */
void roe_rq_discard(struct roe_rq *rq)
{
	if (rq->ring)
		roe_ring_release(rq->ring, roe_ring_pending(rq->ring));
	rq->cons = rq->prod;
}

/* Copy an element as it is: it is checked when it is taken. */
static void copy_posted(const struct roe_rq *rq, struct roe_rq *to, u32 n)
{
	if (rq->ring)
		memcpy(roe_ring_slot(to->ring, to->prod), roe_ring_peek(rq->ring, n),
		       BIT(to->ring->log2));
	else
		to->slots[to->prod & to->mask] = rq->slots[(rq->cons + n) & rq->mask];
	to->prod++;
}

/**
 * roe_rq_swap() - give a queue another size and keep the posted WQEs
 * @rq: lock held
 * @fresh: initialised, empty, of the same kind, with as many SGEs; takes the old ring or
 *	   array
 * @next: index, as rq.cons counts, of the element to be moved next: for the first call any value
 *	  not after rq.cons, then the value that the last call has left there
 *
 * There may be a hundred thousand WQEs, so only some are moved per call; between calls WQEs may be
 * taken.
 *
 * Return: 0; -EAGAIN: drop the lock and call again; -EINVAL if more WQEs are posted than
 * @fresh holds, then nothing has changed.
 */
int roe_rq_swap(struct roe_rq *rq, struct roe_rq *fresh, u32 *next)
{
	u32 pending = roe_rq_pending(rq), end = rq->cons + pending, n;

	if (pending > fresh->max_wr)
		return -EINVAL;
	if ((s32)(rq->cons - *next) > 0)
		*next = rq->cons;
	for (n = 0; (s32)(end - *next) > 0 && n < ROE_RING_BATCH; n++, ++*next)
		copy_posted(rq, fresh, *next - rq->cons);
	if ((s32)(end - *next) > 0)
		return -EAGAIN;
	fresh->cons = fresh->prod - (*next - rq->cons);
	if (fresh->ring)
		roe_ring_set_posted(fresh->ring, fresh->cons, fresh->prod);
	swap(rq->ring, fresh->ring);
	swap(rq->slots, fresh->slots);
	swap(rq->max_wr, fresh->max_wr);
	swap(rq->mask, fresh->mask);
	swap(rq->prod, fresh->prod);
	swap(rq->cons, fresh->cons);
	return 0;
}

ROE_EXPORT_FOR_TEST(roe_rq_swap);
