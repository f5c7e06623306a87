/* SPDX-License-Identifier: Apache-2.0 */
/* The parts of the core that need no connection: stores, metadata blocks. */
#include <stdlib.h>
#include <string.h>

#include "core/client.h"
#include "core/exchange.h"
#include "core/forwarded.h"
#include "suite.h"

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

FIXTURE(set_up, tear_down)

TEST(store_returns_the_bytes_it_took)
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
		struct sl_span p = sl_store_at(&s, 0);
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

TEST(store_shows_bytes_at_an_offset)
{
	uint8_t bytes[5000], out[5000];
	struct sl_store s = {0};

	for (size_t i = 0; i < sizeof(bytes); i++)
		bytes[i] = (uint8_t)(i * 7 + i / 251);
	sl_store_copy(&s, &umem, bytes, sizeof(bytes));
	sl_store_skip(&s, &umem, 100);
	for (size_t off = 0; off < sizeof(bytes) - 100; off += 13) {
		struct sl_span p = sl_store_at(&s, off);

		ck_assert_uint_gt(p.len, 0);
		ck_assert_mem_eq(p.ptr, bytes + 100 + off, p.len);
	}
	ck_assert_uint_eq(sl_store_at(&s, sizeof(bytes) - 100).len, 0);
	sl_store_read(&s, out, sizeof(bytes) - 100);
	ck_assert_mem_eq(out, bytes + 100, sizeof(bytes) - 100);
	ck_assert_uint_eq(s.len, sizeof(bytes) - 100);
	sl_store_free(&s, &umem);
}

TEST(store_takes_large_frames_and_copies_small_ones)
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

TEST(store_stops_at_low_water)
{
	static const uint8_t zeros[2048 * 80];
	struct sl_store s = {0};
	size_t n = sl_store_copy(&s, &umem, zeros, sizeof(zeros));

	ck_assert_uint_lt(n, sizeof(zeros));
	ck_assert_uint_eq(n, s.len);
	ck_assert_uint_ge(umem.free_cnt, umem.low_water - 1);
	sl_store_free(&s, &umem);
}

TEST(spans_cover_the_store)
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

TEST(splice_moves_everything_behind)
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
	ck_assert(sl_span_eq(sl_store_at(&a, 0), sl_span_str("defg")));
	sl_store_copy(&a, &umem, "h", 1); /* the tail is the spliced one */
	ck_assert(sl_span_eq(sl_store_at(&a, 0), sl_span_str("defgh")));
	sl_store_splice(&none, &a);
	ck_assert_uint_eq(none.len, 5);
	sl_store_free(&none, &umem);
}

static struct sl_cfg_route route(const char *prefix)
{
	return (struct sl_cfg_route){
		.prefix = prefix, .prefix_len = (uint32_t)strlen(prefix), .strip_prefix = true};
}

/* --- limits --- */

/* A room that starts without a file has the defaults of the file's keys. */
TEST(defaults_are_those_of_the_keys)
{
	struct sl_err err = SL_ERR(256);
	struct sl_config *cfg = sl_config_parse("", "t.conf", &err);
	const struct sl_cfg_limits *l = &cfg->limits;
	struct sl_front_limits front;
	struct sl_tcp_config tcp;
	struct sl_rpc_config rpc;

	sl_front_limits_default(&front);
	ck_assert_uint_eq(front.max_head, l->max_head);
	ck_assert_uint_eq(front.max_target, l->max_target);
	ck_assert_uint_eq(front.max_headers, l->max_headers);
	ck_assert_uint_eq(front.max_body, l->max_body);
	ck_assert_uint_eq(front.max_message, l->max_message);
	ck_assert_uint_eq(front.max_pipeline, l->max_pipeline);
	ck_assert_uint_eq(front.max_streams, l->max_streams);
	sl_tcp_config_default(&tcp);
	ck_assert_uint_eq(tcp.max_conns, l->max_connections);
	ck_assert_uint_eq(tcp.max_half_open, l->max_half_open);
	ck_assert_uint_eq(tcp.keepalive_ns, l->keepalive_ns);
	ck_assert_int_eq(tcp.rst_closed_ports, l->rst_closed_ports);
	sl_rpc_config_default(&rpc);
	ck_assert_uint_eq(rpc.max_outstanding, l->max_exchanges);
	sl_config_free(cfg);
}

/* --- metadata --- */

static struct sl_client on_tcp; /* nothing is known of it */
static struct sl_addr_quota of_client = {.hash = UINT64_C(0x500000007)};

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

TEST(request_metadata_has_the_forwarded_fields)
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
	struct sl_exchange x = {.core = &core, .route = &r, .client = &on_tcp, .quota = &of_client};
	struct sl_span meta;

	r.forward_headers = forward;
	r.forward_header_cnt = 1;
	ck_assert(sl_meta_encode(&x, &rq));
	ck_assert_uint_eq(x.request_meta_len % 8, 0);
	meta = sl_store_at(&x.request, 0);
	ck_assert_uint_eq(meta.len, x.request_meta_len);
	expect(meta, SL_META_METHOD, "POST");
	ck_assert_mem_eq(field(meta, SL_META_CLIENT).ptr, "\7\0\0\0", 4);
	expect(meta, SL_META_PATH, "/items/7");
	expect(meta, SL_META_QUERY, "a=b");
	expect(meta, SL_META_CONTENT_TYPE, "text/plain");
	expect(meta, SL_META_HEADER, "\x08x-tenantacme");
	sl_store_free(&x.request, &umem);
}

