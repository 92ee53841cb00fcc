// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Management datagrams that a device answers itself: those of the performance
 * agent (IBTA 16.1). sysfs reads the port's counters through it, and monitoring
 * tools ask it by MAD. All other MADs are for the agents above ib_mad.
 */
#include <rdma/ib_mad.h>
#include <rdma/ib_pma.h>
#include "device.h"
#include "stats.h"

#define PMA_VERSION	1
#define ALL_PORTS	0xff
#define RESP_TIME	18	/* 4.096 us * 2^18: a second */

#define STATUS_BAD_VERSION	cpu_to_be16(1 << 2)
#define STATUS_BAD_METHOD	cpu_to_be16(2 << 2)
#define STATUS_BAD_ATTR		cpu_to_be16(3 << 2)
#define STATUS_BAD_FIELD	cpu_to_be16(7 << 2)

/* The roe counter that a PMA counter is made of, and the select bits that clear it. */
enum row { XMIT_DATA, RCV_DATA, XMIT_PACKETS, RCV_PACKETS, XMIT_DISCARDS, RCV_ICRC, RCV_MALFORMED };

static const struct {
	enum roe_stat	stat;
	__be16		select, select_ext;
} rows[] = {
	[XMIT_DATA] = {
		ROE_STAT_TX_BYTES, IB_PMA_SEL_PORT_XMIT_DATA, IB_PMA_SELX_PORT_XMIT_DATA
	},
	[RCV_DATA] = {
		ROE_STAT_RX_BYTES, IB_PMA_SEL_PORT_RCV_DATA, IB_PMA_SELX_PORT_RCV_DATA
	},
	[XMIT_PACKETS] = {
		ROE_STAT_TX_PKTS, IB_PMA_SEL_PORT_XMIT_PACKETS, IB_PMA_SELX_PORT_XMIT_PACKETS
	},
	[RCV_PACKETS] = {
		ROE_STAT_RX_PKTS, IB_PMA_SEL_PORT_RCV_PACKETS, IB_PMA_SELX_PORT_RCV_PACKETS
	},
	[XMIT_DISCARDS] = { ROE_STAT_TX_DROP, IB_PMA_SEL_PORT_XMIT_DISCARDS, 0 },
	[RCV_ICRC] = { ROE_STAT_RX_ICRC_ERR, IB_PMA_SEL_PORT_RCV_ERRORS, 0 },
	[RCV_MALFORMED] = { ROE_STAT_RX_MALFORMED, IB_PMA_SEL_PORT_RCV_ERRORS, 0 },
};

static_assert(ARRAY_SIZE(rows) == ROE_PMA_COUNTERS);

/*
 * The value since a MAD last cleared it; "rdma statistic" is not affected by that. Data counters
 * count BTH to ICRC of each packet, which is the same at both ends.
 */
static u64 count(struct roe_dev *dev, enum row row)
{
	/* read first: clear() may run meanwhile, and a sum is never less than an earlier one */
	u64 base = READ_ONCE(dev->pma_base[row]);

	return roe_stat_sum(dev, rows[row].stat) - base;
}

static void clear(struct roe_dev *dev, __be16 select, __be16 select_ext)
{
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(rows); i++)
		if ((rows[i].select & select) || (rows[i].select_ext & select_ext))
			WRITE_ONCE(dev->pma_base[i], roe_stat_sum(dev, rows[i].stat));
}

static __be16 class_port_info(struct ib_pma_mad *out)
{
	struct ib_class_port_info *info = (void *)out->data;

	if (out->mad_hdr.method != IB_MGMT_METHOD_GET)
		return STATUS_BAD_METHOD;
	memset(info, 0, sizeof(*info));
	info->base_version = IB_MGMT_BASE_VERSION;
	info->class_version = PMA_VERSION;
	info->capability_mask = IB_PMA_CLASS_CAP_ALLPORTSELECT |
				IB_PMA_CLASS_CAP_EXT_WIDTH_NOIETF;
	ib_set_cpi_resp_time(info, RESP_TIME);
	return 0;
}

/* These stay at their largest value rather than wrap (IBTA 16.1.3.5). */
static __be16 sat16(u64 value)
{
	return cpu_to_be16(min_t(u64, value, U16_MAX));
}

