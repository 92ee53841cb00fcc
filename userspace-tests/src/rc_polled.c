// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * rc_polled - memory that a peer WRITEs, or READs, while a thread of its owner uses it.
 *
 * usage: rc_polled [-d DEV] [-D DEV2] [-g GID] [-G GID2]
 *
 * Nothing but a completion proves that a WRITE is there. But programs wait for the end of
 * one to change, as NCCL and MPI do, and others READ what changes meanwhile, for hardware goes
 * upwards, and has no aligned word half. Here one record is full of a number, again and again
 * of the next one:
 *
 *	write	by the peer; a thread reads it from the end, and must not find an older number
 *		in front of a newer one
 *	read	by a thread, from the end; the peer must not find a newer number in front of
 *		an older one
 *
 * and no word may have parts of two numbers. Records of several lengths at several places, for
 * how memory is copied depends on both.
 *
 * Output: TAP. Exit code: 0 all ok, 1 a check failed, 2 could not run.
 */
#include <pthread.h>
#include "rt.h"

#define BUF_LEN		4096
#define SLOTS		8		/* records that the peer sends from in turn */
#define SLOT_LEN	512
/* Numbers are multiples of this, so that each of the low bytes changes with every step. */
#define STEP		0x10101u
#define MOST		(UINT32_MAX / STEP)

static struct rt_buf from, to;

static uint64_t twice(uint32_t n)
{
	return (uint64_t)n << 32 | n;
}

static bool is_whole(uint64_t word)
{
	return word == twice(word) && (uint32_t)word % STEP == 0;
}

/* A record of @len bytes at @p: words of 8, and perhaps one of 4 at the end. From the end. */
static void fill(uint8_t *p, size_t len, uint32_t n)
{
	size_t i = len / 8;

	if (len & 4)
		__atomic_store_n((uint32_t *)(p + (len & ~7ul)), n, __ATOMIC_RELEASE);
	while (i--)
		__atomic_store_n((uint64_t *)p + i, twice(n), __ATOMIC_RELEASE);
}

struct look {
	uint8_t *p;
	size_t len;
	volatile bool end;
	volatile bool rest;		/* change() has come to its last number, and waits */
	unsigned long seen, old, torn;
	unsigned long changes;		/* READs of another number than the one before */
};

#define CHANGES		10		/* that is enough to have looked at */

/* The last word of a record, which is the number or has it twice. */
static uint32_t last_word(struct look *l)
{
	uint32_t n;

	if (l->len & 4) {
		n = __atomic_load_n((uint32_t *)(l->p + (l->len & ~7ul)), __ATOMIC_ACQUIRE);
		l->torn += n % STEP != 0;
	} else {
		uint64_t word = __atomic_load_n((uint64_t *)(l->p + l->len) - 1, __ATOMIC_ACQUIRE);

		n = word;
		l->torn += !is_whole(word);
	}
	return n;
}

static void *look(void *arg)
{
	struct look *l = arg;
	uint32_t last = 0;
	size_t i;

	while (!l->end) {
		uint32_t n = last_word(l);

		if (n == last)
			continue;
		last = n;
		l->seen++;
		l->changes++;
		for (i = l->len / 8; i--;) {
			uint64_t word = __atomic_load_n((uint64_t *)l->p + i, __ATOMIC_ACQUIRE);

			l->torn += !is_whole(word);
			l->old += (uint32_t)word < n;
		}
	}
	return NULL;
}

/* Nothing to object, in at least @least numbers. */
static bool judge(const struct look *l, const char *what, unsigned long least)
{
	if (l->old || l->torn)
		rt_diag("%s of %zu bytes at %#zx: of %lu records %lu words were old, %lu torn",
			what, l->len, (size_t)(l->p - to.p), l->seen, l->old, l->torn);
	return RT_CHECK(l->changes >= least) && RT_EQ(l->old, 0) && RT_EQ(l->torn, 0);
}

