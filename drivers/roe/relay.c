// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * A second CPU for streams of small messages.
 *
 * librxe makes a system call of each post, and within that call a message goes its whole
 * way: through IP and, on the same host, through the engines of the receiver and
 * back with the ACK. That is the shortest way for one message, but it slows down a process
 * that posts one message after the other, packet by packet, while another CPU may be idle.
 *
 * So the idle CPU is asked to help. A relay looks at the rings of the QPs that it was given,
 * and the doorbells of these QPs do nothing at all. WQEs that the process posts while one train
 * is on its way are the next train: one walk through IP, one ACK. No message waits for a
 * timer or for further messages.
 *
 * Who decides
 *   The doorbell asks for a relay, after a number of doorbells in a row that took long compared
 *   to the time that the process spent between them.
 *   The relay takes a QP only if it is alone on its CPU. It leaves at once if another task wants
 *   to run there, if nothing is posted for a while, or if only one message is posted at a time:
 *   then the process waits for each message and is served best in its own system call. Each
 *   attempt in vain doubles the number of doorbells before the next attempt; with time that
 *   number is halved again.
 *
 * Contexts and order
 *   A relay is a work item per posting CPU, bound to another CPU; process context.
 *   Only the relay moves a link from ASKED to ON, LEAVING and OFF, except for links that are
 *   cancelled while ASKED (see Life). A doorbell writes the
 *   ring index, then reads the state; the relay writes LEAVING, then reads the ring
 *   index: with a full barrier in each, one of them sees what the other wrote, so no
 *   WQE is left behind.
 *   As long as a link is ON nobody else sends what is posted to the QP, so the relay must not be
 *   preempted: preemption is off from the first ON to the last OFF. A task that is to run on this
 *   CPU makes the relay leave: need_resched() is set, or with lazy preemption
 *   single_task_running() is false. How long that task waits is bounded: for one burst of each of
 *   at most RELAY_QPS rings. With PREEMPT_RT a lock may sleep, so preemption cannot be off, and
 *   there is no relay.
 *
 *   Packets that the relay has sent to this host, and the timers of its QPs, stay on its CPU, where
 *   the next task may keep them from running for long. So the relay leaves neither behind: see
 *   leave_rest(), and roe_qp_hand_over() for the timers.
 *
 * Life
 *   A QP whose link is not OFF is in use. Modify and destroy wait for OFF first
 *   (roe_relay_part()); the store of OFF is the last thing that a relay does with a QP.
 *   They cancel a link that is only ASKED themselves, because the work of the relay may not begin
 *   for long, behind a task with a real-time priority for instance.
 */
#include <linux/cpumask.h>
#include <linux/interrupt.h>
#include <linux/jiffies.h>
#include <linux/percpu.h>
#include <linux/preempt.h>
#include <linux/rcupdate.h>
#include <linux/sched.h>
#include <linux/sched/isolation.h>
#include <linux/sched/stat.h>
#include <linux/topology.h>
#include <linux/wait_bit.h>
#include <linux/workqueue.h>
#include "qp_doorbell.h"
#include "relay.h"
#include "stats.h"
#include "transport.h"

/* Doorbells in a row that count as a stream: at first, and after many attempts in vain. */
#define NEED_MIN	16
#define NEED_MAX	8192
/* ... at most, if the relay only came too late, which depends on the load of its CPU */
#define NEED_LATE	512
/* The learned number is halved each time after so long: the process may be another one now. */
#define FORGET_NS	NSEC_PER_SEC
/* In a stream a doorbell takes at least this many times as long as the pause before it. */
#define STREAM_RATIO	2
/* A doorbell that takes less cancels this many that did not. */
#define STREAM_BREAK	4u
/* Sweeps with messages after which the relay checks for two messages per sweep or more. */
#define JUDGE_SWEEPS	64
/*
 * Rings of a relay at most. A relay that leaves sends a burst of each of them before another task
 * can run on its CPU.
 */
