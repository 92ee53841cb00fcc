// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Completer: what the responses of the peer mean to the requester
 * (IBTA 9.7.5, 9.9.2; wire.md 4.6). One function per event:
 *
 *   ACK            everything up to its PSN is done, but it completes no READ or ATOMIC
 *   READ response  the same for what is before it, then data for its READ
 *   ATOMIC ACK     likewise
 *   RNR NAK        everything before it is done; wait, then go on from it
 *   NAK 0x60       everything before it is done; go on from it at once
 *   NAK, other     everything before it is done; that WQE failed
 *
 * A response for a PSN never sent, or acknowledged already, is ignored: the
 * peer cannot complete what it was not asked for. A response that comes before its turn,
 * because one before it is missing, is kept or thrown away (reorder.c).
 */
#include "early.h"
#include "transport.h"

static struct roe_swqe *oldest(struct roe_qp *qp)
{
	/* pairs with the release in post_one(): the WQE is complete */
	if (qp->sq.cons == smp_load_acquire(&qp->sq.prod))
		return NULL;
	return roe_sq_slot(&qp->sq, qp->sq.cons);
}

static bool is_atomic(const struct roe_swqe *wqe)
{
	return wqe->opcode == IB_WR_ATOMIC_CMP_AND_SWP ||
	       wqe->opcode == IB_WR_ATOMIC_FETCH_AND_ADD;
}

/* Local operations between acknowledged WQEs retire with them. */
static void retire_local(struct roe_qp *qp, struct roe_ctx *ctx)
{
	struct roe_swqe *wqe;

	while ((wqe = oldest(qp)) && wqe->state == ROE_SWQE_DONE)
		roe_requester_retire(qp, ctx, IB_WC_SUCCESS);
}

static void retire(struct roe_qp *qp, struct roe_ctx *ctx, const struct roe_swqe *wqe)
{
	qp->req.una = roe_psn_add(wqe->last_psn, 1);
	roe_requester_retire(qp, ctx, IB_WC_SUCCESS);
	retire_local(qp, ctx);
}

/*
 * Everything before @psn is acknowledged. False: a READ or ATOMIC before @psn has no response
 * yet, so that was lost (implied NAK).
 */
static bool ack_before(struct roe_qp *qp, struct roe_ctx *ctx, u32 psn)
{
	u32 una = qp->req.una;
	struct roe_swqe *wqe;
	bool complete = true;

	while ((wqe = oldest(qp)) && wqe->state == ROE_SWQE_ACTIVE &&
	       roe_psn_diff(psn, qp->req.una) > 0) {
		if (roe_swqe_is_query(wqe)) {
			complete = false;
			break;
		}
		if (roe_psn_diff(psn, wqe->last_psn) <= 0) {
			qp->req.una = psn;
			break;
		}
		retire(qp, ctx, wqe);
	}
	if (qp->req.una != una)
		roe_requester_progress(qp, ctx);
	return complete;
}

/*
 * A response is missing: send again from una. Once per gap and round trip (out_of_turn()): the
 * responses in flight behind the gap would imply the same loss again. If the missing response
 * arrives after all, because the network reorders, those behind it that were thrown away are
 * missing next; that is no new loss, for they have been asked for again already.
 */
static void implied_nak(struct roe_qp *qp, struct roe_ctx *ctx)
{
	struct roe_req *req = &qp->req;

	roe_qp_count(qp, ROE_STAT_IMPLIED_NAK);
	roe_requester_lost(qp);
	if (!roe_requester_again(qp, ctx))
		return;
	req->rewound = true;
	req->implied_until = ctx->now + req->srtt;
}

/*
 * Once per gap, too: a network copies NAKs, some peers send one for each packet behind the gap,
 * and rdma_rxe sends one for the packet behind the one that it has answered by an RNR NAK
 * (wire.md R9). None of these is another loss. If a packet that was sent again is lost, a
 * deadline finds out.
 */
static void seq_nak(struct roe_qp *qp, struct roe_ctx *ctx)
{
	roe_qp_count(qp, ROE_STAT_SEQ_NAK_RCVD);
	/* it answers any packet behind una; where una takes a receive WQE it may wait for that */
	if (!roe_credit_takes(oldest(qp)))
		roe_timer_gap_sample(qp, ctx->now, qp->req.una, roe_psn_add(qp->req.max_psn, -1));
	if (qp->req.told || roe_reorder_nak(qp, ctx, roe_requester_probes(&qp->req)))
		return;
	qp->req.told = true;
	roe_requester_gap(qp, ctx);
}

