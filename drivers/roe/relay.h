/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* A second processor for streams of small messages: see relay.c. */
#ifndef ROE_RELAY_H
#define ROE_RELAY_H

#include <linux/atomic.h>
#include <linux/list.h>
#include <linux/llist.h>
#include <linux/types.h>

struct roe_qp;

enum roe_relay_state {
	ROE_RELAY_OFF,		/* doorbells send */
	ROE_RELAY_ASKED,	/* they still do; the link is in a relay's list or on its way */
	ROE_RELAY_ON,		/* they do nothing: the relay looks at the ring */
	ROE_RELAY_LEAVING,	/* they send again; the relay looks once more */
};

/*
 * Of a QP: OFF to ASKED by a doorbell, ASKED to OFF by the relay or who sends it away
 * (relay.c), everything else by the relay.
 */
struct roe_relay_link {
	u32			state;	/* enum roe_relay_state */
	atomic_t		parting;	/* callers that wait for OFF */
	struct llist_node	asked;
	struct list_head	node;	/* from here on of the relay's work alone */
	u32			seen;	/* ring index up to which it has looked */
	u32			lap;	/* sq.prod when a whole lap was seen last */
};

/* What is known of the process that posts on a CPU. Racy: a wrong guess costs little. */
struct roe_poster {
	u64	end;		/* ns, of its last doorbell; 0: not known */
	u32	streak;		/* doorbells that took most of its time, net of others */
	u32	need;		/* so many are a stream */
	u64	forget;		/* ns: half of need at the next doorbell after it; 0: never rang */
};

bool roe_poster_streams(struct roe_poster *poster, u64 begin, u64 end);
void roe_poster_learn(struct roe_poster *poster, u32 messages, u32 sweeps);

unsigned int roe_relay_pick(unsigned int start, unsigned int from);
bool roe_relay_has(struct roe_qp *qp);
u32 roe_relay_news(struct roe_qp *qp);
bool roe_relay_waits(u64 now, u64 idle_since, u64 end, u32 patience);
void roe_relay_notice(struct roe_qp *qp, u64 begin, u64 end);
void roe_relay_held(u64 now);
void roe_relay_part(struct roe_qp *qp);

int roe_relay_init(void);
void roe_relay_exit(void);

#endif /* ROE_RELAY_H */
