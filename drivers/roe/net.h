/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The network side: the only part that knows IP, UDP, routes and skbs, and no
 * PSN rule. route.c finds routes, xmit.c sends bursts, receive.c proves
 * packets and finds their QP, net.c owns hooks and sockets of a namespace.
 */
#ifndef ROE_NET_H
#define ROE_NET_H

#include <linux/skbuff.h>
#include <net/dst_cache.h>
#include <roe/pkt.h>
#include "device.h"
#include "unsent.h"

/* Address vector of a QP or an AH: read-only once it is set. */
struct roe_av {
	bool			v6;
	u8			tclass;		/* DSCP and ECN as the user set them; RC, UC: ECT */
	u8			hop_limit;
	u32			flow_label;
	__be16			sport;		/* host-chosen, 0xc000 .. 0xffff */
	u8			sl;		/* service level, as the user set it */
	int			oif;		/* netdev of the source GID; 0: it has left */
	u64			net_cookie;	/* namespace of @oif */
	u32			priority;	/* of skbs: a VLAN maps it to a PCP */
	struct in6_addr		saddr;		/* v4: mapped, ::ffff:a.b.c.d */
	struct in6_addr		daddr;
	const struct ib_gid_attr *sgid_attr;	/* reference held by the owner's ah_attr */
};

/* What it takes to send: one per QP, or per address handle of datagrams. Used with BH disabled. */
struct roe_path {
	struct roe_av		av;
	struct dst_cache	dst;		/* per CPU; some address handles have none */
	u32			gid_gen;	/* roe_dev.gid_gen when routes were last dropped */
	u16			ip_id;		/* own counter, + 1 for each segment */
	u64			alone_until;	/* ns: if @alone, trains are tried again then */
	bool			alone;		/* no trains are sent, as none arrive (trains.c) */
	bool			trains;		/* last burst of several: they could share skbs */
	bool			apart;		/* netdev of the last burst had no scatter-gather */
};

/* Take from @attr, whose sgid_attr the caller holds, what routes and VLANs need. */
void roe_av_set(struct roe_av *av, const struct rdma_ah_attr *attr);
/* May @dev send from this GID? It must be present where the netdev is. */
bool roe_av_gid_ok(const struct roe_dev *dev, const struct ib_gid_attr *gid);

int roe_path_init(struct roe_path *path, gfp_t gfp);
void roe_path_destroy(struct roe_path *path);
/* Forget cached routes, e.g. after a new address vector. */
void roe_path_reset(struct roe_path *path);

/*
 * Turn @txb into skbs on @skbs (headers, ICRC; consumes the burst: txb is empty
 * afterwards). Under the QP lock, BH disabled. A packet for which there is no
 * memory or no route is left out: that is loss, and added to @refused.
 */
void roe_xmit_build(struct roe_dev *dev, u64 __percpu *stats, struct roe_path *path,
		    struct roe_unsent *unsent, struct roe_txb *txb, struct sk_buff_head *skbs,
		    struct roe_refused *refused);
/*
 * Send and empty @skbs through ip_local_out, count in @stats. No lock held, BH disabled.
 * Packets that IP or a qdisc refused (backpressure) are added to @refused.
 */
void roe_xmit_send(u64 __percpu *stats, struct sk_buff_head *skbs, struct roe_refused *refused);

/*
 * The route to @path->av.daddr, with a reference; NULL if there is none now.
 * BH disabled.
 */
struct dst_entry *roe_path_route(struct roe_dev *dev, struct roe_path *path);

/* Is the peer an address of this host, now? BH disabled. */
bool roe_path_local(struct roe_dev *dev, struct roe_path *path);

/*
 * A device in a namespace: its own, or one in which something above its netdev has a
 * GID. A namespace with at least one has hooks and sockets.
 */
struct roe_presence {
	struct list_head	in_net;		/* RCU; changes under net.c's lock */
	struct list_head	of_dev;		/* the same */
	struct roe_dev		*dev;
	struct net		*net;		/* NULL: it has ended; RCU, the same lock */
	unsigned int		users;		/* GIDs and the device itself; the same lock */
	struct rcu_head		rcu;
};

/* Process context; after roe_net_del() no packet touches @dev. */
int roe_net_add(struct roe_dev *dev);
void roe_net_del(struct roe_dev *dev);
struct roe_presence *roe_net_enter(struct roe_dev *dev, struct net *net);
void roe_net_leave(struct roe_presence *p);
/* The namespace with this cookie, NULL if the device has no GID there. RCU. */
struct net *roe_net_of(const struct roe_dev *dev, u64 cookie);

/*
 * The device that counts dropped packets for which there is no QP: the one
 * on @ndev, otherwise any of the namespace. NULL if there is none. RCU.
 */
struct roe_dev *roe_net_device(struct net *net, const struct net_device *ndev);
struct list_head *roe_net_presences(struct net *net);

/* The netdev that a packet came by, not the VRF over it. RCU. */
const struct net_device *roe_net_ingress(struct net *net, const struct sk_buff *skb);
/* Has any device that is present in the namespace that address? RCU. */
bool roe_net_knows(struct net *net, const struct in6_addr *addr, const struct net_device *ndev);
/*
 * The device in the namespace that owns @addr; of several the one that has it on @ndev. RCU.
 */
struct roe_dev *roe_net_owner(struct net *net, const struct in6_addr *addr,
			      const struct net_device *ndev);

enum roe_rx_verdict {
	ROE_RX_TAKEN,		/* for one of our QPs; the caller frees the skb */
	ROE_RX_FOREIGN,		/* no QP of ours at this address; skb untouched */
	ROE_RX_MALFORMED,	/* not even addressed to a QP; skb untouched */
};

/*
 * UDP to port 4791 as it came, one packet or many, skb->data at the network
 * header, transport header set; BH disabled, RCU held. Never writes to @skb.
 */
enum roe_rx_verdict roe_receive_skb(struct net *net, struct sk_buff *skb);

/* gro.c: for our sockets */
struct sk_buff *roe_gro_receive(struct sock *sk, struct list_head *head, struct sk_buff *skb);
int roe_gro_complete(struct sock *sk, struct sk_buff *skb, int nhoff);

int roe_frame_init(void);
void roe_frame_exit(void);

int roe_receive_init(void);
void roe_receive_exit(void);

int roe_net_init(void);
void roe_net_exit(void);

#endif /* ROE_NET_H */
