// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Responder of RC and UC: the peer's requests to memory (IBTA 9.7.4, 9.8.2, 9.9.3; wire.md 4.2
 * to 4.4).
 *
 * A request is checked in the order of wire.md 4.3: PSN, opcode sequence, access flags, receive
 * WQE, lengths, R_Key; only then is memory touched. SENDs and WRITEs are executed here,
 * requests that are answered with more than an ACK in query.c. answer.c is told what the peer
 * is owed, for new requests and for duplicates.
 *
 * UC requests pass the same checks but are not answered: a message that cannot be taken as a
 * whole is dropped, and the next First or Only starts afresh.
 *
 * In struct roe_resp this file writes the fields under "requests", and the receive WQE (that of
 * datagrams: ud.c). query.c and answer.c call nothing in here.
 *
 * All functions: qp->lock held, in an RCU read-side section (see transport.h).
 */
#include "answer.h"
#include "early.h"

/* A refusal: what goes on the wire and what the local side hears of it. */
struct verdict {
	u8		syndrome;	/* 0: accepted */
	enum ib_wc_status status;	/* of the receive WQE in use; success: it is flushed */
};

#define ACCEPT		((struct verdict){ 0 })
#define REFUSE(s, wc)	((struct verdict){ ROE_NAK_##s, IB_WC_##wc })

/* One NAK 0x60 or RNR NAK per ePSN, until the expected packet comes (wire.md 4.2). */
static void owe_nak(struct roe_resp *resp, u8 syndrome)
{
	resp->nak_state = syndrome;
	roe_answer_owe(resp, resp->psn, syndrome);
}

/* A gap begins at ePSN. If it goes on, the peer is told again when @pkts packets were taken. */
static void owe_gap_nak(struct roe_resp *resp, u32 pkts)
{
	resp->gap_psn = resp->psn;
	resp->gap_pkts = pkts;
	resp->gap_told = 0;
	owe_nak(resp, ROE_NAK_PSN_SEQ);
}

/*
 * A fatal NAK. The error is reported by the receive WQE in use, or by an event if there is none
 * or the WQE is only flushed (R14).
 */
static void refuse(struct roe_qp *qp, struct roe_ctx *ctx, struct verdict v)
{
	struct roe_resp *resp = &qp->resp;

	if (resp->rwqe_valid && v.status != IB_WC_SUCCESS) {
		struct ib_wc wc = {
			.wr_id = resp->rwqe.wr_id,
			.status = v.status,
			.opcode = IB_WC_RECV,
		};

		resp->rwqe_valid = false;
		roe_complete_recv(qp, ctx, &wc, true);
	} else {
		ctx->events |= v.syndrome == ROE_NAK_REM_ACCESS ? BIT(IB_EVENT_QP_ACCESS_ERR) :
								  BIT(IB_EVENT_QP_REQ_ERR);
	}
	roe_answer_fatal(qp, resp->psn, v.syndrome);
}

/* Opcode sequence (wire.md section 2). */
static bool in_sequence(const struct roe_resp *resp, u32 flags)
{
	if (!(flags & ROE_F_REQUEST))
		return false;
	if (!(flags & (ROE_F_SEND | ROE_F_WRITE)) || (flags & ROE_F_START))
		return !resp->in_msg;
	return resp->in_msg & flags;
}

static bool allowed(const struct roe_qp *qp, const struct roe_pkt *p, u32 flags)
{
	if (flags & ROE_F_WRITE)
		return qp->access & IB_ACCESS_REMOTE_WRITE;
	return flags & ROE_F_SEND || roe_query_allowed(qp, p, flags);
}

/* Take a receive WQE if this packet needs one and none is in use; false: receiver not ready. */
static bool take_rwqe(struct roe_qp *qp, u32 flags)
{
	if (!(flags & ROE_F_RWQE) || qp->resp.rwqe_valid)
		return true;
	qp->resp.rwqe_valid = roe_wqe_next_recv(qp, &qp->resp.rwqe, 0);
	return qp->resp.rwqe_valid;
}

static struct verdict do_send(struct roe_qp *qp, struct roe_ctx *ctx,
			      const struct roe_rx_pkt *rx, u32 flags)
{
	struct roe_resp *resp = &qp->resp;
	const struct roe_rwqe *rwqe = &resp->rwqe;
	bool ok;

	if (flags & ROE_F_START)
		resp->done = 0;
	if (rwqe->status != IB_WC_SUCCESS)
		return REFUSE(REM_OP, LOC_QP_OP_ERR);
	if ((u64)resp->done + rx->p.len > rwqe->length)
		return REFUSE(INV_REQ, LOC_LEN_ERR);
	if (flags & ROE_F_START && flags & ROE_F_END)
		ok = roe_sge_receive_only(qp, ctx, rx->vec, rx->p.len);
	else
		ok = roe_sge_receive(qp, ctx, resp->done, rx->vec, rx->p.len);
	if (!ok)
		return REFUSE(REM_OP, LOC_PROT_ERR);
	resp->done += rx->p.len;
	if ((flags & ROE_F_IETH) && roe_mr_invalidate(qp, rx->p.rkey, false))
		return REFUSE(REM_ACCESS, REM_INV_REQ_ERR);
	return ACCEPT;
}

