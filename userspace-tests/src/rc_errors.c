// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * rc_errors - each RC error class provoked, its completions and states asserted.
 *
 * usage: rc_errors [-d DEV] [-D DEV2] [-g GID] [-G GID2]
 *
 * Every case makes a fresh pair of QPs, does one forbidden thing, and looks at
 * the completion status at the requester, at the responder, at both QP states
 * and at the asynchronous event, as IBTA wants them.
 *
 * With RT_TAME in the environment the opcodes that crash rdma_rxe are skipped.
 *
 * Output: TAP. Exit code: 0 all ok, 1 a check failed, 2 could not run.
 */
#include "rt.h"

#define BUF_LEN		65536

static struct rt_buf abuf, bbuf;
static int events_wanted, events_seen;

static void pair(struct rt_pair *p, const struct rt_opt *opt)
{
	rt_drain_events(rt_dev_a());
	rt_drain_events(rt_dev_b());
	rt_pair_create(p, rt_dev_a(), rt_dev_b(), opt ? opt : &rt_defaults);
}

static struct ibv_sge sge_of(struct rt_buf *b, size_t off, size_t len)
{
	return (struct ibv_sge) {
		.addr = (uintptr_t)b->p + off,
		.length = len,
		.lkey = b->mr->lkey,
	};
}

static struct ibv_send_wr rdma_wr(enum ibv_wr_opcode op, struct ibv_sge *sge,
				  uint64_t raddr, uint32_t rkey)
{
	struct ibv_send_wr wr = rt_wr(1, op, IBV_SEND_SIGNALED, sge, 1);

	if (op == IBV_WR_ATOMIC_CMP_AND_SWP ||
	    op == IBV_WR_ATOMIC_FETCH_AND_ADD) {
		wr.wr.atomic.remote_addr = raddr;
		wr.wr.atomic.rkey = rkey;
	} else {
		wr.wr.rdma.remote_addr = raddr;
		wr.wr.rdma.rkey = rkey;
	}
	return wr;
}

/* The request fails with @status; both QPs end in ERR; the event is counted. */
static bool fails(struct rt_pair *p, struct ibv_send_wr *wr,
		  enum ibv_wc_status status, int event)
{
	bool ok = RT_EQ(rt_post(&p->a, wr), 0) &&
		  rt_expect(p->a.scq, wr->wr_id, status, NULL) &&
		  rt_wait_state(&p->a, IBV_QPS_ERR) &&
		  rt_wait_state(&p->b, IBV_QPS_ERR);

	if (ok && event >= 0) {
		events_wanted++;
		events_seen += rt_expect_event(p->b.dev, event, p->b.qp, 0);
	}
	return ok;
}

static const struct {
	enum ibv_wr_opcode op;
	const char *name;
} rdma_ops[] = {
	{ IBV_WR_RDMA_WRITE, "WRITE" },
	{ IBV_WR_RDMA_READ, "READ" },
	{ IBV_WR_ATOMIC_FETCH_AND_ADD, "FETCH_ADD" },
	{ IBV_WR_ATOMIC_CMP_AND_SWP, "CMP_SWP" },
};

/* A remote key that is wrong, in each way a key can be wrong. */
static void test_rkeys(unsigned int i)
{
	struct ibv_pd *pd = ibv_alloc_pd(rt_dev_b()->ctx);
	struct ibv_mr *other = ibv_reg_mr(pd, bbuf.p, BUF_LEN, RT_ACCESS_ALL);
	struct rt_buf ro = rt_buf(rt_dev_b(), 4096, IBV_ACCESS_LOCAL_WRITE);
	struct rt_buf gone = rt_buf(rt_dev_b(), 4096, RT_ACCESS_ALL);
	uint32_t gone_key = gone.mr->rkey, key = bbuf.mr->rkey;
	uintptr_t p0 = (uintptr_t)bbuf.p;
	const struct {
		const char *name;
		uint64_t addr;
		uint32_t rkey;
	} cases[] = {
		{ "wrong key byte", p0, key ^ 0x01 },
		{ "wrong index", p0, key ^ 0x5a5a00 },
		{ "key zero", p0, 0 },
		{ "start before the region", p0 - 8, key },
		{ "end behind the region", p0 + BUF_LEN - 4, key },
		{ "address wraps", ~7ull, key },
		{ "region of another PD", p0, other->rkey },
		{ "region without remote access", (uintptr_t)ro.p, ro.mr->rkey },
		{ "deregistered region", (uintptr_t)gone.p, gone_key },
	};
	bool ok = true;
	int c;

	rt_buf_free(&gone);
	for (c = 0; c < ARRAY_SIZE(cases); c++) {
		struct ibv_sge sge = sge_of(&abuf, 0, 8);
		struct ibv_send_wr wr;
		struct rt_pair p;
		uint64_t addr = cases[c].addr;

		/* Keep atomics aligned: this is about the key. */
		if (rdma_ops[i].op >= IBV_WR_ATOMIC_CMP_AND_SWP &&
		    addr == p0 + BUF_LEN - 4)
			addr += 4;
		memset(bbuf.p, 0x11, BUF_LEN);
		memset(ro.p, 0x11, 4096);
		memset(abuf.p, 0x22, 64);
		pair(&p, NULL);
		wr = rdma_wr(rdma_ops[i].op, &sge, addr, cases[c].rkey);
		if (!fails(&p, &wr, IBV_WC_REM_ACCESS_ERR,
			   IBV_EVENT_QP_ACCESS_ERR) ||
		    !RT_EQ(bbuf.p[0], 0x11) || !RT_EQ(ro.p[0], 0x11) ||
		    !RT_EQ(bbuf.p[BUF_LEN - 1], 0x11) ||
		    !RT_EQ(abuf.p[0], 0x22)) {
			rt_diag("case: %s", cases[c].name);
			ok = false;
		}
		rt_pair_destroy(&p);
	}
	rt_ok(ok, "%s, bad rkey, range, PD or right: REM_ACCESS_ERR, both in ERR, nothing written",
	      rdma_ops[i].name);
	rt_buf_free(&ro);
	ibv_dereg_mr(other);
	ibv_dealloc_pd(pd);
}

