/* SPDX-License-Identifier: Apache-2.0 */
/* Spans as JSON, and a collector that is down, refuses, or is silent. */
#include <arpa/inet.h>
#include <fcntl.h>
#include <jansson.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "control/otlp.h"
#include "control/otlp_span.h"
#include "core/trace.h"
#include "suite.h"

static struct sl_event event;
static struct sl_otlp_stats before;
static struct sl_otlp *otlp;
static char url[64];
static int listener;
static uint64_t now_ns;

static void set_up(void)
{
	struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t len = sizeof(at);

	event = (struct sl_event){.trace_flags = SL_TRACE_SPAN | SL_TRACE_EXPORT | SL_TRACE_SAMPLED,
				  .status = 200,
				  .begun = true,
				  .outcome = SL_OUTCOME_OK,
				  .method = SL_METHOD_POST,
				  .stage_ns = {1, 2, 3, 4, 5},
				  .trace_id = {0xab, [15] = 1},
				  .span_id = {0xcd, [7] = 2},
				  .route = "/v1",
				  .path = "/v1/x",
				  .path_len = 5};
	listener = socket(AF_INET, SOCK_STREAM, 0);
	ck_assert_int_eq(bind(listener, (struct sockaddr *)&at, sizeof(at)), 0);
	ck_assert_int_eq(getsockname(listener, (struct sockaddr *)&at, &len), 0);
	snprintf(url, sizeof(url), "http://127.0.0.1:%u/v1/traces", ntohs(at.sin_port));
	otlp = sl_otlp_new();
	sl_otlp_configure(otlp, &(struct sl_cfg_trace){.otlp = url});
	before = sl_otlp_stats();
	now_ns = SL_NS_PER_SEC;
}

static void tear_down(void)
{
	sl_otlp_free(otlp);
	close(listener);
}

static json_t *parse_span(const struct sl_event *e)
{
	char text[SL_OTLP_SPAN_MAX];
	struct sl_strbuf b;
	json_t *o;

	sl_strbuf_fixed(&b, text, sizeof(text));
	sl_otlp_span(&b, e, 1000000);
	ck_assert_int_eq(b.err, 0);
	o = json_loads(text, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, NULL);
	ck_assert_msg(o != NULL, "%s", text);
	return o;
}

static const char *text_of(const json_t *o, const char *key)
{
	return json_string_value(json_object_get(o, key));
}

/* Returns the value of an attribute as a text. */
static const char *attribute(const json_t *o, const char *key)
{
	json_t *list = json_object_get(o, "attributes"), *a;
	const char *found = NULL;
	size_t i;

	json_array_foreach(list, i, a)
	{
		json_t *v = json_object_get(a, "value");

		if (strcmp(text_of(a, "key"), key) != 0)
			continue;
		ck_assert_ptr_null(found);
		found = text_of(v, "stringValue") ? text_of(v, "stringValue")
						  : text_of(v, "intValue");
	}
	return found;
}

FIXTURE(set_up, tear_down)

TEST(a_span_has_its_ids_times_and_attributes)
{
	json_t *o = parse_span(&event);

	ck_assert_str_eq(text_of(o, "traceId"), "ab000000000000000000000000000001");
	ck_assert_str_eq(text_of(o, "spanId"), "cd00000000000002");
	ck_assert_ptr_null(text_of(o, "parentSpanId"));
	ck_assert_str_eq(text_of(o, "name"), "POST /v1");
	ck_assert_str_eq(text_of(o, "startTimeUnixNano"), "999985");
	ck_assert_str_eq(text_of(o, "endTimeUnixNano"), "1000000");
	ck_assert_ptr_null(json_object_get(o, "status"));
	ck_assert_str_eq(attribute(o, "http.response.status_code"), "200");
	ck_assert_str_eq(attribute(o, "url.path"), "/v1/x");
	ck_assert_str_eq(attribute(o, "sluice.backend_ns"), "4");
	json_decref(o);
	event.trace_flags |= SL_TRACE_PARENT;
	event.parent_id[0] = 0xef;
	event.status = 502;
	o = parse_span(&event);
	ck_assert_str_eq(text_of(o, "parentSpanId"), "ef00000000000000");
	ck_assert_int_eq(json_integer_value(json_object_get(json_object_get(o, "status"), "code")),
			 2);
	json_decref(o);
}

