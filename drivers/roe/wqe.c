// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Work requests: copied and checked on entry. Each byte of a user's WQE is read once, into a
 * private copy; only the copy is checked and used by later code, because the process may write
 * to its ring at any time (abi.md 8.5). An error found in a WQE is kept in its status and
 * reported by its completion when its turn comes, not as an error of the doorbell.
 */
#include "transport.h"

/* Opcodes a user may post on RC; REG_MR carries a kernel pointer and may not. */
#define RC_OPCODES	(BIT(IB_WR_RDMA_WRITE) | BIT(IB_WR_RDMA_WRITE_WITH_IMM) |	\
			 BIT(IB_WR_SEND) | BIT(IB_WR_SEND_WITH_IMM) |			\
			 BIT(IB_WR_RDMA_READ) | BIT(IB_WR_ATOMIC_CMP_AND_SWP) |		\
			 BIT(IB_WR_ATOMIC_FETCH_AND_ADD) | BIT(IB_WR_LOCAL_INV) |	\
			 BIT(IB_WR_ATOMIC_WRITE) | BIT(IB_WR_FLUSH) |			\
			 BIT(IB_WR_BIND_MW) | BIT(IB_WR_SEND_WITH_INV))

/* Nothing that needs a response, and no SEND with invalidate: the peer could not refuse the key. */
#define UC_OPCODES	(BIT(IB_WR_RDMA_WRITE) | BIT(IB_WR_RDMA_WRITE_WITH_IMM) |	\
			 BIT(IB_WR_SEND) | BIT(IB_WR_SEND_WITH_IMM) | BIT(IB_WR_BIND_MW) | \
			 BIT(IB_WR_LOCAL_INV))

#define UD_OPCODES	(BIT(IB_WR_SEND) | BIT(IB_WR_SEND_WITH_IMM))

#define INLINE_OPCODES	(BIT(IB_WR_RDMA_WRITE) | BIT(IB_WR_RDMA_WRITE_WITH_IMM) |	\
			 BIT(IB_WR_SEND) | BIT(IB_WR_SEND_WITH_IMM) | BIT(IB_WR_SEND_WITH_INV))

#define SEND_FLAGS	(IB_SEND_FENCE | IB_SEND_SIGNALED | IB_SEND_SOLICITED | IB_SEND_INLINE)

/* FLUSH as the library writes it (abi.md 8.2); the kernel header of 6.1 lacks this struct. */
struct flush_wr {
	u64	remote_addr;
	u32	length;		/* never filled in: dma.length counts */
	u32	rkey;
	u8	type;		/* placement; bit 0: global visibility, bit 1: persistence */
	u8	level;		/* selectivity; 0: the range, 1: all of the MR */
};

/* IBTA table 53, abi.md 8.3. */
static bool may_post(const struct roe_qp *qp, u32 opcode)
{
	unsigned long opcodes = RC_OPCODES;

	if (qp->type == IB_QPT_UC)
		opcodes = UC_OPCODES;
	else if (roe_qp_is_ud(qp))
		opcodes = UD_OPCODES;
	return opcode < BITS_PER_LONG && (BIT(opcode) & opcodes);
}

static bool is_atomic(u32 opcode)
{
	return opcode == IB_WR_ATOMIC_CMP_AND_SWP || opcode == IB_WR_ATOMIC_FETCH_AND_ADD;
}

/* Local operations: no payload and no packet. */
static bool is_local(u32 opcode)
{
	return opcode == IB_WR_LOCAL_INV || opcode == IB_WR_BIND_MW || opcode == IB_WR_REG_MR;
}

/* The length comes from the SGEs alone; the library's sums are wrong at times. */
static void set_length(struct roe_swqe *wqe)
{
	u64 sum = 0;
	unsigned int i;

	for (i = 0; i < wqe->num_sge; i++)
		sum += wqe->sge[i].len;
	if (is_atomic(wqe->opcode)) {
		/* the responder checks the alignment of the address (wire.md 4.3) */
		if (sum < sizeof(u64))
			wqe->status = IB_WC_LOC_LEN_ERR;
		sum = sizeof(u64);
	}
	if (sum > ROE_MSG_MAX) {
		wqe->status = IB_WC_LOC_LEN_ERR;
		sum = 0;
	}
	wqe->length = sum;
}

