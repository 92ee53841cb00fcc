// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Trains: cut up by the kernel's own segmentation, each packet is the one that
 * would have left alone, bit for bit but for the checksums that the ICRC masks,
 * and its ICRC is right by a CRC of our own. And the other way: an skb of any
 * layout is read as the packets that are in it.
 */
#include <kunit/test.h>
#include <linux/if_vlan.h>
#include <linux/prandom.h>
#include <linux/slab.h>
#include <net/dsfield.h>
#include <net/gso.h>
#include <net/ip.h>
#include <roe/opcode.h>
#include <roe/pkt.h>
#include "../drivers/roe/frame.h"
#include "../drivers/roe/net.h"

#define HEADROOM	64
#define MAX_TRAIN	(64 * 1024)
#define MAX_PIECES	200

struct train {
	const char	*name;
	bool		v6;
	u16		id;
	u8		first, middle, last;	/* opcodes */
	u32		mtu, last_len;
	unsigned int	n;
};

static const struct train trains[] = {
	{ "v4 SEND 15 x 4096", false, 7, 0x00, 0x01, 0x02, 4096, 4096, 15 },
	{ "v4 WRITE middles, short last", false, 100, 0x07, 0x07, 0x08, 1024, 17, 40 },
	{ "v4 WRITE middles, last with imm", false, 100, 0x07, 0x07, 0x09, 1024, 1020, 9 },
	{ "v4 id wraps", false, 0xfffe, 0x07, 0x07, 0x08, 256, 255, 5 },
	{ "v4 WRITE FIRST and MIDDLE", false, 1, 0x06, 0x07, 0x07, 1024, 1024, 2 },
	{ "v4 SEND ONLY of 1 byte", false, 1, 0x04, 0x04, 0x04, 1, 1, 64 },
	{ "v4 62 x 1024", false, 0x7fff, 0x07, 0x07, 0x08, 1024, 1024, 62 },
	{ "v6 SEND 7 x 4096, last 1", true, 0, 0x00, 0x01, 0x02, 4096, 1, 7 },
	{ "v6 READ RESPONSE middles", true, 0, 0x0e, 0x0e, 0x0e, 512, 512, 33 },
	{ "v6 WRITE ONLY", true, 0, 0x0a, 0x0a, 0x0a, 64, 64, 20 },
	{ "v6 62 x 1024", true, 0, 0x07, 0x07, 0x08, 1024, 1023, 62 },
};

static void train_desc(const struct train *t, char *desc)
{
	strscpy(desc, t->name, KUNIT_PARAM_DESC_SIZE);
}

KUNIT_ARRAY_PARAM(train, trains, train_desc);

/* The CRC of Ethernet, bit by bit. */
static u32 crc_bits(u32 crc, const u8 *p, u32 len)
{
	while (len--) {
		unsigned int bit;

		crc ^= *p++;
		for (bit = 0; bit < 8; bit++)
			crc = crc >> 1 ^ (crc & 1 ? 0xedb88320 : 0);
	}
	return crc;
}

/* Packet from the IP header on: ones where the ICRC looks away (wire.md 3.2). */
static void mask(u8 *p, bool v6)
{
	u8 *udp = p + (v6 ? 40 : 20);

	if (v6) {
		p[0] |= 0x0f;
		memset(p + 1, 0xff, 3);
		p[7] = 0xff;
	} else {
		p[1] = 0xff;
		p[8] = 0xff;
		memset(p + 10, 0xff, 2);
	}
	memset(udp + 6, 0xff, 2);
	udp[8 + 4] = 0xff;
}

static bool icrc_right(const u8 *masked, u32 len)
{
	static const u8 lrh[8] = { 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff };
	u32 crc = crc_bits(crc_bits(~0, lrh, sizeof(lrh)), masked, len - ROE_ICRC_LEN);

	return get_unaligned_le32(masked + len - ROE_ICRC_LEN) == ~crc;
}

static void init_path(struct roe_path *path, const struct train *t)
{
	struct roe_av *av = &path->av;

	memset(path, 0, sizeof(*path));
	av->v6 = t->v6;
	av->tclass = 0x6a;
	av->hop_limit = 63;
	av->flow_label = 0x12345;
	av->sport = htons(0xc123);
	ipv6_addr_set(&av->saddr, htonl(0xfd000000), 0, 0, htonl(0x0a000001));
	ipv6_addr_set(&av->daddr, htonl(0xfd000000), 0, 0, htonl(0x0a000002));
	path->ip_id = t->id;
}

static void put_txb(void *txb)
{
	roe_txb_free(txb);
	kfree(txb);
}

