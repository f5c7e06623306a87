/* SPDX-License-Identifier: Apache-2.0 */
/* The parts of the core that need no connection: stores, routes, metadata blocks. */
#include <stdlib.h>
#include <string.h>

#include <check.h>

#include "core/exchange.h"

static struct sl_umem umem;
static struct sl_net net;
static struct sl_core core;

static void set_up(void)
{
	ck_assert_int_eq(sl_umem_init(&umem, 2048, 64), 0);
	umem.low_water = 4;
	net.umem = &umem;
	core.net = &net;
}

static void tear_down(void)
{
	uint32_t census[SL_FRAME_STATE_CNT];

	sl_umem_census(&umem, census);
	ck_assert_uint_eq(census[SL_FRAME_FREE], umem.frame_cnt); /* nothing leaked */
	sl_umem_fini(&umem);
}

START_TEST(store_gives_back_what_it_took)
{
	uint8_t bytes[9000], out[9000];
	struct sl_store s = {0};
	size_t got = 0;

	for (size_t i = 0; i < sizeof(bytes); i++)
		bytes[i] = (uint8_t)(i * 7 + i / 251);
	for (size_t at = 0, step = 1; at < sizeof(bytes); at += step, step = step * 2 + 1) {
		if (step > sizeof(bytes) - at)
			step = sizeof(bytes) - at;
		ck_assert_uint_eq(sl_store_copy(&s, &umem, bytes + at, step), step);
	}
	ck_assert_uint_eq(s.len, sizeof(bytes));
	while (s.len) {
		struct sl_span p = sl_store_peek(&s);
		size_t n = p.len > 700 ? 700 : p.len;

		memcpy(out + got, p.ptr, n);
		got += n;
		sl_store_skip(&s, &umem, n);
	}
	ck_assert_uint_eq(got, sizeof(bytes));
	ck_assert_mem_eq(out, bytes, sizeof(bytes));
	ck_assert_ptr_null(s.head);
	ck_assert_ptr_null(s.tail);
}
END_TEST

START_TEST(store_takes_large_frames_and_copies_small_ones)
{
	struct sl_store s = {0};
	struct sl_frame *f = sl_frame_get(&umem, SL_FRAME_HELD, 128);
	struct sl_chunk chunk = {.ptr = f->data, .len = 1400, .frame = f};

	memset(f->data, 'x', 1400);
	ck_assert_uint_eq(sl_store_append(&s, &umem, &chunk), 1400);
	ck_assert_ptr_null(chunk.frame);
	ck_assert_ptr_eq(s.head, f);
	chunk = (struct sl_chunk){.ptr = (const uint8_t *)"abc", .len = 3, .frame = NULL};
	ck_assert_uint_eq(sl_store_append(&s, &umem, &chunk), 3);
	ck_assert_uint_eq(s.frames, 1); /* in the room behind the first */
	ck_assert_uint_eq(s.len, 1403);
	sl_store_free(&s, &umem);
}
END_TEST

START_TEST(store_stops_at_low_water)
{
	static const uint8_t zeros[2048 * 80];
	struct sl_store s = {0};
	size_t n = sl_store_copy(&s, &umem, zeros, sizeof(zeros));

	ck_assert_uint_lt(n, sizeof(zeros));
	ck_assert_uint_eq(n, s.len);
	ck_assert_uint_ge(umem.free_cnt, umem.low_water - 1);
	sl_store_free(&s, &umem);
}
END_TEST

START_TEST(spans_cover_the_store)
{
	static uint8_t bytes[5000];
	struct sl_store s = {0};
	struct sl_span spans[4];
	uint32_t n;

	sl_store_copy(&s, &umem, bytes, sizeof(bytes));
	sl_store_skip(&s, &umem, 10);
	n = sl_store_spans(&s, spans, 4);
	ck_assert_uint_eq(n, 3);
	ck_assert_uint_eq(spans[0].len + spans[1].len + spans[2].len, 4990);
	ck_assert_uint_eq(sl_store_spans(&s, spans, 2), 0);
	sl_store_free(&s, &umem);
}
END_TEST

START_TEST(splice_moves_everything_behind)
{
	struct sl_store a = {0}, b = {0}, none = {0};

	sl_store_copy(&a, &umem, "abc", 3);
	sl_store_copy(&b, &umem, "defg", 4);
	sl_store_splice(&a, &b);
	sl_store_splice(&a, &none);
	ck_assert_ptr_null(b.head);
	ck_assert_uint_eq(b.len, 0);
	ck_assert_uint_eq(a.len, 7);
	ck_assert_uint_eq(a.frames, 2);
	sl_store_skip(&a, &umem, 3);
	ck_assert(sl_span_eq(sl_store_peek(&a), sl_span_str("defg")));
	sl_store_copy(&a, &umem, "h", 1); /* the tail is the spliced one */
	ck_assert(sl_span_eq(sl_store_peek(&a), sl_span_str("defgh")));
	sl_store_splice(&none, &a);
	ck_assert_uint_eq(none.len, 5);
	sl_store_free(&none, &umem);
}
END_TEST

