// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * last_ack - a QP that leaves RTS acknowledges first what it has received.
 *
 * usage: last_ack -d DEV [-D DEV2] [-g GID] [-G GID2] [ROUNDS]
 *
 * One thread writes through the QP without a pause, another takes it to ERR as soon as
 * it has the message of the peer: whose completion must be a success, though the burst
 * of a WRITE is under way when the message comes. ROUNDS: default 60.
 *
 * Output: TAP. Exit code: 0 all ok, 1 a check failed, 2 could not run.
 */
#include <pthread.h>
#include <stdatomic.h>
#include "rt.h"

#define SIZE	65536
#define DEPTH	8

static struct rt_buf abuf, bbuf;
static struct rt_pair p;
static atomic_bool stop;
static atomic_uint written;

/* Until the QP is in ERR. */
static void *writer(void *arg)
{
	struct ibv_sge sge = {
		.addr = (uintptr_t)bbuf.p + SIZE, .length = SIZE, .lkey = bbuf.mr->lkey,
	};
	struct ibv_send_wr wr = rt_wr(1, IBV_WR_RDMA_WRITE, IBV_SEND_SIGNALED, &sge, 1);
	unsigned int ready = DEPTH;
	struct ibv_wc wc[DEPTH];
	int n;

	wr.wr.rdma.remote_addr = (uintptr_t)abuf.p + SIZE;
	wr.wr.rdma.rkey = abuf.mr->rkey;
	while (!stop) {
		for (; ready; ready--)
			if (rt_post(&p.b, &wr))
				return NULL;
		n = ibv_poll_cq(p.b.scq, DEPTH, wc);
		if (n < 0)
			return NULL;
		ready += n;
		written += n;
	}
	return NULL;
}

static bool round_trip(void)
{
	struct ibv_sge sge = { .addr = (uintptr_t)abuf.p, .length = 64, .lkey = abuf.mr->lkey };
	struct ibv_send_wr wr = rt_wr(2, IBV_WR_SEND, IBV_SEND_SIGNALED, &sge, 1);
	uint64_t end = rt_now_ms() + rt_timeout_ms;
	struct rt_opt opt = rt_defaults;
	struct ibv_wc wc;
	pthread_t t;
	bool ok;

	opt.timeout = 12;
	opt.retry_cnt = 3;
	rt_pair_create(&p, rt_dev_a(), rt_dev_b(), &opt);
	stop = false;
	written = 0;
	ok = RT_EQ(rt_post_recv(&p.b, 3, &bbuf, 0, 64), 0);
	if (pthread_create(&t, NULL, writer, NULL))
		rt_die("pthread_create");
	while (ok && written < DEPTH)
		ok = RT_CHECK(rt_now_ms() < end);
	ok = ok && RT_EQ(rt_post(&p.a, &wr), 0);
	while (ok && !ibv_poll_cq(p.b.rcq, 1, &wc))
		ok = RT_CHECK(rt_now_ms() < end);
	ok = ok && RT_EQ(wc.status, IBV_WC_SUCCESS) && RT_EQ(rt_to_state(&p.b, IBV_QPS_ERR), 0) &&
	     rt_expect(p.a.scq, 2, IBV_WC_SUCCESS, &wc);
	stop = true;
	pthread_join(t, NULL);
	rt_pair_destroy(&p);
	return ok;
}

int main(int argc, char **argv)
{
	unsigned int i, n, lost = 0;

	rt_parse(argc, argv);
	n = argc > rt_args.first ? strtoul(argv[rt_args.first], NULL, 0) : 60;
	abuf = rt_buf(rt_dev_a(), 2 * SIZE, RT_ACCESS_ALL);
	bbuf = rt_buf(rt_dev_b(), 2 * SIZE, RT_ACCESS_ALL);
	for (i = 0; i < n; i++)
		lost += !round_trip();
	rt_diag("%u of %u lost", lost, n);
	rt_ok(!lost, "ERR acknowledges first");
	return rt_done();
}
