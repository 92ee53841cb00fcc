// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * mw - memory windows of type 1 and 2: binding, bounds, rights, invalidation.
 *
 * usage: mw [-d DEV] [-D DEV2] [-g GID] [-G GID2]
 *
 * The owner (b) binds windows on its region, the peer (a) uses them. What is
 * forbidden must fail with the right status and leave memory as it was; the
 * region itself grants the peer nothing, so that only the window can.
 *
 * Output: TAP. Exit code: 0 all ok, 1 a check failed, 2 could not run.
 */
#include "rt.h"

#define BUF_LEN		16384
#define OFF		4096		/* the window in the region */
#define LEN		1024
#define REMOTE		(IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | \
			 IBV_ACCESS_REMOTE_ATOMIC)
#define FILL		0x11

static struct rt_buf abuf, bbuf;

static const struct {
	enum ibv_wr_opcode op;
	int need;
	const char *name;
} ops[] = {
	{ IBV_WR_RDMA_WRITE, IBV_ACCESS_REMOTE_WRITE, "WRITE" },
	{ IBV_WR_RDMA_READ, IBV_ACCESS_REMOTE_READ, "READ" },
	{ IBV_WR_ATOMIC_FETCH_AND_ADD, IBV_ACCESS_REMOTE_ATOMIC, "FETCH_ADD" },
};

/* A pair, and what the owner has to give. */
struct world {
	struct rt_pair p;
	struct ibv_mw *mw;
	uint32_t rkey;			/* of the window as the owner knows it */
};

static void begin_on(struct world *w, enum ibv_mw_type type, enum ibv_qp_type qp_type)
{
	struct rt_opt opt = rt_defaults;

	opt.type = qp_type;
	opt.ops = IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_BIND_MW;
	if (qp_type == IBV_QPT_RC)
		opt.ops |= IBV_QP_EX_WITH_SEND_WITH_INV | IBV_QP_EX_WITH_RDMA_READ |
			   IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD | IBV_QP_EX_WITH_LOCAL_INV;
	memset(bbuf.p, FILL, BUF_LEN);
	memset(abuf.p, 0x22, BUF_LEN);
	rt_pair_create(&w->p, rt_dev_a(), rt_dev_b(), &opt);
	w->mw = ibv_alloc_mw(rt_dev_b()->pd, type);
	if (!w->mw)
		rt_die("ibv_alloc_mw: %s", strerror(errno));
	w->rkey = w->mw->rkey;
}

static void begin(struct world *w, enum ibv_mw_type type)
{
	begin_on(w, type, IBV_QPT_RC);
}

static void end(struct world *w)
{
	if (ibv_dealloc_mw(w->mw))
		rt_die("ibv_dealloc_mw: %s", strerror(errno));
	rt_pair_destroy(&w->p);
}

static struct ibv_mw_bind_info info(struct ibv_mr *mr, size_t off, size_t len,
				    int access)
{
	return (struct ibv_mw_bind_info) {
		.mr = mr,
		.addr = (uintptr_t)bbuf.p + off,
		.length = len,
		.mw_access_flags = access,
	};
}

/* Type 1, by the verb; the library computes the new key. */
static int bind1(struct world *w, struct ibv_mw_bind_info bi)
{
	struct ibv_mw_bind bind = {
		.wr_id = 7,
		.send_flags = IBV_SEND_SIGNALED,
		.bind_info = bi,
	};
	struct ibv_wc wc;
	int err = ibv_bind_mw(w->p.b.qp, w->mw, &bind);

	w->rkey = w->mw->rkey;
	if (err)
		return err;
	if (!rt_poll(w->p.b.scq, &wc, 0))
		return -1;
	return wc.status == IBV_WC_SUCCESS && wc.opcode != IBV_WC_BIND_MW ?
	       -1 : (int)wc.status;
}

/* Type 2, by a work request of @q, under the key @rkey: status, -1 if none. */
static int bind2(struct rt_qp *q, struct ibv_mw *mw, uint32_t rkey,
		 struct ibv_mw_bind_info bi)
{
	struct ibv_wc wc;

	ibv_wr_start(q->qpx);
	q->qpx->wr_id = 8;
	q->qpx->wr_flags = IBV_SEND_SIGNALED;
	ibv_wr_bind_mw(q->qpx, mw, rkey, &bi);
	if (!RT_EQ(ibv_wr_complete(q->qpx), 0))
		return -1;
	if (!rt_poll(q->scq, &wc, 0) || !RT_EQ(wc.wr_id, 8))
		return -1;
	if (wc.status == IBV_WC_SUCCESS && !RT_EQ(wc.opcode, IBV_WC_BIND_MW))
		return -1;
	/* what the library does for windows of type 1 */
	if (wc.status == IBV_WC_SUCCESS)
		mw->rkey = rkey;
	return wc.status;
}

