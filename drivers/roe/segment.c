// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Reads what arrives as one skb packet by packet. An skb has one of four shapes
 * (datapath.md 3.9):
 *
 *   single	one datagram
 *   train	UDP_L4: cut every gso_size bytes, across linear part, fragments and,
 *		where GRO ran out of fragments, the members of frag_list
 *   list	UDP_L4 and FRAGLIST: the head's own bytes are a packet, and each
 *		member is one, with its own headers in its headroom
 *   other	some other GSO: not ours
 *
 * gso_size and gso_segs come from whoever built the skb, perhaps a guest: the first
 * only decides where to cut, the second is not looked at. The skb is never written to:
 * clones and other QPs' pages may be behind it. Nor are headers read from it twice: a
 * process may have spliced its own page into a socket and write to it meanwhile, so
 * that the header that is used would not be the one that was proven.
 */
#include <net/ipv6.h>
#include "frame.h"

static void start(struct roe_cursor *at, const struct sk_buff *skb, const struct sk_buff *list)
{
	at->skb = skb;
	at->list = list;
	at->frag = 0;
	at->p = skb->data;
	at->left = skb_headlen(skb);
}

/* Go on to the next bytes. False at the end of the skb, or if they are in device memory. */
static bool refill(struct roe_cursor *at)
{
	while (!at->left) {
		const struct skb_shared_info *si = skb_shinfo(at->skb);

		if (at->frag < si->nr_frags) {
			const skb_frag_t *frag = &si->frags[at->frag++];

			if (!skb_frags_readable(at->skb))
				return false;
			at->p = skb_frag_address(frag);
			at->left = skb_frag_size(frag);
		} else if (at->list) {
			start(at, at->list, at->list->next);
		} else {
			return false;
		}
	}
	return true;
}

/**
 * roe_cursor_take() - the next bytes as pieces
 * @at: moves behind them, also if they are in too many pieces
 * @len: bytes
 * @vec: takes the pieces; may be NULL if @max is 0
 * @max: pieces at most
 *
 * Return: pieces; 0 if they are more than @max or the skb ends before.
 */
unsigned int roe_cursor_take(struct roe_cursor *at, u32 len, struct kvec *vec,
			     unsigned int max)
{
	unsigned int n = 0;

	while (len) {
		u32 part;

		if (!refill(at))
			return 0;
		part = min(at->left, len);
		if (n < max)
			vec[n] = (struct kvec){ (void *)at->p, part };
		n++;
		at->p += part;
		at->left -= part;
		len -= part;
	}
	return n <= max ? n : 0;
}

ROE_EXPORT_FOR_TEST(roe_cursor_take);

/**
 * roe_cursor_read() - copy the next bytes
 * @at: moves behind them
 * @len: bytes
 * @buf: room for @len bytes
 *
 * Return: false if the skb ends before.
 */
bool roe_cursor_read(struct roe_cursor *at, u32 len, void *buf)
{
	u8 *to = buf;

	while (len) {
		u32 part;

		if (!refill(at))
			return false;
		part = min(at->left, len);
		memcpy(to, at->p, part);
		to += part;
		at->p += part;
		at->left -= part;
		len -= part;
	}
	return true;
}

/* Read the UDP header, @off bytes on; usually in one piece. False if the skb ends before. */
static bool read_udp(struct roe_cursor *at, u32 off, struct udphdr *udp)
{
	if (at->left < off + sizeof(*udp)) {
		roe_cursor_take(at, off, NULL, 0);
		return roe_cursor_read(at, sizeof(*udp), udp);
	}
	memcpy(udp, at->p + off, sizeof(*udp));
	at->p += off + sizeof(*udp);
	at->left -= off + sizeof(*udp);
	return true;
}

/* Copy the IP header. False if options or extension headers follow: then it is not ours. */
static bool read_ip(struct roe_frame_head *head, const void *ip)
{
	if (head->v6) {
		head->ip6 = *(const struct ipv6hdr *)ip;
		return head->ip6.nexthdr == IPPROTO_UDP;
	}
	head->ip4 = *(const struct iphdr *)ip;
	return head->ip4.ihl == 5 && head->ip4.protocol == IPPROTO_UDP;
}

/**
 * roe_segs_begin() - look at an skb
 * @segs: filled in, positioned before the first packet
 * @skb: UDP over IP, data at the network header, transport header set
 *
 * Checks the UDP length against that of the skb, which IP has trimmed to the IP
 * length. Refuses UDP length 0 as well, which on IPv6 would be a jumbogram.
 *
 * Return: false if it is nothing that could hold a packet of ours.
 */