/* A multi-packet WRITE whose tail leaves the region. */
static void test_long_overrun(void)
{
	struct ibv_sge sge = sge_of(&abuf, 0, BUF_LEN);
	struct ibv_send_wr wr;
	struct rt_pair p;

	pair(&p, NULL);
	wr = rdma_wr(IBV_WR_RDMA_WRITE, &sge, (uintptr_t)bbuf.p + 1,
		     bbuf.mr->rkey);
	rt_ok(fails(&p, &wr, IBV_WC_REM_ACCESS_ERR, IBV_EVENT_QP_ACCESS_ERR),
	      "64 KiB WRITE that ends one byte behind the region");
	rt_pair_destroy(&p);
	pair(&p, NULL);
	wr = rdma_wr(IBV_WR_RDMA_READ, &sge, (uintptr_t)bbuf.p + 1,
		     bbuf.mr->rkey);
	rt_ok(fails(&p, &wr, IBV_WC_REM_ACCESS_ERR, IBV_EVENT_QP_ACCESS_ERR),
	      "64 KiB READ that ends one byte behind the region");
	rt_pair_destroy(&p);
}

/*
 * A refused WRITE with immediate is told by its receive, if it has taken one, as its last packet
 * does; one that was refused before is as good as ever, and flushed.
 */
static void test_write_imm(void)
{
	static const size_t lens[] = { 8, BUF_LEN };
	struct ibv_send_wr wr;
	struct ibv_sge sge;
	struct rt_pair p;
	int i;

	for (i = 0; i < ARRAY_SIZE(lens); i++) {
		pair(&p, NULL);
		sge = sge_of(&abuf, 0, lens[i]);
		wr = rdma_wr(IBV_WR_RDMA_WRITE_WITH_IMM, &sge, (uintptr_t)bbuf.p,
			     bbuf.mr->rkey ^ 1);
		rt_post_recv(&p.b, 2, &bbuf, 0, 64);
		rt_ok(fails(&p, &wr, IBV_WC_REM_ACCESS_ERR, i ? IBV_EVENT_QP_ACCESS_ERR : -1) &&
		      rt_expect(p.b.rcq, 2, i ? IBV_WC_WR_FLUSH_ERR : IBV_WC_LOC_ACCESS_ERR, NULL),
		      "WRITE_IMM of %zu bytes with a bad rkey: the receive %s", lens[i],
		      i ? "is flushed" : "has LOC_ACCESS_ERR");
		rt_pair_destroy(&p);
	}
}

