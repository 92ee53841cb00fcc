// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Counters as "rdma statistic" and sysfs hw_counters show them. Where mlx5
 * counts the same thing the name is mlx5's, so that tools know it.
 */
#include <linux/cpumask.h>
#include "stats.h"

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

/**
 * roe_stat_sum() - one counter over all CPUs
 * @dev: device
 * @stat: which
 *
 * Return: a sum that was right at no single moment: other CPUs go on counting.
 */
u64 roe_stat_sum(const struct roe_dev *dev, enum roe_stat stat)
{
	u64 sum = 0;
	int cpu;

	for_each_possible_cpu(cpu)
		sum += READ_ONCE(per_cpu_ptr(dev->stats, cpu)[stat]);
	return sum;
}

struct rdma_hw_stats *roe_stat_alloc_port(struct ib_device *ibdev, u32 port)
{
	return rdma_alloc_hw_stats_struct(descs, ARRAY_SIZE(descs),
					  RDMA_HW_STATS_DEFAULT_LIFESPAN);
}

/* nldev asks for counter 0 and shows all of them: so all are always filled. */
int roe_stat_get(struct ib_device *ibdev, struct rdma_hw_stats *hw, u32 port, int index)
{
	const struct roe_dev *dev = roe_dev(ibdev);
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(descs); i++)
		hw->value[i] = roe_stat_sum(dev, i);
	return ARRAY_SIZE(descs);
}
