// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * QPs that wait for pages: from the miss to the worker and back. See fault.h.
 *
 * A request holds a reference to the table of pages but not to the QP: a page may take as long
 * as the process wants (userfaultfd), and neither dereg nor destroy wait for that. So the
 * worker knows the QP by number and id, and the waiting engine by the number of the request,
 * and looks both up when it is done. A request that no worker has begun goes with the QP or the
 * MR; so there are no more than three of these for each QP, besides those that workers have.
 *
 * Nor does one process wait for the pages of another: requests that need nothing but memory
 * have workers of their own, and of each process only a few works are with workers of any kind,
 * because even a request of the first kind may wait as long as threads of the process change
 * its mappings. While a page has to come from elsewhere, or is prefetched, the module is in
 * use: its text must stay until the page has come, which may be never, and rmmod shall fail
 * instead of waiting. Works that drop the last module reference end in roe_fault_exit() at the
 * latest.
 */
#include <linux/hashtable.h>
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/slab.h>
#include <linux/workqueue.h>
#include "fault.h"
#include "odp.h"
#include "qp_run.h"
#include "transport.h"

static struct workqueue_struct *fault_wq;	/* requests that need nothing but memory */
static struct workqueue_struct *slow_wq;	/* pages that are not in memory */
static struct workqueue_struct *ahead_wq;	/* prefetches that nobody waits for */
static struct workqueue_struct *verb_wq;	/* prefetches that a verb waits for */
static struct workqueue_struct *end_wq;		/* tables that nobody uses any more */

/*
 * Workers of each queue: for all processes, and for one. A process may ask for as much as it
 * likes, and for pages that never come.
 */
#define WORKERS_MAX	512
#define WORKERS_EACH	16
/* Requests for a dying MR that are taken out under one hold of the lock. */
#define FORGET_BATCH	256

/*
 * A page that could not be had is not asked for again within this time: the step that needed it
 * is repeated and fails. It is repeated at once, by a peer after an RNR NAK of 164 ms at most;
 * but the peer may have given up, UC and UD repeat nothing, and meanwhile the process may have
 * put memory there.
 */
#define FAILED_NS	NSEC_PER_SEC

/*
 * A process that has works in a queue, as long as it has any. Holds the module, but not for
 * fault_wq.
 */
struct roe_fault_process {
	struct hlist_node	entry;
	const struct mm_struct	*mm;		/* only compared */
	struct workqueue_struct	*wq;
	unsigned int		working;	/* works that workers have */
	struct list_head	waiting;	/* ... and those that wait for a worker */
};

/*
 * qp->lock is taken inside it (wanted()); never the reverse. Softirqs are disabled, too: all
 * processes would wait for one that interrupts the holder.
 */
static DEFINE_SPINLOCK(processes_lock);
static DEFINE_HASHTABLE(processes, 6);
/* Requests that wait for a worker; one bucket may have those of many QPs. */
static DEFINE_HASHTABLE(by_qp, 8);
static DEFINE_HASHTABLE(by_odp, 8);

/* What of a QP waits for a page. */
enum waiter { REQUESTER, RECEIVING, READ_RESPONSES };

static struct roe_fault *fault_of(struct roe_qp *qp, enum waiter waiter)
{
	switch (waiter) {
	case RECEIVING:
		return &qp->resp.fault;
	case READ_RESPONSES:
		return &qp->resp.read_fault;
	default:
		return &qp->req.fault;
	}
}

static enum waiter waiter_of(const struct roe_qp *qp, const struct roe_fault *fault)
{
	if (fault == &qp->req.fault)
		return REQUESTER;
	return fault == &qp->resp.fault ? RECEIVING : READ_RESPONSES;
}

struct request {
	struct roe_turn		turn;		/* its work: first run(), then perhaps run_slow() */
	struct hlist_node	qp_entry, odp_entry;	/* while it waits for a worker */
	struct roe_odp		*odp;
	u64			addr, len;
	bool			write;
	enum waiter		waiter;
	u32			qpn, seq;
	u64			qp_id;
};

