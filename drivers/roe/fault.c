// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * QPs that wait for pages: from the miss to the worker and back. See fault.h.
 *
 * A request holds the table of pages but not the QP: a page may take as long as
 * the process wants (userfaultfd), and neither dereg nor destroy wait for that.
 * So the worker knows a QP by number and id, and its engine by the number of the
 * request, and looks both up when it is done.
 *
 * Nor does one process wait for pages of another: what needs nothing but memory is
 * brought by workers that never wait, and of what has to come from elsewhere only a
 * few requests of each process are with the workers who may.
 */
#include <linux/hashtable.h>
#include <linux/mm.h>
#include <linux/slab.h>
#include <linux/workqueue.h>
#include "fault.h"
#include "odp.h"
#include "post.h"
#include "qp_state.h"
#include "transport.h"

static struct workqueue_struct *fault_wq;
static struct workqueue_struct *slow_wq;	/* pages that are not in memory */
static struct workqueue_struct *ahead_wq;	/* what no QP waits for */

/* Workers that may wait: of all processes, and of one. */
#define SLOW_MAX	512
#define SLOW_EACH	16

/* A process may ask for as much as it likes ahead, and of pages that never come. */
#define AHEAD_MAX	16

/* Whose pages do not come at once; as long as there is a request. */
struct process {
	struct hlist_node	entry;
	struct mm_struct	*mm;		/* only compared */
	unsigned int		working;	/* requests with workers */
	struct list_head	waiting;	/* ... and others */
};

static DEFINE_HASHTABLE(processes, 6);
static DEFINE_SPINLOCK(processes_lock);

struct request {
	struct work_struct	work;
	struct process		*process;	/* of slow_wq */
	struct list_head	entry;		/* in process->waiting */
	struct roe_odp		*odp;
	u64			addr, len;
	bool			write;
	bool			responder;	/* whose engine waits */
	u32			qpn, seq;
	u64			qp_id;
};

int roe_fault_init(void)
{
	/* works wait for memory, so none of them may be needed to free some */
	fault_wq = alloc_workqueue("roe_fault", WQ_UNBOUND, 0);
	if (!fault_wq)
		return -ENOMEM;
	slow_wq = alloc_workqueue("roe_slow", WQ_UNBOUND, SLOW_MAX);
	if (!slow_wq)
		goto err_slow;
	ahead_wq = alloc_workqueue("roe_ahead", WQ_UNBOUND, AHEAD_MAX);
	if (!ahead_wq)
		goto err_ahead;
	return 0;

err_ahead:
	destroy_workqueue(slow_wq);
err_slow:
	destroy_workqueue(fault_wq);
	return -ENOMEM;
}

void roe_fault_exit(void)
{
	destroy_workqueue(ahead_wq);
	destroy_workqueue(fault_wq);
	destroy_workqueue(slow_wq);
}

/**
 * roe_fault_ahead - have pages brought that no QP waits for
 * @work: runs in process context, with few others at a time
 */
void roe_fault_ahead(struct work_struct *work)
{
	queue_work(ahead_wq, work);
}

/**
 * roe_fault_done - a page is there, or cannot be had: go on
 * @qp: qp->lock held
 * @fault: one of its engines, waiting
 * @err: 0 or a negative errno, with which the access will fail when it is repeated
 */
