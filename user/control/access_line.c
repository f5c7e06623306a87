/* SPDX-License-Identifier: Apache-2.0 */
#include "control/access_line.h"

#include <arpa/inet.h>
#include <inttypes.h>
#include <time.h>

#include "base/check.h"
#include "base/clock.h"
#include "control/fields.h"
#include "front/codes.h"
#include "front/front.h"

unsigned sl_access_status(const struct sl_event *e)
{
	struct sl_code_end end = sl_event_code(e);

	return sl_code_http(&end);
}

unsigned sl_access_grpc_status(const struct sl_event *e)
{
	struct sl_code_end end = sl_event_code(e);

	return sl_code_grpc(&end);
}

static struct sl_span path_of(const struct sl_event *e)
{
	return sl_span_of(e->path, e->path_len);
}

static const char *method_of(const struct sl_event *e)
{
	const char *name = sl_method_name((enum sl_method)e->method);

	return name[0] ? name : "-";
}

static void put_address(struct sl_strbuf *b, const struct sl_addr *a)
{
	char text[SL_ADDR_TEXT];

	sl_strbuf_str(b, a->family ? sl_addr_text(a, text) : "-");
}

static bool has_field(uint32_t fields, enum sl_log_field field)
{
	return fields & 1u << field;
}

static void put_span(struct sl_strbuf *b, const char *key, struct sl_span text)
{
	if (!text.len)
		return;
	sl_strbuf_printf(b, ", \"%s\": ", key);
	sl_strbuf_json_str(b, text);
}

static void put_name(struct sl_strbuf *b, const char *key, const char *text)
{
	put_span(b, key, sl_span_cstr(text));
}

static void put_number(struct sl_strbuf *b, const char *key, uint64_t v)
{
	sl_strbuf_printf(b, ", \"%s\": %" PRIu64, key, v);
}

static void put_times(struct sl_strbuf *b, const struct sl_event *e)
{
	static const char *const names[SL_EVENT_STAGE_CNT] = {
		[SL_EVENT_WIRE] = "wire_ns",   [SL_EVENT_PARSE] = "parse_ns",
		[SL_EVENT_QUEUE] = "queue_ns", [SL_EVENT_BACKEND] = "backend_ns",
		[SL_EVENT_REPLY] = "reply_ns",
	};
	uint64_t total = 0;

	for (unsigned i = 0; i < SL_EVENT_STAGE_CNT; i++) {
		put_number(b, names[i], e->stage_ns[i]);
		total += e->stage_ns[i];
	}
	put_number(b, "total_ns", total);
	put_number(b, "service_ns", (uint64_t)e->service_us * SL_NS_PER_US);
}

static void put_time(struct sl_strbuf *b, uint64_t unix_ns)
{
	time_t t = (time_t)(unix_ns / SL_NS_PER_SEC);
	char text[32];
	struct tm tm;

	gmtime_r(&t, &tm);
	strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%S", &tm);
	sl_strbuf_printf(b, "{\"time\": \"%s.%06" PRIu64 "Z\"", text,
			 unix_ns % SL_NS_PER_SEC / SL_NS_PER_US);
}

static void put_connection(struct sl_strbuf *b, const struct sl_event *e, uint32_t fields)
{
	sl_strbuf_str(b, ", \"peer\": \"");
	put_address(b, &e->peer);
	sl_strbuf_char(b, '"');
	put_number(b, "peer_port", ntohs(e->peer.port_be));
	if (has_field(fields, SL_LOG_LISTENER))
		put_name(b, "listener", e->listener);
	if (has_field(fields, SL_LOG_TLS) && e->cipher) {
		put_name(b, "tls", "TLSv1.3");
		put_name(b, "cipher", e->cipher);
		sl_strbuf_printf(b, ", \"resumed\": %s", e->resumed ? "true" : "false");
		put_span(b, "sni", sl_event_text(e, SL_EVENT_SNI));
	}
	if (has_field(fields, SL_LOG_TLS_SUBJECT))
		put_span(b, "tls_subject", sl_event_text(e, SL_EVENT_SUBJECT));
}

