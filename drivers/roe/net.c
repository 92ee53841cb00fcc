// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * A network namespace with roe devices: hooks that take packets, sockets that
 * reserve port 4791 and are the slow path. A device is present in its own namespace
 * and in those where VLANs or macvlans over its netdev have GIDs, as in containers.
 *
 * The hook sits in LOCAL_IN behind the firewall (priority INT_MAX). Packets that it does
 * not take go on to UDP: to our socket, or to that of rdma_rxe if it was bound first.
 */
#include <linux/if_arp.h>
#include <linux/ip.h>
#include <linux/ipv6.h>
#include <linux/mutex.h>
#include <linux/netfilter.h>
#include <linux/netfilter_ipv4.h>
#include <linux/netfilter_ipv6.h>
#include <linux/rculist.h>
#include <linux/udp.h>
#include <linux/workqueue.h>
#include <net/ip.h>
#include <net/ipv6.h>
#include <net/netfilter/nf_conntrack.h>
#include <net/netfilter/nf_conntrack_core.h>
#include <net/netns/generic.h>
#include <net/udp_tunnel.h>
#include <net/xfrm.h>
#include <roe/wire.h>
#include "net.h"
#include "stats.h"

struct roe_net {
	struct net		*net;
	struct list_head	presences;	/* RCU; changes under net_lock, adding also @lock */
	struct mutex		lock;		/* to open and close; net_lock nests inside */
	struct socket		*sock4, *sock6;	/* NULL: port taken, or no IPv6; READ_ONCE */
	bool			open;		/* has hooks and sockets; @lock */
	bool			left;		/* a presence was here and has gone; net_lock */
	struct delayed_work	close;		/* runs CLOSE_AFTER the last presence */
};

/*
 * Closing takes grace periods, and the last GID is taken back by a worker that all RDMA devices
 * of the host share: without a delay, whoever may change addresses could have it do nothing else.
 */
#define CLOSE_AFTER	(10 * HZ)

static unsigned int roe_net_id __read_mostly;

/*
 * Protects the presences of all namespaces; nothing is waited for while it is held. Opening or
 * closing a namespace waits for grace periods, with only the lock of that namespace held.
 */
static DEFINE_MUTEX(net_lock);

static struct roe_net *roe_net(const struct net *net)
{
	return net_generic(net, roe_net_id);
}

/**
 * roe_net_device() - the device that counts a packet without a QP
 * @net: namespace
 * @ndev: where the packet came in
 *
 * RCU read-side section, in which the result is valid.
 *
 * Return: the device on @ndev, otherwise any of the namespace, or NULL.
 */
struct roe_dev *roe_net_device(struct net *net, const struct net_device *ndev)
{
	const struct roe_presence *p;
	struct roe_dev *any = NULL;

	list_for_each_entry_rcu(p, &roe_net(net)->presences, in_net) {
		if (p->dev->ndev == ndev)
			return p->dev;
		any = p->dev;
	}
	return any;
}

/**
 * roe_net_ingress() - where did a packet come in?
 * @net: namespace
 * @skb: behind the IP receive path, which has filled in its control block
 *
 * Behind a VRF @skb->dev is that of the VRF; the control block has the slave, as for
 * sockets bound to one (inet_sdif()). Packets from this host itself come by lo; those of
 * IPv6 have in the control block the netdev that they are for.
 *
 * RCU read-side section, in which the result is valid.
 *
 * Return: the netdev.
 */
const struct net_device *roe_net_ingress(struct net *net, const struct sk_buff *skb)
{
	bool v6 = skb->protocol == htons(ETH_P_IPV6);
	int ifindex = v6 ? inet6_sdif(skb) : inet_sdif(skb);
	const struct net_device *ndev;

	if (v6 && !ifindex && (skb->dev->flags & IFF_LOOPBACK))
		ifindex = IP6CB(skb)->iif;
	ndev = ifindex ? dev_get_by_index_rcu(net, ifindex) : NULL;
	return ndev ?: skb->dev;
}

/**
 * roe_net_knows() - is it the address of any device?
 * @net: namespace
 * @addr: IPv6, or IPv4 mapped
 * @ndev: where a packet for it came in
 *
 * RCU read-side section.
 *
 * Return: whether a device present in @net has that GID, be it of @net or of another namespace.
 */