/* The right is missing in the responder's QP, not in the region. */
static void test_qp_access(void)
{
	static const int access[] = {
		IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC,
		IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC,
		IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ,
		IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ,
	};
	struct rt_opt opt = rt_defaults;
	struct ibv_send_wr wr;
	struct ibv_sge sge;
	struct rt_pair p;
	int i;

	for (i = 0; i < ARRAY_SIZE(rdma_ops); i++) {
		opt.access = access[i];
		pair(&p, &opt);
		sge = sge_of(&abuf, 0, 8);
		wr = rdma_wr(rdma_ops[i].op, &sge, (uintptr_t)bbuf.p,
			     bbuf.mr->rkey);
		rt_ok(fails(&p, &wr, IBV_WC_REM_INV_REQ_ERR, IBV_EVENT_QP_REQ_ERR),
		      "%s not enabled in the responder's QP: REM_INV_REQ_ERR",
		      rdma_ops[i].name);
		rt_pair_destroy(&p);
	}

	/* Zero-length READ and WRITE need no key, but the right all the same. */
	opt.access = IBV_ACCESS_REMOTE_READ;
	pair(&p, &opt);
	sge = sge_of(&abuf, 0, 0);
	wr = rdma_wr(IBV_WR_RDMA_READ, &sge, 0xdead, 0xbeef);
	rt_ok(RT_EQ(rt_post(&p.a, &wr), 0) &&
	      rt_expect(p.a.scq, 1, IBV_WC_SUCCESS, NULL),
	      "zero-length READ looks at neither key nor address");
	wr = rdma_wr(IBV_WR_RDMA_WRITE, &sge, 0xdead, 0xbeef);
	rt_ok(fails(&p, &wr, IBV_WC_REM_INV_REQ_ERR, IBV_EVENT_QP_REQ_ERR),
	      "zero-length WRITE not enabled in the QP: REM_INV_REQ_ERR");
	rt_pair_destroy(&p);

	opt = rt_defaults;
	opt.dest_rd_atomic = 0;
	pair(&p, &opt);
	sge = sge_of(&abuf, 0, 8);
	wr = rdma_wr(IBV_WR_RDMA_READ, &sge, (uintptr_t)bbuf.p, bbuf.mr->rkey);
	rt_ok(fails(&p, &wr, IBV_WC_REM_INV_REQ_ERR, IBV_EVENT_QP_REQ_ERR),
	      "READ at max_dest_rd_atomic 0: REM_INV_REQ_ERR");
	rt_pair_destroy(&p);

	/* the same of a requester who said that it would ask for none */
	opt.rd_atomic = 0;
	pair(&p, &opt);
	rt_ok(fails(&p, &wr, IBV_WC_REM_INV_REQ_ERR, IBV_EVENT_QP_REQ_ERR),
	      "READ at max_rd_atomic 0 and max_dest_rd_atomic 0: REM_INV_REQ_ERR");
	rt_pair_destroy(&p);
}

static void test_lkeys(void)
{
	struct rt_buf ro = rt_buf(rt_dev_a(), 4096, 0);
	struct ibv_sge sge[2];
	struct ibv_send_wr wr;
	struct rt_pair p;
	int i;
	static const char * const names[] = {
		"wrong lkey", "SGE behind the region", "second SGE wrong",
		"READ into a region without local write",
	};

	for (i = 0; i < ARRAY_SIZE(names); i++) {
		pair(&p, NULL);
		sge[0] = sge_of(&abuf, 0, 16);
		sge[1] = sge_of(&abuf, 64, 16);
		wr = rt_wr(1, IBV_WR_SEND, IBV_SEND_SIGNALED, sge, 2);
		if (i == 0)
			sge[0].lkey ^= 0x3300;
		if (i == 1)
			sge[0].addr += BUF_LEN - 8;
		if (i == 2)
			sge[1].lkey ^= 1;
		if (i == 3) {
			sge[0] = sge_of(&ro, 0, 16);
			wr = rdma_wr(IBV_WR_RDMA_READ, sge, (uintptr_t)bbuf.p,
				     bbuf.mr->rkey);
		}
		rt_post_recv(&p.b, 2, &bbuf, 0, 64);
		rt_ok(RT_EQ(rt_post(&p.a, &wr), 0) &&
		      rt_expect(p.a.scq, 1, IBV_WC_LOC_PROT_ERR, NULL) &&
		      rt_wait_state(&p.a, IBV_QPS_ERR),
		      "%s at the requester: LOC_PROT_ERR", names[i]);
		rt_pair_destroy(&p);
	}
	rt_buf_free(&ro);

	pair(&p, NULL);
	sge[0] = sge_of(&bbuf, 0, 64);
	sge[0].lkey ^= 0x4400;
	rt_ok(RT_EQ(ibv_post_recv(p.b.qp, &(struct ibv_recv_wr) {
			.wr_id = 2, .sg_list = sge, .num_sge = 1 },
			&(struct ibv_recv_wr *){ NULL }), 0) &&
	      (sge[1] = sge_of(&abuf, 0, 16), true) &&
	      (wr = rt_wr(1, IBV_WR_SEND, IBV_SEND_SIGNALED, &sge[1], 1), true) &&
	      fails(&p, &wr, IBV_WC_REM_OP_ERR, -1) &&
	      rt_expect(p.b.rcq, 2, IBV_WC_LOC_PROT_ERR, NULL),
	      "bad lkey in the receive: REM_OP_ERR there, LOC_PROT_ERR here");
	rt_pair_destroy(&p);
}

