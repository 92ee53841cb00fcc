/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * A roe device: one netdev of one network namespace, for life.
 *
 * Owner of a device is the RDMA core from ib_register_device() on; link.c
 * keeps a list of its own with a get_device() reference for each entry and is
 * the only file that ends a device. rdma_rxe shares our driver_id and may
 * unregister roe devices when it is unloaded (abi.md 22.4): dealloc_driver is
 * therefore the one place where what a device owns is given back.
 */
#ifndef ROE_DEVICE_H
#define ROE_DEVICE_H

#include <linux/netdevice.h>
#include <linux/xarray.h>
#include <rdma/ib_verbs.h>
#include "mr.h"

#define ROE_MAX_SGE		32
#define ROE_MAX_INLINE		512
#define ROE_MAX_QP_WR		0x10000
#define ROE_MAX_RD_ATOMIC	128
#define ROE_MAX_PKEYS		1
#define ROE_MAX_OBJECTS		0x100000	/* PDs, CQs, AHs */
#define ROE_MAX_QP		(0xffffff - 16)	/* QPNs without 0 to 15 and multicast */
#define ROE_MAX_MR		((1 << 24) - 1)	/* 24-bit index of a key */
#define ROE_GID_TABLE_LEN	1024
#define ROE_DEFAULT_PKEY	0xffff

struct roe_dev {
	struct ib_device	ib;
	struct net_device	*ndev;	/* reference held until dealloc_driver */
	netdevice_tracker	ndev_tracker;
	struct net		*net;	/* namespace of ndev, for life */
	struct list_head	link;	/* link.c, its lock */
	bool			gone;	/* netdev left; link.c, its lock */
	bool			dead;	/* past dealloc_driver; the same */
	bool			up;	/* last port event; RTNL */
	struct list_head	net_entry;	/* net.c, RCU */
	struct xarray		ahs;	/* ah_num -> struct roe_ah_entry, RCU */
	u32			next_ah;
	struct roe_keys		keys;
	u64 __percpu		*stats;	/* enum roe_stat, see stats.h */
	atomic_t		nr_qp;
};

static inline struct roe_dev *roe_dev(struct ib_device *ibdev)
{
	return container_of(ibdev, struct roe_dev, ib);
}

/* Path MTU in bytes that the netdev allows now: 256 .. 4096, 0 if too small. */
u32 roe_device_mtu(const struct roe_dev *dev);

struct roe_av;

/* ah.c: address handles. The vector behind an ah_num is valid under RCU. */
struct roe_ah {
	struct ib_ah		ib;
	struct roe_ah_entry	*entry;
};

int roe_ah_create(struct ib_ah *ibah, struct rdma_ah_init_attr *init, struct ib_udata *udata);
int roe_ah_query(struct ib_ah *ibah, struct rdma_ah_attr *attr);
int roe_ah_destroy(struct ib_ah *ibah, u32 flags);
const struct roe_av *roe_ah_lookup(struct roe_dev *dev, const struct ib_pd *pd, u32 num);

/*
 * link.c: list of all devices, link type, netdev events, end of namespaces.
 * A device is added before and live after its registration, dead from
 * dealloc_driver on; deleted if it never came to registration.
 */
int roe_link_init(void);
void roe_link_exit(void);
int roe_link_add(struct roe_dev *dev);
int roe_link_live(struct roe_dev *dev);
void roe_link_dead(struct roe_dev *dev);
void roe_link_del(struct roe_dev *dev);

/* May packets flow: up, carrier, MTU large enough? */
bool roe_device_up(const struct roe_dev *dev);
/* Register a device on @ndev. RTNL not held. 0 or negative errno, logged. */
int roe_device_add(const char *name, struct net_device *ndev);

#endif /* ROE_DEVICE_H */
