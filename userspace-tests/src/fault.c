// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * fault - every verb with its first, second, ... allocation failing.
 *
 * usage: fault -d DEV -g GID NETDEV TRIES ours|all
 *
 * Needs a kernel with FAULT_INJECTION, and root. Each step runs with
 * /proc/thread-self/fail-nth set to 1, 2, 3 ... until it comes through without a
 * failure having been injected; where it allocates more often than TRIES, so many
 * places are tried, evenly spread from one that -s SEED chooses. A creating verb
 * may fail then, with any error but never half done: the next one must work, and
 * nothing may leak, which the kernel log and kmemleak say at the end of the
 * machine. A destroying verb and a message that is under way must succeed all the
 * same. NETDEV is free for a device of its own ("roe_f"). Which allocations fail is
 * set in debugfs, by debug-fault.sh: those of roe, or all.
 *
 * Output: TAP. Exit: 0 all ok, 1 not, 2 could not run.
 */
#include <fcntl.h>
#include <linux/netlink.h>
#include <rdma/rdma_netlink.h>
#include <sys/socket.h>
#include "rt.h"

#define MAX_NTH		100000		/* more than anything allocates */

static struct rt_dev *dev;
static const char *netdev;
static unsigned int tries, all_failures;
static bool ours_only;
static int nth_fd;

static void inject(int n)
{
	char text[16];

	snprintf(text, sizeof(text), "%d", n);
	if (pwrite(nth_fd, text, strlen(text), 0) < 0)
		rt_die("fail-nth: %m");
}

/* Ends injection; how many allocations are left to the failure asked for. */
static int ask_left(void)
{
	char text[16] = "";

	if (pread(nth_fd, text, sizeof(text) - 1, 0) < 0)
		rt_die("fail-nth: %m");
	inject(0);
	return atoi(text);
}

/* ---- what is tried: run under injection; made and undone without ---- */

static struct ibv_pd *pd;
static struct ibv_mr *mr;
static struct ibv_cq *cq;
static struct ibv_ah *ah;
static struct rt_pair pair;
static struct rt_buf buf;
static bool arrived = true;	/* the data of every message() */
static struct ibv_comp_channel *channel;

static bool pd_alloc(void)
{
	pd = ibv_alloc_pd(dev->ctx);
	return pd;
}

static void pd_undo(void)
{
	ibv_dealloc_pd(pd);
}

static bool mr_reg(void)
{
	mr = ibv_reg_mr(dev->pd, buf.p, buf.len, RT_ACCESS_ALL);
	return mr;
}

static void mr_undo(void)
{
	ibv_dereg_mr(mr);
}

static bool mr_dereg(void)
{
	return !ibv_dereg_mr(mr);
}

static void mr_make(void)
{
	if (!mr_reg())
		rt_die("reg_mr: %m");
}

static bool cq_create(void)
{
	cq = ibv_create_cq(dev->ctx, 1000, NULL, channel, 0);
	return cq;
}

static void cq_make(void)
{
	if (!cq_create())
		rt_die("create_cq: %m");
}

static void cq_undo(void)
{
	ibv_destroy_cq(cq);
}

static bool cq_resize(void)
{
	return !ibv_resize_cq(cq, 5000);
}

static bool cq_destroy(void)
{
	return !ibv_destroy_cq(cq);
}

static bool ah_create(void)
{
	struct ibv_ah_attr attr = {
		.is_global = 1,
		.port_num = RT_PORT,
		.grh = { .dgid = dev->gid, .sgid_index = dev->gid_index, .hop_limit = 1 },
	};

	ah = ibv_create_ah(dev->pd, &attr);
	return ah;
}

static void ah_undo(void)
{
	ibv_destroy_ah(ah);
}

static bool qp_create(void)
{
	struct rt_opt opt = rt_defaults;

	opt.scq = cq;
	opt.rcq = cq;
	return !rt_qp_create(&pair.a, dev, &opt);
}

static void qp_make(void)
{
	cq_make();
	if (!qp_create())
		rt_die("create_qp: %m");
}

static void qp_undo(void)
{
	rt_qp_destroy(&pair.a);
	cq_undo();
}

static bool qp_destroy(void)
{
	return !ibv_destroy_qp(pair.a.qp);
}

