// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Small messages that wait for company: what different users pay for it, with a
 * model of each, and that nothing is lost or overtaken where packets are.
 */
#include "sim.h"

/* A user: the time it takes between doorbells, and what sending costs. */
struct poster {
	struct roe_qp	*qp;
	u64		now;
	u32		think, cost, late;	/* late: of timers */
	unsigned int	posts, sends, expired;
	u64		delay;		/* ns that messages waited, all together */
};

#define COST	3000
#define THINK	800
#define SLOTS	4096

static struct poster *new_poster(struct kunit *test, u32 think, u32 cost)
{
	struct poster *user = kunit_kzalloc(test, sizeof(*user), GFP_KERNEL);
	struct roe_qp *qp = kunit_kzalloc(test, sizeof(*qp), GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, user);
	KUNIT_ASSERT_NOT_NULL(test, qp);
	qp->state = IB_QPS_RTS;
	qp->mtu = 1024;
	qp->sq.mask = SLOTS - 1;
	qp->sq.log2 = order_base_2(sizeof(struct roe_swqe));
	qp->sq.slots = kunit_kzalloc(test, SLOTS << qp->sq.log2, GFP_KERNEL);
	KUNIT_ASSERT_NOT_NULL(test, qp->sq.slots);
	roe_hold_reset(qp);
	*user = (struct poster){ .qp = qp, .now = NSEC_PER_SEC, .think = think, .cost = cost };
	return user;
}

static bool held(const struct poster *user)
{
	return user->qp->req.hold.until;
}

static void send_all(struct poster *user)
{
	user->qp->sq.next = user->qp->sq.prod;
	user->sends++;
}

/* What is kept back leaves by the timer before the user's next action at @at. */
static void pass(struct poster *user, u64 at)
{
	u64 until = user->qp->req.hold.until;
	struct roe_ctx ctx = { .now = until + user->late };

	if (until && until <= at) {
		user->delay += until - user->now;
		user->now = ctx.now + user->cost;
		roe_hold_expired(user->qp, &ctx);
		user->expired++;
		send_all(user);
	}
	user->now = max(user->now, at);
}

static void post_op(struct poster *user, u8 op, u32 len, int flags)
{
	struct roe_sq *sq = &user->qp->sq;
	struct roe_swqe *wqe = roe_sq_slot(sq, sq->prod);
	struct roe_ctx ctx = {};

	pass(user, user->now + user->think);
	ctx.now = user->now;
	wqe->opcode = op;
	wqe->length = len;
	wqe->flags = flags;
	sq->prod++;
	user->posts++;
	roe_hold_doorbell(user->qp, &ctx, sq->prod - 1);
	if (held(user))
		return;
	send_all(user);
	user->now += user->cost;
	if (ctx.timed)
		roe_hold_done(user->qp, ctx.now, user->now);
}

static void post(struct poster *user)
{
	post_op(user, IB_WR_RDMA_WRITE, 64, IB_SEND_SIGNALED);
}

/* Until everything has left: what a user does who waits for completions. */
static void wait_all(struct poster *user)
{
	if (held(user))
		pass(user, user->qp->req.hold.until);
}

static void burst(struct poster *user, unsigned int n)
{
	while (n--)
		post(user);
	wait_all(user);
}

/* Less than one of a hundred messages is delayed at all, whatever the machine. */
static void hold_sync(struct kunit *test)
{
	static const u32 scale[] = { 1, 30, 1000 };
	unsigned int i, k;

	for (k = 0; k < ARRAY_SIZE(scale); k++) {
		struct poster *user = new_poster(test, THINK * scale[k], COST * scale[k]);

		for (i = 0; i < 20000; i++)
			burst(user, 1);
		KUNIT_EXPECT_EQ(test, user->sends, user->posts);
		KUNIT_EXPECT_GT(test, user->expired, 0);
		KUNIT_EXPECT_LT(test, user->expired, user->posts / 200);
		/* ... and by no more than a few doorbells */
		KUNIT_EXPECT_LE(test, user->delay / user->expired,
				max_t(u64, 8000, 8ull * user->think));
	}
}

