// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Which CRC-32? What crc32_le() is depends on kernel and machine: a table (x86
 * before 6.14), CRC instructions (arm64), or SIMD that opens an FPU section of its
 * own in each call. roe brings an implementation that beats the table without any of
 * that, and for x86 others that copy on the way and share one section. All that pass a
 * test are timed when the module is loaded.
 */
#include <linux/crc32.h>
#include <linux/crc32poly.h>
#include <linux/err.h>
#include <linux/init.h>
#include <linux/kernel.h>
#include <linux/math64.h>
#include <linux/minmax.h>
#include <linux/moduleparam.h>
#include <linux/timekeeping.h>
#include <linux/slab.h>
#include <linux/string.h>
#include "copy.h"
#include "icrc_impl.h"

#ifdef CONFIG_X86_64
#include <asm/cpufeature.h>
#include <asm/fpu/api.h>
#ifndef CONFIG_UML
#include <asm/fpu/xstate.h>
#else
/* UML: the host's kernel saves and restores all registers that its cpuinfo shows. */
#define XFEATURE_MASK_SSE		0
#define XFEATURE_MASK_YMM		0
#define XFEATURE_MASK_AVX512		0
static inline bool cpu_has_xfeatures(u64 mask, const char **name)
{
	return true;
}

#endif
#endif

static char *wanted;
module_param_named(icrc, wanted, charp, 0444);
MODULE_PARM_DESC(icrc, "CRC-32: lib, sparse, or on x86 pclmul, vpclmul128, vpclmul256, vpclmul512 (default: the fastest)");

/* Each length below this takes another path through the implementations: all are tested. */
#define TEST_LEN	800

/* What is timed: the payload of the largest packet, a few times, best of some. */
#define BENCH_LEN	4096
#define BENCH_PASSES	4
#define BENCH_ROUNDS	8

/**
 * roe_icrc_lib() - CRC-32 by the kernel's library
 * @crc: register
 * @src: bytes
 * @len: how many, also none
 * @dst: copy them there, unless NULL; the register covers the copy
 *
 * Return: the register after them.
 */
u32 roe_icrc_lib(u32 crc, const void *src, size_t len, void *dst)
{
	if (dst) {
		roe_copy_out(dst, src, len);
		src = dst;
	}
	return crc32_le(crc, src, len);
}

ROE_EXPORT_FOR_TEST(roe_icrc_lib);

static bool always(void)
{
	return true;
}

#ifdef CONFIG_X86_64
static bool has_pclmul(void)
{
	return boot_cpu_has(X86_FEATURE_PCLMULQDQ) && boot_cpu_has(X86_FEATURE_SSSE3) &&
	       boot_cpu_has(X86_FEATURE_XMM4_1);
}

static bool has_vpclmul128(void)
{
	return has_pclmul() && boot_cpu_has(X86_FEATURE_AVX) &&
	       cpu_has_xfeatures(XFEATURE_MASK_SSE | XFEATURE_MASK_YMM, NULL);
}

static bool has_vpclmul256(void)
{
	return has_vpclmul128() && boot_cpu_has(X86_FEATURE_VPCLMULQDQ) &&
	       boot_cpu_has(X86_FEATURE_AVX2);
}

static bool has_vpclmul512(void)
{
	return has_vpclmul256() && boot_cpu_has(X86_FEATURE_AVX512F) &&
	       cpu_has_xfeatures(XFEATURE_MASK_AVX512, NULL);
}
#endif

const struct roe_icrc_impl roe_icrc_impls[] = {
	{ "lib", always, false, roe_icrc_lib },
	{ "sparse", always, false, roe_icrc_sparse },
#ifdef CONFIG_X86_64
	{ "pclmul", has_pclmul, true, roe_icrc_pclmul },
	{ "vpclmul128", has_vpclmul128, true, roe_icrc_vpclmul128 },
	{ "vpclmul256", has_vpclmul256, true, roe_icrc_vpclmul256 },
	{ "vpclmul512", has_vpclmul512, true, roe_icrc_vpclmul512 },
#endif
};

ROE_EXPORT_FOR_TEST(roe_icrc_impls);

const unsigned int roe_icrc_num_impls = ARRAY_SIZE(roe_icrc_impls);
ROE_EXPORT_FOR_TEST(roe_icrc_num_impls);

/* The definition: one bit after the other. */
static u32 __init crc_by_bit(u32 crc, u8 byte)
{
	unsigned int bit;

	crc ^= byte;
	for (bit = 0; bit < 8; bit++)
		crc = crc >> 1 ^ (crc & 1 ? CRC32_POLY_LE : 0);
	return crc;
}

static bool __init begin(const struct roe_icrc_impl *impl)
{
	return !impl->simd || roe_icrc_fpu_begin();
}

static void __init end(const struct roe_icrc_impl *impl)
{
	if (impl->simd)
		roe_icrc_fpu_end();
}

