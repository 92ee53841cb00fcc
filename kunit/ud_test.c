// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Datagrams without a network: what a work request becomes, what a packet
 * becomes, what is dropped, and that each address handle gets its references
 * back.
 */
#include <kunit/test.h>
#include <linux/ip.h>
#include <linux/ipv6.h>
#include <linux/udp.h>
#include <rdma/ib_mad.h>
#include "../drivers/roe/ah.h"
#include "sim.h"

#define QKEY	0x01234567
#define LEN	101

struct fixture {
	struct sim		*sim;
	struct roe_qp		*a, *b;
	struct roe_ah		ah[2];
	struct roe_ctx		ctx;
	struct iphdr		ip;
	struct ipv6hdr		ip6;
	struct roe_rx_l3	l3;
};

static int setup(struct kunit *test)
{
	struct fixture *f = kunit_kzalloc(test, sizeof(*f), GFP_KERNEL);
	unsigned int i;

	if (!f)
		return -ENOMEM;
	test->priv = f;
	for (i = 0; i < ARRAY_SIZE(f->ah); i++) {
		f->ah[i].entry = kunit_kzalloc(test, sizeof(*f->ah[i].entry), GFP_KERNEL);
		if (!f->ah[i].entry)
			return -ENOMEM;
		refcount_set(&f->ah[i].entry->refs, 1);
	}
	f->sim = sim_create(test);
	if (!f->sim)
		return -ENOMEM;
	f->a = f->sim->side[0].qp;
	f->b = f->sim->side[1].qp;
	f->a->type = IB_QPT_UD;
	f->b->type = IB_QPT_UD;
	f->a->attr.qkey = QKEY;
	f->b->attr.qkey = QKEY;
	f->ah[0].ib.pd = f->a->pd;
	f->ah[1].ib.pd = f->a->pd;
	f->l3.ip = &f->ip;
	f->l3.vlan_id = 0xffff;
	return 0;
}

/* Every reference but the handle's own was given back. */
static void teardown(struct kunit *test)
{
	struct fixture *f = test->priv;
	unsigned int i;

	for (i = 0; f && f->sim && i < ARRAY_SIZE(f->ah); i++)
		KUNIT_EXPECT_EQ(test, refcount_read(&f->ah[i].entry->refs), 1);
	if (f && f->sim)
		sim_destroy(f->sim);
}

static int post(struct fixture *f, unsigned int ah, enum ib_wr_opcode op, u32 qkey, u32 len,
		u32 lkey)
{
	struct ib_sge sge = {
		.addr = (uintptr_t)f->sim->side[0].src,
		.length = len,
		.lkey = lkey,
	};
	struct ib_ud_wr wr = {
		.wr = {
			.wr_id = f->a->sq.prod,
			.opcode = op,
			.send_flags = IB_SEND_SIGNALED,
			.sg_list = &sge,
			.num_sge = 1,
			.ex.imm_data = cpu_to_be32(0xdeadbeef),
		},
		.ah = &f->ah[ah].ib,
		.remote_qpn = f->b->qpn,
		.remote_qkey = qkey,
	};
	int err = roe_wqe_from_wr(f->a, roe_sq_slot(&f->a->sq, f->a->sq.prod), &wr.wr);

	if (!err)
		f->a->sq.prod++;
	return err;
}

static int post_good(struct fixture *f, unsigned int ah)
{
	return post(f, ah, IB_WR_SEND, QKEY, LEN, f->sim->side[0].mr.key);
}

static bool emit(struct fixture *f)
{
	bool more;

	rcu_read_lock();
	spin_lock(&f->a->lock);
	more = roe_qp_emit(f->a, &f->ctx, f->sim->txb);
	spin_unlock(&f->a->lock);
	rcu_read_unlock();
	return more;
}

/* What the owner of the QP does once the burst is sent. */
static void sent(struct fixture *f)
{
	if (f->sim->txb->ah)
		refcount_dec(&f->sim->txb->ah->refs);
	f->sim->txb->ah = NULL;
	roe_txb_reset(f->sim->txb);
}

