/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Packets that came before their turn: see early.c. */
#ifndef ROE_EARLY_H
#define ROE_EARLY_H

#include "transport.h"

/* Slots for packets ahead, powers of 2: at first, and at most if there is room. */
#define ROE_EARLY_SLOTS	512
#define ROE_EARLY_MAX	4096

/* A responder drops kept requests so long after the last packet that was kept or closed a gap. */
#define ROE_EARLY_KEPT_NS	(5ull * NSEC_PER_SEC)

bool roe_early_keep(struct roe_early_set *set, u32 next, const struct roe_rx_pkt *rx, u32 mtu);
struct roe_early *roe_early_take(struct roe_early_set *set, u32 psn,
				 const struct roe_rx_pkt **rx);
struct roe_early *roe_early_take_first(struct roe_early_set *set, u32 next,
				       const struct roe_rx_pkt **rx);
void roe_early_put_back(struct roe_early_set *set, struct roe_early *early);
void roe_early_free(struct roe_early *early);
void roe_early_skip(struct roe_early_set *set, u32 psn, u32 npsn);
void roe_early_purge(struct roe_early_set *set);
void roe_early_exit(struct roe_early_set *set);

#endif /* ROE_EARLY_H */
