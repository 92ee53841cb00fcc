// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Scatter/gather lists: whatever the elements, the region behind each of them and the
 * place where a packet begins, the bytes are those of a flat copy, and no other byte is
 * touched. Seeds are printed.
 */
#include <kunit/test.h>
#include <linux/mm.h>
#include <linux/prandom.h>
#include <linux/random.h>
#include <linux/slab.h>
#include "../drivers/roe/copy.h"
#include "../drivers/roe/transport.h"

#define MAX_SGE		32
#define ELEM		256	/* bytes, longest element */
#define GAP		64	/* between two elements: nobody's */
#define AREA		(MAX_SGE * (ELEM + GAP))
#define MSG		(MAX_SGE * ELEM)
#define SECRET		0x5a
#define RUNS		200
#define SEED		0x736765ull

/* A list of random elements in two regions, one that lasts and one that may be revoked. */
struct fixture {
	struct rnd_state	rnd;
	struct roe_keys		keys;
	struct roe_mr		mr[2];
	struct roe_extent	ext[2];
	struct roe_qp		*qp;
	struct roe_swqe		*wqe;
	struct roe_ctx		ctx;
	struct roe_txb		*txb;
	u8			*area;	/* what both regions lie over */
	u8			*model;	/* what it should be */
	u8			*flat;	/* the message */
	u8			*got;
	struct roe_sge		sge[MAX_SGE];
	unsigned int		num;
	u32			len;	/* of the message */
};

static u32 below(struct fixture *f, u32 n)
{
	return prandom_u32_state(&f->rnd) % n;
}

static int add_mr(struct fixture *f, unsigned int i, enum roe_mr_type type)
{
	struct roe_mr *mr = &f->mr[i];

	mr->type = type;
	mr->state = ROE_MR_VALID;
	mr->ib.pd = f->qp->pd;
	mr->iova = (uintptr_t)f->area;
	mr->length = AREA;
	mr->access = IB_ACCESS_LOCAL_WRITE;
	mr->mem.ext = &f->ext[i];
	mr->mem.max = 1;
	spin_lock_init(&mr->lock);
	return roe_memory_add(&mr->mem, f->area, AREA) ?: roe_mr_publish(&f->keys, mr);
}

static int setup(struct kunit *test)
{
	struct fixture *f = kunit_kzalloc(test, sizeof(*f), GFP_KERNEL);

	if (!f)
		return -ENOMEM;
	test->priv = f;
	roe_keys_init(&f->keys);
	f->qp = kunit_kzalloc(test, sizeof(*f->qp), GFP_KERNEL);
	/* exactly: KASAN sees an element too many */
	f->wqe = kunit_kzalloc(test, sizeof(*f->wqe) + sizeof(f->sge), GFP_KERNEL);
	f->txb = kunit_kzalloc(test, sizeof(*f->txb), GFP_KERNEL);
	f->area = kunit_kzalloc(test, AREA, GFP_KERNEL);
	f->model = kunit_kzalloc(test, AREA, GFP_KERNEL);
	f->flat = kunit_kzalloc(test, MSG, GFP_KERNEL);
	f->got = kunit_kzalloc(test, MSG, GFP_KERNEL);
	if (!f->qp || !f->wqe || !f->txb || !f->area || !f->model || !f->flat || !f->got)
		return -ENOMEM;
	spin_lock_init(&f->qp->lock);
	f->qp->type = IB_QPT_RC;
	f->qp->state = IB_QPS_RTS;
	f->qp->keys = &f->keys;
	f->qp->pd = (struct ib_pd *)&f->keys;	/* only compared */
	return add_mr(f, 0, ROE_MR_USER) ?: add_mr(f, 1, ROE_MR_FAST);
}

static void teardown(struct kunit *test)
{
	struct fixture *f = test->priv;
	unsigned int i;

	if (!f)
		return;
	for (i = 0; i < ARRAY_SIZE(f->mr); i++)
		if (f->mr[i].keys)
			roe_mr_unpublish(&f->mr[i]);
	roe_keys_destroy(&f->keys);
	if (f->txb)
		roe_txb_free(f->txb);
}

static u8 *addr_of(const struct roe_sge *sge)
{
	return (u8 *)(uintptr_t)sge->addr;
}

