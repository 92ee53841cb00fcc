// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Harness of the protocol suites: see sim.h.
 */
#include <linux/jhash.h>
#include <linux/mm.h>
#include <linux/slab.h>
#include <linux/vmalloc.h>
#include "../drivers/roe/direct.h"
#include "../drivers/roe/early.h"
#include "../drivers/roe/frame.h"
#include "sim.h"

#define SIM_STEPS	200000
#define FEW_RETRIES	3
#define ALL_ACCESS	(IB_ACCESS_LOCAL_WRITE | IB_ACCESS_REMOTE_WRITE | \
			 IB_ACCESS_REMOTE_READ | IB_ACCESS_REMOTE_ATOMIC | \
			 IB_ACCESS_FLUSH_GLOBAL)

/* Never looked into: only compared. */
static struct ib_pd *fake_pd(const struct sim_side *side)
{
	return (struct ib_pd *)&side->keys;
}

static u32 random_below(struct sim *sim, u32 n)
{
	return prandom_u32_state(&sim->rnd) % n;
}

/* --- life ------------------------------------------------------------------ */

static int init_mr(struct sim_side *side, struct roe_mr *mr, struct roe_extent *ext,
		   enum roe_mr_type type, void *addr, u64 len)
{
	mr->type = type;
	mr->state = type == ROE_MR_FAST ? ROE_MR_FREE : ROE_MR_VALID;
	mr->ib.pd = fake_pd(side);
	mr->ib.iova = (uintptr_t)addr;
	mr->ib.length = len;
	mr->iova = mr->ib.iova;
	mr->length = len;
	mr->access = type == ROE_MR_FAST ? 0 : ALL_ACCESS;
	mr->mem.ext = ext;
	mr->mem.max = 1;
	return roe_memory_add(&mr->mem, addr, len) ?: roe_mr_publish(&side->keys, mr);
}

/* Where receives of a side are posted. */
static struct roe_rq *rq_of(struct sim_side *side)
{
	return side->qp->srq ? &side->qp->srq->rq : &side->qp->rq;
}

static int init_queues(struct roe_qp *qp)
{
	struct roe_sq *sq = &qp->sq;

	spin_lock_init(&qp->lock);
	spin_lock_init(&sq->post_lock);
	sq->max_sge = 4;
	sq->max_inline = 64;
	sq->mask = 2 * SIM_WRS - 1;
	sq->max_wr = sq->mask;
	sq->log2 = order_base_2(sizeof(struct roe_swqe) + 4 * sizeof(struct roe_sge));
	sq->slots = kvcalloc(sq->mask + 1, BIT(sq->log2), GFP_KERNEL);
	qp->resp.rsrc = kcalloc(SIM_RD_ATOMIC, sizeof(*qp->resp.rsrc), GFP_KERNEL);
	qp->resp.rsrc_nr = SIM_RD_ATOMIC;
	return sq->slots && qp->resp.rsrc ? roe_rq_init(&qp->rq, SIM_WRS, 4, NULL, NULL) : -ENOMEM;
}

static int init_qp(struct sim_side *side, unsigned int i)
{
	struct roe_qp *qp = kzalloc(sizeof(*qp), GFP_KERNEL);

	if (!qp)
		return -ENOMEM;
	side->qp = qp;
	qp->type = IB_QPT_RC;
	qp->qpn = 0x100 + i;
	qp->dest_qpn = 0x101 - i;
	qp->pkey = ROE_DEFAULT_PKEY;
	qp->keys = &side->keys;
	qp->pd = fake_pd(side);
	qp->scq = &side->scq;
	qp->rcq = &side->rcq;
	return init_queues(qp);
}

static int init_side(struct sim_side *side, unsigned int i)
{
	u8 *mem = kvzalloc(4 * SIM_REGION + PAGE_SIZE, GFP_KERNEL);
	int err;

	if (!mem)
		return -ENOMEM;
	side->src = mem;
	side->dst = mem + SIM_REGION;
	side->rcv = mem + 2 * SIM_REGION;
	side->got = mem + 3 * SIM_REGION;
	side->word = (u64 *)(mem + 4 * SIM_REGION);
	roe_keys_init(&side->keys);
	side->srq.ib.pd = fake_pd(side);
	err = init_qp(side, i) ?: roe_cq_init_kernel(&side->scq, 2 * SIM_WRS) ?:
	      roe_cq_init_kernel(&side->rcq, 2 * SIM_WRS) ?:
	      roe_srq_init(&side->srq, SIM_WRS, 4, NULL, NULL);
	return err ?: init_mr(side, &side->mr, &side->ext, ROE_MR_USER, mem,
			      4 * SIM_REGION + PAGE_SIZE) ?:
		      init_mr(side, &side->fast, &side->fast_ext, ROE_MR_FAST, mem,
			      SIM_REGION);
}

static void destroy_side(struct sim_side *side)
{
	struct roe_qp *qp = side->qp;

	if (qp) {
		kvfree(qp->sq.slots);
		roe_rq_exit(&qp->rq);
		kfree(qp->resp.rsrc);
		roe_early_exit(&qp->resp.early);
		roe_early_exit(&qp->req.reorder.early);
		kfree(qp);
	}
	if (side->scq.wc)
		roe_cq_exit(&side->scq);
	if (side->rcq.wc)
		roe_cq_exit(&side->rcq);
	if (side->mr.keys)
		roe_mr_unpublish(&side->mr);
	if (side->mr.odp)
		xa_destroy(&side->odp.pages);
	if (side->fast.keys)
		roe_mr_unpublish(&side->fast);
	if (side->src)
		roe_keys_destroy(&side->keys);
	kvfree(side->src);
	if (side->srq.rq.max_sge)
		roe_srq_exit(&side->srq);
}

