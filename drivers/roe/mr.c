// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Memory regions: keys, the access check, copying, registration.
 */
#include <linux/minmax.h>
#include <linux/overflow.h>
#include <linux/random.h>
#include <linux/rcupdate.h>
#include <linux/scatterlist.h>
#include <linux/slab.h>
#include "device.h"
#include "mr.h"

#define KEY_INDEX_SHIFT	8
#define KEY_BYTE_MASK	0xff

/*
 * HUGETLB is a promise about the memory that needs no belief, relaxed ordering
 * and the rest of the optional range are hints. Whether the device offers
 * windows and flush is for its capabilities to say; the core looks at them.
 */
#define USER_ACCESS							\
	(IB_ACCESS_LOCAL_WRITE | IB_ACCESS_REMOTE_WRITE |		\
	 IB_ACCESS_REMOTE_READ | IB_ACCESS_REMOTE_ATOMIC |		\
	 IB_ACCESS_MW_BIND | IB_ZERO_BASED | IB_ACCESS_HUGETLB |	\
	 IB_ACCESS_FLUSH_GLOBAL | IB_ACCESS_FLUSH_PERSISTENT |		\
	 IB_ACCESS_OPTIONAL)

#define REMOTE_ACCESS							\
	(IB_ACCESS_REMOTE_WRITE | IB_ACCESS_REMOTE_READ |		\
	 IB_ACCESS_REMOTE_ATOMIC)

/* --- keys ------------------------------------------------------------------ */

/**
 * roe_keys_init - make the key table of a device
 * @keys: the table
 */
void roe_keys_init(struct roe_keys *keys)
{
	xa_init_flags(&keys->xa, XA_FLAGS_ALLOC1);
	keys->next = 0;
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
		return err;

	spin_lock_init(&mr->lock);
	mr->keys = keys;
	mr->key = index << KEY_INDEX_SHIFT | get_random_u8();
	mr->ib.lkey = mr->key;
	mr->ib.rkey = mr->key;
	return xa_err(xa_store(&keys->xa, index, mr, GFP_KERNEL));
}
ROE_EXPORT_FOR_TEST(roe_mr_publish);

/**
 * roe_mr_unpublish - take back the key of an MR
 * @mr: a published MR
 *
 * Who found it before may go on until its RCU read-side section ends.
 *
 * Context: process.
 */
void roe_mr_unpublish(struct roe_mr *mr)
{
	unsigned long flags;

	spin_lock_irqsave(&mr->lock, flags);
	WRITE_ONCE(mr->state, ROE_MR_DEAD);
	spin_unlock_irqrestore(&mr->lock, flags);
	xa_erase(&mr->keys->xa, mr->key >> KEY_INDEX_SHIFT);
}
ROE_EXPORT_FOR_TEST(roe_mr_unpublish);

/* --- access check ---------------------------------------------------------- */

static bool covers(const struct roe_mr *mr, u64 va, u64 len)
{
	u64 off = va - mr->iova;

	return va >= mr->iova && off <= mr->length && len <= mr->length - off;
}

/*
 * With a global rkey the peer names kernel addresses. That is the kernel user's
 * choice (IB_PD_UNSAFE_GLOBAL_RKEY), yet an address without memory must be
 * refused here: there is no bus that would refuse it later.
 */
static bool in_direct_map(u64 va, u64 len)
{
	return !len || (virt_addr_valid((void *)(uintptr_t)va) &&
			virt_addr_valid((void *)(uintptr_t)(va + len - 1)));
}

/**
 * roe_mr_get - find the MR of a key and check that it allows an access
 * @keys: key table of the device
 * @pd: protection domain of the QP
 * @key: lkey or rkey, all 32 bits
 * @access: IB_ACCESS_* bits needed, 0 for a local read
 * @va: first byte
 * @len: bytes, may be 0
 *
 * Context: any, in an RCU read-side section, in which the result is valid.
 * Return: the MR, NULL if it does not exist or does not allow it.
 */
