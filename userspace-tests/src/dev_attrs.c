// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * dev_attrs - what the device says of itself, and what it refuses.
 *
 * usage: dev_attrs -d DEV [-g GID] [-- NETDEV]
 *
 * Device, port, GID and P_Key attributes must be sane and true to the netdev;
 * oversize objects and wrong modify masks must be refused with EINVAL; query_qp
 * must give back what modify_qp set.
 *
 * Output: TAP. Exit code: 0 all ok, 1 a check failed, 2 could not run.
 */
#include "rt.h"

static struct rt_dev *dev;

static void test_device(void)
{
	struct ibv_device_attr *a = &dev->attr;

	rt_ok(RT_CHECK(a->max_qp >= 1000) && RT_CHECK(a->max_cq >= 1000) &&
	      RT_CHECK(a->max_mr >= 1000) && RT_CHECK(a->max_pd >= 1000) &&
	      RT_EQ(a->max_qp_wr, 131071) && RT_EQ(a->max_sge, 32) &&
	      RT_CHECK(a->max_cqe >= 4000000) &&
	      RT_CHECK(a->max_mr_size >= 1ull << 32) &&
	      RT_EQ(a->max_qp_rd_atom, 128) &&
	      RT_EQ(a->max_qp_init_rd_atom, 128),
	      "limits are those of the README: %d QPs, %d WRs, %d SGEs, %d CQEs, %d READs",
	      a->max_qp, a->max_qp_wr, a->max_sge, a->max_cqe,
	      a->max_qp_rd_atom);
	rt_ok(RT_EQ(a->phys_port_cnt, 1) && RT_EQ(a->max_pkeys, dev->port.pkey_tbl_len) &&
	      RT_CHECK(a->node_guid) && RT_CHECK(a->sys_image_guid) &&
	      RT_CHECK(a->page_size_cap & 4096) &&
	      RT_EQ(a->atomic_cap, IBV_ATOMIC_HCA),
	      "one port, one P_Key, a GUID, 4 KiB pages, atomics");
}

static long netdev_long(const char *netdev, const char *name)
{
	char path[256];
	long v = -1;
	FILE *f;

	snprintf(path, sizeof(path), "/sys/class/net/%s/%s", netdev, name);
	f = fopen(path, "r");
	if (f && fscanf(f, "%ld", &v) != 1)
		v = -1;
	if (f)
		fclose(f);
	return v;
}

static void test_port(const char *netdev)
{
	struct ibv_port_attr *p = &dev->port;
	struct ibv_port_attr none;
	long mtu = netdev_long(netdev, "mtu");
	int want = 0, i;

	rt_ok(RT_EQ(p->state, IBV_PORT_ACTIVE) && RT_EQ(p->phys_state, 5) &&
	      RT_EQ(p->link_layer, IBV_LINK_LAYER_ETHERNET) &&
	      RT_EQ(p->lid, 0) && RT_EQ(p->gid_tbl_len, 256) &&
	      RT_EQ(p->pkey_tbl_len, 1) && RT_CHECK(p->port_cap_flags & IBV_PORT_CM_SUP) &&
	      RT_CHECK(p->max_msg_sz >= 1u << 31),
	      "port is active Ethernet, messages up to 2^31");
	rt_ok(RT_CHECK(p->active_speed) && RT_CHECK(p->active_width) &&
	      RT_EQ(p->max_mtu, IBV_MTU_4096), "speed, width and max_mtu");
	for (i = 1; i <= 5; i++)
		if ((128l << i) <= mtu - 96)
			want = i;
	if (netdev)
		rt_ok(RT_EQ(p->active_mtu, want),
		      "active_mtu fits the netdev's %ld", mtu);
	rt_ok(RT_CHECK(ibv_query_port(dev->ctx, 0, &none)) &&
	      RT_CHECK(ibv_query_port(dev->ctx, 2, &none)),
	      "ports 0 and 2 do not exist");
}

