// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * What a roe device is to the RDMA core: its attributes, its one port, its ops
 * table, and the beginning and end of its life.
 */
#include <linux/ethtool.h>
#include <linux/rtnetlink.h>
#include <net/net_namespace.h>
#include <rdma/ib_addr.h>
#include <rdma/ib_mad.h>
#include <rdma/ib_user_verbs.h>
#include <rdma/uverbs_ioctl.h>
#include <roe/wire.h>
#include "ah.h"
#include "cq.h"
#include "device.h"
#include "mr.h"
#include "mw.h"
#include "net.h"
#include "odp.h"
#include "qp.h"
#include "restrack.h"
#include "ring.h"
#include "stats.h"

#define UVERBS_ABI_VERSION	2	/* that of librxe: 64- and 32-bit processes */
#define LOCAL_CA_ACK_DELAY	15	/* 4.096 us * 2^15: an ACK never takes longer */

struct roe_ucontext {
	struct ib_ucontext	ib;
};

static u32 netdev_mtu(const struct net_device *ndev)
{
	enum ib_mtu mtu = iboe_get_mtu(READ_ONCE(ndev->mtu));

	return mtu ? ib_mtu_enum_to_int(mtu) : 0;
}

/**
 * roe_device_mtu() - path MTU that the netdev allows now
 * @dev: device
 *
 * Return: 256 to 4096 bytes, or 0 if not even the smallest fits.
 */
u32 roe_device_mtu(const struct roe_dev *dev)
{
	return netdev_mtu(dev->ndev);
}

/**
 * roe_device_gid_mtu() - path MTU for packets with a source GID
 * @dev: device
 * @gid: attributes, to which the caller has a reference
 *
 * Packets leave by the netdev of their source GID, which may allow less than the device's own
 * netdev: a VLAN, a macvlan in a container. Packets are never fragmented.
 *
 * Return: as roe_device_mtu().
 */
u32 roe_device_gid_mtu(const struct roe_dev *dev, const struct ib_gid_attr *gid)
{
	u32 mtu = roe_device_mtu(dev);
	const struct net_device *ndev;

	rcu_read_lock();
	ndev = rcu_dereference(gid->ndev);
	if (ndev && ndev != dev->ndev)
		mtu = min(mtu, netdev_mtu(ndev));
	rcu_read_unlock();
	return mtu;
}

/**
 * roe_device_up() - state of the port
 * @dev: device
 *
 * Return: whether packets may flow.
 */
bool roe_device_up(const struct roe_dev *dev)
{
	return netif_running(dev->ndev) && netif_carrier_ok(dev->ndev) && roe_device_mtu(dev);
}

