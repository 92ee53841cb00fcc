// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * On-demand memory: the table of pages, and two QPs (sim.h) whose pages go at any
 * moment and come when somebody waits for them. Whatever happened: data right,
 * completions exactly once and in order, atomics executed once.
 */
#include <linux/mm.h>
#include <linux/sched.h>
#include <linux/vmalloc.h>
#include "sim.h"

#define RUNS	100
#define SIG	IB_SEND_SIGNALED

static int setup(struct kunit *test)
{
	struct sim *sim = sim_create(test);

	if (!sim)
		return -ENOMEM;
	sim_on_demand(sim);
	test->priv = sim;
	return 0;
}

static void teardown(struct kunit *test)
{
	if (test->priv)
		sim_destroy(test->priv);
}

static u32 below(struct sim *sim, u32 n)
{
	return prandom_u32_state(&sim->rnd) % n;
}

/* --- the table --- */

static int set(struct roe_odp *odp, unsigned long index, struct page *page, bool write)
{
	int err;

	xa_lock_bh(&odp->pages);
	err = roe_odp_set(odp, index, page, write);
	xa_unlock_bh(&odp->pages);
	return err;
}

static unsigned int take(struct roe_odp *odp, unsigned long first, unsigned long last,
			 unsigned int *nwritten)
{
	struct page *written[ROE_ODP_BATCH];
	unsigned int n, i;

	xa_lock_bh(&odp->pages);
	n = roe_odp_take(odp, first, last, written, nwritten);
	xa_unlock_bh(&odp->pages);
	for (i = 0; i < *nwritten; i++)
		put_page(written[i]);
	return n;
}

static void odp_table(struct kunit *test)
{
	struct page *page = alloc_page(GFP_KERNEL), *other = alloc_page(GFP_KERNEL);
	const u64 addr = 0x7fff00003000ull;
	const unsigned long index = addr >> PAGE_SHIFT;
	struct roe_odp odp = { 0 };
	unsigned int nwritten, i;

	KUNIT_ASSERT_TRUE(test, page && other);
	roe_odp_init(&odp);
	KUNIT_EXPECT_NULL(test, roe_odp_find(&odp, addr, false));
	KUNIT_EXPECT_EQ(test, roe_odp_missing(&odp, addr + 1, 8, false), addr + 1);
	KUNIT_EXPECT_EQ(test, set(&odp, index, page, false), 0);
	KUNIT_EXPECT_PTR_EQ(test, roe_odp_find(&odp, addr + 5, false), page_address(page) + 5);
	KUNIT_EXPECT_NULL(test, roe_odp_find(&odp, addr, true));
	KUNIT_EXPECT_EQ(test, roe_odp_missing(&odp, addr + 1, 8, true), addr + 1);
	/* to be written to as well, and it stays so */
	KUNIT_EXPECT_EQ(test, set(&odp, index, page, true), 0);
	KUNIT_EXPECT_EQ(test, set(&odp, index, page, false), 0);
	KUNIT_EXPECT_PTR_EQ(test, roe_odp_find(&odp, addr, true), page_address(page));
	/* the next page is what is missing of a range over both */
	KUNIT_EXPECT_EQ(test, roe_odp_missing(&odp, addr + 1, PAGE_SIZE - 1, true),
			addr + PAGE_SIZE);
	KUNIT_EXPECT_EQ(test, roe_odp_missing(&odp, addr + 1, PAGE_SIZE, true),
			addr + PAGE_SIZE);
	KUNIT_EXPECT_EQ(test, set(&odp, index + 1, other, false), 0);
	KUNIT_EXPECT_EQ(test, roe_odp_missing(&odp, addr + 1, PAGE_SIZE, false),
			addr + 1 + PAGE_SIZE);
	/* neighbours stay, only what was written to is reported */
	KUNIT_EXPECT_EQ(test, take(&odp, index + 1, index + 1, &nwritten), 1);
	KUNIT_EXPECT_EQ(test, nwritten, 0);
	KUNIT_EXPECT_EQ(test, take(&odp, index + 1, ULONG_MAX, &nwritten), 0);
	KUNIT_EXPECT_NOT_NULL(test, roe_odp_find(&odp, addr, true));
	KUNIT_EXPECT_EQ(test, take(&odp, 0, ULONG_MAX, &nwritten), 1);
	KUNIT_EXPECT_EQ(test, nwritten, 1);
	KUNIT_EXPECT_NULL(test, roe_odp_find(&odp, addr, false));
	/* in batches */
	for (i = 0; i < ROE_ODP_BATCH + 1; i++)
		KUNIT_EXPECT_EQ(test, set(&odp, index + i, page, i & 1), 0);
	KUNIT_EXPECT_EQ(test, take(&odp, 0, ULONG_MAX, &nwritten), ROE_ODP_BATCH);
	KUNIT_EXPECT_EQ(test, nwritten, ROE_ODP_BATCH / 2);
	KUNIT_EXPECT_EQ(test, take(&odp, 0, ULONG_MAX, &nwritten), 1);
	KUNIT_EXPECT_EQ(test, page_ref_count(page), 1);
	xa_destroy(&odp.pages);
	put_page(page);
	put_page(other);
}

