// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Builds skbs from packets: IP and UDP header are in a small linear part, everything
 * from the BTH to the ICRC is in fragments, which are the burst's chunks. Payload that is
 * still in the user's memory is copied into the chunks while its CRC is computed. A small
 * packet is all in the linear part. Packets that are apart have an skb around each.
 *
 * What the ICRC covers must be final when it is computed (wire.md 1.4): hence an
 * own IPv4 ID, DF, and no iptunnel_xmit(), which would choose them later.
 */
#include <linux/hash.h>
#include <linux/percpu.h>
#include <linux/pkt_sched.h>
#include <net/ip.h>
#include <net/ip6_checksum.h>
#include <net/ipv6.h>
#include <net/udp.h>
#include <roe/opcode.h>
#include "copy.h"
#include "frame.h"
#include "icrc.h"
#include "net.h"

/*
 * Up to this length a copy costs less than another fragment, and one CRC over all that follows
 * the BTH costs less than one that copies.
 */
#define SMALL_PAYLOAD	256

/* Of packets that this CPU has sent; whoever owns its burst owns them (txb_lock in qp_tx.c). */
static struct roe_icrc_heads __percpu *heads;

int roe_frame_init(void)
{
	heads = alloc_percpu(struct roe_icrc_heads);
	return heads ? 0 : -ENOMEM;
}

void roe_frame_exit(void)
{
	free_percpu(heads);
}

static void build_ipv4(const struct roe_av *av, u8 tclass, u16 id, struct sk_buff *skb)
{
	struct iphdr *ip;

	skb_push(skb, sizeof(*ip));
	skb_reset_network_header(skb);
	ip = ip_hdr(skb);
	ip->version = 4;
	ip->ihl = 5;
	ip->tos = tclass;
	ip->tot_len = htons(skb->len);
	ip->id = htons(id);
	ip->frag_off = htons(IP_DF);
	ip->ttl = av->hop_limit;
	ip->protocol = IPPROTO_UDP;
	ip->check = 0;		/* ip_local_out() */
	ip->saddr = av->saddr.s6_addr32[3];
	ip->daddr = av->daddr.s6_addr32[3];
	skb->protocol = htons(ETH_P_IP);
	memset(IPCB(skb), 0, sizeof(*IPCB(skb)));
}

static void build_ipv6(const struct roe_av *av, u8 tclass, struct sk_buff *skb)
{
	u16 len = skb->len;
	struct ipv6hdr *ip6;

	skb_push(skb, sizeof(*ip6));
	skb_reset_network_header(skb);
	ip6 = ipv6_hdr(skb);
	ip6_flow_hdr(ip6, tclass, cpu_to_be32(av->flow_label));
	ip6->payload_len = htons(len);
	ip6->nexthdr = IPPROTO_UDP;
	ip6->hop_limit = av->hop_limit;
	ip6->saddr = av->saddr;
	ip6->daddr = av->daddr;
	skb->protocol = htons(ETH_P_IPV6);
	memset(IP6CB(skb), 0, sizeof(*IP6CB(skb)));
}

/*
 * Either all packets of a flow have a UDP checksum or none has: a receiver's GRO would let a
 * packet without one overtake a train of its flow (datapath.md 4.1). A train that is cut up by
 * copying needs the seed of the pseudo header. Packets that are apart have no checksum, as
 * RoCEv2 allows: the processor would have to read all of the payload for it.
 */
static void build_udp(const struct roe_av *av, struct sk_buff *skb, bool apart)
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
	if (apart) {
		udp->check = 0;
		skb->ip_summed = CHECKSUM_UNNECESSARY;
		return;
	}
	if (av->v6)
		udp->check = ~udp_v6_check(len, &av->saddr, &av->daddr, 0);
	else
		udp->check = ~udp_v4_check(len, av->saddr.s6_addr32[3],
					   av->daddr.s6_addr32[3], 0);
	skb->ip_summed = CHECKSUM_PARTIAL;
	skb->csum_start = skb_transport_header(skb) - skb->head;
	skb->csum_offset = offsetof(struct udphdr, check);
}

static void copy_head(struct roe_frame_head *head, const struct sk_buff *skb, bool v6)
{
	head->v6 = v6;
	if (v6)
		head->ip6 = *ipv6_hdr(skb);
	else
		head->ip4 = *ip_hdr(skb);
	head->udp = *udp_hdr(skb);
}

