/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Two queue pairs without a network. Packets are copied out of the bursts into
 * a list ordered by arrival, time is a number that jumps to the next event, and
 * the network does what the test says: in order, by a script for the first few
 * packets of one direction, or at random.
 */
#ifndef ROE_KUNIT_SIM_H
#define ROE_KUNIT_SIM_H

#include <kunit/test.h>
#include <linux/list.h>
#include <linux/prandom.h>
#include "../drivers/roe/odp.h"
#include "../drivers/roe/transport.h"

#define SIM_MTU		256
#define SIM_REGION	(128 * 1024)
#define SIM_WRS		64
#define SIM_RD_ATOMIC	4
#define SIM_BATCH	64
#define SIM_SCRIPT	5	/* packets that a script plays with */
#define SIM_LIST	3	/* of those, whose copies may be anywhere */
#define SIM_WIRE_NS	(10 * NSEC_PER_USEC)
#define SIM_SECRET	0x5a	/* what memory holds where nothing may be written */

enum sim_fate { SIM_DROP, SIM_ONCE, SIM_TWICE };

struct sim_pkt {
	struct list_head	link;
	unsigned int		to;
	u64			at;
	struct roe_rx_pkt	rx;
	u8			data[SIM_MTU];
};

/* A completion that must come, in this order. */
struct sim_want {
	u64			wr_id;
	enum ib_wc_status	status;
	u32			len;
	__be32			imm;
};

/* Bytes that must be there in the end. */
struct sim_data {
	const u8	*is, *want;
	u32		len;
};

struct sim_side {
	struct roe_qp	*qp;
	struct roe_cq	scq, rcq;
	struct roe_srq	srq;		/* used if the test points the QP to it */
	struct roe_keys	keys;
	struct roe_mr	mr, fast;
	struct roe_extent ext, fast_ext;
	struct roe_odp	odp;			/* of mr, once it is on demand */
	bool		use_fast;		/* REG_MR posted: send from there */
	/* SIM_REGION bytes each: sent, written by the peer, received, read */
	u8		*src, *dst, *rcv, *got;
	u64		*word;			/* for atomics: value and model */
	u64		model;
	u64		result[SIM_WRS], result_want[SIM_WRS];
	unsigned int	wrs, recvs, late;	/* late: receives posted as time passes */
	struct sim_want	swant[SIM_WRS], rwant[SIM_WRS];
	unsigned int	nswant, nrwant;
	struct sim_data	data[SIM_WRS];
	unsigned int	ndata;
	u32		events;
	bool		idle;		/* nothing to send until something happens to the QP */
};

struct sim {
	struct kunit	*test;
	u64		now;
	struct list_head wire, free;
	struct sim_side	side[2];
	struct roe_txb	*txb;
	struct rnd_state rnd;
	u32		slot;		/* bytes of memory for each message */
	unsigned int	sent[2];	/* packets so far */
	unsigned int	again[2];	/* of those: each as an skb of its own */
	/* random faults, percent */
	u32		loss, dup, delay, mark;
	u32		direct;		/* percent of rounds that need no network if they may */
	const char	*wrong;		/* what nobody would see in the outcome */
	bool		lazy;		/* several packets arrive before an answer leaves */
	unsigned int	batch;		/* ... at most so many in one run of the QP; 0: one */
	bool		alone;		/* payload is copied early, packets go one by one */
	bool		whole;		/* lists have one element */
	bool		compared;	/* the digest is kept */
	u32		digest;		/* of what was sent, and of the QPs after each run */
	struct roe_rx_pkt rx[SIM_BATCH];
	u64		lost, late;	/* bit n: the n-th packet of side 0 */
	unsigned int	lost_from, lost_to;	/* and of these each, from 1; 0: none */
	bool		no_trains;	/* of what leaves as a train the first @kept arrive */
	unsigned int	kept;
	bool		forget;		/* responders keep nothing that comes before its turn */
	/* on demand: percent of steps in which a page goes, and answer to who waits for one */
	u32		evict;
	int		page_err;
	unsigned int	page_errs;	/* ... so often, then they come; 0: always */
	/* script: the first packets of one direction */
	bool		scripted;
	unsigned int	dir, nheld, limit;	/* limit: packets it plays with */
	struct sim_pkt	*held[SIM_SCRIPT];
	u8		fate[SIM_SCRIPT], order[SIM_SCRIPT];
	bool		dup_last;	/* the copies come behind all others */
	bool		listed;		/* these arrive, whatever fate and order say */
	u8		list[2 * SIM_SCRIPT];
	unsigned int	nlist;
};

struct sim *sim_create(struct kunit *test);
void sim_destroy(struct sim *sim);
/* Both QPs in RTS, memory and completions empty, network clean. */
void sim_reset(struct sim *sim, u32 psn0, u32 psn1);

/*
 * Fate and order of the first @n packets, from two numbers below sim_fates() and
 * sim_orders(); false: the same as from another pair.
 */
bool sim_script(struct sim *sim, unsigned int n, u32 fates, u32 perm);
u32 sim_fates(unsigned int n);
u32 sim_orders(unsigned int n);
/*
 * What arrives of the first @n packets, from a number below sim_lists(): SIM_LIST of them as
 * the number says, the others behind; false: another says the same, or one comes thrice.
 */
bool sim_list(struct sim *sim, unsigned int n, u32 number);
u32 sim_lists(unsigned int n);

/* The memory of both sides is on demand from now on, and no page of it is there. */
void sim_on_demand(struct sim *sim);

/* Post a work request of side @i about its message number wrs++. */
void sim_post(struct sim *sim, unsigned int i, enum ib_wr_opcode op, u32 len, int flags);
void sim_recv(struct sim *sim, unsigned int i, u32 len);
/* Room for @wrs work requests and their completions; the old queue is lost. */
bool sim_deepen(struct sim *sim, unsigned int i, u32 wrs);
/* Without a model of the outcome. */
struct roe_swqe *sim_post_raw(struct sim *sim, unsigned int i, const struct ib_send_wr *wr);

/* One burst of side @i; @again: the next one is due at once. Whether anything was in it. */
bool sim_round(struct sim *sim, unsigned int i, bool *again);
bool sim_emit(struct sim *sim, unsigned int i);
void sim_receive(struct sim *sim, unsigned int i, const struct roe_rx_pkt *rx);
void sim_timer(struct sim *sim, unsigned int i);
/* First packet on the wire, to be given back by sim_put(); NULL: none. */
struct sim_pkt *sim_take(struct sim *sim);
void sim_put(struct sim *sim, struct sim_pkt *pkt);
/* Until nothing can happen any more; false if that takes for ever. */
bool sim_run(struct sim *sim);
/* What is wrong with the outcome, NULL: nothing. */
const char *sim_check(struct sim *sim);

#endif /* ROE_KUNIT_SIM_H */
