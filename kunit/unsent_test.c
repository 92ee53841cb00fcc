// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * What a QP has sent and has not left this host: skbs that a test keeps are the queue.
 */
#include <kunit/test.h>
#include <linux/skbuff.h>
#include <net/sock.h>
#include "../drivers/roe/backlog.h"
#include "../drivers/roe/transport.h"

#define LONG		SZ_64K	/* memory of a train */
#define DATA		SZ_4K	/* of a packet of the largest path MTU */
#define SKBS		40
#define NEIGH_MAX	212992	/* kept for a neighbour that has not answered yet */
#define FLOW		100	/* skbs that fq keeps of a flow */

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

static u32 waiting(const struct fixture *f)
{
	return sk_wmem_alloc_get(f->qp->unsent.sock->sk);
}

/* Nothing more behind @n packets of @bytes in all in the next burst? */
static bool full(struct fixture *f, unsigned int n, u32 bytes)
{
	f->txb->n = n;
	f->txb->bytes = bytes;
	return roe_unsent_full(f->qp, &f->ctx, f->txb);
}

/* The packets of the next burst, of @bytes each. */
static unsigned int burst(struct fixture *f, u32 bytes)
{
	unsigned int n = 0;

	while (n < ROE_TXB_PKTS && !full(f, n, n * bytes))
		n++;
	return n;
}

/* From a look that is due now to the next one; 0: there is room. */
static u64 look(struct fixture *f)
{
	f->ctx.now = roe_timer_next(f->qp) ?: f->ctx.now;
	roe_timer_run(f->qp, &f->ctx);
	return full(f, 0, 0) ? roe_timer_next(f->qp) - f->ctx.now : 0;
}

/* A queue that nothing leaves. */
static u64 stuck(struct kunit *test)
{
	struct fixture *f = test->priv;
	u64 wait = 0, last = 0;
	unsigned int i;

	for (i = 0; i < 5; i++)
		send(test, LONG);
	for (i = 0; i < 20; i++, last = wait) {
		wait = look(f);
		KUNIT_EXPECT_GE(test, wait, last);
		/* doorbells in between change nothing */
		KUNIT_EXPECT_TRUE(test, full(f, 0, 0));
		KUNIT_EXPECT_EQ(test, roe_timer_next(f->qp) - f->ctx.now, wait);
	}
	return wait;
}

/* Full with so much that a burst would be short; the timer finds room. */
static void unsent_limit(struct kunit *test)
{
	struct fixture *f = test->priv;
	unsigned int i;

	KUNIT_EXPECT_FALSE(test, full(f, 0, 0));
	send(test, LONG);
	KUNIT_EXPECT_FALSE(test, full(f, 0, 0));
	KUNIT_EXPECT_FALSE(test, full(f, 1, DATA));
	KUNIT_EXPECT_EQ(test, roe_timer_next(f->qp), 0);
	for (i = 0; i < 3; i++)
		KUNIT_EXPECT_TRUE(test, send(test, LONG));
	KUNIT_EXPECT_TRUE(test, full(f, 0, 0));
	KUNIT_EXPECT_GT(test, roe_timer_next(f->qp), f->ctx.now);
	for (i = 0; i < 2; i++)
		kfree_skb(__skb_dequeue(&f->queue));
	/* one that another owner gets, or is received here, does not wait any more */
	skb_orphan(skb_peek(&f->queue));
	KUNIT_EXPECT_EQ(test, look(f), 0);
	KUNIT_EXPECT_FALSE(test, full(f, 1, DATA));
	/* what fills a burst up ends it, and with much before it there is a look */
	KUNIT_EXPECT_TRUE(test, full(f, ROE_TXB_PKTS, ROE_TXB_BYTES));
	KUNIT_EXPECT_GT(test, roe_timer_next(f->qp), f->ctx.now);
}

/*
 * What waits for a neighbour is dropped from its head where it is too much, so not even a
 * first burst may be. That is no reason to wait, the next may follow at once.
 */
static void unsent_neighbour(struct kunit *test)
{
	struct fixture *f = test->priv;
	unsigned int i, k, n;

	for (k = 0; k < 3; k++) {
		n = burst(f, DATA + ROE_ICRC_LEN + sizeof(struct roe_bth));
		KUNIT_EXPECT_GT(test, n, 16);
		KUNIT_EXPECT_EQ(test, roe_timer_next(f->qp), 0);
		for (i = 0; i < n; i++)
			send(test, DATA);
		KUNIT_EXPECT_LE(test, waiting(f), NEIGH_MAX);
		__skb_queue_purge(&f->queue);
	}
	/* burst after burst */
	for (k = 0; k < 20; k++) {
		n = burst(f, DATA);
		for (i = 0; i < n; i++)
			send(test, DATA);
	}
	KUNIT_EXPECT_LE(test, waiting(f), NEIGH_MAX);
	KUNIT_EXPECT_GT(test, roe_timer_next(f->qp), f->ctx.now);
}

