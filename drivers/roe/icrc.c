// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * ICRC: masks of the headers, runs that share an FPU section.
 */
#include <linux/bits.h>
#include <linux/init.h>
#include <linux/static_call.h>
#include <linux/string.h>
#include <net/ipv6.h>
#include <roe/wire.h>
#include "icrc.h"
#include "icrc_impl.h"

/* Register of the reflected CRC after eight bytes 0xff, before the complement. */
#define ICRC_SEED	0xdebb20e3

/*
 * An FPU section costs up to a few hundred nanoseconds: it has to save what user
 * space has in the registers. Below this length the library is faster.
 */
#define SECTION_MIN_LEN	256

static bool simd __ro_after_init;
static u32 min_len __ro_after_init = U32_MAX;
DEFINE_STATIC_CALL(roe_icrc_crc, roe_icrc_lib);

/*
 * What each byte of the IPv4 ID and of the last word of the BTH (AckReq, PSN) contributes to
 * the register after the BTH. The CRC is linear, and little else changes from packet to
 * packet.
 */
static u32 id_part[sizeof(__be16)][256] __ro_after_init;
static u32 apsn_part[sizeof(__be32)][256] __ro_after_init;

static void __init init_parts(void)
{
	struct {
		struct iphdr	ip;
		struct udphdr	udp;
		struct roe_bth	bth;
	} __packed head = {};		/* all zero but for one byte of the ID */
	struct roe_bth bth = {};	/* or for one byte of apsn */
	unsigned int i, k;

	for (i = 0; i < 256; i++) {
		for (k = 0; k < ARRAY_SIZE(id_part); k++) {
			head.ip.id = cpu_to_be16(i << 8 * k);
			id_part[k][i] = roe_icrc_lib(0, &head, sizeof(head), NULL);
		}
		for (k = 0; k < ARRAY_SIZE(apsn_part); k++) {
			bth.apsn = cpu_to_be32(i << 8 * k);
			apsn_part[k][i] = roe_icrc_lib(0, &bth, sizeof(bth), NULL);
		}
	}
}

static u32 parts(u16 id, u32 apsn)
{
	return id_part[0][id & 0xff] ^ id_part[1][id >> 8] ^
	       apsn_part[0][apsn & 0xff] ^ apsn_part[1][apsn >> 8 & 0xff] ^
	       apsn_part[2][apsn >> 16 & 0xff] ^ apsn_part[3][apsn >> 24];
}

/**
 * roe_icrc_init() - choose the implementation of CRC-32
 *
 * Return: 0 or what roe_icrc_choose() says.
 */
int __init roe_icrc_init(void)
{
	struct roe_icrc_choice choice;
	int err = roe_icrc_choose(&choice);

	if (err)
		return err;
	init_parts();
	static_call_update(roe_icrc_crc, choice.impl->crc);
	simd = choice.impl->simd;
	min_len = choice.min_len;
	return 0;
}

/**
 * roe_icrc_begin() - open a run
 * @run: its state, written here
 * @bytes: about how many it will be, in all; decides whether SIMD pays
 */
void roe_icrc_begin(struct roe_icrc_run *run, u32 bytes)
{
	/*
	 * With PREEMPT_RT a run stays preemptible, and locks that it takes, of MRs for
	 * instance, may sleep: there each long piece has a section of its own.
	 */
	run->head = NULL;
	run->fpu = simd && bytes >= SECTION_MIN_LEN && !IS_ENABLED(CONFIG_PREEMPT_RT) &&
		   roe_icrc_fpu_begin();
}

ROE_EXPORT_FOR_TEST(roe_icrc_begin);

/**
 * roe_icrc_end() - close a run
 * @run: from roe_icrc_begin(), in the same context
 */
void roe_icrc_end(struct roe_icrc_run *run)
{
	if (run->fpu)
		roe_icrc_fpu_end();
	run->fpu = false;
}

ROE_EXPORT_FOR_TEST(roe_icrc_end);

/* A piece outside of an FPU section. If it is long enough it has one of its own. */
static u32 go_on_alone(u32 crc, const void *src, size_t len, void *dst)
{
	if (len < SECTION_MIN_LEN || !roe_icrc_fpu_begin())
		return roe_icrc_lib(crc, src, len, dst);
	crc = static_call(roe_icrc_crc)(crc, src, len, dst);
	roe_icrc_fpu_end();
	return crc;
}

static u32 go_on(const struct roe_icrc_run *run, u32 crc, const void *src, size_t len, void *dst)
{
	if (len < min_len)
		return roe_icrc_lib(crc, src, len, dst);
	if (simd && !run->fpu)
		return go_on_alone(crc, src, len, dst);
	return static_call(roe_icrc_crc)(crc, src, len, dst);
}

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
	return len ? go_on(run, crc, data, len, NULL) : crc;
}

