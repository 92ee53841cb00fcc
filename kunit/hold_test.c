// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Which messages wait for company, and for how long.
 */
#include "sim.h"

#define COST	(20 * NSEC_PER_USEC)

/* Does a doorbell of @qp come behind one of @last that was @think ns before? */
static bool behind(const struct roe_qp *last, const struct roe_qp *qp, u32 cost, u32 think)
{
	struct roe_pace pace = { .cost = cost };

	roe_pace_doorbell(&pace, last, NSEC_PER_SEC);
	return roe_pace_doorbell(&pace, qp, NSEC_PER_SEC + think);
}

static void hold_pace(struct kunit *test)
{
	struct roe_qp *qps = kunit_kcalloc(test, 2, sizeof(*qps), GFP_KERNEL);
	struct roe_pace pace = {};

	KUNIT_ASSERT_NOT_NULL(test, qps);
	KUNIT_EXPECT_TRUE(test, behind(&qps[0], &qps[0], COST, COST / 2));
	/* one that thinks for longer */
	KUNIT_EXPECT_FALSE(test, behind(&qps[0], &qps[0], COST, COST));
	KUNIT_EXPECT_FALSE(test, behind(&qps[0], &qps[1], COST, 0));
	/* at first nothing is known of the cost */
	KUNIT_EXPECT_FALSE(test, behind(&qps[0], &qps[0], 0, 1));
	KUNIT_EXPECT_FALSE(test, roe_pace_doorbell(&pace, &qps[0], NSEC_PER_SEC));
}

static void hold_cost(struct kunit *test)
{
	struct roe_pace pace = {};
	u64 now = NSEC_PER_SEC;
	int i;

	for (i = 0; i < 100; i++)
		roe_pace_sent(&pace, now, now + COST);
	KUNIT_EXPECT_GT(test, pace.cost, COST * 9 / 10);
	KUNIT_EXPECT_LE(test, pace.cost, COST);
	/* a process that was not running for a while */
	roe_pace_sent(&pace, now, now + NSEC_PER_SEC);
	KUNIT_EXPECT_LE(test, pace.cost, COST + NSEC_PER_MSEC / 8);
}

/* A QP with one small message more in its SQ. */
struct holder {
	struct roe_qp		*qp;
	struct roe_ctx		ctx;
	struct roe_pace		pace;
};

#define SLOTS	64
#define PEERS	32

static void holder_init(struct kunit *test, struct holder *user)
{
	struct roe_qp *qp = kunit_kzalloc(test, sizeof(*qp), GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, qp);
	qp->sq.log2 = ilog2(roundup_pow_of_two(sizeof(struct roe_swqe)));
	qp->sq.mask = SLOTS - 1;
	qp->sq.slots = kunit_kzalloc(test, SLOTS << qp->sq.log2, GFP_KERNEL);
	KUNIT_ASSERT_NOT_NULL(test, qp->sq.slots);
	qp->type = IB_QPT_RC;
	qp->state = IB_QPS_RTS;
	*user = (struct holder){ .qp = qp, .ctx.now = NSEC_PER_SEC };
	roe_hold_reset(qp);
}

static bool message(struct holder *user, u8 opcode, u8 flags, bool behind)
{
	struct roe_swqe *wqe = roe_sq_slot(&user->qp->sq, user->qp->sq.prod++);

	wqe->opcode = opcode;
	wqe->flags = flags;
	user->pace.end = user->ctx.now;
	if (roe_hold_message(user->qp, &user->ctx, &user->pace, behind))
		return true;
	user->qp->sq.next = user->qp->sq.prod;
	return false;
}

/* One unsignaled SEND behind another: does it wait? */
static bool send_waits(struct holder *user)
{
	return message(user, IB_WR_SEND, 0, true);
}

/* @n doorbells in a row that have nothing to wait for. */
static void stream(struct holder *user, u32 n)
{
	while (n--)
		message(user, IB_WR_SEND, IB_SEND_SIGNALED, true);
}

/* What waits is sent by the clock. */
static void expire(struct holder *user)
{
	user->ctx.now = user->qp->hold.until;
	roe_timer_run(user->qp, &user->ctx);
	user->qp->sq.next = user->qp->sq.prod;
}

/* Pauses after every @n doorbells: how many until one waits; 0: none does. */
static u32 with_pauses(struct kunit *test, u32 n)
{
	struct roe_pace pace = { .cost = COST };
	struct holder user;
	u32 i;

	holder_init(test, &user);
	for (i = 1; i <= 1000; i++) {
		user.ctx.now += i % n ? COST / 10 : 10 * COST;
		if (message(&user, IB_WR_SEND, 0,
			    roe_pace_doorbell(&pace, user.qp, user.ctx.now)))
			return i;
	}
	return 0;
}

