/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Ways that let packets through, but no trains of them: see trains.c. */
#ifndef ROE_TRAINS_H
#define ROE_TRAINS_H

#include <linux/types.h>

struct roe_qp;
struct roe_txb;

#define ROE_TRAINS_MISSES	8	/* so many in a row are no accident */

/* Of a requester and of a responder, each for what it sends. Under qp->lock. */
struct roe_trains {
	bool	on;		/* a train is on its way ... */
	u8	misses;		/* ... and so many before it did not arrive */
	u32	first, end;	/* its first packets: from this PSN, before that one */
};

void roe_trains_sent(struct roe_qp *qp, const struct roe_txb *txb);
void roe_trains_missed(struct roe_qp *qp, struct roe_trains *trains, u32 psn);
void roe_trains_arrived(struct roe_trains *trains, u32 psn);

#endif /* ROE_TRAINS_H */
