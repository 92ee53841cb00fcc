// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Shared receive queues: the limit event, resizing with WQEs posted, and what a
 * QP in ERR leaves behind. How QPs take from one under loss is in sim_test.c.
 */
#include <kunit/test.h>
#include <linux/slab.h>
#include "sim.h"

#define MAX_SGE		3

struct fixture {
	struct roe_srq	srq;
	struct roe_rwqe	rwqe;
	unsigned int	events;
};

static void count_event(struct ib_event *event, void *context)
{
	struct fixture *f = context;

	if (event->event == IB_EVENT_SRQ_LIMIT_REACHED && event->element.srq == &f->srq.ib)
		f->events++;
}

static int setup(struct kunit *test)
{
	struct fixture *f = kunit_kzalloc(test, sizeof(*f), GFP_KERNEL);

	if (!f)
		return -ENOMEM;
	test->priv = f;
	f->srq.ib.event_handler = count_event;
	f->srq.ib.srq_context = f;
	return roe_srq_init(&f->srq, 7, MAX_SGE, NULL, NULL);
}

static void teardown(struct kunit *test)
{
	struct fixture *f = test->priv;

	if (f && f->srq.rq.max_sge)
		roe_srq_exit(&f->srq);
}

/* The SRQ of a process, which is the test. */
static struct roe_ring *make_ring(struct kunit *test, struct roe_rq *rq, u32 entries)
{
	struct roe_ring *ring = roe_ring_create(entries, sizeof(struct rxe_recv_wqe) +
						MAX_SGE * sizeof(struct rxe_sge), NULL, NULL);

	KUNIT_ASSERT_NOT_ERR_OR_NULL(test, ring);
	kvfree(rq->slots);
	rq->slots = NULL;
	rq->ring = ring;
	rq->max_sge = MAX_SGE;
	rq->mask = ring->mask;
	rq->max_wr = ring->mask;
	return ring;
}

static void user_post(struct roe_ring *ring, u64 id)
{
	u32 prod = ring->buf->producer_index;
	struct rxe_recv_wqe *u = roe_ring_slot(ring, prod);
	struct rxe_sge *sge = (void *)(u + 1);

	u->wr_id = id;
	u->dma.num_sge = 2;
	sge[0].length = id;
	sge[1].length = 1;
	ring->buf->producer_index = (prod + 1) & ring->mask;
}

static int kernel_post(struct fixture *f, u64 id, int num_sge)
{
	struct ib_sge sge[MAX_SGE + 1] = { { .length = id }, { .length = 1 } };
	struct ib_recv_wr wr = { .wr_id = id, .sg_list = sge, .num_sge = num_sge };
	const struct ib_recv_wr *bad = NULL;
	int err = roe_rq_post(&f->srq.rq, &wr, &bad);

	return err && bad != &wr ? -EIO : err;
}

static void post(struct fixture *f, u64 id)
{
	if (f->srq.rq.ring)
		user_post(f->srq.rq.ring, id);
	else
		kernel_post(f, id, 2);
}

static void expect_take(struct kunit *test, u64 id)
{
	struct fixture *f = test->priv;

	KUNIT_ASSERT_TRUE(test, roe_srq_take(&f->srq, &f->rwqe, 0));
	KUNIT_EXPECT_EQ(test, f->rwqe.wr_id, id);
	KUNIT_EXPECT_EQ(test, f->rwqe.num_sge, 2);
	KUNIT_EXPECT_EQ(test, f->rwqe.length, id + 1);
	KUNIT_EXPECT_EQ(test, f->rwqe.status, IB_WC_SUCCESS);
}

static unsigned int events(struct fixture *f)
{
	flush_work(&f->srq.event_work);
	return f->events;
}

/* What is too short for one datagram is there for the next, of whichever QP. */
static void leave_short(struct kunit *test)
{
	struct fixture *f = test->priv;

	post(f, 3);
	post(f, 9);
	KUNIT_EXPECT_FALSE(test, roe_srq_take(&f->srq, &f->rwqe, 5));
	KUNIT_EXPECT_EQ(test, roe_rq_pending(&f->srq.rq), 2);
	KUNIT_EXPECT_TRUE(test, roe_srq_take(&f->srq, &f->rwqe, 4));
	KUNIT_EXPECT_EQ(test, f->rwqe.wr_id, 3);
	expect_take(test, 9);
	KUNIT_EXPECT_FALSE(test, roe_srq_take(&f->srq, &f->rwqe, 0));
}

static void srq_short(struct kunit *test)
{
	struct fixture *f = test->priv;

	leave_short(test);
	make_ring(test, &f->srq.rq, 7);
	leave_short(test);
}

