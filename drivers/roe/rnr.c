// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * How much of a processor RNR retries may take: a leaky bucket of each CPU. See rnr.h.
 */
#include <linux/kernel.h>
#include <linux/percpu.h>
#include <linux/time64.h>
#include "rnr.h"
#include "transport.h"

/*
 * The share is one part in so many of a CPU's time. About three times as much is not measured:
 * the interrupt of the timer, IP, a peer on this host and the way of its NAK.
 */
#define SHARE		16
/* After a pause, retries may exceed the share for this long before they are delayed. */
#define CREDIT_NS	(10 * NSEC_PER_MSEC)
/*
 * Retries book no more than this ahead: a QP that has booked may go away before its retry, and
 * other QPs must not wait for a crowd that books much.
 */
#define AHEAD_NS	NSEC_PER_SEC
/* A retry is delayed by at most the room of one, doubled by each refusal, so often at most. */
#define DOUBLED_MAX	16U
/* Most that one retry counts for when later ones are delayed: a hypervisor may stop this CPU. */
#define COST_MAX_NS	(NSEC_PER_MSEC / 2)

/*
 * Softirqs disabled. With PREEMPT_RT another task may run on this CPU in between: then a retry
 * is not counted.
 */
struct bucket {
	u64	next;		/* ns, monotonic: then the share has room for another retry */
	u32	cost;		/* average time of a retry, ns */
};

static DEFINE_PER_CPU(struct bucket, buckets);

/**
 * roe_rnr_pace() - when an RNR retry may begin
 * @at: ns, monotonic: when the RNR timer of the retry expires
 * @now: ns, monotonic
 * @refused: how often the same packet has been refused before
 *
 * Any context with softirqs disabled. Called once for each retry, which it counts.
 *
 * Return: ns, not before @at.
 */
u64 roe_rnr_pace(u64 at, u64 now, unsigned int refused)
{
	struct bucket *b = raw_cpu_ptr(&buckets);
	u64 next = clamp_t(u64, READ_ONCE(b->next), now - CREDIT_NS, now + AHEAD_NS);
	u64 room = SHARE * (u64)READ_ONCE(b->cost);

	WRITE_ONCE(b->next, next + room);
	return max(at, min(next, now + (room << min(refused, DOUBLED_MAX))));
}

ROE_EXPORT_FOR_TEST(roe_rnr_pace);

/**
 * roe_rnr_spent() - a retry has run on this CPU
 * @ns: time that it took
 *
 * Context: as roe_rnr_pace().
 */
void roe_rnr_spent(u64 ns)
{
	struct bucket *b = raw_cpu_ptr(&buckets);
	u32 cost = READ_ONCE(b->cost);

	WRITE_ONCE(b->cost, cost - cost / 8 + (u32)min_t(u64, ns, COST_MAX_NS) / 8);
}

ROE_EXPORT_FOR_TEST(roe_rnr_spent);
