/* SPDX-License-Identifier: Apache-2.0 */
#include "core/event.h"

#include <arpa/inet.h>
#include <errno.h>
#include <string.h>

#include "base/check.h"
#include "base/num.h"
#include "core/client.h"
#include "core/pool.h"
#include "core/trace.h"
#include "front/exemplar.h"

int sl_events_init(struct sl_core *c)
{
	int rc = sl_mempool_init(&c->notes, sizeof(struct sl_event), 64,
				 c->cfg->limits.max_exchanges);

	if (rc)
		return rc;
	c->events = sl_ring_new((c->cfg->access_log.file ? SL_EVENT_RING : SL_EVENT_RING_SMALL) *
				SL_EVENT_WORDS);
	return c->events ? 0 : -ENOMEM;
}

void sl_events_fini(struct sl_core *c)
{
	sl_ring_free(c->events);
	sl_mempool_fini(&c->notes);
}

static void put_event(struct sl_core *c, const struct sl_event *e)
{
	bool wanted = !(e->trace_flags & SL_TRACE_ONLY);
	bool exported = e->trace_flags & SL_TRACE_EXPORT;
	uint64_t words[SL_EVENT_WORDS];

	if (!wanted && !exported)
		return;
	memcpy(words, e, sizeof(words));
	if (sl_ring_put_burst(c->events, words, SL_EVENT_WORDS) == SL_EVENT_WORDS)
		return;
	c->stats.access_log_dropped += wanted;
	c->stats.trace_spans_dropped += exported;
}

unsigned sl_events_take(struct sl_ring *ring, struct sl_event *out, unsigned max)
{
	uint64_t words[SL_EVENT_WORDS];
	unsigned n = 0;

	while (n < max && sl_ring_get_burst(ring, words, SL_EVENT_WORDS) == SL_EVENT_WORDS)
		memcpy(&out[n++], words, sizeof(words));
	return n;
}

static size_t copy_text(char *to, size_t size, const void *text, size_t len)
{
	size_t n = len < size ? len : size - 1;

	if (n)
		memcpy(to, text, n);
	to[n] = 0;
	return n;
}

static void copy_name(char *to, size_t size, const char *name)
{
	copy_text(to, size, name, name ? strlen(name) : 0);
}

static const uint8_t text_most[SL_EVENT_TEXT_CNT] = {
#define X(name, most) [SL_EVENT_##name] = (most),
	SL_EVENT_TEXTS(X)
#undef X
};

static struct sl_span trace_id(struct sl_span traceparent)
{
	struct sl_span id = sl_span_first(sl_span_skip(traceparent, 3), 32);

	if (traceparent.len < 55 || traceparent.ptr[2] != '-' || traceparent.ptr[35] != '-')
		return sl_span_of(NULL, 0);
	for (size_t i = 0; i < id.len; i++) {
		if (sl_hex_digit(id.ptr[i]) < 0)
			return sl_span_of(NULL, 0);
	}
	return id;
}

static void find_texts(const struct sl_request *rq, uint32_t fields, struct sl_span *texts)
{
	static const struct {
		struct sl_span name;
		uint32_t field;
		enum sl_event_text text;
	} wanted[] = {
		{SL_SPAN_LIT("traceparent"), SL_LOG_TRACE_ID, SL_EVENT_TRACE_ID},
		{SL_SPAN_LIT("x-request-id"), SL_LOG_REQUEST_ID, SL_EVENT_REQUEST_ID},
		{SL_SPAN_LIT("user-agent"), SL_LOG_USER_AGENT, SL_EVENT_USER_AGENT},
		{SL_SPAN_LIT("referer"), SL_LOG_REFERER, SL_EVENT_REFERER},
	};

	for (uint32_t i = 0; i < rq->header_cnt; i++) {
		for (unsigned k = 0; k < SL_ARRAY_LEN(wanted); k++) {
			struct sl_span *to = &texts[wanted[k].text];

			if (!(fields & 1u << wanted[k].field) || to->len ||
			    !sl_span_eq_nocase(rq->headers[i].name, wanted[k].name))
				continue;
			*to = rq->headers[i].value;
			if (wanted[k].text == SL_EVENT_TRACE_ID)
				*to = trace_id(*to);
		}
	}
}

