// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * rc_ops - every RC opcode with its data checked.
 *
 * usage: rc_ops [-d DEV] [-D DEV2] [-g GID] [-G GID2] [-s SEED]
 *
 * Two QPs in one process, on one device or on two (-D). SEND, SEND with
 * immediate, WRITE, WRITE with immediate and READ in sizes around every
 * border, at each path MTU up to the active one; SGE lists; inline; fence;
 * signalled, unsignalled and solicited requests; atomics; the builder API.
 * Bytes next to each target must stay as they were.
 *
 * Output: TAP. Exit code: 0 all ok, 1 a check failed, 2 could not run.
 */
#include "rt.h"

#define BUF_LEN		(3 << 20)
#define GUARD		16
#define GUARD_BYTE	0xa5
#define MAX_SGE		32
#define IMM		0x12345678
#define MOST_INLINE	512	/* what the device can do */

static const size_t mtu_bytes[] = { 0, 256, 512, 1024, 2048, 4096 };

static struct rt_buf abuf, bbuf;
static uint64_t stream;

enum how { LEGACY, EX_SGE, EX_SGE_LIST, EX_INLINE };

struct xfer {
	enum ibv_wr_opcode op;
	size_t len;
	unsigned int flags;
	int src_sges;		/* 0: no SGE at all (len must be 0) */
	int dst_sges;
	enum how how;
};

static const char *op_name(enum ibv_wr_opcode op)
{
	switch (op) {
	case IBV_WR_SEND:
		return "SEND";
	case IBV_WR_SEND_WITH_IMM:
		return "SEND_IMM";
	case IBV_WR_RDMA_WRITE:
		return "WRITE";
	case IBV_WR_RDMA_WRITE_WITH_IMM:
		return "WRITE_IMM";
	case IBV_WR_RDMA_READ:
		return "READ";
	case IBV_WR_ATOMIC_CMP_AND_SWP:
		return "CMP_SWP";
	case IBV_WR_ATOMIC_FETCH_AND_ADD:
		return "FETCH_ADD";
	default:
		return "?";
	}
}

static enum ibv_wc_opcode wc_opcode(enum ibv_wr_opcode op)
{
	switch (op) {
	case IBV_WR_RDMA_WRITE:
	case IBV_WR_RDMA_WRITE_WITH_IMM:
		return IBV_WC_RDMA_WRITE;
	case IBV_WR_RDMA_READ:
		return IBV_WC_RDMA_READ;
	case IBV_WR_ATOMIC_CMP_AND_SWP:
		return IBV_WC_COMP_SWAP;
	case IBV_WR_ATOMIC_FETCH_AND_ADD:
		return IBV_WC_FETCH_ADD;
	default:
		return IBV_WC_SEND;
	}
}

static bool is_send(enum ibv_wr_opcode op)
{
	return op == IBV_WR_SEND || op == IBV_WR_SEND_WITH_IMM;
}

static bool has_imm(enum ibv_wr_opcode op)
{
	return op == IBV_WR_SEND_WITH_IMM || op == IBV_WR_RDMA_WRITE_WITH_IMM;
}

static bool takes_recv(enum ibv_wr_opcode op)
{
	return is_send(op) || has_imm(op);
}

/*
 * Spread @len bytes over @n SGEs of odd lengths, every fifth one empty, with
 * GUARD bytes between any two. Returns the bytes of the buffer used.
 */
static size_t spread(struct rt_buf *b, size_t len, int n, struct ibv_sge *sge)
{
	size_t off = GUARD + 1, left = len, part;
	int i;

	for (i = 0; i < n; i++) {
		part = left;
		if (i < n - 1) {
			part = i % 5 == 3 ? 0 : (left / (n - i)) | 1;
			if (part > left)
				part = left;
		}
		sge[i].addr = (uintptr_t)b->p + off;
		sge[i].length = part;
		sge[i].lkey = b->mr->lkey;
		off += part + GUARD;
		left -= part;
	}
	return off + GUARD;
}

