/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Memory regions, memory windows and the key table of a device.
 *
 * A key is a 24-bit index (device) and an 8-bit key (consumer). Lookups are
 * RCU: everything that touches the memory of an MR does so inside one RCU
 * read-side section, so dereg unpublishes the key, waits for a grace period
 * and may then unpin the pages; no reference is counted per packet.
 *
 * Memory is a sorted array of extents, each a run of contiguous kernel
 * addresses: a huge page, or many in a row, is one entry.
 *
 * A memory window is one more struct roe_mr: key, rights and range of its own
 * over the memory of the MR it is bound to, so the same check bounds both.
 *
 * Fast MRs and windows are revoked, and made valid again under another key, while
 * they are published. This happens in softirq, where nobody can wait for a grace
 * period. So they have a gate: roe_mr_get() counts the access in before it checks
 * state, key and range, and roe_mr_put() counts it out; roe_mr_revoke() closes the
 * gate, then waits until the count is zero. So what was checked holds until
 * roe_mr_put(), and whoever has invalidated a key knows that no access under it is
 * left. It is not a rwlock, because an access may need two of them at once (source
 * and target on one device), and a queued writer makes nested readers wait for each
 * other; a gate never makes an access wait, it refuses. An access has preemption off and
 * waits for no lock that a revoker may hold. It lasts for a copy or, with a fast MR, for
 * the work of a run on one burst, so a revoker waits as long as for a spinlock of a QP.
 * Pinned user MRs and the DMA MR change only with the sleeping verbs and need no gate.
 *
 * The pages of on-demand memory come and go while the region stays, so an access to
 * it may fail although the check has passed: see odp.h and fault.h.
 */
#ifndef ROE_MR_H
#define ROE_MR_H

#include <linux/atomic.h>
#include <linux/spinlock.h>
#include <linux/uio.h>
#include <linux/xarray.h>
#include <rdma/ib_verbs.h>

struct dma_buf;
struct roe_dev;
struct roe_odp;
struct roe_qp;
struct roe_rx_row;
struct roe_tx_pkt;
struct roe_txb;

/*
 * Most pages of a fast MR (max_fast_reg_page_list_len): 512 MiB in 4 KiB pages, the longest
 * buffer of SMC-R, which registers it whole without checking this limit. An MR has room only for
 * what its user asks for.
 */
#define ROE_MR_MAX_FAST_PAGES	131072

#define ROE_KEY_INDEX_SHIFT	8
#define ROE_KEY_BYTE		(BIT(ROE_KEY_INDEX_SHIFT) - 1)

#define ROE_MR_REMOTE_ACCESS						\
	(IB_ACCESS_REMOTE_WRITE | IB_ACCESS_REMOTE_READ |		\
	 IB_ACCESS_REMOTE_ATOMIC)

/* Value of roe_mr.windows while no window may be bound: the MR is about to change or go. */
#define ROE_MR_NO_WINDOWS	(-1)

struct roe_keys {
	struct xarray	xa;	/* index -> struct roe_mr; xa_lock on change */
	u32		next;	/* cyclic allocation */
	atomic64_t	erased;	/* entries erased; goes up before the grace period of each */
};

/*
 * The result of a key lookup. It still holds in any later RCU read-side section that sees the
 * same count of erased entries. Under qp->lock.
 */
struct roe_key_memo {
	struct roe_mr	*mr;	/* NULL: nothing */
	s64		erased;	/* roe_keys.erased before the lookup */
	u32		index;
};

/* A QP remembers one key for each thing it does with keys. */
enum roe_key_use {
	ROE_KEY_READ,		/* what is sent */
	ROE_KEY_WRITE,		/* what is received */
	ROE_KEY_REMOTE,		/* what the peer names */
	ROE_KEY_USES
};

/*
 * An MR that lasts, whose key, PD and rights were proven in this run for one kind of access: the
 * next message only needs its range checked. That usually lies beside the last one, in the same
 * piece of memory.
 */
struct roe_run_memo {
	struct roe_mr	*mr;	/* NULL: nothing */
	u32		key;
	u64		begin, len;	/* contiguous part of its range; len 0: not known yet */
	void		*addr;		/* kernel address of that part */
};

enum roe_mr_type {
	ROE_MR_DMA,		/* all of kernel memory, VA = direct map */
	ROE_MR_USER,		/* ib_umem */
	/* from here on: revocable, with a gate */
	ROE_MR_FAST,		/* IB_MR_TYPE_MEM_REG, IB_MR_TYPE_SG_GAPS */
	ROE_MR_ODP,		/* memory of a process, not pinned: odp.h */
	ROE_MR_WINDOW_1,	/* IB_MW_TYPE_1: any QP of the PD */
	ROE_MR_WINDOW_2B,	/* IB_MW_TYPE_2, 2B: the QP that bound it */
};

