// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * hold - keep a device open with a QP, CQ and MR, and tell what happens to it.
 *
 * usage: hold [-d DEV] [-g GID] [-t SECONDS] [stuck | huge | many]
 *
 * Once two RTS QPs, CQs and an MR are there prints lines "qpn N", "cqe N" and "mrlen N" of
 * one each, and "ready"; then one line
 * "event NAME" per asynchronous event. Ends after SECONDS (default 10), or when
 * the device is gone: then prints "gone" and tries every verb on the remains,
 * which must fail without harm. With -t 0 it ends at once.
 *
 * huge: the MR is two pages of 2 MiB.
 *
 * many: 300 QPs more, whose end takes its time.
 *
 * stuck: prints "ready" once it is in the middle of a verb, which it leaves when the
 * standard input ends: so long nobody can take the device away.
 *
 * Exit code: 0 all objects destroyed or device gone, 1 a verb worked without it, 2 could not run.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <linux/userfaultfd.h>
#include <rdma/ib_user_ioctl_cmds.h>
#include <rdma/rdma_user_ioctl_cmds.h>
#include "rt.h"

#define PAGE	4096ul

static volatile sig_atomic_t stop;

static void on_term(int sig)
{
	stop = 1;
}

/* The device has left: none of this may crash or hang. Returns whether no verb worked. */
static bool poke(struct rt_pair *p, struct rt_buf *b)
{
	struct ibv_sge sge = {
		.addr = (uintptr_t)b->p, .length = 8, .lkey = b->mr->lkey,
	};
	struct ibv_send_wr wr = rt_wr(1, IBV_WR_SEND, IBV_SEND_SIGNALED, &sge, 1);
	struct ibv_wc wc;
	struct ibv_pd *pd;
	int i, ret = 0;

	for (i = 0; i < 100; i++)
		ret = rt_post(&p->a, &wr);
	printf("post_send: %s\n", ret ? strerror(ret) : "ok");
	ibv_poll_cq(p->a.scq, 1, &wc);
	ret = ibv_req_notify_cq(p->a.scq, 0);
	printf("req_notify_cq: %s\n", ret ? strerror(ret) : "ok");
	printf("state: %d\n", rt_state(&p->a));
	pd = ibv_alloc_pd(p->a.dev->ctx);
	printf("alloc_pd: %s\n", pd ? "ok" : strerror(errno));
	return !pd;
}

/* Asks the driver for its handles. */
static void *ask(void *hdr)
{
	ioctl(rt_dev_a()->ctx->cmd_fd, RDMA_VERBS_IOCTL, hdr);
	return NULL;
}

/*
 * A verb whose attributes are in a page that does not come. (To register such a page would do as
 * well, but 6.1 does not wait for one that it pins.)
 */
static int stuck(void)
{
	struct uffdio_api api = { .api = UFFD_API };
	struct uffdio_register range = {
		.range.len = PAGE, .mode = UFFDIO_REGISTER_MODE_MISSING,
	};
	int fd = syscall(__NR_userfaultfd, O_CLOEXEC);
	char *pages = mmap(NULL, 2 * PAGE, PROT_READ | PROT_WRITE,
			   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct ib_uverbs_ioctl_hdr *hdr;
	struct uffd_msg msg;
	pthread_t thread;
	char c;

	range.range.start = (uintptr_t)pages + PAGE;
	if (fd < 0 || pages == MAP_FAILED || ioctl(fd, UFFDIO_API, &api) ||
	    ioctl(fd, UFFDIO_REGISTER, &range))
		rt_die("userfaultfd: %s", strerror(errno));
	rt_dev_a();
	hdr = (void *)(pages + PAGE - sizeof(*hdr));
	*hdr = (struct ib_uverbs_ioctl_hdr) {
		.length = sizeof(*hdr) + sizeof(*hdr->attrs), .num_attrs = 1,
		.object_id = UVERBS_OBJECT_DEVICE, .method_id = UVERBS_METHOD_INFO_HANDLES,
		.driver_id = RDMA_DRIVER_RXE,
	};
	if (pthread_create(&thread, NULL, ask, hdr) ||
	    read(fd, &msg, sizeof(msg)) != sizeof(msg))
		rt_die("no fault: %s", strerror(errno));
	printf("ready\n");
	while (read(STDIN_FILENO, &c, 1) > 0)
		;
	close(fd);
	pthread_join(thread, NULL);
	return 0;
}

static struct rt_buf huge_buf(void)
{
	struct rt_buf b = { .len = 4 << 20 };

	b.p = mmap(NULL, b.len, PROT_READ | PROT_WRITE,
		   MAP_PRIVATE | MAP_ANONYMOUS | MAP_HUGETLB, -1, 0);
	if (b.p == MAP_FAILED)
		rt_die("huge pages: %s", strerror(errno));
	b.mr = ibv_reg_mr(rt_dev_a()->pd, b.p, b.len, RT_ACCESS_ALL);
	if (!b.mr)
		rt_die("reg_mr: %s", strerror(errno));
	return b;
}

/* They stay as they are, and go with the process or the device. */
static void make_many(struct rt_qp *qp, unsigned int n)
{
	while (n--)
		if (rt_qp_create(qp++, rt_dev_a(), &rt_defaults))
			rt_die("create QP: %s", strerror(errno));
}

int main(int argc, char **argv)
{
	static struct rt_qp many[300];
	struct sigaction sa = { .sa_handler = on_term };
	struct ibv_async_event ev;
	bool gone = false;
	struct rt_buf buf;
	struct rt_pair p;
	struct pollfd pfd;
	uint64_t end;

	rt_parse(argc, argv);
	setlinebuf(stdout);
	if (argc > rt_args.first && !strcmp(argv[rt_args.first], "stuck"))
		return stuck();
	sigaction(SIGTERM, &sa, NULL);
	rt_pair_create(&p, rt_dev_a(), rt_dev_b(), &rt_defaults);
	if (argc > rt_args.first && !strcmp(argv[rt_args.first], "many"))
		make_many(many, 300);
	if (argc > rt_args.first && !strcmp(argv[rt_args.first], "huge"))
		buf = huge_buf();
	else
		buf = rt_buf(rt_dev_a(), 1 << 20, RT_ACCESS_ALL);
	printf("qpn %u\ncqe %d\nmrlen %zu\nready\n", p.a.qp->qp_num, p.a.scq->cqe, buf.len);
	end = rt_now_ms() + 1000ull * rt_args.seconds;
	pfd.fd = rt_dev_a()->ctx->async_fd;
	pfd.events = POLLIN;
	while (!stop && !gone && rt_now_ms() < end) {
		if (poll(&pfd, 1, 100) <= 0)
			continue;
		if (ibv_get_async_event(rt_dev_a()->ctx, &ev)) {
			gone = errno != EAGAIN;
			continue;
		}
		printf("event %s\n", ibv_event_type_str(ev.event_type));
		gone = ev.event_type == IBV_EVENT_DEVICE_FATAL;
		ibv_ack_async_event(&ev);
	}
	if (gone) {
		printf("gone\n");
		return poke(&p, &buf) ? 0 : 1;
	}
	rt_buf_free(&buf);
	rt_pair_destroy(&p);
	return 0;
}