static void test_recv_too_short(void)
{
	static const size_t lens[] = { 17, 9000 };
	struct ibv_send_wr wr;
	struct ibv_sge sge;
	struct rt_pair p;
	int i;

	for (i = 0; i < ARRAY_SIZE(lens); i++) {
		pair(&p, NULL);
		memset(bbuf.p, 0x11, BUF_LEN);
		sge = sge_of(&abuf, 0, lens[i]);
		wr = rt_wr(1, IBV_WR_SEND, IBV_SEND_SIGNALED, &sge, 1);
		rt_post_recv(&p.b, 2, &bbuf, 0, lens[i] - 1);
		rt_ok(fails(&p, &wr, IBV_WC_REM_INV_REQ_ERR, -1) &&
		      rt_expect(p.b.rcq, 2, IBV_WC_LOC_LEN_ERR, NULL) &&
		      RT_EQ(bbuf.p[lens[i] - 1], 0x11),
		      "SEND of %zu bytes into %zu: REM_INV_REQ_ERR and LOC_LEN_ERR",
		      lens[i], lens[i] - 1);
		rt_pair_destroy(&p);
	}
}

static void test_rnr(void)
{
	struct rt_opt opt = rt_defaults;
	struct ibv_sge sge = sge_of(&abuf, 0, 16);
	struct ibv_send_wr wr = rt_wr(1, IBV_WR_SEND, IBV_SEND_SIGNALED, &sge, 1);
	struct ibv_wc wc;
	struct rt_pair p;
	uint64_t t;

	opt.rnr_retry = 2;
	opt.min_rnr_timer = 26;		/* 81.92 ms */
	pair(&p, &opt);
	t = rt_now_ms();
	rt_ok(RT_EQ(rt_post(&p.a, &wr), 0) &&
	      rt_expect(p.a.scq, 1, IBV_WC_RNR_RETRY_EXC_ERR, NULL) &&
	      rt_wait_state(&p.a, IBV_QPS_ERR) &&
	      RT_EQ(rt_state(&p.b), IBV_QPS_RTS),
	      "RNR retry exceeded, responder stays in RTS");
	t = rt_now_ms() - t;
	rt_ok(RT_CHECK(t >= 163), "after two waits of 82 ms (%llu ms)",
	      (unsigned long long)t);
	rt_pair_destroy(&p);

	opt.rnr_retry = 7;
	opt.min_rnr_timer = 1;
	pair(&p, &opt);
	rt_ok(RT_EQ(rt_post(&p.a, &wr), 0) &&
	      RT_CHECK(!rt_poll(p.a.scq, &wc, 300)) &&
	      RT_EQ(rt_post_recv(&p.b, 2, &bbuf, 0, 64), 0) &&
	      rt_expect(p.b.rcq, 2, IBV_WC_SUCCESS, NULL) &&
	      rt_expect(p.a.scq, 1, IBV_WC_SUCCESS, NULL),
	      "rnr_retry 7 waits for the receive as long as it takes");
	rt_pair_destroy(&p);

	/* A WRITE with immediate needs a receive as well. */
	opt.rnr_retry = 0;
	pair(&p, &opt);
	wr = rdma_wr(IBV_WR_RDMA_WRITE_WITH_IMM, &sge, (uintptr_t)bbuf.p,
		     bbuf.mr->rkey);
	rt_ok(RT_EQ(rt_post(&p.a, &wr), 0) &&
	      rt_expect(p.a.scq, 1, IBV_WC_RNR_RETRY_EXC_ERR, NULL) &&
	      rt_wait_state(&p.a, IBV_QPS_ERR) &&
	      RT_EQ(rt_state(&p.b), IBV_QPS_RTS),
	      "WRITE_IMM without a receive and rnr_retry 0");
	rt_pair_destroy(&p);
}