/* The same as a legacy work request. */
static int bind2_legacy(struct rt_qp *q, struct ibv_mw *mw, uint32_t rkey,
			struct ibv_mw_bind_info bi)
{
	struct ibv_send_wr wr = rt_wr(8, IBV_WR_BIND_MW, IBV_SEND_SIGNALED, NULL, 0);
	struct ibv_wc wc;

	wr.bind_mw.mw = mw;
	wr.bind_mw.rkey = rkey;
	wr.bind_mw.bind_info = bi;
	if (!RT_EQ(rt_post(q, &wr), 0) || !rt_poll(q->scq, &wc, 0))
		return -1;
	if (wc.status == IBV_WC_SUCCESS)
		mw->rkey = rkey;
	return wc.status;
}

static int local_inv(struct rt_qp *q, uint32_t rkey)
{
	struct ibv_wc wc;

	ibv_wr_start(q->qpx);
	q->qpx->wr_id = 9;
	q->qpx->wr_flags = IBV_SEND_SIGNALED;
	ibv_wr_local_inv(q->qpx, rkey);
	if (!RT_EQ(ibv_wr_complete(q->qpx), 0) || !rt_poll(q->scq, &wc, 0))
		return -1;
	return wc.status;
}

/* As a legacy work request, which is how a UC QP is asked: the library offers no other way. */
static int local_inv_legacy(struct rt_qp *q, uint32_t rkey)
{
	struct ibv_send_wr wr = rt_wr(9, IBV_WR_LOCAL_INV, IBV_SEND_SIGNALED, NULL, 0);
	struct ibv_wc wc;

	wr.invalidate_rkey = rkey;
	if (!RT_EQ(rt_post(q, &wr), 0) || !rt_poll(q->scq, &wc, 0))
		return -1;
	return wc.status;
}

static uint32_t next_key(uint32_t rkey)
{
	return (rkey & ~0xffu) | ((rkey + 1) & 0xff);
}

/* The peer @q does operation @i; status, -1 if there was none. */
static int use(struct rt_qp *q, unsigned int i, uint64_t addr, size_t len,
	       uint32_t rkey)
{
	struct ibv_sge sge = {
		.addr = (uintptr_t)abuf.p, .length = len, .lkey = abuf.mr->lkey,
	};
	struct ibv_send_wr wr = rt_wr(1, ops[i].op, IBV_SEND_SIGNALED, &sge, 1);
	struct ibv_wc wc;

	if (ops[i].op == IBV_WR_ATOMIC_FETCH_AND_ADD) {
		sge.length = 8;
		wr.wr.atomic.remote_addr = addr;
		wr.wr.atomic.rkey = rkey;
		wr.wr.atomic.compare_add = 1;
	} else {
		wr.wr.rdma.remote_addr = addr;
		wr.wr.rdma.rkey = rkey;
	}
	if (!RT_EQ(rt_post(q, &wr), 0) || !rt_poll(q->scq, &wc, 0))
		return -1;
	return wc.status;
}

/* Nothing outside [@off, @off + @len) of the region was written. */
static bool untouched(size_t off, size_t len)
{
	size_t i;

	for (i = 0; i < BUF_LEN; i++)
		if ((i < off || i >= off + len) && !RT_EQ(bbuf.p[i], FILL))
			return false;
	return true;
}

