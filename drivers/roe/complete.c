// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Completions, and the error states: in ERR everything posted is flushed, in
 * order, to the last receive; in SQE only what was posted to the SQ. A full CQ
 * is fatal for its QPs (IBTA 11.6.3.2): it is noted in qp->overrun and acted on
 * when the run ends.
 */
#include "early.h"
#include "trace.h"
#include "transport.h"

static enum ib_wc_opcode wc_opcode(u8 wr_opcode)
{
	switch (wr_opcode) {
	case IB_WR_RDMA_WRITE:
	case IB_WR_RDMA_WRITE_WITH_IMM:
		return IB_WC_RDMA_WRITE;
	case IB_WR_RDMA_READ:
		return IB_WC_RDMA_READ;
	case IB_WR_ATOMIC_CMP_AND_SWP:
		return IB_WC_COMP_SWAP;
	case IB_WR_ATOMIC_FETCH_AND_ADD:
		return IB_WC_FETCH_ADD;
	case IB_WR_ATOMIC_WRITE:
		return IB_WC_ATOMIC_WRITE;
	case IB_WR_FLUSH:
		return IB_WC_FLUSH;
	case IB_WR_BIND_MW:
		return IB_WC_BIND_MW;
	case IB_WR_LOCAL_INV:
		return IB_WC_LOCAL_INV;
	case IB_WR_REG_MR:
		return IB_WC_REG_MR;
	default:
		return IB_WC_SEND;
	}
}

/* What is flushed into the full CQ later on overruns it again: the event comes once. */
static void overrun(struct roe_qp *qp, struct roe_ctx *ctx)
{
	if (qp->overrun)
		return;
	qp->overrun = true;
	ctx->events |= BIT(IB_EVENT_QP_FATAL);
}

/* As mlx5 counts them: error completions of each side, those that flush apart. */
static void count_error(struct roe_qp *qp, enum ib_wc_status status, bool recv)
{
	if (status == IB_WC_SUCCESS)
		return;
	roe_qp_count(qp, recv ? ROE_STAT_RESP_CQE_ERR : ROE_STAT_REQ_CQE_ERR);
	switch (status) {
	case IB_WC_WR_FLUSH_ERR:
		roe_qp_count(qp, recv ? ROE_STAT_RESP_FLUSH_ERR : ROE_STAT_REQ_FLUSH_ERR);
		break;
	case IB_WC_LOC_LEN_ERR:
		if (recv)
			roe_qp_count(qp, ROE_STAT_RESP_LEN_ERR);
		break;
	case IB_WC_REM_INV_REQ_ERR:
		if (!recv)
			roe_qp_count(qp, ROE_STAT_REQ_REM_INVALID);
		break;
	case IB_WC_REM_ACCESS_ERR:
		if (!recv)
			roe_qp_count(qp, ROE_STAT_REQ_REM_ACCESS);
		break;
	default:
		break;
	}
}

/**
 * roe_complete_collected() - post what this run has collected
 * @qp: the QP
 * @ctx: takes the notifications owed
 *
 * Before anything else is posted, and before the lock is dropped. So nobody but this
 * run knows that there ever was anything to be posted.
 */
void roe_complete_collected(struct roe_qp *qp, struct roe_ctx *ctx)
{
	unsigned int owed;

	if (!qp->batch.n)
		return;
	owed = roe_cq_post_batch(&qp->batch, &qp->ib);
	/* if both are the same CQ, which of the two does not matter */
	if (owed & ROE_CQ_NOTIFY && qp->batch.cq == qp->scq)
		ctx->notify_send = true;
	else if (owed & ROE_CQ_NOTIFY)
		ctx->notify_recv = true;
	if (owed & ROE_CQ_OVERRUN)
		overrun(qp, ctx);
	qp->batch.n = 0;
}

ROE_EXPORT_FOR_TEST(roe_complete_collected);

/**
 * roe_complete_later() - a success, to be posted with others of this run
 * @qp: the QP
 * @ctx: says whether this run collects
 * @cq: one of its CQs
 * @len: bytes; behind a long message nothing waits for company
 *
 * Return: to be filled in; NULL: to be posted now, with all details.
 */
struct roe_done *roe_complete_later(struct roe_qp *qp, struct roe_ctx *ctx, struct roe_cq *cq,
				    u32 len)
{
	struct roe_cq_batch *batch = &qp->batch;

	if (!ctx->collect || len > ROE_COLLECT_BYTES || trace_roe_completion_enabled())
		return NULL;
	if (batch->n && (batch->cq != cq || batch->n == ROE_CQ_BATCH))
		roe_complete_collected(qp, ctx);
	batch->cq = cq;
	return &batch->done[batch->n++];
}

