// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * UC on a network that loses, doubles and reorders (harness: sim.h).
 *
 * The oracle knows nothing of the responder: a packet counts if it is newer than
 * all before it, a message is delivered if all its packets count. Delivered means
 * data, length and immediate right, once, in order, into the next receive buffer;
 * and whatever happened, the message after it arrives.
 */
#include "sim.h"

#define PSN0	0xfffffe	/* wraps in the second packet */
#define PSN1	0x123456
#define SIG	IB_SEND_SIGNALED

#define MSGS		3
#define ARRIVALS	(2 * SIM_SCRIPT)
#define RANDOM_RUNS	2000
#define RANDOM_SEED	0x7563ull

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

	sim->side[0].qp->type = IB_QPT_UC;
	sim->side[1].qp->type = IB_QPT_UC;
	sim_reset(sim, PSN0, PSN1);
	return sim;
}

/* --- every schedule ---------------------------------------------------------- */

struct load {
	const char	*name;
	struct {
		u8	op;
		u16	len;
	} msg[MSGS];
	unsigned int	n;
};

static const struct load loads[] = {
	{ "send", { { IB_WR_SEND, 10 }, { IB_WR_SEND, 600 }, { IB_WR_SEND, 0 } }, 3 },
	{ "send_imm", { { IB_WR_SEND, 500 }, { IB_WR_SEND_WITH_IMM, 512 },
			{ IB_WR_SEND_WITH_IMM, 1 } }, 3 },
	{ "send_5", { { IB_WR_SEND, 1280 } }, 1 },
	{ "write", { { IB_WR_RDMA_WRITE, 0 }, { IB_WR_RDMA_WRITE, 700 },
		     { IB_WR_RDMA_WRITE, 256 } }, 3 },
	{ "write_imm", { { IB_WR_RDMA_WRITE_WITH_IMM, 257 }, { IB_WR_RDMA_WRITE_WITH_IMM, 0 },
			 { IB_WR_RDMA_WRITE_WITH_IMM, 300 } }, 3 },
	{ "mixed", { { IB_WR_SEND, 300 }, { IB_WR_RDMA_WRITE, 512 },
		     { IB_WR_RDMA_WRITE_WITH_IMM, 9 } }, 3 },
};

static void load_desc(const struct load *load, char *desc)
{
	strscpy(desc, load->name, KUNIT_PARAM_DESC_SIZE);
}

KUNIT_ARRAY_PARAM(load, loads, load_desc);

static unsigned int packets(const struct load *load, unsigned int msg)
{
	return roe_psn_count(load->msg[msg].len, SIM_MTU);
}

/* Packets as they arrive by the script, copies of the last kind at the end. */
static unsigned int arrivals(const struct sim *sim, u8 *list)
{
	unsigned int i, n = 0;

	for (i = 0; i < sim->limit; i++) {
		u8 pkt = sim->order[i];

		if (sim->fate[pkt] != SIM_DROP)
			list[n++] = pkt;
		if (sim->fate[pkt] == SIM_TWICE && !sim->dup_last)
			list[n++] = pkt;
	}
	for (i = 0; sim->dup_last && i < sim->limit; i++)
		if (sim->fate[sim->order[i]] == SIM_TWICE)
			list[n++] = sim->order[i];
	return n;
}

/* Bit per message that must be delivered. */
static u32 oracle(const struct sim *sim, const struct load *load)
{
	u32 counts = 0, delivered = 0;
	unsigned int i, n, first = 0;
	u8 list[ARRIVALS];
	int newest = -1;

	n = arrivals(sim, list);
	for (i = 0; i < n; i++) {
		if (list[i] <= newest)
			continue;
		newest = list[i];
		counts |= BIT(list[i]);
	}
	for (i = 0; i < load->n; i++) {
		u32 all = GENMASK(first + packets(load, i) - 1, first);

		if ((counts & all) == all)
			delivered |= BIT(i);
		first += packets(load, i);
	}
	return delivered;
}

static bool takes_recv(u8 op)
{
	return op != IB_WR_RDMA_WRITE;
}

