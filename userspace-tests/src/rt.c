// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * rt - the small library under roe's userspace tests, see rt.h.
 *
 * The environment variable RT_TIMEOUT (seconds, default 60) bounds every wait
 * for a completion that should come, RT_EVENT_MS (default 20000) every wait for
 * an asynchronous event.
 */
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <stdarg.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <time.h>
#include <rdma/ib_user_ioctl_cmds.h>
#include <rdma/rdma_user_ioctl.h>
#include "rt.h"

struct rt_args rt_args = { .gid = { -1, -1 }, .seconds = 10 };
unsigned int rt_timeout_ms = 60000;
static unsigned int event_ms = 20000;

const struct rt_opt rt_defaults = {
	.type = IBV_QPT_RC,
	.cap = {
		.max_send_wr = 64,
		.max_recv_wr = 64,
		.max_send_sge = 4,
		.max_recv_sge = 4,
		.max_inline_data = 64,
	},
	.access = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
		  IBV_ACCESS_REMOTE_ATOMIC,
	.rd_atomic = 16,
	.dest_rd_atomic = 16,
	.timeout = 17,			/* 0.54 s: slow machines, busy CPUs */
	.retry_cnt = 7,
	.rnr_retry = 7,
	.min_rnr_timer = 1,
	.cqe = 256,
};

static unsigned int tap_count, tap_failed;

/* ---- TAP ---- */

bool rt_ok(bool ok, const char *fmt, ...)
{
	va_list ap;

	printf("%sok %u - ", ok ? "" : "not ", ++tap_count);
	va_start(ap, fmt);
	vprintf(fmt, ap);
	va_end(ap);
	printf("\n");
	fflush(stdout);
	tap_failed += !ok;
	return ok;
}

void rt_skip(const char *what, const char *why)
{
	printf("ok %u - %s # SKIP %s\n", ++tap_count, what, why);
	fflush(stdout);
}

void rt_diag(const char *fmt, ...)
{
	va_list ap;

	printf("# ");
	va_start(ap, fmt);
	vprintf(fmt, ap);
	va_end(ap);
	printf("\n");
	fflush(stdout);
}

void rt_die(const char *fmt, ...)
{
	va_list ap;

	printf("Bail out! ");
	va_start(ap, fmt);
	vprintf(fmt, ap);
	va_end(ap);
	printf("\n");
	fflush(stdout);
	exit(2);
}

int rt_done(void)
{
	printf("1..%u\n", tap_count);
	if (tap_failed)
		rt_diag("%u of %u failed", tap_failed, tap_count);
	fflush(stdout);
	return tap_failed ? 1 : 0;
}

/* ---- time and chance ---- */

uint64_t rt_now_ms(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return ts.tv_sec * 1000ull + ts.tv_nsec / 1000000;
}

/* The core reads them anew after 10 ms. */
long rt_counter(struct rt_dev *dev, const char *name)
{
	char path[160], text[32] = "";
	int fd;

	usleep(15000);
	snprintf(path, sizeof(path), "/sys/class/infiniband/%s/ports/1/hw_counters/%s",
		 ibv_get_device_name(dev->ctx->device), name);
	fd = open(path, O_RDONLY);
	if (fd < 0 || read(fd, text, sizeof(text) - 1) <= 0)
		rt_die("%s: %m", path);
	close(fd);
	return atol(text);
}

bool rt_slow(void)
{
	const char *slow = getenv("SLOW");

	return slow && atoi(slow) > 1;
}

/* splitmix64 */
uint64_t rt_rand(uint64_t *state)
{
	uint64_t z = (*state += 0x9e3779b97f4a7c15ull);

	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
	return z ^ (z >> 31);
}

/* ---- devices ---- */