bool roe_segs_begin(struct roe_segs *segs, const struct sk_buff *skb)
{
	const struct skb_shared_info *si = skb_shinfo(skb);
	struct udphdr *udp = &segs->head.udp;
	u32 off = skb_transport_offset(skb);

	if (skb_is_gso(skb) && !(si->gso_type & SKB_GSO_UDP_L4))
		return false;
	segs->skb = skb;
	segs->n = 0;
	segs->len = 0;
	segs->fixed_id = false;
	/*
	 * If the first packet does not end with the skb's own data, somebody has pulled more of
	 * it (generic XDP, BPF), and the members are no longer packets. It is a train then, if its
	 * packets are of one length.
	 */
	segs->list = skb_is_gso(skb) && (si->gso_type & SKB_GSO_FRAGLIST) && si->frag_list &&
		     skb_pagelen(skb) == off + sizeof(*udp) + si->gso_size;
	segs->head.v6 = skb->protocol == htons(ETH_P_IPV6);
	if (skb->len < off + sizeof(*udp) + ROE_PKT_MIN ||
	    !read_ip(&segs->head, skb_network_header(skb)))
		return false;

	start(&segs->at, skb, segs->list ? NULL : si->frag_list);
	if (!read_udp(&segs->at, off, udp) || ntohs(udp->len) != skb->len - off)
		return false;
	segs->id = ntohs(segs->head.ip4.id);
	segs->member = segs->list ? si->frag_list : NULL;
	segs->left = (segs->list ? skb_pagelen(skb) : skb->len) - off - sizeof(*udp);
	segs->size = skb_is_gso(skb) && !segs->list ? si->gso_size : segs->left;
	return segs->size >= ROE_PKT_MIN;
}

ROE_EXPORT_FOR_TEST(roe_segs_begin);

/*
 * A member of a list has its headers in front of its data, as they came. Its network_header
 * need not point to the IP header: if the NIC has left a VLAN tag in the data it points to
 * the tag, and only the head of the list goes through the code that skips that.
 */
static bool enter_member(struct roe_segs *segs)
{
	const struct sk_buff *skb = segs->member;
	u32 l4 = sizeof(struct udphdr) +
		 (segs->head.v6 ? sizeof(struct ipv6hdr) : sizeof(struct iphdr));

	if (!skb || skb_headroom(skb) < l4 || !read_ip(&segs->head, skb->data - l4))
		return false;
	segs->head.udp = *(const struct udphdr *)(skb->data - sizeof(struct udphdr));
	segs->id = ntohs(segs->head.ip4.id);
	segs->left = skb->len;
	segs->size = skb->len;
	segs->member = skb->next;
	start(&segs->at, skb, NULL);
	return true;
}

/* Copy BTH and extended headers of a packet in one piece. */
static void copy_header(struct roe_segs *segs)
{
	/* so few bytes that the compiler copies them in registers, if their number is constant */
	if (segs->len >= ROE_HDR_MAX)
		memcpy(segs->hdr, segs->raw, ROE_HDR_MAX);
	else
		memcpy(segs->hdr, segs->raw, segs->len);
}

/*
 * Most packets of a train are as long as the packet before them and follow it in one
 * piece: only their place and ID differ. False: roe_segs_next() takes the general way.
 */
static bool next_flat(struct roe_segs *segs)
{
	if (segs->list || segs->len != segs->size || segs->left < segs->size ||
	    segs->at.left < segs->size)
		return false;
	segs->n++;
	segs->left -= segs->size;
	if (!segs->fixed_id && !segs->head.v6)
		segs->head.ip4.id = htons(++segs->id);
	segs->flat = true;
	segs->raw = segs->at.p;
	segs->at.p += segs->size;
	segs->at.left -= segs->size;
	copy_header(segs);
	return true;
}

/**
 * roe_segs_next() - go on to the next packet
 * @segs: len, hdr, bth and head are those of the packet afterwards
 *
 * Return: false behind the last one.
 */
bool roe_segs_next(struct roe_segs *segs)
{
	struct roe_cursor at;

	if (next_flat(segs))
		return true;
	if (!segs->left && !enter_member(segs))
		return false;
	if (segs->n++ && !segs->list && !segs->fixed_id)
		segs->id++;
	segs->len = min(segs->size, segs->left);
	segs->left -= segs->len;
	roe_frame_head_set(&segs->head, segs->id, segs->len);

	segs->flat = refill(&segs->at) && segs->at.left >= segs->len;
	segs->bth = segs->at;
	if (segs->flat) {
		segs->raw = segs->at.p;
		segs->at.p += segs->len;
		segs->at.left -= segs->len;
		copy_header(segs);
		return true;
	}
	at = segs->at;
	if (!roe_cursor_read(&at, min_t(u32, segs->len, ROE_HDR_MAX), segs->hdr))
		return false;
	roe_cursor_take(&segs->at, segs->len, NULL, 0);
	return true;
}

ROE_EXPORT_FOR_TEST(roe_segs_next);

/**
 * roe_segs_fix_id() - set whether all packets of a train have the ID of the first one
 * @segs: at the second packet
 * @fixed: they have; false: their IDs count up
 *
 * GRO keeps the first ID only, and merges packets whose IDs count up as well as
 * packets with equal IDs (datapath.md 3.8).
 */
void roe_segs_fix_id(struct roe_segs *segs, bool fixed)
{
	if (segs->fixed_id == fixed)
		return;
	segs->fixed_id = fixed;
	segs->id += fixed ? -1 : 1;
	roe_frame_head_set(&segs->head, segs->id, segs->len);
}

ROE_EXPORT_FOR_TEST(roe_segs_fix_id);
