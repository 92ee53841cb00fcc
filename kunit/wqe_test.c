// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * What a hostile process can write into its rings (abi.md 8.5): every WQE is
 * either judged unfit by its status, or within all limits.
 */
#include <kunit/test.h>
#include <linux/slab.h>
#include "../drivers/roe/qp_run.h"
#include "../drivers/roe/transport.h"

#define MAX_SGE		4
#define MAX_INLINE	64
#define SLOT		512

struct fixture {
	struct roe_qp		*qp;
	struct roe_swqe		*wqe;
	struct rxe_send_wqe	*u;	/* in a slot of SLOT bytes, all of which exist */
};

static int setup(struct kunit *test)
{
	struct fixture *f = kunit_kzalloc(test, sizeof(*f), GFP_KERNEL);

	if (!f)
		return -ENOMEM;
	test->priv = f;
	f->qp = kunit_kzalloc(test, sizeof(*f->qp), GFP_KERNEL);
	/* exactly as large as a slot of such a QP: KASAN sees a byte too many */
	f->wqe = kunit_kzalloc(test, sizeof(*f->wqe) + MAX_SGE * sizeof(struct roe_sge),
			       GFP_KERNEL);
	f->u = kunit_kzalloc(test, SLOT, GFP_KERNEL);
	if (!f->qp || !f->wqe || !f->u)
		return -ENOMEM;
	f->qp->sq.max_sge = MAX_SGE;
	f->qp->sq.max_inline = MAX_INLINE;
	f->qp->rq.max_sge = MAX_SGE;
	return 0;
}

struct row {
	const char	*name;
	u32		opcode, flags, num_sge, length;
	u32		len[MAX_SGE];
	u64		raddr;
	/* what must come of it */
	u8		status;
	u32		want_len, want_sge;
};

