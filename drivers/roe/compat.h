/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The only place that knows kernel versions. Kbuild includes it in front of
 * every file; all other code reads as if written for the newest kernel.
 *
 * How a difference is bridged:
 *  - A name that an older kernel lacks is defined here under its newest name.
 *    Where a stable series might have backported it, a macro shadows it with
 *    our own roe_compat_* function, so that it does not matter whether it did.
 *  - A verb whose prototype changed has an adapter for each prototype it had. The ops
 *    table names roe_compat_<op>, the one that fits; the verb itself has one prototype
 *    for all kernels.
 *  - Nothing tests the kernel version: distributions backport changes, some a whole
 *    RDMA core. A macro is detected by the preprocessor, a type by the compiler, a name in a
 *    header by Kbuild, which defines ROE_HAS_name. The version in a comment is that of
 *    Linus' kernel which first had the change.
 */
#ifndef ROE_COMPAT_H
#define ROE_COMPAT_H

/* Before the includes: printk.h would define an empty prefix. */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/build_bug.h>
#include <linux/version.h>

#if KERNEL_VERSION(6, 1, 0) > LINUX_VERSION_CODE
#error "roe needs Linux 6.1 or newer: older RDMA cores lack what it builds on."
#endif
/* There is no upper limit: for a kernel newer than those tested roe either builds or does not. */

#include <linux/export.h>
#include <linux/hrtimer.h>
#include <linux/local_lock.h>
#include <linux/mm.h>
#include <linux/skbuff.h>
#include <net/dst.h>
#include <net/flow.h>
#include <net/net_namespace.h>
#include <rdma/ib_umem.h>
#include <rdma/ib_verbs.h>
#include <rdma/uverbs_ioctl.h>

/*
 * For large automatic variables of which nothing is read before it is written. Without this
 * attribute CONFIG_INIT_STACK_ALL_ZERO clears them in every call.
 */
#if __has_attribute(__uninitialized__)
#define roe_uninitialized	__attribute__((__uninitialized__))
#else
#define roe_uninitialized
#endif

/* roe writes 64-bit words in one piece, and reaches all memory through the direct map. */
#ifndef CONFIG_64BIT
#error "roe needs a 64-bit kernel."
#endif

/* Options that an out-of-tree module cannot select. */
#if !IS_ENABLED(CONFIG_INFINIBAND) || !IS_ENABLED(CONFIG_INFINIBAND_USER_MEM)
#error "The kernel needs CONFIG_INFINIBAND and CONFIG_INFINIBAND_USER_MEM."
#endif
#ifndef CONFIG_NETFILTER
#error "roe receives by netfilter hooks: the kernel needs CONFIG_NETFILTER."
#endif
#if !IS_ENABLED(CONFIG_NET_UDP_TUNNEL) || !IS_ENABLED(CONFIG_DST_CACHE) || !IS_ENABLED(CONFIG_CRC32)
#error "The kernel needs CONFIG_NET_UDP_TUNNEL, CONFIG_DST_CACHE and CONFIG_CRC32."
#endif

/* 6.12 moved the header. */
#ifdef ROE_HAS_get_unaligned
#include <linux/unaligned.h>
#else
#include <asm/unaligned.h>
#endif

/* Symbols that only the KUnit module needs are exported only if that is built, too. */
#ifdef ROE_KUNIT
#define ROE_EXPORT_FOR_TEST(sym)	EXPORT_SYMBOL_GPL(sym)
#else
#define ROE_EXPORT_FOR_TEST(sym)	static_assert(sizeof(typeof(sym) *))
#endif

/* --- general ------------------------------------------------------------- */

#ifndef ROE_HAS_hrtimer_setup
static inline void
roe_compat_hrtimer_setup(struct hrtimer *timer,
			 enum hrtimer_restart (*function)(struct hrtimer *),
			 clockid_t clock, enum hrtimer_mode mode)
{
	hrtimer_init(timer, clock, mode);
	timer->function = function;
}

#define hrtimer_setup	roe_compat_hrtimer_setup
#endif

/* 6.17 gave the default of alloc_workqueue() a name, which later kernels require. */
#ifndef ROE_HAS_WQ_PERCPU
#define WQ_PERCPU	0
#endif

/* 6.4, backported to 6.1.160. To be expanded after <linux/sched/isolation.h>. */
#ifdef ROE_HAS_cpu_is_isolated
#define roe_compat_cpu_is_isolated(cpu)	cpu_is_isolated(cpu)
#else
#define roe_compat_cpu_is_isolated(cpu)					\
	(!housekeeping_test_cpu(cpu, HK_TYPE_DOMAIN) || !housekeeping_test_cpu(cpu, HK_TYPE_TICK))
