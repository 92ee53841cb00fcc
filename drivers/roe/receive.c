// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * The one parser: a datagram to port 4791 is proven here, once, and becomes a
 * struct roe_rx_pkt; all later code relies on what that says.
 *
 * Order (wire.md 4.3): lengths; then the QPN and the destination address, only
 * to learn whether the packet is ours or rdma_rxe's; the ICRC before anything
 * else is believed or counted; TVer; source address; transport; P_Key. The skb
 * is never written to: clones and other QPs' pages may be behind it.
 */
#include <linux/etherdevice.h>
#include <linux/if_arp.h>
#include <linux/ip.h>
#include <linux/ipv6.h>
#include <linux/udp.h>
#include <net/ipv6.h>
#include <roe/opcode.h>
#include <roe/pkt.h>
#include "icrc.h"
#include "net.h"
#include "qp.h"
#include "stats.h"

/* What is known of a datagram while it is being proven. */
struct rx_frame {
	struct sk_buff		*skb;
	bool			v6;
	struct in6_addr		saddr, daddr;	/* IPv4: mapped */
	u32			bth_off;	/* from skb->data */
	u32			len;		/* BTH .. ICRC */
	u8			hdrlen;
	struct roe_rx_l3	l3;		/* for datagrams */
	const struct udphdr	*udp;
	const u8		*hdr;		/* BTH and extended headers */
	u8			buf[sizeof(struct udphdr) + ROE_HDR_MAX] __aligned(4);
};

/* UDP, BTH, ICRC: the least that carries a destination QP. */
#define MIN_UDP_LEN	(sizeof(struct udphdr) + sizeof(struct roe_bth) + ROE_ICRC_LEN)

static void read_addresses(struct rx_frame *f)
{
	if (f->v6) {
		f->saddr = ipv6_hdr(f->skb)->saddr;
		f->daddr = ipv6_hdr(f->skb)->daddr;
	} else {
		ipv6_addr_set_v4mapped(ip_hdr(f->skb)->saddr, &f->saddr);
		ipv6_addr_set_v4mapped(ip_hdr(f->skb)->daddr, &f->daddr);
	}
}

/*
 * UDP length against L3 length: the stack has trimmed the skb to the latter.
 * Refuses UDP length 0 as well, which on IPv6 would be a jumbogram.
 */
static bool read_lengths(struct rx_frame *f)
{
	u32 off = skb_transport_offset(f->skb);
	u32 left = f->skb->len - off;

	if (f->skb->len < off || left < MIN_UDP_LEN)
		return false;
	f->udp = skb_header_pointer(f->skb, off,
				    min_t(u32, left, sizeof(f->buf)), f->buf);
	if (!f->udp || ntohs(f->udp->len) != left)
		return false;

	f->hdr = (const u8 *)(f->udp + 1);
	f->bth_off = off + sizeof(*f->udp);
	f->len = left - sizeof(*f->udp);
	return true;
}

/* Network and transport header as sent; options and extension headers are not ours. */
static bool read_frame(struct rx_frame *f, struct sk_buff *skb)
{
	f->skb = skb;
	f->v6 = skb->protocol == htons(ETH_P_IPV6);
	if (f->v6) {
		if (ipv6_hdr(skb)->nexthdr != IPPROTO_UDP)
			return false;
	} else if (ip_hdr(skb)->ihl != 5) {
		return false;
	}
	read_addresses(f);
	return read_lengths(f);
}

/* A datagram may come to any address of the device. */
static bool to_device(struct roe_dev *dev, struct rx_frame *f)
{
	const struct roe_gid *gid = roe_gid_find(dev, &f->daddr);

	if (!gid)
		return false;
	f->l3.vlan_id = gid->vlan_id;
	return true;
}

/* The QP1 of the device with the destination address. */
static struct roe_qp *find_gsi(struct net *net, struct rx_frame *f)
{
	struct roe_dev *dev = roe_net_owner(net, &f->daddr, f->skb->dev);

	return dev && to_device(dev, f) ? READ_ONCE(dev->gsi) : NULL;
}

