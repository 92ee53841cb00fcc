/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Rings shared with user space (struct rxe_queue_buf): memory, mmap, indices.
 * Nothing outside ring.c and this header touches an index; every memory
 * ordering towards the library is here (abi.md sections 5 to 7).
 *
 * The page that both sides write is never trusted: the mask, the element size
 * and the index that the kernel owns live in struct roe_ring.
 */
#ifndef ROE_RING_H
#define ROE_RING_H

#include <linux/types.h>
#include <asm/barrier.h>
#include <rdma/ib_verbs.h>
#include <rdma/uverbs_ioctl.h>
#include <uapi/rdma/rdma_user_rxe.h>

/* Elements moved to another ring per hold of a lock, at most. */
#define ROE_RING_BATCH	512

struct roe_ring {
	struct rxe_queue_buf	*buf;	/* vmalloc; belongs to @entry, if there is one */
	u32			mask;	/* slots - 1 */
	u32			log2;	/* element size */
	u32			prod;	/* kernel's own producer (CQ) */
	u32			cons;	/* kernel's own consumer (SQ, RQ, SRQ) */
	size_t			size;	/* bytes mapped */
	struct roe_ring_entry	*entry;	/* mmap entry, NULL for kernel rings */
};

/*
 * Create a ring of at least @entries usable elements of @elem bytes (rounded
 * up to a power of two, at least 64) and, with a @uctx, its mmap entry and
 * the mminfo (all 16 bytes written). May sleep. ERR_PTR on failure.
 */
struct roe_ring *roe_ring_create(u32 entries, u32 elem, struct ib_ucontext *uctx,
				 struct mminfo *mi);
/* Mappings stay valid: the pages are freed with the last mapping. */
void roe_ring_destroy(struct roe_ring *ring);

int roe_ring_mmap(struct ib_ucontext *uctx, struct vm_area_struct *vma);
void roe_ring_mmap_free(struct rdma_user_mmap_entry *entry);

static inline u32 roe_ring_capacity(const struct roe_ring *ring)
{
	return ring->mask;
}

static inline void *roe_ring_slot(const struct roe_ring *ring, u32 index)
{
	return ring->buf->data + ((size_t)(index & ring->mask) << ring->log2);
}

/* --- user produces, kernel consumes: SQ, RQ, SRQ --- */

/* Number of new elements; at most mask, whatever the user wrote. */
static inline u32 roe_ring_pending(const struct roe_ring *ring)
{
	/* pairs with the library's release in ibv_post_*() */
	u32 prod = smp_load_acquire(&ring->buf->producer_index);

	return (prod - ring->cons) & ring->mask;
}

/* The user's producer index. It is not checked: compare it only, to see it change. */
static inline u32 roe_ring_posted(const struct roe_ring *ring)
{
	/* pairs with the library's release in ibv_post_*() */
	return smp_load_acquire(&ring->buf->producer_index) & ring->mask;
}

/* Element @n behind the consumer index, from 0; only for n < roe_ring_pending(). */
static inline const void *roe_ring_peek(const struct roe_ring *ring, u32 n)
{
	return roe_ring_slot(ring, ring->cons + n);
}

/* Release the oldest @n slots: they were copied out and may be overwritten. */
static inline void roe_ring_release(struct roe_ring *ring, u32 n)
{
	ring->cons = (ring->cons + n) & ring->mask;
	/* pairs with the library's acquire in ibv_post_*() */
	smp_store_release(&ring->buf->consumer_index, ring->cons);
}

/* Set the indices of a ring that nobody has mapped yet: it holds elements @cons to @prod - 1. */
static inline void roe_ring_set_posted(struct roe_ring *ring, u32 cons, u32 prod)
{
	ring->cons = cons & ring->mask;
	WRITE_ONCE(ring->buf->consumer_index, ring->cons);
	WRITE_ONCE(ring->buf->producer_index, prod & ring->mask);
}

/* --- kernel produces, user consumes: CQ --- */

/* Slot for the next element; write all of it before it is published. */
static inline void *roe_ring_next(const struct roe_ring *ring)
{
	return roe_ring_slot(ring, ring->prod);
}

/* Show @n elements to the user. */
static inline void roe_ring_publish_many(struct roe_ring *ring, u32 n)
{
	ring->prod = (ring->prod + n) & ring->mask;
	/* pairs with the library's acquire in ibv_poll_cq() */
	smp_store_release(&ring->buf->producer_index, ring->prod);
}

/* Show the element to the user. */
static inline void roe_ring_publish(struct roe_ring *ring)
{
	roe_ring_publish_many(ring, 1);
}

/* In a ring that nobody has mapped yet, count the first @n elements as polled. */
static inline void roe_ring_set_polled(struct roe_ring *ring, u32 n)
{
	WRITE_ONCE(ring->buf->consumer_index, n & ring->mask);
}

/*
 * The user's consumer index; @last is its last accepted value. It can only have moved
 * forward, and not beyond the producer. Any other value comes from a broken or hostile
 * process, or from librxe before v55, whose ibv_next_poll() steps over the producer. It counts as
 * "all consumed", so that it never causes an overrun.
 */
static inline u32 roe_ring_consumer(const struct roe_ring *ring, u32 last)
{
	/* pairs with the library's release in ibv_poll_cq(): slots are free */
	u32 cons = smp_load_acquire(&ring->buf->consumer_index) & ring->mask;

	if (((cons - last) & ring->mask) > ((ring->prod - last) & ring->mask))
		return ring->prod;
	return cons;
}

#endif /* ROE_RING_H */
