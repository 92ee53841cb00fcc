/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * How much of a processor RNR retries may take.
 *
 * A QP whose peer has no receive WQE tries again when its RNR timer has expired, perhaps after
 * 10 us, and for ever with an rnr_retry of 7. The timer runs in a softirq, before any process,
 * so a few hundred QPs of one process would keep a CPU from all other processes. The RNR timer
 * is the least that a requester has to wait (IBTA 9.7.5.2.8): where the retries of a CPU have
 * taken more than a share of its time lately, the next ones wait longer. They wait the longer
 * the more often the same packet was refused, so that a message which finds no receive WQE once
 * does not queue up behind a crowd that never finds one.
 */
#ifndef ROE_RNR_H
#define ROE_RNR_H

#include <linux/types.h>

u64 roe_rnr_pace(u64 at, u64 now, unsigned int refused);
void roe_rnr_spent(u64 ns);

#endif /* ROE_RNR_H */
