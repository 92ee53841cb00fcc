// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Bytes between scatter/gather lists and packets. Each run looks keys up again: the list is a
 * private copy, but the MR behind a key may go at any time. An MR that a run has found is valid
 * until the run ends, unless it is revocable.
 */
#include "copy.h"
#include "transport.h"

/* An access missed a page at @off of an element: note the miss for the rest of the element. */
static void missed(struct roe_qp *qp, struct roe_fault *fault, struct roe_mr *mr,
		   const struct roe_sge *sge, u32 off, bool write)
{
	roe_fault_miss(qp, fault, mr, sge->addr + off, sge->len - off, write);
}

/* Keep the MR: most messages have one element and are sent in the run that has checked it. */
static void remember(struct roe_qp *qp, struct roe_ctx *ctx, const struct roe_swqe *wqe,
		     struct roe_mr *mr)
{
	if (wqe->num_sge == 1 && roe_mr_lasts(mr))
		ctx->source = (struct roe_sge_memo){
			.mr = mr,
			.message = qp->sq.next,
			.end = wqe->sge[0].len,
			.va = wqe->sge[0].addr,
		};
}

/**
 * roe_sge_check() - may every element of a list be used?
 * @qp: its PD must own the keys
 * @ctx: what this run knows of the WQE at sq.next
 * @wqe: that WQE, not inline; elements of length 0 are not looked at
 * @access: IB_ACCESS_LOCAL_WRITE, or 0 to read
 *
 * Pages that responses will be written to must be present: a response that misses one is lost.
 *
 * Return: false if a key, range or permission is wrong (LOC_PROT_ERR), or a page is missing.
 */
bool roe_sge_check(struct roe_qp *qp, struct roe_ctx *ctx, const struct roe_swqe *wqe,
		   int access)
{
	struct roe_run_memo *memo = access ? &ctx->brings : &ctx->sends;
	const struct roe_sge *sge = wqe->sge;
	unsigned int num = wqe->num_sge;

	for (; num; num--, sge++) {
		struct roe_mr *mr;
		bool ok;

		if (!sge->len || roe_mr_place(memo, sge->lkey, sge->addr, sge->len))
			continue;
		mr = roe_mr_get_local_again(qp, memo, qp->pd, sge->lkey, access, sge->addr,
					    sge->len);
		if (!mr)
			return false;
		ok = !access || roe_mr_present(mr, sge->addr, sge->len);
		if (!ok)
			missed(qp, &qp->req.fault, mr, sge, 0, true);
		else if (access)
			roe_fault_hit(&qp->req.fault, mr, sge->addr, sge->len, true);
		else
			remember(qp, ctx, wqe, mr);
		roe_mr_put(mr);
		if (!ok)
			return false;
	}
	return true;
}

ROE_EXPORT_FOR_TEST(roe_sge_check);

/* Element in which byte @off of the list lies; @off becomes the offset in it. */
static unsigned int find(const struct roe_sge *sge, unsigned int num, u32 *off)
{
	unsigned int i;

	for (i = 0; i < num && *off >= sge[i].len; i++)
		*off -= sge[i].len;
	return i;
}

/* Does an access to @mr, held, last as long as a memo of it? With @txb, @mr is lent to that. */
static bool stays(struct roe_mr *mr, struct roe_txb *txb)
{
	return txb ? roe_mr_lend(mr, txb) : roe_mr_lasts(mr);
}

/*
 * The MR behind [@off, @off + @len) of a message, from the memo. If the memo does not have
 * it, the element is looked up for the memo, which pays if more packets will use the element.
 * NULL: the caller has to go element by element, packet by packet.
 */
