// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * ring_fuzz - a hostile process that scribbles over its own rings.
 *
 * usage: ring_fuzz [-d DEV] [-g GID] [-s SEED] [-t SECONDS]
 *
 * Makes a pair of QPs again and again, finds the rings that the library has
 * mapped (in /proc/self/maps), and for a while writes random bytes, random
 * indices and half-sensible WQEs into them, while the doorbell rings and the
 * peer's traffic arrives. The library itself trusts the rings, so all this
 * happens in a child process that may die; the kernel may not. At the end a
 * fresh pair in the parent must still work, with its data checked.
 *
 * Output: TAP, the seed in a comment. Exit code: 0 all ok, 1 a check failed,
 * 2 could not run.
 */
#include <fcntl.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <rdma/ib_user_verbs.h>
#include "rt.h"

#define MAX_RINGS	16
#define ROUND_MS	300

struct ring {
	uint8_t *p;
	size_t len;
};

static int find_rings(struct ring *r)
{
	FILE *f = fopen("/proc/self/maps", "r");
	char line[512], perms[8], path[256];
	unsigned long start, end;
	int n = 0;

	while (f && n < MAX_RINGS && fgets(line, sizeof(line), f)) {
		path[0] = 0;
		if (sscanf(line, "%lx-%lx %7s %*s %*s %*s %255s", &start, &end,
			   perms, path) < 4)
			continue;
		if (!strstr(path, "uverbs") || !strchr(perms, 'w'))
			continue;
		r[n].p = (uint8_t *)start;
		r[n++].len = end - start;
	}
	if (f)
		fclose(f);
	return n;
}

/* Write one thing into a ring: an index, a WQE that is nearly right, noise. */
static void scribble(struct ring *r, uint64_t *rng, struct rt_buf *buf)
{
	uint64_t x = rt_rand(rng), y = rt_rand(rng);
	uint32_t *hdr = (void *)r->p;
	size_t off = 384 + (x >> 20) % (r->len - 384 - 64);
	uint8_t *e;

	switch (x % 8) {
	case 0:
		hdr[32] = y & 1 ? y >> 32 : (y >> 32) % 64;	/* producer */
		break;
	case 1:
		hdr[64] = y & 1 ? y >> 32 : (y >> 32) % 64;	/* consumer */
		break;
	case 2:
		hdr[y & 1] = y >> 32;		/* element size and mask */
		break;
	case 3:
	case 4:
		r->p[off] = y;
		break;
	case 5:
		memcpy(r->p + off, &y, 8);
		break;
	default:
		/* A send WQE at a slot, with random fields. */
		e = r->p + 384 + 256 * (y % 8);
		if (e + 256 > r->p + r->len)
			break;
		*(uint32_t *)(e + 12) = rt_rand(rng) % 20;	/* opcode */
		*(uint32_t *)(e + 16) = rt_rand(rng);		/* flags */
		*(uint64_t *)(e + 24) = (uintptr_t)buf->p + rt_rand(rng) % 8192;
		*(uint32_t *)(e + 32) = buf->mr->rkey;
		*(uint32_t *)(e + 184) = rt_rand(rng) % 9000;	/* length */
		*(uint32_t *)(e + 196) = rt_rand(rng) % 3 ?
			rt_rand(rng) % 4 : rt_rand(rng);	/* num_sge */
		*(uint64_t *)(e + 208) = (uintptr_t)buf->p + rt_rand(rng) % 4096;
		*(uint32_t *)(e + 216) = rt_rand(rng) % 2 ?
			rt_rand(rng) % 5000 : rt_rand(rng);
		*(uint32_t *)(e + 220) = buf->mr->lkey;
		break;
	}
}

/*
 * Ring the doorbell without the library, which would follow the broken
 * rings: the write() command POST_SEND with no work requests.
 */
static void doorbell(struct ibv_qp *qp)
{
	struct {
		struct ib_uverbs_cmd_hdr hdr;
		struct ib_uverbs_post_send cmd;
	} req = {
		.hdr = {
			.command = IB_USER_VERBS_CMD_POST_SEND,
			.in_words = sizeof(req) / 4,
			.out_words = sizeof(struct ib_uverbs_post_send_resp) / 4,
		},
	};
	struct ib_uverbs_post_send_resp resp;

	req.cmd.response = (uintptr_t)&resp;
	req.cmd.qp_handle = qp->handle;
	req.cmd.wqe_size = 128;
	if (write(qp->context->cmd_fd, &req, sizeof(req)) < 0)
		return;
}

