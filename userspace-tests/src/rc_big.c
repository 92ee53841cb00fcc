// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * rc_big - big messages and big memory regions.
 *
 * usage: rc_big [-d DEV] [-D DEV2] [-g GID] [-G GID2] [-- MIB [huge]]
 *
 * Moves MIB (default 1024) MiB in messages of 64 MiB by WRITE, READ and SEND,
 * every byte checked; one message of 256 MiB; one WRITE of exactly 2^31 bytes
 * through a region of 4 GiB, which is a file of 256 MiB mapped 16 times, so
 * that a small machine can do it too. huge: the file is of 2 MiB pages, of which
 * 128 have to be free; a checked kernel takes minutes to pin 4 GiB page by page.
 *
 * Output: TAP. Exit code: 0 all ok, 1 a check failed, 2 could not run.
 */
#define _GNU_SOURCE
#include <linux/memfd.h>
#include <sys/mman.h>
#include "rt.h"

#define MIB		((size_t)1 << 20)
#define CHUNK		(64 * MIB)
#define FILE_LEN	(256 * MIB)
#define COPIES		16
#define HUGE_LEN	(2 * MIB)

static struct rt_buf abuf, bbuf;

static bool move(struct rt_pair *p, enum ibv_wr_opcode op, uint64_t seed)
{
	struct ibv_sge sge = {
		.addr = (uintptr_t)abuf.p, .length = CHUNK,
		.lkey = abuf.mr->lkey,
	};
	struct ibv_send_wr wr = rt_wr(seed, op, IBV_SEND_SIGNALED, &sge, 1);
	bool read = op == IBV_WR_RDMA_READ;

	rt_fill(read ? bbuf.p : abuf.p, CHUNK, seed, 0);
	memset(read ? abuf.p : bbuf.p, 0, CHUNK);
	wr.wr.rdma.remote_addr = (uintptr_t)bbuf.p;
	wr.wr.rdma.rkey = bbuf.mr->rkey;
	if (op == IBV_WR_SEND &&
	    !RT_EQ(rt_post_recv(&p->b, seed, &bbuf, 0, CHUNK), 0))
		return false;
	return RT_EQ(rt_post(&p->a, &wr), 0) &&
	       rt_expect(p->a.scq, seed, IBV_WC_SUCCESS, NULL) &&
	       (op != IBV_WR_SEND ||
		rt_expect(p->b.rcq, seed, IBV_WC_SUCCESS, NULL)) &&
	       rt_check(read ? abuf.p : bbuf.p, CHUNK, seed, 0);
}

static void test_total(size_t mib)
{
	static const enum ibv_wr_opcode ops[] = {
		IBV_WR_RDMA_WRITE, IBV_WR_RDMA_READ, IBV_WR_SEND,
	};
	size_t done;
	struct rt_pair p;
	bool ok = true;

	abuf = rt_buf(rt_dev_a(), CHUNK, RT_ACCESS_ALL);
	bbuf = rt_buf(rt_dev_b(), CHUNK, RT_ACCESS_ALL);
	rt_pair_create(&p, rt_dev_a(), rt_dev_b(), &rt_defaults);
	for (done = 0; ok && done < mib * MIB; done += CHUNK)
		ok = move(&p, ops[done / CHUNK % 3], done / CHUNK);
	rt_ok(ok, "%zu MiB in messages of 64 MiB, each byte checked", mib);
	rt_pair_destroy(&p);
	rt_buf_free(&abuf);
	rt_buf_free(&bbuf);
}

/* A file mapped COPIES times back to back looks like a large buffer. */
static uint8_t *map_copies(unsigned int flags)
{
	int fd = memfd_create("rc_big", flags), i;
	uint8_t *p;

	if (fd < 0 || ftruncate(fd, FILE_LEN))
		rt_die("memfd: %s", strerror(errno));
	/* one huge page more than is used, for the alignment */
	p = mmap(NULL, FILE_LEN * COPIES + HUGE_LEN, PROT_NONE,
		 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (p == MAP_FAILED)
		rt_die("mmap: %s", strerror(errno));
	p += -(uintptr_t)p % HUGE_LEN;
	for (i = 0; i < COPIES; i++)
		if (mmap(p + i * FILE_LEN, FILE_LEN, PROT_READ | PROT_WRITE,
			 MAP_SHARED | MAP_FIXED, fd, 0) == MAP_FAILED)
			rt_die("mmap: %s", strerror(errno));
	close(fd);
	return p;
}

static bool write_big(struct rt_pair *p, uint64_t laddr, uint32_t lkey,
		      uint64_t raddr, uint32_t rkey, uint32_t len)
{
	struct ibv_sge sge = { .addr = laddr, .length = len, .lkey = lkey };
	struct ibv_send_wr wr = rt_wr(1, IBV_WR_RDMA_WRITE, IBV_SEND_SIGNALED,
				      &sge, 1);

	wr.wr.rdma.remote_addr = raddr;
	wr.wr.rdma.rkey = rkey;
	return RT_EQ(rt_post(&p->a, &wr), 0) &&
	       rt_expect(p->a.scq, 1, IBV_WC_SUCCESS, NULL);
}

static void test_region(unsigned int flags)
{
	size_t len = FILE_LEN * COPIES;
	uint8_t *mem = map_copies(flags);
	struct ibv_mr *mr = ibv_reg_mr(rt_dev_b()->pd, mem, len, RT_ACCESS_ALL);
	struct ibv_mr *lmr = NULL;
	struct rt_pair p;

	if (!rt_ok(mr, "register a region of 4 GiB (%s)",
		   mr ? "done" : strerror(errno)))
		return;
	abuf = rt_buf(rt_dev_a(), MIB, RT_ACCESS_ALL);
	rt_pair_create(&p, rt_dev_a(), rt_dev_b(), &rt_defaults);

	/* The last bytes of the region, and bytes over the 2^32 of offsets. */
	rt_fill(abuf.p, MIB, 5, 0);
	rt_ok(write_big(&p, (uintptr_t)abuf.p, abuf.mr->lkey,
			(uintptr_t)mem + len - MIB, mr->rkey, MIB) &&
	      rt_check(mem + FILE_LEN - MIB, MIB, 5, 0),
	      "WRITE to the last MiB of 4 GiB");
	memset(mem, 0, MIB);
	rt_ok(write_big(&p, (uintptr_t)abuf.p, abuf.mr->lkey,
			(uintptr_t)mem + 9 * FILE_LEN + 12345, mr->rkey,
			MIB) && rt_check(mem + 12345, MIB, 5, 0),
	      "WRITE across pages in the middle");

	rt_fill(mem, MIB, 7, 0);
	lmr = ibv_reg_mr(rt_dev_a()->pd, mem, len, RT_ACCESS_ALL);
	rt_ok(lmr && write_big(&p, (uintptr_t)mem, lmr->lkey,
			       (uintptr_t)mem + 8 * FILE_LEN, mr->rkey,
			       1u << 31) && rt_check(mem, MIB, 7, 0),
	      "one WRITE of 2^31 bytes");
	rt_pair_destroy(&p);
	if (lmr)
		ibv_dereg_mr(lmr);
	ibv_dereg_mr(mr);
	rt_buf_free(&abuf);
	munmap(mem, len);
}

int main(int argc, char **argv)
{
	rt_parse(argc, argv);
	test_total(argc > rt_args.first ? atoi(argv[rt_args.first]) : 1024);
	test_region(argc > rt_args.first + 1 ? MFD_HUGETLB | MFD_HUGE_2MB : 0);
	return rt_done();
}