static void receive(struct fixture *f, const struct roe_tx_pkt *pkt)
{
	struct roe_rx_pkt rx = { .p = pkt->p, .l3 = &f->l3, .nvec = 2 };

	rx.vec[0] = (struct kvec) { roe_tx_payload(pkt), pkt->p.len / 3 };
	rx.vec[1] = (struct kvec) {
		roe_tx_payload(pkt) + pkt->p.len / 3, pkt->p.len - pkt->p.len / 3
	};
	rcu_read_lock();
	roe_qp_dispatch(f->b, &f->ctx, &rx);
	rcu_read_unlock();
}

static void post_recv(struct fixture *f, u64 id, u32 len, u8 status)
{
	struct roe_rq *rq = &f->b->rq;
	struct roe_rwqe *rwqe = &rq->slots[rq->prod++ & rq->mask];

	rwqe->wr_id = id;
	rwqe->num_sge = status ? 0 : 1;
	rwqe->status = status;
	rwqe->length = len;
	rwqe->sge[0].addr = (uintptr_t)f->sim->side[1].rcv;
	rwqe->sge[0].len = len;
	rwqe->sge[0].lkey = f->sim->side[1].mr.key;
}

static int status(struct roe_cq *cq, u64 *id)
{
	struct ib_wc wc;

	if (!roe_cq_poll(&cq->ib, 1, &wc))
		return -1;
	*id = wc.wr_id;
	return wc.status;
}

static void ud_packet(struct kunit *test)
{
	struct fixture *f = test->priv;
	struct roe_txb *txb = f->sim->txb;
	u32 key = f->sim->side[0].mr.key;
	unsigned int i;
	u64 id;

	roe_requester_reset(f->a, 0xffffff);
	KUNIT_ASSERT_EQ(test, post_good(f, 0), 0);
	KUNIT_ASSERT_EQ(test, post(f, 0, IB_WR_SEND_WITH_IMM, QKEY, 0, key), 0);
	KUNIT_EXPECT_FALSE(test, emit(f));
	KUNIT_ASSERT_EQ(test, txb->n, 2);
	KUNIT_EXPECT_PTR_EQ(test, txb->ah, f->ah[0].entry);
	for (i = 0; i < 2; i++) {
		const struct roe_pkt *p = &txb->pkt[i].p;

		KUNIT_EXPECT_EQ(test, p->psn, i ? 0 : 0xffffff);
		KUNIT_EXPECT_EQ(test, p->qpn, f->b->qpn);
		KUNIT_EXPECT_EQ(test, p->sqp, f->a->qpn);
		KUNIT_EXPECT_EQ(test, p->qkey, QKEY);
		KUNIT_EXPECT_EQ(test, p->pkey, ROE_DEFAULT_PKEY);
		KUNIT_EXPECT_FALSE(test, p->ackreq);
	}
	KUNIT_EXPECT_EQ(test, txb->pkt[0].p.opcode, ROE_OPCODE_UD_SEND_ONLY);
	KUNIT_EXPECT_EQ(test, txb->pkt[1].p.opcode, ROE_OPCODE_UD_SEND_ONLY_IMM);
	KUNIT_EXPECT_EQ(test, txb->pkt[1].p.imm, cpu_to_be32(0xdeadbeef));
	KUNIT_EXPECT_EQ(test, memcmp(roe_tx_payload(&txb->pkt[0]), f->sim->side[0].src, LEN), 0);
	for (i = 0; i < 2; i++) {
		KUNIT_EXPECT_EQ(test, status(&f->sim->side[0].scq, &id), IB_WC_SUCCESS);
		KUNIT_EXPECT_EQ(test, id, i);
	}
	sent(f);
	KUNIT_EXPECT_EQ(test, roe_timer_next(f->a), 0);
}

static const u8 want_v4[ROE_GRH_LEN] = {
	[20] = 0x45, 0xb8, 0, 20 + 8 + 20 + 104 + 4, 0x12, 0x34, 0x40, 0, 64, 17, 0x13, 0x63,
	[32] = 10, 0, 0, 1, 10, 0, 0, 2,
};

static const u8 want_v6[ROE_GRH_LEN] = {
	0x6b, 0x81, 0x23, 0x45, 0, 8 + 20 + 104 + 4, 17, 64,
	[8] = 0xfd, [23] = 1, [24] = 0xfd, [39] = 2,
};

