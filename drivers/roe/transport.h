/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The protocol: requester, completer, responder, timers. A library without a
 * network: it takes work requests, proven packets and the time, and gives
 * packets (into a roe_txb), completions and a deadline. It knows no skb, socket
 * or netdev, so KUnit joins two QPs by a list and controls the time.
 *
 * Every function here needs qp->lock held, softirqs disabled and an RCU read-side section, with
 * these exceptions: roe_wqe_from_wr() and roe_ud_from_wr() run in any context, under
 * sq.post_lock; roe_sq_discard() and roe_ud_release() need none of it for a QP that nobody else
 * has any more; roe_timer_ack_ns() and roe_timer_rnr_ns() only convert times and take no QP.
 * Nothing here sleeps. Locks taken inside are those of completions (cq->lock), of an SRQ's
 * receive WQEs (rq.lock) and of keys (mr->lock: local work requests, SEND with invalidate).
 */
#ifndef ROE_TRANSPORT_H
#define ROE_TRANSPORT_H

#include <linux/sizes.h>
#include <roe/opcode.h>
#include <roe/pkt.h>
#include <roe/psn.h>
#include "qp.h"
#include "stats.h"

#define ROE_WINDOW_PKTS		128	/* initial window: request packets in flight */
/*
 * Largest window: the smaller of these two; the backlog of a receiver holds 1000 packets
 * (sysctl).
 */
#define ROE_WINDOW_MAX		512
#define ROE_WINDOW_BYTES	SZ_1M
/* If the round trip takes so long: so many bytes for each ns of it (2 GB/s), up to ... */
#define ROE_WAY_LONG_NS		(2 * NSEC_PER_MSEC)
#define ROE_WINDOW_PER_NS	2
#define ROE_WINDOW_LONG		4096	/* ... packets: one ACK may retire all of them */
#define ROE_WAY_JITTER_NS	(250 * NSEC_PER_USEC)	/* by which it varies without a queue */
#define ROE_PACE_PKTS		16	/* may leave at once then, or an eighth of the window */
#define ROE_WINDOW_MIN		8	/* after repeated loss */
#define ROE_WINDOW_STEP		4	/* growth in a round trip, after the first loss */
#define ROE_WINDOW_KEPT		7	/* tenths left of it after a loss, as in CUBIC (RFC 9438) */
#define ROE_PROBE_PKTS		4u	/* probe: packets sent into a gap before the next answer */
#define ROE_PROBE_GAPS		6	/* ... twice as many at each further gap, so often */
#define ROE_PROBE_MISSES	3	/* probes in vain: all that follows is sent at once */
#define ROE_PROBE_AGAIN		32	/* ... at each gap, until the count has come to this */
#define ROE_LOCAL_BEHIND	1024	/* a local WQE starts while fewer WQEs wait for an ACK */
#define ROE_ACKREQ_EVERY	32	/* at least one AckReq in so many packets */
#define ROE_ACKREQ_SHIFT	4	/* ... and 16 in a window, if the round trip takes long */
#define ROE_PSN_SPAN		0x800000u	/* PSNs outstanding at most (wire.md 4.1) */
#define ROE_CREDIT_WRONG	8	/* messages accepted beyond the credits: ignore credits */
/* UC: a packet at most so far behind ePSN, so soon after the last that was not, is a late copy. */
#define ROE_UC_LATE_PKTS	1024
#define ROE_UC_LATE_NS		(NSEC_PER_SEC / 4)
/*
 * A Local ACK Timeout of T may expire from T to 4T (wire.md 4.6). Here it does at 4T, or, if that
 * is sooner, at the longer of T and ROE_ACK_LATE_NS; but never before ROE_ACK_LEAST_NS, for less
 * is no sign of a dead peer.
 */
