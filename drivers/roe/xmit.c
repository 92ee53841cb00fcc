// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Packets to skbs: IP and UDP headers in a small linear part, everything from
 * the BTH to the ICRC as a fragment of the burst's arena, so that payload is
 * written once and never copied here.
 *
 * What the ICRC covers must be final when it is computed (wire.md 1.4): hence an
 * own IPv4 ID, DF, and no iptunnel_xmit(), which would choose them later.
 */
#include <linux/jhash.h>
#include <linux/udp.h>
#include <net/dst.h>
#include <net/ip.h>
#include <net/ip6_checksum.h>
#include <net/ipv6.h>
#include <net/udp.h>
#include <roe/opcode.h>
#include "icrc.h"
#include "net.h"
#include "stats.h"

#define L4_HEADROOM	(sizeof(struct ipv6hdr) + sizeof(struct udphdr))

static void build_ipv4(struct roe_path *path, struct sk_buff *skb)
{
	const struct roe_av *av = &path->av;
	struct iphdr *ip;

	skb_push(skb, sizeof(*ip));
	skb_reset_network_header(skb);
	ip = ip_hdr(skb);
	ip->version = 4;
	ip->ihl = 5;
	ip->tos = av->tclass;
	ip->tot_len = htons(skb->len);
	ip->id = htons(path->ip_id++);
	ip->frag_off = htons(IP_DF);
	ip->ttl = av->hop_limit;
	ip->protocol = IPPROTO_UDP;
	ip->check = 0;		/* ip_local_out() */
	ip->saddr = av->saddr.s6_addr32[3];
	ip->daddr = av->daddr.s6_addr32[3];
	skb->protocol = htons(ETH_P_IP);
	memset(IPCB(skb), 0, sizeof(*IPCB(skb)));
}

static void build_ipv6(const struct roe_av *av, struct sk_buff *skb)
{
	u16 len = skb->len;
	struct ipv6hdr *ip6;

	skb_push(skb, sizeof(*ip6));
	skb_reset_network_header(skb);
	ip6 = ipv6_hdr(skb);
	ip6_flow_hdr(ip6, av->tclass, cpu_to_be32(av->flow_label));
	ip6->payload_len = htons(len);
	ip6->nexthdr = IPPROTO_UDP;
	ip6->hop_limit = av->hop_limit;
	ip6->saddr = av->saddr;
	ip6->daddr = av->daddr;
	skb->protocol = htons(ETH_P_IPV6);
	memset(IP6CB(skb), 0, sizeof(*IP6CB(skb)));
}

/*
 * The checksum is never zero, although RoCEv2 would allow it: a receiver's GRO
 * would let a packet without one overtake a train of its flow (datapath.md 4.1).
 */
static void build_udp(const struct roe_av *av, struct sk_buff *skb)
{
	struct udphdr *udp;
	u32 len;

	skb_push(skb, sizeof(*udp));
	skb_reset_transport_header(skb);
	len = skb->len;
	udp = udp_hdr(skb);
	udp->source = av->sport;
	udp->dest = htons(ROE_UDP_PORT);
	udp->len = htons(len);
	if (av->v6)
		udp->check = ~udp_v6_check(len, &av->saddr, &av->daddr, 0);
	else
		udp->check = ~udp_v4_check(len, av->saddr.s6_addr32[3],
					   av->daddr.s6_addr32[3], 0);
	skb->ip_summed = CHECKSUM_PARTIAL;
	skb->csum_start = skb_transport_header(skb) - skb->head;
	skb->csum_offset = offsetof(struct udphdr, check);
}

/* Pad and ICRC behind the payload; IP and UDP headers are complete. */
static void seal(const struct roe_av *av, const struct sk_buff *skb,
		 const struct roe_tx_pkt *pkt)
{
	const struct roe_bth *bth = (const struct roe_bth *)pkt->buf;
	u8 *tail = roe_tx_payload(pkt) + pkt->p.len;
	struct roe_icrc_run run;
	u32 crc;

	memset(tail, 0, pkt->pad);
	tail += pkt->pad;
	roe_icrc_begin(&run, tail - (u8 *)bth);
	crc = roe_icrc_head(&run, skb_network_header(skb), av->v6, udp_hdr(skb), bth);
	crc = roe_icrc_update(&run, crc, bth + 1, tail - (u8 *)(bth + 1));
	roe_icrc_end(&run);
	put_unaligned(roe_icrc_final(crc), (__le32 *)tail);
}

