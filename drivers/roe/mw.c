// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Memory windows: birth, binding, invalidation, death.
 *
 * A bound window counts in parent->windows, and an MR with windows can neither
 * be deregistered nor changed; so the memory that a window borrows stays. The
 * count falls only after the gate of the window was closed.
 */
#include <linux/rcupdate.h>
#include <linux/slab.h>
#include "device.h"
#include "mw.h"
#include "qp.h"

static struct roe_window *window_of(struct roe_mr *view)
{
	return container_of(view, struct roe_window, view);
}

/* Close the window, if it is bound; lock of the view held. */
static void unbind(struct roe_window *window, enum roe_mr_state state)
{
	bool bound = window->view.state == ROE_MR_VALID;

	lockdep_assert_held(&window->view.lock);
	roe_mr_revoke(&window->view, state);
	if (bound)
		atomic_dec(&window->parent->windows);
	window->parent = NULL;
}

/*
 * The MR that a bind request names, with the window counted in mr->windows. The checks are
 * those of C10-72 and following: the MR is not zero-based, it has local write if the window is
 * to have remote write or atomic, and the range lies inside of it.
 */
static struct roe_mr *take_parent(const struct roe_qp *qp, const struct roe_swqe *wqe)
{
	int need = IB_ACCESS_MW_BIND;
	struct roe_mr *mr;

	if (wqe->bind_access & (IB_ACCESS_REMOTE_WRITE | IB_ACCESS_REMOTE_ATOMIC))
		need |= IB_ACCESS_LOCAL_WRITE;
	mr = roe_mr_get(qp->keys, qp->pd, wqe->bind_lkey, need, wqe->raddr, wqe->bind_len);
	if (!mr)
		return NULL;
	if ((mr->type != ROE_MR_USER && mr->type != ROE_MR_ODP) ||
	    (mr->access & IB_ZERO_BASED) ||
	    !atomic_inc_unless_negative(&mr->windows)) {
		roe_mr_put(mr);
		return NULL;
	}
	roe_mr_put(mr);
	return mr;
}

/*
 * Flags that a bind may have whatever the MR has. A user that binds with the flags of the MR asks
 * for more than a window has. That does no harm: a window has no lkey, and its pages are the MR's.
 */
#define IDLE_ACCESS	(IB_ACCESS_LOCAL_WRITE | IB_ACCESS_MW_BIND | IB_ACCESS_ON_DEMAND |	\
			 IB_ACCESS_HUGETLB | IB_ACCESS_OPTIONAL)
#define FLUSH_ACCESS	(IB_ACCESS_FLUSH_GLOBAL | IB_ACCESS_FLUSH_PERSISTENT)

static bool acceptable(const struct roe_mr *view, const struct roe_swqe *wqe)
{
	int may = ROE_MR_REMOTE_ACCESS | IDLE_ACCESS | FLUSH_ACCESS;

	if (view->key != wqe->bind_rkey || view->state == ROE_MR_DEAD)
		return false;
	if (view->type == ROE_MR_WINDOW_1)
		return !(wqe->bind_access & ~may);
	/* type 2: must not be bound, and the range must not be empty */
	may |= IB_ZERO_BASED;
	return view->state == ROE_MR_FREE && wqe->bind_len && !(wqe->bind_access & ~may);
}

static void set_view(struct roe_mr *view, const struct roe_qp *qp,
		     const struct roe_swqe *wqe, const struct roe_mr *parent)
{
	view->access = wqe->bind_access & (ROE_MR_REMOTE_ACCESS | (parent->access & FLUSH_ACCESS));
	view->iova = wqe->bind_access & IB_ZERO_BASED ? 0 : wqe->raddr;
	view->length = wqe->bind_len;
	view->base = parent->base + (wqe->raddr - parent->iova);
	view->mem = parent->mem;
	view->odp = parent->odp;
	view->qp_id = qp->id;
	/* Pairs with roe_mr_get(). */
	smp_store_release(&view->state, ROE_MR_VALID);
}