/**
 * roe_completer_overdue() - what is missing is taken for lost, not for late any more
 * @qp: an RC QP; reorder.until has passed
 * @ctx: the time; takes notifications
 */
void roe_completer_overdue(struct roe_qp *qp, struct roe_ctx *ctx)
{
	if (qp->req.reorder.nak) {
		qp->req.told = true;
		roe_requester_gap(qp, ctx);
	} else {
		implied_nak(qp, ctx);
	}
}

static void rnr_nak(struct roe_qp *qp, struct roe_ctx *ctx, u8 code)
{
	struct roe_req *req = &qp->req;

	roe_qp_count(qp, ROE_STAT_RNR_RCVD);
	if (req->rnr_wait)
		return;
	req->credit.beyond = 0;
	if (!req->rnr_retry) {
		roe_qp_count(qp, ROE_STAT_RNR_RETRY_EXC);
		roe_requester_fail(qp, ctx, IB_WC_RNR_RETRY_EXC_ERR);
		return;
	}
	if (req->rnr_retry != 7)	/* 7: without limit */
		req->rnr_retry--;
	roe_requester_not_ready(qp);
	roe_timer_disarm(qp);
	req->told = true;
	req->rnr_wait = true;
	req->rnr_ns = roe_timer_rnr_ns(code);
	req->rnr_deadline = ctx->now + req->rnr_ns;
}

static void nak(struct roe_qp *qp, struct roe_ctx *ctx, u8 syndrome)
{
	switch (syndrome) {
	case ROE_NAK_PSN_SEQ:
		seq_nak(qp, ctx);
		break;
	case ROE_NAK_INV_REQ:
		roe_requester_fail(qp, ctx, IB_WC_REM_INV_REQ_ERR);
		break;
	case ROE_NAK_REM_ACCESS:
		roe_requester_fail(qp, ctx, IB_WC_REM_ACCESS_ERR);
		break;
	case ROE_NAK_REM_OP:
		roe_requester_fail(qp, ctx, IB_WC_REM_OP_ERR);
		break;
	default:		/* reserved codes are ignored (wire.md 4.2) */
		break;
	}
}

/* After such a NAK the peer answers no more. */
static bool is_fatal(u8 syndrome)
{
	return syndrome == ROE_NAK_INV_REQ || syndrome == ROE_NAK_REM_ACCESS ||
	       syndrome == ROE_NAK_REM_OP;
}

/*
 * Does this NAK end the oldest READ or ATOMIC, of which an earlier response was lost? To ask
 * for that again would only hide the reason of the failure.
 */
static bool ends_oldest(struct roe_qp *qp, const struct roe_pkt *p)
{
	const struct roe_swqe *wqe = oldest(qp);

	return is_fatal(p->syndrome) && wqe && roe_swqe_is_query(wqe) &&
	       roe_psn_diff(p->psn, wqe->last_psn) <= 0;
}

/*
 * The same after some of its responses: the PSN of the NAK is acknowledged by now, as rdma_rxe
 * names the first PSN of the READ and not that of the response that it could not give.
 */
static bool ends_begun(struct roe_qp *qp, const struct roe_pkt *p)
{
	const struct roe_swqe *wqe;

	if ((p->opcode & ROE_OP_MASK) != ROE_OP_ACK || !is_fatal(p->syndrome))
		return false;
	wqe = oldest(qp);
	return wqe && wqe->state == ROE_SWQE_ACTIVE && roe_swqe_is_query(wqe) &&
	       roe_psn_diff(p->psn, wqe->first_psn) >= 0 &&
	       roe_psn_diff(p->psn, qp->req.una) < 0;
}

/* False: a response before it is missing. Likewise in the functions below. */
static bool ack(struct roe_qp *qp, struct roe_ctx *ctx, const struct roe_pkt *p)
{
	u8 kind = p->syndrome & ROE_AETH_KIND_MASK;

	if (kind == ROE_AETH_RSVD || (p->syndrome & 0x80))
		return true;
	if (kind == ROE_AETH_ACK) {
		if (!ack_before(qp, ctx, roe_psn_add(p->psn, 1)))
			return false;
		roe_requester_probed(qp);
		roe_requester_heard(qp, ctx);
		return true;
	}
	if (!ack_before(qp, ctx, p->psn) && !ends_oldest(qp, p))
		return false;
	/* a NAK names what was not executed: una is that PSN now, or lies in the READ with it */
	if (!oldest(qp))
		return true;
	if (kind == ROE_AETH_RNR_NAK)
		rnr_nak(qp, ctx, p->syndrome & ROE_AETH_VALUE_MASK);
	else
		nak(qp, ctx, p->syndrome);
	return true;
}

