// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * On-demand paging: between the process and the table (odp.h), and the verbs.
 *
 * get_user_pages_remote() finds the pages; it refuses what the kernel must not touch (secret
 * memory has no kernel mapping at all). The pages are not kept: the mmu notifier tells when the
 * mapping changes, and whether it did while pages were looked up.
 */
#include <linux/completion.h>
#include <linux/memcontrol.h>
#include <linux/mm.h>
#include <linux/overflow.h>
#include <linux/pagemap.h>
#include <linux/sched/mm.h>
#include <linux/sched/signal.h>
#include <linux/slab.h>
#include "device.h"
#include "fault.h"
#include "mr.h"
#include "odp.h"

/* Most lookups of the same pages while the mapping keeps changing. */
#define TRIES	32

/* A verb waits for a prefetch as long as at least one page comes within this time. */
#define FLUSH_PATIENCE	(10 * HZ)

/* --- pages leave --- */

/*
 * Take some pages out of the table. The page table entries do not know of writes by RDMA, so
 * the pages are marked dirty here, before the lock is dropped: whoever cleans a page or takes
 * it from its file unmaps or protects it first, and waits for this lock in odp_invalidate().
 */
static unsigned int take_some(struct roe_odp *odp, unsigned long first, unsigned long last)
{
	struct page *written[ROE_ODP_BATCH];
	unsigned int n, nwritten, i;

	lockdep_assert_held(&odp->pages.xa_lock);
	n = roe_odp_take(odp, first, last, written, &nwritten);
	for (i = 0; i < nwritten; i++) {
		folio_mark_dirty(page_folio(written[i]));
		put_page(written[i]);
	}
	return n;
}

/*
 * The mapping changes. The callers hold locks of their own, so nothing here allocates, or waits
 * for more than running accesses. When a process ends the range may have a hundred million
 * pages.
 */
static bool odp_invalidate(struct mmu_interval_notifier *notifier,
			   const struct mmu_notifier_range *range, unsigned long seq)
{
	struct roe_odp *odp = container_of(notifier, struct roe_odp, notifier);
	unsigned long first = range->start >> PAGE_SHIFT;
	unsigned long last = (range->end - 1) >> PAGE_SHIFT;
	unsigned int n;

	do {
		xa_lock_bh(&odp->pages);
		mmu_interval_set_seq(notifier, seq);
		n = take_some(odp, first, last);
		xa_unlock_bh(&odp->pages);
		atomic64_add(n, &odp->invalidations);
		if (mmu_notifier_range_blockable(range))
			cond_resched();
	} while (n == ROE_ODP_BATCH);
	return true;
}

static const struct mmu_interval_notifier_ops notifier_ops = {
	.invalidate = odp_invalidate,
};

/*
 * Free a table. Nobody else has a reference, but odp_invalidate() is still told of changes to
 * what is mapped. This runs in a worker: the notifier is not removed as long as threads of the
 * process keep changing its mappings, and whoever cleans up, such as a device or a namespace
 * that goes, must not wait for them.
 */
static void destroy(struct work_struct *work)
{
	struct roe_odp *odp = container_of(work, struct roe_odp, end);
	unsigned int n;

	do {
		xa_lock_bh(&odp->pages);
		n = take_some(odp, 0, ULONG_MAX);
		xa_unlock_bh(&odp->pages);
		cond_resched();
	} while (n == ROE_ODP_BATCH);
	mmu_interval_notifier_remove(&odp->notifier);
	xa_destroy(&odp->pages);
	kfree(odp);
}

/**
 * roe_odp_put - drop a reference
 * @odp: freed with the last reference, by a worker
 */
void roe_odp_put(struct roe_odp *odp)
{
	if (!refcount_dec_and_test(&odp->refs))
		return;
	INIT_WORK(&odp->end, destroy);
	roe_fault_end(&odp->end);
}

/* --- pages come --- */

/*
 * Get at most @n pages from @first on, as mapped now. For GUP, an address with a tag (arm64,
 * LAM) names the same page as without, but the notifier only reports addresses without:
 * odp_invalidate() would not find the page. No mapping has a tagged address either, so
 * vma_lookup() refuses it.
 */
static long get_pages(struct mm_struct *mm, unsigned long first, unsigned long n,
		      unsigned int gup_flags, struct page **pages)
{
	unsigned long addr = first << PAGE_SHIFT;
	int locked = 1;
	long got = 0;

	mmap_read_lock(mm);
	if (vma_lookup(mm, addr))
		got = roe_compat_get_user_pages_remote(mm, addr, n, gup_flags, pages, &locked);
	if (locked)
		mmap_read_unlock(mm);
	return got ?: -EFAULT;
}

