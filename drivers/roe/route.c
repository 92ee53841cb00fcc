// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Routes for the packets of a QP: one is cached per QP and CPU.
 */
#include <linux/if_vlan.h>
#include <linux/in.h>
#include <linux/inetdevice.h>
#include <linux/ipv6.h>
#include <linux/random.h>
#include <net/inet_ecn.h>
#include <net/ip6_fib.h>
#include <net/ip6_route.h>
#include <net/l3mdev.h>
#include <net/route.h>
#include <net/xfrm.h>
#include <rdma/ib_addr.h>
#include <roe/wire.h>
#include "net.h"

/**
 * roe_av_gid_ok() - may packets of a device carry this source GID?
 * @dev: device
 * @gid: attributes, to which the caller has a reference
 *
 * The RDMA core gives a device the GIDs of all netdevs above its own, in whatever
 * namespace: a macvlan in a container has its GIDs on the device of the host, and whoever
 * may open that may use them. Packets leave and arrive in the namespace of the netdev.
 *
 * Return: whether the GID has its netdev, in a namespace that @dev gets packets from.
 */
bool roe_av_gid_ok(const struct roe_dev *dev, const struct ib_gid_attr *gid)
{
	const struct net_device *ndev;
	bool ok;

	rcu_read_lock();
	ndev = rcu_dereference(gid->ndev);
	ok = ndev && roe_net_of(dev, dev_net(ndev)->net_cookie);
	rcu_read_unlock();
	return ok;
}

/*
 * RDMA-CM sets as service level the PCP to which the VLAN maps the priority of the type of
 * service. If that were the skb's priority, the VLAN would map it once more. A RoCE service
 * level has three bits; a larger value is none, but what user_sl() says in a completion.
 */
static u32 priority(struct net_device *ndev, u8 tclass, u8 sl)
{
	u32 prio = rt_tos2priority(tclass);

	if (tclass & ~INET_ECN_MASK || sl > VLAN_PRIO_MASK >> VLAN_PRIO_SHIFT)
		return prio;
	if (ndev && is_vlan_dev(ndev) &&
	    vlan_dev_get_egress_qos_mask(ndev, prio) >> VLAN_PRIO_SHIFT == sl)
		return prio;
	return sl;
}

/**
 * roe_av_set() - set an address vector from attributes
 * @av: address vector; the caller sets its source port, and the ECN bits of its tclass
 * @attr: with a GRH, of which the caller holds the sgid_attr
 *
 * Netdev and namespace are remembered by number: an address vector may outlive the reference
 * to its GID by a grace period. As with a socket, the DS field gives the priority
 * and a VLAN netdev maps that to a PCP; if DSCP is 0 the priority is the service level.
 */
void roe_av_set(struct roe_av *av, const struct rdma_ah_attr *attr)
{
	const struct ib_global_route *grh = rdma_ah_read_grh(attr);
	struct net_device *ndev;
	u64 cookie;

	memcpy(&av->saddr, &grh->sgid_attr->gid, sizeof(av->saddr));
	memcpy(&av->daddr, &grh->dgid, sizeof(av->daddr));
	av->v6 = !ipv6_addr_v4mapped(&av->daddr);
	av->tclass = grh->traffic_class;
	av->hop_limit = grh->hop_limit ?: IPV6_DEFAULT_HOPLIMIT;
	/* 20 bits: what lies above them in the header is not the user's to set */
	av->flow_label = grh->flow_label & IB_GRH_FLOWLABEL_MASK;
	av->sgid_attr = grh->sgid_attr;
	rcu_read_lock();
	ndev = rcu_dereference(grh->sgid_attr->ndev);
	av->oif = ndev ? ndev->ifindex : 0;
	cookie = ndev ? dev_net(ndev)->net_cookie : 0;
	/*
	 * A netdev that is being moved has an ifindex in neither namespace for a while, and a
	 * VLAN that goes frees its map of priorities without a grace period.
	 */
	if (ndev && dev_get_by_index_rcu(dev_net(ndev), av->oif) != ndev) {
		av->oif = 0;
		ndev = NULL;
	}
	av->sl = rdma_ah_get_sl(attr);
	av->priority = priority(ndev, av->tclass, av->sl);
	rcu_read_unlock();
	/* the receive path reads @av without a lock, and the cookie first: find_qp() */
	smp_store_release(&av->net_cookie, cookie);
}

ROE_EXPORT_FOR_TEST(roe_av_set);