static void test_tables(void)
{
	union ibv_gid gid, zero = {};
	__be16 pkey = 0;

	rt_ok(RT_EQ(ibv_query_pkey(dev->ctx, RT_PORT, 0, &pkey), 0) &&
	      RT_EQ(be16toh(pkey), 0xffff), "P_Key 0 is 0xffff");
	rt_ok(RT_CHECK(ibv_query_pkey(dev->ctx, RT_PORT, 1, &pkey)) &&
	      RT_CHECK(ibv_query_pkey(dev->ctx, RT_PORT, 65535, &pkey)),
	      "P_Keys beyond the table are refused");
	rt_ok(RT_EQ(ibv_query_gid(dev->ctx, RT_PORT, 0, &gid), 0) &&
	      RT_CHECK(memcmp(&gid, &zero, sizeof(gid))) &&
	      RT_EQ(gid.raw[0], 0xfe) && RT_EQ(gid.raw[1], 0x80),
	      "GID 0 is link-local");
	rt_ok(RT_CHECK(ibv_query_gid(dev->ctx, RT_PORT, 70000, &gid)),
	      "GIDs beyond the table are refused");
}

static bool qp_refused(struct ibv_qp_cap cap)
{
	struct rt_opt opt = rt_defaults;
	struct rt_qp q;
	int ret;

	opt.cap = cap;
	ret = rt_qp_create(&q, dev, &opt);
	rt_qp_destroy(&q);
	return RT_EQ(ret, EINVAL);
}

static void test_oversize(void)
{
	struct ibv_device_attr *a = &dev->attr;
	const struct ibv_qp_cap d = rt_defaults.cap;
	struct ibv_qp_cap c;
	struct ibv_cq *cq;
	struct ibv_mr *mr;
	bool ok = true;
	void *p;

#define TOO_MUCH(field, value)						\
	(c = d, c.field = (value), ok = qp_refused(c) && ok)
	TOO_MUCH(max_send_wr, a->max_qp_wr + 1);
	TOO_MUCH(max_recv_wr, a->max_qp_wr + 1);
	TOO_MUCH(max_send_sge, a->max_sge + 1);
	TOO_MUCH(max_recv_sge, a->max_sge + 1);
	TOO_MUCH(max_send_wr, UINT32_MAX);
	TOO_MUCH(max_recv_wr, UINT32_MAX);
	TOO_MUCH(max_send_sge, UINT32_MAX);
	TOO_MUCH(max_inline_data, 1 << 20);
	TOO_MUCH(max_inline_data, UINT32_MAX);
	rt_ok(ok, "QPs larger than the device allows are EINVAL");

	c = (struct ibv_qp_cap) { .max_send_wr = 1, .max_recv_wr = 0,
				  .max_send_sge = 0, .max_recv_sge = 0 };
	{
		struct rt_opt opt = rt_defaults;
		struct ibv_qp_init_attr ia = {};
		struct ibv_qp_attr qa = {};
		struct rt_qp q;

		opt.cap = c;
		rt_ok(RT_EQ(rt_qp_create(&q, dev, &opt), 0),
		      "a QP without receives and SGEs is made");
		rt_ok(RT_EQ(ibv_query_qp(q.qp, &qa, IBV_QP_CAP, &ia), 0) &&
		      !memcmp(&qa.cap, &q.opt.cap, sizeof(qa.cap)),
		      "it has what create_qp said: %u and %u SGEs, %u bytes inline",
		      q.opt.cap.max_send_sge, q.opt.cap.max_recv_sge,
		      q.opt.cap.max_inline_data);
		rt_qp_destroy(&q);
	}

	cq = ibv_create_cq(dev->ctx, 10, NULL, NULL, 100000);
	rt_ok(!cq && RT_EQ(errno, EINVAL), "a CQ on a vector that is not there");

	p = malloc(4096);
	mr = ibv_reg_mr(dev->pd, p, 4096, IBV_ACCESS_REMOTE_WRITE);
	rt_ok(!mr && RT_EQ(errno, EINVAL),
	      "remote write without local write is EINVAL");
	mr = ibv_reg_mr(dev->pd, (void *)0x1000, 1 << 20, RT_ACCESS_ALL);
	rt_ok(!mr && RT_CHECK(errno == EFAULT || errno == ENOMEM),
	      "memory that is not there cannot be registered");
	mr = ibv_reg_mr(dev->pd, p, SIZE_MAX - 4096, RT_ACCESS_ALL);
	rt_ok(!mr, "a region that wraps cannot be registered");
	free(p);
}

