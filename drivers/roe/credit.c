// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * End-to-end credits of RC, as a requester (IBTA 9.7.7.2, wire.md 4.2).
 *
 * A responder without an SRQ may say with each acknowledgment how many receive WQEs it has,
 * as hardware does. It refuses messages beyond that by an RNR NAK: with the timer that the CM
 * leaves at 0 that costs 655 ms, and with an rnr_retry of 0 the connection. So such a message
 * waits here until an acknowledgment, solicited or not, brings more credits; or until nothing is
 * in flight. Then one message is sent without a credit: only its answer can tell of receive WQEs
 * that were posted since.
 *
 *	LSN = MSN of the acknowledgment + its credits
 *
 * Messages that take no receive WQE are numbered, too, so each of them raises the limit by 1.
 *
 * Code 0x1f says that there is no limit. rdma_rxe and roe send it, as they cannot see what a
 * process is about to post. There is no limit, either, for a peer that counts messages in
 * another way than the specification; nor, until it refuses one, for a peer that accepts several
 * messages in a row for which it had said to have no receive WQE: its receives come just in
 * time, or it has not looked at them.
 */
#include "credit.h"
#include "transport.h"

static const u16 credits[ROE_AETH_NO_CREDITS] = {
	0, 1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1024,
	1536, 2048, 3072, 4096, 6144, 8192, 12288, 16384, 24576, 32768,
};

/**
 * roe_credit_takes() - does this message need a receive WQE of the peer?
 * @wqe: RC or UC
 *
 * Return: true for a SEND and a WRITE with immediate.
 */
bool roe_credit_takes(const struct roe_swqe *wqe)
{
	switch (wqe->opcode) {
	case IB_WR_SEND:
	case IB_WR_SEND_WITH_IMM:
	case IB_WR_SEND_WITH_INV:
	case IB_WR_RDMA_WRITE_WITH_IMM:
		return true;
	default:
		return false;
	}
}

/*
 * Does the peer count messages as specified? Then @msn is not less than what is acknowledged,
 * and not more than what was started.
 */
static bool counts_alike(const struct roe_credit *credit, u32 msn)
{
	return roe_psn_diff(msn, credit->done) >= 0 && roe_psn_diff(credit->ssn, msn) >= 0;
}

/**
 * roe_credit_learn() - a response of the peer has come
 * @qp: RC, of the requester; what the response acknowledges is retired already
 * @p: with an AETH
 */
void roe_credit_learn(struct roe_qp *qp, const struct roe_pkt *p)
{
	u8 code = p->syndrome & ROE_AETH_VALUE_MASK;
	struct roe_credit *credit = &qp->req.credit;
	u32 lsn;

	if ((p->syndrome & ~ROE_AETH_VALUE_MASK) != ROE_AETH_ACK)
		return;
	if (code == ROE_AETH_NO_CREDITS || !counts_alike(credit, p->msn) ||
	    credit->beyond >= ROE_CREDIT_WRONG) {
		credit->limited = false;
		return;
	}
	lsn = roe_psn_add(p->msn, credits[code]);
	/* an older acknowledgment may arrive after a newer one */
	if (!credit->limited || roe_psn_diff(lsn, credit->lsn) > 0)
		credit->lsn = lsn;
	credit->limited = true;
}

/**
 * roe_credit_allows() - may a message be started?
 * @qp: RC
 * @wqe: the next one
 *
 * Return: false: the peer has no receive WQE for it, and some answer of the peer is still to
 * come.
 */
bool roe_credit_allows(const struct roe_qp *qp, const struct roe_swqe *wqe)
{
	const struct roe_credit *credit = &qp->req.credit;

	return !credit->limited || !roe_credit_takes(wqe) || qp->req.una == qp->req.psn ||
	       roe_psn_diff(credit->ssn, credit->lsn) < 0;
}

/**
 * roe_credit_started() - a message has its PSNs
 * @credit: of its QP
 * @wqe: of the message
 */
void roe_credit_started(struct roe_credit *credit, const struct roe_swqe *wqe)
{
	credit->ssn = roe_psn_add(credit->ssn, 1);
	if (!credit->limited)
		return;
	if (!roe_credit_takes(wqe))
		credit->lsn = roe_psn_add(credit->lsn, 1);
	else if (roe_psn_diff(credit->ssn, credit->lsn) > 0)
		credit->beyond++;
	else
		credit->beyond = 0;
}
