/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* The frame of every run of a QP: lock, engines, transmission, notifications. See qp_run.c. */
#ifndef ROE_QP_RUN_H
#define ROE_QP_RUN_H

#include "qp.h"

/* Bursts that one call sends; the worker does the rest. */
#define ROE_QP_ROUNDS	4

/*
 * Begin: softirqs off, RCU read-side section, qp->lock, time read.
 * End: one burst sent, timer armed, lock dropped, notifications and events
 * delivered, softirqs on. Packets beyond one burst are left to the worker. After
 * end_round softirqs stay off, and packets beyond one burst are left to the caller. end_idle is
 * for a run that has changed nothing; softirqs stay off.
 * Not from hard interrupts.
 */
void roe_qp_begin(struct roe_qp *qp, struct roe_ctx *ctx);
void roe_qp_end(struct roe_qp *qp, struct roe_ctx *ctx);
bool roe_qp_end_round(struct roe_qp *qp, struct roe_ctx *ctx);
void roe_qp_end_idle(struct roe_qp *qp);

void roe_qp_receive(struct roe_qp *qp, struct roe_rx_pkt *pkts, unsigned int n);
void roe_qp_deliver(struct roe_qp *qp, struct roe_txb *txb);

void roe_qp_init_events(struct roe_qp *qp);
void roe_qp_init_timer(struct roe_qp *qp);
void roe_qp_take_timer(struct roe_qp *qp);

/* Are posted WQEs still to be flushed? Under qp->lock. */
static inline bool roe_qp_flushes(const struct roe_qp *qp)
{
	return qp->flush_more && (qp->state == IB_QPS_ERR || qp->state == IB_QPS_SQE);
}

#endif /* ROE_QP_RUN_H */