/*
 * The WQE that a data response is for: the oldest, as everything before @psn is
 * acknowledged. NULL: late or unasked-for; ignore.
 */
static struct roe_swqe *data_wqe(struct roe_qp *qp, u32 psn)
{
	struct roe_swqe *wqe;

	wqe = oldest(qp);
	if (!wqe || wqe->state != ROE_SWQE_ACTIVE || qp->req.una != psn)
		return NULL;
	return wqe;
}

/*
 * (bring_only() checks a READ of one response as well.)
 *
 * The place in the message decides what must come: the last PSN brings Last or Only and all
 * that is left, any other First or Middle of one MTU. First and Middle, Last and Only are taken
 * for each other: a peer may answer a READ retried from its middle with either (wire.md section
 * 11). FLUSH and ATOMIC WRITE are answered like a READ of length 0.
 */
static enum ib_wc_status check_read(const struct roe_qp *qp, const struct roe_swqe *wqe,
				    const struct roe_pkt *p, u32 off)
{
	bool last = p->psn == wqe->last_psn;
	bool end = roe_opcode(p->opcode)->flags & ROE_F_END;
	u32 left = wqe->opcode == IB_WR_RDMA_READ ? wqe->length - off : 0;

	if (!roe_swqe_is_query(wqe) || is_atomic(wqe) || last != end)
		return IB_WC_BAD_RESP_ERR;
	if (p->len != (last ? left : qp->mtu))
		return IB_WC_LOC_LEN_ERR;
	return IB_WC_SUCCESS;
}

static void read_response(struct roe_qp *qp, struct roe_ctx *ctx, const struct roe_rx_pkt *rx)
{
	struct roe_swqe *wqe = data_wqe(qp, rx->p.psn);
	enum ib_wc_status status;
	u32 off;

	if (!wqe)
		return;
	off = ((rx->p.psn - wqe->first_psn) & ROE_PSN_MASK) * qp->mtu;
	status = check_read(qp, wqe, &rx->p, off);
	if (ctx->direct && !off)
		smp_rmb();	/* it lies in the peer's memory: READ after READ, as in frame.c */
	if (status == IB_WC_SUCCESS &&
	    !roe_sge_write(qp, ctx, wqe, off, rx->vec, rx->p.len)) {
		if (roe_fault_missed(qp, ctx, &qp->req.fault)) {
			roe_requester_pause(qp);
			return;
		}
		status = IB_WC_LOC_PROT_ERR;
	}
	if (status != IB_WC_SUCCESS) {
		roe_requester_fail(qp, ctx, status);
		return;
	}
	if (roe_opcode(rx->p.opcode)->flags & ROE_F_START)
		roe_timer_reread_sample(qp, ctx->now, rx->p.psn);
	if (rx->p.psn == wqe->last_psn)
		retire(qp, ctx, wqe);
	else
		qp->req.una = roe_psn_add(rx->p.psn, 1);
	roe_requester_progress(qp, ctx);
}

/**
 * roe_completer_row() - take several Middle READ responses at once
 * @qp: RC, in RTS
 * @ctx: the time; what this run knows of the READ
 * @row: responses as roe_qp_dispatch_row() puts them together; cut to those that were taken
 *
 * Return: false if none was taken; they go one by one.
 */
bool roe_completer_row(struct roe_qp *qp, struct roe_ctx *ctx, struct roe_rx_row *row)
{
	const struct roe_pkt *p = &row->first->p;
	const struct roe_swqe *wqe = oldest(qp);
	struct roe_req *req = &qp->req;
	struct roe_mr *mr;
	s32 left;
	u32 len;
	u64 va;

	if (req->paging || req->reorder.early.nr || req->una != p->psn)
		return false;
	if (!wqe || wqe->state != ROE_SWQE_ACTIVE || wqe->opcode != IB_WR_RDMA_READ)
		return false;
	/* neither the last response nor one that was never asked for */
	left = min(roe_psn_diff(wqe->last_psn, p->psn), roe_psn_diff(req->max_psn, p->psn));
	if (left <= 0)
		return false;
	len = min_t(u32, row->n, left) * qp->mtu;
	mr = roe_sge_target(qp, ctx, wqe, ((p->psn - wqe->first_psn) & ROE_PSN_MASK) * qp->mtu,
			    &len, &va);
	row->n = len / qp->mtu;
	if (!mr || !row->n)
		return false;
	roe_mr_write_row(mr, va, row, qp->mtu);
	roe_requester_progress_by(qp, ctx, row->n);
	return true;
}