#define RELAY_QPS	32
/* A relay that has moved at least this many messages was worth it. */
#define GOOD_MESSAGES	256
/* The stream has ended if nothing is posted for so long ... */
#define PATIENCE_MIN_NS	(20 * NSEC_PER_USEC)
#define PATIENCE_MAX_NS	(2 * NSEC_PER_MSEC)
/* ... or, within these limits, for this many times the duration of a doorbell. */
#define PATIENCE_COSTS	8
/* Times that the tasklet runs again for softirqs that a relay has left pending. */
#define REST_LOOKS	64

struct relay {
	struct work_struct	work;
	struct llist_head	asked;		/* links that wait to be taken */
	struct roe_poster	poster;
	bool			active;		/* it runs: a streak of 1 is enough to ask it */
	u32			on;		/* number of its QPs; written by the relay */
	u32			patience;	/* ns */
	unsigned int		target;		/* CPU asked last; or one after it, or @from */
	unsigned int		from;		/* CPU that posts */
	struct tasklet_struct	rest;		/* for any relay that leaves this CPU */
	unsigned int		looks;		/* runs of @rest still to come */
};

/* Work of a relay since it began, and up to the last time that it was judged. */
struct tally {
	u32	qps;
	u32	messages, sweeps;
	u32	judged_messages, judged_sweeps;
	u64	idle_since;			/* ns; 0: it is not idle */
	unsigned long passed;			/* jiffies of the last quiescent state for RCU */
};

static struct relay __percpu *relays;	/* by the CPU that posts */
static struct workqueue_struct *relay_wq;

static void forget(struct roe_poster *poster, u64 now)
{
	u32 need = READ_ONCE(poster->need);

	if (now < poster->forget)
		return;
	if (poster->forget && need > NEED_MIN)
		WRITE_ONCE(poster->need, need / 2);
	poster->forget = now + FORGET_NS;
}

/**
 * roe_poster_streams() - does the process on this CPU post faster than its doorbells send?
 * @poster: of the CPU
 * @begin: of a doorbell that sent small messages, ns
 * @end: of the same
 *
 * Return: true if a relay may help; then the count of doorbells begins anew.
 */
bool roe_poster_streams(struct roe_poster *poster, u64 begin, u64 end)
{
	u64 before = poster->end;

	/* a relay reads it on another CPU */
	WRITE_ONCE(poster->end, end);
	forget(poster, end);
	if (before && (s64)(begin - before) * STREAM_RATIO > (s64)(end - begin)) {
		poster->streak -= min(poster->streak, STREAM_BREAK);
		return false;
	}
	if (++poster->streak < READ_ONCE(poster->need))
		return false;
	poster->streak = 0;
	return true;
}

ROE_EXPORT_FOR_TEST(roe_poster_streams);

/**
 * roe_poster_learn() - a relay has left: learn whether it was worth it
 * @poster: of the CPU that had asked for the relay
 * @messages: that the relay moved
 * @sweeps: that found messages
 */
void roe_poster_learn(struct roe_poster *poster, u32 messages, u32 sweeps)
{
	u32 need = READ_ONCE(poster->need);

	if (messages && messages >= 2 * sweeps)
		/* fewer: another task wanted the relay's CPU, or the stream has ended */
		need = messages >= GOOD_MESSAGES ? NEED_MIN : need;
	else if (messages || need < NEED_LATE)
		need = clamp_t(u32, need * 2, NEED_MIN, NEED_MAX);
	WRITE_ONCE(poster->need, need);
}

ROE_EXPORT_FOR_TEST(roe_poster_learn);

/* --- the side of the doorbell --- */

/**
 * roe_relay_pick() - pick a CPU for a relay
 * @start: first CPU to be tried; behind the last one comes the first
 * @from: CPU that posts
 *
 * Return: the next CPU of the node of @from that is online and not isolated, neither by a cpuset
 * (where the kernel tells: 6.8) nor by nohz_full=, whose single task a relay would interrupt;
 * nr_cpu_ids: there is none.
 */