bool roe_net_knows(struct net *net, const struct in6_addr *addr, const struct net_device *ndev)
{
	const struct roe_presence *p;

	list_for_each_entry_rcu(p, &roe_net(net)->presences, in_net)
		if (roe_gid_find(p->dev, addr, ndev))
			return true;
	return false;
}

static struct roe_dev *earlier(struct roe_dev *a, struct roe_dev *b)
{
	/* seq 0 comes last: RDMA-CM does not know such a device yet */
	return !a || READ_ONCE(b->seq) - 1 < READ_ONCE(a->seq) - 1 ? b : a;
}

/**
 * roe_net_owner() - whose address is it?
 * @net: namespace
 * @addr: IPv6, or IPv4 mapped
 * @ndev: where a packet for it came in
 *
 * Of several devices with that GID, it is the one that RDMA-CM takes for a connection: of those
 * that the namespace may use (rdma system set netns exclusive) the one with that GID on @ndev,
 * otherwise the one that was registered, or moved to its RDMA namespace, first.
 *
 * RCU read-side section, in which the result is valid.
 *
 * Return: that device, or NULL.
 */
struct roe_dev *roe_net_owner(struct net *net, const struct in6_addr *addr,
			      const struct net_device *ndev)
{
	struct roe_dev *first = NULL, *here = NULL;
	const struct roe_presence *p;
	const struct roe_gid *gid;

	list_for_each_entry_rcu(p, &roe_net(net)->presences, in_net) {
		gid = roe_gid_find(p->dev, addr, ndev);
		if (!gid || !rdma_dev_access_netns(&p->dev->ib, net))
			continue;
		first = earlier(first, p->dev);
		if (gid->ifindex == ndev->ifindex)
			here = earlier(here, p->dev);
	}
	return here ?: first;
}

static bool to_our_port(const struct sk_buff *skb)
{
	const struct udphdr *udp;
	struct udphdr buf;

	udp = skb_header_pointer(skb, skb_transport_offset(skb), sizeof(buf), &buf);
	return udp && udp->dest == htons(ROE_UDP_PORT);
}

/*
 * conntrack confirms a flow in a LOCAL_IN hook that may run behind ours; to
 * steal the first packet would leave the flow NEW for ever (datapath.md 3.4).
 */
static bool is_unconfirmed(const struct sk_buff *skb)
{
	enum ip_conntrack_info info;
	const struct nf_conn *ct = nf_ct_get(skb, &info);

	return IS_ENABLED(CONFIG_NF_CONNTRACK) && ct && !nf_ct_is_confirmed(ct);
}

/*
 * Does a packet that is passed on come back by our socket, after conntrack's hook? In a VRF UDP
 * does not find that socket, unless a sysctl says so.
 */
static bool comes_back(const struct sk_buff *skb, const struct nf_hook_state *state)
{
	/* where UDP looks for the socket: after an ipvlan's own hook that is not state->net */
	const struct roe_net *rn = roe_net(dev_net(skb->dev));

	return READ_ONCE(*(state->pf == NFPROTO_IPV6 ? &rn->sock6 : &rn->sock4)) &&
	       !netif_is_l3_master(skb->dev);
}

/*
 * For a multicast packet IP may have found our socket already (early demux). UDP would note the
 * packet's route in that socket, and the route keeps lo: a namespace could not end before the
 * socket is closed. So take the socket off the skb.
 */
static unsigned int pass_on(struct sk_buff *skb)
{
	if (skb->pkt_type == PACKET_MULTICAST)
		skb_orphan(skb);
	return NF_ACCEPT;
}

/*
 * Confirm the flow of a packet that would not come back: it would go to rdma_rxe's socket or to
 * none, so this is the last place that it passes. This does all that conntrack's own hook does,
 * except that it notifies nobody of the new flow. RCU held by netfilter. Returns conntrack's
 * verdict.
 */
static unsigned int confirm(struct sk_buff *skb)
{
	const struct nf_ct_hook *ct_hook = rcu_dereference(nf_ct_hook);

	return ct_hook ? roe_compat_ct_confirm(ct_hook, skb) : NF_ACCEPT;
}

