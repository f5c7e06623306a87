/* SPDX-License-Identifier: Apache-2.0 */
/* Records of ended exchanges that a worker gives to the control thread. */
#include "core_bed.h"
#include "core/event.h"
#include "front/exemplar.h"
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

/* Returns the exemplar of a status of a route that has one duration. */
static const struct sl_exemplar *exemplar_of(uint32_t route, unsigned status)
{
	static struct sl_exemplar to[SL_DURATION_SLOTS][SL_EXEMPLAR_BUCKETS];
	struct sl_duration sum[SL_DURATION_SLOTS] = {0};
	const struct sl_route_codes *r = bed.core.wcfg->route_codes[route];
	const struct sl_exemplar *found = NULL;

	memset(to, 0, sizeof(to));
	sl_durations_merge(sum, r->http);
	sl_exemplars_merge(to, sum, r, false);
	for (unsigned b = 0; b < SL_EXEMPLAR_BUCKETS; b++) {
		const struct sl_exemplar *e = &to[sl_duration_slot(sum, sl_code_index(status))][b];

		if (!e->unix_ns)
			continue;
		ck_assert_ptr_null(found);
		ck_assert_ptr_eq(e - b + sl_duration_bucket(e->ns), e);
		found = e;
	}
	return found;
}

#define TRACED(path, flags)                                                                        \
	"GET " path " HTTP/1.1\r\nHost: x\r\ntraceparent: "                                        \
	"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-" flags "\r\n\r\n"

TEST(sampled_and_exported_requests_are_exemplars)
{
	const uint32_t none = bed.cfg->route_cnt;
	struct sl_cfg_trace *t = &bed.cfg->trace;
	const struct sl_exemplar *e;
	unsigned b;

	*t = (struct sl_cfg_trace){.otlp = "http://127.0.0.1:1/"};
	for (uint32_t i = 0; i <= none; i++)
		ck_assert(sl_exemplars_make(bed.core.wcfg->route_codes[i]));
	say(TRACED("/none", "00"));
	bed_turns(3);
	ck_assert_uint_eq(bed.core.wcfg->route_codes[none]->codes.http[SL_CODE_404], 1);
	ck_assert_ptr_null(exemplar_of(none, 404));
	say(TRACED("/none", "01"));
	bed_turns(3);
	e = exemplar_of(none, 404);
	ck_assert_ptr_nonnull(e);
	ck_assert_uint_eq(e->trace_id[0], 0x4b);
	ck_assert_uint_eq(e->trace_id[15], 0x36);
	ck_assert_uint_gt(e->unix_ns, UINT64_C(1600000000) * SL_NS_PER_SEC);
	bed_post_request(0, "/e", 'z', 10); /* not sampled, but fails */
	b = backend_asked();
	bed_turn(5 * SL_NS_PER_MS);
	bed_reply(&bed.backends[b], bed.backends[b].ids[0], SL_RPC_INTERNAL, 0, "");
	bed_turns(3);
	e = exemplar_of(0, 502);
	ck_assert_ptr_nonnull(e);
	ck_assert_uint_eq(e->ns, bed.core.wcfg->route_codes[0]->http[0].sum_ns);
	*t = (struct sl_cfg_trace){0};
}