void rt_parse(int argc, char **argv)
{
	const char *t = getenv("RT_TIMEOUT");
	int c;

	if (t)
		rt_timeout_ms = 1000 * atoi(t);
	t = getenv("RT_EVENT_MS");
	if (t)
		event_ms = atoi(t);
	rt_args.seed = time(NULL) ^ ((uint64_t)getpid() << 32);
	while ((c = getopt(argc, argv, "d:D:g:G:s:t:")) != -1) {
		switch (c) {
		case 'd':
			rt_args.dev[0] = optarg;
			break;
		case 'D':
			rt_args.dev[1] = optarg;
			break;
		case 'g':
			rt_args.gid[0] = atoi(optarg);
			break;
		case 'G':
			rt_args.gid[1] = atoi(optarg);
			break;
		case 's':
			rt_args.seed = strtoull(optarg, NULL, 0);
			break;
		case 't':
			rt_args.seconds = atoi(optarg);
			break;
		default:
			rt_die("usage: %s [-d DEV] [-D DEV2] [-g GID] [-G GID2] [-s SEED] [-t SEC]",
			       argv[0]);
		}
	}
	rt_args.first = optind;
}

static bool gid_is_v4(const union ibv_gid *g)
{
	static const uint8_t prefix[12] = { [10] = 0xff, [11] = 0xff };

	return !memcmp(g->raw, prefix, sizeof(prefix));
}

/* The first RoCEv2 GID that is an IPv4 address, or else the first of all. */
static void find_gid(struct rt_dev *dev)
{
	struct ibv_gid_entry e;
	int i, first = -1;

	for (i = 0; i < dev->port.gid_tbl_len; i++) {
		if (ibv_query_gid_ex(dev->ctx, RT_PORT, i, &e, 0))
			continue;
		if (e.gid_type != IBV_GID_TYPE_ROCE_V2)
			continue;
		if (first < 0)
			first = i;
		if (gid_is_v4(&e.gid)) {
			dev->gid_index = i;
			return;
		}
	}
	dev->gid_index = first;
}

struct rt_dev *rt_open(const char *name, int gid_index)
{
	struct ibv_device **list, *found = NULL;
	struct rt_dev *dev = calloc(1, sizeof(*dev));
	int i, n, ret;

	list = ibv_get_device_list(&n);
	if (!dev || !list)
		rt_die("no device list: %s", strerror(errno));
	for (i = 0; i < n && !found; i++)
		if (!name || !strcmp(ibv_get_device_name(list[i]), name))
			found = list[i];
	if (!found)
		rt_die("no device %s", name ? name : "at all");
	dev->ctx = ibv_open_device(found);
	if (!dev->ctx)
		rt_die("open %s: %s", name, strerror(errno));
	ibv_free_device_list(list);

	ret = ibv_query_device(dev->ctx, &dev->attr);
	if (!ret)
		ret = ibv_query_port(dev->ctx, RT_PORT, &dev->port);
	if (ret)
		rt_die("query: %s", strerror(ret));
	dev->gid_index = gid_index;
	if (gid_index < 0)
		find_gid(dev);
	if (dev->gid_index < 0 ||
	    ibv_query_gid(dev->ctx, RT_PORT, dev->gid_index, &dev->gid))
		rt_die("no usable GID");
	dev->pd = ibv_alloc_pd(dev->ctx);
	if (!dev->pd)
		rt_die("alloc_pd: %s", strerror(errno));
	fcntl(dev->ctx->async_fd, F_SETFL,
	      fcntl(dev->ctx->async_fd, F_GETFL) | O_NONBLOCK);
	return dev;
}

/* The requester's device: -d, or the first one. */
struct rt_dev *rt_dev_a(void)
{
	static struct rt_dev *dev;

	if (!dev)
		dev = rt_open(rt_args.dev[0], rt_args.gid[0]);
	return dev;
}

/* The responder's device: -D, or the requester's. */
struct rt_dev *rt_dev_b(void)
{
	static struct rt_dev *dev;

	if (!dev)
		dev = rt_args.dev[1] ?
			rt_open(rt_args.dev[1], rt_args.gid[1]) : rt_dev_a();
	return dev;
}

