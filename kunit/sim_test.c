// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Two QPs on a network that loses, doubles and reorders (harness: sim.h).
 *
 * Schedules are complete: for every operation that sends packets, every way in
 * which the first ones of one direction (five at most, those sent before any of
 * them arrives) can be dropped, delivered or doubled, in every order, with the
 * copies right behind their packets or behind all; and with copies anywhere among
 * the first three. Then random ones. Whatever the network did: data right, completions
 * exactly once and in order, atomics executed once, QP still in RTS.
 */
#include <linux/lockdep.h>
#include <linux/random.h>
#include <linux/sched.h>
#include "../drivers/roe/early.h"
#include "sim.h"

#define PSN0	0xfffffd	/* wraps in the third packet */
#define PSN1	0x7ffffe

#define RANDOM_RUNS	2500
#define MORE_RUNS	1200	/* of what is new each time, or a variation of it */
#define RANDOM_SEED	0x726f65ull

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

/* --- every schedule ---------------------------------------------------------- */

struct load {
	const char	*name;
	struct {
		u8	op;
		u16	len;
		u8	flags;
	} wr[6];
	unsigned int	n;
};

#define SIG	IB_SEND_SIGNALED

static const struct load loads[] = {
	{ "send", { { IB_WR_RDMA_WRITE, 10, SIG }, { IB_WR_SEND, 600, SIG },
		    { IB_WR_SEND, 0, SIG } }, 3 },
	{ "send_imm", { { IB_WR_SEND, 256, 0 }, { IB_WR_SEND_WITH_IMM, 513, SIG },
			{ IB_WR_RDMA_WRITE, 1, SIG } }, 3 },
	{ "send_5", { { IB_WR_SEND, 1280, SIG } }, 1 },
	{ "write", { { IB_WR_SEND, 10, SIG }, { IB_WR_RDMA_WRITE, 700, SIG },
		     { IB_WR_RDMA_WRITE, 0, SIG } }, 3 },
	{ "write_imm", { { IB_WR_SEND, 10, SIG }, { IB_WR_RDMA_WRITE_WITH_IMM, 768, SIG },
			 { IB_WR_RDMA_WRITE_WITH_IMM, 0, SIG } }, 3 },
	{ "read", { { IB_WR_RDMA_WRITE, 20, SIG }, { IB_WR_RDMA_READ, 600, SIG },
		    { IB_WR_SEND, 30, SIG } }, 3 },
	{ "reads", { { IB_WR_RDMA_READ, 300, SIG }, { IB_WR_RDMA_READ, 0, 0 },
		     { IB_WR_SEND, 30, IB_SEND_FENCE }, { IB_WR_RDMA_READ, 512, SIG },
		     { IB_WR_SEND, 2, SIG } }, 5 },
	{ "read_5", { { IB_WR_RDMA_READ, 1279, SIG } }, 1 },
	{ "cmp_swap", { { IB_WR_RDMA_WRITE, 8, SIG }, { IB_WR_ATOMIC_CMP_AND_SWP, 8, SIG },
			{ IB_WR_ATOMIC_CMP_AND_SWP, 8, 0 }, { IB_WR_ATOMIC_CMP_AND_SWP, 8, SIG },
			{ IB_WR_SEND, 8, SIG } }, 5 },
	{ "fetch_add", { { IB_WR_SEND, 8, SIG }, { IB_WR_ATOMIC_FETCH_AND_ADD, 8, SIG },
			 { IB_WR_ATOMIC_FETCH_AND_ADD, 8, SIG },
			 { IB_WR_ATOMIC_FETCH_AND_ADD, 8, 0 }, { IB_WR_RDMA_READ, 9, SIG } }, 5 },
	{ "place", { { IB_WR_RDMA_WRITE, 9, SIG }, { IB_WR_FLUSH, 0, SIG },
		     { IB_WR_ATOMIC_WRITE, 8, SIG }, { IB_WR_ATOMIC_FETCH_AND_ADD, 8, SIG },
		     { IB_WR_ATOMIC_WRITE, 8, 0 } }, 5 },
	{ "send_inv", { { IB_WR_SEND, 300, SIG }, { IB_WR_SEND_WITH_INV, 500, SIG },
			{ IB_WR_RDMA_WRITE, 9, SIG } }, 3 },
	{ "reg_mr", { { IB_WR_RDMA_WRITE, 9, SIG }, { IB_WR_REG_MR, 0, SIG },
		      { IB_WR_SEND, 600, 0 }, { IB_WR_LOCAL_INV, 0, SIG },
		      { IB_WR_RDMA_WRITE, 9, SIG } }, 5 },
	{ "lent_inv", { { IB_WR_REG_MR, 0, 0 }, { IB_WR_RDMA_WRITE, 300, SIG },
			{ IB_WR_SEND_WITH_INV, 300, SIG }, { IB_WR_RDMA_WRITE, 9, SIG } }, 4 },
};

static void load_desc(const struct load *load, char *desc)
{
	strscpy(desc, load->name, KUNIT_PARAM_DESC_SIZE);
}

KUNIT_ARRAY_PARAM(load, loads, load_desc);

static bool has_inv(const struct load *load)
{
	unsigned int i;

	for (i = 0; i < load->n; i++)
		if (load->wr[i].op == IB_WR_SEND_WITH_INV)
			return true;
	return false;
}

static void post_load(struct sim *sim, const struct load *load)
{
	struct sim_side *peer = &sim->side[1];
	unsigned int i;

	for (i = 0; i < 4; i++)
		sim_recv(sim, 1, 2048);
	if (has_inv(load))
		roe_mr_fast_reg(peer->qp->pd, &peer->fast, peer->fast.key,
				IB_ACCESS_LOCAL_WRITE | IB_ACCESS_REMOTE_WRITE);
	for (i = 0; i < load->n; i++)
		sim_post(sim, 0, load->wr[i].op, load->wr[i].len, load->wr[i].flags);
}

static const char *one_schedule(struct sim *sim, const struct load *load)
{
	post_load(sim, load);
	if (!sim_run(sim))
		return "never quiet";
	if (has_inv(load) && sim->side[1].fast.state != ROE_MR_FREE)
		return "not invalidated";
	return sim_check(sim);
}

static void begin_run(struct sim *sim)
{
	sim_reset(sim, PSN0, PSN1);
	/* enough for each message, and half of it to be filled the next time */
	sim->slot = 2048;
}

/* How many packets there are to play with in direction @dir. */
static unsigned int clean_run(struct kunit *test, const struct load *load, unsigned int dir)
{
	struct sim *sim = test->priv;
	const char *wrong;

	begin_run(sim);
	wrong = one_schedule(sim, load);
	KUNIT_EXPECT_NULL_MSG(test, wrong, "clean network: %s", wrong);
	return min_t(unsigned int, sim->sent[dir], SIM_SCRIPT);
}

/* With a script of the first @n packets. */
static void begin_script(struct sim *sim, unsigned int dir, unsigned int n)
{
	begin_run(sim);
	sim->scripted = true;
	sim->dir = dir;
	/* fewer may come than in a clean run: packets wait for answers */
	sim->limit = n;
}

static u32 all_schedules(struct kunit *test, const struct load *load, unsigned int dir,
			 bool dup_last)
{
	/* of n packets k arrive, in any order, each of them once or twice */
	static const u16 schedules[SIM_SCRIPT + 1] = { 1, 3, 13, 79, 633, 6331 };
	struct sim *sim = test->priv;
	unsigned int n = clean_run(test, load, dir);
	u32 fates, perm, runs = 0;
	const char *wrong;

	for (fates = 0; fates < sim_fates(n); fates++) {
		for (perm = 0; perm < sim_orders(n); perm++) {
			if (!sim_script(sim, n, fates, perm))
				continue;
			begin_script(sim, dir, n);
			sim->dup_last = dup_last;
			wrong = one_schedule(sim, load);
			runs++;
			if (wrong) {
				KUNIT_FAIL(test, "dir %u last %d fates %u perm %u: %s", dir,
					   dup_last, fates, perm, wrong);
				return runs;
			}
		}
		cond_resched();
	}
	KUNIT_EXPECT_EQ(test, runs, schedules[n]);
	return runs;
}

/* Copies wherever one can be, such as 1 2 1 3. */
static u32 all_lists(struct kunit *test, const struct load *load, unsigned int dir)
{
	/* words of that many letters, each of them twice at most */
	static const u16 words[] = { 1, 3, 19, 271 };
	struct sim *sim = test->priv;
	unsigned int n = clean_run(test, load, dir);
	u32 number, runs = 0;
	const char *wrong;

	for (number = 0; number < sim_lists(n); number++, cond_resched()) {
		if (!sim_list(sim, n, number))
			continue;
		begin_script(sim, dir, n);
		sim->listed = true;
		wrong = one_schedule(sim, load);
		runs++;
		if (wrong) {
			KUNIT_FAIL(test, "dir %u list %u: %s", dir, number, wrong);
			return runs;
		}
	}
	KUNIT_EXPECT_EQ(test, runs, words[min_t(unsigned int, n, SIM_LIST)]);
	return runs;
}

static void sim_every_schedule(struct kunit *test)
{
	u32 runs = 0;
	unsigned int i;

	/* Hundred thousands of them take the locks in the order of the random ones. */
	lockdep_off();
	for (i = 0; i < 4; i++)
		runs += all_schedules(test, test->param_value, i & 1, i & 2);
	for (i = 0; i < 2; i++)
		runs += all_lists(test, test->param_value, i);
	lockdep_on();
	kunit_info(test, "%u schedules\n", runs);
}

/* --- random schedules -------------------------------------------------------- */

static u32 below(struct sim *sim, u32 n)
{
	return prandom_u32_state(&sim->rnd) % n;
}

static void post_random(struct sim *sim, unsigned int i)
{
	static const u8 ops[] = {
		IB_WR_SEND, IB_WR_SEND_WITH_IMM, IB_WR_RDMA_WRITE, IB_WR_RDMA_WRITE_WITH_IMM,
		IB_WR_RDMA_READ, IB_WR_RDMA_READ, IB_WR_ATOMIC_FETCH_AND_ADD, IB_WR_ATOMIC_WRITE,
		IB_WR_ATOMIC_CMP_AND_SWP, IB_WR_FLUSH,
	};
	unsigned int n = 1 + below(sim, 24);

	while (n--) {
		u32 len = below(sim, 4) ? below(sim, 600) : below(sim, sim->slot - 1);
		int flags = below(sim, 3) ? IB_SEND_SIGNALED : 0;

		if (!below(sim, 5))
			flags |= IB_SEND_FENCE;
		sim_post(sim, i, ops[below(sim, ARRAY_SIZE(ops))], len, flags);
	}
}

static void post_receives(struct sim *sim, unsigned int i)
{
	unsigned int n;

	for (n = 0; n < 24; n++) {
		/* from some moment on they come late, so there are RNR NAKs */
		if (!sim->side[i].late && !below(sim, 12))
			sim->side[i].late = 1;
		sim_recv(sim, i, sim->slot);
	}
	if (sim->side[i].late)
		sim->side[i].late--;
}

static void set_limits(struct sim *sim)
{
	unsigned int i;

	for (i = 0; i < 2; i++) {
		u32 rd = 1 + below(sim, SIM_RD_ATOMIC);

		sim->side[i].qp->attr.max_rd_atomic = rd;
		sim->side[1 - i].qp->resp.rsrc_nr = rd;
	}
	if (!below(sim, 3))
		sim->side[1].qp->srq = &sim->side[1].srq;
	sim->loss = below(sim, 21);
	sim->dup = below(sim, 21);
	sim->delay = below(sim, 21);
	sim->direct = below(sim, 2) ? 0 : below(sim, 101);
	sim->lazy = below(sim, 2);
	sim->batch = below(sim, 2) ? 0 : SIM_BATCH;
	sim->forget = !below(sim, 3);
	for (i = 0; i < 2; i++)
		sim->side[i].qp->req.reorder.patience = below(sim, 5);
}

static const char *random_run(struct sim *sim, u64 seed)
{
	prandom_seed_state(&sim->rnd, seed);
	sim_reset(sim, below(sim, 3) ? ROE_PSN_MASK - below(sim, 100) : below(sim, 1 << 24),
		  below(sim, 1 << 24));
	set_limits(sim);
	post_receives(sim, 0);
	post_receives(sim, 1);
	post_random(sim, 0);
	if (below(sim, 2))
		post_random(sim, 1);
	if (!sim_run(sim))
		return "never quiet";
	return sim_check(sim);
}

static void random_runs(struct kunit *test, u64 seed, unsigned int n)
{
	unsigned int i;

	for (i = 0; i < n; i++, cond_resched()) {
		const char *wrong = random_run(test->priv, seed + i);

		if (wrong) {
			KUNIT_FAIL(test, "seed %#llx: %s", seed + i, wrong);
			return;
		}
	}
	kunit_info(test, "%u schedules from seed %#llx\n", i, seed);
}

static void sim_random(struct kunit *test)
{
	random_runs(test, RANDOM_SEED, RANDOM_RUNS);
}

static void sim_random_new(struct kunit *test)
{
	random_runs(test, get_random_u32(), MORE_RUNS);
}

static void post_large(struct sim *sim, unsigned int i)
{
	sim_post(sim, i, IB_WR_RDMA_WRITE, below(sim, sim->slot), SIG);
	sim_post(sim, i, IB_WR_RDMA_READ, below(sim, sim->slot), SIG);
}

/* Of one packet, some of the same opcode in a row, but now and then one that is longer or empty. */
static void post_small(struct sim *sim, unsigned int i)
{
	static const u8 ops[] = {
		IB_WR_SEND, IB_WR_SEND_WITH_IMM, IB_WR_RDMA_WRITE, IB_WR_RDMA_WRITE_WITH_IMM,
		IB_WR_RDMA_READ,
	};
	unsigned int n, left = 24;

	for (; left; left -= n) {
		u8 op = ops[below(sim, ARRAY_SIZE(ops))];
		unsigned int k;

		n = min(1 + below(sim, 12), left);
		for (k = 0; k < n; k++) {
			u32 len = below(sim, 16) ? 1 + below(sim, SIM_MTU) : 300 * below(sim, 2);
			int flags = below(sim, 3) ? 0 : IB_SEND_SIGNALED;

			if (!below(sim, 8))
				flags |= IB_SEND_SOLICITED;
			if (!below(sim, 16))
				flags |= IB_SEND_FENCE;
			sim_post(sim, i, op, len, flags);
		}
	}
}

static void post_rows(struct sim *sim, unsigned int kind)
{
	void (*post[])(struct sim *sim, unsigned int i) = { post_random, post_small, post_large };
	unsigned int i;

	for (i = 0; i < 2; i++)
		post[kind](sim, i);
}

/*
 * Packets from the middle of messages, and messages of one packet, that are sent and received
 * many at once: the same packets leave, and the QPs are in the same state after each run, as
 * one by one.
 */
static void sim_rows(struct kunit *test)
{
	struct sim *sim = test->priv;
	unsigned int i, alone;
	u32 digest[2];

	for (i = 0; i < MORE_RUNS / 4; i++, cond_resched()) {
		for (alone = 0; alone < 2; alone++) {
			const char *wrong;

			prandom_seed_state(&sim->rnd, i);
			sim_reset(sim, ROE_PSN_MASK - below(sim, 100), below(sim, 1 << 24));
			set_limits(sim);
			if (i % 2)
				sim->loss = 0;
			sim->batch = SIM_BATCH;
			sim->alone = alone;
			sim->compared = true;
			sim->whole = i % 3 == 1;
			post_receives(sim, 0);
			post_receives(sim, 1);
			if (i % 3 == 2)
				sim->slot = SIM_REGION / 4;
			post_rows(sim, i % 3);
			wrong = sim_run(sim) ? sim_check(sim) : "never quiet";
			KUNIT_ASSERT_NULL_MSG(test, wrong, "run %u: %s", i, wrong);
			digest[alone] = sim->digest;
		}
		KUNIT_ASSERT_EQ_MSG(test, digest[0], digest[1], "run %u", i);
	}
}

/* Two QPs of one device: the same outcome, and not one packet on the wire. */
static void sim_direct(struct kunit *test)
{
	const struct load *load = test->param_value;
	struct sim *sim = test->priv;
	unsigned int i;

	for (i = 0; i < 2; i++) {
		sim_reset(sim, PSN0, PSN1);
		sim->direct = 100;
		post_load(sim, load);
		while (sim_emit(sim, 0) || sim_emit(sim, 1))
			KUNIT_ASSERT_TRUE(test, list_empty(&sim->wire));
		KUNIT_EXPECT_NULL(test, sim_check(sim));
	}
}

/*
 * The way changes all the time. A network that loses nothing keeps the order of
 * all packets, so there is nothing to repeat: with no retry allowed the first
 * packet that overtook another would end a QP.
 */
static void sim_direct_toggled(struct kunit *test)
{
	struct sim *sim = test->priv;
	const char *wrong;
	unsigned int i, n;

	for (i = 0; i < RANDOM_RUNS; i++, cond_resched()) {
		prandom_seed_state(&sim->rnd, i);
		sim_reset(sim, below(sim, 1 << 24), below(sim, 1 << 24));
		sim->direct = 1 + below(sim, 99);
		sim->lazy = below(sim, 2);
		for (n = 0; n < 2; n++) {
			sim->side[n].qp->attr.retry_cnt = 0;
			sim->side[n].qp->req.retry_cnt = 0;
		}
		for (n = 0; n < 24; n++) {
			sim_recv(sim, 0, sim->slot);
			sim_recv(sim, 1, sim->slot);
		}
		post_random(sim, 0);
		if (below(sim, 2))
			post_random(sim, 1);
		wrong = sim_run(sim) ? sim_check(sim) : "never quiet";
		KUNIT_ASSERT_NULL_MSG(test, wrong, "run %u: %s", i, wrong);
	}
}

/* More packets than the window, in both directions at once. */
static void sim_large(struct kunit *test)
{
	struct sim *sim = test->priv;
	const char *wrong;
	unsigned int i;

	for (i = 0; i < 60; i++, cond_resched()) {
		sim_reset(sim, PSN0 - i, PSN1);
		prandom_seed_state(&sim->rnd, i);
		sim->slot = SIM_REGION;
		sim->loss = i % 4;
		sim->delay = i % 3;
		sim_recv(sim, 1, SIM_REGION);
		sim_post(sim, 0, i & 1 ? IB_WR_RDMA_READ : IB_WR_SEND, SIM_REGION, SIG);
		sim_post(sim, 1, i & 2 ? IB_WR_RDMA_READ : IB_WR_RDMA_WRITE, SIM_REGION, SIG);
		KUNIT_ASSERT_TRUE(test, sim_run(sim));
		wrong = sim_check(sim);
		KUNIT_ASSERT_NULL_MSG(test, wrong, "run %u: %s", i, wrong);
	}
}

/*
 * Small messages of one run: the first one has the memory looked up, the second its place, the
 * others go at once. What none of them may: an R_Key of another MR, a range that ends behind it.
 */
static void sim_stream(struct kunit *test)
{
	struct sim *sim = test->priv;
	struct sim_side *side = &sim->side[1];
	static u8 ones[SIM_MTU];
	struct roe_rx_pkt rx[6];
	struct roe_rx_row row = { .first = rx, .stride = sizeof(rx[0]), .n = ARRAY_SIZE(rx) };
	struct roe_ctx ctx = { .now = NSEC_PER_SEC };
	unsigned int i;

	sim_reset(sim, PSN0, PSN1);
	memset(ones, 1, sizeof(ones));
	for (i = 0; i < ARRAY_SIZE(rx); i++)
		rx[i] = (struct roe_rx_pkt){
			.p = {
				.opcode = ROE_OP_WRITE_ONLY, .psn = roe_psn_add(PSN0, i),
				.va = (uintptr_t)side->dst + i * SIM_MTU, .rkey = side->mr.key,
				.dmalen = SIM_MTU, .len = SIM_MTU,
			},
			.nvec = 1, .vec = { { ones, SIM_MTU } },
		};
	rx[4].p.rkey = side->fast.key;
	rx[5].p.va = side->mr.iova + side->mr.length - SIM_MTU + 1;
	rcu_read_lock_bh();
	KUNIT_EXPECT_FALSE(test, roe_responder_stream(side->qp, &ctx, &row));
	KUNIT_EXPECT_EQ(test, side->qp->resp.psn, PSN0);
	roe_qp_dispatch(side->qp, &ctx, &rx[0]);
	roe_qp_dispatch(side->qp, &ctx, &rx[1]);

	row = (struct roe_rx_row){ .first = &rx[2], .stride = sizeof(rx[0]), .n = 4 };
	KUNIT_EXPECT_TRUE(test, roe_responder_stream(side->qp, &ctx, &row));
	KUNIT_EXPECT_EQ(test, row.n, 2);
	KUNIT_EXPECT_EQ(test, side->qp->resp.psn, roe_psn_add(PSN0, 4));
	KUNIT_EXPECT_EQ(test, side->qp->resp.msn, 4);
	KUNIT_EXPECT_NULL(test, memchr_inv(side->dst, 1, 4 * SIM_MTU));

	rx[5].p.psn = roe_psn_add(PSN0, 4);
	row = (struct roe_rx_row){ .first = &rx[5], .stride = sizeof(rx[0]), .n = 1 };
	KUNIT_EXPECT_FALSE(test, roe_responder_stream(side->qp, &ctx, &row));
	rcu_read_unlock_bh();
}

/* READs as well: neither an R_Key nor a right that was found for WRITEs counts for them. */
static void sim_stream_reads(struct kunit *test)
{
	struct sim *sim = test->priv;
	struct sim_side *side = &sim->side[1];
	struct roe_rx_pkt rx[4] = {};
	struct roe_rx_row row = { .first = rx, .stride = sizeof(rx[0]), .n = 1 };
	struct roe_ctx ctx = { .now = NSEC_PER_SEC };
	unsigned int i;

	sim_reset(sim, PSN0, PSN1);
	for (i = 0; i < ARRAY_SIZE(rx); i++)
		rx[i].p = (struct roe_pkt){
			.opcode = ROE_OP_READ_REQ, .psn = roe_psn_add(PSN0, i),
			.va = (uintptr_t)side->src, .rkey = side->mr.key, .dmalen = SIM_MTU,
		};
	rx[3].p.rkey ^= 1;
	rcu_read_lock_bh();
	ctx.written = (struct roe_run_memo){
		.mr = &side->mr, .key = side->mr.key, .begin = side->mr.iova,
		.len = side->mr.length, .addr = side->src,
	};
	KUNIT_EXPECT_FALSE(test, roe_responder_stream(side->qp, &ctx, &row));
	roe_qp_dispatch(side->qp, &ctx, &rx[0]);
	roe_qp_dispatch(side->qp, &ctx, &rx[1]);
	row = (struct roe_rx_row){ .first = &rx[2], .stride = sizeof(rx[0]), .n = 2 };
	KUNIT_EXPECT_TRUE(test, roe_responder_stream(side->qp, &ctx, &row));
	KUNIT_EXPECT_EQ(test, row.n, 1);
	KUNIT_EXPECT_EQ(test, side->qp->resp.rsrc_pending, 3);
	KUNIT_EXPECT_EQ(test, side->qp->resp.psn, roe_psn_add(PSN0, 3));
	rcu_read_unlock_bh();
}

/* The responses: those that were asked for, once, and as long as they have to be. */
static void sim_stream_responses(struct kunit *test)
{
	struct sim *sim = test->priv;
	struct sim_side *side = &sim->side[0];
	static u8 ones[SIM_MTU];
	struct roe_rx_pkt rx[4];
	struct roe_rx_row row = { .first = rx, .stride = sizeof(rx[0]), .n = ARRAY_SIZE(rx) };
	struct roe_ctx ctx = { .now = NSEC_PER_SEC };
	unsigned int i;

	sim_reset(sim, PSN0, PSN1);
	sim->whole = true;
	memset(ones, 1, sizeof(ones));
	for (i = 0; i < ARRAY_SIZE(rx); i++) {
		if (i < 3)
			sim_post(sim, 0, IB_WR_RDMA_READ, i == 2 ? 2 : 1, IB_SEND_SIGNALED);
		rx[i] = (struct roe_rx_pkt){
			.p = {
				.opcode = ROE_OP_READ_RESP_ONLY, .psn = roe_psn_add(PSN0, i),
				.syndrome = ROE_AETH_ACK | ROE_AETH_NO_CREDITS, .len = 1,
			},
			.nvec = 1, .vec = { { ones, 1 } },
		};
	}
	sim_emit(sim, 0);
	rcu_read_lock_bh();
	KUNIT_EXPECT_FALSE(test, roe_completer_stream(side->qp, &ctx, &row));
	ctx.brings = (struct roe_run_memo){
		.mr = &side->mr, .key = side->mr.key, .begin = (uintptr_t)side->got,
		.len = SIM_REGION, .addr = side->got,
	};
	row.n = ARRAY_SIZE(rx);
	KUNIT_EXPECT_TRUE(test, roe_completer_stream(side->qp, &ctx, &row));
	/* the third is too short for its READ, the fourth was not asked for */
	KUNIT_EXPECT_EQ(test, row.n, 2);
	KUNIT_EXPECT_EQ(test, side->qp->req.una, roe_psn_add(PSN0, 2));
	KUNIT_EXPECT_EQ(test, side->qp->req.rd_out, 1);
	row.n = ARRAY_SIZE(rx);
	KUNIT_EXPECT_FALSE(test, roe_completer_stream(side->qp, &ctx, &row));
	rcu_read_unlock_bh();
	KUNIT_EXPECT_EQ(test, side->got[0], 1);
}

/* What one run receives is completed at once, when all of it is there, and in order. */
static void sim_collect(struct kunit *test)
{
	struct sim *sim = test->priv;
	struct sim_side *side = &sim->side[1];
	struct roe_ctx ctx = { .now = NSEC_PER_SEC, .collect = true };
	unsigned int i, n = min_t(unsigned int, SIM_WRS, ROE_CQ_BATCH);
	struct sim_pkt *pkt;
	struct ib_wc wc;

	sim_reset(sim, PSN0, PSN1);
	sim->slot = 64;
	for (i = 0; i < n; i++) {
		sim_recv(sim, 1, 64);
		sim_post(sim, 0, IB_WR_SEND, 1 + i, 0);
	}
	sim_emit(sim, 0);
	rcu_read_lock_bh();
	spin_lock(&side->qp->lock);
	while ((pkt = sim_take(sim))) {
		roe_qp_dispatch(side->qp, &ctx, &pkt->rx);
		sim_put(sim, pkt);
	}
	KUNIT_EXPECT_EQ(test, roe_cq_unpolled(&side->rcq), 0);
	roe_complete_collected(side->qp, &ctx);
	KUNIT_EXPECT_EQ(test, roe_cq_unpolled(&side->rcq), n);
	spin_unlock(&side->qp->lock);
	rcu_read_unlock_bh();
	for (i = 0; i < n && roe_cq_poll(&side->rcq.ib, 1, &wc); i++)
		KUNIT_EXPECT_EQ(test, wc.byte_len, 1 + i);
	KUNIT_EXPECT_EQ(test, i, n);
}

