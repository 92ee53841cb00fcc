// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Memory regions: the access check as a table, and copying against a flat model.
 */
#include <kunit/test.h>
#include <linux/jiffies.h>
#include <linux/mm.h>
#include <linux/prandom.h>
#include <linux/rcupdate.h>
#include <linux/scatterlist.h>
#include "../drivers/roe/qp.h"

#define IOVA	0x7f0000001000ULL
#define LENGTH	0x3000ULL

struct mr_test {
	struct roe_keys	keys;
	struct ib_pd	pd, other_pd;
	struct roe_mr	*mr;
	struct roe_qp	*qp, *other_qp;	/* one in each PD */
};

static struct roe_mr *make_mr(struct kunit *test, enum roe_mr_type type, u32 max_ext)
{
	struct mr_test *t = test->priv;
	struct roe_mr *mr = kunit_kzalloc(test, sizeof(*mr), GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, mr);
	mr->mem.ext = kunit_kcalloc(test, max_ext, sizeof(*mr->mem.ext), GFP_KERNEL);
	KUNIT_ASSERT_NOT_NULL(test, mr->mem.ext);
	mr->mem.max = max_ext;
	mr->type = type;
	mr->state = type == ROE_MR_FAST ? ROE_MR_FREE : ROE_MR_VALID;
	mr->ib.pd = &t->pd;
	KUNIT_ASSERT_EQ(test, roe_mr_publish(&t->keys, mr), 0);
	return mr;
}

static struct roe_qp *make_qp(struct kunit *test, struct ib_pd *pd, u64 id)
{
	struct mr_test *t = test->priv;
	struct roe_qp *qp = kunit_kzalloc(test, sizeof(*qp), GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, qp);
	qp->keys = &t->keys;
	qp->pd = pd;
	qp->id = id;
	return qp;
}

static int mr_test_init(struct kunit *test)
{
	struct mr_test *t = kunit_kzalloc(test, sizeof(*t), GFP_KERNEL);

	if (!t)
		return -ENOMEM;
	roe_keys_init(&t->keys);
	test->priv = t;
	t->qp = make_qp(test, &t->pd, 1);
	t->other_qp = make_qp(test, &t->other_pd, 2);
	t->mr = make_mr(test, ROE_MR_USER, 1);
	t->mr->iova = IOVA;
	t->mr->length = LENGTH;
	return 0;
}

static void mr_test_exit(struct kunit *test)
{
	struct mr_test *t = test->priv;

	if (t)
		roe_keys_destroy(&t->keys);
}

static bool allowed(struct mr_test *t, const struct ib_pd *pd, u32 key, int access,
		    u64 va, u64 len)
{
	struct roe_mr *mr;

	rcu_read_lock_bh();
	mr = roe_mr_get(&t->keys, pd, key, access, va, len);
	if (mr)
		roe_mr_put(mr);
	rcu_read_unlock_bh();
	return mr;
}

/* --- access check ---------------------------------------------------------- */

struct range_case {
	const char	*name;
	u64		va, len;
	bool		ok;
};

static const struct range_case range_cases[] = {
	{ "all of it",			IOVA, LENGTH, true },
	{ "first byte",			IOVA, 1, true },
	{ "last byte",			IOVA + LENGTH - 1, 1, true },
	{ "nothing, at the start",	IOVA, 0, true },
	{ "nothing, at the end",	IOVA + LENGTH, 0, true },
	{ "one byte too long",		IOVA, LENGTH + 1, false },
	{ "one byte in front",		IOVA - 1, 1, false },
	{ "from in front into it",	IOVA - 1, 2, false },
	{ "one byte behind",		IOVA + LENGTH, 1, false },
	{ "over the end",		IOVA + LENGTH - 1, 2, false },
	{ "nothing, behind the end",	IOVA + LENGTH + 1, 0, false },
	{ "end wraps to the start",	IOVA, 0 - LENGTH, false },
	{ "end wraps into it",		IOVA + 1, U64_MAX, false },
	{ "all addresses",		0, U64_MAX, false },
	{ "last address",		U64_MAX, 1, false },
	{ "last address, wrapping",	U64_MAX, U64_MAX, false },
	{ "length 2^63",		IOVA, BIT_ULL(63), false },
};

