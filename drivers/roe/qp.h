/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Queue pairs: state, ownership, life.
 *
 * Locks and contexts
 *   qp->lock (spinlock, BH disabled) guards all transport state: requester,
 *   responder, QP state, address vector. Takers: doorbell and verbs (process),
 *   receive (softirq), the timer (softirq hrtimer), the worker.
 *   sq.post_lock, rq.lock (irqsave) guard what kernel users post, without qp->lock; rq.lock of an
 *   SRQ what its QPs take as well, inside qp->lock. cq->lock is innermost.
 *   Nothing is held across ip_local_out, nor is the lock of another QP taken
 *   inside of one: who finds tx_busy clear becomes the
 *   owner of transmission, collects a burst under the lock, drops it, sends,
 *   and looks again; the others leave tx_again. UC and UD have to send from
 *   tx_cpu until its backlog is empty: set under the lock, cleared there by
 *   cmpxchg without. All skbs of a QP take the transmit queue of its home, and this
 *   changes only while none is on its way that a later one may not overtake.
 *
 * Life
 *   QPNs are unique in the whole module (one table), lookups are RCU. Whoever
 *   found a QP stays in its RCU read-side section as long as it uses it. A verb need not:
 *   its caller keeps the QP.
 *   Destroy: take the QP back from a relay, erase the QPN, state = RESET under the
 *   lock, grace period, then timer and worker; nobody can hold the QP after that.
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
	u8			status;		/* enum ib_wc_status: found at post time */
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
			u32		bind_rkey;	/* of the window until now */
			u32		bind_access;
		};
		u8		atomic_data[8];	/* ATOMIC_WRITE: as they go out */
		u32		feth;		/* FLUSH; the range is length at raddr */
	};
	struct roe_mr		*reg_mr;	/* IB_WR_REG_MR, kernel users only */
	int			reg_access;
	u32			first_psn;	/* valid from ACTIVE on */
	u32			last_psn;
	/* payload: SGEs, or the bytes themselves with IB_SEND_INLINE */
	struct roe_sge		sge[];
};

/* Most WQEs of a queue that are copied, flushed or done locally under one hold of qp->lock. */
#define ROE_WQE_BATCH	256

