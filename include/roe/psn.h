/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * 24-bit packet sequence numbers. All arithmetic is modulo 2^24; of two PSNs
 * the one less than 2^23 ahead is the newer (IBTA 9.7.1, wire.md 4.1).
 */
#ifndef ROE_PSN_H
#define ROE_PSN_H

#include <linux/log2.h>
#include <linux/types.h>
#include <roe/wire.h>

/* Sum of a PSN and a (possibly negative) number of packets. */
static inline u32 roe_psn_add(u32 psn, u32 n)
{
	return (psn + n) & ROE_PSN_MASK;
}

/* Signed distance a - b in packets, -2^23 .. 2^23 - 1. */
static inline s32 roe_psn_diff(u32 a, u32 b)
{
	return (s32)((a - b) << 8) >> 8;
}

/* Packets of a message of @len bytes at @mtu bytes each; at least one. */
static inline u32 roe_psn_count(u64 len, u32 mtu)
{
	return len ? (u32)((len + mtu - 1) >> ilog2(mtu)) : 1;
}

#endif /* ROE_PSN_H */