/* Elements of any length, some of none, in any order; the message is what they hold. */
static void make_list(struct fixture *f)
{
	unsigned int i, pick;
	u32 slot[MAX_SGE];

	for (i = 0; i < MAX_SGE; i++)
		slot[i] = i;
	f->num = below(f, MAX_SGE + 1);
	f->len = 0;
	prandom_bytes_state(&f->rnd, f->area, AREA);
	memcpy(f->model, f->area, AREA);
	for (i = 0; i < f->num; i++) {
		struct roe_sge *sge = &f->sge[i];

		pick = i + below(f, MAX_SGE - i);
		swap(slot[i], slot[pick]);
		sge->len = below(f, 4) ? below(f, ELEM + 1) : 0;
		sge->addr = (uintptr_t)f->area + slot[i] * (ELEM + GAP) +
			    below(f, ELEM + 1 - sge->len);
		sge->lkey = f->mr[below(f, 2)].key;
		/* what is empty names anything */
		if (!sge->len && below(f, 2))
			*sge = (struct roe_sge){ .addr = U64_MAX, .lkey = 0xdead };
		else
			memcpy(f->flat + f->len, addr_of(sge), sge->len);
		f->len += sge->len;
	}
	f->wqe->num_sge = f->num;
	f->wqe->flags = 0;
	f->wqe->length = f->len;
	memcpy(f->wqe->sge, f->sge, sizeof(f->sge));
}

/* What a flat copy of [@off, @off + @len) of the message would have left in the area. */
static void model_write(struct fixture *f, u32 off, u32 len)
{
	unsigned int i;

	for (i = 0; len && i < f->num; i++) {
		const struct roe_sge *sge = &f->sge[i];
		u32 n;

		if (off >= sge->len) {
			off -= sge->len;
			continue;
		}
		n = min(len, sge->len - off);
		memcpy(f->model + (addr_of(sge) - f->area) + off, f->got, n);
		memmove(f->got, f->got + n, len - n);
		len -= n;
		off = 0;
	}
}

/* One run of the QP. */
static void begin(struct fixture *f)
	__acquires(&f->qp->lock)
{
	memset(&f->ctx, 0, sizeof(f->ctx));
	local_bh_disable();
	rcu_read_lock();
	spin_lock(&f->qp->lock);
}

static void end(struct fixture *f)
	__releases(&f->qp->lock)
{
	spin_unlock(&f->qp->lock);
	rcu_read_unlock();
	local_bh_enable();
}

/* Payload in a few pieces, as packets have it. */
static unsigned int cut(struct fixture *f, u8 *data, u32 len, struct kvec *vec)
{
	unsigned int n = 0;

	while (len && n < ROE_PKT_VECS - 1) {
		u32 part = below(f, len + 1);

		vec[n++] = (struct kvec){ data, part };
		data += part;
		len -= part;
	}
	vec[n++] = (struct kvec){ data, len };
	return n;
}

/* --- reading ----------------------------------------------------------------- */

static const char *read_once(struct fixture *f)
{
	u32 off = below(f, f->len + 1);
	u32 len = below(f, f->len - off + 1);

	memset(f->got, SECRET, MSG);
	if (!roe_sge_read(f->qp, f->wqe, off, f->got, len))
		return "refused";
	if (memcmp(f->got, f->flat + off, len))
		return "other bytes";
	if (len < MSG && f->got[len] != SECRET)
		return "too many bytes";
	if (roe_sge_read(f->qp, f->wqe, off, f->got, f->len - off + 1))
		return "more than there is";
	return NULL;
}

/* As the requester: packet by packet, the payload in place or copied. */
static const char *load_message(struct fixture *f, u32 mtu)
{
	u32 off = 0, i;

	roe_txb_reset(f->txb);
	while (off < f->len) {
		u32 len = min(mtu, f->len - off);
		struct roe_tx_pkt *pkt = roe_txb_room(f->txb) ?
			roe_txb_add(f->txb, ROE_OP_WRITE_MIDDLE, len) : NULL;
		u8 *to = f->got;

		if (!pkt) {
			roe_txb_reset(f->txb);
			continue;
		}
		if (!roe_sge_load(f->qp, &f->ctx, f->wqe, off, f->txb))
			return "packet refused";
		for (i = 0; i < pkt->rx.nvec; to += pkt->rx.vec[i++].iov_len)
			memcpy(to, pkt->rx.vec[i].iov_base, pkt->rx.vec[i].iov_len);
		if (pkt->rx.nvec && to != f->got + len)
			return "pieces of another length";
		if (memcmp(pkt->rx.nvec ? f->got : roe_tx_payload(pkt), f->flat + off, len))
			return "packet of other bytes";
		off += len;
	}
	roe_txb_reset(f->txb);
	return NULL;
}

