// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Packets that were sent but have not left this host. UC and UD have no window, and their WQEs
 * are done when their packets are built: without a limit a QP would send as fast as its CPU
 * can, and the queue of a slower netdev would drop the excess. So the bytes of a QP's skbs are
 * counted until the skbs are freed or received on this host, and the QP waits while there are
 * many. RC has its window, and sends lost packets again.
 *
 * The kernel counts, as it does for every UDP socket: the skbs belong to a socket that does
 * nothing else, and sock_wfree() subtracts an skb that is freed. A destructor in this module
 * might be called after the module has gone, as long as an skb stays in a queue, and would be
 * called too early for trains: when software GSO cuts up an skb, the segments inherit its owner
 * only if its destructor is sock_wfree(). For the first reason no callback tells when there is
 * room: the timer checks. The last skb frees a socket that was released before it, so nobody
 * waits for the skbs.
 */
#include <linux/net.h>
#include <linux/sizes.h>
#include <linux/skbuff.h>
#include <net/net_namespace.h>
#include <net/sock.h>
#include "transport.h"
#include "unsent.h"

/* Bytes that ARP and ND queue for a neighbour that has not answered yet; more drops the oldest. */
#define NEIGH_MAX	(256 * SKB_TRUESIZE(256))

/* Limit of bytes waiting on this host, as truesize; may be exceeded by one packet. */
#define UNSENT_MAX	(SZ_128K + SZ_64K)
static_assert(UNSENT_MAX + SZ_8K <= NEIGH_MAX);

/* From here on no burst begins: it would be cut to a packet or two, which make no train. */
#define UNSENT_FULL	SZ_128K

/*
 * An skb counts for this much at least, because some queues count skbs: fq (100 per flow), sfq,
 * the ring of a veth. So at most 64 skbs wait, as rdma_rxe allows. A train is one skb, unless
 * software cuts it up before the queue: then each packet counts by its own size.
 */
#define SKB_MIN		(UNSENT_MAX / 64)

/* Interval of checks for room: adapted so that about half of the bytes leave between two. */
#define LOOK_MIN_NS	(50 * NSEC_PER_USEC)
#define LOOK_MAX_NS	(4 * NSEC_PER_MSEC)

/**
 * roe_unsent_waiting() - bytes of a QP that have not left this host
 * @unsent: of any QP
 *
 * Return: truesize of its skbs, bytes; 0 for a QP whose skbs are not counted.
 */
u32 roe_unsent_waiting(const struct roe_unsent *unsent)
{
	return unsent->sock ? sk_wmem_alloc_get(unsent->sock->sk) : 0;
}

/**
 * roe_unsent_reset() - stop waiting, and forget how fast the path is
 * @unsent: of any QP, which has stopped sending
 */
void roe_unsent_reset(struct roe_unsent *unsent)
{
	unsent->look = 0;
	unsent->wait = LOOK_MIN_NS;
}

/**
 * roe_unsent_init() - start to count the skbs of a QP
 * @unsent: of a UC or UD QP, zeroed
 *
 * The socket belongs to the initial namespace, because it may outlive the namespace of the device.
 * Process context.
 *
 * Return: 0 or negative errno.
 */
int roe_unsent_init(struct roe_unsent *unsent)
{
	int err;

	err = sock_create_kern(&init_net, AF_INET, SOCK_DGRAM, IPPROTO_UDP, &unsent->sock);
	if (err) {
		unsent->sock = NULL;
		return err;
	}
	/* nobody waits for sk_write_space(), so sock_wfree() need not call it */
	sock_set_flag(unsent->sock->sk, SOCK_USE_WRITE_QUEUE);
	roe_unsent_reset(unsent);
	return 0;
}

ROE_EXPORT_FOR_TEST(roe_unsent_init);

/**
 * roe_unsent_exit() - undo roe_unsent_init()
 * @unsent: of a QP that sends no more; may be all zero. Process context
 */
void roe_unsent_exit(struct roe_unsent *unsent)
{
	if (unsent->sock)
		sock_release(unsent->sock);
	unsent->sock = NULL;
}

ROE_EXPORT_FOR_TEST(roe_unsent_exit);

/**
 * roe_unsent_add() - count an skb that will be sent
 * @unsent: of its QP
 * @skb: complete
 *
 * Called for all skbs of a QP, also the smallest: veth has different receive queues for skbs with
 * and without such an owner (veth_skb_is_eligible_for_gro()), which are not ordered among
 * themselves.
 */
void roe_unsent_add(struct roe_unsent *unsent, struct sk_buff *skb)
{
	if (!unsent->sock)
		return;
	/* before the skb has an owner, which is charged with truesize */
	skb->truesize = max_t(unsigned int, skb->truesize, SKB_MIN);
	skb_set_owner_w(skb, unsent->sock->sk);
}

ROE_EXPORT_FOR_TEST(roe_unsent_add);

/* Upper limit of what a burst counts for: as if no packets shared an skb. */
static u32 memory_of(const struct roe_txb *txb)
{
	return txb->bytes + txb->n * SKB_MIN;
}

/**
 * roe_unsent_full() - must the burst end here?
 * @qp: UC or UD, with something to send
 * @ctx: the time
 * @txb: packets that will leave
 *
 * Return: true: no more packets in this burst, and, if struct roe_unsent.look is set now, none
 * before the timer has run. If look is not set only the burst is too long: so it is not empty, and
 * the next one may follow.
 */
bool roe_unsent_full(struct roe_qp *qp, const struct roe_ctx *ctx, const struct roe_txb *txb)
{
	struct roe_unsent *unsent = &qp->unsent;
	u32 bytes;

	if (!unsent->sock)
		return false;
	/* nothing is added before the check: what is left then says how fast the path is */
	if (unsent->look)
		return true;
	bytes = roe_unsent_waiting(unsent);
	if (txb->n ? bytes + memory_of(txb) < UNSENT_MAX : bytes < UNSENT_FULL)
		return false;
	/* fewer bytes may have left by the time that this burst has been sent: no need to wait */
	if (bytes >= UNSENT_FULL / 2)
		unsent->look = ctx->now + unsent->wait;
	return true;
}

ROE_EXPORT_FOR_TEST(roe_unsent_full);

/**
 * roe_unsent_look() - is there room again?
 * @unsent: its @look has passed
 *
 * The time to the next check is adapted to how much has left before this one.
 */
void roe_unsent_look(struct roe_unsent *unsent)
{
	u32 bytes = roe_unsent_waiting(unsent);

	unsent->look = 0;
	if (bytes >= UNSENT_FULL)
		unsent->wait = min_t(u32, 2 * unsent->wait, LOOK_MAX_NS);
	else if (bytes < UNSENT_FULL / 2)
		unsent->wait = max_t(u32, unsent->wait / 2, LOOK_MIN_NS);
}