/*
 * Ours is what names a QP of ours in this namespace at its own address. The
 * same number at another address may be a QP of rdma_rxe.
 */
static struct roe_qp *find_qp(struct net *net, struct rx_frame *f)
{
	const struct roe_bth *bth = (const struct roe_bth *)f->hdr;
	u32 qpn = be32_to_cpu(bth->qpn) & ROE_QPN_MASK;
	struct roe_qp *qp;

	if (qpn == ROE_QPN_GSI)
		return find_gsi(net, f);
	qp = roe_qp_lookup(qpn);
	if (!qp || !qp->dev || !net_eq(qp->dev->net, net))
		return NULL;
	if (roe_qp_is_ud(qp))
		return to_device(qp->dev, f) ? qp : NULL;
	return ipv6_addr_equal(&qp->path.av.saddr, &f->daddr) ? qp : NULL;
}

/* Pieces of [off, off + len) of the skb; 0 if they are too many or unreadable. */
static unsigned int collect(const struct sk_buff *skb, u32 off, u32 len, struct kvec *vec)
{
	u32 start = skb_headlen(skb), n;
	unsigned int nvec = 0;
	int i;

	if (off < start) {
		n = min(start - off, len);
		vec[nvec++] = (struct kvec){ skb->data + off, n };
		off += n;
		len -= n;
	}
	for (i = 0; len && i < skb_shinfo(skb)->nr_frags; i++) {
		const skb_frag_t *frag = &skb_shinfo(skb)->frags[i];
		u32 size = skb_frag_size(frag);

		if (off < start + size) {
			if (nvec == ROE_PKT_VECS)
				return 0;
			n = min(start + size - off, len);
			vec[nvec++] = (struct kvec){ skb_frag_address(frag) + off - start, n };
			off += n;
			len -= n;
		}
		start += size;
	}
	return len ? 0 : nvec;
}

/*
 * Payload and pad as pieces. A frag_list or a payload in many fragments is
 * rare: those are copied once, after which the header pointers are stale.
 */
static bool map_payload(struct rx_frame *f, struct roe_rx_pkt *rx)
{
	u32 off = f->bth_off + f->hdrlen;
	u32 len = f->len - f->hdrlen - ROE_ICRC_LEN;

	rx->nvec = 0;
	if (!len)
		return true;
	rx->nvec = collect(f->skb, off, len, rx->vec);
	if (rx->nvec)
		return true;
	if (skb_linearize(f->skb) || !read_lengths(f))
		return false;
	rx->nvec = collect(f->skb, off, len, rx->vec);
	return rx->nvec;
}

static bool icrc_ok(const struct rx_frame *f, const struct roe_rx_pkt *rx)
{
	const struct roe_bth *bth = (const struct roe_bth *)f->hdr;
	struct roe_icrc_run run;
	const __le32 *icrc;
	unsigned int i;
	__le32 buf;
	u32 crc;

	icrc = skb_header_pointer(f->skb, f->bth_off + f->len - ROE_ICRC_LEN,
				  sizeof(buf), &buf);
	if (!icrc)
		return false;
	roe_icrc_begin(&run, f->len);
	crc = roe_icrc_head(&run, skb_network_header(f->skb), f->v6, f->udp, bth);
	crc = roe_icrc_update(&run, crc, bth + 1, f->hdrlen - sizeof(*bth));
	for (i = 0; i < rx->nvec; i++)
		crc = roe_icrc_update(&run, crc, rx->vec[i].iov_base, rx->vec[i].iov_len);
	roe_icrc_end(&run);
	return get_unaligned(icrc) == roe_icrc_final(crc);
}

/* The pad was part of the ICRC; it is not part of the payload. */
static void trim_pad(struct roe_rx_pkt *rx)
{
	u32 left = rx->p.len;
	unsigned int i;

	for (i = 0; i < rx->nvec && left; i++) {
		rx->vec[i].iov_len = min_t(u32, rx->vec[i].iov_len, left);
		left -= rx->vec[i].iov_len;
	}
	rx->nvec = i;
}

