// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * The protocol's timers: tables of IBTA, the adaptive time-out, the next deadline.
 */
#include <kunit/test.h>
#include <linux/slab.h>
#include "../drivers/roe/rnr.h"
#include "sim.h"

#define PSN0	0xfffff0
#define PSN1	77
#define SIG	IB_SEND_SIGNALED

/* wire.md 4.2, in units of 10 us */
static void timer_rnr(struct kunit *test)
{
	static const u32 units[32] = {
		65536, 1, 2, 3, 4, 6, 8, 12,
		16, 24, 32, 48, 64, 96, 128, 192,
		256, 384, 512, 768, 1024, 1536, 2048, 3072,
		4096, 6144, 8192, 12288, 16384, 24576, 32768, 49152,
	};
	unsigned int code;

	for (code = 0; code < 256; code++)
		KUNIT_EXPECT_EQ_MSG(test, roe_timer_rnr_ns(code), units[code & 31] * 10000ull,
				    "code %u", code);
}

static void timer_ack(struct kunit *test)
{
	unsigned int t;

	KUNIT_EXPECT_EQ(test, roe_timer_ack_ns(0), 0);
	KUNIT_EXPECT_EQ(test, roe_timer_ack_ns(1), 8192);
	KUNIT_EXPECT_EQ(test, roe_timer_ack_ns(14), 67108864);
	for (t = 1; t < 32; t++)
		KUNIT_EXPECT_EQ_MSG(test, roe_timer_ack_ns(t), 4096 * (1ull << t), "t %u", t);
}

static struct roe_qp *new_qp(struct kunit *test)
{
	struct roe_qp *qp = kunit_kzalloc(test, sizeof(*qp), GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, qp);
	qp->state = IB_QPS_RTS;
	qp->mtu = 1024;
	qp->req.cwnd = ROE_WINDOW_PKTS;
	return qp;
}

static u64 rto(struct roe_qp *qp)
{
	struct roe_ctx ctx = { .now = NSEC_PER_SEC };

	roe_timer_arm(qp, &ctx);
	return qp->req.early_deadline - ctx.now;
}

static void timer_rto(struct kunit *test)
{
	struct roe_qp *qp = new_qp(test);
	u32 shift;

	KUNIT_EXPECT_EQ(test, rto(qp), ROE_RTO_MIN_NS);
	qp->req.srtt = 20 * NSEC_PER_MSEC;
	qp->req.rttvar = 5 * NSEC_PER_MSEC;
	for (shift = 0; shift < 40; shift++) {
		u64 want = min_t(u64, 40ull * NSEC_PER_MSEC << min(shift, 12u), ROE_RTO_MAX_NS);

		qp->req.backoff = shift;
		KUNIT_EXPECT_EQ_MSG(test, rto(qp), want, "shift %u", shift);
	}
	/* on a long way that never changes, too, the peer may be busy */
	qp->req.backoff = 0;
	qp->req.rttvar = 0;
	qp->req.srtt = 50 * NSEC_PER_MSEC;
	KUNIT_EXPECT_EQ(test, rto(qp), 50ull * NSEC_PER_MSEC + ROE_RTO_MIN_NS);
}

/* RFC 6298: first sample sets both, a steady round trip brings the variance down. */
static void timer_sample(struct kunit *test)
{
	struct roe_qp *qp = new_qp(test);
	struct roe_req *req = &qp->req;
	unsigned int i;

	req->rtt_psn = 0xffffff;
	req->rtt_start = 1000;
	roe_timer_sample(qp, 5000, 0xffffff);
	KUNIT_EXPECT_EQ(test, req->srtt, 0);
	roe_timer_sample(qp, 9000, 0);
	KUNIT_EXPECT_EQ(test, req->srtt, 8000);
	KUNIT_EXPECT_EQ(test, req->rttvar, 4000);
	KUNIT_EXPECT_EQ(test, req->rtt_start, 0);
	for (i = 0; i < 100; i++) {
		req->rtt_start = 1000;
		roe_timer_sample(qp, 5000, 0);
	}
	KUNIT_EXPECT_GE(test, req->srtt, 4000);
	KUNIT_EXPECT_LE(test, req->srtt, 4016);
	KUNIT_EXPECT_LE(test, req->rttvar, 64);
	/* a suspended machine does not spoil it for ever */
	req->rtt_start = 1000;
	roe_timer_sample(qp, 1000000 * (u64)NSEC_PER_SEC, 0);
	KUNIT_EXPECT_LE(test, req->srtt, NSEC_PER_SEC / 8 + 5000);
	KUNIT_EXPECT_LE(test, req->rttvar, NSEC_PER_SEC / 4);
}

/* A way longer than the RTO: it stays doubled until a packet was sent once only. */
static void timer_backoff(struct kunit *test)
{
	struct roe_ctx ctx = { .now = NSEC_PER_SEC };
	struct roe_qp *qp = new_qp(test);
	struct roe_req *req = &qp->req;

	req->backoff = 2;
	req->una = 7;
	req->rtt_start = 0;
	roe_requester_progress(qp, &ctx);
	KUNIT_EXPECT_EQ(test, rto(qp), 4ull * ROE_RTO_MIN_NS);
	req->rtt_start = ctx.now - 50 * NSEC_PER_MSEC;
	req->rtt_psn = 6;
	roe_requester_progress(qp, &ctx);
	KUNIT_EXPECT_EQ(test, req->backoff, 0);
	KUNIT_EXPECT_EQ(test, rto(qp), 150ull * NSEC_PER_MSEC);
}

/* One lost packet of a few says nothing about the window; two of one window count once. */
static void timer_window(struct kunit *test)
{
	struct roe_qp *qp = new_qp(test);
	struct roe_req *req = &qp->req;

	req->cwnd = 64;
	req->max_psn = 31;
	roe_requester_lost(qp);
	KUNIT_EXPECT_EQ(test, req->cwnd, 64);
	req->una = 31;
	req->max_psn = 31 + 32;
	KUNIT_EXPECT_TRUE(test, roe_requester_lost(qp));
	KUNIT_EXPECT_EQ(test, req->cwnd, 64 * ROE_WINDOW_KEPT / 10);
	req->una = 31 + 3;
	KUNIT_EXPECT_FALSE(test, roe_requester_lost(qp));
	KUNIT_EXPECT_EQ(test, req->cwnd, 64 * ROE_WINDOW_KEPT / 10);
}

/* @n retries at once of 100 us, refused @times; when the last may begin, after @now. */
static u64 retries(u64 now, unsigned int n, unsigned int times)
{
	u64 at = now;

	local_bh_disable();
	while (n--) {
		roe_rnr_spent(100 * NSEC_PER_USEC);
		at = roe_rnr_pace(now, now, times);
	}
	local_bh_enable();
	return at - now;
}

