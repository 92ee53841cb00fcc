// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * rc_cost - what an RC message costs: both ends in one process, driven by
 * completion events, so that nobody burns a processor while polling.
 *
 * usage: rc_cost -d DEV [-D DEV2] [-g GID] [-G GID2] -- OP SIZE MTU WINDOW MS EVERY [mark]
 *
 * OP is write, read, send or atomic. Keeps WINDOW messages of SIZE bytes in
 * flight from DEV to DEV2 for MS milliseconds, with a path MTU of MTU bytes, of
 * which one in EVERY asks for a completion; 1 to WINDOW.
 * The bytes of the last message are checked. With "mark", the lines
 * "rc_cost: begin" and "rc_cost: end" on stderr tell a watcher when, and it
 * waits for a line of stdin after each.
 *
 * Output: one line of JSON: messages, seconds, idle (seconds in which a
 * processor of the machine had nothing to do, summed over processors), user and
 * sys (seconds of this process), wakeups. With one processor and nothing else
 * running, seconds - idle is what the messages cost, softirqs and kernel
 * threads included. Exit code: 0 measured, 2 could not run.
 */
#include <sys/resource.h>
#include <time.h>
#include "rt.h"

#define WARM_UP		64

static struct rt_pair pair;
static struct rt_buf abuf, bbuf;
static struct ibv_comp_channel *channel;
static enum ibv_wr_opcode op;
static size_t size;
static unsigned int window, every;
static unsigned long long posted, done, received, wakeups;

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec + t.tv_nsec / 1e9;
}

static bool marks;

static void mark(const char *what)
{
	char c;

	if (!marks)
		return;
	dprintf(2, "rc_cost: %s\n", what);
	while (read(0, &c, 1) == 1 && c != '\n')
		;
}

/* The sum over all processors. */
static double idle(void)
{
	FILE *f = fopen("/proc/uptime", "r");
	double up, idle;

	if (!f || fscanf(f, "%lf %lf", &up, &idle) != 2)
		rt_die("/proc/uptime");
	fclose(f);
	return idle;
}

static double seconds(struct timeval t)
{
	return t.tv_sec + t.tv_usec / 1e6;
}

static enum ibv_wr_opcode parse_op(const char *s)
{
	static const struct {
		const char *name;
		enum ibv_wr_opcode op;
	} ops[] = {
		{ "write", IBV_WR_RDMA_WRITE },
		{ "read", IBV_WR_RDMA_READ },
		{ "send", IBV_WR_SEND },
		{ "atomic", IBV_WR_ATOMIC_FETCH_AND_ADD },
	};
	int i;

	for (i = 0; i < ARRAY_SIZE(ops); i++)
		if (!strcmp(s, ops[i].name))
			return ops[i].op;
	rt_die("no such operation: %s", s);
}

static enum ibv_mtu parse_mtu(int mtu)
{
	int e;

	for (e = IBV_MTU_256; e <= IBV_MTU_4096; e++)
		if (128 << e == mtu)
			return e;
	rt_die("no such path MTU: %d", mtu);
}

static void post_recv(unsigned int n)
{
	while (op == IBV_WR_SEND && n--)
		if (rt_post_recv(&pair.b, 0, &bbuf, 0, size))
			rt_die("post_recv");
}

static void post(void)
{
	struct ibv_sge sge = {
		.addr = (uintptr_t)abuf.p, .length = size,
		.lkey = abuf.mr->lkey,
	};
	struct ibv_send_wr wr = rt_wr(posted, op, 0, &sge, 1);

	if ((posted + 1) % every == 0)
		wr.send_flags = IBV_SEND_SIGNALED;
	if (op == IBV_WR_ATOMIC_FETCH_AND_ADD) {
		wr.wr.atomic.remote_addr = (uintptr_t)bbuf.p;
		wr.wr.atomic.rkey = bbuf.mr->rkey;
		wr.wr.atomic.compare_add = 1;
	} else {
		wr.wr.rdma.remote_addr = (uintptr_t)bbuf.p;
		wr.wr.rdma.rkey = bbuf.mr->rkey;
	}
	if (rt_post(&pair.a, &wr))
		rt_die("post_send");
	posted++;
}

/* Takes what has completed on one side. */
static unsigned int reap(struct ibv_cq *cq)
{
	struct ibv_wc wc[16];
	int i, n;
	unsigned int sum = 0;

	while ((n = ibv_poll_cq(cq, ARRAY_SIZE(wc), wc)) > 0) {
		for (i = 0; i < n; i++)
			if (wc[i].status)
				rt_die("completion: %s",
				       ibv_wc_status_str(wc[i].status));
		sum += n;
	}
	return sum;
}