struct roe_mr *roe_mr_get(struct roe_keys *keys, const struct ib_pd *pd, u32 key,
			  int access, u64 va, u64 len)
{
	struct roe_mr *mr = xa_load(&keys->xa, key >> KEY_INDEX_SHIFT);

	if (!mr)
		return NULL;
	/* Pairs with roe_mr_fast_reg(): the rest is read after the state. */
	if (smp_load_acquire(&mr->state) != ROE_MR_VALID)
		return NULL;
	if (READ_ONCE(mr->key) != key || mr->ib.pd != pd)
		return NULL;
	if ((mr->access & access) != access || !covers(mr, va, len))
		return NULL;
	if (mr->type == ROE_MR_DMA && access & REMOTE_ACCESS &&
	    !in_direct_map(va, len))
		return NULL;
	return mr;
}
ROE_EXPORT_FOR_TEST(roe_mr_get);

/* --- extents --------------------------------------------------------------- */

static u64 extent_end(const struct roe_mr *mr, u32 i)
{
	return i + 1 < mr->nr_ext ? mr->ext[i + 1].off : mr->ext_bytes;
}

/* Last extent that does not begin behind @off. */
static u32 extent_find(const struct roe_mr *mr, u64 off)
{
	u32 low = 0, high = mr->nr_ext;

	while (high - low > 1) {
		u32 mid = low + (high - low) / 2;

		if (mr->ext[mid].off <= off)
			low = mid;
		else
			high = mid;
	}
	return low;
}

static bool continues_last(const struct roe_mr *mr, const void *addr)
{
	const struct roe_extent *last;

	if (!mr->nr_ext)
		return false;
	last = &mr->ext[mr->nr_ext - 1];
	return last->addr + (mr->ext_bytes - last->off) == addr;
}

/**
 * roe_mr_add_extent - append memory to an MR that is not valid yet
 * @mr: the MR, with room for max_ext extents
 * @addr: in the direct map
 * @len: bytes
 *
 * Return: 0, or -ENOMEM if it needs one extent more than there is room for.
 */
int roe_mr_add_extent(struct roe_mr *mr, void *addr, u64 len)
{
	if (!len)
		return 0;
	if (!continues_last(mr, addr)) {
		if (mr->nr_ext == mr->max_ext)
			return -ENOMEM;
		mr->ext[mr->nr_ext++] = (struct roe_extent) {
			.off	= mr->ext_bytes,
			.addr	= addr,
		};
	}
	mr->ext_bytes += len;
	return 0;
}
ROE_EXPORT_FOR_TEST(roe_mr_add_extent);

/* A way through a checked range, contiguous piece by contiguous piece. */
struct walk {
	const struct roe_mr	*mr;
	u64			off;	/* from the start of ext[0]; DMA: address */
	u32			i;	/* extent */
};

static struct walk walk_start(const struct roe_mr *mr, u64 va)
{
	struct walk walk = { .mr = mr };

	if (mr->type == ROE_MR_DMA) {
		walk.off = va;
	} else {
		walk.off = va - mr->iova + mr->base;
		walk.i = extent_find(mr, walk.off);
	}
	return walk;
}

/* The next piece: at most *@len bytes, *@len becomes what it has. */
static void *walk_next(struct walk *walk, u32 *len)
{
	const struct roe_mr *mr = walk->mr;
	const struct roe_extent *ext;
	void *addr;

	if (mr->type == ROE_MR_DMA) {
		addr = (void *)(uintptr_t)walk->off;
	} else {
		if (walk->off == extent_end(mr, walk->i))
			walk->i++;
		ext = &mr->ext[walk->i];
		addr = ext->addr + (walk->off - ext->off);
		*len = min_t(u64, *len, extent_end(mr, walk->i) - walk->off);
	}
	walk->off += *len;
	return addr;
}

/* --- copying --------------------------------------------------------------- */

static void copy_from(const struct roe_mr *mr, u64 va, void *dst, u32 len)
{
	struct walk walk;

	if (!len)
		return;
	for (walk = walk_start(mr, va); len;) {
		u32 n = len;
		const void *src = walk_next(&walk, &n);

		memcpy(dst, src, n);
		dst += n;
		len -= n;
	}
}

static void copy_to(struct walk *walk, const void *src, u32 len)
{
	while (len) {
		u32 n = len;
		void *dst = walk_next(walk, &n);

		memcpy(dst, src, n);
		src += n;
		len -= n;
	}
}

