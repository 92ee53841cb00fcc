// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * rc_queues - queues that wrap, fill up, overrun, grow, shrink and notify.
 *
 * usage: rc_queues [-d DEV] [-D DEV2] [-g GID] [-G GID2]
 *
 * Output: TAP. Exit code: 0 all ok, 1 a check failed, 2 could not run.
 */
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <time.h>
#include <rdma/ib_user_verbs.h>
#include "rt.h"

#define BUF_LEN		(1 << 20)

static struct rt_buf abuf, bbuf;

static uint64_t now_us(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000000ull + t.tv_nsec / 1000;
}

static int post_send(struct rt_qp *q, uint64_t id, size_t len,
		     unsigned int flags)
{
	struct ibv_sge sge = {
		.addr = (uintptr_t)abuf.p,
		.length = len,
		.lkey = abuf.mr->lkey,
	};
	struct ibv_send_wr wr = rt_wr(id, IBV_WR_SEND, flags, &sge, 1);

	return rt_post(q, &wr);
}

static int post_read(struct rt_qp *q, uint64_t id, size_t off, size_t len)
{
	struct ibv_sge sge = {
		.addr = (uintptr_t)abuf.p + off,
		.length = len,
		.lkey = abuf.mr->lkey,
	};
	struct ibv_send_wr wr = rt_wr(id, IBV_WR_RDMA_READ, IBV_SEND_SIGNALED,
				      &sge, 1);

	wr.wr.rdma.remote_addr = (uintptr_t)bbuf.p + off;
	wr.wr.rdma.rkey = bbuf.mr->rkey;
	return rt_post(q, &wr);
}

/* Queues kept full, thousands of messages, each completion in its turn. */
static void test_wrap(uint32_t depth, int total)
{
	struct rt_opt opt = rt_defaults;
	int posted = 0, recvs = 0, sent = 0, got = 0, n, i;
	struct ibv_wc wc[8];
	struct rt_pair p;
	uint64_t last = rt_now_ms();
	bool ok = true;

	opt.cap.max_send_wr = depth;
	opt.cap.max_recv_wr = depth;
	rt_pair_create(&p, rt_dev_a(), rt_dev_b(), &opt);
	while (ok && got < total) {
		while (recvs < total && recvs - got < depth &&
		       !rt_post_recv(&p.b, recvs, &bbuf, (recvs % 64) * 512, 512))
			recvs++;
		while (posted < total && posted - sent < depth &&
		       !post_send(&p.a, posted, posted % 300, IBV_SEND_SIGNALED))
			posted++;
		n = ibv_poll_cq(p.a.scq, 8, wc);
		for (i = 0; ok && i < n; i++, sent++)
			ok = RT_EQ(wc[i].status, IBV_WC_SUCCESS) &&
			     RT_EQ(wc[i].wr_id, sent);
		if (n > 0)
			last = rt_now_ms();
		n = ibv_poll_cq(p.b.rcq, 8, wc);
		for (i = 0; ok && i < n; i++, got++)
			ok = RT_EQ(wc[i].status, IBV_WC_SUCCESS) &&
			     RT_EQ(wc[i].wr_id, got) &&
			     RT_EQ(wc[i].byte_len, got % 300);
		if (n > 0)
			last = rt_now_ms();
		else
			sched_yield();
		ok = ok && RT_CHECK(rt_now_ms() - last < rt_timeout_ms);
	}
	while (ok && sent < total)
		ok = rt_expect(p.a.scq, sent++, IBV_WC_SUCCESS, NULL);
	rt_ok(ok && RT_EQ(ibv_poll_cq(p.a.scq, 1, wc), 0) &&
	      RT_EQ(ibv_poll_cq(p.b.rcq, 1, wc), 0),
	      "%d messages through queues of %u, in order, exactly once",
	      total, depth);
	rt_pair_destroy(&p);
}

static void test_full(void)
{
	struct rt_opt opt = rt_defaults;
	int sends = 0, recvs = 0, ret, i;
	struct rt_pair p;
	bool ok = true;

	opt.cap.max_send_wr = 10;
	opt.cap.max_recv_wr = 10;
	rt_pair_create(&p, rt_dev_a(), rt_dev_b(), &opt);
	/* No receive at b: nothing completes, so the queue fills. */
	while (!(ret = post_send(&p.a, sends, 8, IBV_SEND_SIGNALED)) &&
	       sends < 100000)
		sends++;
	rt_ok(RT_EQ(ret, ENOMEM) && RT_CHECK(sends >= 10),
	      "a full send queue gives ENOMEM (after %d)", sends);
	while (!(ret = rt_post_recv(&p.b, recvs, &bbuf, 0, 64)) &&
	       recvs < 100000)
		recvs++;
	rt_ok(RT_EQ(ret, ENOMEM) && RT_CHECK(recvs >= 10),
	      "a full receive queue gives ENOMEM (after %d)", recvs);
	for (i = 0; ok && i < sends; i++) {
		ok = rt_expect(p.a.scq, i, IBV_WC_SUCCESS, NULL) &&
		     rt_expect(p.b.rcq, i, IBV_WC_SUCCESS, NULL);
		rt_post_recv(&p.b, recvs + i, &bbuf, 0, 64);
	}
	rt_ok(ok, "all that were posted arrive, once each");
	rt_ok(RT_EQ(post_send(&p.a, 5, 8, IBV_SEND_SIGNALED), 0) &&
	      rt_expect(p.a.scq, 5, IBV_WC_SUCCESS, NULL),
	      "and there is room again");
	rt_pair_destroy(&p);
}