/* Every operation through a window of @type with every set of rights. */
static void test_rights(enum ibv_mw_type type)
{
	bool ok = true;
	unsigned int i;
	int set;

	for (set = 0; ok && set < 8; set++) {
		int access = (set & 1 ? IBV_ACCESS_REMOTE_WRITE : 0) |
			     (set & 2 ? IBV_ACCESS_REMOTE_READ : 0) |
			     (set & 4 ? IBV_ACCESS_REMOTE_ATOMIC : 0);

		for (i = 0; ok && i < ARRAY_SIZE(ops); i++) {
			bool may = access & ops[i].need;
			struct world w;

			begin(&w, type);
			if (type == IBV_MW_TYPE_1)
				ok = RT_EQ(bind1(&w, info(bbuf.mr, OFF, LEN, access)),
					   IBV_WC_SUCCESS);
			else
				ok = RT_EQ(bind2(&w.p.b, w.mw, next_key(w.rkey),
						 info(bbuf.mr, OFF, LEN, access)),
					   IBV_WC_SUCCESS);
			ok = ok &&
			     RT_EQ(use(&w.p.a, i, (uintptr_t)bbuf.p + OFF, LEN, w.mw->rkey),
				   may ? IBV_WC_SUCCESS : IBV_WC_REM_ACCESS_ERR) &&
			     untouched(OFF, may ? LEN : 0) &&
			     RT_EQ(bbuf.p[OFF] != FILL, may && i != 1) &&
			     RT_EQ(abuf.p[LEN - 1] == FILL, may && i == 1);
			if (!ok)
				rt_diag("%s, rights %#x", ops[i].name, access);
			end(&w);
		}
	}
	rt_ok(ok, "type %d: each operation passes with its right and fails without", type);
}

/* The range of the window counts, not that of the region under it. */
static void test_bounds(enum ibv_mw_type type, bool zero_based)
{
	uint64_t p0 = zero_based ? 0 : (uintptr_t)bbuf.p + OFF;
	const struct {
		uint64_t addr;
		size_t len;
		bool may;
	} cases[] = {
		{ p0, LEN, true },
		{ p0 + LEN - 1, 1, true },
		{ p0 + 8, LEN - 8, true },
		{ p0, LEN + 1, false },
		{ p0 - 1, 1, false },
		{ p0 - 1, 2, false },
		{ p0 + LEN, 1, false },
		{ p0 + LEN - 1, 2, false },
		{ p0 + BUF_LEN, 1, false },
		{ p0 - BUF_LEN, 8, false },
	};
	int access = REMOTE | (zero_based ? IBV_ACCESS_ZERO_BASED : 0);
	bool ok = true;
	unsigned int c, i;

	for (c = 0; ok && c < ARRAY_SIZE(cases); c++)
		for (i = 0; ok && i < 2; i++) {
			bool may = cases[c].may;
			size_t len = may ? LEN : 0;
			struct world w;
			int want;

			begin(&w, type);
			ok = type == IBV_MW_TYPE_1 ?
			     RT_EQ(bind1(&w, info(bbuf.mr, OFF, LEN, access)), 0) :
			     RT_EQ(bind2(&w.p.b, w.mw, next_key(w.rkey),
					 info(bbuf.mr, OFF, LEN, access)), 0);
			want = may ? IBV_WC_SUCCESS : IBV_WC_REM_ACCESS_ERR;
			ok = ok &&
			     RT_EQ(use(&w.p.a, i, cases[c].addr, cases[c].len, w.mw->rkey), want) &&
			     untouched(OFF, len) &&
			     RT_EQ(abuf.p[0] == 0x22, i == 0 || !may);
			if (!ok)
				rt_diag("case %u, %s", c, ops[i].name);
			end(&w);
		}
	rt_ok(ok, "type %d%s: the window bounds every access", type,
	      zero_based ? ", zero-based" : "");
}

/* A bind that must be refused; the window stays as it was, unbound. */
struct bad {
	const char *name;
	struct ibv_mr *mr;
	size_t off, len;
	int access;
};

static bool refused(enum ibv_mw_type type, const struct bad *bad)
{
	struct ibv_mw_bind_info bi = info(bad->mr, bad->off, bad->len, bad->access);
	struct ibv_mr *mr;
	struct world w;
	bool ok;

	begin(&w, type);
	/* the verb of the library looks at the PD itself */
	if (type == IBV_MW_TYPE_1 && bad->mr->pd == w.mw->pd) {
		ok = RT_EQ(bind1(&w, bi), IBV_WC_MW_BIND_ERR);
	} else {
		uint32_t key = next_key(w.rkey);

		ok = RT_EQ(bind2(&w.p.b, w.mw, key, bi), IBV_WC_MW_BIND_ERR);
		w.rkey = key;
	}
	ok = ok && RT_CHECK(rt_wait_state(&w.p.b, IBV_QPS_ERR));
	end(&w);
	/* nothing is bound to the region, so a fresh one can go */
	mr = ibv_reg_mr(rt_dev_b()->pd, bbuf.p, BUF_LEN, IBV_ACCESS_LOCAL_WRITE);
	ok = ok && RT_CHECK(mr) && RT_EQ(ibv_dereg_mr(mr), 0);
	if (!ok)
		rt_diag("type %d: %s", type, bad->name);
	return ok;
}

