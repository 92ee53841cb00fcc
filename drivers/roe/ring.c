// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Memory of the rings shared with user space.
 *
 * The library destroys an object first and unmaps its rings later, a forked
 * child perhaps much later. Mapped pages carry references of their own, so they
 * outlive the vmalloc area. What needs care is an mmap() that runs while the object is
 * destroyed: it uses the buffer through the mmap entry, on which it holds a reference. So
 * the buffer belongs to the entry and is freed with it.
 */
#include <linux/log2.h>
#include <linux/mm.h>
#include <linux/slab.h>
#include <linux/vmalloc.h>
#include "ring.h"

#define RING_MIN_ELEM	64

struct roe_ring_entry {
	struct rdma_user_mmap_entry	rdma;
	void				*buf;
};

/* librxe has these numbers hard-coded. */
static_assert(offsetof(struct rxe_queue_buf, producer_index) == 128);
static_assert(offsetof(struct rxe_queue_buf, consumer_index) == 256);
static_assert(offsetof(struct rxe_queue_buf, data) == 384);
static_assert(sizeof(struct mminfo) == 16);

/*
 * Set mask, element size and size of a ring. The library computes element addresses in 32 bits, and
 * mminfo.size is a u32: returns false if the ring does not fit into that.
 */
static bool ring_shape(struct roe_ring *ring, u32 entries, u32 elem)
{
	u64 slots, size;

	elem = max_t(u32, elem, RING_MIN_ELEM);
	if (!entries || entries >= BIT(31) || elem > BIT(31))
		return false;

	slots = roundup_pow_of_two((u64)entries + 1);
	ring->mask = slots - 1;
	ring->log2 = order_base_2(elem);
	size = PAGE_ALIGN(sizeof(*ring->buf) + (slots << ring->log2));
	if (size > U32_MAX)
		return false;
	ring->size = size;
	return true;
}

static int ring_add_entry(struct roe_ring *ring, struct ib_ucontext *uctx,
			  struct mminfo *mi)
{
	struct roe_ring_entry *entry;
	int err;

	entry = kzalloc(sizeof(*entry), GFP_KERNEL);
	if (!entry)
		return -ENOMEM;

	entry->buf = ring->buf;
	err = rdma_user_mmap_entry_insert(uctx, &entry->rdma, ring->size);
	if (err) {
		kfree(entry);
		return err;
	}
	ring->entry = entry;
	*mi = (struct mminfo) {
		.offset	= rdma_user_mmap_get_offset(&entry->rdma),
		.size	= ring->size,
	};
	return 0;
}

/**
 * roe_ring_create - allocate a ring, empty and zeroed
 * @entries: elements it must be able to hold
 * @elem: size of an element, bytes; rounded up to a power of two
 * @uctx: user context that may map the ring, NULL for none
 * @mi: where to tell the user how to map it; with @uctx only
 *
 * Context: process, may sleep.
 * Return: the ring, or ERR_PTR(-EINVAL) if it would be too large, or -ENOMEM.
 */
struct roe_ring *roe_ring_create(u32 entries, u32 elem, struct ib_ucontext *uctx,
				 struct mminfo *mi)
{
	struct roe_ring *ring;
	int err;

	ring = kzalloc(sizeof(*ring), GFP_KERNEL);
	if (!ring)
		return ERR_PTR(-ENOMEM);

	err = -EINVAL;
	if (!ring_shape(ring, entries, elem))
		goto free_ring;

	/* The process chooses the size, so it is charged for it; no warning if it is too large. */
	err = -ENOMEM;
	ring->buf = __vmalloc(ring->size, GFP_KERNEL_ACCOUNT | __GFP_ZERO | __GFP_NOWARN);
	if (!ring->buf)
		goto free_ring;
	ring->buf->log2_elem_size = ring->log2;
	ring->buf->index_mask = ring->mask;

	if (uctx) {
		err = ring_add_entry(ring, uctx, mi);
		if (err)
			goto free_buf;
	}
	return ring;

free_buf:
	vfree(ring->buf);
free_ring:
	kfree(ring);
	return ERR_PTR(err);
}

ROE_EXPORT_FOR_TEST(roe_ring_create);

/**
 * roe_ring_destroy - free a ring that nothing in the kernel uses any more
 * @ring: the ring, or NULL
 *
 * From here on the ring cannot be mapped; existing mappings stay.
 *
 * Context: process, may sleep.
 */
void roe_ring_destroy(struct roe_ring *ring)
{
	if (!ring)
		return;

	if (ring->entry)
		rdma_user_mmap_entry_remove(&ring->entry->rdma);
	else
		vfree(ring->buf);
	kfree(ring);
}

ROE_EXPORT_FOR_TEST(roe_ring_destroy);

/* Page by page: remap_vmalloc_range() has no counterpart for memory that is charged. */
static int map_pages(struct vm_area_struct *vma, const void *buf)
{
	unsigned long addr;
	int err = 0;

	for (addr = vma->vm_start; !err && addr < vma->vm_end; addr += PAGE_SIZE) {
		err = vm_insert_page(vma, addr, vmalloc_to_page(buf));
		buf += PAGE_SIZE;
	}
	return err;
}

/**
 * roe_ring_mmap - the mmap verb: map a ring of this user context
 * @uctx: user context of the file
 * @vma: asks for the offset and exactly the length that mminfo named
 *
 * Return: 0 or a negative errno.
 */
int roe_ring_mmap(struct ib_ucontext *uctx, struct vm_area_struct *vma)
{
	struct rdma_user_mmap_entry *entry;
	int err;

	/* Also checks the length, and that the mapping is a shared one. */
	entry = rdma_user_mmap_entry_get(uctx, vma);
	if (!entry)
		return -EINVAL;

	err = map_pages(vma, container_of(entry, struct roe_ring_entry, rdma)->buf);
	rdma_user_mmap_entry_put(entry);
	return err;
}

/**
 * roe_ring_mmap_free - the mmap_free verb: the last reference to the entry is gone
 * @entry: the entry
 */
void roe_ring_mmap_free(struct rdma_user_mmap_entry *entry)
{
	struct roe_ring_entry *ring_entry =
		container_of(entry, struct roe_ring_entry, rdma);

	vfree(ring_entry->buf);
	kfree(ring_entry);
}