/* Rows of packets: only what one element of a region has that lasts, or is lent. */
static const char *sources(struct fixture *f)
{
	u32 off = 0;

	while (off < f->len) {
		u32 len = f->len - off;
		u64 va;
		struct roe_mr *mr = roe_sge_source(f->qp, &f->ctx, f->wqe, f->txb, off, &len,
						   &va);

		if (!mr) {
			off++;
			continue;
		}
		if (mr != &f->mr[0] && !atomic_read(&mr->users))
			return "row of a region that may go";
		if (!len || len > f->len - off)
			return "row too long";
		if (memcmp((u8 *)(uintptr_t)va, f->flat + off, len))
			return "row of other bytes";
		off += len;
	}
	return NULL;
}

static const char *read_run(struct fixture *f)
{
	const char *wrong;

	make_list(f);
	f->txb->direct = below(f, 2);
	f->txb->later = below(f, 2);
	f->qp->sq.next = f->qp->sq.prod++;
	begin(f);
	wrong = roe_sge_check(f->qp, &f->ctx, f->wqe, 0) ? NULL : "list refused";
	wrong = wrong ?: read_once(f) ?: load_message(f, 1 + below(f, ELEM + 99)) ?: sources(f);
	if (!wrong && atomic_read(&f->mr[1].users) > roe_txb_lends(f->txb))
		wrong = "held more than once, or where nothing is lent";
	roe_mr_return(f->txb);
	end(f);
	if (!wrong && atomic_read(&f->mr[1].users))
		wrong = "still held";
	return wrong;
}

/* --- writing ----------------------------------------------------------------- */

enum role { REQUESTER, RESPONDER, ROLES };

static bool place(struct fixture *f, enum role as, u32 off, const struct kvec *vec, u32 len)
{
	if (as == REQUESTER)
		return roe_sge_write(f->qp, &f->ctx, f->wqe, off, vec, len);
	return off || len != f->len ? roe_sge_receive(f->qp, &f->ctx, off, vec, len) :
				      roe_sge_receive_only(f->qp, &f->ctx, vec, len);
}

/* Rows: as sources(). */
static const char *room(struct fixture *f, enum role as)
{
	u32 off;

	for (off = 1; off < f->len; off++) {
		u32 len = f->len - off;
		u64 va;
		struct roe_mr *mr = as == REQUESTER ?
			roe_sge_target(f->qp, &f->ctx, f->wqe, off, &len, &va) :
			roe_sge_room(f->qp, &f->ctx, off, &len, &va);

		if (mr && (mr != &f->mr[0] || len > f->len - off ||
			   memcmp((u8 *)(uintptr_t)va, f->flat + off, len)))
			return "row elsewhere";
	}
	return NULL;
}

static const char *write_message(struct fixture *f, enum role as, u32 mtu)
{
	struct kvec vec[ROE_PKT_VECS];
	u32 off = 0;

	while (off < f->len) {
		u32 len = min(mtu, f->len - off);

		prandom_bytes_state(&f->rnd, f->got, len);
		memcpy(f->flat + off, f->got, len);
		cut(f, f->flat + off, len, vec);
		if (!place(f, as, off, vec, len))
			return "packet refused";
		model_write(f, off, len);
		off += len;
	}
	if (memcmp(f->area, f->model, AREA))
		return "other memory";
	return room(f, as);
}

/*
 * A byte more than the list has room for: what is refused writes nothing behind it. Often from the
 * second byte on, where it is as long as the message.
 */