unsigned int roe_relay_pick(unsigned int start, unsigned int from)
{
	const struct cpumask *near = cpumask_of_node(cpu_to_node(from));
	const struct cpumask *noisy = housekeeping_cpumask(HK_TYPE_WQ);
	unsigned int cpu;

	/* that looks at as many bits as @start says, and two runs may each have added one */
	for_each_cpu_wrap(cpu, near, min(start, nr_cpu_ids))
		if (cpu != from && cpu_online(cpu) &&
		    !roe_compat_cpu_is_isolated(cpu) && cpumask_test_cpu(cpu, noisy))
			return cpu;
	return nr_cpu_ids;
}

ROE_EXPORT_FOR_TEST(roe_relay_pick);

static void off(struct roe_qp *qp)
{
	/* pairs with the acquire in roe_relay_part() */
	smp_store_release(&qp->relay.state, ROE_RELAY_OFF);
	/* the state before the check for sleepers; the QP may be gone from here on */
	smp_mb();
	wake_up_var(&qp->relay.state);
}

/*
 * Cancel all links that wait in the list of a relay: their doorbells go on sending. Preemption
 * disabled: between llist_del_all() and off() nobody else can cancel them, and
 * roe_relay_part() waits.
 */
static void send_away(struct relay *relay)
{
	struct llist_node *asked = llist_del_all(&relay->asked);
	struct roe_qp *qp, *next;

	llist_for_each_entry_safe(qp, next, asked, relay.asked)
		off(qp);
}

static void ask(struct relay *relay, struct roe_qp *qp, unsigned int from)
{
	struct roe_relay_link *link = &qp->relay;
	/* the CPU where a relay was alone the last time is asked again */
	unsigned int cpu = roe_relay_pick(READ_ONCE(relay->target), from);

	if (IS_ENABLED(CONFIG_PREEMPT_RT) || cpu >= nr_cpu_ids || atomic_read(&link->parting) ||
	    READ_ONCE(relay->on) >= RELAY_QPS ||
	    cmpxchg(&link->state, ROE_RELAY_OFF, ROE_RELAY_ASKED) != ROE_RELAY_OFF)
		return;
	WRITE_ONCE(relay->target, cpu);
	llist_add(&link->asked, &relay->asked);
	/*
	 * The list before the reads of parting and active: pairs with the barriers in relay_run()
	 * and roe_relay_part(). If these have missed this link in the list, their store is seen
	 * here.
	 */
	smp_mb();
	if (atomic_read(&link->parting)) {
		send_away(relay);
		return;
	}
	/*
	 * A relay that runs looks at the list itself: queueing its work would wake another worker
	 * on its CPU, and the relay would leave for that.
	 */
	if (!READ_ONCE(relay->active))
		queue_work_on(cpu, relay_wq, &relay->work);
}

/**
 * roe_relay_notice() - a doorbell has sent small messages: ask for a relay?
 * @qp: user QP of the doorbell; the caller keeps it
 * @begin: of the doorbell, ns
 * @end: of the same
 *
 * Process context.
 */
void roe_relay_notice(struct roe_qp *qp, u64 begin, u64 end)
{
	struct relay *relay = get_cpu_ptr(relays);

	if (roe_poster_streams(&relay->poster, begin, end) ||
	    (READ_ONCE(relay->active) && relay->poster.streak)) {
		WRITE_ONCE(relay->patience, clamp_t(u64, PATIENCE_COSTS * (end - begin),
						    PATIENCE_MIN_NS, PATIENCE_MAX_NS));
		ask(relay, qp, smp_processor_id());
	}
	put_cpu_ptr(relays);
}

/**
 * roe_relay_held() - a doorbell has left its messages to a later doorbell (hold.c)
 * @now: ns
 *
 * The pause before the next doorbell begins here. Preemption disabled.
 */
void roe_relay_held(u64 now)
{
	__this_cpu_write(relays->poster.end, now);
}