static void srq_limit(struct kunit *test)
{
	struct fixture *f = test->priv;
	u32 limit = 3, none = 0, much = 8;
	unsigned int i;

	for (i = 0; i < 5; i++)
		post(f, i);
	KUNIT_EXPECT_EQ(test, roe_srq_set(&f->srq, NULL, &much), -EINVAL);
	KUNIT_EXPECT_EQ(test, roe_srq_set(&f->srq, NULL, &limit), 0);
	expect_take(test, 0);
	expect_take(test, 1);
	KUNIT_EXPECT_EQ(test, events(f), 0);
	KUNIT_EXPECT_EQ(test, f->srq.limit, 3);
	expect_take(test, 2);
	KUNIT_EXPECT_EQ(test, events(f), 1);
	KUNIT_EXPECT_EQ(test, f->srq.limit, 0);
	expect_take(test, 3);
	expect_take(test, 4);
	KUNIT_EXPECT_FALSE(test, roe_srq_take(&f->srq, &f->rwqe, 0));
	KUNIT_EXPECT_EQ(test, events(f), 1);

	/* below already when it is armed */
	KUNIT_EXPECT_EQ(test, roe_srq_set(&f->srq, NULL, &limit), 0);
	KUNIT_EXPECT_EQ(test, events(f), 2);
	KUNIT_EXPECT_EQ(test, f->srq.limit, 0);

	/* disarmed in time */
	for (i = 0; i < 4; i++)
		post(f, i);
	KUNIT_EXPECT_EQ(test, roe_srq_set(&f->srq, NULL, &limit), 0);
	KUNIT_EXPECT_EQ(test, roe_srq_set(&f->srq, NULL, &none), 0);
	for (i = 0; i < 4; i++)
		expect_take(test, i);
	KUNIT_EXPECT_EQ(test, events(f), 2);
}

static void srq_post(struct kunit *test)
{
	struct fixture *f = test->priv;
	unsigned int i;

	KUNIT_EXPECT_EQ(test, kernel_post(f, 0, MAX_SGE + 1), -EINVAL);
	KUNIT_EXPECT_EQ(test, kernel_post(f, 0, -1), -EINVAL);
	for (i = 0; i < 7; i++)
		KUNIT_EXPECT_EQ(test, kernel_post(f, i, 2), 0);
	KUNIT_EXPECT_EQ(test, kernel_post(f, 7, 2), -ENOMEM);
	expect_take(test, 0);
	KUNIT_EXPECT_EQ(test, kernel_post(f, 7, 2), 0);
	for (i = 1; i < 8; i++)
		expect_take(test, i);
	KUNIT_EXPECT_FALSE(test, roe_srq_take(&f->srq, &f->rwqe, 0));
}

static void fresh_queue(struct kunit *test, struct roe_rq *fresh, u32 entries)
{
	struct fixture *f = test->priv;

	memset(fresh, 0, sizeof(*fresh));
	KUNIT_ASSERT_EQ(test, roe_rq_init(fresh, entries, MAX_SGE, NULL, NULL), 0);
	if (f->srq.rq.ring)
		make_ring(test, fresh, entries);
}

/* Grow and shrink with WQEs posted, the oldest in the middle of the ring. */
static void resize(struct kunit *test)
{
	struct fixture *f = test->priv;
	u32 limit = 5, next = 0, i;
	struct roe_rq fresh;

	for (i = 0; i < 7; i++)
		post(f, i);
	for (; next < 4; next++)
		expect_take(test, next);
	for (; i < 11; i++)
		post(f, i);

	fresh_queue(test, &fresh, 3);
	KUNIT_EXPECT_EQ(test, roe_srq_set(&f->srq, &fresh, NULL), -EINVAL);
	KUNIT_EXPECT_EQ(test, f->srq.rq.max_wr, 7);
	roe_rq_exit(&fresh);

	fresh_queue(test, &fresh, 30);
	KUNIT_EXPECT_EQ(test, roe_srq_set(&f->srq, &fresh, &limit), 0);
	KUNIT_EXPECT_EQ(test, f->srq.rq.max_wr, 31);
	KUNIT_EXPECT_EQ(test, f->srq.limit, 5);
	roe_rq_exit(&fresh);
	for (; i < 4 + 31; i++)
		post(f, i);
	KUNIT_EXPECT_EQ(test, roe_rq_pending(&f->srq.rq), 31);
	for (; next < i - 7; next++)
		expect_take(test, next);
	KUNIT_EXPECT_EQ(test, events(f), 0);

	/* the limit must fit */
	fresh_queue(test, &fresh, 7);
	limit = 8;
	KUNIT_EXPECT_EQ(test, roe_srq_set(&f->srq, &fresh, &limit), -EINVAL);
	KUNIT_EXPECT_EQ(test, roe_srq_set(&f->srq, &fresh, NULL), 0);
	KUNIT_EXPECT_EQ(test, f->srq.rq.max_wr, 7);
	roe_rq_exit(&fresh);
	for (; next < i; next++)
		expect_take(test, next);
	KUNIT_EXPECT_FALSE(test, roe_srq_take(&f->srq, &f->rwqe, 0));
	KUNIT_EXPECT_EQ(test, events(f), 1);
}

