/* SPDX-License-Identifier: Apache-2.0 */
/* CUBIC, RFC 9438. Windows in segments, times in seconds. */
#include <math.h>
#include "tcp/internal.h"

static const float cubic_c = 0.4f;
static const float cubic_beta = 0.7f;
static const float cubic_alpha = 3.0f * (1.0f - 0.7f) / (1.0f + 0.7f);

static float segments(const struct sl_tcp_conn *c, uint32_t bytes)
{
	return (float)bytes / (float)c->mss;
}

/* RFC 9438 4.2 */
static void begin_epoch(struct sl_tcp_conn *c)
{
	struct sl_tcp_cubic *q = &c->cc.cubic;
	float cwnd = segments(c, c->cwnd);

	q->epoch_us = now_us(c->tcp);
	if (!q->epoch_us)
		q->epoch_us = UINT32_MAX; /* 0: none */
	q->w_est = cwnd;
	q->cwnd_prior = c->w_max > cwnd ? c->w_max : cwnd;
	if (c->w_max < cwnd)
		c->w_max = cwnd;
	q->k = cbrtf((c->w_max - cwnd) / cubic_c);
}

static float window_at(const struct sl_tcp_conn *c, float t)
{
	float d = t - c->cc.cubic.k;

	return cubic_c * d * d * d + c->w_max;
}

void sl_tcp_cubic_acked(struct sl_tcp_conn *c, uint32_t acked_bytes, uint32_t rtt_us)
{
	struct sl_tcp_cubic *q = &c->cc.cubic;
	float cwnd, acked, t, target, alpha;

	acked_bytes = sl_tcp_slow_start_acked(c, acked_bytes, rtt_us);
	if (!acked_bytes)
		return;
	cwnd = segments(c, c->cwnd);
	acked = segments(c, acked_bytes);
	if (!q->epoch_us)
		begin_epoch(c);
	t = (float)(now_us(c->tcp) - q->epoch_us) * 1e-6f;
	/* RFC 9438 4.3 */
	alpha = q->w_est >= q->cwnd_prior ? 1.0f : cubic_alpha;
	q->w_est += alpha * acked / cwnd;
	if (window_at(c, t) < q->w_est) {
		cwnd = q->w_est > cwnd ? q->w_est : cwnd;
	} else { /* 4.4, 4.5 */
		target = window_at(c, t + (float)c->srtt_us * 1e-6f);
		if (target > 1.5f * cwnd)
			target = 1.5f * cwnd;
		if (target > cwnd)
			cwnd += (target - cwnd) / cwnd * acked;
	}
	cwnd *= (float)c->mss;
	if (cwnd < (float)(UINT32_MAX / 4))
		c->cwnd = (uint32_t)(cwnd + 0.5f);
}

/* RFC 9438 4.6, 4.7 */
uint32_t sl_tcp_cubic_loss(struct sl_tcp_conn *c)
{
	float cwnd = segments(c, c->cwnd), reduced = (float)c->cwnd * cubic_beta;

	c->w_max = cwnd < c->w_max ? cwnd * (1.0f + cubic_beta) / 2.0f : cwnd;
	return reduced > 2.0f * (float)c->mss ? (uint32_t)reduced : 2u * c->mss;
}