/*
 * The first packet proves the whole range, each later packet proves that it is still valid.
 * Where the MR lasts, a proof made in this run is enough.
 */
static struct roe_mr *write_target(struct roe_qp *qp, struct roe_ctx *ctx)
{
	const struct roe_resp *resp = &qp->resp;
	struct roe_mr *mr;

	if (ctx->target)
		return ctx->target;
	mr = roe_mr_get_remote_again(qp, &ctx->written, resp->rkey, IB_ACCESS_REMOTE_WRITE,
				     resp->va, resp->dmalen);
	if (mr && roe_mr_lasts(mr))
		ctx->target = mr;
	return mr;
}

static struct verdict refuse_write(u32 flags)
{
	if (flags & ROE_F_RWQE)
		return REFUSE(REM_ACCESS, LOC_ACCESS_ERR);
	return REFUSE(REM_ACCESS, SUCCESS);
}

/*
 * If memory may not be written, the receive WQE that this packet takes, if any (WRITE with
 * immediate), gets LOC_ACCESS_ERR; that status is used for nothing else. An error in the
 * request itself is reported by an event, and the receive WQE is flushed.
 */
static struct verdict do_write(struct roe_qp *qp, struct roe_ctx *ctx,
			       const struct roe_rx_pkt *rx, u32 flags)
{
	struct roe_resp *resp = &qp->resp;
	struct roe_mr *mr;
	void *addr;
	bool ok;
	u64 end;

	if (flags & ROE_F_START) {
		/* who sees bytes of this WRITE sees all earlier WRITEs (wire.md 9) */
		smp_wmb();
		resp->va = rx->p.va;
		resp->rkey = rx->p.rkey;
		resp->dmalen = rx->p.dmalen;
		resp->done = 0;
		ctx->target = NULL;
	}
	end = (u64)resp->done + rx->p.len;
	if (resp->dmalen > ROE_MSG_MAX || end > resp->dmalen ||
	    ((flags & ROE_F_END) && end != resp->dmalen))
		return REFUSE(INV_REQ, SUCCESS);
	addr = end && rx->p.len == end ?
	       roe_mr_place(&ctx->written, resp->rkey, resp->va, resp->dmalen) : NULL;
	if (addr) {
		roe_sge_write_place(addr, rx->vec, rx->p.len);
	} else if (resp->dmalen) {
		mr = write_target(qp, ctx);
		if (!mr)
			return refuse_write(flags);
		ok = roe_sge_write_mr(qp, mr, resp->va + resp->done, rx->vec, rx->p.len,
				      resp->dmalen - resp->done);
		roe_mr_put(mr);
		if (!ok)
			return refuse_write(flags);
	}
	resp->done = end;
	return ACCEPT;
}

static bool collect_rwqe(struct roe_qp *qp, struct roe_ctx *ctx, const struct roe_pkt *p,
			 u32 flags)
{
	struct roe_resp *resp = &qp->resp;
	struct roe_done *done = roe_complete_later(qp, ctx, qp->rcq, resp->done);

	if (!done)
		return false;
	done->wr_id = resp->rwqe.wr_id;
	done->byte_len = resp->done;
	done->src_qp = qp->dest_qpn;
	done->imm_data = 0;
	done->opcode = flags & ROE_F_WRITE ? IB_WC_RECV_RDMA_WITH_IMM : IB_WC_RECV;
	done->wc_flags = 0;
	done->port_num = 1;
	done->solicited = p->se;
	if (flags & ROE_F_IMM) {
		done->imm_data = p->imm;
		done->wc_flags = IB_WC_WITH_IMM;
	} else if (flags & ROE_F_IETH) {
		done->invalidate_rkey = p->rkey;
		done->wc_flags = IB_WC_WITH_INVALIDATE;
	}
	return true;
}

static void report_rwqe(struct roe_qp *qp, struct roe_ctx *ctx, const struct roe_pkt *p,
			u32 flags)
{
	struct roe_resp *resp = &qp->resp;
	struct ib_wc wc = {
		.wr_id = resp->rwqe.wr_id,
		.status = IB_WC_SUCCESS,
		.opcode = flags & ROE_F_WRITE ? IB_WC_RECV_RDMA_WITH_IMM : IB_WC_RECV,
		.byte_len = resp->done,
		.src_qp = qp->dest_qpn,
	};

	if (flags & ROE_F_IMM) {
		wc.ex.imm_data = p->imm;
		wc.wc_flags = IB_WC_WITH_IMM;
	} else if (flags & ROE_F_IETH) {
		wc.ex.invalidate_rkey = p->rkey;
		wc.wc_flags = IB_WC_WITH_INVALIDATE;
	}
	roe_complete_recv(qp, ctx, &wc, p->se);
}

