/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * A roe device belongs to one netdev in one network namespace for its whole life. Its GIDs may
 * be in other namespaces: those into which a VLAN or macvlan over that netdev was moved.
 *
 * From ib_register_device() on the RDMA core owns the device. link.c keeps a list of its own,
 * with a get_device() reference for each entry, and is the only file that ends a device. But
 * rdma_rxe has the same driver_id and may unregister roe devices when it is unloaded (abi.md
 * 22.4). Therefore dealloc_driver is the only place that releases what a device owns.
 */
#ifndef ROE_DEVICE_H
#define ROE_DEVICE_H

#include <linux/in6.h>
#include <linux/netdevice.h>
#include <linux/xarray.h>
#include <rdma/ib_verbs.h>
#include <rdma/uverbs_ioctl.h>
#include "mcast.h"
#include "mr.h"

/* "roe", a locally administered OUI. Not 0xffffff: SPDK takes that for rdma_rxe and its bugs. */
#define ROE_VENDOR_ID		0x726f65
#define ROE_HW_VERSION		1
#define ROE_VERSION_MAJOR	0
#define ROE_VERSION_MINOR	1
#define ROE_MAX_SGE		32
#define ROE_MAX_INLINE		512
#define ROE_MAX_QP_WR		0x1ffff	/* what the largest ring holds; create_qp returns it */
#define ROE_MAX_RD_ATOMIC	128
#define ROE_MAX_PKEYS		1
#define ROE_MAX_OBJECTS		0x100000	/* of each kind: PDs, CQs, SRQs, AHs */
#define ROE_MAX_QP		(0xffffff - 16)	/* QPNs without 0 to 15 and multicast */
#define ROE_MAX_MR		((1 << 24) - 1)	/* 24-bit index of a key */
#define ROE_GID_TABLE_LEN	256	/* each entry is three sysfs files, made at link add */
#define ROE_GID_HASH_BITS	6
#define ROE_PMA_COUNTERS	7	/* rows of mad.c */
#define ROE_DEFAULT_PKEY	0xffff

struct roe_counters;
struct roe_presence;
struct roe_qp;

struct roe_dev {
	struct ib_device	ib;
	struct net_device	*ndev;	/* reference held until dealloc_driver */
	netdevice_tracker	ndev_tracker;
	struct net		*net;	/* namespace of ndev, for life */
	struct list_head	link;	/* in the list of devices; link_lock of link.c */
	bool			gone;	/* the netdev was unregistered; link_lock */
	bool			dead;	/* dealloc_driver was called; link_lock */
	bool			up;	/* port state in the last event; link_lock */
	bool			missed;	/* events came while no reference could be had; link_lock */
	bool			scan;	/* the core is to look for addresses; written by scan() */
	u64			seq;	/* order in which clients of the core got it; link.c */
	struct list_head	presences;	/* its namespaces; net.c, RCU */
	struct roe_presence	*home;		/* the presence in @net, for life */
	struct hlist_head	gids[1 << ROE_GID_HASH_BITS];	/* gid.c, RCU */
	u32			gid_gen;	/* counts removed GIDs; stored with release */
	struct roe_qp		*gsi;	/* QP1, RCU */
	struct xarray		ahs;	/* ah_num -> struct roe_ah_entry, RCU */
	u32			next_ah;
	struct roe_keys		keys;
	struct roe_mcast	mcast;
	u64 __percpu		*stats;	/* enum roe_stat, see stats.h */
	struct roe_counters	*counters;	/* counters that QPs are bound to; stats.c */
	u64			pma_base[ROE_PMA_COUNTERS];	/* mad.c */
	atomic_t		pds, cqs, srqs;	/* how many there are */
	bool			direct;		/* knob.c; READ_ONCE */
	bool			relay;		/* the same */
	bool			hold;		/* the same */
	bool			ecn;		/* the same */
};

