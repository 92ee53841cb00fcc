// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Multicast groups: who is a member of what, as often as he has attached, what the netdev
 * has joined, and that neither is more than that allows.
 */
#include <kunit/test.h>
#include <linux/etherdevice.h>
#include <linux/igmp.h>
#include <linux/inetdevice.h>
#include <linux/netdevice.h>
#include <linux/rtnetlink.h>
#include <net/addrconf.h>
#include <net/net_namespace.h>
#include "../drivers/roe/device.h"
#include "../drivers/roe/net.h"
#include "../drivers/roe/qp.h"

#define V4	0xefff0102	/* 239.255.1.2 */

struct fixture {
	struct roe_dev		dev;
	struct roe_presence	*presence;
	struct net_device	*other;		/* without IP, and not registered */
	struct roe_qp		*qps[ROE_MAX_MCAST_QPS + 1];
};

static int setup(struct kunit *test)
{
	struct fixture *f = kunit_kzalloc(test, sizeof(*f), GFP_KERNEL);
	unsigned int i;

	if (!ipv6_mod_enabled())
		kunit_skip(test, "half of the groups are of IPv6");
	test->priv = f;
	if (!f)
		return -ENOMEM;
	f->dev.net = &init_net;
	f->dev.ndev = init_net.loopback_dev;
	INIT_LIST_HEAD(&f->dev.presences);
	roe_mcast_init(&f->dev);
	for (i = 0; i < ARRAY_SIZE(f->qps); i++) {
		f->qps[i] = kunit_kzalloc(test, sizeof(*f->qps[i]), GFP_KERNEL);
		if (!f->qps[i])
			return -ENOMEM;
		f->qps[i]->ib.device = &f->dev.ib;
	}
	f->other = alloc_netdev(0, "other%d", NET_NAME_UNKNOWN, ether_setup);
	if (!f->other)
		return -ENOMEM;
	f->presence = roe_net_enter(&f->dev, &init_net);
	return PTR_ERR_OR_ZERO(f->presence);
}

/* Every case has detached what it attached. */
static void teardown(struct kunit *test)
{
	struct fixture *f = test->priv;

	if (!f)
		return;
	KUNIT_EXPECT_EQ(test, f->dev.mcast.nr, 0);
	if (!IS_ERR_OR_NULL(f->presence))
		roe_net_leave(f->presence);
	if (f->other)
		free_netdev(f->other);
}

/* The n-th group of IPv4, or of IPv6. */
static union ib_gid group(bool v6, u32 n)
{
	struct in6_addr addr;

	if (v6)
		ipv6_addr_set(&addr, htonl(0xff150000), 0, 0, htonl(V4 + n));
	else
		ipv6_addr_set_v4mapped(htonl(V4 + n), &addr);
	return *(union ib_gid *)&addr;
}

static int attach(struct fixture *f, unsigned int qp, bool v6, u32 n)
{
	union ib_gid gid = group(v6, n);

	return roe_mcast_attach(&f->qps[qp]->ib, &gid, 0);
}

static int detach(struct fixture *f, unsigned int qp, bool v6, u32 n)
{
	union ib_gid gid = group(v6, n);

	return roe_mcast_detach(&f->qps[qp]->ib, &gid, 0);
}

/* How often lo is a member of the first group. */
static unsigned int users(bool v6)
{
	union ib_gid gid = group(v6, 0);
	struct ifmcaddr6 *mc6;
	struct ip_mc_list *mc;
	unsigned int n = 0;

	rtnl_lock();
	mc = rtnl_dereference(__in_dev_get_rtnl(init_net.loopback_dev)->mc_list);
	for (; mc && !v6; mc = rtnl_dereference(mc->next_rcu))
		if (mc->multiaddr == htonl(V4))
			n = mc->users;
	mc6 = rtnl_dereference(__in6_dev_get(init_net.loopback_dev)->mc_list);
	for (; mc6 && v6; mc6 = rtnl_dereference(mc6->next))
		if (ipv6_addr_equal(&mc6->mca_addr, (struct in6_addr *)&gid))
			n = mc6->mca_users;
	rtnl_unlock();
	return n;
}

static struct roe_qp *member(const struct net_device *ndev, bool v6, u32 n)
{
	union ib_gid gid = group(v6, n);
	struct roe_qp *qp;

	rcu_read_lock();
	qp = roe_mcast_member(&init_net, ndev, (const struct in6_addr *)&gid);
	rcu_read_unlock();
	return qp;
}

