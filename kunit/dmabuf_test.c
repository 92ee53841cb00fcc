// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Regions of dma-buf memory, of an exporter that pins only what is attached.
 */
#include <kunit/test.h>
#include <linux/dma-buf.h>
#include <linux/file.h>
#include <linux/iosys-map.h>
#include <linux/module.h>
#include "../drivers/roe/mr.h"

#define LENGTH	(4 * PAGE_SIZE)

struct exporter {
	struct kunit	*test;
	int		refuses;	/* what attach returns */
	bool		iomem;		/* it is no memory of this host */
	unsigned int	attached, begun, mapped;	/* now */
	unsigned int	attaches, maps;			/* ever */
	bool		released;
	u8		*bytes;
	struct ib_device dev;
	struct roe_extent ext;
	struct roe_mr	mr;
};

static int attach(struct dma_buf *dmabuf, struct dma_buf_attachment *attachment)
{
	struct exporter *e = dmabuf->priv;

	KUNIT_EXPECT_PTR_EQ(e->test, attachment->dev, &e->dev.dev);
	if (e->refuses)
		return e->refuses;
	e->attached++;
	e->attaches++;
	return 0;
}

static void detach(struct dma_buf *dmabuf, struct dma_buf_attachment *attachment)
{
	struct exporter *e = dmabuf->priv;

	KUNIT_EXPECT_EQ(e->test, e->attached, 1);
	KUNIT_EXPECT_EQ(e->test, e->begun, 0);
	KUNIT_EXPECT_EQ(e->test, e->mapped, 0);
	e->attached--;
}

static int begin_access(struct dma_buf *dmabuf, enum dma_data_direction dir)
{
	struct exporter *e = dmabuf->priv;

	e->begun++;
	return 0;
}

static int end_access(struct dma_buf *dmabuf, enum dma_data_direction dir)
{
	struct exporter *e = dmabuf->priv;

	KUNIT_EXPECT_EQ(e->test, e->mapped, 0);
	e->begun--;
	return 0;
}

/* It neither pins the memory nor has a reference to it: who is not attached may lose it. */
static int map(struct dma_buf *dmabuf, struct iosys_map *iomap)
{
	struct exporter *e = dmabuf->priv;

	KUNIT_EXPECT_EQ(e->test, e->attached, 1);
	KUNIT_EXPECT_EQ(e->test, e->begun, 1);
	if (e->iomem)
		iosys_map_set_vaddr_iomem(iomap, (void __force __iomem *)e->bytes);
	else
		iosys_map_set_vaddr(iomap, e->bytes);
	e->mapped++;
	e->maps++;
	return 0;
}

static void unmap(struct dma_buf *dmabuf, struct iosys_map *iomap)
{
	struct exporter *e = dmabuf->priv;

	KUNIT_EXPECT_EQ(e->test, e->attached, 1);
	e->mapped--;
}

/* Nobody does DMA. */
static struct sg_table *map_dma(struct dma_buf_attachment *attachment,
				enum dma_data_direction dir)
{
	struct exporter *e = attachment->dmabuf->priv;

	KUNIT_FAIL(e->test, "mapped for a device");
	return ERR_PTR(-EIO);
}

static void unmap_dma(struct dma_buf_attachment *attachment, struct sg_table *sgt,
		      enum dma_data_direction dir)
{
}

static int pin(struct dma_buf_attachment *attachment)
{
	struct exporter *e = attachment->dmabuf->priv;

	KUNIT_FAIL(e->test, "pinned");
	return -EIO;
}

static void unpin(struct dma_buf_attachment *attachment)
{
}

static void release(struct dma_buf *dmabuf)
{
	struct exporter *e = dmabuf->priv;

	e->released = true;
}

static const struct dma_buf_ops fixed = {
	.attach = attach,
	.detach = detach,
	.map_dma_buf = map_dma,
	.unmap_dma_buf = unmap_dma,
	.release = release,
	.begin_cpu_access = begin_access,
	.end_cpu_access = end_access,
	.vmap = map,
	.vunmap = unmap,
};

static const struct dma_buf_ops moving = {
	.attach = attach,
	.detach = detach,
	.pin = pin,
	.unpin = unpin,
	.map_dma_buf = map_dma,
	.unmap_dma_buf = unmap_dma,
	.release = release,
	.begin_cpu_access = begin_access,
	.end_cpu_access = end_access,
	.vmap = map,
	.vunmap = unmap,
};

