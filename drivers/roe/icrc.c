// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * ICRC: masks of the headers and the fastest CRC-32 that the kernel offers.
 */
#include <crypto/hash.h>
#include <linux/bits.h>
#include <linux/crc32.h>
#include <linux/crc32poly.h>
#include <linux/err.h>
#include <linux/ip.h>
#include <linux/ipv6.h>
#include <linux/string.h>
#include <linux/udp.h>
#include <roe/wire.h>
#include "icrc.h"

/* Register of the reflected CRC after eight bytes 0xff, before the complement. */
#define ICRC_SEED	0xdebb20e3

/*
 * From this length on the call through the crypto API costs less than it saves;
 * below 79 bytes its implementation uses the table as well.
 */
#define PCLMUL_MIN_LEN	256

/*
 * Kernels before 6.14 have a table behind crc32_le() on x86, and the PCLMULQDQ
 * implementation only in the crypto API, under this driver name. Later ones
 * have no such driver, and crc32_le() itself is fast.
 */
static struct crypto_shash *pclmul __ro_after_init;

void __init roe_icrc_init(void)
{
	struct crypto_shash *tfm = crypto_alloc_shash("crc32-pclmul", 0, 0);

	pclmul = IS_ERR(tfm) ? NULL : tfm;
}

void roe_icrc_exit(void)
{
	if (pclmul)
		crypto_free_shash(pclmul);
}

static u32 crc32_shash(u32 crc, const void *data, size_t len)
{
	SHASH_DESC_ON_STACK(desc, pclmul);

	/* The exported state of this hash is the register; no step can fail. */
	desc->tfm = pclmul;
	crypto_shash_import(desc, &crc);
	crypto_shash_update(desc, data, len);
	crypto_shash_export(desc, &crc);
	return crc;
}

/**
 * roe_icrc_begin() - open a run
 * @run: its state, written here
 * @bytes: about how many it will be, in all; decides whether SIMD pays
 */
void roe_icrc_begin(struct roe_icrc_run *run, u32 bytes)
{
	run->fpu = false;
}

ROE_EXPORT_FOR_TEST(roe_icrc_begin);

/**
 * roe_icrc_end() - close a run
 * @run: from roe_icrc_begin(), in the same context
 */
void roe_icrc_end(struct roe_icrc_run *run)
{
	run->fpu = false;
}

ROE_EXPORT_FOR_TEST(roe_icrc_end);

/**
 * roe_icrc_update() - go on over bytes that are not masked
 * @run: open
 * @crc: register
 * @data: extended headers, payload or pad, in pieces of any length and alignment
 * @len: bytes
 *
 * Return: the register after them.
 */
u32 roe_icrc_update(struct roe_icrc_run *run, u32 crc, const void *data, size_t len)
{
	if (pclmul && len >= PCLMUL_MIN_LEN)
		return crc32_shash(crc, data, len);
	return crc32_le(crc, data, len);
}

ROE_EXPORT_FOR_TEST(roe_icrc_update);

/**
 * roe_icrc_copy() - copy bytes and go on over them
 * @run: open
 * @crc: register
 * @dst: where they go; must not overlap @src
 * @src: where they are; of memory that somebody changes meanwhile, the register
 *	 covers what was written to @dst, provided that @dst is private
 * @len: bytes
 *
 * Return: the register after them.
 */
u32 roe_icrc_copy(struct roe_icrc_run *run, u32 crc, void *dst, const void *src, size_t len)
{
	memcpy(dst, src, len);
	return roe_icrc_update(run, crc, dst, len);
}

ROE_EXPORT_FOR_TEST(roe_icrc_copy);

/* Product modulo the polynomial; bit 31 is the coefficient of x^0. */
static u32 multiply(u32 a, u32 b)
{
	u32 sum = 0;

	for (; b; b <<= 1) {
		if (b & BIT(31))
			sum ^= a;
		a = a >> 1 ^ (a & 1 ? CRC32_POLY_LE : 0);
	}
	return sum;
}

/**
 * roe_icrc_shift() - go on over bytes that are all zero
 * @crc: register
 * @len: bytes
 *
 * The register is linear: after bytes B it is shift(crc, len(B)) ^ R, R being the
 * register that B alone leaves when it starts at 0.
 *
 * Return: the register after them, @crc * x^(8 * @len).
 */
u32 roe_icrc_shift(u32 crc, u32 len)
{
	u32 power = BIT(31 - 8);	/* x^8, then its squares */

	for (; len; len >>= 1) {
		if (len & 1)
			crc = multiply(crc, power);
		power = multiply(power, power);
	}
	return crc;
}

ROE_EXPORT_FOR_TEST(roe_icrc_shift);

static size_t mask_ipv4(u8 *buf, const void *l3)
{
	struct iphdr *ip = memcpy(buf, l3, sizeof(*ip));

	ip->tos = 0xff;
	ip->ttl = 0xff;
	ip->check = (__force __sum16)0xffff;
	return sizeof(*ip);
}

/* IPv6 header or GRH: traffic class, flow label, hop limit. */
static size_t mask_ipv6(u8 *buf, const void *l3)
{
	struct ipv6hdr *ip6 = memcpy(buf, l3, sizeof(*ip6));

	ip6->priority = 0xf;
	memset(ip6->flow_lbl, 0xff, sizeof(ip6->flow_lbl));
	ip6->hop_limit = 0xff;
	return sizeof(*ip6);
}

/**
 * roe_icrc_head() - start an ICRC: masked LRH, L3, UDP and BTH
 * @run: open
 * @l3: IPv4 header without options, IPv6 header or GRH; any alignment
 * @v6: 40 bytes in IPv6 layout
 * @udp: UDP header, or NULL where the BTH follows the GRH (RoCEv1)
 * @bth: base transport header
 *
 * Addresses, ports, IPv4 ID and lengths must be final (wire.md 1.4).
 *
 * Return: the register, to be continued behind the BTH.
 */
u32 roe_icrc_head(struct roe_icrc_run *run, const void *l3, bool v6,
		  const struct udphdr *udp, const struct roe_bth *bth)
{
	u8 buf[sizeof(struct ipv6hdr) + sizeof(*udp) + sizeof(*bth)] __aligned(4);
	size_t len = v6 ? mask_ipv6(buf, l3) : mask_ipv4(buf, l3);

	if (udp) {
		struct udphdr *u = memcpy(buf + len, udp, sizeof(*u));

		u->check = (__force __sum16)0xffff;
		len += sizeof(*u);
	}
	memcpy(buf + len, bth, sizeof(*bth));
	buf[len + offsetof(struct roe_bth, qpn)] = 0xff;
	return roe_icrc_update(run, ICRC_SEED, buf, len + sizeof(*bth));
}

ROE_EXPORT_FOR_TEST(roe_icrc_head);