static __be32 sat32(u64 value)
{
	return cpu_to_be32(min_t(u64, value, U32_MAX));
}

static __be16 port_counters(struct roe_dev *dev, struct ib_pma_mad *out)
{
	struct ib_pma_portcounters *p = (void *)out->data;
	u8 port = p->port_select;
	__be16 select = p->counter_select;

	if (port != 1 && port != ALL_PORTS)
		return STATUS_BAD_FIELD;
	if (out->mad_hdr.method == IB_MGMT_METHOD_SET)
		clear(dev, select, 0);
	memset(p, 0, sizeof(*p));
	p->port_select = port;
	p->counter_select = select;
	p->port_rcv_errors = sat16(count(dev, RCV_ICRC) +
				   count(dev, RCV_MALFORMED));
	p->port_xmit_discards = sat16(count(dev, XMIT_DISCARDS));
	/* data in units of four bytes */
	p->port_xmit_data = sat32(count(dev, XMIT_DATA) / 4);
	p->port_rcv_data = sat32(count(dev, RCV_DATA) / 4);
	p->port_xmit_packets = sat32(count(dev, XMIT_PACKETS));
	p->port_rcv_packets = sat32(count(dev, RCV_PACKETS));
	return 0;
}

static __be16 port_counters_ext(struct roe_dev *dev, struct ib_pma_mad *out)
{
	struct ib_pma_portcounters_ext *p = (void *)out->data;
	u8 port = p->port_select;
	__be16 select = p->counter_select;

	if (port != 1 && port != ALL_PORTS)
		return STATUS_BAD_FIELD;
	if (out->mad_hdr.method == IB_MGMT_METHOD_SET)
		clear(dev, 0, select);
	memset(p, 0, sizeof(*p));
	p->port_select = port;
	p->counter_select = select;
	p->port_xmit_data = cpu_to_be64(count(dev, XMIT_DATA) / 4);
	p->port_rcv_data = cpu_to_be64(count(dev, RCV_DATA) / 4);
	p->port_xmit_packets = cpu_to_be64(count(dev, XMIT_PACKETS));
	p->port_rcv_packets = cpu_to_be64(count(dev, RCV_PACKETS));
	return 0;
}

static __be16 perf(struct roe_dev *dev, struct ib_pma_mad *out)
{
	if (out->mad_hdr.class_version != PMA_VERSION)
		return STATUS_BAD_VERSION;
	switch (out->mad_hdr.attr_id) {
	case IB_PMA_CLASS_PORT_INFO:
		return class_port_info(out);
	case IB_PMA_PORT_COUNTERS:
		return port_counters(dev, out);
	case IB_PMA_PORT_COUNTERS_EXT:
		return port_counters_ext(dev, out);
	default:
		return STATUS_BAD_ATTR;
	}
}

/**
 * roe_mad_process() - ib_device_ops.process_mad
 * @ibdev: device
 * @flags: of the caller, which is sysfs or ib_mad
 * @port: 1
 * @wc: of the datagram, NULL for sysfs
 * @grh: the same
 * @in: request
 * @out: takes the answer
 * @out_size: bytes of it, set by the caller
 * @out_pkey_index: P_Key to answer with
 *
 * Process context.
 *
 * Return: IB_MAD_RESULT_*: answered, or not for the performance agent.
 */
int roe_mad_process(struct ib_device *ibdev, int flags, u32 port, const struct ib_wc *wc,
		    const struct ib_grh *grh, const struct ib_mad *in, struct ib_mad *out,
		    size_t *out_size, u16 *out_pkey_index)
{
	u8 method = in->mad_hdr.method;

	if (in->mad_hdr.mgmt_class != IB_MGMT_CLASS_PERF_MGMT ||
	    (method != IB_MGMT_METHOD_GET && method != IB_MGMT_METHOD_SET))
		return IB_MAD_RESULT_SUCCESS;
	memcpy(out, in, sizeof(*out));
	out->mad_hdr.status = perf(roe_dev(ibdev), (struct ib_pma_mad *)out);
	out->mad_hdr.method = IB_MGMT_METHOD_GET_RESP;
	*out_pkey_index = 0;
	return IB_MAD_RESULT_SUCCESS | IB_MAD_RESULT_REPLY;
}

ROE_EXPORT_FOR_TEST(roe_mad_process);