#define BATCH	ROE_RING_BATCH

/* Of many some are moved at a time, while others are taken. */
static void resize_many(struct kunit *test)
{
	struct fixture *f = test->priv;
	struct roe_rq *rq = &f->srq.rq, fresh;
	u32 taken = 0, next, i;

	fresh_queue(test, &fresh, 4 * BATCH - 1);
	KUNIT_ASSERT_EQ(test, roe_srq_set(&f->srq, &fresh, NULL), 0);
	roe_rq_exit(&fresh);
	for (i = 0; i < 3 * BATCH + BATCH / 2; i++)
		post(f, i);
	expect_take(test, taken++);

	fresh_queue(test, &fresh, 4 * BATCH);
	next = rq->cons;
	KUNIT_EXPECT_EQ(test, roe_rq_swap(rq, &fresh, &next), -EAGAIN);
	/* what was moved, and more than that */
	while (taken < 10)
		expect_take(test, taken++);
	KUNIT_EXPECT_EQ(test, roe_rq_swap(rq, &fresh, &next), -EAGAIN);
	while (taken < 2 * BATCH + 50)
		expect_take(test, taken++);
	post(f, i++);
	KUNIT_EXPECT_EQ(test, roe_rq_swap(rq, &fresh, &next), -EAGAIN);
	KUNIT_EXPECT_EQ(test, roe_rq_swap(rq, &fresh, &next), 0);
	roe_rq_exit(&fresh);
	KUNIT_EXPECT_EQ(test, roe_rq_pending(rq), i - taken);
	post(f, i++);
	while (taken < i)
		expect_take(test, taken++);
	KUNIT_EXPECT_FALSE(test, roe_srq_take(&f->srq, &f->rwqe, 0));
}

static void srq_move_kernel(struct kunit *test)
{
	resize_many(test);
}

static void srq_move_user(struct kunit *test)
{
	struct fixture *f = test->priv;

	make_ring(test, &f->srq.rq, 7);
	resize_many(test);
}

static void srq_resize_kernel(struct kunit *test)
{
	resize(test);
}

static void srq_resize_user(struct kunit *test)
{
	struct fixture *f = test->priv;

	make_ring(test, &f->srq.rq, 7);
	resize(test);
}

/* Whatever the process writes, an SRQ gives at most its size and stays inside. */
static void srq_hostile(struct kunit *test)
{
	static const u32 values[] = { 8, 0x80000000, 0xffffffff, 7, 0x12345678 };
	struct fixture *f = test->priv;
	struct roe_ring *ring = make_ring(test, &f->srq.rq, 7);
	unsigned int i, n;

	for (i = 0; i < ARRAY_SIZE(values); i++) {
		memset(ring->buf->data, 0xff, 8 << ring->log2);
		ring->buf->producer_index = values[i];
		ring->buf->consumer_index = ~values[i];
		ring->buf->index_mask = 0xffffffff;
		ring->buf->log2_elem_size = 31;
		for (n = 0; roe_srq_take(&f->srq, &f->rwqe, 0); n++) {
			KUNIT_EXPECT_EQ(test, f->rwqe.status, IB_WC_LOC_QP_OP_ERR);
			KUNIT_EXPECT_EQ(test, f->rwqe.num_sge, 0);
		}
		KUNIT_EXPECT_LE(test, n, 7);
	}
}

static enum ib_wc_status status_of(struct roe_cq *cq)
{
	struct ib_wc wc;

	return roe_cq_poll(&cq->ib, 1, &wc) ? wc.status : 99;
}