#define ROE_ACK_TOLERANCE	4
#define ROE_ACK_LATE_NS		NSEC_PER_SEC
#define ROE_ACK_LEAST_NS	(4 * NSEC_PER_MSEC)
#define ROE_RTO_MIN_NS		(20 * NSEC_PER_MSEC)	/* margin above SRTT: a peer may be busy */
#define ROE_RTO_MAX_NS		(4ull * NSEC_PER_SEC)
/*
 * Sooner than the RTO something is sent again after twice the time that an answer takes, at least
 * after LEAST; not where that takes longer than SHORT, for then answers stand in a queue. For a
 * READ that was sent again from its middle it is the longest time of the last second (FADE), for
 * others SRTT + 4 * RTTVAR, if a packet was lost in the last second (LOSSY).
 */
#define ROE_ANSWER_LEAST_NS	(2 * NSEC_PER_MSEC)
#define ROE_ANSWER_SHORT_NS	(2 * NSEC_PER_MSEC)
#define ROE_REREAD_FADE_NS	NSEC_PER_SEC
#define ROE_LOSSY_NS		NSEC_PER_SEC
#define ROE_ASKS		3	/* ... each time twice as late, until there is a sample */
/*
 * An RNR NAK whose timer is LONG or more is put off for PATIENCE at most; the first look
 * whether a receive WQE has come is after LOOK.
 */
#define ROE_RNR_LONG_NS		(100ull * NSEC_PER_MSEC)
#define ROE_RNR_PATIENCE_NS	(10 * NSEC_PER_MSEC)
#define ROE_RNR_LOOK_NS		(250 * NSEC_PER_USEC)
#define ROE_AGAIN_US		4000	/* an ACK waits so long for what is sent again (answer.c) */
#define ROE_LOCAL_DROP_NS	(200 * NSEC_PER_USEC)	/* first wait: IP refuses, no memory */
/*
 * For so long after IP has refused READ responses they leave one by one, since a qdisc may take
 * half of a train, and few in a burst: all that is built behind a refused one is wasted.
 */
#define ROE_LOCAL_ALONE_NS	(100 * NSEC_PER_MSEC)
#define ROE_LOCAL_ALONE_PKTS	8
#define ROE_COLLECT_BYTES	SZ_4K	/* completions of longer messages are posted at once */
#define ROE_CNP_INTERVAL_NS	(50 * NSEC_PER_USEC)	/* DCQCN's N: between CNPs of a QP */
#define ROE_ALPHA_NS		(55 * NSEC_PER_USEC)	/* DCQCN's K: shortest round of alpha */
#define ROE_ALPHA_ONE		1024u
/* A qdisc such as fq_codel marks a packet only now and then: each mark must count. */
#define ROE_ALPHA_MIN		(ROE_ALPHA_ONE / 4)
#define ROE_ALPHA_SHIFT		4	/* DCTCP's g: 1/16 */
#define ROE_RATE_MIN		1000000	/* bytes a second */
#define ROE_RATE_ROUND_NS	NSEC_PER_MSEC	/* between changes: software queues are long */
#define ROE_RATE_ROUND_MAX_NS	(100 * NSEC_PER_MSEC)	/* ... at most, where it is a round trip */
#define ROE_RATE_RECOVERY	5	/* rounds that go half of the way back to the target ... */
#define ROE_RATE_STEP		64000	/* ... later ones raise that by 1/64 and this first */
#define ROE_RATE_FREE_NS	NSEC_PER_SEC	/* the limit ends so long after the last cut */
#define ROE_RATE_BURST_NS	(200 * NSEC_PER_USEC)	/* so much of the rate may leave at once */
#define ROE_RATE_LOST		128	/* packets sent in vain: such a loss of responses counts */
#define ROE_RATE_LOST_AGAIN	32	/* ... where there is a limit */
#define ROE_RATE_LOOK_NS	(10 * NSEC_PER_MSEC)	/* period over which the rate is averaged */