static void fill_sges(struct ibv_sge *sge, int n)
{
	size_t pos = 0;
	int i;

	for (i = 0; i < n; i++) {
		rt_fill((void *)(uintptr_t)sge[i].addr, sge[i].length, stream,
			pos);
		pos += sge[i].length;
	}
}

/* @total bytes of the stream are in the SGEs, and nothing else was written. */
static bool check_sges(struct rt_buf *b, size_t used, struct ibv_sge *sge,
		       int n, size_t total)
{
	uint8_t *p = b->p;
	size_t pos = 0;
	int i;

	for (i = 0; i < n; i++) {
		size_t len = sge[i].length;
		uint8_t *start = (void *)(uintptr_t)sge[i].addr;

		if (len > total - pos)
			len = total - pos;
		for (; p < start; p++)
			if (!RT_EQ(*p, GUARD_BYTE))
				return false;
		if (!rt_check(start, len, stream, pos))
			return false;
		pos += len;
		p = start + len;
	}
	for (; p < b->p + used; p++)
		if (!RT_EQ(*p, GUARD_BYTE))
			return false;
	return pos == total;
}

static int post_ex(struct rt_qp *q, const struct xfer *x, uint64_t id,
		   struct ibv_sge *sge, uint64_t raddr, uint32_t rkey)
{
	struct ibv_qp_ex *qpx = q->qpx;

	ibv_wr_start(qpx);
	qpx->wr_id = id;
	qpx->wr_flags = x->flags;
	switch (x->op) {
	case IBV_WR_SEND:
		ibv_wr_send(qpx);
		break;
	case IBV_WR_SEND_WITH_IMM:
		ibv_wr_send_imm(qpx, htobe32(IMM));
		break;
	case IBV_WR_RDMA_WRITE:
		ibv_wr_rdma_write(qpx, rkey, raddr);
		break;
	case IBV_WR_RDMA_WRITE_WITH_IMM:
		ibv_wr_rdma_write_imm(qpx, rkey, raddr, htobe32(IMM));
		break;
	case IBV_WR_RDMA_READ:
		ibv_wr_rdma_read(qpx, rkey, raddr);
		break;
	default:
		rt_die("no builder for opcode %d", x->op);
	}
	if (x->how == EX_SGE)
		ibv_wr_set_sge(qpx, sge[0].lkey, sge[0].addr, sge[0].length);
	else if (x->how == EX_SGE_LIST)
		ibv_wr_set_sge_list(qpx, x->src_sges, sge);
	else
		ibv_wr_set_inline_data(qpx, (void *)(uintptr_t)sge[0].addr,
				       sge[0].length);
	return ibv_wr_complete(qpx);
}

static int post(struct rt_qp *q, const struct xfer *x, uint64_t id,
		struct ibv_sge *sge, uint64_t raddr, uint32_t rkey)
{
	struct ibv_send_wr wr = rt_wr(id, x->op, x->flags, sge, x->src_sges);

	if (x->how != LEGACY)
		return post_ex(q, x, id, sge, raddr, rkey);
	wr.imm_data = htobe32(IMM);
	wr.wr.rdma.remote_addr = raddr;
	wr.wr.rdma.rkey = rkey;
	return rt_post(q, &wr);
}

static bool check_recv_wc(struct rt_qp *q, const struct xfer *x,
			  const struct ibv_wc *wc)
{
	return RT_EQ(wc->opcode, is_send(x->op) ? IBV_WC_RECV :
		     IBV_WC_RECV_RDMA_WITH_IMM) &&
	       RT_EQ(wc->byte_len, x->len) &&
	       RT_EQ(wc->qp_num, q->qp->qp_num) &&
	       RT_EQ(!!(wc->wc_flags & IBV_WC_WITH_IMM), has_imm(x->op)) &&
	       RT_EQ(!!(wc->wc_flags & IBV_WC_WITH_INV), 0) &&
	       (!has_imm(x->op) || RT_EQ(be32toh(wc->imm_data), IMM));
}

