// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Copying payload. On x86 the kernel's memcpy() moves eight bytes at a time where
 * the CPU has no fast short strings (before Ice Lake, Zen 3). What was just proven
 * is in the cache, so wide registers are faster from some length on, although an
 * FPU section has to be opened; the length is found when the module is loaded.
 *
 * Many programs (NCCL, MPI, key-value stores) look at the end of what a peer WRITEs to see that
 * it is there, and rely on hardware, which writes upwards. memcpy() may begin with the end; so
 * the last bytes of each piece are written behind all others and upwards: the end of a message,
 * and the whole of a small one.
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

/* Bytes that are written upwards: a record that is looked at as a whole fits. */
#define ORDERED	128

static __always_inline void put_next(u8 *dst, u64 word)
{
	/* behind what came before; on x86 that is the order of the instructions */
	smp_wmb();
	put_unaligned(word, (u64 *)dst);
}

static void copy_up(u8 *dst, const u8 *src, size_t len)
{
	for (; len >= 32; src += 32, dst += 32, len -= 32) {
		u64 a = get_unaligned((const u64 *)src);
		u64 b = get_unaligned((const u64 *)(src + 8));
		u64 c = get_unaligned((const u64 *)(src + 16));
		u64 d = get_unaligned((const u64 *)(src + 24));

		put_next(dst, a);
		put_next(dst + 8, b);
		put_next(dst + 16, c);
		put_next(dst + 24, d);
	}
	for (; len >= 8; src += 8, dst += 8, len -= 8)
		put_next(dst, get_unaligned((const u64 *)src));
	for (; len; len--) {
		/* as put_next() */
		smp_wmb();
		WRITE_ONCE(*dst++, *src++);
	}
}

static void copy_plain(u8 *dst, const u8 *src, size_t len)
{
	if (len > ORDERED) {
		size_t body = len - ORDERED;

		memcpy(dst, src, body);
		src += body;
		dst += body;
		len = ORDERED;
	}
	copy_up(dst, src, len);
}

#if defined(CONFIG_X86_64) && !defined(CONFIG_UML)
#include <asm/cpufeature.h>
#include <asm/fpu/xstate.h>

/* Bytes of one round of the loop below. */
#define STEP	128

/* What is measured: payload of the largest packet and less; best of some. */
#define MAX_LEN		4096
#define MIN_LEN		1024
#define PASSES		8
#define ROUNDS		8

static size_t wide_len __ro_after_init = SIZE_MAX;

/* In an FPU section. */
static void copy_wide(u8 *dst, const u8 *src, size_t len)
{
	for (; len >= STEP; src += STEP, dst += STEP, len -= STEP)
		asm volatile("vmovdqu	(%0), %%ymm0\n\t"
			     "vmovdqu	32(%0), %%ymm1\n\t"
			     "vmovdqu	64(%0), %%ymm2\n\t"
			     "vmovdqu	96(%0), %%ymm3\n\t"
			     "vmovdqu	%%ymm0, (%1)\n\t"
			     "vmovdqu	%%ymm1, 32(%1)\n\t"
			     "vmovdqu	%%ymm2, 64(%1)\n\t"
			     "vmovdqu	%%ymm3, 96(%1)\n\t"
			     : : "r" (src), "r" (dst) : "memory");
	asm volatile("vzeroupper" : : : "memory");
	copy_up(dst, src, len);
}

/**
 * roe_copy() - payload into a packet, or the memory of who gets it, its end upwards
 * @dst: must not overlap @src
 * @src: bytes
 * @len: how many, also none
 *
 * Context: any but NMI.
 */
void roe_copy(void *dst, const void *src, size_t len)
{
	if (len < wide_len || !roe_icrc_fpu_begin()) {
		copy_plain(dst, src, len);
		return;
	}
	copy_wide(dst, src, len);
	roe_icrc_fpu_end();
}

/**
 * roe_copy_begin() - open a section for several pieces
 * @bytes: about how many in all
 *
 * PREEMPT_RT wants to be preempted between the pieces: there each has its own.
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
		copy_wide(dst, src, len);
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

/* Right, also for what is left behind the last round, and faster by a quarter? */
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
void roe_copy(void *dst, const void *src, size_t len)
{
	copy_plain(dst, src, len);
}

bool roe_copy_begin(size_t bytes)
{
	return false;
}

void roe_copy_piece(bool wide, void *dst, const void *src, size_t len)
{
	copy_plain(dst, src, len);
}

void roe_copy_end(bool wide)
{
}

void __init roe_copy_init(void)
{
}
#endif
