// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Messages of a stream that wait for later ones.
 *
 * Where no relay (relay.c) looks at the ring, for lack of an idle CPU, a process that posts
 * small messages to a QP faster than they can be sent one by one is served best if some of
 * them leave as one train: one walk through IP, one ACK. A doorbell then only copies the WQE
 * in, and a later doorbell sends the messages held so far.
 *
 * Only messages are held whose end the process cannot be waiting for, because it has not
 * asked for a completion; before it has one it may not look at the data of a READ either.
 * The first message that is signaled or solicited takes all held ones along. So does anything
 * else that makes the QP run, such as an ACK. If the process stops posting in the middle, the
 * timer sends the rest.
 *
 * Still a process may wait for the answer of its peer. So the first message after a pause,
 * or after a message on another QP, leaves at once: the messages of a process that sends one
 * to each of many peers never wait. And each train that the timer had to send, while the process
 * did not ring a doorbell of another QP either, doubles the number of doorbells that count as a
 * stream, and restarts their count; it takes many good trains to halve that number. In the end
 * nothing waits, except for another attempt after a second.
 *
 * Contexts: doorbells of user QPs and their timer; qp->lock held, softirqs disabled.
 */
#include "hold.h"
#include "transport.h"

/* A stream: this many doorbells of a QP in a row that came faster than one could be served. */
#define NEED_MIN	16u
/* With this value no number of doorbells is a stream ... */
#define NEED_MAX	16384u
/* ... until so long after the last train in vain; then half of it is. */
#define AGAIN_NS	NSEC_PER_SEC
/* Trains that were full or sent by a signaled message, to make up for one that the timer sent. */
#define GOOD_TRAINS	64
/* Held messages leave at this number, the length of a train without ACK requests. */
#define HOLD_PKTS	32
#define HOLD_NS		NSEC_PER_MSEC
/* A process without a doorbell for so long before the hold expires is waiting itself. */
#define IDLE_NS		(HOLD_NS / 4)
/* In a stream the pause between doorbells is at most this part (1/n) of the cost of a doorbell. */
#define PAUSE_PART	2
/* A longer pause cancels this many shorter ones. */
#define RUN_BREAK	4u

/**
 * roe_pace_doorbell() - a doorbell: does the process post faster than its messages leave?
 * @pace: of the CPU
 * @qp: QP of the doorbell
 * @now: ns
 *
 * Return: true if the doorbell comes right after another one of the same QP.
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
 * roe_pace_sent() - note the cost of a doorbell that has sent its messages
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
	/* a WQE that was found bad when it was copied in is reported at once */
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

/* May all messages wait? One doorbell may bring several: look at those not looked at before. */
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

/* Count doorbells in quick succession, less those that came alone: are they a stream by now? */
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

/* The held messages leave together with others: the wait was worth it. */
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
 * @qp: RC or UC; the messages are in the SQ
 * @ctx: the time
 * @pace: of the CPU; @qp keeps the pointer
 * @behind: result of roe_pace_doorbell()
 *
 * Return: true if nothing is to be sent now.
 */
bool roe_hold_message(struct roe_qp *qp, const struct roe_ctx *ctx, const struct roe_pace *pace,
		      bool behind)
{
	struct roe_hold *hold = &qp->hold;

	/* answers owed to the peer do not wait, and messages in the SQ leave with them */
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
 * roe_hold_expired() - the hold timed out: the held messages leave now
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
 * roe_hold_reset() - forget what was learned about the process
 * @qp: the QP
 */
void roe_hold_reset(struct roe_qp *qp)
{
	qp->hold = (struct roe_hold){ .need = NEED_MIN };
}

ROE_EXPORT_FOR_TEST(roe_hold_reset);
