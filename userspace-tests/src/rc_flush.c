// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * rc_flush - ATOMIC WRITE and FLUSH: effect, order, rights, refusals.
 *
 * usage: rc_flush [-d DEV] [-D DEV2] [-g GID] [-G GID2]
 *
 * Where the library is too old to post a FLUSH, and for FLUSHes that no library
 * would post, an ATOMIC WRITE is turned into one in the ring before its doorbell.
 *
 * Output: TAP. Exit code: 0 all ok, 1 a check failed, 2 could not run.
 */
#include "rt.h"

#define LEN		65536
#define FLUSH_GLOBAL	(1 << 8)	/* IBV_ACCESS_FLUSH_GLOBAL, since v45 */
#define FLUSH_PERSIST	(1 << 9)
#define CAP_FLUSH	(1ull << 38)
#define CAP_PERSIST	(1ull << 39)
#define CAP_AW		(1ull << 40)
#define WC_FLUSH	8
#define RANGE		0
#define ALL_OF_MR	1
#define GLOBAL		1
#define PERSISTENT	2
#define MARK		0x5ca1ab1ecafe0000ull

static struct rt_buf abuf, bbuf;

static void pair(struct rt_pair *p, int access)
{
	struct rt_opt opt = rt_defaults;

	opt.access = access;
	opt.ops = IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_ATOMIC_WRITE;
	rt_pair_create(p, rt_dev_a(), rt_dev_b(), &opt);
}

static void start_aw(struct rt_qp *q, uint64_t id, uint64_t addr, uint32_t rkey,
		     uint64_t value)
{
	ibv_wr_start(q->qpx);
	q->qpx->wr_id = id;
	q->qpx->wr_flags = IBV_SEND_SIGNALED;
	ibv_wr_atomic_write(q->qpx, rkey, addr, &value);
}

static int status_of(struct rt_qp *q, uint64_t id, int opcode)
{
	struct ibv_wc wc;

	if (!rt_poll(q->scq, &wc, 0) || !RT_EQ(wc.wr_id, id))
		return -1;
	if (wc.status == IBV_WC_SUCCESS && !RT_EQ(wc.opcode, opcode))
		return -1;
	return wc.status;
}

static int aw(struct rt_qp *q, uint64_t addr, uint32_t rkey, uint64_t value)
{
	start_aw(q, 1, addr, rkey, value);
	if (!RT_EQ(ibv_wr_complete(q->qpx), 0))
		return -1;
	return status_of(q, 1, IBV_WC_ATOMIC_WRITE);
}

/* The WQE with @id in the rings that the library has mapped. */
static uint8_t *find_wqe(uint64_t id)
{
	FILE *f = fopen("/proc/self/maps", "r");
	char line[512], perms[8], path[256];
	unsigned long start, stop;
	uint8_t *p, *found = NULL;

	while (f && !found && fgets(line, sizeof(line), f)) {
		path[0] = 0;
		if (sscanf(line, "%lx-%lx %7s %*s %*s %*s %255s", &start, &stop,
			   perms, path) < 4 || !strstr(path, "uverbs"))
			continue;
		for (p = (uint8_t *)start + 384; p + 256 <= (uint8_t *)stop; p += 64)
			if (*(uint64_t *)p == id && *(uint32_t *)(p + 12) == 15) {
				found = p;
				break;
			}
	}
	if (f)
		fclose(f);
	return found;
}

/* FLUSH as the wr union of v45 has it: @plt is its type, @sel its level. */
static int flush(struct rt_qp *q, uint64_t addr, uint32_t len, uint32_t rkey,
		 uint8_t sel, uint8_t plt)
{
	static uint64_t id = MARK;
	uint8_t *wqe;

	start_aw(q, ++id, addr, rkey, 0);
	wqe = find_wqe(id);
	if (!RT_CHECK(wqe))
		return -1;
	*(uint32_t *)(wqe + 12) = 14;
	*(uint32_t *)(wqe + 32) = 0;
	*(uint32_t *)(wqe + 36) = rkey;
	wqe[40] = plt;
	wqe[41] = sel;
	*(uint32_t *)(wqe + 184) = len;
	*(uint32_t *)(wqe + 196) = 0;
	if (!RT_EQ(ibv_wr_complete(q->qpx), 0))
		return -1;
	return status_of(q, id, WC_FLUSH);
}

