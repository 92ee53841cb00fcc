// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * A peer that says how many receives it has, as hardware does: no more messages are on
 * their way than that, and it is never waited for in vain (harness: sim.h).
 */
#include "sim.h"

#define PSN0	0xfffffd
#define PSN1	9
#define SIG	IB_SEND_SIGNALED
#define NONE	ROE_AETH_NO_CREDITS

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

static struct sim *fresh(struct kunit *test)
{
	struct sim *sim = test->priv;

	sim_reset(sim, PSN0, PSN1);
	sim->slot = 64;
	return sim;
}

/* How many packets leave now; they get lost. */
static unsigned int leaves(struct sim *sim)
{
	unsigned int n = 0;
	struct sim_pkt *pkt;

	sim_emit(sim, 0);
	while ((pkt = sim_take(sim))) {
		n++;
		sim_put(sim, pkt);
	}
	return n;
}

static void post(struct sim *sim, enum ib_wr_opcode op, unsigned int n)
{
	while (n--)
		sim_post(sim, 0, op, 10, SIG);
}

/* The peer acknowledges the first @n messages, each a packet, and has @code's receives. */
static void acked(struct sim *sim, unsigned int n, u32 msn, u8 code)
{
	struct roe_rx_pkt rx = {
		.p = {
			.opcode = ROE_OP_ACK,
			.psn = roe_psn_add(PSN0, n - 1),
			.syndrome = ROE_AETH_ACK | code,
			.msn = msn,
		},
	};

	sim_receive(sim, 0, &rx);
}

/* Without a word about credits there is no limit; with one, that many are on their way. */
static void credit_limits(struct kunit *test)
{
	struct sim *sim = fresh(test);

	post(sim, IB_WR_SEND, 4);
	KUNIT_EXPECT_EQ(test, leaves(sim), 4);
	post(sim, IB_WR_SEND, 20);
	acked(sim, 4, 4, NONE);
	KUNIT_EXPECT_EQ(test, leaves(sim), 20);
	/* 24 are on their way, 8 more have a receive; 05: 6 of them */
	post(sim, IB_WR_SEND, 20);
	acked(sim, 22, 22, 0x06);
	KUNIT_EXPECT_EQ(test, leaves(sim), 6);
	acked(sim, 30, 30, 0x02);
	KUNIT_EXPECT_EQ(test, leaves(sim), 2);
	/* an older number is no less: those are still there */
	acked(sim, 31, 31, 0x00);
	KUNIT_EXPECT_EQ(test, leaves(sim), 0);
	/* the same once more, when receives were posted */
	acked(sim, 31, 31, 0x03);
	KUNIT_EXPECT_EQ(test, leaves(sim), 2);
	acked(sim, 34, 34, NONE);
	KUNIT_EXPECT_EQ(test, leaves(sim), 10);
}

/* Nothing is in flight: one goes, for nobody would tell of a receive that is posted now. */
static void credit_never_stands(struct kunit *test)
{
	struct sim *sim = fresh(test);
	unsigned int i;

	post(sim, IB_WR_SEND, 1);
	KUNIT_EXPECT_EQ(test, leaves(sim), 1);
	post(sim, IB_WR_SEND, 5);
	for (i = 1; i <= 5; i++) {
		acked(sim, i, i, 0);
		KUNIT_EXPECT_EQ(test, leaves(sim), 1);
	}
	acked(sim, 6, 6, 0);
	KUNIT_EXPECT_EQ(test, sim->side[0].qp->req.una, roe_psn_add(PSN0, 6));
}

/* Who takes all that it said it has no receive for has some, until it refuses one. */
static void credit_wrong(struct kunit *test)
{
	struct sim *sim = fresh(test);
	struct roe_rx_pkt rnr = {
		.p = { .opcode = ROE_OP_ACK, .syndrome = ROE_AETH_RNR_NAK | 1 },
	};
	unsigned int i;

	post(sim, IB_WR_SEND, 1);
	KUNIT_EXPECT_EQ(test, leaves(sim), 1);
	post(sim, IB_WR_SEND, 30);
	for (i = 1; i <= ROE_CREDIT_WRONG; i++) {
		acked(sim, i, i, 0);
		KUNIT_EXPECT_EQ(test, leaves(sim), 1);
	}
	acked(sim, i, i, 0);
	KUNIT_EXPECT_EQ(test, leaves(sim), 30 - ROE_CREDIT_WRONG);
	rnr.p.psn = roe_psn_add(PSN0, i);
	rnr.p.msn = i;
	sim_receive(sim, 0, &rnr);
	sim->now += NSEC_PER_MSEC;
	sim_timer(sim, 0);
	leaves(sim);
	acked(sim, 31, 31, 0);
	post(sim, IB_WR_SEND, 5);
	KUNIT_EXPECT_EQ(test, leaves(sim), 1);
}

