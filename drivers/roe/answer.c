// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * What the responder of RC owes to its peer (IBTA 9.7.5.1; wire.md 4.2, 4.5).
 *
 * That is kept as state, not as packets: slots with READ or ATOMIC responses to send, in PSN
 * order, FLUSHes between them, and behind all of them at most one ACK or NAK. roe_answer_emit()
 * turns this state into packets when the burst has room, so responses leave in PSN order and
 * acknowledgements coalesce by themselves. A slot is kept after its last response has left: a
 * peer that has lost responses asks again.
 *
 * In struct roe_resp this file writes the fields under "answers", and the slots except for the
 * result of an ATOMIC (query.c). Other files judge the requests of the peer and tell this one
 * what is owed (answer.h); this file does not call them.
 *
 * All functions: qp->lock held, in an RCU read-side section (see transport.h).
 */
#include "answer.h"
#include "trace.h"

/*
 * A peer that sends again needs at most AGAIN_RTTS round trips from one packet to the next; the
 * limits of that time are AGAIN_MIN_NS and AGAIN_NS.
 */
#define AGAIN_MIN_NS	NSEC_PER_MSEC
#define AGAIN_RTTS	8
#define AGAIN_NS	(ROE_AGAIN_US * NSEC_PER_USEC)
/*
 * A packet that arrives within 1/LATE_PART of a round trip after a NAK left was not sent again
 * because of that NAK. A real retransmission may be faster than the round trip measured, of a
 * message and its ACK, because IP sends a single packet at once: a third of it was seen on one
 * host.
 */
#define LATE_PART	8

/*
 * A response acknowledges everything before it, so an ACK owed for that is dropped. So is a NAK
 * for @last_psn itself: the packet that it asks for has come before the NAK left.
 */
