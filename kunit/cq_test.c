// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Completion queues: order, overrun, arming, and a user's consumer index.
 */
#include <kunit/test.h>
#include <linux/delay.h>
#include <linux/interrupt.h>
#include <linux/kthread.h>
#include "../drivers/roe/cq.h"
#include "../drivers/roe/device.h"

#define KERNEL_CQE	8
#define USER_CQE	7

struct cq_test {
	struct roe_cq	kernel, user;
	atomic_t	errors, notified;
	struct completion entered, leave, settled;
	struct tasklet_struct poll;
	struct task_struct *poller;
};

static void count_error(struct ib_event *event, void *context)
{
	struct cq_test *t = context;

	if (event->event == IB_EVENT_CQ_ERR)
		atomic_inc(&t->errors);
}

static int cq_test_init(struct kunit *test)
{
	struct cq_test *t = kunit_kzalloc(test, sizeof(*t), GFP_KERNEL);

	if (!t)
		return -ENOMEM;
	test->priv = t;
	t->kernel.ib.event_handler = count_error;
	t->kernel.ib.cq_context = t;
	t->user.ib.event_handler = count_error;
	t->user.ib.cq_context = t;
	KUNIT_ASSERT_EQ(test, roe_cq_init_kernel(&t->kernel, KERNEL_CQE), 0);
	KUNIT_ASSERT_EQ(test, roe_cq_init_user(&t->user, USER_CQE, NULL, NULL), 0);
	return 0;
}

static void cq_test_exit(struct kunit *test)
{
	struct cq_test *t = test->priv;

	if (!t)
		return;
	roe_cq_exit(&t->kernel);
	roe_cq_exit(&t->user);
}

static enum roe_cq_result post(struct roe_cq *cq, u64 wr_id)
{
	struct ib_wc wc = { .wr_id = wr_id };

	return roe_cq_post(cq, &wc, false);
}

/* What the library does: read the element, then give the slot back. */
static u64 user_poll(struct roe_cq *cq)
{
	struct rxe_queue_buf *buf = cq->ring->buf;
	struct ib_uverbs_wc *wc = roe_ring_slot(cq->ring, buf->consumer_index);

	buf->consumer_index = (buf->consumer_index + 1) & buf->index_mask;
	return wc->wr_id;
}

static void cq_order(struct kunit *test)
{
	struct cq_test *t = test->priv;
	u64 posted = 0, polled = 0;
	struct ib_wc wc[3];
	int i, n;

	while (polled < 50) {
		for (i = 0; i < 4; i++)
			KUNIT_ASSERT_EQ(test, post(&t->kernel, posted++), ROE_CQ_OK);
		while ((n = roe_cq_poll(&t->kernel.ib, ARRAY_SIZE(wc), wc)))
			for (i = 0; i < n; i++)
				KUNIT_EXPECT_EQ(test, wc[i].wr_id, polled++);
		KUNIT_EXPECT_EQ(test, polled, posted);
	}
}

static void cq_user_order(struct kunit *test)
{
	struct cq_test *t = test->priv;
	u64 posted = 0, polled = 0;

	while (polled < 50) {
		while (posted - polled < USER_CQE)
			KUNIT_ASSERT_EQ(test, post(&t->user, posted++), ROE_CQ_OK);
		KUNIT_EXPECT_EQ(test, user_poll(&t->user), polled++);
	}
}

static void check_overrun(struct kunit *test, struct roe_cq *cq, u32 room)
{
	struct cq_test *t = test->priv;
	u32 i;

	for (i = 0; i < room; i++)
		KUNIT_EXPECT_EQ(test, post(cq, i), ROE_CQ_OK);
	KUNIT_EXPECT_EQ(test, roe_cq_arm(&cq->ib, IB_CQ_NEXT_COMP), 0);
	for (i = 0; i < 3; i++) {
		KUNIT_EXPECT_EQ(test, post(cq, room), ROE_CQ_OVERRUN);
		flush_work(&cq->error_work);
		KUNIT_EXPECT_EQ(test, atomic_read(&t->errors), 1);
	}
}

static void cq_overrun(struct kunit *test)
{
	struct cq_test *t = test->priv;
	struct ib_wc wc[KERNEL_CQE + 1];

	check_overrun(test, &t->kernel, KERNEL_CQE);
	/* what was there can be polled; room again does not heal it */
	KUNIT_EXPECT_EQ(test, roe_cq_poll(&t->kernel.ib, ARRAY_SIZE(wc), wc), KERNEL_CQE);
	KUNIT_EXPECT_EQ(test, wc[KERNEL_CQE - 1].wr_id, KERNEL_CQE - 1);
	KUNIT_EXPECT_EQ(test, post(&t->kernel, 0), ROE_CQ_OVERRUN);
}

/* A QP comes: room for its queues beside the rest, and what is there stays in order. */
static void cq_reserve(struct kunit *test)
{
	struct cq_test *t = test->priv;
	unsigned int i, n = 0;
	struct ib_wc wc;

	for (i = 0; i < KERNEL_CQE; i++)
		KUNIT_EXPECT_EQ(test, post(&t->kernel, n++), ROE_CQ_OK);
	KUNIT_EXPECT_EQ(test, roe_cq_poll(&t->kernel.ib, 1, &wc), 1);
	KUNIT_EXPECT_EQ(test, post(&t->kernel, n++), ROE_CQ_OK);
	KUNIT_ASSERT_EQ(test, roe_cq_reserve(&t->kernel, 100), 0);
	for (i = 0; i < 100; i++)
		KUNIT_EXPECT_EQ(test, post(&t->kernel, n++), ROE_CQ_OK);
	for (i = 1; i < n; i++) {
		KUNIT_ASSERT_EQ(test, roe_cq_poll(&t->kernel.ib, 1, &wc), 1);
		KUNIT_EXPECT_EQ(test, wc.wr_id, i);
	}
	KUNIT_EXPECT_EQ(test, roe_cq_poll(&t->kernel.ib, 1, &wc), 0);
	/* the next one takes its place */
	roe_cq_release(&t->kernel, 100);
	i = t->kernel.wc_mask;
	KUNIT_ASSERT_EQ(test, roe_cq_reserve(&t->kernel, 100), 0);
	KUNIT_EXPECT_EQ(test, t->kernel.wc_mask, i);
}