static struct roe_txb *fill(struct kunit *test, const struct train *t, bool apart)
{
	struct roe_txb *txb = kzalloc(sizeof(*txb), GFP_KERNEL);
	struct rnd_state rnd;
	unsigned int i;

	KUNIT_ASSERT_NOT_NULL(test, txb);
	KUNIT_ASSERT_EQ(test, kunit_add_action_or_reset(test, put_txb, txb), 0);
	txb->apart = apart;
	prandom_seed_state(&rnd, t->n);
	for (i = 0; i < t->n; i++) {
		bool last = i == t->n - 1;
		u8 op = !i ? t->first : last ? t->last : t->middle;
		struct roe_tx_pkt *pkt = roe_txb_add(txb, op, last ? t->last_len : t->mtu);

		KUNIT_ASSERT_NOT_NULL(test, pkt);
		prandom_bytes_state(&rnd, roe_tx_payload(pkt), pkt->p.len);
		pkt->p.psn = 0xfffff0 + i;
		pkt->p.qpn = 0x1234;
		pkt->p.pkey = 0xffff;
		pkt->p.va = 0x1122334455667788ull;
	}
	return txb;
}

static struct roe_txb *fill_txb(struct kunit *test, const struct train *t)
{
	return fill(test, t, false);
}

static void put_skb(void *skb)
{
	kfree_skb_list(skb);
}

static struct sk_buff *build(struct kunit *test, struct roe_path *path,
			     struct roe_tx_pkt *pkt, unsigned int n)
{
	struct sk_buff *skb;

	local_bh_disable();
	skb = roe_frame_build(path, pkt, n, HEADROOM, 0);
	local_bh_enable();
	KUNIT_ASSERT_NOT_NULL(test, skb);
	KUNIT_ASSERT_EQ(test, kunit_add_action_or_reset(test, put_skb, skb), 0);
	skb_reset_mac_header(skb);
	return skb;
}

static const struct roe_frame_limits wide = { .bytes = 65507, .segs = 64 };

/* The bytes of @skb from the IP header on, masked. */
static u8 *bytes_of(struct kunit *test, const struct sk_buff *skb, bool v6)
{
	u8 *p = kunit_kzalloc(test, skb->len, GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, p);
	KUNIT_ASSERT_EQ(test, skb_copy_bits(skb, 0, p, skb->len), 0);
	mask(p, v6);
	return p;
}

static void frame_segments(struct kunit *test)
{
	const struct train *t = test->param_value;
	struct roe_txb *txb = fill_txb(test, t);
	struct sk_buff *skb, *segs, *seg;
	struct roe_path path, single;
	unsigned int i = 0;

	init_path(&path, t);
	init_path(&single, t);
	KUNIT_ASSERT_EQ(test, roe_frame_fit(txb->pkt, txb->n, &wide), t->n);
	skb = build(test, &path, txb->pkt, t->n);
	KUNIT_EXPECT_EQ(test, path.ip_id, (u16)(t->id + t->n));

	segs = skb_gso_segment(skb, 0);
	KUNIT_ASSERT_FALSE(test, IS_ERR_OR_NULL(segs));
	KUNIT_ASSERT_EQ(test, kunit_add_action_or_reset(test, put_skb, segs), 0);
	for (seg = segs; seg; seg = seg->next, i++) {
		struct sk_buff *alone;
		u8 *got, *want;

		KUNIT_ASSERT_LT(test, i, t->n);
		got = bytes_of(test, seg, t->v6);
		KUNIT_EXPECT_TRUE(test, icrc_right(got, seg->len));
		KUNIT_EXPECT_NE(test, udp_hdr(seg)->check, (__force __sum16)0);
		/* writes headers and ICRC over those of the train, so last */
		alone = build(test, &single, &txb->pkt[i], 1);
		want = bytes_of(test, alone, t->v6);
		KUNIT_ASSERT_EQ(test, seg->len, alone->len);
		KUNIT_EXPECT_MEMEQ(test, got, want, seg->len);
	}
	KUNIT_EXPECT_EQ(test, i, t->n);
}

/* The bytes of the one packet in @skb, as a train's: those that would have left alone. */
static void expect_same(struct kunit *test, const struct sk_buff *skb, const struct sk_buff *alone,
			bool v6)
{
	u8 *got = bytes_of(test, skb, v6), *want = bytes_of(test, alone, v6);

	KUNIT_EXPECT_TRUE(test, icrc_right(got, skb->len));
	KUNIT_ASSERT_EQ(test, skb->len, alone->len);
	KUNIT_EXPECT_MEMEQ(test, got, want, skb->len);
}