/*
 * One request from a to b with everything about it checked. The contiguous
 * far side of WRITE and READ starts at an odd address.
 */
static bool xfer(struct rt_pair *p, const struct xfer *x)
{
	struct ibv_sge lsge[MAX_SGE], rsge[MAX_SGE];
	bool read = x->op == IBV_WR_RDMA_READ, ok;
	int nr = is_send(x->op) ? x->dst_sges : 1;
	size_t lused, rused;
	static uint64_t id = 1000;
	struct ibv_wc wc;

	id++;
	stream++;
	lused = spread(&abuf, x->len, x->src_sges, lsge);
	rused = spread(&bbuf, x->len, nr, rsge);
	memset(abuf.p, GUARD_BYTE, lused);
	memset(bbuf.p, GUARD_BYTE, rused);
	if (read)
		fill_sges(rsge, nr);
	else
		fill_sges(lsge, x->src_sges);

	if (takes_recv(x->op)) {
		struct ibv_recv_wr wr = {
			.wr_id = id,
			.sg_list = rsge,
			.num_sge = is_send(x->op) ? nr : 0,
		}, *bad;

		if (!RT_EQ(ibv_post_recv(p->b.qp, &wr, &bad), 0))
			return false;
	}
	ok = RT_EQ(post(&p->a, x, id, lsge, nr ? rsge[0].addr : 0,
			bbuf.mr->rkey), 0);
	/* Inline data belongs to the library once the post is back. */
	if (ok && (x->flags & IBV_SEND_INLINE || x->how == EX_INLINE))
		memset(abuf.p, 0, lused);
	if (ok && takes_recv(x->op))
		ok = rt_expect(p->b.rcq, id, IBV_WC_SUCCESS, &wc) &&
		     check_recv_wc(&p->b, x, &wc);
	if (ok && (x->flags & IBV_SEND_SIGNALED || p->a.opt.sig_all))
		ok = rt_expect(p->a.scq, id, IBV_WC_SUCCESS, &wc) &&
		     RT_EQ(wc.opcode, wc_opcode(x->op)) &&
		     RT_EQ(wc.qp_num, p->a.qp->qp_num) &&
		     (!read || RT_EQ(wc.byte_len, x->len));
	if (ok)
		ok = read ? check_sges(&abuf, lused, lsge, x->src_sges, x->len) :
			    check_sges(&bbuf, rused, rsge, nr, x->len);
	if (!ok)
		rt_diag("%s of %zu bytes, %d to %d SGEs, flags 0x%x",
			op_name(x->op), x->len, x->src_sges, x->dst_sges,
			x->flags);
	return ok;
}

static const enum ibv_wr_opcode ops[] = {
	IBV_WR_SEND, IBV_WR_SEND_WITH_IMM, IBV_WR_RDMA_WRITE,
	IBV_WR_RDMA_WRITE_WITH_IMM, IBV_WR_RDMA_READ,
};

static void test_sizes(enum ibv_wr_opcode op, enum ibv_mtu mtu)
{
	size_t m = mtu_bytes[mtu];
	const size_t sizes[] = {
		0, 1, 3, 4, m - 1, m, m + 1, 2 * m, 3 * m - 1, 65536 + 5,
		(1 << 20) + 3
	};
	struct rt_opt opt = rt_defaults;
	struct rt_pair p;
	bool ok = true;
	unsigned int i, n = ARRAY_SIZE(sizes);

	/* The longest one has so many small packets: once is enough. */
	if (mtu != rt_dev_a()->port.active_mtu)
		n--;
	opt.mtu = mtu;
	rt_pair_create(&p, rt_dev_a(), rt_dev_b(), &opt);
	for (i = 0; ok && i < n; i++) {
		struct xfer x = {
			.op = op, .len = sizes[i], .src_sges = 1, .dst_sges = 1,
			.flags = IBV_SEND_SIGNALED,
		};

		ok = xfer(&p, &x);
	}
	rt_ok(ok, "%s, sizes 0 to %zu, path MTU %zu", op_name(op),
	      sizes[n - 1], m);
	rt_pair_destroy(&p);
}