/* Receive number @n of side 1 must be message @msg of side 0. */
static const char *check_recv(struct sim *sim, unsigned int n, unsigned int msg, u8 op, u32 len)
{
	struct sim_side *side = sim->side;
	bool want_imm = op != IB_WR_SEND;
	struct ib_wc wc;

	if (!roe_cq_poll(&side[1].rcq.ib, 1, &wc))
		return "receive completion missing";
	if (wc.status != IB_WC_SUCCESS || wc.wr_id != n)
		return "receive status or order";
	if (wc.byte_len != len)
		return "receive length";
	if (!!(wc.wc_flags & IB_WC_WITH_IMM) != want_imm)
		return "immediate flag";
	if (want_imm && wc.ex.imm_data != cpu_to_be32(0xabc00000 + msg))
		return "immediate";
	if (op != IB_WR_RDMA_WRITE_WITH_IMM &&
	    memcmp(side[1].rcv + n * sim->slot, side[0].src + msg * sim->slot, len))
		return "data received";
	return NULL;
}

static const char *check_write(struct sim *sim, unsigned int msg, u32 len)
{
	const u8 *dst = sim->side[1].dst + msg * sim->slot;

	if (memcmp(dst, sim->side[0].src + msg * sim->slot, len))
		return "data written";
	return dst[len] == SIM_SECRET ? NULL : "data behind the end";
}

static const char *check_senders(struct sim *sim)
{
	struct ib_wc wc;
	unsigned int i;

	for (i = 0; i < sim->side[0].wrs; i++) {
		if (!roe_cq_poll(&sim->side[0].scq.ib, 1, &wc))
			return "send completion missing";
		if (wc.wr_id != i || wc.status != IB_WC_SUCCESS)
			return "send completion";
	}
	return roe_cq_poll(&sim->side[0].scq.ib, 1, &wc) ? "send completion too many" : NULL;
}

static const char *check_load(struct sim *sim, const struct load *load, u32 delivered)
{
	unsigned int i, n = 0;
	const char *wrong;
	struct ib_wc wc;

	for (i = 0; i < load->n; i++) {
		u8 op = load->msg[i].op;
		u32 len = load->msg[i].len;

		if (!(delivered & BIT(i)))
			continue;
		wrong = takes_recv(op) ? check_recv(sim, n++, i, op, len) : NULL;
		if (!wrong && op != IB_WR_SEND && op != IB_WR_SEND_WITH_IMM)
			wrong = check_write(sim, i, len);
		if (wrong)
			return wrong;
	}
	if (roe_cq_poll(&sim->side[1].rcq.ib, 1, &wc))
		return "receive completion too many";
	/* now nothing is lost any more */
	sim_post(sim, 0, IB_WR_SEND_WITH_IMM, 400, SIG);
	if (!sim_run(sim))
		return "never quiet";
	wrong = check_recv(sim, n, load->n, IB_WR_SEND_WITH_IMM, 400);
	return wrong ?: check_senders(sim);
}

static const char *one_schedule(struct sim *sim, const struct load *load)
{
	unsigned int i;

	for (i = 0; i < MSGS + 1; i++)
		sim_recv(sim, 1, 1300);
	for (i = 0; i < load->n; i++)
		sim_post(sim, 0, load->msg[i].op, load->msg[i].len, SIG);
	if (!sim_run(sim))
		return "never quiet";
	if (sim->sent[1])
		return "UC has answered";
	return check_load(sim, load, oracle(sim, load));
}

static u32 all_schedules(struct kunit *test, const struct load *load, bool dup_last)
{
	unsigned int i, n = 0;
	u32 fates, perm, runs = 0;

	for (i = 0; i < load->n; i++)
		n += packets(load, i);
	KUNIT_ASSERT_LE(test, n, SIM_SCRIPT);
	for (fates = 0; fates < sim_fates(n); fates++) {
		for (perm = 0; perm < sim_orders(n); perm++) {
			struct sim *sim = test->priv;
			const char *wrong;

			if (!sim_script(sim, n, fates, perm))
				continue;
			fresh(test);
			sim->scripted = true;
			sim->dir = 0;
			sim->limit = n;
			sim->dup_last = dup_last;
			wrong = one_schedule(sim, load);
			runs++;
			if (wrong) {
				KUNIT_FAIL(test, "last %d fates %u perm %u: %s", dup_last,
					   fates, perm, wrong);
				return runs;
			}
		}
		cond_resched();
	}
	return runs;
}

static void uc_every_schedule(struct kunit *test)
{
	u32 runs = all_schedules(test, test->param_value, false);

	runs += all_schedules(test, test->param_value, true);
	kunit_info(test, "%u schedules\n", runs);
}

