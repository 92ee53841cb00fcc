// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * qp_states - the state machine of RC queue pairs, and the events that belong to it.
 *
 * usage: qp_states [-d DEV] [-D DEV2] [-g GID] [-G GID2]
 *
 * Each pair of a state and the next one is asked for, with the attributes that belong to
 * it. SQD: drained late, with and without the event. IBV_QP_CUR_STATE that is wrong.
 * COMM_EST: a packet arrives in RTR.
 *
 * Output: TAP. Exit code: 0 all ok, 1 a check failed, 2 could not run.
 */
#include <poll.h>
#include "rt.h"

static struct rt_buf abuf, bbuf;

static const char * const names[] = { "RESET", "INIT", "RTR", "RTS", "SQD", "SQE", "ERR" };

/* ---- the table ---- */

/* A QP in @state, connected to itself. */
static void bring(struct rt_qp *q, enum ibv_qp_state state)
{
	int ret;

	ret = rt_qp_create(q, rt_dev_a(), &rt_defaults);
	if (!ret && state != IBV_QPS_RESET)
		ret = rt_to_init(q);
	if (!ret && state >= IBV_QPS_RTR)
		ret = rt_to_rtr(q, &q->dev->gid, q->qp->qp_num);
	if (!ret && state >= IBV_QPS_RTS)
		ret = rt_to_rts(q);
	if (!ret && state >= IBV_QPS_SQD)
		ret = rt_to_state(q, state);
	if (ret || rt_state(q) != state)
		rt_die("QP to %s: %s", names[state], strerror(ret));
}

/* With the attributes that the way to @next needs if it is one of those that need any. */
static int change(struct rt_qp *q, enum ibv_qp_state cur, enum ibv_qp_state next)
{
	switch (next) {
	case IBV_QPS_INIT:
		return rt_to_init(q);
	case IBV_QPS_RTR:
		return rt_to_rtr(q, &q->dev->gid, q->qp->qp_num);
	case IBV_QPS_RTS:
		if (cur == IBV_QPS_RTR)
			return rt_to_rts(q);
		break;
	default:
		break;
	}
	return rt_to_state(q, next);
}

static void test_table(void)
{
	/* may[state]: bit n: to state n. What is drained may go from SQD to RTS. */
#define TO(state)	(1 << IBV_QPS_##state)
	static const uint8_t may[] = {
		[IBV_QPS_RESET] = TO(RESET) | TO(INIT),
		[IBV_QPS_INIT] = TO(RESET) | TO(INIT) | TO(RTR) | TO(ERR),
		[IBV_QPS_RTR] = TO(RESET) | TO(RTS) | TO(ERR),
		[IBV_QPS_RTS] = TO(RESET) | TO(RTS) | TO(SQD) | TO(ERR),
		[IBV_QPS_SQD] = TO(RESET) | TO(RTS) | TO(SQD) | TO(ERR),
		[IBV_QPS_ERR] = TO(RESET) | TO(ERR),
	};
	int cur, next;

	for (cur = IBV_QPS_RESET; cur <= IBV_QPS_ERR; cur++) {
		bool ok = true;

		/* RC never gets there */
		if (cur == IBV_QPS_SQE)
			continue;
		for (next = IBV_QPS_RESET; next <= IBV_QPS_ERR; next++) {
			bool good = may[cur] & 1 << next;
			struct rt_qp q;

			bring(&q, cur);
			if (!RT_EQ(change(&q, cur, next), good ? 0 : EINVAL) ||
			    !RT_EQ(rt_state(&q), good ? next : cur)) {
				rt_diag("%s to %s", names[cur], names[next]);
				ok = false;
			}
			rt_qp_destroy(&q);
		}
		rt_ok(ok, "from %s into each other state, or not", names[cur]);
	}
}

/* A wrong one is refused, whatever the transition would be from there (R30). */
static void test_cur_state(void)
{
	static const struct {
		enum ibv_qp_state is, said, next;
	} rows[] = {
		{ IBV_QPS_RTS, IBV_QPS_SQD, IBV_QPS_RTS },
		{ IBV_QPS_SQD, IBV_QPS_RTS, IBV_QPS_RTS },
		{ IBV_QPS_RTS, IBV_QPS_SQD, IBV_QPS_SQD },
	};
	struct ibv_qp_attr attr = {};
	bool ok = true;
	int i;

	for (i = 0; i < ARRAY_SIZE(rows); i++) {
		struct rt_qp q;

		bring(&q, rows[i].is);
		attr.qp_state = rows[i].next;
		attr.cur_qp_state = rows[i].said;
		ok = RT_EQ(ibv_modify_qp(q.qp, &attr, IBV_QP_STATE | IBV_QP_CUR_STATE), EINVAL) &&
		     RT_EQ(rt_state(&q), rows[i].is) && ok;
		rt_qp_destroy(&q);
	}
	rt_ok(ok, "a current state that is not is refused");

	for (ok = true, i = IBV_QPS_RTS; ok && i <= IBV_QPS_SQD; i++) {
		struct rt_qp q;

		bring(&q, i);
		attr.qp_state = IBV_QPS_RTS;
		attr.cur_qp_state = i;
		ok = RT_EQ(ibv_modify_qp(q.qp, &attr, IBV_QP_STATE | IBV_QP_CUR_STATE), 0) &&
		     RT_EQ(rt_state(&q), IBV_QPS_RTS);
		rt_qp_destroy(&q);
	}
	rt_ok(ok, "the one that is, is not");
}

/* ---- SQD ---- */

static int post_send(struct rt_qp *q, uint64_t id)
{
	struct ibv_sge sge = { (uintptr_t)abuf.p, 16, abuf.mr->lkey };
	struct ibv_send_wr wr = rt_wr(id, IBV_WR_SEND, IBV_SEND_SIGNALED, &sge, 1);

	return rt_post(q, &wr);
}

