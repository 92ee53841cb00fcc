/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Messages of a stream that wait for later ones: see hold.c. */
#ifndef ROE_HOLD_H
#define ROE_HOLD_H

#include <linux/types.h>

struct roe_qp;
struct roe_ctx;

/* How fast the process on a CPU posts. Racy: a wrong guess costs little. */
struct roe_pace {
	const struct roe_qp *last;	/* QP of the last doorbell; only compared */
	u64	end;		/* ns: end of the last doorbell */
	u32	cost;		/* ns that a sending doorbell takes, on average */
};

/* State of a QP: under qp->lock. */
struct roe_hold {
	u64	until;		/* ns: WQEs in the SQ are held until then; 0: none */
	const struct roe_pace *pace;	/* of the CPU where they were posted */
	u64	again;		/* ns: after too many waits in vain, try again then */
	u32	behind;		/* SQ index after the last held WQE */
	u32	run;		/* doorbells in quick succession, less others */
	u32	need;		/* run that counts as a stream; NEED_MAX: none does */
	u32	good;		/* held trains since the timer had to send one */
};

bool roe_pace_doorbell(struct roe_pace *pace, const struct roe_qp *qp, u64 now);
void roe_pace_sent(struct roe_pace *pace, u64 begin, u64 end);

bool roe_hold_message(struct roe_qp *qp, const struct roe_ctx *ctx, const struct roe_pace *pace,
		      bool behind);
void roe_hold_expired(struct roe_qp *qp);
void roe_hold_reset(struct roe_qp *qp);

#endif /* ROE_HOLD_H */