/* The queues of many netdevs count skbs. */
static void unsent_skbs(struct kunit *test)
{
	struct fixture *f = test->priv;
	unsigned int i, k, n;

	/* posted one by one */
	for (i = 0; i < 2 * FLOW && !full(f, 0, 0); i++)
		send(test, 0);
	KUNIT_EXPECT_LT(test, i, FLOW);
	KUNIT_EXPECT_GT(test, i, FLOW / 4);
	__skb_queue_purge(&f->queue);
	look(f);
	/* together, of sizes that make no trains */
	for (k = 0; k < 20; k++) {
		n = burst(f, 64);
		for (i = 0; i < n; i++)
			send(test, 64);
	}
	KUNIT_EXPECT_LT(test, skb_queue_len(&f->queue), FLOW);
}

/* The times between two looks follow what has left between them. */
static void unsent_looks(struct kunit *test)
{
	struct fixture *f = test->priv;
	unsigned int i, k;
	u64 wait = 0;

	KUNIT_EXPECT_EQ(test, stuck(test), 4 * NSEC_PER_MSEC);
	for (i = 0; i < 20; i++) {
		__skb_queue_purge(&f->queue);
		KUNIT_EXPECT_EQ(test, look(f), 0);
		for (k = 0; k < 4; k++)
			send(test, LONG);
		KUNIT_EXPECT_TRUE(test, full(f, 0, 0));
		wait = roe_timer_next(f->qp) - f->ctx.now;
	}
	KUNIT_EXPECT_EQ(test, wait, 50 * NSEC_PER_USEC);
}

/* However short the bursts are that fill the queue again. */
static void unsent_bursts(struct kunit *test)
{
	struct fixture *f = test->priv;
	unsigned int i;
	u64 wait = 0;

	for (i = 0; i < 20; i++) {
		while (!full(f, 0, 0) && !full(f, 4, 4 * DATA))
			send(test, 4 * DATA);
		wait = roe_timer_next(f->qp) - f->ctx.now;
		while (skb_queue_len(&f->queue) > 2)
			kfree_skb(__skb_dequeue(&f->queue));
		KUNIT_EXPECT_EQ(test, look(f), 0);
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
	KUNIT_EXPECT_FALSE(test, full(f, ROE_TXB_PKTS, ROE_TXB_BYTES));
}

static void nothing(struct work_struct *work)
{
}

/*
 * A CPU that a QP has sent from, and that somebody else has now, is asked to go on for no longer
 * than packets can wait there: then the timer sends.
 */
static void unsent_elsewhere(struct kunit *test)
{
	struct fixture *f = test->priv;
	struct roe_qp *qp = f->qp;
	bool soon, late, kept;
	u64 look, looked;
	int here, there, cpu;

	qp->type = IB_QPT_UD;
	qp->home_until = f->ctx.now + 1;
	INIT_WORK(&qp->order_work, nothing);
	local_bh_disable();
	here = smp_processor_id();
	there = cpumask_any_but(cpu_online_mask, here);
	qp->tx_cpu = there;
	soon = roe_backlog_defer(qp, f->ctx.now);
	cpu = qp->tx_cpu;
	look = roe_timer_next(qp);
	late = roe_backlog_defer(qp, f->ctx.now + 1);
	looked = roe_timer_next(qp);
	local_bh_enable();
	KUNIT_ASSERT_LT(test, there, nr_cpu_ids);
	KUNIT_EXPECT_TRUE(test, soon);
	KUNIT_EXPECT_EQ(test, cpu, there);
	KUNIT_EXPECT_GE(test, look, qp->home_until);
	KUNIT_EXPECT_EQ(test, looked, 0);
	KUNIT_EXPECT_FALSE(test, late);
	KUNIT_EXPECT_EQ(test, qp->tx_cpu, here);

	send(test, LONG);
	local_bh_disable();
	qp->tx_cpu = cpumask_any_but(cpu_online_mask, smp_processor_id());
	kept = roe_backlog_defer(qp, f->ctx.now + 1);
	look = roe_timer_next(qp);
	local_bh_enable();
	cancel_work_sync(&qp->order_work);
	KUNIT_EXPECT_TRUE(test, kept);
	KUNIT_EXPECT_GT(test, look, f->ctx.now + 1);
}

static struct kunit_case cases[] = {
	KUNIT_CASE(unsent_limit),
	KUNIT_CASE(unsent_neighbour),
	KUNIT_CASE(unsent_skbs),
	KUNIT_CASE(unsent_looks),
	KUNIT_CASE(unsent_bursts),
	KUNIT_CASE(unsent_small),
	KUNIT_CASE(unsent_others),
	KUNIT_CASE(unsent_elsewhere),
	{}
};

static struct kunit_suite suite = {
	.name = "roe_unsent",
	.init = setup,
	.exit = teardown,
	.test_cases = cases,
};

kunit_test_suite(suite);
