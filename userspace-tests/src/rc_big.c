// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * rc_big - big messages and big memory regions.
 *
 * usage: rc_big [-d DEV] [-D DEV2] [-g GID] [-G GID2] [-- MIB [huge]]
 *
 * Moves MIB (default 1024) MiB in messages of 64 MiB by WRITE, READ and SEND, every
 * byte checked. Then WRITEs into a region of more than 4 GiB, the last one of exactly
 * 2^31 bytes; messages of a byte more are refused, and so is a READ of 2^31 at a path MTU of
 * 256. A small machine can do it: the region is a file of 68 MiB mapped many times over, what
 * is sent one of 6 MiB; with lengths that are no powers of two an offset that has lost bits
 * is one of other bytes. huge: the files are of 2 MiB pages, of which 37 have to be free; a
 * checked kernel takes minutes to pin 4 GiB page by page.
 *
 * Output: TAP. Exit code: 0 all ok, 1 a check failed, 2 could not run.
 */
#define _GNU_SOURCE
#include <linux/memfd.h>
#include <sys/mman.h>
#include "rt.h"

#define MIB		((size_t)1 << 20)
#define CHUNK		(64 * MIB)
#define HUGE_LEN	(2 * MIB)
#define FOUR_GIB	((size_t)1 << 32)
#define BIG		((size_t)1 << 31)

/*
 * The region: copies of the first LAP bytes of a file. Two pieces have memory of their own,
 * which no other copy writes to: that in which the big message begins, and that around
 * 2^32.
 */
#define LAP		(62 * MIB)
#define LAPS		72
#define LEN		(LAPS * LAP)
#define START		(LEN - BIG - 543210)
#define START_LEN	HUGE_LEN
#define START_OWN	(START - START % HUGE_LEN)
#define MIDDLE_LEN	(2 * HUGE_LEN)
#define MIDDLE_OWN	(FOUR_GIB - HUGE_LEN)
/* What is sent */
#define SOURCE		(6 * MIB)
#define SOURCE_LEN	(BIG + SOURCE)
#define SEED		7

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

static int file(size_t len, unsigned int flags)
{
	int fd = memfd_create("rc_big", flags);

	if (fd < 0 || ftruncate(fd, len))
		rt_die("memfd: %s", strerror(errno));
	return fd;
}

