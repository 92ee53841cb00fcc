// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Registration and deregistration of memory regions: user memory by ib_umem, all
 * of kernel memory, and what fast MRs have in common with these.
 */
#include <linux/overflow.h>
#include <linux/rcupdate.h>
#include <linux/scatterlist.h>
#include <linux/slab.h>
#include "device.h"
#include "mr.h"
#include "odp.h"

/*
 * HUGETLB is a promise about the memory on which nothing here relies; relaxed
 * ordering and the other optional flags are hints. Whether the device has windows
 * and FLUSH is in its capabilities, which the core checks.
 */
#define USER_ACCESS							\
	(IB_ACCESS_LOCAL_WRITE | ROE_MR_REMOTE_ACCESS |			\
	 IB_ACCESS_MW_BIND | IB_ZERO_BASED | IB_ACCESS_HUGETLB |	\
	 IB_ACCESS_FLUSH_GLOBAL | IB_ACCESS_FLUSH_PERSISTENT |		\
	 IB_ACCESS_ON_DEMAND | IB_ACCESS_OPTIONAL)

/* Large MRs have large tables: no WARN for a size that a user chose. */
static int alloc_extents(struct roe_memory *mem, u32 max, gfp_t gfp)
{
	mem->ext = kvmalloc_array(max, sizeof(*mem->ext), gfp | __GFP_NOWARN);
	if (!mem->ext)
		return -ENOMEM;
	mem->max = max;
	return 0;
}

/**
 * roe_mr_alloc - an MR, not published yet
 * @pd: protection domain
 * @type: not a window
 * @max_ext: room for extents, may be 0
 *
 * Context: process, may sleep.
 * Return: the MR or an ERR_PTR().
 */
struct roe_mr *roe_mr_alloc(struct ib_pd *pd, enum roe_mr_type type, u32 max_ext)
{
	/* the other types belong to kernel users: do not charge the task that is current */
	bool user = type == ROE_MR_USER || type == ROE_MR_ODP;
	gfp_t gfp = user ? GFP_KERNEL_ACCOUNT : GFP_KERNEL;
	struct roe_mr *mr = kzalloc(sizeof(*mr), gfp);

	if (!mr)
		return ERR_PTR(-ENOMEM);
	mr->ib.device = pd->device;
	mr->ib.pd = pd;
	mr->type = type;
	mr->state = type == ROE_MR_FAST ? ROE_MR_FREE : ROE_MR_VALID;
	if ((max_ext && alloc_extents(&mr->mem, max_ext, gfp)) ||
	    (type == ROE_MR_FAST && alloc_extents(&mr->next, max_ext, gfp))) {
		roe_mr_free(mr);
		return ERR_PTR(-ENOMEM);
	}
	return mr;
}

/**
 * roe_mr_free - free an MR that is not published, and let go of its memory
 * @mr: from roe_mr_alloc(); nobody has access
 *
 * Context: process, may sleep.
 */
void roe_mr_free(struct roe_mr *mr)
{
	if (mr->odp)
		roe_odp_detach(mr);
	if (mr->attachment)
		roe_dmabuf_put(mr);
	ib_umem_release(mr->umem);
	kvfree(mr->mem.ext);
	kvfree(mr->next.ext);
	kfree(mr);
}

/**
 * roe_mr_publish_or_free - the end of a verb that makes an MR
 * @mr: from roe_mr_alloc(), complete
 *
 * Context: process, may sleep.
 * Return: what the verb returns.
 */
struct ib_mr *roe_mr_publish_or_free(struct roe_mr *mr)
{
	int err = roe_mr_publish(&roe_dev(mr->ib.device)->keys, mr);

	if (err) {
		roe_mr_free(mr);
		return ERR_PTR(err);
	}
	return &mr->ib;
}

/**
 * roe_mr_get_dma - the get_dma_mr verb: an MR of all kernel memory
 * @pd: protection domain
 * @access: IB_ACCESS_*
 *
 * Return: the MR or an ERR_PTR().
 */
struct ib_mr *roe_mr_get_dma(struct ib_pd *pd, int access)
{
	struct roe_mr *mr = roe_mr_alloc(pd, ROE_MR_DMA, 0);

	if (IS_ERR(mr))
		return ERR_CAST(mr);
	mr->access = access;
	mr->length = U64_MAX;
	return roe_mr_publish_or_free(mr);
}

