// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Counters as "rdma statistic" and sysfs hw_counters show them. Where mlx5
 * counts the same thing the name is mlx5's, so that tools know it.
 *
 * QPs that a user chooses, or all of one process or type, can have counters of their own
 * ("rdma statistic qp") and count there instead. For a port "rdma statistic" and sysfs show
 * the sum, including what was in counters that no longer exist; the core computes it. For the
 * counters of mad.c roe_stat_sum() does so.
 */
#include <linux/cpumask.h>
#include <linux/mutex.h>
#include <linux/slab.h>
#include <linux/xarray.h>
#include <rdma/rdma_counter.h>
#include "qp.h"
#include "stats.h"

struct roe_counter {
	u64 __percpu	*stats;
};

/* The counters of one device to which QPs are bound. */
struct roe_counters {
	/* A mutex: a sum over all counters and CPUs, which keeps them, takes long. Innermost. */
	struct mutex	lock;
	struct xarray	table;	/* id -> struct roe_counter */
	u64		past[ROE_STAT_NR];	/* sums of those deallocated */
};

static const struct rdma_stat_desc descs[ROE_STAT_NR] = {
	[ROE_STAT_TX_PKTS].name		= "tx_pkts",
	[ROE_STAT_TX_BYTES].name	= "tx_bytes",
	[ROE_STAT_RX_PKTS].name		= "rx_pkts",
	[ROE_STAT_RX_BYTES].name	= "rx_bytes",
	[ROE_STAT_DIRECT_PKTS].name	= "direct_pkts",
	[ROE_STAT_DIRECT_BYTES].name	= "direct_bytes",
	[ROE_STAT_RELAYED].name		= "relayed_messages",
	[ROE_STAT_RELAYS].name		= "relayed_streams",
	[ROE_STAT_HELD].name		= "held_messages",
	[ROE_STAT_TX_DROP].name		= "tx_drop",
	[ROE_STAT_RX_ICRC_ERR].name	= "rx_icrc_encapsulated",
	[ROE_STAT_RX_MALFORMED].name	= "rx_malformed",
	[ROE_STAT_RX_NO_QP].name	= "rx_no_qp",
	[ROE_STAT_RX_DROP].name		= "rx_drop",
	[ROE_STAT_RX_QKEY_ERR].name	= "rx_qkey_violation",
	[ROE_STAT_DUP_REQ].name		= "duplicate_request",
	[ROE_STAT_OUT_OF_SEQ].name	= "out_of_sequence",
	[ROE_STAT_RNR_SENT].name	= "out_of_buffer",
	[ROE_STAT_RNR_RCVD].name	= "rnr_nak_retry_err",
	[ROE_STAT_SEQ_NAK_RCVD].name	= "packet_seq_err",
	[ROE_STAT_IMPLIED_NAK].name	= "implied_nak_seq_err",
	[ROE_STAT_TIMEOUT].name		= "local_ack_timeout_err",
	[ROE_STAT_RETRANS].name		= "retransmitted_pkts",
	[ROE_STAT_NP_MARKED].name	= "np_ecn_marked_roce_packets",
	[ROE_STAT_NP_CNP_SENT].name	= "np_cnp_sent",
	[ROE_STAT_RP_CNP_HANDLED].name	= "rp_cnp_handled",
	[ROE_STAT_RP_CNP_IGNORED].name	= "rp_cnp_ignored",
	[ROE_STAT_RETRY_EXC].name	= "req_transport_retries_exceeded",
	[ROE_STAT_RNR_RETRY_EXC].name	= "req_rnr_retries_exceeded",
	[ROE_STAT_RX_WRITE].name	= "rx_write_requests",
	[ROE_STAT_RX_READ].name		= "rx_read_requests",
	[ROE_STAT_RX_ATOMIC].name	= "rx_atomic_requests",
	[ROE_STAT_REQ_CQE_ERR].name	= "req_cqe_error",
	[ROE_STAT_REQ_FLUSH_ERR].name	= "req_cqe_flush_error",
	[ROE_STAT_REQ_REM_INVALID].name	= "req_remote_invalid_request",
	[ROE_STAT_REQ_REM_ACCESS].name	= "req_remote_access_errors",
	[ROE_STAT_RESP_CQE_ERR].name	= "resp_cqe_error",
	[ROE_STAT_RESP_FLUSH_ERR].name	= "resp_cqe_flush_error",
	[ROE_STAT_RESP_LEN_ERR].name	= "resp_local_length_error",
	[ROE_STAT_RESP_REM_ACCESS].name	= "resp_remote_access_errors",
};

