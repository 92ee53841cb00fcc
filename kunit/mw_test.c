// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Memory windows as tables: what may be bound, who may use it; and keys that
 * are taken back while others use them.
 */
#include <kunit/test.h>
#include <linux/kthread.h>
#include <linux/random.h>
#include "../drivers/roe/mw.h"
#include "../drivers/roe/odp.h"
#include "../drivers/roe/qp.h"

#define IOVA	0x7f0000000800ULL
#define LENGTH	0x1000ULL
#define START	(IOVA + 0x100)	/* of the window */
#define LEN	0x200ULL
#define REMOTE	ROE_MR_REMOTE_ACCESS
#define LOCAL	(IB_ACCESS_LOCAL_WRITE | IB_ACCESS_MW_BIND)

struct mw_test {
	struct roe_keys	keys;
	struct ib_pd	pd, other_pd;
	struct roe_qp	*qp, *sibling, *stranger;	/* PD: same, same, other */
	struct roe_mr	*mr;
	struct roe_window *mw[2];			/* type 1, type 2B */
	struct roe_swqe	wqe;				/* a good bind */
	u8		mem[LENGTH];
};

static struct roe_qp *make_qp(struct kunit *test, struct ib_pd *pd, u64 id)
{
	struct mw_test *t = test->priv;
	struct roe_qp *qp = kunit_kzalloc(test, sizeof(*qp), GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, qp);
	qp->keys = &t->keys;
	qp->pd = pd;
	qp->id = id;
	return qp;
}

static struct roe_mr *make_mr(struct kunit *test, enum roe_mr_type type)
{
	struct mw_test *t = test->priv;
	struct roe_mr *mr = kunit_kzalloc(test, sizeof(*mr), GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, mr);
	mr->mem.ext = kunit_kzalloc(test, sizeof(*mr->mem.ext), GFP_KERNEL);
	KUNIT_ASSERT_NOT_NULL(test, mr->mem.ext);
	mr->mem.max = 1;
	mr->type = type;
	mr->state = type == ROE_MR_FAST ? ROE_MR_FREE : ROE_MR_VALID;
	mr->access = LOCAL;
	mr->iova = IOVA;
	mr->length = LENGTH;
	mr->ib.iova = IOVA;
	mr->ib.length = LENGTH;
	mr->ib.pd = &t->pd;
	KUNIT_ASSERT_EQ(test, roe_memory_add(&mr->mem, t->mem, LENGTH), 0);
	KUNIT_ASSERT_EQ(test, roe_mr_publish(&t->keys, mr), 0);
	return mr;
}

static struct roe_window *make_mw(struct kunit *test, enum roe_mr_type type)
{
	struct mw_test *t = test->priv;
	struct roe_window *mw = kunit_kzalloc(test, sizeof(*mw), GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, mw);
	mw->view.type = type;
	mw->view.state = ROE_MR_FREE;
	mw->view.ib.pd = &t->pd;
	KUNIT_ASSERT_EQ(test, roe_mr_publish(&t->keys, &mw->view), 0);
	return mw;
}

static int mw_test_init(struct kunit *test)
{
	struct mw_test *t = kunit_kzalloc(test, sizeof(*t), GFP_KERNEL);

	if (!t)
		return -ENOMEM;
	roe_keys_init(&t->keys);
	test->priv = t;
	t->qp = make_qp(test, &t->pd, 1);
	t->sibling = make_qp(test, &t->pd, 2);
	t->stranger = make_qp(test, &t->other_pd, 3);
	t->mr = make_mr(test, ROE_MR_USER);
	t->mw[0] = make_mw(test, ROE_MR_WINDOW_1);
	t->mw[1] = make_mw(test, ROE_MR_WINDOW_2B);
	return 0;
}

static void mw_test_exit(struct kunit *test)
{
	struct mw_test *t = test->priv;

	if (t)
		roe_keys_destroy(&t->keys);
}

static int bind_on(struct mw_test *t, const struct roe_qp *qp)
{
	int err;

	rcu_read_lock_bh();
	err = roe_mw_bind(qp, &t->wqe);
	rcu_read_unlock_bh();
	return err;
}

/* The next request binds window @i under the key that follows. */
static void good_bind(struct mw_test *t, unsigned int i)
{
	u32 key = t->mw[i]->view.key;

	t->wqe = (struct roe_swqe) {
		.opcode = IB_WR_BIND_MW,
		.raddr = START,
		.rkey = (key & ~0xffu) | ((key + 1) & 0xff),
		.bind_len = LEN,
		.bind_lkey = t->mr->key,
		.bind_rkey = key,
		.bind_access = REMOTE,
	};
}