static const char *write_too_much(struct fixture *f, enum role as)
{
	u32 off = below(f, 2) ? below(f, f->len + 1) : min(f->len, 1u), len = f->len - off + 1;
	struct kvec vec = { f->got, len };

	prandom_bytes_state(&f->rnd, f->got, len);
	if (place(f, as, off, &vec, len))
		return "more than there is room for";
	model_write(f, off, len - 1);
	return memcmp(f->area, f->model, AREA) ? "memory behind the list" : NULL;
}

static const char *write_run(struct fixture *f)
{
	enum role as = below(f, ROLES);
	struct roe_rwqe *rwqe = &f->qp->resp.rwqe;
	const char *wrong;

	make_list(f);
	f->qp->sq.cons = f->qp->sq.prod++;
	rwqe->num_sge = f->num;
	rwqe->length = f->len;
	memcpy(rwqe->sge, f->sge, sizeof(f->sge));
	begin(f);
	wrong = roe_sge_check(f->qp, &f->ctx, f->wqe, IB_ACCESS_LOCAL_WRITE) ? NULL :
									       "list refused";
	wrong = wrong ?: write_message(f, as, 1 + below(f, ELEM + 99)) ?: write_too_much(f, as);
	end(f);
	return wrong;
}

static void runs(struct kunit *test, const char *(*run)(struct fixture *f), u64 seed)
{
	unsigned int i;

	for (i = 0; i < RUNS; i++) {
		struct fixture *f = test->priv;
		const char *wrong;

		prandom_seed_state(&f->rnd, seed + i);
		wrong = run(f);
		KUNIT_ASSERT_NULL_MSG(test, wrong, "seed %#llx: %s", seed + i, wrong);
	}
	kunit_info(test, "%u lists from seed %#llx\n", i, seed);
}

static void sge_read(struct kunit *test)
{
	runs(test, read_run, SEED);
	runs(test, read_run, get_random_u32());
}

static void sge_write(struct kunit *test)
{
	runs(test, write_run, SEED);
	runs(test, write_run, get_random_u32());
}

/* --- what is refused --------------------------------------------------------- */

/* Three elements of 100 bytes; the middle one is the test's. */
static struct roe_sge *three(struct fixture *f)
{
	unsigned int i;

	f->num = 3;
	f->len = 300;
	for (i = 0; i < f->num; i++)
		f->wqe->sge[i] = (struct roe_sge){
			(uintptr_t)f->area + i * (ELEM + GAP), 100, f->mr[0].key,
		};
	f->wqe->num_sge = f->num;
	f->wqe->length = f->len;
	f->wqe->flags = 0;
	f->qp->sq.next = ++f->qp->sq.prod;
	f->qp->sq.cons = f->qp->sq.prod;
	return &f->wqe->sge[1];
}

static void expect_refused(struct kunit *test, const char *what, int access)
{
	struct fixture *f = test->priv;
	struct kvec vec = { f->flat, 300 };

	begin(f);
	KUNIT_EXPECT_FALSE_MSG(test, roe_sge_check(f->qp, &f->ctx, f->wqe, access), "%s", what);
	if (access) {
		KUNIT_EXPECT_FALSE_MSG(test, roe_sge_write(f->qp, &f->ctx, f->wqe, 0, &vec, 300),
				       "%s", what);
		KUNIT_EXPECT_TRUE_MSG(test, roe_sge_write(f->qp, &f->ctx, f->wqe, 0, &vec, 100),
				      "%s: the first element", what);
	} else {
		KUNIT_EXPECT_FALSE_MSG(test, roe_sge_read(f->qp, f->wqe, 0, f->got, 300), "%s",
				       what);
		KUNIT_EXPECT_TRUE_MSG(test, roe_sge_read(f->qp, f->wqe, 0, f->got, 100),
				      "%s: the first element", what);
	}
	end(f);
}

