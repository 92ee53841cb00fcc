// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * A second processor for streams of small messages.
 *
 * librxe makes a system call of each post, and within it a message goes its whole
 * way: through IP and, on the same host, through the engines of the receiver and
 * back with the ACK. That is the shortest way for one message, but a process that
 * posts one after the other is the slower for it, packet by packet, while the next
 * processor may have nothing to do.
 *
 * So it is asked to help. A relay looks at the rings of the QPs that it was given,
 * and their doorbells do nothing at all. What a process posts while one train is on
 * its way is the next train: one walk through IP, one ACK. No message waits for a
 * clock or for company.
 *
 * Who decides
 *   The doorbell asks, after some in a row that took long compared to the time that
 *   the process was away between them.
 *   The relay takes only if it is alone on its processor, and leaves at once if
 *   anyone else wants to run there, if nothing comes for a while, or if no more than
 *   one message comes at a time: then the process waits for each of them and is
 *   served best in its own system call. Each attempt in vain doubles the number of
 *   doorbells before the next one, and time halves it again.
 *
 * Contexts and order
 *   A relay is a work item per posting CPU, bound to another CPU; process context.
 *   Only it moves a link from ASKED to ON, LEAVING and OFF, but for what is sent away (see
 *   Life). A doorbell writes the
 *   ring index, then reads the state; the relay writes LEAVING, then reads the ring
 *   index: with a full barrier in each, one of them sees what the other wrote, so no
 *   WQE is left behind.
 *   As long as a link is ON nobody else sends what is posted, so the relay does not let
 *   go of its processor: preemption is off from the first ON to the last OFF, and who is
 *   to run there instead finds need_resched() set, which ends it, or with lazy preemption
 *   that there are two (single_task_running()). What it waits for then is bounded: a burst
 *   of each of RELAY_QPS rings. With PREEMPT_RT, where a lock may sleep,
 *   that is not to be had, and there is no relay.
 *
 *   What it has sent to this host, and the timers of its QPs, are its processor's, where whoever is
 *   to run may keep them from running for long: see take_rest(). So it leaves neither there.
 *
 * Life
 *   A QP whose link is not OFF is in use. Modify and destroy wait for OFF first
 *   (roe_relay_part()); the store of OFF is the last that a relay does with a QP.
 *   What has only asked is sent away by them: the work may not begin for long, behind
 *   a task with a real-time priority for instance.
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

/* Doorbells that are a stream: at first, and after many attempts in vain. */
#define NEED_MIN	16
#define NEED_MAX	8192
/* ... if the relay only came too late, which depends on who else is there */
#define NEED_LATE	512
/* What was learnt is half forgotten after so long: it may be about another process. */
#define FORGET_NS	NSEC_PER_SEC
/* In a stream a doorbell takes at least so many times as long as the pause before it. */
#define STREAM_RATIO	2
/* One that does not makes good for so many that did. */
#define STREAM_BREAK	4u
/* Sweeps with messages after which it is asked whether they come together. */
#define JUDGE_SWEEPS	64
/*
 * A relay that leaves sends a burst of each of its rings before another task can run: there are
 * so many at most.
 */
#define RELAY_QPS	32
/* A relay that has moved so many was worth its while. */
#define GOOD_MESSAGES	256
/* Nothing came for so long: the stream has ended. */
#define PATIENCE_MIN_NS	(20 * NSEC_PER_USEC)
#define PATIENCE_MAX_NS	(2 * NSEC_PER_MSEC)
/* ... or for so many times what a doorbell took. */
#define PATIENCE_COSTS	8
/* Softirqs are run again so often, where a relay has left some. */
#define REST_LOOKS	64

struct relay {
	struct work_struct	work;
	struct llist_head	asked;		/* links that wait to be taken */
	struct roe_poster	poster;
	bool			active;		/* it runs: further QPs need not prove anything */
	u32			on;		/* QPs that it has; the relay writes it */
	u32			patience;	/* ns */
	unsigned int		target;		/* CPU asked last, or the one behind it or us */
	unsigned int		from;		/* CPU that posts */
	struct tasklet_struct	rest;		/* for whichever relay has left this CPU */
	unsigned int		looks;		/* of it, yet to come */
};

