// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Memory of a burst of packets to send: bytes are carved out of large chunks in
 * order and never written again once a packet was handed on, so chunks outlive
 * bursts and skbs hold plain page references.
 */
#include <linux/gfp.h>
#include <linux/mm.h>
#include <linux/string.h>
#include <roe/opcode.h>
#include <roe/pkt.h>

static u32 tx_bytes(const struct roe_tx_pkt *pkt)
{
	return pkt->hdrlen + pkt->p.len + pkt->pad + ROE_ICRC_LEN;
}

/* A fragmented machine still gets a chunk that holds this one packet. */
static bool new_chunk(struct roe_txb *txb, u32 bytes)
{
	int order = max(ROE_TXB_ORDER, get_order(bytes));
	struct page *page;

	do {
		page = alloc_pages(GFP_ATOMIC | __GFP_NOWARN | __GFP_COMP |
				   __GFP_NOMEMALLOC, order);
	} while (!page && --order >= get_order(bytes));
	if (!page)
		return false;

	if (txb->page)
		put_page(txb->page);
	txb->page = page;
	txb->off = 0;
	txb->size = PAGE_SIZE << order;
	return true;
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
	u32 bytes;

	if (!roe_txb_room(txb) || !info->hdrlen)
		return NULL;

	pkt = &txb->pkt[txb->n];
	memset(pkt, 0, sizeof(*pkt));
	pkt->p.opcode = opcode;
	pkt->p.len = len;
	pkt->hdrlen = info->hdrlen;
	pkt->pad = roe_pkt_pad(len);

	bytes = tx_bytes(pkt);
	if (txb->size - txb->off < bytes && !new_chunk(txb, bytes))
		return NULL;

	pkt->page = txb->page;
	pkt->buf = page_address(txb->page) + txb->off;
	get_page(pkt->page);
	txb->off += bytes;
	txb->bytes += bytes;
	txb->n++;
	return pkt;
}

ROE_EXPORT_FOR_TEST(roe_txb_add);

/**
 * roe_txb_cancel() - take the last packet back
 * @txb: burst with at least one packet, which nobody has sent
 */
void roe_txb_cancel(struct roe_txb *txb)
{
	struct roe_tx_pkt *pkt = &txb->pkt[--txb->n];
	u32 bytes = tx_bytes(pkt);

	/* The last packet always lies at the end of the current chunk. */
	txb->off -= bytes;
	txb->bytes -= bytes;
	put_page(pkt->page);
}

ROE_EXPORT_FOR_TEST(roe_txb_cancel);

/**
 * roe_txb_reset() - forget all packets, keep the current chunk
 * @txb: burst; packets whose page is NULL were handed on
 */
void roe_txb_reset(struct roe_txb *txb)
{
	while (txb->n) {
		struct roe_tx_pkt *pkt = &txb->pkt[--txb->n];

		if (pkt->page)
			put_page(pkt->page);
	}
	txb->bytes = 0;
}

ROE_EXPORT_FOR_TEST(roe_txb_reset);

/**
 * roe_txb_free() - forget all packets and give the memory back
 * @txb: burst; may be used again afterwards
 */
void roe_txb_free(struct roe_txb *txb)
{
	roe_txb_reset(txb);
	if (txb->page)
		put_page(txb->page);
	txb->page = NULL;
	txb->off = 0;
	txb->size = 0;
}

ROE_EXPORT_FOR_TEST(roe_txb_free);
