// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Is a missing packet lost, or only late? A NAK 0x60, or a response from behind it, says that
 * it has not come. In a network that keeps the order it is lost, and is asked for again or sent
 * again at once. Where packets overtake each other (several paths, several queues, a radio link)
 * it is still on its way, and going back to it costs all that was in flight behind it.
 *
 * So, as RACK does for TCP (RFC 8985, section 7.2), the requester learns. If una moves sooner
 * than a round trip after it was sent again, it was only late: from then on the requester waits
 * for a part of a round trip before it sends again, each time for longer. After a row of losses
 * it stops waiting. On a long path it begins by waiting, once.
 *
 * READ responses that come meanwhile are kept (early.c) and have their turn once the gap
 * has closed. But a READ that is sent again reads the memory a second time, and what was read
 * before should not follow what was read after. So of responses that were asked for twice those
 * are kept that come when the second copy can have been answered, and only where packets have
 * been late before: on a path that keeps the order all those would be answers to the first copy.
 */
#include "early.h"
#include "transport.h"

#define PATIENCE_MIN	2	/* quarters of a round trip */
#define PATIENCE_MAX	4
#define LOSSES_MAX	16	/* so many gaps in a row: this is loss, not reordering */

/*
 * How late una may be, in quarters of a round trip. On a long path that is also waited for before
 * anything is known: to do so in vain costs half a round trip once, and not to wait costs many,
 * as READ responses that are asked for twice can hardly be kept.
 */
static u32 patience(const struct roe_req *req)
{
	const struct roe_reorder *ro = &req->reorder;

	if (!ro->patience && !ro->tried && roe_timer_is_long(req))
		return PATIENCE_MIN;
	return ro->patience;
}

/* una may only be late until @until. */
static void wait_until(struct roe_req *req, u64 until)
{
	struct roe_reorder *ro = &req->reorder;

	ro->until = until;
	ro->once = !roe_reorder_sent_twice(req);
	ro->waited_psn = req->max_psn;
}

static u64 patience_ns(const struct roe_req *req)
{
	return (u64)req->srtt * patience(req) / 4;
}

/*
 * Set the time at which una is sent again, unless a response or NAK settles it sooner. Not
 * before the answer to what was sent again the last time can be there: some round trips are
 * longer than others.
 */
static void wait_for_una(struct roe_req *req, const struct roe_ctx *ctx, u64 least)
{
	u64 answer = req->implied_until + max(req->srtt / 4, 2 * req->rttvar);

	wait_until(req, max(ctx->now + max(patience_ns(req), least), answer));
}

/**
 * roe_reorder_nak() - NAK 0x60: the peer misses the packet at una
 * @qp: all before una is acknowledged
 * @ctx: the time
 * @sent: una was sent again already, behind a packet that has closed another gap: a peer that
 *	keeps packets names the next gap when that packet arrives, and una follows
 *
 * Return: true if it may only be late: then una moves, or roe_completer_overdue() is called.
 */
bool roe_reorder_nak(struct roe_qp *qp, const struct roe_ctx *ctx, bool sent)
{
	struct roe_reorder *ro = &qp->req.reorder;
	u64 wait = max_t(u64, patience_ns(&qp->req), sent ? qp->req.srtt : 0);

	if (!wait)
		return false;
	if (!ro->until)
		wait_until(&qp->req, ctx->now + wait);
	ro->nak = true;
	return true;
}

/* @took is less than an answer takes. */
static bool sooner(const struct roe_req *req, u64 took)
{
	return took < req->rtt_min - req->rtt_min / 4;
}

/*
 * Is a response with this PSN likely the answer to the last copy of its request? If all of them
 * were waited for when that was sent, the answers to the first copy have come.
 */
static bool answers_last(const struct roe_req *req, const struct roe_ctx *ctx, u32 psn)
{
	const struct roe_reorder *ro = &req->reorder;

	if (roe_psn_diff(psn, ro->once_psn) >= 0)
		return true;
	return ro->patience && req->rtt_min && roe_psn_diff(psn, ro->waited_psn) < 0 &&
	       roe_psn_diff(psn, req->wqe_psn) < 0 && !sooner(req, ctx->now - ro->again);
}

/**
 * roe_reorder_keep() - keep a response whose turn has not come
 * @qp: the response at una is missing
 * @ctx: the time
 * @rx: the response, not before una
 *
 * Return: true if it is kept: una may only be late. Then una moves, or roe_completer_overdue()
 * is called.
 */
bool roe_reorder_keep(struct roe_qp *qp, const struct roe_ctx *ctx,
		      const struct roe_rx_pkt *rx)
{
	struct roe_req *req = &qp->req;
	struct roe_reorder *ro = &req->reorder;

	if (!patience(req) || !answers_last(req, ctx, rx->p.psn) ||
	    !roe_early_keep(&ro->early, req->una, rx, qp->mtu))
		return false;
	/* una was sent again already: if that is lost as well a deadline finds out */
	if (!ro->until && !req->rewound)
		wait_for_una(req, ctx, 0);
	return true;
}