static void test_sges(enum ibv_wr_opcode op)
{
	static const int counts[] = { 1, 2, 7, 32 };
	static const size_t lens[] = { 0, 5, 33, 1000, 4097, 70001 };
	struct rt_opt opt = rt_defaults;
	struct rt_pair p;
	bool ok = true;
	int i, j, k;

	opt.cap.max_send_sge = MAX_SGE;
	opt.cap.max_recv_sge = MAX_SGE;
	rt_pair_create(&p, rt_dev_a(), rt_dev_b(), &opt);
	for (i = 0; i < ARRAY_SIZE(counts); i++)
		for (j = 0; j < (is_send(op) ? ARRAY_SIZE(counts) : 1); j++)
			for (k = 0; ok && k < ARRAY_SIZE(lens); k++) {
				struct xfer x = {
					.op = op, .len = lens[k],
					.src_sges = counts[i],
					.dst_sges = counts[j],
					.flags = IBV_SEND_SIGNALED,
				};

				ok = xfer(&p, &x);
			}
	if (ok) {
		struct xfer x = {
			.op = op, .flags = IBV_SEND_SIGNALED, .dst_sges = 1,
		};

		ok = xfer(&p, &x);
	}
	rt_ok(ok, "%s, SGE lists of 1, 2, 7, 32 and none", op_name(op));
	rt_pair_destroy(&p);
}

static void test_inline(enum ibv_wr_opcode op)
{
	struct rt_opt opt = rt_defaults;
	uint32_t lkey = abuf.mr->lkey;
	struct rt_pair p;
	bool ok = true;
	size_t len;

	rt_pair_create(&p, rt_dev_a(), rt_dev_b(), &opt);
	abuf.mr->lkey = 0xdead;		/* must not matter */
	for (len = 0; ok && len <= 64; len += len % 4 == 3 ? 9 : 1) {
		struct xfer x = {
			.op = op, .len = len, .src_sges = len % 3 + 1,
			.dst_sges = 1,
			.flags = IBV_SEND_SIGNALED | IBV_SEND_INLINE,
		};

		ok = xfer(&p, &x);
	}
	abuf.mr->lkey = lkey;
	rt_ok(ok, "%s inline, lkey not looked at", op_name(op));
	rt_pair_destroy(&p);
}

/* As much as create_qp said, and one byte more. */
static void test_inline_most(enum ibv_wr_opcode op)
{
	struct rt_opt opt = rt_defaults;
	struct ibv_sge sge = { .addr = (uintptr_t)abuf.p };
	struct ibv_send_wr wr = rt_wr(1, op, IBV_SEND_INLINE, &sge, 1);
	struct rt_pair p;
	uint32_t most;
	bool ok;
	int i;

	opt.cap.max_inline_data = MOST_INLINE;
	rt_pair_create(&p, rt_dev_a(), rt_dev_b(), &opt);
	most = p.a.opt.cap.max_inline_data;
	ok = RT_CHECK(most >= MOST_INLINE);
	for (i = 0; ok && i < 8; i++) {
		const size_t len[] = { 65, 128, 129, 256, 257, 509, most - 1, most };
		struct xfer x = {
			.op = op, .len = len[i], .src_sges = i % 4 + 1, .dst_sges = 1,
			.flags = IBV_SEND_SIGNALED | IBV_SEND_INLINE,
		};

		ok = xfer(&p, &x);
	}
	sge.length = most + 1;
	rt_ok(ok && RT_CHECK(rt_post(&p.a, &wr)) && RT_EQ(rt_state(&p.a), IBV_QPS_RTS),
	      "%s inline, to %u bytes and no further", op_name(op), most);
	rt_pair_destroy(&p);
}

