// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * What has been sent and has not left this host. UC and UD have no window, and their WQEs
 * are done when their packets are built: without this a QP would be as fast as its
 * processor, and the queue of a slower netdev would lose the rest. So a QP counts the bytes
 * of its skbs until they are freed or received here, and waits while there are many. RC has
 * its window, and sends again what is lost.
 *
 * The kernel counts, as it does for every UDP socket: the skbs belong to a socket that does
 * nothing else, and sock_wfree() takes off what goes. A destructor of ours would be called
 * for as long as an skb stays in a queue, which may be after the module has gone, and too
 * early for trains: when software cuts them up the packets inherit their owner from
 * sock_wfree() alone. For the first reason nobody tells us of room either: the timer looks.
 * The last skb frees a socket that was released before, so nobody waits for them.
 */
#include <linux/net.h>
#include <linux/sizes.h>
#include <linux/skbuff.h>
#include <net/net_namespace.h>
#include <net/sock.h>
#include "transport.h"
#include "unsent.h"

/* What ARP and ND keep for a neighbour that has not answered yet; more drops the oldest. */
#define NEIGH_MAX	(256 * SKB_TRUESIZE(256))

/* Bytes that wait on this host, as the kernel counts memory; one packet more may leave. */
#define UNSENT_MAX	(SZ_128K + SZ_64K)
static_assert(UNSENT_MAX + SZ_8K <= NEIGH_MAX);

/* With so much no burst begins: it would be cut to a packet or two, which make no train. */
#define UNSENT_FULL	SZ_128K

/*
 * An skb counts for so much at least, for there are queues that count skbs: fq (100 of a
 * flow), sfq, the ring of a veth. So there are 64 of them, as rdma_rxe allows. A train is one,
 * unless software cuts it up before the queue: then its packets count for what they are.
 */
#define SKB_MIN		(UNSENT_MAX / 64)

/* Looks: so often that about half of it goes between two. */
#define LOOK_MIN_NS	(50 * NSEC_PER_USEC)
#define LOOK_MAX_NS	(4 * NSEC_PER_MSEC)

/**
 * roe_unsent_waiting() - how much has not left this host
 * @unsent: of any QP
 *
 * Return: bytes of memory of its skbs; 0 for a QP whose skbs nobody counts.
 */
u32 roe_unsent_waiting(const struct roe_unsent *unsent)
{
	return unsent->sock ? sk_wmem_alloc_get(unsent->sock->sk) : 0;
}

/**
 * roe_unsent_reset() - wait no longer, and know nothing of the way
 * @unsent: of any QP, which has stopped sending
 */
void roe_unsent_reset(struct roe_unsent *unsent)
{
	unsent->look = 0;
	unsent->wait = LOOK_MIN_NS;
}

/**
 * roe_unsent_init() - count the skbs of a QP
 * @unsent: of a QP of UC or UD, zeroed
 *
 * The socket is of the initial namespace, for it may outlive that of the device. Process
 * context.
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
	/* sock_wfree() has nobody to tell */
	sock_set_flag(unsent->sock->sk, SOCK_USE_WRITE_QUEUE);
	roe_unsent_reset(unsent);
	return 0;
}

ROE_EXPORT_FOR_TEST(roe_unsent_init);

/**
 * roe_unsent_exit() - undo roe_unsent_init()
 * @unsent: whose QP sends nothing more; may be all zero. Process context
 */
void roe_unsent_exit(struct roe_unsent *unsent)
{
	if (unsent->sock)
		sock_release(unsent->sock);
	unsent->sock = NULL;
}

ROE_EXPORT_FOR_TEST(roe_unsent_exit);

/**
 * roe_unsent_add() - an skb that will be sent
 * @unsent: of its QP
 * @skb: complete
 *
 * All of a QP, also the smallest: veth has one receive queue for skbs with such an owner and
 * another one for those without (veth_skb_is_eligible_for_gro()), which have no order.
 */
void roe_unsent_add(struct roe_unsent *unsent, struct sk_buff *skb)
{
	if (!unsent->sock)
		return;
	/* before it has an owner, who is charged with it */
	skb->truesize = max_t(unsigned int, skb->truesize, SKB_MIN);
	skb_set_owner_w(skb, unsent->sock->sk);
}

ROE_EXPORT_FOR_TEST(roe_unsent_add);

/* What a burst counts for at most: as if no packets shared an skb. */
static u32 memory_of(const struct roe_txb *txb)
{
	return txb->bytes + txb->n * SKB_MIN;
}

/**
 * roe_unsent_full() - has the burst to end here?
 * @qp: UC or UD, with something to send
 * @ctx: the time
 * @txb: packets that will leave
 *
 * Return: true: nothing more in this burst, and, if there is a look now (@look of struct
 * roe_unsent), before the timer has run. Without a look it is the burst that is too long, so
 * it is not empty, and the next one may follow.
 */
bool roe_unsent_full(struct roe_qp *qp, const struct roe_ctx *ctx, const struct roe_txb *txb)
{
	struct roe_unsent *unsent = &qp->unsent;
	u32 bytes;

	if (!unsent->sock)
		return false;
	/* what is left then says how fast the way is: nothing is added until then */
	if (unsent->look)
		return true;
	bytes = roe_unsent_waiting(unsent);
	if (txb->n ? bytes + memory_of(txb) < UNSENT_MAX : bytes < UNSENT_FULL)
		return false;
	/* what is less may have gone when this burst has been sent */
	if (bytes >= UNSENT_FULL / 2)
		unsent->look = ctx->now + unsent->wait;
	return true;
}

ROE_EXPORT_FOR_TEST(roe_unsent_full);

/**
 * roe_unsent_look() - is there room again?
 * @unsent: @look has passed
 *
 * The time to the next look follows what has left before this one.
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
