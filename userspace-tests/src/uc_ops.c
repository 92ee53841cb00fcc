// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * uc_ops - UC: opcodes with their data, states and attributes, errors.
 *
 * usage: uc_ops [-d DEV] [-D DEV2] [-g GID] [-G GID2] [-s SEED] [-- loss | order]
 *
 * With the argument "loss" the path loses packets: what arrives must be whole, in
 * order and once, some messages must be missing and most must be there.
 *
 * Two QPs in one process, on one device or on two (-D), over a path that does
 * not lose packets on its own. What the peer must refuse is dropped in silence
 * and the message after it arrives; what is wrong at the sender ends in SQE,
 * from which the QP comes back.
 *
 * Output: TAP. Exit code: 0 all ok, 1 a check failed, 2 could not run.
 */
#include "rt.h"

#define BUF_LEN		(1 << 20)
#define IMM		0x87654321

static struct rt_buf abuf, bbuf;
static uint64_t stream;

static struct rt_opt uc_opt(void)
{
	struct rt_opt opt = rt_defaults;

	opt.type = IBV_QPT_UC;
	return opt;
}

static void pair(struct rt_pair *p, const struct rt_opt *opt)
{
	struct rt_opt uc = uc_opt();

	rt_drain_events(rt_dev_a());
	rt_drain_events(rt_dev_b());
	rt_pair_create(p, rt_dev_a(), rt_dev_b(), opt ? opt : &uc);
}

static struct ibv_sge sge_of(struct rt_buf *b, size_t off, size_t len)
{
	return (struct ibv_sge) {
		.addr = (uintptr_t)b->p + off,
		.length = len,
		.lkey = b->mr->lkey,
	};
}

static bool has_imm(enum ibv_wr_opcode op)
{
	return op == IBV_WR_SEND_WITH_IMM || op == IBV_WR_RDMA_WRITE_WITH_IMM;
}

static bool is_write(enum ibv_wr_opcode op)
{
	return op == IBV_WR_RDMA_WRITE || op == IBV_WR_RDMA_WRITE_WITH_IMM;
}

/* A request for @len bytes from the start of abuf to the start of bbuf. */
static struct ibv_send_wr request(uint64_t id, enum ibv_wr_opcode op,
				  struct ibv_sge *sge, size_t len)
{
	struct ibv_send_wr wr = rt_wr(id, op, IBV_SEND_SIGNALED, sge, 1);

	*sge = sge_of(&abuf, 0, len);
	wr.imm_data = htobe32(IMM);
	wr.wr.rdma.remote_addr = (uintptr_t)bbuf.p;
	wr.wr.rdma.rkey = bbuf.mr->rkey;
	return wr;
}

/* The last byte of a plain WRITE: nothing else tells that it has come. */
static void wait_last_byte(size_t len)
{
	volatile uint8_t *last = bbuf.p + len - 1;
	uint64_t end = rt_now_ms() + rt_timeout_ms;

	while (len && *last != abuf.p[len - 1] && rt_now_ms() <= end)
		usleep(100);
}

static bool check_recv(struct rt_pair *p, uint64_t id, enum ibv_wr_opcode op,
		       size_t len)
{
	struct ibv_wc wc;

	return rt_expect(p->b.rcq, id, IBV_WC_SUCCESS, &wc) &&
	       RT_EQ(wc.byte_len, len) &&
	       RT_EQ(wc.opcode, is_write(op) ? IBV_WC_RECV_RDMA_WITH_IMM :
					       IBV_WC_RECV) &&
	       RT_EQ(wc.qp_num, p->b.qp->qp_num) &&
	       RT_EQ(wc.wc_flags, has_imm(op) ? IBV_WC_WITH_IMM : 0) &&
	       (!has_imm(op) || RT_EQ(be32toh(wc.imm_data), IMM));
}

