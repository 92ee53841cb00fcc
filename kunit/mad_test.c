// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * The performance agent: counters that stay at their largest value, what clears which of
 * them, and what is refused.
 */
#include <kunit/test.h>
#include <rdma/ib_mad.h>
#include <rdma/ib_pma.h>
#include "../drivers/roe/stats.h"

#define GET	IB_MGMT_METHOD_GET
#define SET	IB_MGMT_METHOD_SET
#define SHORT	IB_PMA_PORT_COUNTERS
#define EXT	IB_PMA_PORT_COUNTERS_EXT

struct fixture {
	struct roe_dev			dev;
	struct ib_pma_mad		in, out;
	struct ib_pma_portcounters	*p;	/* in @out */
	struct ib_pma_portcounters_ext	*x;	/* the same, as the other attribute has it */
};

static int setup(struct kunit *test)
{
	struct fixture *f = kunit_kzalloc(test, sizeof(*f), GFP_KERNEL);

	test->priv = f;
	if (!f)
		return -ENOMEM;
	f->p = (void *)f->out.data;
	f->x = (void *)f->out.data;
	return roe_stat_init(&f->dev);
}

static void teardown(struct kunit *test)
{
	struct fixture *f = test->priv;

	if (f)
		roe_stat_exit(&f->dev);
}

/* What is asked of the device, whose answer is in @f->out; false: it says nothing. */
static bool ask(struct fixture *f, u8 class, u8 method, __be16 attr)
{
	size_t size = sizeof(f->out);
	u16 pkey = 1;

	f->in.mad_hdr.base_version = IB_MGMT_BASE_VERSION;
	f->in.mad_hdr.mgmt_class = class;
	f->in.mad_hdr.class_version = 1;
	f->in.mad_hdr.method = method;
	f->in.mad_hdr.attr_id = attr;
	return roe_mad_process(&f->dev.ib, 0, 1, NULL, NULL, (struct ib_mad *)&f->in,
			       (struct ib_mad *)&f->out, &size, &pkey) &
	       IB_MAD_RESULT_REPLY;
}

/* GET or SET of the counters of the port, the short ones or the others. */
static void counters(struct kunit *test, u8 method, __be16 attr, __be16 select)
{
	struct fixture *f = test->priv;
	struct ib_pma_portcounters *p = (void *)f->in.data;	/* both begin like this */

	p->port_select = 1;
	p->counter_select = select;
	KUNIT_ASSERT_TRUE(test, ask(f, IB_MGMT_CLASS_PERF_MGMT, method, attr));
	KUNIT_EXPECT_EQ(test, f->out.mad_hdr.method, IB_MGMT_METHOD_GET_RESP);
	KUNIT_ASSERT_EQ(test, f->out.mad_hdr.status, 0);
}

