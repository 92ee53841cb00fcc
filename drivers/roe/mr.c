// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Memory regions and windows in use: keys, the access check, copying.
 */
#include <linux/minmax.h>
#include <linux/mm.h>
#include <linux/preempt.h>
#include <linux/random.h>
#include <linux/rcupdate.h>
#include "copy.h"
#include "mw.h"
#include "odp.h"
#include "qp.h"

/* --- keys ------------------------------------------------------------------ */

/**
 * roe_keys_init - make the key table of a device
 * @keys: the table
 */
void roe_keys_init(struct roe_keys *keys)
{
	xa_init_flags(&keys->xa, XA_FLAGS_ALLOC1);
	keys->next = 0;
	atomic64_set(&keys->erased, 0);
}

ROE_EXPORT_FOR_TEST(roe_keys_init);

/**
 * roe_keys_destroy - free the key table; no MR is published any more
 * @keys: the table
 */
void roe_keys_destroy(struct roe_keys *keys)
{
	xa_destroy(&keys->xa);
}

ROE_EXPORT_FOR_TEST(roe_keys_destroy);

/**
 * roe_mr_publish - give an MR a fresh key, under which it can be found
 * @keys: key table of the device
 * @mr: complete but for its key
 *
 * Indices are handed out in turn and the key byte is random, so that a key used
 * after its MR has gone is unlikely to hit the next one.
 *
 * Context: process, may sleep.
 * Return: 0 or a negative errno.
 */
int roe_mr_publish(struct roe_keys *keys, struct roe_mr *mr)
{
	u32 index;
	int err;

	/* Reserve first: the key must be in place before anybody sees the MR. */
	err = xa_alloc_cyclic(&keys->xa, &index, NULL, XA_LIMIT(1, 0xffffff),
			      &keys->next, GFP_KERNEL);
	if (err < 0)
		return roe_table_error(err);

	spin_lock_init(&mr->lock);
	atomic_set(&mr->users, 0);
	atomic_set(&mr->windows, 0);
	mr->keys = keys;
	mr->key = index << ROE_KEY_INDEX_SHIFT | get_random_u8();
	mr->ib.lkey = mr->key;
	mr->ib.rkey = mr->key;
	return xa_err(xa_store(&keys->xa, index, mr, GFP_KERNEL));
}

ROE_EXPORT_FOR_TEST(roe_mr_publish);

/**
 * roe_mr_unpublish - take back the key of an MR or window
 * @mr: published
 *
 * On return no access to a revocable MR or window is running. Whoever found an MR of another
 * type before may go on using it until the end of its RCU read-side section.
 *
 * Context: process.
 */
void roe_mr_unpublish(struct roe_mr *mr)
{
	spin_lock_bh(&mr->lock);
	roe_mr_revoke(mr, ROE_MR_DEAD);
	spin_unlock_bh(&mr->lock);
	xa_erase(&mr->keys->xa, mr->key >> ROE_KEY_INDEX_SHIFT);
	/* after the erase, before the grace period: pairs with find_again() */
	atomic64_inc_return_release(&mr->keys->erased);
}

ROE_EXPORT_FOR_TEST(roe_mr_unpublish);

/* --- the gate -------------------------------------------------------------- */

/*
 * Count an access in. The access checks the state after that; roe_mr_revoke() reads the
 * count after it has changed the state. So at least one of the two sees the other.
 */
static void enter(struct roe_mr *mr)
{
	preempt_disable();
	atomic_inc(&mr->users);
	/* pairs with smp_mb() in roe_mr_revoke() */
	smp_mb__after_atomic();
}

static void leave(struct roe_mr *mr)
{
	/* after all loads and stores of the access: pairs with roe_mr_revoke() */
	smp_mb__before_atomic();
	atomic_dec(&mr->users);
	preempt_enable();
}

/**
 * roe_mr_revoke - refuse further access to an MR or window
 * @mr: MR or window; mr->lock held if it is revocable
 * @state: ROE_MR_FREE or ROE_MR_DEAD
 *
 * Waits for the accesses that hold a revocable @mr. They run on other CPUs with preemption off:
 * copies of a packet or of a row of packets, or the work on a burst to which @mr is lent
 * (roe_mr_lend()). Accesses to the other types end with a grace period, for which the caller
 * waits.
 *
 * Context: process or softirq, not while holding an access.
 */
