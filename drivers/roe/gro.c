// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Packets that one poll of a NIC brings go up as one skb, if our socket has the port.
 *
 * Each packet alone would walk through IP, netfilter and the run of a QP: that is most
 * of what receiving costs. The stack's own UDP GRO asks for a checksum, which RoCE of
 * other makes does not have, and for packets of one size. So they are put together as a
 * list here, each with its headers as they came: the ICRC covers them. segment.c reads
 * such a list packet by packet, and so does the stack, should it go on elsewhere.
 *
 * Where a NIC has a gro_flush_timeout (r8169 by itself, others for who tunes them), GRO holds
 * what it has beyond the end of the poll, until that has passed. There nothing waits for
 * another packet that may be the last for now: as with TCP's PSH.
 *
 * Softirq, under RCU: GRO calls us for UDP to a local port of our sockets.
 */
#include <linux/skbuff.h>
#include <net/gro.h>
#include <net/ipv6.h>
#include <roe/opcode.h>
#include <roe/wire.h>
#include "frame.h"
#include "net.h"

/* Packets of a list: what receive.c takes at once. */
#define LIST_MAX	64

/* Where @skb may be added: the newest list of the same addresses and ports. */
static struct sk_buff *find(struct list_head *head)
{
	struct sk_buff *p;

	list_for_each_entry(p, head, list)
		if (NAPI_GRO_CB(p)->same_flow)
			return p;
	return NULL;
}

/* The IP header of a datagram of @sk; @off is behind the UDP header. */
static const struct iphdr *ip4_at(const struct sk_buff *skb, unsigned int off)
{
	return (const void *)(skb->data + off - sizeof(struct udphdr) - sizeof(struct iphdr));
}

static const struct ipv6hdr *ip6_at(const struct sk_buff *skb, unsigned int off)
{
	return (const void *)(skb->data + off - sizeof(struct udphdr) - sizeof(struct ipv6hdr));
}

/*
 * Is it for a device of ours? The socket gets what is forwarded as well, and lists of
 * that are no work of ours. @p is the head of a list to be.
 */
static bool to_us(const struct sock *sk, const struct sk_buff *p, const struct sk_buff *skb)
{
	unsigned int off = skb_gro_offset(skb);
	struct in6_addr daddr;

	if (sk->sk_family == AF_INET6)
		daddr = ip6_at(p, off)->daddr;
	else
		ipv6_addr_set_v4mapped(ip4_at(p, off)->daddr, &daddr);
	return roe_net_knows(sock_net(sk), &daddr, skb->dev);
}

/*
 * Who cuts the list up on its way to us (NFQUEUE, cake on an ifb) gives the packets behind
 * the first one IDs that count up, and the ICRC covers them. With DF it can be told to
 * leave them, see roe_gro_complete(); without, they have to count already.
 */
static bool ids_survive(const struct iphdr *head, const struct iphdr *ip, unsigned int count)
{
	return head->frag_off & htons(IP_DF) || (u16)(ntohs(head->id) + count) == ntohs(ip->id);
}

static bool same_way4(const struct sk_buff *p, const struct sk_buff *skb, unsigned int off)
{
	const struct iphdr *a = ip4_at(p, off), *b = ip4_at(skb, off);

	return a->tos == b->tos && a->ttl == b->ttl && a->frag_off == b->frag_off &&
	       ids_survive(a, b, NAPI_GRO_CB(p)->count);
}

static bool same_way6(const struct sk_buff *p, const struct sk_buff *skb, unsigned int off)
{
	const struct ipv6hdr *a = ip6_at(p, off), *b = ip6_at(skb, off);

	return *(const __be32 *)a == *(const __be32 *)b && a->hop_limit == b->hop_limit;
}

/*
 * Of a list the stack reads one TTL, DSCP and ECN mark. GRO has compared the addresses and
 * the flow label, and since 6.10 leaves the rest to the protocol above.
 */
static bool same_way(const struct sock *sk, const struct sk_buff *p, const struct sk_buff *skb)
{
	unsigned int off = skb_gro_offset(skb);

	return sk->sk_family == AF_INET6 ? same_way6(p, skb, off) : same_way4(p, skb, off);
}

/* Nothing of ours is so short, and a head that is none would take the list with it. */
static bool long_enough(const struct sk_buff *p, const struct sk_buff *skb)
{
	u32 min = skb_gro_offset(skb) + ROE_PKT_MIN;

	return p->len >= min && skb->len >= min;
}

/*
 * UDP comes next to the IP header: ip6_at() would take bytes of an extension header for one, as a
 * peer wants them, and with options IPv4 does not come here. GRO has compared @skb with the head.
 */
static bool is_plain(const struct sock *sk, struct sk_buff *skb)
{
	const struct ipv6hdr *ip = skb_gro_network_header(skb);

	return sk->sk_family != AF_INET6 || ip->nexthdr == IPPROTO_UDP;
}

