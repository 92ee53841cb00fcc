// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * roe: RDMA over Ethernet, a RoCEv2 device in software on any netdev.
 *
 * roe_init() sets up the parts of the module in the order in which they depend on each other.
 */
#include <linux/init.h>
#include <linux/module.h>
#include <rdma/rdma_netlink.h>
#include "copy.h"
#include "cq.h"
#include "device.h"
#include "direct.h"
#include "fault.h"
#include "icrc.h"
#include "net.h"
#include "qp.h"
#include "relay.h"

static int __init roe_init(void)
{
	int err;

	err = roe_icrc_init();
	if (err)
		return err;
	roe_copy_init();
	err = roe_direct_init();
	if (err)
		return err;
	err = roe_notify_init();
	if (err)
		goto err_notify;
	err = roe_fault_init();
	if (err)
		goto err_fault;
	err = roe_qp_init();
	if (err)
		goto err_qp;
	err = roe_relay_init();
	if (err)
		goto err_relay;
	err = roe_frame_init();
	if (err)
		goto err_frame;
	err = roe_receive_init();
	if (err)
		goto err_receive;
	err = roe_net_init();
	if (err)
		goto err_net;
	err = roe_link_init();
	if (err)
		goto err_link;
	return 0;

err_link:
	roe_net_exit();
err_net:
	roe_receive_exit();
err_receive:
	roe_frame_exit();
err_frame:
	roe_relay_exit();
err_relay:
	roe_qp_exit();
err_qp:
	roe_fault_exit();
err_fault:
	roe_notify_exit();
err_notify:
	roe_direct_exit();
	return err;
}

static void __exit roe_exit(void)
{
	roe_link_exit();
	roe_net_exit();
	roe_receive_exit();
	/* before roe_qp_exit(): its works may still look up QPs */
	roe_fault_exit();
	roe_relay_exit();
	roe_qp_exit();
	roe_frame_exit();
	roe_notify_exit();
	roe_direct_exit();
	/* RCU callbacks that are still pending run code of this module. */
	rcu_barrier();
}

module_init(roe_init);
module_exit(roe_exit);

MODULE_DESCRIPTION("RDMA over Ethernet: RoCEv2 in software");
MODULE_VERSION(__stringify(ROE_VERSION_MAJOR) "." __stringify(ROE_VERSION_MINOR));
MODULE_LICENSE("Dual BSD/GPL");
MODULE_ALIAS_RDMA_LINK("roe");
