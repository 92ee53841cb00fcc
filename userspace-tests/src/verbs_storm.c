// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * verbs_storm - hostile processes that call verbs at random, from many threads.
 *
 * usage: verbs_storm [-d DEV] [-g GID] [-s SEED] [-t SECONDS]
 *
 * The commands go to the kernel without the library: objects are created,
 * modified, resized, posted to and destroyed while other threads use the same ones,
 * so that every pair of verbs runs side by side sooner or later. The rings that come
 * of it are mapped, and filled with work requests that are nearly right. Every child
 * is killed in the middle of it. At the end a fresh pair in the parent must still
 * work.
 *
 * Output: TAP, the seed in a comment. Exit code: 0 all ok, 1 a check failed,
 * 2 could not run.
 */
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <rdma/ib_user_verbs.h>
#include "rt.h"

#define THREADS		4
#define HANDLES		12		/* remembered of each kind */
#define KEPT		64		/* rings, keys, numbers remembered */
#define ROUND_MS	1500
#define MORE_MS		60000		/* at most so much longer than asked for */
#define BUF_LEN		(1 << 16)

struct mminfo {
	uint64_t offset;
	uint32_t size, pad;
};

struct ring {
	uint8_t *p;
	uint32_t len;
};

enum kind { PD, MR, MW, CQ, SRQ, QP, AH, KINDS };

struct made {
	uint32_t handle, qpn, type;
};

static uint32_t handles[KINDS][HANDLES];
static struct made made[HANDLES];
static struct ibv_context *ctx;
static struct ibv_comp_channel *channel;
static union ibv_gid gid;
static uint8_t *buf;
static struct ring rings[KEPT];
static uint32_t keys[KEPT], qpns[KEPT], ahs[KEPT];
static unsigned long done[64], tried[64];
static int gid_index;

static uint32_t pick(uint64_t *rng, uint32_t n)
{
	return (rt_rand(rng) >> 16) % n;
}

/* True in one of @n cases. */
static bool once(uint64_t *rng, uint32_t n)
{
	return !pick(rng, n);
}

/* Few PDs, or nothing would fit together. */
static uint32_t *remembered(enum kind kind, uint64_t *rng)
{
	return &handles[kind][pick(rng, kind == PD ? 2 : HANDLES)];
}

/* Of an object of a kind, if that is still there; sometimes of another one. */
static uint32_t handle(enum kind kind, uint64_t *rng)
{
	return once(rng, 50) ? pick(rng, 200) : *remembered(kind, rng);
}

static void keep(enum kind kind, uint32_t handle, uint64_t *rng)
{
	*remembered(kind, rng) = handle;
}

/* A size: mostly small, at times at a limit or absurd. */
static uint32_t size(uint64_t *rng, uint32_t max)
{
	switch (pick(rng, 12)) {
	case 0:
		return 0;
	case 1:
		return max;
	case 2:
		return max + 1 + pick(rng, 3) * 0x3fffffff;
	default:
		return 1 + pick(rng, 40);
	}
}

/*
 * One command of the write() interface. Returns whether it succeeded.
 */
static bool call(uint32_t command, void *req, size_t len, size_t out)
{
	struct ib_uverbs_cmd_hdr *hdr = req;

	hdr->command = command;
	hdr->in_words = len / 4;
	hdr->out_words = out / 4;
	tried[command]++;
	if (write(ctx->cmd_fd, req, len) != (ssize_t)len)
		return false;
	done[command]++;
	return true;
}

/* A command with its header, its core structure and @DRV bytes of driver data. */
#define CMD(NAME, TYPE, DRV)						\
	struct __attribute__((packed)) {				\
		struct ib_uverbs_cmd_hdr hdr;				\
		TYPE c;							\
		uint8_t drv[DRV];					\
	} NAME = { 0 }

#define CALL(CMDNAME, REQ, RESP)					\
	({								\
		(REQ).c.response = (uintptr_t)&(RESP);			\
		call(IB_USER_VERBS_CMD_##CMDNAME, &(REQ), sizeof(REQ),	\
		     sizeof(RESP));					\
	})

