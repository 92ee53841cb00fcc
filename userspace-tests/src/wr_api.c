// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * wr_api - extended QPs (ibv_create_qp_ex, ibv_wr_*) and extended CQs.
 *
 * usage: wr_api [-d DEV] [-D DEV2] [-g GID] [-G GID2] [-s SEED]
 *
 * Every builder that the stock provider has for RC, UC and UD, each with every
 * setter: one SGE, a list of unequal ones, inline data, an inline list. Batches,
 * aborted ones, batches that do not fit. CQs that are read field by field.
 *
 * What old providers do wrong must not show: see abi.md section 20, "multi-SGE
 * length" and "inline". An inline list has length 0 with those before v64, which
 * the kernel cannot know: both outcomes are right.
 *
 * Output: TAP. Exit code: 0 all ok, 1 a check failed, 2 could not run.
 */
#include "rt.h"

#define BUF_LEN		(256 * 1024)
#define IMM		0x0badcafe
#define MAX_SGE		8
#define GRH		40

#define OPS_UD	(IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_SEND_WITH_IMM)
#define OPS_UC	(OPS_UD | IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM)
#define OPS_RC	(OPS_UC | IBV_QP_EX_WITH_RDMA_READ | IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP | \
		 IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD)
/* FLUSH, with the numbers that headers of rdma-core have since v45 */
#define OPS_FLUSH	(1 << 11)	/* IBV_QP_EX_WITH_FLUSH */
#define ACCESS_FLUSH	(1 << 8)	/* IBV_ACCESS_FLUSH_GLOBAL */
#define CAP_FLUSH	(1ull << 38)	/* of the device, the same right */
#define WC_FLUSH	8
#define FLUSH_GLOBAL	1
#define FLUSH_PERSIST	2
#define FLUSH_RANGE	0
#define FLUSH_MR	1
#define OPS_KEYS (IBV_QP_EX_WITH_BIND_MW | IBV_QP_EX_WITH_SEND_WITH_INV | \
		  IBV_QP_EX_WITH_LOCAL_INV)

static struct rt_buf abuf, bbuf;
static uint64_t stream;

enum setter { SGE, SGE_LIST, INLINE, INLINE_LIST };

static const char *const setters[] = { "set_sge", "set_sge_list", "set_inline_data",
				       "set_inline_data_list" };

static struct rt_opt ex_opt(enum ibv_qp_type type, uint64_t ops)
{
	struct rt_opt opt = rt_defaults;

	opt.type = type;
	opt.ops = ops;
	opt.cap.max_send_sge = MAX_SGE;
	opt.cap.max_inline_data = 128;
	return opt;
}

/* --- data from abuf, laid out as the setter needs it --- */

struct part {
	size_t off, len;
};

/* Unequal parts with gaps between them, the second one empty. */
static int split(size_t len, struct part *part)
{
	size_t off = 3, left = len;
	int i, n = 5;

	for (i = 0; i < n; i++) {
		part[i].off = off;
		part[i].len = i == 1 ? 0 : i == n - 1 ? left : left / (i + 2);
		left -= part[i].len;
		off += part[i].len + 5;
	}
	return n;
}

static void fill_parts(const struct part *part, int n)
{
	size_t pos = 0;
	int i;

	for (i = 0; i < n; pos += part[i++].len)
		rt_fill(abuf.p + part[i].off, part[i].len, stream, pos);
}

static void set_data(struct ibv_qp_ex *qpx, enum setter how, size_t len, bool fill)
{
	struct part whole = { 3, len }, parts[MAX_SGE], *part = &whole;
	struct ibv_data_buf bufs[MAX_SGE];
	struct ibv_sge sge[MAX_SGE];
	int i, n = 1;

	if (how == SGE_LIST || how == INLINE_LIST) {
		n = split(len, parts);
		part = parts;
	}
	if (fill)
		fill_parts(part, n);
	for (i = 0; i < n; i++) {
		sge[i] = (struct ibv_sge) { (uintptr_t)abuf.p + part[i].off, part[i].len,
					    abuf.mr->lkey };
		bufs[i] = (struct ibv_data_buf) { abuf.p + part[i].off, part[i].len };
	}
	if (how == SGE)
		ibv_wr_set_sge(qpx, sge[0].lkey, sge[0].addr, sge[0].length);
	else if (how == SGE_LIST)
		ibv_wr_set_sge_list(qpx, n, sge);
	else if (how == INLINE)
		ibv_wr_set_inline_data(qpx, bufs[0].addr, bufs[0].length);
	else
		ibv_wr_set_inline_data_list(qpx, n, bufs);
}

