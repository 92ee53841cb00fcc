// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Who gets a relay: what different users' doorbells look like, and how often those
 * are tried that gain nothing.
 */
#include "sim.h"

/* Doorbells of a user with pauses of @think ns until one is a stream; 0: never. */
static u32 doorbells(struct roe_poster *poster, u32 think, u32 cost)
{
	u64 now = NSEC_PER_SEC;
	u32 n;

	poster->end = now;
	for (n = 1; n <= 100000; n++) {
		now += think;
		if (roe_poster_streams(poster, now, now + cost))
			return n;
		now += cost;
	}
	return 0;
}

static void streams(struct kunit *test)
{
	struct roe_poster poster = { .need = 16 };

	KUNIT_EXPECT_EQ(test, doorbells(&poster, 300, 4000), 16);
	KUNIT_EXPECT_EQ(test, doorbells(&poster, 0, 4000), 16);
	/* the same on a machine a hundred times slower */
	KUNIT_EXPECT_EQ(test, doorbells(&poster, 30000, 400000), 16);
}

static void at_leisure(struct kunit *test)
{
	struct roe_poster poster = { .need = 16 };

	KUNIT_EXPECT_EQ(test, doorbells(&poster, 4000, 4000), 0);
	KUNIT_EXPECT_EQ(test, doorbells(&poster, 1000000, 4000), 0);
}

/* Pauses after every @n doorbells: how many until it is a stream, 0: never in 1000. */
static u32 with_pauses(u32 n)
{
	struct roe_poster poster = { .need = 16, .end = 1000 };
	u64 now = 1000;
	u32 i;

	for (i = 0; i < 1000; i++) {
		now += i % n == 0 ? 9000 : 100;
		if (roe_poster_streams(&poster, now, now + 4000))
			return i + 1;
		now += 4000;
	}
	return 0;
}

static void pauses(struct kunit *test)
{
	KUNIT_EXPECT_EQ(test, with_pauses(1), 0);
	KUNIT_EXPECT_EQ(test, with_pauses(5), 0);
	KUNIT_EXPECT_GT(test, with_pauses(10), 16);
	KUNIT_EXPECT_EQ(test, with_pauses(100), 17);
}

/* Doorbells that a relay answered say nothing. */
static void unknown(struct kunit *test)
{
	struct roe_poster poster = { .need = 16 };
	u64 now = 1000;
	int i;

	for (i = 1; i < 16; i++) {
		poster.end = 0;
		now += 1000000;
		KUNIT_ASSERT_FALSE(test, roe_poster_streams(&poster, now, now + 4000));
	}
	poster.end = 0;
	KUNIT_EXPECT_TRUE(test, roe_poster_streams(&poster, now, now + 4000));
}

/* The clock of one CPU is read after that of another. */
static void backwards(struct kunit *test)
{
	struct roe_poster poster = { .need = 1, .end = 10000 };

	KUNIT_EXPECT_TRUE(test, roe_poster_streams(&poster, 9000, 9500));
	KUNIT_EXPECT_EQ(test, poster.end, 9500);
}

/* In vain: each time twice as many, up to a limit; one success makes good for all. */
static void learns(struct kunit *test)
{
	struct roe_poster poster = { .need = 16 };
	u32 last = 16, i;

	for (i = 0; i < 20; i++) {
		roe_poster_learn(&poster, 64, 64);
		KUNIT_EXPECT_GE(test, poster.need, last);
		last = poster.need;
	}
	KUNIT_EXPECT_EQ(test, last, 8192);
	KUNIT_EXPECT_EQ(test, doorbells(&poster, 300, 4000), 8192);
	/* one message at a time, however many */
	roe_poster_learn(&poster, 100000, 99000);
	KUNIT_EXPECT_EQ(test, poster.need, 8192);
	roe_poster_learn(&poster, 1000, 100);
	KUNIT_EXPECT_EQ(test, poster.need, 16);
	/* nobody was there, or it came too late */
	for (i = 0; i < 20; i++)
		roe_poster_learn(&poster, 0, 0);
	KUNIT_EXPECT_EQ(test, poster.need, 512);
}

/* A short one was worth while, too: it only had to make room. */
static void disturbed(struct kunit *test)
{
	struct roe_poster poster = { .need = 64 };

	roe_poster_learn(&poster, 60, 3);
	KUNIT_EXPECT_EQ(test, poster.need, 64);
}

/* What one process did does not keep the next one from a relay. */
static void forgets(struct kunit *test)
{
	struct roe_poster poster = { .need = 8192 };
	u64 now = 1000;
	int i;

	for (i = 0; i < 20; i++) {
		roe_poster_streams(&poster, now, now + 4000);
		now += NSEC_PER_SEC;
	}
	KUNIT_EXPECT_EQ(test, poster.need, 16);
}

static void waits(struct kunit *test)
{
	const u32 patience = 100 * NSEC_PER_USEC;
	u64 now = NSEC_PER_SEC, end;

	KUNIT_EXPECT_TRUE(test, roe_relay_waits(now + patience - 1, now, 0, patience));
	KUNIT_EXPECT_FALSE(test, roe_relay_waits(now + patience, now, 0, patience));
	/* a doorbell for another QP meanwhile: that may come, too */
	end = now + patience / 2;
	KUNIT_EXPECT_TRUE(test, roe_relay_waits(now + patience, now, end, patience));
	/* it was about to be rung */
	KUNIT_EXPECT_TRUE(test, roe_relay_waits(now + 1, now, now + 5, patience));
	/* one after the other, and none has come */
	end = now + 2 * NSEC_PER_MSEC;
	KUNIT_EXPECT_FALSE(test, roe_relay_waits(end + 1, now, end, patience));
}