/* --- traffic --- */

static const char *run(struct sim *sim, u64 seed)
{
	static const u8 ops[] = {
		IB_WR_SEND, IB_WR_SEND_WITH_IMM, IB_WR_RDMA_WRITE, IB_WR_RDMA_WRITE_WITH_IMM,
		IB_WR_RDMA_READ, IB_WR_RDMA_READ, IB_WR_ATOMIC_FETCH_AND_ADD,
		IB_WR_ATOMIC_CMP_AND_SWP, IB_WR_ATOMIC_WRITE, IB_WR_FLUSH,
	};
	unsigned int i, n;

	prandom_seed_state(&sim->rnd, seed);
	sim_reset(sim, ROE_PSN_MASK - below(sim, 50), below(sim, 1 << 24));
	sim->evict = 1 + below(sim, 40);
	sim->loss = below(sim, 2) ? 0 : below(sim, 15);
	sim->delay = below(sim, 2) ? 0 : below(sim, 20);
	sim->direct = below(sim, 2) ? 0 : below(sim, 101);
	sim->lazy = below(sim, 2);
	sim->page_errs = below(sim, 10);
	sim->page_err = sim->page_errs ? -EAGAIN : 0;
	for (i = 0; i < 2; i++) {
		for (n = 0; n < 24; n++)
			sim_recv(sim, i, sim->slot);
		for (n = 1 + below(sim, 24); n; n--)
			sim_post(sim, i, ops[below(sim, ARRAY_SIZE(ops))],
				 below(sim, sim->slot - 1), below(sim, 2) ? SIG : 0);
	}
	return sim_run(sim) ? sim_check(sim) : "never quiet";
}

static void odp_random(struct kunit *test)
{
	unsigned int i;

	for (i = 0; i < RUNS; i++, cond_resched()) {
		const char *wrong = run(test->priv, i);

		if (wrong) {
			KUNIT_FAIL(test, "seed %u: %s", i, wrong);
			return;
		}
	}
}

static enum ib_wc_status status_of(struct roe_cq *cq)
{
	struct ib_wc wc;

	return roe_cq_poll(&cq->ib, 1, &wc) ? wc.status : 99;
}