static bool xfer(struct rt_pair *p, enum ibv_wr_opcode op, size_t len,
		 unsigned int flags)
{
	static uint64_t id = 100;
	struct ibv_send_wr wr;
	struct ibv_sge sge;
	struct ibv_wc wc;

	id++;
	stream++;
	rt_fill(abuf.p, len, stream, 0);
	memset(bbuf.p, ~(len ? abuf.p[len - 1] : 0), len + 1);
	wr = request(id, op, &sge, len);
	wr.send_flags |= flags;
	if (op != IBV_WR_RDMA_WRITE &&
	    !RT_EQ(rt_post_recv(&p->b, id, &bbuf, 0, is_write(op) ? 0 : len), 0))
		return false;
	if (!RT_EQ(rt_post(&p->a, &wr), 0) ||
	    !rt_expect(p->a.scq, id, IBV_WC_SUCCESS, &wc) ||
	    !RT_EQ(wc.opcode, is_write(op) ? IBV_WC_RDMA_WRITE : IBV_WC_SEND))
		return false;
	if (op == IBV_WR_RDMA_WRITE)
		wait_last_byte(len);
	else if (!check_recv(p, id, op, len))
		return false;
	if (!rt_check(bbuf.p, len, stream, 0)) {
		rt_diag("opcode %d, %zu bytes", op, len);
		return false;
	}
	return true;
}

static const struct {
	enum ibv_wr_opcode op;
	const char *name;
} ops[] = {
	{ IBV_WR_SEND, "SEND" },
	{ IBV_WR_SEND_WITH_IMM, "SEND_IMM" },
	{ IBV_WR_RDMA_WRITE, "WRITE" },
	{ IBV_WR_RDMA_WRITE_WITH_IMM, "WRITE_IMM" },
};

static void test_sizes(unsigned int i, enum ibv_mtu mtu)
{
	size_t m = 128 << mtu;
	const size_t sizes[] = { 0, 1, 3, m - 1, m, m + 1, 2 * m, 3 * m - 1,
				 20 * m + 5 };
	struct rt_opt opt = uc_opt();
	struct rt_pair p;
	bool ok = true;
	unsigned int k;

	opt.mtu = mtu;
	pair(&p, &opt);
	for (k = 0; ok && k < ARRAY_SIZE(sizes); k++)
		ok = xfer(&p, ops[i].op, sizes[k], 0);
	for (k = 0; ok && k <= 64; k += 16)
		ok = xfer(&p, ops[i].op, k, IBV_SEND_INLINE);
	rt_ok(ok, "%s, sizes 0 to %zu and inline, path MTU %zu", ops[i].name,
	      20 * m + 5, m);
	rt_pair_destroy(&p);
}

/* Many in flight: completions in order, each receive used once. */
static void test_stream(void)
{
	struct rt_opt opt = uc_opt();
	bool ok = true;
	struct rt_pair p;
	int i, k;

	pair(&p, &opt);
	for (k = 0; ok && k < 10; k++) {
		struct ibv_send_wr wr;
		struct ibv_sge sge;

		for (i = 0; ok && i < 32; i++)
			ok = RT_EQ(rt_post_recv(&p.b, i, &bbuf, 0, 3000), 0);
		for (i = 0; ok && i < 32; i++) {
			wr = request(i, IBV_WR_SEND, &sge, 90 * i + 1);
			ok = RT_EQ(rt_post(&p.a, &wr), 0);
		}
		for (i = 0; ok && i < 32; i++) {
			struct ibv_wc wc;

			ok = rt_expect(p.a.scq, i, IBV_WC_SUCCESS, NULL) &&
			     rt_expect(p.b.rcq, i, IBV_WC_SUCCESS, &wc) &&
			     RT_EQ(wc.byte_len, 90 * i + 1);
		}
	}
	rt_ok(ok, "320 messages, 32 at a time, in order");
	rt_pair_destroy(&p);
}

/*
 * A process that streams is moved between processors and served by another one;
 * its messages must not overtake each other on the way through the host.
 */
#define ORDER_WINDOW	256

