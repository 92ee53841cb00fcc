/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Processing of posted WQEs and of bursts left over: see qp_doorbell.c. */
#ifndef ROE_QP_DOORBELL_H
#define ROE_QP_DOORBELL_H

#include "qp.h"

int roe_qp_doorbell_init(void);
void roe_qp_doorbell_exit(void);
void roe_qp_init_works(struct roe_qp *qp);

int roe_qp_doorbell(struct roe_qp *qp);
void roe_qp_poll(struct roe_qp *qp);
void roe_qp_defer(struct roe_qp *qp);
void roe_qp_defer_to(struct roe_qp *qp, int cpu);
void roe_qp_hand_over(struct roe_qp *qp, int cpu);
void roe_qp_flush_later(struct roe_qp *qp);

void roe_qp_flushed(struct roe_qp *qp);
void roe_qp_take_posted(struct ib_pd *ibpd);
void roe_qp_settle(struct roe_qp *qp);

#endif /* ROE_QP_DOORBELL_H */
