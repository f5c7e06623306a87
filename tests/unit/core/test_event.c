/* SPDX-License-Identifier: Apache-2.0 */
/* Records of ended exchanges that a worker gives to the control thread. */
#include "core_bed.h"
#include "core/event.h"
#include "suite.h"

static struct sl_event got[80];

static void set_up(void)
{
	bed_begin();
	sl_events_want(&bed.core, true);
	bed_connect(0, false);
	bed_connect(1, false);
	bed_connect(2, false);
	bed_open(0);
}

static void tear_down(void)
{
	bed_end();
}

static unsigned backend_asked(void)
{
	bed_turns(3);
	ck_assert_uint_eq(bed.backends[0].id_cnt + bed.backends[1].id_cnt, 1);
	return bed.backends[0].id_cnt ? 0 : 1;
}

static const struct sl_event *take_one(void)
{
	bed_turns(3);
	ck_assert_uint_eq(sl_events_take(bed.core.events, got, 80), 1);
	ck_assert_uint_eq(sl_mempool_used(&bed.core.notes), 0);
	return &got[0];
}

static uint64_t total(const struct sl_event *e)
{
	uint64_t sum = 0;

	for (unsigned i = 0; i < SL_EVENT_STAGE_CNT; i++)
		sum += e->stage_ns[i];
	return sum;
}

static void say(const char *text)
{
	bed_say(0, text, strlen(text));
}

FIXTURE(set_up, tear_down)

TEST(a_request_that_is_answered_has_all_fields)
{
	const struct sl_event *e;
	unsigned b;

	bed_post_request(0, "/e/some", 'z', 700);
	b = backend_asked();
	bed_turn(5 * SL_NS_PER_MS);
	bed_reply(&bed.backends[b], bed.backends[b].ids[0], SL_RPC_OK, 0, "answer");
	e = take_one();
	ck_assert_uint_eq(e->outcome, SL_OUTCOME_OK);
	ck_assert_uint_eq(e->status, 200);
	ck_assert(e->begun);
	ck_assert_uint_eq(e->proto, SL_PROTO_HTTP1);
	ck_assert_uint_eq(bed.core.stats.protocols[SL_PROTO_HTTP1], 1);
	ck_assert_uint_eq(e->method, SL_METHOD_POST);
	ck_assert_uint_eq(e->version_minor, 1);
	ck_assert_uint_eq(e->request_len, 700);
	ck_assert_uint_eq(e->reply_len, 6);
	ck_assert_uint_eq(e->together, 1);
	ck_assert_uint_eq(e->retries, 0);
	ck_assert_str_eq(e->path, "/e/some");
	ck_assert_uint_eq(e->path_len, 7);
	ck_assert_str_eq(e->route, "/e");
	ck_assert_str_eq(e->pool, "echo");
	ck_assert_str_eq(e->backend, b ? "b" : "a");
	ck_assert_uint_eq(e->peer.family, 4);
	ck_assert_uint_eq(be16toh(e->peer.port_be), PKT_PEER_PORT);
	ck_assert_mem_eq(e->peer.addr, pkt_peer_ip4, 4);
	ck_assert_uint_ge(e->stage_ns[SL_EVENT_BACKEND], 5 * SL_NS_PER_MS);
	ck_assert_uint_lt(total(e) - e->stage_ns[SL_EVENT_BACKEND], 5 * SL_NS_PER_MS);
}

/* Time that a frame waited in the device is not the gateway's. */
TEST(the_time_on_the_wire_is_a_stage_of_its_own)
{
	const struct sl_event *e;
	unsigned b;

	bed.rx_ns = bed.now_ns;
	bed.now_ns += 3 * SL_NS_PER_MS;
	bed_post_request(0, "/e/some", 'z', 7);
	bed.rx_ns = 0;
	b = backend_asked();
	bed_reply(&bed.backends[b], bed.backends[b].ids[0], SL_RPC_OK, 0, "answer");
	e = take_one();
	ck_assert_uint_ge(e->stage_ns[SL_EVENT_WIRE], 3 * SL_NS_PER_MS);
	ck_assert_uint_lt(total(e) - e->stage_ns[SL_EVENT_WIRE], 3 * SL_NS_PER_MS);
}