static void test_bad_binds(void)
{
	struct ibv_context *ctx = rt_dev_b()->ctx;
	struct ibv_pd *pd = ibv_alloc_pd(ctx), *own = rt_dev_b()->pd;
	int lw = IBV_ACCESS_LOCAL_WRITE, mb = IBV_ACCESS_MW_BIND;
	struct ibv_mr *other = ibv_reg_mr(pd, bbuf.p, BUF_LEN, lw | mb);
	struct ibv_mr *nobind = ibv_reg_mr(own, bbuf.p, BUF_LEN, lw | REMOTE);
	struct ibv_mr *nowrite = ibv_reg_mr(own, bbuf.p, BUF_LEN, mb);
	struct ibv_mr *zero = ibv_reg_mr_iova(own, bbuf.p, BUF_LEN, 0,
					      lw | mb | IBV_ACCESS_ZERO_BASED);
	const struct bad bad[] = {
		{ "region of another PD", other, OFF, LEN, REMOTE },
		{ "region without MW_BIND", nobind, OFF, LEN, REMOTE },
		{ "remote write without local write", nowrite, OFF, LEN,
		  IBV_ACCESS_REMOTE_WRITE },
		{ "remote atomic without local write", nowrite, OFF, LEN,
		  IBV_ACCESS_REMOTE_ATOMIC },
		{ "zero-based region", zero, OFF, LEN, REMOTE },
		{ "start before the region", bbuf.mr, -1ul, LEN, REMOTE },
		{ "end behind the region", bbuf.mr, BUF_LEN - LEN + 1, LEN, REMOTE },
		{ "length wraps", bbuf.mr, OFF, -8ul, REMOTE },
	};
	const struct bad bad2[] = {
		{ "length 0", bbuf.mr, OFF, 0, REMOTE },
	};
	bool ok = RT_CHECK(other && nobind && nowrite && zero);
	unsigned int i;

	for (i = 0; ok && i < ARRAY_SIZE(bad); i++)
		ok = refused(IBV_MW_TYPE_1, &bad[i]);
	rt_ok(ok, "type 1: %zu binds that must be refused", ARRAY_SIZE(bad));
	for (i = 0, ok = true; ok && i < ARRAY_SIZE(bad); i++)
		ok = refused(IBV_MW_TYPE_2, &bad[i]);
	for (i = 0; ok && i < ARRAY_SIZE(bad2); i++)
		ok = refused(IBV_MW_TYPE_2, &bad2[i]);
	rt_ok(ok, "type 2: %zu binds that must be refused",
	      ARRAY_SIZE(bad) + ARRAY_SIZE(bad2));
	ibv_dereg_mr(other);
	ibv_dereg_mr(nobind);
	ibv_dereg_mr(nowrite);
	ibv_dereg_mr(zero);
	ibv_dealloc_pd(pd);
}

/* Read rights need no local write, and remote rights of the region do not matter. */
static void test_read_only(void)
{
	struct ibv_mr *mr = ibv_reg_mr(rt_dev_b()->pd, bbuf.p, BUF_LEN, IBV_ACCESS_MW_BIND);
	struct world w;
	bool ok;

	begin(&w, IBV_MW_TYPE_2);
	ok = RT_CHECK(mr) &&
	     RT_EQ(bind2_legacy(&w.p.b, w.mw, next_key(w.rkey),
				info(mr, OFF, LEN, IBV_ACCESS_REMOTE_READ)), 0) &&
	     RT_EQ(use(&w.p.a, 1, (uintptr_t)bbuf.p + OFF, LEN, w.mw->rkey), 0) &&
	     RT_EQ(abuf.p[LEN - 1], FILL) &&
	     RT_EQ(use(&w.p.a, 0, (uintptr_t)bbuf.p + OFF, LEN, w.mw->rkey),
		   IBV_WC_REM_ACCESS_ERR) &&
	     untouched(0, 0);
	rt_ok(ok, "a window to read on a region without any right but MW_BIND");
	end(&w);
	ibv_dereg_mr(mr);
}