/**
 * roe_reorder_drop() - a response whose turn has not come is thrown away
 * @req: the response at una is missing, and was not asked for again since una moved
 * @ctx: the time
 * @psn: of the response
 *
 * Return: true if the caller need not send again now: una may still come, and
 * roe_completer_overdue() is called to ask again for what was thrown away.
 */
bool roe_reorder_drop(struct roe_req *req, const struct roe_ctx *ctx, u32 psn)
{
	struct roe_reorder *ro = &req->reorder;

	if (!ro->until && ctx->now >= req->implied_until)
		return false;
	if (!ro->dropped || roe_psn_diff(psn, ro->dropped_psn) > 0)
		ro->dropped_psn = psn;
	ro->dropped = true;
	if (!ro->until)
		wait_for_una(req, ctx, 0);
	return true;
}

/**
 * roe_reorder_kept() - una has moved, and responses may be kept
 * @qp: all that are kept are after una, which is missing
 * @ctx: the time
 */
void roe_reorder_kept(struct roe_qp *qp, const struct roe_ctx *ctx)
{
	const struct roe_reorder *ro = &qp->req.reorder;

	if (ro->early.nr && !ro->until && !qp->req.rewound)
		wait_for_una(&qp->req, ctx, 0);
}

/**
 * roe_reorder_forget() - requests in flight are sent again: free the kept responses
 * @req: of an RC QP
 * @from: first PSN that is sent again, una or after it
 *
 * Responses to the first copy, from @from on, should not be mixed with those to the second:
 * memory is read again.
 */
void roe_reorder_forget(struct roe_req *req, u32 from)
{
	struct roe_early_set *set = &req->reorder.early;
	s32 before = roe_psn_diff(from, req->una);

	req->reorder.once_psn = req->max_psn;
	if (before < (s32)set->size)
		roe_early_skip(set, from, set->size - before);
}

/**
 * roe_reorder_again() - una is sent again, and all behind it: wait for nothing
 * @req: of an RC QP
 */
void roe_reorder_again(struct roe_req *req)
{
	if (!req->reorder.until)
		req->reorder.waited_psn = req->una;
	req->reorder.until = 0;
	req->reorder.asked = 0;
	req->reorder.nak = false;
	req->reorder.own = req->reorder.dropped;
	req->reorder.dropped = false;
	roe_reorder_forget(req, req->una);
}

/**
 * roe_reorder_sent_twice() - has una been sent again, or is about to be?
 * @req: of an RC QP
 *
 * Return: true: nobody can tell which of the two copies an answer is for.
 */
bool roe_reorder_sent_twice(const struct roe_req *req)
{
	return roe_psn_diff(req->una, req->reorder.once_psn) < 0;
}

/*
 * una has moved after it was sent again: by the answer to that, or too soon for one (it was
 * late)?
 */
static void learn(struct roe_req *req, u64 took)
{
	struct roe_reorder *ro = &req->reorder;

	if (sooner(req, took)) {
		ro->patience = clamp(2 * patience(req), PATIENCE_MIN, PATIENCE_MAX);
		ro->losses = 0;
	} else if (ro->patience && !ro->own && ++ro->losses == LOSSES_MAX) {
		ro->patience = 0;
		ro->losses = 0;
	}
	if (req->rtt_min && !ro->own)
		ro->tried = true;
}

/**
 * roe_reorder_progress() - una has moved, while a gap was known (in_disorder())
 * @req: of an RC QP
 * @ctx: the time
 */
void roe_reorder_progress(struct roe_req *req, const struct roe_ctx *ctx)
{
	struct roe_reorder *ro = &req->reorder;

	if (ro->asked) {
		learn(req, ctx->now - ro->asked);
	} else if (ro->until) {
		ro->losses = 0;
		if (ro->once) {
			ro->patience = patience(req);
			ro->tried = true;
		}
	}
	ro->asked = 0;
	ro->until = 0;
	ro->nak = false;
	if (ro->dropped && roe_psn_diff(req->una, ro->dropped_psn) > 0)
		ro->dropped = false;
	/* no other event tells that this response is missing when una gets there */
	if (ro->dropped)
		wait_for_una(req, ctx, req->srtt / 4);
}

/**
 * roe_reorder_reset() - no gap, nothing known
 * @req: about to be cleared; what it has kept is freed
 * @psn: sq_psn
 *
 * Return: the state to begin with.
 */
struct roe_reorder roe_reorder_reset(struct roe_req *req, u32 psn)
{
	struct roe_reorder fresh = { .once_psn = psn };

	roe_early_purge(&req->reorder.early);
	fresh.early = req->reorder.early;
	return fresh;
}