static bool qp_connect(void)
{
	return !(rt_to_init(&pair.a) ?:
		 rt_to_rtr(&pair.a, &dev->gid, pair.a.qp->qp_num) ?: rt_to_rts(&pair.a));
}

static void pair_make(void)
{
	rt_pair_create(&pair, dev, dev, &rt_defaults);
}

static void pair_undo(void)
{
	rt_pair_destroy(&pair);
}

/* From half to half of @buf: no allocation on the data path may lose more than a packet. */
static bool message(void)
{
	static uint64_t seed;
	size_t len = buf.len / 2;
	struct ibv_sge sge = {
		.addr = (uintptr_t)buf.p, .length = len, .lkey = buf.mr->lkey,
	};
	struct ibv_send_wr wr = rt_wr(1, IBV_WR_RDMA_WRITE, IBV_SEND_SIGNALED, &sge, 1);
	struct ibv_wc wc;

	rt_fill(buf.p, len, ++seed, 0);
	wr.wr.rdma.remote_addr = (uintptr_t)buf.p + len;
	wr.wr.rdma.rkey = buf.mr->rkey;
	if (rt_post(&pair.a, &wr) || !rt_expect(pair.a.scq, 1, IBV_WC_SUCCESS, &wc))
		return false;
	arrived = arrived && rt_check(buf.p + len, len, seed, 0);
	return true;
}

static bool device_open(void)
{
	struct ibv_context *ctx = ibv_open_device(dev->ctx->device);

	if (ctx)
		ibv_close_device(ctx);
	return ctx;
}

/* `rdma link add` and `delete`, in this very thread. */
static size_t add_attr(char *at, int type, const void *data, size_t len)
{
	struct nlattr *nla = (struct nlattr *)at;

	nla->nla_type = type;
	nla->nla_len = NLA_HDRLEN + len;
	memcpy(at + NLA_HDRLEN, data, len);
	return NLA_ALIGN(nla->nla_len);
}

static int ask(int cmd, const char *attrs, size_t len)
{
	char buf[1024] = "";
	struct nlmsghdr *nlh = (struct nlmsghdr *)buf;
	struct nlmsgerr *err = NLMSG_DATA(nlh);
	int fd = socket(AF_NETLINK, SOCK_RAW, NETLINK_RDMA), ret = -EIO;

	if (fd < 0)
		return -errno;
	nlh->nlmsg_len = NLMSG_HDRLEN + len;
	nlh->nlmsg_type = RDMA_NL_GET_TYPE(RDMA_NL_NLDEV, cmd);
	nlh->nlmsg_flags = NLM_F_REQUEST | NLM_F_ACK;
	memcpy(NLMSG_DATA(nlh), attrs, len);
	if (send(fd, buf, nlh->nlmsg_len, 0) < 0)
		ret = -errno;
	else if (recv(fd, buf, sizeof(buf), 0) > 0 && nlh->nlmsg_type == NLMSG_ERROR)
		ret = err->error;
	close(fd);
	return ret;
}

static bool link_add(void)
{
	char attrs[256];
	size_t n = 0;

	n += add_attr(attrs + n, RDMA_NLDEV_ATTR_DEV_NAME, "roe_f", 6);
	n += add_attr(attrs + n, RDMA_NLDEV_ATTR_LINK_TYPE, "roe", 4);
	n += add_attr(attrs + n, RDMA_NLDEV_ATTR_NDEV_NAME, netdev, strlen(netdev) + 1);
	return !ask(RDMA_NLDEV_CMD_NEWLINK, attrs, n);
}

static void link_undo(void)
{
	if (system("rdma link delete roe_f 2>/dev/null"))
		rt_diag("rdma link delete failed");
}

/*
 * OURS must work when functions of roe cannot allocate. (The RDMA core allocates in
 * post_send, which fails with it.) SLOW is tried at fewer places.
 */
enum kind { MAY_FAIL, SLOW, OURS, MUST_WORK };