static void map_ring(const struct mminfo *mi, uint64_t *rng)
{
	struct ring *r = &rings[pick(rng, KEPT)];
	size_t len = once(rng, 20) ? mi->size + 4096 : mi->size;
	int prot = PROT_READ | PROT_WRITE;
	void *p;

	if (!len || len > 1 << 20)
		return;
	p = mmap(NULL, len, prot, once(rng, 20) ? MAP_PRIVATE : MAP_SHARED, ctx->cmd_fd,
		 mi->offset);
	if (p == MAP_FAILED)
		return;
	/* the old one stays mapped: another thread may be writing */
	*r = (struct ring){ p, len };
}

static void pd_make(uint64_t *rng)
{
	CMD(req, struct ib_uverbs_alloc_pd, 0);
	struct ib_uverbs_alloc_pd_resp resp;

	if (CALL(ALLOC_PD, req, resp))
		keep(PD, resp.pd_handle, rng);
}

static int access_flags(uint64_t *rng)
{
	if (once(rng, 8))
		return rt_rand(rng);
	return RT_ACCESS_ALL | (once(rng, 2) ? IBV_ACCESS_MW_BIND : 0) |
	       (once(rng, 3) ? IBV_ACCESS_ON_DEMAND : 0);
}

static void mr_make(uint64_t *rng)
{
	CMD(req, struct ib_uverbs_reg_mr, 0);
	struct ib_uverbs_reg_mr_resp resp;

	req.c.start = (uintptr_t)buf + pick(rng, 5000);
	req.c.length = once(rng, 10) ? rt_rand(rng) : pick(rng, BUF_LEN - 5000);
	req.c.hca_va = once(rng, 5) ? rt_rand(rng) & ~4095ull : req.c.start;
	/* the core wants the same place in the page */
	req.c.hca_va = (req.c.hca_va & ~4095ull) | (req.c.start & 4095);
	req.c.pd_handle = handle(PD, rng);
	req.c.access_flags = access_flags(rng);
	if (!CALL(REG_MR, req, resp))
		return;
	keys[pick(rng, KEPT)] = resp.lkey;
	keep(MR, resp.mr_handle, rng);
}

static void mr_change(uint64_t *rng)
{
	CMD(req, struct ib_uverbs_rereg_mr, 0);
	struct ib_uverbs_rereg_mr_resp resp;

	req.c.mr_handle = handle(MR, rng);
	req.c.flags = pick(rng, 8);
	req.c.start = (uintptr_t)buf + pick(rng, 5000);
	req.c.length = pick(rng, BUF_LEN - 5000);
	req.c.hca_va = req.c.start;
	req.c.pd_handle = handle(PD, rng);
	req.c.access_flags = access_flags(rng);
	if (CALL(REREG_MR, req, resp))
		keys[pick(rng, KEPT)] = resp.lkey;
}

static void mw_make(uint64_t *rng)
{
	CMD(req, struct ib_uverbs_alloc_mw, 0);
	struct ib_uverbs_alloc_mw_resp resp;

	req.c.pd_handle = handle(PD, rng);
	req.c.mw_type = pick(rng, 4);
	if (!CALL(ALLOC_MW, req, resp))
		return;
	keys[pick(rng, KEPT)] = resp.rkey;
	keep(MW, resp.mw_handle, rng);
}

static void cq_make(uint64_t *rng)
{
	CMD(req, struct ib_uverbs_create_cq, 0);
	struct {
		struct ib_uverbs_create_cq_resp core;
		struct mminfo mi;
	} resp = { 0 };

	req.c.cqe = size(rng, 5000);
	req.c.comp_channel = once(rng, 2) ? channel->fd : -1;
	if (!CALL(CREATE_CQ, req, resp))
		return;
	keep(CQ, resp.core.cq_handle, rng);
	map_ring(&resp.mi, rng);
}