static void put_request(struct sl_strbuf *b, const struct sl_event *e, uint32_t fields)
{
	static const struct {
		const char *key;
		enum sl_log_field field;
		enum sl_event_text text;
	} texts[] = {
		{"key", SL_LOG_KEY, SL_EVENT_KEY},
		{"host", SL_LOG_HOST, SL_EVENT_HOST},
		{"user_agent", SL_LOG_USER_AGENT, SL_EVENT_USER_AGENT},
		{"referer", SL_LOG_REFERER, SL_EVENT_REFERER},
		{"request_id", SL_LOG_REQUEST_ID, SL_EVENT_REQUEST_ID},
		{"trace_id", SL_LOG_TRACE_ID, SL_EVENT_TRACE_ID},
	};

	put_name(b, "protocol", protocol_names[e->proto].name);
	put_name(b, "method", method_of(e));
	sl_strbuf_str(b, ", \"path\": ");
	sl_strbuf_json_str(b, path_of(e));
	for (unsigned i = 0; i < SL_ARRAY_LEN(texts); i++) {
		if (has_field(fields, texts[i].field))
			put_span(b, texts[i].key, sl_event_text(e, texts[i].text));
	}
}

const char *sl_access_outcome(const struct sl_event *e)
{
	return e->front_error ? error_names[e->front_error - 1].name
			      : outcome_names[e->outcome].name;
}

struct sl_span sl_access_reason(const struct sl_event *e)
{
	return e->front_error ? sl_span_str("the head of the request was refused")
			      : sl_outcome_text((enum sl_outcome)e->outcome);
}

static void put_json(struct sl_strbuf *b, const struct sl_event *e, uint32_t fields,
		     uint64_t unix_ns)
{
	put_time(b, unix_ns);
	put_connection(b, e, fields);
	put_request(b, e, fields);
	if (has_field(fields, SL_LOG_ROUTE))
		put_name(b, "route", e->route);
	if (has_field(fields, SL_LOG_POOL))
		put_name(b, "pool", e->pool);
	if (has_field(fields, SL_LOG_BACKEND))
		put_name(b, "backend", e->backend);
	put_number(b, "status", sl_access_status(e));
	if (e->proto == SL_PROTO_GRPC)
		put_number(b, "grpc_status", sl_access_grpc_status(e));
	put_name(b, "outcome", sl_access_outcome(e));
	put_span(b, "reason", sl_access_reason(e));
	if (e->upgrade_ignored)
		sl_strbuf_str(b, ", \"upgrade_ignored\": true");
	if (has_field(fields, SL_LOG_BATCH)) {
		put_number(b, "batch", e->together);
		put_number(b, "retries", e->retries);
	}
	put_number(b, "request_bytes", e->request_len);
	put_number(b, "reply_bytes", e->reply_len);
	if (has_field(fields, SL_LOG_TIMES))
		put_times(b, e);
	sl_strbuf_str(b, "}\n");
}

static void put_escaped(struct sl_strbuf *b, struct sl_span s)
{
	for (size_t i = 0; i < s.len; i++) {
		if (s.ptr[i] < 0x20 || s.ptr[i] >= 0x7f || s.ptr[i] == '"' || s.ptr[i] == '\\')
			sl_strbuf_printf(b, "\\x%02X", s.ptr[i]);
		else
			sl_strbuf_char(b, (char)s.ptr[i]);
	}
}

static void put_quoted(struct sl_strbuf *b, struct sl_span s)
{
	sl_strbuf_str(b, " \"");
	put_escaped(b, s.len ? s : sl_span_str("-"));
	sl_strbuf_char(b, '"');
}

static void put_combined(struct sl_strbuf *b, const struct sl_event *e, uint64_t unix_ns)
{
	time_t t = (time_t)(unix_ns / SL_NS_PER_SEC);
	char text[40];
	struct tm tm;

	gmtime_r(&t, &tm);
	strftime(text, sizeof(text), " - - [%d/%b/%Y:%H:%M:%S +0000] \"", &tm);
	put_address(b, &e->peer);
	sl_strbuf_str(b, text);
	sl_strbuf_printf(b, "%s ", method_of(e));
	put_escaped(b, path_of(e));
	switch (e->proto) {
	case SL_PROTO_HTTP1: sl_strbuf_printf(b, " HTTP/1.%u\"", e->version_minor); break;
	case SL_PROTO_DATAGRAM: sl_strbuf_str(b, " DATAGRAM\""); break;
	default: sl_strbuf_str(b, " HTTP/2.0\""); break;
	}
	sl_strbuf_printf(b, " %u %" PRIu64, sl_access_status(e), e->reply_len);
	put_quoted(b, sl_event_text(e, SL_EVENT_REFERER));
	put_quoted(b, sl_event_text(e, SL_EVENT_USER_AGENT));
	sl_strbuf_char(b, '\n');
}

void sl_access_line(struct sl_strbuf *b, const struct sl_event *e,
		    const struct sl_cfg_access_log *cfg, uint64_t unix_ns)
{
	if (cfg->format == SL_ACCESS_LOG_COMBINED)
		put_combined(b, e, unix_ns);
	else
		put_json(b, e, sl_log_fields(cfg), unix_ns);
}