/* A page that cannot be had: who needed it is told, and nobody waits for ever. */
static void odp_refused(struct kunit *test)
{
	static const struct {
		u8 op;
		bool local;	/* the page of the requester */
		u8 status, rstatus;
	} rows[] = {
		{ IB_WR_SEND, true, IB_WC_LOC_PROT_ERR, 99 },
		{ IB_WR_RDMA_WRITE, true, IB_WC_LOC_PROT_ERR, 99 },
		{ IB_WR_RDMA_READ, true, IB_WC_LOC_PROT_ERR, 99 },
		{ IB_WR_ATOMIC_FETCH_AND_ADD, true, IB_WC_LOC_PROT_ERR, 99 },
		{ IB_WR_SEND, false, IB_WC_REM_OP_ERR, IB_WC_LOC_PROT_ERR },
		{ IB_WR_RDMA_WRITE, false, IB_WC_REM_ACCESS_ERR, IB_WC_WR_FLUSH_ERR },
		{ IB_WR_RDMA_READ, false, IB_WC_REM_ACCESS_ERR, IB_WC_WR_FLUSH_ERR },
		{ IB_WR_ATOMIC_FETCH_AND_ADD, false, IB_WC_REM_ACCESS_ERR, IB_WC_WR_FLUSH_ERR },
	};
	struct sim *sim = test->priv;
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(rows); i++) {
		struct sim_side *pinned = &sim->side[rows[i].local];

		sim_reset(sim, 5, 6);
		sim->page_err = -EFAULT;
		pinned->mr.odp = NULL;
		pinned->mr.type = ROE_MR_USER;
		pinned->mr.base = 0;
		sim_recv(sim, 1, 600);
		sim_post(sim, 0, rows[i].op, 600, SIG);
		KUNIT_EXPECT_TRUE(test, sim_run(sim));
		KUNIT_EXPECT_EQ_MSG(test, (int)status_of(&sim->side[0].scq), (int)rows[i].status,
				    "row %u", i);
		KUNIT_EXPECT_EQ_MSG(test, (int)status_of(&sim->side[1].rcq), (int)rows[i].rstatus,
				    "row %u", i);
		pinned->mr.odp = &pinned->odp;
		pinned->mr.type = ROE_MR_ODP;
		pinned->mr.base = pinned->mr.iova;
	}
}

/* A worker that found no time to look: the peer asks again, and waits longer each time. */
static void odp_rnr(struct kunit *test)
{
	struct sim *sim = test->priv;
	struct roe_qp *qp = sim->side[0].qp, *peer = sim->side[1].qp;
	unsigned int i;
	u64 start;

	sim_reset(sim, 5, 6);
	sim_post(sim, 0, IB_WR_ATOMIC_FETCH_AND_ADD, 8, SIG);
	sim_emit(sim, 0);
	KUNIT_ASSERT_TRUE(test, qp->req.fault.waiting);
	KUNIT_EXPECT_EQ(test, sim->sent[0], 0);
	sim->evict = 0;
	for (i = 0; i < 7; i++) {
		static const u8 codes[] = { 16, 20, 24, 28, 28, 28 };
		struct sim_pkt *pkt;

		if (!i) {
			/* only the requester gets its page */
			peer->resp.fault.waiting = true;
			qp->req.fault.waiting = false;
			sim->side[0].mr.odp = NULL;
			sim->side[0].mr.type = ROE_MR_USER;
			sim->side[0].mr.base = 0;
		}
		sim_emit(sim, 0);
		pkt = sim_take(sim);
		KUNIT_ASSERT_NOT_NULL(test, pkt);
		if (i == ARRAY_SIZE(codes)) {
			sim_put(sim, pkt);
			break;
		}
		sim_receive(sim, 1, &pkt->rx);
		sim_put(sim, pkt);
		sim_emit(sim, 1);
		pkt = sim_take(sim);
		KUNIT_ASSERT_NOT_NULL(test, pkt);
		KUNIT_EXPECT_EQ(test, pkt->rx.p.syndrome, ROE_AETH_RNR_NAK | codes[i]);
		sim_receive(sim, 0, &pkt->rx);
		sim_put(sim, pkt);
		start = roe_timer_next(qp);
		KUNIT_EXPECT_EQ(test, start, sim->now + roe_timer_rnr_ns(codes[i]));
		sim->now = start;
		sim_timer(sim, 0);
	}
	KUNIT_EXPECT_EQ(test, qp->req.retry_cnt, 7);
	/* for the other tests */
	sim->side[0].mr.odp = &sim->side[0].odp;
}

static struct page *page_of(const void *addr)
{
	return is_vmalloc_addr(addr) ? vmalloc_to_page(addr) : virt_to_page(addr);
}

/* A page that side 0 sends from is there, and who waits for it goes on. */
static void bring(struct sim *sim, unsigned int nr)
{
	struct sim_side *side = &sim->side[0];
	const u8 *addr = side->src + nr * PAGE_SIZE;
	struct roe_ctx ctx = { .now = sim->now };

	set(&side->odp, (uintptr_t)addr >> PAGE_SHIFT, page_of(addr), true);
	roe_fault_done(side->qp, &ctx, &side->qp->req.fault, 0);
}