static int query_device(struct ib_device *ibdev, struct ib_device_attr *attr,
			struct ib_udata *udata)
{
	memset(attr, 0, sizeof(*attr));
	attr->sys_image_guid = ibdev->node_guid;
	attr->vendor_id = ROE_VENDOR_ID;
	attr->hw_ver = ROE_HW_VERSION;
	/* as librxe and mlx5 decode it: major, minor and subminor, 16 bits each */
	attr->fw_ver = (u64)ROE_VERSION_MAJOR << 32 | ROE_VERSION_MINOR << 16;
	attr->max_mr_size = ~0ull;
	attr->page_size_cap = ~(u64)(PAGE_SIZE - 1);
	attr->device_cap_flags = IB_DEVICE_CURR_QP_STATE_MOD | IB_DEVICE_RC_RNR_NAK_GEN |
				 IB_DEVICE_SYS_IMAGE_GUID | IB_DEVICE_PORT_ACTIVE_EVENT |
				 IB_DEVICE_SRQ_RESIZE | IB_DEVICE_MEM_MGT_EXTENSIONS |
				 IB_DEVICE_MEM_WINDOW | IB_DEVICE_MEM_WINDOW_TYPE_2B |
				 IB_DEVICE_BAD_QKEY_CNTR | IB_DEVICE_ATOMIC_WRITE;
	/* useless where the core does not let an MR have the access right */
	if (IB_ACCESS_SUPPORTED & IB_ACCESS_FLUSH_GLOBAL)
		attr->device_cap_flags |= IB_DEVICE_FLUSH_GLOBAL;
	attr->kernel_cap_flags = IBK_ALLOW_USER_UNREG | IBK_SG_GAPS_REG;
	attr->max_qp = ROE_MAX_QP;
	attr->max_qp_wr = ROE_MAX_QP_WR;
	attr->max_send_sge = ROE_MAX_SGE;
	attr->max_recv_sge = ROE_MAX_SGE;
	attr->max_sge_rd = ROE_MAX_SGE;
	attr->max_cq = ROE_MAX_OBJECTS;
	attr->max_cqe = ROE_CQ_MAX_CQE;
	attr->max_mr = ROE_MAX_MR;
	attr->max_mw = ROE_MAX_MR;
	attr->max_pd = ROE_MAX_OBJECTS;
	attr->max_ah = ROE_MAX_OBJECTS;
	attr->max_qp_rd_atom = ROE_MAX_RD_ATOMIC;
	attr->max_qp_init_rd_atom = ROE_MAX_RD_ATOMIC;
	attr->max_res_rd_atom = INT_MAX;
	attr->atomic_cap = IB_ATOMIC_HCA;
	attr->max_fast_reg_page_list_len = ROE_MR_MAX_FAST_PAGES;
	attr->cq_caps.max_cq_moderation_count = U16_MAX;
	attr->cq_caps.max_cq_moderation_period = U16_MAX;
	attr->max_srq = ROE_MAX_OBJECTS;
	attr->max_srq_wr = ROE_MAX_QP_WR;
	attr->max_srq_sge = ROE_MAX_SGE;
	attr->max_mcast_grp = ROE_MAX_MCAST_GROUPS;
	attr->max_mcast_qp_attach = ROE_MAX_MCAST_QPS;
	attr->max_total_mcast_qp_attach = ROE_MAX_MCAST_GROUPS * ROE_MAX_MCAST_QPS;
	attr->max_pkeys = ROE_MAX_PKEYS;
	attr->local_ca_ack_delay = LOCAL_CA_ACK_DELAY;
	roe_odp_caps(attr);
	return 0;
}

/* Only the node description: rdma-ndd writes the host name there, for ibstat and others. */
static int modify_device(struct ib_device *ibdev, int mask, struct ib_device_modify *modify)
{
	if (mask & ~IB_DEVICE_MODIFY_NODE_DESC)
		return -EOPNOTSUPP;
	if (mask & IB_DEVICE_MODIFY_NODE_DESC)
		memcpy(ibdev->node_desc, modify->node_desc, sizeof(ibdev->node_desc));
	return 0;
}

static void get_dev_fw_str(struct ib_device *ibdev, char *str)
{
	snprintf(str, IB_FW_VERSION_NAME_MAX, "%d.%d.0", ROE_VERSION_MAJOR, ROE_VERSION_MINOR);
}

/*
 * ib_get_eth_speed() warns at each call if the netdev reports no speed (lo, or a macvlan over
 * such a netdev), and any process may query the port all the time: so ask the netdev first. Not
 * one that was unregistered, although the device holds a reference to it: an ipvlan asks the
 * netdev below it, to which nobody holds a reference any more.
 */
static void query_speed(struct ib_device *ibdev, u32 port, struct ib_port_attr *attr)
{
	struct net_device *ndev = roe_dev(ibdev)->ndev;
	struct ethtool_link_ksettings link;
	int err = -ENODEV;

	rtnl_lock();
	if (ndev->reg_state == NETREG_REGISTERED)
		err = __ethtool_get_link_ksettings(ndev, &link);
	rtnl_unlock();
	attr->active_speed = IB_SPEED_SDR;
	attr->active_width = IB_WIDTH_1X;
	if (!err && link.base.speed != (u32)SPEED_UNKNOWN)
		ib_get_eth_speed(ibdev, port, &attr->active_speed, &attr->active_width);
}