void roe_mr_revoke(struct roe_mr *mr, enum roe_mr_state state)
{
	WRITE_ONCE(mr->state, state);
	if (roe_mr_lasts(mr))
		return;
	/* store the state before reading the count: pairs with enter() */
	smp_mb();
	while (atomic_read(&mr->users))
		cpu_relax();
	/* the accesses are complete before anything that follows: pairs with leave() */
	smp_mb();
	mr->use++;
}

ROE_EXPORT_FOR_TEST(roe_mr_revoke);

/* --- extents --------------------------------------------------------------- */

static u64 extent_end(const struct roe_mr *mr, u32 i)
{
	return i + 1 < mr->mem.nr ? mr->mem.ext[i + 1].off : mr->mem.bytes;
}

/* The last extent that begins at or before @off. */
static u32 extent_find(const struct roe_mr *mr, u64 off)
{
	u32 low = 0, high = mr->mem.nr;

	while (high - low > 1) {
		u32 mid = low + (high - low) / 2;

		if (mr->mem.ext[mid].off <= off)
			low = mid;
		else
			high = mid;
	}
	return low;
}

static bool continues_last(const struct roe_memory *mem, const void *addr)
{
	const struct roe_extent *last;

	if (!mem->nr)
		return false;
	last = &mem->ext[mem->nr - 1];
	return last->addr + (mem->bytes - last->off) == addr;
}

/**
 * roe_memory_add - append memory that an MR gives access to once it is valid
 * @mem: has room for @mem->max extents
 * @addr: in the direct map
 * @len: bytes
 *
 * Return: 0, or -ENOMEM if it needs one extent more than there is room for.
 */
int roe_memory_add(struct roe_memory *mem, void *addr, u64 len)
{
	if (!len)
		return 0;
	if (!continues_last(mem, addr)) {
		if (mem->nr == mem->max)
			return -ENOMEM;
		mem->ext[mem->nr++] = (struct roe_extent) {
			.off	= mem->bytes,
			.addr	= addr,
		};
	}
	mem->bytes += len;
	return 0;
}

ROE_EXPORT_FOR_TEST(roe_memory_add);

/* --- access check ---------------------------------------------------------- */

static bool covers(const struct roe_mr *mr, u64 va, u64 len)
{
	u64 off = va - mr->iova;

	return va >= mr->iova && off <= mr->length && len <= mr->length - off;
}

/* Longer than anything that an allocator gives out in one piece. */
#define GLOBAL_MAX	SZ_16M

/*
 * Is @at the direct-map address of a page that is, or can be, allocated? Not so for pages of the
 * kernel image and pages that firmware has reserved, which need not be mapped. The zero page may
 * be read: it is the data of writes of zeros to a block device.
 */
static bool is_ram(u64 at, bool write)
{
	const void *p = (const void *)(uintptr_t)at;
	struct page *page;

	if (!virt_addr_valid(p))
		return false;
	page = virt_to_page(p);
	return page_address(page) == p &&
	       (!PageReserved(page) || (!write && page == ZERO_PAGE(0)));
}

/*
 * With a global rkey the peer names kernel addresses. That is the kernel user's
 * choice (IB_PD_UNSAFE_GLOBAL_RKEY), yet an address without memory must be
 * refused here: there is no bus that would refuse it later.
 */
static bool in_direct_map(u64 va, u64 len, bool write)
{
	u64 end = va + len, at;

	if (len > GLOBAL_MAX)
		return false;
	for (at = va & PAGE_MASK; at < end; at += PAGE_SIZE)
		if (!is_ram(at, write))
			return false;
	return true;
}

static bool allows(const struct roe_mr *mr, const struct ib_pd *pd, u32 key, int access,
		   u64 va, u64 len)
{
	if (mr->key != key || mr->ib.pd != pd)
		return false;
	if ((mr->access & access) != access || !covers(mr, va, len))
		return false;
	/* a window has an R_Key but no L_Key: it gives no local access */
	if (roe_mr_is_window(mr) && !access)
		return false;
	return mr->type != ROE_MR_DMA || !(access & ROE_MR_REMOTE_ACCESS) ||
	       in_direct_map(va, len, access != IB_ACCESS_REMOTE_READ);
}

