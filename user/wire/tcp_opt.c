/* SPDX-License-Identifier: Apache-2.0 */
#include "wire/tcp_opt.h"

static void take_mss(const uint8_t *val, size_t len, struct sl_tcp_opts *o)
{
	(void)len;
	o->mss = sl_get_be16(val);
}

static void take_wscale(const uint8_t *val, size_t len, struct sl_tcp_opts *o)
{
	(void)len;
	o->wscale = (int8_t)(val[0] > SL_TCP_WSCALE_MAX ? SL_TCP_WSCALE_MAX : val[0]);
}

static void take_sack_ok(const uint8_t *val, size_t len, struct sl_tcp_opts *o)
{
	(void)val, (void)len;
	o->sack_ok = true;
}

static void take_sack(const uint8_t *val, size_t len, struct sl_tcp_opts *o)
{
	o->sack_cnt = (uint8_t)(len / 8);
	for (unsigned i = 0; i < o->sack_cnt; i++) {
		o->sack[i].start = sl_get_be32(val + 8 * i);
		o->sack[i].end = sl_get_be32(val + 8 * i + 4);
	}
}

static void take_ts(const uint8_t *val, size_t len, struct sl_tcp_opts *o)
{
	(void)len;
	o->has_ts = true;
	o->ts_val = sl_get_be32(val);
	o->ts_ecr = sl_get_be32(val + 4);
}

static const struct {
	uint8_t min, max, step;
	void (*take)(const uint8_t *val, size_t len, struct sl_tcp_opts *o);
} known[] = {
	[SL_TCP_OPT_MSS] = {4, 4, 1, take_mss},
	[SL_TCP_OPT_WSCALE] = {3, 3, 1, take_wscale},
	[SL_TCP_OPT_SACK_OK] = {2, 2, 1, take_sack_ok},
	[SL_TCP_OPT_SACK] = {10, 2 + 8 * SL_TCP_SACK_MAX, 8, take_sack},
	[SL_TCP_OPT_TS] = {10, 10, 1, take_ts},
};

int sl_tcp_opt_parse(const uint8_t *p, size_t len, struct sl_tcp_opts *o)
{
	size_t off = 0;

	*o = (struct sl_tcp_opts)SL_TCP_OPTS_NONE;
	while (off < len && p[off] != SL_TCP_OPT_END) {
		uint8_t kind = p[off], n;

		if (kind == SL_TCP_OPT_NOP) {
			off++;
			continue;
		}
		if (len - off < 2)
			return SL_WIRE_OPTIONS;
		n = p[off + 1];
		if (n < 2 || n > len - off)
			return SL_WIRE_OPTIONS;
		if (kind < sizeof(known) / sizeof(known[0]) && known[kind].take) {
			if (n < known[kind].min || n > known[kind].max ||
			    (n - known[kind].min) % known[kind].step)
				return SL_WIRE_OPTIONS;
			known[kind].take(p + off + 2, n - 2u, o);
		}
		off += n;
	}
	return 0;
}

size_t sl_tcp_opt_write_syn(uint8_t *p, const struct sl_tcp_opts *o)
{
	uint8_t *at = p;

	if (o->mss) {
		at[0] = SL_TCP_OPT_MSS;
		at[1] = 4;
		sl_put_be16(at + 2, o->mss);
		at += 4;
	}
	if (o->has_ts)
		sl_tcp_opt_write_ts(at, o->ts_val, o->ts_ecr);
	if (o->has_ts || o->sack_ok) {
		at[0] = o->sack_ok ? SL_TCP_OPT_SACK_OK : SL_TCP_OPT_NOP;
		at[1] = o->sack_ok ? 2 : SL_TCP_OPT_NOP;
		if (!o->has_ts)
			at[2] = at[3] = SL_TCP_OPT_NOP;
		at += o->has_ts ? SL_TCP_OPT_TS_LEN : 4;
	}
	if (o->wscale >= 0) {
		at[0] = SL_TCP_OPT_NOP;
		at[1] = SL_TCP_OPT_WSCALE;
		at[2] = 3;
		at[3] = (uint8_t)o->wscale;
		at += 4;
	}
	return (size_t)(at - p);
}

size_t sl_tcp_opt_write(uint8_t *p, const struct sl_tcp_opts *o)
{
	size_t len = sl_tcp_opt_len(o->has_ts, o->sack_cnt);
	size_t off = 0, cnt;

	if (o->has_ts)
		off = sl_tcp_opt_write_ts(p, o->ts_val, o->ts_ecr);
	if (off == len)
		return len;
	cnt = (len - off - 4) / 8;
	p[off] = SL_TCP_OPT_NOP;
	p[off + 1] = SL_TCP_OPT_NOP;
	p[off + 2] = SL_TCP_OPT_SACK;
	p[off + 3] = (uint8_t)(2 + 8 * cnt);
	off += 4;
	for (size_t i = 0; i < cnt; i++, off += 8) {
		sl_put_be32(p + off, o->sack[i].start);
		sl_put_be32(p + off + 4, o->sack[i].end);
	}
	return len;
}