/* RNR retries of all QPs leave the most of a CPU to others, but for a few after a pause. */
static void timer_rnr_share(struct kunit *test)
{
	/* long ago: what it uses up of a CPU is nobody else's */
	u64 now = NSEC_PER_SEC;
	u64 took = 16 * 100 * NSEC_PER_USEC;

	/* on which CPU is all the same, as long as it is one */
	migrate_disable();
	/* what one takes is an average, of those before as well */
	retries(now, 100, 99);
	now += 10ull * NSEC_PER_SEC;
	KUNIT_EXPECT_EQ(test, retries(now, 1, 99), 0);
	now += 10ull * NSEC_PER_SEC;
	KUNIT_EXPECT_LE(test, retries(now, 500, 99), 500 * took);
	now += 10ull * NSEC_PER_SEC;
	KUNIT_EXPECT_GE(test, retries(now, 500, 99), 450 * took);
	/* nobody waits for longer than a second, however many there are */
	KUNIT_EXPECT_EQ(test, retries(now, 1000, 99), NSEC_PER_SEC);
	/* nor for long who was not refused again and again */
	KUNIT_EXPECT_LE(test, retries(now, 1, 0), took);
	KUNIT_EXPECT_LE(test, retries(now, 1, 3), 8 * took);
	KUNIT_EXPECT_GE(test, retries(now, 1, 3), 7 * took);
	/* as it was */
	retries(NSEC_PER_SEC, 1, 99);
	migrate_enable();
}

static void timer_next(struct kunit *test)
{
	static const struct {
		u64 rnr, ack, early, next;
	} rows[] = {
		{ 0, 0, 0, 0 },
		{ 5, 0, 0, 5 },
		{ 0, 5, 0, 5 },
		{ 0, 0, 5, 5 },
		{ 5, 6, 7, 5 },
		{ 7, 5, 6, 5 },
		{ 6, 7, 5, 5 },
		{ 0, 6, 5, 5 },
		{ 6, 0, 5, 5 },
		{ 5, 0, 6, 5 },
	};
	struct roe_qp *qp = new_qp(test);
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(rows); i++) {
		qp->req.rnr_deadline = rows[i].rnr;
		qp->req.ack_deadline = rows[i].ack;
		qp->req.early_deadline = rows[i].early;
		KUNIT_EXPECT_EQ_MSG(test, roe_timer_next(qp), rows[i].next, "row %u", i);
	}
}

/* t = 0: only the adaptive time-out, which never gives up. */
static void timer_off(struct kunit *test)
{
	struct roe_qp *qp = new_qp(test);

	rto(qp);
	KUNIT_EXPECT_EQ(test, qp->req.ack_deadline, 0);
	KUNIT_EXPECT_NE(test, roe_timer_next(qp), 0);
	roe_timer_disarm(qp);
	KUNIT_EXPECT_EQ(test, roe_timer_next(qp), 0);
}

static struct kunit_case timer_cases[] = {
	KUNIT_CASE(timer_rnr),
	KUNIT_CASE(timer_ack),
	KUNIT_CASE(timer_rto),
	KUNIT_CASE(timer_sample),
	KUNIT_CASE(timer_backoff),
	KUNIT_CASE(timer_window),
	KUNIT_CASE(timer_rnr_share),
	KUNIT_CASE(timer_next),
	KUNIT_CASE(timer_off),
	{}
};

static struct kunit_suite timer_suite = {
	.name = "roe_timer",
	.test_cases = timer_cases,
};

/* --- two QPs ----------------------------------------------------------------- */

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
	sim->slot = SIM_REGION;
	return sim;
}

/* The first @n packets on the wire arrive, the others are lost. */
static void arrive(struct sim *sim, unsigned int n)
{
	struct sim_pkt *pkt;

	while ((pkt = sim_take(sim))) {
		if (n) {
			n--;
			sim->now = max(sim->now, pkt->at);
			sim_receive(sim, pkt->to, &pkt->rx);
		}
		sim_put(sim, pkt);
	}
}

/* @n packets of the READ that side 0 sends (again) now come; the clock runs as long as it says. */
static u64 read_on(struct sim *sim, unsigned int n)
{
	sim_emit(sim, 0);
	arrive(sim, 1);
	sim_emit(sim, 1);
	arrive(sim, n);
	return sim->side[0].qp->req.early_deadline - sim->now;
}

static void expire(struct sim *sim)
{
	sim->now = sim->side[0].qp->req.early_deadline;
	sim_timer(sim, 0);
}

/* Each time a little of a READ comes: no doubling is left of the time-outs before. */
static void timer_backoff_read(struct kunit *test)
{
	struct sim *sim = fresh(test);
	struct roe_req *req = &sim->side[0].qp->req;
	unsigned int i;

	sim_post(sim, 0, IB_WR_RDMA_READ, 64 * SIM_MTU, SIG);
	for (i = 1; i <= 6; i++) {
		KUNIT_EXPECT_LE_MSG(test, read_on(sim, 3), 2ull * ROE_RTO_MIN_NS, "round %u", i);
		KUNIT_ASSERT_EQ(test, req->una, roe_psn_add(PSN0, 3 * i));
		expire(sim);
	}
	KUNIT_EXPECT_EQ(test, req->backoff, 1);
	KUNIT_ASSERT_TRUE(test, sim_run(sim));
	KUNIT_EXPECT_PTR_EQ(test, sim_check(sim), (const char *)NULL);
}

/* What was asked for twice from the same place says nothing (Karn). */
static void timer_backoff_read_twice(struct kunit *test)
{
	struct sim *sim = fresh(test);
	struct roe_req *req = &sim->side[0].qp->req;
	u32 srtt;

	sim_post(sim, 0, IB_WR_RDMA_READ, 64 * SIM_MTU, SIG);
	read_on(sim, 3);
	srtt = req->srtt;
	expire(sim);
	read_on(sim, 0);
	expire(sim);
	KUNIT_EXPECT_EQ(test, read_on(sim, 3), 4ull * (srtt + ROE_RTO_MIN_NS));
	KUNIT_ASSERT_EQ(test, req->una, roe_psn_add(PSN0, 6));
	KUNIT_EXPECT_EQ(test, req->srtt, srtt);
	/* from the next place, once */
	expire(sim);
	KUNIT_EXPECT_EQ(test, read_on(sim, 3), req->srtt + ROE_RTO_MIN_NS);
}