static void supersede(struct roe_resp *resp, u32 last_psn)
{
	if (resp->ack_due && !resp->fatal && roe_psn_diff(resp->ack_psn, last_psn) <= 0) {
		resp->ack_due = false;
		resp->ack_after = 0;
		resp->echo.until = 0;
	}
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
	/* a peer that may send a new request has all the responses that this slot gave before */
	if (rs->pending)
		resp->rsrc_pending--;
	if (rs->kind)
		roe_trains_arrived(&resp->trains, roe_psn_add(rs->last_psn, 1));
	if (++resp->rsrc_head == resp->rsrc_nr)
		resp->rsrc_head = 0;
	memset(rs, 0, sizeof(*rs));
	return rs;
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

/**
 * roe_answer_begin() - owe the responses to a new request
 * @qp: RC
 * @p: READ, ATOMIC or ATOMIC WRITE with the ePSN; may be executed
 * @kind: enum roe_rsrc_kind of it
 *
 * The request takes a slot, from which it can be answered again until max_dest_rd_atomic later
 * requests have come. The memory of a READ is looked up when its responses leave.
 *
 * Return: the slot, for the result of an ATOMIC; NULL: the peer has more requests unanswered
 * than it is allowed, so this one must be refused (wire.md 4.3, R11).
 */
struct roe_rsrc *roe_answer_begin(struct roe_qp *qp, const struct roe_pkt *p, u8 kind)
{
	struct roe_resp *resp = &qp->resp;
	struct roe_rsrc *rs = take_slot(resp);

	if (!rs)
		return NULL;
	rs->kind = kind;
	rs->first_psn = p->psn;
	rs->last_psn = p->psn;
	if (kind == ROE_RSRC_READ) {
		rs->last_psn = roe_psn_add(p->psn, roe_psn_count(p->dmalen, qp->mtu) - 1);
		rs->rkey = p->rkey;
		rs->va = p->va;
		rs->len = p->dmalen;
	}
	rs->msn = roe_psn_add(resp->msn, 1);
	answer(resp, rs, p->psn);
	return rs;
}

/**
 * roe_answer_flush() - owe the response to a FLUSH that is done
 * @resp: of an RC QP
 * @psn: of the FLUSH, new or a duplicate
 * @msn: for the response
 *
 * Return: true if the response is owed, also if it was already; false if there is no room.
 */
bool roe_answer_flush(struct roe_resp *resp, u32 psn, u32 msn)
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

/**
 * roe_answer_owe_again() - owe an ACK that no request asks for now
 * @resp: of an RC QP
 *
 * The ACK names the last SEND or WRITE executed, not a READ or ATOMIC behind it, whose
 * responses may be lost. An ACK does not replace these, but rdma_rxe completes a READ, without
 * data, when it gets an ACK with the PSN of the READ.
 */
void roe_answer_owe_again(struct roe_resp *resp)
{
	if (resp->done_known && roe_psn_diff(resp->psn, resp->done_psn) > 0)
		roe_answer_owe(resp, resp->done_psn, ROE_AETH_ACK | ROE_AETH_NO_CREDITS);
}

/* Is @psn the last packet that a roe sends into a gap before it waits (requester.c)? */
static bool ends_probe(const struct roe_resp *resp, u32 psn)
{
	return roe_psn_diff(psn, resp->gap_psn) + 1 == (s32)resp->gap_pkts;
}

/*
 * A duplicate of the packet that a NAK asked for was sent again because of the NAK: the time
 * since the NAK left is a round trip. It was no time-out: those of a roe are not below
 * AGAIN_NS. A copy that asks for an answer may be (ask_after() of timer.c); it comes after some
 * round trips, which lets an ACK wait for AGAIN_NS at most, as if there were no sample.
 */
static void measure_again(struct roe_resp *resp, u64 now, u32 psn)
{
	if (psn != resp->gap_psn || !resp->gap_told)
		return;
	if (now - resp->gap_told < AGAIN_NS)
		resp->again_min = min_not_zero(resp->again_min, (u32)(now - resp->gap_told));
	resp->gap_told = 0;
}

/*
 * The peer is sending again, has come to @psn, and goes on to what the owed ACK is about: the
 * ACK waits. Each step of the peer lets it wait again, but only for a while, because the end of
 * what is sent again may be lost. A copy of an earlier packet is no step: a peer that sends the
 * same packet again and again would otherwise never get an answer.
 */
static void wait_for_rest(struct roe_qp *qp, const struct roe_ctx *ctx, u32 psn)
{
	struct roe_resp *resp = &qp->resp;
	/* a QP that only receives has no requests to time */
	u64 rtt = qp->req.rtt_min ?: resp->again_min;

	resp->echo.until = 0;
	if (resp->ack_after && roe_psn_diff(psn, resp->again_psn) <= 0)
		return;
	rtt = rtt ? clamp_t(u64, AGAIN_RTTS * rtt, AGAIN_MIN_NS, AGAIN_NS) : AGAIN_NS;
	/* a part of the peer's ACK timeout, which as a rule is the same as ours */
	if (qp->timeout_ns)
		rtt = min(rtt, qp->timeout_ns / 8);
	resp->ack_after = ctx->now + rtt;
	resp->again_psn = psn;
}

/**
 * roe_answer_put_off() - let the owed ACK wait if the peer is about to send its requests again
 * @qp: an RC QP that has sent a NAK for a gap, which is closed now
 * @ctx: the time
 * @psn: of the packet that has come: the one that was missing, or one behind it
 *
 * A peer that is told of a gap goes back to it, and asks for an ACK where it has asked before
 * (IBTA 9.9.2.2). That packet is answered at once, and so is the last one that a roe sends into
 * a gap. A sooner ACK would name packets that are not sent yet in the books of some requesters.
 * A requester has to cope with that, but rdma_rxe waits for ever if the last packet of a
 * message is acknowledged while rdma_rxe sends an earlier one of it again, and the last packet
 * is then lost.
 *
 * Return: true if the ACK waits, for some milliseconds at most.
 */
bool roe_answer_put_off(struct roe_qp *qp, const struct roe_ctx *ctx, u32 psn)
{
	struct roe_resp *resp = &qp->resp;
	u64 rtt = qp->req.rtt_min ?: resp->again_min;

	if (!resp->ack_due || roe_psn_diff(psn, resp->ack_psn) >= 0 || ends_probe(resp, psn))
		return false;
	/* @psn was late and not sent again for the NAK: the ACK tells the peer how late it was */
	if (ctx->now - resp->gap_told < rtt / LATE_PART)
		return false;
	wait_for_rest(qp, ctx, psn);
	return true;
}

/**
 * roe_answer_fatal() - owe a NAK that ends the QP
 * @qp: RC; its user is told by the caller
 * @psn: of the request that is refused
 * @syndrome: NAK 0x61 to 0x63
 *
 * The QP goes to ERR once the NAK has left (wire.md 4.3). Until then no request is accepted and
 * no receive WQE is looked for.
 */
void roe_answer_fatal(struct roe_qp *qp, u32 psn, u8 syndrome)
{
	struct roe_resp *resp = &qp->resp;

	if (syndrome == ROE_NAK_REM_ACCESS)
		roe_qp_count(qp, ROE_STAT_RESP_REM_ACCESS);
	roe_answer_owe(resp, psn, syndrome);
	resp->fatal = true;
	resp->rnr_look = 0;
}

/* The kept requests are in PSN order; the youngest has age 1. */
static struct roe_rsrc *slot_by_age(struct roe_resp *resp, u32 age)
{
	u32 i = resp->rsrc_head + resp->rsrc_nr - age;

	return &resp->rsrc[i < resp->rsrc_nr ? i : i - resp->rsrc_nr];
}

static bool has_psn(const struct roe_rsrc *rs, u32 psn)
{
	return rs->kind && roe_psn_diff(psn, rs->first_psn) >= 0 &&
	       roe_psn_diff(psn, rs->last_psn) <= 0;
}

/* The youngest kept request that @psn belongs to: older ones may have had the same PSNs. */
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

/*
 * The slot with the lowest PSN that has something to send. The search begins with the youngest:
 * of many slots it is one of these.
 */
static struct roe_rsrc *next_pending(struct roe_resp *resp)
{
	struct roe_rsrc *first = NULL, *rs;
	u32 left = resp->rsrc_pending, age;

	for (age = 1; left && age <= resp->rsrc_nr; age++) {
		rs = slot_by_age(resp, age);
		if (!rs->pending)
			continue;
		first = rs;
		left--;
	}
	return first;
}

/* The next slot with something to send behind @rs, which was the first and has nothing left. */
static struct roe_rsrc *pending_behind(struct roe_resp *resp, struct roe_rsrc *rs)
{
	u32 i;

	for (i = 1; resp->rsrc_pending && i < resp->rsrc_nr; i++) {
		if (++rs == resp->rsrc + resp->rsrc_nr)
			rs = resp->rsrc;
		if (rs->pending)
			return rs;
	}
	return NULL;
}

/*
 * The peer misses the responses from @psn on, and has thrown away those that left behind them:
 * tell cc.c and trains.c. Not if a queue of this host has refused responses; nor if a READ
 * before @psn is being answered again, whose loss covers this one; nor if the request is older
 * than the last one for this READ, which has overtaken it.
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
	roe_trains_missed(qp, &qp->resp.trains, ctx->now, psn);
}

/* Responses that have left once leave one by one from now on: their train may not get through. */
static void note_sent(struct roe_rsrc *rs)
{
	u32 end = rs->pending ? rs->cur_psn : roe_psn_add(rs->last_psn, 1);

	if (!rs->again || roe_psn_diff(end, rs->sent_end) > 0)
		rs->sent_end = end;
	rs->again = true;
}

/* A duplicate READ, perhaps from its middle: it must ask for the rest of the original. */
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
	 * The responses that are still to be sent answer the duplicate as well; the first of
	 * them is First or Only. The peer has all responses before that: those were only late
	 * and are not sent once more.
	 */
	if (rs->pending && roe_psn_diff(p->psn, rs->cur_psn) >= 0) {
		rs->cur_psn = p->psn;
		rs->start_psn = p->psn;
		rs->asked = rs->missed;
		return;
	}
	responses_lost(qp, ctx, rs, p->psn);
	note_sent(rs);
	if (!rs->pending)
		rs->replay = true;
	answer(&qp->resp, rs, p->psn);
}

