/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Memory windows (IBTA 10.6.7; wire.md section 7, abi.md 19): type 1, bound by
 * a work request behind ibv_bind_mw() and used through any QP of the PD, and
 * type 2B, bound, used and invalidated through one QP.
 */
#ifndef ROE_MW_H
#define ROE_MW_H

#include "mr.h"

struct roe_swqe;

/* Apart from the struct ib_mw, which the core allocates without charging any memory cgroup. */
struct roe_window {
	struct roe_mr	view;	/* key, rights and range; extents of @parent */
	struct roe_mr	*parent; /* MR it is bound to: in view.state VALID only */
};

struct roe_mw {
	struct ib_mw		ib;
	struct roe_window	*window;
};

static inline struct roe_mw *roe_mw(struct ib_mw *ibmw)
{
	return container_of(ibmw, struct roe_mw, ib);
}

/* BIND_MW in SQ order. Softirqs off, RCU read-side section. 0 or -EINVAL. */
int roe_mw_bind(const struct roe_qp *qp, const struct roe_swqe *wqe);
/* For roe_mr_invalidate(), which has looked it up: its lock is held, its key was checked. */
int roe_mw_invalidate(struct roe_mr *view, const struct roe_qp *qp);

/* verbs */
int roe_mw_alloc(struct ib_mw *ibmw, struct ib_udata *udata);
int roe_mw_dealloc(struct ib_mw *ibmw);

#endif /* ROE_MW_H */
