/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Requests that came before their turn: see early.c. */
#ifndef ROE_EARLY_H
#define ROE_EARLY_H

#include "transport.h"

void roe_early_keep(struct roe_qp *qp, const struct roe_rx_pkt *rx);
struct roe_early *roe_early_take(struct roe_resp *resp, const struct roe_rx_pkt **rx);
void roe_early_free(struct roe_early *early);
void roe_early_skip(struct roe_resp *resp, u32 npsn);
void roe_early_purge(struct roe_resp *resp);
void roe_early_exit(struct roe_resp *resp);

#endif /* ROE_EARLY_H */