static void range_desc(const struct range_case *c, char *desc)
{
	strscpy(desc, c->name, KUNIT_PARAM_DESC_SIZE);
}

KUNIT_ARRAY_PARAM(range, range_cases, range_desc);

static void mr_range(struct kunit *test)
{
	const struct range_case *c = test->param_value;
	struct mr_test *t = test->priv;

	KUNIT_EXPECT_EQ(test, allowed(t, &t->pd, t->mr->key, 0, c->va, c->len), c->ok);
}

/* An MR that ends with the address space. */
static void mr_range_top(struct kunit *test)
{
	struct mr_test *t = test->priv;
	u32 key = t->mr->key;

	t->mr->iova = 0 - LENGTH;
	KUNIT_EXPECT_TRUE(test, allowed(t, &t->pd, key, 0, 0 - LENGTH, LENGTH));
	KUNIT_EXPECT_TRUE(test, allowed(t, &t->pd, key, 0, U64_MAX, 1));
	KUNIT_EXPECT_FALSE(test, allowed(t, &t->pd, key, 0, U64_MAX, 2));
	KUNIT_EXPECT_FALSE(test, allowed(t, &t->pd, key, 0, 0, 1));
	KUNIT_EXPECT_FALSE(test, allowed(t, &t->pd, key, 0, 0 - LENGTH, LENGTH + 1));
}

/* Every set of rights against every set of needs. */
static void mr_access(struct kunit *test)
{
	struct mr_test *t = test->priv;
	int has, need;

	for (has = 0; has < 0x20; has++) {
		t->mr->access = has;
		for (need = 0; need < 0x20; need++)
			KUNIT_EXPECT_EQ_MSG(test,
					    allowed(t, &t->pd, t->mr->key, need, IOVA, 1),
					    !(need & ~has), "has %#x, needs %#x", has, need);
	}
}

/* One wrong bit anywhere in the key, stale key bytes among them. */
static void mr_key(struct kunit *test)
{
	struct mr_test *t = test->priv;
	int bit;

	KUNIT_EXPECT_TRUE(test, allowed(t, &t->pd, t->mr->key, 0, IOVA, 1));
	for (bit = 0; bit < 32; bit++)
		KUNIT_EXPECT_FALSE(test, allowed(t, &t->pd, t->mr->key ^ BIT(bit), 0,
						 IOVA, 1));
	KUNIT_EXPECT_FALSE(test, allowed(t, &t->pd, 0, 0, IOVA, 1));
	KUNIT_EXPECT_FALSE(test, allowed(t, &t->other_pd, t->mr->key, 0, IOVA, 1));
	KUNIT_EXPECT_EQ(test, t->mr->ib.lkey, t->mr->key);
	KUNIT_EXPECT_EQ(test, t->mr->ib.rkey, t->mr->key);
}

static void mr_dead(struct kunit *test)
{
	struct mr_test *t = test->priv;
	u32 key = t->mr->key;

	roe_mr_unpublish(t->mr);
	KUNIT_EXPECT_EQ(test, t->mr->state, ROE_MR_DEAD);
	KUNIT_EXPECT_FALSE(test, allowed(t, &t->pd, key, 0, IOVA, 1));
	KUNIT_EXPECT_NE(test, make_mr(test, ROE_MR_USER, 1)->key >> 8, key >> 8);
}

/*
 * A global rkey: memory from end to end. From the direct map to the image of the kernel
 * both ends are memory, but by far not all that lies between them; as where a range spans
 * the hole for PCI.
 */
