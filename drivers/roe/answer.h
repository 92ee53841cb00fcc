/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * What the responder owes to its peer: see answer.c. Here is what responder.c and query.c
 * tell it; that and when it leaves is for all (transport.h).
 */
#ifndef ROE_ANSWER_H
#define ROE_ANSWER_H

#include "transport.h"

/**
 * roe_answer_owe() - an ACK or NAK is to leave
 * @resp: of an RC QP; qp->lock held
 * @psn: of the request that it acknowledges or refuses
 * @syndrome: of its AETH
 *
 * It takes the place of one that is owed already, for it says as much of all that came before
 * (wire.md 4.2), and leaves at once, unless roe_echo_message() or roe_answer_put_off() follows.
 * Inline: nearly each message is here.
 */
static inline void roe_answer_owe(struct roe_resp *resp, u32 psn, u8 syndrome)
{
	resp->ack_due = true;
	resp->ack_psn = psn;
	resp->ack_syndrome = syndrome;
	resp->ack_after = 0;
	resp->echo.until = 0;
}

struct roe_rsrc *roe_answer_begin(struct roe_qp *qp, const struct roe_pkt *p, u8 kind);
bool roe_answer_flush(struct roe_resp *resp, u32 psn, u32 msn);
void roe_answer_owe_again(struct roe_resp *resp);
bool roe_answer_put_off(struct roe_qp *qp, const struct roe_ctx *ctx, u32 psn);
void roe_answer_fatal(struct roe_qp *qp, u32 psn, u8 syndrome);
void roe_answer_duplicate(struct roe_qp *qp, const struct roe_ctx *ctx,
			  const struct roe_pkt *p);

/*
 * The RNR NAK of memory that is not pinned and not there. The peer cannot be told when the
 * page has come, so it asks again after 0.64 ms, and while the worker is @busy waits
 * four times as long each time: also with few retries it outlasts a disk.
 */
static inline u8 roe_resp_page_nak(struct roe_resp *resp, bool busy)
{
	resp->page_naks = busy ? min(resp->page_naks + 1, 4) : 0;
	return ROE_AETH_RNR_NAK | (12 + 4 * resp->page_naks);
}

#endif /* ROE_ANSWER_H */