/* Private send queue: slots in ring order; indices count without wrapping. */
struct roe_sq {
	void			*slots;		/* kvzalloc, (mask + 1) << log2 */
	u32			mask, log2;
	u32			max_wr, max_sge, max_inline;
	u32			prod;		/* posted; post_lock or qp->lock */
	u32			next;		/* first not completely sent; qp->lock */
	u32			cons;		/* oldest not retired; qp->lock */
	u32			pulled;		/* ring index behind what was copied in */
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
 * No place for another WQE? Who has polled the completion of one may post again at once,
 * but that one is counted for a moment longer: there is a slot more than WRs are allowed.
 */
static inline bool roe_sq_full(const struct roe_sq *sq)
{
	/* pairs with the release in roe_requester_retire(): the slot is free */
	return sq->prod - smp_load_acquire(&sq->cons) > sq->max_wr;
}

/* Is anything posted that has not all been sent? */
static inline bool roe_sq_has_requests(const struct roe_sq *sq)
{
	/* pairs with the release in post_one() */
	return sq->next != smp_load_acquire(&sq->prod);
}

/* Packets that came before their turn (early.c). Under qp->lock. */
struct roe_early_set {
	struct roe_early **slots;	/* by PSN; NULL: none yet */
	u32	size;		/* ... how many, a power of 2 */
	u32	nr;		/* kept */
	u32	first;		/* ... none of them is before this PSN */
};

/* Is what is missing lost, or only late (reorder.c)? Under qp->lock. */
struct roe_reorder {
	u64	until;		/* ns: it may come until then; 0: nothing is waited for */
	u64	asked;		/* ns: una was sent again then, as it seemed lost; 0: it was not */
	u32	once_psn;	/* from here on every PSN was sent once */
	u32	dropped_psn;	/* last that was thrown away, if any */
	u8	patience;	/* how late it may be, quarters of srtt; 0: this way is in order */
	u8	losses;		/* gaps in a row that nothing late has closed */
	bool	own;		/* it was thrown away here: no news of the network */
	bool	nak;		/* the peer has told that it is missing */
	bool	dropped;	/* a response from behind una that nobody has asked for again */
	struct roe_early_set early;	/* responses from behind it */
};

/* Requester: under qp->lock. */
struct roe_req {
	u32	psn;		/* first PSN not given to a WQE yet */
	u32	max_psn;	/* one past the highest PSN ever sent */
	u32	una;		/* oldest PSN not acknowledged; lies in sq.cons */
	u32	wqe_psn;	/* PSN from which sq.next goes on */
	u32	win_psn;	/* window starts here if after una: behind a READ */
	u32	cwnd;		/* window, packets: smaller with a loss, grows while it limits */
	u32	ssthresh;	/* ... by 1/8 a round trip below this, by a few packets above */
	u32	widened;	/* ... what was acknowledged since, times those packets */
	u32	counted;	/* una when that was looked at the last time */
	u32	recover;	/* the window is smaller for what was sent before this */
	u32	eased;		/* ... made smaller by a CNP for what was sent before this */
	u32	alpha;		/* how much smaller the next one makes it, 1/1024 of half of it */
	u64	alpha_at;	/* ... as of then, ns; 0: there was none yet */
	struct roe_trains trains;	/* trains.c */
	u32	probe;		/* after a NAK: so many packets, then wait; 0: no limit */
	u32	probe_end;	/* PSN behind them */
	bool	probe_rnr;	/* that was an RNR NAK */
	u8	probe_misses;	/* in a row: the peer had kept nothing */
	u32	rd_out;		/* READ and ATOMIC started, not complete */
	u32	since_ack;	/* packets since the last AckReq */
	u8	retry_cnt, rnr_retry;		/* left */
	u8	failed;		/* enum ib_wc_status of the oldest WQE, when it is flushed */
	bool	rnr_wait;	/* nothing is sent until the timer has run */
	bool	paging;		/* ... or the pages for a response are there */
	bool	direct;		/* requests go to the peer without a network */
	bool	rewound;	/* went back for una already; no progress since */
	bool	told;		/* ... as a NAK 0x60 or RNR NAK had said */
	bool	early;		/* ... by the early deadline */
	u64	implied_until;	/* ns: what implies a loss was on its way when that was told */
	u64	ack_deadline;	/* ns, 0: none; verbs time-out, counts a retry */
	u64	early_deadline;	/* ns, 0: none; adaptive, counts nothing */
	u64	drop_deadline;	/* ns, 0: none; what IP refused is sent again ... */
	u32	drop_psn;	/* ... from here on */
	u64	drop_until;	/* ns: an answer may be to what came without it */
	u32	drops;		/* how often so, without progress */
	u64	rnr_deadline;	/* ns, 0: none; without rnr_wait: no memory before */
	u64	rnr_ns;		/* if rnr_wait: how long that is */
	u64	rnr_paced;	/* ... that roe_rnr_pace() has seen */
	u32	rnr_una;	/* una then: the packet that was refused ... */
	u8	rnr_times;	/* ... how often */
	u32	backoff;	/* shift of early_deadline */
	u32	srtt, rttvar;	/* ns */
	u32	rtt;		/* ns, the last sample */
	u32	rtt_min;	/* ns, since it was connected; 0: no sample yet */
	u32	rtt_psn;	/* sample: time from sending this PSN ... */
	u64	rtt_start;	/* ... at, ns; 0: none running */
	u32	reread_psn;	/* another: a READ was sent again from here, in its middle ... */
	u64	reread_at;	/* ... at, ns; 0: none running */
	struct roe_credit credit;
	struct roe_fault fault;
	struct roe_reorder reorder;
};

/*
 * What leaves without a window: requests of UC, READ responses (cc.c). Under qp->lock;
 * all zero but for alpha until a CNP comes, or responses are lost.
 */
struct roe_rate {
	u64	rate;		/* bytes a second; 0: no limit */
	u64	target;		/* ... that it grows to */
	u64	round;		/* ns from one step of that to the next */
	u64	cut_at;		/* ns: made smaller by a CNP or a loss */
	u64	grown_at;	/* ns: it has grown up to then ... */
	u32	grown;		/* ... so many times */
	u32	vain;		/* losses in a row behind which much was sent, without a limit */
	u32	alpha;		/* as that of the window */
	u64	alpha_at;
	u64	free_at;	/* ns: what has left has been sent at this rate by then */
	u64	wake;		/* ns: more, or any response, waits until then; 0: no */
	u64	bytes, since;	/* sent since, ns */
	u64	before;		/* bytes a second, until then */
};

enum roe_rsrc_kind {
	ROE_RSRC_NONE,
	ROE_RSRC_READ,
	ROE_RSRC_ATOMIC,
	ROE_RSRC_EMPTY,		/* ATOMIC_WRITE: a READ response without data */
};

/* One request with such a response: kept for replay until max_dest_rd_atomic later ones. */
struct roe_rsrc {
	u8	kind;		/* enum roe_rsrc_kind */
	bool	pending;	/* responses cur_psn .. last_psn are still to send */
	bool	replay;		/* for a duplicate: an error is silence, not a NAK */
	bool	again;		/* responses were lost before ... */
	bool	asked;		/* the peer has asked once more while a page was missing ... */
	u32	first_psn, last_psn;
	u32	start_psn;	/* its response is First or Only */
	u32	sent_end;	/* if again: ... of those before this one */
	u32	cur_psn;	/* next response to send */
	u64	missed;		/* ns: ... since then; 0: none is */
	u32	burst, burst_psn;	/* last burst with responses of it, the first of those */
	u32	rkey;
	u64	va;		/* of first_psn */
	u32	len;		/* bytes, whole request */
	u32	msn;
	u64	orig;		/* ATOMIC: value before */
};

/* FLUSHes that wait for their answer: as many as a peer that counts them may have in flight. */
#define ROE_FLUSHES	128

/*
 * The answer to a FLUSH. It has no slot of those above: not all peers count FLUSHes
 * (rdma_rxe does not), and those a READ's would not be kept for long enough. Nor need it
 * be kept, for a FLUSH may be done twice.
 */
struct roe_flush {
	u32	psn;
	u32	msn;
};

/* Does the process answer each message (echo.c)? Under qp->lock. */
struct roe_echo {
	u64	until;		/* ns: the ACK owed waits; 0: it does not */
	u64	came;		/* ns: the last message, not answered yet; 0: none */
	u32	turn;		/* ns from a message to its answer, on average */
	u8	score;		/* messages answered in a row */
	u8	need;		/* ... after which the ACK waits */
};

/*
 * Responder: under qp->lock. Whose fields they are is said above them; others who write
 * them are named. ERR takes back what is owed and what is waited for (roe_complete_error()).
 */
struct roe_resp {
	/*
	 * Of one connection: roe_responder_reset() makes all of it zero, then sets what does
	 * not begin so. What is added here needs no more.
	 */
	struct_group(connection,	/* so much is zeroed */
		/* requests: responder.c */
		u32	psn;		/* ePSN */
		u32	msn;
		u32	in_msg;		/* 0, ROE_F_SEND or ROE_F_WRITE: message open */
		bool	rwqe_valid;	/* a receive WQE is in use; of datagrams: ud.c */
		bool	direct;		/* they came so, and the answers go so; direct.c */
		u32	rkey;		/* WRITE in progress */
		u64	va;
		u32	dmalen;
		u32	done;		/* bytes of the message placed */
		u32	done_psn;	/* of the last SEND or WRITE executed ... */
		bool	done_known;	/* ... less than 2^23 PSNs ago: an ACK may name it */
		/* ... and what keeps the next one from being executed */
		u8	nak_state;	/* syndrome of the NAK for ePSN, sent or waiting; 0: none */
		u8	page_naks;	/* RNR NAKs in a row while the worker was busy */
		u32	gap_psn;	/* the last NAK 0x60 named it; the next is due if ... */
		u32	gap_pkts;	/* ... there is still a gap so many packets later */
		u64	gap_told;	/* ns: it left; 0: not yet, or see again_min */
		u32	again_min;	/* ns from there to what came once more; 0: unknown */
		u64	rnr_look;	/* ns: is a receive WQE there? 0: no NAK waits; answer.c */
		u64	rnr_since;	/* ns: it waits */
		u64	rnr_until;	/* ns: if not by then, it leaves */
		u64	uc_news;	/* ns: UC: something came that was not late; 0: never */
		struct roe_fault fault;	/* also of READ responses; fault.c */

		/* answers: answer.c */
		bool	ack_due;	/* behind all responses: an ACK, or a NAK ... */
		u8	ack_syndrome;
		u32	ack_psn;	/* ... of this PSN */
		u64	ack_after;	/* ns: ... and not before this; 0: at once */
		u32	again_psn;	/* if ack_after: so far the peer has sent again */
		bool	nak_leaves;	/* a NAK 0x60 is on its way to IP, which may refuse it */
		bool	fatal;		/* refused for good: ERR once the NAK has left */
		bool	stalled;	/* the next response waits: for a page, memory, its time */
		u32	rsrc_head;	/* next slot to fill; the oldest of the ring */
		u32	rsrc_pending;	/* slots with responses to send */
		u32	flush_nr;	/* FLUSHes to answer */
		u32	refusals;	/* bursts in a row with refused responses; qp_tx.c, too */
		u64	refused_until;	/* ns: ... so none leaves before this; qp_doorbell.c, too */
		u64	alone_until;	/* ns: ... and each alone, few at once, until then */
		struct roe_trains trains;	/* trains.c */

		struct roe_echo	echo;	/* echo.c; an ACK that may not wait: answer.c */
		bool	cnp_due;	/* a packet came marked: tell the peer; cc.c */
		u64	cnp_after;	/* ... again not before this, ns */
	);

