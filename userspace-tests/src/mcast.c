// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * mcast - UD multicast: attach, send, receive, detach.
 *
 * usage: mcast [-d DEV] [-g GID] GROUP QPS SEND WANT
 *        mcast [-d DEV] [-g GID] GROUP api
 *
 * GROUP is an IPv4 or IPv6 address. Attaches QPS QPs, prints "ready", sends SEND
 * datagrams from the first QP, and each attached QP must get WANT of them (its
 * own included), right and not one more. "api" tries what must be refused.
 *
 * Output: TAP. Exit code: 0 all ok, 1 a check failed, 2 could not run.
 */
#include <arpa/inet.h>
#include "rt.h"

#define MAX_QPS		64
#define QKEY		0x1234567
#define SIZE		256
#define GRH		40
#define DEPTH		128
#define MAX_SEND	64		/* datagrams, each from memory of its own */
#define PSEED		4711		/* of the pattern: the same for all */
#define MCAST_QPN	0xffffff

struct ud {
	struct ibv_qp *qp;
	struct ibv_cq *cq;
	struct rt_buf buf;
	uint64_t seen;		/* bit per datagram */
};

static union ibv_gid group;
static struct ud uds[MAX_QPS];

static void parse_group(const char *text)
{
	memset(&group, 0, sizeof(group));
	if (inet_pton(AF_INET6, text, &group) == 1)
		return;
	group.raw[10] = 0xff;
	group.raw[11] = 0xff;
	if (inet_pton(AF_INET, text, &group.raw[12]) != 1)
		rt_die("%s is not an address", text);
}

static void post_recv(struct ud *u, int slot)
{
	struct ibv_sge sge = {
		.addr = (uintptr_t)u->buf.p + slot * (GRH + SIZE),
		.length = GRH + SIZE, .lkey = u->buf.mr->lkey,
	};
	struct ibv_recv_wr wr = { .wr_id = slot, .sg_list = &sge, .num_sge = 1 }, *bad;

	if (ibv_post_recv(u->qp, &wr, &bad))
		rt_die("receive: %s", strerror(errno));
}

static void create(struct ud *u, enum ibv_qp_type type)
{
	struct ibv_qp_init_attr init = {
		.qp_type = type,
		.cap = { .max_send_wr = DEPTH, .max_recv_wr = DEPTH,
			 .max_send_sge = 1, .max_recv_sge = 1 },
	};
	struct ibv_qp_attr a = {
		.qp_state = IBV_QPS_INIT, .port_num = RT_PORT, .qkey = QKEY,
	};
	struct rt_dev *dev = rt_dev_a();
	int i;

	u->cq = ibv_create_cq(dev->ctx, 2 * DEPTH, NULL, NULL, 0);
	init.send_cq = u->cq;
	init.recv_cq = u->cq;
	u->qp = u->cq ? ibv_create_qp(dev->pd, &init) : NULL;
	if (!u->qp)
		rt_die("QP: %s", strerror(errno));
	if (type != IBV_QPT_UD)
		return;
	u->buf = rt_buf(dev, (GRH + SIZE) * DEPTH + SIZE * MAX_SEND, IBV_ACCESS_LOCAL_WRITE);
	if (ibv_modify_qp(u->qp, &a, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
			  IBV_QP_QKEY))
		rt_die("INIT: %s", strerror(errno));
	for (i = 0; i < DEPTH; i++)
		post_recv(u, i);
	a.qp_state = IBV_QPS_RTR;
	if (ibv_modify_qp(u->qp, &a, IBV_QP_STATE))
		rt_die("RTR: %s", strerror(errno));
	a.qp_state = IBV_QPS_RTS;
	if (ibv_modify_qp(u->qp, &a, IBV_QP_STATE | IBV_QP_SQ_PSN))
		rt_die("RTS: %s", strerror(errno));
}

static void destroy(struct ud *u)
{
	if (ibv_destroy_qp(u->qp) || ibv_destroy_cq(u->cq))
		rt_die("QP and CQ stay: %s", strerror(errno));
	if (u->buf.p)
		rt_buf_free(&u->buf);
}

/* --- data --- */

static bool send_all(struct ud *u, int n)
{
	struct ibv_ah_attr attr = {
		.is_global = 1, .port_num = RT_PORT,
		.grh = { .dgid = group, .sgid_index = rt_dev_a()->gid_index, .hop_limit = 8 },
	};
	uint8_t *p = u->buf.p + (size_t)DEPTH * (GRH + SIZE);
	struct ibv_sge sge = { .length = SIZE, .lkey = u->buf.mr->lkey };
	struct ibv_ah *ah = ibv_create_ah(rt_dev_a()->pd, &attr);
	int i;

	if (!ah)
		return rt_ok(false, "create_ah for the group: %s", strerror(errno));
	for (i = 0; i < n; i++) {
		struct ibv_send_wr wr = rt_wr(1000 + i, IBV_WR_SEND_WITH_IMM, IBV_SEND_SIGNALED,
					      &sge, 1), *bad;

		sge.addr = (uintptr_t)p + i * SIZE;
		rt_fill(p + i * SIZE, SIZE, PSEED + i, 0);
		wr.imm_data = htobe32(i);
		wr.wr.ud.ah = ah;
		wr.wr.ud.remote_qpn = MCAST_QPN;
		wr.wr.ud.remote_qkey = QKEY;
		if (ibv_post_send(u->qp, &wr, &bad))
			rt_die("post_send: %s", strerror(errno));
		usleep(2000);
	}
	return !ibv_destroy_ah(ah);
}