/* What create says it has made may be asked for, of another one or of itself. */
static void test_largest(void)
{
	struct ibv_device_attr *a = &dev->attr;
	struct ibv_srq_init_attr si = { .attr = { .max_wr = a->max_srq_wr, .max_sge = 1 } };
	struct rt_opt opt = rt_defaults;
	struct ibv_qp_init_attr ia = {};
	struct ibv_qp_attr qa = {};
	struct ibv_srq *srq;
	struct rt_qp q;
	int ret;

	opt.cap = (struct ibv_qp_cap) {
		.max_send_wr = a->max_qp_wr, .max_recv_wr = a->max_qp_wr,
		.max_send_sge = 1, .max_recv_sge = 1,
	};
	ret = rt_qp_create(&q, dev, &opt);
	if (!ret)
		ret = ibv_query_qp(q.qp, &qa, IBV_QP_CAP, &ia);
	rt_qp_destroy(&q);
	rt_ok(RT_EQ(ret, 0) && RT_CHECK(qa.cap.max_send_wr <= (unsigned int)a->max_qp_wr) &&
	      RT_CHECK(qa.cap.max_recv_wr <= (unsigned int)a->max_qp_wr),
	      "a QP of max_qp_wr has no more than these: %u, %u", qa.cap.max_send_wr,
	      qa.cap.max_recv_wr);
	opt.cap = qa.cap;
	rt_ok(RT_EQ(rt_qp_create(&q, dev, &opt), 0), "another one is made of what it had");
	rt_qp_destroy(&q);
	srq = ibv_create_srq(dev->pd, &si);
	rt_ok(RT_CHECK(srq) && RT_CHECK(si.attr.max_wr <= (unsigned int)a->max_srq_wr) &&
	      RT_EQ(ibv_modify_srq(srq, &si.attr, IBV_SRQ_MAX_WR), 0),
	      "an SRQ of max_srq_wr may be resized to what it has: %u", si.attr.max_wr);
	if (srq)
		ibv_destroy_srq(srq);
}

/* @mask is refused, and the state stays. */
static bool modify_refused(struct rt_qp *q, struct ibv_qp_attr *a, int mask)
{
	enum ibv_qp_state before = rt_state(q);

	return RT_CHECK(ibv_modify_qp(q->qp, a, mask)) &&
	       RT_EQ(rt_state(q), before);
}

