// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * What "rdma resource show qp|cq|mr -dd" tells beyond the core's basics: where
 * the engines of a QP stand, what is left in a CQ, how an MR lies in memory.
 */
#include <net/netlink.h>
#include <rdma/restrack.h>
#include "cq.h"
#include "mr.h"
#include "odp.h"
#include "qp.h"
#include "restrack.h"

struct item {
	const char	*name;
	u64		value;
};

static int put_items(struct sk_buff *msg, const struct item *items, unsigned int n)
{
	for (; n; n--, items++)
		if (rdma_nl_put_driver_u64(msg, items->name, items->value))
			return -EMSGSIZE;
	return 0;
}

static int put(struct sk_buff *msg, const struct item *items, unsigned int n)
{
	struct nlattr *table = nla_nest_start(msg, RDMA_NLDEV_ATTR_DRIVER);

	if (!table)
		return -EMSGSIZE;
	if (put_items(msg, items, n)) {
		nla_nest_cancel(msg, table);
		return -EMSGSIZE;
	}
	nla_nest_end(msg, table);
	return 0;
}

/* Time left to a deadline, us; 0: none, or due. */
static u64 left_us(u64 deadline, u64 now)
{
	return deadline > now ? (deadline - now) / NSEC_PER_USEC : 0;
}

/**
 * roe_restrack_qp() - ib_device_ops.fill_res_qp_entry
 * @msg: netlink message
 * @ibqp: the QP
 *
 * Return: 0 or -EMSGSIZE.
 */
int roe_restrack_qp(struct sk_buff *msg, struct ib_qp *ibqp)
{
	struct roe_qp *qp = roe_qp(ibqp);
	const struct roe_req *req = &qp->req;
	const struct roe_resp *resp = &qp->resp;
	u64 now = ktime_get_ns();

	/* read without the lock: each value was true at some moment during this call */
	const struct item items[] = {
		{ "sq_posted", READ_ONCE(qp->sq.prod) - READ_ONCE(qp->sq.cons) },
		{ "sq_psn", req->psn },
		{ "sq_una", req->una },
		{ "sq_sent", req->max_psn },
		{ "window", req->cwnd },
		{ "rd_atomic", req->rd_out },
		{ "retry_left", req->retry_cnt },
		{ "rnr_retry_left", req->rnr_retry },
		{ "rnr_wait", req->rnr_wait },
		{ "srtt_ns", req->srtt },
		{ "ack_timer_us", left_us(READ_ONCE(req->ack_deadline), now) },
		{ "early_timer_us", left_us(READ_ONCE(req->early_deadline), now) },
		{ "rq_psn", resp->psn },
		{ "rq_msn", resp->msn },
		{ "rq_rd_atomic", resp->rsrc_pending + resp->flush_nr },
		{ "rq_nak", resp->nak_state },
		{ "direct", req->direct || resp->direct },
	};

	/* the other items mean nothing for datagrams */
	return put(msg, items, roe_qp_is_ud(qp) ? 2 : ARRAY_SIZE(items));
}

/**
 * roe_restrack_cq() - ib_device_ops.fill_res_cq_entry
 * @msg: netlink message
 * @ibcq: the CQ
 *
 * Return: 0 or -EMSGSIZE.
 */
int roe_restrack_cq(struct sk_buff *msg, struct ib_cq *ibcq)
{
	struct roe_cq *cq = roe_cq(ibcq);
	const struct item items[] = {
		{ "unpolled", roe_cq_unpolled(cq) },
		{ "armed", READ_ONCE(cq->armed) },
		{ "overrun", READ_ONCE(cq->overrun) },
	};

	return put(msg, items, ARRAY_SIZE(items));
}

/**
 * roe_restrack_mr() - ib_device_ops.fill_res_mr_entry
 * @msg: netlink message
 * @ibmr: the MR
 *
 * Return: 0 or -EMSGSIZE.
 */
int roe_restrack_mr(struct sk_buff *msg, struct ib_mr *ibmr)
{
	struct roe_mr *mr = roe_mr(ibmr);
	const struct item items[] = {
		{ "access", mr->access },
		{ "extents", mr->mem.nr },
		{ "valid", READ_ONCE(mr->state) == ROE_MR_VALID },
		{ "odp", !!mr->odp },
	};

	return put(msg, items, ARRAY_SIZE(items));
}

/* False: the MR is not on demand. The lock is needed because rereg_mr may change that. */
static bool count_pages(struct roe_mr *mr, struct item *items)
{
	const struct roe_odp *odp;

	spin_lock_bh(&mr->lock);
	odp = mr->odp;
	if (odp) {
		items[0] = (struct item){ "page_faults", atomic64_read(&odp->faults) };
		items[1] = (struct item){ "page_invalidations",
					  atomic64_read(&odp->invalidations) };
		items[2] = (struct item){ "page_prefetch", atomic64_read(&odp->prefetched) };
	}
	spin_unlock_bh(&mr->lock);
	return odp;
}

/**
 * roe_restrack_mr_stat() - ib_device_ops.fill_stat_mr_entry
 * @msg: netlink message
 * @ibmr: the MR
 *
 * Counts of pages of on-demand memory, with the names that other drivers use.
 *
 * Return: 0 or -EMSGSIZE.
 */
int roe_restrack_mr_stat(struct sk_buff *msg, struct ib_mr *ibmr)
{
	struct item items[3];
	struct nlattr *table;
	unsigned int i;

	if (!count_pages(roe_mr(ibmr), items))
		return 0;
	table = nla_nest_start(msg, RDMA_NLDEV_ATTR_STAT_HWCOUNTERS);
	if (!table)
		return -EMSGSIZE;
	for (i = 0; i < ARRAY_SIZE(items); i++) {
		if (!rdma_nl_stat_hwcounter_entry(msg, items[i].name, items[i].value))
			continue;
		nla_nest_cancel(msg, table);
		return -EMSGSIZE;
	}
	nla_nest_end(msg, table);
	return 0;
}
