// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * bulk_flood - a few QPs with gigabytes to send, which no process waits for. Directly.
 *
 * usage: bulk_flood [-d DEV] [-g GID]
 *
 * What is posted goes on without the process that has posted it. It must leave other
 * processes their share of each processor, as if that process itself did the work.
 *
 * Output: TAP. Exit code: 0 all ok, 1 a check failed, 2 could not run.
 */
#define _GNU_SOURCE
#include <sched.h>
#include "rt.h"

#define PAIRS	8
#define WRITES	128		/* of each QP */
#define LENGTH	(64u << 20)
#define WORK	200		/* ms that the work takes where nothing else runs */
#define SHARE	20		/* ... and how many times that at most, beside the flood */

static struct rt_pair pairs[PAIRS];

/* So much of it, on processor @cpu; returns ms. */
static uint64_t work(int cpu, unsigned long n)
{
	uint64_t start = rt_now_ms();
	volatile unsigned long i;
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	sched_setaffinity(0, sizeof(set), &set);
	for (i = 0; i < n; i++)
		;
	return rt_now_ms() - start;
}

static unsigned long calibrate(void)
{
	unsigned long n = 1 << 16;

	while (work(0, n) < WORK)
		n *= 2;
	return n;
}

/* One call for each QP: later ones would have to share the processors with what is sent. */
static bool flood(struct rt_buf *from, struct rt_buf *to)
{
	struct ibv_sge sge = {
		.addr = (uintptr_t)from->p, .length = LENGTH, .lkey = from->mr->lkey
	};
	struct ibv_send_wr wr[WRITES], *bad;
	struct rt_opt opt = rt_defaults;
	unsigned int i;

	opt.cqe = WRITES;
	opt.cap.max_send_wr = WRITES;
	for (i = 0; i < WRITES; i++) {
		wr[i] = rt_wr(i, IBV_WR_RDMA_WRITE, IBV_SEND_SIGNALED, &sge, 1);
		wr[i].wr.rdma.remote_addr = (uintptr_t)to->p;
		wr[i].wr.rdma.rkey = to->mr->rkey;
		wr[i].next = i + 1 < WRITES ? &wr[i + 1] : NULL;
	}
	for (i = 0; i < PAIRS; i++)
		rt_pair_create(&pairs[i], rt_dev_a(), rt_dev_b(), &opt);
	for (i = 0; i < PAIRS; i++)
		if (ibv_post_send(pairs[i].a.qp, wr, &bad))
			return false;
	return true;
}

/* Is any of it still to be sent, and none refused? Without that nothing was proven. */
static bool under_way(void)
{
	unsigned int i, n = 0;
	struct ibv_wc wc;
	bool ok = true;

	for (i = 0; i < PAIRS; i++)
		for (; ibv_poll_cq(pairs[i].a.scq, 1, &wc) == 1; n++)
			ok = ok && RT_EQ(wc.status, IBV_WC_SUCCESS);
	printf("# %u of %u done\n", n, PAIRS * WRITES);
	return ok && n < PAIRS * WRITES;
}

int main(int argc, char **argv)
{
	struct rt_buf from, to;
	uint64_t alone, beside = 0, took;
	unsigned long n = calibrate();
	int cpu, cpus = sysconf(_SC_NPROCESSORS_ONLN);
	unsigned int i;
	bool ok;

	rt_parse(argc, argv);
	from = rt_buf(rt_dev_a(), LENGTH, RT_ACCESS_ALL);
	to = rt_buf(rt_dev_b(), LENGTH, RT_ACCESS_ALL);
	alone = work(0, n);
	rt_ok(flood(&from, &to), "%u MiB on %u QPs", PAIRS * WRITES * (LENGTH >> 20), PAIRS);
	for (cpu = 0; cpu < cpus; cpu++) {
		took = work(cpu, n);
		printf("# processor %d: %llu ms, alone %llu ms\n", cpu,
		       (unsigned long long)took, (unsigned long long)alone);
		beside = took > beside ? took : beside;
	}
	ok = RT_CHECK(under_way());
	for (i = 0; i < PAIRS; i++)
		rt_pair_destroy(&pairs[i]);
	/* the host may be busier than it was */
	took = work(0, n);
	alone = took > alone ? took : alone;
	rt_ok(ok && RT_CHECK(beside <= SHARE * alone), "... leave others their share");
	rt_buf_free(&from);
	rt_buf_free(&to);
	return rt_done();
}