/*
 * Asynchronous events of a kind, of those that come until none has come for a while. The
 * first @want may take their time.
 */
static void count_events(struct rt_dev *dev, int n[], int kinds, int want)
{
	struct pollfd pfd = { .fd = dev->ctx->async_fd, .events = POLLIN };
	struct ibv_async_event ev;

	while (poll(&pfd, 1, want > 0 ? rt_timeout_ms : 700) > 0 &&
	       !ibv_get_async_event(dev->ctx, &ev)) {
		if (ev.event_type < kinds)
			n[ev.event_type]++;
		ibv_ack_async_event(&ev);
		want--;
	}
}

static void test_overrun(void)
{
	struct rt_dev *dev = rt_dev_a();
	struct rt_opt opt = rt_defaults;
	struct ibv_cq *cq = ibv_create_cq(dev->ctx, 3, NULL, NULL, 0);
	int i, cqe = cq->cqe, events[8] = { 0 };
	struct rt_pair p;

	rt_drain_events(dev);
	opt.cap.max_send_wr = cqe + 20;
	opt.cap.max_recv_wr = cqe + 20;
	if (rt_qp_create(&p.b, rt_dev_b(), &opt))
		rt_die("create QP");
	opt.scq = cq;
	if (rt_qp_create(&p.a, dev, &opt))
		rt_die("create QP");
	rt_connect(&p.a, &p.b);
	for (i = 0; i < cqe + 10; i++) {
		rt_post_recv(&p.b, i, &bbuf, 0, 64);
		post_send(&p.a, i, 8, IBV_SEND_SIGNALED);
	}
	rt_ok(rt_wait_state(&p.a, IBV_QPS_ERR), "overrun of a CQ of %d puts its QP into ERR",
	      cqe);
	/* doorbells in ERR flush into the full CQ */
	for (i = 0; i < 5; i++)
		post_send(&p.a, i, 8, IBV_SEND_SIGNALED);
	count_events(dev, events, ARRAY_SIZE(events), 2);
	rt_ok(RT_EQ(events[IBV_EVENT_CQ_ERR], 1), "and raises CQ_ERR once");
	rt_ok(RT_EQ(events[IBV_EVENT_QP_FATAL], 1), "and QP_FATAL once");
	rt_pair_destroy(&p);
	rt_drain_events(dev);
	rt_ok(RT_EQ(ibv_destroy_cq(cq), 0), "and the CQ can be destroyed");
}

/* What finds no room in the receiver's CQ is not acknowledged. */
static void test_overrun_receiver(void)
{
	struct ibv_cq *cq = ibv_create_cq(rt_dev_b()->ctx, 3, NULL, NULL, 0);
	int i, cqe = cq->cqe, sent = 0, received = 0;
	struct rt_opt opt = rt_defaults;
	struct rt_pair p;
	struct ibv_wc wc;

	opt.timeout = 8;
	opt.retry_cnt = 1;
	opt.cap.max_send_wr = cqe + 20;
	opt.cap.max_recv_wr = cqe + 20;
	if (rt_qp_create(&p.a, rt_dev_a(), &opt))
		rt_die("create QP");
	opt.rcq = cq;
	if (rt_qp_create(&p.b, rt_dev_b(), &opt))
		rt_die("create QP");
	rt_connect(&p.a, &p.b);
	for (i = 0; i < cqe + 10; i++)
		rt_post_recv(&p.b, i, &bbuf, 0, 64);
	for (i = 0; i < cqe + 10; i++)
		post_send(&p.a, i, 8, IBV_SEND_SIGNALED);
	rt_ok(rt_wait_state(&p.b, IBV_QPS_ERR) && rt_wait_state(&p.a, IBV_QPS_ERR),
	      "overrun of the receiver's CQ ends both QPs");
	while (ibv_poll_cq(p.a.scq, 1, &wc) > 0)
		sent += wc.status == IBV_WC_SUCCESS;
	while (ibv_poll_cq(cq, 1, &wc) > 0)
		received += wc.status == IBV_WC_SUCCESS;
	rt_ok(RT_EQ(received, cqe) && RT_CHECK(sent <= received),
	      "no more were sent with success than have arrived");
	rt_pair_destroy(&p);
	rt_drain_events(rt_dev_b());
	rt_ok(RT_EQ(ibv_destroy_cq(cq), 0), "and that CQ can be destroyed");
}

