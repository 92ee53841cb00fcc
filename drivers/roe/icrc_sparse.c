// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * CRC-32 with plain words: they are folded forward by a sparse multiple of the
 * polynomial P. P divides
 *
 *	x^300 + x^155 + x^117 + x^89 + 1
 *
 * found by search: of all multiples of five terms it has the least degree. Hence a
 * bit of a message may be taken away if it is added to the bits 145 (300 - 155), 183,
 * 211 and 300 places further on. Seen from these bits, and with 64 bits at once,
 *
 *	out[i] = data[i] + out[i - 145] + out[i - 183] + out[i - 211] + out[i - 300]
 *
 * takes all bits away but the last 300, which the library computes. The farthest
 * distance is less than five words, so out[] stays in registers: one load and a
 * few shifts for eight bytes.
 */
#include <linux/compiler.h>
#include <linux/crc32.h>
#include <linux/string.h>
#include <linux/types.h>
#include "copy.h"
#include "icrc_impl.h"

#define WORD	sizeof(u64)

/* Words that the farthest distance spans, and bytes that it leaves to the library. */
#define WINDOW	5
#define REACH	38

/* 64 bits that begin @shift bits after the first of @early. */
static __always_inline u64 span(u64 early, u64 late, unsigned int shift)
{
	return early >> shift | late << (64 - shift);
}

/* What earlier words add to a word: @a to @d are the fifth to the second before it. */
static __always_inline u64 taps(u64 a, u64 b, u64 c, u64 d)
{
	return span(c, d, 3 * 64 - 145) ^ span(c, d, 3 * 64 - 183) ^
	       span(b, c, 4 * 64 - 211) ^ span(a, b, 5 * 64 - 300);
}

/*
 * One word of @src, copied to @dst if @copy. The CRC is that of the copy, even if the
 * source is a user's memory and changes meanwhile.
 */
static __always_inline u64 take(const u8 *src, u8 *dst, size_t off, bool copy)
{
	u64 word = get_unaligned_le64(src + off);

	if (copy)
		put_unaligned_le64(word, dst + off);
	return word;
}

/*
 * The last REACH bytes and up to seven more: the words before them are added, but
 * these bytes are not added to each other, which the library's CRC of them does.
 */
static u32 finish(const u64 *out, const u8 *src, size_t len, u8 *dst, bool copy)
{
	u64 last[WINDOW + 1] = {};

	roe_copy_out(last, src, len);
	if (copy)
		memcpy(dst, last, len);
	last[0] ^= (__force u64)cpu_to_le64(taps(out[0], out[1], out[2], out[3]));
	last[1] ^= (__force u64)cpu_to_le64(taps(out[1], out[2], out[3], out[4]));
	last[2] ^= (__force u64)cpu_to_le64(taps(out[2], out[3], out[4], 0));
	last[3] ^= (__force u64)cpu_to_le64(taps(out[3], out[4], 0, 0));
	last[4] ^= (__force u64)cpu_to_le64(taps(out[4], 0, 0, 0));
	return crc32_le(0, (u8 *)last, len);
}

static __always_inline u32 fold(u32 crc, const u8 *src, size_t len, u8 *dst, bool copy)
{
	u64 a = 0, b = 0, c = 0, d = 0, e, out[WINDOW];
	size_t i;

	/* going on from a register: it is added to the first four bytes */
	e = take(src, dst, 0, copy) ^ crc;
	for (i = WORD; len - i >= REACH + WINDOW * WORD; i += WINDOW * WORD) {
		a = take(src, dst, i, copy) ^ taps(a, b, c, d);
		b = take(src, dst, i + WORD, copy) ^ taps(b, c, d, e);
		c = take(src, dst, i + 2 * WORD, copy) ^ taps(c, d, e, a);
		d = take(src, dst, i + 3 * WORD, copy) ^ taps(d, e, a, b);
		e = take(src, dst, i + 4 * WORD, copy) ^ taps(e, a, b, c);
	}
	for (; len - i >= REACH + WORD; i += WORD) {
		u64 word = take(src, dst, i, copy) ^ taps(a, b, c, d);

		a = b;
		b = c;
		c = d;
		d = e;
		e = word;
	}
	out[0] = a;
	out[1] = b;
	out[2] = c;
	out[3] = d;
	out[4] = e;
	return finish(out, src + i, len - i, dst + i, copy);
}

/**
 * roe_icrc_sparse() - CRC-32 by plain 64-bit words
 * @crc: register
 * @src: bytes
 * @len: how many, also none; pays from a hundred or so on
 * @dst: copy them there, unless NULL
 *
 * Return: the register after them.
 */
u32 roe_icrc_sparse(u32 crc, const void *src, size_t len, void *dst)
{
	if (len < REACH + WORD)
		return roe_icrc_lib(crc, src, len, dst);
	if (dst)
		return fold(crc, src, len, dst, true);
	return fold(crc, src, len, NULL, false);
}