/*
 * Write the payload of the expected response, if it is all of a READ and the memo knows where
 * it goes. False: nothing was done.
 */
static bool bring_only(struct roe_qp *qp, struct roe_ctx *ctx, const struct roe_rx_pkt *rx)
{
	const struct roe_swqe *wqe = oldest(qp);
	const struct roe_sge *sge;
	void *addr;

	if (!wqe || wqe->state != ROE_SWQE_ACTIVE || wqe->opcode != IB_WR_RDMA_READ ||
	    wqe->num_sge != 1 || wqe->last_psn != rx->p.psn || wqe->first_psn != rx->p.psn ||
	    rx->p.len != wqe->length || !rx->p.len ||
	    rx->p.syndrome != (ROE_AETH_ACK | ROE_AETH_NO_CREDITS))
		return false;
	sge = wqe->sge;
	addr = roe_mr_place(&ctx->brings, sge->lkey, sge->addr, rx->p.len);
	if (!addr)
		return false;
	if (ctx->direct)
		smp_rmb();	/* as in read_response() */
	roe_sge_write_place(addr, rx->vec, rx->p.len);
	return true;
}

/**
 * roe_completer_stream() - take several READ responses, each all of a READ, at once
 * @qp: RC, in RTS
 * @ctx: the time; what this run knows of memory; takes notifications
 * @row: packets in the order in which they came; cut to those that were taken
 *
 * The result is that of roe_completer_receive() for one after the other.
 *
 * Return: false: none was taken.
 */
bool roe_completer_stream(struct roe_qp *qp, struct roe_ctx *ctx, struct roe_rx_row *row)
{
	struct roe_req *req = &qp->req;
	unsigned int i;

	if (req->paging || req->reorder.early.nr || req->reread_at || req->credit.limited)
		return false;
	for (i = 0; i < row->n; i++) {
		const struct roe_rx_pkt *rx = roe_rx_at(row, i);

		/* a response to a PSN never sent is ignored */
		if (rx->p.opcode != ROE_OP_READ_RESP_ONLY || rx->p.psn != req->una || rx->ce ||
		    roe_psn_diff(req->max_psn, rx->p.psn) <= 0 || !bring_only(qp, ctx, rx))
			break;
		if (i)
			roe_requester_progress_part(qp, ctx);
		retire(qp, ctx, oldest(qp));
	}
	if (!i)
		return false;
	row->n = i;
	roe_requester_progress(qp, ctx);
	return true;
}

ROE_EXPORT_FOR_TEST(roe_completer_stream);

static void atomic_response(struct roe_qp *qp, struct roe_ctx *ctx, const struct roe_rx_pkt *rx)
{
	struct roe_swqe *wqe = data_wqe(qp, rx->p.psn);
	u64 orig = rx->p.compare;
	struct kvec vec = { .iov_base = &orig, .iov_len = sizeof(orig) };

	if (!wqe)
		return;
	if (!is_atomic(wqe)) {
		roe_requester_fail(qp, ctx, IB_WC_BAD_RESP_ERR);
		return;
	}
	if (!roe_sge_write(qp, ctx, wqe, 0, &vec, sizeof(orig))) {
		if (roe_fault_missed(qp, ctx, &qp->req.fault))
			roe_requester_pause(qp);
		else
			roe_requester_fail(qp, ctx, IB_WC_LOC_PROT_ERR);
		return;
	}
	retire(qp, ctx, wqe);
	roe_requester_progress(qp, ctx);
}

/* A response that is no duplicate. False: a response before it is missing. */
static bool receive(struct roe_qp *qp, struct roe_ctx *ctx, const struct roe_rx_pkt *rx)
{
	u8 opcode = rx->p.opcode & ROE_OP_MASK;

	if (opcode == ROE_OP_ACK)
		return ack(qp, ctx, &rx->p);
	if (!ack_before(qp, ctx, rx->p.psn))
		return false;
	if (opcode == ROE_OP_ATOMIC_ACK)
		atomic_response(qp, ctx, rx);
	else
		read_response(qp, ctx, rx);
	return true;
}

static void learn_credit(struct roe_qp *qp, const struct roe_pkt *p)
{
	if (roe_opcode(p->opcode)->flags & ROE_F_AETH)
		roe_credit_learn(qp, p);
}