static bool collect_send(struct roe_qp *qp, struct roe_ctx *ctx, const struct roe_swqe *wqe)
{
	struct roe_done *done = roe_complete_later(qp, ctx, qp->scq, wqe->length);

	if (!done)
		return false;
	done->wr_id = wqe->wr_id;
	done->byte_len = wqe->length;
	done->src_qp = 0;
	done->imm_data = 0;
	done->opcode = wc_opcode(wqe->opcode);
	done->wc_flags = 0;
	done->port_num = 0;
	done->solicited = false;
	return true;
}

static void report_send(struct roe_qp *qp, struct roe_ctx *ctx, const struct roe_swqe *wqe,
			enum ib_wc_status status)
{
	struct ib_wc wc = {
		.wr_id = wqe->wr_id,
		.status = status,
		.opcode = wc_opcode(wqe->opcode),
		.qp = &qp->ib,
		.byte_len = wqe->length,
	};
	enum roe_cq_result res;

	roe_complete_collected(qp, ctx);
	count_error(qp, status, false);
	trace_roe_completion(qp, &wc, false);
	res = roe_cq_post(qp->scq, &wc, false);
	if (res == ROE_CQ_NOTIFY)
		ctx->notify_send = true;
	else if (res == ROE_CQ_OVERRUN)
		overrun(qp, ctx);
}

/**
 * roe_complete_send() - report the outcome of a send WQE, if anyone asked
 * @qp: the QP
 * @ctx: takes the notification owed
 * @wqe: retired by the caller, in order
 * @status: an error is always reported, success only for signalled WQEs
 */
void roe_complete_send(struct roe_qp *qp, struct roe_ctx *ctx,
		       const struct roe_swqe *wqe, enum ib_wc_status status)
{
	if (status == IB_WC_SUCCESS && !qp->sq_sig_all && !(wqe->flags & IB_SEND_SIGNALED))
		return;
	if (status != IB_WC_SUCCESS || !collect_send(qp, ctx, wqe))
		report_send(qp, ctx, wqe, status);
}

/**
 * roe_complete_recv() - report a receive WQE
 * @qp: the QP
 * @ctx: takes the notification owed
 * @wc: all but the QP is filled in
 * @solicited: SE of the last packet of the message
 */
void roe_complete_recv(struct roe_qp *qp, struct roe_ctx *ctx, struct ib_wc *wc,
		       bool solicited)
{
	enum roe_cq_result res;

	wc->qp = &qp->ib;
	wc->port_num = 1;
	roe_complete_collected(qp, ctx);
	count_error(qp, wc->status, true);
	trace_roe_completion(qp, wc, true);
	res = roe_cq_post(qp->rcq, wc, solicited);
	if (res == ROE_CQ_NOTIFY)
		ctx->notify_recv = true;
	else if (res == ROE_CQ_OVERRUN)
		overrun(qp, ctx);
}

static void flush_recv_one(struct roe_qp *qp, struct roe_ctx *ctx, u64 wr_id)
{
	struct ib_wc wc = {
		.wr_id = wr_id,
		.status = IB_WC_WR_FLUSH_ERR,
		.opcode = IB_WC_RECV,
	};

	roe_complete_recv(qp, ctx, &wc, false);
}

static void flush_recv(struct roe_qp *qp, struct roe_ctx *ctx)
{
	struct roe_resp *resp = &qp->resp;
	u32 n = 0;

	if (resp->rwqe_valid) {
		resp->rwqe_valid = false;
		flush_recv_one(qp, ctx, resp->rwqe.wr_id);
	}
	/* what is in an SRQ is for others */
	while (!qp->srq && roe_wqe_next_recv(qp, &resp->rwqe, 0)) {
		WRITE_ONCE(qp->flush_idle, 0);
		flush_recv_one(qp, ctx, resp->rwqe.wr_id);
		if (++n == ROE_WQE_BATCH) {
			qp->flush_more = true;
			return;
		}
	}
}

static void flush_send(struct roe_qp *qp, struct roe_ctx *ctx)
{
	struct roe_req *req = &qp->req;
	u32 n = 0;

	do {
		/* what is there already goes first */
		if (qp->sq.cons == smp_load_acquire(&qp->sq.prod))
			roe_wqe_pull(qp);
		/* pairs with the release in post_one(): the WQE is complete */
		if (qp->sq.cons == smp_load_acquire(&qp->sq.prod))
			break;
		roe_requester_retire(qp, ctx, req->failed ?: IB_WC_WR_FLUSH_ERR);
		req->failed = IB_WC_SUCCESS;
		qp->flush_more = ++n == ROE_WQE_BATCH;
	} while (!qp->flush_more);
	qp->sq.next = qp->sq.cons;
}

/**
 * roe_sq_discard() - send WQEs are forgotten, without completions
 * @qp: any type, RESET; datagrams give their address handles back
 * @max: not more than so many at a time, if they have any
 *
 * Return: whether there are more.
 */
