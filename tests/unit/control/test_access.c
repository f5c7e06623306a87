/* SPDX-License-Identifier: Apache-2.0 */
/* The access log: its lines, and where they go. */
#include <arpa/inet.h>
#include <jansson.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/check.h"
#include "control/access_line.h"
#include "control/access_log.h"
#include "suite.h"

static char file[64], moved[80];
static struct sl_err err = SL_ERR(200);
static struct sl_ring *ring;
static struct sl_config log_cfg;
static struct sl_cfg_access_log chosen = {.format = SL_ACCESS_LOG_JSON};
static const struct sl_cfg_access_log combined = {.format = SL_ACCESS_LOG_COMBINED};

/* A gateway with one worker. */
struct sl_ring *sl_gateway_events(struct sl_gateway *g, uint32_t worker)
{
	(void)g;
	return worker ? NULL : ring;
}

static struct sl_event event_of(const char *path, size_t len)
{
	struct sl_event e = {
		.end_ns = 1,
		.stage_ns = {1, 2, 3, 4, 5},
		.status = 200,
		.begun = true,
		.outcome = SL_OUTCOME_OK,
		.method = SL_METHOD_GET,
		.version_minor = 1,
		.path_len = (uint16_t)len,
		.peer = {.addr = {10, 0, 0, 2}, .port_be = htons(4321), .family = 4},
		.pool = "score",
		.backend = "a",
	};

	memcpy(e.path, path, len);
	return e;
}

static json_t *parsed(const struct sl_event *e)
{
	char text[SL_ACCESS_LINE_MAX];
	struct sl_strbuf b;
	json_t *o;

	sl_strbuf_fixed(&b, text, sizeof(text));
	sl_access_line(&b, e, &chosen, 1769860800123456789);
	ck_assert_int_eq(b.err, 0);
	ck_assert_ptr_eq(strchr(text, '\n'), text + b.len - 1);
	for (size_t i = 0; i + 1 < b.len; i++)
		ck_assert_int_ge((unsigned char)text[i], ' ');
	o = json_loads(text, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, NULL);
	ck_assert_ptr_nonnull(o);
	return o;
}

static const char *text_of(const json_t *o, const char *key)
{
	return json_string_value(json_object_get(o, key));
}

static json_int_t number_of(const json_t *o, const char *key)
{
	ck_assert(json_is_integer(json_object_get(o, key)));
	return json_integer_value(json_object_get(o, key));
}

TEST(json_line_has_all_fields)
{
	struct sl_event e = event_of("/x", 2);
	json_t *o = parsed(&e);

	ck_assert_str_eq(text_of(o, "time"), "2026-01-31T12:00:00.123456Z");
	ck_assert_str_eq(text_of(o, "peer"), "10.0.0.2");
	ck_assert_int_eq(number_of(o, "peer_port"), 4321);
	ck_assert_str_eq(text_of(o, "protocol"), "http1");
	ck_assert_str_eq(text_of(o, "method"), "GET");
	ck_assert_str_eq(text_of(o, "outcome"), "ok");
	ck_assert_int_eq(number_of(o, "status"), 200);
	ck_assert_int_eq(number_of(o, "backend_ns"), 4);
	ck_assert_int_eq(number_of(o, "total_ns"), 15);
	ck_assert_ptr_null(json_object_get(o, "grpc_status"));
	ck_assert_ptr_null(json_object_get(o, "upgrade_ignored"));
	json_decref(o);
	e.upgrade_ignored = true;
	o = parsed(&e);
	ck_assert(json_is_true(json_object_get(o, "upgrade_ignored")));
	json_decref(o);
}

static void put_text(struct sl_event *e, enum sl_event_text which, const char *text)
{
	size_t at = 0;

	for (unsigned i = 0; i < which; i++)
		at += e->text_len[i];
	e->text_len[which] = (uint8_t)strlen(text);
	memcpy(e->texts + at, text, strlen(text));
}