/* A receive WQE is used up: SEND, or WRITE with immediate. */
static void complete_rwqe(struct roe_qp *qp, struct roe_ctx *ctx, const struct roe_pkt *p,
			  u32 flags)
{
	qp->resp.rwqe_valid = false;
	if (!collect_rwqe(qp, ctx, p, flags))
		report_rwqe(qp, ctx, p, flags);
}

static struct verdict execute(struct roe_qp *qp, struct roe_ctx *ctx,
			      const struct roe_rx_pkt *rx, u32 flags)
{
	if (flags & ROE_F_SEND)
		return do_send(qp, ctx, rx, flags);
	if (flags & ROE_F_WRITE)
		return do_write(qp, ctx, rx, flags);
	return (struct verdict){ roe_query_execute(qp, ctx, rx, flags) };
}

static void count(struct roe_qp *qp, u32 flags)
{
	if (flags & ROE_F_READ)
		roe_qp_count(qp, ROE_STAT_RX_READ);
	else if (flags & ROE_F_ATOMIC)
		roe_qp_count(qp, ROE_STAT_RX_ATOMIC);
	else if ((flags & (ROE_F_WRITE | ROE_F_END)) == (ROE_F_WRITE | ROE_F_END))
		roe_qp_count(qp, ROE_STAT_RX_WRITE);
}

/*
 * The packet was executed: ePSN, MSN, message state, completion, ACK. Keep in step with
 * roe_responder_stream().
 */
static void accept(struct roe_qp *qp, struct roe_ctx *ctx, const struct roe_pkt *p, u32 flags)
{
	struct roe_resp *resp = &qp->resp;
	u32 npsn = flags & ROE_F_READ ? roe_psn_count(p->dmalen, qp->mtu) : 1;

	count(qp, flags);
	roe_early_skip(&resp->early, resp->psn, npsn);
	resp->psn = roe_psn_add(resp->psn, npsn);
	resp->nak_state = 0;
	if (flags & (ROE_F_SEND | ROE_F_WRITE)) {
		resp->in_msg = flags & ROE_F_END ? 0 : flags & (ROE_F_SEND | ROE_F_WRITE);
		resp->done_psn = p->psn;
		resp->done_known = true;
	} else if (roe_psn_diff(resp->psn, resp->done_psn) <= 0) {
		/* 2^23 PSNs or more ago: an ACK of it would seem to be one of a later request */
		resp->done_known = false;
	}
	if (!(flags & (ROE_F_SEND | ROE_F_WRITE)) || (flags & ROE_F_END))
		resp->msn = roe_psn_add(resp->msn, 1);
	if (flags & ROE_F_COMP)
		complete_rwqe(qp, ctx, p, flags);
	/* an ACK also replaces an owed NAK that did not leave before its gap closed */
	if ((p->ackreq || resp->ack_due) && (flags & (ROE_F_SEND | ROE_F_WRITE)))
		roe_answer_owe(resp, p->psn, ROE_AETH_ACK | ROE_AETH_NO_CREDITS);
	if (p->ackreq && (flags & (ROE_F_SEND | ROE_F_WRITE)) && (flags & ROE_F_START) &&
	    (flags & ROE_F_END))
		roe_echo_message(qp, ctx);
}

/**
 * roe_responder_forget() - drop the requests that were kept from behind a gap
 * @qp: RC or UC
 *
 * For the protocol they are lost. Also called after resp.kept_until: all QPs share the memory
 * for kept requests, and a peer that goes silent in the middle of a gap must not hold its part
 * of it until the QP is destroyed.
 */
void roe_responder_forget(struct roe_qp *qp)
{
	qp->resp.kept_until = 0;
	roe_early_purge(&qp->resp.early);
}

/*
 * Owe an RNR NAK and drop the kept requests: the peer sends everything behind the refused
 * packet again in any case. A kept request executed right after that packet would be
 * acknowledged before rdma_rxe has sent it again (see roe_answer_put_off()).
 */
static void owe_rnr(struct roe_qp *qp, u8 syndrome)
{
	roe_qp_count(qp, ROE_STAT_RNR_SENT);
	roe_responder_forget(qp);
	owe_nak(&qp->resp, syndrome);
}

/* A page of on-demand memory is missing: the peer is to send the request again, later. */
static void owe_page_nak(struct roe_qp *qp, bool busy)
{
	owe_rnr(qp, roe_resp_page_nak(&qp->resp, busy));
}

