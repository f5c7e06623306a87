/* SPDX-License-Identifier: Apache-2.0 */
/*
 * SYN cookies: the SYN-ACK encodes the SYN.
 *
 *   sequence number   mss:3 | minute parity:1 | keyed hash:28  (four-tuple, ISN, minute, mss)
 *   timestamp         ... | sack:1 | scale:4 (15 none)         if the SYN had one
 *
 * Valid in its minute and the next. A blind attacker needs about 10^8 segments per forged
 * connection.
 */
#include "tcp/internal.h"

enum {
	COOKIE_HASH_BITS = 28,
	COOKIE_PERIOD_SHIFT = 36, /* of nanoseconds: 69 s */
	COOKIE_TS_BITS = 5,
	COOKIE_NO_SCALE = 15,
};

static const uint16_t cookie_mss[8] = {216, 536, 1024, 1220, 1360, 1440, 1460, 8960};

static uint32_t cookie_hash(const struct sl_tcp *t, const struct sl_flow_key *key, uint32_t irs,
			    uint64_t period, uint32_t mss_index)
{
	struct {
		struct sl_flow_key key;
		uint64_t period;
		uint32_t irs;
		uint32_t mss_index;
	} in = {*key, period, irs, mss_index};

	return (uint32_t)sl_siphash24(&t->cookie_key, &in, sizeof(in)) >> (32 - COOKIE_HASH_BITS);
}

static uint64_t cookie_period(const struct sl_tcp *t)
{
	return now_ns(t) >> COOKIE_PERIOD_SHIFT;
}

static uint32_t cookie_timestamp(const struct sl_tcp *t, const struct sl_flow_key *key,
				 const struct sl_tcp_opts *o)
{
	uint32_t clock = ts_clock(t, sl_tcp_ts_offset(t, key));
	uint32_t bits = o->wscale < 0 ? COOKIE_NO_SCALE : (uint32_t)o->wscale;
	uint32_t mask = (1u << COOKIE_TS_BITS) - 1;
	uint32_t ts;

	if (o->sack_ok)
		bits |= 1u << 4;
	ts = (clock & ~mask) | bits;
	return sl_seq_gt(ts, clock) ? ts - (mask + 1) : ts;
}

void sl_tcp_cookie_send(struct sl_tcp *t, const struct sl_tcp_seg *seg,
			const struct sl_net_path *path, const struct sl_flow_key *key)
{
	const struct sl_tcp_opts *syn = &seg->opts;
	struct sl_tcp_opts o = SL_TCP_OPTS_NONE;
	uint16_t mss = path->family == 4 ? SL_TCP_DEFAULT_MSS4 : SL_TCP_DEFAULT_MSS6;
	struct sl_tcp_bare b = {
		.path = path,
		.local_port_be = key->local_port_be,
		.remote_port_be = key->remote_port_be,
		.ack = seg->seq + 1,
		.flags = SL_TCP_SYN | SL_TCP_ACK,
		.wnd = sl_tcp_syn_window(t),
		.opts = &o,
	};
	uint64_t period;
	uint32_t i;

	o.mss = sl_tcp_our_mss(t, path);
	if (syn->has_ts) {
		o.has_ts = true;
		o.ts_val = cookie_timestamp(t, key, syn);
		o.ts_ecr = syn->ts_val;
		o.sack_ok = syn->sack_ok;
		o.wscale = syn->wscale < 0 ? -1 : (int8_t)t->rcv_wscale;
	}
	period = cookie_period(t);
	i = 7;
	while (i > 0 && cookie_mss[i] > (syn->mss ? syn->mss : mss))
		i--;
	b.seq = i << 29 | (uint32_t)(period & 1) << 28 | cookie_hash(t, key, seg->seq, period, i);
	t->cookie_until_ns = now_ns(t) + (UINT64_C(2) << COOKIE_PERIOD_SHIFT);
	sl_handover_cookie_sent(t->net, t->cookie_until_ns);
	if (sl_tcp_send_bare(t, &b))
		t->stats.syn_cookies_sent++;
	else
		sl_net_drop(t->net, SL_DROP_TCP_BACKLOG);
}

bool sl_tcp_cookie_check(const struct sl_tcp *t, struct sl_tcp_seg *seg,
			 const struct sl_flow_key *key)
{
	uint32_t cookie = seg->ack - 1;
	uint32_t i = cookie >> 29;
	uint64_t period = cookie_period(t);
	struct sl_tcp_opts *o = &seg->opts;

	if ((period & 1) != (cookie >> 28 & 1))
		period--;
	if (cookie_hash(t, key, seg->seq - 1, period, i) !=
	    (cookie & ((1u << COOKIE_HASH_BITS) - 1)))
		return false;
	o->mss = cookie_mss[i];
	o->wscale = -1;
	o->sack_ok = false;
	if (o->has_ts) {
		uint32_t bits = o->ts_ecr;

		o->sack_ok = bits >> 4 & 1;
		if ((bits & 15) != COOKIE_NO_SCALE)
			o->wscale = (int8_t)(bits & 15);
	}
	return true;
}
