/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * CRC-32 by carry-less multiplication, optionally copying on the way.
 *
 *	u32 f(u32 crc, const void *src, size_t len, void *dst);
 *
 * @len: at least 16. @dst: NULL to compute only. Inside of an FPU section.
 *
 * Polynomials over GF(2) are stored with the highest power in the lowest bit, as
 * the wire has them: in 16 bytes, bit i is the coefficient of x^(127-i). The CRC
 * register after a message M is M(x) * x^32 mod P(x); going on from a register
 * means adding it to the first four bytes.
 *
 * Multiplying two registers of 64 bits leaves a 127-bit product in bits 0..126,
 * one bit lower than bit i = x^(127-i) would have it. So clmul(a, b) is
 * a * b * x, and every constant below is one power of x short.
 *
 * Folding: 16 bytes X = L * x^64 + H (L in the low half), D bits further on, weigh
 * X * x^D. Modulo P that is L * x^(D+64) + H * x^D, in at most 96 bits, hence
 *
 *	X * x^D = clmul(L, x^(D+63) mod P) + clmul(H, x^(D-1) mod P)
 *
 * which is added to the 16 bytes that lie there. Wider registers do the same in
 * each of their 16-byte lanes. Four accumulators hide the multiplier's latency.
 *
 * x^n mod P has 32 bits; it sits in the upper half of its 64.
 */
#include <linux/linkage.h>
#include <linux/cfi_types.h>

.section .rodata.cst16, "aM", @progbits, 16
.macro fold_by bits, low, high
	.balign 16
.Lfold\bits:
	.quad	\low << 32, \high << 32
.endm
	/*	D	x^(D+63)    x^(D-1) */
	fold_by	128,  0x65673b46, 0x9ba54c6f
	fold_by	256,  0x9570d495, 0x01b5fd1d
	fold_by	512,  0x653d9822, 0xcad38e8f
	fold_by	1024, 0x7d657a10, 0x7406fa95
	fold_by	2048, 0x7cc8e1e7, 0x03f9f863

	.balign 16
.Lreduce:
	.quad	0xb8bc6765 << 32	/* x^63 mod P */
	.quad	0xb4e5b025f7011641	/* floor(x^95 / P) */
	.balign 16
.Lpoly:
	.quad	0xedb88320 << 1		/* P without x^32, times x^31 */
	.quad	0

/*
 * Byte shuffles. Loaded from offset r they move 16 bytes up by 16 - r, from offset
 * 16 + r down by r. Bytes without a source (index 0xff) become zero.
 */
.section .rodata, "a", @progbits
	.balign 16
.Lshuffle:
	.octa	0xffffffffffffffffffffffffffffffff
	.octa	0x0f0e0d0c0b0a09080706050403020100
	.octa	0xffffffffffffffffffffffffffffffff

.text

#define CRC	%edi
#define SRC	%rsi
#define LEN	%rdx
#define DST	%rcx	/* becomes the distance from SRC */
#define K	%xmm12

/* Load @reg from SRC + @off, and store it if copying. */
.macro load128 off, reg, copy
	movdqu	\off(SRC), \reg
.if \copy
	movdqu	\reg, \off(SRC,DST)
.endif
.endm

/* @acc moved by the distance that K holds, and @data added. */
.macro fold128 acc, data, tmp
	movdqa	\acc, \tmp
	pclmulqdq $0x00, K, \acc
	pclmulqdq $0x11, K, \tmp
	pxor	\data, \acc
	pxor	\tmp, \acc
.endm

.macro step128 off, acc, data, tmp, copy
	load128	\off, \data, \copy
	fold128	\acc, \data, \tmp
.endm

/* 64 bytes and more: four accumulators, then one in %xmm0; LEN is what is left. */
.macro bulk128 copy
	load128	0, %xmm0, \copy
	load128	16, %xmm1, \copy
	load128	32, %xmm2, \copy
	load128	48, %xmm3, \copy
	movd	CRC, %xmm4
	pxor	%xmm4, %xmm0
	movdqa	.Lfold512(%rip), K
	add	$64, SRC
	sub	$128, LEN
	jb	.Lbulk128_end\@