static void sge_refused(struct kunit *test)
{
	struct fixture *f = test->priv;

	three(f)->lkey = 0;
	expect_refused(test, "no key", 0);
	three(f)->lkey ^= 1;
	expect_refused(test, "key byte", IB_ACCESS_LOCAL_WRITE);
	three(f)->addr = (uintptr_t)f->area + AREA - 99;
	expect_refused(test, "end of the region", 0);
	expect_refused(test, "end of the region", IB_ACCESS_LOCAL_WRITE);
	three(f)->addr = U64_MAX - 50;
	expect_refused(test, "end of all addresses", 0);
	f->mr[1].access = 0;
	three(f)->lkey = f->mr[1].key;
	expect_refused(test, "may not be written", IB_ACCESS_LOCAL_WRITE);
	f->mr[1].access = IB_ACCESS_LOCAL_WRITE;
	f->mr[1].ib.pd = (struct ib_pd *)f;
	three(f)->lkey = f->mr[1].key;
	expect_refused(test, "another protection domain", 0);
	f->mr[1].ib.pd = f->qp->pd;
	roe_mr_revoke(&f->mr[1], ROE_MR_FREE);
	three(f)->lkey = f->mr[1].key;
	expect_refused(test, "invalidated", 0);
}

/* What was proven for one message says nothing about the next, which names other memory. */
static void sge_memo(struct kunit *test)
{
	struct fixture *f = test->priv;
	struct kvec vec = { f->flat, 50 };

	memset(f->flat, 1, 100);
	three(f);
	begin(f);
	KUNIT_EXPECT_TRUE(test, roe_sge_write(f->qp, &f->ctx, f->wqe, 0, &vec, 50));
	KUNIT_EXPECT_PTR_EQ(test, f->ctx.brought.mr, &f->mr[0]);
	three(f);
	f->wqe->sge[0].addr += 200;
	KUNIT_EXPECT_TRUE(test, roe_sge_write(f->qp, &f->ctx, f->wqe, 0, &vec, 50));
	KUNIT_EXPECT_EQ(test, f->area[200], 1);
	KUNIT_EXPECT_EQ(test, f->area[250], 0);
	three(f);
	f->wqe->sge[0].lkey = 0;
	KUNIT_EXPECT_FALSE(test, roe_sge_write(f->qp, &f->ctx, f->wqe, 0, &vec, 50));
	end(f);
}

static struct roe_tx_pkt *load_one(struct fixture *f, u32 off)
{
	struct roe_tx_pkt *pkt = roe_txb_add(f->txb, ROE_OP_WRITE_MIDDLE, 10);

	return pkt && roe_sge_load(f->qp, &f->ctx, f->wqe, off, f->txb) ? pkt : NULL;
}

/* What may be revoked is lent to a burst, once for all packets of it. */
static void sge_lent(struct kunit *test)
{
	struct fixture *f = test->priv;
	struct roe_mr *fast = &f->mr[1];
	struct roe_tx_pkt *pkt;
	unsigned int i;

	three(f)->lkey = fast->key;
	f->txb->later = true;
	begin(f);
	for (i = 0; i < 3; i++) {
		pkt = load_one(f, 100 + 10 * i);
		KUNIT_EXPECT_TRUE(test, pkt && pkt->rx.nvec == 1 &&
				  pkt->rx.vec[0].iov_base == addr_of(&f->wqe->sge[1]) + 10 * i);
	}
	KUNIT_EXPECT_EQ(test, atomic_read(&fast->users), 1);
	roe_mr_return(f->txb);
	KUNIT_EXPECT_EQ(test, atomic_read(&fast->users), 0);
	roe_txb_reset(f->txb);
	end(f);
}

/*
 * A direct burst lets go of it before the receiver is locked. What was revoked before that holds
 * it again is gone, also where it is the same key again by then; and nothing of the kind is in a
 * burst with an invalidation.
 */
static void sge_lent_direct(struct kunit *test)
{
	struct fixture *f = test->priv;
	struct roe_mr *fast = &f->mr[1];
	struct roe_tx_pkt *pkt;

	three(f)->lkey = fast->key;
	f->txb->direct = true;
	begin(f);
	pkt = load_one(f, 100);
	KUNIT_EXPECT_TRUE(test, pkt && pkt->rx.nvec == 1 &&
			  pkt->rx.vec[0].iov_base == addr_of(&f->wqe->sge[1]));
	KUNIT_EXPECT_EQ(test, atomic_read(&fast->users), 1);
	roe_mr_let_go(f->txb);
	KUNIT_EXPECT_EQ(test, atomic_read(&fast->users), 0);
	KUNIT_EXPECT_TRUE(test, roe_mr_hold_again(f->txb));
	KUNIT_EXPECT_EQ(test, atomic_read(&fast->users), 1);
	roe_mr_let_go(f->txb);
	roe_mr_revoke(fast, ROE_MR_FREE);
	fast->state = ROE_MR_VALID;
	KUNIT_EXPECT_FALSE(test, roe_mr_hold_again(f->txb));
	KUNIT_EXPECT_EQ(test, atomic_read(&fast->users), 0);
	roe_txb_reset(f->txb);
	end(f);

	begin(f);
	f->txb->invalidates = true;
	pkt = load_one(f, 100);
	KUNIT_EXPECT_TRUE(test, pkt && pkt->rx.nvec == 1 &&
			  pkt->rx.vec[0].iov_base == roe_tx_payload(pkt));
	KUNIT_EXPECT_EQ(test, atomic_read(&fast->users), 0);
	roe_txb_reset(f->txb);
	end(f);
}

