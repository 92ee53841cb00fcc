// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * rc_small - many small messages, and users of all kinds that post them.
 *
 * usage: rc_small -d DEV [-D DEV2] [-g GID] [-G GID2] -- PART...
 *
 * Another processor may send them. Whatever the user does then, they arrive
 * once, in order and whole, and who waits for each is not kept waiting. Parts:
 *	stream N	N SENDs, 64 in flight
 *	quiet N		N WRITEs, one in 50 with a completion, the last ones without
 *	sync N		N WRITEs, each after the completion of the one before
 *	switch FILE	the same with the switch FILE off and on in turn; prints
 *			"takes PERCENT", the time of one WRITE with it on, of that with it off
 *	fan N		N times one SEND on each of 16 QPs, then a wait until all are there
 *	switch-fan FILE	as switch, for a round of fan
 *	spun N		N streams, in the middle of which a task of real-time priority
 *			begins to spin on CPU 1, the stream's process on CPU 0
 *	bursts N	N times a few WRITEs, then a wait for all of them
 *	many N		N times one SEND on each of 16 QPs in turn
 *	events N	N bursts, whose completions are slept for
 *	end		QP destroyed, in ERR, drained, while messages may still be in the ring
 *
 * Output: TAP. Exit code: 0 all ok, 1 a check failed, 2 could not run.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <time.h>
#include "rt.h"

#define SIZE		64
#define WINDOW		64
#define SLOTS		256		/* messages in memory at a time */
#define QPS		16
#define TURNS		150		/* with a switch off, then on */
#define SPIN_MS		900		/* less than the kernel's limit for such a task */
#define STALL_MS	400		/* much less than that, much more than a busy host */

static struct rt_buf abuf, bbuf;

static uint64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000000000ull + t.tv_nsec;
}

static void make_pair(struct rt_pair *p, struct ibv_comp_channel *channel)
{
	struct rt_opt opt = rt_defaults;

	opt.cap.max_send_wr = SLOTS;
	opt.cap.max_recv_wr = SLOTS;
	opt.cqe = 2 * SLOTS;
	if (channel)
		opt.scq = ibv_create_cq(rt_dev_a()->ctx, 2 * SLOTS, NULL, channel, 0);
	if (rt_qp_create(&p->a, rt_dev_a(), &opt))
		rt_die("create QP");
	opt.scq = NULL;
	if (rt_qp_create(&p->b, rt_dev_b(), &opt))
		rt_die("create QP");
	rt_connect(&p->a, &p->b);
}

static size_t slot(uint64_t id)
{
	return (id % SLOTS) * SIZE;
}

/* The bytes of each message are its own. */
static bool post(struct rt_pair *p, enum ibv_wr_opcode op, uint64_t id, unsigned int flags)
{
	struct ibv_sge sge = {
		.addr = (uintptr_t)abuf.p + slot(id), .length = SIZE, .lkey = abuf.mr->lkey,
	};
	struct ibv_send_wr wr = rt_wr(id, op, flags, &sge, 1);

	rt_fill(abuf.p + slot(id), SIZE, id + 1, 0);
	wr.wr.rdma.remote_addr = (uintptr_t)bbuf.p + slot(id);
	wr.wr.rdma.rkey = bbuf.mr->rkey;
	return RT_EQ(rt_post(&p->a, &wr), 0);
}

static bool arrived(uint64_t id)
{
	return RT_CHECK(rt_check(bbuf.p + slot(id), SIZE, id + 1, 0));
}

static bool recv_posted(struct rt_pair *p, uint64_t id)
{
	return RT_EQ(rt_post_recv(&p->b, id, &bbuf, slot(id), SIZE), 0);
}

/* The completions that are there now must be the next ones. */
static bool reap(struct ibv_cq *cq, uint64_t *next, bool recv)
{
	struct ibv_wc wc[16];
	int i, n = ibv_poll_cq(cq, 16, wc);

	for (i = 0; i < n; i++, ++*next)
		if (!RT_EQ(wc[i].status, IBV_WC_SUCCESS) || !RT_EQ(wc[i].wr_id, *next) ||
		    (recv && (!RT_EQ(wc[i].byte_len, SIZE) || !arrived(*next))))
			return false;
	return RT_CHECK(n >= 0);
}

static bool in_time(uint64_t end)
{
	return RT_CHECK(rt_now_ms() < end);
}

