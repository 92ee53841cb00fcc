// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * odp - on-demand paging: memory that is registered but not pinned.
 *
 * usage: odp [-d DEV] [-D DEV2] [-g GID] [-G GID2] [-t SECONDS] [-s SEED]
 *	[die | advise | show | stall | frozen FOLDER | zap]
 *
 * ODP_FREEZE=FOLDER: of a file system that may be frozen for a while.
 *
 * Both sides of all traffic lie in regions registered with IBV_ACCESS_ON_DEMAND, whose
 * pages were never touched, are taken away, replaced, shared with a child or gone for
 * good. Data must be that of the process at any time, and what is not the process's
 * any more must end in an error.
 *
 * Output: TAP. Exit code: 0 all ok, 1 a check failed, 2 could not run.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <linux/fs.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <linux/userfaultfd.h>
#include <rdma/ib_user_verbs.h>
#include "rt.h"

#define PAGE		4096ul
#define LEN		(64 * PAGE)
#define BIG		(8ul << 20)
#define HUGE_LEN	(2ul << 20)
#define AHEAD		(256ul << 20)
#define ADVISED		2000
#define ODP		(RT_ACCESS_ALL | IBV_ACCESS_ON_DEMAND)

#ifndef __NR_memfd_secret
#define __NR_memfd_secret 447
#endif

static void *map(size_t len, int flags, int fd)
{
	void *p = mmap(NULL, len, PROT_READ | PROT_WRITE, flags, fd, 0);

	if (p == MAP_FAILED)
		rt_die("mmap: %s", strerror(errno));
	return p;
}

static struct rt_buf reg(struct rt_dev *dev, void *p, size_t len, int access)
{
	struct rt_buf b = { .p = p, .len = len };

	b.mr = ibv_reg_mr(dev->pd, p, len, access);
	if (!b.mr)
		rt_die("ibv_reg_mr: %s", strerror(errno));
	return b;
}

/* Memory without a page, on demand. */
static struct rt_buf cold(struct rt_dev *dev, size_t len)
{
	return reg(dev, map(len, MAP_PRIVATE | MAP_ANONYMOUS, -1), len, ODP);
}

static struct ibv_sge sge_of(const struct rt_buf *b, size_t off, size_t len)
{
	return (struct ibv_sge){
		.addr = (uintptr_t)b->p + off, .length = len, .lkey = b->mr->lkey,
	};
}

/* One request of q on @l and, if it names memory of the peer, @r; its status or -1. */
static int one(struct rt_qp *q, enum ibv_wr_opcode op, const struct rt_buf *l,
	       const struct rt_buf *r, size_t off, size_t len)
{
	struct ibv_sge sge = sge_of(l, off, len);
	struct ibv_send_wr wr = rt_wr(7, op, IBV_SEND_SIGNALED, &sge, 1);
	struct ibv_wc wc;

	if (op == IBV_WR_ATOMIC_FETCH_AND_ADD || op == IBV_WR_ATOMIC_CMP_AND_SWP) {
		wr.wr.atomic.remote_addr = (uintptr_t)r->p + off;
		wr.wr.atomic.rkey = r->mr->rkey;
		wr.wr.atomic.compare_add = 5;
		wr.wr.atomic.swap = 9;
	} else if (r) {
		wr.wr.rdma.remote_addr = (uintptr_t)r->p + off;
		wr.wr.rdma.rkey = r->mr->rkey;
	}
	if (!RT_EQ(rt_post(q, &wr), 0) || !rt_poll(q->scq, &wc, 0))
		return -1;
	return wc.status;
}

static bool recv_done(struct rt_qp *q, size_t len)
{
	struct ibv_wc wc;

	return RT_CHECK(rt_expect(q->rcq, 8, IBV_WC_SUCCESS, &wc)) && RT_EQ(wc.byte_len, len);
}

static void test_caps(void)
{
	struct ibv_device_attr_ex attr = { 0 };
	uint32_t rc = IBV_ODP_SUPPORT_SEND | IBV_ODP_SUPPORT_RECV | IBV_ODP_SUPPORT_WRITE |
		      IBV_ODP_SUPPORT_READ | IBV_ODP_SUPPORT_ATOMIC | IBV_ODP_SUPPORT_SRQ_RECV;
	bool ok;

	ok = RT_EQ(ibv_query_device_ex(rt_dev_a()->ctx, NULL, &attr), 0) &&
	     RT_EQ(attr.odp_caps.general_caps, IBV_ODP_SUPPORT | IBV_ODP_SUPPORT_IMPLICIT) &&
	     RT_EQ(attr.odp_caps.per_transport_caps.rc_odp_caps, rc) &&
	     RT_EQ(attr.odp_caps.per_transport_caps.ud_odp_caps, IBV_ODP_SUPPORT_SEND);
	rt_ok(ok, "the device says what it can do");
}

/* Every operation, both sides cold each time. */
static bool cold_op(struct rt_pair *p, enum ibv_wr_opcode op, size_t len)
{
	struct rt_buf a = cold(rt_dev_a(), len), b = cold(rt_dev_b(), len);
	bool ok;

	if (op == IBV_WR_RDMA_READ)
		rt_fill(b.p, len, rt_args.seed, 0);
	else
		rt_fill(a.p, len, rt_args.seed, 0);
	if (op == IBV_WR_SEND) {
		ok = RT_EQ(rt_post_recv(&p->b, 8, &b, 0, len), 0) &&
		     RT_EQ(one(&p->a, op, &a, NULL, 0, len), 0) && recv_done(&p->b, len);
	} else {
		ok = RT_EQ(one(&p->a, op, &a, &b, 0, len), 0);
	}
	ok = ok && rt_check(op == IBV_WR_RDMA_READ ? a.p : b.p, len, rt_args.seed, 0);
	rt_buf_free(&a);
	rt_buf_free(&b);
	return ok;
}

static void test_cold(void)
{
	static const struct { const char *name; enum ibv_wr_opcode op; } ops[] = {
		{ "SEND", IBV_WR_SEND }, { "WRITE", IBV_WR_RDMA_WRITE },
		{ "READ", IBV_WR_RDMA_READ },
	};
	static const size_t sizes[] = { 8, PAGE, LEN, BIG };
	struct rt_pair p;
	unsigned int i, j;
	bool ok;

	for (i = 0; i < ARRAY_SIZE(ops); i++) {
		rt_pair_create(&p, rt_dev_a(), rt_dev_b(), &rt_defaults);
		for (ok = true, j = 0; ok && j < ARRAY_SIZE(sizes); j++)
			ok = cold_op(&p, ops[i].op, sizes[j]);
		rt_ok(ok, "%s, cold on both sides", ops[i].name);
		rt_pair_destroy(&p);
	}
}

/* Nothing of it was ever there: what is read is zero. */
static void test_zero(void)
{
	struct rt_buf a = cold(rt_dev_a(), LEN), b = cold(rt_dev_b(), LEN);
	struct rt_pair p;
	bool ok;
	int i;

	rt_pair_create(&p, rt_dev_a(), rt_dev_b(), &rt_defaults);
	memset(b.p, 0x55, LEN);
	ok = RT_EQ(one(&p.a, IBV_WR_RDMA_WRITE, &a, &b, 0, LEN), 0);
	for (i = 0; ok && i < LEN; i++)
		ok = RT_EQ(b.p[i], 0);
	/* the same memory, first read from, now written to */
	memset(b.p, 0x66, LEN);
	ok = ok && RT_EQ(one(&p.a, IBV_WR_RDMA_READ, &a, &b, 0, LEN), 0) &&
	     RT_EQ(a.p[0], 0x66) && RT_EQ(a.p[LEN - 1], 0x66);
	rt_ok(ok, "zero pages are sent, and written to later");
	rt_pair_destroy(&p);
	rt_buf_free(&a);
	rt_buf_free(&b);
}