.Lbulk128_next\@:
	step128	0, %xmm0, %xmm4, %xmm8, \copy
	step128	16, %xmm1, %xmm5, %xmm9, \copy
	step128	32, %xmm2, %xmm6, %xmm10, \copy
	step128	48, %xmm3, %xmm7, %xmm11, \copy
	add	$64, SRC
	sub	$64, LEN
	jae	.Lbulk128_next\@
.Lbulk128_end\@:
	add	$64, LEN
	movdqa	.Lfold256(%rip), K
	fold128	%xmm0, %xmm2, %xmm8
	fold128	%xmm1, %xmm3, %xmm9
	movdqa	.Lfold128(%rip), K
	fold128	%xmm0, %xmm1, %xmm8
.endm

/* Store the low LEN (1..15) bytes of @reg at SRC + DST. */
.macro store_part reg
	add	SRC, DST
	test	$8, %dl
	jz	.Lno8\@
	movq	\reg, (DST)
	psrldq	$8, \reg
	add	$8, DST
.Lno8\@:
	test	$4, %dl
	jz	.Lno4\@
	movd	\reg, (DST)
	psrldq	$4, \reg
	add	$4, DST
.Lno4\@:
	movd	\reg, %eax
	test	$2, %dl
	jz	.Lno2\@
	movw	%ax, (DST)
	shr	$16, %eax
	add	$2, DST
.Lno2\@:
	test	$1, %dl
	jz	.Lno1\@
	movb	%al, (DST)
.Lno1\@:
.endm

/*
 * The last r = LEN = 1..15 bytes T: the accumulator X is split after its first r
 * bytes. These, moved to the end of a block, lie 16 bytes ahead of the block that
 * the rest of X and T form.
 *
 * T comes with the bytes in front of it, in one load that ends where the message
 * ends; only T of it is used and stored, so that the register covers what was
 * written even if somebody changes the source meanwhile.
 */
.macro part128 copy
	lea	.Lshuffle(%rip), %rax
	movdqu	-16(SRC,LEN), %xmm1
	movdqu	(%rax,LEN), %xmm2
	movdqu	16(%rax,LEN), %xmm3
	movdqa	%xmm0, %xmm4
	pshufb	%xmm2, %xmm0		/* 0, first r bytes of X */
	pshufb	%xmm3, %xmm4		/* rest of X, 0 */
	pxor	%xmm5, %xmm5
	pcmpgtb	%xmm2, %xmm5		/* ones but for the last r bytes */
	pandn	%xmm1, %xmm5		/* 0, T */
	pxor	%xmm5, %xmm4
	fold128	%xmm0, %xmm4, %xmm8
.if \copy
	sub	LEN, %rax
	movdqu	32(%rax), %xmm2
	pshufb	%xmm2, %xmm1		/* T, 0 */
	store_part %xmm1
.endif
.endm

/*
 * %xmm0 = X = L * x^64 + H is the message, reduced to 128 bits; the result is
 * X * x^32 mod P. First to 64 bits, in two steps of 32 bits each:
 *
 *	X = L * x^64 + H = clmul(L, x^63 mod P) + H, where the product A has 96 bits
 *	U = clmul(upper 32 bits of A, x^63 mod P) + lower 64 bits of A + H
 *
 * Those 32 bits are all that the low half of A holds, and the lower 64 its upper
 * half, so that nothing needs to be moved. Then Barrett, exact over GF(2):
 *
 *	q = floor(U * x^32 / P) = floor(U * floor(x^95 / P) * x / x^64)
 *	U * x^32 mod P = lower 32 bits of q * P
 *
 * The low half of clmul(U, floor(x^95 / P)) is q; x^31 in the last constant makes
 * the lower 32 bits of q * P come out as bits 64..95.
 */