static void cq_resize(uint64_t *rng)
{
	CMD(req, struct ib_uverbs_resize_cq, 0);
	struct {
		struct ib_uverbs_resize_cq_resp core;
		struct mminfo mi;
	} resp = { 0 };

	req.c.cq_handle = handle(CQ, rng);
	req.c.cqe = size(rng, 5000);
	if (CALL(RESIZE_CQ, req, resp))
		map_ring(&resp.mi, rng);
}

static void cq_arm(uint64_t *rng)
{
	CMD(req, struct ib_uverbs_req_notify_cq, 0);

	req.c.cq_handle = handle(CQ, rng);
	req.c.solicited_only = once(rng, 2);
	call(IB_USER_VERBS_CMD_REQ_NOTIFY_CQ, &req, sizeof(req), 0);
}

static void srq_make(uint64_t *rng)
{
	CMD(req, struct ib_uverbs_create_srq, 0);
	struct {
		struct ib_uverbs_create_srq_resp core;
		struct mminfo mi;
		uint32_t num, reserved;
	} resp = { 0 };

	req.c.pd_handle = handle(PD, rng);
	req.c.max_wr = size(rng, 4096);
	req.c.max_sge = pick(rng, 5);
	req.c.srq_limit = pick(rng, 5);
	if (!CALL(CREATE_SRQ, req, resp))
		return;
	keep(SRQ, resp.core.srq_handle, rng);
	map_ring(&resp.mi, rng);
}

static void srq_change(uint64_t *rng)
{
	CMD(req, struct ib_uverbs_modify_srq, 8);
	struct mminfo mi = { 0 };
	uint64_t addr = (uintptr_t)&mi;

	req.c.srq_handle = handle(SRQ, rng);
	req.c.attr_mask = pick(rng, 4);
	req.c.max_wr = size(rng, 4096);
	req.c.srq_limit = pick(rng, 50);
	memcpy(req.drv, &addr, sizeof(addr));
	if (call(IB_USER_VERBS_CMD_MODIFY_SRQ, &req, sizeof(req), 0) && mi.size)
		map_ring(&mi, rng);
}

static void qp_make(uint64_t *rng)
{
	CMD(req, struct ib_uverbs_create_qp, 0);
	static const uint8_t types[] = { IBV_QPT_RC, IBV_QPT_RC, IBV_QPT_UC, IBV_QPT_UD };
	struct {
		struct ib_uverbs_create_qp_resp core;
		struct mminfo rq, sq;
	} resp = { 0 };

	req.c.pd_handle = handle(PD, rng);
	req.c.send_cq_handle = handle(CQ, rng);
	req.c.recv_cq_handle = handle(CQ, rng);
	req.c.srq_handle = handle(SRQ, rng);
	req.c.is_srq = once(rng, 3);
	req.c.max_send_wr = size(rng, 3000);
	req.c.max_recv_wr = size(rng, 3000);
	req.c.max_send_sge = pick(rng, 3);
	req.c.max_recv_sge = pick(rng, 3);
	req.c.max_inline_data = pick(rng, 48);
	req.c.sq_sig_all = once(rng, 2);
	req.c.qp_type = once(rng, 20) ? pick(rng, 20) : types[pick(rng, 4)];
	if (!CALL(CREATE_QP, req, resp))
		return;
	qpns[pick(rng, KEPT)] = resp.core.qpn;
	keep(QP, resp.core.qp_handle, rng);
	made[pick(rng, HANDLES)] = (struct made){ resp.core.qp_handle, resp.core.qpn,
						  req.c.qp_type };
	map_ring(&resp.rq, rng);
	map_ring(&resp.sq, rng);
}

/* What a transition of some type of QP wants. */
static uint32_t mask_for(enum ibv_qp_state state, unsigned int type)
{
	static const uint32_t masks[][3] = {
		[IBV_QPS_INIT] = {
			IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS,
			IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS,
			IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY },
		[IBV_QPS_RTR] = {
			IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
			IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER,
			IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN,
			0 },
		[IBV_QPS_RTS] = {
			IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
			IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC,
			IBV_QP_SQ_PSN, IBV_QP_SQ_PSN },
		[IBV_QPS_SQD] = { IBV_QP_EN_SQD_ASYNC_NOTIFY, 0, 0 },
		[IBV_QPS_SQE] = { 0 },
		[IBV_QPS_ERR] = { 0 },
	};
	uint32_t mask = IBV_QP_STATE;

	if (state <= IBV_QPS_ERR)
		mask |= masks[state][type];
	return mask;
}