bool roe_sq_discard(struct roe_qp *qp, u32 max)
{
	struct roe_sq *sq = &qp->sq;

	if (!roe_qp_is_ud(qp))
		sq->cons = sq->prod;
	for (; sq->cons != sq->prod && max; sq->cons++, max--)
		roe_ud_release(roe_sq_slot(sq, sq->cons));
	sq->next = sq->cons;
	return sq->cons != sq->prod;
}

ROE_EXPORT_FOR_TEST(roe_sq_discard);

/**
 * roe_complete_flush() - flush what is posted; QP in ERR
 * @qp: the QP
 * @ctx: takes the notifications owed
 *
 * Called on the way into ERR and again on every later doorbell: WQEs posted in
 * ERR are flushed too. Those of the SQ not while what they send is still to be read;
 * then roe_complete_returned() calls again. The RQ does not wait for that: there is an
 * event that says that the last of an SRQ's WQEs is back. A CQ that was overrun takes
 * nothing, but the other one may be whole. If there are many not all at
 * once, with softirqs off: then qp->flush_more is set, and the end of this run sees to it
 * that there is another.
 */
void roe_complete_flush(struct roe_qp *qp, struct roe_ctx *ctx)
{
	qp->flush_more = false;
	if (!qp->lent)
		flush_send(qp, ctx);
	flush_recv(qp, ctx);
}

ROE_EXPORT_FOR_TEST(roe_complete_flush);

/**
 * roe_complete_returned() - nobody reads from the SQ any more, or what its WQEs send
 * @qp: was lent
 * @ctx: takes notifications
 */
void roe_complete_returned(struct roe_qp *qp, struct roe_ctx *ctx)
{
	qp->lent = false;
	if (qp->state == IB_QPS_ERR)
		roe_complete_flush(qp, ctx);
}

ROE_EXPORT_FOR_TEST(roe_complete_returned);

/* What was sent is forgotten, nothing more is. */
static void stop_sending(struct roe_qp *qp)
{
	struct roe_req *req = &qp->req;

	req->rnr_wait = false;
	req->rnr_deadline = 0;
	req->rd_out = 0;
	qp->rate.wake = 0;
	roe_unsent_reset(&qp->unsent);
	/* there is no timer in SQE, but messages come that need pages */
	roe_fault_again(qp);
	roe_timer_disarm(qp);
	req->una = req->psn;
	req->max_psn = req->psn;
	req->wqe_psn = req->psn;
}

/**
 * roe_complete_sqe() - a send failed locally on UC or UD: the SQ stops
 * @qp: in RTS, SQD or SQE; the WQE that failed is retired, or the first that is flushed,
 *	with the status in req.failed
 * @ctx: takes notifications
 *
 * Receiving goes on (IBTA 10.3.1.6); what is in the SQ, and what is posted until
 * the consumer moves the QP back to RTS, is flushed. A message broken off leaves
 * a gap in the PSNs, by which a UC peer knows that its rest does not come.
 */
void roe_complete_sqe(struct roe_qp *qp, struct roe_ctx *ctx)
{
	trace_roe_qp_state(qp, IB_QPS_SQE);
	WRITE_ONCE(qp->state, IB_QPS_SQE);
	stop_sending(qp);
	qp->flush_more = false;
	flush_send(qp, ctx);
}

/**
 * roe_complete_error() - move the QP to ERR
 * @qp: in any state but RESET
 * @ctx: takes notifications
 *
 * Inbound and outbound traffic ends here; what was sent is forgotten. With an SRQ
 * an event tells that the QP takes no more WQEs from it (wire.md section 5).
 */
void roe_complete_error(struct roe_qp *qp, struct roe_ctx *ctx)
{
	roe_qp_assert_locked(qp);
	if (qp->srq && qp->state != IB_QPS_ERR)
		ctx->events |= BIT(IB_EVENT_QP_LAST_WQE_REACHED);
	trace_roe_qp_state(qp, IB_QPS_ERR);
	WRITE_ONCE(qp->state, IB_QPS_ERR);
	WRITE_ONCE(qp->flush_idle, 0);
	stop_sending(qp);
	qp->resp.ack_due = false;
	qp->resp.ack_after = 0;
	qp->resp.echo.until = 0;
	qp->resp.rnr_look = 0;
	qp->resp.rsrc_pending = 0;
	qp->resp.flush_nr = 0;
	roe_early_purge(&qp->resp.early);
	roe_early_purge(&qp->req.reorder.early);
	/* the state before the queues: who posts a receive now sees it, or is seen (post.c) */
	smp_mb();
	roe_complete_flush(qp, ctx);
}

ROE_EXPORT_FOR_TEST(roe_complete_error);