static void copy_vec_to(const struct roe_mr *mr, u64 va, const struct kvec *vec,
			unsigned int nvec, u32 skip, u32 len)
{
	struct walk walk;

	if (!len)
		return;
	for (walk = walk_start(mr, va); len && nvec; vec++, nvec--) {
		u32 n;

		if (skip >= vec->iov_len) {
			skip -= vec->iov_len;
			continue;
		}
		n = min_t(size_t, len, vec->iov_len - skip);
		copy_to(&walk, vec->iov_base + skip, n);
		skip = 0;
		len -= n;
	}
}

/* Under mr->lock: is what roe_mr_get() found still so? */
static bool still_covers(const struct roe_mr *mr, u64 va, u32 len)
{
	return mr->state == ROE_MR_VALID && covers(mr, va, len);
}

/**
 * roe_mr_read - copy from a range that roe_mr_get() has checked
 * @mr: the MR
 * @va: first byte
 * @dst: kernel memory; zeros if a fast MR was invalidated in between
 * @len: bytes
 *
 * Context: any, in the RCU read-side section of roe_mr_get().
 */
void roe_mr_read(struct roe_mr *mr, u64 va, void *dst, u32 len)
{
	unsigned long flags;

	if (mr->type != ROE_MR_FAST) {
		copy_from(mr, va, dst, len);
		return;
	}
	spin_lock_irqsave(&mr->lock, flags);
	if (still_covers(mr, va, len))
		copy_from(mr, va, dst, len);
	else
		memset(dst, 0, len);
	spin_unlock_irqrestore(&mr->lock, flags);
}
ROE_EXPORT_FOR_TEST(roe_mr_read);

/**
 * roe_mr_write_vec - copy into a range that roe_mr_get() has checked
 * @mr: the MR
 * @va: first byte
 * @vec: pieces of the source, at least @skip + @len bytes
 * @nvec: number of pieces
 * @skip: bytes of the source to leave out
 * @len: bytes to copy
 *
 * Nothing is written if a fast MR was invalidated in between.
 *
 * Context: any, in the RCU read-side section of roe_mr_get().
 */
void roe_mr_write_vec(struct roe_mr *mr, u64 va, const struct kvec *vec,
		      unsigned int nvec, u32 skip, u32 len)
{
	unsigned long flags;

	if (mr->type != ROE_MR_FAST) {
		copy_vec_to(mr, va, vec, nvec, skip, len);
		return;
	}
	spin_lock_irqsave(&mr->lock, flags);
	if (still_covers(mr, va, len))
		copy_vec_to(mr, va, vec, nvec, skip, len);
	spin_unlock_irqrestore(&mr->lock, flags);
}
ROE_EXPORT_FOR_TEST(roe_mr_write_vec);

/**
 * roe_mr_write - copy into a range that roe_mr_get() has checked
 * @mr: the MR
 * @va: first byte
 * @src: kernel memory
 * @len: bytes
 *
 * Nothing is written if a fast MR was invalidated in between.
 *
 * Context: any, in the RCU read-side section of roe_mr_get().
 */
void roe_mr_write(struct roe_mr *mr, u64 va, const void *src, u32 len)
{
	const struct kvec vec = { .iov_base = (void *)src, .iov_len = len };

	roe_mr_write_vec(mr, va, &vec, 1, 0, len);
}
ROE_EXPORT_FOR_TEST(roe_mr_write);

static u64 *find_word(const struct roe_mr *mr, u64 va)
{
	struct walk walk = walk_start(mr, va);
	u32 len = sizeof(u64);
	void *addr = walk_next(&walk, &len);

	if (len != sizeof(u64) || !IS_ALIGNED((uintptr_t)addr, sizeof(u64)))
		return NULL;
	return addr;
}

/**
 * roe_mr_word - address of an 8-byte word of a range that roe_mr_get() has checked
 * @mr: the MR
 * @va: of the word
 *
 * An atomic on a fast MR that races with its invalidation by another QP may
 * still take place: its word was the peer's when the request was accepted.
 *
 * Context: any, in the RCU read-side section of roe_mr_get().
 * Return: the address; NULL if @va or the memory behind it is not aligned, or a
 * fast MR was invalidated in between.
 */