static void mr_global(struct kunit *test)
{
	struct roe_mr *mr = make_mr(test, ROE_MR_DMA, 1);
	unsigned long len = 4 * SZ_1M, mem = (unsigned long)kmalloc(16, GFP_KERNEL);
	unsigned long big = __get_free_pages(GFP_KERNEL | __GFP_NOWARN, get_order(len));
	unsigned long image = (unsigned long)&jiffies;
	unsigned long zeros = (unsigned long)page_address(ZERO_PAGE(0));
	struct mr_test *t = test->priv;
	const int access = IB_ACCESS_REMOTE_WRITE;

	KUNIT_ASSERT_TRUE(test, mem && big);
	mr->length = U64_MAX;
	mr->access = access;
	KUNIT_EXPECT_TRUE(test, allowed(t, &t->pd, mr->key, access, mem, 16));
	KUNIT_EXPECT_TRUE(test, allowed(t, &t->pd, mr->key, access, big, len));
	KUNIT_EXPECT_TRUE(test, allowed(t, &t->pd, mr->key, access, big + 1, len - 1));
	KUNIT_EXPECT_TRUE(test, allowed(t, &t->pd, mr->key, access, 0, 0));
	KUNIT_EXPECT_FALSE(test, allowed(t, &t->pd, mr->key, access, 0, 1));
	KUNIT_EXPECT_FALSE(test, allowed(t, &t->pd, mr->key, access, U64_MAX - 1, 1));
	KUNIT_EXPECT_FALSE(test, allowed(t, &t->pd, mr->key, access, mem, SZ_1G));
	/* the kernel's image, at either address */
	KUNIT_EXPECT_FALSE(test, allowed(t, &t->pd, mr->key, access, image, 8));
	KUNIT_EXPECT_FALSE(test, allowed(t, &t->pd, mr->key, access, zeros, 8));
	/* which is what has to be read of it to write zeros to a disk */
	mr->access = IB_ACCESS_REMOTE_READ;
	KUNIT_EXPECT_TRUE(test, allowed(t, &t->pd, mr->key, mr->access, zeros, PAGE_SIZE));
	KUNIT_EXPECT_FALSE(test, allowed(t, &t->pd, mr->key, mr->access, image, 8));
	free_pages(big, get_order(len));
	kfree((void *)mem);
}

/* --- extents --------------------------------------------------------------- */

static void mr_merge(struct kunit *test)
{
	struct roe_mr *mr = make_mr(test, ROE_MR_USER, 2);
	u8 *mem = kunit_kzalloc(test, 64, GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, mem);
	KUNIT_EXPECT_EQ(test, roe_memory_add(&mr->mem, mem, 0), 0);
	KUNIT_EXPECT_EQ(test, mr->mem.nr, 0);
	KUNIT_EXPECT_EQ(test, roe_memory_add(&mr->mem, mem, 8), 0);
	KUNIT_EXPECT_EQ(test, roe_memory_add(&mr->mem, mem + 8, 8), 0);
	KUNIT_EXPECT_EQ(test, mr->mem.nr, 1);
	KUNIT_EXPECT_EQ(test, roe_memory_add(&mr->mem, mem + 32, 8), 0);
	KUNIT_EXPECT_EQ(test, roe_memory_add(&mr->mem, mem + 40, 8), 0);
	KUNIT_EXPECT_EQ(test, mr->mem.nr, 2);
	KUNIT_EXPECT_EQ(test, mr->mem.ext[1].off, 16);
	KUNIT_EXPECT_EQ(test, mr->mem.bytes, 32);
	/* full, but what continues the last one needs no room */
	KUNIT_EXPECT_EQ(test, roe_memory_add(&mr->mem, mem, 8), -ENOMEM);
	KUNIT_EXPECT_EQ(test, roe_memory_add(&mr->mem, mem + 48, 8), 0);
	KUNIT_EXPECT_EQ(test, mr->mem.bytes, 40);
}

#define WALK_MEM	4096
#define WALK_EXTENTS	32
#define WALK_ROUNDS	2000

struct walk_test {
	u8	mem[WALK_MEM];		/* what the extents lie in */
	u8	flat[WALK_MEM];		/* the same bytes, in MR order */
	u8	src[WALK_MEM], dst[WALK_MEM];
};

