/* SPDX-License-Identifier: Apache-2.0 */
/* Time-out (RFC 6298, Karn) and choice of the retransmission timer. */
#include "tcp/internal.h"

void sl_tcp_rtt_sample(struct sl_tcp_conn *c, uint32_t rtt_us)
{
	if (rtt_us == 0)
		rtt_us = 1;
	if (!c->srtt_us) {
		c->srtt_us = rtt_us;
		c->rttvar_us = rtt_us / 2;
	} else {
		uint32_t diff = c->srtt_us > rtt_us ? c->srtt_us - rtt_us : rtt_us - c->srtt_us;

		c->rttvar_us += (diff >> 2) - (c->rttvar_us >> 2);
		c->srtt_us = c->srtt_us - (c->srtt_us >> 3) + (rtt_us >> 3);
		if (!c->srtt_us)
			c->srtt_us = 1;
	}
	if (!c->min_rtt_us || rtt_us < c->min_rtt_us)
		c->min_rtt_us = rtt_us;
}

/* The minimum is below RFC 6298 2.4's second, as usual. */
uint32_t sl_tcp_rto_us(const struct sl_tcp_conn *c)
{
	uint64_t rto = SL_TCP_RTO_INIT_US;

	if (c->srtt_us) {
		uint32_t var = 4 * c->rttvar_us;

		rto = (uint64_t)c->srtt_us + (var > SL_TCP_RTO_MIN_US ? var : SL_TCP_RTO_MIN_US);
	}
	rto <<= c->backoff < 10 ? c->backoff : 10;
	return rto < SL_TCP_RTO_MAX_US ? (uint32_t)rto : SL_TCP_RTO_MAX_US;
}

void sl_tcp_rearm_rtx(struct sl_tcp_conn *c)
{
	uint64_t us = sl_tcp_rto_us(c);

	if (c->snd_una == c->snd_nxt) {
		if (c->rtx_kind != SL_RTX_PERSIST && c->rtx_kind != SL_RTX_NO_FRAME) {
			c->rtx_kind = SL_RTX_NONE;
			c->rtx_at = 0;
		}
		return;
	}
	if (c->rtx_kind == SL_RTX_REORDER)
		return;
	/* RFC 8985 7.2 */
	if ((c->flags & (SL_TCPF_SACK | SL_TCPF_TLP_OUT)) == SL_TCPF_SACK && c->srtt_us &&
	    c->recovery == SL_RECOVERY_OPEN && !c->backoff) {
		uint64_t probe = 2 * (uint64_t)c->srtt_us;

		probe += c->snd_nxt - c->snd_una <= c->mss ? SL_TCP_TLP_ACK_US : SL_TCP_TLP_MIN_US;
		sl_tcp_set_rtx(c, SL_RTX_TLP, (probe < us ? probe : us) * SL_NS_PER_US);
		return;
	}
	sl_tcp_set_rtx(c, SL_RTX_RTO, us * SL_NS_PER_US);
}