#endif

/*
 * PREEMPT_RT: from 6.18 on disabled softirqs do not protect per-CPU data any more. The lock that
 * does came with 6.11.
 */
#ifndef local_lock_nested_bh
#define local_lock_nested_bh(lock)	((void)(lock))
#define local_unlock_nested_bh(lock)	((void)(lock))
#endif

/* 6.5 removed an argument of get_user_pages_remote(), the VMAs, which was always NULL. */
typedef long roe_compat_gup(struct mm_struct *mm, unsigned long start, unsigned long nr,
			    unsigned int flags, struct page **pages, int *locked);
typedef long roe_compat_gup_vmas(struct mm_struct *mm, unsigned long start, unsigned long nr,
				 unsigned int flags, struct page **pages,
				 struct vm_area_struct **vmas, int *locked);

static inline long
roe_compat_call_gup(roe_compat_gup *gup, struct mm_struct *mm, unsigned long start,
		    unsigned long nr, unsigned int flags, struct page **pages, int *locked)
{
	return gup(mm, start, nr, flags, pages, locked);
}

static inline long
roe_compat_call_gup_vmas(roe_compat_gup_vmas *gup, struct mm_struct *mm, unsigned long start,
			 unsigned long nr, unsigned int flags, struct page **pages, int *locked)
{
	return gup(mm, start, nr, flags, pages, NULL, locked);
}

#define roe_compat_get_user_pages_remote(...)						\
	(__builtin_choose_expr(								\
		__builtin_types_compatible_p(typeof(get_user_pages_remote), roe_compat_gup_vmas), \
		roe_compat_call_gup_vmas, roe_compat_call_gup)(get_user_pages_remote, __VA_ARGS__))

/* --- network ------------------------------------------------------------- */

/*
 * From 7.1.5 on, and in more and more kernels of distributions, tunnel functions take a struct
 * sock instead of a struct socket. To be expanded after <net/udp_tunnel.h>.
 */
#define roe_compat_tunnel_sock(fn, socket_, ...)				\
	__builtin_choose_expr(__builtin_types_compatible_p(typeof(fn), void (__VA_ARGS__)), \
			      (socket_)->sk, socket_)
#define roe_compat_setup_udp_tunnel_sock(net_, socket_, cfg)			\
	setup_udp_tunnel_sock(net_,						\
			      roe_compat_tunnel_sock(setup_udp_tunnel_sock, socket_, \
						     struct net *, struct sock *, \
						     struct udp_tunnel_sock_cfg *), cfg)
#define roe_compat_udp_tunnel_sock_release(socket_)				\
	udp_tunnel_sock_release(roe_compat_tunnel_sock(udp_tunnel_sock_release, socket_, \
						       struct sock *))

/* 6.3 gave IPv4 a limit of its own. */
#ifndef ROE_HAS_gso_ipv4_max_size
#define roe_compat_gso_max_size(dev, v6)	((void)(v6), READ_ONCE((dev)->gso_max_size))
#else
#define roe_compat_gso_max_size(dev, v6)				\
	((v6) ? READ_ONCE((dev)->gso_max_size) : READ_ONCE((dev)->gso_ipv4_max_size))
#endif

/*
 * 6.8, backported to 6.1.81, 6.6.21 and 6.7.9. Without this hook the function itself must be
 * called. To be expanded after <net/netfilter/nf_conntrack_core.h>.
 */
#ifdef ROE_HAS_confirm
#define roe_compat_ct_confirm(hook, skb)	((hook)->confirm(skb))
#else
#define roe_compat_ct_confirm(hook, skb)	((void)(hook), __nf_conntrack_confirm(skb))
#endif

/* 6.17, backported to stable series. */
#ifndef ROE_HAS_dst_dev
static inline struct net_device *roe_compat_dst_dev(const struct dst_entry *dst)
{
	return READ_ONCE(dst->dev);
}

#define dst_dev		roe_compat_dst_dev
#endif

/*
 * Where GRO's packet has its IP header, from skb->data. 6.10, backported: IP of a tunnel's outer
 * packet, which that of a socket is to GRO, has a field of its own. skb_gro_network_header() takes
 * the inner one for our callback, which nobody has written. To be expanded after <net/gro.h>.
 */
#ifdef ROE_HAS_inner_network_offset
#define roe_compat_gro_ip_offset(skb)	((int)NAPI_GRO_CB(skb)->network_offset)
#else
#define roe_compat_gro_ip_offset(skb)	skb_network_offset(skb)
#endif