static void test_modify(void)
{
	const int init_mask = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
			      IBV_QP_ACCESS_FLAGS;
	const int rtr_mask = IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU |
			     IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
			     IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
	const int rts_mask = IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
			     IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
			     IBV_QP_MAX_QP_RD_ATOMIC;
	struct ibv_qp_attr init = {
		.qp_state = IBV_QPS_INIT, .port_num = RT_PORT,
		.qp_access_flags = IBV_ACCESS_REMOTE_READ,
	}, rtr = {
		.qp_state = IBV_QPS_RTR,
		.path_mtu = dev->port.active_mtu,
		.dest_qp_num = 0x123456,
		.rq_psn = 0xabcdef,
		.max_dest_rd_atomic = 7,
		.min_rnr_timer = 13,
		.ah_attr = {
			.is_global = 1, .port_num = RT_PORT,
			.grh = { .dgid = dev->gid, .hop_limit = 33,
				 .sgid_index = dev->gid_index,
				 .traffic_class = 0x20, .flow_label = 0xfff12345 },
		},
	}, rts = {
		.qp_state = IBV_QPS_RTS, .timeout = 15, .retry_cnt = 5,
		.rnr_retry = 3, .sq_psn = 0x123abc, .max_rd_atomic = 9,
	}, bad, a;
	struct ibv_qp_init_attr ia;
	struct rt_qp q;
	bool ok = true;

	if (rt_qp_create(&q, dev, &rt_defaults))
		rt_die("create QP");
	ok = modify_refused(&q, &rtr, rtr_mask) &&
	     modify_refused(&q, &rts, rts_mask) &&
	     modify_refused(&q, &init, init_mask & ~IBV_QP_PORT) &&
	     modify_refused(&q, &init, init_mask | IBV_QP_AV);
	bad = init;
	bad.port_num = 2;
	ok = ok && modify_refused(&q, &bad, init_mask);
	bad = init;
	bad.pkey_index = 99;
	ok = ok && modify_refused(&q, &bad, init_mask);
	rt_ok(ok, "RESET to INIT refuses bad masks, port, P_Key index and jumps");

	ok = RT_EQ(ibv_modify_qp(q.qp, &init, init_mask), 0) &&
	     modify_refused(&q, &rtr, rtr_mask & ~IBV_QP_DEST_QPN) &&
	     modify_refused(&q, &rtr, rtr_mask & ~IBV_QP_AV) &&
	     modify_refused(&q, &rtr, rtr_mask | IBV_QP_SQ_PSN) &&
	     modify_refused(&q, &rts, rts_mask);
	bad = rtr;
	bad.path_mtu = 9;
	ok = ok && modify_refused(&q, &bad, rtr_mask);
	bad = rtr;
	bad.max_dest_rd_atomic = 255;
	ok = ok && modify_refused(&q, &bad, rtr_mask);
	bad = rtr;
	bad.ah_attr.grh.sgid_index = 200;
	ok = ok && modify_refused(&q, &bad, rtr_mask);
	bad = rtr;
	bad.ah_attr.is_global = 0;
	ok = ok && modify_refused(&q, &bad, rtr_mask);
	rt_ok(ok, "INIT to RTR refuses bad masks and values");

	ok = RT_EQ(ibv_modify_qp(q.qp, &rtr, rtr_mask), 0) &&
	     modify_refused(&q, &rts, rts_mask & ~IBV_QP_SQ_PSN) &&
	     modify_refused(&q, &rts, rts_mask | IBV_QP_PORT);
	bad = rts;
	bad.max_rd_atomic = 255;
	ok = ok && modify_refused(&q, &bad, rts_mask);
	bad = rts;
	bad.path_mig_state = IBV_MIG_REARM;
	ok = ok && modify_refused(&q, &bad, rts_mask | IBV_QP_PATH_MIG_STATE);
	rt_ok(ok, "RTR to RTS refuses bad masks and values");

	rts.path_mig_state = IBV_MIG_MIGRATED;
	ok = RT_EQ(ibv_modify_qp(q.qp, &rts, rts_mask | IBV_QP_PATH_MIG_STATE), 0) &&
	     RT_EQ(ibv_query_qp(q.qp, &a, IBV_QP_STATE, &ia), 0) &&
	     RT_EQ(a.qp_state, IBV_QPS_RTS) &&
	     RT_EQ(a.path_mtu, rtr.path_mtu) &&
	     RT_EQ(a.dest_qp_num, rtr.dest_qp_num) &&
	     RT_EQ(a.qp_access_flags, IBV_ACCESS_REMOTE_READ) &&
	     RT_EQ(a.rq_psn, rtr.rq_psn) && RT_EQ(a.sq_psn, rts.sq_psn) &&
	     RT_EQ(a.max_dest_rd_atomic, 7) && RT_EQ(a.max_rd_atomic, 9) &&
	     RT_EQ(a.min_rnr_timer, 13) && RT_EQ(a.timeout, 15) &&
	     RT_EQ(a.retry_cnt, 5) && RT_EQ(a.rnr_retry, 3) &&
	     RT_EQ(a.path_mig_state, IBV_MIG_MIGRATED) &&
	     RT_EQ(a.port_num, RT_PORT) && RT_EQ(a.pkey_index, 0) &&
	     RT_EQ(a.ah_attr.is_global, 1) &&
	     /* RoCE: the core takes the hop limit from the route */
	     a.ah_attr.grh.hop_limit &&
	     RT_EQ(a.ah_attr.grh.traffic_class, 0x20) &&
	     /* as large as it is on the wire */
	     RT_EQ(a.ah_attr.grh.flow_label, 0x12345) &&
	     RT_EQ(a.ah_attr.grh.sgid_index, dev->gid_index) &&
	     RT_EQ(memcmp(&a.ah_attr.grh.dgid, &dev->gid, 16), 0) &&
	     RT_CHECK(a.cap.max_send_wr >= rt_defaults.cap.max_send_wr) &&
	     RT_CHECK(a.cap.max_inline_data >= 64) &&
	     RT_EQ(ia.qp_type, IBV_QPT_RC);
	rt_ok(ok, "query_qp gives back what was set");
	rt_qp_destroy(&q);
}

