/* SPDX-License-Identifier: Apache-2.0 */
/* Traces and request ids: which of a client's are valid, what goes out, and what is exported. */
#include <string.h>

#include "base/check.h"
#include "base/tlv.h"
#include "core/trace.h"
#include "suite.h"

#define TRACE  "4bf92f3577b34da6a3ce929d0e0e4736"
#define SPAN   "00f067aa0ba902b7"
#define PARENT "00-" TRACE "-" SPAN "-01"

static struct sl_config cfg;
static struct sl_core core;
static struct sl_cfg_route route;
static struct sl_event note;
static struct sl_exchange x;
static struct sl_header fields[4];
static struct sl_request rq;

static void set_up(void)
{
	cfg = (struct sl_config){.trace = {.request_id = true, .otlp = "http://127.0.0.1:1/"}};
	core.cfg = &cfg;
	sl_prng_seed(&core.prng, 1);
	note = (struct sl_event){0};
	route = (struct sl_cfg_route){0};
	x = (struct sl_exchange){.core = &core, .route = &route, .note = &note};
	rq = (struct sl_request){.headers = fields};
}

static void tear_down(void)
{
}

static void put_header(const char *name, const char *value)
{
	fields[rq.header_cnt++] = (struct sl_header){sl_span_cstr(name), sl_span_cstr(value)};
}

static bool continues(const char *parent)
{
	rq.header_cnt = 0;
	note = (struct sl_event){0};
	put_header("TraceParent", parent);
	sl_trace_begin(&core, &note, &rq);
	return note.trace_flags & SL_TRACE_PARENT;
}

static bool is_zero(const void *p, size_t len)
{
	static const uint8_t zeros[16];

	return memcmp(p, zeros, len) == 0;
}

FIXTURE(set_up, tear_down)

TEST(a_valid_traceparent_is_continued)
{
	char hex[32];

	ck_assert(continues(PARENT));
	sl_trace_hex(hex, note.trace_id, 16);
	ck_assert_mem_eq(hex, TRACE, 32);
	sl_trace_hex(hex, note.parent_id, 8);
	ck_assert_mem_eq(hex, SPAN, 16);
	ck_assert(!is_zero(note.span_id, 8) && memcmp(note.span_id, note.parent_id, 8) != 0);
	ck_assert(note.trace_flags & SL_TRACE_SAMPLED);
	ck_assert(continues("00-" TRACE "-" SPAN "-fe"));
	ck_assert(!(note.trace_flags & SL_TRACE_SAMPLED));
	ck_assert(continues("cc-" TRACE "-" SPAN "-01-what-the-future-has"));
}

static const char *const invalid[] = {
	"",
	"00-" TRACE "-" SPAN "-0",
	"00-" TRACE "-" SPAN "-0g",
	"00-" TRACE "-" SPAN "-01-",
	"00-" TRACE "-" SPAN "-01x",
	"cc-" TRACE "-" SPAN "-01.x",
	"ff-" TRACE "-" SPAN "-01",
	"0x-" TRACE "-" SPAN "-01",
	"00-00000000000000000000000000000000-" SPAN "-01",
	"00-" TRACE "-0000000000000000-01",
	"00-4BF92F3577B34DA6A3CE929D0E0E4736-" SPAN "-01",
	"00_" TRACE "-" SPAN "-01",
	"00-" TRACE "_" SPAN "-01",
	"00-" TRACE "-" SPAN "_01",
	" 0-" TRACE "-" SPAN "-01",
};

TEST_EACH(an_invalid_traceparent_begins_a_new_trace, SL_ARRAY_LEN(invalid))
{
	ck_assert(!continues(invalid[_i]));
	ck_assert(!is_zero(note.trace_id, 16) && !is_zero(note.span_id, 8));
	ck_assert(is_zero(note.parent_id, 8));
}

TEST(two_traceparents_are_none)
{
	put_header("traceparent", PARENT);
	put_header("traceparent", PARENT);
	sl_trace_begin(&core, &note, &rq);
	ck_assert(!(note.trace_flags & SL_TRACE_PARENT));
}

TEST(a_share_of_new_traces_is_sampled)
{
	unsigned n = 0;

	cfg.trace.sample = 0.25;
	for (unsigned i = 0; i < 4000; i++) {
		note = (struct sl_event){0};
		sl_trace_begin(&core, &note, &rq);
		n += note.trace_flags & SL_TRACE_SAMPLED;
	}
	ck_assert_uint_ge(n, 900);
	ck_assert_uint_le(n, 1100);
}

static bool is_exported(unsigned flags, unsigned status, enum sl_outcome outcome)
{
	note = (struct sl_event){.trace_flags = (uint8_t)flags,
				 .status = (uint16_t)status,
				 .begun = status != 0,
				 .outcome = (uint8_t)outcome,
				 .stage_ns = {[SL_EVENT_QUEUE] = 30, [SL_EVENT_BACKEND] = 70}};
	sl_trace_end(&cfg.trace, &note);
	return note.trace_flags & SL_TRACE_EXPORT;
}