void rt_close(struct rt_dev *dev)
{
	if (ibv_dealloc_pd(dev->pd) || ibv_close_device(dev->ctx))
		rt_die("close: %s", strerror(errno));
	free(dev);
}

/* ---- QPs ---- */

int rt_qp_create(struct rt_qp *q, struct rt_dev *dev, const struct rt_opt *opt)
{
	struct ibv_qp_init_attr_ex ia = {
		.cap = opt->cap,
		.qp_type = opt->type,
		.sq_sig_all = opt->sig_all,
		.srq = opt->srq,
		.comp_mask = IBV_QP_INIT_ATTR_PD,
		.pd = dev->pd,
	};

	memset(q, 0, sizeof(*q));
	q->dev = dev;
	q->opt = *opt;
	q->scq = opt->scq;
	q->rcq = opt->rcq;
	if (!q->scq)
		q->scq = ibv_create_cq(dev->ctx, opt->cqe, NULL, opt->channel, 0);
	if (!q->rcq)
		q->rcq = ibv_create_cq(dev->ctx, opt->cqe, NULL, opt->channel, 0);
	if (!q->scq || !q->rcq)
		return errno ? errno : EIO;

	ia.send_cq = q->scq;
	ia.recv_cq = q->rcq;
	if (opt->ops) {
		ia.comp_mask |= IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
		ia.send_ops_flags = opt->ops;
	}
	q->qp = ibv_create_qp_ex(dev->ctx, &ia);
	if (!q->qp)
		return errno ? errno : EIO;
	if (opt->ops)
		q->qpx = ibv_qp_to_qp_ex(q->qp);
	q->opt.cap = ia.cap;
	return 0;
}

void rt_qp_destroy(struct rt_qp *q)
{
	int ret = 0;

	if (q->qp)
		ret |= ibv_destroy_qp(q->qp);
	if (q->scq && !q->opt.scq)
		ret |= ibv_destroy_cq(q->scq);
	if (q->rcq && !q->opt.rcq)
		ret |= ibv_destroy_cq(q->rcq);
	if (ret)
		rt_die("destroy: %s", strerror(ret));
	memset(q, 0, sizeof(*q));
}

int rt_to_init(struct rt_qp *q)
{
	struct ibv_qp_attr a = {
		.qp_state = IBV_QPS_INIT,
		.port_num = RT_PORT,
		.qp_access_flags = q->opt.access,
		.qkey = RT_QKEY,
	};

	return ibv_modify_qp(q->qp, &a, IBV_QP_STATE | IBV_QP_PKEY_INDEX |
			     IBV_QP_PORT | (q->opt.type == IBV_QPT_UD ?
					    IBV_QP_QKEY : IBV_QP_ACCESS_FLAGS));
}

static int env(const char *name, int otherwise)
{
	const char *t = getenv(name);

	return t ? strtol(t, NULL, 0) : otherwise;
}

int rt_to_rtr(struct rt_qp *q, const union ibv_gid *gid, uint32_t qpn)
{
	struct ibv_qp_attr a = {
		.qp_state = IBV_QPS_RTR,
		.path_mtu = q->opt.mtu ? q->opt.mtu : q->dev->port.active_mtu,
		.dest_qp_num = qpn,
		.rq_psn = RT_FIRST_PSN,
		.max_dest_rd_atomic = q->opt.dest_rd_atomic,
		.min_rnr_timer = q->opt.min_rnr_timer,
		.ah_attr = {
			.is_global = 1,
			.port_num = RT_PORT,
			.sl = env("RT_SL", 0),
			.grh = {
				.dgid = *gid,
				.sgid_index = q->dev->gid_index,
				.hop_limit = 64,
				.traffic_class = env("RT_TCLASS", 0),
				.flow_label = env("RT_FLOW", 0),
			},
		},
	};

	int mask = IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU |
		   IBV_QP_DEST_QPN | IBV_QP_RQ_PSN;

	if (q->opt.type == IBV_QPT_RC)
		mask |= IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
	if (q->opt.type == IBV_QPT_UD)
		mask = IBV_QP_STATE;
	return ibv_modify_qp(q->qp, &a, mask);
}