TEST(hostile_texts_are_escaped)
{
	static const char path[] = "/\"},{\\\x01\xff\n\xe2\x82";
	json_t *o;

	memcpy(event.path, path, sizeof(path) - 1);
	event.path_len = sizeof(path) - 1;
	memcpy(event.texts, "i\"d", 3);
	event.text_len[SL_EVENT_REQUEST_ID] = 3;
	o = parse_span(&event);
	ck_assert_str_eq(attribute(o, "url.path"),
			 "/\"},{\\\x01\xef\xbf\xbd\n\xef\xbf\xbd\xef\xbf\xbd");
	ck_assert_str_eq(attribute(o, "sluice.request_id"), "i\"d");
	json_decref(o);
}

TEST(the_longest_span_fits)
{
	struct sl_event e = event;

	memset(e.route, 1, sizeof(e.route) - 1);
	memset(e.pool, 1, sizeof(e.pool) - 1);
	memset(e.backend, 1, sizeof(e.backend) - 1);
	memset(e.path, 1, sizeof(e.path));
	memset(e.stage_ns, 0xff, sizeof(e.stage_ns));
	e.path_len = sizeof(e.path);
	e.text_len[SL_EVENT_REQUEST_ID] = 64;
	memset(e.texts, 1, 64);
	e.proto = SL_PROTO_GRPC;
	e.outcome = SL_OUTCOME_NO_MEMORY;
	e.trace_flags |= SL_TRACE_PARENT;
	json_decref(parse_span(&e));
}

/* Runs for so many seconds. */
static void run_for(unsigned seconds)
{
	for (unsigned i = 0; i < 10 * seconds; i++) {
		now_ns += SL_NS_PER_SEC / 10;
		sl_otlp_run(otlp, now_ns);
	}
}

TEST(a_collector_that_is_down_is_retried_with_back_off)
{
	sl_otlp_put(otlp, &event, 1);
	run_for(60); /* after 0, 1, 3, 7, 15, 31 s */
	ck_assert_uint_ge(sl_otlp_stats().failures - before.failures, 5);
	ck_assert_uint_le(sl_otlp_stats().failures - before.failures, 7);
	ck_assert_uint_eq(sl_otlp_stats().dropped, before.dropped);
}

TEST(waiting_spans_are_bounded_and_failures_have_room_left)
{
	uint64_t dropped;

	for (unsigned i = 0; i < 20000; i++)
		sl_otlp_put(otlp, &event, 1);
	dropped = sl_otlp_stats().dropped - before.dropped;
	ck_assert_uint_gt(dropped, 18000);
	event.trace_flags |= SL_TRACE_KEEP;
	sl_otlp_put(otlp, &event, 1);
	ck_assert_uint_eq(sl_otlp_stats().dropped - before.dropped, dropped);
	for (unsigned i = 0; i < 20000; i++)
		sl_otlp_put(otlp, &event, 1);
	ck_assert_uint_gt(sl_otlp_stats().dropped - before.dropped, 2 * dropped - 2000);
}

TEST(records_that_are_not_exported_are_ignored)
{
	event.trace_flags = SL_TRACE_SPAN;
	sl_otlp_put(otlp, &event, 1);
	run_for(3);
	ck_assert_uint_eq(sl_otlp_stats().failures, before.failures);
}

/* Answers a request by `reply`, and returns what was asked. */
static void answer(const char *reply, char *asked, size_t size)
{
	int fd;
	ssize_t n;

	ck_assert_int_eq(listen(listener, 8), 0);
	run_for(2);
	fd = accept(listener, NULL, NULL);
	ck_assert_int_ge(fd, 0);
	n = recv(fd, asked, size - 1, 0);
	ck_assert_int_gt(n, 0);
	asked[n] = 0;
	ck_assert_int_eq(send(fd, reply, strlen(reply), 0), (ssize_t)strlen(reply));
	run_for(1);
	close(fd);
}

