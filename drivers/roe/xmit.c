// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * From bursts to IP: which packets share an skb, their route, what IP refuses.
 */
#include <linux/module.h>
#include <net/dst.h>
#include <net/ip.h>
#include <net/ipv6.h>
#include <net/xfrm.h>
#include "frame.h"
#include "net.h"
#include "stats.h"

static bool gso = true;
module_param(gso, bool, 0644);
MODULE_PARM_DESC(gso, "send consecutive packets as one skb (default Y); N: one skb per packet, for readable captures");

/* UDP GRO merges no more, and the devices of a VM's host may take no more (datapath.md 2.7). */
#define TRAIN_SEGS	64
/* Link layer and tunnel headers count into gso_max_size. */
#define TRAIN_MARGIN	256

static struct roe_frame_limits read_limits(const struct dst_entry *dst, bool v6)
{
	const struct net_device *dev = dst_dev(dst);
	u32 l4 = sizeof(struct udphdr) + (v6 ? sizeof(struct ipv6hdr) : sizeof(struct iphdr));
	u32 max = roe_compat_gso_max_size(dev, v6);

	/* xfrm encrypts each packet by itself */
	if (!READ_ONCE(gso) || dst_xfrm(dst) || max <= TRAIN_MARGIN)
		return (struct roe_frame_limits){ .segs = 1 };
	return (struct roe_frame_limits){
		.bytes = min_t(u32, U16_MAX - l4, max - TRAIN_MARGIN),
		.segs = clamp_t(unsigned int, READ_ONCE(dev->gso_max_segs), 1, TRAIN_SEGS),
	};
}

/*
 * A netdev without scatter-gather has no other offload, either: segmenting a train for it copies
 * each packet into an skb and computes its checksum, a third of what a packet costs. So packets
 * are written apart, and a train is a list (datapath.md 2.5). Not with xfrm, which encrypts them
 * in place, nor with a tunnel of the route's own, which adds headers: both need other room.
 */
static bool wants_apart(const struct dst_entry *dst, u32 headroom)
{
	return !(READ_ONCE(dst_dev(dst)->features) & NETIF_F_SG) &&
	       !dst_xfrm(dst) && !dst->lwtstate &&
	       headroom + sizeof(struct ipv6hdr) + sizeof(struct udphdr) <= ROE_TXB_FRONT;
}

/* The packets of an skb, kept in skb->cb until it is handed to IP, which uses cb itself. */
static struct roe_refused *contents(struct sk_buff *skb)
{
	BUILD_BUG_ON(sizeof(struct roe_refused) > sizeof(skb->cb));
	return (struct roe_refused *)skb->cb;
}

static void left_out(u64 __percpu *stats, struct roe_refused *refused,
		     const struct roe_tx_pkt *pkt, unsigned int n)
{
	roe_refused_add(refused, pkt, n);
	roe_stat_count(stats, ROE_STAT_TX_DROP, n);
}

/**
 * roe_xmit_build() - turn a burst into skbs
 * @dev: device
 * @stats: of the QP
 * @path: address vector and route
 * @unsent: of the QP; counts the skbs
 * @txb: burst; empty afterwards
 * @skbs: skbs are appended
 * @refused: packets left out are added
 *
 * QP lock held, softirqs disabled. Packets for which there is no route or memory are left out,
 * of RC also those after them: to the protocol they are lost.
 */
void roe_xmit_build(struct roe_dev *dev, u64 __percpu *stats, struct roe_path *path,
		    struct roe_unsent *unsent, struct roe_txb *txb, struct sk_buff_head *skbs,
		    struct roe_refused *refused)
{
	struct dst_entry *dst = roe_path_route(dev, path);
	/* enough for one packet, which most bursts of small messages are */
	struct roe_frame_limits limits = { .segs = 1 };
	struct sk_buff *skb;
	unsigned int i, n;
	u32 headroom;
	bool apart;

