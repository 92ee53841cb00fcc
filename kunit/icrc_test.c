// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * ICRC against packets of real adapters and of independent implementations
 * (kunit/vectors), what may change on the way without changing it, what may not.
 */
#include <kunit/test.h>
#include <linux/ip.h>
#include <linux/ipv6.h>
#include <linux/udp.h>
#include <roe/pkt.h>
#include <roe/wire.h>
#include "../drivers/roe/icrc.h"
#include "../drivers/roe/icrc_impl.h"

enum vector_kind {
	VECTOR_IPV4,
	VECTOR_IPV6,
	VECTOR_GRH,	/* RoCEv1 */
};

struct vector {
	const char	*name;
	enum vector_kind kind;
	bool		bad;	/* well formed, wrong ICRC */
	u32		len;	/* L3 header .. ICRC */
	const u8	*data;
};

#include "vectors.h"

static void vector_desc(const struct vector *v, char *desc)
{
	strscpy(desc, v->name, KUNIT_PARAM_DESC_SIZE);
}

KUNIT_ARRAY_PARAM(vector, vectors, vector_desc);

static u32 l3_len(const struct vector *v)
{
	return v->kind == VECTOR_IPV4 ? sizeof(struct iphdr) : sizeof(struct ipv6hdr);
}

static u32 bth_off(const struct vector *v)
{
	return l3_len(v) + (v->kind == VECTOR_GRH ? 0 : sizeof(struct udphdr));
}

/* Of all packets of all cases so far: a header that differs in one bit is another one. */
static struct roe_icrc_heads heads;

/* Does the ICRC of @data hold, the part behind the BTH being cut at @split? */
static bool verifies(const struct vector *v, const u8 *data, u32 split)
{
	const struct udphdr *udp = (const void *)(data + l3_len(v));
	const u8 *bth = data + bth_off(v);
	const u8 *rest = bth + sizeof(struct roe_bth);
	u32 len = data + v->len - ROE_ICRC_LEN - rest;
	struct roe_icrc_run run;
	u32 crc;

	split = min(split, len);
	roe_icrc_begin(&run, v->len);
	crc = roe_icrc_head(&run, &heads, data, v->kind != VECTOR_IPV4,
			    v->kind == VECTOR_GRH ? NULL : udp, (const void *)bth);
	crc = roe_icrc_update(&run, crc, rest, split);
	crc = roe_icrc_update(&run, crc, rest + split, len - split);
	roe_icrc_end(&run);
	return get_unaligned((const __le32 *)(rest + len)) == roe_icrc_final(crc);
}

static u8 *copy(struct kunit *test, const struct vector *v)
{
	u8 *data = kunit_kmalloc(test, v->len, GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, data);
	return memcpy(data, v->data, v->len);
}

static void icrc_vectors(struct kunit *test)
{
	const struct vector *v = test->param_value;

	KUNIT_EXPECT_EQ(test, verifies(v, v->data, 0), !v->bad);
}

static void icrc_pieces(struct kunit *test)
{
	const struct vector *v = test->param_value;
	u32 split;

	for (split = 0; split < v->len; split++)
		KUNIT_EXPECT_EQ(test, verifies(v, v->data, split), !v->bad);
}

/* Bits of byte @i of the packet that the ICRC does not cover (wire.md 3.2). */
static u8 masked_bits(const struct vector *v, u32 i)
{
	u32 l3 = l3_len(v), bth = bth_off(v);

	if (v->kind == VECTOR_IPV4 && (i == 1 || i == 8 || i == 10 || i == 11))
		return 0xff;
	if (v->kind != VECTOR_IPV4 && (i == 1 || i == 2 || i == 3 || i == 7))
		return 0xff;
	if (v->kind != VECTOR_IPV4 && i == 0)
		return 0x0f;
	if (v->kind != VECTOR_GRH && (i == l3 + 6 || i == l3 + 7))
		return 0xff;
	return i == bth + 4 ? 0xff : 0;
}

/* Give the packet @data the ICRC that it should have. */
static void seal(const struct vector *v, u8 *data)
{
	const u8 *bth = data + bth_off(v);
	const u8 *rest = bth + sizeof(struct roe_bth);
	u8 *end = data + v->len - ROE_ICRC_LEN;
	struct roe_icrc_run run;
	u32 crc;

	roe_icrc_begin(&run, v->len);
	crc = roe_icrc_head(&run, &heads, data, v->kind != VECTOR_IPV4,
			    v->kind == VECTOR_GRH ? NULL : (const void *)(data + l3_len(v)),
			    (const void *)bth);
	crc = roe_icrc_update(&run, crc, rest, end - rest);
	roe_icrc_end(&run);
	put_unaligned(roe_icrc_final(crc), (__le32 *)end);
}