static unsigned int hook_take(struct sk_buff *skb, const struct nf_hook_state *state)
{
	enum roe_rx_verdict verdict;
	unsigned int ct_verdict;

	if (is_unconfirmed(skb)) {
		if (comes_back(skb, state))
			return pass_on(skb);
		ct_verdict = confirm(skb);
		if (ct_verdict != NF_ACCEPT)
			return ct_verdict;
	}

	/* NFQUEUE reinjects from process context with softirqs enabled. */
	local_bh_disable();
	verdict = roe_receive_skb(state->net, skb);
	/* back to the cache from which roe_frame_build() takes the next skb */
	if (verdict == ROE_RX_TAKEN)
		napi_consume_skb(skb, 1);
	local_bh_enable();
	return verdict == ROE_RX_TAKEN ? NF_STOLEN : pass_on(skb);
}

static unsigned int hook_v4(void *priv, struct sk_buff *skb, const struct nf_hook_state *state)
{
	const struct iphdr *ip = ip_hdr(skb);

	if (ip->protocol != IPPROTO_UDP || !to_our_port(skb))
		return NF_ACCEPT;
	/* RoCE has no IP options */
	if (ip->ihl != 5)
		return pass_on(skb);
	/* For parity with UDP: a policy may demand IPsec. */
	if (!xfrm4_policy_check(NULL, XFRM_POLICY_IN, skb))
		return NF_DROP;
	return hook_take(skb, state);
}

static unsigned int hook_v6(void *priv, struct sk_buff *skb, const struct nf_hook_state *state)
{
	if (ipv6_hdr(skb)->nexthdr != IPPROTO_UDP || !to_our_port(skb))
		return NF_ACCEPT;
	if (!xfrm6_policy_check(NULL, XFRM_POLICY_IN, skb))
		return NF_DROP;
	return hook_take(skb, state);
}

static const struct nf_hook_ops hooks[] = {
	{
		.hook		= hook_v4,
		.pf		= NFPROTO_IPV4,
		.hooknum	= NF_INET_LOCAL_IN,
		.priority	= INT_MAX,
	},
	{
		.hook		= hook_v6,
		.pf		= NFPROTO_IPV6,
		.hooknum	= NF_INET_LOCAL_IN,
		.priority	= INT_MAX,
	},
};

/**
 * roe_net_presences() - all devices in a namespace
 * @net: namespace
 *
 * Return: RCU list of struct roe_presence by in_net.
 */
struct list_head *roe_net_presences(struct net *net)
{
	return &roe_net(net)->presences;
}

/**
 * roe_net_of() - find a namespace in which a device is present
 * @dev: device
 * @cookie: of the namespace
 *
 * RCU read-side section, in which the result is valid.
 *
 * Return: the namespace, NULL if it has ended or the device is not present there.
 */
struct net *roe_net_of(const struct roe_dev *dev, u64 cookie)
{
	const struct roe_presence *p;
	struct net *net;

	list_for_each_entry_rcu(p, &dev->presences, of_dev) {
		net = READ_ONCE(p->net);
		if (net && net->net_cookie == cookie)
			return net;
	}
	return NULL;
}

/* The slow path: skb->data at the UDP header. Nobody gets the packet after us, so it ends here. */
static int encap_rcv(struct sock *sk, struct sk_buff *skb)
{
	struct net *net = sock_net(sk);
	enum roe_rx_verdict verdict;

	local_bh_disable();
	__skb_push(skb, -skb_network_offset(skb));
	verdict = roe_receive_skb(net, skb);
	if (verdict != ROE_RX_TAKEN)
		roe_stat_inc(roe_net_device(net, roe_net_ingress(net, skb)),
			     verdict == ROE_RX_FOREIGN ? ROE_STAT_RX_NO_QP :
							 ROE_STAT_RX_MALFORMED);
	local_bh_enable();

	if (verdict == ROE_RX_TAKEN)
		consume_skb(skb);
	else
		kfree_skb(skb);
	return 0;
}