enum roe_mr_state {
	ROE_MR_FREE,		/* not registered, not bound: no access */
	ROE_MR_VALID,
	ROE_MR_DEAD,		/* being deregistered */
};

struct roe_extent {
	u64	off;		/* first byte, offset from the start of ext[0] */
	void	*addr;		/* kernel address; bytes = next off - off */
};

struct roe_memory {
	u32			nr, max;
	u64			bytes;	/* sum of all extents */
	struct roe_extent	*ext;
};

struct roe_mr {
	struct ib_mr		ib;
	struct roe_keys		*keys;
	enum roe_mr_type	type;
	enum roe_mr_state	state;	/* changed under the lock; see above */
	u32			key;	/* whole 32-bit key now valid */
	int			access;	/* IB_ACCESS_* */
	u64			iova;	/* first valid VA */
	u64			length;	/* bytes */
	u64			base;	/* offset of iova from the start of ext[0] */
	struct roe_memory	mem;		/* of a window: borrowed from its MR, like odp */
	struct roe_memory	next;		/* fast_mr.c: of the next registration */
	u64			next_base;
	bool			mapped;		/* next is newer than mem */
	struct ib_umem		*umem;
	struct dma_buf_attachment *attachment;	/* instead of umem; mapped at vaddr */
	void			*vaddr;
	struct roe_odp		*odp;		/* instead of extents; base is a user address */
	spinlock_t		lock;	/* revocable types: one change at a time */
	atomic_t		users;	/* revocable types: accesses at work */
	u32			use;	/* counts revocations, under @lock; stable in an access */
	atomic_t		windows;	/* bound to it, or ROE_MR_NO_WINDOWS */
	u64			qp_id;	/* ROE_MR_WINDOW_2B: id of the QP that bound it */
	struct rcu_head		rcu;	/* frees fast MRs and windows */
};

static inline struct roe_mr *roe_mr(struct ib_mr *ibmr)
{
	return container_of(ibmr, struct roe_mr, ib);
}

/*
 * Not revocable: what was proven of it holds to the end of the RCU read-side
 * section, and roe_mr_put() does nothing.
 */
static inline bool roe_mr_lasts(const struct roe_mr *mr)
{
	return mr->type < ROE_MR_FAST;
}

static inline bool roe_mr_is_window(const struct roe_mr *mr)
{
	return mr->type >= ROE_MR_WINDOW_1;
}

/* May @key become the key of @mr? The device owns the index; only the key byte may differ. */
static inline bool roe_mr_same_index(const struct roe_mr *mr, u32 key)
{
	return !((key ^ mr->key) >> ROE_KEY_INDEX_SHIFT);
}

/* The index of @mr with the key byte of @key. */
static inline u32 roe_mr_key(const struct roe_mr *mr, u32 key)
{
	return (mr->key & ~ROE_KEY_BYTE) | (key & ROE_KEY_BYTE);
}

/* What is published under the index of @key, whatever its key byte. RCU held. */
static inline struct roe_mr *roe_mr_find(struct roe_keys *keys, u32 key)
{
	return xa_load(&keys->xa, key >> ROE_KEY_INDEX_SHIFT);
}

void roe_keys_init(struct roe_keys *keys);
void roe_keys_destroy(struct roe_keys *keys);

/* Publish an MR or window under a fresh key. */
int roe_mr_publish(struct roe_keys *keys, struct roe_mr *mr);
void roe_mr_unpublish(struct roe_mr *mr);
/* Add [@addr, @addr + @len) behind the last extent, merging what is contiguous. */
int roe_memory_add(struct roe_memory *mem, void *addr, u64 len);
/* No access is running when it returns and none begins while @state holds. */
void roe_mr_revoke(struct roe_mr *mr, enum roe_mr_state state);

/*
 * The one access check (wire.md section 7): whole 32-bit key, PD,
 * state, every bit of @access (IB_ACCESS_*; 0: local read), range without
 * overflow; for a key that the peer names also the QP to which a window is bound. NULL if
 * refused. Else the range may be used until roe_mr_put(), which must follow
 * soon: nothing but the copy in between, except if the MR is lent. One RCU read-side
 * section with softirqs off around it all.
 */
struct roe_mr *roe_mr_get(struct roe_keys *keys, const struct ib_pd *pd, u32 lkey,
			  int access, u64 va, u64 len);
/* For the engines, under qp->lock. For an L_Key of an SRQ's WQE @pd is the PD of the SRQ. */
struct roe_mr *roe_mr_get_local(struct roe_qp *qp, const struct ib_pd *pd, u32 lkey, int access,
				u64 va, u64 len);
