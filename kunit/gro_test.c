// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Which packets GRO may put into one list: such that whoever looks at the first one's
 * IP header has seen that of all, and whoever takes the list apart leaves each as it was.
 */
#include <kunit/test.h>
#include <linux/if_vlan.h>
#include <net/gro.h>
#include <net/inet_ecn.h>
#include <net/ip.h>
#include <net/ipv6.h>
#include "../drivers/roe/frame.h"
#include "../drivers/roe/net.h"

#define PAYLOAD		(ROE_PKT_MIN + 64)

/* What of its IP header differs from the head's, which has ID 100 and two members. */
struct member {
	const char	*name;
	bool		v6;
	bool		df;
	u16		id;
	u8		tos, ttl;	/* xor */
	u16		frag_off;	/* xor */
	bool		joined;
	bool		ext;		/* both have an extension header */
};

static const struct member members[] = {
	{ "v4 ID counts on", false, false, 102, 0, 0, 0, true },
	{ "v4 a gap", false, false, 103, 0, 0, 0, false },
	{ "v4 ID of the head", false, false, 100, 0, 0, 0, false },
	{ "v4 DF, ID counts on", false, true, 102, 0, 0, 0, true },
	{ "v4 DF, a gap", false, true, 9000, 0, 0, 0, true },
	{ "v4 DF, ID of the head", false, true, 100, 0, 0, 0, true },
	{ "v4 DF not in both", false, true, 102, 0, 0, IP_DF, false },
	{ "v4 congestion marked", false, true, 102, INET_ECN_CE, 0, 0, false },
	{ "v4 other DSCP", false, true, 102, 0x20, 0, 0, false },
	{ "v4 other TTL", false, true, 102, 0, 1, 0, false },
	{ "v6", true, false, 0, 0, 0, 0, true },
	{ "v6 congestion marked", true, false, 0, INET_ECN_CE, 0, 0, false },
	{ "v6 other traffic class", true, false, 0, 0x20, 0, 0, false },
	{ "v6 other hop limit", true, false, 0, 0, 1, 0, false },
	{ "v6 with an extension header", true, false, 0, 0, 0, 0, false, true },
};

static void member_desc(const struct member *m, char *desc)
{
	strscpy(desc, m->name, KUNIT_PARAM_DESC_SIZE);
}

KUNIT_ARRAY_PARAM(member, members, member_desc);

static void put_skb(void *skb)
{
	kfree_skb(skb);
}

/*
 * As GRO holds it when it calls us, with a VLAN tag that is none of the skb's own: the
 * network header is that. @m of NULL is a head.
 */
static struct sk_buff *datagram(struct kunit *test, const struct member *like,
				const struct member *m)
{
	u32 ext_len = like->ext ? sizeof(struct frag_hdr) : 0;
	u32 ip_len = like->v6 ? sizeof(struct ipv6hdr) + ext_len : sizeof(struct iphdr);
	u32 len = ip_len + sizeof(struct udphdr) + PAYLOAD;
	struct sk_buff *skb = alloc_skb(NET_SKB_PAD + VLAN_HLEN + len, GFP_KERNEL);
	u8 tos = INET_ECN_ECT_0 ^ (m ? m->tos : 0);
	void *ip;

	KUNIT_ASSERT_NOT_NULL(test, skb);
	skb_reserve(skb, NET_SKB_PAD);
	skb_reset_network_header(skb);
	skb_put_zero(skb, VLAN_HLEN);
	ip = skb_put_zero(skb, len);
	if (like->v6) {
		ip6_flow_hdr(ip, tos, 0);
		((struct ipv6hdr *)ip)->hop_limit = 64 ^ (m ? m->ttl : 0);
		((struct ipv6hdr *)ip)->nexthdr = like->ext ? NEXTHDR_DEST : IPPROTO_UDP;
	} else {
		*(struct iphdr *)ip = (struct iphdr) {
			.version = 4, .ihl = 5, .tos = tos,
			.ttl = 64 ^ (m ? m->ttl : 0),
			.id = htons(m ? m->id : 100),
			.frag_off = htons((like->df ? IP_DF : 0) ^ (m ? m->frag_off : 0)),
		};
	}
	skb->dev = kunit_kzalloc(test, sizeof(*skb->dev), GFP_KERNEL);
	KUNIT_ASSERT_NOT_NULL(test, skb->dev);
	/* UDP takes us for a tunnel, whose inner offset nobody has written */
	NAPI_GRO_CB(skb)->encap_mark = 1;
	NAPI_GRO_CB(skb)->network_offset = VLAN_HLEN;
	NAPI_GRO_CB(skb)->inner_network_offset = U16_MAX;
	NAPI_GRO_CB(skb)->data_offset = VLAN_HLEN + ip_len + sizeof(struct udphdr);
	NAPI_GRO_CB(skb)->flush = 0;
	NAPI_GRO_CB(skb)->same_flow = 1;
	NAPI_GRO_CB(skb)->count = 1;
	NAPI_GRO_CB(skb)->last = skb;
	return skb;
}

