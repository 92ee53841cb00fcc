// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * BTH and extended headers, converted between the bytes on the wire and struct roe_pkt.
 *
 * Both directions walk the flags of the opcode table in the order in which the headers follow
 * each other, so they cannot disagree. Pure functions on memory: no skb, no locks, no context.
 */
#include <linux/errno.h>
#include <linux/kernel.h>
#include <linux/string.h>
#include <roe/opcode.h>
#include <roe/pkt.h>

static void build_bth(const struct roe_pkt *pkt, u32 flags, struct roe_bth *bth)
{
	/*
	 * MigReq 1 says "path state MIGRATED"; hardware sends it in all packets but CNPs, in
	 * which it sends 0 and sets BECN (wire.md 1.6, 10).
	 */
	bool cnp = flags & ROE_F_CNP;

	bth->opcode = pkt->opcode;
	bth->flags = (pkt->se ? ROE_BTH_SE : 0) | (cnp ? 0 : ROE_BTH_MIG) |
		     roe_pkt_pad(pkt->len) << ROE_BTH_PAD_SHIFT;
	bth->pkey = cpu_to_be16(pkt->pkey);
	bth->qpn = cpu_to_be32((pkt->qpn & ROE_QPN_MASK) | (cnp ? ROE_BTH_BECN : 0));
	bth->apsn = roe_header_apsn(pkt);
}

static u8 *build_request(const struct roe_pkt *pkt, u32 flags, u8 *p)
{
	if (flags & ROE_F_DETH) {
		struct roe_deth *deth = (void *)p;

		deth->qkey = cpu_to_be32(pkt->qkey);
		deth->sqp = cpu_to_be32(pkt->sqp & ROE_QPN_MASK);
		p += sizeof(*deth);
	}
	if (flags & ROE_F_FETH) {
		struct roe_feth *feth = (void *)p;

		feth->bits = cpu_to_be32(pkt->feth);
		p += sizeof(*feth);
	}
	if (flags & ROE_F_RETH) {
		struct roe_reth *reth = (void *)p;

		reth->va = cpu_to_be64(pkt->va);
		reth->rkey = cpu_to_be32(pkt->rkey);
		reth->dmalen = cpu_to_be32(pkt->dmalen);
		p += sizeof(*reth);
	}
	if (flags & ROE_F_ATOMICETH) {
		struct roe_atomiceth *atomic = (void *)p;

		atomic->va = cpu_to_be64(pkt->va);
		atomic->rkey = cpu_to_be32(pkt->rkey);
		atomic->swap_add = cpu_to_be64(pkt->swap_add);
		atomic->compare = cpu_to_be64(pkt->compare);
		p += sizeof(*atomic);
	}
	return p;
}

static u8 *build_response(const struct roe_pkt *pkt, u32 flags, u8 *p)
{
	if (flags & ROE_F_AETH) {
		struct roe_aeth *aeth = (void *)p;

		aeth->smsn = cpu_to_be32((u32)pkt->syndrome << 24 |
					 (pkt->msn & ROE_PSN_MASK));
		p += sizeof(*aeth);
	}
	if (flags & ROE_F_ATOMICACK) {
		struct roe_atomicacketh *ack = (void *)p;

		ack->orig = cpu_to_be64(pkt->compare);
		p += sizeof(*ack);
	}
	return p;
}

/**
 * roe_header_build_extended() - write the headers behind the BTH
 * @pkt: as for roe_header_build()
 * @buf: where the BTH is; the other headers follow it
 *
 * Return: bytes of all headers, the BTH included.
 */
unsigned int roe_header_build_extended(const struct roe_pkt *pkt, u8 *buf)
{
	u32 flags = roe_opcode(pkt->opcode)->flags;
	u8 *p = buf + sizeof(struct roe_bth);

	p = build_request(pkt, flags, p);
	p = build_response(pkt, flags, p);
	if (flags & ROE_F_IMM) {
		((struct roe_immdt *)p)->imm = pkt->imm;
		p += sizeof(struct roe_immdt);
	}
	if (flags & ROE_F_IETH) {
		((struct roe_ieth *)p)->rkey = cpu_to_be32(pkt->rkey);
		p += sizeof(struct roe_ieth);
	}
	if (flags & ROE_F_CNP) {
		memset(p, 0, ROE_CNP_BODY_LEN);
		p += ROE_CNP_BODY_LEN;
	}
	return p - buf;
}

ROE_EXPORT_FOR_TEST(roe_header_build_extended);

/**
 * roe_header_build() - write BTH and extended headers
 * @pkt: values; only the fields of @pkt->opcode's headers are read
 * @buf: room for ROE_HDR_MAX bytes, no alignment needed
 *
 * Return: bytes written, 0 for an unknown opcode.
 */
unsigned int roe_header_build(const struct roe_pkt *pkt, u8 *buf)
{
	const struct roe_opcode_info *info = roe_opcode(pkt->opcode);

	if (!info->flags)
		return 0;

	build_bth(pkt, info->flags, (struct roe_bth *)buf);
	/* most packets are in the middle of a message */
	if (info->hdrlen == sizeof(struct roe_bth))
		return sizeof(struct roe_bth);
	return roe_header_build_extended(pkt, buf);
}

ROE_EXPORT_FOR_TEST(roe_header_build);

