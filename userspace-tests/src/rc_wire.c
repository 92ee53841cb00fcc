// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * rc_wire - RC as seen from the wire: a peer made of raw sockets sends what a
 * NIC would send, what it must not send, and noise; each answer is compared
 * with what IBTA 9.7 and 9.9 ask for.
 *
 * usage: rc_wire -d DEV -g GID [-s SEED] NETNS PEER-ADDRESS OWN-ADDRESS [lists]
 *
 * DEV's GID belongs to OWN-ADDRESS; PEER-ADDRESS is in the network namespace
 * NETNS, where nobody else uses UDP port 4791. With "lists" only the cases of packets
 * that arrive together, which is the business of the network. SLOW in the environment,
 * above 1: no upper limit of times, less noise. Output: TAP. Exit: 0 all ok.
 */
#include <arpa/inet.h>
#include <time.h>
#include "raw.h"
#include "rt.h"

#define PEER_QPN	0x123456
#define PMTU		1024
#define BUF		(64 * 1024)
#define GUARD		4096
#define QUIET_MS	60
#define SEED		7

static struct raw_peer peer;
static struct rt_dev *dev;
static struct rt_qp q;
static struct rt_buf buf;		/* guard, BUF bytes with an MR, guard */
static struct ibv_mr *mr;
static union ibv_gid peer_gid;
static uint8_t pattern[BUF];
static int seen;			/* highest PSN of a request so far, from the first */

/* ---- the fixture ---- */

static void fresh_retrying(uint8_t retry_cnt, uint8_t rnr_retry)
{
	struct rt_opt opt = rt_defaults;
	struct raw_pkt k;

	if (q.qp) {
		rt_drain_events(dev);
		rt_qp_destroy(&q);
	}
	opt.mtu = IBV_MTU_1024;
	opt.retry_cnt = retry_cnt;
	opt.rnr_retry = rnr_retry;
	opt.timeout = 16;
	if (rt_qp_create(&q, dev, &opt) || rt_to_init(&q) ||
	    rt_to_rtr(&q, &peer_gid, PEER_QPN) || rt_to_rts(&q))
		rt_die("QP to RTS: %m");
	while (raw_recv(&peer, &k, 0))
		;
	memset(buf.p, 0xee, buf.len);
	seen = -1;
}

/* Whoever plays the peer may be kept from running for some seconds before the QP gives up. */
static void fresh(void)
{
	fresh_retrying(7, 1);
}

static struct raw_pkt pkt(uint8_t opcode, int dpsn)
{
	return (struct raw_pkt) {
		.opcode = opcode,
		.ackreq = true,
		.qpn = q.qp->qp_num,
		.psn = RT_FIRST_PSN + dpsn,
		.va = (uintptr_t)mr->addr,
		.rkey = mr->rkey,
		.data = pattern,
	};
}

static void send_op(uint8_t opcode, int dpsn, size_t len)
{
	struct raw_pkt k = pkt(opcode, dpsn);

	k.len = len;
	k.dmalen = len;
	raw_send(&peer, &k);
}

static bool expect_ack(uint8_t syndrome, int dpsn, uint32_t msn)
{
	struct raw_pkt k;

	return RT_CHECK(raw_recv(&peer, &k, rt_timeout_ms)) &&
	       RT_EQ(k.opcode, RAW_ACK) & RT_EQ(k.syndrome, syndrome) &
	       RT_EQ(k.psn, (RT_FIRST_PSN + dpsn) & RAW_PSN_MASK) &
	       RT_EQ(k.msn, msn) & RT_EQ(k.qpn, PEER_QPN);
}

#define ACK	0x1f
#define NAK_SEQ	0x60
#define NAK_INV	0x61
#define NAK_ACC	0x62
#define NAK_OP	0x63
#define RNR	0x21		/* min_rnr_timer of rt_defaults */

static bool silence(void)
{
	struct raw_pkt k;

	if (!raw_recv(&peer, &k, QUIET_MS))
		return true;
	rt_diag("unexpected opcode %#x syndrome %#x psn %#x", k.opcode, k.syndrome, k.psn);
	return false;
}

static bool alive(void)
{
	return RT_EQ(rt_state(&q), IBV_QPS_RTS);
}

static bool dead(void)
{
	return RT_CHECK(rt_wait_state(&q, IBV_QPS_ERR));
}

static bool recv_at(uint64_t id, size_t off, size_t len)
{
	return RT_EQ(rt_post_recv(&q, id, &buf, GUARD + off, len), 0);
}

static bool got(uint64_t id, size_t len)
{
	struct ibv_wc wc;

	return RT_CHECK(rt_expect(q.rcq, id, IBV_WC_SUCCESS, &wc)) &&
	       RT_EQ(wc.byte_len, len);
}

static bool no_completion(struct ibv_cq *cq)
{
	struct ibv_wc wc;

	return RT_EQ(ibv_poll_cq(cq, 1, &wc), 0);
}

static bool holds(size_t off, size_t len)
{
	return RT_CHECK(!memcmp(buf.p + GUARD + off, pattern, len));
}

/* Nobody wrote outside the MR. */
static bool guards(void)
{
	size_t i;

	for (i = 0; i < GUARD; i++)
		if (buf.p[i] != 0xee || buf.p[GUARD + BUF + i] != 0xee)
			return RT_CHECK(!"guard bytes intact");
	return true;
}

/* ---- the responder ---- */

static bool send_only(void)
{
	fresh();
	recv_at(1, 0, 4096);
	send_op(RAW_SEND_ONLY, 0, 777);
	return expect_ack(ACK, 0, 1) && got(1, 777) && holds(0, 777) && alive();
}

static bool send_three_parts(void)
{
	fresh();
	recv_at(1, 0, 4096);
	send_op(RAW_SEND_FIRST, 0, PMTU);
	if (!expect_ack(ACK, 0, 0))
		return false;
	send_op(RAW_SEND_MIDDLE, 1, PMTU);
	if (!expect_ack(ACK, 1, 0) || !no_completion(q.rcq))
		return false;
	send_op(RAW_SEND_LAST, 2, 3);
	return expect_ack(ACK, 2, 1) && got(1, 2 * PMTU + 3) && alive();
}

static bool gap(void)
{
	fresh();
	recv_at(1, 0, 4096);
	send_op(RAW_SEND_ONLY, 1, 8);
	if (!expect_ack(NAK_SEQ, 0, 0))
		return false;
	send_op(RAW_SEND_ONLY, 2, 8);
	if (!silence())
		return false;
	send_op(RAW_SEND_ONLY, 0, 8);
	return expect_ack(ACK, 0, 1) && got(1, 8) && alive();
}