int rt_to_rts(struct rt_qp *q)
{
	struct ibv_qp_attr a = {
		.qp_state = IBV_QPS_RTS,
		.timeout = env("RT_ACK_TIMEOUT", q->opt.timeout),
		.retry_cnt = q->opt.retry_cnt,
		.rnr_retry = q->opt.rnr_retry,
		.sq_psn = RT_FIRST_PSN,
		.max_rd_atomic = q->opt.rd_atomic,
	};

	int mask = IBV_QP_STATE | IBV_QP_SQ_PSN;

	if (q->opt.type == IBV_QPT_RC)
		mask |= IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
			IBV_QP_MAX_QP_RD_ATOMIC;
	return ibv_modify_qp(q->qp, &a, mask);
}

/* To RESET or ERR, which need no attributes. */
int rt_to_state(struct rt_qp *q, enum ibv_qp_state state)
{
	struct ibv_qp_attr a = { .qp_state = state };

	return ibv_modify_qp(q->qp, &a, IBV_QP_STATE);
}

enum ibv_qp_state rt_state(struct rt_qp *q)
{
	struct ibv_qp_init_attr ia;
	struct ibv_qp_attr a;

	if (ibv_query_qp(q->qp, &a, IBV_QP_STATE, &ia))
		return IBV_QPS_UNKNOWN;
	return a.qp_state;
}

/* A QP may follow its completion into ERR a moment later. */
bool rt_wait_state(struct rt_qp *q, enum ibv_qp_state state)
{
	uint64_t end = rt_now_ms() + rt_timeout_ms;

	while (rt_state(q) != state) {
		if (rt_now_ms() > end) {
			rt_diag("QP 0x%x is in state %d, wanted %d",
				q->qp->qp_num, rt_state(q), state);
			return false;
		}
		usleep(1000);
	}
	return true;
}

void rt_connect(struct rt_qp *a, struct rt_qp *b)
{
	int ret;

	ret = rt_to_init(a) ?: rt_to_init(b) ?:
	      rt_to_rtr(a, &b->dev->gid, b->qp->qp_num) ?:
	      rt_to_rtr(b, &a->dev->gid, a->qp->qp_num) ?:
	      rt_to_rts(a) ?: rt_to_rts(b);
	if (ret)
		rt_die("connect: %s", strerror(ret));
}

void rt_pair_create(struct rt_pair *p, struct rt_dev *a, struct rt_dev *b,
		    const struct rt_opt *opt)
{
	int ret;

	ret = rt_qp_create(&p->a, a, opt) ?: rt_qp_create(&p->b, b, opt);
	if (ret)
		rt_die("create QP: %s", strerror(ret));
	rt_connect(&p->a, &p->b);
}

void rt_pair_destroy(struct rt_pair *p)
{
	/* Unacknowledged events would block the destruction for ever. */
	rt_drain_events(p->a.dev);
	rt_drain_events(p->b.dev);
	rt_qp_destroy(&p->a);
	rt_qp_destroy(&p->b);
}

struct ibv_ah *rt_ah(struct rt_dev *a, struct rt_dev *b)
{
	struct ibv_ah_attr attr = {
		.is_global = 1,
		.port_num = RT_PORT,
		.grh = {
			.dgid = b->gid,
			.sgid_index = a->gid_index,
			.hop_limit = 64,
		},
	};
	struct ibv_ah *ah = ibv_create_ah(a->pd, &attr);

	if (!ah)
		rt_die("create_ah: %s", strerror(errno));
	return ah;
}

/* ---- memory ---- */