static void build(struct ibv_qp_ex *qpx, enum ibv_wr_opcode op, uint64_t id)
{
	uint64_t raddr = (uintptr_t)bbuf.p;

	qpx->wr_id = id;
	qpx->wr_flags = IBV_SEND_SIGNALED;
	switch (op) {
	case IBV_WR_SEND:
		ibv_wr_send(qpx);
		break;
	case IBV_WR_SEND_WITH_IMM:
		ibv_wr_send_imm(qpx, htobe32(IMM));
		break;
	case IBV_WR_RDMA_WRITE:
		ibv_wr_rdma_write(qpx, bbuf.mr->rkey, raddr);
		break;
	case IBV_WR_RDMA_WRITE_WITH_IMM:
		ibv_wr_rdma_write_imm(qpx, bbuf.mr->rkey, raddr, htobe32(IMM));
		break;
	case IBV_WR_RDMA_READ:
		ibv_wr_rdma_read(qpx, bbuf.mr->rkey, raddr);
		break;
	case IBV_WR_ATOMIC_CMP_AND_SWP:
		ibv_wr_atomic_cmp_swp(qpx, bbuf.mr->rkey, raddr, 5, 77);
		break;
	case IBV_WR_ATOMIC_FETCH_AND_ADD:
		ibv_wr_atomic_fetch_add(qpx, bbuf.mr->rkey, raddr, 1000);
		break;
	default:
		rt_die("no builder for opcode %d", op);
	}
}

static bool is_write(enum ibv_wr_opcode op)
{
	return op == IBV_WR_RDMA_WRITE || op == IBV_WR_RDMA_WRITE_WITH_IMM;
}

static bool takes_recv(enum ibv_wr_opcode op)
{
	return op == IBV_WR_SEND || op == IBV_WR_SEND_WITH_IMM ||
	       op == IBV_WR_RDMA_WRITE_WITH_IMM;
}

/* Inline bytes are the library's once they are set. */
static void spoil(enum setter how, size_t len)
{
	if (how == INLINE || how == INLINE_LIST)
		memset(abuf.p, 0x77, len + 64);
}

/* The message at @p; for a WRITE without completion here it is waited for. */
static bool check_data(enum ibv_wr_opcode op, const uint8_t *p, size_t len)
{
	uint64_t end = rt_now_ms() + rt_timeout_ms;
	uint8_t last;

	if (!len)
		return true;
	rt_fill(&last, 1, stream, len - 1);
	while (op == IBV_WR_RDMA_WRITE && *(volatile uint8_t *)(p + len - 1) != last &&
	       rt_now_ms() < end)
		usleep(100);
	return rt_check(p, len, stream, 0);
}

static bool one(struct rt_pair *p, enum ibv_wr_opcode op, enum setter how, size_t len,
		void (*address)(struct ibv_qp_ex *))
{
	size_t grh = address ? GRH : 0;
	static uint64_t id = 500;
	size_t got = len;
	struct ibv_wc wc;
	bool ok = true;

	id++;
	stream++;
	memset(bbuf.p, 0x55, grh + len + 1);
	if (takes_recv(op))
		ok = RT_EQ(rt_post_recv(&p->b, id, &bbuf, 0,
					is_write(op) ? 0 : grh + len), 0);
	ibv_wr_start(p->a.qpx);
	build(p->a.qpx, op, id);
	if (address)
		address(p->a.qpx);
	set_data(p->a.qpx, how, len, true);
	spoil(how, len);
	ok = ok && RT_EQ(ibv_wr_complete(p->a.qpx), 0) &&
	     rt_expect(p->a.scq, id, IBV_WC_SUCCESS, &wc) &&
	     RT_EQ(wc.opcode, is_write(op) ? IBV_WC_RDMA_WRITE : IBV_WC_SEND);
	if (ok && takes_recv(op)) {
		ok = rt_expect(p->b.rcq, id, IBV_WC_SUCCESS, &wc) &&
		     (op == IBV_WR_SEND || RT_EQ(be32toh(wc.imm_data), IMM));
		got = wc.byte_len - grh;
	}
	ok = ok && RT_CHECK(got == len || (how == INLINE_LIST && !got)) &&
	     check_data(op, bbuf.p + grh, got) && RT_EQ(bbuf.p[grh + len], 0x55);
	if (!ok)
		rt_diag("opcode %d, %s, %zu bytes", op, setters[how], len);
	return ok;
}