/* One membership for all QPs of a group, from the first to the last. */
static void joined_once(struct kunit *test, bool v6)
{
	struct fixture *f = test->priv;

	KUNIT_EXPECT_EQ(test, users(v6), 0);
	KUNIT_EXPECT_EQ(test, attach(f, 0, v6, 0), 0);
	KUNIT_EXPECT_EQ(test, attach(f, 1, v6, 0), 0);
	KUNIT_EXPECT_EQ(test, users(v6), 1);
	KUNIT_EXPECT_EQ(test, f->dev.mcast.nr, 1);
	KUNIT_EXPECT_EQ(test, detach(f, 0, v6, 0), 0);
	KUNIT_EXPECT_EQ(test, users(v6), 1);
	KUNIT_EXPECT_PTR_EQ(test, member(init_net.loopback_dev, v6, 0), f->qps[1]);
	KUNIT_EXPECT_EQ(test, detach(f, 1, v6, 0), 0);
	KUNIT_EXPECT_EQ(test, users(v6), 0);
	KUNIT_EXPECT_NULL(test, member(init_net.loopback_dev, v6, 0));
}

static void mcast_joined_v4(struct kunit *test)
{
	joined_once(test, false);
}

static void mcast_joined_v6(struct kunit *test)
{
	joined_once(test, true);
}

/* IBTA C11-24: it changes nothing; but each attachment is one to uverbs. */
static void mcast_attached_again(struct kunit *test)
{
	struct fixture *f = test->priv;

	KUNIT_EXPECT_EQ(test, attach(f, 0, false, 0), 0);
	KUNIT_EXPECT_EQ(test, attach(f, 0, false, 0), 0);
	KUNIT_EXPECT_EQ(test, users(false), 1);
	KUNIT_EXPECT_EQ(test, detach(f, 0, false, 0), 0);
	KUNIT_EXPECT_PTR_EQ(test, member(init_net.loopback_dev, false, 0), f->qps[0]);
	KUNIT_EXPECT_EQ(test, detach(f, 0, false, 0), 0);
	KUNIT_EXPECT_EQ(test, users(false), 0);
	KUNIT_EXPECT_EQ(test, detach(f, 0, false, 0), -EINVAL);
}

static void mcast_not_attached(struct kunit *test)
{
	struct fixture *f = test->priv;

	KUNIT_EXPECT_EQ(test, detach(f, 0, false, 0), -EINVAL);
	KUNIT_EXPECT_EQ(test, attach(f, 0, false, 0), 0);
	KUNIT_EXPECT_EQ(test, detach(f, 1, false, 0), -EINVAL);
	KUNIT_EXPECT_EQ(test, detach(f, 0, true, 0), -EINVAL);
	KUNIT_EXPECT_EQ(test, detach(f, 0, false, 1), -EINVAL);
	KUNIT_EXPECT_EQ(test, users(false), 1);
	KUNIT_EXPECT_EQ(test, detach(f, 0, false, 0), 0);
}

/* A group is nobody's but of those who asked for it, and not of what other netdevs receive. */
static void mcast_nobody_elses(struct kunit *test)
{
	struct fixture *f = test->priv;

	KUNIT_EXPECT_EQ(test, attach(f, 0, false, 0), 0);
	KUNIT_EXPECT_PTR_EQ(test, member(init_net.loopback_dev, false, 0), f->qps[0]);
	KUNIT_EXPECT_NULL(test, member(init_net.loopback_dev, false, 1));
	KUNIT_EXPECT_NULL(test, member(init_net.loopback_dev, true, 0));
	KUNIT_EXPECT_NULL(test, member(f->other, false, 0));
	KUNIT_EXPECT_EQ(test, detach(f, 0, false, 0), 0);
}

/* The one too many leaves nothing behind, and has room when another one has gone. */
static void mcast_members(struct kunit *test)
{
	struct fixture *f = test->priv;
	unsigned int i;

	for (i = 0; i < ROE_MAX_MCAST_QPS; i++)
		KUNIT_ASSERT_EQ(test, attach(f, i, false, 0), 0);
	KUNIT_EXPECT_EQ(test, attach(f, i, false, 0), -ENOMEM);
	KUNIT_EXPECT_EQ(test, detach(f, i, false, 0), -EINVAL);
	KUNIT_EXPECT_EQ(test, attach(f, 7, false, 0), 0);	/* is one already */
	KUNIT_EXPECT_EQ(test, detach(f, 7, false, 0), 0);
	KUNIT_EXPECT_EQ(test, detach(f, 7, false, 0), 0);
	KUNIT_EXPECT_EQ(test, attach(f, i, false, 0), 0);
	KUNIT_EXPECT_EQ(test, attach(f, 7, false, 0), -ENOMEM);
	for (i = 0; i <= ROE_MAX_MCAST_QPS; i++)
		KUNIT_EXPECT_EQ(test, detach(f, i, false, 0), i == 7 ? -EINVAL : 0);
	KUNIT_EXPECT_EQ(test, users(false), 0);
}

