/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* UC and UD packets sent to this host, and the CPU that they are sent from: see backlog.c. */
#ifndef ROE_BACKLOG_H
#define ROE_BACKLOG_H

#include "qp.h"

bool roe_backlog_is_elsewhere(const struct roe_qp *qp);
bool roe_backlog_defer(struct roe_qp *qp, u64 now);
void roe_backlog_enable_softirqs(struct roe_qp *qp);
bool roe_backlog_wait(void);

#endif /* ROE_BACKLOG_H */
