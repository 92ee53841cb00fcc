// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Multicast: groups, their QPs, IGMP and MLD membership.
 *
 * A group is joined when the first QP is attached and left when the last QP is detached. The
 * attach verb names no source address, so the group is joined on the device's own netdev, or on
 * the bond or bridge that this is a port of: packets for the group arrive there. A user who wants
 * a group on a VLAN joins it on the VLAN (RDMA-CM does) and attaches the QP.
 *
 * The reference to an in_device or inet6_dev says where a group is joined: IP forgets all
 * memberships with the end of that object, and a new one must join again.
 */
#include <linux/if_vlan.h>
#include <linux/igmp.h>
#include <linux/inetdevice.h>
#include <linux/jhash.h>
#include <linux/rculist.h>
#include <linux/rtnetlink.h>
#include <linux/slab.h>
#include <linux/net.h>
#include <net/addrconf.h>
#include "device.h"
#include "mcast.h"
#include "net.h"
#include "qp_run.h"

struct member {
	struct list_head	entry;		/* RCU */
	struct roe_qp		*qp;		/* detached before it is destroyed */
	u64			attached;	/* how many times; RTNL */
	struct rcu_head		rcu;
};

struct group {
	struct hlist_node	node;		/* RCU */
	struct in6_addr		gid;
	struct list_head	members;	/* RCU */
	unsigned int		nr;
	struct in_device	*in_dev;	/* joined there; NULL: not joined */
	struct inet6_dev	*in6_dev;	/* the same for IPv6 */
	struct rcu_head		rcu;
};

/* With a secret: processes choose the groups, and each packet for a group searches one list. */
static u32 hash(const struct in6_addr *gid)
{
	static u32 secret __read_mostly;

	net_get_random_once(&secret, sizeof(secret));
	return jhash2((__force const u32 *)gid->s6_addr32, 4, secret);
}

/* RTNL or RCU. */
static struct group *find(struct roe_dev *dev, const struct in6_addr *gid)
{
	struct group *g;

	hash_for_each_possible_rcu(dev->mcast.groups, g, node, hash(gid),
				   lockdep_rtnl_is_held())
		if (ipv6_addr_equal(&g->gid, gid))
			return g;
	return NULL;
}

static struct member *find_member(struct group *g, const struct roe_qp *qp)
{
	struct member *m;

	ASSERT_RTNL();
	list_for_each_entry(m, &g->members, entry)
		if (m->qp == qp)
			return m;
	return NULL;
}

/* --- membership --- */

/* Where IP is configured: not on a port of a bond or bridge, nor on a bond that is one. RTNL. */
static struct net_device *ip_netdev(const struct roe_dev *dev)
{
	struct net_device *ndev = dev->ndev, *master;

	while ((master = netdev_master_upper_dev_get(ndev)) && !netif_is_l3_master(master))
		ndev = master;
	return ndev;
}

static int join_v4(struct group *g, struct net_device *ndev)
{
	struct in_device *in_dev = __in_dev_get_rtnl(ndev);

	if (!in_dev)
		return -ENODEV;
	ip_mc_inc_group(in_dev, g->gid.s6_addr32[3]);
	in_dev_hold(in_dev);
	g->in_dev = in_dev;
	return 0;
}

static int join_v6(struct group *g, struct net_device *ndev)
{
	struct inet6_dev *in6_dev;
	int err;

	if (!ipv6_mod_enabled())
		return -ENODEV;
	in6_dev = __in6_dev_get(ndev);
	if (!in6_dev)
		return -ENODEV;
	err = ipv6_dev_mc_inc(ndev, &g->gid);
	if (err)
		return err;
	in6_dev_hold(in6_dev);
	g->in6_dev = in6_dev;
	return 0;
}

static int join(struct roe_dev *dev, struct group *g)
{
	struct net_device *ndev = ip_netdev(dev);

	return ipv6_addr_v4mapped(&g->gid) ? join_v4(g, ndev) : join_v6(g, ndev);
}

static void leave(struct group *g)
{
	if (g->in_dev) {
		if (__in_dev_get_rtnl(g->in_dev->dev) == g->in_dev)
			ip_mc_dec_group(g->in_dev, g->gid.s6_addr32[3]);
		in_dev_put(g->in_dev);
		g->in_dev = NULL;
	}
	if (ipv6_mod_enabled() && g->in6_dev) {
		if (__in6_dev_get(g->in6_dev->dev) == g->in6_dev)
			ipv6_dev_mc_dec(g->in6_dev->dev, &g->gid);
		in6_dev_put(g->in6_dev);
		g->in6_dev = NULL;
	}
}