int roe_fault_init(void)
{
	/* works wait for memory, so freeing memory must not depend on them: no WQ_MEM_RECLAIM */
	fault_wq = alloc_workqueue("roe_fault", WQ_UNBOUND, WORKERS_MAX);
	if (!fault_wq)
		return -ENOMEM;
	slow_wq = alloc_workqueue("roe_slow", WQ_UNBOUND, WORKERS_MAX);
	if (!slow_wq)
		goto err_slow;
	ahead_wq = alloc_workqueue("roe_ahead", WQ_UNBOUND, WORKERS_MAX);
	if (!ahead_wq)
		goto err_ahead;
	verb_wq = alloc_workqueue("roe_verb", WQ_UNBOUND, WORKERS_MAX);
	if (!verb_wq)
		goto err_verb;
	end_wq = alloc_workqueue("roe_end", WQ_UNBOUND, WORKERS_MAX);
	if (!end_wq)
		goto err_end;
	return 0;

err_end:
	destroy_workqueue(verb_wq);
err_verb:
	destroy_workqueue(ahead_wq);
err_ahead:
	destroy_workqueue(slow_wq);
err_slow:
	destroy_workqueue(fault_wq);
	return -ENOMEM;
}

void roe_fault_exit(void)
{
	destroy_workqueue(verb_wq);
	destroy_workqueue(ahead_wq);
	destroy_workqueue(fault_wq);
	destroy_workqueue(slow_wq);
	/* after those whose works drop the last reference to a table */
	destroy_workqueue(end_wq);
}

/**
 * roe_fault_end() - let a worker destroy a table of pages
 * @work: does not touch the QP or the MR
 *
 * It may take as long as the process likes, but no longer than the process lives. Any context.
 */
void roe_fault_end(struct work_struct *work)
{
	queue_work(end_wq, work);
}

static void stop_waiting(struct roe_qp *qp, struct roe_fault *fault)
{
	fault->waiting = false;
	fault->starved = false;
	if (fault == &qp->req.fault)
		roe_requester_resume(qp);
}

/*
 * There was no memory for a page, or for the request: ask again later, after twice as long each
 * time, because workers that try all the time only get in the way of those who free some. A QP
 * without a timer sends nothing, and asks again with the next packet that comes.
 */
static void starve(struct roe_qp *qp, const struct roe_ctx *ctx, struct roe_fault *fault)
{
	u64 at = ctx->now + ((u64)ROE_LOCAL_DROP_NS << min(fault->shorts++, 10u));

	fault->waiting = roe_qp_has_timer(qp);
	fault->starved = fault->waiting;
	if (fault->starved && (!qp->pages_at || at < qp->pages_at))
		qp->pages_at = at;
}

/**
 * roe_fault_again - the time has come to ask for pages again
 * @qp: qp->lock held
 */
void roe_fault_again(struct roe_qp *qp)
{
	qp->pages_at = 0;
	if (qp->req.fault.starved)
		stop_waiting(qp, &qp->req.fault);
	if (qp->resp.fault.starved)
		stop_waiting(qp, &qp->resp.fault);
	if (qp->resp.read_fault.starved)
		stop_waiting(qp, &qp->resp.read_fault);
}

/**
 * roe_fault_done - a page is there, or cannot be had: go on
 * @qp: qp->lock held
 * @ctx: the time
 * @fault: one of its engines, waiting
 * @err: 0, or a negative errno: the access will fail when it is repeated; -EAGAIN, -ENOMEM: it
 *	will not fail, but ask for the page again a little later
 */
void roe_fault_done(struct roe_qp *qp, struct roe_ctx *ctx, struct roe_fault *fault, int err)
{
	if (err == -EAGAIN || err == -ENOMEM) {
		starve(qp, ctx, fault);
		if (fault->starved)
			return;
	} else {
		fault->shorts = 0;
		fault->failed = err;
		fault->failed_until = ctx->now + FAILED_NS;
	}
	stop_waiting(qp, fault);
}

ROE_EXPORT_FOR_TEST(roe_fault_done);

static void resume(const struct request *r, int err)
{
	struct roe_fault *fault;
	struct roe_ctx ctx;
	struct roe_qp *qp;

	rcu_read_lock();
	qp = roe_qp_lookup(r->qpn);
	if (qp && qp->id == r->qp_id) {
		fault = fault_of(qp, r->waiter);
		roe_qp_begin(qp, &ctx);
		if (fault->waiting && fault->seq == r->seq)
			roe_fault_done(qp, &ctx, fault, err);
		roe_qp_end(qp, &ctx);
	}
	rcu_read_unlock();
}

static long fetch(const struct request *r, unsigned int gup_flags)
{
	return roe_odp_fault(r->odp, r->addr, r->len,
			     gup_flags | (r->write ? FOLL_WRITE : 0));
}

