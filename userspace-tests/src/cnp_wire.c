// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * cnp_wire - congestion control as seen from the wire: a peer made of raw sockets
 * marks its packets as a switch would, reads the CNPs, and sends CNPs, right ones and
 * wrong ones. What the device made of them its counters say.
 *
 * usage: cnp_wire -d DEV -g GID NETNS PEER-ADDRESS OWN-ADDRESS
 *
 * As rc_wire; DEV is a device of this network namespace. Output: TAP. Exit: 0 all ok.
 */
#include <arpa/inet.h>
#include <fcntl.h>
#include "raw.h"
#include "rt.h"

#define PEER_QPN	0x123456
#define PMTU		1024
#define BUF		(256 * 1024)
#define QUIET_MS	60
#define FLOOD		2000

#define ECT0		0x02
#define CE		0x03
#define CNP_TOS		0xc2	/* DSCP 48, ECT(0) */
#define BECN		0x40

static struct raw_peer peer;
static struct rt_dev *dev;
static struct rt_qp q;
static struct rt_buf buf;
static union ibv_gid peer_gid;
static const uint8_t zeros[2048];
static long marked, sent, handled, ignored;	/* as they should be */

/* ---- the fixture ---- */

static long counter(const char *name)
{
	return rt_counter(rt_dev_a(), name);
}

/* Softirqs may be late. */
static bool counts(const char *name, long want)
{
	uint64_t end = rt_now_ms() + rt_timeout_ms;

	while (counter(name) != want && rt_now_ms() < end)
		;
	if (counter(name) == want)
		return true;
	rt_diag("%s is %ld, wanted %ld", name, counter(name), want);
	return false;
}

/* Likewise, for a value that has no end. */
static bool counts_more(const char *name, long than)
{
	uint64_t end = rt_now_ms() + rt_timeout_ms;

	while (counter(name) <= than && rt_now_ms() < end)
		;
	return RT_CHECK(counter(name) > than);
}

static bool all_count(void)
{
	usleep(30000);
	return counts("np_ecn_marked_roce_packets", marked) & counts("np_cnp_sent", sent) &
	       counts("rp_cnp_handled", handled) & counts("rp_cnp_ignored", ignored);
}

static void learn_counters(void)
{
	usleep(30000);
	marked = counter("np_ecn_marked_roce_packets");
	sent = counter("np_cnp_sent");
	handled = counter("rp_cnp_handled");
	ignored = counter("rp_cnp_ignored");
}

static void fresh(enum ibv_qp_type type)
{
	struct rt_opt opt = rt_defaults;
	struct raw_pkt k;

	if (q.qp) {
		rt_drain_events(dev);
		rt_qp_destroy(&q);
	}
	opt.type = type;
	opt.mtu = IBV_MTU_1024;
	opt.retry_cnt = 7;
	opt.timeout = 20;
	if (rt_qp_create(&q, dev, &opt) || rt_to_init(&q) ||
	    rt_to_rtr(&q, &peer_gid, PEER_QPN) || rt_to_rts(&q))
		rt_die("QP to RTS: %m");
	while (raw_recv(&peer, &k, 0))
		;
	learn_counters();
}

static struct raw_pkt pkt(uint8_t opcode, int dpsn)
{
	return (struct raw_pkt) {
		.opcode = opcode,
		.ackreq = true,
		.qpn = q.qp->qp_num,
		.psn = RT_FIRST_PSN + dpsn,
	};
}

static struct raw_pkt a_cnp(void)
{
	return (struct raw_pkt) {
		.opcode = RAW_CNP,
		.qpn = q.qp->qp_num,
		.becn = BECN,
		.data = zeros,
		.len = 16,
	};
}

static bool expect(uint8_t opcode, struct raw_pkt *k)
{
	return RT_CHECK(raw_recv(&peer, k, rt_timeout_ms)) && RT_EQ(k->opcode, opcode);
}

static bool expect_cnp(void)
{
	struct raw_pkt k;

	return expect(RAW_CNP, &k) &&
	       RT_EQ(k.flags, 0) & RT_EQ(k.psn, 0) & RT_EQ(k.ackreq, false) &
	       RT_EQ(k.pkey, 0xffff) & RT_EQ(k.qpn, PEER_QPN) & RT_EQ(k.becn, BECN) &
	       RT_EQ(k.tos, CNP_TOS) & RT_EQ(k.len, 16) &&
	       RT_CHECK(!memcmp(k.data, zeros, 16));
}