/**
 * roe_relay_has() - is a relay looking at the ring of this QP?
 * @qp: a user QP with new WQEs
 *
 * Return: true if the doorbell has nothing to do.
 */
bool roe_relay_has(struct roe_qp *qp)
{
	if (READ_ONCE(qp->relay.state) != ROE_RELAY_ON)
		return false;
	/* the ring index before the state: pairs with the barrier in relay_leave() */
	smp_mb();
	if (READ_ONCE(qp->relay.state) != ROE_RELAY_ON)
		return false;
	/* the pause before the next doorbell that sends is unknown now */
	raw_cpu_write(relays->poster.end, 0);
	return true;
}

/* Which relay a QP has asked is not recorded, so cancel the links in all lists. */
static void send_all_away(void)
{
	int cpu;

	preempt_disable();
	for_each_possible_cpu(cpu)
		send_away(per_cpu_ptr(relays, cpu));
	preempt_enable();
}

/**
 * roe_relay_part() - take a QP back from its relay before the QP changes
 * @qp: a user QP
 *
 * All WQEs posted before are sent, as far as the state of the QP allows.
 * Process context, may sleep.
 */
void roe_relay_part(struct roe_qp *qp)
{
	struct roe_relay_link *link = &qp->relay;

	atomic_inc(&link->parting);
	/* parting before the look at the list: pairs with the barrier in ask() */
	smp_mb__after_atomic();
	if (READ_ONCE(link->state) == ROE_RELAY_ASKED)
		send_all_away();
	/* pairs with the release in off(): the relay does not touch the QP any more */
	wait_var_event(&link->state, smp_load_acquire(&link->state) == ROE_RELAY_OFF);
	atomic_dec(&link->parting);
}

/* --- the relay --- */

/* No other task wants this CPU. */
static bool alone(void)
{
	return !need_resched() && single_task_running();
}

/*
 * Before 6.5 no interrupt runs softirqs while ksoftirqd is runnable: softirqs left to ksoftirqd
 * wait as long as a task of real-time priority likes. But if a tasklet is among the pending
 * softirqs all of them run, with the next tick at the latest. So this tasklet is scheduled as long
 * as received packets are pending, REST_LOOKS times at most.
 */
static void take_rest(struct tasklet_struct *rest)
{
	struct relay *relay = container_of(rest, struct relay, rest);

	if (local_softirq_pending() & BIT(NET_RX_SOFTIRQ) && relay->looks) {
		relay->looks--;
		tasklet_schedule(rest);
	}
}

/* A relay leaves this CPU: have softirqs that it leaves pending run soon. Preemption disabled. */
static void leave_rest(void)
{
	struct relay *relay = this_cpu_ptr(relays);

	if (!local_softirq_pending())
		return;
	relay->looks = REST_LOOKS;
	tasklet_schedule(&relay->rest);
}

/* WQEs posted from now on are sent by their doorbells; send those posted before. */
static void relay_leave(struct roe_qp *qp)
{
	WRITE_ONCE(qp->relay.state, ROE_RELAY_LEAVING);
	/* the state before the ring index: pairs with the barrier in roe_relay_has() */
	smp_mb();
	roe_qp_poll(qp);
}

/* The relay is done with a QP, whose timer must not stay where another task wants to run. */
static void relay_let_go(struct relay *relay, struct roe_qp *qp)
{
	list_del(&qp->relay.node);
	WRITE_ONCE(relay->on, relay->on - 1);
	if (!alone())
		roe_qp_hand_over(qp, relay->from);
	off(qp);
}

