// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * unsent - much at once by UD and UC through a queue of this host that is slow, and short:
 * none may be lost there, for who sends can wait.
 *
 * usage: unsent -d DEV -D DEV2 [-g GID] [-G GID2] [-- stuck | mixed | neighbour COMMAND]
 *
 * All sends are posted as fast as the SQ takes them, all receives before. With "stuck" the
 * queue does not let anything through: QPs that have something there or wait behind it can
 * be modified and destroyed all the same. With "mixed" there is no slow queue: small and large
 * messages of UC leave together, and keep their order. With "neighbour" the shell command lets
 * the peer answer ARP late.
 *
 * Output: TAP. Exit code: 0 all ok, 1 a check failed, 2 could not run.
 */
#include "rt.h"

#define MANY		2000
#define FEW		100
#define SMALL		64
#define DATAGRAM	4096
#define MESSAGE		65536
#define LARGE		262144
#define GRH		40
#define LISTS		40
#define LIST		16
#define QUIET_MS	2000		/* the slow way has nothing more for us */
#define NEIGHBOUR_MS	10000		/* it is asked for once in a second */

static struct rt_buf src, dst;
static struct ibv_ah *ah;

static struct ibv_send_wr request(struct rt_pair *p, enum ibv_wr_opcode op,
				  struct ibv_sge *sge, uint32_t len)
{
	struct ibv_send_wr wr;

	*sge = (struct ibv_sge) {
		.addr = (uintptr_t)src.p,
		.length = len,
		.lkey = src.mr->lkey,
	};
	wr = rt_wr(0, op, IBV_SEND_SIGNALED, sge, 1);
	if (p->a.opt.type == IBV_QPT_UD) {
		wr.wr.ud.ah = ah;
		wr.wr.ud.remote_qpn = p->b.qp->qp_num;
		wr.wr.ud.remote_qkey = RT_QKEY;
	} else {
		wr.wr.rdma.remote_addr = (uintptr_t)dst.p;
		wr.wr.rdma.rkey = dst.mr->rkey;
	}
	return wr;
}

/* Up to 16 completions, of receives if they have a length; @ok: all are as they should be. */
static unsigned int reap(struct ibv_cq *cq, uint32_t len, bool *ok)
{
	struct ibv_wc wc[16];
	int i, n = ibv_poll_cq(cq, ARRAY_SIZE(wc), wc);

	*ok = *ok && RT_CHECK(n >= 0);
	for (i = 0; i < n; i++)
		*ok = *ok && RT_EQ(wc[i].status, IBV_WC_SUCCESS) &&
		      (!len || RT_EQ(wc[i].byte_len, len));
	return n > 0 ? n : 0;
}

/*
 * Until @n of @len bytes have come, or nothing comes any more; sends are reaped on the way. Returns
 * how many came, and whether all went well.
 */
static unsigned int arrive(struct rt_pair *p, unsigned int n, uint32_t len, bool *ok)
{
	uint64_t end = rt_now_ms() + QUIET_MS;
	unsigned int got = 0, done = 0, came, left;

	while (*ok && (got < n || done < n) && rt_now_ms() < end) {
		came = reap(p->b.rcq, len, ok);
		left = reap(p->a.scq, 0, ok);
		got += came;
		done += left;
		if (came || left)
			end = rt_now_ms() + QUIET_MS;
		else
			usleep(1000);
	}
	*ok = *ok && RT_EQ(done, n);
	return got;
}

static void open_pair(struct rt_pair *p, enum ibv_qp_type type)
{
	struct rt_opt opt = rt_defaults;

	opt.type = type;
	opt.cap.max_send_wr = MANY;
	opt.cap.max_recv_wr = MANY;
	opt.cqe = MANY + 16;
	rt_pair_create(p, rt_dev_a(), rt_dev_b(), &opt);
}

static void flood(enum ibv_qp_type type, enum ibv_wr_opcode op, unsigned int n, uint32_t len,
		  const char *what)
{
	uint32_t got_len = len + (type == IBV_QPT_UD ? GRH : 0);
	struct ibv_send_wr wr;
	unsigned int i, got;
	struct ibv_sge sge;
	struct rt_pair p;
	bool ok = true;

	open_pair(&p, type);
	for (i = 0; i < n; i++)
		ok = ok && RT_EQ(rt_post_recv(&p.b, i, &dst, 0, dst.len), 0);
	wr = request(&p, op, &sge, len);
	for (i = 0; ok && i < n; i++)
		ok = RT_EQ(rt_post(&p.a, &wr), 0);
	got = arrive(&p, n, got_len, &ok);
	rt_diag("%s: %u of %u arrived", what, got, n);
	rt_ok(ok && got == n, "%s: all arrive", what);
	rt_pair_destroy(&p);
}

