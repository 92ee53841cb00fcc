/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * A queue of receive WQEs: the RQ of a QP, or an SRQ. A process posts into a
 * ring of shared memory without a system call, a kernel user into an array.
 */
#ifndef ROE_RQ_H
#define ROE_RQ_H

#include <linux/spinlock.h>
#include <rdma/ib_verbs.h>
#include "device.h"
#include "ring.h"

struct roe_sge {
	u64	addr;
	u32	len;
	u32	lkey;
};

/* A receive WQE, copied and checked once, private to the kernel. */
struct roe_rwqe {
	u64			wr_id;
	u8			num_sge;
	u8			status;		/* enum ib_wc_status: error found when copied */
	u32			length;		/* bytes, sum of the SGEs */
	struct roe_sge		sge[ROE_MAX_SGE];
};

struct roe_rq {
	u32			max_wr, max_sge;
	spinlock_t		lock;		/* posts of kernel users; in an SRQ everything */
	struct roe_ring		*ring;		/* of a process */
	struct roe_rwqe		*slots;		/* of a kernel user, mask + 1 of them */
	u32			mask;
	u32			prod;		/* posted, by a kernel user */
	u32			cons;		/* taken */
};

int roe_rq_init(struct roe_rq *rq, u32 max_wr, u32 max_sge, struct ib_ucontext *uctx,
		struct mminfo *mi);
void roe_rq_exit(struct roe_rq *rq);
u32 roe_rq_pending(const struct roe_rq *rq);
bool roe_rq_take(struct roe_rq *rq, struct roe_rwqe *rwqe, u32 least);
int roe_rq_post(struct roe_rq *rq, const struct ib_recv_wr *wr, const struct ib_recv_wr **bad);
void roe_rq_discard(struct roe_rq *rq);
int roe_rq_swap(struct roe_rq *rq, struct roe_rq *fresh, u32 *next);

#endif /* ROE_RQ_H */