/* Extents of random sizes with random gaps, the flat model beside them. */
static void fill_walk(struct kunit *test, struct rnd_state *rnd, struct roe_mr *mr,
		      struct walk_test *w)
{
	u32 pos = 0, i;

	prandom_bytes_state(rnd, w->mem, sizeof(w->mem));
	for (i = 0; i < WALK_EXTENTS; i++) {
		u32 len = 1 + prandom_u32_state(rnd) % 90;

		pos += prandom_u32_state(rnd) % 3;
		memcpy(w->flat + mr->mem.bytes, w->mem + pos, len);
		KUNIT_ASSERT_EQ(test, roe_memory_add(&mr->mem, w->mem + pos, len), 0);
		pos += len;
	}
	mr->base = prandom_u32_state(rnd) % 64;
	mr->iova = IOVA + mr->base;
	mr->length = mr->mem.bytes - mr->base;
}

static void mr_walk(struct kunit *test)
{
	struct walk_test *w = kunit_kzalloc(test, sizeof(*w), GFP_KERNEL);
	struct roe_mr *mr = make_mr(test, ROE_MR_USER, WALK_EXTENTS);
	u32 round, i, gaps = 0, seed = get_random_u32();
	struct rnd_state rnd;

	KUNIT_ASSERT_NOT_NULL(test, w);
	kunit_info(test, "seed %#x\n", seed);
	prandom_seed_state(&rnd, seed);
	fill_walk(test, &rnd, mr, w);

	for (round = 0; round < WALK_ROUNDS; round++) {
		u32 at = prandom_u32_state(&rnd) % (mr->length + 1);
		u32 len = prandom_u32_state(&rnd) % (mr->length - at + 1);
		u8 *model = w->flat + mr->base + at;

		roe_mr_read(mr, mr->iova + at, w->dst, len);
		KUNIT_ASSERT_EQ_MSG(test, memcmp(w->dst, model, len), 0,
				    "read of %u at %u", len, at);
		prandom_bytes_state(&rnd, w->src, len);
		roe_mr_write(mr, mr->iova + at, w->src, len);
		memcpy(model, w->src, len);
	}
	/* every byte of the model is in its place */
	for (i = 0; i < mr->mem.nr; i++) {
		u64 end = i + 1 < mr->mem.nr ? mr->mem.ext[i + 1].off : mr->mem.bytes;

		gaps += i && mr->mem.ext[i].addr != mr->mem.ext[i - 1].addr;
		KUNIT_EXPECT_EQ(test, memcmp(mr->mem.ext[i].addr, w->flat + mr->mem.ext[i].off,
					     end - mr->mem.ext[i].off), 0);
	}
	KUNIT_EXPECT_GT(test, gaps, 0);
}

static void mr_word(struct kunit *test)
{
	struct roe_mr *mr = make_mr(test, ROE_MR_USER, 2);
	u8 *mem = kunit_kzalloc(test, 64, GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, mem);
	roe_memory_add(&mr->mem, mem, 12);
	roe_memory_add(&mr->mem, mem + 28, 12);
	mr->iova = IOVA;
	mr->length = 24;
	KUNIT_EXPECT_PTR_EQ(test, (u8 *)roe_mr_word(mr, IOVA), mem);
	KUNIT_EXPECT_NULL(test, roe_mr_word(mr, IOVA + 4));	/* VA not aligned */
	KUNIT_EXPECT_NULL(test, roe_mr_word(mr, IOVA + 8));	/* straddles */
	KUNIT_EXPECT_PTR_EQ(test, (u8 *)roe_mr_word(mr, IOVA + 16), mem + 32);
	mr->base = 4;
	KUNIT_EXPECT_NULL(test, roe_mr_word(mr, IOVA));		/* memory not aligned */
}

/* --- fast registration ----------------------------------------------------- */

static struct roe_mr *make_fast(struct kunit *test, void *mem, u32 len)
{
	struct roe_mr *mr = make_mr(test, ROE_MR_FAST, 1);

