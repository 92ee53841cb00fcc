// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Address handles. The library names an AH by number in a send WQE (abi.md
 * section 9), so the AHs of processes are in a table.
 */
#include <linux/hash.h>
#include <linux/jhash.h>
#include <linux/net.h>
#include <linux/slab.h>
#include <rdma/ib_addr.h>
#include <rdma/ib_cache.h>
#include <uapi/rdma/rdma_user_rxe.h>
#include "ah.h"
#include "qp_doorbell.h"

#define SL_MAX		15	/* IBTA: 4 bits */

/**
 * roe_ah_source_port() - the UDP source port of an address handle
 * @av: has the addresses of the handle
 * @pd: of the handle
 * @flow_label: of the handle, 0: none
 *
 * Switches and receivers tell flows apart by this port. It is made of the flow label or, without
 * one, of the PD and the addresses: then all handles of a PD to the same peer have the same port,
 * so the order of their packets is kept.
 *
 * Return: the port, host byte order.
 */
u16 roe_ah_source_port(const struct roe_av *av, const struct ib_pd *pd, u32 flow_label)
{
	static u32 secret __read_mostly;
	u32 hash;

	if (flow_label)
		return rdma_flow_label_to_udp_sport(flow_label);
	net_get_random_once(&secret, sizeof(secret));
	hash = jhash(&av->saddr, sizeof(av->saddr), secret ^ hash32_ptr(pd));
	hash = jhash(&av->daddr, sizeof(av->daddr), hash);
	return IB_ROCE_UDP_ENCAP_VALID_PORT_MIN | (hash >> 18);
}

ROE_EXPORT_FOR_TEST(roe_ah_source_port);

/* Kernel users destroy handles in any context, and unpublish() takes this lock: hence irqsave. */
static int publish(struct roe_dev *dev, struct roe_ah_entry *entry, gfp_t gfp)
{
	unsigned long flags;
	u32 num;
	int err;

	xa_lock_irqsave(&dev->ahs, flags);
	err = __xa_alloc_cyclic(&dev->ahs, &num, entry, XA_LIMIT(1, ROE_MAX_OBJECTS),
				&dev->next_ah, gfp);
	if (err >= 0)
		entry->num = num;
	xa_unlock_irqrestore(&dev->ahs, flags);
	return err < 0 ? roe_table_error(err) : 0;
}

static void unpublish(struct roe_dev *dev, struct roe_ah_entry *entry)
{
	unsigned long flags;

	xa_lock_irqsave(&dev->ahs, flags);
	if (entry->num)
		__xa_erase(&dev->ahs, entry->num);
	xa_unlock_irqrestore(&dev->ahs, flags);
	roe_ah_put(entry);
}

/**
 * roe_ah_put() - done with an address handle
 * @entry: of roe_ah_get() or roe_ah_hold()
 *
 * Any context. Freed by RCU, since a lookup in the table may still look at @entry.
 */
void roe_ah_put(struct roe_ah_entry *entry)
{
	if (!refcount_dec_and_test(&entry->refs))
		return;
	roe_path_destroy(&entry->path);
	rdma_put_gid_attr(entry->path.av.sgid_attr);
	kfree_rcu(entry, rcu);
}

static struct roe_ah_entry *alloc_entry(const struct ib_pd *pd, const struct rdma_ah_attr *attr,
					gfp_t gfp)
{
	struct roe_ah_entry *entry = kzalloc(sizeof(*entry), gfp);

	if (!entry)
		return NULL;
	if (roe_path_init(&entry->path, gfp)) {
		kfree(entry);
		return NULL;
	}
	refcount_set(&entry->refs, 1);
	entry->pd = pd;
	roe_av_set(&entry->path.av, attr);
	entry->path.av.sport = htons(roe_ah_source_port(&entry->path.av, pd,
							entry->path.av.flow_label));
	rdma_hold_gid_attr(entry->path.av.sgid_attr);
	return entry;
}

/**
 * roe_ah_usable() - can packets be sent with these attributes?
 * @dev: device
 * @attr: of an AH or a QP
 *
 * Return: whether they are for RoCEv2 on our port, with the same IP version at both ends and a
 * service level of 4 bits.
 */
bool roe_ah_usable(const struct roe_dev *dev, const struct rdma_ah_attr *attr)
{
	const struct ib_global_route *grh = &attr->grh;

	if (attr->type != RDMA_AH_ATTR_TYPE_ROCE || !(rdma_ah_get_ah_flags(attr) & IB_AH_GRH) ||
	    rdma_ah_get_port_num(attr) != 1 || rdma_ah_get_sl(attr) > SL_MAX || !grh->sgid_attr ||
	    grh->sgid_attr->gid_type != IB_GID_TYPE_ROCE_UDP_ENCAP ||
	    !roe_av_gid_ok(dev, grh->sgid_attr))
		return false;
	return ipv6_addr_v4mapped((const struct in6_addr *)&grh->sgid_attr->gid) ==
	       ipv6_addr_v4mapped((const struct in6_addr *)&grh->dgid);
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

	if (!roe_ah_usable(dev, init->ah_attr))
		return -EINVAL;
	if (udata && udata->outlen < sizeof(struct rxe_create_ah_resp))
		return -EINVAL;

	entry = alloc_entry(ibah->pd, init->ah_attr, may_sleep ? GFP_KERNEL_ACCOUNT : GFP_ATOMIC);
	if (!entry)
		return -ENOMEM;
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
 * @attr: written completely
 *
 * Return: 0.
 */
int roe_ah_query(struct ib_ah *ibah, struct rdma_ah_attr *attr)
{
	const struct roe_av *av = &roe_ah(ibah)->entry->path.av;

	memset(attr, 0, sizeof(*attr));
	attr->type = ibah->type;
	rdma_ah_set_port_num(attr, 1);
	rdma_ah_set_sl(attr, av->sl);
	rdma_ah_set_grh(attr, NULL, av->flow_label, av->sgid_attr->index,
			av->hop_limit, av->tclass);
	memcpy(&attr->grh.dgid, &av->daddr, sizeof(attr->grh.dgid));
	return 0;
}

ROE_EXPORT_FOR_TEST(roe_ah_query);

/**
 * roe_ah_destroy() - verb
 * @ibah: AH
 * @flags: enum rdma_destroy_ah_flags; an AH of a process is destroyed in sleepable context
 *
 * Return: 0.
 */
int roe_ah_destroy(struct ib_ah *ibah, u32 flags)
{
	struct roe_ah_entry *entry = roe_ah(ibah)->entry;

	if (entry->num)
		roe_qp_take_posted(ibah->pd);
	unpublish(roe_dev(ibah->device), entry);
	return 0;
}

/**
 * roe_ah_get() - the address handle that a user's WQE names
 * @dev: device
 * @pd: PD of the QP
 * @num: ah_num of the WQE: any value
 *
 * RCU read-side section.
 *
 * Return: a reference, which outlives the AH; NULL for an unknown number or an
 * AH of another PD (IBTA o10-2.2.1: it must be that of the QP).
 */
struct roe_ah_entry *roe_ah_get(struct roe_dev *dev, const struct ib_pd *pd, u32 num)
{
	struct roe_ah_entry *entry = xa_load(&dev->ahs, num);

	if (!entry || entry->pd != pd || !refcount_inc_not_zero(&entry->refs))
		return NULL;
	return entry;
}