/* One round: two QPs to each other, all rings of the process under fire. */
static void fuzz_round(uint64_t seed)
{
	uint64_t rng = seed, end;
	struct ring rings[MAX_RINGS];
	struct rt_opt opt = rt_defaults;
	struct rt_buf buf;
	struct rt_pair p;
	int n, i;

	opt.cap.max_send_wr = 7;
	opt.cap.max_recv_wr = 7;
	opt.cap.max_send_sge = 3;
	opt.cqe = 15;
	opt.timeout = 8;
	opt.retry_cnt = 1;
	buf = rt_buf(rt_dev_a(), 16384, RT_ACCESS_ALL);
	rt_pair_create(&p, rt_dev_a(), rt_dev_a(), &opt);
	n = find_rings(rings);
	if (!n)
		_exit(3);
	for (i = 0; i < 7; i++)
		rt_post_recv(&p.b, i, &buf, 0, 64);
	end = rt_now_ms() + ROUND_MS;
	while (rt_now_ms() < end) {
		for (i = rt_rand(&rng) % 20; i >= 0; i--)
			scribble(&rings[rt_rand(&rng) % n], &rng, &buf);
		doorbell(p.a.qp);
		doorbell(p.b.qp);
		if (!(rt_rand(&rng) % 8)) {
			ibv_req_notify_cq(p.a.scq, 0);
			rt_state(&p.a);
		}
		/* Errors are quick to come; start again from RESET. */
		if (!(rt_rand(&rng) % 4)) {
			struct rt_qp *q = rt_rand(&rng) % 2 ? &p.a : &p.b;

			/* May fail: a broken CQ throws its QPs into ERR. */
			if (!rt_to_state(q, IBV_QPS_RESET) &&
			    !rt_to_init(q) &&
			    !rt_to_rtr(q, &q->dev->gid, q == &p.a ?
				       p.b.qp->qp_num : p.a.qp->qp_num))
				rt_to_rts(q);
		}
	}
	/* Leave the rest to the kernel in half of the rounds. */
	if (seed & 1)
		_exit(0);
	rt_pair_destroy(&p);
	rt_buf_free(&buf);
	_exit(0);
}

static bool works(void)
{
	struct rt_buf a = rt_buf(rt_dev_a(), 65536, RT_ACCESS_ALL);
	struct rt_buf b = rt_buf(rt_dev_a(), 65536, RT_ACCESS_ALL);
	struct ibv_sge sge = {
		.addr = (uintptr_t)a.p, .length = 65536, .lkey = a.mr->lkey,
	};
	struct ibv_send_wr wr = rt_wr(1, IBV_WR_SEND, IBV_SEND_SIGNALED, &sge, 1);
	struct rt_pair p;
	bool ok;

	rt_pair_create(&p, rt_dev_a(), rt_dev_a(), &rt_defaults);
	rt_fill(a.p, a.len, 3, 0);
	ok = RT_EQ(rt_post_recv(&p.b, 2, &b, 0, 65536), 0) &&
	     RT_EQ(rt_post(&p.a, &wr), 0) &&
	     rt_expect(p.a.scq, 1, IBV_WC_SUCCESS, NULL) &&
	     rt_expect(p.b.rcq, 2, IBV_WC_SUCCESS, NULL) &&
	     rt_check(b.p, b.len, 3, 0);
	rt_pair_destroy(&p);
	rt_buf_free(&a);
	rt_buf_free(&b);
	return ok;
}

int main(int argc, char **argv)
{
	int status, rounds = 0, died = 0, odd = 0;
	uint64_t end;
	pid_t pid;

	rt_parse(argc, argv);
	rt_diag("seed %llu", (unsigned long long)rt_args.seed);
	fflush(stdout);
	/* The parent opens the device only later: a child opens its own. */
	end = rt_now_ms() + rt_args.seconds * 1000ull;
	while (rt_now_ms() < end) {
		pid = fork();
		if (!pid) {
			alarm(60);
			fuzz_round(rt_args.seed + rounds);
		}
		waitpid(pid, &status, 0);
		rounds++;
		if (WIFSIGNALED(status)) {
			died++;
			if (WTERMSIG(status) == SIGALRM)
				odd++;
		} else if (WEXITSTATUS(status)) {
			rt_diag("round %d ended with %d", rounds - 1,
				WEXITSTATUS(status));
			odd++;
		}
	}
	rt_ok(RT_EQ(odd, 0), "%d rounds, none stuck (%d children died of their own rings)",
	      rounds, died);
	rt_ok(works(), "a fresh pair of QPs works, data checked");
	return rt_done();
}
