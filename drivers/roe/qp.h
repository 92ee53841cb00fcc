/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Queue pairs: state, ownership, life.
 *
 * Locks and contexts
 *   qp->lock (spinlock, BH disabled) guards all transport state: requester,
 *   responder, QP state, address vector. Takers: doorbell and verbs (process),
 *   receive (softirq), the timer (softirq hrtimer), the worker.
 *   sq.post_lock and rq.lock (irqsave) guard what kernel users post, without qp->lock. The
 *   rq.lock of an SRQ also guards what its QPs take from it, inside qp->lock. cq->lock is
 *   innermost.
 *   No lock of a QP is held across ip_local_out(), nor while the lock of another QP is taken:
 *   a context that finds tx_busy clear becomes the owner of transmission, collects a burst
 *   under the lock, drops the lock, sends, takes the lock and looks again. Other contexts
 *   only set tx_again. UC and UD QPs must send from tx_cpu until the backlog of that CPU is
 *   empty: tx_cpu is set under the lock and cleared on that CPU by cmpxchg without it. All
 *   skbs of a QP take the transmit queue of its home CPU, which changes only while no skb is
 *   on its way that a later skb must not overtake.
 *
 * Life
 *   QPNs are unique in the whole module (one table), lookups are RCU. Code that has looked up
 *   a QP stays in that RCU read-side section as long as it uses the QP. A verb need not: its
 *   caller keeps the QP.
 *   Destroy: take the QP back from a relay, erase the QPN, set state = RESET under the lock,
 *   wait for a grace period, then cancel timer and worker; no packet, timer or worker can hold the
 *   QP after that. (`rdma resource` may still ask about it until the core forgets it, on older
 *   cores after this verb; a QP in RESET answers, and nothing begins to run.)
 */
#ifndef ROE_QP_H
#define ROE_QP_H

#include <linux/hrtimer.h>
#include <linux/spinlock.h>
#include <linux/stddef.h>
#include <linux/workqueue.h>
#include <rdma/ib_verbs.h>
#include <roe/pkt.h>
#include "cq.h"
#include "credit.h"
#include "device.h"
#include "fault.h"
#include "mr.h"
#include "net.h"
#include "hold.h"
#include "relay.h"
#include "ring.h"
#include "rq.h"
#include "srq.h"
#include "stats.h"
#include "trains.h"
#include "unsent.h"

enum roe_swqe_state {
	ROE_SWQE_POSTED,	/* not started */
	ROE_SWQE_ACTIVE,	/* has PSNs, some packet was built */
	ROE_SWQE_DONE,		/* acknowledged or local, waits for its turn */
};

/* A send WQE, copied and checked once (abi.md 8.5), private to the kernel. */
struct roe_swqe {
	u64			wr_id;
	u8			opcode;		/* enum ib_wr_opcode */
	u8			flags;		/* IB_SEND_FENCE .. IB_SEND_INLINE */
	u8			num_sge;
	u8			state;		/* enum roe_swqe_state */
	u8			status;		/* enum ib_wc_status: error found at post time */
	__be32			imm;
	u32			inv_rkey;
	u32			length;		/* bytes */
	u32			rkey;
	u64			raddr;
	union {
		struct {			/* ATOMIC */
			u64		compare_add;
			u64		swap;
		};
		struct {			/* UD, GSI: any opcode */
			struct roe_ah_entry *ah;	/* reference; NULL: refused */
			u32		dest_qpn;
			u32		qkey;
		};
		struct {			/* BIND_MW: range at raddr, new key rkey */
			u64		bind_len;
			u32		bind_lkey;	/* of the MR */
			u32		bind_rkey;	/* of the window before the bind */
			u32		bind_access;
		};
		u8		atomic_data[8];	/* ATOMIC_WRITE: in wire order */
		u32		feth;		/* FLUSH; the range is at raddr, length */
	};
	struct roe_mr		*reg_mr;	/* IB_WR_REG_MR, kernel users only */
	int			reg_access;
	u32			first_psn;	/* valid from ACTIVE on */
	u32			last_psn;
	/* payload: SGEs, or the bytes themselves with IB_SEND_INLINE */
	struct roe_sge		sge[];
};

