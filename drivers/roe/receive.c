// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Each packet is proven here, once: an skb becomes batches of struct roe_rx_pkt,
 * with one QP lookup and one run of the QP for each batch; all later code relies on
 * what these descriptors say.
 *
 * Order (wire.md 4.3): lengths; then the QPN and the destination address, only
 * to learn whether the packet is ours or rdma_rxe's; the ICRC before anything
 * else is believed or counted; TVer; source address; transport; P_Key.
 */
#include <linux/etherdevice.h>
#include <linux/if_arp.h>
#include <linux/percpu.h>
#include <net/dsfield.h>
#include <net/inet_ecn.h>
#include <net/ipv6.h>
#include <rdma/ib_addr.h>
#include <roe/opcode.h>
#include <roe/pkt.h>
#include "frame.h"
#include "icrc.h"
#include "net.h"
#include "qp_run.h"
#include "stats.h"

/* No packet has more payload. */
#define BOUNCE_LEN	4096
#define BATCH_PKTS	64

/*
 * Packets of one QP, in order. Owned by the context that has softirqs disabled on
 * this CPU; with PREEMPT_RT there may be several, and @lock chooses one. Empty
 * whenever the QP runs, because what it sends may come back here by way of tc or a
 * tunnel.
 */
struct batch {
	local_lock_t		lock;		/* PREEMPT_RT */
	struct task_struct	*owner;		/* of @lock, compared only */
	unsigned int		n;
	bool			bounced;	/* the last one uses @bounce */
	bool			busy;		/* being given to the members of a group, in turn */
	struct roe_rx_pkt	pkt[BATCH_PKTS];
	struct roe_icrc_heads	heads;		/* of the packets that this CPU has received */
	u8			bounce[BOUNCE_LEN];
};

static struct batch __percpu *batches;

/* Where the packets of an skb go. */
struct flow {
	struct net		*net;
	const struct sk_buff	*skb;
	const struct net_device	*ndev;		/* by which it came */
	struct roe_rx_l3	l3;		/* for datagrams */
	struct roe_icrc_run	run;		/* open while packets are proven */
	struct in6_addr		saddr, daddr;	/* IPv4: mapped */
	u32			qpn;		/* of @qp */
	struct roe_qp		*qp;		/* NULL: none of ours */
	u32			pkts, bytes;	/* proven for it, not yet counted */
	/* the last packet of the batch, if it is a model for others (remember()) */
	u32			like_len;	/* BTH to ICRC, bytes; 0: it is none */
	u32			like_hdrlen;	/* ... of which headers */
	u64			like;		/* its BTH up to AckReq and PSN */
};

int roe_receive_init(void)
{
	int cpu;

	batches = alloc_percpu(struct batch);
	if (!batches)
		return -ENOMEM;
	for_each_possible_cpu(cpu)
		local_lock_init(&per_cpu_ptr(batches, cpu)->lock);
	return 0;
}

void roe_receive_exit(void)
{
	free_percpu(batches);
}

static void read_addresses(struct flow *flow, const struct roe_frame_head *head)
{
	if (head->v6) {
		flow->saddr = head->ip6.saddr;
		flow->daddr = head->ip6.daddr;
	} else {
		ipv6_addr_set_v4mapped(head->ip4.saddr, &flow->saddr);
		ipv6_addr_set_v4mapped(head->ip4.daddr, &flow->daddr);
	}
}

static const u8 *source_mac(const struct sk_buff *skb)
{
	if (!skb->dev || skb->dev->type != ARPHRD_ETHER || !skb_mac_header_was_set(skb) ||
	    skb_network_header(skb) - skb_mac_header(skb) < ETH_HLEN)
		return NULL;
	return eth_hdr(skb)->h_source;
}

static void read_l3(struct flow *flow, u16 vlan_id)
{
	flow->l3.ip = skb_network_header(flow->skb);
	flow->l3.v6 = flow->skb->protocol == htons(ETH_P_IPV6);
	flow->l3.vlan_id = vlan_id;
	flow->l3.smac = source_mac(flow->skb);
}