/* Nothing comes but what roe's timer may send again on a slow machine. */
static bool silence(void)
{
	struct raw_pkt k;

	while (raw_recv(&peer, &k, QUIET_MS)) {
		if (k.opcode == RAW_WRITE_ONLY)
			continue;
		rt_diag("unexpected opcode %#x psn %#x", k.opcode, k.psn);
		return false;
	}
	return true;
}

static bool alive(void)
{
	return RT_EQ(rt_state(&q), IBV_QPS_RTS);
}

static void mark_send(uint8_t opcode, int dpsn, uint8_t tos, size_t len)
{
	struct raw_pkt k = pkt(opcode, dpsn);

	k.len = len;
	k.tos = tos;
	raw_send(&peer, &k);
}

static bool post(enum ibv_wr_opcode op, uint32_t len)
{
	struct ibv_sge sge = {
		.addr = (uintptr_t)buf.p, .length = len, .lkey = buf.mr->lkey,
	};
	struct ibv_send_wr wr = rt_wr(5, op, IBV_SEND_SIGNALED, &sge, 1);

	wr.wr.rdma.remote_addr = 0x1000;
	wr.wr.rdma.rkey = 0xabcd;
	return RT_EQ(rt_post(&q, &wr), 0);
}

/* The peer has all up to PSN @dpsn. */
static void acknowledge(int dpsn, uint8_t tos)
{
	struct raw_pkt k = pkt(RAW_ACK, dpsn);

	k.ackreq = false;
	k.syndrome = 0x1f;
	k.tos = tos;
	raw_send(&peer, &k);
}

/* Take packets and acknowledge them until the WRITE of @n is done. */
static bool serve(int n)
{
	uint64_t end = rt_now_ms() + rt_timeout_ms;
	struct raw_pkt k;
	struct ibv_wc wc;

	while (rt_now_ms() < end) {
		if (ibv_poll_cq(q.scq, 1, &wc) == 1)
			return RT_EQ(wc.status, IBV_WC_SUCCESS);
		if (raw_recv(&peer, &k, 20) && k.ackreq)
			acknowledge(((k.psn - RT_FIRST_PSN) & RAW_PSN_MASK), 0);
	}
	rt_diag("%d packets: not done in time", n);
	return false;
}

static void knob(const char *value)
{
	char path[128];
	int fd;

	snprintf(path, sizeof(path), "/sys/class/infiniband/%s/ecn", rt_args.dev[0]);
	fd = open(path, O_WRONLY);
	if (fd < 0 || write(fd, value, 1) != 1)
		rt_die("%s: %m", path);
	close(fd);
}

/* ---- notification point ---- */

static bool marked_data(void)
{
	struct raw_pkt k;

	fresh(IBV_QPT_RC);
	rt_post_recv(&q, 1, &buf, 0, 4096);
	rt_post_recv(&q, 2, &buf, 0, 4096);
	mark_send(RAW_SEND_ONLY, 0, ECT0, 8);
	if (!expect(RAW_ACK, &k) || !RT_EQ(k.tos, ECT0) || !silence())
		return false;
	mark_send(RAW_SEND_ONLY, 1, CE, 8);
	marked++;
	sent++;
	/* in front of the ACK */
	return expect_cnp() && expect(RAW_ACK, &k) &&
	       RT_EQ(k.psn, (RT_FIRST_PSN + 1) & RAW_PSN_MASK) && silence() && all_count() &&
	       alive();
}

static bool marked_uc(void)
{
	fresh(IBV_QPT_UC);
	rt_post_recv(&q, 1, &buf, 0, 4096);
	mark_send(0x20 | RAW_SEND_ONLY, 0, CE, 8);
	marked++;
	sent++;
	return expect_cnp() && silence() && all_count() && alive();
}

/* ACKs and CNPs that were marked: nothing to slow down. */
static bool marked_others(void)
{
	struct raw_pkt k;

	fresh(IBV_QPT_RC);
	if (!post(IBV_WR_RDMA_WRITE, 8) || !expect(RAW_WRITE_ONLY, &k))
		return false;
	k = a_cnp();
	k.tos = CNP_TOS | CE;
	raw_send(&peer, &k);
	acknowledge(0, CE);
	marked += 2;
	handled++;
	return serve(1) && silence() && all_count() && alive();
}