/* --- random schedules -------------------------------------------------------- */

static u32 below(struct sim *sim, u32 n)
{
	return prandom_u32_state(&sim->rnd) % n;
}

/* Each completion names its message by the immediate: newer than the last one. */
static const char *check_random(struct sim *sim, unsigned int i, const u16 *lens,
				unsigned int posted)
{
	struct sim_side *side = &sim->side[i], *peer = &sim->side[1 - i];
	unsigned int n = 0;
	int newest = -1;
	struct ib_wc wc;

	for (; roe_cq_poll(&side->rcq.ib, 1, &wc); n++) {
		u32 msg = be32_to_cpu(wc.ex.imm_data) - 0xabc00000;

		if (wc.status != IB_WC_SUCCESS || wc.wr_id != n)
			return "receive status or order";
		if (msg >= posted || (int)msg <= newest)
			return "message twice or out of order";
		if (wc.byte_len != lens[msg])
			return "length";
		if (wc.opcode == IB_WC_RECV &&
		    memcmp(side->rcv + n * sim->slot, peer->src + msg * sim->slot, lens[msg]))
			return "data received";
		if (wc.opcode != IB_WC_RECV &&
		    memcmp(side->dst + msg * sim->slot, peer->src + msg * sim->slot, lens[msg]))
			return "data written";
		newest = msg;
	}
	return newest == posted - 1 ? NULL : "the last message, not lost, is missing";
}

static const char *random_run(struct sim *sim, u64 seed)
{
	unsigned int i, k, n;
	u16 lens[2][26];

	prandom_seed_state(&sim->rnd, seed);
	n = 1 + below(sim, 24);
	for (i = 0; i < 2; i++)
		for (k = 0; k < n + 1; k++)
			sim_recv(sim, i, sim->slot);
	sim->loss = below(sim, 31);
	sim->dup = below(sim, 31);
	sim->delay = below(sim, 31);
	sim->lazy = below(sim, 2);
	for (k = 0; k <= n; k++) {
		if (k == n) {
			if (!sim_run(sim))
				return "never quiet";
			sim->loss = 0;
			sim->delay = 0;
		}
		for (i = 0; i < 2; i++) {
			lens[i][k] = below(sim, 3) ? below(sim, 800) : below(sim, 3000);
			sim_post(sim, i, below(sim, 2) ? IB_WR_SEND_WITH_IMM :
				 IB_WR_RDMA_WRITE_WITH_IMM, lens[i][k], SIG);
		}
	}
	if (!sim_run(sim))
		return "never quiet";
	return check_random(sim, 0, lens[1], n + 1) ?: check_random(sim, 1, lens[0], n + 1) ?:
	       check_senders(sim);
}

static void uc_random(struct kunit *test)
{
	unsigned int i;

	for (i = 0; i < RANDOM_RUNS; i++, cond_resched()) {
		const char *wrong = random_run(fresh(test), RANDOM_SEED + i);

		if (wrong) {
			KUNIT_FAIL(test, "seed %#llx: %s", RANDOM_SEED + i, wrong);
			return;
		}
	}
}

/* --- errors ------------------------------------------------------------------ */

static enum ib_wc_status status_of(struct roe_cq *cq)
{
	struct ib_wc wc;

	return roe_cq_poll(&cq->ib, 1, &wc) ? wc.status : 99;
}

#define EXPECT_STATUS(test, cq, want) KUNIT_EXPECT_EQ(test, (int)status_of(cq), (int)(want))

/* After a message that was refused the next one arrives, and nobody died. */
static void expect_dropped(struct kunit *test, struct sim *sim)
{
	struct sim_side *side = sim->side;

	sim_post(sim, 0, IB_WR_SEND, 300, SIG);
	KUNIT_ASSERT_TRUE(test, sim_run(sim));
	EXPECT_STATUS(test, &side[0].scq, IB_WC_SUCCESS);
	EXPECT_STATUS(test, &side[0].scq, IB_WC_SUCCESS);
	EXPECT_STATUS(test, &side[1].rcq, IB_WC_SUCCESS);
	EXPECT_STATUS(test, &side[1].rcq, 99);
	KUNIT_EXPECT_MEMEQ(test, side[1].rcv, side[0].src + sim->slot, 300);
	KUNIT_EXPECT_EQ(test, side[0].qp->state, IB_QPS_RTS);
	KUNIT_EXPECT_EQ(test, side[1].qp->state, IB_QPS_RTS);
	KUNIT_EXPECT_EQ(test, side[1].events, 0);
	KUNIT_EXPECT_EQ(test, sim->sent[1], 0);
}