static void test_aw(void)
{
	uint64_t *w = (uint64_t *)bbuf.p;
	struct rt_pair p;
	bool ok = true;
	uint64_t i;

	memset(bbuf.p, 0x11, 256);
	pair(&p, IBV_ACCESS_REMOTE_WRITE);
	for (i = 0; ok && i < 50; i++)
		ok = RT_EQ(aw(&p.a, (uintptr_t)(w + 1), bbuf.mr->rkey, i << 40 | i), 0) &&
		     RT_EQ(w[1], i << 40 | i) && RT_EQ(w[0], 0x1111111111111111) &&
		     RT_EQ(w[2], 0x1111111111111111);
	rt_ok(ok, "ATOMIC WRITE: eight bytes and no more");
	rt_pair_destroy(&p);
}

/* More at once than max_rd_atomic, all between WRITEs, all in order. */
static void test_aw_stream(void)
{
	uint64_t *w = (uint64_t *)bbuf.p;
	struct rt_pair p;
	bool ok = true;
	uint64_t i;

	memset(bbuf.p, 0, LEN);
	pair(&p, IBV_ACCESS_REMOTE_WRITE);
	for (i = 1; i <= 60; i++) {
		struct ibv_qp_ex *x = p.a.qpx;

		*(uint64_t *)(abuf.p + 64 * i) = i;
		ibv_wr_start(x);
		x->wr_id = i;
		x->wr_flags = 0;
		ibv_wr_rdma_write(x, bbuf.mr->rkey, (uintptr_t)(w + 1));
		ibv_wr_set_sge(x, abuf.mr->lkey, (uintptr_t)abuf.p + 64 * i, 8);
		x->wr_flags = IBV_SEND_SIGNALED;
		ibv_wr_atomic_write(x, bbuf.mr->rkey, (uintptr_t)w, &i);
		ok = ok && RT_EQ(ibv_wr_complete(x), 0);
	}
	for (i = 1; ok && i <= 60; i++)
		ok = RT_EQ(status_of(&p.a, i, IBV_WC_ATOMIC_WRITE), 0);
	rt_ok(ok && RT_EQ(w[0], 60) && RT_EQ(w[1], 60),
	      "60 ATOMIC WRITEs between 60 WRITEs");
	rt_pair_destroy(&p);
}

/* Whoever sees the word sees all that was written before it. */
static void test_aw_order(void)
{
	volatile uint64_t *flag = (uint64_t *)(bbuf.p + LEN - 8);
	struct rt_pair p;
	bool ok = true;
	uint64_t i;

	memset(bbuf.p, 0, LEN);
	pair(&p, IBV_ACCESS_REMOTE_WRITE);
	for (i = 1; ok && i <= 20; i++) {
		struct ibv_qp_ex *x = p.a.qpx;
		uint64_t until = rt_now_ms() + 20000;

		memset(abuf.p, i, LEN);
		ibv_wr_start(x);
		x->wr_id = i;
		x->wr_flags = IBV_SEND_SIGNALED;
		ibv_wr_rdma_write(x, bbuf.mr->rkey, (uintptr_t)bbuf.p);
		ibv_wr_set_sge(x, abuf.mr->lkey, (uintptr_t)abuf.p, LEN - 8);
		ibv_wr_atomic_write(x, bbuf.mr->rkey, (uintptr_t)flag, &i);
		ok = RT_EQ(ibv_wr_complete(x), 0);
		while (*flag != i && rt_now_ms() < until)
			;
		__atomic_thread_fence(__ATOMIC_ACQUIRE);
		ok = ok && RT_EQ(bbuf.p[0], i) && RT_EQ(bbuf.p[LEN - 9], i) &&
		     RT_EQ(status_of(&p.a, i, IBV_WC_RDMA_WRITE), 0) &&
		     RT_EQ(status_of(&p.a, i, IBV_WC_ATOMIC_WRITE), 0);
	}
	rt_ok(ok, "ATOMIC WRITE as a flag behind 64 KiB");
	rt_pair_destroy(&p);
}