/* The window keeps its index, whatever key is asked for. */
static void test_foreign_key(void)
{
	const uint32_t asked[] = { 0xba, 1024, 0xffffffff };
	bool ok = true;
	unsigned int i;

	for (i = 0; ok && i < ARRAY_SIZE(asked); i++) {
		uint32_t own;
		struct world w;

		begin(&w, IBV_MW_TYPE_2);
		own = (w.rkey & ~0xffu) | (asked[i] & 0xff);
		ok = RT_EQ(bind2_legacy(&w.p.b, w.mw, asked[i],
					info(bbuf.mr, OFF, LEN, REMOTE)), 0) &&
		     RT_EQ(use(&w.p.a, 0, (uintptr_t)bbuf.p + OFF, LEN, own), 0) &&
		     RT_EQ(local_inv(&w.p.b, own), 0);
		if (!ok)
			rt_diag("asked for %#x", asked[i]);
		end(&w);
	}
	rt_ok(ok, "type 2: of the key that a bind asks for the byte is taken");
}

/* Rebinding moves the window; zero length takes it away. */
static void test_type1_rebind(void)
{
	uintptr_t p0 = (uintptr_t)bbuf.p;
	struct world w;
	uint32_t old;
	bool ok;

	begin(&w, IBV_MW_TYPE_1);
	ok = RT_EQ(bind1(&w, info(bbuf.mr, OFF, LEN, REMOTE)), 0);
	old = w.rkey;
	ok = ok && RT_EQ(bind1(&w, info(bbuf.mr, 0, 8, REMOTE)), 0) &&
	     RT_CHECK(w.rkey != old) &&
	     RT_EQ(use(&w.p.a, 0, p0, 8, w.rkey), 0) &&
	     RT_EQ(use(&w.p.a, 0, p0 + OFF, 8, old), IBV_WC_REM_ACCESS_ERR) &&
	     untouched(0, 8);
	rt_ok(ok, "type 1: bound again, the old key is dead, the new one alive");
	end(&w);

	begin(&w, IBV_MW_TYPE_1);
	ok = RT_EQ(bind1(&w, info(bbuf.mr, OFF, LEN, REMOTE)), 0) &&
	     RT_EQ(bind1(&w, info(bbuf.mr, 0, 0, 0)), 0) &&
	     RT_EQ(use(&w.p.a, 0, p0, 8, w.rkey), IBV_WC_REM_ACCESS_ERR) &&
	     untouched(0, 0);
	rt_ok(ok, "type 1: length 0 unbinds");
	end(&w);

	begin(&w, IBV_MW_TYPE_1);
	ok = RT_EQ(bind1(&w, info(bbuf.mr, OFF, LEN, REMOTE)), 0) &&
	     RT_EQ(local_inv(&w.p.b, w.rkey), IBV_WC_MW_BIND_ERR);
	rt_ok(ok, "type 1: cannot be invalidated");
	end(&w);
}

static void test_type2_invalidate(void)
{
	uintptr_t addr = (uintptr_t)bbuf.p + OFF;
	uint32_t key, key2;
	struct world w;
	bool ok;

	begin(&w, IBV_MW_TYPE_2);
	key = next_key(w.rkey);
	key2 = (key & ~0xffu) | ((key + 0x55) & 0xff);
	ok = RT_EQ(bind2(&w.p.b, w.mw, key, info(bbuf.mr, OFF, LEN, REMOTE)), 0) &&
	     RT_EQ(use(&w.p.a, 0, addr, 8, key), 0) &&
	     RT_EQ(local_inv(&w.p.b, key), 0) &&
	     RT_EQ(bind2(&w.p.b, w.mw, key2, info(bbuf.mr, OFF, LEN, REMOTE)), 0) &&
	     RT_EQ(use(&w.p.a, 0, addr, 8, key2), 0) &&
	     RT_EQ(use(&w.p.a, 0, addr, 8, key), IBV_WC_REM_ACCESS_ERR);
	rt_ok(ok, "type 2: LOCAL_INV, bound again under another key");
	end(&w);

	begin(&w, IBV_MW_TYPE_2);
	key = next_key(w.rkey);
	ok = RT_EQ(bind2(&w.p.b, w.mw, key, info(bbuf.mr, OFF, LEN, REMOTE)), 0) &&
	     RT_EQ(local_inv(&w.p.b, key), 0) &&
	     RT_EQ(use(&w.p.a, 0, addr, 8, key), IBV_WC_REM_ACCESS_ERR) &&
	     untouched(0, 0);
	rt_ok(ok, "type 2: no access after LOCAL_INV");
	end(&w);

	begin(&w, IBV_MW_TYPE_2);
	key = next_key(w.rkey);
	ok = RT_EQ(bind2(&w.p.b, w.mw, key, info(bbuf.mr, OFF, LEN, REMOTE)), 0) &&
	     RT_EQ(bind2(&w.p.b, w.mw, next_key(key), info(bbuf.mr, 0, LEN, REMOTE)),
		   IBV_WC_MW_BIND_ERR) &&
	     RT_CHECK(rt_wait_state(&w.p.b, IBV_QPS_ERR));
	rt_ok(ok, "type 2: a bound window cannot be bound again");
	end(&w);

	begin(&w, IBV_MW_TYPE_2);
	key = next_key(w.rkey);
	ok = RT_EQ(bind2(&w.p.b, w.mw, key, info(bbuf.mr, OFF, LEN, REMOTE)), 0) &&
	     RT_EQ(local_inv(&w.p.b, key ^ 1), IBV_WC_MW_BIND_ERR);
	rt_ok(ok, "LOCAL_INV of a wrong key fails");
	end(&w);

	begin(&w, IBV_MW_TYPE_2);
	ok = RT_EQ(local_inv(&w.p.b, bbuf.mr->rkey), IBV_WC_MW_BIND_ERR);
	rt_ok(ok, "LOCAL_INV of a user's region fails");
	end(&w);
}