static void put_texts(struct sl_event *e, const struct sl_request *rq,
		      const struct sl_conn_info *in, uint32_t fields, size_t most)
{
	struct sl_span texts[SL_EVENT_TEXT_CNT] = {0};
	SL_UNINIT char id[32], trace[32];
	size_t used = 0;

	if (fields & 1u << SL_LOG_TLS)
		texts[SL_EVENT_SNI] = in->tls.sni;
	if (fields & 1u << SL_LOG_TLS_SUBJECT)
		texts[SL_EVENT_SUBJECT] = in->tls.subject;
	if (fields & 1u << SL_LOG_HOST)
		texts[SL_EVENT_HOST] = rq->authority;
	if (e->trace_flags & SL_TRACE_ID)
		fields |= 1u << SL_LOG_REQUEST_ID;
	find_texts(rq, fields, texts);
	if (e->trace_flags & SL_TRACE_ID)
		texts[SL_EVENT_REQUEST_ID] = sl_trace_request_id(e, texts[SL_EVENT_REQUEST_ID], id);
	if (e->trace_flags & SL_TRACE_SPAN && fields & 1u << SL_LOG_TRACE_ID) {
		sl_trace_hex(trace, e->trace_id, sizeof(e->trace_id));
		texts[SL_EVENT_TRACE_ID] = sl_span_of(trace, sizeof(trace));
	}
	for (unsigned i = 0; i < SL_EVENT_TEXT_CNT; i++) {
		size_t room = most - used;
		size_t n = texts[i].len < text_most[i] ? texts[i].len : text_most[i];

		n = n < room ? n : room;
		if (n)
			memcpy(e->texts + used, texts[i].ptr, n);
		e->text_len[i] = (uint8_t)n;
		used += n;
	}
}

static void fill_request(struct sl_event *e, const struct sl_client *cl,
			 const struct sl_request *rq, const struct sl_cfg_route *route)
{
	const struct sl_config *cfg = cl->core->cfg;
	bool wanted = sl_events_wanted(cl->core);
	struct sl_span path = rq->path.len ? rq->path : rq->call;
	struct sl_conn_info in;

	*e = (struct sl_event){.proto = rq->proto, .method = rq->method};
	e->path_len = (uint16_t)copy_text(e->path, sizeof(e->path), path.ptr, path.len);
	sl_client_addrs(cl, &in);
	e->peer = in.peer;
	e->cipher = in.tls.cipher;
	e->resumed = in.tls.resumed;
	sl_trace_begin(cl->core, e, rq);
	e->trace_flags |= wanted ? 0 : SL_TRACE_ONLY;
	put_texts(e, rq, &in, wanted ? sl_log_fields(&cfg->access_log) : 0,
		  sizeof(e->texts) - (route && route->keys ? text_most[SL_EVENT_KEY] : 0));
	if (in.listener < cfg->listener_cnt)
		copy_name(e->listener, sizeof(e->listener), cfg->listeners[in.listener].name);
	if (!route)
		return;
	copy_text(e->route, sizeof(e->route), route->prefix, route->prefix_len);
	if (route->pool >= 0)
		copy_name(e->pool, sizeof(e->pool), cfg->pools[route->pool].name);
}

void sl_event_begin(struct sl_exchange *x, const struct sl_request *rq)
{
	x->note = sl_mempool_get(&x->core->notes);
	if (x->note)
		fill_request(x->note, x->client, rq, x->route);
	else
		x->core->stats.access_log_dropped++;
}

void sl_event_pool(struct sl_event *e, const char *pool)
{
	copy_name(e->pool, sizeof(e->pool), pool);
}

void sl_event_key(struct sl_exchange *x, const char *name)
{
	struct sl_event *e = x->note;
	const size_t len = strlen(name);
	const size_t at = (size_t)(sl_event_text(e, SL_EVENT_KEY).ptr - (const uint8_t *)e->texts);

	if (!(sl_log_fields(&x->core->cfg->access_log) & 1u << SL_LOG_KEY) ||
	    !SL_ENSURE(len <= sizeof(e->texts) - at && len <= text_most[SL_EVENT_KEY]))
		return;
	memcpy(e->texts + at, name, len);
	e->text_len[SL_EVENT_KEY] = (uint8_t)len;
}