/* What came from behind the gap waits for it to close, and is done in order. */
static bool gap_closed(void)
{
	fresh();
	recv_at(1, 0, 4096);
	recv_at(2, 4096, 4096);
	recv_at(3, 8192, 4096);
	send_op(RAW_SEND_ONLY, 2, 16);
	if (!expect_ack(NAK_SEQ, 0, 0))
		return false;
	send_op(RAW_SEND_ONLY, 1, 12);
	if (!silence())
		return false;
	send_op(RAW_SEND_ONLY, 0, 8);
	if (!expect_ack(ACK, 2, 3) || !got(1, 8) || !got(2, 12) || !got(3, 16))
		return false;
	/* the peer could not know, and sends it again */
	send_op(RAW_SEND_ONLY, 1, 12);
	return expect_ack(ACK, 2, 3) && no_completion(q.rcq) && alive();
}

static bool duplicate_send(void)
{
	fresh();
	recv_at(1, 0, 4096);
	recv_at(2, 4096, 4096);
	send_op(RAW_SEND_ONLY, 0, 8);
	send_op(RAW_SEND_ONLY, 0, 8);
	return expect_ack(ACK, 0, 1) && expect_ack(ACK, 0, 1) && got(1, 8) &&
	       no_completion(q.rcq) && alive();
}

/* Requests with responses follow: an ACK of theirs would look like a response. */
static bool duplicate_before_read(void)
{
	struct raw_pkt k, r;

	fresh();
	recv_at(1, 0, 4096);
	send_op(RAW_SEND_ONLY, 0, 8);
	if (!expect_ack(ACK, 0, 1))
		return false;
	k = pkt(RAW_READ_REQ, 1);
	k.dmalen = 8;
	raw_send(&peer, &k);
	if (!RT_CHECK(raw_recv(&peer, &r, rt_timeout_ms)) ||
	    !RT_EQ(r.psn, (RT_FIRST_PSN + 1) & RAW_PSN_MASK))
		return false;
	k = pkt(RAW_FETCH_ADD, 2);
	raw_send(&peer, &k);
	if (!RT_CHECK(raw_recv(&peer, &r, rt_timeout_ms)) ||
	    !RT_EQ(r.psn, (RT_FIRST_PSN + 2) & RAW_PSN_MASK))
		return false;
	send_op(RAW_SEND_ONLY, 0, 8);
	return expect_ack(ACK, 0, 3) && got(1, 8) && alive();
}

static bool duplicate_far(void)
{
	fresh();
	recv_at(1, 0, 4096);
	send_op(RAW_SEND_ONLY, -0x7fffff, 8);
	return expect_ack(ACK, -1, 0) && no_completion(q.rcq) && alive();
}

static bool not_ready(void)
{
	fresh();
	send_op(RAW_SEND_ONLY, 0, 8);
	if (!expect_ack(RNR, 0, 0))
		return false;
	send_op(RAW_SEND_ONLY, 1, 8);
	if (!silence())
		return false;
	recv_at(1, 0, 64);
	send_op(RAW_SEND_ONLY, 0, 8);
	return expect_ack(ACK, 0, 1) && got(1, 8) && alive();
}

static bool write_imm_not_ready(void)
{
	fresh();
	send_op(RAW_WRITE_ONLY_IMM, 0, 8);
	return expect_ack(RNR, 0, 0) && RT_EQ(buf.p[GUARD], 0xee) && alive();
}

static bool refused(uint8_t syndrome)
{
	return expect_ack(syndrome, 0, 0) && dead() && guards();
}

static bool middle_first(void)
{
	fresh();
	recv_at(1, 0, 4096);
	send_op(RAW_SEND_MIDDLE, 0, PMTU);
	return refused(NAK_INV);
}

static bool read_in_message(void)
{
	struct raw_pkt k;

	fresh();
	recv_at(1, 0, 4096);
	send_op(RAW_SEND_FIRST, 0, PMTU);
	if (!expect_ack(ACK, 0, 0))
		return false;
	k = pkt(RAW_READ_REQ, 1);
	k.dmalen = 8;
	raw_send(&peer, &k);
	return expect_ack(NAK_INV, 1, 0) && dead();
}

static bool reserved_opcodes(void)
{
	static const uint8_t ops[] = { 0x15, 0x18, 0x19, 0x1a, 0x1b, 0x1e, 0x1f };
	bool ok = true;
	size_t i;

	for (i = 0; i < ARRAY_SIZE(ops); i++) {
		fresh();
		send_op(ops[i], 0, 32);
		if (!refused(NAK_INV)) {
			rt_diag("opcode %#x", ops[i]);
			ok = false;
		}
	}
	return ok;
}

static bool other_transports(void)
{
	unsigned int op;
	bool ok = true;

	fresh();
	recv_at(1, 0, 4096);
	for (op = 0x20; op < 0x100; op++)
		send_op(op, 0, 64);
	ok = silence() && no_completion(q.rcq) && alive();
	send_op(RAW_SEND_ONLY, 0, 8);
	return ok & expect_ack(ACK, 0, 1);
}

static bool bad_lengths(void)
{
	static const struct {
		uint8_t opcode;
		uint32_t len, dmalen;
	} rows[] = {
		{ RAW_SEND_FIRST, PMTU - 4, 0 },
		{ RAW_SEND_ONLY, PMTU + 4, 0 },
		{ RAW_WRITE_FIRST, PMTU - 4, 2 * PMTU },
		{ RAW_WRITE_ONLY, PMTU + 4, PMTU + 4 },
		{ RAW_WRITE_ONLY, 16, 20 },
		{ RAW_WRITE_ONLY, 16, 12 },
		{ RAW_WRITE_ONLY, 0, 4 },
		{ RAW_WRITE_FIRST, PMTU, 0x80000001 },
		{ RAW_READ_REQ, 0, 0x80000001 },
		{ RAW_READ_REQ, 4, 4 },
	};
	bool ok = true;
	size_t i;

	for (i = 0; i < ARRAY_SIZE(rows); i++) {
		struct raw_pkt k;

		fresh();
		recv_at(1, 0, 4096);
		k = pkt(rows[i].opcode, 0);
		k.len = rows[i].len;
		k.dmalen = rows[i].dmalen;
		raw_send(&peer, &k);
		if (!refused(NAK_INV)) {
			rt_diag("row %zu", i);
			ok = false;
		}
	}
	return ok;
}

static bool keys_and_ranges(void)
{
	uint64_t va = (uintptr_t)mr->addr;
	const struct {
		uint64_t va;
		uint32_t rkey, len;
	} rows[] = {
		{ va, mr->rkey ^ 1, 8 },
		{ va, mr->rkey + 0x100, 8 },
		{ va, 0, 8 },
		{ va, ~0u, 8 },
		{ va - 1, mr->rkey, 8 },
		{ va + BUF - 7, mr->rkey, 8 },
		{ va + BUF, mr->rkey, 1 },
		{ 0, mr->rkey, 8 },
		{ ~0ull, mr->rkey, 8 },
		{ ~0ull - 7, mr->rkey, 64 },
		{ va + (1ull << 63), mr->rkey, 8 },
	};
	static const uint8_t ops[] = { RAW_WRITE_ONLY, RAW_READ_REQ };
	bool ok = true;
	size_t i, j;

	for (j = 0; j < ARRAY_SIZE(ops); j++) {
		for (i = 0; i < ARRAY_SIZE(rows); i++) {
			struct raw_pkt k;

			fresh();
			k = pkt(ops[j], 0);
			k.va = rows[i].va;
			k.rkey = rows[i].rkey;
			k.dmalen = rows[i].len;
			k.len = ops[j] == RAW_WRITE_ONLY ? rows[i].len : 0;
			raw_send(&peer, &k);
			if (!refused(NAK_ACC)) {
				rt_diag("opcode %#x row %zu", ops[j], i);
				ok = false;
			}
		}
	}
	return ok;
}