static bool joined(const struct roe_dev *dev, const struct group *g)
{
	struct net_device *ndev = ip_netdev(dev);

	if (ipv6_addr_v4mapped(&g->gid))
		return g->in_dev && __in_dev_get_rtnl(ndev) == g->in_dev;
	return g->in6_dev && __in6_dev_get(ndev) == g->in6_dev;
}

/**
 * roe_mcast_refresh() - join the groups where IP is configured now
 * @dev: device
 *
 * RTNL held. The netdev, or its master, may have got a new in_device or
 * inet6_dev, or another master.
 */
void roe_mcast_refresh(struct roe_dev *dev)
{
	struct group *g;
	int bucket;

	ASSERT_RTNL();
	hash_for_each(dev->mcast.groups, bucket, g, node) {
		if (joined(dev, g))
			continue;
		leave(g);
		join(dev, g);
	}
}

ROE_EXPORT_FOR_TEST(roe_mcast_refresh);

/* --- groups --- */

static struct group *create(struct roe_dev *dev, const struct in6_addr *gid)
{
	struct group *g;
	int err;

	if (dev->mcast.nr == ROE_MAX_MCAST_GROUPS)
		return ERR_PTR(-ENOMEM);
	g = kzalloc(sizeof(*g), GFP_KERNEL_ACCOUNT);
	if (!g)
		return ERR_PTR(-ENOMEM);
	g->gid = *gid;
	INIT_LIST_HEAD(&g->members);
	err = join(dev, g);
	if (err) {
		kfree(g);
		return ERR_PTR(err);
	}
	dev->mcast.nr++;
	hash_add_rcu(dev->mcast.groups, &g->node, hash(gid));
	return g;
}

static void drop_if_empty(struct roe_dev *dev, struct group *g)
{
	if (g->nr)
		return;
	leave(g);
	hash_del_rcu(&g->node);
	dev->mcast.nr--;
	kfree_rcu(g, rcu);
}

static int add_member(struct group *g, struct roe_qp *qp)
{
	struct member *m = find_member(g, qp);

	if (m) {
		m->attached++;
		return 0;
	}
	if (g->nr == ROE_MAX_MCAST_QPS)
		return -ENOMEM;
	m = kzalloc(sizeof(*m), GFP_KERNEL_ACCOUNT);
	if (!m)
		return -ENOMEM;
	m->qp = qp;
	m->attached = 1;
	g->nr++;
	list_add_tail_rcu(&m->entry, &g->members);
	return 0;
}

static int attach(struct roe_dev *dev, struct roe_qp *qp, const struct in6_addr *gid)
{
	struct group *g = find(dev, gid);
	int err;

	if (!g)
		g = create(dev, gid);
	if (IS_ERR(g))
		return PTR_ERR(g);
	err = add_member(g, qp);
	drop_if_empty(dev, g);
	return err;
}

static int detach(struct roe_dev *dev, struct roe_qp *qp, const struct in6_addr *gid)
{
	struct group *g = find(dev, gid);
	struct member *m = g ? find_member(g, qp) : NULL;

	if (!m)
		return -EINVAL;
	if (--m->attached)
		return 0;
	list_del_rcu(&m->entry);
	g->nr--;
	kfree_rcu(m, rcu);
	drop_if_empty(dev, g);
	return 0;
}

/**
 * roe_mcast_attach() - verb
 * @ibqp: UD QP, which the core does not destroy before it is detached
 * @gid: group; an IPv4 one as ::ffff:a.b.c.d
 * @lid: unused
 *
 * Process context, RTNL not held. To attach a QP again changes nothing (IBTA C11-24), but as many
 * detaches are needed then: the core counts attachments, and does not destroy a QP that has one
 * left. To uverbs it is another attachment if the LID differs, which RoCE does not have.
 *
 * Return: 0; -ENOMEM, also for too many groups or QPs; -ENODEV if the netdev has no IP.
 */
int roe_mcast_attach(struct ib_qp *ibqp, union ib_gid *gid, u16 lid)
{
	int err;

	rtnl_lock();
	err = attach(roe_dev(ibqp->device), roe_qp(ibqp), (const struct in6_addr *)gid);
	rtnl_unlock();
	return err;
}

ROE_EXPORT_FOR_TEST(roe_mcast_attach);

/**
 * roe_mcast_detach() - verb
 * @ibqp: QP
 * @gid: group
 * @lid: unused
 *
 * Return: 0, or -EINVAL if it was not attached.
 */