TEST(a_request_that_is_sent_again_names_the_backend_that_answered)
{
	const struct sl_event *e;
	unsigned b;

	bed_post_request(0, "/e", 'z', 10);
	b = backend_asked();
	bed_turn(3 * SL_NS_PER_MS);
	bed_reply(&bed.backends[b], bed.backends[b].ids[0], SL_RPC_REFUSED, 0, "");
	bed_turns(3);
	ck_assert_uint_eq(bed.backends[1 - b].id_cnt, 1);
	bed_reply(&bed.backends[1 - b], bed.backends[1 - b].ids[0], SL_RPC_OK, 0, "x");
	e = take_one();
	ck_assert_uint_eq(e->outcome, SL_OUTCOME_OK);
	ck_assert_uint_eq(e->retries, 1);
	ck_assert_str_eq(e->backend, b ? "a" : "b");
	ck_assert_uint_ge(e->stage_ns[SL_EVENT_QUEUE], 3 * SL_NS_PER_MS);
	ck_assert_uint_lt(e->stage_ns[SL_EVENT_BACKEND], 3 * SL_NS_PER_MS);
}

TEST(requests_that_go_together_say_how_many_they_were)
{
	unsigned n = 0, sum = 0;

	for (unsigned i = 1; i < 6; i++)
		bed_open(i);
	bed.backends[2].room = 0;
	for (unsigned i = 0; i < 6; i++)
		bed_segment(i, BED_ACK, "GET /o HTTP/1.1\r\nHost: x\r\n\r\n", 28);
	bed_turns(3);
	bed.backends[2].room = 1000;
	for (unsigned i = 0, turns = 0; i < 6 && turns < 100; turns++) {
		bed_turns(1);
		for (; i < bed.backends[2].id_cnt; i++)
			bed_reply(&bed.backends[2], bed.backends[2].ids[i], SL_RPC_OK, 0, "y");
	}
	bed_turns(3);
	n = sl_events_take(bed.core.events, got, 80);
	ck_assert_uint_eq(n, 6);
	for (unsigned i = 0; i < n; i++)
		sum += got[i].together;
	ck_assert_uint_gt(sum, 6); /* some of them met */
}

TEST_EACH(an_error_of_a_backend_has_its_status, 4)
{
	static const struct {
		uint8_t rule_values;
		enum sl_outcome outcome;
		uint16_t status;
	} ends[] = {{SL_RPC_INTERNAL, SL_OUTCOME_BACKEND_ERROR, 502},
		    {SL_RPC_EXPIRED, SL_OUTCOME_EXPIRED, 504},
		    {SL_RPC_NO_METHOD, SL_OUTCOME_NO_ROUTE, 404},
		    {SL_RPC_TOO_LARGE, SL_OUTCOME_TOO_LARGE, 413}};
	const struct sl_event *e;
	unsigned b;

	bed_post_request(0, "/e", 'z', 10);
	b = backend_asked();
	bed_turn(3 * SL_NS_PER_MS);
	bed_reply(&bed.backends[b], bed.backends[b].ids[0], ends[_i].rule_values, 0, "");
	e = take_one();
	ck_assert_uint_eq(e->outcome, ends[_i].outcome);
	ck_assert_uint_eq(e->status, ends[_i].status);
	ck_assert_uint_ge(e->stage_ns[SL_EVENT_BACKEND], 3 * SL_NS_PER_MS);
	ck_assert_uint_eq(e->stage_ns[SL_EVENT_REPLY], 0);
}

TEST(unsent_request_records_no_backend)
{
	const struct sl_event *e;

	say("GET /none HTTP/1.1\r\nHost: x\r\n\r\n");
	e = take_one();
	ck_assert_uint_eq(e->outcome, SL_OUTCOME_NO_ROUTE);
	ck_assert_uint_eq(e->status, 404);
	ck_assert_uint_eq(e->together, 0);
	ck_assert_str_eq(e->route, "");
	ck_assert_str_eq(e->pool, "");
	ck_assert_str_eq(e->backend, "");
	ck_assert_str_eq(e->path, "/none");
}

TEST(event_of_a_client_that_left_has_no_status)
{
	const struct sl_event *e;

	bed_post_request(0, "/e", 'z', 10);
	(void)backend_asked();
	bed_segment(0, BED_RST | BED_ACK, NULL, 0);
	e = take_one();
	ck_assert_uint_eq(e->outcome, SL_OUTCOME_CLIENT_GONE);
	ck_assert(!e->begun);
	ck_assert_uint_eq(e->status, 0);
}