static void mad_saturated(struct kunit *test)
{
	struct fixture *f = test->priv;
	u64 most = U32_MAX;

	roe_stat_add(&f->dev, ROE_STAT_RX_MALFORMED, U16_MAX - 1);
	roe_stat_add(&f->dev, ROE_STAT_TX_DROP, U16_MAX - 1);
	roe_stat_add(&f->dev, ROE_STAT_TX_PKTS, most - 1);
	roe_stat_add(&f->dev, ROE_STAT_RX_PKTS, most);
	roe_stat_add(&f->dev, ROE_STAT_TX_BYTES, most * 4 - 4);
	roe_stat_add(&f->dev, ROE_STAT_RX_BYTES, most * 4);
	counters(test, GET, SHORT, 0);
	KUNIT_EXPECT_EQ(test, be16_to_cpu(f->p->port_rcv_errors), U16_MAX - 1);
	KUNIT_EXPECT_EQ(test, be16_to_cpu(f->p->port_xmit_discards), U16_MAX - 1);
	KUNIT_EXPECT_EQ(test, be32_to_cpu(f->p->port_xmit_packets), most - 1);
	KUNIT_EXPECT_EQ(test, be32_to_cpu(f->p->port_rcv_packets), most);
	KUNIT_EXPECT_EQ(test, be32_to_cpu(f->p->port_xmit_data), most - 1);
	KUNIT_EXPECT_EQ(test, be32_to_cpu(f->p->port_rcv_data), most);

	/* errors are the sum of two */
	roe_stat_add(&f->dev, ROE_STAT_RX_ICRC_ERR, 7);
	roe_stat_add(&f->dev, ROE_STAT_TX_DROP, 7);
	roe_stat_add(&f->dev, ROE_STAT_TX_PKTS, 7);
	roe_stat_add(&f->dev, ROE_STAT_RX_PKTS, 7);
	roe_stat_add(&f->dev, ROE_STAT_TX_BYTES, 28);
	roe_stat_add(&f->dev, ROE_STAT_RX_BYTES, 28);
	counters(test, GET, SHORT, 0);
	KUNIT_EXPECT_EQ(test, be16_to_cpu(f->p->port_rcv_errors), U16_MAX);
	KUNIT_EXPECT_EQ(test, be16_to_cpu(f->p->port_xmit_discards), U16_MAX);
	KUNIT_EXPECT_EQ(test, be32_to_cpu(f->p->port_xmit_packets), most);
	KUNIT_EXPECT_EQ(test, be32_to_cpu(f->p->port_rcv_packets), most);
	KUNIT_EXPECT_EQ(test, be32_to_cpu(f->p->port_xmit_data), most);
	KUNIT_EXPECT_EQ(test, be32_to_cpu(f->p->port_rcv_data), most);

	counters(test, GET, EXT, 0);
	KUNIT_EXPECT_EQ(test, be64_to_cpu(f->x->port_xmit_packets), most + 6);
	KUNIT_EXPECT_EQ(test, be64_to_cpu(f->x->port_rcv_packets), most + 7);
	KUNIT_EXPECT_EQ(test, be64_to_cpu(f->x->port_xmit_data), most + 6);
	KUNIT_EXPECT_EQ(test, be64_to_cpu(f->x->port_rcv_data), most + 7);
}

/* Bits of the two attributes, and what they clear of what kept() tells, in its order. */
static const struct {
	__be16	attr, select;
	u8	cleared;
} clears[] = {
	{ SHORT, IB_PMA_SEL_PORT_XMIT_DATA, BIT(0) },
	{ SHORT, IB_PMA_SEL_PORT_RCV_DATA, BIT(1) },
	{ SHORT, IB_PMA_SEL_PORT_XMIT_PACKETS, BIT(2) },
	{ SHORT, IB_PMA_SEL_PORT_RCV_PACKETS, BIT(3) },
	{ SHORT, IB_PMA_SEL_PORT_XMIT_DISCARDS, BIT(4) },
	{ SHORT, IB_PMA_SEL_PORT_RCV_ERRORS, BIT(5) },
	{ SHORT, IB_PMA_SEL_SYMBOL_ERROR, 0 },
	{ EXT, IB_PMA_SELX_PORT_XMIT_DATA, BIT(0) },
	{ EXT, IB_PMA_SELX_PORT_RCV_DATA, BIT(1) },
	{ EXT, IB_PMA_SELX_PORT_XMIT_PACKETS, BIT(2) },
	{ EXT, IB_PMA_SELX_PORT_RCV_PACKETS, BIT(3) },
	{ EXT, cpu_to_be16(0xfff0), 0 },
	{ SHORT, cpu_to_be16(0xffff), 0x3f },
};

/* Those of clears[] in the answer to a GET. */
static void kept(struct kunit *test, u64 now[6])
{
	struct fixture *f = test->priv;

	counters(test, GET, SHORT, 0);
	now[0] = be32_to_cpu(f->p->port_xmit_data);
	now[1] = be32_to_cpu(f->p->port_rcv_data);
	now[2] = be32_to_cpu(f->p->port_xmit_packets);
	now[3] = be32_to_cpu(f->p->port_rcv_packets);
	now[4] = be16_to_cpu(f->p->port_xmit_discards);
	now[5] = be16_to_cpu(f->p->port_rcv_errors);
}