static void free_list(struct list_head *list)
{
	struct sim_pkt *pkt, *next;

	list_for_each_entry_safe(pkt, next, list, link)
		kfree(pkt);
}

void sim_destroy(struct sim *sim)
{
	unsigned int i;

	for (i = 0; i < sim->nheld; i++)
		kfree(sim->held[i]);
	free_list(&sim->wire);
	free_list(&sim->free);
	destroy_side(&sim->side[0]);
	destroy_side(&sim->side[1]);
	if (sim->txb)
		roe_txb_free(sim->txb);
	kfree(sim->txb);
	kfree(sim);
}

struct sim *sim_create(struct kunit *test)
{
	struct sim *sim = kzalloc(sizeof(*sim), GFP_KERNEL);

	if (!sim)
		return NULL;
	sim->test = test;
	INIT_LIST_HEAD(&sim->wire);
	INIT_LIST_HEAD(&sim->free);
	sim->txb = kzalloc(sizeof(*sim->txb), GFP_KERNEL);
	if (!sim->txb || init_side(&sim->side[0], 0) || init_side(&sim->side[1], 1)) {
		sim_destroy(sim);
		return NULL;
	}
	prandom_seed_state(&sim->rnd, 1);
	prandom_bytes_state(&sim->rnd, sim->side[0].src, SIM_REGION);
	prandom_bytes_state(&sim->rnd, sim->side[1].src, SIM_REGION);
	sim_reset(sim, 0, 0);
	return sim;
}

static void reset_qp(struct roe_qp *qp, u32 sq_psn, u32 rq_psn)
{
	qp->state = IB_QPS_RTS;
	qp->overrun = false;
	qp->mtu = SIM_MTU;
	qp->access = ALL_ACCESS & ~IB_ACCESS_LOCAL_WRITE;
	qp->attr.retry_cnt = 7;
	qp->attr.rnr_retry = 7;
	qp->attr.min_rnr_timer = 1;
	qp->attr.timeout = 18;
	qp->attr.max_rd_atomic = SIM_RD_ATOMIC;
	qp->timeout_ns = roe_timer_ack_ns(qp->attr.timeout);
	qp->resp.rsrc_nr = SIM_RD_ATOMIC;
	qp->sq.prod = 0;
	qp->sq.next = 0;
	qp->sq.cons = 0;
	qp->rq.prod = 0;
	qp->rq.cons = 0;
	qp->srq = NULL;
	roe_requester_reset(qp, sq_psn);
	roe_responder_reset(qp, rq_psn);
}

/* Bytes of each memory that the last run may have touched. */
static u32 used(const struct sim *sim)
{
	const struct sim_side *a = &sim->side[0], *b = &sim->side[1];

	if (!sim->slot)
		return SIM_REGION;
	return min_t(u32, SIM_REGION, sim->slot * max(max(a->wrs, b->wrs),
						      max(a->recvs, b->recvs)));
}

static void reset_side(struct sim_side *side, u32 used)
{
	struct ib_wc wc;

	while (roe_cq_poll(&side->scq.ib, 1, &wc) || roe_cq_poll(&side->rcq.ib, 1, &wc))
		;
	side->scq.overrun = false;
	side->rcq.overrun = false;
	memset(side->dst, SIM_SECRET, used);
	memset(side->rcv, SIM_SECRET, used);
	memset(side->got, SIM_SECRET, used);
	memset(side->word, 0, PAGE_SIZE);
	side->srq.rq.prod = 0;
	side->srq.rq.cons = 0;
	side->srq.limit = 0;
	side->fast.state = ROE_MR_FREE;
	side->use_fast = false;
	side->model = 0;
	side->wrs = 0;
	side->recvs = 0;
	side->late = 0;
	side->nswant = 0;
	side->nrwant = 0;
	side->ndata = 0;
	side->events = 0;
}

void sim_reset(struct sim *sim, u32 psn0, u32 psn1)
{
	u32 touched = used(sim);

	list_splice_tail_init(&sim->wire, &sim->free);
	while (sim->nheld)
		list_add(&sim->held[--sim->nheld]->link, &sim->free);
	reset_qp(sim->side[0].qp, psn0, psn1);
	reset_qp(sim->side[1].qp, psn1, psn0);
	reset_side(&sim->side[0], touched);
	reset_side(&sim->side[1], touched);
	sim->now = NSEC_PER_SEC;
	sim->slot = 4096;
	sim->sent[0] = 0;
	sim->sent[1] = 0;
	sim->again[0] = 0;
	sim->again[1] = 0;
	sim->loss = 0;
	sim->dup = 0;
	sim->delay = 0;
	sim->mark = 0;
	sim->direct = 0;
	sim->wrong = NULL;
	sim->evict = 0;
	sim->page_err = 0;
	sim->page_errs = 0;
	sim->lazy = false;
	sim->batch = 0;
	sim->alone = false;
	sim->whole = false;
	sim->compared = false;
	sim->digest = 0;
	sim->forget = false;
	sim->lost = 0;
	sim->lost_from = 0;
	sim->lost_to = 0;
	sim->late = 0;
	sim->no_trains = false;
	sim->side[0].qp->path.trains = true;
	sim->side[1].qp->path.trains = true;
	sim->scripted = false;
	sim->dup_last = false;
	sim->listed = false;
}

/* --- the network ----------------------------------------------------------- */

void sim_put(struct sim *sim, struct sim_pkt *pkt)
{
	list_add(&pkt->link, &sim->free);
}

