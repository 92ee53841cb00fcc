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
	bool	on;		/* a train is on its way, or two ... */
	bool	told;		/* ... the kernel log has it that they do not arrive */
	u8	misses;		/* ... so many before it did not */
	u32	begin[4];	/* PSNs of its first two packets, and of the other one's */
	u32	end;		/* all before this one: they have arrived */
};

void roe_trains_sent(struct roe_qp *qp, u64 now, const struct roe_txb *txb);
void roe_trains_missed(struct roe_qp *qp, struct roe_trains *trains, u64 now, u32 psn);
void roe_trains_arrived(struct roe_trains *trains, u32 psn);

#endif /* ROE_TRAINS_H */