/* A duplicate ATOMIC or ATOMIC WRITE is answered again, not executed again. */
static void duplicate_once(struct roe_qp *qp, const struct roe_pkt *p, u8 kind)
{
	struct roe_rsrc *rs = find_slot(&qp->resp, kind, p->psn);

	if (!rs)
		return;
	if (!rs->pending)
		rs->replay = true;
	answer(&qp->resp, rs, rs->first_psn);
}

/*
 * A duplicate SEND or WRITE. If the owed ACK waits for an answer of the process (echo.c), the
 * peer's timeout is shorter than that wait. Everything executed is acknowledged, but not before
 * the peer has sent again to the end of it: on the way there it repeats READs and ATOMICs,
 * whose responses come first (wire.md 4.5). For rdma_rxe see roe_answer_put_off().
 */
static void duplicate_message(struct roe_qp *qp, const struct roe_ctx *ctx, u32 psn)
{
	struct roe_resp *resp = &qp->resp;

	if (resp->ack_after && roe_answer_put_off(qp, ctx, psn))
		return;
	if (resp->echo.until)
		roe_echo_expired(qp);
	else if (resp->ack_due && !resp->ack_after)
		return;
	roe_answer_owe_again(resp);
	if (resp->ack_due && roe_psn_diff(psn, resp->ack_psn) < 0 && !ctx->direct &&
	    !ends_probe(resp, psn))
		wait_for_rest(qp, ctx, psn);
}