/* Byte 4 and the reserved bits of byte 8 are ignored on receive (wire.md 1.6). */
static void parse_bth(const struct roe_bth *bth, struct roe_pkt *pkt)
{
	u32 apsn = be32_to_cpu(bth->apsn);

	pkt->opcode = bth->opcode;
	pkt->se = bth->flags & ROE_BTH_SE;
	pkt->pkey = be16_to_cpu(bth->pkey);
	pkt->qpn = be32_to_cpu(bth->qpn) & ROE_QPN_MASK;
	pkt->ackreq = apsn & ROE_BTH_ACKREQ;
	pkt->psn = apsn & ROE_PSN_MASK;
}

static const u8 *parse_request(const u8 *p, u32 flags, struct roe_pkt *pkt)
{
	if (flags & ROE_F_DETH) {
		const struct roe_deth *deth = (const void *)p;

		pkt->qkey = be32_to_cpu(deth->qkey);
		pkt->sqp = be32_to_cpu(deth->sqp) & ROE_QPN_MASK;
		p += sizeof(*deth);
	}
	if (flags & ROE_F_FETH) {
		const struct roe_feth *feth = (const void *)p;

		pkt->feth = be32_to_cpu(feth->bits);
		p += sizeof(*feth);
	}
	if (flags & ROE_F_RETH) {
		const struct roe_reth *reth = (const void *)p;

		pkt->va = be64_to_cpu(reth->va);
		pkt->rkey = be32_to_cpu(reth->rkey);
		pkt->dmalen = be32_to_cpu(reth->dmalen);
		p += sizeof(*reth);
	}
	if (flags & ROE_F_ATOMICETH) {
		const struct roe_atomiceth *atomic = (const void *)p;

		pkt->va = be64_to_cpu(atomic->va);
		pkt->rkey = be32_to_cpu(atomic->rkey);
		pkt->swap_add = be64_to_cpu(atomic->swap_add);
		pkt->compare = be64_to_cpu(atomic->compare);
		p += sizeof(*atomic);
	}
	return p;
}

static const u8 *parse_response(const u8 *p, u32 flags, struct roe_pkt *pkt)
{
	if (flags & ROE_F_AETH) {
		u32 smsn = be32_to_cpu(((const struct roe_aeth *)p)->smsn);

		pkt->syndrome = smsn >> 24;
		pkt->msn = smsn & ROE_PSN_MASK;
		p += sizeof(struct roe_aeth);
	}
	if (flags & ROE_F_ATOMICACK) {
		pkt->compare = be64_to_cpu(((const struct roe_atomicacketh *)p)->orig);
		p += sizeof(struct roe_atomicacketh);
	}
	return p;
}

/**
 * roe_header_parse_extended() - read the headers behind the BTH
 * @buf: the BTH, with all headers behind it
 * @pkt: opcode is set; takes what the headers say
 */
void roe_header_parse_extended(const u8 *buf, struct roe_pkt *pkt)
{
	u32 flags = roe_opcode(pkt->opcode)->flags;
	const u8 *p = buf + sizeof(struct roe_bth);

	p = parse_request(p, flags, pkt);
	p = parse_response(p, flags, pkt);
	if (flags & ROE_F_IMM)
		pkt->imm = ((const struct roe_immdt *)p)->imm;
	if (flags & ROE_F_IETH)
		pkt->rkey = be32_to_cpu(((const struct roe_ieth *)p)->rkey);
}

ROE_EXPORT_FOR_TEST(roe_header_parse_extended);

/* A packet with an unknown opcode is a BTH and payload: a responder answers it with a NAK. */
static unsigned int header_len(u8 opcode)
{
	return roe_opcode(opcode)->hdrlen ?: sizeof(struct roe_bth);
}

/**
 * roe_header_parse() - read BTH and extended headers and prove the lengths
 * @buf: the BTH; min(@len, ROE_HDR_MAX) bytes of it, no alignment needed. Nobody may write to
 *	it meanwhile, so it is a copy, not the packet
 * @len: bytes from the BTH to the end of the ICRC, from the UDP length
 * @pkt: written completely; fields without a header become 0
 *
 * Does not check what payload the opcode may carry: that is roe_opcode_len_ok(), which needs
 * the MTU of the QP.
 *
 * Return: bytes of BTH and extended headers, or -EINVAL if headers, pad and ICRC do not fit
 * into @len, or the payload with its pad is no multiple of 4 bytes.
 */
int roe_header_parse(const u8 *buf, u32 len, struct roe_pkt *pkt)
{
	const struct roe_bth *bth = (const struct roe_bth *)buf;
	unsigned int hdrlen, pad;

	if (len < sizeof(*bth) + ROE_ICRC_LEN)
		return -EINVAL;
	hdrlen = header_len(bth->opcode);
	pad = (bth->flags & ROE_BTH_PAD_MASK) >> ROE_BTH_PAD_SHIFT;
	if (len % 4 || len < hdrlen + pad + ROE_ICRC_LEN)
		return -EINVAL;

	memset(pkt, 0, sizeof(*pkt));
	parse_bth(bth, pkt);
	pkt->len = len - hdrlen - pad - ROE_ICRC_LEN;

	if (hdrlen != sizeof(*bth))
		roe_header_parse_extended(buf, pkt);
	return hdrlen;
}

ROE_EXPORT_FOR_TEST(roe_header_parse);