static bool stream(uint64_t n)
{
	uint64_t posted = 0, done = 0, received = 0, ready;
	uint64_t end = rt_now_ms() + rt_timeout_ms;
	struct rt_pair p;
	bool ok = true;

	make_pair(&p, NULL);
	for (ready = 0; ok && ready < 2 * WINDOW; ready++)
		ok = recv_posted(&p, ready);
	while (ok && (done < n || received < n)) {
		while (ok && posted < n && posted - done < WINDOW && posted - received < WINDOW)
			ok = post(&p, IBV_WR_SEND, posted++, IBV_SEND_SIGNALED);
		ok = ok && reap(p.a.scq, &done, false) && reap(p.b.rcq, &received, true) &&
		     in_time(end);
		for (; ok && ready < received + 2 * WINDOW; ready++)
			ok = recv_posted(&p, ready);
	}
	rt_pair_destroy(&p);
	return ok;
}

/* Nobody asks for the end of the last ones, yet they arrive. */
static bool quiet(uint64_t n)
{
	uint64_t end = rt_now_ms() + rt_timeout_ms, id, done = 0;
	struct ibv_wc wc;
	struct rt_pair p;
	bool ok = true;

	make_pair(&p, NULL);
	for (id = 0; ok && id < n; id++) {
		bool signaled = id % 50 == 49;

		ok = post(&p, IBV_WR_RDMA_WRITE, id, signaled ? IBV_SEND_SIGNALED : 0);
		while (ok && id - done >= 2 * WINDOW) {
			int got = ibv_poll_cq(p.a.scq, 1, &wc);

			ok = in_time(end) && RT_CHECK(got >= 0) &&
			     (!got || (RT_EQ(wc.status, IBV_WC_SUCCESS) &&
				       RT_EQ(wc.wr_id, done + 49)));
			done += got ? 50 : 0;
		}
	}
	while (ok && memcmp(bbuf.p + slot(n - 1), abuf.p + slot(n - 1), SIZE))
		ok = in_time(end);
	for (id = n - n % 50; ok && id < n; id++)
		ok = arrived(id);
	rt_pair_destroy(&p);
	return ok;
}

static bool wait_one(struct rt_pair *p, uint64_t id)
{
	struct ibv_wc wc;

	return rt_expect(p->a.scq, id, IBV_WC_SUCCESS, &wc);
}

static int by_value(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return x < y ? -1 : x > y;
}

/* n WRITEs, each after the one before; the median of the time of one, in ns. */
static bool one_by_one(struct rt_pair *p, uint64_t *id, uint64_t n, uint64_t *median)
{
	uint64_t *ns = calloc(n, sizeof(*ns)), i, begin;
	bool ok = true;

	for (i = 0; ok && i < n; i++, ++*id) {
		begin = now_ns();
		ok = post(p, IBV_WR_RDMA_WRITE, *id, IBV_SEND_SIGNALED) && wait_one(p, *id) &&
		     arrived(*id);
		ns[i] = now_ns() - begin;
	}
	qsort(ns, n, sizeof(*ns), by_value);
	*median = ns[n / 2];
	free(ns);
	return ok;
}

static bool sync_user(uint64_t n)
{
	uint64_t id = 0, median;
	struct rt_pair p;
	bool ok;

	make_pair(&p, NULL);
	ok = one_by_one(&p, &id, n, &median);
	rt_pair_destroy(&p);
	return ok;
}

/*
 * n rounds: a message for each peer, nobody asks for its end, then a wait until they are
 * there; the median of the time of a round, in ns.
 */
static bool fan(struct rt_pair *p, uint64_t *id, uint64_t n, uint64_t *median)
{
	uint64_t *ns = calloc(n, sizeof(*ns)), i, k, begin;
	struct ibv_wc wc;
	bool ok = true;

	for (i = 0; ok && i < n; i++, ++*id) {
		bool signaled = *id % 64 == 63;

		for (k = 0; ok && k < QPS; k++)
			ok = recv_posted(&p[k], *id);
		begin = now_ns();
		for (k = 0; ok && k < QPS; k++)
			ok = post(&p[k], IBV_WR_SEND, *id, signaled ? IBV_SEND_SIGNALED : 0);
		for (k = 0; ok && k < QPS; k++)
			ok = rt_expect(p[k].b.rcq, *id, IBV_WC_SUCCESS, &wc) && arrived(*id);
		ns[i] = now_ns() - begin;
		/* the SQ has room again */
		for (k = 0; ok && signaled && k < QPS; k++)
			ok = wait_one(&p[k], *id);
	}
	qsort(ns, n, sizeof(*ns), by_value);
	*median = ns[n / 2];
	free(ns);
	return ok;
}

