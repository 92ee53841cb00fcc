// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * srq - shared receive queues: several QPs take from one, limit, resize, errors.
 *
 * usage: srq [-d DEV] [-D DEV2] [-g GID] [-G GID2] [-s SEED]
 *
 * The responders (b) of all pairs share one SRQ and one CQ. Receive number n has
 * wr_id n and slot n % SLOTS of the buffer, so each completion tells where its
 * data must be.
 *
 * Output: TAP. Exit code: 0 all ok, 1 a check failed, 2 could not run.
 */
#include "rt.h"

#define PAIRS		4
#define SLOT		8192
#define SLOTS		128
#define IMM		0x31415926

static struct rt_buf abuf, bbuf;
static struct ibv_srq *srq;
static struct ibv_cq *rcq;
static struct rt_pair pairs[PAIRS];
static struct ibv_ah *ah;
static uint64_t posted;

static int srq_create(uint32_t max_wr, uint32_t max_sge)
{
	struct ibv_srq_init_attr init = {
		.attr = { .max_wr = max_wr, .max_sge = max_sge },
	};

	srq = ibv_create_srq(rt_dev_b()->pd, &init);
	if (!srq)
		return errno;
	posted = 0;
	return init.attr.max_wr >= max_wr && init.attr.max_sge >= max_sge ? 0 : ERANGE;
}

static void srq_destroy(void)
{
	int ret = ibv_destroy_srq(srq);

	if (ret)
		rt_die("destroy_srq: %s", strerror(ret));
}

static void up_with_srq(int n, enum ibv_qp_type type, uint8_t rnr_retry)
{
	struct rt_opt opt = rt_defaults, bopt;
	int i;

	/* what the one before has received is as it will be again */
	memset(bbuf.p, 0, bbuf.len);
	rt_drain_events(rt_dev_a());
	rt_drain_events(rt_dev_b());
	rcq = ibv_create_cq(rt_dev_b()->ctx, 512, NULL, NULL, 0);
	if (!rcq)
		rt_die("no CQ: %s", strerror(errno));
	opt.type = type;
	opt.rnr_retry = rnr_retry;
	bopt = opt;
	bopt.rcq = rcq;
	bopt.srq = srq;
	for (i = 0; i < n; i++) {
		if (rt_qp_create(&pairs[i].a, rt_dev_a(), &opt) ||
		    rt_qp_create(&pairs[i].b, rt_dev_b(), &bopt))
			rt_die("no QP: %s", strerror(errno));
		rt_connect(&pairs[i].a, &pairs[i].b);
	}
}

static void up(int n, enum ibv_qp_type type, uint8_t rnr_retry)
{
	int ret = srq_create(64, 2);

	if (ret)
		rt_die("no SRQ: %s", strerror(ret));
	up_with_srq(n, type, rnr_retry);
}

static void down(int n)
{
	int i;

	for (i = 0; i < n; i++)
		rt_pair_destroy(&pairs[i]);
	srq_destroy();
	ibv_destroy_cq(rcq);
}

static uint8_t *slot(uint64_t id)
{
	return bbuf.p + id % SLOTS * SLOT;
}

static int post_recv(uint32_t len)
{
	struct ibv_sge sge[2] = {
		{ (uintptr_t)slot(posted), len / 3, bbuf.mr->lkey },
		{ (uintptr_t)slot(posted) + len / 3, len - len / 3, bbuf.mr->lkey },
	};
	struct ibv_recv_wr wr = { .wr_id = posted, .sg_list = sge, .num_sge = 2 };
	struct ibv_recv_wr *bad = NULL;
	int ret = ibv_post_srq_recv(srq, &wr, &bad);

	if (!ret)
		posted++;
	return ret;
}

static bool post_recvs(int n, uint32_t len)
{
	while (n--)
		if (!RT_EQ(post_recv(len), 0))
			return false;
	return true;
}

/* Message @id of pair @i: @len bytes of a stream of its own. */
static int post_send(int i, uint64_t id, enum ibv_wr_opcode op, uint32_t len)
{
	uint8_t *p = abuf.p + id % SLOTS * SLOT;
	struct ibv_sge sge = { (uintptr_t)p, len, abuf.mr->lkey };
	struct ibv_send_wr wr = rt_wr(id, op, IBV_SEND_SIGNALED, &sge, 1);

	rt_fill(p, len, rt_args.seed + id, 0);
	wr.imm_data = htobe32(IMM);
	if (pairs[i].a.opt.type == IBV_QPT_UD) {
		wr.wr.ud.ah = ah;
		wr.wr.ud.remote_qpn = pairs[i].b.qp->qp_num;
		wr.wr.ud.remote_qkey = RT_QKEY;
	} else {
		wr.wr.rdma.remote_addr = (uintptr_t)bbuf.p + SLOTS * SLOT;
		wr.wr.rdma.rkey = bbuf.mr->rkey;
	}
	return rt_post(&pairs[i].a, &wr);
}