/* What a relay has done since it began, and since it was judged. */
struct tally {
	u32	qps;
	u32	messages, sweeps;
	u32	judged_messages, judged_sweeps;
	u64	idle_since;			/* ns; 0: it is not idle */
	unsigned long passed;			/* jiffies, when a grace period last could */
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
 * roe_poster_streams() - does this process post faster than its doorbells send?
 * @poster: of the CPU
 * @begin: of a doorbell that sent small messages, ns
 * @end: of the same
 *
 * Return: true if a relay may help; the count begins anew then.
 */
bool roe_poster_streams(struct roe_poster *poster, u64 begin, u64 end)
{
	u64 before = poster->end;

	/* the relay looks at it from another CPU */
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
 * roe_poster_learn() - a relay has left: was it worth while?
 * @poster: who had asked
 * @messages: that it moved
 * @sweeps: that found any
 */
void roe_poster_learn(struct roe_poster *poster, u32 messages, u32 sweeps)
{
	u32 need = READ_ONCE(poster->need);

	if (messages && messages >= 2 * sweeps)
		/* fewer: somebody else wanted that processor, or the stream has ended */
		need = messages >= GOOD_MESSAGES ? NEED_MIN : need;
	else if (messages || need < NEED_LATE)
		need = clamp_t(u32, need * 2, NEED_MIN, NEED_MAX);
	WRITE_ONCE(poster->need, need);
}

ROE_EXPORT_FOR_TEST(roe_poster_learn);

/* --- the side of the doorbell --- */

/**
 * roe_relay_pick() - who could do work of a CPU?
 * @start: the first to be tried, up to nr_cpu_ids
 * @from: whose work it is
 *
 * Return: the next CPU of its node, online and not isolated, be it by a cpuset or for one task
 * only (nohz_full=), which a work of ours would interrupt; nr_cpu_ids: there is none.
 */
unsigned int roe_relay_pick(unsigned int start, unsigned int from)
{
	const struct cpumask *near = cpumask_of_node(cpu_to_node(from));
	const struct cpumask *noisy = housekeeping_cpumask(HK_TYPE_WQ);
	unsigned int cpu;

	for_each_cpu_wrap(cpu, near, start)
		if (cpu != from && cpu_online(cpu) && !cpu_is_isolated(cpu) &&
		    cpumask_test_cpu(cpu, noisy))
			return cpu;
	return nr_cpu_ids;
}

ROE_EXPORT_FOR_TEST(roe_relay_pick);

static void off(struct roe_qp *qp)
{
	/* pairs with the acquire in roe_relay_part() */
	smp_store_release(&qp->relay.state, ROE_RELAY_OFF);
	/* the state before the look for sleepers; the QP may be gone from here on */
	smp_mb();
	wake_up_var(&qp->relay.state);
}

/*
 * Who has asked a relay goes on alone. Preemption disabled: nobody else can do that for
 * those that are in no list any more.
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
	/* who was alone there the last time is asked again */
	unsigned int cpu = roe_relay_pick(READ_ONCE(relay->target), from);

	if (IS_ENABLED(CONFIG_PREEMPT_RT) || cpu >= nr_cpu_ids || atomic_read(&link->parting) ||
	    READ_ONCE(relay->on) >= RELAY_QPS ||
	    cmpxchg(&link->state, ROE_RELAY_OFF, ROE_RELAY_ASKED) != ROE_RELAY_OFF)
		return;
	WRITE_ONCE(relay->target, cpu);
	llist_add(&link->asked, &relay->asked);
	/*
	 * The list before the looks: pairs with the barriers in relay_run() and in
	 * roe_relay_part(), which has found the list without us, or we find it here.
	 */
	smp_mb();
	if (atomic_read(&link->parting)) {
		send_away(relay);
		return;
	}
	/*
	 * One that runs looks there itself: queueing its work would wake another worker on
	 * its processor, for whom it would leave.
	 */
	if (!READ_ONCE(relay->active))
		queue_work_on(cpu, relay_wq, &relay->work);
}

/**
 * roe_relay_notice() - a doorbell has sent small messages
 * @qp: whose user QP it was; the caller keeps it
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
 * roe_relay_held() - a doorbell has left its messages to a later one
 * @now: ns
 *
 * The pause before that later one begins here. Preemption disabled.
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
	/* how long this process is away is not known any more */
	raw_cpu_write(relays->poster.end, 0);
	return true;
}

/* Whom a QP has asked is not known until it is taken. */
static void send_all_away(void)
{
	int cpu;

	preempt_disable();
	for_each_possible_cpu(cpu)
		send_away(per_cpu_ptr(relays, cpu));
	preempt_enable();
}

/**
 * roe_relay_part() - take the QP back before it changes
 * @qp: a user QP
 *
 * Everything posted before is sent, as far as the state of the QP allows.
 * Process context, may sleep.
 */
void roe_relay_part(struct roe_qp *qp)
{
	struct roe_relay_link *link = &qp->relay;

	atomic_inc(&link->parting);
	/* ... before the look at the list: pairs with the barrier in ask() */
	smp_mb__after_atomic();
	if (READ_ONCE(link->state) == ROE_RELAY_ASKED)
		send_all_away();
	/* pairs with the release in off(): the relay has done with the QP */
	wait_var_event(&link->state, smp_load_acquire(&link->state) == ROE_RELAY_OFF);
	atomic_dec(&link->parting);
}

/* --- the relay --- */

