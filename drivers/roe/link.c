// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * How devices are created and end: by rdma link add and del, with the netdev, the
 * namespace, the module.
 *
 * Each device has an entry in the list, with a reference, from before its registration on.
 * Others may unregister devices, too (rdma link del, rdma_rxe's exit; abi.md 22.4). Such a device
 * stays in the list, marked dead, until end_devices() has called ib_unregister_device() for it:
 * the mutex in there is the only way to know that dealloc_driver, which is text of this module,
 * has returned. A device that end_devices() is unregistering stays in the list, too: several
 * callers may have to wait for its end.
 *
 * Locks: link_lock is taken inside RTNL and inside the RDMA core's locks. Nobody unregisters a
 * device under link_lock, since dealloc_driver takes it.
 */
#include <linux/etherdevice.h>
#include <linux/if_arp.h>
#include <linux/if_vlan.h>
#include <linux/inetdevice.h>
#include <linux/mutex.h>
#include <linux/notifier.h>
#include <linux/rtnetlink.h>
#include <linux/workqueue.h>
#include <net/addrconf.h>
#include <net/if_inet6.h>
#include <net/net_namespace.h>
#include <rdma/ib_addr.h>
#include <rdma/rdma_netlink.h>
#include "device.h"
#include "net.h"

static DEFINE_MUTEX(link_lock);
static LIST_HEAD(devices);
static struct workqueue_struct *scan_wq;

static struct roe_dev *find_locked(const struct net_device *ndev)
{
	struct roe_dev *dev;

	lockdep_assert_held(&link_lock);
	list_for_each_entry(dev, &devices, link)
		if (dev->ndev == ndev && !dev->dead)
			return dev;
	return NULL;
}

static bool guid_in_use(__be64 guid)
{
	struct roe_dev *dev;

	lockdep_assert_held(&link_lock);
	list_for_each_entry(dev, &devices, link)
		if (dev->ib.node_guid == guid && !dev->dead)
			return true;
	return false;
}

/*
 * Programs tell devices apart by GUID, and the CM of a peer tells hosts apart by it. The GUID is
 * the EUI-64 of the MAC. But lo and tun have no MAC, so a random one is used; and an ipvlan, a
 * macvlan in passthru mode or a port of a bond has the MAC of another netdev. So a device whose
 * GUID is in use already gets a number between the halves of the MAC and the "u" bit of local
 * scope, as netdevs with a dev_id do (addrconf_ifid_eui48()). The number begins with the interface
 * index and counts up, since namespaces number their interfaces independently.
 */
static __be64 choose_guid(const struct net_device *ndev)
{
	static u8 host[ETH_ALEN];
	union {
		__be64	guid;
		u8	b[8];
	} eui;
	u16 id;

	if (is_zero_ether_addr(host))
		eth_random_addr(host);
	addrconf_addr_eui48(eui.b, is_zero_ether_addr(ndev->dev_addr) ? host : ndev->dev_addr);
	for (id = ndev->ifindex; guid_in_use(eui.guid); id++) {
		eui.b[0] &= ~2;
		eui.b[3] = id >> 8;
		eui.b[4] = id;
	}
	return eui.guid;
}

/**
 * roe_link_add() - enter a device that is about to be registered
 * @dev: device; the list takes a reference
 *
 * From here on the device is told what happens to its netdev, and has a GUID that no other roe
 * device of this host has. RTNL not held.
 *
 * Return: 0, -EEXIST (logged) if its netdev has a roe device already, -ENODEV if the netdev
 * is going away or has moved to another namespace.
 */
int roe_link_add(struct roe_dev *dev)
{
	int err = 0;

	rtnl_lock();
	mutex_lock(&link_lock);
	if (dev->ndev->reg_state != NETREG_REGISTERED || !net_eq(dev_net(dev->ndev), dev->net)) {
		err = -ENODEV;
		goto unlock;
	}
	if (find_locked(dev->ndev)) {
		pr_err("%s already has a roe device\n", netdev_name(dev->ndev));
		err = -EEXIST;
	} else {
		get_device(&dev->ib.dev);
		dev->ib.node_guid = choose_guid(dev->ndev);
		/* the device is told of changes from here on */
		dev->up = roe_device_up(dev);
		list_add_tail(&dev->link, &devices);
	}
unlock:
	mutex_unlock(&link_lock);
	rtnl_unlock();
	return err;
}

/**
 * roe_link_del() - undo roe_link_add()
 * @dev: device, entered or not, that never registered or is unregistered
 */
void roe_link_del(struct roe_dev *dev)
{
	bool listed;

	mutex_lock(&link_lock);
	listed = !list_empty(&dev->link);
	list_del_init(&dev->link);
	mutex_unlock(&link_lock);
	if (listed)
		put_device(&dev->ib.dev);
}

/* If the netdev changes its state meanwhile, without RTNL, the event for that is yet to come. */
static void announce_port(struct roe_dev *dev)
{
	struct ib_event event = {
		.device			= &dev->ib,
		.element.port_num	= 1,
	};

	lockdep_assert_held(&link_lock);
	dev->up = roe_device_up(dev);
	event.event = dev->up ? IB_EVENT_PORT_ACTIVE : IB_EVENT_PORT_ERR;
	ib_dispatch_event(&event);
}

static void update_port(struct roe_dev *dev)
{
	if (roe_device_up(dev) != dev->up)
		announce_port(dev);
}

/* The RDMA core's addr_event() ignores netdevs that are not Ethernet: lo, tun, WireGuard. */
static bool is_unfollowed(const struct net_device *ndev)
{
	return ndev->type != ARPHRD_ETHER;
}

static void scan(struct work_struct *work);
static DECLARE_DELAYED_WORK(scan_work, scan);

/*
 * A scan takes RTNL and goes through all netdevs and addresses. With this delay one scan finds all
 * the addresses that a script sets, and a process that sets addresses in a loop cannot keep RTNL
 * busy.
 */
#define SCAN_AFTER	msecs_to_jiffies(50)

/**
 * roe_link_live() - ib_device_ops.enable_driver: from now on references can be taken
 * @ibdev: device, just registered or moved to another RDMA namespace
 *
 * The netdev may have changed, or gone, while no reference could be taken and the device could
 * not be told. This does not take RTNL: the core holds locks inside which that is not allowed.
 *
 * Return: 0; a device whose netdev has gone is unregistered by a worker.
 */
int roe_link_live(struct ib_device *ibdev)
{
	struct roe_dev *dev = roe_dev(ibdev);
	static u64 seq;

	mutex_lock(&link_lock);
	WRITE_ONCE(dev->seq, ++seq);
	if (dev->gone) {
		ib_unregister_device_queued(ibdev);
	} else if (dev->missed) {
		/* whoever asked for the state, as the core's cache did, may know an older one */
		announce_port(dev);
	}
	dev->missed = false;
	/* an address may have come after the core has looked */
	if (!dev->gone && is_unfollowed(dev->ndev))
		queue_delayed_work(scan_wq, &scan_work, 0);
	mutex_unlock(&link_lock);
	return 0;
}

/**
 * roe_link_dead() - the device is being released
 * @dev: device, in dealloc_driver, with its netdev still referenced
 */
void roe_link_dead(struct roe_dev *dev)
{
	mutex_lock(&link_lock);
	dev->dead = true;
	mutex_unlock(&link_lock);
}

/* A device that matches, with a reference. It stays in the list: others may wait for it, too. */
static struct roe_dev *pick(bool (*match)(const struct roe_dev *, const struct net *),
			    const struct net *net)
{
	struct roe_dev *dev;

	mutex_lock(&link_lock);
	list_for_each_entry(dev, &devices, link) {
		if (match(dev, net)) {
			get_device(&dev->ib.dev);
			mutex_unlock(&link_lock);
			return dev;
		}
	}
	mutex_unlock(&link_lock);
	return NULL;
}

static bool is_to_scan(const struct roe_dev *dev, const struct net *net)
{
	return dev->scan;
}

/*
 * Addresses that were added become GIDs, as on Ethernet netdevs. GIDs of removed addresses stay:
 * the core offers no way to remove a single GID. The core takes RTNL.
 */
static void scan(struct work_struct *work)
{
	struct roe_dev *dev;

	mutex_lock(&link_lock);
	list_for_each_entry(dev, &devices, link)
		/* a dead device may have no netdev any more */
		dev->scan = !dev->dead && is_unfollowed(dev->ndev);
	mutex_unlock(&link_lock);
	while ((dev = pick(is_to_scan, NULL))) {
		dev->scan = false;
		/* otherwise it is not registered yet: roe_link_live() queues another scan */
		if (ib_device_try_get(&dev->ib)) {
			rdma_roce_rescan_device(&dev->ib);
			ib_device_put(&dev->ib);
		}
		put_device(&dev->ib.dev);
	}
}

/* Unregister what matches, or wait for whoever is doing so already. RTNL not held. */
static void end_devices(bool (*match)(const struct roe_dev *, const struct net *),
			const struct net *net)
{
	struct roe_dev *dev;

	while ((dev = pick(match, net))) {
		ib_unregister_device(&dev->ib);
		roe_link_del(dev);
		put_device(&dev->ib.dev);
	}
}

/*
 * The device is dead, or its netdev has gone and a worker is about to end it: its name no longer
 * counts as in use, nor does its netdev, which may only have moved to another namespace. A device
 * that could not be told yet (missed) is left out, since it may not be registered.
 */
static bool is_over(const struct roe_dev *dev, const struct net *net)
{
	return dev->dead || (dev->gone && !dev->missed);
}

static bool is_in_net(const struct roe_dev *dev, const struct net *net)
{
	return dev->net == net;
}

static bool is_any(const struct roe_dev *dev, const struct net *net)
{
	return true;
}

/* This lookup finds devices of rdma_rxe, but not of roe (abi.md 22.3): a hit is rdma_rxe's. */
static bool has_rxe(struct net_device *ndev)
{
	struct ib_device *ibdev = ib_device_get_by_netdev(ndev, RDMA_DRIVER_RXE);

	if (ibdev)
		ib_device_put(ibdev);
	return ibdev;
}

/* RoCEv2 is UDP, so netdevs that carry IP without a link layer will do: tun and WireGuard. */
static bool type_ok(const struct net_device *ndev)
{
	return ndev->type == ARPHRD_ETHER || ndev->type == ARPHRD_LOOPBACK ||
	       ndev->type == ARPHRD_NONE;
}

/* Returns 0 if a device may be made on @ndev; otherwise logs why not. */
static int judge(struct net_device *ndev)
{
	if (!type_ok(ndev)) {
		pr_err("%s is not an Ethernet device\n", netdev_name(ndev));
		return -EOPNOTSUPP;
	}
	if (!iboe_get_mtu(READ_ONCE(ndev->mtu))) {
		pr_err("%s: MTU %u is too small for RoCE\n", netdev_name(ndev), ndev->mtu);
		return -EINVAL;
	}
	if (has_rxe(ndev)) {
		pr_err("%s already has an rdma_rxe device\n", netdev_name(ndev));
		return -EEXIST;
	}
	return 0;
}

/*
 * The RDMA core gives the addresses of a VLAN to the device on the netdev below it
 * (roce_gid_mgmt.c): a device on the VLAN itself would never get a GID. So there is one device
 * for all of them, as with a NIC. The netdev below stays as long as the reference to @ndev is held.
 */
static struct net_device *below_vlan(struct net_device *ndev)
{
	struct net_device *real = vlan_dev_real_dev(ndev);

	if (!net_eq(dev_net(real), dev_net(ndev))) {
		pr_err("%s is a VLAN of another namespace's netdev: its addresses become GIDs of a device there\n",
		       netdev_name(ndev));
		return NULL;
	}
	return real;
}

static int newlink(const char *name, struct net_device *ndev)
{
	struct net_device *real = is_vlan_dev(ndev) ? below_vlan(ndev) : ndev;
	int err;

	err = real ? judge(real) : -EOPNOTSUPP;
	if (err)
		return err;
	end_devices(is_over, NULL);
	err = roe_device_add(name, real);
	if (!err && real != ndev)
		pr_info("%s is a VLAN: %s is for %s, with the addresses of both\n",
			netdev_name(ndev), name, netdev_name(real));
	return err;
}

static struct rdma_link_ops link_ops = {
	.type		= "roe",
	.newlink	= newlink,
};

static void handle(struct roe_dev *dev, unsigned long event)
{
	/* A worker is about to end the device: this event is for the next device on the netdev. */
	if (is_over(dev, NULL))
		return;
	if (event == NETDEV_UNREGISTER)
		dev->gone = true;
	/*
	 * The device is not registered yet, or is being moved to another RDMA namespace, and
	 * roe_link_live() looks at what is noted here; or it is no longer registered.
	 */
	if (!ib_device_try_get(&dev->ib)) {
		dev->missed = true;
		return;
	}

	switch (event) {
	case NETDEV_UNREGISTER:
		ib_unregister_device_queued(&dev->ib);
		break;
	case NETDEV_UP:
	case NETDEV_DOWN:
	case NETDEV_CHANGE:
	case NETDEV_CHANGEMTU:
		update_port(dev);
		roe_mcast_refresh(dev);
		break;
	case NETDEV_CHANGEUPPER:
		roe_mcast_refresh(dev);
		break;
	case NETDEV_CHANGEADDR:
		/* The core changes the GIDs; the GUID is for life. */
	case NETDEV_CHANGENAME:
		/* sysfs and rdma link ask the netdev for its name each time. */
		break;
	}
	ib_device_put(&dev->ib);
}

/*
 * An event of a netdev that need not be the device's own. If it is a master above the device's
 * netdev, IP is configured there, and it may have another inet6_dev now.
 */
static void handle_other(struct roe_dev *dev, struct net_device *ndev, unsigned long event,
			 const void *info)
{
	const struct netdev_notifier_changeupper_info *change = info;

	switch (event) {
	case NETDEV_UP:
	case NETDEV_CHANGEMTU:
		if (netdev_has_upper_dev(dev->ndev, ndev))
			roe_mcast_refresh(dev);
		break;
	case NETDEV_CHANGEUPPER:
		if (netdev_has_upper_dev(dev->ndev, ndev))
			roe_mcast_refresh(dev);
		roe_gid_refresh(dev, change->upper_dev);
		break;
	}
}

static int link_netdev_event(struct notifier_block *nb, unsigned long event, void *info)
{
	struct net_device *ndev = netdev_notifier_info_to_dev(info);
	struct roe_dev *dev;

	mutex_lock(&link_lock);
	list_for_each_entry(dev, &devices, link)
		/* a dead device may have no netdev any more */
		if (!dev->dead)
			handle_other(dev, ndev, event, info);
	dev = find_locked(ndev);
	if (dev)
		handle(dev, event);
	mutex_unlock(&link_lock);
	return NOTIFY_DONE;
}

static struct notifier_block notifier = {
	.notifier_call = link_netdev_event,
};

/* Is there a roe device on @ndev? Any context. */
static bool is_ours(const struct net_device *ndev)
{
	const struct roe_dev *dev;
	bool ours;

	rcu_read_lock();
	dev = roe_net_device(dev_net(ndev), ndev);
	ours = dev && dev->ndev == ndev;
	rcu_read_unlock();
	return ours;
}

/* IPv6: any context. If the device is not there yet, roe_link_live() queues the scan later. */
static int address_event(const struct net_device *ndev, unsigned long event)
{
	if (event == NETDEV_UP && is_unfollowed(ndev) && is_ours(ndev))
		queue_delayed_work(scan_wq, &scan_work, SCAN_AFTER);
	return NOTIFY_DONE;
}

static int ipv4_event(struct notifier_block *nb, unsigned long event, void *info)
{
	const struct in_ifaddr *ifa = info;

	return address_event(ifa->ifa_dev->dev, event);
}

static int ipv6_event(struct notifier_block *nb, unsigned long event, void *info)
{
	const struct inet6_ifaddr *ifa = info;

	return address_event(ifa->idev->dev, event);
}

static struct notifier_block ipv4_notifier = {
	.notifier_call = ipv4_event,
};

static struct notifier_block ipv6_notifier = {
	.notifier_call = ipv6_event,
};

/* Runs before the netdevs move out: no device outlives its namespace. */
static void __net_exit link_exit_net(struct net *net)
{
	end_devices(is_in_net, net);
}

static struct pernet_operations link_net_ops = {
	.exit = link_exit_net,
};

int __init roe_link_init(void)
{
	int err;

	scan_wq = alloc_workqueue("roe_scan", WQ_UNBOUND, 1);
	if (!scan_wq)
		return -ENOMEM;
	/* The exit of a pernet device runs before that of net/core, which moves netdevs out. */
	err = register_pernet_device(&link_net_ops);
	if (err)
		goto err_pernet;
	err = register_netdevice_notifier(&notifier);
	if (err)
		goto err_notifier;
	register_inetaddr_notifier(&ipv4_notifier);
	if (IS_ENABLED(CONFIG_IPV6))
		register_inet6addr_notifier(&ipv6_notifier);
	rdma_link_register(&link_ops);
	return 0;

err_notifier:
	unregister_pernet_device(&link_net_ops);
err_pernet:
	destroy_workqueue(scan_wq);
	return err;
}

/* First no new devices, then no old ones. */
void roe_link_exit(void)
{
	rdma_link_unregister(&link_ops);
	if (IS_ENABLED(CONFIG_IPV6))
		unregister_inet6addr_notifier(&ipv6_notifier);
	unregister_inetaddr_notifier(&ipv4_notifier);
	unregister_netdevice_notifier(&notifier);
	end_devices(is_any, NULL);
	unregister_pernet_device(&link_net_ops);
	/* after the last roe_link_live(), which queues it */
	cancel_delayed_work_sync(&scan_work);
	destroy_workqueue(scan_wq);
}
