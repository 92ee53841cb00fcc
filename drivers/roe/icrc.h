/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The invariant CRC: CRC-32 of Ethernet (not CRC-32C) over the packet with all
 * fields that may change on the way set to ones (wire.md section 3).
 *
 *	roe_icrc_begin(&run, bytes);
 *	for each packet:
 *		crc = roe_icrc_head(&run, &heads, ...);	L3, UDP and BTH, masked
 *		crc = roe_icrc_update(&run, crc, ...);	extended headers
 *		crc = roe_icrc_copy(&run, crc, ...);	payload, copied on the way
 *		crc = roe_icrc_update(&run, crc, ...);	pad
 *		icrc = roe_icrc_final(crc);		the four bytes on the wire
 *	roe_icrc_end(&run);
 *
 * A run is what shares one FPU section: a superpacket, a train of packets, up to
 * 64 KB, so that saving the user's FPU registers is paid once and preemption is
 * off for a few microseconds. Between begin and end the caller may copy and
 * compute, but neither sleep nor allocate nor hand packets on; it ends the run
 * in the context that began it, with interrupts enabled or disabled as then.
 *
 * Context: any but NMI, best with softirqs disabled. A run that interrupts
 * another user of the FPU is right as well, only slower.
 */
#ifndef ROE_ICRC_H
#define ROE_ICRC_H

#include <linux/ip.h>
#include <linux/ipv6.h>
#include <linux/types.h>
#include <linux/udp.h>
#include <asm/byteorder.h>
#include <roe/wire.h>

/* Headers seen before, all zero at first: most come again with another IPv4 ID and PSN. */
struct roe_icrc_head {
	union {
		struct iphdr	ip4;
		struct ipv6hdr	ip6;
	};
	struct udphdr	udp;		/* length 0: nothing is kept here yet */
	struct roe_bth	bth;
	bool		v6;
	u32		crc;		/* register after the BTH if ID, AckReq and PSN were 0 */
};

#define ROE_ICRC_HEADS	32

/* Owned by the context that computes ICRCs: usually per CPU. */
struct roe_icrc_heads {
	struct roe_icrc_head	head[ROE_ICRC_HEADS];
};

/*
 * Private to icrc.c; on the stack, or in another object with one owner. All packets of a
 * run are of one flow: their L3 and UDP headers differ by IPv4 ID and length only.
 */
struct roe_icrc_run {
	bool			fpu;	/* an FPU section is open */
	struct roe_icrc_head	*head;	/* of the last packet with a UDP header; NULL: none */
};

void roe_icrc_begin(struct roe_icrc_run *run, u32 bytes);
void roe_icrc_end(struct roe_icrc_run *run);

u32 roe_icrc_head(struct roe_icrc_run *run, struct roe_icrc_heads *heads, const void *l3,
		  bool v6, const struct udphdr *udp, const struct roe_bth *bth);
u32 roe_icrc_update(struct roe_icrc_run *run, u32 crc, const void *data, size_t len);
u32 roe_icrc_copy(struct roe_icrc_run *run, u32 crc, void *dst, const void *src, size_t len);

/* Little-endian like the FCS of Ethernet, although all headers are big-endian. */
static inline __le32 roe_icrc_final(u32 crc)
{
	return cpu_to_le32(~crc);
}

int roe_icrc_init(void);

#endif /* ROE_ICRC_H */