static void make_pairs(struct rt_pair *p, unsigned int n)
{
	while (n--)
		make_pair(p++, NULL);
}

static void destroy_pairs(struct rt_pair *p, unsigned int n)
{
	while (n--)
		rt_pair_destroy(p++);
}

static bool fan_user(uint64_t n)
{
	struct rt_pair p[QPS];
	uint64_t id = 0, median;
	bool ok;

	make_pairs(p, QPS);
	ok = fan(p, &id, n, &median);
	destroy_pairs(p, QPS);
	return ok;
}

typedef bool (*turn_fn)(struct rt_pair *p, uint64_t *id, uint64_t n, uint64_t *median);

/*
 * A host with other work is twice as slow for a while and then is not: of short
 * turns, two in a row mostly see the same.
 */
static bool switched(const char *file, turn_fn turn, unsigned int qps, uint64_t n)
{
	uint64_t percent[TURNS], ns[2], id = 0;
	int fd = open(file, O_WRONLY);
	bool ok = RT_CHECK(fd >= 0);
	struct rt_pair p[QPS];
	unsigned int i;

	make_pairs(p, qps);
	for (i = 0; ok && i < TURNS; i++) {
		ok = RT_CHECK(pwrite(fd, "0", 1, 0) == 1) && turn(p, &id, n, &ns[0]) &&
		     RT_CHECK(pwrite(fd, "1", 1, 0) == 1) && turn(p, &id, n, &ns[1]);
		percent[i] = ok ? ns[1] * 100 / ns[0] : 0;
	}
	qsort(percent, TURNS, sizeof(*percent), by_value);
	printf("takes %llu\n", (unsigned long long)percent[TURNS / 2]);
	close(fd);
	destroy_pairs(p, qps);
	return ok;
}

/* Only the last of a burst has a completion. */
static bool burst(struct rt_pair *p, uint64_t from, unsigned int len)
{
	unsigned int i;

	for (i = 0; i < len; i++)
		if (!post(p, IBV_WR_RDMA_WRITE, from + i,
			  i == len - 1 ? IBV_SEND_SIGNALED : 0))
			return false;
	return true;
}

static bool all_arrived(uint64_t from, unsigned int len)
{
	while (len--)
		if (!arrived(from + len))
			return false;
	return true;
}

static bool bursts(uint64_t n)
{
	uint64_t i, id = 0, seed = rt_args.seed;
	struct rt_pair p;
	bool ok = true;

	make_pair(&p, NULL);
	for (i = 0; ok && i < n; i++) {
		/* of one length for a while, then of any */
		unsigned int len = i < n / 2 ? 10 : 1 + rt_rand(&seed) % 40;

		ok = burst(&p, id, len) && wait_one(&p, id + len - 1) && all_arrived(id, len);
		id += len;
	}
	rt_pair_destroy(&p);
	return ok;
}

static bool many(uint64_t n)
{
	static struct rt_pair p[QPS];
	uint64_t i, k, ids[QPS] = {};
	struct ibv_wc wc;
	bool ok = true;

	make_pairs(p, QPS);
	for (i = 0; ok && i < n; i++) {
		for (k = 0; ok && k < QPS; k++)
			ok = recv_posted(&p[k], i) &&
			     post(&p[k], IBV_WR_SEND, i, i % 8 == 7 ? IBV_SEND_SIGNALED : 0);
		for (k = 0; ok && i % 8 == 7 && k < QPS; k++) {
			ok = wait_one(&p[k], i);
			for (; ok && ids[k] <= i; ids[k]++)
				ok = rt_expect(p[k].b.rcq, ids[k], IBV_WC_SUCCESS, &wc);
		}
	}
	destroy_pairs(p, QPS);
	return ok;
}

static bool sleep_for(struct ibv_comp_channel *channel)
{
	struct ibv_cq *cq;
	void *ctx;

	if (ibv_get_cq_event(channel, &cq, &ctx))
		return RT_CHECK(false);
	ibv_ack_cq_events(cq, 1);
	return true;
}

static bool events(uint64_t n)
{
	struct ibv_comp_channel *channel = ibv_create_comp_channel(rt_dev_a()->ctx);
	uint64_t i, id = 0, seed = rt_args.seed;
	struct rt_pair p;
	struct ibv_wc wc;
	bool ok = RT_CHECK(channel);

	if (!ok)
		return false;
	make_pair(&p, channel);
	for (i = 0; ok && i < n; i++) {
		unsigned int len = 1 + rt_rand(&seed) % 20;

		ok = RT_EQ(ibv_req_notify_cq(p.a.scq, 0), 0) && burst(&p, id, len) &&
		     sleep_for(channel) && wait_one(&p, id + len - 1) && all_arrived(id, len) &&
		     RT_EQ(ibv_poll_cq(p.a.scq, 1, &wc), 0);
		id += len;
	}
	rt_pair_destroy(&p);
	return ok;
}