/* The header arrives as the stack left it: with the length of a superpacket. */
static void ud_grh(struct kunit *test)
{
	struct fixture *f = test->priv;
	struct sim_side *b = &f->sim->side[1];
	unsigned int v6;
	struct ib_wc wc;

	memcpy(&f->ip, want_v4 + 20, sizeof(f->ip));
	f->ip.tot_len = htons(9999);
	f->ip.check = 0x5555;
	memcpy(&f->ip6, want_v6, sizeof(f->ip6));
	f->ip6.payload_len = htons(9999);
	for (v6 = 0; v6 < 2; v6++) {
		const u8 *want = v6 ? want_v6 : want_v4;

		f->l3.v6 = v6;
		f->l3.ip = v6 ? (void *)&f->ip6 : (void *)&f->ip;
		KUNIT_ASSERT_EQ(test, post_good(f, 0), 0);
		emit(f);
		memset(b->rcv, SIM_SECRET, 256);
		post_recv(f, 7, ROE_GRH_LEN + LEN, 0);
		receive(f, &f->sim->txb->pkt[0]);
		sent(f);
		KUNIT_ASSERT_EQ(test, roe_cq_poll(&b->rcq.ib, 1, &wc), 1);
		KUNIT_EXPECT_EQ(test, wc.status, IB_WC_SUCCESS);
		KUNIT_EXPECT_EQ(test, wc.byte_len, ROE_GRH_LEN + LEN);
		KUNIT_EXPECT_EQ(test, wc.src_qp, f->a->qpn);
		KUNIT_EXPECT_EQ(test, wc.wc_flags, IB_WC_GRH | IB_WC_WITH_NETWORK_HDR_TYPE);
		KUNIT_EXPECT_EQ(test, wc.network_hdr_type,
				v6 ? RDMA_NETWORK_IPV6 : RDMA_NETWORK_IPV4);
		KUNIT_EXPECT_MEMEQ(test, b->rcv, want, ROE_GRH_LEN);
		KUNIT_EXPECT_MEMEQ(test, b->rcv + ROE_GRH_LEN, f->sim->side[0].src, LEN);
		KUNIT_EXPECT_EQ(test, b->rcv[ROE_GRH_LEN + LEN], SIM_SECRET);
	}
}

struct qkey_row {
	u32	own, wr, peer;
	bool	arrives;
};

static const struct qkey_row qkey_rows[] = {
	{ 1, 2, 2, true },
	{ 1, 2, 1, false },
	{ 1, 0, 0, true },
	{ 1, 0x80000000, 1, true },
	{ 1, 0x80010000, 0x80010000, false },
	{ 0x80010000, 0x80000000, 0x80010000, true },
	{ 0x80010000, 0xffffffff, 0x80010000, true },
	{ 0x80010000, 5, 5, true },
	{ 0x80010000, 5, 0x80010000, false },
};

static void qkey_desc(const struct qkey_row *row, char *desc)
{
	snprintf(desc, KUNIT_PARAM_DESC_SIZE, "own %x wr %x peer %x", row->own, row->wr,
		 row->peer);
}

KUNIT_ARRAY_PARAM(qkey, qkey_rows, qkey_desc);

static void ud_qkey(struct kunit *test)
{
	const struct qkey_row *row = test->param_value;
	struct fixture *f = test->priv;
	u64 id;

	f->a->attr.qkey = row->own;
	f->b->attr.qkey = row->peer;
	KUNIT_ASSERT_EQ(test, post(f, 0, IB_WR_SEND, row->wr, 9, f->sim->side[0].mr.key), 0);
	emit(f);
	post_recv(f, 1, 100, 0);
	receive(f, &f->sim->txb->pkt[0]);
	sent(f);
	KUNIT_EXPECT_EQ(test, status(&f->sim->side[1].rcq, &id), row->arrives ? 0 : -1);
}