/* WQEs of a queue copied, flushed or executed locally per hold of qp->lock, at most. */
#define ROE_WQE_BATCH	256

/* Private send queue: slots in ring order; indices run freely, masked on access. */
struct roe_sq {
	void			*slots;		/* kvzalloc, (mask + 1) << log2 */
	u32			mask, log2;
	u32			max_wr, max_sge, max_inline;
	u32			prod;		/* posted; post_lock or qp->lock */
	u32			next;		/* first not completely sent; qp->lock */
	u32			cons;		/* oldest not retired; qp->lock */
	u32			pulled;		/* ring index after the last WQE copied in */
	spinlock_t		post_lock;	/* kernel users */
	struct roe_ring		*ring;		/* user QPs */
};

/* Does the peer answer with more than an ACK? These count against max_rd_atomic. */
static inline bool roe_swqe_is_query(const struct roe_swqe *wqe)
{
	switch (wqe->opcode) {
	case IB_WR_RDMA_READ:
	case IB_WR_ATOMIC_CMP_AND_SWP:
	case IB_WR_ATOMIC_FETCH_AND_ADD:
	case IB_WR_ATOMIC_WRITE:
	case IB_WR_FLUSH:
		return true;
	default:
		return false;
	}
}

static inline struct roe_swqe *roe_sq_slot(const struct roe_sq *sq, u32 index)
{
	return sq->slots + ((size_t)(index & sq->mask) << sq->log2);
}

/*
 * Is there no slot for another WQE? A user that has polled the completion of a WQE may post
 * again at once, but @cons counts that WQE for a moment longer: so there is one slot more than
 * max_wr.
 */
static inline bool roe_sq_full(const struct roe_sq *sq)
{
	/* pairs with the release in roe_requester_retire(): the slot is free */
	return sq->prod - smp_load_acquire(&sq->cons) > sq->max_wr;
}

/* Is there a posted WQE that has not been sent completely? */
static inline bool roe_sq_has_requests(const struct roe_sq *sq)
{
	/* pairs with the release in post_one() */
	return sq->next != smp_load_acquire(&sq->prod);
}

/* Packets that came ahead of a gap in the PSNs (early.c). Under qp->lock. */
struct roe_early_set {
	struct roe_early **slots;	/* by PSN; NULL: none yet */
	u32	size;		/* number of slots, a power of 2 */
	u32	nr;		/* packets kept */
	u32	first;		/* ... none of them has a PSN before this */
};

/* Is a missing packet lost, or only late (reorder.c)? Under qp->lock. */
struct roe_reorder {
	u64	until;		/* ns: una counts as late, not lost, until then; 0: no wait */
	u64	asked;		/* ns: una seemed lost and was sent again then; 0: it was not */
	u64	again;		/* ns: a packet was last sent again then */
	u32	once_psn;	/* no PSN from here on was sent more than once */
	u32	waited_psn;	/* what came before it was waited for, and then sent again */
	u32	dropped_psn;	/* highest PSN of a discarded response; if @dropped */
	u8	patience;	/* how late una may be, quarters of srtt; 0: no packet is late */
	u8	losses;		/* gaps in a row that no late packet has closed */
	bool	tried;		/* @patience was learnt from a gap that has closed */
	bool	once;		/* una was sent once when @until was set */
	bool	own;		/* this side discarded una: says nothing about the network */
	bool	nak;		/* the peer said by NAK 0x60 that una is missing */
	bool	dropped;	/* a response after una was discarded, not asked for again */
	struct roe_early_set early;	/* responses kept from behind una */
};