static void owe_rnr_nak(struct roe_qp *qp)
{
	qp->resp.rnr_look = 0;
	owe_rnr(qp, ROE_AETH_RNR_NAK | (qp->attr.min_rnr_timer & ROE_AETH_VALUE_MASK));
}

/* How long an RNR NAK may wait; 0: not at all. */
static u64 rnr_patience(const struct roe_qp *qp)
{
	/*
	 * The NAK 0x60 that ends the wait counts against the peer's retry_cnt. As a rule both
	 * ends have the same retry_cnt from the CM, and get it with RTS. If it is 0, the NAK
	 * 0x60 ends a connection that an RNR NAK would leave alone.
	 */
	if (qp->state != IB_QPS_RTS || !qp->attr.retry_cnt ||
	    roe_timer_rnr_ns(qp->attr.min_rnr_timer) < ROE_RNR_LONG_NS)
		return 0;
	if (!qp->timeout_ns)
		return ROE_RNR_PATIENCE_NS;
	/* the peer's ACK timeout, as a rule the same as ours, must not expire meanwhile */
	return min_t(u64, ROE_RNR_PATIENCE_NS, qp->timeout_ns / 4);
}

/*
 * There is no receive WQE, perhaps only because the process has not been scheduled since it had
 * one: on a busy host messages may well come faster than that. The RDMA-CM chooses an RNR timer
 * of 0.66 s, and with an rnr_retry of 0 the connection would be gone. So an RNR NAK that costs
 * the peer that much is delayed for a moment. A process rings no doorbell for a receive:
 * doorbells of the SQ look for the WQE, and so does the timer, at intervals that double.
 * Requests that arrive meanwhile count as lost; what came before is acknowledged.
 */
static void not_ready(struct roe_qp *qp, const struct roe_ctx *ctx)
{
	struct roe_resp *resp = &qp->resp;
	u64 patience = rnr_patience(qp);

	/* sent again, not copied by the network: the peer's timeout is the shorter one */
	if (resp->rnr_look) {
		if (ctx->now - resp->rnr_since >= ROE_RNR_LOOK_NS)
			owe_rnr_nak(qp);
		return;
	}
	if ((resp->nak_state & ROE_AETH_KIND_MASK) == ROE_AETH_RNR_NAK ||
	    patience < ROE_RNR_LOOK_NS) {
		owe_rnr_nak(qp);
		return;
	}
	resp->nak_state = ROE_AETH_RNR_NAK;
	resp->rnr_since = ctx->now;
	resp->rnr_look = ctx->now + ROE_RNR_LOOK_NS;
	resp->rnr_until = ctx->now + patience;
	if (!resp->ack_due && !resp->rsrc_pending && !resp->flush_nr)
		roe_answer_owe_again(resp);
}

/**
 * roe_responder_look() - look for the receive WQE that a delayed RNR NAK waits for
 * @qp: resp.rnr_look is set
 * @ctx: the time
 *
 * If it is there, a NAK 0x60 asks the peer for the packets that were dropped meanwhile.
 */
void roe_responder_look(struct roe_qp *qp, struct roe_ctx *ctx)
{
	struct roe_resp *resp = &qp->resp;

	if (take_rwqe(qp, ROE_F_RWQE)) {
		resp->rnr_look = 0;
		owe_gap_nak(resp, ROE_PROBE_PKTS);
	} else if (ctx->now >= resp->rnr_until) {
		owe_rnr_nak(qp);
	} else if (ctx->now >= resp->rnr_look) {
		resp->rnr_look = min(2 * ctx->now - resp->rnr_since, resp->rnr_until);
	}
}

ROE_EXPORT_FOR_TEST(roe_responder_look);

static void expected(struct roe_qp *qp, struct roe_ctx *ctx, const struct roe_rx_pkt *rx)
{
	struct roe_resp *resp = &qp->resp;
	u32 flags = roe_opcode(rx->p.opcode)->flags;
	bool busy = resp->fault.waiting;
	struct verdict v;

	if (!in_sequence(resp, flags) || !allowed(qp, &rx->p, flags)) {
		refuse(qp, ctx, REFUSE(INV_REQ, REM_INV_REQ_ERR));
		return;
	}
	if (!take_rwqe(qp, flags)) {
		not_ready(qp, ctx);
		return;
	}
	resp->rnr_look = 0;
	if (!roe_opcode_len_ok(rx->p.opcode, rx->p.len, qp->mtu)) {
		refuse(qp, ctx, flags & ROE_F_SEND ? REFUSE(INV_REQ, REM_INV_REQ_ERR) :
						     REFUSE(INV_REQ, SUCCESS));
		return;
	}
	v = execute(qp, ctx, rx, flags);
	if (!v.syndrome)
		accept(qp, ctx, &rx->p, flags);
	else if (roe_fault_missed(qp, ctx, &resp->fault))
		owe_page_nak(qp, busy);
	else if (v.syndrome == ROE_NAK_PSN_SEQ)
		owe_gap_nak(resp, ROE_PROBE_PKTS);
	else
		refuse(qp, ctx, v);
}