/* QP1 takes what is a MAD by its length and version; anything else leaves the receive. */
static void ud_mad(struct kunit *test)
{
	struct fixture *f = test->priv;
	struct roe_cq *rcq = &f->sim->side[1].rcq;
	u8 *src = f->sim->side[0].src;
	u8 was = src[0];
	u64 id;

	f->b->type = IB_QPT_GSI;
	src[0] = IB_MGMT_BASE_VERSION;
	KUNIT_ASSERT_EQ(test, post(f, 0, IB_WR_SEND, QKEY, IB_MGMT_MAD_SIZE,
				   f->sim->side[0].mr.key), 0);
	emit(f);
	post_recv(f, 1, ROE_GRH_LEN + IB_MGMT_MAD_SIZE, 0);
	f->sim->txb->pkt[0].p.len = 24;
	receive(f, &f->sim->txb->pkt[0]);
	f->sim->txb->pkt[0].p.len = IB_MGMT_MAD_SIZE;
	*(u8 *)roe_tx_payload(&f->sim->txb->pkt[0]) = OPA_MGMT_BASE_VERSION;
	receive(f, &f->sim->txb->pkt[0]);
	KUNIT_EXPECT_EQ(test, status(rcq, &id), -1);
	*(u8 *)roe_tx_payload(&f->sim->txb->pkt[0]) = IB_MGMT_BASE_VERSION;
	receive(f, &f->sim->txb->pkt[0]);
	KUNIT_EXPECT_EQ(test, status(rcq, &id), IB_WC_SUCCESS);
	KUNIT_EXPECT_EQ(test, id, 1);
	sent(f);
	src[0] = was;
	f->b->type = IB_QPT_UD;
}

/* Dropped: no receive, receive too short, RC opcode. The receive waits. */
static void ud_drop(struct kunit *test)
{
	struct fixture *f = test->priv;
	struct roe_cq *rcq = &f->sim->side[1].rcq;
	struct roe_tx_pkt *pkt;
	u64 id;

	KUNIT_ASSERT_EQ(test, post_good(f, 0), 0);
	emit(f);
	pkt = &f->sim->txb->pkt[0];
	receive(f, pkt);
	post_recv(f, 1, ROE_GRH_LEN + LEN - 1, 0);
	post_recv(f, 2, ROE_GRH_LEN + LEN, 0);
	receive(f, pkt);
	KUNIT_EXPECT_EQ(test, status(rcq, &id), -1);
	pkt->p.len--;
	receive(f, pkt);
	KUNIT_EXPECT_EQ(test, status(rcq, &id), IB_WC_SUCCESS);
	KUNIT_EXPECT_EQ(test, id, 1);
	pkt->p.len = f->b->mtu + 1;
	receive(f, pkt);
	KUNIT_EXPECT_EQ(test, status(rcq, &id), -1);
	KUNIT_EXPECT_EQ(test, f->b->state, IB_QPS_RTS);
	KUNIT_EXPECT_EQ(test, f->ctx.events, 0);
	pkt->p.len = LEN;
	f->b->state = IB_QPS_INIT;
	receive(f, pkt);
	KUNIT_EXPECT_EQ(test, status(rcq, &id), -1);
	sent(f);
}

static void ud_bad_recv(struct kunit *test)
{
	struct fixture *f = test->priv;
	struct roe_cq *rcq = &f->sim->side[1].rcq;
	u64 id;

	KUNIT_ASSERT_EQ(test, post_good(f, 0), 0);
	emit(f);
	post_recv(f, 1, ROE_GRH_LEN + LEN, IB_WC_LOC_QP_OP_ERR);
	post_recv(f, 2, ROE_GRH_LEN + LEN, 0);
	receive(f, &f->sim->txb->pkt[0]);
	KUNIT_EXPECT_EQ(test, status(rcq, &id), IB_WC_LOC_QP_OP_ERR);
	KUNIT_EXPECT_EQ(test, status(rcq, &id), IB_WC_WR_FLUSH_ERR);
	KUNIT_EXPECT_EQ(test, id, 2);
	KUNIT_EXPECT_EQ(test, f->b->state, IB_QPS_ERR);
	sent(f);
}

/* A local error: what is in front leaves, what is behind is flushed, SQE. */
static void ud_sqe(struct kunit *test)
{
	struct fixture *f = test->priv;
	struct roe_cq *scq = &f->sim->side[0].scq;
	u64 id;

	KUNIT_ASSERT_EQ(test, post_good(f, 0), 0);
	KUNIT_ASSERT_EQ(test, post(f, 0, IB_WR_SEND, QKEY, 8, 0x12345678), 0);
	KUNIT_ASSERT_EQ(test, post_good(f, 1), 0);
	KUNIT_EXPECT_FALSE(test, emit(f));
	KUNIT_EXPECT_EQ(test, f->sim->txb->n, 1);
	KUNIT_EXPECT_EQ(test, status(scq, &id), IB_WC_SUCCESS);
	KUNIT_EXPECT_EQ(test, status(scq, &id), IB_WC_LOC_PROT_ERR);
	KUNIT_EXPECT_EQ(test, status(scq, &id), IB_WC_WR_FLUSH_ERR);
	KUNIT_EXPECT_EQ(test, id, 2);
	KUNIT_EXPECT_EQ(test, f->a->state, IB_QPS_SQE);
	sent(f);
	f->a->state = IB_QPS_RTS;
	KUNIT_ASSERT_EQ(test, post_good(f, 1), 0);
	emit(f);
	KUNIT_EXPECT_EQ(test, f->sim->txb->n, 1);
	KUNIT_EXPECT_EQ(test, status(scq, &id), IB_WC_SUCCESS);
	sent(f);
}