/* The destination in front of the message is the group. */
static bool header_ok(const uint8_t *grh)
{
	if (group.raw[0] == 0xff)
		return RT_CHECK(!memcmp(grh + 24, group.raw, 16));
	return RT_CHECK(!memcmp(grh + 36, group.raw + 12, 4));
}

static bool receive_ok(struct ud *u, const struct ibv_wc *wc)
{
	uint8_t *p = u->buf.p + wc->wr_id * (GRH + SIZE);
	uint32_t i = be32toh(wc->imm_data);

	if (!RT_EQ(wc->byte_len, GRH + SIZE) || !RT_CHECK(wc->wc_flags & IBV_WC_GRH) ||
	    !RT_CHECK(i < 64) || !RT_CHECK(!(u->seen >> i & 1)))
		return false;
	u->seen |= 1ull << i;
	return header_ok(p) && rt_check(p + GRH, SIZE, PSEED + i, 0);
}

/* Completions of @u until @ms pass without one; returns receives, -1 on error. */
static int drain(struct ud *u, int want, unsigned int ms)
{
	struct ibv_wc wc;
	int n = 0;

	while (rt_poll(u->cq, &wc, n < want ? 0 : ms)) {
		if (!RT_EQ(wc.status, IBV_WC_SUCCESS))
			return -1;
		if (wc.wr_id >= 1000)
			continue;
		if (!receive_ok(u, &wc))
			return -1;
		n++;
	}
	return n;
}

static void exchange(int qps, int nsend, int want)
{
	int i, bad = 0;

	for (i = 0; i < qps || !i; i++)
		create(&uds[i], IBV_QPT_UD);
	for (i = 0; i < qps; i++)
		bad += !!ibv_attach_mcast(uds[i].qp, &group, 0);
	rt_ok(!bad, "%d QPs attached", qps);
	printf("# ready\n");
	if (nsend)
		rt_ok(send_all(&uds[0], nsend), "%d datagrams sent", nsend);
	for (i = 0; i < qps; i++)
		bad += !RT_EQ(drain(&uds[i], want, 300), want);
	rt_ok(!bad, "%d datagrams at each of %d QPs, once and right", want, qps);
	for (bad = 0, i = 0; i < qps; i++)
		bad += !!ibv_detach_mcast(uds[i].qp, &group, 0);
	rt_ok(!bad, "detached");
	for (i = 0; i < qps || !i; i++)
		destroy(&uds[i]);
}

static void api(void)
{
	union ibv_gid unicast = rt_dev_a()->gid;
	struct ud *u = &uds[0], *rc = &uds[1];

	create(u, IBV_QPT_UD);
	create(rc, IBV_QPT_RC);
	rt_ok(ibv_attach_mcast(rc->qp, &group, 0), "an RC QP is not attached");
	rt_ok(ibv_attach_mcast(u->qp, &unicast, 0), "nor to a unicast address");
	rt_ok(ibv_detach_mcast(u->qp, &group, 0), "detach without attach fails");
	rt_ok(!ibv_attach_mcast(u->qp, &group, 0), "attach");
	rt_ok(!ibv_attach_mcast(u->qp, &group, 0), "attach again changes nothing");
	rt_ok(ibv_destroy_qp(u->qp) == EBUSY, "an attached QP is not destroyed");
	rt_ok(!ibv_detach_mcast(u->qp, &group, 0), "detach");
	rt_ok(ibv_detach_mcast(u->qp, &group, 0), "detach again fails");
	rt_ok(!ibv_attach_mcast(u->qp, &group, 0) && !ibv_attach_mcast(u->qp, &group, 1),
	      "attach with two LIDs");
	rt_ok(!ibv_detach_mcast(u->qp, &group, 1) && ibv_destroy_qp(u->qp) == EBUSY,
	      "detach the second: the first is left");
	rt_ok(!ibv_detach_mcast(u->qp, &group, 0) && !ibv_destroy_qp(u->qp),
	      "detach both, destroy");
	if (ibv_destroy_cq(u->cq))
		rt_die("CQ stays: %s", strerror(errno));
	create(u, IBV_QPT_UD);
	rt_ok(!ibv_attach_mcast(u->qp, &group, 0), "attach, and end the process so");
}

int main(int argc, char **argv)
{
	int n;

	setlinebuf(stdout);
	rt_parse(argc, argv);
	n = argc - rt_args.first;
	argv += rt_args.first;
	if (n < 2)
		rt_die("usage: mcast [-d DEV] [-g GID] GROUP (QPS SEND WANT | api)");
	parse_group(argv[0]);
	if (n == 2)
		api();
	else if (n == 4 && atoi(argv[1]) <= MAX_QPS && atoi(argv[2]) <= MAX_SEND)
		exchange(atoi(argv[1]), atoi(argv[2]), atoi(argv[3]));
	else
		rt_die("at most %d QPs and %d datagrams", MAX_QPS, MAX_SEND);
	return rt_done();
}