static bool __init right(const struct roe_icrc_impl *impl, u32 want, const u8 *src, u8 *dst,
			 u32 len)
{
	bool ok;

	memset(dst, 0, len);
	if (!begin(impl))
		return false;
	ok = impl->crc(~0, src, len, NULL) == want && impl->crc(~0, src, len, dst) == want;
	end(impl);
	return ok && !memcmp(dst, src, len);
}

static bool __init works(const struct roe_icrc_impl *impl, const u8 *src, u8 *dst)
{
	u32 want = ~0, len;

	for (len = 0; len < TEST_LEN; want = crc_by_bit(want, src[len++])) {
		if (len >= ROE_ICRC_SIMD_MIN && !right(impl, want, src, dst, len)) {
			pr_err("ICRC by %s is wrong for %u bytes, not used\n", impl->name, len);
			return false;
		}
	}
	return true;
}

/* Nanoseconds for BENCH_PASSES times @len bytes, half with a copy, as sent packets need it. */
static u64 __init cost(const struct roe_icrc_impl *impl, const u8 *src, u8 *dst, u32 len)
{
	u64 best = U64_MAX;
	int round, pass;

	for (round = 0; round < BENCH_ROUNDS && begin(impl); round++) {
		u64 start = ktime_get_ns();
		u32 crc = round;

		for (pass = 0; pass < BENCH_PASSES; pass++)
			crc = impl->crc(crc, src, len, pass & 1 ? dst : NULL);
		best = min(best, ktime_get_ns() - start);
		end(impl);
	}
	return max_t(u64, best, 1);
}

static const struct roe_icrc_impl * __init find(const char *name)
{
	unsigned int i;

	for (i = 0; i < roe_icrc_num_impls; i++)
		if (sysfs_streq(name, roe_icrc_impls[i].name))
			return &roe_icrc_impls[i];
	return NULL;
}

/*
 * Wider registers lower the clock of some CPUs, for longer than anything here
 * lasts: whatever comes later in the table must win by a quarter.
 */
static const struct roe_icrc_impl * __init fastest(const u8 *src, u8 *dst)
{
	const struct roe_icrc_impl *impl, *best = roe_icrc_impls;
	u64 ns, best_ns = cost(best, src, dst, BENCH_LEN);

	for (impl = best + 1; impl < roe_icrc_impls + roe_icrc_num_impls; impl++) {
		if (!impl->usable() || !works(impl, src, dst))
			continue;
		ns = cost(impl, src, dst, BENCH_LEN);
		if (5 * ns <= 4 * best_ns) {
			best = impl;
			best_ns = ns;
		}
	}
	return best;
}

/* The implementation that the module parameter names; without it, the fastest one. */
static const struct roe_icrc_impl * __init choose(const u8 *src, u8 *dst)
{
	const struct roe_icrc_impl *impl;

	if (!wanted)
		return fastest(src, dst);
	impl = find(wanted);
	if (!impl) {
		pr_err("icrc=%s: no such implementation\n", wanted);
		return ERR_PTR(-EINVAL);
	}
	if (!impl->usable() || !works(impl, src, dst)) {
		pr_err("icrc=%s: this CPU cannot do it\n", wanted);
		return ERR_PTR(-EOPNOTSUPP);
	}
	return impl;
}

static u32 __init least_len(const struct roe_icrc_impl *impl, const u8 *src, u8 *dst)
{
	u32 len = ROE_ICRC_SIMD_MIN;

	if (impl == roe_icrc_impls)
		return U32_MAX;
	while (len < BENCH_LEN &&
	       cost(impl, src, dst, len) > cost(roe_icrc_impls, src, dst, len))
		len *= 2;
	return len;
}

/**
 * roe_icrc_choose() - find the fastest implementation, or the one asked for
 * @choice: result
 *
 * Context: may sleep; takes about a millisecond.
 *
 * Return: 0; -EINVAL if the module parameter names no implementation, -EOPNOTSUPP if
 * it names one that does not work here; -ENOMEM.
 */
int __init roe_icrc_choose(struct roe_icrc_choice *choice)
{
	const struct roe_icrc_impl *impl;
	u8 *src, *dst;
	u32 i;

	src = kmalloc(2 * BENCH_LEN, GFP_KERNEL);
	if (!src)
		return -ENOMEM;
	dst = src + BENCH_LEN;
	for (i = 0; i < BENCH_LEN; i++)
		src[i] = i * 2654435761u >> 24;

	impl = choose(src, dst);
	if (!IS_ERR(impl)) {
		choice->impl = impl;
		choice->min_len = least_len(impl, src, dst);
		pr_info("ICRC by %s, %llu MB/s\n", impl->name,
			div64_u64(1000ull * BENCH_PASSES * BENCH_LEN,
				  cost(impl, src, dst, BENCH_LEN)));
		if (!wanted)
			wanted = (char *)impl->name;
	}
	kfree(src);
	return PTR_ERR_OR_ZERO(impl);
}
