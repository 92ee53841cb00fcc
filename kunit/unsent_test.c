// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * What a QP has sent and has not left this host: skbs that a test keeps are the queue.
 */
#include <kunit/test.h>
#include <linux/skbuff.h>
#include <net/sock.h>
#include "../drivers/roe/transport.h"

#define LONG	SZ_64K		/* memory of a train */
#define SKBS	40

struct fixture {
	struct roe_qp		*qp;
	struct roe_txb		*txb;
	struct roe_ctx		ctx;
	struct sk_buff_head	queue;
};

static int setup(struct kunit *test)
{
	struct fixture *f = kunit_kzalloc(test, sizeof(*f), GFP_KERNEL);

	if (!f)
		return -ENOMEM;
	test->priv = f;
	__skb_queue_head_init(&f->queue);
	f->ctx.now = NSEC_PER_SEC;
	f->qp = kunit_kzalloc(test, sizeof(*f->qp), GFP_KERNEL);
	f->txb = kunit_kzalloc(test, sizeof(*f->txb), GFP_KERNEL);
	if (!f->qp || !f->txb)
		return -ENOMEM;
	return roe_unsent_init(&f->qp->unsent);
}

/* What is in the queue outlives the QP. */
static void teardown(struct kunit *test)
{
	struct fixture *f = test->priv;

	if (f && f->qp)
		roe_unsent_exit(&f->qp->unsent);
	if (f)
		__skb_queue_purge(&f->queue);
}

/* Returns whether it is counted. */
static bool send(struct kunit *test, u32 more)
{
	struct fixture *f = test->priv;
	struct sk_buff *skb = alloc_skb(100, GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, skb);
	/* more: as if there were pages */
	skb->truesize += more;
	skb->data_len = more;
	roe_unsent_add(&f->qp->unsent, skb);
	skb->data_len = 0;
	__skb_queue_tail(&f->queue, skb);
	return skb->sk;
}

static bool full(struct fixture *f, u32 bytes)
{
	f->txb->bytes = bytes;
	return roe_unsent_full(f->qp, &f->ctx, f->txb);
}

/* Full with 256 KiB, the burst counted, if something waits at all; room as they go. */
static void unsent_limit(struct kunit *test)
{
	struct fixture *f = test->priv;
	unsigned int i;

	KUNIT_EXPECT_FALSE(test, full(f, ROE_TXB_BYTES));
	for (i = 0; i < 3; i++)
		KUNIT_EXPECT_TRUE(test, send(test, LONG));
	KUNIT_EXPECT_FALSE(test, full(f, 0));
	KUNIT_EXPECT_EQ(test, roe_timer_next(f->qp), 0);
	KUNIT_EXPECT_TRUE(test, full(f, LONG));
	KUNIT_EXPECT_GT(test, roe_timer_next(f->qp), f->ctx.now);
	send(test, LONG);
	KUNIT_EXPECT_TRUE(test, full(f, 0));
	kfree_skb(__skb_dequeue(&f->queue));
	KUNIT_EXPECT_FALSE(test, full(f, 0));
	/* one that another owner gets, or is received here, does not wait any more */
	skb_orphan(skb_peek(&f->queue));
	KUNIT_EXPECT_FALSE(test, full(f, LONG));
	__skb_queue_purge(&f->queue);
	KUNIT_EXPECT_FALSE(test, full(f, ROE_TXB_BYTES));
}

/* The times between two looks follow what can be sent at each. */
static void unsent_looks(struct kunit *test)
{
	struct fixture *f = test->priv;
	u64 wait = 0, last = 0;
	unsigned int i;

	for (i = 0; i < 5; i++)
		send(test, LONG);
	for (i = 0; i < 20; i++, last = wait) {
		KUNIT_EXPECT_TRUE(test, full(f, 0));
		wait = roe_timer_next(f->qp) - f->ctx.now;
		KUNIT_EXPECT_GE(test, wait, last);
		/* doorbells in between change nothing */
		KUNIT_EXPECT_TRUE(test, full(f, 0));
		KUNIT_EXPECT_EQ(test, roe_timer_next(f->qp) - f->ctx.now, wait);
		f->ctx.now += wait;
	}
	KUNIT_EXPECT_EQ(test, wait, 4 * NSEC_PER_MSEC);
	for (i = 0; i < 20; i++) {
		KUNIT_EXPECT_TRUE(test, full(f, 3 * LONG));
		wait = roe_timer_next(f->qp) - f->ctx.now;
		f->ctx.now += wait;
	}
	KUNIT_EXPECT_EQ(test, wait, 50 * NSEC_PER_USEC);
}

/* All have the owner, or veth takes them by two queues without an order. */
static void unsent_small(struct kunit *test)
{
	unsigned int i;

	for (i = 0; i < SKBS; i++)
		KUNIT_EXPECT_TRUE(test, send(test, 0));
}

/* RC, QP1: nobody counts. */
static void unsent_others(struct kunit *test)
{
	struct fixture *f = test->priv;
	unsigned int i;

	roe_unsent_exit(&f->qp->unsent);
	for (i = 0; i < 5; i++)
		KUNIT_EXPECT_FALSE(test, send(test, LONG));
	KUNIT_EXPECT_FALSE(test, full(f, ROE_TXB_BYTES));
}

static struct kunit_case cases[] = {
	KUNIT_CASE(unsent_limit),
	KUNIT_CASE(unsent_looks),
	KUNIT_CASE(unsent_small),
	KUNIT_CASE(unsent_others),
	{}
};

static struct kunit_suite suite = {
	.name = "roe_unsent",
	.init = setup,
	.exit = teardown,
	.test_cases = cases,
};

kunit_test_suite(suite);