/* The window stays a window when the last READ is half of the PSN space ago. */
static void sim_window(struct kunit *test)
{
	struct sim *sim = test->priv;
	struct roe_req *req = &sim->side[0].qp->req;
	struct roe_ctx ctx = { .now = NSEC_PER_SEC };
	unsigned int i;

	sim_reset(sim, PSN0, PSN1);
	for (i = 0; i < 3; i++) {
		req->psn = roe_psn_add(req->psn, 0x300000);
		req->max_psn = req->psn;
		req->wqe_psn = req->psn;
		req->una = req->psn;
		roe_requester_progress(sim->side[0].qp, &ctx);
	}
	req->cwnd = ROE_WINDOW_PKTS;
	sim->slot = SIM_REGION;
	sim_post(sim, 0, IB_WR_RDMA_WRITE, SIM_REGION, SIG);
	sim_emit(sim, 0);
	KUNIT_EXPECT_EQ(test, sim->sent[0], ROE_WINDOW_PKTS);
}

/* @sent packets leave, the oldest @acked are acknowledged. Returns the window. */
static u32 pass(struct roe_qp *qp, u32 sent, u32 acked)
{
	struct roe_ctx ctx = { .now = NSEC_PER_SEC };
	struct roe_req *req = &qp->req;

	req->psn = roe_psn_add(req->psn, sent);
	req->max_psn = req->psn;
	req->wqe_psn = req->psn;
	req->una = roe_psn_add(req->una, acked);
	roe_requester_progress(qp, &ctx);
	return req->cwnd;
}

/* It grows while it is full: fast before the first loss, slowly after it, not for ever. */
static void sim_widen(struct kunit *test)
{
	struct sim *sim = test->priv;
	struct roe_qp *qp = sim->side[0].qp;
	u32 window = ROE_WINDOW_PKTS, max;
	unsigned int i;

	sim_reset(sim, PSN0, PSN1);
	max = min_t(u32, ROE_WINDOW_BYTES / qp->mtu, ROE_WINDOW_MAX);
	/* a few packets at a time prove nothing */
	for (i = 0; i < 10; i++)
		KUNIT_EXPECT_EQ(test, pass(qp, 32, 32), window);
	/* an eighth in a round trip, of which this is the half */
	KUNIT_EXPECT_EQ(test, pass(qp, 128, 64), window + 8);
	/* a loss when it is full takes three tenths of it, a few packets bring that back */
	KUNIT_EXPECT_EQ(test, pass(qp, 128, 0), window + 8);
	roe_requester_lost(qp);
	window = (window + 8) * 7 / 10;
	KUNIT_EXPECT_EQ(test, qp->req.cwnd, window);
	/* of the 193 a window of 95 is 2 round trips */
	KUNIT_EXPECT_EQ(test, pass(qp, 1, 193), window + 8);
	for (i = 0; i < 32; i++)
		pass(qp, 1, 1);
	KUNIT_EXPECT_EQ(test, qp->req.cwnd, window + 9);
	/* after it, four in a round trip */
	window = qp->req.cwnd;
	pass(qp, window, 0);
	KUNIT_EXPECT_EQ(test, pass(qp, window, window), window + 4);
	for (i = 0; i < 2 * ROE_WINDOW_MAX; i++)
		pass(qp, qp->req.cwnd, qp->req.cwnd);
	KUNIT_EXPECT_EQ(test, qp->req.cwnd, max);
}

/* Its widest, with a round trip of @now ns that was @least once. */
static u32 widest(struct sim *sim, u32 mtu, u32 least, u32 now)
{
	struct roe_qp *qp = sim->side[0].qp;
	unsigned int i;

	sim_reset(sim, PSN0, PSN1);
	qp->mtu = mtu;
	qp->req.rtt_min = least;
	qp->req.srtt = now;
	qp->req.rtt = least;
	for (i = 0; i < 100; i++)
		pass(qp, qp->req.cwnd, qp->req.cwnd);
	qp->mtu = SIM_MTU;
	return qp->req.cwnd;
}

/* A long way has room for more, as long as it is not a queue that is long. */
static void sim_widen_far(struct kunit *test)
{
	struct sim *sim = test->priv;
	u32 far = ROE_WAY_LONG_NS, window;

	KUNIT_EXPECT_EQ(test, widest(sim, 256, far - 1, far - 1), ROE_WINDOW_MAX);
	KUNIT_EXPECT_EQ(test, widest(sim, 256, far, far), ROE_WINDOW_LONG);
	/* it only seemed so */
	sim->side[0].qp->req.rtt_min = far - 1;
	KUNIT_EXPECT_EQ(test, pass(sim->side[0].qp, 1, 1), ROE_WINDOW_MAX);
	KUNIT_EXPECT_EQ(test, widest(sim, 4096, far - 1, far - 1), ROE_WINDOW_BYTES / 4096);
	KUNIT_EXPECT_EQ(test, widest(sim, 4096, far, far), ROE_WINDOW_PER_NS * far / 4096);
	KUNIT_EXPECT_EQ(test, widest(sim, 4096, NSEC_PER_SEC, NSEC_PER_SEC), ROE_WINDOW_LONG);
	/* half of it in a queue, a tenth */
	window = widest(sim, 256, far, 2 * far);
	KUNIT_EXPECT_GT(test, window, 4 * ROE_WINDOW_MAX);
	KUNIT_EXPECT_LE(test, window, 4 * ROE_WINDOW_MAX * 9 / 8);
	KUNIT_EXPECT_EQ(test, widest(sim, 256, far, far * 10 / 9), ROE_WINDOW_LONG);
}

/* On a long path it grows until a queue does: packets lost there cost a round trip each. */
static void sim_widen_queue(struct kunit *test)
{
	static const struct {
		bool lost;
		u32 rtt, grown;
	} rows[] = {
		{ false, 10000, 16 },
		{ false, 10600, 16 },
		{ false, 10700, ROE_WINDOW_STEP },
		{ true, 10700, 1 },
		{ true, 10600, 8 },
	};
	struct sim *sim = test->priv;
	struct roe_req *req = &sim->side[0].qp->req;
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(rows); i++) {
		u32 window = rows[i].lost ? 256 : 128;

		sim_reset(sim, PSN0, PSN1);
		req->rtt_min = 10000 * NSEC_PER_USEC;
		req->rtt = rows[i].rtt * NSEC_PER_USEC;
		req->srtt = req->rtt;
		req->cwnd = window;
		if (rows[i].lost)
			req->ssthresh = window;
		KUNIT_EXPECT_EQ_MSG(test, pass(sim->side[0].qp, window, window),
				    window + rows[i].grown, "row %u", i);
	}
}

/* A window that opens at once on a long path does not leave at once: no queue may have room. */
static void sim_pace(struct kunit *test)
{
	const u32 rtt = 16 * NSEC_PER_MSEC;
	struct sim *sim = test->priv;
	struct roe_qp *qp = sim->side[0].qp;
	struct roe_req *req = &qp->req;
	u32 before = 0;
	u64 start;

	sim_reset(sim, PSN0, PSN1);
	start = sim->now;
	sim->slot = SIM_REGION;
	req->rtt_min = rtt;
	req->rtt = rtt;
	req->srtt = rtt;
	sim_post(sim, 0, IB_WR_RDMA_WRITE, SIM_REGION, SIG);
	for (;;) {
		while (sim_emit(sim, 0))
			;
		KUNIT_ASSERT_GT(test, sim->sent[0], before);
		KUNIT_EXPECT_LE(test, sim->sent[0] - before, ROE_PACE_PKTS);
		before = sim->sent[0];
		if (before >= ROE_WINDOW_PKTS)
			break;
		sim->now = roe_timer_next(qp);
		KUNIT_ASSERT_LE(test, sim->now, start + rtt);
		sim_timer(sim, 0);
	}
	KUNIT_EXPECT_GE(test, sim->now, start + rtt / 2);
	KUNIT_EXPECT_EQ(test, before, ROE_WINDOW_PKTS);

	/* a READ is one packet, whatever comes back */
	sim_reset(sim, PSN0, PSN1);
	sim->slot = ROE_WINDOW_PKTS * SIM_MTU;
	req->rtt_min = rtt;
	req->rtt = rtt;
	req->srtt = rtt;
	sim_post(sim, 0, IB_WR_RDMA_READ, ROE_WINDOW_PKTS * SIM_MTU, SIG);
	sim_post(sim, 0, IB_WR_RDMA_WRITE, ROE_PACE_PKTS * SIM_MTU, SIG);
	while (sim_emit(sim, 0))
		;
	KUNIT_EXPECT_EQ(test, sim->sent[0], ROE_PACE_PKTS);
	sim->now = roe_timer_next(qp);
	KUNIT_EXPECT_LE(test, sim->now, start + 2 * rtt);
	sim_timer(sim, 0);
	sim_emit(sim, 0);
	KUNIT_EXPECT_EQ(test, sim->sent[0], 1 + ROE_PACE_PKTS);
}

/* On a long path each further gap of one flight is answered by twice as many packets. */
static void sim_probe_gaps(struct kunit *test)
{
	struct sim *sim = test->priv;
	struct roe_qp *qp = sim->side[0].qp;
	struct roe_ctx ctx = { .now = NSEC_PER_SEC };
	unsigned int i, far;

	for (far = 0; far < 2; far++) {
		sim_reset(sim, PSN0, PSN1);
		qp->req.rtt_min = far ? ROE_WAY_LONG_NS : ROE_WAY_LONG_NS - 1;
		qp->req.srtt = qp->req.rtt_min;
		qp->req.rtt = qp->req.rtt_min;
		pass(qp, 128, 0);
		for (i = 0; i < 3; i++) {
			roe_requester_gap(qp, &ctx);
			KUNIT_EXPECT_EQ(test, qp->req.probe, ROE_PROBE_PKTS << (far ? i : 0));
			/* what was kept behind the probe counts, too */
			pass(qp, 0, 20);
		}
		/* of another flight nothing is known */
		pass(qp, 64, 68);
		roe_requester_gap(qp, &ctx);
		KUNIT_EXPECT_EQ(test, qp->req.probe, ROE_PROBE_PKTS);
	}
}

/* As many answers as packets, or one for all of them: that is one round trip. */
static void sim_widen_single(struct kunit *test)
{
	struct sim *sim = test->priv;
	struct roe_qp *qp = sim->side[0].qp;
	struct roe_ctx ctx = { .now = NSEC_PER_SEC };
	unsigned int round;

	sim_reset(sim, PSN0, PSN1);
	pass(qp, 2 * ROE_WINDOW_PKTS, 0);
	roe_requester_lost(qp);
	for (round = 1; round <= 10; round++) {
		u32 window = qp->req.cwnd;

		pass(qp, window, 0);
		roe_requester_progress_by(qp, &ctx, window);
		KUNIT_EXPECT_GE(test, qp->req.cwnd, window + ROE_WINDOW_STEP - 1);
		KUNIT_EXPECT_LE(test, qp->req.cwnd, window + ROE_WINDOW_STEP);
	}
}

/* Where the order changes each answer counts, whatever it acknowledges. */
static void sim_widen_late(struct kunit *test)
{
	struct sim *sim = test->priv;
	struct roe_qp *qp = sim->side[0].qp;
	u32 window;
	unsigned int i;

	sim_reset(sim, PSN0, PSN1);
	pass(qp, 2 * ROE_WINDOW_PKTS, 0);
	roe_requester_lost(qp);
	qp->req.reorder.patience = 1;
	window = qp->req.cwnd;
	for (i = 1; i <= 8; i++)
		KUNIT_EXPECT_EQ(test, pass(qp, 0, 1), window + i);
	window = qp->req.cwnd;
	for (i = 1; i <= 8; i++)
		KUNIT_EXPECT_EQ(test, pass(qp, 5, 5), window + i);
	/* no more than what is in flight proves */
	pass(qp, 0, 2 * ROE_WINDOW_PKTS - 16);
	window = qp->req.cwnd;
	for (i = 0; i < 8; i++)
		KUNIT_EXPECT_LE(test, pass(qp, 1, 1), max_t(u32, window, ROE_WINDOW_PKTS));
}

/*
 * What comes at once after it was sent again was late, if it had been sent once. Of what a
 * clock or an earlier gap sent again it may have been that copy.
 */
static void sim_two_copies(struct kunit *test)
{
	struct sim *sim = test->priv;
	struct roe_qp *qp = sim->side[0].qp;
	struct roe_ctx ctx = { .now = NSEC_PER_SEC };
	struct roe_reorder *ro = &qp->req.reorder;

	sim_reset(sim, PSN0, PSN1);
	qp->req.rtt_min = NSEC_PER_MSEC;
	pass(qp, 16, 0);
	roe_requester_gap(qp, &ctx);
	pass(qp, 0, 4);
	KUNIT_EXPECT_GT(test, ro->patience, 0);
	ro->patience = 0;
	roe_requester_gap(qp, &ctx);
	pass(qp, 0, 4);
	KUNIT_EXPECT_EQ(test, ro->patience, 0);
	/* a round trip is shorter than the shortest sample, which was the last one of a burst */
	pass(qp, 16, 8);
	roe_requester_gap(qp, &ctx);
	ro->asked -= qp->req.rtt_min * 4 / 5;
	pass(qp, 0, 4);
	KUNIT_EXPECT_EQ(test, ro->patience, 0);
	pass(qp, 16, 12);
	roe_requester_gap(qp, &ctx);
	pass(qp, 0, 4);
	KUNIT_EXPECT_GT(test, ro->patience, 0);
}

/*
 * A train that is missing from its beginning is a miss, also if that is a short one and a long
 * one is behind it; one that was sent again for something before it, or misses another packet,
 * says nothing; one that has arrived ends a row of misses. After a while one is tried again.
 */
static void sim_trains(struct kunit *test)
{
	struct sim *sim = test->priv;
	struct roe_qp *qp = sim->side[0].qp;
	struct roe_trains *trains = &qp->req.trains;
	u64 now = NSEC_PER_SEC;
	unsigned int i, k;

	sim_reset(sim, PSN0, PSN1);
	qp->path.alone = false;
	for (i = 0; i < 4 * ROE_TRAINS_MISSES; i++) {
		u32 psn = roe_psn_add(PSN0, 50 * i);

		trains->on = true;
		for (k = 0; k < ARRAY_SIZE(trains->begin); k++)
			trains->begin[k] = roe_psn_add(psn, k);
		trains->end = roe_psn_add(psn, 6);
		if (i == ROE_TRAINS_MISSES - 1)
			roe_trains_missed(qp, trains, now, roe_psn_add(psn, 6));
		else if (i == ROE_TRAINS_MISSES)
			roe_trains_missed(qp, trains, now, roe_psn_add(psn, -1));
		else if (i == ROE_TRAINS_MISSES + 1)
			roe_trains_missed(qp, trains, now, roe_psn_add(psn, 4));
		else
			roe_trains_missed(qp, trains, now, roe_psn_add(psn, i % 4));
		KUNIT_EXPECT_FALSE(test, trains->on);
		/* the same again: it has left packet by packet */
		roe_trains_missed(qp, trains, now, psn);
		KUNIT_EXPECT_EQ_MSG(test, qp->path.alone, i > 2 * ROE_TRAINS_MISSES, "train %u", i);
	}
	KUNIT_EXPECT_EQ(test, trains->misses, ROE_TRAINS_MISSES - 1);
	KUNIT_EXPECT_GT(test, qp->path.alone_until, now);
	qp->path.alone = false;
}

/*
 * Trains arrive in part or not at all, single packets do: found out by who sends requests and
 * by who answers READs, with a message of one packet between two long ones, too. No time-out
 * after that.
 */
static void sim_no_trains(struct kunit *test)
{
	static const enum ib_wr_opcode ops[] = { IB_WR_RDMA_WRITE, IB_WR_SEND, IB_WR_RDMA_READ };
	struct sim *sim = test->priv;
	unsigned int i, k, n;

	for (k = 0; k < 2 * 2 * ARRAY_SIZE(ops); k++) {
		enum ib_wr_opcode op = ops[k / 4];
		struct roe_qp *qp = sim->side[op == IB_WR_RDMA_READ].qp;
		const char *wrong;

		sim_reset(sim, PSN0, PSN1);
		qp->path.alone = false;
		sim->no_trains = true;
		sim->kept = k % 2;
		for (i = 0; i < ROE_TRAINS_MISSES + 2; i++) {
			if (op == IB_WR_SEND)
				sim_recv(sim, 1, sim->slot);
			sim_post(sim, 0, op, sim->slot, SIG);
			/* two READs on their way, or a packet between two flights */
			if (k & 2 && op == IB_WR_RDMA_READ)
				sim_post(sim, 0, op, sim->slot, SIG);
			else if (k & 2)
				sim_post(sim, 0, IB_WR_RDMA_WRITE, 10, SIG);
			KUNIT_ASSERT_TRUE(test, sim_run(sim));
			/* of two READs each may be a flight */
			KUNIT_EXPECT_EQ_MSG(test, qp->path.alone, i >= ROE_TRAINS_MISSES - 1 ||
					    (op == IB_WR_RDMA_READ && qp->path.alone && k & 2),
					    "kind %u, message %u", k, i);
			n = sim->again[0] + sim->again[1];
			if (i == ROE_TRAINS_MISSES) {
				sim->again[0] = 0;
				sim->again[1] = 0;
			}
		}
		KUNIT_EXPECT_EQ_MSG(test, n, 0, "kind %u", k);
		wrong = sim_check(sim);
		KUNIT_EXPECT_NULL_MSG(test, wrong, "kind %u: %s", k, wrong);
		qp->path.alone = false;
	}
}

/* The first gap after 2^23 packets without one makes it smaller as any other does. */
static void sim_widen_wrap(struct kunit *test)
{
	struct sim *sim = test->priv;
	struct roe_qp *qp = sim->side[0].qp;
	struct roe_ctx ctx = { .now = NSEC_PER_SEC };
	u32 window;
	unsigned int i;

	sim_reset(sim, PSN0, PSN1);
	for (i = 0; i < 4; i++) {
		window = pass(qp, ROE_WINDOW_MAX, 1);
		roe_requester_gap(qp, &ctx);
		KUNIT_EXPECT_EQ_MSG(test, qp->req.cwnd, window * ROE_WINDOW_KEPT / 10,
				    "gap %u", i);
		pass(qp, 0, ROE_WINDOW_MAX - 1);
		/* not quite once around, in steps that an ACK may take */
		pass(qp, 0x500000, 0x500000);
		pass(qp, 0x500000, 0x500000);
	}
}

/* --- errors ------------------------------------------------------------------ */

/* The next packet on the wire, which must be one for @to; false: none. */
static bool next_pkt(struct sim *sim, unsigned int to, struct roe_pkt *p)
{
	struct sim_pkt *pkt = sim_take(sim);

	memset(p, 0, sizeof(*p));
	if (!pkt)
		return false;
	KUNIT_EXPECT_EQ(sim->test, pkt->to, to);
	*p = pkt->rx.p;
	sim_put(sim, pkt);
	return true;
}

/* A forged packet for side @i, then what it answers. */
static bool forge(struct sim *sim, unsigned int i, const struct roe_pkt *p, struct roe_pkt *answer)
{
	static u8 zeros[2 * SIM_MTU];
	struct roe_rx_pkt rx = {
		.p = *p,
		.nvec = 1,
		.vec = { { .iov_base = zeros, .iov_len = p->len } },
	};

	sim_receive(sim, i, &rx);
	sim_emit(sim, i);
	return next_pkt(sim, 1 - i, answer);
}

static struct roe_pkt a_send(u8 opcode, u32 n)
{
	bool last = opcode == ROE_OP_SEND_LAST;

	return (struct roe_pkt){ .opcode = opcode, .psn = PSN0 + n, .ackreq = last,
				 .len = last ? 10 : SIM_MTU };
}

static struct roe_pkt an_ack(u32 psn, u8 syndrome)
{
	return (struct roe_pkt){ .opcode = ROE_OP_ACK, .psn = psn, .syndrome = syndrome };
}

static enum ib_wc_status status_of(struct roe_cq *cq)
{
	struct ib_wc wc;

	return roe_cq_poll(&cq->ib, 1, &wc) ? wc.status : 99;
}

static struct sim *fresh(struct kunit *test)
{
	struct sim *sim = test->priv;

	sim_reset(sim, PSN0, PSN1);
	return sim;
}

static const struct sim_pkt *sim_first(struct sim *sim)
{
	return list_first_entry(&sim->wire, struct sim_pkt, link);
}

#define EXPECT_STATUS(test, cq, want) KUNIT_EXPECT_EQ(test, (int)status_of(cq), (int)(want))

static void error_rnr(struct kunit *test)
{
	struct sim *sim = fresh(test);
	struct roe_qp *qp = sim->side[0].qp;
	unsigned int i;
	u64 start;

	qp->attr.rnr_retry = 2;
	qp->req.rnr_retry = 2;
	sim->side[1].qp->attr.min_rnr_timer = 20;	/* 10.24 ms */
	sim_post(sim, 0, IB_WR_SEND, 100, SIG);
	for (i = 0; i < 3; i++) {
		struct roe_pkt p;

		sim_emit(sim, 0);
		KUNIT_ASSERT_EQ(test, sim->sent[0], i + 1);
		sim_receive(sim, 1, &sim_first(sim)->rx);
		next_pkt(sim, 1, &p);
		sim_emit(sim, 1);
		sim_receive(sim, 0, &sim_first(sim)->rx);
		next_pkt(sim, 0, &p);
		KUNIT_EXPECT_EQ(test, p.syndrome, ROE_AETH_RNR_NAK | 20);
		KUNIT_EXPECT_EQ(test, p.psn, PSN0);
		if (i == 2)
			break;
		start = sim->now;
		KUNIT_EXPECT_EQ(test, roe_timer_next(qp), start + 10240 * NSEC_PER_USEC);
		sim->now = start + 10240 * NSEC_PER_USEC - 1;
		sim_timer(sim, 0);
		KUNIT_EXPECT_FALSE(test, sim_emit(sim, 0));
		sim->now++;
		sim_timer(sim, 0);
	}
	KUNIT_EXPECT_EQ(test, qp->state, IB_QPS_ERR);
	EXPECT_STATUS(test, &sim->side[0].scq, IB_WC_RNR_RETRY_EXC_ERR);
}

/* A SEND for which side 1, whose RNR NAK would be dear, has no receive WQE yet. */
static struct sim *impatient(struct kunit *test)
{
	struct sim *sim = fresh(test);
	struct roe_qp *qp = sim->side[0].qp;
	struct roe_pkt p;

	qp->attr.rnr_retry = 0;
	qp->req.rnr_retry = 0;
	sim->side[1].qp->attr.min_rnr_timer = 0;	/* 655.36 ms */
	sim_post(sim, 0, IB_WR_SEND, 100, SIG);
	sim_emit(sim, 0);
	sim_receive(sim, 1, &sim_first(sim)->rx);
	next_pkt(sim, 1, &p);
	sim_emit(sim, 1);
	while (next_pkt(sim, 0, &p))
		KUNIT_EXPECT_EQ(test, p.syndrome, ROE_AETH_ACK | ROE_AETH_NO_CREDITS);
	return sim;
}

static void error_rnr_patience(struct kunit *test)
{
	struct sim *sim = impatient(test);
	struct roe_pkt p;

	sim_recv(sim, 1, 100);
	sim->now = roe_timer_next(sim->side[1].qp);
	sim_timer(sim, 1);
	sim_emit(sim, 1);
	sim_receive(sim, 0, &sim_first(sim)->rx);
	KUNIT_ASSERT_TRUE(test, next_pkt(sim, 0, &p));
	KUNIT_EXPECT_EQ(test, p.syndrome, ROE_NAK_PSN_SEQ);
	KUNIT_EXPECT_EQ(test, p.psn, PSN0);
	KUNIT_ASSERT_TRUE(test, sim_run(sim));
	KUNIT_EXPECT_EQ(test, sim->side[0].qp->state, IB_QPS_RTS);
	EXPECT_STATUS(test, &sim->side[0].scq, IB_WC_SUCCESS);
	KUNIT_EXPECT_EQ(test, sim->side[1].qp->resp.rnr_look, 0);
}

/*
 * One message arrives, and for the second the receive comes late, again and again: no NIC has
 * cut up a train.
 */
static void error_rnr_no_cut(struct kunit *test)
{
	struct sim *sim = fresh(test);
	struct roe_qp *qp = sim->side[0].qp;
	const char *wrong;
	unsigned int i;

	qp->path.alone = false;
	sim->side[1].qp->attr.min_rnr_timer = 0;
	sim->slot = 64;
	for (i = 0; i < 2 * ROE_TRAINS_MISSES; i++) {
		sim_recv(sim, 1, 10);
		sim->side[1].late = 1;
		sim_recv(sim, 1, 10);
		/* that one is posted when time passes */
		sim->side[1].late--;
		sim_post(sim, 0, IB_WR_SEND, 10, SIG);
		sim_post(sim, 0, IB_WR_SEND, 10, SIG);
		KUNIT_ASSERT_TRUE(test, sim_run(sim));
	}
	KUNIT_EXPECT_FALSE(test, qp->path.alone);
	wrong = sim_check(sim);
	KUNIT_EXPECT_NULL_MSG(test, wrong, "%s", wrong);
}

/* It does not wait for ever, nor again for what it has sent an RNR NAK for. */
static void error_rnr_impatience(struct kunit *test)
{
	struct sim *sim = impatient(test);
	struct roe_qp *qp = sim->side[1].qp;
	unsigned int looks = 0;
	u64 start = sim->now;
	struct roe_pkt p;

	while (!sim_emit(sim, 1)) {
		KUNIT_ASSERT_NE(test, roe_timer_next(qp), 0);
		sim->now = roe_timer_next(qp);
		sim_timer(sim, 1);
		looks++;
	}
	KUNIT_EXPECT_EQ(test, sim->now - start, ROE_RNR_PATIENCE_NS);
	KUNIT_EXPECT_LE(test, looks, 7);
	sim_receive(sim, 0, &sim_first(sim)->rx);
	KUNIT_ASSERT_TRUE(test, next_pkt(sim, 0, &p));
	KUNIT_EXPECT_EQ(test, p.syndrome, ROE_AETH_RNR_NAK);
	KUNIT_EXPECT_EQ(test, sim->side[0].qp->state, IB_QPS_ERR);
	EXPECT_STATUS(test, &sim->side[0].scq, IB_WC_RNR_RETRY_EXC_ERR);
	KUNIT_EXPECT_EQ(test, roe_timer_next(qp), 0);
}

