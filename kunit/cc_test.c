// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Marks of switches, CNPs, responses lost, and what leaves after that (harness: sim.h).
 */
#include "sim.h"

#define PSN0	0xfffff0	/* wraps in the first window */
#define PSN1	0x123456
#define SIG	IB_SEND_SIGNALED
#define RTT	(100 * NSEC_PER_USEC)

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

static struct sim *fresh(struct kunit *test, enum ib_qp_type type)
{
	struct sim *sim = test->priv;

	sim->side[0].qp->type = type;
	sim->side[1].qp->type = type;
	sim_reset(sim, PSN0, PSN1);
	return sim;
}

/* --- notification point ------------------------------------------------------ */

/* A packet for side 1, marked or not. */
static void arrive(struct sim *sim, u8 opcode, u32 psn, u32 len, bool ce)
{
	static u8 zeros[SIM_MTU];
	struct roe_rx_pkt rx = {
		.p = { .opcode = opcode, .psn = psn & ROE_PSN_MASK, .len = len },
		.ce = ce,
		.nvec = 1,
		.vec = { { .iov_base = zeros, .iov_len = len } },
	};

	sim_receive(sim, 1, &rx);
}

/* What side 1 sends now: CNPs among it, each as it must be. */
static unsigned int cnps(struct sim *sim)
{
	unsigned int n = 0;
	struct sim_pkt *pkt;

	sim_emit(sim, 1);
	while ((pkt = sim_take(sim))) {
		if (pkt->rx.p.opcode == ROE_OPCODE_CNP) {
			n++;
			KUNIT_EXPECT_EQ(sim->test, pkt->to, 0);
			KUNIT_EXPECT_EQ(sim->test, pkt->rx.p.qpn, sim->side[0].qp->qpn);
			KUNIT_EXPECT_EQ(sim->test, pkt->rx.p.pkey, ROE_DEFAULT_PKEY);
			KUNIT_EXPECT_EQ(sim->test, pkt->rx.p.psn, 0);
			KUNIT_EXPECT_EQ(sim->test, pkt->rx.p.len, 0);
			KUNIT_EXPECT_FALSE(sim->test, pkt->rx.p.ackreq || pkt->rx.p.se);
		}
		sim_put(sim, pkt);
	}
	return n;
}

/* One in 50 us, however many marks; one mark is enough for the next. */
static void cc_interval(struct kunit *test)
{
	struct sim *sim = fresh(test, IB_QPT_RC);
	unsigned int i;

	arrive(sim, ROE_OP_SEND_ONLY, PSN0, 8, false);
	KUNIT_EXPECT_EQ(test, cnps(sim), 0);
	for (i = 0; i < 50; i++) {
		arrive(sim, ROE_OP_SEND_ONLY, PSN0, 8, true);
		KUNIT_EXPECT_EQ_MSG(test, cnps(sim), i == 0, "after %u us", i);
		sim->now += NSEC_PER_USEC;
	}
	KUNIT_EXPECT_EQ(test, cnps(sim), 0);
	for (i = 0; i < 20; i++)
		arrive(sim, ROE_OP_SEND_ONLY, PSN0, 8, true);
	KUNIT_EXPECT_EQ(test, cnps(sim), 1);
	sim->now += NSEC_PER_SEC;
	KUNIT_EXPECT_EQ(test, cnps(sim), 0);
}