/* The next receive must be number @n, by pair @i, with message @id in it. */
static bool received(uint64_t n, int i, uint64_t id, enum ibv_wr_opcode op, uint32_t len)
{
	bool write = op == IBV_WR_RDMA_WRITE_WITH_IMM;
	bool ud = pairs[i].a.opt.type == IBV_QPT_UD;
	unsigned int grh = ud ? 40 : 0;
	struct ibv_wc wc;

	return rt_expect(rcq, n, IBV_WC_SUCCESS, &wc) &&
	       RT_EQ(wc.qp_num, pairs[i].b.qp->qp_num) &&
	       RT_EQ(wc.byte_len, grh + len) &&
	       RT_EQ(wc.opcode, write ? IBV_WC_RECV_RDMA_WITH_IMM : IBV_WC_RECV) &&
	       RT_EQ(wc.wc_flags, (op == IBV_WR_SEND ? 0 : IBV_WC_WITH_IMM) |
				  (ud ? IBV_WC_GRH : 0)) &&
	       rt_check(write ? bbuf.p + SLOTS * SLOT : slot(n) + grh, len,
			rt_args.seed + id, 0);
}

static bool xfer(int i, uint64_t id, enum ibv_wr_opcode op, uint32_t len, uint64_t n)
{
	return RT_EQ(post_send(i, id, op, len), 0) &&
	       rt_expect(pairs[i].a.scq, id, IBV_WC_SUCCESS, NULL) &&
	       received(n, i, id, op, len);
}

static uint32_t limit_of(void)
{
	struct ibv_srq_attr attr = { .srq_limit = 12345 };

	if (ibv_query_srq(srq, &attr))
		return 54321;
	return attr.srq_limit;
}

static int set_limit(uint32_t limit)
{
	struct ibv_srq_attr attr = { .srq_limit = limit };

	return ibv_modify_srq(srq, &attr, IBV_SRQ_LIMIT);
}

static int set_size(uint32_t max_wr)
{
	struct ibv_srq_attr attr = { .max_wr = max_wr };

	return ibv_modify_srq(srq, &attr, IBV_SRQ_MAX_WR);
}

static bool limit_event(unsigned int ms)
{
	return rt_expect_event(rt_dev_b(), IBV_EVENT_SRQ_LIMIT_REACHED, srq, ms);
}

static void test_create(void)
{
	struct ibv_device_attr *dev = &rt_dev_b()->attr;
	struct ibv_srq_attr attr;

	rt_ok(RT_CHECK(dev->max_srq > 0) && RT_CHECK(dev->max_srq_wr >= 1024) &&
	      RT_CHECK(dev->max_srq_sge >= 32) &&
	      RT_CHECK(dev->device_cap_flags & IBV_DEVICE_SRQ_RESIZE),
	      "the device says what its SRQs can do");
	rt_ok(RT_EQ(srq_create(0, 1), EINVAL) &&
	      RT_EQ(srq_create(dev->max_srq_wr + 1, 1), EINVAL) &&
	      RT_EQ(srq_create(1, dev->max_srq_sge + 1), EINVAL),
	      "sizes beyond the limits are refused");
	if (srq_create(dev->max_srq_wr, dev->max_srq_sge))
		rt_die("create_srq: %s", strerror(errno));
	srq_destroy();
	if (srq_create(100, 7))
		rt_die("create_srq: %s", strerror(errno));
	rt_ok(RT_EQ(ibv_query_srq(srq, &attr), 0) && RT_CHECK(attr.max_wr >= 100) &&
	      RT_CHECK(attr.max_sge >= 7) && RT_EQ(attr.srq_limit, 0), "query");
	srq_destroy();
}