static void hold_pauses(struct kunit *test)
{
	KUNIT_EXPECT_EQ(test, with_pauses(test, 1), 0);
	KUNIT_EXPECT_EQ(test, with_pauses(test, 5), 0);
	KUNIT_EXPECT_GT(test, with_pauses(test, 10), 17);
	KUNIT_EXPECT_EQ(test, with_pauses(test, 100), 17);
}

/* A NAK or a response that is due does not wait, nor does what is posted beside it. */
static void hold_owes(struct kunit *test)
{
	struct holder user;

	holder_init(test, &user);
	stream(&user, 1000);
	user.qp->resp.ack_due = true;
	KUNIT_EXPECT_FALSE(test, send_waits(&user));
	/* one that waits for the process itself (echo.c) */
	user.qp->resp.echo.until = user.ctx.now + NSEC_PER_MSEC;
	KUNIT_EXPECT_TRUE(test, send_waits(&user));
	user.qp->resp.rsrc_pending = 1;
	KUNIT_EXPECT_FALSE(test, send_waits(&user));
}

/* After a pause or one of another QP it is alone, whatever was before. */
static void hold_alone(struct kunit *test)
{
	struct holder user;
	u32 i;

	holder_init(test, &user);
	stream(&user, 1000);
	for (i = 0; i < 100; i++)
		KUNIT_EXPECT_FALSE(test, message(&user, IB_WR_SEND, 0, false));
	KUNIT_EXPECT_EQ(test, user.qp->hold.until, 0);
	KUNIT_EXPECT_TRUE(test, send_waits(&user));
	/* what waited does not wait for the next pause */
	KUNIT_EXPECT_FALSE(test, message(&user, IB_WR_SEND, 0, false));
	KUNIT_EXPECT_EQ(test, user.qp->hold.until, 0);
}

static void hold_unsignaled(struct kunit *test)
{
	static const u8 other[] = {
		IB_WR_ATOMIC_CMP_AND_SWP, IB_WR_ATOMIC_FETCH_AND_ADD,
		IB_WR_SEND_WITH_INV, IB_WR_LOCAL_INV,
	};
	struct holder user;
	u64 until;
	int i;

	holder_init(test, &user);
	for (i = 1; i < 16; i++)
		KUNIT_EXPECT_FALSE(test, send_waits(&user));
	KUNIT_EXPECT_TRUE(test, send_waits(&user));
	until = user.qp->hold.until;
	KUNIT_EXPECT_EQ(test, until, user.ctx.now + NSEC_PER_MSEC);
	/* the first one's clock counts */
	user.ctx.now += 1000;
	KUNIT_EXPECT_TRUE(test, message(&user, IB_WR_RDMA_WRITE, 0, true));
	KUNIT_EXPECT_TRUE(test, message(&user, IB_WR_RDMA_READ, 0, true));
	KUNIT_EXPECT_EQ(test, roe_timer_next(user.qp), until);
	KUNIT_EXPECT_FALSE(test, message(&user, IB_WR_RDMA_WRITE, IB_SEND_SIGNALED, true));
	KUNIT_EXPECT_EQ(test, user.qp->hold.until, 0);
	KUNIT_EXPECT_FALSE(test, message(&user, IB_WR_SEND, IB_SEND_SOLICITED, true));
	for (i = 0; i < ARRAY_SIZE(other); i++)
		KUNIT_EXPECT_FALSE(test, message(&user, other[i], 0, true));
	user.qp->sq_sig_all = true;
	KUNIT_EXPECT_FALSE(test, send_waits(&user));
	user.qp->sq_sig_all = false;
	user.qp->state = IB_QPS_SQD;
	KUNIT_EXPECT_FALSE(test, send_waits(&user));
}

/* One doorbell for a list: what is asked for in the middle of it is not kept waiting. */
static void hold_list(struct kunit *test)
{
	struct holder user;
	struct roe_sq *sq;

	holder_init(test, &user);
	stream(&user, 16);
	sq = &user.qp->sq;
	KUNIT_EXPECT_TRUE(test, send_waits(&user));
	roe_sq_slot(sq, sq->prod)->opcode = IB_WR_SEND;
	roe_sq_slot(sq, sq->prod)->flags = IB_SEND_SIGNALED;
	sq->prod++;
	KUNIT_EXPECT_FALSE(test, send_waits(&user));
	roe_sq_slot(sq, sq->prod++)->opcode = IB_WR_ATOMIC_CMP_AND_SWP;
	KUNIT_EXPECT_FALSE(test, send_waits(&user));
	roe_sq_slot(sq, sq->prod++)->opcode = IB_WR_SEND;
	KUNIT_EXPECT_TRUE(test, send_waits(&user));
	/* and one that fails is not either */
	roe_sq_slot(sq, sq->prod)->status = IB_WC_LOC_QP_OP_ERR;
	KUNIT_EXPECT_FALSE(test, send_waits(&user));
}