static void test_flags(void)
{
	struct rt_opt opt = rt_defaults;
	struct rt_pair p;
	struct ibv_wc wc;
	bool ok = true;
	int i;

	rt_pair_create(&p, rt_dev_a(), rt_dev_b(), &opt);
	for (i = 0; ok && i < ARRAY_SIZE(ops); i++) {
		struct xfer x = {
			.op = ops[i], .len = 3000, .src_sges = 1, .dst_sges = 1,
			.flags = IBV_SEND_SIGNALED | IBV_SEND_FENCE |
				 IBV_SEND_SOLICITED,
		};

		ok = xfer(&p, &x);
	}
	rt_ok(ok, "fence and solicited flags on every opcode");

	/* Nothing but every tenth request completes. */
	ok = true;
	for (i = 0; ok && i < 200; i++) {
		struct xfer x = {
			.op = IBV_WR_SEND, .len = 100, .src_sges = 1,
			.dst_sges = 1,
			.flags = i % 10 == 9 ? IBV_SEND_SIGNALED : 0,
		};

		ok = xfer(&p, &x);
	}
	ok = ok && RT_EQ(ibv_poll_cq(p.a.scq, 1, &wc), 0);
	rt_ok(ok, "unsignalled requests complete silently and free their slots");
	rt_pair_destroy(&p);

	opt.sig_all = true;
	rt_pair_create(&p, rt_dev_a(), rt_dev_b(), &opt);
	ok = true;
	for (i = 0; ok && i < ARRAY_SIZE(ops); i++) {
		struct xfer x = {
			.op = ops[i], .len = 8, .src_sges = 1, .dst_sges = 1,
		};

		ok = xfer(&p, &x);
	}
	rt_ok(ok, "sq_sig_all completes requests without the flag");
	rt_pair_destroy(&p);
}

/* READ then a fenced SEND of what was read: needs the fence to be right. */
static void test_fence(void)
{
	struct rt_opt opt = rt_defaults;
	struct ibv_sge rd, sd;
	struct ibv_send_wr w1, w2;
	struct rt_pair p;
	bool ok = true;
	int i;

	rt_pair_create(&p, rt_dev_a(), rt_dev_b(), &opt);
	for (i = 0; ok && i < 50; i++) {
		size_t len = 1 + i * 911;

		stream++;
		memset(abuf.p, 0, len);
		memset(bbuf.p + (1 << 20), 0, len);
		rt_fill(bbuf.p, len, stream, 0);
		rd.addr = (uintptr_t)abuf.p;
		rd.length = len;
		rd.lkey = abuf.mr->lkey;
		sd = rd;
		w1 = rt_wr(1, IBV_WR_RDMA_READ, 0, &rd, 1);
		w1.wr.rdma.remote_addr = (uintptr_t)bbuf.p;
		w1.wr.rdma.rkey = bbuf.mr->rkey;
		w1.next = &w2;
		w2 = rt_wr(2, IBV_WR_SEND, IBV_SEND_FENCE | IBV_SEND_SIGNALED,
			   &sd, 1);
		ok = RT_EQ(rt_post_recv(&p.b, 3, &bbuf, 1 << 20, len), 0) &&
		     RT_EQ(rt_post(&p.a, &w1), 0) &&
		     rt_expect(p.a.scq, 2, IBV_WC_SUCCESS, NULL) &&
		     rt_expect(p.b.rcq, 3, IBV_WC_SUCCESS, NULL) &&
		     rt_check(bbuf.p + (1 << 20), len, stream, 0);
	}
	rt_ok(ok, "a fenced SEND carries what the READ before it brought");
	rt_pair_destroy(&p);
}

