// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * tx_queues - large messages of one QP, each posted from another processor than the one
 * before it.
 *
 * usage: tx_queues [-d DEV] [-D DEV2] [-g GID] [-G GID2] -- OP KIB MESSAGES [PAUSE]
 *
 * OP is read, write, or uc-write, a WRITE with immediate on UC; of the first two four are
 * in flight. Every message has to arrive; the bytes are checked in the end. A netdev that
 * chooses its transmit queue by processor is what makes this hard. PAUSE is the time in ms
 * from one message of uc-write to the next.
 *
 * Output: TAP. Exit code: 0 all ok, 1 a check failed, 2 could not run.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <sched.h>
#include "rt.h"

#define WINDOW	4
#define KIB	((size_t)1 << 10)

static struct rt_buf abuf, bbuf;
static unsigned int cpus, pause_ms;

/* Where message @n is posted. */
static void move(unsigned int n)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(n % cpus, &set);
	if (sched_setaffinity(0, sizeof(set), &set))
		rt_die("sched_setaffinity: %s", strerror(errno));
}

static int post(struct rt_pair *p, enum ibv_wr_opcode op, uint64_t id)
{
	struct ibv_sge sge = {
		.addr = (uintptr_t)abuf.p, .length = abuf.len, .lkey = abuf.mr->lkey,
	};
	struct ibv_send_wr wr = rt_wr(id, op, IBV_SEND_SIGNALED, &sge, 1);

	wr.wr.rdma.remote_addr = (uintptr_t)bbuf.p;
	wr.wr.rdma.rkey = bbuf.mr->rkey;
	wr.imm_data = htonl(id);
	move(id);
	return rt_post(&p->a, &wr);
}

/* Each of which the peer acknowledges or answers. */
static bool run_rc(struct rt_pair *p, enum ibv_wr_opcode op, unsigned int n)
{
	unsigned int posted = 0, done;
	bool ok = true;

	for (done = 0; ok && done < n; done++) {
		while (ok && posted < n && posted < done + WINDOW)
			ok = RT_EQ(post(p, op, posted++), 0);
		ok = ok && rt_expect(p->a.scq, done, IBV_WC_SUCCESS, NULL);
	}
	return ok;
}

/* What lost a packet has no completion at the peer, and nobody sends it again. */
static bool run_uc(struct rt_pair *p, unsigned int n)
{
	unsigned int i, got = 0;
	struct ibv_wc wc;
	bool ok = true;

	for (i = 0; ok && i < n; i++)
		ok = RT_EQ(rt_post_recv(&p->b, i, &bbuf, 0, 0), 0);
	for (i = 0; ok && i < n; i++) {
		ok = RT_EQ(post(p, IBV_WR_RDMA_WRITE_WITH_IMM, i), 0) &&
		     rt_expect(p->a.scq, i, IBV_WC_SUCCESS, NULL);
		usleep(pause_ms * 1000);
	}
	while (ok && got < n && rt_poll(p->b.rcq, &wc, 2000))
		ok = RT_EQ(wc.status, IBV_WC_SUCCESS) && RT_EQ(ntohl(wc.imm_data), got++);
	rt_diag("%u of %u messages arrived", got, n);
	return ok && got == n;
}

int main(int argc, char **argv)
{
	struct rt_opt opt = rt_defaults;
	enum ibv_wr_opcode wr;
	struct rt_pair p;
	unsigned int n;
	size_t len;
	char **a;
	bool ok;

	rt_parse(argc, argv);
	if (argc - rt_args.first < 3)
		rt_die("usage: %s -d DEV -D DEV2 -- OP KIB MESSAGES [PAUSE]", argv[0]);
	a = argv + rt_args.first;
	wr = strcmp(a[0], "read") ? IBV_WR_RDMA_WRITE : IBV_WR_RDMA_READ;
	len = atoi(a[1]) * KIB;
	n = atoi(a[2]);
	if (argc - rt_args.first > 3)
		pause_ms = atoi(a[3]);
	cpus = sysconf(_SC_NPROCESSORS_ONLN);
	if (!strcmp(a[0], "uc-write"))
		opt.type = IBV_QPT_UC;
	opt.cap.max_recv_wr = n;
	opt.cqe = 2 * n;
	abuf = rt_buf(rt_dev_a(), len, RT_ACCESS_ALL);
	bbuf = rt_buf(rt_dev_b(), len, RT_ACCESS_ALL);
	rt_fill(wr == IBV_WR_RDMA_READ ? bbuf.p : abuf.p, len, 1, 0);
	rt_pair_create(&p, rt_dev_a(), rt_dev_b(), &opt);
	ok = opt.type == IBV_QPT_UC ? run_uc(&p, n) : run_rc(&p, wr, n);
	ok = ok && rt_check(wr == IBV_WR_RDMA_READ ? abuf.p : bbuf.p, len, 1, 0);
	rt_ok(ok, "%u messages of %zu KiB, %s", n, len / KIB, a[0]);
	return rt_done();
}