/* Each field is read once: the process may change the ring meanwhile. */
static void copy_keys(struct roe_swqe *wqe, const struct rxe_send_wr *wr)
{
	switch (wqe->opcode) {
	case IB_WR_RDMA_WRITE:
	case IB_WR_RDMA_WRITE_WITH_IMM:
	case IB_WR_RDMA_READ:
	case IB_WR_ATOMIC_WRITE:
		wqe->raddr = READ_ONCE(wr->wr.rdma.remote_addr);
		wqe->rkey = READ_ONCE(wr->wr.rdma.rkey);
		break;
	case IB_WR_ATOMIC_CMP_AND_SWP:
	case IB_WR_ATOMIC_FETCH_AND_ADD:
		wqe->raddr = READ_ONCE(wr->wr.atomic.remote_addr);
		wqe->rkey = READ_ONCE(wr->wr.atomic.rkey);
		wqe->compare_add = READ_ONCE(wr->wr.atomic.compare_add);
		wqe->swap = READ_ONCE(wr->wr.atomic.swap);
		break;
	case IB_WR_BIND_MW:
		wqe->raddr = READ_ONCE(wr->wr.mw.addr);
		wqe->rkey = READ_ONCE(wr->wr.mw.rkey);
		wqe->bind_len = READ_ONCE(wr->wr.mw.length);
		wqe->bind_lkey = READ_ONCE(wr->wr.mw.mr_lkey);
		wqe->bind_rkey = READ_ONCE(wr->wr.mw.mw_rkey);
		wqe->bind_access = READ_ONCE(wr->wr.mw.access);
		break;
	default:
		break;
	}
	if (wqe->opcode == IB_WR_LOCAL_INV || wqe->opcode == IB_WR_SEND_WITH_INV)
		wqe->inv_rkey = READ_ONCE(wr->ex.invalidate_rkey);
	else
		wqe->imm = (__force __be32)READ_ONCE(wr->ex.imm_data);
}

/*
 * ibv_wr_set_inline_data() neither sets the flag nor counts an SGE, so a length
 * without SGEs means inline as well (abi.md 8.5).
 */
static bool is_inline(u32 opcode, u32 flags, u32 num_sge, u32 length)
{
	if (flags & IB_SEND_INLINE)
		return true;
	return (BIT(opcode) & INLINE_OPCODES) && !num_sge && length;
}

static void copy_inline(struct roe_qp *qp, struct roe_swqe *wqe, u32 length, const void *data)
{
	wqe->flags |= IB_SEND_INLINE;
	if (!(BIT(wqe->opcode) & INLINE_OPCODES)) {
		wqe->status = IB_WC_LOC_QP_OP_ERR;
	} else if (length > qp->sq.max_inline) {
		wqe->status = IB_WC_LOC_LEN_ERR;
	} else {
		memcpy(wqe->sge, data, length);
		wqe->length = length;
	}
}

static void copy_sges(struct roe_qp *qp, struct roe_swqe *wqe, u32 num, const void *data)
{
	const struct rxe_sge *src = data;
	u32 i;

	if (num > qp->sq.max_sge) {
		wqe->status = IB_WC_LOC_QP_OP_ERR;
		return;
	}
	for (i = 0; i < num; i++) {
		wqe->sge[i].addr = READ_ONCE(src[i].addr);
		wqe->sge[i].len = READ_ONCE(src[i].length);
		wqe->sge[i].lkey = READ_ONCE(src[i].lkey);
	}
	wqe->num_sge = num;
	set_length(wqe);
}

/*
 * The library's builder API puts the 8 bytes where other WQEs have SGEs or inline data. A legacy
 * post puts an SGE there, and has no way to name the target, so it is refused (abi.md 8.3).
 */
static void copy_atomic_write(struct roe_swqe *wqe, u32 num_sge, u32 length, const void *data)
{
	if (num_sge || length != sizeof(wqe->atomic_data)) {
		wqe->status = IB_WC_LOC_QP_OP_ERR;
		return;
	}
	memcpy(wqe->atomic_data, data, sizeof(wqe->atomic_data));
	wqe->length = sizeof(wqe->atomic_data);
}

static void copy_flush(struct roe_swqe *wqe, const struct rxe_send_wr *wr, u32 num_sge, u32 length)
{
	struct flush_wr flush;

	BUILD_BUG_ON(sizeof(flush) > sizeof(wr->wr));
	memcpy(&flush, &wr->wr, sizeof(flush));
	barrier();	/* one read: the compiler must not go back to the ring */
	if (num_sge || flush.level > ROE_FETH_SEL_MR || !flush.type ||
	    flush.type & ~(ROE_FETH_PLT_GLOBAL | ROE_FETH_PLT_PERSISTENT))
		wqe->status = IB_WC_LOC_QP_OP_ERR;
	wqe->raddr = flush.remote_addr;
	wqe->rkey = flush.rkey;
	wqe->length = length;
	wqe->feth = (flush.level << ROE_FETH_SEL_SHIFT & ROE_FETH_SEL_MASK) |
		    (flush.type & ROE_FETH_PLT_MASK);
}