static u64 __percpu *alloc_stats(void)
{
	return __alloc_percpu(ROE_STAT_NR * sizeof(u64), __alignof__(u64));
}

/**
 * roe_stat_init() - counters of a new device
 * @dev: not registered yet
 *
 * Return: 0 or -ENOMEM; also then roe_stat_exit() frees what there is.
 */
int roe_stat_init(struct roe_dev *dev)
{
	dev->stats = alloc_stats();
	dev->counters = kzalloc(sizeof(*dev->counters), GFP_KERNEL);
	if (!dev->counters)
		return -ENOMEM;
	mutex_init(&dev->counters->lock);
	xa_init_flags(&dev->counters->table, XA_FLAGS_ALLOC1);
	return dev->stats ? 0 : -ENOMEM;
}

ROE_EXPORT_FOR_TEST(roe_stat_init);

static void free_counter(struct roe_counter *own)
{
	free_percpu(own->stats);
	kfree(own);
}

/**
 * roe_stat_exit() - free the counters of a device
 * @dev: without QPs
 */
void roe_stat_exit(struct roe_dev *dev)
{
	struct roe_counter *own;
	unsigned long id;

	if (dev->counters) {
		/* An older core forgets one if a QP is bound while it is destroyed. */
		xa_for_each(&dev->counters->table, id, own)
			free_counter(own);
		xa_destroy(&dev->counters->table);
		mutex_destroy(&dev->counters->lock);
		kfree(dev->counters);
	}
	free_percpu(dev->stats);
}

ROE_EXPORT_FOR_TEST(roe_stat_exit);

static u64 sum(u64 __percpu *stats, enum roe_stat stat)
{
	u64 sum = 0;
	int cpu;

	for_each_possible_cpu(cpu)
		sum += READ_ONCE(per_cpu_ptr(stats, cpu)[stat]);
	return sum;
}

/**
 * roe_stat_sum() - one counter over all CPUs and all QPs, bound or not
 * @dev: device
 * @stat: which
 *
 * Context: process.
 * Return: the sum, not that of a single moment: other CPUs go on counting meanwhile.
 */
u64 roe_stat_sum(struct roe_dev *dev, enum roe_stat stat)
{
	struct roe_counters *counters = dev->counters;
	struct roe_counter *own;
	unsigned long id;
	u64 all;

	mutex_lock(&counters->lock);
	all = sum(dev->stats, stat) + counters->past[stat];
	xa_for_each(&counters->table, id, own)
		all += sum(own->stats, stat);
	mutex_unlock(&counters->lock);
	return all;
}

ROE_EXPORT_FOR_TEST(roe_stat_sum);

/**
 * roe_stat_alloc_port() - ib_device_ops.alloc_hw_port_stats
 * @ibdev: device
 * @port: 1
 *
 * Return: names and room for values; NULL without memory.
 */
struct rdma_hw_stats *roe_stat_alloc_port(struct ib_device *ibdev, u32 port)
{
	return rdma_alloc_hw_stats_struct(descs, ARRAY_SIZE(descs),
					  RDMA_HW_STATS_DEFAULT_LIFESPAN);
}

static void fill(struct rdma_hw_stats *hw, u64 __percpu *stats)
{
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(descs); i++)
		hw->value[i] = sum(stats, i);
}

/**
 * roe_stat_get() - ib_device_ops.get_hw_stats: the port without the QPs bound to counters
 * @ibdev: device
 * @hw: of roe_stat_alloc_port()
 * @port: 1
 * @index: which; nldev asks for 0 and shows all of them, so all are always filled in
 *
 * Return: number of counters.
 */
int roe_stat_get(struct ib_device *ibdev, struct rdma_hw_stats *hw, u32 port, int index)
{
	fill(hw, roe_dev(ibdev)->stats);
	return ARRAY_SIZE(descs);
}

/* --- counters of some QPs -------------------------------------------------- */

/**
 * roe_stat_alloc_counter() - ib_device_ops.counter_alloc_stats
 * @counter: new
 *
 * The same counters as the port has, in the same order: the core adds them up by index.
 *
 * Return: as roe_stat_alloc_port().
 */
struct rdma_hw_stats *roe_stat_alloc_counter(struct rdma_counter *counter)
{
	return roe_stat_alloc_port(counter->device, counter->port);
}