/* Requester: under qp->lock. */
struct roe_req {
	u32	psn;		/* first PSN not assigned to a WQE yet */
	u32	max_psn;	/* one past the highest PSN ever sent */
	u32	una;		/* oldest PSN not acknowledged; of the WQE at sq.cons */
	u32	wqe_psn;	/* next PSN to send of the WQE at sq.next */
	u32	win_first;	/* first PSN of the last READ or ATOMIC started ... */
	u32	win_psn;	/* ... and the PSN behind it: window_left() */
	u32	cwnd;		/* window, packets: a loss cuts it, it grows while it is full */
	u32	ssthresh;	/* ... per round trip by 1/8 below this, by a few packets above */
	u32	widened;	/* ... packets acknowledged since it grew, times that step */
	u32	counted;	/* una when widened was last updated */
	u32	paced_psn;	/* on a long path: PSNs before this may leave now ... */
	u64	paced_at;	/* ... as of this time, ns; 0: there is no pace */
	u64	pace_wake;	/* ns: when more may leave, which the window allows; 0: never */
	u32	recover;	/* a loss of PSNs before this has cut the window already */
	u32	eased;		/* a CNP has cut the window already for PSNs before this */
	u32	alpha;		/* DCQCN, 1/1024: the next CNP cuts cwnd by cwnd * alpha / 2 */
	u64	alpha_at;	/* ns: last update of alpha; 0: no CNP yet */
	struct roe_trains trains;	/* trains.c */
	u32	probe;		/* after a NAK: packets to send, then wait; 0: no limit */
	u32	probe_end;	/* PSN after them */
	bool	probe_rnr;	/* that NAK was an RNR NAK */
	u8	gaps;		/* gaps closed since recover was set, as a peer does that keeps */
	u8	probe_misses;	/* probes in a row that found: the peer keeps nothing */
	u32	rd_out;		/* READ and ATOMIC started, not complete */
	u32	since_ack;	/* packets since the last AckReq */
	u8	retry_cnt, rnr_retry;		/* retries left */
	u8	failed;		/* enum ib_wc_status that the flush reports for the oldest WQE */
	bool	rnr_wait;	/* nothing is sent until the timer has run */
	bool	paging;		/* ... or, if set, until the pages for a response are there */
	bool	direct;		/* requests take the direct way (direct.c) */
	bool	rewound;	/* una was sent again already; no progress since */
	bool	told;		/* ... because of a NAK 0x60 or RNR NAK */
	bool	early;		/* ... because early_deadline or drop_deadline had passed */
	u64	implied_until;	/* ns: responses until then predate the resend: no new loss */
	u64	ack_deadline;	/* ns, 0: none; verbs time-out, counts a retry */
	u64	early_deadline;	/* ns, 0: none; adaptive, counts no retry */
	u64	ask_at;		/* ns, 0: never; copies ask for an answer (ask_after()) */
	u64	lossy_until;	/* ns: ... as the path has lost packets; not after this */
	u8	asked;		/* ... so often since the last sample of the round trip */
	bool	asking;		/* ... they leave in this run, unless una moves or is sent again */
	bool	ask_open;	/* ... they have left and are not answered yet */
	u32	ask_end;	/* ... PSN after the last one that they ask about */
	u64	drop_deadline;	/* ns, 0: none; packets that IP refused are sent again ... */
	u32	drop_psn;	/* ... from this PSN on */
	u64	drop_until;	/* ns: a NAK until then may predate the resend of drop_psn */
	u32	drops;		/* refusals by IP without progress */
	u64	rnr_deadline;	/* ns, 0: none; without rnr_wait: try again, memory was short */
	u64	rnr_ns;		/* if rnr_wait: the time that the RNR NAK asked for */
	u64	rnr_paced;	/* the last rnr_deadline that roe_rnr_pace() has set */
	u32	rnr_una;	/* the packet (una) that an RNR NAK refused last ... */
	u8	rnr_times;	/* ... how often; halved when una has moved */
	u32	backoff;	/* shift of the RTO in early_deadline */
	u32	srtt, rttvar;	/* ns */
	u32	rtt;		/* ns, the last sample */
	u32	rtt_min;	/* ns, least since connected; 0: no sample yet */
	u32	rtt_psn;	/* sample: time from sending this PSN ... */
	u64	rtt_start;	/* ... at, ns; 0: none running */
	u32	rtt_end;	/* what lies between them was sent then, or soon after */
	u32	reread_psn;	/* other sample: a READ was sent again from here, its middle ... */
	u64	reread_at;	/* ... at, ns; 0: none running */
	u64	reread_heard;	/* ns, the last of these samples */
	u32	reread_ns;	/* the longest lately; 0: none yet */
	struct roe_credit credit;
	struct roe_fault fault;
	struct roe_reorder reorder;
};