static bool receives(const struct roe_qp *qp)
{
	return !qp->req.paging && (qp->state == IB_QPS_RTS || qp->state == IB_QPS_SQD);
}

static bool is_nak(const struct roe_pkt *p)
{
	return (p->opcode & ROE_OP_MASK) == ROE_OP_ACK &&
	       (p->syndrome & ROE_AETH_KIND_MASK) != ROE_AETH_ACK;
}

/* A response from behind one that is missing. */
static void out_of_turn(struct roe_qp *qp, struct roe_ctx *ctx, const struct roe_rx_pkt *rx)
{
	struct roe_req *req = &qp->req;

	/*
	 * To go back to una ends the timing of a packet, and without a sample nothing can be told
	 * to be late. An RNR NAK, or the NAK 0x60 of a peer without a receive WQE, has waited.
	 */
	if (!is_nak(&rx->p))
		roe_timer_gap_sample(qp, ctx->now, rx->p.psn, rx->p.psn);
	if (roe_reorder_keep(qp, ctx, rx))
		return;
	/* its request has been sent again, too, or will be together with una */
	if (req->rewound || roe_reorder_drop(req, ctx, rx->p.psn))
		return;
	implied_nak(qp, ctx);
}

/* una has moved: take the kept responses whose turn has come. */
static void receive_kept(struct roe_qp *qp, struct roe_ctx *ctx)
{
	struct roe_req *req = &qp->req;
	struct roe_early_set *set = &req->reorder.early;
	const struct roe_rx_pkt *rx;
	struct roe_early *early;
	u32 una = req->una;

	while (receives(qp) && (early = roe_early_take_first(set, una, &rx))) {
		if (!receive(qp, ctx, rx)) {
			roe_early_put_back(set, early);
			break;
		}
		learn_credit(qp, &rx->p);
		roe_early_free(early);
		roe_early_skip(set, una, (req->una - una) & ROE_PSN_MASK);
		una = req->una;
	}
	roe_reorder_kept(qp, ctx);
}

/*
 * Malformed packets are dropped silently (IBTA 9.6): an ACK with payload, data with the
 * syndrome of a NAK. The length of READ responses is left to check_read(), which fails the QP.
 */
static bool well_formed(const struct roe_qp *qp, const struct roe_pkt *p)
{
	u32 flags = roe_opcode(p->opcode)->flags;

	if (flags & ROE_F_READ)
		return !(flags & ROE_F_AETH) || !(p->syndrome & ~ROE_AETH_VALUE_MASK);
	return roe_opcode_len_ok(p->opcode, p->len, qp->mtu) &&
	       (!(flags & ROE_F_ATOMIC) || !(p->syndrome & ~ROE_AETH_VALUE_MASK));
}

/**
 * roe_completer_receive() - one response
 * @qp: the requester
 * @ctx: the time; takes notifications
 * @rx: proven packet with a response opcode
 */
void roe_completer_receive(struct roe_qp *qp, struct roe_ctx *ctx,
			   const struct roe_rx_pkt *rx)
{
	struct roe_req *req = &qp->req;
	bool done, again = req->early || req->rewound;
	u32 una = req->una;

	if (!receives(qp))
		return;
	if (!well_formed(qp, &rx->p)) {
		roe_qp_count(qp, ROE_STAT_RX_DROP);
		return;
	}
	if (roe_psn_diff(rx->p.psn, una) < 0 || roe_psn_diff(rx->p.psn, req->max_psn) >= 0) {
		if (ends_begun(qp, &rx->p))
			nak(qp, ctx, rx->p.syndrome);
		/* the last ACK once more, unsolicited: the peer has posted receives */
		else if (req->credit.limited && rx->p.psn == roe_psn_add(una, -1))
			learn_credit(qp, &rx->p);
		return;
	}
	done = receive(qp, ctx, rx);
	if (done)
		learn_credit(qp, &rx->p);
	if (req->reorder.early.nr)
		roe_early_skip(&req->reorder.early, una, (req->una - una) & ROE_PSN_MASK);
	/*
	 * @rx answers something that a deadline has sent again, and acknowledges a PSN behind a
	 * READ or ATOMIC whose response is missing: the peer did all that the first time. This
	 * implies no loss, for that response has been asked for again already. Nor does the
	 * next answer, until una moves: each duplicate has an answer of its own.
	 */
	if (!done && again && req->una != una && roe_reorder_sent_twice(req))
		req->rewound = true;
	else if (!done)
		out_of_turn(qp, ctx, rx);
	if (req->reorder.early.nr && req->una != una)
		receive_kept(qp, ctx);
}
