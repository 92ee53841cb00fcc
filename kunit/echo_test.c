// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Which ACKs wait for the answer of the process, and for how long.
 */
#include "sim.h"

#define TURN	3000		/* ns from a message to its answer */
#define GAP	10000		/* from the answer to the next message */

struct echoer {
	struct roe_qp	*qp;
	struct roe_ctx	ctx;
};

static void user_init(struct kunit *test, struct echoer *user)
{
	user->qp = kunit_kzalloc(test, sizeof(*user->qp), GFP_KERNEL);
	KUNIT_ASSERT_NOT_NULL(test, user->qp);
	user->ctx = (struct roe_ctx){ .now = NSEC_PER_SEC };
	roe_echo_reset(user->qp);
}

/* A message comes. Returns the time that its ACK waits, ns. */
static u64 message(struct echoer *user)
{
	user->qp->resp.echo.until = 0;
	roe_echo_message(user->qp, &user->ctx);
	return user->qp->resp.echo.until ? user->qp->resp.echo.until - user->ctx.now : 0;
}

static void answer(struct echoer *user, u64 turn)
{
	user->ctx.now += turn;
	roe_echo_answer(user->qp, &user->ctx, 1);
	user->ctx.now += GAP;
}

/* Messages, each answered after @turn, until an ACK waits; 0: none of 1000 does. */
static u32 until_waits(struct echoer *user, u64 turn)
{
	u32 n;

	for (n = 1; n <= 1000; n++) {
		bool waits = message(user);

		answer(user, turn);
		if (waits)
			return n;
	}
	return 0;
}

static void echo_answers(struct kunit *test)
{
	struct echoer user;

	user_init(test, &user);
	KUNIT_EXPECT_EQ(test, until_waits(&user, TURN), 5);
	/* it leaves with the answer */
	KUNIT_EXPECT_EQ(test, user.qp->resp.echo.until, 0);
	/* long compared to the answer, short compared to a peer's clock */
	KUNIT_EXPECT_EQ(test, message(&user), 500 * NSEC_PER_USEC);
	answer(&user, TURN);
	user.qp->resp.echo.turn = 20 * NSEC_PER_USEC;
	KUNIT_EXPECT_EQ(test, message(&user), 64 * 20 * NSEC_PER_USEC);
	answer(&user, TURN);
	user.qp->resp.echo.turn = 90 * NSEC_PER_USEC;
	KUNIT_EXPECT_EQ(test, message(&user), 4 * NSEC_PER_MSEC);
}

/* The peer may wait for its completion as long as the process thinks. */
static void echo_thinks(struct kunit *test)
{
	struct echoer user;
	int i;

	user_init(test, &user);
	for (i = 0; i < 20; i++) {
		message(&user);
		answer(&user, 300 * NSEC_PER_USEC);
	}
	KUNIT_EXPECT_EQ(test, message(&user), 0);
	answer(&user, 300 * NSEC_PER_USEC);
	/* which is not long on such a way */
	user.qp->req.srtt = 200 * NSEC_PER_USEC;
	KUNIT_EXPECT_NE(test, message(&user), 0);
	answer(&user, 300 * NSEC_PER_USEC);
	user.qp->req.srtt = 100 * NSEC_PER_USEC;
	KUNIT_EXPECT_EQ(test, message(&user), 0);

	/* who was held up once does not think */
	user_init(test, &user);
	for (i = 0; i < 20; i++) {
		message(&user);
		answer(&user, 50 * NSEC_PER_USEC);
	}
	message(&user);
	answer(&user, 3 * NSEC_PER_MSEC);
	KUNIT_EXPECT_NE(test, message(&user), 0);
}

/* Answers that come late, and messages that come two by two. */
static void echo_others(struct kunit *test)
{
	struct echoer user;
	int i;

	user_init(test, &user);
	KUNIT_EXPECT_EQ(test, until_waits(&user, 5 * NSEC_PER_MSEC), 0);
	user_init(test, &user);
	for (i = 0; i < 100; i++) {
		KUNIT_EXPECT_EQ(test, message(&user), 0);
		KUNIT_EXPECT_EQ(test, message(&user), 0);
		answer(&user, TURN);
	}
	/* who answers at length */
	user_init(test, &user);
	for (i = 0; i < 100; i++) {
		KUNIT_EXPECT_EQ(test, message(&user), 0);
		roe_echo_answer(user.qp, &user.ctx, 16);
	}
	/* who only receives */
	user_init(test, &user);
	for (i = 0; i < 100; i++)
		KUNIT_EXPECT_EQ(test, message(&user), 0);
}

/* Where a QP of this device is told at once, nothing would be gained. */
static void echo_direct(struct kunit *test)
{
	struct echoer user;

	user_init(test, &user);
	user.ctx.direct = true;
	KUNIT_EXPECT_EQ(test, until_waits(&user, TURN), 0);
}

/* Each time in vain costs twice as many messages of proof, up to a limit. */
static void echo_in_vain(struct kunit *test)
{
	u32 want[] = { 5, 9, 17, 33, 65, 129, 129, 129 };
	struct echoer user;
	int i;

	user_init(test, &user);
	for (i = 0; i < ARRAY_SIZE(want); i++) {
		KUNIT_EXPECT_EQ(test, until_waits(&user, TURN), want[i]);
		message(&user);
		KUNIT_EXPECT_EQ(test, roe_timer_next(user.qp), user.qp->resp.echo.until);
		user.ctx.now = user.qp->resp.echo.until;
		user.qp->state = IB_QPS_RTS;
		roe_timer_run(user.qp, &user.ctx);
		KUNIT_EXPECT_EQ(test, user.qp->resp.echo.until, 0);
		answer(&user, TURN);
		user.qp->resp.echo.score = 0;
	}
}

/* A peer with such a clock would not wait. */
static void echo_short_clock(struct kunit *test)
{
	struct echoer user;

	user_init(test, &user);
	user.qp->timeout_ns = roe_timer_ack_ns(8);	/* 1 ms */
	KUNIT_EXPECT_EQ(test, until_waits(&user, TURN), 0);
	user.qp->timeout_ns = roe_timer_ack_ns(14);
	KUNIT_EXPECT_NE(test, until_waits(&user, TURN), 0);
}

/* An ACK that waits is not owed for now; a READ response is. */
static void echo_owes(struct kunit *test)
{
	struct roe_resp resp = { .ack_due = true };

	KUNIT_EXPECT_TRUE(test, roe_resp_owes(&resp));
	resp.echo.until = 1;
	KUNIT_EXPECT_FALSE(test, roe_resp_owes(&resp));
	resp.rsrc_pending = 1;
	KUNIT_EXPECT_TRUE(test, roe_resp_owes(&resp));
}

static struct kunit_case cases[] = {
	KUNIT_CASE(echo_answers),
	KUNIT_CASE(echo_thinks),
	KUNIT_CASE(echo_others),
	KUNIT_CASE(echo_direct),
	KUNIT_CASE(echo_in_vain),
	KUNIT_CASE(echo_short_clock),
	KUNIT_CASE(echo_owes),
	{}
};

static struct kunit_suite suite = {
	.name = "roe_echo",
	.test_cases = cases,
};

kunit_test_suites(&suite);