static void fetch(const struct roe_tx_pkt *pkt)
{
	u8 *dst = roe_tx_payload(pkt);
	unsigned int i;

	for (i = 0; i < pkt->rx.nvec; i++) {
		roe_copy_out(dst, pkt->rx.vec[i].iov_base, pkt->rx.vec[i].iov_len);
		dst += pkt->rx.vec[i].iov_len;
	}
}

/* Go on with the CRC over extended headers and payload, which is copied here if not done yet. */
static u32 seal_payload(struct roe_icrc_run *run, u32 crc, const struct roe_tx_pkt *pkt)
{
	u32 extlen = pkt->hdrlen - sizeof(struct roe_bth);
	u8 *dst = roe_tx_payload(pkt);
	unsigned int i;

	if (!pkt->rx.nvec || pkt->p.len <= SMALL_PAYLOAD) {
		fetch(pkt);
		return roe_icrc_update(run, crc, dst - extlen, extlen + pkt->p.len);
	}
	crc = roe_icrc_update(run, crc, dst - extlen, extlen);
	for (i = 0; i < pkt->rx.nvec; i++) {
		const struct kvec *vec = &pkt->rx.vec[i];

		crc = roe_icrc_copy(run, crc, dst, vec->iov_base, vec->iov_len);
		dst += vec->iov_len;
	}
	return crc;
}

/* Is the packet after @pkt like it, except for AckReq, PSN, extended headers and payload? */
static bool repeats(const struct roe_tx_pkt *pkt)
{
	const struct roe_pkt *p = &pkt[0].p, *next = &pkt[1].p;

	return next->opcode == p->opcode && next->len == p->len && next->se == p->se &&
	       next->qpn == p->qpn && next->pkey == p->pkey;
}

/* Write pad and ICRC behind the payload; BTH and extended headers are in front of it already. */
static void seal(struct roe_icrc_run *run, const struct roe_frame_head *head,
		 const struct roe_tx_pkt *pkt)
{
	const struct roe_bth *bth = (const struct roe_bth *)pkt->buf;
	u8 *tail = roe_tx_payload(pkt) + pkt->p.len;
	u32 crc;

	crc = roe_icrc_head(run, this_cpu_ptr(heads), &head->ip4, head->v6, &head->udp, bth);
	crc = seal_payload(run, crc, pkt);
	if (pkt->pad) {
		memset(tail, 0, pkt->pad);
		crc = roe_icrc_update(run, crc, tail, pkt->pad);
	}
	put_unaligned(roe_icrc_final(crc), (__le32 *)(tail + pkt->pad));
}

/* Write headers, payload and ICRC of the @n packets of one skb; @head is that of the first. */
static void seal_all(struct roe_frame_head *head, struct roe_tx_pkt *pkt, unsigned int n,
		     u16 id, u32 bytes)
{
	struct roe_icrc_run run;
	unsigned int i;

	roe_icrc_begin(&run, bytes);
	for (i = 0; i < n; i++) {
		if (i && repeats(&pkt[i - 1]))
			roe_header_repeat(&pkt[i].p, pkt[i].hdrlen, pkt[i - 1].buf,
					  pkt[i].buf);
		else
			roe_header_build(&pkt[i].p, pkt[i].buf);
		roe_frame_head_set(head, id + i, roe_tx_bytes(&pkt[i]));
		if (pkt[i].p.opcode == ROE_OP_READ_RESP_FIRST ||
		    pkt[i].p.opcode == ROE_OP_READ_RESP_ONLY)
			smp_mb();	/* after the WRITEs and READs before it (wire.md 9) */
		seal(&run, head, &pkt[i]);
	}
	roe_icrc_end(&run);
}

/*
 * One hash per flow. It is only for queues of this host, with packets of our own, so it needs
 * no secret.
 */
static u32 flow_hash(const struct roe_av *av)
{
	u32 saddr = (__force u32)av->saddr.s6_addr32[3];
	u32 daddr = (__force u32)av->daddr.s6_addr32[3];

	return hash_32(saddr ^ rol32(daddr, 16) ^ (__force u32)av->sport, 32);
}

/*
 * One transmit queue per QP keeps its packets in order: a netdev with XPS chooses it by
 * sender_cpu, others by the hash. sender_cpu shares its place with napi_id; receivers on this
 * host do not take so small a number for a NAPI id.
 */