static struct {
	sem_t go;
	atomic_bool spins, ends;
} spinner;

static void *spin(void *arg)
{
	uint64_t end;

	for (;;) {
		while (sem_wait(&spinner.go))
			;
		if (spinner.ends)
			return NULL;
		end = rt_now_ms() + SPIN_MS;
		while (rt_now_ms() < end)
			;
		spinner.spins = false;
	}
}

static bool pin(unsigned int cpu, pthread_attr_t *attr)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	if (attr)
		return RT_EQ(pthread_attr_setaffinity_np(attr, sizeof(set), &set), 0);
	return RT_EQ(sched_setaffinity(0, sizeof(set), &set), 0);
}

static bool start_spinner(pthread_t *thread)
{
	struct sched_param param = { .sched_priority = 50 };
	pthread_attr_t attr;

	sem_init(&spinner.go, 0, 0);
	pthread_attr_init(&attr);
	pthread_attr_setinheritsched(&attr, PTHREAD_EXPLICIT_SCHED);
	pthread_attr_setschedpolicy(&attr, SCHED_FIFO);
	pthread_attr_setschedparam(&attr, &param);
	return pin(1, &attr) && RT_EQ(pthread_create(thread, &attr, spin, NULL), 0) && pin(0, NULL);
}

/* WRITEs for @ms, 64 in flight; the longest time without a completion, in ms. */
static bool write_for(struct rt_pair *p, uint64_t *posted, uint64_t *done, unsigned int ms,
		      uint64_t *stall)
{
	uint64_t end = rt_now_ms() + ms, last = rt_now_ms(), before, now;

	for (now = last; now < end; now = rt_now_ms()) {
		while (*posted - *done < WINDOW)
			if (!post(p, IBV_WR_RDMA_WRITE, (*posted)++, IBV_SEND_SIGNALED))
				return false;
		before = *done;
		if (!reap(p->a.scq, done, false))
			return false;
		now = rt_now_ms();
		if (*done == before)
			continue;
		*stall = now - last > *stall ? now - last : *stall;
		last = now;
	}
	*stall = now - last > *stall ? now - last : *stall;
	return true;
}

/* Who sends a stream's messages loses its processor: they leave, and so does the QP. */
static bool spun_once(uint64_t *stall, bool *late)
{
	uint64_t posted = 0, done = 0, none = 0;
	struct rt_pair p;
	bool ok;

	make_pair(&p, NULL);
	ok = write_for(&p, &posted, &done, 100, &none);
	spinner.spins = true;
	sem_post(&spinner.go);
	ok = ok && write_for(&p, &posted, &done, STALL_MS, stall);
	rt_pair_destroy(&p);
	*late = !spinner.spins;
	while (spinner.spins)
		usleep(1000);
	return ok;
}

/* One that the host was in the way of is none. */
static bool spun(uint64_t n)
{
	uint64_t i, stall, stalls = 0, lates = 0;
	pthread_t thread;
	bool late, ok;

	ok = start_spinner(&thread);
	for (i = 0; ok && i < n; i++) {
		stall = 0;
		ok = spun_once(&stall, &late);
		stalls += stall > STALL_MS / 2;
		lates += late;
		rt_diag("no completion for %llu ms, destroyed %s", (unsigned long long)stall,
			late ? "late" : "in time");
	}
	spinner.ends = true;
	sem_post(&spinner.go);
	pthread_join(thread, NULL);
	return ok && RT_CHECK(stalls <= n / 3) && RT_CHECK(lates <= n / 3);
}

/* A stream, of which a few messages may not have left yet; their number. */
static unsigned int warm(struct rt_pair *p, uint64_t *id)
{
	uint64_t end = *id + 600, done = *id;

	for (; *id < end; ++*id) {
		if (!post(p, IBV_WR_RDMA_WRITE, *id, IBV_SEND_SIGNALED))
			return 0;
		while (*id - done >= WINDOW)
			if (!reap(p->a.scq, &done, false))
				return 0;
	}
	while (done < end)
		if (!reap(p->a.scq, &done, false))
			return 0;
	if (!burst(p, *id, 5))
		return 0;
	*id += 5;
	return 5;
}