/* What SQD may change counts from the first message on. */
static void test_rnr_retry_changed(void)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_SQD, .rnr_retry = 7 };
	struct rt_opt opt = rt_defaults;
	struct ibv_sge sge = sge_of(&abuf, 0, 16);
	struct ibv_send_wr wr = rt_wr(1, IBV_WR_SEND, IBV_SEND_SIGNALED, &sge, 1);
	struct ibv_wc wc;
	struct rt_pair p;

	opt.rnr_retry = 0;
	opt.min_rnr_timer = 1;
	pair(&p, &opt);
	rt_ok(RT_EQ(rt_to_state(&p.a, IBV_QPS_SQD), 0) &&
	      RT_EQ(ibv_modify_qp(p.a.qp, &attr, IBV_QP_STATE | IBV_QP_RNR_RETRY), 0) &&
	      RT_EQ(rt_to_state(&p.a, IBV_QPS_RTS), 0) &&
	      RT_EQ(rt_post(&p.a, &wr), 0) &&
	      RT_CHECK(!rt_poll(p.a.scq, &wc, 100)) &&
	      RT_EQ(rt_post_recv(&p.b, 2, &bbuf, 0, 64), 0) &&
	      rt_expect(p.a.scq, 1, IBV_WC_SUCCESS, NULL),
	      "rnr_retry changed in SQD");
	rt_pair_destroy(&p);
}

/* Of both devices: which of the two counts it depends on the way. */
static long for_no_qp(void)
{
	return rt_counter(rt_dev_a(), "rx_no_qp") + rt_counter(rt_dev_b(), "rx_no_qp");
}

static void test_retry_exceeded(void)
{
	struct rt_opt opt = rt_defaults;
	long strays;
	struct ibv_sge sge = sge_of(&abuf, 0, 16);
	struct ibv_send_wr wr;
	struct rt_pair p;
	int i;

	opt.timeout = 8;		/* 1.05 ms */
	opt.retry_cnt = 1;
	for (i = 0; i < 2; i++) {
		pair(&p, &opt);
		rt_to_state(&p.b, IBV_QPS_RESET);
		strays = for_no_qp();
		wr = i ? rdma_wr(IBV_WR_RDMA_READ, &sge, (uintptr_t)bbuf.p,
				 bbuf.mr->rkey) :
			 rt_wr(1, IBV_WR_SEND, IBV_SEND_SIGNALED, &sge, 1);
		rt_ok(RT_EQ(rt_post(&p.a, &wr), 0) &&
		      rt_expect(p.a.scq, 1, IBV_WC_RETRY_EXC_ERR, NULL) &&
		      rt_wait_state(&p.a, IBV_QPS_ERR),
		      "%s to a QP in RESET: RETRY_EXC_ERR", i ? "READ" : "SEND");
		/* nothing is taken for it that the next connection could be given */
		if (rt_args.dev[1])
			rt_ok(for_no_qp() > strays, "and what comes is for no QP");
		rt_pair_destroy(&p);
	}

	/* The same when the peer's QP is gone altogether. */
	pair(&p, &opt);
	rt_qp_destroy(&p.b);
	wr = rt_wr(1, IBV_WR_SEND, IBV_SEND_SIGNALED, &sge, 1);
	rt_ok(RT_EQ(rt_post(&p.a, &wr), 0) &&
	      rt_expect(p.a.scq, 1, IBV_WC_RETRY_EXC_ERR, NULL) &&
	      rt_wait_state(&p.a, IBV_QPS_ERR),
	      "SEND to a destroyed QP: RETRY_EXC_ERR");
	rt_qp_destroy(&p.a);
}

/* The library refuses misaligned legacy atomics, so use the builder. */
static void test_atomic_misaligned(void)
{
	struct rt_opt opt = rt_defaults;
	struct rt_pair p;
	bool ok = true;
	int i;

	opt.ops = IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD |
		  IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP;
	for (i = 0; i < 2; i++) {
		pair(&p, &opt);
		memset(bbuf.p, 0x11, 64);
		ibv_wr_start(p.a.qpx);
		p.a.qpx->wr_id = 1;
		p.a.qpx->wr_flags = IBV_SEND_SIGNALED;
		if (i)
			ibv_wr_atomic_fetch_add(p.a.qpx, bbuf.mr->rkey,
						(uintptr_t)bbuf.p + 4, 1);
		else
			ibv_wr_atomic_cmp_swp(p.a.qpx, bbuf.mr->rkey,
					      (uintptr_t)bbuf.p + 1, 0, 1);
		ibv_wr_set_sge(p.a.qpx, abuf.mr->lkey, (uintptr_t)abuf.p, 8);
		/* The peer judges it. */
		if (!ibv_wr_complete(p.a.qpx)) {
			struct ibv_wc wc = {};

			ok = ok && RT_CHECK(rt_poll(p.a.scq, &wc, 0)) &&
			     RT_EQ(wc.status, IBV_WC_REM_INV_REQ_ERR) &&
			     rt_wait_state(&p.a, IBV_QPS_ERR);
		}
		ok = ok && RT_EQ(bbuf.p[4], 0x11) && RT_EQ(bbuf.p[1], 0x11);
		rt_pair_destroy(&p);
	}
	rt_ok(ok, "misaligned atomics fail and change nothing");
}