/*
 * For a netdev without scatter-gather: each packet is an skb of one piece, which cutting up only
 * takes from the list. Nobody had to copy a byte: it lies where the burst has it.
 */
static void frame_list(struct kunit *test)
{
	const struct train *t = test->param_value;
	struct roe_txb *apart = fill(test, t, true), *txb = fill_txb(test, t);
	struct sk_buff *skb, *segs, *seg;
	struct roe_path path, single;
	unsigned int i = 0;

	init_path(&path, t);
	init_path(&single, t);
	KUNIT_ASSERT_EQ(test, roe_frame_fit(apart->pkt, apart->n, &wide), t->n);
	skb = build(test, &path, apart->pkt, t->n);
	KUNIT_EXPECT_EQ(test, path.ip_id, (u16)(t->id + t->n));
	KUNIT_EXPECT_EQ(test, skb_shinfo(skb)->gso_type, SKB_GSO_UDP_L4 | SKB_GSO_FRAGLIST);
	/* as __ip_local_out() */
	if (!t->v6)
		ip_hdr(skb)->tot_len = htons(skb->len);

	segs = skb_gso_segment(skb, 0);
	KUNIT_ASSERT_FALSE(test, IS_ERR_OR_NULL(segs));
	/* the first of them is the head itself, with a reference more */
	KUNIT_ASSERT_PTR_EQ(test, segs, skb);
	consume_skb(segs);
	for (seg = segs; seg; seg = seg->next, i++) {
		const struct roe_tx_pkt *pkt = &apart->pkt[i];
		u32 bytes = roe_tx_bytes(pkt);

		KUNIT_ASSERT_LT(test, i, t->n);
		KUNIT_EXPECT_FALSE(test, skb_is_nonlinear(seg));
		KUNIT_EXPECT_PTR_EQ(test, seg->data + seg->len, pkt->buf + bytes);
		KUNIT_EXPECT_EQ(test, udp_hdr(seg)->check, (__force __sum16)0);
		KUNIT_EXPECT_EQ(test, ntohs(udp_hdr(seg)->len), bytes + sizeof(struct udphdr));
		expect_same(test, seg, build(test, &single, &txb->pkt[i], 1), t->v6);
	}
	KUNIT_EXPECT_EQ(test, i, t->n);
}

/* One packet that is apart, for every length up to what does not fit into a small skb. */
static void frame_apart_alone(struct kunit *test)
{
	static const struct train sizes[] = {
		{ .first = 0x04, .n = 1, .last_len = 0 },
		{ .first = 0x0a, .n = 1, .last_len = 1 },
		{ .first = 0x0a, .n = 1, .last_len = 256 },
		{ .first = 0x0a, .n = 1, .last_len = 257 },
		{ .first = 0x0a, .n = 1, .last_len = 4096 },
		{ .first = 0x0a, .n = 1, .last_len = 4095, .v6 = true },
	};
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(sizes); i++) {
		struct roe_txb *apart = fill(test, &sizes[i], true);
		struct roe_txb *txb = fill_txb(test, &sizes[i]);
		struct roe_path path, single;
		struct sk_buff *skb;

		init_path(&path, &sizes[i]);
		init_path(&single, &sizes[i]);
		skb = build(test, &path, apart->pkt, 1);
		KUNIT_EXPECT_FALSE(test, skb_is_nonlinear(skb));
		KUNIT_EXPECT_FALSE(test, skb_is_gso(skb));
		KUNIT_EXPECT_EQ(test, udp_hdr(skb)->check, (__force __sum16)0);
		expect_same(test, skb, build(test, &single, txb->pkt, 1), sizes[i].v6);
	}
}

/* A burst that is apart keeps its room when packets are taken back and added in a row. */
static void frame_apart_row(struct kunit *test)
{
	struct roe_txb *txb = kunit_kzalloc(test, sizeof(*txb), GFP_KERNEL);
	struct roe_pkt model = { .opcode = 0x07, .len = 1024, .psn = 9 };
	u32 space = roe_txb_space(sizeof(struct roe_bth) + 1024 + ROE_ICRC_LEN, true);
	unsigned int i, n;

	KUNIT_ASSERT_NOT_NULL(test, txb);
	txb->apart = true;
	KUNIT_ASSERT_NOT_NULL(test, roe_txb_add(txb, 0x06, 1024));
	KUNIT_ASSERT_NOT_NULL(test, roe_txb_add(txb, 0x07, 1024));
	roe_txb_cancel(txb);
	n = roe_txb_plan(txb, 1024, 64);
	KUNIT_EXPECT_GE(test, n, 2);
	roe_txb_add_row(txb, &model, n);
	KUNIT_EXPECT_EQ(test, txb->n, n + 1);
	for (i = 0; i <= n; i++) {
		const struct roe_tx_pkt *pkt = &txb->pkt[i];
		u32 off = pkt->buf - (u8 *)page_address(pkt->page);

		KUNIT_EXPECT_TRUE(test, pkt->apart);
		KUNIT_EXPECT_GE(test, off, ROE_TXB_FRONT);
		KUNIT_EXPECT_LE(test, off - ROE_TXB_FRONT + space, txb->chunk[0].size);
		if (i > 1)
			KUNIT_EXPECT_EQ(test, (size_t)(pkt->buf - pkt[-1].buf), space);
	}
	KUNIT_EXPECT_LE(test, txb->off, txb->chunk[txb->cur].size);
	roe_txb_free(txb);
}

