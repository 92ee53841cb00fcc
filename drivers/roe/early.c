// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Packets that came before their turn. Behind a gap the responder keeps the requests that are
 * in sight, sends its NAK 0x60 as ever, and executes the kept requests strictly in PSN order
 * once the gap has closed: a loss costs the peer the packets that were lost and not all that
 * were in flight, and a network that changes the order costs nothing at all. Nothing differs on
 * the wire, so any peer may profit. The requester likewise keeps responses where the network
 * changes their order (reorder.c).
 *
 * A kept packet is proven (ICRC), but not checked: the checks of wire.md 4.3 follow when its
 * turn has come. Memory is bounded per QP and for all QPs together, because anyone who gets
 * packets to a QP may leave a gap; beyond the bounds a packet is lost.
 *
 * Slots are indexed by PSN, so each PSN closer than the number of slots has a slot of its own.
 * There are ROE_EARLY_SLOTS, and more when a packet comes from further ahead: on a long way
 * that has thousands of packets in flight and changes their order, packets that took one
 * processor may be that far behind those that took another.
 */
#include <linux/atomic.h>
#include <linux/log2.h>
#include <linux/sizes.h>
#include <linux/slab.h>
#include <linux/string.h>
#include "early.h"

#define HELD_MAX	(64l << 20)	/* bytes, of all QPs */
#define FAR_MAX		(HELD_MAX / 2)	/* ... up to which packets further ahead are kept, too */
#define FAR_BYTES	SZ_4M		/* of one QP, that may have their turn at once */

struct roe_early {
	u32			bytes;		/* of this struct and the payload */
	struct roe_rx_pkt	rx;
	u8			data[];
};

static atomic_long_t held;

static struct roe_early **slot(const struct roe_early_set *set, u32 psn)
{
	return &set->slots[psn & (set->size - 1)];
}

static struct roe_early *copy(const struct roe_rx_pkt *rx, long most)
{
	/* count what the allocation takes, not what it needs: up to half as much again */
	u32 bytes = kmalloc_size_roundup(sizeof(struct roe_early) + rx->p.len), off = 0;
	struct roe_early *early;
	unsigned int i;

