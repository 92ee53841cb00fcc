/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Packets of a QP that were sent but have not left this host: see unsent.c. */
#ifndef ROE_UNSENT_H
#define ROE_UNSENT_H

#include <linux/types.h>

struct roe_ctx;
struct roe_qp;
struct roe_txb;
struct sk_buff;
struct socket;

/* State of a UC or UD QP, under qp->lock; unused for other types. */
struct roe_unsent {
	struct socket	*sock;		/* owner of its skbs; constant; NULL: not counted */
	u64		look;		/* ns: next check for room; 0: the QP does not wait */
	u32		wait;		/* ns from one check to the next */
};

int roe_unsent_init(struct roe_unsent *unsent);
void roe_unsent_reset(struct roe_unsent *unsent);
void roe_unsent_exit(struct roe_unsent *unsent);
u32 roe_unsent_waiting(const struct roe_unsent *unsent);
void roe_unsent_add(struct roe_unsent *unsent, struct sk_buff *skb);
bool roe_unsent_full(struct roe_qp *qp, const struct roe_ctx *ctx, const struct roe_txb *txb);
void roe_unsent_look(struct roe_unsent *unsent);

#endif /* ROE_UNSENT_H */