/* The peer invalidates with its SEND. */
static void test_send_inv(bool legacy)
{
	uintptr_t addr = (uintptr_t)bbuf.p + OFF;
	struct rt_qp *a, *b;
	struct ibv_sge sge = { (uintptr_t)abuf.p, 16, abuf.mr->lkey };
	struct ibv_wc wc;
	struct world w;
	uint32_t key;
	bool ok;

	begin(&w, IBV_MW_TYPE_2);
	a = &w.p.a;
	b = &w.p.b;
	key = next_key(w.rkey);
	ok = RT_EQ(bind2(b, w.mw, key, info(bbuf.mr, OFF, LEN, REMOTE)), 0) &&
	     RT_EQ(use(a, 0, addr, 8, key), 0) &&
	     RT_EQ(rt_post_recv(b, 5, &bbuf, 0, 64), 0);
	if (legacy) {
		struct ibv_send_wr wr = rt_wr(6, IBV_WR_SEND_WITH_INV,
					      IBV_SEND_SIGNALED, &sge, 1);

		wr.invalidate_rkey = key;
		ok = ok && RT_EQ(rt_post(a, &wr), 0);
	} else {
		ibv_wr_start(a->qpx);
		a->qpx->wr_id = 6;
		a->qpx->wr_flags = IBV_SEND_SIGNALED;
		ibv_wr_send_inv(a->qpx, key);
		ibv_wr_set_sge(a->qpx, sge.lkey, sge.addr, sge.length);
		ok = ok && RT_EQ(ibv_wr_complete(a->qpx), 0);
	}
	ok = ok && rt_expect(b->rcq, 5, IBV_WC_SUCCESS, &wc) &&
	     RT_EQ(wc.wc_flags & (IBV_WC_WITH_INV | IBV_WC_WITH_IMM), IBV_WC_WITH_INV) &&
	     RT_EQ(wc.invalidated_rkey, key) && RT_EQ(wc.byte_len, 16) &&
	     RT_EQ(bbuf.p[15], 0x22) && RT_EQ(bbuf.p[16], FILL) &&
	     rt_expect(a->scq, 6, IBV_WC_SUCCESS, NULL);
	memset(bbuf.p, FILL, BUF_LEN);
	ok = ok && RT_EQ(use(a, 0, addr, 8, key), IBV_WC_REM_ACCESS_ERR) && untouched(0, 0);
	rt_ok(ok, "SEND_WITH_INV (%s): data, flag and key reported, no access after it",
	      legacy ? "legacy" : "builder");
	end(&w);
}

