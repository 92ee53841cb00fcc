// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * charge - queues are charged to the memory cgroup of the process that makes them.
 *
 * usage: charge [-d DEV] CGROUP
 *
 * So are the tables of memory that is registered on demand, whoever fills them.
 *
 * Must run inside of CGROUP, a folder of cgroup2 with the memory controller. Else
 * any process could fill the memory of the host, with nothing to be killed for.
 *
 * Output: TAP. Exit code: 0 all ok, 1 a check failed, 2 could not run.
 */
#include <sys/mman.h>
#include <rdma/ib_user_ioctl_verbs.h>
#include "rt.h"

#define MIB	(1ll << 20)

static const char *cgroup;

static long long charged(void)
{
	char path[256];
	long long n;
	FILE *f;

	snprintf(path, sizeof(path), "%s/memory.current", cgroup);
	f = fopen(path, "r");
	if (!f || fscanf(f, "%lld", &n) != 1)
		rt_die("%s: %m", path);
	fclose(f);
	return n;
}

/* The same once what has been freed is given back, RCU's grace periods later. */
static long long charged_at_rest(void)
{
	uint64_t end = rt_now_ms() + rt_timeout_ms;
	long long now = charged(), last;

	do {
		last = now;
		usleep(500000);
		now = charged();
	} while (now < last && rt_now_ms() < end);
	return now;
}

/* Charges are made in advance and given back late: be content with most of it. */
static void costs(const char *what, long long before, long long bytes)
{
	long long cost = charged() - before;

	rt_ok(cost >= bytes * 9 / 10, "%s: at least %lld MiB are charged", what, bytes / MIB);
	rt_diag("%lld KiB", cost / 1024);
}

#define WINDOWS		8000

/* Small, but there may be millions of them. */
static void many_windows(struct rt_dev *dev)
{
	static struct ibv_mw *mw[WINDOWS];
	long long before = charged();
	unsigned int i;

	for (i = 0; i < WINDOWS; i++) {
		mw[i] = ibv_alloc_mw(dev->pd, IBV_MW_TYPE_2);
		if (!mw[i])
			rt_die("alloc_mw: %m");
	}
	/* of 512 bytes */
	costs("memory windows", before, 3 * MIB);
	for (i = 0; i < WINDOWS; i++)
		ibv_dealloc_mw(mw[i]);
}

#define ODP_LEN		(512ul << 20)
#define STOCK		(256 << 10)	/* a CPU's, charged in advance, at most */

/* 9 bytes for each page; those of the process are there before, and cost nothing. */
static void on_demand(struct rt_dev *dev, const char *who, uint64_t flags)
{
	const long long want = ODP_LEN / 4096 * 9 * 9 / 10 - STOCK * sysconf(_SC_NPROCESSORS_ONLN);
	void *p = mmap(NULL, ODP_LEN, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct ibv_mr *mr;
	struct ibv_sge sge = { .addr = (uintptr_t)p, .length = ODP_LEN };
	uint64_t end = rt_now_ms() + rt_timeout_ms;
	long long before;

	/* EINVAL: a kernel without, as with PREEMPT_RT */
	if (p == MAP_FAILED || (madvise(p, ODP_LEN, MADV_NOHUGEPAGE) && errno != EINVAL) ||
	    madvise(p, ODP_LEN, MADV_POPULATE_READ))
		rt_die("mmap: %m");
	mr = ibv_reg_mr(dev->pd, p, ODP_LEN, IBV_ACCESS_ON_DEMAND);
	if (!mr)
		rt_die("reg_mr: %m");
	sge.lkey = mr->lkey;
	before = charged_at_rest();
	if (rt_advise(dev->pd, IB_UVERBS_ADVISE_MR_ADVICE_PREFETCH, flags, &sge, 1))
		rt_die("advise_mr: %m");
	while (charged() - before < want && rt_now_ms() < end)
		usleep(10000);
	rt_ok(charged() - before >= want, "on demand, by %s: at least %lld KiB", who,
	      want / 1024);
	rt_diag("%lld KiB", (charged() - before) / 1024);
	ibv_dereg_mr(mr);
	munmap(p, ODP_LEN);
}

int main(int argc, char **argv)
{
	struct rt_opt opt = rt_defaults;
	struct ibv_srq_init_attr init = { .attr = { .max_wr = 4000, .max_sge = 32 } };
	struct rt_dev *dev;
	struct ibv_srq *srq;
	struct ibv_cq *cq;
	long long before;
	struct rt_qp q;

	rt_parse(argc, argv);
	if (rt_args.first >= argc)
		rt_die("usage: charge [-d DEV] CGROUP");
	cgroup = argv[rt_args.first];
	dev = rt_dev_a();

	before = charged();
	cq = ibv_create_cq(dev->ctx, 100000, NULL, NULL, 0);
	if (!cq)
		rt_die("create_cq: %m");
	/* 2^17 entries of 64 bytes */
	costs("CQ", before, 8 * MIB);

	before = charged();
	srq = ibv_create_srq(dev->pd, &init);
	if (!srq)
		rt_die("create_srq: %m");
	/* 2^12 WQEs of 1 KiB */
	costs("SRQ", before, 4 * MIB);

	before = charged();
	opt.scq = cq;
	opt.rcq = cq;
	opt.cap.max_send_wr = 4000;
	opt.cap.max_recv_wr = 4000;
	opt.cap.max_send_sge = 32;
	opt.cap.max_recv_sge = 32;
	if (rt_qp_create(&q, dev, &opt))
		rt_die("create_qp: %m");
	/* the same thrice: both rings and the private copy of one */
	costs("QP", before, 12 * MIB);

	before = charged();
	rt_qp_destroy(&q);
	ibv_destroy_srq(srq);
	ibv_destroy_cq(cq);
	rt_ok(before - charged() >= 24 * MIB * 9 / 10, "and given back");
	many_windows(dev);
	on_demand(dev, "the process", IB_UVERBS_ADVISE_MR_FLAG_FLUSH);
	on_demand(dev, "a worker", 0);
	return rt_done();
}