/* Not where all timers are late either. */
static void hold_late(struct kunit *test)
{
	struct poster *user = new_poster(test, THINK, COST);
	unsigned int i;

	user->late = 20 * COST;
	for (i = 0; i < 4000; i++)
		burst(user, 1);
	KUNIT_EXPECT_LT(test, user->expired, user->posts / 100);
	for (i = 0; i < 4000; i++)
		post(user);
	i = user->expired;
	wait_all(user);
	for (user->posts = 0; user->posts < 4000;)
		burst(user, 1);
	KUNIT_EXPECT_LT(test, user->expired - i, user->posts / 100);
}

/* A machine that stands still now and then stops no stream. */
static void hold_stalls(struct kunit *test)
{
	struct poster *user = new_poster(test, THINK, COST);
	unsigned int i;

	user->late = 20 * COST;
	for (i = 0; i < 20000; i++) {
		post(user);
		if (i % 300 == 299)
			wait_all(user);
	}
	wait_all(user);
	KUNIT_EXPECT_LT(test, user->sends, user->posts / 16);
}

static void hold_stream(struct kunit *test)
{
	struct poster *user = new_poster(test, THINK, COST);
	unsigned int i;

	for (i = 0; i < 10000; i++)
		post(user);
	wait_all(user);
	KUNIT_EXPECT_LT(test, user->sends, user->posts / 24);
	KUNIT_EXPECT_LE(test, user->expired, 1);
	KUNIT_EXPECT_EQ(test, user->qp->sq.next, user->posts);
}

/* Bursts of one size are sent as such. */
static void hold_bursts(struct kunit *test)
{
	static const unsigned int sizes[] = {
		2, 3, 5, 7, 10, 24, 31, 32, 33, 64, 100, 127, 128, 200
	};
	unsigned int i, k;

	for (k = 0; k < ARRAY_SIZE(sizes); k++) {
		struct poster *user = new_poster(test, THINK, COST);

		for (i = 0; i < 20000 / sizes[k]; i++)
			burst(user, sizes[k]);
		KUNIT_EXPECT_LT_MSG(test, user->expired, user->posts / 100, "size %u", sizes[k]);
		KUNIT_EXPECT_LT_MSG(test, user->sends, user->posts * 2 / 3, "size %u", sizes[k]);
	}
}

/* What cannot be learned is left alone. */
static void hold_irregular(struct kunit *test)
{
	struct poster *user = new_poster(test, THINK, COST);
	struct rnd_state rnd;
	unsigned int i;

	prandom_seed_state(&rnd, 7);
	for (i = 0; i < 10000; i++)
		burst(user, 1 + prandom_u32_state(&rnd) % 8);
	KUNIT_EXPECT_LT(test, user->expired, user->posts / 60);
}

/* Nothing is gained from who posts at leisure. */
static void hold_leisure(struct kunit *test)
{
	struct poster *user = new_poster(test, 2 * COST, COST);
	unsigned int i;

	for (i = 0; i < 10000; i++)
		post(user);
	KUNIT_EXPECT_EQ(test, user->sends, user->posts);
	KUNIT_EXPECT_EQ(test, user->expired, 0);
}

/* Users change: first the one, then the other, and back. */
static void hold_changes(struct kunit *test)
{
	struct poster *user = new_poster(test, THINK, COST);
	unsigned int i, round, sends, expired;

	for (round = 0; round < 4; round++) {
		expired = user->expired;
		for (i = 0; i < 4000; i++)
			burst(user, 1);
		KUNIT_EXPECT_LT(test, user->expired - expired, 4000 / 100);
		sends = user->sends;
		for (i = 0; i < 4000; i++)
			post(user);
		KUNIT_EXPECT_LT(test, user->sends - sends, 1000);
		wait_all(user);
	}
}

static struct poster *new_stream(struct kunit *test)
{
	struct poster *user = new_poster(test, THINK, COST);
	unsigned int i;