static struct roe_mr *recall(struct roe_qp *qp, const struct ib_pd *pd, struct roe_sge_memo *memo,
			     const struct roe_sge *sge, unsigned int num, struct roe_txb *txb,
			     u32 off, u32 len)
{
	int access = txb ? 0 : IB_ACCESS_LOCAL_WRITE;
	unsigned int i;
	u32 at = off;

	if (memo->mr && off >= memo->begin && off <= memo->end && len <= memo->end - off)
		return memo->mr;
	i = find(sge, num, &at);
	if (i == num || sge[i].len - at <= len)
		return NULL;
	memo->mr = roe_mr_get_local(qp, pd, sge[i].lkey, access, sge[i].addr, sge[i].len);
	if (!memo->mr)
		return NULL;
	if (!stays(memo->mr, txb)) {
		roe_mr_put(memo->mr);
		memo->mr = NULL;
		return NULL;
	}
	memo->va = sge[i].addr;
	memo->begin = off - at;
	memo->end = memo->begin + sge[i].len;
	return memo->mr;
}

/*
 * recall() for the rest of the element in which @off lies: *@len is cut to that, *@va is
 * the address of byte @off.
 */
static struct roe_mr *span(struct roe_qp *qp, const struct ib_pd *pd, struct roe_sge_memo *memo,
			   const struct roe_sge *sge, unsigned int num, struct roe_txb *txb,
			   u32 off, u32 *len, u64 *va)
{
	if (!recall(qp, pd, memo, sge, num, txb, off, 1))
		return NULL;
	*len = min(*len, memo->end - off);
	*va = memo->va + (off - memo->begin);
	return memo->mr;
}

/* Clear the memo if it is about another message. */
static struct roe_sge_memo *memo_of(struct roe_sge_memo *memo, u32 message)
{
	if (memo->message != message)
		memo->mr = NULL;
	memo->message = message;
	return memo;
}

static u64 memo_va(const struct roe_sge_memo *memo, u32 off)
{
	return memo->va + (off - memo->begin);
}

/**
 * roe_sge_read() - gather part of a message
 * @qp: owner
 * @wqe: its SGEs, or its inline bytes
 * @off: first byte of the message
 * @dst: at least @len bytes
 * @len: bytes; @off + @len is within the message
 *
 * Return: false if a key is not valid (any more), or a page is missing.
 */
bool roe_sge_read(struct roe_qp *qp, const struct roe_swqe *wqe, u32 off, u8 *dst, u32 len)
{
	unsigned int i;

	if (wqe->flags & IB_SEND_INLINE) {
		memcpy(dst, (const u8 *)wqe->sge + off, len);
		return true;
	}
	for (i = find(wqe->sge, wqe->num_sge, &off); len && i < wqe->num_sge; i++, off = 0) {
		const struct roe_sge *sge = &wqe->sge[i];
		u32 n = min(len, sge->len - off);
		struct roe_mr *mr;
		bool ok;

		if (!n)
			continue;
		mr = roe_mr_get_local(qp, qp->pd, sge->lkey, 0, sge->addr + off, n);
		if (!mr)
			return false;
		ok = roe_mr_read(mr, sge->addr + off, dst, n);
		if (ok)
			roe_fault_hit(&qp->req.fault, mr, sge->addr + off, n, false);
		else
			missed(qp, &qp->req.fault, mr, sge, off, false);
		roe_mr_put(mr);
		if (!ok)
			return false;
		dst += n;
		len -= n;
	}
	return !len;
}

ROE_EXPORT_FOR_TEST(roe_sge_read);

/* Append @len bytes of an MR to the pieces of @rx. False: too many pieces, copy instead. */
static bool add_pieces(struct roe_rx_pkt *rx, struct roe_mr *mr, u64 va, u32 len)
{
	unsigned int n = roe_mr_map(mr, va, len, rx->vec + rx->nvec, ROE_PKT_VECS - rx->nvec);

	rx->nvec += n;
	return n;
}