	if (!dst) {
		left_out(stats, refused, txb->pkt, txb->n);
		goto out;
	}
	if (txb->n > 1 && !path->alone) {
		limits = read_limits(dst, path->av.v6);
		path->trains = limits.segs > 1;
	}
	headroom = LL_RESERVED_SPACE(dst_dev(dst)) + dst->header_len;
	apart = wants_apart(dst, headroom);
	/* from the next burst on; this one, if apart, may lack room for this route's headers */
	WRITE_ONCE(path->apart, apart);
	if (txb->apart && !apart)
		limits.segs = 1;
	for (i = 0; i < txb->n; i += n) {
		n = roe_frame_fit(&txb->pkt[i], txb->n - i, &limits);
		skb = roe_frame_build(path, &txb->pkt[i], n, headroom, txb->home);
		/* of RC the peer has no use for the packets after it */
		if (!skb) {
			if ((txb->pkt[i].p.opcode & ROE_XPORT_MASK) == ROE_XPORT_RC)
				n = txb->n - i;
			left_out(stats, refused, &txb->pkt[i], n);
			continue;
		}
		roe_refused_add(contents(skb), &txb->pkt[i], n);
		roe_unsent_add(unsent, skb);
		skb_dst_set(skb, dst_clone(dst));
		__skb_queue_tail(skbs, skb);
	}
	dst_release(dst);
out:
	roe_txb_reset(txb);
}

/* Add @part to @sum; its packets come after those of @sum in the burst. */
static void add(struct roe_refused *sum, const struct roe_refused *part)
{
	if (!sum->requests)
		sum->request = part->request;
	if (!sum->responses)
		sum->response = part->response;
	sum->requests += part->requests;
	sum->responses += part->responses;
	sum->acks += part->acks;
	sum->answered |= part->answered;
}

static int hand_to_ip(struct sk_buff *skb)
{
	struct net_device *dev = dst_dev(skb_dst(skb));

	/* the route's own netdev has gone; this one is in the host's namespace, with its rules */
	if (unlikely(dev == blackhole_netdev)) {
		kfree_skb(skb);
		return -ENETDOWN;
	}
	if (skb->protocol == htons(ETH_P_IPV6))
		return ip6_local_out(dev_net(dev), NULL, skb);
	return ip_local_out(dev_net(dev), NULL, skb);
}

/**
 * roe_xmit_send() - hand skbs to IP
 * @stats: of the QP
 * @skbs: from roe_xmit_build(); empty afterwards
 * @refused: packets that IP or a qdisc refused, which never left, are added. Whether the
 *	others have left is not known (datapath.md 4.3)
 *
 * No lock held, RCU read-side section, softirqs disabled: qdisc locks, netfilter and
 * BPF run below (datapath.md 5.3).
 */
void roe_xmit_send(u64 __percpu *stats, struct sk_buff_head *skbs, struct roe_refused *refused)
{
	struct roe_refused here = {};
	struct sk_buff *skb;

	while ((skb = __skb_dequeue(skbs))) {
		unsigned int n = max_t(unsigned int, skb_shinfo(skb)->gso_segs, 1);
		struct roe_refused pkts = *contents(skb);
		/* BTH to ICRC of each packet, as the receiver counts: a train has one head */
		u32 len = skb->len - skb_transport_offset(skb) - sizeof(struct udphdr);
		int err;

		/* the peer would only drop a response that comes after a refused one */
		if (here.responses && (pkts.responses || pkts.acks) && !pkts.requests) {
			kfree_skb(skb);
			add(&here, &pkts);
			roe_stat_count(stats, ROE_STAT_TX_DROP, n);
			continue;
		}
		/* IP would take what is in cb for IP options */
		memset(contents(skb), 0, sizeof(pkts));
		err = hand_to_ip(skb);
		if (net_xmit_eval(err)) {
			add(&here, &pkts);
			roe_stat_count(stats, ROE_STAT_TX_DROP, n);
		} else {
			here.answered |= pkts.responses || pkts.acks;
			roe_stat_count(stats, ROE_STAT_TX_PKTS, n);
			roe_stat_count(stats, ROE_STAT_TX_BYTES, len);
		}
	}
	/* the packets that roe_xmit_build() has left out come after all of these */
	add(&here, refused);
	*refused = here;
}