static void finish(struct request *r, long n)
{
	atomic64_add(max(n, 0L), &r->odp->faults);
	resume(r, min(n, 0L));
	roe_odp_put(r->odp);
	kfree(r);
}

static struct roe_fault_process *find(const struct mm_struct *mm,
				      const struct workqueue_struct *wq)
{
	struct roe_fault_process *p;

	lockdep_assert_held(&processes_lock);
	hash_for_each_possible(processes, p, entry, (unsigned long)mm)
		if (p->mm == mm && p->wq == wq)
			return p;
	return NULL;
}

static bool holds_module(const struct roe_fault_process *p)
{
	return p->wq != fault_wq;
}

static void dequeue(struct roe_turn *turn)
{
	const struct workqueue_struct *wq = turn->process->wq;
	struct request *r;

	lockdep_assert_held(&processes_lock);
	list_del(&turn->entry);
	if (wq == ahead_wq || wq == verb_wq)
		return;
	r = container_of(turn, struct request, turn);
	hash_del(&r->qp_entry);
	hash_del(&r->odp_entry);
}

/* *@fresh becomes the new process and is NULL then; it is NULL at once if there was no memory. */
static struct roe_fault_process *create(const struct mm_struct *mm, struct workqueue_struct *wq,
					struct roe_fault_process **fresh)
{
	struct roe_fault_process *p = *fresh;

	if (!p)
		return NULL;
	p->mm = mm;
	p->wq = wq;
	if (holds_module(p) && !try_module_get(THIS_MODULE))
		return NULL;
	*fresh = NULL;
	INIT_LIST_HEAD(&p->waiting);
	hash_add(processes, &p->entry, (unsigned long)mm);
	return p;
}

/*
 * Add a work of a process: if its entry stays empty a worker may have it now, otherwise it
 * waits in the list of the process. Returns false without memory, or if the module is on its
 * way out.
 */
static bool join(struct roe_turn *turn, const struct mm_struct *mm,
		 struct workqueue_struct *wq, struct roe_fault_process **fresh)
{
	struct roe_fault_process *p = find(mm, wq) ?: create(mm, wq, fresh);

	if (!p)
		return false;
	turn->process = p;
	INIT_LIST_HEAD(&turn->entry);
	if (p->working < WORKERS_EACH)
		p->working++;
	else
		list_add_tail(&turn->entry, &p->waiting);
	return true;
}

static bool take_turn(struct roe_turn *turn, const struct mm_struct *mm,
		      struct workqueue_struct *wq, struct roe_fault_process **fresh)
{
	bool ok = join(turn, mm, wq, fresh);

	if (ok && list_empty(&turn->entry))
		queue_work(wq, &turn->work);
	return ok;
}

/* A worker is free: the next waiting work of the same process takes its place. */
static void next(struct roe_fault_process *p)
{
	struct roe_turn *turn;
	bool last = false;

	spin_lock_bh(&processes_lock);
	turn = list_first_entry_or_null(&p->waiting, struct roe_turn, entry);
	if (turn) {
		dequeue(turn);
		queue_work(p->wq, &turn->work);
	} else if (!--p->working) {
		hash_del(&p->entry);
		last = true;
	}
	spin_unlock_bh(&processes_lock);
	if (!last)
		return;
	if (holds_module(p))
		module_put(THIS_MODULE);
	kfree(p);
}

/**
 * roe_fault_ahead - have pages brought that no QP waits for
 * @turn: its work runs in process context, and calls roe_fault_ahead_done()
 * @mm: the process whose pages they are
 * @waits: a verb waits for them
 *
 * Context: process, may sleep.
 * Return: 0, -ENOMEM, or -ENODEV: the module is on its way out.
 */
int roe_fault_ahead(struct roe_turn *turn, const struct mm_struct *mm, bool waits)
{
	struct roe_fault_process *fresh = kzalloc(sizeof(*fresh), GFP_KERNEL);
	bool ok;

	if (!fresh)
		return -ENOMEM;
	spin_lock_bh(&processes_lock);
	ok = take_turn(turn, mm, waits ? verb_wq : ahead_wq, &fresh);
	spin_unlock_bh(&processes_lock);
	kfree(fresh);
	return ok ? 0 : -ENODEV;
}

/**
 * roe_fault_ahead_done - a work of roe_fault_ahead() is done
 * @turn: of that work; fault.c does not use it afterwards
 */
void roe_fault_ahead_done(struct roe_turn *turn)
{
	next(turn->process);
}

