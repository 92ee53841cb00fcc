// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * hold - keep a device open with a QP, CQ and MR, and tell what happens to it.
 *
 * usage: hold [-d DEV] [-g GID] [-t SECONDS]
 *
 * Prints "ready" once two RTS QPs, CQs and an MR are there, then one line
 * "event NAME" per asynchronous event. Ends after SECONDS (default 10), or when
 * the device is gone: then prints "gone" and tries every verb on the remains,
 * which must fail without harm. With -t 0 it ends at once.
 *
 * Exit code: 0 all objects destroyed or device gone, 2 could not run.
 */
#include <poll.h>
#include <signal.h>
#include "rt.h"

static volatile sig_atomic_t stop;

static void on_term(int sig)
{
	stop = 1;
}

/* The device has left: none of this may crash, hang or succeed by accident. */
static void poke(struct rt_pair *p, struct rt_buf *b)
{
	struct ibv_sge sge = {
		.addr = (uintptr_t)b->p, .length = 8, .lkey = b->mr->lkey,
	};
	struct ibv_send_wr wr = rt_wr(1, IBV_WR_SEND, IBV_SEND_SIGNALED, &sge, 1);
	struct ibv_wc wc;
	int i, ret = 0;

	for (i = 0; i < 100; i++)
		ret = rt_post(&p->a, &wr);
	printf("post_send: %s\n", ret ? strerror(ret) : "ok");
	ibv_poll_cq(p->a.scq, 1, &wc);
	ret = ibv_req_notify_cq(p->a.scq, 0);
	printf("req_notify_cq: %s\n", ret ? strerror(ret) : "ok");
	printf("state: %d\n", rt_state(&p->a));
	printf("alloc_pd: %s\n", ibv_alloc_pd(p->a.dev->ctx) ? "ok" :
	       strerror(errno));
}

int main(int argc, char **argv)
{
	struct sigaction sa = { .sa_handler = on_term };
	struct ibv_async_event ev;
	bool gone = false;
	struct rt_buf buf;
	struct rt_pair p;
	struct pollfd pfd;
	uint64_t end;

	rt_parse(argc, argv);
	sigaction(SIGTERM, &sa, NULL);
	rt_pair_create(&p, rt_dev_a(), rt_dev_b(), &rt_defaults);
	buf = rt_buf(rt_dev_a(), 1 << 20, RT_ACCESS_ALL);
	setlinebuf(stdout);
	printf("ready\n");
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
		poke(&p, &buf);
		return 0;
	}
	rt_buf_free(&buf);
	rt_pair_destroy(&p);
	return 0;
}