/* Nor does a response that may belong to the request before. */
static void timer_backoff_read_middle(struct kunit *test)
{
	struct sim *sim = fresh(test);
	struct roe_req *req = &sim->side[0].qp->req;
	struct sim_pkt *late;

	sim_post(sim, 0, IB_WR_RDMA_READ, 64 * SIM_MTU, SIG);
	sim_emit(sim, 0);
	arrive(sim, 1);
	sim_emit(sim, 1);
	late = sim_take(sim);
	KUNIT_ASSERT_NOT_NULL(test, late);
	sim_receive(sim, 0, &late->rx);
	sim_put(sim, late);
	late = sim_take(sim);
	KUNIT_ASSERT_NOT_NULL(test, late);
	arrive(sim, 0);
	expire(sim);
	sim_emit(sim, 0);
	sim_receive(sim, 0, &late->rx);
	sim_put(sim, late);
	KUNIT_EXPECT_EQ(test, req->una, roe_psn_add(PSN0, 2));
	KUNIT_EXPECT_EQ(test, req->backoff, 1);
}

/* side 0 sends a whole window, of which nothing arrives. Returns the window. */
static u32 in_vain(struct sim *sim)
{
	sim->slot = ROE_WINDOW_PKTS * SIM_MTU;
	sim_post(sim, 0, IB_WR_RDMA_WRITE, sim->slot, SIG);
	sim_emit(sim, 0);
	arrive(sim, 0);
	return sim->side[0].qp->req.cwnd;
}

/* On a way longer than the RTO the first answers are still to come when the clock runs out. */
static void timer_long_way(struct kunit *test)
{
	struct sim *sim = fresh(test);
	struct roe_req *req = &sim->side[0].qp->req;
	u32 window = in_vain(sim);
	unsigned int i;

	for (i = 0; i < 3; i++) {
		expire(sim);
		KUNIT_EXPECT_EQ_MSG(test, req->cwnd, window, "round %u", i);
		sim_emit(sim, 0);
		arrive(sim, 0);
	}
	KUNIT_ASSERT_TRUE(test, sim_run(sim));
	KUNIT_EXPECT_PTR_EQ(test, sim_check(sim), (const char *)NULL);
}

/* Nor is the same flight a loss twice. */
static void timer_lost_once(struct kunit *test)
{
	struct sim *sim = fresh(test);
	struct roe_req *req = &sim->side[0].qp->req;
	u32 window;

	req->srtt = NSEC_PER_MSEC;
	window = in_vain(sim) * ROE_WINDOW_KEPT / 10;
	expire(sim);
	KUNIT_EXPECT_EQ(test, req->cwnd, window);
	sim_emit(sim, 0);
	arrive(sim, 0);
	expire(sim);
	KUNIT_EXPECT_EQ(test, req->cwnd, window);
	KUNIT_ASSERT_TRUE(test, sim_run(sim));
	KUNIT_EXPECT_PTR_EQ(test, sim_check(sim), (const char *)NULL);
	/* the next one is */
	window = req->cwnd;
	in_vain(sim);
	expire(sim);
	KUNIT_EXPECT_LT(test, req->cwnd, window);
	KUNIT_ASSERT_TRUE(test, sim_run(sim));
}

/* The ACK of a WRITE behind a long READ comes when all of that has: no round trip. */
static void timer_behind_read(struct kunit *test)
{
	struct sim *sim = fresh(test);
	struct roe_req *req = &sim->side[0].qp->req;

	sim->slot = 2 * ROE_WINDOW_PKTS * SIM_MTU;
	sim_post(sim, 0, IB_WR_RDMA_READ, sim->slot, SIG);
	sim_emit(sim, 0);
	KUNIT_EXPECT_NE(test, req->rtt_start, 0);
	arrive(sim, 1);
	sim_emit(sim, 1);
	arrive(sim, 1);
	KUNIT_EXPECT_EQ(test, req->rtt_start, 0);
	sim_post(sim, 0, IB_WR_RDMA_WRITE, 10, SIG);
	sim_emit(sim, 0);
	KUNIT_EXPECT_EQ(test, sim->sent[0], 2);
	KUNIT_EXPECT_EQ(test, req->rtt_start, 0);
	KUNIT_ASSERT_TRUE(test, sim_run(sim));
	KUNIT_EXPECT_PTR_EQ(test, sim_check(sim), (const char *)NULL);
}

/* As if IP had refused what side 0 has just sent, from @psn on. */
static void refuse(struct sim *sim, u32 psn)
{
	struct roe_ctx ctx = { .now = sim->now };

	arrive(sim, 0);
	roe_requester_local_drop(sim->side[0].qp, &ctx, psn);
}

/* An interface that is down for a while says nothing about the way. */
static void timer_refused(struct kunit *test)
{
	struct sim *sim = fresh(test);
	struct roe_req *req = &sim->side[0].qp->req;
	unsigned int i;

	sim_recv(sim, 1, 10);
	sim_recv(sim, 1, 10);
	sim_post(sim, 0, IB_WR_SEND, 10, SIG);
	sim_emit(sim, 0);
	for (i = 0; i < 20; i++) {
		refuse(sim, PSN0);
		KUNIT_ASSERT_LE(test, roe_timer_next(sim->side[0].qp),
				sim->now + (ROE_LOCAL_DROP_NS << 8));
		while (sim->sent[0] == i + 1) {
			sim->now = roe_timer_next(sim->side[0].qp);
			sim_timer(sim, 0);
			sim_emit(sim, 0);
		}
	}
	/* once for what was in flight together */
	KUNIT_EXPECT_EQ(test, req->cwnd, ROE_WINDOW_PKTS * ROE_WINDOW_KEPT / 10);
	KUNIT_EXPECT_EQ(test, req->retry_cnt, 7);
	arrive(sim, 1);
	sim_emit(sim, 1);
	arrive(sim, 1);
	KUNIT_ASSERT_EQ(test, req->una, roe_psn_add(PSN0, 1));
	sim_post(sim, 0, IB_WR_SEND, 10, SIG);
	sim_emit(sim, 0);
	KUNIT_EXPECT_LE(test, req->early_deadline - sim->now, 2ull * ROE_RTO_MIN_NS);
	/* and the next one that is refused has waited for nothing */
	refuse(sim, roe_psn_add(PSN0, 1));
	KUNIT_EXPECT_EQ(test, roe_timer_next(sim->side[0].qp), sim->now + ROE_LOCAL_DROP_NS);
	KUNIT_ASSERT_TRUE(test, sim_run(sim));
	KUNIT_EXPECT_PTR_EQ(test, sim_check(sim), (const char *)NULL);
}