static struct sock *fake_sock(struct kunit *test, bool v6)
{
	struct sock *sk = kunit_kzalloc(test, sizeof(*sk), GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, sk);
	sk->sk_family = v6 ? AF_INET6 : AF_INET;
	return sk;
}

static void gro_join(struct kunit *test)
{
	const struct member *m = test->param_value;
	struct sock *sk = fake_sock(test, m->v6);
	struct sk_buff *p = datagram(test, m, NULL), *skb;
	LIST_HEAD(held);

	KUNIT_ASSERT_EQ(test, kunit_add_action_or_reset(test, put_skb, p), 0);
	skb = datagram(test, m, m);
	/* who is to receive it was asked when the list began */
	NAPI_GRO_CB(p)->count = 2;
	list_add(&p->list, &held);
	if (m->joined) {
		KUNIT_EXPECT_NULL(test, roe_gro_receive(sk, &held, skb));
		KUNIT_EXPECT_EQ(test, (int)NAPI_GRO_CB(p)->count, 3);
		/* whether or not we are there when it is complete */
		KUNIT_EXPECT_TRUE(test, skb_shinfo(p)->gso_type & SKB_GSO_FRAGLIST);
		/* who cuts the list up goes back to there */
		KUNIT_EXPECT_EQ(test, skb_network_offset(skb),
				VLAN_HLEN - (int)NAPI_GRO_CB(p)->data_offset);
	} else {
		KUNIT_EXPECT_PTR_EQ(test, roe_gro_receive(sk, &held, skb), p);
		KUNIT_EXPECT_EQ(test, (int)NAPI_GRO_CB(p)->count, 2);
	}
	skb_list_del_init(p);
	if (skb_shinfo(p)->frag_list != skb)
		kfree_skb(skb);
}

/* What a NIC's timer has wait does not while somebody waits for it. */
struct hurry {
	const char	*name;
	u8		opcode;
	bool		ackreq;
	bool		timer;
	bool		now;
};

static const struct hurry hurries[] = {
	{ "an ACK", ROE_OP_ACK, false, true, true },
	{ "a message", ROE_OP_SEND_ONLY, false, true, true },
	{ "the end of one", ROE_OP_WRITE_LAST, false, true, true },
	{ "the end of a READ", ROE_OP_READ_RESP_LAST, false, true, true },
	{ "the middle", ROE_OP_WRITE_MIDDLE, false, true, false },
	{ "the middle of a READ", ROE_OP_READ_RESP_MIDDLE, false, true, false },
	{ "the middle, an ACK is due", ROE_OP_WRITE_MIDDLE, true, true, true },
	{ "no opcode", 0x1f, false, true, true },
	{ "an ACK, no timer", ROE_OP_ACK, false, false, false },
	{ "the middle, no timer", ROE_OP_WRITE_MIDDLE, true, false, false },
};

static void hurry_desc(const struct hurry *h, char *desc)
{
	strscpy(desc, h->name, KUNIT_PARAM_DESC_SIZE);
}

KUNIT_ARRAY_PARAM(hurry, hurries, hurry_desc);

static struct sk_buff *arriving(struct kunit *test, const struct hurry *h)
{
	struct sk_buff *skb = datagram(test, &members[0], &members[0]);
	struct roe_bth *bth = (void *)(skb->data + skb_gro_offset(skb));

	bth->opcode = h->opcode;
	bth->apsn = cpu_to_be32(h->ackreq ? ROE_BTH_ACKREQ : 0);
	skb->dev->gro_flush_timeout = h->timer ? 20 * NSEC_PER_USEC : 0;
	return skb;
}

static void gro_hurry(struct kunit *test)
{
	const struct hurry *h = test->param_value;
	struct sock *sk = fake_sock(test, false);
	struct sk_buff *p, *skb = arriving(test, h);
	LIST_HEAD(held);

	/* the address is nobody's, which only matters to what would have to wait */
	sock_net_set(sk, &init_net);
	rcu_read_lock();
	KUNIT_EXPECT_NULL(test, roe_gro_receive(sk, &held, skb));
	rcu_read_unlock();
	KUNIT_EXPECT_EQ(test, !!NAPI_GRO_CB(skb)->flush, h->timer);
	kfree_skb(skb);

	p = datagram(test, &members[0], NULL);
	KUNIT_ASSERT_EQ(test, kunit_add_action_or_reset(test, put_skb, p), 0);
	NAPI_GRO_CB(p)->count = 2;
	list_add(&p->list, &held);
	skb = arriving(test, h);
	KUNIT_EXPECT_PTR_EQ(test, roe_gro_receive(sk, &held, skb), h->now ? p : NULL);
	KUNIT_EXPECT_EQ(test, (int)NAPI_GRO_CB(p)->count, 3);
	skb_list_del_init(p);
	if (skb_shinfo(p)->frag_list != skb)
		kfree_skb(skb);
}