static int draining(struct rt_qp *q)
{
	struct ibv_qp_init_attr ia;
	struct ibv_qp_attr a;

	if (ibv_query_qp(q->qp, &a, IBV_QP_STATE, &ia) || a.qp_state != IBV_QPS_SQD)
		return -1;
	return a.sq_draining;
}

static bool wait_drained(struct rt_qp *q)
{
	uint64_t end = rt_now_ms() + rt_timeout_ms;

	while (draining(q) == 1 && rt_now_ms() < end)
		usleep(1000);
	return RT_EQ(draining(q), 0);
}

static bool sq_drained_came(struct rt_dev *dev)
{
	struct pollfd pfd = { .fd = dev->ctx->async_fd, .events = POLLIN };
	struct ibv_async_event ev;
	bool came = false;

	while (poll(&pfd, 1, 50) > 0 && !ibv_get_async_event(dev->ctx, &ev)) {
		came |= ev.event_type == IBV_EVENT_SQ_DRAINED;
		ibv_ack_async_event(&ev);
	}
	return came;
}

/* The receiver has nothing to take the SEND into: it is sent, and not answered. */
static void test_sqd(bool notify)
{
	struct ibv_qp_attr sqd = {
		.qp_state = IBV_QPS_SQD, .en_sqd_async_notify = notify, .min_rnr_timer = 2,
	};
	int mask = IBV_QP_STATE | (notify ? IBV_QP_EN_SQD_ASYNC_NOTIFY : 0);
	struct ibv_wc wc;
	struct rt_pair p;
	bool ok;

	rt_drain_events(rt_dev_a());
	rt_pair_create(&p, rt_dev_a(), rt_dev_b(), &rt_defaults);
	ok = RT_EQ(post_send(&p.a, 1), 0) && RT_EQ(ibv_modify_qp(p.a.qp, &sqd, mask), 0) &&
	     RT_EQ(draining(&p.a), 1) && RT_EQ(rt_to_state(&p.a, IBV_QPS_RTS), EINVAL) &&
	     RT_EQ(ibv_modify_qp(p.a.qp, &sqd, IBV_QP_STATE | IBV_QP_MIN_RNR_TIMER), EINVAL) &&
	     RT_EQ(draining(&p.a), 1) && RT_CHECK(!sq_drained_came(p.a.dev)) &&
	     /* posted meanwhile: not before RTS */
	     RT_EQ(post_send(&p.a, 2), 0) && RT_EQ(rt_post_recv(&p.b, 1, &bbuf, 0, 64), 0) &&
	     RT_EQ(rt_post_recv(&p.b, 2, &bbuf, 0, 64), 0) &&
	     rt_expect(p.a.scq, 1, IBV_WC_SUCCESS, NULL) && wait_drained(&p.a) &&
	     RT_CHECK(!rt_poll(p.a.scq, &wc, 20));
	if (notify)
		ok = ok && RT_CHECK(rt_expect_event(p.a.dev, IBV_EVENT_SQ_DRAINED, p.a.qp,
						    rt_timeout_ms));
	ok = ok && RT_CHECK(!sq_drained_came(p.a.dev)) &&
	     RT_EQ(rt_to_state(&p.a, IBV_QPS_RTS), 0) &&
	     rt_expect(p.a.scq, 2, IBV_WC_SUCCESS, NULL);
	rt_ok(ok, "SQD with an unanswered SEND: no RTS until drained, %s",
	      notify ? "one event" : "no event that was not asked for");
	rt_pair_destroy(&p);
}

/* ---- RTR ---- */

static void test_comm_est(void)
{
	struct ibv_async_event ev;
	struct rt_qp a, b;
	bool ok;

	if (rt_qp_create(&a, rt_dev_a(), &rt_defaults) ||
	    rt_qp_create(&b, rt_dev_b(), &rt_defaults))
		rt_die("create QP");
	if (rt_to_init(&a) || rt_to_init(&b) || rt_to_rtr(&a, &b.dev->gid, b.qp->qp_num) ||
	    rt_to_rtr(&b, &a.dev->gid, a.qp->qp_num) || rt_to_rts(&a))
		rt_die("connect");
	rt_drain_events(b.dev);
	ok = RT_EQ(rt_post_recv(&b, 1, &bbuf, 0, 64), 0) &&
	     RT_EQ(rt_post_recv(&b, 2, &bbuf, 0, 64), 0) &&
	     RT_CHECK(ibv_get_async_event(b.dev->ctx, &ev)) &&
	     RT_EQ(post_send(&a, 1), 0) && rt_expect(b.rcq, 1, IBV_WC_SUCCESS, NULL) &&
	     RT_CHECK(rt_expect_event(b.dev, IBV_EVENT_COMM_EST, b.qp, 0));
	rt_ok(ok, "COMM_EST when the first packet arrives in RTR");
	ok = RT_EQ(post_send(&a, 2), 0) && rt_expect(b.rcq, 2, IBV_WC_SUCCESS, NULL);
	usleep(20000);
	rt_ok(ok && RT_CHECK(ibv_get_async_event(b.dev->ctx, &ev)) && RT_EQ(rt_to_rts(&b), 0),
	      "but not of the second");
	rt_qp_destroy(&a);
	rt_qp_destroy(&b);
}

int main(int argc, char **argv)
{
	rt_parse(argc, argv);
	abuf = rt_buf(rt_dev_a(), 4096, RT_ACCESS_ALL);
	bbuf = rt_buf(rt_dev_b(), 4096, RT_ACCESS_ALL);
	test_table();
	test_cur_state();
	test_sqd(true);
	test_sqd(false);
	test_comm_est();
	return rt_done();
}
