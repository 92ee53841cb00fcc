// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Local operations without number: nobody has us do, or report, a hundred thousand of
 * them in one run, with softirqs off (harness: sim.h).
 */
#include "../drivers/roe/mw.h"
#include "sim.h"

#define MANY	2000
#define SIG	IB_SEND_SIGNALED

struct fixture {
	struct sim		*sim;
	struct roe_window	mw;	/* never bound */
};

static int setup(struct kunit *test)
{
	struct fixture *f = kunit_kzalloc(test, sizeof(*f), GFP_KERNEL);
	struct sim_side *side;

	if (!f)
		return -ENOMEM;
	test->priv = f;
	f->sim = sim_create(test);
	if (!f->sim || !sim_deepen(f->sim, 0, MANY + 1))
		return -ENOMEM;
	side = &f->sim->side[0];
	f->mw.view.type = ROE_MR_WINDOW_1;
	f->mw.view.state = ROE_MR_FREE;
	f->mw.view.ib.pd = side->qp->pd;
	return roe_mr_publish(&side->keys, &f->mw.view);
}

static void teardown(struct kunit *test)
{
	struct fixture *f = test->priv;

	if (!f)
		return;
	if (f->mw.view.keys)
		roe_mr_unpublish(&f->mw.view);
	if (f->sim)
		sim_destroy(f->sim);
}

/* Unbinds of a window that is not bound, which each may be the last. */
static void post_many(struct fixture *f)
{
	struct roe_sq *sq = &f->sim->side[0].qp->sq;
	unsigned int i;

	for (i = 0; i < MANY; i++, sq->prod++) {
		struct roe_swqe *wqe = roe_sq_slot(sq, sq->prod);

		wqe->wr_id = sq->prod;
		wqe->opcode = IB_WR_BIND_MW;
		wqe->flags = SIG;
		wqe->rkey = f->mw.view.key;
		wqe->bind_rkey = f->mw.view.key;
	}
}

static void expect_all(struct kunit *test, unsigned int n)
{
	struct fixture *f = test->priv;
	unsigned int i;
	struct ib_wc wc;

	KUNIT_EXPECT_EQ(test, f->sim->side[0].qp->sq.cons, n);
	for (i = 0; i < n; i++) {
		KUNIT_ASSERT_EQ(test, roe_cq_poll(&f->sim->side[0].scq.ib, 1, &wc), 1);
		KUNIT_EXPECT_EQ(test, wc.status, IB_WC_SUCCESS);
		KUNIT_EXPECT_EQ(test, wc.wr_id, i);
	}
}

/* Collected in SQD, done in parts from RTS on. */
static void local_held(struct kunit *test)
{
	struct fixture *f = test->priv;
	struct sim_side *side = &f->sim->side[0];
	struct roe_qp *qp = side->qp;
	unsigned int runs = 0;

	qp->state = IB_QPS_SQD;
	post_many(f);
	sim_emit(f->sim, 0);
	KUNIT_EXPECT_EQ(test, qp->sq.cons, 0);
	qp->state = IB_QPS_RTS;
	do {
		u32 cons = qp->sq.cons;

		KUNIT_EXPECT_FALSE(test, sim_emit(f->sim, 0));
		KUNIT_EXPECT_LE(test, qp->sq.cons - cons, ROE_WQE_BATCH);
	} while (!side->idle && ++runs < 20);
	expect_all(test, MANY);
}

/* Behind a message: an ACK reports no more than so many, and all come in the end. */
static void behind(struct kunit *test, u64 lost)
{
	struct fixture *f = test->priv;
	struct sim_side *side = &f->sim->side[0];
	struct roe_qp *qp = side->qp;
	unsigned int runs = 0;

	f->sim->lost = lost;
	sim_recv(f->sim, 1, 10);
	sim_post(f->sim, 0, IB_WR_SEND, 10, SIG);
	post_many(f);
	do {
		u32 next = qp->sq.next;

		sim_emit(f->sim, 0);
		KUNIT_EXPECT_LE(test, qp->sq.next - next, ROE_WQE_BATCH + 1);
	} while (!side->idle && ++runs < 20);
	KUNIT_EXPECT_EQ(test, qp->sq.cons, 0);
	KUNIT_EXPECT_EQ(test, qp->sq.next, ROE_LOCAL_BEHIND);
	KUNIT_ASSERT_TRUE(test, sim_run(f->sim));
	expect_all(test, MANY + 1);
}

static void local_behind(struct kunit *test)
{
	behind(test, 0);
}

/* What is done is passed over when the message is sent again, in parts, too. */
static void local_behind_lost(struct kunit *test)
{
	behind(test, BIT(0) | BIT(1));
}

/* SMC-R frees an MR whose registration is still in the queue: it is looked for by number. */
static void local_reg_gone(struct kunit *test)
{
	struct fixture *f = test->priv;
	struct sim_side *side = &f->sim->side[0];
	struct ib_wc wc;

	sim_post(f->sim, 0, IB_WR_RDMA_WRITE, 10, SIG);
	sim_post(f->sim, 0, IB_WR_REG_MR, 0, SIG);
	side->fast.state = ROE_MR_FREE;
	roe_mr_unpublish(&side->fast);
	sim_run(f->sim);
	KUNIT_ASSERT_EQ(test, roe_cq_poll(&side->scq.ib, 1, &wc), 1);
	KUNIT_EXPECT_EQ(test, wc.status, IB_WC_SUCCESS);
	KUNIT_ASSERT_EQ(test, roe_cq_poll(&side->scq.ib, 1, &wc), 1);
	KUNIT_EXPECT_EQ(test, wc.status, IB_WC_MW_BIND_ERR);
	KUNIT_EXPECT_EQ(test, (int)side->fast.state, ROE_MR_DEAD);
}

static struct kunit_case cases[] = {
	KUNIT_CASE(local_held),
	KUNIT_CASE(local_behind),
	KUNIT_CASE(local_behind_lost),
	KUNIT_CASE(local_reg_gone),
	{}
};

static struct kunit_suite suite = {
	.name = "roe_local",
	.init = setup,
	.exit = teardown,
	.test_cases = cases,
};

kunit_test_suite(suite);