static unsigned int post_batch(struct roe_cq *cq, u64 wr_id, unsigned int n)
{
	/* too large for the stack */
	static struct roe_cq_batch batch;
	static struct ib_qp qp = { .qp_num = 17 };
	unsigned int i;

	batch.cq = cq;
	batch.n = n;
	for (i = 0; i < n; i++)
		batch.done[i] = (struct roe_done){ .wr_id = wr_id + i, .opcode = IB_WC_RECV };
	return roe_cq_post_batch(&batch, &qp);
}

/* Many at once: in order, round the end of the ring, one event, and no more than fit. */
static void check_batch(struct kunit *test, struct roe_cq *cq, u32 room,
			u64 (*poll)(struct roe_cq *))
{
	struct cq_test *t = test->priv;
	u64 posted = 0, polled = 0;
	unsigned int i;

	for (i = 0; i < 3; i++) {
		roe_cq_arm(&cq->ib, IB_CQ_NEXT_COMP);
		KUNIT_EXPECT_EQ(test, post_batch(cq, posted, 3), ROE_CQ_NOTIFY);
		posted += 3;
		KUNIT_EXPECT_EQ(test, post_batch(cq, posted, room - 3), ROE_CQ_OK);
		posted += room - 3;
		KUNIT_EXPECT_EQ(test, roe_cq_unpolled(cq), room);
		while (polled < posted)
			KUNIT_EXPECT_EQ(test, poll(cq), polled++);
		KUNIT_EXPECT_EQ(test, post_batch(cq, posted++, 1), ROE_CQ_OK);
		KUNIT_EXPECT_EQ(test, poll(cq), polled++);
	}
	roe_cq_arm(&cq->ib, IB_CQ_SOLICITED);
	KUNIT_EXPECT_EQ(test, post_batch(cq, posted, room + 1), ROE_CQ_OVERRUN);
	for (i = 0; i < room; i++)
		KUNIT_EXPECT_EQ(test, poll(cq), polled++);
	KUNIT_EXPECT_EQ(test, post_batch(cq, posted, 1), ROE_CQ_OVERRUN);
	flush_work(&cq->error_work);
	KUNIT_EXPECT_EQ(test, atomic_read(&t->errors), 1);
}

static u64 kernel_poll(struct roe_cq *cq)
{
	struct ib_wc wc;

	return roe_cq_poll(&cq->ib, 1, &wc) ? wc.wr_id : U64_MAX;
}

static void cq_batch(struct kunit *test)
{
	struct cq_test *t = test->priv;

	check_batch(test, &t->kernel, KERNEL_CQE, kernel_poll);
}

static void cq_user_batch(struct kunit *test)
{
	struct cq_test *t = test->priv;

	check_batch(test, &t->user, USER_CQE, user_poll);
}

static enum roe_cq_result post_of(struct roe_cq *cq, struct ib_qp *qp, u64 wr_id)
{
	struct ib_wc wc = { .wr_id = wr_id, .qp = qp };

	return roe_cq_post(cq, &wc, false);
}

/* What a QP leaves that is destroyed or reset, wherever in the array. */
static void cq_forget(struct kunit *test)
{
	struct cq_test *t = test->priv;
	struct roe_cq *cq = &t->kernel;
	const int arm = IB_CQ_SOLICITED | IB_CQ_REPORT_MISSED_EVENTS;
	static struct ib_qp a, b;
	struct ib_wc wc[KERNEL_CQE];
	int i, j;

	for (i = 0; i < KERNEL_CQE; i++) {
		KUNIT_EXPECT_EQ(test, post_of(cq, &a, 1), ROE_CQ_OK);
		KUNIT_EXPECT_EQ(test, post_of(cq, &b, 2), ROE_CQ_OK);
		KUNIT_EXPECT_EQ(test, post_of(cq, &a, 3), ROE_CQ_OK);
		roe_cq_forget(cq, &a);
		KUNIT_EXPECT_EQ(test, roe_cq_unpolled(cq), 1);
		/* with room for as many as ever */
		for (j = 1; j < KERNEL_CQE; j++)
			KUNIT_EXPECT_EQ(test, post_of(cq, &a, 2 + j), ROE_CQ_OK);
		KUNIT_EXPECT_EQ(test, roe_cq_poll(&cq->ib, KERNEL_CQE, wc), KERNEL_CQE);
		for (j = 0; j < KERNEL_CQE; j++)
			KUNIT_EXPECT_EQ(test, wc[j].wr_id, 2 + j);
		KUNIT_EXPECT_PTR_EQ(test, wc[0].qp, &b);
		KUNIT_EXPECT_EQ(test, post_of(cq, &a, 1), ROE_CQ_OK);
		roe_cq_forget(cq, &a);
		KUNIT_EXPECT_EQ(test, roe_cq_arm(&cq->ib, arm), 0);
		KUNIT_EXPECT_EQ(test, roe_cq_poll(&cq->ib, KERNEL_CQE, wc), 0);
	}
	KUNIT_EXPECT_EQ(test, post(&t->user, 7), ROE_CQ_OK);
	roe_cq_forget(&t->user, NULL);
	KUNIT_EXPECT_EQ(test, user_poll(&t->user), 7);
}