/* Take the completions of message @i at both ends. */
static bool order_take(struct rt_pair *p, int i)
{
	struct ibv_wc wc;

	return rt_expect(p->a.scq, i, IBV_WC_SUCCESS, NULL) &&
	       rt_expect(p->b.rcq, i, IBV_WC_SUCCESS, &wc) &&
	       RT_EQ(be32toh(wc.imm_data), i);
}

static void test_order(void)
{
	struct rt_opt opt = uc_opt();
	int posted, done = 0, n = rt_slow() ? 4000 : 20000;
	struct ibv_send_wr wr;
	struct ibv_sge sge;
	struct rt_pair p;
	bool ok = true;

	opt.cap.max_send_wr = ORDER_WINDOW;
	opt.cap.max_recv_wr = ORDER_WINDOW;
	pair(&p, &opt);
	for (posted = 0; ok && posted < n; posted++) {
		wr = request(posted, IBV_WR_SEND_WITH_IMM, &sge,
			     posted & 512 ? 8 : posted % 32 * 90 + 1);
		wr.imm_data = htobe32(posted);
		ok = RT_EQ(rt_post_recv(&p.b, posted, &bbuf, 0, 3000), 0) &&
		     RT_EQ(rt_post(&p.a, &wr), 0) &&
		     (posted - done < ORDER_WINDOW - 1 || order_take(&p, done++));
	}
	while (ok && done < n)
		ok = order_take(&p, done++);
	rt_ok(ok, "%d messages in a stream, in order, none missing", n);
	rt_pair_destroy(&p);
}

/* What needs answers or attributes that UC does not have is refused. */
static void test_attributes(void)
{
	struct ibv_qp_attr a = { .qp_state = IBV_QPS_RTR };
	struct ibv_qp_init_attr ia;
	struct rt_opt opt = uc_opt();
	struct rt_pair p;
	struct rt_qp q;

	if (rt_qp_create(&q, rt_dev_a(), &opt) || rt_to_init(&q))
		rt_die("no QP");
	rt_ok(RT_EQ(ibv_modify_qp(q.qp, &a, IBV_QP_STATE), EINVAL) &&
	      RT_EQ(rt_state(&q), IBV_QPS_INIT),
	      "RTR without its attributes is refused");
	q.opt.type = IBV_QPT_RC;
	rt_ok(RT_EQ(rt_to_rtr(&q, &rt_dev_a()->gid, q.qp->qp_num), EINVAL),
	      "RTR with the attributes of RC is refused");
	q.opt.type = IBV_QPT_UC;
	rt_ok(RT_EQ(rt_to_rtr(&q, &rt_dev_a()->gid, q.qp->qp_num), 0) &&
	      RT_EQ(rt_to_rts(&q), 0), "RTR and RTS with those of UC");
	rt_ok(RT_EQ(ibv_query_qp(q.qp, &a, IBV_QP_STATE | IBV_QP_SQ_PSN, &ia), 0) &&
	      RT_EQ(ia.qp_type, IBV_QPT_UC) && RT_EQ(a.qp_state, IBV_QPS_RTS) &&
	      RT_EQ(a.sq_psn, RT_FIRST_PSN) && RT_EQ(a.rq_psn, RT_FIRST_PSN) &&
	      RT_EQ(a.dest_qp_num, q.qp->qp_num), "query tells what was set");
	rt_qp_destroy(&q);

	pair(&p, NULL);
	rt_ok(RT_EQ(rt_to_state(&p.a, IBV_QPS_RESET), 0) &&
	      RT_EQ(rt_to_state(&p.b, IBV_QPS_RESET), 0), "RESET");
	rt_connect(&p.a, &p.b);
	rt_ok(xfer(&p, IBV_WR_SEND, 5000, 0), "and up again");
	rt_pair_destroy(&p);
}