/* requester.c: work requests to packets */
bool roe_requester_emit(struct roe_qp *qp, struct roe_ctx *ctx, struct roe_txb *txb);
void roe_requester_rewind(struct roe_qp *qp);
bool roe_requester_at_una(const struct roe_qp *qp);
bool roe_requester_may_ask(const struct roe_qp *qp);
bool roe_requester_ask(struct roe_qp *qp, struct roe_ctx *ctx, struct roe_txb *txb);
void roe_requester_fail(struct roe_qp *qp, struct roe_ctx *ctx, enum ib_wc_status status);
bool roe_requester_lost(struct roe_qp *qp);
bool roe_requester_retry(struct roe_qp *qp, struct roe_ctx *ctx);
bool roe_requester_again(struct roe_qp *qp, struct roe_ctx *ctx);
void roe_requester_gap(struct roe_qp *qp, struct roe_ctx *ctx);
void roe_requester_heard(struct roe_qp *qp, const struct roe_ctx *ctx);
void roe_requester_not_ready(struct roe_qp *qp);
bool roe_requester_probes(const struct roe_req *req);
void roe_requester_probed(struct roe_qp *qp);
void roe_requester_progress(struct roe_qp *qp, struct roe_ctx *ctx);
void roe_requester_progress_part(struct roe_qp *qp, struct roe_ctx *ctx);
void roe_requester_progress_by(struct roe_qp *qp, struct roe_ctx *ctx, unsigned int n);
void roe_requester_retire(struct roe_qp *qp, struct roe_ctx *ctx, enum ib_wc_status status);
void roe_requester_local_drop(struct roe_qp *qp, struct roe_ctx *ctx, u32 psn);
void roe_requester_resend(struct roe_qp *qp);
void roe_requester_pause(struct roe_qp *qp);
void roe_requester_resume(struct roe_qp *qp);
void roe_requester_reset(struct roe_qp *qp, u32 psn);

/* completer.c: what the responses of the peer mean */
void roe_completer_receive(struct roe_qp *qp, struct roe_ctx *ctx,
			   const struct roe_rx_pkt *pkt);
bool roe_completer_stream(struct roe_qp *qp, struct roe_ctx *ctx, struct roe_rx_row *row);
bool roe_completer_row(struct roe_qp *qp, struct roe_ctx *ctx, struct roe_rx_row *row);
void roe_completer_overdue(struct roe_qp *qp, struct roe_ctx *ctx);

/* reorder.c: is a packet lost, or only late? */
bool roe_reorder_nak(struct roe_qp *qp, const struct roe_ctx *ctx, bool sent);
bool roe_reorder_keep(struct roe_qp *qp, const struct roe_ctx *ctx,
		      const struct roe_rx_pkt *rx);
bool roe_reorder_drop(struct roe_req *req, const struct roe_ctx *ctx, u32 psn);
void roe_reorder_kept(struct roe_qp *qp, const struct roe_ctx *ctx);
void roe_reorder_forget(struct roe_req *req, u32 from);
void roe_reorder_again(struct roe_req *req);
bool roe_reorder_sent_twice(const struct roe_req *req);
void roe_reorder_progress(struct roe_req *req, const struct roe_ctx *ctx);
struct roe_reorder roe_reorder_reset(struct roe_req *req, u32 psn);

/* responder.c: requests of the peer to memory */
void roe_responder_receive(struct roe_qp *qp, struct roe_ctx *ctx,
			   const struct roe_rx_pkt *pkt);
bool roe_responder_row(struct roe_qp *qp, struct roe_ctx *ctx, struct roe_rx_row *row);
bool roe_responder_stream(struct roe_qp *qp, struct roe_ctx *ctx, struct roe_rx_row *row);
void roe_responder_look(struct roe_qp *qp, struct roe_ctx *ctx);
void roe_responder_forget(struct roe_qp *qp);
void roe_responder_reset(struct roe_qp *qp, u32 psn);

/* query.c: requests that are answered with more than an ACK */
bool roe_query_allowed(const struct roe_qp *qp, const struct roe_pkt *p, u32 flags);
u8 roe_query_execute(struct roe_qp *qp, struct roe_ctx *ctx, const struct roe_rx_pkt *rx,
		     u32 flags);

