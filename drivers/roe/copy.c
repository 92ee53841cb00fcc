// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Copying payload. On x86 the kernel's memcpy() moves eight bytes at a time where
 * the CPU has no fast short strings (before Ice Lake, Zen 3). Payload that was just
 * proven is in the cache, so wide registers are faster from some length on, although
 * an FPU section has to be opened; the length is found when the module is loaded.
 *
 * Many programs (NCCL, MPI, key-value stores) poll memory while a peer WRITEs it, or READ memory
 * while the peer's processor writes it, and rely on what hardware does: it accesses memory upwards,
 * and no aligned word of up to eight bytes is ever half done. memcpy() may begin with the end, and
 * reads and writes some bytes twice. So on x86, where the order of the instructions is that of the
 * memory, all copies here go upwards and in aligned words. Elsewhere that takes barriers: there
 * only the last ORDERED bytes of a copy do, or all of a shorter one, and not payload that a CRC
 * which loads the bytes itself (icrc_sparse.c) reads for a packet.
 */
#include <linux/cache.h>
#include <linux/init.h>
#include <linux/minmax.h>
#include <linux/slab.h>
#include <linux/string.h>
#include <linux/timekeeping.h>
#include <asm/barrier.h>
#include "compat.h"
#include "copy.h"
#include "icrc_impl.h"

/* Bytes at the end of a copy that go upwards, where that takes barriers. */
#define ORDERED	512

/* The longest word, in bytes, that may come next: aligned, and no more than is left. */
static size_t word_at(uintptr_t at, size_t len)
{
	size_t word = at & 7 ? at & -at & 7 : 8;

	while (word > len)
		word /= 2;
	return word;
}

/*
 * Copy a word after the one below it, in the order of memory: load after load and store after
 * store. On x86 that is the order of the instructions.
 */
#define MOVE(type, src, dst)								\
	do {										\
		smp_rmb(); /* the load before */					\
		smp_wmb(); /* and the store */						\
		put_unaligned(get_unaligned((const type *)(src)), (type *)(dst));	\
	} while (0)

/* Copy upwards, by words that are aligned at the address @at, which is that of @src or @dst. */
static void copy_up(u8 *dst, const u8 *src, size_t len, uintptr_t at)
{
	size_t word;

	while (len) {
		if (!(at & 7)) {
			for (; len >= 32; at += 32, src += 32, dst += 32, len -= 32) {
				MOVE(u64, src, dst);
				MOVE(u64, src + 8, dst + 8);
				MOVE(u64, src + 16, dst + 16);
				MOVE(u64, src + 24, dst + 24);
			}
			if (!len)
				break;
		}
		word = word_at(at, len);
		switch (word) {
		case 8:
			MOVE(u64, src, dst);
			break;
		case 4:
			MOVE(u32, src, dst);
			break;
		case 2:
			MOVE(u16, src, dst);
			break;
		case 1:
			MOVE(u8, src, dst);
			break;
		}
		at += word;
		src += word;
		dst += word;
		len -= word;
	}
}

static void copy_plain(u8 *dst, const u8 *src, size_t len, uintptr_t at)
{
	if (!IS_ENABLED(CONFIG_X86) && len > ORDERED) {
		size_t body = len - ORDERED;

		memcpy(dst, src, body);
		src += body;
		dst += body;
		at += body;
		len = ORDERED;
	}
	copy_up(dst, src, len, at);
}

#if defined(CONFIG_X86_64) && !defined(CONFIG_UML)
#include <asm/cpufeature.h>
#include <asm/fpu/xstate.h>

/* Bytes of one round of the loop below. */
#define STEP	128

/* What is measured: payload of the largest packet and less; the best of ROUNDS counts. */
#define MAX_LEN		4096
#define MIN_LEN		1024
#define PASSES		8
#define ROUNDS		8

static size_t wide_len __ro_after_init = SIZE_MAX;

/* In an FPU section. The end, which many programs poll, is not copied by wide registers. */
static void copy_wide(u8 *dst, const u8 *src, size_t len, uintptr_t at)
{
	for (; len > STEP; src += STEP, dst += STEP, at += STEP, len -= STEP)
		asm volatile("vmovdqu	(%0), %%ymm0\n\t"
			     "vmovdqu	32(%0), %%ymm1\n\t"
			     "vmovdqu	64(%0), %%ymm2\n\t"
			     "vmovdqu	96(%0), %%ymm3\n\t"
			     "vmovdqu	%%ymm0, (%1)\n\t"
			     "vmovdqu	%%ymm1, 32(%1)\n\t"
			     "vmovdqu	%%ymm2, 64(%1)\n\t"
			     "vmovdqu	%%ymm3, 96(%1)\n\t"
			     : : "r" (src), "r" (dst) : "memory");
	for (; len > 32; src += 32, dst += 32, at += 32, len -= 32)
		asm volatile("vmovdqu	(%0), %%ymm0\n\t"
			     "vmovdqu	%%ymm0, (%1)\n\t"
			     : : "r" (src), "r" (dst) : "memory");
	asm volatile("vzeroupper" : : : "memory");
	copy_up(dst, src, len, at);
}