TEST(a_request_without_an_exchange_has_its_record_too)
{
	void *taken[64];
	unsigned n = 0;
	const struct sl_event *e;

	while (n < 64 && (taken[n] = sl_mempool_get(&bed.core.exchanges)))
		n++;
	say("GET /e HTTP/1.1\r\nHost: x\r\n\r\n");
	e = take_one();
	ck_assert_uint_eq(e->outcome, SL_OUTCOME_NO_MEMORY);
	ck_assert_str_eq(e->route, "/e");
	while (n)
		sl_mempool_put(&bed.core.exchanges, taken[--n]);
}

TEST(a_long_path_is_cut)
{
	char text[2000];
	const struct sl_event *e;

	snprintf(text, sizeof(text), "GET /%0900d HTTP/1.1\r\nHost: x\r\n\r\n", 7);
	say(text);
	e = take_one();
	ck_assert_uint_eq(e->path_len, sizeof(e->path) - 1);
	ck_assert_uint_eq(strlen(e->path), e->path_len);
	ck_assert_mem_eq(e->path, text + 4, e->path_len);
}

static void ck_text(const struct sl_event *e, enum sl_event_text which, const char *want)
{
	struct sl_span text = sl_event_text(e, which);

	ck_assert_msg(sl_span_eq(text, sl_span_cstr(want)), "%u: %.*s", which, (int)text.len,
		      text.ptr);
}

#define ABOUT_ITSELF                                                                               \
	"GET /none HTTP/1.1\r\nHost: a.example\r\nUser-Agent: curl\r\nReferer: http://r/\r\n"      \
	"X-Request-ID: 17\r\nX-Request-ID: 18\r\n"                                                 \
	"traceparent: 00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01\r\n\r\n"

TEST(client_texts_are_recorded)
{
	const struct sl_event *e;

	say(ABOUT_ITSELF);
	e = take_one();
	ck_text(e, SL_EVENT_HOST, "a.example");
	ck_text(e, SL_EVENT_USER_AGENT, "curl");
	ck_text(e, SL_EVENT_REFERER, "http://r/");
	ck_text(e, SL_EVENT_REQUEST_ID, "17");
	ck_text(e, SL_EVENT_TRACE_ID, "0af7651916cd43dd8448eb211c80319c");
	ck_text(e, SL_EVENT_SNI, "");
	ck_assert_str_eq(e->path, "/none");
}

TEST(texts_without_a_log_field_are_not_recorded)
{
	const struct sl_event *e;

	bed.cfg->access_log.fields = 1u << SL_LOG_USER_AGENT;
	say(ABOUT_ITSELF);
	e = take_one();
	for (unsigned i = 0; i < SL_EVENT_TEXT_CNT; i++)
		ck_text(e, i, i == SL_EVENT_USER_AGENT ? "curl" : "");
}

/* None takes the place of the path, or of another one's first bytes. */
TEST(long_texts_are_cut)
{
	char text[4000];
	const struct sl_event *e;
	size_t sum = 0;

	snprintf(
		text, sizeof(text),
		"GET /none HTTP/1.1\r\nHost: %0200d\r\nReferer: %0600d\r\nUser-Agent: %0600d\r\n"
		"X-Request-Id: %0600d\r\ntraceparent: 00-0af7651916cd43dd8448eb211c80319x-b7ad6b7169203331-01\r\n\r\n",
		1, 2, 3, 4);
	say(text);
	e = take_one();
	ck_assert_str_eq(e->path, "/none");
	ck_text(e, SL_EVENT_TRACE_ID, "");
	ck_assert_uint_eq(sl_event_text(e, SL_EVENT_REQUEST_ID).len, 64);
	ck_assert_uint_eq(sl_event_text(e, SL_EVENT_HOST).len, 100);
	ck_assert_uint_eq(sl_event_text(e, SL_EVENT_USER_AGENT).len, 160);
	ck_assert_uint_gt(sl_event_text(e, SL_EVENT_REFERER).len, 100);
	for (unsigned i = 0; i < SL_EVENT_TEXT_CNT; i++)
		sum += e->text_len[i];
	ck_assert_uint_le(sum, sizeof(e->texts));
}