/* answer.c: what is owed to the peer for its requests; more of it in answer.h */
bool roe_answer_emit(struct roe_qp *qp, struct roe_ctx *ctx, struct roe_txb *txb);
void roe_answer_local_drop(struct roe_qp *qp, struct roe_ctx *ctx,
			   const struct roe_refused *refused);

/* cc.c: congestion marks, CNPs, lost READ responses */
void roe_cc_marked(struct roe_qp *qp, const struct roe_ctx *ctx, const struct roe_pkt *p);
void roe_cc_emit(struct roe_qp *qp, struct roe_txb *txb);
void roe_cc_notified(struct roe_qp *qp, const struct roe_ctx *ctx, const struct roe_pkt *p);
bool roe_cc_open(struct roe_qp *qp, const struct roe_ctx *ctx);
void roe_cc_spend(struct roe_qp *qp, const struct roe_ctx *ctx, u32 bytes);
void roe_cc_lost(struct roe_qp *qp, const struct roe_ctx *ctx, u32 came, u32 vain);
void roe_cc_reset(struct roe_qp *qp);

/* echo.c: ACKs that wait for the answer of the process */
void roe_echo_message(struct roe_qp *qp, const struct roe_ctx *ctx);
void roe_echo_answer(struct roe_qp *qp, const struct roe_ctx *ctx, unsigned int pkts);
void roe_echo_expired(struct roe_qp *qp);
void roe_echo_reset(struct roe_qp *qp);

/* ud.c: datagrams, both directions */
void roe_ud_from_ring(struct roe_qp *qp, struct roe_swqe *wqe, const struct rxe_send_wr *wr);
int roe_ud_from_wr(struct roe_qp *qp, struct roe_swqe *wqe, const struct ib_send_wr *wr);
void roe_ud_release(struct roe_swqe *wqe);
bool roe_ud_emit(struct roe_qp *qp, struct roe_ctx *ctx, struct roe_txb *txb);
void roe_ud_receive(struct roe_qp *qp, struct roe_ctx *ctx, const struct roe_rx_pkt *rx);

/* timer.c: deadlines, time-outs, the round trip */
u64 roe_timer_ack_ns(u8 timeout);
u64 roe_timer_rnr_ns(u8 code);
void roe_timer_arm(struct roe_qp *qp, struct roe_ctx *ctx);
void roe_timer_disarm(struct roe_qp *qp);
void roe_timer_ask(struct roe_qp *qp, u64 now);
void roe_timer_start_sample(struct roe_qp *qp, u64 now, u32 psn);
void roe_timer_sample(struct roe_qp *qp, u64 now, u32 psn);
void roe_timer_gap_sample(struct roe_qp *qp, u64 now, u32 first, u32 last);

/* Is the path long: is what is in flight rather on the wire than in queues? */
static inline bool roe_timer_is_long(const struct roe_req *req)
{
	return req->rtt_min >= ROE_WAY_LONG_NS;
}

void roe_timer_reread(struct roe_qp *qp, u64 now, u32 psn);
void roe_timer_reread_sample(struct roe_qp *qp, u64 now, u32 psn);
void roe_timer_run(struct roe_qp *qp, struct roe_ctx *ctx);
u64 roe_timer_next(const struct roe_qp *qp);

/* complete.c: completions, flush, the ERR state */
bool roe_sq_discard(struct roe_qp *qp, u32 max);
void roe_complete_send(struct roe_qp *qp, struct roe_ctx *ctx,
		       const struct roe_swqe *wqe, enum ib_wc_status status);
void roe_complete_recv(struct roe_qp *qp, struct roe_ctx *ctx, struct ib_wc *wc,
		       bool solicited);
struct roe_done *roe_complete_later(struct roe_qp *qp, struct roe_ctx *ctx, struct roe_cq *cq,
				    u32 len);
