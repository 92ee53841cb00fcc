// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Datagrams (IBTA 9.8.3, wire.md 4.4): UD QPs and QP1. A message is one packet, sent once.
 * Nothing is acknowledged, so a WQE is done when its packet is in the burst, and a packet that
 * cannot be received is dropped silently.
 *
 * The address handle of each WQE names the destination, so all packets of a burst have the same
 * handle; its reference passes from the WQE to the burst.
 */
#include <linux/etherdevice.h>
#include <linux/ip.h>
#include <linux/ipv6.h>
#include <linux/udp.h>
#include <net/ip.h>
#include <rdma/ib_mad.h>
#include "ah.h"
#include "transport.h"

/* --- posting --- */

/*
 * A Q_Key with bit 31 cannot be named in a work request: it stands for the QP's own Q_Key,
 * which only privileged users can set (IBTA 10.2.5, wire.md section 6).
 */
static u32 pick_qkey(const struct roe_qp *qp, u32 qkey)
{
	return qkey & BIT(31) ? qp->attr.qkey : qkey;
}

/**
 * roe_ud_from_ring() - address part of a user's WQE
 * @qp: UD; qp->lock held, RCU read-side section
 * @wqe: filled in; status is set if the WQE cannot be sent
 * @wr: private copy of what the user wrote
 *
 * A WQE without a handle has an address vector of its own, written by the user, source address
 * and all. It is never sent (abi.md section 9).
 */
void roe_ud_from_ring(struct roe_qp *qp, struct roe_swqe *wqe, const struct rxe_send_wr *wr)
{
	wqe->dest_qpn = wr->wr.ud.remote_qpn & ROE_QPN_MASK;
	wqe->qkey = pick_qkey(qp, wr->wr.ud.remote_qkey);
	wqe->ah = qp->dev ? roe_ah_get(qp->dev, qp->pd, wr->wr.ud.ah_num) : NULL;
	if (!wqe->ah)
		wqe->status = IB_WC_LOC_QP_OP_ERR;
}

/**
 * roe_ud_from_wr() - address part of a kernel user's work request
 * @qp: UD or GSI
 * @wqe: filled in. Called last: nothing that follows may fail, because @wqe holds a reference
 * @wr: the request
 *
 * Return: 0; -EINVAL: the request is not posted.
 */
int roe_ud_from_wr(struct roe_qp *qp, struct roe_swqe *wqe, const struct ib_send_wr *wr)
{
	const struct ib_ud_wr *ud = ud_wr(wr);

	if (!ud->ah || ud->ah->pd != qp->pd)
		return -EINVAL;
	if (qp->type == IB_QPT_GSI && ud->pkey_index >= ROE_MAX_PKEYS)
		return -EINVAL;
	wqe->dest_qpn = ud->remote_qpn & ROE_QPN_MASK;
	wqe->qkey = pick_qkey(qp, ud->remote_qkey);
	wqe->ah = roe_ah_hold(roe_ah(ud->ah)->entry);
	return 0;
}

/**
 * roe_ud_release() - a WQE gives its address handle back
 * @wqe: of a UD QP, retired or discarded
 */
void roe_ud_release(struct roe_swqe *wqe)
{
	if (wqe->ah)
		roe_ah_put(wqe->ah);
	wqe->ah = NULL;
}

/* --- sending --- */

static void set_headers(struct roe_qp *qp, const struct roe_swqe *wqe, struct roe_pkt *p)
{
	struct roe_req *req = &qp->req;

	p->qpn = wqe->dest_qpn;
	p->pkey = qp->pkey;
	p->qkey = wqe->qkey;
	p->sqp = qp->qpn;
	p->imm = wqe->imm;
	p->se = wqe->flags & IB_SEND_SOLICITED;
	p->psn = req->psn;
	/* nothing is ever outstanding */
	req->psn = roe_psn_add(req->psn, 1);
	req->una = req->psn;
	req->max_psn = req->psn;
	req->wqe_psn = req->psn;
}

/* Put the packet of a WQE into the burst. -ENOMEM: it is lost; -EAGAIN: wait for a page. */
static int add_packet(struct roe_qp *qp, struct roe_ctx *ctx, struct roe_swqe *wqe,
		      struct roe_txb *txb)
{
	u8 opcode = wqe->opcode == IB_WR_SEND_WITH_IMM ? ROE_OPCODE_UD_SEND_ONLY_IMM :
							ROE_OPCODE_UD_SEND_ONLY;
	struct roe_tx_pkt *pkt = roe_txb_add(txb, opcode, wqe->length);