int roe_mcast_detach(struct ib_qp *ibqp, union ib_gid *gid, u16 lid)
{
	int err;

	rtnl_lock();
	err = detach(roe_dev(ibqp->device), roe_qp(ibqp), (const struct in6_addr *)gid);
	rtnl_unlock();
	return err;
}

ROE_EXPORT_FOR_TEST(roe_mcast_detach);

/* --- delivery --- */

/* Is @ndev @lower, or above it by VLANs and masters? Recursion: at most MAX_NEST_DEV deep. */
static bool lies_above(const struct net_device *ndev, struct net_device *lower)
{
	struct net_device *upper, *master;
	struct list_head *iter;

	if (lower == ndev)
		return true;
	master = netdev_master_upper_dev_get_rcu(lower);
	netdev_for_each_upper_dev_rcu(lower, upper, iter) {
		if (!is_vlan_dev(upper) && (upper != master || netif_is_l3_master(upper)))
			continue;
		if (lies_above(ndev, upper))
			return true;
	}
	return false;
}

/* Is @lower @ndev, a port of it, or a port of its port? VRFs do not count: see comes_by(). */
static bool port_of(struct net_device *lower, const struct net_device *ndev)
{
	for (; lower && !netif_is_l3_master(lower); lower = netdev_master_upper_dev_get_rcu(lower))
		if (lower == ndev)
			return true;
	return false;
}

/*
 * Does what arrives on @ndev come by way of @lower? Yes if @ndev is a VLAN over @lower, or has
 * it as a port, or both. Not for other netdevs above @lower: a macvlan gets its own copy of the
 * same packet, and a packet in a VRF counts as arrived on one of its slaves. There may be
 * thousands of VLANs above @lower, so these are looked at only if @ndev is a bridge or bond,
 * whose ports they may be.
 */
static bool comes_by(struct net_device *lower, const struct net_device *ndev)
{
	const struct net_device *real = is_vlan_dev(ndev) ? vlan_dev_real_dev(ndev) : ndev;

	if (port_of(lower, real))
		return true;
	return (netif_is_bridge_master(real) || netif_is_lag_master(real)) &&
	       lies_above(real, lower);
}

/* The group on @dev, if the device has members in it and sees what arrives on @ndev. */
static struct group *find_heard(struct roe_dev *dev, const struct net_device *ndev,
				const struct in6_addr *gid)
{
	struct group *g = find(dev, gid);

	return g && comes_by(dev->ndev, ndev) ? g : NULL;
}

/**
 * roe_mcast_member() - is any QP attached to a group?
 * @net: namespace
 * @ndev: where a packet came in
 * @gid: group
 *
 * RCU read-side section, in which the result is valid.
 *
 * Return: any QP attached to it, or NULL.
 */
struct roe_qp *roe_mcast_member(struct net *net, const struct net_device *ndev,
				const struct in6_addr *gid)
{
	const struct roe_presence *p;
	struct member *m;
	struct group *g;

	list_for_each_entry_rcu(p, roe_net_presences(net), in_net) {
		g = find_heard(p->dev, ndev, gid);
		m = g ? list_first_or_null_rcu(&g->members, struct member, entry) : NULL;
		if (m)
			return m->qp;
	}
	return NULL;
}

ROE_EXPORT_FOR_TEST(roe_mcast_member);

static void deliver(const struct group *g, struct roe_rx_pkt *pkts, unsigned int n)
{
	const struct member *m;

	list_for_each_entry_rcu(m, &g->members, entry)
		roe_qp_receive(m->qp, pkts, n);
}

/**
 * roe_mcast_receive() - give packets to all QPs of a group, also to their local sender
 * @net: namespace
 * @ndev: where they came in
 * @gid: group
 * @pkts: proven datagrams
 * @n: how many
 *
 * RCU read-side section, softirqs disabled. A QP that is being detached may be
 * among the receivers; it stays valid (qp.c).
 */
void roe_mcast_receive(struct net *net, const struct net_device *ndev,
		       const struct in6_addr *gid, struct roe_rx_pkt *pkts, unsigned int n)
{
	const struct roe_presence *p;
	const struct group *g;

	list_for_each_entry_rcu(p, roe_net_presences(net), in_net) {
		g = find_heard(p->dev, ndev, gid);
		if (g)
			deliver(g, pkts, n);
	}
}

/**
 * roe_mcast_init() - a device without groups
 * @dev: device
 */
void roe_mcast_init(struct roe_dev *dev)
{
	hash_init(dev->mcast.groups);
}

ROE_EXPORT_FOR_TEST(roe_mcast_init);