.macro reduce
	movdqa	.Lreduce(%rip), K
	movdqa	%xmm0, %xmm1
	pclmulqdq $0x00, K, %xmm1
	pxor	%xmm1, %xmm0
	pclmulqdq $0x00, K, %xmm1
	pxor	%xmm1, %xmm0
	pclmulqdq $0x11, K, %xmm0
	pclmulqdq $0x00, .Lpoly(%rip), %xmm0
	pextrd	$2, %xmm0, %eax
.endm

/* From an accumulator %xmm0 and LEN further bytes to the register. */
.macro rest128 copy
	movdqa	.Lfold128(%rip), K
	sub	$16, LEN
	jb	.Lrest_part\@
.Lrest_next\@:
	step128	0, %xmm0, %xmm4, %xmm8, \copy
	add	$16, SRC
	sub	$16, LEN
	jae	.Lrest_next\@
.Lrest_part\@:
	add	$16, LEN
	jz	.Lrest_done\@
	part128	\copy
.Lrest_done\@:
	reduce
	RET
.endm

SYM_FUNC_START_LOCAL(rest)
	rest128	0
SYM_FUNC_END(rest)

SYM_FUNC_START_LOCAL(rest_copy)
	rest128	1
SYM_FUNC_END(rest_copy)

.macro pclmul rest, copy
	cmp	$64, LEN
	jb	.Lshort\@
	bulk128	\copy
	jmp	\rest
.Lshort\@:
	load128	0, %xmm0, \copy
	movd	CRC, %xmm4
	pxor	%xmm4, %xmm0
	add	$16, SRC
	sub	$16, LEN
	jmp	\rest
.endm

/* PCLMULQDQ, SSSE3, SSE4.1 */
SYM_TYPED_FUNC_START(roe_icrc_pclmul)
	test	DST, DST
	jnz	.Lpclmul_copy
	pclmul	rest, 0
.Lpclmul_copy:
	sub	SRC, DST
	pclmul	rest_copy, 1
SYM_FUNC_END(roe_icrc_pclmul)

.macro foldv128 acc, data, tmp
	vpclmulqdq $0x00, K, \acc, \tmp
	vpclmulqdq $0x11, K, \acc, \acc
	vpxor	\data, \tmp, \tmp
	vpxor	\tmp, \acc, \acc
.endm

.macro loadv128 off, reg, copy
	vmovdqu	\off(SRC), \reg
.if \copy
	vmovdqu	\reg, \off(SRC,DST)
.endif
.endm

/* Without a copy the data is a memory operand, at any alignment. */
.macro stepv128 off, acc, data, tmp, copy
.if \copy
	loadv128 \off, \data, 1
	foldv128 \acc, \data, \tmp
.else
	foldv128 \acc, \off(SRC), \tmp
.endif
.endm

/* 128 bytes and more: eight accumulators, then one in %xmm0; LEN is what is left. */
.macro vpclmul128 rest, copy
	loadv128 0, %xmm0, \copy
	loadv128 16, %xmm1, \copy
	loadv128 32, %xmm2, \copy
	loadv128 48, %xmm3, \copy
	loadv128 64, %xmm4, \copy
	loadv128 80, %xmm5, \copy
	loadv128 96, %xmm6, \copy
	loadv128 112, %xmm7, \copy
	vmovd	CRC, %xmm8
	vpxor	%xmm8, %xmm0, %xmm0
	vmovdqa	.Lfold1024(%rip), K
	add	$128, SRC
	sub	$256, LEN
	jb	.Lend128\@
.Lnext128\@:
	stepv128 0, %xmm0, %xmm8, %xmm13, \copy
	stepv128 16, %xmm1, %xmm9, %xmm14, \copy
	stepv128 32, %xmm2, %xmm10, %xmm15, \copy
	stepv128 48, %xmm3, %xmm11, %xmm13, \copy
	stepv128 64, %xmm4, %xmm8, %xmm14, \copy
	stepv128 80, %xmm5, %xmm9, %xmm15, \copy
	stepv128 96, %xmm6, %xmm10, %xmm13, \copy
	stepv128 112, %xmm7, %xmm11, %xmm14, \copy
	add	$128, SRC
	sub	$128, LEN
	jae	.Lnext128\@