	if (!pkt)
		return -ENOMEM;
	if (!roe_sge_read(qp, wqe, 0, roe_tx_payload(pkt), wqe->length)) {
		roe_txb_cancel(txb);
		if (roe_fault_missed(qp, ctx, &qp->req.fault))
			return -EAGAIN;
		wqe->status = IB_WC_LOC_PROT_ERR;
		return 0;
	}
	set_headers(qp, wqe, &pkt->p);
	if (!txb->ah) {
		txb->ah = wqe->ah;
		wqe->ah = NULL;
	}
	return 0;
}

static void retire(struct roe_qp *qp, struct roe_ctx *ctx, struct roe_swqe *wqe)
{
	enum ib_wc_status status = wqe->status;

	roe_requester_retire(qp, ctx, status);
	if (status != IB_WC_SUCCESS)
		roe_complete_sqe(qp, ctx);
}

/*
 * A message longer than the MTU of the port or of its path leaves no packet and no error (IBTA
 * C10-93.1.1).
 */
static bool too_long(struct roe_qp *qp, const struct roe_swqe *wqe)
{
	if (wqe->length <= qp->mtu &&
	    (!qp->dev ||
	     wqe->length <= roe_device_gid_mtu(qp->dev, wqe->ah->path.av.sgid_attr)))
		return false;
	roe_qp_count(qp, ROE_STAT_TX_DROP);
	return true;
}

/**
 * roe_ud_emit() - add datagrams to a burst
 * @qp: UD or GSI
 * @ctx: takes notifications
 * @txb: empty, or of this QP; its handle is the caller's to put
 *
 * Return: true if more could be sent at once: the burst is full, the next WQE has another
 * address handle, or many WQEs have left no packet (the burst may be empty then). False also if
 * too much waits on this host: the timer goes on.
 */
bool roe_ud_emit(struct roe_qp *qp, struct roe_ctx *ctx, struct roe_txb *txb)
{
	unsigned int silent = 0;

	while (qp->state == IB_QPS_RTS) {
		unsigned int n = txb->n;
		struct roe_swqe *wqe;
		int err;

		/* pairs with the release in post_one() */
		if (qp->sq.next == smp_load_acquire(&qp->sq.prod))
			return false;
		if (!roe_txb_room(txb) || silent == ROE_WQE_BATCH)
			return true;
		if (roe_unsent_full(qp, ctx, txb))
			return !qp->unsent.look;
		wqe = roe_sq_slot(&qp->sq, qp->sq.next);
		if (wqe->status == IB_WC_SUCCESS && !too_long(qp, wqe)) {
			if (txb->ah && wqe->ah != txb->ah)
				return true;
			err = add_packet(qp, ctx, wqe, txb);
			if (err == -EAGAIN)
				return false;
			/* no memory: the packet is lost, as it could have been on the wire */
			if (err)
				roe_qp_count(qp, ROE_STAT_TX_DROP);
		}
		retire(qp, ctx, wqe);
		if (txb->n == n)
			silent++;
	}
	return false;
}

/* --- receiving --- */

/* The header as it was on the wire, whatever the stack did to it since then. */
static void fill_ipv4(struct iphdr *dst, const struct iphdr *src, u16 l4_len)
{
	*dst = *src;
	dst->ihl = 5;
	dst->tot_len = htons(sizeof(*dst) + l4_len);
	dst->check = 0;
	dst->check = ip_fast_csum(dst, dst->ihl);
}

/*
 * The 40 bytes in front of the message: the IPv6 header, or an IPv4 header in
 * the last 20 of them behind zeros (wire.md section 6).
 */
static void fill_grh(u8 *grh, const struct roe_rx_pkt *rx)
{
	const struct roe_rx_l3 *l3 = rx->l3;
	u16 l4_len = sizeof(struct udphdr) + roe_opcode(rx->p.opcode)->hdrlen + rx->p.len +
		     roe_pkt_pad(rx->p.len) + ROE_ICRC_LEN;
	struct ipv6hdr *ip6 = (void *)grh;

	memset(grh, 0, ROE_GRH_LEN);
	if (l3->v6) {
		memcpy(ip6, l3->ip, sizeof(*ip6));
		ip6->payload_len = htons(l4_len);
	} else {
		fill_ipv4((void *)(grh + ROE_GRH_LEN - sizeof(struct iphdr)), l3->ip, l4_len);
	}
}

/* Copy the 40 bytes and the message to where the receive WQE says. */
static bool deliver(struct roe_qp *qp, struct roe_ctx *ctx, const struct roe_rx_pkt *rx)
{
	u8 grh[ROE_GRH_LEN] __aligned(4);
	struct kvec vec = { grh, sizeof(grh) };

	fill_grh(grh, rx);
	return roe_sge_receive(qp, ctx, 0, &vec, ROE_GRH_LEN) &&
	       roe_sge_receive(qp, ctx, ROE_GRH_LEN, rx->vec, rx->p.len);
}

