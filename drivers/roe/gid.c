// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * The GIDs of a device, hashed by address. The core's GID table is searched in index
 * order under a lock, which is too slow for each packet to a UD QP.
 */
#include <linux/hash.h>
#include <linux/if_arp.h>
#include <linux/rculist.h>
#include <linux/slab.h>
#include <linux/spinlock.h>
#include <net/ipv6.h>
#include <net/net_namespace.h>
#include <rdma/ib_addr.h>
#include <rdma/ib_cache.h>
#include "device.h"
#include "net.h"

static unsigned int bucket(const struct in6_addr *addr)
{
	return hash_32(ipv6_addr_hash(addr), ROE_GID_HASH_BITS);
}

/* The namespace of the GID's netdev, with a reference; NULL if one of the two is going away. */
static struct net *get_netdev(const struct ib_gid_attr *attr, int *ifindex)
{
	const struct net_device *ndev;
	struct net *net = NULL;

	rcu_read_lock();
	ndev = rcu_dereference(attr->ndev);
	if (ndev) {
		*ifindex = ndev->ifindex;
		net = maybe_get_net(dev_net(ndev));
	}
	rcu_read_unlock();
	return net;
}

/* Let packets for the GID reach the device in the namespace of the GID's netdev. */
static int enter(struct roe_dev *dev, struct roe_gid *gid, const struct ib_gid_attr *attr)
{
	struct net *net = get_netdev(attr, &gid->ifindex);
	int err = 0;

	if (!net)
		return 0;
	gid->presence = roe_net_enter(dev, net);
	if (IS_ERR(gid->presence)) {
		err = PTR_ERR(gid->presence);
		pr_err("cannot hook into netfilter where a GID is (error %d)\n", err);
	} else {
		gid->net_cookie = net->net_cookie;
	}
	put_net(net);
	return err;
}

/* roe_gid_add() and roe_gid_refresh() may run at once: the last read must be the last store. */
static DEFINE_SPINLOCK(vlan_lock);

/* The VLAN ID of the netdev or, if that is no VLAN, of the first netdev below it. */
static void read_vlan(struct roe_gid *gid, const struct ib_gid_attr *attr)
{
	u16 id;

	spin_lock(&vlan_lock);
	if (!rdma_read_gid_l2_fields(attr, &id, NULL))
		WRITE_ONCE(gid->vlan_id, id);
	spin_unlock(&vlan_lock);
}

/*
 * Is the GID's netdev not Ethernet, such as a bond of tuns? The core holds the netdev of a GID, but
 * ignores the end of a netdev that is not Ethernet (netdevice_event()): neither that netdev nor
 * its namespace could ever be deleted. For the device's own netdev this does not matter: the
 * device ends with it (link.c).
 */
static bool is_unfollowed(const struct roe_dev *dev, const struct ib_gid_attr *attr)
{
	const struct net_device *ndev;
	bool unfollowed;

	rcu_read_lock();
	ndev = rcu_dereference(attr->ndev);
	unfollowed = ndev && ndev != dev->ndev && ndev->type != ARPHRD_ETHER;
	rcu_read_unlock();
	return unfollowed;
}

/**
 * roe_gid_add() - ib_device_ops.add_gid
 * @attr: GID, its netdev and device
 * @context: takes our entry, which the core hands to roe_gid_del()
 *
 * The core serialises changes of a port's table. May sleep.
 *
 * Return: 0 or a negative errno.
 */
int roe_gid_add(const struct ib_gid_attr *attr, void **context)
{
	struct roe_dev *dev = roe_dev(attr->device);
	struct roe_gid *gid;
	int err;

	if (is_unfollowed(dev, attr))
		return -EOPNOTSUPP;
	gid = kzalloc(sizeof(*gid), GFP_KERNEL);
	if (!gid)
		return -ENOMEM;
	gid->vlan_id = 0xffff;
	err = enter(dev, gid, attr);
	if (err) {
		kfree(gid);
		return err;
	}
	memcpy(&gid->addr, &attr->gid, sizeof(gid->addr));
	read_vlan(gid, attr);
	hlist_add_head_rcu(&gid->node, &dev->gids[bucket(&gid->addr)]);
	/* its VLAN may have changed before roe_gid_refresh() could find it: pairs with that */
	smp_mb();
	read_vlan(gid, attr);
	*context = gid;
	return 0;
}