/* All or nothing: a window whose bind fails stays as it was. */
static int bind(struct roe_window *window, const struct roe_qp *qp, const struct roe_swqe *wqe)
{
	struct roe_mr *view = &window->view;
	struct roe_mr *parent = NULL;

	if (!acceptable(view, wqe))
		return -EINVAL;
	/* length 0 unbinds a window of type 1 */
	if (wqe->bind_len) {
		parent = take_parent(qp, wqe);
		if (!parent)
			return -EINVAL;
	}
	unbind(window, ROE_MR_FREE);
	/* As with other devices only the key byte counts: many users set nothing else. */
	view->key = roe_mr_key(view, wqe->rkey);
	if (parent) {
		window->parent = parent;
		set_view(view, qp, wqe, parent);
	}
	return 0;
}

/**
 * roe_mw_bind - IB_WR_BIND_MW
 * @qp: its PD must be that of the window and of the MR
 * @wqe: the request
 *
 * Context: softirqs off, in an RCU read-side section.
 * Return: 0, or -EINVAL, and then nothing has changed (IB_WC_MW_BIND_ERR).
 */
int roe_mw_bind(const struct roe_qp *qp, const struct roe_swqe *wqe)
{
	struct roe_mr *view = roe_mr_find(qp->keys, wqe->bind_rkey);
	int err;

	if (!view || !roe_mr_is_window(view) || view->ib.pd != qp->pd)
		return -EINVAL;
	spin_lock_bh(&view->lock);
	err = bind(window_of(view), qp, wqe);
	spin_unlock_bh(&view->lock);
	return err;
}

ROE_EXPORT_FOR_TEST(roe_mw_bind);

/**
 * roe_mw_invalidate - take the binding off a type 2B window
 * @view: of the window; its lock is held and its key was checked
 * @qp: must be the QP it is bound to, if it is bound
 *
 * Return: 0 or -EINVAL.
 */
int roe_mw_invalidate(struct roe_mr *view, const struct roe_qp *qp)
{
	if (view->state == ROE_MR_VALID && view->qp_id != qp->id)
		return -EINVAL;
	unbind(window_of(view), ROE_MR_FREE);
	return 0;
}

static int window_type(enum ib_mw_type type, enum roe_mr_type *own)
{
	switch (type) {
	case IB_MW_TYPE_1:
		*own = ROE_MR_WINDOW_1;
		return 0;
	case IB_MW_TYPE_2:
		*own = ROE_MR_WINDOW_2B;
		return 0;
	default:
		return -EINVAL;
	}
}

/**
 * roe_mw_alloc - the alloc_mw verb
 * @ibmw: type and PD are set
 * @udata: not used
 *
 * Return: 0 or a negative errno.
 */
int roe_mw_alloc(struct ib_mw *ibmw, struct ib_udata *udata)
{
	struct roe_window *window;
	enum roe_mr_type type;
	int err;

	err = window_type(ibmw->type, &type);
	if (err)
		return err;
	window = kzalloc(sizeof(*window), GFP_KERNEL_ACCOUNT);
	if (!window)
		return -ENOMEM;
	window->view.type = type;
	window->view.state = ROE_MR_FREE;
	window->view.ib.device = ibmw->device;
	window->view.ib.pd = ibmw->pd;
	err = roe_mr_publish(&roe_dev(ibmw->device)->keys, &window->view);
	if (err) {
		kfree(window);
		return err;
	}
	roe_mw(ibmw)->window = window;
	ibmw->rkey = window->view.key;
	return 0;
}

/**
 * roe_mw_dealloc - the dealloc_mw verb; a bound window is unbound
 * @ibmw: the window
 *
 * Return: 0.
 */
int roe_mw_dealloc(struct ib_mw *ibmw)
{
	struct roe_window *window = roe_mw(ibmw)->window;

	spin_lock_bh(&window->view.lock);
	unbind(window, ROE_MR_DEAD);
	spin_unlock_bh(&window->view.lock);
	roe_mr_unpublish(&window->view);
	/* whoever found it in the table before may still read its state */
	kfree_rcu(window, view.rcu);
	return 0;
}