/* Who gets one: RC and UC, for data, and not for a CNP: that would never end. */
static void cc_who(struct kunit *test)
{
	static const struct {
		enum ib_qp_type type;
		u8 opcode;
		u32 len;
		unsigned int cnps;
	} rows[] = {
		{ IB_QPT_RC, ROE_OP_SEND_ONLY, 1, 1 },
		{ IB_QPT_RC, ROE_OP_WRITE_MIDDLE, SIM_MTU, 1 },
		{ IB_QPT_RC, ROE_OP_READ_RESP_MIDDLE, SIM_MTU, 1 },
		{ IB_QPT_RC, ROE_OP_READ_REQ, 0, 0 },
		{ IB_QPT_RC, ROE_OP_ACK, 0, 0 },
		{ IB_QPT_RC, ROE_OPCODE_CNP, 0, 0 },
		{ IB_QPT_RC, ROE_OPCODE_CNP, 4, 0 },
		{ IB_QPT_UC, ROE_XPORT_UC | ROE_OP_SEND_ONLY, 1, 1 },
		{ IB_QPT_UC, ROE_XPORT_UC | ROE_OP_WRITE_LAST, 1, 1 },
		{ IB_QPT_UC, ROE_OPCODE_CNP, 0, 0 },
	};
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(rows); i++) {
		struct sim *sim = fresh(test, rows[i].type);

		arrive(sim, rows[i].opcode, PSN0, rows[i].len, true);
		KUNIT_EXPECT_EQ_MSG(test, cnps(sim), rows[i].cnps, "row %u", i);
	}
}

/* A reset QP owes nothing. */
static void cc_reset(struct kunit *test)
{
	struct sim *sim = fresh(test, IB_QPT_RC);

	arrive(sim, ROE_OP_SEND_ONLY, PSN0, 8, true);
	roe_responder_reset(sim->side[1].qp, PSN0);
	KUNIT_EXPECT_EQ(test, cnps(sim), 0);
}

/* --- reaction point ---------------------------------------------------------- */

static void cnp(struct sim *sim, unsigned int n)
{
	struct roe_rx_pkt rx = { .p = { .opcode = ROE_OPCODE_CNP } };

	while (n--)
		sim_receive(sim, 0, &rx);
}

/* A round trip: a window of side 0 leaves, and all that was before it is acknowledged. */
static void round_trip(struct sim *sim)
{
	struct roe_qp *qp = sim->side[0].qp;
	struct roe_ctx ctx = { .now = sim->now };
	struct roe_req *req = &qp->req;

	sim->now += RTT;
	req->una = req->max_psn;
	req->psn = roe_psn_add(req->psn, req->cwnd);
	req->max_psn = req->psn;
	req->wqe_psn = req->psn;
	roe_requester_progress(qp, &ctx);
}

static struct roe_req *sender(struct sim *sim, u32 window)
{
	struct roe_req *req = &sim->side[0].qp->req;

	req->cwnd = window;
	req->ssthresh = window;
	req->srtt = RTT;
	round_trip(sim);
	req->cwnd = window;
	return req;
}

/* Half at first; once per round trip; it does not grow before that is over. */
static void cc_once(struct kunit *test)
{
	struct sim *sim = fresh(test, IB_QPT_RC);
	struct roe_req *req = sender(sim, 256);
	struct roe_ctx ctx = { .now = sim->now };

	cnp(sim, 1);
	KUNIT_EXPECT_EQ(test, req->cwnd, 128);
	KUNIT_EXPECT_EQ(test, req->ssthresh, 128);
	sim->now += NSEC_PER_SEC;
	cnp(sim, 1000);
	KUNIT_EXPECT_EQ(test, req->cwnd, 128);
	req->una = roe_psn_add(req->una, 200);
	roe_requester_progress(sim->side[0].qp, &ctx);
	cnp(sim, 1);
	KUNIT_EXPECT_EQ(test, req->cwnd, 128);
	/* the rest of it, 56 of 128 packets, then four for each round trip */
	round_trip(sim);
	KUNIT_EXPECT_EQ(test, req->cwnd, 129);
	round_trip(sim);
	KUNIT_EXPECT_EQ(test, req->cwnd, 133);
}