/* What was marked and is not for us, or not believed, is not told to anyone. */
static bool marked_wrong(void)
{
	struct raw_pkt k;

	fresh(IBV_QPT_RC);
	k = pkt(RAW_SEND_ONLY, 0);
	k.len = 8;
	k.tos = CE;
	k.bad_icrc = true;
	raw_send(&peer, &k);
	k.bad_icrc = false;
	k.tver = 1;
	raw_send(&peer, &k);
	k.tver = 0;
	raw_send_from(&peer, &k, peer.local + htonl(1));
	k.qpn += 77;
	raw_send(&peer, &k);
	return silence() && all_count() && alive();
}

/* ---- reaction point ---- */

static bool ect(void)
{
	struct raw_pkt k;

	fresh(IBV_QPT_RC);
	return post(IBV_WR_RDMA_WRITE, 8) && expect(RAW_WRITE_ONLY, &k) && RT_EQ(k.tos, ECT0) &&
	       (acknowledge(0, 0), serve(1));
}

static bool in_flight(void)
{
	struct raw_pkt k;
	int i;

	fresh(IBV_QPT_RC);
	if (!post(IBV_WR_RDMA_WRITE, 200 * PMTU) || !expect(RAW_WRITE_FIRST, &k))
		return false;
	k = a_cnp();
	for (i = 0; i < 3; i++)
		raw_send(&peer, &k);
	handled += 3;
	/* BECN is not covered by the ICRC: it need not be there */
	k.becn = 0;
	raw_send(&peer, &k);
	handled++;
	return all_count() && serve(200) && alive();
}

static bool nothing_in_flight(void)
{
	struct raw_pkt k;

	fresh(IBV_QPT_RC);
	k = a_cnp();
	raw_send(&peer, &k);
	raw_send(&peer, &k);
	ignored += 2;
	return silence() && all_count() && alive();
}

static bool for_uc(void)
{
	struct raw_pkt k;

	fresh(IBV_QPT_UC);
	k = a_cnp();
	raw_send(&peer, &k);
	ignored++;
	return silence() && all_count() && alive();
}

/*
 * It has no window, so a rate; not for longer than some milliseconds after it has sent, which
 * is less than a busy host may take from one line to the next.
 */
static bool for_uc_sender(void)
{
	struct raw_pkt k;
	int i;

	for (i = 0; i < 20; i++) {
		fresh(IBV_QPT_UC);
		if (!post(IBV_WR_RDMA_WRITE, 8) || !expect(0x20 | RAW_WRITE_ONLY, &k) ||
		    !RT_EQ(k.tos, ECT0))
			return false;
		k = a_cnp();
		raw_send(&peer, &k);
		usleep(30000);
		if (counter("rp_cnp_handled") != handled)
			break;
		ignored++;
	}
	handled++;
	return all_count() && alive();
}

static bool for_ud(void)
{
	struct raw_pkt k;

	fresh(IBV_QPT_UD);
	k = a_cnp();
	raw_send(&peer, &k);
	/* QP1, and nobody */
	k.qpn = 1;
	raw_send(&peer, &k);
	k.qpn = 0xffffff;
	raw_send(&peer, &k);
	return silence() && all_count() && alive();
}

/* While a WRITE waits for its ACK, so that any of them would count if believed. */
static bool wrong_cnps(void)
{
	uint8_t bytes[12 + 16];
	struct raw_pkt k;
	size_t len;

	fresh(IBV_QPT_RC);
	if (!post(IBV_WR_RDMA_WRITE, 8) || !expect(RAW_WRITE_ONLY, &k))
		return false;
	k = a_cnp();
	k.bad_icrc = true;
	raw_send(&peer, &k);
	k.bad_icrc = false;
	k.qpn += 77;
	raw_send(&peer, &k);
	k.qpn = 0;
	raw_send(&peer, &k);
	k.qpn = q.qp->qp_num;
	k.tver = 1;
	raw_send(&peer, &k);
	k.tver = 0;
	k.pkey = 0x1234;
	raw_send(&peer, &k);
	k.pkey = 0;
	k.bad_pad = true;
	raw_send(&peer, &k);
	k.bad_pad = false;
	raw_send_from(&peer, &k, peer.local + htonl(1));
	for (k.len = 20; k.len <= 2000; k.len += 180)
		raw_send(&peer, &k);
	memset(bytes, 0, sizeof(bytes));
	bytes[0] = RAW_CNP;
	memset(bytes + 2, 0xff, 2);
	bytes[4] = BECN;
	bytes[5] = q.qp->qp_num >> 16;
	bytes[6] = q.qp->qp_num >> 8;
	bytes[7] = q.qp->qp_num;
	for (len = 0; len < sizeof(bytes); len++)
		raw_send_bytes(&peer, bytes, len);
	if (!all_count())
		return false;
	/* and the right one does */
	raw_send_bytes(&peer, bytes, sizeof(bytes));
	handled++;
	acknowledge(0, 0);
	return all_count() && serve(1) && alive();
}