static void test_aw_refused(void)
{
	struct rt_buf ro = rt_buf(rt_dev_b(), 4096,
				  IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ |
				  IBV_ACCESS_REMOTE_ATOMIC);
	uintptr_t p0 = (uintptr_t)bbuf.p;
	const struct {
		const char *name;
		int qp_access;
		uint64_t addr;
		uint32_t rkey;
		int status;
	} cases[] = {
		{ "QP without remote write", IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC,
		  p0, bbuf.mr->rkey, IBV_WC_REM_INV_REQ_ERR },
		{ "not aligned", IBV_ACCESS_REMOTE_WRITE, p0 + 4, bbuf.mr->rkey,
		  IBV_WC_REM_INV_REQ_ERR },
		{ "wrong key", IBV_ACCESS_REMOTE_WRITE, p0, bbuf.mr->rkey ^ 1,
		  IBV_WC_REM_ACCESS_ERR },
		{ "behind the region", IBV_ACCESS_REMOTE_WRITE, p0 + LEN, bbuf.mr->rkey,
		  IBV_WC_REM_ACCESS_ERR },
		{ "region without remote write", IBV_ACCESS_REMOTE_WRITE, (uintptr_t)ro.p,
		  ro.mr->rkey, IBV_WC_REM_ACCESS_ERR },
	};
	bool ok = true;
	unsigned int i;

	memset(bbuf.p, 0x11, LEN);
	memset(ro.p, 0x11, 16);
	for (i = 0; i < ARRAY_SIZE(cases); i++) {
		struct rt_pair p;

		pair(&p, cases[i].qp_access);
		if (!RT_EQ(aw(&p.a, cases[i].addr, cases[i].rkey, 0), cases[i].status) ||
		    !RT_EQ(bbuf.p[0], 0x11) || !RT_EQ(bbuf.p[4], 0x11) ||
		    !RT_EQ(ro.p[0], 0x11) ||
		    !RT_CHECK(rt_wait_state(&p.b, IBV_QPS_ERR))) {
			rt_diag("case: %s", cases[i].name);
			ok = false;
		}
		rt_pair_destroy(&p);
	}
	rt_ok(ok, "ATOMIC WRITE refused: rights, alignment, key, range");
	rt_buf_free(&ro);
}

static void test_flush(struct rt_buf *f)
{
	uintptr_t p0 = (uintptr_t)f->p;
	int wr = IBV_ACCESS_REMOTE_WRITE, g = FLUSH_GLOBAL;
	const struct {
		const char *name;
		int qp_access;
		uint64_t addr;
		uint32_t len, rkey;
		uint8_t sel, plt;
		int status;
	} cases[] = {
		{ "range", g, p0, LEN, f->mr->rkey, RANGE, GLOBAL, 0 },
		{ "last byte", g, p0 + LEN - 1, 1, f->mr->rkey, RANGE, GLOBAL, 0 },
		{ "whole region, address does not matter", g, 0, 0, f->mr->rkey,
		  ALL_OF_MR, GLOBAL, 0 },
		{ "past the end", g, p0 + 1, LEN, f->mr->rkey, RANGE, GLOBAL,
		  IBV_WC_REM_ACCESS_ERR },
		{ "wrong key", g, p0, LEN, f->mr->rkey ^ 1, RANGE, GLOBAL,
		  IBV_WC_REM_ACCESS_ERR },
		{ "wrong key, whole region", g, p0, LEN, f->mr->rkey ^ 1, ALL_OF_MR, GLOBAL,
		  IBV_WC_REM_ACCESS_ERR },
		{ "free key, whole region", g, p0, LEN, f->mr->rkey ^ 0x770000, ALL_OF_MR,
		  GLOBAL, IBV_WC_REM_ACCESS_ERR },
		{ "region without the right", g, (uintptr_t)bbuf.p, LEN, bbuf.mr->rkey,
		  RANGE, GLOBAL, IBV_WC_REM_ACCESS_ERR },
		{ "QP without the right", wr, p0, LEN, f->mr->rkey, RANGE, GLOBAL,
		  IBV_WC_REM_INV_REQ_ERR },
		{ "persistence, QP without the right", g, p0, LEN, f->mr->rkey, RANGE,
		  PERSISTENT, IBV_WC_REM_INV_REQ_ERR },
		{ "persistence, region without the right", g | FLUSH_PERSIST, p0, LEN,
		  f->mr->rkey, RANGE, PERSISTENT, IBV_WC_REM_ACCESS_ERR },
		{ "no placement", g, p0, LEN, f->mr->rkey, RANGE, 0, IBV_WC_LOC_QP_OP_ERR },
		{ "unknown placement", g, p0, LEN, f->mr->rkey, RANGE, 4, IBV_WC_LOC_QP_OP_ERR },
		{ "unknown selectivity", g, p0, LEN, f->mr->rkey, 2, GLOBAL, IBV_WC_LOC_QP_OP_ERR },
	};
	bool ok = true;
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(cases); i++) {
		struct rt_pair p;

		pair(&p, cases[i].qp_access);
		if (!RT_EQ(flush(&p.a, cases[i].addr, cases[i].len, cases[i].rkey,
				 cases[i].sel, cases[i].plt), cases[i].status)) {
			rt_diag("case: %s", cases[i].name);
			ok = false;
		}
		rt_pair_destroy(&p);
	}
	rt_ok(ok, "FLUSH: range, region, key, rights, placement (%zu cases)", ARRAY_SIZE(cases));
}

