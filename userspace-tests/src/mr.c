// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * mr - memory regions that change (rereg_mr), and regions of dma-buf memory.
 *
 * usage: mr [-d DEV] [-D DEV2] [-g GID] [-G GID2] [-t SECONDS]
 *
 * The stock provider has neither ibv_rereg_mr() nor ibv_reg_dmabuf_mr(), so the
 * commands are written by hand. After each change the peer uses the old and the new
 * key; what failed must have left the region as it was.
 *
 * Output: TAP. Exit code: 0 all ok, 1 a check failed, 2 could not run.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <linux/udmabuf.h>
#include <rdma/ib_user_ioctl_cmds.h>
#include <rdma/ib_user_verbs.h>
#include <rdma/rdma_user_ioctl.h>
#include "rt.h"

#define LEN		8192
#define HUGE_LEN	(2u << 20)
#define ALL		(IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | \
			 IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC)
#define TRANS		1
#define PD		2
#define ACCESS		4

static struct rt_buf abuf;
static uint8_t *mem[2];			/* two pieces of LEN bytes */

/* Returns 0 or errno; the keys of @mr follow the answer. */
static int rereg(struct ibv_mr *mr, uint32_t flags, struct ibv_pd *pd, void *addr,
		 size_t len, int access)
{
	struct ib_uverbs_rereg_mr_resp resp = { 0 };
	struct {
		struct ib_uverbs_cmd_hdr hdr;
		struct ib_uverbs_rereg_mr cmd;
	} req = {
		.hdr = {
			.command = IB_USER_VERBS_CMD_REREG_MR,
			.in_words = sizeof(req) / 4,
			.out_words = sizeof(resp) / 4,
		},
		.cmd = {
			.response = (uintptr_t)&resp,
			.mr_handle = mr->handle,
			.flags = flags,
			.start = (uintptr_t)addr,
			.length = len,
			.hca_va = (uintptr_t)addr,
			.pd_handle = pd ? pd->handle : 0,
			.access_flags = access,
		},
	};

	if (write(mr->context->cmd_fd, &req, sizeof(req)) != sizeof(req))
		return errno;
	mr->lkey = resp.lkey;
	mr->rkey = resp.rkey;
	return 0;
}

/* The peer reads or writes 8 bytes; -1 if there was no completion. */
static int use(struct rt_qp *q, enum ibv_wr_opcode op, void *addr, uint32_t rkey)
{
	struct ibv_sge sge = {
		.addr = (uintptr_t)abuf.p, .length = 8, .lkey = abuf.mr->lkey,
	};
	struct ibv_send_wr wr = rt_wr(1, op, IBV_SEND_SIGNALED, &sge, 1);
	struct ibv_wc wc;

	wr.wr.rdma.remote_addr = (uintptr_t)addr;
	wr.wr.rdma.rkey = rkey;
	if (!RT_EQ(rt_post(q, &wr), 0) || !rt_poll(q->scq, &wc, 0))
		return -1;
	return wc.status;
}

static struct ibv_mr *begin(struct rt_pair *p, int access)
{
	struct ibv_mr *mr = ibv_reg_mr(rt_dev_b()->pd, mem[0], LEN, access);

	if (!mr)
		rt_die("ibv_reg_mr: %s", strerror(errno));
	memset(mem[0], 0x10, LEN);
	memset(mem[1], 0x11, LEN);
	memset(abuf.p, 0x22, 64);
	rt_pair_create(p, rt_dev_a(), rt_dev_b(), &rt_defaults);
	return mr;
}

static void end(struct rt_pair *p, struct ibv_mr *mr, bool ok, const char *what)
{
	rt_pair_destroy(p);
	rt_ok(RT_EQ(ibv_dereg_mr(mr), 0) && ok, "%s", what);
}