static struct sim_pkt *get_pkt(struct sim *sim)
{
	struct sim_pkt *pkt = list_first_entry_or_null(&sim->free, struct sim_pkt, link);

	if (!pkt)
		return kmalloc(sizeof(*pkt), GFP_ATOMIC);
	list_del(&pkt->link);
	return pkt;
}

static void set_payload(struct sim_pkt *pkt)
{
	/* two pieces, so that no code relies on one */
	u32 first = pkt->rx.p.len / 3;

	pkt->rx.nvec = 2;
	pkt->rx.vec[0] = (struct kvec) { .iov_base = pkt->data, .iov_len = first };
	pkt->rx.vec[1] = (struct kvec) {
		.iov_base = pkt->data + first,
		.iov_len = pkt->rx.p.len - first,
	};
}

static struct sim_pkt *copy_pkt(struct sim *sim, const struct sim_pkt *from)
{
	struct sim_pkt *pkt = get_pkt(sim);

	if (!pkt)
		return NULL;
	*pkt = *from;
	set_payload(pkt);
	return pkt;
}

static void deliver_at(struct sim *sim, struct sim_pkt *pkt, u64 at)
{
	struct sim_pkt *pos;

	pkt->at = at;
	list_for_each_entry_reverse(pos, &sim->wire, link)
		if (pos->at <= at)
			break;
	list_add(&pkt->link, &pos->link);
}

static bool happens(struct sim *sim, u32 percent)
{
	return percent && random_below(sim, 100) < percent;
}

static u64 arrival(struct sim *sim)
{
	u64 at = sim->now + SIM_WIRE_NS;

	if (happens(sim, sim->delay))
		at += random_below(sim, 20 * SIM_WIRE_NS);
	return at;
}

/* Is this the packet of side 0 that was just counted? */
static bool chosen(const struct sim *sim, const struct sim_pkt *pkt, u64 bits)
{
	return pkt->to == 1 && sim->sent[0] <= 64 && bits & BIT_ULL(sim->sent[0] - 1);
}

static bool in_burst(const struct sim *sim, const struct sim_pkt *pkt)
{
	return pkt->to == 1 && sim->lost_from && sim->sent[0] >= sim->lost_from &&
	       sim->sent[0] <= sim->lost_to;
}

/*
 * A path that loses some packets loses none while the requester has few retries left, of which a
 * late packet takes one, too: one time in 100000 schedules all eight attempts are lost, and then
 * the QP ends as it should.
 */
static bool lost_by_chance(struct sim *sim, const struct sim_pkt *pkt)
{
	bool request = roe_opcode(pkt->rx.p.opcode)->flags & ROE_F_REQUEST;
	const struct sim_side *requester = &sim->side[request ? 1 - pkt->to : pkt->to];

	return happens(sim, sim->loss) &&
	       (sim->loss == 100 || requester->qp->req.retry_cnt >= FEW_RETRIES);
}

static void transmit(struct sim *sim, struct sim_pkt *pkt)
{
	struct sim_pkt *copy;

	if (sim->scripted && 1 - pkt->to == sim->dir && sim->nheld < sim->limit) {
		sim->held[sim->nheld++] = pkt;
		return;
	}
	if (chosen(sim, pkt, sim->late)) {
		deliver_at(sim, pkt, sim->now + 4 * SIM_WIRE_NS);
		return;
	}
	if (chosen(sim, pkt, sim->lost) || in_burst(sim, pkt) || lost_by_chance(sim, pkt)) {
		sim_put(sim, pkt);
		return;
	}
	if (happens(sim, sim->dup)) {
		copy = copy_pkt(sim, pkt);
		if (copy)
			deliver_at(sim, copy, arrival(sim));
	}
	deliver_at(sim, pkt, arrival(sim));
}

static void play_script(struct sim *sim, u64 at)
{
	unsigned int i;

	for (i = 0; i < sim->limit; i++) {
		struct sim_pkt *copy, *pkt;

		if (sim->order[i] >= sim->nheld)
			continue;
		pkt = sim->held[sim->order[i]];
		switch (sim->fate[sim->order[i]]) {
		case SIM_DROP:
			sim_put(sim, pkt);
			continue;
		case SIM_TWICE:
			copy = copy_pkt(sim, pkt);
			if (copy)
				deliver_at(sim, copy, at + (sim->dup_last ? 1 : 0));
			fallthrough;
		default:
			deliver_at(sim, pkt, at);
		}
	}
	sim->nheld = 0;
}

static void play_list(struct sim *sim, u64 at)
{
	unsigned int i;

	for (i = 0; i < sim->nlist; i++) {
		struct sim_pkt *copy = NULL;

		if (sim->list[i] < sim->nheld)
			copy = copy_pkt(sim, sim->held[sim->list[i]]);
		if (copy)
			deliver_at(sim, copy, at);
	}
	while (sim->nheld)
		sim_put(sim, sim->held[--sim->nheld]);
}

/* Play the script with what was held back; from here on the network is clean. */
static void release(struct sim *sim)
{
	u64 at = sim->now + SIM_WIRE_NS;

	if (sim->listed)
		play_list(sim, at);
	else
		play_script(sim, at);
	sim->scripted = false;
}

/* --- scripts --------------------------------------------------------------- */

u32 sim_fates(unsigned int n)
{
	return n ? 3 * sim_fates(n - 1) : 1;
}

u32 sim_orders(unsigned int n)
{
	return n ? n * sim_orders(n - 1) : 1;
}