/* The peer drops it in silence; both stay in RTS; the next one arrives. */
static bool dropped(struct rt_pair *p, struct ibv_send_wr *wr, uint64_t id)
{
	struct ibv_sge sge;
	struct ibv_send_wr next = request(77, IBV_WR_SEND_WITH_IMM, &sge, 100);

	return RT_EQ(rt_post(&p->a, wr), 0) &&
	       rt_expect(p->a.scq, wr->wr_id, IBV_WC_SUCCESS, NULL) &&
	       RT_EQ(rt_post(&p->a, &next), 0) &&
	       rt_expect(p->a.scq, 77, IBV_WC_SUCCESS, NULL) &&
	       check_recv(p, id, IBV_WR_SEND_WITH_IMM, 100) &&
	       RT_EQ(rt_state(&p->a), IBV_QPS_RTS) &&
	       RT_EQ(rt_state(&p->b), IBV_QPS_RTS);
}

static void test_peer_errors(void)
{
	struct rt_opt opt = uc_opt();
	struct ibv_send_wr wr;
	struct ibv_sge sge;
	struct rt_pair p;
	size_t len;
	bool ok;

	for (len = 8; len <= 50000; len += 49992) {
		pair(&p, NULL);
		memset(bbuf.p, 0x11, BUF_LEN);
		rt_post_recv(&p.b, 5, &bbuf, BUF_LEN - 100, 100);
		wr = request(1, IBV_WR_RDMA_WRITE, &sge, len);
		wr.wr.rdma.rkey ^= 0x5a00;
		ok = dropped(&p, &wr, 5);
		rt_post_recv(&p.b, 6, &bbuf, BUF_LEN - 100, 100);
		wr = request(2, IBV_WR_RDMA_WRITE_WITH_IMM, &sge, len);
		wr.wr.rdma.remote_addr += BUF_LEN - 4;
		ok = ok && dropped(&p, &wr, 6);
		rt_ok(ok && RT_EQ(bbuf.p[0], 0x11),
		      "WRITE of %zu bytes, bad rkey or range: dropped, next one arrives",
		      len);
		rt_pair_destroy(&p);
	}
	opt.access = 0;
	pair(&p, &opt);
	memset(bbuf.p, 0x11, BUF_LEN);
	rt_post_recv(&p.b, 5, &bbuf, BUF_LEN - 100, 100);
	wr = request(1, IBV_WR_RDMA_WRITE, &sge, 9000);
	rt_ok(dropped(&p, &wr, 5) && RT_EQ(bbuf.p[0], 0x11),
	      "WRITE that the QP does not allow: dropped, next one arrives");
	rt_pair_destroy(&p);

	pair(&p, NULL);
	rt_post_recv(&p.b, 9, &bbuf, 0, 100);
	wr = request(1, IBV_WR_SEND, &sge, 20000);
	rt_ok(dropped(&p, &wr, 9), "SEND too long: dropped, its receive is used again");
	rt_pair_destroy(&p);
}

static void test_no_receive(void)
{
	struct ibv_send_wr wr;
	struct ibv_sge sge;
	struct rt_pair p;
	struct ibv_wc wc;
	bool ok = true;
	int i;

	pair(&p, NULL);
	for (i = 0; ok && i < 20; i++) {
		wr = request(i, i & 1 ? IBV_WR_SEND : IBV_WR_RDMA_WRITE_WITH_IMM,
			     &sge, 1000 * i);
		ok = RT_EQ(rt_post(&p.a, &wr), 0) &&
		     rt_expect(p.a.scq, i, IBV_WC_SUCCESS, NULL);
	}
	/* a plain WRITE needs no receive: when it is there the others have been */
	ok = ok && xfer(&p, IBV_WR_RDMA_WRITE, 9000, 0) &&
	     RT_EQ(ibv_poll_cq(p.b.rcq, 1, &wc), 0) &&
	     xfer(&p, IBV_WR_SEND_WITH_IMM, 9000, 0);
	rt_ok(ok, "20 messages without a receive are lost, the next one arrives");
	rt_pair_destroy(&p);
}