/* Nobody else wants this processor. */
static bool alone(void)
{
	return !need_resched() && single_task_running();
}

/*
 * Before 6.5 no interrupt runs softirqs while ksoftirqd is to run: what is left to it waits for
 * a task of real-time priority as long as that likes. But where a tasklet is among them all of
 * them run, with the next tick at the latest.
 */
static void take_rest(struct tasklet_struct *rest)
{
	struct relay *relay = container_of(rest, struct relay, rest);

	if (local_softirq_pending() & BIT(NET_RX_SOFTIRQ) && relay->looks) {
		relay->looks--;
		tasklet_schedule(rest);
	}
}

/* Preemption disabled. */
static void leave_rest(void)
{
	struct relay *relay = this_cpu_ptr(relays);

	if (!local_softirq_pending())
		return;
	relay->looks = REST_LOOKS;
	tasklet_schedule(&relay->rest);
}

/* What comes from now on is the doorbells'; what came before is sent. */
static void relay_leave(struct roe_qp *qp)
{
	WRITE_ONCE(qp->relay.state, ROE_RELAY_LEAVING);
	/* the state before the ring index: pairs with the barrier in roe_relay_has() */
	smp_mb();
	roe_qp_poll(qp);
}

/* Its timer does not stay where somebody else wants to run. */
static void relay_let_go(struct relay *relay, struct roe_qp *qp)
{
	list_del(&qp->relay.node);
	WRITE_ONCE(relay->on, relay->on - 1);
	if (!alone())
		roe_qp_hand_over(qp, relay->from);
	off(qp);
}

/* Who has asked is taken, or sent away. */
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
		/* before the state: what comes from now on is the relay's */
		qp->relay.seen = roe_ring_posted(qp->sq.ring);
		WRITE_ONCE(qp->relay.state, ROE_RELAY_ON);
		/* the state before the ring index: pairs with the barrier in roe_relay_has() */
		smp_mb();
		/* posted before, but its doorbell may have seen the new state already */
		roe_qp_poll(qp);
	}
}

/**
 * roe_relay_news() - messages posted since the last look
 * @qp: of a relay
 *
 * Context: the relay; no lock.
 * Return: their number, after a whole lap that of those that are not copied in; 0 if none is
 * left in the ring, or for one look, if a whole lap was posted during it.
 */
u32 roe_relay_news(struct roe_qp *qp)
{
	/* before the ring index: what is posted in between is no lap */
	u32 pulled = smp_load_acquire(&qp->sq.pulled);
	u32 posted = roe_ring_posted(qp->sq.ring);
	u32 n = (posted - qp->relay.seen) & qp->sq.ring->mask;
	u32 prod = READ_ONCE(qp->sq.prod);

	qp->relay.seen = posted;
	/*
	 * A whole lap: the last look brought more than it had seen, and that is done already.
	 * Or it has left some to a worker, who is at it. If nothing was brought since the last
	 * lap, the process has set its index back.
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

/* One look at each ring, unless somebody is to run here. Returns the number of messages found. */
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
 * roe_relay_waits() - nothing comes: may there be more yet?
 * @now: ns
 * @idle_since: ns
 * @end: of the last doorbell of that process, ns
 * @patience: after that, ns
 *
 * A process that posts elsewhere goes on: that QP may come here, too. Not for long: if it is no
 * stream but one message at a time, that may go on for ever.
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

/* @found messages came in a sweep: is it worth while to go on? */
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

/* A grace period must not wait for the end of a stream: none of ours is used from here on. */
static void pass_grace_period(struct tally *tally)
{
	if (!time_after(jiffies, tally->passed))
		return;
	tally->passed = jiffies;
	local_irq_disable();
	/* without SMP there is no relay, nor that function for modules */
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

	/* see above, Contexts */
	preempt_disable();
	WRITE_ONCE(relay->active, true);
	do {
		pass_grace_period(&tally);
		stay = alone();
		relay_join(relay, &qps, &tally, stay);
		stay = stay && !list_empty(&qps) && worth(relay, &tally, sweep(relay, &qps));
	} while (stay);
	WRITE_ONCE(relay->active, false);
	/* before the last look for who has asked: pairs with the barrier in ask() */
	smp_mb();
	relay_join(relay, &qps, &tally, false);
	list_for_each_entry(qp, &qps, relay.node)
		relay_leave(qp);
	/* all of them behind the last train, in whose softirqs somebody may have woken up */
	list_for_each_entry_safe(qp, next, &qps, relay.node)
		relay_let_go(relay, qp);
	leave_rest();
	preempt_enable();
	/* the work may have been queued for one who was sent away by the run before */
	if (tally.qps)
		roe_poster_learn(&relay->poster, tally.messages, tally.sweeps);
	/* somebody was there: another one is asked the next time */
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
		/* all would go to one processor, otherwise, where one of them is alone */
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
