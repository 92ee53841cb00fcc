/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Tracepoints of the protocol, in /sys/kernel/tracing/events/roe: every packet
 * that a QP sends or receives, directly or through the network, and what it led to.
 * Each event names the QP by its number, which is unique in the module.
 */
#undef TRACE_SYSTEM
#define TRACE_SYSTEM roe

#if !defined(ROE_TRACE_H) || defined(TRACE_HEADER_MULTI_READ)
#define ROE_TRACE_H

#include <linux/tracepoint.h>
#include "qp.h"

#define show_qp_state(state)						\
	__print_symbolic(state,						\
			 { IB_QPS_RESET, "RESET" }, { IB_QPS_INIT, "INIT" },	\
			 { IB_QPS_RTR, "RTR" }, { IB_QPS_RTS, "RTS" },	\
			 { IB_QPS_SQD, "SQD" }, { IB_QPS_SQE, "SQE" },	\
			 { IB_QPS_ERR, "ERR" })

DECLARE_EVENT_CLASS(roe_packet,
	TP_PROTO(const struct roe_qp *qp, const struct roe_pkt *p, bool direct),
	TP_ARGS(qp, p, direct),
	TP_STRUCT__entry(
		__field(u32, qpn)
		__field(u32, to)
		__field(u32, psn)
		__field(u32, len)
		__field(u8, opcode)
		__field(u8, syndrome)
		__field(bool, ackreq)
		__field(bool, direct)
	),
	TP_fast_assign(
		__entry->qpn = qp->qpn;
		__entry->to = p->qpn;
		__entry->psn = p->psn;
		__entry->len = p->len;
		__entry->opcode = p->opcode;
		__entry->syndrome = p->syndrome;
		__entry->ackreq = p->ackreq;
		__entry->direct = direct;
	),
	TP_printk("qp %u to %u opcode %#04x psn %u len %u%s syndrome %#04x %s",
		  __entry->qpn, __entry->to, __entry->opcode, __entry->psn, __entry->len,
		  __entry->ackreq ? " ackreq" : "", __entry->syndrome,
		  __entry->direct ? "direct" : "network")
);

DEFINE_EVENT(roe_packet, roe_packet_out,
	TP_PROTO(const struct roe_qp *qp, const struct roe_pkt *p, bool direct),
	TP_ARGS(qp, p, direct)
);

DEFINE_EVENT(roe_packet, roe_packet_in,
	TP_PROTO(const struct roe_qp *qp, const struct roe_pkt *p, bool direct),
	TP_ARGS(qp, p, direct)
);

TRACE_EVENT(roe_qp_state,
	TP_PROTO(const struct roe_qp *qp, enum ib_qp_state next),
	TP_ARGS(qp, next),
	TP_STRUCT__entry(
		__field(u32, qpn)
		__field(u8, from)
		__field(u8, to)
	),
	TP_fast_assign(
		__entry->qpn = qp->qpn;
		__entry->from = qp->state;
		__entry->to = next;
	),
	TP_printk("qp %u %s -> %s", __entry->qpn,
		  show_qp_state(__entry->from), show_qp_state(__entry->to))
);

/* The responder refuses a packet by a NAK: sequence error, RNR, or a fatal one. */
TRACE_EVENT(roe_nak,
	TP_PROTO(const struct roe_qp *qp, u8 syndrome, u32 psn),
	TP_ARGS(qp, syndrome, psn),
	TP_STRUCT__entry(
		__field(u32, qpn)
		__field(u32, psn)
		__field(u8, syndrome)
	),
	TP_fast_assign(
		__entry->qpn = qp->qpn;
		__entry->psn = psn;
		__entry->syndrome = syndrome;
	),
	TP_printk("qp %u syndrome %#04x psn %u", __entry->qpn, __entry->syndrome,
		  __entry->psn)
);

/* The requester goes back to @psn; packets before it may still be in flight. */
TRACE_EVENT(roe_retransmit,
	TP_PROTO(const struct roe_qp *qp, u32 psn),
	TP_ARGS(qp, psn),
	TP_STRUCT__entry(
		__field(u32, qpn)
		__field(u32, psn)
		__field(u32, sent)
		__field(u32, window)
		__field(u32, rtt)
		__field(u8, patience)
		__field(u8, retry_left)
	),
	TP_fast_assign(
		__entry->qpn = qp->qpn;
		__entry->psn = psn;
		__entry->sent = qp->req.max_psn;
		__entry->window = qp->req.cwnd;
		__entry->rtt = qp->req.srtt;
		__entry->patience = qp->req.reorder.patience;
		__entry->retry_left = qp->req.retry_cnt;
	),
	TP_printk("qp %u from psn %u, sent up to %u, window %u, rtt %u ns, patience %u/4, retries left %u",
		  __entry->qpn, __entry->psn, __entry->sent, __entry->window, __entry->rtt,
		  __entry->patience, __entry->retry_left)
);

TRACE_EVENT(roe_completion,
	TP_PROTO(const struct roe_qp *qp, const struct ib_wc *wc, bool recv),
	TP_ARGS(qp, wc, recv),
	TP_STRUCT__entry(
		__field(u64, wr_id)
		__field(u32, qpn)
		__field(u32, len)
		__field(u8, status)
		__field(bool, recv)
	),
	TP_fast_assign(
		__entry->wr_id = wc->wr_id;
		__entry->qpn = qp->qpn;
		__entry->len = wc->byte_len;
		__entry->status = wc->status;
		__entry->recv = recv;
	),
	TP_printk("qp %u %s wr_id %#llx status %u len %u", __entry->qpn,
		  __entry->recv ? "recv" : "send", __entry->wr_id, __entry->status,
		  __entry->len)
);

#endif /* ROE_TRACE_H */

#undef TRACE_INCLUDE_PATH
#define TRACE_INCLUDE_PATH .
#undef TRACE_INCLUDE_FILE
#define TRACE_INCLUDE_FILE trace
#include <trace/define_trace.h>