/* The whole range is proved before the first byte is written (R5). */
static bool first_beyond_the_range(void)
{
	struct raw_pkt k;

	fresh();
	k = pkt(RAW_WRITE_FIRST, 0);
	k.len = PMTU;
	k.dmalen = BUF + 1;
	raw_send(&peer, &k);
	return refused(NAK_ACC) && RT_EQ(buf.p[GUARD], 0xee);
}

static bool zero_length_without_key(void)
{
	struct raw_pkt k;

	fresh();
	k = pkt(RAW_WRITE_ONLY, 0);
	k.rkey = 0;
	k.va = ~0ull;
	raw_send(&peer, &k);
	if (!expect_ack(ACK, 0, 1))
		return false;
	k = pkt(RAW_READ_REQ, 1);
	k.rkey = 0;
	k.va = ~0ull;
	raw_send(&peer, &k);
	return RT_CHECK(raw_recv(&peer, &k, rt_timeout_ms)) &&
	       RT_EQ(k.opcode, RAW_READ_ONLY) & RT_EQ(k.len, 0) && alive();
}

static bool write_parts(void)
{
	struct raw_pkt k;

	fresh();
	k = pkt(RAW_WRITE_FIRST, 0);
	k.ackreq = false;
	k.len = PMTU;
	k.dmalen = 2 * PMTU + 5;
	raw_send(&peer, &k);
	k.opcode = RAW_WRITE_MIDDLE;
	k.psn++;
	k.data = pattern + PMTU;
	raw_send(&peer, &k);
	k.opcode = RAW_WRITE_LAST;
	k.psn++;
	k.ackreq = true;
	k.data = pattern + 2 * PMTU;
	k.len = 5;
	raw_send(&peer, &k);
	return expect_ack(ACK, 2, 1) && holds(0, 2 * PMTU + 5) &&
	       RT_EQ(buf.p[GUARD + 2 * PMTU + 5], 0xee) && alive();
}

/* Responses of a READ of 2.5 PMTU from @off on (in PMTUs), PSNs from @off. */
static bool expect_read(unsigned int off)
{
	static const uint8_t ops[] = { RAW_READ_FIRST, RAW_READ_MIDDLE, RAW_READ_LAST };
	unsigned int i;
	bool ok = true;

	for (i = off; ok && i < 3; i++) {
		struct raw_pkt k;
		size_t len = i < 2 ? PMTU : PMTU / 2;

		ok = RT_CHECK(raw_recv(&peer, &k, rt_timeout_ms)) &&
		     RT_EQ(k.opcode, i == off && i < 2 ? RAW_READ_FIRST : ops[i]) &
		     RT_EQ(k.psn, (RT_FIRST_PSN + i) & RAW_PSN_MASK) & RT_EQ(k.len, len) &&
		     RT_CHECK(!memcmp(k.data, pattern + i * PMTU, len));
	}
	return ok;
}

static struct raw_pkt read_req(unsigned int off)
{
	struct raw_pkt k = pkt(RAW_READ_REQ, off);

	k.va += off * PMTU;
	k.dmalen = 5 * PMTU / 2 - off * PMTU;
	return k;
}

static bool read_and_again(void)
{
	struct raw_pkt k;

	fresh();
	memcpy(buf.p + GUARD, pattern, BUF);
	k = read_req(0);
	raw_send(&peer, &k);
	if (!expect_read(0))
		return false;
	raw_send(&peer, &k);		/* all of it, lost on the way back */
	if (!expect_read(0))
		return false;
	k = read_req(1);		/* from the middle */
	raw_send(&peer, &k);
	if (!expect_read(1))
		return false;
	k = read_req(1);		/* not what was asked for: silence, no NAK */
	k.rkey ^= 1;
	raw_send(&peer, &k);
	k = read_req(1);
	k.va += 4;
	raw_send(&peer, &k);
	k = read_req(1);
	k.dmalen = BUF;
	raw_send(&peer, &k);
	return silence() && alive();
}

static bool atomics(void)
{
	uint64_t *word = (uint64_t *)(buf.p + GUARD);
	struct raw_pkt k, r;

	fresh();
	*word = 40;
	k = pkt(RAW_FETCH_ADD, 0);
	k.swap_add = 2;
	raw_send(&peer, &k);
	if (!RT_CHECK(raw_recv(&peer, &r, rt_timeout_ms)) || !RT_EQ(r.orig, 40) ||
	    !RT_EQ(*word, 42))
		return false;
	*word = 7;
	raw_send(&peer, &k);		/* the answer was lost: the same answer, no second add */
	if (!RT_CHECK(raw_recv(&peer, &r, rt_timeout_ms)) || !RT_EQ(r.orig, 40) ||
	    !RT_EQ(*word, 7))
		return false;
	k = pkt(RAW_CMP_SWAP, 1);
	k.compare = 7;
	k.swap_add = 99;
	raw_send(&peer, &k);
	if (!RT_CHECK(raw_recv(&peer, &r, rt_timeout_ms)) || !RT_EQ(r.orig, 7) ||
	    !RT_EQ(r.opcode, RAW_ATOMIC_ACK) || !RT_EQ(*word, 99) || !alive())
		return false;
	fresh();
	k = pkt(RAW_FETCH_ADD, 0);
	k.va += 4;
	raw_send(&peer, &k);
	return refused(NAK_INV);
}

/* That this side's SQ is drained says nothing about the requests of the peer. */
static bool read_again_after_sqd(void)
{
	static const uint8_t slots[] = { 1, 2, 16, 3 };
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_SQD };
	struct raw_pkt k;
	size_t i;

	fresh();
	memcpy(buf.p + GUARD, pattern, BUF);
	k = read_req(0);
	raw_send(&peer, &k);
	if (!expect_read(0) || !RT_EQ(rt_to_state(&q, IBV_QPS_SQD), 0))
		return false;
	for (i = 0; i < ARRAY_SIZE(slots); i++) {
		attr.max_dest_rd_atomic = slots[i];
		if (!RT_EQ(ibv_modify_qp(q.qp, &attr,
					 IBV_QP_STATE | IBV_QP_MAX_DEST_RD_ATOMIC), 0))
			return false;
		raw_send(&peer, &k);
		if (!expect_read(0))
			return false;
	}
	/*
	 * One more leaves no slot too few, another one goes where the first was: a peer that
	 * was told 3 may have 16 on their way, and ask for each of them again.
	 */
	for (i = 0; i < 32; i++) {
		struct raw_pkt r = pkt(RAW_READ_REQ, 3 + i % 16);

		raw_send(&peer, &r);
		if (!RT_CHECK(raw_recv(&peer, &r, rt_timeout_ms)) ||
		    !RT_EQ(r.opcode, RAW_READ_ONLY))
			return false;
	}
	raw_send(&peer, &k);
	return silence() && RT_EQ(rt_to_state(&q, IBV_QPS_RTS), 0) && alive();
}