bool sim_script(struct sim *sim, unsigned int n, u32 fates, u32 perm)
{
	u8 left[SIM_SCRIPT] = { 0, 1, 2, 3, 4 };
	int dropped = -1;
	unsigned int i;

	for (i = 0; i < n; i++, fates /= 3)
		sim->fate[i] = fates % 3;
	for (i = 0; i < n; i++) {
		unsigned int k = perm % (n - i);

		perm /= n - i;
		sim->order[i] = left[k];
		memmove(left + k, left + k + 1, n - i - 1 - k);
		/* where a dropped packet stands does not matter: only behind, ascending */
		if (sim->fate[sim->order[i]] == SIM_DROP) {
			if (sim->order[i] < dropped)
				return false;
			dropped = sim->order[i];
		} else if (dropped >= 0) {
			return false;
		}
	}
	return true;
}

u32 sim_lists(unsigned int n)
{
	unsigned int base = min_t(unsigned int, n, SIM_LIST) + 1, i;
	u32 lists = 1;

	for (i = 1; i < base; i++)
		lists *= base * base;
	return lists;
}

bool sim_list(struct sim *sim, unsigned int n, u32 number)
{
	unsigned int listed = min_t(unsigned int, n, SIM_LIST), i;
	u8 times[SIM_LIST] = {};

	/* its digits are what arrives, 0 is nothing: within a number it would be another's list */
	for (sim->nlist = 0; number; number /= listed + 1) {
		i = number % (listed + 1);
		if (!i || times[i - 1]++ == 2)
			return false;
		sim->list[sim->nlist++] = i - 1;
	}
	for (i = listed; i < n; i++)
		sim->list[sim->nlist++] = i;
	return true;
}

/* --- the engines ----------------------------------------------------------- */

static void begin(struct sim *sim, unsigned int i, struct roe_ctx *ctx)
	__acquires(&sim->side[i].qp->lock)
{
	memset(ctx, 0, sizeof(*ctx));
	ctx->now = sim->now;
	sim->side[i].idle = false;
	local_bh_disable();
	rcu_read_lock();
	spin_lock(&sim->side[i].qp->lock);
}

/* What the protocol knows, but for its timers and pointers. */
static void digest(struct sim *sim, const struct roe_qp *qp)
{
	const struct roe_req *req = &qp->req;
	const struct roe_resp *resp = &qp->resp;
	const u32 state[] = {
		qp->state, qp->sq.next, qp->sq.cons, qp->rq.cons,
		req->psn, req->max_psn, req->una, req->wqe_psn, req->win_psn, req->cwnd,
		req->ssthresh, req->counted, req->recover, req->eased, req->probe,
		req->probe_end, req->rd_out, req->since_ack, req->retry_cnt, req->rnr_retry,
		req->rewound, req->told, req->early, req->early_deadline, req->ack_deadline,
		req->srtt, req->rttvar, req->rtt_psn, req->rtt_start, req->backoff,
		req->ask_at, req->lossy_until, req->asked, req->asking, req->ask_open,
		resp->psn, resp->msn, resp->ack_psn, resp->ack_syndrome, resp->ack_due,
		resp->fatal, resp->direct, resp->nak_state, resp->in_msg, resp->rwqe_valid,
		resp->done, resp->done_psn, resp->early.nr, resp->rsrc_pending,
	};

	sim->digest = jhash(state, sizeof(state), sim->digest);
}

static void end(struct sim *sim, unsigned int i, struct roe_ctx *ctx)
	__releases(&sim->side[i].qp->lock)
{
	if (sim->compared)
		digest(sim, sim->side[i].qp);
	sim->side[i].events |= ctx->events;
	spin_unlock(&sim->side[i].qp->lock);
	rcu_read_unlock();
	local_bh_enable();
}

static void dispatch(struct sim *sim, unsigned int i, struct roe_ctx *ctx,
		     const struct roe_rx_row *row)
{
	unsigned int k;

	if (!sim->alone) {
		roe_qp_dispatch_row(sim->side[i].qp, ctx, row);
		return;
	}
	for (k = 0; k < row->n; k++)
		roe_qp_dispatch(sim->side[i].qp, ctx, roe_rx_at(row, k));
}

static bool invalidates(const struct roe_txb *txb)
{
	unsigned int i;

	for (i = 0; i < txb->n; i++)
		if (roe_opcode(txb->pkt[i].p.opcode)->flags & ROE_F_IETH)
			return true;
	return false;
}

/* As direct.c does it: the descriptors themselves arrive, in no time. */
static void hand_over(struct sim *sim, unsigned int i)
{
	struct roe_ctx ctx;

	sim->sent[i] += sim->txb->n;
	if (sim->txb->nr_mrs && invalidates(sim->txb))
		sim->wrong = "an invalidation in a burst that holds MRs";
	roe_mr_let_go(sim->txb);
	begin(sim, 1 - i, &ctx);
	ctx.direct = true;
	ctx.fresh = sim->txb->fresh;
	roe_qp_dispatch_direct(sim->side[1 - i].qp, &ctx, sim->txb);
	end(sim, 1 - i, &ctx);
	roe_txb_reset(sim->txb);
}

static void digest_pkt(struct sim *sim, const struct roe_pkt *p)
{
	const u32 sent[] = { p->opcode, p->psn, p->ackreq, p->se, p->len, p->pkey, p->qpn };

	sim->digest = jhash(sent, sizeof(sent), sim->digest);
}