/*
 * A kept request is not worth an RNR NAK. If it finds no receive WQE, the kept requests are
 * dropped as if they had never been kept: the peer was told of the gap and sends again what
 * follows.
 */
static bool ready(struct roe_qp *qp, const struct roe_rx_pkt *rx)
{
	u32 flags = roe_opcode(rx->p.opcode)->flags;

	return !in_sequence(&qp->resp, flags) || !allowed(qp, &rx->p, flags) ||
	       take_rwqe(qp, flags);
}

/*
 * The expected packet, then the kept packets that waited for it. The peer is told at once how
 * far that went, because it may have sent no more than was missing: by an ACK or, if there is
 * another gap, by a NAK 0x60. While one gap goes on an AckReq gets an ACK, because a peer takes
 * a NAK for another loss and sends again what is on its way. But a peer that sends 4 packets
 * into the gap, then 8 and so on (requester.c), waits behind them for a NAK. If the peer goes
 * on sending again, the ACK waits until it has come to what the ACK is about
 * (roe_answer_put_off()).
 * A NAK that has not left (@owed) is replaced by the ACK of the packet that was missing, so the
 * peer sends nothing again: another gap, or a kept request without a receive WQE, then needs a
 * NAK of its own. The same holds while IP has the NAK, because IP may refuse it.
 */
static void expected_and_early(struct roe_qp *qp, struct roe_ctx *ctx,
			       const struct roe_rx_pkt *rx)
{
	struct roe_resp *resp = &qp->resp;
	bool owed = resp->ack_due && resp->ack_syndrome == ROE_NAK_PSN_SEQ;
	bool told = resp->nak_state == ROE_NAK_PSN_SEQ && !owed && !ctx->direct;
	bool unsure = owed || resp->nak_leaves;
	bool tell = rx->p.ackreq, closed = false;
	u32 psn = rx->p.psn;
	struct roe_early *early;

	expected(qp, ctx, rx);
	while (!resp->fatal && !resp->nak_state &&
	       (early = roe_early_take(&resp->early, resp->psn, &rx))) {
		if (ready(qp, rx) || unsure) {
			closed = true;
			expected(qp, ctx, rx);
		} else {
			roe_responder_forget(qp);
		}
		roe_early_free(early);
	}
	if (resp->kept_until)
		resp->kept_until = resp->early.nr ? ctx->now + ROE_EARLY_KEPT_NS : 0;
	if (resp->fatal || resp->nak_state)
		return;
	if (resp->early.nr && (closed || unsure))
		owe_gap_nak(resp, ROE_PROBE_PKTS);
	else if (resp->early.nr && tell &&
		 roe_psn_diff(resp->psn, resp->gap_psn) >= (s32)resp->gap_pkts)
		owe_gap_nak(resp, min_t(u32, 2 * resp->gap_pkts, ROE_EARLY_MAX));
	else if (closed && !resp->ack_due && !resp->rsrc_pending && !resp->flush_nr)
		roe_answer_owe_again(resp);
	else if (closed && told)
		roe_answer_put_off(qp, ctx, psn);
}

/*
 * A receive WQE that cannot be used is the fault of this side, so the error is reported: the
 * WQE fails and the QP with it (IBTA 9.9.3.2, class E). An error of the peer, or a loss, costs
 * the message only; its receive WQE is used again from the start.
 */
static void uc_refuse(struct roe_qp *qp, struct roe_ctx *ctx, struct verdict v)
{
	struct roe_resp *resp = &qp->resp;
	struct ib_wc wc = {
		.wr_id = resp->rwqe.wr_id,
		.status = v.status,
		.opcode = IB_WC_RECV,
	};

	resp->in_msg = 0;
	roe_qp_count(qp, ROE_STAT_RX_DROP);
	if (v.syndrome != ROE_NAK_REM_OP || !resp->rwqe_valid)
		return;
	resp->rwqe_valid = false;
	roe_complete_recv(qp, ctx, &wc, true);
	roe_complete_error(qp, ctx);
}

/* May the packet start a message, or go on with the open one? If so, that message is open. */
static bool uc_sequence(struct roe_resp *resp, u32 flags)
{
	u32 kind = flags & (ROE_F_SEND | ROE_F_WRITE);

	/* a First or Only where a Middle or Last is due ends the open message (R20) */
	if (!(flags & ROE_F_START) && resp->in_msg != kind)
		return false;
	resp->in_msg = kind;
	return true;
}

