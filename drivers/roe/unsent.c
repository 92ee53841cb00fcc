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

/*
 * Bytes that wait on this host, as the kernel counts memory: 64 packets of 4 KiB, as
 * rdma_rxe allows, and about as much as a UDP socket may (net.core.wmem_default).
 */
#define UNSENT_MAX	SZ_256K
static_assert(UNSENT_MAX >= ROE_TXB_BYTES);

/* Looks: so often that less than half of it goes between two, and not much more often. */
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
	unsent->wait = LOOK_MIN_NS;
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
	if (unsent->sock)
		skb_set_owner_w(skb, unsent->sock->sk);
}

ROE_EXPORT_FOR_TEST(roe_unsent_add);

/**
 * roe_unsent_full() - has the QP to wait until more has left?
 * @qp: UC or UD, with something to send
 * @ctx: the time
 * @txb: packets that will leave
 *
 * Return: true: nothing more before the timer has run. Where nothing waits a burst may be
 * as long as it likes.
 */
bool roe_unsent_full(struct roe_qp *qp, const struct roe_ctx *ctx, const struct roe_txb *txb)
{
	struct roe_unsent *unsent = &qp->unsent;
	u32 bytes = roe_unsent_waiting(unsent);

	if (likely(!bytes) || bytes + txb->bytes < UNSENT_MAX)
		return false;
	if (unsent->look > ctx->now)
		return true;
	/* what has been added now is about what has gone since the last look */
	if (txb->bytes < UNSENT_MAX / 8)
		unsent->wait = min_t(u32, 2 * unsent->wait, LOOK_MAX_NS);
	else if (txb->bytes > UNSENT_MAX / 2)
		unsent->wait = max_t(u32, unsent->wait / 2, LOOK_MIN_NS);
	unsent->look = ctx->now + unsent->wait;
	return true;
}

ROE_EXPORT_FOR_TEST(roe_unsent_full);