/* The other way round. */
static bool xfer_back(struct rt_pair *p, enum ibv_wr_opcode op, size_t len)
{
	struct rt_pair back = { .a = p->b, .b = p->a };
	struct rt_buf b = abuf;
	bool ok;

	abuf = bbuf;
	bbuf = b;
	ok = xfer(&back, op, len, 0);
	bbuf = abuf;
	abuf = b;
	return ok;
}

/* From SQE back to RTS, and there is life in both directions. */
static bool revive(struct rt_pair *p)
{
	struct ibv_qp_attr a = {
		.qp_state = IBV_QPS_RTS,
		.cur_qp_state = IBV_QPS_SQE,
	};

	return xfer_back(p, IBV_WR_SEND, 3000) &&
	       RT_EQ(ibv_modify_qp(p->a.qp, &a, IBV_QP_STATE | IBV_QP_CUR_STATE), 0) &&
	       RT_EQ(rt_state(&p->a), IBV_QPS_RTS) &&
	       xfer(p, IBV_WR_SEND, 3000, 0) &&
	       xfer_back(p, IBV_WR_RDMA_WRITE_WITH_IMM, 3000);
}

static void test_sqe(void)
{
	static const struct {
		const char *name;
		enum ibv_wr_opcode op;
		size_t len;
		uint32_t key;		/* flipped in the lkey */
		enum ibv_wc_status status;
	} rows[] = {
		{ "bad lkey", IBV_WR_SEND, 10, 0x100, IBV_WC_LOC_PROT_ERR },
		{ "range behind the region", IBV_WR_RDMA_WRITE, BUF_LEN + 1, 0,
		  IBV_WC_LOC_PROT_ERR },
		{ "READ", IBV_WR_RDMA_READ, 8, 0, IBV_WC_LOC_QP_OP_ERR },
		{ "FETCH_ADD", IBV_WR_ATOMIC_FETCH_AND_ADD, 8, 0,
		  IBV_WC_LOC_QP_OP_ERR },
		{ "SEND_WITH_INV", IBV_WR_SEND_WITH_INV, 8, 0,
		  IBV_WC_LOC_QP_OP_ERR },
	};
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(rows); i++) {
		struct ibv_send_wr wr, more;
		struct ibv_sge sge, sge2;
		struct rt_pair p;
		struct ibv_wc wc;
		bool ok;

		pair(&p, NULL);
		wr = request(1, rows[i].op, &sge, rows[i].len);
		wr.send_flags = 0;
		wr.wr.atomic.remote_addr = (uintptr_t)bbuf.p;
		sge.lkey ^= rows[i].key;
		more = request(2, IBV_WR_SEND, &sge2, 10);
		wr.next = &more;
		ok = RT_EQ(rt_post(&p.a, &wr), 0) &&
		     rt_expect(p.a.scq, 1, rows[i].status, NULL) &&
		     rt_expect(p.a.scq, 2, IBV_WC_WR_FLUSH_ERR, NULL) &&
		     RT_EQ(rt_state(&p.a), IBV_QPS_SQE);
		more.wr_id = 3;
		more.next = NULL;
		ok = ok && RT_EQ(rt_post(&p.a, &more), 0) &&
		     rt_expect(p.a.scq, 3, IBV_WC_WR_FLUSH_ERR, NULL) &&
		     RT_EQ(rt_state(&p.b), IBV_QPS_RTS) && revive(&p) &&
		     RT_EQ(ibv_poll_cq(p.a.scq, 1, &wc), 0);
		rt_ok(ok, "%s: completion, flush, SQE; receives; RTS again",
		      rows[i].name);
		rt_pair_destroy(&p);
	}
}