/*
 * The same, as far as it takes no time. A file system may wait in spite of FOLL_NOWAIT: for a
 * disk, a server, another process, or until it is thawed. So of a file, only pages that are in
 * the page tables already.
 */
static long get_pages_now(struct mm_struct *mm, unsigned long first, unsigned long n,
			  unsigned int gup_flags, struct page **pages)
{
	unsigned long addr = first << PAGE_SHIFT;
	struct vm_area_struct *vma;
	long got = -EBUSY;
	int locked = 1;

	/* whoever has the lock may be waiting for the process */
	if (!mmap_read_trylock(mm))
		return -EBUSY;
	vma = find_vma(mm, addr);
	if (vma && vma->vm_start <= addr) {
		n = min(n, (vma->vm_end - addr) >> PAGE_SHIFT);
		/* 6.1 does not check FOLL_NOFAULT for huge pages */
		if (vma->vm_file)
			gup_flags |= FOLL_NOFAULT;
		got = roe_compat_get_user_pages_remote(mm, addr, n, gup_flags, pages, &locked);
	}
	if (locked)
		mmap_read_unlock(mm);
	return got > 0 ? got : -EBUSY;
}

/* Add pages to the table. Returns how many are known now, -EAGAIN if the mapping changed. */
static long publish(struct roe_odp *odp, unsigned long first, struct page **pages, long n,
		    bool write, unsigned long seq)
{
	long i, err = -EAGAIN;

	xa_lock_bh(&odp->pages);
	for (i = 0; i < n && !mmu_interval_read_retry(&odp->notifier, seq); i++) {
		err = roe_odp_set(odp, first + i, pages[i], write);
		if (err)
			break;
	}
	xa_unlock_bh(&odp->pages);
	return i ?: err;
}

/*
 * How many of the @n pages are in the range of the notifier: it reports changes of no others,
 * so these must not be in the table.
 */
static unsigned long watched(const struct roe_odp *odp, unsigned long first, unsigned long n)
{
	const struct interval_tree_node *range = &odp->notifier.interval_tree;
	unsigned long last = range->last >> PAGE_SHIFT;

	return first < range->start >> PAGE_SHIFT || first > last ? 0 : min(n, last - first + 1);
}

static long fault_batch(struct roe_odp *odp, unsigned long first, unsigned long n,
			unsigned int gup_flags)
{
	struct page *pages[ROE_ODP_BATCH];
	unsigned int tries = TRIES;
	unsigned long seq;
	long got, done;

	n = min_t(unsigned long, watched(odp, first, n), ROE_ODP_BATCH);
	if (!n)
		return -EFAULT;
	do {
		seq = mmu_interval_read_begin(&odp->notifier);
		if (gup_flags & FOLL_NOWAIT)
			got = get_pages_now(odp->notifier.mm, first, n, gup_flags, pages);
		else
			got = get_pages(odp->notifier.mm, first, n, gup_flags, pages);
		if (got < 0)
			return got;
		done = publish(odp, first, pages, got, gup_flags & FOLL_WRITE, seq);
		while (got)
			put_page(pages[--got]);
		if (done == -ENOMEM)
			done = xa_reserve_bh(&odp->pages, first, GFP_KERNEL) ?: -EAGAIN;
	} while (done == -EAGAIN && --tries);
	return done;
}

/**
 * roe_odp_fault - make pages of a range known
 * @odp: a reference is held
 * @addr: user address
 * @len: bytes, not 0; [@addr, @addr + @len) does not wrap
 * @gup_flags: FOLL_WRITE: to be written to; FOLL_NOFAULT: only what is mapped; FOLL_NOWAIT:
 *	only what can be had without waiting for anything but memory, and nothing of a file
 *	that is not mapped
 *
 * Context: process or worker, may sleep, no lock of the process's memory held.
 * Return: pages known from @addr on, perhaps fewer than asked for. If not even the first page
 * is known, a negative errno: -EAGAIN, -ENOMEM: try again; -EBUSY: try without FOLL_NOWAIT.
 */
long roe_odp_fault(struct roe_odp *odp, u64 addr, u64 len, unsigned int gup_flags)
{
	unsigned long first = addr >> PAGE_SHIFT, last = (addr + len - 1) >> PAGE_SHIFT;
	struct mm_struct *mm = odp->notifier.mm;
	struct mem_cgroup *memcg, *own;
	unsigned long at = first;
	long n = 0;

	if (!mmget_not_zero(mm))
		return -EFAULT;
	/* charge the process: a worker has no memory cgroup */
	memcg = get_mem_cgroup_from_mm(mm);
	own = set_active_memcg(memcg);
	while (at <= last && !fatal_signal_pending(current)) {
		n = fault_batch(odp, at, last - at + 1, gup_flags);
		if (n <= 0)
			break;
		at += n;
		cond_resched();
	}
	set_active_memcg(own);
	mem_cgroup_put(memcg);
	mmput(mm);
	return at > first ? at - first : n ?: -EINTR;
}