static void set_queue(struct sk_buff *skb, const struct roe_av *av, u32 home)
{
#ifdef CONFIG_XPS
	skb->sender_cpu = home;
#endif
	__skb_set_sw_hash(skb, flow_hash(av), true);
}

/* Does @next lie directly behind @pkt, so that one fragment holds both? */
static bool adjacent(const struct roe_tx_pkt *pkt, const struct roe_tx_pkt *next)
{
	return next->page == pkt->page && next->buf == pkt->buf + roe_tx_bytes(pkt);
}

/**
 * roe_frame_fit() - how many packets may leave as one skb
 * @pkt: packets of one burst, in order
 * @n: at least 1
 * @limits: of the route
 *
 * All have the size of the first one, except that the last one may be shorter. A packet
 * that was sent before leaves alone: a network that breaks trains must not stop a QP for
 * ever.
 *
 * Return: 1 or more.
 */
unsigned int roe_frame_fit(const struct roe_tx_pkt *pkt, unsigned int n,
			   const struct roe_frame_limits *limits)
{
	u32 size = roe_tx_bytes(pkt), sum = size;
	unsigned int i, frags = 1;

	if (pkt->again)
		return 1;
	for (i = 1; i < min(n, limits->segs); i++) {
		u32 bytes = roe_tx_bytes(&pkt[i]);

		if (pkt[i].again || bytes > size || sum + bytes > limits->bytes)
			break;
		if (!pkt->apart && !adjacent(&pkt[i - 1], &pkt[i]) && ++frags > MAX_SKB_FRAGS)
			break;
		sum += bytes;
		if (bytes < size)
			return i + 1;
	}
	return i;
}

ROE_EXPORT_FOR_TEST(roe_frame_fit);

/* An skb from the caches of this CPU; hook_take() of net.c gives skbs back to them. */
static struct sk_buff *new_skb(u32 headroom, u32 room)
{
	u32 size = SKB_DATA_ALIGN(headroom + room) +
		   SKB_DATA_ALIGN(sizeof(struct skb_shared_info));
	void *data = napi_alloc_frag(size);
	struct sk_buff *skb;

	if (!data)
		return NULL;
	skb = napi_build_skb(data, size);
	if (!skb) {
		skb_free_frag(data);
		return NULL;
	}
	skb_reserve(skb, headroom);
	return skb;
}

/* Move a small packet into the linear part: no page has to be referenced or mapped for it. */
static void add_linear(struct sk_buff *skb, struct roe_tx_pkt *pkt)
{
	const u8 *payload = roe_tx_payload(pkt);

	pkt->buf = skb_put(skb, roe_tx_bytes(pkt));
	if (!pkt->rx.nvec)
		memcpy(roe_tx_payload(pkt), payload, pkt->p.len);
}

static void add_frags(struct sk_buff *skb, const struct roe_tx_pkt *pkt, unsigned int n)
{
	unsigned int i, from, nr = 0;

	for (from = 0; from < n; from = i) {
		u32 bytes = roe_tx_bytes(&pkt[from]);

		for (i = from + 1; i < n && adjacent(&pkt[i - 1], &pkt[i]); i++)
			bytes += roe_tx_bytes(&pkt[i]);
		get_page(pkt[from].page);
		skb_add_rx_frag(skb, nr++, pkt[from].page,
				pkt[from].buf - (u8 *)page_address(pkt[from].page),
				bytes, bytes);
	}
}

static void build_headers(const struct roe_av *av, u8 tclass, u16 id, bool apart,
			  struct sk_buff *skb)
{
	build_udp(av, skb, apart);
	if (av->v6)
		build_ipv6(av, tclass, skb);
	else
		build_ipv4(av, tclass, id, skb);
}

/* One packet, or a train that is cut up by copying. */
static struct sk_buff *build_one(const struct roe_av *av, u8 tclass, u16 id,
				 struct roe_tx_pkt *pkt, unsigned int n, u32 headroom)
{
	bool linear = n == 1 && pkt->p.len <= SMALL_PAYLOAD;
	struct sk_buff *skb;