static const struct row rows[] = {
	{ "send", IB_WR_SEND, 0, 2, 7, { 3, 4 }, 0, 0, 7, 2 },
	{ "wrong dma.length", IB_WR_SEND, 0, 2, 0xffffffff, { 3, 4 }, 0, 0, 7, 2 },
	{ "dma.length 0", IB_WR_RDMA_READ, 0, 1, 0, { 300 }, 0, 0, 300, 1 },
	{ "no SGE", IB_WR_SEND, 0, 0, 0, { }, 0, 0, 0, 0 },
	{ "all SGEs", IB_WR_SEND, 0, 4, 10, { 1, 2, 3, 4 }, 0, 0, 10, 4 },
	{ "one SGE too many", IB_WR_SEND, 0, 5, 10, { 1, 2, 3, 4 }, 0, IB_WC_LOC_QP_OP_ERR },
	{ "num_sge huge", IB_WR_SEND, 0, 0xffffffff, 10, { 1 }, 0, IB_WC_LOC_QP_OP_ERR },
	{ "num_sge 256", IB_WR_SEND, 0, 256, 10, { 1 }, 0, IB_WC_LOC_QP_OP_ERR },
	{ "2^31", IB_WR_RDMA_WRITE, 0, 2, 0, { 0x40000000, 0x40000000 }, 0, 0, 0x80000000, 2 },
	{ "2^31 + 1", IB_WR_RDMA_WRITE, 0, 2, 0, { 0x80000000, 1 }, 0, IB_WC_LOC_LEN_ERR, 0, 2 },
	{ "sum wraps to 0", IB_WR_RDMA_WRITE, 0, 2, 0, { 0x80000000, 0x80000000 }, 0,
	  IB_WC_LOC_LEN_ERR, 0, 2 },
	{ "sum wraps to 4", IB_WR_SEND, 0, 3, 0, { 0xffffffff, 0xffffffff, 6 }, 0,
	  IB_WC_LOC_LEN_ERR, 0, 3 },
	{ "inline", IB_WR_SEND, IB_SEND_INLINE, 0, 64, { }, 0, 0, 64, 0 },
	{ "inline, num_sge ignored", IB_WR_SEND, IB_SEND_INLINE, 99, 5, { }, 0, 0, 5, 0 },
	{ "inline without the flag", IB_WR_RDMA_WRITE, 0, 0, 64, { }, 0, 0, 64, 0 },
	{ "inline too long", IB_WR_SEND, IB_SEND_INLINE, 0, 65, { }, 0, IB_WC_LOC_LEN_ERR },
	{ "inline huge", IB_WR_SEND, IB_SEND_INLINE, 0, 0xffffffff, { }, 0, IB_WC_LOC_LEN_ERR },
	{ "inline without the flag, too long", IB_WR_SEND, 0, 0, 65, { }, 0, IB_WC_LOC_LEN_ERR },
	{ "inline read", IB_WR_RDMA_READ, IB_SEND_INLINE, 0, 8, { }, 0, IB_WC_LOC_QP_OP_ERR },
	{ "inline atomic", IB_WR_ATOMIC_FETCH_AND_ADD, IB_SEND_INLINE, 0, 8, { }, 0,
	  IB_WC_LOC_QP_OP_ERR },
	{ "atomic", IB_WR_ATOMIC_CMP_AND_SWP, 0, 1, 8, { 8 }, 8, 0, 8, 1 },
	{ "atomic, long buffer", IB_WR_ATOMIC_CMP_AND_SWP, 0, 1, 8, { 99 }, 8, 0, 8, 1 },
	{ "atomic, short", IB_WR_ATOMIC_FETCH_AND_ADD, 0, 1, 8, { 7 }, 8,
	  IB_WC_LOC_LEN_ERR, 8, 1 },
	{ "atomic, no SGE", IB_WR_ATOMIC_FETCH_AND_ADD, 0, 0, 8, { }, 8,
	  IB_WC_LOC_LEN_ERR, 8 },
	{ "atomic, misaligned", IB_WR_ATOMIC_FETCH_AND_ADD, 0, 1, 8, { 8 }, 12, 0, 8, 1 },
	{ "local inv", IB_WR_LOCAL_INV, 0, 0xffffffff, 0xffffffff, { }, 0, 0, 0, 0 },
	{ "local inv inline", IB_WR_LOCAL_INV, IB_SEND_INLINE, 0, 0xffffffff, { }, 0, 0, 0, 0 },
	{ "reg_mr carries a pointer", IB_WR_REG_MR, 0, 0, 0, { }, 0, IB_WC_LOC_QP_OP_ERR },
	{ "bind_mw", 8, 0, 0, 0, { }, 0, IB_WC_SUCCESS },
	{ "lso", IB_WR_LSO, 0, 0, 0, { }, 0, IB_WC_LOC_QP_OP_ERR },
	{ "opcode 63", 63, 0, 0, 0, { }, 0, IB_WC_LOC_QP_OP_ERR },
	{ "opcode 64", 64, 0, 0, 0, { }, 0, IB_WC_LOC_QP_OP_ERR },
	{ "opcode 66", 66, 0, 0, 0, { }, 0, IB_WC_LOC_QP_OP_ERR },
	{ "opcode 256", 256, 0, 0, 0, { }, 0, IB_WC_LOC_QP_OP_ERR },
	{ "opcode 0x80000002", 0x80000002, 0, 0, 0, { }, 0, IB_WC_LOC_QP_OP_ERR },
	{ "opcode 0xffffffff", 0xffffffff, 0, 0, 0, { }, 0, IB_WC_LOC_QP_OP_ERR },
};

static void row_desc(const struct row *row, char *desc)
{
	strscpy(desc, row->name, KUNIT_PARAM_DESC_SIZE);
}

KUNIT_ARRAY_PARAM(row, rows, row_desc);

