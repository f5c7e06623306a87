/* SPDX-License-Identifier: Apache-2.0 */
/* The end of a client's stream while earlier bytes wait for the front. */
#include "suite.h"
#include "tls_bed.h"

FIXTURE(bed_start, bed_stop)

static uint64_t ends(enum sl_tls_end why)
{
	struct sl_tls_stats s;

	sl_tls_stats(bed.tls, &s);
	return s.ends[why];
}

/* A client sends all it has, and its end, before the front takes it. */
TEST_EACH(an_end_behind_waiting_bytes_comes_behind_them, 2)
{
	struct bed_conn *b = bed_open(0);
	struct sl_filter *f = b->filter;
	uint8_t wire[200];
	size_t len = bed_seal(b, SL_TLS_DATA, "first", 5, wire);

	if (_i)
		len += bed_seal(b, SL_TLS_ALERT, "\1\0", 2, wire + len);
	b->takes = 0;
	ck_assert_uint_eq(bed_offer(b, wire, len, true), len);
	f->below_tells->eof(f);
	ck_assert(!b->ended && !b->eof);
	b->takes = BED_KEEP;
	f->offers->resume(f);
	ck_assert_mem_eq(b->got, "first", 5);
	ck_assert(_i ? b->eof && !b->ended : !b->eof && b->ended);
}

/* The client has ended before a thread has looked at its hello; or it has said no more than that. */
TEST_EACH(an_end_behind_the_handshake_waits_for_it, 2)
{
	struct bed_conn *b = bed_accept(0);
	struct sl_filter *f = b->filter;
	struct sl_tls_hs *hs;
	uint8_t wire[200];
	size_t len;

	hs = bed_say_hello(b);
	len = bed_seal(b, SL_TLS_DATA, "early", 5, wire);
	len += bed_seal(b, SL_TLS_ALERT, "\1\0", 2, wire + len);
	if (_i)
		bed_offer(b, wire, len, true);
	f->below_tells->eof(f);
	ck_assert_int_eq(b->closed, !_i);
	bed_finish(hs, b);
	ck_assert_uint_eq(b->got_len, _i ? 5 : 0);
	ck_assert(b->eof && !b->ended);
	ck_assert_uint_eq(ends(SL_TLS_END_GONE), !_i);
}