/* Who watches may ask until the core has forgotten it. */
static void cq_destroyed(struct kunit *test)
{
	struct roe_cq *cq = kunit_kzalloc(test, sizeof(*cq), GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, cq);
	KUNIT_ASSERT_EQ(test, roe_cq_init_user(cq, USER_CQE, NULL, NULL), 0);
	KUNIT_EXPECT_EQ(test, post(cq, 0), ROE_CQ_OK);
	KUNIT_EXPECT_EQ(test, roe_cq_unpolled(cq), 1);
	roe_cq_exit(cq);
	KUNIT_EXPECT_EQ(test, roe_cq_unpolled(cq), 0);
}

static void cq_user_overrun(struct kunit *test)
{
	struct cq_test *t = test->priv;

	check_overrun(test, &t->user, USER_CQE);
	KUNIT_EXPECT_EQ(test, t->user.ring->prod, USER_CQE);
}

/* What finds no room is dropped; whoever waits is told, for there is something to poll. */
static void check_lossy(struct kunit *test, struct roe_cq *cq, u32 room)
{
	struct cq_test *t = test->priv;
	u32 i;

	cq->lossy = true;
	for (i = 0; i < room + 3; i++)
		KUNIT_EXPECT_EQ(test, post(cq, i), ROE_CQ_OK);
	KUNIT_EXPECT_EQ(test, roe_cq_unpolled(cq), room);
	cq->announced = cq->added;
	KUNIT_EXPECT_EQ(test, roe_cq_arm(&cq->ib, IB_CQ_NEXT_COMP), 0);
	KUNIT_EXPECT_EQ(test, post(cq, i), ROE_CQ_NOTIFY);
	KUNIT_EXPECT_EQ(test, post(cq, i), ROE_CQ_OK);
	flush_work(&cq->error_work);
	KUNIT_EXPECT_EQ(test, atomic_read(&t->errors), 0);
	KUNIT_EXPECT_FALSE(test, cq->overrun);
}

/* The last completions of a batch, one of them solicited, and the first of those that are lost. */
static void check_lossy_batch(struct kunit *test, struct roe_cq *cq, unsigned int nth,
			      unsigned int back)
{
	static struct roe_cq_batch batch;
	static struct ib_qp qp = { .qp_num = 17 };
	unsigned int i;

	batch.cq = cq;
	batch.n = 10;
	for (i = 0; i < batch.n; i++)
		batch.done[i] = (struct roe_done){ .opcode = IB_WC_RECV, .solicited = i == nth };
	KUNIT_EXPECT_EQ(test, roe_cq_post_batch(&batch, &qp), ROE_CQ_OK);
	KUNIT_EXPECT_EQ(test, cq->added - cq->solicited, back);
}

static void cq_lossy_batch(struct kunit *test)
{
	struct cq_test *t = test->priv;
	struct ib_wc wc[KERNEL_CQE];
	u32 i;

	t->kernel.lossy = true;
	for (i = 0; i < KERNEL_CQE - 2; i++)
		KUNIT_EXPECT_EQ(test, post(&t->kernel, i), ROE_CQ_OK);
	/* room for two: the first of them, the second, one that is lost */
	check_lossy_batch(test, &t->kernel, 0, 1);
	KUNIT_EXPECT_EQ(test, roe_cq_poll(&t->kernel.ib, 2, wc), 2);
	check_lossy_batch(test, &t->kernel, 1, 0);
	KUNIT_EXPECT_EQ(test, roe_cq_poll(&t->kernel.ib, 2, wc), 2);
	check_lossy_batch(test, &t->kernel, 7, 0);
}

static void cq_lossy(struct kunit *test)
{
	struct cq_test *t = test->priv;
	struct ib_wc wc[KERNEL_CQE + 1];
	u32 i;

	check_lossy(test, &t->kernel, KERNEL_CQE);
	KUNIT_EXPECT_EQ(test, roe_cq_poll(&t->kernel.ib, ARRAY_SIZE(wc), wc), KERNEL_CQE);
	KUNIT_EXPECT_EQ(test, wc[KERNEL_CQE - 1].wr_id, KERNEL_CQE - 1);
	KUNIT_EXPECT_EQ(test, post(&t->kernel, 99), ROE_CQ_OK);
	KUNIT_EXPECT_EQ(test, roe_cq_poll(&t->kernel.ib, ARRAY_SIZE(wc), wc), 1);
	KUNIT_EXPECT_EQ(test, wc[0].wr_id, 99);

	check_lossy(test, &t->user, USER_CQE);
	for (i = 0; i < USER_CQE; i++)
		KUNIT_EXPECT_EQ(test, user_poll(&t->user), i);
	KUNIT_EXPECT_EQ(test, post(&t->user, 99), ROE_CQ_OK);
	KUNIT_EXPECT_EQ(test, user_poll(&t->user), 99);
}

/* --- arming ---------------------------------------------------------------- */

struct arm_case {
	const char		*name;
	int			arm[2];		/* in turn; 0: not */
	enum ib_wc_status	status;
	bool			solicited;
	bool			notify;
};