static void mcast_groups(struct kunit *test)
{
	struct fixture *f = test->priv;

	f->dev.mcast.nr = ROE_MAX_MCAST_GROUPS - 2;	/* IP's lists are slow to fill */
	KUNIT_EXPECT_EQ(test, attach(f, 0, true, 0), 0);
	KUNIT_EXPECT_EQ(test, attach(f, 0, true, 1), 0);
	KUNIT_EXPECT_EQ(test, attach(f, 0, true, 2), -ENOMEM);
	KUNIT_EXPECT_EQ(test, attach(f, 0, false, 0), -ENOMEM);
	KUNIT_EXPECT_EQ(test, users(false), 0);
	KUNIT_EXPECT_EQ(test, attach(f, 1, true, 0), 0);	/* to one that is there */
	KUNIT_EXPECT_EQ(test, detach(f, 0, true, 1), 0);
	KUNIT_EXPECT_EQ(test, attach(f, 0, false, 0), 0);
	KUNIT_EXPECT_EQ(test, attach(f, 0, true, 1), -ENOMEM);
	KUNIT_EXPECT_EQ(test, detach(f, 0, false, 0), 0);
	KUNIT_EXPECT_EQ(test, detach(f, 0, true, 0), 0);
	KUNIT_EXPECT_EQ(test, detach(f, 1, true, 0), 0);
	f->dev.mcast.nr -= ROE_MAX_MCAST_GROUPS - 2;
}

/* Without IP nothing is joined, and nobody told that it were. */
static void mcast_without_ip(struct kunit *test)
{
	struct fixture *f = test->priv;

	f->dev.ndev = f->other;
	KUNIT_EXPECT_EQ(test, attach(f, 0, false, 0), -ENODEV);
	KUNIT_EXPECT_EQ(test, attach(f, 0, true, 0), -ENODEV);
	KUNIT_EXPECT_EQ(test, f->dev.mcast.nr, 0);
	KUNIT_EXPECT_NULL(test, member(f->other, false, 0));
	f->dev.ndev = init_net.loopback_dev;
}

/* Another netdev counts from now on: the group is left here, and joined again later. */
static void mcast_refreshed(struct kunit *test)
{
	struct fixture *f = test->priv;

	KUNIT_EXPECT_EQ(test, attach(f, 0, false, 0), 0);
	KUNIT_EXPECT_EQ(test, attach(f, 1, true, 0), 0);
	rtnl_lock();
	f->dev.ndev = f->other;
	roe_mcast_refresh(&f->dev);
	rtnl_unlock();
	KUNIT_EXPECT_EQ(test, users(false), 0);
	KUNIT_EXPECT_EQ(test, users(true), 0);
	rtnl_lock();
	f->dev.ndev = init_net.loopback_dev;
	roe_mcast_refresh(&f->dev);
	roe_mcast_refresh(&f->dev);
	rtnl_unlock();
	KUNIT_EXPECT_EQ(test, users(false), 1);
	KUNIT_EXPECT_EQ(test, users(true), 1);
	KUNIT_EXPECT_EQ(test, detach(f, 0, false, 0), 0);
	KUNIT_EXPECT_EQ(test, detach(f, 1, true, 0), 0);
	KUNIT_EXPECT_EQ(test, users(false), 0);
	KUNIT_EXPECT_EQ(test, users(true), 0);
}

static struct kunit_case cases[] = {
	KUNIT_CASE(mcast_joined_v4),
	KUNIT_CASE(mcast_joined_v6),
	KUNIT_CASE(mcast_attached_again),
	KUNIT_CASE(mcast_not_attached),
	KUNIT_CASE(mcast_nobody_elses),
	KUNIT_CASE(mcast_members),
	KUNIT_CASE(mcast_groups),
	KUNIT_CASE(mcast_without_ip),
	KUNIT_CASE(mcast_refreshed),
	{}
};

static struct kunit_suite suite = {
	.name = "roe_mcast",
	.init = setup,
	.exit = teardown,
	.test_cases = cases,
};

kunit_test_suite(suite);