/* Every round trip marked: down to what keeps a QP alive, and no further. */
static void cc_floor(struct kunit *test)
{
	struct sim *sim = fresh(test, IB_QPT_RC);
	struct roe_req *req = sender(sim, 512);
	unsigned int i;

	for (i = 0; i < 100; i++) {
		cnp(sim, 10);
		KUNIT_EXPECT_GE(test, req->cwnd, ROE_WINDOW_MIN);
		round_trip(sim);
	}
	KUNIT_EXPECT_LE(test, req->cwnd, ROE_WINDOW_MIN + ROE_WINDOW_STEP);
	KUNIT_EXPECT_EQ(test, req->alpha, ROE_ALPHA_ONE);
	for (i = 0; i < 100; i++)
		round_trip(sim);
	KUNIT_EXPECT_GT(test, req->cwnd, ROE_WINDOW_MIN + 100 * (ROE_WINDOW_STEP - 1));
	KUNIT_EXPECT_LE(test, req->cwnd, ROE_WINDOW_MIN + 101 * ROE_WINDOW_STEP);
}

/*
 * alpha against exact arithmetic: a gain of 1/16 for a round trip with a mark, a loss
 * of 1/16 for one without, not below a quarter.
 */
static void cc_alpha(struct kunit *test)
{
	static const u8 quiet[] = { 0, 0, 1, 2, 5, 0, 0, 10, 30, 200, 0, 3 };
	struct sim *sim = fresh(test, IB_QPT_RC);
	struct roe_req *req = sender(sim, 256);
	u64 exact = 1ull << 32;
	unsigned int i, k;

	cnp(sim, 1);
	for (i = 0; i < ARRAY_SIZE(quiet); i++) {
		u32 window;

		for (k = 0; k <= quiet[i]; k++)
			round_trip(sim);
		for (k = 0; k < quiet[i]; k++)
			exact -= exact / 16;
		exact = max(exact, 1ull << 30);
		req->cwnd = 512;
		window = 512 - (512 * exact >> 33);
		cnp(sim, 1);
		/* integers: 1 in 1024 for each step */
		KUNIT_EXPECT_LE_MSG(test, abs((int)(req->cwnd - window)), 4, "step %u", i);
		exact += ((1ull << 32) - exact) / 16;
		KUNIT_EXPECT_LE_MSG(test, abs((int)(req->alpha - (exact >> 22))), 16,
				    "step %u", i);
	}
}

/* With a long round trip the same; without a sample DCQCN's 55 us. */
static void cc_round(struct kunit *test)
{
	struct sim *sim = fresh(test, IB_QPT_RC);
	struct roe_req *req = sender(sim, 256);

	cnp(sim, 1);
	req->srtt = 0;
	round_trip(sim);
	sim->now = req->alpha_at + 2 * ROE_ALPHA_NS - 1;
	req->cwnd = 256;
	cnp(sim, 1);
	KUNIT_EXPECT_EQ(test, req->cwnd, 128);
	round_trip(sim);
	sim->now = req->alpha_at + 2 * ROE_ALPHA_NS;
	req->cwnd = 256;
	cnp(sim, 1);
	KUNIT_EXPECT_EQ(test, req->cwnd, 256 - 120);
}

/* Nothing in flight, not a CNP, UC: the window stays. */
static void cc_ignored(struct kunit *test)
{
	struct roe_rx_pkt longer = { .p = { .opcode = ROE_OPCODE_CNP, .len = 4 } };
	struct sim *sim = fresh(test, IB_QPT_RC);
	struct roe_req *req = &sim->side[0].qp->req;

	cnp(sim, 1000);
	KUNIT_EXPECT_EQ(test, req->cwnd, ROE_WINDOW_PKTS);
	req = sender(sim, 256);
	sim_receive(sim, 0, &longer);
	KUNIT_EXPECT_EQ(test, req->cwnd, 256);
	KUNIT_EXPECT_EQ(test, sim->side[0].events, 0);
	sim->side[0].qp->state = IB_QPS_ERR;
	cnp(sim, 1);
	KUNIT_EXPECT_EQ(test, req->cwnd, 256);
	sim = fresh(test, IB_QPT_UC);
	req = sender(sim, 256);
	cnp(sim, 1);
	KUNIT_EXPECT_EQ(test, req->cwnd, 256);
}

/* --- what has no window ------------------------------------------------------ */

#define DATA	(SIM_REGION / 8)