	KUNIT_ASSERT_EQ(test, roe_memory_add(&mr->mem, mem, len), 0);
	mr->ib.iova = IOVA;
	mr->ib.length = len;
	return mr;
}

static int invalidate_by(const struct roe_qp *qp, u32 key, bool local)
{
	int err;

	rcu_read_lock_bh();
	err = roe_mr_invalidate(qp, key, local);
	rcu_read_unlock_bh();
	return err;
}

static int invalidate(const struct roe_qp *qp, u32 key)
{
	return invalidate_by(qp, key, true);
}

static void mr_fast_reg(struct kunit *test)
{
	struct mr_test *t = test->priv;
	u64 mem = 0x0123456789abcdefULL;
	struct roe_mr *mr = make_fast(test, &mem, sizeof(mem));
	u32 old = mr->key, key = old ^ 0x55;
	int bit;

	KUNIT_EXPECT_FALSE(test, allowed(t, &t->pd, old, 0, IOVA, 1));
	for (bit = 8; bit < 32; bit++)
		KUNIT_EXPECT_EQ(test, roe_mr_fast_reg(&t->pd, mr, key ^ BIT(bit), 0),
				-EINVAL);
	KUNIT_EXPECT_EQ(test, roe_mr_fast_reg(&t->other_pd, mr, key, 0), -EINVAL);
	KUNIT_EXPECT_EQ(test, roe_mr_fast_reg(&t->pd, mr, key, IB_ACCESS_REMOTE_WRITE),
			-EINVAL);
	KUNIT_EXPECT_EQ(test, roe_mr_fast_reg(&t->pd, t->mr, t->mr->key, 0), -EINVAL);

	mr->ib.length++;	/* more than the pages have */
	KUNIT_EXPECT_EQ(test, roe_mr_fast_reg(&t->pd, mr, key, 0), -EINVAL);
	mr->ib.length--;

	KUNIT_EXPECT_EQ(test, roe_mr_fast_reg(&t->pd, mr, key, IB_ACCESS_REMOTE_READ), 0);
	KUNIT_EXPECT_EQ(test, mr->ib.rkey, key);
	KUNIT_EXPECT_FALSE(test, allowed(t, &t->pd, old, 0, IOVA, 1));
	KUNIT_EXPECT_TRUE(test, allowed(t, &t->pd, key, IB_ACCESS_REMOTE_READ, IOVA, 8));
	/* registered already */
	KUNIT_EXPECT_EQ(test, roe_mr_fast_reg(&t->pd, mr, key, 0), -EINVAL);
}

static void mr_invalidate(struct kunit *test)
{
	struct mr_test *t = test->priv;
	u64 mem = 1;
	struct roe_mr *mr = make_fast(test, &mem, sizeof(mem));
	u32 key = mr->key;

	KUNIT_ASSERT_EQ(test, roe_mr_fast_reg(&t->pd, mr, key, 0), 0);
	KUNIT_EXPECT_EQ(test, invalidate(t->other_qp, key), -EINVAL);
	KUNIT_EXPECT_EQ(test, invalidate(t->qp, key ^ 1), -EINVAL);
	KUNIT_EXPECT_EQ(test, invalidate(t->qp, key ^ 0x100), -EINVAL);
	KUNIT_EXPECT_EQ(test, invalidate(t->qp, t->mr->key), -EINVAL);
	/* no peer was given that key */
	KUNIT_EXPECT_EQ(test, invalidate_by(t->qp, key, false), -EINVAL);
	KUNIT_EXPECT_TRUE(test, allowed(t, &t->pd, key, 0, IOVA, 8));

	KUNIT_EXPECT_EQ(test, invalidate(t->qp, key), 0);
	KUNIT_EXPECT_FALSE(test, allowed(t, &t->pd, key, 0, IOVA, 8));

	/* the registration with the next key was flushed, its user does not ask */
	KUNIT_EXPECT_EQ(test, invalidate(t->qp, key ^ 1), 0);
	KUNIT_EXPECT_EQ(test, invalidate_by(t->qp, key ^ 1, false), -EINVAL);
	KUNIT_EXPECT_EQ(test, invalidate(t->other_qp, key ^ 1), -EINVAL);

	KUNIT_EXPECT_EQ(test, roe_mr_fast_reg(&t->pd, mr, key ^ 1, 0), 0);
	roe_mr_unpublish(mr);
	KUNIT_EXPECT_EQ(test, invalidate(t->qp, key ^ 1), -EINVAL);
	KUNIT_EXPECT_EQ(test, roe_mr_fast_reg(&t->pd, mr, key, 0), -EINVAL);
}

