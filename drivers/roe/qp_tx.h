/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Bursts of a QP, from its engines to the network or to a QP of this device: see qp_tx.c. */
#ifndef ROE_QP_TX_H
#define ROE_QP_TX_H

#include "qp.h"

int roe_qp_tx_init(void);
void roe_qp_tx_exit(void);

bool roe_qp_transmit(struct roe_qp *qp, struct roe_ctx *ctx);

#endif /* ROE_QP_TX_H */
