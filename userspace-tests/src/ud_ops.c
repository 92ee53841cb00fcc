// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * ud_ops - datagrams: data, the 40 bytes in front of it, Q_Keys, errors, the
 * performance agent behind QP1.
 *
 * usage: ud_ops [-d DEV] [-D DEV2] [-g GID] [-G GID2]
 *
 * Needs CAP_NET_RAW (privileged Q_Keys). A datagram that must not arrive is
 * followed by one that must: the receiver sees the second alone.
 *
 * Output: TAP. Exit code: 0 all ok, 1 a check failed, 2 could not run.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include "rt.h"

#define GRH		40
#define QKEY		0x01234567u
#define QKEY_GSI	0x80010000u
#define SLOT		8192
#define NSLOT		80

/* The same memory registered with both devices. */
static struct rt_buf src, dst;
static struct ibv_mr *src_mr_b, *dst_mr_b;
static unsigned int grh_mtu;		/* payload that the port takes */

/* ---- endpoints ---- */

struct ep {
	struct rt_qp q;
	struct ibv_ah *ah;		/* to the other side */
	struct ibv_comp_channel *chan;
};

static int modify(struct rt_qp *q, enum ibv_qp_state state, uint32_t qkey)
{
	struct ibv_qp_attr a = {
		.qp_state = state,
		.port_num = RT_PORT,
		.qkey = qkey,
		.sq_psn = RT_FIRST_PSN,
	};
	int mask = IBV_QP_STATE;

	if (state == IBV_QPS_INIT)
		mask |= IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY;
	if (state == IBV_QPS_RTS && rt_state(q) == IBV_QPS_RTR)
		mask |= IBV_QP_SQ_PSN;
	return ibv_modify_qp(q->qp, &a, mask);
}

static void qp_new(struct rt_qp *q, struct rt_dev *dev, struct ibv_comp_channel *chan)
{
	struct ibv_qp_init_attr ia = {
		.qp_type = IBV_QPT_UD,
		.cap = {
			.max_send_wr = 128, .max_recv_wr = 128, .max_send_sge = 4,
			.max_recv_sge = 4, .max_inline_data = 64,
		},
	};

	memset(q, 0, sizeof(*q));
	q->dev = dev;
	q->scq = ibv_create_cq(dev->ctx, 256, NULL, NULL, 0);
	q->rcq = ibv_create_cq(dev->ctx, 256, NULL, chan, 0);
	ia.send_cq = q->scq;
	ia.recv_cq = q->rcq;
	q->qp = q->scq && q->rcq ? ibv_create_qp(dev->pd, &ia) : NULL;
	if (!q->qp)
		rt_die("create UD QP: %s", strerror(errno));
}

static struct ibv_ah_attr attr_to(int sgid_index, const union ibv_gid *dgid)
{
	return (struct ibv_ah_attr){
		.is_global = 1,
		.port_num = RT_PORT,
		.grh = {
			.dgid = *dgid,
			.sgid_index = sgid_index,
			.hop_limit = 33,	/* the core has its own */
			.traffic_class = 0x48,
			.flow_label = 0xfff54321,	/* of which 20 bits are one */
		},
	};
}

static struct ibv_ah *ah_to(struct rt_dev *dev, struct ibv_pd *pd, int sgid_index,
			    const union ibv_gid *dgid)
{
	struct ibv_ah_attr a = attr_to(sgid_index, dgid);
	struct ibv_ah *ah = ibv_create_ah(pd, &a);

	if (!ah)
		rt_die("create AH: %s", strerror(errno));
	return ah;
}

static void ep_new(struct ep *e, struct rt_dev *dev, struct rt_dev *peer, uint32_t qkey)
{
	int ret;

	e->chan = ibv_create_comp_channel(dev->ctx);
	qp_new(&e->q, dev, e->chan);
	ret = modify(&e->q, IBV_QPS_INIT, qkey) ?: modify(&e->q, IBV_QPS_RTR, 0) ?:
	      modify(&e->q, IBV_QPS_RTS, 0);
	if (ret)
		rt_die("UD QP to RTS: %s", strerror(ret));
	e->ah = ah_to(dev, dev->pd, dev->gid_index, &peer->gid);
}

static void ep_free(struct ep *e)
{
	rt_drain_events(e->q.dev);
	ibv_destroy_ah(e->ah);
	rt_qp_destroy(&e->q);
	ibv_destroy_comp_channel(e->chan);
}

static void eps(struct ep *a, struct ep *b)
{
	ep_new(a, rt_dev_a(), rt_dev_b(), QKEY);
	ep_new(b, rt_dev_b(), rt_dev_a(), QKEY);
}

static void eps_free(struct ep *a, struct ep *b)
{
	ep_free(a);
	ep_free(b);
}

static struct ibv_sge sge_of(struct rt_qp *q, struct rt_buf *b, size_t off, size_t len)
{
	struct ibv_mr *mr = b->mr;

	if (q->dev != rt_dev_a())
		mr = b == &src ? src_mr_b : dst_mr_b;
	return (struct ibv_sge) { (uintptr_t)b->p + off, len, mr->lkey };
}

static int post_recv(struct rt_qp *q, uint64_t id, size_t off, size_t len)
{
	struct ibv_sge sge = sge_of(q, &dst, off, len);
	struct ibv_recv_wr wr = { .wr_id = id, .sg_list = &sge, .num_sge = 1 }, *bad;

	return ibv_post_recv(q->qp, &wr, &bad);
}

static struct ibv_send_wr ud_wr(uint64_t id, struct ibv_sge *sge, int num, struct ibv_ah *ah,
				struct rt_qp *to)
{
	struct ibv_send_wr wr = rt_wr(id, IBV_WR_SEND, IBV_SEND_SIGNALED, sge, num);

	wr.wr.ud.ah = ah;
	wr.wr.ud.remote_qpn = to->qp->qp_num;
	wr.wr.ud.remote_qkey = QKEY;
	return wr;
}

/* @len bytes of stream @id from a to b. */
static int post(struct ep *a, struct ep *b, uint64_t id, size_t len)
{
	struct ibv_sge sge = sge_of(&a->q, &src, 0, len);
	struct ibv_send_wr wr = ud_wr(id, &sge, 1, a->ah, &b->q);

	rt_fill(src.p, len, id, 0);
	return rt_post(&a->q, &wr);
}