static int query_port(struct ib_device *ibdev, u32 port, struct ib_port_attr *attr)
{
	struct roe_dev *dev = roe_dev(ibdev);
	bool up = roe_device_up(dev);

	attr->state = up ? IB_PORT_ACTIVE : IB_PORT_DOWN;
	attr->phys_state = up ? IB_PORT_PHYS_STATE_LINK_UP : IB_PORT_PHYS_STATE_DISABLED;
	attr->max_mtu = IB_MTU_4096;
	attr->active_mtu = iboe_get_mtu(READ_ONCE(dev->ndev->mtu)) ?: IB_MTU_256;
	attr->gid_tbl_len = ROE_GID_TABLE_LEN;
	attr->ip_gids = true;
	attr->port_cap_flags = IB_PORT_CM_SUP;
	attr->max_msg_sz = ROE_MSG_MAX;
	attr->pkey_tbl_len = ROE_MAX_PKEYS;
	attr->max_vl_num = 1;
	attr->qkey_viol_cntr = roe_stat_sum(dev, ROE_STAT_RX_QKEY_ERR);
	query_speed(ibdev, port, attr);
	return 0;
}

static int query_pkey(struct ib_device *ibdev, u32 port, u16 index, u16 *pkey)
{
	if (index >= ROE_MAX_PKEYS)
		return -EINVAL;
	*pkey = ROE_DEFAULT_PKEY;
	return 0;
}

/* MADs and the CM through QP1; no SMI, no QP0: RoCE has no subnet manager. */
static int get_port_immutable(struct ib_device *ibdev, u32 port,
			      struct ib_port_immutable *immutable)
{
	immutable->core_cap_flags = RDMA_CORE_PORT_IBA_ROCE_UDP_ENCAP;
	immutable->max_mad_size = IB_MGMT_MAD_SIZE;
	immutable->gid_tbl_len = ROE_GID_TABLE_LEN;
	immutable->pkey_tbl_len = ROE_MAX_PKEYS;
	return 0;
}

/*
 * Instead of ib_device_set_netdev(), through which rdma_rxe would find our
 * devices and take them for its own (abi.md 22.3). Must not sleep: ksmbd calls
 * it under a lock.
 */
static struct net_device *get_netdev(struct ib_device *ibdev, u32 port)
{
	struct net_device *ndev = roe_dev(ibdev)->ndev;

	/* No READ_ONCE(): reg_state is a bit-field in 6.1, until 6.1.176 at least. */
	if (port != 1 || ndev->reg_state != NETREG_REGISTERED)
		return NULL;
	dev_hold(ndev);
	return ndev;
}

static enum rdma_link_layer get_link_layer(struct ib_device *ibdev, u32 port)
{
	return IB_LINK_LAYER_ETHERNET;
}

static int alloc_ucontext(struct ib_ucontext *ibuc, struct ib_udata *udata)
{
	return 0;
}

static void dealloc_ucontext(struct ib_ucontext *ibuc)
{
}

/* Nothing to do: mapped rings are plain memory, which stays until it is unmapped. */
static void disassociate_ucontext(struct ib_ucontext *ibuc)
{
}

static int alloc_pd(struct ib_pd *ibpd, struct ib_udata *udata)
{
	struct roe_pd *pd = container_of(ibpd, struct roe_pd, ib);

	mutex_init(&pd->lock);
	INIT_LIST_HEAD(&pd->uds);
	return roe_object_add(&roe_dev(ibpd->device)->pds);
}

static int dealloc_pd(struct ib_pd *ibpd, struct ib_udata *udata)
{
	atomic_dec(&roe_dev(ibpd->device)->pds);
	return 0;
}

/*
 * The last call for a device, whoever ended it: rdma link del, link.c, or
 * rdma_rxe's module exit (abi.md 22.4). Also called on the error path before
 * registration: every step is undone only if it was done.
 */
static void dealloc_driver(struct ib_device *ibdev)
{
	struct roe_dev *dev = roe_dev(ibdev);

	roe_link_dead(dev);
	if (dev->home)
		roe_net_del(dev);
	xa_destroy(&dev->ahs);
	roe_keys_destroy(&dev->keys);
	roe_stat_exit(dev);
	netdev_put(dev->ndev, &dev->ndev_tracker);
}