TEST(fields_are_chosen)
{
	static const char *const optional[] = {
		"listener", "cipher", "sni",  "tls_subject", "host",  "user_agent", "request_id",
		"trace_id", "route",  "pool", "backend",     "batch", "retries",    "total_ns"};
	static const char *const always[] = {"time",   "peer",          "method",
					     "path",   "status",        "outcome",
					     "reason", "request_bytes", "reply_bytes"};
	struct sl_event e = event_of("/x", 2);
	json_t *o;

	e.cipher = "C";
	memcpy(e.listener, "web", 4);
	memcpy(e.route, "/", 2);
	put_text(&e, SL_EVENT_TRACE_ID, "0af7651916cd43dd8448eb211c80319c");
	put_text(&e, SL_EVENT_REQUEST_ID, "17");
	put_text(&e, SL_EVENT_SNI, "a.test");
	put_text(&e, SL_EVENT_HOST, "a.example");
	put_text(&e, SL_EVENT_SUBJECT, "CN=alice");
	put_text(&e, SL_EVENT_USER_AGENT, "curl\"");
	o = parsed(&e);
	ck_assert_str_eq(text_of(o, "sni"), "a.test");
	ck_assert_str_eq(text_of(o, "tls_subject"), "CN=alice");
	ck_assert_str_eq(text_of(o, "host"), "a.example");
	ck_assert_str_eq(text_of(o, "user_agent"), "curl\"");
	ck_assert_str_eq(text_of(o, "reason"), "answered by a backend");
	ck_assert_ptr_null(text_of(o, "referer"));
	for (unsigned i = 0; i < SL_ARRAY_LEN(optional); i++)
		ck_assert_msg(json_object_get(o, optional[i]) != NULL, "%s", optional[i]);
	json_decref(o);
	chosen.fields = 1u << SL_LOG_NONE;
	o = parsed(&e);
	for (unsigned i = 0; i < SL_ARRAY_LEN(optional); i++)
		ck_assert_msg(!json_object_get(o, optional[i]), "%s", optional[i]);
	for (unsigned i = 0; i < SL_ARRAY_LEN(always); i++)
		ck_assert_msg(json_object_get(o, always[i]) != NULL, "%s", always[i]);
	json_decref(o);
	chosen.fields = 1u << SL_LOG_REQUEST_ID | 1u << SL_LOG_TLS_SUBJECT;
	o = parsed(&e);
	ck_assert_str_eq(text_of(o, "request_id"), "17");
	ck_assert_str_eq(text_of(o, "tls_subject"), "CN=alice");
	ck_assert_ptr_null(text_of(o, "host"));
	json_decref(o);
	chosen.fields = 0;
}

TEST(combined_line_has_address_referer_and_user_agent)
{
	char text[SL_ACCESS_LINE_MAX];
	struct sl_event e = event_of("/x", 2);
	struct sl_strbuf b;

	put_text(&e, SL_EVENT_USER_AGENT, "curl \"8\"");
	put_text(&e, SL_EVENT_REFERER, "http://r/");
	sl_strbuf_fixed(&b, text, sizeof(text));
	sl_access_line(&b, &e, &combined, 1769860800123456789);
	ck_assert_ptr_nonnull(strstr(text, "200 0 \"http://r/\" \"curl \\x228\\x22\"\n"));
}

/* Each byte, alone in a path and among bytes that end a string; in one process, as a fork takes longer. */
TEST(json_holds_any_byte)
{
	char path[sizeof(((struct sl_event *)0)->path)];
	struct sl_event e;

	for (int i = 0; i < 256; i++) {
		memset(path, i, sizeof(path));
		e = event_of(path, sizeof(path) - 1);
		memset(e.texts, i, sizeof(e.texts));
		memset(e.text_len, sizeof(e.texts) / SL_EVENT_TEXT_CNT, SL_EVENT_TEXT_CNT);
		json_decref(parsed(&e));
		e = event_of((char[]){'/', (char)i, '"', '}'}, 4);
		json_decref(parsed(&e));
	}
}