/* Inline data is short; of an inline list only a receiver knows what came of it. */
static bool possible(enum ibv_wr_opcode op, enum setter how, size_t len)
{
	if (how == INLINE_LIST && !takes_recv(op))
		return false;
	return how <= SGE_LIST || len <= 128;
}

static void test_setters(struct rt_pair *p, const char *name, const enum ibv_wr_opcode *ops,
			 int nops, void (*address)(struct ibv_qp_ex *))
{
	static const size_t lens[] = { 0, 1, 9, 64, 127, 3001 };
	enum setter how;
	bool ok = true;
	int i, k;

	for (how = SGE; how <= INLINE_LIST; how++) {
		for (i = 0; i < nops; i++)
			for (k = 0; ok && k < ARRAY_SIZE(lens); k++)
				if (possible(ops[i], how, lens[k]))
					ok = one(p, ops[i], how, lens[k], address);
		rt_ok(ok, "%s: %s with every SEND and WRITE builder", name, setters[how]);
	}
}

static const enum ibv_wr_opcode data_ops[] = {
	IBV_WR_SEND, IBV_WR_SEND_WITH_IMM, IBV_WR_RDMA_WRITE, IBV_WR_RDMA_WRITE_WITH_IMM,
};

static void test_connected(enum ibv_qp_type type, const char *name, uint64_t ops)
{
	struct rt_opt opt = ex_opt(type, ops);
	struct rt_pair p;

	rt_pair_create(&p, rt_dev_a(), rt_dev_b(), &opt);
	test_setters(&p, name, data_ops, ARRAY_SIZE(data_ops), NULL);
	rt_pair_destroy(&p);
}

/* --- what READ and atomics bring back --- */

static bool fetch(struct rt_pair *p, enum ibv_wr_opcode op, enum ibv_wc_opcode wc_op,
		  uint64_t want_old, uint64_t want_new)
{
	volatile uint64_t *far = (void *)bbuf.p;
	uint64_t *near = (void *)abuf.p;
	struct ibv_wc wc;

	*near = 0;
	ibv_wr_start(p->a.qpx);
	build(p->a.qpx, op, 9);
	ibv_wr_set_sge(p->a.qpx, abuf.mr->lkey, (uintptr_t)near, 8);
	return RT_EQ(ibv_wr_complete(p->a.qpx), 0) &&
	       rt_expect(p->a.scq, 9, IBV_WC_SUCCESS, &wc) && RT_EQ(wc.opcode, wc_op) &&
	       RT_EQ(*near, want_old) && RT_EQ(*far, want_new);
}

static void test_fetch(void)
{
	struct rt_opt opt = ex_opt(IBV_QPT_RC, OPS_RC);
	struct part parts[MAX_SGE];
	struct ibv_sge sge[MAX_SGE];
	struct rt_pair p;
	bool ok;
	int i, n;

	rt_pair_create(&p, rt_dev_a(), rt_dev_b(), &opt);
	*(uint64_t *)bbuf.p = 5;
	rt_ok(fetch(&p, IBV_WR_RDMA_READ, IBV_WC_RDMA_READ, 5, 5) &&
	      fetch(&p, IBV_WR_ATOMIC_CMP_AND_SWP, IBV_WC_COMP_SWAP, 5, 77) &&
	      fetch(&p, IBV_WR_ATOMIC_CMP_AND_SWP, IBV_WC_COMP_SWAP, 77, 77) &&
	      fetch(&p, IBV_WR_ATOMIC_FETCH_AND_ADD, IBV_WC_FETCH_ADD, 77, 1077),
	      "RC: READ, CMP_SWP, FETCH_ADD");

	rt_fill(bbuf.p, 30000, ++stream, 0);
	memset(abuf.p, 0, BUF_LEN);
	n = split(30000, parts);
	for (i = 0; i < n; i++)
		sge[i] = (struct ibv_sge) { (uintptr_t)abuf.p + parts[i].off, parts[i].len,
					    abuf.mr->lkey };
	ibv_wr_start(p.a.qpx);
	build(p.a.qpx, IBV_WR_RDMA_READ, 10);
	ibv_wr_set_sge_list(p.a.qpx, n, sge);
	ok = RT_EQ(ibv_wr_complete(p.a.qpx), 0) &&
	     rt_expect(p.a.scq, 10, IBV_WC_SUCCESS, NULL);
	for (i = 0, n = 0; i < 5; n += parts[i++].len)
		ok = ok && rt_check(abuf.p + parts[i].off, parts[i].len, stream, n);
	rt_ok(ok, "RC: READ into a list");
	rt_pair_destroy(&p);
}