/**
 * roe_answer_duplicate() - a request with a PSN in the past
 * @qp: RC
 * @ctx: the time; whether the request came directly
 * @p: any request
 *
 * Nothing is executed twice, except that a READ reads its memory again; errors are not answered
 * (wire.md 4.5).
 */
void roe_answer_duplicate(struct roe_qp *qp, const struct roe_ctx *ctx,
			  const struct roe_pkt *p)
{
	struct roe_resp *resp = &qp->resp;
	u32 flags = roe_opcode(p->opcode)->flags;

	roe_qp_count(qp, ROE_STAT_DUP_REQ);
	measure_again(resp, ctx->now, p->psn);
	if (flags & ROE_F_READ)
		duplicate_read(qp, ctx, p);
	else if (flags & ROE_F_ATOMIC)
		duplicate_once(qp, p, ROE_RSRC_ATOMIC);
	else if ((p->opcode & ROE_OP_MASK) == ROE_OP_FLUSH)
		roe_answer_flush(resp, p->psn, resp->msn);
	else if (!(flags & (ROE_F_SEND | ROE_F_WRITE)))
		duplicate_once(qp, p, ROE_RSRC_EMPTY);
	else if (p->ackreq)
		duplicate_message(qp, ctx, p->psn);
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

/* The R_Key or the memory went away after the READ was accepted. */
static void read_refused(struct roe_qp *qp, struct roe_ctx *ctx, struct roe_rsrc *rs)
{
	bool replay = rs->replay;
	u32 psn = rs->cur_psn;

	answered(&qp->resp, rs);
	if (replay) {
		/* its responses would also have acknowledged what was sent again before it */
		if (!qp->resp.ack_due && roe_psn_diff(psn, qp->resp.done_psn) > 0)
			roe_answer_owe_again(&qp->resp);
		return;
	}
	ctx->events |= BIT(IB_EVENT_QP_ACCESS_ERR);
	/* the READ was counted when it was accepted; some peers find the failed WQE by the MSN */
	qp->resp.msn = roe_psn_add(rs->msn, -1);
	roe_answer_fatal(qp, psn, ROE_NAK_REM_ACCESS);
	/* no response behind it leaves before the NAK, or at all */
	qp->resp.rsrc_pending = 0;
	qp->resp.flush_nr = 0;
}

/*
 * The memory that a READ asked for, if its key is still valid for it. If it can be lent to the
 * burst it is looked up once for the burst, then the memo has it; otherwise it is held for one
 * packet.
 */
static struct roe_mr *read_source(struct roe_qp *qp, struct roe_ctx *ctx,
				  const struct roe_rsrc *rs, struct roe_txb *txb)
{
	struct roe_sge_memo *memo = &ctx->answer;
	u32 slot = rs - qp->resp.rsrc;
	struct roe_mr *mr;

	if (memo->mr && memo->message == slot)
		return memo->mr;
	mr = roe_mr_get_remote_again(qp, &ctx->read, rs->rkey, IB_ACCESS_REMOTE_READ, rs->va,
				     rs->len);
	memo->mr = mr && roe_mr_lend(mr, txb) ? mr : NULL;
	memo->message = slot;
	return mr;
}

/*
 * A page is missing, the peer has asked again, and its timeout has passed. After a few timeouts
 * the peer would give up, but an RNR NAK makes it wait and ask again, as for a SEND or WRITE.
 * The responses leave as soon as the page is there, even while the peer still waits. All that
 * this side knows of the peer's limits is what the CM gave to both ends: if RNR NAKs are
 * limited too (rnr_retry), the timeouts of the peer last longer.
 */
static void emit_page_nak(struct roe_qp *qp, const struct roe_ctx *ctx, struct roe_rsrc *rs,
			  struct roe_txb *txb)
{
	struct roe_resp *resp = &qp->resp;
	struct roe_tx_pkt *pkt;

	if (!rs->asked || qp->attr.rnr_retry != 7 || !qp->timeout_ns ||
	    ctx->now - rs->missed < qp->timeout_ns)
		return;
	pkt = add_response(qp, txb, ROE_OP_ACK, 0, rs->cur_psn, roe_psn_add(rs->msn, -1));
	if (!pkt)
		return;
	rs->asked = false;
	pkt->p.syndrome = roe_resp_page_nak(resp, true);
	roe_qp_count(qp, ROE_STAT_RNR_SENT);
	trace_roe_nak(qp, pkt->p.syndrome, rs->cur_psn);
}

/* A page of the READ is missing: the responses go on when it is there, or the READ is refused. */
static bool read_missed(struct roe_qp *qp, struct roe_ctx *ctx, struct roe_rsrc *rs,
			struct roe_txb *txb)
{
	roe_txb_cancel(txb);
	qp->resp.stalled = roe_fault_missed(qp, ctx, &qp->resp.read_fault);
	if (qp->resp.stalled) {
		if (!rs->missed)
			rs->missed = ctx->now;
		emit_page_nak(qp, ctx, rs, txb);
		return false;
	}
	read_refused(qp, ctx, rs);
	return true;
}

/* The page has come. */
static void found(struct roe_resp *resp, struct roe_rsrc *rs)
{
	rs->missed = 0;
	rs->asked = false;
	resp->page_naks = 0;
}

/* Does a response leave as a packet of its own? */
static bool alone(const struct roe_resp *resp, const struct roe_rsrc *rs,
		  const struct roe_ctx *ctx)
{
	return (rs->again && roe_psn_diff(rs->cur_psn, rs->sent_end) < 0) ||
	       ctx->now < resp->alone_until;
}

/* From @psn on the slot is sent again if this burst is refused. */
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
	bool ok, lent;
	void *addr;

	pkt = add_response(qp, txb, read_opcode(rs), len, rs->cur_psn, rs->msn);
	if (!pkt)
		return false;
	pkt->again = alone(&qp->resp, rs, ctx);
	addr = len && len == rs->len && roe_txb_lends(txb) ?
	       roe_mr_place(&ctx->read, rs->rkey, rs->va, len) : NULL;
	if (addr) {
		smp_mb();	/* as below */
		roe_sge_load_place(txb, addr);
	} else if (len) {
		mr = read_source(qp, ctx, rs, txb);
		if (!mr) {
			roe_txb_cancel(txb);
			read_refused(qp, ctx, rs);
			return true;
		}
		if (!off)
			smp_mb();	/* behind WRITEs and READs, as on hardware; see frame.c */
		lent = ctx->answer.mr;
		ok = roe_sge_load_mr(qp, txb, mr, lent, rs->va + off, rs->len - off);
		if (!lent)
			roe_mr_put(mr);
		if (!ok)
			return read_missed(qp, ctx, rs, txb);
		if (rs->missed)
			found(&qp->resp, rs);
	}
	note_burst(&qp->resp, rs, rs->cur_psn);
	if (rs->cur_psn == rs->last_psn)
		answered(&qp->resp, rs);
	else
		rs->cur_psn = roe_psn_add(rs->cur_psn, 1);
	return true;
}