static void give_up(struct list_head *gone)
{
	struct request *r, *tmp;

	list_for_each_entry_safe(r, tmp, gone, turn.entry)
		finish(r, 0);
}

/**
 * roe_fault_forget_qp - drop the waiting requests of a QP
 * @qp: in RESET, or its number is given back: nobody waits for their pages any more
 *
 * Context: process, may sleep.
 */
void roe_fault_forget_qp(const struct roe_qp *qp)
{
	struct hlist_node *tmp;
	struct request *r;
	LIST_HEAD(gone);

	spin_lock_bh(&processes_lock);
	hash_for_each_possible_safe(by_qp, r, tmp, qp_entry, qp->id) {
		if (r->qp_id != qp->id)
			continue;
		dequeue(&r->turn);
		list_add(&r->turn.entry, &gone);
	}
	spin_unlock_bh(&processes_lock);
	give_up(&gone);
}

/**
 * roe_fault_forget_odp - drop the waiting requests for an MR that is gone
 * @odp: odp->detached is set; QPs that wait for its pages go on without
 *
 * Context: process, may sleep.
 */
void roe_fault_forget_odp(const struct roe_odp *odp)
{
	unsigned int n;

	do {
		struct hlist_node *tmp;
		struct request *r;
		LIST_HEAD(gone);

		n = 0;
		spin_lock_bh(&processes_lock);
		hash_for_each_possible_safe(by_odp, r, tmp, odp_entry, (unsigned long)odp) {
			if (r->odp != odp)
				continue;
			dequeue(&r->turn);
			list_add(&r->turn.entry, &gone);
			if (++n == FORGET_BATCH)
				break;
		}
		spin_unlock_bh(&processes_lock);
		give_up(&gone);
		cond_resched();
	} while (n == FORGET_BATCH);
}

/*
 * Does anyone still wait for the request? Whoever forgets requests first changes what is
 * checked here, then takes this lock.
 */
static bool wanted(const struct request *r)
{
	const struct roe_fault *fault;
	struct roe_qp *qp;
	bool ok = false;

	lockdep_assert_held(&processes_lock);
	rcu_read_lock();
	qp = roe_qp_lookup(r->qpn);
	if (qp && qp->id == r->qp_id && !READ_ONCE(r->odp->detached)) {
		fault = fault_of(qp, r->waiter);
		spin_lock(&qp->lock);
		ok = fault->waiting && fault->seq == r->seq;
		spin_unlock(&qp->lock);
	}
	rcu_read_unlock();
	return ok;
}

/* The request waits for a worker: list it where those who forget requests look. */
static void list_waiting(struct request *r)
{
	hash_add(by_qp, &r->qp_entry, r->qp_id);
	hash_add(by_odp, &r->odp_entry, (unsigned long)r->odp);
}

static void run_slow(struct work_struct *work)
{
	struct request *r = container_of(work, struct request, turn.work);
	long n = fetch(r, 0);

	next(r->turn.process);
	finish(r, n);
}

/* The page has to come from elsewhere. Returns false if the request is not queued for that. */
static bool queue_slow(struct request *r, struct roe_fault_process **fresh)
{
	bool ok;

	spin_lock_bh(&processes_lock);
	INIT_WORK(&r->turn.work, run_slow);
	ok = wanted(r) && take_turn(&r->turn, roe_odp_mm(r->odp), slow_wq, fresh);
	if (ok && !list_empty(&r->turn.entry))
		list_waiting(r);
	spin_unlock_bh(&processes_lock);
	return ok;
}

/* Does this worker go on with the request? Not if it has to wait, or is given up. */
static bool begin(struct request *r)
{
	struct roe_fault_process *fresh = kzalloc(sizeof(*fresh), GFP_NOWAIT | __GFP_NOWARN);
	bool ok, now;

	spin_lock_bh(&processes_lock);
	ok = wanted(r) && join(&r->turn, roe_odp_mm(r->odp), fault_wq, &fresh);
	now = ok && list_empty(&r->turn.entry);
	if (ok && !now)
		list_waiting(r);
	spin_unlock_bh(&processes_lock);
	kfree(fresh);
	if (!ok)
		finish(r, -EAGAIN);
	return now;
}

static void run(struct work_struct *work)
{
	struct request *r = container_of(work, struct request, turn.work);
	struct roe_fault_process *fresh;
	long n;

	/* a request that had to wait was counted by next() already */
	if (!r->turn.process && !begin(r))
		return;
	n = fetch(r, FOLL_NOWAIT);
	next(r->turn.process);
	if (n != -EBUSY) {
		finish(r, n);
		return;
	}
	fresh = kzalloc(sizeof(*fresh), GFP_KERNEL);
	if (!fresh)
		finish(r, -ENOMEM);
	else if (!queue_slow(r, &fresh))
		finish(r, -EAGAIN);
	kfree(fresh);
}

