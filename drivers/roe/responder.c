// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Responder of RC and UC: the peer's requests to memory, and the answers
 * (IBTA 9.7.4, 9.8.2, 9.9.3; wire.md 4.2 to 4.5).
 *
 * A request passes in the order of wire.md 4.3: PSN, opcode sequence, access
 * flags, receive WQE, lengths, R_Key; only then is memory touched. Answers are
 * state, not packets: slots with READ or ATOMIC responses to send, in PSN
 * order, and behind them at most one ACK or NAK. roe_responder_emit() turns
 * that into packets when the burst has room, so responses leave in PSN order
 * and acknowledgements coalesce by themselves.
 *
 * UC passes the same checks but answers nothing: a message that cannot be taken
 * as a whole is dropped, and the next First or Only starts afresh.
 */
#include "early.h"
#include "trace.h"
#include "transport.h"

/* A refusal: what goes on the wire and what the local side hears of it. */
struct verdict {
	u8		syndrome;	/* 0: accepted */
	enum ib_wc_status status;	/* of the receive WQE in use; success: it is flushed */
};

#define ACCEPT		((struct verdict){ 0 })
#define REFUSE(s, wc)	((struct verdict){ ROE_NAK_##s, IB_WC_##wc })
/* As if the packet had been lost: again, when what is owed has left. */
#define LATER		((struct verdict){ ROE_NAK_PSN_SEQ })

static void owe(struct roe_resp *resp, u32 psn, u8 syndrome)
{
	resp->ack_due = true;
	resp->ack_psn = psn;
	resp->ack_syndrome = syndrome;
	resp->echo.until = 0;
}

/* One NAK 0x60 or RNR NAK per ePSN, until the expected packet comes (wire.md 4.2). */
static void owe_nak(struct roe_resp *resp, u8 syndrome)
{
	resp->nak_state = syndrome;
	owe(resp, resp->psn, syndrome);
}

/* A gap begins at ePSN. Who sends into it hears after so many packets if it goes on. */
static void owe_gap_nak(struct roe_resp *resp, u32 pkts)
{
	resp->gap_psn = resp->psn;
	resp->gap_pkts = pkts;
	owe_nak(resp, ROE_NAK_PSN_SEQ);
}

/*
 * A fatal NAK. The QP goes to ERR once the NAK has left; until then nothing
 * more is accepted. The error is reported by the receive WQE in use, or by an
 * event if there is none (R14).
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
	if (v.syndrome == ROE_NAK_REM_ACCESS)
		roe_qp_count(qp, ROE_STAT_RESP_REM_ACCESS);
	owe(resp, resp->psn, v.syndrome);
	resp->fatal = true;
	resp->rnr_look = 0;
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

/* Rights that a placement type needs, of the QP and of the MR. */
static u32 flush_access(u32 feth)
{
	return (feth & ROE_FETH_PLT_GLOBAL ? IB_ACCESS_FLUSH_GLOBAL : 0) |
	       (feth & ROE_FETH_PLT_PERSISTENT ? IB_ACCESS_FLUSH_PERSISTENT : 0);
}

static bool flush_allowed(const struct roe_qp *qp, u32 feth)
{
	u32 need = flush_access(feth);

	/* a placement type must be named, and be one that we know */
	return need && !(feth & ROE_FETH_PLT_MASK &
			 ~(ROE_FETH_PLT_GLOBAL | ROE_FETH_PLT_PERSISTENT)) &&
	       (qp->access & need) == need;
}

static bool allowed(const struct roe_qp *qp, const struct roe_pkt *p, u32 flags)
{
	switch (p->opcode & ROE_OP_MASK) {
	case ROE_OP_FLUSH:
		return flush_allowed(qp, p->feth);
	case ROE_OP_ATOMIC_WRITE:
		return qp->access & IB_ACCESS_REMOTE_WRITE;
	default:
		break;
	}
	if (flags & ROE_F_WRITE)
		return qp->access & IB_ACCESS_REMOTE_WRITE;
	if (flags & ROE_F_READ)
		return qp->access & IB_ACCESS_REMOTE_READ;
	if (flags & ROE_F_ATOMIC)
		return qp->access & IB_ACCESS_REMOTE_ATOMIC;
	return flags & ROE_F_SEND;
}

/* The receive WQE for this packet; false: receiver not ready. */
static bool have_rwqe(struct roe_qp *qp, u32 flags)
{
	if (!(flags & ROE_F_RWQE) || qp->resp.rwqe_valid)
		return true;
	qp->resp.rwqe_valid = roe_wqe_next_recv(qp, &qp->resp.rwqe);
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
	if ((flags & ROE_F_IETH) && roe_mr_invalidate(qp, rx->p.rkey))
		return REFUSE(REM_ACCESS, REM_INV_REQ_ERR);
	return ACCEPT;
}

/*
 * The first packet proves the whole range, each later one that it still is; what
 * was proven in this run still is where the MR lasts.
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

/*
 * Of one with immediate that is refused the receive WQE is flushed, whichever packet it is
 * for: nothing is wrong with it, nor was it used. So there is an event, as with hardware.
 */