/* What is there waits for ever, and so does what waits behind it. */
static void stays(enum ibv_qp_type type, enum ibv_qp_state state, const char *what)
{
	unsigned int i, n, done = 0;
	struct ibv_send_wr wr;
	struct ibv_sge sge;
	struct rt_pair p;
	bool ok = true;

	open_pair(&p, type);
	wr = request(&p, IBV_WR_SEND, &sge, DATAGRAM);
	for (i = 0; ok && i < MANY; i++)
		ok = RT_EQ(rt_post(&p.a, &wr), 0);
	usleep(100000);
	while ((n = reap(p.a.scq, 0, &ok)))
		done += n;
	rt_diag("%s: %u of %u left", what, done, MANY);
	rt_ok(ok && RT_CHECK(done < MANY / 16), "%s: waits for a queue that is stuck", what);
	rt_ok(RT_EQ(rt_to_state(&p.a, state), 0), "%s: is modified meanwhile", what);
	rt_pair_destroy(&p);
	rt_ok(true, "%s: is destroyed meanwhile", what);
}

/* Sizes in turn, posted as lists. */
static void mixed(void)
{
	static const uint32_t size[] = { 64, 128, 4000, 200, 8192 };
	struct ibv_send_wr wr[LIST], *bad;
	struct ibv_sge sge[LIST];
	unsigned int i, k, got = 0;
	struct rt_pair p;
	struct ibv_wc wc;
	bool ok = true;

	open_pair(&p, IBV_QPT_UC);
	for (i = 0; i < LISTS * LIST; i++)
		ok = ok && RT_EQ(rt_post_recv(&p.b, i, &dst, 0, dst.len), 0);
	for (i = 0; ok && i < LISTS; i++) {
		for (k = 0; k < LIST; k++) {
			wr[k] = request(&p, IBV_WR_SEND, &sge[k], size[k % ARRAY_SIZE(size)]);
			wr[k].next = k == LIST - 1 ? NULL : &wr[k + 1];
		}
		ok = RT_EQ(ibv_post_send(p.a.qp, wr, &bad), 0);
		for (k = 0; ok && k < LIST; k++)
			ok = rt_expect(p.a.scq, 0, IBV_WC_SUCCESS, NULL);
	}
	while (ok && got < LISTS * LIST && rt_poll(p.b.rcq, &wc, QUIET_MS))
		ok = RT_EQ(wc.byte_len, size[got++ % LIST % ARRAY_SIZE(size)]);
	rt_diag("%u of %u arrived", got, LISTS * LIST);
	rt_ok(ok && got == LISTS * LIST, "UC, small and large messages in lists: all, in order");
	rt_pair_destroy(&p);
}

/* Nobody knows yet where to: what waits for that is dropped if it is too much. */
static void neighbour(const char *command)
{
	struct rt_opt opt = rt_defaults;
	struct ibv_send_wr wr;
	struct ibv_sge sge;
	struct rt_pair p;
	struct ibv_wc wc;
	bool ok;

	opt.type = IBV_QPT_UC;
	opt.mtu = IBV_MTU_4096;
	rt_pair_create(&p, rt_dev_a(), rt_dev_b(), &opt);
	rt_fill(src.p, LARGE, rt_args.seed, 0);
	ok = RT_EQ(rt_post_recv(&p.b, 0, &dst, 0, dst.len), 0);
	ok = ok && RT_EQ(system(command), 0);
	wr = request(&p, IBV_WR_SEND, &sge, LARGE);
	ok = ok && RT_EQ(rt_post(&p.a, &wr), 0) && rt_expect(p.a.scq, 0, IBV_WC_SUCCESS, NULL);
	ok = ok && RT_CHECK(rt_poll(p.b.rcq, &wc, NEIGHBOUR_MS)) &&
	     RT_EQ(wc.status, IBV_WC_SUCCESS) && RT_EQ(wc.byte_len, LARGE) &&
	     RT_CHECK(rt_check(dst.p, LARGE, rt_args.seed, 0));
	rt_ok(ok, "UC, 256 KiB to one who answers ARP late: arrives");
	rt_pair_destroy(&p);
}

int main(int argc, char **argv)
{
	const char *part, *command;

	rt_parse(argc, argv);
	part = rt_args.first < argc ? argv[rt_args.first] : "";
	command = rt_args.first + 1 < argc ? argv[rt_args.first + 1] : "false";
	src = rt_buf(rt_dev_a(), LARGE, RT_ACCESS_ALL);
	dst = rt_buf(rt_dev_b(), LARGE, RT_ACCESS_ALL);
	ah = rt_ah(rt_dev_a(), rt_dev_b());
	if (!strcmp(part, "stuck")) {
		stays(IBV_QPT_UD, IBV_QPS_ERR, "UD");
		stays(IBV_QPT_UC, IBV_QPS_ERR, "UC");
		stays(IBV_QPT_UC, IBV_QPS_RESET, "UC, RESET");
	} else if (!strcmp(part, "mixed")) {
		mixed();
	} else if (!strcmp(part, "neighbour")) {
		neighbour(command);
	} else {
		flood(IBV_QPT_UD, IBV_WR_SEND, MANY, DATAGRAM, "UD, 4 KiB");
		flood(IBV_QPT_UD, IBV_WR_SEND, MANY, SMALL, "UD, 64 bytes");
		flood(IBV_QPT_UC, IBV_WR_SEND, FEW, MESSAGE, "UC SEND, 64 KiB");
		flood(IBV_QPT_UC, IBV_WR_RDMA_WRITE_WITH_IMM, FEW, MESSAGE, "UC WRITE, 64 KiB");
		flood(IBV_QPT_UC, IBV_WR_SEND, MANY, SMALL, "UC SEND, 64 bytes");
	}
	return rt_done();
}