void roe_fault_done(struct roe_qp *qp, struct roe_fault *fault, int err)
{
	fault->waiting = false;
	/* these say: once more */
	fault->failed = err && err != -EAGAIN && err != -ENOMEM;
	if (fault == &qp->req.fault)
		roe_requester_resume(qp);
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
		fault = r->responder ? &qp->resp.fault : &qp->req.fault;
		roe_qp_begin(qp, &ctx);
		if (fault->waiting && fault->seq == r->seq)
			roe_fault_done(qp, fault, err);
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

static struct process *find(const struct mm_struct *mm)
{
	struct process *p;

	lockdep_assert_held(&processes_lock);
	hash_for_each_possible(processes, p, entry, (unsigned long)mm)
		if (p->mm == mm)
			return p;
	return NULL;
}

/* A worker is free: the next one of the same process. */
static void next(struct process *p)
{
	struct request *r;

	spin_lock(&processes_lock);
	r = list_first_entry_or_null(&p->waiting, struct request, entry);
	if (r) {
		list_del(&r->entry);
		queue_work(slow_wq, &r->work);
	} else if (!--p->working) {
		hash_del(&p->entry);
		kfree(p);
	}
	spin_unlock(&processes_lock);
}

static void run_slow(struct work_struct *work)
{
	struct request *r = container_of(work, struct request, work);
	long n = fetch(r, 0);

	next(r->process);
	finish(r, n);
}

/* The page has to come from elsewhere. @fresh: used if the process is not known. */
static struct process *queue_slow(struct request *r, struct process *fresh)
{
	struct mm_struct *mm = roe_odp_mm(r->odp);
	struct process *p;

	spin_lock(&processes_lock);
	p = find(mm);
	if (!p) {
		p = fresh;
		p->mm = mm;
		INIT_LIST_HEAD(&p->waiting);
		hash_add(processes, &p->entry, (unsigned long)mm);
	}
	INIT_WORK(&r->work, run_slow);
	r->process = p;
	if (p->working < SLOW_EACH) {
		p->working++;
		queue_work(slow_wq, &r->work);
	} else {
		list_add_tail(&r->entry, &p->waiting);
	}
	spin_unlock(&processes_lock);
	return p;
}

static void run(struct work_struct *work)
{
	struct request *r = container_of(work, struct request, work);
	struct process *fresh;
	long n = fetch(r, FOLL_NOWAIT);

	if (n != -EBUSY) {
		finish(r, n);
		return;
	}
	fresh = kzalloc(sizeof(*fresh), GFP_KERNEL);
	if (!fresh)
		finish(r, -ENOMEM);
	else if (queue_slow(r, fresh) != fresh)
		kfree(fresh);
}

/* Under way to a worker, or false without memory. */
static bool start(struct roe_qp *qp, struct roe_fault *fault, struct roe_odp *odp)
{
	struct request *r;

	/* KUnit is its own worker */
	if (!odp->notifier.mm)
		return true;
	r = kmalloc(sizeof(*r), GFP_ATOMIC | __GFP_NOWARN);
	if (!r)
		return false;
	INIT_WORK(&r->work, run);
	refcount_inc(&odp->refs);
	r->odp = odp;
	r->addr = fault->addr;
	r->len = min_t(u64, fault->len, ROE_ODP_AHEAD);
	r->write = fault->write;
	r->responder = fault == &qp->resp.fault;
	r->qpn = qp->qpn;
	r->qp_id = qp->id;
	r->seq = fault->seq;
	queue_work(fault_wq, &r->work);
	return true;
}

/**
 * roe_fault_miss - an access found a page missing
 * @qp: qp->lock held
 * @fault: engine that made it
 * @mr: held; one that is not on demand misses nothing
 * @va: first byte that was to be accessed
 * @len: bytes from there on that will be, all of them in @mr, not 0
 * @write: they will be written to
 *
 * Nothing is allocated here: preemption is off, which with PREEMPT_RT does not allow
 * that. Once @mr is put, in the same run, roe_fault_missed() must be asked what the
 * failure means.
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
	end = addr + len;
	addr = min(roe_odp_missing(odp, addr, len, write), end - 1);
	page = addr >> PAGE_SHIFT;
	if (fault->failed && fault->odp == odp->id && fault->page == page &&
	    fault->write == write) {
		fault->failed = false;
		fault->missed = false;
		return;
	}
	fault->failed = false;
	fault->write = write;
	fault->odp = odp->id;
	fault->page = page;
	fault->seq = ++qp->fault_seq;
	fault->wanted = odp;
	fault->addr = addr;
	fault->len = end - addr;
}

ROE_EXPORT_FOR_TEST(roe_fault_miss);

/**
 * roe_fault_missed - why an access failed
 * @qp: qp->lock held, and no MR; still in the RCU read-side section of the access, so
 *	that the table of its pages is there
 * @fault: engine that made it
 *
 * Return: true once after a miss that ends: a worker brings the page; false: for good.
 */
bool roe_fault_missed(struct roe_qp *qp, struct roe_fault *fault)
{
	struct roe_odp *odp = fault->wanted;
	bool missed = fault->missed;

	fault->missed = false;
	fault->wanted = NULL;
	if (!odp)
		return missed;
	fault->waiting = start(qp, fault, odp);
	/* nobody comes back to it otherwise */
	if (!fault->waiting)
		roe_qp_defer(qp);
	return missed;
}

ROE_EXPORT_FOR_TEST(roe_fault_missed);