/**
 * roe_path_init() - prepare the path of a QP
 * @path: path without an address vector, zeroed
 * @gfp: how to allocate
 *
 * Without leave to sleep there is no cache: only a few pages of per-CPU memory are allocated in
 * advance, and the CM makes an address handle for each message, hundreds at a time.
 *
 * Return: 0 or -ENOMEM.
 */
int roe_path_init(struct roe_path *path, gfp_t gfp)
{
	/* Peers behind a NAT may see IDs of many QPs: start anywhere. */
	path->ip_id = get_random_u32();
	return gfpflags_allow_blocking(gfp) ? dst_cache_init(&path->dst, gfp) : 0;
}

ROE_EXPORT_FOR_TEST(roe_path_init);

/**
 * roe_path_destroy() - give cached routes back
 * @path: path that nobody uses any more
 */
void roe_path_destroy(struct roe_path *path)
{
	dst_cache_destroy(&path->dst);
}

ROE_EXPORT_FOR_TEST(roe_path_destroy);

/**
 * roe_path_reset() - forget cached routes
 * @path: path whose address vector changed
 */
void roe_path_reset(struct roe_path *path)
{
	path->alone = false;
	dst_cache_reset(&path->dst);
}

static struct dst_entry *lookup_v4(struct net *net, const struct roe_av *av, int oif)
{
	struct flowi4 fl4 = {
		.flowi4_oif = oif,
		.flowi4_proto = IPPROTO_UDP,
		.daddr = av->daddr.s6_addr32[3],
		.saddr = av->saddr.s6_addr32[3],
		.fl4_sport = av->sport,
		.fl4_dport = htons(ROE_UDP_PORT),
	};
	struct rtable *rt;

	roe_compat_flowi4_set_dsfield(&fl4, av->tclass);
	rt = ip_route_output_flow(net, &fl4, NULL);
	return IS_ERR(rt) ? NULL : &rt->dst;
}

static bool local_v4(const struct dst_entry *dst)
{
	return container_of(dst, struct rtable, dst)->rt_flags & RTCF_LOCAL;
}

/*
 * @flags: RT6_LOOKUP_F_IFACE: by @oif only. Without that flag, which ip6_dst_lookup_flow() does
 * not set, @oif is no more than a preference to IPv6 as soon as there is a source address.
 */
static struct dst_entry *lookup_v6(struct net *net, const struct roe_av *av, int oif, int flags)
{
	struct flowi6 fl6 = {
		.flowi6_oif = oif,
		.flowi6_proto = IPPROTO_UDP,
		.flowlabel = ip6_make_flowinfo(av->tclass, cpu_to_be32(av->flow_label)),
		.daddr = av->daddr,
		.saddr = av->saddr,
		.fl6_sport = av->sport,
		.fl6_dport = htons(ROE_UDP_PORT),
	};
	struct dst_entry *dst = ip6_route_output_flags(net, NULL, &fl6, flags);

	if (dst->error) {
		dst_release(dst);
		return NULL;
	}
	dst = xfrm_lookup_route(net, dst, flowi6_to_flowi(&fl6), NULL, 0);
	return IS_ERR(dst) ? NULL : dst;
}

static bool local_v6(const struct dst_entry *dst)
{
	return container_of(dst, struct rt6_info, dst)->rt6i_flags & RTF_LOCAL;
}

/*
 * Packets leave by the netdev of their source GID (the device's own, or one on
 * top of it: VLAN, bond, macvlan), whatever the metrics of other routes say. But
 * packets to an address of another netdev of this host go by lo, or the VRF, which
 * no lookup bound to a netdev finds; unless that other netdev has accept_local set, as
 * both ends of a veth pair have if they are to talk over it. Link-local addresses
 * and groups mean nothing without an interface.
 */
static bool accepts_local(struct net *net, const struct roe_av *av)
{
	struct net_device *dev = __ip_dev_find(net, av->daddr.s6_addr32[3], false);
	struct in_device *in_dev = dev ? __in_dev_get_rcu(dev) : NULL;

	return in_dev && dev->ifindex != av->oif && IN_DEV_ACCEPT_LOCAL(in_dev);
}

static struct dst_entry *lookup_bound_v4(struct net *net, const struct roe_av *av, int domain)
{
	struct dst_entry *dst;

	if (!ipv4_is_multicast(av->daddr.s6_addr32[3])) {
		dst = lookup_v4(net, av, domain);
		if (dst && local_v4(dst) && !accepts_local(net, av))
			return dst;
		dst_release(dst);
	}
	return lookup_v4(net, av, av->oif);
}