static struct verdict do_write(struct roe_qp *qp, struct roe_ctx *ctx,
			       const struct roe_rx_pkt *rx, u32 flags)
{
	struct roe_resp *resp = &qp->resp;
	struct roe_mr *mr;
	bool ok;
	u64 end;

	if (flags & ROE_F_START) {
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
	if (resp->dmalen) {
		mr = write_target(qp, ctx);
		if (!mr)
			return REFUSE(REM_ACCESS, SUCCESS);
		ok = roe_sge_write_mr(qp, mr, resp->va + resp->done, rx->vec, rx->p.len,
				      resp->dmalen - resp->done);
		roe_mr_put(mr);
		if (!ok)
			return REFUSE(REM_ACCESS, SUCCESS);
	}
	resp->done = end;
	return ACCEPT;
}

/* The next slot of the ring, recycling the oldest; NULL: too many unanswered. */
static struct roe_rsrc *take_slot(struct roe_resp *resp)
{
	struct roe_rsrc *rs;

	if (!resp->rsrc_nr)
		return NULL;
	rs = &resp->rsrc[resp->rsrc_head];
	if (rs->pending && !rs->replay)
		return NULL;
	/* a peer that may ask for more has all that this slot answered once */
	if (rs->pending)
		resp->rsrc_pending--;
	resp->rsrc_head = (resp->rsrc_head + 1) % resp->rsrc_nr;
	memset(rs, 0, sizeof(*rs));
	return rs;
}

/*
 * A response acknowledges all before it. A NAK for that PSN itself did not leave before
 * what it asks for has come.
 */
static void supersede(struct roe_resp *resp, u32 last_psn)
{
	if (resp->ack_due && !resp->fatal && roe_psn_diff(resp->ack_psn, last_psn) <= 0) {
		resp->ack_due = false;
		resp->echo.until = 0;
	}
}

static void answer(struct roe_resp *resp, struct roe_rsrc *rs, u32 from)
{
	if (!rs->pending)
		resp->rsrc_pending++;
	rs->pending = true;
	rs->start_psn = from;
	rs->cur_psn = from;
	supersede(resp, rs->last_psn);
}

/* Memory is read when the responses leave, and looked up again then. */
static bool may_read(struct roe_qp *qp, const struct roe_pkt *p)
{
	struct roe_mr *mr;

	if (!p->dmalen)
		return true;
	mr = roe_mr_get_remote(qp, p->rkey, IB_ACCESS_REMOTE_READ, p->va, p->dmalen);
	if (!mr)
		return false;
	roe_mr_put(mr);
	return true;
}

static struct verdict do_read(struct roe_qp *qp, const struct roe_rx_pkt *rx)
{
	struct roe_resp *resp = &qp->resp;
	const struct roe_pkt *p = &rx->p;
	struct roe_rsrc *rs;

	if (p->dmalen > ROE_MSG_MAX)
		return REFUSE(INV_REQ, SUCCESS);
	if (!may_read(qp, p))
		return REFUSE(REM_ACCESS, SUCCESS);
	rs = take_slot(resp);
	if (!rs)
		return REFUSE(INV_REQ, SUCCESS);
	rs->kind = ROE_RSRC_READ;
	rs->first_psn = p->psn;
	rs->last_psn = roe_psn_add(p->psn, roe_psn_count(p->dmalen, qp->mtu) - 1);
	rs->rkey = p->rkey;
	rs->va = p->va;
	rs->len = p->dmalen;
	rs->msn = roe_psn_add(resp->msn, 1);
	answer(resp, rs, p->psn);
	return ACCEPT;
}

/* The first @len bytes of payload, wherever they lie; false: there are fewer. */
static bool gather(const struct roe_rx_pkt *rx, u8 *dst, u32 len)
{
	unsigned int i;

	for (i = 0; len && i < rx->nvec; i++) {
		u32 n = min_t(size_t, len, rx->vec[i].iov_len);

		memcpy(dst, rx->vec[i].iov_base, n);
		dst += n;
		len -= n;
	}
	return !len;
}

/* Atomic against every other access of this CPU architecture's kind, so also ours. */
static u64 execute_atomic(u64 *word, const struct roe_pkt *p)
{
	if ((p->opcode & ROE_OP_MASK) == ROE_OP_CMP_SWAP)
		return cmpxchg64(word, p->compare, p->swap_add);
	return atomic64_fetch_add(p->swap_add, (atomic64_t *)word);
}

/* An MR whose iova is not aligned like its memory has no words for atomics. */
static bool may_hold_word(const struct roe_mr *mr, u64 va)
{
	return mr->odp && IS_ALIGNED(va - mr->iova + mr->base, sizeof(u64));
}

/* A word to be changed; NULL: there is none, or after a miss. */
static u64 *find_word(struct roe_qp *qp, struct roe_mr *mr, u64 va)
{
	u64 *word = NULL;

	if (roe_mr_present(mr, va, sizeof(u64)))
		word = roe_mr_word(mr, va);
	if (word) {
		roe_fault_hit(&qp->resp.fault, mr, va, sizeof(u64), true);
	} else if (may_hold_word(mr, va)) {
		/* a page may also go between the two */
		roe_fault_miss(qp, &qp->resp.fault, mr, va, sizeof(u64), true);
	}
	return word;
}

/* Nothing can be done on a word that is not there, or not aligned. */
static struct verdict no_word(struct roe_mr *mr)
{
	if (mr->odp)
		return REFUSE(REM_ACCESS, SUCCESS);
	return REFUSE(REM_OP, SUCCESS);
}

/* The request on a held range, if there is a slot to keep its result. */
static struct verdict atomic_on(struct roe_qp *qp, struct roe_mr *mr, const struct roe_pkt *p)
{
	struct roe_resp *resp = &qp->resp;
	struct roe_rsrc *rs;
	u64 *word;

	word = find_word(qp, mr, p->va);
	if (!word)
		return no_word(mr);
	rs = take_slot(resp);
	if (!rs)
		return REFUSE(INV_REQ, SUCCESS);
	rs->kind = ROE_RSRC_ATOMIC;
	rs->first_psn = p->psn;
	rs->last_psn = p->psn;
	rs->orig = execute_atomic(word, p);
	rs->msn = roe_psn_add(resp->msn, 1);
	answer(resp, rs, p->psn);
	return ACCEPT;
}

static struct verdict do_atomic(struct roe_qp *qp, const struct roe_pkt *p)
{
	struct verdict v;
	struct roe_mr *mr;

	if (!IS_ALIGNED(p->va, sizeof(u64)))
		return REFUSE(INV_REQ, SUCCESS);
	mr = roe_mr_get_remote(qp, p->rkey, IB_ACCESS_REMOTE_ATOMIC, p->va, sizeof(u64));
	if (!mr)
		return REFUSE(REM_ACCESS, SUCCESS);
	v = atomic_on(qp, mr, p);
	roe_mr_put(mr);
	return v;
}

/* The answer without data: what was asked for is done. */
static struct verdict answer_empty(struct roe_qp *qp, const struct roe_pkt *p)
{
	struct roe_resp *resp = &qp->resp;
	struct roe_rsrc *rs = take_slot(resp);

	if (!rs)
		return REFUSE(INV_REQ, SUCCESS);
	rs->kind = ROE_RSRC_EMPTY;
	rs->first_psn = p->psn;
	rs->last_psn = p->psn;
	rs->msn = roe_psn_add(resp->msn, 1);
	answer(resp, rs, p->psn);
	return ACCEPT;
}

/* One store of 8 bytes, behind all that was placed before it (wire.md 7). */
static struct verdict atomic_write_on(struct roe_qp *qp, struct roe_mr *mr,
				      const struct roe_rx_pkt *rx)
{
	u64 *word = find_word(qp, mr, rx->p.va);
	struct verdict v;
	u64 value;

	if (!word)
		return no_word(mr);
	if (!gather(rx, (u8 *)&value, sizeof(value)))
		return REFUSE(REM_OP, SUCCESS);
	v = answer_empty(qp, &rx->p);
	if (v.syndrome)
		return v;
	/* what the message wrote before it; read by the application */
	smp_store_release(word, value);
	return ACCEPT;
}

static struct verdict do_atomic_write(struct roe_qp *qp, const struct roe_rx_pkt *rx)
{
	const struct roe_pkt *p = &rx->p;
	struct verdict v;
	struct roe_mr *mr;

	if (p->dmalen != sizeof(u64) || !IS_ALIGNED(p->va, sizeof(u64)))
		return REFUSE(INV_REQ, SUCCESS);
	mr = roe_mr_get_remote(qp, p->rkey, IB_ACCESS_REMOTE_WRITE, p->va, sizeof(u64));
	if (!mr)
		return REFUSE(REM_ACCESS, SUCCESS);
	v = atomic_write_on(qp, mr, rx);
	roe_mr_put(mr);
	return v;
}

/* All of an MR: wherever it may begin, the key is what counts. */
static u64 first_va(struct roe_qp *qp, u32 rkey)
{
	const struct roe_mr *mr = roe_mr_find(qp->keys, rkey);

	return mr ? READ_ONCE(mr->iova) : 0;
}

/* Returns whether there is room to owe the answer; what is owed already is. */
static bool answer_flush(struct roe_resp *resp, u32 psn, u32 msn)
{
	u32 i;

	for (i = 0; i < resp->flush_nr; i++)
		if (resp->flush[i].psn == psn)
			return true;
	if (i == ROE_FLUSHES)
		return false;
	resp->flush[resp->flush_nr++] = (struct roe_flush){ .psn = psn, .msn = msn };
	supersede(resp, psn);
	return true;
}

/*
 * Our stores are in caches that all CPUs and devices see: global visibility is
 * their order. Persistence is not offered, so no MR has the right for it.
 */
static struct verdict do_flush(struct roe_qp *qp, const struct roe_pkt *p)
{
	u32 sel = (p->feth & ROE_FETH_SEL_MASK) >> ROE_FETH_SEL_SHIFT;
	bool whole = sel == ROE_FETH_SEL_MR;
	struct roe_resp *resp = &qp->resp;
	struct roe_mr *mr;

	if (sel > ROE_FETH_SEL_MR || !resp->rsrc_nr)
		return REFUSE(INV_REQ, SUCCESS);
	mr = roe_mr_get_remote(qp, p->rkey, flush_access(p->feth),
			       whole ? first_va(qp, p->rkey) : p->va, whole ? 0 : p->dmalen);
	if (!mr)
		return REFUSE(REM_ACCESS, SUCCESS);
	roe_mr_put(mr);
	/* before the answer leaves: pairs with whoever acts on the completion */
	smp_mb();
	return answer_flush(resp, p->psn, roe_psn_add(resp->msn, 1)) ? ACCEPT : LATER;
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
	if (flags & ROE_F_READ)
		return do_read(qp, rx);
	if ((rx->p.opcode & ROE_OP_MASK) == ROE_OP_FLUSH)
		return do_flush(qp, &rx->p);
	if ((rx->p.opcode & ROE_OP_MASK) == ROE_OP_ATOMIC_WRITE)
		return do_atomic_write(qp, rx);
	return do_atomic(qp, &rx->p);
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

/* The packet was executed: ePSN, MSN, message state, completion, ACK. */
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
		/* so long ago that the peer would take it for news, or for a later one */
		resp->done_known = false;
	}
	if (!(flags & (ROE_F_SEND | ROE_F_WRITE)) || (flags & ROE_F_END))
		resp->msn = roe_psn_add(resp->msn, 1);
	if (flags & ROE_F_COMP)
		complete_rwqe(qp, ctx, p, flags);
	/* also in place of a NAK that did not leave before its gap closed */
	if ((p->ackreq || resp->ack_due) && (flags & (ROE_F_SEND | ROE_F_WRITE)))
		owe(resp, p->psn, ROE_AETH_ACK | ROE_AETH_NO_CREDITS);
	if (p->ackreq && (flags & (ROE_F_SEND | ROE_F_WRITE)) && (flags & ROE_F_START) &&
	    (flags & ROE_F_END))
		roe_echo_message(qp, ctx);
}