static void check_combined(int byte)
{
	char text[SL_ACCESS_LINE_MAX], wanted[200], shown[8];
	struct sl_event e = event_of((char[]){'/', (char)byte}, 2);
	struct sl_strbuf b;

	sl_strbuf_fixed(&b, text, sizeof(text));
	sl_access_line(&b, &e, &combined, 1769860800123456789);
	if (byte < 0x20 || byte >= 0x7f || byte == '"' || byte == '\\')
		snprintf(shown, sizeof(shown), "\\x%02X", (unsigned)byte & 0xff);
	else
		snprintf(shown, sizeof(shown), "%c", byte);
	snprintf(wanted, sizeof(wanted),
		 "10.0.0.2 - - [31/Jan/2026:12:00:00 +0000] \"GET /%s HTTP/1.1\" 200 0 \"-\" "
		 "\"-\"\n",
		 shown);
	ck_assert_str_eq(text, wanted);
}

TEST(combined_holds_any_byte)
{
	for (int byte = 0; byte < 256; byte++)
		check_combined(byte);
}

TEST_EACH(status_field_is_the_status_sent, 10)
{
	static const struct {
		uint8_t proto, outcome;
		bool begun;
		uint16_t status, grpc;
		unsigned http;
		int call; /* -1: none */
	} ends[] = {
		{SL_PROTO_HTTP1, SL_OUTCOME_OK, true, 207, 0, 207, -1},
		{SL_PROTO_HTTP1, SL_OUTCOME_CLIENT_GONE, false, 200, 0, 499, -1},
		{SL_PROTO_HTTP2, SL_OUTCOME_CLIENT_GONE, true, 200, 0, 200, -1},
		{SL_PROTO_HTTP1, SL_OUTCOME_NO_MEMORY, false, 0, 0, 503, -1},
		{SL_PROTO_HTTP2, SL_OUTCOME_BACKEND_LOST, true, 200, 0, 200, -1},
		{SL_PROTO_GRPC, SL_OUTCOME_OK, true, 200, 0, 200, 0},
		{SL_PROTO_GRPC, SL_OUTCOME_OK, true, 200, 9, 200, 9},
		{SL_PROTO_GRPC, SL_OUTCOME_OK, true, 404, 0, 200, 12},
		{SL_PROTO_GRPC, SL_OUTCOME_EXPIRED, true, 504, 4, 200, 4},
		{SL_PROTO_GRPC, SL_OUTCOME_CLIENT_GONE, false, 0, 0, 499, 1},
	};
	struct sl_event e = event_of("/", 1);
	json_t *o;

	e.proto = ends[_i].proto;
	e.outcome = ends[_i].outcome;
	e.begun = ends[_i].begun;
	e.status = ends[_i].status;
	e.grpc_status = ends[_i].grpc;
	o = parsed(&e);
	ck_assert_int_eq(number_of(o, "status"), ends[_i].http);
	if (ends[_i].call >= 0)
		ck_assert_int_eq(number_of(o, "grpc_status"), ends[_i].call);
	else
		ck_assert_ptr_null(json_object_get(o, "grpc_status"));
	ck_assert_ptr_nonnull(text_of(o, "reason"));
	json_decref(o);
}

/* --- the file --- */

static void set_up(void)
{
	snprintf(file, sizeof(file), "/tmp/sl-access-%d", getpid());
	snprintf(moved, sizeof(moved), "%s.1", file);
	unlink(file);
	log_cfg = (struct sl_config){.user = "nobody", .access_log = {.file = file, .sample = 1}};
	ring = sl_ring_new(64 * SL_EVENT_WORDS);
}

static void tear_down(void)
{
	sl_ring_free(ring);
	ring = NULL;
	unlink(file);
	unlink(moved);
}