/* The address of a datagram: number of the address handle, QPN, Q_Key; checked in a copy. */
static void copy_address(struct roe_qp *qp, struct roe_swqe *wqe, const struct rxe_send_wr *src)
{
	struct rxe_send_wr wr;

	memcpy(&wr, src, sizeof(wr));
	barrier();	/* one read: the compiler must not go back to the ring */
	roe_ud_from_ring(qp, wqe, &wr);
}

/* Clear the fields that not every opcode sets. Field by field: a string instruction costs more. */
static void clear(struct roe_swqe *wqe)
{
	wqe->num_sge = 0;
	wqe->state = ROE_SWQE_POSTED;
	wqe->status = IB_WC_SUCCESS;
	wqe->imm = 0;
	wqe->inv_rkey = 0;
	wqe->length = 0;
	wqe->rkey = 0;
	wqe->raddr = 0;
	wqe->bind_len = 0;
	wqe->bind_lkey = 0;
	wqe->bind_rkey = 0;
	wqe->bind_access = 0;
	wqe->reg_mr = NULL;
	wqe->reg_access = 0;
	wqe->first_psn = 0;
	wqe->last_psn = 0;
}

/**
 * roe_wqe_from_ring() - private copy of a user's send WQE
 * @qp: its limits apply
 * @wqe: filled in; status says whether it may run
 * @slot: element of the shared ring; the process may change it, so nothing in it is read twice
 */
void roe_wqe_from_ring(struct roe_qp *qp, struct roe_swqe *wqe, const void *slot)
{
	const void *data = slot + sizeof(struct rxe_send_wqe);
	const struct rxe_send_wqe *u = slot;
	u32 opcode = READ_ONCE(u->wr.opcode);
	u32 flags = READ_ONCE(u->wr.send_flags);
	u32 length = READ_ONCE(u->dma.length);
	u32 num_sge = READ_ONCE(u->dma.num_sge);

	clear(wqe);
	wqe->wr_id = READ_ONCE(u->wr.wr_id);
	wqe->flags = flags & SEND_FLAGS & ~IB_SEND_INLINE;
	if (!may_post(qp, opcode)) {
		wqe->opcode = IB_WR_SEND;
		wqe->status = IB_WC_LOC_QP_OP_ERR;
		return;
	}
	wqe->opcode = opcode;
	copy_keys(wqe, &u->wr);
	if (is_local(opcode))
		return;
	if (opcode == IB_WR_ATOMIC_WRITE)
		copy_atomic_write(wqe, num_sge, length, data);
	else if (opcode == IB_WR_FLUSH)
		copy_flush(wqe, &u->wr, num_sge, length);
	else if (is_inline(opcode, flags, num_sge, length))
		copy_inline(qp, wqe, length, data);
	else
		copy_sges(qp, wqe, num_sge, data);
	if (roe_qp_is_ud(qp))
		copy_address(qp, wqe, &u->wr);
}

ROE_EXPORT_FOR_TEST(roe_wqe_from_ring);

/**
 * roe_wqe_pull() - copy in the send WQEs that a process has posted
 * @qp: user QP; nothing to do for a kernel QP. qp->lock held.
 *
 * A ring may hold a hundred thousand WQEs, so one call copies ROE_WQE_BATCH at most: softirqs are
 * off.
 *
 * Return: true if there is more to copy.
 */
bool roe_wqe_pull(struct roe_qp *qp)
{
	struct roe_sq *sq = &qp->sq;
	u32 pending, n = 0;

	roe_qp_assert_locked(qp);
	if (!sq->ring)
		return false;
	/* ring slots are released when WQEs retire, so the oldest one is that of sq->cons */
	pending = roe_ring_pending(sq->ring);
	while (sq->prod - sq->cons < pending && n++ < ROE_WQE_BATCH) {
		roe_wqe_from_ring(qp, roe_sq_slot(sq, sq->prod),
				  roe_ring_peek(sq->ring, sq->prod - sq->cons));
		sq->prod++;
	}
	/* pairs with roe_relay_news() and roe_qp_take_posted(), which read it without the lock */
	smp_store_release(&sq->pulled,
			  (sq->ring->cons + sq->prod - sq->cons) & sq->ring->mask);
	return sq->prod - sq->cons < pending;
}

ROE_EXPORT_FOR_TEST(roe_wqe_pull);