/* Queue a request for the page that is missing. Returns false without memory. */
static bool start(struct roe_qp *qp, struct roe_fault *fault, struct roe_odp *odp)
{
	struct request *r;

	/* in KUnit there is no process: the test brings the page */
	if (!odp->notifier.mm)
		return true;
	r = kmalloc(sizeof(*r), GFP_ATOMIC | __GFP_NOWARN);
	if (!r)
		return false;
	INIT_WORK(&r->turn.work, run);
	r->turn.process = NULL;
	refcount_inc(&odp->refs);
	r->odp = odp;
	r->addr = fault->addr;
	r->len = min_t(u64, fault->len, ROE_ODP_AHEAD);
	r->write = fault->write;
	r->waiter = waiter_of(qp, fault);
	r->qpn = qp->qpn;
	r->qp_id = qp->id;
	r->seq = fault->seq;
	queue_work(fault_wq, &r->turn.work);
	return true;
}

/**
 * roe_fault_miss - an access found a page missing
 * @qp: qp->lock held
 * @fault: engine that made the access
 * @mr: held; one that is not on demand misses nothing
 * @va: first byte that was to be accessed
 * @len: bytes from there on that will be accessed, not 0. The caller has proven only the first
 *	of them: the element of a receive WQE may be longer than @mr, as long as the message
 *	is not
 * @write: they will be written to
 *
 * Nothing is allocated here, because preemption is off, which forbids that with PREEMPT_RT.
 * After @mr is put, in the same run, the caller must ask roe_fault_missed() what the failure
 * means.
 */
void roe_fault_miss(struct roe_qp *qp, struct roe_fault *fault, struct roe_mr *mr, u64 va,
		    u64 len, bool write)
{
	struct roe_odp *odp = mr->odp;
	u64 addr, end, page;

	fault->missed = odp;
	if (!odp || fault->waiting || fault->wanted)
		return;
	addr = va - mr->iova + mr->base;
	end = addr + min(len, mr->length - (va - mr->iova));
	addr = min(roe_odp_missing(odp, addr, end - addr, write), end - 1);
	page = addr >> PAGE_SHIFT;
	fault->failed = fault->failed && fault->odp == odp->id && fault->page == page &&
			fault->write == write;
	fault->write = write;
	fault->odp = odp->id;
	fault->page = page;
	fault->seq = ++qp->fault_seq;
	fault->wanted = odp;
	fault->addr = addr;
	fault->len = end - addr;
}

/**
 * roe_fault_found - an access found its pages: is the one there that could not be had?
 * @fault: an engine that remembers such a page
 * @mr: held; any
 * @va: first byte that was accessed
 * @len: bytes
 * @write: they were written to
 *
 * If so somebody else has brought the page. It is forgotten, so if it goes missing again it is
 * asked for.
 */
void roe_fault_found(struct roe_fault *fault, const struct roe_mr *mr, u64 va, u64 len,
		     bool write)
{
	u64 addr = va - mr->iova + mr->base;

	if (mr->odp && mr->odp->id == fault->odp && (write || !fault->write) &&
	    fault->page >= addr >> PAGE_SHIFT && fault->page <= (addr + len - 1) >> PAGE_SHIFT)
		fault->failed = false;
}

/**
 * roe_fault_missed - why an access failed
 * @qp: qp->lock held, and no MR but what is lent to a burst; still in the RCU read-side section
 *	of the access, so that the table of its pages is there
 * @ctx: the time
 * @fault: engine that made the access
 *
 * Return: true, once after each miss, if the failure is temporary: a worker brings the page;
 * false: the failure is permanent.
 */
bool roe_fault_missed(struct roe_qp *qp, struct roe_ctx *ctx, struct roe_fault *fault)
{
	struct roe_odp *odp = fault->wanted;
	bool missed = fault->missed;
	bool failed = fault->failed;

	fault->missed = false;
	fault->wanted = NULL;
	if (!odp)
		return missed;
	fault->failed = false;
	if (failed && ctx->now < fault->failed_until)
		return false;
	fault->waiting = start(qp, fault, odp);
	if (!fault->waiting)
		starve(qp, ctx, fault);
	return missed;
}