static const struct step {
	const char *name;
	enum kind kind;
	void (*make)(void);
	bool (*run)(void);
	void (*undo)(void);		/* after run, if that worked */
	void (*unmake)(void);
} steps[] = {
	{ "open_device", MAY_FAIL, NULL, device_open, NULL, NULL },
	{ "alloc_pd", MAY_FAIL, NULL, pd_alloc, pd_undo, NULL },
	{ "reg_mr", MAY_FAIL, NULL, mr_reg, mr_undo, NULL },
	{ "dereg_mr", MUST_WORK, mr_make, mr_dereg, NULL, NULL },
	{ "create_cq", MAY_FAIL, NULL, cq_create, cq_undo, NULL },
	{ "resize_cq", MAY_FAIL, cq_make, cq_resize, NULL, cq_undo },
	{ "destroy_cq", MUST_WORK, cq_make, cq_destroy, NULL, NULL },
	{ "create_ah", MAY_FAIL, NULL, ah_create, ah_undo, NULL },
	{ "create_qp", MAY_FAIL, cq_make, qp_create, NULL, NULL },
	{ "modify_qp to RTS", MAY_FAIL, qp_make, qp_connect, NULL, qp_undo },
	{ "destroy_qp", MUST_WORK, qp_make, qp_destroy, NULL, cq_undo },
	{ "a message", OURS, pair_make, message, NULL, pair_undo },
	{ "rdma link add", SLOW, NULL, link_add, link_undo, NULL },
};

/* create_qp leaves its CQ to whoever undoes it. */
static void qp_step_end(const struct step *s, bool worked)
{
	if (s->run != qp_create)
		return;
	if (worked)
		qp_undo();
	else
		cq_undo();
}

/* One run whose @nth allocation fails; *@left: see ask_left(). */
static bool try(const struct step *s, int nth, int *left)
{
	bool worked;

	if (s->make)
		s->make();
	inject(nth);
	worked = s->run();
	*left = ask_left();
	if (worked && s->undo)
		s->undo();
	qp_step_end(s, worked);
	if (s->unmake)
		s->unmake();
	return worked;
}

static bool must_work(const struct step *s)
{
	return s->kind == MUST_WORK || (s->kind == OURS && ours_only);
}

static void run_step(const struct step *s)
{
	unsigned int failures = 0, n, total, stride;
	uint64_t start = rt_now_ms();
	bool worked;
	int left;

	worked = try(s, MAX_NTH, &left);
	total = MAX_NTH - left;
	stride = total * (s->kind == SLOW ? 5 : 1) / tries + 1;
	for (n = 1 + rt_args.seed % stride; worked || !must_work(s); n += stride) {
		worked = try(s, n, &left);
		if (left)
			break;
		failures++;
	}
	rt_diag("%s: %u of %u allocations, seed %llu, %llu ms", s->name, failures, total,
		(unsigned long long)rt_args.seed, (unsigned long long)(rt_now_ms() - start));
	all_failures += failures;
	/* what the first run has left for others is not allocated again */
	rt_ok(RT_CHECK(worked) && RT_CHECK(left) &&
	      RT_CHECK(failures || !total || must_work(s)), "%s", s->name);
}

int main(int argc, char **argv)
{
	size_t i;

	rt_parse(argc, argv);
	if (argc - rt_args.first != 3)
		rt_die("usage: fault -d DEV -g GID NETDEV TRIES ours|all");
	netdev = argv[rt_args.first];
	tries = atoi(argv[rt_args.first + 1]);
	if (!tries)
		rt_die("no tries");
	ours_only = !strcmp(argv[rt_args.first + 2], "ours");
	dev = rt_dev_a();
	buf = rt_buf(dev, 300 * 1024, RT_ACCESS_ALL);
	memset(buf.p, 1, buf.len);
	channel = ibv_create_comp_channel(dev->ctx);
	nth_fd = open("/proc/thread-self/fail-nth", O_RDWR | O_CLOEXEC);
	if (nth_fd < 0 || !channel)
		rt_die("fail-nth: %m");
	for (i = 0; i < ARRAY_SIZE(steps); i++)
		run_step(&steps[i]);
	rt_ok(all_failures >= ARRAY_SIZE(steps), "allocations have failed");
	rt_ok(arrived, "each message that was completed is there");
	close(nth_fd);
	ibv_destroy_comp_channel(channel);
	rt_buf_free(&buf);
	return rt_done();
}