static const struct arm_case arm_cases[] = {
	{ "not armed", {}, IB_WC_SUCCESS, true, false },
	{ "not armed, error", {}, IB_WC_WR_FLUSH_ERR, true, false },
	{ "next", { IB_CQ_NEXT_COMP }, IB_WC_SUCCESS, false, true },
	{ "solicited, not so", { IB_CQ_SOLICITED }, IB_WC_SUCCESS, false, false },
	{ "solicited, so", { IB_CQ_SOLICITED }, IB_WC_SUCCESS, true, true },
	{ "solicited, error", { IB_CQ_SOLICITED }, IB_WC_WR_FLUSH_ERR, false, true },
	{ "next, then solicited", { IB_CQ_NEXT_COMP, IB_CQ_SOLICITED },
	  IB_WC_SUCCESS, false, true },
	{ "solicited, then next", { IB_CQ_SOLICITED, IB_CQ_NEXT_COMP },
	  IB_WC_SUCCESS, false, true },
};

static void arm_desc(const struct arm_case *c, char *desc)
{
	strscpy(desc, c->name, KUNIT_PARAM_DESC_SIZE);
}

KUNIT_ARRAY_PARAM(arm, arm_cases, arm_desc);

static void cq_arm(struct kunit *test)
{
	const struct arm_case *c = test->param_value;
	struct cq_test *t = test->priv;
	struct ib_wc wc = { .status = c->status };
	int i;

	for (i = 0; i < ARRAY_SIZE(c->arm) && c->arm[i]; i++)
		KUNIT_EXPECT_EQ(test, roe_cq_arm(&t->kernel.ib, c->arm[i]), 0);
	KUNIT_EXPECT_EQ(test, roe_cq_post(&t->kernel, &wc, c->solicited),
			c->notify ? ROE_CQ_NOTIFY : ROE_CQ_OK);
	if (c->notify)		/* one event for each arm */
		KUNIT_EXPECT_EQ(test, roe_cq_post(&t->kernel, &wc, true), ROE_CQ_OK);
}

static void cq_missed_events(struct kunit *test)
{
	const int arm = IB_CQ_NEXT_COMP | IB_CQ_REPORT_MISSED_EVENTS;
	struct cq_test *t = test->priv;

	KUNIT_EXPECT_EQ(test, roe_cq_arm(&t->kernel.ib, arm), 0);
	KUNIT_EXPECT_EQ(test, post(&t->kernel, 0), ROE_CQ_NOTIFY);
	KUNIT_EXPECT_GT(test, roe_cq_arm(&t->kernel.ib, arm), 0);
	KUNIT_EXPECT_EQ(test, roe_cq_arm(&t->kernel.ib, IB_CQ_NEXT_COMP), 0);
}

/* --- a user's ring --------------------------------------------------------- */

/* librxe before v55 leaves its consumer index ahead of the producer. */
static void cq_consumer_ahead(struct kunit *test)
{
	struct cq_test *t = test->priv;
	u32 ahead, i;

	for (ahead = 1; ahead <= USER_CQE; ahead++) {
		for (i = 0; i < 4 * USER_CQE; i++) {
			struct roe_ring *ring = t->user.ring;

			ring->buf->consumer_index = (ring->prod + ahead) & ring->mask;
			KUNIT_ASSERT_NE(test, post(&t->user, i), ROE_CQ_OVERRUN);
		}
	}
	KUNIT_EXPECT_FALSE(test, t->user.overrun);
	KUNIT_EXPECT_EQ(test, atomic_read(&t->errors), 0);
}

static void cq_user_translate(struct kunit *test)
{
	struct cq_test *t = test->priv;
	struct ib_wc wc = {
		.wr_id		= 0x1122334455667788ULL,
		.status		= IB_WC_LOC_PROT_ERR,
		.opcode		= IB_WC_RECV,
		.byte_len	= 4096,
		.src_qp		= 7,
		.ex.invalidate_rkey = 0x1234,
		.wc_flags	= IB_WC_GRH | IB_WC_WITH_INVALIDATE | IB_WC_IP_CSUM_OK |
				  IB_WC_WITH_SMAC | IB_WC_WITH_VLAN |
				  IB_WC_WITH_NETWORK_HDR_TYPE,
	};
	const struct ib_uverbs_wc *uwc = roe_ring_slot(t->user.ring, 0);

	roe_cq_post(&t->user, &wc, false);
	KUNIT_EXPECT_EQ(test, uwc->wr_id, wc.wr_id);
	KUNIT_EXPECT_EQ(test, uwc->status, IB_WC_LOC_PROT_ERR);
	KUNIT_EXPECT_EQ(test, uwc->opcode, 128);
	KUNIT_EXPECT_EQ(test, uwc->byte_len, 4096);
	KUNIT_EXPECT_EQ(test, uwc->src_qp, 7);
	KUNIT_EXPECT_EQ(test, uwc->qp_num, 0);
	KUNIT_EXPECT_EQ(test, uwc->ex.invalidate_rkey, 0x1234);
	KUNIT_EXPECT_EQ(test, uwc->wc_flags, BIT(0) | BIT(3));
}