/* As roe_sge_read() for the last packet of @txb, but only note where its bytes are. False: copy. */
static bool find_pieces(struct roe_qp *qp, struct roe_ctx *ctx, const struct roe_swqe *wqe,
			u32 off, struct roe_txb *txb)
{
	struct roe_rx_pkt *rx = &txb->pkt[txb->n - 1].rx;
	struct roe_sge_memo *memo = memo_of(&ctx->source, qp->sq.next);
	u32 len = rx->p.len;
	unsigned int i;

	if (wqe->flags & IB_SEND_INLINE) {
		rx->vec[rx->nvec++] = (struct kvec){ (u8 *)wqe->sge + off, len };
		return true;
	}
	if (recall(qp, qp->pd, memo, wqe->sge, wqe->num_sge, txb, off, len))
		return add_pieces(rx, memo->mr, memo_va(memo, off), len);
	for (i = find(wqe->sge, wqe->num_sge, &off); len && i < wqe->num_sge; i++, off = 0) {
		const struct roe_sge *sge = &wqe->sge[i];
		u32 n = min(len, sge->len - off);
		struct roe_mr *mr;

		if (!n)
			continue;
		mr = roe_mr_get_local(qp, qp->pd, sge->lkey, 0, sge->addr + off, n);
		if (!mr)
			return false;
		if (!roe_mr_lend(mr, txb)) {
			roe_mr_put(mr);
			return false;
		}
		if (!add_pieces(rx, mr, sge->addr + off, n))
			return false;
		len -= n;
	}
	return !len;
}

/* The packet carries a copy after all. In a direct burst the receiver finds it by rx.vec. */
static void copied(const struct roe_txb *txb, struct roe_tx_pkt *pkt)
{
	pkt->rx.nvec = txb->direct;
	pkt->rx.vec[0] = (struct kvec){ roe_tx_payload(pkt), pkt->p.len };
}

/*
 * May the payload be read after its packet is made? With RC the memory belongs to the WQE
 * until the peer has acknowledged it. A UC request completes with its last packet, and from
 * then on the memory is the user's again.
 */
static bool may_stay(const struct roe_qp *qp, const struct roe_txb *txb)
{
	return roe_txb_lends(txb) && qp->type == IB_QPT_RC;
}

/**
 * roe_sge_load_place() - payload of the last packet of a burst, in one piece that lasts
 * @txb: the burst; roe_txb_lends() is true
 * @addr: of roe_mr_place(), or of inline bytes
 */
void roe_sge_load_place(struct roe_txb *txb, void *addr)
{
	struct roe_tx_pkt *pkt = &txb->pkt[txb->n - 1];

	pkt->rx.vec[0] = (struct kvec){ addr, pkt->p.len };
	pkt->rx.nvec = 1;
	if (txb->direct)
		roe_txb_in_place(txb);
}

/* Load a message of one packet from the place that roe_sge_check() has found. False: not known. */
static bool load_place(struct roe_qp *qp, const struct roe_ctx *ctx, const struct roe_swqe *wqe,
		       struct roe_txb *txb)
{
	struct roe_tx_pkt *pkt = &txb->pkt[txb->n - 1];
	const struct roe_sge *sge = wqe->sge;
	void *addr;

	if (wqe->flags & IB_SEND_INLINE || wqe->num_sge != 1 || !wqe->length)
		return false;
	addr = roe_mr_place(&ctx->sends, sge->lkey, sge->addr, wqe->length);
	if (!addr)
		return false;
	if (may_stay(qp, txb)) {
		roe_sge_load_place(txb, addr);
	} else {
		copied(txb, pkt);
		roe_copy_out(roe_tx_payload(pkt), addr, wqe->length);
	}
	return true;
}

/**
 * roe_sge_load() - payload of the last packet of a burst, from a send WQE
 * @qp: owner
 * @ctx: what this run knows of the WQE at sq.next
 * @wqe: that WQE, with its SGEs or its inline bytes
 * @off: first byte of the message
 * @txb: the burst; if it is direct, or copies later, the payload stays where it is if it can
 *
 * Return: false if a key is not valid (any more), or a page is missing.
 */
bool roe_sge_load(struct roe_qp *qp, struct roe_ctx *ctx, const struct roe_swqe *wqe, u32 off,
		  struct roe_txb *txb)
{
	struct roe_tx_pkt *pkt = &txb->pkt[txb->n - 1];