static int pin_user(struct roe_mr *mr, u64 start)
{
	struct scatterlist *sg;
	struct sg_table *sgt;
	int i, err;

	mr->umem = ib_umem_get_va(mr->ib.device, start, mr->length, mr->access);
	if (IS_ERR(mr->umem)) {
		err = PTR_ERR(mr->umem);
		mr->umem = NULL;
		return err;
	}

	sgt = &mr->umem->sgt_append.sgt;
	err = alloc_extents(&mr->mem, sgt->orig_nents, GFP_KERNEL_ACCOUNT);
	for_each_sgtable_sg(sgt, sg, i) {
		if (err)
			break;
		err = roe_memory_add(&mr->mem, sg_virt(sg), sg->length);
	}
	mr->base = ib_umem_offset(mr->umem);
	return err;
}

/* An MR of user memory, not published yet. */
static struct roe_mr *make_user(struct ib_pd *pd, u64 start, u64 length, u64 iova,
				int access)
{
	bool odp = length && access & IB_ACCESS_ON_DEMAND;
	struct roe_mr *mr;
	u64 end;
	int err;

	if (access & ~USER_ACCESS)
		return ERR_PTR(-EOPNOTSUPP);
	if (access & IB_ZERO_BASED)
		iova = 0;
	if (check_add_overflow(iova, length, &end))
		return ERR_PTR(-EINVAL);

	mr = roe_mr_alloc(pd, odp ? ROE_MR_ODP : ROE_MR_USER, 0);
	if (IS_ERR(mr))
		return mr;
	mr->access = access;
	mr->iova = iova;
	mr->length = length;
	mr->ib.iova = iova;
	mr->ib.length = length;

	if (odp)
		err = roe_odp_attach(mr, start);
	else
		err = length ? pin_user(mr, start) : 0;
	if (err) {
		roe_mr_free(mr);
		return ERR_PTR(err);
	}
	return mr;
}

/**
 * roe_mr_reg_user - the reg_user_mr verb
 * @pd: protection domain
 * @start: address in the process
 * @length: bytes, may be 0
 * @iova: first VA of the MR, unless it is to be zero-based
 * @access: IB_ACCESS_*, checked by the core against each other
 * @udata: not used
 *
 * Return: the MR or an ERR_PTR().
 */
struct ib_mr *roe_mr_reg_user(struct ib_pd *pd, u64 start, u64 length, u64 iova,
			      int access, struct ib_udata *udata)
{
	struct roe_mr *mr = make_user(pd, start, length, iova, access);

	if (IS_ERR(mr))
		return ERR_CAST(mr);
	return roe_mr_publish_or_free(mr);
}

/*
 * Does the change need a new region? Pages that were pinned only to be read cannot become
 * writable, and a change between pinned and on-demand memory replaces all of it.
 */
static bool must_get_again(const struct roe_mr *mr, int access)
{
	if (!mr->umem && !mr->odp)
		return false;
	if ((access ^ mr->access) & IB_ACCESS_ON_DEMAND)
		return true;
	return mr->umem && !mr->umem->writable && ib_access_writable(access);
}

/* A new region of the same memory. */
static struct roe_mr *make_again(const struct roe_mr *mr, int access, struct ib_pd *pd)
{
	u64 start = mr->umem ? mr->umem->address : mr->base;

	if ((mr->umem ? mr->umem->owning_mm : roe_odp_mm(mr->odp)) != current->mm)
		return ERR_PTR(-EINVAL);
	return make_user(pd, start, mr->length, mr->iova, access);
}

/*
 * An MR as it is to be after the change; the old one stays in use meanwhile. If the
 * memory does not change its pages are kept, unless they must be pinned in another
 * way: that only the process to which the address belongs can do.
 */
static struct roe_mr *make_successor(const struct roe_mr *mr, int flags, u64 start,
				     u64 length, u64 iova, int access, struct ib_pd *pd)
{
	if (flags & IB_MR_REREG_TRANS)
		return make_user(pd, start, length, iova, access);
	/* whether VAs begin at 0 is part of the translation */
	if ((access ^ mr->access) & IB_ZERO_BASED)
		return ERR_PTR(-EINVAL);
	return must_get_again(mr, access) ? make_again(mr, access, pd) :
					    make_user(pd, 0, 0, 0, access);
}

