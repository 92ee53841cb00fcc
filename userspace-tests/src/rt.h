/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * rt - the small library under roe's userspace tests.
 *
 * A test opens one or two devices, makes QP pairs that are connected inside
 * the process, moves patterned data, and reports in TAP. Everything that
 * cannot go on (no device, no memory) ends the process with exit code 2; a
 * failed check is a "not ok" line and exit code 1 in the end.
 *
 * Environment: RT_TIMEOUT (seconds), RT_EVENT_MS, SLOW; of each connection RT_SL,
 * RT_TCLASS, RT_FLOW (flow label) and RT_ACK_TIMEOUT (as in struct ibv_qp_attr).
 */
#ifndef RT_H
#define RT_H

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <infiniband/verbs.h>

#define RT_PORT		1
#define RT_ACCESS_ALL	(IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | \
			 IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC)
/* The first PSN of every QP, so that each test crosses the 24-bit wrap. */
#define RT_FIRST_PSN	0xfffffau

/* The Q_Key of every UD QP. */
#define RT_QKEY		0x11223344u

#define ARRAY_SIZE(a)	(sizeof(a) / sizeof((a)[0]))

struct rt_dev {
	struct ibv_context *ctx;
	struct ibv_pd *pd;
	struct ibv_device_attr attr;
	struct ibv_port_attr port;
	union ibv_gid gid;
	int gid_index;
};

/* What a QP is made of; start from rt_defaults and change what matters. */
struct rt_opt {
	enum ibv_qp_type type;		/* RC, UC or UD */
	struct ibv_qp_cap cap;
	enum ibv_mtu mtu;		/* 0: the port's active MTU */
	int access;			/* QP access flags */
	uint8_t rd_atomic;
	uint8_t dest_rd_atomic;
	uint8_t timeout;
	uint8_t retry_cnt;
	uint8_t rnr_retry;
	uint8_t min_rnr_timer;
	bool sig_all;
	uint64_t ops;			/* send_ops_flags: use the builder API */
	int cqe;			/* size of own CQs */
	struct ibv_cq *scq;		/* given CQs instead of own ones */
	struct ibv_cq *rcq;
	struct ibv_srq *srq;		/* receives come from there */
	struct ibv_comp_channel *channel;
};

extern const struct rt_opt rt_defaults;

struct rt_qp {
	struct rt_dev *dev;
	struct rt_opt opt;
	struct ibv_qp *qp;
	struct ibv_qp_ex *qpx;
	struct ibv_cq *scq;
	struct ibv_cq *rcq;
};

/* A requester (a) and a responder (b). */
struct rt_pair {
	struct rt_qp a;
	struct rt_qp b;
};

struct rt_buf {
	uint8_t *p;
	size_t len;
	struct ibv_mr *mr;
};

/* Arguments common to all programs: -d DEV, -D DEV2, -g GID, -G GID2, -s SEED */
struct rt_args {
	const char *dev[2];
	int gid[2];
	uint64_t seed;
	unsigned int seconds;
	int first;			/* index of the first plain argument */
};

extern struct rt_args rt_args;

void rt_parse(int argc, char **argv);
struct rt_dev *rt_open(const char *name, int gid_index);
struct rt_dev *rt_dev_a(void);
struct rt_dev *rt_dev_b(void);
void rt_close(struct rt_dev *dev);

/* QPs. The functions returning int give 0 or an errno value. */
int rt_qp_create(struct rt_qp *q, struct rt_dev *dev, const struct rt_opt *opt);
void rt_qp_destroy(struct rt_qp *q);
int rt_to_init(struct rt_qp *q);
int rt_to_rtr(struct rt_qp *q, const union ibv_gid *gid, uint32_t qpn);
int rt_to_rts(struct rt_qp *q);
int rt_to_state(struct rt_qp *q, enum ibv_qp_state state);
enum ibv_qp_state rt_state(struct rt_qp *q);
bool rt_wait_state(struct rt_qp *q, enum ibv_qp_state state);
void rt_connect(struct rt_qp *a, struct rt_qp *b);
void rt_pair_create(struct rt_pair *p, struct rt_dev *a, struct rt_dev *b,
		    const struct rt_opt *opt);
void rt_pair_destroy(struct rt_pair *p);
/* From device @a to the GID of @b. */
struct ibv_ah *rt_ah(struct rt_dev *a, struct rt_dev *b);

/* Memory. */
struct rt_buf rt_buf(struct rt_dev *dev, size_t len, int access);
void rt_buf_free(struct rt_buf *b);
/*
 * ibv_advise_mr(), which the stock provider lacks: the command written by hand. Returns
 * 0 or an errno value.
 */
int rt_advise(struct ibv_pd *pd, uint64_t advice, uint64_t flags, struct ibv_sge *sge,
	      unsigned int n);
void rt_fill(void *buf, size_t len, uint64_t seed, size_t pos);
bool rt_check(const void *buf, size_t len, uint64_t seed, size_t pos);

/* Completions and events; timeouts in milliseconds, 0 = the default. */
extern unsigned int rt_timeout_ms;
bool rt_poll(struct ibv_cq *cq, struct ibv_wc *wc, unsigned int ms);
bool rt_expect(struct ibv_cq *cq, uint64_t wr_id, enum ibv_wc_status status,
	       struct ibv_wc *wc);
bool rt_expect_event(struct rt_dev *dev, enum ibv_event_type type, void *obj,
		     unsigned int ms);
void rt_drain_events(struct rt_dev *dev);

/* Posting one request or receive; num_sge 1 unless len < 0 (then none). */
int rt_post_recv(struct rt_qp *q, uint64_t id, struct rt_buf *b, size_t off,
		 ssize_t len);
struct ibv_send_wr rt_wr(uint64_t id, enum ibv_wr_opcode op, unsigned int flags,
			 struct ibv_sge *sge, int num_sge);
int rt_post(struct rt_qp *q, struct ibv_send_wr *wr);

/* TAP. */
bool rt_ok(bool ok, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void rt_skip(const char *what, const char *why);
void rt_diag(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
void rt_die(const char *fmt, ...)
	__attribute__((format(printf, 1, 2), noreturn));
int rt_done(void);

/* A kernel with all its checks: SLOW in the environment is above 1. */
bool rt_slow(void);
uint64_t rt_now_ms(void);
/* One of the hw_counters of the device's port. */
long rt_counter(struct rt_dev *dev, const char *name);
uint64_t rt_rand(uint64_t *state);

/* Evaluates to a boolean and says what was wrong, for use in chains of &&. */
#define RT_CHECK(cond)							\
	({								\
		bool __c = (cond);					\
		if (!__c)						\
			rt_diag("%s:%d: %s", __FILE__, __LINE__, #cond);\
		__c;							\
	})
#define RT_EQ(have, want)						\
	({								\
		long long __h = (have), __w = (want);			\
		if (__h != __w)						\
			rt_diag("%s:%d: %s is %lld, wanted %lld",	\
				__FILE__, __LINE__, #have, __h, __w);	\
		__h == __w;						\
	})

#endif /* RT_H */
