// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Regions of dma-buf memory. roe accesses memory with the CPU, so a region is a
 * kernel mapping of the buffer, which may be anywhere that the CPU can reach. The
 * mapping alone does not keep the memory in place: the memory behind a mapping by TTM
 * (radeon, nouveau, vmwgfx) goes when the buffer is evicted. An attachment of a device
 * does keep it in place: with one, an exporter without ops->pin has to pin a buffer that
 * it would move. So there is an attachment as long as the mapping, though nothing is
 * mapped for DMA.
 *
 * An exporter with ops->pin (amdgpu, xe) pins for importers that map, and moves the
 * buffer of those that do not, so its buffers are refused. Its kernel mapping would not
 * help either: xe cannot make one, and dma_buf_vmap() takes that for a bug.
 */
#include <linux/dma-buf.h>
#include <linux/fs.h>
#include <linux/iosys-map.h>
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/overflow.h>
#include "mr.h"

#define DMABUF_ACCESS							\
	(IB_ACCESS_LOCAL_WRITE | ROE_MR_REMOTE_ACCESS | IB_ACCESS_RELAXED_ORDERING)

static bool in_buffer(const struct dma_buf *dmabuf, u64 offset, u64 length)
{
	u64 end;

	return length && !check_add_overflow(offset, length, &end) && end <= dmabuf->size;
}

/*
 * The udmabuf of some kernels (6.12) maps the first page of a folio in place of each of its pages.
 * Writes would go to the wrong page, and outside of the buffer if that is a part of the folio.
 */
static bool maps_heads(const struct dma_buf *dmabuf, const void *vaddr)
{
	const void *end = vaddr + dmabuf->size;
	struct page *page;

	if (strcmp(dmabuf->exp_name, "udmabuf") || !is_vmalloc_addr(vaddr))
		return false;
	for (; vaddr < end; vaddr += PAGE_SIZE) {
		page = vmalloc_to_page(vaddr);
		if (PageHead(page) && (end - vaddr <= PAGE_SIZE ||
				       vmalloc_to_page(vaddr + PAGE_SIZE) != page + 1))
			return true;
	}
	return false;
}

/* Map the buffer to a kernel address, which is valid until roe_dmabuf_put(). */
static int map(struct dma_buf *dmabuf, struct iosys_map *iomap)
{
	int err;

	err = dma_buf_begin_cpu_access(dmabuf, DMA_BIDIRECTIONAL);
	if (err)
		return err;
	err = dma_buf_vmap_unlocked(dmabuf, iomap);
	/* I/O memory: memcpy() and atomics may do harm there */
	if (!err && (iomap->is_iomem || maps_heads(dmabuf, iomap->vaddr))) {
		dma_buf_vunmap_unlocked(dmabuf, iomap);
		err = -EOPNOTSUPP;
	}
	if (err)
		dma_buf_end_cpu_access(dmabuf, DMA_BIDIRECTIONAL);
	return err;
}

/**
 * roe_dmabuf_put - let go of the memory of a region
 * @mr: has it from roe_dmabuf_get(); nobody has access
 *
 * Context: process, may sleep.
 */
void roe_dmabuf_put(struct roe_mr *mr)
{
	struct iosys_map iomap = IOSYS_MAP_INIT_VADDR(mr->vaddr);
	struct dma_buf *dmabuf = mr->attachment->dmabuf;

	dma_buf_vunmap_unlocked(dmabuf, &iomap);
	dma_buf_end_cpu_access(dmabuf, DMA_BIDIRECTIONAL);
	dma_buf_detach(dmabuf, mr->attachment);
	dma_buf_put(dmabuf);
}

ROE_EXPORT_FOR_TEST(roe_dmabuf_put);

/**
 * roe_dmabuf_get - give a region its memory
 * @mr: room for one extent; its device and length are set
 * @dmabuf: the buffer
 * @offset: first byte in it; the region ends inside of it
 *
 * Context: process, may sleep.
 * Return: 0 or negative errno, -EOPNOTSUPP if the CPU cannot use the memory, or it may move.
 */
int roe_dmabuf_get(struct roe_mr *mr, struct dma_buf *dmabuf, u64 offset)
{
	struct dma_buf_attachment *attachment;
	struct iosys_map iomap;
	int err;

	if (dma_buf_is_dynamic(dmabuf))
		return -EOPNOTSUPP;
	attachment = dma_buf_attach(dmabuf, &mr->ib.device->dev);
	if (IS_ERR(attachment))
		return PTR_ERR(attachment);
	err = map(dmabuf, &iomap);
	if (err) {
		dma_buf_detach(dmabuf, attachment);
		return err;
	}
	get_dma_buf(dmabuf);
	mr->attachment = attachment;
	mr->vaddr = iomap.vaddr;
	return roe_memory_add(&mr->mem, iomap.vaddr + offset, mr->length);
}

ROE_EXPORT_FOR_TEST(roe_dmabuf_get);

static struct ib_mr *reg(struct ib_pd *pd, struct dma_buf *dmabuf, u64 offset, u64 length,
			 u64 iova, int access)
{
	struct roe_mr *mr;
	u64 end;
	int err;

	if (!in_buffer(dmabuf, offset, length) || check_add_overflow(iova, length, &end))
		return ERR_PTR(-EINVAL);
	/* a dma-buf file that was opened only to be read gives no right to write */
	if (ib_access_writable(access) && !(dmabuf->file->f_mode & FMODE_WRITE))
		return ERR_PTR(-EACCES);
	mr = roe_mr_alloc(pd, ROE_MR_USER, 1);
	if (IS_ERR(mr))
		return ERR_CAST(mr);
	mr->access = access;
	mr->iova = iova;
	mr->length = length;
	mr->ib.iova = iova;
	mr->ib.length = length;
	err = roe_dmabuf_get(mr, dmabuf, offset);
	if (err) {
		roe_mr_free(mr);
		return ERR_PTR(err);
	}
	return roe_mr_publish_or_free(mr);
}

/**
 * roe_mr_reg_dmabuf - the reg_user_mr_dmabuf verb
 * @pd: protection domain
 * @offset: first byte in the buffer
 * @length: bytes
 * @iova: first VA
 * @fd: of the buffer
 * @access: IB_ACCESS_*
 *
 * Return: the MR or an ERR_PTR(): -EOPNOTSUPP if the CPU cannot use the memory, or it may move.
 */
struct ib_mr *roe_mr_reg_dmabuf(struct ib_pd *pd, u64 offset, u64 length, u64 iova, int fd,
				int access)
{
	struct dma_buf *dmabuf;
	struct ib_mr *ibmr;

	if (access & ~DMABUF_ACCESS)
		return ERR_PTR(-EOPNOTSUPP);
	dmabuf = dma_buf_get(fd);
	if (IS_ERR(dmabuf))
		return ERR_CAST(dmabuf);
	ibmr = reg(pd, dmabuf, offset, length, iova, access);
	dma_buf_put(dmabuf);
	return ibmr;
}

/* As MODULE_IMPORT_NS() does, but 6.13 changed the type of its argument. */
MODULE_INFO(import_ns, "DMA_BUF");
