// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * What RNR retries may take of a processor: a leaky bucket of each CPU. See rnr.h.
 */
#include <linux/kernel.h>
#include <linux/percpu.h>
#include <linux/time64.h>
#include "rnr.h"
#include "transport.h"

/*
 * One part in so many of a CPU's time. About three times as much is not measured: the
 * interrupt of the timer, IP, a peer on this host and the way of its NAK.
 */
#define SHARE		16
/* Retries that need more than that come as they like for so long, after a pause. */
#define CREDIT_NS	(10 * NSEC_PER_MSEC)
/*
 * No more is booked ahead: who has booked may not come, as its QP goes, and others are not to
 * wait for a crowd that does.
 */
#define AHEAD_NS	NSEC_PER_SEC
/* Who is refused again waits no longer than for the room of one retry, doubled each time. */
#define DOUBLED_MAX	16U
/* What one retry takes at most, as far as the next ones are concerned: a hypervisor may stop us. */
#define COST_MAX_NS	(NSEC_PER_MSEC / 2)

/*
 * Softirqs disabled. With PREEMPT_RT somebody else may run here in between: then a retry is
 * not counted.
 */
struct bucket {
	u64	next;		/* ns, monotonic: when the share has room for another retry */
	u32	cost;		/* ns that one takes, on the average */
};

static DEFINE_PER_CPU(struct bucket, buckets);

/**
 * roe_rnr_pace() - when an RNR retry may begin
 * @at: ns, monotonic: when its timer has run
 * @now: ns, monotonic
 * @refused: how often the same packet has been refused before
 *
 * Any context with softirqs disabled. Called once for each retry, which is counted.
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
 * @ns: it took so long
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