/* What a qdisc has taken is still in it, and is not sent again with what it refused. */
static void timer_refused_tail(struct kunit *test)
{
	struct sim *sim = fresh(test);
	struct roe_qp *qp = sim->side[0].qp;
	struct sim_pkt *pkt;

	sim_recv(sim, 1, 12 * SIM_MTU);
	sim_post(sim, 0, IB_WR_RDMA_WRITE, 3 * SIM_MTU, 0);
	sim_post(sim, 0, IB_WR_SEND, 12 * SIM_MTU, SIG);
	sim_emit(sim, 0);
	KUNIT_ASSERT_EQ(test, sim->sent[0], 15);
	arrive(sim, 5);
	refuse(sim, roe_psn_add(PSN0, 7));
	/* one of another burst */
	refuse(sim, roe_psn_add(PSN0, 5));
	refuse(sim, roe_psn_add(PSN0, 9));
	sim->now = roe_timer_next(qp);
	sim_timer(sim, 0);
	sim_emit(sim, 0);
	KUNIT_EXPECT_EQ(test, sim->sent[0], 25);
	pkt = sim_take(sim);
	KUNIT_ASSERT_NOT_NULL(test, pkt);
	KUNIT_EXPECT_EQ(test, pkt->rx.p.psn, roe_psn_add(PSN0, 5));
	sim_receive(sim, 1, &pkt->rx);
	sim_put(sim, pkt);
	KUNIT_ASSERT_TRUE(test, sim_run(sim));
	KUNIT_EXPECT_PTR_EQ(test, sim_check(sim), (const char *)NULL);
	KUNIT_EXPECT_EQ(test, sim->sent[0], 25);
}

/* The peer asks for what never left before the timer has sent it: that is no retry. */
static void timer_refused_nak(struct kunit *test)
{
	struct sim *sim = fresh(test);
	struct roe_qp *qp = sim->side[0].qp;
	struct roe_ctx ctx = { .now = sim->now };

	qp->attr.retry_cnt = 0;
	qp->req.retry_cnt = 0;
	sim_post(sim, 0, IB_WR_RDMA_WRITE, 3 * SIM_MTU, SIG);
	sim_emit(sim, 0);
	sim_put(sim, sim_take(sim));
	roe_requester_local_drop(qp, &ctx, PSN0);
	KUNIT_ASSERT_TRUE(test, sim_run(sim));
	KUNIT_EXPECT_EQ(test, qp->state, IB_QPS_RTS);
	KUNIT_EXPECT_PTR_EQ(test, sim_check(sim), (const char *)NULL);
	KUNIT_EXPECT_EQ(test, sim->sent[0], 4 + 2);
}

/* Nor is it where the timer was faster. */
static void timer_refused_nak_late(struct kunit *test)
{
	struct sim *sim = fresh(test);
	struct roe_qp *qp = sim->side[0].qp;
	struct roe_ctx ctx = { .now = sim->now };
	struct sim_pkt *pkts[4];
	unsigned int i;

	qp->attr.retry_cnt = 0;
	qp->req.retry_cnt = 0;
	sim_post(sim, 0, IB_WR_RDMA_WRITE, 4 * SIM_MTU, SIG);
	sim_emit(sim, 0);
	for (i = 0; i < 4; i++) {
		pkts[i] = sim_take(sim);
		KUNIT_ASSERT_NOT_NULL(test, pkts[i]);
	}
	roe_requester_local_drop(qp, &ctx, roe_psn_add(PSN0, 1));
	sim->now = qp->req.drop_deadline;
	sim_timer(sim, 0);
	sim_emit(sim, 0);
	/* all but the second packet, then the NAK for that, then what was sent again */
	for (i = 0; i < 4; i++) {
		if (i != 1)
			sim_receive(sim, 1, &pkts[i]->rx);
		sim_put(sim, pkts[i]);
	}
	sim_emit(sim, 1);
	KUNIT_ASSERT_TRUE(test, sim_run(sim));
	KUNIT_EXPECT_EQ(test, qp->state, IB_QPS_RTS);
	KUNIT_EXPECT_PTR_EQ(test, sim_check(sim), (const char *)NULL);
}

/* A READ whose response was lost: the ACK of a WRITE that was refused at first implies it. */
static void timer_refused_read(struct kunit *test)
{
	struct sim *sim = fresh(test);
	struct roe_qp *qp = sim->side[0].qp;
	struct roe_ctx ctx = { .now = sim->now };
	struct sim_pkt *pkt;
	unsigned int i;

	sim->slot = SIM_MTU;
	for (i = 0; i < 4; i++)
		sim_post(sim, 0, i == 1 ? IB_WR_RDMA_READ : IB_WR_RDMA_WRITE, 100, SIG);
	sim_emit(sim, 0);
	KUNIT_ASSERT_EQ(test, sim->sent[0], 4);
	arrive(sim, 3);
	roe_requester_local_drop(qp, &ctx, roe_psn_add(PSN0, 3));
	sim_emit(sim, 1);
	pkt = sim_take(sim);
	KUNIT_ASSERT_NOT_NULL(test, pkt);
	KUNIT_ASSERT_EQ(test, pkt->rx.p.opcode, ROE_OP_READ_RESP_ONLY);
	sim_put(sim, pkt);
	sim->now = qp->req.drop_deadline;
	sim_timer(sim, 0);
	sim_emit(sim, 0);
	arrive(sim, 1);
	sim_emit(sim, 1);
	arrive(sim, 1);
	sim_emit(sim, 0);
	pkt = sim_take(sim);
	KUNIT_ASSERT_NOT_NULL(test, pkt);
	KUNIT_EXPECT_EQ(test, pkt->rx.p.opcode, ROE_OP_READ_REQ);
	sim_put(sim, pkt);
	KUNIT_ASSERT_TRUE(test, sim_run(sim));
	KUNIT_EXPECT_PTR_EQ(test, sim_check(sim), (const char *)NULL);
}

/* But what was lost on the way is not forgotten, however much is refused behind it. */
static void timer_refused_lost(struct kunit *test)
{
	struct sim *sim = fresh(test);
	struct roe_qp *qp = sim->side[0].qp;
	u64 end = sim->now + 4ull * ROE_RTO_MIN_NS;
	bool again = false;
	struct sim_pkt *pkt;

	sim_post(sim, 0, IB_WR_RDMA_WRITE, 12 * SIM_MTU, SIG);
	sim_emit(sim, 0);
	while (!again && sim->now < end) {
		refuse(sim, roe_psn_add(PSN0, 5));
		sim->now = roe_timer_next(qp);
		sim_timer(sim, 0);
		sim_emit(sim, 0);
		pkt = sim_take(sim);
		if (!pkt)
			continue;
		again = pkt->rx.p.psn == PSN0;
		sim_put(sim, pkt);
	}
	KUNIT_EXPECT_TRUE(test, again);
	KUNIT_EXPECT_EQ(test, qp->req.backoff, 0);
}