static bool allowed(struct roe_qp *qp, u32 key, int access, u64 va, u64 len)
{
	struct roe_mr *mr;

	rcu_read_lock_bh();
	mr = roe_mr_get_remote(qp, key, access, va, len);
	if (mr)
		roe_mr_put(mr);
	rcu_read_unlock_bh();
	return mr;
}

static int invalidate(const struct roe_qp *qp, u32 key)
{
	int err;

	rcu_read_lock_bh();
	err = roe_mr_invalidate(qp, key, true);
	rcu_read_unlock_bh();
	return err;
}

/* --- what may be bound ----------------------------------------------------- */

struct bind_case {
	const char	*name;
	bool		ok[2];		/* type 1, type 2B */
	int		mr_access;	/* 0: LOCAL */
	u64		addr, len;	/* added to the good ones */
	int		access;		/* 0: REMOTE */
	u32		rkey, lkey, old;	/* xor into the good ones */
	bool		stranger;
	enum roe_mr_type mr_type;
};

#define CASE_MR(type_, name_, t1, t2, ...)				\
	{ .name = (name_), .ok = { t1, t2 }, .mr_type = (type_), __VA_ARGS__ }
#define CASE(...)	CASE_MR(ROE_MR_USER, __VA_ARGS__)

static const struct bind_case bind_cases[] = {
	CASE("good", true, true, .lkey = 0),
	CASE("any key byte", true, true, .rkey = 0xa5),
	CASE("the same key", true, true, .rkey = 1),
	CASE("index and byte of another", true, true, .rkey = 0x80000102),
	CASE("index of another", true, true, .rkey = 0x100),
	CASE("old key: wrong byte", false, false, .old = 2),
	CASE("old key: wrong index", false, false, .old = 0x40000000),
	CASE("lkey: wrong byte", false, false, .lkey = 1),
	CASE("lkey: wrong index", false, false, .lkey = 0x70000000),
	CASE("QP of another PD", false, false, .stranger = true),
	CASE("MR without MW_BIND", false, false, .mr_access = IB_ACCESS_LOCAL_WRITE),
	CASE("MR without local write", false, false, .mr_access = IB_ACCESS_MW_BIND),
	CASE("the same, to read", true, true, .mr_access = IB_ACCESS_MW_BIND,
	     .access = IB_ACCESS_REMOTE_READ),
	CASE("the same, atomic", false, false, .mr_access = IB_ACCESS_MW_BIND,
	     .access = IB_ACCESS_REMOTE_ATOMIC),
	CASE("zero-based MR", false, false, .mr_access = LOCAL | IB_ZERO_BASED),
	CASE_MR(ROE_MR_FAST, "fast MR", false, false, .lkey = 0),
	CASE_MR(ROE_MR_DMA, "DMA MR", false, false, .lkey = 0),
	CASE_MR(ROE_MR_WINDOW_1, "window on a window", false, false, .lkey = 0),
	CASE("zero-based", false, true, .access = REMOTE | IB_ZERO_BASED),
	CASE("local write, which means nothing", true, true,
	     .access = REMOTE | IB_ACCESS_LOCAL_WRITE),
	CASE("MW_BIND, likewise", true, true, .access = REMOTE | IB_ACCESS_MW_BIND),
	CASE("on demand, likewise", true, true, .access = REMOTE | IB_ACCESS_ON_DEMAND),
	CASE("relaxed ordering, likewise", true, true,
	     .access = REMOTE | IB_ACCESS_RELAXED_ORDERING),
	CASE("bit 31", false, false, .access = REMOTE | BIT(31)),
	CASE("length 0", true, false, .len = 0 - LEN),
	CASE("to the end", true, true, .len = LENGTH - 0x100 - LEN),
	CASE("past the end", false, false, .len = LENGTH - 0x100 - LEN + 1),
	CASE("before the start", false, false, .addr = 0 - 0x101ULL),
	CASE("length wraps", false, false, .len = U64_MAX - LEN),
	CASE("address wraps", false, false, .addr = 0 - START - 1),
};

static void bind_desc(const struct bind_case *c, char *desc)
{
	strscpy(desc, c->name, KUNIT_PARAM_DESC_SIZE);
}

KUNIT_ARRAY_PARAM(bind, bind_cases, bind_desc);

