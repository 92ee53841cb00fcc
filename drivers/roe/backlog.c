// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Packets to this host wait in the backlog of the CPU that sent them, for long if the softirq has
 * used up its time. If the next burst left from another CPU it would arrive first. RC asks again
 * for packets that were overtaken; UC would lose them, UD would deliver them out of order. So a UC
 * or UD QP sends from that CPU, tx_cpu, until its backlog has been seen empty, or the QP has sent
 * nothing for long.
 *
 * Contexts: runs of a QP, and the worker on tx_cpu (qp_doorbell.c). tx_cpu is set under
 * qp->lock and cleared without it, by cmpxchg.
 */
#include <linux/delay.h>
#include <linux/interrupt.h>
#include <linux/netdevice.h>
#include "backlog.h"
#include "qp_doorbell.h"

/* If so many skbs wait on tx_cpu its worker lets others run before a burst: for 4 to 8 ms. */
#define BACKLOG_LONG	256
#define BACKLOG_WAITS	16
/* Once the worker on tx_cpu was asked, the timer checks after so long at the earliest. */
#define DEFER_LOOK_NS	(10 * NSEC_PER_MSEC)

/* An offline CPU does not count: its backlog was moved to another CPU, in order. */
static bool is_elsewhere(int cpu)
{
	return cpu != ROE_TX_ANYWHERE && cpu != raw_smp_processor_id() && cpu_online(cpu);
}

/**
 * roe_backlog_is_elsewhere() - must the QP send from another CPU?
 * @qp: of UC or UD. Any context
 *
 * Return: true if the worker there has to be asked.
 */
bool roe_backlog_is_elsewhere(const struct roe_qp *qp)
{
	return is_elsewhere(READ_ONCE(qp->tx_cpu));
}

/*
 * The backlog of a CPU holds 1000 skbs (net.core.netdev_max_backlog). Before 6.5 only ksoftirqd
 * empties it once ksoftirqd is runnable, so a process that keeps the CPU until then would only fill
 * it. Such a process leaves the burst to the worker, which waits a while for ksoftirqd.
 */
static bool backlog_is_long(void)
{
	return !IS_ENABLED(CONFIG_PREEMPT_RT) &&
	       skb_queue_len_lockless(raw_cpu_ptr(&softnet_data.input_pkt_queue)) >= BACKLOG_LONG;
}

static bool must_wait(const struct roe_qp *qp)
{
	return READ_ONCE(qp->tx_cpu) == smp_processor_id() && backlog_is_long() &&
	       !in_serving_softirq() && current_work() != &qp->order_work;
}

/*
 * Has the QP sent nothing for so long that none of its packets can be in that backlog? Then it need
 * not wait for tx_cpu, which may be busy with a task of real-time priority. A post or the timer
 * finds that out.
 */
static bool has_left(const struct roe_qp *qp, u64 now)
{
	return now >= qp->home_until && !roe_unsent_waiting(&qp->unsent);
}

/**
 * roe_backlog_defer() - leave a burst to the worker on tx_cpu if it must not be sent here
 * @qp: about to send; qp->lock held, softirqs disabled
 * @now: ns
 *
 * Return: true if the worker was asked; false: this CPU sends, and is tx_cpu from now on (not for
 * RC).
 */
bool roe_backlog_defer(struct roe_qp *qp, u64 now)
	__must_hold(&qp->lock)
{
	int cpu = READ_ONCE(qp->tx_cpu);

	if (qp->type == IB_QPT_RC)
		return false;
	if ((!is_elsewhere(cpu) || has_left(qp, now)) && !must_wait(qp)) {
		WRITE_ONCE(qp->tx_cpu, smp_processor_id());
		qp->defer_until = 0;
		return false;
	}
	roe_qp_defer_to(qp, cpu);
	/* let the timer check, because there may be no further post to do that */
	qp->defer_until = max(qp->home_until, now + DEFER_LOOK_NS);
	return true;
}

ROE_EXPORT_FOR_TEST(roe_backlog_defer);

/* Is the backlog of this CPU empty? A thread may serve it (thread_backlog_napi). */
static bool backlog_is_empty(void)
{
	return !test_bit(NAPI_STATE_SCHED, &raw_cpu_ptr(&softnet_data)->backlog.state);
}

/**
 * roe_backlog_enable_softirqs() - enable softirqs after a run, then check the backlog
 * @qp: not locked; kept by the caller. Process context or softirq
 *
 * When local_bh_enable() returns, softirqs have received all packets sent to this host, unless
 * there were too many. The check runs with interrupts off, so that it stays on this CPU and no
 * timer sends in between. The backlog is shared by all QPs, so if it is empty tx_cpu may be cleared
 * even if a later burst has set it. With PREEMPT_RT softirqs need preemption, and this task may
 * have preempted one: so nothing tells when the backlog is empty.
 */
void roe_backlog_enable_softirqs(struct roe_qp *qp)
{
	if (IS_ENABLED(CONFIG_PREEMPT_RT)) {
		local_bh_enable();
		return;
	}
	preempt_disable();
	local_bh_enable();
	if (qp->type != IB_QPT_RC && !in_softirq()) {
		local_irq_disable();
		if (!(local_softirq_pending() & BIT(NET_RX_SOFTIRQ)) && backlog_is_empty())
			cmpxchg(&qp->tx_cpu, smp_processor_id(), ROE_TX_ANYWHERE);
		local_irq_enable();
	}
	preempt_enable();
}

/**
 * roe_backlog_wait() - sleep while others empty the backlog of this CPU
 *
 * The wait is rare and short: many QPs may wait here, and ksoftirqd has a lower priority.
 * Process context, bound to its CPU; sleeps.
 *
 * Return: false if the backlog is still long.
 */
bool roe_backlog_wait(void)
{
	unsigned int i;

	for (i = 0; backlog_is_long(); i++) {
		/* count sleeps, not time: time passes while a hypervisor has taken this CPU away */
		if (i == BACKLOG_WAITS)
			return false;
		usleep_range(250, 500);
	}
	return true;
}
