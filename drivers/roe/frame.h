/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Packets and skbs. A train is one skb that carries several packets of one
 * flow: SKB_GSO_UDP_L4, all of one size but for a shorter last one. Whoever
 * cuts it up gives packet i the IPv4 ID id0 + i and its own lengths
 * (datapath.md 2.3), so what the ICRC of each packet covers is known before.
 *
 * frame.c writes trains, segment.c reads whatever arrives as one skb.
 */
#ifndef ROE_FRAME_H
#define ROE_FRAME_H

#include <linux/ip.h>
#include <linux/ipv6.h>
#include <linux/skbuff.h>
#include <linux/udp.h>
#include <roe/pkt.h>

struct roe_path;

/* BTH and ICRC: the shortest packet. */
#define ROE_PKT_MIN	(sizeof(struct roe_bth) + ROE_ICRC_LEN)

/* IP and UDP header of one packet, final but for what the ICRC masks. */
struct roe_frame_head {
	union {
		struct iphdr	ip4;
		struct ipv6hdr	ip6;
	};
	struct udphdr	udp;
	bool		v6;
};

/* Set ID (IPv4) and lengths for a packet of @len bytes from BTH to ICRC. */
static inline void roe_frame_head_set(struct roe_frame_head *head, u16 id, u32 len)
{
	len += sizeof(struct udphdr);
	head->udp.len = htons(len);
	if (head->v6) {
		head->ip6.payload_len = htons(len);
	} else {
		head->ip4.id = htons(id);
		head->ip4.tot_len = htons(sizeof(struct iphdr) + len);
	}
}

/* What a train may hold on its route. */
struct roe_frame_limits {
	u32		bytes;		/* UDP payload */
	unsigned int	segs;		/* 1: no trains */
};

/* frame.c */
unsigned int roe_frame_fit(const struct roe_tx_pkt *pkt, unsigned int n,
			   const struct roe_frame_limits *limits);
struct sk_buff *roe_frame_build(struct roe_path *path, struct roe_tx_pkt *pkt,
				unsigned int n, u32 headroom, u32 home);

/* A place in the bytes of an skb: linear part, fragments, list, in this order. */
struct roe_cursor {
	const struct sk_buff	*skb;	/* whose bytes: the head's or a member's */
	const struct sk_buff	*list;	/* member that follows */
	int			frag;	/* fragment that follows */
	const u8		*p;
	u32			left;	/* bytes at @p */
};

/* The packets in one skb, in order; roe_segs_next() goes on to the next. */
struct roe_segs {
	const struct sk_buff	*skb;
	const struct sk_buff	*member;	/* list form: what follows */
	struct roe_cursor	at;		/* behind the current packet */
	u32			left;		/* bytes behind it; of a list: 0 */
	u32			size;		/* of a packet but the last; in a list: of this */
	u16			id;		/* IPv4 ID of the current packet */
	bool			list;
	bool			fixed_id;	/* all have the ID of the first one */
	unsigned int		n;		/* packets up to and with this one */
	/* the current packet */
	struct roe_frame_head	head;
	u32			len;		/* BTH to ICRC, bytes */
	bool			flat;		/* in one piece, at @raw */
	const u8		*raw;		/* not for headers: its bytes may still change */
	struct roe_cursor	bth;		/* if not flat: at its first byte */
	/* min(len, ROE_HDR_MAX) bytes: a copy, because the sender may still write to the skb */
	u8			hdr[ROE_HDR_MAX] __aligned(8);
};

/* segment.c */
bool roe_segs_begin(struct roe_segs *segs, const struct sk_buff *skb);
bool roe_segs_next(struct roe_segs *segs);
void roe_segs_fix_id(struct roe_segs *segs, bool fixed);
unsigned int roe_cursor_take(struct roe_cursor *at, u32 len, struct kvec *vec,
			     unsigned int max);
bool roe_cursor_read(struct roe_cursor *at, u32 len, void *buf);

#endif /* ROE_FRAME_H */