.Lend128\@:
	add	$128, LEN
	vmovdqa	.Lfold512(%rip), K
	foldv128 %xmm0, %xmm4, %xmm13
	foldv128 %xmm1, %xmm5, %xmm14
	foldv128 %xmm2, %xmm6, %xmm15
	foldv128 %xmm3, %xmm7, %xmm13
	vmovdqa	.Lfold256(%rip), K
	foldv128 %xmm0, %xmm2, %xmm14
	foldv128 %xmm1, %xmm3, %xmm15
	vmovdqa	.Lfold128(%rip), K
	foldv128 %xmm0, %xmm1, %xmm13
	vzeroupper
	jmp	\rest
.endm

/* AVX, and what roe_icrc_pclmul() needs */
SYM_TYPED_FUNC_START(roe_icrc_vpclmul128)
	cmp	$128, LEN
	jb	roe_icrc_pclmul
	test	DST, DST
	jnz	.Lvpclmul128_copy
	vpclmul128 rest, 0
.Lvpclmul128_copy:
	sub	SRC, DST
	vpclmul128 rest_copy, 1
SYM_FUNC_END(roe_icrc_vpclmul128)

#undef K
#define K	%ymm12

.macro load256 off, reg, copy
	vmovdqu	\off(SRC), \reg
.if \copy
	vmovdqu	\reg, \off(SRC,DST)
.endif
.endm

.macro fold256 acc, data, tmp
	vpclmulqdq $0x00, K, \acc, \tmp
	vpclmulqdq $0x11, K, \acc, \acc
	vpxor	\data, \tmp, \tmp
	vpxor	\tmp, \acc, \acc
.endm

.macro step256 off, acc, data, tmp, copy
	load256	\off, \data, \copy
	fold256	\acc, \data, \tmp
.endm

.macro const256 bits
	vbroadcasti128 .Lfold\bits(%rip), K
.endm

/* 128 bytes and more, to %xmm0 and LEN = 0..31. */
.macro vpclmul256 rest, copy
	load256	0, %ymm0, \copy
	load256	32, %ymm1, \copy
	load256	64, %ymm2, \copy
	load256	96, %ymm3, \copy
	vmovd	CRC, %xmm4
	vpxor	%ymm4, %ymm0, %ymm0
	const256 1024
	add	$128, SRC
	sub	$256, LEN
	jb	.Lend256\@
.Lnext256\@:
	step256	0, %ymm0, %ymm4, %ymm8, \copy
	step256	32, %ymm1, %ymm5, %ymm9, \copy
	step256	64, %ymm2, %ymm6, %ymm10, \copy
	step256	96, %ymm3, %ymm7, %ymm11, \copy
	add	$128, SRC
	sub	$128, LEN
	jae	.Lnext256\@
.Lend256\@:
	const256 512
	fold256	%ymm0, %ymm2, %ymm8
	fold256	%ymm1, %ymm3, %ymm9
	const256 256
	fold256	%ymm0, %ymm1, %ymm8
	add	$128 - 32, LEN
	js	.Lnarrow256\@
.Lone256\@:
	step256	0, %ymm0, %ymm4, %ymm8, \copy
	add	$32, SRC
	sub	$32, LEN
	jae	.Lone256\@
.Lnarrow256\@:
	add	$32, LEN
	/* The lower lane lies 128 bits ahead of the upper one. */
	const256 128
	vextracti128 $1, %ymm0, %xmm1
	vpclmulqdq $0x00, %xmm12, %xmm0, %xmm2
	vpclmulqdq $0x11, %xmm12, %xmm0, %xmm0
	vpxor	%xmm2, %xmm0, %xmm0
	vpxor	%xmm1, %xmm0, %xmm0
	vzeroupper
	jmp	\rest
.endm