/* READs beyond max_dest_rd_atomic need not be served; memory must not grow. */
static bool many_reads(void)
{
	struct raw_pkt k;
	int i;

	fresh();
	for (i = 0; i < 200; i++) {
		k = pkt(RAW_READ_REQ, i);
		k.dmalen = 4;
		raw_send(&peer, &k);
	}
	for (i = 0; i < 200; i++)
		if (!RT_CHECK(raw_recv(&peer, &k, rt_timeout_ms)) ||
		    !RT_EQ(k.psn, (RT_FIRST_PSN + i) & RAW_PSN_MASK))
			return false;
	return alive();
}

static bool recv_too_short(void)
{
	struct ibv_wc wc;

	fresh();
	recv_at(1, 0, 100);
	send_op(RAW_SEND_ONLY, 0, 101);
	return RT_CHECK(rt_expect(q.rcq, 1, IBV_WC_LOC_LEN_ERR, &wc)) && refused(NAK_INV) &&
	       RT_EQ(buf.p[GUARD + 100], 0xee);
}

/* ---- headers ---- */

/* Seen of NICs and of software, or done by networks: none of it matters. */
static bool as_others_send(void)
{
	static const struct {
		const char *what;
		struct raw_pkt k;
	} rows[] = {
		{ "nothing special", { } },
		{ "MigReq 1", { .flags = 0x40 } },
		{ "FECN and BECN", { .becn = 0xc0 } },
		{ "reserved bits of BTH byte 4, as Huawei", { .becn = 0x10 } },
		{ "reserved bits of BTH byte 8", { .odd = RAW_RESERVED } },
		{ "a pad of ones", { .odd = RAW_PAD_ONES } },
		{ "P_Key of a limited member", { .pkey = 0x7fff } },
		{ "DSCP and ECN", { .tos = 0x6a } },
		{ "CE", { .tos = 0x03 } },
		{ "TTL 1", { .ttl = 1 } },
		{ "TTL 255", { .ttl = 255 } },
		{ "IPv4 ID 0", { .odd = RAW_ID_ZERO } },
		{ "an IPv4 ID out of sequence", { .odd = RAW_ID_JUMP } },
		{ "DF 0", { .odd = RAW_NO_DF } },
		{ "UDP checksum", { .odd = RAW_SUM } },
		{ "UDP source port 0", { .odd = RAW_PORT_ZERO } },
		{ "IPv4 fragments", { .odd = RAW_FRAGMENTS } },
		{ "Ethernet padding", { .odd = RAW_TRAILER } },
		{ "Ethernet padding, UDP checksum", { .odd = RAW_TRAILER | RAW_SUM } },
		{ "priority tag", { .odd = RAW_TAGGED } },
		{ "priority tag, Ethernet padding", { .odd = RAW_TAGGED | RAW_TRAILER } },
		{ "all of it", { .flags = 0x40, .becn = 0xff, .pkey = 0x7fff, .tos = 0xff,
				 .ttl = 3, .odd = RAW_ID_ZERO | RAW_RESERVED | RAW_PAD_ONES |
				 RAW_SUM | RAW_PORT_ZERO | RAW_TRAILER | RAW_TAGGED } },
	};
	struct raw_pkt k, plain;
	bool one;
	size_t i;

	fresh();
	for (i = 0; i < ARRAY_SIZE(rows); i++) {
		recv_at(i, i, 4096);
		k = rows[i].k;
		plain = pkt(RAW_SEND_ONLY, i);
		k.opcode = plain.opcode;
		k.ackreq = true;
		k.qpn = plain.qpn;
		k.psn = plain.psn;
		k.data = pattern + i;
		k.len = 777;
		raw_send(&peer, &k);
		do {
			one = RT_CHECK(raw_recv(&peer, &k, rt_timeout_ms));
		} while (one && k.opcode == RAW_CNP);
		one = one && RT_EQ(k.opcode, RAW_ACK) & RT_EQ(k.syndrome, ACK) &
			     RT_EQ(k.psn, (RT_FIRST_PSN + i) & RAW_PSN_MASK) &&
		      got(i, 777) && RT_CHECK(!memcmp(buf.p + GUARD + i, pattern + i, 777));
		if (!one) {
			rt_diag("%s", rows[i].what);
			return false;
		}
	}
	return alive();
}

/* ---- what never reaches the protocol ---- */

static bool dropped_silently(void)
{
	long drops = rt_counter(dev, "rx_drop");
	struct raw_pkt k;

	fresh();
	recv_at(1, 0, 4096);
	k = pkt(RAW_SEND_ONLY, 0);
	k.len = 8;
	k.bad_icrc = true;
	raw_send(&peer, &k);
	k.bad_icrc = false;
	k.tver = 1;
	raw_send(&peer, &k);
	k.tver = 0;
	k.pkey = 0x1234;
	raw_send(&peer, &k);
	k.pkey = 0x8000;
	raw_send(&peer, &k);
	k.pkey = 0;
	k.qpn = q.qp->qp_num + 77;
	raw_send(&peer, &k);
	k.qpn = 0;
	raw_send(&peer, &k);
	k.qpn = 0xffffff;
	raw_send(&peer, &k);
	k.qpn = q.qp->qp_num;
	raw_send_from(&peer, &k, peer.local + htonl(1));
	k.odd = RAW_OPTIONS;
	raw_send(&peer, &k);
	k.odd = RAW_UDP_SHORT;
	raw_send(&peer, &k);
	k.odd = 0;
	/* TVer, P_Key twice, and the address */
	if (!silence() || !no_completion(q.rcq) || !alive() ||
	    !RT_EQ(rt_counter(dev, "rx_drop"), drops + 4))
		return false;
	/* of a limited member: taken */
	k.pkey = 0x7fff;
	raw_send(&peer, &k);
	return expect_ack(ACK, 0, 1) && got(1, 8);
}

/* ---- packets that GRO puts together ---- */

