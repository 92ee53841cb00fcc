// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * The opcode table against a copy of the table of the specification that was
 * written from it, in other words: letters for headers, numbers for opcodes.
 */
#include <kunit/test.h>
#include <roe/opcode.h>

#define MTU	1024

struct opcode_case {
	u8		opcode;
	const char	*headers;	/* letters of header_of[], in order */
	const char	*payload;	/* "=": MTU, "1": 1..MTU, "0": 0..MTU, "8", "-": none */
	const char	*rwqe;		/* "t" takes, "e" ends a receive WQE */
	const char	*place;		/* first, middle, last, only */
	u8		hdrlen;		/* bytes, added up by hand */
};

static const struct opcode_case known[] = {
	{ 0x00, "", "=", "t", "first", 12 },
	{ 0x01, "", "=", "", "middle", 12 },
	{ 0x02, "", "1", "e", "last", 12 },
	{ 0x03, "i", "1", "e", "last", 16 },
	{ 0x04, "", "0", "te", "only", 12 },
	{ 0x05, "i", "0", "te", "only", 16 },
	{ 0x06, "R", "=", "", "first", 28 },
	{ 0x07, "", "=", "", "middle", 12 },
	{ 0x08, "", "1", "", "last", 12 },
	{ 0x09, "i", "1", "te", "last", 16 },
	{ 0x0a, "R", "0", "", "only", 28 },
	{ 0x0b, "Ri", "0", "te", "only", 32 },
	{ 0x0c, "R", "-", "", "only", 28 },
	{ 0x0d, "A", "=", "", "first", 16 },
	{ 0x0e, "", "=", "", "middle", 12 },
	{ 0x0f, "A", "1", "", "last", 16 },
	{ 0x10, "A", "0", "", "only", 16 },
	{ 0x11, "A", "-", "", "only", 16 },
	{ 0x12, "Ao", "-", "", "only", 24 },
	{ 0x13, "T", "-", "", "only", 40 },
	{ 0x14, "T", "-", "", "only", 40 },
	{ 0x16, "v", "1", "e", "last", 16 },
	{ 0x17, "v", "0", "te", "only", 16 },
	{ 0x1c, "FR", "-", "", "only", 32 },
	{ 0x1d, "R", "8", "", "only", 28 },
	{ 0x20, "", "=", "t", "first", 12 },
	{ 0x21, "", "=", "", "middle", 12 },
	{ 0x22, "", "1", "e", "last", 12 },
	{ 0x23, "i", "1", "e", "last", 16 },
	{ 0x24, "", "0", "te", "only", 12 },
	{ 0x25, "i", "0", "te", "only", 16 },
	{ 0x26, "R", "=", "", "first", 28 },
	{ 0x27, "", "=", "", "middle", 12 },
	{ 0x28, "", "1", "", "last", 12 },
	{ 0x29, "i", "1", "te", "last", 16 },
	{ 0x2a, "R", "0", "", "only", 28 },
	{ 0x2b, "Ri", "0", "te", "only", 32 },
	{ 0x64, "D", "0", "te", "only", 20 },
	{ 0x65, "Di", "0", "te", "only", 24 },
	{ 0x81, "", "-", "", "only", 28 },
};

static const struct {
	char	letter;
	u32	flag;
} header_of[] = {
	{ 'D', ROE_F_DETH }, { 'F', ROE_F_FETH }, { 'R', ROE_F_RETH },
	{ 'T', ROE_F_ATOMICETH }, { 'A', ROE_F_AETH }, { 'o', ROE_F_ATOMICACK },
	{ 'i', ROE_F_IMM }, { 'v', ROE_F_IETH },
};

static void opcode_desc(const struct opcode_case *c, char *desc)
{
	snprintf(desc, KUNIT_PARAM_DESC_SIZE, "0x%02x", c->opcode);
}

KUNIT_ARRAY_PARAM(opcode, known, opcode_desc);

static u32 place_flags(const char *place)
{
	switch (place[0]) {
	case 'f':
		return ROE_F_START;
	case 'm':
		return ROE_F_MIDDLE;
	case 'l':
		return ROE_F_END;
	default:
		return ROE_F_START | ROE_F_END;
	}
}