	if (pkt->p.len == wqe->length && load_place(qp, ctx, wqe, txb))
		return true;
	if (may_stay(qp, txb) && find_pieces(qp, ctx, wqe, off, txb)) {
		if (txb->direct)
			roe_txb_in_place(txb);
		return true;
	}
	copied(txb, pkt);
	return roe_sge_read(qp, wqe, off, roe_tx_payload(pkt), pkt->p.len);
}

ROE_EXPORT_FOR_TEST(roe_sge_load);

/**
 * roe_sge_load_bytes() - payload of the last packet of a burst, from kernel memory
 * @txb: the burst
 * @src: as many bytes as the packet carries
 */
void roe_sge_load_bytes(struct roe_txb *txb, const void *src)
{
	struct roe_tx_pkt *pkt = &txb->pkt[txb->n - 1];

	copied(txb, pkt);
	roe_copy_out(roe_tx_payload(pkt), src, pkt->p.len);
}

/**
 * roe_sge_load_mr() - payload of the last packet of a burst, from memory that the peer named
 * @qp: owner
 * @txb: the burst
 * @mr: checked by the caller for [@va, @va + @left)
 * @lent: @mr is lent to the burst (roe_mr_lend())
 * @va: first byte
 * @left: bytes left of the message, at least those of the packet
 *
 * Return: false if a page is missing.
 */
bool roe_sge_load_mr(struct roe_qp *qp, struct roe_txb *txb, struct roe_mr *mr, bool lent,
		     u64 va, u32 left)
{
	struct roe_tx_pkt *pkt = &txb->pkt[txb->n - 1];

	if (lent && add_pieces(&pkt->rx, mr, va, pkt->p.len)) {
		if (txb->direct)
			roe_txb_in_place(txb);
		return true;
	}
	copied(txb, pkt);
	if (roe_mr_read(mr, va, roe_tx_payload(pkt), pkt->p.len)) {
		roe_fault_hit(&qp->resp.read_fault, mr, va, pkt->p.len, false);
		return true;
	}
	roe_fault_miss(qp, &qp->resp.read_fault, mr, va, left, false);
	return false;
}

/* Copy @n bytes to @va, from @skip bytes into the pieces on. */
static bool write_pieces(struct roe_mr *mr, u64 va, const struct kvec *vec, u32 skip, u32 n)
{
	for (; n; vec++) {
		u32 part;

		if (skip >= vec->iov_len) {
			skip -= vec->iov_len;
			continue;
		}
		part = min_t(u32, n, vec->iov_len - skip);
		if (!roe_mr_write(mr, va, vec->iov_base + skip, part))
			return false;
		va += part;
		n -= part;
		skip = 0;
	}
	return true;
}

/**
 * roe_sge_write_place() - copy a whole message to a known kernel address
 * @dst: from roe_mr_place() for @len bytes
 * @vec: pieces of the payload
 * @len: bytes; not more than the pieces hold
 */
void roe_sge_write_place(void *dst, const struct kvec *vec, u32 len)
{
	for (; len; vec++) {
		u32 part = min_t(u32, len, vec->iov_len);

		roe_copy(dst, vec->iov_base, part);
		dst += part;
		len -= part;
	}
}

/*
 * The usual case: a message of one packet into a list of one element, in an MR that lasts.
 * False: nothing was done, the caller uses write_list().
 */
static bool write_only(struct roe_qp *qp, struct roe_run_memo *memo, const struct ib_pd *pd,
		       const struct roe_sge *sge, unsigned int num, const struct kvec *vec, u32 len)
{
	struct roe_mr *mr;
	void *addr;

	if (num != 1 || !len || len > sge->len)
		return false;
	addr = roe_mr_place(memo, sge->lkey, sge->addr, len);
	if (addr) {
		roe_sge_write_place(addr, vec, len);
		return true;
	}
	mr = roe_mr_get_local_again(qp, memo, pd, sge->lkey, IB_ACCESS_LOCAL_WRITE, sge->addr, len);
	if (!mr)
		return false;
	if (roe_mr_lasts(mr))
		return write_pieces(mr, sge->addr, vec, 0, len);
	roe_mr_put(mr);
	return false;
}