/* A receive of the peer's own making that cannot be written. */
static void test_own_receive(void)
{
	struct ibv_send_wr wr;
	struct ibv_sge sge;
	struct rt_pair p;
	bool ok;

	pair(&p, NULL);
	bbuf.mr->lkey ^= 0x100;
	rt_post_recv(&p.b, 1, &bbuf, 0, 100);
	bbuf.mr->lkey ^= 0x100;
	rt_post_recv(&p.b, 2, &bbuf, 0, 100);
	wr = request(3, IBV_WR_SEND, &sge, 100);
	ok = RT_EQ(rt_post(&p.a, &wr), 0) &&
	     rt_expect(p.a.scq, 3, IBV_WC_SUCCESS, NULL) &&
	     rt_expect(p.b.rcq, 1, IBV_WC_LOC_PROT_ERR, NULL) &&
	     rt_expect(p.b.rcq, 2, IBV_WC_WR_FLUSH_ERR, NULL) &&
	     rt_wait_state(&p.b, IBV_QPS_ERR) &&
	     RT_EQ(rt_state(&p.a), IBV_QPS_RTS);
	rt_ok(ok, "a receive with a bad lkey: LOC_PROT_ERR, ERR, the sender goes on");
	rt_pair_destroy(&p);
}

static void test_sqd(void)
{
	struct ibv_qp_attr a = {
		.qp_state = IBV_QPS_SQD,
		.en_sqd_async_notify = 1,
	};
	struct ibv_send_wr wr;
	struct ibv_sge sge;
	struct rt_pair p;
	struct ibv_wc wc;
	bool ok;

	pair(&p, NULL);
	ok = RT_EQ(ibv_modify_qp(p.a.qp, &a, IBV_QP_STATE |
				 IBV_QP_EN_SQD_ASYNC_NOTIFY), 0) &&
	     RT_CHECK(rt_expect_event(rt_dev_a(), IBV_EVENT_SQ_DRAINED, p.a.qp, 0));
	rt_post_recv(&p.b, 8, &bbuf, 0, 4000);
	wr = request(7, IBV_WR_SEND, &sge, 4000);
	ok = ok && RT_EQ(rt_post(&p.a, &wr), 0);
	usleep(100000);
	ok = ok && RT_EQ(ibv_poll_cq(p.a.scq, 1, &wc), 0);
	a.qp_state = IBV_QPS_RTS;
	ok = ok && RT_EQ(ibv_modify_qp(p.a.qp, &a, IBV_QP_STATE), 0) &&
	     rt_expect(p.a.scq, 7, IBV_WC_SUCCESS, NULL) &&
	     rt_expect(p.b.rcq, 8, IBV_WC_SUCCESS, NULL);
	rt_ok(ok, "SQD: drained at once, holds what is posted, RTS sends it");
	rt_pair_destroy(&p);
}

static void test_err(void)
{
	struct ibv_send_wr wr;
	struct ibv_sge sge;
	struct rt_pair p;
	bool ok;

	pair(&p, NULL);
	rt_post_recv(&p.a, 4, &abuf, 0, 4000);
	ok = RT_EQ(rt_to_state(&p.a, IBV_QPS_ERR), 0) &&
	     rt_expect(p.a.rcq, 4, IBV_WC_WR_FLUSH_ERR, NULL);
	wr = request(5, IBV_WR_SEND, &sge, 4000);
	ok = ok && RT_EQ(rt_post(&p.a, &wr), 0) &&
	     rt_expect(p.a.scq, 5, IBV_WC_WR_FLUSH_ERR, NULL);
	rt_ok(ok, "ERR flushes both queues");
	rt_pair_destroy(&p);
}

/* --- a path that loses packets --- */

#define LOSS_MSGS	600
#define LOSS_SLOT	16384
#define LOSS_SLOTS	64

static size_t loss_len(uint32_t id)
{
	return 1 + id * 37 % 12000;
}

struct loss {
	struct rt_pair p;
	uint64_t posted, got;
	int64_t newest;
};

static bool loss_post(struct loss *l)
{
	return RT_EQ(rt_post_recv(&l->p.b, l->posted, &bbuf,
				  l->posted % LOSS_SLOTS * LOSS_SLOT, LOSS_SLOT), 0) &&
	       ++l->posted;
}