/* Programs ask for more than the fields hold, and other devices let them. */
static void test_modify_large(void)
{
	struct ibv_qp_attr a = {
		.qp_state = IBV_QPS_SQD, .retry_cnt = 12, .rnr_retry = 10, .min_rnr_timer = 40,
	}, bad = { .timeout = 32 };
	struct ibv_qp_init_attr ia;
	struct rt_pair p;
	bool ok;

	rt_pair_create(&p, dev, dev, &rt_defaults);
	ok = RT_EQ(ibv_modify_qp(p.a.qp, &a, IBV_QP_STATE), 0) &&
	     RT_EQ(ibv_modify_qp(p.a.qp, &a, IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
				 IBV_QP_MIN_RNR_TIMER), 0) &&
	     RT_EQ(ibv_query_qp(p.a.qp, &a, IBV_QP_RETRY_CNT, &ia), 0) &&
	     RT_EQ(a.retry_cnt, 7) && RT_EQ(a.rnr_retry, 7) && RT_EQ(a.min_rnr_timer, 31) &&
	     modify_refused(&p.a, &bad, IBV_QP_TIMEOUT);
	rt_ok(ok, "retry_cnt, rnr_retry and min_rnr_timer are the most there is at most");
	rt_pair_destroy(&p);
}

static void test_in_use(void)
{
	struct ibv_pd *pd = ibv_alloc_pd(dev->ctx);
	char *mem = aligned_alloc(4096, 4096);
	struct ibv_mr *mr = ibv_reg_mr(pd, mem, 4096, RT_ACCESS_ALL);
	struct rt_qp q;
	int ret;

	ret = ibv_dealloc_pd(pd);
	rt_ok(RT_EQ(ret, EBUSY), "a PD with an MR is busy");
	ibv_dereg_mr(mr);
	if (ret)
		ibv_dealloc_pd(pd);
	free(mem);
	if (rt_qp_create(&q, dev, &rt_defaults))
		rt_die("create QP");
	ret = ibv_destroy_cq(q.scq);
	rt_ok(RT_EQ(ret, EBUSY), "a CQ with a QP is busy");
	rt_qp_destroy(&q);
}

int main(int argc, char **argv)
{
	rt_parse(argc, argv);
	dev = rt_dev_a();
	test_device();
	test_port(argc > rt_args.first ? argv[rt_args.first] : NULL);
	test_tables();
	test_oversize();
	test_largest();
	test_modify();
	test_modify_large();
	test_in_use();
	return rt_done();
}
