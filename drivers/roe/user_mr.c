// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Birth and death of memory regions: user memory by ib_umem, all of kernel
 * memory, and what is common with fast MRs.
 */
#include <linux/overflow.h>
#include <linux/rcupdate.h>
#include <linux/scatterlist.h>
#include <linux/slab.h>
#include "device.h"
#include "mr.h"

/*
 * HUGETLB is a promise about the memory that needs no belief, relaxed ordering
 * and the rest of the optional range are hints. Whether the device offers
 * windows and flush is for its capabilities to say; the core looks at them.
 */
#define USER_ACCESS							\
	(IB_ACCESS_LOCAL_WRITE | ROE_MR_REMOTE_ACCESS |			\
	 IB_ACCESS_MW_BIND | IB_ZERO_BASED | IB_ACCESS_HUGETLB |	\
	 IB_ACCESS_FLUSH_GLOBAL | IB_ACCESS_FLUSH_PERSISTENT |		\
	 IB_ACCESS_OPTIONAL)

/* Large MRs have large tables: no WARN for a size that a user chose. */
static int alloc_extents(struct roe_mr *mr, u32 max_ext)
{
	mr->ext = kvmalloc_array(max_ext, sizeof(*mr->ext),
				 GFP_KERNEL_ACCOUNT | __GFP_NOWARN);
	if (!mr->ext)
		return -ENOMEM;
	mr->max_ext = max_ext;
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
	struct roe_mr *mr = kzalloc(sizeof(*mr), GFP_KERNEL);

	if (!mr)
		return ERR_PTR(-ENOMEM);
	mr->ib.device = pd->device;
	mr->ib.pd = pd;
	mr->type = type;
	mr->state = type == ROE_MR_FAST ? ROE_MR_FREE : ROE_MR_VALID;
	if (max_ext && alloc_extents(mr, max_ext)) {
		kfree(mr);
		return ERR_PTR(-ENOMEM);
	}
	return mr;
}

static void free_mr(struct roe_mr *mr)
{
	ib_umem_release(mr->umem);
	kvfree(mr->ext);
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
		free_mr(mr);
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

static int pin_user(struct roe_mr *mr, u64 start, u64 length, int access)
{
	struct scatterlist *sg;
	struct sg_table *sgt;
	int i, err;

	mr->umem = ib_umem_get_va(mr->ib.device, start, length, access);
	if (IS_ERR(mr->umem)) {
		err = PTR_ERR(mr->umem);
		mr->umem = NULL;
		return err;
	}

	sgt = &mr->umem->sgt_append.sgt;
	err = alloc_extents(mr, sgt->orig_nents);
	for_each_sgtable_sg(sgt, sg, i) {
		if (err)
			break;
		err = roe_mr_add_extent(mr, sg_virt(sg), sg->length);
	}
	mr->base = ib_umem_offset(mr->umem);
	return err;
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
	struct roe_mr *mr;
	u64 end;
	int err;

	if (access & ~USER_ACCESS)
		return ERR_PTR(-EOPNOTSUPP);
	if (access & IB_ZERO_BASED)
		iova = 0;
	if (check_add_overflow(iova, length, &end))
		return ERR_PTR(-EINVAL);

	mr = roe_mr_alloc(pd, ROE_MR_USER, 0);
	if (IS_ERR(mr))
		return ERR_CAST(mr);
	mr->access = access;
	mr->iova = iova;
	mr->length = length;
	mr->ib.iova = iova;
	mr->ib.length = length;

	err = length ? pin_user(mr, start, length, access) : 0;
	if (err) {
		free_mr(mr);
		return ERR_PTR(err);
	}
	return roe_mr_publish_or_free(mr);
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
	/* Every access is one RCU read-side section: after this there is none. */
	synchronize_rcu_expedited();
	free_mr(mr);
	return 0;
}