/* A burst has one handle; SQD holds; RESET gives references back. */
static void ud_handles(struct kunit *test)
{
	static const u8 order[] = { 0, 0, 1, 0 };
	static const u8 bursts[] = { 2, 1, 1 };
	struct fixture *f = test->priv;
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(order); i++)
		KUNIT_ASSERT_EQ(test, post_good(f, order[i]), 0);
	KUNIT_EXPECT_EQ(test, refcount_read(&f->ah[0].entry->refs), 4);
	for (i = 0; i < ARRAY_SIZE(bursts); i++) {
		KUNIT_EXPECT_EQ(test, emit(f), i < 2);
		KUNIT_EXPECT_EQ(test, f->sim->txb->n, bursts[i]);
		KUNIT_EXPECT_PTR_EQ(test, f->sim->txb->ah, f->ah[i & 1].entry);
		sent(f);
	}
	f->a->state = IB_QPS_SQD;
	KUNIT_ASSERT_EQ(test, post_good(f, 0), 0);
	KUNIT_EXPECT_FALSE(test, emit(f));
	KUNIT_EXPECT_EQ(test, f->sim->txb->n, 0);
	KUNIT_EXPECT_FALSE(test, roe_sq_discard(f->a, 8));
	KUNIT_EXPECT_EQ(test, f->a->sq.cons, f->a->sq.prod);
	KUNIT_EXPECT_EQ(test, f->a->sq.next, f->a->sq.prod);
}

/* Nobody has us report a hundred thousand datagrams that are too long with softirqs off. */
static void ud_many_too_long(struct kunit *test)
{
	struct fixture *f = test->priv;
	struct roe_cq *scq = &f->sim->side[0].scq;
	struct roe_sq *sq = &f->a->sq;
	u32 key = f->sim->side[0].mr.key;
	unsigned int i, runs = 0;
	bool more = true;
	u64 id;

	KUNIT_ASSERT_TRUE(test, sim_deepen(f->sim, 0, 2000));
	f->a->state = IB_QPS_SQD;
	for (i = 0; i < 2000; i++)
		KUNIT_ASSERT_EQ(test, post(f, 0, IB_WR_SEND, QKEY, SIM_MTU + 1, key), 0);
	KUNIT_EXPECT_FALSE(test, emit(f));
	f->a->state = IB_QPS_RTS;
	while (more && runs++ < 20) {
		u32 cons = sq->cons;

		more = emit(f);
		KUNIT_EXPECT_LE(test, sq->cons - cons, ROE_WQE_BATCH);
		KUNIT_EXPECT_EQ(test, f->sim->txb->n, 0);
	}
	KUNIT_EXPECT_EQ(test, runs, 2000 / ROE_WQE_BATCH + 1);
	for (i = 0; i < 2000; i++) {
		KUNIT_ASSERT_EQ(test, status(scq, &id), IB_WC_SUCCESS);
		KUNIT_EXPECT_EQ(test, id, i);
	}
}