/* Everything but the worker that brings pages. */
static void run_without_pages(struct sim *sim, u64 until)
{
	struct roe_qp *qp = sim->side[0].qp;
	struct sim_pkt *pkt;

	while (qp->state == IB_QPS_RTS) {
		sim_emit(sim, 0);
		while ((pkt = sim_take(sim))) {
			sim->now = max(sim->now, pkt->at);
			sim_receive(sim, pkt->to, &pkt->rx);
			sim_emit(sim, pkt->to);
			sim_put(sim, pkt);
		}
		if (!roe_timer_next(qp) || roe_timer_next(qp) > until)
			return;
		sim->now = max(sim->now, roe_timer_next(qp));
		sim_timer(sim, 0);
	}
}

static void set_pinned(struct sim_side *side, bool pinned)
{
	side->mr.odp = pinned ? NULL : &side->odp;
	side->mr.type = pinned ? ROE_MR_USER : ROE_MR_ODP;
	side->mr.base = pinned ? 0 : side->mr.iova;
}

static void page_out(struct sim_side *side)
{
	unsigned int n;

	while (take(&side->odp, 0, ULONG_MAX, &n) == ROE_ODP_BATCH)
		;
}

/* The last packet of a page and the first of the next. */
static void send_over_edge(struct sim *sim)
{
	struct sim_side *side = &sim->side[0];
	struct ib_sge sge = {
		(uintptr_t)side->src + PAGE_SIZE - SIM_MTU, 2 * SIM_MTU, side->mr.key,
	};
	const struct ib_send_wr wr = {
		.opcode = IB_WR_SEND, .send_flags = SIG, .sg_list = &sge, .num_sge = 1,
	};

	sim_post_raw(sim, 0, &wr);
}

/*
 * A message of two pages, the second of which does not come for long. Nobody is to blame
 * for that: the peer has the packet of the first one, but answers only what it is asked,
 * and where that cannot be sent again it cannot answer at all.
 */
static void odp_never(struct kunit *test)
{
	struct sim *sim = test->priv;
	struct sim_side *side = &sim->side[0];
	unsigned int i, n;

	set_pinned(&sim->side[1], true);
	for (i = 0; i < 3; i++) {
		sim_reset(sim, 5, 6);
		sim->slot = SIM_REGION;
		side->qp->timeout_ns = roe_timer_ack_ns(14);
		side->qp->attr.retry_cnt = 1;
		side->qp->req.retry_cnt = 1;
		take(&side->odp, 0, ULONG_MAX, &n);
		sim_recv(sim, 1, 2 * SIM_MTU);
		send_over_edge(sim);
		sim_emit(sim, 0);
		KUNIT_ASSERT_TRUE(test, side->qp->req.fault.waiting);
		bring(sim, 0);
		/* it arrives, it is lost, it is lost and the page goes again */
		sim->loss = i ? 100 : 0;
		sim_emit(sim, 0);
		sim->loss = 0;
		KUNIT_ASSERT_EQ(test, sim->sent[0], 1);
		KUNIT_ASSERT_TRUE(test, side->qp->req.fault.waiting);
		if (i == 2)
			take(&side->odp, 0, ULONG_MAX, &n);
		run_without_pages(sim, sim->now + 10 * ROE_ACK_TOLERANCE * side->qp->timeout_ns);
		KUNIT_EXPECT_EQ_MSG(test, side->qp->state, IB_QPS_RTS, "row %u", i);
		bring(sim, 0);
		bring(sim, 1);
		KUNIT_EXPECT_TRUE(test, sim_run(sim));
		KUNIT_EXPECT_EQ(test, (int)status_of(&side->scq), (int)IB_WC_SUCCESS);
	}
	set_pinned(&sim->side[1], false);
}

/*
 * The page that a READ asks for does not come for long: as with SENDs and WRITEs it is the RNR NAK
 * that tells the peer, whose clock would end it.
 */