/* The ring is not read: requests are answered as before, and lost records are counted. */
TEST(records_without_room_are_counted)
{
	const unsigned more = 10;
	unsigned n, taken = 0;

	for (unsigned i = 0; i < SL_EVENT_RING_SMALL + more; i++) {
		bed.clients[0].heard_len = 0;
		say("GET /none HTTP/1.1\r\nHost: x\r\n\r\n");
	}
	bed_turns(5);
	ck_assert_uint_eq(bed.core.stats.outcomes[SL_OUTCOME_NO_ROUTE], SL_EVENT_RING_SMALL + more);
	ck_assert_uint_eq(bed.core.stats.access_log_dropped, more);
	while ((n = sl_events_take(bed.core.events, got, 80))) {
		for (unsigned i = 0; i < n; i++)
			ck_assert_str_eq(got[i].path, "/none"); /* none is half another */
		taken += n;
	}
	ck_assert_uint_eq(taken, SL_EVENT_RING_SMALL);
}

TEST(without_a_reader_nothing_is_kept)
{
	sl_events_want(&bed.core, false);
	say("GET /none HTTP/1.1\r\nHost: x\r\n\r\n");
	bed_turns(3);
	ck_assert_uint_eq(bed.core.stats.outcomes[SL_OUTCOME_NO_ROUTE], 1);
	ck_assert_uint_eq(bed.core.stats.access_log_dropped, 0);
	ck_assert_uint_eq(sl_events_take(bed.core.events, got, 80), 0);
	ck_assert_uint_eq(sl_mempool_used(&bed.core.notes), 0);
}

TEST(without_a_reader_only_exported_records_are_kept)
{
	struct sl_cfg_trace *t = &bed.cfg->trace;
	const struct sl_event *e;

	sl_events_want(&bed.core, false);
	*t = (struct sl_cfg_trace){.request_id = true, .otlp = "http://127.0.0.1:1/"};
	say("GET /none HTTP/1.1\r\nHost: x\r\nx-request-id: mine\r\n\r\n");
	bed_turns(3);
	ck_assert_uint_eq(sl_events_take(bed.core.events, got, 80), 0);
	ck_assert_uint_eq(sl_mempool_used(&bed.core.notes), 0);
	t->sample = 1;
	say("GET /none HTTP/1.1\r\nHost: x\r\nx-request-id: mine\r\n\r\n");
	e = take_one();
	ck_assert(sl_span_eq(sl_event_text(e, SL_EVENT_REQUEST_ID), sl_span_str("mine")));
	ck_assert_ptr_nonnull(memmem(bed.clients[0].heard, bed.clients[0].heard_len,
				     "x-request-id: mine\r\n", 20));
	for (unsigned i = 0; i < SL_EVENT_RING_SMALL + 3; i++) {
		bed.clients[0].heard_len = 0;
		say("GET /none HTTP/1.1\r\nHost: x\r\n\r\n");
	}
	bed_turns(5);
	ck_assert_uint_eq(bed.core.stats.trace_spans_dropped, 3);
	ck_assert_uint_eq(bed.core.stats.access_log_dropped, 0);
	*t = (struct sl_cfg_trace){0};
}

/* A reader that comes or goes meanwhile: no record is half made. */
TEST(a_request_under_way_ends_as_it_began)
{
	unsigned b;

	sl_events_want(&bed.core, false);
	bed_post_request(0, "/e", 'z', 10);
	b = backend_asked();
	sl_events_want(&bed.core, true);
	bed_reply(&bed.backends[b], bed.backends[b].ids[0], SL_RPC_OK, 0, "x");
	bed_turns(3);
	ck_assert_uint_eq(sl_events_take(bed.core.events, got, 80), 0);
	bed_post_request(0, "/e", 'z', 10);
	bed_turns(3);
	sl_events_want(&bed.core, false);
	for (b = 0; b < 2; b++) {
		for (unsigned i = 0; i < bed.backends[b].id_cnt; i++)
			bed_reply(&bed.backends[b], bed.backends[b].ids[i], SL_RPC_OK, 0, "x");
	}
	ck_assert_str_eq(take_one()->path, "/e");
}
