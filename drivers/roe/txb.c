// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Memory of a burst of packets to send: bytes are carved out of large chunks in
 * order, so that packets which follow each other are one page fragment; or, for a netdev that
 * takes an skb in one piece only, with room for an skb around each.
 *
 * Chunks are used again once all skbs with their bytes are gone, that is, when
 * the reference of the burst is the only one left: a fresh page would be zeroed
 * first (datapath.md section 7). Their number grows with what is in flight.
 */
#include <linux/gfp.h>
#include <linux/mm.h>
#include <linux/skbuff.h>
#include <linux/string.h>
#include <roe/opcode.h>
#include <roe/pkt.h>
#include <roe/psn.h>

/* Two skbs of two bursts do not share a cache line. */
#define BURST_ALIGN	SMP_CACHE_BYTES
/* Chunks looked at before a new one is allocated. */
#define LOOK_AHEAD	4u

/* No skb holds bytes of the chunk any more, and this burst has not used it. */
static bool unused(const struct roe_txb *txb, const struct roe_txb_chunk *chunk)
{
	return chunk->burst != txb->burst && page_ref_count(chunk->page) == 1;
}

/* If memory is fragmented the chunk is smaller, but it holds at least @bytes, one packet. */
static bool fill_chunk(struct roe_txb_chunk *chunk, u32 bytes)
{
	int order = max(ROE_TXB_ORDER, get_order(bytes));
	struct page *page;

	do {
		page = alloc_pages(GFP_ATOMIC | __GFP_NOWARN | __GFP_COMP |
				   __GFP_NOMEMALLOC, order);
	} while (!page && --order >= get_order(bytes));
	if (!page)
		return false;
	if (chunk->page)
		put_page(chunk->page);
	chunk->page = page;
	chunk->size = PAGE_SIZE << order;
	return true;
}

/*
 * The chunk after the current one has been out of use the longest. It may be held by an
 * skb that stays somewhere for long, so a few more are looked at.
 */
static bool find_unused(const struct roe_txb *txb, u32 bytes, unsigned int *found)
{
	unsigned int i, at = txb->cur;

	for (i = 0; i < min(txb->nr_chunks, LOOK_AHEAD); i++) {
		at = at + 1 < txb->nr_chunks ? at + 1 : 0;
		if (unused(txb, &txb->chunk[at]) && txb->chunk[at].size >= bytes) {
			*found = at;
			return true;
		}
	}
	return false;
}

/* If all that were looked at are in use, add a chunk; at the limit replace the oldest one. */
static bool next_chunk(struct roe_txb *txb, u32 bytes)
{
	unsigned int next = txb->cur + 1 < txb->nr_chunks ? txb->cur + 1 : 0;

	if (!find_unused(txb, bytes, &next)) {
		if (txb->nr_chunks < ROE_TXB_CHUNKS)
			next = txb->nr_chunks;
		else if (txb->chunk[next].burst == txb->burst)
			return false;
		if (!fill_chunk(&txb->chunk[next], bytes))
			return false;
		if (next == txb->nr_chunks)
			txb->nr_chunks++;
	}
	txb->cur = next;
	txb->off = 0;
	return true;
}

/**
 * roe_txb_space() - what a packet takes of a chunk
 * @bytes: BTH to ICRC
 * @apart: with ROE_TXB_FRONT in front of it, and behind it what build_skb() needs
 *
 * Return: bytes; if @apart whole cache lines, as for all packets of its burst.
 */
u32 roe_txb_space(u32 bytes, bool apart)
{
	if (!apart)
		return bytes;
	return SKB_DATA_ALIGN(ROE_TXB_FRONT + bytes) +
	       SKB_DATA_ALIGN(sizeof(struct skb_shared_info));
}

ROE_EXPORT_FOR_TEST(roe_txb_space);

/* Where the next packet begins in the current chunk. */
static u8 *place(const struct roe_txb *txb)
{
	u32 front = txb->apart ? ROE_TXB_FRONT : 0;

	return page_address(txb->chunk[txb->cur].page) + txb->off + front;
}