/* A burst takes of a few of them what stays there; of the others it copies. */
static void sge_lent_many(struct kunit *test)
{
	struct fixture *f = test->priv;
	struct roe_mr *many = kunit_kcalloc(test, ROE_TXB_MRS + 1, sizeof(*many), GFP_KERNEL);
	unsigned int i;

	KUNIT_ASSERT_NOT_NULL(test, many);
	f->txb->later = true;
	rcu_read_lock();
	for (i = 0; i <= ROE_TXB_MRS; i++) {
		struct roe_mr *mr = &many[i];

		*mr = f->mr[1];
		KUNIT_EXPECT_TRUE(test, roe_mr_lend(&f->mr[0], f->txb));
		preempt_disable();
		atomic_inc(&mr->users);
		if (!roe_mr_lend(mr, f->txb))
			roe_mr_put(mr);
		KUNIT_EXPECT_EQ(test, atomic_read(&mr->users), i < ROE_TXB_MRS);
	}
	roe_mr_return(f->txb);
	for (i = 0; i <= ROE_TXB_MRS; i++)
		KUNIT_EXPECT_EQ(test, atomic_read(&many[i].users), 0);
	rcu_read_unlock();
}

#define COPY_LEN	(2 * 1024 + 40)
#define COPY_EDGE	16

/* Every length and alignment, and nothing beside it. */
static void copy_lengths(struct kunit *test)
{
	void (*const copies[])(void *, const void *, size_t) = { roe_copy, roe_copy_out };
	u8 *src = kunit_kzalloc(test, COPY_LEN + COPY_EDGE, GFP_KERNEL);
	u8 *dst = kunit_kzalloc(test, COPY_LEN + 3 * COPY_EDGE, GFP_KERNEL);
	unsigned int i, len;

	KUNIT_ASSERT_TRUE(test, src && dst);
	for (i = 0; i < COPY_LEN + COPY_EDGE; i++)
		src[i] = 1 + i * 7 % 251;
	for (len = 0; len <= COPY_LEN; len += len < 160 ? 1 : 89)
		for (i = 0; i < 2 * 8 * 8; i++) {
			u8 *to = dst + COPY_EDGE + i / 8 % 8, *from = src + i % 8;

			memset(dst, 0, COPY_LEN + 3 * COPY_EDGE);
			copies[i / 64](to, from, len);
			KUNIT_ASSERT_EQ_MSG(test, memcmp(to, from, len), 0, "%u, %u", len, i);
			KUNIT_ASSERT_NULL_MSG(test, memchr_inv(dst, 0, to - dst), "%u, %u", len, i);
			KUNIT_ASSERT_NULL_MSG(test, memchr_inv(to + len, 0, COPY_EDGE), "%u, %u",
					      len, i);
		}
}

static struct kunit_case cases[] = {
	KUNIT_CASE(copy_lengths),
	KUNIT_CASE(sge_read),
	KUNIT_CASE(sge_write),
	KUNIT_CASE(sge_refused),
	KUNIT_CASE(sge_memo),
	KUNIT_CASE(sge_lent),
	KUNIT_CASE(sge_lent_direct),
	KUNIT_CASE(sge_lent_many),
	{}
};

static struct kunit_suite suite = {
	.name = "roe_sge",
	.init = setup,
	.exit = teardown,
	.test_cases = cases,
};

kunit_test_suite(suite);