static void test_atomic(void)
{
	struct rt_buf a = cold(rt_dev_a(), LEN), b = cold(rt_dev_b(), LEN);
	uint64_t *res = (uint64_t *)a.p, *word = (uint64_t *)b.p;
	struct rt_pair p;
	bool ok;

	rt_pair_create(&p, rt_dev_a(), rt_dev_b(), &rt_defaults);
	ok = RT_EQ(one(&p.a, IBV_WR_ATOMIC_FETCH_AND_ADD, &a, &b, 0, 8), 0) &&
	     RT_EQ(res[0], 0) && RT_EQ(word[0], 5) &&
	     RT_EQ(one(&p.a, IBV_WR_ATOMIC_CMP_AND_SWP, &a, &b, 0, 8), 0) &&
	     RT_EQ(res[0], 5) && RT_EQ(word[0], 9) &&
	     RT_EQ(one(&p.a, IBV_WR_ATOMIC_FETCH_AND_ADD, &a, &b, PAGE, 8), 0) &&
	     RT_EQ(res[PAGE / 8], 0) && RT_EQ(word[PAGE / 8], 5);
	rt_ok(ok, "atomics, each done once");
	rt_pair_destroy(&p);
	rt_buf_free(&a);
	rt_buf_free(&b);
}

/* Four pieces of one message, in another order than in memory. */
static void test_sges(void)
{
	struct rt_buf a = cold(rt_dev_a(), LEN), b = cold(rt_dev_b(), LEN);
	struct ibv_sge sge[4];
	struct ibv_send_wr wr = rt_wr(7, IBV_WR_SEND, IBV_SEND_SIGNALED, sge, 4);
	struct rt_pair p;
	size_t part = PAGE + 100;
	bool ok = true;
	int i;

	rt_pair_create(&p, rt_dev_a(), rt_dev_b(), &rt_defaults);
	for (i = 0; i < 4; i++) {
		sge[i] = sge_of(&a, (3 - i) * 3 * PAGE + 50, part);
		rt_fill(a.p + (3 - i) * 3 * PAGE + 50, part, 1, i * part);
	}
	ok = RT_EQ(rt_post_recv(&p.b, 8, &b, 17, 4 * part), 0) && RT_EQ(rt_post(&p.a, &wr), 0) &&
	     rt_expect(p.a.scq, 7, IBV_WC_SUCCESS, NULL) && recv_done(&p.b, 4 * part) &&
	     rt_check(b.p + 17, 4 * part, 1, 0);
	rt_ok(ok, "a list of pieces, unaligned");
	rt_pair_destroy(&p);
	rt_buf_free(&a);
	rt_buf_free(&b);
}

static void test_dontneed(void)
{
	struct rt_buf a = cold(rt_dev_a(), LEN), b = cold(rt_dev_b(), LEN);
	struct rt_pair p;
	bool ok;

	rt_pair_create(&p, rt_dev_a(), rt_dev_b(), &rt_defaults);
	rt_fill(a.p, LEN, 1, 0);
	ok = RT_EQ(one(&p.a, IBV_WR_RDMA_WRITE, &a, &b, 0, LEN), 0) &&
	     rt_check(b.p, LEN, 1, 0);
	madvise(b.p, LEN, MADV_DONTNEED);
	ok = ok && RT_EQ(b.p[0], 0);
	madvise(a.p, LEN / 2, MADV_DONTNEED);
	rt_fill(a.p, PAGE, 2, 0);
	ok = ok && RT_EQ(one(&p.a, IBV_WR_RDMA_WRITE, &a, &b, 0, LEN), 0) &&
	     rt_check(b.p, PAGE, 2, 0) && RT_EQ(b.p[PAGE], 0) && RT_EQ(b.p[LEN / 2 - 1], 0) &&
	     rt_check(b.p + LEN / 2, LEN / 2, 1, LEN / 2);
	rt_ok(ok, "after MADV_DONTNEED the pages are those of now");
	rt_pair_destroy(&p);
	rt_buf_free(&a);
	rt_buf_free(&b);
}

/* A child shares the pages until somebody writes; the region is the parent's. */
static void test_fork(void)
{
	struct rt_buf a = cold(rt_dev_a(), LEN), b = cold(rt_dev_b(), LEN);
	int to[2], from[2], status = -1;
	struct rt_pair p;
	pid_t pid;
	char c = 0;
	bool ok;

	rt_pair_create(&p, rt_dev_a(), rt_dev_b(), &rt_defaults);
	rt_fill(a.p, LEN, 1, 0);
	ok = RT_EQ(one(&p.a, IBV_WR_RDMA_WRITE, &a, &b, 0, LEN), 0);
	if (pipe(to) || pipe(from))
		rt_die("pipe");
	fflush(stdout);
	pid = fork();
	if (!pid) {
		/* b must stay what it was at the fork */
		if (write(from[1], &c, 1) != 1 || read(to[0], &c, 1) != 1)
			_exit(2);
		_exit(rt_check(b.p, LEN, 1, 0) && rt_check(a.p, LEN, 1, 0) ? 0 : 1);
	}
	ok = ok && RT_EQ(read(from[0], &c, 1), 1);
	rt_fill(a.p, LEN, 2, 0);
	ok = ok && RT_EQ(one(&p.a, IBV_WR_RDMA_WRITE, &a, &b, 0, LEN), 0) &&
	     rt_check(b.p, LEN, 2, 0) && RT_EQ(write(to[1], &c, 1), 1);
	waitpid(pid, &status, 0);
	rt_ok(ok && RT_EQ(status, 0), "after a fork the parent's pages are used, not the child's");
	close(to[0]), close(to[1]), close(from[0]), close(from[1]);
	rt_pair_destroy(&p);
	rt_buf_free(&a);
	rt_buf_free(&b);
}

/* What is gone is an error for whoever names it, and comes back with new memory. */
static void gone(const char *what, enum ibv_wr_opcode op, bool local, int want)
{
	struct rt_buf a = cold(rt_dev_a(), LEN), b = cold(rt_dev_b(), LEN);
	struct rt_buf *victim = local ? &a : &b;
	struct ibv_wc wc = { 0 };
	struct rt_pair p;
	bool ok, recv = op == IBV_WR_SEND && !local;

	rt_pair_create(&p, rt_dev_a(), rt_dev_b(), &rt_defaults);
	memset(a.p, 1, LEN);
	memset(b.p, 2, LEN);
	/* known first */
	ok = op == IBV_WR_SEND || RT_EQ(one(&p.a, op, &a, &b, 0, LEN), 0);
	munmap(victim->p + LEN / 2, PAGE);
	if (recv)
		ok = ok && RT_EQ(rt_post_recv(&p.b, 8, &b, 0, LEN), 0);
	ok = ok && RT_EQ(one(&p.a, op, &a, &b, 0, LEN), want);
	if (recv)
		ok = ok && RT_CHECK(rt_poll(p.b.rcq, &wc, 0)) &&
		     RT_EQ(wc.status, IBV_WC_LOC_PROT_ERR);
	rt_pair_destroy(&p);
	if (mmap(victim->p + LEN / 2, PAGE, PROT_READ | PROT_WRITE,
		 MAP_FIXED | MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) == MAP_FAILED)
		rt_die("mmap");
	rt_pair_create(&p, rt_dev_a(), rt_dev_b(), &rt_defaults);
	rt_fill(a.p, LEN, 3, 0);
	ok = ok && RT_EQ(one(&p.a, IBV_WR_RDMA_WRITE, &a, &b, 0, LEN), 0) &&
	     rt_check(b.p, LEN, 3, 0);
	rt_ok(ok, "unmapped: %s", what);
	rt_pair_destroy(&p);
	rt_buf_free(&a);
	rt_buf_free(&b);
}