/* Whoever runs the QP meanwhile looks as well, and does not put off the next look. */
static void error_rnr_doorbell(struct kunit *test)
{
	struct sim *sim = impatient(test);
	struct roe_qp *qp = sim->side[1].qp;
	u64 next = roe_timer_next(qp);
	struct roe_ctx ctx = { .now = sim->now };
	struct roe_pkt p;

	roe_responder_look(qp, &ctx);
	KUNIT_EXPECT_EQ(test, roe_timer_next(qp), next);
	sim_recv(sim, 1, 100);
	rcu_read_lock_bh();
	roe_responder_look(qp, &ctx);
	rcu_read_unlock_bh();
	KUNIT_EXPECT_EQ(test, roe_timer_next(qp), 0);
	sim_emit(sim, 1);
	KUNIT_EXPECT_TRUE(test, next_pkt(sim, 0, &p));
	KUNIT_EXPECT_EQ(test, p.syndrome, ROE_NAK_PSN_SEQ);
}

/* Nor for so long that the clock of the peer runs out. */
static void error_rnr_short_timeout(struct kunit *test)
{
	struct sim *sim = fresh(test);
	struct roe_qp *qp = sim->side[1].qp;
	struct roe_pkt p = { .opcode = ROE_OP_SEND_ONLY, .psn = PSN0, .ackreq = true };
	u64 start = sim->now;

	qp->attr.min_rnr_timer = 0;
	qp->timeout_ns = roe_timer_ack_ns(10);	/* 4.2 ms */
	KUNIT_EXPECT_TRUE(test, forge(sim, 1, &p, &p));
	KUNIT_EXPECT_EQ(test, p.opcode, ROE_OP_ACK);
	KUNIT_EXPECT_EQ(test, p.syndrome, ROE_AETH_ACK | ROE_AETH_NO_CREDITS);
	while (!sim_emit(sim, 1)) {
		KUNIT_ASSERT_NE(test, roe_timer_next(qp), 0);
		sim->now = roe_timer_next(qp);
		sim_timer(sim, 1);
	}
	KUNIT_EXPECT_LE(test, sim->now - start, qp->timeout_ns / 4);
	KUNIT_EXPECT_TRUE(test, next_pkt(sim, 0, &p));
	KUNIT_EXPECT_EQ(test, p.syndrome, ROE_AETH_RNR_NAK);

	sim = fresh(test);
	qp->attr.min_rnr_timer = 0;
	qp->timeout_ns = roe_timer_ack_ns(5);
	p = (struct roe_pkt){ .opcode = ROE_OP_SEND_ONLY, .psn = PSN0 };
	KUNIT_EXPECT_TRUE(test, forge(sim, 1, &p, &p));
	KUNIT_EXPECT_EQ(test, p.syndrome, ROE_AETH_RNR_NAK);
	KUNIT_EXPECT_EQ(test, roe_timer_next(qp), 0);
}

/*
 * A peer that may not be asked again would not outlive the sequence NAK that ends the
 * patience, but waits without a limit after an RNR NAK.
 */
static void error_rnr_no_retry(struct kunit *test)
{
	struct sim *sim = fresh(test);
	struct roe_qp *qp = sim->side[1].qp;
	struct roe_pkt p = { .opcode = ROE_OP_SEND_ONLY, .psn = PSN0, .ackreq = true };

	qp->attr.min_rnr_timer = 0;
	qp->attr.retry_cnt = 0;
	KUNIT_EXPECT_TRUE(test, forge(sim, 1, &p, &p));
	KUNIT_EXPECT_EQ(test, p.syndrome, ROE_AETH_RNR_NAK);
	KUNIT_EXPECT_EQ(test, qp->resp.rnr_look, 0);
}

/* What comes while it waits may be taken, or be the end of the QP: no RNR NAK any more. */
static void error_rnr_overtaken(struct kunit *test)
{
	struct sim *sim = impatient(test);
	struct roe_pkt p = { .opcode = ROE_OP_SEND_ONLY, .psn = PSN0, .ackreq = true };
	struct roe_rx_pkt rx = { .p = { .opcode = ROE_OP_WRITE_LAST, .psn = PSN0 } };

	sim_recv(sim, 1, 100);
	KUNIT_EXPECT_TRUE(test, forge(sim, 1, &p, &p));
	KUNIT_EXPECT_EQ(test, p.syndrome, ROE_AETH_ACK | ROE_AETH_NO_CREDITS);
	KUNIT_EXPECT_EQ(test, roe_timer_next(sim->side[1].qp), 0);

	sim = impatient(test);
	sim_receive(sim, 1, &rx);
	sim->now += ROE_RNR_PATIENCE_NS;
	sim_timer(sim, 1);
	sim_emit(sim, 1);
	KUNIT_EXPECT_TRUE(test, next_pkt(sim, 0, &p));
	KUNIT_EXPECT_EQ(test, p.syndrome, ROE_NAK_INV_REQ);
	KUNIT_EXPECT_EQ(test, sim->side[1].qp->state, IB_QPS_ERR);
}

/* Once it has waited as an RNR NAK says, a NAK is no copy of what that had said. */
static void error_rnr_lost(struct kunit *test)
{
	struct sim *sim = fresh(test);
	struct roe_qp *qp = sim->side[0].qp;
	struct roe_pkt p;
	unsigned int i;

	for (i = 0; i < 2; i++) {
		sim = fresh(test);
		sim_post(sim, 0, IB_WR_SEND, 10, SIG);
		sim_post(sim, 0, IB_WR_SEND, 10, SIG);
		sim_emit(sim, 0);
		while (next_pkt(sim, 1, &p))
			;
		qp->req.srtt = 100 * NSEC_PER_USEC;
		p = an_ack(PSN0, ROE_AETH_RNR_NAK | 20);
		KUNIT_EXPECT_FALSE(test, forge(sim, 0, &p, &p));
		if (!i) {
			/* one for what was on its way */
			p = an_ack(PSN0, ROE_NAK_PSN_SEQ);
			KUNIT_EXPECT_FALSE(test, forge(sim, 0, &p, &p));
		}
		sim->now = roe_timer_next(qp);
		sim_timer(sim, 0);
		sim_emit(sim, 0);
		KUNIT_EXPECT_TRUE(test, next_pkt(sim, 1, &p));
		while (next_pkt(sim, 1, &p))
			;
		p = an_ack(PSN0, ROE_NAK_PSN_SEQ);
		KUNIT_EXPECT_TRUE(test, forge(sim, 0, &p, &p));
		KUNIT_EXPECT_EQ(test, p.psn, PSN0);
	}
}

/* A packet of a WRITE of nothing, which needs no key and no receive. */
static void one_write(struct sim *sim, u32 n)
{
	struct roe_pkt p = { .opcode = ROE_OP_WRITE_ONLY, .psn = roe_psn_add(PSN0, n) }, r;

	forge(sim, 1, &p, &r);
}

/* On a long way some come thousands of packets before their turn: all are kept, no more. */
static void error_early_far(struct kunit *test)
{
	static const u32 order[] = { 1, 511, 512, 513, 1600, 1024, ROE_EARLY_MAX - 1 };
	struct sim *sim = fresh(test);
	struct roe_resp *resp = &sim->side[1].qp->resp;
	u32 i;

	for (i = 0; i < ARRAY_SIZE(order); i++) {
		one_write(sim, order[i]);
		KUNIT_EXPECT_EQ(test, resp->early.nr, i + 1);
		KUNIT_EXPECT_GT(test, resp->early.size, order[i]);
	}
	one_write(sim, ROE_EARLY_MAX);
	KUNIT_EXPECT_EQ(test, resp->early.nr, i);
	for (i = 2; i < ROE_EARLY_MAX; i++)
		one_write(sim, i);
	KUNIT_EXPECT_EQ(test, resp->early.nr, ROE_EARLY_MAX - 1);
	KUNIT_EXPECT_EQ(test, resp->psn, PSN0);
	one_write(sim, 0);
	KUNIT_EXPECT_EQ(test, resp->psn, roe_psn_add(PSN0, ROE_EARLY_MAX));
	KUNIT_EXPECT_EQ(test, resp->msn, ROE_EARLY_MAX);
	KUNIT_EXPECT_EQ(test, resp->early.nr, 0);
	/* the next gap begins with few */
	one_write(sim, ROE_EARLY_MAX + 1);
	KUNIT_EXPECT_EQ(test, resp->early.size, ROE_EARLY_SLOTS);
	/* so many of full length may have their turn at once: 4 MiB */
	roe_early_purge(&resp->early);
	sim->side[1].qp->mtu = 4096;
	one_write(sim, ROE_EARLY_MAX + 1024);
	KUNIT_EXPECT_EQ(test, resp->early.nr, 0);
	one_write(sim, ROE_EARLY_MAX + 1023);
	KUNIT_EXPECT_EQ(test, resp->early.nr, 1);
	sim->side[1].qp->mtu = SIM_MTU;
}

/*
 * Whoever goes silent in the middle of a gap does not hold memory that all QPs share; who goes
 * on, however late, loses no more than what was kept.
 */
static void error_early_forgotten(struct kunit *test)
{
	struct sim *sim = fresh(test);
	struct roe_qp *qp = sim->side[1].qp;
	u64 since = sim->now;
	u32 i;

	one_write(sim, 1);
	sim->now = since + ROE_EARLY_KEPT_NS - 1;
	one_write(sim, 2);
	/* the last one counts */
	sim->now = since + ROE_EARLY_KEPT_NS;
	sim_timer(sim, 1);
	KUNIT_EXPECT_EQ(test, qp->resp.early.nr, 2);
	KUNIT_EXPECT_EQ(test, roe_timer_next(qp), since + 2 * ROE_EARLY_KEPT_NS - 1);
	sim->now = roe_timer_next(qp);
	sim_timer(sim, 1);
	KUNIT_EXPECT_EQ(test, qp->resp.early.nr, 0);
	KUNIT_EXPECT_PTR_EQ(test, qp->resp.early.slots, NULL);
	KUNIT_EXPECT_EQ(test, roe_timer_next(qp), 0);
	for (i = 0; i < 4; i++)
		one_write(sim, i);
	KUNIT_EXPECT_EQ(test, qp->resp.psn, roe_psn_add(PSN0, 4));
	/* a gap that closes in time leaves no timer */
	one_write(sim, 5);
	KUNIT_EXPECT_NE(test, roe_timer_next(qp), 0);
	one_write(sim, 4);
	KUNIT_EXPECT_EQ(test, qp->resp.psn, roe_psn_add(PSN0, 6));
	KUNIT_EXPECT_EQ(test, qp->resp.kept_until, 0);
}

/* What was kept behind a gap is sent again after an RNR NAK, so it is not done before. */
static void error_rnr_forgets(struct kunit *test)
{
	struct sim *sim = fresh(test);
	struct roe_pkt p, r;
	u32 i;

	sim->side[1].qp->attr.min_rnr_timer = 12;
	for (i = 1; i < 4; i++) {
		p = a_send(ROE_OP_SEND_ONLY, i);
		KUNIT_EXPECT_EQ(test, forge(sim, 1, &p, &r), i == 1);
	}
	KUNIT_EXPECT_EQ(test, sim->side[1].qp->resp.early.nr, 3);
	p = a_send(ROE_OP_SEND_ONLY, 0);
	p.ackreq = true;
	KUNIT_ASSERT_TRUE(test, forge(sim, 1, &p, &r));
	KUNIT_EXPECT_EQ(test, r.syndrome & ROE_AETH_KIND_MASK, ROE_AETH_RNR_NAK);
	KUNIT_EXPECT_EQ(test, sim->side[1].qp->resp.early.nr, 0);
	for (i = 0; i < 4; i++)
		sim_recv(sim, 1, SIM_MTU);
	KUNIT_ASSERT_TRUE(test, forge(sim, 1, &p, &r));
	KUNIT_EXPECT_EQ(test, r.psn, PSN0);
}

/* A receiver that is slower than messages come: few of them are sent to be refused. */
static void error_rnr_sparing(struct kunit *test)
{
	const unsigned int n = 32;
	struct sim *sim = fresh(test);
	unsigned int i;

	for (i = 0; i < n; i++) {
		sim_recv(sim, 1, 10);
		sim_post(sim, 0, IB_WR_SEND, 10, SIG);
	}
	/* one each time that the RNR timer has run */
	sim->side[1].qp->rq.prod = 0;
	sim->side[1].late = n;
	KUNIT_ASSERT_TRUE(test, sim_run(sim));
	KUNIT_EXPECT_PTR_EQ(test, sim_check(sim), (const char *)NULL);
	kunit_info(test, "%u packets for %u messages", sim->sent[0], n);
	KUNIT_EXPECT_LE(test, sim->sent[0], 4 * n);
}

/* While the requester waits it sends nothing, so no time-out may count. */
static void error_rnr_progress(struct kunit *test)
{
	struct sim *sim = fresh(test);
	struct roe_qp *qp = sim->side[0].qp;
	struct roe_pkt p;

	qp->timeout_ns = roe_timer_ack_ns(1);
	sim_post(sim, 0, IB_WR_SEND, 10, SIG);
	sim_post(sim, 0, IB_WR_SEND, 10, SIG);
	sim_emit(sim, 0);
	while (next_pkt(sim, 1, &p))
		;
	p = an_ack(PSN0, ROE_AETH_RNR_NAK | 20);
	forge(sim, 0, &p, &p);
	/* a copy of the first one came after the receive was posted */
	p = an_ack(PSN0, ROE_AETH_ACK | 31);
	KUNIT_ASSERT_TRUE(test, forge(sim, 0, &p, &p));
	KUNIT_EXPECT_EQ(test, p.psn, roe_psn_add(PSN0, 1));
	KUNIT_EXPECT_EQ(test, qp->state, IB_QPS_RTS);
	KUNIT_EXPECT_EQ(test, qp->req.retry_cnt, 7);
}

/*
 * Nor does an ACK that IP refuses meanwhile start a clock by itself: with the one that
 * counts nothing alone, a peer that is gone would be asked for ever.
 */
static void error_rnr_local_drop(struct kunit *test)
{
	struct sim *sim = fresh(test);
	struct roe_qp *qp = sim->side[0].qp;
	struct roe_ctx ctx = {};
	struct roe_pkt p;

	qp->timeout_ns = roe_timer_ack_ns(14);
	qp->attr.retry_cnt = 1;
	qp->req.retry_cnt = 1;
	sim_post(sim, 0, IB_WR_SEND, 10, SIG);
	sim_emit(sim, 0);
	while (next_pkt(sim, 1, &p))
		;
	p = an_ack(PSN0, ROE_AETH_RNR_NAK | 20);
	forge(sim, 0, &p, &p);
	ctx.now = sim->now;
	roe_requester_local_drop(qp, &ctx, PSN0);
	KUNIT_EXPECT_EQ(test, roe_timer_next(qp), qp->req.rnr_deadline);
	sim->loss = 100;
	KUNIT_ASSERT_TRUE(test, sim_run(sim));
	EXPECT_STATUS(test, &sim->side[0].scq, IB_WC_RETRY_EXC_ERR);
	KUNIT_EXPECT_EQ(test, qp->state, IB_QPS_ERR);
}

/* What is posted in SQD waits, and so does what is wrong with it. */
static void error_held(struct kunit *test)
{
	struct sim *sim = fresh(test);
	struct roe_qp *qp = sim->side[0].qp;

	sim_recv(sim, 1, 10);
	sim_post(sim, 0, IB_WR_SEND, 10, SIG);
	sim_emit(sim, 0);
	qp->state = IB_QPS_SQD;
	sim_post(sim, 0, IB_WR_SEND, 10, SIG);
	roe_sq_slot(&qp->sq, 1)->status = IB_WC_LOC_QP_OP_ERR;
	KUNIT_ASSERT_TRUE(test, sim_run(sim));
	EXPECT_STATUS(test, &sim->side[0].scq, IB_WC_SUCCESS);
	EXPECT_STATUS(test, &sim->side[0].scq, 99);
	KUNIT_EXPECT_EQ(test, qp->state, IB_QPS_SQD);
	qp->state = IB_QPS_RTS;
	KUNIT_ASSERT_TRUE(test, sim_run(sim));
	EXPECT_STATUS(test, &sim->side[0].scq, IB_WC_LOC_QP_OP_ERR);
	KUNIT_EXPECT_EQ(test, qp->state, IB_QPS_ERR);
}

static void error_lost(struct kunit *test)
{
	struct sim *sim = fresh(test);
	struct roe_qp *qp = sim->side[0].qp;
	u64 start = sim->now;

	sim->loss = 100;
	qp->timeout_ns = roe_timer_ack_ns(14);
	qp->attr.retry_cnt = 3;
	qp->req.retry_cnt = 3;
	sim_post(sim, 0, IB_WR_SEND, 100, 0);
	sim_post(sim, 0, IB_WR_LOCAL_INV, 0, 0);
	sim_post(sim, 0, IB_WR_RDMA_WRITE, 100, 0);
	sim_recv(sim, 0, 100);
	KUNIT_ASSERT_TRUE(test, sim_run(sim));
	KUNIT_EXPECT_EQ(test, qp->state, IB_QPS_ERR);
	KUNIT_EXPECT_EQ(test, sim->now - start,
			4 * ROE_ACK_TOLERANCE * qp->timeout_ns);
	EXPECT_STATUS(test, &sim->side[0].scq, IB_WC_RETRY_EXC_ERR);
	EXPECT_STATUS(test, &sim->side[0].scq, IB_WC_WR_FLUSH_ERR);
	EXPECT_STATUS(test, &sim->side[0].scq, IB_WC_WR_FLUSH_ERR);
	EXPECT_STATUS(test, &sim->side[0].scq, 99);
	EXPECT_STATUS(test, &sim->side[0].rcq, IB_WC_WR_FLUSH_ERR);
}

/* With max_rd_atomic 0, as of a zeroed rdma_conn_param, one at a time is on its way. */
static void reads_without_depth(struct kunit *test)
{
	static const u8 ops[] = { IB_WR_RDMA_READ, IB_WR_ATOMIC_FETCH_AND_ADD };
	struct sim *sim = fresh(test);
	struct roe_qp *qp = sim->side[0].qp;
	unsigned int i;

	qp->attr.max_rd_atomic = 0;
	sim->side[1].qp->resp.rsrc_nr = 1;
	for (i = 0; i < 6; i++)
		sim_post(sim, 0, ops[i % ARRAY_SIZE(ops)], 8, SIG);
	while (sim_emit(sim, 0))
		KUNIT_EXPECT_LE(test, qp->req.rd_out, 1);
	KUNIT_EXPECT_EQ(test, qp->req.rd_out, 1);
	KUNIT_ASSERT_TRUE(test, sim_run(sim));
	KUNIT_EXPECT_NULL(test, sim_check(sim));
	KUNIT_EXPECT_EQ(test, qp->state, IB_QPS_RTS);
}

/* A READ longer than half a window is asked for before the one ahead of it is through. */
static void reads_overlap(struct kunit *test)
{
	const u32 npsn = 40, window = 32;
	struct sim *sim = fresh(test);
	struct roe_req *req = &sim->side[0].qp->req;
	struct sim_pkt *pkt;
	bool both = false;
	u32 left;

	sim->slot = npsn * SIM_MTU;
	req->cwnd = window;
	sim_post(sim, 0, IB_WR_RDMA_READ, npsn * SIM_MTU, SIG);
	sim_post(sim, 0, IB_WR_RDMA_READ, npsn * SIM_MTU, SIG);
	while (sim_emit(sim, 0))
		;
	KUNIT_EXPECT_EQ(test, req->rd_out, 1);
	while (!both && req->rd_out) {
		while (sim_emit(sim, 1))
			;
		pkt = sim_take(sim);
		KUNIT_ASSERT_NOT_NULL(test, pkt);
		sim_receive(sim, pkt->to, &pkt->rx);
		sim_put(sim, pkt);
		left = (req->psn - req->una) & ROE_PSN_MASK;
		sim_emit(sim, 0);
		both = req->rd_out == 2;
		KUNIT_EXPECT_EQ(test, both, left && left <= req->cwnd / 2);
	}
	KUNIT_EXPECT_TRUE(test, both);
	KUNIT_ASSERT_TRUE(test, sim_run(sim));
	KUNIT_EXPECT_NULL(test, sim_check(sim));
}

/* Requests in flight on both sides of a READ are those of one window, also when sent again. */
static void reads_share_window(struct kunit *test)
{
	const u32 window = 8, before = 6, npsn = 12;
	struct sim *sim = fresh(test);
	struct roe_req *req = &sim->side[0].qp->req;
	struct roe_pkt p;
	u32 n;

	sim->slot = 16 * SIM_MTU;
	req->cwnd = window;
	sim_post(sim, 0, IB_WR_RDMA_WRITE, before * SIM_MTU, SIG);
	sim_post(sim, 0, IB_WR_RDMA_READ, npsn * SIM_MTU, SIG);
	sim_post(sim, 0, IB_WR_RDMA_WRITE, 16 * SIM_MTU, SIG);
	while (sim_emit(sim, 0))
		;
	for (n = 0; next_pkt(sim, 1, &p); n++)
		KUNIT_EXPECT_EQ(test, p.psn, roe_psn_add(PSN0, n <= before ? n : n + npsn - 1));
	KUNIT_EXPECT_EQ(test, n, window + 1);
	/* all were lost, and the window is smaller */
	req->cwnd = before / 2;
	sim->now = req->early_deadline;
	sim_timer(sim, 0);
	while (sim_emit(sim, 0))
		;
	for (n = 0; next_pkt(sim, 1, &p); n++)
		KUNIT_EXPECT_EQ(test, p.psn, roe_psn_add(PSN0, n));
	KUNIT_EXPECT_EQ(test, n, before / 2);
	KUNIT_ASSERT_TRUE(test, sim_run(sim));
	KUNIT_EXPECT_NULL(test, sim_check(sim));
}

/* A peer that is given seconds is not waited for four times as long, one that is given none is. */
static void error_lost_for_long(struct kunit *test)
{
	static const struct {
		u8 timeout;
		u64 wait;
	} rows[] = {
		{ 1, ROE_ACK_LEAST_NS },
		{ 7, ROE_ACK_LEAST_NS },
		{ 8, 4 * (4096ull << 8) },
		{ 14, 4 * (4096ull << 14) },
		{ 16, ROE_ACK_LATE_NS },
		{ 17, ROE_ACK_LATE_NS },
		{ 18, 4096ull << 18 },
		{ 20, 4096ull << 20 },
	};
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(rows); i++) {
		struct sim *sim = fresh(test);
		struct roe_qp *qp = sim->side[0].qp;
		u64 start = sim->now;

		sim->loss = 100;
		qp->timeout_ns = roe_timer_ack_ns(rows[i].timeout);
		qp->attr.retry_cnt = 1;
		qp->req.retry_cnt = 1;
		sim_post(sim, 0, IB_WR_SEND, 100, 0);
		KUNIT_ASSERT_TRUE(test, sim_run(sim));
		KUNIT_EXPECT_EQ_MSG(test, sim->now - start, 2 * rows[i].wait, "code %u",
				    rows[i].timeout);
		EXPECT_STATUS(test, &sim->side[0].scq, IB_WC_RETRY_EXC_ERR);
	}
}

/* What one bad request gives on both sides. */
static void error_remote(struct kunit *test)
{
	static const struct {
		u8 op;
		bool bad_key;
		u16 recv;
		u8 access;
		u8 status, rstatus;
		u32 event;
		bool small;	/* one packet */
	} rows[] = {
		{ IB_WR_RDMA_WRITE, true, 9, 7, IB_WC_REM_ACCESS_ERR, IB_WC_WR_FLUSH_ERR,
		  BIT(IB_EVENT_QP_ACCESS_ERR) },
		{ IB_WR_RDMA_READ, true, 9, 7, IB_WC_REM_ACCESS_ERR, IB_WC_WR_FLUSH_ERR,
		  BIT(IB_EVENT_QP_ACCESS_ERR) },
		{ IB_WR_ATOMIC_FETCH_AND_ADD, true, 9, 7, IB_WC_REM_ACCESS_ERR,
		  IB_WC_WR_FLUSH_ERR, BIT(IB_EVENT_QP_ACCESS_ERR) },
		{ IB_WR_RDMA_WRITE_WITH_IMM, true, 9, 7, IB_WC_REM_ACCESS_ERR,
		  IB_WC_WR_FLUSH_ERR, BIT(IB_EVENT_QP_ACCESS_ERR) },
		{ IB_WR_RDMA_WRITE, true, 9, 7, IB_WC_REM_ACCESS_ERR,
		  IB_WC_WR_FLUSH_ERR, BIT(IB_EVENT_QP_ACCESS_ERR), true },
		{ IB_WR_RDMA_WRITE_WITH_IMM, true, 9, 7, IB_WC_REM_ACCESS_ERR,
		  IB_WC_LOC_ACCESS_ERR, 0, true },
		{ IB_WR_RDMA_WRITE, false, 9, 0, IB_WC_REM_INV_REQ_ERR, IB_WC_WR_FLUSH_ERR,
		  BIT(IB_EVENT_QP_REQ_ERR) },
		{ IB_WR_RDMA_READ, false, 9, 0, IB_WC_REM_INV_REQ_ERR, IB_WC_WR_FLUSH_ERR,
		  BIT(IB_EVENT_QP_REQ_ERR) },
		{ IB_WR_SEND, false, 599, 7, IB_WC_REM_INV_REQ_ERR, IB_WC_LOC_LEN_ERR, 0 },
	};
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(rows); i++) {
		struct sim *sim = fresh(test);
		struct sim_side *side = sim->side;

		if (!rows[i].access)
			side[1].qp->access = 0;
		sim_recv(sim, 1, rows[i].recv);
		sim_post(sim, 0, IB_WR_RDMA_WRITE, 0, SIG & rows[i].access);
		sim_post(sim, 0, rows[i].op, rows[i].small ? 100 : 600, 0);
		if (rows[i].bad_key)
			roe_sq_slot(&side[0].qp->sq, 1)->rkey ^= 1;
		sim_post(sim, 0, IB_WR_SEND, 1, 0);
		if (!rows[i].access) {	/* the first one would be refused as well */
			side[0].qp->sq.cons = 1;
			side[0].qp->sq.next = 1;
		}
		KUNIT_ASSERT_TRUE(test, sim_run(sim));
		if (rows[i].access)
			EXPECT_STATUS(test, &side[0].scq, IB_WC_SUCCESS);
		KUNIT_EXPECT_EQ_MSG(test, (int)status_of(&side[0].scq), rows[i].status,
				    "row %u", i);
		EXPECT_STATUS(test, &side[0].scq, IB_WC_WR_FLUSH_ERR);
		EXPECT_STATUS(test, &side[0].scq, 99);
		KUNIT_EXPECT_EQ_MSG(test, (int)status_of(&side[1].rcq), rows[i].rstatus,
				    "row %u", i);
		EXPECT_STATUS(test, &side[1].rcq, 99);
		KUNIT_EXPECT_EQ_MSG(test, side[1].events, rows[i].event, "row %u", i);
		KUNIT_EXPECT_EQ(test, side[0].qp->state, IB_QPS_ERR);
		KUNIT_EXPECT_EQ(test, side[1].qp->state, IB_QPS_ERR);
	}
}