static void hold_trains(struct kunit *test)
{
	struct holder user;
	u32 i, n;

	holder_init(test, &user);
	stream(&user, 16);
	for (i = 0; i < 10; i++) {
		for (n = 1; send_waits(&user); n++)
			;
		KUNIT_EXPECT_EQ(test, n, 32);
	}
}

/* How many doorbells in a row are a stream? Ends with a train in vain. */
static u32 needed(struct holder *user)
{
	u32 n = 1;

	while (n <= 20000 && !send_waits(user))
		n++;
	if (user->qp->hold.until)
		expire(user);
	return n;
}

/* In vain: the count begins anew, to twice as many; in the end nothing waits. */
static void hold_in_vain(struct kunit *test)
{
	struct holder user;
	u32 need;

	holder_init(test, &user);
	stream(&user, 20000);
	KUNIT_ASSERT_TRUE(test, send_waits(&user));
	expire(&user);
	KUNIT_EXPECT_EQ(test, user.qp->hold.until, 0);
	for (need = 32; need < 16384; need *= 2)
		KUNIT_ASSERT_EQ(test, needed(&user), need);
	KUNIT_EXPECT_GT(test, needed(&user), 20000);
	/* another attempt a second after the last one, and only one */
	user.ctx.now += NSEC_PER_SEC - NSEC_PER_MSEC;
	KUNIT_EXPECT_FALSE(test, send_waits(&user));
	user.ctx.now += 2 * NSEC_PER_MSEC;
	KUNIT_EXPECT_TRUE(test, send_waits(&user));
	expire(&user);
	KUNIT_EXPECT_GT(test, needed(&user), 20000);
}

/* Not in vain: the process had no time to wait, it went on with other QPs. */
static void hold_busy(struct kunit *test)
{
	struct holder user;
	u32 i;

	holder_init(test, &user);
	stream(&user, 100);
	for (i = 0; i < 100; i++) {
		KUNIT_ASSERT_TRUE(test, send_waits(&user));
		user.pace.end = user.qp->hold.until - NSEC_PER_MSEC / 8;
		expire(&user);
		KUNIT_EXPECT_EQ(test, user.qp->hold.until, 0);
	}
	KUNIT_EXPECT_EQ(test, user.qp->hold.need, 16);
}

/* After many good trains half as many are a stream. */
static void hold_good(struct kunit *test)
{
	struct holder user;
	u32 i;

	holder_init(test, &user);
	stream(&user, 16);
	while (user.qp->hold.need < 1024)
		needed(&user);
	stream(&user, 1024);
	for (i = 0; i < 64; i++) {
		KUNIT_EXPECT_EQ(test, user.qp->hold.need, 1024);
		KUNIT_ASSERT_TRUE(test, send_waits(&user));
		stream(&user, 1);
	}
	KUNIT_EXPECT_EQ(test, user.qp->hold.need, 512);
}

/* Who sends one message to each of many peers and waits for their answers never waits. */
static void hold_fan(struct kunit *test)
{
	struct holder *user = kunit_kcalloc(test, PEERS, sizeof(*user), GFP_KERNEL);
	struct roe_pace pace = { .cost = COST };
	u64 now = NSEC_PER_SEC;
	bool behind;
	u32 i;

	KUNIT_ASSERT_NOT_NULL(test, user);
	for (i = 0; i < PEERS; i++)
		holder_init(test, &user[i]);
	for (i = 0; i < 100 * PEERS; i++) {
		struct holder *to = &user[i % PEERS];

		now += i % PEERS ? COST / 10 : 10 * COST;
		to->ctx.now = now;
		behind = roe_pace_doorbell(&pace, to->qp, now);
		KUNIT_ASSERT_FALSE(test, message(to, IB_WR_SEND, 0, behind));
	}
}

static struct kunit_case hold_cases[] = {
	KUNIT_CASE(hold_pace),
	KUNIT_CASE(hold_pauses),
	KUNIT_CASE(hold_cost),
	KUNIT_CASE(hold_owes),
	KUNIT_CASE(hold_alone),
	KUNIT_CASE(hold_unsignaled),
	KUNIT_CASE(hold_list),
	KUNIT_CASE(hold_trains),
	KUNIT_CASE(hold_in_vain),
	KUNIT_CASE(hold_busy),
	KUNIT_CASE(hold_good),
	KUNIT_CASE(hold_fan),
	{}
};

static struct kunit_suite hold_suite = {
	.name = "roe_hold",
	.test_cases = hold_cases,
};

kunit_test_suites(&hold_suite);