static void cq_resize(struct kunit *test)
{
	struct cq_test *t = test->priv;
	struct roe_ring *ring, *old;
	u64 i;

	for (i = 0; i < 10; i++) {	/* unpolled: 5 to 9, over the wrap */
		post(&t->user, i);
		if (i < 5)
			user_poll(&t->user);
	}

	ring = roe_ring_create(3, sizeof(struct ib_uverbs_wc), NULL, NULL);
	KUNIT_ASSERT_FALSE(test, IS_ERR(ring));
	old = roe_cq_swap_ring(&t->user, ring);
	KUNIT_EXPECT_TRUE(test, IS_ERR(old) && PTR_ERR(old) == -EINVAL);
	roe_ring_destroy(ring);

	ring = roe_ring_create(15, sizeof(struct ib_uverbs_wc), NULL, NULL);
	KUNIT_ASSERT_FALSE(test, IS_ERR(ring));
	old = roe_cq_swap_ring(&t->user, ring);
	KUNIT_ASSERT_FALSE(test, IS_ERR(old));
	roe_ring_destroy(old);
	KUNIT_EXPECT_EQ(test, t->user.ib.cqe, 15);
	KUNIT_EXPECT_EQ(test, ring->buf->producer_index, 5);

	for (; i < 20; i++)
		KUNIT_EXPECT_EQ(test, post(&t->user, i), ROE_CQ_OK);
	for (i = 5; i < 20; i++)
		KUNIT_EXPECT_EQ(test, user_poll(&t->user), i);
}

/* --- moved to another ring while completions come and are polled --- */

#define FLOW	3000
#define ROUNDS	40

struct flow {
	struct roe_cq	cq;
	atomic_t	added, polled;
	bool		wrong;
};

static int add(void *arg)
{
	struct flow *f = arg;

	while (!kthread_should_stop()) {
		u32 n = atomic_read(&f->added);

		if (n - atomic_read(&f->polled) == FLOW) {
			cond_resched();
			continue;
		}
		if (post(&f->cq, n) != ROE_CQ_OK)
			WRITE_ONCE(f->wrong, true);
		atomic_inc(&f->added);
	}
	return 0;
}

/* The process, between two steps of a move: the lock keeps the ring in its place. */
static int poll(void *arg)
{
	struct flow *f = arg;
	unsigned long flags;

	while (!kthread_should_stop()) {
		unsigned int n;

		spin_lock_irqsave(&f->cq.lock, flags);
		for (n = 0; n < 100 && f->cq.ring->buf->consumer_index !=
			    f->cq.ring->buf->producer_index; n++)
			if (user_poll(&f->cq) != (u32)atomic_fetch_inc(&f->polled))
				WRITE_ONCE(f->wrong, true);
		spin_unlock_irqrestore(&f->cq.lock, flags);
		cond_resched();
	}
	return 0;
}

static void cq_resize_busy(struct kunit *test)
{
	struct flow *f = kunit_kzalloc(test, sizeof(*f), GFP_KERNEL);
	struct task_struct *adder, *poller;
	struct roe_ring *ring;
	unsigned int i;

	KUNIT_ASSERT_NOT_NULL(test, f);
	KUNIT_ASSERT_EQ(test, roe_cq_init_user(&f->cq, 4095, NULL, NULL), 0);
	adder = kthread_run(add, f, "roe-cq-add");
	while (!IS_ERR(adder) && atomic_read(&f->added) < FLOW)
		cond_resched();
	poller = kthread_run(poll, f, "roe-cq-poll");
	for (i = 0; i < ROUNDS && !IS_ERR(poller); i++) {
		ring = roe_ring_create(i & 1 ? 4095 : 8191, sizeof(struct ib_uverbs_wc),
				       NULL, NULL);
		KUNIT_EXPECT_NOT_ERR_OR_NULL(test, ring);
		ring = roe_cq_swap_ring(&f->cq, ring);
		KUNIT_EXPECT_NOT_ERR_OR_NULL(test, ring);
		roe_ring_destroy(ring);
		usleep_range(1000, 3000);
	}
	KUNIT_EXPECT_EQ(test, IS_ERR(adder) ? -1 : kthread_stop(adder), 0);
	KUNIT_EXPECT_EQ(test, IS_ERR(poller) ? -1 : kthread_stop(poller), 0);
	KUNIT_EXPECT_FALSE(test, f->wrong);
	KUNIT_EXPECT_GT(test, atomic_read(&f->polled), 0);
	roe_cq_exit(&f->cq);
}

/* --- a QP forgotten while completions of others come and are polled --- */

static struct ib_qp leaver;

static int poll_others(void *arg)
{
	struct flow *f = arg;
	struct ib_wc wc[16];
	int n, i;

	while (!kthread_should_stop()) {
		n = roe_cq_poll(&f->cq.ib, ARRAY_SIZE(wc), wc);
		for (i = 0; i < n; i++)
			if (wc[i].qp != &leaver &&
			    wc[i].wr_id != (u32)atomic_fetch_inc(&f->polled))
				WRITE_ONCE(f->wrong, true);
		cond_resched();
	}
	return 0;
}

static u32 count_left(struct roe_cq *cq)
{
	u32 i, n = 0;

	spin_lock_irq(&cq->lock);
	for (i = cq->wc_cons; i != cq->wc_prod; i++)
		n += cq->wc[i & cq->wc_mask].qp == &leaver;
	spin_unlock_irq(&cq->lock);
	return n;
}