static int inline_from_wr(struct roe_qp *qp, struct roe_swqe *wqe, const struct ib_send_wr *wr)
{
	u8 *dst = (u8 *)wqe->sge;
	int i;

	if (!(BIT(wr->opcode) & INLINE_OPCODES))
		return -EINVAL;
	for (i = 0; i < wr->num_sge; i++) {
		const struct ib_sge *sge = &wr->sg_list[i];

		if (sge->length > qp->sq.max_inline - wqe->length)
			return -EINVAL;
		memcpy(dst + wqe->length, (void *)(uintptr_t)sge->addr, sge->length);
		wqe->length += sge->length;
	}
	return 0;
}

static void sges_from_wr(struct roe_swqe *wqe, const struct ib_send_wr *wr)
{
	int i;

	for (i = 0; i < wr->num_sge; i++) {
		wqe->sge[i].addr = wr->sg_list[i].addr;
		wqe->sge[i].len = wr->sg_list[i].length;
		wqe->sge[i].lkey = wr->sg_list[i].lkey;
	}
	wqe->num_sge = wr->num_sge;
	set_length(wqe);
}

static int keys_from_wr(struct roe_swqe *wqe, const struct ib_send_wr *wr)
{
	switch (wr->opcode) {
	case IB_WR_SEND_WITH_IMM:
		wqe->imm = wr->ex.imm_data;
		return 0;
	case IB_WR_SEND:
		return 0;
	case IB_WR_RDMA_WRITE_WITH_IMM:
	case IB_WR_RDMA_WRITE:
	case IB_WR_RDMA_READ:
		wqe->imm = wr->ex.imm_data;
		wqe->raddr = rdma_wr(wr)->remote_addr;
		wqe->rkey = rdma_wr(wr)->rkey;
		return 0;
	case IB_WR_ATOMIC_CMP_AND_SWP:
	case IB_WR_ATOMIC_FETCH_AND_ADD:
		wqe->raddr = atomic_wr(wr)->remote_addr;
		wqe->rkey = atomic_wr(wr)->rkey;
		wqe->compare_add = atomic_wr(wr)->compare_add;
		wqe->swap = atomic_wr(wr)->swap;
		return 0;
	case IB_WR_SEND_WITH_INV:
	case IB_WR_LOCAL_INV:
		wqe->inv_rkey = wr->ex.invalidate_rkey;
		return 0;
	case IB_WR_REG_MR:
		wqe->reg_mr = roe_mr(reg_wr(wr)->mr);
		wqe->rkey = reg_wr(wr)->key;
		wqe->reg_access = reg_wr(wr)->access;
		return 0;
	default:
		return -EINVAL;
	}
}

static int data_from_wr(struct roe_qp *qp, struct roe_swqe *wqe, const struct ib_send_wr *wr)
{
	if (is_local(wr->opcode))
		return 0;
	if (wr->send_flags & IB_SEND_INLINE)
		return inline_from_wr(qp, wqe, wr);
	sges_from_wr(wqe, wr);
	return 0;
}

/**
 * roe_wqe_from_wr() - private copy of a kernel user's work request
 * @qp: its limits apply
 * @wqe: filled in
 * @wr: the request
 *
 * Return: 0 or -EINVAL: not posted.
 */
int roe_wqe_from_wr(struct roe_qp *qp, struct roe_swqe *wqe, const struct ib_send_wr *wr)
{
	if (!may_post(qp, wr->opcode) && (wr->opcode != IB_WR_REG_MR || roe_qp_is_ud(qp)))
		return -EINVAL;
	memset(wqe, 0, sizeof(*wqe));
	wqe->wr_id = wr->wr_id;
	wqe->opcode = wr->opcode;
	wqe->flags = wr->send_flags & SEND_FLAGS;
	if (keys_from_wr(wqe, wr) || wr->num_sge < 0 || wr->num_sge > qp->sq.max_sge)
		return -EINVAL;
	if (data_from_wr(qp, wqe, wr))
		return -EINVAL;
	return roe_qp_is_ud(qp) ? roe_ud_from_wr(qp, wqe, wr) : 0;
}

ROE_EXPORT_FOR_TEST(roe_wqe_from_wr);

/**
 * roe_wqe_next_recv() - take the next receive WQE, from the RQ or the SRQ
 * @qp: qp->lock held
 * @rwqe: takes the copy; status tells whether it can be used
 * @least: bytes that the WQE must have room for; a shorter one stays in the queue
 *
 * Return: false if no WQE is posted, or the next one is too short.
 */
bool roe_wqe_next_recv(struct roe_qp *qp, struct roe_rwqe *rwqe, u32 least)
{
	return qp->srq ? roe_srq_take(qp->srq, rwqe, least) : roe_rq_take(&qp->rq, rwqe, least);
}

ROE_EXPORT_FOR_TEST(roe_wqe_next_recv);