/* --- verbs --- */

/**
 * roe_odp_attach - make the table of an MR that is not pinned
 * @mr: type ROE_MR_ODP, not published; length not 0
 * @start: address in the process; 0 with a length of 2^64 - 1 is all of its memory
 *
 * Return: 0 or a negative errno.
 */
int roe_odp_attach(struct roe_mr *mr, u64 start)
{
	unsigned long first = start & PAGE_MASK;
	struct roe_odp *odp;
	u64 end;
	int err;

	if (check_add_overflow(start, mr->length, &end) ||
	    (end > PAGE_MASK && (start || mr->length != U64_MAX)))
		return -EINVAL;
	odp = kzalloc(sizeof(*odp), GFP_KERNEL_ACCOUNT);
	if (!odp)
		return -ENOMEM;
	roe_odp_init(odp);
	end = end > PAGE_MASK ? end : PAGE_ALIGN(end);
	err = mmu_interval_notifier_insert(&odp->notifier, current->mm, first, end - first,
					   &notifier_ops);
	if (err) {
		kfree(odp);
		return err;
	}
	mr->odp = odp;
	mr->base = start;
	return 0;
}

/**
 * roe_odp_mm - the process whose memory it is
 * @odp: of an MR
 *
 * Return: only to be compared; the process may have ended.
 */
struct mm_struct *roe_odp_mm(const struct roe_odp *odp)
{
	return odp->notifier.mm;
}

/**
 * roe_odp_detach - an MR lets go of its memory
 * @mr: no access is left
 *
 * Context: process, may sleep; does not wait for a worker that waits for a page.
 */
void roe_odp_detach(struct roe_mr *mr)
{
	WRITE_ONCE(mr->odp->detached, true);
	roe_fault_forget_odp(mr->odp);
	roe_odp_put(mr->odp);
}

/**
 * roe_odp_caps - report the on-demand paging capabilities of the device
 * @attr: completed
 *
 * A datagram that arrives for a missing page is lost, as on other devices that do not offer UD
 * receive.
 */
void roe_odp_caps(struct ib_device_attr *attr)
{
	struct ib_odp_caps *caps = &attr->odp_caps;

	attr->kernel_cap_flags |= IBK_ON_DEMAND_PAGING;
	caps->general_caps = IB_ODP_SUPPORT | IB_ODP_SUPPORT_IMPLICIT;
	caps->per_transport_caps.rc_odp_caps = IB_ODP_SUPPORT_SEND | IB_ODP_SUPPORT_RECV |
					       IB_ODP_SUPPORT_WRITE | IB_ODP_SUPPORT_READ |
					       IB_ODP_SUPPORT_ATOMIC |
					       IB_ODP_SUPPORT_SRQ_RECV;
	caps->per_transport_caps.uc_odp_caps = IB_ODP_SUPPORT_SEND;
	caps->per_transport_caps.ud_odp_caps = IB_ODP_SUPPORT_SEND;
}

/* One range that the user wants prefetched. */
struct prefetch {
	struct roe_turn		turn;
	refcount_t		refs;		/* the worker, and the verb if it waits */
	struct completion	done;
	int			err;
	unsigned long		pages;		/* that have come: shows progress to wait_for() */
	struct roe_odp		*odp;
	u64			addr, len;
	unsigned int		gup_flags;
};

/* Find the memory of an SGE; takes a reference to its table. */
static int find(struct ib_pd *pd, const struct ib_sge *sge, struct prefetch *p)
{
	bool write = p->gup_flags & FOLL_WRITE;
	struct roe_mr *mr;
	int err = -EFAULT;

	rcu_read_lock_bh();
	mr = roe_mr_get(&roe_dev(pd->device)->keys, pd, sge->lkey,
			write ? IB_ACCESS_LOCAL_WRITE : 0, sge->addr, sge->length);
	if (mr && mr->odp) {
		refcount_inc(&mr->odp->refs);
		p->odp = mr->odp;
		p->addr = sge->addr - mr->iova + mr->base;
		p->len = sge->length;
		err = 0;
	}
	if (mr)
		roe_mr_put(mr);
	rcu_read_unlock_bh();
	return err;
}

/* Bytes from @addr to the next mapping: 0 inside of one, U64_MAX if none follows. */
static u64 hole(struct mm_struct *mm, u64 addr)
{
	struct vm_area_struct *vma;
	u64 bytes = U64_MAX;

	/* a process that ends or is killed has no mappings any more */
	if (!mmget_not_zero(mm))
		return U64_MAX;
	mmap_read_lock(mm);
	vma = find_vma(mm, addr);
	if (vma)
		bytes = vma->vm_start > addr ? vma->vm_start - addr : 0;
	mmap_read_unlock(mm);
	mmput(mm);
	return bytes;
}