/*
 * Memory that is not pinned is not there: later. The peer cannot be told when the
 * page has come, so it asks again after 0.64 ms, and while the worker is @busy waits
 * four times as long each time: also with few retries it outlasts a disk.
 */
static void owe_page_nak(struct roe_qp *qp, bool busy)
{
	struct roe_resp *resp = &qp->resp;
	u8 code;

	resp->page_naks = busy ? min(resp->page_naks + 1, 4) : 0;
	code = 12 + 4 * resp->page_naks;
	roe_qp_count(qp, ROE_STAT_RNR_SENT);
	owe_nak(resp, ROE_AETH_RNR_NAK | code);
}

/*
 * An ACK that no request asked for now names what was done, but no READ or ATOMIC
 * behind it: their responses may be lost. An ACK is none, but rdma_rxe completes a READ
 * by one of the same PSN, without data.
 */
static void owe_again(struct roe_resp *resp)
{
	if (resp->done_known && roe_psn_diff(resp->psn, resp->done_psn) > 0)
		owe(resp, resp->done_psn, ROE_AETH_ACK | ROE_AETH_NO_CREDITS);
}

static void owe_rnr_nak(struct roe_qp *qp)
{
	qp->resp.rnr_look = 0;
	roe_qp_count(qp, ROE_STAT_RNR_SENT);
	owe_nak(&qp->resp,
		ROE_AETH_RNR_NAK | (qp->attr.min_rnr_timer & ROE_AETH_VALUE_MASK));
}

