/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * raw - a peer without an RDMA device: RoCEv2 packets byte by byte over a raw
 * socket in another network namespace, answers read from UDP port 4791 there.
 */
#ifndef RAW_H
#define RAW_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define RAW_PSN_MASK	0xffffffu
#define RAW_ACKREQ	0x80000000u
#define RAW_MAX		9000

/* BTH opcodes of RC */
enum {
	RAW_SEND_FIRST, RAW_SEND_MIDDLE, RAW_SEND_LAST, RAW_SEND_LAST_IMM,
	RAW_SEND_ONLY, RAW_SEND_ONLY_IMM, RAW_WRITE_FIRST, RAW_WRITE_MIDDLE,
	RAW_WRITE_LAST, RAW_WRITE_LAST_IMM, RAW_WRITE_ONLY, RAW_WRITE_ONLY_IMM,
	RAW_READ_REQ, RAW_READ_FIRST, RAW_READ_MIDDLE, RAW_READ_LAST,
	RAW_READ_ONLY, RAW_ACK, RAW_ATOMIC_ACK, RAW_CMP_SWAP, RAW_FETCH_ADD,
	RAW_SEND_LAST_INV = 0x16, RAW_SEND_ONLY_INV,
	RAW_CNP = 0x81,		/* of no transport; its payload: 16 bytes of zero */
};

/* What some makes do otherwise than others, or a network on the way; of raw_pkt.odd. */
enum {
	RAW_ID_ZERO	= 1 << 0,	/* IPv4 ID, as Huawei */
	RAW_ID_JUMP	= 1 << 1,	/* ... that does not count up by one */
	RAW_NO_DF	= 1 << 2,
	RAW_SUM		= 1 << 3,	/* UDP checksum, a right one */
	RAW_PORT_ZERO	= 1 << 4,	/* UDP source port, as the CNPs of ConnectX */
	RAW_RESERVED	= 1 << 5,	/* bits of BTH byte 8 */
	RAW_PAD_ONES	= 1 << 6,
	RAW_FRAGMENTS	= 1 << 7,	/* two of IPv4 */
	RAW_TRAILER	= 1 << 8,	/* Ethernet padding behind the packet */
	RAW_TAGGED	= 1 << 9,	/* 802.1Q, VLAN 0: a priority only */
	/* these are no RoCE */
	RAW_OPTIONS	= 1 << 10,	/* of IPv4 */
	RAW_UDP_SHORT	= 1 << 11,	/* UDP ends before IP does */
};

/* One packet as a record; zero is what most tests want. */
struct raw_pkt {
	uint8_t opcode;
	uint8_t flags;		/* BTH byte 1 without the pad count */
	uint8_t tver;
	uint8_t tos;		/* of the IP header */
	uint8_t becn;		/* BTH byte 4 */
	uint8_t ttl;		/* 0: 64 */
	uint16_t odd;		/* RAW_ID_ZERO ... */
	bool ackreq;
	bool bad_icrc;
	bool bad_pad;		/* pad count 3 whatever the length is */
	uint16_t pkey;		/* 0: the default one */
	uint32_t qpn;
	uint32_t psn;
	uint64_t va;		/* RETH, AtomicETH */
	uint32_t rkey;		/* also IETH */
	uint32_t dmalen;
	uint64_t swap_add;
	uint64_t compare;
	uint32_t imm;
	uint8_t syndrome;	/* AETH */
	uint32_t msn;
	uint64_t orig;		/* AtomicAckETH */
	const void *data;	/* payload; NULL: bytes of zero */
	size_t len;
};

struct raw_peer {
	int tx;			/* raw socket, headers ours */
	int l2;			/* packet socket */
	int ifindex;		/* of the netdev with @local */
	int rx;			/* UDP port 4791 */
	uint32_t local;		/* addresses, network order */
	uint32_t remote;
	uint16_t ip_id;
	int train;		/* UDP socket with our source port */
	bool collect;		/* into @cars instead of sending */
	unsigned int nr_cars;
	size_t car, cars_len;	/* bytes from BTH to ICRC: of the first, of all */
	uint8_t cars[60000];
};

/*
 * Sockets in the network namespace @netns (a name of `ip netns`), which owns
 * the IPv4 address @local; packets go to @remote. Ends the process on error.
 */
void raw_open(struct raw_peer *peer, const char *netns, const char *local,
	      const char *remote);

/* Sends one packet with valid headers, lengths and ICRC. */
void raw_send(struct raw_peer *peer, const struct raw_pkt *pkt);

/*
 * What raw_send() is given between these two leaves as one skb (UDP GSO): packets of one
 * length but for a shorter last one, with no oddities of the IP header.
 */
void raw_train_begin(struct raw_peer *peer);
void raw_train_send(struct raw_peer *peer);

/* Sends @len bytes from BTH to payload, adds the ICRC. */
void raw_send_bytes(struct raw_peer *peer, const void *bytes, size_t len);

/* The same from source address @from (network order). */
void raw_send_from(struct raw_peer *peer, const struct raw_pkt *pkt, uint32_t from);

/*
 * Waits @ms for the next packet of the device under test. Gives it as a record
 * (data and len: the payload, valid until the next call). False: silence.
 */
bool raw_recv(struct raw_peer *peer, struct raw_pkt *pkt, int ms);

#endif /* RAW_H */
