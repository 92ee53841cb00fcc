/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * What the responder owes to its peer: see answer.c. Declared here is what responder.c and
 * query.c call to say what is owed; what makes it leave is for all files (transport.h).
 */
#ifndef ROE_ANSWER_H
#define ROE_ANSWER_H

#include "transport.h"

/**
 * roe_answer_owe() - owe an ACK or NAK
 * @resp: of an RC QP; qp->lock held
 * @psn: of the request that it acknowledges or refuses
 * @syndrome: of its AETH
 *
 * It replaces an ACK or NAK that is owed already, because it says as much about all earlier
 * requests (wire.md 4.2). It leaves at once, unless roe_echo_message() or roe_answer_put_off()
 * follows. Inline: nearly every message comes through here.
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
 * Syndrome of the RNR NAK for on-demand memory of which a page is missing. The peer cannot be
 * told when the page has come, so it asks again after 0.64 ms, and after four times as long
 * each time while the worker is @busy: even with few retries that outlasts a disk.
 */
static inline u8 roe_resp_page_nak(struct roe_resp *resp, bool busy)
{
	resp->page_naks = busy ? min(resp->page_naks + 1, 4) : 0;
	return ROE_AETH_RNR_NAK | (12 + 4 * resp->page_naks);
}

#endif /* ROE_ANSWER_H */