static void test_access(void)
{
	struct rt_pair p;
	struct ibv_mr *mr = begin(&p, ALL);
	uint32_t old = mr->rkey;
	bool ok;

	ok = RT_EQ(use(&p.a, IBV_WR_RDMA_WRITE, mem[0], mr->rkey), 0) &&
	     RT_EQ(rereg(mr, ACCESS, NULL, NULL, 0, IBV_ACCESS_REMOTE_READ), 0) &&
	     RT_CHECK(mr->rkey != old) && RT_EQ(mr->rkey >> 8, old >> 8) &&
	     RT_EQ(use(&p.a, IBV_WR_RDMA_READ, mem[0], mr->rkey), 0) &&
	     RT_EQ(use(&p.a, IBV_WR_RDMA_WRITE, mem[0] + 8, mr->rkey),
		   IBV_WC_REM_ACCESS_ERR) &&
	     RT_EQ(mem[0][8], 0x10);
	end(&p, mr, ok, "rights taken away: READ passes, WRITE does not");

	mr = begin(&p, ALL);
	old = mr->rkey;
	ok = RT_EQ(rereg(mr, ACCESS, NULL, NULL, 0, ALL), 0) &&
	     RT_EQ(use(&p.a, IBV_WR_RDMA_WRITE, mem[0], mr->rkey), 0) &&
	     RT_EQ(use(&p.a, IBV_WR_RDMA_READ, mem[0], old), IBV_WC_REM_ACCESS_ERR);
	end(&p, mr, ok, "the old key is dead, even if nothing else changed");
}

