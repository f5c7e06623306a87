/* SPDX-License-Identifier: Apache-2.0 */
#include "wire/tcp_opt.h"

#include "unit.h"
#include "base/rand.h"
#include "suite.h"

static struct sl_tcp_opts o;

static int parse(const void *bytes, size_t len)
{
	return sl_tcp_opt_parse(flush_copy(bytes, len), len, &o);
}
#define PARSE(...) parse((const uint8_t[]){__VA_ARGS__}, sizeof((const uint8_t[]){__VA_ARGS__}))

TEST(a_linux_syn)
{
	ck_assert_int_eq(PARSE(2, 4, 5, 0xb4, 4, 2, 8, 10, 0, 0, 0, 7, 0, 0, 0, 9, 1, 3, 3, 7), 0);
	ck_assert_uint_eq(o.mss, 1460);
	ck_assert(o.sack_ok);
	ck_assert(o.has_ts);
	ck_assert_uint_eq(o.ts_val, 7);
	ck_assert_uint_eq(o.ts_ecr, 9);
	ck_assert_int_eq(o.wscale, 7);
	ck_assert_uint_eq(o.sack_cnt, 0);
}

TEST(none_and_end)
{
	ck_assert_int_eq(parse(NULL, 0), 0);
	ck_assert_int_eq(o.wscale, -1);
	ck_assert_uint_eq(o.mss, 0);
	ck_assert(!o.sack_ok && !o.has_ts);
	ck_assert_int_eq(PARSE(1, 1, 0, 2, 4, 1, 1, 0xff), 0); /* nothing counts after the end */
	ck_assert_uint_eq(o.mss, 0);
	ck_assert_int_eq(PARSE(1, 1, 1, 1), 0);
	ck_assert_int_eq(PARSE(253, 4, 9, 9, 3, 3, 2, 0), 0); /* unknown: skipped */
	ck_assert_int_eq(o.wscale, 2);
	ck_assert_int_eq(PARSE(3, 3, 15, 1), 0);
	ck_assert_int_eq(o.wscale, 14); /* RFC 7323 2.3 */
	ck_assert_int_eq(PARSE(3, 3, 255, 1), 0);
	ck_assert_int_eq(o.wscale, 14);
}

TEST(as_many_sack_blocks_as_fit_are_read)
{
	uint8_t b[34] = {5, 34};

	for (unsigned i = 0; i < 32; i++)
		b[2 + i] = (uint8_t)i;
	for (unsigned cnt = 1; cnt <= 4; cnt++) {
		b[1] = (uint8_t)(2 + 8 * cnt);
		ck_assert_int_eq(parse(b, 2 + 8 * cnt), 0);
		ck_assert_uint_eq(o.sack_cnt, cnt);
		ck_assert_uint_eq(o.sack[cnt - 1].end, sl_get_be32(b + 8 * cnt - 2));
	}
	ck_assert_uint_eq(o.sack[0].start, 0x00010203);
}

TEST(malformed_options_are_refused)
{
	ck_assert_int_eq(PARSE(0xfe, 0), SL_WIRE_OPTIONS);
	ck_assert_int_eq(PARSE(0xfe, 0, 0, 0), SL_WIRE_OPTIONS);
	ck_assert_int_eq(PARSE(0xfe, 1), SL_WIRE_OPTIONS);
	ck_assert_int_eq(PARSE(0xfe), SL_WIRE_OPTIONS);
	ck_assert_int_eq(PARSE(1, 1, 1, 2), SL_WIRE_OPTIONS);
	ck_assert_int_eq(PARSE(2, 4, 5), SL_WIRE_OPTIONS);
	ck_assert_int_eq(PARSE(2, 3, 5, 0), SL_WIRE_OPTIONS);
	ck_assert_int_eq(PARSE(2, 5, 5, 0, 0), SL_WIRE_OPTIONS);
	ck_assert_int_eq(PARSE(3, 2, 0, 0), SL_WIRE_OPTIONS);
	ck_assert_int_eq(PARSE(3, 4, 0, 0), SL_WIRE_OPTIONS);
	ck_assert_int_eq(PARSE(4, 3, 0, 0), SL_WIRE_OPTIONS);
	ck_assert_int_eq(PARSE(8, 9, 0, 0, 0, 0, 0, 0, 0, 0), SL_WIRE_OPTIONS);
	ck_assert_int_eq(PARSE(8, 10, 0, 0, 0, 0, 0, 0, 0), SL_WIRE_OPTIONS);
	ck_assert_int_eq(PARSE(8, 11, 0, 0, 0, 0, 0, 0, 0, 0, 0), SL_WIRE_OPTIONS);
	ck_assert_int_eq(PARSE(5, 2), SL_WIRE_OPTIONS);
	ck_assert_int_eq(PARSE(5, 11, 0, 0, 0, 0, 0, 0, 0, 0, 0), SL_WIRE_OPTIONS);
	ck_assert_int_eq(PARSE(5, 42, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
			       0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0),
			 SL_WIRE_OPTIONS);
	/* Earlier options stay. */
	ck_assert_int_eq(PARSE(2, 4, 1, 0, 0xfe, 0), SL_WIRE_OPTIONS);
	ck_assert_uint_eq(o.mss, 256);
}