static void test_unmapped(void)
{
	gone("source of a SEND", IBV_WR_SEND, true, IBV_WC_LOC_PROT_ERR);
	gone("source of a WRITE", IBV_WR_RDMA_WRITE, true, IBV_WC_LOC_PROT_ERR);
	gone("sink of a READ", IBV_WR_RDMA_READ, true, IBV_WC_LOC_PROT_ERR);
	gone("receive buffer", IBV_WR_SEND, false, IBV_WC_REM_OP_ERR);
	gone("target of a WRITE", IBV_WR_RDMA_WRITE, false, IBV_WC_REM_ACCESS_ERR);
	gone("source of a READ", IBV_WR_RDMA_READ, false, IBV_WC_REM_ACCESS_ERR);
}

/* A right of the region is none of the memory. */
static void test_readonly(void)
{
	struct rt_buf a = cold(rt_dev_a(), LEN), b = cold(rt_dev_b(), LEN);
	struct rt_pair p;
	bool ok;

	rt_pair_create(&p, rt_dev_a(), rt_dev_b(), &rt_defaults);
	memset(b.p, 2, LEN);
	ok = RT_EQ(one(&p.a, IBV_WR_RDMA_WRITE, &a, &b, 0, PAGE), 0) && RT_EQ(b.p[0], 0);
	mprotect(b.p, LEN, PROT_READ);
	ok = ok && RT_EQ(one(&p.a, IBV_WR_RDMA_READ, &a, &b, 0, LEN), 0) &&
	     RT_EQ(a.p[LEN - 1], 2) &&
	     RT_EQ(one(&p.a, IBV_WR_RDMA_WRITE, &a, &b, 0, PAGE), IBV_WC_REM_ACCESS_ERR) &&
	     RT_EQ(b.p[0], 0);
	rt_ok(ok, "read-only memory is read, not written to");
	rt_pair_destroy(&p);
	rt_buf_free(&a);
	rt_buf_free(&b);
}

/* The range of a window: all but a page at either end. */
static struct ibv_mw *bind_window(struct rt_qp *q, struct rt_buf *b)
{
	struct ibv_mw *mw = ibv_alloc_mw(q->dev->pd, IBV_MW_TYPE_1);
	struct ibv_mw_bind bind = {
		.send_flags = IBV_SEND_SIGNALED,
		.bind_info = {
			.mr = b->mr, .addr = (uintptr_t)b->p + PAGE, .length = LEN - 2 * PAGE,
			.mw_access_flags = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
					   IBV_ACCESS_REMOTE_ATOMIC,
		},
	};
	struct ibv_wc wc;

	if (!mw)
		rt_die("ibv_alloc_mw: %s", strerror(errno));
	return RT_EQ(ibv_bind_mw(q->qp, mw, &bind), 0) && rt_poll(q->scq, &wc, 0) &&
	       RT_EQ(wc.status, IBV_WC_SUCCESS) ? mw : NULL;
}

/* Pages come through a window and are taken back, and it bounds them as it bounds others. */
static void test_window(void)
{
	struct rt_buf a = cold(rt_dev_a(), LEN);
	struct rt_buf b = reg(rt_dev_b(), map(LEN, MAP_PRIVATE | MAP_ANONYMOUS, -1), LEN,
			      ODP | IBV_ACCESS_MW_BIND);
	struct ibv_mr view = *b.mr;
	struct rt_buf w = { .p = b.p, .len = LEN, .mr = &view };
	const size_t len = LEN - 2 * PAGE;
	struct ibv_mw *mw;
	struct rt_pair p;
	bool ok;

	rt_pair_create(&p, rt_dev_a(), rt_dev_b(), &rt_defaults);
	mw = bind_window(&p.b, &b);
	if (!rt_ok(mw, "a window is bound"))
		return;
	view.rkey = mw->rkey;
	rt_fill(a.p + PAGE, len, 1, 0);
	ok = RT_EQ(one(&p.a, IBV_WR_RDMA_WRITE, &a, &w, PAGE, len), 0) &&
	     rt_check(b.p + PAGE, len, 1, 0) && RT_EQ(b.p[0], 0) && RT_EQ(b.p[LEN - 1], 0);
	madvise(b.p, LEN, MADV_DONTNEED);
	ok = ok && RT_EQ(one(&p.a, IBV_WR_RDMA_READ, &a, &w, PAGE, len), 0) &&
	     RT_EQ(a.p[PAGE], 0) && RT_EQ(a.p[LEN - PAGE - 1], 0) &&
	     RT_EQ(one(&p.a, IBV_WR_ATOMIC_FETCH_AND_ADD, &a, &w, 2 * PAGE, 8), 0) &&
	     RT_EQ(*(uint64_t *)(b.p + 2 * PAGE), 5) && RT_EQ(ibv_dereg_mr(b.mr), EBUSY);
	rt_ok(ok, "through it pages come and go");
	ok = RT_EQ(one(&p.a, IBV_WR_RDMA_WRITE, &a, &w, PAGE - 8, 16), IBV_WC_REM_ACCESS_ERR);
	rt_pair_destroy(&p);
	rt_pair_create(&p, rt_dev_a(), rt_dev_b(), &rt_defaults);
	ok = ok && RT_EQ(ibv_dealloc_mw(mw), 0) &&
	     RT_EQ(one(&p.a, IBV_WR_RDMA_WRITE, &a, &w, PAGE, 8), IBV_WC_REM_ACCESS_ERR);
	rt_ok(ok, "not beyond it, and not when it has gone");
	rt_pair_destroy(&p);
	rt_buf_free(&a);
	rt_buf_free(&b);
}

/* ---- pages that come and go under traffic ---- */

struct churn {
	uint8_t *p[2];
	atomic_bool stop;
	unsigned long rounds;
};

/* Shared memory loses its pages here, and no byte. */
static void *churn(void *arg)
{
	struct churn *c = arg;
	uint64_t state = 1;

	while (!c->stop) {
		uint64_t r = rt_rand(&state);
		uint8_t *p = c->p[r & 1] + (r >> 8) % (LEN / PAGE) * PAGE;

		switch ((r >> 4) % 4) {
		case 0:
			madvise(c->p[r & 1], LEN, MADV_DONTNEED);
			break;
		case 1:
			mprotect(p, PAGE, PROT_READ);
			mprotect(p, PAGE, PROT_READ | PROT_WRITE);
			break;
		default:
			madvise(p, PAGE, MADV_DONTNEED);
			break;
		}
		c->rounds++;
		usleep((r >> 32) % 1000);
	}
	return NULL;
}

/* On-demand memory and a second view of it that is never touched by churn(). */
static struct rt_buf shared(struct rt_dev *dev, uint8_t **view)
{
	int fd = memfd_create("odp", 0);
	struct rt_buf b;