static void fill_wc(struct ib_wc *wc, const struct roe_rx_pkt *rx)
{
	const struct roe_rx_l3 *l3 = rx->l3;

	wc->byte_len = ROE_GRH_LEN + rx->p.len;
	wc->src_qp = rx->p.sqp;
	wc->wc_flags = IB_WC_GRH | IB_WC_WITH_NETWORK_HDR_TYPE;
	wc->network_hdr_type = l3->v6 ? RDMA_NETWORK_IPV6 : RDMA_NETWORK_IPV4;
	if (rx->p.opcode == ROE_OPCODE_UD_SEND_ONLY_IMM) {
		wc->wc_flags |= IB_WC_WITH_IMM;
		wc->ex.imm_data = rx->p.imm;
	}
	if (l3->vlan_id != 0xffff) {
		wc->wc_flags |= IB_WC_WITH_VLAN;
		wc->vlan_id = l3->vlan_id;
	}
	if (l3->smac) {
		wc->wc_flags |= IB_WC_WITH_SMAC;
		ether_addr_copy(wc->smac, l3->smac);
	}
}

/*
 * Is there a receive WQE that this packet fits into? A WQE that is too short stays in the
 * queue, for another packet: there other QPs of an SRQ can take it. Otherwise a peer could move
 * all WQEs of an SRQ into QPs where they never complete.
 */
static bool have_rwqe(struct roe_qp *qp, u32 len)
{
	struct roe_resp *resp = &qp->resp;

	/* a datagram that was lost to a missing page has left its WQE here */
	if (!resp->rwqe_valid)
		resp->rwqe_valid = roe_wqe_next_recv(qp, &resp->rwqe, ROE_GRH_LEN + len);
	return resp->rwqe_valid && (resp->rwqe.status != IB_WC_SUCCESS ||
				    resp->rwqe.length >= ROE_GRH_LEN + len);
}

/*
 * A MAD has 256 bytes (IBTA 13.4.2) and there is one version. The core checks neither: it
 * answers a shorter MAD, which anybody may send, with what its buffer held before, and logs a
 * line for each MAD of another version.
 */
static bool is_mad(const struct roe_rx_pkt *rx)
{
	return rx->p.len == IB_MGMT_MAD_SIZE && rx->vec[0].iov_len &&
	       *(const u8 *)rx->vec[0].iov_base == IB_MGMT_BASE_VERSION;
}

static bool acceptable(struct roe_qp *qp, const struct roe_rx_pkt *rx)
{
	const struct roe_pkt *p = &rx->p;

	if (p->qkey != qp->attr.qkey) {
		roe_qp_count(qp, ROE_STAT_RX_QKEY_ERR);
		return false;
	}
	return roe_opcode_len_ok(p->opcode, p->len, qp->mtu) &&
	       (qp->type != IB_QPT_GSI || is_mad(rx)) && have_rwqe(qp, p->len);
}

/**
 * roe_ud_receive() - one datagram
 * @qp: UD or GSI, in RTR, RTS, SQD or SQE
 * @ctx: takes notifications and events
 * @rx: proven packet with @l3; a multicast packet comes once for each QP
 */
void roe_ud_receive(struct roe_qp *qp, struct roe_ctx *ctx, const struct roe_rx_pkt *rx)
{
	struct ib_wc wc = { .opcode = IB_WC_RECV };

	if (!acceptable(qp, rx)) {
		roe_qp_count(qp, ROE_STAT_RX_DROP);
		return;
	}
	wc.wr_id = qp->resp.rwqe.wr_id;
	if (qp->resp.rwqe.status != IB_WC_SUCCESS) {
		wc.status = qp->resp.rwqe.status;
	} else if (deliver(qp, ctx, rx)) {
		fill_wc(&wc, rx);
	} else {
		/* this datagram is lost, but the next one finds the page */
		if (roe_fault_missed(qp, ctx, &qp->resp.fault)) {
			roe_qp_count(qp, ROE_STAT_RX_DROP);
			return;
		}
		wc.status = IB_WC_LOC_PROT_ERR;
	}
	qp->resp.rwqe_valid = false;
	roe_complete_recv(qp, ctx, &wc, rx->p.se);
	/* a local error in the RQ ends the QP (IBTA 10.3.1.7) */
	if (wc.status != IB_WC_SUCCESS)
		roe_complete_error(qp, ctx);
}