static bool fits(const struct roe_txb *txb, u32 bytes)
{
	return txb->nr_chunks && txb->off + bytes <= txb->chunk[txb->cur].size;
}

/* Field by field, which is a few stores; clearing the struct at once would be a loop. */
static void clear(struct roe_rx_pkt *rx)
{
	struct roe_pkt *p = &rx->p;

	/* a new field has to be cleared here as well */
	BUILD_BUG_ON(sizeof(*p) != 80);
	p->se = false;
	p->ackreq = false;
	p->syndrome = 0;
	p->pkey = 0;
	p->qpn = 0;
	p->psn = 0;
	p->msn = 0;
	p->rkey = 0;
	p->dmalen = 0;
	p->va = 0;
	p->swap_add = 0;
	p->compare = 0;
	p->imm = 0;
	p->qkey = 0;
	p->sqp = 0;
	p->feth = 0;
	rx->l3 = NULL;
	rx->ce = false;
	/* nobody reads vec as long as this is 0 */
	rx->nvec = 0;
}

/**
 * roe_txb_add() - append a packet
 * @txb: burst, all zero at first
 * @opcode: BTH opcode
 * @len: payload, pad not counted, bytes
 *
 * The caller fills roe_tx_payload() and the fields of @p; headers, pad and ICRC
 * are the business of roe_xmit_build().
 *
 * Return: the packet with @p zero but for opcode and length, or NULL if there
 * is no room or no memory.
 */
struct roe_tx_pkt *roe_txb_add(struct roe_txb *txb, u8 opcode, u32 len)
{
	const struct roe_opcode_info *info = roe_opcode(opcode);
	struct roe_tx_pkt *pkt;
	u32 bytes, space;

	if (!roe_txb_room(txb) || !info->hdrlen)
		return NULL;

	pkt = &txb->pkt[txb->n];
	clear(&pkt->rx);
	pkt->again = false;
	pkt->apart = txb->apart;
	pkt->p.opcode = opcode;
	pkt->p.len = len;
	pkt->hdrlen = info->hdrlen;
	pkt->pad = roe_pkt_pad(len);

	bytes = roe_tx_bytes(pkt);
	space = roe_txb_space(bytes, txb->apart);
	if (!fits(txb, space) && !next_chunk(txb, space))
		return NULL;

	txb->chunk[txb->cur].burst = txb->burst;
	pkt->page = txb->chunk[txb->cur].page;
	pkt->buf = place(txb);
	txb->off += space;
	txb->bytes += bytes;
	txb->n++;
	return pkt;
}

ROE_EXPORT_FOR_TEST(roe_txb_add);

/**
 * roe_txb_plan() - how many packets without extended headers can be added in a row?
 * @txb: burst
 * @len: payload of each, a multiple of 4, bytes
 * @max: more are not wanted
 *
 * Return: how many have room one after the other in a chunk, which is now the current one;
 * 0: no room or no memory.
 */
unsigned int roe_txb_plan(struct roe_txb *txb, u32 len, unsigned int max)
{
	u32 bytes = sizeof(struct roe_bth) + len + ROE_ICRC_LEN;
	u32 space = roe_txb_space(bytes, txb->apart);

	if (!roe_txb_room(txb))
		return 0;
	max = min(max, ROE_TXB_PKTS - txb->n);
	/* rounded up: as long as the limit is not reached there is room for one more packet */
	max = min(max, DIV_ROUND_UP(ROE_TXB_BYTES - txb->bytes, bytes));
	if (!fits(txb, space) && !next_chunk(txb, space))
		return 0;
	if (txb->direct)
		return max;
	return min(max, (txb->chunk[txb->cur].size - txb->off) / space);
}

ROE_EXPORT_FOR_TEST(roe_txb_plan);