struct roe_pd {
	struct ib_pd		ib;
	struct mutex		lock;	/* guards @uds; qp->lock is taken inside */
	struct list_head	uds;	/* UD QPs of a process; qp.c */
};

/*
 * Count one more object of a kind of which ROE_MAX_OBJECTS may exist, as query_device says. The
 * limit is needed because the core allocates most of these objects and charges nobody for them.
 * Returns 0 or -ENOMEM.
 */
static inline int roe_object_add(atomic_t *nr)
{
	return atomic_add_unless(nr, 1, ROE_MAX_OBJECTS) ? 0 : -ENOMEM;
}

/* A full xarray returns -EBUSY; a verb that wants one more entry returns -ENOMEM, as above. */
static inline int roe_table_error(int err)
{
	return err == -EBUSY ? -ENOMEM : err;
}

static inline struct roe_dev *roe_dev(struct ib_device *ibdev)
{
	return container_of(ibdev, struct roe_dev, ib);
}

/* Path MTU in bytes that the netdev allows now: 256 .. 4096, 0 if too small. */
u32 roe_device_mtu(const struct roe_dev *dev);
/* ... and that the netdev of @gid allows, by which packets with this source GID leave. */
u32 roe_device_gid_mtu(const struct roe_dev *dev, const struct ib_gid_attr *gid);

/* gid.c: a GID of a device, to find out whether an address belongs to the device. */
struct roe_gid {
	struct hlist_node	node;	/* RCU */
	struct in6_addr		addr;	/* IPv4: mapped */
	struct roe_presence	*presence;	/* in the netdev's namespace; NULL: that ends */
	u64			net_cookie;	/* of that namespace; 0: none */
	int			ifindex;	/* of the GID's netdev */
	u16			vlan_id;	/* 0xffff: none; may change: READ_ONCE */
	struct rcu_head		rcu;
};

int roe_gid_add(const struct ib_gid_attr *attr, void **context);
int roe_gid_del(const struct ib_gid_attr *attr, void **context);
void roe_gid_refresh(struct roe_dev *dev, struct net_device *ndev);
const struct roe_gid *roe_gid_find(const struct roe_dev *dev, const struct in6_addr *addr,
				   const struct net_device *ndev);
bool roe_gid_lives(const struct roe_dev *dev, const struct in6_addr *addr, u64 net_cookie,
		   int ifindex);

/* mad.c: verb */
int roe_mad_process(struct ib_device *ibdev, int flags, u32 port, const struct ib_wc *wc,
		    const struct ib_grh *grh, const struct ib_mad *in, struct ib_mad *out,
		    size_t *out_size, u16 *out_pkey_index);

/*
 * link.c: list of all devices, link type, netdev events, end of namespaces.
 * For a device: roe_link_add() before its registration; roe_link_live() during registration and
 * after each move to another RDMA namespace; roe_link_dead() in dealloc_driver; roe_link_del()
 * if registration failed, or after unregistration.
 */
int roe_link_init(void);
void roe_link_exit(void);
int roe_link_add(struct roe_dev *dev);
int roe_link_live(struct ib_device *ibdev);
void roe_link_dead(struct roe_dev *dev);
void roe_link_del(struct roe_dev *dev);

/* knob.c: switches, module parameters and files in /sys/class/infiniband/NAME */
extern const struct attribute_group roe_knob_group;
void roe_knob_init(struct roe_dev *dev);

/* User context of the process that called a verb; NULL: a kernel user. */
static inline struct ib_ucontext *roe_udata_context(struct ib_udata *udata)
{
	return udata ? rdma_udata_to_uverbs_attr_bundle(udata)->context : NULL;
}

/* May packets flow: up, carrier, MTU large enough? */
bool roe_device_up(const struct roe_dev *dev);
/* Register a device on @ndev. RTNL not held. 0 or negative errno, logged. */
int roe_device_add(const char *name, struct net_device *ndev);

#endif /* ROE_DEVICE_H */