static void modify(uint32_t qp, uint32_t state, uint32_t mask, uint32_t dest, uint64_t *rng)
{
	CMD(req, struct ib_uverbs_modify_qp, 0);

	req.c.qp_handle = qp;
	req.c.qp_state = state;
	req.c.attr_mask = mask;
	req.c.cur_qp_state = pick(rng, 7);
	req.c.qkey = RT_QKEY;
	req.c.rq_psn = 7;
	req.c.sq_psn = 7;
	req.c.dest_qp_num = dest;
	req.c.qp_access_flags = RT_ACCESS_ALL;
	req.c.path_mtu = once(rng, 10) ? pick(rng, 7) : IBV_MTU_1024;
	req.c.en_sqd_async_notify = once(rng, 2);
	req.c.max_rd_atomic = once(rng, 20) ? 255 : pick(rng, 5);
	req.c.max_dest_rd_atomic = once(rng, 20) ? 255 : pick(rng, 5);
	req.c.min_rnr_timer = 1 + pick(rng, 32);
	req.c.port_num = once(rng, 40) ? 2 : 1;
	req.c.timeout = pick(rng, 15);
	req.c.retry_cnt = pick(rng, 8);
	req.c.rnr_retry = pick(rng, 8);
	memcpy(req.c.dest.dgid, &gid, sizeof(gid));
	req.c.dest.sgid_index = once(rng, 20) ? pick(rng, 10) : (uint32_t)gid_index;
	req.c.dest.hop_limit = 1;
	req.c.dest.is_global = !once(rng, 20);
	req.c.dest.port_num = 1;
	call(IB_USER_VERBS_CMD_MODIFY_QP, &req, sizeof(req), 0);
}

static void qp_change(uint64_t *rng)
{
	static const uint8_t states[] = {
		IBV_QPS_RTS, IBV_QPS_RTS, IBV_QPS_SQD, IBV_QPS_ERR, IBV_QPS_RESET, IBV_QPS_INIT,
	};
	uint32_t state = once(rng, 20) ? pick(rng, 9) : states[pick(rng, ARRAY_SIZE(states))];
	uint32_t mask = mask_for(state, pick(rng, 3));

	if (once(rng, 10))
		mask ^= 1u << pick(rng, 22);
	if (once(rng, 20))
		mask &= ~IBV_QP_STATE;
	modify(handle(QP, rng), state, mask, qpns[pick(rng, KEPT)], rng);
}

/* All the way to RTS, to itself or to another one. */
static void qp_connect(uint64_t *rng)
{
	struct made *m = &made[pick(rng, HANDLES)], *peer = &made[pick(rng, HANDLES)];
	int type = m->type == IBV_QPT_RC ? 0 : m->type == IBV_QPT_UC ? 1 : 2;
	uint32_t dest = once(rng, 3) ? m->qpn : peer->qpn;

	if (once(rng, 2))
		modify(m->handle, IBV_QPS_RESET, IBV_QP_STATE, dest, rng);
	modify(m->handle, IBV_QPS_INIT, mask_for(IBV_QPS_INIT, type), dest, rng);
	modify(m->handle, IBV_QPS_RTR, mask_for(IBV_QPS_RTR, type), dest, rng);
	modify(m->handle, IBV_QPS_RTS, mask_for(IBV_QPS_RTS, type), dest, rng);
}

static void qp_query(uint64_t *rng)
{
	CMD(req, struct ib_uverbs_query_qp, 0);
	struct ib_uverbs_query_qp_resp resp;

	req.c.qp_handle = handle(QP, rng);
	CALL(QUERY_QP, req, resp);
}