/* Nothing posted in the wrong state may ever leave. */
static void test_post_in_state(void)
{
	struct ibv_sge sge = sge_of(&abuf, 0, 16);
	struct ibv_send_wr wr = rt_wr(1, IBV_WR_SEND, IBV_SEND_SIGNALED, &sge, 1);
	static const char * const names[] = { "RESET", "INIT", "RTR" };
	struct rt_qp a, b;
	struct ibv_wc wc;
	bool ok;
	int i;

	for (i = 0; i < 3; i++) {
		if (rt_qp_create(&a, rt_dev_a(), &rt_defaults) ||
		    rt_qp_create(&b, rt_dev_b(), &rt_defaults))
			rt_die("create QP");
		ok = true;
		if (i == 0)
			ok = RT_EQ(rt_post(&a, &wr), EINVAL);
		ok = ok && RT_EQ(rt_to_init(&a), 0) && RT_EQ(rt_to_init(&b), 0);
		if (i == 1)
			ok = ok && RT_EQ(rt_post(&a, &wr), EINVAL);
		ok = ok && RT_EQ(rt_to_rtr(&b, &a.dev->gid, a.qp->qp_num), 0) &&
		     RT_EQ(rt_to_rtr(&a, &b.dev->gid, b.qp->qp_num), 0);
		if (i == 2)
			ok = ok && RT_EQ(rt_post(&a, &wr), EINVAL);
		ok = ok && RT_EQ(rt_to_rts(&a), 0) && RT_EQ(rt_to_rts(&b), 0) &&
		     RT_EQ(rt_post_recv(&b, 8, &bbuf, 0, 64), 0) &&
		     RT_EQ(rt_post_recv(&b, 9, &bbuf, 0, 64), 0);
		/* A good one: it must be the only one that arrives. */
		wr.wr_id = 77;
		ok = ok && RT_EQ(rt_post(&a, &wr), 0) &&
		     rt_expect(a.scq, 77, IBV_WC_SUCCESS, NULL) &&
		     rt_expect(b.rcq, 8, IBV_WC_SUCCESS, NULL) &&
		     RT_CHECK(!rt_poll(b.rcq, &wc, 50));
		wr.wr_id = 1;
		rt_ok(ok, "post_send in %s: EINVAL, nothing sent after RTS",
		      names[i]);
		rt_qp_destroy(&a);
		rt_qp_destroy(&b);
	}

	if (rt_qp_create(&a, rt_dev_a(), &rt_defaults))
		rt_die("create QP");
	rt_ok(RT_CHECK(rt_post_recv(&a, 1, &abuf, 0, 8)),
	      "post_recv in RESET is refused");
	rt_ok(RT_EQ(rt_to_init(&a), 0) &&
	      RT_EQ(rt_post_recv(&a, 1, &abuf, 0, 8), 0),
	      "post_recv in INIT is accepted");
	rt_qp_destroy(&a);
}

static bool flushed_in_order(struct ibv_cq *cq, uint64_t first, int n)
{
	int i;

	for (i = 0; i < n; i++)
		if (!rt_expect(cq, first + i, IBV_WC_WR_FLUSH_ERR, NULL))
			return false;
	return true;
}

static void drain(struct ibv_cq *cq)
{
	struct ibv_wc wc;

	while (ibv_poll_cq(cq, 1, &wc) > 0)
		;
}