/* All that was posted has its completion in the CQ when the queue is drained. */
static bool drained(struct rt_qp *q)
{
	struct ibv_qp_attr sqd = { .qp_state = IBV_QPS_SQD, .en_sqd_async_notify = 1 };

	return RT_EQ(ibv_modify_qp(q->qp, &sqd, IBV_QP_STATE | IBV_QP_EN_SQD_ASYNC_NOTIFY), 0) &&
	       RT_CHECK(rt_expect_event(q->dev, IBV_EVENT_SQ_DRAINED, q->qp, rt_timeout_ms)) &&
	       RT_EQ(rt_to_state(q, IBV_QPS_RTS), 0);
}

static struct ibv_cq *lossy_cq(struct ibv_context *ctx, int cqe)
{
	struct ibv_cq_init_attr_ex attr = {
		.cqe = cqe,
		.comp_mask = IBV_CQ_INIT_ATTR_MASK_FLAGS,
		.flags = IBV_CREATE_CQ_ATTR_IGNORE_OVERRUN,
	};
	struct ibv_cq_ex *cq = ibv_create_cq_ex(ctx, &attr);

	return cq ? ibv_cq_ex_to_cq(cq) : NULL;
}

static int polled(struct ibv_cq *cq)
{
	struct ibv_wc wc;
	int n = 0;

	while (ibv_poll_cq(cq, 1, &wc) > 0)
		n += wc.status == IBV_WC_SUCCESS;
	return n;
}

#define LOSSY_SENDS	100

/* 100 completions for a CQ of a few, and all of the messages; no event. */
static bool overrun_ignored(struct rt_pair *p, struct ibv_cq *cq)
{
	int i, events[8] = { 0 };

	for (i = 0; i < LOSSY_SENDS; i++)
		if (!RT_EQ(rt_post_recv(&p->b, i, &bbuf, 0, 64), 0) ||
		    !RT_EQ(post_send(&p->a, i, 8, IBV_SEND_SIGNALED), 0))
			return false;
	for (i = 0; i < LOSSY_SENDS; i++)
		if (!rt_expect(p->b.rcq, i, IBV_WC_SUCCESS, NULL))
			return false;
	count_events(p->a.dev, events, ARRAY_SIZE(events), 0);
	return RT_EQ(events[IBV_EVENT_CQ_ERR], 0) && RT_EQ(events[IBV_EVENT_QP_FATAL], 0) &&
	       RT_EQ(rt_state(&p->a), IBV_QPS_RTS) && drained(&p->a) &&
	       RT_EQ(polled(cq), cq->cqe);
}

static void test_overrun_ignored(void)
{
	struct rt_dev *dev = rt_dev_a();
	struct ibv_cq *cq = lossy_cq(dev->ctx, 4);
	struct rt_opt opt = rt_defaults;
	struct rt_pair p;

	if (!rt_ok(RT_CHECK(cq), "a CQ that ignores overruns"))
		return;
	rt_drain_events(dev);
	opt.cap.max_send_wr = LOSSY_SENDS;
	opt.cap.max_recv_wr = LOSSY_SENDS;
	if (rt_qp_create(&p.b, rt_dev_b(), &opt))
		rt_die("create QP");
	opt.scq = cq;
	if (rt_qp_create(&p.a, dev, &opt))
		rt_die("create QP");
	rt_connect(&p.a, &p.b);
	rt_ok(overrun_ignored(&p, cq), "keeps what came first, its QP goes on");
	rt_ok(overrun_ignored(&p, cq), "and has room again once it was polled");
	rt_ok(RT_EQ(ibv_resize_cq(cq, 20), 0) && overrun_ignored(&p, cq),
	      "and ignores them when it has been resized (%d)", cq->cqe);
	rt_pair_destroy(&p);
	ibv_destroy_cq(cq);
}