/* The expected packet, or the first one behind a gap. */
static void uc_expected(struct roe_qp *qp, struct roe_ctx *ctx, const struct roe_rx_pkt *rx)
{
	u32 flags = roe_opcode(rx->p.opcode)->flags;
	struct roe_resp *resp = &qp->resp;
	struct verdict v;

	if (!(flags & ROE_F_REQUEST) || !uc_sequence(resp, flags)) {
		resp->in_msg = 0;
		roe_qp_count(qp, ROE_STAT_RX_DROP);
		return;
	}
	if (!allowed(qp, &rx->p, flags) || !take_rwqe(qp, flags) ||
	    !roe_opcode_len_ok(rx->p.opcode, rx->p.len, qp->mtu)) {
		uc_refuse(qp, ctx, REFUSE(INV_REQ, SUCCESS));
		return;
	}
	v = execute(qp, ctx, rx, flags);
	if (v.syndrome) {
		/* a missing page costs the message */
		if (roe_fault_missed(qp, ctx, &resp->fault))
			v = REFUSE(INV_REQ, SUCCESS);
		uc_refuse(qp, ctx, v);
		return;
	}
	count(qp, flags);
	if (flags & ROE_F_END)
		resp->in_msg = 0;
	if (flags & ROE_F_COMP)
		complete_rwqe(qp, ctx, &rx->p, flags);
}

/*
 * By the specification UC has no duplicates, but networks copy and reorder packets: a packet a
 * little behind the ePSN came late and is not taken twice. Every other packet is new, and if
 * its PSN is not the ePSN something was lost (IBTA 9.8.2.2, wire.md 4.4). The limits
 * (ROE_UC_LATE_*) keep the QP from ignoring half of the PSN space after an outage, and from
 * ignoring a peer that begins anew: in UC nothing else tells these from late packets.
 */
static void uc_receive(struct roe_qp *qp, struct roe_ctx *ctx, const struct roe_rx_pkt *rx)
{
	struct roe_resp *resp = &qp->resp;
	s32 ahead = roe_psn_diff(rx->p.psn, resp->psn);

	if (ahead < 0 && ahead >= -ROE_UC_LATE_PKTS && resp->uc_news &&
	    ctx->now - resp->uc_news < ROE_UC_LATE_NS) {
		roe_qp_count(qp, ROE_STAT_DUP_REQ);
		return;
	}
	if (ahead) {
		roe_qp_count(qp, ROE_STAT_OUT_OF_SEQ);
		resp->in_msg = 0;
	}
	resp->uc_news = ctx->now;
	resp->psn = roe_psn_add(rx->p.psn, 1);
	uc_expected(qp, ctx, rx);
}

/**
 * roe_responder_receive() - one request of the peer
 * @qp: RC or UC, in RTR, RTS, SQD or SQE
 * @ctx: takes notifications and events
 * @rx: proven packet; any opcode that is not a response
 */
void roe_responder_receive(struct roe_qp *qp, struct roe_ctx *ctx,
			   const struct roe_rx_pkt *rx)
{
	struct roe_resp *resp = &qp->resp;
	s32 ahead = roe_psn_diff(rx->p.psn, resp->psn);

	if (qp->type == IB_QPT_UC) {
		uc_receive(qp, ctx, rx);
		return;
	}
	if (resp->fatal)
		return;
	/*
	 * Answers take the way of the requests, but a late copy from the network says nothing
	 * about the way that the peer uses now. A direct answer takes no time and may overtake
	 * one on the wire: change back to the direct way only once the requester has all
	 * earlier answers.
	 */
	if (ctx->direct ? ctx->fresh : !ahead)
		resp->direct = ctx->direct;
	if (ahead < 0) {
		roe_answer_duplicate(qp, ctx, &rx->p);
	} else if (!ahead) {
		expected_and_early(qp, ctx, rx);
	} else {
		/* if an ACK waits, a peer that sends in order has come past it (wait_for_rest()) */
		resp->ack_after = 0;
		if (!resp->nak_state) {
			roe_qp_count(qp, ROE_STAT_OUT_OF_SEQ);
			owe_gap_nak(resp, ROE_PROBE_PKTS);
		}
		/* the peer sends what follows an RNR NAK again in any case (wire.md 4.2) */
		if (resp->nak_state == ROE_NAK_PSN_SEQ &&
		    roe_early_keep(&resp->early, resp->psn, rx, qp->mtu))
			resp->kept_until = ctx->now + ROE_EARLY_KEPT_NS;
	}
}

/*
 * Where the payload of the next packets of the message in progress goes, *@len bytes at *@va;
 * of a SEND *@len is cut to what lies in one element of the receive WQE. The MR is held. NULL:
 * these packets cannot be proven all at once.
 */