static bool atomic(struct rt_pair *p, bool swap, uint64_t arg1, uint64_t arg2,
		   uint64_t *old)
{
	struct ibv_sge sge = {
		.addr = (uintptr_t)abuf.p + 64,
		.length = 8,
		.lkey = abuf.mr->lkey,
	};
	struct ibv_send_wr wr = rt_wr(7, swap ? IBV_WR_ATOMIC_CMP_AND_SWP :
				      IBV_WR_ATOMIC_FETCH_AND_ADD,
				      IBV_SEND_SIGNALED, &sge, 1);
	struct ibv_wc wc;

	wr.wr.atomic.remote_addr = (uintptr_t)bbuf.p + 128;
	wr.wr.atomic.rkey = bbuf.mr->rkey;
	wr.wr.atomic.compare_add = arg1;
	wr.wr.atomic.swap = arg2;
	if (!RT_EQ(rt_post(&p->a, &wr), 0) ||
	    !rt_expect(p->a.scq, 7, IBV_WC_SUCCESS, &wc) ||
	    !RT_EQ(wc.opcode, wc_opcode(wr.opcode)) ||
	    !RT_EQ(wc.byte_len, 8))
		return false;
	memcpy(old, abuf.p + 64, 8);
	return true;
}

static void test_atomics(void)
{
	volatile uint64_t *far = (void *)(bbuf.p + 128);
	const uint64_t big = 0xfedcba9876543210ull;
	struct rt_opt opt = rt_defaults;
	struct rt_pair p;
	uint64_t old, sum;
	bool ok = true;
	int i;

	rt_pair_create(&p, rt_dev_a(), rt_dev_b(), &opt);
	*far = 5;
	rt_ok(atomic(&p, true, 5, big, &old) && RT_EQ(old, 5) &&
	      RT_EQ(*far, big), "CMP_SWP that matches swaps");
	rt_ok(atomic(&p, true, 6, 1, &old) && RT_EQ(old, big) &&
	      RT_EQ(*far, big), "CMP_SWP that differs leaves the value");
	for (sum = big, i = 0; ok && i < 300; i++) {
		uint64_t add = (uint64_t)i << (i % 60);

		ok = atomic(&p, false, add, 0, &old) && RT_EQ(old, sum);
		sum += add;
		ok = ok && RT_EQ(*far, sum);
	}
	rt_ok(ok, "300 FETCH_ADDs sum up and give the values between");
	rt_pair_destroy(&p);
}

/* Sixteen atomics and READs at a time, each result must be its own. */
static void test_atomic_pipeline(void)
{
	volatile uint64_t *far = (void *)(bbuf.p + 128);
	uint64_t *near = (void *)(abuf.p + 4096);
	struct rt_opt opt = rt_defaults;
	struct ibv_sge sge[48];
	struct ibv_send_wr wr;
	struct rt_pair p;
	bool ok = true;
	int i;

	rt_pair_create(&p, rt_dev_a(), rt_dev_b(), &opt);
	*far = 1000;
	for (i = 0; ok && i < 48; i++) {
		bool read = i % 3 == 2;

		sge[i].addr = (uintptr_t)&near[i];
		sge[i].length = 8;
		sge[i].lkey = abuf.mr->lkey;
		wr = rt_wr(i, read ? IBV_WR_RDMA_READ :
			   IBV_WR_ATOMIC_FETCH_AND_ADD, IBV_SEND_SIGNALED,
			   &sge[i], 1);
		if (read) {
			wr.wr.rdma.remote_addr = (uintptr_t)far;
			wr.wr.rdma.rkey = bbuf.mr->rkey;
		} else {
			wr.wr.atomic.remote_addr = (uintptr_t)far;
			wr.wr.atomic.rkey = bbuf.mr->rkey;
			wr.wr.atomic.compare_add = 1;
		}
		ok = RT_EQ(rt_post(&p.a, &wr), 0);
	}
	for (i = 0; ok && i < 48; i++)
		ok = rt_expect(p.a.scq, i, IBV_WC_SUCCESS, NULL);
	/* A READ may see later atomics, but none from before it is missing. */
	for (i = 0; ok && i < 48; i++) {
		uint64_t done = 1000 + i / 3 * 2 + i % 3;

		ok = i % 3 == 2 ? RT_CHECK(near[i] >= done && near[i] <= 1032) :
				  RT_EQ(near[i], done);
	}
	rt_ok(ok && RT_EQ(*far, 1032), "48 atomics and READs in flight");
	rt_pair_destroy(&p);
}