/* --- keys that change: BIND_MW, SEND_WITH_INV, LOCAL_INV --- */

static bool bind(struct rt_qp *q, struct ibv_mw *mw, uint32_t rkey)
{
	struct ibv_mw_bind_info info = {
		.mr = bbuf.mr,
		.addr = (uintptr_t)bbuf.p,
		.length = 4096,
		.mw_access_flags = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ,
	};
	struct ibv_wc wc;

	ibv_wr_start(q->qpx);
	q->qpx->wr_id = 60;
	q->qpx->wr_flags = IBV_SEND_SIGNALED;
	ibv_wr_bind_mw(q->qpx, mw, rkey, &info);
	if (!RT_EQ(ibv_wr_complete(q->qpx), 0) ||
	    !rt_expect(q->scq, 60, IBV_WC_SUCCESS, &wc) ||
	    !RT_EQ(wc.opcode, IBV_WC_BIND_MW))
		return false;
	/* with type 2 the application keeps the book */
	mw->rkey = rkey;
	return true;
}

/* A WRITE through @rkey, which is good or not. */
static bool write_by(struct rt_pair *p, uint32_t rkey, enum ibv_wc_status status)
{
	ibv_wr_start(p->a.qpx);
	p->a.qpx->wr_id = 61;
	p->a.qpx->wr_flags = IBV_SEND_SIGNALED;
	ibv_wr_rdma_write(p->a.qpx, rkey, (uintptr_t)bbuf.p);
	set_data(p->a.qpx, SGE, 3000, true);
	return RT_EQ(ibv_wr_complete(p->a.qpx), 0) &&
	       rt_expect(p->a.scq, 61, status, NULL) &&
	       (status != IBV_WC_SUCCESS || check_data(IBV_WR_RDMA_WRITE, bbuf.p, 3000));
}

static bool send_inv(struct rt_pair *p, uint32_t rkey)
{
	struct ibv_wc wc;
	int ret = rt_post_recv(&p->b, 62, &bbuf, 8192, 100);

	ibv_wr_start(p->a.qpx);
	p->a.qpx->wr_id = 63;
	p->a.qpx->wr_flags = IBV_SEND_SIGNALED;
	ibv_wr_send_inv(p->a.qpx, rkey);
	set_data(p->a.qpx, INLINE, 100, true);
	return RT_EQ(ret ?: ibv_wr_complete(p->a.qpx), 0) &&
	       rt_expect(p->a.scq, 63, IBV_WC_SUCCESS, NULL) &&
	       rt_expect(p->b.rcq, 62, IBV_WC_SUCCESS, &wc) &&
	       RT_EQ(wc.wc_flags, IBV_WC_WITH_INV) && RT_EQ(wc.invalidated_rkey, rkey) &&
	       rt_check(bbuf.p + 8192, 100, stream, 0);
}

static bool local_inv(struct rt_qp *q, uint32_t rkey)
{
	struct ibv_wc wc;

	ibv_wr_start(q->qpx);
	q->qpx->wr_id = 64;
	q->qpx->wr_flags = IBV_SEND_SIGNALED;
	ibv_wr_local_inv(q->qpx, rkey);
	return RT_EQ(ibv_wr_complete(q->qpx), 0) &&
	       rt_expect(q->scq, 64, IBV_WC_SUCCESS, &wc) && RT_EQ(wc.opcode, IBV_WC_LOCAL_INV);
}

static void test_keys(enum ibv_qp_type type, const char *name)
{
	bool rc = type == IBV_QPT_RC, ok;
	struct rt_opt opt = ex_opt(type, rc ? OPS_RC | OPS_KEYS : OPS_UC | IBV_QP_EX_WITH_BIND_MW);
	struct ibv_mw *mw = ibv_alloc_mw(rt_dev_b()->pd, IBV_MW_TYPE_2);
	struct rt_pair p;
	uint32_t rkey;

	if (!mw)
		rt_die("alloc_mw: %s", strerror(errno));
	rt_pair_create(&p, rt_dev_a(), rt_dev_b(), &opt);
	rkey = ibv_inc_rkey(mw->rkey);
	ok = bind(&p.b, mw, rkey) && write_by(&p, rkey, IBV_WC_SUCCESS);
	rt_ok(ok, "%s: BIND_MW, and a WRITE through it", name);
	if (rc) {
		ok = ok && send_inv(&p, rkey);
		rkey = ibv_inc_rkey(rkey);
		ok = ok && bind(&p.b, mw, rkey) &&
		     write_by(&p, rkey, IBV_WC_SUCCESS) && local_inv(&p.b, rkey) &&
		     write_by(&p, rkey, IBV_WC_REM_ACCESS_ERR);
		rt_ok(ok, "RC: SEND_WITH_INV, bound again, LOCAL_INV");
	}
	rt_pair_destroy(&p);
	if (ibv_dealloc_mw(mw))
		rt_die("dealloc_mw: %s", strerror(errno));
}