/* --- which packets share an skb --- */

static void frame_fit(struct kunit *test)
{
	static const struct train t = {
		.first = 0x06, .middle = 0x07, .last = 0x08, .mtu = 1024, .last_len = 100, .n = 10,
	};
	static const struct roe_frame_limits off = { .segs = 1 };
	static const struct roe_frame_limits few = { .bytes = 65507, .segs = 3 };
	static const struct roe_frame_limits small = { .bytes = 2 * 1040 + 1039, .segs = 64 };
	struct roe_txb *txb = fill_txb(test, &t);
	struct roe_tx_pkt *pkt = txb->pkt;

	/* FIRST has a RETH: the MIDDLE behind it is the shorter last one */
	KUNIT_EXPECT_EQ(test, roe_frame_fit(pkt, 10, &wide), 2);
	KUNIT_EXPECT_EQ(test, roe_frame_fit(pkt + 2, 8, &wide), 8);
	KUNIT_EXPECT_EQ(test, roe_frame_fit(pkt + 2, 7, &wide), 7);
	KUNIT_EXPECT_EQ(test, roe_frame_fit(pkt + 2, 8, &off), 1);
	KUNIT_EXPECT_EQ(test, roe_frame_fit(pkt + 2, 8, &few), 3);
	KUNIT_EXPECT_EQ(test, roe_frame_fit(pkt + 2, 8, &small), 2);
	KUNIT_EXPECT_EQ(test, roe_frame_fit(pkt + 9, 1, &wide), 1);
	pkt[5].again = true;
	KUNIT_EXPECT_EQ(test, roe_frame_fit(pkt + 2, 8, &wide), 3);
	KUNIT_EXPECT_EQ(test, roe_frame_fit(pkt + 5, 5, &wide), 1);
	/* a longer one cannot follow */
	pkt[3].p.len -= 4;
	KUNIT_EXPECT_EQ(test, roe_frame_fit(pkt + 2, 8, &wide), 2);
}

/* --- a CNP --- */

/* As a ConnectX-4 Lx sent it (kunit/vectors/hw_cx4lx_v4_cnp.hex): IP header to ICRC. */
static const u8 cnp_bytes[] = {
	0x45, 0xc2, 0x00, 0x3c, 0x71, 0x8c, 0x40, 0x00, 0x40, 0x11, 0x91, 0x61,
	0x0a, 0x00, 0x11, 0x01, 0x0a, 0x00, 0x12, 0x01, 0x00, 0x00, 0x12, 0xb7,
	0x00, 0x28, 0x00, 0x00, 0x81, 0x00, 0xff, 0xff, 0x40, 0x00, 0x01, 0x18,
	0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
	0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x82, 0xfd, 0x00, 0x2a,
};

static struct sk_buff *build_cnp(struct kunit *test, struct roe_path *path)
{
	static const struct train t = { .first = ROE_OPCODE_CNP, .n = 1 };
	struct roe_txb *txb = fill_txb(test, &t);

	txb->pkt[0].p = (struct roe_pkt){ .opcode = ROE_OPCODE_CNP, .pkey = 0xffff, .qpn = 0x118 };
	return build(test, path, txb->pkt, 1);
}

static void frame_cnp(struct kunit *test)
{
	struct roe_path path = { .ip_id = 0x718c };
	struct roe_av *av = &path.av;
	u8 got[sizeof(cnp_bytes)];
	struct sk_buff *skb;

	/* the IP header says what a CNP needs, not what the QP asked for */
	av->tclass = 0x68;
	av->priority = 3;
	av->hop_limit = 64;
	ipv6_addr_set_v4mapped(htonl(0x0a001101), &av->saddr);
	ipv6_addr_set_v4mapped(htonl(0x0a001201), &av->daddr);
	skb = build_cnp(test, &path);
	KUNIT_ASSERT_EQ(test, skb->len, sizeof(cnp_bytes));
	KUNIT_ASSERT_EQ(test, skb_copy_bits(skb, 0, got, sizeof(got)), 0);
	/* checksums: IP's comes later, UDP's NICs leave out */
	memcpy(got + 10, cnp_bytes + 10, 2);
	memset(got + 26, 0, 2);
	KUNIT_EXPECT_MEMEQ(test, got, cnp_bytes, sizeof(got));
	KUNIT_EXPECT_EQ(test, skb->priority, 6);
}