static struct roe_mr *row_target(struct roe_qp *qp, struct roe_ctx *ctx, u32 flags, u32 *len,
				 u64 *va)
{
	struct roe_resp *resp = &qp->resp;
	u64 end = (u64)resp->done + *len;
	struct roe_mr *mr;

	if (flags & ROE_F_SEND) {
		if (resp->rwqe.status != IB_WC_SUCCESS || end > resp->rwqe.length)
			return NULL;
		return roe_sge_room(qp, ctx, resp->done, len, va);
	}
	*va = resp->va + resp->done;
	mr = end > resp->dmalen ? NULL : write_target(qp, ctx);
	if (!mr || roe_mr_lasts(mr))
		return mr;
	/* an access has preemption off, and a row is too long for that with PREEMPT_RT */
	if (!mr->odp && !IS_ENABLED(CONFIG_PREEMPT_RT))
		return mr;
	roe_mr_put(mr);
	return NULL;
}

/* Is nothing unusual going on, and is a packet with @flags and @psn what is expected? */
static bool row_expected(const struct roe_qp *qp, u32 flags, u32 psn)
{
	const struct roe_resp *resp = &qp->resp;

	return resp->psn == psn && !resp->fatal && !resp->nak_state && !resp->early.nr &&
	       resp->in_msg == (flags & (ROE_F_SEND | ROE_F_WRITE)) &&
	       (!(flags & ROE_F_WRITE) || qp->access & IB_ACCESS_REMOTE_WRITE);
}

/**
 * roe_responder_row() - packets from the middle of a SEND or WRITE at once
 * @qp: RC, in RTS
 * @ctx: what this run knows of the message
 * @row: requests as roe_qp_dispatch_row() puts them together; cut to those that were taken
 *
 * Whatever could go wrong with any of them is checked before the first is taken. If a check
 * fails the packets go one by one, with the same result for those before the bad one.
 *
 * Return: false: none was taken.
 */
bool roe_responder_row(struct roe_qp *qp, struct roe_ctx *ctx, struct roe_rx_row *row)
{
	const struct roe_pkt *p = &row->first->p;
	u32 flags = roe_opcode(p->opcode)->flags;
	struct roe_resp *resp = &qp->resp;
	u32 len = row->n * qp->mtu;
	struct roe_mr *mr;
	bool asked;
	unsigned int i;
	u64 va;

	if (!row_expected(qp, flags, p->psn))
		return false;
	mr = row_target(qp, ctx, flags, &len, &va);
	if (!mr)
		return false;
	row->n = len / qp->mtu;
	if (row->n)
		roe_mr_write_row(mr, va, row, qp->mtu);
	roe_mr_put(mr);
	if (!row->n)
		return false;
	if (!ctx->direct || ctx->fresh)
		resp->direct = ctx->direct;
	resp->done += row->n * qp->mtu;
	resp->psn = roe_psn_add(resp->psn, row->n);
	resp->done_psn = roe_psn_add(resp->psn, -1);
	asked = resp->ack_due;
	for (i = 0; i < row->n && !asked; i++)
		asked = roe_rx_at(row, i)->p.ackreq;
	if (asked)
		roe_answer_owe(resp, resp->done_psn, ROE_AETH_ACK | ROE_AETH_NO_CREDITS);
	return true;
}

ROE_EXPORT_FOR_TEST(roe_responder_row);

/*
 * Where a message of one packet goes: NULL unless it fits into the receive WQE, whose memory
 * the memo knows.
 */
static void *only_room(const struct roe_ctx *ctx, const struct roe_rwqe *rwqe, u32 len)
{
	const struct roe_sge *sge = rwqe->sge;

	if (rwqe->status != IB_WC_SUCCESS || rwqe->num_sge != 1 || len > sge->len)
		return NULL;
	return roe_mr_place(&ctx->receives, sge->lkey, sge->addr, len);
}

/*
 * Take the expected packet, a SEND or WRITE of one packet, if there is nothing to decide and
 * the memo of this run knows its memory. False: nothing was done, but perhaps a receive WQE was
 * taken.
 */
static bool take_only(struct roe_qp *qp, struct roe_ctx *ctx, const struct roe_rx_pkt *rx,
		      u32 flags)
{
	struct roe_resp *resp = &qp->resp;
	void *addr;

	if (!rx->p.len || rx->p.len > qp->mtu || !take_rwqe(qp, flags))
		return false;
	if (flags & ROE_F_SEND)
		addr = only_room(ctx, &resp->rwqe, rx->p.len);
	else
		addr = rx->p.dmalen == rx->p.len ?
		       roe_mr_place(&ctx->written, rx->p.rkey, rx->p.va, rx->p.len) : NULL;
	if (!addr)
		return false;
	if (flags & ROE_F_WRITE)
		smp_wmb();	/* as in do_write() */
	roe_sge_write_place(addr, rx->vec, rx->p.len);
	resp->done = rx->p.len;
	resp->psn = roe_psn_add(resp->psn, 1);
	if (flags & ROE_F_COMP)
		complete_rwqe(qp, ctx, &rx->p, flags);
	return true;
}

