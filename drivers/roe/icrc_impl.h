/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Implementations of CRC-32 with and without a copy, and the choice among them.
 */
#ifndef ROE_ICRC_IMPL_H
#define ROE_ICRC_IMPL_H

#include <linux/types.h>

/* Least bytes that an implementation with SIMD can do. */
#define ROE_ICRC_SIMD_MIN	16

/**
 * struct roe_icrc_impl - one way to compute a CRC-32
 * @name: for the module parameter and the log
 * @usable: can this CPU do it, and does the kernel keep its registers?
 * @simd: needs an FPU section and at least ROE_ICRC_SIMD_MIN bytes
 * @crc: register after @len bytes at @src; copies them to @dst unless that is NULL
 */
struct roe_icrc_impl {
	const char	*name;
	bool		(*usable)(void);
	bool		simd;
	u32		(*crc)(u32 crc, const void *src, size_t len, void *dst);
};

/* From slow to fast as a rule; the first one works everywhere. */
extern const struct roe_icrc_impl roe_icrc_impls[];
extern const unsigned int roe_icrc_num_impls;

u32 roe_icrc_lib(u32 crc, const void *src, size_t len, void *dst);

/* icrc_sparse.c: any context, any length */
u32 roe_icrc_sparse(u32 crc, const void *src, size_t len, void *dst);

/**
 * struct roe_icrc_choice - what was found best on this machine
 * @impl: the implementation
 * @min_len: below so many bytes roe_icrc_lib() is faster, even in an FPU section
 */
struct roe_icrc_choice {
	const struct roe_icrc_impl	*impl;
	u32				min_len;
};

int roe_icrc_choose(struct roe_icrc_choice *choice);

#ifdef CONFIG_X86_64
#include <asm/fpu/api.h>

/* icrc_x86.S: in an FPU section, ROE_ICRC_SIMD_MIN bytes or more. */
u32 roe_icrc_pclmul(u32 crc, const void *src, size_t len, void *dst);
u32 roe_icrc_vpclmul128(u32 crc, const void *src, size_t len, void *dst);
u32 roe_icrc_vpclmul256(u32 crc, const void *src, size_t len, void *dst);
u32 roe_icrc_vpclmul512(u32 crc, const void *src, size_t len, void *dst);

/* False if the interrupted context is using the FPU in the kernel. */
static inline bool roe_icrc_fpu_begin(void)
{
	if (!irq_fpu_usable())
		return false;
	kernel_fpu_begin();
	return true;
}

static inline void roe_icrc_fpu_end(void)
{
	kernel_fpu_end();
}
#else
static inline bool roe_icrc_fpu_begin(void)
{
	return false;
}

static inline void roe_icrc_fpu_end(void)
{
}
#endif

#endif /* ROE_ICRC_IMPL_H */