static void test_resize(void)
{
	struct rt_dev *dev = rt_dev_a();
	struct rt_opt opt = rt_defaults;
	struct rt_pair p;
	bool ok = true;
	int i, ret;

	opt.scq = ibv_create_cq(dev->ctx, 100, NULL, NULL, 0);
	if (rt_qp_create(&p.a, dev, &opt))
		rt_die("create QP");
	opt.scq = NULL;
	if (rt_qp_create(&p.b, rt_dev_b(), &opt))
		rt_die("create QP");
	rt_connect(&p.a, &p.b);
	for (i = 0; i < 40; i++)
		rt_post_recv(&p.b, i, &bbuf, 0, 64);
	for (i = 0; ok && i < 40; i++)
		ok = RT_EQ(post_send(&p.a, i, 8, IBV_SEND_SIGNALED), 0);
	for (i = 0; ok && i < 40; i++)
		ok = rt_expect(p.b.rcq, i, IBV_WC_SUCCESS, NULL);
	ok = ok && drained(&p.a);
	for (i = 0; ok && i < 5; i++)
		ok = rt_expect(p.a.scq, i, IBV_WC_SUCCESS, NULL);
	rt_ok(ok && RT_EQ(ibv_resize_cq(p.a.scq, 500), 0) &&
	      RT_CHECK(p.a.scq->cqe >= 500), "CQ grows with 35 unpolled");
	ret = ibv_resize_cq(p.a.scq, 20);
	rt_ok(RT_EQ(ret, EINVAL), "shrinking below them is EINVAL");
	rt_ok(RT_EQ(ibv_resize_cq(p.a.scq, 36), 0), "shrinking to 36 is not");
	for (i = 5; ok && i < 40; i++)
		ok = rt_expect(p.a.scq, i, IBV_WC_SUCCESS, NULL);
	rt_ok(ok, "all 35 are there, in order");
	rt_ok(RT_EQ(ibv_resize_cq(p.a.scq, 0), EINVAL) &&
	      RT_EQ(ibv_resize_cq(p.a.scq, 0x7fffffff), EINVAL),
	      "sizes 0 and 2^31 - 1 are EINVAL");
	for (i = 0; ok && i < 200; i++) {
		if (i % 10 == 0)
			ok = RT_EQ(ibv_resize_cq(p.a.scq, 30 + i * 3), 0);
		ok = ok && RT_EQ(rt_post_recv(&p.b, i, &bbuf, 0, 64), 0) &&
		     RT_EQ(post_send(&p.a, i, 8, IBV_SEND_SIGNALED), 0);
		if (i > 7)
			ok = ok && rt_expect(p.a.scq, i - 8, IBV_WC_SUCCESS,
					     NULL);
		ok = ok && rt_expect(p.b.rcq, i, IBV_WC_SUCCESS, NULL);
	}
	rt_ok(ok, "20 resizes under traffic lose nothing");
	opt.scq = p.a.scq;
	rt_pair_destroy(&p);
	ibv_destroy_cq(opt.scq);
}

static void test_big_cq(void)
{
	struct rt_dev *dev = rt_dev_a();
	struct ibv_cq *cq;

	rt_ok(RT_CHECK(dev->attr.max_cqe >= 1000000), "max_cqe is %d",
	      dev->attr.max_cqe);
	cq = ibv_create_cq(dev->ctx, 1000000, NULL, NULL, 0);
	rt_ok(cq && RT_CHECK(cq->cqe >= 1000000), "a CQ of a million entries");
	if (cq)
		ibv_destroy_cq(cq);
	cq = ibv_create_cq(dev->ctx, dev->attr.max_cqe + 1, NULL, NULL, 0);
	rt_ok(!cq && RT_EQ(errno, EINVAL), "one of max_cqe + 1 is EINVAL");
	if (cq)
		ibv_destroy_cq(cq);
}

static bool event_within(struct ibv_comp_channel *ch, struct ibv_cq *cq, int ms)
{
	struct pollfd pfd = { .fd = ch->fd, .events = POLLIN };
	struct ibv_cq *ev_cq;
	void *ctx;

	if (poll(&pfd, 1, ms) <= 0 || ibv_get_cq_event(ch, &ev_cq, &ctx))
		return false;
	ibv_ack_cq_events(ev_cq, 1);
	return RT_CHECK(ev_cq == cq);
}

static void drain(struct ibv_cq *cq)
{
	struct ibv_wc wc;

	while (ibv_poll_cq(cq, 1, &wc) > 0)
		;
}

static void test_notify(void)
{
	struct ibv_comp_channel *ch = ibv_create_comp_channel(rt_dev_b()->ctx);
	struct rt_opt opt = rt_defaults;
	struct rt_pair p;
	int i, ms = 5000;

	if (rt_qp_create(&p.a, rt_dev_a(), &opt))
		rt_die("create QP");
	opt.channel = ch;
	if (rt_qp_create(&p.b, rt_dev_b(), &opt))
		rt_die("create QP");
	rt_connect(&p.a, &p.b);
	for (i = 0; i < 12; i++)
		rt_post_recv(&p.b, i, &bbuf, 0, 64);

	post_send(&p.a, 0, 8, 0);
	rt_ok(RT_CHECK(!event_within(ch, p.b.rcq, 200)), "not armed: no event");
	ibv_req_notify_cq(p.b.rcq, 0);
	rt_ok(event_within(ch, p.b.rcq, ms), "armed, and something is there: an event");
	ibv_req_notify_cq(p.b.rcq, 0);
	rt_ok(RT_CHECK(!event_within(ch, p.b.rcq, 200)), "armed again: none of the same");
	post_send(&p.a, 0, 8, 0);
	rt_ok(event_within(ch, p.b.rcq, ms), "armed: an event");
	post_send(&p.a, 0, 8, 0);
	rt_ok(RT_CHECK(!event_within(ch, p.b.rcq, 200)), "only one");

	drain(p.b.rcq);
	ibv_req_notify_cq(p.b.rcq, 1);
	post_send(&p.a, 0, 8, 0);
	rt_ok(RT_CHECK(!event_within(ch, p.b.rcq, 200)),
	      "solicited only: an ordinary message raises none");
	post_send(&p.a, 0, 8, IBV_SEND_SOLICITED);
	rt_ok(event_within(ch, p.b.rcq, ms), "a solicited one does");

	drain(p.b.rcq);
	ibv_req_notify_cq(p.b.rcq, 0);
	ibv_req_notify_cq(p.b.rcq, 1);
	post_send(&p.a, 0, 8, 0);
	rt_ok(event_within(ch, p.b.rcq, ms),
	      "arming for solicited does not weaken arming for any");

	/* A multi-packet message is solicited by its last packet. */
	drain(p.b.rcq);
	rt_post_recv(&p.b, 50, &bbuf, 0, 20000);
	for (i = 0; i < 6; i++)		/* use up the short receives */
		post_send(&p.a, 0, 8, 0);
	for (i = 0; i < 6; i++)
		rt_poll(p.b.rcq, &(struct ibv_wc){}, 0);
	ibv_req_notify_cq(p.b.rcq, 1);
	post_send(&p.a, 0, 20000, IBV_SEND_SOLICITED | IBV_SEND_SIGNALED);
	rt_ok(event_within(ch, p.b.rcq, ms), "a solicited message of 20000 bytes");

	drain(p.b.rcq);
	ibv_req_notify_cq(p.b.rcq, 1);
	rt_post_recv(&p.b, 60, &bbuf, 0, 8);
	rt_to_state(&p.b, IBV_QPS_ERR);
	rt_ok(event_within(ch, p.b.rcq, ms), "an error counts as solicited");
	rt_pair_destroy(&p);
	ibv_destroy_comp_channel(ch);
}