/* A name, and whether its field reaches a server: always, where underscores pass, never. */
static const struct {
	const char *name;
	enum { ALWAYS, WITH_PASS, NEVER } goes;
} names[] = {
	{"x-user", ALWAYS},
	{"x.user", ALWAYS},
	{"x_user", WITH_PASS},
	{"_", WITH_PASS},
	{"X_Named", ALWAYS},
	{"x_named2", WITH_PASS},
	{"content-type", ALWAYS},
	{"sluice-client-subject", NEVER},
	{"sluice_client_subject", NEVER},
	{"SLUICE_Client-Subject", NEVER},
	{"sluice.client~subject", NEVER},
	{"sluice_client_subject2", WITH_PASS},
	{"sluice_client_san", NEVER},
	{"X_Forwarded_For", NEVER},
	{"x!forwarded|proto", NEVER},
	{"x-forwarded_host", NEVER},
	{"x_forwarded_port", NEVER},
	{"Forwarded", NEVER},
	{"content_length", NEVER},
	{"Content_Type", NEVER},
	{"transfer_encoding", NEVER},
	{"transfer.encoding", NEVER},
};

TEST_EACH(no_server_takes_a_field_for_one_of_the_gateway, SL_ARRAY_LEN(names))
{
	static const char *named[] = {"x_named", "sluice_client_subject", "x_forwarded_for"};
	const struct sl_span name = sl_span_cstr(names[_i].name);
	const struct sl_header field = {name, sl_span_str("v")};
	struct sl_cfg_route r = route("/");
	struct sl_exchange x = {.core = &core, .route = &r, .client = &on_tcp};

	r.forward_all = true;
	r.forward_headers = named;
	r.forward_header_cnt = SL_ARRAY_LEN(named);
	ck_assert_int_eq(sl_forwarded_passes(&r, name, false), names[_i].goes == ALWAYS);
	ck_assert_int_eq(sl_forwarded_passes(&r, name, true), names[_i].goes == ALWAYS);
	r.underscores = true;
	ck_assert_int_eq(sl_forwarded_passes(&r, name, false), names[_i].goes != NEVER);
	ck_assert(sl_meta_encode_trailers(&x, &field, 1));
	ck_assert_int_eq(x.request.len > 0,
			 names[_i].goes != NEVER && strcmp(names[_i].name, "content-type") != 0);
	sl_store_free(&x.request, &umem);
	/* A backend of the SDK has them as they came, but for the gateway's own. */
	r.forward_all = r.underscores = false;
	ck_assert_int_eq(sl_forwarded_passes(&r, name, true), names[_i].goes != NEVER);
}

/* The method's path and all headers, whatever the route does with paths. */
TEST(request_metadata_of_a_call_names_it)
{
	struct sl_cfg_route r = route("/pkg.Svc/");
	struct sl_header headers[] = {{sl_span_str("x-a"), sl_span_str("b")}};
	struct sl_request rq = {.proto = 2,
				.method_name = sl_span_str("POST"),
				.path = sl_span_str("/pkg.Svc/Do"),
				.call = sl_span_str("pkg.Svc/Do"),
				.all_headers = true,
				.headers = headers,
				.header_cnt = 1};
	struct sl_exchange x = {.core = &core, .route = &r, .client = &on_tcp, .quota = &of_client};
	struct sl_span meta;

	ck_assert(sl_meta_encode(&x, &rq));
	meta = sl_store_at(&x.request, 0);
	ck_assert_ptr_null(field(meta, SL_META_METHOD).ptr);
	expect(meta, SL_META_PATH, "pkg.Svc/Do");
	expect(meta, SL_META_HEADER, "\x03x-ab");
	ck_assert_mem_eq(field(meta, SL_META_PROTOCOL).ptr, "\2\0", 2);
	sl_store_free(&x.request, &umem);
}

TEST(large_metadata_spreads_over_frames_and_too_large_is_refused)
{
	static char query[SL_RPC_MAX_ASKED + 1];
	struct sl_cfg_route r = route("/");
	struct sl_request rq = {.method_name = sl_span_str("GET"), .path = sl_span_str("/")};
	struct sl_exchange x = {.core = &core, .route = &r, .client = &on_tcp, .quota = &of_client};

	memset(query, 'q', sizeof(query));
	rq.query = sl_span_of(query, 9000);
	ck_assert(sl_meta_encode(&x, &rq));
	ck_assert_uint_gt(x.request.frames, 1);
	sl_store_free(&x.request, &umem);
	rq.query = sl_span_of(query, SL_RPC_MAX_ASKED);
	ck_assert(!sl_meta_encode(&x, &rq));
	sl_store_free(&x.request, &umem);
}