TEST(random_options_end_and_stay_inside)
{
	struct sl_prng r;
	uint8_t b[SL_TCP_OPT_MAX];

	sl_prng_seed(&r, 1);
	for (int i = 0; i < 5000; i++) {
		size_t len = sl_prng_below(&r, sizeof(b) + 1);

		for (size_t k = 0; k < len; k++)
			b[k] = (uint8_t)sl_prng_below(&r, k % 3 ? 12 : 256);
		parse(b, len);
		ck_assert_uint_le(o.sack_cnt, SL_TCP_SACK_MAX);
	}
}

TEST(the_fast_layout_is_exact)
{
	uint8_t b[16], *p = flush_with_guard(12);
	uint32_t val = 0, ecr = 0;

	ck_assert_uint_eq(sl_tcp_opt_write_ts(p, 0x01020304, 0x05060708), 12);
	ck_assert(sl_tcp_opt_fast_ts(p, 12, &val, &ecr));
	ck_assert_uint_eq(val, 0x01020304);
	ck_assert_uint_eq(ecr, 0x05060708);
	ck_assert_int_eq(parse(p, 12), 0);
	ck_assert_uint_eq(o.ts_val, 0x01020304);
	ck_assert_uint_eq(o.ts_ecr, 0x05060708);
	memcpy(b, p, 12);
	ck_assert(!sl_tcp_opt_fast_ts(flush_copy(b, 8), 8, &val, &ecr));
	ck_assert(!sl_tcp_opt_fast_ts(NULL, 0, &val, &ecr));
	ck_assert(!sl_tcp_opt_fast_ts(b, 16, &val, &ecr));
	for (int i = 0; i < 4; i++) {
		p[i] ^= 1;
		ck_assert(!sl_tcp_opt_fast_ts(p, 12, &val, &ecr));
		p[i] ^= 1;
	}
}

TEST(a_written_syn_parses_back)
{
	for (unsigned mask = 0; mask < 16; mask++) {
		struct sl_tcp_opts in = SL_TCP_OPTS_NONE;
		uint8_t buf[SL_TCP_OPT_MAX];
		size_t n;

		in.mss = mask & 1 ? 1460 : 0;
		in.wscale = mask & 2 ? 9 : -1;
		in.sack_ok = mask & 4;
		in.has_ts = mask & 8;
		in.ts_val = 0xdeadbeef;
		in.ts_ecr = 5;
		n = sl_tcp_opt_write_syn(buf, &in);
		ck_assert_uint_eq(n, (in.mss ? 4u : 0u) + (in.wscale >= 0 ? 4u : 0u) +
					     (in.has_ts    ? 12u
					      : in.sack_ok ? 4u
							   : 0u));
		ck_assert_int_eq(parse(buf, n), 0);
		ck_assert_uint_eq(o.mss, in.mss);
		ck_assert_int_eq(o.wscale, in.wscale);
		ck_assert_int_eq(o.sack_ok, in.sack_ok);
		ck_assert_int_eq(o.has_ts, in.has_ts);
		ck_assert_uint_eq(o.ts_val, in.has_ts ? 0xdeadbeef : 0);
		ck_assert_uint_eq(o.ts_ecr, in.has_ts ? 5u : 0);
	}
}

TEST(written_sack_blocks_parse_back)
{
	struct sl_tcp_opts in = SL_TCP_OPTS_NONE;
	uint8_t *buf = flush_with_guard(SL_TCP_OPT_MAX);

	for (uint32_t i = 0; i < 4; i++) {
		in.sack[i].start = 0xfffffff0 + i * 8;
		in.sack[i].end = 0xfffffff4 + i * 8;
	}
	for (unsigned k = 0; k < 10; k++) {
		unsigned want;
		size_t n;

		in.has_ts = k >= 5;
		in.ts_val = 3;
		in.sack_cnt = (uint8_t)(k % 5);
		want = in.has_ts && in.sack_cnt > 3 ? 3 : in.sack_cnt;
		n = sl_tcp_opt_write(buf, &in);
		ck_assert_uint_eq(n, sl_tcp_opt_len(in.has_ts, in.sack_cnt));
		ck_assert_uint_eq(n % 4, 0);
		ck_assert_uint_le(n, SL_TCP_OPT_MAX);
		ck_assert_int_eq(parse(buf, n), 0);
		ck_assert_uint_eq(o.sack_cnt, want);
		ck_assert_int_eq(o.has_ts, in.has_ts);
		ck_assert_mem_eq(o.sack, in.sack, want * sizeof(in.sack[0]));
	}
}