static void mw_bind(struct kunit *test)
{
	const struct bind_case *c = test->param_value;
	struct mw_test *t = test->priv;
	unsigned int i;

	t->mr->access = c->mr_access ?: LOCAL;
	t->mr->type = c->mr_type;
	for (i = 0; i < 2; i++) {
		struct roe_mr *view = &t->mw[i]->view;
		u32 old = view->key, key;

		good_bind(t, i);
		t->wqe.raddr += c->addr;
		t->wqe.bind_len += c->len;
		t->wqe.bind_access = c->access ?: REMOTE;
		t->wqe.rkey ^= c->rkey;
		t->wqe.bind_lkey ^= c->lkey;
		t->wqe.bind_rkey ^= c->old;
		KUNIT_EXPECT_EQ_MSG(test, bind_on(t, c->stranger ? t->stranger : t->qp),
				    c->ok[i] ? 0 : -EINVAL, "type %u", i + 1);
		KUNIT_EXPECT_EQ(test, atomic_read(&t->mr->windows),
				c->ok[i] && t->wqe.bind_len ? 1 : 0);
		/* of the new key the low byte */
		key = (old & ~0xff) | (t->wqe.rkey & 0xff);
		KUNIT_EXPECT_EQ(test, view->key, c->ok[i] ? key : old);
		/* type 2 has no other way; of type 1 the same by length 0 */
		roe_mr_revoke(view, ROE_MR_FREE);
		atomic_set(&t->mr->windows, 0);
	}
}

/* A failed bind leaves a bound window of type 1 alone, one of type 2 stays bound. */
static void mw_bind_again(struct kunit *test)
{
	struct mw_test *t = test->priv;
	unsigned int i;
	u32 key[2];

	for (i = 0; i < 2; i++) {
		good_bind(t, i);
		KUNIT_ASSERT_EQ(test, bind_on(t, t->qp), 0);
		key[i] = t->wqe.rkey;
	}
	KUNIT_EXPECT_EQ(test, atomic_read(&t->mr->windows), 2);
	good_bind(t, 0);
	t->wqe.bind_len = LENGTH;
	KUNIT_EXPECT_EQ(test, bind_on(t, t->qp), -EINVAL);
	KUNIT_EXPECT_TRUE(test, allowed(t->qp, key[0], REMOTE, START, LEN));
	good_bind(t, 1);
	KUNIT_EXPECT_EQ(test, bind_on(t, t->qp), -EINVAL);
	KUNIT_EXPECT_TRUE(test, allowed(t->qp, key[1], REMOTE, START, LEN));

	good_bind(t, 0);
	t->wqe.raddr++;
	KUNIT_EXPECT_EQ(test, bind_on(t, t->sibling), 0);
	KUNIT_EXPECT_FALSE(test, allowed(t->qp, key[0], REMOTE, START + 1, 1));
	KUNIT_EXPECT_FALSE(test, allowed(t->qp, t->wqe.rkey, REMOTE, START, 1));
	KUNIT_EXPECT_TRUE(test, allowed(t->qp, t->wqe.rkey, REMOTE, START + 1, LEN));
	KUNIT_EXPECT_EQ(test, atomic_read(&t->mr->windows), 2);

	good_bind(t, 0);
	t->wqe.bind_len = 0;
	t->wqe.bind_lkey = 0;
	KUNIT_EXPECT_EQ(test, bind_on(t, t->qp), 0);
	KUNIT_EXPECT_FALSE(test, allowed(t->qp, t->wqe.rkey, REMOTE, START + 1, 1));
	KUNIT_EXPECT_EQ(test, atomic_read(&t->mr->windows), 1);
}

/* An MR that is about to change or go takes no windows. */
static void mw_no_windows(struct kunit *test)
{
	struct mw_test *t = test->priv;
	unsigned int i;

	atomic_set(&t->mr->windows, ROE_MR_NO_WINDOWS);
	for (i = 0; i < 2; i++) {
		good_bind(t, i);
		KUNIT_EXPECT_EQ(test, bind_on(t, t->qp), -EINVAL);
	}
	KUNIT_EXPECT_EQ(test, atomic_read(&t->mr->windows), ROE_MR_NO_WINDOWS);
}

/* --- who may use it -------------------------------------------------------- */

static void mw_access(struct kunit *test)
{
	struct mw_test *t = test->priv;
	struct roe_mr *local;
	int has, need;
	u32 key;

	for (has = 0; has < 8; has++) {
		good_bind(t, 0);
		t->wqe.bind_access = has << 1;	/* the three remote rights */
		KUNIT_ASSERT_EQ(test, bind_on(t, t->qp), 0);
		key = t->wqe.rkey;
		for (need = 1; need < 0x20; need++)
			KUNIT_EXPECT_EQ_MSG(test, allowed(t->qp, key, need, START, 1),
					    !(need & ~(has << 1)), "has %#x, needs %#x",
					    has << 1, need);
		/* no lkey, not even to read */
		rcu_read_lock_bh();
		local = roe_mr_get(&t->keys, &t->pd, key, 0, START, 1);
		rcu_read_unlock_bh();
		KUNIT_EXPECT_NULL(test, local);
	}
}

