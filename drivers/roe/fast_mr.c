// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Fast registration: kernel users name the pages with ib_map_mr_sg(), a REG_MR
 * work request makes them accessible, an invalidation takes them back.
 *
 * A user may name the next pages while the MR is still registered, as long as it
 * posts the invalidation before the REG_MR: iSER posts both at once, SRP gives the MR
 * to the next request with the invalidation still in the queue. So ib_map_mr_sg()
 * stores the pages in mr->next, and REG_MR makes them those of the MR.
 */
#include <linux/overflow.h>
#include <linux/scatterlist.h>
#include "mr.h"

/* The RDMA core enforces this rule for user MRs, but nobody checks it in a work request. */
static bool access_ok_for(int access)
{
	return !(access & (IB_ACCESS_REMOTE_WRITE | IB_ACCESS_REMOTE_ATOMIC)) ||
	       access & IB_ACCESS_LOCAL_WRITE;
}

static bool may_register(const struct roe_mr *mr, const struct ib_pd *pd, u32 key,
			 int access)
{
	u64 base = mr->mapped ? mr->next_base : mr->base;
	u64 bytes = mr->mapped ? mr->next.bytes : mr->mem.bytes;
	u64 need;

	return mr->type == ROE_MR_FAST && mr->state == ROE_MR_FREE &&
	       mr->ib.pd == pd && roe_mr_same_index(mr, key) &&
	       access_ok_for(access) &&
	       !check_add_overflow(base, mr->ib.length, &need) &&
	       need <= bytes;
}

/* Nobody reads the extents of a free MR. Without a new ib_map_mr_sg() it keeps its pages. */
static void take_mapped(struct roe_mr *mr)
{
	if (!mr->mapped)
		return;
	swap(mr->mem, mr->next);
	mr->base = mr->next_base;
	mr->mapped = false;
}

/**
 * roe_mr_fast_reg - IB_WR_REG_MR: make the mapped pages accessible
 * @pd: protection domain of the QP
 * @mr: MR of the work request
 * @key: new key; only the key byte may differ from the old one
 * @access: IB_ACCESS_*
 *
 * Context: process or softirq.
 * Return: 0, or -EINVAL if the MR is registered or the request is not allowed.
 */
int roe_mr_fast_reg(struct ib_pd *pd, struct roe_mr *mr, u32 key, int access)
{
	int err = -EINVAL;

	spin_lock_bh(&mr->lock);
	if (may_register(mr, pd, key, access)) {
		take_mapped(mr);
		mr->key = key;
		mr->ib.lkey = key;
		mr->ib.rkey = key;
		mr->access = access;
		/* The user may have moved the iova since it mapped the pages. */
		mr->iova = mr->ib.iova;
		mr->length = mr->ib.length;
		/* Pairs with roe_mr_get(). */
		smp_store_release(&mr->state, ROE_MR_VALID);
		err = 0;
	}
	spin_unlock_bh(&mr->lock);
	return err;
}

ROE_EXPORT_FOR_TEST(roe_mr_fast_reg);

/**
 * roe_mr_alloc_fast - the alloc_mr verb: an MR for fast registration
 * @pd: protection domain
 * @type: IB_MR_TYPE_MEM_REG or IB_MR_TYPE_SG_GAPS
 * @max_sg: most pages, with SG_GAPS most elements, 1 to ROE_MR_MAX_FAST_PAGES
 *
 * Return: the MR or an ERR_PTR().
 */
struct ib_mr *roe_mr_alloc_fast(struct ib_pd *pd, enum ib_mr_type type, u32 max_sg)
{
	struct roe_mr *mr;

	if (type != IB_MR_TYPE_MEM_REG && type != IB_MR_TYPE_SG_GAPS)
		return ERR_PTR(-EOPNOTSUPP);
	if (max_sg < 1 || max_sg > ROE_MR_MAX_FAST_PAGES)
		return ERR_PTR(-EINVAL);
	mr = roe_mr_alloc(pd, ROE_MR_FAST, max_sg);
	if (IS_ERR(mr))
		return ERR_CAST(mr);
	return roe_mr_publish_or_free(mr);
}

static int set_page(struct ib_mr *ibmr, u64 addr)
{
	return roe_memory_add(&roe_mr(ibmr)->next, ib_virt_dma_to_ptr(addr),
			      ibmr->page_size);
}

/* Elements may begin and end anywhere: bytes are counted instead of pages. */
static int map_gaps(struct roe_mr *mr, struct scatterlist *sgl, int nents, u32 offset)
{
	struct scatterlist *sg;
	int i;

	mr->ib.iova = sg_dma_address(sgl) + offset;
	for_each_sg(sgl, sg, nents, i) {
		if (roe_memory_add(&mr->next, ib_virt_dma_to_ptr(sg_dma_address(sg) + offset),
				   sg_dma_len(sg) - offset))
			break;
		offset = 0;
	}
	mr->ib.length = mr->next.bytes;
	mr->next_base = 0;
	return i;
}

static int map_pages(struct roe_mr *mr, struct scatterlist *sgl, int nents,
		     unsigned int *offset)
{
	int n = ib_sg_to_pages(&mr->ib, sgl, nents, offset, set_page);

	mr->next_base = mr->ib.iova & ((u64)mr->ib.page_size - 1);
	return n;
}

/**
 * roe_mr_map_sg - the map_mr_sg verb: name the pages of the next registration
 * @ibmr: a fast MR, registered or not; no REG_MR of it is outstanding
 * @sg: mapped for DMA, that is, with kernel addresses
 * @nents: number of elements
 * @offset: into the first element; on return into the first element left out
 *
 * Takes no lock, because only the next REG_MR, which the caller will post, reads these
 * pages.
 *
 * Return: elements mapped, or a negative errno.
 */
int roe_mr_map_sg(struct ib_mr *ibmr, struct scatterlist *sg, int nents,
		  unsigned int *offset)
{
	struct roe_mr *mr = roe_mr(ibmr);
	int n;

	if (mr->type != ROE_MR_FAST)
		return -EINVAL;

	mr->next.nr = 0;
	mr->next.bytes = 0;
	mr->mapped = true;
	if (ibmr->type != IB_MR_TYPE_SG_GAPS)
		return map_pages(mr, sg, nents, offset);
	n = map_gaps(mr, sg, nents, offset ? *offset : 0);
	/* elements are taken whole or not at all */
	if (offset)
		*offset = 0;
	return n;
}

ROE_EXPORT_FOR_TEST(roe_mr_map_sg);
