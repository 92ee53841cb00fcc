// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * modify_race - threads that modify the same QP at the same time, address vector
 * included.
 *
 * usage: modify_race -d DEV [-g GID] [-t SECONDS]
 *
 * The RDMA core keeps a reference to the source GID of a QP and exchanges it
 * without a lock after the driver has returned. If one is lost, the kernel reports
 * it when the device goes; if one is given back twice, when it is used again.
 *
 * Output: TAP. Exit code: 0 all ok, 1 a check failed, 2 could not run.
 */
#include <pthread.h>
#include "rt.h"

#define THREADS		4
#define GIDS		3	/* of the device */

static struct rt_qp q;
static uint64_t end;
static unsigned long moved[THREADS];

/* A drained QP may be given another path: to ourselves, from each address in turn. */
static void *move(void *arg)
{
	struct ibv_qp_attr a = {
		.qp_state = IBV_QPS_SQD,
		.ah_attr = { .is_global = 1, .port_num = RT_PORT, .grh.hop_limit = 64 },
	};
	unsigned long *n = arg;
	unsigned int i = 0;

	for (; rt_now_ms() < end; i++) {
		struct ibv_global_route *grh = &a.ah_attr.grh;

		grh->sgid_index = i % GIDS;
		if (ibv_query_gid(q.dev->ctx, RT_PORT, grh->sgid_index, &grh->dgid))
			continue;
		if (!ibv_modify_qp(q.qp, &a, IBV_QP_STATE | IBV_QP_AV))
			++*n;
	}
	return NULL;
}

int main(int argc, char **argv)
{
	struct rt_opt opt = rt_defaults;
	unsigned long sum = 0;
	pthread_t t[THREADS];
	unsigned int i;

	rt_parse(argc, argv);
	end = rt_now_ms() + 1000ull * rt_args.seconds;
	if (rt_qp_create(&q, rt_dev_a(), &opt))
		rt_die("create QP: %m");
	if (rt_to_init(&q) || rt_to_rtr(&q, &q.dev->gid, q.qp->qp_num) || rt_to_rts(&q) ||
	    rt_to_state(&q, IBV_QPS_SQD))
		rt_die("QP to SQD: %m");
	for (i = 0; i < THREADS; i++)
		if (pthread_create(&t[i], NULL, move, &moved[i]))
			rt_die("pthread_create");
	for (i = 0; i < THREADS; i++) {
		pthread_join(t[i], NULL);
		sum += moved[i];
	}
	rt_diag("%lu paths", sum);
	rt_ok(sum > 0, "threads modify one QP");
	rt_qp_destroy(&q);
	return rt_done();
}