/*
 * Rate of packets that no window bounds: requests of UC, READ responses (cc.c). Under
 * qp->lock; there is no limit until a CNP comes, or responses are lost.
 */
struct roe_rate {
	u64	rate;		/* bytes a second; 0: no limit */
	u64	target;		/* rate towards which it grows */
	u64	round;		/* ns from one growth step to the next */
	u64	cut_at;		/* ns: last cut by a CNP or a loss */
	u64	grown_at;	/* ns: time of the last growth step */
	u32	grown;		/* growth steps since the last cut */
	u32	vain;		/* losses in a row, each with much sent in vain, while no limit */
	u32	alpha;		/* as roe_req.alpha */
	u64	alpha_at;
	u64	free_at;	/* ns: end of the time that the packets sent so far take at @rate */
	u64	wake;		/* ns: such packets, or any response, wait until then; 0: no */
	u64	bytes, since;	/* bytes sent since @since, ns */
	u64	before;		/* bytes a second before @since */
};

enum roe_rsrc_kind {
	ROE_RSRC_NONE,
	ROE_RSRC_READ,
	ROE_RSRC_ATOMIC,
	ROE_RSRC_EMPTY,		/* ATOMIC_WRITE: a READ response without data */
};

/*
 * A READ, ATOMIC or ATOMIC WRITE request of the peer: kept for replay until max_dest_rd_atomic
 * later ones have come.
 */
struct roe_rsrc {
	u8	kind;		/* enum roe_rsrc_kind */
	bool	pending;	/* responses cur_psn .. last_psn are still to send */
	bool	replay;		/* answers a duplicate: an error is not reported by a NAK */
	bool	again;		/* the peer lost responses: packets sent again leave alone ... */
	bool	asked;		/* the peer has asked again while a page was missing ... */
	u32	first_psn, last_psn;
	u32	start_psn;	/* the response with this PSN is First or Only */
	u32	sent_end;	/* if again: ... which are those before this PSN */
	u32	cur_psn;	/* next response to send */
	u64	missed;		/* ns: ... missing since then; 0: no page is missing */
	u32	burst, burst_psn;	/* last burst with its responses, PSN of their first */
	u32	rkey;
	u64	va;		/* of first_psn */
	u32	len;		/* bytes, whole request */
	u32	msn;
	u64	orig;		/* ATOMIC: value before the operation */
};

/* Unanswered FLUSHes: as many as a peer that bounds them by max_rd_atomic has in flight. */
#define ROE_FLUSHES	128

/*
 * The answer owed to a FLUSH. It takes no struct roe_rsrc: not all peers count FLUSHes against
 * max_rd_atomic (rdma_rxe does not), so they would push out slots of READs too early. Nor need
 * it be kept for replay: a FLUSH may be executed twice.
 */
struct roe_flush {
	u32	psn;
	u32	msn;
};

/* Does the process answer each message (echo.c)? Under qp->lock. */
struct roe_echo {
	u64	until;		/* ns: the owed ACK waits until then; 0: it does not */
	u64	came;		/* ns: arrival of the last message, if not answered; 0: none */
	u32	turn;		/* ns from a message to its answer, on average */
	u8	score;		/* messages answered in a row */
	u8	need;		/* ... after which the ACK waits */
};

/*
 * Responder: under qp->lock. The comment above a group of fields names the file that owns them;
 * other files that write a field are named beside it. On entering ERR, roe_complete_error()
 * clears what is owed to the peer and what is waited for.
 */