/* @n messages of DATA bytes; the packets of side 0 need as long as returned, ns. */
static u64 time_of(struct sim *sim, enum ib_wr_opcode op, unsigned int n)
{
	u64 start = sim->now;

	while (n--)
		sim_post(sim, op == IB_WR_RDMA_READ, op, DATA, SIG);
	KUNIT_EXPECT_TRUE(sim->test, sim_run(sim));
	return sim->now - start;
}

/* Without a CNP it leaves at once. One halves what was sent of late, which comes back. */
static void paced(struct kunit *test, enum ib_qp_type type, enum ib_wr_opcode op)
{
	struct sim *sim = fresh(test, type);
	struct roe_rate *r = &sim->side[0].qp->rate;
	const char *wrong;
	u64 was, ns;

	sim->slot = DATA;
	KUNIT_EXPECT_LT(test, time_of(sim, op, 2), NSEC_PER_MSEC);
	KUNIT_EXPECT_EQ(test, r->rate, 0);
	sim->now += 5 * NSEC_PER_MSEC;
	cnp(sim, 1);
	was = r->target;
	KUNIT_EXPECT_GT(test, was, 2 * DATA * 1000 / 6);
	KUNIT_EXPECT_EQ(test, r->rate, was - was / 2);
	/* no more than that within a millisecond */
	cnp(sim, 100);
	KUNIT_EXPECT_EQ(test, r->rate, was - was / 2);
	ns = time_of(sim, op, 3);
	KUNIT_EXPECT_GT(test, ns, 3 * DATA * NSEC_PER_SEC / 2 / was);
	KUNIT_EXPECT_LT(test, ns, 3 * DATA * NSEC_PER_SEC / was * 2);
	KUNIT_EXPECT_GT(test, r->rate, was * 9 / 10);
	sim->now += NSEC_PER_SEC;
	KUNIT_EXPECT_LT(test, time_of(sim, op, 2), NSEC_PER_MSEC);
	KUNIT_EXPECT_EQ(test, r->rate, 0);
	wrong = sim_check(sim);
	KUNIT_EXPECT_NULL_MSG(test, wrong, "%s", wrong);
}

static void cc_uc(struct kunit *test)
{
	paced(test, IB_QPT_UC, IB_WR_RDMA_WRITE);
}

static void cc_responder(struct kunit *test)
{
	paced(test, IB_QPT_RC, IB_WR_RDMA_READ);
}

/* CNPs without end: down to a rate that goes on, and up again, a little at first. */
static void cc_rate_floor(struct kunit *test)
{
	struct sim *sim = fresh(test, IB_QPT_UC);
	struct roe_qp *qp = sim->side[0].qp;
	struct roe_ctx ctx = { .now = sim->now };
	unsigned int i;

	roe_cc_spend(qp, &ctx, SZ_1M);
	for (i = 0; i < 100; i++) {
		sim->now += ROE_RATE_ROUND_NS;
		ctx.now = sim->now;
		roe_cc_spend(qp, &ctx, 1);
		cnp(sim, 1);
	}
	KUNIT_EXPECT_EQ(test, qp->rate.rate, ROE_RATE_MIN);
	ctx.now = sim->now + 20 * NSEC_PER_MSEC;
	roe_cc_open(qp, &ctx);
	KUNIT_EXPECT_GT(test, qp->rate.rate, ROE_RATE_MIN * 3 / 2);
	KUNIT_EXPECT_LT(test, qp->rate.rate, ROE_RATE_MIN * 4);
}

/* The first CNP after a pause is about what has left since. */
static void cc_rate_pause(struct kunit *test)
{
	struct sim *sim = fresh(test, IB_QPT_UC);
	struct roe_qp *qp = sim->side[0].qp;
	struct roe_ctx ctx = { .now = sim->now };

	roe_cc_spend(qp, &ctx, SIM_MTU);
	sim->now += NSEC_PER_SEC;
	ctx.now = sim->now;
	roe_cc_spend(qp, &ctx, SZ_256K);
	sim->now += 300 * NSEC_PER_USEC;
	cnp(sim, 1);
	KUNIT_EXPECT_GT(test, qp->rate.rate, 100 * 1000 * 1000);
	KUNIT_EXPECT_LT(test, qp->rate.rate, 200 * 1000 * 1000);
}