static void post_up_to(struct roe_ring *ring, u32 index)
{
	WRITE_ONCE(ring->buf->producer_index, index & ring->mask);
}

/* A QP with nothing but a ring of a process. */
static struct roe_qp *ring_qp(struct kunit *test, u32 elements)
{
	struct roe_qp *qp = kunit_kzalloc(test, sizeof(*qp), GFP_KERNEL);
	u32 size = sizeof(struct rxe_send_wqe) + 64;
	struct roe_ring *ring = roe_ring_create(elements, size, NULL, NULL);
	struct roe_sq *sq;

	KUNIT_ASSERT_NOT_NULL(test, qp);
	KUNIT_ASSERT_FALSE(test, IS_ERR(ring));
	sq = &qp->sq;
	sq->ring = ring;
	sq->mask = ring->mask;
	sq->max_inline = 64;
	sq->log2 = order_base_2(sizeof(struct roe_swqe) + 64);
	sq->slots = kunit_kzalloc(test, (sq->mask + 1) << sq->log2, GFP_KERNEL);
	KUNIT_ASSERT_NOT_NULL(test, sq->slots);
	return qp;
}

/* A process posts as fast as it is served: each look finds news until the ring is empty. */
static void laps(struct kunit *test)
{
	struct roe_qp *qp = ring_qp(test, 7);
	struct roe_sq *sq = &qp->sq;
	struct roe_ring *ring = sq->ring;
	u32 i;

	for (i = 0; i < 3 * ring->mask; i++) {
		u32 seen = i & ring->mask;

		qp->relay.seen = seen;
		/* posted between the index and the copy */
		post_up_to(ring, seen + 3);
		roe_wqe_pull(qp);
		KUNIT_EXPECT_EQ(test, sq->prod - sq->cons, 3);
		/* served, and the ring filled again: once around */
		sq->cons += 3;
		roe_ring_release(ring, 3);
		post_up_to(ring, seen + ring->mask + 1);
		KUNIT_EXPECT_NE_MSG(test, roe_relay_news(qp), 0, "index %u", seen);
		roe_wqe_pull(qp);
		KUNIT_EXPECT_EQ(test, sq->prod - sq->cons, ring->mask + 1 - 3);
		KUNIT_EXPECT_EQ(test, roe_relay_news(qp), 0);
		/* to the next index */
		roe_ring_release(ring, sq->prod - sq->cons);
		sq->cons = sq->prod;
		post_up_to(ring, seen + ring->mask + 2);
		KUNIT_EXPECT_EQ(test, roe_relay_news(qp), 1);
		roe_wqe_pull(qp);
		roe_ring_release(ring, 1);
		sq->cons = sq->prod;
	}
	roe_ring_destroy(ring);
}

/* What is left to a worker is no lap: it is not counted as if there were a ring full. */
static void leftover(struct kunit *test)
{
	struct roe_qp *qp = ring_qp(test, 511);
	struct roe_ring *ring = qp->sq.ring;

	post_up_to(ring, ROE_WQE_BATCH + 44);
	KUNIT_EXPECT_EQ(test, roe_relay_news(qp), ROE_WQE_BATCH + 44);
	KUNIT_EXPECT_TRUE(test, roe_wqe_pull(qp));
	KUNIT_EXPECT_EQ(test, roe_relay_news(qp), 44);
	KUNIT_EXPECT_EQ(test, roe_relay_news(qp), 0);
	roe_ring_destroy(ring);
}

/* An index that was set back is news once, or a relay would look for ever. */
static void set_back(struct kunit *test)
{
	struct roe_qp *qp = ring_qp(test, 7);
	struct roe_ring *ring = qp->sq.ring;

	post_up_to(ring, 3);
	KUNIT_EXPECT_EQ(test, roe_relay_news(qp), 3);
	roe_wqe_pull(qp);
	post_up_to(ring, 2);
	roe_relay_news(qp);
	roe_wqe_pull(qp);
	roe_relay_news(qp);
	roe_wqe_pull(qp);
	KUNIT_EXPECT_EQ(test, roe_relay_news(qp), 0);
	roe_ring_destroy(ring);
}

/* Wherever the search begins, also behind the last one: all but the own CPU are tried. */
static void picks(struct kunit *test)
{
	unsigned int from, start, cpu;

	cpus_read_lock();
	for_each_online_cpu(from) {
		for (start = 0; start <= nr_cpu_ids; start++) {
			cpu = roe_relay_pick(start, from);
			KUNIT_EXPECT_NE(test, cpu, from);
			if (cpumask_weight(cpumask_of_node(cpu_to_node(from))) > 1)
				KUNIT_EXPECT_LT_MSG(test, cpu, nr_cpu_ids, "from %u, %u first",
						    from, start);
		}
	}
	cpus_read_unlock();
}

static struct kunit_case cases[] = {
	KUNIT_CASE(streams),
	KUNIT_CASE(at_leisure),
	KUNIT_CASE(pauses),
	KUNIT_CASE(unknown),
	KUNIT_CASE(backwards),
	KUNIT_CASE(learns),
	KUNIT_CASE(disturbed),
	KUNIT_CASE(forgets),
	KUNIT_CASE(waits),
	KUNIT_CASE(laps),
	KUNIT_CASE(leftover),
	KUNIT_CASE(set_back),
	KUNIT_CASE(picks),
	{}
};

static struct kunit_suite suite = {
	.name = "roe_relay",
	.test_cases = cases,
};

kunit_test_suites(&suite);
