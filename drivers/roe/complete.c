// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Completions, and the error states: in ERR all posted WQEs are flushed, in order, to the
 * last receive; in SQE only those of the SQ. A full CQ is fatal for its QPs
 * (IBTA 11.6.3.2): it is noted in qp->overrun and acted on when the run ends.
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

/* WQEs flushed later overrun the full CQ again, but the event is raised once. */
static void overrun(struct roe_qp *qp, struct roe_ctx *ctx)
{
	if (qp->overrun)
		return;
	qp->overrun = true;
	ctx->events |= BIT(IB_EVENT_QP_FATAL);
}

/* As mlx5 counts: error completions of requester and responder; flush errors have own counters. */
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
 * roe_complete_collected() - post the completions that this run has collected
 * @qp: the QP
 * @ctx: takes the notifications owed
 *
 * Called before any other completion is posted, and before the lock is dropped. So only this run
 * ever sees collected completions.
 */
void roe_complete_collected(struct roe_qp *qp, struct roe_ctx *ctx)
{
	unsigned int owed;

	if (!qp->batch.n)
		return;
	owed = roe_cq_post_batch(&qp->batch, &qp->ib);
	/* if scq and rcq are the same CQ either flag will do */
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
 * roe_complete_later() - collect a successful completion, to be posted with others of this run
 * @qp: the QP
 * @ctx: says whether this run collects
 * @cq: one of the CQs of @qp
 * @len: bytes of the message; completions of long messages are not collected
 *
 * Return: completion to be filled in; NULL: post it now, with all details.
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
 * roe_complete_send() - report the outcome of a send WQE, if a completion is due
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
	/* WQEs in an SRQ are for other QPs */
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
		/* WQEs copied in already go first; pairs as below */
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
 * roe_sq_discard() - drop the WQEs in the SQ, without completions
 * @qp: any type, in RESET; WQEs of datagrams release their address handles
 * @max: for datagrams, WQEs to drop at most
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
 * roe_complete_flush() - flush posted WQEs; QP in ERR
 * @qp: the QP
 * @ctx: takes the notifications owed
 *
 * Called on the way into ERR and again on every later doorbell: WQEs posted in
 * ERR are flushed too. The SQ is not flushed while a burst still reads what its WQEs send;
 * roe_complete_returned() calls again then. The RQ does not wait for that, because the event
 * QP_LAST_WQE_REACHED says that the last WQE taken from an SRQ has completed. A CQ that was
 * overrun takes no completions, but the other CQ may. Softirqs are off, so many WQEs are not
 * flushed at once: qp->flush_more is set, and the end of this run causes another run.
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
 * roe_complete_returned() - no burst reads the SQ, or what its WQEs send, any more
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

/* Forget the packets in flight, and send no more. */
static void stop_sending(struct roe_qp *qp)
{
	struct roe_req *req = &qp->req;

	req->rnr_wait = false;
	req->rnr_deadline = 0;
	req->rd_out = 0;
	req->pace_wake = 0;
	qp->rate.wake = 0;
	roe_unsent_reset(&qp->unsent);
	/* SQE has no timer to retry page requests, but received messages may need pages */
	roe_fault_again(qp);
	roe_timer_disarm(qp);
	req->una = req->psn;
	req->max_psn = req->psn;
	req->wqe_psn = req->psn;
}

/**
 * roe_complete_sqe() - a send failed locally on UC or UD: the SQ stops
 * @qp: in RTS, SQD or SQE; the failed WQE is retired already, or is the first to be flushed,
 *	with the status in req.failed
 * @ctx: takes notifications
 *
 * Receiving goes on (IBTA 10.3.1.6). WQEs in the SQ, and those posted until the consumer
 * moves the QP back to RTS, are flushed. A message that was broken off leaves a gap in the
 * PSNs, which tells a UC peer that the rest of the message does not come.
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
 * Inbound and outbound traffic ends here; packets in flight are forgotten. With an SRQ
 * an event says that the QP takes no more WQEs from it (wire.md section 5).
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
	roe_responder_forget(qp);
	roe_early_purge(&qp->req.reorder.early);
	/* the state before the queues: a receive posted now is flushed here, or post.c sees ERR */
	smp_mb();
	roe_complete_flush(qp, ctx);
}

ROE_EXPORT_FOR_TEST(roe_complete_error);