/* WQEs are used in the order of posting, whichever QP a message comes to. */
static void test_share(enum ibv_qp_type type)
{
	static const enum ibv_wr_opcode ops[] = {
		IBV_WR_SEND, IBV_WR_SEND_WITH_IMM, IBV_WR_RDMA_WRITE_WITH_IMM,
	};
	bool ud = type == IBV_QPT_UD, ok;
	uint64_t n;

	up(PAIRS, type, 7);
	ok = post_recvs(60, SLOT);
	for (n = 0; ok && n < 60; n++)
		ok = xfer(n * 7 % PAIRS, n, ops[n % (ud ? 2 : 3)],
			  n * 131 % (ud ? 4000 : SLOT), n);
	rt_ok(ok, "%s: 60 messages to 4 QPs through one SRQ, in order of arrival",
	      ud ? "UD" : type == IBV_QPT_UC ? "UC" : "RC");
	if (ok && type == IBV_QPT_RC) {
		struct ibv_recv_wr wr = { .wr_id = 1 }, *bad;

		rt_ok(RT_CHECK(ibv_post_recv(pairs[0].b.qp, &wr, &bad)),
		      "a QP with an SRQ takes no receives of its own");
		rt_ok(RT_EQ(ibv_destroy_srq(srq), EBUSY),
		      "an SRQ in use cannot be destroyed");
		ok = post_recvs(1, SLOT) && xfer(1, n, IBV_WR_SEND, 5000, n);
		rt_ok(ok, "and goes on");
	}
	down(PAIRS);
}

/* Many in flight from all QPs at once; each receive used once, each QP in order. */
static void test_parallel(void)
{
	unsigned int count[PAIRS] = { 0 }, used = 0, total = 400, i, sent = 0;
	uint8_t seen[400] = { 0 };
	struct ibv_wc wc;
	bool ok;

	up(PAIRS, IBV_QPT_RC, 7);
	ok = post_recvs(40, SLOT);
	while (ok && used < total) {
		for (; ok && sent < total && sent < used + 32; sent++)
			ok = RT_EQ(post_send(sent % PAIRS, sent, IBV_WR_SEND, 3000 + sent), 0);
		ok = ok && RT_CHECK(rt_poll(rcq, &wc, 0)) &&
		     RT_EQ(wc.status, IBV_WC_SUCCESS) && RT_CHECK(wc.wr_id < posted) &&
		     RT_EQ(seen[wc.wr_id], 0);
		if (!ok)
			break;
		seen[wc.wr_id] = 1;
		for (i = 0; i < PAIRS && pairs[i].b.qp->qp_num != wc.qp_num; i++)
			;
		ok = RT_CHECK(i < PAIRS);
		if (ok) {
			unsigned int id = count[i]++ * PAIRS + i;

			ok = RT_EQ(wc.byte_len, 3000 + id) &&
			     rt_check(slot(wc.wr_id), 3000 + id, rt_args.seed + id, 0);
		}
		used++;
		if (ok && posted < total)
			ok = post_recvs(1, SLOT);
		while (ibv_poll_cq(pairs[used % PAIRS].a.scq, 1, &wc) > 0)
			ok = ok && RT_EQ(wc.status, IBV_WC_SUCCESS);
	}
	rt_ok(ok, "400 messages in flight over 4 QPs: each receive once, each QP in order");
	down(PAIRS);
}

static void test_empty(void)
{
	bool ok;

	up(2, IBV_QPT_RC, 7);
	ok = RT_EQ(post_send(0, 1, IBV_WR_SEND, 6000), 0);
	usleep(50000);
	ok = ok && post_recvs(1, SLOT) &&
	     rt_expect(pairs[0].a.scq, 1, IBV_WC_SUCCESS, NULL) &&
	     received(0, 0, 1, IBV_WR_SEND, 6000);
	rt_ok(ok, "empty: the requester waits until something is posted");
	down(2);

	up(2, IBV_QPT_RC, 0);
	ok = RT_EQ(post_send(0, 1, IBV_WR_SEND, 6000), 0) &&
	     rt_expect(pairs[0].a.scq, 1, IBV_WC_RNR_RETRY_EXC_ERR, NULL) &&
	     RT_EQ(rt_state(&pairs[0].b), IBV_QPS_RTS) && post_recvs(1, SLOT) &&
	     xfer(1, 2, IBV_WR_SEND, 6000, 0);
	rt_ok(ok, "empty and no RNR retry: that requester fails, the other QP goes on");
	down(2);
}