/**
 * roe_txb_add_row() - append packets that are alike
 * @txb: burst
 * @model: the first packet, of the planned length; PSNs count up from one to the next
 * @n: not more than were planned; the pieces of their payload are filled in already,
 *     and in a direct burst the payload stays there
 */
void roe_txb_add_row(struct roe_txb *txb, const struct roe_pkt *model, unsigned int n)
{
	struct roe_txb_chunk *chunk = &txb->chunk[txb->cur];
	u32 bytes = sizeof(struct roe_bth) + model->len + ROE_ICRC_LEN;
	u32 step = txb->direct ? 0 : roe_txb_space(bytes, txb->apart);
	struct roe_tx_pkt *pkt = &txb->pkt[txb->n];
	u8 *buf = place(txb);
	unsigned int i;

	for (i = 0; i < n; i++, pkt++, buf += step) {
		pkt->p = *model;
		pkt->p.psn = roe_psn_add(model->psn, i);
		pkt->rx.l3 = NULL;
		pkt->rx.ce = false;
		pkt->page = chunk->page;
		pkt->buf = buf;
		pkt->hdrlen = sizeof(struct roe_bth);
		pkt->pad = 0;
		pkt->again = false;
		pkt->apart = txb->apart;
	}
	chunk->burst = txb->burst;
	txb->off += n * step;
	txb->bytes += n * bytes;
	txb->n += n;
}

ROE_EXPORT_FOR_TEST(roe_txb_add_row);

/**
 * roe_txb_cancel() - take the last packet back
 * @txb: burst with at least one packet, which nobody has sent
 */
void roe_txb_cancel(struct roe_txb *txb)
{
	u32 bytes = roe_tx_bytes(&txb->pkt[--txb->n]);

	/* The last packet always lies at the end of the current chunk. */
	txb->off -= roe_txb_space(bytes, txb->apart);
	txb->bytes -= bytes;
}

ROE_EXPORT_FOR_TEST(roe_txb_cancel);

/**
 * roe_txb_in_place() - the last packet needs no memory of the burst
 * @txb: direct burst; the pieces of the packet's payload lie where it is sent from
 */
void roe_txb_in_place(struct roe_txb *txb)
{
	txb->off -= roe_tx_bytes(&txb->pkt[txb->n - 1]);
}

/**
 * roe_txb_reset() - forget all packets, keep the memory
 * @txb: burst; skbs with bytes of it have page references of their own
 */
void roe_txb_reset(struct roe_txb *txb)
{
	txb->n = 0;
	txb->bytes = 0;
	txb->burst++;
	txb->off = ALIGN(txb->off, BURST_ALIGN);
}

ROE_EXPORT_FOR_TEST(roe_txb_reset);

/**
 * roe_refused_add() - count packets that did not leave
 * @refused: all zero at first
 * @pkt: the packets, in the order of the burst
 * @n: number of packets
 */
void roe_refused_add(struct roe_refused *refused, const struct roe_tx_pkt *pkt, unsigned int n)
{
	for (; n; n--, pkt++) {
		u32 flags = roe_opcode(pkt->p.opcode)->flags;

		if (flags & ROE_F_REQUEST) {
			if (!refused->requests++)
				refused->request = pkt->p.psn;
		} else if (pkt->p.opcode == ROE_OP_ACK) {
			refused->acks++;
		} else if (flags & ROE_F_RESPONSE) {
			if (!refused->responses++)
				refused->response = pkt->p.psn;
		}
	}
}

ROE_EXPORT_FOR_TEST(roe_refused_add);

/**
 * roe_txb_free() - forget all packets and give the memory back
 * @txb: burst; may be used again afterwards
 */
void roe_txb_free(struct roe_txb *txb)
{
	roe_txb_reset(txb);
	while (txb->nr_chunks) {
		struct roe_txb_chunk *chunk = &txb->chunk[--txb->nr_chunks];

		put_page(chunk->page);
		chunk->page = NULL;
	}
	txb->cur = 0;
	txb->off = 0;
}

ROE_EXPORT_FOR_TEST(roe_txb_free);
