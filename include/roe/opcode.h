/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * One const row per BTH opcode: which headers follow, what the payload may
 * be, what role the packet plays. Build and parse both read this table
 * (IBTA 9.3, wire.md section 2).
 */
#ifndef ROE_OPCODE_H
#define ROE_OPCODE_H

#include <linux/bits.h>
#include <linux/types.h>

enum roe_opcode_flag {
	/* extended headers, in the order in which they follow the BTH */
	ROE_F_DETH	= BIT(0),
	ROE_F_FETH	= BIT(1),
	ROE_F_RETH	= BIT(2),
	ROE_F_ATOMICETH	= BIT(3),
	ROE_F_AETH	= BIT(4),
	ROE_F_ATOMICACK	= BIT(5),
	ROE_F_IMM	= BIT(6),
	ROE_F_IETH	= BIT(7),
	/* role */
	ROE_F_REQUEST	= BIT(8),
	ROE_F_RESPONSE	= BIT(9),
	ROE_F_SEND	= BIT(10),
	ROE_F_WRITE	= BIT(11),
	ROE_F_READ	= BIT(12),	/* READ Request or READ Response */
	ROE_F_ATOMIC	= BIT(13),
	/* place in the message; ONLY is START and END */
	ROE_F_START	= BIT(14),
	ROE_F_MIDDLE	= BIT(15),
	ROE_F_END	= BIT(16),
	/* receive WQE */
	ROE_F_RWQE	= BIT(17),	/* needs a receive WQE on arrival */
	ROE_F_COMP	= BIT(18),	/* completes it */
	ROE_F_CNP	= BIT(19),
};

/* A CNP is a BTH and so many zero bytes, here counted as header. */
#define ROE_CNP_BODY_LEN	16

/* How long the payload may be, in bytes, M being the path MTU. */
enum roe_payload {
	ROE_PAY_NONE,		/* 0 */
	ROE_PAY_MTU,		/* M */
	ROE_PAY_1_MTU,		/* 1 .. M */
	ROE_PAY_0_MTU,		/* 0 .. M */
	ROE_PAY_8,		/* 8 */
};

struct roe_opcode_info {
	u32	flags;		/* 0: no such opcode */
	u8	hdrlen;		/* BTH and extended headers, bytes */
	u8	payload;	/* enum roe_payload */
};

extern const struct roe_opcode_info roe_opcode_table[256];

static inline const struct roe_opcode_info *roe_opcode(u8 opcode)
{
	return &roe_opcode_table[opcode];
}

bool roe_opcode_len_ok(u8 opcode, u32 len, u32 mtu);

#endif /* ROE_OPCODE_H */