static void odp_read_never(struct kunit *test)
{
	struct sim *sim = test->priv;
	struct roe_qp *qp;
	unsigned int n;
	u64 until;

	set_pinned(&sim->side[0], true);
	sim_reset(sim, 5, 6);
	sim->slot = SIM_REGION;
	qp = sim->side[0].qp;
	qp->timeout_ns = roe_timer_ack_ns(14);
	qp->attr.retry_cnt = 1;
	qp->req.retry_cnt = 1;
	qp->attr.rnr_retry = 7;
	qp->req.rnr_retry = 7;
	sim->side[1].qp->timeout_ns = qp->timeout_ns;
	sim->side[1].qp->attr.rnr_retry = 7;
	take(&sim->side[1].odp, 0, ULONG_MAX, &n);
	sim_post(sim, 0, IB_WR_RDMA_READ, 2 * SIM_MTU, SIG);
	until = sim->now + 20 * ROE_ACK_TOLERANCE * qp->timeout_ns;
	run_without_pages(sim, until);
	KUNIT_EXPECT_GT(test, sim->now + 4 * roe_timer_ack_ns(14), until);
	KUNIT_EXPECT_EQ(test, qp->state, IB_QPS_RTS);
	KUNIT_EXPECT_TRUE(test, sim->side[1].qp->resp.read_fault.waiting);
	KUNIT_EXPECT_TRUE(test, sim_run(sim));
	KUNIT_EXPECT_PTR_EQ(test, sim_check(sim), (const char *)NULL);
	set_pinned(&sim->side[0], false);
}

/* No memory for a page: who waits for it asks less and less often, and gets it in the end. */
static void odp_starved(struct kunit *test)
{
	static const struct {
		u8 op;
		bool local;	/* the page of the requester */
	} rows[] = {
		{ IB_WR_SEND, true },
		{ IB_WR_RDMA_WRITE, true },
		{ IB_WR_RDMA_READ, true },
		{ IB_WR_ATOMIC_FETCH_AND_ADD, true },
		{ IB_WR_RDMA_READ, false },
	};
	const unsigned int errs = 6;
	struct sim *sim = test->priv;
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(rows); i++) {
		struct sim_side *pinned = &sim->side[rows[i].local];
		struct sim_side *paged = &sim->side[!rows[i].local];
		u64 start;

		sim_reset(sim, 5, 6);
		start = sim->now;
		sim->page_err = -ENOMEM;
		sim->page_errs = errs;
		set_pinned(pinned, true);
		page_out(paged);
		sim_recv(sim, 1, 600);
		sim_post(sim, 0, rows[i].op, 600, SIG);
		KUNIT_EXPECT_TRUE_MSG(test, sim_run(sim), "row %u", i);
		KUNIT_EXPECT_EQ_MSG(test, (int)status_of(&sim->side[0].scq),
				    (int)IB_WC_SUCCESS, "row %u", i);
		KUNIT_EXPECT_EQ_MSG(test, sim->page_err, 0, "row %u", i);
		KUNIT_EXPECT_GE_MSG(test, sim->now - start,
				    (BIT(errs) - 1) * ROE_LOCAL_DROP_NS, "row %u", i);
		/* memory came: the next time is the first one */
		KUNIT_EXPECT_EQ_MSG(test, paged->qp->req.fault.shorts, 0, "row %u", i);
		KUNIT_EXPECT_EQ_MSG(test, paged->qp->resp.read_fault.shorts, 0, "row %u", i);
		set_pinned(pinned, false);
	}
}

/* A QP that stops waits for memory no longer. */
static void odp_starved_error(struct kunit *test)
{
	struct sim *sim = test->priv;
	struct roe_qp *qp = sim->side[0].qp;
	struct roe_ctx ctx = { };

	sim_reset(sim, 5, 6);
	page_out(&sim->side[0]);
	sim_post(sim, 0, IB_WR_SEND, 600, SIG);
	sim_emit(sim, 0);
	KUNIT_ASSERT_TRUE(test, qp->req.fault.waiting);
	ctx.now = sim->now;
	roe_fault_done(qp, &ctx, &qp->req.fault, -EAGAIN);
	KUNIT_EXPECT_TRUE(test, qp->req.fault.waiting);
	KUNIT_EXPECT_EQ(test, roe_timer_next(qp), sim->now + ROE_LOCAL_DROP_NS);
	roe_complete_error(qp, &ctx);
	KUNIT_EXPECT_FALSE(test, qp->req.fault.waiting);
	KUNIT_EXPECT_EQ(test, roe_timer_next(qp), 0);
}