/* How long an RNR NAK may wait; 0: not at all. */
static u64 rnr_patience(const struct roe_qp *qp)
{
	/*
	 * The sequence NAK that ends it counts against retry_cnt, which as a rule both ends
	 * have from the same CM, and which comes with RTS: with 0 it is the end of a
	 * connection that an RNR NAK leaves alone.
	 */
	if (qp->state != IB_QPS_RTS || !qp->attr.retry_cnt ||
	    roe_timer_rnr_ns(qp->attr.min_rnr_timer) < ROE_RNR_LONG_NS)
		return 0;
	if (!qp->timeout_ns)
		return ROE_RNR_PATIENCE_NS;
	/* the peer's own clock, which is as a rule that of ours, must not run out */
	return min_t(u64, ROE_RNR_PATIENCE_NS, qp->timeout_ns / 4);
}

/*
 * No receive WQE, perhaps because the process was not scheduled since it had one: on a
 * busy host messages may well come faster. The RDMA-CM chooses a timer of 0.66 s, and
 * with an rnr_retry of 0 the connection would be gone. So where the NAK costs that much
 * it waits for a moment. For receives of a process there is no doorbell: whoever runs the
 * QP looks, and the timer, half as often each time. What comes meanwhile counts as lost,
 * what came before is acknowledged.
 */
static void not_ready(struct roe_qp *qp, const struct roe_ctx *ctx)
{
	struct roe_resp *resp = &qp->resp;
	u64 patience = rnr_patience(qp);

	if (resp->rnr_look)
		return;
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
		owe_again(resp);
}

/**
 * roe_responder_look() - is the receive WQE there that an RNR NAK waits for?
 * @qp: resp.rnr_look is set
 * @ctx: the time
 *
 * The peer is asked for what was lost meanwhile.
 */
