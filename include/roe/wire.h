/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * RoCEv2 on the wire: every header layout, opcode and protocol constant,
 * and no logic. Layouts: IBTA vol. 1 chapter 9, RoCEv2 annex A17.
 */
#ifndef ROE_WIRE_H
#define ROE_WIRE_H

#include <linux/types.h>

#define ROE_UDP_PORT		4791
#define ROE_ICRC_LEN		4
#define ROE_GRH_LEN		40

/* BTH, 12 bytes. Multi-byte fields are big-endian. */
struct roe_bth {
	u8	opcode;
	u8	flags;		/* SE, MigReq, PadCnt, TVer */
	__be16	pkey;
	__be32	qpn;		/* FECN, BECN, reserved (byte 4); DestQP */
	__be32	apsn;		/* AckReq, reserved; PSN */
} __packed;

#define ROE_BTH_SE		0x80
#define ROE_BTH_MIG		0x40
#define ROE_BTH_PAD_SHIFT	4
#define ROE_BTH_PAD_MASK	0x30
#define ROE_BTH_TVER_MASK	0x0f
#define ROE_BTH_FECN		0x80000000u
#define ROE_BTH_BECN		0x40000000u
#define ROE_BTH_ACKREQ		0x80000000u
#define ROE_QPN_MASK		0x00ffffffu
#define ROE_QPN_GSI		1
#define ROE_QPN_MCAST		0x00ffffffu
#define ROE_PSN_MASK		0x00ffffffu

struct roe_reth {
	__be64	va;
	__be32	rkey;
	__be32	dmalen;
} __packed;

struct roe_atomiceth {
	__be64	va;
	__be32	rkey;
	__be64	swap_add;
	__be64	compare;
} __packed;

struct roe_aeth {
	__be32	smsn;		/* syndrome (8), MSN (24) */
} __packed;

struct roe_atomicacketh {
	__be64	orig;
} __packed;

struct roe_immdt {
	__be32	imm;
} __packed;

struct roe_ieth {
	__be32	rkey;
} __packed;

struct roe_deth {
	__be32	qkey;
	__be32	sqp;
} __packed;

struct roe_feth {
	__be32	bits;		/* SEL (b5-4), PLT (b3-0) */
} __packed;

#define ROE_FETH_PLT_MASK	0x0f
#define ROE_FETH_PLT_GLOBAL	0x01
#define ROE_FETH_PLT_PERSISTENT	0x02
#define ROE_FETH_SEL_SHIFT	4
#define ROE_FETH_SEL_MASK	0x30
#define ROE_FETH_SEL_RANGE	0
#define ROE_FETH_SEL_MR		1

/* Transport in BTH opcode b7-5, operation in b4-0. */
#define ROE_XPORT_RC		0x00
#define ROE_XPORT_UC		0x20
#define ROE_XPORT_UD		0x60
#define ROE_XPORT_MASK		0xe0
#define ROE_OP_MASK		0x1f

enum roe_op {
	ROE_OP_SEND_FIRST	= 0x00,
	ROE_OP_SEND_MIDDLE	= 0x01,
	ROE_OP_SEND_LAST	= 0x02,
	ROE_OP_SEND_LAST_IMM	= 0x03,
	ROE_OP_SEND_ONLY	= 0x04,
	ROE_OP_SEND_ONLY_IMM	= 0x05,
	ROE_OP_WRITE_FIRST	= 0x06,
	ROE_OP_WRITE_MIDDLE	= 0x07,
	ROE_OP_WRITE_LAST	= 0x08,
	ROE_OP_WRITE_LAST_IMM	= 0x09,
	ROE_OP_WRITE_ONLY	= 0x0a,
	ROE_OP_WRITE_ONLY_IMM	= 0x0b,
	ROE_OP_READ_REQ		= 0x0c,
	ROE_OP_READ_RESP_FIRST	= 0x0d,
	ROE_OP_READ_RESP_MIDDLE	= 0x0e,
	ROE_OP_READ_RESP_LAST	= 0x0f,
	ROE_OP_READ_RESP_ONLY	= 0x10,
	ROE_OP_ACK		= 0x11,
	ROE_OP_ATOMIC_ACK	= 0x12,
	ROE_OP_CMP_SWAP		= 0x13,
	ROE_OP_FETCH_ADD	= 0x14,
	ROE_OP_SEND_LAST_INV	= 0x16,
	ROE_OP_SEND_ONLY_INV	= 0x17,
	ROE_OP_FLUSH		= 0x1c,
	ROE_OP_ATOMIC_WRITE	= 0x1d,
};

#define ROE_OPCODE_UD_SEND_ONLY		(ROE_XPORT_UD | ROE_OP_SEND_ONLY)
#define ROE_OPCODE_UD_SEND_ONLY_IMM	(ROE_XPORT_UD | ROE_OP_SEND_ONLY_IMM)
#define ROE_OPCODE_CNP			0x81

/* DSCP 48 and ECT(0), as ConnectX sends CNPs: switches have a queue for that (wire.md 10). */
#define ROE_CNP_TCLASS			0xc2

/* AETH syndrome: kind in b6-5, value in b4-0 (wire.md 4.2). */
#define ROE_AETH_KIND_MASK	0x60
#define ROE_AETH_ACK		0x00
#define ROE_AETH_RNR_NAK	0x20
#define ROE_AETH_RSVD		0x40
#define ROE_AETH_NAK		0x60
#define ROE_AETH_VALUE_MASK	0x1f
#define ROE_AETH_NO_CREDITS	0x1f

enum roe_nak {
	ROE_NAK_PSN_SEQ		= 0x60,
	ROE_NAK_INV_REQ		= 0x61,
	ROE_NAK_REM_ACCESS	= 0x62,
	ROE_NAK_REM_OP		= 0x63,
};

/* A message is at most 2^31 bytes (IBTA C9-3). */
#define ROE_MSG_MAX		0x80000000u

/* Longest BTH + extended headers of any packet: BTH, AtomicETH. */
#define ROE_HDR_MAX		40

#endif /* ROE_WIRE_H */