/* @count WRITEs. */
static bool write_and_look(struct rt_qp *q, size_t len, size_t off, unsigned int count)
{
	struct look l = { .p = to.p + off, .len = len };
	struct ibv_sge sge = { .length = len, .lkey = from.mr->lkey };
	pthread_t thread;
	struct ibv_wc wc;
	unsigned int n;
	bool ok = true;

	memset(to.p, 0, BUF_LEN);
	if (pthread_create(&thread, NULL, look, &l))
		rt_die("pthread_create");
	for (n = 1; ok && n <= count; n++) {
		bool signal = n % (SLOTS / 2) == 0;
		struct ibv_send_wr wr = rt_wr(n, IBV_WR_RDMA_WRITE, signal ? IBV_SEND_SIGNALED : 0,
					      &sge, 1);

		sge.addr = (uintptr_t)from.p + n % SLOTS * SLOT_LEN;
		fill(from.p + n % SLOTS * SLOT_LEN, len, n * STEP);
		wr.wr.rdma.remote_addr = (uintptr_t)l.p;
		wr.wr.rdma.rkey = to.mr->rkey;
		ok = RT_EQ(rt_post(q, &wr), 0) &&
		     (!signal || RT_CHECK(rt_expect(q->scq, n, IBV_WC_SUCCESS, &wc)));
	}
	l.end = true;
	pthread_join(thread, NULL);
	return ok && judge(&l, "WRITE", 1);
}

static void *change(void *arg)
{
	struct look *l = arg;
	uint32_t n = 0;

	while (!l->end) {
		if (l->rest)
			continue;
		fill(l->p, l->len, ++n * STEP);
		if (n == MOST) {
			n = 0;
			l->rest = true;
		}
	}
	return NULL;
}

/* @count READs while the record changes, and more if the machine had no time for the changes. */
static bool read_and_change(struct rt_qp *q, size_t len, size_t off, unsigned int count)
{
	struct look l = { .p = to.p + off, .len = len }, own = { .p = from.p, .len = len };
	struct ibv_sge sge = {
		.addr = (uintptr_t)from.p, .length = len, .lkey = from.mr->lkey,
	};
	pthread_t thread;
	struct ibv_wc wc;
	bool ok = true;
	size_t i;

	memset(to.p, 0, BUF_LEN);
	memset(from.p, 0, len);
	if (pthread_create(&thread, NULL, change, &l))
		rt_die("pthread_create");
	for (; ok && (l.seen < count || (l.changes < CHANGES && l.seen < 100 * count)); l.seen++) {
		struct ibv_send_wr wr = rt_wr(1, IBV_WR_RDMA_READ, IBV_SEND_SIGNALED, &sge, 1);
		const uint64_t *word = (const uint64_t *)from.p;
		uint32_t before = last_word(&own), last = 0;

		/* between two READs the numbers begin anew, below all that a READ may find */
		if (l.rest) {
			fill(l.p, len, 0);
			l.rest = false;
		}
		wr.wr.rdma.remote_addr = (uintptr_t)l.p;
		wr.wr.rdma.rkey = to.mr->rkey;
		ok = RT_EQ(rt_post(q, &wr), 0) &&
		     RT_CHECK(rt_expect(q->scq, 1, IBV_WC_SUCCESS, &wc));
		for (i = 0; ok && i < len / 8; i++) {
			l.torn += !is_whole(word[i]);
			l.old += (uint32_t)word[i] < last;
			last = word[i];
		}
		l.changes += last_word(&own) != before;
	}
	l.torn += own.torn;
	l.end = true;
	pthread_join(thread, NULL);
	return ok && judge(&l, "READ", CHANGES);
}

int main(int argc, char **argv)
{
	static const size_t lens[] = { 4, 12, 16, 32, 60, 64, 104, 128, 256, 512 };
	static const size_t offs[] = { 0, 0x40, 0x78 };
	unsigned int writes, reads;
	struct rt_opt opt = rt_defaults;
	struct rt_pair p;
	bool ok = true;
	size_t i, j;

	rt_parse(argc, argv);
	writes = rt_slow() ? 300 : 5000;
	reads = rt_slow() ? 60 : 1000;
	from = rt_buf(rt_dev_a(), BUF_LEN, IBV_ACCESS_LOCAL_WRITE);
	to = rt_buf(rt_dev_b(), BUF_LEN, RT_ACCESS_ALL);
	rt_pair_create(&p, rt_dev_a(), rt_dev_b(), &opt);
	for (i = 0; ok && i < ARRAY_SIZE(lens); i++)
		for (j = 0; ok && j < ARRAY_SIZE(offs); j++)
			ok = write_and_look(&p.a, lens[i], offs[j], writes);
	rt_ok(ok, "who sees the end of a WRITE sees all of it, and words as a whole");
	for (i = 0, ok = true; ok && i < ARRAY_SIZE(lens); i++)
		for (j = 0; ok && j < ARRAY_SIZE(offs); j++)
			ok = read_and_change(&p.a, lens[i], offs[j], reads);
	rt_ok(ok, "a READ of what changes goes upwards, and takes words as a whole");
	rt_pair_destroy(&p);
	rt_buf_free(&from);
	rt_buf_free(&to);
	return rt_done();
}