static void test_atomic_write(void)
{
	struct rt_opt opt = ex_opt(IBV_QPT_RC, IBV_QP_EX_WITH_ATOMIC_WRITE);
	uint64_t value = 0x1122334455667788;
	struct rt_pair p;
	struct ibv_wc wc;

	rt_pair_create(&p, rt_dev_a(), rt_dev_b(), &opt);
	ibv_wr_start(p.a.qpx);
	p.a.qpx->wr_id = 65;
	p.a.qpx->wr_flags = IBV_SEND_SIGNALED;
	ibv_wr_atomic_write(p.a.qpx, bbuf.mr->rkey, (uintptr_t)bbuf.p + 8, &value);
	rt_ok(RT_EQ(ibv_wr_complete(p.a.qpx), 0) &&
	      rt_expect(p.a.scq, 65, IBV_WC_SUCCESS, &wc) && RT_EQ(wc.opcode, 9) &&
	      RT_EQ(*(volatile uint64_t *)(bbuf.p + 8), value), "RC: ATOMIC_WRITE");
	rt_pair_destroy(&p);
}

/* What headers of before v45 have no name for: it follows ATOMIC_WRITE's. */
static void wr_flush(struct rt_qp *q, uint64_t id, const struct rt_buf *buf, size_t len,
		     uint8_t type, uint8_t level)
{
	void (*builder)(struct ibv_qp_ex *qpx, uint32_t rkey, uint64_t addr, size_t len,
			uint8_t type, uint8_t level);

	memcpy(&builder, (char *)q->qpx + offsetof(struct ibv_qp_ex, wr_atomic_write) +
	       sizeof(q->qpx->wr_atomic_write), sizeof(builder));
	q->qpx->wr_id = id;
	q->qpx->wr_flags = IBV_SEND_SIGNALED;
	builder(q->qpx, buf->mr->rkey, (uintptr_t)buf->p, len, type, level);
}

static bool flush(struct rt_pair *p, const struct rt_buf *buf, size_t len, uint8_t type,
		  uint8_t level, enum ibv_wc_status status)
{
	static uint64_t id = 700;
	struct ibv_wc wc;

	ibv_wr_start(p->a.qpx);
	wr_flush(&p->a, ++id, buf, len, type, level);
	return RT_EQ(ibv_wr_complete(p->a.qpx), 0) && rt_expect(p->a.scq, id, status, &wc) &&
	       (status || RT_EQ(wc.opcode, WC_FLUSH));
}

/* WRITE and FLUSH of what it wrote, in one list: the data is there with the second. */
static bool write_and_flush(struct rt_pair *p, const struct rt_buf *buf, size_t len)
{
	struct ibv_wc wc;

	rt_fill(abuf.p, len, ++stream, 0);
	ibv_wr_start(p->a.qpx);
	p->a.qpx->wr_id = 1;
	p->a.qpx->wr_flags = 0;
	ibv_wr_rdma_write(p->a.qpx, buf->mr->rkey, (uintptr_t)buf->p);
	ibv_wr_set_sge(p->a.qpx, abuf.mr->lkey, (uintptr_t)abuf.p, len);
	wr_flush(&p->a, 2, buf, len, FLUSH_GLOBAL, FLUSH_RANGE);
	return RT_EQ(ibv_wr_complete(p->a.qpx), 0) &&
	       rt_expect(p->a.scq, 2, IBV_WC_SUCCESS, &wc) && RT_EQ(wc.opcode, WC_FLUSH) &&
	       rt_check(buf->p, len, stream, 0);
}

static bool knows_flush(const struct rt_opt *opt)
{
	struct rt_qp q;
	int err = rt_qp_create(&q, rt_dev_a(), opt);

	rt_qp_destroy(&q);
	return !err;
}