static struct roe_counter *new_counter(struct roe_dev *dev, struct rdma_counter *counter)
{
	struct roe_counter *own = kzalloc(sizeof(*own), GFP_KERNEL);
	int err = -ENOMEM;

	if (!own)
		return ERR_PTR(-ENOMEM);
	own->stats = alloc_stats();
	if (own->stats)
		err = xa_alloc(&dev->counters->table, &counter->id, own, xa_limit_31b,
			       GFP_KERNEL);
	if (!err)
		return own;
	free_counter(own);
	return ERR_PTR(err);
}

/* If two threads bind the QP at once, one of them must fail. */
static int attach(struct roe_qp *qp, struct rdma_counter *counter, u64 __percpu *stats)
{
	int err = -EBUSY;

	spin_lock_bh(&qp->lock);
	if (!qp->ib.counter) {
		qp->ib.counter = counter;
		WRITE_ONCE(qp->stats, stats);
		err = 0;
	}
	spin_unlock_bh(&qp->lock);
	return err;
}

/**
 * roe_stat_bind() - ib_device_ops.counter_bind_qp: a QP counts here from now on
 * @counter: its struct roe_counter is allocated with the first QP
 * @ibqp: QP
 *
 * The core holds counter->lock, here and in the functions below.
 *
 * Return: 0, -ENOMEM, -EINVAL if the counter is on its way out, or -EBUSY if the QP has
 * another one.
 */
int roe_stat_bind(struct rdma_counter *counter, struct ib_qp *ibqp)
{
	struct roe_dev *dev = roe_dev(counter->device);
	bool first = !counter->id;
	struct roe_counter *own;
	int err;

	own = first ? new_counter(dev, counter) : xa_load(&dev->counters->table, counter->id);
	/* a core without the fix of counter_release() may bind to a counter that is going away */
	if (!own)
		return -EINVAL;
	if (IS_ERR(own))
		return PTR_ERR(own);
	err = attach(roe_qp(ibqp), counter, own->stats);
	if (err && first) {
		mutex_lock(&dev->counters->lock);
		xa_erase(&dev->counters->table, counter->id);
		mutex_unlock(&dev->counters->lock);
		free_counter(own);
	}
	return err;
}

/**
 * roe_stat_unbind() - ib_device_ops.counter_unbind_qp
 * @ibqp: QP
 *
 * A run of the QP that is under way still counts there, until its RCU read-side section ends.
 * This function waits for that: once the last QP is unbound the core reads the counter once
 * more and then frees it.
 *
 * Return: 0, or -EINVAL if it is not bound.
 */
int roe_stat_unbind(struct ib_qp *ibqp)
{
	struct roe_qp *qp = roe_qp(ibqp);
	int err = -EINVAL;

	spin_lock_bh(&qp->lock);
	if (ibqp->counter) {
		ibqp->counter = NULL;
		WRITE_ONCE(qp->stats, qp->dev->stats);
		err = 0;
	}
	spin_unlock_bh(&qp->lock);
	if (!err)
		synchronize_rcu_expedited();
	return err;
}

/**
 * roe_stat_dealloc_counter() - ib_device_ops.counter_dealloc
 * @counter: its last QP was unbound, so nobody counts there any more
 *
 * Return: 0.
 */
int roe_stat_dealloc_counter(struct rdma_counter *counter)
{
	struct roe_counters *counters = roe_dev(counter->device)->counters;
	struct roe_counter *own;
	unsigned int i;

	mutex_lock(&counters->lock);
	own = xa_erase(&counters->table, counter->id);
	for (i = 0; own && i < ROE_STAT_NR; i++)
		counters->past[i] += sum(own->stats, i);
	mutex_unlock(&counters->lock);
	if (own)
		free_counter(own);
	return 0;
}

/**
 * roe_stat_update_counter() - ib_device_ops.counter_update_stats
 * @counter: takes the sums
 *
 * Return: 0, or -EINVAL if no QP was ever bound to it.
 */
int roe_stat_update_counter(struct rdma_counter *counter)
{
	struct roe_counters *counters = roe_dev(counter->device)->counters;
	struct roe_counter *own;

	/* the core that may bind to a counter that is going away may also read it */
	mutex_lock(&counters->lock);
	own = xa_load(&counters->table, counter->id);
	if (own)
		fill(counter->stats, own->stats);
	mutex_unlock(&counters->lock);
	return own ? 0 : -EINVAL;
}
