// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * One round of a QP's engines: what a burst is filled with, in which order, and which
 * engine gets a received packet. An engine takes many packets from the middle of one message at
 * once: a row.
 *
 * A part of the protocol (transport.h): it knows neither skb nor device, and KUnit runs its
 * rounds between two QPs. All functions here: qp->lock held, softirqs disabled, RCU read-side
 * section.
 */
#include "trace.h"
#include "transport.h"

/* Packets dispatched one by one after a row that could not be taken at once. */
#define ROW_RETRY	8

/* Returns the number of requests added to @txb; sets @more if there are more. */
static unsigned int emit_requests(struct roe_qp *qp, struct roe_ctx *ctx, struct roe_txb *txb,
				  bool *more)
{
	unsigned int n = txb->n;

	*more |= roe_requester_emit(qp, ctx, txb);
	return txb->n - n;
}

/*
 * Emit the ACK that waited for the requests in this burst (echo.c). It may not go with them if
 * requests have changed to the other way, direct or network: there it could overtake responses
 * sent before it.
 */
static bool emit_late_ack(struct roe_qp *qp, struct roe_ctx *ctx, struct roe_txb *txb)
{
	if (qp->resp.direct != txb->direct)
		return roe_resp_owes(&qp->resp);
	return roe_answer_emit(qp, ctx, txb);
}

static bool emit(struct roe_qp *qp, struct roe_ctx *ctx, struct roe_txb *txb)
{
	bool more = false, waits = qp->resp.echo.until;
	unsigned int requests = 0;

	if (roe_qp_is_ud(qp))
		return roe_ud_emit(qp, ctx, txb);
	qp->resp.burst++;
	if (unlikely(qp->resp.cnp_due))
		roe_cc_emit(qp, txb);
	if (unlikely(qp->req.asking) && !ctx->answers_only && roe_requester_ask(qp, ctx, txb))
		return true;
	/* responses keep their order, and so do requests; neither has to wait for the other */
	if (qp->crowded && !ctx->answers_only)
		requests = emit_requests(qp, ctx, txb, &more);
	if (!ctx->requests_only)
		more |= roe_answer_emit(qp, ctx, txb);
	/* requests come in the next burst, also if answers wait for a page or for their time */
	if (ctx->answers_only) {
		qp->crowded = roe_sq_has_requests(&qp->sq) || qp->req.asking;
		return qp->crowded || !qp->resp.stalled;
	}
	qp->crowded = !qp->crowded && !roe_txb_room(txb);
	requests += emit_requests(qp, ctx, txb, &more);
	if (requests)
		roe_echo_answer(qp, ctx, requests);
	if (ctx->requests_only)
		return more || (roe_resp_owes(&qp->resp) && !qp->resp.stalled);
	if (requests && waits)
		more |= emit_late_ack(qp, ctx, txb);
	return more;
}

/**
 * roe_qp_emit() - fill a burst: responses, requests, the ACK that waited for the requests
 * @qp: qp->lock held
 * @ctx: the time; takes notifications
 * @txb: empty
 *
 * Return: true if more is to be sent than fits into the burst, or more is to be done than one run
 * does; in the latter case the burst may be empty.
 */
bool roe_qp_emit(struct roe_qp *qp, struct roe_ctx *ctx, struct roe_txb *txb)
{
	unsigned int i;
	bool more;

	roe_qp_assert_locked(qp);
	txb->invalidates = false;
	txb->copies = false;
	/* these may name memory that was lent to another burst */
	ctx->source.mr = NULL;
	ctx->answer.mr = NULL;
	more = emit(qp, ctx, txb);
	if (txb->n > 1 && qp->type == IB_QPT_RC && !txb->direct)
		roe_trains_sent(qp, ctx->now, txb);
	if (trace_roe_packet_out_enabled())
		for (i = 0; i < txb->n; i++)
			trace_roe_packet_out(qp, &txb->pkt[i].p, txb->direct);
	return more;
}

ROE_EXPORT_FOR_TEST(roe_qp_emit);

static bool may_receive(const struct roe_qp *qp)
{
	return qp->state == IB_QPS_RTR || qp->state == IB_QPS_RTS ||
	       qp->state == IB_QPS_SQD || qp->state == IB_QPS_SQE;
}

/**
 * roe_qp_dispatch() - give one proven packet to its engine
 * @qp: qp->lock held
 * @ctx: takes notifications and events
 * @pkt: of this QP's transport
 */
void roe_qp_dispatch(struct roe_qp *qp, struct roe_ctx *ctx, const struct roe_rx_pkt *pkt)
{
	u32 flags = roe_opcode(pkt->p.opcode)->flags;

	roe_qp_assert_locked(qp);
	trace_roe_packet_in(qp, &pkt->p, ctx->direct);
	if (!may_receive(qp))
		return;
	if (unlikely(pkt->ce))
		roe_cc_marked(qp, ctx, &pkt->p);
	if (roe_qp_is_ud(qp)) {
		roe_ud_receive(qp, ctx, pkt);
		return;
	}
	if (qp->state == IB_QPS_RTR && !qp->comm_est && !(flags & ROE_F_CNP)) {
		qp->comm_est = true;
		ctx->events |= BIT(IB_EVENT_COMM_EST);
	}
	if (flags & ROE_F_RESPONSE)
		roe_completer_receive(qp, ctx, pkt);
	else if (unlikely(flags & ROE_F_CNP))
		roe_cc_notified(qp, ctx, &pkt->p);
	else
		roe_responder_receive(qp, ctx, pkt);
}

ROE_EXPORT_FOR_TEST(roe_qp_dispatch);