static int recv_slot(struct rt_qp *q, uint64_t id)
{
	return post_recv(q, id, id % NSLOT * SLOT, SLOT);
}

/* The receive @id completes with @len bytes of stream @stream. */
static bool arrives(struct ep *a, struct ep *b, uint64_t id, size_t len, uint64_t stream,
		    struct ibv_wc *out)
{
	struct ibv_wc wc;
	bool ok = rt_expect(b->q.rcq, id, IBV_WC_SUCCESS, &wc) &&
		  RT_EQ(wc.byte_len, len + GRH) && RT_EQ(wc.opcode, IBV_WC_RECV) &&
		  RT_EQ(wc.src_qp, a->q.qp->qp_num) && RT_CHECK(wc.wc_flags & IBV_WC_GRH) &&
		  RT_EQ(wc.qp_num, b->q.qp->qp_num) && RT_EQ(wc.pkey_index, 0) &&
		  RT_EQ(wc.slid, 0) && rt_check(dst.p + id % NSLOT * SLOT + GRH, len, stream, 0);

	if (out)
		*out = wc;
	return ok;
}

/* One datagram, there and complete at both ends. */
static bool moves(struct ep *a, struct ep *b, uint64_t id, size_t len)
{
	return RT_EQ(recv_slot(&b->q, id), 0) && RT_EQ(post(a, b, id, len), 0) &&
	       rt_expect(a->q.scq, id, IBV_WC_SUCCESS, NULL) && arrives(a, b, id, len, id, NULL);
}

static bool nothing(struct ibv_cq *cq)
{
	struct ibv_wc wc;

	usleep(20000);
	return RT_EQ(ibv_poll_cq(cq, 1, &wc), 0);
}

/*
 * All that a has sent so far has been received or dropped: a datagram behind it is there,
 * at another QP.
 */
static bool through(struct ep *a)
{
	struct ep c;
	bool ok;

	ep_new(&c, rt_dev_b(), rt_dev_a(), QKEY);
	ok = moves(a, &c, NSLOT - 1, 8);
	ep_free(&c);
	return ok;
}

/* ---- data ---- */

static void test_sizes(void)
{
	const size_t len[] = { 0, 1, 2, 3, 4, 5, 64, 255, 256, 1000, grh_mtu - 1, grh_mtu };
	struct ep a, b;
	bool ok = true;
	int i;

	eps(&a, &b);
	for (i = 0; i < ARRAY_SIZE(len); i++)
		ok = ok && moves(&a, &b, i, len[i]) && moves(&b, &a, i, len[i]);
	rt_ok(ok, "messages of 0 bytes to a whole MTU, both ways");
	if (rt_dev_a() == rt_dev_b()) {
		for (ok = true, i = 0; i < ARRAY_SIZE(len); i++)
			ok = ok && moves(&a, &a, i, len[i]);
		rt_ok(ok, "a QP sends to itself");
	}
	eps_free(&a, &b);
}

static void test_imm_inline(void)
{
	uint8_t data[60];
	struct ibv_sge sge = { (uintptr_t)data, sizeof(data), 0 };
	struct ibv_send_wr wr;
	struct ibv_wc wc;
	struct ep a, b;

	eps(&a, &b);
	rt_fill(data, sizeof(data), 7, 0);
	wr = ud_wr(1, &sge, 1, a.ah, &b.q);
	wr.opcode = IBV_WR_SEND_WITH_IMM;
	wr.imm_data = htonl(0xdeadbeef);
	wr.send_flags |= IBV_SEND_INLINE;
	rt_ok(RT_EQ(recv_slot(&b.q, 1), 0) && RT_EQ(rt_post(&a.q, &wr), 0) &&
	      rt_expect(a.q.scq, 1, IBV_WC_SUCCESS, NULL) && arrives(&a, &b, 1, 60, 7, &wc) &&
	      RT_CHECK(wc.wc_flags & IBV_WC_WITH_IMM) && RT_EQ(ntohl(wc.imm_data), 0xdeadbeef),
	      "inline data with immediate");
	eps_free(&a, &b);
}

static void test_sges(void)
{
	struct ibv_sge s[4], r[4];
	struct ibv_recv_wr rwr = { .wr_id = 1, .sg_list = r, .num_sge = 4 }, *bad;
	struct ibv_send_wr wr;
	struct ibv_wc wc;
	struct ep a, b;

	eps(&a, &b);
	rt_fill(src.p, 1000, 3, 0);
	memset(dst.p, 0xaa, 8192);
	s[0] = sge_of(&a.q, &src, 0, 13);
	s[1] = sge_of(&a.q, &src, 13, 0);
	s[2] = sge_of(&a.q, &src, 13, 500);
	s[3] = sge_of(&a.q, &src, 513, 487);
	/* the header straddles the first two */
	r[0] = sge_of(&b.q, &dst, 0, 17);
	r[1] = sge_of(&b.q, &dst, 1000, 24);
	r[2] = sge_of(&b.q, &dst, 2000, 600);
	r[3] = sge_of(&b.q, &dst, 3000, 500);
	wr = ud_wr(1, s, 4, a.ah, &b.q);
	rt_ok(RT_EQ(ibv_post_recv(b.q.qp, &rwr, &bad), 0) && RT_EQ(rt_post(&a.q, &wr), 0) &&
	      rt_expect(a.q.scq, 1, IBV_WC_SUCCESS, NULL) &&
	      rt_expect(b.q.rcq, 1, IBV_WC_SUCCESS, &wc) && RT_EQ(wc.byte_len, 1040) &&
	      RT_CHECK(rt_check(dst.p + 1000 + 23, 1, 3, 0)) &&
	      RT_CHECK(rt_check(dst.p + 2000, 600, 3, 1)) &&
	      RT_CHECK(rt_check(dst.p + 3000, 399, 3, 601)) && RT_EQ(dst.p[3399], 0xaa),
	      "SGE lists at both ends, the header in two of them");
	eps_free(&a, &b);
}

