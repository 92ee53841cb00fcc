/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Packets between two QPs of one device: no skb, no ICRC, no network. */
#ifndef ROE_DIRECT_H
#define ROE_DIRECT_H

#include "qp.h"

int roe_direct_init(void);
void roe_direct_exit(void);

/* The rule alone, for KUnit. */
bool roe_direct_way(struct roe_qp *qp, struct roe_ctx *ctx, bool possible);

/*
 * qp->lock held, softirqs disabled, RCU read-side section. roe_direct_peer() returns
 * the QP to which this round goes directly, NULL for the network; it may set
 * ctx->answers_only or requests_only. roe_direct_send() sends one burst to that QP,
 * drops the lock meanwhile, and returns whether more is to be sent.
 */
struct roe_qp *roe_direct_peer(struct roe_qp *qp, struct roe_ctx *ctx);
bool roe_direct_send(struct roe_qp *qp, struct roe_ctx *ctx, struct roe_qp *peer);

#endif /* ROE_DIRECT_H */