static void uc_error_peer(struct kunit *test)
{
	static const struct {
		u8 op, access;
		bool bad_key;
		u16 len;
	} rows[] = {
		{ IB_WR_RDMA_WRITE, 7, true, 100 },
		{ IB_WR_RDMA_WRITE, 7, true, 700 },
		{ IB_WR_RDMA_WRITE_WITH_IMM, 7, true, 700 },
		{ IB_WR_RDMA_WRITE, 0, false, 700 },
		{ IB_WR_SEND, 7, false, 301 },
		{ IB_WR_SEND, 7, false, 1200 },
	};
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(rows); i++) {
		struct sim *sim = fresh(test);

		sim_recv(sim, 1, 300);
		if (!rows[i].access)
			sim->side[1].qp->access = 0;
		sim_post(sim, 0, rows[i].op, rows[i].len, SIG);
		if (rows[i].bad_key)
			roe_sq_slot(&sim->side[0].qp->sq, 0)->rkey ^= 1;
		expect_dropped(test, sim);
		if (rows[i].op != IB_WR_SEND)
			KUNIT_EXPECT_EQ(test, sim->side[1].dst[0], SIM_SECRET);
	}
}

/* No receive WQE: the message is lost, no RNR. */
static void uc_error_no_recv(struct kunit *test)
{
	struct sim *sim = fresh(test);

	sim_post(sim, 0, IB_WR_SEND, 700, SIG);
	KUNIT_ASSERT_TRUE(test, sim_run(sim));
	sim_recv(sim, 1, 300);
	expect_dropped(test, sim);
}

/* A receive WQE with a bad key is the receiver's own fault. */
static void uc_error_own_recv(struct kunit *test)
{
	struct sim *sim = fresh(test);
	struct sim_side *side = sim->side;

	sim_recv(sim, 1, 300);
	sim_recv(sim, 1, 300);
	side[1].qp->rq.slots[0].sge[1].lkey ^= 1;
	sim_post(sim, 0, IB_WR_SEND, 300, SIG);
	KUNIT_ASSERT_TRUE(test, sim_run(sim));
	EXPECT_STATUS(test, &side[0].scq, IB_WC_SUCCESS);
	EXPECT_STATUS(test, &side[1].rcq, IB_WC_LOC_PROT_ERR);
	EXPECT_STATUS(test, &side[1].rcq, IB_WC_WR_FLUSH_ERR);
	KUNIT_EXPECT_EQ(test, side[1].qp->state, IB_QPS_ERR);
	KUNIT_EXPECT_EQ(test, sim->sent[1], 0);
}

/* A local error stops the SQ; the RQ lives, and so does the SQ after RTS. */
static void uc_error_sqe(struct kunit *test)
{
	struct sim *sim = fresh(test);
	struct sim_side *side = sim->side;

	sim_recv(sim, 0, 300);
	sim_recv(sim, 1, 300);
	sim_post(sim, 0, IB_WR_SEND, 100, SIG);
	sim_post(sim, 0, IB_WR_SEND, 700, 0);
	roe_sq_slot(&side[0].qp->sq, 1)->sge[1].lkey ^= 1;
	sim_post(sim, 0, IB_WR_SEND, 100, 0);
	KUNIT_ASSERT_TRUE(test, sim_run(sim));
	EXPECT_STATUS(test, &side[0].scq, IB_WC_SUCCESS);
	EXPECT_STATUS(test, &side[0].scq, IB_WC_LOC_PROT_ERR);
	EXPECT_STATUS(test, &side[0].scq, IB_WC_WR_FLUSH_ERR);
	EXPECT_STATUS(test, &side[0].scq, 99);
	EXPECT_STATUS(test, &side[1].rcq, IB_WC_SUCCESS);
	KUNIT_EXPECT_EQ(test, side[0].qp->state, IB_QPS_SQE);

	sim_post(sim, 1, IB_WR_SEND, 300, SIG);
	KUNIT_ASSERT_TRUE(test, sim_run(sim));
	EXPECT_STATUS(test, &side[0].rcq, IB_WC_SUCCESS);

	side[0].qp->state = IB_QPS_RTS;
	sim_recv(sim, 1, 300);
	sim_post(sim, 0, IB_WR_SEND, 300, SIG);
	KUNIT_ASSERT_TRUE(test, sim_run(sim));
	EXPECT_STATUS(test, &side[0].scq, IB_WC_SUCCESS);
	EXPECT_STATUS(test, &side[1].rcq, IB_WC_SUCCESS);
}