/*
 * What of a burst was refused: its requests are the business of the requester, no others.
 * The PSN of an ACK says nothing about a READ.
 */
static void timer_refused_kinds(struct kunit *test)
{
	static const u8 ops[] = {
		ROE_OP_READ_RESP_MIDDLE, ROE_OP_READ_RESP_LAST, ROE_OPCODE_CNP,
		ROE_OP_SEND_FIRST, ROE_OP_READ_REQ, ROE_OP_ACK,
	};
	struct roe_tx_pkt pkts[ARRAY_SIZE(ops)] = {};
	struct roe_refused r = {};
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(ops); i++) {
		pkts[i].p.opcode = ops[i];
		pkts[i].p.psn = 10 + i;
	}
	roe_refused_add(&r, pkts, 3);
	KUNIT_EXPECT_EQ(test, r.requests, 0);
	KUNIT_EXPECT_EQ(test, r.responses, 2);
	KUNIT_EXPECT_EQ(test, r.response, 10);
	roe_refused_add(&r, pkts + 4, 2);
	KUNIT_EXPECT_EQ(test, r.requests, 1);
	KUNIT_EXPECT_EQ(test, r.request, 14);
	KUNIT_EXPECT_EQ(test, r.responses, 2);
	KUNIT_EXPECT_EQ(test, r.response, 10);
	KUNIT_EXPECT_EQ(test, r.acks, 1);
}

/*
 * After an RNR NAK no clock runs. One packet of the next burst is refused: the clock that
 * counts starts as well, or a peer that is gone would be asked for ever.
 */
static void timer_refused_dead(struct kunit *test)
{
	struct sim *sim = fresh(test);
	struct roe_qp *qp = sim->side[0].qp;
	struct roe_rx_pkt nak = {
		.p = { .opcode = ROE_OP_ACK, .psn = PSN0, .syndrome = ROE_AETH_RNR_NAK | 20 },
	};
	struct ib_wc wc = {};

	qp->timeout_ns = roe_timer_ack_ns(14);
	qp->attr.retry_cnt = 1;
	qp->req.retry_cnt = 1;
	sim_post(sim, 0, IB_WR_SEND, 10, SIG);
	sim_emit(sim, 0);
	arrive(sim, 0);
	sim_receive(sim, 0, &nak);
	KUNIT_ASSERT_TRUE(test, qp->req.rnr_wait);
	sim->now = roe_timer_next(qp);
	sim_timer(sim, 0);
	KUNIT_ASSERT_FALSE(test, qp->req.rnr_wait);
	refuse(sim, PSN0);
	sim->loss = 100;
	KUNIT_ASSERT_TRUE(test, sim_run(sim));
	KUNIT_EXPECT_EQ(test, roe_cq_poll(&sim->side[0].scq.ib, 1, &wc), 1);
	KUNIT_EXPECT_EQ(test, (int)wc.status, (int)IB_WC_RETRY_EXC_ERR);
	KUNIT_EXPECT_EQ(test, qp->state, IB_QPS_ERR);
}

/* READs that are sent again ask for no more than the window; the oldest is always sent. */
static void timer_reread_window(struct kunit *test)
{
	struct sim *sim = fresh(test);
	struct roe_req *req = &sim->side[0].qp->req;
	unsigned int i;

	sim->slot = 64 * SIM_MTU;
	req->cwnd = 256;
	for (i = 0; i < 4; i++)
		sim_post(sim, 0, IB_WR_RDMA_READ, 64 * SIM_MTU, SIG);
	sim_emit(sim, 0);
	KUNIT_ASSERT_EQ(test, sim->sent[0], 4);
	arrive(sim, 0);
	expire(sim);
	req->cwnd = ROE_WINDOW_MIN;
	req->ssthresh = ROE_WINDOW_MIN;
	sim_emit(sim, 0);
	KUNIT_EXPECT_EQ(test, sim->sent[0], 5);
	arrive(sim, 1);
	sim_emit(sim, 1);
	arrive(sim, 64);
	KUNIT_ASSERT_EQ(test, req->una, roe_psn_add(PSN0, 64));
	sim_emit(sim, 0);
	KUNIT_EXPECT_EQ(test, sim->sent[0], 6);
	KUNIT_ASSERT_TRUE(test, sim_run(sim));
	KUNIT_EXPECT_PTR_EQ(test, sim_check(sim), (const char *)NULL);
	KUNIT_EXPECT_EQ(test, sim->sent[0], 8);
}

/* A READ is sent again from its middle, @n times, and @trip later one more response comes. */
static void reread(struct sim *sim, unsigned int n, u64 trip)
{
	while (n--) {
		expire(sim);
		sim_emit(sim, 0);
		arrive(sim, 1);
		sim->now += trip;
		sim_emit(sim, 1);
		arrive(sim, 1);
	}
}

/* What is sent when the deadline has passed is lost, too; how long until the next one. */
static u64 lose_again(struct sim *sim)
{
	expire(sim);
	sim_emit(sim, 0);
	arrive(sim, 0);
	return sim->side[0].qp->req.early_deadline - sim->now;
}

/* The answer to a READ that was sent again is due sooner than the RTO says, once. */
static void timer_reread_lost(struct kunit *test)
{
	u64 trip = ROE_ANSWER_SHORT_NS * 3 / 4;
	struct sim *sim = fresh(test);
	struct roe_req *req = &sim->side[0].qp->req;

	sim_post(sim, 0, IB_WR_RDMA_READ, 64 * SIM_MTU, SIG);
	read_on(sim, 3);
	/* nothing is known about such answers yet */
	KUNIT_EXPECT_GE(test, lose_again(sim), (u64)ROE_RTO_MIN_NS);
	reread(sim, 2, trip);
	reread(sim, 1, trip / 4);
	KUNIT_ASSERT_EQ(test, req->backoff, 0);
	KUNIT_EXPECT_GE(test, lose_again(sim), 7 * trip / 4);
	KUNIT_EXPECT_LE(test, req->early_deadline - sim->now, 2 * trip);
	KUNIT_EXPECT_EQ(test, req->backoff, 1);
	/* it does not tell that the RTO was too short, which the second time-out would */
	KUNIT_EXPECT_GE(test, lose_again(sim), 2ull * ROE_RTO_MIN_NS);
	KUNIT_EXPECT_EQ(test, req->backoff, 1);
	lose_again(sim);
	KUNIT_EXPECT_EQ(test, req->backoff, 2);
	KUNIT_ASSERT_TRUE(test, sim_run(sim));
	KUNIT_EXPECT_PTR_EQ(test, sim_check(sim), (const char *)NULL);
}

