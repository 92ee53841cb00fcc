// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Processes that answer each message with one of their own.
 *
 * The ACK of a message that is about to be answered is in the way of the answer: it takes time
 * on this processor, then on the wire (some links even hold back the second small packet until
 * the first is acknowledged). So where a process has answered each message before the next one
 * came, the ACK waits for the process's answer and leaves behind it, in the same burst; IBTA
 * 9.7.5.1.2 lets a responder coalesce and sets no time. If no answer comes in some multiples of
 * the usual time, the ACK leaves alone, and the process has to prove itself again, twice as
 * long as before.
 *
 * A peer that waits for its send completion before it goes on cannot be recognised here: the
 * delayed ACK makes it wait for as long as this process takes to answer. So the ACK is not
 * delayed for a process that thinks about its answers: a peer may wait for about a round trip.
 * The measured round trip includes the time that ACKs wait at the peer.
 *
 * All this is for messages and answers of one packet; an ACK behind a long answer would come
 * too late. Everything else that is owed does not wait for the process: NAKs, ACKs of longer
 * messages, of a second message, of duplicates, READ responses.
 *
 * All functions: qp->lock held.
 */
#include "transport.h"

/* Messages answered in a row after which the ACK waits: at first, and at most. */
#define NEED_MIN	4
#define NEED_MAX	128
/* More packets than this, or packets later than this, are no answer. */
#define ANSWER_MAX	2
#define TURN_MAX_NS	(4 * NSEC_PER_MSEC)
/* ACKs do not wait if answers take longer, on average, than so many round trips ... */
#define TURN_RTTS	2
/* ... or than this, if that is longer. A single late answer counts only in part. */
#define TURN_FAST_NS	(100 * NSEC_PER_USEC)
/*
 * The ACK waits this many times the average time of an answer, within limits. The timer expires
 * about once in that time, and under emulation an interrupt costs as much as two messages.
 */
#define TURNS		64
#define WAIT_MIN_NS	(500 * NSEC_PER_USEC)
#define WAIT_MAX_NS	(4 * NSEC_PER_MSEC)

static bool thinks(const struct roe_qp *qp)
{
	return qp->resp.echo.turn > max_t(u64, TURN_RTTS * (u64)qp->req.srtt, TURN_FAST_NS);
}

/**
 * roe_echo_message() - a message of one packet asked for an ACK, which is now owed
 * @qp: the QP
 * @ctx: the time
 */
void roe_echo_message(struct roe_qp *qp, const struct roe_ctx *ctx)
{
	struct roe_echo *echo = &qp->resp.echo;
	u64 wait;

	/* two messages without an answer between them: the peer does not wait for answers */
	if (echo->came)
		echo->score = 0;
	echo->came = ctx->now;
	if (echo->score < echo->need || ctx->direct || thinks(qp))
		return;
	wait = clamp_t(u64, (u64)TURNS * echo->turn, WAIT_MIN_NS, WAIT_MAX_NS);
	/* far below the peer's ACK timeout, which as a rule is the same as ours */
	if (qp->timeout_ns && wait > qp->timeout_ns / 8)
		return;
	echo->until = ctx->now + wait;
}

ROE_EXPORT_FOR_TEST(roe_echo_message);

/**
 * roe_echo_answer() - requests of this QP are in a burst
 * @qp: the QP; an ACK that waited may follow the requests
 * @ctx: the time
 * @pkts: number of request packets
 */
void roe_echo_answer(struct roe_qp *qp, const struct roe_ctx *ctx, unsigned int pkts)
{
	struct roe_echo *echo = &qp->resp.echo;
	s64 turn = ctx->now - echo->came;

	echo->until = 0;
	if (!echo->came)
		return;
	echo->came = 0;
	if (turn > TURN_MAX_NS || pkts > ANSWER_MAX) {
		echo->score = 0;
		return;
	}
	turn = min_t(s64, turn, 2 * (s64)echo->turn + TURN_FAST_NS);
	echo->turn += ((s32)turn - (s32)echo->turn) / 4;
	echo->score = min(echo->score + 1, NEED_MAX);
}

ROE_EXPORT_FOR_TEST(roe_echo_answer);

/**
 * roe_echo_expired() - no answer of the process came in time
 * @qp: its ACK may leave
 */
void roe_echo_expired(struct roe_qp *qp)
{
	struct roe_echo *echo = &qp->resp.echo;

	echo->until = 0;
	echo->score = 0;
	echo->need = min(2 * echo->need, NEED_MAX);
}

/**
 * roe_echo_reset() - nothing is known about the process
 * @qp: the QP
 */
void roe_echo_reset(struct roe_qp *qp)
{
	qp->resp.echo = (struct roe_echo){ .need = NEED_MIN };
}

ROE_EXPORT_FOR_TEST(roe_echo_reset);