	/* Of the QP: kept by a reset, which empties slots and early and counts burst on. */
	u32	burst;			/* counts bursts of this QP; qp_round.c, responder.c */
	u32	rsrc_nr;		/* slots: max_dest_rd_atomic or a few more; may be 0 */
	struct roe_rsrc	*rsrc;		/* answer.c; the array: qp_state.c */
	struct roe_rwqe	rwqe;		/* current one, copied; if rwqe_valid */
	struct roe_flush flush[ROE_FLUSHES];	/* the first flush_nr, in no order */
	struct roe_early_set early;	/* requests from behind a gap */
};

/* Something is owed to the peer and may leave. */
static inline bool roe_resp_owes(const struct roe_resp *resp)
{
	return resp->rsrc_pending || resp->flush_nr ||
	       (resp->ack_due && !resp->echo.until && !resp->ack_after);
}

#define ROE_TX_ANYWHERE		(-1)	/* nothing that was sent waits on this host */

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
	struct ib_qp_cap	cap;		/* as told to its user; there may be more room */
	u64			id;		/* unlike a QPN never used again */

	/* --- under qp->lock --- */
	spinlock_t		lock;
	enum ib_qp_state	state;		/* READ_ONCE outside the lock */
	bool			tx_busy;	/* one context sends, the lock dropped meanwhile; */
	bool			tx_again;	/* ... others leave this, and it goes on */
	bool			crowded;	/* responses had their turn: requests go first */
	unsigned int		stopping;	/* RESETs, ERRs that wait for the end of a burst */
	bool			lent;		/* what the SQ sends is still read: no WQE fails */
	bool			comm_est;	/* first packet in RTR was reported */
	bool			sqd_notify;	/* en_sqd_async_notify */
	bool			sq_drained;
	bool			overrun;	/* a CQ is full: ERR at the end of the run */
	bool			flush_more;	/* ERR, SQE: what was posted is not all flushed */
	u16			home;		/* CPU of its transmit queue, + 1; 0: none yet */
	/* UC, UD: where sent packets may wait; cleared by cmpxchg without the lock; backlog.c */
	int			tx_cpu;
	u32			access;		/* IB_ACCESS_REMOTE_*, FLUSH_*, QP's */
	u32			dest_qpn;
	u32			mtu;		/* bytes */
	u16			pkey;
	u64			timeout_ns;	/* 0: off */
	u64 __percpu		*stats;		/* where it counts; NULL in KUnit; roe_qp_stats() */
	struct roe_key_memo	key_memo[ROE_KEY_USES];
	u32			fault_seq;	/* last number of a request for pages */
	u64			pages_at;	/* ns: ask once more, without memory; 0: no */
	struct roe_cq_batch	batch;		/* of this run, not posted yet */
	struct roe_sq		sq;		/* has a lock for kernel users, too */
	struct roe_rq		rq;		/* the same; empty with an SRQ */
	struct roe_req		req;
	struct roe_resp		resp;
	struct roe_rate		rate;
	struct roe_unsent	unsent;		/* unsent.c */
	struct roe_hold		hold;		/* hold.c */
	u64			home_until;	/* ns: what nobody acknowledges has left by then */
	u64			defer_until;	/* ns: tx_cpu has to send; 0: not. backlog.c */
	struct roe_path		path;
	struct ib_qp_attr	attr;		/* what modify set, for query */
	u64			timer_at;	/* ns for which the timer is armed, 0: not */