/* Three SENDs, with IPv4 IDs that nobody could guess; @other is sent before the n-th. */
static bool among(void (*other)(void), int nth)
{
	struct raw_pkt k;
	int i;

	fresh();
	for (i = 0; i < 3; i++)
		recv_at(i, 1024 * i, 1024);
	for (i = 0; i < 3; i++) {
		if (i == nth)
			other();
		k = pkt(RAW_SEND_ONLY, i);
		k.odd = RAW_ID_JUMP;
		k.len = 100 + i;
		raw_send(&peer, &k);
	}
	if (i == nth)
		other();
	/* one ACK for all or some */
	do {
		if (!RT_CHECK(raw_recv(&peer, &k, rt_timeout_ms)) ||
		    !RT_EQ(k.opcode, RAW_ACK) || !RT_EQ(k.syndrome, ACK))
			return false;
	} while (k.msn < 3);
	for (i = 0; i < 3; i++)
		if (!got(i, 100 + i))
			return false;
	return alive();
}

static bool anywhere(void (*other)(void))
{
	int i;

	for (i = 0; i < 4; i++) {
		if (!among(other, i)) {
			rt_diag("before packet %d", i);
			return false;
		}
	}
	return true;
}

static void to_nobody(void)
{
	struct raw_pkt k = pkt(RAW_SEND_ONLY, 0);

	k.odd = RAW_ID_JUMP;
	k.qpn ^= 0x400000;
	k.len = 99;
	raw_send(&peer, &k);
	raw_send(&peer, &k);
}

static void too_short(void)
{
	raw_send_bytes(&peer, pattern, 3);
}

static void no_bth(void)
{
	raw_send_bytes(&peer, pattern, 40);
}

static void bad_icrc(void)
{
	struct raw_pkt k = pkt(RAW_SEND_ONLY, 0);

	k.odd = RAW_ID_JUMP;
	k.bad_icrc = true;
	raw_send(&peer, &k);
}

static void udp_short(void)
{
	struct raw_pkt k = pkt(RAW_SEND_ONLY, 0);

	k.odd = RAW_ID_JUMP | RAW_UDP_SHORT;
	raw_send(&peer, &k);
}

static bool list_plain(void)
{
	return among(NULL, -1);
}

static bool list_to_nobody(void)
{
	return anywhere(to_nobody);
}

static bool list_too_short(void)
{
	return anywhere(too_short);
}

static bool list_noise(void)
{
	return anywhere(no_bth) && anywhere(bad_icrc) && anywhere(udp_short);
}

static bool responses_unasked_for(void)
{
	static const uint8_t syndromes[] = { ACK, 0x00, RNR, NAK_SEQ, NAK_INV, NAK_ACC, NAK_OP,
					     0x40, 0x7f, 0x80, 0xff };
	struct raw_pkt k;
	size_t i;
	int d;

	fresh();
	for (i = 0; i < ARRAY_SIZE(syndromes); i++) {
		for (d = -2; d < 3; d++) {
			k = pkt(RAW_ACK, d);
			k.syndrome = syndromes[i];
			raw_send(&peer, &k);
			k.opcode = RAW_READ_ONLY;
			k.len = 8;
			raw_send(&peer, &k);
			k.len = 0;
			k.opcode = RAW_ATOMIC_ACK;
			raw_send(&peer, &k);
		}
	}
	return silence() && no_completion(q.scq) && alive() && guards();
}

/*
 * Every opcode with every short length, and every packet cut anywhere. Those of other
 * transports leave the QP alone, so it is there for the next one.
 */
static bool every_length(void)
{
	uint8_t bytes[64];
	unsigned int op, len;

	for (op = 0; op < 256; op++) {
		if (op <= 0x20 || rt_state(&q) != IBV_QPS_RTS) {
			fresh();
			recv_at(1, 0, 4096);
		}
		for (len = 0; len <= sizeof(bytes); len++) {
			memset(bytes, 0, sizeof(bytes));
			bytes[0] = op;
			bytes[1] = len & 1 ? 0x30 : 0;
			bytes[2] = 0xff;
			bytes[3] = 0xff;
			bytes[5] = q.qp->qp_num >> 16;
			bytes[6] = q.qp->qp_num >> 8;
			bytes[7] = q.qp->qp_num;
			bytes[9] = (RT_FIRST_PSN >> 16) & 0xff;
			bytes[10] = (RT_FIRST_PSN >> 8) & 0xff;
			bytes[11] = RT_FIRST_PSN & 0xff;
			raw_send_bytes(&peer, bytes, len);
		}
		if (!guards())
			return false;
	}
	return true;
}

static bool noise(uint64_t seed)
{
	unsigned int i, j, n = rt_slow() ? 100 : 400;

	for (i = 0; i < n; i++) {
		fresh();
		recv_at(1, 0, rt_rand(&seed) % 5000);
		recv_at(2, 8192, rt_rand(&seed) % 5000);
		for (j = 0; j < 40; j++) {
			uint64_t r = rt_rand(&seed);
			struct raw_pkt k = pkt(r & 0x1f, (int)(r >> 5 & 7) - 2);

			if (!(r >> 8 & 31))
				k.opcode = r >> 16;
			k.ackreq = r >> 9 & 1;
			k.flags = r >> 24;
			k.bad_pad = !(r >> 32 & 15);
			k.va += (int)(rt_rand(&seed) % (3 * BUF)) - BUF;
			k.rkey ^= (r >> 36 & 7) ? 0 : rt_rand(&seed);
			k.len = r >> 40 & 1 ? PMTU : rt_rand(&seed) % 1100;
			k.dmalen = r >> 41 & 1 ? k.len : rt_rand(&seed) % (2 * BUF);
			k.syndrome = r >> 44;
			k.msn = r >> 50;
			raw_send(&peer, &k);
		}
		if (!guards())
			return false;
	}
	return true;
}

/* ---- the requester ---- */

static struct ibv_sge sge_at(size_t off, uint32_t len)
{
	return (struct ibv_sge) {
		.addr = (uintptr_t)buf.p + GUARD + off,
		.length = len,
		.lkey = buf.mr->lkey,
	};
}

static bool post(enum ibv_wr_opcode op, uint32_t len)
{
	struct ibv_sge sge = sge_at(0, len);
	struct ibv_send_wr wr = rt_wr(5, op, IBV_SEND_SIGNALED, &sge, 1);

	if (op == IBV_WR_ATOMIC_FETCH_AND_ADD) {
		wr.wr.atomic.remote_addr = 0x1000;
		wr.wr.atomic.rkey = 0xabcd;
		wr.wr.atomic.compare_add = 3;
	} else {
		wr.wr.rdma.remote_addr = 0x1000;
		wr.wr.rdma.rkey = 0xabcd;
	}
	return RT_EQ(rt_post(&q, &wr), 0);
}

/*
 * The next packet that is not a repetition: on a slow machine roe's own timer may
 * have sent again what nobody has answered yet.
 */