/* The same for many accesses in one run; a memo is always used with the same PD and rights. */
struct roe_mr *roe_mr_get_local_again(struct roe_qp *qp, struct roe_run_memo *memo,
				      const struct ib_pd *pd, u32 lkey, int access, u64 va,
				      u64 len);
struct roe_mr *roe_mr_get_remote_again(struct roe_qp *qp, struct roe_run_memo *memo, u32 rkey,
				       int access, u64 va, u64 len);
struct roe_mr *roe_mr_get_remote(struct roe_qp *qp, u32 rkey, int access, u64 va, u64 len);
void roe_mr_put(struct roe_mr *mr);

/*
 * The kernel address of a range that the memo has proven. NULL: call roe_mr_get_local_again() or
 * roe_mr_get_remote_again(), which fill in the memo. There is no access to be put.
 */
static inline void *roe_mr_place(const struct roe_run_memo *memo, u32 key, u64 va, u64 len)
{
	u64 off = va - memo->begin;

	if (!memo->mr || memo->key != key || off >= memo->len || len > memo->len - off)
		return NULL;
	return memo->addr + off;
}

/*
 * Copy between a range that is held by roe_mr_get() and kernel memory. Any context.
 * False: a page is not there, perhaps after part of the copy; on-demand memory only.
 */
bool roe_mr_read(struct roe_mr *mr, u64 va, void *dst, u32 len);
bool roe_mr_write(struct roe_mr *mr, u64 va, const void *src, u32 len);
/*
 * The pieces, at most @max, of a range of an MR that lasts or is lent. Returns their number,
 * 0: copy instead.
 */
unsigned int roe_mr_map(struct roe_mr *mr, u64 va, u32 len, struct kvec *vec,
			unsigned int max);
/* roe_mr_write() and roe_mr_map() for consecutive packets. */
void roe_mr_write_row(struct roe_mr *mr, u64 va, const struct roe_rx_row *row, u32 len);
unsigned int roe_mr_map_row(struct roe_mr *mr, u64 va, struct roe_tx_pkt *pkt, unsigned int n,
			    u32 len);
/* An access passes to a burst, which ends it, or lets it go and takes it up again. */
bool roe_mr_lend(struct roe_mr *mr, struct roe_txb *txb);
void roe_mr_return(struct roe_txb *txb);
void roe_mr_let_go(struct roe_txb *txb);
bool roe_mr_hold_again(struct roe_txb *txb);
/* Would a copy into a held range find its pages? Only the beginning of a long one is checked. */
bool roe_mr_present(struct roe_mr *mr, u64 va, u64 len);
/* Address of an aligned 8-byte word of a held range, NULL if it straddles or is missing. */
u64 *roe_mr_word(struct roe_mr *mr, u64 va);

/* LOCAL_INV and SEND with invalidate, on a fast MR or a window: 0 or -EINVAL. */
int roe_mr_invalidate(const struct roe_qp *qp, u32 key, bool local);

/* user_mr.c: MRs that stay valid until they are deregistered */
struct roe_mr *roe_mr_alloc(struct ib_pd *pd, enum roe_mr_type type, u32 max_ext);
void roe_mr_free(struct roe_mr *mr);
struct ib_mr *roe_mr_publish_or_free(struct roe_mr *mr);
struct ib_mr *roe_mr_get_dma(struct ib_pd *pd, int access);
struct ib_mr *roe_mr_reg_user(struct ib_pd *pd, u64 start, u64 length, u64 iova,
			      int access, struct ib_udata *udata);
struct ib_mr *roe_mr_rereg_user(struct ib_mr *ibmr, int flags, u64 start, u64 length,
				u64 iova, int access, struct ib_pd *pd,
				struct ib_udata *udata);
int roe_mr_dereg(struct ib_mr *ibmr, struct ib_udata *udata);

/* dmabuf_mr.c: regions of dma-buf memory */
struct ib_mr *roe_mr_reg_dmabuf(struct ib_pd *pd, u64 offset, u64 length, u64 iova, int fd,
				int access);
int roe_dmabuf_get(struct roe_mr *mr, struct dma_buf *dmabuf, u64 offset);
void roe_dmabuf_put(struct roe_mr *mr);

/* fast_mr.c: registration by work request */
struct ib_mr *roe_mr_alloc_fast(struct ib_pd *pd, enum ib_mr_type type, u32 max_sg);
int roe_mr_map_sg(struct ib_mr *ibmr, struct scatterlist *sg, int nents,
		  unsigned int *offset);
int roe_mr_fast_reg(struct ib_pd *pd, struct roe_mr *mr, u32 key, int access);

#endif /* ROE_MR_H */
