// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * rc_polled - a thread that looks at memory, not at completions, for WRITEs of a peer.
 *
 * usage: rc_polled [-d DEV] [-D DEV2] [-g GID] [-G GID2]
 *
 * Nothing but a completion proves that a WRITE is there. But programs wait for the end of
 * one to change, as NCCL and MPI do, for hardware writes upwards. The peer writes one record
 * again and again, full of its number; the thread reads it from the end, and must not find
 * an older number than there. Records of several lengths at several places, for how memory
 * is copied depends on both.
 *
 * Output: TAP. Exit code: 0 all ok, 1 a check failed, 2 could not run.
 */
#include <pthread.h>
#include "rt.h"

#define BUF_LEN		4096
#define SLOTS		8		/* records that the peer sends from in turn */
#define SLOT_LEN	256

static struct rt_buf from, to;

struct look {
	const volatile uint64_t *word;
	unsigned int nr;
	volatile bool end;
	unsigned long seen, torn;
};

static void *look(void *arg)
{
	struct look *l = arg;
	uint64_t last = 0;
	unsigned int i;

	while (!l->end) {
		uint64_t n = __atomic_load_n(&l->word[l->nr - 1], __ATOMIC_ACQUIRE);

		if (n == last)
			continue;
		last = n;
		l->seen++;
		for (i = l->nr - 1; i--;)
			if (__atomic_load_n(&l->word[i], __ATOMIC_ACQUIRE) < n)
				l->torn++;
	}
	return NULL;
}

/* WRITEs of @len bytes to @off of the page, @count of them. */
static bool write_and_look(struct rt_qp *q, size_t len, size_t off, unsigned int count)
{
	struct look l = {
		.word = (const volatile uint64_t *)(to.p + off), .nr = len / sizeof(uint64_t),
	};
	pthread_t thread;
	struct ibv_wc wc;
	bool ok = true;
	unsigned int n, i;

	memset(to.p, 0, BUF_LEN);
	if (pthread_create(&thread, NULL, look, &l))
		rt_die("pthread_create");
	for (n = 1; ok && n <= count; n++) {
		uint64_t *record = (uint64_t *)(from.p + n % SLOTS * SLOT_LEN);
		struct ibv_sge sge = {
			.addr = (uintptr_t)record, .length = len, .lkey = from.mr->lkey,
		};
		bool signal = n % (SLOTS / 2) == 0;
		struct ibv_send_wr wr = rt_wr(n, IBV_WR_RDMA_WRITE, signal ? IBV_SEND_SIGNALED : 0,
					      &sge, 1);

		for (i = 0; i < l.nr; i++)
			record[i] = n;
		wr.wr.rdma.remote_addr = (uintptr_t)to.p + off;
		wr.wr.rdma.rkey = to.mr->rkey;
		ok = RT_EQ(rt_post(q, &wr), 0) &&
		     (!signal || RT_CHECK(rt_expect(q->scq, n, IBV_WC_SUCCESS, &wc)));
	}
	l.end = true;
	pthread_join(thread, NULL);
	if (l.torn)
		rt_diag("%zu bytes at %zu: of %lu records seen %lu words were old", len, off,
			l.seen, l.torn);
	return ok && RT_CHECK(l.seen > 0) && RT_EQ(l.torn, 0);
}

int main(int argc, char **argv)
{
	static const size_t lens[] = { 16, 32, 64, 104, 128 };
	static const size_t offs[] = { 0, 0x40, 0x78 };
	struct rt_opt opt = rt_defaults;
	struct rt_pair p;
	bool ok = true;
	size_t i, j;

	rt_parse(argc, argv);
	from = rt_buf(rt_dev_a(), BUF_LEN, IBV_ACCESS_LOCAL_WRITE);
	to = rt_buf(rt_dev_b(), BUF_LEN, RT_ACCESS_ALL);
	rt_pair_create(&p, rt_dev_a(), rt_dev_b(), &opt);
	for (i = 0; ok && i < ARRAY_SIZE(lens); i++)
		for (j = 0; ok && j < ARRAY_SIZE(offs); j++)
			ok = write_and_look(&p.a, lens[i], offs[j], rt_slow() ? 2000 : 20000);
	rt_ok(ok, "who sees the end of a WRITE sees all of it");
	rt_pair_destroy(&p);
	rt_buf_free(&from);
	rt_buf_free(&to);
	return rt_done();
}