/* Scatter @len bytes over a list whose keys must belong to @pd. Missing pages go to @fault. */
static bool write_list(struct roe_qp *qp, struct roe_fault *fault, const struct ib_pd *pd,
		       struct roe_sge_memo *memo, const struct roe_sge *sge,
		       unsigned int num, u32 off, const struct kvec *vec, u32 len)
{
	unsigned int i;
	u32 done = 0;

	if (len && recall(qp, pd, memo, sge, num, NULL, off, len)) {
		write_pieces(memo->mr, memo_va(memo, off), vec, 0, len);
		return true;
	}
	for (i = find(sge, num, &off); done < len && i < num; i++, off = 0) {
		u32 n = min(len - done, sge[i].len - off);
		struct roe_mr *mr;
		bool ok;

		if (!n)
			continue;
		mr = roe_mr_get_local(qp, pd, sge[i].lkey, IB_ACCESS_LOCAL_WRITE,
				      sge[i].addr + off, n);
		if (!mr)
			return false;
		ok = write_pieces(mr, sge[i].addr + off, vec, done, n);
		if (ok)
			roe_fault_hit(fault, mr, sge[i].addr + off, n, true);
		else
			missed(qp, fault, mr, &sge[i], off, true);
		roe_mr_put(mr);
		if (!ok)
			return false;
		done += n;
	}
	return done == len;
}

/**
 * roe_sge_write() - scatter response data over the list of a READ or ATOMIC
 * @qp: owner
 * @ctx: what this run knows of the WQE at sq.cons
 * @wqe: that WQE
 * @off: where in its list to begin, bytes
 * @vec: pieces of the payload
 * @len: bytes; not more than the pieces hold
 *
 * Return: false if a key is not valid, the list too short, or a page missing.
 */
bool roe_sge_write(struct roe_qp *qp, struct roe_ctx *ctx, const struct roe_swqe *wqe, u32 off,
		   const struct kvec *vec, u32 len)
{
	if (!off && len == wqe->length &&
	    write_only(qp, &ctx->brings, qp->pd, wqe->sge, wqe->num_sge, vec, len))
		return true;
	return write_list(qp, &qp->req.fault, qp->pd, memo_of(&ctx->brought, qp->sq.cons),
			  wqe->sge, wqe->num_sge, off, vec, len);
}

ROE_EXPORT_FOR_TEST(roe_sge_write);

/**
 * roe_sge_receive() - scatter received bytes over the current receive WQE
 * @qp: owner; the keys belong to its PD, or to that of the SRQ if the WQE was posted to
 *	one, which may be another PD (IBTA 10.2.9.2)
 * @ctx: what this run knows of the WQE; cleared here if @off is 0
 * @off: where in the list to begin, bytes
 * @vec: pieces of the payload
 * @len: bytes; not more than the pieces hold
 *
 * Return: false if a key is not valid, the list too short, or a page missing.
 */
bool roe_sge_receive(struct roe_qp *qp, struct roe_ctx *ctx, u32 off, const struct kvec *vec,
		     u32 len)
{
	const struct roe_rwqe *rwqe = &qp->resp.rwqe;

	if (!off)
		ctx->received.mr = NULL;
	return write_list(qp, &qp->resp.fault, qp->srq ? qp->srq->ib.pd : qp->pd,
			  &ctx->received, rwqe->sge, rwqe->num_sge, off, vec, len);
}

ROE_EXPORT_FOR_TEST(roe_sge_receive);

/**
 * roe_sge_receive_only() - roe_sge_receive() for a message of one packet
 * @qp: owner
 * @ctx: what this run knows of the memory of earlier messages
 * @vec: pieces of the payload
 * @len: bytes; not more than the pieces hold
 *
 * Return: as roe_sge_receive().
 */