/* A CNP for WRITEs says nothing about READ responses that are not being sent. */
static void cc_rate_others(struct kunit *test)
{
	struct sim *sim = fresh(test, IB_QPT_RC);
	struct roe_qp *qp = sim->side[0].qp;
	struct roe_ctx ctx = { .now = sim->now };
	struct roe_req *req;

	roe_cc_spend(qp, &ctx, SZ_1M);
	sim->now += NSEC_PER_SEC;
	req = sender(sim, 256);
	cnp(sim, 1);
	KUNIT_EXPECT_EQ(test, req->cwnd, 128);
	KUNIT_EXPECT_EQ(test, qp->rate.rate, 0);
	/* those of the last 10 ms it may be about */
	ctx.now = sim->now;
	roe_cc_spend(qp, &ctx, SZ_1M);
	ctx.now += ROE_RATE_LOOK_NS - 1;
	roe_cc_spend(qp, &ctx, SZ_1M);
	sim->now = ctx.now + ROE_RATE_LOOK_NS - 1;
	cnp(sim, 1);
	KUNIT_EXPECT_GT(test, qp->rate.rate, 0);
}

/* @ms milliseconds in which 100 KB leave each; far more is allowed soon. */
static void steady(struct sim *sim, unsigned int ms)
{
	struct roe_qp *qp = sim->side[0].qp;
	struct roe_ctx ctx = { };

	while (ms--) {
		sim->now += NSEC_PER_MSEC;
		ctx.now = sim->now;
		roe_cc_open(qp, &ctx);
		roe_cc_spend(qp, &ctx, 100 * 1000);
	}
}

/* What nobody uses is not what a CNP takes half of. */
static void cc_rate_unused(struct kunit *test)
{
	struct sim *sim = fresh(test, IB_QPT_UC);
	struct roe_rate *r = &sim->side[0].qp->rate;
	static const unsigned int ms[] = { 50, 500, 990 };
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(ms); i++) {
		steady(sim, ms[i]);
		cnp(sim, 1);
		KUNIT_EXPECT_LE(test, r->target, 250 * 1000 * 1000);
		KUNIT_EXPECT_GE(test, r->rate, 50 * 1000 * 1000);
		KUNIT_EXPECT_LE(test, r->rate, 200 * 1000 * 1000);
	}
}

/* Who waits for its time does not any more when the QP is in an error. */
static void cc_rate_error(struct kunit *test)
{
	struct sim *sim = fresh(test, IB_QPT_UC);
	struct roe_qp *qp = sim->side[0].qp;
	struct roe_ctx ctx = { .now = sim->now };

	roe_cc_spend(qp, &ctx, 1000);
	cnp(sim, 1);
	roe_cc_spend(qp, &ctx, SZ_1M);
	KUNIT_EXPECT_FALSE(test, roe_cc_open(qp, &ctx));
	KUNIT_EXPECT_NE(test, roe_timer_next(qp), 0);
	roe_complete_error(qp, &ctx);
	KUNIT_EXPECT_EQ(test, roe_timer_next(qp), 0);
}

/* The first packet of a peer is no CNP. */
static void cc_comm_est(struct kunit *test)
{
	struct sim *sim = fresh(test, IB_QPT_RC);

	sim->side[0].qp->comm_est = false;
	sim->side[0].qp->state = IB_QPS_RTR;
	cnp(sim, 1);
	KUNIT_EXPECT_FALSE(test, sim->side[0].qp->comm_est);
	KUNIT_EXPECT_EQ(test, sim->side[0].events, 0);
}

/* --- responses lost ---------------------------------------------------------- */

#define READ_PKTS	256

/* A READ of @end - @n packets comes to side 1. */
static void ask(struct sim *sim, u32 n, u32 end)
{
	struct roe_rx_pkt rx = {
		.p = {
			.opcode = ROE_OP_READ_REQ,
			.psn = roe_psn_add(PSN0, n),
			.va = (uintptr_t)sim->side[1].src + n * SIM_MTU,
			.rkey = sim->side[1].mr.key,
			.dmalen = (end - n) * SIM_MTU,
		},
	};

	sim_receive(sim, 1, &rx);
}