static bool next_is(uint8_t opcode, int dpsn, struct raw_pkt *k)
{
	uint32_t want = (RT_FIRST_PSN + dpsn) & RAW_PSN_MASK;
	int i, at;

	for (i = 0; i < 200; i++) {
		if (!RT_CHECK(raw_recv(&peer, k, rt_timeout_ms)))
			return false;
		if (k->opcode == opcode && k->psn == want)
			break;
		at = (k->psn - RT_FIRST_PSN) & RAW_PSN_MASK;
		if (at > seen)
			return RT_EQ(k->opcode, opcode) & RT_EQ(k->psn, want);
	}
	if (dpsn > seen)
		seen = dpsn;
	return RT_CHECK(i < 200);
}

static void answer(uint8_t syndrome, int dpsn)
{
	struct raw_pkt k = pkt(RAW_ACK, dpsn);

	k.syndrome = syndrome;
	k.len = 0;
	raw_send(&peer, &k);
}

static bool write_on_the_wire(void)
{
	struct raw_pkt k;
	struct ibv_wc wc;

	fresh();
	memcpy(buf.p + GUARD, pattern, BUF);
	if (!post(IBV_WR_RDMA_WRITE, 2 * PMTU + 5) ||
	    !next_is(RAW_WRITE_FIRST, 0, &k) ||
	    !(RT_EQ(k.va, 0x1000) & RT_EQ(k.rkey, 0xabcd) & RT_EQ(k.dmalen, 2 * PMTU + 5) &
	      RT_EQ(k.len, PMTU)) ||
	    !next_is(RAW_WRITE_MIDDLE, 1, &k) || !next_is(RAW_WRITE_LAST, 2, &k) ||
	    !(RT_EQ(k.len, 5) & RT_EQ(k.ackreq, true)) ||
	    !RT_CHECK(!memcmp(k.data, pattern + 2 * PMTU, 5)))
		return false;
	answer(ACK, 2);
	return RT_CHECK(rt_expect(q.scq, 5, IBV_WC_SUCCESS, &wc)) && alive();
}

static uint64_t now_us(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000000ull + t.tv_nsec / 1000;
}

/* Sooner than by the timer, 20 ms: in one of some tries, as the machine may not run meanwhile. */
#define TRIES		50
#define NO_TIMER_US	18000

static bool resend_after_nak(void)
{
	uint64_t begin, took = UINT64_MAX;
	struct raw_pkt k;
	struct ibv_wc wc;
	long naks;
	int i;

	for (i = 0; i < TRIES && took > NO_TIMER_US; i++) {
		fresh();
		naks = rt_counter(dev, "packet_seq_err");
		if (!post(IBV_WR_RDMA_WRITE, 3 * PMTU) || !next_is(RAW_WRITE_FIRST, 0, &k) ||
		    !next_is(RAW_WRITE_MIDDLE, 1, &k) || !next_is(RAW_WRITE_LAST, 2, &k))
			return false;
		begin = now_us();
		answer(NAK_SEQ, 1);	/* 0 arrived, 1 is missing */
		if (!next_is(RAW_WRITE_MIDDLE, 1, &k))
			return false;
		took = now_us() - begin;
		if (!next_is(RAW_WRITE_LAST, 2, &k))
			return false;
		answer(ACK, 2);
		if (!RT_CHECK(rt_expect(q.scq, 5, IBV_WC_SUCCESS, &wc)) || !alive() ||
		    !RT_EQ(rt_counter(dev, "packet_seq_err"), naks + 1))
			return false;
	}
	printf("# NAK 0x60: try %d took %llu us\n", i, (unsigned long long)took);
	return RT_CHECK(took <= NO_TIMER_US);
}

static bool resend_after_rnr(void)
{
	uint64_t begin, took = 0;
	struct raw_pkt k;
	struct ibv_wc wc;
	long naks;
	int i;

	for (i = 0; i < TRIES && (took < 10240 || took > NO_TIMER_US); i++) {
		fresh();
		naks = rt_counter(dev, "rnr_nak_retry_err");
		if (!post(IBV_WR_SEND, 8) || !next_is(RAW_SEND_ONLY, 0, &k))
			return false;
		begin = now_us();
		answer(0x20 | 20, 0);		/* 10.24 ms */
		if (!next_is(RAW_SEND_ONLY, 0, &k))
			return false;
		took = now_us() - begin;
		answer(ACK, 0);
		if (!RT_CHECK(rt_expect(q.scq, 5, IBV_WC_SUCCESS, &wc)) || !alive() ||
		    !RT_EQ(rt_counter(dev, "rnr_nak_retry_err"), naks + 1))
			return false;
	}
	printf("# RNR NAK: try %d took %llu us\n", i, (unsigned long long)took);
	return RT_CHECK(took >= 10240 && took <= NO_TIMER_US);
}

/*
 * Each wait begins with the end of the one before, so a timer of ticks, 4 ms, would take
 * whole ones. The machine may not run meanwhile: the fastest counts.
 */
static bool rnr_in_time(void)
{
	/* a kernel with all its checks may need as long as a tick for the way alone */
	uint64_t limit = rt_slow() ? UINT64_MAX : 1000;
	uint64_t begin, took, best = UINT64_MAX;
	struct raw_pkt k;
	struct ibv_wc wc;
	int i;

	fresh_retrying(7, 7);
	if (!post(IBV_WR_SEND, 8) || !next_is(RAW_SEND_ONLY, 0, &k))
		return false;
	for (i = 0; i < 100; i++) {
		begin = now_us();
		answer(0x20 | 1, 0);
		if (!next_is(RAW_SEND_ONLY, 0, &k))
			return false;
		took = now_us() - begin;
		if (took < best)
			best = took;
	}
	answer(ACK, 0);
	printf("# RNR timer of 10 us: the fastest of 100 took %llu\n", (unsigned long long)best);
	return RT_CHECK(best >= 10 && best < limit) &&
	       RT_CHECK(rt_expect(q.scq, 5, IBV_WC_SUCCESS, &wc)) && alive();
}

static bool naks_end_it(void)
{
	static const struct {
		uint8_t syndrome;
		enum ibv_wc_status status;
	} rows[] = {
		{ NAK_INV, IBV_WC_REM_INV_REQ_ERR },
		{ NAK_ACC, IBV_WC_REM_ACCESS_ERR },
		{ NAK_OP, IBV_WC_REM_OP_ERR },
	};
	struct ibv_wc wc;
	struct raw_pkt k;
	bool ok = true;
	size_t i;

	for (i = 0; i < ARRAY_SIZE(rows); i++) {
		fresh();
		ok &= post(IBV_WR_RDMA_WRITE, 8) && post(IBV_WR_RDMA_WRITE, 8) &&
		      next_is(RAW_WRITE_ONLY, 0, &k);
		answer(rows[i].syndrome, 0);
		ok &= RT_CHECK(rt_expect(q.scq, 5, rows[i].status, &wc)) &&
		      RT_CHECK(rt_expect(q.scq, 5, IBV_WC_WR_FLUSH_ERR, &wc)) && dead();
	}
	return ok;
}

