// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * rc_stream - a data-verifying stream between two machines, by RC or UC.
 *
 * usage: rc_stream -d DEV [-g GID] [-s SEED] PORT MESSAGES [SERVER]
 *
 * With SERVER (IPv4 address) a client, else a server that listens on the TCP
 * PORT, both for as many MESSAGES; over it GIDs, QP numbers and keys are
 * exchanged. The client sends messages of random sizes up to 40000 bytes by SEND,
 * WRITE with immediate and READ in random turns, and adds 1 to a counter after
 * each; the server checks every byte of each SEND and WRITE, the client of each READ.
 * Messages must arrive once and in order. Both print a line of result.
 * With RT_PACE_MS in the environment the client rests so long before each; with
 * RT_PACE_WHILE, too, only as long as there is a file of this name. With RT_BULK in
 * both environments no message is short, none is a READ, and the timer waits longer than
 * a busy machine is late: what counts skbs wants those of messages, not of
 * retransmissions.
 * RT_STREAM=uc in both environments is a stream by UC, without READs and the counter, one
 * message in flight: give it a wire that loses nothing, and a pace. RT_STREAM=srq is one by
 * RC whose receives are taken from an SRQ.
 *
 * Output: TAP. Exit code: 0 all ok, 1 a check failed, 2 could not run.
 */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include "rt.h"

#define SLOT		40960		/* each message has one of its own */
#define MAX_MESSAGES	1000
#define WINDOW		8		/* messages in flight */
#define SLOTS		4096		/* where they begin; before them the counter */

/* What each side tells the other; little endian on both. */
struct hello {
	union ibv_gid gid;
	uint64_t addr;
	uint64_t seed;
	uint32_t qpn;
	uint32_t rkey;
	uint32_t messages;
	uint32_t mtu;
};

static struct rt_buf buf;
static struct rt_qp qp;
static int sock;
static bool bulk, by_uc, by_srq;

static size_t slot(uint32_t i)
{
	return SLOTS + (size_t)SLOT * i;
}