	if (fd < 0 || ftruncate(fd, LEN))
		rt_die("memfd: %s", strerror(errno));
	*view = map(LEN, MAP_SHARED, fd);
	b = reg(dev, map(LEN, MAP_SHARED, fd), LEN, ODP);
	close(fd);
	return b;
}

static bool churn_step(struct rt_pair *p, struct rt_buf *a, struct rt_buf *b, uint8_t *va,
		       uint8_t *vb, uint64_t *state, unsigned int *failed)
{
	uint64_t r = rt_rand(state), seed = rt_rand(state);
	size_t off = (r >> 8) % (LEN / 2), len = 1 + (r >> 32) % (LEN / 2);
	int what = r % 3;
	int status;

	rt_fill((what == 1 ? vb : va) + off, len, seed, 0);
	if (what == 2) {
		if (!RT_EQ(rt_post_recv(&p->b, 8, b, off, len), 0))
			return false;
		status = one(&p->a, IBV_WR_SEND, a, NULL, off, len);
	} else {
		status = one(&p->a, what ? IBV_WR_RDMA_READ : IBV_WR_RDMA_WRITE, a, b, off, len);
	}
	/* between two mprotect() the page may not be written to */
	if (status == IBV_WC_REM_ACCESS_ERR || status == IBV_WC_LOC_PROT_ERR ||
	    status == IBV_WC_REM_OP_ERR) {
		++*failed;
		rt_pair_destroy(p);
		rt_pair_create(p, rt_dev_a(), rt_dev_b(), &rt_defaults);
		return true;
	}
	return RT_EQ(status, 0) && (what != 2 || recv_done(&p->b, len)) &&
	       rt_check((what == 1 ? va : vb) + off, len, seed, 0);
}

static void test_churn(void)
{
	unsigned int seconds = rt_args.seconds ? rt_args.seconds : 5, n = 0, failed = 0;
	uint64_t end = rt_now_ms() + seconds * 1000, state = rt_args.seed + 1;
	uint8_t *va, *vb;
	struct rt_buf a = shared(rt_dev_a(), &va), b = shared(rt_dev_b(), &vb);
	struct churn c = { .p = { a.p, b.p } };
	struct rt_pair p;
	pthread_t thread;
	bool ok = true;

	rt_pair_create(&p, rt_dev_a(), rt_dev_b(), &rt_defaults);
	if (pthread_create(&thread, NULL, churn, &c))
		rt_die("pthread_create");
	for (; ok && rt_now_ms() < end; n++)
		ok = churn_step(&p, &a, &b, va, vb, &state, &failed);
	c.stop = true;
	pthread_join(thread, NULL);
	rt_diag("%u messages, %u refused, pages taken %lu times", n, failed, c.rounds);
	rt_ok(ok && RT_CHECK(n > failed) && RT_CHECK(c.rounds > 10),
	      "pages that come and go under traffic");
	rt_pair_destroy(&p);
	rt_buf_free(&a);
	rt_buf_free(&b);
	munmap(va, LEN);
	munmap(vb, LEN);
}

/* ---- prefetch ---- */

static unsigned int resident(const struct rt_buf *b)
{
	unsigned char vec[LEN / PAGE];
	unsigned int i, n = 0;

	if (mincore(b->p, b->len, vec))
		rt_die("mincore: %s", strerror(errno));
	for (i = 0; i < b->len / PAGE; i++)
		n += vec[i] & 1;
	return n;
}

static void test_prefetch(void)
{
	struct ibv_pd *pd = rt_dev_a()->pd;
	const uint64_t flush = IB_UVERBS_ADVISE_MR_FLAG_FLUSH;
	const int rd = IB_UVERBS_ADVISE_MR_ADVICE_PREFETCH;
	const int wr = IB_UVERBS_ADVISE_MR_ADVICE_PREFETCH_WRITE;
	const int no = IB_UVERBS_ADVISE_MR_ADVICE_PREFETCH_NO_FAULT;
	struct rt_buf a = cold(rt_dev_a(), LEN);
	struct rt_buf ro = reg(rt_dev_a(), a.p, LEN, IBV_ACCESS_ON_DEMAND);
	struct ibv_sge sge[2] = { sge_of(&a, 0, LEN / 2), sge_of(&a, LEN / 2 + 9, LEN / 2 - 9) };
	struct ibv_sge bad = sge_of(&a, 1, LEN), wild = sge_of(&a, 0, PAGE);
	struct ibv_sge locked = sge_of(&ro, 0, LEN);
	bool ok;
	int i;

	ok = RT_EQ(rt_advise(pd, no, flush, sge, 2), 0) && RT_EQ(resident(&a), 0) &&
	     RT_EQ(rt_advise(pd, wr, flush, sge, 1), 0) && RT_EQ(resident(&a), LEN / PAGE / 2) &&
	     RT_EQ(rt_advise(pd, rd, flush, sge, 2), 0) &&
	     RT_EQ(rt_advise(pd, no, flush, sge, 2), 0);
	rt_ok(ok, "prefetch, waiting for it");

	madvise(a.p, LEN, MADV_DONTNEED);
	ok = RT_EQ(resident(&a), 0) && RT_EQ(rt_advise(pd, wr, 0, sge, 2), 0);
	for (i = 0; i < 1000 && resident(&a) != LEN / PAGE; i++)
		usleep(10000);
	rt_ok(ok && RT_EQ(resident(&a), LEN / PAGE), "prefetch in the background");

	wild.lkey ^= 0x40;
	ok = RT_EQ(rt_advise(pd, rd, flush, &bad, 1), EFAULT) &&
	     RT_EQ(rt_advise(pd, rd, 0, &wild, 1), EFAULT) &&
	     RT_EQ(rt_advise(pd, wr, 0, &locked, 1), EFAULT) &&
	     RT_EQ(rt_advise(pd, rd, flush, &locked, 1), 0) &&
	     RT_CHECK(rt_advise(pd, 99, 0, sge, 1)) &&
	     RT_EQ(rt_advise(pd, rd, 0x80, sge, 1), EINVAL);
	munmap(a.p + PAGE, PAGE);
	ok = ok && RT_EQ(rt_advise(pd, rd, flush, sge, 1), EFAULT);
	rt_ok(ok, "what cannot be prefetched is refused");
	ibv_dereg_mr(ro.mr);
	rt_buf_free(&a);
}

/* ---- special memory ---- */

/* The same memory to an arm64 processor, but not the address that it is mapped at. */
static void test_tagged(void)
{
	struct rt_buf plain = rt_buf(rt_dev_a(), PAGE, RT_ACCESS_ALL);
	struct rt_buf tagged = reg(rt_dev_a(), (void *)((uintptr_t)plain.p | 1ul << 60), PAGE,
				   ODP);
	struct ibv_sge sge = sge_of(&tagged, 0, PAGE);
	struct rt_pair p;
	bool ok;

	rt_pair_create(&p, rt_dev_a(), rt_dev_a(), &rt_defaults);
	ok = RT_EQ(rt_advise(rt_dev_a()->pd, IB_UVERBS_ADVISE_MR_ADVICE_PREFETCH,
			     IB_UVERBS_ADVISE_MR_FLAG_FLUSH, &sge, 1), EFAULT) &&
	     RT_EQ(one(&p.a, IBV_WR_SEND, &tagged, NULL, 0, PAGE), IBV_WC_LOC_PROT_ERR);
	rt_ok(ok, "no page at an address with a tag");
	rt_pair_destroy(&p);
	ibv_dereg_mr(tagged.mr);
	rt_buf_free(&plain);
}