u64 *roe_mr_word(struct roe_mr *mr, u64 va)
{
	unsigned long flags;
	u64 *word = NULL;

	if (!IS_ALIGNED(va, sizeof(u64)))
		return NULL;
	if (mr->type != ROE_MR_FAST)
		return find_word(mr, va);

	spin_lock_irqsave(&mr->lock, flags);
	if (still_covers(mr, va, sizeof(u64)))
		word = find_word(mr, va);
	spin_unlock_irqrestore(&mr->lock, flags);
	return word;
}
ROE_EXPORT_FOR_TEST(roe_mr_word);

/* --- fast registration ----------------------------------------------------- */

/* Core rule for user MRs, which nobody checks in a work request. */
static bool fast_access_ok(int access)
{
	return !(access & (IB_ACCESS_REMOTE_WRITE | IB_ACCESS_REMOTE_ATOMIC)) ||
	       access & IB_ACCESS_LOCAL_WRITE;
}

static bool fast_reg_ok(const struct roe_mr *mr, const struct ib_pd *pd, u32 key,
			int access)
{
	u64 need;

	return mr->type == ROE_MR_FAST && mr->state == ROE_MR_FREE &&
	       mr->ib.pd == pd && !((key ^ mr->key) & ~KEY_BYTE_MASK) &&
	       fast_access_ok(access) &&
	       !check_add_overflow(mr->base, mr->ib.length, &need) &&
	       need <= mr->ext_bytes;
}

/**
 * roe_mr_fast_reg - IB_WR_REG_MR: make the mapped pages accessible
 * @pd: protection domain of the QP
 * @mr: MR of the work request
 * @key: new key; only the key byte may differ from the old one
 * @access: IB_ACCESS_*
 *
 * Context: any.
 * Return: 0, or -EINVAL if the MR is registered or the request is not allowed.
 */
