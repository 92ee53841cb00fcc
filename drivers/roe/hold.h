/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Messages of a stream that wait for company: see hold.c. */
#ifndef ROE_HOLD_H
#define ROE_HOLD_H

#include <linux/types.h>

struct roe_qp;
struct roe_ctx;

/* How fast the process on a CPU posts. Racy: a wrong guess costs little. */
struct roe_pace {
	const struct roe_qp *last;	/* whose doorbell was the last; only compared */
	u64	end;		/* ns, of that one */
	u32	cost;		/* ns, of a doorbell that sends, on average */
};

/* Of a QP: under qp->lock. */
struct roe_hold {
	u64	until;		/* ns: what is in the SQ may wait; 0: nothing does */
	const struct roe_pace *pace;	/* of the CPU whose process has posted it */
	u64	again;		/* ns: who had waited in vain too often may wait again */
	u32	behind;		/* SQ index behind what may */
	u32	run;		/* doorbells in a row, net of those that came alone */
	u32	need;		/* so many are a stream; NEED_MAX: none is */
	u32	good;		/* trains since the clock had to send one */
};

bool roe_pace_doorbell(struct roe_pace *pace, const struct roe_qp *qp, u64 now);
void roe_pace_sent(struct roe_pace *pace, u64 begin, u64 end);

bool roe_hold_message(struct roe_qp *qp, const struct roe_ctx *ctx, const struct roe_pace *pace,
		      bool behind);
void roe_hold_expired(struct roe_qp *qp);
void roe_hold_reset(struct roe_qp *qp);

#endif /* ROE_HOLD_H */