/* As frame.c does it: from the pieces, if it was not copied before. */
static void copy_payload(u8 *dst, const struct roe_tx_pkt *tx)
{
	unsigned int i;

	if (!tx->rx.nvec)
		memcpy(dst, roe_tx_payload(tx), min_t(u32, tx->p.len, SIM_MTU));
	for (i = 0; i < tx->rx.nvec; i++) {
		memcpy(dst, tx->rx.vec[i].iov_base, tx->rx.vec[i].iov_len);
		dst += tx->rx.vec[i].iov_len;
	}
}

/* Is packet @k of the burst in a train, and not among its first that arrive? */
static bool train_lost(struct sim *sim, unsigned int i, unsigned int k)
{
	const struct roe_frame_limits limits = {
		.bytes = 65000,
		.segs = sim->side[i].qp->path.alone ? 1 : 64,
	};
	unsigned int n, first;

	if (!sim->no_trains)
		return false;
	for (first = 0; ; first += n) {
		n = roe_frame_fit(&sim->txb->pkt[first], sim->txb->n - first, &limits);
		if (k < first + n)
			return n > 1 && k >= first + sim->kept;
	}
}

static void take_burst(struct sim *sim, unsigned int i)
{
	unsigned int k;

	for (k = 0; k < sim->txb->n; k++) {
		const struct roe_tx_pkt *tx = &sim->txb->pkt[k];
		struct sim_pkt *pkt = get_pkt(sim);

		if (!pkt)
			break;
		pkt->rx.p = tx->p;
		pkt->rx.ce = happens(sim, sim->mark);
		pkt->to = 1 - i;
		if (sim->compared)
			digest_pkt(sim, &tx->p);
		copy_payload(pkt->data, tx);
		set_payload(pkt);
		sim->sent[i]++;
		sim->again[i] += tx->again;
		if (train_lost(sim, i, k))
			sim_put(sim, pkt);
		else
			transmit(sim, pkt);
	}
	roe_mr_return(sim->txb);
	roe_txb_reset(sim->txb);
}

bool sim_round(struct sim *sim, unsigned int i, bool *again)
{
	struct roe_ctx ctx;
	bool any, more;

	*again = false;
	begin(sim, i, &ctx);
	/* as in the driver: roe_qp_transmit() */
	if (!roe_qp_has_work(sim->side[i].qp)) {
		end(sim, i, &ctx);
		sim->side[i].idle = true;
		return false;
	}
	sim->txb->direct = roe_direct_way(sim->side[i].qp, &ctx, happens(sim, sim->direct));
	sim->txb->later = !sim->alone;
	sim->txb->fresh = roe_requester_at_una(sim->side[i].qp);
	sim->side[i].qp->lent = true;
	more = roe_qp_emit(sim->side[i].qp, &ctx, sim->txb);
	sim->side[i].qp->resp.nak_leaves = false;
	end(sim, i, &ctx);
	any = sim->txb->n;
	*again = more && (sim->txb->n == ROE_TXB_PKTS || ctx.answers_only || ctx.requests_only);
	if (sim->txb->direct)
		hand_over(sim, i);
	else
		take_burst(sim, i);
	begin(sim, i, &ctx);
	roe_complete_returned(sim->side[i].qp, &ctx);
	end(sim, i, &ctx);
	/* as in the driver: it would not come back by itself */
	sim->side[i].idle = !more;
	return any;
}

bool sim_emit(struct sim *sim, unsigned int i)
{
	bool any = false, again;

	do
		any |= sim_round(sim, i, &again);
	while (again);
	return any;
}

void sim_receive(struct sim *sim, unsigned int i, const struct roe_rx_pkt *rx)
{
	struct roe_ctx ctx;

	begin(sim, i, &ctx);
	roe_qp_dispatch(sim->side[i].qp, &ctx, rx);
	if (sim->forget)
		roe_early_purge(&sim->side[i].qp->resp.early);
	end(sim, i, &ctx);
}

/* @n packets of sim->rx, in one run. */
static void receive_batch(struct sim *sim, unsigned int i, unsigned int n)
{
	struct roe_rx_row row = { .first = sim->rx, .stride = sizeof(sim->rx[0]), .n = n };
	struct roe_ctx ctx;

	begin(sim, i, &ctx);
	dispatch(sim, i, &ctx, &row);
	if (sim->forget)
		roe_early_purge(&sim->side[i].qp->resp.early);
	end(sim, i, &ctx);
}

/* The first packet on the wire, and with it what follows for the same side. */
static void arrive(struct sim *sim)
{
	unsigned int i, n = 0, max = sim->batch ? 1 + random_below(sim, sim->batch) : 1;
	struct sim_pkt *pkt, *next;
	LIST_HEAD(batch);

	list_for_each_entry_safe(pkt, next, &sim->wire, link) {
		if (n && pkt->to != i)
			break;
		i = pkt->to;
		sim->now = max(sim->now, pkt->at);
		sim->rx[n++] = pkt->rx;
		list_move_tail(&pkt->link, &batch);
		if (n == max)
			break;
	}
	receive_batch(sim, i, n);
	list_for_each_entry_safe(pkt, next, &batch, link) {
		list_del(&pkt->link);
		sim_put(sim, pkt);
	}
}

void sim_timer(struct sim *sim, unsigned int i)
{
	struct roe_qp *qp = sim->side[i].qp;
	struct roe_ctx ctx;
	u64 next;

	begin(sim, i, &ctx);
	next = roe_timer_next(qp);
	if (roe_qp_has_timer(qp) && next && next <= sim->now)
		roe_timer_run(qp, &ctx);
	end(sim, i, &ctx);
}

struct sim_pkt *sim_take(struct sim *sim)
{
	struct sim_pkt *pkt = list_first_entry_or_null(&sim->wire, struct sim_pkt, link);