/* Has the host the source address, with none of the flags @banned, in its netdev's L3 domain? */
static bool has_v6(struct net *net, const struct roe_av *av, u32 banned)
{
	return ipv6_chk_addr_and_flags(net, &av->saddr, dev_get_by_index_rcu(net, av->oif), true,
				       0, banned);
}

/*
 * IPv4 finds no route from an address that the host has lost, but IPv6 does not check: without
 * this a process would go on sending from an address that another host may have by now. Another
 * host also has it if duplicate address detection has failed (RFC 4862 5.4.5), though the GID
 * remains; until DAD fails the address is used, as NICs do. The GID of the EUI-64 need not be an
 * address of the host; GIDs of lo, tun and WireGuard stay when their address goes (link.c).
 */
static bool has_source_v6(const struct roe_dev *dev, struct net *net, const struct roe_av *av)
{
	bool has;

	rcu_read_lock();
	if (roe_gid_lives(dev, &av->saddr, av->net_cookie, av->oif))
		has = has_v6(net, av, IFA_F_DADFAILED) ||
		      (ipv6_addr_type(&av->saddr) & IPV6_ADDR_LINKLOCAL && !has_v6(net, av, 0));
	else
		has = has_v6(net, av, IFA_F_TENTATIVE);
	rcu_read_unlock();
	return has;
}

static struct dst_entry *lookup_bound_v6(const struct roe_dev *dev, struct net *net,
					 const struct roe_av *av, int domain)
{
	struct dst_entry *dst;

	/* A netdev has an EUI-64 GID even where ipv6.disable=1 left no tables. */
	if (!ipv6_mod_enabled() || !has_source_v6(dev, net, av))
		return NULL;
	if (!(ipv6_addr_type(&av->daddr) & (IPV6_ADDR_LINKLOCAL | IPV6_ADDR_MULTICAST))) {
		dst = lookup_v6(net, av, domain, 0);
		if (dst && local_v6(dst))
			return dst;
		dst_release(dst);
	}
	return lookup_v6(net, av, av->oif, RT6_LOOKUP_F_IFACE);
}

static struct dst_entry *lookup(const struct roe_dev *dev, const struct roe_av *av)
{
	struct net *net = roe_net_of(dev, av->net_cookie);
	int domain;

	if (!net || !av->oif)
		return NULL;
	domain = l3mdev_master_ifindex_by_index(net, av->oif);
	return av->v6 ? lookup_bound_v6(dev, net, av, domain) : lookup_bound_v4(net, av, domain);
}

/* A source address may go while a cached route that was looked up with it is still valid. */
static void forget_old(const struct roe_dev *dev, struct roe_path *path)
{
	/* pairs with the release in roe_gid_del() */
	u32 gen = smp_load_acquire(&dev->gid_gen);

	if (READ_ONCE(path->gid_gen) == gen)
		return;
	dst_cache_reset(&path->dst);
	WRITE_ONCE(path->gid_gen, gen);
}

/**
 * roe_path_route() - the route to the peer
 * @dev: device
 * @path: path with an address vector; softirqs disabled
 *
 * Return: a route with a reference, or NULL if there is none at the moment:
 * to the protocol the packets are lost.
 */
struct dst_entry *roe_path_route(struct roe_dev *dev, struct roe_path *path)
{
	struct dst_entry *dst;

	/*
	 * A cached route to a group would not notice that this host has joined it. A cached
	 * route of another namespace would outlive that namespace, and its operations lie in
	 * struct net; the device's own namespace ends after all QPs and address handles.
	 */
	if (rdma_is_multicast_addr(&path->av.daddr) ||
	    path->av.net_cookie != dev->net->net_cookie)
		return lookup(dev, &path->av);
	forget_old(dev, path);
	dst = dst_cache_get(&path->dst);
	if (dst)
		return dst;

	dst = lookup(dev, &path->av);
	if (!dst)
		return NULL;
	if (path->av.v6)
		dst_cache_set_ip6(&path->dst, dst, &path->av.saddr);
	else
		dst_cache_set_ip4(&path->dst, dst, path->av.saddr.s6_addr32[3]);
	return dst;
}

/**
 * roe_path_local() - does the route to the peer end on this host?
 * @dev: device
 * @path: path with an address vector; softirqs disabled
 *
 * Return: true while its destination is an address of this host.
 */
bool roe_path_local(struct roe_dev *dev, struct roe_path *path)
{
	struct dst_entry *dst = roe_path_route(dev, path);
	bool local;

	if (!dst)
		return false;
	local = path->av.v6 ? local_v6(dst) : local_v4(dst);
	dst_release(dst);
	return local;
}
