// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Messages of a stream that wait for company.
 *
 * Where no relay (relay.c) looks at the ring, for lack of an idle processor, a process
 * that posts small messages to a QP faster than they can be sent one by one is served best
 * if some of them leave as one train: one walk through IP, one ACK. A doorbell then does
 * no more than copy the WQE in, and a later one sends what has come together.
 *
 * Only messages wait whose end the process cannot be waiting for, because it has not
 * asked for a completion: nor may it look at what a READ has brought before there is one.
 * The first that is signaled, or solicited, takes all of them along. So does anything
 * else that makes the QP run, as an ACK. What is left when the process stops in the middle
 * leaves by the clock.
 *
 * A process may yet wait for the answer of its peer. So the first message after a pause,
 * or after one of another QP, leaves at once: who sends one to each of many peers never
 * waits. And each train that the clock had to send, while the process rang no doorbell of
 * another QP either, doubles the number of doorbells that are a stream, which are counted
 * anew; it takes many good ones to halve it. At the end nothing waits, but for another
 * attempt after a second.
 *
 * Contexts: doorbells of user QPs and their timer; qp->lock held, softirqs disabled.
 */
#include "hold.h"
#include "transport.h"

/* Doorbells of a QP in a row that came faster than one could be served: a stream. */
#define NEED_MIN	16u
/* No number of them is ... */
#define NEED_MAX	16384u
/* ... until so long after the last train in vain; then half as many are. */
#define AGAIN_NS	NSEC_PER_SEC
/* Trains that were filled or called for, for each one that the clock had to send. */
#define GOOD_TRAINS	64
/* They leave when so many are together, the length of a train without ACK requests. */
#define HOLD_PKTS	32
#define HOLD_NS		NSEC_PER_MSEC
/* A process that has rung no doorbell for so long at their end is waiting itself. */
#define IDLE_NS		(HOLD_NS / 4)
/* In a stream the pause between doorbells is at most a part of what one costs. */
#define PAUSE_PART	2
/* A longer one makes good for so many that were shorter. */
#define RUN_BREAK	4u

/**
 * roe_pace_doorbell() - a process rings: is it faster than its messages leave?
 * @pace: of the CPU
 * @qp: whose doorbell it is
 * @now: ns
 *
 * Return: true if it comes right behind another one of the same QP.
 */
bool roe_pace_doorbell(struct roe_pace *pace, const struct roe_qp *qp, u64 now)
{
	bool behind = pace->last == qp && (now - pace->end) * PAUSE_PART <= pace->cost;

	pace->last = qp;
	WRITE_ONCE(pace->end, now);
	return behind;
}

ROE_EXPORT_FOR_TEST(roe_pace_doorbell);

/**
 * roe_pace_sent() - a doorbell has sent what was there
 * @pace: of the CPU
 * @begin: of the doorbell, ns
 * @end: of the same
 */
void roe_pace_sent(struct roe_pace *pace, u64 begin, u64 end)
{
	s32 cost = min_t(u64, end - begin, NSEC_PER_MSEC);

	WRITE_ONCE(pace->end, end);
	pace->cost += (cost - (s32)pace->cost) / 8;
}

ROE_EXPORT_FOR_TEST(roe_pace_sent);

static bool waits_for_company(const struct roe_swqe *wqe)
{
	/* one that failed at the door is reported at once */
	if (wqe->status != IB_WC_SUCCESS ||
	    (wqe->flags & (IB_SEND_SIGNALED | IB_SEND_SOLICITED)))
		return false;
	switch (wqe->opcode) {
	case IB_WR_SEND:
	case IB_WR_SEND_WITH_IMM:
	case IB_WR_RDMA_WRITE:
	case IB_WR_RDMA_WRITE_WITH_IMM:
	case IB_WR_RDMA_READ:
		return true;
	default:
		return false;
	}
}

/* One doorbell may bring several: those that came since the last look at them. */
static bool all_wait(const struct roe_qp *qp)
{
	const struct roe_sq *sq = &qp->sq;
	u32 i = qp->hold.until ? qp->hold.behind : sq->next;

	if (qp->sq_sig_all || sq->prod - sq->next >= HOLD_PKTS)
		return false;
	for (; i != sq->prod; i++)
		if (!waits_for_company(roe_sq_slot(sq, i)))
			return false;
	return true;
}

/* Doorbells in a row, net of those that came alone: are they a stream by now? */
static bool streams(struct roe_hold *hold, u64 now, bool behind)
{
	if (!behind) {
		hold->run -= min(hold->run, RUN_BREAK);
		return false;
	}
	hold->run = min(hold->run + 1, NEED_MAX);
	if (hold->need == NEED_MAX && now >= hold->again)
		hold->need /= 2;
	return hold->need < NEED_MAX && hold->run >= hold->need;
}

/* What had waited leaves with company. */
static void good(struct roe_hold *hold)
{
	hold->until = 0;
	if (++hold->good < GOOD_TRAINS)
		return;
	hold->good = 0;
	hold->need = max(hold->need / 2, NEED_MIN);
}

/**
 * roe_hold_message() - a doorbell has brought small messages: shall they wait?
 * @qp: connected, in RTS; the messages are in the SQ
 * @ctx: the time
 * @pace: of the CPU; stays
 * @behind: of roe_pace_doorbell()
 *
 * Return: true if nothing is to be sent now.
 */
bool roe_hold_message(struct roe_qp *qp, const struct roe_ctx *ctx, const struct roe_pace *pace,
		      bool behind)
{
	struct roe_hold *hold = &qp->hold;

	/* what the peer is owed does not wait, and they go with it */
	if (!streams(hold, ctx->now, behind) || qp->state != IB_QPS_RTS ||
	    roe_resp_owes(&qp->resp) || !all_wait(qp)) {
		if (hold->until)
			good(hold);
		return false;
	}
	if (!hold->until)
		hold->until = ctx->now + HOLD_NS;
	hold->pace = pace;
	hold->behind = qp->sq.prod;
	return true;
}

ROE_EXPORT_FOR_TEST(roe_hold_message);

/**
 * roe_hold_expired() - the process posts no more to this QP: what waits leaves now
 * @qp: the QP
 */
void roe_hold_expired(struct roe_qp *qp)
{
	struct roe_hold *hold = &qp->hold;
	u64 until = hold->until;

	hold->until = 0;
	if (READ_ONCE(hold->pace->end) + IDLE_NS > until)
		return;
	hold->again = until + AGAIN_NS;
	hold->run = 0;
	hold->good = 0;
	hold->need = min(2 * hold->need, NEED_MAX);
}

/**
 * roe_hold_reset() - nothing is known about the process
 * @qp: the QP
 */
void roe_hold_reset(struct roe_qp *qp)
{
	qp->hold = (struct roe_hold){ .need = NEED_MIN };
}

ROE_EXPORT_FOR_TEST(roe_hold_reset);
