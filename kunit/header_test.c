// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * BTH and extended headers: built and parsed again for every opcode, payload
 * length and pad; bytes on the wire where the layout itself is at stake; lengths
 * that must be refused.
 */
#include <kunit/test.h>
#include <roe/opcode.h>
#include <roe/pkt.h>

/* All fields different in all bytes; len is set by the test. */
static const struct roe_pkt full = {
	.se = true,
	.ackreq = true,
	.syndrome = 0x63,
	.pkey = 0xf1f2,
	.qpn = 0x112233,
	.psn = 0x445566,
	.msn = 0x778899,
	.rkey = 0xaabbccdd,
	.dmalen = 0x01020304,
	.va = 0x1112131415161718ull,
	.swap_add = 0x2122232425262728ull,
	.compare = 0x3132333435363738ull,
	.imm = (__force __be32)0x51525354,
	.qkey = 0x61626364,
	.sqp = 0x717273,
	.feth = 0x21,
};

static void opcode_desc(const u8 *op, char *desc)
{
	snprintf(desc, KUNIT_PARAM_DESC_SIZE, "0x%02x", *op);
}

static const u8 opcodes[] = {
	0x00, 0x01, 0x02, 0x03, 0x04, 0x05, 0x06, 0x07, 0x08, 0x09, 0x0a, 0x0b, 0x0c, 0x0d,
	0x0e, 0x0f, 0x10, 0x11, 0x12, 0x13, 0x14, 0x16, 0x17, 0x1c, 0x1d, 0x20, 0x21, 0x22,
	0x23, 0x24, 0x25, 0x26, 0x27, 0x28, 0x29, 0x2a, 0x2b, 0x64, 0x65, 0x81,
};

KUNIT_ARRAY_PARAM(opcode, opcodes, opcode_desc);

/* What a reader can know of @full when only the headers of @flags are there. */
static struct roe_pkt expected(u8 opcode, u32 len)
{
	u32 flags = roe_opcode(opcode)->flags;
	bool addr = flags & (ROE_F_RETH | ROE_F_ATOMICETH);
	struct roe_pkt p = full;

	p.opcode = opcode;
	p.len = len;
	p.syndrome = flags & ROE_F_AETH ? p.syndrome : 0;
	p.msn = flags & ROE_F_AETH ? p.msn : 0;
	p.rkey = addr || flags & ROE_F_IETH ? p.rkey : 0;
	p.va = addr ? p.va : 0;
	p.dmalen = flags & ROE_F_RETH ? p.dmalen : 0;
	p.swap_add = flags & ROE_F_ATOMICETH ? p.swap_add : 0;
	p.compare = flags & (ROE_F_ATOMICETH | ROE_F_ATOMICACK) ? p.compare : 0;
	p.imm = flags & ROE_F_IMM ? p.imm : 0;
	p.qkey = flags & ROE_F_DETH ? p.qkey : 0;
	p.sqp = flags & ROE_F_DETH ? p.sqp : 0;
	p.feth = flags & ROE_F_FETH ? p.feth : 0;
	return p;
}

static void expect_same(struct kunit *test, const struct roe_pkt *a, const struct roe_pkt *b)
{
#define SAME(field)	KUNIT_EXPECT_EQ_MSG(test, (u64)a->field, (u64)b->field, #field)
	SAME(opcode);
	SAME(se);
	SAME(ackreq);
	SAME(syndrome);
	SAME(pkey);
	SAME(qpn);
	SAME(psn);
	SAME(msn);
	SAME(rkey);
	SAME(dmalen);
	SAME(va);
	SAME(swap_add);
	SAME(compare);
	SAME(qkey);
	SAME(sqp);
	SAME(feth);
	SAME(len);
#undef SAME
	KUNIT_EXPECT_TRUE(test, a->imm == b->imm);
}

static void header_round_trip(struct kunit *test)
{
	static const u32 lens[] = { 0, 1, 2, 3, 4, 5, 255, 256, 1023, 1024, 4095, 4096 };
	u8 opcode = *(const u8 *)test->param_value;
	u32 i;

	for (i = 0; i < ARRAY_SIZE(lens); i++) {
		struct roe_pkt in = full, out, want = expected(opcode, lens[i]);
		u8 buf[ROE_HDR_MAX];
		u32 hdrlen;

		in.opcode = opcode;
		in.len = lens[i];
		hdrlen = roe_header_build(&in, buf);
		KUNIT_ASSERT_EQ(test, hdrlen, roe_opcode(opcode)->hdrlen);
		memset(&out, 0xff, sizeof(out));
		KUNIT_EXPECT_EQ(test, hdrlen,
				roe_header_parse(buf, hdrlen + ALIGN(lens[i], 4) + ROE_ICRC_LEN,
						 &out));
		expect_same(test, &out, &want);
	}
}

/* A packet like the one before it, told by what differs only: the same bytes, the same fields. */
static void header_like(struct kunit *test)
{
	u8 opcode = *(const u8 *)test->param_value;
	u32 hdrlen = roe_opcode(opcode)->hdrlen;
	struct roe_pkt first = { .opcode = opcode, .se = full.se, .pkey = full.pkey,
				 .qpn = full.qpn, .psn = full.psn - 1, .len = 64 };
	struct roe_pkt in = full, out[2], want = expected(opcode, 64);
	u8 buf[2][ROE_HDR_MAX], like[ROE_HDR_MAX];

	in.opcode = opcode;
	in.len = 64;
	memset(buf, 0x77, sizeof(buf));
	memset(like, 0x77, sizeof(like));
	roe_header_build(&first, buf[0]);
	roe_header_build(&in, buf[1]);
	roe_header_repeat(&in, hdrlen, buf[0], like);
	KUNIT_EXPECT_EQ(test, memcmp(like, buf[1], sizeof(like)), 0);

	memset(out, 0xff, sizeof(out));
	roe_header_parse(buf[0], hdrlen + 64 + ROE_ICRC_LEN, &out[0]);
	roe_header_parse_like(buf[1], hdrlen, &out[0], &out[1]);
	expect_same(test, &out[1], &want);
}

