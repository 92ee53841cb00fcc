/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The packet as the protocol sees it: a plain struct, no skb, no socket.
 *
 * Transmit: requester and responder append packet descriptors to a roe_txb, whose arena has
 * room for [BTH + extended headers][payload][pad][ICRC] of each packet. The protocol copies the
 * payload into the arena or, if it is in memory that stays, only notes where it is; the network
 * side then copies it while it computes the ICRC. The network side writes headers in front and
 * the ICRC behind, and sends the bytes as page fragments; packets that follow each other in one
 * chunk share a fragment.
 *
 * Receive: the network side proves a packet once (lengths, pad, ICRC) and hands out a roe_pkt;
 * all later code relies on what it says.
 */
#ifndef ROE_PKT_H
#define ROE_PKT_H

#include <linux/mm_types.h>
#include <linux/sizes.h>
#include <linux/types.h>
#include <linux/uio.h>
#include <asm/byteorder.h>
#include <asm/page.h>
#include <roe/wire.h>

struct roe_ah_entry;

/* Pieces of memory one received payload may lie in before it is linearised. */
#define ROE_PKT_VECS	4

struct roe_pkt {
	u8	opcode;
	bool	se;		/* BTH solicited event */
	bool	ackreq;		/* BTH AckReq */
	u8	syndrome;	/* AETH */
	u16	pkey;
	u32	qpn;		/* BTH DestQP */
	u32	psn;
	u32	msn;		/* AETH */
	u32	rkey;		/* RETH, AtomicETH, IETH */
	u32	dmalen;		/* RETH, bytes */
	u64	va;		/* RETH, AtomicETH */
	u64	swap_add;	/* AtomicETH */
	u64	compare;	/* AtomicETH; AtomicAckETH: original value */
	__be32	imm;		/* ImmDt */
	u32	qkey;		/* DETH */
	u32	sqp;		/* DETH */
	u32	feth;		/* FETH */
	u32	len;		/* payload bytes, pad not counted */
};

/*
 * What UD tells its consumer about how a packet came: the source of the 40 bytes in front of
 * the message, and more for kernel users. Valid as long as the packet.
 */
struct roe_rx_l3 {
	const void	*ip;		/* struct iphdr or struct ipv6hdr */
	bool		v6;
	u16		vlan_id;	/* 0xffff: none */
	const u8	*smac;		/* NULL: not known */
};

/* A received packet; the pieces stay valid until the handler returns. */
struct roe_rx_pkt {
	struct roe_pkt	p;
	const struct roe_rx_l3 *l3;	/* UD */
	bool		ce;		/* marked on its way: congestion experienced */
	u8		nvec;
	struct kvec	vec[ROE_PKT_VECS];
};

/*
 * Received packets in order: packets of a batch, or descriptors of a direct burst. Each
 * roe_rx_pkt may be part of a larger struct, hence @stride.
 */
struct roe_rx_row {
	const struct roe_rx_pkt	*first;
	size_t			stride;		/* bytes from one to the next */
	unsigned int		n;
};

static inline const struct roe_rx_pkt *roe_rx_at(const struct roe_rx_row *row, unsigned int i)
{
	return (const void *)row->first + i * row->stride;
}

/*
 * A packet to send. @buf is where the BTH will be, in a chunk of the burst. The payload is at
 * roe_tx_payload() already, or still in the memory that is sent, in @rx.nvec pieces. The pieces
 * are valid until the RCU read-side section ends; those of an MR that is lent to the burst, as
 * long as the burst holds the MR. A packet of a direct burst is also what the other QP
 * receives, so there the pieces always say where the payload is.
 */
struct roe_tx_pkt {
	union {
		struct roe_pkt		p;
		struct roe_rx_pkt	rx;
	};
	struct page	*page;
	u8		*buf;
	u8		hdrlen;		/* BTH and extended headers, bytes */
	u8		pad;		/* 0 to 3 */
	bool		again;		/* sent before, or a CNP: leaves as a packet of its own */
	bool		apart;		/* there is room for an skb around it */
};

#define ROE_TXB_PKTS	64		/* the backlog takes no more at once (datapath.md 4.2) */
#define ROE_TXB_BYTES	(256 * 1024)
#define ROE_TXB_ORDER	get_order(SZ_32K)	/* arena chunks of 32 KB, or a page */
#define ROE_TXB_CHUNKS	64		/* kept for use again: 2 MB */
#define ROE_TXB_FRONT	128		/* bytes for all other headers, if packets are apart */

/* Memory of a burst; the burst holds one reference to the page. */
struct roe_txb_chunk {
	struct page	*page;
	u32		size;		/* bytes */
	u32		burst;		/* roe_txb.burst when it was last written to */
};

/* Most revocable MRs that lend payload to one burst. */
#define ROE_TXB_MRS	4

/*
 * One burst of packets of one QP. Owned by whoever runs the QP: never shared,
 * never kept across bursts.
 */