static void fill(struct rxe_send_wqe *u, const struct row *row)
{
	struct rxe_sge *sge = (void *)(u + 1);
	unsigned int i;

	memset(u, 0, SLOT);
	u->wr.wr_id = 77;
	u->wr.opcode = row->opcode;
	u->wr.send_flags = row->flags | 0xffff0000 | IB_SEND_SIGNALED;
	u->dma.num_sge = row->num_sge;
	u->dma.length = row->length;
	if (row->opcode == IB_WR_ATOMIC_CMP_AND_SWP || row->opcode == IB_WR_ATOMIC_FETCH_AND_ADD)
		u->wr.wr.atomic.remote_addr = row->raddr;
	for (i = 0; i < MAX_SGE; i++)
		sge[i].length = row->len[i];
}

static void wqe_send(struct kunit *test)
{
	const struct row *row = test->param_value;
	struct fixture *f = test->priv;

	fill(f->u, row);
	roe_wqe_from_ring(f->qp, f->wqe, f->u);
	KUNIT_EXPECT_EQ(test, f->wqe->status, row->status);
	KUNIT_EXPECT_EQ(test, f->wqe->length, row->want_len);
	KUNIT_EXPECT_EQ(test, f->wqe->num_sge, row->want_sge);
	KUNIT_EXPECT_EQ(test, f->wqe->state, ROE_SWQE_POSTED);
	KUNIT_EXPECT_EQ(test, f->wqe->wr_id, 77);
	KUNIT_EXPECT_PTR_EQ(test, f->wqe->reg_mr, NULL);
	/* flags that mean nothing here stay outside */
	KUNIT_EXPECT_EQ(test, f->wqe->flags & ~IB_SEND_INLINE, IB_SEND_SIGNALED);
}

/* No opcode value gets through but the ten of RC. */
static void wqe_opcodes(struct kunit *test)
{
	struct fixture *f = test->priv;
	unsigned int good = 0;
	u32 op;

	for (op = 0; op < 1024; op++) {
		const struct row row = { .opcode = op, .num_sge = 1, .len = { 8 } };

		fill(f->u, &row);
		roe_wqe_from_ring(f->qp, f->wqe, f->u);
		if (f->wqe->status == IB_WC_SUCCESS) {
			good++;
			KUNIT_EXPECT_EQ(test, f->wqe->opcode, op);
		}
	}
	KUNIT_EXPECT_EQ(test, good, 10);
}

static void put_recv(struct roe_ring *ring, u32 num_sge, u32 len)
{
	struct rxe_recv_wqe *u = roe_ring_slot(ring, ring->buf->producer_index);
	struct rxe_sge *sge = (void *)(u + 1);
	unsigned int i;

	u->wr_id = num_sge;
	u->dma.num_sge = num_sge;
	u->dma.length = 0xffffffff;
	for (i = 0; i < MAX_SGE; i++)
		sge[i].length = len;
	ring->buf->producer_index = (ring->buf->producer_index + 1) & ring->mask;
}

static void wqe_recv(struct kunit *test)
{
	static const struct {
		u32 num, len, want_num, want_len;
		u8 status;
	} recv[] = {
		{ 0, 5, 0, 0, 0 },
		{ 4, 5, 4, 20, 0 },
		{ 5, 5, 0, 0, IB_WC_LOC_QP_OP_ERR },
		{ 0x100, 5, 0, 0, IB_WC_LOC_QP_OP_ERR },
		{ 0x80000000, 5, 0, 0, IB_WC_LOC_QP_OP_ERR },
		{ 0xffffffff, 5, 0, 0, IB_WC_LOC_QP_OP_ERR },
		{ 4, 0xffffffff, 4, ROE_MSG_MAX, 0 },
		{ 2, 0x80000000, 2, ROE_MSG_MAX, 0 },
	};
	struct fixture *f = test->priv;
	struct roe_rwqe *rwqe = kunit_kzalloc(test, sizeof(*rwqe), GFP_KERNEL);
	struct roe_ring *ring = roe_ring_create(8, sizeof(struct rxe_recv_wqe) +
						MAX_SGE * sizeof(struct rxe_sge), NULL, NULL);
	unsigned int i;

	KUNIT_ASSERT_NOT_NULL(test, rwqe);
	KUNIT_ASSERT_NOT_ERR_OR_NULL(test, ring);
	f->qp->rq.ring = ring;
	for (i = 0; i < ARRAY_SIZE(recv); i++) {
		KUNIT_EXPECT_FALSE(test, roe_wqe_next_recv(f->qp, rwqe, 0));
		put_recv(ring, recv[i].num, recv[i].len);
		KUNIT_EXPECT_TRUE(test, roe_wqe_next_recv(f->qp, rwqe, 0));
		KUNIT_EXPECT_EQ_MSG(test, rwqe->num_sge, recv[i].want_num, "row %u", i);
		KUNIT_EXPECT_EQ_MSG(test, rwqe->length, recv[i].want_len, "row %u", i);
		KUNIT_EXPECT_EQ_MSG(test, rwqe->status, recv[i].status, "row %u", i);
		KUNIT_EXPECT_EQ(test, rwqe->wr_id, recv[i].num);
	}
	roe_ring_destroy(ring);
}