	for (i = 0; i < 1000 || !held(user); i++)
		post(user);
	return user;
}

/* Requests that must not wait take with them what does. */
static void hold_urgent(struct kunit *test)
{
	struct poster *user;

	user = new_stream(test);
	post_op(user, IB_WR_SEND, 64, IB_SEND_SOLICITED);
	KUNIT_EXPECT_FALSE(test, held(user));
	user = new_stream(test);
	post_op(user, IB_WR_RDMA_READ, 64, 0);
	KUNIT_EXPECT_FALSE(test, held(user));
	user = new_stream(test);
	post_op(user, IB_WR_RDMA_WRITE, 1025, 0);
	KUNIT_EXPECT_FALSE(test, held(user));
	user = new_stream(test);
	post_op(user, IB_WR_RDMA_WRITE, 1024, 0);
	KUNIT_EXPECT_TRUE(test, held(user));
}

/* Doorbells without a message change nothing. */
static void hold_empty(struct kunit *test)
{
	struct poster *user = new_poster(test, THINK, COST);
	unsigned int i;

	for (i = 0; i < 10000; i++) {
		struct roe_ctx ctx = { .now = user->now };

		post(user);
		roe_hold_doorbell(user->qp, &ctx, user->qp->sq.prod);
		KUNIT_EXPECT_GE(test, user->qp->req.hold.run, 1);
	}
	KUNIT_EXPECT_LT(test, user->sends, user->posts / 20);
}

/* However long a train may be, the timer is not far: 32 times what sending one costs. */
static void hold_bounded(struct kunit *test)
{
	struct poster *user = new_stream(test);
	struct roe_hold *hold = &user->qp->req.hold;

	KUNIT_EXPECT_LE(test, hold->until, user->now + 32 * COST);
	KUNIT_EXPECT_EQ(test, roe_timer_next(user->qp), hold->until);
	roe_hold_release(user->qp);
	KUNIT_EXPECT_EQ(test, roe_timer_next(user->qp), 0);
}

/* A clock that jumps, users whose costs are absurd: no arithmetic goes wrong. */
static void hold_clock(struct kunit *test)
{
	static const u64 took[] = { 0, 1, U32_MAX, U64_MAX };
	struct poster *user = new_stream(test);
	struct roe_hold *hold = &user->qp->req.hold;
	unsigned int i, k;

	for (i = 0; i < ARRAY_SIZE(took); i++)
		for (k = 0; k < 100; k++) {
			struct roe_ctx ctx = { .now = k * took[i] };

			user->qp->sq.prod++;
			roe_hold_doorbell(user->qp, &ctx, user->qp->sq.prod - 1);
			KUNIT_EXPECT_LE(test, hold->until, ctx.now + 32ull * NSEC_PER_SEC);
			if (!hold->until)
				user->qp->sq.next = user->qp->sq.prod;
			roe_hold_done(user->qp, ctx.now, ctx.now + took[i]);
			KUNIT_EXPECT_LE(test, hold->cost, NSEC_PER_SEC / 4);
			KUNIT_EXPECT_LE(test, hold->think, NSEC_PER_SEC);
		}
}

/* --- with packets ------------------------------------------------------------ */

static int setup(struct kunit *test)
{
	test->priv = sim_create(test);
	return test->priv ? 0 : -ENOMEM;
}

static void teardown(struct kunit *test)
{
	if (test->priv)
		sim_destroy(test->priv);
}

/* The QP of side 0 has learned that its user streams. */
static struct roe_hold *learn(struct sim *sim, u8 run)
{
	struct roe_hold *hold = &sim->side[0].qp->req.hold;

	*hold = (struct roe_hold){ .run = run, .wait = 100, .cost = COST, .end = sim->now };
	return hold;
}

static void doorbell(struct sim *sim, u32 from)
{
	struct roe_qp *qp = sim->side[0].qp;
	struct roe_ctx ctx = { .now = sim->now };

	local_bh_disable();
	rcu_read_lock();
	spin_lock(&qp->lock);
	roe_hold_doorbell(qp, &ctx, from);
	spin_unlock(&qp->lock);
	rcu_read_unlock();
	local_bh_enable();
}