/* The peer names a key that it may not invalidate. */
static void test_send_inv_bad(void)
{
	struct ibv_sge sge = { (uintptr_t)abuf.p, 16, abuf.mr->lkey };
	bool ok = true;
	unsigned int c;

	for (c = 0; ok && c < 3; c++) {
		struct ibv_send_wr wr = rt_wr(6, IBV_WR_SEND_WITH_INV,
					      IBV_SEND_SIGNALED, &sge, 1);
		struct ibv_wc wc;
		struct world w;
		uint32_t key;

		begin(&w, IBV_MW_TYPE_2);
		key = next_key(w.rkey);
		ok = RT_EQ(bind2(&w.p.b, w.mw, key, info(bbuf.mr, OFF, LEN, REMOTE)), 0) &&
		     RT_EQ(rt_post_recv(&w.p.b, 5, &bbuf, 0, 64), 0);
		wr.invalidate_rkey = c == 0 ? bbuf.mr->rkey : c == 1 ? key ^ 1 : key ^ 0x5000;
		ok = ok && RT_EQ(rt_post(&w.p.a, &wr), 0) && rt_poll(w.p.a.scq, &wc, 0) &&
		     RT_EQ(wc.status, IBV_WC_REM_ACCESS_ERR) &&
		     rt_poll(w.p.b.rcq, &wc, 0) && RT_EQ(wc.status, IBV_WC_REM_INV_REQ_ERR) &&
		     RT_CHECK(rt_wait_state(&w.p.b, IBV_QPS_ERR));
		end(&w);
	}
	rt_ok(ok, "SEND_WITH_INV of a region, a wrong and a free key: both in ERR");
}

/* Type 2B belongs to the QP that bound it; type 1 to the PD. */
static void test_other_qp(void)
{
	uintptr_t addr = (uintptr_t)bbuf.p + OFF;
	struct world w, other;
	uint32_t key;
	bool ok;

	begin(&w, IBV_MW_TYPE_2);
	begin(&other, IBV_MW_TYPE_1);
	key = next_key(w.rkey);
	ok = RT_EQ(bind2(&w.p.b, w.mw, key, info(bbuf.mr, OFF, LEN, REMOTE)), 0) &&
	     RT_EQ(use(&other.p.a, 0, addr, 8, key), IBV_WC_REM_ACCESS_ERR) &&
	     untouched(0, 0) &&
	     RT_EQ(use(&w.p.a, 0, addr, 8, key), 0);
	rt_ok(ok, "type 2: not through another QP of the PD");
	end(&other);

	begin(&other, IBV_MW_TYPE_1);
	ok = RT_EQ(local_inv(&other.p.b, key), IBV_WC_MW_BIND_ERR) &&
	     RT_EQ(use(&w.p.a, 0, addr, 8, key), 0);
	rt_ok(ok, "type 2: another QP cannot invalidate it");
	end(&other);

	/* the QP goes: nobody inherits the window */
	rt_pair_destroy(&w.p);
	rt_pair_create(&w.p, rt_dev_a(), rt_dev_b(), &rt_defaults);
	ok = RT_EQ(use(&w.p.a, 0, addr, 8, key), IBV_WC_REM_ACCESS_ERR);
	rt_ok(ok, "type 2: gone with its QP");
	end(&w);

	begin(&w, IBV_MW_TYPE_1);
	begin(&other, IBV_MW_TYPE_1);
	ok = RT_EQ(bind1(&w, info(bbuf.mr, OFF, LEN, REMOTE)), 0) &&
	     RT_EQ(use(&other.p.a, 0, addr, 8, w.rkey), 0) &&
	     RT_EQ(use(&w.p.a, 0, addr, 8, w.rkey), 0);
	rt_ok(ok, "type 1: through every QP of the PD");
	end(&other);
	end(&w);
}

static void test_dereg(enum ibv_mw_type type)
{
	struct ibv_mr *mr = ibv_reg_mr(rt_dev_b()->pd, bbuf.p, BUF_LEN,
				       IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_MW_BIND);
	uintptr_t addr = (uintptr_t)bbuf.p + OFF;
	struct world w;
	bool ok;

	begin(&w, type);
	ok = RT_CHECK(mr) &&
	     (type == IBV_MW_TYPE_1 ?
	      RT_EQ(bind1(&w, info(mr, OFF, LEN, REMOTE)), 0) :
	      RT_EQ(bind2(&w.p.b, w.mw, next_key(w.rkey), info(mr, OFF, LEN, REMOTE)), 0)) &&
	     RT_EQ(ibv_dereg_mr(mr), EBUSY) &&
	     RT_EQ(use(&w.p.a, 0, addr, 8, w.mw->rkey), 0);
	end(&w);
	ok = ok && RT_EQ(ibv_dereg_mr(mr), 0);
	rt_ok(ok, "type %d: a region with a window stays, then goes", type);
}