/* VPCLMULQDQ, AVX2, and what roe_icrc_pclmul() needs */
SYM_TYPED_FUNC_START(roe_icrc_vpclmul256)
	cmp	$128, LEN
	jb	roe_icrc_pclmul
	test	DST, DST
	jnz	.Lvpclmul256_copy
	vpclmul256 rest, 0
.Lvpclmul256_copy:
	sub	SRC, DST
	vpclmul256 rest_copy, 1
SYM_FUNC_END(roe_icrc_vpclmul256)

#undef K
#define K	%zmm12

.macro load512 off, reg, copy
	vmovdqu64 \off(SRC), \reg
.if \copy
	vmovdqu64 \reg, \off(SRC,DST)
.endif
.endm

.macro fold512 acc, data, tmp
	vpclmulqdq $0x00, K, \acc, \tmp
	vpclmulqdq $0x11, K, \acc, \acc
	vpternlogq $0x96, \data, \tmp, \acc	/* sum of all three */
.endm

.macro step512 off, acc, data, tmp, copy
	load512	\off, \data, \copy
	fold512	\acc, \data, \tmp
.endm

.macro const512 bits
	vbroadcasti32x4 .Lfold\bits(%rip), K
.endm

/* 256 bytes and more, to %xmm0 and LEN = 0..63. */
.macro vpclmul512 rest, copy
	load512	0, %zmm0, \copy
	load512	64, %zmm1, \copy
	load512	128, %zmm2, \copy
	load512	192, %zmm3, \copy
	vmovd	CRC, %xmm4
	vpxorq	%zmm4, %zmm0, %zmm0
	const512 2048
	add	$256, SRC
	sub	$512, LEN
	jb	.Lend512\@
.Lnext512\@:
	step512	0, %zmm0, %zmm4, %zmm8, \copy
	step512	64, %zmm1, %zmm5, %zmm9, \copy
	step512	128, %zmm2, %zmm6, %zmm10, \copy
	step512	192, %zmm3, %zmm7, %zmm11, \copy
	add	$256, SRC
	sub	$256, LEN
	jae	.Lnext512\@
.Lend512\@:
	const512 1024
	fold512	%zmm0, %zmm2, %zmm8
	fold512	%zmm1, %zmm3, %zmm9
	const512 512
	fold512	%zmm0, %zmm1, %zmm8
	add	$256 - 64, LEN
	js	.Lnarrow512\@
.Lone512\@:
	step512	0, %zmm0, %zmm4, %zmm8, \copy
	add	$64, SRC
	sub	$64, LEN
	jae	.Lone512\@
.Lnarrow512\@:
	add	$64, LEN
	/* Lower lanes lie ahead of upper ones, by 256 bits, then by 128. */
	const512 256
	vextracti64x4 $1, %zmm0, %ymm1
	vpclmulqdq $0x00, %ymm12, %ymm0, %ymm2
	vpclmulqdq $0x11, %ymm12, %ymm0, %ymm0
	vpxor	%ymm2, %ymm0, %ymm0
	vpxor	%ymm1, %ymm0, %ymm0
	const512 128
	vextracti128 $1, %ymm0, %xmm1
	vpclmulqdq $0x00, %xmm12, %xmm0, %xmm2
	vpclmulqdq $0x11, %xmm12, %xmm0, %xmm0
	vpxor	%xmm2, %xmm0, %xmm0
	vpxor	%xmm1, %xmm0, %xmm0
	vzeroupper
	jmp	\rest
.endm

/* AVX512F, and what roe_icrc_vpclmul256() needs */
SYM_TYPED_FUNC_START(roe_icrc_vpclmul512)
	cmp	$256, LEN
	jb	roe_icrc_pclmul
	test	DST, DST
	jnz	.Lvpclmul512_copy
	vpclmul512 rest, 0
.Lvpclmul512_copy:
	sub	SRC, DST
	vpclmul512 rest_copy, 1
SYM_FUNC_END(roe_icrc_vpclmul512)