/* Key, PD and range are read after the state: pairs with the code that sets it VALID. */
static bool is_valid(const struct roe_mr *mr)
{
	/* pairs with the releases in user_mr.c, fast_mr.c and mw.c */
	return smp_load_acquire(&mr->state) == ROE_MR_VALID;
}

/*
 * roe_mr_find() with a memo, because a QP usually uses a key many times. If the memo returns an
 * MR that is being erased, that is as good as a lookup a little earlier: the erased count has
 * not changed yet, so the grace period of the erasure waits for this RCU read-side section.
 */
static struct roe_mr *find_again(struct roe_qp *qp, enum roe_key_use use, u32 key)
{
	struct roe_key_memo *memo = &qp->key_memo[use];
	u32 index = key >> ROE_KEY_INDEX_SHIFT;
	/* before the lookup: pairs with roe_mr_unpublish() */
	s64 erased = atomic64_read_acquire(&qp->keys->erased);

	if (!memo->mr || memo->index != index || memo->erased != erased)
		*memo = (struct roe_key_memo){ roe_mr_find(qp->keys, key), erased, index };
	return memo->mr;
}

/* Begin an access to a range of @mr, which was found under the index of @key. NULL: refused. */
static struct roe_mr *get(struct roe_mr *mr, const struct ib_pd *pd, u32 key, int access,
			  u64 va, u64 len)
{
	/* Not entered unless valid: useless attempts must not keep roe_mr_revoke() waiting. */
	if (!mr || !is_valid(mr))
		return NULL;
	if (roe_mr_lasts(mr))
		return allows(mr, pd, key, access, va, len) ? mr : NULL;

	enter(mr);
	if (is_valid(mr) && allows(mr, pd, key, access, va, len)) {
		if (mr->odp)
			roe_odp_enter(mr->odp);
		return mr;
	}
	leave(mr);
	return NULL;
}

/**
 * roe_mr_get - hold a range for access under a key
 * @keys: key table of the device
 * @pd: protection domain of the QP or SRQ
 * @lkey: all 32 bits
 * @access: IB_ACCESS_* bits needed, 0 for a local read
 * @va: first byte
 * @len: bytes, may be 0
 *
 * Context: softirqs off, in an RCU read-side section. No lock of a QP or MR may be
 * taken before roe_mr_put(): a revoker waits for the access with such locks held.
 * Return: the MR, NULL if it does not exist or does not allow it.
 */
struct roe_mr *roe_mr_get(struct roe_keys *keys, const struct ib_pd *pd, u32 lkey,
			  int access, u64 va, u64 len)
{
	return get(roe_mr_find(keys, lkey), pd, lkey, access, va, len);
}

ROE_EXPORT_FOR_TEST(roe_mr_get);

/**
 * roe_mr_get_local - roe_mr_get() for an engine, with an L_Key
 * @qp: qp->lock held
 * @pd: protection domain of the QP or SRQ
 * @lkey: all 32 bits
 * @access: IB_ACCESS_LOCAL_WRITE, or 0 to read
 * @va: first byte
 * @len: bytes, may be 0
 *
 * Context: as roe_mr_get().
 * Return: as roe_mr_get().
 */
struct roe_mr *roe_mr_get_local(struct roe_qp *qp, const struct ib_pd *pd, u32 lkey, int access,
				u64 va, u64 len)
{
	enum roe_key_use use = access ? ROE_KEY_WRITE : ROE_KEY_READ;

	return get(find_again(qp, use, lkey), pd, lkey, access, va, len);
}

/**
 * roe_mr_get_remote - hold a range that the peer named
 * @qp: QP of the request; qp->lock held
 * @rkey: all 32 bits, of an MR or a window
 * @access: at least one of IB_ACCESS_REMOTE_*
 * @va: first byte
 * @len: bytes, may be 0
 *
 * Context: as roe_mr_get().
 * Return: as roe_mr_get().
 */
struct roe_mr *roe_mr_get_remote(struct roe_qp *qp, u32 rkey, int access, u64 va, u64 len)
{
	struct roe_mr *mr = get(find_again(qp, ROE_KEY_REMOTE, rkey), qp->pd, rkey, access, va,
				len);