static void frame_cnp_v6(struct kunit *test)
{
	static const struct train t = { .v6 = true };
	struct roe_path path;
	struct sk_buff *skb;

	init_path(&path, &t);
	skb = build_cnp(test, &path);
	KUNIT_EXPECT_EQ(test, ipv6_get_dsfield(ipv6_hdr(skb)), 0xc2);
	KUNIT_EXPECT_EQ(test, skb->len, 40 + 8 + 12 + 16 + 4);
	KUNIT_EXPECT_TRUE(test, icrc_right(bytes_of(test, skb, true), skb->len));
}

/* --- any layout --- */

/* @len bytes of @src as an skb: linear part, fragments, and a list if @list. */
static struct sk_buff *lay_out(struct kunit *test, struct rnd_state *rnd, const u8 *src, u32 len,
			       u32 linear, bool list)
{
	struct sk_buff *skb = alloc_skb(linear, GFP_KERNEL), **tail;
	unsigned int i;

	KUNIT_ASSERT_NOT_NULL(test, skb);
	skb_put_data(skb, src, linear);
	for (i = 0, src += linear, len -= linear; len; i++) {
		u32 some = 1 + prandom_u32_state(rnd) % (2 * len / MAX_SKB_FRAGS + 2);
		u32 part = i == MAX_SKB_FRAGS - 1 && !list ? len : min(len, some);
		int order = get_order(part + 64);
		struct page *page;
		u32 off;

		if (i == MAX_SKB_FRAGS)
			break;
		page = alloc_pages(GFP_KERNEL | __GFP_COMP, order);
		KUNIT_ASSERT_NOT_NULL(test, page);
		off = prandom_u32_state(rnd) % 64;
		memcpy(page_address(page) + off, src, part);
		skb_add_rx_frag(skb, i, page, off, part, part);
		src += part;
		len -= part;
	}
	tail = &skb_shinfo(skb)->frag_list;
	while (len) {
		u32 part = min_t(u32, len, 1 + prandom_u32_state(rnd) % 3000);
		struct sk_buff *member = lay_out(test, rnd, src, part,
						 prandom_u32_state(rnd) % (part + 1), false);

		*tail = member;
		tail = &member->next;
		skb->len += part;
		skb->data_len += part;
		skb->truesize += member->truesize;
		src += part;
		len -= part;
	}
	return skb;
}

/* As @like, but with the bytes elsewhere. */
static struct sk_buff *scatter(struct kunit *test, struct rnd_state *rnd,
			       const struct sk_buff *like, bool v6)
{
	u32 min = v6 ? sizeof(struct ipv6hdr) : sizeof(struct iphdr);
	u32 linear = min + prandom_u32_state(rnd) % 200;
	u8 *src = kvzalloc(like->len, GFP_KERNEL);
	struct sk_buff *skb;

	KUNIT_ASSERT_NOT_NULL(test, src);
	KUNIT_ASSERT_EQ(test, skb_copy_bits(like, 0, src, like->len), 0);
	skb = lay_out(test, rnd, src, like->len, min(linear, like->len),
		      prandom_u32_state(rnd) % 2);
	kvfree(src);
	KUNIT_ASSERT_EQ(test, kunit_add_action_or_reset(test, put_skb, skb), 0);
	skb->protocol = like->protocol;
	skb_reset_network_header(skb);
	skb_set_transport_header(skb, min);
	skb_shinfo(skb)->gso_type = skb_shinfo(like)->gso_type;
	skb_shinfo(skb)->gso_size = skb_shinfo(like)->gso_size;
	/* as virtio has it: segs->n must come from the lengths */
	skb_shinfo(skb)->gso_segs = 0;
	return skb;
}

/* Its sender may write to it while it is looked at: what was read of the header stays. */
static void expect_private(struct kunit *test, const struct roe_segs *segs)
{
	struct roe_cursor at = segs->bth;
	struct kvec first = { (void *)segs->raw, 1 };
	u8 hdr[ROE_HDR_MAX];
	u32 len = min_t(u32, segs->len, sizeof(hdr));

	if (!segs->flat)
		KUNIT_ASSERT_EQ(test, roe_cursor_take(&at, 1, &first, 1), 1);
	memcpy(hdr, segs->hdr, len);
	*(u8 *)first.iov_base ^= 0xff;
	KUNIT_EXPECT_MEMEQ(test, segs->hdr, hdr, len);
	*(u8 *)first.iov_base ^= 0xff;
}