/* One hash per flow: one transmit queue, so one order. */
static u32 flow_hash(const struct roe_av *av)
{
	return jhash_3words((__force u32)av->saddr.s6_addr32[3],
			    (__force u32)av->daddr.s6_addr32[3],
			    (__force u32)av->sport, 0);
}

/* Consumes the page reference of @pkt on success only. */
static struct sk_buff *make_skb(struct roe_path *path, struct dst_entry *dst,
				struct roe_tx_pkt *pkt)
{
	u32 size = pkt->hdrlen + pkt->p.len + pkt->pad + ROE_ICRC_LEN;
	u32 headroom = LL_RESERVED_SPACE(dst_dev(dst)) + dst->header_len;
	const struct roe_av *av = &path->av;
	struct sk_buff *skb;

	skb = alloc_skb(headroom + L4_HEADROOM, GFP_ATOMIC);
	if (!skb)
		return NULL;
	skb_reserve(skb, headroom + L4_HEADROOM);
	skb_add_rx_frag(skb, 0, pkt->page, pkt->buf - (u8 *)page_address(pkt->page),
			size, size);

	build_udp(av, skb);
	if (av->v6)
		build_ipv6(av, skb);
	else
		build_ipv4(path, skb);
	roe_header_build(&pkt->p, pkt->buf);
	seal(av, skb, pkt);

	pkt->page = NULL;
	skb->priority = av->priority;
	__skb_set_sw_hash(skb, flow_hash(av), true);
	skb_dst_set(skb, dst_clone(dst));
	return skb;
}

/**
 * roe_xmit_build() - turn a burst into skbs
 * @dev: device
 * @path: where to
 * @txb: burst; empty afterwards
 * @skbs: skbs are appended
 *
 * QP lock held, softirqs disabled. A packet for which there is no memory or no
 * route is left out: for the protocol that is loss.
 *
 * Return: packets left out.
 */
unsigned int roe_xmit_build(struct roe_dev *dev, struct roe_path *path,
			    struct roe_txb *txb, struct sk_buff_head *skbs)
{
	struct dst_entry *dst = roe_path_route(dev, path);
	unsigned int i, lost = 0;
	struct sk_buff *skb;

	for (i = 0; i < txb->n; i++) {
		skb = dst ? make_skb(path, dst, &txb->pkt[i]) : NULL;
		if (skb)
			__skb_queue_tail(skbs, skb);
		else
			lost++;
	}
	dst_release(dst);
	roe_txb_reset(txb);
	if (lost)
		roe_stat_add(dev, ROE_STAT_TX_DROP, lost);
	return lost;
}

/**
 * roe_xmit_send() - hand skbs to IP
 * @dev: device
 * @skbs: from roe_xmit_build(); empty afterwards
 *
 * No lock held, softirqs disabled: qdisc locks, netfilter and BPF run below
 * (datapath.md 5.3).
 *
 * Return: packets that IP or a qdisc refused, which never left. Success proves
 * nothing (datapath.md 4.3).
 */
unsigned int roe_xmit_send(struct roe_dev *dev, struct sk_buff_head *skbs)
{
	unsigned int refused = 0;
	struct sk_buff *skb;

	while ((skb = __skb_dequeue(skbs))) {
		u32 len = skb->len;
		int err;

		if (skb->protocol == htons(ETH_P_IPV6))
			err = ip6_local_out(dev->net, NULL, skb);
		else
			err = ip_local_out(dev->net, NULL, skb);

		if (net_xmit_eval(err)) {
			refused++;
			roe_stat_inc(dev, ROE_STAT_TX_DROP);
		} else {
			roe_stat_inc(dev, ROE_STAT_TX_PKTS);
			roe_stat_add(dev, ROE_STAT_TX_BYTES, len);
		}
	}
	return refused;
}