static void test_limit(void)
{
	uint64_t n = 0;
	bool ok;

	up(2, IBV_QPT_RC, 7);
	ok = post_recvs(10, SLOT) && RT_EQ(set_limit(8), 0) && RT_EQ(limit_of(), 8) &&
	     xfer(0, n, IBV_WR_SEND, 100, n) && xfer(1, n + 1, IBV_WR_SEND, 100, n + 1) &&
	     RT_CHECK(!limit_event(100)) && RT_EQ(limit_of(), 8) &&
	     xfer(0, n + 2, IBV_WR_SEND, 100, n + 2) && RT_CHECK(limit_event(0)) &&
	     RT_EQ(limit_of(), 0);
	rt_ok(ok, "the limit event comes when fewer are left, not before");
	ok = ok && xfer(0, n + 3, IBV_WR_SEND, 100, n + 3) && RT_CHECK(!limit_event(100));
	rt_ok(ok, "and only once");
	ok = ok && RT_EQ(set_limit(7), 0) && RT_CHECK(limit_event(0)) &&
	     RT_EQ(limit_of(), 0);
	rt_ok(ok, "armed when it is below already: at once");
	ok = ok && RT_EQ(set_limit(3), 0) && RT_EQ(set_limit(0), 0) &&
	     xfer(0, n + 4, IBV_WR_SEND, 100, n + 4) &&
	     xfer(0, n + 5, IBV_WR_SEND, 100, n + 5) &&
	     xfer(0, n + 6, IBV_WR_SEND, 100, n + 6) &&
	     xfer(0, n + 7, IBV_WR_SEND, 100, n + 7) && RT_CHECK(!limit_event(100));
	rt_ok(ok, "disarmed in time: never");
	rt_ok(RT_EQ(set_limit(100000), EINVAL), "a limit above the size is refused");
	down(2);
}

static void test_resize(void)
{
	struct ibv_srq_attr attr;
	uint64_t n = 0;
	bool ok;

	up(2, IBV_QPT_RC, 7);
	/* the oldest not at the beginning of the ring */
	ok = post_recvs(40, SLOT);
	for (; ok && n < 30; n++)
		ok = xfer(n & 1, n, IBV_WR_SEND, 1000, n);
	ok = ok && post_recvs(40, SLOT) && RT_EQ(set_size(300), 0) &&
	     RT_EQ(ibv_query_srq(srq, &attr), 0) && RT_CHECK(attr.max_wr >= 300) &&
	     post_recvs(70, SLOT);
	for (; ok && n < 60; n++)
		ok = xfer(n & 1, n, IBV_WR_SEND, 1000, n);
	rt_ok(ok, "growing keeps what is posted, and there is more room");
	ok = ok && RT_EQ(set_size(60), EINVAL) && RT_EQ(ibv_query_srq(srq, &attr), 0) &&
	     RT_CHECK(attr.max_wr >= 300) && xfer(0, n, IBV_WR_SEND, 1000, n);
	n++;
	rt_ok(ok, "smaller than what is posted is refused, nothing changes");
	for (; ok && n < 130; n++)
		ok = xfer(n & 1, n, IBV_WR_SEND, 1000, n);
	ok = ok && RT_EQ(set_size(25), 0) && RT_EQ(ibv_query_srq(srq, &attr), 0) &&
	     RT_CHECK(attr.max_wr < 300);
	for (; ok && n < 150; n++)
		ok = xfer(n & 1, n, IBV_WR_SEND, 1000, n);
	ok = ok && post_recvs(20, SLOT);
	for (; ok && n < 170; n++)
		ok = xfer(n & 1, n, IBV_WR_SEND, 1000, n);
	rt_ok(ok, "shrinking keeps what is posted");
	rt_ok(RT_EQ(set_size(0), EINVAL) &&
	      RT_EQ(set_size(rt_dev_b()->attr.max_srq_wr + 1), EINVAL),
	      "sizes beyond the limits are refused");
	down(2);
}