static void wait_event(void)
{
	struct ibv_cq *cq;
	void *ctx;

	if (ibv_get_cq_event(channel, &cq, &ctx))
		rt_die("get_cq_event");
	ibv_ack_cq_events(cq, 1);
	wakeups++;
}

/* Sleeps until something has completed. */
static void take(void)
{
	unsigned int n;

	n = reap(pair.a.scq);
	if (!n) {
		if (ibv_req_notify_cq(pair.a.scq, 0))
			rt_die("req_notify_cq");
		n = reap(pair.a.scq);
		if (!n) {
			wait_event();
			n = reap(pair.a.scq);
		}
	}
	done += n * every;
	/* An acknowledged SEND has its receive completion. */
	if (op == IBV_WR_SEND) {
		n = reap(pair.b.rcq);
		received += n;
		post_recv(n);
	}
}

static void turn(void)
{
	while (posted - done < window)
		post();
	take();
}

static void set_up(int mtu)
{
	struct rt_opt opt = rt_defaults;

	channel = ibv_create_comp_channel(rt_dev_a()->ctx);
	if (!channel)
		rt_die("create_comp_channel");
	opt.mtu = parse_mtu(mtu);
	opt.cap.max_send_wr = window;
	opt.cap.max_recv_wr = 2 * window;
	opt.cap.max_inline_data = 0;
	opt.scq = ibv_create_cq(rt_dev_a()->ctx, 2 * window, NULL, channel, 0);
	if (!opt.scq)
		rt_die("create_cq");
	opt.cqe = 2 * window;
	if (rt_qp_create(&pair.a, rt_dev_a(), &opt))
		rt_die("create QP");
	opt.scq = NULL;
	if (rt_qp_create(&pair.b, rt_dev_b(), &opt))
		rt_die("create QP");
	rt_connect(&pair.a, &pair.b);
	abuf = rt_buf(rt_dev_a(), size < 4096 ? 4096 : size, RT_ACCESS_ALL);
	bbuf = rt_buf(rt_dev_b(), size < 4096 ? 4096 : size, RT_ACCESS_ALL);
	rt_fill(op == IBV_WR_RDMA_READ ? bbuf.p : abuf.p, size, 1, 0);
	post_recv(2 * window);
}

int main(int argc, char **argv)
{
	struct rusage r0, r1;
	double t0, t1, i0, i1;
	unsigned long long done0;
	unsigned int ms;
	char **a;

	rt_parse(argc, argv);
	if (argc - rt_args.first < 6)
		rt_die("usage: %s -d DEV -D DEV2 -- OP SIZE MTU WINDOW MS EVERY", argv[0]);
	a = argv + rt_args.first;
	op = parse_op(a[0]);
	size = op == IBV_WR_ATOMIC_FETCH_AND_ADD ? 8 : strtoul(a[1], NULL, 0);
	window = atoi(a[3]);
	ms = atoi(a[4]);
	every = atoi(a[5]);
	if (!every || every > window)
		rt_die("EVERY is 1 to WINDOW");
	marks = a[6] && !strcmp(a[6], "mark");
	set_up(atoi(a[2]));

	while (done < WARM_UP)
		turn();
	wakeups = 0;
	done0 = done;
	mark("begin");
	getrusage(RUSAGE_SELF, &r0);
	i0 = idle();
	t0 = now();
	while (t1 = now(), t1 - t0 < ms / 1e3)
		turn();
	i1 = idle();
	getrusage(RUSAGE_SELF, &r1);
	mark("end");
	done0 = done - done0;
	/* the last ones may have asked for none */
	while (posted - done >= every)
		take();
	if (op != IBV_WR_ATOMIC_FETCH_AND_ADD &&
	    !rt_check(op == IBV_WR_RDMA_READ ? abuf.p : bbuf.p, size, 1, 0))
		rt_die("the bytes that arrived are not those that were sent");
	printf("{\"messages\": %llu, \"seconds\": %.6f, \"idle\": %.2f, ", done0, t1 - t0, i1 - i0);
	printf("\"user\": %.6f, \"sys\": %.6f, \"wakeups\": %llu}\n",
	       seconds(r1.ru_utime) - seconds(r0.ru_utime),
	       seconds(r1.ru_stime) - seconds(r0.ru_stime), wakeups);
	return 0;
}
