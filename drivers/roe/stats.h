/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Counters: per CPU, never shared on the fast path; named as in mlx5. A QP that is
 * bound to an rdma counter counts there and not in the device's counters; the core adds both up.
 */
#ifndef ROE_STATS_H
#define ROE_STATS_H

#include <linux/percpu.h>
#include "device.h"

enum roe_stat {
	ROE_STAT_TX_PKTS,		/* packets handed to IP */
	ROE_STAT_TX_BYTES,		/* ... and their bytes, BTH to ICRC */
	ROE_STAT_RX_PKTS,		/* packets with a correct ICRC for one of our QPs */
	ROE_STAT_RX_BYTES,		/* ... and their bytes, BTH to ICRC */
	ROE_STAT_DIRECT_PKTS,		/* from QP to QP of this device, without a network */
	ROE_STAT_DIRECT_BYTES,		/* payload */
	ROE_STAT_RELAYED,		/* messages that a relay sent on another CPU */
	ROE_STAT_RELAYS,		/* ... times that a relay took a QP over */
	ROE_STAT_HELD,			/* messages that waited for others: hold.c */
	ROE_STAT_TX_DROP,		/* refused by IP or a qdisc, or no memory */
	ROE_STAT_RX_ICRC_ERR,		/* rx_icrc_encapsulated */
	ROE_STAT_RX_MALFORMED,
	ROE_STAT_RX_NO_QP,
	ROE_STAT_RX_DROP,		/* wrong address or P_Key, or refused by its transport */
	ROE_STAT_RX_QKEY_ERR,		/* UD: Q_Key is not the QP's */
	ROE_STAT_DUP_REQ,		/* duplicate_request */
	ROE_STAT_OUT_OF_SEQ,		/* out_of_sequence: NAK 0x60 sent */
	ROE_STAT_RNR_SENT,		/* out_of_buffer: no receive WQE, no page (ODP) */
	ROE_STAT_RNR_RCVD,		/* rnr_nak_retry_err: whether retries were left or not */
	ROE_STAT_SEQ_NAK_RCVD,		/* packet_seq_err */
	ROE_STAT_IMPLIED_NAK,		/* implied_nak_seq_err */
	ROE_STAT_TIMEOUT,		/* local_ack_timeout_err */
	ROE_STAT_RETRANS,		/* packets sent again */
	ROE_STAT_NP_MARKED,		/* packets that came with CE */
	ROE_STAT_NP_CNP_SENT,
	ROE_STAT_RP_CNP_HANDLED,	/* CNPs for what is in flight, one window or more */
	ROE_STAT_RP_CNP_IGNORED,	/* nothing to slow down, or switched off */
	ROE_STAT_RETRY_EXC,
	ROE_STAT_RNR_RETRY_EXC,
	ROE_STAT_RX_WRITE,		/* messages of requests executed, by kind */
	ROE_STAT_RX_READ,
	ROE_STAT_RX_ATOMIC,
	ROE_STAT_REQ_CQE_ERR,		/* error completions of the requester ... */
	ROE_STAT_REQ_FLUSH_ERR,
	ROE_STAT_REQ_REM_INVALID,
	ROE_STAT_REQ_REM_ACCESS,
	ROE_STAT_RESP_CQE_ERR,		/* ... and of the responder */
	ROE_STAT_RESP_FLUSH_ERR,
	ROE_STAT_RESP_LEN_ERR,
	ROE_STAT_RESP_REM_ACCESS,	/* NAK 0x62 sent */
	ROE_STAT_NR
};

/* @stats: NULL in KUnit. Softirqs disabled or racy by design. For a QP: roe_qp_count(). */
static inline void roe_stat_count(u64 __percpu *stats, enum roe_stat stat, u64 n)
{
	if (stats)
		this_cpu_add(stats[stat], n);
}

static inline void roe_stat_add(struct roe_dev *dev, enum roe_stat stat, u64 n)
{
	if (dev)
		roe_stat_count(dev->stats, stat, n);
}

static inline void roe_stat_inc(struct roe_dev *dev, enum roe_stat stat)
{
	roe_stat_add(dev, stat, 1);
}

int roe_stat_init(struct roe_dev *dev);
void roe_stat_exit(struct roe_dev *dev);
u64 roe_stat_sum(struct roe_dev *dev, enum roe_stat stat);

/* verbs: rdma statistic, sysfs hw_counters of the port */
struct rdma_hw_stats *roe_stat_alloc_port(struct ib_device *ibdev, u32 port);
int roe_stat_get(struct ib_device *ibdev, struct rdma_hw_stats *hw, u32 port, int index);

/* verbs: rdma statistic qp */
struct rdma_hw_stats *roe_stat_alloc_counter(struct rdma_counter *counter);
int roe_stat_bind(struct rdma_counter *counter, struct ib_qp *ibqp);
int roe_stat_unbind(struct ib_qp *ibqp);
int roe_stat_dealloc_counter(struct rdma_counter *counter);
int roe_stat_update_counter(struct rdma_counter *counter);

#endif /* ROE_STATS_H */