	headroom += sizeof(struct udphdr) +
		    (av->v6 ? sizeof(struct ipv6hdr) : sizeof(struct iphdr));
	skb = new_skb(headroom, linear ? roe_tx_bytes(pkt) : 0);
	if (!skb)
		return NULL;
	if (linear)
		add_linear(skb, pkt);
	else
		add_frags(skb, pkt, n);
	build_headers(av, tclass, id, false, skb);
	if (n > 1)
		skb_shinfo(skb)->gso_type = SKB_GSO_UDP_L4;
	return skb;
}

/* Build an skb around the bytes of a packet that is apart. */
static struct sk_buff *wrap(const struct roe_tx_pkt *pkt)
{
	u32 bytes = roe_tx_bytes(pkt);
	struct sk_buff *skb;

	skb = napi_build_skb(pkt->buf - ROE_TXB_FRONT, roe_txb_space(bytes, true));
	if (!skb)
		return NULL;
	get_page(pkt->page);
	skb_reserve(skb, ROE_TXB_FRONT);
	skb_put(skb, bytes);
	return skb;
}

/* Members have headers in front of their data; the head's lengths are sums (datapath.md 2.5). */
static void hang_on(struct sk_buff *head, struct sk_buff *last, struct sk_buff *skb)
{
	skb_pull(skb, skb_transport_offset(skb) + sizeof(struct udphdr));
	if (last == head)
		skb_shinfo(head)->frag_list = skb;
	else
		last->next = skb;
	head->len += skb->len;
	head->data_len += skb->len;
	head->truesize += skb->truesize;
}

/* One packet that is apart, or a list: each has an skb, with the headers that it leaves with. */
static struct sk_buff *build_list(const struct roe_av *av, u8 tclass, u16 id,
				  const struct roe_tx_pkt *pkt, unsigned int n)
{
	struct sk_buff *head = NULL, *last = NULL;
	unsigned int i;

	for (i = 0; i < n; i++) {
		struct sk_buff *skb = wrap(&pkt[i]);

		if (!skb) {
			kfree_skb(head);
			return NULL;
		}
		build_headers(av, tclass, id + i, true, skb);
		if (head)
			hang_on(head, last, skb);
		else
			head = skb;
		last = skb;
	}
	if (n > 1) {
		skb_shinfo(head)->gso_type = SKB_GSO_UDP_L4 | SKB_GSO_FRAGLIST;
		udp_hdr(head)->len = htons(head->len - skb_transport_offset(head));
	}
	return head;
}

/**
 * roe_frame_build() - one skb with all headers and ICRCs
 * @path: addresses; its IPv4 ID counter moves by @n
 * @pkt: what roe_frame_fit() allowed; a small one is moved into the skb
 * @n: packets
 * @headroom: bytes in front of the IP header; not for packets that are apart, which have room
 * @home: CPU whose transmit queue it takes, + 1; 0: that of the CPU that sends it
 *
 * Softirqs disabled.
 *
 * Return: skb without a route, data at the IP header; NULL if there is no memory: then
 * nothing has changed.
 */
struct sk_buff *roe_frame_build(struct roe_path *path, struct roe_tx_pkt *pkt,
				unsigned int n, u32 headroom, u32 home)
{
	const struct roe_av *av = &path->av;
	/* a CNP goes ahead of the packets that fill queues, also on this host (qdiscs, VLANs) */
	bool urgent = pkt->p.opcode == ROE_OPCODE_CNP;
	u8 tclass = urgent ? ROE_CNP_TCLASS : av->tclass;
	/* several UD QPs may share a path: read the counter once, and use that value */
	u16 id = READ_ONCE(path->ip_id);
	struct roe_frame_head head;
	struct sk_buff *skb;

	if (pkt->apart)
		skb = build_list(av, tclass, id, pkt, n);
	else
		skb = build_one(av, tclass, id, pkt, n, headroom);
	if (!skb)
		return NULL;
	if (n > 1) {
		skb_shinfo(skb)->gso_size = roe_tx_bytes(pkt);
		skb_shinfo(skb)->gso_segs = n;
	}
	WRITE_ONCE(path->ip_id, id + n);
	copy_head(&head, skb, av->v6);
	seal_all(&head, pkt, n, id, skb->len);
	skb->priority = urgent ? TC_PRIO_INTERACTIVE : av->priority;
	set_queue(skb, av, home);
	return skb;
}

ROE_EXPORT_FOR_TEST(roe_frame_build);