	if (pkt)
		list_del(&pkt->link);
	return pkt;
}

static void post_late(struct sim *sim)
{
	unsigned int i;

	for (i = 0; i < 2; i++)
		if (sim->side[i].late) {
			sim->side[i].late--;
			rq_of(&sim->side[i])->prod++;
		}
}

/* To the next timer; false if there is none. */
static bool pass_time(struct sim *sim)
{
	u64 a = roe_timer_next(sim->side[0].qp);
	u64 b = roe_timer_next(sim->side[1].qp);
	u64 next = a && (!b || a < b) ? a : b;

	if (!next)
		return false;
	sim->now = max(sim->now, next);
	post_late(sim);
	sim_timer(sim, 0);
	sim_timer(sim, 1);
	return true;
}

/* --- on-demand memory -------------------------------------------------------- */

static unsigned long first_page(const struct sim_side *side)
{
	return (uintptr_t)side->src >> PAGE_SHIFT;
}

#define SIM_PAGES	(4 * SIM_REGION / PAGE_SIZE + 1)

static void page_out(struct sim_side *side, unsigned long first, unsigned long last)
{
	struct page *written[ROE_ODP_BATCH];
	unsigned int n, nwritten;

	do {
		xa_lock_bh(&side->odp.pages);
		n = roe_odp_take(&side->odp, first, last, written, &nwritten);
		xa_unlock_bh(&side->odp.pages);
		while (nwritten)
			put_page(written[--nwritten]);
	} while (n == ROE_ODP_BATCH);
}

static void page_in(struct sim_side *side, unsigned long index, bool write)
{
	void *addr = (void *)(index << PAGE_SHIFT);
	struct page *page = is_vmalloc_addr(addr) ? vmalloc_to_page(addr) : virt_to_page(addr);

	xa_lock_bh(&side->odp.pages);
	roe_odp_set(&side->odp, index, page, write);
	xa_unlock_bh(&side->odp.pages);
}

static void set_on_demand(struct sim_side *side)
{
	roe_odp_init(&side->odp);
	side->mr.odp = &side->odp;
	side->mr.base = side->mr.iova;
	side->mr.type = ROE_MR_ODP;
}

void sim_on_demand(struct sim *sim)
{
	set_on_demand(&sim->side[0]);
	set_on_demand(&sim->side[1]);
}

static void evict(struct sim *sim)
{
	struct sim_side *side = &sim->side[random_below(sim, 2)];
	unsigned long at = first_page(side) + random_below(sim, SIM_PAGES);

	if (random_below(sim, 4))
		page_out(side, at, at);
	else
		page_out(side, 0, ULONG_MAX);
}

/* What a worker does; as if it took no time. */
static bool serve(struct sim *sim, unsigned int i, struct roe_fault *fault)
{
	struct roe_ctx ctx;

	if (!fault->waiting || fault->starved)
		return false;
	if (!sim->page_err)
		page_in(&sim->side[i], fault->page, fault->write);
	begin(sim, i, &ctx);
	roe_fault_done(sim->side[i].qp, &ctx, fault, sim->page_err);
	end(sim, i, &ctx);
	if (sim->page_errs && !--sim->page_errs)
		sim->page_err = 0;
	return true;
}

static bool serve_faults(struct sim *sim)
{
	bool any = false;
	unsigned int i;

	for (i = 0; i < 2; i++) {
		any |= serve(sim, i, &sim->side[i].qp->req.fault);
		any |= serve(sim, i, &sim->side[i].qp->resp.fault);
		any |= serve(sim, i, &sim->side[i].qp->resp.read_fault);
	}
	return any;
}

static bool emit_unless_idle(struct sim *sim, unsigned int i)
{
	/* what leaves no packet is done in parts */
	return !sim->side[i].idle && (sim_emit(sim, i) || !sim->side[i].idle);
}

bool sim_run(struct sim *sim)
{
	unsigned int step;

	/* posted meanwhile */
	sim->side[0].idle = false;
	sim->side[1].idle = false;
	for (step = 0; step < SIM_STEPS; step++) {
		bool moved = false;

		if (happens(sim, sim->evict))
			evict(sim);
		if (!sim->lazy || list_empty(&sim->wire) || !random_below(sim, 4)) {
			moved = emit_unless_idle(sim, 0);
			moved |= emit_unless_idle(sim, 1);
		}
		if (!list_empty(&sim->wire)) {
			arrive(sim);
			if (sim->side[0].mr.odp && !random_below(sim, 8))
				serve_faults(sim);
		} else if (sim->nheld) {
			release(sim);
		} else if (!moved && !serve_faults(sim) && !pass_time(sim)) {
			/* what went directly left nothing on the wire, but had an answer */
			return true;
		}
	}
	return false;
}

/* --- work requests --------------------------------------------------------- */

bool sim_deepen(struct sim *sim, unsigned int i, u32 wrs)
{
	struct sim_side *side = &sim->side[i];
	struct roe_sq *sq = &side->qp->sq;

	kvfree(sq->slots);
	sq->mask = roundup_pow_of_two(wrs + 1) - 1;
	sq->max_wr = sq->mask;
	sq->slots = kvcalloc(sq->mask + 1, BIT(sq->log2), GFP_KERNEL);
	roe_cq_exit(&side->scq);
	memset(&side->scq, 0, sizeof(side->scq));
	return !roe_cq_init_kernel(&side->scq, wrs) && sq->slots;
}

struct roe_swqe *sim_post_raw(struct sim *sim, unsigned int i, const struct ib_send_wr *wr)
{
	struct roe_sq *sq = &sim->side[i].qp->sq;
	struct roe_swqe *wqe = roe_sq_slot(sq, sq->prod);