/*
 * More responses from the middle of a READ that has begun, like the previous response, for
 * which this run has found the memory. False: send the next response alone, or there is no
 * room.
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

	if (!memo->mr || memo->message != rs - qp->resp.rsrc || left < 2 ||
	    alone(&qp->resp, rs, ctx) || !roe_txb_lends(txb))
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
	if (resp->ack_syndrome == ROE_NAK_PSN_SEQ) {
		resp->gap_told = ctx->now;
		resp->nak_leaves = !txb->direct;
	}
	if (resp->ack_syndrome & ROE_AETH_KIND_MASK)
		trace_roe_nak(qp, resp->ack_syndrome, resp->ack_psn);
	resp->ack_due = false;
	if (resp->fatal)
		roe_complete_error(qp, ctx);
	return true;
}

/* READ responses, one or more, as fast as cc.c lets them; the direct way has no limit. */
static bool emit_data(struct roe_qp *qp, struct roe_ctx *ctx, struct roe_rsrc *rs,
		      struct roe_txb *txb)
{
	u32 bytes = txb->bytes;
	bool begun, ok;

	/* cannot happen; if it did, memory beside that asked for would leave */
	if (unlikely(!has_psn(rs, rs->cur_psn))) {
		answered(&qp->resp, rs);
		return true;
	}
	begun = rs->cur_psn != rs->start_psn;
	if (txb->direct)
		return (begun && emit_read_row(qp, ctx, rs, txb)) || emit_read(qp, ctx, rs, txb);
	if (!roe_cc_open(qp, ctx)) {
		qp->resp.stalled = true;
		return false;
	}
	/* with a rate, a row is more than may leave at once */
	ok = (begun && !qp->rate.rate && emit_read_row(qp, ctx, rs, txb)) ||
	     emit_read(qp, ctx, rs, txb);
	if (txb->bytes > bytes)
		roe_cc_spend(qp, ctx, txb->bytes - bytes);
	return ok;
}