/* Responses that must change nothing. */
static void error_ignored(struct kunit *test)
{
	static const struct {
		s32 psn;
		u8 syndrome;
	} rows[] = {
		{ 2, 0x1f }, { 3, 0x60 }, { 100, 0x1f }, { 0x7fffff, 0x1f },	/* not sent */
		{ -1, 0x1f }, { -1, 0x61 }, { -1, 0x60 }, { -1, 0x21 },		/* stale */
		{ -0x800000, 0x62 },
		{ 0, 0x40 }, { 1, 0x5f },					/* reserved */
		{ 0, 0x64 }, { 0, 0x65 }, { 0, 0x7f },
		{ 0, 0x80 }, { 1, 0x9f }, { 0, 0xe1 },
	};
	struct sim *sim = fresh(test);
	struct roe_qp *qp = sim->side[0].qp;
	struct roe_pkt p;
	unsigned int i;

	sim_post(sim, 0, IB_WR_SEND, 10, SIG);
	sim_post(sim, 0, IB_WR_SEND, 10, SIG);
	sim_emit(sim, 0);
	while (next_pkt(sim, 1, &p))
		;
	for (i = 0; i < ARRAY_SIZE(rows); i++) {
		p = an_ack(roe_psn_add(PSN0, rows[i].psn), rows[i].syndrome);
		KUNIT_EXPECT_FALSE_MSG(test, forge(sim, 0, &p, &p), "row %u", i);
		KUNIT_EXPECT_EQ_MSG(test, qp->req.una, PSN0, "row %u", i);
		KUNIT_EXPECT_EQ_MSG(test, qp->state, IB_QPS_RTS, "row %u", i);
		KUNIT_EXPECT_EQ(test, qp->req.retry_cnt, 7);
		KUNIT_EXPECT_FALSE(test, qp->req.rnr_wait);
	}
	p = an_ack(PSN0 + 1, ROE_AETH_ACK | 31);
	forge(sim, 0, &p, &p);
	EXPECT_STATUS(test, &sim->side[0].scq, IB_WC_SUCCESS);
	EXPECT_STATUS(test, &sim->side[0].scq, IB_WC_SUCCESS);
}

/* A READ of 600 bytes answered wrongly: first and third response. */
static void error_bad_response(struct kunit *test)
{
	static const struct {
		u8 op;
		u16 len;
		u8 status;
	} rows[] = {
		{ ROE_OP_READ_RESP_FIRST, 255, IB_WC_LOC_LEN_ERR },
		{ ROE_OP_READ_RESP_FIRST, 257, IB_WC_LOC_LEN_ERR },
		{ ROE_OP_READ_RESP_FIRST, 0, IB_WC_LOC_LEN_ERR },
		{ ROE_OP_READ_RESP_LAST, 256, IB_WC_BAD_RESP_ERR },
		{ ROE_OP_READ_RESP_ONLY, 256, IB_WC_BAD_RESP_ERR },
		{ ROE_OP_READ_RESP_ONLY, 88, IB_WC_BAD_RESP_ERR },
		{ ROE_OP_ATOMIC_ACK, 0, IB_WC_BAD_RESP_ERR },
	};
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(rows); i++) {
		struct sim *sim = fresh(test);
		struct roe_pkt p;

		sim_post(sim, 0, IB_WR_RDMA_READ, 600, 0);
		sim_emit(sim, 0);
		next_pkt(sim, 1, &p);
		p = (struct roe_pkt){ .opcode = rows[i].op, .psn = PSN0, .len = rows[i].len };
		forge(sim, 0, &p, &p);
		KUNIT_EXPECT_EQ_MSG(test, (int)status_of(&sim->side[0].scq), rows[i].status,
				    "row %u", i);
	}
}

/* What no peer sends is dropped, and the right answer still counts. */
static void error_malformed_response(struct kunit *test)
{
	static const struct {
		enum ib_wr_opcode op;
		u8 answer, syndrome;
		u16 len;
	} rows[] = {
		{ IB_WR_RDMA_WRITE, ROE_OP_ACK, 0, 4 },
		{ IB_WR_RDMA_WRITE, ROE_OP_ACK, ROE_NAK_REM_ACCESS, 4 },
		{ IB_WR_ATOMIC_FETCH_AND_ADD, ROE_OP_ATOMIC_ACK, 0, 8 },
		{ IB_WR_ATOMIC_FETCH_AND_ADD, ROE_OP_ATOMIC_ACK, ROE_NAK_REM_ACCESS, 0 },
		{ IB_WR_ATOMIC_FETCH_AND_ADD, ROE_OP_ATOMIC_ACK, 0x80, 0 },
		{ IB_WR_RDMA_READ, ROE_OP_READ_RESP_ONLY, ROE_NAK_REM_ACCESS, 8 },
		{ IB_WR_RDMA_READ, ROE_OP_READ_RESP_ONLY, ROE_AETH_RNR_NAK, 8 },
	};
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(rows); i++) {
		struct sim *sim = fresh(test);
		struct sim_pkt *request;
		struct roe_pkt p = {
			.opcode = rows[i].answer, .psn = PSN0, .syndrome = rows[i].syndrome,
			.len = rows[i].len,
		};

		sim_post(sim, 0, rows[i].op, 8, SIG);
		sim_emit(sim, 0);
		request = sim_take(sim);
		KUNIT_ASSERT_NOT_NULL(test, request);
		forge(sim, 0, &p, &p);
		KUNIT_EXPECT_EQ_MSG(test, sim->side[0].qp->req.una, PSN0, "row %u", i);
		sim_receive(sim, 1, &request->rx);
		sim_put(sim, request);
		sim_emit(sim, 1);
		KUNIT_ASSERT_TRUE(test, sim_run(sim));
		KUNIT_EXPECT_NULL(test, sim_check(sim));
	}
}

/* A fatal refusal of a forged request: code, PSN, state. */
static void expect_refused(struct kunit *test, const struct roe_pkt *p, u8 code)
{
	struct sim *sim = test->priv;
	struct roe_qp *qp = sim->side[1].qp;
	struct roe_pkt nak;

	KUNIT_EXPECT_TRUE(test, forge(sim, 1, p, &nak));
	KUNIT_EXPECT_EQ_MSG(test, nak.syndrome, code, "opcode %#x", p->opcode);
	KUNIT_EXPECT_EQ(test, nak.psn, p->psn);
	KUNIT_EXPECT_EQ(test, qp->state, IB_QPS_ERR);
	KUNIT_EXPECT_FALSE(test, forge(sim, 1, p, &nak));
}

static void error_opcodes(struct kunit *test)
{
	static const u8 ops[] = {
		0x15, 0x18, 0x1c, 0x1d, 0x1e, 0x1f,			/* unknown, unsupported */
		ROE_OP_SEND_MIDDLE, ROE_OP_SEND_LAST, ROE_OP_WRITE_MIDDLE, ROE_OP_WRITE_LAST,
	};
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(ops); i++) {
		struct roe_pkt p = { .opcode = ops[i], .psn = PSN0, .len = SIM_MTU };

		fresh(test);
		sim_recv(test->priv, 1, 4096);
		expect_refused(test, &p, ROE_NAK_INV_REQ);
	}
}

static void error_future(struct kunit *test)
{
	struct sim *sim = fresh(test);
	struct roe_pkt p = { .opcode = ROE_OP_WRITE_ONLY, .ackreq = true };
	struct roe_pkt nak;
	s32 i;

	for (i = 1; i < 6; i++) {
		p.psn = roe_psn_add(PSN0, i);
		KUNIT_EXPECT_EQ(test, forge(sim, 1, &p, &nak), i == 1);
	}
	p.psn = PSN0;
	KUNIT_EXPECT_FALSE(test, forge(sim, 1, &p, &nak));
	/* the expected one came, and the others had waited for it: told behind the next ones */
	for (i = 1; i < ROE_PROBE_PKTS; i++) {
		p.psn = roe_psn_add(PSN0, i);
		KUNIT_EXPECT_EQ(test, forge(sim, 1, &p, &nak), i == ROE_PROBE_PKTS - 1);
	}
	KUNIT_EXPECT_EQ(test, nak.syndrome & ROE_AETH_KIND_MASK, ROE_AETH_ACK);
	KUNIT_EXPECT_EQ(test, nak.psn, roe_psn_add(PSN0, 5));
	/* the next gap is reported again */
	p.psn = roe_psn_add(PSN0, 8);
	KUNIT_EXPECT_TRUE(test, forge(sim, 1, &p, &nak));
	KUNIT_EXPECT_EQ(test, nak.syndrome, ROE_NAK_PSN_SEQ);
	KUNIT_EXPECT_EQ(test, nak.psn, roe_psn_add(PSN0, 6));
}

static struct roe_pkt a_read(struct sim *sim, u32 n, u32 len)
{
	return (struct roe_pkt){
		.opcode = ROE_OP_READ_REQ,
		.psn = roe_psn_add(PSN0, n),
		.va = (uintptr_t)sim->side[1].src + n * SIM_MTU,
		.rkey = sim->side[1].mr.key,
		.dmalen = len,
	};
}

/* From its middle; beyond it, with another key or another length: silence. */
static void error_dup_read(struct kunit *test)
{
	struct sim *sim = fresh(test);
	struct roe_pkt p = a_read(sim, 0, 1000);
	struct roe_pkt r;

	KUNIT_EXPECT_TRUE(test, forge(sim, 1, &p, &r));
	KUNIT_EXPECT_EQ(test, r.opcode, ROE_OP_READ_RESP_FIRST);
	while (next_pkt(sim, 0, &r))
		;
	p = a_read(sim, 2, 1000 - 2 * SIM_MTU);
	KUNIT_EXPECT_TRUE(test, forge(sim, 1, &p, &r));
	KUNIT_EXPECT_EQ(test, r.opcode, ROE_OP_READ_RESP_FIRST);
	KUNIT_EXPECT_EQ(test, r.psn, roe_psn_add(PSN0, 2));
	KUNIT_EXPECT_TRUE(test, next_pkt(sim, 0, &r));
	KUNIT_EXPECT_EQ(test, r.opcode, ROE_OP_READ_RESP_LAST);
	KUNIT_EXPECT_EQ(test, r.len, 1000 - 3 * SIM_MTU);
	KUNIT_EXPECT_FALSE(test, next_pkt(sim, 0, &r));
	p = a_read(sim, 3, 1000 - 3 * SIM_MTU);
	KUNIT_EXPECT_TRUE(test, forge(sim, 1, &p, &r));
	KUNIT_EXPECT_EQ(test, r.opcode, ROE_OP_READ_RESP_ONLY);
	p = a_read(sim, 2, 1000);
	KUNIT_EXPECT_FALSE(test, forge(sim, 1, &p, &r));
	p = a_read(sim, 2, 1000 - 2 * SIM_MTU);
	p.rkey ^= 1;
	KUNIT_EXPECT_FALSE(test, forge(sim, 1, &p, &r));
	p = a_read(sim, -1, 1000);
	KUNIT_EXPECT_FALSE(test, forge(sim, 1, &p, &r));
	KUNIT_EXPECT_EQ(test, sim->side[1].qp->state, IB_QPS_RTS);
}

/* Behind some of its responses a READ is refused, by a peer that names the READ itself. */
static void error_read_begun(struct kunit *test)
{
	struct sim *sim = fresh(test);
	struct roe_pkt p, ack;
	unsigned int i;

	sim_post(sim, 0, IB_WR_RDMA_READ, 4 * SIM_MTU, SIG);
	sim_emit(sim, 0);
	KUNIT_ASSERT_TRUE(test, next_pkt(sim, 1, &p));
	for (i = 0; i < 2; i++) {
		ack = (struct roe_pkt){
			.opcode = i ? ROE_OP_READ_RESP_MIDDLE : ROE_OP_READ_RESP_FIRST,
			.psn = PSN0 + i,
			.len = SIM_MTU,
		};
		KUNIT_EXPECT_FALSE(test, forge(sim, 0, &ack, &p));
	}
	/* no reason, and one that is over */
	ack = an_ack(PSN0 - 1, ROE_NAK_REM_ACCESS);
	KUNIT_EXPECT_FALSE(test, forge(sim, 0, &ack, &p));
	ack = an_ack(PSN0, ROE_NAK_PSN_SEQ);
	KUNIT_EXPECT_FALSE(test, forge(sim, 0, &ack, &p));
	KUNIT_EXPECT_EQ(test, sim->side[0].qp->state, IB_QPS_RTS);
	ack = an_ack(PSN0, ROE_NAK_REM_ACCESS);
	KUNIT_EXPECT_FALSE(test, forge(sim, 0, &ack, &p));
	KUNIT_EXPECT_EQ(test, sim->side[0].qp->state, IB_QPS_ERR);
	KUNIT_EXPECT_EQ(test, (int)status_of(&sim->side[0].scq), (int)IB_WC_REM_ACCESS_ERR);
}

/* A READ sent again is not answered once its memory has gone; a SEND before it is. */
static void error_read_replay_gone(struct kunit *test)
{
	struct sim *sim = fresh(test);
	struct roe_pkt send = { .opcode = ROE_OP_SEND_ONLY, .psn = PSN0, .ackreq = true };
	struct roe_pkt read = a_read(sim, 1, SIM_MTU), r;
	struct roe_mr *fast = &sim->side[1].fast;
	struct roe_rx_pkt rx = { .p = send, .nvec = 1 };

	fast->access = IB_ACCESS_REMOTE_READ;
	fast->state = ROE_MR_VALID;
	read.rkey = fast->key;
	sim_recv(sim, 1, SIM_MTU);
	KUNIT_EXPECT_TRUE(test, forge(sim, 1, &send, &r));
	KUNIT_EXPECT_TRUE(test, forge(sim, 1, &read, &r));
	KUNIT_EXPECT_EQ(test, r.opcode, ROE_OP_READ_RESP_ONLY);

	fast->state = ROE_MR_FREE;
	sim_receive(sim, 1, &rx);
	KUNIT_ASSERT_TRUE(test, forge(sim, 1, &read, &r));
	KUNIT_EXPECT_EQ(test, r.opcode, ROE_OP_ACK);
	KUNIT_EXPECT_EQ(test, r.psn, PSN0);
	KUNIT_EXPECT_EQ(test, r.syndrome & ROE_AETH_KIND_MASK, ROE_AETH_ACK);
	KUNIT_EXPECT_FALSE(test, next_pkt(sim, 0, &r));
	KUNIT_EXPECT_EQ(test, sim->side[1].qp->state, IB_QPS_RTS);
}

/* The next response, with the data that belong there. */
static u8 expect_data(struct sim *sim, u32 n)
{
	struct sim_pkt *pkt = sim_take(sim);
	u8 opcode;

	KUNIT_ASSERT_NOT_NULL(sim->test, pkt);
	opcode = pkt->rx.p.opcode;
	KUNIT_EXPECT_EQ(sim->test, pkt->rx.p.psn, roe_psn_add(PSN0, n));
	KUNIT_EXPECT_EQ(sim->test, pkt->rx.p.len, SIM_MTU);
	KUNIT_EXPECT_EQ(sim->test, memcmp(pkt->data, sim->side[1].src + n * SIM_MTU, SIM_MTU), 0);
	sim_put(sim, pkt);
	return opcode;
}

/* From where the responses wait for their time: what comes then answers it, from First on. */
static void error_dup_read_stalled(struct kunit *test)
{
	struct sim *sim = fresh(test);
	struct roe_qp *qp = sim->side[1].qp;
	struct roe_rx_pkt rx = { .p = a_read(sim, 0, 8 * SIM_MTU) };
	u32 n = 0;

	qp->rate.rate = ROE_RATE_MIN;
	qp->rate.target = ROE_RATE_MIN;
	qp->rate.round = ROE_RATE_ROUND_NS;
	qp->rate.cut_at = sim->now;
	qp->rate.grown_at = sim->now;
	sim_receive(sim, 1, &rx);
	sim_emit(sim, 1);
	while (!list_empty(&sim->wire)) {
		KUNIT_EXPECT_EQ(test, expect_data(sim, n),
				n ? ROE_OP_READ_RESP_MIDDLE : ROE_OP_READ_RESP_FIRST);
		n++;
	}
	KUNIT_ASSERT_GT(test, n, 0);
	KUNIT_ASSERT_LT(test, n, 7);
	KUNIT_ASSERT_NE(test, qp->rate.wake, 0);
	rx.p = a_read(sim, n, (8 - n) * SIM_MTU);
	sim_receive(sim, 1, &rx);
	qp->rate.rate = 0;
	sim->now = qp->rate.wake;
	sim_timer(sim, 1);
	sim_emit(sim, 1);
	KUNIT_EXPECT_EQ(test, expect_data(sim, n++), ROE_OP_READ_RESP_FIRST);
	for (; n < 7; n++)
		KUNIT_EXPECT_EQ(test, expect_data(sim, n), ROE_OP_READ_RESP_MIDDLE);
	KUNIT_EXPECT_EQ(test, expect_data(sim, n), ROE_OP_READ_RESP_LAST);
	KUNIT_EXPECT_TRUE(test, list_empty(&sim->wire));
}

/* What was lost leaves packet by packet when it is asked for again, the rest as trains. */
static void error_dup_read_rest(struct kunit *test)
{
	struct sim *sim = fresh(test);
	struct roe_qp *qp = sim->side[1].qp;
	struct roe_rx_pkt rx = { .p = a_read(sim, 0, 8 * SIM_MTU) };
	u32 n = 0;

	qp->rate.rate = ROE_RATE_MIN;
	qp->rate.target = ROE_RATE_MIN;
	qp->rate.round = ROE_RATE_ROUND_NS;
	qp->rate.cut_at = sim->now;
	qp->rate.grown_at = sim->now;
	sim_receive(sim, 1, &rx);
	sim_emit(sim, 1);
	while (!list_empty(&sim->wire))
		expect_data(sim, n++);
	KUNIT_ASSERT_GT(test, n, 0);
	KUNIT_ASSERT_LT(test, n, 7);
	KUNIT_EXPECT_EQ(test, sim->again[1], 0);
	rx.p = a_read(sim, n - 1, (8 - n + 1) * SIM_MTU);
	sim_receive(sim, 1, &rx);
	qp->rate.rate = 0;
	sim->now = max(sim->now, qp->rate.wake);
	sim_timer(sim, 1);
	sim_emit(sim, 1);
	for (n--; n < 8; n++)
		expect_data(sim, n);
	KUNIT_EXPECT_TRUE(test, list_empty(&sim->wire));
	KUNIT_EXPECT_EQ(test, sim->again[1], 1);
}

/* One more than max_dest_rd_atomic unanswered, or none allowed. */
static void error_too_many_reads(struct kunit *test)
{
	struct sim *sim = fresh(test);
	struct roe_rx_pkt rx = { };
	struct roe_pkt p;
	unsigned int i;

	for (i = 0; i < SIM_RD_ATOMIC; i++) {
		rx.p = a_read(sim, i, 10);
		sim_receive(sim, 1, &rx);
	}
	rx.p = a_read(sim, i, 10);
	sim_receive(sim, 1, &rx);
	sim_emit(sim, 1);
	for (i = 0; i < SIM_RD_ATOMIC; i++) {
		KUNIT_EXPECT_TRUE(test, next_pkt(sim, 0, &p));
		KUNIT_EXPECT_EQ(test, p.opcode, ROE_OP_READ_RESP_ONLY);
	}
	KUNIT_EXPECT_TRUE(test, next_pkt(sim, 0, &p));
	KUNIT_EXPECT_EQ(test, p.syndrome, ROE_NAK_INV_REQ);
	KUNIT_EXPECT_EQ(test, sim->side[1].qp->state, IB_QPS_ERR);

	sim = fresh(test);
	sim->side[1].qp->resp.rsrc_nr = 0;
	p = a_read(sim, 0, 10);
	expect_refused(test, &p, ROE_NAK_INV_REQ);
}

/* As NICs do, which are told a logarithm; and 16 come in one burst. */
static void error_reads_rounded(struct kunit *test)
{
	static const struct {
		u8 told;
		u32 slots;
	} rows[] = {
		{ 0, 0 }, { 1, 16 }, { 16, 16 }, { 17, 32 }, { 128, 128 }, { 33, 64 },
	};
	struct sim *sim = fresh(test);
	struct roe_qp *qp = sim->side[1].qp;
	struct ib_qp_attr attr = {};
	struct roe_rx_pkt rx = {};
	struct roe_pkt p;
	unsigned int i;
	int err;

	qp->state = IB_QPS_SQD;
	qp->sq_drained = true;
	for (i = 0; i < ARRAY_SIZE(rows); i++) {
		attr.max_dest_rd_atomic = rows[i].told;
		err = roe_qp_modify(&qp->ib, &attr, IB_QP_MAX_DEST_RD_ATOMIC, NULL);
		KUNIT_ASSERT_EQ(test, err, 0);
		KUNIT_EXPECT_EQ_MSG(test, qp->resp.rsrc_nr, rows[i].slots, "%u", rows[i].told);
	}
	for (i = 0; i <= 64; i++) {
		rx.p = a_read(sim, i, 10);
		sim_receive(sim, 1, &rx);
	}
	sim_emit(sim, 1);
	for (i = 0; i < 64; i++) {
		KUNIT_EXPECT_TRUE(test, next_pkt(sim, 0, &p));
		KUNIT_EXPECT_EQ(test, p.opcode, ROE_OP_READ_RESP_ONLY);
	}
	KUNIT_EXPECT_TRUE(test, next_pkt(sim, 0, &p));
	KUNIT_EXPECT_EQ(test, p.syndrome, ROE_NAK_INV_REQ);
}

static struct roe_pkt a_flush(struct sim *sim, u32 n)
{
	struct roe_pkt p = a_read(sim, n, 10);

	p.va = (uintptr_t)sim->side[1].src;
	p.opcode = ROE_OP_FLUSH;
	p.feth = ROE_FETH_PLT_GLOBAL;
	return p;
}

/* The answer to a READ of a few bytes or to a FLUSH. */
static void expect_answer(struct sim *sim, u32 n, u32 len)
{
	struct roe_pkt p;

	KUNIT_EXPECT_TRUE(sim->test, next_pkt(sim, 0, &p));
	KUNIT_EXPECT_EQ(sim->test, p.opcode, ROE_OP_READ_RESP_ONLY);
	KUNIT_EXPECT_EQ(sim->test, p.psn, roe_psn_add(PSN0, n));
	KUNIT_EXPECT_EQ(sim->test, p.len, len);
}

/* More FLUSHes at once than can be answered: the last one comes again, nobody dies. */
static void error_too_many_flushes(struct kunit *test)
{
	struct sim *sim = fresh(test);
	struct roe_rx_pkt rx = {};
	struct roe_pkt p;
	unsigned int i;

	sim->side[1].qp->resp.rsrc_nr = 1;
	for (i = 0; i <= ROE_FLUSHES; i++) {
		rx.p = a_flush(sim, i);
		sim_receive(sim, 1, &rx);
	}
	sim_emit(sim, 1);
	for (i = 0; i < ROE_FLUSHES; i++)
		expect_answer(sim, i, 0);
	KUNIT_EXPECT_TRUE(test, next_pkt(sim, 0, &p));
	KUNIT_EXPECT_EQ(test, p.syndrome, ROE_NAK_PSN_SEQ);
	KUNIT_EXPECT_EQ(test, p.psn, rx.p.psn);
	KUNIT_EXPECT_FALSE(test, next_pkt(sim, 0, &p));
	KUNIT_EXPECT_TRUE(test, forge(sim, 1, &rx.p, &p));
	KUNIT_EXPECT_EQ(test, p.opcode, ROE_OP_READ_RESP_ONLY);
	KUNIT_EXPECT_EQ(test, p.psn, rx.p.psn);

	sim = fresh(test);
	sim->side[1].qp->resp.rsrc_nr = 0;
	p = a_flush(sim, 0);
	expect_refused(test, &p, ROE_NAK_INV_REQ);
}

/*
 * FLUSHes that the peer does not count (rdma_rxe) take no slot from a READ, and are
 * answered however often they come.
 */
static void error_flushes_after_read(struct kunit *test)
{
	struct sim *sim = fresh(test);
	struct roe_rx_pkt rx = {};
	unsigned int round, i;
	struct roe_pkt p;

	sim->side[1].qp->resp.rsrc_nr = 1;
	/* all answers are lost; the second time in one burst */
	for (round = 0; round < 2; round++) {
		for (i = 0; i < 10; i++) {
			rx.p = i ? a_flush(sim, i) : a_read(sim, 0, 10);
			sim_receive(sim, 1, &rx);
			if (!round)
				sim_emit(sim, 1);
		}
		sim_emit(sim, 1);
		for (i = 0; i < 10; i++)
			expect_answer(sim, i, i ? 0 : 10);
		KUNIT_EXPECT_FALSE(test, next_pkt(sim, 0, &p));
	}
	/* in the order of their PSNs, whatever the order they came in */
	for (i = 4; i; i--) {
		rx.p = i == 1 ? a_read(sim, 0, 10) : a_flush(sim, i);
		sim_receive(sim, 1, &rx);
		sim_receive(sim, 1, &rx);
	}
	sim_emit(sim, 1);
	expect_answer(sim, 0, 10);
	for (i = 2; i <= 4; i++)
		expect_answer(sim, i, 0);
	KUNIT_EXPECT_FALSE(test, next_pkt(sim, 0, &p));
	KUNIT_EXPECT_EQ(test, sim->side[1].qp->state, IB_QPS_RTS);
}

/* A READ from 2^24 packets ago has the PSN of what came last: that is acknowledged. */
static void error_dup_after_wrap(struct kunit *test)
{
	struct sim *sim = fresh(test);
	struct roe_pkt p = a_read(sim, 0, 10);
	struct roe_pkt r;
	unsigned int i;

	KUNIT_EXPECT_TRUE(test, forge(sim, 1, &p, &r));
	sim->side[1].qp->resp.psn = PSN0;
	for (i = 0; i < 2; i++) {
		p = (struct roe_pkt){ .opcode = ROE_OP_WRITE_ONLY, .ackreq = true, .psn = PSN0 };
		KUNIT_EXPECT_TRUE(test, forge(sim, 1, &p, &r));
		KUNIT_EXPECT_EQ(test, r.opcode, ROE_OP_ACK);
		KUNIT_EXPECT_EQ(test, r.syndrome & ROE_AETH_KIND_MASK, ROE_AETH_ACK);
		KUNIT_EXPECT_EQ(test, r.psn, PSN0);
	}
	/* and if nothing else came for half of that, nothing is */
	sim->side[1].qp->resp.psn = roe_psn_add(PSN0, 0x7fffff);
	KUNIT_EXPECT_TRUE(test, forge(sim, 1, &p, &r));
	sim->side[1].qp->resp.psn = roe_psn_add(PSN0, 0x800010);
	p.psn = roe_psn_add(PSN0, 0x800000);
	KUNIT_EXPECT_FALSE(test, forge(sim, 1, &p, &r));
}

