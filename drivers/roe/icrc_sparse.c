// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * CRC-32 with plain words: they are folded forward by a sparse multiple of the
 * polynomial P whose exponents are whole bytes. P divides
 *
 *	x^(8*137) + x^(8*84) + x^(8*80) + x^(8*70) + x^(8*29) + x^(8*8) + 1
 *
 * found by search: of small degree among those of seven terms that leave a word
 * between the first and the second. Hence a byte of a message may be taken away if
 * it is added to those 53 (137 - 84), 57, 67, 108, 129 and 137 bytes further on.
 * Looked at from there, and with eight bytes at once,
 *
 *	out[i] = data[i] + out[i - 53] + out[i - 57] + ... + out[i - 137]
 *
 * takes all bytes away but the last 137, which the library computes.
 */
#include <linux/compiler.h>
#include <linux/crc32.h>
#include <linux/minmax.h>
#include <linux/types.h>
#include "icrc_impl.h"

#define WORD	sizeof(u64)

/* The farthest distance, and as many words as hold it. */
#define REACH	137
#define WINDOW	144

/* Words of out[] between two moves of the window; on the stack. */
#define CHUNK	512

static u64 get(const u8 *p)
{
	return get_unaligned((const u64 *)p);
}

static void put(u64 word, u8 *p)
{
	put_unaligned(word, (u64 *)p);
}

static u64 taps(const u8 *out)
{
	return get(out - 53) ^ get(out - 57) ^ get(out - 67) ^ get(out - 108) ^
	       get(out - 129) ^ get(out - 137);
}

/*
 * One word of @src, copied to @dst unless that is NULL. What is copied is what is
 * computed, even if the source is a user's and changes meanwhile.
 */
static u64 take(const u8 *src, u8 *dst, size_t off)
{
	u64 word = get(src + off);

	if (dst)
		put(word, dst + off);
	return word;
}

static void clear(u8 *out)
{
	size_t i;

	for (i = 0; i < WINDOW; i += WORD)
		put(0, out + i);
}

/*
 * The last REACH .. WINDOW bytes: what the words in front of them add, but nothing
 * that they add to each other.
 */
static u32 finish(u8 *out, const u8 *src, size_t len, u8 *dst)
{
	u8 last[WINDOW];
	size_t i;

	clear(out);
	for (i = 0; i + WORD <= len; i += WORD)
		put(take(src, dst, i) ^ taps(out + i), last + i);
	if (i < len)
		put(taps(out + i), last + i);
	for (; i < len; i++) {
		u8 byte = READ_ONCE(src[i]);

		last[i] ^= byte;
		if (dst)
			dst[i] = byte;
	}
	return crc32_le(0, last, len);
}

/**
 * roe_icrc_sparse() - CRC-32 by plain 64-bit words
 * @crc: register
 * @src: bytes
 * @len: how many, also none; pays from a few hundred on
 * @dst: copy them there, unless NULL
 *
 * Return: the register after them.
 */
u32 roe_icrc_sparse(u32 crc, const void *src, size_t len, void *dst)
{
	u8 buf[WINDOW + CHUNK + WINDOW] __aligned(WORD);
	u8 *out = buf + WINDOW;
	size_t i, n;

	if (len < REACH + WORD)
		return roe_icrc_lib(crc, src, len, dst);
	clear(buf);
	/* going on from a register: it is added to the first four bytes */
	put(take(src, dst, 0) ^ (__force u64)cpu_to_le64(crc), out);
	for (i = WORD;; i = 0) {
		n = min_t(size_t, CHUNK, round_down(len - REACH, WORD));
		for (; i < n; i += WORD)
			put(take(src, dst, i) ^ taps(out + i), out + i);
		src += n;
		len -= n;
		if (dst)
			dst += n;
		if (len < REACH + WORD)
			return finish(out + n, src, len, dst);
		for (i = 0; i < WINDOW; i += WORD)
			put(get(buf + n + i), buf + i);
	}
}