static void mw_users(struct kunit *test)
{
	struct mw_test *t = test->priv;
	unsigned int i;

	for (i = 0; i < 2; i++) {
		u32 key;

		good_bind(t, i);
		KUNIT_ASSERT_EQ(test, bind_on(t, t->qp), 0);
		key = t->wqe.rkey;
		KUNIT_EXPECT_TRUE(test, allowed(t->qp, key, REMOTE, START, LEN));
		KUNIT_EXPECT_EQ(test, allowed(t->sibling, key, REMOTE, START, LEN), !i);
		KUNIT_EXPECT_FALSE(test, allowed(t->stranger, key, REMOTE, START, LEN));
		KUNIT_EXPECT_FALSE(test, allowed(t->qp, key ^ 1, REMOTE, START, LEN));
		KUNIT_EXPECT_EQ(test, atomic_read(&t->mw[i]->view.users), 0);

		KUNIT_EXPECT_EQ(test, invalidate(t->stranger, key), -EINVAL);
		KUNIT_EXPECT_EQ(test, invalidate(t->sibling, key), -EINVAL);
		KUNIT_EXPECT_EQ(test, invalidate(t->qp, key ^ 1), -EINVAL);
		KUNIT_EXPECT_TRUE(test, allowed(t->qp, key, REMOTE, START, LEN));
		KUNIT_EXPECT_EQ(test, invalidate(t->qp, key), i ? 0 : -EINVAL);
		KUNIT_EXPECT_EQ(test, allowed(t->qp, key, REMOTE, START, LEN), !i);
	}
	KUNIT_EXPECT_EQ(test, atomic_read(&t->mr->windows), 1);
}

/* Whoever takes a page of on-demand memory back sees who is at it through a window. */
static void mw_on_demand(struct kunit *test)
{
	struct mw_test *t = test->priv;
	struct roe_odp *odp = kunit_kzalloc(test, sizeof(*odp), GFP_KERNEL);
	struct roe_mr *mr;
	unsigned int i;

	KUNIT_ASSERT_NOT_NULL(test, odp);
	roe_odp_init(odp);
	t->mr->type = ROE_MR_ODP;
	t->mr->odp = odp;
	t->mr->base = IOVA + 0x100000;
	for (i = 0; i < 2; i++) {
		good_bind(t, i);
		KUNIT_ASSERT_EQ(test, bind_on(t, t->qp), 0);
		KUNIT_EXPECT_EQ(test, atomic_read(&odp->users), 0);
		KUNIT_EXPECT_EQ(test, t->mw[i]->view.base, START + 0x100000);
		rcu_read_lock_bh();
		mr = roe_mr_get_remote(t->qp, t->wqe.rkey, IB_ACCESS_REMOTE_READ, START, LEN);
		KUNIT_EXPECT_PTR_EQ(test, mr, &t->mw[i]->view);
		KUNIT_EXPECT_EQ(test, atomic_read(&odp->users), 1);
		if (mr)
			roe_mr_put(mr);
		/* refused after it has been counted in */
		mr = roe_mr_get_remote(t->sibling, t->wqe.rkey, IB_ACCESS_REMOTE_READ, START, 1);
		KUNIT_EXPECT_EQ(test, !!mr, !i);
		if (mr)
			roe_mr_put(mr);
		rcu_read_unlock_bh();
		KUNIT_EXPECT_EQ(test, atomic_read(&odp->users), 0);
	}
	xa_destroy(&odp->pages);
}

/* --- revocation against use ------------------------------------------------ */

#define RACE_ROUNDS	20000

struct race {
	struct mw_test		*t;
	struct roe_mr		*mr;
	u32			key;	/* READ_ONCE: may be stale */
	unsigned long		hits;
};

/* A peer that writes all ones through the key it believes in. */
static int writer(void *data)
{
	struct race *race = data;
	u8 ones[64];

	memset(ones, 0xff, sizeof(ones));
	while (!kthread_should_stop()) {
		struct roe_mr *mr;

		rcu_read_lock_bh();
		mr = roe_mr_get_remote(race->t->qp, READ_ONCE(race->key),
				       IB_ACCESS_REMOTE_WRITE, START, sizeof(ones));
		if (mr) {
			roe_mr_write(mr, START, ones, sizeof(ones));
			roe_mr_put(mr);
			race->hits++;
		}
		rcu_read_unlock_bh();
		cond_resched();
	}
	return 0;
}

