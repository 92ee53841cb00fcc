/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Multicast groups of a device: which of its QPs get the packets for a group, and the
 * membership of its netdev, without which switches do not forward these packets and filters
 * do not pass them. Changes are made under RTNL; readers use RCU.
 */
#ifndef ROE_MCAST_H
#define ROE_MCAST_H

#include <linux/hashtable.h>
#include <rdma/ib_verbs.h>

#define ROE_MAX_MCAST_GROUPS	8192
/* Each member costs a copy in softirq. */
#define ROE_MAX_MCAST_QPS	128

struct roe_dev;
struct roe_qp;
struct roe_rx_pkt;

struct roe_mcast {
	DECLARE_HASHTABLE(groups, 10);	/* RCU */
	unsigned int		nr;
};

void roe_mcast_init(struct roe_dev *dev);
/* IP or the masters of netdevs changed: join the groups where IP is configured now. RTNL. */
void roe_mcast_refresh(struct roe_dev *dev);

/*
 * The QPs attached to @gid on devices that see the traffic of @ndev: find one of them, or
 * NULL; give packets to all of them. RCU read-side section, softirqs disabled.
 */
struct roe_qp *roe_mcast_member(struct net *net, const struct net_device *ndev,
				const struct in6_addr *gid);
void roe_mcast_receive(struct net *net, const struct net_device *ndev,
		       const struct in6_addr *gid, struct roe_rx_pkt *pkts, unsigned int n);

/* verbs */
int roe_mcast_attach(struct ib_qp *ibqp, union ib_gid *gid, u16 lid);
int roe_mcast_detach(struct ib_qp *ibqp, union ib_gid *gid, u16 lid);

#endif /* ROE_MCAST_H */