/* The packet at hand against the one that was sent. */
static void expect_packet(struct kunit *test, const struct roe_segs *segs,
			  const struct roe_tx_pkt *want)
{
	static struct kvec vec[MAX_PIECES];
	struct roe_cursor at = segs->bth;
	u32 bytes = roe_tx_bytes(want);
	unsigned int i, n;
	u32 off = 0;

	KUNIT_ASSERT_EQ(test, segs->len, bytes);
	KUNIT_EXPECT_MEMEQ(test, segs->hdr, want->buf, min_t(u32, bytes, ROE_HDR_MAX));
	expect_private(test, segs);
	if (segs->flat) {
		KUNIT_EXPECT_MEMEQ(test, segs->raw, want->buf, bytes);
		return;
	}
	n = roe_cursor_take(&at, bytes, vec, MAX_PIECES);
	KUNIT_ASSERT_GT(test, n, 0);
	for (i = 0; i < n; i++) {
		KUNIT_EXPECT_MEMEQ(test, (u8 *)vec[i].iov_base, want->buf + off, vec[i].iov_len);
		off += vec[i].iov_len;
	}
	KUNIT_EXPECT_EQ(test, off, bytes);
}

static void expect_icrc(struct kunit *test, const struct roe_segs *segs,
			const struct roe_tx_pkt *pkt)
{
	u32 l3 = segs->head.v6 ? sizeof(struct ipv6hdr) : sizeof(struct iphdr);
	u32 len = l3 + sizeof(struct udphdr) + roe_tx_bytes(pkt);
	u8 *p = kunit_kzalloc(test, len, GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, p);
	memcpy(p, &segs->head.ip4, l3);
	memcpy(p + l3, &segs->head.udp, sizeof(struct udphdr));
	memcpy(p + l3 + sizeof(struct udphdr), pkt->buf, roe_tx_bytes(pkt));
	mask(p, segs->head.v6);
	KUNIT_EXPECT_TRUE(test, icrc_right(p, len));
	kunit_kfree(test, p);
}

static void segs_any_layout(struct kunit *test)
{
	const struct train *t = test->param_value;
	struct roe_txb *txb = fill_txb(test, t);
	struct rnd_state rnd;
	struct roe_path path;
	struct roe_segs segs;
	struct sk_buff *skb;
	unsigned int i, run;

	prandom_seed_state(&rnd, 4791);
	init_path(&path, t);
	skb = build(test, &path, txb->pkt, t->n);
	for (run = 0; run < 20; run++) {
		struct sk_buff *any = run ? scatter(test, &rnd, skb, t->v6) : skb;

		KUNIT_ASSERT_TRUE(test, roe_segs_begin(&segs, any));
		for (i = 0; i < t->n; i++) {
			KUNIT_ASSERT_TRUE(test, roe_segs_next(&segs));
			expect_packet(test, &segs, &txb->pkt[i]);
			if (!run)
				expect_icrc(test, &segs, &txb->pkt[i]);
		}
		KUNIT_EXPECT_FALSE(test, roe_segs_next(&segs));
		KUNIT_EXPECT_EQ(test, segs.n, t->n);
	}
}

/* List form: every packet is an skb of its own, headers in the headroom. */
static struct sk_buff *build_list(struct kunit *test, const struct train *t, struct roe_txb *txb)
{
	struct sk_buff *head = NULL, **tail = NULL;
	u32 l3 = t->v6 ? sizeof(struct ipv6hdr) : sizeof(struct iphdr);
	struct roe_path path;
	unsigned int i;

	init_path(&path, t);
	for (i = 0; i < t->n; i++) {
		struct sk_buff *skb;

		local_bh_disable();
		skb = roe_frame_build(&path, &txb->pkt[i], 1, HEADROOM, 0);
		local_bh_enable();
		KUNIT_ASSERT_NOT_NULL(test, skb);
		if (!head) {
			head = skb;
			tail = &skb_shinfo(head)->frag_list;
			KUNIT_ASSERT_EQ(test, kunit_add_action_or_reset(test, put_skb, head), 0);
			continue;
		}
		skb_pull(skb, l3 + sizeof(struct udphdr));
		/* GRO leaves it in front of a tag that the NIC did not take off */
		if (i % 2)
			skb_set_network_header(skb, skb_network_offset(skb) - VLAN_HLEN);
		*tail = skb;
		tail = &skb->next;
		head->len += skb->len;
		head->data_len += skb->len;
		head->truesize += skb->truesize;
	}
	udp_hdr(head)->len = htons(head->len - l3);
	skb_shinfo(head)->gso_type = SKB_GSO_UDP_L4 | SKB_GSO_FRAGLIST;
	skb_shinfo(head)->gso_size = roe_tx_bytes(txb->pkt);
	return head;
}

