/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Shared receive queues: one queue of receive WQEs for many QPs. */
#ifndef ROE_SRQ_H
#define ROE_SRQ_H

#include <linux/mutex.h>
#include <linux/workqueue.h>
#include "rq.h"

struct roe_srq {
	struct ib_srq		ib;
	struct roe_rq		rq;		/* rq.lock guards all of the SRQ */
	u32			limit;		/* 0: not armed */
	struct mutex		resize_lock;	/* one change of size at a time */
	struct work_struct	event_work;
};

static inline struct roe_srq *roe_srq(struct ib_srq *ibsrq)
{
	return container_of(ibsrq, struct roe_srq, ib);
}

int roe_srq_init(struct roe_srq *srq, u32 max_wr, u32 max_sge, struct ib_ucontext *uctx,
		 struct mminfo *mi);
void roe_srq_exit(struct roe_srq *srq);
bool roe_srq_take(struct roe_srq *srq, struct roe_rwqe *rwqe, u32 least);
int roe_srq_set(struct roe_srq *srq, struct roe_rq *fresh, const u32 *limit);

/* verbs */
int roe_srq_create(struct ib_srq *ibsrq, struct ib_srq_init_attr *init, struct ib_udata *udata);
int roe_srq_modify(struct ib_srq *ibsrq, struct ib_srq_attr *attr, enum ib_srq_attr_mask mask,
		   struct ib_udata *udata);
int roe_srq_query(struct ib_srq *ibsrq, struct ib_srq_attr *attr);
int roe_srq_destroy(struct ib_srq *ibsrq, struct ib_udata *udata);
int roe_srq_post_recv(struct ib_srq *ibsrq, const struct ib_recv_wr *wr,
		      const struct ib_recv_wr **bad);

#endif /* ROE_SRQ_H */