/*
 * Headers that fill what is linear, so that more of them moves all of it: GRO's pointer to them is
 * one to what has been freed, which KASAN sees.
 */
static void gro_pulled(struct kunit *test)
{
	static const struct member v6 = { .v6 = true };
	u32 head = VLAN_HLEN + sizeof(struct ipv6hdr) + sizeof(struct udphdr);
	struct sk_buff *p = datagram(test, &v6, NULL), *like = datagram(test, &v6, &v6), *skb;
	struct page *page = alloc_page(GFP_KERNEL | __GFP_ZERO);
	struct sock *sk = fake_sock(test, true);
	LIST_HEAD(held);

	KUNIT_ASSERT_EQ(test, kunit_add_action_or_reset(test, put_skb, p), 0);
	KUNIT_ASSERT_EQ(test, kunit_add_action_or_reset(test, put_skb, like), 0);
	KUNIT_ASSERT_NOT_NULL(test, page);
	skb = alloc_skb(NET_SKB_PAD + head, GFP_KERNEL);
	KUNIT_ASSERT_NOT_NULL(test, skb);
	skb_reserve(skb, skb_tailroom(skb) - head);
	skb_reset_network_header(skb);
	skb_put_data(skb, like->data, head);
	skb_add_rx_frag(skb, 0, page, 0, PAYLOAD, PAGE_SIZE);
	skb->dev = like->dev;
	skb->dev->gro_flush_timeout = 20 * NSEC_PER_USEC;
	memcpy(skb->cb, like->cb, sizeof(skb->cb));
	NAPI_GRO_CB(skb)->last = skb;
	NAPI_GRO_CB(skb)->frag0 = skb->data;
	NAPI_GRO_CB(skb)->frag0_len = head;
	NAPI_GRO_CB(p)->count = 2;
	list_add(&p->list, &held);
	roe_gro_receive(sk, &held, skb);
	KUNIT_EXPECT_EQ(test, (int)NAPI_GRO_CB(p)->count, 3);
	skb_list_del_init(p);
	if (skb_shinfo(p)->frag_list != skb)
		kfree_skb(skb);
}

/* The sum that the NIC gave for the first packet is not that of a list. */
static void gro_checksum(struct kunit *test)
{
	const struct member *m = &members[0];
	struct sock *sk = fake_sock(test, false);
	struct sk_buff *p = datagram(test, m, NULL);
	int off = NAPI_GRO_CB(p)->data_offset;

	KUNIT_ASSERT_EQ(test, kunit_add_action_or_reset(test, put_skb, p), 0);
	p->ip_summed = CHECKSUM_COMPLETE;
	KUNIT_EXPECT_EQ(test, roe_gro_complete(sk, p, off), 0);
	KUNIT_EXPECT_EQ(test, (int)p->ip_summed, CHECKSUM_UNNECESSARY);
	p->ip_summed = CHECKSUM_PARTIAL;
	KUNIT_EXPECT_EQ(test, roe_gro_complete(sk, p, off), 0);
	KUNIT_EXPECT_EQ(test, (int)p->ip_summed, CHECKSUM_PARTIAL);
}

/* With DF the IDs stay as they are when the list is cut up, without that is refused. */
static void gro_fixed_id(struct kunit *test)
{
	static const struct member df = { .df = true }, no_df;
	struct sock *sk = fake_sock(test, false);
	struct sk_buff *a = datagram(test, &df, NULL), *b;

	KUNIT_ASSERT_EQ(test, kunit_add_action_or_reset(test, put_skb, a), 0);
	b = datagram(test, &no_df, NULL);
	KUNIT_ASSERT_EQ(test, kunit_add_action_or_reset(test, put_skb, b), 0);
	roe_gro_complete(sk, a, NAPI_GRO_CB(a)->data_offset);
	roe_gro_complete(sk, b, NAPI_GRO_CB(b)->data_offset);
	KUNIT_EXPECT_EQ(test, (int)skb_shinfo(a)->gso_type,
			SKB_GSO_FRAGLIST | SKB_GSO_UDP_L4 | SKB_GSO_TCP_FIXEDID);
	KUNIT_EXPECT_EQ(test, (int)skb_shinfo(b)->gso_type, SKB_GSO_FRAGLIST | SKB_GSO_UDP_L4);
}

static struct kunit_case cases[] = {
	KUNIT_CASE_PARAM(gro_join, member_gen_params),
	KUNIT_CASE_PARAM(gro_hurry, hurry_gen_params),
	KUNIT_CASE(gro_pulled),
	KUNIT_CASE(gro_checksum),
	KUNIT_CASE(gro_fixed_id),
	{}
};

static struct kunit_suite suite = {
	.name = "roe_gro",
	.test_cases = cases,
};

kunit_test_suites(&suite);