static void expect_packets(struct kunit *test, const struct train *t, struct roe_txb *txb,
			   struct sk_buff *skb)
{
	struct roe_segs segs;
	unsigned int i;

	KUNIT_ASSERT_TRUE(test, roe_segs_begin(&segs, skb));
	for (i = 0; i < t->n; i++) {
		KUNIT_ASSERT_TRUE(test, roe_segs_next(&segs));
		expect_packet(test, &segs, &txb->pkt[i]);
		expect_icrc(test, &segs, &txb->pkt[i]);
	}
	KUNIT_EXPECT_FALSE(test, roe_segs_next(&segs));
}

static void segs_list(struct kunit *test)
{
	const struct train *t = test->param_value;
	struct roe_txb *txb = fill_txb(test, t);

	expect_packets(test, t, txb, build_list(test, t, txb));
}

static const struct train even = {
	.id = 500, .first = 0x07, .middle = 0x07, .last = 0x08,
	.mtu = 256, .last_len = 9, .n = 6,
};

/*
 * Generic XDP copies what comes in pieces into one. No packet is so small that it lies in
 * its skb alone: the members are gone afterwards.
 */
static void segs_linear_list(struct kunit *test)
{
	static const struct train paged = {
		.id = 500, .first = 0x07, .middle = 0x07, .last = 0x08,
		.mtu = 512, .last_len = 301, .n = 6,
	};
	struct roe_txb *txb = fill_txb(test, &paged);
	struct sk_buff *skb = build_list(test, &paged, txb);

	KUNIT_ASSERT_EQ(test, skb_linearize(skb), 0);
	expect_packets(test, &paged, txb, skb);
}

/* A program of tc's has pulled more than the first packet: the next members are cut or gone. */
static void segs_pulled_list(struct kunit *test)
{
	struct roe_txb *txb = fill_txb(test, &even);
	u32 packet = roe_tx_bytes(txb->pkt), n;

	for (n = 1; n < 3 * packet; n += packet - 100) {
		struct sk_buff *skb = build_list(test, &even, txb);

		KUNIT_ASSERT_TRUE(test, pskb_may_pull(skb, skb_pagelen(skb) + n));
		expect_packets(test, &even, txb, skb);
	}
}

/* All IDs equal, as some adapters send them: one question, then it is known. */
static void segs_fixed_id(struct kunit *test)
{
	struct roe_txb *txb = fill_txb(test, &even);
	struct roe_path path;
	struct roe_segs segs;
	unsigned int i;

	init_path(&path, &even);
	KUNIT_ASSERT_TRUE(test, roe_segs_begin(&segs, build(test, &path, txb->pkt, even.n)));
	for (i = 0; i < even.n; i++) {
		KUNIT_ASSERT_TRUE(test, roe_segs_next(&segs));
		if (i == 1) {
			KUNIT_EXPECT_EQ(test, ntohs(segs.head.ip4.id), 501);
			roe_segs_fix_id(&segs, true);
		}
		KUNIT_EXPECT_EQ(test, ntohs(segs.head.ip4.id), 500);
	}
}

/* The second packet was a bad one: those behind it count as the first said. */
static void segs_no_fixed_id(struct kunit *test)
{
	struct roe_txb *txb = fill_txb(test, &even);
	struct roe_path path;
	struct roe_segs segs;
	unsigned int i;

	init_path(&path, &even);
	KUNIT_ASSERT_TRUE(test, roe_segs_begin(&segs, build(test, &path, txb->pkt, even.n)));
	for (i = 0; i < even.n; i++) {
		KUNIT_ASSERT_TRUE(test, roe_segs_next(&segs));
		if (i == 1) {
			roe_segs_fix_id(&segs, true);
			roe_segs_fix_id(&segs, false);
		}
		expect_packet(test, &segs, &txb->pkt[i]);
		expect_icrc(test, &segs, &txb->pkt[i]);
	}
}