/* The GID is that of a VLAN, which allows less than the netdev below. */
static void ud_too_long_for_way(struct kunit *test)
{
	static const struct { u32 len, pkts; } rows[] = { { 512, 1 }, { 513, 0 } };
	struct net_device *port = kunit_kzalloc(test, sizeof(*port), GFP_KERNEL);
	struct net_device *vlan = kunit_kzalloc(test, sizeof(*vlan), GFP_KERNEL);
	struct roe_dev *dev = kunit_kzalloc(test, sizeof(*dev), GFP_KERNEL);
	struct ib_gid_attr gid = { .index = 3 };
	struct fixture *f = test->priv;
	unsigned int i;
	u64 id;

	KUNIT_ASSERT_TRUE(test, port && vlan && dev);
	port->mtu = 1500;
	vlan->mtu = 700;	/* less the headers: 512 */
	dev->ndev = port;
	RCU_INIT_POINTER(gid.ndev, vlan);
	f->ah[0].entry->path.av.sgid_attr = &gid;
	f->a->mtu = 4096;
	for (i = 0; i < ARRAY_SIZE(rows); i++) {
		KUNIT_ASSERT_EQ(test, post(f, 0, IB_WR_SEND, QKEY, rows[i].len,
					   f->sim->side[0].mr.key), 0);
		f->a->dev = dev;
		emit(f);
		f->a->dev = NULL;
		KUNIT_EXPECT_EQ_MSG(test, f->sim->txb->n, rows[i].pkts, "row %u", i);
		KUNIT_EXPECT_EQ(test, status(&f->sim->side[0].scq, &id), IB_WC_SUCCESS);
		if (f->sim->txb->n)
			sent(f);
	}
}

/* RESET forgets a long queue in parts. */
static void ud_discard(struct kunit *test)
{
	struct fixture *f = test->priv;
	unsigned int i;

	for (i = 0; i < 5; i++)
		KUNIT_ASSERT_EQ(test, post_good(f, 0), 0);
	KUNIT_EXPECT_TRUE(test, roe_sq_discard(f->a, 2));
	KUNIT_EXPECT_EQ(test, refcount_read(&f->ah[0].entry->refs), 4);
	KUNIT_EXPECT_EQ(test, f->a->sq.next, 2);
	KUNIT_EXPECT_TRUE(test, roe_sq_discard(f->a, 2));
	KUNIT_EXPECT_FALSE(test, roe_sq_discard(f->a, 2));
	KUNIT_EXPECT_EQ(test, refcount_read(&f->ah[0].entry->refs), 1);
	KUNIT_EXPECT_EQ(test, f->a->sq.cons, 5);
}

/* Refused at the door: nothing is posted, no reference is kept. */
static void ud_refused(struct kunit *test)
{
	struct fixture *f = test->priv;
	u32 key = f->sim->side[0].mr.key;

	KUNIT_EXPECT_EQ(test, post(f, 0, IB_WR_RDMA_WRITE, QKEY, 8, key), -EINVAL);
	KUNIT_EXPECT_EQ(test, post(f, 0, IB_WR_SEND_WITH_INV, QKEY, 8, key), -EINVAL);
	KUNIT_EXPECT_EQ(test, post(f, 0, IB_WR_LOCAL_INV, QKEY, 8, key), -EINVAL);
	KUNIT_EXPECT_EQ(test, post(f, 0, IB_WR_REG_MR, QKEY, 8, key), -EINVAL);
	f->ah[0].ib.pd = NULL;
	KUNIT_EXPECT_EQ(test, post_good(f, 0), -EINVAL);
	KUNIT_EXPECT_EQ(test, f->a->sq.prod, 0);
}

/* A user's WQE that names no handle carries an address vector of its own: refused. */
static void ud_from_ring(struct kunit *test)
{
	static const struct { u32 opcode, status; } rows[] = {
		{ IB_WR_SEND, IB_WC_LOC_QP_OP_ERR },
		{ IB_WR_SEND_WITH_IMM, IB_WC_LOC_QP_OP_ERR },
		{ IB_WR_RDMA_READ, IB_WC_LOC_QP_OP_ERR },
		{ IB_WR_REG_MR, IB_WC_LOC_QP_OP_ERR },
		{ 0xffffffff, IB_WC_LOC_QP_OP_ERR },
	};
	struct fixture *f = test->priv;
	struct rxe_send_wqe *u = kunit_kzalloc(test, 512, GFP_KERNEL);
	struct roe_swqe *wqe = roe_sq_slot(&f->a->sq, 0);
	unsigned int i;

	KUNIT_ASSERT_NOT_NULL(test, u);
	memset(u, 0xff, 512);
	for (i = 0; i < ARRAY_SIZE(rows); i++) {
		u->wr.opcode = rows[i].opcode;
		u->wr.send_flags = IB_SEND_INLINE;
		u->dma.length = 4;
		u->wr.wr.ud.ah_num = 0;
		roe_wqe_from_ring(f->a, wqe, u);
		KUNIT_EXPECT_EQ(test, wqe->status, rows[i].status);
		KUNIT_EXPECT_NULL(test, wqe->ah);
	}
}