/* Advice about 64 GiB where nothing is mapped. */
static bool nothing(const struct ibv_mr *mr)
{
	struct ibv_sge sge[16];
	uint64_t start = rt_now_ms();
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(sge); i++)
		sge[i] = (struct ibv_sge){
			.addr = 1ul << 36, .length = 0xfffff000, .lkey = mr->lkey,
		};
	return RT_EQ(rt_advise(rt_dev_a()->pd, IB_UVERBS_ADVISE_MR_ADVICE_PREFETCH_NO_FAULT,
			       IB_UVERBS_ADVISE_MR_FLAG_FLUSH, sge, ARRAY_SIZE(sge)), 0) &&
	       RT_CHECK(rt_now_ms() - start < 5000);
}

/* The whole address space as one region. */
static void test_implicit(void)
{
	struct rt_buf a = { 0 }, b = { 0 };
	uint8_t *src = map(LEN, MAP_PRIVATE | MAP_ANONYMOUS, -1);
	uint8_t *dst = map(LEN, MAP_PRIVATE | MAP_ANONYMOUS, -1);
	struct rt_pair p;
	bool ok;

	a.mr = ibv_reg_mr(rt_dev_a()->pd, NULL, SIZE_MAX, ODP);
	b.mr = ibv_reg_mr(rt_dev_b()->pd, NULL, SIZE_MAX, ODP);
	if (!rt_ok(a.mr && b.mr, "the whole address space as a region"))
		return;
	a.p = src;
	b.p = dst;
	rt_pair_create(&p, rt_dev_a(), rt_dev_b(), &rt_defaults);
	rt_fill(src, LEN, 1, 0);
	ok = RT_EQ(one(&p.a, IBV_WR_RDMA_WRITE, &a, &b, 0, LEN), 0) && rt_check(dst, LEN, 1, 0);
	munmap(dst, LEN);
	ok = ok && RT_EQ(one(&p.a, IBV_WR_RDMA_WRITE, &a, &b, 0, PAGE), IBV_WC_REM_ACCESS_ERR);
	rt_pair_destroy(&p);
	rt_pair_create(&p, rt_dev_a(), rt_dev_b(), &rt_defaults);
	b.p = (uint8_t *)(~0ul << 47);
	ok = ok && RT_EQ(one(&p.a, IBV_WR_RDMA_READ, &a, &b, 0, 8), IBV_WC_REM_ACCESS_ERR);
	rt_ok(ok, "it is the process's memory and no other");
	rt_pair_destroy(&p);
	rt_ok(nothing(a.mr), "what is not mapped is passed at once");
	ibv_dereg_mr(a.mr);
	ibv_dereg_mr(b.mr);
	munmap(src, LEN);
}

static void test_huge(void)
{
	void *m = mmap(NULL, HUGE_LEN, PROT_READ | PROT_WRITE,
		       MAP_PRIVATE | MAP_ANONYMOUS | MAP_HUGETLB, -1, 0);
	struct rt_buf a, b;
	struct rt_pair p;
	bool ok;

	if (m == MAP_FAILED) {
		rt_skip("huge pages", "there are none");
		return;
	}
	a = reg(rt_dev_a(), m, HUGE_LEN, ODP | IBV_ACCESS_HUGETLB);
	b = cold(rt_dev_b(), HUGE_LEN);
	rt_pair_create(&p, rt_dev_a(), rt_dev_b(), &rt_defaults);
	rt_fill(b.p, HUGE_LEN, 1, 0);
	ok = RT_EQ(one(&p.a, IBV_WR_RDMA_READ, &a, &b, 0, HUGE_LEN), 0) &&
	     rt_check(a.p, HUGE_LEN, 1, 0);
	rt_ok(ok, "huge pages");
	rt_pair_destroy(&p);
	rt_buf_free(&a);
	rt_buf_free(&b);
}

/* Memory that the kernel itself cannot see: a crash, if it tried. */
static void test_secret(void)
{
	int fd = syscall(__NR_memfd_secret, 0);
	struct rt_buf a, b;
	struct rt_pair p;
	bool ok;

	if (fd < 0 || ftruncate(fd, LEN)) {
		rt_skip("secret memory", "the kernel does not offer it");
		return;
	}
	a = reg(rt_dev_a(), map(LEN, MAP_SHARED, fd), LEN, ODP);
	b = cold(rt_dev_b(), LEN);
	close(fd);
	memset(a.p, 1, LEN);
	rt_pair_create(&p, rt_dev_a(), rt_dev_b(), &rt_defaults);
	ok = RT_EQ(one(&p.a, IBV_WR_RDMA_WRITE, &a, &b, 0, 8), IBV_WC_LOC_PROT_ERR);
	rt_ok(ok, "secret memory is refused");
	rt_pair_destroy(&p);
	rt_buf_free(&a);
	rt_buf_free(&b);
}

/* More prefetches of pages that do not come than there are workers for anything. */
static bool jam(struct rt_dev *dev, const struct rt_buf *b)
{
	static struct ibv_sge sge[1200];
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(sge); i++)
		sge[i] = sge_of(b, i % (LEN / PAGE) * PAGE, PAGE);
	return RT_EQ(rt_advise(dev->pd, IB_UVERBS_ADVISE_MR_ADVICE_PREFETCH, 0, sge,
			       ARRAY_SIZE(sge)), 0);
}

/* A page that does not come must not keep anything from being destroyed, or others. */
static void test_userfault(void)
{
	struct uffdio_api api = { .api = UFFD_API };
	int fd = syscall(__NR_userfaultfd, O_CLOEXEC);
	struct rt_buf a = cold(rt_dev_a(), LEN), b = cold(rt_dev_b(), LEN);
	struct uffdio_register range = {
		.range = { .start = (uintptr_t)b.p, .len = LEN },
		.mode = UFFDIO_REGISTER_MODE_MISSING,
	};
	struct ibv_sge sge = sge_of(&a, 0, LEN);
	struct ibv_send_wr wr = rt_wr(7, IBV_WR_RDMA_WRITE, IBV_SEND_SIGNALED, &sge, 1);
	struct ibv_wc wc;
	struct rt_pair p;
	uint64_t start;
	bool ok;

	if (fd < 0 || ioctl(fd, UFFDIO_API, &api) || ioctl(fd, UFFDIO_REGISTER, &range)) {
		rt_skip("pages that do not come", "no userfaultfd");
		rt_buf_free(&a);
		rt_buf_free(&b);
		return;
	}
	memset(a.p, 3, LEN);
	wr.wr.rdma.remote_addr = (uintptr_t)b.p;
	wr.wr.rdma.rkey = b.mr->rkey;
	rt_pair_create(&p, rt_dev_a(), rt_dev_b(), &rt_defaults);
	rt_ok(jam(rt_dev_b(), &b) && cold_op(&p, IBV_WR_RDMA_WRITE, LEN),
	      "other pages come while many are asked for that do not");
	ok = RT_EQ(rt_post(&p.a, &wr), 0) && RT_CHECK(!rt_poll(p.a.scq, &wc, 300));
	start = rt_now_ms();
	ok = ok && RT_EQ(ibv_dereg_mr(b.mr), 0);
	ok = ok && RT_CHECK(rt_poll(p.a.scq, &wc, 0)) && RT_EQ(wc.status, IBV_WC_REM_ACCESS_ERR);
	rt_pair_destroy(&p);
	ok = ok && RT_CHECK(rt_now_ms() - start < rt_timeout_ms);
	rt_ok(ok, "a page that does not come holds nobody up");
	/* whoever waits for it goes on */
	close(fd);
	munmap(b.p, LEN);
	rt_buf_free(&a);
}