static bool offers_flush(void)
{
	struct ibv_device_attr_ex attr;

	if (ibv_query_device_ex(rt_dev_b()->ctx, NULL, &attr))
		rt_die("ibv_query_device_ex");
	return attr.device_cap_flags_ex & CAP_FLUSH;
}

static void test_flush(void)
{
	struct rt_opt opt = ex_opt(IBV_QPT_RC, OPS_RC | OPS_FLUSH);
	const size_t len = 8192;
	struct rt_buf buf;
	struct rt_pair p;

	if (!knows_flush(&opt)) {
		rt_skip("RC: FLUSH", "this library has no builder for it");
		return;
	}
	if (!rt_ok(offers_flush(), "RC: the device offers FLUSH"))
		return;
	opt.access |= ACCESS_FLUSH;
	buf = rt_buf(rt_dev_b(), len, RT_ACCESS_ALL | ACCESS_FLUSH);
	rt_pair_create(&p, rt_dev_a(), rt_dev_b(), &opt);
	rt_ok(write_and_flush(&p, &buf, len) &&
	      flush(&p, &buf, 17, FLUSH_GLOBAL, FLUSH_RANGE, IBV_WC_SUCCESS) &&
	      flush(&p, &buf, 0, FLUSH_GLOBAL, FLUSH_MR, IBV_WC_SUCCESS),
	      "RC: FLUSH of what a WRITE wrote, of a range and of a region");
	rt_ok(flush(&p, &buf, 17, FLUSH_PERSIST, FLUSH_RANGE, IBV_WC_REM_INV_REQ_ERR),
	      "RC: FLUSH to persistence is refused");
	rt_pair_destroy(&p);
	rt_buf_free(&buf);
}

/* --- batches --- */

static void add_send(struct ibv_qp_ex *qpx, uint64_t id, size_t len)
{
	build(qpx, IBV_WR_SEND, id);
	ibv_wr_set_sge(qpx, abuf.mr->lkey, (uintptr_t)abuf.p, len);
}

static void test_batches(void)
{
	struct rt_opt opt = ex_opt(IBV_QPT_RC, OPS_RC);
	struct rt_pair p;
	struct ibv_wc wc;
	uint32_t i, room;
	bool ok = true;

	rt_pair_create(&p, rt_dev_a(), rt_dev_b(), &opt);
	for (i = 0; ok && i < 40; i++)
		ok = RT_EQ(rt_post_recv(&p.b, i, &bbuf, 0, 4096), 0);
	ibv_wr_start(p.a.qpx);
	for (i = 0; i < 40; i++)
		add_send(p.a.qpx, i, 10 * i);
	ok = ok && RT_EQ(ibv_wr_complete(p.a.qpx), 0);
	for (i = 0; ok && i < 40; i++)
		ok = rt_expect(p.a.scq, i, IBV_WC_SUCCESS, NULL) &&
		     rt_expect(p.b.rcq, i, IBV_WC_SUCCESS, &wc) &&
		     RT_EQ(wc.byte_len, 10 * i);
	rt_ok(ok, "a batch of 40, in order");

	ibv_wr_start(p.a.qpx);
	for (i = 0; i < 5; i++)
		add_send(p.a.qpx, i, 10);
	ibv_wr_abort(p.a.qpx);
	ok = one(&p, IBV_WR_SEND, SGE, 100, NULL) &&
	     RT_EQ(ibv_poll_cq(p.a.scq, 1, &wc), 0) && RT_EQ(ibv_poll_cq(p.b.rcq, 1, &wc), 0);
	rt_ok(ok, "an aborted batch sends nothing");

	/* the library knows how much the ring holds: more than was asked for */
	room = 2 * p.a.opt.cap.max_send_wr + 2;
	ibv_wr_start(p.a.qpx);
	for (i = 0; i < room; i++)
		add_send(p.a.qpx, i, 10);
	ok = RT_CHECK(ibv_wr_complete(p.a.qpx)) && one(&p, IBV_WR_SEND, SGE, 100, NULL) &&
	     RT_EQ(ibv_poll_cq(p.a.scq, 1, &wc), 0);
	rt_ok(ok, "a batch that does not fit sends nothing");

	/* around the ring many times, only the last of each batch signalled */
	for (i = 0; ok && i < 160; i++) {
		int k;

		ibv_wr_start(p.a.qpx);
		for (k = 0; k < 11; k++) {
			p.a.qpx->wr_id = i;
			p.a.qpx->wr_flags = k == 10 ? IBV_SEND_SIGNALED : 0;
			ibv_wr_rdma_write(p.a.qpx, bbuf.mr->rkey, (uintptr_t)bbuf.p);
			set_data(p.a.qpx, k & 1 ? INLINE : SGE_LIST, i % 100, false);
		}
		ok = RT_EQ(ibv_wr_complete(p.a.qpx), 0) &&
		     rt_expect(p.a.scq, i, IBV_WC_SUCCESS, NULL);
	}
	rt_ok(ok, "160 batches of 11, the last of each signalled");
	rt_pair_destroy(&p);
}