int roe_mr_fast_reg(struct ib_pd *pd, struct roe_mr *mr, u32 key, int access)
{
	unsigned long flags;
	int err = -EINVAL;

	spin_lock_irqsave(&mr->lock, flags);
	if (fast_reg_ok(mr, pd, key, access)) {
		WRITE_ONCE(mr->key, key);
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
	spin_unlock_irqrestore(&mr->lock, flags);
	return err;
}
ROE_EXPORT_FOR_TEST(roe_mr_fast_reg);

static int invalidate(struct roe_mr *mr, const struct ib_pd *pd, u32 key)
{
	unsigned long flags;
	int err = -EINVAL;

	if (mr->type != ROE_MR_FAST || mr->ib.pd != pd)
		return -EINVAL;

	spin_lock_irqsave(&mr->lock, flags);
	if (mr->key == key && mr->state != ROE_MR_DEAD) {
		WRITE_ONCE(mr->state, ROE_MR_FREE);
		err = 0;
	}
	spin_unlock_irqrestore(&mr->lock, flags);
	return err;
}

/**
 * roe_mr_invalidate - LOCAL_INV and SEND with invalidate
 * @keys: key table of the device
 * @pd: protection domain of the QP
 * @key: whole key of a fast MR; one that is free already stays so
 *
 * When it returns no access under @key is running and none will start.
 *
 * Context: any.
 * Return: 0 or -EINVAL.
 */
int roe_mr_invalidate(struct roe_keys *keys, const struct ib_pd *pd, u32 key)
{
	struct roe_mr *mr;
	int err = -EINVAL;

	rcu_read_lock();
	mr = xa_load(&keys->xa, key >> KEY_INDEX_SHIFT);
	if (mr)
		err = invalidate(mr, pd, key);
	rcu_read_unlock();
	return err;
}
ROE_EXPORT_FOR_TEST(roe_mr_invalidate);

/* --- verbs ----------------------------------------------------------------- */

static struct roe_mr *new_mr(struct ib_pd *pd, enum roe_mr_type type, int access)
{
	struct roe_mr *mr = kzalloc(sizeof(*mr), GFP_KERNEL);

	if (!mr)
		return NULL;
	mr->ib.device = pd->device;
	mr->ib.pd = pd;
	mr->type = type;
	mr->state = type == ROE_MR_FAST ? ROE_MR_FREE : ROE_MR_VALID;
	mr->access = access;
	return mr;
}

static void free_mr(struct roe_mr *mr)
{
	ib_umem_release(mr->umem);
	kvfree(mr->ext);
	kfree(mr);
}

static struct ib_mr *publish_or_free(struct ib_pd *pd, struct roe_mr *mr)
{
	int err = roe_mr_publish(&roe_dev(pd->device)->keys, mr);

	if (err) {
		free_mr(mr);
		return ERR_PTR(err);
	}
	return &mr->ib;
}

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
 * roe_mr_get_dma - the get_dma_mr verb: an MR of all kernel memory
 * @pd: protection domain
 * @access: IB_ACCESS_*
 *
 * Return: the MR or an ERR_PTR().
 */
struct ib_mr *roe_mr_get_dma(struct ib_pd *pd, int access)
{
	struct roe_mr *mr = new_mr(pd, ROE_MR_DMA, access);

	if (!mr)
		return ERR_PTR(-ENOMEM);
	mr->length = U64_MAX;
	return publish_or_free(pd, mr);
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

	mr = new_mr(pd, ROE_MR_USER, access);
	if (!mr)
		return ERR_PTR(-ENOMEM);
	mr->iova = iova;
	mr->length = length;
	mr->ib.iova = iova;
	mr->ib.length = length;

	err = length ? pin_user(mr, start, length, access) : 0;
	if (err) {
		free_mr(mr);
		return ERR_PTR(err);
	}
	return publish_or_free(pd, mr);
}

/**
 * roe_mr_alloc - the alloc_mr verb: an MR for fast registration
 * @pd: protection domain
 * @type: only IB_MR_TYPE_MEM_REG
 * @max_sg: most pages, 1 to ROE_MR_MAX_FAST_PAGES
 *
 * Return: the MR or an ERR_PTR().
 */
struct ib_mr *roe_mr_alloc(struct ib_pd *pd, enum ib_mr_type type, u32 max_sg)
{
	struct roe_mr *mr;
	int err;

	if (type != IB_MR_TYPE_MEM_REG)
		return ERR_PTR(-EOPNOTSUPP);
	if (max_sg < 1 || max_sg > ROE_MR_MAX_FAST_PAGES)
		return ERR_PTR(-EINVAL);

	mr = new_mr(pd, ROE_MR_FAST, 0);
	if (!mr)
		return ERR_PTR(-ENOMEM);
	err = alloc_extents(mr, max_sg);
	if (err) {
		free_mr(mr);
		return ERR_PTR(err);
	}
	return publish_or_free(pd, mr);
}

static int set_page(struct ib_mr *ibmr, u64 addr)
{
	return roe_mr_add_extent(roe_mr(ibmr), ib_virt_dma_to_ptr(addr),
				 ibmr->page_size);
}

/**
 * roe_mr_map_sg - the map_mr_sg verb: name the pages of the next registration
 * @ibmr: a fast MR that is free
 * @sg: mapped for DMA, that is, with kernel addresses
 * @nents: number of elements
 * @offset: into the first element
 *
 * Nobody reads the extents of a free MR, so this takes no lock.
 *
 * Return: elements mapped, or a negative errno.
 */
int roe_mr_map_sg(struct ib_mr *ibmr, struct scatterlist *sg, int nents,
		  unsigned int *offset)
{
	struct roe_mr *mr = roe_mr(ibmr);
	int n;

	if (mr->type != ROE_MR_FAST || READ_ONCE(mr->state) != ROE_MR_FREE)
		return -EINVAL;

	mr->nr_ext = 0;
	mr->ext_bytes = 0;
	n = ib_sg_to_pages(ibmr, sg, nents, offset, set_page);
	mr->base = ibmr->iova & ((u64)ibmr->page_size - 1);
	return n;
}
ROE_EXPORT_FOR_TEST(roe_mr_map_sg);

/**
 * roe_mr_dereg - the dereg_mr verb
 * @ibmr: any MR
 * @udata: not used
 *
 * Return: 0.
 */
int roe_mr_dereg(struct ib_mr *ibmr, struct ib_udata *udata)
{
	struct roe_mr *mr = roe_mr(ibmr);

	roe_mr_unpublish(mr);
	/* Every access is one RCU read-side section: after this there is none. */
	synchronize_rcu_expedited();
	free_mr(mr);
	return 0;
}
