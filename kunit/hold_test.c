// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Which messages wait for company, and for how long.
 */
#include "sim.h"

#define COST	(20 * NSEC_PER_USEC)

/* Doorbells with pauses of @think ns until @run of them are a stream; 0: never. */
static u32 doorbells(struct roe_pace *pace, u32 think, u32 run)
{
	u64 now = NSEC_PER_SEC;
	u32 n;

	pace->end = now;
	for (n = 1; n <= 10000; n++) {
		now += think;
		if (roe_pace_doorbell(pace, now) >= run)
			return n;
	}
	return 0;
}

static void hold_pace(struct kunit *test)
{
	struct roe_pace pace = { .cost = COST };

	KUNIT_EXPECT_EQ(test, doorbells(&pace, COST / 2, 16), 16);
	/* one that thinks for longer */
	pace = (struct roe_pace){ .cost = COST };
	KUNIT_EXPECT_EQ(test, doorbells(&pace, COST, 1), 0);
	/* at first nothing is known of the cost */
	pace = (struct roe_pace){};
	KUNIT_EXPECT_EQ(test, doorbells(&pace, 1, 1), 0);
}

/* Pauses after every @n doorbells: how many until 16 are a stream; 0: never. */
static u32 with_pauses(u32 n)
{
	struct roe_pace pace = { .cost = COST, .end = NSEC_PER_SEC };
	u64 now = NSEC_PER_SEC;
	u32 i;

	for (i = 1; i <= 1000; i++) {
		now += i % n ? COST / 10 : 10 * COST;
		if (roe_pace_doorbell(&pace, now) >= 16)
			return i;
	}
	return 0;
}

static void hold_pauses(struct kunit *test)
{
	KUNIT_EXPECT_EQ(test, with_pauses(1), 0);
	KUNIT_EXPECT_EQ(test, with_pauses(5), 0);
	KUNIT_EXPECT_GT(test, with_pauses(10), 16);
	KUNIT_EXPECT_EQ(test, with_pauses(100), 16);
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
};

#define SLOTS	64

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

static bool message(struct holder *user, u8 opcode, u8 flags, u32 run)
{
	struct roe_swqe *wqe = roe_sq_slot(&user->qp->sq, user->qp->sq.prod++);

	wqe->opcode = opcode;
	wqe->flags = flags;
	if (roe_hold_message(user->qp, &user->ctx, run))
		return true;
	user->qp->sq.next = user->qp->sq.prod;
	return false;
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
	KUNIT_EXPECT_FALSE(test, message(&user, IB_WR_SEND, 0, 15));
	KUNIT_EXPECT_TRUE(test, message(&user, IB_WR_SEND, 0, 16));
	until = user.qp->hold.until;
	KUNIT_EXPECT_EQ(test, until, user.ctx.now + NSEC_PER_MSEC);
	/* the first one's clock counts */
	user.ctx.now += 1000;
	KUNIT_EXPECT_TRUE(test, message(&user, IB_WR_RDMA_WRITE, 0, 17));
	KUNIT_EXPECT_TRUE(test, message(&user, IB_WR_RDMA_READ, 0, 17));
	KUNIT_EXPECT_EQ(test, roe_timer_next(user.qp), until);
	KUNIT_EXPECT_FALSE(test, message(&user, IB_WR_RDMA_WRITE, IB_SEND_SIGNALED, 18));
	KUNIT_EXPECT_EQ(test, user.qp->hold.until, 0);
	KUNIT_EXPECT_FALSE(test, message(&user, IB_WR_SEND, IB_SEND_SOLICITED, 18));
	for (i = 0; i < ARRAY_SIZE(other); i++)
		KUNIT_EXPECT_FALSE(test, message(&user, other[i], 0, 18));
	user.qp->sq_sig_all = true;
	KUNIT_EXPECT_FALSE(test, message(&user, IB_WR_SEND, 0, 18));
	user.qp->sq_sig_all = false;
	user.qp->state = IB_QPS_SQD;
	KUNIT_EXPECT_FALSE(test, message(&user, IB_WR_SEND, 0, 18));
}

/* One doorbell for a list: what is asked for in the middle of it is not kept waiting. */
static void hold_list(struct kunit *test)
{
	struct holder user;
	struct roe_sq *sq;

	holder_init(test, &user);
	sq = &user.qp->sq;
	KUNIT_EXPECT_TRUE(test, message(&user, IB_WR_SEND, 0, 16));
	roe_sq_slot(sq, sq->prod)->opcode = IB_WR_SEND;
	roe_sq_slot(sq, sq->prod)->flags = IB_SEND_SIGNALED;
	sq->prod++;
	KUNIT_EXPECT_FALSE(test, message(&user, IB_WR_SEND, 0, 17));
	roe_sq_slot(sq, sq->prod++)->opcode = IB_WR_ATOMIC_CMP_AND_SWP;
	KUNIT_EXPECT_FALSE(test, message(&user, IB_WR_SEND, 0, 18));
	roe_sq_slot(sq, sq->prod++)->opcode = IB_WR_SEND;
	KUNIT_EXPECT_TRUE(test, message(&user, IB_WR_SEND, 0, 19));
	/* and one that fails is not either */
	roe_sq_slot(sq, sq->prod)->status = IB_WC_LOC_QP_OP_ERR;
	KUNIT_EXPECT_FALSE(test, message(&user, IB_WR_SEND, 0, 20));
}

static void hold_trains(struct kunit *test)
{
	struct holder user;
	u32 i, n;

	holder_init(test, &user);
	for (i = 0; i < 10; i++) {
		for (n = 1; message(&user, IB_WR_SEND, 0, 100); n++)
			;
		KUNIT_EXPECT_EQ(test, n, 32);
	}
}

/* In vain: twice as many are a stream; after many good trains half as many. */
static void hold_in_vain(struct kunit *test)
{
	struct holder user;
	u32 need, i;

	holder_init(test, &user);
	for (need = 16; need < 16384; need *= 2) {
		KUNIT_ASSERT_FALSE(test, message(&user, IB_WR_SEND, 0, need - 1));
		KUNIT_ASSERT_TRUE(test, message(&user, IB_WR_SEND, 0, need));
		user.ctx.now = user.qp->hold.until;
		roe_timer_run(user.qp, &user.ctx);
		KUNIT_EXPECT_EQ(test, user.qp->hold.until, 0);
		user.qp->sq.next = user.qp->sq.prod;
	}
	for (i = 0; i < 64; i++) {
		KUNIT_ASSERT_FALSE(test, message(&user, IB_WR_SEND, 0, need - 1));
		KUNIT_ASSERT_TRUE(test, message(&user, IB_WR_SEND, 0, need));
		message(&user, IB_WR_SEND, IB_SEND_SIGNALED, need);
	}
	KUNIT_EXPECT_TRUE(test, message(&user, IB_WR_SEND, 0, need / 2));
}

static struct kunit_case hold_cases[] = {
	KUNIT_CASE(hold_pace),
	KUNIT_CASE(hold_pauses),
	KUNIT_CASE(hold_cost),
	KUNIT_CASE(hold_unsignaled),
	KUNIT_CASE(hold_list),
	KUNIT_CASE(hold_trains),
	KUNIT_CASE(hold_in_vain),
	{}
};

static struct kunit_suite hold_suite = {
	.name = "roe_hold",
	.test_cases = hold_cases,
};

kunit_test_suites(&hold_suite);