static void cq_forget_busy(struct kunit *test)
{
	struct flow *f = kunit_kzalloc(test, sizeof(*f), GFP_KERNEL);
	struct task_struct *adder, *poller;
	unsigned int i, j;

	KUNIT_ASSERT_NOT_NULL(test, f);
	KUNIT_ASSERT_EQ(test, roe_cq_init_kernel(&f->cq, 4096), 0);
	adder = kthread_run(add, f, "roe-cq-add");
	while (!IS_ERR(adder) && atomic_read(&f->added) < FLOW)
		cond_resched();
	poller = kthread_run(poll_others, f, "roe-cq-poll");
	for (i = 0; i < ROUNDS && !IS_ERR(poller); i++) {
		for (j = 0; j < 1000; j++)
			if (post_of(&f->cq, &leaver, 0) != ROE_CQ_OK)
				WRITE_ONCE(f->wrong, true);
		roe_cq_forget(&f->cq, &leaver);
		KUNIT_EXPECT_EQ(test, count_left(&f->cq), 0);
		usleep_range(1000, 3000);
	}
	KUNIT_EXPECT_EQ(test, IS_ERR(adder) ? -1 : kthread_stop(adder), 0);
	KUNIT_EXPECT_EQ(test, IS_ERR(poller) ? -1 : kthread_stop(poller), 0);
	KUNIT_EXPECT_EQ(test, roe_cq_unpolled(&f->cq),
			(u32)(atomic_read(&f->added) - atomic_read(&f->polled)));
	KUNIT_EXPECT_FALSE(test, f->wrong);
	KUNIT_EXPECT_GT(test, atomic_read(&f->polled), 0);
	roe_cq_exit(&f->cq);
}

static void count_event(struct ib_cq *ibcq, void *context)
{
	struct cq_test *t = context;

	atomic_inc(&t->notified);
}

/* One event for so many completions, or for those that came in a period. */
static void cq_moderation(struct kunit *test)
{
	struct cq_test *t = test->priv;
	struct roe_cq *cq = &t->kernel;
	struct ib_wc bad = { .status = IB_WC_WR_FLUSH_ERR };
	static const int want[] = {
		ROE_CQ_OK, ROE_CQ_OK, ROE_CQ_NOTIFY, ROE_CQ_OK, ROE_CQ_OK, ROE_CQ_NOTIFY,
	};
	int got[ARRAY_SIZE(want)], i;

	cq->ib.comp_handler = count_event;
	roe_cq_moderate(&cq->ib, 3, 60000);
	/* the period ends in a softirq: not here, however long the host stands still */
	local_bh_disable();
	roe_cq_arm(&cq->ib, IB_CQ_NEXT_COMP);
	for (i = 0; i < 4; i++)
		got[i] = post(cq, i + 1);
	roe_cq_arm(&cq->ib, IB_CQ_NEXT_COMP);
	got[4] = post(cq, 5);
	got[5] = roe_cq_post(cq, &bad, false);
	hrtimer_cancel(&cq->mod_timer);
	local_bh_enable();
	for (i = 0; i < ARRAY_SIZE(want); i++)
		KUNIT_EXPECT_EQ(test, got[i], want[i]);
	KUNIT_EXPECT_EQ(test, atomic_read(&t->notified), 0);

	roe_cq_moderate(&cq->ib, 3, 1000);
	roe_cq_arm(&cq->ib, IB_CQ_NEXT_COMP);
	KUNIT_EXPECT_EQ(test, post(cq, 6), ROE_CQ_OK);
	for (i = 0; i < 1000 && !atomic_read(&t->notified); i++)
		msleep(20);
	KUNIT_EXPECT_EQ(test, atomic_read(&t->notified), 1);
	msleep(20);
	KUNIT_EXPECT_EQ(test, atomic_read(&t->notified), 1);

	roe_cq_moderate(&cq->ib, 0, 0);
	roe_cq_arm(&cq->ib, IB_CQ_NEXT_COMP);
	KUNIT_EXPECT_EQ(test, post(cq, 7), ROE_CQ_NOTIFY);
}

static int events(struct roe_cq *cq)
{
	struct cq_test *t = cq->ib.cq_context;

	flush_work(&cq->notify_work);
	return atomic_xchg(&t->notified, 0);
}

static int events_of_arm(struct roe_cq *cq, enum ib_cq_notify_flags flags)
{
	return roe_cq_arm(&cq->ib, flags) ? -1 : events(cq);
}

/* What has come before the arm, and after the last event, has one of its own. */
static void check_late(struct kunit *test, struct roe_cq *cq, u64 (*poll)(struct roe_cq *))
{
	const int missed = IB_CQ_NEXT_COMP | IB_CQ_REPORT_MISSED_EVENTS;
	struct ib_wc wc = {}, bad = { .status = IB_WC_WR_FLUSH_ERR };
	u64 polled = 0;

	cq->ib.comp_handler = count_event;
	KUNIT_EXPECT_EQ(test, events_of_arm(cq, IB_CQ_NEXT_COMP), 0);
	KUNIT_EXPECT_EQ(test, post(cq, 0), ROE_CQ_NOTIFY);
	KUNIT_EXPECT_EQ(test, events_of_arm(cq, IB_CQ_NEXT_COMP), 0);
	KUNIT_EXPECT_EQ(test, post(cq, 1), ROE_CQ_NOTIFY);
	KUNIT_EXPECT_EQ(test, post(cq, 2), ROE_CQ_OK);
	KUNIT_EXPECT_EQ(test, events_of_arm(cq, IB_CQ_NEXT_COMP), 1);
	KUNIT_EXPECT_EQ(test, post(cq, 3), ROE_CQ_OK);
	KUNIT_EXPECT_EQ(test, events_of_arm(cq, missed), -1);
	KUNIT_EXPECT_EQ(test, events(cq), 0);
	KUNIT_EXPECT_EQ(test, post(cq, 4), ROE_CQ_NOTIFY);
	while (polled < 5)
		KUNIT_EXPECT_EQ(test, poll(cq), polled++);
	KUNIT_EXPECT_EQ(test, post(cq, 5), ROE_CQ_OK);
	KUNIT_EXPECT_EQ(test, poll(cq), 5);
	KUNIT_EXPECT_EQ(test, events_of_arm(cq, IB_CQ_NEXT_COMP), 0);
	KUNIT_EXPECT_EQ(test, post(cq, 6), ROE_CQ_NOTIFY);
	KUNIT_EXPECT_EQ(test, poll(cq), 6);

	KUNIT_EXPECT_EQ(test, post(cq, 7), ROE_CQ_OK);
	KUNIT_EXPECT_EQ(test, events_of_arm(cq, IB_CQ_SOLICITED), 0);
	KUNIT_EXPECT_EQ(test, events_of_arm(cq, IB_CQ_NEXT_COMP), 1);
	KUNIT_EXPECT_EQ(test, roe_cq_post(cq, &wc, true), ROE_CQ_OK);
	KUNIT_EXPECT_EQ(test, post(cq, 9), ROE_CQ_OK);
	KUNIT_EXPECT_EQ(test, events_of_arm(cq, IB_CQ_SOLICITED), 1);
	for (polled = 0; polled < 3; polled++)
		poll(cq);
	KUNIT_EXPECT_EQ(test, roe_cq_post(cq, &bad, false), ROE_CQ_OK);
	KUNIT_EXPECT_EQ(test, events_of_arm(cq, IB_CQ_SOLICITED), 1);
	poll(cq);
	KUNIT_EXPECT_EQ(test, roe_cq_post(cq, &wc, true), ROE_CQ_OK);
	poll(cq);
	KUNIT_EXPECT_EQ(test, post(cq, 10), ROE_CQ_OK);
	KUNIT_EXPECT_EQ(test, events_of_arm(cq, IB_CQ_SOLICITED), 0);
}