ROE_EXPORT_FOR_TEST(roe_icrc_update);

/**
 * roe_icrc_copy() - copy bytes and go on over them
 * @run: open
 * @crc: register
 * @dst: where they go; must not overlap @src
 * @src: where they are; if somebody changes them meanwhile, the register covers
 *	 what was written to @dst, provided that @dst is private
 * @len: bytes
 *
 * Return: the register after them.
 */
u32 roe_icrc_copy(struct roe_icrc_run *run, u32 crc, void *dst, const void *src, size_t len)
{
	return go_on(run, crc, src, len, dst);
}

ROE_EXPORT_FOR_TEST(roe_icrc_copy);

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

/* Compute the register after the BTH from the start. */
static u32 head_whole(struct roe_icrc_run *run, const void *l3, bool v6,
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

/* Compare all fields that the ICRC covers, except the ID. */
static bool same_ipv4(const struct iphdr *a, const struct iphdr *b)
{
	return a->daddr == b->daddr && a->saddr == b->saddr && a->tot_len == b->tot_len &&
	       a->frag_off == b->frag_off && a->protocol == b->protocol &&
	       a->version == b->version && a->ihl == b->ihl;
}

static bool same_ipv6(const struct ipv6hdr *a, const struct ipv6hdr *b)
{
	return ipv6_addr_equal(&a->daddr, &b->daddr) && ipv6_addr_equal(&a->saddr, &b->saddr) &&
	       a->payload_len == b->payload_len && a->nexthdr == b->nexthdr &&
	       a->version == b->version;
}

static bool same_flow(const struct roe_icrc_head *head, const void *l3, bool v6,
		      const struct udphdr *udp)
{
	return head->v6 == v6 && head->udp.source == udp->source &&
	       head->udp.dest == udp->dest &&
	       (v6 ? same_ipv6(&head->ip6, l3) : same_ipv4(&head->ip4, l3));
}

/* Of headers of the same flow: do they differ by ID, AckReq and PSN only? */
static bool same_kind(const struct roe_icrc_head *head, const struct udphdr *udp,
		      const struct roe_bth *bth)
{
	BUILD_BUG_ON(offsetof(struct roe_bth, apsn) != sizeof(u64));
	return head->udp.len == udp->len &&
	       get_unaligned((const u64 *)&head->bth) == get_unaligned((const u64 *)bth);
}

/* The place where headers like these are kept, if they came before. */
static struct roe_icrc_head *place(struct roe_icrc_heads *heads, const struct roe_bth *bth)
{
	u32 key = be32_to_cpu(bth->qpn) + 5 * bth->opcode;

	return &heads->head[key % ROE_ICRC_HEADS];
}

static void learn(struct roe_icrc_run *run, struct roe_icrc_head *head, const void *l3, bool v6,
		  const struct udphdr *udp, const struct roe_bth *bth)
{
	u16 id = v6 ? 0 : be16_to_cpu(((const struct iphdr *)l3)->id);

	if (v6)
		head->ip6 = *(const struct ipv6hdr *)l3;
	else
		head->ip4 = *(const struct iphdr *)l3;
	head->v6 = v6;
	head->udp = *udp;
	head->bth = *bth;
	head->crc = head_whole(run, l3, v6, udp, bth) ^ parts(id, be32_to_cpu(bth->apsn));
}

/**
 * roe_icrc_head() - start an ICRC: masked LRH, L3, UDP and BTH
 * @run: open; addresses and ports are the same in all its packets
 * @heads: headers that came before; nobody else uses them during the call
 * @l3: IPv4 header without options, IPv6 header or GRH; any alignment
 * @v6: @l3 is 40 bytes in IPv6 layout
 * @udp: UDP header, or NULL where the BTH follows the GRH (RoCEv1)
 * @bth: base transport header
 *
 * The headers must be copies that nobody writes to: what is kept here is used for other packets.
 * Addresses, ports, IPv4 ID and lengths must be final (wire.md 1.4).
 *
 * Return: the register, to be continued after the BTH.
 */
u32 roe_icrc_head(struct roe_icrc_run *run, struct roe_icrc_heads *heads, const void *l3,
		  bool v6, const struct udphdr *udp, const struct roe_bth *bth)
{
	struct roe_icrc_head *head = run->head;

	if (!udp)
		return head_whole(run, l3, v6, NULL, bth);
	if (!head || !same_kind(head, udp, bth)) {
		head = place(heads, bth);
		if (!same_kind(head, udp, bth) || !same_flow(head, l3, v6, udp))
			learn(run, head, l3, v6, udp, bth);
		run->head = head;
	}
	return head->crc ^ parts(v6 ? 0 : be16_to_cpu(((const struct iphdr *)l3)->id),
				 be32_to_cpu(bth->apsn));
}

ROE_EXPORT_FOR_TEST(roe_icrc_head);