TEST(sampled_failed_and_slow_requests_are_exported)
{
	const unsigned on = SL_TRACE_SPAN | SL_TRACE_ID, sampled = on | SL_TRACE_SAMPLED;

	ck_assert(is_exported(sampled, 200, SL_OUTCOME_OK));
	ck_assert(!(note.trace_flags & SL_TRACE_KEEP));
	ck_assert(!is_exported(on, 200, SL_OUTCOME_OK));
	ck_assert(!is_exported(on, 404, SL_OUTCOME_OK));
	ck_assert(!is_exported(on, 0, SL_OUTCOME_CLIENT_GONE));
	ck_assert(is_exported(on, 500, SL_OUTCOME_OK));
	ck_assert(note.trace_flags & SL_TRACE_KEEP);
	ck_assert(is_exported(on, 0, SL_OUTCOME_NO_MEMORY));
	ck_assert(is_exported(on, 200, SL_OUTCOME_BACKEND_ERROR)); /* broke off */
	cfg.trace.slow_ns = 100;
	ck_assert(is_exported(on, 200, SL_OUTCOME_OK));
	cfg.trace.slow_ns = 101;
	ck_assert(!is_exported(on, 200, SL_OUTCOME_OK));
	ck_assert(!is_exported(SL_TRACE_ID | SL_TRACE_SAMPLED, 500, SL_OUTCOME_OK));
}

/* Else a client would decide about the export, by versions and methods that nothing has. */
TEST(heads_that_the_client_got_wrong_are_exported_by_the_sample_only)
{
	note = (struct sl_event){
		.trace_flags = SL_TRACE_SPAN, .status = 505, .begun = true, .front_error = 1};
	sl_trace_end(&cfg.trace, &note);
	ck_assert(!(note.trace_flags & SL_TRACE_EXPORT));
	note.status = 503;
	sl_trace_end(&cfg.trace, &note);
	ck_assert(note.trace_flags & SL_TRACE_EXPORT);
}

TEST(a_grpc_call_fails_by_its_grpc_status)
{
	note = (struct sl_event){.trace_flags = SL_TRACE_SPAN,
				 .status = 200,
				 .grpc_status = SL_GRPC_UNAVAILABLE,
				 .proto = SL_PROTO_GRPC,
				 .begun = true,
				 .outcome = SL_OUTCOME_OK};
	sl_trace_end(&cfg.trace, &note);
	ck_assert(note.trace_flags & SL_TRACE_EXPORT);
}

static bool is_kept(const char *id)
{
	char hex[32];
	struct sl_span kept = sl_trace_request_id(&note, sl_span_cstr(id), hex);

	return sl_span_eq(kept, sl_span_cstr(id));
}

TEST(only_plain_request_ids_are_kept)
{
	char longest[66];

	memset(longest, 'x', sizeof(longest));
	longest[64] = 0;
	ck_assert(is_kept(longest));
	longest[64] = 'x';
	longest[65] = 0;
	ck_assert(!is_kept(longest));
	ck_assert(is_kept("aZ09._:+/=-"));
	ck_assert(!is_kept(""));
	ck_assert(!is_kept("a b"));
	ck_assert(!is_kept("a\"b"));
	ck_assert(!is_kept("a@b") && !is_kept("a[b") && !is_kept("a`b") && !is_kept("a{b"));
	ck_assert(!is_kept("\xc3\xa4"));
}

static size_t put_all(char *text, size_t size)
{
	struct sl_tlv_writer w = {.at = (uint8_t *)text, .end = (uint8_t *)text + size};

	sl_trace_put(&w, &x, &rq);
	ck_assert(!w.full);
	return (size_t)((char *)w.at - text);
}

TEST(a_rule_of_the_route_has_precedence)
{
	struct sl_cfg_rule rule = {.name = "x-request-id", .value = "y"};
	char text[500];
	size_t len;

	ck_assert(continues(PARENT));
	put_header("tracestate", "a=b");
	len = put_all(text, sizeof(text));
	ck_assert_ptr_nonnull(memmem(text, len, "x-request-id", 12));
	ck_assert_ptr_nonnull(memmem(text, len, "tracestatea=b", 13));
	route.request_rules = (struct sl_cfg_rules){.list = &rule, .cnt = 1};
	len = put_all(text, sizeof(text));
	ck_assert_ptr_null(memmem(text, len, "x-request-id", 12));
	ck_assert_ptr_nonnull(memmem(text, len, "traceparent00-" TRACE, 46));
}

TEST(a_name_that_a_server_could_read_as_ours_is_hidden)
{
	ck_assert(continues(PARENT));
	ck_assert(sl_trace_hides(&x, sl_span_str("TRACEPARENT")));
	ck_assert(sl_trace_hides(&x, sl_span_str("X_Request_Id")));
	ck_assert(sl_trace_hides(&x, sl_span_str("tracestate")));
	ck_assert(!sl_trace_hides(&x, sl_span_str("traceparents")));
	note.trace_flags = 0;
	ck_assert(!sl_trace_hides(&x, sl_span_str("traceparent")));
	ck_assert(!sl_trace_hides(&x, sl_span_str("x-request-id")));
}

TEST(a_full_reply_gets_no_request_id)
{
	static struct sl_reply_parts parts;

	ck_assert(continues(PARENT));
	parts.reply.header_cnt = SL_ARRAY_LEN(parts.headers);
	sl_trace_reply(&x, &parts);
	ck_assert_uint_eq(parts.reply.header_cnt, SL_ARRAY_LEN(parts.headers));
	parts.reply.header_cnt = 0;
	sl_trace_reply(&x, &parts);
	sl_trace_reply(&x, &parts);
	ck_assert_uint_eq(parts.reply.header_cnt, 1);
}