static const struct ib_device_ops ops = {
	.owner			= THIS_MODULE,
	.driver_id		= RDMA_DRIVER_RXE,
	.uverbs_abi_ver		= UVERBS_ABI_VERSION,

	.add_gid		= roe_gid_add,
	.advise_mr		= roe_odp_advise,
	.alloc_hw_port_stats	= roe_stat_alloc_port,
	.alloc_mr		= roe_mr_alloc_fast,
	.alloc_mw		= roe_mw_alloc,
	.alloc_pd		= alloc_pd,
	.alloc_ucontext		= alloc_ucontext,
	.attach_mcast		= roe_mcast_attach,
	.counter_alloc_stats	= roe_stat_alloc_counter,
	.counter_bind_qp	= roe_compat_counter_bind_qp,
	.counter_dealloc	= roe_stat_dealloc_counter,
	.counter_unbind_qp	= roe_compat_counter_unbind_qp,
	.counter_update_stats	= roe_stat_update_counter,
	.create_ah		= roe_ah_create,
	.create_cq		= roe_compat_create_cq,
	.create_qp		= roe_qp_create,
	.create_srq		= roe_srq_create,
	.create_user_ah		= roe_ah_create,
	.dealloc_driver		= dealloc_driver,
	.dealloc_pd		= dealloc_pd,
	.dealloc_ucontext	= dealloc_ucontext,
	.dealloc_mw		= roe_mw_dealloc,
	.del_gid		= roe_gid_del,
	.dereg_mr		= roe_mr_dereg,
	.device_group		= &roe_knob_group,
	.fill_res_cq_entry	= roe_restrack_cq,
	.fill_res_mr_entry	= roe_restrack_mr,
	.fill_res_qp_entry	= roe_restrack_qp,
	.fill_stat_mr_entry	= roe_restrack_mr_stat,
	.destroy_ah		= roe_ah_destroy,
	.destroy_cq		= roe_cq_destroy,
	.destroy_qp		= roe_qp_destroy,
	.destroy_srq		= roe_srq_destroy,
	.detach_mcast		= roe_mcast_detach,
	.disassociate_ucontext	= disassociate_ucontext,
	.enable_driver		= roe_link_live,
	.get_dev_fw_str		= get_dev_fw_str,
	.get_dma_mr		= roe_mr_get_dma,
	.get_hw_stats		= roe_stat_get,
	.get_link_layer		= get_link_layer,
	.get_netdev		= get_netdev,
	.get_port_immutable	= get_port_immutable,
	.map_mr_sg		= roe_mr_map_sg,
	.mmap			= roe_ring_mmap,
	.mmap_free		= roe_ring_mmap_free,
	.modify_cq		= roe_cq_moderate,
	.modify_device		= modify_device,
	.modify_qp		= roe_qp_modify,
	.modify_srq		= roe_srq_modify,
	.poll_cq		= roe_cq_poll,
	.post_recv		= roe_qp_post_recv,
	.post_send		= roe_qp_post_send,
	.post_srq_recv		= roe_srq_post_recv,
	.process_mad		= roe_mad_process,
	.query_ah		= roe_ah_query,
	.query_device		= query_device,
	.query_pkey		= query_pkey,
	.query_port		= query_port,
	.query_qp		= roe_qp_query,
	.query_srq		= roe_srq_query,
	.reg_user_mr		= roe_compat_reg_user_mr,
	.reg_user_mr_dmabuf	= roe_compat_reg_dmabuf,
	.req_notify_cq		= roe_cq_arm,
	.rereg_user_mr		= roe_mr_rereg_user,
	.resize_user_cq		= roe_compat_resize_user_cq,

	ROE_COMPAT_INIT_COUNTER

	INIT_RDMA_OBJ_SIZE(ib_ah, roe_ah, ib),
	INIT_RDMA_OBJ_SIZE(ib_cq, roe_cq, ib),
	INIT_RDMA_OBJ_SIZE(ib_mw, roe_mw, ib),
	INIT_RDMA_OBJ_SIZE(ib_pd, roe_pd, ib),
	INIT_RDMA_OBJ_SIZE(ib_qp, roe_qp, ib),
	INIT_RDMA_OBJ_SIZE(ib_srq, roe_srq, ib),
	INIT_RDMA_OBJ_SIZE(ib_ucontext, roe_ucontext, ib),
};