static uint16_t ip_sum(const uint8_t *p)
{
	uint32_t sum = 0;
	int i;

	for (i = 0; i < 20; i += 2)
		sum += p[i] << 8 | p[i + 1];
	while (sum >> 16)
		sum = (sum & 0xffff) + (sum >> 16);
	return sum;
}

static bool grh_v4(const uint8_t *g, const union ibv_gid *s, const union ibv_gid *d, int len)
{
	static const uint8_t zero[20];
	const uint8_t *ip = g + 20;

	return RT_CHECK(!memcmp(g, zero, 20)) && RT_EQ(ip[0], 0x45) && RT_EQ(ip[1], 0x48) &&
	       RT_EQ(ip[2] << 8 | ip[3], 20 + 8 + 12 + 8 + ((len + 3) & ~3) + 4) &&
	       RT_EQ(ip[9], 17) && RT_EQ(ip_sum(ip), 0xffff) && RT_CHECK(ip[8]) &&
	       RT_CHECK(!memcmp(ip + 12, s->raw + 12, 4)) &&
	       RT_CHECK(!memcmp(ip + 16, d->raw + 12, 4));
}

static bool grh_v6(const uint8_t *g, const union ibv_gid *s, const union ibv_gid *d, int len)
{
	uint32_t flow = g[0] << 24 | g[1] << 16 | g[2] << 8 | g[3];

	return RT_EQ(flow >> 28, 6) && RT_EQ(flow >> 20 & 0xff, 0x48) &&
	       RT_EQ(flow & 0xfffff, 0x54321) && RT_EQ(g[6], 17) &&
	       RT_EQ(g[4] << 8 | g[5], 8 + 12 + 8 + ((len + 3) & ~3) + 4) &&
	       RT_CHECK(g[7]) && RT_CHECK(!memcmp(g + 8, s->raw, 16)) &&
	       RT_CHECK(!memcmp(g + 24, d->raw, 16));
}

static bool is_v4(const union ibv_gid *g)
{
	static const uint8_t prefix[12] = { [10] = 0xff, [11] = 0xff };

	return !memcmp(g->raw, prefix, 12);
}

/* Index of the first global RoCEv2 GID of that IP version. */
static int find_gid(struct rt_dev *dev, bool v4, union ibv_gid *gid)
{
	struct ibv_gid_entry e;
	int i;

	for (i = 0; i < 64; i++)
		if (!ibv_query_gid_ex(dev->ctx, RT_PORT, i, &e, 0) &&
		    e.gid_type == IBV_GID_TYPE_ROCE_V2 && is_v4(&e.gid) == v4 &&
		    (v4 || (e.gid.raw[0] & 0xfe) == 0xfc)) {
			*gid = e.gid;
			return i;
		}
	return -1;
}

/* Answer with a handle made of the completion and the 40 bytes. */
static bool replies(struct ep *a, struct ep *b, struct ibv_wc *wc, const uint8_t *grh)
{
	struct ibv_ah *ah = ibv_create_ah_from_wc(b->q.dev->pd, wc, (struct ibv_grh *)grh, RT_PORT);
	struct ibv_sge sge = sge_of(&b->q, &src, 0, 33);
	struct ibv_send_wr wr;
	bool ok;

	if (!RT_CHECK(ah))
		return false;
	rt_fill(src.p, 33, 5, 0);
	wr = ud_wr(5, &sge, 1, ah, &a->q);
	wr.wr.ud.remote_qpn = wc->src_qp;
	ok = RT_EQ(recv_slot(&a->q, 5), 0) && RT_EQ(rt_post(&b->q, &wr), 0) &&
	     rt_expect(b->q.scq, 5, IBV_WC_SUCCESS, NULL) && arrives(b, a, 5, 33, 5, NULL);
	ibv_destroy_ah(ah);
	return ok;
}

static void test_grh(bool v4)
{
	union ibv_gid sgid, dgid;
	int sidx = find_gid(rt_dev_a(), v4, &sgid), didx = find_gid(rt_dev_b(), v4, &dgid);
	const int len = 101;
	struct ibv_wc wc;
	struct ep a, b;
	bool ok;

	if (sidx < 0 || didx < 0) {
		rt_ok(false, "GIDs for %s", v4 ? "IPv4" : "IPv6");
		return;
	}
	eps(&a, &b);
	ibv_destroy_ah(a.ah);
	a.ah = ah_to(a.q.dev, a.q.dev->pd, sidx, &dgid);
	memset(dst.p + SLOT, 0xaa, SLOT);
	ok = RT_EQ(recv_slot(&b.q, 1), 0) && RT_EQ(post(&a, &b, 1, len), 0) &&
	     rt_expect(a.q.scq, 1, IBV_WC_SUCCESS, NULL) && arrives(&a, &b, 1, len, 1, &wc) &&
	     RT_EQ(wc.sl, v4 ? 10 : 9) && RT_EQ(dst.p[SLOT + GRH + len], 0xaa);
	ok = ok && (v4 ? grh_v4 : grh_v6)(dst.p + SLOT, &sgid, &dgid, len);
	rt_ok(ok, "the 40 bytes in front of the data over %s", v4 ? "IPv4" : "IPv6");
	rt_ok(ok && replies(&a, &b, &wc, dst.p + SLOT), "they and the completion lead back over %s",
	      v4 ? "IPv4" : "IPv6");
	eps_free(&a, &b);
}

