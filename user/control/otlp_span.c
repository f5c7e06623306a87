/* SPDX-License-Identifier: Apache-2.0 */
#include "control/otlp_span.h"

#include <inttypes.h>

#include "base/check.h"
#include "control/access_line.h"
#include "control/fields.h"
#include "core/trace.h"

static void put_id(struct sl_strbuf *b, const char *key, const uint8_t *id, size_t len)
{
	char hex[32];

	sl_trace_hex(hex, id, len);
	sl_strbuf_printf(b, "\"%s\":\"%.*s\",", key, (int)(2 * len), hex);
}

static void put_text(struct sl_strbuf *b, const char *key, struct sl_span v)
{
	if (!v.len)
		return;
	sl_strbuf_printf(b, ",{\"key\":\"%s\",\"value\":{\"stringValue\":", key);
	sl_strbuf_json_str(b, v);
	sl_strbuf_str(b, "}}");
}

/* 64-bit integers are strings in the JSON of protobuf. */
static void put_int(struct sl_strbuf *b, const char *key, uint64_t v)
{
	sl_strbuf_printf(b, ",{\"key\":\"%s\",\"value\":{\"intValue\":\"%" PRIu64 "\"}}", key, v);
}

static struct sl_span method_of(const struct sl_event *e)
{
	return sl_span_cstr(sl_method_name((enum sl_method)e->method));
}

/* "GET /v1/": names must have few values, so the route, not the path. */
static void put_name(struct sl_strbuf *b, const struct sl_event *e)
{
	char text[sizeof(e->route) + 16];
	struct sl_strbuf name;

	sl_strbuf_fixed(&name, text, sizeof(text));
	sl_strbuf_add(&name, method_of(e).ptr, method_of(e).len);
	if (name.len && e->route[0])
		sl_strbuf_char(&name, ' ');
	sl_strbuf_str(&name, e->route);
	sl_strbuf_str(b, "\"name\":");
	sl_strbuf_json_str(b, name.len ? sl_strbuf_span(&name) : sl_span_str("request"));
}

static void put_attributes(struct sl_strbuf *b, const struct sl_event *e)
{
	static const char *const stages[SL_EVENT_STAGE_CNT] = {
		[SL_EVENT_WIRE] = "sluice.wire_ns",   [SL_EVENT_PARSE] = "sluice.parse_ns",
		[SL_EVENT_QUEUE] = "sluice.queue_ns", [SL_EVENT_BACKEND] = "sluice.backend_ns",
		[SL_EVENT_REPLY] = "sluice.reply_ns",
	};
	char peer[SL_ADDR_TEXT];

	sl_strbuf_printf(b, "{\"key\":\"sluice.outcome\",\"value\":{\"stringValue\":\"%s\"}}",
			 sl_access_outcome(e));
	put_text(b, "http.request.method", method_of(e));
	put_text(b, "url.path", sl_span_of(e->path, e->path_len));
	put_text(b, "http.route", sl_span_cstr(e->route));
	put_int(b, "http.response.status_code", sl_access_status(e));
	if (e->proto == SL_PROTO_GRPC)
		put_int(b, "rpc.grpc.status_code", sl_access_grpc_status(e));
	if (e->peer.family)
		put_text(b, "client.address", sl_span_cstr(sl_addr_text(&e->peer, peer)));
	put_text(b, "sluice.protocol", sl_span_cstr(protocol_names[e->proto].name));
	put_text(b, "sluice.pool", sl_span_cstr(e->pool));
	put_text(b, "sluice.backend", sl_span_cstr(e->backend));
	put_text(b, "sluice.request_id", sl_event_text(e, SL_EVENT_REQUEST_ID));
	put_int(b, "sluice.batch", e->together);
	put_int(b, "sluice.retries", e->retries);
	for (unsigned i = 0; i < SL_EVENT_STAGE_CNT; i++)
		put_int(b, stages[i], e->stage_ns[i]);
}

void sl_otlp_span(struct sl_strbuf *b, const struct sl_event *e, uint64_t unix_ns)
{
	enum { SERVER = 2, ERROR = 2 };
	struct sl_code_end end = sl_event_code(e);

	sl_strbuf_char(b, '{');
	put_id(b, "traceId", e->trace_id, sizeof(e->trace_id));
	put_id(b, "spanId", e->span_id, sizeof(e->span_id));
	if (e->trace_flags & SL_TRACE_PARENT)
		put_id(b, "parentSpanId", e->parent_id, sizeof(e->parent_id));
	put_name(b, e);
	sl_strbuf_printf(b,
			 ",\"kind\":%d,\"startTimeUnixNano\":\"%" PRIu64
			 "\",\"endTimeUnixNano\":\"%" PRIu64 "\",\"attributes\":[",
			 SERVER, unix_ns - sl_event_total_ns(e), unix_ns);
	put_attributes(b, e);
	sl_strbuf_char(b, ']');
	if (sl_code_failed(&end)) {
		sl_strbuf_printf(b, ",\"status\":{\"code\":%d,\"message\":", ERROR);
		sl_strbuf_json_str(b, sl_access_reason(e));
		sl_strbuf_char(b, '}');
	}
	sl_strbuf_char(b, '}');
}