/* Not where responses queue up, which may take as long as it did lately. */
static void timer_reread_queue(struct kunit *test)
{
	struct sim *sim = fresh(test);

	sim_post(sim, 0, IB_WR_RDMA_READ, 64 * SIM_MTU, SIG);
	read_on(sim, 3);
	reread(sim, 1, 2 * ROE_ANSWER_SHORT_NS);
	reread(sim, 4, ROE_ANSWER_SHORT_NS / 4);
	KUNIT_EXPECT_GE(test, lose_again(sim), (u64)ROE_RTO_MIN_NS);
	/* that was long ago */
	reread(sim, 1, ROE_ANSWER_SHORT_NS / 4);
	sim->side[0].qp->req.early_deadline += ROE_REREAD_FADE_NS / 2;
	reread(sim, 1, ROE_ANSWER_SHORT_NS / 4);
	sim->side[0].qp->req.early_deadline += ROE_REREAD_FADE_NS / 2;
	reread(sim, 1, ROE_ANSWER_SHORT_NS / 4);
	KUNIT_EXPECT_LT(test, lose_again(sim), (u64)ROE_RTO_MIN_NS);
	KUNIT_ASSERT_TRUE(test, sim_run(sim));
	KUNIT_EXPECT_PTR_EQ(test, sim_check(sim), (const char *)NULL);
}

/* A message of 8 packets, of which only the first @n arrive. */
static void lose_tail(struct sim *sim, enum ib_wr_opcode op, unsigned int n)
{
	sim_post(sim, 0, op, 8 * SIM_MTU, SIG);
	sim_emit(sim, 0);
	arrive(sim, n);
}

/* A path with samples, none of a packet that was sent twice, that has just lost one. */
static struct sim *lossy(struct kunit *test)
{
	struct sim *sim = fresh(test);
	struct roe_req *req = &sim->side[0].qp->req;

	sim->slot = 8 * SIM_MTU;
	sim_post(sim, 0, IB_WR_RDMA_WRITE, 8 * SIM_MTU, SIG);
	KUNIT_ASSERT_TRUE(test, sim_run(sim));
	KUNIT_ASSERT_NE(test, req->srtt, 0);
	/* the first loss: the peer may be busy */
	lose_tail(sim, IB_WR_RDMA_WRITE, 7);
	KUNIT_EXPECT_EQ(test, req->ask_at, 0);
	KUNIT_ASSERT_TRUE(test, sim_run(sim));
	sim_post(sim, 0, IB_WR_RDMA_WRITE, 8 * SIM_MTU, SIG);
	KUNIT_ASSERT_TRUE(test, sim_run(sim));
	KUNIT_ASSERT_EQ(test, req->backoff, 0);
	return sim;
}

/* After a loss copies of two packets ask for an answer before the RTO. */
static void timer_ask(struct kunit *test)
{
	struct sim *sim = lossy(test);
	struct roe_req *req = &sim->side[0].qp->req;
	unsigned int n;
	u64 start;

	sim->side[0].qp->attr.retry_cnt = 0;
	req->retry_cnt = 0;
	/* the answer says how many were lost, the last one or all of them; those are sent again */
	for (n = 0; n < 8; n++) {
		u32 sent = sim->sent[0];

		start = sim->now;
		lose_tail(sim, IB_WR_RDMA_WRITE, n);
		KUNIT_ASSERT_NE(test, req->ask_at, 0);
		KUNIT_EXPECT_LE(test, req->ask_at - start, 2ull * ROE_ANSWER_LEAST_NS);
		KUNIT_ASSERT_TRUE(test, sim_run(sim));
		KUNIT_EXPECT_LT(test, sim->now - start, (u64)ROE_RTO_MIN_NS);
		KUNIT_EXPECT_LE(test, sim->sent[0] - sent, 8 + 2 + 8 - n);
		/* a sample */
		sim_post(sim, 0, IB_WR_RDMA_WRITE, 8 * SIM_MTU, SIG);
		KUNIT_ASSERT_TRUE(test, sim_run(sim));
	}
	/* a second later nothing is known of a loss */
	sim->now += ROE_LOSSY_NS;
	lose_tail(sim, IB_WR_RDMA_WRITE, 7);
	KUNIT_EXPECT_EQ(test, req->ask_at, 0);
	KUNIT_ASSERT_TRUE(test, sim_run(sim));
	KUNIT_EXPECT_PTR_EQ(test, sim_check(sim), (const char *)NULL);
}

/* Copies that are lost, too: others, each time twice as late; then the RTO, no later than ever. */
static void timer_ask_lost(struct kunit *test)
{
	struct sim *sim = lossy(test);
	struct roe_req *req = &sim->side[0].qp->req;
	unsigned int sent, i;
	u64 deadline, after;

	lose_tail(sim, IB_WR_RDMA_WRITE, 0);
	deadline = req->early_deadline;
	sent = sim->sent[0];
	after = req->ask_at - sim->now;
	for (i = 1; i <= ROE_ASKS; i++) {
		KUNIT_ASSERT_NE(test, req->ask_at, 0);
		KUNIT_EXPECT_EQ(test, req->ask_at - sim->now, after << (i - 1));
		sim->now = req->ask_at;
		sim_timer(sim, 0);
		sim_emit(sim, 0);
		arrive(sim, 0);
		KUNIT_EXPECT_EQ(test, sim->sent[0], sent + 2 * i);
	}
	KUNIT_EXPECT_EQ(test, req->ask_at, 0);
	KUNIT_EXPECT_EQ(test, req->early_deadline, deadline);
	KUNIT_EXPECT_EQ(test, req->backoff, 0);
	lose_again(sim);
	KUNIT_EXPECT_EQ(test, sim->sent[0], sent + 2 * ROE_ASKS + 8);
	KUNIT_EXPECT_EQ(test, req->backoff, 1);
	/* the path may have become slow: there is no sample of what was sent twice */
	roe_timer_arm(sim->side[0].qp, &(struct roe_ctx){ .now = sim->now });
	KUNIT_EXPECT_EQ(test, req->ask_at, 0);
	/* nor does what answers those that the RTO has sent tell anything about the copies */
	req->early_deadline = sim->now + 1;
	expire(sim);
	KUNIT_ASSERT_TRUE(test, sim_run(sim));
	KUNIT_EXPECT_EQ(test, sim->sent[0], sent + 2 * ROE_ASKS + 8 + 8);
	KUNIT_EXPECT_PTR_EQ(test, sim_check(sim), (const char *)NULL);
}

