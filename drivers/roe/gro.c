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
 * Softirq, under RCU: GRO calls us for UDP to a local port of our sockets.
 */
#include <linux/skbuff.h>
#include <net/gro.h>
#include <net/ipv6.h>
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

/*
 * Is it for a device of ours? The socket gets what is forwarded as well, and who cuts
 * a list up again gives all packets but the first new IPv4 IDs, which the ICRC covers.
 * GRO's offset is behind the UDP header; @p is the head of a list to be.
 */
static bool to_us(const struct sock *sk, const struct sk_buff *p, const struct sk_buff *skb)
{
	const u8 *udp = p->data + skb_gro_offset(skb) - sizeof(struct udphdr);
	struct in6_addr daddr;

	if (sk->sk_family == AF_INET6)
		daddr = ((const struct ipv6hdr *)(udp - sizeof(struct ipv6hdr)))->daddr;
	else
		ipv6_addr_set_v4mapped(((const struct iphdr *)(udp - sizeof(struct iphdr)))->daddr,
				       &daddr);
	return roe_net_owner(sock_net(sk), &daddr, skb->dev);
}

/* Nothing of ours is so short, and a head that is none would take the list with it. */
static bool long_enough(const struct sk_buff *p, const struct sk_buff *skb)
{
	u32 min = skb_gro_offset(skb) + ROE_PKT_MIN;

	return p->len >= min && skb->len >= min;
}

/* What IP compared: TTL, TOS and the like differ, or it is a fragment. */
static bool may_join(const struct sock *sk, const struct sk_buff *p, const struct sk_buff *skb)
{
	return !NAPI_GRO_CB(p)->flush && !NAPI_GRO_CB(skb)->flush && !skb_has_frag_list(skb) &&
	       NAPI_GRO_CB(p)->count < LIST_MAX && p->len + skb->len <= U16_MAX &&
	       long_enough(p, skb) &&
	       (NAPI_GRO_CB(p)->count > 1 || to_us(sk, p, skb));
}

static void join(struct sk_buff *p, struct sk_buff *skb)
{
	/* the headers stay in front of the data */
	skb_pull(skb, skb_gro_offset(skb));
	if (NAPI_GRO_CB(p)->last == p)
		skb_shinfo(p)->frag_list = skb;
	else
		NAPI_GRO_CB(p)->last->next = skb;
	NAPI_GRO_CB(p)->last = skb;
	NAPI_GRO_CB(p)->count++;
	skb_shinfo(p)->flags |= skb_shinfo(skb)->flags & SKBFL_SHARED_FRAG;
	/* early demultiplexing may have given it a socket: the list has one owner */
	skb->destructor = NULL;
	skb->sk = NULL;
	p->data_len += skb->len;
	p->truesize += skb->truesize;
	p->len += skb->len;
	NAPI_GRO_CB(skb)->same_flow = 1;
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

	if (!p)
		return NULL;
	if (!may_join(sk, p, skb) || !pskb_may_pull(skb, skb_gro_offset(skb)))
		return p;
	join(p, skb);
	return NULL;
}

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
	skb_shinfo(skb)->gso_segs = NAPI_GRO_CB(skb)->count;
	return 0;
}

ROE_EXPORT_FOR_TEST(roe_gro_complete);