static void post(uint64_t *rng)
{
	CMD(req, struct ib_uverbs_post_send, 0);
	struct ib_uverbs_post_send_resp resp;

	req.c.qp_handle = handle(QP, rng);
	req.c.wqe_size = 128;
	CALL(POST_SEND, req, resp);
}

static void ah_make(uint64_t *rng)
{
	CMD(req, struct ib_uverbs_create_ah, 0);
	struct {
		struct ib_uverbs_create_ah_resp core;
		uint32_t num, reserved;
	} resp = { 0 };

	req.c.pd_handle = handle(PD, rng);
	memcpy(req.c.attr.grh.dgid, &gid, sizeof(gid));
	req.c.attr.grh.sgid_index = once(rng, 20) ? pick(rng, 10) : (uint32_t)gid_index;
	req.c.attr.is_global = 1;
	req.c.attr.port_num = 1;
	if (!CALL(CREATE_AH, req, resp))
		return;
	ahs[pick(rng, KEPT)] = resp.num;
	keep(AH, resp.core.ah_handle, rng);
}

static void mcast(uint64_t *rng)
{
	CMD(req, struct ib_uverbs_attach_mcast, 0);

	memset(req.c.gid + 10, 0xff, 2);
	req.c.gid[12] = 230;
	req.c.gid[15] = pick(rng, 3);
	req.c.qp_handle = handle(QP, rng);
	if (once(rng, 2))
		call(IB_USER_VERBS_CMD_ATTACH_MCAST, &req, sizeof(req), 0);
	if (once(rng, 2))
		call(IB_USER_VERBS_CMD_DETACH_MCAST, &req, sizeof(req), 0);
}

static void destroy(uint64_t *rng)
{
	CMD(req, struct ib_uverbs_destroy_qp, 0);
	struct ib_uverbs_destroy_cq_resp resp;		/* the largest */

	switch (pick(rng, 8)) {
	case 0:
		req.c.qp_handle = handle(CQ, rng);
		CALL(DESTROY_CQ, req, resp);
		break;
	case 1:
		req.c.qp_handle = handle(SRQ, rng);
		CALL(DESTROY_SRQ, req, resp);
		break;
	default:
		req.c.qp_handle = handle(QP, rng);
		CALL(DESTROY_QP, req, resp);
		break;
	}
}

/* Commands that consist of a handle. */
static void release(uint64_t *rng)
{
	CMD(req, struct ib_uverbs_dereg_mr, 0);
	static const struct {
		uint32_t command;
		enum kind kind;
	} which[] = {
		{ IB_USER_VERBS_CMD_DEREG_MR, MR }, { IB_USER_VERBS_CMD_DEREG_MR, MR },
		{ IB_USER_VERBS_CMD_DEALLOC_MW, MW }, { IB_USER_VERBS_CMD_DESTROY_AH, AH },
		{ IB_USER_VERBS_CMD_DEALLOC_PD, PD },
	};
	unsigned int i = pick(rng, ARRAY_SIZE(which));

	/* they are in the way of others */
	if (which[i].kind == PD && !once(rng, 8))
		return;
	req.c.mr_handle = handle(which[i].kind, rng);
	call(which[i].command, &req, sizeof(req), 0);
}

static void put32(uint8_t *p, uint32_t v)
{
	*(volatile uint32_t *)p = v;
}

static void put64(uint8_t *p, uint64_t v)
{
	*(volatile uint64_t *)p = v;
}

