// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * What goes to this host waits in the backlog of the CPU that sent it, for long if
 * the softirq has used up its time. If the next burst left from another CPU it would
 * come first; RC asks again for what it overtook, UC and UD would lose it or change
 * the order. So until that backlog has been seen empty, or nothing was sent for long, the QP
 * sends from there: tx_cpu.
 *
 * Contexts: runs of a QP, and the worker on tx_cpu (qp_doorbell.c). tx_cpu is set under
 * qp->lock and cleared without it, by cmpxchg.
 */
#include <linux/delay.h>
#include <linux/interrupt.h>
#include <linux/netdevice.h>
#include "backlog.h"
#include "qp_doorbell.h"

/* The one on tx_cpu lets others run before a burst if so much waits there: 4 to 8 ms. */
#define BACKLOG_LONG	256
#define BACKLOG_WAITS	16
/* It was asked: how it stands is looked at after so long, at least. */
#define DEFER_LOOK_NS	(10 * NSEC_PER_MSEC)

/* The backlog of a CPU that went away was moved to another one, in order. */
static bool is_elsewhere(int cpu)
{
	return cpu != ROE_TX_ANYWHERE && cpu != raw_smp_processor_id() && cpu_online(cpu);
}

/**
 * roe_backlog_is_elsewhere() - is it another CPU that the QP has to send from?
 * @qp: of UC or UD. Any context
 *
 * Return: true if the worker there has to be asked.
 */
bool roe_backlog_is_elsewhere(const struct roe_qp *qp)
{
	return is_elsewhere(READ_ONCE(qp->tx_cpu));
}

/*
 * The backlog of a CPU holds 1000 (net.core.netdev_max_backlog). Before 6.5 nobody but ksoftirqd
 * empties it as soon as that is to run, so a process that has the CPU until then would only
 * fill it. It leaves that to the worker, which waits for ksoftirqd, for a while.
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
 * Nothing has been sent for so long that nothing can be in that backlog: who runs there, a task of
 * real-time priority it may be, is not to be waited for. A post or the timer finds that out.
 */
static bool has_left(const struct roe_qp *qp, u64 now)
{
	return now >= qp->home_until && !roe_unsent_waiting(&qp->unsent);
}

/**
 * roe_backlog_defer() - leave a burst to the worker on tx_cpu, where it must not go first
 * @qp: about to send; qp->lock held, softirqs disabled
 * @now: ns
 *
 * Return: true if the worker was asked; false: this CPU sends, and but for RC it is tx_cpu
 * from now on.
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
	/* perhaps nothing is posted any more, which would look */
	qp->defer_until = max(qp->home_until, now + DEFER_LOOK_NS);
	return true;
}

ROE_EXPORT_FOR_TEST(roe_backlog_defer);

/* Is nothing left in the backlog of this CPU? It may be that of a thread (thread_backlog_napi). */
static bool backlog_is_empty(void)
{
	return !test_bit(NAPI_STATE_SCHED, &raw_cpu_ptr(&softnet_data)->backlog.state);
}

/**
 * roe_backlog_enable_softirqs() - softirqs on behind a run, and look at the backlog
 * @qp: not locked; kept by the caller. Process context or softirq
 *
 * What they had to receive then has been received, unless it was too much. With interrupts
 * off, so that it is the same CPU and no timer sends in between; its backlog is that of all
 * QPs, so tx_cpu may as well be of a later burst than ours. Softirqs of PREEMPT_RT need
 * preemption, and one may be under way below us: nobody knows when the backlog is empty.
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
 * roe_backlog_wait() - let others empty the backlog of this CPU
 *
 * Rarely and not for long: many QPs may wait here, and ksoftirqd has a lower priority.
 * Process context, bound to its CPU; sleeps.
 *
 * Return: false if it was in vain.
 */
bool roe_backlog_wait(void)
{
	unsigned int i;

	for (i = 0; backlog_is_long(); i++) {
		/* not by the clock, which runs on while a hypervisor has taken this CPU away */
		if (i == BACKLOG_WAITS)
			return false;
		usleep_range(250, 500);
	}
	return true;
}