struct roe_resp {
	/*
	 * State of one connection: roe_responder_reset() zeroes this group, then sets the
	 * fields that do not begin as zero. A new field that begins as zero needs no other code.
	 */
	struct_group(connection,	/* so much is zeroed */
		/* requests: responder.c */
		u32	psn;		/* ePSN */
		u32	msn;
		u32	in_msg;		/* 0, ROE_F_SEND or ROE_F_WRITE: message open */
		bool	rwqe_valid;	/* a receive WQE is in use; ud.c for datagrams */
		bool	direct;		/* they came by the direct way, answers take it; direct.c */
		u32	rkey;		/* WRITE in progress */
		u64	va;
		u32	dmalen;
		u32	done;		/* bytes of the message placed */
		u32	done_psn;	/* of the last SEND or WRITE executed ... */
		bool	done_known;	/* ... if less than 2^23 PSNs ago: an ACK may name it */
		/* what keeps the next request from being executed */
		u8	nak_state;	/* syndrome of the NAK for ePSN, sent or waiting; 0: none */
		u8	page_naks;	/* RNR NAKs in a row while the worker was busy */
		u32	gap_psn;	/* PSN of the last NAK 0x60; the next is due if ... */
		u32	gap_pkts;	/* ... there is still a gap this many packets later */
		u64	gap_told;	/* ns: that NAK left; 0: not yet, or gap_psn has come */
		u32	again_min;	/* least ns from that NAK to gap_psn; 0: unknown */
		u64	kept_until;	/* ns: kept requests are dropped then; 0: there are none */
		u64	rnr_look;	/* ns: next look for a receive WQE; 0: none; answer.c */
		u64	rnr_since;	/* ns: ... for which an RNR NAK waits since then */
		u64	rnr_until;	/* ns: ... and leaves if there is none by then */
		u64	uc_news;	/* ns: UC: last packet that was not late; 0: none */
		struct roe_fault fault;	/* of what requests bring; fault.c */
		struct roe_fault read_fault;	/* of READ responses: neither waits for the other */

		/* answers: answer.c */
		bool	ack_due;	/* after all responses an ACK or NAK is due ... */
		u8	ack_syndrome;
		u32	ack_psn;	/* ... of this PSN */
		u64	ack_after;	/* ns: ... but not before this; 0: at once */
		u32	again_psn;	/* if ack_after: last PSN that the peer sent again */
		bool	nak_leaves;	/* a NAK 0x60 is on its way to IP, which may refuse it */
		bool	fatal;		/* a fatal NAK is owed: ERR once it has left */
		bool	stalled;	/* the next response waits: for a page, memory, its time */
		u32	rsrc_head;	/* next slot to fill; the oldest of the ring */
		u32	rsrc_pending;	/* slots with responses to send */
		u32	flush_nr;	/* FLUSHes to answer */
		u32	refusals;	/* bursts in a row with responses refused by IP; qp_tx.c */
		u64	refused_until;	/* ns: no response before this; qp_doorbell.c */
		u64	alone_until;	/* ns: until then each leaves alone, few at once */
		struct roe_trains trains;	/* trains.c */

		struct roe_echo	echo;	/* echo.c; answer.c clears echo.until */
		bool	cnp_due;	/* a CE-marked packet came: owe a CNP; cc.c */
		u64	cnp_after;	/* ns: no further CNP before this */
	);

	/* State of the QP: a reset keeps it, but empties slots and early and increments burst. */
	u32	burst;			/* counts bursts of this QP; qp_round.c, responder.c */
	u32	rsrc_nr;		/* slots: max_dest_rd_atomic or a few more; may be 0 */
	struct roe_rsrc	*rsrc;		/* answer.c; the array: qp_state.c */
	struct roe_rwqe	rwqe;		/* copy of the current one; if rwqe_valid */
	struct roe_flush flush[ROE_FLUSHES];	/* the first flush_nr are owed, in no order */
	struct roe_early_set early;	/* requests kept from behind a gap */
};

/* Something is owed to the peer and may leave. */
static inline bool roe_resp_owes(const struct roe_resp *resp)
{
	return resp->rsrc_pending || resp->flush_nr ||
	       (resp->ack_due && !resp->echo.until && !resp->ack_after);
}

#define ROE_TX_ANYWHERE		(-1)	/* no packet sent by the QP waits on this host */

struct roe_qp {
	struct ib_qp		ib;