/* Pages pinned to be read are pinned again to be written. */
static void test_writable(void)
{
	struct rt_pair p;
	struct ibv_mr *mr;
	bool ok;

	/* never written: the zero page, which no write may reach */
	mem[0] = mmap(NULL, LEN, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (mem[0] == MAP_FAILED)
		rt_die("mmap");
	mr = ibv_reg_mr(rt_dev_b()->pd, mem[0], LEN, IBV_ACCESS_REMOTE_READ);
	rt_pair_create(&p, rt_dev_a(), rt_dev_b(), &rt_defaults);
	memset(abuf.p, 0x22, 64);
	ok = RT_CHECK(mr) && RT_EQ(rereg(mr, ACCESS, NULL, NULL, 0, ALL), 0) &&
	     RT_EQ(use(&p.a, IBV_WR_RDMA_WRITE, mem[0], mr->rkey), 0) &&
	     RT_EQ(mem[0][7], 0x22) && RT_EQ(mem[0][8], 0);
	end(&p, mr, ok, "a region to read becomes one to write");
}

static void test_trans(void)
{
	struct rt_pair p;
	struct ibv_mr *mr = begin(&p, ALL);
	uint32_t old = mr->rkey;
	bool ok;

	ok = RT_EQ(rereg(mr, TRANS, NULL, mem[1], LEN / 2, 0), 0) &&
	     RT_EQ(use(&p.a, IBV_WR_RDMA_WRITE, mem[1], mr->rkey), 0) &&
	     RT_EQ(mem[1][7], 0x22) && RT_EQ(mem[0][7], 0x10) &&
	     RT_EQ(use(&p.a, IBV_WR_RDMA_READ, mem[1] + LEN / 2 - 7, mr->rkey),
		   IBV_WC_REM_ACCESS_ERR);
	end(&p, mr, ok, "other memory of another length");

	mr = begin(&p, ALL);
	old = mr->rkey;
	ok = RT_EQ(rereg(mr, TRANS, NULL, mem[1], LEN, 0), 0) &&
	     RT_EQ(use(&p.a, IBV_WR_RDMA_WRITE, mem[0], old), IBV_WC_REM_ACCESS_ERR) &&
	     RT_EQ(mem[0][0], 0x10) && RT_EQ(mem[1][0], 0x11);
	end(&p, mr, ok, "other memory: the old key reaches neither");
}

static void test_pd(void)
{
	struct ibv_pd *home = rt_dev_b()->pd, *pd = ibv_alloc_pd(rt_dev_b()->ctx);
	struct rt_pair p;
	struct ibv_mr *mr = begin(&p, ALL);
	bool ok;

	ok = RT_EQ(rereg(mr, PD, pd, NULL, 0, 0), 0) &&
	     RT_EQ(use(&p.a, IBV_WR_RDMA_READ, mem[0], mr->rkey), IBV_WC_REM_ACCESS_ERR);
	rt_pair_destroy(&p);
	rt_pair_create(&p, rt_dev_a(), rt_dev_b(), &rt_defaults);
	ok = ok && RT_EQ(ibv_dealloc_pd(pd), EBUSY) &&
	     RT_EQ(rereg(mr, PD | TRANS | ACCESS, home, mem[1], LEN, IBV_ACCESS_REMOTE_READ),
		   0) &&
	     RT_EQ(ibv_dealloc_pd(pd), 0) &&
	     RT_EQ(use(&p.a, IBV_WR_RDMA_READ, mem[1], mr->rkey), 0) &&
	     RT_EQ(abuf.p[0], 0x11) &&
	     RT_EQ(use(&p.a, IBV_WR_RDMA_WRITE, mem[1], mr->rkey), IBV_WC_REM_ACCESS_ERR);
	end(&p, mr, ok, "another PD and back, with memory and rights");
}

/* What fails changes nothing: same key, same memory, same rights. */
static void test_failures(void)
{
	void *hole = mmap(NULL, LEN, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	const struct {
		const char *name;
		uint32_t flags;
		void *addr;
		size_t len;
		int access, err;
	} cases[] = {
		{ "no flag", 0, NULL, 0, 0, EINVAL },
		{ "unknown flag", 8, NULL, 0, 0, EOPNOTSUPP },
		{ "remote write without local write", ACCESS, NULL, 0,
		  IBV_ACCESS_REMOTE_WRITE, EINVAL },
		{ "the same with memory", ACCESS | TRANS, mem[1], LEN,
		  IBV_ACCESS_REMOTE_WRITE, EINVAL },
		{ "zero-based without a translation", ACCESS, NULL, 0,
		  ALL | IBV_ACCESS_ZERO_BASED, EINVAL },
		{ "memory that is not there", TRANS, hole, LEN, 0, EFAULT },
		{ "the same with rights", TRANS | ACCESS, hole, LEN,
		  IBV_ACCESS_REMOTE_READ, EFAULT },
		{ "length wraps", TRANS, mem[1], -(size_t)LEN, 0, EINVAL },
	};
	struct rt_pair p;
	struct ibv_mr *mr = begin(&p, ALL);
	uint32_t lkey = mr->lkey, rkey = mr->rkey;
	bool ok = true;
	unsigned int i;

	/* 6.1 pins for reading with FOLL_FORCE, so PROT_NONE would not do */
	munmap(hole, LEN);
	for (i = 0; i < ARRAY_SIZE(cases); i++) {
		int err = rereg(mr, cases[i].flags, NULL, cases[i].addr, cases[i].len,
				cases[i].access);

		if (!RT_EQ(err, cases[i].err) || !RT_EQ(mr->lkey, lkey) ||
		    !RT_EQ(use(&p.a, IBV_WR_RDMA_WRITE, mem[0], rkey), 0) ||
		    !RT_EQ(use(&p.a, IBV_WR_RDMA_READ, mem[0] + LEN - 8, rkey), 0)) {
			rt_diag("case: %s", cases[i].name);
			ok = false;
		}
	}
	end(&p, mr, ok, "changes that fail leave everything as it was");
}

static void test_window(void)
{
	struct ibv_mw *mw = ibv_alloc_mw(rt_dev_b()->pd, IBV_MW_TYPE_1);
	struct ibv_mw_bind bind = { .send_flags = IBV_SEND_SIGNALED };
	struct rt_pair p;
	struct ibv_mr *mr = begin(&p, ALL | IBV_ACCESS_MW_BIND);
	struct ibv_wc wc;
	bool ok;

	bind.bind_info = (struct ibv_mw_bind_info) {
		.mr = mr, .addr = (uintptr_t)mem[0], .length = 64,
		.mw_access_flags = IBV_ACCESS_REMOTE_WRITE,
	};
	ok = RT_CHECK(mw) && RT_EQ(ibv_bind_mw(p.b.qp, mw, &bind), 0) &&
	     rt_expect(p.b.scq, 0, IBV_WC_SUCCESS, &wc) &&
	     RT_EQ(rereg(mr, ACCESS, NULL, NULL, 0, ALL), EBUSY) &&
	     RT_EQ(use(&p.a, IBV_WR_RDMA_WRITE, mem[0], mw->rkey), 0) &&
	     RT_EQ(ibv_dealloc_mw(mw), 0) &&
	     RT_EQ(rereg(mr, ACCESS, NULL, NULL, 0, ALL | IBV_ACCESS_MW_BIND), 0);
	mw = ibv_alloc_mw(rt_dev_b()->pd, IBV_MW_TYPE_1);
	ok = ok && RT_CHECK(mw) && RT_EQ(ibv_bind_mw(p.b.qp, mw, &bind), 0) &&
	     rt_poll(p.b.scq, &wc, 0) && RT_EQ(wc.status, IBV_WC_SUCCESS) &&
	     RT_EQ(ibv_dealloc_mw(mw), 0);
	end(&p, mr, ok, "not while a window is bound; afterwards both again");
}

/* The page is another one now: pinned memory keeps the old one, that on demand does not. */
static bool replace(uint8_t *p, uint8_t value)
{
	bool ok = RT_EQ(madvise(p, LEN, MADV_DONTNEED), 0);

	memset(p, value, LEN);
	return ok;
}

static void test_on_demand(void)
{
	const int odp = ALL | IBV_ACCESS_ON_DEMAND;
	struct ibv_pd *pd = ibv_alloc_pd(rt_dev_b()->ctx);
	struct rt_pair p;
	struct ibv_mr *mr = begin(&p, ALL);
	bool ok;

	ok = RT_EQ(use(&p.a, IBV_WR_RDMA_WRITE, mem[0], mr->rkey), 0) &&
	     RT_EQ(rereg(mr, ACCESS, NULL, NULL, 0, odp), 0) && replace(mem[0], 0x31) &&
	     RT_EQ(use(&p.a, IBV_WR_RDMA_READ, mem[0], mr->rkey), 0) &&
	     RT_EQ(abuf.p[0], 0x31) &&
	     RT_EQ(rereg(mr, ACCESS, NULL, NULL, 0, ALL), 0) &&
	     RT_EQ(use(&p.a, IBV_WR_RDMA_READ, mem[0], mr->rkey), 0) &&
	     replace(mem[0], 0x32) &&
	     RT_EQ(use(&p.a, IBV_WR_RDMA_READ, mem[0], mr->rkey), 0) &&
	     RT_EQ(abuf.p[0], 0x31);
	end(&p, mr, ok, "pinned memory becomes on demand, and pinned again");

	mr = begin(&p, odp);
	ok = RT_EQ(use(&p.a, IBV_WR_RDMA_WRITE, mem[0], mr->rkey), 0) &&
	     RT_EQ(rereg(mr, PD, pd, NULL, 0, 0), 0) && RT_EQ(ibv_dealloc_pd(pd), EBUSY) &&
	     RT_EQ(rereg(mr, PD | TRANS, rt_dev_b()->pd, mem[1], LEN / 2, 0), 0) &&
	     RT_EQ(ibv_dealloc_pd(pd), 0) && replace(mem[1], 0x33) &&
	     RT_EQ(use(&p.a, IBV_WR_RDMA_READ, mem[1], mr->rkey), 0) &&
	     RT_EQ(abuf.p[0], 0x33) &&
	     RT_EQ(rereg(mr, ACCESS, NULL, NULL, 0,
			 IBV_ACCESS_REMOTE_READ | IBV_ACCESS_ON_DEMAND), 0) &&
	     replace(mem[1], 0x34) &&
	     RT_EQ(use(&p.a, IBV_WR_RDMA_READ, mem[1], mr->rkey), 0) &&
	     RT_EQ(abuf.p[0], 0x34) &&
	     RT_EQ(use(&p.a, IBV_WR_RDMA_WRITE, mem[1], mr->rkey), IBV_WC_REM_ACCESS_ERR);
	end(&p, mr, ok, "on demand: another PD, other memory, other rights");
}

/* --- under traffic --- */

struct traffic {
	struct ibv_mr *mr;
	bool stop;
	unsigned long good, refused, other;
};

/* READs through whatever key is current; memory is 0x10 or 0x11, never else. */
static void *traffic(void *arg)
{
	struct traffic *t = arg;
	struct rt_pair p;

	rt_pair_create(&p, rt_dev_a(), rt_dev_b(), &rt_defaults);
	while (!__atomic_load_n(&t->stop, __ATOMIC_RELAXED)) {
		int status = use(&p.a, IBV_WR_RDMA_READ, mem[0],
				 __atomic_load_n(&t->mr->rkey, __ATOMIC_RELAXED));

		if (status == IBV_WC_SUCCESS && abuf.p[0] == 0x10) {
			t->good++;
		} else if (status == IBV_WC_REM_ACCESS_ERR) {
			t->refused++;
			rt_pair_destroy(&p);
			rt_pair_create(&p, rt_dev_a(), rt_dev_b(), &rt_defaults);
		} else {
			t->other++;
		}
	}
	rt_pair_destroy(&p);
	return NULL;
}

static bool seen_both(struct traffic *t)
{
	return __atomic_load_n(&t->good, __ATOMIC_RELAXED) &&
	       __atomic_load_n(&t->refused, __ATOMIC_RELAXED);
}

static void test_traffic(bool on_demand)
{
	struct rt_pair p;
	struct traffic t = { .mr = begin(&p, ALL) };
	unsigned int rounds = 0;
	uint64_t until = rt_now_ms() + 1000 * rt_args.seconds;
	pthread_t thread;
	bool ok = true;

	if (pthread_create(&thread, NULL, traffic, &t))
		rt_die("pthread_create");
	/*
	 * Back and forth; only half of the time the peer's address is inside. On a slow
	 * machine with longer pauses, until it has seen both.
	 */
	while (ok && (rt_now_ms() < until || !seen_both(&t)) && rt_now_ms() < until + 60000) {
		bool odp = on_demand && rounds & 2;
		bool slow = rt_now_ms() >= until;

		ok = RT_EQ(rereg(t.mr, TRANS | ACCESS, NULL, mem[rounds++ % 2], LEN,
				 ALL | (odp ? IBV_ACCESS_ON_DEMAND : 0)), 0);
		usleep((slow ? 20000 : 1000) * (rounds % 20));
	}
	__atomic_store_n(&t.stop, true, __ATOMIC_RELAXED);
	pthread_join(thread, NULL);
	rt_diag("%u changes, %lu READs good, %lu refused", rounds, t.good, t.refused);
	ok = ok && RT_CHECK(t.good) && RT_CHECK(t.refused) && RT_EQ(t.other, 0);
	end(&p, t.mr, ok, on_demand ? "the same, pinned and on demand by turns" :
	    "changed under traffic: each READ gets its memory or is refused");
}

/* --- dma-buf --- */

struct dmabuf_mr {
	uint32_t handle, lkey, rkey;
};

static struct ib_uverbs_attr attr(uint16_t id, uint16_t len, uint64_t data)
{
	return (struct ib_uverbs_attr) {
		.attr_id = id, .len = len, .flags = UVERBS_ATTR_F_MANDATORY, .data = data,
	};
}

static int reg_dmabuf(struct dmabuf_mr *mr, int fd, uint64_t offset, uint64_t len,
		      uint64_t iova, uint32_t access)
{
	struct ibv_pd *pd = rt_dev_b()->pd;
	struct {
		struct ib_uverbs_ioctl_hdr hdr;
		struct ib_uverbs_attr attr[9];
	} req = {
		.hdr = {
			.length = sizeof(req),
			.object_id = UVERBS_OBJECT_MR,
			.method_id = UVERBS_METHOD_REG_DMABUF_MR,
			.num_attrs = 9,
			.driver_id = RDMA_DRIVER_RXE,
		},
		.attr = {
			attr(UVERBS_ATTR_REG_DMABUF_MR_HANDLE, 0, 0),
			attr(UVERBS_ATTR_REG_DMABUF_MR_PD_HANDLE, 0, pd->handle),
			attr(UVERBS_ATTR_REG_DMABUF_MR_OFFSET, 8, offset),
			attr(UVERBS_ATTR_REG_DMABUF_MR_LENGTH, 8, len),
			attr(UVERBS_ATTR_REG_DMABUF_MR_IOVA, 8, iova),
			attr(UVERBS_ATTR_REG_DMABUF_MR_FD, 4, (uint32_t)fd),
			attr(UVERBS_ATTR_REG_DMABUF_MR_ACCESS_FLAGS, 4, access),
			attr(UVERBS_ATTR_REG_DMABUF_MR_RESP_LKEY, 4, (uintptr_t)&mr->lkey),
			attr(UVERBS_ATTR_REG_DMABUF_MR_RESP_RKEY, 4, (uintptr_t)&mr->rkey),
		},
	};

	if (ioctl(pd->context->cmd_fd, RDMA_VERBS_IOCTL, &req))
		return errno;
	mr->handle = req.attr[0].data;
	return 0;
}

static int dereg_dmabuf(struct dmabuf_mr *mr)
{
	struct {
		struct ib_uverbs_cmd_hdr hdr;
		struct ib_uverbs_dereg_mr cmd;
	} req = {
		.hdr = {
			.command = IB_USER_VERBS_CMD_DEREG_MR,
			.in_words = sizeof(req) / 4,
		},
		.cmd = { .mr_handle = mr->handle },
	};

	return write(rt_dev_b()->ctx->cmd_fd, &req, sizeof(req)) == sizeof(req) ? 0 : errno;
}

/*
 * A dma-buf of @len bytes from @off on of a file of @flags, whose pages up to there we see at *@p;
 * -1 if nobody exports one.
 */
static int make_dmabuf(size_t off, size_t len, unsigned int flags, uint8_t **p)
{
	struct udmabuf_create create = {
		.flags = UDMABUF_FLAGS_CLOEXEC, .offset = off, .size = len,
	};
	size_t all = flags & MFD_HUGETLB ? HUGE_LEN : off + len;
	int dev = open("/dev/udmabuf", O_RDWR), mem_fd, fd;

	if (dev < 0)
		return -1;
	mem_fd = memfd_create("mr", MFD_ALLOW_SEALING | flags);
	if (mem_fd < 0 || ftruncate(mem_fd, all) ||
	    fcntl(mem_fd, F_ADD_SEALS, F_SEAL_SHRINK))
		rt_die("memfd: %s", strerror(errno));
	*p = mmap(NULL, all, PROT_READ | PROT_WRITE, MAP_SHARED, mem_fd, 0);
	create.memfd = mem_fd;
	fd = ioctl(dev, UDMABUF_CREATE, &create);
	if (*p == MAP_FAILED || fd < 0)
		rt_die("udmabuf: %s", strerror(errno));
	close(mem_fd);
	close(dev);
	return fd;
}

static void test_dmabuf_use(int fd, uint8_t *p)
{
	uint8_t *iova = (void *)0x7000001000ull;
	struct dmabuf_mr mr;
	struct rt_pair pair;
	bool ok;

	memset(p, 0x10, 4 * LEN);
	memset(abuf.p, 0x22, 64);
	rt_pair_create(&pair, rt_dev_a(), rt_dev_b(), &rt_defaults);
	ok = RT_EQ(reg_dmabuf(&mr, fd, LEN, LEN, (uintptr_t)iova, ALL), 0);
	close(fd);
	ok = ok && RT_EQ(use(&pair.a, IBV_WR_RDMA_WRITE, iova, mr.rkey), 0) &&
	     RT_EQ(p[LEN - 1], 0x10) && RT_EQ(p[LEN], 0x22) && RT_EQ(p[LEN + 8], 0x10) &&
	     RT_EQ(use(&pair.a, IBV_WR_RDMA_WRITE, iova + LEN - 8, mr.rkey), 0) &&
	     RT_EQ(p[2 * LEN - 1], 0x22) && RT_EQ(p[2 * LEN], 0x10);
	memset(p, 0x33, 4 * LEN);
	ok = ok && RT_EQ(use(&pair.a, IBV_WR_RDMA_READ, iova + 4090, mr.rkey), 0) &&
	     RT_EQ(abuf.p[7], 0x33) && RT_EQ(abuf.p[8], 0x22) &&
	     RT_EQ(use(&pair.a, IBV_WR_RDMA_READ, iova + LEN - 7, mr.rkey),
		   IBV_WC_REM_ACCESS_ERR) &&
	     RT_EQ(dereg_dmabuf(&mr), 0);
	rt_ok(ok, "dma-buf: a piece of it written and read, the descriptor closed before");
	rt_pair_destroy(&pair);
}

/* Of a huge page: bytes go where they belong, or nowhere. */
static bool huge_dmabuf(struct rt_pair *pair, size_t buf_off, size_t buf_len, size_t off)
{
	uint8_t *p;
	int fd = make_dmabuf(buf_off, buf_len, MFD_HUGETLB, &p);
	struct dmabuf_mr mr;
	bool ok = true;
	int err;

	memset(p, 0x10, HUGE_LEN);
	memset(abuf.p, 0x22, 64);
	err = reg_dmabuf(&mr, fd, 0, buf_len, 0, ALL);
	if (!err)
		ok = RT_EQ(use(&pair->a, IBV_WR_RDMA_WRITE, (void *)off, mr.rkey), 0) &&
		     RT_EQ(p[buf_off + off], 0x22) && RT_EQ(p[off & 4095], 0x10) &&
		     RT_EQ(dereg_dmabuf(&mr), 0);
	else
		ok = RT_EQ(err, EOPNOTSUPP);
	close(fd);
	munmap(p, HUGE_LEN);
	return ok;
}

static void test_dmabuf_huge(void)
{
	struct rt_pair pair;

	if (system("echo 4 > /proc/sys/vm/nr_hugepages"))
		rt_die("nr_hugepages");
	rt_pair_create(&pair, rt_dev_a(), rt_dev_b(), &rt_defaults);
	rt_ok(huge_dmabuf(&pair, 0, HUGE_LEN, 5 * 4096) && huge_dmabuf(&pair, 4096, 4096, 8),
	      "dma-buf: of a huge page, and of a piece of one");
	rt_pair_destroy(&pair);
	if (system("echo 0 > /proc/sys/vm/nr_hugepages"))
		rt_die("nr_hugepages");
}

static void test_dmabuf(void)
{
	struct dmabuf_mr mr;
	struct ibv_mr mock = { .context = rt_dev_b()->ctx };
	uint8_t *p;
	int fd = make_dmabuf(0, 4 * LEN, 0, &p);

	if (fd < 0) {
		rt_skip("dma-buf", "this kernel has no udmabuf");
		return;
	}
	rt_ok(RT_EQ(reg_dmabuf(&mr, fd, 0, 4 * LEN + 1, 0, ALL), EINVAL) &&
	      RT_EQ(reg_dmabuf(&mr, fd, 4 * LEN, 4096, 0, ALL), EINVAL) &&
	      RT_EQ(reg_dmabuf(&mr, fd, -4096ull, 8192, 0, ALL), EINVAL) &&
	      RT_EQ(reg_dmabuf(&mr, fd, 0, 0, 0, ALL), EINVAL) &&
	      RT_EQ(reg_dmabuf(&mr, fd, 0, 8192, -4096ull, ALL), EINVAL) &&
	      RT_EQ(reg_dmabuf(&mr, fd, 0, 4096, 1, ALL), EINVAL) &&
	      RT_EQ(reg_dmabuf(&mr, fd, 0, 4096, 0, IBV_ACCESS_REMOTE_WRITE), EINVAL) &&
	      RT_EQ(reg_dmabuf(&mr, mock.context->cmd_fd, 0, 4096, 0, ALL), EINVAL) &&
	      RT_EQ(reg_dmabuf(&mr, -1, 0, 4096, 0, ALL), EBADF),
	      "dma-buf: ranges, addresses, rights and descriptors that are wrong");
	rt_ok(RT_EQ(reg_dmabuf(&mr, fd, 0, 4 * LEN, 0, ALL), 0) &&
	      (mock.handle = mr.handle, true) &&
	      RT_EQ(rereg(&mock, ACCESS, NULL, NULL, 0, IBV_ACCESS_REMOTE_READ), EOPNOTSUPP) &&
	      RT_EQ(dereg_dmabuf(&mr), 0), "dma-buf: no reregistration");
	test_dmabuf_use(fd, p);
	test_dmabuf_huge();
	munmap(p, 4 * LEN);
}

int main(int argc, char **argv)
{
	rt_args.seconds = 2;
	rt_parse(argc, argv);
	abuf = rt_buf(rt_dev_a(), 4096, RT_ACCESS_ALL);
	mem[0] = aligned_alloc(4096, LEN);
	mem[1] = aligned_alloc(4096, LEN);
	if (!mem[0] || !mem[1])
		rt_die("no memory");
	test_access();
	test_trans();
	test_pd();
	test_failures();
	test_window();
	test_on_demand();
	test_traffic(false);
	test_traffic(true);
	test_writable();
	test_dmabuf();
	return rt_done();
}