static u8 *make_page(struct kunit *test, u8 fill)
{
	u8 *page = kunit_kzalloc(test, PAGE_SIZE, GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, page);
	memset(page, fill, PAGE_SIZE);
	return page;
}

static void map_page(struct kunit *test, struct roe_mr *mr, u8 *page)
{
	struct scatterlist sg;

	sg_init_one(&sg, page, PAGE_SIZE);
	sg_dma_address(&sg) = (uintptr_t)page;
	sg_dma_len(&sg) = PAGE_SIZE;
	mr->ib.page_size = PAGE_SIZE;
	KUNIT_EXPECT_EQ(test, roe_mr_map_sg(&mr->ib, &sg, 1, NULL), 1);
}

/* The byte at @va, or -EINVAL if @key does not give access. */
static int read_byte(struct mr_test *t, u32 key, u64 va)
{
	int result = -EINVAL;
	struct roe_mr *mr;
	u8 byte;

	rcu_read_lock_bh();
	mr = roe_mr_get(&t->keys, &t->pd, key, 0, va, 1);
	if (mr) {
		if (roe_mr_read(mr, va, &byte, 1))
			result = byte;
		roe_mr_put(mr);
	}
	rcu_read_unlock_bh();
	return result;
}

/* As iSER does it: map the next pages, then post the invalidation and the REG_MR. */
static void mr_map_registered(struct kunit *test)
{
	u8 *first = make_page(test, 0xaa), *second = make_page(test, 0xbb);
	struct roe_mr *mr = make_mr(test, ROE_MR_FAST, 1);
	u64 first_va = (uintptr_t)first, second_va = (uintptr_t)second;
	struct mr_test *t = test->priv;
	struct roe_extent next_ext;
	u32 key = mr->key;

	mr->next.ext = &next_ext;
	mr->next.max = 1;
	map_page(test, mr, first);
	KUNIT_EXPECT_EQ(test, read_byte(t, key, first_va), -EINVAL);
	KUNIT_ASSERT_EQ(test, roe_mr_fast_reg(&t->pd, mr, key, 0), 0);
	KUNIT_EXPECT_EQ(test, read_byte(t, key, first_va + PAGE_SIZE - 1), 0xaa);

	map_page(test, mr, second);
	KUNIT_EXPECT_EQ(test, read_byte(t, key, first_va), 0xaa);
	KUNIT_EXPECT_EQ(test, read_byte(t, key, second_va), -EINVAL);
	KUNIT_EXPECT_EQ(test, roe_mr_fast_reg(&t->pd, mr, key ^ 1, 0), -EINVAL);
	KUNIT_EXPECT_EQ(test, read_byte(t, key, first_va), 0xaa);

	KUNIT_EXPECT_EQ(test, invalidate(t->qp, key), 0);
	KUNIT_EXPECT_EQ(test, roe_mr_fast_reg(&t->pd, mr, key ^ 1, 0), 0);
	KUNIT_EXPECT_EQ(test, read_byte(t, key, first_va), -EINVAL);
	KUNIT_EXPECT_EQ(test, read_byte(t, key ^ 1, first_va), -EINVAL);
	KUNIT_EXPECT_EQ(test, read_byte(t, key ^ 1, second_va), 0xbb);

	/* the same pages again, without a map */
	KUNIT_EXPECT_EQ(test, invalidate(t->qp, key ^ 1), 0);
	KUNIT_EXPECT_EQ(test, roe_mr_fast_reg(&t->pd, mr, key, 0), 0);
	KUNIT_EXPECT_EQ(test, read_byte(t, key, second_va), 0xbb);
}

