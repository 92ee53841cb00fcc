/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef ROE_RESTRACK_H
#define ROE_RESTRACK_H

#include <rdma/ib_verbs.h>

/* verbs: details for "rdma resource -dd" */
int roe_restrack_qp(struct sk_buff *msg, struct ib_qp *ibqp);
int roe_restrack_cq(struct sk_buff *msg, struct ib_cq *ibcq);
int roe_restrack_mr(struct sk_buff *msg, struct ib_mr *ibmr);
int roe_restrack_mr_stat(struct sk_buff *msg, struct ib_mr *ibmr);

#endif /* ROE_RESTRACK_H */