static int connect_to(const char *host, int port)
{
	struct sockaddr_in sa = {
		.sin_family = AF_INET, .sin_port = htons(port),
	};
	int s, one = 1, i;

	s = socket(AF_INET, SOCK_STREAM, 0);
	if (host) {
		inet_pton(AF_INET, host, &sa.sin_addr);
		for (i = 0; connect(s, (struct sockaddr *)&sa, sizeof(sa)); i++) {
			if (i == 100)
				rt_die("connect: %s", strerror(errno));
			close(s);
			usleep(100000);
			s = socket(AF_INET, SOCK_STREAM, 0);
		}
		return s;
	}
	setsockopt(s, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
	if (bind(s, (struct sockaddr *)&sa, sizeof(sa)) || listen(s, 1))
		rt_die("listen: %s", strerror(errno));
	return accept(s, NULL, NULL);
}

static void swap(void *mine, void *theirs, size_t len)
{
	size_t n;
	ssize_t r;

	if (write(sock, mine, len) != len)
		rt_die("exchange: %s", strerror(errno));
	for (n = 0; n < len; n += r) {
		r = read(sock, (char *)theirs + n, len - n);
		if (r <= 0)
			rt_die("the other side has left");
	}
}

/* Message @i: how it goes and how long it is, the same at both ends. */
static size_t plan(uint64_t seed, uint32_t i, int *kind)
{
	uint64_t s = seed + i, r = rt_rand(&s);

	*kind = r % (bulk || by_uc ? 2 : 3);
	r >>= 8;
	if (bulk)
		return 30000 + r % 10001;
	return r & 1 ? (r >> 1) % 40001 : (r >> 1) % 200;
}

static bool wait_counter(volatile uint64_t *c, uint64_t value)
{
	uint64_t end = rt_now_ms() + rt_timeout_ms;

	while (*c < value) {
		if (rt_now_ms() > end)
			return RT_CHECK(!"counter does not move");
		usleep(200);
	}
	return RT_EQ(*c, value);
}

/* Message @i must be in slot @i; a receive is posted per message. */
static bool serve(const struct hello *h)
{
	uint64_t sum = 0;
	struct ibv_wc wc;
	size_t len;
	uint32_t i;
	int kind;

	for (i = 0; i < h->messages; i++) {
		len = plan(h->seed, i, &kind);
		sum += len;
		if (kind == 2)		/* READ: nothing to see here */
			continue;
		if (!rt_expect(qp.rcq, i, IBV_WC_SUCCESS, &wc) ||
		    !RT_EQ(wc.byte_len, len) ||
		    (kind == 1 && !RT_EQ(be32toh(wc.imm_data), i)) ||
		    !rt_check(buf.p + slot(i), len, h->seed + i, 0)) {
			rt_diag("message %u, %s of %zu bytes", i,
				kind ? "WRITE_IMM" : "SEND", len);
			return false;
		}
	}
	rt_diag("%u messages, %llu bytes", i, (unsigned long long)sum);
	return by_uc || wait_counter((void *)buf.p, h->messages);
}

/* The last message before @i that left its data at the server, or -1. */
static int source_of(uint64_t seed, int i, size_t *len)
{
	int kind;

	while (--i >= 0) {
		*len = plan(seed, i, &kind);
		if (kind != 2)
			break;
	}
	return i;
}

static bool request(struct hello *peer, uint32_t i, uint64_t seed)
{
	struct ibv_sge sge = { .lkey = buf.mr->lkey }, csge = sge;
	size_t off = slot(i), have;
	struct ibv_send_wr wr, add;
	int kind, from;

	sge.addr = (uintptr_t)buf.p + off;
	sge.length = plan(seed, i, &kind);
	wr = rt_wr(i, kind == 0 ? IBV_WR_SEND : kind == 1 ?
		   IBV_WR_RDMA_WRITE_WITH_IMM : IBV_WR_RDMA_READ,
		   IBV_SEND_SIGNALED, &sge, 1);
	wr.wr.rdma.rkey = peer->rkey;
	wr.wr.rdma.remote_addr = peer->addr + off;
	if (kind == 2) {
		from = source_of(seed, i, &have);
		wr.wr.rdma.remote_addr = peer->addr + slot(from < 0 ? 0 : from);
	} else {
		wr.imm_data = htobe32(i);
		rt_fill(buf.p + off, sge.length, seed + i, 0);
	}
	csge.addr = (uintptr_t)buf.p + 8;
	csge.length = 8;
	add = rt_wr(1ull << 32 | i, IBV_WR_ATOMIC_FETCH_AND_ADD,
		    IBV_SEND_SIGNALED, &csge, 1);
	add.wr.atomic.remote_addr = peer->addr;
	add.wr.atomic.rkey = peer->rkey;
	add.wr.atomic.compare_add = 1;
	if (!by_uc)
		wr.next = &add;
	return RT_EQ(rt_post(&qp, &wr), 0);
}

/* READ @i brought what the last message before it had left there. */
static bool check_read(uint64_t seed, uint32_t i)
{
	size_t len, have;
	int kind, from;

	len = plan(seed, i, &kind);
	if (kind != 2)
		return true;
	from = source_of(seed, i, &have);
	return from < 0 ||
	       rt_check(buf.p + slot(i), have < len ? have : len,
			seed + from, 0);
}

static void rest(void)
{
	const char *pace = getenv("RT_PACE_MS"), *while_there = getenv("RT_PACE_WHILE");

	if (pace && (!while_there || !access(while_there, F_OK)))
		usleep(1000 * atoi(pace));
}

static bool drive(struct hello *peer, uint64_t seed, uint32_t messages)
{
	uint32_t posted = 0, done;
	struct ibv_wc wc;
	int kind;

	for (done = 0; done < messages; done++) {
		rest();
		while (posted < messages && posted - done < (by_uc ? 1 : WINDOW))
			if (!request(peer, posted++, seed))
				return false;
		if (!rt_expect(qp.scq, done, IBV_WC_SUCCESS, &wc) ||
		    (!by_uc && !rt_expect(qp.scq, 1ull << 32 | done, IBV_WC_SUCCESS, &wc)) ||
		    !check_read(seed, done)) {
			rt_diag("message %u of %zu bytes", done,
				plan(seed, done, &kind));
			return false;
		}
	}
	return RT_EQ(rt_state(&qp), IBV_QPS_RTS);
}

/* What RT_STREAM in the environment says. */
static void choose(struct rt_opt *opt)
{
	struct ibv_srq_init_attr init = { .attr = { .max_wr = MAX_MESSAGES, .max_sge = 1 } };
	const char *how = getenv("RT_STREAM");

	by_uc = how && !strcmp(how, "uc");
	by_srq = how && !strcmp(how, "srq");
	if (how && !by_uc && !by_srq)
		rt_die("RT_STREAM=%s?", how);
	if (by_uc)
		opt->type = IBV_QPT_UC;
	if (!by_srq)
		return;
	opt->srq = ibv_create_srq(rt_dev_a()->pd, &init);
	if (!opt->srq)
		rt_die("create SRQ: %s", strerror(errno));
}

/* The receive of message @i names its slot. */
static int post_recv(uint32_t i)
{
	struct ibv_sge sge = {
		.addr = (uintptr_t)buf.p + slot(i), .length = SLOT, .lkey = buf.mr->lkey
	};
	struct ibv_recv_wr wr = { .wr_id = i, .sg_list = &sge, .num_sge = 1 }, *bad;

	return by_srq ? ibv_post_srq_recv(qp.opt.srq, &wr, &bad) :
			ibv_post_recv(qp.qp, &wr, &bad);
}

int main(int argc, char **argv)
{
	struct rt_opt opt = rt_defaults;
	struct hello mine = {}, peer;
	const char *host;
	char a = 0, b;
	uint32_t i;
	bool ok;
	int kind;

	rt_parse(argc, argv);
	bulk = getenv("RT_BULK");
	if (argc - rt_args.first < 2)
		rt_die("usage: rc_stream -d DEV [-g GID] [-s SEED] PORT MESSAGES [SERVER]");
	mine.messages = atoi(argv[rt_args.first + 1]);
	host = argc - rt_args.first > 2 ? argv[rt_args.first + 2] : NULL;

	if (mine.messages > MAX_MESSAGES)
		rt_die("at most %d messages", MAX_MESSAGES);

	buf = rt_buf(rt_dev_a(), slot(mine.messages), RT_ACCESS_ALL);
	choose(&opt);
	opt.cap.max_recv_wr = MAX_MESSAGES;
	opt.cqe = 2 * MAX_MESSAGES;
	opt.timeout = bulk ? 20 : 14;	/* 67 ms: losses are many here */
	opt.min_rnr_timer = 12;
	if (rt_qp_create(&qp, rt_dev_a(), &opt) || rt_to_init(&qp))
		rt_die("create QP: %s", strerror(errno));
	sock = connect_to(host, atoi(argv[rt_args.first]));
	mine.gid = rt_dev_a()->gid;
	mine.addr = (uintptr_t)buf.p;
	mine.rkey = buf.mr->rkey;
	mine.qpn = qp.qp->qp_num;
	mine.seed = rt_args.seed;
	mine.mtu = rt_dev_a()->port.active_mtu;
	swap(&mine, &peer, sizeof(mine));
	qp.opt.mtu = mine.mtu < peer.mtu ? mine.mtu : peer.mtu;
	if (mine.messages != peer.messages)
		rt_die("%u messages here, %u there", mine.messages, peer.messages);
	if (rt_to_rtr(&qp, &peer.gid, peer.qpn) || rt_to_rts(&qp))
		rt_die("connect: %s", strerror(errno));
	/* For each SEND and WRITE. */
	for (i = 0; !host && i < peer.messages; i++) {
		plan(peer.seed, i, &kind);
		if (kind != 2 && post_recv(i))
			rt_die("post_recv %u", i);
	}
	swap(&a, &b, 1);
	rt_diag("seed %llu, path MTU code %d",
		(unsigned long long)(host ? mine.seed : peer.seed), qp.opt.mtu);
	ok = host ? drive(&peer, mine.seed, mine.messages) : serve(&peer);
	rt_ok(ok, "%s: %u messages, data right, in order, exactly once",
	      host ? "client" : "server", host ? mine.messages : peer.messages);
	swap(&a, &b, 1);
	return rt_done();
}