/* 6.12 brought skb fragments in device memory, which the CPU cannot read. */
#ifndef ROE_HAS_skb_frags_readable
#define skb_frags_readable(skb)	((void)(skb), true)
#endif

/* A kernel without IPv6 has no IPv6 routes to cache. */
#if !IS_ENABLED(CONFIG_IPV6)
#define dst_cache_set_ip6(cache, dst, saddr)	((void)(cache), (void)(dst), (void)(saddr))
#endif

/* Routing key from a DS field; ECN bits do not take part in routing. */
#ifdef flowi4_dscp
#define roe_compat_flowi4_set_dsfield(fl4, dsfield)			\
	((fl4)->flowi4_dscp = inet_dsfield_to_dscp(dsfield))
#else
#define roe_compat_flowi4_set_dsfield(fl4, dsfield)			\
	((fl4)->flowi4_tos =						\
	 inet_dscp_to_dsfield(inet_dsfield_to_dscp(dsfield)))
#endif

/* --- RDMA core ----------------------------------------------------------- */

/* 6.2. Values are UABI; rdma-core sends them to any kernel. */
#ifndef ROE_HAS_IB_WR_FLUSH
#define IB_WR_FLUSH			14
#define IB_WC_FLUSH			8
#define IB_ACCESS_FLUSH_GLOBAL		BIT(8)
#define IB_ACCESS_FLUSH_PERSISTENT	BIT(9)
#define IB_DEVICE_FLUSH_GLOBAL		BIT_ULL(38)
#endif
#ifndef ROE_HAS_IB_WR_ATOMIC_WRITE
#define IB_WR_ATOMIC_WRITE		15
#define IB_WC_ATOMIC_WRITE		9
#define IB_DEVICE_ATOMIC_WRITE		BIT_ULL(40)
#endif

#ifndef ROE_HAS_ib_virt_dma_to_ptr
static inline void *roe_compat_virt_dma_to_ptr(u64 dma_addr)
{
	return (void *)(uintptr_t)dma_addr;
}

#define ib_virt_dma_to_ptr	roe_compat_virt_dma_to_ptr
#endif

#ifndef ROE_HAS_ib_mark_name_assigned_by_user
/* Before this call existed udev did not know which names a user had assigned. */
static inline void roe_compat_mark_name_assigned(struct ib_device *ibdev)
{
}

#define ib_mark_name_assigned_by_user	roe_compat_mark_name_assigned
#endif

/* The newest core allocates a device into a namespace; older ones into init_net. */
#ifndef ROE_HAS_ib_alloc_device_with_net
#define roe_compat_alloc_device(drv_struct, member, netns)		\
({									\
	struct drv_struct *__dev = ib_alloc_device(drv_struct, member);	\
									\
	if (__dev)							\
		write_pnet(&__dev->member.coredev.rdma_net, netns);	\
	__dev;								\
})
#else
#define roe_compat_alloc_device(drv_struct, member, netns)		\
	ib_alloc_device_with_net(drv_struct, member, netns)
#endif

#ifndef ROE_HAS_ib_umem_get_va
#define ib_umem_get_va	ib_umem_get
#endif

/* --- verbs ---------------------------------------------------------------- */

/* fn if it has the prototype that the core wants for op, else other */
#define roe_compat_op(op, fn, other)							\
	__builtin_choose_expr(								\
		__builtin_types_compatible_p(typeof_member(const struct ib_device_ops, op), \
					     typeof(fn) *), fn, other)

struct ib_dmah;

int roe_cq_create(struct ib_cq *ibcq, const struct ib_cq_init_attr *attr,
		  struct ib_udata *udata);
int roe_cq_resize(struct ib_cq *ibcq, unsigned int cqe, struct ib_udata *udata);
struct ib_mr *roe_mr_reg_user(struct ib_pd *pd, u64 start, u64 length, u64 iova,
			      int access, struct ib_udata *udata);
struct ib_mr *roe_mr_reg_dmabuf(struct ib_pd *pd, u64 offset, u64 length, u64 iova, int fd,
				int access);

/* 6.11: the verb gets all attributes of the call instead of udata. */
static inline int roe_compat_create_cq_attrs(struct ib_cq *ibcq,
					     const struct ib_cq_init_attr *attr,
					     struct uverbs_attr_bundle *attrs)
{
	return roe_cq_create(ibcq, attr, attrs ? &attrs->driver_udata : NULL);
}

#define roe_compat_create_cq							\
	roe_compat_op(create_cq, roe_cq_create, roe_compat_create_cq_attrs)

