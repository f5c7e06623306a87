/* SPDX-License-Identifier: Apache-2.0 */
/* Slow start with HyStart++ (RFC 9406) and byte counting (RFC 3465). */
#include "tcp/internal.h"

enum {
	HYSTART_MIN_SAMPLES = 8,
	HYSTART_MIN_ETA_US = 4000,
	HYSTART_MAX_ETA_US = 16000,
	HYSTART_CSS_DIVISOR = 4,
	HYSTART_CSS_ROUNDS = 5,
};

void sl_tcp_slow_start_begin(struct sl_tcp_conn *c)
{
	c->flags &= ~(uint32_t)SL_TCPF_SLOW_START_OVER;
	c->cc.hystart = (struct sl_tcp_hystart){
		.round_end = c->snd_nxt,
		.last_min_us = UINT32_MAX,
		.cur_min_us = UINT32_MAX,
	};
}

/* RFC 9406 4.2 */
static void sample_round(struct sl_tcp_hystart *h, uint32_t rtt_us)
{
	uint32_t eta = h->last_min_us / 8;

	if (rtt_us < h->cur_min_us)
		h->cur_min_us = rtt_us;
	if (h->samples < HYSTART_MIN_SAMPLES)
		h->samples++;
	if (h->samples < HYSTART_MIN_SAMPLES || h->last_min_us == UINT32_MAX)
		return;
	if (eta < HYSTART_MIN_ETA_US)
		eta = HYSTART_MIN_ETA_US;
	if (eta > HYSTART_MAX_ETA_US)
		eta = HYSTART_MAX_ETA_US;
	if (!h->css_rounds && h->cur_min_us >= h->last_min_us + eta) {
		h->css_base_us = h->cur_min_us;
		h->css_rounds = 1;
	} else if (h->css_rounds && h->cur_min_us < h->css_base_us) {
		h->css_rounds = 0; /* only jitter */
	}
}

void sl_tcp_slow_start_end(struct sl_tcp_conn *c)
{
	c->flags |= SL_TCPF_SLOW_START_OVER;
	memset(&c->cc, 0, sizeof(c->cc));
}

static uint32_t grow(struct sl_tcp_conn *c, uint32_t acked, uint32_t rtt_us)
{
	struct sl_tcp_hystart *h = &c->cc.hystart;
	uint32_t step = acked, room = c->ssthresh - c->cwnd;

	/* The union has these fields only in the first slow start. */
	if (c->recovery != SL_RECOVERY_LOSS && !(c->flags & SL_TCPF_SLOW_START_OVER)) {
		if (rtt_us)
			sample_round(h, rtt_us);
		if (sl_seq_geq(c->snd_una, h->round_end)) {
			h->round_end = c->snd_nxt;
			h->last_min_us = h->cur_min_us;
			h->cur_min_us = UINT32_MAX;
			h->samples = 0;
			if (h->css_rounds && ++h->css_rounds > HYSTART_CSS_ROUNDS)
				c->ssthresh = c->cwnd;
		}
		if (h->css_rounds)
			step /= HYSTART_CSS_DIVISOR;
	}
	if (step < room) {
		c->cwnd += step;
		return 0;
	}
	c->cwnd += room;
	return step - room;
}

uint32_t sl_tcp_slow_start_acked(struct sl_tcp_conn *c, uint32_t acked, uint32_t rtt_us)
{
	if (c->cwnd < c->ssthresh)
		acked = grow(c, acked, rtt_us);
	if (acked && !(c->flags & SL_TCPF_SLOW_START_OVER))
		sl_tcp_slow_start_end(c);
	return acked;
}