static struct sl_cfg_route route(const char *prefix)
{
	return (struct sl_cfg_route){
		.prefix = prefix, .prefix_len = (uint32_t)strlen(prefix), .strip_prefix = true};
}

static const char *routed(const char *path)
{
	struct sl_cfg_route routes[] = {route("/api/v1"), route("/api"), route("/pkg.Svc/"),
					route("/")};
	struct sl_config cfg = {.routes = routes, .route_cnt = 4};
	const struct sl_cfg_route *r = sl_route_find(&cfg, sl_span_cstr(path), SL_METHOD_GET);

	return r ? r->prefix : "none";
}

START_TEST(routes_match_whole_segments_longest_first)
{
	ck_assert_str_eq(routed("/api/v1"), "/api/v1");
	ck_assert_str_eq(routed("/api/v1/x"), "/api/v1");
	ck_assert_str_eq(routed("/api/v10"), "/api");
	ck_assert_str_eq(routed("/apix"), "/");
	ck_assert_str_eq(routed("/pkg.Svc/Do"), "/pkg.Svc/");
	ck_assert_str_eq(routed("/pkg.Svc"), "/");
	ck_assert_str_eq(routed("*"), "none");
	ck_assert_str_eq(routed(""), "none");
}
END_TEST

START_TEST(routes_of_a_prefix_are_told_apart_by_method)
{
	struct sl_cfg_route routes[] = {route("/a/b"), route("/a"), route("/a"), route("/a"),
					route("/")};
	struct sl_config cfg = {.routes = routes, .route_cnt = 5};
	struct sl_span path = sl_span_cstr("/a/c");

	routes[0].methods = routes[1].methods = 1u << SL_METHOD_GET;
	routes[2].methods = 1u << SL_METHOD_POST | 1u << SL_METHOD_PUT;
	routes[3].methods = 1u << SL_METHOD_DELETE;
	ck_assert_ptr_eq(sl_route_find(&cfg, path, SL_METHOD_GET), &routes[1]);
	ck_assert_ptr_eq(sl_route_find(&cfg, path, SL_METHOD_PUT), &routes[2]);
	ck_assert_ptr_eq(sl_route_find(&cfg, path, SL_METHOD_DELETE), &routes[3]);
	/* None has it: 405 by the most specific prefix, not the route of a shorter one. */
	ck_assert_ptr_eq(sl_route_find(&cfg, path, SL_METHOD_PATCH), &routes[1]);
	ck_assert_ptr_eq(sl_route_find(&cfg, sl_span_cstr("/a/b"), SL_METHOD_POST), &routes[0]);
	routes[3].methods = 0;
	ck_assert_ptr_eq(sl_route_find(&cfg, path, SL_METHOD_PATCH), &routes[3]);
	ck_assert_ptr_eq(sl_route_find(&cfg, path, SL_METHOD_POST), &routes[2]);
}
END_TEST

/* --- metadata --- */

static struct sl_span field(struct sl_span meta, uint16_t tag)
{
	while (meta.len >= 4) {
		uint16_t len = sl_get_le16(meta.ptr + 2);

		if (sl_get_le16(meta.ptr) == tag)
			return sl_span_of(meta.ptr + 4, len);
		meta = sl_span_skip(meta, 4u + len);
	}
	return sl_span_of(NULL, 0);
}

static void expect(struct sl_span meta, uint16_t tag, const char *want)
{
	struct sl_span got = field(meta, tag);

	ck_assert_uint_eq(got.len, strlen(want));
	ck_assert_mem_eq(got.ptr, want, got.len);
}

START_TEST(request_metadata_names_what_a_backend_gets)
{
	const char *forward[] = {"x-tenant"};
	struct sl_cfg_route r = route("/api");
	struct sl_header headers[] = {{sl_span_str("X-Tenant"), sl_span_str("acme")},
				      {sl_span_str("Cookie"), sl_span_str("secret")}};
	struct sl_request rq = {.method = SL_METHOD_POST,
				.method_name = sl_span_str("POST"),
				.path = sl_span_str("/api/items/7"),
				.query = sl_span_str("a=b"),
				.content_type = sl_span_str("text/plain"),
				.headers = headers,
				.header_cnt = 2};
	struct sl_exchange x = {.core = &core, .route = &r};
	struct sl_span meta;

	r.forward_headers = forward;
	r.forward_header_cnt = 1;
	ck_assert(sl_meta_encode(&x, &rq));
	ck_assert_uint_eq(x.request_meta_len % 8, 0);
	meta = sl_store_peek(&x.request);
	ck_assert_uint_eq(meta.len, x.request_meta_len);
	expect(meta, SL_META_METHOD, "POST");
	expect(meta, SL_META_PATH, "/items/7");
	expect(meta, SL_META_QUERY, "a=b");
	expect(meta, SL_META_CONTENT_TYPE, "text/plain");
	expect(meta, SL_META_HEADER, "\x08x-tenantacme");
	sl_store_free(&x.request, &umem);
}
END_TEST