static bool retries_end(void)
{
	struct ibv_wc wc;

	fresh_retrying(1, 1);
	return post(IBV_WR_RDMA_WRITE, 8) &&
	       RT_CHECK(rt_expect(q.scq, 5, IBV_WC_RETRY_EXC_ERR, &wc)) && dead();
}

/* An ACK never completes a READ; what comes after a lost response asks again. */
static bool read_with_losses(void)
{
	struct raw_pkt k, r;
	struct ibv_wc wc;

	fresh();
	if (!post(IBV_WR_RDMA_READ, 2 * PMTU) || !next_is(RAW_READ_REQ, 0, &k) ||
	    !(RT_EQ(k.va, 0x1000) & RT_EQ(k.dmalen, 2 * PMTU)))
		return false;
	r = pkt(RAW_READ_FIRST, 0);
	r.syndrome = ACK;
	r.len = PMTU;
	raw_send(&peer, &r);
	answer(ACK, 1);
	if (!next_is(RAW_READ_REQ, 1, &k) ||
	    !(RT_EQ(k.va, 0x1000 + PMTU) & RT_EQ(k.dmalen, PMTU)) || !no_completion(q.scq))
		return false;
	r = pkt(RAW_READ_ONLY, 1);
	r.syndrome = ACK;
	r.len = PMTU;
	r.data = pattern + PMTU;
	raw_send(&peer, &r);
	return RT_CHECK(rt_expect(q.scq, 5, IBV_WC_SUCCESS, &wc)) && holds(0, 2 * PMTU) && alive();
}

static bool bad_read_responses(void)
{
	static const struct {
		uint8_t opcode;
		size_t len;
		enum ibv_wc_status status;
	} rows[] = {
		{ RAW_READ_ONLY, PMTU, IBV_WC_BAD_RESP_ERR },	/* 2 PMTU were asked for */
		{ RAW_READ_FIRST, PMTU - 4, IBV_WC_LOC_LEN_ERR },
		{ RAW_READ_LAST, PMTU, IBV_WC_BAD_RESP_ERR },
		{ RAW_ATOMIC_ACK, 0, IBV_WC_BAD_RESP_ERR },
	};
	struct raw_pkt k, r;
	struct ibv_wc wc;
	bool ok = true;
	size_t i;

	for (i = 0; i < ARRAY_SIZE(rows); i++) {
		fresh();
		if (!post(IBV_WR_RDMA_READ, 2 * PMTU) || !next_is(RAW_READ_REQ, 0, &k))
			return false;
		r = pkt(rows[i].opcode, 0);
		r.syndrome = ACK;
		r.len = rows[i].len;
		raw_send(&peer, &r);
		if (!RT_CHECK(rt_expect(q.scq, 5, rows[i].status, &wc)) || !dead()) {
			rt_diag("row %zu", i);
			ok = false;
		}
		ok &= guards();
	}
	return ok;
}

static bool atomic_on_the_wire(void)
{
	struct raw_pkt k, r;
	struct ibv_wc wc;

	fresh();
	if (!post(IBV_WR_ATOMIC_FETCH_AND_ADD, 8) || !next_is(RAW_FETCH_ADD, 0, &k) ||
	    !(RT_EQ(k.va, 0x1000) & RT_EQ(k.rkey, 0xabcd) & RT_EQ(k.swap_add, 3)))
		return false;
	r = pkt(RAW_ATOMIC_ACK, 0);
	r.syndrome = ACK;
	r.orig = 0x1122334455667788;
	raw_send(&peer, &r);
	return RT_CHECK(rt_expect(q.scq, 5, IBV_WC_SUCCESS, &wc)) &&
	       RT_EQ(*(uint64_t *)(buf.p + GUARD), 0x1122334455667788) && alive();
}

struct wire_case {
	const char *name;
	bool (*run)(void);
};

/* ---- trains ---- */

#define TRAIN	20	/* packets of a message, the first of which goes alone */

/* First, Middle and Last follow each other. */
static uint8_t place(uint8_t first, int i)
{
	return first + (i > 0) + (i == TRAIN - 1);
}

/* A WRITE of TRAIN packets; @bend changes packet @i, or all that its number is given. */
static void write_train(void (*bend)(struct raw_pkt *k, int i))
{
	struct raw_pkt k;
	int i;

	for (i = 0; i < TRAIN; i++) {
		k = pkt(place(RAW_WRITE_FIRST, i), i);
		k.ackreq = i == TRAIN - 1;
		k.len = PMTU;
		k.dmalen = TRAIN * PMTU;
		k.data = pattern + i * PMTU;
		if (bend)
			bend(&k, i);
		if (i == 1)
			raw_train_begin(&peer);
		raw_send(&peer, &k);
	}
	raw_train_send(&peer);
}

/* The first @n packets of it are in memory and nothing behind them. */
static bool arrived(int n)
{
	size_t i;

	for (i = n * PMTU; i < BUF; i++)
		if (buf.p[GUARD + i] != 0xee)
			return RT_CHECK(!"memory behind the last packet intact");
	return holds(0, n * PMTU) && guards();
}

static bool train_whole(void)
{
	fresh();
	write_train(NULL);
	return expect_ack(ACK, TRAIN - 1, 1) && arrived(TRAIN) && silence() && alive();
}

static void ask_7(struct raw_pkt *k, int i)
{
	k->ackreq |= i == 7;
}

static bool train_asks(void)
{
	fresh();
	write_train(ask_7);
	return expect_ack(ACK, TRAIN - 1, 1) && arrived(TRAIN) && silence() && alive();
}

static bool train_sends(void)
{
	struct raw_pkt k;
	int i;

	fresh();
	recv_at(1, 0, TRAIN * PMTU);
	for (i = 0; i < TRAIN; i++) {
		k = pkt(place(RAW_SEND_FIRST, i), i);
		k.ackreq = i == TRAIN - 1;
		k.len = i == TRAIN - 1 ? 5 : PMTU;
		k.data = pattern + i * PMTU;
		if (!i)
			raw_train_begin(&peer);
		raw_send(&peer, &k);
	}
	raw_train_send(&peer);
	return expect_ack(ACK, TRAIN - 1, 1) && got(1, (TRAIN - 1) * PMTU + 5) &&
	       holds(0, (TRAIN - 1) * PMTU + 5) && guards() && alive();
}

/* Of the one that is lost, however that happens, and what follows nothing is written. */
static bool train_broken(void (*bend)(struct raw_pkt *k, int i))
{
	struct raw_pkt k;

	fresh();
	write_train(bend);
	if (!expect_ack(NAK_SEQ, 7, 0) || !arrived(7))
		return false;
	k = pkt(RAW_WRITE_MIDDLE, 7);
	k.len = PMTU;
	k.data = pattern + 7 * PMTU;
	raw_send(&peer, &k);
	return expect_ack(ACK, TRAIN - 1, 1) && arrived(TRAIN) && alive();
}