/* Take what has come: the next receive, a newer message, all of it. */
static bool loss_take(struct loss *l)
{
	struct ibv_wc wc;

	while (ibv_poll_cq(l->p.b.rcq, 1, &wc) > 0) {
		uint32_t id = be32toh(wc.imm_data);

		if (!RT_EQ(wc.status, IBV_WC_SUCCESS) || !RT_EQ(wc.wr_id, l->got) ||
		    !RT_CHECK(id < LOSS_MSGS && (int64_t)id > l->newest) ||
		    !RT_EQ(wc.byte_len, loss_len(id)) ||
		    !rt_check(bbuf.p + l->got % LOSS_SLOTS * LOSS_SLOT, loss_len(id),
			      stream + id, 0) ||
		    !loss_post(l))
			return false;
		l->newest = id;
		l->got++;
	}
	return true;
}

/*
 * UC does not wait for whoever receives, and the receives are few: not so far ahead that
 * it is they who lose the rest. Of so many messages in a row a path like this has not lost
 * all.
 */
#define LOSS_AHEAD	32

static bool loss_not_ahead(struct loss *l, uint32_t id)
{
	uint64_t end = rt_now_ms() + rt_timeout_ms;

	while ((int64_t)id - l->newest > LOSS_AHEAD && rt_now_ms() < end) {
		usleep(1000);
		if (!loss_take(l))
			return false;
	}
	return RT_CHECK((int64_t)id - l->newest <= LOSS_AHEAD);
}

static void test_loss(void)
{
	struct rt_opt opt = uc_opt();
	struct loss l = { .newest = -1 };
	bool ok = true;
	uint32_t id;

	opt.mtu = IBV_MTU_1024;
	pair(&l.p, &opt);
	while (ok && l.posted < LOSS_SLOTS - 1)
		ok = loss_post(&l);
	for (id = 0; ok && id < LOSS_MSGS; id++) {
		struct ibv_sge sge;
		struct ibv_send_wr wr = request(id, IBV_WR_SEND_WITH_IMM, &sge, loss_len(id));

		wr.imm_data = htobe32(id);
		rt_fill(abuf.p, loss_len(id), stream + id, 0);
		ok = RT_EQ(rt_post(&l.p.a, &wr), 0) &&
		     rt_expect(l.p.a.scq, id, IBV_WC_SUCCESS, NULL) && loss_take(&l) &&
		     loss_not_ahead(&l, id);
	}
	usleep(500000);
	ok = ok && loss_take(&l) && RT_EQ(rt_state(&l.p.b), IBV_QPS_RTS);
	rt_diag("%llu of %d messages arrived", (unsigned long long)l.got, LOSS_MSGS);
	rt_ok(ok, "loss: what arrives is whole, in order, once, in the next receive");
	rt_ok(RT_CHECK(l.got < LOSS_MSGS), "loss: some messages are missing");
	rt_ok(RT_CHECK(l.got > LOSS_MSGS / 2) && RT_CHECK(l.newest > LOSS_MSGS - 50),
	      "loss: most arrive, to the end");
	rt_pair_destroy(&l.p);
}

int main(int argc, char **argv)
{
	unsigned int i;

	rt_parse(argc, argv);
	abuf = rt_buf(rt_dev_a(), BUF_LEN, RT_ACCESS_ALL);
	bbuf = rt_buf(rt_dev_b(), BUF_LEN, RT_ACCESS_ALL);
	stream = rt_args.seed;
	rt_diag("seed %llu", (unsigned long long)rt_args.seed);
	if (rt_args.first < argc && !strcmp(argv[rt_args.first], "loss")) {
		test_loss();
		return rt_done();
	}
	if (rt_args.first < argc && !strcmp(argv[rt_args.first], "order")) {
		test_order();
		return rt_done();
	}
	for (i = 0; i < ARRAY_SIZE(ops); i++) {
		test_sizes(i, IBV_MTU_256);
		test_sizes(i, rt_dev_a()->port.active_mtu);
	}
	test_stream();
	test_attributes();
	test_peer_errors();
	test_no_receive();
	test_sqe();
	test_own_receive();
	test_sqd();
	test_err();
	return rt_done();
}
