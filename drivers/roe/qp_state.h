/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* The frame of every run of a QP: lock, engines, transmission, what is owed. */
#ifndef ROE_QP_STATE_H
#define ROE_QP_STATE_H

#include "qp.h"

/*
 * Begin: softirqs off, RCU read-side section, qp->lock, time read.
 * End: one round of the engines, timer armed, lock dropped, notifications and
 * events delivered, softirqs on. More than one round of packets goes to the
 * worker. Not from hard interrupts.
 */
void roe_qp_begin(struct roe_qp *qp, struct roe_ctx *ctx);
void roe_qp_end(struct roe_qp *qp, struct roe_ctx *ctx);

void roe_qp_init_events(struct roe_qp *qp);
void roe_qp_settle(struct roe_qp *qp);
void roe_qp_flushed(struct roe_qp *qp);
void roe_qp_forget_completions(struct roe_qp *qp);

#endif /* ROE_QP_STATE_H */