/*
 * Does this run know non-revocable memory that the payload of a packet with @flags may go to? For
 * WRITEs the QP itself knows (resp.va, resp.rkey).
 */
static bool knows_target(const struct roe_ctx *ctx, u32 flags)
{
	if (flags & ROE_F_RESPONSE)
		return ctx->brought.mr;
	return flags & ROE_F_SEND ? !!ctx->received.mr : true;
}

/*
 * Number of packets from @row->first on that are alike: from the middle of one message, each with
 * a payload of one path MTU and the next PSN. An engine may take these at once. 0: the first packet
 * is dispatched alone.
 */
static unsigned int row_length(const struct roe_qp *qp, const struct roe_ctx *ctx,
			       const struct roe_rx_row *row)
{
	const struct roe_pkt *first = &row->first->p;
	u32 flags = roe_opcode(first->opcode)->flags;
	unsigned int i;

	if (!(flags & ROE_F_MIDDLE) || qp->type != IB_QPT_RC || qp->state != IB_QPS_RTS ||
	    !knows_target(ctx, flags) || trace_roe_packet_in_enabled())
		return 0;
	for (i = 0; i < row->n; i++) {
		const struct roe_rx_pkt *rx = roe_rx_at(row, i);

		if (rx->p.opcode != first->opcode || rx->p.len != qp->mtu || rx->ce ||
		    rx->p.psn != roe_psn_add(first->psn, i))
			break;
	}
	return i;
}

/* Cuts @row to the packets taken; false: none was. */
static bool take_row(struct roe_qp *qp, struct roe_ctx *ctx, struct roe_rx_row *row)
{
	if (roe_opcode(row->first->p.opcode)->flags & ROE_F_RESPONSE)
		return roe_completer_row(qp, ctx, row);
	return roe_responder_row(qp, ctx, row);
}

static bool stream_ok(const struct roe_qp *qp)
{
	return qp->type == IB_QPT_RC && qp->state == IB_QPS_RTS && !trace_roe_packet_in_enabled();
}

/*
 * The same for messages of one packet each. Only their opcodes are known to be alike, so the engine
 * finds out how many can be taken while it takes them.
 */
static bool take_stream(struct roe_qp *qp, struct roe_ctx *ctx, struct roe_rx_row *row)
{
	switch (row->first->p.opcode) {
	case ROE_OP_SEND_ONLY:
	case ROE_OP_SEND_ONLY_IMM:
	case ROE_OP_WRITE_ONLY:
	case ROE_OP_WRITE_ONLY_IMM:
	case ROE_OP_READ_REQ:
		return stream_ok(qp) && roe_responder_stream(qp, ctx, row);
	case ROE_OP_READ_RESP_ONLY:
		return stream_ok(qp) && roe_completer_stream(qp, ctx, row);
	default:
		return false;
	}
}

/**
 * roe_qp_dispatch_row() - give proven packets to their engines, in order
 * @qp: qp->lock held
 * @ctx: takes notifications and events
 * @row: of this QP's transport
 *
 * The result is that of roe_qp_dispatch() for one packet after the other. Their completions are
 * posted together, but before any packet leaves: a peer that has the ACK of a message may rely on
 * the completion being there.
 */
void roe_qp_dispatch_row(struct roe_qp *qp, struct roe_ctx *ctx, const struct roe_rx_row *row)
{
	struct roe_rx_row part = *row;
	unsigned int i = 0, alone = 0;

	ctx->collect = row->n > 1;
	while (i < row->n) {
		part.first = roe_rx_at(row, i);
		part.n = row->n - i;
		if (part.n > 1 && take_stream(qp, ctx, &part)) {
			i += part.n;
			continue;
		}
		part.n = row->n - i;
		if (part.n > 1)
			part.n = alone ? 1 : row_length(qp, ctx, &part);
		if (part.n > 1 && take_row(qp, ctx, &part)) {
			i += part.n;
			continue;
		}
		/* e.g. payload of a GRO list in odd pieces: the next packets may be like it */
		if (part.n > 1)
			alone = ROW_RETRY;
		else if (alone)
			alone--;
		roe_qp_dispatch(qp, ctx, part.first);
		i++;
	}
	roe_complete_collected(qp, ctx);
	ctx->collect = false;
}

ROE_EXPORT_FOR_TEST(roe_qp_dispatch_row);

/**
 * roe_qp_dispatch_direct() - give the packets of a direct burst to their engines
 * @qp: qp->lock held
 * @ctx: takes notifications and events
 * @txb: no longer holds any MR that was lent to it afterwards
 *
 * While the burst holds accesses to MRs, no packet may be executed that waits for other accesses to
 * end, as an invalidation does. A burst with lent MRs has no invalidation in it; requests kept from
 * ahead of a gap, which came from the network, may have one, so they are dropped and the peer sends
 * them again. A burst whose memory was revoked on the way is lost.
 */
void roe_qp_dispatch_direct(struct roe_qp *qp, struct roe_ctx *ctx, struct roe_txb *txb)
{
	struct roe_rx_row row = {
		.first = &txb->pkt[0].rx,
		.stride = sizeof(txb->pkt[0]),
		.n = txb->n,
	};

	if (txb->nr_mrs)
		roe_responder_forget(qp);
	if (!roe_mr_hold_again(txb)) {
		roe_qp_count_many(qp, ROE_STAT_RX_DROP, txb->n);
		return;
	}
	roe_qp_dispatch_row(qp, ctx, &row);
	roe_mr_return(txb);
}

ROE_EXPORT_FOR_TEST(roe_qp_dispatch_direct);
