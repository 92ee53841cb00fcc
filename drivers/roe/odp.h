/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * On-demand paging: memory of a process that is not pinned.
 *
 * The known pages of a region are in a table, by user address. A page enters the table when an
 * access misses it (roe_odp_fault(), may sleep) and leaves it when the process or the kernel
 * changes the mapping: the mmu notifier takes the page back and waits for running accesses
 * before the page may change hands. The table holds no page references: what is in it is mapped
 * in the process.
 *
 * The order that makes it safe: an access counts itself in (roe_odp_enter(), from
 * roe_mr_get()), then reads the table; whoever takes a page back clears the table, then waits
 * for the count. At least one of them sees the other.
 *
 * odp.c is the table, odp_user.c its connection to the process.
 */
#ifndef ROE_ODP_H
#define ROE_ODP_H

#include <linux/atomic.h>
#include <linux/mmu_notifier.h>
#include <linux/refcount.h>
#include <linux/workqueue.h>
#include <linux/xarray.h>
#include <rdma/ib_verbs.h>

struct page;
struct roe_mr;

/* Most bytes that one miss of a QP brings ahead: the rest of its message, up to this. */
#define ROE_ODP_AHEAD	(1024 * PAGE_SIZE)
/* Pages added or taken back under one hold of the lock. */
#define ROE_ODP_BATCH	32

struct roe_odp {
	struct mmu_interval_notifier	notifier;	/* all zero in KUnit */
	struct xarray	pages;		/* address / PAGE_SIZE -> page, rights; xa_lock_bh */
	refcount_t	refs;		/* the MR, each worker */
	atomic_t	users;		/* running accesses, by the MR and its windows */
	bool		closed;		/* no new access: roe_odp_take() waits too long; xa_lock */
	bool		detached;	/* set once, when its MR goes; both READ_ONCE elsewhere */
	u64		id;		/* never used again */
	struct work_struct	end;	/* queued when the last reference is gone */
	atomic64_t	faults, invalidations, prefetched;	/* pages */
};

/* An access begins; preemption off until roe_odp_leave(). */
static inline void roe_odp_enter(struct roe_odp *odp)
{
	atomic_inc(&odp->users);
	/* pairs with the first smp_mb() in wait_for_accesses() */
	smp_mb__after_atomic();
}

static inline void roe_odp_leave(struct roe_odp *odp)
{
	/* reads and writes of the access come before: pairs with wait_for_accesses() */
	smp_mb__before_atomic();
	atomic_dec(&odp->users);
}

/* odp.c */
void roe_odp_init(struct roe_odp *odp);
void *roe_odp_find(struct roe_odp *odp, u64 addr, bool write);
u64 roe_odp_missing(struct roe_odp *odp, u64 addr, u64 len, bool write);
int roe_odp_set(struct roe_odp *odp, unsigned long index, struct page *page, bool write);
unsigned int roe_odp_take(struct roe_odp *odp, unsigned long first, unsigned long last,
			  struct page **written, unsigned int *nwritten);

/* odp_user.c */
#if IS_ENABLED(CONFIG_INFINIBAND_ON_DEMAND_PAGING)
int roe_odp_attach(struct roe_mr *mr, u64 start);
struct mm_struct *roe_odp_mm(const struct roe_odp *odp);
void roe_odp_detach(struct roe_mr *mr);
long roe_odp_fault(struct roe_odp *odp, u64 addr, u64 len, unsigned int gup_flags);
void roe_odp_put(struct roe_odp *odp);
void roe_odp_caps(struct ib_device_attr *attr);
int roe_odp_advise(struct ib_pd *pd, enum ib_uverbs_advise_mr_advice advice, u32 flags,
		   struct ib_sge *sge, u32 num_sge, struct uverbs_attr_bundle *attrs);
#else
static inline int roe_odp_attach(struct roe_mr *mr, u64 start)
{
	return -EOPNOTSUPP;
}

static inline struct mm_struct *roe_odp_mm(const struct roe_odp *odp)
{
	return NULL;
}

static inline void roe_odp_detach(struct roe_mr *mr)
{
}

static inline long roe_odp_fault(struct roe_odp *odp, u64 addr, u64 len,
				 unsigned int gup_flags)
{
	return -EOPNOTSUPP;
}

static inline void roe_odp_put(struct roe_odp *odp)
{
}

static inline void roe_odp_caps(struct ib_device_attr *attr)
{
}

#define roe_odp_advise	NULL
#endif

#endif /* ROE_ODP_H */
