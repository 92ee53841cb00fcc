// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* raw - see raw.h */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <endian.h>
#include <fcntl.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <net/if.h>
#include <netinet/ip.h>
#include <netinet/udp.h>
#include <poll.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include "raw.h"
#include "rt.h"

#ifndef UDP_SEGMENT
#define UDP_SEGMENT	103
#endif

#define ROCE_PORT	4791
#define PEER_PORT	0xc001
#define HEADERS		(sizeof(struct iphdr) + sizeof(struct udphdr))
/* Of the IP payload in the first of two fragments. */
#define FRAGMENT	400

static void put16(uint8_t *p, uint16_t v)
{
	v = htobe16(v);
	memcpy(p, &v, sizeof(v));
}

static void put32(uint8_t *p, uint32_t v)
{
	v = htobe32(v);
	memcpy(p, &v, sizeof(v));
}

static void put64(uint8_t *p, uint64_t v)
{
	v = htobe64(v);
	memcpy(p, &v, sizeof(v));
}

static uint32_t get32(const uint8_t *p)
{
	uint32_t v;

	memcpy(&v, p, sizeof(v));
	return be32toh(v);
}

static uint64_t get64(const uint8_t *p)
{
	uint64_t v;

	memcpy(&v, p, sizeof(v));
	return be64toh(v);
}

static uint32_t crc32(uint32_t crc, const uint8_t *p, size_t len)
{
	int bit;

	while (len--) {
		crc ^= *p++;
		for (bit = 0; bit < 8; bit++)
			crc = crc >> 1 ^ (crc & 1 ? 0xedb88320 : 0);
	}
	return crc;
}

/*
 * The ICRC of an IPv4 packet at @ip up to, not including, the ICRC: eight bytes
 * of ones for the link header that is not there, TOS, TTL, both checksums and
 * the fifth byte of the BTH as ones (IBTA annex A17.3.3).
 */
static uint32_t icrc(const uint8_t *ip, size_t len)
{
	uint8_t head[8 + HEADERS + 12];

	memset(head, 0xff, 8);
	memcpy(head + 8, ip, HEADERS + 12);
	head[8 + 1] = 0xff;
	head[8 + 8] = 0xff;
	memset(head + 8 + 10, 0xff, 2);
	memset(head + 8 + 26, 0xff, 2);
	head[8 + HEADERS + 4] = 0xff;
	return ~crc32(crc32(~0u, head, sizeof(head)), ip + HEADERS + 12,
		      len - HEADERS - 12);
}

static int socket_in(const char *netns, int family, int type, int protocol)
{
	char path[128];
	int own, there, fd;

	snprintf(path, sizeof(path), "/run/netns/%s", netns);
	own = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC);
	there = open(path, O_RDONLY | O_CLOEXEC);
	if (own < 0 || there < 0 || setns(there, CLONE_NEWNET))
		rt_die("namespace %s: %m", netns);
	fd = socket(family, type | SOCK_CLOEXEC, protocol);
	if (fd < 0 || setns(own, CLONE_NEWNET))
		rt_die("socket in %s: %m", netns);
	close(own);
	close(there);
	return fd;
}

/* The netdev with address @local, in the namespace of @fd. */
static int find_netdev(int fd, uint32_t local)
{
	struct sockaddr_in sin;
	struct ifreq ifr;
	int i;

	for (i = 1; i < 256; i++) {
		memset(&ifr, 0, sizeof(ifr));
		ifr.ifr_ifindex = i;
		if (ioctl(fd, SIOCGIFNAME, &ifr) || ioctl(fd, SIOCGIFADDR, &ifr))
			continue;
		memcpy(&sin, &ifr.ifr_addr, sizeof(sin));
		if (sin.sin_addr.s_addr == local)
			return i;
	}
	rt_die("no netdev has the address of the peer");
}

static uint16_t ip_id(struct raw_peer *peer, unsigned int odd)
{
	if (odd & RAW_ID_ZERO)
		return 0;
	if (odd & RAW_ID_JUMP)
		peer->ip_id += 0x1234;
	return peer->ip_id++ ?: peer->ip_id++;
}