/* A send WQE and a receive WQE at once, as far as they lie in the same place. */
static void fill(uint8_t *e, uint64_t *rng)
{
	uint64_t addr = (uintptr_t)buf + pick(rng, BUF_LEN);
	uint32_t len = once(rng, 20) ? rt_rand(rng) : pick(rng, 3000);

	put32(e + 12, once(rng, 30) ? rt_rand(rng) : pick(rng, 16));
	put32(e + 16, pick(rng, 16));
	put64(e + 24, once(rng, 2) ? addr : qpns[pick(rng, KEPT)] | (uint64_t)RT_QKEY << 32);
	/* num_sge of a receive lies where a send has the upper half of its address */
	put32(e + 28, once(rng, 2) ? 1 : *(uint32_t *)(e + 28));
	put32(e + 32, keys[pick(rng, KEPT)]);
	put32(e + 36, ahs[pick(rng, KEPT)]);
	put64(e + 40, once(rng, 2) ? addr : pick(rng, 4096));
	put32(e + 44, keys[pick(rng, KEPT)]);
	put32(e + 48, keys[pick(rng, KEPT)]);
	put32(e + 52, keys[pick(rng, KEPT)]);
	put32(e + 184, pick(rng, 64));
	put32(e + 196, once(rng, 20) ? rt_rand(rng) : pick(rng, 3));
	put64(e + 208, addr);
	put32(e + 216, len);
	put32(e + 220, keys[pick(rng, KEPT)]);
}

static void scribble(uint64_t *rng)
{
	struct ring r = rings[pick(rng, KEPT)];
	uint32_t mask, log2, prod, n;

	if (!r.p)
		return;
	log2 = *(volatile uint32_t *)r.p;
	mask = *(volatile uint32_t *)(r.p + 4);
	prod = *(volatile uint32_t *)(r.p + 128) & mask;
	if (log2 > 12 || 384 + ((size_t)mask << log2) > r.len)
		return;
	for (n = pick(rng, 8); n; n--, prod++) {
		size_t at = 384 + ((size_t)(prod & mask) << log2);

		if (at + 256 <= r.len)
			fill(r.p + at, rng);
	}
	put32(r.p + 128, once(rng, 40) ? rt_rand(rng) : prod & mask);
	/* of a CQ: as if all had been polled */
	if (once(rng, 3))
		put32(r.p + 256, prod & mask);
}

static void *storm(void *arg)
{
	static void (*const ops[])(uint64_t *) = {
		pd_make, mr_make, mr_make, mr_change, mw_make, cq_make, cq_resize, cq_arm,
		srq_make, srq_change, qp_make, qp_make, qp_change, qp_connect, qp_connect,
		qp_query, post, post, post, post, post, post, post, post, ah_make, mcast,
		destroy, release, scribble, scribble, scribble, scribble,
	};
	uint64_t rng = (uintptr_t)arg;

	for (;;)
		ops[pick(&rng, ARRAY_SIZE(ops))](&rng);
	return NULL;
}

static unsigned long *shared;

