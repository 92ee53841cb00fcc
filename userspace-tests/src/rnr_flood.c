// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * rnr_flood - many QPs that try again and again to send to a peer without a receive.
 *
 * usage: rnr_flood [-d DEV] [-D DEV2] [-g GID] [-G GID2]
 *
 * Each of them has the shortest RNR timer and may try for ever, so together they want
 * more than all processors. What the kernel does for them must leave other processes their
 * share, on each processor; and a receive that is posted in the end is still found.
 *
 * Output: TAP. Exit code: 0 all ok, 1 a check failed, 2 could not run.
 */
#define _GNU_SOURCE
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include "rt.h"

#define PAIRS	150
#define FEW	40		/* pairs on a slow kernel: more than its processors can do, too */
#define WORK	200		/* ms that the work takes where nothing else runs */
#define SHARE	20		/* ... and how many times that at most, beside the flood */

static struct rt_pair pairs[PAIRS];
static unsigned int n_pairs = PAIRS;

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

static void flood(const struct rt_buf *a, const struct rt_buf *b)
{
	struct ibv_sge sge = { .addr = (uintptr_t)a->p, .length = 8, .lkey = a->mr->lkey };
	struct ibv_send_wr wr = rt_wr(1, IBV_WR_SEND, IBV_SEND_SIGNALED, &sge, 1);
	struct rt_opt opt = rt_defaults;
	unsigned int i;

	opt.cqe = 4;
	opt.cap.max_send_wr = 4;
	opt.cap.max_recv_wr = 4;
	opt.min_rnr_timer = 1;
	opt.rnr_retry = 7;
	for (i = 0; i < n_pairs; i++)
		rt_pair_create(&pairs[i], rt_dev_a(), rt_dev_b(), &opt);
	for (i = 0; i < n_pairs; i++) {
		sge.addr = (uintptr_t)a->p;
		sge.lkey = a->mr->lkey;
		rt_post(&pairs[i].a, &wr);
		sge.addr = (uintptr_t)b->p;
		sge.lkey = b->mr->lkey;
		rt_post(&pairs[i].b, &wr);
	}
}

int main(int argc, char **argv)
{
	struct rt_buf a, b;
	uint64_t alone, beside = 0, took;
	unsigned long n = calibrate();
	int cpu, cpus = sysconf(_SC_NPROCESSORS_ONLN);
	unsigned int i;
	bool ok = true;

	rt_parse(argc, argv);
	if (rt_slow())
		n_pairs = FEW;
	a = rt_buf(rt_dev_a(), 4096, RT_ACCESS_ALL);
	b = rt_buf(rt_dev_b(), 4096, RT_ACCESS_ALL);
	alone = work(0, n);
	flood(&a, &b);
	for (cpu = 0; cpu < cpus; cpu++) {
		took = work(cpu, n);
		printf("# processor %d: %llu ms, alone %llu ms\n", cpu,
		       (unsigned long long)took, (unsigned long long)alone);
		beside = took > beside ? took : beside;
	}
	for (i = 0; i < n_pairs && ok; i++)
		ok = RT_EQ(rt_post_recv(&pairs[i].b, 2, &b, 1024, 64), 0) &&
		     rt_expect(pairs[i].a.scq, 1, IBV_WC_SUCCESS, NULL) &&
		     rt_expect(pairs[i].b.rcq, 2, IBV_WC_SUCCESS, NULL);
	rt_ok(ok, "%u QPs without a receive find one that comes", 2 * n_pairs);
	for (i = 0; i < n_pairs; i++)
		rt_pair_destroy(&pairs[i]);
	/* the host may be busier than it was */
	took = work(0, n);
	alone = took > alone ? took : alone;
	rt_ok(RT_CHECK(beside <= SHARE * alone), "... and leave others their share meanwhile");
	rt_buf_free(&a);
	rt_buf_free(&b);
	return rt_done();
}