	if (mr && mr->type == ROE_MR_WINDOW_2B && mr->qp_id != qp->id) {
		roe_mr_put(mr);
		return NULL;
	}
	return mr;
}

ROE_EXPORT_FOR_TEST(roe_mr_get_remote);

/* Does the memo hold an MR that was proven for @key and covers @len bytes at @va? */
static bool recall(const struct roe_run_memo *memo, u32 key, u64 va, u64 len)
{
	return memo->mr && memo->key == key && covers(memo->mr, va, len);
}

/* Note the contiguous piece of memory in which @va lies, cut to the range of the MR. */
static void remember_place(struct roe_run_memo *memo, u64 va)
{
	const struct roe_mr *mr = memo->mr;
	const struct roe_extent *ext;
	u64 off, from, end;
	u32 i;

	memo->len = 0;
	/* of a DMA MR only the range that was asked for is proven */
	if (mr->type != ROE_MR_USER || va - mr->iova >= mr->length)
		return;
	off = va - mr->iova + mr->base;
	i = extent_find(mr, off);
	ext = &mr->mem.ext[i];
	from = max(ext->off, mr->base);
	end = min(extent_end(mr, i), mr->base + mr->length);
	memo->begin = mr->iova + (from - mr->base);
	memo->len = end - from;
	memo->addr = ext->addr + (from - ext->off);
}

/* The place of the memory is looked up only when a second message uses the MR. */
static void remember(struct roe_run_memo *memo, struct roe_mr *mr, u32 key)
{
	memo->mr = mr;
	memo->key = key;
	memo->len = 0;
}

/**
 * roe_mr_get_local_again - roe_mr_get_local() for many messages of one run
 * @qp: qp->lock held
 * @memo: of this run, for this PD and this access
 * @pd: protection domain of the QP or SRQ
 * @lkey: all 32 bits
 * @access: IB_ACCESS_LOCAL_WRITE, or 0 to read
 * @va: first byte
 * @len: bytes, may be 0
 *
 * Context: as roe_mr_get(); one RCU read-side section as long as @memo is used.
 * Return: as roe_mr_get().
 */
struct roe_mr *roe_mr_get_local_again(struct roe_qp *qp, struct roe_run_memo *memo,
				      const struct ib_pd *pd, u32 lkey, int access, u64 va,
				      u64 len)
{
	struct roe_mr *mr;

	if (recall(memo, lkey, va, len)) {
		remember_place(memo, va);
		return memo->mr;
	}
	mr = roe_mr_get_local(qp, pd, lkey, access, va, len);
	if (mr && roe_mr_lasts(mr))
		remember(memo, mr, lkey);
	return mr;
}

/**
 * roe_mr_get_remote_again - roe_mr_get_remote() for many messages of one run
 * @qp: QP of the request; qp->lock held
 * @memo: of this run, for this access
 * @rkey: all 32 bits, of an MR or a window
 * @access: at least one of IB_ACCESS_REMOTE_*
 * @va: first byte
 * @len: bytes, may be 0
 *
 * Context: as roe_mr_get_local_again().
 * Return: as roe_mr_get().
 */
struct roe_mr *roe_mr_get_remote_again(struct roe_qp *qp, struct roe_run_memo *memo, u32 rkey,
				       int access, u64 va, u64 len)
{
	struct roe_mr *mr;

	if (recall(memo, rkey, va, len)) {
		remember_place(memo, va);
		return memo->mr;
	}
	mr = roe_mr_get_remote(qp, rkey, access, va, len);
	/* a DMA MR may have holes: check each range */
	if (mr && roe_mr_lasts(mr) && mr->type != ROE_MR_DMA)
		remember(memo, mr, rkey);
	return mr;
}

/**
 * roe_mr_put - the end of an access
 * @mr: from roe_mr_get(), roe_mr_get_remote()
 */
void roe_mr_put(struct roe_mr *mr)
{
	if (roe_mr_lasts(mr))
		return;
	if (mr->odp)
		roe_odp_leave(mr->odp);
	leave(mr);
}

ROE_EXPORT_FOR_TEST(roe_mr_put);