static bool destroyed(void)
{
	uint64_t end = rt_now_ms() + rt_timeout_ms;
	struct rt_pair p;
	uint64_t id = 0;
	unsigned int n;

	make_pair(&p, NULL);
	n = warm(&p, &id);
	rt_qp_destroy(&p.a);
	/* sent they are, the other processor may take its time */
	while (memcmp(bbuf.p + slot(id - 1), abuf.p + slot(id - 1), SIZE) && rt_now_ms() < end)
		usleep(1000);
	rt_qp_destroy(&p.b);
	return RT_CHECK(n) && all_arrived(id - n, n);
}

static bool to_error(void)
{
	struct rt_pair p;
	uint64_t id = 0;
	struct ibv_wc wc;
	unsigned int n;
	bool ok;

	make_pair(&p, NULL);
	n = warm(&p, &id);
	ok = RT_CHECK(n) && RT_EQ(rt_to_state(&p.a, IBV_QPS_ERR), 0) &&
	     post(&p, IBV_WR_RDMA_WRITE, id, IBV_SEND_SIGNALED) &&
	     wait_one(&p, id - 1) && all_arrived(id - n, n) &&
	     rt_expect(p.a.scq, id, IBV_WC_WR_FLUSH_ERR, &wc) &&
	     RT_EQ(ibv_poll_cq(p.a.scq, 1, &wc), 0);
	rt_pair_destroy(&p);
	return ok;
}

static bool drained(void)
{
	struct rt_pair p;
	uint64_t id = 0;
	unsigned int n;
	bool ok;

	make_pair(&p, NULL);
	n = warm(&p, &id);
	ok = RT_CHECK(n) && RT_EQ(rt_to_state(&p.a, IBV_QPS_SQD), 0) &&
	     post(&p, IBV_WR_RDMA_WRITE, id, IBV_SEND_SIGNALED) && wait_one(&p, id - 1) &&
	     all_arrived(id - n, n) && RT_EQ(rt_to_state(&p.a, IBV_QPS_RTS), 0) &&
	     wait_one(&p, id) && arrived(id);
	rt_pair_destroy(&p);
	return ok;
}

static void run(const char *part, uint64_t n)
{
	if (!strcmp(part, "stream"))
		rt_ok(stream(n), "a stream of %llu SENDs", (unsigned long long)n);
	else if (!strcmp(part, "quiet"))
		rt_ok(quiet(n), "%llu WRITEs, few with a completion", (unsigned long long)n);
	else if (!strcmp(part, "sync"))
		rt_ok(sync_user(n), "%llu WRITEs one by one", (unsigned long long)n);
	else if (!strcmp(part, "bursts"))
		rt_ok(bursts(n), "%llu bursts of WRITEs", (unsigned long long)n);
	else if (!strcmp(part, "many"))
		rt_ok(many(n), "%llu SENDs on each of %d QPs in turn", (unsigned long long)n, QPS);
	else if (!strcmp(part, "fan"))
		rt_ok(fan_user(n), "%llu rounds with %d peers", (unsigned long long)n, QPS);
	else if (!strcmp(part, "spun"))
		rt_ok(spun(n), "%llu streams beside a real-time task", (unsigned long long)n);
	else if (!strcmp(part, "events"))
		rt_ok(events(n), "%llu bursts with events", (unsigned long long)n);
	else
		rt_die("no such part: %s", part);
}

int main(int argc, char **argv)
{
	int i;

	rt_parse(argc, argv);
	abuf = rt_buf(rt_dev_a(), SLOTS * SIZE, RT_ACCESS_ALL);
	bbuf = rt_buf(rt_dev_b(), SLOTS * SIZE, RT_ACCESS_ALL);
	for (i = rt_args.first; i < argc; i++) {
		if (!strcmp(argv[i], "end")) {
			rt_ok(destroyed(), "destroy sends what was posted");
			rt_ok(to_error(), "ERR sends what was posted, flushes what comes after");
			rt_ok(drained(), "SQD drains, RTS goes on");
		} else if (i + 1 < argc && !strcmp(argv[i], "switch")) {
			i++;
			rt_ok(switched(argv[i], one_by_one, 1, 100),
			      "WRITEs one by one, switched off and on");
		} else if (i + 1 < argc && !strcmp(argv[i], "switch-fan")) {
			i++;
			rt_ok(switched(argv[i], fan, QPS, 10),
			      "rounds with %d peers, switched off and on", QPS);
		} else if (i + 1 < argc) {
			run(argv[i], strtoul(argv[i + 1], NULL, 0));
			i++;
		} else {
			rt_die("%s: how many?", argv[i]);
		}
	}
	return rt_done();
}
