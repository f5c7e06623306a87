/* SPDX-License-Identifier: Apache-2.0 */
#include "core/event.h"

#include <arpa/inet.h>
#include <errno.h>
#include <string.h>

#include "core/client.h"
#include "core/group.h"

int sl_events_init(struct sl_core *c)
{
	int rc = sl_pool_init(&c->notes, sizeof(struct sl_event), 64, c->cfg->limits.max_exchanges);

	if (rc)
		return rc;
	c->events = sl_ring_new(SL_EVENT_RING * SL_EVENT_WORDS);
	return c->events ? 0 : -ENOMEM;
}

void sl_events_fini(struct sl_core *c)
{
	sl_ring_free(c->events);
	sl_pool_fini(&c->notes);
}

static void put(struct sl_core *c, const struct sl_event *e)
{
	uint64_t words[SL_EVENT_WORDS];

	memcpy(words, e, sizeof(words));
	if (sl_ring_put_burst(c->events, words, SL_EVENT_WORDS) != SL_EVENT_WORDS)
		c->stats.events_dropped++;
}

unsigned sl_events_take(struct sl_ring *ring, struct sl_event *out, unsigned max)
{
	uint64_t words[SL_EVENT_WORDS];
	unsigned n = 0;

	while (n < max && sl_ring_get_burst(ring, words, SL_EVENT_WORDS) == SL_EVENT_WORDS)
		memcpy(&out[n++], words, sizeof(words));
	return n;
}

/* What fits of it; returns how much that is. */
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

/* Behind the path, which gives way to it. */
static void put_sni(struct sl_event *e, struct sl_span sni)
{
	size_t room = sizeof(e->path) - 1 - e->path_len;

	if (!sni.len)
		return;
	if (room < sni.len + 1) {
		size_t keep = sni.len + 2 < sizeof(e->path) ? sizeof(e->path) - sni.len - 2 : 0;

		e->path_len = (uint16_t)(keep < e->path_len ? keep : e->path_len);
		e->path[e->path_len] = 0;
		room = sizeof(e->path) - 1 - e->path_len;
	}
	e->sni_len = (uint8_t)copy_text(e->path + e->path_len + 1, room, sni.ptr, sni.len);
}

static void fill_request(struct sl_event *e, const struct sl_client *cl,
			 const struct sl_request *rq, const struct sl_cfg_route *route)
{
	const struct sl_config *cfg = cl->core->cfg;
	struct sl_span path = rq->path.len ? rq->path : rq->call;
	struct sl_conn_info in;

	*e = (struct sl_event){.proto = rq->proto, .method = rq->method};
	e->path_len = (uint16_t)copy_text(e->path, sizeof(e->path), path.ptr, path.len);
	sl_client_ends(cl, &in);
	e->peer = in.peer;
	e->cipher = in.tls.cipher;
	e->resumed = in.tls.resumed;
	put_sni(e, in.tls.sni);
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
	x->note = sl_pool_get(&x->core->notes);
	if (x->note)
		fill_request(x->note, x->client, rq, x->route);
	else
		x->core->stats.events_dropped++;
}

void sl_event_sent(struct sl_exchange *x, unsigned together)
{
	struct sl_event *e = x->note;

	e->sent_ns = x->core->now_ns;
	e->together = (uint16_t)together;
	copy_name(e->backend, sizeof(e->backend), x->member->name);
}

/* Reaches the end of a stage: what has passed since the last one is its time. */
static void reach(struct sl_event *e, enum sl_event_stage stage, uint64_t *since, uint64_t until)
{
	if (until > *since) {
		e->stage_ns[stage] = until - *since;
		*since = until;
	}
}

void sl_event_end(struct sl_exchange *x, enum sl_outcome outcome)
{
	struct sl_core *c = x->core;
	struct sl_event *e = x->note;
	uint64_t now = x->core->now_ns, at = x->first_ns;

	e->end_ns = now;
	reach(e, SL_EVENT_WIRE, &at, x->take_ns);
	reach(e, SL_EVENT_PARSE, &at, x->parse_ns ? x->parse_ns : now);
	reach(e, SL_EVENT_QUEUE, &at, e->sent_ns ? e->sent_ns : now);
	reach(e, SL_EVENT_BACKEND, &at, x->reply_ns ? x->reply_ns : now);
	reach(e, SL_EVENT_REPLY, &at, now);
	e->begun = x->stream.started;
	e->outcome = (uint8_t)outcome;
	e->version_minor = x->stream.version_minor;
	e->retries = x->retries < UINT8_MAX ? (uint8_t)x->retries : UINT8_MAX;
	e->service_us = x->service_us;
	e->request_len = x->body_len;
	put(c, e);
	sl_pool_put(&c->notes, e);
	x->note = NULL;
}

void sl_event_refused(struct sl_core *c, const struct sl_client *cl, const struct sl_request *rq,
		      const struct sl_cfg_route *route, enum sl_outcome why)
{
	struct sl_event e;

	fill_request(&e, cl, rq, route);
	e.end_ns = c->now_ns;
	e.outcome = (uint8_t)why;
	put(c, &e);
}