/**
 * roe_mr_lend - may payload be read in place until the burst is done with it?
 * @mr: the MR, held
 * @txb: the burst
 *
 * Payload of an MR that lasts may. The access to a fast MR passes to the burst: the caller does
 * not call roe_mr_put(). Until the burst ends it, whoever revokes the MR waits, holding the locks
 * of its QP and of the MR. Meanwhile this CPU must not wait for a lock of a QP or MR. So a burst
 * for the network ends the access when its packets are built (roe_mr_return()), before they
 * leave. A direct burst ends it before the receiving QP is locked (roe_mr_let_go()); the
 * receiver takes it up again while it receives (roe_mr_hold_again()), and has no SEND with
 * invalidate to receive. With PREEMPT_RT this CPU must not wait for any lock, so no fast MR is
 * lent.
 *
 * Context: between roe_mr_get() and roe_mr_put().
 * Return: false if the payload has to be copied before roe_mr_put().
 */
bool roe_mr_lend(struct roe_mr *mr, struct roe_txb *txb)
{
	unsigned int i;

	if (roe_mr_lasts(mr))
		return roe_txb_lends(txb);
	if (!roe_txb_lends(txb) || mr->type != ROE_MR_FAST || IS_ENABLED(CONFIG_PREEMPT_RT) ||
	    (txb->direct && txb->invalidates))
		return false;
	for (i = 0; i < txb->nr_mrs; i++) {
		if (txb->mr[i] == mr) {
			leave(mr);
			return true;
		}
	}
	if (i == ROE_TXB_MRS)
		return false;
	txb->mr[i] = mr;
	txb->mr_use[i] = mr->use;
	txb->nr_mrs++;
	return true;
}

ROE_EXPORT_FOR_TEST(roe_mr_lend);

/**
 * roe_mr_return - a burst is done with what was lent to it
 * @txb: the burst, which holds these MRs
 */
void roe_mr_return(struct roe_txb *txb)
{
	while (txb->nr_mrs)
		leave(txb->mr[--txb->nr_mrs]);
}

ROE_EXPORT_FOR_TEST(roe_mr_return);

/**
 * roe_mr_let_go - end the accesses of a burst for now
 * @txb: the burst, whose pieces nobody may read until roe_mr_hold_again()
 *
 * Context: the RCU read-side section goes on, so the MRs are not freed.
 */
void roe_mr_let_go(struct roe_txb *txb)
{
	unsigned int i;

	for (i = 0; i < txb->nr_mrs; i++)
		leave(txb->mr[i]);
}

ROE_EXPORT_FOR_TEST(roe_mr_let_go);

/**
 * roe_mr_hold_again - take up the accesses that roe_mr_let_go() ended
 * @txb: after roe_mr_let_go(), in the same RCU read-side section; then roe_mr_return()
 *
 * Return: false if one of the MRs was revoked meanwhile, and may map other memory now. Then the
 * burst holds no MR any more, and its pieces must not be read.
 */
bool roe_mr_hold_again(struct roe_txb *txb)
{
	unsigned int n = txb->nr_mrs;

	for (txb->nr_mrs = 0; txb->nr_mrs < n; txb->nr_mrs++) {
		struct roe_mr *mr = txb->mr[txb->nr_mrs];

		enter(mr);
		if (!is_valid(mr) || mr->use != txb->mr_use[txb->nr_mrs]) {
			leave(mr);
			roe_mr_return(txb);
			return false;
		}
	}
	return true;
}

ROE_EXPORT_FOR_TEST(roe_mr_hold_again);

/**
 * roe_mr_invalidate - LOCAL_INV and SEND with invalidate
 * @qp: QP of the request
 * @key: whole key of a fast MR or a type 2 window; if that is free, it stays free. From a peer it
 * is an R_Key, which an MR without remote rights does not have
 * @local: LOCAL_INV, not SEND with invalidate
 *
 * When it returns no access under @key is running and none will start.
 *
 * Context: softirqs off, in an RCU read-side section.
 * Return: 0 or -EINVAL.
 */
