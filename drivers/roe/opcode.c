// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * The opcode table (IBTA 9.3, wire.md section 2).
 */
#include <linux/build_bug.h>
#include <linux/kernel.h>
#include <roe/opcode.h>
#include <roe/wire.h>

/* Header bytes follow from the flags: a row cannot contradict itself. */
#define HDRLEN(f)							\
	(sizeof(struct roe_bth) +					\
	 ((f) & ROE_F_DETH ? sizeof(struct roe_deth) : 0) +		\
	 ((f) & ROE_F_FETH ? sizeof(struct roe_feth) : 0) +		\
	 ((f) & ROE_F_RETH ? sizeof(struct roe_reth) : 0) +		\
	 ((f) & ROE_F_ATOMICETH ? sizeof(struct roe_atomiceth) : 0) +	\
	 ((f) & ROE_F_AETH ? sizeof(struct roe_aeth) : 0) +		\
	 ((f) & ROE_F_ATOMICACK ? sizeof(struct roe_atomicacketh) : 0) +	\
	 ((f) & ROE_F_IMM ? sizeof(struct roe_immdt) : 0) +		\
	 ((f) & ROE_F_IETH ? sizeof(struct roe_ieth) : 0) +		\
	 ((f) & ROE_F_CNP ? ROE_CNP_BODY_LEN : 0))