/* The payload of the response with @psn is @len times @byte. */
static void expect_bytes(struct sim *sim, u32 psn, u8 byte, u32 len)
{
	struct sim_pkt *pkt = sim_take(sim);

	KUNIT_ASSERT_NOT_NULL(sim->test, pkt);
	KUNIT_EXPECT_EQ(sim->test, pkt->rx.p.psn, psn);
	KUNIT_EXPECT_EQ(sim->test, pkt->rx.p.len, len);
	KUNIT_EXPECT_NULL(sim->test, memchr_inv(pkt->data, byte, len));
	sim_put(sim, pkt);
}

/*
 * Two kept READs with one first PSN, 2^24 packets apart, answered again in one run: each
 * from its own memory. Else a peer would read beyond the end of one of them.
 */
static void error_two_after_wrap(struct kunit *test)
{
	struct sim *sim = fresh(test);
	struct sim_side *side = &sim->side[1];
	struct roe_pkt first = a_read(sim, 0, 2 * SIM_MTU), part = a_read(sim, 1, SIM_MTU);
	struct roe_pkt second = a_read(sim, 0, SIM_MTU), r;
	struct roe_pkt p = { .opcode = ROE_OP_WRITE_ONLY, .psn = roe_psn_add(PSN0, 1) };

	/* what lies at @dst for the one key is @src for the other */
	memset(side->src, 1, SIM_REGION);
	memset(side->dst, 2, SIM_REGION);
	side->fast.state = ROE_MR_VALID;
	side->fast.access = IB_ACCESS_REMOTE_READ;
	side->fast.iova = (uintptr_t)side->dst;
	second.va = side->fast.iova;
	second.rkey = side->fast.key;
	KUNIT_EXPECT_TRUE(test, forge(sim, 1, &first, &r));
	side->qp->resp.psn = PSN0;
	KUNIT_EXPECT_TRUE(test, forge(sim, 1, &second, &r));
	forge(sim, 1, &p, &r);
	while (next_pkt(sim, 0, &r))
		;
	sim_receive(sim, 1, &(struct roe_rx_pkt){ .p = part });
	sim_receive(sim, 1, &(struct roe_rx_pkt){ .p = second });
	sim_emit(sim, 1);
	expect_bytes(sim, part.psn, 1, SIM_MTU);
	expect_bytes(sim, second.psn, 1, SIM_MTU);
}

/* Once around with nothing but READs: their PSNs are not those of what was written before. */
static void error_dup_after_reads(struct kunit *test)
{
	struct sim *sim = fresh(test);
	struct roe_resp *resp = &sim->side[1].qp->resp;
	struct roe_pkt p = { .opcode = ROE_OP_WRITE_ONLY, .ackreq = true, .psn = PSN0 };
	struct roe_pkt r;
	u32 n;

	KUNIT_EXPECT_TRUE(test, forge(sim, 1, &p, &r));
	for (n = 0x400000; n <= 0x1000000; n += 0x400000) {
		resp->psn = roe_psn_add(PSN0, n);
		p = a_read(sim, 0, 10);
		p.psn = resp->psn;
		KUNIT_EXPECT_TRUE(test, forge(sim, 1, &p, &r));
	}
	p = (struct roe_pkt){ .opcode = ROE_OP_WRITE_ONLY, .ackreq = true, .psn = PSN0 };
	KUNIT_EXPECT_FALSE(test, forge(sim, 1, &p, &r));
	/* until there is something again */
	p.psn = resp->psn;
	KUNIT_EXPECT_TRUE(test, forge(sim, 1, &p, &r));
	KUNIT_EXPECT_TRUE(test, forge(sim, 1, &p, &r));
	KUNIT_EXPECT_EQ(test, r.psn, p.psn);
}

/* The NAK for a gap is not sent any more when what is missing has come in the same run. */
static void error_nak_too_late(struct kunit *test)
{
	struct sim *sim = fresh(test);
	struct roe_rx_pkt rx = {};
	struct roe_pkt p;

	/* so far ahead that it is not kept */
	rx.p = (struct roe_pkt){ .opcode = ROE_OP_WRITE_ONLY, .psn = roe_psn_add(PSN0, 5000) };
	sim_receive(sim, 1, &rx);
	rx.p = a_read(sim, 0, 10);
	sim_receive(sim, 1, &rx);
	sim_emit(sim, 1);
	expect_answer(sim, 0, 10);
	KUNIT_EXPECT_FALSE(test, next_pkt(sim, 0, &p));
}

/* Three messages, on their way. */
static void three_sends(struct sim *sim)
{
	unsigned int i;
	struct roe_pkt p;

	for (i = 0; i < 3; i++)
		sim_post(sim, 0, IB_WR_SEND, 10, 0);
	sim_recv(sim, 0, 10);
	sim_emit(sim, 0);
	while (next_pkt(sim, 1, &p))
		;
}

/* The SQ is not lent any more: now, and not before, @status is told, and the rest flushed. */
static void expect_late_error(struct kunit *test, struct sim_side *side, int status)
{
	struct roe_ctx ctx = {};

	KUNIT_EXPECT_EQ(test, side->qp->state, IB_QPS_ERR);
	EXPECT_STATUS(test, &side->scq, 99);
	KUNIT_EXPECT_EQ(test, side->qp->sq.cons, 0);
	roe_complete_returned(side->qp, &ctx);
	EXPECT_STATUS(test, &side->scq, status);
	EXPECT_STATUS(test, &side->scq, IB_WC_WR_FLUSH_ERR);
	EXPECT_STATUS(test, &side->scq, IB_WC_WR_FLUSH_ERR);
	EXPECT_STATUS(test, &side->scq, 99);
	EXPECT_STATUS(test, &side->rcq, IB_WC_WR_FLUSH_ERR);
}

/*
 * While a QP of the same device reads what the SQ sends nothing of it is given back,
 * though the state is ERR at once: not what the peer refuses ...
 */
static void error_lent(struct kunit *test)
{
	struct sim *sim = fresh(test);
	struct roe_rx_pkt rx = { .p = an_ack(PSN0, ROE_NAK_INV_REQ) };

	three_sends(sim);
	sim->side[0].qp->lent = true;
	sim_receive(sim, 0, &rx);
	expect_late_error(test, &sim->side[0], IB_WC_REM_INV_REQ_ERR);
}

/* ... nor what had its last time-out. */
static void error_lent_timeout(struct kunit *test)
{
	struct sim *sim = fresh(test);
	struct roe_qp *qp = sim->side[0].qp;

	three_sends(sim);
	qp->req.retry_cnt = 0;
	sim->now = qp->req.ack_deadline;
	qp->lent = true;
	sim_timer(sim, 0);
	expect_late_error(test, &sim->side[0], IB_WC_RETRY_EXC_ERR);
}

/* A WQE fails when a packet of it is in the burst already, and not read. */
static void error_lent_in_burst(struct kunit *test)
{
	struct sim *sim = fresh(test);
	struct sim_side *side = &sim->side[0];
	struct roe_ctx ctx = {};

	sim_post(sim, 0, IB_WR_SEND, 4 * SIM_MTU, 0);
	sim_post(sim, 0, IB_WR_SEND, 10, 0);
	sim_post(sim, 0, IB_WR_SEND, 10, 0);
	sim_recv(sim, 0, 10);
	sim_emit(sim, 0);
	roe_sq_slot(&side->qp->sq, 0)->sge[1].lkey ^= 1;
	sim->now = side->qp->req.early_deadline;
	sim_timer(sim, 0);
	sim->txb->direct = true;
	side->qp->lent = true;
	rcu_read_lock_bh();
	roe_qp_emit(side->qp, &ctx, sim->txb);
	rcu_read_unlock_bh();
	KUNIT_EXPECT_GT(test, sim->txb->n, 0u);
	expect_late_error(test, side, IB_WC_LOC_PROT_ERR);
	roe_txb_reset(sim->txb);
}

/* Refused in the middle of a direct burst: what follows in it is flushed, once, in order. */
static void error_direct(struct kunit *test)
{
	struct sim *sim = fresh(test);
	struct sim_side *side = sim->side;
	unsigned int i;

	sim->direct = 100;
	for (i = 0; i < 4; i++)
		sim_post(sim, 0, IB_WR_RDMA_WRITE, 10, SIG);
	roe_sq_slot(&side[0].qp->sq, 1)->rkey ^= 1;
	while (sim_emit(sim, 0) || sim_emit(sim, 1))
		;
	EXPECT_STATUS(test, &side[0].scq, IB_WC_SUCCESS);
	EXPECT_STATUS(test, &side[0].scq, IB_WC_REM_ACCESS_ERR);
	EXPECT_STATUS(test, &side[0].scq, IB_WC_WR_FLUSH_ERR);
	EXPECT_STATUS(test, &side[0].scq, IB_WC_WR_FLUSH_ERR);
	EXPECT_STATUS(test, &side[0].scq, 99);
	KUNIT_EXPECT_EQ(test, side[0].qp->state, IB_QPS_ERR);
	KUNIT_EXPECT_EQ(test, side[1].qp->state, IB_QPS_ERR);
}

/* A copy of an answered READ or ATOMIC must not keep the slot from a new one. */
static void error_dup_holds_slot(struct kunit *test)
{
	static const u8 ops[] = { ROE_OP_READ_REQ, ROE_OP_FETCH_ADD };
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(ops); i++) {
		struct sim *sim = fresh(test);
		struct roe_rx_pkt rx = { .p = a_read(sim, 0, 8) };
		struct roe_pkt p;

		sim->side[1].qp->resp.rsrc_nr = 1;
		rx.p.opcode = ops[i];
		rx.p.va = (uintptr_t)sim->side[1].word;
		KUNIT_EXPECT_TRUE(test, forge(sim, 1, &rx.p, &p));
		sim_receive(sim, 1, &rx);
		rx.p.psn = PSN0 + 1;
		sim_receive(sim, 1, &rx);
		sim_emit(sim, 1);
		KUNIT_EXPECT_TRUE(test, next_pkt(sim, 0, &p));
		KUNIT_EXPECT_NE(test, p.opcode, ROE_OP_ACK);
		KUNIT_EXPECT_EQ(test, p.psn, PSN0 + 1);
		KUNIT_EXPECT_FALSE(test, next_pkt(sim, 0, &p));
		KUNIT_EXPECT_EQ(test, sim->side[1].qp->state, IB_QPS_RTS);
	}
}

/*
 * A gap is told once. Copies of that, and what a peer says of the packets behind one
 * that it was not ready for, take no retry.
 */
static void error_repeated_naks(struct kunit *test)
{
	struct sim *sim = fresh(test);
	struct roe_qp *qp = sim->side[0].qp;
	unsigned int i;
	struct roe_pkt p;

	for (i = 0; i < 3; i++)
		sim_post(sim, 0, IB_WR_SEND, 10, SIG);
	sim_emit(sim, 0);
	for (i = 0; i < 20; i++) {
		while (next_pkt(sim, 1, &p))
			;
		p = an_ack(PSN0, ROE_NAK_PSN_SEQ);
		KUNIT_EXPECT_EQ(test, forge(sim, 0, &p, &p), !i);
	}
	KUNIT_EXPECT_EQ(test, qp->req.retry_cnt, 6);
	for (i = 0; i < 20; i++) {
		p = an_ack(PSN0, ROE_AETH_RNR_NAK | 1);
		forge(sim, 0, &p, &p);
		p = an_ack(PSN0, ROE_NAK_PSN_SEQ);
		forge(sim, 0, &p, &p);
		sim->now = roe_timer_next(qp);
		sim_timer(sim, 0);
		KUNIT_EXPECT_TRUE(test, sim_emit(sim, 0));
		while (next_pkt(sim, 1, &p))
			;
	}
	KUNIT_EXPECT_EQ(test, qp->state, IB_QPS_RTS);
	KUNIT_EXPECT_EQ(test, qp->req.retry_cnt, 6);
	/* the next gap is news */
	p = an_ack(PSN0 + 1, ROE_NAK_PSN_SEQ);
	KUNIT_EXPECT_TRUE(test, forge(sim, 0, &p, &p));
	p = an_ack(roe_psn_add(PSN0, 2), ROE_AETH_ACK | 31);
	forge(sim, 0, &p, &p);
	for (i = 0; i < 3; i++)
		EXPECT_STATUS(test, &sim->side[0].scq, IB_WC_SUCCESS);
}

/* A burst that gets no memory. */
static struct roe_txb *starved(struct kunit *test)
{
	struct roe_txb *txb = kunit_kzalloc(test, sizeof(*txb), GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, txb);
	/* all that it may have, and in use by itself */
	txb->nr_chunks = ROE_TXB_CHUNKS;
	return txb;
}

/* Without memory for a packet it leaves later, though nothing else happens to the QP. */
static void error_no_memory(struct kunit *test)
{
	static const u8 ops[] = { IB_WR_SEND, IB_WR_RDMA_READ };
	struct sim *sim = test->priv;
	struct roe_txb *txb = sim->txb;
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(ops); i++) {
		const char *wrong;
		u64 next;

		fresh(test);
		sim_recv(sim, 1, 100);
		sim_post(sim, 0, ops[i], 100, SIG);
		sim->txb = starved(test);
		KUNIT_EXPECT_FALSE(test, sim_emit(sim, 0));
		sim->txb = txb;
		next = roe_timer_next(sim->side[0].qp);
		KUNIT_ASSERT_NE(test, next, 0);
		KUNIT_EXPECT_LE(test, next, sim->now + NSEC_PER_MSEC);
		sim->now = next;
		sim_timer(sim, 0);
		KUNIT_EXPECT_TRUE(test, sim_emit(sim, 0));
		KUNIT_ASSERT_TRUE(test, sim_run(sim));
		wrong = sim_check(sim);
		KUNIT_EXPECT_NULL_MSG(test, wrong, "%s", wrong);
	}
}

/* Nor does a response keep the worker busy that waits for memory. */
static void error_no_memory_response(struct kunit *test)
{
	static const u8 ops[] = {
		IB_WR_SEND, IB_WR_RDMA_READ, IB_WR_ATOMIC_FETCH_AND_ADD, IB_WR_FLUSH,
	};
	struct sim *sim = test->priv;
	struct roe_qp *qp = sim->side[1].qp;
	struct roe_txb *txb = sim->txb;
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(ops); i++) {
		struct sim_pkt *pkt;
		const char *wrong;

		fresh(test);
		sim_recv(sim, 1, 100);
		sim_post(sim, 0, ops[i], 100, SIG);
		sim_emit(sim, 0);
		pkt = sim_take(sim);
		KUNIT_ASSERT_NOT_NULL(test, pkt);
		sim_receive(sim, 1, &pkt->rx);
		sim_put(sim, pkt);
		sim->txb = starved(test);
		KUNIT_EXPECT_FALSE(test, sim_emit(sim, 1));
		sim->txb = txb;
		KUNIT_EXPECT_TRUE(test, sim->side[1].idle);
		KUNIT_ASSERT_NE(test, roe_timer_next(qp), 0);
		KUNIT_EXPECT_LE(test, roe_timer_next(qp), sim->now + NSEC_PER_MSEC);
		sim->now = roe_timer_next(qp);
		sim_timer(sim, 1);
		KUNIT_EXPECT_TRUE(test, sim_emit(sim, 1));
		KUNIT_EXPECT_EQ(test, roe_timer_next(qp), 0);
		KUNIT_ASSERT_TRUE(test, sim_run(sim));
		wrong = sim_check(sim);
		KUNIT_EXPECT_NULL_MSG(test, wrong, "%s", wrong);
	}
}

/* The key of a READ goes before its response: what follows it is not answered any more. */
static void error_read_refused(struct kunit *test)
{
	struct sim *sim = fresh(test);
	struct roe_mr *fast = &sim->side[1].fast;
	struct roe_rx_pkt rx = { .p = a_read(sim, 0, 10) };
	struct roe_pkt p;

	fast->access = IB_ACCESS_REMOTE_READ;
	fast->state = ROE_MR_VALID;
	rx.p.rkey = fast->key;
	sim_receive(sim, 1, &rx);
	fast->state = ROE_MR_FREE;
	rx.p = a_read(sim, 1, 10);
	sim_receive(sim, 1, &rx);
	sim_emit(sim, 1);
	KUNIT_EXPECT_TRUE(test, next_pkt(sim, 0, &p));
	KUNIT_EXPECT_EQ(test, p.opcode, ROE_OP_ACK);
	KUNIT_EXPECT_EQ(test, p.syndrome, ROE_NAK_REM_ACCESS);
	KUNIT_EXPECT_EQ(test, p.psn, PSN0);
	/* neither of the two is done */
	KUNIT_EXPECT_EQ(test, p.msn, 0);
	KUNIT_EXPECT_FALSE(test, next_pkt(sim, 0, &p));
	KUNIT_EXPECT_EQ(test, sim->side[1].qp->state, IB_QPS_ERR);
}

/*
 * The memory of a READ stays with the burst that answers it: a local operation, which may wait
 * for the end of such bursts, waits for the next one. But for that it would wait for ever.
 */
static void error_read_lent(struct kunit *test)
{
	struct sim *sim = fresh(test);
	struct sim_side *side = &sim->side[1];
	struct roe_rx_pkt rx = { .p = a_read(sim, 0, 3 * SIM_MTU) };
	bool again;

	memset(side->src, 3, SIM_REGION);
	side->fast.access = IB_ACCESS_REMOTE_READ;
	side->fast.state = ROE_MR_VALID;
	rx.p.rkey = side->fast.key;
	sim_receive(sim, 1, &rx);
	sim_post(sim, 1, IB_WR_LOCAL_INV, 0, SIG);
	KUNIT_EXPECT_TRUE(test, sim_round(sim, 1, &again));
	KUNIT_EXPECT_EQ(test, sim->sent[1], 3);
	KUNIT_EXPECT_FALSE(test, side->idle);
	EXPECT_STATUS(test, &side->scq, 99);
	KUNIT_EXPECT_FALSE(test, sim_round(sim, 1, &again));
	EXPECT_STATUS(test, &side->scq, IB_WC_SUCCESS);
	KUNIT_EXPECT_EQ(test, (int)side->fast.state, ROE_MR_FREE);
	expect_bytes(sim, PSN0, 3, SIM_MTU);
}

/*
 * It would be the same with an invalidation that the receiver of a direct burst does: that has
 * the next burst, and not what came early from the network, which may have one.
 */
static void error_read_lent_inv(struct kunit *test)
{
	struct sim *sim = fresh(test);
	struct sim_side *side = sim->side;
	struct roe_pkt early = { .opcode = ROE_OP_SEND_ONLY_INV, .psn = roe_psn_add(PSN1, 2) };
	struct roe_rx_pkt rx = { .p = a_read(sim, 0, 10) };
	bool again;

	sim->direct = 100;
	side[1].fast.access = IB_ACCESS_REMOTE_READ;
	side[1].fast.state = ROE_MR_VALID;
	side[0].fast.access = IB_ACCESS_REMOTE_READ;
	side[0].fast.state = ROE_MR_VALID;
	rx.p.rkey = side[1].fast.key;
	side[1].qp->resp.direct = true;
	sim_receive(sim, 1, &rx);
	side[1].qp->resp.direct = true;
	sim_receive(sim, 0, &(struct roe_rx_pkt){ .p = early });
	KUNIT_EXPECT_EQ(test, side[0].qp->resp.early.nr, 1);
	sim_post(sim, 1, IB_WR_SEND_WITH_INV, 10, SIG);
	KUNIT_EXPECT_TRUE(test, sim_round(sim, 1, &again));
	KUNIT_EXPECT_EQ(test, sim->sent[1], 1);
	KUNIT_EXPECT_EQ(test, side[0].qp->resp.early.nr, 0);
	KUNIT_EXPECT_EQ(test, (int)side[0].fast.state, ROE_MR_VALID);
	sim_recv(sim, 0, 10);
	KUNIT_EXPECT_TRUE(test, sim_round(sim, 1, &again));
	KUNIT_EXPECT_EQ(test, (int)side[0].fast.state, ROE_MR_FREE);
	KUNIT_EXPECT_NULL(test, sim->wrong);
}

/* WRITEs into memory that may be revoked go in rows as well, until it is. */
static void error_write_revocable(struct kunit *test)
{
	static u8 ones[4 * SIM_MTU];
	struct sim *sim = fresh(test);
	struct sim_side *side = &sim->side[1];
	struct roe_mr *fast = &side->fast;
	struct roe_rx_pkt rx[4];
	struct roe_rx_row row = { .first = &rx[1], .stride = sizeof(rx[0]), .n = 2 };
	struct roe_ctx ctx = {};
	unsigned int i;

	memset(ones, 1, sizeof(ones));
	fast->access = IB_ACCESS_REMOTE_WRITE | IB_ACCESS_LOCAL_WRITE;
	fast->state = ROE_MR_VALID;
	for (i = 0; i < 4; i++)
		rx[i] = (struct roe_rx_pkt){
			.p = {
				.opcode = i ? ROE_OP_WRITE_MIDDLE : ROE_OP_WRITE_FIRST,
				.psn = roe_psn_add(PSN0, i), .len = SIM_MTU, .va = fast->iova,
				.rkey = fast->key, .dmalen = 5 * SIM_MTU,
			},
			.nvec = 1, .vec = { { ones + i * SIM_MTU, SIM_MTU } },
		};
	memset(side->src, 0, SIM_REGION);
	sim_receive(sim, 1, &rx[0]);
	rcu_read_lock_bh();
	KUNIT_EXPECT_TRUE(test, roe_responder_row(side->qp, &ctx, &row));
	rcu_read_unlock_bh();
	KUNIT_EXPECT_EQ(test, side->qp->resp.psn, roe_psn_add(PSN0, 3));
	KUNIT_EXPECT_EQ(test, memcmp(side->src, ones, 3 * SIM_MTU), 0);
	KUNIT_EXPECT_EQ(test, atomic_read(&fast->users), 0);

	roe_mr_revoke(fast, ROE_MR_FREE);
	row.first = &rx[3];
	row.n = 1;
	ctx = (struct roe_ctx){};
	rcu_read_lock_bh();
	KUNIT_EXPECT_FALSE(test, roe_responder_row(side->qp, &ctx, &row));
	rcu_read_unlock_bh();
	KUNIT_EXPECT_NULL(test, memchr_inv(side->src + 3 * SIM_MTU, 0, SIM_MTU));
	KUNIT_EXPECT_EQ(test, atomic_read(&fast->users), 0);
}

/* An ACK waits for the answer of the process, but not while the peer asks again. */
static void error_dup_ends_wait(struct kunit *test)
{
	struct sim *sim = fresh(test);
	struct roe_pkt p = { .opcode = ROE_OP_WRITE_ONLY, .ackreq = true, .psn = PSN0 };
	struct roe_pkt r;

	struct roe_echo *echo = &sim->side[1].qp->resp.echo;

	echo->need = 1;
	echo->score = 1;
	KUNIT_EXPECT_FALSE(test, forge(sim, 1, &p, &r));
	KUNIT_EXPECT_NE(test, echo->until, 0);
	KUNIT_EXPECT_TRUE(test, forge(sim, 1, &p, &r));
	/* or all that follow would be sent twice */
	KUNIT_EXPECT_EQ(test, echo->score, 0);
	KUNIT_EXPECT_GT(test, echo->need, 1);
	KUNIT_EXPECT_EQ(test, r.syndrome & ROE_AETH_KIND_MASK, ROE_AETH_ACK);
	KUNIT_EXPECT_EQ(test, r.psn, PSN0);
	KUNIT_EXPECT_EQ(test, roe_timer_next(sim->side[1].qp), 0);
}

/* A message came without its third packet. */
static struct sim *gap_begun(struct kunit *test)
{
	struct sim *sim = fresh(test);
	struct roe_pkt p, r;

	sim_recv(sim, 1, 4 * SIM_MTU);
	p = a_send(ROE_OP_SEND_FIRST, 0);
	KUNIT_EXPECT_FALSE(test, forge(sim, 1, &p, &r));
	p = a_send(ROE_OP_SEND_MIDDLE, 1);
	KUNIT_EXPECT_FALSE(test, forge(sim, 1, &p, &r));
	p = a_send(ROE_OP_SEND_LAST, 3);
	KUNIT_EXPECT_TRUE(test, forge(sim, 1, &p, &r));
	KUNIT_EXPECT_EQ(test, r.syndrome, ROE_NAK_PSN_SEQ);
	return sim;
}

/* It comes now, and asks for nothing. */
static struct sim *gap_closed(struct kunit *test)
{
	struct sim *sim = gap_begun(test);
	struct roe_pkt p = a_send(ROE_OP_SEND_MIDDLE, 2), r;

	KUNIT_EXPECT_FALSE(test, forge(sim, 1, &p, &r));
	KUNIT_EXPECT_EQ(test, (int)status_of(&sim->side[1].rcq), (int)IB_WC_SUCCESS);
	return sim;
}

/* A packet that was only late is no answer to the NAK: a roe learns from the ACK how late. */
static void error_late(struct kunit *test)
{
	struct sim *sim = fresh(test);
	struct roe_pkt p, r;

	sim->side[1].qp->req.rtt_min = NSEC_PER_MSEC;
	sim_recv(sim, 1, 4 * SIM_MTU);
	p = a_send(ROE_OP_SEND_FIRST, 0);
	KUNIT_EXPECT_FALSE(test, forge(sim, 1, &p, &r));
	p = a_send(ROE_OP_SEND_LAST, 2);
	KUNIT_EXPECT_TRUE(test, forge(sim, 1, &p, &r));
	KUNIT_EXPECT_EQ(test, r.syndrome, ROE_NAK_PSN_SEQ);
	p = a_send(ROE_OP_SEND_MIDDLE, 1);
	KUNIT_EXPECT_TRUE(test, forge(sim, 1, &p, &r));
	KUNIT_EXPECT_EQ(test, r.psn, PSN0 + 2);
	KUNIT_EXPECT_EQ(test, r.syndrome & ROE_AETH_KIND_MASK, ROE_AETH_ACK);
}