START_TEST(large_metadata_spreads_over_frames_and_too_large_is_refused)
{
	static char query[SL_RPC_MAX_META + 1];
	struct sl_cfg_route r = route("/");
	struct sl_request rq = {.method_name = sl_span_str("GET"), .path = sl_span_str("/")};
	struct sl_exchange x = {.core = &core, .route = &r};

	memset(query, 'q', sizeof(query));
	rq.query = sl_span_of(query, 9000);
	ck_assert(sl_meta_encode(&x, &rq));
	ck_assert_uint_gt(x.request.frames, 1);
	sl_store_free(&x.request, &umem);
	rq.query = sl_span_of(query, SL_RPC_MAX_META);
	ck_assert(!sl_meta_encode(&x, &rq));
	sl_store_free(&x.request, &umem);
}
END_TEST

static size_t put(uint8_t *at, uint16_t tag, const char *value, size_t len)
{
	sl_put_le16(at, tag);
	sl_put_le16(at + 2, (uint16_t)len);
	memcpy(at + 4, value, len);
	return 4 + len;
}

START_TEST(reply_metadata_is_decoded)
{
	uint8_t b[256];
	size_t n = put(b, SL_META_STATUS, "\xc9\x00", 2);
	struct sl_reply_parts out;

	n += put(b + n, 999, "unknown tags are skipped", 24);
	n += put(b + n, SL_META_CONTENT_TYPE, "text/html", 9);
	n += put(b + n, SL_META_HEADER, "\x03x-avalue", 9);
	ck_assert(sl_reply_decode(sl_span_of(b, n), &out));
	ck_assert_uint_eq(out.reply.status, 201);
	ck_assert_uint_eq(out.reply.header_cnt, 1);
	ck_assert(sl_span_eq(out.headers[0].name, sl_span_str("x-a")));
	ck_assert(sl_span_eq(out.headers[0].value, sl_span_str("value")));
	for (size_t cut = 1; cut < 6; cut++) /* a cut block is no block */
		ck_assert(!sl_reply_decode(sl_span_of(b, n - cut), &out));
}
END_TEST

START_TEST(reply_metadata_cannot_split_a_response)
{
	static const struct {
		uint16_t tag;
		const char *value;
		size_t len;
	} bad[] = {
		{SL_META_CONTENT_TYPE, "a\r\nb", 4}, {SL_META_HEADER, "\x01xa\nb", 5},
		{SL_META_HEADER, "\x02x:v", 4},      {SL_META_HEADER, "\x02x v", 4},
		{SL_META_HEADER, "\x00v", 2},        {SL_META_HEADER, "\x09x", 2},
		{SL_META_HEADER, "\x01Xv", 3},       {SL_META_STATUS, "\x63\x00", 2},
		{SL_META_STATUS, "\x58\x02", 2},     {SL_META_STATUS, "\xc8", 1},
		{SL_META_TRAILER, "\x01xa\0b", 5},
	};
	struct sl_reply_parts out;
	uint8_t b[64];

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		size_t n = put(b, bad[i].tag, bad[i].value, bad[i].len);

		ck_assert_msg(!sl_reply_decode(sl_span_of(b, n), &out), "case %zu", i);
	}
}
END_TEST

START_TEST(reply_metadata_with_too_many_headers_is_refused)
{
	static uint8_t b[65 * 7];
	struct sl_reply_parts out;
	size_t n = 0;

	for (int i = 0; i < 65; i++)
		n += put(b + n, SL_META_HEADER, "\x01xv", 3);
	ck_assert(sl_reply_decode(sl_span_of(b, n - 7), &out));
	ck_assert(!sl_reply_decode(sl_span_of(b, n), &out));
}
END_TEST

int main(void)
{
	Suite *s = suite_create("core");
	SRunner *sr = srunner_create(s);
	TCase *tc = tcase_create("core");
	int failed;

	tcase_add_checked_fixture(tc, set_up, tear_down);
	tcase_add_test(tc, store_gives_back_what_it_took);
	tcase_add_test(tc, store_takes_large_frames_and_copies_small_ones);
	tcase_add_test(tc, store_stops_at_low_water);
	tcase_add_test(tc, spans_cover_the_store);
	tcase_add_test(tc, splice_moves_everything_behind);
	tcase_add_test(tc, routes_match_whole_segments_longest_first);
	tcase_add_test(tc, routes_of_a_prefix_are_told_apart_by_method);
	tcase_add_test(tc, request_metadata_names_what_a_backend_gets);
	tcase_add_test(tc, large_metadata_spreads_over_frames_and_too_large_is_refused);
	tcase_add_test(tc, reply_metadata_is_decoded);
	tcase_add_test(tc, reply_metadata_cannot_split_a_response);
	tcase_add_test(tc, reply_metadata_with_too_many_headers_is_refused);
	suite_add_tcase(s, tc);
	srunner_run_all(sr, CK_NORMAL);
	failed = srunner_ntests_failed(sr);
	srunner_free(sr);
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