/* The window has a floor: a WRITE of 250 packets gets through. */
static bool flood(void)
{
	uint64_t end = rt_now_ms() + rt_timeout_ms;
	struct raw_pkt k, c;
	struct ibv_wc wc;
	int i, n = 0;

	fresh(IBV_QPT_RC);
	if (!post(IBV_WR_RDMA_WRITE, 250 * PMTU))
		return false;
	c = a_cnp();
	while (rt_now_ms() < end) {
		for (i = 0; i < 20 && n < FLOOD; i++, n++)
			raw_send(&peer, &c);
		if (ibv_poll_cq(q.scq, 1, &wc) == 1)
			return RT_EQ(wc.status, IBV_WC_SUCCESS) && alive() &&
			       counts_more("rp_cnp_handled", handled) &&
			       counts("np_cnp_sent", sent);
		if (raw_recv(&peer, &k, 20) && k.ackreq)
			acknowledge((k.psn - RT_FIRST_PSN) & RAW_PSN_MASK, 0);
	}
	rt_diag("the WRITE is not done in time");
	return false;
}

/* ---- the switch ---- */

static bool switched_off(void)
{
	struct raw_pkt k;
	bool ok;

	knob("0");
	fresh(IBV_QPT_RC);
	rt_post_recv(&q, 1, &buf, 0, 4096);
	mark_send(RAW_SEND_ONLY, 0, CE, 8);
	marked++;
	ok = expect(RAW_ACK, &k) && RT_EQ(k.tos, 0) && silence() &&
	     post(IBV_WR_RDMA_WRITE, 8) && expect(RAW_WRITE_ONLY, &k) && RT_EQ(k.tos, 0);
	k = a_cnp();
	raw_send(&peer, &k);
	ignored++;
	ok = ok && all_count();
	acknowledge(0, 0);
	ok = ok && serve(1) && alive();
	knob("1");
	return ok;
}

static const struct {
	const char *name;
	bool (*run)(void);
} cases[] = {
	{ "packets leave with ECT(0)", ect },
	{ "marked SEND: a CNP in front of the ACK", marked_data },
	{ "marked SEND of UC: a CNP", marked_uc },
	{ "marked ACK, marked CNP: silence", marked_others },
	{ "marked, with bad ICRC, TVer, QPN, source: silence", marked_wrong },
	{ "CNPs while packets are in flight: handled", in_flight },
	{ "CNP with nothing in flight: ignored", nothing_in_flight },
	{ "CNP for UC that has sent nothing: ignored", for_uc },
	{ "UC leaves with ECT(0), a CNP for it is handled", for_uc_sender },
	{ "CNPs for UD, QP1, a group: dropped", for_ud },
	{ "CNPs that are none: bad ICRC, QPN, TVer, P_Key, pad, source, every length", wrong_cnps },
	{ "a flood of CNPs does not stop a WRITE", flood },
	{ "switched off: no ECT, no CNP, no reaction", switched_off },
	{ "and on again", marked_data },
};

int main(int argc, char **argv)
{
	size_t i;

	rt_parse(argc, argv);
	if (argc - rt_args.first != 3)
		rt_die("usage: cnp_wire -d DEV -g GID NETNS PEER-ADDRESS OWN-ADDRESS");
	argv += rt_args.first;
	raw_open(&peer, argv[0], argv[1], argv[2]);
	peer_gid.raw[10] = 0xff;
	peer_gid.raw[11] = 0xff;
	memcpy(peer_gid.raw + 12, &peer.local, 4);
	dev = rt_dev_a();
	buf = rt_buf(dev, BUF, RT_ACCESS_ALL);
	for (i = 0; i < ARRAY_SIZE(cases); i++)
		rt_ok(cases[i].run(), "%s", cases[i].name);
	rt_drain_events(dev);
	rt_qp_destroy(&q);
	rt_buf_free(&buf);
	return rt_done();
}