/* What IP found: it is a fragment, or its length is not that of the packet. */
static bool may_join(const struct sock *sk, const struct sk_buff *p, const struct sk_buff *skb)
{
	return !NAPI_GRO_CB(p)->flush && !NAPI_GRO_CB(skb)->flush && !skb_has_frag_list(skb) &&
	       NAPI_GRO_CB(p)->count < LIST_MAX && p->len + skb->len <= U16_MAX &&
	       long_enough(p, skb) &&
	       (NAPI_GRO_CB(p)->count > 1 || to_us(sk, p, skb));
}

static void join(const struct sock *sk, struct sk_buff *p, struct sk_buff *skb)
{
	int ip_len = sk->sk_family == AF_INET6 ? sizeof(struct ipv6hdr) : sizeof(struct iphdr);

	/* who cuts the list up begins there; behind a VLAN tag in the data it is the tag yet */
	skb_set_network_header(skb, skb_gro_offset(skb) - (int)sizeof(struct udphdr) - ip_len);
	/* the headers stay in front of the data */
	skb_pull(skb, skb_gro_offset(skb));
	if (NAPI_GRO_CB(p)->last == p)
		skb_shinfo(p)->frag_list = skb;
	else
		NAPI_GRO_CB(p)->last->next = skb;
	NAPI_GRO_CB(p)->last = skb;
	NAPI_GRO_CB(p)->count++;
	/*
	 * Its members have any length. Should our socket go before the list is complete, UDP
	 * only adds that it is of its own: who takes it for one of equal parts runs into BUG_ON().
	 */
	skb_shinfo(p)->gso_type |= SKB_GSO_FRAGLIST;
	skb_shinfo(p)->flags |= skb_shinfo(skb)->flags & SKBFL_SHARED_FRAG;
	/* early demultiplexing may have given it a socket: the list has one owner */
	skb->destructor = NULL;
	skb->sk = NULL;
	p->data_len += skb->len;
	p->truesize += skb->truesize;
	p->len += skb->len;
	NAPI_GRO_CB(skb)->same_flow = 1;
}

/* A message that goes on, and no answer is asked for. */
static bool goes_on(const struct roe_bth *bth)
{
	u32 flags = roe_opcode(bth->opcode)->flags;

	return flags & (ROE_F_START | ROE_F_MIDDLE) && !(flags & ROE_F_END) &&
	       !(bth->apsn & cpu_to_be32(ROE_BTH_ACKREQ));
}

/* May nothing more come for now? Then all headers are at skb->data, or it is none of ours. */
static bool is_last(struct sk_buff *skb)
{
	unsigned int off = skb_gro_offset(skb);

	return !pskb_may_pull(skb, off + sizeof(struct roe_bth)) ||
	       !goes_on((const void *)(skb->data + off));
}

/**
 * roe_gro_receive() - udp_tunnel_sock_cfg.gro_receive
 * @sk: our socket
 * @head: what GRO holds
 * @skb: a datagram; GRO's offset is behind the UDP header
 *
 * Return: a list that is complete and goes up now, or NULL.
 */
struct sk_buff *roe_gro_receive(struct sock *sk, struct list_head *head, struct sk_buff *skb)
{
	struct sk_buff *p = find(head);
	/* first: where GRO has the headers they are no more once some are pulled */
	bool plain = is_plain(sk, skb);
	bool timer = READ_ONCE(skb->dev->gro_flush_timeout);
	bool last = timer && is_last(skb);

	if (p && plain && may_join(sk, p, skb) && pskb_may_pull(skb, skb_gro_offset(skb)) &&
	    same_way(sk, p, skb)) {
		join(sk, p, skb);
		return last ? p : NULL;
	}
	if (last || (timer && !to_us(sk, skb, skb)))
		NAPI_GRO_CB(skb)->flush = 1;
	return p;
}

ROE_EXPORT_FOR_TEST(roe_gro_receive);

/**
 * roe_gro_complete() - udp_tunnel_sock_cfg.gro_complete
 * @sk: our socket
 * @skb: a list of more than one
 * @nhoff: behind the UDP header
 *
 * Return: 0.
 */
int roe_gro_complete(struct sock *sk, struct sk_buff *skb, int nhoff)
{
	/* the caller took it for a tunnel */
	skb->encapsulation = 0;
	/*
	 * GRO has proven each packet. The NIC's sum is that of the first one: conntrack would
	 * find it wrong for the whole, and who cuts the list would warn.
	 */
	if (skb->ip_summed == CHECKSUM_COMPLETE)
		skb->ip_summed = CHECKSUM_UNNECESSARY;
	skb_shinfo(skb)->gso_type = SKB_GSO_FRAGLIST | SKB_GSO_UDP_L4;
	/* leave the IDs as they are; it is an error without DF */
	if (sk->sk_family == AF_INET && ip4_at(skb, nhoff)->frag_off & htons(IP_DF))
		skb_shinfo(skb)->gso_type |= SKB_GSO_TCP_FIXEDID;
	skb_shinfo(skb)->gso_segs = NAPI_GRO_CB(skb)->count;
	return 0;
}

ROE_EXPORT_FOR_TEST(roe_gro_complete);