static void describe(struct ib_device *ibdev)
{
	ibdev->node_type = RDMA_NODE_IB_CA;
	ibdev->phys_port_cnt = 1;
	ibdev->num_comp_vectors = num_online_cpus();
	strscpy(ibdev->node_desc, "roe", sizeof(ibdev->node_desc));
	ibdev->uverbs_cmd_mask |= BIT_ULL(IB_USER_VERBS_CMD_POST_SEND) |
				  BIT_ULL(IB_USER_VERBS_CMD_REQ_NOTIFY_CQ);
}

/*
 * Returns the namespace of a netdev, with a reference: the namespace must not begin to die before
 * the device is registered, since link_exit_net() (link.c) could not unregister the device yet.
 * The netdev may move to another namespace; roe_link_add() checks whether it has. NULL: the
 * netdev has gone, or the namespace is dying.
 */
static struct net *hold_net(const struct net_device *ndev)
{
	struct net *net = NULL;

	rtnl_lock();
	if (ndev->reg_state == NETREG_REGISTERED)
		net = maybe_get_net(dev_net(ndev));
	rtnl_unlock();
	return net;
}

/* From here on ib_dealloc_device() undoes whatever was done. */
static struct roe_dev *alloc_device(struct net_device *ndev, struct net *net)
{
	struct roe_dev *dev = roe_compat_alloc_device(roe_dev, ib, net);

	if (!dev)
		return NULL;
	INIT_LIST_HEAD(&dev->link);
	INIT_LIST_HEAD(&dev->presences);
	xa_init_flags(&dev->ahs, XA_FLAGS_ALLOC1 | XA_FLAGS_LOCK_IRQ);
	roe_keys_init(&dev->keys);
	roe_knob_init(dev);
	roe_mcast_init(dev);
	dev->ndev = ndev;
	dev->net = net;
	netdev_hold(ndev, &dev->ndev_tracker, GFP_KERNEL);
	dev->up = roe_device_up(dev);
	ib_set_device_ops(&dev->ib, &ops);
	describe(&dev->ib);
	return dev;
}

/* @step: takes the name of the step that failed. */
static int start(struct roe_dev *dev, const char *name, const char **step)
{
	int err;

	*step = "counters";
	err = roe_stat_init(dev);
	if (err)
		return err;
	*step = "netdev";
	err = roe_link_add(dev);
	if (err)
		return err;
	*step = "netfilter hooks";
	err = roe_net_add(dev);
	if (err)
		return err;
	*step = "RDMA core";
	ib_mark_name_assigned_by_user(&dev->ib);
	return ib_register_device(&dev->ib, name, NULL);
}

static void log_failure(const struct net_device *ndev, const char *name, const char *step,
			int err)
{
	/* -EEXIST was logged where it was found */
	if (err == -ENFILE)
		pr_err("%s: the name %s is in use\n", netdev_name(ndev), name);
	else if (err != -EEXIST)
		pr_err("%s: cannot create %s: %s (error %d)\n", netdev_name(ndev), name, step,
		       err);
}

static int add_device(const char *name, struct net_device *ndev, struct net *net)
{
	struct roe_dev *dev = alloc_device(ndev, net);
	const char *step;
	int err;

	if (!dev) {
		log_failure(ndev, name, "memory", -ENOMEM);
		return -ENOMEM;
	}
	/* Once registered, the device may be ended by others at any moment. */
	err = start(dev, name, &step);
	if (err) {
		log_failure(ndev, name, step, err);
		roe_link_del(dev);
		ib_dealloc_device(&dev->ib);
	}
	return err;
}

/**
 * roe_device_add() - create and register a device
 * @name: of the new device
 * @ndev: netdev that it will belong to, in the namespace of the device
 *
 * May sleep, RTNL not held.
 *
 * Return: 0 or a negative errno, which was logged.
 */
int roe_device_add(const char *name, struct net_device *ndev)
{
	struct net *net = hold_net(ndev);
	int err;

	if (!net) {
		log_failure(ndev, name, "netdev", -ENODEV);
		return -ENODEV;
	}
	err = add_device(name, ndev, net);
	put_net(net);
	return err;
}