/* A datagram may come to any address of the device. */
static bool to_device(struct roe_dev *dev, struct flow *flow)
{
	const struct roe_gid *gid = roe_gid_find(dev, &flow->daddr, flow->ndev);

	if (!gid)
		return false;
	read_l3(flow, READ_ONCE(gid->vlan_id));
	return true;
}

/* Any QP of the group: a packet that is proven for it goes to all of them (wire.md section 6). */
static struct roe_qp *find_member(struct flow *flow)
{
	read_l3(flow, rdma_vlan_dev_vlan_id(flow->ndev));
	return roe_mcast_member(flow->net, flow->ndev, &flow->daddr);
}

/* The QP1 of the device with the destination address. */
static struct roe_qp *find_gsi(struct flow *flow)
{
	struct roe_dev *dev = roe_net_owner(flow->net, &flow->daddr, flow->ndev);

	return dev && to_device(dev, flow) ? READ_ONCE(dev->gsi) : NULL;
}

/*
 * A packet is ours if it names a QP of ours in this namespace at the address of that
 * QP. The same QPN at another address may be a QP of rdma_rxe.
 */
static struct roe_qp *find_qp(struct flow *flow, u32 qpn)
{
	struct roe_qp *qp;

	if (qpn == ROE_QPN_GSI)
		return find_gsi(flow);
	if (qpn == ROE_QPN_MCAST)
		return find_member(flow);
	qp = roe_qp_lookup(qpn);
	if (!qp || !qp->dev)
		return NULL;
	if (roe_qp_is_ud(qp))
		return to_device(qp->dev, flow) ? qp : NULL;
	/* pairs with roe_av_set() */
	return smp_load_acquire(&qp->path.av.net_cookie) == flow->net->net_cookie &&
	       ipv6_addr_equal(&qp->path.av.saddr, &flow->daddr) ? qp : NULL;
}

static u32 dest_qpn(const struct roe_segs *segs)
{
	const struct roe_bth *bth = (const struct roe_bth *)segs->hdr;

	return segs->len < sizeof(*bth) ? 0 : be32_to_cpu(bth->qpn) & ROE_QPN_MASK;
}

/* Payload, pad and ICRC of a packet that lies in one piece; its header is parsed. */
static bool map_flat(const struct roe_segs *segs, u32 hdrlen, struct roe_rx_pkt *rx,
		     __le32 *icrc)
{
	const u8 *end = segs->raw + segs->len - ROE_ICRC_LEN;
	const u8 *payload = segs->raw + hdrlen;

	rx->nvec = payload < end;
	rx->vec[0] = (struct kvec){ (void *)payload, end - payload };
	*icrc = get_unaligned((const __le32 *)end);
	return true;
}

/* The same for a packet in any number of pieces. */
static bool map_payload(const struct roe_segs *segs, u32 hdrlen, struct batch *batch,
			struct roe_rx_pkt *rx, __le32 *icrc)
{
	u32 len = segs->len - hdrlen - ROE_ICRC_LEN;
	struct roe_cursor at = segs->bth;

	if (segs->flat)
		return map_flat(segs, hdrlen, rx, icrc);
	rx->nvec = 0;
	roe_cursor_take(&at, hdrlen, NULL, 0);
	if (len) {
		struct roe_cursor from = at;

		rx->nvec = roe_cursor_take(&at, len, rx->vec, ROE_PKT_VECS);
		if (!rx->nvec) {
			/* too many pieces: copy this payload together, but no more of the skb */
			if (len > BOUNCE_LEN || !roe_cursor_read(&from, len, batch->bounce))
				return false;
			rx->vec[0] = (struct kvec){ batch->bounce, len };
			rx->nvec = 1;
			batch->bounced = true;
		}
	}
	return roe_cursor_read(&at, ROE_ICRC_LEN, icrc);
}

