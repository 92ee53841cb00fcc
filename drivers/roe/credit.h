/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * End-to-end credits: for how many messages the peer has receives (credit.c). Under qp->lock.
 */
#ifndef ROE_CREDIT_H
#define ROE_CREDIT_H

#include <linux/types.h>
#include <roe/pkt.h>
#include <roe/psn.h>

struct roe_qp;
struct roe_swqe;

/* Messages are numbered from 1 as they are started, in 24 bits: their SSN. */
struct roe_credit {
	u32	ssn;		/* of the last that was started */
	u32	done;		/* ... of the last that is retired */
	u32	lsn;		/* limit sequence number: the peer has receive WQEs up to here */
	bool	limited;	/* lsn holds; false: start any message */
	u8	beyond;		/* messages started beyond lsn in a row, and not refused */
};

void roe_credit_learn(struct roe_qp *qp, const struct roe_pkt *p);
bool roe_credit_allows(const struct roe_qp *qp, const struct roe_swqe *wqe);
bool roe_credit_takes(const struct roe_swqe *wqe);
void roe_credit_started(struct roe_credit *credit, const struct roe_swqe *wqe);

#endif /* ROE_CREDIT_H */