static uint32_t add16(uint32_t sum, const void *bytes, size_t len)
{
	const uint8_t *p = bytes;

	for (; len > 1; len -= 2, p += 2)
		sum += p[0] << 8 | p[1];
	return len ? sum + (p[0] << 8) : sum;
}

static uint16_t fold(uint32_t sum)
{
	while (sum >> 16)
		sum = (sum & 0xffff) + (sum >> 16);
	return htons(~sum);
}

/* Of the UDP datagram of @len bytes behind @ip. */
static void set_udp_sum(const struct iphdr *ip, struct udphdr *udp, size_t len)
{
	uint32_t sum = add16(IPPROTO_UDP + len, &ip->saddr, 8);

	udp->check = 0;
	udp->check = fold(add16(sum, udp, len)) ?: 0xffff;
}

static void send_ip(struct raw_peer *peer, const void *buf, size_t len)
{
	struct sockaddr_in sin = {
		.sin_family = AF_INET,
		.sin_addr.s_addr = peer->remote,
	};

	if (sendto(peer->tx, buf, len, 0, (struct sockaddr *)&sin, sizeof(sin)) < 0)
		rt_die("send %zu bytes: %m", len);
}

/* A frame to all, so that nobody has to find out about MACs. */
static void send_frame(struct raw_peer *peer, uint8_t *ip, size_t len, unsigned int odd)
{
	uint8_t buf[4 + HEADERS + RAW_MAX + 4 + 64], *p = buf;
	struct sockaddr_ll sll = {
		.sll_family = AF_PACKET,
		.sll_protocol = htons(odd & RAW_TAGGED ? ETH_P_8021Q : ETH_P_IP),
		.sll_ifindex = peer->ifindex,
		.sll_halen = ETH_ALEN,
		.sll_addr = { 0xff, 0xff, 0xff, 0xff, 0xff, 0xff },
	};

	put16(ip + 10, 0);
	memcpy(ip + 10, &(uint16_t){ fold(add16(0, ip, sizeof(struct iphdr))) }, 2);
	if (odd & RAW_TAGGED) {
		put16(p, 5 << 13);	/* priority 5, VLAN 0 */
		put16(p + 2, ETH_P_IP);
		p += 4;
	}
	memcpy(p, ip, len);
	p += len;
	if (odd & RAW_TRAILER) {
		memset(p, 0xdd, 37);
		p += 37;
	}
	if (sendto(peer->l2, buf, p - buf, 0, (struct sockaddr *)&sll, sizeof(sll)) < 0)
		rt_die("send a frame of %zd bytes: %m", p - buf);
}

static void send_fragments(struct raw_peer *peer, uint8_t *buf, size_t len)
{
	struct iphdr *ip = (struct iphdr *)buf;

	ip->frag_off = htons(IP_MF);
	send_ip(peer, buf, sizeof(*ip) + FRAGMENT);
	ip->frag_off = htons(FRAGMENT / 8);
	memmove(buf + sizeof(*ip), buf + sizeof(*ip) + FRAGMENT, len - sizeof(*ip) - FRAGMENT);
	send_ip(peer, buf, len - FRAGMENT);
}

static void send_options(struct raw_peer *peer, uint8_t *buf, size_t len)
{
	struct iphdr *ip = (struct iphdr *)buf;

	memmove(buf + sizeof(*ip) + 4, buf + sizeof(*ip), len - sizeof(*ip));
	memset(buf + sizeof(*ip), 1, 4);	/* no operation */
	ip->ihl = 6;
	send_ip(peer, buf, len + 4);
}

