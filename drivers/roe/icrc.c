// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * ICRC: masks of the headers and the fastest CRC-32 that the kernel offers.
 */
#include <crypto/hash.h>
#include <linux/crc32.h>
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
 * roe_icrc_update() - go on over bytes that are not masked
 * @crc: register
 * @data: extended headers, payload or pad, in pieces of any length
 * @len: bytes
 *
 * Return: the register after them.
 */
u32 roe_icrc_update(u32 crc, const void *data, size_t len)
{
	if (pclmul && len >= PCLMUL_MIN_LEN)
		return crc32_shash(crc, data, len);
	return crc32_le(crc, data, len);
}

ROE_EXPORT_FOR_TEST(roe_icrc_update);

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
 * @l3: IPv4 header without options, IPv6 header or GRH; any alignment
 * @v6: 40 bytes in IPv6 layout
 * @udp: UDP header, or NULL where the BTH follows the GRH (RoCEv1)
 * @bth: base transport header
 *
 * Return: the register, to be continued behind the BTH.
 */
u32 roe_icrc_head(const void *l3, bool v6, const struct udphdr *udp,
		  const struct roe_bth *bth)
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
	return crc32_le(ICRC_SEED, buf, len + sizeof(*bth));
}

ROE_EXPORT_FOR_TEST(roe_icrc_head);