/* What whoever built the skb may have got wrong, or wanted wrong. */
static void segs_hostile(struct kunit *test)
{
	static const struct train t = {
		.id = 1, .first = 0x07, .middle = 0x07, .last = 0x08,
		.mtu = 256, .last_len = 256, .n = 6,
	};
	static const u16 sizes[] = { 1, 15, 16, 17, 271, 272, 273, 1000, 60000 };
	struct roe_txb *txb = fill_txb(test, &t);
	struct roe_path path;
	struct roe_segs segs;
	struct sk_buff *skb;
	unsigned int i;

	init_path(&path, &t);
	skb = build(test, &path, txb->pkt, t.n);
	for (i = 0; i < ARRAY_SIZE(sizes); i++) {
		u32 sum = 0;

		skb_shinfo(skb)->gso_size = sizes[i];
		if (sizes[i] < sizeof(struct roe_bth) + ROE_ICRC_LEN) {
			KUNIT_EXPECT_FALSE(test, roe_segs_begin(&segs, skb));
			continue;
		}
		KUNIT_ASSERT_TRUE(test, roe_segs_begin(&segs, skb));
		while (roe_segs_next(&segs)) {
			KUNIT_EXPECT_LE(test, segs.len, sizes[i]);
			sum += segs.len;
		}
		KUNIT_EXPECT_EQ(test, sum, 6 * 272);
	}

	skb_shinfo(skb)->gso_type = SKB_GSO_TCPV4;
	KUNIT_EXPECT_FALSE(test, roe_segs_begin(&segs, skb));
	skb_shinfo(skb)->gso_type = SKB_GSO_UDP_L4;
	udp_hdr(skb)->len = htons(ntohs(udp_hdr(skb)->len) - 1);
	KUNIT_EXPECT_FALSE(test, roe_segs_begin(&segs, skb));
	udp_hdr(skb)->len = 0;
	KUNIT_EXPECT_FALSE(test, roe_segs_begin(&segs, skb));
	skb_shinfo(skb)->gso_size = 0;
	KUNIT_ASSERT_EQ(test, pskb_trim(skb, sizeof(struct iphdr) + sizeof(struct udphdr) + 15), 0);
	udp_hdr(skb)->len = htons(sizeof(struct udphdr) + 15);
	KUNIT_EXPECT_FALSE(test, roe_segs_begin(&segs, skb));
}

/* --- memory of bursts --- */

/* A chunk is used again when its skbs are gone, never while they are there. */
static void txb_reuse(struct kunit *test)
{
	struct roe_txb *txb = kzalloc(sizeof(*txb), GFP_KERNEL);
	struct page *held;
	unsigned int i, k;

	KUNIT_ASSERT_NOT_NULL(test, txb);
	KUNIT_ASSERT_EQ(test, kunit_add_action_or_reset(test, put_txb, txb), 0);
	KUNIT_ASSERT_NOT_NULL(test, roe_txb_add(txb, 0x01, 4096));
	held = txb->pkt[0].page;
	get_page(held);
	for (i = 0; i < 200; i++) {
		roe_txb_reset(txb);
		for (k = 0; k < 20; k++) {
			struct roe_tx_pkt *pkt = roe_txb_add(txb, 0x01, 4096);

			KUNIT_ASSERT_NOT_NULL(test, pkt);
			if (i)
				KUNIT_EXPECT_PTR_NE(test, pkt->page, held);
		}
		/* packets of one burst do not overlap */
		for (k = 1; k < 20; k++)
			KUNIT_EXPECT_TRUE(test, txb->pkt[k].page != txb->pkt[k - 1].page ||
					  txb->pkt[k].buf >= txb->pkt[k - 1].buf + 4112);
		KUNIT_EXPECT_TRUE(test, txb->pkt[19].page != txb->pkt[0].page);
	}
	KUNIT_EXPECT_LE(test, txb->nr_chunks, 6);
	put_page(held);
}

static struct kunit_case cases[] = {
	KUNIT_CASE_PARAM(frame_segments, train_gen_params),
	KUNIT_CASE_PARAM(frame_list, train_gen_params),
	KUNIT_CASE(frame_apart_alone),
	KUNIT_CASE(frame_apart_row),
	KUNIT_CASE(frame_fit),
	KUNIT_CASE(frame_cnp),
	KUNIT_CASE(frame_cnp_v6),
	KUNIT_CASE_PARAM(segs_any_layout, train_gen_params),
	KUNIT_CASE_PARAM(segs_list, train_gen_params),
	KUNIT_CASE(segs_linear_list),
	KUNIT_CASE(segs_pulled_list),
	KUNIT_CASE(segs_fixed_id),
	KUNIT_CASE(segs_no_fixed_id),
	KUNIT_CASE(segs_hostile),
	KUNIT_CASE(txb_reuse),
	{}
};

static struct kunit_suite suite = {
	.name = "roe_frame",
	.test_cases = cases,
};

kunit_test_suites(&suite);