/* ibv_modify_cq(), which the stock provider lacks. Returns 0 or errno. */
static int moderate(struct ibv_cq *cq, uint16_t count, uint16_t us)
{
	struct {
		struct ib_uverbs_cmd_hdr hdr;
		struct ib_uverbs_ex_cmd_hdr ex;
		struct ib_uverbs_ex_modify_cq cmd;
	} req = {
		.hdr = {
			.command = IB_USER_VERBS_CMD_FLAG_EXTENDED |
				   IB_USER_VERBS_EX_CMD_MODIFY_CQ,
			.in_words = sizeof(req.cmd) / 8,
		},
		.cmd = {
			.cq_handle = cq->handle,
			.attr_mask = 1,		/* moderation */
			.attr = { .cq_count = count, .cq_period = us },
		},
	};

	return write(cq->context->cmd_fd, &req, sizeof(req)) == sizeof(req) ? 0 : errno;
}

/* @n messages for b have arrived; where completions do not wait for it is no matter. */
static bool message(struct rt_pair *p, int n)
{
	bool ok = true;
	int i;

	for (i = 0; ok && i < n; i++)
		ok = RT_EQ(rt_post_recv(&p->b, 1, &bbuf, 0, 64), 0) &&
		     RT_EQ(post_send(&p->a, 1, 8, IBV_SEND_SIGNALED), 0) &&
		     rt_expect(p->b.rcq, 1, IBV_WC_SUCCESS, NULL) &&
		     rt_expect(p->a.scq, 1, IBV_WC_SUCCESS, NULL);
	return ok;
}

/*
 * Nine completions raise no event, the tenth does. A machine that takes longer for them than
 * the longest period there is has said nothing, so it has another try.
 */
static bool tenth(struct rt_pair *p, struct ibv_comp_channel *ch)
{
	const uint16_t us = UINT16_MAX;
	bool ok, early, event;
	uint64_t start;
	int i;

	for (i = 0; i < 100; i++) {
		start = now_us();
		ok = RT_EQ(ibv_req_notify_cq(p->b.rcq, 0), 0) && message(p, 9);
		early = event_within(ch, p->b.rcq, 0);
		ok = ok && message(p, 1);
		event = !early && event_within(ch, p->b.rcq, 0);
		if (!ok || now_us() - start < us)
			return ok && RT_CHECK(!early) && RT_CHECK(event);
		if (!early && !event)
			event_within(ch, p->b.rcq, 5000);
	}
	return RT_CHECK(i < 100);
}

/* One alone waits for the period, and not for ever. */
static bool period(struct rt_pair *p, struct ibv_comp_channel *ch, uint16_t us)
{
	uint64_t start = now_us();

	return RT_EQ(ibv_req_notify_cq(p->b.rcq, 0), 0) && message(p, 1) &&
	       RT_CHECK(event_within(ch, p->b.rcq, 5000)) && RT_CHECK(now_us() - start >= us);
}