/* A handle keeps its service level, whatever the priority of its packets is made of. */
static void ud_query_ah(struct kunit *test)
{
	struct fixture *f = test->priv;
	struct ib_gid_attr gid = { .index = 3 };
	struct rdma_ah_attr attr = {
		.type = RDMA_AH_ATTR_TYPE_ROCE,
		.ah_flags = IB_AH_GRH,
		.sl = 5,
		.grh = { .sgid_attr = &gid, .traffic_class = 0xb8 },
	}, got;
	struct roe_av *av = &f->ah[0].entry->path.av;

	av->sgid_attr = &gid;
	roe_av_set(av, &attr);
	KUNIT_EXPECT_EQ(test, roe_ah_query(&f->ah[0].ib, &got), 0);
	KUNIT_EXPECT_EQ(test, rdma_ah_get_sl(&got), 5);
	KUNIT_EXPECT_EQ(test, got.grh.sgid_index, 3);
}

/*
 * Without a flow label each peer of a PD has a port, the same for all its handles, and
 * peers and PDs spread over the 2^14 that there are; a label says all itself.
 */
/* The CM makes a handle of each message, where it may not sleep: hundreds of them at once. */
static void ud_path_atomic(struct kunit *test)
{
	struct roe_path path = {};

	KUNIT_EXPECT_EQ(test, roe_path_init(&path, GFP_ATOMIC), 0);
	KUNIT_EXPECT_PTR_EQ(test, (void __force *)path.dst.cache, NULL);
	roe_path_destroy(&path);
	KUNIT_EXPECT_EQ(test, roe_path_init(&path, GFP_KERNEL), 0);
	KUNIT_EXPECT_PTR_NE(test, (void __force *)path.dst.cache, NULL);
	roe_path_destroy(&path);
}

static void ud_source_port(struct kunit *test)
{
	unsigned long *seen = kunit_kzalloc(test, BITS_TO_LONGS(0x4000) * sizeof(long), GFP_KERNEL);
	struct ib_pd *pd = kunit_kcalloc(test, 256, sizeof(*pd), GFP_KERNEL);
	struct roe_av av = {};
	unsigned int i;
	u16 port;

	KUNIT_ASSERT_NOT_NULL(test, seen);
	KUNIT_ASSERT_NOT_NULL(test, pd);
	for (i = 0; i < 512; i++) {
		/* 256 peers of one PD, then one peer of 256 PDs */
		av.daddr.s6_addr32[3] = cpu_to_be32(min(i, 255u));
		port = roe_ah_source_port(&av, &pd[max(i, 256u) - 256], 0);
		KUNIT_EXPECT_EQ(test, roe_ah_source_port(&av, &pd[max(i, 256u) - 256], 0), port);
		KUNIT_EXPECT_GE(test, port, 0xc000);
		__set_bit(port & 0x3fff, seen);
		if (i % 256 < 255)
			continue;
		/* 254 are to be expected */
		KUNIT_EXPECT_GE(test, bitmap_weight(seen, 0x4000), 235);
		bitmap_zero(seen, 0x4000);
	}
	KUNIT_EXPECT_EQ(test, roe_ah_source_port(&av, &pd[0], 0x12345), 0xe341);
	KUNIT_EXPECT_EQ(test, roe_ah_source_port(&av, &pd[1], 0x12345), 0xe341);
}

static struct kunit_case cases[] = {
	KUNIT_CASE(ud_packet),
	KUNIT_CASE(ud_grh),
	KUNIT_CASE_PARAM(ud_qkey, qkey_gen_params),
	KUNIT_CASE(ud_drop),
	KUNIT_CASE(ud_mad),
	KUNIT_CASE(ud_bad_recv),
	KUNIT_CASE(ud_sqe),
	KUNIT_CASE(ud_handles),
	KUNIT_CASE(ud_many_too_long),
	KUNIT_CASE(ud_too_long_for_way),
	KUNIT_CASE(ud_discard),
	KUNIT_CASE(ud_refused),
	KUNIT_CASE(ud_from_ring),
	KUNIT_CASE(ud_query_ah),
	KUNIT_CASE(ud_path_atomic),
	KUNIT_CASE(ud_source_port),
	{}
};

static struct kunit_suite suite = {
	.name = "roe_ud",
	.init = setup,
	.exit = teardown,
	.test_cases = cases,
};

kunit_test_suite(suite);