void sl_event_sent(struct sl_exchange *x, unsigned together)
{
	struct sl_event *e = x->note;

	e->sent_ns = x->core->now_ns;
	e->together = (uint16_t)together;
	copy_name(e->backend, sizeof(e->backend), x->backend->name);
}

void sl_event_moved(struct sl_exchange *x)
{
	x->note->sent_ns = x->send_ns;
	copy_name(x->note->backend, sizeof(x->note->backend), x->backend->name);
}

static void end_stage(struct sl_event *e, enum sl_event_stage stage, uint64_t *since,
		      uint64_t until)
{
	if (until > *since) {
		e->stage_ns[stage] = until - *since;
		*since = until;
	}
}

static void put_exemplar(const struct sl_event *e, const struct sl_route_codes *r, uint64_t ns)
{
	struct sl_code_end end = sl_event_code(e);

	if (e->trace_flags & (SL_TRACE_SAMPLED | SL_TRACE_EXPORT))
		sl_exemplar_put(r, sl_code_find(&end), ns, e->trace_id);
}

void sl_event_end(struct sl_exchange *x, enum sl_outcome outcome)
{
	struct sl_core *c = x->core;
	struct sl_event *e = x->note;
	uint64_t now = x->core->now_ns, at = x->first_ns;

	e->end_ns = now;
	end_stage(e, SL_EVENT_WIRE, &at, x->take_ns);
	end_stage(e, SL_EVENT_PARSE, &at, x->parse_ns ? x->parse_ns : now);
	end_stage(e, SL_EVENT_QUEUE, &at, e->sent_ns ? e->sent_ns : now);
	end_stage(e, SL_EVENT_BACKEND, &at, x->reply_ns ? x->reply_ns : now);
	end_stage(e, SL_EVENT_REPLY, &at, now);
	e->status = x->status;
	e->grpc_status = x->grpc_status;
	e->begun = x->stream.started;
	e->outcome = (uint8_t)outcome;
	e->version_minor = x->stream.version_minor;
	e->retries = x->retries < UINT8_MAX ? (uint8_t)x->retries : UINT8_MAX;
	e->service_us = x->service_us;
	e->request_len = x->body_len;
	sl_trace_end(&c->cfg->trace, e);
	put_exemplar(e, sl_worker_cfg_route_codes(x->wcfg, x->route), now - x->first_ns);
	put_event(c, e);
	sl_mempool_put(&c->notes, e);
	x->note = NULL;
}

static void end_refused(struct sl_core *c, struct sl_event *e)
{
	struct sl_span id = sl_event_text(e, SL_EVENT_REQUEST_ID);

	c->refused_id_len = 0;
	if (e->trace_flags & SL_TRACE_ID) {
		memcpy(c->refused_id, id.ptr, id.len);
		c->refused_id_len = (uint8_t)id.len;
	}
	sl_trace_end(&c->cfg->trace, e);
	put_event(c, e);
}

void sl_event_refused(struct sl_core *c, const struct sl_client *cl, const struct sl_request *rq,
		      const struct sl_cfg_route *route, enum sl_outcome why)
{
	struct sl_event e;

	fill_request(&e, cl, rq, route);
	e.end_ns = c->now_ns;
	e.outcome = (uint8_t)why;
	end_refused(c, &e);
	put_exemplar(&e, sl_worker_cfg_route_codes(c->wcfg, route), 0);
}

struct sl_span sl_event_unparsed(void *conn, const struct sl_request *rq, unsigned status,
				 unsigned error)
{
	static const struct sl_request unknown = {.proto = SL_PROTO_HTTP1};
	struct sl_client *cl = conn;
	struct sl_core *c = cl->core;
	struct sl_event e;

	if (!sl_events_noted(c))
		return sl_span_of(NULL, 0);
	if (error != SL_FRONT_ERR_NO_EXCHANGE) {
		fill_request(&e, cl, rq ? rq : &unknown, NULL);
		e.end_ns = c->now_ns;
		e.status = (uint16_t)status;
		e.begun = true;
		e.version_minor = 1;
		e.front_error = (uint8_t)(error + 1);
		end_refused(c, &e);
	}
	return sl_span_of(c->refused_id, c->refused_id_len);
}