static void post_held(struct sim *sim, unsigned int n, enum ib_wr_opcode op)
{
	while (n--) {
		u32 from = sim->side[0].qp->sq.prod;

		if (op == IB_WR_SEND)
			sim_recv(sim, 1, 256);
		sim_post(sim, 0, op, 64, IB_SEND_SIGNALED);
		doorbell(sim, from);
	}
}

static void expect_good(struct kunit *test, struct sim *sim)
{
	const char *wrong;

	KUNIT_EXPECT_TRUE(test, sim_run(sim));
	wrong = sim_check(sim);
	KUNIT_EXPECT_TRUE_MSG(test, !wrong, "%s", wrong ?: "");
}

/* Nothing leaves before its time; then all of it, acknowledged at once. */
static void held_train(struct kunit *test)
{
	struct sim *sim = test->priv;

	learn(sim, 8);
	post_held(sim, 7, IB_WR_SEND);
	KUNIT_EXPECT_FALSE(test, sim_emit(sim, 0));
	KUNIT_EXPECT_EQ(test, sim->sent[0], 0);
	post_held(sim, 1, IB_WR_SEND);
	KUNIT_EXPECT_TRUE(test, sim_emit(sim, 0));
	KUNIT_EXPECT_EQ(test, sim->sent[0], 8);
	expect_good(test, sim);
}

static void held_timer(struct kunit *test)
{
	struct sim *sim = test->priv;
	u64 begin = sim->now;

	learn(sim, 8);
	post_held(sim, 5, IB_WR_RDMA_WRITE);
	KUNIT_EXPECT_FALSE(test, sim_emit(sim, 0));
	expect_good(test, sim);
	KUNIT_EXPECT_EQ(test, sim->sent[0], 5);
	KUNIT_EXPECT_GT(test, sim->now, begin);
	KUNIT_EXPECT_LT(test, sim->now, begin + NSEC_PER_MSEC);
}

/* Answers to the peer do not wait, and do not take along what does. */
static void held_answers(struct kunit *test)
{
	struct sim *sim = test->priv;
	unsigned int acks;

	learn(sim, 8);
	post_held(sim, 3, IB_WR_RDMA_WRITE);
	sim_post(sim, 1, IB_WR_RDMA_WRITE, 100, IB_SEND_SIGNALED);
	sim_post(sim, 1, IB_WR_RDMA_READ, 100, IB_SEND_SIGNALED);
	sim_emit(sim, 1);
	while (!list_empty(&sim->wire)) {
		struct sim_pkt *pkt = sim_take(sim);

		sim_receive(sim, pkt->to, &pkt->rx);
		sim_put(sim, pkt);
	}
	sim_emit(sim, 0);
	acks = sim->sent[0];
	KUNIT_EXPECT_GE(test, acks, 1);
	KUNIT_EXPECT_LE(test, acks, 2);
	KUNIT_EXPECT_EQ(test, sim->side[0].qp->sq.next, 0);
	expect_good(test, sim);
}

/* What is lost is sent again although later messages wait. */
static void held_loss(struct kunit *test)
{
	struct sim *sim = test->priv;
	unsigned int round;

	for (round = 0; round < 300; round++) {
		struct roe_hold *hold;
		unsigned int i;

		sim_reset(sim, 0xfffff0, round);
		prandom_seed_state(&sim->rnd, round);
		sim->loss = 20;
		sim->dup = 10;
		sim->delay = 10;
		hold = learn(sim, 1 + round % 16);
		for (i = 0; i < 30; i++) {
			hold->end = sim->now;
			post_held(sim, 1, i % 3 ? IB_WR_RDMA_WRITE : IB_WR_SEND);
			sim_emit(sim, 0);
			if (i % 4 == 3)
				sim_timer(sim, 0);
			sim->now += 700;
		}
		expect_good(test, sim);
	}
}

