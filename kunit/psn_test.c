// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * PSN arithmetic (wire.md 4.1): modulo 2^24, signed distances.
 */
#include <kunit/test.h>
#include <roe/psn.h>

static void psn_add(struct kunit *test)
{
	static const struct {
		u32 psn, n, sum;
	} rows[] = {
		{ 0, 0, 0 },
		{ 0, 1, 1 },
		{ 0xffffff, 1, 0 },
		{ 0xfffffd, 5, 2 },
		{ 0, -1, 0xffffff },
		{ 2, -5, 0xfffffd },
		{ 0x800000, 0x800000, 0 },
		{ 0xffffff, 0x7fffff, 0x7ffffe },
	};
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(rows); i++)
		KUNIT_EXPECT_EQ_MSG(test, roe_psn_add(rows[i].psn, rows[i].n), rows[i].sum,
				    "row %u", i);
}

static void psn_diff(struct kunit *test)
{
	static const struct {
		u32 a, b;
		s32 diff;
	} rows[] = {
		{ 0, 0, 0 },
		{ 1, 0, 1 },
		{ 0, 1, -1 },
		{ 0, 0xffffff, 1 },
		{ 0xffffff, 0, -1 },
		{ 2, 0xfffffd, 5 },
		{ 0xfffffd, 2, -5 },
		{ 0x7fffff, 0, 0x7fffff },	/* the newest that is still future */
		{ 0x800000, 0, -0x800000 },	/* the oldest that is past */
		{ 0, 0x7fffff, -0x7fffff },
		{ 0, 0x800000, -0x800000 },
		{ 0x400000, 0xc00001, 0x7fffff },
		{ 0x400000, 0xc00000, -0x800000 },
	};
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(rows); i++)
		KUNIT_EXPECT_EQ_MSG(test, roe_psn_diff(rows[i].a, rows[i].b), rows[i].diff,
				    "row %u", i);
}

/* Adding and taking the difference are inverse wherever one starts. */
static void psn_inverse(struct kunit *test)
{
	static const u32 start[] = { 0, 1, 0x7fffff, 0x800000, 0xfffffd, 0xffffff };
	unsigned int i;
	s32 n;

	for (i = 0; i < ARRAY_SIZE(start); i++)
		for (n = -0x800000; n < 0x800000; n += 0x1001)
			KUNIT_ASSERT_EQ(test, roe_psn_diff(roe_psn_add(start[i], n), start[i]), n);
}

static void psn_count(struct kunit *test)
{
	static const struct {
		u64 len;
		u32 mtu, count;
	} rows[] = {
		{ 0, 256, 1 },
		{ 1, 256, 1 },
		{ 256, 256, 1 },
		{ 257, 256, 2 },
		{ 512, 256, 2 },
		{ 5000, 1024, 5 },
		{ 4096, 4096, 1 },
		{ 4097, 4096, 2 },
		{ 0x80000000ull, 256, 0x800000 },
		{ 0x7fffffffull, 256, 0x800000 },
		{ 0x7fffff00ull, 256, 0x7fffff },
		{ 0x80000000ull, 4096, 0x80000 },
	};
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(rows); i++)
		KUNIT_EXPECT_EQ_MSG(test, roe_psn_count(rows[i].len, rows[i].mtu), rows[i].count,
				    "row %u", i);
}

static struct kunit_case psn_cases[] = {
	KUNIT_CASE(psn_add),
	KUNIT_CASE(psn_diff),
	KUNIT_CASE(psn_inverse),
	KUNIT_CASE(psn_count),
	{}
};

static struct kunit_suite psn_suite = {
	.name = "roe_psn",
	.test_cases = psn_cases,
};

kunit_test_suites(&psn_suite);