/* Who only receives knows from one that was sent again how long that takes. */
static void error_late_measured(struct kunit *test)
{
	struct sim *sim = gap_closed(test);
	struct roe_qp *qp = sim->side[1].qp;
	struct roe_pkt p, r;

	KUNIT_ASSERT_EQ(test, qp->req.rtt_min, 0);
	sim->now += NSEC_PER_MSEC;
	p = a_send(ROE_OP_SEND_MIDDLE, 2);
	KUNIT_EXPECT_FALSE(test, forge(sim, 1, &p, &r));
	p = a_send(ROE_OP_SEND_LAST, 3);
	KUNIT_EXPECT_TRUE(test, forge(sim, 1, &p, &r));
	KUNIT_EXPECT_EQ(test, r.syndrome & ROE_AETH_KIND_MASK, ROE_AETH_ACK);
	/* a copy a second later says nothing new */
	sim->now += NSEC_PER_SEC;
	p = a_send(ROE_OP_SEND_MIDDLE, 2);
	KUNIT_EXPECT_FALSE(test, forge(sim, 1, &p, &r));
	KUNIT_EXPECT_EQ(test, qp->resp.again_min, NSEC_PER_MSEC);

	sim_recv(sim, 1, 4 * SIM_MTU);
	p = a_send(ROE_OP_SEND_FIRST, 4);
	KUNIT_EXPECT_FALSE(test, forge(sim, 1, &p, &r));
	p = a_send(ROE_OP_SEND_LAST, 6);
	KUNIT_EXPECT_TRUE(test, forge(sim, 1, &p, &r));
	KUNIT_EXPECT_EQ(test, r.syndrome, ROE_NAK_PSN_SEQ);
	p = a_send(ROE_OP_SEND_MIDDLE, 5);
	KUNIT_EXPECT_TRUE(test, forge(sim, 1, &p, &r));
	KUNIT_EXPECT_EQ(test, r.psn, PSN0 + 6);
	KUNIT_EXPECT_EQ(test, r.syndrome & ROE_AETH_KIND_MASK, ROE_AETH_ACK);
}

/* Of two messages the first one has lost a packet: the second is acknowledged at its end. */
static void error_two_again(struct kunit *test)
{
	static const u8 again[] = {
		ROE_OP_SEND_LAST, ROE_OP_SEND_FIRST, ROE_OP_SEND_MIDDLE, ROE_OP_SEND_MIDDLE,
		ROE_OP_SEND_MIDDLE,
	};
	struct sim *sim = gap_begun(test);
	struct roe_pkt p, r;
	u32 i;

	sim_recv(sim, 1, 5 * SIM_MTU);
	for (i = 1; i < ARRAY_SIZE(again); i++) {
		p = a_send(again[i], 3 + i);
		KUNIT_EXPECT_FALSE(test, forge(sim, 1, &p, &r));
	}
	p = a_send(ROE_OP_SEND_LAST, 8);
	KUNIT_EXPECT_FALSE(test, forge(sim, 1, &p, &r));
	p = a_send(ROE_OP_SEND_MIDDLE, 2);
	KUNIT_EXPECT_FALSE(test, forge(sim, 1, &p, &r));
	for (i = 0; i < ARRAY_SIZE(again); i++) {
		p = a_send(again[i], 3 + i);
		KUNIT_EXPECT_FALSE(test, forge(sim, 1, &p, &r));
	}
	p = a_send(ROE_OP_SEND_LAST, 8);
	KUNIT_ASSERT_TRUE(test, forge(sim, 1, &p, &r));
	KUNIT_EXPECT_EQ(test, r.opcode, ROE_OP_ACK);
	KUNIT_EXPECT_EQ(test, r.psn, PSN0 + 8);
}

/* But a roe that sends a few packets into the gap and waits is told behind them. */
static void error_probe_again(struct kunit *test)
{
	struct sim *sim = gap_begun(test);
	struct roe_pkt p, r;
	u32 i;

	sim_recv(sim, 1, 5 * SIM_MTU);
	for (i = 4; i < 9; i++) {
		p = a_send(i == 4 ? ROE_OP_SEND_FIRST : i < 8 ? ROE_OP_SEND_MIDDLE :
			   ROE_OP_SEND_LAST, i);
		KUNIT_EXPECT_FALSE(test, forge(sim, 1, &p, &r));
	}
	for (i = 2; i < 5; i++) {
		p = a_send(i == 2 ? ROE_OP_SEND_MIDDLE : i == 3 ? ROE_OP_SEND_LAST :
			   ROE_OP_SEND_FIRST, i);
		KUNIT_EXPECT_FALSE(test, forge(sim, 1, &p, &r));
	}
	p = a_send(ROE_OP_SEND_MIDDLE, 5);
	p.ackreq = true;
	KUNIT_ASSERT_TRUE(test, forge(sim, 1, &p, &r));
	KUNIT_EXPECT_EQ(test, r.opcode, ROE_OP_ACK);
	KUNIT_EXPECT_EQ(test, r.psn, PSN0 + 8);
}

/* A peer that goes back to a gap is not told of packets that it has yet to send again. */
static void error_sent_again(struct kunit *test)
{
	struct sim *sim = gap_closed(test);
	struct roe_qp *qp = sim->side[1].qp;
	struct roe_pkt p = a_send(ROE_OP_SEND_LAST, 3), r;
	u64 after = qp->resp.ack_after;

	KUNIT_EXPECT_EQ(test, roe_timer_next(qp), after);
	/* not by what the process sends either */
	sim_post(sim, 1, IB_WR_RDMA_WRITE, 10, SIG);
	sim_emit(sim, 1);
	KUNIT_ASSERT_TRUE(test, next_pkt(sim, 0, &r));
	KUNIT_EXPECT_NE(test, r.opcode, ROE_OP_ACK);
	KUNIT_EXPECT_FALSE(test, next_pkt(sim, 0, &r));
	KUNIT_ASSERT_TRUE(test, forge(sim, 1, &p, &r));
	KUNIT_EXPECT_EQ(test, r.opcode, ROE_OP_ACK);
	KUNIT_EXPECT_EQ(test, r.psn, PSN0 + 3);
	KUNIT_EXPECT_FALSE(test, qp->resp.ack_due);
}

/* But it does not wait for ever for one that goes on from where it was. */
static void error_not_again(struct kunit *test)
{
	struct sim *sim = gap_closed(test);
	struct roe_qp *qp = sim->side[1].qp;
	struct roe_ctx ctx = { .now = qp->resp.ack_after };
	struct roe_pkt r;

	KUNIT_ASSERT_NE(test, ctx.now, 0);
	roe_timer_run(qp, &ctx);
	sim_emit(sim, 1);
	KUNIT_ASSERT_TRUE(test, next_pkt(sim, 0, &r));
	KUNIT_EXPECT_EQ(test, r.opcode, ROE_OP_ACK);
	KUNIT_EXPECT_EQ(test, r.psn, PSN0 + 3);
	KUNIT_EXPECT_EQ(test, roe_timer_next(qp), 0);
}

/* Messages of four packets arrive; each is acknowledged. */
static void four_each(struct kunit *test, struct sim *sim, u32 messages)
{
	struct roe_pkt p, r;
	u32 i;

	for (i = 0; i < 4 * messages; i++) {
		if (i % 4 == 0)
			sim_recv(sim, 1, 4 * SIM_MTU);
		p = a_send(i % 4 == 0 ? ROE_OP_SEND_FIRST : i % 4 < 3 ? ROE_OP_SEND_MIDDLE :
			   ROE_OP_SEND_LAST, i);
		KUNIT_ASSERT_EQ(test, forge(sim, 1, &p, &r), i % 4 == 3);
	}
}

/*
 * The last ACK was lost, and the peer sends all of it again. A message on the way there is no
 * reason to name what is behind it: rdma_rxe would wait for ever if that is lost once more.
 */
static void error_dup_on_the_way(struct kunit *test)
{
	struct sim *sim = fresh(test);
	struct roe_pkt p, r;
	u32 i;

	four_each(test, sim, 2);
	p = a_send(ROE_OP_SEND_LAST, 3);
	KUNIT_EXPECT_FALSE(test, forge(sim, 1, &p, &r));
	for (i = 4; i < 7; i++) {
		p = a_send(i == 4 ? ROE_OP_SEND_FIRST : ROE_OP_SEND_MIDDLE, i);
		KUNIT_EXPECT_FALSE(test, forge(sim, 1, &p, &r));
	}
	p = a_send(ROE_OP_SEND_LAST, 7);
	KUNIT_ASSERT_TRUE(test, forge(sim, 1, &p, &r));
	KUNIT_EXPECT_EQ(test, r.opcode, ROE_OP_ACK);
	KUNIT_EXPECT_EQ(test, r.psn, PSN0 + 7);
	KUNIT_EXPECT_EQ(test, sim->side[1].qp->resp.ack_after, 0);
}

/* Its end does not come: the ACK waits behind each step for a while, not for copies of one. */
static void error_dup_no_end(struct kunit *test)
{
	struct sim *sim = fresh(test);
	struct roe_qp *qp = sim->side[1].qp;
	struct roe_pkt p, r;
	struct roe_ctx ctx;
	u64 after;

	four_each(test, sim, 3);
	p = a_send(ROE_OP_SEND_LAST, 3);
	KUNIT_EXPECT_FALSE(test, forge(sim, 1, &p, &r));
	after = qp->resp.ack_after;
	KUNIT_EXPECT_GT(test, after, sim->now);
	sim->now += 1000;
	p = a_send(ROE_OP_SEND_LAST, 7);
	KUNIT_EXPECT_FALSE(test, forge(sim, 1, &p, &r));
	KUNIT_EXPECT_EQ(test, qp->resp.ack_after, after + 1000);
	sim->now += 1000;
	KUNIT_EXPECT_FALSE(test, forge(sim, 1, &p, &r));
	p = a_send(ROE_OP_SEND_LAST, 3);
	KUNIT_EXPECT_FALSE(test, forge(sim, 1, &p, &r));
	KUNIT_EXPECT_EQ(test, qp->resp.ack_after, after + 1000);
	ctx = (struct roe_ctx){ .now = after + 1000 };
	roe_timer_run(qp, &ctx);
	sim_emit(sim, 1);
	KUNIT_ASSERT_TRUE(test, next_pkt(sim, 0, &r));
	KUNIT_EXPECT_EQ(test, r.opcode, ROE_OP_ACK);
	KUNIT_EXPECT_EQ(test, r.psn, PSN0 + 11);
}

/* A READ on the way there is answered again before what came after it is acknowledged. */
static void error_dup_before_read(struct kunit *test)
{
	struct sim *sim = fresh(test);
	struct roe_mr *fast = &sim->side[1].fast;
	struct roe_pkt write = { .opcode = ROE_OP_WRITE_ONLY, .ackreq = true, .psn = PSN0 };
	struct roe_pkt read, last = write, r;

	fast->access = IB_ACCESS_REMOTE_READ;
	fast->state = ROE_MR_VALID;
	read = (struct roe_pkt){ .opcode = ROE_OP_READ_REQ, .psn = PSN0 + 1, .va = fast->iova,
				 .rkey = fast->key, .dmalen = 8 };
	last.psn = PSN0 + 2;
	KUNIT_ASSERT_TRUE(test, forge(sim, 1, &write, &r));
	KUNIT_ASSERT_TRUE(test, forge(sim, 1, &read, &r));
	KUNIT_ASSERT_TRUE(test, forge(sim, 1, &last, &r));

	KUNIT_EXPECT_FALSE(test, forge(sim, 1, &write, &r));
	KUNIT_ASSERT_TRUE(test, forge(sim, 1, &read, &r));
	KUNIT_EXPECT_EQ(test, r.opcode, ROE_OP_READ_RESP_ONLY);
	KUNIT_EXPECT_FALSE(test, next_pkt(sim, 0, &r));
	KUNIT_ASSERT_TRUE(test, forge(sim, 1, &last, &r));
	KUNIT_EXPECT_EQ(test, r.opcode, ROE_OP_ACK);
	KUNIT_EXPECT_EQ(test, r.psn, PSN0 + 2);
}

/* What is on the wire, in order; returns how many. */
static unsigned int take_all(struct sim *sim, struct sim_pkt **pkts, unsigned int max)
{
	unsigned int n = 0;

	while (n < max && (pkts[n] = sim_take(sim)))
		n++;
	return n;
}

/*
 * Responses are on their way through the network, behind them an ACK is to leave that waits
 * for the answer of the process; which goes directly now: the ACK does not go along.
 */
static void error_echo_ways(struct kunit *test)
{
	struct sim *sim = fresh(test);
	struct roe_qp *qp = sim->side[0].qp;
	struct sim_pkt *pkts[2];
	const char *wrong;
	unsigned int i;

	qp->attr.retry_cnt = 0;
	qp->req.retry_cnt = 0;
	sim->side[1].qp->resp.echo.need = 0;
	sim_recv(sim, 0, 10);
	sim_post(sim, 0, IB_WR_RDMA_READ, 10, SIG);
	sim_post(sim, 0, IB_WR_RDMA_WRITE, 10, SIG);
	sim_emit(sim, 0);
	KUNIT_ASSERT_EQ(test, take_all(sim, pkts, 2), 2);
	for (i = 0; i < 2; i++) {
		sim_receive(sim, 1, &pkts[i]->rx);
		sim_put(sim, pkts[i]);
	}
	sim_emit(sim, 1);
	KUNIT_ASSERT_NE(test, sim->side[1].qp->resp.echo.until, 0);
	KUNIT_EXPECT_EQ(test, sim->sent[1], 1);
	sim->direct = 100;
	sim_post(sim, 1, IB_WR_SEND, 10, SIG);
	sim_emit(sim, 1);
	KUNIT_EXPECT_EQ(test, (int)status_of(&sim->side[0].rcq), (int)IB_WC_SUCCESS);
	KUNIT_EXPECT_EQ(test, sim->sent[1], 2);
	KUNIT_EXPECT_FALSE(test, sim->side[1].idle);
	sim_emit(sim, 1);
	KUNIT_EXPECT_EQ(test, sim->sent[1], 3);
	sim->side[0].nrwant = 0;
	KUNIT_ASSERT_TRUE(test, sim_run(sim));
	wrong = sim_check(sim);
	KUNIT_EXPECT_NULL_MSG(test, wrong, "%s", wrong);
}

/* A gap closes, but for the last of those kept there is no receive WQE: the rest is told. */
static void error_early_not_ready(struct kunit *test)
{
	struct sim *sim = fresh(test);
	struct sim_pkt *pkts[5];
	struct roe_pkt p;
	unsigned int i;

	sim_recv(sim, 1, 3 * SIM_MTU);
	sim_post(sim, 0, IB_WR_SEND, 3 * SIM_MTU, SIG);
	sim_post(sim, 0, IB_WR_SEND, 2 * SIM_MTU, SIG);
	sim_emit(sim, 0);
	KUNIT_ASSERT_EQ(test, take_all(sim, pkts, 5), 5);
	for (i = 1; i <= 4; i++) {
		pkts[i % 4]->rx.p.ackreq = false;
		sim_receive(sim, 1, &pkts[i % 4]->rx);
		sim_emit(sim, 1);
		if (i == 1)
			KUNIT_EXPECT_TRUE(test, next_pkt(sim, 0, &p));
	}
	KUNIT_EXPECT_TRUE(test, next_pkt(sim, 0, &p));
	KUNIT_EXPECT_EQ(test, p.syndrome & ROE_AETH_KIND_MASK, ROE_AETH_ACK);
	KUNIT_EXPECT_EQ(test, p.psn, roe_psn_add(PSN0, 2));
	for (i = 0; i < 5; i++)
		sim_put(sim, pkts[i]);
}

/*
 * A gap closes before its NAK has left, or while IP has it, which may refuse it: what is behind
 * the next gap, or without a receive, was told to nobody.
 */
static void error_early_not_told(struct kunit *test)
{
	static const struct {
		u8 recvs, first;
		bool rnr;
	} rows[] = {
		{ 3, 2, false },
		{ 1, 1, true },
	};
	struct sim_pkt *pkts[3];
	struct roe_pkt p;
	unsigned int i, n;

	for (i = 0; i < 2 * ARRAY_SIZE(rows); i++) {
		bool rnr = rows[i / 2].rnr, leaves = i % 2;
		struct sim *sim = fresh(test);
		struct roe_resp *resp = &sim->side[1].qp->resp;

		for (n = 0; n < rows[i / 2].recvs; n++)
			sim_recv(sim, 1, SIM_MTU);
		for (n = 0; n < 3; n++)
			sim_post(sim, 0, IB_WR_SEND, SIM_MTU, SIG);
		sim_emit(sim, 0);
		KUNIT_ASSERT_EQ(test, take_all(sim, pkts, 3), 3);
		sim_receive(sim, 1, &pkts[rows[i / 2].first]->rx);
		if (leaves) {
			sim_emit(sim, 1);
			KUNIT_ASSERT_TRUE(test, next_pkt(sim, 0, &p));
			KUNIT_EXPECT_EQ(test, p.syndrome, ROE_NAK_PSN_SEQ);
			resp->nak_leaves = true;
		}
		sim_receive(sim, 1, &pkts[0]->rx);
		if (leaves) {
			struct roe_ctx ctx = { .now = sim->now };

			roe_answer_local_drop(sim->side[1].qp, &ctx,
					      &(struct roe_refused){ .acks = 1 });
			resp->nak_leaves = false;
		}
		KUNIT_EXPECT_EQ(test, resp->psn, PSN0 + 1);
		sim->now = max3(sim->now, resp->rnr_look ? resp->rnr_until : 0,
				resp->refused_until);
		sim_timer(sim, 1);
		sim_emit(sim, 1);
		KUNIT_ASSERT_TRUE(test, next_pkt(sim, 0, &p));
		if ((p.syndrome & ROE_AETH_KIND_MASK) == ROE_AETH_ACK)
			KUNIT_ASSERT_TRUE(test, next_pkt(sim, 0, &p));
		KUNIT_EXPECT_EQ(test, p.psn, PSN0 + 1);
		if (rnr)
			KUNIT_EXPECT_EQ(test, p.syndrome & ROE_AETH_KIND_MASK, ROE_AETH_RNR_NAK);
		else
			KUNIT_EXPECT_EQ(test, p.syndrome, ROE_NAK_PSN_SEQ);
		for (n = 0; n < 3; n++)
			sim_put(sim, pkts[n]);
	}
}

/* What was lost leaves packet by packet, what is new as a train. */
static void error_lost_alone(struct kunit *test)
{
	struct sim *sim = fresh(test);
	struct sim_pkt *pkts[4];
	unsigned int i;

	sim_recv(sim, 1, 4 * SIM_MTU);
	sim_post(sim, 0, IB_WR_SEND, 4 * SIM_MTU, SIG);
	sim_emit(sim, 0);
	KUNIT_ASSERT_EQ(test, take_all(sim, pkts, 4), 4);
	KUNIT_EXPECT_EQ(test, sim->again[0], 0);
	for (i = 0; i < 4; i++)
		sim_put(sim, pkts[i]);
	KUNIT_ASSERT_TRUE(test, sim_run(sim));
	KUNIT_EXPECT_NULL(test, sim_check(sim));
	KUNIT_EXPECT_EQ(test, sim->again[0], sim->sent[0] - 4);
}

/* A burst asks for an ACK at its end, and once in 32 packets: few ACKs for many messages. */
static void error_asks_seldom(struct kunit *test)
{
	static const struct {
		u32 messages, len, asked;
	} rows[] = {
		{ 1, 64 * SIM_MTU, 2 },
		{ 1, 20 * SIM_MTU, 1 },
		{ 16, 8, 1 },
		{ 48, 8, 2 },
		{ 16, 3 * SIM_MTU, 2 },
	};
	struct sim_pkt *pkt;
	unsigned int i, n;
	u32 asked;

	for (i = 0; i < ARRAY_SIZE(rows); i++) {
		struct sim *sim = fresh(test);

		sim->slot = max_t(u32, sim->slot, rows[i].len);
		for (n = 0; n < rows[i].messages; n++)
			sim_post(sim, 0, IB_WR_RDMA_WRITE, rows[i].len, 0);
		sim_emit(sim, 0);
		for (n = 0, asked = 0; (pkt = sim_take(sim)); n++) {
			asked += pkt->rx.p.ackreq;
			sim_put(sim, pkt);
		}
		KUNIT_EXPECT_EQ_MSG(test, n, rows[i].messages * DIV_ROUND_UP(rows[i].len, SIM_MTU),
				    "row %u", i);
		KUNIT_EXPECT_EQ_MSG(test, asked, rows[i].asked, "row %u", i);
	}
}

/* IBTA 9.2: SE is for the last packet of what takes a receive. */
static void error_solicits(struct kunit *test)
{
	static const enum ib_wr_opcode ops[] = {
		IB_WR_SEND, IB_WR_SEND_WITH_IMM, IB_WR_RDMA_WRITE_WITH_IMM,
		IB_WR_RDMA_WRITE, IB_WR_RDMA_READ, IB_WR_ATOMIC_FETCH_AND_ADD,
	};
	struct sim_pkt *pkts[2];
	unsigned int i, len, n;

	for (len = SIM_MTU; len <= 2 * SIM_MTU; len += SIM_MTU)
		for (i = 0; i < ARRAY_SIZE(ops); i++) {
			struct sim *sim = fresh(test);
			bool message = i < 4;

			sim_post(sim, 0, ops[i], message || i == 4 ? len : 8, IB_SEND_SOLICITED);
			sim_emit(sim, 0);
			n = take_all(sim, pkts, 2);
			KUNIT_ASSERT_EQ(test, n, message ? len / SIM_MTU : 1);
			KUNIT_EXPECT_EQ_MSG(test, pkts[n - 1]->rx.p.se, i < 3, "row %u", i);
			if (n == 2)
				KUNIT_EXPECT_FALSE(test, pkts[0]->rx.p.se);
			while (n)
				sim_put(sim, pkts[--n]);
		}
}

/* A QP dies because one of its CQs was overrun: the other one gets all that is posted. */
static void error_overrun_other(struct kunit *test)
{
	struct sim *sim = fresh(test);
	struct sim_side *side = &sim->side[0];
	struct roe_ctx ctx = { .now = sim->now };
	struct ib_wc wc[4];
	unsigned int i;

	for (i = 0; i < 3; i++) {
		sim_recv(sim, 0, SIM_MTU);
		sim_post(sim, 0, IB_WR_SEND, SIM_MTU, SIG);
	}
	local_bh_disable();
	rcu_read_lock();
	spin_lock(&side->qp->lock);
	side->qp->overrun = true;
	roe_complete_error(side->qp, &ctx);
	spin_unlock(&side->qp->lock);
	rcu_read_unlock();
	local_bh_enable();
	KUNIT_EXPECT_EQ(test, roe_cq_poll(&side->scq.ib, 4, wc), 3);
	KUNIT_EXPECT_EQ(test, roe_cq_poll(&side->rcq.ib, 4, wc), 3);
}

/* The peer reads much: requests of this side do not wait until it has all. */
static void error_crowded(struct kunit *test)
{
	struct sim *sim = fresh(test);
	struct roe_rx_pkt rx = { .p = a_read(sim, 0, SIM_REGION) };
	unsigned int before = 0;
	struct roe_pkt p;

	sim_receive(sim, 1, &rx);
	sim_post(sim, 1, IB_WR_SEND, 10, SIG);
	sim_emit(sim, 1);
	while (next_pkt(sim, 0, &p) && p.opcode != ROE_OP_SEND_ONLY)
		before++;
	KUNIT_EXPECT_LE(test, before, ROE_TXB_PKTS);
	while (next_pkt(sim, 0, &p))
		before++;
	KUNIT_EXPECT_EQ(test, before, SIM_REGION / SIM_MTU);
}

/* Bursts of side @i until its SEND has come; 0: it does not as long as the QP has more. */
static unsigned int rounds_until_sent(struct sim *sim, unsigned int i)
{
	unsigned int n = 0;
	bool again;

	do {
		sim_round(sim, i, &again);
		n++;
	} while (!roe_cq_unpolled(&sim->side[1 - i].rcq) && !sim->side[i].idle);
	return roe_cq_unpolled(&sim->side[1 - i].rcq) ? n : 0;
}

/* The same where they do not go the way of the responses; nor until those may go on. */
static void error_crowded_ways(struct kunit *test)
{
	struct roe_resp *resp;
	unsigned int i, n;
	struct roe_pkt p;

	for (i = 0; i < 2; i++) {
		struct sim *sim = fresh(test);
		struct roe_rx_pkt rx = { .p = a_read(sim, 0, 1000 * SIM_MTU) };

		resp = &sim->side[1].qp->resp;
		sim_receive(sim, 1, &rx);
		resp->refused_until = i ? sim->now + NSEC_PER_MSEC : 0;
		sim_recv(sim, 0, 10);
		sim_post(sim, 1, IB_WR_SEND, 10, SIG);
		sim->direct = 100;
		n = rounds_until_sent(sim, 1);
		KUNIT_EXPECT_GE_MSG(test, n, 1, "row %u", i);
		KUNIT_EXPECT_LE_MSG(test, n, 2, "row %u", i);
		KUNIT_EXPECT_FALSE(test, resp->direct);
		sim_emit(sim, 1);
		if (i) {
			/* and that is all there is to do until then */
			KUNIT_EXPECT_TRUE(test, sim->side[1].idle);
			KUNIT_EXPECT_TRUE(test, list_empty(&sim->wire));
			sim->now = roe_timer_next(sim->side[1].qp);
			sim_timer(sim, 1);
		}
		while (!sim->side[1].idle)
			sim_emit(sim, 1);
		for (n = 0; next_pkt(sim, 0, &p); n++)
			;
		KUNIT_EXPECT_EQ_MSG(test, n, 1000, "row %u", i);
	}
}

/* Responses swapped in pairs: the rest of the READ comes again once, not for each pair. */
static void error_swapped(struct kunit *test)
{
	struct sim_pkt *pkts[ROE_TXB_PKTS];
	struct sim *sim = fresh(test);
	unsigned int i, n, reads = 0;
	struct roe_pkt p;

	sim->slot = ROE_TXB_PKTS * SIM_MTU;
	sim->side[0].qp->req.srtt = 2 * SIM_WIRE_NS;
	sim_post(sim, 0, IB_WR_RDMA_READ, ROE_TXB_PKTS * SIM_MTU, SIG);
	sim_emit(sim, 0);
	KUNIT_ASSERT_EQ(test, take_all(sim, pkts, 1), 1);
	sim_receive(sim, 1, &pkts[0]->rx);
	sim_put(sim, pkts[0]);
	sim_emit(sim, 1);
	n = take_all(sim, pkts, ROE_TXB_PKTS);
	KUNIT_ASSERT_EQ(test, n, ROE_TXB_PKTS);
	for (i = 0; i < n; i += 8)
		swap(pkts[i], pkts[i + 1]);
	for (i = 0; i < n; i++) {
		sim_receive(sim, 0, &pkts[i]->rx);
		sim_put(sim, pkts[i]);
		sim_emit(sim, 0);
	}
	while (next_pkt(sim, 1, &p))
		reads += p.opcode == ROE_OP_READ_REQ;
	KUNIT_EXPECT_EQ(test, reads, 1);
}

#define LATE_PKTS	8

/* A READ of LATE_PKTS responses is asked for, and a round trip later they are there: @pkts. */
static void read_late(struct sim *sim, struct sim_pkt **pkts)
{
	sim_post(sim, 0, IB_WR_RDMA_READ, LATE_PKTS * SIM_MTU, SIG);
	sim_emit(sim, 0);
	KUNIT_ASSERT_EQ(sim->test, take_all(sim, pkts, 1), 1);
	sim_receive(sim, 1, &pkts[0]->rx);
	sim_put(sim, pkts[0]);
	sim_emit(sim, 1);
	KUNIT_ASSERT_EQ(sim->test, take_all(sim, pkts, LATE_PKTS), LATE_PKTS);
	sim->now += sim->side[0].qp->req.rtt_min;
}