/* Deliver packets, but not the one with number @lost; returns how many there were. */
static unsigned int deliver_but(struct sim *sim, unsigned int lost)
{
	struct sim_pkt *pkt;
	unsigned int i = 0;

	for (; (pkt = sim_take(sim)); i++) {
		sim->now = max(sim->now, pkt->at);
		if (i != lost)
			sim_receive(sim, pkt->to, &pkt->rx);
		sim_put(sim, pkt);
	}
	return i;
}

/* A NAK is lost: the answer to the copies says which packet is missing, and no RTO is due. */
static void timer_ask_nak_lost(struct kunit *test)
{
	struct sim *sim = lossy(test);
	struct roe_req *req = &sim->side[0].qp->req;
	u64 start = sim->now;

	sim->side[0].qp->attr.retry_cnt = 0;
	req->retry_cnt = 0;
	sim_post(sim, 0, IB_WR_RDMA_WRITE, 8 * SIM_MTU, SIG);
	sim_emit(sim, 0);
	KUNIT_ASSERT_EQ(test, deliver_but(sim, 2), 8);
	sim_emit(sim, 1);
	arrive(sim, 0);
	KUNIT_ASSERT_TRUE(test, sim_run(sim));
	KUNIT_EXPECT_LT(test, sim->now - start, 2ull * ROE_ANSWER_LEAST_NS);
	KUNIT_EXPECT_PTR_EQ(test, sim_check(sim), (const char *)NULL);
}

/* Two messages, the first one not acknowledged, wait until copies are due, which do not leave. */
static void busy(struct sim *sim)
{
	struct roe_req *req = &sim->side[0].qp->req;

	sim_post(sim, 0, IB_WR_RDMA_WRITE, 8 * SIM_MTU, SIG);
	sim_emit(sim, 0);
	sim_post(sim, 0, IB_WR_RDMA_WRITE, 8 * SIM_MTU, SIG);
	sim_emit(sim, 0);
	sim->now = req->ask_at;
	sim_timer(sim, 0);
}

/* The peer was only busy: it answers what it has, message by message, and nothing is sent again. */
static void timer_ask_busy(struct kunit *test)
{
	struct sim *sim = lossy(test);
	struct roe_req *req = &sim->side[0].qp->req;
	unsigned int again = sim->again[0], i;
	struct sim_pkt *pkt;

	busy(sim);
	KUNIT_EXPECT_TRUE(test, req->asking);
	sim_emit(sim, 0);
	KUNIT_EXPECT_TRUE(test, req->ask_open);
	KUNIT_EXPECT_EQ(test, sim->again[0], again + 2);
	for (i = 0; i < 8; i++) {
		pkt = sim_take(sim);
		sim_receive(sim, pkt->to, &pkt->rx);
		sim_put(sim, pkt);
	}
	sim_emit(sim, 1);
	KUNIT_ASSERT_TRUE(test, sim_run(sim));
	KUNIT_EXPECT_EQ(test, sim->again[0], again + 2);

	/* the answer to the first one comes just before copies would leave */
	sim_post(sim, 0, IB_WR_RDMA_WRITE, 8 * SIM_MTU, SIG);
	KUNIT_ASSERT_TRUE(test, sim_run(sim));
	again = sim->again[0];
	busy(sim);
	KUNIT_EXPECT_TRUE(test, req->asking);
	arrive(sim, 8);
	sim_emit(sim, 1);
	arrive(sim, 1);
	KUNIT_EXPECT_NE(test, req->una, req->max_psn);
	KUNIT_EXPECT_FALSE(test, req->asking);
	sim_emit(sim, 0);
	KUNIT_EXPECT_EQ(test, sim->again[0], again);
	KUNIT_ASSERT_TRUE(test, sim_run(sim));
	KUNIT_EXPECT_PTR_EQ(test, sim_check(sim), (const char *)NULL);
}

/* What is about to be sent again is not taken for lost. */
static void timer_ask_resend(struct kunit *test)
{
	struct sim *sim = lossy(test);
	struct roe_qp *qp = sim->side[0].qp;
	struct roe_ctx ctx = { .now = sim->now };

	lose_tail(sim, IB_WR_RDMA_WRITE, 0);
	qp->req.ask_open = true;
	roe_requester_heard(qp, &ctx);
	KUNIT_EXPECT_NE(test, qp->req.reorder.until, 0);
	roe_requester_gap(qp, &ctx);
	KUNIT_EXPECT_EQ(test, qp->req.reorder.until, 0);
	qp->req.ask_open = true;
	roe_requester_heard(qp, &ctx);
	KUNIT_EXPECT_EQ(test, qp->req.reorder.until, 0);
	KUNIT_ASSERT_TRUE(test, sim_run(sim));
	KUNIT_EXPECT_PTR_EQ(test, sim_check(sim), (const char *)NULL);
}

/*
 * What follows such an answer is no loss if it waits for a receive WQE: to send it again would
 * end the patience of the peer.
 */
static void timer_ask_rnr(struct kunit *test)
{
	struct sim *sim = lossy(test);
	struct roe_req *req = &sim->side[0].qp->req;
	u32 una = req->una;
	u64 start = sim->now;
	unsigned int sent;

	sim->side[1].qp->attr.min_rnr_timer = 0;	/* the longest one */
	sim_post(sim, 0, IB_WR_RDMA_WRITE, 8 * SIM_MTU, SIG);
	sim_post(sim, 0, IB_WR_SEND, 8 * SIM_MTU, SIG);
	sim_emit(sim, 0);
	arrive(sim, 16);
	sim_emit(sim, 1);
	arrive(sim, 0);
	KUNIT_ASSERT_NE(test, req->ask_at, 0);
	sent = sim->sent[0];
	sim->now = req->ask_at;
	sim_timer(sim, 0);
	sim_emit(sim, 0);
	KUNIT_EXPECT_EQ(test, sim->sent[0], sent + 2);
	KUNIT_EXPECT_TRUE(test, req->ask_open);
	arrive(sim, 2);
	sim_emit(sim, 1);
	arrive(sim, 1);
	sim_emit(sim, 0);
	KUNIT_EXPECT_EQ(test, req->una, roe_psn_add(una, 8));
	KUNIT_EXPECT_FALSE(test, req->ask_open);
	KUNIT_EXPECT_EQ(test, req->reorder.until, 0);
	KUNIT_EXPECT_EQ(test, sim->sent[0], sent + 2);
	sim_recv(sim, 1, 8 * SIM_MTU);
	KUNIT_ASSERT_TRUE(test, sim_run(sim));
	KUNIT_EXPECT_LT(test, sim->now - start, (u64)ROE_RNR_LONG_NS);
	KUNIT_EXPECT_PTR_EQ(test, sim_check(sim), (const char *)NULL);
}