int roe_mr_invalidate(const struct roe_qp *qp, u32 key, bool local)
{
	struct roe_mr *mr = roe_mr_find(qp->keys, key);
	int err = -EINVAL;

	if (!mr || mr->ib.pd != qp->pd)
		return -EINVAL;
	if (mr->type != ROE_MR_FAST && mr->type != ROE_MR_WINDOW_2B)
		return -EINVAL;

	spin_lock_bh(&mr->lock);
	/*
	 * Nobody can reach a free fast MR, so its key need not match: if its REG_MR was flushed,
	 * the user has a newer key than the MR. Lustre invalidates that on the next connection.
	 */
	if (local && mr->type == ROE_MR_FAST && mr->state == ROE_MR_FREE) {
		err = 0;
	} else if (mr->key == key && mr->state != ROE_MR_DEAD) {
		if (mr->type == ROE_MR_WINDOW_2B) {
			err = roe_mw_invalidate(mr, qp);
		} else if (local || mr->state != ROE_MR_VALID ||
			   mr->access & ROE_MR_REMOTE_ACCESS) {
			roe_mr_revoke(mr, ROE_MR_FREE);
			err = 0;
		}
	}
	spin_unlock_bh(&mr->lock);
	return err;
}

ROE_EXPORT_FOR_TEST(roe_mr_invalidate);

/* A way through a checked range, contiguous piece by contiguous piece. */
struct walk {
	const struct roe_mr	*mr;
	u64			off;	/* from the start of ext[0]; DMA, ODP: address */
	u32			i;	/* extent */
	bool			write;
};

static struct walk walk_start(const struct roe_mr *mr, u64 va, bool write)
{
	struct walk walk = { .mr = mr, .write = write };

	if (mr->type == ROE_MR_DMA) {
		walk.off = va;
	} else if (mr->odp) {
		walk.off = va - mr->iova + mr->base;
	} else {
		walk.off = va - mr->iova + mr->base;
		walk.i = extent_find(mr, walk.off);
	}
	return walk;
}

/* The next piece, at most *@len bytes; *@len is set to its length. NULL: the page is missing. */
static void *walk_next(struct walk *walk, u32 *len)
{
	const struct roe_mr *mr = walk->mr;
	const struct roe_extent *ext;
	void *addr;

	if (mr->type == ROE_MR_DMA) {
		addr = (void *)(uintptr_t)walk->off;
	} else if (mr->odp) {
		addr = roe_odp_find(mr->odp, walk->off, walk->write);
		*len = min_t(u32, *len, PAGE_SIZE - offset_in_page(walk->off));
	} else {
		if (walk->off == extent_end(mr, walk->i))
			walk->i++;
		ext = &mr->mem.ext[walk->i];
		addr = ext->addr + (walk->off - ext->off);
		*len = min_t(u64, *len, extent_end(mr, walk->i) - walk->off);
	}
	walk->off += *len;
	return addr;
}

/* --- copying --------------------------------------------------------------- */

static bool copy_to(struct walk *walk, const void *src, u32 len)
{
	while (len) {
		u32 n = len;
		void *dst = walk_next(walk, &n);

		if (!dst)
			return false;
		roe_copy(dst, src, n);
		src += n;
		len -= n;
	}
	return true;
}

/**
 * roe_mr_read - copy from a range
 * @mr: the MR, held
 * @va: first byte
 * @dst: kernel memory
 * @len: bytes
 *
 * Context: between roe_mr_get() and roe_mr_put().
 * Return: false if a page of on-demand memory is not there.
 */
bool roe_mr_read(struct roe_mr *mr, u64 va, void *dst, u32 len)
{
	struct walk walk;

	if (!len)
		return true;
	for (walk = walk_start(mr, va, false); len;) {
		u32 n = len;
		const void *src = walk_next(&walk, &n);

		if (!src)
			return false;
		roe_copy_out(dst, src, n);
		dst += n;
		len -= n;
	}
	return true;
}

ROE_EXPORT_FOR_TEST(roe_mr_read);

/**
 * roe_mr_write - copy into a range
 * @mr: the MR, held
 * @va: first byte
 * @src: kernel memory
 * @len: bytes
 *
 * Context: between roe_mr_get() and roe_mr_put().
 * Return: as roe_mr_read().
 */
bool roe_mr_write(struct roe_mr *mr, u64 va, const void *src, u32 len)
{
	struct walk walk;

	if (!len)
		return true;
	walk = walk_start(mr, va, true);
	return copy_to(&walk, src, len);
}

ROE_EXPORT_FOR_TEST(roe_mr_write);