static void lose(struct sim *sim, struct sim_pkt **pkts, unsigned int n)
{
	while (n--)
		sim_put(sim, *pkts++);
}

static void bring(struct sim *sim, struct sim_pkt *pkt)
{
	sim->now += SIM_WIRE_NS / 10;
	sim_receive(sim, 0, &pkt->rx);
	sim_put(sim, pkt);
	sim_emit(sim, 0);
}

/* What arrives for side 1, which are READ Requests. */
static unsigned int requests(struct sim *sim)
{
	unsigned int n = 0;
	struct roe_pkt p;

	while (next_pkt(sim, 1, &p))
		n += p.opcode == ROE_OP_READ_REQ;
	return n;
}

static struct sim *with_rtt(struct kunit *test)
{
	struct sim *sim = fresh(test);
	struct roe_req *req = &sim->side[0].qp->req;

	sim->slot = LATE_PKTS * SIM_MTU;
	req->srtt = 2 * SIM_WIRE_NS;
	req->rtt_min = 2 * SIM_WIRE_NS;
	return sim;
}

/* A gap that a late response closes: the READ is sent again, but that is remembered. */
static void error_late_first(struct kunit *test)
{
	struct sim *sim = with_rtt(test);
	struct sim_pkt *pkts[LATE_PKTS];
	unsigned int i;

	read_late(sim, pkts);
	swap(pkts[0], pkts[2]);
	for (i = 0; i < LATE_PKTS; i++)
		bring(sim, pkts[i]);
	KUNIT_EXPECT_EQ(test, requests(sim), 1);
	KUNIT_EXPECT_GT(test, sim->side[0].qp->req.reorder.patience, 0);
}

/*
 * A clock has sent the READ again when a response to the first one implies what it knew: no
 * third READ, and nothing is learnt from what the second one brings soon after it.
 */
static void late_clock(struct kunit *test, struct sim *sim)
{
	struct roe_req *req = &sim->side[0].qp->req;
	struct sim_pkt *pkts[LATE_PKTS], *again;
	struct roe_pkt p;
	unsigned int i;

	read_late(sim, pkts);
	sim_put(sim, pkts[0]);
	sim->now = req->early_deadline;
	sim_timer(sim, 0);
	sim_emit(sim, 0);
	KUNIT_ASSERT_EQ(test, take_all(sim, &again, 1), 1);
	bring(sim, pkts[1]);
	KUNIT_EXPECT_EQ(test, requests(sim), 0);
	sim_receive(sim, 1, &again->rx);
	sim_put(sim, again);
	sim_emit(sim, 1);
	KUNIT_ASSERT_EQ(test, take_all(sim, &again, 1), 1);
	while (next_pkt(sim, 0, &p))
		;
	bring(sim, again);
	KUNIT_EXPECT_EQ(test, req->reorder.patience, 0);
	for (i = 2; i < LATE_PKTS; i++)
		sim_put(sim, pkts[i]);
}

static void error_late_clock(struct kunit *test)
{
	late_clock(test, with_rtt(test));
}

/* An ACK of what is sent again names all that was done, as by a responder that does not wait. */
static void late_ack(struct kunit *test, struct sim *sim, u32 psn)
{
	struct roe_pkt p = an_ack(psn, ROE_AETH_ACK | ROE_AETH_NO_CREDITS), r;

	KUNIT_EXPECT_FALSE(test, forge(sim, 0, &p, &r));
}

/*
 * All answers are lost, all is sent again, and the ACK of the first one says that the peer
 * had done the rest, too, before the READ is answered: that is no other loss.
 */
static void error_late_answer(struct kunit *test)
{
	struct sim *sim = with_rtt(test);
	struct roe_qp *qp = sim->side[0].qp;
	struct sim_pkt *pkts[3], *ack;
	unsigned int i;

	qp->attr.retry_cnt = 0;
	qp->req.retry_cnt = 0;
	sim_post(sim, 0, IB_WR_RDMA_WRITE, 100, SIG);
	sim_post(sim, 0, IB_WR_RDMA_READ, 100, SIG);
	sim_post(sim, 0, IB_WR_RDMA_WRITE, 100, SIG);
	sim_emit(sim, 0);
	KUNIT_ASSERT_EQ(test, take_all(sim, pkts, 3), 3);
	for (i = 0; i < 3; i++) {
		sim_receive(sim, 1, &pkts[i]->rx);
		sim_put(sim, pkts[i]);
	}
	sim_emit(sim, 1);
	while (take_all(sim, &ack, 1))
		sim_put(sim, ack);
	sim->now = roe_timer_next(qp);
	sim_timer(sim, 0);
	sim_emit(sim, 0);
	KUNIT_ASSERT_EQ(test, take_all(sim, pkts, 3), 3);
	sim_receive(sim, 1, &pkts[0]->rx);
	sim_put(sim, pkts[0]);
	sim_emit(sim, 1);
	KUNIT_EXPECT_EQ(test, take_all(sim, &ack, 1), 0);
	late_ack(test, sim, pkts[2]->rx.p.psn);
	KUNIT_EXPECT_EQ(test, qp->state, IB_QPS_RTS);
	KUNIT_EXPECT_EQ(test, requests(sim), 0);
	for (i = 1; i < 3; i++) {
		sim_receive(sim, 1, &pkts[i]->rx);
		sim_put(sim, pkts[i]);
	}
	sim_emit(sim, 1);
	KUNIT_ASSERT_TRUE(test, sim_run(sim));
	KUNIT_EXPECT_NULL(test, sim_check(sim));
}

/* Two of them, for each duplicate has its own: the second one moves nothing. */
static void error_late_answers(struct kunit *test)
{
	struct sim *sim = with_rtt(test);
	struct roe_qp *qp = sim->side[0].qp;
	struct sim_pkt *pkts[4], *acks[1];
	unsigned int i;

	qp->attr.retry_cnt = 0;
	qp->req.retry_cnt = 0;
	sim_post(sim, 0, IB_WR_RDMA_WRITE, 100, SIG);
	sim_post(sim, 0, IB_WR_RDMA_WRITE, 100, SIG);
	sim_post(sim, 0, IB_WR_RDMA_READ, 100, SIG);
	sim_post(sim, 0, IB_WR_RDMA_WRITE, 100, SIG);
	sim_emit(sim, 0);
	KUNIT_ASSERT_EQ(test, take_all(sim, pkts, 4), 4);
	for (i = 0; i < 4; i++) {
		sim_receive(sim, 1, &pkts[i]->rx);
		sim_put(sim, pkts[i]);
	}
	sim_emit(sim, 1);
	while (take_all(sim, acks, 1))
		sim_put(sim, acks[0]);
	sim->now = roe_timer_next(qp);
	sim_timer(sim, 0);
	sim_emit(sim, 0);
	KUNIT_ASSERT_EQ(test, take_all(sim, pkts, 4), 4);
	for (i = 0; i < 2; i++) {
		sim_receive(sim, 1, &pkts[i]->rx);
		sim_put(sim, pkts[i]);
		sim_emit(sim, 1);
		KUNIT_EXPECT_EQ(test, take_all(sim, acks, 1), 0);
	}
	late_ack(test, sim, pkts[3]->rx.p.psn);
	late_ack(test, sim, pkts[3]->rx.p.psn);
	KUNIT_EXPECT_EQ(test, qp->state, IB_QPS_RTS);
	KUNIT_EXPECT_EQ(test, requests(sim), 0);
	for (i = 2; i < 4; i++) {
		sim_receive(sim, 1, &pkts[i]->rx);
		sim_put(sim, pkts[i]);
	}
	sim_emit(sim, 1);
	KUNIT_ASSERT_TRUE(test, sim_run(sim));
	KUNIT_EXPECT_NULL(test, sim_check(sim));
}

/* Asked for from behind where the responses stand: what comes before has arrived. */
static void error_late_ahead(struct kunit *test)
{
	struct sim *sim = with_rtt(test);
	struct sim_pkt *pkts[LATE_PKTS], *read;
	unsigned int i, n;

	sim_post(sim, 0, IB_WR_RDMA_READ, LATE_PKTS * SIM_MTU, SIG);
	sim_emit(sim, 0);
	KUNIT_ASSERT_EQ(test, take_all(sim, &read, 1), 1);
	sim_receive(sim, 1, &read->rx);
	read->rx.p.psn = roe_psn_add(read->rx.p.psn, 3);
	read->rx.p.va += 3 * SIM_MTU;
	read->rx.p.dmalen -= 3 * SIM_MTU;
	sim_receive(sim, 1, &read->rx);
	sim_emit(sim, 1);
	n = take_all(sim, pkts, LATE_PKTS);
	KUNIT_EXPECT_EQ(test, n, LATE_PKTS - 3);
	KUNIT_EXPECT_EQ(test, pkts[0]->rx.p.psn, read->rx.p.psn);
	KUNIT_EXPECT_EQ(test, pkts[0]->rx.p.opcode, ROE_OP_READ_RESP_FIRST);
	for (i = 0; i < n; i++)
		sim_put(sim, pkts[i]);
	sim_put(sim, read);
}

/* The next ones cost nothing, the ACK of a WRITE that overtakes a READ neither. */
static void error_late_kept(struct kunit *test)
{
	struct sim *sim = with_rtt(test);
	struct roe_req *req = &sim->side[0].qp->req;
	struct sim_pkt *pkts[LATE_PKTS], *ack;
	unsigned int i;

	req->reorder.patience = 2;
	read_late(sim, pkts);
	sim_post(sim, 0, IB_WR_RDMA_WRITE, 100, SIG);
	sim_emit(sim, 0);
	KUNIT_ASSERT_EQ(test, take_all(sim, &ack, 1), 1);
	sim_receive(sim, 1, &ack->rx);
	sim_put(sim, ack);
	sim_emit(sim, 1);
	KUNIT_ASSERT_EQ(test, take_all(sim, &ack, 1), 1);
	bring(sim, ack);
	swap(pkts[0], pkts[2]);
	swap(pkts[5], pkts[6]);
	for (i = 0; i < LATE_PKTS; i++)
		bring(sim, pkts[i]);
	KUNIT_EXPECT_EQ(test, requests(sim), 0);
	KUNIT_EXPECT_EQ(test, req->una, req->psn);
	KUNIT_EXPECT_EQ(test, req->reorder.until, 0);
	KUNIT_EXPECT_EQ(test, req->reorder.early.nr, 0);
	KUNIT_EXPECT_NULL(test, sim_check(sim));
}

/* An ACK of an atomic, which its answer overtakes no more than the READ's before it. */
static void error_late_atomic(struct kunit *test)
{
	struct sim *sim = with_rtt(test);
	struct roe_req *req = &sim->side[0].qp->req;
	struct sim_pkt *pkts[2];
	struct roe_rx_pkt ack;
	unsigned int i;

	req->reorder.patience = 2;
	sim_post(sim, 0, IB_WR_RDMA_READ, 9, SIG);
	sim_post(sim, 0, IB_WR_ATOMIC_FETCH_AND_ADD, 8, SIG);
	sim_emit(sim, 0);
	KUNIT_ASSERT_EQ(test, take_all(sim, pkts, 2), 2);
	for (i = 0; i < 2; i++) {
		sim_receive(sim, 1, &pkts[i]->rx);
		sim_put(sim, pkts[i]);
	}
	sim_emit(sim, 1);
	KUNIT_ASSERT_EQ(test, take_all(sim, pkts, 2), 2);
	ack = pkts[1]->rx;
	KUNIT_ASSERT_EQ(test, ack.p.opcode, ROE_OP_ATOMIC_ACK);
	ack.p.opcode = ROE_OP_ACK;
	sim_receive(sim, 0, &ack);
	bring(sim, pkts[1]);
	bring(sim, pkts[0]);
	KUNIT_EXPECT_EQ(test, requests(sim), 0);
	KUNIT_EXPECT_EQ(test, req->una, req->psn);
	KUNIT_EXPECT_EQ(test, req->reorder.early.nr, 0);
	KUNIT_EXPECT_NULL(test, sim_check(sim));
}

/*
 * What is lost after all is read again, with all behind it: the memory may have changed, so
 * nothing that was kept, or comes from the first time, may follow it.
 */
static void error_late_lost(struct kunit *test)
{
	struct sim *sim = with_rtt(test);
	struct roe_req *req = &sim->side[0].qp->req;
	struct sim_pkt *pkts[LATE_PKTS];
	unsigned int i;

	req->reorder.patience = 4;
	read_late(sim, pkts);
	sim_put(sim, pkts[0]);
	for (i = 1; i < LATE_PKTS - 1; i++)
		bring(sim, pkts[i]);
	KUNIT_EXPECT_EQ(test, requests(sim), 0);
	KUNIT_EXPECT_EQ(test, req->reorder.early.nr, LATE_PKTS - 2);
	KUNIT_EXPECT_EQ(test, roe_timer_next(sim->side[0].qp), req->reorder.until);
	sim->now = req->reorder.until;
	sim_timer(sim, 0);
	sim_emit(sim, 0);
	KUNIT_EXPECT_EQ(test, req->reorder.early.nr, 0);
	bring(sim, pkts[LATE_PKTS - 1]);
	KUNIT_EXPECT_EQ(test, req->reorder.early.nr, 0);
	for (i = 0; i < SIM_REGION; i++)
		sim->side[1].src[i]++;
	KUNIT_ASSERT_TRUE(test, sim_run(sim));
	KUNIT_EXPECT_NULL(test, sim_check(sim));
	KUNIT_EXPECT_EQ(test, req->reorder.patience, 4);
}

static struct sim *with_long_rtt(struct kunit *test)
{
	struct sim *sim = with_rtt(test);
	struct roe_req *req = &sim->side[0].qp->req;

	req->srtt = ROE_WAY_LONG_NS;
	req->rtt_min = ROE_WAY_LONG_NS;
	return sim;
}

static void error_late_far_clock(struct kunit *test)
{
	late_clock(test, with_long_rtt(test));
}

/* On a long path the first gap of all is waited for: a late response closes it. */
static void error_late_far(struct kunit *test)
{
	struct sim *sim = with_long_rtt(test);
	struct roe_reorder *ro = &sim->side[0].qp->req.reorder;
	struct sim_pkt *pkts[LATE_PKTS];
	unsigned int i;

	read_late(sim, pkts);
	swap(pkts[0], pkts[2]);
	for (i = 0; i < LATE_PKTS; i++)
		bring(sim, pkts[i]);
	KUNIT_EXPECT_EQ(test, requests(sim), 0);
	KUNIT_EXPECT_GT(test, ro->patience, 0);
	KUNIT_EXPECT_NULL(test, sim_check(sim));
}

/* Once in vain, no second time. */
static void error_late_far_lost(struct kunit *test)
{
	struct sim *sim = with_long_rtt(test);
	struct roe_req *req = &sim->side[0].qp->req;
	struct sim_pkt *pkts[LATE_PKTS];
	u64 start;

	read_late(sim, pkts);
	sim_put(sim, pkts[0]);
	bring(sim, pkts[1]);
	KUNIT_EXPECT_EQ(test, requests(sim), 0);
	start = sim->now;
	sim->now = roe_timer_next(sim->side[0].qp);
	KUNIT_EXPECT_EQ(test, sim->now - start, req->srtt / 2);
	lose(sim, pkts + 2, LATE_PKTS - 2);
	sim_timer(sim, 0);
	sim_emit(sim, 0);
	sim->now += ROE_WAY_LONG_NS;
	KUNIT_ASSERT_TRUE(test, sim_run(sim));
	KUNIT_EXPECT_EQ(test, req->reorder.patience, 0);
	read_late(sim, pkts);
	sim_put(sim, pkts[0]);
	bring(sim, pkts[1]);
	KUNIT_EXPECT_EQ(test, requests(sim), 1);
	lose(sim, pkts + 2, LATE_PKTS - 2);
}

/*
 * A response from behind the gap, or a NAK for it, tells how long the round trip is. One for a
 * message that takes a receive WQE may have waited for that.
 */
static void error_late_sample(struct kunit *test)
{
	static const u8 ops[] = { IB_WR_RDMA_READ, IB_WR_RDMA_WRITE, IB_WR_SEND };
	struct sim *sim = fresh(test);
	struct roe_req *req = &sim->side[0].qp->req;
	struct sim_pkt *pkts[LATE_PKTS], *nak;
	unsigned int i;

	sim->slot = LATE_PKTS * SIM_MTU;
	read_late(sim, pkts);
	sim_put(sim, pkts[0]);
	sim->now += 2 * ROE_WAY_LONG_NS - SIM_WIRE_NS / 10;
	bring(sim, pkts[1]);
	KUNIT_EXPECT_EQ(test, req->rtt, 2 * ROE_WAY_LONG_NS);
	KUNIT_EXPECT_EQ(test, requests(sim), 0);
	lose(sim, pkts + 2, LATE_PKTS - 2);

	/* of a READ that was asked for much later it would be too long */
	sim_reset(sim, PSN0, PSN1);
	read_late(sim, pkts);
	lose(sim, pkts, LATE_PKTS);
	sim->now += ROE_WAY_LONG_NS;
	read_late(sim, pkts);
	bring(sim, pkts[0]);
	lose(sim, pkts + 1, LATE_PKTS - 1);
	KUNIT_EXPECT_EQ(test, req->rtt, 0);

	for (i = 0; i < ARRAY_SIZE(ops); i++) {
		sim_reset(sim, PSN0, PSN1);
		sim_post(sim, 0, ops[i], 100, SIG);
		sim_post(sim, 0, ops[i], 100, SIG);
		sim_emit(sim, 0);
		KUNIT_ASSERT_EQ(test, take_all(sim, pkts, 2), 2);
		sim_put(sim, pkts[0]);
		sim_receive(sim, 1, &pkts[1]->rx);
		sim_put(sim, pkts[1]);
		sim_emit(sim, 1);
		KUNIT_ASSERT_EQ(test, take_all(sim, &nak, 1), 1);
		KUNIT_ASSERT_EQ(test, nak->rx.p.syndrome, ROE_AETH_NAK | ROE_NAK_PSN_SEQ);
		sim->now += 2 * ROE_WAY_LONG_NS - SIM_WIRE_NS / 10;
		bring(sim, nak);
		KUNIT_EXPECT_EQ(test, req->rtt, ops[i] == IB_WR_SEND ? 0 : 2 * ROE_WAY_LONG_NS);
	}

	/* it may have left before the timed packet */
	sim_reset(sim, PSN0, PSN1);
	for (i = 0; i < 3; i++)
		sim_post(sim, 0, IB_WR_RDMA_WRITE, 100, SIG);
	sim_emit(sim, 0);
	KUNIT_ASSERT_EQ(test, take_all(sim, pkts, 3), 3);
	lose(sim, pkts, 3);
	req->rtt_psn = roe_psn_add(req->una, 1);
	roe_timer_gap_sample(sim->side[0].qp, sim->now + SIM_WIRE_NS, req->una,
			     roe_psn_add(req->una, 2));
	KUNIT_EXPECT_EQ(test, req->rtt, 0);
}

/*
 * READs are sent again. Where the network changes the order, no other READ is added to them,
 * and responses are kept again as soon as they can be answers to the second copy.
 */
static void error_late_second(struct kunit *test)
{
	struct sim *sim = with_long_rtt(test);
	struct roe_req *req = &sim->side[0].qp->req;
	struct sim_pkt *pkts[LATE_PKTS], *more[LATE_PKTS], *again, *later;
	unsigned int i;

	req->reorder.patience = 4;
	read_late(sim, pkts);
	sim_put(sim, pkts[0]);
	bring(sim, pkts[1]);
	/* one that was not there to be waited for */
	sim_post(sim, 0, IB_WR_RDMA_READ, SIM_MTU, SIG);
	sim_emit(sim, 0);
	KUNIT_ASSERT_EQ(test, take_all(sim, &later, 1), 1);
	sim_receive(sim, 1, &later->rx);
	sim_put(sim, later);
	sim_emit(sim, 1);
	KUNIT_ASSERT_EQ(test, take_all(sim, &later, 1), 1);
	sim->now = req->reorder.until;
	sim_timer(sim, 0);
	sim_emit(sim, 0);
	KUNIT_ASSERT_EQ(test, take_all(sim, more, LATE_PKTS), 2);
	again = more[0];
	sim_put(sim, more[1]);
	sim_post(sim, 0, IB_WR_RDMA_READ, SIM_MTU, SIG);
	sim_emit(sim, 0);
	KUNIT_EXPECT_EQ(test, requests(sim), 0);

	for (i = 0; i < SIM_REGION; i++)
		sim->side[1].src[i]++;
	sim_receive(sim, 1, &again->rx);
	sim_put(sim, again);
	sim_emit(sim, 1);
	KUNIT_ASSERT_EQ(test, take_all(sim, more, LATE_PKTS), LATE_PKTS);
	/* a response to the first copy, then those to the second */
	sim->now += ROE_WAY_LONG_NS / 2;
	bring(sim, pkts[2]);
	KUNIT_EXPECT_EQ(test, req->reorder.early.nr, 0);
	sim->now += ROE_WAY_LONG_NS / 4;
	bring(sim, later);
	KUNIT_EXPECT_EQ(test, req->reorder.early.nr, 0);
	for (i = LATE_PKTS; --i; )
		bring(sim, more[i]);
	KUNIT_EXPECT_EQ(test, req->reorder.early.nr, LATE_PKTS - 1);
	KUNIT_EXPECT_EQ(test, requests(sim), 0);
	bring(sim, more[0]);
	KUNIT_EXPECT_EQ(test, requests(sim), 0);
	KUNIT_EXPECT_EQ(test, req->reorder.early.nr, 0);
	lose(sim, pkts + 3, LATE_PKTS - 3);
	KUNIT_ASSERT_TRUE(test, sim_run(sim));
	KUNIT_EXPECT_NULL(test, sim_check(sim));
}

/* Where nothing is ever late there is no waiting for it. */
static void error_late_never(struct kunit *test)
{
	struct sim *sim = with_rtt(test);
	struct roe_req *req = &sim->side[0].qp->req;
	struct sim_pkt *pkts[LATE_PKTS];
	unsigned int i, round;

	req->reorder.patience = 4;
	for (round = 0; round < 20; round++) {
		read_late(sim, pkts);
		sim_put(sim, pkts[0]);
		for (i = 1; i < LATE_PKTS; i++)
			bring(sim, pkts[i]);
		sim_run(sim);
	}
	KUNIT_EXPECT_EQ(test, req->reorder.patience, 0);
	KUNIT_EXPECT_NULL(test, sim_check(sim));
}

/* A response that was thrown away behind a gap is asked for without the RTO. */
static void error_late_thrown_away(struct kunit *test)
{
	struct sim *sim = with_rtt(test);
	struct roe_req *req = &sim->side[0].qp->req;
	struct sim_pkt *pkts[LATE_PKTS];
	unsigned int i;
	u64 start;

	read_late(sim, pkts);
	swap(pkts[0], pkts[1]);
	bring(sim, pkts[0]);
	KUNIT_EXPECT_EQ(test, requests(sim), 1);
	/* in turn, then one that is not, within the round trip of the first */
	bring(sim, pkts[1]);
	bring(sim, pkts[3]);
	for (i = 2; i < LATE_PKTS; i++)
		if (i != 3)
			sim_put(sim, pkts[i]);
	start = sim->now;
	KUNIT_ASSERT_TRUE(test, sim_run(sim));
	KUNIT_EXPECT_LT(test, sim->now - start, 10 * req->srtt);
	KUNIT_EXPECT_NULL(test, sim_check(sim));
}

/* Single-packet READs asked for at once, their responses are on the wire: @pkts. */
static void read_singles(struct sim *sim, struct sim_pkt **pkts, unsigned int n)
{
	unsigned int i;

	for (i = 0; i < n; i++)
		sim_post(sim, 0, IB_WR_RDMA_READ, SIM_MTU, SIG);
	sim_emit(sim, 0);
	KUNIT_ASSERT_EQ(sim->test, take_all(sim, pkts, n), n);
	for (i = 0; i < n; i++) {
		sim_receive(sim, 1, &pkts[i]->rx);
		sim_put(sim, pkts[i]);
	}
	sim_emit(sim, 1);
	KUNIT_ASSERT_EQ(sim->test, take_all(sim, pkts, n), n);
}

/* Nothing is asked for once what was thrown away has come. */
static void error_late_passed(struct kunit *test)
{
	struct sim *sim = with_rtt(test);
	struct roe_req *req = &sim->side[0].qp->req;
	struct sim_pkt *pkts[4], *again[4];
	unsigned int i, n;

	read_singles(sim, pkts, 4);
	bring(sim, pkts[1]);
	n = take_all(sim, again, 4);
	KUNIT_ASSERT_EQ(test, n, 4);
	bring(sim, pkts[0]);
	bring(sim, pkts[2]);
	KUNIT_EXPECT_TRUE(test, req->reorder.dropped);
	KUNIT_EXPECT_GT(test, req->reorder.until, req->implied_until);
	sim_put(sim, pkts[3]);
	for (i = 0; i < n; i++) {
		sim_receive(sim, 1, &again[i]->rx);
		sim_put(sim, again[i]);
	}
	sim_emit(sim, 1);
	n = take_all(sim, again, 4);
	KUNIT_ASSERT_EQ(test, n, 4);
	for (i = 0; i < 3; i++)
		bring(sim, again[i]);
	KUNIT_EXPECT_FALSE(test, req->reorder.dropped);
	KUNIT_EXPECT_EQ(test, req->reorder.until, 0);
	bring(sim, again[3]);
	KUNIT_EXPECT_EQ(test, requests(sim), 0);
	KUNIT_EXPECT_NULL(test, sim_check(sim));
}

/* What IP refuses is sent again, not what is kept before it. */
static void error_late_refused(struct kunit *test)
{
	struct sim *sim = with_rtt(test);
	struct roe_qp *qp = sim->side[0].qp;
	struct roe_ctx ctx = { .now = sim->now };
	struct sim_pkt *pkts[3];

	qp->req.reorder.patience = 4;
	read_singles(sim, pkts, 3);
	bring(sim, pkts[1]);
	KUNIT_EXPECT_EQ(test, qp->req.reorder.early.nr, 1);
	ctx.now = sim->now;
	roe_requester_local_drop(qp, &ctx, roe_psn_add(qp->req.una, 2));
	sim->now = qp->req.drop_deadline;
	qp->req.reorder.until = sim->now + 1;
	sim_timer(sim, 0);
	KUNIT_EXPECT_EQ(test, qp->req.drop_deadline, 0);
	KUNIT_EXPECT_EQ(test, qp->req.reorder.early.nr, 1);
	bring(sim, pkts[0]);
	KUNIT_EXPECT_EQ(test, roe_psn_diff(qp->req.psn, qp->req.una), 1);
	sim_put(sim, pkts[2]);
	KUNIT_ASSERT_TRUE(test, sim_run(sim));
	KUNIT_EXPECT_NULL(test, sim_check(sim));
}