static void put(const char *path, enum sl_outcome outcome, unsigned cnt)
{
	struct sl_event e = event_of(path, strlen(path));
	uint64_t words[SL_EVENT_WORDS];

	e.outcome = (uint8_t)outcome;
	memcpy(words, &e, sizeof(words));
	while (cnt--)
		ck_assert_uint_eq(sl_ring_put_burst(ring, words, SL_EVENT_WORDS), SL_EVENT_WORDS);
}

/* As the control thread does. */
static void run_log(struct sl_access_log *l)
{
	struct sl_event e;

	while (sl_access_log_has_room(l, 1) && sl_events_take(ring, &e, 1))
		sl_access_log_put(l, &e, e.end_ns);
	sl_access_log_flush(l);
}

static unsigned lines_in(const char *name)
{
	FILE *f = fopen(name, "re");
	unsigned n = 0;

	for (int c; f && (c = getc(f)) != EOF;)
		n += c == '\n';
	if (f)
		fclose(f);
	return n;
}

static struct sl_access_log *open_log(void)
{
	struct sl_access_log *l = sl_access_log_open(&log_cfg, &err);

	ck_assert_msg(l != NULL, "%s", err.text);
	return l;
}

FIXTURE(set_up, tear_down)

TEST(lines_follow_the_name_of_the_file)
{
	struct sl_access_log *l = open_log();

	put("/a", SL_OUTCOME_OK, 3);
	run_log(l);
	ck_assert_uint_eq(lines_in(file), 3);
	ck_assert_int_eq(rename(file, moved), 0);
	put("/b", SL_OUTCOME_OK, 2);
	run_log(l);
	ck_assert_uint_eq(lines_in(moved), 5);
	sl_access_log_tick(l, &log_cfg.access_log);
	put("/c", SL_OUTCOME_OK, 4);
	run_log(l);
	ck_assert_uint_eq(lines_in(moved), 5);
	ck_assert_uint_eq(lines_in(file), 4);
	/* Another file is in its place already. */
	ck_assert_int_eq(rename(file, moved), 0);
	fclose(fopen(file, "we"));
	sl_access_log_tick(l, &log_cfg.access_log);
	put("/d", SL_OUTCOME_OK, 1);
	run_log(l);
	ck_assert_uint_eq(lines_in(moved), 4);
	ck_assert_uint_eq(lines_in(file), 1);
	sl_access_log_close(l);
}

TEST(sampling_applies_to_successes_only)
{
	struct sl_access_log *l;

	log_cfg.access_log.sample = 0.25;
	l = open_log();
	put("/a", SL_OUTCOME_OK, 40);
	put("/b", SL_OUTCOME_SHED, 7);
	run_log(l);
	ck_assert_uint_eq(lines_in(file), 17);
	sl_access_log_close(l);
}

TEST_EACH(nothing_but_a_file_is_opened, 3)
{
	switch (_i) {
	case 0: ck_assert_int_eq(mkfifo(file, 0600), 0); break;
	case 1: ck_assert_int_eq(symlink("/dev/null", file), 0); break;
	case 2:
		fclose(fopen(moved, "we"));
		ck_assert_int_eq(symlink(moved, file), 0);
		break;
	}
	ck_assert_ptr_null(sl_access_log_open(&log_cfg, &err));
	ck_assert_msg(strstr(err.text, file) != NULL, "%s", err.text);
}

TEST(unwritable_lines_wait)
{
	struct sl_access_log *l = open_log();
	struct rlimit old, none;

	signal(SIGXFSZ, SIG_IGN);
	ck_assert_int_eq(getrlimit(RLIMIT_FSIZE, &old), 0);
	none = (struct rlimit){0, old.rlim_max};
	ck_assert_int_eq(setrlimit(RLIMIT_FSIZE, &none), 0);
	for (int i = 0; i < 2; i++) {
		put("/a", SL_OUTCOME_OK, 5);
		run_log(l);
	}
	ck_assert_uint_eq(lines_in(file), 0);
	ck_assert_int_eq(setrlimit(RLIMIT_FSIZE, &old), 0);
	run_log(l);
	ck_assert_uint_eq(lines_in(file), 10);
	sl_access_log_close(l);
}