static void test_moderation(void)
{
	struct ibv_comp_channel *ch = ibv_create_comp_channel(rt_dev_b()->ctx);
	struct rt_opt opt = rt_defaults;
	struct rt_pair p;
	int i;

	if (rt_qp_create(&p.a, rt_dev_a(), &opt))
		rt_die("create QP");
	opt.channel = ch;
	if (rt_qp_create(&p.b, rt_dev_b(), &opt))
		rt_die("create QP");
	rt_connect(&p.a, &p.b);
	rt_ok(RT_EQ(moderate(p.b.rcq, 10, UINT16_MAX), 0) && tenth(&p, ch),
	      "moderated: ten completions, one event");
	rt_ok(period(&p, ch, UINT16_MAX) && RT_EQ(moderate(p.b.rcq, 10, 30000), 0) &&
	      period(&p, ch, 30000), "one alone raises it when the period is over");
	rt_ok(RT_EQ(moderate(p.b.rcq, 1, 0), 0) && RT_EQ(ibv_req_notify_cq(p.b.rcq, 0), 0) &&
	      message(&p, 1) && RT_CHECK(event_within(ch, p.b.rcq, 0)),
	      "no moderation any more: at once");
	/* its time comes when nothing is left of the CQ */
	rt_ok(RT_EQ(moderate(p.b.rcq, 10, 30000), 0) &&
	      RT_EQ(ibv_req_notify_cq(p.b.rcq, 0), 0) && message(&p, 1),
	      "destroyed while one waits");
	rt_pair_destroy(&p);
	for (i = 0; i < 10; i++)
		ibv_destroy_cq(ibv_create_cq(rt_dev_b()->ctx, 10, NULL, NULL, 0));
	usleep(100000);
	ibv_destroy_comp_channel(ch);
}

/* The far end of the event ping-pong. */
struct pong {
	struct rt_qp *q;
	struct ibv_comp_channel *ch;
	int rounds;
	bool ok;
};

static bool wait_recv(struct rt_qp *q, struct ibv_comp_channel *ch)
{
	uint64_t end = rt_now_ms() + rt_timeout_ms;
	struct ibv_wc wc;
	int n;

	for (;;) {
		n = ibv_poll_cq(q->rcq, 1, &wc);
		if (n)
			return RT_EQ(n, 1) && RT_EQ(wc.status, IBV_WC_SUCCESS);
		if (ibv_req_notify_cq(q->rcq, 0))
			return false;
		n = ibv_poll_cq(q->rcq, 1, &wc);
		if (n)
			return RT_EQ(n, 1) && RT_EQ(wc.status, IBV_WC_SUCCESS);
		event_within(ch, q->rcq, 1000);
		if (rt_now_ms() > end)
			return RT_CHECK(!"lost wake-up");
	}
}

static void *pong_thread(void *arg)
{
	struct pong *t = arg;
	int i;

	t->ok = true;
	for (i = 0; t->ok && i < t->rounds; i++)
		t->ok = wait_recv(t->q, t->ch) &&
			RT_EQ(rt_post_recv(t->q, i, &bbuf, 0, 64), 0) &&
			RT_EQ(post_send(t->q, i, 8, i % 16 ? 0 :
					IBV_SEND_SIGNALED), 0);
	return NULL;
}

static void test_events(int rounds)
{
	struct rt_dev *dev = rt_dev_a();
	struct ibv_comp_channel *ca = ibv_create_comp_channel(dev->ctx);
	struct ibv_comp_channel *cb = ibv_create_comp_channel(dev->ctx);
	struct rt_opt opt = rt_defaults;
	struct pong t = { .ch = cb, .rounds = rounds };
	struct rt_pair p;
	pthread_t thread;
	bool ok = true;
	uint64_t ms;
	int i;

	opt.channel = ca;
	opt.cqe = rounds;
	if (rt_qp_create(&p.a, dev, &opt))
		rt_die("create QP");
	opt.channel = cb;
	if (rt_qp_create(&p.b, dev, &opt))
		rt_die("create QP");
	rt_connect(&p.a, &p.b);
	for (i = 0; i < 4; i++) {
		rt_post_recv(&p.a, i, &abuf, 4096, 64);
		rt_post_recv(&p.b, i, &abuf, 8192, 64);
	}
	t.q = &p.b;
	ms = rt_now_ms();
	pthread_create(&thread, NULL, pong_thread, &t);
	for (i = 0; ok && i < rounds; i++)
		ok = RT_EQ(post_send(&p.a, i, 8, i % 16 ? 0 :
				     IBV_SEND_SIGNALED), 0) &&
		     wait_recv(&p.a, ca) &&
		     RT_EQ(rt_post_recv(&p.a, i, &abuf, 4096, 64), 0);
	pthread_join(thread, NULL);
	ms = rt_now_ms() - ms;
	rt_ok(ok && t.ok, "%d rounds of ping-pong by events (%llu ms)", rounds,
	      (unsigned long long)ms);
	rt_pair_destroy(&p);
	ibv_destroy_comp_channel(ca);
	ibv_destroy_comp_channel(cb);
}