/*
 * The rest of a message that SQD lets go on fails: its memory is gone. What is posted behind
 * it does not wait in SQD any more, and after RTS the peer takes the next one.
 */
static void uc_error_draining(struct kunit *test)
{
	const u32 len = 2 * ROE_TXB_PKTS * SIM_MTU;
	struct sim *sim = fresh(test);
	struct sim_side *side = sim->side;
	struct roe_qp *qp = side[0].qp;

	sim->slot = len;
	sim_recv(sim, 1, len);
	sim_post(sim, 0, IB_WR_REG_MR, 0, SIG);
	sim_post(sim, 0, IB_WR_SEND, len, SIG);
	/* a limit as after a CNP: one burst now, and the next later */
	memset(&qp->rate, 0, sizeof(qp->rate));
	qp->rate.rate = SZ_16M;
	qp->rate.target = SZ_16M;
	qp->rate.round = ROE_RATE_ROUND_NS;
	qp->rate.cut_at = sim->now;
	qp->rate.grown_at = sim->now;
	sim_emit(sim, 0);
	KUNIT_ASSERT_GT(test, sim->sent[0], 0);
	KUNIT_ASSERT_LT(test, sim->sent[0], 2 * ROE_TXB_PKTS);
	qp->state = IB_QPS_SQD;
	sim_post(sim, 0, IB_WR_SEND, 100, 0);
	roe_mr_revoke(&side[0].fast, ROE_MR_FREE);
	side[0].use_fast = false;
	KUNIT_ASSERT_TRUE(test, sim_run(sim));
	EXPECT_STATUS(test, &side[0].scq, IB_WC_SUCCESS);
	EXPECT_STATUS(test, &side[0].scq, IB_WC_LOC_PROT_ERR);
	EXPECT_STATUS(test, &side[0].scq, IB_WC_WR_FLUSH_ERR);
	EXPECT_STATUS(test, &side[0].scq, 99);
	EXPECT_STATUS(test, &side[1].rcq, 99);
	KUNIT_EXPECT_EQ(test, qp->state, IB_QPS_SQE);
	KUNIT_EXPECT_EQ(test, side[1].qp->state, IB_QPS_RTS);

	qp->state = IB_QPS_RTS;
	sim_post(sim, 0, IB_WR_SEND, 300, SIG);
	KUNIT_ASSERT_TRUE(test, sim_run(sim));
	EXPECT_STATUS(test, &side[0].scq, IB_WC_SUCCESS);
	EXPECT_STATUS(test, &side[1].rcq, IB_WC_SUCCESS);
	KUNIT_EXPECT_MEMEQ(test, side[1].rcv, side[0].src + 3 * sim->slot, 300);
	memset(&qp->rate, 0, sizeof(qp->rate));
}

/* What was registered for a UC QP is invalidated by it, in its turn; a wrong key is refused. */
static void uc_fast_reg(struct kunit *test)
{
	struct sim *sim = fresh(test);
	struct sim_side *side = sim->side;

	sim_recv(sim, 1, 700);
	sim_post(sim, 0, IB_WR_REG_MR, 0, SIG);
	sim_post(sim, 0, IB_WR_SEND, 700, SIG);
	sim_post(sim, 0, IB_WR_LOCAL_INV, 0, SIG);
	KUNIT_ASSERT_TRUE(test, sim_run(sim));
	KUNIT_EXPECT_NULL(test, sim_check(sim));
	KUNIT_EXPECT_EQ(test, side[0].fast.state, ROE_MR_FREE);

	sim_post(sim, 0, IB_WR_LOCAL_INV, 0, 0);
	roe_sq_slot(&side[0].qp->sq, 3)->inv_rkey ^= 1 << ROE_KEY_INDEX_SHIFT;
	KUNIT_ASSERT_TRUE(test, sim_run(sim));
	EXPECT_STATUS(test, &side[0].scq, IB_WC_MW_BIND_ERR);
	KUNIT_EXPECT_EQ(test, side[0].qp->state, IB_QPS_SQE);
}