int rt_advise(struct ibv_pd *pd, uint64_t advice, uint64_t flags, struct ibv_sge *sge,
	      unsigned int n)
{
	struct {
		struct ib_uverbs_ioctl_hdr hdr;
		struct ib_uverbs_attr attr[4];
	} cmd = {
		.hdr = {
			.length = sizeof(cmd),
			.object_id = UVERBS_OBJECT_MR,
			.method_id = UVERBS_METHOD_ADVISE_MR,
			.num_attrs = 4,
			.driver_id = RDMA_DRIVER_RXE,
		},
		.attr = {
			{ .attr_id = UVERBS_ATTR_ADVISE_MR_PD_HANDLE, .flags = 1,
			  .data = pd->handle },
			{ .attr_id = UVERBS_ATTR_ADVISE_MR_ADVICE, .flags = 1, .len = 8,
			  .data = advice },
			{ .attr_id = UVERBS_ATTR_ADVISE_MR_FLAGS, .flags = 1, .len = 8,
			  .data = flags },
			{ .attr_id = UVERBS_ATTR_ADVISE_MR_SGE_LIST, .flags = 1,
			  .len = n * sizeof(*sge), .data = (uintptr_t)sge },
		},
	};

	return ioctl(pd->context->cmd_fd, RDMA_VERBS_IOCTL, &cmd) ? errno : 0;
}

struct rt_buf rt_buf(struct rt_dev *dev, size_t len, int access)
{
	struct rt_buf b = { .len = len };

	b.p = mmap(NULL, len, PROT_READ | PROT_WRITE,
		   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (b.p == MAP_FAILED)
		rt_die("mmap of %zu bytes: %s", len, strerror(errno));
	b.mr = ibv_reg_mr(dev->pd, b.p, len, access);
	if (!b.mr)
		rt_die("reg_mr of %zu bytes: %s", len, strerror(errno));
	return b;
}

void rt_buf_free(struct rt_buf *b)
{
	if (ibv_dereg_mr(b->mr))
		rt_die("dereg_mr: %s", strerror(errno));
	munmap(b->p, b->len);
	b->p = NULL;
}

/* The 8 bytes at position 8 * @n of stream @seed. */
static uint64_t pattern(uint64_t seed, uint64_t n)
{
	uint64_t z = (seed + n + 1) * 0x9e3779b97f4a7c15ull;

	return z ^ (z >> 29);
}

/* Most are whole words: where the compiler knows that, there is no call. */
static void put(uint8_t *p, const uint8_t *w, size_t n)
{
	if (n == 8)
		memcpy(p, w, 8);
	else
		memcpy(p, w, n);
}

static bool same(const uint8_t *p, const uint8_t *w, size_t n)
{
	return n == 8 ? !memcmp(p, w, 8) : !memcmp(p, w, n);
}

/* Write bytes @pos to @pos + @len of stream @seed. */
void rt_fill(void *buf, size_t len, uint64_t seed, size_t pos)
{
	uint8_t *p = buf;

	while (len) {
		uint64_t w = pattern(seed, pos / 8);
		size_t skip = pos % 8, n = 8 - skip;

		if (n > len)
			n = len;
		put(p, (uint8_t *)&w + skip, n);
		p += n;
		pos += n;
		len -= n;
	}
}

bool rt_check(const void *buf, size_t len, uint64_t seed, size_t pos)
{
	const uint8_t *p = buf;

	while (len) {
		uint64_t w = pattern(seed, pos / 8);
		size_t skip = pos % 8, n = 8 - skip;

		if (n > len)
			n = len;
		if (!same(p, (uint8_t *)&w + skip, n)) {
			uint64_t have = 0;

			memcpy((uint8_t *)&have + skip, p, n);
			rt_diag("wrong data, %zu bytes at stream position %zu: %llx, not %llx",
				n, pos, (unsigned long long)have, (unsigned long long)w);
			return false;
		}
		p += n;
		pos += n;
		len -= n;
	}
	return true;
}

/* ---- completions and events ---- */

bool rt_poll(struct ibv_cq *cq, struct ibv_wc *wc, unsigned int ms)
{
	uint64_t begin = rt_now_ms(), end = begin + (ms ? ms : rt_timeout_ms), now = begin;
	int n;

	do {
		n = ibv_poll_cq(cq, 1, wc);
		if (n < 0) {
			rt_diag("poll_cq says %d", n);
			return false;
		}
		/* what takes longer than a message waits for a timer */
		if (!n && now - begin > 2)
			usleep(200);
		else if (!n)
			sched_yield();
		now = rt_now_ms();
	} while (!n && now <= end);
	return n == 1;
}

/* The next completion must be this one. */
bool rt_expect(struct ibv_cq *cq, uint64_t wr_id, enum ibv_wc_status status,
	       struct ibv_wc *wc)
{
	struct ibv_wc tmp;