/* Nobody has access: @mr takes over from @next, which gets the old memory to be freed with it. */
static void succeed(struct roe_mr *mr, struct roe_mr *next, bool memory)
{
	mr->ib.pd = next->ib.pd;
	mr->access = next->access;
	mr->key = (mr->key & ~0xffu) | ((mr->key + 1) & 0xff);
	mr->ib.lkey = mr->key;
	mr->ib.rkey = mr->key;
	if (!memory)
		return;
	mr->iova = next->iova;
	mr->length = next->length;
	mr->base = next->base;
	swap(mr->mem, next->mem);
	swap(mr->umem, next->umem);
	swap(mr->odp, next->odp);
	swap(mr->type, next->type);
}

/* On return no access is left, and none can begin. */
static void suspend(struct roe_mr *mr)
{
	spin_lock_bh(&mr->lock);
	roe_mr_revoke(mr, ROE_MR_FREE);
	spin_unlock_bh(&mr->lock);
	/* readers of the type and accesses to pinned memory are in RCU read-side sections */
	synchronize_rcu_expedited();
}

/**
 * roe_mr_rereg_user - the rereg_user_mr verb: all of the change or none of it
 * @ibmr: MR of user memory, pinned or on demand
 * @flags: IB_MR_REREG_*: which of the following count
 * @start: TRANS: address in the process
 * @length: TRANS: bytes
 * @iova: TRANS: first VA
 * @access: ACCESS: IB_ACCESS_*
 * @pd: PD: protection domain
 * @udata: not used
 *
 * The keys change: those that a peer was told were for the MR as it was. Memory that was
 * pinned may be on demand afterwards (IB_ACCESS_ON_DEMAND), and the other way round.
 *
 * Return: NULL, or an ERR_PTR(): -EBUSY while windows are bound to it, -EOPNOTSUPP
 * for memory of a dma-buf.
 */
struct ib_mr *roe_mr_rereg_user(struct ib_mr *ibmr, int flags, u64 start, u64 length,
				u64 iova, int access, struct ib_pd *pd,
				struct ib_udata *udata)
{
	struct roe_mr *mr = roe_mr(ibmr);
	struct roe_mr *next;

	if ((mr->type != ROE_MR_USER && mr->type != ROE_MR_ODP) || mr->attachment)
		return ERR_PTR(-EOPNOTSUPP);
	if (!(flags & IB_MR_REREG_PD))
		pd = mr->ib.pd;
	if (!(flags & IB_MR_REREG_ACCESS))
		access = mr->access;
	next = make_successor(mr, flags, start, length, iova, access, pd);
	if (IS_ERR(next))
		return ERR_CAST(next);
	if (atomic_cmpxchg(&mr->windows, 0, ROE_MR_NO_WINDOWS)) {
		roe_mr_free(next);
		return ERR_PTR(-EBUSY);
	}
	suspend(mr);
	spin_lock_bh(&mr->lock);
	succeed(mr, next, flags & IB_MR_REREG_TRANS || next->umem || next->odp);
	/* Pairs with roe_mr_get(). */
	smp_store_release(&mr->state, ROE_MR_VALID);
	spin_unlock_bh(&mr->lock);
	atomic_set(&mr->windows, 0);
	roe_mr_free(next);
	return NULL;
}

static void mr_free_rcu(struct rcu_head *rcu)
{
	struct roe_mr *mr = container_of(rcu, struct roe_mr, rcu);

	kvfree(mr->mem.ext);
	kvfree(mr->next.ext);
	kfree(mr);
}

/**
 * roe_mr_dereg - the dereg_mr verb
 * @ibmr: any MR
 * @udata: not used
 *
 * Return: 0, or -EBUSY while windows are bound to it (IBTA C10-74; wire.md 7).
 */
int roe_mr_dereg(struct ib_mr *ibmr, struct ib_udata *udata)
{
	struct roe_mr *mr = roe_mr(ibmr);

	if (atomic_cmpxchg(&mr->windows, 0, ROE_MR_NO_WINDOWS))
		return -EBUSY;
	roe_mr_unpublish(mr);
	/*
	 * Do not wait for a grace period with a fast MR: no access to it is left, it owns no
	 * pages, and users deregister hundreds at a time. Whoever has just found it in the
	 * table only reads its state.
	 */
	if (mr->type == ROE_MR_FAST) {
		call_rcu(&mr->rcu, mr_free_rcu);
		return 0;
	}
	/* Every access is one RCU read-side section: after this there is none. */
	synchronize_rcu_expedited();
	roe_mr_free(mr);
	return 0;
}