/* All that it asked for leaves, and nobody gets it. */
static void answer(struct sim *sim)
{
	struct roe_qp *qp = sim->side[1].qp;
	struct sim_pkt *pkt;

	sim_emit(sim, 1);
	while (qp->resp.rsrc_pending) {
		sim->now = qp->rate.wake;
		sim_timer(sim, 1);
		sim_emit(sim, 1);
	}
	while ((pkt = sim_take(sim)))
		sim_put(sim, pkt);
}

/* A READ, after much was lost behind a loss before. */
static struct sim *lossy(struct kunit *test)
{
	struct sim *sim = fresh(test, IB_QPT_RC);

	sim->side[1].qp->rate.vain = 1;
	return sim;
}

/* Asked for from packet @n on, and answered; @ns later nothing of that is on its way. */
static void ask_again(struct sim *sim, u32 n, u64 ns)
{
	ask(sim, n, READ_PKTS);
	answer(sim);
	sim->now += ns;
}

/* What came of what was sent is what the way bears; half of that for now. */
static void cc_lost_share(struct kunit *test)
{
	struct sim *sim = lossy(test);
	struct roe_rate *r = &sim->side[1].qp->rate;
	u64 was;

	ask_again(sim, 0, 10 * NSEC_PER_MSEC);
	KUNIT_EXPECT_EQ(test, r->rate, 0);
	/* 70 KB in 10 ms, half of which came */
	ask(sim, READ_PKTS / 2, READ_PKTS);
	KUNIT_EXPECT_GT(test, r->target, 6500 * 1000 / 2);
	KUNIT_EXPECT_LT(test, r->target, 7700 * 1000 / 2);
	KUNIT_EXPECT_EQ(test, r->rate, r->target / 2);
	answer(sim);
	/* and again, if that was too much as well */
	was = r->rate;
	ask(sim, READ_PKTS / 2 + 1, READ_PKTS);
	KUNIT_EXPECT_LT(test, r->rate, was);
}

/* One that is only late is missed at once, and would look like a way that bears nothing. */
static void cc_lost_few(struct kunit *test)
{
	struct sim *sim = lossy(test);
	struct roe_rate *r = &sim->side[1].qp->rate;

	ask_again(sim, 0, 10 * NSEC_PER_MSEC);
	ask(sim, 1, READ_PKTS);
	KUNIT_EXPECT_GT(test, r->target, 6500 * 1000 / 4 * 3);
	KUNIT_EXPECT_LT(test, r->target, 7700 * 1000 / 4 * 3);
	KUNIT_EXPECT_EQ(test, r->rate, r->target / 2);
}

/* A loss by chance has little behind it, as a rule: it takes two in a row with much. */
static void cc_lost_chance(struct kunit *test)
{
	struct sim *sim = fresh(test, IB_QPT_RC);
	struct roe_rate *r = &sim->side[1].qp->rate;

	ask_again(sim, 0, 10 * NSEC_PER_MSEC);
	ask_again(sim, 20, 10 * NSEC_PER_MSEC);
	KUNIT_EXPECT_EQ(test, r->rate, 0);
	ask_again(sim, READ_PKTS - 10, 10 * NSEC_PER_MSEC);
	ask(sim, READ_PKTS, 2 * READ_PKTS);
	answer(sim);
	sim->now += 10 * NSEC_PER_MSEC;
	ask(sim, READ_PKTS + 20, 2 * READ_PKTS);
	KUNIT_EXPECT_EQ(test, r->rate, 0);
	answer(sim);
	sim->now += 10 * NSEC_PER_MSEC;
	ask(sim, READ_PKTS + 40, 2 * READ_PKTS);
	KUNIT_EXPECT_NE(test, r->rate, 0);
}