/* Take the QPs that have asked, if @may and as long as no other task is to run; cancel the rest. */
static void relay_join(struct relay *relay, struct list_head *qps, struct tally *tally, bool may)
{
	struct llist_node *asked = llist_del_all(&relay->asked);
	struct roe_qp *qp, *next;

	llist_for_each_entry_safe(qp, next, asked, relay.asked) {
		tally->qps++;
		if (!may || need_resched() || relay->on >= RELAY_QPS) {
			off(qp);
			continue;
		}
		list_add_tail(&qp->relay.node, qps);
		WRITE_ONCE(relay->on, relay->on + 1);
		roe_stat_inc(qp->dev, ROE_STAT_RELAYS);
		/* before the state: WQEs posted from now on are the relay's to send */
		qp->relay.seen = roe_ring_posted(qp->sq.ring);
		WRITE_ONCE(qp->relay.state, ROE_RELAY_ON);
		/* the state before the ring index: pairs with the barrier in roe_relay_has() */
		smp_mb();
		/* WQEs posted before, whose doorbell may have seen the new state already */
		roe_qp_poll(qp);
	}
}

/**
 * roe_relay_news() - count messages posted since the last look
 * @qp: of a relay
 *
 * Context: the relay; no lock.
 * Return: their number. If the ring index seems unchanged because a whole lap was posted: the
 * number of WQEs not copied in yet; 0 if none is left in the ring, or, for this look only, if the
 * whole lap was posted during it.
 */
u32 roe_relay_news(struct roe_qp *qp)
{
	/* read before the ring index: WQEs posted in between do not look like a lap */
	u32 pulled = smp_load_acquire(&qp->sq.pulled);
	u32 posted = roe_ring_posted(qp->sq.ring);
	u32 n = (posted - qp->relay.seen) & qp->sq.ring->mask;
	u32 prod = READ_ONCE(qp->sq.prod);

	qp->relay.seen = posted;
	/*
	 * A whole lap is possible because the last look has copied in more WQEs than it had seen,
	 * and these are done already, or because it has left some to a worker, which goes on
	 * copying. If no WQE was copied in since the last lap, it is not a lap: the process has
	 * set its index back.
	 */
	if (!n && posted != pulled && prod != qp->relay.lap) {
		qp->relay.lap = prod;
		return (posted - pulled) & qp->sq.ring->mask;
	}
	return n;
}

ROE_EXPORT_FOR_TEST(roe_relay_news);

/* Send what is new in a ring. Returns the number of messages. */
static u32 look(struct roe_qp *qp)
{
	u32 n = roe_relay_news(qp), from = READ_ONCE(qp->sq.prod);

	if (!n)
		return 0;
	roe_qp_poll(qp);
	roe_stat_add(qp->dev, ROE_STAT_RELAYED, READ_ONCE(qp->sq.prod) - from);
	return n;
}

/* One look at each ring, unless another task is to run here. Returns the messages found. */
static u32 sweep(struct relay *relay, struct list_head *qps)
{
	struct roe_qp *qp, *next;
	u32 sum = 0;

	list_for_each_entry_safe(qp, next, qps, relay.node) {
		if (atomic_read(&qp->relay.parting) || READ_ONCE(qp->state) != IB_QPS_RTS ||
		    !READ_ONCE(qp->dev->relay)) {
			relay_leave(qp);
			relay_let_go(relay, qp);
		} else {
			sum += look(qp);
		}
		if (need_resched())
			break;
	}
	return sum;
}

/**
 * roe_relay_waits() - nothing is posted: does the relay wait for more?
 * @now: ns
 * @idle_since: ns
 * @end: end of the last doorbell on the posting CPU, ns
 * @patience: how long to wait after that, ns
 *
 * A process that rings doorbells of another QP is still posting, and that QP may come to this
 * relay, too. But the wait is bounded: if these doorbells are no stream but one message at a time,
 * they may go on for ever.
 *
 * Return: false: the stream has ended.
 */
bool roe_relay_waits(u64 now, u64 idle_since, u64 end, u32 patience)
{
	return now - idle_since < PATIENCE_MAX_NS &&
	       (s64)(now - max(idle_since, end)) < patience;
}

ROE_EXPORT_FOR_TEST(roe_relay_waits);

