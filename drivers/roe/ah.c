// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Address handles. The library names one by number in a send WQE (abi.md
 * section 9), so those of user space are found through a table.
 */
#include <linux/slab.h>
#include <rdma/ib_addr.h>
#include <rdma/ib_cache.h>
#include <uapi/rdma/rdma_user_rxe.h>
#include "device.h"
#include "net.h"

/* Outlives its AH by a grace period: the core frees that at once. */
struct roe_ah_entry {
	struct roe_av		av;
	const struct ib_pd	*pd;
	u32			num;	/* 0: kernel user, not in the table */
	struct rcu_head		rcu;
};

static struct roe_ah *roe_ah(struct ib_ah *ibah)
{
	return container_of(ibah, struct roe_ah, ib);
}

static void set_av(struct roe_av *av, const struct rdma_ah_attr *attr)
{
	const struct ib_global_route *grh = rdma_ah_read_grh(attr);

	memcpy(&av->saddr, &grh->sgid_attr->gid, sizeof(av->saddr));
	memcpy(&av->daddr, &grh->dgid, sizeof(av->daddr));
	av->v6 = !ipv6_addr_v4mapped(&av->daddr);
	av->tclass = grh->traffic_class;
	av->hop_limit = grh->hop_limit ?: IPV6_DEFAULT_HOPLIMIT;
	av->flow_label = grh->flow_label;
	av->sgid_attr = grh->sgid_attr;
	/* The peers of an AH are many QPs: only the flow label tells flows apart. */
	av->sport = htons(rdma_flow_label_to_udp_sport(grh->flow_label));
}

/* Kernel users create handles in any context, hence irqsave. */
static int publish(struct roe_dev *dev, struct roe_ah_entry *entry, gfp_t gfp)
{
	unsigned long flags;
	int err;

	xa_lock_irqsave(&dev->ahs, flags);
	err = __xa_alloc_cyclic(&dev->ahs, &entry->num, entry,
				XA_LIMIT(1, ROE_MAX_OBJECTS), &dev->next_ah, gfp);
	xa_unlock_irqrestore(&dev->ahs, flags);
	return err < 0 ? err : 0;
}

static void unpublish(struct roe_dev *dev, struct roe_ah_entry *entry)
{
	unsigned long flags;

	xa_lock_irqsave(&dev->ahs, flags);
	if (entry->num)
		__xa_erase(&dev->ahs, entry->num);
	xa_unlock_irqrestore(&dev->ahs, flags);
	kfree_rcu(entry, rcu);
}

static int respond(struct roe_dev *dev, struct roe_ah_entry *entry, struct ib_udata *udata)
{
	struct rxe_create_ah_resp resp = {};
	int err;

	/* The library takes 0 for "no number, send the whole address vector". */
	err = publish(dev, entry, GFP_KERNEL_ACCOUNT);
	if (err)
		return err;
	resp.ah_num = entry->num;
	return ib_copy_to_udata(udata, &resp, sizeof(resp));
}

/**
 * roe_ah_create() - verb
 * @ibah: AH, zeroed by the core
 * @init: attributes; may be called in atomic context if the flags say so
 * @udata: user space only: struct rxe_create_ah_resp
 *
 * Return: 0 or a negative errno.
 */
int roe_ah_create(struct ib_ah *ibah, struct rdma_ah_init_attr *init, struct ib_udata *udata)
{
	bool may_sleep = init->flags & RDMA_CREATE_AH_SLEEPABLE;
	struct roe_dev *dev = roe_dev(ibah->device);
	struct roe_ah_entry *entry;
	int err = 0;

	if (!(rdma_ah_get_ah_flags(init->ah_attr) & IB_AH_GRH))
		return -EINVAL;
	if (udata && udata->outlen < sizeof(struct rxe_create_ah_resp))
		return -EINVAL;

	entry = kzalloc(sizeof(*entry), may_sleep ? GFP_KERNEL_ACCOUNT : GFP_ATOMIC);
	if (!entry)
		return -ENOMEM;
	entry->pd = ibah->pd;
	set_av(&entry->av, init->ah_attr);
	if (udata)
		err = respond(dev, entry, udata);
	if (err) {
		unpublish(dev, entry);
		return err;
	}
	roe_ah(ibah)->entry = entry;
	return 0;
}

/**
 * roe_ah_query() - verb
 * @ibah: AH
 * @attr: written completely but for @attr->type
 *
 * Return: 0.
 */
int roe_ah_query(struct ib_ah *ibah, struct rdma_ah_attr *attr)
{
	const struct roe_av *av = &roe_ah(ibah)->entry->av;

	memset(attr, 0, sizeof(*attr));
	attr->type = ibah->type;
	rdma_ah_set_port_num(attr, 1);
	rdma_ah_set_grh(attr, NULL, av->flow_label, av->sgid_attr->index,
			av->hop_limit, av->tclass);
	memcpy(&attr->grh.dgid, &av->daddr, sizeof(attr->grh.dgid));
	return 0;
}

/**
 * roe_ah_destroy() - verb
 * @ibah: AH
 * @flags: enum rdma_destroy_ah_flags; nothing here sleeps
 *
 * Return: 0.
 */
int roe_ah_destroy(struct ib_ah *ibah, u32 flags)
{
	unpublish(roe_dev(ibah->device), roe_ah(ibah)->entry);
	return 0;
}

/**
 * roe_ah_lookup() - the address vector that a user WQE names
 * @dev: device
 * @pd: PD of the QP
 * @num: ah_num of the WQE
 *
 * RCU read-side section, in which the result is valid.
 *
 * Return: NULL for an unknown number or an AH of another PD.
 */
const struct roe_av *roe_ah_lookup(struct roe_dev *dev, const struct ib_pd *pd, u32 num)
{
	const struct roe_ah_entry *entry = xa_load(&dev->ahs, num);

	return entry && entry->pd == pd ? &entry->av : NULL;
}