/*
 * Nobody asks where the answer may have another reason to be late: a READ, a message without a
 * receive WQE, whose copy would end the peer's patience (rnr_patience()), a slow path; nor while
 * IP refuses packets.
 */
static void timer_ask_not(struct kunit *test)
{
	struct sim *sim = lossy(test);
	struct roe_qp *qp = sim->side[0].qp;
	struct roe_req *req = &qp->req;
	unsigned int sent;
	u64 timeout_ns;

	lose_tail(sim, IB_WR_RDMA_READ, 0);
	KUNIT_EXPECT_EQ(test, req->ask_at, 0);
	KUNIT_ASSERT_TRUE(test, sim_run(sim));
	sim_post(sim, 0, IB_WR_RDMA_WRITE, 8 * SIM_MTU, SIG);
	KUNIT_ASSERT_TRUE(test, sim_run(sim));

	lose_tail(sim, IB_WR_SEND, 0);
	KUNIT_EXPECT_EQ(test, req->ask_at, 0);
	sim_recv(sim, 1, 8 * SIM_MTU);
	KUNIT_ASSERT_TRUE(test, sim_run(sim));
	sim_post(sim, 0, IB_WR_RDMA_WRITE, 8 * SIM_MTU, SIG);
	KUNIT_ASSERT_TRUE(test, sim_run(sim));

	lose_tail(sim, IB_WR_RDMA_WRITE, 0);
	KUNIT_ASSERT_NE(test, req->ask_at, 0);
	req->drop_deadline = req->ask_at + 1;
	sent = sim->sent[0];
	sim->now = req->ask_at;
	sim_timer(sim, 0);
	sim_emit(sim, 0);
	KUNIT_EXPECT_EQ(test, sim->sent[0], sent);
	req->drop_deadline = 0;
	KUNIT_ASSERT_TRUE(test, sim_run(sim));
	sim_post(sim, 0, IB_WR_RDMA_WRITE, 8 * SIM_MTU, SIG);
	KUNIT_ASSERT_TRUE(test, sim_run(sim));

	/* una may be copied, the last one not */
	sim_post(sim, 0, IB_WR_RDMA_WRITE, 8 * SIM_MTU, SIG);
	sim_post(sim, 0, IB_WR_SEND, SIM_MTU, SIG);
	sim_recv(sim, 1, SIM_MTU);
	sim_emit(sim, 0);
	arrive(sim, 0);
	KUNIT_ASSERT_NE(test, req->ask_at, 0);
	sent = sim->sent[0];
	sim->now = req->ask_at;
	sim_timer(sim, 0);
	sim_emit(sim, 0);
	KUNIT_EXPECT_EQ(test, sim->sent[0], sent + 1);
	KUNIT_ASSERT_TRUE(test, sim_run(sim));
	sim_post(sim, 0, IB_WR_RDMA_WRITE, 8 * SIM_MTU, SIG);
	KUNIT_ASSERT_TRUE(test, sim_run(sim));

	/* the answers count no retry, so some deadline has to */
	lose_tail(sim, IB_WR_RDMA_WRITE, 0);
	KUNIT_ASSERT_NE(test, req->ask_at, 0);
	timeout_ns = qp->timeout_ns;
	qp->timeout_ns = 0;
	roe_timer_arm(qp, &(struct roe_ctx){ .now = sim->now });
	KUNIT_EXPECT_EQ(test, req->ask_at, 0);
	qp->timeout_ns = timeout_ns;
	KUNIT_ASSERT_TRUE(test, sim_run(sim));
	sim_post(sim, 0, IB_WR_RDMA_WRITE, 8 * SIM_MTU, SIG);
	KUNIT_ASSERT_TRUE(test, sim_run(sim));

	req->srtt = ROE_ANSWER_SHORT_NS + 1;
	lose_tail(sim, IB_WR_RDMA_WRITE, 0);
	KUNIT_EXPECT_EQ(test, req->ask_at, 0);
	KUNIT_ASSERT_TRUE(test, sim_run(sim));
	KUNIT_EXPECT_PTR_EQ(test, sim_check(sim), (const char *)NULL);
}

/* A NAK 0x60 tells that packets get lost, but not one for a message that waited for a receive. */
static void timer_ask_lossy(struct kunit *test)
{
	struct sim *sim = fresh(test);
	struct roe_qp *qp = sim->side[0].qp;
	struct roe_ctx ctx = { .now = sim->now };

	lose_tail(sim, IB_WR_SEND, 0);
	roe_requester_gap(qp, &ctx);
	KUNIT_EXPECT_EQ(test, qp->req.lossy_until, 0);
	qp->req.una = roe_psn_add(qp->req.una, 1);
	roe_requester_gap(qp, &ctx);
	KUNIT_EXPECT_GT(test, qp->req.lossy_until, sim->now);
}

static struct kunit_case pair_cases[] = {
	KUNIT_CASE(timer_backoff_read),
	KUNIT_CASE(timer_backoff_read_twice),
	KUNIT_CASE(timer_backoff_read_middle),
	KUNIT_CASE(timer_long_way),
	KUNIT_CASE(timer_lost_once),
	KUNIT_CASE(timer_behind_read),
	KUNIT_CASE(timer_refused),
	KUNIT_CASE(timer_refused_tail),
	KUNIT_CASE(timer_refused_nak),
	KUNIT_CASE(timer_refused_nak_late),
	KUNIT_CASE(timer_refused_read),
	KUNIT_CASE(timer_refused_lost),
	KUNIT_CASE(timer_refused_kinds),
	KUNIT_CASE(timer_refused_dead),
	KUNIT_CASE(timer_reread_window),
	KUNIT_CASE(timer_reread_lost),
	KUNIT_CASE(timer_reread_queue),
	KUNIT_CASE(timer_ask),
	KUNIT_CASE(timer_ask_lost),
	KUNIT_CASE(timer_ask_nak_lost),
	KUNIT_CASE(timer_ask_busy),
	KUNIT_CASE(timer_ask_resend),
	KUNIT_CASE(timer_ask_rnr),
	KUNIT_CASE(timer_ask_not),
	KUNIT_CASE(timer_ask_lossy),
	{}
};

static struct kunit_suite pair_suite = {
	.name = "roe_timer_pair",
	.init = setup,
	.exit = teardown,
	.test_cases = pair_cases,
};

kunit_test_suites(&timer_suite, &pair_suite);