/**
 * roe_mr_write_row - copy the payload of packets, one behind the other, into a range
 * @mr: the MR, held; not on-demand memory, of which a page may be missing
 * @va: first byte
 * @row: the packets
 * @len: payload of each
 *
 * Context: between roe_mr_get() and roe_mr_put().
 */
void roe_mr_write_row(struct roe_mr *mr, u64 va, const struct roe_rx_row *row, u32 len)
{
	struct walk walk = walk_start(mr, va, true);
	bool wide = roe_copy_begin(row->n * len);
	unsigned int i;

	for (i = 0; i < row->n; i++) {
		const struct kvec *vec = roe_rx_at(row, i)->vec;
		u32 left;

		for (left = len; left; vec++) {
			const void *src = vec->iov_base;
			u32 rest = min_t(size_t, left, vec->iov_len);

			left -= rest;
			while (rest) {
				u32 n = rest;
				void *dst = walk_next(&walk, &n);

				roe_copy_piece(wide, dst, src, n);
				src += n;
				rest -= n;
			}
		}
	}
	roe_copy_end(wide);
}

/**
 * roe_mr_map - list the pieces of kernel memory that a range consists of
 * @mr: the MR, held
 * @va: first byte
 * @len: bytes, not 0
 * @vec: takes the pieces
 * @max: room in @vec
 *
 * Context: between roe_mr_get() and roe_mr_put(), after roe_mr_lend() has returned true. The
 * pieces stay valid as long as it says.
 * Return: number of pieces; 0 if the bytes must be copied instead.
 */
unsigned int roe_mr_map(struct roe_mr *mr, u64 va, u32 len, struct kvec *vec,
			unsigned int max)
{
	struct walk walk;
	unsigned int n;

	walk = walk_start(mr, va, false);
	for (n = 0; len && n < max; n++) {
		u32 part = len;

		vec[n].iov_base = walk_next(&walk, &part);
		vec[n].iov_len = part;
		len -= part;
	}
	return len ? 0 : n;
}

/**
 * roe_mr_map_row - list the pieces of the payload of consecutive packets
 * @mr: the MR, held or lent
 * @va: first byte
 * @pkt: the packets; their rx.vec is filled in
 * @n: packets
 * @len: payload of each, not 0
 *
 * Context: as roe_mr_map().
 * Return: number of packets before the first one whose payload is in too many pieces.
 */
unsigned int roe_mr_map_row(struct roe_mr *mr, u64 va, struct roe_tx_pkt *pkt, unsigned int n,
			    u32 len)
{
	struct walk walk = walk_start(mr, va, false);
	unsigned int i;

	for (i = 0; i < n; i++) {
		struct roe_rx_pkt *rx = &pkt[i].rx;
		u32 left = len;

		for (rx->nvec = 0; left && rx->nvec < ROE_PKT_VECS; rx->nvec++) {
			struct kvec *vec = &rx->vec[rx->nvec];
			u32 part = left;

			vec->iov_base = walk_next(&walk, &part);
			vec->iov_len = part;
			left -= part;
		}
		if (left)
			break;
	}
	return i;
}

/**
 * roe_mr_present - would a copy into a range find its pages?
 * @mr: the MR, held
 * @va: first byte
 * @len: bytes; only the first ROE_ODP_AHEAD are checked
 *
 * Context: between roe_mr_get() and roe_mr_put().
 * Return: true if it would; always so for memory that is not on-demand.
 */
bool roe_mr_present(struct roe_mr *mr, u64 va, u64 len)
{
	u64 addr = va - mr->iova + mr->base;

	return !mr->odp || !len || roe_odp_missing(mr->odp, addr, len, true) == addr + len;
}

/**
 * roe_mr_word - address of an 8-byte word of a range
 * @mr: the MR, held
 * @va: of the word
 *
 * Context: between roe_mr_get() and roe_mr_put(), where the address is used.
 * Return: the address; NULL if @va or the memory behind it is not aligned, or not there.
 */
u64 *roe_mr_word(struct roe_mr *mr, u64 va)
{
	struct walk walk = walk_start(mr, va, true);
	u32 len = sizeof(u64);
	void *addr = walk_next(&walk, &len);

	if (!addr || len != sizeof(u64) || !IS_ALIGNED(va | (uintptr_t)addr, sizeof(u64)))
		return NULL;
	return addr;
}

ROE_EXPORT_FOR_TEST(roe_mr_word);
