// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * The packets that one poll of a NIC brings go up as one skb, if our socket has the port.
 *
 * Otherwise each packet would go alone through IP, netfilter and a run of its QP, which is
 * most of what receiving costs. The stack's own UDP GRO requires a checksum, which other
 * RoCE implementations do not send, and packets of one size. So packets are put together as
 * a list here, each with its headers as they came, because the ICRC covers them. segment.c
 * reads such a list packet by packet, and so does the stack if the list goes elsewhere.
 *
 * If a NIC has a gro_flush_timeout (r8169 by default, others if somebody tunes them), GRO
 * holds packets beyond the end of the poll, until that time has passed. With such a NIC a
 * packet that may be the last for now is not held to wait for another: as with TCP's PSH. (From
 * 6.13 on a single queue may have a timeout of its own, set by netlink; that is not looked at.)
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

/* The IP header of a datagram; @off is the offset behind its UDP header. */
static const struct iphdr *ip4_at(const struct sk_buff *skb, unsigned int off)
{
	return (const void *)(skb->data + off - sizeof(struct udphdr) - sizeof(struct iphdr));
}

static const struct ipv6hdr *ip6_at(const struct sk_buff *skb, unsigned int off)
{
	return (const void *)(skb->data + off - sizeof(struct udphdr) - sizeof(struct ipv6hdr));
}

/*
 * Is the packet for a device of ours? GRO asks our socket about packets that will be forwarded
 * as well; they are left alone. @p is the packet that is to become the head of a list.
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
 * Whoever cuts the list up on its way to us (NFQUEUE, cake on an ifb) gives the packets after
 * the first one IDs that count up, and the ICRC covers the ID. With DF the list can say that
 * IDs stay, see roe_gro_complete(); without DF they have to count up already.
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
 * The stack reads one TTL, DSCP and ECN mark for all of a list, so they have to be equal. GRO has
 * compared the addresses and the flow label, and since 6.10 leaves the rest to the protocol above.
 */
static bool same_way(const struct sock *sk, const struct sk_buff *p, const struct sk_buff *skb)
{
	unsigned int off = skb_gro_offset(skb);

	return sk->sk_family == AF_INET6 ? same_way6(p, skb, off) : same_way4(p, skb, off);
}

/* No packet of ours is shorter. With a head that is too short all of the list would be dropped. */
static bool long_enough(const struct sk_buff *p, const struct sk_buff *skb)
{
	u32 min = skb_gro_offset(skb) + ROE_PKT_MIN;

	return p->len >= min && skb->len >= min;
}

/*
 * Does UDP follow the IPv6 header directly? Otherwise ip6_at() would take bytes of an extension
 * header, which the peer chooses, for the IPv6 header. IPv4 with options does not come here. GRO
 * has compared @skb with the head of the list.
 */
static bool is_plain(const struct sock *sk, const struct sk_buff *skb)
{
	int len = skb_gro_offset(skb) - roe_compat_gro_ip_offset(skb);

	return sk->sk_family != AF_INET6 || len == sizeof(struct ipv6hdr) + sizeof(struct udphdr);
}

/* GRO sets flush if IP has found a fragment, or a length that is not that of the packet. */
static bool may_join(const struct sock *sk, const struct sk_buff *p, const struct sk_buff *skb)
{
	return !NAPI_GRO_CB(p)->flush && !NAPI_GRO_CB(skb)->flush && !skb_has_frag_list(skb) &&
	       NAPI_GRO_CB(p)->count < LIST_MAX && p->len + skb->len <= U16_MAX &&
	       long_enough(p, skb) && is_plain(sk, skb) &&
	       (NAPI_GRO_CB(p)->count > 1 || to_us(sk, p, skb));
}

static void join(const struct sock *sk, struct sk_buff *p, struct sk_buff *skb)
{
	int ip_len = sk->sk_family == AF_INET6 ? sizeof(struct ipv6hdr) : sizeof(struct iphdr);

	/* where cutting up begins; with a VLAN tag in the data it has pointed to the tag so far */
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
	 * The members of the list have any length. Should our socket go before the list is
	 * complete, UDP itself only adds SKB_GSO_UDP_L4: without FRAGLIST the list would be
	 * taken for a train of equal packets, and run into a BUG_ON().
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

/* Does the message go on after this packet, which asks for no ACK? */
static bool goes_on(const struct roe_bth *bth)
{
	u32 flags = roe_opcode(bth->opcode)->flags;

	return flags & (ROE_F_START | ROE_F_MIDDLE) && !(flags & ROE_F_END) &&
	       !(bth->apsn & cpu_to_be32(ROE_BTH_ACKREQ));
}

/* May this packet be the last for now? If not, its headers are all in the linear part now. */
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
	bool timer = READ_ONCE(skb->dev->gro_flush_timeout);
	bool last = timer && is_last(skb);

	if (p && may_join(sk, p, skb) && pskb_may_pull(skb, skb_gro_offset(skb)) &&
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
	 * GRO has checked the sum of each packet. The NIC's sum is that of the first packet:
	 * conntrack would find it wrong for the whole list, and segmentation would warn.
	 */
	if (skb->ip_summed == CHECKSUM_COMPLETE)
		skb->ip_summed = CHECKSUM_UNNECESSARY;
	skb_shinfo(skb)->gso_type = SKB_GSO_FRAGLIST | SKB_GSO_UDP_L4;
	/* segmentation is to keep the IDs; this flag is an error without DF */
	if (sk->sk_family == AF_INET && ip4_at(skb, nhoff)->frag_off & htons(IP_DF))
		skb_shinfo(skb)->gso_type |= SKB_GSO_TCP_FIXEDID;
	skb_shinfo(skb)->gso_segs = NAPI_GRO_CB(skb)->count;
	return 0;
}

ROE_EXPORT_FOR_TEST(roe_gro_complete);