TEST(a_request_refused_for_want_of_an_exchange_is_an_exemplar_too)
{
	const uint32_t none = bed.cfg->route_cnt;
	void *taken[64];
	unsigned n = 0;

	bed.cfg->trace = (struct sl_cfg_trace){.request_id = true};
	ck_assert(sl_exemplars_make(bed.core.wcfg->route_codes[none]));
	while (n < 64 && (taken[n] = sl_mempool_get(&bed.core.exchanges)))
		n++;
	say(TRACED("/none", "01"));
	bed_turns(3);
	ck_assert_ptr_nonnull(exemplar_of(none, 503));
	ck_assert_uint_eq(exemplar_of(none, 503)->ns, 0);
	while (n)
		sl_mempool_put(&bed.core.exchanges, taken[--n]);
	bed.cfg->trace = (struct sl_cfg_trace){0};
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

/* Returns the x-request-id that the client has got. */
static struct sl_span heard_id(void)
{
	static const char name[] = "x-request-id: ";
	const struct bed_client *cl = &bed.clients[0];
	const uint8_t *at = memmem(cl->heard, cl->heard_len, name, sizeof(name) - 1), *end;

	ck_assert_ptr_nonnull(at);
	at += sizeof(name) - 1;
	end = memmem(at, (size_t)(cl->heard + cl->heard_len - at), "\r\n", 2);
	ck_assert_ptr_nonnull(end);
	return sl_span_of(at, (size_t)(end - at));
}

/* Refused by the parser, before or after its fields, and for want of an exchange. */
TEST_EACH(refused_request_has_a_request_id, 5)
{
	static const struct {
		const char *text, *id;
		unsigned status;
		enum sl_front_error error;
	} cases[] = {
		{"GET /x HTTP/1.1\r\nX-Request-Id: mine\r\nHost : x\r\n\r\n", NULL, 400,
		 SL_FRONT_ERR_SMUGGLING},
		{"GET /x HTTP/1.1\r\nX-Request-Id: mine\r\nHost: x\r\nTransfer-Encoding: chunked\r\n"
		 "Content-Length: 1\r\n\r\n",
		 "mine", 400, SL_FRONT_ERR_SMUGGLING},
		{"GET /x HTTP/3.0\r\nX-Request-Id: mine\r\n\r\n", NULL, 505, SL_FRONT_ERR_VERSION},
		{"GET /e HTTP/1.1\r\nHost: x\r\n\r\nGET /x HTTP/1.1\r\nHost : x\r\n\r\n", NULL, 400,
		 SL_FRONT_ERR_SMUGGLING},
		{"GET /e HTTP/1.1\r\nX-Request-Id: mine\r\nHost: x\r\n\r\n", "mine", 503,
		 SL_FRONT_ERR_NO_EXCHANGE},
	};
	bool short_of_exchanges = cases[_i].error == SL_FRONT_ERR_NO_EXCHANGE;
	const struct sl_event *e;
	void *taken[64];
	unsigned n = 0;
	struct sl_span id;

	bed.cfg->trace.request_id = true;
	while (short_of_exchanges && n < 64 && (taken[n] = sl_mempool_get(&bed.core.exchanges)))
		n++;
	say(cases[_i].text);
	if (_i == 3) { /* behind a request that is not answered yet */
		unsigned b = backend_asked();

		ck_assert_uint_eq(sl_events_take(bed.core.events, got, 80), 1);
		ck_assert_uint_eq(got[0].front_error, SL_FRONT_ERR_SMUGGLING + 1);
		id = sl_event_text(&got[0], SL_EVENT_REQUEST_ID);
		ck_assert_uint_eq(id.len, 32);
		ck_assert(bed_reply(&bed.backends[b], bed.backends[b].ids[0], SL_RPC_OK, 0, "a"));
		bed_turns(3);
		ck_assert_ptr_nonnull(
			memmem(bed.clients[0].heard, bed.clients[0].heard_len, id.ptr, id.len));
		return;
	}
	e = take_one();
	id = heard_id();
	ck_assert(sl_span_eq(id, sl_event_text(e, SL_EVENT_REQUEST_ID)));
	if (cases[_i].id)
		ck_assert(sl_span_eq(id, sl_span_cstr(cases[_i].id)));
	else
		ck_assert_uint_eq(id.len, 32);
	if (!short_of_exchanges) {
		ck_assert_uint_eq(e->status, cases[_i].status);
		ck_assert_uint_eq(e->front_error, cases[_i].error + 1);
	}
	while (n)
		sl_mempool_put(&bed.core.exchanges, taken[--n]);
}