bool roe_sge_receive_only(struct roe_qp *qp, struct roe_ctx *ctx, const struct kvec *vec, u32 len)
{
	const struct ib_pd *pd = qp->srq ? qp->srq->ib.pd : qp->pd;
	const struct roe_rwqe *rwqe = &qp->resp.rwqe;

	return write_only(qp, &ctx->receives, pd, rwqe->sge, rwqe->num_sge, vec, len) ||
	       roe_sge_receive(qp, ctx, 0, vec, len);
}

ROE_EXPORT_FOR_TEST(roe_sge_receive_only);

/**
 * roe_sge_source() - find the memory of a send WQE for several packets
 * @qp: owner
 * @ctx: what this run knows of the WQE at sq.next
 * @wqe: that WQE; not inline
 * @txb: the burst to which the MR is lent
 * @off: first byte of the message
 * @len: bytes; cut to what lies in one element
 * @va: on return address of the first byte, in the MR
 *
 * Return: an MR that may be read there, lent to @txb; NULL: go packet by packet.
 */
struct roe_mr *roe_sge_source(struct roe_qp *qp, struct roe_ctx *ctx,
			      const struct roe_swqe *wqe, struct roe_txb *txb, u32 off,
			      u32 *len, u64 *va)
{
	return span(qp, qp->pd, memo_of(&ctx->source, qp->sq.next), wqe->sge, wqe->num_sge, txb,
		    off, len, va);
}

ROE_EXPORT_FOR_TEST(roe_sge_source);

/**
 * roe_sge_target() - find where the WQE at sq.cons takes several packets of response data
 * @qp: owner
 * @ctx: what this run knows of the WQE
 * @wqe: that WQE
 * @off: first byte of the message
 * @len: bytes; cut to what lies in one element
 * @va: on return address of the first byte, in the MR
 *
 * Return: an MR that lasts and may be written there; NULL: go packet by packet.
 */
struct roe_mr *roe_sge_target(struct roe_qp *qp, struct roe_ctx *ctx,
			      const struct roe_swqe *wqe, u32 off, u32 *len, u64 *va)
{
	return span(qp, qp->pd, memo_of(&ctx->brought, qp->sq.cons), wqe->sge, wqe->num_sge,
		    NULL, off, len, va);
}

ROE_EXPORT_FOR_TEST(roe_sge_target);

/**
 * roe_sge_room() - find where the current receive WQE takes the next packets
 * @qp: owner
 * @ctx: what this run knows of the WQE
 * @off: first byte of the message, not 0
 * @len: bytes; cut to what lies in one element
 * @va: on return address of the first byte, in the MR
 *
 * Return: as roe_sge_target().
 */
struct roe_mr *roe_sge_room(struct roe_qp *qp, struct roe_ctx *ctx, u32 off, u32 *len, u64 *va)
{
	const struct roe_rwqe *rwqe = &qp->resp.rwqe;

	return span(qp, qp->srq ? qp->srq->ib.pd : qp->pd, &ctx->received, rwqe->sge,
		    rwqe->num_sge, NULL, off, len, va);
}

ROE_EXPORT_FOR_TEST(roe_sge_room);

/**
 * roe_sge_write_mr() - place received bytes at an address the peer named
 * @qp: owner
 * @mr: held by the caller for [@va, @va + @left)
 * @va: first byte
 * @vec: pieces of the payload
 * @len: bytes
 * @left: bytes left of the message, at least @len
 *
 * Return: false if a page is missing.
 */
bool roe_sge_write_mr(struct roe_qp *qp, struct roe_mr *mr, u64 va, const struct kvec *vec,
		      u32 len, u32 left)
{
	if (write_pieces(mr, va, vec, 0, len)) {
		roe_fault_hit(&qp->resp.fault, mr, va, len, true);
		return true;
	}
	roe_fault_miss(qp, &qp->resp.fault, mr, va, left, true);
	return false;
}