/*
 * All WRs of a queue are posted, the completion of the first is seen, its slot is not
 * given back yet: there is place for one more, in a slot of its own, and for no other.
 */
static void wqe_room(struct kunit *test)
{
	static const u32 at[] = { 0, 5, 0xfffffffe, 0xffffffff };
	struct roe_sq *sq = &((struct fixture *)test->priv)->qp->sq;
	unsigned int i;
	u32 n;

	for (n = 1; n <= 15; n = 2 * n + 1)
		for (i = 0; i < ARRAY_SIZE(at); i++) {
			sq->mask = n;
			sq->max_wr = n;
			sq->cons = at[i];
			sq->prod = at[i] + n;
			KUNIT_EXPECT_FALSE(test, roe_sq_full(sq));
			KUNIT_EXPECT_PTR_NE(test, roe_sq_slot(sq, sq->prod),
					    roe_sq_slot(sq, sq->cons));
			sq->prod++;
			KUNIT_EXPECT_TRUE(test, roe_sq_full(sq));
		}
}

#define MANY	(2 * ROE_WQE_BATCH + 20)

/* A QP of a process that has posted MANY sends and as many receives. */
static void post_many(struct kunit *test)
{
	struct fixture *f = test->priv;
	struct roe_qp *qp = f->qp;
	struct roe_sq *sq = &qp->sq;
	unsigned int i;

	sq->log2 = order_base_2(sizeof(*f->wqe) + MAX_SGE * sizeof(struct roe_sge));
	sq->ring = roe_ring_create(MANY, sizeof(struct rxe_send_wqe) + MAX_INLINE, NULL, NULL);
	KUNIT_ASSERT_NOT_ERR_OR_NULL(test, sq->ring);
	sq->mask = sq->ring->mask;
	sq->slots = kvcalloc(sq->mask + 1, BIT(sq->log2), GFP_KERNEL);
	KUNIT_ASSERT_NOT_NULL(test, sq->slots);
	qp->rq.ring = roe_ring_create(MANY, sizeof(struct rxe_recv_wqe) +
				      MAX_SGE * sizeof(struct rxe_sge), NULL, NULL);
	KUNIT_ASSERT_NOT_ERR_OR_NULL(test, qp->rq.ring);
	for (i = 0; i < MANY; i++) {
		struct rxe_send_wqe *u = roe_ring_slot(sq->ring, i);

		u->wr.wr_id = i;
		u->wr.opcode = IB_WR_SEND;
		put_recv(qp->rq.ring, 1, 8);
	}
	sq->ring->buf->producer_index = MANY;
}

static void forget_many(struct roe_qp *qp)
{
	roe_ring_destroy(qp->sq.ring);
	kvfree(qp->sq.slots);
	roe_ring_destroy(qp->rq.ring);
}