static bool icrc_is(struct roe_icrc_run *run, struct roe_icrc_heads *heads,
		    const struct roe_segs *segs, u32 hdrlen, const struct roe_rx_pkt *rx,
		    __le32 icrc)
{
	const struct roe_bth *bth = (const struct roe_bth *)segs->hdr;
	u32 extlen = hdrlen - sizeof(*bth);
	unsigned int i;
	u32 crc;

	crc = roe_icrc_head(run, heads, &segs->head.ip4, segs->head.v6, &segs->head.udp, bth);
	/* over the copy, which was parsed: the bytes in the skb may have changed since */
	if (extlen)
		crc = roe_icrc_update(run, crc, bth + 1, extlen);
	for (i = 0; i < rx->nvec; i++)
		crc = roe_icrc_update(run, crc, rx->vec[i].iov_base, rx->vec[i].iov_len);
	return icrc == roe_icrc_final(crc);
}

static bool icrc_ok(struct flow *flow, struct roe_icrc_heads *heads, struct roe_segs *segs,
		    u32 hdrlen, const struct roe_rx_pkt *rx, __le32 icrc)
{
	if (icrc_is(&flow->run, heads, segs, hdrlen, rx, icrc))
		return true;
	/* the second packet of a train shows whether its IPv4 IDs count up or are equal */
	if (segs->n != 2 || segs->list || segs->head.v6)
		return false;
	roe_segs_fix_id(segs, true);
	if (icrc_is(&flow->run, heads, segs, hdrlen, rx, icrc))
		return true;
	/* this packet is corrupt, which says nothing about the IDs of those after it */
	roe_segs_fix_id(segs, false);
	return false;
}

/* The pad was part of the ICRC; it is not part of the payload. */
static void trim_pad(struct roe_rx_pkt *rx)
{
	u32 left = rx->p.len;
	unsigned int i;

	if (!roe_pkt_pad(left))
		return;
	for (i = 0; i < rx->nvec && left; i++) {
		rx->vec[i].iov_len = min_t(u32, rx->vec[i].iov_len, left);
		left -= rx->vec[i].iov_len;
	}
	rx->nvec = i;
}

/* A CNP belongs to no transport; QPs that have a peer, RC and UC, accept it. */
static bool transport_ok(const struct roe_qp *qp, u8 opcode)
{
	switch (qp->type) {
	case IB_QPT_RC:
		return (opcode & ROE_XPORT_MASK) == ROE_XPORT_RC || opcode == ROE_OPCODE_CNP;
	case IB_QPT_UC:
		return (opcode & ROE_XPORT_MASK) == ROE_XPORT_UC || opcode == ROE_OPCODE_CNP;
	default:
		return (opcode & ROE_XPORT_MASK) == ROE_XPORT_UD;
	}
}

/* Equal low 15 bits, not zero, and one side a full member (wire.md section 6). */
static bool pkey_ok(u16 a, u16 b)
{
	return (a & 0x7fff) && !((a ^ b) & 0x7fff) && ((a | b) & 0x8000);
}

/* The remaining checks of wire.md 4.3 that need no QP lock. */
static bool accept(const struct flow *flow, const struct roe_segs *segs,
		   const struct roe_pkt *p)
{
	const struct roe_bth *bth = (const struct roe_bth *)segs->hdr;
	const struct roe_qp *qp = flow->qp;

	return !(bth->flags & ROE_BTH_TVER_MASK) &&
	       transport_ok(qp, p->opcode) &&
	       (roe_qp_is_ud(qp) || ipv6_addr_equal(&qp->path.av.daddr, &flow->saddr)) &&
	       pkey_ok(p->pkey, qp->pkey);
}

static bool marked(const struct roe_frame_head *head)
{
	return INET_ECN_is_ce(head->v6 ? ipv6_get_dsfield(&head->ip6) : head->ip4.tos);
}

/* The first 8 bytes of a BTH: equal in packets of a stream that have the same opcode. */
static u64 bth_begin(const struct roe_segs *segs)
{
	BUILD_BUG_ON(offsetof(struct roe_bth, apsn) != sizeof(u64));
	return get_unaligned((const u64 *)segs->hdr);
}