	if (roe_wqe_from_wr(sim->side[i].qp, wqe, wr)) {
		KUNIT_FAIL(sim->test, "work request refused");
		return wqe;
	}
	sq->prod++;
	return wqe;
}

static void want_data(struct sim_side *side, const u8 *is, const u8 *want, u32 len)
{
	side->data[side->ndata++] = (struct sim_data) { .is = is, .want = want, .len = len };
}

static void want_send(struct sim_side *side, u64 wr_id, u32 len)
{
	side->swant[side->nswant++] = (struct sim_want) { .wr_id = wr_id, .len = len };
}

/* A message that takes a receive WQE of @side: the next one, in order. */
static void want_recv(struct sim *sim, struct sim_side *side, const u8 *want, u32 len,
		      __be32 imm)
{
	unsigned int n = side->nrwant++;

	side->rwant[n] = (struct sim_want) { .wr_id = n, .len = len, .imm = imm };
	if (want)
		want_data(side, side->rcv + n * sim->slot, want, len);
}

void sim_recv(struct sim *sim, unsigned int i, u32 len)
{
	struct sim_side *side = &sim->side[i];
	struct roe_rq *rq = rq_of(side);
	unsigned int n = side->recvs++;
	struct roe_rwqe *rwqe = &rq->slots[n & rq->mask];
	u8 *buf = side->rcv + n * sim->slot;

	rwqe->wr_id = n;
	rwqe->length = len;
	rwqe->num_sge = sim->whole ? 1 : 2;
	rwqe->sge[0] = (struct roe_sge) { (uintptr_t)buf, sim->whole ? len : len / 2,
					  side->mr.key };
	rwqe->sge[1] = (struct roe_sge) { (uintptr_t)buf + len / 2, len - len / 2, side->mr.key };
	if (!side->late)
		rq->prod++;
	else
		side->late++;
}

static void post_atomic(struct sim *sim, unsigned int i, struct ib_atomic_wr *wr, unsigned int n)
{
	struct sim_side *side = &sim->side[i], *peer = &sim->side[1 - i];
	u64 add = 1 + n * 0x100000001ull;

	wr->remote_addr = (uintptr_t)peer->word;
	wr->rkey = peer->mr.key;
	side->result_want[n] = peer->model;
	/* results lie behind the word of this side, which has an MR */
	want_data(side, (u8 *)(side->word + 1 + n), (u8 *)&side->result_want[n], sizeof(u64));
	if (wr->wr.opcode == IB_WR_ATOMIC_FETCH_AND_ADD) {
		wr->compare_add = add;
		peer->model += add;
	} else {
		/* every third fails to match */
		wr->compare_add = peer->model + (n % 3 == 2);
		wr->swap = peer->model * 3 + add;
		if (n % 3 != 2)
			peer->model = wr->swap;
	}
}

static void expect_outcome(struct sim *sim, unsigned int i, const struct ib_send_wr *wr,
			   unsigned int n, u32 len)
{
	struct sim_side *side = &sim->side[i], *peer = &sim->side[1 - i];
	u32 off = n * sim->slot;

	switch (wr->opcode) {
	case IB_WR_RDMA_WRITE_WITH_IMM:
		want_recv(sim, peer, NULL, len, wr->ex.imm_data);
		fallthrough;
	case IB_WR_RDMA_WRITE:
		want_data(peer, peer->dst + off, side->src + off, len);
		break;
	case IB_WR_RDMA_READ:
		want_data(side, side->got + off, peer->src + off, len);
		break;
	case IB_WR_SEND_WITH_IMM:
		want_recv(sim, peer, side->src + off, len, wr->ex.imm_data);
		break;
	case IB_WR_SEND:
		want_recv(sim, peer, side->src + off, len, 0);
		break;
	case IB_WR_SEND_WITH_INV:
		want_recv(sim, peer, side->src + off, len,
			  (__force __be32)wr->ex.invalidate_rkey);
		break;
	default:
		break;
	}
	if (wr->send_flags & IB_SEND_SIGNALED)
		want_send(side, n, len);
}

static void fill_wr(struct sim *sim, unsigned int i, struct ib_rdma_wr *wr, struct ib_sge *sge,
		    u32 len)
{
	struct sim_side *side = &sim->side[i], *peer = &sim->side[1 - i];
	u32 off = wr->wr.wr_id * sim->slot;
	u8 *local = wr->wr.opcode == IB_WR_RDMA_READ ? side->got : side->src;

	/* uneven pieces */
	sge[0] = (struct ib_sge) { (uintptr_t)local + off, sim->whole ? len : len / 3,
				   side->mr.key };
	sge[1] = (struct ib_sge) { sge[0].addr + len / 3, len - len / 3, side->mr.key };
	/* a registered fast MR is what the next message is sent from */
	if (side->use_fast && local == side->src)
		sge[1].lkey = side->fast.key;
	wr->wr.sg_list = sge;
	wr->wr.num_sge = sim->whole ? 1 : 2;
	wr->remote_addr = (uintptr_t)(local == side->src ? peer->dst : peer->src) + off;
	wr->rkey = peer->mr.key;
	if (wr->wr.opcode == IB_WR_SEND_WITH_INV)
		wr->wr.ex.invalidate_rkey = peer->fast.key;
	else
		wr->wr.ex.imm_data = cpu_to_be32(0xabc00000 + wr->wr.wr_id);
}