static void test_flush(void)
{
	struct ibv_sge sge = sge_of(&abuf, 0, 16), bad;
	struct ibv_send_wr wr;
	struct ibv_wc wc;
	struct rt_pair p;
	bool ok = true;
	int i;

	/* 4 good, 1 bad, 10 behind it, of which only some are signalled. */
	pair(&p, NULL);
	bad = sge;
	bad.lkey ^= 0x1200;
	for (i = 0; i < 20; i++)
		rt_post_recv(&p.a, 200 + i, &abuf, 1024, 64);
	for (i = 0; i < 4; i++)
		rt_post_recv(&p.b, 300 + i, &bbuf, 0, 64);
	for (i = 0; ok && i < 15; i++) {
		wr = rt_wr(i, IBV_WR_SEND, i < 5 || i % 2 ? IBV_SEND_SIGNALED : 0,
			   i == 4 ? &bad : &sge, 1);
		ok = RT_EQ(rt_post(&p.a, &wr), 0);
	}
	for (i = 0; ok && i < 4; i++)
		ok = rt_expect(p.a.scq, i, IBV_WC_SUCCESS, NULL);
	ok = ok && rt_expect(p.a.scq, 4, IBV_WC_LOC_PROT_ERR, NULL) &&
	     flushed_in_order(p.a.scq, 5, 10) &&
	     RT_CHECK(!rt_poll(p.a.scq, &wc, 20));
	rt_ok(ok, "good ones complete, then the error, then flushes in order, signalled or not");
	rt_ok(flushed_in_order(p.a.rcq, 200, 20),
	      "receives of the failed QP are flushed in order");

	drain(p.a.scq);
	drain(p.a.rcq);
	rt_ok(RT_EQ(rt_post(&p.a, &wr), 0) &&
	      rt_expect(p.a.scq, 14, IBV_WC_WR_FLUSH_ERR, NULL),
	      "a send posted in ERR is flushed");
	rt_ok(RT_EQ(rt_post_recv(&p.a, 500, &abuf, 0, 8), 0) &&
	      RT_EQ(rt_post_recv(&p.a, 501, &abuf, 0, 8), 0) &&
	      flushed_in_order(p.a.rcq, 500, 2),
	      "receives posted in ERR are flushed without a doorbell");

	ok = true;
	for (i = 0; ok && i < 500; i++)
		ok = RT_EQ(rt_post(&p.a, &wr), 0) &&
		     rt_expect(p.a.scq, 14, IBV_WC_WR_FLUSH_ERR, NULL);
	rt_ok(ok, "500 sends in ERR, all flushed");

	/* RESET empties the queues without completions, and it works again. */
	for (i = 0; i < 20; i++)
		rt_post_recv(&p.b, 700 + i, &bbuf, 0, 64);
	ok = RT_EQ(rt_to_state(&p.a, IBV_QPS_RESET), 0) &&
	     RT_EQ(rt_to_state(&p.b, IBV_QPS_RESET), 0);
	drain(p.a.scq);
	drain(p.b.rcq);
	rt_connect(&p.a, &p.b);
	wr = rt_wr(1, IBV_WR_SEND, IBV_SEND_SIGNALED, &sge, 1);
	ok = ok && RT_CHECK(!rt_poll(p.b.rcq, &wc, 20)) &&
	     RT_EQ(rt_post_recv(&p.b, 900, &bbuf, 0, 64), 0) &&
	     RT_EQ(rt_post(&p.a, &wr), 0) &&
	     rt_expect(p.a.scq, 1, IBV_WC_SUCCESS, NULL) &&
	     rt_expect(p.b.rcq, 900, IBV_WC_SUCCESS, NULL);
	rt_ok(ok, "ERR to RESET empties the queues, and the QP works again");
	rt_pair_destroy(&p);

	/* Moved to ERR by hand while the responder is not ready. */
	pair(&p, NULL);
	ok = true;
	for (i = 0; ok && i < 30; i++) {
		wr = rt_wr(i, IBV_WR_SEND, 0, &sge, 1);
		ok = RT_EQ(rt_post(&p.a, &wr), 0) &&
		     RT_EQ(rt_post_recv(&p.a, 100 + i, &abuf, 1024, 64), 0);
	}
	rt_ok(ok && RT_EQ(rt_to_state(&p.a, IBV_QPS_ERR), 0) &&
	      flushed_in_order(p.a.scq, 0, 30) &&
	      flushed_in_order(p.a.rcq, 100, 30),
	      "modify to ERR flushes 30 waiting sends and receives in order");
	/* where nothing is posted one looks ever more seldom, but not in the next connection */
	if (!rt_args.dev[1]) {
		sleep(4);
		ok = RT_EQ(rt_to_state(&p.a, IBV_QPS_RESET), 0) &&
		     RT_EQ(rt_to_state(&p.b, IBV_QPS_RESET), 0);
		rt_connect(&p.a, &p.b);
		ok = ok && RT_EQ(rt_to_state(&p.a, IBV_QPS_ERR), 0) &&
		     RT_EQ(rt_post_recv(&p.a, 600, &abuf, 0, 8), 0);
		rt_ok(ok && RT_CHECK(rt_poll(p.a.rcq, &wc, 1500)) && RT_EQ(wc.wr_id, 600),
		      "a receive posted soon after ERR is flushed soon, whatever was before");
	}
	rt_pair_destroy(&p);
}

static void test_unsignalled_error(void)
{
	struct ibv_sge sge = sge_of(&abuf, 0, 8);
	struct ibv_send_wr wr;
	struct rt_pair p;

	pair(&p, NULL);
	wr = rdma_wr(IBV_WR_RDMA_WRITE, &sge, (uintptr_t)bbuf.p,
		     bbuf.mr->rkey ^ 1);
	wr.send_flags = 0;
	rt_ok(fails(&p, &wr, IBV_WC_REM_ACCESS_ERR, -1),
	      "an unsignalled request that fails still completes");
	rt_pair_destroy(&p);
}