/* ---- who has asked for pages is gone ---- */

#define ORPHANS		60	/* QPs: more than a process has workers */
#define WORKERS		16

/* Memory whose pages come when serve() brings them; -1: there is no such thing. */
static int on_request(const struct rt_buf *b)
{
	struct uffdio_api api = { .api = UFFD_API };
	int fd = syscall(__NR_userfaultfd, O_CLOEXEC | O_NONBLOCK);
	struct uffdio_register range = {
		.range = { .start = (uintptr_t)b->p, .len = ORPHANS * PAGE },
		.mode = UFFDIO_REGISTER_MODE_MISSING,
	};

	return fd < 0 || ioctl(fd, UFFDIO_API, &api) || ioctl(fd, UFFDIO_REGISTER, &range) ?
		       -1 : fd;
}

/* The next page that is asked for within @ms; NULL: none was. */
static void *asked_for(int fd, int ms)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };
	struct uffd_msg msg;

	if (poll(&p, 1, ms) != 1 || read(fd, &msg, sizeof(msg)) != sizeof(msg))
		return NULL;
	return (void *)(uintptr_t)(msg.arg.pagefault.address & -PAGE);
}

static void bring(int fd, void *page)
{
	struct uffdio_zeropage zero = {
		.range = { .start = (uintptr_t)page, .len = PAGE },
	};

	ioctl(fd, UFFDIO_ZEROPAGE, &zero);
}

/* All workers are at it, and have their page now; until for a while no other is asked for. */
static unsigned int serve(int fd, void *pages[WORKERS])
{
	unsigned int i, n = 0;
	void *page;

	for (i = 0; i < WORKERS && pages[i]; i++, n++)
		bring(fd, pages[i]);
	for (; (page = asked_for(fd, 500)); n++)
		bring(fd, page);
	return n;
}

/*
 * Each of the QPs waits for a page of its own. Returns when as many pages are asked for as
 * there are workers.
 */
static void ask(struct rt_pair *p, const struct rt_buf *b, int fd, void *pages[WORKERS])
{
	struct ibv_sge sge;
	struct ibv_send_wr wr = rt_wr(7, IBV_WR_SEND, IBV_SEND_SIGNALED, &sge, 1);
	struct rt_opt opt = rt_defaults;
	unsigned int i;

	opt.cqe = 4;
	opt.cap.max_send_wr = 4;
	opt.cap.max_recv_wr = 4;
	for (i = 0; i < ORPHANS; i++) {
		rt_pair_create(&p[i], rt_dev_a(), rt_dev_a(), &opt);
		sge = sge_of(b, i * PAGE, PAGE);
		rt_post(&p[i].a, &wr);
	}
	for (i = 0; i < WORKERS; i++) {
		pages[i] = asked_for(fd, rt_timeout_ms);
		if (!RT_CHECK(pages[i]))
			break;
	}
	for (; i < WORKERS; i++)
		pages[i] = NULL;
}

/* What no worker has begun with goes with its QP, in RESET or destroyed ... */
static void test_orphans(void)
{
	struct ibv_qp_attr reset = { .qp_state = IBV_QPS_RESET };
	struct rt_buf b = cold(rt_dev_a(), ORPHANS * PAGE);
	struct rt_pair p[ORPHANS];
	int fd = on_request(&b);
	void *pages[WORKERS];
	bool ok = true;
	unsigned int i;

	if (fd < 0) {
		rt_skip("requests of QPs that are gone", "no userfaultfd");
		rt_buf_free(&b);
		return;
	}
	ask(p, &b, fd, pages);
	for (i = 0; i < ORPHANS / 2; i++)
		rt_pair_destroy(&p[i]);
	for (; i < ORPHANS; i++)
		ok = ok && RT_EQ(ibv_modify_qp(p[i].a.qp, &reset, IBV_QP_STATE), 0);
	rt_ok(ok && RT_EQ(serve(fd, pages), WORKERS), "what a QP has asked for goes with it");
	for (i = ORPHANS / 2; i < ORPHANS; i++)
		rt_pair_destroy(&p[i]);
	close(fd);
	rt_buf_free(&b);
}

static unsigned int failed_now(struct rt_pair *p)
{
	unsigned int i, n = 0;
	struct ibv_wc wc;

	for (i = 0; i < ORPHANS; i++)
		n += ibv_poll_cq(p[i].a.scq, 1, &wc) == 1 && wc.status == IBV_WC_LOC_PROT_ERR;
	return n;
}

/* ... or with its MR, and the QP goes on. */
static void test_deregistered(void)
{
	struct rt_buf b = cold(rt_dev_a(), ORPHANS * PAGE);
	struct rt_pair p[ORPHANS];
	uint64_t end = rt_now_ms() + rt_timeout_ms;
	unsigned int i, n = 0;
	int fd = on_request(&b);
	void *pages[WORKERS];

	if (fd < 0) {
		rt_skip("requests for an MR that is gone", "no userfaultfd");
		rt_buf_free(&b);
		return;
	}
	ask(p, &b, fd, pages);
	ibv_dereg_mr(b.mr);
	while (n < ORPHANS - WORKERS && rt_now_ms() < end)
		n += failed_now(p);
	/* those that a worker is busy for have not failed a while later */
	usleep(200000);
	n += failed_now(p);
	rt_ok(RT_EQ(n, ORPHANS - WORKERS), "who waits for a worker fails when the MR goes");
	for (i = 0; i < ORPHANS; i++)
		rt_pair_destroy(&p[i]);
	/* the workers end before the addresses are another buffer's, or they touch that */
	serve(fd, pages);
	close(fd);
	munmap(b.p, ORPHANS * PAGE);
}

/* A verb waits as long as pages come: the device cannot go before it has returned. */
static void test_advice_ends(void)
{
	struct rt_buf b = cold(rt_dev_a(), ORPHANS * PAGE);
	struct ibv_sge sge = sge_of(&b, 0, PAGE);
	uint64_t start = rt_now_ms();
	int fd = on_request(&b);

	if (fd < 0)
		rt_skip("advice about pages that do not come", "no userfaultfd");
	else
		rt_ok(RT_EQ(rt_advise(rt_dev_a()->pd, IB_UVERBS_ADVISE_MR_ADVICE_PREFETCH,
				      IB_UVERBS_ADVISE_MR_FLAG_FLUSH, &sge, 1), ETIMEDOUT) &&
		      RT_CHECK(rt_now_ms() - start < 30000),
		      "advice about pages that do not come ends");
	close(fd);
	rt_buf_free(&b);
}

/* ---- many QPs whose pages do not come ---- */

#define STALLED	150		/* pairs: more QPs than a queue has workers */

/*
 * Each of many QPs waits for a page of @a of its own, then the parent is told; until the
 * input ends. SENDs read it, READs write to it. @begin, if there is one, is called before
 * the first waits, and returns 0 or why not. The file system of @dir, if there is
 * one, is frozen meanwhile: between that and its thaw nothing may change the mappings of
 * this process, whose lock is held by who waits.
 */