/* Flushed in order by the way into ERR, and not sent by any timer. */
static void held_error(struct kunit *test)
{
	struct sim *sim = test->priv;
	struct roe_qp *qp = sim->side[0].qp;
	struct roe_ctx ctx = { .now = sim->now };
	struct ib_wc wc;
	unsigned int i;

	learn(sim, 8);
	post_held(sim, 4, IB_WR_RDMA_WRITE);
	local_bh_disable();
	spin_lock(&qp->lock);
	roe_complete_error(qp, &ctx);
	spin_unlock(&qp->lock);
	local_bh_enable();
	KUNIT_EXPECT_EQ(test, roe_timer_next(qp), 0);
	KUNIT_EXPECT_FALSE(test, sim_emit(sim, 0));
	for (i = 0; i < 4; i++) {
		KUNIT_ASSERT_EQ(test, roe_cq_poll(&sim->side[0].scq.ib, 1, &wc), 1);
		KUNIT_EXPECT_EQ(test, wc.wr_id, i);
		KUNIT_EXPECT_EQ(test, wc.status, IB_WC_WR_FLUSH_ERR);
	}
	KUNIT_EXPECT_EQ(test, roe_cq_poll(&sim->side[0].scq.ib, 1, &wc), 0);
}

/* SQD starts nothing new; back in RTS it leaves. */
static void held_sqd(struct kunit *test)
{
	struct sim *sim = test->priv;
	struct roe_qp *qp = sim->side[0].qp;

	learn(sim, 8);
	post_held(sim, 4, IB_WR_RDMA_WRITE);
	qp->state = IB_QPS_SQD;
	roe_hold_release(qp);
	KUNIT_EXPECT_FALSE(test, sim_emit(sim, 0));
	qp->state = IB_QPS_RTS;
	expect_good(test, sim);
	KUNIT_EXPECT_EQ(test, sim->sent[0], 4);
}

/* One AckReq for what leaves together, so that any peer answers once. */
static void held_ackreq(struct kunit *test)
{
	struct sim *sim = test->priv;
	unsigned int n = 0, asked = 0;
	struct sim_pkt *pkt;

	learn(sim, 16);
	post_held(sim, 16, IB_WR_RDMA_WRITE);
	sim_emit(sim, 0);
	while ((pkt = sim_take(sim))) {
		n++;
		asked += pkt->rx.p.ackreq;
		KUNIT_EXPECT_EQ(test, pkt->rx.p.ackreq, n == 16);
		sim_receive(sim, 1, &pkt->rx);
		sim_put(sim, pkt);
	}
	KUNIT_EXPECT_EQ(test, n, 16);
	KUNIT_EXPECT_EQ(test, asked, 1);
	expect_good(test, sim);
	KUNIT_EXPECT_EQ(test, sim->sent[1], 1);
}

static struct kunit_case hold_cases[] = {
	KUNIT_CASE(hold_sync),
	KUNIT_CASE(hold_late),
	KUNIT_CASE(hold_stalls),
	KUNIT_CASE(hold_stream),
	KUNIT_CASE(hold_bursts),
	KUNIT_CASE(hold_irregular),
	KUNIT_CASE(hold_leisure),
	KUNIT_CASE(hold_changes),
	KUNIT_CASE(hold_urgent),
	KUNIT_CASE(hold_empty),
	KUNIT_CASE(hold_bounded),
	KUNIT_CASE(hold_clock),
	{}
};

static struct kunit_suite hold_suite = {
	.name = "roe_hold",
	.test_cases = hold_cases,
};

static struct kunit_case held_cases[] = {
	KUNIT_CASE(held_train),
	KUNIT_CASE(held_timer),
	KUNIT_CASE(held_answers),
	KUNIT_CASE(held_loss),
	KUNIT_CASE(held_error),
	KUNIT_CASE(held_sqd),
	KUNIT_CASE(held_ackreq),
	{}
};

static struct kunit_suite held_suite = {
	.name = "roe_held",
	.init = setup,
	.exit = teardown,
	.test_cases = held_cases,
};

kunit_test_suites(&hold_suite, &held_suite);