/* ATOMIC WRITE and FLUSH, for which kernel users have no work request. */
static void post_place(struct sim *sim, unsigned int i, enum ib_wr_opcode op, int flags)
{
	struct sim_side *side = &sim->side[i], *peer = &sim->side[1 - i];
	struct roe_sq *sq = &side->qp->sq;
	struct roe_swqe *wqe = roe_sq_slot(sq, sq->prod);
	u64 value = peer->model * 5 + side->wrs + 1;

	memset(wqe, 0, sizeof(*wqe));
	wqe->wr_id = side->wrs++;
	wqe->opcode = op;
	wqe->flags = flags;
	wqe->rkey = peer->mr.key;
	if (op == IB_WR_ATOMIC_WRITE) {
		wqe->length = sizeof(value);
		wqe->raddr = (uintptr_t)peer->word;
		memcpy(wqe->atomic_data, &value, sizeof(value));
		peer->model = value;
	} else {
		wqe->length = SIM_REGION;
		wqe->raddr = (uintptr_t)peer->dst;
		wqe->feth = ROE_FETH_PLT_GLOBAL;
	}
	if (flags & IB_SEND_SIGNALED)
		want_send(side, wqe->wr_id, wqe->length);
	sq->prod++;
}

static void post_special(struct sim *sim, unsigned int i, enum ib_wr_opcode op, int flags)
{
	struct sim_side *side = &sim->side[i];
	unsigned int n = side->wrs++;
	struct ib_sge sge = {
		(uintptr_t)(side->word + 1 + n), sizeof(u64), side->mr.key,
	};
	struct ib_atomic_wr atomic = {
		.wr = { .wr_id = n, .opcode = op, .send_flags = flags, .sg_list = &sge,
			.num_sge = 1 },
	};
	struct ib_reg_wr reg = {
		.wr = { .wr_id = n, .opcode = op, .send_flags = flags },
		.mr = &side->fast.ib,
		.key = side->fast.key,
		.access = ALL_ACCESS,
	};

	if (op == IB_WR_REG_MR) {
		side->use_fast = true;
		sim_post_raw(sim, i, &reg.wr);
	} else if (op == IB_WR_LOCAL_INV) {
		side->use_fast = false;
		reg.wr.ex.invalidate_rkey = side->fast.key;
		sim_post_raw(sim, i, &reg.wr);
	} else {
		post_atomic(sim, i, &atomic, n);
		sim_post_raw(sim, i, &atomic.wr);
	}
	expect_outcome(sim, i, &reg.wr, n,
		       op == IB_WR_REG_MR || op == IB_WR_LOCAL_INV ? 0 : sizeof(u64));
}

void sim_post(struct sim *sim, unsigned int i, enum ib_wr_opcode op, u32 len, int flags)
{
	struct ib_rdma_wr wr = { .wr = { .opcode = op, .send_flags = flags } };
	struct ib_sge sge[2];

	switch (op) {
	case IB_WR_REG_MR:
	case IB_WR_LOCAL_INV:
	case IB_WR_ATOMIC_CMP_AND_SWP:
	case IB_WR_ATOMIC_FETCH_AND_ADD:
		post_special(sim, i, op, flags);
		return;
	case IB_WR_ATOMIC_WRITE:
	case IB_WR_FLUSH:
		post_place(sim, i, op, flags);
		return;
	default:
		break;
	}
	wr.wr.wr_id = sim->side[i].wrs++;
	fill_wr(sim, i, &wr, sge, len);
	sim_post_raw(sim, i, &wr.wr);
	expect_outcome(sim, i, &wr.wr, wr.wr.wr_id, len);
}

/* --- the outcome ----------------------------------------------------------- */

static const char *check_cq(struct roe_cq *cq, const struct sim_want *want, unsigned int n,
			    bool recv)
{
	struct ib_wc wc;

	for (; n; n--, want++) {
		if (!roe_cq_poll(&cq->ib, 1, &wc))
			return recv ? "receive completion missing" : "send completion missing";
		if (wc.wr_id != want->wr_id)
			return recv ? "receive completion out of order" :
				      "send completion out of order";
		if (wc.status != want->status)
			return recv ? "receive status" : "send status";
		if (wc.byte_len != want->len)
			return recv ? "receive length" : "send length";
		if (recv && wc.ex.imm_data != want->imm)
			return "immediate or rkey";
	}
	return roe_cq_poll(&cq->ib, 1, &wc) ? "completion too many" : NULL;
}

static const char *check_side(struct sim *sim, struct sim_side *side)
{
	const char *wrong;
	unsigned int i;

	if (side->qp->state != IB_QPS_RTS)
		return "QP not in RTS";
	if (side->qp->sq.cons != side->qp->sq.prod || side->qp->req.una != side->qp->req.psn)
		return "work left";
	if (side->qp->req.rd_out || side->qp->resp.rsrc_pending || side->qp->resp.flush_nr)
		return "READ left";
	wrong = check_cq(&side->scq, side->swant, side->nswant, false) ?:
		check_cq(&side->rcq, side->rwant, side->nrwant, true);
	if (wrong)
		return wrong;
	for (i = 0; i < side->ndata; i++) {
		const struct sim_data *d = &side->data[i];

		if (memcmp(d->is, d->want, d->len))
			return "data";
		if (d->len != sizeof(u64) && d->len < sim->slot && d->is[d->len] != SIM_SECRET)
			return "data behind the end";
	}
	return *side->word == side->model ? NULL : "atomic executed twice or not";
}

const char *sim_check(struct sim *sim)
{
	return sim->wrong ?: check_side(sim, &sim->side[0]) ?: check_side(sim, &sim->side[1]);
}