/* WRITE, FLUSH, ATOMIC WRITE: what the three are for. */
static void test_flush_stream(struct rt_buf *f)
{
	uint64_t *w = (uint64_t *)f->p;
	struct rt_pair p;
	bool ok = true;
	uint64_t i;

	pair(&p, IBV_ACCESS_REMOTE_WRITE | FLUSH_GLOBAL);
	memset(f->p, 0, 64);
	for (i = 1; ok && i < 30; i++)
		ok = RT_EQ(aw(&p.a, (uintptr_t)(w + 2), f->mr->rkey, i), 0) &&
		     RT_EQ(flush(&p.a, (uintptr_t)f->p, LEN, f->mr->rkey, RANGE, GLOBAL), 0) &&
		     RT_EQ(w[2], i) &&
		     RT_EQ(aw(&p.a, (uintptr_t)w, f->mr->rkey, i), 0) && RT_EQ(w[0], i);
	rt_ok(ok, "ATOMIC WRITE and FLUSH in turns");
	rt_pair_destroy(&p);
}

int main(int argc, char **argv)
{
	struct ibv_device_attr_ex attr;
	struct rt_buf f;
	bool offered;

	rt_parse(argc, argv);
	abuf = rt_buf(rt_dev_a(), LEN, RT_ACCESS_ALL);
	bbuf = rt_buf(rt_dev_b(), LEN, RT_ACCESS_ALL);
	if (ibv_query_device_ex(rt_dev_a()->ctx, NULL, &attr))
		rt_die("ibv_query_device_ex");
	offered = attr.device_cap_flags_ex & CAP_FLUSH;
	rt_ok(RT_CHECK(attr.device_cap_flags_ex & CAP_AW) &&
	      RT_CHECK(!(attr.device_cap_flags_ex & CAP_PERSIST)),
	      "the device offers ATOMIC WRITE, and no persistence");
	test_aw();
	test_aw_stream();
	test_aw_order();
	test_aw_refused();

	f.p = aligned_alloc(4096, LEN);
	f.mr = ibv_reg_mr(rt_dev_b()->pd, f.p, LEN, RT_ACCESS_ALL | FLUSH_GLOBAL);
	rt_ok(RT_EQ(!!f.mr, offered), "a region to be flushed, if that is offered");
	rt_ok(RT_CHECK(!ibv_reg_mr(rt_dev_b()->pd, f.p, LEN, RT_ACCESS_ALL | FLUSH_PERSIST)),
	      "no region to be flushed to persistence");
	if (!f.mr) {
		rt_skip("FLUSH", "this kernel's RDMA core knows no right for it");
		return rt_done();
	}
	test_flush(&f);
	test_flush_stream(&f);
	return rt_done();
}