/* What is wrong with a WQE, or a QP, ends that QP; the others go on. */
static void test_errors(void)
{
	bool ok;

	up(3, IBV_QPT_RC, 7);
	bbuf.mr->lkey ^= 0x100;
	ok = post_recvs(1, SLOT);
	bbuf.mr->lkey ^= 0x100;
	ok = ok && post_recvs(2, 500) && post_recvs(3, SLOT) &&
	     RT_EQ(post_send(0, 1, IBV_WR_SEND, 6000), 0) &&
	     rt_expect(pairs[0].a.scq, 1, IBV_WC_REM_OP_ERR, NULL) &&
	     rt_expect(rcq, 0, IBV_WC_LOC_PROT_ERR, NULL) &&
	     RT_CHECK(rt_expect_event(rt_dev_b(), IBV_EVENT_QP_LAST_WQE_REACHED,
				      pairs[0].b.qp, 0)) &&
	     rt_wait_state(&pairs[0].b, IBV_QPS_ERR) &&
	     RT_EQ(rt_state(&pairs[1].b), IBV_QPS_RTS);
	rt_ok(ok, "a receive with a bad lkey: LOC_PROT_ERR, LAST_WQE_REACHED, one QP in ERR");
	ok = ok && RT_EQ(post_send(1, 2, IBV_WR_SEND, 501), 0) &&
	     rt_expect(pairs[1].a.scq, 2, IBV_WC_REM_INV_REQ_ERR, NULL) &&
	     rt_expect(rcq, 1, IBV_WC_LOC_LEN_ERR, NULL) &&
	     RT_CHECK(rt_expect_event(rt_dev_b(), IBV_EVENT_QP_LAST_WQE_REACHED,
				      pairs[1].b.qp, 0));
	rt_ok(ok, "a message too long: LOC_LEN_ERR, LAST_WQE_REACHED");
	ok = ok && xfer(2, 3, IBV_WR_SEND, 500, 2) && xfer(2, 4, IBV_WR_SEND, 6000, 3);
	rt_ok(ok, "the third QP goes on with the next ones");
	ok = ok && RT_EQ(rt_to_state(&pairs[2].b, IBV_QPS_ERR), 0) &&
	     RT_CHECK(rt_expect_event(rt_dev_b(), IBV_EVENT_QP_LAST_WQE_REACHED,
				      pairs[2].b.qp, 0));
	rt_ok(ok, "moved to ERR: LAST_WQE_REACHED");
	if (ok) {
		struct ibv_wc wc;

		ok = RT_EQ(ibv_poll_cq(rcq, 1, &wc), 0) &&
		     RT_EQ(rt_to_state(&pairs[2].a, IBV_QPS_RESET), 0) &&
		     RT_EQ(rt_to_state(&pairs[2].b, IBV_QPS_RESET), 0);
		rt_connect(&pairs[2].a, &pairs[2].b);
		ok = ok && xfer(2, 5, IBV_WR_SEND, 7000, 4) &&
		     xfer(2, 6, IBV_WR_SEND, 7000, 5);
	}
	rt_ok(ok, "what was in the SRQ has stayed there: used by the QP after RESET");
	down(3);
}

/* The keys of an SRQ's receives belong to the PD of the SRQ, not of the QP. */
static void test_pd(void)
{
	struct rt_dev *dev = rt_dev_b();
	struct ibv_pd *own = dev->pd, *other = ibv_alloc_pd(dev->ctx);
	struct ibv_mr *mr = bbuf.mr;
	bool ok;

	if (!other)
		rt_die("alloc_pd: %s", strerror(errno));
	bbuf.mr = ibv_reg_mr(other, bbuf.p, bbuf.len, RT_ACCESS_ALL);
	dev->pd = other;		/* for the SRQ ... */
	if (!bbuf.mr || srq_create(16, 2))
		rt_die("no SRQ in another PD");
	dev->pd = own;			/* ... but not for the QPs */
	up_with_srq(2, IBV_QPT_RC, 7);
	ok = post_recvs(2, SLOT) && xfer(0, 1, IBV_WR_SEND, 5000, 0) &&
	     xfer(1, 2, IBV_WR_SEND, 5000, 1);
	rt_ok(ok, "an SRQ of another PD than the QP: its keys are good");
	ibv_dereg_mr(bbuf.mr);
	bbuf.mr = mr;
	ok = ok && post_recvs(1, SLOT) && RT_EQ(post_send(0, 3, IBV_WR_SEND, 5000), 0) &&
	     rt_expect(pairs[0].a.scq, 3, IBV_WC_REM_OP_ERR, NULL) &&
	     rt_expect(rcq, 2, IBV_WC_LOC_PROT_ERR, NULL);
	rt_ok(ok, "and keys of the QP's PD are not");
	down(2);
	ibv_dealloc_pd(other);
}

int main(int argc, char **argv)
{
	rt_parse(argc, argv);
	abuf = rt_buf(rt_dev_a(), SLOTS * SLOT, RT_ACCESS_ALL);
	bbuf = rt_buf(rt_dev_b(), (SLOTS + 1) * SLOT, RT_ACCESS_ALL);
	rt_diag("seed %llu", (unsigned long long)rt_args.seed);
	test_create();
	test_share(IBV_QPT_RC);
	test_share(IBV_QPT_UC);
	ah = rt_ah(rt_dev_a(), rt_dev_b());
	test_share(IBV_QPT_UD);
	ibv_destroy_ah(ah);
	test_parallel();
	test_empty();
	test_limit();
	test_resize();
	test_errors();
	test_pd();
	return rt_done();
}
