/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef ROE_POST_H
#define ROE_POST_H

#include "qp.h"

int roe_qp_doorbell(struct roe_qp *qp);
void roe_qp_poll(struct roe_qp *qp);
void roe_qp_defer(struct roe_qp *qp);
void roe_qp_take_posted(struct ib_pd *ibpd);

#endif /* ROE_POST_H */