static void count_all(struct fixture *f)
{
	roe_stat_add(&f->dev, ROE_STAT_TX_BYTES, 400);
	roe_stat_add(&f->dev, ROE_STAT_RX_BYTES, 404);
	roe_stat_add(&f->dev, ROE_STAT_TX_PKTS, 102);
	roe_stat_add(&f->dev, ROE_STAT_RX_PKTS, 103);
	roe_stat_add(&f->dev, ROE_STAT_TX_DROP, 104);
	roe_stat_add(&f->dev, ROE_STAT_RX_ICRC_ERR, 50);
	roe_stat_add(&f->dev, ROE_STAT_RX_MALFORMED, 55);
}

/* What is selected begins anew and goes on counting, the rest goes on; GET clears nothing. */
static void mad_cleared(struct kunit *test)
{
	struct fixture *f = test->priv;
	u64 was[6], now[6];
	unsigned int i, k;

	for (i = 0; i < ARRAY_SIZE(clears); i++) {
		count_all(f);
		kept(test, was);
		counters(test, GET, clears[i].attr, clears[i].select);
		kept(test, now);
		KUNIT_EXPECT_MEMEQ(test, now, was, sizeof(was));
		counters(test, SET, clears[i].attr, clears[i].select);
		kept(test, now);
		for (k = 0; k < 6; k++)
			KUNIT_EXPECT_EQ_MSG(test, now[k], clears[i].cleared & BIT(k) ? 0 : was[k],
					    "row %u, counter %u", i, k);
		count_all(f);
		kept(test, was);
		for (k = 0; k < 6; k++)
			KUNIT_EXPECT_EQ_MSG(test, was[k], now[k] + 100 + k, "row %u, counter %u",
					    i, k);
	}
	KUNIT_EXPECT_EQ(test, roe_stat_sum(&f->dev, ROE_STAT_TX_PKTS),
			2 * 102 * ARRAY_SIZE(clears));
}

static u16 refusal(struct fixture *f, u8 method, __be16 attr)
{
	if (!ask(f, IB_MGMT_CLASS_PERF_MGMT, method, attr))
		return 0xffff;
	return be16_to_cpu(f->out.mad_hdr.status) >> 2;
}

static void mad_refused(struct kunit *test)
{
	struct fixture *f = test->priv;
	struct ib_pma_portcounters *p = (void *)f->in.data;

	p->port_select = 2;
	KUNIT_EXPECT_EQ(test, refusal(f, GET, SHORT), 7);
	KUNIT_EXPECT_EQ(test, refusal(f, SET, EXT), 7);
	p->port_select = 0xff;
	KUNIT_EXPECT_EQ(test, refusal(f, GET, SHORT), 0);
	KUNIT_EXPECT_EQ(test, refusal(f, GET, cpu_to_be16(0x7777)), 3);
	KUNIT_EXPECT_EQ(test, refusal(f, SET, IB_PMA_CLASS_PORT_INFO), 2);
	KUNIT_EXPECT_EQ(test, refusal(f, GET, IB_PMA_CLASS_PORT_INFO), 0);
	/* for the agents above */
	KUNIT_EXPECT_FALSE(test, ask(f, IB_MGMT_CLASS_SUBN_LID_ROUTED, GET, SHORT));
	KUNIT_EXPECT_FALSE(test, ask(f, IB_MGMT_CLASS_PERF_MGMT, IB_MGMT_METHOD_TRAP, SHORT));
}

static struct kunit_case cases[] = {
	KUNIT_CASE(mad_saturated),
	KUNIT_CASE(mad_cleared),
	KUNIT_CASE(mad_refused),
	{}
};

static struct kunit_suite suite = {
	.name = "roe_mad",
	.init = setup,
	.exit = teardown,
	.test_cases = cases,
};

kunit_test_suite(suite);