#define ROW(op, pay, f)							\
	[op] = { .flags = (f), .hdrlen = HDRLEN(f), .payload = ROE_PAY_##pay }

#define RC(op, pay, f)	ROW(ROE_XPORT_RC | ROE_OP_##op, pay, f)
#define UC(op, pay, f)	ROW(ROE_XPORT_UC | ROE_OP_##op, pay, f)

#define REQ_SEND	(ROE_F_REQUEST | ROE_F_SEND)
#define REQ_WRITE	(ROE_F_REQUEST | ROE_F_WRITE)
#define REQ_RMW		(ROE_F_REQUEST | ROE_F_ATOMIC | ONLY)
#define RESP		ROE_F_RESPONSE
#define FIRST		ROE_F_START
#define MIDDLE		ROE_F_MIDDLE
#define LAST		ROE_F_END
#define ONLY		(ROE_F_START | ROE_F_END)

const struct roe_opcode_info roe_opcode_table[256] = {
	RC(SEND_FIRST,		MTU,	REQ_SEND | FIRST | ROE_F_RWQE),
	RC(SEND_MIDDLE,		MTU,	REQ_SEND | MIDDLE),
	RC(SEND_LAST,		1_MTU,	REQ_SEND | LAST | ROE_F_COMP),
	RC(SEND_LAST_IMM,	1_MTU,	REQ_SEND | LAST | ROE_F_COMP | ROE_F_IMM),
	RC(SEND_ONLY,		0_MTU,	REQ_SEND | ONLY | ROE_F_RWQE | ROE_F_COMP),
	RC(SEND_ONLY_IMM,	0_MTU,	REQ_SEND | ONLY | ROE_F_RWQE | ROE_F_COMP | ROE_F_IMM),
	RC(WRITE_FIRST,		MTU,	REQ_WRITE | FIRST | ROE_F_RETH),
	RC(WRITE_MIDDLE,	MTU,	REQ_WRITE | MIDDLE),
	RC(WRITE_LAST,		1_MTU,	REQ_WRITE | LAST),
	RC(WRITE_LAST_IMM,	1_MTU,	REQ_WRITE | LAST | ROE_F_RWQE | ROE_F_COMP | ROE_F_IMM),
	RC(WRITE_ONLY,		0_MTU,	REQ_WRITE | ONLY | ROE_F_RETH),
	RC(WRITE_ONLY_IMM,	0_MTU,	REQ_WRITE | ONLY | ROE_F_RETH | ROE_F_RWQE | ROE_F_COMP |
					ROE_F_IMM),

	UC(SEND_FIRST,		MTU,	REQ_SEND | FIRST | ROE_F_RWQE),
	UC(SEND_MIDDLE,		MTU,	REQ_SEND | MIDDLE),
	UC(SEND_LAST,		1_MTU,	REQ_SEND | LAST | ROE_F_COMP),
	UC(SEND_LAST_IMM,	1_MTU,	REQ_SEND | LAST | ROE_F_COMP | ROE_F_IMM),
	UC(SEND_ONLY,		0_MTU,	REQ_SEND | ONLY | ROE_F_RWQE | ROE_F_COMP),
	UC(SEND_ONLY_IMM,	0_MTU,	REQ_SEND | ONLY | ROE_F_RWQE | ROE_F_COMP | ROE_F_IMM),
	UC(WRITE_FIRST,		MTU,	REQ_WRITE | FIRST | ROE_F_RETH),
	UC(WRITE_MIDDLE,	MTU,	REQ_WRITE | MIDDLE),
	UC(WRITE_LAST,		1_MTU,	REQ_WRITE | LAST),
	UC(WRITE_LAST_IMM,	1_MTU,	REQ_WRITE | LAST | ROE_F_RWQE | ROE_F_COMP | ROE_F_IMM),
	UC(WRITE_ONLY,		0_MTU,	REQ_WRITE | ONLY | ROE_F_RETH),
	UC(WRITE_ONLY_IMM,	0_MTU,	REQ_WRITE | ONLY | ROE_F_RETH | ROE_F_RWQE | ROE_F_COMP |
					ROE_F_IMM),

	RC(READ_REQ,		NONE,	ROE_F_REQUEST | ROE_F_READ | ONLY | ROE_F_RETH),
	RC(READ_RESP_FIRST,	MTU,	RESP | ROE_F_READ | FIRST | ROE_F_AETH),
	RC(READ_RESP_MIDDLE,	MTU,	RESP | ROE_F_READ | MIDDLE),
	RC(READ_RESP_LAST,	1_MTU,	RESP | ROE_F_READ | LAST | ROE_F_AETH),
	RC(READ_RESP_ONLY,	0_MTU,	RESP | ROE_F_READ | ONLY | ROE_F_AETH),
	RC(ACK,			NONE,	RESP | ONLY | ROE_F_AETH),
	RC(ATOMIC_ACK,		NONE,	RESP | ROE_F_ATOMIC | ONLY | ROE_F_AETH |
					ROE_F_ATOMICACK),
	RC(CMP_SWAP,		NONE,	REQ_RMW | ROE_F_ATOMICETH),
	RC(FETCH_ADD,		NONE,	REQ_RMW | ROE_F_ATOMICETH),
	RC(SEND_LAST_INV,	1_MTU,	REQ_SEND | LAST | ROE_F_COMP | ROE_F_IETH),
	RC(SEND_ONLY_INV,	0_MTU,	REQ_SEND | ONLY | ROE_F_RWQE | ROE_F_COMP | ROE_F_IETH),
	RC(FLUSH,		NONE,	ROE_F_REQUEST | ONLY | ROE_F_FETH | ROE_F_RETH),
	RC(ATOMIC_WRITE,	8,	ROE_F_REQUEST | ONLY | ROE_F_RETH),

	ROW(ROE_OPCODE_UD_SEND_ONLY, 0_MTU,
	    REQ_SEND | ONLY | ROE_F_RWQE | ROE_F_COMP | ROE_F_DETH),
	ROW(ROE_OPCODE_UD_SEND_ONLY_IMM, 0_MTU,
	    REQ_SEND | ONLY | ROE_F_RWQE | ROE_F_COMP | ROE_F_DETH | ROE_F_IMM),

	/* Neither request nor response: no PSN, no ACK. */
	ROW(ROE_OPCODE_CNP, NONE, ROE_F_CNP | ONLY),
};

ROE_EXPORT_FOR_TEST(roe_opcode_table);

/**
 * roe_opcode_len_ok() - may a packet of this opcode carry so much payload?
 * @opcode: BTH opcode
 * @len: payload, pad not counted, bytes
 * @mtu: path MTU of the QP, bytes
 *
 * First and Middle carry exactly one MTU: both sides compute addresses and PSNs
 * from that, so a shorter one would shift all data behind it (wire.md section 2).
 *
 * Return: false for an unknown opcode as well.
 */
bool roe_opcode_len_ok(u8 opcode, u32 len, u32 mtu)
{
	const struct roe_opcode_info *info = roe_opcode(opcode);

	if (!info->flags)
		return false;

	switch ((enum roe_payload)info->payload) {
	case ROE_PAY_NONE:
		return !len;
	case ROE_PAY_MTU:
		return len == mtu;
	case ROE_PAY_1_MTU:
		return len && len <= mtu;
	case ROE_PAY_0_MTU:
		return len <= mtu;
	case ROE_PAY_8:
		return len == 8;
	}
	return false;
}

ROE_EXPORT_FOR_TEST(roe_opcode_len_ok);