static void child(struct ibv_device *dev, uint64_t seed)
{
	uint64_t rng = seed, end = rt_now_ms() + ROUND_MS + seed % 500;
	pthread_t t;
	int i;

	ctx = ibv_open_device(dev);
	channel = ctx ? ibv_create_comp_channel(ctx) : NULL;
	buf = mmap(NULL, BUF_LEN, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (!channel || buf == MAP_FAILED)
		_exit(2);
	for (i = 0; i < 10; i++)
		pd_make(&rng);
	for (i = 0; i < 2 * HANDLES; i++) {
		cq_make(&rng);
		mr_make(&rng);
	}
	for (i = 0; i < THREADS; i++)
		if (pthread_create(&t, NULL, storm, (void *)(uintptr_t)rt_rand(&rng)))
			_exit(2);
	while (rt_now_ms() < end)
		usleep(20000);
	for (i = 0; i < 64; i++) {
		__atomic_fetch_add(&shared[i], tried[i], __ATOMIC_RELAXED);
		__atomic_fetch_add(&shared[64 + i], done[i], __ATOMIC_RELAXED);
	}
	raise(SIGKILL);
}

static bool works(void)
{
	struct rt_opt opt = rt_defaults;
	struct rt_buf b;
	struct rt_pair p;
	struct ibv_sge sge;
	struct ibv_send_wr wr;
	bool ok;

	rt_pair_create(&p, rt_dev_a(), rt_dev_a(), &opt);
	b = rt_buf(rt_dev_a(), 8192, RT_ACCESS_ALL);
	rt_fill(b.p, 4096, 1, 0);
	sge = (struct ibv_sge){ (uintptr_t)b.p, 4096, b.mr->lkey };
	wr = rt_wr(1, IBV_WR_RDMA_WRITE, IBV_SEND_SIGNALED, &sge, 1);
	wr.wr.rdma.remote_addr = (uintptr_t)b.p + 4096;
	wr.wr.rdma.rkey = b.mr->rkey;
	ok = !rt_post(&p.a, &wr) && rt_expect(p.a.scq, 1, IBV_WC_SUCCESS, NULL) &&
	     rt_check(b.p + 4096, 4096, 1, 0);
	rt_pair_destroy(&p);
	rt_buf_free(&b);
	return ok;
}

/* How many of the kinds of verbs that can succeed have not yet. */
static unsigned int missing(void)
{
	static const uint8_t must[] = {
		IB_USER_VERBS_CMD_ALLOC_PD, IB_USER_VERBS_CMD_REG_MR, IB_USER_VERBS_CMD_CREATE_CQ,
		IB_USER_VERBS_CMD_RESIZE_CQ, IB_USER_VERBS_CMD_CREATE_QP,
		IB_USER_VERBS_CMD_MODIFY_QP, IB_USER_VERBS_CMD_DESTROY_QP,
		IB_USER_VERBS_CMD_POST_SEND, IB_USER_VERBS_CMD_CREATE_SRQ,
		IB_USER_VERBS_CMD_MODIFY_SRQ, IB_USER_VERBS_CMD_CREATE_AH,
		IB_USER_VERBS_CMD_DEREG_MR, IB_USER_VERBS_CMD_REREG_MR,
		IB_USER_VERBS_CMD_ALLOC_MW, IB_USER_VERBS_CMD_DEALLOC_MW,
		IB_USER_VERBS_CMD_QUERY_QP, IB_USER_VERBS_CMD_REQ_NOTIFY_CQ,
		IB_USER_VERBS_CMD_DESTROY_CQ, IB_USER_VERBS_CMD_DESTROY_SRQ,
		IB_USER_VERBS_CMD_DESTROY_AH, IB_USER_VERBS_CMD_ATTACH_MCAST,
		IB_USER_VERBS_CMD_DETACH_MCAST,
	};
	unsigned int i, n = 0;

	for (i = 0; i < ARRAY_SIZE(must); i++)
		n += !shared[64 + must[i]];
	return n;
}

/* Verbs whose every use failed were not tried at all. */
static void report(void)
{
	unsigned int i;

	for (i = 0; i < 64; i++)
		if (shared[i])
			rt_diag("command %u: %lu of %lu", i, shared[64 + i], shared[i]);
	rt_ok(!missing(), "each kind of verb has succeeded at times");
}

int main(int argc, char **argv)
{
	uint64_t end, rng;
	bool ok = true;
	int n = 0;

	rt_parse(argc, argv);
	gid = rt_dev_a()->gid;
	gid_index = rt_dev_a()->gid_index;
	shared = mmap(NULL, 128 * sizeof(*shared), PROT_READ | PROT_WRITE,
		      MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (shared == MAP_FAILED)
		rt_die("mmap: %m");
	rng = rt_args.seed;
	rt_diag("seed %llu", (unsigned long long)rng);
	end = rt_now_ms() + 1000ull * rt_args.seconds;
	/* on a slow machine until each has had its luck */
	for (; rt_now_ms() < end || (missing() && rt_now_ms() < end + MORE_MS); n++) {
		uint64_t seed = rt_rand(&rng);
		int status;
		pid_t pid = fork();

		if (!pid)
			child(rt_dev_a()->ctx->device, seed);
		if (waitpid(pid, &status, 0) != pid)
			rt_die("wait: %m");
		ok = ok && (WIFSIGNALED(status) || WEXITSTATUS(status) != 2);
	}
	rt_ok(ok && n, "%d processes called verbs at random and were killed", n);
	report();
	rt_ok(works(), "a fresh pair works");
	return rt_done();
}