/* Address space for @len bytes, where a huge page may begin. */
static uint8_t *space(size_t len)
{
	uint8_t *p = mmap(NULL, len + HUGE_LEN, PROT_NONE,
			  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	if (p == MAP_FAILED)
		rt_die("mmap: %s", strerror(errno));
	return p + -(uintptr_t)p % HUGE_LEN;
}

static void map(uint8_t *p, size_t len, int fd, size_t off)
{
	if (mmap(p, len, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, off) == MAP_FAILED)
		rt_die("mmap: %s", strerror(errno));
}

/* The first @lap bytes of a file, over and over, look like a large buffer. */
static uint8_t *map_laps(int fd, size_t lap, size_t len)
{
	uint8_t *p = space(len);
	size_t pos;

	for (pos = 0; pos < len; pos += lap)
		map(p + pos, lap < len - pos ? lap : len - pos, fd, 0);
	return p;
}

static uint8_t *map_target(unsigned int flags)
{
	int fd = file(LAP + START_LEN + MIDDLE_LEN, flags);
	uint8_t *p = map_laps(fd, LAP, LEN);

	map(p + START_OWN, START_LEN, fd, LAP);
	map(p + MIDDLE_OWN, MIDDLE_LEN, fd, LAP + START_LEN);
	close(fd);
	return p;
}

static uint8_t *map_source(unsigned int flags)
{
	int fd = file(SOURCE, flags);
	uint8_t *p = map_laps(fd, SOURCE, SOURCE_LEN);

	close(fd);
	rt_fill(p, SOURCE, SEED, 0);
	return p;
}

/* @len bytes of the region from @pos on are those of the big message from @msg on. */
static bool sent(const uint8_t *mem, size_t pos, size_t len, size_t msg)
{
	size_t part;

	for (; len; pos += part, msg += part, len -= part) {
		part = SOURCE - msg % SOURCE;
		if (part > len)
			part = len;
		if (!rt_check(mem + pos, part, SEED, msg % SOURCE))
			return false;
	}
	return true;
}

static bool all_zero(const uint8_t *p, size_t len)
{
	while (len && !*p)
		p++, len--;
	return RT_EQ(len, 0);
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

/* The message of 2^31 bytes: its beginning, around 2^32, its end, and what is beside it. */
static bool big_arrived(const uint8_t *mem)
{
	return all_zero(mem + START_OWN, START - START_OWN) &&
	       sent(mem, START, START_OWN + START_LEN - START, 0) &&
	       sent(mem, MIDDLE_OWN, MIDDLE_LEN, MIDDLE_OWN - START) &&
	       sent(mem, START + BIG - MIB, MIB, BIG - MIB) &&
	       /* the lap before */
	       sent(mem, START + BIG, LEN - BIG - START, BIG - LAP);
}

static bool refused(struct ibv_send_wr *wr, const struct rt_opt *opt)
{
	struct rt_pair p;
	bool ok;

	rt_pair_create(&p, rt_dev_a(), rt_dev_b(), opt);
	ok = RT_EQ(rt_post(&p.a, wr), 0) &&
	     rt_expect(p.a.scq, 1, IBV_WC_LOC_LEN_ERR, NULL) &&
	     rt_wait_state(&p.a, IBV_QPS_ERR);
	rt_pair_destroy(&p);
	return ok;
}

/* More bytes than a message may have, or more PSNs than a READ; all of it in the regions. */
static void test_too_long(struct ibv_mr *smr, struct ibv_mr *mr)
{
	static const struct {
		const char *what;
		enum ibv_wr_opcode op;
		uint32_t len;
		enum ibv_mtu mtu;
	} rows[] = {
		{ "one of 2^31 + 1 bytes", IBV_WR_RDMA_WRITE, BIG + 1 },
		{ "a READ of 2^31 + 1 bytes", IBV_WR_RDMA_READ, BIG + 1 },
		{ "a SEND of 2^31 + 1 bytes", IBV_WR_SEND, BIG + 1 },
		{ "a READ of 2^31 bytes at a path MTU of 256", IBV_WR_RDMA_READ, BIG, IBV_MTU_256 },
	};
	size_t i;

	for (i = 0; i < ARRAY_SIZE(rows); i++) {
		struct ibv_sge sge = {
			.addr = (uintptr_t)smr->addr, .length = rows[i].len,
			.lkey = smr->lkey,
		};
		struct ibv_send_wr wr = rt_wr(1, rows[i].op, IBV_SEND_SIGNALED, &sge, 1);
		struct rt_opt opt = rt_defaults;

		opt.mtu = rows[i].mtu;
		wr.wr.rdma.remote_addr = (uintptr_t)mr->addr;
		wr.wr.rdma.rkey = mr->rkey;
		rt_ok(refused(&wr, &opt), "%s is refused", rows[i].what);
	}
}

static void test_region(unsigned int flags)
{
	uint8_t *mem = map_target(flags), *src = map_source(flags);
	struct ibv_mr *mr = ibv_reg_mr(rt_dev_b()->pd, mem, LEN, RT_ACCESS_ALL);
	struct ibv_mr *smr = ibv_reg_mr(rt_dev_a()->pd, src, SOURCE_LEN, IBV_ACCESS_LOCAL_WRITE);
	struct rt_pair p;

	if (!rt_ok(mr && smr, "register a region of %zu MiB (%s)", LEN / MIB,
		   mr && smr ? "done" : strerror(errno)))
		return;
	rt_pair_create(&p, rt_dev_a(), rt_dev_b(), &rt_defaults);
	rt_ok(write_big(&p, (uintptr_t)src, smr->lkey, (uintptr_t)mem + LEN - MIB, mr->rkey,
			MIB) && sent(mem, LEN - MIB, MIB, 0),
	      "WRITE to its last MiB");
	rt_ok(write_big(&p, (uintptr_t)src, smr->lkey, (uintptr_t)mem + FOUR_GIB - 12345,
			mr->rkey, MIB / 2) &&
	      sent(mem, FOUR_GIB - 12345, MIB / 2, 0) &&
	      all_zero(mem + MIDDLE_OWN, FOUR_GIB - 12345 - MIDDLE_OWN) &&
	      all_zero(mem + FOUR_GIB - 12345 + MIB / 2, MIB / 2 + 12345),
	      "WRITE across the 2^32 of offsets, and nowhere else");
	rt_ok(write_big(&p, (uintptr_t)src, smr->lkey, (uintptr_t)mem + START, mr->rkey,
			BIG) && big_arrived(mem),
	      "one WRITE of 2^31 bytes");
	test_too_long(smr, mr);
	rt_pair_destroy(&p);
	ibv_dereg_mr(smr);
	ibv_dereg_mr(mr);
	munmap(src, SOURCE_LEN);
	munmap(mem, LEN);
}

int main(int argc, char **argv)
{
	rt_parse(argc, argv);
	test_total(argc > rt_args.first ? atoi(argv[rt_args.first]) : 1024);
	test_region(argc > rt_args.first + 1 ? MFD_HUGETLB | MFD_HUGE_2MB : 0);
	return rt_done();
}