/* Remember a proven packet as a model for the next, unless it is in pieces, in a list or padded. */
static void remember(struct flow *flow, const struct roe_segs *segs, u32 hdrlen, u32 len)
{
	flow->like_len = 0;
	if (segs->list || !segs->flat || roe_pkt_pad(len))
		return;
	flow->like_len = segs->len;
	flow->like_hdrlen = hdrlen;
	flow->like = bth_begin(segs);
}

/* Is the current packet like the last one of the batch, up to the QPN of the BTH and in length? */
static bool like_last(const struct flow *flow, const struct roe_segs *segs,
		      const struct batch *batch)
{
	return batch->n && segs->len == flow->like_len && segs->flat &&
	       bth_begin(segs) == flow->like;
}

/* Packets for a group count for the device, not for the first member of the group. */
static u64 __percpu *stats_of(const struct flow *flow)
{
	return flow->qpn == ROE_QPN_MCAST ? flow->qp->dev->stats : roe_qp_stats(flow->qp);
}

static void count(const struct flow *flow, enum roe_stat stat, u64 n)
{
	roe_stat_count(stats_of(flow), stat, n);
}

/* Prove a packet like the last one into @rx: all was proven with that one, except the ICRC. */
static bool prove_like(struct flow *flow, struct roe_segs *segs, struct batch *batch,
		       struct roe_rx_pkt *rx)
{
	const struct roe_rx_pkt *last = rx - 1;
	__le32 icrc;

	map_flat(segs, flow->like_hdrlen, rx, &icrc);
	if (!icrc_ok(flow, &batch->heads, segs, flow->like_hdrlen, rx, icrc)) {
		count(flow, ROE_STAT_RX_ICRC_ERR, 1);
		return false;
	}
	flow->pkts++;
	flow->bytes += segs->len;
	roe_header_parse_like(segs->hdr, flow->like_hdrlen, &last->p, &rx->p);
	rx->l3 = last->l3;
	rx->ce = last->ce;
	return true;
}

/* Prove the current packet into @rx; otherwise count why not. */
static bool prove(struct flow *flow, struct roe_segs *segs, struct batch *batch,
		  struct roe_rx_pkt *rx)
{
	int hdrlen = roe_header_parse(segs->hdr, segs->len, &rx->p);
	__le32 icrc;

	if (hdrlen < 0) {
		count(flow, ROE_STAT_RX_MALFORMED, 1);
		return false;
	}
	if (!map_payload(segs, hdrlen, batch, rx, &icrc)) {
		count(flow, ROE_STAT_RX_DROP, 1);
		return false;
	}
	if (!icrc_ok(flow, &batch->heads, segs, hdrlen, rx, icrc)) {
		count(flow, ROE_STAT_RX_ICRC_ERR, 1);
		return false;
	}
	flow->pkts++;
	flow->bytes += segs->len;
	if (!accept(flow, segs, &rx->p)) {
		count(flow, ROE_STAT_RX_DROP, 1);
		return false;
	}
	trim_pad(rx);
	rx->l3 = &flow->l3;
	rx->ce = marked(&segs->head);
	remember(flow, segs, hdrlen, rx->p.len);
	return true;
}

static void count_proven(struct flow *flow)
{
	if (!flow->pkts)
		return;
	count(flow, ROE_STAT_RX_PKTS, flow->pkts);
	count(flow, ROE_STAT_RX_BYTES, flow->bytes);
	flow->pkts = 0;
	flow->bytes = 0;
}

/* The FPU section is closed while the QP runs: that may take long, and come back here. */
static void deliver(struct flow *flow, struct batch *batch)
{
	unsigned int n = batch->n;

	batch->n = 0;
	batch->bounced = false;
	roe_icrc_end(&flow->run);
	count_proven(flow);
	if (!n)
		return;
	if (flow->qpn != ROE_QPN_MCAST) {
		roe_qp_receive(flow->qp, batch->pkt, n);
		return;
	}
	batch->busy = true;
	roe_mcast_receive(flow->net, flow->ndev, &flow->daddr, batch->pkt, n);
	batch->busy = false;
}