/* The same for a READ that has one response. */
static bool take_read(struct roe_qp *qp, struct roe_ctx *ctx, const struct roe_pkt *p)
{
	struct roe_resp *resp = &qp->resp;

	if (p->len || !p->dmalen || p->dmalen > qp->mtu ||
	    !roe_mr_place(&ctx->read, p->rkey, p->va, p->dmalen) ||
	    !roe_answer_begin(qp, p, ROE_RSRC_READ))
		return false;
	resp->psn = roe_psn_add(resp->psn, 1);
	resp->msn = roe_psn_add(resp->msn, 1);
	return true;
}

static unsigned int stream_reads(struct roe_qp *qp, struct roe_ctx *ctx,
				 const struct roe_rx_row *row)
{
	struct roe_resp *resp = &qp->resp;
	unsigned int i;

	for (i = 0; i < row->n; i++) {
		const struct roe_rx_pkt *rx = roe_rx_at(row, i);

		if (rx->p.opcode != ROE_OP_READ_REQ || rx->p.psn != resp->psn || rx->ce ||
		    !take_read(qp, ctx, &rx->p))
			break;
	}
	if (i && roe_psn_diff(resp->psn, resp->done_psn) <= 0)
		resp->done_known = false;	/* as in accept() */
	roe_qp_count_many(qp, ROE_STAT_RX_READ, i);
	return i;
}

static unsigned int stream_messages(struct roe_qp *qp, struct roe_ctx *ctx,
				    const struct roe_rx_row *row, u32 flags)
{
	u8 opcode = row->first->p.opcode;
	struct roe_resp *resp = &qp->resp;
	unsigned int i;

	for (i = 0; i < row->n; i++) {
		const struct roe_rx_pkt *rx = roe_rx_at(row, i);

		if (rx->p.opcode != opcode || rx->p.psn != resp->psn || rx->ce ||
		    !take_only(qp, ctx, rx, flags))
			break;
		if (rx->p.ackreq || resp->ack_due)
			roe_answer_owe(resp, rx->p.psn, ROE_AETH_ACK | ROE_AETH_NO_CREDITS);
		if (rx->p.ackreq)
			roe_echo_message(qp, ctx);
	}
	if (!i)
		return 0;
	resp->done_psn = roe_psn_add(resp->psn, -1);
	resp->done_known = true;
	resp->msn = roe_psn_add(resp->msn, i);
	if (flags & ROE_F_WRITE)
		roe_qp_count_many(qp, ROE_STAT_RX_WRITE, i);
	return i;
}

/**
 * roe_responder_stream() - requests at once that are messages of one packet each
 * @qp: RC, in RTS
 * @ctx: what this run knows of memory; takes notifications
 * @row: packets in order of arrival, the first a SEND or WRITE without invalidation or a READ;
 *	cut to those that were taken, all with that opcode
 *
 * The result is the same as with roe_responder_receive() for one after the other.
 *
 * Return: false: none was taken.
 */
bool roe_responder_stream(struct roe_qp *qp, struct roe_ctx *ctx, struct roe_rx_row *row)
{
	const struct roe_pkt *p = &row->first->p;
	u32 flags = roe_opcode(p->opcode)->flags;
	struct roe_resp *resp = &qp->resp;

	if (resp->in_msg || resp->fatal || resp->nak_state || resp->early.nr ||
	    resp->psn != p->psn || !allowed(qp, p, flags))
		return false;
	row->n = flags & ROE_F_READ ? stream_reads(qp, ctx, row) :
				      stream_messages(qp, ctx, row, flags);
	if (row->n && (!ctx->direct || ctx->fresh))
		resp->direct = ctx->direct;
	return row->n;
}

ROE_EXPORT_FOR_TEST(roe_responder_stream);

/**
 * roe_responder_reset() - initial state, on the way to RTR and to RESET
 * @qp: its slots (resp.rsrc, rsrc_nr) stay, emptied
 * @psn: rq_psn
 */
void roe_responder_reset(struct roe_qp *qp, u32 psn)
{
	struct roe_resp *resp = &qp->resp;

	roe_early_purge(&resp->early);
	memset(&resp->connection, 0, sizeof(resp->connection));
	roe_echo_reset(qp);
	resp->psn = psn;
	resp->done_psn = roe_psn_add(psn, -1);
	resp->done_known = true;
	/* what IP refuses of an older burst answers none of the requests that come now */
	resp->burst++;
	if (resp->rsrc)
		memset(resp->rsrc, 0, array_size(resp->rsrc_nr, sizeof(*resp->rsrc)));
}

ROE_EXPORT_FOR_TEST(roe_responder_reset);