static bool transport_ok(const struct roe_qp *qp, u8 opcode)
{
	switch (qp->type) {
	case IB_QPT_RC:
		return (opcode & ROE_XPORT_MASK) == ROE_XPORT_RC;
	case IB_QPT_UC:
		return (opcode & ROE_XPORT_MASK) == ROE_XPORT_UC;
	default:
		return (opcode & ROE_XPORT_MASK) == ROE_XPORT_UD;
	}
}

/* Equal low 15 bits, not zero, and one side a full member (wire.md section 6). */
static bool pkey_ok(u16 a, u16 b)
{
	return (a & 0x7fff) && !((a ^ b) & 0x7fff) && ((a | b) & 0x8000);
}

/*
 * The rest of the order in wire.md 4.3 that needs no QP lock. A CNP is of no
 * transport; nothing here slows down for it yet.
 */
static bool accept(const struct roe_qp *qp, const struct rx_frame *f, const struct roe_pkt *p)
{
	const struct roe_bth *bth = (const struct roe_bth *)f->hdr;

	return !(bth->flags & ROE_BTH_TVER_MASK) &&
	       transport_ok(qp, p->opcode) &&
	       (roe_qp_is_ud(qp) || ipv6_addr_equal(&qp->path.av.daddr, &f->saddr)) &&
	       pkey_ok(p->pkey, qp->pkey);
}

static const u8 *source_mac(const struct sk_buff *skb)
{
	if (!skb->dev || skb->dev->type != ARPHRD_ETHER || !skb_mac_header_was_set(skb) ||
	    skb_network_header(skb) - skb_mac_header(skb) < ETH_HLEN)
		return NULL;
	return eth_hdr(skb)->h_source;
}

/* Last of all: to make the skb linear moves the headers. */
static void read_l3(struct rx_frame *f)
{
	f->l3.ip = skb_network_header(f->skb);
	f->l3.v6 = f->v6;
	f->l3.smac = source_mac(f->skb);
}

static void receive(struct roe_qp *qp, struct rx_frame *f)
{
	u32 bytes = f->skb->len;
	struct roe_rx_pkt rx;
	int hdrlen;

	hdrlen = roe_header_parse(f->hdr, f->len, &rx.p);
	if (hdrlen < 0) {
		roe_stat_inc(qp->dev, ROE_STAT_RX_MALFORMED);
		return;
	}
	f->hdrlen = hdrlen;
	if (!map_payload(f, &rx)) {
		roe_stat_inc(qp->dev, ROE_STAT_RX_DROP);
		return;
	}
	if (!icrc_ok(f, &rx)) {
		roe_stat_inc(qp->dev, ROE_STAT_RX_ICRC_ERR);
		return;
	}
	roe_stat_inc(qp->dev, ROE_STAT_RX_PKTS);
	roe_stat_add(qp->dev, ROE_STAT_RX_BYTES, bytes);
	if (!accept(qp, f, &rx.p)) {
		roe_stat_inc(qp->dev, ROE_STAT_RX_DROP);
		return;
	}
	trim_pad(&rx);
	rx.l3 = &f->l3;
	if (roe_qp_is_ud(qp))
		read_l3(f);
	roe_qp_receive(qp, &rx, 1);
}

/**
 * roe_receive_skb() - prove one datagram and give it to its QP
 * @net: namespace in which it was received
 * @skb: UDP to port 4791, skb->data at the network header, no GSO
 *
 * Softirqs disabled, RCU read-side section.
 *
 * Return: what it was. The caller keeps the skb in any case.
 */
enum roe_rx_verdict roe_receive_skb(struct net *net, struct sk_buff *skb)
{
	struct rx_frame f;
	struct roe_qp *qp;

	if (!read_frame(&f, skb))
		return ROE_RX_MALFORMED;
	qp = find_qp(net, &f);
	if (!qp)
		return ROE_RX_FOREIGN;
	receive(qp, &f);
	return ROE_RX_TAKEN;
}