struct roe_txb {
	bool			direct;	/* to a QP of this device, without a network */
	bool			fresh;	/* direct: no answer to anything older is due */
	bool			later;	/* payload is copied with its CRC, not before */
	bool			apart;	/* packets do not touch: an skb is built around each */
	bool			invalidates;	/* a SEND with invalidate is in it */
	bool			copies;		/* of packets in flight: roe_requester_ask() */
	unsigned int		n;
	u32			bytes;
	u32			home;		/* CPU whose transmit queue it takes, + 1 */
	unsigned int		nr_mrs;		/* MRs that lend payload: roe_mr_lend() */
	struct roe_mr		*mr[ROE_TXB_MRS];
	u32			mr_use[ROE_TXB_MRS];
	struct roe_ah_entry	*ah;		/* UD: destination of all packets; a reference */
	u32			burst;		/* counts bursts */
	u32			off;		/* first free byte of the current chunk */
	unsigned int		cur;		/* current chunk, if there are any */
	unsigned int		nr_chunks;
	struct roe_txb_chunk	chunk[ROE_TXB_CHUNKS];
	struct roe_tx_pkt	pkt[ROE_TXB_PKTS];
};

/*
 * Packets of a burst that did not leave: IP or a qdisc refused them, or there was no route.
 * Requests and responses have PSNs of their own. The PSN of an ACK or NAK may be one that a
 * READ response had 2^24 packets ago, so these are counted apart.
 */
struct roe_refused {
	unsigned int	requests, responses, acks;
	bool		answered;		/* some responses or ACKs of the burst left */
	u32		request, response;	/* PSN of the first of them, if there are any */
};

/* Is there room for one more packet of up to one MTU? */
static inline bool roe_txb_room(const struct roe_txb *txb)
{
	return txb->n < ROE_TXB_PKTS && txb->bytes < ROE_TXB_BYTES;
}

/* May the payload stay where it is, and be read after its packet is made? */
static inline bool roe_txb_lends(const struct roe_txb *txb)
{
	return txb->direct || txb->later;
}

/* BTH to ICRC, bytes. */
static inline u32 roe_tx_bytes(const struct roe_tx_pkt *pkt)
{
	return pkt->hdrlen + pkt->p.len + pkt->pad + ROE_ICRC_LEN;
}

/* Where the payload of a packet to send goes. */
static inline u8 *roe_tx_payload(const struct roe_tx_pkt *pkt)
{
	return pkt->buf + pkt->hdrlen;
}

/* The last word of a BTH. */
static inline __be32 roe_header_apsn(const struct roe_pkt *pkt)
{
	return cpu_to_be32((pkt->psn & ROE_PSN_MASK) | (pkt->ackreq ? ROE_BTH_ACKREQ : 0));
}

/* header.c: pure functions between struct roe_pkt and the bytes on the wire. */
unsigned int roe_header_build(const struct roe_pkt *pkt, u8 *buf);
unsigned int roe_header_build_extended(const struct roe_pkt *pkt, u8 *buf);
int roe_header_parse(const u8 *buf, u32 len, struct roe_pkt *pkt);
void roe_header_parse_extended(const u8 *buf, struct roe_pkt *pkt);

/**
 * roe_header_repeat() - roe_header_build() for a packet like the one before it
 * @pkt: has the opcode, length, SE, P_Key and QPN of the previous packet
 * @hdrlen: bytes of BTH and extended headers with this opcode
 * @prev: headers of the previous packet
 * @buf: as for roe_header_build()
 */
static inline void roe_header_repeat(const struct roe_pkt *pkt, u32 hdrlen, const u8 *prev, u8 *buf)
{
	struct roe_bth *bth = (struct roe_bth *)buf;

	memcpy(bth, prev, offsetof(struct roe_bth, apsn));
	bth->apsn = roe_header_apsn(pkt);
	if (hdrlen != sizeof(*bth))
		roe_header_build_extended(pkt, buf);
}

/**
 * roe_header_parse_like() - roe_header_parse() for a packet like the one before it
 * @buf: as for roe_header_parse(); the packet has the length of the previous one, and the same
 *	BTH in front of AckReq and PSN
 * @hdrlen: result of roe_header_parse() for the previous packet
 * @prev: what the previous packet says
 * @pkt: as for roe_header_parse()
 */
static inline void roe_header_parse_like(const u8 *buf, u32 hdrlen, const struct roe_pkt *prev,
					 struct roe_pkt *pkt)
{
	u32 apsn = be32_to_cpu(((const struct roe_bth *)buf)->apsn);

	*pkt = *prev;
	pkt->ackreq = apsn & ROE_BTH_ACKREQ;
	pkt->psn = apsn & ROE_PSN_MASK;
	if (hdrlen != sizeof(struct roe_bth))
		roe_header_parse_extended(buf, pkt);
}

/* Bytes that fill the payload up to a multiple of 4. */
static inline u8 roe_pkt_pad(u32 len)
{
	return -len & 3;
}

/* txb.c: under the QP lock, softirqs disabled; nothing sleeps. */
struct roe_tx_pkt *roe_txb_add(struct roe_txb *txb, u8 opcode, u32 len);
unsigned int roe_txb_plan(struct roe_txb *txb, u32 len, unsigned int max);
u32 roe_txb_space(u32 bytes, bool apart);
void roe_txb_add_row(struct roe_txb *txb, const struct roe_pkt *model, unsigned int n);
void roe_txb_cancel(struct roe_txb *txb);
void roe_txb_in_place(struct roe_txb *txb);
void roe_txb_reset(struct roe_txb *txb);
void roe_refused_add(struct roe_refused *refused, const struct roe_tx_pkt *pkt, unsigned int n);
void roe_txb_free(struct roe_txb *txb);

#endif /* ROE_PKT_H */