/* One list of requests with three handles in turn: all arrive, in order. */
static void test_handles(void)
{
	struct ibv_send_wr wr[NSLOT], *bad;
	struct ibv_sge sge[NSLOT];
	struct ibv_ah *ah[3];
	struct ep a, b;
	bool ok = true;
	int i;

	eps(&a, &b);
	for (i = 0; i < 3; i++)
		ah[i] = ah_to(a.q.dev, a.q.dev->pd, a.q.dev->gid_index, &b.q.dev->gid);
	for (i = 0; i < NSLOT; i++) {
		ok = ok && RT_EQ(recv_slot(&b.q, i), 0);
		rt_fill(src.p + i * 128, 128, i, 0);
		sge[i] = sge_of(&a.q, &src, i * 128, 128);
		wr[i] = ud_wr(i, &sge[i], 1, ah[i % 7 % 3], &b.q);
		wr[i].send_flags = i == NSLOT - 1 ? IBV_SEND_SIGNALED : 0;
		wr[i].next = i == NSLOT - 1 ? NULL : &wr[i + 1];
	}
	ok = ok && RT_EQ(ibv_post_send(a.q.qp, wr, &bad), 0) &&
	     rt_expect(a.q.scq, NSLOT - 1, IBV_WC_SUCCESS, NULL);
	for (i = 0; i < NSLOT; i++)
		ok = ok && arrives(&a, &b, i, 128, i, NULL);
	rt_ok(ok, "%d requests with three address handles in turn arrive in order", NSLOT);
	for (i = 0; i < 3; i++)
		ibv_destroy_ah(ah[i]);
	eps_free(&a, &b);
}

/* ---- a sender that moves ---- */

static atomic_bool flood_ends;

static void run_on(int cpu)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	sched_setaffinity(0, sizeof(set), &set);
}

/* Keeps what is received on the first CPU busy. */
static void *flood(void *arg)
{
	struct ep *e = arg;
	struct ibv_sge sge = sge_of(&e[0].q, &src, 0, 1024);
	struct ibv_send_wr wr = ud_wr(0, &sge, 1, e[0].ah, &e[1].q);
	struct ibv_wc wc;

	run_on(0);
	while (!flood_ends) {
		rt_post(&e[0].q, &wr);
		while (ibv_poll_cq(e[0].q.scq, 1, &wc) > 0)
			;
	}
	return NULL;
}

/* From a CPU after the other: all in order, and the QP ends with the last completion. */
static bool wander(unsigned int round, int cpus)
{
	struct ep a, b;
	bool ok = true;
	int i;

	eps(&a, &b);
	for (i = 0; i < NSLOT; i++) {
		struct ibv_sge sge = sge_of(&a.q, &src, i * 128, 128);
		struct ibv_send_wr wr = ud_wr(i, &sge, 1, a.ah, &b.q);

		if (i % 5 == 0)
			run_on((i / 5 + round) % cpus);
		rt_fill(src.p + i * 128, 128, i, 0);
		ok = ok && RT_EQ(recv_slot(&b.q, i), 0) && RT_EQ(rt_post(&a.q, &wr), 0);
	}
	for (i = 0; i < NSLOT; i++)
		ok = ok && rt_expect(a.q.scq, i, IBV_WC_SUCCESS, NULL);
	if (round % 2) {
		ep_free(&a);
		ep_free(&b);
		return ok;
	}
	for (i = 0; i < NSLOT; i++)
		ok = ok && arrives(&a, &b, i, 128, i, NULL);
	eps_free(&a, &b);
	return ok;
}

static void test_cpus(void)
{
	int cpus = sysconf(_SC_NPROCESSORS_ONLN), i;
	bool ok = true;
	cpu_set_t all;
	pthread_t id;
	struct ep e[2];

	sched_getaffinity(0, sizeof(all), &all);
	eps(&e[0], &e[1]);
	if (pthread_create(&id, NULL, flood, e))
		rt_die("pthread_create: %s", strerror(errno));
	for (i = 0; ok && i < 40; i++)
		ok = wander(i, cpus);
	flood_ends = true;
	pthread_join(id, NULL);
	rt_ok(ok, "a sender that moves from CPU to CPU (%d): in order, and its QPs end", cpus);
	sched_setaffinity(0, sizeof(all), &all);
	eps_free(&e[0], &e[1]);
}

/* ---- what is dropped without a word ---- */

static void test_qkeys(void)
{
	static const struct {
		uint32_t own, wr, peer;
		bool arrives;
	} rows[] = {
		{ QKEY, QKEY, QKEY, true },
		{ QKEY, QKEY + 1, QKEY, false },
		{ QKEY + 1, QKEY, QKEY, true },
		{ QKEY, 0, QKEY, false },
		{ QKEY, 0, 0, true },
		/* bit 31: the sender's own Q_Key is sent */
		{ QKEY, 0x80000000, QKEY, true },
		{ QKEY, 0xffffffff, QKEY, true },
		{ QKEY + 1, 0x80000000, QKEY, false },
		{ QKEY, QKEY_GSI, QKEY_GSI, false },
		{ QKEY_GSI, QKEY_GSI, QKEY_GSI, true },
		{ QKEY_GSI, 0xf0000000, QKEY_GSI, true },
		{ QKEY_GSI, QKEY, QKEY, true },
	};
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_RTS };
	struct ibv_qp_init_attr ia;
	long wrong = rt_counter(rt_dev_b(), "rx_qkey_violation");
	bool ok = true;
	int i;

	for (i = 0; i < ARRAY_SIZE(rows); i++) {
		struct ibv_sge sge;
		struct ibv_send_wr wr;
		struct ep a, b;
		bool row;

		ep_new(&a, rt_dev_a(), rt_dev_b(), rows[i].own);
		ep_new(&b, rt_dev_b(), rt_dev_a(), rows[i].peer);
		sge = sge_of(&a.q, &src, 0, 8);
		rt_fill(src.p, 8, 9, 0);
		wr = ud_wr(1, &sge, 1, a.ah, &b.q);
		wr.wr.ud.remote_qkey = rows[i].wr;
		row = RT_EQ(recv_slot(&b.q, 1), 0) && RT_EQ(rt_post(&a.q, &wr), 0) &&
		      rt_expect(a.q.scq, 1, IBV_WC_SUCCESS, NULL);
		if (rows[i].arrives) {
			row = row && arrives(&a, &b, 1, 8, 9, NULL);
		} else {
			/* the Q_Key changes in RTS, and the next one arrives */
			attr.qkey = QKEY;
			wrong++;
			row = row && through(&a) && nothing(b.q.rcq) &&
			      RT_EQ(ibv_modify_qp(b.q.qp, &attr, IBV_QP_STATE | IBV_QP_QKEY), 0) &&
			      RT_EQ(ibv_query_qp(b.q.qp, &attr, IBV_QP_QKEY, &ia), 0) &&
			      RT_EQ(attr.qkey, QKEY) && RT_EQ(post(&a, &b, 2, 16), 0) &&
			      arrives(&a, &b, 1, 16, 2, NULL);
		}
		if (!row)
			rt_diag("row %d", i);
		ok = ok && row;
		eps_free(&a, &b);
	}
	rt_ok(ok && RT_EQ(rt_counter(rt_dev_b(), "rx_qkey_violation"), wrong),
	      "Q_Key matrix: the WQE's, the QP's own for bit 31, wrong ones dropped and counted");
}