static void test_many_qps(void)
{
	int i, n = rt_slow() ? 50 : 250, round;
	struct rt_pair *p = calloc(n, sizeof(*p));
	struct rt_opt opt = rt_defaults;
	struct ibv_wc wc;
	bool ok = true;

	opt.cap = (struct ibv_qp_cap) {
		.max_send_wr = 4, .max_recv_wr = 4,
		.max_send_sge = 1, .max_recv_sge = 1,
	};
	opt.scq = ibv_create_cq(rt_dev_a()->ctx, 4 * n, NULL, NULL, 0);
	opt.rcq = ibv_create_cq(rt_dev_b()->ctx, 4 * n, NULL, NULL, 0);
	for (i = 0; i < n; i++) {
		struct rt_opt o = opt;

		/* CQs belong to a device. */
		if (rt_dev_a() != rt_dev_b())
			o.rcq = opt.scq;
		if (rt_qp_create(&p[i].a, rt_dev_a(), &o))
			rt_die("create QP %d", 2 * i);
		o = opt;
		if (rt_dev_a() != rt_dev_b())
			o.scq = opt.rcq;
		if (rt_qp_create(&p[i].b, rt_dev_b(), &o))
			rt_die("create QP %d", 2 * i + 1);
		rt_connect(&p[i].a, &p[i].b);
	}
	for (round = 0; ok && round < 2; round++) {
		for (i = 0; ok && i < n; i++)
			ok = RT_EQ(rt_post_recv(&p[i].b, i, &bbuf, 64 * i, 64), 0);
		for (i = 0; ok && i < n; i++)
			ok = RT_EQ(post_send(&p[i].a, i, 60, IBV_SEND_SIGNALED),
				   0);
		for (i = 0; ok && i < n; i++)
			ok = RT_CHECK(rt_poll(opt.scq, &wc, 0)) &&
			     RT_EQ(wc.status, IBV_WC_SUCCESS) &&
			     RT_EQ(wc.qp_num, p[wc.wr_id].a.qp->qp_num) &&
			     RT_CHECK(rt_poll(opt.rcq, &wc, 0)) &&
			     RT_EQ(wc.status, IBV_WC_SUCCESS) &&
			     RT_EQ(wc.qp_num, p[wc.wr_id].b.qp->qp_num);
	}
	rt_ok(ok, "%d QPs with traffic on each", 2 * n);
	for (i = 0; i < n; i++)
		rt_pair_destroy(&p[i]);
	ibv_destroy_cq(opt.scq);
	ibv_destroy_cq(opt.rcq);
	free(p);
}

/* More READs outstanding than either side has resources for. */
#define LIST		20000
static unsigned int list_len;

/* One doorbell for more than is copied, sent or flushed at a time. */
static bool post_list(struct rt_qp *q)
{
	static struct ibv_send_wr wr[LIST];
	struct ibv_send_wr *bad;
	unsigned int i;

	for (i = 0; i < list_len; i++) {
		wr[i] = rt_wr(i, IBV_WR_RDMA_WRITE, IBV_SEND_SIGNALED, NULL, 0);
		wr[i].wr.rdma.remote_addr = (uintptr_t)bbuf.p;
		wr[i].wr.rdma.rkey = bbuf.mr->rkey;
		wr[i].next = i + 1 < list_len ? &wr[i + 1] : NULL;
	}
	return RT_EQ(ibv_post_send(q->qp, wr, &bad), 0);
}

static bool list_done(struct rt_qp *q, enum ibv_wc_status status)
{
	unsigned int i;

	for (i = 0; i < list_len; i++)
		if (!rt_expect(q->scq, i, status, NULL))
			return false;
	return true;
}

static void test_list(void)
{
	struct rt_opt opt = rt_defaults;
	struct rt_pair p;
	struct ibv_wc wc;
	unsigned int i;
	bool ok;

	list_len = rt_slow() ? LIST / 5 : LIST;
	opt.cap.max_send_wr = list_len;
	opt.cap.max_recv_wr = list_len;
	opt.cap.max_send_sge = 1;
	opt.cap.max_recv_sge = 1;
	opt.cqe = list_len;
	rt_pair_create(&p, rt_dev_a(), rt_dev_b(), &opt);
	ok = post_list(&p.a) && list_done(&p.a, IBV_WC_SUCCESS);
	rt_ok(ok, "%u requests behind one doorbell", list_len);
	for (ok = true, i = 0; ok && i < list_len; i++)
		ok = RT_EQ(rt_post_recv(&p.a, i, &abuf, 0, 0), 0);
	/* it is over when modify returns */
	ok = ok && RT_EQ(rt_to_state(&p.a, IBV_QPS_ERR), 0);
	for (i = 0; ok && i < list_len; i++)
		ok = RT_EQ(ibv_poll_cq(p.a.rcq, 1, &wc), 1) && RT_EQ(wc.wr_id, i) &&
		     RT_EQ(wc.status, IBV_WC_WR_FLUSH_ERR);
	ok = ok && post_list(&p.a) && list_done(&p.a, IBV_WC_WR_FLUSH_ERR);
	rt_ok(ok, "as many flushed, those posted before and those after");
	rt_pair_destroy(&p);
}

/*
 * A worker carries on with the flush as soon as the first part is done: modify must not
 * take its being at work for its being done.
 */
#define FLUSH_ROUNDS	20
#define FLUSH_RECVS	4000