static struct socket *open_socket(struct net *net, bool v6)
{
	struct udp_port_cfg port = {
		.family			= v6 ? AF_INET6 : AF_INET,
		.local_udp_port		= htons(ROE_UDP_PORT),
		.ipv6_v6only		= v6,
	};
	struct udp_tunnel_sock_cfg tunnel = {
		.encap_type	= 1,
		.encap_rcv	= encap_rcv,
		.gro_receive	= roe_gro_receive,
		.gro_complete	= roe_gro_complete,
	};
	struct socket *sock;
	int err;

	err = udp_sock_create(net, &port, &sock);
	if (!err) {
		roe_compat_setup_udp_tunnel_sock(net, sock, &tunnel);
		return sock;
	}
	if (err == -EADDRINUSE)
		pr_info_ratelimited("UDP port %u over IPv%u is in use (rdma_rxe?): going on with the netfilter hook alone\n",
				    ROE_UDP_PORT, v6 ? 6 : 4);
	else
		pr_info_ratelimited("no socket on UDP port %u over IPv%u (error %d): going on with the netfilter hook alone\n",
				    ROE_UDP_PORT, v6 ? 6 : 4, err);
	return NULL;
}

static void close_socket(struct socket *sock)
{
	if (sock)
		roe_compat_udp_tunnel_sock_release(sock);
}

/* Fails only if the hooks cannot be registered; the caller logs that. */
static int open_net(struct net *net, struct roe_net *rn)
{
	int err;

	lockdep_assert_held(&rn->lock);
	err = nf_register_net_hooks(net, hooks, ARRAY_SIZE(hooks));
	if (err)
		return err;
	WRITE_ONCE(rn->sock4, open_socket(net, false));
	/* without IPv6 the kernel would load a module, with RTNL held where a GID is added */
	WRITE_ONCE(rn->sock6, ipv6_mod_enabled() ? open_socket(net, true) : NULL);
	rn->open = true;
	return 0;
}

/* Close the namespace if it has no presence. While @rn->lock is held none can be added. */
static void close_net(struct roe_net *rn)
{
	lockdep_assert_held(&rn->lock);
	if (!rn->open || !list_empty(&rn->presences))
		return;
	nf_unregister_net_hooks(rn->net, hooks, ARRAY_SIZE(hooks));
	close_socket(rn->sock4);
	close_socket(rn->sock6);
	WRITE_ONCE(rn->sock4, NULL);
	WRITE_ONCE(rn->sock6, NULL);
	rn->open = false;
}

static void close_now(struct roe_net *rn)
{
	mutex_lock(&rn->lock);
	close_net(rn);
	mutex_unlock(&rn->lock);
}

static void close_late(struct work_struct *work)
{
	struct roe_net *rn = container_of(to_delayed_work(work), struct roe_net, close);

	mutex_lock(&rn->lock);
	/* if it is pending, another presence has left since: leave it to that later run */
	if (!delayed_work_pending(&rn->close))
		close_net(rn);
	mutex_unlock(&rn->lock);
}

static struct roe_presence *find(const struct roe_dev *dev, const struct net *net)
{
	struct roe_presence *p;

	lockdep_assert_held(&net_lock);
	list_for_each_entry(p, &dev->presences, of_dev)
		if (p->net == net)
			return p;
	return NULL;
}

static struct roe_presence *appear(struct roe_dev *dev, struct net *net)
{
	struct roe_presence *p = kzalloc(sizeof(*p), GFP_KERNEL);

	if (!p)
		return ERR_PTR(-ENOMEM);
	p->dev = dev;
	p->net = net;
	list_add_tail_rcu(&p->of_dev, &dev->presences);
	list_add_tail_rcu(&p->in_net, &roe_net(net)->presences);
	return p;
}

static struct roe_presence *enter(struct roe_dev *dev, struct net *net)
{
	struct roe_presence *p;

	mutex_lock(&net_lock);
	p = find(dev, net) ?: appear(dev, net);
	if (!IS_ERR(p))
		p->users++;
	mutex_unlock(&net_lock);
	return p;
}

/* A presence that a reader has found stays valid until its RCU read-side section ends. */
static void vanish(struct roe_presence *p)
{
	struct roe_net *rn = roe_net(p->net);

	lockdep_assert_held(&net_lock);
	list_del_rcu(&p->of_dev);
	list_del_rcu(&p->in_net);
	rn->left = true;
	WRITE_ONCE(p->net, NULL);
}

