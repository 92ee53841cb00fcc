/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Completion queues. One spinlock (irqsave: kernel users poll from any context)
 * guards all state; it is the innermost lock, taken inside qp->lock. The
 * completion handler is called without any lock held, by roe_cq_notify() or its
 * worker.
 */
#ifndef ROE_CQ_H
#define ROE_CQ_H

#include <linux/hrtimer.h>
#include <linux/mutex.h>
#include <linux/spinlock.h>
#include <linux/workqueue.h>
#include <rdma/ib_verbs.h>
#include "ring.h"

#define ROE_CQ_MAX_CQE		((1 << 22) - 1)

struct roe_cq {
	struct ib_cq		ib;
	spinlock_t		lock;	/* guards all fields below, unless noted */
	struct roe_ring		*ring;	/* user CQ: struct ib_uverbs_wc elements */
	struct ib_wc		*wc;	/* kernel CQ: array of wc_mask + 1 */
	u32			wc_mask, wc_prod, wc_cons;
	u32			reserved;	/* entries for its QPs beside ib.cqe; resize_lock */
	u32			wc_hole, wc_hole_end;	/* roe_cq_forget(): void entries between */
	u32			added;		/* completions added so far ... */
	u32			announced;	/* ... value of added at the last event ... */
	u32			solicited;	/* ... and at the last solicited or failed one */
	u32			user_cons;	/* last plausible consumer index of the user */
	u8			armed;		/* enum ib_cq_notify_flags bits, 0: not armed */
	bool			overrun;	/* CQ error: no completion is added any more */
	bool			lossy;		/* no error, completions are lost if full; const */
	u16			mod_count;	/* moderation: completions for an event ... */
	u16			mod_period;	/* ... or us that it waits */
	u32			held;		/* completions whose event waits */
	struct mutex		resize_lock;	/* one resize, forget or reserve at a time */
	struct hrtimer		mod_timer;	/* softirq */
	struct work_struct	error_work;	/* raises IB_EVENT_CQ_ERR once */
	struct work_struct	notify_work;	/* calls a kernel user's handler ... */
	unsigned long		owed;		/* ... if such a call is owed: bit 0, atomic */
};

/* A successful completion, reduced to the fields that an ordinary one has. */
struct roe_done {
	u64			wr_id;
	u32			byte_len;
	u32			src_qp;
	union {
		__be32		imm_data;
		u32		invalidate_rkey;
	};
	u8			opcode;		/* enum ib_wc_opcode */
	u8			wc_flags;	/* enum ib_wc_flags */
	u8			port_num;
	bool			solicited;
};

#define ROE_CQ_BATCH	32

/* Completions of one run of a QP, in order; all for one CQ. */
struct roe_cq_batch {
	struct roe_cq		*cq;
	unsigned int		n;
	struct roe_done		done[ROE_CQ_BATCH];
};

static inline struct roe_cq *roe_cq(struct ib_cq *ibcq)
{
	return container_of(ibcq, struct roe_cq, ib);
}

enum roe_cq_result {
	ROE_CQ_OK	= 0,
	ROE_CQ_NOTIFY	= 1,	/* caller owes roe_cq_notify() once unlocked */
	ROE_CQ_OVERRUN	= 2,	/* not added; the QP goes to ERR, QP_FATAL */
};

/*
 * A worker for handlers and events. Writeback of dirty pages over this device waits for them, so
 * they must not wait for memory: WQ_MEM_RECLAIM.
 */
int roe_notify_init(void);
void roe_notify_exit(void);
void roe_notify_queue(struct work_struct *work);

/*
 * Add a completion (kernel flags and values; translated for user CQs).
 * @solicited: SE of the last packet; an error counts as solicited (wire.md 8).
 * Any context, qp->lock may be held. Takes cq->lock.
 */
enum roe_cq_result roe_cq_post(struct roe_cq *cq, const struct ib_wc *wc, bool solicited);
/* The same for many completions of one QP at once; returns bits of enum roe_cq_result. */
unsigned int roe_cq_post_batch(const struct roe_cq_batch *batch, struct ib_qp *qp);
/* Completions nobody has polled yet; takes cq->lock. */
u32 roe_cq_unpolled(struct roe_cq *cq);
void roe_cq_notify(struct roe_cq *cq, bool may_call);
/*
 * Remove the completions that a kernel user's QP has left in a CQ when it is destroyed or reset,
 * since each of them points to the QP. Those of a process stay there, as IBTA allows.
 */
void roe_cq_forget(struct roe_cq *cq, const struct ib_qp *qp);
void roe_cq_settle(struct roe_cq *cq);
int roe_cq_reserve(struct roe_cq *cq, u32 n);
void roe_cq_release(struct roe_cq *cq, u32 n);

/* A CQ without a device: shared by the verbs below and KUnit. */
int roe_cq_init_kernel(struct roe_cq *cq, u32 entries);
int roe_cq_init_user(struct roe_cq *cq, u32 entries, struct ib_ucontext *uctx,
		     struct mminfo *mi);
void roe_cq_exit(struct roe_cq *cq);
/*
 * Move the completions that the user has not polled yet into @ring, which belongs to the CQ from
 * then on. Returns the old ring, which the caller owns now; ERR_PTR(-EINVAL) if @ring is too
 * small. Process context.
 */
struct roe_ring *roe_cq_swap_ring(struct roe_cq *cq, struct roe_ring *ring);

/* verbs */
int roe_cq_create(struct ib_cq *ibcq, const struct ib_cq_init_attr *attr,
		  struct ib_udata *udata);
int roe_cq_destroy(struct ib_cq *ibcq, struct ib_udata *udata);
int roe_cq_resize(struct ib_cq *ibcq, unsigned int cqe, struct ib_udata *udata);
int roe_cq_poll(struct ib_cq *ibcq, int num, struct ib_wc *wc);
int roe_cq_arm(struct ib_cq *ibcq, enum ib_cq_notify_flags flags);
int roe_cq_moderate(struct ib_cq *ibcq, u16 count, u16 period);

#endif /* ROE_CQ_H */