static struct exporter *make(struct kunit *test)
{
	struct exporter *e = kunit_kzalloc(test, sizeof(*e), GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, e);
	e->bytes = kunit_kzalloc(test, LENGTH, GFP_KERNEL);
	KUNIT_ASSERT_NOT_NULL(test, e->bytes);
	e->test = test;
	e->mr.ib.device = &e->dev;
	e->mr.length = LENGTH - PAGE_SIZE;
	e->mr.mem.ext = &e->ext;
	e->mr.mem.max = 1;
	return e;
}

static struct dma_buf *export(struct exporter *e, const struct dma_buf_ops *ops)
{
	DEFINE_DMA_BUF_EXPORT_INFO(info);
	struct dma_buf *dmabuf;

	info.ops = ops;
	info.size = LENGTH;
	info.flags = O_RDWR;
	info.priv = e;
	dmabuf = dma_buf_export(&info);
	KUNIT_ASSERT_FALSE(e->test, IS_ERR(dmabuf));
	return dmabuf;
}

/* The last reference; a thread of the kernel leaves what that does to a worker. */
static void put(struct dma_buf *dmabuf)
{
	dma_buf_put(dmabuf);
	flush_delayed_fput();
}

/* What a region lies in is attached as long as it is mapped, and kept by the region. */
static void dmabuf_attached(struct kunit *test)
{
	struct exporter *e = make(test);
	struct dma_buf *dmabuf = export(e, &fixed);

	KUNIT_EXPECT_EQ(test, roe_dmabuf_get(&e->mr, dmabuf, PAGE_SIZE), 0);
	put(dmabuf);
	KUNIT_EXPECT_FALSE(test, e->released);
	KUNIT_EXPECT_EQ(test, e->attached, 1);
	KUNIT_EXPECT_EQ(test, e->maps, 1);
	KUNIT_EXPECT_PTR_EQ(test, e->ext.addr, (void *)e->bytes + PAGE_SIZE);
	if (e->mapped)
		roe_dmabuf_put(&e->mr);
	flush_delayed_fput();
	KUNIT_EXPECT_EQ(test, e->attaches, 1);
	KUNIT_EXPECT_EQ(test, e->attached, 0);
	KUNIT_EXPECT_TRUE(test, e->released);
}

/* @ops are refused with @err, and nothing stays. */
static void expect_refused(struct exporter *e, const struct dma_buf_ops *ops, int err)
{
	struct dma_buf *dmabuf = export(e, ops);

	KUNIT_EXPECT_EQ(e->test, roe_dmabuf_get(&e->mr, dmabuf, 0), err);
	KUNIT_EXPECT_EQ(e->test, e->attached, 0);
	KUNIT_EXPECT_EQ(e->test, e->begun, 0);
	KUNIT_EXPECT_EQ(e->test, e->mapped, 0);
	put(dmabuf);
	KUNIT_EXPECT_TRUE(e->test, e->released);
}

/* Who may move the memory would have to be told to leave it. */
static void dmabuf_moving(struct kunit *test)
{
	struct exporter *e = make(test);

	expect_refused(e, &moving, -EOPNOTSUPP);
	KUNIT_EXPECT_EQ(test, e->attaches, 0);
	KUNIT_EXPECT_EQ(test, e->maps, 0);
}

static void dmabuf_not_attached(struct kunit *test)
{
	struct exporter *e = make(test);

	e->refuses = -EBUSY;
	expect_refused(e, &fixed, -EBUSY);
	KUNIT_EXPECT_EQ(test, e->maps, 0);
}

static void dmabuf_no_memory(struct kunit *test)
{
	struct exporter *e = make(test);

	e->iomem = true;
	expect_refused(e, &fixed, -EOPNOTSUPP);
	KUNIT_EXPECT_EQ(test, e->attaches, 1);
}

static struct kunit_case cases[] = {
	KUNIT_CASE(dmabuf_attached),
	KUNIT_CASE(dmabuf_moving),
	KUNIT_CASE(dmabuf_not_attached),
	KUNIT_CASE(dmabuf_no_memory),
	{}
};

static struct kunit_suite suite = {
	.name = "roe_dmabuf",
	.test_cases = cases,
};

kunit_test_suites(&suite);

/* As in dmabuf_mr.c. */
MODULE_INFO(import_ns, "DMA_BUF");