/* An unconnected socket that must not fragment counts IPv4 IDs from 0 on, within an skb. */
static void open_train(struct raw_peer *peer, const char *netns)
{
	const int pmtu = IP_PMTUDISC_DO;
	struct sockaddr_in sin = {
		.sin_family = AF_INET,
		.sin_port = htons(PEER_PORT),
		.sin_addr.s_addr = peer->local,
	};

	peer->train = socket_in(netns, AF_INET, SOCK_DGRAM, 0);
	if (bind(peer->train, (struct sockaddr *)&sin, sizeof(sin)) ||
	    setsockopt(peer->train, IPPROTO_IP, IP_MTU_DISCOVER, &pmtu, sizeof(pmtu)))
		rt_die("bind port %#x in %s: %m", PEER_PORT, netns);
}

void raw_train_begin(struct raw_peer *peer)
{
	peer->collect = true;
	peer->nr_cars = 0;
	peer->cars_len = 0;
}

void raw_train_send(struct raw_peer *peer)
{
	struct sockaddr_in sin = {
		.sin_family = AF_INET,
		.sin_port = htons(ROCE_PORT),
		.sin_addr.s_addr = peer->remote,
	};
	const int size = peer->car;

	peer->collect = false;
	if (setsockopt(peer->train, IPPROTO_UDP, UDP_SEGMENT, &size, sizeof(size)) ||
	    sendto(peer->train, peer->cars, peer->cars_len, 0, (struct sockaddr *)&sin,
		   sizeof(sin)) < 0)
		rt_die("send a train of %u packets: %m", peer->nr_cars);
}

void raw_open(struct raw_peer *peer, const char *netns, const char *local,
	      const char *remote)
{
	struct sockaddr_in sin = {
		.sin_family = AF_INET,
		.sin_port = htons(ROCE_PORT),
	};

	const int on = 1;

	peer->ip_id = 1;
	if (inet_pton(AF_INET, local, &peer->local) != 1 ||
	    inet_pton(AF_INET, remote, &peer->remote) != 1)
		rt_die("addresses %s, %s", local, remote);
	peer->tx = socket_in(netns, AF_INET, SOCK_RAW, IPPROTO_RAW);
	peer->l2 = socket_in(netns, AF_PACKET, SOCK_DGRAM, 0);
	peer->rx = socket_in(netns, AF_INET, SOCK_DGRAM, 0);
	peer->ifindex = find_netdev(peer->rx, peer->local);
	if (bind(peer->rx, (struct sockaddr *)&sin, sizeof(sin)) ||
	    setsockopt(peer->rx, IPPROTO_IP, IP_RECVTOS, &on, sizeof(on)))
		rt_die("bind port %d in %s: %m", ROCE_PORT, netns);
	open_train(peer, netns);
}

/* @bytes from BTH to ICRC go with the next train. */
static void add_car(struct raw_peer *peer, const void *bytes, size_t len)
{
	if (!peer->nr_cars++)
		peer->car = len;
	if (len > peer->car || peer->cars_len + len > sizeof(peer->cars))
		rt_die("%zu bytes do not fit into this train", len);
	memcpy(peer->cars + peer->cars_len, bytes, len);
	peer->cars_len += len;
}