static void copy(u8 *dst, const u8 *src, size_t len, uintptr_t at)
{
	if (len < wide_len || !roe_icrc_fpu_begin()) {
		copy_plain(dst, src, len, at);
		return;
	}
	copy_wide(dst, src, len, at);
	roe_icrc_fpu_end();
}

/**
 * roe_copy_begin() - open a section for several pieces
 * @bytes: about how many in all
 *
 * PREEMPT_RT wants to be preempted between the pieces: there each piece has its own section.
 *
 * Return: for roe_copy_piece() and roe_copy_end().
 */
bool roe_copy_begin(size_t bytes)
{
	return bytes >= wide_len && !IS_ENABLED(CONFIG_PREEMPT_RT) && roe_icrc_fpu_begin();
}

/**
 * roe_copy_piece() - roe_copy() in a section
 * @wide: what roe_copy_begin() said
 * @dst: must not overlap @src
 * @src: bytes
 * @len: how many, also none
 */
void roe_copy_piece(bool wide, void *dst, const void *src, size_t len)
{
	if (wide)
		copy_wide(dst, src, len, (uintptr_t)dst);
	else
		roe_copy(dst, src, len);
}

/**
 * roe_copy_end() - close the section
 * @wide: what roe_copy_begin() said
 */
void roe_copy_end(bool wide)
{
	if (wide)
		roe_icrc_fpu_end();
}

static u64 __init cost(u8 *dst, const u8 *src, size_t len)
{
	u64 best = U64_MAX;
	int round, pass;

	for (round = 0; round < ROUNDS; round++) {
		u64 start = ktime_get_ns();

		for (pass = 0; pass < PASSES; pass++)
			roe_copy(dst, src, len);
		best = min(best, ktime_get_ns() - start);
	}
	return best;
}

/* Do wide registers copy rightly, also a length that leaves a rest, and faster by a quarter? */
static bool __init pays(u8 *dst, const u8 *src, size_t len)
{
	u64 plain, wide;

	plain = cost(dst, src, len);
	wide_len = len - 1;
	memset(dst, 0, len);
	roe_copy(dst, src, len - 1);
	if (memcmp(dst, src, len - 1) || dst[len - 1])
		return false;
	wide = cost(dst, src, len);
	return 5 * wide <= 4 * plain;
}

/**
 * roe_copy_init() - find out from which length on wide registers pay
 *
 * Context: may sleep; takes less than a millisecond.
 */
void __init roe_copy_init(void)
{
	size_t len, i;
	u8 *src;

	if (!boot_cpu_has(X86_FEATURE_AVX) ||
	    !cpu_has_xfeatures(XFEATURE_MASK_SSE | XFEATURE_MASK_YMM, NULL))
		return;
	src = kmalloc(2 * MAX_LEN, GFP_KERNEL);
	if (!src)
		return;
	for (i = 0; i < MAX_LEN; i++)
		src[i] = i * 2654435761u >> 24;
	for (len = MIN_LEN; len <= MAX_LEN; len *= 2) {
		if (pays(src + MAX_LEN, src, len))
			break;
		wide_len = SIZE_MAX;
	}
	if (wide_len != SIZE_MAX)
		pr_info("payload of %zu bytes and more is copied with AVX\n", len);
	kfree(src);
}
#else
static void copy(u8 *dst, const u8 *src, size_t len, uintptr_t at)
{
	copy_plain(dst, src, len, at);
}

bool roe_copy_begin(size_t bytes)
{
	return false;
}

void roe_copy_piece(bool wide, void *dst, const void *src, size_t len)
{
	roe_copy(dst, src, len);
}

void roe_copy_end(bool wide)
{
}

void __init roe_copy_init(void)
{
}
#endif

/**
 * roe_copy() - copy payload of a packet into the memory of its receiver
 * @dst: must not overlap @src
 * @src: bytes
 * @len: how many, also none
 *
 * Context: any but NMI.
 */
void roe_copy(void *dst, const void *src, size_t len)
{
	copy(dst, src, len, (uintptr_t)dst);
}

ROE_EXPORT_FOR_TEST(roe_copy);

/**
 * roe_copy_out() - copy payload from the memory of its sender into a packet
 * @dst: must not overlap @src
 * @src: bytes, which may change meanwhile
 * @len: how many, also none
 *
 * Context: any but NMI.
 */
void roe_copy_out(void *dst, const void *src, size_t len)
{
	copy(dst, src, len, (uintptr_t)src);
}

ROE_EXPORT_FOR_TEST(roe_copy_out);