/* Pieces of a page each, in reverse order, the first one from its second byte on. */
static void mr_map_gaps(struct kunit *test)
{
	struct roe_mr *mr = make_mr(test, ROE_MR_FAST, 4);
	struct mr_test *t = test->priv;
	struct roe_extent next_ext[3];
	u8 *page = make_page(test, 0);
	unsigned int offset = 1;
	struct scatterlist sg[4];
	int i;

	sg_init_table(sg, ARRAY_SIZE(sg));
	for (i = 0; i < 4; i++) {
		sg_dma_address(&sg[i]) = (uintptr_t)page + 1000 - 100 * i;
		sg_dma_len(&sg[i]) = 10 + i;
		memset(page + 1000 - 100 * i, 'a' + i, 10 + i);
	}
	page[1000] = 0xff;
	mr->ib.type = IB_MR_TYPE_SG_GAPS;
	mr->next.ext = next_ext;
	mr->next.max = ARRAY_SIZE(next_ext);
	KUNIT_EXPECT_EQ(test, roe_mr_map_sg(&mr->ib, sg, 4, &offset), 3);
	KUNIT_EXPECT_EQ(test, offset, 0);
	KUNIT_EXPECT_EQ(test, mr->ib.iova, (uintptr_t)page + 1001);
	KUNIT_ASSERT_EQ(test, mr->ib.length, 9 + 11 + 12);
	KUNIT_ASSERT_EQ(test, roe_mr_fast_reg(&t->pd, mr, mr->key, 0), 0);
	for (i = 0; i < 9 + 11 + 12; i++)
		KUNIT_EXPECT_EQ(test, read_byte(t, mr->key, mr->ib.iova + i),
				i < 9 ? 'a' : i < 20 ? 'b' : 'c');
	KUNIT_EXPECT_EQ(test, read_byte(t, mr->key, mr->ib.iova + i), -EINVAL);
}

/* A full table, as far as the search for a free index can tell. */
static void mr_no_key(struct kunit *test)
{
	struct mr_test *t = test->priv;
	struct roe_mr *mr = kunit_kzalloc(test, sizeof(*mr), GFP_KERNEL);
	XA_STATE(xas, &t->keys.xa, ROE_MAX_MR);
	struct xa_node *node;

	KUNIT_ASSERT_NOT_NULL(test, mr);
	KUNIT_ASSERT_EQ(test, xa_err(xa_store(&t->keys.xa, ROE_MAX_MR, mr, GFP_KERNEL)), 0);
	xa_lock(&t->keys.xa);
	xas_load(&xas);
	for (node = xas.xa_node; node; node = xa_parent_locked(xas.xa, node))
		bitmap_zero(node->marks[(__force unsigned int)XA_FREE_MARK], XA_CHUNK_SIZE);
	xa_unlock(&t->keys.xa);
	KUNIT_EXPECT_EQ(test, roe_mr_publish(&t->keys, mr), -ENOMEM);
}

static struct kunit_case mr_cases[] = {
	KUNIT_CASE_PARAM(mr_range, range_gen_params),
	KUNIT_CASE(mr_range_top),
	KUNIT_CASE(mr_access),
	KUNIT_CASE(mr_key),
	KUNIT_CASE(mr_no_key),
	KUNIT_CASE(mr_dead),
	KUNIT_CASE(mr_global),
	KUNIT_CASE(mr_merge),
	KUNIT_CASE(mr_walk),
	KUNIT_CASE(mr_word),
	KUNIT_CASE(mr_fast_reg),
	KUNIT_CASE(mr_invalidate),
	KUNIT_CASE(mr_map_registered),
	KUNIT_CASE(mr_map_gaps),
	{}
};

static struct kunit_suite mr_suite = {
	.name		= "roe_mr",
	.init		= mr_test_init,
	.exit		= mr_test_exit,
	.test_cases	= mr_cases,
};

kunit_test_suite(mr_suite);