static void test_bad_opcodes(void)
{
	static const uint32_t codes[] = {
		10, 11, 12, 13, 14, 15, 0x20, 0xf0, 0x7fffffff, 0xffffffff,
	};
	struct ibv_send_wr wr;
	struct ibv_sge sge[2];
	struct rt_pair p;
	bool ok;
	int i, n;

	for (i = 0; i < ARRAY_SIZE(codes); i++) {
		/* REG_MR is the kernel's; rdma_rxe dies of it and of the last. */
		if (codes[i] >= 0x20 && getenv("RT_TAME")) {
			rt_skip("opcodes of 0x20 and more", "RT_TAME is set");
			continue;
		}
		ok = true;
		for (n = 0; ok && n <= 2; n++) {
			pair(&p, NULL);
			sge[0] = sge_of(&abuf, 0, 16);
			sge[1] = sge_of(&abuf, 64, 16);
			wr = rt_wr(i, codes[i], IBV_SEND_SIGNALED, sge, n);
			wr.wr.rdma.remote_addr = (uintptr_t)bbuf.p;
			wr.wr.rdma.rkey = bbuf.mr->rkey;
			rt_post_recv(&p.b, 2, &bbuf, 0, 64);
			/* The library may refuse it as well. */
			if (!rt_post(&p.a, &wr))
				ok = rt_expect(p.a.scq, i, IBV_WC_LOC_QP_OP_ERR,
					       NULL) &&
				     rt_wait_state(&p.a, IBV_QPS_ERR);
			rt_pair_destroy(&p);
		}
		rt_ok(ok, "opcode 0x%x: LOC_QP_OP_ERR", codes[i]);
	}
}

static void test_bad_flags(void)
{
	struct ibv_sge sge = sge_of(&abuf, 0, 16);
	struct ibv_send_wr wr;
	struct rt_pair p;
	int i, ret;

	for (i = 0; i < ARRAY_SIZE(rdma_ops); i++) {
		struct ibv_wc wc = {};

		if (rdma_ops[i].op == IBV_WR_RDMA_WRITE)
			continue;
		pair(&p, NULL);
		wr = rdma_wr(rdma_ops[i].op, &sge, (uintptr_t)bbuf.p,
			     bbuf.mr->rkey);
		wr.send_flags |= IBV_SEND_INLINE;
		ret = rt_post(&p.a, &wr);
		rt_ok(ret || (RT_CHECK(rt_poll(p.a.scq, &wc, 0)) &&
			      RT_CHECK(wc.status != IBV_WC_SUCCESS) &&
			      rt_wait_state(&p.a, IBV_QPS_ERR)),
		      "INLINE on %s is refused", rdma_ops[i].name);
		rt_pair_destroy(&p);
	}
	pair(&p, NULL);
	rt_post_recv(&p.b, 2, &bbuf, 0, 64);
	wr = rt_wr(1, IBV_WR_SEND, 0xfffffff0 | IBV_SEND_SIGNALED, &sge, 1);
	rt_ok(RT_EQ(rt_post(&p.a, &wr), 0) &&
	      rt_expect(p.a.scq, 1, IBV_WC_SUCCESS, NULL),
	      "unknown send flags are ignored");
	rt_pair_destroy(&p);
	pair(&p, NULL);
	wr = rt_wr(1, IBV_WR_SEND, IBV_SEND_SIGNALED, &sge, 99);
	rt_ok(RT_CHECK(rt_post(&p.a, &wr)), "more SGEs than the QP has: refused");
	rt_pair_destroy(&p);
}

int main(int argc, char **argv)
{
	int i;

	rt_parse(argc, argv);
	abuf = rt_buf(rt_dev_a(), BUF_LEN, RT_ACCESS_ALL);
	bbuf = rt_buf(rt_dev_b(), BUF_LEN, RT_ACCESS_ALL);
	for (i = 0; i < ARRAY_SIZE(rdma_ops); i++)
		test_rkeys(i);
	test_long_overrun();
	test_write_imm();
	test_qp_access();
	test_lkeys();
	test_recv_too_short();
	test_rnr();
	test_rnr_retry_changed();
	test_retry_exceeded();
	test_atomic_misaligned();
	test_post_in_state();
	test_flush();
	test_unsignalled_error();
	/* refused before any packet: it is the same wherever the peer is */
	if (!rt_args.dev[1])
		test_bad_opcodes();
	test_bad_flags();
	rt_ok(RT_EQ(events_seen, events_wanted),
	      "each of %d requests refused raised QP_ACCESS_ERR or QP_REQ_ERR", events_wanted);
	return rt_done();
}
