/* SPDX-License-Identifier: Apache-2.0 */
/* NewReno: RFC 5681 with appropriate byte counting, RFC 3465. And slow start for both controls. */
#include "tcp/internal.h"

enum {
	HYSTART_MIN_SAMPLES = 8,
	HYSTART_MIN_ETA_US = 4000,
	HYSTART_MAX_ETA_US = 16000,
	HYSTART_CSS_DIVISOR = 4,
	HYSTART_CSS_ROUNDS = 5,
};

void sl_tcp_hystart_start(struct sl_tcp_conn *c)
{
	c->flags &= ~(uint32_t)SL_TCPF_SLOW_START_OVER;
	c->cc.hystart = (struct sl_tcp_hystart){
		.round_end = c->snd_nxt,
		.last_min_us = UINT32_MAX,
		.cur_min_us = UINT32_MAX,
	};
}

static void next_round(struct sl_tcp_conn *c, struct sl_tcp_hystart *h)
{
	h->round_end = c->snd_nxt;
	h->last_min_us = h->cur_min_us;
	h->cur_min_us = UINT32_MAX;
	h->samples = 0;
	if (h->css_rounds && ++h->css_rounds > HYSTART_CSS_ROUNDS)
		c->ssthresh = c->cwnd;
}

/* RFC 9406 4.2: the round's smallest RTT has risen above that of the last round. */
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
		h->css_rounds = 0; /* it was a disturbance */
	}
}

/* Returns the bytes that are left for congestion avoidance. */
uint32_t sl_tcp_hystart_acked(struct sl_tcp_conn *c, uint32_t acked, uint32_t rtt_us)
{
	struct sl_tcp_hystart *h = &c->cc.hystart;
	uint32_t grow = acked, room = c->ssthresh - c->cwnd;

	/* The union holds these fields in the first slow start only. */
	if (c->recovery != SL_RECOVERY_LOSS && !(c->flags & SL_TCPF_SLOW_START_OVER)) {
		if (rtt_us)
			sample_round(h, rtt_us);
		if (sl_seq_geq(c->snd_una, h->round_end))
			next_round(c, h);
		if (h->css_rounds)
			grow /= HYSTART_CSS_DIVISOR;
	}
	if (grow < room) {
		c->cwnd += grow;
		return 0;
	}
	c->cwnd += room;
	return grow - room;
}

static void newreno_acked(struct sl_tcp_conn *c, uint32_t acked, uint32_t rtt_us)
{
	if (c->cwnd < c->ssthresh) {
		acked = sl_tcp_hystart_acked(c, acked, rtt_us);
		if (!acked)
			return;
	}
	if (!(c->flags & SL_TCPF_SLOW_START_OVER)) {
		c->flags |= SL_TCPF_SLOW_START_OVER;
		c->cc.prr = (struct sl_tcp_prr){0};
	}
	c->cc.prr.delivered += acked; /* bytes towards the next segment of growth */
	while (c->cc.prr.delivered >= c->cwnd) {
		c->cc.prr.delivered -= c->cwnd;
		c->cwnd += c->mss;
	}
}

/* RFC 5681 3.1, equation 4 */
static uint32_t newreno_loss(struct sl_tcp_conn *c)
{
	uint32_t half = (c->snd_nxt - c->snd_una) / 2;

	return half > 2u * c->mss ? half : 2u * c->mss;
}

static void newreno_recovered(struct sl_tcp_conn *c)
{
	c->flags |= SL_TCPF_SLOW_START_OVER;
	c->cc.prr = (struct sl_tcp_prr){0};
}

const struct sl_tcp_cc_ops sl_tcp_cc_newreno = {
	.name = "newreno",
	.start = sl_tcp_hystart_start,
	.acked = newreno_acked,
	.loss = newreno_loss,
	.recovered = newreno_recovered,
};