/**
 * roe_gid_del() - ib_device_ops.del_gid
 * @attr: GID
 * @context: our entry
 *
 * Return: 0.
 */
int roe_gid_del(const struct ib_gid_attr *attr, void **context)
{
	struct roe_dev *dev = roe_dev(attr->device);
	struct roe_gid *gid = *context;

	hlist_del_rcu(&gid->node);
	/* whoever sees the new number does not find the GID: pairs with forget_old() (route.c) */
	smp_store_release(&dev->gid_gen, dev->gid_gen + 1);
	if (gid->presence)
		roe_net_leave(gid->presence);
	kfree_rcu(gid, rcu);
	*context = NULL;
	return 0;
}

/**
 * roe_gid_refresh() - a netdev has got or lost a lower netdev
 * @dev: device
 * @ndev: that netdev, which may be the one of some GIDs
 *
 * When the core looks for a GID by the VLAN of a completion (rdma_find_gid_by_filter()), it reads
 * the current VLAN of each GID's netdev, so the VLAN stored here must be the same. RTNL held.
 */
void roe_gid_refresh(struct roe_dev *dev, struct net_device *ndev)
{
	struct ib_gid_attr attr = {};
	struct roe_gid *gid;
	unsigned int i;

	RCU_INIT_POINTER(attr.ndev, ndev);
	/* the change below @ndev comes before the look at the list: pairs with roe_gid_add() */
	smp_mb();
	rcu_read_lock();
	for (i = 0; i < ARRAY_SIZE(dev->gids); i++)
		hlist_for_each_entry_rcu(gid, &dev->gids[i], node)
			if (gid->ifindex == ndev->ifindex &&
			    gid->net_cookie == dev_net(ndev)->net_cookie)
				read_vlan(gid, &attr);
	rcu_read_unlock();
}

/**
 * roe_gid_find() - is this an address of the device?
 * @dev: device
 * @addr: IPv6, or IPv4 mapped
 * @ndev: where a packet for it came in
 *
 * Several netdevs may have the address: a VLAN has the MAC of the netdev below, and the
 * link-local address that goes with it.
 *
 * RCU read-side section, in which the result is valid.
 *
 * Return: a GID with that address in the namespace of @ndev, or NULL. Of several it is the one
 * on @ndev, otherwise preferably one with the VLAN tag of @ndev.
 */
const struct roe_gid *roe_gid_find(const struct roe_dev *dev, const struct in6_addr *addr,
				   const struct net_device *ndev)
{
	const struct roe_gid *gid, *any = NULL;

	hlist_for_each_entry_rcu(gid, &dev->gids[bucket(addr)], node) {
		if (!ipv6_addr_equal(&gid->addr, addr) ||
		    gid->net_cookie != dev_net(ndev)->net_cookie)
			continue;
		if (gid->ifindex == ndev->ifindex)
			return gid;
		if (!any || READ_ONCE(gid->vlan_id) == rdma_vlan_dev_vlan_id(ndev))
			any = gid;
	}
	return any;
}

/**
 * roe_gid_lives() - does the device still have this GID, on this netdev?
 * @dev: device
 * @addr: IPv6, or IPv4 mapped
 * @net_cookie: namespace of the GID's netdev
 * @ifindex: number of that netdev
 *
 * RCU read-side section.
 *
 * Return: whether it is one of its GIDs, on that netdev.
 */
bool roe_gid_lives(const struct roe_dev *dev, const struct in6_addr *addr, u64 net_cookie,
		   int ifindex)
{
	const struct roe_gid *gid;

	hlist_for_each_entry_rcu(gid, &dev->gids[bucket(addr)], node)
		if (ipv6_addr_equal(&gid->addr, addr) && gid->net_cookie == net_cookie &&
		    gid->ifindex == ifindex)
			return true;
	return false;
}
