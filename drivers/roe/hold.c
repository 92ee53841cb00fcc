// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Small messages that wait for company.
 *
 * Processes ring for each message (librxe makes a system call of every post), and
 * its way through IP costs a packet more than all the rest. So while a process posts
 * one small message after the other they stay in the SQ until a train of them is
 * complete, which leaves as one skb and is answered by one ACK.
 *
 * Who waits for each message must not wait any longer. Nobody says what kind of
 * user it is; it is found out by trying:
 *
 * - A message is kept back. If the next doorbell comes, the process did not wait
 *   for the completion, and the next run may be twice as long. If the timer comes
 *   first, a run is no longer than it was now, one message perhaps; the next
 *   attempt is far away, and farther each time it fails.
 * - If what worked before fails, the user may post so many messages at a time as
 *   there were since the timer came the last time. If that proves wrong as well,
 *   messages go alone again. What was longer than any run is a stream, and that
 *   has an end.
 * - A timer that comes late says nothing of the user: the machine stood still.
 * - It is tried only where the time between doorbells is short compared to what
 *   sending costs: who posts at leisure would be delayed, and nothing gained.
 *
 * All times come from measurement, so that a doorbell may take 1 us or 100.
 */
#include "transport.h"

/* Messages and bytes of a train at most; a long run leaves as several. */
#define TRAIN_MAX	32
#define TRAIN_BYTES	16384
#define RUN_MAX		128
/* Runs until the next attempt: so many, doubled with each failure so often at most. */
#define WAIT_MIN	16
#define BACK_MAX	5
/* So often runs are believed to be as long as they were. */
#define FAILS_MAX	2
/* So many timers in a row may be late. */
#define LATE_MAX	4
/* Messages in trains without a failure that make good for all before. */
#define GOOD_MIN	256
/* The timer gives each missing doorbell so many times what they take on average ... */
#define PATIENCE	8
/* ... but no less than this, and no more than so many messages take alone. */
#define HOLD_MIN_NS	(8 * NSEC_PER_USEC)
#define HOLD_MAX_COSTS	32
/* A doorbell that took longer was interrupted for long; four of these fit an s32. */
#define COST_MAX_NS	(250 * NSEC_PER_MSEC)
/* Of messages that leave alone one in so many is timed. */
#define TIMED_EVERY	8

/* Messages that are a run: then the process is believed to wait. */
static u32 target(const struct roe_hold *hold)
{
	return min_t(u32, hold->run << hold->trying, RUN_MAX);
}

/*
 * From the end of one doorbell to the begin of the next. Pauses between runs are
 * no part of it: those who are always late become slow by and by.
 */
static void measure(struct roe_hold *hold, u64 now)
{
	u32 cost = READ_ONCE(hold->cost);
	s64 took = clamp_t(s64, now - READ_ONCE(hold->end), 0, 4ll * cost);
	s32 diff = (s32)took - (s32)hold->think;

	hold->think += diff / (diff > 0 ? 16 : 4);
}

/* Is sending what keeps the process from posting more? */
static bool streams(const struct roe_hold *hold)
{
	u32 cost = READ_ONCE(hold->cost);

	return cost && hold->think <= cost;
}

/* One packet, for which nobody was asked to wake up. */
static bool small(const struct roe_qp *qp, const struct roe_swqe *wqe)
{
	switch (wqe->opcode) {
	case IB_WR_RDMA_WRITE:
	case IB_WR_RDMA_WRITE_WITH_IMM:
	case IB_WR_SEND:
	case IB_WR_SEND_WITH_IMM:
	case IB_WR_SEND_WITH_INV:
		return wqe->status == IB_WC_SUCCESS && wqe->length <= qp->mtu &&
		       !(wqe->flags & IB_SEND_SOLICITED);
	default:
		return false;
	}
}

/* May everything from index @from on wait? Adds up its bytes. */
static bool all_small(struct roe_qp *qp, u32 from)
{
	for (; from != qp->sq.prod; from++) {
		const struct roe_swqe *wqe = roe_sq_slot(&qp->sq, from);

		if (!small(qp, wqe))
			return false;
		qp->req.hold.bytes += wqe->length;
	}
	return true;
}

/* A train leaves, and perhaps a run is complete. */
static void full(struct roe_hold *hold, u32 n)
{
	hold->until = 0;
	/* that messages can leave alone proves nothing */
	if (n > 1)
		hold->good = min_t(u32, hold->good + n, GOOD_MIN);
	if (hold->good == GOOD_MIN) {
		hold->fails = 0;
		hold->lates = 0;
	}
	if (hold->count < target(hold))
		return;
	if (hold->trying) {
		hold->run = target(hold);
		hold->wait = 0;
		if (hold->good == GOOD_MIN)
			hold->back = 0;
	} else if (hold->wait) {
		hold->wait--;
	}
	hold->trying = !hold->wait && hold->run < RUN_MAX;
	hold->count = 0;
}

static u64 deadline(const struct roe_hold *hold, u64 now, u32 missing)
{
	u64 max = (u64)HOLD_MAX_COSTS * READ_ONCE(hold->cost);

	return now + max_t(u64, min(max, (u64)PATIENCE * missing * hold->think), HOLD_MIN_NS);
}