/* @len bytes from BTH to payload, in headers as @k wants them, with an ICRC. */
static void transmit(struct raw_peer *peer, const uint8_t *bytes, size_t len,
		     uint32_t from, const struct raw_pkt *k)
{
	uint8_t buf[HEADERS + RAW_MAX + 4 + 4];
	size_t all = HEADERS + len + 4;
	struct iphdr ip = {
		.version = 4,
		.ihl = 5,
		.tos = k->tos,
		.tot_len = htons(all),
		.id = htons(peer->collect ? peer->nr_cars : ip_id(peer, k->odd)),
		.frag_off = htons(k->odd & (RAW_NO_DF | RAW_FRAGMENTS) ? 0 : IP_DF),
		.ttl = k->ttl ?: 64,
		.protocol = IPPROTO_UDP,
		.saddr = from,
		.daddr = peer->remote,
	};
	struct udphdr udp = {
		.source = htons(k->odd & RAW_PORT_ZERO ? 0 : PEER_PORT),
		.dest = htons(ROCE_PORT),
		.len = htons(sizeof(udp) + len + 4 - (k->odd & RAW_UDP_SHORT ? 4 : 0)),
	};
	uint32_t crc;

	memcpy(buf, &ip, sizeof(ip));
	memcpy(buf + sizeof(ip), &udp, sizeof(udp));
	/* a packet too short for a BTH has no ICRC worth the name */
	memset(buf + HEADERS, 0, 12);
	memcpy(buf + HEADERS, bytes, len);
	crc = htole32(icrc(buf, HEADERS + (len < 12 ? 12 : len)) ^ k->bad_icrc);
	memcpy(buf + HEADERS + len, &crc, sizeof(crc));
	if (peer->collect) {
		add_car(peer, buf + HEADERS, len + sizeof(crc));
		return;
	}
	if (k->odd & RAW_SUM)
		set_udp_sum((struct iphdr *)buf, (struct udphdr *)(buf + sizeof(ip)),
			    all - sizeof(ip));
	if (k->odd & (RAW_TRAILER | RAW_TAGGED))
		send_frame(peer, buf, all, k->odd);
	else if (k->odd & RAW_FRAGMENTS)
		send_fragments(peer, buf, all);
	else if (k->odd & RAW_OPTIONS)
		send_options(peer, buf, all);
	else
		send_ip(peer, buf, all);
}

/* Extended headers after the BTH at @p; gives their length. */
static size_t put_ext(uint8_t *p, const struct raw_pkt *k)
{
	switch (k->opcode & 0x1f) {
	case RAW_WRITE_FIRST:
	case RAW_WRITE_ONLY:
	case RAW_WRITE_ONLY_IMM:
	case RAW_READ_REQ:
		put64(p, k->va);
		put32(p + 8, k->rkey);
		put32(p + 12, k->dmalen);
		if ((k->opcode & 0x1f) != RAW_WRITE_ONLY_IMM)
			return 16;
		put32(p + 16, k->imm);
		return 20;
	case RAW_SEND_LAST_IMM:
	case RAW_SEND_ONLY_IMM:
	case RAW_WRITE_LAST_IMM:
		put32(p, k->imm);
		return 4;
	case RAW_SEND_LAST_INV:
	case RAW_SEND_ONLY_INV:
		put32(p, k->rkey);
		return 4;
	case RAW_CMP_SWAP:
	case RAW_FETCH_ADD:
		put64(p, k->va);
		put32(p + 8, k->rkey);
		put64(p + 12, k->swap_add);
		put64(p + 20, k->compare);
		return 28;
	case RAW_READ_FIRST:
	case RAW_READ_LAST:
	case RAW_READ_ONLY:
	case RAW_ACK:
	case RAW_ATOMIC_ACK:
		put32(p, (uint32_t)k->syndrome << 24 | (k->msn & RAW_PSN_MASK));
		if (k->opcode != RAW_ATOMIC_ACK)
			return 4;
		put64(p + 4, k->orig);
		return 12;
	default:
		return 0;
	}
}

void raw_send_from(struct raw_peer *peer, const struct raw_pkt *k, uint32_t from)
{
	uint8_t buf[RAW_MAX] = { k->opcode };
	uint8_t pad = k->bad_pad ? 3 : -k->len & 3;
	size_t off;

	buf[1] = (k->flags & ~0x30) | pad << 4 | k->tver;
	put16(buf + 2, k->pkey ?: 0xffff);
	put32(buf + 4, k->qpn);
	buf[4] = k->becn;
	put32(buf + 8, (k->psn & RAW_PSN_MASK) | (k->ackreq ? RAW_ACKREQ : 0));
	if (k->odd & RAW_RESERVED)
		buf[8] |= 0x7f;
	off = 12 + put_ext(buf + 12, k);
	if (k->data)
		memcpy(buf + off, k->data, k->len);
	if (k->odd & RAW_PAD_ONES)
		memset(buf + off + k->len, 0xff, -k->len & 3);
	transmit(peer, buf, off + k->len + (-k->len & 3), from, k);
}