/* Find the QP of the current packet and prove the packet for it. False: the packet is dropped. */
static bool take(struct flow *flow, struct roe_segs *segs, struct batch *batch)
{
	u32 qpn = dest_qpn(segs);

	if (qpn != flow->qpn) {
		deliver(flow, batch);
		roe_icrc_begin(&flow->run, segs->left);
		flow->qpn = qpn;
		flow->qp = find_qp(flow, qpn);
	}
	if (!flow->qp) {
		roe_stat_inc(roe_net_device(flow->net, flow->ndev), ROE_STAT_RX_NO_QP);
		return false;
	}
	return prove(flow, segs, batch, &batch->pkt[batch->n]);
}

static void receive(struct flow *flow, struct roe_segs *segs, struct batch *batch)
{
	roe_icrc_begin(&flow->run, flow->skb->len);
	do {
		if (like_last(flow, segs, batch) ?
		    prove_like(flow, segs, batch, &batch->pkt[batch->n]) : take(flow, segs, batch))
			batch->n++;
		if (batch->n == BATCH_PKTS || batch->bounced) {
			deliver(flow, batch);
			roe_icrc_begin(&flow->run, segs->left);
		}
	} while (roe_segs_next(segs));
	deliver(flow, batch);
}

/*
 * The packets of a list have only addresses and ports in common: go on to the first one that
 * is ours. The list is not passed on for the others: whoever cuts it up after us would give
 * them new IPv4 IDs, which the ICRC covers.
 */
static bool skip_foreign(struct flow *flow, struct roe_segs *segs)
{
	unsigned int skipped = 1;

	while (segs->list && roe_segs_next(segs)) {
		u32 qpn = dest_qpn(segs);

		if (qpn != flow->qpn) {
			flow->qpn = qpn;
			flow->qp = find_qp(flow, qpn);
		}
		if (flow->qp) {
			roe_stat_add(roe_net_device(flow->net, flow->ndev),
				     ROE_STAT_RX_NO_QP, skipped);
			return true;
		}
		skipped++;
	}
	return false;
}

/* PREEMPT_RT: own the batch. Returns whether it was not owned before and has to be given back. */
static bool take_batch(struct batch *batch)
{
	if (!IS_ENABLED(CONFIG_PREEMPT_RT) || READ_ONCE(batch->owner) == current)
		return false;
	local_lock_nested_bh(&batches->lock);
	WRITE_ONCE(batch->owner, current);
	return true;
}

static void give_batch(struct batch *batch)
{
	WRITE_ONCE(batch->owner, NULL);
	local_unlock_nested_bh(&batches->lock);
}

/**
 * roe_receive_skb() - prove what came as one skb and give it to its QPs
 * @net: namespace in which it was received
 * @skb: UDP to port 4791, skb->data at the network header; GSO or not
 *
 * Softirqs disabled, RCU read-side section. The first packet decides whose the skb is:
 * an address belongs to one device, so all packets are for that device. But the first
 * packet of a list may be for a QP that exists no more.
 *
 * Return: what it was. The caller keeps the skb in any case.
 */
enum roe_rx_verdict roe_receive_skb(struct net *net, struct sk_buff *skb)
{
	struct flow flow = { .net = net, .skb = skb };
	struct batch *batch = this_cpu_ptr(batches);
	struct roe_segs segs roe_uninitialized;
	bool taken;

	if (!roe_segs_begin(&segs, skb) || !roe_segs_next(&segs) ||
	    segs.len < sizeof(struct roe_bth))
		return ROE_RX_MALFORMED;
	read_addresses(&flow, &segs.head);
	flow.ndev = roe_net_ingress(net, skb);
	flow.qpn = dest_qpn(&segs);
	flow.qp = find_qp(&flow, flow.qpn);
	if (!flow.qp && !skip_foreign(&flow, &segs))
		return ROE_RX_FOREIGN;
	taken = take_batch(batch);
	/* Sent by one member of a group, and back before the next had its turn: dropped. */
	if (batch->busy)
		count(&flow, ROE_STAT_RX_DROP, 1);
	else
		receive(&flow, &segs, batch);
	if (taken)
		give_batch(batch);
	return ROE_RX_TAKEN;
}