/* Every single bit of every vector: it matters, or it is masked. */
static void icrc_bits(struct kunit *test)
{
	const struct vector *v = test->param_value;
	u8 *data = copy(test, v);
	u32 i, bit;

	if (v->bad)
		seal(v, data);
	KUNIT_ASSERT_TRUE(test, verifies(v, data, 0));
	for (i = 0; i < v->len; i++) {
		for (bit = 0; bit < 8; bit++) {
			data[i] ^= BIT(bit);
			KUNIT_EXPECT_EQ_MSG(test, verifies(v, data, 0),
					    !!(masked_bits(v, i) & BIT(bit)),
					    "byte %u bit %u", i, bit);
			data[i] ^= BIT(bit);
			KUNIT_EXPECT_TRUE(test, verifies(v, data, 0));
		}
	}
}

static const struct vector *find(const char *name)
{
	u32 i;

	for (i = 0; i < ARRAY_SIZE(vectors); i++)
		if (!strcmp(vectors[i].name, name))
			return &vectors[i];
	return NULL;
}

/* Two packets that differ in TOS, TTL and BTH byte 4 only have one ICRC. */
static void icrc_invariant(struct kunit *test)
{
	const struct vector *a = find("syn_v4_invariant_a");
	const struct vector *b = find("syn_v4_invariant_b");

	KUNIT_ASSERT_NOT_NULL(test, a);
	KUNIT_ASSERT_NOT_NULL(test, b);
	KUNIT_ASSERT_EQ(test, a->len, b->len);
	KUNIT_EXPECT_NE(test, memcmp(a->data, b->data, a->len), 0);
	KUNIT_EXPECT_EQ(test, memcmp(a->data + a->len - ROE_ICRC_LEN,
				     b->data + b->len - ROE_ICRC_LEN, ROE_ICRC_LEN), 0);
}

/* Bit by bit, as the polynomial is written down: against every implementation. */
static u32 crc_by_bit(u32 crc, const u8 *data, u32 len)
{
	u32 i, bit;

	for (i = 0; i < len; i++) {
		crc ^= data[i];
		for (bit = 0; bit < 8; bit++)
			crc = crc >> 1 ^ (crc & 1 ? 0xedb88320 : 0);
	}
	return crc;
}

static u8 *noise(struct kunit *test, u32 len)
{
	u8 *buf = kunit_kmalloc(test, len, GFP_KERNEL);
	u32 i;

	KUNIT_ASSERT_NOT_NULL(test, buf);
	for (i = 0; i < len; i++)
		buf[i] = i * 2654435761u >> 24;
	return buf;
}

#define MAX_LEN	600
#define GUARD	0xa5

/* As the data path calls it: short pieces are the library's. */
static u32 compute(const struct roe_icrc_impl *impl, u32 crc, const u8 *src, u32 len, u8 *dst)
{
	if (!impl->simd)
		return impl->crc(crc, src, len, dst);
	if (len < ROE_ICRC_SIMD_MIN || !roe_icrc_fpu_begin())
		return roe_icrc_lib(crc, src, len, dst);
	crc = impl->crc(crc, src, len, dst);
	roe_icrc_fpu_end();
	return crc;
}

/* Does a copy write @len bytes, all of them, and nothing beside them? */
static bool copies(const struct roe_icrc_impl *impl, u32 want, const u8 *src, u8 *dst, u32 len)
{
	memset(dst, GUARD, len + 2);
	return compute(impl, ~0, src, len, dst + 1) == want && !memcmp(dst + 1, src, len) &&
	       dst[0] == GUARD && dst[len + 1] == GUARD;
}

static void check_lengths(struct kunit *test, const struct roe_icrc_impl *impl, const u8 *src,
			  u8 *dst)
{
	u32 want = ~0, len;

	for (len = 0; len <= MAX_LEN; want = crc_by_bit(want, src + len++, 1)) {
		KUNIT_EXPECT_EQ_MSG(test, compute(impl, ~0, src, len, NULL), want,
				    "%s, %u bytes", impl->name, len);
		KUNIT_EXPECT_TRUE_MSG(test, copies(impl, want, src, dst, len),
				      "%s, copy of %u bytes", impl->name, len);
	}
}

