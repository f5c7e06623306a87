/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdlib.h>
#include "config/defaults.h"
#include "tcp/internal.h"

void sl_tcp_config_default(struct sl_tcp_config *cfg)
{
	*cfg = (struct sl_tcp_config){
		.max_conns = SL_DEFAULT_MAX_CONNECTIONS,
		.max_half_open = SL_DEFAULT_MAX_HALF_OPEN,
		.max_ooo_frames = 256,
		.max_ooo_frames_total = 4096,
		.rcv_buf = 256 << 10,
		.discard_max = SL_DEFAULT_MAX_BODY_MIB << 20,
		.snd_buf = 512 << 10,
		.snd_ahead = 16 << 10,
		.keepalive_ns = SL_DEFAULT_KEEPALIVE_S * SL_NS_PER_SEC,
		.user_timeout_ns = 120 * SL_NS_PER_SEC,
		.time_wait_ns = 60 * SL_NS_PER_SEC,
		.fin_wait2_ns = 60 * SL_NS_PER_SEC,
		.delayed_ack_ns = 40 * SL_NS_PER_MS,
	};
}

static struct sl_sipkey derive_key(const struct sl_net *net, uint64_t purpose)
{
	struct sl_sipkey base = sl_sipkey_from(net->hash_key);
	uint64_t words[2] = {purpose, 0};
	struct sl_sipkey key;

	key.k0 = sl_siphash24(&base, words, sizeof(words));
	words[1] = 1;
	key.k1 = sl_siphash24(&base, words, sizeof(words));
	return key;
}

static void init_keys(struct sl_tcp *t)
{
	struct sl_sipkey seed = derive_key(t->net, 4);

	t->isn_key = derive_key(t->net, 1);
	t->ts_key = derive_key(t->net, 2);
	t->cookie_key = derive_key(t->net, 3);
	sl_prng_seed(&t->prng, seed.k0 ^ (uintptr_t)t);
	t->share_key = sl_prng_u64(&t->prng) | 1;
}

static bool config_valid(const struct sl_tcp_config *cfg)
{
	return cfg->max_conns > 0 && cfg->max_conns < SL_TCP_TW_BASE && cfg->rcv_buf > 0 &&
	       cfg->rcv_buf <= (1u << 30) && cfg->discard_max <= (1u << 30) && cfg->snd_buf > 0 &&
	       cfg->snd_buf <= (1u << 30) && cfg->snd_ahead <= (1u << 30);
}

static uint8_t window_scale(uint32_t rcv_buf)
{
	uint8_t scale = 0;

	while (scale < SL_TCP_WSCALE_MAX && rcv_buf >> scale > 0xffff)
		scale++;
	return scale;
}

struct sl_tcp *sl_tcp_create(struct sl_net *net, const struct sl_tcp_config *cfg,
			     const struct sl_tcp_ops *ops, void *app)
{
	struct sl_sipkey flow_key = sl_sipkey_from(net->hash_key);
	struct sl_tcp *t;
	int err = -EINVAL;

	if (!config_valid(cfg))
		goto fail;
	err = -ENOMEM;
	t = calloc(1, sizeof(*t));
	if (!t)
		goto fail;
	t->net = net;
	t->umem = net->umem;
	t->ops = t->active_ops = *ops;
	t->app = app;
	t->cfg = *cfg;
	t->rcv_wscale = window_scale(cfg->rcv_buf);
	t->rsts.second = UINT64_MAX; /* no second yet */
	init_keys(t);
	sl_wheel_init(&t->wheel, now_ns(t), UINT64_C(1) << SL_TCP_TICK_SHIFT);

	err = sl_mempool_init(&t->conns, sizeof(struct sl_tcp_conn), SL_CACHELINE, cfg->max_conns);
	if (err)
		goto free_tcp;
	err = sl_tcp_tw_init(t);
	if (err)
		goto fini_conns;
	err = sl_flow_table_init(&t->flows, cfg->max_conns + sl_mempool_capacity(&t->tw), &flow_key,
				 sl_tcp_flow_match, t);
	if (err)
		goto fini_tw;
	net->tcp = (struct sl_l4){
		.ctx = t,
		.input = sl_tcp_input,
		.flows = &t->flows,
		.icmp_error = sl_tcp_icmp_error,
	};
	return t;

fini_tw:
	sl_tcp_tw_fini(t);
fini_conns:
	sl_mempool_fini(&t->conns);
free_tcp:
	free(t);
fail:
	errno = -err;
	return NULL;
}

void sl_tcp_destroy(struct sl_tcp *t)
{
	if (!t)
		return;
	for (uint32_t i = 0; i <= t->flows.mask + t->flows.split && t->conn_cnt; i++) {
		struct sl_flow_bucket *b = &t->flows.buckets[i];

		for (int k = 0; k < SL_FLOW_SLOTS; k++) {
			if (b->slot[k].hash && b->slot[k].value < SL_TCP_TW_BASE)
				sl_tcp_conn_drop(conn_of(t, b->slot[k].value + 1));
		}
	}
	t->net->tcp = (struct sl_l4){0};
	sl_flow_table_fini(&t->flows);
	sl_tcp_tw_fini(t);
	sl_mempool_fini(&t->conns);
	free(t);
}

void sl_tcp_stats(const struct sl_tcp *t, struct sl_tcp_stats *out)
{
	*out = t->stats;
	out->conns = t->cfg.max_active ? t->conn_cnt - t->active_cnt : t->conn_cnt;
	out->half_open = t->half_open;
	out->time_wait = sl_mempool_used(&t->tw);
	out->conn_bytes = (uint32_t)sizeof(struct sl_tcp_conn) + SL_FLOW_BYTES_MAX;
	if (t->net->handover)
		out->conn_bytes += SL_HANDOVER_FLOW_BYTES_MAX;
}
