/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Memory regions and the key table of a device.
 *
 * A key is a 24-bit index (device) and an 8-bit key (consumer). Lookups are
 * RCU: everything that touches the memory of an MR does so inside one RCU
 * read-side section, so dereg unpublishes the key, waits for a grace period
 * and may then unpin the pages; no reference is counted per packet.
 *
 * Memory is a sorted array of extents, each a run of physically contiguous
 * memory in the direct map: a huge page, or many in a row, is one entry.
 *
 * A fast MR changes while it is published, and LOCAL_INV cannot wait for a
 * grace period. Its accesses therefore hold mr->lock and look at the state
 * again; the other types never change and need no lock.
 */
#ifndef ROE_MR_H
#define ROE_MR_H

#include <linux/spinlock.h>
#include <linux/uio.h>
#include <linux/xarray.h>
#include <rdma/ib_verbs.h>

struct roe_dev;

/* Most pages of a fast MR (max_fast_reg_page_list_len): 4 MiB in 4 KiB pages. */
#define ROE_MR_MAX_FAST_PAGES	1024

struct roe_keys {
	struct xarray	xa;	/* index -> struct roe_mr; xa_lock on change */
	u32		next;	/* cyclic allocation */
};

enum roe_mr_type {
	ROE_MR_DMA,		/* all of kernel memory, VA = direct map */
	ROE_MR_USER,		/* ib_umem */
	ROE_MR_FAST,		/* IB_MR_TYPE_MEM_REG */
};

enum roe_mr_state {
	ROE_MR_FREE,		/* fast MR, not registered: no access */
	ROE_MR_VALID,
	ROE_MR_DEAD,		/* being deregistered */
};

struct roe_extent {
	u64	off;		/* first byte, offset from the start of ext[0] */
	void	*addr;		/* direct map; bytes = next off - off */
};

struct roe_mr {
	struct ib_mr		ib;
	struct roe_keys		*keys;
	enum roe_mr_type	type;
	enum roe_mr_state	state;	/* READ_ONCE/WRITE_ONCE */
	u32			key;	/* whole 32-bit key now valid */
	int			access;	/* IB_ACCESS_* */
	u64			iova;	/* first valid VA */
	u64			length;	/* bytes */
	u64			base;	/* offset of iova from the start of ext[0] */
	u32			nr_ext, max_ext;
	u64			ext_bytes;	/* sum of all extents */
	struct roe_extent	*ext;
	struct ib_umem		*umem;
	spinlock_t		lock;	/* ROE_MR_FAST: registration against access */
};

static inline struct roe_mr *roe_mr(struct ib_mr *ibmr)
{
	return container_of(ibmr, struct roe_mr, ib);
}

void roe_keys_init(struct roe_keys *keys);
void roe_keys_destroy(struct roe_keys *keys);

/* For KUnit and for the verbs below: publish an MR under a fresh key. */
int roe_mr_publish(struct roe_keys *keys, struct roe_mr *mr);
void roe_mr_unpublish(struct roe_mr *mr);
/* Add [@addr, @addr + @len) behind the last extent, merging what is contiguous. */
int roe_mr_add_extent(struct roe_mr *mr, void *addr, u64 len);

/*
 * The one access check (IBTA C10-..; wire.md section 6): whole 32-bit key, PD,
 * state, every bit of @access (IB_ACCESS_*; 0: local read), range without
 * overflow. Caller in an RCU read-side section, in which the result is valid.
 * NULL if refused.
 */
struct roe_mr *roe_mr_get(struct roe_keys *keys, const struct ib_pd *pd, u32 key,
			  int access, u64 va, u64 len);

/*
 * Copy between a range that roe_mr_get() has checked and kernel memory. RCU
 * read-side section, any context. If a fast MR was invalidated since then,
 * nothing is written and zeros are read: the memory is no longer the peer's.
 */
void roe_mr_read(struct roe_mr *mr, u64 va, void *dst, u32 len);
void roe_mr_write(struct roe_mr *mr, u64 va, const void *src, u32 len);
/* Source in pieces: @len bytes of @vec, of which the first @skip are left out. */
void roe_mr_write_vec(struct roe_mr *mr, u64 va, const struct kvec *vec,
		      unsigned int nvec, u32 skip, u32 len);
/* Address of an aligned 8-byte word of a checked range, NULL if it straddles. */
u64 *roe_mr_word(struct roe_mr *mr, u64 va);

/* REG_MR in SQ order and LOCAL_INV / SEND with invalidate: 0 or -EINVAL. */
int roe_mr_fast_reg(struct ib_pd *pd, struct roe_mr *mr, u32 key, int access);
int roe_mr_invalidate(struct roe_keys *keys, const struct ib_pd *pd, u32 key);

/* verbs */
struct ib_mr *roe_mr_get_dma(struct ib_pd *pd, int access);
struct ib_mr *roe_mr_reg_user(struct ib_pd *pd, u64 start, u64 length, u64 iova,
			      int access, struct ib_udata *udata);
struct ib_mr *roe_mr_alloc(struct ib_pd *pd, enum ib_mr_type type, u32 max_sg);
int roe_mr_map_sg(struct ib_mr *ibmr, struct scatterlist *sg, int nents,
		  unsigned int *offset);
int roe_mr_dereg(struct ib_mr *ibmr, struct ib_udata *udata);

#endif /* ROE_MR_H */