	/* --- with a lock of their own, or atomic --- */
	struct roe_relay_link	relay;		/* relay.c */
	struct hrtimer		timer;		/* softirq */
	struct work_struct	work;		/* rest of a burst; posts with IRQs off */
	struct work_struct	order_work;	/* UC, UD: the same on tx_cpu; RC: the timer */
	struct work_struct	event_work;	/* tells a kernel user of @events */
	atomic_t		events;		/* bit per enum ib_event_type */
	struct delayed_work	flush_work;	/* user receives posted in ERR */
	unsigned int		flush_idle;	/* looks in a row that found none; about so many */
	struct mutex		av_lock;	/* one modify with an address vector at a time */
	bool			av_given;	/* the core takes a reference for it; av_lock */
};

/*
 * A range of a message whose memory was looked up and proven in this run: a run is
 * one RCU read-side section, so the next packets need not ask again. What is sent may be lent
 * to one burst, and is forgotten before the next.
 */
struct roe_sge_memo {
	struct roe_mr	*mr;		/* lasts, or is lent; NULL: nothing is known */
	u32		message;	/* which, as its user numbers them */
	u32		begin, end;	/* bytes of the message */
	u64		va;		/* of byte @begin */
};

/* What one run of the engines owes once the lock is dropped, and what it knows. */
struct roe_ctx {
	u64	now;		/* ns, monotonic */
	bool	direct;		/* what is received comes from a QP of this device */
	bool	fresh;		/* ... which waits for no answer to anything older */
	bool	answers_only;	/* requests of this QP take another way than its answers ... */
	bool	requests_only;	/* ... and have their turn */
	bool	hold;		/* what is in the SQ waits for company (hold.c) */
	bool	may_call;	/* nobody above us holds a lock: handlers may be called */
	bool	collect;	/* completions are posted together, when all is received */
	bool	notify_send;	/* roe_cq_notify(scq) */
	bool	notify_recv;
	u32	events;		/* bit per enum ib_event_type */
	struct roe_run_memo sends;	/* memory that is sent */
	struct roe_run_memo brings;	/* ... that READs and ATOMICs bring to */
	struct roe_run_memo receives;	/* ... that receives */
	struct roe_run_memo written;	/* ... that the peer writes to */
	struct roe_run_memo read;	/* ... that it reads from */
	struct roe_mr *target;	/* of the WRITE in progress: proven, lasts */
	struct roe_sge_memo source;	/* of the request being sent, by SQ index */
	struct roe_sge_memo answer;	/* of the READ being answered, by slot: PSNs repeat */
	struct roe_sge_memo brought;	/* by READ responses, to where, by SQ index */
	struct roe_sge_memo received;	/* by the receive WQE, of one message only */
};

/* Who runs the engines of a QP holds its lock. Those of KUnit have no device, and one user. */
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

/* In other states its timer does nothing. In RTR there are only deadlines of the responder. */
static inline bool roe_qp_has_timer(const struct roe_qp *qp)
{
	return qp->state == IB_QPS_RTR || qp->state == IB_QPS_RTS || qp->state == IB_QPS_SQD;
}

/*
 * Where a QP counts: the device's, or those of the counter that it is bound to. They last
 * for the RCU read-side section.
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