static void test_dropped(void)
{
	struct ep a, b;
	bool ok;

	eps(&a, &b);
	ok = RT_EQ(post(&a, &b, 1, 100), 0) && rt_expect(a.q.scq, 1, IBV_WC_SUCCESS, NULL) &&
	     through(&a) && nothing(b.q.rcq) && moves(&a, &b, 2, 50);
	rt_ok(ok, "without a receive the datagram is lost, nothing else");

	/* 41 to 139 bytes of room: the receive stays for what fits */
	ok = RT_EQ(post_recv(&b.q, 5, 5 * SLOT, GRH + 99), 0) &&
	     RT_EQ(post(&a, &b, 3, 100), 0) && rt_expect(a.q.scq, 3, IBV_WC_SUCCESS, NULL) &&
	     nothing(b.q.rcq) && RT_EQ(post(&a, &b, 4, 99), 0) &&
	     rt_expect(a.q.scq, 4, IBV_WC_SUCCESS, NULL) && arrives(&a, &b, 5, 99, 4, NULL) &&
	     RT_EQ(rt_state(&b.q), IBV_QPS_RTS);
	rt_ok(ok, "a datagram longer than the receive is lost, the receive is not");

	ok = RT_EQ(recv_slot(&b.q, 6), 0) && RT_EQ(post(&a, &b, 6, grh_mtu + 1), 0) &&
	     rt_expect(a.q.scq, 6, IBV_WC_SUCCESS, NULL) && nothing(b.q.rcq) &&
	     RT_EQ(post(&a, &b, 7, 1), 0) && rt_expect(a.q.scq, 7, IBV_WC_SUCCESS, NULL) &&
	     arrives(&a, &b, 6, 1, 7, NULL);
	rt_ok(ok, "a message longer than the MTU leaves no packet and no error (C10-93.1.1)");
	eps_free(&a, &b);
}

/* ---- errors ---- */

/* @wr fails with @status; what follows is flushed; SQE; receiving goes on; RTS again. */
static bool stops(struct ep *a, struct ep *b, struct ibv_send_wr *wr, enum ibv_wc_status status)
{
	struct ibv_sge sge = sge_of(&a->q, &src, 0, 8);
	struct ibv_send_wr good = ud_wr(2, &sge, 1, a->ah, &b->q), *bad;
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_RTS, .cur_qp_state = IBV_QPS_SQE };

	wr->next = &good;
	return RT_EQ(ibv_post_send(a->q.qp, wr, &bad), 0) &&
	       rt_expect(a->q.scq, wr->wr_id, status, NULL) &&
	       rt_expect(a->q.scq, 2, IBV_WC_WR_FLUSH_ERR, NULL) &&
	       RT_EQ(rt_state(&a->q), IBV_QPS_SQE) && moves(b, a, 11, 30) &&
	       RT_EQ(post(a, b, 3, 8), 0) && rt_expect(a->q.scq, 3, IBV_WC_WR_FLUSH_ERR, NULL) &&
	       RT_EQ(ibv_modify_qp(a->q.qp, &attr, IBV_QP_STATE | IBV_QP_CUR_STATE), 0) &&
	       RT_EQ(rt_state(&a->q), IBV_QPS_RTS) && moves(a, b, 12, 40);
}

static void test_send_errors(void)
{
	struct ibv_sge sge, many[4];
	struct ibv_send_wr wr;
	struct ep a, b;
	bool ok;

	eps(&a, &b);
	sge = sge_of(&a.q, &src, 0, 8);
	wr = ud_wr(1, &sge, 1, a.ah, &b.q);
	sge.lkey ^= 0x100;
	rt_ok(stops(&a, &b, &wr, IBV_WC_LOC_PROT_ERR), "bad lkey: PROT_ERR, flush, SQE, RTS again");
	sge = sge_of(&a.q, &src, src.len - 4, 8);
	wr = ud_wr(1, &sge, 1, a.ah, &b.q);
	wr.send_flags = 0;
	rt_ok(stops(&a, &b, &wr, IBV_WC_LOC_PROT_ERR), "range beyond the MR, unsignalled: same");
	many[0] = (struct ibv_sge) { (uintptr_t)src.p, 0x80000000, src.mr->lkey };
	many[1] = many[0];
	wr = ud_wr(1, many, 2, a.ah, &b.q);
	rt_ok(stops(&a, &b, &wr, IBV_WC_LOC_LEN_ERR), "length over 2^31: LOC_LEN_ERR, SQE");

	sge = sge_of(&a.q, &src, 0, 8);
	ok = true;
	if (!getenv("RT_TAME")) {
		static const enum ibv_wr_opcode op[] = {
			IBV_WR_RDMA_WRITE, IBV_WR_RDMA_READ, IBV_WR_ATOMIC_FETCH_AND_ADD,
			IBV_WR_SEND_WITH_INV, IBV_WR_LOCAL_INV, IBV_WR_TSO, 0x20, 0x7f,
		};
		int i;

		for (i = 0; i < ARRAY_SIZE(op); i++) {
			wr = ud_wr(1, &sge, op[i] == IBV_WR_LOCAL_INV ? 0 : 1, a.ah, &b.q);
			wr.opcode = op[i];
			ok = stops(&a, &b, &wr, IBV_WC_LOC_QP_OP_ERR) && ok;
			if (!ok)
				rt_diag("opcode %d", op[i]);
		}
	}
	rt_ok(ok, "opcodes that are not for UD: LOC_QP_OP_ERR, SQE");
	eps_free(&a, &b);
}

/* The library's struct rxe_ah: struct ibv_ah, an address vector of 88 bytes, the number. */
struct fake_ah {
	struct ibv_ah ah;
	uint8_t av[88];
	int num;
};