/* An ACK of the same PSN takes no place from a response. */
static void error_late_ack(struct kunit *test)
{
	struct sim *sim = with_rtt(test);
	struct roe_qp *qp = sim->side[0].qp;
	struct roe_pkt ack, answer;
	struct sim_pkt *pkts[LATE_PKTS];
	unsigned int i;

	qp->req.reorder.patience = 4;
	read_late(sim, pkts);
	ack = an_ack(roe_psn_add(qp->req.psn, -1), 0x1f);
	KUNIT_EXPECT_FALSE(test, forge(sim, 0, &ack, &answer));
	for (i = 1; i < LATE_PKTS; i++)
		bring(sim, pkts[i]);
	bring(sim, pkts[0]);
	KUNIT_EXPECT_EQ(test, qp->req.una, qp->req.psn);
	KUNIT_EXPECT_EQ(test, requests(sim), 0);
	KUNIT_EXPECT_NULL(test, sim_check(sim));
}

static void drop_answers(struct sim *sim, struct roe_refused refused)
{
	struct roe_qp *qp = sim->side[1].qp;
	struct roe_ctx ctx = { .now = sim->now };

	roe_answer_local_drop(qp, &ctx, &refused);
	/* nothing leaves at once */
	sim_emit(sim, 1);
	KUNIT_EXPECT_GT(sim->test, roe_timer_next(qp), sim->now);
	KUNIT_EXPECT_LE(sim->test, roe_timer_next(qp), sim->now + NSEC_PER_MSEC);
}

static void drop_responses(struct sim *sim, u32 psn, unsigned int n)
{
	drop_answers(sim, (struct roe_refused){ .responses = n, .response = psn });
}

static void drop_ack(struct sim *sim)
{
	drop_answers(sim, (struct roe_refused){ .acks = 1 });
}

static void timer_emit(struct sim *sim)
{
	sim->now = roe_timer_next(sim->side[1].qp);
	sim_timer(sim, 1);
	KUNIT_EXPECT_TRUE(sim->test, sim_emit(sim, 1));
}

static void read_local_drop(struct kunit *test, enum ib_qp_state state)
{
	struct sim *sim = fresh(test);
	unsigned int i, n, rest = 0;
	struct sim_pkt *pkt;
	const char *wrong;

	sim->side[1].qp->state = state;
	sim->slot = 100 * SIM_MTU;
	sim_post(sim, 0, IB_WR_RDMA_READ, 100 * SIM_MTU, SIG);
	sim_post(sim, 0, IB_WR_ATOMIC_FETCH_AND_ADD, 8, SIG);
	sim_emit(sim, 0);
	for (i = 0; i < 2; i++) {
		pkt = sim_take(sim);
		KUNIT_ASSERT_NOT_NULL(test, pkt);
		sim_receive(sim, 1, &pkt->rx);
		sim_put(sim, pkt);
	}
	sim_emit(sim, 1);
	for (n = 0; !list_empty(&sim->wire); n++) {
		pkt = sim_take(sim);
		if (n < 40)
			sim_receive(sim, 0, &pkt->rx);
		sim_put(sim, pkt);
	}
	KUNIT_EXPECT_EQ(test, n, 101);
	drop_responses(sim, roe_psn_add(PSN0, 40), 61);
	KUNIT_EXPECT_TRUE(test, list_empty(&sim->wire));
	timer_emit(sim);
	while (sim_emit(sim, 1))
		;
	list_for_each_entry(pkt, &sim->wire, link)
		rest++;
	KUNIT_EXPECT_EQ(test, rest, 61);
	KUNIT_ASSERT_TRUE(test, sim_run(sim));
	KUNIT_EXPECT_EQ(test, sim->side[1].qp->state, state);
	/* what that expects */
	sim->side[1].qp->state = IB_QPS_RTS;
	wrong = sim_check(sim);
	KUNIT_EXPECT_NULL_MSG(test, wrong, "%s", wrong);
	KUNIT_EXPECT_EQ(test, sim->sent[0], 2);
	KUNIT_EXPECT_EQ(test, sim->side[0].qp->req.retry_cnt, 7);
}

/*
 * A queue of this host was full: READ responses go on with the first that it refused. Also
 * of those who only answer and stay in RTR, as perftest's server.
 */
static void error_read_local_drop(struct kunit *test)
{
	read_local_drop(test, IB_QPS_RTS);
	read_local_drop(test, IB_QPS_RTR);
}

/* Or an ACK, or a NAK. */
static void error_ack_local_drop(struct kunit *test)
{
	struct sim *sim = fresh(test);
	struct roe_pkt write = { .opcode = ROE_OP_WRITE_ONLY, .ackreq = true, .psn = PSN0 };
	struct roe_pkt p;

	KUNIT_EXPECT_TRUE(test, forge(sim, 1, &write, &p));
	drop_ack(sim);
	timer_emit(sim);
	KUNIT_EXPECT_TRUE(test, next_pkt(sim, 0, &p));
	KUNIT_EXPECT_EQ(test, p.opcode, ROE_OP_ACK);
	KUNIT_EXPECT_EQ(test, p.syndrome & ROE_AETH_KIND_MASK, ROE_AETH_ACK);
	KUNIT_EXPECT_EQ(test, p.psn, PSN0);
	write.psn = roe_psn_add(PSN0, 5);
	KUNIT_EXPECT_TRUE(test, forge(sim, 1, &write, &p));
	drop_ack(sim);
	timer_emit(sim);
	KUNIT_EXPECT_TRUE(test, next_pkt(sim, 0, &p));
	KUNIT_EXPECT_EQ(test, p.syndrome, ROE_NAK_PSN_SEQ);
	KUNIT_EXPECT_EQ(test, p.psn, roe_psn_add(PSN0, 1));
	KUNIT_EXPECT_FALSE(test, next_pkt(sim, 0, &p));
}

/* Requests of side 0 arrive, side 1 answers in one burst, and none of that gets away. */
static void answer_in_vain(struct sim *sim)
{
	struct sim_pkt *pkts[ROE_TXB_PKTS];
	unsigned int i, n;

	sim_emit(sim, 0);
	n = take_all(sim, pkts, ARRAY_SIZE(pkts));
	for (i = 0; i < n; i++) {
		sim_receive(sim, 1, &pkts[i]->rx);
		sim_put(sim, pkts[i]);
	}
	sim_emit(sim, 1);
	n = take_all(sim, pkts, ARRAY_SIZE(pkts));
	for (i = 0; i < n; i++)
		sim_put(sim, pkts[i]);
}

static void read_through(struct sim *sim, unsigned int pkts)
{
	sim_post(sim, 0, IB_WR_RDMA_READ, pkts * SIM_MTU, SIG);
	KUNIT_ASSERT_TRUE(sim->test, sim_run(sim));
}

/* Refused behind READ responses, an ACK is owed behind them. */
static void error_ack_dropped_too(struct kunit *test)
{
	struct sim *sim = fresh(test);
	struct roe_pkt p;
	unsigned int i;

	sim->slot = 4 * SIM_MTU;
	sim_post(sim, 0, IB_WR_RDMA_READ, 4 * SIM_MTU, SIG);
	sim_post(sim, 0, IB_WR_RDMA_WRITE, 10, SIG);
	answer_in_vain(sim);
	drop_answers(sim, (struct roe_refused){
		.responses = 2, .response = roe_psn_add(PSN0, 2), .acks = 1,
	});
	timer_emit(sim);
	for (i = 2; i < 4; i++) {
		KUNIT_EXPECT_TRUE(test, next_pkt(sim, 0, &p));
		KUNIT_EXPECT_EQ(test, p.psn, roe_psn_add(PSN0, i));
	}
	KUNIT_EXPECT_TRUE(test, next_pkt(sim, 0, &p));
	KUNIT_EXPECT_EQ(test, p.opcode, ROE_OP_ACK);
	KUNIT_EXPECT_EQ(test, p.psn, roe_psn_add(PSN0, 4));
	KUNIT_EXPECT_FALSE(test, next_pkt(sim, 0, &p));
}

/* The answer to a FLUSH in front of them: it comes again when that does, they come at once. */
static void error_flush_dropped_too(struct kunit *test)
{
	struct sim *sim = fresh(test);
	struct roe_pkt p;
	unsigned int i;

	sim->slot = 4 * SIM_MTU;
	sim_post(sim, 0, IB_WR_FLUSH, 0, SIG);
	sim_post(sim, 0, IB_WR_RDMA_READ, 3 * SIM_MTU, SIG);
	answer_in_vain(sim);
	drop_responses(sim, PSN0, 4);
	timer_emit(sim);
	for (i = 1; i < 4; i++) {
		KUNIT_EXPECT_TRUE(test, next_pkt(sim, 0, &p));
		KUNIT_EXPECT_EQ(test, p.psn, roe_psn_add(PSN0, i));
	}
}

/* IP takes its time with a burst: the QP has another connection by then, and a READ of it. */
static void error_drop_older(struct kunit *test)
{
	struct sim *sim = fresh(test);
	struct sim_pkt *pkt;

	sim_post(sim, 0, IB_WR_RDMA_READ, 3 * SIM_MTU, SIG);
	sim_emit(sim, 0);
	pkt = sim_take(sim);
	KUNIT_ASSERT_NOT_NULL(test, pkt);
	sim_receive(sim, 1, &pkt->rx);
	sim_put(sim, pkt);
	drop_responses(sim, roe_psn_add(PSN0, 0x900000), 64);
	KUNIT_EXPECT_EQ(test, sim->side[1].qp->resp.rsrc_pending, 1);
	timer_emit(sim);
	KUNIT_ASSERT_TRUE(test, sim_run(sim));
}

/* What was not in the burst was not refused: READs before, between and by an ACK's PSN. */
static void error_drop_others(struct kunit *test)
{
	struct sim *sim = fresh(test);
	struct roe_rx_pkt again = {};
	unsigned int n = 0;
	struct roe_pkt p;

	sim->slot = 10 * SIM_MTU;
	again.p = a_read(sim, 9, SIM_MTU);
	read_through(sim, 10);
	read_through(sim, 10);
	KUNIT_ASSERT_GE(test, sim->side[1].qp->resp.rsrc_nr, 3);
	sim_receive(sim, 1, &again);
	sim_post(sim, 0, IB_WR_RDMA_READ, 10 * SIM_MTU, SIG);
	answer_in_vain(sim);
	drop_responses(sim, roe_psn_add(PSN0, 9), 11);
	timer_emit(sim);
	while (sim_emit(sim, 1))
		;
	while (next_pkt(sim, 0, &p))
		n++;
	KUNIT_EXPECT_EQ(test, n, 11);
	drop_ack(sim);
	sim->now = roe_timer_next(sim->side[1].qp);
	sim_timer(sim, 1);
	sim_emit(sim, 1);
	while (next_pkt(sim, 0, &p))
		KUNIT_EXPECT_EQ(test, p.opcode, ROE_OP_ACK);
}

/*
 * However long it waits, it tries with single packets: trains may be what does not pass. A
 * queue that took some has room again soon.
 */
static void error_drop_alone(struct kunit *test)
{
	struct sim *sim = fresh(test);
	struct roe_qp *qp = sim->side[1].qp;
	struct roe_refused refused = { .responses = 100, .response = PSN0 };
	struct roe_ctx ctx = {};
	unsigned int i, n;
	struct roe_pkt p;

	sim->slot = 100 * SIM_MTU;
	sim_post(sim, 0, IB_WR_RDMA_READ, 100 * SIM_MTU, SIG);
	answer_in_vain(sim);
	while (next_pkt(sim, 0, &p))
		;
	for (i = 0; i < 12; i++) {
		ctx.now = sim->now;
		roe_answer_local_drop(qp, &ctx, &refused);
		sim->now = roe_timer_next(qp);
		sim_timer(sim, 1);
		sim_emit(sim, 1);
		for (n = 0; next_pkt(sim, 0, &p); n++)
			;
		KUNIT_EXPECT_EQ(test, n, ROE_LOCAL_ALONE_PKTS);
	}
	refused.answered = true;
	ctx.now = sim->now;
	roe_answer_local_drop(qp, &ctx, &refused);
	KUNIT_EXPECT_LE(test, roe_timer_next(qp), sim->now + NSEC_PER_MSEC);
}

/* A QP that fails while its responses wait for room has nothing to be woken up for. */
static void error_dropped_in_error(struct kunit *test)
{
	struct sim *sim = fresh(test);
	struct roe_rx_pkt rx = { .p = a_read(sim, 0, 10 * SIM_MTU) };
	struct roe_qp *qp = sim->side[1].qp;

	sim_receive(sim, 1, &rx);
	sim_post(sim, 1, IB_WR_SEND, 10, SIG);
	roe_sq_slot(&qp->sq, 0)->sge[0].lkey ^= 1;
	roe_sq_slot(&qp->sq, 0)->sge[1].lkey ^= 1;
	qp->crowded = true;
	qp->resp.refused_until = sim->now + NSEC_PER_MSEC;
	sim_emit(sim, 1);
	KUNIT_EXPECT_EQ(test, qp->state, IB_QPS_ERR);
	KUNIT_EXPECT_EQ(test, roe_timer_next(qp), 0);
}

/* --- what a gap costs -------------------------------------------------------- */

#define GAP_PKTS	40

struct gap {
	const char	*name;
	u64		lost, late;	/* bit n: the n-th packet */
	unsigned int	again;		/* packets sent twice, at most */
};

static const struct gap gaps[] = {
	{ "one", BIT(7), 0, 4 },
	{ "first", BIT(0), 0, 4 },
	{ "two", BIT(7) | BIT(20), 0, 8 },
	{ "two_near", BIT(7) | BIT(9), 0, 8 },
	{ "ten", GENMASK(16, 7), 0, 4 + 8 },
	{ "again", BIT(7) | BIT(GAP_PKTS), 0, GAP_PKTS },
	{ "late", 0, BIT(7), 4 },
	{ "some_late", 0, BIT(0) | BIT(7) | BIT(8) | BIT(30), 12 },
};

static void gap_desc(const struct gap *gap, char *desc)
{
	strscpy(desc, gap->name, KUNIT_PARAM_DESC_SIZE);
}

KUNIT_ARRAY_PARAM(gap, gaps, gap_desc);

static unsigned int send_into_gap(struct kunit *test, enum ib_wr_opcode op, bool forget)
{
	const struct gap *gap = test->param_value;
	struct sim *sim = test->priv;
	const char *wrong;

	sim_reset(sim, PSN0, PSN1);
	sim->slot = GAP_PKTS * SIM_MTU;
	sim->forget = forget;
	sim->lost = gap->lost;
	sim->late = gap->late;
	sim_recv(sim, 1, sim->slot);
	sim_post(sim, 0, op, sim->slot, SIG);
	KUNIT_ASSERT_TRUE(test, sim_run(sim));
	wrong = sim_check(sim);
	KUNIT_EXPECT_NULL_MSG(test, wrong, "%s", wrong);
	return sim->sent[0];
}

/* No more is sent again than what is missing and what it takes to find that out. */
static void sim_gap(struct kunit *test)
{
	const struct gap *gap = test->param_value;
	unsigned int max = GAP_PKTS + gap->again;

	KUNIT_EXPECT_LE(test, send_into_gap(test, IB_WR_SEND, false), max);
	KUNIT_EXPECT_LE(test, send_into_gap(test, IB_WR_RDMA_WRITE, false), max);
}

/*
 * Messages of one packet, each of which asks for an ACK: what is on its way into the gap is
 * no other loss.
 */
static void sim_gap_small(struct kunit *test)
{
	struct sim *sim = test->priv;
	const char *wrong;
	unsigned int i;

	sim_reset(sim, PSN0, PSN1);
	sim->lost = GENMASK(16, 7);
	for (i = 0; i < GAP_PKTS; i++) {
		sim_recv(sim, 1, 10);
		sim_post(sim, 0, IB_WR_SEND, 10, SIG);
	}
	KUNIT_ASSERT_TRUE(test, sim_run(sim));
	wrong = sim_check(sim);
	KUNIT_EXPECT_NULL_MSG(test, wrong, "%s", wrong);
	KUNIT_EXPECT_LE(test, sim->sent[0], GAP_PKTS + 4 + 8);
}

/* A second loss at the end of the same flight: the peer kept nothing there, no limit stays. */
static void sim_gap_tail(struct kunit *test)
{
	struct sim *sim = test->priv;
	struct roe_req *req = &sim->side[0].qp->req;
	const char *wrong;

	sim_reset(sim, PSN0, PSN1);
	sim->slot = 2 * GAP_PKTS * SIM_MTU;
	sim->lost = GENMASK(15, 10) | GENMASK_ULL(63, 17);
	sim_post(sim, 0, IB_WR_RDMA_WRITE, 64 * SIM_MTU, SIG);
	KUNIT_ASSERT_TRUE(test, sim_run(sim));
	wrong = sim_check(sim);
	KUNIT_EXPECT_NULL_MSG(test, wrong, "%s", wrong);
	KUNIT_EXPECT_EQ(test, req->probe, 0);
}

/* Many more than a NAK comes for: each answer still is for all that was sent into the gap. */
#define LONG_PKTS	300

static void sim_gap_long(struct kunit *test)
{
	struct sim *sim = test->priv;
	const char *wrong;

	sim_reset(sim, PSN0, PSN1);
	sim->slot = LONG_PKTS * SIM_MTU;
	sim->side[0].qp->req.cwnd = 512;
	sim->lost_from = 6;
	sim->lost_to = 205;
	sim_post(sim, 0, IB_WR_RDMA_WRITE, LONG_PKTS * SIM_MTU, SIG);
	KUNIT_ASSERT_TRUE(test, sim_run(sim));
	wrong = sim_check(sim);
	KUNIT_EXPECT_NULL_MSG(test, wrong, "%s", wrong);
	kunit_info(test, "%u packets\n", sim->sent[0]);
	KUNIT_EXPECT_LE(test, sim->sent[0], LONG_PKTS + 200 + 64);
}

/* The same from a peer that sends all again, in order: NAKs come ever more seldom. */
static void sim_gap_stream(struct kunit *test)
{
	struct sim *sim = fresh(test);
	struct sim_pkt *pkts[GAP_PKTS];
	unsigned int i, naks = 0;
	struct roe_pkt p;

	for (i = 0; i < GAP_PKTS; i++)
		sim_post(sim, 0, IB_WR_RDMA_WRITE, 10, SIG);
	sim_emit(sim, 0);
	KUNIT_ASSERT_EQ(test, take_all(sim, pkts, GAP_PKTS), GAP_PKTS);
	sim_receive(sim, 1, &pkts[GAP_PKTS - 1]->rx);
	sim_emit(sim, 1);
	for (i = 0; i < GAP_PKTS; i++) {
		pkts[i]->rx.p.ackreq = true;
		sim_receive(sim, 1, &pkts[i]->rx);
		sim_put(sim, pkts[i]);
		sim_emit(sim, 1);
		while (next_pkt(sim, 0, &p))
			naks += p.syndrome == ROE_NAK_PSN_SEQ;
	}
	/* at first, behind 4, 12, 28 */
	KUNIT_EXPECT_EQ(test, naks, 4);
}

/* However long the gap is, NAKs come ever more seldom: behind 4, 12, 28, ... 2044. */
static void sim_gap_far(struct kunit *test)
{
	struct sim *sim = fresh(test);
	unsigned int i, naks = 0;
	struct roe_pkt p = { .opcode = ROE_OP_WRITE_ONLY, .ackreq = true }, r;

	for (i = 0; i <= 3000; i++) {
		p.psn = roe_psn_add(PSN0, i ? i - 1 : ROE_EARLY_MAX - 1);
		naks += forge(sim, 1, &p, &r) && r.syndrome == ROE_NAK_PSN_SEQ;
	}
	KUNIT_EXPECT_EQ(test, naks, 10);
	KUNIT_EXPECT_EQ(test, sim->side[1].qp->resp.psn, roe_psn_add(PSN0, 3000));
}

/* A peer that keeps nothing gets all of it again. */
static void sim_gap_forgotten(struct kunit *test)
{
	KUNIT_EXPECT_GT(test, send_into_gap(test, IB_WR_SEND, true), GAP_PKTS);
}

static struct kunit_case error_cases[] = {
	KUNIT_CASE(error_rnr),
	KUNIT_CASE(error_rnr_patience),
	KUNIT_CASE(error_rnr_no_cut),
	KUNIT_CASE(error_rnr_impatience),
	KUNIT_CASE(error_rnr_doorbell),
	KUNIT_CASE(error_rnr_short_timeout),
	KUNIT_CASE(error_rnr_overtaken),
	KUNIT_CASE(error_rnr_no_retry),
	KUNIT_CASE(error_rnr_lost),
	KUNIT_CASE(error_early_far),
	KUNIT_CASE(error_early_forgotten),
	KUNIT_CASE(error_rnr_forgets),
	KUNIT_CASE(error_rnr_sparing),
	KUNIT_CASE(error_rnr_progress),
	KUNIT_CASE(error_rnr_local_drop),
	KUNIT_CASE(error_held),
	KUNIT_CASE(error_dup_on_the_way),
	KUNIT_CASE(error_dup_no_end),
	KUNIT_CASE(error_dup_before_read),
	KUNIT_CASE(error_lost),
	KUNIT_CASE(error_lost_for_long),
	KUNIT_CASE(reads_without_depth),
	KUNIT_CASE(reads_overlap),
	KUNIT_CASE(reads_share_window),
	KUNIT_CASE(error_remote),
	KUNIT_CASE(error_ignored),
	KUNIT_CASE(error_bad_response),
	KUNIT_CASE(error_opcodes),
	KUNIT_CASE(error_future),
	KUNIT_CASE(error_dup_read),
	KUNIT_CASE(error_read_replay_gone),
	KUNIT_CASE(error_read_begun),
	KUNIT_CASE(error_dup_read_stalled),
	KUNIT_CASE(error_dup_read_rest),
	KUNIT_CASE(error_too_many_reads),
	KUNIT_CASE(error_reads_rounded),
	KUNIT_CASE(error_too_many_flushes),
	KUNIT_CASE(error_flushes_after_read),
	KUNIT_CASE(error_dup_after_wrap),
	KUNIT_CASE(error_two_after_wrap),
	KUNIT_CASE(error_dup_after_reads),
	KUNIT_CASE(error_nak_too_late),
	KUNIT_CASE(error_lent),
	KUNIT_CASE(error_lent_timeout),
	KUNIT_CASE(error_lent_in_burst),
	KUNIT_CASE(error_direct),
	KUNIT_CASE(error_dup_holds_slot),
	KUNIT_CASE(error_repeated_naks),
	KUNIT_CASE(error_no_memory),
	KUNIT_CASE(error_no_memory_response),
	KUNIT_CASE(error_read_refused),
	KUNIT_CASE(error_read_lent),
	KUNIT_CASE(error_read_lent_inv),
	KUNIT_CASE(error_write_revocable),
	KUNIT_CASE(error_dup_ends_wait),
	KUNIT_CASE(error_sent_again),
	KUNIT_CASE(error_not_again),
	KUNIT_CASE(error_two_again),
	KUNIT_CASE(error_probe_again),
	KUNIT_CASE(error_late),
	KUNIT_CASE(error_late_measured),
	KUNIT_CASE(error_echo_ways),
	KUNIT_CASE(error_early_not_ready),
	KUNIT_CASE(error_early_not_told),
	KUNIT_CASE(error_lost_alone),
	KUNIT_CASE(error_asks_seldom),
	KUNIT_CASE(error_solicits),
	KUNIT_CASE(error_malformed_response),
	KUNIT_CASE(error_overrun_other),
	KUNIT_CASE(error_crowded),
	KUNIT_CASE(error_crowded_ways),
	KUNIT_CASE(error_swapped),
	KUNIT_CASE(error_late_first),
	KUNIT_CASE(error_late_clock),
	KUNIT_CASE(error_late_answer),
	KUNIT_CASE(error_late_answers),
	KUNIT_CASE(error_late_ahead),
	KUNIT_CASE(error_late_kept),
	KUNIT_CASE(error_late_atomic),
	KUNIT_CASE(error_late_lost),
	KUNIT_CASE(error_late_far),
	KUNIT_CASE(error_late_far_clock),
	KUNIT_CASE(error_late_far_lost),
	KUNIT_CASE(error_late_sample),
	KUNIT_CASE(error_late_second),
	KUNIT_CASE(error_late_never),
	KUNIT_CASE(error_late_thrown_away),
	KUNIT_CASE(error_late_passed),
	KUNIT_CASE(error_late_refused),
	KUNIT_CASE(error_late_ack),
	KUNIT_CASE(error_read_local_drop),
	KUNIT_CASE(error_ack_local_drop),
	KUNIT_CASE(error_ack_dropped_too),
	KUNIT_CASE(error_flush_dropped_too),
	KUNIT_CASE(error_drop_others),
	KUNIT_CASE(error_drop_older),
	KUNIT_CASE(error_drop_alone),
	KUNIT_CASE(error_dropped_in_error),
	{}
};

static struct kunit_suite error_suite = {
	.name = "roe_errors",
	.init = setup,
	.exit = teardown,
	.test_cases = error_cases,
};

static struct kunit_case sim_cases[] = {
	KUNIT_CASE_PARAM(sim_every_schedule, load_gen_params),
	KUNIT_CASE(sim_random),
	KUNIT_CASE(sim_random_new),
	KUNIT_CASE(sim_large),
	KUNIT_CASE(sim_rows),
	KUNIT_CASE_PARAM(sim_direct, load_gen_params),
	KUNIT_CASE(sim_direct_toggled),
	KUNIT_CASE(sim_window),
	KUNIT_CASE(sim_stream),
	KUNIT_CASE(sim_stream_reads),
	KUNIT_CASE(sim_stream_responses),
	KUNIT_CASE(sim_collect),
	KUNIT_CASE(sim_widen),
	KUNIT_CASE(sim_widen_far),
	KUNIT_CASE(sim_widen_queue),
	KUNIT_CASE(sim_pace),
	KUNIT_CASE(sim_probe_gaps),
	KUNIT_CASE(sim_widen_single),
	KUNIT_CASE(sim_widen_late),
	KUNIT_CASE(sim_two_copies),
	KUNIT_CASE(sim_trains),
	KUNIT_CASE(sim_no_trains),
	KUNIT_CASE(sim_widen_wrap),
	KUNIT_CASE_PARAM(sim_gap, gap_gen_params),
	KUNIT_CASE_PARAM(sim_gap_forgotten, gap_gen_params),
	KUNIT_CASE(sim_gap_small),
	KUNIT_CASE(sim_gap_tail),
	KUNIT_CASE(sim_gap_long),
	KUNIT_CASE(sim_gap_stream),
	KUNIT_CASE(sim_gap_far),
	{}
};

static struct kunit_suite sim_suite = {
	.name = "roe_sim",
	.init = setup,
	.exit = teardown,
	.test_cases = sim_cases,
};

kunit_test_suites(&error_suite, &sim_suite);