/**
 * roe_net_enter() - let packets of a namespace reach a device
 * @dev: device
 * @net: namespace, to which the caller has a reference
 *
 * Process context, RTNL may be held.
 *
 * Return: a presence, to be given to roe_net_leave(), or an ERR_PTR.
 */
struct roe_presence *roe_net_enter(struct roe_dev *dev, struct net *net)
{
	struct roe_net *rn = roe_net(net);
	struct roe_presence *p;
	int err = 0;

	mutex_lock(&rn->lock);
	if (!rn->open)
		err = open_net(net, rn);
	p = err ? ERR_PTR(err) : enter(dev, net);
	if (IS_ERR(p))
		close_net(rn);
	mutex_unlock(&rn->lock);
	return p;
}

ROE_EXPORT_FOR_TEST(roe_net_enter);

/**
 * roe_net_leave() - undo roe_net_enter()
 * @p: presence; its namespace may have ended before. Process context
 *
 * After the last presence in a namespace, its hooks and sockets stay for CLOSE_AFTER, and find
 * no device.
 */
void roe_net_leave(struct roe_presence *p)
{
	struct roe_net *rn;

	mutex_lock(&net_lock);
	if (!--p->users) {
		if (p->net) {
			rn = roe_net(p->net);
			vanish(p);
			/* begin the delay anew: it may be that of an earlier presence */
			cancel_delayed_work(&rn->close);
			schedule_delayed_work(&rn->close, CLOSE_AFTER);
		}
		kfree_rcu(p, rcu);
	}
	mutex_unlock(&net_lock);
}

ROE_EXPORT_FOR_TEST(roe_net_leave);

/**
 * roe_net_add() - let packets of its own namespace reach a device
 * @dev: device with @dev->net and @dev->ndev
 *
 * Return: 0 or a negative errno.
 */
int roe_net_add(struct roe_dev *dev)
{
	struct roe_presence *p = roe_net_enter(dev, dev->net);

	if (IS_ERR(p))
		return PTR_ERR(p);
	dev->home = p;
	return 0;
}

/**
 * roe_net_del() - undo roe_net_add()
 * @dev: device; its GIDs have gone. Process context, RTNL not held
 *
 * On return no hook or socket callback that could have seen @dev is running: this
 * waits, because a removed hook may still be at work (datapath.md 3.3).
 */
void roe_net_del(struct roe_dev *dev)
{
	roe_net_leave(dev->home);
	/*
	 * Without the delay, as rdma_rxe may want the port next. The namespace does not end
	 * before link.c has seen the end of the device.
	 */
	close_now(roe_net(dev->net));
	synchronize_net();
}

static int __net_init presence_init_net(struct net *net)
{
	struct roe_net *rn = roe_net(net);

	rn->net = net;
	INIT_LIST_HEAD(&rn->presences);
	mutex_init(&rn->lock);
	INIT_DELAYED_WORK(&rn->close, close_late);
	return 0;
}

/*
 * link.c has removed the devices of the namespace before. Other devices may still have GIDs
 * here if the core's GID worker is late: the presence that it gives back later is only memory.
 */
static void __net_exit presence_exit_net(struct net *net)
{
	struct roe_net *rn = roe_net(net);
	struct roe_presence *p, *next;

	mutex_lock(&net_lock);
	list_for_each_entry_safe(p, next, &rn->presences, in_net)
		vanish(p);
	mutex_unlock(&net_lock);
	/* nobody queues it any more: no presence refers to this namespace */
	cancel_delayed_work_sync(&rn->close);
	close_now(rn);
	/* A sender may have found the namespace just before the last presence left. */
	if (rn->left)
		synchronize_net();
}

static struct pernet_operations presence_net_ops = {
	.init	= presence_init_net,
	.exit	= presence_exit_net,
	.id	= &roe_net_id,
	.size	= sizeof(struct roe_net),
};

int __init roe_net_init(void)
{
	return register_pernet_subsys(&presence_net_ops);
}

void roe_net_exit(void)
{
	unregister_pernet_subsys(&presence_net_ops);
}