/* Ops tables say .resize_user_cq = roe_compat_resize_user_cq. */
#ifndef ROE_HAS_resize_user_cq
#define resize_user_cq	resize_cq
#endif

/* resize_cq, before resize_user_cq: the number of entries is signed. */
static inline int roe_compat_resize_cq_int(struct ib_cq *ibcq, int cqe, struct ib_udata *udata)
{
	return cqe < 0 ? -EINVAL : roe_cq_resize(ibcq, cqe, udata);
}

#define roe_compat_resize_user_cq						\
	roe_compat_op(resize_user_cq, roe_compat_resize_cq_int, roe_cq_resize)

/* 6.17: DMA handles. They steer the bus traffic of a device: roe has none. */
static inline struct ib_mr *
roe_compat_reg_user_mr_dmah(struct ib_pd *pd, u64 start, u64 length, u64 iova,
			    int access, struct ib_dmah *dmah, struct ib_udata *udata)
{
	if (dmah)
		return ERR_PTR(-EOPNOTSUPP);
	return roe_mr_reg_user(pd, start, length, iova, access, udata);
}

#define roe_compat_reg_user_mr							\
	roe_compat_op(reg_user_mr, roe_mr_reg_user, roe_compat_reg_user_mr_dmah)

/* Three prototypes: with udata, with attributes (6.12), with a DMA handle and attributes (6.17) */
static inline struct ib_mr *
roe_compat_reg_dmabuf_udata(struct ib_pd *pd, u64 offset, u64 length, u64 iova, int fd,
			    int access, struct ib_udata *udata)
{
	return roe_mr_reg_dmabuf(pd, offset, length, iova, fd, access);
}

static inline struct ib_mr *
roe_compat_reg_dmabuf_attrs(struct ib_pd *pd, u64 offset, u64 length, u64 iova, int fd,
			    int access, struct uverbs_attr_bundle *attrs)
{
	return roe_mr_reg_dmabuf(pd, offset, length, iova, fd, access);
}

static inline struct ib_mr *
roe_compat_reg_dmabuf_dmah(struct ib_pd *pd, u64 offset, u64 length, u64 iova, int fd,
			   int access, struct ib_dmah *dmah, struct uverbs_attr_bundle *attrs)
{
	if (dmah)
		return ERR_PTR(-EOPNOTSUPP);
	return roe_mr_reg_dmabuf(pd, offset, length, iova, fd, access);
}

#define roe_compat_reg_dmabuf							\
	roe_compat_op(reg_user_mr_dmabuf, roe_compat_reg_dmabuf_udata,		\
		      roe_compat_op(reg_user_mr_dmabuf, roe_compat_reg_dmabuf_attrs, \
				    roe_compat_reg_dmabuf_dmah))

/* 6.15: the verb gets the port as well. There is only one. */
int roe_stat_bind(struct rdma_counter *counter, struct ib_qp *ibqp);
int roe_stat_unbind(struct ib_qp *ibqp);

static inline int roe_compat_counter_bind_port(struct rdma_counter *counter, struct ib_qp *ibqp,
					       u32 port)
{
	return roe_stat_bind(counter, ibqp);
}

static inline int roe_compat_counter_unbind_port(struct ib_qp *ibqp, u32 port)
{
	return roe_stat_unbind(ibqp);
}

#define roe_compat_counter_bind_qp						\
	roe_compat_op(counter_bind_qp, roe_stat_bind, roe_compat_counter_bind_port)
#define roe_compat_counter_unbind_qp						\
	roe_compat_op(counter_unbind_qp, roe_stat_unbind, roe_compat_counter_unbind_port)

/* 6.15: the driver's counter may be larger than the core's, so the core must be told its size. */
#ifdef ROE_HAS_counter_init
struct roe_compat_counter {
	struct rdma_counter	ib;
};

static inline void roe_compat_counter_init(struct rdma_counter *counter)
{
}

#define ROE_COMPAT_INIT_COUNTER							\
	.counter_init = roe_compat_counter_init,				\
	INIT_RDMA_OBJ_SIZE(rdma_counter, roe_compat_counter, ib),
#else
#define ROE_COMPAT_INIT_COUNTER
#endif

/* Before 6.2 dma_buf_vmap() took the lock of the buffer itself. */
#ifndef ROE_HAS_dma_buf_vmap_unlocked
#define dma_buf_vmap_unlocked	dma_buf_vmap
#define dma_buf_vunmap_unlocked	dma_buf_vunmap
#endif

#endif /* ROE_COMPAT_H */