/* However often it is asked for what is on its way, and by how many READs. */
static void cc_lost_once(struct kunit *test)
{
	struct sim *sim = lossy(test);
	struct roe_rate *r = &sim->side[1].qp->rate;
	u64 was;

	ask(sim, 0, READ_PKTS);
	ask(sim, READ_PKTS, 2 * READ_PKTS);
	answer(sim);
	sim->now += 10 * NSEC_PER_MSEC;
	ask(sim, 100, READ_PKTS);
	was = r->cut_at;
	KUNIT_EXPECT_EQ(test, was, sim->now);
	ask(sim, 100, READ_PKTS);
	/* the next READ is asked for again because this one was */
	sim->now += ROE_RATE_ROUND_NS;
	ask(sim, READ_PKTS, 2 * READ_PKTS);
	KUNIT_EXPECT_EQ(test, r->cut_at, was);
	/* a copy of the first one, late */
	answer(sim);
	ask(sim, 150, READ_PKTS);
	answer(sim);
	was = r->cut_at;
	sim->now += ROE_RATE_ROUND_NS;
	ask(sim, 100, READ_PKTS);
	KUNIT_EXPECT_EQ(test, r->cut_at, was);
}

/* Back to what it was in a few rounds, then further, and after a second all at once. */
static void cc_lost_over(struct kunit *test)
{
	struct sim *sim = lossy(test);
	struct roe_qp *qp = sim->side[1].qp;
	struct roe_rate *r = &qp->rate;
	struct roe_ctx ctx = { };
	u64 target;

	ask_again(sim, 0, 10 * NSEC_PER_MSEC);
	ask(sim, READ_PKTS / 2, READ_PKTS);
	target = r->target;
	KUNIT_EXPECT_GT(test, r->round, 3 * NSEC_PER_MSEC);
	KUNIT_EXPECT_LT(test, r->round, 7 * NSEC_PER_MSEC);
	ctx.now = sim->now + ROE_RATE_RECOVERY * r->round;
	roe_cc_open(qp, &ctx);
	KUNIT_EXPECT_GT(test, r->rate, target * 9 / 10);
	KUNIT_EXPECT_LE(test, r->rate, target);
	ctx.now += 10 * r->round;
	roe_cc_open(qp, &ctx);
	KUNIT_EXPECT_GT(test, r->rate, target * 11 / 10);
	ctx.now = sim->now + ROE_RATE_FREE_NS;
	KUNIT_EXPECT_TRUE(test, roe_cc_open(qp, &ctx));
	KUNIT_EXPECT_EQ(test, r->rate, 0);
	/* the first loss after that says as little as the first of all */
	ctx.now += NSEC_PER_MSEC;
	roe_cc_lost(qp, &ctx, READ_PKTS / 4, READ_PKTS / 2);
	KUNIT_EXPECT_EQ(test, r->rate, 0);
	roe_cc_lost(qp, &ctx, READ_PKTS / 4, READ_PKTS / 2);
	KUNIT_EXPECT_NE(test, r->rate, 0);
}

/* A few packets lost, or those that IP refused here, say nothing about the way. */
static void cc_lost_else(struct kunit *test)
{
	struct sim *sim = lossy(test);
	struct roe_qp *qp = sim->side[1].qp;
	struct roe_refused refused = { .responses = 1, .response = roe_psn_add(PSN0, 100) };
	struct roe_ctx ctx;

	ask_again(sim, 0, 10 * NSEC_PER_MSEC);
	ask_again(sim, READ_PKTS - ROE_WINDOW_MIN, 10 * NSEC_PER_MSEC);
	KUNIT_EXPECT_EQ(test, qp->rate.rate, 0);
	sim = lossy(test);
	ask_again(sim, 0, 0);
	ctx = (struct roe_ctx){ .now = sim->now };
	roe_answer_local_drop(qp, &ctx, &refused);
	answer(sim);
	sim->now += 10 * NSEC_PER_MSEC;
	ask(sim, 100, READ_PKTS);
	KUNIT_EXPECT_EQ(test, qp->rate.rate, 0);
}