static int fetch(struct prefetch *p)
{
	bool skip = p->gup_flags & FOLL_NOFAULT;
	u64 len = p->len, addr = p->addr;
	long n;

	while (len) {
		u64 bytes;

		/* the MR is gone, perhaps with its process */
		if (READ_ONCE(p->odp->detached))
			return -EFAULT;
		/* in small parts: wait_for() sees progress, however slow the disk */
		n = roe_odp_fault(p->odp, addr, min_t(u64, len, ROE_ODP_BATCH * PAGE_SIZE),
				  p->gup_flags);
		if (n == -EINTR || (n < 0 && !skip))
			return n;
		atomic64_add(max(n, 0L), &p->odp->prefetched);
		WRITE_ONCE(p->pages, p->pages + max(n, 0L));
		/* FOLL_NOFAULT: pages that are not mapped are skipped */
		bytes = max(n, 1L) * PAGE_SIZE - offset_in_page(addr);
		if (n < 0)
			bytes = max(bytes, hole(p->odp->notifier.mm, addr));
		if (bytes >= len)
			return 0;
		addr += bytes;
		len -= bytes;
	}
	return 0;
}

static void put(struct prefetch *p)
{
	if (!refcount_dec_and_test(&p->refs))
		return;
	roe_odp_put(p->odp);
	kfree(p);
}

static void odp_prefetch_work(struct work_struct *work)
{
	struct prefetch *p = container_of(work, struct prefetch, turn.work);

	p->err = fetch(p);
	complete(&p->done);
	roe_fault_ahead_done(&p->turn);
	put(p);
}

/*
 * Wait as long as pages come. A verb that waited for pages that never come would keep the
 * device from being removed, because removal waits for verbs.
 */
static int wait_for(struct prefetch *p)
{
	unsigned long last;
	long left;

	do {
		last = READ_ONCE(p->pages);
		left = wait_for_completion_killable_timeout(&p->done, FLUSH_PATIENCE);
	} while (!left && READ_ONCE(p->pages) != last);
	if (left > 0)
		return p->err;
	return left ? -EINTR : -ETIMEDOUT;
}

static int fetch_one(struct ib_pd *pd, const struct ib_sge *sge, unsigned int gup_flags,
		     bool waits)
{
	struct prefetch *p = kzalloc(sizeof(*p), GFP_KERNEL_ACCOUNT);
	int err;

	if (!p)
		return -ENOMEM;
	p->gup_flags = gup_flags;
	err = find(pd, sge, p);
	if (err) {
		kfree(p);
		return err;
	}
	INIT_WORK(&p->turn.work, odp_prefetch_work);
	init_completion(&p->done);
	refcount_set(&p->refs, 1);
	if (waits)
		refcount_inc(&p->refs);
	err = roe_fault_ahead(&p->turn, roe_odp_mm(p->odp), waits);
	if (err)
		refcount_set(&p->refs, 1);
	else if (waits)
		err = wait_for(p);
	else
		return 0;
	put(p);
	return err;
}

/**
 * roe_odp_advise - the advise_mr verb: pages wanted soon
 * @pd: of the keys
 * @advice: IB_UVERBS_ADVISE_MR_ADVICE_PREFETCH and its variants
 * @flags: IB_UVERBS_ADVISE_MR_FLAG_FLUSH: return when the pages are there
 * @sge: ranges
 * @num_sge: how many
 * @attrs: not used
 *
 * Return: 0; -EFAULT if a key, right or range is wrong, or if no page is mapped there;
 * -ETIMEDOUT if pages do not come; -EOPNOTSUPP for another advice.
 */
int roe_odp_advise(struct ib_pd *pd, enum ib_uverbs_advise_mr_advice advice, u32 flags,
		   struct ib_sge *sge, u32 num_sge, struct uverbs_attr_bundle *attrs)
{
	static const unsigned int gup_flags[] = {
		[IB_UVERBS_ADVISE_MR_ADVICE_PREFETCH] = 0,
		[IB_UVERBS_ADVISE_MR_ADVICE_PREFETCH_WRITE] = FOLL_WRITE,
		[IB_UVERBS_ADVISE_MR_ADVICE_PREFETCH_NO_FAULT] = FOLL_NOFAULT,
	};
	int err = 0;

	if (advice >= ARRAY_SIZE(gup_flags))
		return -EOPNOTSUPP;
	for (; num_sge && !err; num_sge--, sge++)
		err = fetch_one(pd, sge, gup_flags[advice],
				flags & IB_UVERBS_ADVISE_MR_FLAG_FLUSH);
	return err;
}