static void test_handle_errors(void)
{
	struct ibv_pd *pd = ibv_alloc_pd(rt_dev_a()->ctx);
	struct ibv_sge sge;
	struct ibv_ah *other, *gone, *kept;
	struct ibv_ah_attr attr;
	struct fake_ah fake;
	struct ep a, b;
	int num[5], i;
	bool ok = true;

	eps(&a, &b);
	sge = sge_of(&a.q, &src, 0, 8);
	attr = attr_to(a.q.dev->gid_index, &b.q.dev->gid);
	attr.sl = 16;
	rt_ok(RT_CHECK(!ibv_create_ah(pd, &attr)) && RT_EQ(errno, EINVAL),
	      "a service level of 5 bits is EINVAL");
	other = ah_to(a.q.dev, pd, a.q.dev->gid_index, &b.q.dev->gid);
	gone = ah_to(a.q.dev, a.q.dev->pd, a.q.dev->gid_index, &b.q.dev->gid);
	kept = ah_to(a.q.dev, a.q.dev->pd, a.q.dev->gid_index, &b.q.dev->gid);
	num[0] = 0;
	num[1] = -1;
	num[2] = 0x7ffffff;
	num[3] = ((struct fake_ah *)other)->num;
	num[4] = ((struct fake_ah *)gone)->num;
	rt_ok(RT_CHECK(num[3] > 0) && RT_EQ(num[4], num[3] + 1) &&
	      RT_EQ(((struct fake_ah *)kept)->num, num[4] + 1), "address handles have numbers");
	ibv_destroy_ah(gone);
	for (i = 0; i < ARRAY_SIZE(num); i++) {
		struct ibv_send_wr wr;

		memcpy(&fake, a.ah, sizeof(fake));
		fake.num = num[i];
		wr = ud_wr(1, &sge, 1, &fake.ah, &b.q);
		ok = stops(&a, &b, &wr, IBV_WC_LOC_QP_OP_ERR) && ok;
		if (!ok)
			rt_diag("number %d", num[i]);
	}
	rt_ok(ok, "handle 0, unknown, of another PD, destroyed: LOC_QP_OP_ERR, SQE");
	ibv_destroy_ah(other);
	ibv_destroy_ah(kept);
	ibv_dealloc_pd(pd);
	eps_free(&a, &b);
}

/*
 * Datagrams need no answer: drained at once, with an event for who asked. One that was only
 * just posted may wait for a worker, and is held then: it has left here.
 */
static void test_sqd(void)
{
	struct ibv_qp_attr sqd = { .qp_state = IBV_QPS_SQD, .en_sqd_async_notify = 1 };
	struct rt_dev *dev = rt_dev_a();
	struct ibv_qp_init_attr ia;
	struct ibv_qp_attr attr;
	struct ep a, b;
	bool ok;

	eps(&a, &b);
	rt_drain_events(dev);
	ok = RT_EQ(ibv_modify_qp(a.q.qp, &sqd, IBV_QP_STATE), 0) && RT_EQ(recv_slot(&b.q, 1), 0) &&
	     RT_EQ(post(&a, &b, 1, 8), 0) && nothing(a.q.scq) &&
	     RT_CHECK(!rt_expect_event(dev, IBV_EVENT_SQ_DRAINED, a.q.qp, 20)) &&
	     RT_EQ(modify(&a.q, IBV_QPS_RTS, 0), 0) && arrives(&a, &b, 1, 8, 1, NULL) &&
	     rt_expect(a.q.scq, 1, IBV_WC_SUCCESS, NULL);
	ok = ok && RT_EQ(recv_slot(&b.q, 2), 0) && RT_EQ(post(&a, &b, 2, 8), 0) &&
	     rt_expect(a.q.scq, 2, IBV_WC_SUCCESS, NULL) &&
	     RT_EQ(ibv_modify_qp(a.q.qp, &sqd, IBV_QP_STATE | IBV_QP_EN_SQD_ASYNC_NOTIFY), 0) &&
	     RT_CHECK(rt_expect_event(dev, IBV_EVENT_SQ_DRAINED, a.q.qp, 0)) &&
	     arrives(&a, &b, 2, 8, 2, NULL) &&
	     RT_EQ(ibv_query_qp(a.q.qp, &attr, IBV_QP_STATE, &ia), 0) &&
	     RT_EQ(attr.sq_draining, 0) && RT_EQ(modify(&a.q, IBV_QPS_RTS, 0), 0) &&
	     moves(&a, &b, 3, 8);
	rt_ok(ok, "SQD: drained, with the event if it was asked for");
	eps_free(&a, &b);
}

/* Posted in SQD, the handle destroyed: still sent. */
static void test_handle_life(void)
{
	struct ibv_qp_attr sqd = { .qp_state = IBV_QPS_SQD };
	struct ep a, b;
	bool ok;

	eps(&a, &b);
	ok = RT_EQ(ibv_modify_qp(a.q.qp, &sqd, IBV_QP_STATE), 0) && RT_EQ(recv_slot(&b.q, 1), 0) &&
	     RT_EQ(post(&a, &b, 1, 77), 0) && nothing(b.q.rcq) && RT_EQ(ibv_destroy_ah(a.ah), 0);
	a.ah = ah_to(a.q.dev, a.q.dev->pd, a.q.dev->gid_index, &b.q.dev->gid);
	ok = ok && RT_EQ(modify(&a.q, IBV_QPS_RTS, 0), 0) &&
	     rt_expect(a.q.scq, 1, IBV_WC_SUCCESS, NULL) && arrives(&a, &b, 1, 77, 1, NULL);
	rt_ok(ok, "SQD holds a request, whose address handle may be destroyed meanwhile");

	/* posted, never sent */
	ok = RT_EQ(ibv_modify_qp(a.q.qp, &sqd, IBV_QP_STATE), 0) &&
	     RT_EQ(post(&a, &b, 2, 77), 0) && RT_EQ(rt_to_state(&a.q, IBV_QPS_RESET), 0) &&
	     RT_EQ(modify(&a.q, IBV_QPS_INIT, QKEY), 0) && RT_EQ(modify(&a.q, IBV_QPS_RTR, 0), 0) &&
	     RT_EQ(modify(&a.q, IBV_QPS_RTS, 0), 0) && nothing(a.q.scq) && moves(&a, &b, 3, 20);
	rt_ok(ok, "RESET forgets what was posted");
	eps_free(&a, &b);
}