	if (atomic_long_add_return(bytes, &held) > most)
		goto none;
	early = kmalloc(bytes, GFP_ATOMIC | __GFP_NOWARN);
	if (!early)
		goto none;
	early->bytes = bytes;
	early->rx.p = rx->p;
	early->rx.l3 = NULL;
	early->rx.ce = false;
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

static long bytes_of(u32 slots)
{
	return slots * sizeof(struct roe_early *);
}

/* The peer decides which QPs have slots, so a QP without a kept packet has none. */
static void give_slots(struct roe_early_set *set)
{
	kfree(set->slots);
	atomic_long_sub(bytes_of(set->size), &held);
	set->slots = NULL;
	set->size = 0;
}

/* Change to so many slots; the kept packets move there. */
static bool take_slots(struct roe_early_set *set, u32 size, long most)
{
	struct roe_early_set more = { .size = size, .nr = set->nr, .first = set->first };
	u32 i;

	if (atomic_long_add_return(bytes_of(size), &held) <= most)
		more.slots = kzalloc(bytes_of(size), GFP_ATOMIC | __GFP_NOWARN);
	if (!more.slots) {
		atomic_long_sub(bytes_of(size), &held);
		return false;
	}
	for (i = 0; i < set->size; i++) {
		if (set->slots[i])
			*slot(&more, set->slots[i]->rx.p.psn) = set->slots[i];
	}
	give_slots(set);
	*set = more;
	return true;
}

/**
 * roe_early_keep() - keep a packet from behind a gap
 * @set: qp->lock of its QP held
 * @next: PSN whose turn it is
 * @rx: proven packet, any opcode; its PSN is @next or after it
 * @mtu: most bytes of payload
 *
 * Without room or memory nothing is kept: for the protocol that is loss.
 *
 * Return: true if a packet with this PSN is kept now.
 */
bool roe_early_keep(struct roe_early_set *set, u32 next, const struct roe_rx_pkt *rx, u32 mtu)
{
	u32 ahead = roe_psn_diff(rx->p.psn, next);
	long most = ahead < ROE_EARLY_SLOTS ? HELD_MAX : FAR_MAX;
	struct roe_early **at;

	if (ahead >= clamp_t(u32, FAR_BYTES / mtu, ROE_EARLY_SLOTS, ROE_EARLY_MAX) ||
	    rx->p.len > mtu)
		return false;
	if (ahead >= set->size &&
	    !take_slots(set, max_t(u32, roundup_pow_of_two(ahead + 1), ROE_EARLY_SLOTS), most))
		return false;
	at = slot(set, rx->p.psn);
	if (*at) {
		/* a kept ACK gives way to a response with the same PSN, which has data */
		if ((*at)->rx.p.opcode != ROE_OP_ACK || rx->p.opcode == ROE_OP_ACK)
			return true;
		roe_early_free(*at);
		*at = NULL;
		set->nr--;
	}
	*at = copy(rx, most);
	if (!*at) {
		if (!set->nr)
			give_slots(set);
		return false;
	}
	if (!set->nr || roe_psn_diff(rx->p.psn, set->first) < 0)
		set->first = rx->p.psn;
	set->nr++;
	return true;
}

/**
 * roe_early_take() - take the kept packet whose turn it is
 * @set: qp->lock held
 * @psn: whose turn it is
 * @rx: set to the packet
 *
 * Return: to be given to roe_early_free(); NULL: no such packet is kept.
 */
struct roe_early *roe_early_take(struct roe_early_set *set, u32 psn,
				 const struct roe_rx_pkt **rx)
{
	struct roe_early **at, *early;

	if (!set->nr)
		return NULL;
	at = slot(set, psn);
	early = *at;
	if (!early)
		return NULL;
	*at = NULL;
	set->nr--;
	*rx = &early->rx;
	return early;
}

/**
 * roe_early_take_first() - take the first of the kept packets
 * @set: qp->lock held; it has no packet from before @next
 * @next: PSN from which to search
 * @rx: set to the packet
 *
 * Return: as roe_early_take(); may also be given to roe_early_put_back().
 */
struct roe_early *roe_early_take_first(struct roe_early_set *set, u32 next,
				       const struct roe_rx_pkt **rx)
{
	struct roe_early *early = NULL;
	u32 i;

	if (roe_psn_diff(set->first, next) < 0)
		set->first = next;
	for (i = 0; set->nr && i < set->size; i++) {
		early = roe_early_take(set, set->first, rx);
		if (early)
			break;
		set->first = roe_psn_add(set->first, 1);
	}
	return early;
}

/**
 * roe_early_free() - free a packet that was kept
 * @early: taken
 */
void roe_early_free(struct roe_early *early)
{
	atomic_long_sub(early->bytes, &held);
	kfree(early);
}

/**
 * roe_early_put_back() - keep a taken packet again, because its turn has not come
 * @set: from which it was taken; nothing was kept since
 * @early: taken; freed if all others were forgotten meanwhile
 */
void roe_early_put_back(struct roe_early_set *set, struct roe_early *early)
{
	if (!set->slots) {
		roe_early_free(early);
		return;
	}
	*slot(set, early->rx.p.psn) = early;
	set->nr++;
}

/**
 * roe_early_skip() - the turn of some PSNs is over
 * @set: qp->lock held
 * @psn: first of them
 * @npsn: how many
 *
 * What is kept for them is of no use, and would later be taken for the packet of another PSN
 * that has the same slot. It is a request that the peer cannot have sent, because its PSN is
 * that of a READ response, or a response to a request that was acknowledged otherwise.
 */
void roe_early_skip(struct roe_early_set *set, u32 psn, u32 npsn)
{
	const struct roe_rx_pkt *rx;
	struct roe_early *early;
	u32 i;

	for (i = 0; set->nr && i < min(npsn, set->size); i++) {
		early = roe_early_take(set, psn + i, &rx);
		if (early)
			roe_early_free(early);
	}
	if (!set->nr && set->slots)
		give_slots(set);
}

/**
 * roe_early_purge() - forget all kept packets
 * @set: qp->lock held
 */
void roe_early_purge(struct roe_early_set *set)
{
	roe_early_skip(set, 0, ROE_EARLY_MAX);
}

ROE_EXPORT_FOR_TEST(roe_early_purge);

/**
 * roe_early_exit() - forget all kept packets
 * @set: of a QP that nobody uses any more
 */
void roe_early_exit(struct roe_early_set *set)
{
	roe_early_purge(set);
}

ROE_EXPORT_FOR_TEST(roe_early_exit);