void roe_responder_look(struct roe_qp *qp, struct roe_ctx *ctx)
{
	struct roe_resp *resp = &qp->resp;

	if (have_rwqe(qp, ROE_F_RWQE)) {
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
	if (!have_rwqe(qp, flags)) {
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
 * A kept request is not worth an RNR NAK: without a receive WQE it is as if nothing
 * had been kept, and the peer sends again what follows.
 */
static bool ready(struct roe_qp *qp, const struct roe_rx_pkt *rx)
{
	u32 flags = roe_opcode(rx->p.opcode)->flags;

	return !in_sequence(&qp->resp, flags) || !allowed(qp, &rx->p, flags) ||
	       have_rwqe(qp, flags);
}

/*
 * The expected packet, then those that waited for it. The peer hears at once how
 * far that went, for it may have sent no more than was missing: by an ACK or, if
 * there is another gap, by the NAK for that. In a gap that goes on an ACK is what an AckReq
 * gets, for a peer takes a NAK for another loss and sends what is on its way once more. But
 * one that sends into the gap 4 packets, then 8 and so on (requester.c) waits behind them
 * for a NAK.
 */
static void expected_and_early(struct roe_qp *qp, struct roe_ctx *ctx,
			       const struct roe_rx_pkt *rx)
{
	struct roe_resp *resp = &qp->resp;
	bool tell = rx->p.ackreq, closed = false;
	struct roe_early *early;

	expected(qp, ctx, rx);
	while (!resp->fatal && !resp->nak_state &&
	       (early = roe_early_take(&resp->early, resp->psn, &rx))) {
		if (ready(qp, rx)) {
			closed = true;
			expected(qp, ctx, rx);
		} else {
			roe_early_purge(&resp->early);
		}
		roe_early_free(early);
	}
	if (resp->fatal || resp->nak_state)
		return;
	if (resp->early.nr && closed)
		owe_gap_nak(resp, ROE_PROBE_PKTS);
	else if (resp->early.nr && tell &&
		 roe_psn_diff(resp->psn, resp->gap_psn) >= (s32)resp->gap_pkts)
		owe_gap_nak(resp, min_t(u32, 2 * resp->gap_pkts, ROE_EARLY_SLOTS));
	else if (closed && !resp->ack_due && !resp->rsrc_pending && !resp->flush_nr)
		owe_again(resp);
}

/* The kept requests are in PSN order; the youngest has age 1. */
static struct roe_rsrc *slot_by_age(struct roe_resp *resp, u32 age)
{
	return &resp->rsrc[(resp->rsrc_head + resp->rsrc_nr - age) % resp->rsrc_nr];
}

static bool has_psn(const struct roe_rsrc *rs, u32 psn)
{
	return rs->kind && roe_psn_diff(psn, rs->first_psn) >= 0 &&
	       roe_psn_diff(psn, rs->last_psn) <= 0;
}

/* The kept request that @psn belongs to, the youngest, for PSNs come again. */
static struct roe_rsrc *find_slot(struct roe_resp *resp, u8 kind, u32 psn)
{
	u32 age;

	for (age = 1; age <= resp->rsrc_nr; age++) {
		struct roe_rsrc *rs = slot_by_age(resp, age);

		if (rs->kind == kind && has_psn(rs, psn))
			return rs;
	}
	return NULL;
}

/* Slot with the lowest PSN that has something to send. */
static struct roe_rsrc *next_pending(struct roe_resp *resp)
{
	u32 i;

	for (i = 0; resp->rsrc_pending && i < resp->rsrc_nr; i++) {
		struct roe_rsrc *rs = &resp->rsrc[(resp->rsrc_head + i) % resp->rsrc_nr];

		if (rs->pending)
			return rs;
	}
	return NULL;
}

/*
 * The peer misses the responses from @psn on, and has thrown away what has left behind it.
 * Not those that a queue of this host refused; nor again those of a READ behind one that is
 * sent again now; nor is it news where a request comes late that was overtaken.
 */
static void responses_lost(struct roe_qp *qp, const struct roe_ctx *ctx,
			   const struct roe_rsrc *rs, u32 psn)
{
	u32 end = rs->pending ? rs->cur_psn : roe_psn_add(rs->last_psn, 1);
	const struct roe_rsrc *next = next_pending(&qp->resp);
	s32 came = roe_psn_diff(psn, rs->start_psn);

	if (ctx->direct || ctx->now < qp->resp.alone_until || came < 0 ||
	    (next && roe_psn_diff(next->cur_psn, psn) < 0))
		return;
	roe_cc_lost(qp, ctx, came, roe_psn_diff(end, psn));
}

/* READ again, perhaps from its middle: only a part of the original counts. */
static void duplicate_read(struct roe_qp *qp, const struct roe_ctx *ctx, const struct roe_pkt *p)
{
	struct roe_rsrc *rs = find_slot(&qp->resp, ROE_RSRC_READ, p->psn);
	u64 off;

	if (!rs)
		return;
	off = (u64)((p->psn - rs->first_psn) & ROE_PSN_MASK) * qp->mtu;
	if (p->va != rs->va + off || p->rkey != rs->rkey || p->dmalen != rs->len - off)
		return;
	/*
	 * What is still to be sent answers the duplicate as well, and begins like an answer.
	 * The peer has all before it: what was late has come, and is not sent once more.
	 */
	if (rs->pending && roe_psn_diff(p->psn, rs->cur_psn) >= 0) {
		rs->cur_psn = p->psn;
		rs->start_psn = p->psn;
		return;
	}
	responses_lost(qp, ctx, rs, p->psn);
	if (!rs->pending)
		rs->replay = true;
	rs->again = true;
	answer(&qp->resp, rs, p->psn);
}

/* ATOMIC and ATOMIC WRITE: the answer again, the deed not. */
static void duplicate_once(struct roe_qp *qp, const struct roe_pkt *p, u8 kind)
{
	struct roe_rsrc *rs = find_slot(&qp->resp, kind, p->psn);

	if (!rs)
		return;
	if (!rs->pending)
		rs->replay = true;
	answer(&qp->resp, rs, rs->first_psn);
}

/* PSN in the past: nothing is executed twice, no error is answered (wire.md 4.5). */
static void duplicate(struct roe_qp *qp, const struct roe_ctx *ctx, const struct roe_pkt *p)
{
	struct roe_resp *resp = &qp->resp;
	u32 flags = roe_opcode(p->opcode)->flags;

	roe_qp_count(qp, ROE_STAT_DUP_REQ);
	if (flags & ROE_F_READ)
		duplicate_read(qp, ctx, p);
	else if (flags & ROE_F_ATOMIC)
		duplicate_once(qp, p, ROE_RSRC_ATOMIC);
	else if ((p->opcode & ROE_OP_MASK) == ROE_OP_FLUSH)
		answer_flush(resp, p->psn, resp->msn);
	else if (!(flags & (ROE_F_SEND | ROE_F_WRITE)))
		duplicate_once(qp, p, ROE_RSRC_EMPTY);
	else if (p->ackreq && (!resp->ack_due || resp->echo.until))
		owe_again(resp);
}

/*
 * A receive WQE that cannot be used is the fault of this side, so it is told: the
 * WQE fails and the QP with it (IBTA 9.9.3.2, class E). What the peer did wrong, or
 * what was lost, costs the message only; the WQE is used again from the start.
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

/* May the packet go on with, or start, a message? Opens and closes it. */
static bool uc_sequence(struct roe_resp *resp, u32 flags)
{
	u32 kind = flags & (ROE_F_SEND | ROE_F_WRITE);

	/* a First or Only where a Middle or Last is due ends the open message (R20) */
	if (!(flags & ROE_F_START) && resp->in_msg != kind) {
		resp->in_msg = 0;
		return false;
	}
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
		roe_qp_count(qp, ROE_STAT_RX_DROP);
		return;
	}
	if (!allowed(qp, &rx->p, flags) || !have_rwqe(qp, flags) ||
	    !roe_opcode_len_ok(rx->p.opcode, rx->p.len, qp->mtu)) {
		uc_refuse(qp, ctx, REFUSE(INV_REQ, SUCCESS));
		return;
	}
	v = execute(qp, ctx, rx, flags);
	if (v.syndrome) {
		/* a page that is not there costs the message */
		if (roe_fault_missed(qp, ctx, &resp->fault))
			v = REFUSE(INV_REQ, SUCCESS);
		uc_refuse(qp, ctx, v);
		return;
	}
	if (flags & ROE_F_END)
		resp->in_msg = 0;
	if (flags & ROE_F_COMP)
		complete_rwqe(qp, ctx, &rx->p, flags);
}

/*
 * UC has no duplicates by the specification, but networks copy and reorder: what
 * is a little behind the ePSN came late and is not taken twice. Everything else
 * is news, and if it is not the ePSN something was lost (IBTA 9.8.2.2, wire.md
 * 4.4). The limit keeps the QP from being deaf for half of the PSN space after
 * an outage.
 */
static void uc_receive(struct roe_qp *qp, struct roe_ctx *ctx, const struct roe_rx_pkt *rx)
{
	struct roe_resp *resp = &qp->resp;
	s32 ahead = roe_psn_diff(rx->p.psn, resp->psn);

	if (ahead < 0 && ahead >= -ROE_UC_LATE_PKTS) {
		roe_qp_count(qp, ROE_STAT_DUP_REQ);
		return;
	}
	if (ahead) {
		roe_qp_count(qp, ROE_STAT_OUT_OF_SEQ);
		resp->in_msg = 0;
	}
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
	 * A late copy from the network says nothing about the way of the peer. An
	 * answer that takes no time may overtake one on the wire: back to the direct
	 * way only once the requester has all earlier ones.
	 */
	if (ctx->direct ? ctx->fresh : !ahead)
		resp->direct = ctx->direct;
	if (ahead < 0) {
		duplicate(qp, ctx, &rx->p);
	} else if (!ahead) {
		expected_and_early(qp, ctx, rx);
	} else {
		if (!resp->nak_state) {
			roe_qp_count(qp, ROE_STAT_OUT_OF_SEQ);
			owe_gap_nak(resp, ROE_PROBE_PKTS);
		}
		/* what follows an RNR NAK comes again in any case (wire.md 4.2) */
		if (resp->nak_state == ROE_NAK_PSN_SEQ)
			roe_early_keep(&resp->early, resp->psn, rx, qp->mtu);
	}
}

/*
 * Where the payload of the next packets of the message in progress goes, *@len bytes at
 * *@va; *@len is cut to what lies in one piece of the list. NULL: nothing may be proven
 * for all of them at once.
 */
static struct roe_mr *row_target(struct roe_qp *qp, struct roe_ctx *ctx, u32 flags, u32 *len,
				 u64 *va)
{
	struct roe_resp *resp = &qp->resp;
	u64 end = (u64)resp->done + *len;

	if (flags & ROE_F_SEND) {
		if (resp->rwqe.status != IB_WC_SUCCESS || end > resp->rwqe.length)
			return NULL;
		return roe_sge_room(qp, ctx, resp->done, len, va);
	}
	*va = resp->va + resp->done;
	return end > resp->dmalen ? NULL : ctx->target;
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
 * @row: requests as roe_qp_dispatch_row() puts them together; cut to what was done
 *
 * All that could go wrong with one of them is looked at before the first one; if there
 * is anything they go one by one, with the same result for those before it.
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
	row->n = len / qp->mtu;
	if (!mr || !row->n)
		return false;
	roe_mr_write_row(mr, va, row, qp->mtu);
	if (!ctx->direct || ctx->fresh)
		resp->direct = ctx->direct;
	resp->done += row->n * qp->mtu;
	resp->psn = roe_psn_add(resp->psn, row->n);
	resp->done_psn = roe_psn_add(resp->psn, -1);
	asked = resp->ack_due;
	for (i = 0; i < row->n && !asked; i++)
		asked = roe_rx_at(row, i)->p.ackreq;
	if (asked)
		owe(resp, resp->done_psn, ROE_AETH_ACK | ROE_AETH_NO_CREDITS);
	return true;
}

static void answered(struct roe_resp *resp, struct roe_rsrc *rs)
{
	rs->pending = false;
	rs->replay = false;
	resp->rsrc_pending--;
}

static struct roe_tx_pkt *add_response(struct roe_qp *qp, struct roe_txb *txb, u8 opcode,
				       u32 len, u32 psn, u32 msn)
{
	struct roe_tx_pkt *pkt = roe_txb_add(txb, opcode, len);

	if (!pkt)
		return NULL;
	pkt->p.qpn = qp->dest_qpn;
	pkt->p.pkey = qp->pkey;
	pkt->p.psn = psn;
	pkt->p.msn = msn;
	pkt->p.syndrome = ROE_AETH_ACK | ROE_AETH_NO_CREDITS;
	return pkt;
}

static u8 read_opcode(const struct roe_rsrc *rs)
{
	bool first = rs->cur_psn == rs->start_psn;
	bool last = rs->cur_psn == rs->last_psn;

	if (first)
		return last ? ROE_OP_READ_RESP_ONLY : ROE_OP_READ_RESP_FIRST;
	return last ? ROE_OP_READ_RESP_LAST : ROE_OP_READ_RESP_MIDDLE;
}

/* The R_Key, or the memory, went away after the READ was accepted. */
static void read_refused(struct roe_qp *qp, struct roe_ctx *ctx, struct roe_rsrc *rs)
{
	bool replay = rs->replay;
	u32 psn = rs->cur_psn;

	answered(&qp->resp, rs);
	if (replay)
		return;
	refuse(qp, ctx, REFUSE(REM_ACCESS, SUCCESS));
	qp->resp.ack_psn = psn;
	/* nothing that comes after it leaves before the NAK, or at all */
	qp->resp.rsrc_pending = 0;
	qp->resp.flush_nr = 0;
}

/*
 * The memory that a READ asked for, if its key still names it. Looked up once a run
 * where the MR lasts.
 */
static struct roe_mr *read_source(struct roe_qp *qp, struct roe_ctx *ctx,
				  const struct roe_rsrc *rs)
{
	struct roe_sge_memo *memo = &ctx->answer;
	u32 slot = rs - qp->resp.rsrc;
	struct roe_mr *mr;

	if (memo->mr && memo->message == slot)
		return memo->mr;
	mr = roe_mr_get_remote(qp, rs->rkey, IB_ACCESS_REMOTE_READ, rs->va, rs->len);
	memo->mr = mr && roe_mr_lasts(mr) ? mr : NULL;
	memo->message = slot;
	return mr;
}

/* Its page was not there: the responses go on when it is, or never. */
static bool read_missed(struct roe_qp *qp, struct roe_ctx *ctx, struct roe_rsrc *rs,
			struct roe_txb *txb)
{
	roe_txb_cancel(txb);
	qp->resp.stalled = roe_fault_missed(qp, ctx, &qp->resp.fault);
	if (qp->resp.stalled)
		return false;
	read_refused(qp, ctx, rs);
	return true;
}

/* Does a response leave as a packet of its own? */
static bool alone(const struct roe_resp *resp, const struct roe_rsrc *rs,
		  const struct roe_ctx *ctx)
{
	return rs->again || ctx->now < resp->alone_until;
}

/* If this burst is refused, the slot goes on here. */
static void note_burst(const struct roe_resp *resp, struct roe_rsrc *rs, u32 psn)
{
	if (rs->burst == resp->burst)
		return;
	rs->burst = resp->burst;
	rs->burst_psn = psn;
}

static bool emit_read(struct roe_qp *qp, struct roe_ctx *ctx, struct roe_rsrc *rs,
		      struct roe_txb *txb)
{
	u32 off = ((rs->cur_psn - rs->first_psn) & ROE_PSN_MASK) * qp->mtu;
	u32 len = min(rs->len - off, qp->mtu);
	struct roe_tx_pkt *pkt;
	struct roe_mr *mr;
	bool ok;

	pkt = add_response(qp, txb, read_opcode(rs), len, rs->cur_psn, rs->msn);
	if (!pkt)
		return false;
	pkt->again = alone(&qp->resp, rs, ctx);
	if (len) {
		mr = read_source(qp, ctx, rs);
		if (!mr) {
			roe_txb_cancel(txb);
			read_refused(qp, ctx, rs);
			return true;
		}
		ok = roe_sge_load_mr(qp, txb, mr, rs->va + off, rs->len - off);
		roe_mr_put(mr);
		if (!ok)
			return read_missed(qp, ctx, rs, txb);
	}
	note_burst(&qp->resp, rs, rs->cur_psn);
	if (rs->cur_psn == rs->last_psn)
		answered(&qp->resp, rs);
	else
		rs->cur_psn = roe_psn_add(rs->cur_psn, 1);
	return true;
}

/*
 * More responses from the middle of a READ, like the one before them, with which this run
 * has found the memory. False: the next one alone, or there is no room.
 */
static bool emit_read_row(struct roe_qp *qp, struct roe_ctx *ctx, struct roe_rsrc *rs,
			  struct roe_txb *txb)
{
	s32 left = roe_psn_diff(rs->last_psn, rs->cur_psn);
	struct roe_pkt model = {
		.opcode = ROE_OP_READ_RESP_MIDDLE,
		.syndrome = ROE_AETH_ACK | ROE_AETH_NO_CREDITS,
		.pkey = qp->pkey,
		.qpn = qp->dest_qpn,
		.psn = rs->cur_psn,
		.msn = rs->msn,
		.len = qp->mtu,
	};
	const struct roe_sge_memo *memo = &ctx->answer;
	unsigned int n;
	u64 va;

	if (!memo->mr || memo->message != rs - qp->resp.rsrc || rs->cur_psn == rs->start_psn ||
	    left < 2 || alone(&qp->resp, rs, ctx) || !roe_txb_lends(txb))
		return false;
	va = rs->va + ((rs->cur_psn - rs->first_psn) & ROE_PSN_MASK) * qp->mtu;
	n = roe_txb_plan(txb, qp->mtu, left);
	n = roe_mr_map_row(memo->mr, va, &txb->pkt[txb->n], n, qp->mtu);
	if (!n)
		return false;
	roe_txb_add_row(txb, &model, n);
	note_burst(&qp->resp, rs, rs->cur_psn);
	rs->cur_psn = roe_psn_add(rs->cur_psn, n);
	return true;
}

static bool emit_atomic(struct roe_qp *qp, struct roe_rsrc *rs, struct roe_txb *txb)
{
	struct roe_tx_pkt *pkt = add_response(qp, txb, ROE_OP_ATOMIC_ACK, 0, rs->first_psn,
					      rs->msn);

	if (!pkt)
		return false;
	pkt->p.compare = rs->orig;
	note_burst(&qp->resp, rs, rs->first_psn);
	answered(&qp->resp, rs);
	return true;
}

/* The FLUSH to be answered first; NULL: there is none, or @rs comes before it. */
static struct roe_flush *next_flush(struct roe_resp *resp, const struct roe_rsrc *rs)
{
	struct roe_flush *first = NULL;
	u32 i;

	for (i = 0; i < resp->flush_nr; i++)
		if (!first || roe_psn_diff(resp->flush[i].psn, first->psn) < 0)
			first = &resp->flush[i];
	return first && (!rs || roe_psn_diff(first->psn, rs->cur_psn) < 0) ? first : NULL;
}

static bool emit_flush(struct roe_qp *qp, struct roe_flush *flush, struct roe_txb *txb)
{
	struct roe_resp *resp = &qp->resp;

	if (!add_response(qp, txb, ROE_OP_READ_RESP_ONLY, 0, flush->psn, flush->msn))
		return false;
	*flush = resp->flush[--resp->flush_nr];
	return true;
}

static bool emit_ack(struct roe_qp *qp, struct roe_ctx *ctx, struct roe_txb *txb)
{
	struct roe_resp *resp = &qp->resp;
	struct roe_tx_pkt *pkt = add_response(qp, txb, ROE_OP_ACK, 0, resp->ack_psn, resp->msn);

	if (!pkt)
		return false;
	pkt->p.syndrome = resp->ack_syndrome;
	if (resp->ack_syndrome & ROE_AETH_KIND_MASK)
		trace_roe_nak(qp, resp->ack_syndrome, resp->ack_psn);
	resp->ack_due = false;
	if (resp->fatal)
		roe_complete_error(qp, ctx);
	return true;
}

/* READ responses, one or more, as fast as cc.c lets them; directly there is no network. */
static bool emit_data(struct roe_qp *qp, struct roe_ctx *ctx, struct roe_rsrc *rs,
		      struct roe_txb *txb)
{
	u32 bytes = txb->bytes;
	bool ok;

	if (txb->direct)
		return emit_read_row(qp, ctx, rs, txb) || emit_read(qp, ctx, rs, txb);
	if (!roe_cc_open(qp, ctx)) {
		qp->resp.stalled = true;
		return false;
	}
	/* a row is more than may leave at once */
	ok = (!qp->rate.rate && emit_read_row(qp, ctx, rs, txb)) || emit_read(qp, ctx, rs, txb);
	if (txb->bytes > bytes)
		roe_cc_spend(qp, ctx, txb->bytes - bytes);
	return ok;
}

/*
 * No memory for a response: later, for the worker would only keep those away who free
 * some.
 */
static void starve(struct roe_qp *qp, const struct roe_ctx *ctx)
{
	if (!roe_qp_has_timer(qp))
		return;
	qp->resp.stalled = true;
	qp->rate.wake = ctx->now + ROE_LOCAL_DROP_NS;
}

static bool has_room(const struct roe_resp *resp, const struct roe_ctx *ctx,
		     const struct roe_txb *txb)
{
	return roe_txb_room(txb) &&
	       (txb->n < ROE_LOCAL_ALONE_PKTS || ctx->now >= resp->alone_until);
}

/**
 * roe_responder_emit() - add responses and acknowledgements to a burst
 * @qp: the QP; goes to ERR when a fatal NAK has been added
 * @ctx: takes notifications
 * @txb: the burst
 *
 * Return: true if there is no room (of what follows a refusal only a part of the burst),
 * and more is to be sent, which does not wait for a page, for memory or for its time.
 */
bool roe_responder_emit(struct roe_qp *qp, struct roe_ctx *ctx, struct roe_txb *txb)
{
	struct roe_resp *resp = &qp->resp;
	struct roe_rsrc *rs = NULL;
	struct roe_flush *flush;
	bool ok = true;

	resp->stalled = ctx->now < resp->refused_until;
	if (resp->stalled) {
		if (roe_qp_has_timer(qp))
			qp->rate.wake = resp->refused_until;
		return false;
	}
	while (ok && has_room(resp, ctx, txb)) {
		/* of a long READ many packets follow each other */
		if (!rs || !rs->pending)
			rs = next_pending(resp);
		flush = next_flush(resp, rs);
		if (flush)
			ok = emit_flush(qp, flush, txb);
		else if (rs && rs->kind == ROE_RSRC_ATOMIC)
			ok = emit_atomic(qp, rs, txb);
		else if (rs)
			ok = emit_data(qp, ctx, rs, txb);
		else if (roe_resp_owes(resp))
			ok = emit_ack(qp, ctx, txb);
		else
			return false;
	}
	if (!ok && !resp->stalled)
		starve(qp, ctx);
	return !resp->stalled && roe_resp_owes(resp);
}

/* What was answered from @psn on has not left; returns how many packets that is. */
static u32 unanswer(struct roe_resp *resp, struct roe_rsrc *rs, u32 psn)
{
	u32 end = rs->pending ? rs->cur_psn : roe_psn_add(rs->last_psn, 1);

	if (roe_psn_diff(end, psn) <= 0)
		return 0;
	if (!rs->pending) {
		resp->rsrc_pending++;
		rs->pending = true;
		/* a copy perhaps, and its requester may ask for more meanwhile */
		rs->replay = true;
	}
	rs->cur_psn = psn;
	if (roe_psn_diff(psn, rs->start_psn) < 0)
		rs->start_psn = psn;
	supersede(resp, rs->last_psn);
	return roe_psn_diff(end, psn);
}

/*
 * The slots of this burst in its order, which is that of their PSNs, from the one with the
 * first refused response on, or the first behind that. Returns how many responses have none:
 * those of FLUSHes.
 */
static u32 unanswer_from(struct roe_resp *resp, u32 psn, u32 left)
{
	bool found = false;
	u32 age;

	for (age = resp->rsrc_nr; age && left; age--) {
		struct roe_rsrc *rs = slot_by_age(resp, age);

		bool here = !found && has_psn(rs, psn);

		if (!rs->kind || rs->burst != resp->burst ||
		    (!found && !here && roe_psn_diff(rs->burst_psn, psn) < 0))
			continue;
		left -= min(left, unanswer(resp, rs, here ? psn : rs->burst_psn));
		found = true;
	}
	return left;
}

/**
 * roe_responder_local_drop() - IP refused responses of a burst
 * @qp: they have not left: it goes on with the first of them, soon
 * @ctx: the time
 * @refused: has responses or ACKs
 *
 * Or the peer would find out by a time-out, and a long READ be built to its end for a
 * queue that is full. The NAK of a QP that is in ERR now is lost.
 */
void roe_responder_local_drop(struct roe_qp *qp, struct roe_ctx *ctx,
			      const struct roe_refused *refused)
{
	struct roe_resp *resp = &qp->resp;
	u32 left;

	if (!roe_qp_has_timer(qp))
		return;
	left = unanswer_from(resp, refused->response, refused->responses);
	/* it leaves behind all of them, and says what is missing to who sent FLUSHes */
	if ((left || refused->acks) && !resp->ack_due) {
		if (resp->nak_state && !resp->rnr_look)
			owe(resp, resp->psn, resp->nak_state);
		else
			owe_again(resp);
	}
	/* nothing ends it: without a route a QP should not be at it all the time */
	if (refused->answered)
		resp->refusals = 0;
	resp->refused_until = ctx->now +
			      ((u64)ROE_LOCAL_DROP_NS << min(resp->refusals++, 10u));
	resp->alone_until = resp->refused_until + ROE_LOCAL_ALONE_NS;
	qp->rate.wake = resp->refused_until;
}

ROE_EXPORT_FOR_TEST(roe_responder_local_drop);

/**
 * roe_responder_reset() - initial state, on the way to RTR and to RESET
 * @qp: its slots (resp.rsrc, rsrc_nr) stay, emptied
 * @psn: rq_psn
 */
void roe_responder_reset(struct roe_qp *qp, u32 psn)
{
	struct roe_resp *resp = &qp->resp;
	struct roe_rsrc *rsrc = resp->rsrc;
	u32 nr = resp->rsrc_nr, burst = resp->burst;

	roe_early_purge(&resp->early);
	memset(resp, 0, offsetof(struct roe_resp, rwqe));
	roe_echo_reset(qp);
	resp->psn = psn;
	resp->done_psn = roe_psn_add(psn, -1);
	resp->done_known = true;
	/* what IP refuses of an older burst is no answer to what comes now */
	resp->burst = burst + 1;
	resp->rsrc = rsrc;
	resp->rsrc_nr = nr;
	if (rsrc)
		memset(rsrc, 0, array_size(nr, sizeof(*rsrc)));
}

ROE_EXPORT_FOR_TEST(roe_responder_reset);