static bool inject(struct sim *sim, u32 psn)
{
	struct roe_rx_pkt rx = {
		.p = { .opcode = ROE_XPORT_UC | ROE_OP_SEND_ONLY, .psn = psn & ROE_PSN_MASK },
	};

	sim_receive(sim, 1, &rx);
	return status_of(&sim->side[1].rcq) == IB_WC_SUCCESS;
}

/* Late is only what is a little behind: a long outage must not make deaf. */
static void uc_late(struct kunit *test)
{
	struct sim *sim = fresh(test);
	unsigned int i;

	for (i = 0; i < 12; i++)
		sim_recv(sim, 1, 300);
	KUNIT_EXPECT_TRUE(test, inject(sim, PSN0));
	KUNIT_EXPECT_FALSE(test, inject(sim, PSN0));
	KUNIT_EXPECT_TRUE(test, inject(sim, PSN0 + 5));
	KUNIT_EXPECT_FALSE(test, inject(sim, PSN0 + 4));
	KUNIT_EXPECT_FALSE(test, inject(sim, PSN0 + 6 - ROE_UC_LATE_PKTS));
	KUNIT_EXPECT_TRUE(test, inject(sim, PSN0 + 5 - ROE_UC_LATE_PKTS));
	KUNIT_EXPECT_TRUE(test, inject(sim, PSN0 + 0x7fffff));
	KUNIT_EXPECT_TRUE(test, inject(sim, PSN0));
	KUNIT_EXPECT_EQ(test, sim->side[1].qp->resp.psn, PSN0 + 1);
	/* a peer that begins anew some time later; what it repeats then is late */
	KUNIT_EXPECT_TRUE(test, inject(sim, PSN0 + 500));
	sim->now += ROE_UC_LATE_NS - 1;
	KUNIT_EXPECT_FALSE(test, inject(sim, PSN0));
	sim->now++;
	KUNIT_EXPECT_TRUE(test, inject(sim, PSN0));
	KUNIT_EXPECT_FALSE(test, inject(sim, PSN0));
	KUNIT_EXPECT_TRUE(test, inject(sim, PSN0 + 1));
}

/* A peer that begins with another PSN than it was said to. */
static void uc_begins_behind(struct kunit *test)
{
	struct sim *sim = fresh(test);

	sim_recv(sim, 1, 300);
	sim_recv(sim, 1, 300);
	KUNIT_EXPECT_TRUE(test, inject(sim, PSN0 - 10));
	KUNIT_EXPECT_TRUE(test, inject(sim, PSN0 - 9));
}

/* What only RC has is nothing for UC, whoever sends it. */
static void uc_opcodes(struct kunit *test)
{
	struct sim *sim = fresh(test);
	struct ib_wc wc;
	unsigned int op;

	sim_recv(sim, 1, 300);
	for (op = ROE_OP_READ_REQ; op <= ROE_OP_MASK; op++) {
		struct roe_rx_pkt rx = {
			.p = { .opcode = ROE_XPORT_UC | op,
			       .psn = sim->side[1].qp->resp.psn },
		};

		sim_receive(sim, 1, &rx);
		KUNIT_EXPECT_FALSE(test, sim_emit(sim, 1));
		KUNIT_EXPECT_FALSE(test, roe_cq_poll(&sim->side[1].rcq.ib, 1, &wc));
	}
	KUNIT_EXPECT_TRUE(test, inject(sim, sim->side[1].qp->resp.psn));
}

static struct kunit_case uc_cases[] = {
	KUNIT_CASE_PARAM(uc_every_schedule, load_gen_params),
	KUNIT_CASE(uc_random),
	KUNIT_CASE(uc_error_peer),
	KUNIT_CASE(uc_error_no_recv),
	KUNIT_CASE(uc_error_own_recv),
	KUNIT_CASE(uc_error_sqe),
	KUNIT_CASE(uc_error_draining),
	KUNIT_CASE(uc_fast_reg),
	KUNIT_CASE(uc_late),
	KUNIT_CASE(uc_begins_behind),
	KUNIT_CASE(uc_opcodes),
	{}
};

static struct kunit_suite uc_suite = {
	.name = "roe_uc",
	.init = setup,
	.exit = teardown,
	.test_cases = uc_cases,
};

kunit_test_suites(&uc_suite);