	if (!wc)
		wc = &tmp;
	memset(wc, 0, sizeof(*wc));
	if (!rt_poll(cq, wc, 0)) {
		rt_diag("no completion of wr_id %llu",
			(unsigned long long)wr_id);
		return false;
	}
	if (wc->wr_id == wr_id && wc->status == status)
		return true;
	rt_diag("completion of wr_id %llu: %s, wanted wr_id %llu: %s",
		(unsigned long long)wc->wr_id, ibv_wc_status_str(wc->status),
		(unsigned long long)wr_id, ibv_wc_status_str(status));
	return false;
}

/* Wait for an event of this type for this object, passing over others. */
bool rt_expect_event(struct rt_dev *dev, enum ibv_event_type type, void *obj,
		     unsigned int ms)
{
	uint64_t end = rt_now_ms() + (ms ? ms : event_ms);
	struct pollfd pfd = { .fd = dev->ctx->async_fd, .events = POLLIN };
	struct ibv_async_event ev;
	bool hit;

	while (rt_now_ms() <= end) {
		if (poll(&pfd, 1, 50) <= 0 || ibv_get_async_event(dev->ctx, &ev))
			continue;
		hit = ev.event_type == type &&
		      (!obj || ev.element.qp == obj || ev.element.cq == obj);
		if (!hit)
			rt_diag("(other event: %s)",
				ibv_event_type_str(ev.event_type));
		ibv_ack_async_event(&ev);
		if (hit)
			return true;
	}
	return false;
}

void rt_drain_events(struct rt_dev *dev)
{
	struct pollfd pfd = { .fd = dev->ctx->async_fd, .events = POLLIN };
	struct ibv_async_event ev;

	while (poll(&pfd, 1, 0) > 0 && !ibv_get_async_event(dev->ctx, &ev))
		ibv_ack_async_event(&ev);
}

/* ---- posting ---- */

int rt_post_recv(struct rt_qp *q, uint64_t id, struct rt_buf *b, size_t off,
		 ssize_t len)
{
	struct ibv_sge sge;
	struct ibv_recv_wr wr = { .wr_id = id }, *bad;

	if (len >= 0) {
		sge.addr = (uintptr_t)b->p + off;
		sge.length = len;
		sge.lkey = b->mr->lkey;
		wr.sg_list = &sge;
		wr.num_sge = 1;
	}
	return ibv_post_recv(q->qp, &wr, &bad);
}

struct ibv_send_wr rt_wr(uint64_t id, enum ibv_wr_opcode op, unsigned int flags,
			 struct ibv_sge *sge, int num_sge)
{
	return (struct ibv_send_wr) {
		.wr_id = id,
		.opcode = op,
		.send_flags = flags,
		.sg_list = sge,
		.num_sge = num_sge,
	};
}

int rt_post(struct rt_qp *q, struct ibv_send_wr *wr)
{
	struct ibv_send_wr *bad;

	return ibv_post_send(q->qp, wr, &bad);
}