static void check_splits(struct kunit *test, const struct roe_icrc_impl *impl, const u8 *src)
{
	u32 want = crc_by_bit(~0, src, MAX_LEN), split;

	for (split = 0; split <= MAX_LEN; split++) {
		u32 crc = compute(impl, ~0, src, split, NULL);

		KUNIT_EXPECT_EQ_MSG(test, compute(impl, crc, src + split, MAX_LEN - split, NULL),
				    want, "%s, split at %u", impl->name, split);
	}
}

/* All implementations, lengths, alignments and places to go on from. */
static void icrc_implementations(struct kunit *test)
{
	u8 *src = noise(test, MAX_LEN + 16), *dst = noise(test, MAX_LEN + 2 + 16);
	unsigned int i, off;

	for (i = 0; i < roe_icrc_num_impls; i++) {
		const struct roe_icrc_impl *impl = &roe_icrc_impls[i];

		if (!impl->usable()) {
			kunit_info(test, "this CPU cannot do %s", impl->name);
			continue;
		}
		for (off = 0; off < 16; off++)
			check_lengths(test, impl, src + off, dst + off * 7 % 16);
		check_splits(test, impl, src);
	}
}

/* Whole packets of all sizes, with the implementation in use, in and out of a section. */
static void icrc_runs(struct kunit *test)
{
	static const u32 lens[] = { 0, 4, 15, 16, 255, 256, 1024, 1031, 4096 };
	u8 *src = noise(test, 4096), *dst = noise(test, 4096);
	struct roe_icrc_run run;
	u32 i, hint;

	for (hint = 0; hint <= 65535; hint += 65535) {
		for (i = 0; i < ARRAY_SIZE(lens); i++) {
			u32 len = lens[i], want = crc_by_bit(7, src, len);

			memset(dst, 0, len);
			roe_icrc_begin(&run, hint);
			KUNIT_EXPECT_EQ(test, roe_icrc_update(&run, 7, src, len), want);
			KUNIT_EXPECT_EQ(test, roe_icrc_copy(&run, 7, dst, src, len), want);
			roe_icrc_end(&run);
			KUNIT_EXPECT_EQ(test, memcmp(dst, src, len), 0);
		}
	}
}

/* What one packet after the other steps on to is what each has alone. */
static void icrc_trains(struct kunit *test)
{
	static const struct {
		u16	id;
		u16	id_step;
		u32	apsn;
	} trains[] = {
		{ 0xff80, 1, 0xffff80 },
		{ 0x7ff0, 1, 0x807fff80 },
		{ 0x1234, 0, 0x00fe },
		{ 0x00f0, 2, 0x0ff0 },
	};
	struct iphdr ip = { .version = 4, .ihl = 5, .saddr = cpu_to_be32(0x0a000001),
			    .daddr = cpu_to_be32(0x0a000002) };
	struct udphdr udp = { .source = cpu_to_be16(0xc000), .dest = cpu_to_be16(ROE_UDP_PORT) };
	struct roe_bth bth = { .opcode = 0x07, .flags = 0x40, .qpn = cpu_to_be32(0x11) };
	static struct roe_icrc_heads none;
	struct roe_icrc_run run, alone;
	u32 i, k;

	roe_icrc_begin(&run, 64);
	for (k = 0; k < ARRAY_SIZE(trains); k++) {
		for (i = 0; i < 300; i++) {
			u32 crc;

			ip.id = cpu_to_be16(trains[k].id + i * trains[k].id_step);
			bth.apsn = cpu_to_be32(trains[k].apsn + i);
			/* now and then one that is not like the one before */
			bth.opcode = i % 40 == 39 ? 0x08 : 0x07;
			udp.len = cpu_to_be16(i % 50 == 49 ? 100 : 1048);
			crc = roe_icrc_head(&run, &heads, &ip, false, &udp, &bth);
			roe_icrc_begin(&alone, 64);
			memset(&none, 0, sizeof(none));
			KUNIT_EXPECT_EQ(test, crc,
					roe_icrc_head(&alone, &none, &ip, false, &udp, &bth));
			roe_icrc_end(&alone);
		}
	}
	roe_icrc_end(&run);
}

static struct kunit_case icrc_cases[] = {
	KUNIT_CASE(icrc_trains),
	KUNIT_CASE_PARAM(icrc_vectors, vector_gen_params),
	KUNIT_CASE_PARAM(icrc_pieces, vector_gen_params),
	KUNIT_CASE_PARAM(icrc_bits, vector_gen_params),
	KUNIT_CASE(icrc_invariant),
	KUNIT_CASE(icrc_implementations),
	KUNIT_CASE(icrc_runs),
	{}
};

static struct kunit_suite icrc_suite = {
	.name = "roe_icrc",
	.test_cases = icrc_cases,
};

kunit_test_suites(&icrc_suite);
