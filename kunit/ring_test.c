// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Rings: shape, indices over the wrap, and a user who writes anything anywhere.
 */
#include <kunit/test.h>
#include "../drivers/roe/ring.h"

struct shape_case {
	u32	entries, elem;
	u32	mask, log2;	/* mask 0: refused */
};

static const struct shape_case shape_cases[] = {
	{ 1, 1, 1, 6 },
	{ 1, 64, 1, 6 },
	{ 2, 65, 3, 7 },
	{ 3, 64, 3, 6 },
	{ 4, 208 + 48, 7, 8 },
	{ 127, 257, 127, 9 },
	{ 128, 64, 255, 6 },
	{ 0, 64, 0, 0 },
	{ BIT(26), 64, 0, 0 },
	{ BIT(31) - 1, 64, 0, 0 },
	{ BIT(31), 64, 0, 0 },
	{ U32_MAX, 64, 0, 0 },
	{ 1, BIT(31), 0, 0 },
	{ 1, U32_MAX, 0, 0 },
};

static void shape_desc(const struct shape_case *c, char *desc)
{
	snprintf(desc, KUNIT_PARAM_DESC_SIZE, "%u x %u", c->entries, c->elem);
}

KUNIT_ARRAY_PARAM(shape, shape_cases, shape_desc);

static void ring_shape(struct kunit *test)
{
	const struct shape_case *c = test->param_value;
	struct roe_ring *ring = roe_ring_create(c->entries, c->elem, NULL, NULL);

	if (!c->mask) {
		KUNIT_EXPECT_TRUE(test, IS_ERR(ring) && PTR_ERR(ring) == -EINVAL);
		return;
	}
	KUNIT_ASSERT_FALSE(test, IS_ERR(ring));
	KUNIT_EXPECT_EQ(test, ring->mask, c->mask);
	KUNIT_EXPECT_EQ(test, ring->log2, c->log2);
	KUNIT_EXPECT_EQ(test, ring->buf->index_mask, c->mask);
	KUNIT_EXPECT_EQ(test, ring->buf->log2_elem_size, c->log2);
	KUNIT_EXPECT_GE(test, roe_ring_capacity(ring), c->entries);
	KUNIT_EXPECT_EQ(test, ring->size, PAGE_ALIGN(384 + ((c->mask + 1) << c->log2)));
	KUNIT_EXPECT_EQ(test, ring->buf->producer_index, 0);
	KUNIT_EXPECT_EQ(test, ring->buf->consumer_index, 0);
	roe_ring_destroy(ring);
}

static struct roe_ring *make_ring(struct kunit *test)
{
	struct roe_ring *ring = roe_ring_create(7, 64, NULL, NULL);

	KUNIT_ASSERT_FALSE(test, IS_ERR(ring));
	return ring;
}

/* Values a hostile user would try as an index. */
static const u32 hostile[] = {
	0, 1, 7, 8, 9, 0x7fffffff, 0x80000000, 0x80000001, 0xfffffff8, U32_MAX,
};

/* The kernel consumes: order over several wraps. */
static void ring_consume(struct kunit *test)
{
	struct roe_ring *ring = make_ring(test);
	u32 produced = 0, consumed = 0, i;

	while (consumed < 100) {
		for (i = 0; i < roe_ring_capacity(ring); i++, produced++)
			*(u32 *)roe_ring_slot(ring, produced) = produced;
		ring->buf->producer_index = produced & ring->mask;
		KUNIT_ASSERT_EQ(test, roe_ring_pending(ring), roe_ring_capacity(ring));
		for (i = 0; i < roe_ring_capacity(ring); i++, consumed++)
			KUNIT_EXPECT_EQ(test, *(const u32 *)roe_ring_peek(ring, i),
					consumed);
		roe_ring_release(ring, i);
		KUNIT_EXPECT_EQ(test, roe_ring_pending(ring), 0);
		KUNIT_EXPECT_EQ(test, ring->buf->consumer_index, consumed & ring->mask);
	}
	roe_ring_destroy(ring);
}

/* Whatever the producer says, all that is pending lies inside of the ring. */
static void ring_hostile_producer(struct kunit *test)
{
	struct roe_ring *ring = make_ring(test);
	const u8 *end = ring->buf->data + 8 * 64;
	u32 i, n;

	for (i = 0; i < ARRAY_SIZE(hostile); i++) {
		ring->buf->producer_index = hostile[i];
		n = roe_ring_pending(ring);
		KUNIT_EXPECT_LE(test, n, roe_ring_capacity(ring));
		while (n--) {
			const u8 *slot = roe_ring_peek(ring, n);

			KUNIT_EXPECT_TRUE(test, slot >= ring->buf->data);
			KUNIT_EXPECT_TRUE(test, slot + 64 <= end);
		}
		roe_ring_release(ring, 3);
		KUNIT_EXPECT_LE(test, ring->cons, ring->mask);
	}
	roe_ring_destroy(ring);
}

/* The header is the user's to read; the kernel never looks at it. */
static void ring_hostile_header(struct kunit *test)
{
	struct roe_ring *ring = make_ring(test);

	memset(ring->buf, 0xff, sizeof(*ring->buf));
	KUNIT_EXPECT_EQ(test, roe_ring_capacity(ring), 7);
	KUNIT_EXPECT_EQ(test, roe_ring_pending(ring), 7);
	KUNIT_EXPECT_PTR_EQ(test, (u8 *)roe_ring_slot(ring, 9), ring->buf->data + 64);
	KUNIT_EXPECT_LE(test, roe_ring_consumer(ring, 0), 7);
	roe_ring_publish(ring);
	roe_ring_release(ring, 1);
	KUNIT_EXPECT_EQ(test, ring->buf->producer_index, 1);
	KUNIT_EXPECT_EQ(test, ring->buf->consumer_index, 1);
	roe_ring_destroy(ring);
}

/* A consumer index counts only from the last one up to the producer. */
static void ring_consumer_window(struct kunit *test)
{
	struct roe_ring *ring = make_ring(test);
	u32 last, n, cons;

	for (last = 0; last <= ring->mask; last++) {
		for (n = 0; n <= ring->mask; n++) {
			ring->prod = (last + n) & ring->mask;
			for (cons = 0; cons <= ring->mask; cons++) {
				u32 at = (last + cons) & ring->mask;

				ring->buf->consumer_index = at;
				KUNIT_EXPECT_EQ(test, roe_ring_consumer(ring, last),
						cons <= n ? at : ring->prod);
			}
		}
	}
	for (n = 0; n < ARRAY_SIZE(hostile); n++) {
		ring->buf->consumer_index = hostile[n];
		KUNIT_EXPECT_LE(test, roe_ring_consumer(ring, 0), ring->mask);
	}
	roe_ring_destroy(ring);
}

static struct kunit_case ring_cases[] = {
	KUNIT_CASE_PARAM(ring_shape, shape_gen_params),
	KUNIT_CASE(ring_consume),
	KUNIT_CASE(ring_hostile_producer),
	KUNIT_CASE(ring_hostile_header),
	KUNIT_CASE(ring_consumer_window),
	{}
};

static struct kunit_suite ring_suite = {
	.name		= "roe_ring",
	.test_cases	= ring_cases,
};

kunit_test_suite(ring_suite);