/* The numbers of messages have 24 bits. */
static void credit_wrap(struct kunit *test)
{
	struct sim *sim = fresh(test);
	struct roe_credit *credit = &sim->side[0].qp->req.credit;

	credit->ssn = 0xfffffe;
	credit->done = 0xfffffe;
	post(sim, IB_WR_SEND, 3);
	KUNIT_EXPECT_EQ(test, leaves(sim), 3);
	post(sim, IB_WR_SEND, 9);
	acked(sim, 1, 0xffffff, 0x05);
	/* 6 from there on, of which 2 have left */
	KUNIT_EXPECT_EQ(test, leaves(sim), 4);
	acked(sim, 7, 5, 0x02);
	KUNIT_EXPECT_EQ(test, leaves(sim), 2);
}

/* Behind a READ its responses tell. */
static void credit_read(struct kunit *test)
{
	struct sim *sim = fresh(test);
	struct roe_rx_pkt rx = {
		.p = { .opcode = ROE_OP_READ_RESP_ONLY, .psn = PSN0, .len = 10,
		       .syndrome = ROE_AETH_ACK | 0x01, .msn = 1 },
		.nvec = 1,
		.vec = { { .iov_base = sim->side[1].src, .iov_len = 10 } },
	};

	post(sim, IB_WR_RDMA_READ, 1);
	KUNIT_EXPECT_EQ(test, leaves(sim), 1);
	post(sim, IB_WR_SEND, 3);
	sim_receive(sim, 0, &rx);
	KUNIT_EXPECT_EQ(test, leaves(sim), 1);
}

/* What takes no receive is not limited, and does not use up what others have. */
static void credit_others(struct kunit *test)
{
	struct sim *sim = fresh(test);

	post(sim, IB_WR_RDMA_WRITE, 1);
	KUNIT_EXPECT_EQ(test, leaves(sim), 1);
	post(sim, IB_WR_RDMA_WRITE, 3);
	post(sim, IB_WR_RDMA_WRITE_WITH_IMM, 2);
	post(sim, IB_WR_SEND, 2);
	post(sim, IB_WR_RDMA_WRITE, 1);
	acked(sim, 1, 1, 0x03);
	KUNIT_EXPECT_EQ(test, leaves(sim), 6);
	acked(sim, 7, 7, 0x01);
	KUNIT_EXPECT_EQ(test, leaves(sim), 2);
}

/* Who counts otherwise is not believed: neither more than was sent nor less than is done. */
static void credit_miscounted(struct kunit *test)
{
	static const u32 msn[] = { 0, 3, 0xffffff, 0x800000 };
	struct sim *sim;
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(msn); i++) {
		sim = fresh(test);
		post(sim, IB_WR_SEND, 2);
		leaves(sim);
		post(sim, IB_WR_SEND, 5);
		acked(sim, 1, msn[i], 0);
		KUNIT_EXPECT_EQ_MSG(test, leaves(sim), 5, "MSN %x", msn[i]);
	}
}

static struct kunit_case cases[] = {
	KUNIT_CASE(credit_limits),
	KUNIT_CASE(credit_never_stands),
	KUNIT_CASE(credit_wrong),
	KUNIT_CASE(credit_wrap),
	KUNIT_CASE(credit_read),
	KUNIT_CASE(credit_others),
	KUNIT_CASE(credit_miscounted),
	{}
};

static struct kunit_suite suite = {
	.name = "roe_credit",
	.init = setup,
	.exit = teardown,
	.test_cases = cases,
};

kunit_test_suites(&suite);
