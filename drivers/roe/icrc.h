/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The invariant CRC: CRC-32 of Ethernet (not CRC-32C) over the packet with all
 * fields that may change on the way set to ones (wire.md section 3).
 *
 *	crc = roe_icrc_head(...);		L3, UDP and BTH, masked
 *	crc = roe_icrc_update(crc, ...);	extended headers, payload, pad
 *	icrc = roe_icrc_final(crc);		the four bytes on the wire
 *
 * Pure functions, any context in which softirqs or preemption may be disabled.
 */
#ifndef ROE_ICRC_H
#define ROE_ICRC_H

#include <linux/types.h>
#include <asm/byteorder.h>

struct udphdr;
struct roe_bth;

/*
 * CRC register after the eight bytes 0xff (the masked LRH) and the masked
 * headers. @l3: an IPv4 header of 20 bytes, or an IPv6 header or GRH if @v6.
 * @udp: NULL for RoCEv1. Addresses, ports, IPv4 ID and lengths must be final.
 */
u32 roe_icrc_head(const void *l3, bool v6, const struct udphdr *udp,
		  const struct roe_bth *bth);
u32 roe_icrc_update(u32 crc, const void *data, size_t len);

/* Little-endian like the FCS of Ethernet, although all headers are big-endian. */
static inline __le32 roe_icrc_final(u32 crc)
{
	return cpu_to_le32(~crc);
}

void roe_icrc_init(void);
void roe_icrc_exit(void);

#endif /* ROE_ICRC_H */
