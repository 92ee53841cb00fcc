/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * A QP whose next step needs a page that is not there (on-demand paging).
 *
 * Nobody sleeps under qp->lock: the access fails, roe_fault_miss() notes the page, and the
 * engine asks roe_fault_missed() why the access failed. That function has a worker bring the
 * page, and the engine stops as if something else were in its way: the requester sends nothing
 * from there on, the responder answers RNR NAK or holds back its responses. The worker looks
 * the QP up again and lets it go on. Then the step is repeated from its beginning, and finds
 * the page, or another miss, or an error. A page that could not be had is remembered until it
 * is asked for again, or turns out to be there, or for a second, because the access that needed
 * it may not come again. If only memory for the page was short, the QP asks again by its timer.
 */
#ifndef ROE_FAULT_H
#define ROE_FAULT_H

#include <linux/types.h>
#include <linux/workqueue.h>

struct mm_struct;
struct roe_fault_process;
struct roe_ctx;
struct roe_mr;
struct roe_odp;
struct roe_qp;

/* A work that waits for its turn among those of the same process. */
struct roe_turn {
	struct work_struct		work;
	struct list_head		entry;		/* in process->waiting, or empty */
	struct roe_fault_process	*process;
};

/* Of one engine of a QP: what it waits for, or could not have; qp->lock. */
struct roe_fault {
	bool	waiting;	/* a worker is bringing a page ... */
	bool	starved;	/* ... or is asked again at qp->pages_at */
	bool	missed;		/* the failure of the last access is temporary */
	bool	failed;		/* the page below could not be had ... */
	u64	failed_until;	/* ... and is not asked for again before this, ns */
	bool	write;
	u64	odp;		/* roe_odp.id */
	u64	page;		/* address / PAGE_SIZE */
	u32	seq;		/* of the request that is under way */
	u32	shorts;		/* how often in a row there was no memory for a page */
	struct roe_odp	*wanted;	/* noted in this run, no worker knows of it yet ... */
	u64	addr, len;	/* ... what is wanted of it */
};

void roe_fault_miss(struct roe_qp *qp, struct roe_fault *fault, struct roe_mr *mr, u64 va,
		    u64 len, bool write);
void roe_fault_found(struct roe_fault *fault, const struct roe_mr *mr, u64 va, u64 len,
		     bool write);
bool roe_fault_missed(struct roe_qp *qp, struct roe_ctx *ctx, struct roe_fault *fault);
void roe_fault_done(struct roe_qp *qp, struct roe_ctx *ctx, struct roe_fault *fault, int err);
void roe_fault_again(struct roe_qp *qp);
void roe_fault_forget_qp(const struct roe_qp *qp);
void roe_fault_forget_odp(const struct roe_odp *odp);
int roe_fault_ahead(struct roe_turn *turn, const struct mm_struct *mm, bool waits);
void roe_fault_ahead_done(struct roe_turn *turn);
void roe_fault_end(struct work_struct *work);

/**
 * roe_fault_hit - an access found its pages
 * @fault: engine that made the access
 * @mr: held; any
 * @va: first byte that was accessed
 * @len: bytes
 * @write: they were written to
 */
static inline void roe_fault_hit(struct roe_fault *fault, const struct roe_mr *mr, u64 va,
				 u64 len, bool write)
{
	if (unlikely(fault->failed))
		roe_fault_found(fault, mr, va, len, write);
}

int roe_fault_init(void);
void roe_fault_exit(void);

#endif /* ROE_FAULT_H */