void roe_complete_collected(struct roe_qp *qp, struct roe_ctx *ctx);
void roe_complete_sqe(struct roe_qp *qp, struct roe_ctx *ctx);
void roe_complete_error(struct roe_qp *qp, struct roe_ctx *ctx);
void roe_complete_flush(struct roe_qp *qp, struct roe_ctx *ctx);
void roe_complete_returned(struct roe_qp *qp, struct roe_ctx *ctx);

/* wqe.c: the border to rings and work requests */
bool roe_wqe_pull(struct roe_qp *qp);
bool roe_wqe_next_recv(struct roe_qp *qp, struct roe_rwqe *rwqe, u32 least);
int roe_wqe_from_wr(struct roe_qp *qp, struct roe_swqe *wqe, const struct ib_send_wr *wr);
void roe_wqe_from_ring(struct roe_qp *qp, struct roe_swqe *wqe, const void *slot);

/* sge.c: bytes between SGE lists and packets */
bool roe_sge_check(struct roe_qp *qp, struct roe_ctx *ctx, const struct roe_swqe *wqe,
		   int access);
bool roe_sge_read(struct roe_qp *qp, const struct roe_swqe *wqe, u32 off, u8 *dst, u32 len);
bool roe_sge_load(struct roe_qp *qp, struct roe_ctx *ctx, const struct roe_swqe *wqe, u32 off,
		  struct roe_txb *txb);
void roe_sge_load_bytes(struct roe_txb *txb, const void *src);
void roe_sge_load_place(struct roe_txb *txb, void *addr);
bool roe_sge_load_mr(struct roe_qp *qp, struct roe_txb *txb, struct roe_mr *mr, bool lent,
		     u64 va, u32 left);
void roe_sge_write_place(void *dst, const struct kvec *vec, u32 len);
bool roe_sge_write_mr(struct roe_qp *qp, struct roe_mr *mr, u64 va, const struct kvec *vec,
		      u32 len, u32 left);
bool roe_sge_receive(struct roe_qp *qp, struct roe_ctx *ctx, u32 off, const struct kvec *vec,
		     u32 len);
bool roe_sge_receive_only(struct roe_qp *qp, struct roe_ctx *ctx, const struct kvec *vec,
			  u32 len);
bool roe_sge_write(struct roe_qp *qp, struct roe_ctx *ctx, const struct roe_swqe *wqe, u32 off,
		   const struct kvec *vec, u32 len);

struct roe_mr *roe_sge_source(struct roe_qp *qp, struct roe_ctx *ctx,
			      const struct roe_swqe *wqe, struct roe_txb *txb, u32 off,
			      u32 *len, u64 *va);
struct roe_mr *roe_sge_target(struct roe_qp *qp, struct roe_ctx *ctx,
			      const struct roe_swqe *wqe, u32 off, u32 *len, u64 *va);
struct roe_mr *roe_sge_room(struct roe_qp *qp, struct roe_ctx *ctx, u32 off, u32 *len, u64 *va);

/* Is there something to send, as far as is known without trying? */
static inline bool roe_qp_has_work(const struct roe_qp *qp)
{
	return roe_resp_owes(&qp->resp) || qp->resp.cnp_due || qp->req.asking ||
	       roe_sq_has_requests(&qp->sq);
}

/* qp_round.c: one round of the engines */
bool roe_qp_emit(struct roe_qp *qp, struct roe_ctx *ctx, struct roe_txb *txb);
void roe_qp_dispatch(struct roe_qp *qp, struct roe_ctx *ctx, const struct roe_rx_pkt *pkt);
void roe_qp_dispatch_row(struct roe_qp *qp, struct roe_ctx *ctx, const struct roe_rx_row *row);
void roe_qp_dispatch_direct(struct roe_qp *qp, struct roe_ctx *ctx, struct roe_txb *txb);

#endif /* ROE_TRANSPORT_H */