static void cq_arm_late(struct kunit *test)
{
	struct cq_test *t = test->priv;

	check_late(test, &t->kernel, kernel_poll);
}

static void cq_user_arm_late(struct kunit *test)
{
	struct cq_test *t = test->priv;

	check_late(test, &t->user, user_poll);
}

/* Held back, it is counted once, however often the CQ is armed. */
static void cq_arm_moderated(struct kunit *test)
{
	struct cq_test *t = test->priv;
	struct roe_cq *cq = &t->kernel;
	int late, got[3];

	cq->ib.comp_handler = count_event;
	roe_cq_moderate(&cq->ib, 3, 60000);
	local_bh_disable();
	post(cq, 0);
	late = roe_cq_arm(&cq->ib, IB_CQ_NEXT_COMP);
	late |= roe_cq_arm(&cq->ib, IB_CQ_NEXT_COMP);
	got[0] = post(cq, 1);
	got[1] = post(cq, 2);
	got[2] = post(cq, 3);
	hrtimer_cancel(&cq->mod_timer);
	local_bh_enable();
	KUNIT_EXPECT_EQ(test, late, 0);
	KUNIT_EXPECT_EQ(test, events(cq), 0);
	KUNIT_EXPECT_EQ(test, got[0], ROE_CQ_OK);
	KUNIT_EXPECT_EQ(test, got[1], ROE_CQ_NOTIFY);
	KUNIT_EXPECT_EQ(test, got[2], ROE_CQ_OK);
}

/* Handlers do not sleep. */
static void queue_poll(struct ib_cq *ibcq, void *context)
{
	mdelay(50);
	schedule_work(&ibcq->work);
}

static void count_poll(struct work_struct *work)
{
	struct roe_cq *cq = container_of(work, struct roe_cq, ib.work);
	struct cq_test *t = cq->ib.cq_context;

	atomic_inc(&t->notified);
}

/* A handler that is called late has the core's worker poll the CQ: not once that is stopped. */
static void cq_poll_late(struct kunit *test)
{
	struct cq_test *t = test->priv;
	struct roe_cq *cq = &t->kernel;
	int polls;

	cq->ib.comp_handler = queue_poll;
	INIT_WORK(&cq->ib.work, count_poll);
	roe_cq_arm(&cq->ib, IB_CQ_NEXT_COMP);
	KUNIT_EXPECT_EQ(test, post(cq, 1), ROE_CQ_NOTIFY);
	roe_cq_notify(cq, false);
	/* the last QP is destroyed; ib_free_cq() */
	roe_cq_settle(cq);
	cancel_work_sync(&cq->ib.work);
	polls = atomic_read(&t->notified);
	msleep(100);
	KUNIT_EXPECT_EQ(test, atomic_read(&t->notified), polls);
}

static void count_and_wait(struct ib_cq *ibcq, void *context)
{
	struct cq_test *t = context;
	int i;

	if (atomic_inc_return(&t->notified) > 1)
		return;
	complete(&t->entered);
	/* another CPU has the test */
	for (i = 0; i < 30000 && !completion_done(&t->leave); i++)
		mdelay(1);
}

static int settle(void *data)
{
	struct cq_test *t = data;

	roe_cq_settle(&t->kernel);
	complete(&t->settled);
	return 0;
}

static void raise_poll(struct ib_cq *ibcq, void *context)
{
	struct cq_test *t = context;

	tasklet_schedule(&t->poll);
	/* from a worker with softirqs enabled it would run in ksoftirqd, or before this */
	atomic_set(&t->notified, in_softirq() ? 1 : 100);
}

static void poll_raised(struct tasklet_struct *poll)
{
	struct cq_test *t = container_of(poll, struct cq_test, poll);

	atomic_inc(&t->notified);
	t->poller = current;
	complete(&t->entered);
}