/* One life of the key; once it is invalid, nobody writes any more. */
static bool one_life(struct race *race, u32 key, u8 *mem, bool pause)
{
	struct mw_test *t = race->t;
	unsigned int i;

	if (roe_mr_fast_reg(&t->pd, race->mr, key, IB_ACCESS_LOCAL_WRITE |
			    IB_ACCESS_REMOTE_WRITE))
		return false;
	WRITE_ONCE(race->key, key);
	if (pause)
		cond_resched();
	if (invalidate(t->qp, key))
		return false;
	memset(mem, 0, 64);
	for (i = 0; i < 64; i++)
		if (READ_ONCE(mem[i]))
			return false;
	return true;
}

static void mw_revoke_race(struct kunit *test)
{
	struct mw_test *t = test->priv;
	struct race race = { .t = t, .mr = make_mr(test, ROE_MR_FAST) };
	struct task_struct *task[2];
	u8 *mem = t->mem + (START - IOVA);
	unsigned int i, bad = 0;
	u32 key = race.mr->key;

	race.key = key;
	for (i = 0; i < 2; i++) {
		task[i] = kthread_run(writer, &race, "roe_mw_race");
		KUNIT_ASSERT_FALSE(test, IS_ERR(task[i]));
	}
	for (i = 0; i < RACE_ROUNDS || (!race.hits && i < 100 * RACE_ROUNDS); i++) {
		key = (key & ~0xffu) | ((key + 1) & 0xff);
		bad += !one_life(&race, key, mem, i % 64 == 0);
		if (i % 64 == 0)
			cond_resched();
	}
	for (i = 0; i < 2; i++)
		kthread_stop(task[i]);
	KUNIT_EXPECT_EQ(test, bad, 0);
	KUNIT_EXPECT_GT(test, race.hits, 0ul);
	KUNIT_EXPECT_EQ(test, atomic_read(&race.mr->users), 0);
}

/* What a QP remembers of a key is not what is there after the MR has gone. */
static void mw_key_again(struct kunit *test)
{
	struct mw_test *t = test->priv;
	struct roe_mr *mr = make_mr(test, ROE_MR_USER), *other;
	u32 key = mr->key, index = key >> ROE_KEY_INDEX_SHIFT;

	mr->access = REMOTE;
	KUNIT_EXPECT_TRUE(test, allowed(t->qp, key, IB_ACCESS_REMOTE_READ, START, LEN));
	KUNIT_EXPECT_PTR_EQ(test, t->qp->key_memo[ROE_KEY_REMOTE].mr, mr);
	/* others come in between and go, for this QP the same key is another MR then */
	roe_mr_unpublish(make_mr(test, ROE_MR_USER));
	KUNIT_EXPECT_TRUE(test, allowed(t->qp, key, IB_ACCESS_REMOTE_READ, START, LEN));
	roe_mr_unpublish(mr);
	KUNIT_EXPECT_FALSE(test, allowed(t->qp, key, IB_ACCESS_REMOTE_READ, START, LEN));
	t->keys.next = index;
	other = make_mr(test, ROE_MR_USER);
	other->access = REMOTE;
	KUNIT_ASSERT_EQ(test, other->key >> ROE_KEY_INDEX_SHIFT, index);
	KUNIT_EXPECT_TRUE(test, allowed(t->qp, other->key, IB_ACCESS_REMOTE_READ, START, LEN));
	KUNIT_EXPECT_PTR_EQ(test, t->qp->key_memo[ROE_KEY_REMOTE].mr, other);
}

static struct kunit_case mw_cases[] = {
	KUNIT_CASE_PARAM(mw_bind, bind_gen_params),
	KUNIT_CASE(mw_bind_again),
	KUNIT_CASE(mw_no_windows),
	KUNIT_CASE(mw_access),
	KUNIT_CASE(mw_users),
	KUNIT_CASE(mw_on_demand),
	KUNIT_CASE(mw_revoke_race),
	KUNIT_CASE(mw_key_again),
	{}
};

static struct kunit_suite mw_suite = {
	.name		= "roe_mw",
	.init		= mw_test_init,
	.exit		= mw_test_exit,
	.test_cases	= mw_cases,
};

kunit_test_suite(mw_suite);