static void test_flushed(void)
{
	struct rt_opt opt = rt_defaults;
	struct rt_pair p;
	struct ibv_wc wc;
	unsigned int i, round;
	bool ok = true;

	opt.cap.max_recv_wr = FLUSH_RECVS;
	opt.cap.max_recv_sge = 1;
	opt.cqe = FLUSH_RECVS;
	for (round = 0; ok && round < (rt_slow() ? FLUSH_ROUNDS / 4 : FLUSH_ROUNDS); round++) {
		rt_pair_create(&p, rt_dev_a(), rt_dev_b(), &opt);
		for (i = 0; ok && i < FLUSH_RECVS; i++)
			ok = RT_EQ(rt_post_recv(&p.a, i, &abuf, 0, 0), 0);
		ok = ok && RT_EQ(rt_to_state(&p.a, IBV_QPS_ERR), 0);
		for (i = 0; ok && i < FLUSH_RECVS; i++)
			ok = RT_EQ(ibv_poll_cq(p.a.rcq, 1, &wc), 1) && RT_EQ(wc.wr_id, i);
		rt_pair_destroy(&p);
	}
	rt_ok(ok, "modify to ERR comes back when all is flushed (%u times)", round);
}

static void test_reads(int rd_atomic)
{
	struct rt_opt opt = rt_defaults;
	struct rt_pair p;
	bool ok = true;
	int i;

	opt.rd_atomic = rd_atomic;
	opt.dest_rd_atomic = rd_atomic ? rd_atomic : 1;
	opt.cap.max_send_wr = 128;
	rt_pair_create(&p, rt_dev_a(), rt_dev_b(), &opt);
	rt_fill(bbuf.p, BUF_LEN, 99, 0);
	memset(abuf.p, 0, BUF_LEN);
	for (i = 0; ok && i < 100; i++)
		ok = RT_EQ(post_read(&p.a, i, 10000 * i, 10000), 0);
	for (i = 0; ok && i < 100; i++)
		ok = rt_expect(p.a.scq, i, IBV_WC_SUCCESS, NULL);
	rt_ok(ok && rt_check(abuf.p, 1000000, 99, 0),
	      "100 READs posted at once, max_rd_atomic %d", rd_atomic);
	rt_pair_destroy(&p);
}

#define READ_TURNS	40

/* A pair of QPs, the responder in RTS or no further than RTR. */
static void pair_for_reads(struct rt_pair *p, bool rts)
{
	struct rt_qp *a = &p->a, *b = &p->b;

	if (rt_qp_create(a, rt_dev_a(), &rt_defaults) ||
	    rt_qp_create(b, rt_dev_b(), &rt_defaults))
		rt_die("create QP");
	if (rt_to_init(a) || rt_to_init(b) || rt_to_rtr(a, &b->dev->gid, b->qp->qp_num) ||
	    rt_to_rtr(b, &a->dev->gid, a->qp->qp_num) || rt_to_rts(a) || (rts && rt_to_rts(b)))
		rt_die("connect");
}

/* One long READ, whose bytes are its own. */
static bool long_read(struct rt_pair *p, uint64_t id)
{
	rt_fill(bbuf.p, BUF_LEN, id, 0);
	return RT_EQ(post_read(&p->a, id, 0, BUF_LEN), 0) &&
	       rt_expect(p->a.scq, id, IBV_WC_SUCCESS, NULL) &&
	       rt_check(abuf.p, BUF_LEN, id, 0);
}

/*
 * Long answers are sent in parts, of which none may wait until the peer asks again. It
 * may do so where a busy host makes one late, but not for each READ.
 */
static void test_reads_answered(bool rts)
{
	struct rt_pair p;
	bool ok = true;
	long again;
	int i;

	pair_for_reads(&p, rts);
	memset(abuf.p, 0, BUF_LEN);
	again = rt_counter(rt_dev_b(), "duplicate_request");
	for (i = 0; ok && i < READ_TURNS; i++)
		ok = long_read(&p, i);
	again = rt_counter(rt_dev_b(), "duplicate_request") - again;
	rt_ok(ok && RT_CHECK(again < READ_TURNS / 2),
	      "a QP in %s answers long READs, %ld of %d when asked again",
	      rts ? "RTS" : "RTR", again, READ_TURNS);
	rt_pair_destroy(&p);
}

int main(int argc, char **argv)
{
	rt_parse(argc, argv);
	abuf = rt_buf(rt_dev_a(), BUF_LEN, RT_ACCESS_ALL);
	bbuf = rt_buf(rt_dev_b(), BUF_LEN, RT_ACCESS_ALL);
	test_wrap(1, 500);
	test_wrap(7, rt_slow() ? 1000 : 3000);
	test_wrap(100, rt_slow() ? 1000 : 3000);
	test_full();
	test_overrun();
	test_overrun_receiver();
	test_overrun_ignored();
	test_resize();
	test_big_cq();
	test_notify();
	test_moderation();
	if (rt_dev_a() == rt_dev_b())
		test_events(rt_slow() ? 300 : 1000);
	test_many_qps();
	test_list();
	test_flushed();
	test_reads(0);
	test_reads(1);
	test_reads(4);
	test_reads_answered(true);
	test_reads_answered(false);
	return rt_done();
}