/* What a handler raises in a worker runs there, at once, as irq_poll_sched() expects. */
static void cq_poll_softirq(struct kunit *test)
{
	struct cq_test *t = test->priv;
	struct roe_cq *cq = &t->kernel;

	init_completion(&t->entered);
	tasklet_setup(&t->poll, poll_raised);
	cq->ib.comp_handler = raise_poll;
	set_bit(0, &cq->owed);
	roe_cq_settle(cq);
	KUNIT_EXPECT_NE(test, wait_for_completion_timeout(&t->entered, 30 * HZ), 0);
	KUNIT_EXPECT_EQ(test, atomic_read(&t->notified), 2);
	KUNIT_EXPECT_PTR_EQ(test, t->poller, current);
	tasklet_kill(&t->poll);
}

/* One of the QPs of a CQ is destroyed while another one's event is reported, and a next due. */
static void cq_settle_shared(struct kunit *test)
{
	struct cq_test *t = test->priv;
	struct roe_cq *cq = &t->kernel;
	struct task_struct *task;

	init_completion(&t->entered);
	init_completion(&t->leave);
	init_completion(&t->settled);
	cq->ib.comp_handler = count_and_wait;
	roe_cq_arm(&cq->ib, IB_CQ_NEXT_COMP);
	KUNIT_EXPECT_EQ(test, post(cq, 1), ROE_CQ_NOTIFY);
	roe_cq_notify(cq, false);
	KUNIT_ASSERT_NE(test, wait_for_completion_timeout(&t->entered, 30 * HZ), 0);
	task = kthread_run(settle, t, "roe-settle");
	KUNIT_ASSERT_NOT_ERR_OR_NULL(test, task);
	/* it waits for the handler */
	msleep(200);
	roe_cq_arm(&cq->ib, IB_CQ_NEXT_COMP);
	KUNIT_EXPECT_EQ(test, post(cq, 2), ROE_CQ_NOTIFY);
	roe_cq_notify(cq, false);
	complete(&t->leave);
	KUNIT_ASSERT_NE(test, wait_for_completion_timeout(&t->settled, 60 * HZ), 0);
	msleep(200);
	KUNIT_EXPECT_EQ(test, atomic_read(&t->notified), 2);
}

/* The same at the end of a period. */
static void cq_period_late(struct kunit *test)
{
	struct cq_test *t = test->priv;
	struct roe_cq *cq = &t->kernel;

	cq->ib.comp_handler = count_event;
	roe_cq_moderate(&cq->ib, 3, 60000);
	roe_cq_arm(&cq->ib, IB_CQ_NEXT_COMP);
	KUNIT_EXPECT_EQ(test, post(cq, 1), ROE_CQ_OK);
	roe_cq_settle(cq);
	KUNIT_EXPECT_EQ(test, atomic_read(&t->notified), 1);
	KUNIT_EXPECT_FALSE(test, hrtimer_active(&cq->mod_timer));
}

/* No more than query_device says, and one that failed takes no place. */
static void cq_number(struct kunit *test)
{
	struct roe_dev *dev = kunit_kzalloc(test, sizeof(*dev), GFP_KERNEL);
	struct roe_cq *cq = kunit_kzalloc(test, sizeof(*cq), GFP_KERNEL);
	struct ib_cq_init_attr attr = { .cqe = 1 };

	KUNIT_ASSERT_NOT_NULL(test, dev);
	KUNIT_ASSERT_NOT_NULL(test, cq);
	cq->ib.device = &dev->ib;
	atomic_set(&dev->cqs, ROE_MAX_OBJECTS - 1);
	attr.flags = IB_UVERBS_CQ_FLAGS_TIMESTAMP_COMPLETION;
	KUNIT_EXPECT_EQ(test, roe_cq_create(&cq->ib, &attr, NULL), -EOPNOTSUPP);
	attr.flags = 0;
	KUNIT_ASSERT_EQ(test, roe_cq_create(&cq->ib, &attr, NULL), 0);
	KUNIT_EXPECT_EQ(test, roe_cq_create(&cq->ib, &attr, NULL), -ENOMEM);
	roe_cq_destroy(&cq->ib, NULL);
	KUNIT_EXPECT_EQ(test, atomic_read(&dev->cqs), ROE_MAX_OBJECTS - 1);
}

static struct kunit_case cq_cases[] = {
	KUNIT_CASE(cq_number),
	KUNIT_CASE(cq_order),
	KUNIT_CASE(cq_user_order),
	KUNIT_CASE(cq_overrun),
	KUNIT_CASE(cq_user_overrun),
	KUNIT_CASE(cq_reserve),
	KUNIT_CASE(cq_lossy),
	KUNIT_CASE(cq_lossy_batch),
	KUNIT_CASE(cq_forget),
	KUNIT_CASE(cq_forget_busy),
	KUNIT_CASE(cq_destroyed),
	KUNIT_CASE_PARAM(cq_arm, arm_gen_params),
	KUNIT_CASE(cq_missed_events),
	KUNIT_CASE(cq_moderation),
	KUNIT_CASE(cq_arm_late),
	KUNIT_CASE(cq_user_arm_late),
	KUNIT_CASE(cq_arm_moderated),
	KUNIT_CASE(cq_poll_late),
	KUNIT_CASE(cq_poll_softirq),
	KUNIT_CASE(cq_settle_shared),
	KUNIT_CASE(cq_period_late),
	KUNIT_CASE(cq_consumer_ahead),
	KUNIT_CASE(cq_user_translate),
	KUNIT_CASE(cq_batch),
	KUNIT_CASE(cq_user_batch),
	KUNIT_CASE(cq_resize),
	KUNIT_CASE(cq_resize_busy),
	{}
};

static struct kunit_suite cq_suite = {
	.name		= "roe_cq",
	.init		= cq_test_init,
	.exit		= cq_test_exit,
	.test_cases	= cq_cases,
};

kunit_test_suite(cq_suite);