/**
 * roe_hold_doorbell() - a process has posted: shall it wait?
 * @qp: RC or UC in RTS
 * @ctx: the time; timed is set if the caller owes roe_hold_done()
 * @from: index of the first new WQE in the SQ
 *
 * hold.until says for how long nothing is sent; 0: now.
 */
void roe_hold_doorbell(struct roe_qp *qp, struct roe_ctx *ctx, u32 from)
{
	struct roe_hold *hold = &qp->req.hold;
	u32 n;

	/* another thread's doorbell has taken it along, or there was nothing */
	if (qp->sq.prod == from)
		return;
	measure(hold, ctx->now);
	if (!hold->until) {
		hold->first = from;
		hold->bytes = 0;
	}
	n = qp->sq.prod - hold->first;
	ctx->timed = hold->run > 1 || from % TIMED_EVERY == 0;
	/* what was sent as far as the clock is concerned: roe_hold_done() may know better */
	WRITE_ONCE(hold->end, ctx->now + READ_ONCE(hold->cost));
	/* behind what the window keeps back nothing needs to be held */
	if (!streams(hold) || !all_small(qp, from) || qp->sq.next != hold->first) {
		hold->count = 0;
		hold->until = 0;
		return;
	}
	hold->count = min_t(u32, hold->count + qp->sq.prod - from, U8_MAX);
	hold->total = min_t(u32, hold->total + qp->sq.prod - from, U8_MAX);
	if (n >= TRAIN_MAX || hold->bytes >= TRAIN_BYTES || hold->count >= target(hold)) {
		full(hold, n);
		return;
	}
	ctx->timed = false;
	WRITE_ONCE(hold->end, ctx->now);
	if (!hold->until)
		hold->until = deadline(hold, ctx->now,
				       min(target(hold) - hold->count, TRAIN_MAX - n));
	roe_stat_add(qp->dev, ROE_STAT_HELD, qp->sq.prod - from);
}

ROE_EXPORT_FOR_TEST(roe_hold_doorbell);

/**
 * roe_hold_done() - a doorbell that sent something is over
 * @qp: of this process; no lock
 * @begin: ns, when it began
 * @now: ns; what was received on this CPU meanwhile is part of the cost
 *
 * Several threads may ring at once; a wrong value now and then does no harm.
 */
void roe_hold_done(struct roe_qp *qp, u64 begin, u64 now)
{
	struct roe_hold *hold = &qp->req.hold;
	u32 took = min_t(u64, now - begin, COST_MAX_NS);
	u32 cost = READ_ONCE(hold->cost);

	if (!cost || took < cost)
		cost = took;
	else if (READ_ONCE(hold->run) == 1)
		cost += min(took - cost, cost) / 8;
	WRITE_ONCE(hold->cost, cost);
	WRITE_ONCE(hold->end, now);
}

ROE_EXPORT_FOR_TEST(roe_hold_done);

static void wait_longer(struct roe_hold *hold)
{
	hold->back = min(hold->back + 1, BACK_MAX);
	hold->wait = WAIT_MIN << hold->back;
}

/* The process had no more time than we had: the machine was elsewhere. */
static bool late(struct roe_hold *hold, u64 now)
{
	if (now - hold->until <= READ_ONCE(hold->cost) || hold->lates == LATE_MAX)
		return false;
	hold->lates++;
	return true;
}

static void learn(struct roe_hold *hold)
{
	if (hold->trying) {
		hold->run = hold->count;
		wait_longer(hold);
	} else if (hold->total <= RUN_MAX && hold->fails < FAILS_MAX) {
		hold->run = hold->total;
		hold->fails++;
		hold->wait = WAIT_MIN << hold->back;
	} else if (hold->total <= RUN_MAX) {
		hold->run = 1;
		hold->fails = 0;
		wait_longer(hold);
	}
	hold->good = 0;
	hold->total = 0;
}

/**
 * roe_hold_expired() - no further message came in time
 * @qp: hold.until has passed
 * @ctx: the time
 */
void roe_hold_expired(struct roe_qp *qp, struct roe_ctx *ctx)
{
	struct roe_hold *hold = &qp->req.hold;

	roe_stat_inc(qp->dev, ROE_STAT_HOLD_EXPIRED);
	if (!late(hold, ctx->now))
		learn(hold);
	else if (hold->trying)
		hold->wait = WAIT_MIN << hold->back;
	hold->trying = false;
	hold->count = 0;
	hold->until = 0;
}

ROE_EXPORT_FOR_TEST(roe_hold_expired);

/**
 * roe_hold_release() - what waits may leave now, for a reason that teaches nothing
 * @qp: the QP
 */
void roe_hold_release(struct roe_qp *qp)
{
	qp->req.hold.until = 0;
}

ROE_EXPORT_FOR_TEST(roe_hold_release);

/**
 * roe_hold_reset() - nothing is known about the user
 * @qp: the QP
 */
void roe_hold_reset(struct roe_qp *qp)
{
	qp->req.hold = (struct roe_hold){ .run = 1, .wait = WAIT_MIN };
}

ROE_EXPORT_FOR_TEST(roe_hold_reset);