static int wait_for_pages(const struct rt_buf *a, enum ibv_wr_opcode op, int (*begin)(void),
			  int dir)
{
	static struct rt_pair p[STALLED];
	struct rt_buf far = rt_buf(rt_dev_a(), PAGE, RT_ACCESS_ALL);
	struct rt_opt opt = rt_defaults;
	struct ibv_sge sge;
	struct ibv_send_wr wr = rt_wr(7, op, 0, &sge, 1);
	unsigned int i;
	int err;
	char c;

	wr.wr.rdma.remote_addr = (uintptr_t)far.p;
	wr.wr.rdma.rkey = far.mr->rkey;
	opt.cqe = 4;
	opt.cap.max_send_wr = 4;
	opt.cap.max_recv_wr = 4;
	for (i = 0; i < STALLED; i++)
		rt_pair_create(&p[i], rt_dev_a(), rt_dev_a(), &opt);
	if (dir >= 0 && ioctl(dir, FIFREEZE, 0))
		return 3;
	if (begin && begin())
		return 2;
	for (i = 0; i < STALLED; i++) {
		sge = sge_of(a, 2 * i * PAGE, PAGE);
		rt_post(&p[i].a, &wr);
		sge.addr += PAGE;
		rt_post(&p[i].b, &wr);
	}
	err = write(STDOUT_FILENO, "!", 1) != 1 || read(STDIN_FILENO, &c, 1) ? 2 : 0;
	return dir >= 0 && ioctl(dir, FITHAW, 0) ? 2 : err;
}

/* A process of its own: nobody brings the pages. */
static int stall(void)
{
	struct uffdio_api api = { .api = UFFD_API };
	int fd = syscall(__NR_userfaultfd, O_CLOEXEC);
	const size_t len = 2 * STALLED * PAGE;
	struct rt_buf a = cold(rt_dev_a(), len);
	struct uffdio_register range = {
		.range = { .start = (uintptr_t)a.p, .len = len },
		.mode = UFFDIO_REGISTER_MODE_MISSING,
	};

	if (fd < 0 || ioctl(fd, UFFDIO_API, &api) || ioctl(fd, UFFDIO_REGISTER, &range))
		return 3;
	return jam(rt_dev_a(), &a) ? wait_for_pages(&a, IBV_WR_SEND, NULL, -1) : 1;
}

/* The same, with a file that nobody may write to for now. */
static int frozen(const char *folder)
{
	const size_t len = 2 * STALLED * PAGE;
	int dir = open(folder, O_RDONLY | O_DIRECTORY), fd;
	struct rt_buf a;

	fd = openat(dir, "pages", O_RDWR | O_CREAT, 0600);
	if (fd < 0 || ftruncate(fd, len))
		return 3;
	a = reg(rt_dev_a(), map(len, MAP_SHARED, fd), len, ODP);
	return wait_for_pages(&a, IBV_WR_RDMA_READ, NULL, dir);
}

/* Address space with a page table for each 2 MiB: to take nothing away from it takes long. */
#define ZAP_LEN	(4ul << 30)
#define ZAPPERS	8

static uint8_t *zap_area;

static void *zap_always(void *arg)
{
	/* whoever has something to do goes first */
	setpriority(PRIO_PROCESS, gettid(), 19);
	for (;;)
		madvise(zap_area, ZAP_LEN, MADV_DONTNEED);
	return arg;
}

static int start_zapping(void)
{
	pthread_t t;
	int i, err = 0;

	for (i = 0; i < ZAPPERS && !err; i++)
		err = pthread_create(&t, NULL, zap_always, NULL);
	return err;
}

/* The same, with threads that take the pages away again and again, one or another always. */
static int zap(void)
{
	struct rt_buf a;
	size_t i;

	zap_area = map(ZAP_LEN, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1);
	madvise(zap_area, ZAP_LEN, MADV_NOHUGEPAGE);
	for (i = 0; i < ZAP_LEN; i += HUGE_LEN)
		zap_area[i] = 1;
	a = reg(rt_dev_a(), zap_area, 2 * STALLED * PAGE, ODP);
	return wait_for_pages(&a, IBV_WR_SEND, start_zapping, -1);
}

static pid_t start_waiters(const char *how, const char *arg, int *in, int *out)
{
	const char *dev = ibv_get_device_name(rt_dev_a()->ctx->device);
	char *const args[] = { "odp", "-d", (char *)dev, (char *)how, (char *)arg, NULL };
	int to[2], from[2];
	pid_t pid;

	if (pipe2(to, O_CLOEXEC) || pipe2(from, O_CLOEXEC))
		rt_die("pipe");
	fflush(stdout);
	pid = fork();
	if (!pid) {
		dup2(to[0], STDIN_FILENO);
		dup2(from[1], STDOUT_FILENO);
		execv("/proc/self/exe", args);
		_exit(2);
	}
	close(to[0]);
	close(from[1]);
	*in = to[1];
	*out = from[0];
	return pid;
}

static bool prefetched(void)
{
	struct rt_buf a = cold(rt_dev_a(), LEN);
	struct ibv_sge sge = sge_of(&a, 0, LEN);
	uint64_t end = rt_now_ms() + rt_timeout_ms;
	bool ok;

	ok = RT_EQ(rt_advise(rt_dev_a()->pd, IB_UVERBS_ADVISE_MR_ADVICE_PREFETCH_WRITE, 0, &sge,
			     1), 0);
	while (ok && resident(&a) != LEN / PAGE && rt_now_ms() < end)
		usleep(10000);
	ok = ok && RT_EQ(resident(&a), LEN / PAGE);
	rt_buf_free(&a);
	return ok;
}

static void test_waiters(const char *how, const char *arg, const char *what)
{
	int in, out, status = -1;
	pid_t pid = start_waiters(how, arg, &in, &out);
	struct rt_pair p;
	char c;
	bool ok;

	if (read(out, &c, 1) == 1) {
		rt_pair_create(&p, rt_dev_a(), rt_dev_b(), &rt_defaults);
		ok = cold_op(&p, IBV_WR_RDMA_WRITE, LEN) && cold_op(&p, IBV_WR_RDMA_READ, LEN);
		rt_ok(ok, "pages come while hundreds of QPs of another process wait for %s", what);
		rt_ok(prefetched(), "and pages that were asked for ahead");
		rt_pair_destroy(&p);
	}
	close(in);
	close(out);
	waitpid(pid, &status, 0);
	if (WEXITSTATUS(status) == 3)
		rt_skip("QPs that wait for pages", what);
	else
		rt_ok(RT_EQ(status, 0), "and that one ends");
}

static void test_stalled(void)
{
	const char *folder = getenv("ODP_FREEZE");

	test_waiters("stall", NULL, "userfaultfd");
	test_waiters("zap", NULL, "threads that take them away");
	if (folder)
		test_waiters("frozen", folder, "a frozen file system");
}

/*
 * An element may be longer than its region as long as nothing comes for the rest. No page of the
 * rest is brought: nobody would be told when it leaves the process, and that it is used after
 * that the kernel's own checks find.
 */
