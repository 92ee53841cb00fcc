// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Requests that came before their turn. Behind a gap the responder keeps what is
 * in sight, sends its NAK 0x60 as ever, and executes the kept requests strictly in
 * PSN order once the gap has closed: a loss costs the peer the packets that were
 * lost and not all that were in flight, and a network that changes the order costs
 * nothing at all. Nothing differs on the wire, so any peer may profit.
 *
 * What is kept is proven (ICRC), but not checked: wire.md 4.3 has its turn when
 * the packet has. Memory is bounded per QP and for all QPs together, as anyone who
 * gets packets to a QP may leave a gap; beyond the bounds a packet is lost, as it
 * always was.
 *
 * Slots are indexed by PSN, so whatever lies in the window has one of its own.
 */
#include <linux/atomic.h>
#include <linux/slab.h>
#include <linux/string.h>
#include "early.h"

#define SLOTS		512	/* packets ahead of the ePSN; a power of 2 */
#define HELD_MAX	(64l << 20)	/* bytes, of all QPs */

struct roe_early {
	u32			bytes;		/* of this, with the payload */
	struct roe_rx_pkt	rx;
	u8			data[];
};

static atomic_long_t held;

static struct roe_early **slot(struct roe_resp *resp, u32 psn)
{
	return &resp->early[psn & (SLOTS - 1)];
}

static void drop(struct roe_resp *resp, struct roe_early **at)
{
	roe_early_free(*at);
	*at = NULL;
	resp->early_nr--;
}

static struct roe_early *copy(const struct roe_rx_pkt *rx)
{
	u32 bytes = sizeof(struct roe_early) + rx->p.len, off = 0;
	struct roe_early *early;
	unsigned int i;

	if (atomic_long_add_return(bytes, &held) > HELD_MAX)
		goto none;
	early = kmalloc(bytes, GFP_ATOMIC | __GFP_NOWARN);
	if (!early)
		goto none;
	early->bytes = bytes;
	early->rx.p = rx->p;
	early->rx.l3 = NULL;
	early->rx.nvec = !!rx->p.len;
	early->rx.vec[0] = (struct kvec){ early->data, rx->p.len };
	for (i = 0; i < rx->nvec; i++) {
		memcpy(early->data + off, rx->vec[i].iov_base, rx->vec[i].iov_len);
		off += rx->vec[i].iov_len;
	}
	return early;
none:
	atomic_long_sub(bytes, &held);
	return NULL;
}

/**
 * roe_early_keep() - a request from behind a gap
 * @qp: RC; qp->lock held
 * @rx: proven packet, any opcode; its PSN is after the ePSN
 *
 * Without room or memory nothing happens: for the protocol that is loss.
 */
void roe_early_keep(struct roe_qp *qp, const struct roe_rx_pkt *rx)
{
	struct roe_resp *resp = &qp->resp;
	struct roe_early **at;

	if (roe_psn_diff(rx->p.psn, resp->psn) >= SLOTS || rx->p.len > qp->mtu)
		return;
	if (!resp->early)
		resp->early = kcalloc(SLOTS, sizeof(*resp->early), GFP_ATOMIC | __GFP_NOWARN);
	if (!resp->early)
		return;
	at = slot(resp, rx->p.psn);
	if (*at)
		return;
	*at = copy(rx);
	if (*at)
		resp->early_nr++;
}

ROE_EXPORT_FOR_TEST(roe_early_keep);

/**
 * roe_early_take() - the kept request whose turn it is
 * @resp: qp->lock held
 * @rx: where it is
 *
 * Return: to be given to roe_early_free(); NULL: the one at the ePSN is not there.
 */
struct roe_early *roe_early_take(struct roe_resp *resp, const struct roe_rx_pkt **rx)
{
	struct roe_early **at, *early;

	if (!resp->early_nr)
		return NULL;
	at = slot(resp, resp->psn);
	early = *at;
	if (!early)
		return NULL;
	*at = NULL;
	resp->early_nr--;
	*rx = &early->rx;
	return early;
}

ROE_EXPORT_FOR_TEST(roe_early_take);

void roe_early_free(struct roe_early *early)
{
	atomic_long_sub(early->bytes, &held);
	kfree(early);
}

ROE_EXPORT_FOR_TEST(roe_early_free);

/**
 * roe_early_skip() - the ePSN moves over PSNs that no request of the peer has
 * @resp: qp->lock held; ePSN not moved yet
 * @npsn: how far it moves
 *
 * The responses to a READ have them: a request kept there was nonsense, and would
 * be taken for one that is 2^23 packets ahead.
 */
void roe_early_skip(struct roe_resp *resp, u32 npsn)
{
	u32 i;

	for (i = 0; resp->early_nr && i < min_t(u32, npsn, SLOTS); i++) {
		struct roe_early **at = slot(resp, resp->psn + i);

		if (*at)
			drop(resp, at);
	}
}

ROE_EXPORT_FOR_TEST(roe_early_skip);

/**
 * roe_early_purge() - forget all of them
 * @resp: qp->lock held; on the way to RTR, RESET and ERR
 */
void roe_early_purge(struct roe_resp *resp)
{
	roe_early_skip(resp, SLOTS);
}

ROE_EXPORT_FOR_TEST(roe_early_purge);

/**
 * roe_early_exit() - forget all of them and the room for them
 * @resp: of a QP that nobody uses any more
 */
void roe_early_exit(struct roe_resp *resp)
{
	roe_early_purge(resp);
	kfree(resp->early);
	resp->early = NULL;
}

ROE_EXPORT_FOR_TEST(roe_early_exit);
