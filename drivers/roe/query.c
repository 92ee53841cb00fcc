// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Requests that are answered with more than an ACK, as the responder of RC executes them: READ,
 * CMP_SWP and FETCH_ADD, ATOMIC WRITE, FLUSH (IBTA 9.7.4; wire.md 4.3, 7). Their responses, and
 * their duplicates, are in answer.c.
 *
 * Each is a message of one packet without a receive WQE, so the syndrome of a NAK says all
 * about an error.
 *
 * In struct roe_resp this file writes the result of an ATOMIC, in its slot, and by way of
 * fault.c which memory is missing.
 *
 * All functions: qp->lock held, in an RCU read-side section (see transport.h).
 */
#include "answer.h"

/* Treat the packet as lost: the peer sends it again, when owed responses have left. */
#define LATER	ROE_NAK_PSN_SEQ

/* Rights that a placement type needs, in the QP and in the MR. */
static u32 flush_access(u32 feth)
{
	return (feth & ROE_FETH_PLT_GLOBAL ? IB_ACCESS_FLUSH_GLOBAL : 0) |
	       (feth & ROE_FETH_PLT_PERSISTENT ? IB_ACCESS_FLUSH_PERSISTENT : 0);
}

static bool flush_allowed(const struct roe_qp *qp, u32 feth)
{
	u32 need = flush_access(feth);

	/* a placement type must be named, and only types known here */
	return need && !(feth & ROE_FETH_PLT_MASK &
			 ~(ROE_FETH_PLT_GLOBAL | ROE_FETH_PLT_PERSISTENT)) &&
	       (qp->access & need) == need;
}

/**
 * roe_query_allowed() - do the access flags of the QP allow this request?
 * @qp: RC
 * @p: request; neither SEND nor WRITE
 * @flags: of its opcode
 *
 * The QP's flags are checked before anything else of the request (wire.md 4.3); the rights of
 * the MR are checked with its key.
 *
 * Return: false also if the opcode is none of these requests.
 */
bool roe_query_allowed(const struct roe_qp *qp, const struct roe_pkt *p, u32 flags)
{
	switch (p->opcode & ROE_OP_MASK) {
	case ROE_OP_FLUSH:
		return flush_allowed(qp, p->feth);
	case ROE_OP_ATOMIC_WRITE:
		return qp->access & IB_ACCESS_REMOTE_WRITE;
	default:
		break;
	}
	if (flags & ROE_F_READ)
		return qp->access & IB_ACCESS_REMOTE_READ;
	return flags & ROE_F_ATOMIC && qp->access & IB_ACCESS_REMOTE_ATOMIC;
}

/* Does the key allow the READ? Its memory is looked up again when the responses leave. */
static bool may_read(struct roe_qp *qp, struct roe_ctx *ctx, const struct roe_pkt *p)
{
	struct roe_mr *mr;

	if (!p->dmalen || roe_mr_place(&ctx->read, p->rkey, p->va, p->dmalen))
		return true;
	mr = roe_mr_get_remote_again(qp, &ctx->read, p->rkey, IB_ACCESS_REMOTE_READ, p->va,
				     p->dmalen);
	if (!mr)
		return false;
	roe_mr_put(mr);
	return true;
}

static u8 do_read(struct roe_qp *qp, struct roe_ctx *ctx, const struct roe_pkt *p)
{
	if (p->dmalen > ROE_MSG_MAX)
		return ROE_NAK_INV_REQ;
	if (!may_read(qp, ctx, p))
		return ROE_NAK_REM_ACCESS;
	return roe_answer_begin(qp, p, ROE_RSRC_READ) ? 0 : ROE_NAK_INV_REQ;
}

/* Copy the first @len bytes of payload, wherever they lie; false: there are fewer. */
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

/* Atomic against all atomic operations of the CPUs, so also against our own. */
static u64 execute_atomic(u64 *word, const struct roe_pkt *p)
{
	if ((p->opcode & ROE_OP_MASK) == ROE_OP_CMP_SWAP)
		return cmpxchg64(word, p->compare, p->swap_add);
	return atomic64_fetch_add(p->swap_add, (atomic64_t *)word);
}

/* An MR whose iova is not aligned as its memory is has no words for atomics. */
static bool may_hold_word(const struct roe_mr *mr, u64 va)
{
	return mr->odp && IS_ALIGNED(va - mr->iova + mr->base, sizeof(u64));
}

/* The word at @va, to be changed; NULL: there is none, or a page is missing. */
static u64 *find_word(struct roe_qp *qp, struct roe_mr *mr, u64 va)
{
	u64 *word = NULL;

	if (roe_mr_present(mr, va, sizeof(u64)))
		word = roe_mr_word(mr, va);
	if (word) {
		roe_fault_hit(&qp->resp.fault, mr, va, sizeof(u64), true);
	} else if (may_hold_word(mr, va)) {
		/* the page may also have gone after roe_mr_present() */
		roe_fault_miss(qp, &qp->resp.fault, mr, va, sizeof(u64), true);
	}
	return word;
}

/* The NAK for a word that is not there, or not aligned. */
static u8 no_word(struct roe_mr *mr)
{
	if (mr->odp)
		return ROE_NAK_REM_ACCESS;
	return ROE_NAK_REM_OP;
}