static void bad_icrc_7(struct raw_pkt *k, int i)
{
	k->bad_icrc = i == 7;
}

static bool train_bad_icrc(void)
{
	return train_broken(bad_icrc_7);
}

static void bad_tver_7(struct raw_pkt *k, int i)
{
	k->tver = i == 7;
}

static bool train_bad_tver(void)
{
	return train_broken(bad_tver_7);
}

static void bad_pkey_7(struct raw_pkt *k, int i)
{
	k->pkey = i == 7 ? 0x1234 : 0;
}

static bool train_bad_pkey(void)
{
	return train_broken(bad_pkey_7);
}

static void to_nobody_7(struct raw_pkt *k, int i)
{
	k->qpn ^= i == 7;
}

static bool train_to_nobody(void)
{
	return train_broken(to_nobody_7);
}

static void old_7(struct raw_pkt *k, int i)
{
	k->psn -= i == 7 ? 5 : 0;
}

static bool train_old(void)
{
	return train_broken(old_7);
}

/* Those before the one that is refused count, those behind it do not. */
static bool train_refused(void (*bend)(struct raw_pkt *k, int i), uint8_t syndrome)
{
	fresh();
	write_train(bend);
	return expect_ack(syndrome, 7, 0) && arrived(7) && dead();
}

static void send_7(struct raw_pkt *k, int i)
{
	if (i == 7)
		k->opcode = RAW_SEND_MIDDLE;
}

static bool train_other_opcode(void)
{
	return train_refused(send_7, NAK_INV);
}

static void too_long_7(struct raw_pkt *k, int i)
{
	k->dmalen = 8 * PMTU - 1;
}

static bool train_too_long(void)
{
	return train_refused(too_long_7, NAK_INV);
}

static const struct wire_case list_cases[] = {
	{ "a list", list_plain },
	{ "a list with packets for a QP that is none", list_to_nobody },
	{ "a list with a datagram too short for RoCE", list_too_short },
	{ "a list with noise", list_noise },
};

static const struct wire_case cases[] = {
	{ "SEND Only: ACK, data, completion", send_only },
	{ "a train: one ACK, data", train_whole },
	{ "a train: AckReq in its middle", train_asks },
	{ "a train: SEND, shorter last packet", train_sends },
	{ "a train: wrong ICRC in its middle", train_bad_icrc },
	{ "a train: unknown version in its middle", train_bad_tver },
	{ "a train: other partition in its middle", train_bad_pkey },
	{ "a train: another QP in its middle", train_to_nobody },
	{ "a train: an old PSN in its middle", train_old },
	{ "a train: another operation in its middle", train_other_opcode },
	{ "a train: more than was announced", train_too_long },
	{ "SEND First, Middle, Last: MSN moves at the end", send_three_parts },
	{ "gap: one NAK 0x60, then silence; what finds no receive WQE is forgotten", gap },
	{ "gap: what came early is done when it closes, in order", gap_closed },
	{ "duplicate SEND: acknowledged, not executed", duplicate_send },
	{ "duplicate SEND before READ and ATOMIC: the ACK is the SEND's", duplicate_before_read },
	{ "PSN half the space back is a duplicate", duplicate_far },
	{ "no receive WQE: RNR NAK, once", not_ready },
	{ "WRITE with immediate without receive WQE: RNR NAK, nothing written",
	  write_imm_not_ready },
	{ "Middle without First: NAK 0x61", middle_first },
	{ "READ inside a SEND: NAK 0x61", read_in_message },
	{ "reserved opcodes: NAK 0x61", reserved_opcodes },
	{ "opcodes of other transports: silence", other_transports },
	{ "lengths that do not fit: NAK 0x61", bad_lengths },
	{ "keys and ranges: NAK 0x62", keys_and_ranges },
	{ "WRITE First is refused for its whole range", first_beyond_the_range },
	{ "zero length: key and address are not looked at", zero_length_without_key },
	{ "WRITE in parts, one ACK", write_parts },
	{ "READ, again, from its middle; wrong repeats are ignored", read_and_again },
	{ "READ, again, after max_dest_rd_atomic has changed", read_again_after_sqd },
	{ "atomics: executed once, answer kept; misaligned NAK 0x61", atomics },
	{ "200 READs at a time", many_reads },
	{ "SEND longer than the receive WQE", recv_too_short },
	{ "headers as other makes and networks have them", as_others_send },
	{ "bad ICRC, TVer, P_Key, QPN, source, IP options, UDP length: silence",
	  dropped_silently },
	{ "responses nobody asked for", responses_unasked_for },
	{ "every opcode, every short length", every_length },
	{ "WRITE on the wire", write_on_the_wire },
	{ "NAK 0x60: from there again", resend_after_nak },
	{ "RNR NAK: again after the timer", resend_after_rnr },
	{ "RNR NAK of 0.01 ms: again in less than a tick", rnr_in_time },
	{ "fatal NAKs: status, flush", naks_end_it },
	{ "no answer: RETRY_EXC", retries_end },
	{ "READ: an ACK is no response, lost ones are asked for", read_with_losses },
	{ "READ: wrong responses", bad_read_responses },
	{ "atomic on the wire", atomic_on_the_wire },
};

static void run_all(void)
{
	size_t i;

	for (i = 0; i < ARRAY_SIZE(cases); i++)
		rt_ok(cases[i].run(), "%s", cases[i].name);
	rt_ok(noise(rt_args.seed), "noise, seed %llu", (unsigned long long)rt_args.seed);
	rt_ok(send_only(), "and still a SEND arrives");
}

static void run_lists(void)
{
	size_t i;

	for (i = 0; i < ARRAY_SIZE(list_cases); i++)
		rt_ok(list_cases[i].run(), "%s", list_cases[i].name);
}

int main(int argc, char **argv)
{
	bool lists;

	rt_parse(argc, argv);
	argv += rt_args.first;
	argc -= rt_args.first;
	lists = argc == 4 && !strcmp(argv[3], "lists");
	if (argc != 3 && !lists)
		rt_die("usage: rc_wire -d DEV -g GID NETNS PEER-ADDRESS OWN-ADDRESS [lists]");
	raw_open(&peer, argv[0], argv[1], argv[2]);
	peer_gid.raw[10] = 0xff;
	peer_gid.raw[11] = 0xff;
	memcpy(peer_gid.raw + 12, &peer.local, 4);
	dev = rt_dev_a();
	buf = rt_buf(dev, BUF + 2 * GUARD, RT_ACCESS_ALL);
	mr = ibv_reg_mr(dev->pd, buf.p + GUARD, BUF, RT_ACCESS_ALL);
	if (!mr)
		rt_die("MR: %m");
	rt_fill(pattern, sizeof(pattern), SEED, 0);
	if (lists)
		run_lists();
	else
		run_all();
	rt_drain_events(dev);
	rt_qp_destroy(&q);
	ibv_dereg_mr(mr);
	rt_buf_free(&buf);
	return rt_done();
}
