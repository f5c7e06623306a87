/* SPDX-License-Identifier: Apache-2.0 */
/* An internal error costs a connection or an object, and affects no other. */
#include "front/datagram/datagram.h"
#include "front/h2/mem.h"
#include "http1_talk.h"
#include "broken.h"
#include "suite.h"

/* --- memory of HTTP/2 --- */

static struct sl_h2_mem mem;
static struct sl_h2_budget one, other;
static void *twice;

static void free_again(void)
{
	sl_h2_free(&one, twice);
}

TEST(an_object_of_http2_that_is_freed_twice_is_not_reused)
{
	void *a, *b;

	ck_assert_int_eq(sl_h2_mem_init(&mem, 1 << 20), 0);
	sl_h2_budget_init(&one, &mem, 1 << 20);
	sl_h2_budget_init(&other, &mem, 1 << 20);
	twice = sl_h2_alloc(&one, 100);
	sl_h2_free(&one, twice);
	ck_broken(free_again);
	ck_assert_uint_eq(mem.used, 0);
	a = sl_h2_alloc(&other, 100);
	b = sl_h2_alloc(&other, 100);
	ck_assert(a && b && a != b);
	sl_h2_free(&other, a);
	sl_h2_free(&other, b);
	ck_assert_uint_eq(mem.used, 0);
	sl_h2_mem_fini(&mem);
}

/* --- replies to datagrams that are kept --- */

static const uint8_t key[16] = {1};
static struct sl_datagram_cache cache;
static uint32_t slot;

static void answer_again(void)
{
	static const uint8_t reply_head[SL_DATAGRAM_HEAD];

	sl_datagram_answered(&cache, slot, reply_head, sl_span_str("other"), 2);
}

static void forget_again(void)
{
	sl_datagram_forget(&cache, slot);
}

TEST(a_datagram_that_is_answered_twice_keeps_its_first_reply)
{
	static const uint8_t reply_head[SL_DATAGRAM_HEAD];
	struct sl_datagram_source from = {.peer = {.addr = {10}, .family = 4}};
	uint32_t next;
	struct sl_span kept;

	ck_assert_int_eq(sl_datagram_cache_init(&cache, 4, 100, 1000, key), 0);
	ck_assert_int_eq(sl_datagram_seen(&cache, &from, 7, 100, 1, &slot, &kept), SL_DATAGRAM_NEW);
	sl_datagram_answered(&cache, slot, reply_head, sl_span_str("first"), 1);
	ck_broken(answer_again);
	ck_broken(forget_again);
	ck_assert_int_eq(sl_datagram_seen(&cache, &from, 7, 100, 2, &next, &kept),
			 SL_DATAGRAM_ANSWERED);
	ck_assert(sl_span_eq(sl_span_of(kept.ptr + SL_DATAGRAM_HEAD, kept.len - SL_DATAGRAM_HEAD),
			     sl_span_str("first")));
	slot = 4; /* none of its slots */
	ck_broken(answer_again);
	ck_broken(forget_again);
	ck_assert_int_eq(sl_datagram_seen(&cache, &from, 8, 100, 2, &next, &kept), SL_DATAGRAM_NEW);
	sl_datagram_cache_fini(&cache);
}

/* --- HTTP/1 --- */

static struct sl_front_cb lying;

static size_t more_than_there_was(void *conn, struct sl_stream *st, struct sl_chunk *chunk)
{
	(void)conn, (void)st;
	return chunk->len + 1;
}

static void post(void)
{
	static const char text[] = POST("/a", 4) "body";

	mock_input(m, text, sizeof(text) - 1);
}

FIXTURE(setup, teardown)

TEST(a_host_that_takes_more_than_there_was_costs_its_connection)
{
	static const char text[] = GET("/b");

	lying = *m->env.cb;
	lying.body = more_than_there_was;
	m->env.cb = &lying;
	mock_open(m);
	ck_broken(post);
#ifndef SL_DEBUG
	ck_assert_uint_eq(m->closed, 1);
	ck_assert_ptr_nonnull(memmem(m->out, m->out_len, "HTTP/1.1 500 ", 13));
#endif
	ck_sound();
	mock_open(m);
	mock_input(m, text, sizeof(text) - 1);
	ck_text(m->out, m->out_len, OK2, "output", text);
	ck_sound();
}
