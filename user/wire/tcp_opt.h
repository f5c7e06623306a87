/* SPDX-License-Identifier: Apache-2.0 */
/*
 * TCP options: MSS, window scale, SACK-permitted, SACK (RFC 2018), timestamps (RFC 7323).
 */
#ifndef SL_WIRE_TCP_OPT_H
#define SL_WIRE_TCP_OPT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/bytes.h"
#include "wire/tcp.h"
#include "wire/verdict.h"

enum {
	SL_TCP_OPT_END = 0,
	SL_TCP_OPT_NOP = 1,
	SL_TCP_OPT_MSS = 2,
	SL_TCP_OPT_WSCALE = 3,
	SL_TCP_OPT_SACK_OK = 4,
	SL_TCP_OPT_SACK = 5,
	SL_TCP_OPT_TS = 8,

	SL_TCP_SACK_MAX = 4,    /* 3 with timestamps */
	SL_TCP_WSCALE_MAX = 14, /* RFC 7323 2.3 */
	SL_TCP_OPT_TS_LEN = 12, /* NOP NOP TS */
};

struct sl_tcp_opts {
	uint16_t mss;  /* 0: none */
	int8_t wscale; /* -1: none; at most 14 */
	bool sack_ok;
	bool has_ts;
	uint8_t sack_cnt;
	uint32_t ts_val;
	uint32_t ts_ecr;
	struct {
		uint32_t start; /* host order; end is exclusive */
		uint32_t end;
	} sack[SL_TCP_SACK_MAX];
};

#define SL_TCP_OPTS_NONE                                                                           \
	{                                                                                          \
		.wscale = -1                                                                       \
	}

/*
 * Parses `len` bytes. Returns 0, or SL_WIRE_OPTIONS for a length under 2, over the end, or wrong
 * for its kind (RFC 9293 3.1); *o then holds the earlier options. Unknown kinds are skipped; the
 * last of repeated options counts. The caller checks whether an option may occur in this segment.
 */
int sl_tcp_opt_parse(const uint8_t *p, size_t len, struct sl_tcp_opts *o);

#define SL_TCP_OPT_TS_WORD UINT32_C(0x0101080a) /* NOP, NOP, kind 8, length 10 */

/* Returns true for exactly NOP NOP TS (RFC 7323 appendix A), as nearly all data segments have. */
static inline bool sl_tcp_opt_fast_ts(const uint8_t *p, size_t len, uint32_t *ts_val,
				      uint32_t *ts_ecr)
{
	if (len != SL_TCP_OPT_TS_LEN || sl_get_be32(p) != SL_TCP_OPT_TS_WORD)
		return false;
	*ts_val = sl_get_be32(p + 4);
	*ts_ecr = sl_get_be32(p + 8);
	return true;
}

/* Writes NOP NOP TS. Returns SL_TCP_OPT_TS_LEN. */
static inline size_t sl_tcp_opt_write_ts(uint8_t *p, uint32_t ts_val, uint32_t ts_ecr)
{
	sl_put_be32(p, SL_TCP_OPT_TS_WORD);
	sl_put_be32(p + 4, ts_val);
	sl_put_be32(p + 8, ts_ecr);
	return SL_TCP_OPT_TS_LEN;
}

/*
 * Write at most SL_TCP_OPT_MAX bytes. Return how many, a multiple of 4. _syn writes MSS,
 * SACK-permitted, timestamps and window scale; the other timestamps and as many SACK blocks as fit.
 */
size_t sl_tcp_opt_write_syn(uint8_t *p, const struct sl_tcp_opts *o);
size_t sl_tcp_opt_write(uint8_t *p, const struct sl_tcp_opts *o);

/* Returns the length that sl_tcp_opt_write() needs. */
static inline size_t sl_tcp_opt_len(bool has_ts, unsigned sack_cnt)
{
	unsigned max = has_ts ? SL_TCP_SACK_MAX - 1 : SL_TCP_SACK_MAX;
	unsigned cnt = sack_cnt < max ? sack_cnt : max;

	return (has_ts ? SL_TCP_OPT_TS_LEN : 0u) + (cnt ? 4 + 8 * cnt : 0u);
}

#endif