/* A page of a READ does not come: requests, which go another way, do not wait for it. */
static void odp_other_way(struct kunit *test)
{
	struct sim *sim = test->priv;
	struct sim_side *side = &sim->side[0];
	struct ib_sge sge = { (uintptr_t)side->src, 10, 0 };
	const struct ib_send_wr wr = {
		.opcode = IB_WR_SEND, .send_flags = IB_SEND_INLINE, .sg_list = &sge, .num_sge = 1,
	};
	struct sim_pkt *pkt;

	sim_reset(sim, 5, 6);
	set_pinned(&sim->side[1], true);
	page_out(side);
	sim_post(sim, 1, IB_WR_RDMA_READ, 600, SIG);
	sim_emit(sim, 1);
	pkt = sim_take(sim);
	KUNIT_ASSERT_NOT_NULL(test, pkt);
	sim_receive(sim, 0, &pkt->rx);
	sim_put(sim, pkt);
	sim_emit(sim, 0);
	KUNIT_ASSERT_TRUE(test, side->qp->resp.read_fault.waiting);
	sim->direct = 100;
	sim_recv(sim, 1, 10);
	sim_post_raw(sim, 0, &wr);
	do
		sim_emit(sim, 0);
	while (!side->idle);
	KUNIT_EXPECT_EQ(test, sim->sent[0], 1);
	KUNIT_EXPECT_EQ(test, (int)status_of(&sim->side[1].rcq), (int)IB_WC_SUCCESS);
	KUNIT_EXPECT_TRUE(test, side->qp->resp.read_fault.waiting);
	KUNIT_EXPECT_TRUE(test, sim_run(sim));
	KUNIT_EXPECT_EQ(test, (int)status_of(&sim->side[1].scq), (int)IB_WC_SUCCESS);
	set_pinned(&sim->side[1], false);
}

/* One access that finds its page missing, on the first row of @op. */
static void expect_asked(struct sim *sim, const struct roe_fault *fault, u8 op, unsigned int row)
{
	sim_recv(sim, 1, 600);
	sim_post(sim, 0, op, 600, SIG);
	run_without_pages(sim, sim->now);
	KUNIT_EXPECT_TRUE_MSG(sim->test, fault->waiting, "row %u", row);
}

static void expect_success(struct sim *sim, unsigned int row)
{
	KUNIT_EXPECT_TRUE_MSG(sim->test, sim_run(sim), "row %u", row);
	KUNIT_EXPECT_EQ_MSG(sim->test, (int)status_of(&sim->side[0].scq), (int)IB_WC_SUCCESS,
			    "row %u", row);
}

/* A page that could not be had is used, for somebody else brought it: it may be asked for. */
static void odp_brought_by_others(struct kunit *test)
{
	static const struct {
		u8 op;
		bool local;	/* the page of the requester */
	} rows[] = {
		{ IB_WR_SEND, true },
		{ IB_WR_RDMA_WRITE, true },
		{ IB_WR_RDMA_READ, true },
		{ IB_WR_ATOMIC_FETCH_AND_ADD, true },
		{ IB_WR_SEND, false },
		{ IB_WR_RDMA_WRITE, false },
		{ IB_WR_RDMA_READ, false },
		{ IB_WR_ATOMIC_FETCH_AND_ADD, false },
	};
	struct sim *sim = test->priv;
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(rows); i++) {
		struct sim_side *paged = &sim->side[!rows[i].local];
		struct roe_fault *fault = rows[i].local ? &paged->qp->req.fault :
					  rows[i].op == IB_WR_RDMA_READ ?
					  &paged->qp->resp.read_fault : &paged->qp->resp.fault;
		struct roe_ctx ctx;

		sim_reset(sim, 5, 6);
		/* all messages in one page */
		sim->slot = 1000;
		set_pinned(&sim->side[rows[i].local], true);
		page_out(paged);
		expect_asked(sim, fault, rows[i].op, i);
		set(&paged->odp, fault->page, page_of((void *)(fault->page << PAGE_SHIFT)), true);
		ctx = (struct roe_ctx){ .now = sim->now };
		roe_fault_done(paged->qp, &ctx, fault, -EFAULT);
		expect_success(sim, i);
		page_out(paged);
		expect_asked(sim, fault, rows[i].op, i);
		expect_success(sim, i);
		set_pinned(&sim->side[rows[i].local], false);
	}
}