/* Execute an ATOMIC on a held range, if there is a slot to keep its result. */
static u8 atomic_on(struct roe_qp *qp, struct roe_mr *mr, const struct roe_pkt *p)
{
	struct roe_rsrc *rs;
	u64 *word;

	word = find_word(qp, mr, p->va);
	if (!word)
		return no_word(mr);
	rs = roe_answer_begin(qp, p, ROE_RSRC_ATOMIC);
	if (!rs)
		return ROE_NAK_INV_REQ;
	rs->orig = execute_atomic(word, p);
	return 0;
}

static u8 do_atomic(struct roe_qp *qp, const struct roe_pkt *p)
{
	struct roe_mr *mr;
	u8 syndrome;

	if (!IS_ALIGNED(p->va, sizeof(u64)))
		return ROE_NAK_INV_REQ;
	mr = roe_mr_get_remote(qp, p->rkey, IB_ACCESS_REMOTE_ATOMIC, p->va, sizeof(u64));
	if (!mr)
		return ROE_NAK_REM_ACCESS;
	syndrome = atomic_on(qp, mr, p);
	roe_mr_put(mr);
	return syndrome;
}

/* One store of 8 bytes, behind all that was placed before it (wire.md 7). */
static u8 atomic_write_on(struct roe_qp *qp, struct roe_mr *mr, const struct roe_rx_pkt *rx)
{
	u64 *word = find_word(qp, mr, rx->p.va);
	u64 value;

	if (!word)
		return no_word(mr);
	if (!gather(rx, (u8 *)&value, sizeof(value)))
		return ROE_NAK_REM_OP;
	if (!roe_answer_begin(qp, &rx->p, ROE_RSRC_EMPTY))
		return ROE_NAK_INV_REQ;
	/* behind what was written before the word; an application reads the word first */
	smp_store_release(word, value);
	return 0;
}

static u8 do_atomic_write(struct roe_qp *qp, const struct roe_rx_pkt *rx)
{
	const struct roe_pkt *p = &rx->p;
	struct roe_mr *mr;
	u8 syndrome;

	if (p->dmalen != sizeof(u64) || !IS_ALIGNED(p->va, sizeof(u64)))
		return ROE_NAK_INV_REQ;
	mr = roe_mr_get_remote(qp, p->rkey, IB_ACCESS_REMOTE_WRITE, p->va, sizeof(u64));
	if (!mr)
		return ROE_NAK_REM_ACCESS;
	syndrome = atomic_write_on(qp, mr, rx);
	roe_mr_put(mr);
	return syndrome;
}

/* The VA where an MR begins, for a FLUSH of all of it: only the key counts. */
static u64 first_va(struct roe_qp *qp, u32 rkey)
{
	const struct roe_mr *mr = roe_mr_find(qp->keys, rkey);

	return mr ? READ_ONCE(mr->iova) : 0;
}

/*
 * Stores of this host are in caches that all CPUs and devices see: global visibility only needs
 * their order. Persistence is not offered, so no MR has the right for it.
 */
static u8 do_flush(struct roe_qp *qp, const struct roe_pkt *p)
{
	u32 sel = (p->feth & ROE_FETH_SEL_MASK) >> ROE_FETH_SEL_SHIFT;
	bool whole = sel == ROE_FETH_SEL_MR;
	struct roe_resp *resp = &qp->resp;
	struct roe_mr *mr;

	if (sel > ROE_FETH_SEL_MR || !resp->rsrc_nr)
		return ROE_NAK_INV_REQ;
	mr = roe_mr_get_remote(qp, p->rkey, flush_access(p->feth),
			       whole ? first_va(qp, p->rkey) : p->va, whole ? 0 : p->dmalen);
	if (!mr)
		return ROE_NAK_REM_ACCESS;
	roe_mr_put(mr);
	/* before the answer leaves: pairs with whoever acts on the completion */
	smp_mb();
	return roe_answer_flush(resp, p->psn, roe_psn_add(resp->msn, 1)) ? 0 : LATER;
}

/**
 * roe_query_execute() - execute a request and owe its answer
 * @qp: RC; roe_query_allowed()
 * @ctx: what this run knows of memory
 * @rx: the request, with the ePSN; its length fits its opcode
 * @flags: of its opcode
 *
 * Checks lengths, then the R_Key with its range and rights, then touches memory (wire.md 4.3).
 * After a miss on memory that is not pinned (roe_fault_missed()) the result has no meaning yet.
 *
 * Return: 0; the syndrome of the NAK that refuses the request; or that of a sequence error if
 * the peer is to send the request once more.
 */
u8 roe_query_execute(struct roe_qp *qp, struct roe_ctx *ctx, const struct roe_rx_pkt *rx,
		     u32 flags)
{
	if (flags & ROE_F_READ)
		return do_read(qp, ctx, &rx->p);
	if ((rx->p.opcode & ROE_OP_MASK) == ROE_OP_FLUSH)
		return do_flush(qp, &rx->p);
	if ((rx->p.opcode & ROE_OP_MASK) == ROE_OP_ATOMIC_WRITE)
		return do_atomic_write(qp, rx);
	return do_atomic(qp, &rx->p);
}