/* More than one doorbell takes, or what is a relay's: all of it has the handle. */
#define CHAIN	4000

static void test_handle_of_chain(void)
{
	struct ibv_qp_init_attr ia = {
		.qp_type = IBV_QPT_UD,
		.cap = {
			.max_send_wr = CHAIN, .max_recv_wr = 1,
			.max_send_sge = 1, .max_recv_sge = 1,
		},
	};
	struct ibv_send_wr *wr = calloc(CHAIN, sizeof(*wr)), *bad;
	struct ibv_sge sge;
	struct ep a, b;
	bool ok = wr;
	int i, round;

	eps(&a, &b);
	ibv_destroy_qp(a.q.qp);
	ia.send_cq = a.q.scq;
	ia.recv_cq = a.q.rcq;
	a.q.qp = ibv_create_qp(a.q.dev->pd, &ia);
	ok = ok && a.q.qp && RT_EQ(modify(&a.q, IBV_QPS_INIT, QKEY), 0) &&
	     RT_EQ(modify(&a.q, IBV_QPS_RTR, 0), 0) && RT_EQ(modify(&a.q, IBV_QPS_RTS, 0), 0);
	sge = sge_of(&a.q, &src, 0, 16);
	for (round = 0; ok && round < 10; round++) {
		for (i = 0; i < CHAIN; i++)
			wr[i] = (struct ibv_send_wr){
				.wr_id = i,
				.next = i < CHAIN - 1 ? &wr[i + 1] : NULL,
				.sg_list = &sge,
				.num_sge = 1,
				.opcode = IBV_WR_SEND,
				.send_flags = i < CHAIN - 1 ? 0 : IBV_SEND_SIGNALED,
				.wr.ud = { a.ah, b.q.qp->qp_num, QKEY },
			};
		ok = RT_EQ(ibv_post_send(a.q.qp, wr, &bad), 0) && RT_EQ(ibv_destroy_ah(a.ah), 0);
		a.ah = ah_to(a.q.dev, a.q.dev->pd, a.q.dev->gid_index, &b.q.dev->gid);
		ok = ok && rt_expect(a.q.scq, CHAIN - 1, IBV_WC_SUCCESS, NULL);
	}
	rt_ok(ok, "of 4000 requests, posted at once, none misses the handle destroyed behind them");
	free(wr);
	eps_free(&a, &b);
}

static void test_recv_errors(void)
{
	struct ibv_sge sge;
	struct ibv_recv_wr rwr = { .wr_id = 1, .sg_list = &sge, .num_sge = 1 }, *bad;
	struct ep a, b;
	bool ok;

	eps(&a, &b);
	sge = sge_of(&b.q, &dst, 0, 1000);
	sge.lkey ^= 0x100;
	ok = RT_EQ(ibv_post_recv(b.q.qp, &rwr, &bad), 0) && RT_EQ(recv_slot(&b.q, 2), 0) &&
	     RT_EQ(post(&a, &b, 1, 10), 0) && rt_expect(a.q.scq, 1, IBV_WC_SUCCESS, NULL) &&
	     rt_expect(b.q.rcq, 1, IBV_WC_LOC_PROT_ERR, NULL) &&
	     rt_expect(b.q.rcq, 2, IBV_WC_WR_FLUSH_ERR, NULL) &&
	     rt_wait_state(&b.q, IBV_QPS_ERR) && RT_EQ(rt_state(&a.q), IBV_QPS_RTS);
	rt_ok(ok, "bad lkey in a receive: LOC_PROT_ERR, ERR, the rest flushed");
	eps_free(&a, &b);
}

static void test_states(void)
{
	struct ibv_sge sge;
	struct ibv_send_wr wr;
	struct rt_qp q;
	struct ep a, b;
	bool ok;

	eps(&a, &b);
	sge = sge_of(&a.q, &src, 0, 8);
	qp_new(&q, rt_dev_b(), NULL);
	wr = ud_wr(1, &sge, 1, b.ah, &a.q);
	ok = RT_CHECK(modify(&q, IBV_QPS_RTR, 0)) && RT_EQ(modify(&q, IBV_QPS_INIT, QKEY), 0) &&
	     RT_EQ(recv_slot(&q, 1), 0) && RT_CHECK(rt_post(&q, &wr)) &&
	     RT_EQ(modify(&q, IBV_QPS_RTR, 0), 0) && RT_CHECK(rt_post(&q, &wr));
	/* RTR receives */
	rt_fill(src.p, 8, 4, 0);
	wr = ud_wr(4, &sge, 1, a.ah, &q);
	ok = ok && RT_EQ(rt_post(&a.q, &wr), 0) && rt_expect(q.rcq, 1, IBV_WC_SUCCESS, NULL) &&
	     RT_EQ(modify(&q, IBV_QPS_RTS, 0), 0) && nothing(q.scq) &&
	     RT_EQ(recv_slot(&q, 2), 0) && RT_EQ(rt_to_state(&q, IBV_QPS_ERR), 0) &&
	     rt_expect(q.rcq, 2, IBV_WC_WR_FLUSH_ERR, NULL);
	rt_ok(ok, "states: no send before RTS, receives in RTR, flush in ERR");
	rt_qp_destroy(&q);
	eps_free(&a, &b);
}

static bool event(struct ep *e, int ms)
{
	struct pollfd p = { .fd = e->chan->fd, .events = POLLIN };
	struct ibv_cq *cq;
	void *ctx;

	if (poll(&p, 1, ms) <= 0 || ibv_get_cq_event(e->chan, &cq, &ctx))
		return false;
	ibv_ack_cq_events(cq, 1);
	return true;
}