static const struct {
	const char *reply;
	unsigned exported, dropped, failures;
} replies[] = {
	{"HTTP/1.1 200 OK\r\n\r\n{}", 1, 0, 0},
	{"HTTP/1.0 204 No\r\n", 1, 0, 0},
	{"HTTP/1.1 400 No\r\n", 0, 1, 1},
	{"HTTP/1.1 500 No\r\n", 0, 1, 1},
	{"HTTP/1.1 503 No\r\n", 0, 0, 1},
	{"HTTP/1.1 429 No\r\n", 0, 0, 1},
	{"HTTP/1.1 2000000\n", 1, 0, 0},
	{"HTTP/1.1 -20 x\r\n", 0, 0, 1},
	{"no HTTP\n", 0, 0, 1},
	{"\n", 0, 0, 1},
};

TEST_EACH(a_status_decides_what_becomes_of_the_spans, SL_ARRAY_LEN(replies))
{
	struct sl_otlp_stats after;
	static char asked[4096];
	json_t *o;

	sl_otlp_put(otlp, &event, 1000000);
	answer(replies[_i].reply, asked, sizeof(asked));
	ck_assert_ptr_nonnull(strstr(asked, "POST /v1/traces HTTP/1.1\r\nHost: 127.0.0.1:"));
	o = json_loads(strstr(asked, "\r\n\r\n") + 4, 0, NULL);
	ck_assert_ptr_nonnull(json_object_get(o, "resourceSpans"));
	json_decref(o);
	after = sl_otlp_stats();
	ck_assert_uint_eq(after.exported - before.exported, replies[_i].exported);
	ck_assert_uint_eq(after.dropped - before.dropped, replies[_i].dropped);
	ck_assert_uint_eq(after.failures - before.failures, replies[_i].failures);
}

/* Repeating the request would not help, and the next one may be accepted. */
TEST(final_status_drops_the_spans_and_delays_no_others)
{
	static char asked[4096];
	char text[4096];
	ssize_t n;
	int fds[2];

	ck_assert_int_eq(pipe2(fds, O_NONBLOCK), 0);
	sl_log_fd_set(fds[1]);
	ck_assert_int_eq(fcntl(listener, F_SETFL, O_NONBLOCK), 0);
	for (unsigned i = 0; i < 6; i++) {
		sl_otlp_put(otlp, &event, 1);
		answer("HTTP/1.1 400 No\r\n", asked, sizeof(asked));
	}
	sl_log_fd_set(-1);
	ck_assert_uint_eq(sl_otlp_stats().dropped - before.dropped, 6);
	ck_assert_uint_eq(sl_otlp_stats().failures - before.failures, 6);
	n = read(fds[0], text, sizeof(text) - 1);
	ck_assert_int_gt(n, 0);
	text[n] = 0;
	ck_assert_msg(strstr(text, "answers with status 400; spans dropped: 1\n") != NULL, "%s",
		      text);
	close(fds[0]);
	close(fds[1]);
}

TEST(a_silent_collector_is_given_up_after_a_time)
{
	ck_assert_int_eq(listen(listener, 8), 0);
	sl_otlp_put(otlp, &event, 1);
	run_for(4);
	ck_assert_uint_eq(sl_otlp_stats().failures, before.failures);
	run_for(3);
	ck_assert_uint_eq(sl_otlp_stats().failures - before.failures, 1);
}

TEST(what_waits_is_dropped_and_counted_when_the_collector_is_taken_away)
{
	sl_otlp_put(otlp, &event, 1);
	run_for(2);
	sl_otlp_put(otlp, &event, 1);
	sl_otlp_configure(otlp, &(struct sl_cfg_trace){0});
	ck_assert(!sl_otlp_is_on(otlp));
	ck_assert_uint_eq(sl_otlp_stats().dropped - before.dropped, 2);
}