/* Nobody makes us copy a hundred thousand WQEs with softirqs off. */
static void wqe_pull(struct kunit *test)
{
	struct fixture *f = test->priv;
	struct roe_sq *sq = &f->qp->sq;
	unsigned int i;

	post_many(test);
	KUNIT_EXPECT_TRUE(test, roe_wqe_pull(f->qp));
	KUNIT_EXPECT_EQ(test, sq->prod, ROE_WQE_BATCH);
	KUNIT_EXPECT_TRUE(test, roe_wqe_pull(f->qp));
	KUNIT_EXPECT_FALSE(test, roe_wqe_pull(f->qp));
	KUNIT_EXPECT_EQ(test, sq->prod, MANY);
	KUNIT_EXPECT_FALSE(test, roe_wqe_pull(f->qp));
	for (i = 0; i < MANY; i++)
		KUNIT_EXPECT_EQ(test, roe_sq_slot(sq, i)->wr_id, i);
	forget_many(f->qp);
}

/* Nor flush them, on the way into ERR and while it is told that there are more. */
static void wqe_flush(struct kunit *test)
{
	struct fixture *f = test->priv;
	struct roe_qp *qp = f->qp;
	struct roe_cq *cq = kunit_kzalloc(test, sizeof(*cq), GFP_KERNEL);
	struct roe_ctx ctx = { };
	unsigned int i, send = 0, recv = 0;
	struct ib_wc wc;

	KUNIT_ASSERT_NOT_NULL(test, cq);
	post_many(test);
	KUNIT_ASSERT_EQ(test, roe_cq_init_kernel(cq, 2 * MANY), 0);
	qp->scq = cq;
	qp->rcq = cq;
	qp->state = IB_QPS_RTS;
	roe_complete_error(qp, &ctx);
	for (i = 1; qp->flush_more && i < 9; i++) {
		KUNIT_EXPECT_LE(test, cq->wc_prod, 2 * i * ROE_WQE_BATCH);
		roe_complete_flush(qp, &ctx);
	}
	KUNIT_EXPECT_EQ(test, i, 3);
	KUNIT_EXPECT_EQ(test, cq->wc_prod, 2 * MANY);
	while (roe_cq_poll(&cq->ib, 1, &wc)) {
		KUNIT_EXPECT_EQ(test, wc.status, IB_WC_WR_FLUSH_ERR);
		if (wc.opcode == IB_WC_RECV)
			recv++;
		else
			KUNIT_EXPECT_EQ(test, wc.wr_id, send++);
	}
	KUNIT_EXPECT_EQ(test, send, MANY);
	KUNIT_EXPECT_EQ(test, recv, MANY);
	roe_cq_exit(cq);
	forget_many(qp);
}

struct told {
	struct task_struct	*by;
	unsigned int		n;
};

static void tell(struct ib_event *event, void *context)
{
	struct told *told = context;

	told->by = current;
	told->n++;
}

/* The handler of a kernel user, who may hold its lock, is never called from below. */
static void qp_event(struct kunit *test)
{
	struct fixture *f = test->priv;
	struct roe_qp *qp = f->qp;
	struct told told = { };
	struct roe_ctx ctx;

	spin_lock_init(&qp->lock);
	roe_qp_init_events(qp);
	qp->state = IB_QPS_RESET;
	qp->ib.event_handler = tell;
	qp->ib.qp_context = &told;
	roe_qp_begin(qp, &ctx);
	ctx.events = BIT(IB_EVENT_QP_FATAL) | BIT(IB_EVENT_COMM_EST);
	roe_qp_end(qp, &ctx);
	flush_work(&qp->event_work);
	KUNIT_EXPECT_EQ(test, told.n, 2);
	KUNIT_EXPECT_PTR_NE(test, told.by, current);
}

static struct kunit_case wqe_cases[] = {
	KUNIT_CASE_PARAM(wqe_send, row_gen_params),
	KUNIT_CASE(wqe_opcodes),
	KUNIT_CASE(wqe_recv),
	KUNIT_CASE(wqe_room),
	KUNIT_CASE(wqe_pull),
	KUNIT_CASE(wqe_flush),
	KUNIT_CASE(qp_event),
	{}
};

static struct kunit_suite wqe_suite = {
	.name = "roe_wqe",
	.init = setup,
	.test_cases = wqe_cases,
};

kunit_test_suites(&wqe_suite);