static bool patient(struct relay *relay, struct tally *tally)
{
	u64 now = ktime_get_ns();

	if (!tally->idle_since)
		tally->idle_since = now;
	cpu_relax();
	return roe_relay_waits(now, tally->idle_since, READ_ONCE(relay->poster.end),
			       READ_ONCE(relay->patience));
}

/* A sweep has found @found messages: is it worth it to go on? */
static bool worth(struct relay *relay, struct tally *tally, u32 found)
{
	bool together;

	if (!found)
		return patient(relay, tally);
	tally->idle_since = 0;
	tally->messages += found;
	if (++tally->sweeps - tally->judged_sweeps < JUDGE_SWEEPS)
		return true;
	together = tally->messages - tally->judged_messages >= 2 * JUDGE_SWEEPS;
	tally->judged_sweeps = tally->sweeps;
	tally->judged_messages = tally->messages;
	return together;
}

/*
 * Report a quiescent state, so that a grace period need not wait for the end of a stream. No object
 * found under RCU before is used from here on.
 */
static void pass_grace_period(struct tally *tally)
{
	if (!time_after(jiffies, tally->passed))
		return;
	tally->passed = jiffies;
	local_irq_disable();
	/* without SMP there is no relay, and modules cannot call this function */
	if (IS_ENABLED(CONFIG_SMP))
		rcu_note_context_switch(false);
	local_irq_enable();
}

static void relay_run(struct work_struct *work)
{
	struct relay *relay = container_of(work, struct relay, work);
	struct roe_qp *qp, *next;
	struct tally tally = { .passed = jiffies };
	LIST_HEAD(qps);
	bool stay;

	/* see "Contexts and order" above */
	preempt_disable();
	WRITE_ONCE(relay->active, true);
	do {
		pass_grace_period(&tally);
		stay = alone();
		relay_join(relay, &qps, &tally, stay);
		stay = stay && !list_empty(&qps) && worth(relay, &tally, sweep(relay, &qps));
	} while (stay);
	WRITE_ONCE(relay->active, false);
	/* active before the last look at the list of links: pairs with the barrier in ask() */
	smp_mb();
	relay_join(relay, &qps, &tally, false);
	list_for_each_entry(qp, &qps, relay.node)
		relay_leave(qp);
	/* all after the last train: its softirqs may have woken up a task, which alone() sees */
	list_for_each_entry_safe(qp, next, &qps, relay.node)
		relay_let_go(relay, qp);
	leave_rest();
	preempt_enable();
	/* no QP at all: the work was queued for a link that the run before has cancelled */
	if (tally.qps)
		roe_poster_learn(&relay->poster, tally.messages, tally.sweeps);
	/* no message was moved: another task was there, so another CPU is asked the next time */
	if (tally.qps && !tally.messages)
		WRITE_ONCE(relay->target, READ_ONCE(relay->target) + 1);
}

int roe_relay_init(void)
{
	struct relay *relay;
	int cpu;

	relay_wq = alloc_workqueue("roe_relay", WQ_PERCPU | WQ_CPU_INTENSIVE, 0);
	if (!relay_wq)
		return -ENOMEM;
	relays = alloc_percpu(struct relay);
	if (!relays) {
		destroy_workqueue(relay_wq);
		return -ENOMEM;
	}
	for_each_possible_cpu(cpu) {
		relay = per_cpu_ptr(relays, cpu);
		INIT_WORK(&relay->work, relay_run);
		init_llist_head(&relay->asked);
		relay->poster.need = NEED_MIN;
		relay->from = cpu;
		tasklet_setup(&relay->rest, take_rest);
		/* with one start for all, all relays would go to one CPU, where one can be alone */
		relay->target = cpu + 1;
	}
	return 0;
}

void roe_relay_exit(void)
{
	int cpu;

	destroy_workqueue(relay_wq);
	for_each_possible_cpu(cpu)
		tasklet_kill(&per_cpu_ptr(relays, cpu)->rest);
	free_percpu(relays);
}