/*
 * There is no memory for a response. The timer tries again later: a worker that tries at once
 * would only get in the way of those who free some.
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
 * roe_answer_emit() - add responses and acknowledgements to a burst
 * @qp: the QP; goes to ERR when a fatal NAK has been added
 * @ctx: takes notifications
 * @txb: the burst
 *
 * Return: true if there is no room (a while after a refusal, room is only a part of the burst)
 * and more is owed that does not wait for a page, for memory or for its time.
 */
bool roe_answer_emit(struct roe_qp *qp, struct roe_ctx *ctx, struct roe_txb *txb)
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
		/* a long READ has many packets in a row; short READs are in adjacent slots */
		if (!rs)
			rs = next_pending(resp);
		else if (!rs->pending)
			rs = pending_behind(resp, rs);
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

/* The responses of @rs from @psn on have not left; returns how many they are. */
static u32 unanswer(struct roe_resp *resp, struct roe_rsrc *rs, u32 psn)
{
	u32 end = rs->pending ? rs->cur_psn : roe_psn_add(rs->last_psn, 1);

	if (roe_psn_diff(end, psn) <= 0)
		return 0;
	if (!rs->pending) {
		resp->rsrc_pending++;
		rs->pending = true;
		/* they may answer a duplicate, whose peer may send new requests meanwhile */
		rs->replay = true;
	}
	rs->cur_psn = psn;
	if (roe_psn_diff(psn, rs->start_psn) < 0)
		rs->start_psn = psn;
	supersede(resp, rs->last_psn);
	return roe_psn_diff(end, psn);
}

/*
 * Go through the slots of this burst in PSN order, as in the burst, from the slot with the
 * first refused response on, or the first slot behind that response. Returns how many refused
 * responses belong to no slot: those of FLUSHes.
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
 * roe_answer_local_drop() - IP refused responses of a burst
 * @qp: goes on with the first response that was refused, soon
 * @ctx: the time
 * @refused: has responses or ACKs
 *
 * Otherwise the peer would find out by a time-out, and a long READ would be built to its end
 * for a queue that is full. If the QP is in ERR now, its NAK is lost.
 */
void roe_answer_local_drop(struct roe_qp *qp, struct roe_ctx *ctx,
			   const struct roe_refused *refused)
{
	struct roe_resp *resp = &qp->resp;
	u32 left;

	if (!roe_qp_has_timer(qp))
		return;
	resp->trains.on = false;
	left = unanswer_from(resp, refused->response, refused->responses);
	/* it leaves behind all responses, and tells a peer that sent FLUSHes what it misses */
	if ((left || refused->acks) && !resp->ack_due) {
		if (resp->nak_state && !resp->rnr_look)
			roe_answer_owe(resp, resp->psn, resp->nak_state);
		else
			roe_answer_owe_again(resp);
	}
	/* no retry count ends this: a QP without a route must not try all the time */
	if (refused->answered)
		resp->refusals = 0;
	resp->refused_until = ctx->now +
			      ((u64)ROE_LOCAL_DROP_NS << min(resp->refusals++, 10u));
	resp->alone_until = resp->refused_until + ROE_LOCAL_ALONE_NS;
	qp->rate.wake = resp->refused_until;
}

ROE_EXPORT_FOR_TEST(roe_answer_local_drop);