/* Headers, pad and ICRC must fit, whatever the bytes say; and end on 4 bytes. */
static void header_too_short(struct kunit *test)
{
	struct roe_pkt pkt = full, out;
	u8 buf[ROE_HDR_MAX];
	u32 hdrlen, len, pad;

	pkt.opcode = *(const u8 *)test->param_value;
	hdrlen = roe_header_build(&pkt, buf);
	for (pad = 0; pad < 4; pad++) {
		u32 least = hdrlen + pad + ROE_ICRC_LEN;

		buf[1] = (buf[1] & ~ROE_BTH_PAD_MASK) | pad << ROE_BTH_PAD_SHIFT;
		for (len = 0; len < least + 16; len++) {
			bool ok = len >= least && !(len % 4);
			int ret = roe_header_parse(buf, len, &out);

			KUNIT_EXPECT_EQ_MSG(test, ret, ok ? (int)hdrlen : -EINVAL,
					    "length %u pad %u", len, pad);
			if (ok)
				KUNIT_EXPECT_EQ(test, out.len, len - least);
		}
	}
}

struct bytes_case {
	const char	*name;
	struct roe_pkt	pkt;
	u8		len;
	u8		bytes[ROE_HDR_MAX];
};

static const struct bytes_case bytes_cases[] = {
	{
		"send only, pad 3, SE, AckReq",
		{ .opcode = 0x04, .se = true, .ackreq = true, .pkey = 0xffff,
		  .qpn = 0x123456, .psn = 0xabcdef, .len = 5 },
		12, { 0x04, 0xf0, 0xff, 0xff, 0, 0x12, 0x34, 0x56, 0x80, 0xab, 0xcd, 0xef },
	}, {
		"numbers of more than 24 bits spill nowhere",
		{ .opcode = 0x11, .pkey = 1, .qpn = 0xff000001, .psn = 0xff000002,
		  .msn = 0xff000003, .syndrome = 0x1f },
		16, { 0x11, 0x40, 0, 1, 0, 0, 0, 1, 0, 0, 0, 2, 0x1f, 0, 0, 3 },
	}, {
		"cnp: no MigReq, BECN, 16 zero bytes",
		{ .opcode = 0x81, .pkey = 0xffff, .qpn = 7 },
		28, { 0x81, 0, 0xff, 0xff, 0x40, 0, 0, 7 },
	}, {
		"compare and swap",
		{ .opcode = 0x13, .va = 0x0102030405060708ull, .rkey = 0x090a0b0c,
		  .swap_add = 0x0d0e0f1011121314ull, .compare = 0x15161718191a1b1cull },
		40, { 0x13, 0x40, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
		      1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20,
		      21, 22, 23, 24, 25, 26, 27, 28 },
	},
};

static void bytes_desc(const struct bytes_case *c, char *desc)
{
	strscpy(desc, c->name, KUNIT_PARAM_DESC_SIZE);
}

KUNIT_ARRAY_PARAM(bytes, bytes_cases, bytes_desc);

static void header_bytes(struct kunit *test)
{
	const struct bytes_case *c = test->param_value;
	u8 buf[ROE_HDR_MAX];

	KUNIT_ASSERT_EQ(test, roe_header_build(&c->pkt, buf), c->len);
	KUNIT_EXPECT_EQ(test, memcmp(buf, c->bytes, c->len), 0);
}

/* Huawei hardware sets bits in byte 4, others in byte 8: neither is a number. */
static void header_reserved_bits(struct kunit *test)
{
	struct roe_pkt pkt = { .opcode = 0x11, .qpn = 0x10, .psn = 0x20 }, out;
	u8 buf[ROE_HDR_MAX];

	roe_header_build(&pkt, buf);
	buf[4] = 0xff;
	buf[8] = 0x7f;
	KUNIT_EXPECT_EQ(test, roe_header_parse(buf, 20, &out), 16);
	KUNIT_EXPECT_EQ(test, out.qpn, 0x10);
	KUNIT_EXPECT_EQ(test, out.psn, 0x20);
	KUNIT_EXPECT_FALSE(test, out.ackreq);
}

/* A responder has to answer it, so it must get through; nobody builds one. */
static void header_unknown(struct kunit *test)
{
	struct roe_pkt pkt = { .opcode = 0x15 }, out;
	u8 buf[ROE_HDR_MAX] = { 0x15, 0, 0, 0, 0, 0, 0, 9 };

	KUNIT_EXPECT_EQ(test, roe_header_parse(buf, 24, &out), 12);
	KUNIT_EXPECT_EQ(test, out.qpn, 9);
	KUNIT_EXPECT_EQ(test, out.len, 8);
	KUNIT_EXPECT_EQ(test, roe_header_build(&pkt, buf), 0);
}

static struct kunit_case header_cases[] = {
	KUNIT_CASE_PARAM(header_round_trip, opcode_gen_params),
	KUNIT_CASE_PARAM(header_like, opcode_gen_params),
	KUNIT_CASE_PARAM(header_too_short, opcode_gen_params),
	KUNIT_CASE_PARAM(header_bytes, bytes_gen_params),
	KUNIT_CASE(header_reserved_bits),
	KUNIT_CASE(header_unknown),
	{}
};

static struct kunit_suite header_suite = {
	.name = "roe_header",
	.test_cases = header_cases,
};

kunit_test_suites(&header_suite);