static void opcode_row(struct kunit *test)
{
	const struct opcode_case *c = test->param_value;
	const struct roe_opcode_info *info = roe_opcode(c->opcode);
	u32 i;

	KUNIT_EXPECT_EQ(test, info->hdrlen, c->hdrlen);
	for (i = 0; i < ARRAY_SIZE(header_of); i++)
		KUNIT_EXPECT_EQ_MSG(test, !!(info->flags & header_of[i].flag),
				    !!strchr(c->headers, header_of[i].letter),
				    "header %c", header_of[i].letter);
	KUNIT_EXPECT_EQ(test, !!(info->flags & ROE_F_RWQE), !!strchr(c->rwqe, 't'));
	KUNIT_EXPECT_EQ(test, !!(info->flags & ROE_F_COMP), !!strchr(c->rwqe, 'e'));
	KUNIT_EXPECT_EQ(test, info->flags & (ROE_F_START | ROE_F_MIDDLE | ROE_F_END),
			place_flags(c->place));
}

static void opcode_lengths(struct kunit *test)
{
	const struct opcode_case *c = test->param_value;
	char p = c->payload[0];

	KUNIT_EXPECT_EQ(test, roe_opcode_len_ok(c->opcode, 0, MTU), p == '0' || p == '-');
	KUNIT_EXPECT_EQ(test, roe_opcode_len_ok(c->opcode, 1, MTU), p == '0' || p == '1');
	KUNIT_EXPECT_EQ(test, roe_opcode_len_ok(c->opcode, 8, MTU),
			p == '0' || p == '1' || p == '8');
	KUNIT_EXPECT_EQ(test, roe_opcode_len_ok(c->opcode, MTU - 1, MTU), p == '0' || p == '1');
	KUNIT_EXPECT_EQ(test, roe_opcode_len_ok(c->opcode, MTU, MTU),
			p == '0' || p == '1' || p == '=');
	KUNIT_EXPECT_FALSE(test, roe_opcode_len_ok(c->opcode, MTU + 1, MTU));
	KUNIT_EXPECT_FALSE(test, roe_opcode_len_ok(c->opcode, U32_MAX, MTU));
}

/* RC 0x0c to 0x12 but READ Request are responses; a CNP is neither. */
static void opcode_roles(struct kunit *test)
{
	u32 op;

	for (op = 0; op < 256; op++) {
		u32 flags = roe_opcode(op)->flags;
		bool response = op >= 0x0d && op <= 0x12;
		bool request = flags && !response && op != 0x81;

		KUNIT_EXPECT_EQ_MSG(test, !!(flags & ROE_F_RESPONSE), response, "0x%02x", op);
		KUNIT_EXPECT_EQ_MSG(test, !!(flags & ROE_F_REQUEST), request, "0x%02x", op);
		KUNIT_EXPECT_EQ_MSG(test, !!(flags & ROE_F_CNP), op == 0x81, "0x%02x", op);
	}
}

/* Opcodes that the specification does not have carry nothing. */
static void opcode_unknown(struct kunit *test)
{
	u32 op, i;

	for (op = 0, i = 0; op < 256; op++) {
		if (i < ARRAY_SIZE(known) && known[i].opcode == op) {
			i++;
			continue;
		}
		KUNIT_EXPECT_EQ_MSG(test, roe_opcode(op)->flags, 0, "0x%02x", op);
		KUNIT_EXPECT_FALSE_MSG(test, roe_opcode_len_ok(op, 0, MTU), "0x%02x", op);
	}
	KUNIT_EXPECT_EQ(test, i, ARRAY_SIZE(known));
}

static struct kunit_case opcode_cases[] = {
	KUNIT_CASE_PARAM(opcode_row, opcode_gen_params),
	KUNIT_CASE_PARAM(opcode_lengths, opcode_gen_params),
	KUNIT_CASE(opcode_roles),
	KUNIT_CASE(opcode_unknown),
	{}
};

static struct kunit_suite opcode_suite = {
	.name = "roe_opcode",
	.test_cases = opcode_cases,
};

kunit_test_suites(&opcode_suite);