void raw_send(struct raw_peer *peer, const struct raw_pkt *k)
{
	raw_send_from(peer, k, peer->local);
}

void raw_send_bytes(struct raw_peer *peer, const void *bytes, size_t len)
{
	static const struct raw_pkt plain;

	transmit(peer, bytes, len, peer->local, &plain);
}

/* BTH and extended headers of @k from @p; gives their length. */
static size_t get_headers(const uint8_t *p, struct raw_pkt *k)
{
	const uint8_t *x = p + 12;

	memset(k, 0, sizeof(*k));
	k->opcode = p[0];
	k->flags = p[1];
	k->pkey = p[2] << 8 | p[3];
	k->becn = p[4];
	k->qpn = get32(p + 4) & RAW_PSN_MASK;
	k->ackreq = get32(p + 8) & RAW_ACKREQ;
	k->psn = get32(p + 8) & RAW_PSN_MASK;
	switch (k->opcode) {
	case RAW_WRITE_FIRST:
	case RAW_WRITE_ONLY:
	case RAW_WRITE_ONLY_IMM:
	case RAW_READ_REQ:
		k->va = get64(x);
		k->rkey = get32(x + 8);
		k->dmalen = get32(x + 12);
		if (k->opcode != RAW_WRITE_ONLY_IMM)
			return 28;
		k->imm = get32(x + 16);
		return 32;
	case RAW_SEND_LAST_IMM:
	case RAW_SEND_ONLY_IMM:
	case RAW_WRITE_LAST_IMM:
		k->imm = get32(x);
		return 16;
	case RAW_SEND_LAST_INV:
	case RAW_SEND_ONLY_INV:
		k->rkey = get32(x);
		return 16;
	case RAW_CMP_SWAP:
	case RAW_FETCH_ADD:
		k->va = get64(x);
		k->rkey = get32(x + 8);
		k->swap_add = get64(x + 12);
		k->compare = get64(x + 20);
		return 40;
	case RAW_READ_FIRST:
	case RAW_READ_LAST:
	case RAW_READ_ONLY:
	case RAW_ACK:
	case RAW_ATOMIC_ACK:
		k->syndrome = x[0];
		k->msn = get32(x) & RAW_PSN_MASK;
		if (k->opcode != RAW_ATOMIC_ACK)
			return 16;
		k->orig = get64(x + 4);
		return 24;
	default:
		return 12;
	}
}

/* Like recv(), with the TOS of the packet. */
static ssize_t recv_tos(int fd, void *buf, size_t len, uint8_t *tos)
{
	char control[CMSG_SPACE(sizeof(int))];
	struct iovec iov = { .iov_base = buf, .iov_len = len };
	struct msghdr msg = {
		.msg_iov = &iov, .msg_iovlen = 1,
		.msg_control = control, .msg_controllen = sizeof(control),
	};
	ssize_t n = recvmsg(fd, &msg, 0);
	struct cmsghdr *c;

	*tos = 0;
	for (c = CMSG_FIRSTHDR(&msg); n >= 0 && c; c = CMSG_NXTHDR(&msg, c))
		if (c->cmsg_level == IPPROTO_IP && c->cmsg_type == IP_TOS)
			*tos = *CMSG_DATA(c);
	return n;
}

bool raw_recv(struct raw_peer *peer, struct raw_pkt *k, int ms)
{
	static uint8_t buf[65536];
	struct pollfd pfd = { .fd = peer->rx, .events = POLLIN };
	uint8_t tos;
	size_t hdr;
	ssize_t n;

	if (poll(&pfd, 1, ms) <= 0)
		return false;
	n = recv_tos(peer->rx, buf, sizeof(buf), &tos);
	if (n < 16)
		rt_die("received %zd bytes: %m", n);
	hdr = get_headers(buf, k);
	k->tos = tos;
	if (hdr + 4 > n)
		rt_die("opcode %#x in %zd bytes", k->opcode, n);
	k->data = buf + hdr;
	k->len = n - hdr - 4 - (k->flags >> 4 & 3);
	return true;
}
