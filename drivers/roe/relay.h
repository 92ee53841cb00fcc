/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* A second CPU for streams of small messages: see relay.c. */
#ifndef ROE_RELAY_H
#define ROE_RELAY_H

#include <linux/atomic.h>
#include <linux/list.h>
#include <linux/llist.h>
#include <linux/types.h>

struct roe_qp;

enum roe_relay_state {
	ROE_RELAY_OFF,		/* doorbells send */
	ROE_RELAY_ASKED,	/* doorbells send; the link is in a relay's list, or about to be */
	ROE_RELAY_ON,		/* doorbells do nothing: the relay looks at the ring */
	ROE_RELAY_LEAVING,	/* doorbells send again; the relay looks once more */
};

/*
 * Link of a QP to a relay. A doorbell moves it from OFF to ASKED, the relay or send_away() from
 * ASKED to OFF (relay.c), the relay between all other states.
 */
struct roe_relay_link {
	u32			state;	/* enum roe_relay_state */
	atomic_t		parting;	/* callers that wait for OFF */
	struct llist_node	asked;
	struct list_head	node;	/* from here on only used by the relay's work */
	u32			seen;	/* ring index at the last look */
	u32			lap;	/* sq.prod when a whole lap was last assumed */
};

/* Statistics of the process that posts on a CPU. Racy: a wrong guess costs little. */
struct roe_poster {
	u64	end;		/* ns: end of its last doorbell; 0: not known */
	u32	streak;		/* doorbells that took most of its time, less other ones */
	u32	need;		/* streak that counts as a stream */
	u64	forget;		/* ns: the next doorbell after it halves @need; 0: never rang */
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