static void test_solicited(void)
{
	struct ibv_sge sge;
	struct ibv_send_wr wr;
	struct ep a, b;
	bool ok;

	eps(&a, &b);
	sge = sge_of(&a.q, &src, 0, 8);
	wr = ud_wr(2, &sge, 1, a.ah, &b.q);
	wr.send_flags |= IBV_SEND_SOLICITED;
	ok = RT_EQ(ibv_req_notify_cq(b.q.rcq, 1), 0) && moves(&a, &b, 1, 8) &&
	     RT_CHECK(!event(&b, 50)) && RT_EQ(recv_slot(&b.q, 2), 0) &&
	     RT_EQ(rt_post(&a.q, &wr), 0) && rt_expect(b.q.rcq, 2, IBV_WC_SUCCESS, NULL) &&
	     RT_CHECK(event(&b, rt_timeout_ms));
	rt_ok(ok, "solicited events");
	eps_free(&a, &b);
}

/* ---- QP1 ---- */

/* Ask the performance agent of b; the answer is in @mad. */
static bool perf_get(struct ep *a, uint16_t attr, uint8_t method, uint8_t version, uint8_t *mad)
{
	struct ibv_sge sge = sge_of(&a->q, &src, 0, 256);
	struct ibv_send_wr wr = ud_wr(1, &sge, 1, a->ah, &a->q);
	struct ibv_wc wc;

	memset(src.p, 0, 256);
	src.p[0] = 1;
	src.p[1] = 0x04;
	src.p[2] = version;
	src.p[3] = method;
	src.p[15] = 0x5a;		/* transaction */
	src.p[16] = attr >> 8;
	src.p[17] = attr;
	src.p[65] = 1;			/* port */
	src.p[66] = 0xff;		/* counters to clear */
	src.p[67] = 0xff;
	wr.wr.ud.remote_qpn = 1;
	wr.wr.ud.remote_qkey = QKEY_GSI;
	if (!RT_EQ(recv_slot(&a->q, 1), 0) || !RT_EQ(rt_post(&a->q, &wr), 0) ||
	    !rt_expect(a->q.scq, 1, IBV_WC_SUCCESS, NULL) ||
	    !rt_expect(a->q.rcq, 1, IBV_WC_SUCCESS, &wc))
		return false;
	memcpy(mad, dst.p + SLOT + GRH, 256);
	return RT_EQ(wc.byte_len, 256 + GRH) && RT_EQ(wc.src_qp, 1) && RT_EQ(mad[1], 0x04) &&
	       RT_EQ(mad[3], 0x81) && RT_EQ(mad[15], 0x5a) && RT_EQ(mad[17], attr & 0xff);
}

static uint64_t be64(const uint8_t *p)
{
	return (uint64_t)ntohl(*(uint32_t *)p) << 32 | ntohl(*(uint32_t *)(p + 4));
}

static void test_perf(void)
{
	uint8_t mad[256], after[256];
	struct ep a, b;
	bool ok;
	int i;

	ep_new(&a, rt_dev_a(), rt_dev_b(), QKEY_GSI);
	rt_ok(perf_get(&a, 0x0001, 1, 1, mad) && RT_EQ(mad[5], 0) && RT_EQ(mad[64], 1) &&
	      RT_CHECK(mad[66] & 0x07), "the performance agent's class port info over the wire");
	ok = perf_get(&a, 0x001d, 1, 1, mad) && RT_EQ(mad[5], 0);
	ep_new(&b, rt_dev_b(), rt_dev_a(), QKEY);
	for (i = 0; i < 10; i++)
		ok = ok && RT_EQ(recv_slot(&b.q, 2), 0) && RT_EQ(post(&a, &b, 2, 1000), 0) &&
		     rt_expect(a.q.scq, 2, IBV_WC_SUCCESS, NULL) &&
		     rt_expect(b.q.rcq, 2, IBV_WC_SUCCESS, NULL);
	ok = ok && perf_get(&a, 0x001d, 1, 1, after) && RT_EQ(after[5], 0) &&
	     /* data in words, packets: received by b */
	     RT_CHECK(be64(after + 80) - be64(mad + 80) >= 2500) &&
	     RT_CHECK(be64(after + 96) - be64(mad + 96) >= 10) &&
	     RT_CHECK(be64(after + 96) - be64(mad + 96) < 100);
	rt_ok(ok, "extended port counters follow the traffic");
	ok = perf_get(&a, 0x0012, 1, 1, mad) && RT_EQ(mad[5], 0) &&
	     RT_CHECK(ntohl(*(uint32_t *)(mad + 100)) >= 10) &&
	     perf_get(&a, 0x0012, 2, 1, mad) && RT_EQ(mad[5], 0) &&
	     RT_CHECK(ntohl(*(uint32_t *)(mad + 100)) < 10);
	rt_ok(ok, "port counters, and Set clears them");
	rt_ok(perf_get(&a, 0x0012, 1, 2, mad) && RT_EQ(mad[5], 0x04) &&
	      perf_get(&a, 0x0011, 1, 1, mad) && RT_EQ(mad[5], 0x0c) &&
	      perf_get(&a, 0x0001, 2, 1, mad) && RT_EQ(mad[5], 0x08),
	      "wrong version, attribute and method are answered with their status");
	eps_free(&a, &b);
}

int main(int argc, char **argv)
{
	rt_parse(argc, argv);
	src = rt_buf(rt_dev_a(), 2 * SLOT, RT_ACCESS_ALL);
	dst = rt_buf(rt_dev_a(), NSLOT * SLOT, RT_ACCESS_ALL);
	src_mr_b = ibv_reg_mr(rt_dev_b()->pd, src.p, src.len, RT_ACCESS_ALL);
	dst_mr_b = ibv_reg_mr(rt_dev_b()->pd, dst.p, dst.len, RT_ACCESS_ALL);
	if (!src_mr_b || !dst_mr_b)
		rt_die("reg_mr: %s", strerror(errno));
	grh_mtu = 128 << rt_dev_a()->port.active_mtu;
	test_sizes();
	test_imm_inline();
	test_sges();
	test_grh(true);
	test_grh(false);
	test_handles();
	test_cpus();
	test_qkeys();
	test_dropped();
	test_send_errors();
	test_handle_errors();
	test_sqd();
	test_handle_life();
	test_handle_of_chain();
	test_recv_errors();
	test_states();
	test_solicited();
	test_perf();
	return rt_done();
}