/* A window has no L_Key. */
static void test_no_lkey(void)
{
	struct ibv_sge sge = { .addr = (uintptr_t)bbuf.p + OFF, .length = 8 };
	struct ibv_send_wr wr = rt_wr(1, IBV_WR_SEND, IBV_SEND_SIGNALED, &sge, 1);
	struct world w;
	bool ok;

	begin(&w, IBV_MW_TYPE_1);
	ok = RT_EQ(bind1(&w, info(bbuf.mr, OFF, LEN, REMOTE)), 0) &&
	     RT_EQ(rt_post_recv(&w.p.a, 5, &abuf, 0, 64), 0);
	sge.lkey = w.rkey;
	ok = ok && RT_EQ(rt_post(&w.p.b, &wr), 0) &&
	     rt_expect(w.p.b.scq, 1, IBV_WC_LOC_PROT_ERR, NULL);
	rt_ok(ok, "the key of a window is no lkey");
	end(&w);
}

/*
 * UC: the peer hears nothing of a refusal. A good WRITE behind the bad one tells
 * when both have arrived.
 */
static void test_uc(enum ibv_mw_type type)
{
	uintptr_t addr = (uintptr_t)bbuf.p + OFF;
	uint64_t until = rt_now_ms() + 20000;
	struct world w;
	uint32_t key;
	bool ok;

	begin_on(&w, type, IBV_QPT_UC);
	key = next_key(w.rkey);
	ok = RT_EQ(bind2(&w.p.b, w.mw, key, info(bbuf.mr, OFF, LEN, REMOTE)), 0) &&
	     RT_EQ(use(&w.p.a, 0, addr - 8, 8, key), 0) &&
	     RT_EQ(use(&w.p.a, 0, addr + LEN - 8, 16, key), 0) &&
	     RT_EQ(use(&w.p.a, 0, addr, 8, key), 0);
	while (ok && ((volatile uint8_t *)bbuf.p)[OFF + 7] != 0x22)
		ok = RT_CHECK(rt_now_ms() < until);
	ok = ok && untouched(OFF, 8);
	if (type == IBV_MW_TYPE_2)
		rt_ok(ok && RT_EQ(local_inv_legacy(&w.p.b, key), 0), "type 2 on UC: LOCAL_INV");
	ok = ok && RT_EQ(bind2(&w.p.b, w.mw, next_key(key),
			       info(bbuf.mr, OFF, BUF_LEN, REMOTE)), IBV_WC_MW_BIND_ERR) &&
	     RT_CHECK(rt_wait_state(&w.p.b, IBV_QPS_SQE));
	rt_ok(ok, "type %d on UC: the window bounds, a failed bind ends in SQE", type);
	end(&w);
}

/* Windows of a process that dies with everything bound. */
static void test_exit(void)
{
	struct world w;

	begin(&w, IBV_MW_TYPE_2);
	rt_ok(RT_EQ(bind2(&w.p.b, w.mw, next_key(w.rkey),
			  info(bbuf.mr, OFF, LEN, REMOTE)), 0),
	      "left bound for the kernel to clean up");
}

int main(int argc, char **argv)
{
	struct ibv_mw *mw;

	rt_parse(argc, argv);
	abuf = rt_buf(rt_dev_a(), BUF_LEN, RT_ACCESS_ALL);
	bbuf = rt_buf(rt_dev_b(), BUF_LEN, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_MW_BIND);
	rt_ok(RT_CHECK(rt_dev_b()->attr.device_cap_flags & IBV_DEVICE_MEM_WINDOW) &&
	      RT_CHECK(rt_dev_b()->attr.device_cap_flags & IBV_DEVICE_MEM_WINDOW_TYPE_2B) &&
	      RT_CHECK(rt_dev_b()->attr.max_mw > 0), "the device offers types 1 and 2B");
	mw = ibv_alloc_mw(rt_dev_b()->pd, 3);
	rt_ok(RT_CHECK(!mw), "a window of no type is refused");
	test_rights(IBV_MW_TYPE_1);
	test_rights(IBV_MW_TYPE_2);
	test_bounds(IBV_MW_TYPE_1, false);
	test_bounds(IBV_MW_TYPE_2, false);
	test_bounds(IBV_MW_TYPE_2, true);
	test_bad_binds();
	test_read_only();
	test_foreign_key();
	test_type1_rebind();
	test_type2_invalidate();
	test_send_inv(true);
	test_send_inv(false);
	test_send_inv_bad();
	test_other_qp();
	test_dereg(IBV_MW_TYPE_1);
	test_dereg(IBV_MW_TYPE_2);
	test_no_lkey();
	test_uc(IBV_MW_TYPE_1);
	test_uc(IBV_MW_TYPE_2);
	test_exit();
	return rt_done();
}