static void test_beyond(void)
{
	struct rt_buf a = cold(rt_dev_a(), LEN), b;
	void *p = map(LEN, MAP_PRIVATE | MAP_ANONYMOUS, -1);
	struct rt_pair pair;
	bool ok;
	int i;

	rt_pair_create(&pair, rt_dev_a(), rt_dev_b(), &rt_defaults);
	memset(p, 1, LEN);
	b = reg(rt_dev_b(), p, PAGE, ODP);
	ok = RT_EQ(rt_post_recv(&pair.b, 8, &b, 0, LEN), 0) &&
	     RT_EQ(one(&pair.a, IBV_WR_SEND, &a, NULL, 0, 64), 0) && recv_done(&pair.b, 64);
	munmap((char *)p + PAGE, LEN - PAGE);
	/* whose they are now */
	for (i = 0; i < 4; i++)
		munmap(memset(map(LEN, MAP_PRIVATE | MAP_ANONYMOUS, -1), 2, LEN), LEN);
	rt_buf_free(&b);
	rt_ok(ok, "of a receive that is longer than its region only that is brought");
	rt_pair_destroy(&pair);
	rt_buf_free(&a);
}

/* ---- UC and UD: what leaves waits, what arrives for a cold page is lost ---- */

static void test_uc(void)
{
	struct rt_opt opt = rt_defaults;
	struct rt_buf a = cold(rt_dev_a(), LEN), b = cold(rt_dev_b(), LEN);
	uint64_t end = rt_now_ms() + rt_timeout_ms;
	struct rt_pair p;
	bool ok, seen = false;

	opt.type = IBV_QPT_UC;
	rt_pair_create(&p, rt_dev_a(), rt_dev_b(), &opt);
	memset(a.p, 4, LEN);
	madvise(a.p + PAGE, PAGE, MADV_DONTNEED);
	a.p[PAGE] = 4;
	ok = true;
	/* the first ones bring the pages */
	while (ok && !seen && rt_now_ms() < end) {
		ok = RT_EQ(one(&p.a, IBV_WR_RDMA_WRITE, &a, &b, 0, 2 * PAGE), 0);
		usleep(10000);
		seen = *(volatile uint8_t *)&b.p[PAGE] == 4;
	}
	rt_ok(ok && RT_CHECK(seen) && RT_EQ(rt_state(&p.b), IBV_QPS_RTS),
	      "UC: a cold target costs messages and no QP");
	rt_pair_destroy(&p);
	rt_buf_free(&a);
	rt_buf_free(&b);
}

static void test_ud(void)
{
	struct rt_opt opt = rt_defaults;
	struct rt_buf a = cold(rt_dev_a(), LEN), b = cold(rt_dev_b(), LEN);
	struct ibv_sge sge = sge_of(&a, 5 * PAGE, 512);
	struct ibv_send_wr wr = rt_wr(7, IBV_WR_SEND, IBV_SEND_SIGNALED, &sge, 1);
	uint64_t end = rt_now_ms() + rt_timeout_ms;
	struct ibv_wc wc;
	struct rt_pair p;
	bool ok, seen = false;

	opt.type = IBV_QPT_UD;
	rt_pair_create(&p, rt_dev_a(), rt_dev_b(), &opt);
	wr.wr.ud.ah = rt_ah(rt_dev_a(), rt_dev_b());
	wr.wr.ud.remote_qpn = p.b.qp->qp_num;
	wr.wr.ud.remote_qkey = RT_QKEY;
	rt_fill(a.p + 5 * PAGE, 512, 1, 0);
	ok = RT_EQ(rt_post_recv(&p.b, 8, &b, PAGE - 100, 1024), 0);
	while (ok && !seen && rt_now_ms() < end) {
		ok = RT_EQ(rt_post(&p.a, &wr), 0) &&
		     rt_expect(p.a.scq, 7, IBV_WC_SUCCESS, NULL);
		seen = ok && rt_poll(p.b.rcq, &wc, 20);
	}
	ok = ok && RT_CHECK(seen) && RT_EQ(wc.status, 0) && RT_EQ(wc.byte_len, 512 + 40) &&
	     rt_check(b.p + PAGE - 60, 512, 1, 0);
	rt_ok(ok, "UD: a cold buffer costs datagrams, not the receive");
	ibv_destroy_ah(wr.wr.ud.ah);
	rt_pair_destroy(&p);
	rt_buf_free(&a);
	rt_buf_free(&b);
}

/* Everything in use when the process ends: what is left cleans itself up. */
static void test_exit(void)
{
	struct rt_buf a = cold(rt_dev_a(), BIG), b = cold(rt_dev_b(), BIG);
	struct rt_pair p;
	struct ibv_sge sge = sge_of(&a, 0, BIG);
	struct ibv_send_wr wr = rt_wr(7, IBV_WR_RDMA_WRITE, IBV_SEND_SIGNALED, &sge, 1);
	int i;

	wr.wr.rdma.remote_addr = (uintptr_t)b.p;
	wr.wr.rdma.rkey = b.mr->rkey;
	rt_pair_create(&p, rt_dev_a(), rt_dev_b(), &rt_defaults);
	for (i = 0; i < 10; i++)
		rt_post(&p.a, &wr);
	usleep(2000);
	kill(getpid(), SIGKILL);
}

/* Killed when much is to be brought that nobody waits for. */
static int test_advised(void)
{
	struct rt_buf a = cold(rt_dev_a(), AHEAD);
	struct ibv_sge sge = sge_of(&a, 0, AHEAD);
	int i, err = 0;

	for (i = 0; i < ADVISED && !err; i++)
		err = rt_advise(rt_dev_a()->pd, IB_UVERBS_ADVISE_MR_ADVICE_PREFETCH_WRITE, 0,
				&sge, 1);
	if (!err)
		kill(getpid(), SIGKILL);
	return 1;
}

/* What the tools say of regions in use; the caller looks at it. */
static int tools(void)
{
	struct rt_buf a = cold(rt_dev_a(), LEN), b = cold(rt_dev_b(), LEN);
	struct rt_pair p;
	int err;

	rt_pair_create(&p, rt_dev_a(), rt_dev_b(), &rt_defaults);
	err = one(&p.a, IBV_WR_RDMA_WRITE, &a, &b, 0, LEN);
	madvise(b.p, 3 * PAGE, MADV_DONTNEED);
	return err ?: system("rdma statistic show mr; rdma resource show mr -dd");
}

int main(int argc, char **argv)
{
	rt_parse(argc, argv);
	if (argc > rt_args.first && !strcmp(argv[rt_args.first], "die"))
		test_exit();
	if (argc > rt_args.first && !strcmp(argv[rt_args.first], "advise"))
		return test_advised();
	if (argc > rt_args.first && !strcmp(argv[rt_args.first], "show"))
		return tools();
	if (argc > rt_args.first && !strcmp(argv[rt_args.first], "stall"))
		return stall();
	if (argc > rt_args.first && !strcmp(argv[rt_args.first], "zap"))
		return zap();
	if (argc > rt_args.first + 1 && !strcmp(argv[rt_args.first], "frozen"))
		return frozen(argv[rt_args.first + 1]);
	test_caps();
	test_cold();
	test_zero();
	test_atomic();
	test_sges();
	test_dontneed();
	test_fork();
	test_unmapped();
	test_readonly();
	test_window();
	test_churn();
	test_tagged();
	test_implicit();
	test_huge();
	test_secret();
	test_userfault();
	/* of the first device alone: the same, however many there are */
	if (!rt_args.dev[1]) {
		test_prefetch();
		test_orphans();
		test_deregistered();
		test_advice_ends();
	}
	test_stalled();
	test_beyond();
	test_uc();
	test_ud();
	return rt_done();
}