	/* --- constant after create --- */
	enum ib_qp_type		type;
	bool			user;
	bool			sq_sig_all;
	u32			qpn;
	struct hlist_node	by_qpn;		/* RCU; bucket_lock in qp.c */
	struct list_head	in_pd;		/* a process' UD QP; lock of struct roe_pd */
	struct roe_dev		*dev;		/* NULL in KUnit */
	struct roe_keys		*keys;
	struct ib_pd		*pd;
	struct roe_cq		*scq, *rcq;
	struct roe_srq		*srq;
	struct ib_qp_cap	cap;		/* as reported to the user; queues may hold more */
	u64			id;		/* unlike a QPN never used again */

	/* --- under qp->lock --- */
	spinlock_t		lock;
	enum ib_qp_state	state;		/* READ_ONCE outside the lock */
	bool			tx_busy;	/* a context sends a burst, the lock is dropped; */
	bool			tx_again;	/* ... others set this: it does another round */
	bool			crowded;	/* responses filled a burst: requests go first */
	unsigned int		stopping;	/* modifies to RESET or ERR that wait for a burst */
	bool			lent;		/* a burst reads SQ payload: no WQE may fail */
	bool			comm_est;	/* first packet in RTR was reported */
	bool			sqd_notify;	/* en_sqd_async_notify */
	bool			sq_drained;
	bool			overrun;	/* a CQ is full: ERR at the end of the run */
	bool			flush_more;	/* ERR, SQE: posted WQEs are left to flush */
	u16			home;		/* CPU of its transmit queue, + 1; 0: none yet */
	/* UC, UD: CPU where sent packets may wait; cleared by cmpxchg without lock; backlog.c */
	int			tx_cpu;
	u32			access;		/* of the QP: IB_ACCESS_REMOTE_*, FLUSH_* */
	u32			dest_qpn;
	u32			mtu;		/* bytes */
	u16			pkey;
	u64			timeout_ns;	/* 0: off */
	u64 __percpu		*stats;		/* counters in use; NULL in KUnit; roe_qp_stats() */
	struct roe_key_memo	key_memo[ROE_KEY_USES];
	u32			fault_seq;	/* number of the last request for pages */
	u64			pages_at;	/* ns: ask again for pages (no memory); 0: no */
	struct roe_cq_batch	batch;		/* completions of this run, not posted yet */
	struct roe_sq		sq;		/* also has a lock for kernel users */
	struct roe_rq		rq;		/* as sq; empty with an SRQ */
	struct roe_req		req;
	struct roe_resp		resp;
	struct roe_rate		rate;
	struct roe_unsent	unsent;		/* unsent.c */
	struct roe_hold		hold;		/* hold.c */
	u64			home_until;	/* ns: what is never ACKed has left by then */
	u64			defer_until;	/* ns: tx_cpu sends by then; 0: no; backlog.c */
	struct roe_path		path;
	struct ib_qp_attr	attr;		/* what modify_qp has set, for query_qp */
	u64			timer_at;	/* ns for which the timer is armed, 0: not */

	/* --- with a lock of their own, or atomic --- */
	struct roe_relay_link	relay;		/* relay.c */
	struct hrtimer		timer;		/* softirq */
	struct work_struct	work;		/* bursts left over; posts with IRQs off */
	struct work_struct	order_work;	/* UC, UD: the same on tx_cpu; RC: the timer */
	struct work_struct	event_work;	/* tells a kernel user of @events */
	atomic_t		events;		/* bit per enum ib_event_type */
	struct delayed_work	flush_work;	/* user receives posted in ERR */
	unsigned int		flush_idle;	/* looks in a row that found none, roughly */
	struct mutex		av_lock;	/* one modify with an address vector at a time */
	bool			av_given;	/* an AV was set: the core stores av_sgid_attr */
};

/*
 * A range of a message whose memory was looked up and proven in this run. A run is one RCU
 * read-side section, so later packets of the message need no lookup. Memory that is sent may be
 * lent to one burst; its memo is cleared before the next burst.
 */
struct roe_sge_memo {
	struct roe_mr	*mr;		/* not revocable, or lent; NULL: memo is empty */
	u32		message;	/* which one; numbered as struct roe_ctx says */
	u32		begin, end;	/* bytes of the message */
	u64		va;		/* of byte @begin */
};