/* No less than what goes on, also for who asks again for ever. */
static void cc_lost_floor(struct kunit *test)
{
	struct sim *sim = lossy(test);
	struct roe_rate *r = &sim->side[1].qp->rate;
	unsigned int i;

	ask_again(sim, 0, 10 * NSEC_PER_MSEC);
	for (i = 0; i < 100; i++)
		ask_again(sim, 0, ROE_RATE_ROUND_NS);
	KUNIT_EXPECT_GE(test, r->rate, ROE_RATE_MIN);
	KUNIT_EXPECT_LE(test, r->rate, 2 * ROE_RATE_MIN);
	KUNIT_EXPECT_GE(test, r->target, r->rate);
}

/* --- both -------------------------------------------------------------------- */

/* A network that marks, and loses at times: all is delivered, in a small window. */
static void cc_marking(struct kunit *test)
{
	static const struct {
		u8 op;
		enum ib_qp_type type;
		u32 mark, loss;
		bool slow;
	} rows[] = {
		{ IB_WR_RDMA_WRITE, IB_QPT_RC, 100, 0, true },
		{ IB_WR_RDMA_READ, IB_QPT_RC, 100, 0, true },
		{ IB_WR_RDMA_WRITE, IB_QPT_RC, 30, 2, true },
		{ IB_WR_RDMA_READ, IB_QPT_RC, 30, 2, true },
		{ IB_WR_RDMA_WRITE, IB_QPT_RC, 0, 0, false },
		{ IB_WR_RDMA_READ, IB_QPT_RC, 0, 0, false },
		{ IB_WR_RDMA_WRITE, IB_QPT_UC, 100, 0, false },
	};
	unsigned int i, k;

	for (i = 0; i < ARRAY_SIZE(rows); i++) {
		struct sim *sim = fresh(test, rows[i].type);
		struct roe_req *req = &sim->side[0].qp->req;
		const char *wrong;

		sim->mark = rows[i].mark;
		sim->loss = rows[i].loss;
		sim->slot = SIM_REGION / 8;
		for (k = 0; k < 8; k++)
			sim_post(sim, 0, rows[i].op, SIM_REGION / 8, SIG);
		KUNIT_EXPECT_TRUE_MSG(test, sim_run(sim), "row %u", i);
		wrong = sim_check(sim);
		KUNIT_EXPECT_NULL_MSG(test, wrong, "row %u: %s", i, wrong);
		KUNIT_EXPECT_EQ_MSG(test, req->cwnd < ROE_WINDOW_PKTS, rows[i].slow,
				    "row %u: window %u", i, req->cwnd);
	}
}

static struct kunit_case cc_cases[] = {
	KUNIT_CASE(cc_interval),
	KUNIT_CASE(cc_who),
	KUNIT_CASE(cc_reset),
	KUNIT_CASE(cc_once),
	KUNIT_CASE(cc_floor),
	KUNIT_CASE(cc_alpha),
	KUNIT_CASE(cc_round),
	KUNIT_CASE(cc_ignored),
	KUNIT_CASE(cc_uc),
	KUNIT_CASE(cc_responder),
	KUNIT_CASE(cc_rate_floor),
	KUNIT_CASE(cc_rate_pause),
	KUNIT_CASE(cc_rate_others),
	KUNIT_CASE(cc_rate_unused),
	KUNIT_CASE(cc_rate_error),
	KUNIT_CASE(cc_comm_est),
	KUNIT_CASE(cc_lost_share),
	KUNIT_CASE(cc_lost_few),
	KUNIT_CASE(cc_lost_once),
	KUNIT_CASE(cc_lost_chance),
	KUNIT_CASE(cc_lost_over),
	KUNIT_CASE(cc_lost_else),
	KUNIT_CASE(cc_lost_floor),
	KUNIT_CASE(cc_marking),
	{}
};

static struct kunit_suite cc_suite = {
	.name = "roe_cc",
	.init = setup,
	.exit = teardown,
	.test_cases = cc_cases,
};

kunit_test_suites(&cc_suite);