/* ERR: the WQE in use is flushed, the rest stays for others, one event. */
static void srq_last_wqe(struct kunit *test)
{
	struct sim *sim = sim_create(test);
	struct sim_side *side;
	struct roe_ctx ctx = {};

	KUNIT_ASSERT_NOT_NULL(test, sim);
	side = &sim->side[1];
	side->qp->srq = &side->srq;
	sim_recv(sim, 1, 600);
	sim_recv(sim, 1, 600);
	sim_post(sim, 0, IB_WR_SEND, 600, 0);
	sim_emit(sim, 0);
	sim_receive(sim, 1, &list_first_entry(&sim->wire, struct sim_pkt, link)->rx);
	KUNIT_EXPECT_TRUE(test, side->qp->resp.rwqe_valid);

	local_bh_disable();
	spin_lock(&side->qp->lock);
	roe_complete_error(side->qp, &ctx);
	KUNIT_EXPECT_EQ(test, ctx.events, BIT(IB_EVENT_QP_LAST_WQE_REACHED));
	ctx.events = 0;
	roe_complete_error(side->qp, &ctx);
	KUNIT_EXPECT_EQ(test, ctx.events, 0);
	spin_unlock(&side->qp->lock);
	local_bh_enable();
	KUNIT_EXPECT_EQ(test, (int)status_of(&side->rcq), (int)IB_WC_WR_FLUSH_ERR);
	KUNIT_EXPECT_EQ(test, (int)status_of(&side->rcq), 99);
	KUNIT_EXPECT_EQ(test, roe_rq_pending(&side->srq.rq), 1);
	sim_destroy(sim);
}

/* That event says that no WQE of the SRQ is with the QP: also while its SQ is lent. */
static void srq_last_wqe_lent(struct kunit *test)
{
	struct sim *sim = sim_create(test);
	struct sim_side *side;
	struct roe_ctx ctx = {};

	KUNIT_ASSERT_NOT_NULL(test, sim);
	side = &sim->side[1];
	side->qp->srq = &side->srq;
	sim_recv(sim, 1, 600);
	sim_post(sim, 0, IB_WR_SEND, 600, 0);
	sim_emit(sim, 0);
	sim_receive(sim, 1, &list_first_entry(&sim->wire, struct sim_pkt, link)->rx);
	sim_post(sim, 1, IB_WR_SEND, 10, 0);
	side->qp->lent = true;

	roe_complete_error(side->qp, &ctx);
	KUNIT_EXPECT_EQ(test, ctx.events, BIT(IB_EVENT_QP_LAST_WQE_REACHED));
	KUNIT_EXPECT_EQ(test, (int)status_of(&side->rcq), (int)IB_WC_WR_FLUSH_ERR);
	KUNIT_EXPECT_EQ(test, (int)status_of(&side->scq), 99);
	roe_complete_returned(side->qp, &ctx);
	KUNIT_EXPECT_EQ(test, (int)status_of(&side->rcq), 99);
	KUNIT_EXPECT_EQ(test, (int)status_of(&side->scq), (int)IB_WC_WR_FLUSH_ERR);
	sim_destroy(sim);
}

/* No more than query_device says, and one that failed takes no place. */
static void srq_number(struct kunit *test)
{
	struct ib_srq_init_attr init = { .attr = { .max_wr = 1, .max_sge = 1 } };
	struct roe_dev *dev = kunit_kzalloc(test, sizeof(*dev), GFP_KERNEL);
	struct roe_srq *srq = kunit_kzalloc(test, sizeof(*srq), GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, dev);
	KUNIT_ASSERT_NOT_NULL(test, srq);
	srq->ib.device = &dev->ib;
	atomic_set(&dev->srqs, ROE_MAX_OBJECTS - 1);
	init.srq_type = IB_SRQT_XRC;
	KUNIT_EXPECT_EQ(test, roe_srq_create(&srq->ib, &init, NULL), -EOPNOTSUPP);
	init.srq_type = IB_SRQT_BASIC;
	KUNIT_ASSERT_EQ(test, roe_srq_create(&srq->ib, &init, NULL), 0);
	KUNIT_EXPECT_EQ(test, roe_srq_create(&srq->ib, &init, NULL), -ENOMEM);
	roe_srq_destroy(&srq->ib, NULL);
	KUNIT_EXPECT_EQ(test, atomic_read(&dev->srqs), ROE_MAX_OBJECTS - 1);
}

static struct kunit_case srq_cases[] = {
	KUNIT_CASE(srq_number),
	KUNIT_CASE(srq_short),
	KUNIT_CASE(srq_limit),
	KUNIT_CASE(srq_post),
	KUNIT_CASE(srq_resize_kernel),
	KUNIT_CASE(srq_resize_user),
	KUNIT_CASE(srq_move_kernel),
	KUNIT_CASE(srq_move_user),
	KUNIT_CASE(srq_hostile),
	KUNIT_CASE(srq_last_wqe),
	KUNIT_CASE(srq_last_wqe_lent),
	{}
};

static struct kunit_suite srq_suite = {
	.name = "roe_srq",
	.init = setup,
	.exit = teardown,
	.test_cases = srq_cases,
};

kunit_test_suites(&srq_suite);