static const struct {
	enum how how;
	unsigned int flags;
	int sges;
	const char *name;
} builders[] = {
	{ EX_SGE, 0, 1, "set_sge" },
	{ EX_SGE_LIST, 0, 7, "set_sge_list of unequal lengths" },
	{ EX_INLINE, 0, 1, "set_inline_data without the INLINE flag" },
	{ EX_INLINE, IBV_SEND_INLINE, 1, "set_inline_data with the INLINE flag" },
};

static void test_builder(unsigned int b)
{
	static const size_t lens[] = { 0, 1, 8, 41, 64, 3001, 20003 };
	struct rt_opt opt = rt_defaults;
	struct rt_pair p;
	bool ok = true;
	int i, j;

	opt.cap.max_send_sge = 8;
	opt.ops = IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_SEND_WITH_IMM |
		  IBV_QP_EX_WITH_RDMA_WRITE |
		  IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM |
		  IBV_QP_EX_WITH_RDMA_READ;
	rt_pair_create(&p, rt_dev_a(), rt_dev_b(), &opt);
	for (i = 0; i < ARRAY_SIZE(ops); i++) {
		for (j = 0; ok && j < ARRAY_SIZE(lens); j++) {
			struct xfer x = {
				.op = ops[i], .len = lens[j],
				.src_sges = builders[b].sges, .dst_sges = 1,
				.flags = builders[b].flags | IBV_SEND_SIGNALED,
				.how = builders[b].how,
			};

			if (x.how == EX_INLINE &&
			    (x.op == IBV_WR_RDMA_READ || x.len > 64))
				continue;
			ok = xfer(&p, &x);
		}
	}
	rt_ok(ok, "builder API, %s", builders[b].name);
	rt_pair_destroy(&p);
}

int main(int argc, char **argv)
{
	enum ibv_mtu mtu, max;
	int i;

	rt_parse(argc, argv);
	abuf = rt_buf(rt_dev_a(), BUF_LEN, RT_ACCESS_ALL);
	bbuf = rt_buf(rt_dev_b(), BUF_LEN, RT_ACCESS_ALL);
	stream = rt_args.seed;
	rt_diag("seed %llu", (unsigned long long)rt_args.seed);
	max = rt_dev_a()->port.active_mtu;
	if (rt_dev_b()->port.active_mtu < max)
		max = rt_dev_b()->port.active_mtu;

	for (mtu = IBV_MTU_256; mtu <= max; mtu += rt_slow() ? 2 : 1)
		for (i = 0; i < ARRAY_SIZE(ops); i++)
			test_sizes(ops[i], mtu);
	for (i = 0; i < ARRAY_SIZE(ops); i++)
		test_sges(ops[i]);
	for (i = 0; i < ARRAY_SIZE(ops) - 1; i++)
		test_inline(ops[i]);
	test_inline_most(IBV_WR_SEND);
	test_inline_most(IBV_WR_RDMA_WRITE_WITH_IMM);
	test_flags();
	test_fence();
	test_atomics();
	test_atomic_pipeline();
	for (i = 0; i < ARRAY_SIZE(builders); i++)
		test_builder(i);
	return rt_done();
}