/* The page that a READ asks for does not come: a SEND gets the one that it is for. */
static void odp_read_apart(struct kunit *test)
{
	struct sim *sim = test->priv;
	struct sim_side *side = &sim->side[1];
	struct roe_fault *fault = &side->qp->resp.fault;
	struct roe_ctx ctx;
	unsigned int i;

	sim_reset(sim, 5, 6);
	/* a message in one page */
	sim->slot = 1000;
	set_pinned(&sim->side[0], true);
	page_out(side);
	sim_post(sim, 0, IB_WR_RDMA_READ, 600, SIG);
	run_without_pages(sim, sim->now);
	KUNIT_ASSERT_TRUE(test, side->qp->resp.read_fault.waiting);
	KUNIT_ASSERT_FALSE(test, fault->waiting);
	expect_asked(sim, fault, IB_WR_SEND, 0);
	KUNIT_ASSERT_NE(test, fault->page, side->qp->resp.read_fault.page);
	set(&side->odp, fault->page, page_of((void *)(fault->page << PAGE_SHIFT)), true);
	ctx = (struct roe_ctx){ .now = sim->now };
	roe_fault_done(side->qp, &ctx, fault, 0);
	run_without_pages(sim, sim->now + 200 * NSEC_PER_MSEC);
	KUNIT_EXPECT_EQ(test, (int)status_of(&side->rcq), (int)IB_WC_SUCCESS);
	KUNIT_EXPECT_TRUE(test, side->qp->resp.read_fault.waiting);
	KUNIT_EXPECT_TRUE(test, sim_run(sim));
	for (i = 0; i < 2; i++)
		KUNIT_EXPECT_EQ(test, (int)status_of(&sim->side[0].scq), (int)IB_WC_SUCCESS);
	set_pinned(&sim->side[0], false);
}

/* A page that could not be had, but the peer comes back for it much later: asked for anew. */
static void odp_refused_long_ago(struct kunit *test)
{
	struct sim *sim = test->priv;
	struct roe_qp *qp = sim->side[1].qp;
	struct roe_ctx ctx;
	struct sim_pkt *pkt;
	unsigned int i;

	for (i = 0; i < 2; i++) {
		sim_reset(sim, 5, 6);
		set_pinned(&sim->side[0], true);
		page_out(&sim->side[1]);
		sim_post(sim, 0, IB_WR_RDMA_WRITE, 10, SIG);
		sim_emit(sim, 0);
		pkt = sim_take(sim);
		KUNIT_ASSERT_NOT_NULL(test, pkt);
		sim_receive(sim, 1, &pkt->rx);
		sim_emit(sim, 1);
		KUNIT_ASSERT_TRUE(test, qp->resp.fault.waiting);
		ctx = (struct roe_ctx){ .now = sim->now };
		roe_fault_done(qp, &ctx, &qp->resp.fault, -EFAULT);
		/* after the longest RNR NAK of a page; much later */
		sim->now += i ? 2 * NSEC_PER_SEC : roe_timer_rnr_ns(28);
		sim_receive(sim, 1, &pkt->rx);
		sim_put(sim, pkt);
		sim_emit(sim, 1);
		KUNIT_EXPECT_EQ(test, qp->state, i ? IB_QPS_RTS : IB_QPS_ERR);
		KUNIT_EXPECT_EQ(test, qp->resp.fault.waiting, i);
		set_pinned(&sim->side[0], false);
	}
}

static struct kunit_case cases[] = {
	KUNIT_CASE(odp_table),
	KUNIT_CASE(odp_random),
	KUNIT_CASE(odp_refused),
	KUNIT_CASE(odp_rnr),
	KUNIT_CASE(odp_never),
	KUNIT_CASE(odp_read_never),
	KUNIT_CASE(odp_starved),
	KUNIT_CASE(odp_starved_error),
	KUNIT_CASE(odp_other_way),
	KUNIT_CASE(odp_brought_by_others),
	KUNIT_CASE(odp_read_apart),
	KUNIT_CASE(odp_refused_long_ago),
	{}
};

static struct kunit_suite suite = {
	.name = "roe_odp",
	.init = setup,
	.exit = teardown,
	.test_cases = cases,
};

kunit_test_suites(&suite);
