/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Network paths that let single packets through, but no trains of them: see trains.c. */
#ifndef ROE_TRAINS_H
#define ROE_TRAINS_H

#include <linux/types.h>

struct roe_qp;
struct roe_txb;

#define ROE_TRAINS_MISSES	8	/* so many missed in a row are no accident */

/* A requester has one for its requests, a responder for its responses. Under qp->lock. */
struct roe_trains {
	bool	on;		/* a train is being watched, or two of one burst */
	bool	told;		/* the kernel log says that trains do not arrive */
	u8	misses;		/* trains in a row before this one that did not arrive */
	u32	begin[4];	/* PSNs of the first two packets of each of them */
	u32	end;		/* all PSNs before this one: the trains have arrived */
};

void roe_trains_sent(struct roe_qp *qp, u64 now, const struct roe_txb *txb);
void roe_trains_missed(struct roe_qp *qp, struct roe_trains *trains, u64 now, u32 psn);
void roe_trains_arrived(struct roe_trains *trains, u32 psn);

#endif /* ROE_TRAINS_H */
