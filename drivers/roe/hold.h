/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Messages of a stream that wait for company: see hold.c. */
#ifndef ROE_HOLD_H
#define ROE_HOLD_H

#include <linux/types.h>

struct roe_qp;
struct roe_ctx;

/* How fast the process on a CPU posts. Racy: a wrong guess costs little. */
struct roe_pace {
	u64	end;		/* ns, of its last doorbell; 0: not known */
	u32	cost;		/* ns, of a doorbell that sends, on average */
	u32	run;		/* doorbells that came faster, net of others */
};

/* Of a QP: under qp->lock. */
struct roe_hold {
	u64	until;		/* ns: what is in the SQ may wait; 0: nothing does */
	u32	behind;		/* SQ index behind what may */
	u32	need;		/* so many doorbells are a stream */
	u32	good;		/* trains since the clock had to send one */
};

u32 roe_pace_doorbell(struct roe_pace *pace, u64 now);
void roe_pace_sent(struct roe_pace *pace, u64 begin, u64 end);

bool roe_hold_message(struct roe_qp *qp, const struct roe_ctx *ctx, u32 run);
void roe_hold_expired(struct roe_qp *qp);
void roe_hold_reset(struct roe_qp *qp);

#endif /* ROE_HOLD_H */