/* One run of the engines: what it owes once the lock is dropped, and what it has looked up. */
struct roe_ctx {
	u64	now;		/* ns, monotonic */
	bool	direct;		/* the packets received come from a QP of this device */
	bool	fresh;		/* ... which waits for no answer to an older packet */
	bool	answers_only;	/* requests take another way than answers: only answers now ... */
	bool	requests_only;	/* ... or only requests, it is their turn */
	bool	hold;		/* WQEs in the SQ wait for later ones (hold.c) */
	bool	may_call;	/* no caller holds a lock: completion handlers may be called */
	bool	collect;	/* completions are posted together, after the last packet */
	bool	notify_send;	/* roe_cq_notify(scq) */
	bool	notify_recv;
	u32	events;		/* bit per enum ib_event_type */
	struct roe_run_memo sends;	/* memory that SENDs and WRITEs read */
	struct roe_run_memo brings;	/* memory that READs and ATOMICs of this QP fill */
	struct roe_run_memo receives;	/* memory of receive WQEs */
	struct roe_run_memo written;	/* memory that the peer writes */
	struct roe_run_memo read;	/* memory that the peer reads */
	struct roe_mr *target;	/* MR of the WRITE in progress: proven, not revocable */
	struct roe_sge_memo source;	/* payload of the request being sent; message: SQ index */
	struct roe_sge_memo answer;	/* READ being answered; message: its slot, as PSNs repeat */
	struct roe_sge_memo brought;	/* where READ responses go; message: SQ index */
	struct roe_sge_memo received;	/* receive WQE in use; always of one message only */
};

/* The engines of a QP run under its lock. QPs of KUnit have no device, and only one user. */
static inline void roe_qp_assert_locked(const struct roe_qp *qp)
{
	if (qp->dev)
		lockdep_assert_held(&qp->lock);
}

/* Datagrams: UD and QP1. */
static inline bool roe_qp_is_ud(const struct roe_qp *qp)
{
	return qp->type == IB_QPT_UD || qp->type == IB_QPT_GSI;
}

/* In other states the timer does nothing. In RTR only the responder has deadlines. */
static inline bool roe_qp_has_timer(const struct roe_qp *qp)
{
	return qp->state == IB_QPS_RTR || qp->state == IB_QPS_RTS || qp->state == IB_QPS_SQD;
}

/*
 * The counters of a QP: those of the device, or of the rdma counter that it is bound to. Valid
 * until the end of the RCU read-side section.
 */
static inline u64 __percpu *roe_qp_stats(const struct roe_qp *qp)
{
	return READ_ONCE(qp->stats);
}

static inline void roe_qp_count_many(struct roe_qp *qp, enum roe_stat stat, u64 n)
{
	roe_stat_count(roe_qp_stats(qp), stat, n);
}

static inline void roe_qp_count(struct roe_qp *qp, enum roe_stat stat)
{
	roe_qp_count_many(qp, stat, 1);
}

static inline struct roe_qp *roe_qp(struct ib_qp *ibqp)
{
	return container_of(ibqp, struct roe_qp, ib);
}

struct roe_qp *roe_qp_lookup(u32 qpn);
void roe_qp_forget_completions(struct roe_qp *qp);

int roe_qp_init(void);
void roe_qp_exit(void);

/* verbs */
int roe_qp_create(struct ib_qp *ibqp, struct ib_qp_init_attr *init, struct ib_udata *udata);
int roe_qp_modify(struct ib_qp *ibqp, struct ib_qp_attr *attr, int mask,
		  struct ib_udata *udata);
int roe_qp_query(struct ib_qp *ibqp, struct ib_qp_attr *attr, int mask,
		 struct ib_qp_init_attr *init);
int roe_qp_destroy(struct ib_qp *ibqp, struct ib_udata *udata);
int roe_qp_post_send(struct ib_qp *ibqp, const struct ib_send_wr *wr,
		     const struct ib_send_wr **bad);
int roe_qp_post_recv(struct ib_qp *ibqp, const struct ib_recv_wr *wr,
		     const struct ib_recv_wr **bad);

#endif /* ROE_QP_H */