/* --- creation --- */

static int create(enum ibv_qp_type type, uint64_t ops)
{
	struct rt_opt opt = ex_opt(type, ops);
	struct rt_qp q;
	int ret = rt_qp_create(&q, rt_dev_a(), &opt);

	rt_qp_destroy(&q);
	return ret;
}

static void test_create(void)
{
	rt_ok(RT_EQ(create(IBV_QPT_RC, OPS_RC), 0) && RT_EQ(create(IBV_QPT_UC, OPS_UC), 0) &&
	      RT_EQ(create(IBV_QPT_UD, OPS_UD), 0), "extended QPs of RC, UC, UD");
	rt_ok(RT_CHECK(create(IBV_QPT_RC, IBV_QP_EX_WITH_TSO)) &&
	      RT_CHECK(create(IBV_QPT_UC, IBV_QP_EX_WITH_RDMA_READ)) &&
	      RT_CHECK(create(IBV_QPT_UD, IBV_QP_EX_WITH_RDMA_WRITE)) &&
	      RT_CHECK(create(IBV_QPT_XRC_SEND, IBV_QP_EX_WITH_SEND)),
	      "operations that the type does not have are refused");
}

/* --- UD --- */

static struct ibv_ah *ah;
static uint32_t ah_qpn;

static void ud_address(struct ibv_qp_ex *qpx)
{
	ibv_wr_set_ud_addr(qpx, ah, ah_qpn, RT_QKEY);
}

static void test_ud(void)
{
	struct rt_opt opt = ex_opt(IBV_QPT_UD, OPS_UD);
	struct rt_pair p;

	rt_pair_create(&p, rt_dev_a(), rt_dev_b(), &opt);
	ah_qpn = p.b.qp->qp_num;
	ah = rt_ah(rt_dev_a(), rt_dev_b());
	test_setters(&p, "UD", data_ops, 2, ud_address);
	ibv_destroy_ah(ah);
	rt_pair_destroy(&p);
}

/* --- extended CQs --- */

#define WC_FLAGS (IBV_WC_EX_WITH_BYTE_LEN | IBV_WC_EX_WITH_IMM | IBV_WC_EX_WITH_QP_NUM | \
		  IBV_WC_EX_WITH_SRC_QP | IBV_WC_EX_WITH_SLID | IBV_WC_EX_WITH_SL | \
		  IBV_WC_EX_WITH_DLID_PATH_BITS)

static struct ibv_cq_ex *cq_ex(uint32_t cqe, uint64_t wc_flags, uint32_t vector)
{
	struct ibv_cq_init_attr_ex ia = {
		.cqe = cqe, .wc_flags = wc_flags, .comp_vector = vector,
	};

	return ibv_create_cq_ex(rt_dev_b()->ctx, &ia);
}

static int start_poll(struct ibv_cq_ex *cq)
{
	struct ibv_poll_cq_attr attr = { };
	uint64_t end = rt_now_ms() + rt_timeout_ms;
	int ret;

	while ((ret = ibv_start_poll(cq, &attr)) == ENOENT && rt_now_ms() < end)
		usleep(100);
	return ret;
}

static bool check_ex(struct rt_pair *p, struct ibv_cq_ex *cq, uint64_t id)
{
	return RT_EQ(cq->status, IBV_WC_SUCCESS) && RT_EQ(cq->wr_id, id) &&
	       RT_EQ(ibv_wc_read_opcode(cq), IBV_WC_RECV) &&
	       RT_EQ(ibv_wc_read_byte_len(cq), 7 * id) &&
	       RT_EQ(be32toh(ibv_wc_read_imm_data(cq)), IMM) &&
	       RT_EQ(ibv_wc_read_wc_flags(cq), IBV_WC_WITH_IMM) &&
	       RT_EQ(ibv_wc_read_qp_num(cq), p->b.qp->qp_num) &&
	       RT_EQ(ibv_wc_read_slid(cq), 0) && RT_EQ(ibv_wc_read_sl(cq), 0) &&
	       RT_EQ(ibv_wc_read_dlid_path_bits(cq), 0);
}

/* @n messages, all there before the first is looked at. */
static bool send_many(struct rt_pair *p, uint64_t first, int n)
{
	bool ok = true;
	int i;

	for (i = 0; ok && i < n; i++)
		ok = RT_EQ(rt_post_recv(&p->b, first + i, &bbuf, 0, BUF_LEN), 0);
	for (i = 0; ok && i < n; i++) {
		ibv_wr_start(p->a.qpx);
		build(p->a.qpx, IBV_WR_SEND_WITH_IMM, i);
		ibv_wr_set_sge(p->a.qpx, abuf.mr->lkey, (uintptr_t)abuf.p, 7 * (first + i));
		ok = RT_EQ(ibv_wr_complete(p->a.qpx), 0);
	}
	for (i = 0; ok && i < n; i++)
		ok = rt_expect(p->a.scq, i, IBV_WC_SUCCESS, NULL);
	return ok;
}

static void test_cq_ex(void)
{
	struct rt_opt opt = ex_opt(IBV_QPT_RC, OPS_RC), bopt = opt;
	struct ibv_cq_ex *cq = cq_ex(40, WC_FLAGS, 0);
	struct rt_pair p;
	uint64_t id;
	bool ok;
	int i;

	if (!cq)
		rt_die("create_cq_ex: %s", strerror(errno));
	rt_ok(RT_CHECK(!cq_ex(40, IBV_WC_EX_WITH_COMPLETION_TIMESTAMP, 0)) &&
	      RT_CHECK(!cq_ex(40, IBV_WC_EX_WITH_FLOW_TAG, 0)) &&
	      RT_CHECK(!cq_ex(rt_dev_b()->attr.max_cqe + 1, WC_FLAGS, 0)) &&
	      RT_CHECK(!cq_ex(40, WC_FLAGS, rt_dev_b()->ctx->num_comp_vectors)),
	      "extended CQs that cannot be are refused");
	bopt.rcq = ibv_cq_ex_to_cq(cq);
	if (rt_qp_create(&p.a, rt_dev_a(), &opt) || rt_qp_create(&p.b, rt_dev_b(), &bopt))
		rt_die("no QP: %s", strerror(errno));
	rt_connect(&p.a, &p.b);

	ok = RT_EQ(ibv_start_poll(cq, &(struct ibv_poll_cq_attr){ }), ENOENT);
	for (id = 0; ok && id < 100; id++) {
		ok = send_many(&p, id, 1) && RT_EQ(start_poll(cq), 0) && check_ex(&p, cq, id);
		ibv_end_poll(cq);
	}
	ok = ok && RT_EQ(ibv_start_poll(cq, &(struct ibv_poll_cq_attr){ }), ENOENT);
	rt_ok(ok, "100 completions by start and end, every field");

	/*
	 * No next_poll on an empty CQ: providers before v55 step over the end then.
	 */
	for (; ok && id < 400; id += 30) {
		ok = send_many(&p, id, 30) && RT_EQ(start_poll(cq), 0) && check_ex(&p, cq, id);
		for (i = 1; ok && i < 30; i++)
			ok = RT_EQ(ibv_next_poll(cq), 0) && check_ex(&p, cq, id + i);
		ibv_end_poll(cq);
	}
	ok = ok && RT_EQ(ibv_start_poll(cq, &(struct ibv_poll_cq_attr){ }), ENOENT);
	rt_ok(ok, "300 completions by start, next and end, every field");

	rt_pair_destroy(&p);
	ibv_destroy_cq(ibv_cq_ex_to_cq(cq));
}

int main(int argc, char **argv)
{
	rt_parse(argc, argv);
	abuf = rt_buf(rt_dev_a(), BUF_LEN, RT_ACCESS_ALL);
	bbuf = rt_buf(rt_dev_b(), BUF_LEN, RT_ACCESS_ALL | IBV_ACCESS_MW_BIND);
	stream = rt_args.seed;
	rt_diag("seed %llu", (unsigned long long)rt_args.seed);
	test_create();
	test_connected(IBV_QPT_RC, "RC", OPS_RC);
	test_connected(IBV_QPT_UC, "UC", OPS_UC);
	test_ud();
	test_fetch();
	test_keys(IBV_QPT_RC, "RC");
	test_keys(IBV_QPT_UC, "UC");
	test_atomic_write();
	test_flush();
	test_batches();
	test_cq_ex();
	return rt_done();
}
