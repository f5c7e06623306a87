/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/check.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/strbuf.h"
#include "control/admin_impl.h"
#include "control/dashboard.h"
#include "control/acl_api.h"
#include "control/backend_override.h"
#include "control/event_stream.h"
#include "control/json_memory.h"
#include "control/metric_text.h"
#include "control/metrics.h"
#include "control/notes.h"
#include "control/request_feed.h"

enum {
	METRICS_LIMIT = 64 << 20,
	READYZ_LIMIT = 64 << 10,
	REQUESTS_LIMIT = 1 << 20,
	STATS_MEMORY = 256 << 20,
};

#define PAGE_POLICY                                                                                     \
	"default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; connect-src 'self'; " \
	"img-src 'self' data:; frame-ancestors 'none'; base-uri 'none'; form-action 'none'"

static void add_headers(struct MHD_Response *r, const char *type)
{
	MHD_add_response_header(r, "Content-Type", type);
	MHD_add_response_header(r, "Cache-Control", "no-store");
	MHD_add_response_header(r, "X-Content-Type-Options", "nosniff");
	MHD_add_response_header(r, "Content-Security-Policy", PAGE_POLICY);
	MHD_add_response_header(r, "Connection", "close"); /* each head must pass the acceptor */
}

static struct MHD_Response *make_reply(const char *type, const void *body, size_t len,
				       enum MHD_ResponseMemoryMode mode)
{
	struct MHD_Response *r =
		MHD_create_response_from_buffer(len, (void *)(uintptr_t)body, mode);

	if (r)
		add_headers(r, type);
	else if (mode == MHD_RESPMEM_MUST_FREE)
		free((void *)(uintptr_t)body);
	return r;
}

static enum MHD_Result send_reply(struct MHD_Connection *conn, unsigned status,
				  struct MHD_Response *r)
{
	enum MHD_Result res = r ? MHD_queue_response(conn, status, r) : MHD_NO;

	if (r)
		MHD_destroy_response(r);
	return res;
}

static enum MHD_Result queue_reply(struct MHD_Connection *conn, unsigned status, const char *type,
				   const void *body, size_t len, enum MHD_ResponseMemoryMode mode)
{
	struct MHD_Response *r = make_reply(type, body, len, mode);

	if (r && status == MHD_HTTP_UNAUTHORIZED) {
		MHD_add_response_header(r, "WWW-Authenticate", "Bearer");
		MHD_add_response_header(r, "WWW-Authenticate", "Basic realm=\"sluice\"");
	}
	return send_reply(conn, status, r);
}

enum MHD_Result admin_refuse_method(struct MHD_Connection *conn, bool post)
{
	const char *text = post ? "POST only\n" : "GET only\n";
	struct MHD_Response *r =
		make_reply("text/plain; charset=utf-8", text, strlen(text), MHD_RESPMEM_PERSISTENT);

	if (r)
		MHD_add_response_header(r, "Allow", post ? "POST" : "GET, HEAD");
	return send_reply(conn, MHD_HTTP_METHOD_NOT_ALLOWED, r);
}

enum MHD_Result admin_reply_text(struct MHD_Connection *conn, unsigned status, const char *text)
{
	char line[640];
	int len = snprintf(line, sizeof(line), "%s\n", text);

	return queue_reply(conn, status, "text/plain; charset=utf-8", line, (size_t)len,
			   MHD_RESPMEM_MUST_COPY);
}

static enum MHD_Result reply_json(struct MHD_Connection *conn, json_t *o)
{
	char *text = o ? json_dumps(o, JSON_COMPACT) : NULL;

	json_decref(o);
	if (!text)
		return admin_reply_text(conn, MHD_HTTP_INTERNAL_SERVER_ERROR, "out of memory");
	return queue_reply(conn, MHD_HTTP_OK, "application/json", text, strlen(text),
			   MHD_RESPMEM_MUST_FREE);
}

void admin_name_limit(const struct sl_strbuf *b, const char *url, struct sl_err *why)
{
	if (b->err == -ENOSPC)
		sl_err_set(why, "%s: found more than %zu bytes; allowed: that many", url, b->limit);
	else if (b->err == -E2BIG)
		sl_err_set(why, "%s: found values of more than %u bytes; allowed: that many", url,
			   STATS_MEMORY);
	else
		sl_err_set(why, "%s: out of memory", url);
}

struct long_reply {
	struct sl_admin *admin;
	struct sl_strbuf text;
};

static void free_long(void *arg)
{
	struct long_reply *l = arg;

	l->admin->reply_bytes -= l->text.len;
	sl_strbuf_fini(&l->text);
	free(l);
}

static enum MHD_Result reply_long(struct admin_request *r, unsigned status, const char *type,
				  struct sl_strbuf *b)
{
	struct long_reply *l = malloc(sizeof(*l));
	struct MHD_Response *made;
	char *fit;

	if (!l) {
		sl_strbuf_fini(b);
		return admin_reply_text(r->conn, MHD_HTTP_INTERNAL_SERVER_ERROR, "out of memory");
	}
	fit = realloc(b->ptr, b->len + 1);
	if (fit)
		b->ptr = fit;
	*l = (struct long_reply){r->admin, *b};
	r->admin->reply_bytes += b->len;
	made = MHD_create_response_from_buffer_with_free_callback_cls(b->len, b->ptr, free_long, l);
	if (made)
		add_headers(made, type);
	else
		free_long(l);
	return send_reply(r->conn, status, made);
}

/* Takes b. A text that is not whole becomes status 500; one for which there is no room, 503. */
static enum MHD_Result reply_whole(struct admin_request *r, unsigned status, const char *type,
				   struct sl_strbuf *b)
{
	bool room = b->len <= admin_limits.replies - r->admin->reply_bytes;
	struct sl_err why = SL_ERR(160);

	if (!b->err && b->len <= READYZ_LIMIT)
		return queue_reply(r->conn, status, type, b->ptr, b->len, MHD_RESPMEM_MUST_FREE);
	if (!b->err && room)
		return reply_long(r, status, type, b);
	if (b->err)
		admin_name_limit(b, r->url, &why);
	else
		sl_err_set(&why, "%s: clients have yet to take %zu bytes; allowed: %zu", r->url,
			   r->admin->reply_bytes, admin_limits.replies);
	status = b->err ? MHD_HTTP_INTERNAL_SERVER_ERROR : MHD_HTTP_SERVICE_UNAVAILABLE;
	sl_strbuf_fini(b);
	SL_LOG_EVERY(SL_NS_PER_SEC, SL_LOG_WARN, "admin: %s", why.text);
	return admin_reply_text(r->conn, status, why.text);
}

static enum MHD_Result get_livez(struct admin_request *r)
{
	return admin_reply_text(r->conn, MHD_HTTP_OK, "ok");
}

static enum MHD_Result get_pool_readyz(struct admin_request *r, const char *pool)
{
	const struct sl_config *cfg = sl_gateway_info(r->admin->g)->cfg;

	for (uint32_t p = 0; p < cfg->pool_cnt; p++) {
		bool ready;

		if (strcmp(cfg->pools[p].name, pool) != 0)
			continue;
		ready = sl_gateway_pool_ready(r->admin->g, p);
		return admin_reply_text(r->conn, ready ? MHD_HTTP_OK : MHD_HTTP_SERVICE_UNAVAILABLE,
					ready ? "ready" : "not ready");
	}
	return admin_reply_text(r->conn, MHD_HTTP_NOT_FOUND, "found no such pool");
}

static enum MHD_Result reply_pools(struct admin_request *r, bool ready, const char *why)
{
	const struct sl_config *cfg = sl_gateway_info(r->admin->g)->cfg;
	struct sl_strbuf b;

	sl_strbuf_grow(&b, READYZ_LIMIT);
	sl_strbuf_printf(&b, "%s\n", ready ? "ready" : why);
	for (uint32_t p = 0; p < cfg->pool_cnt; p++)
		sl_strbuf_printf(&b, "pool %s: %s\n", cfg->pools[p].name,
				 sl_gateway_pool_ready(r->admin->g, p) ? "ready"
								       : "no backend is up");
	return reply_whole(r, ready ? MHD_HTTP_OK : MHD_HTTP_SERVICE_UNAVAILABLE,
			   "text/plain; charset=utf-8", &b);
}

static enum MHD_Result get_readyz(struct admin_request *r)
{
	const char *pool = MHD_lookup_connection_value(r->conn, MHD_GET_ARGUMENT_KIND, "pool");
	struct sl_err why = SL_ERR(160);
	bool ready = sl_control_ready(r->admin->control, &why);

	if (pool)
		return get_pool_readyz(r, pool);
	if (r->known &&
	    MHD_lookup_connection_value_n(r->conn, MHD_GET_ARGUMENT_KIND, "verbose", 7, NULL, NULL))
		return reply_pools(r, ready, why.text);
	return admin_reply_text(r->conn, ready ? MHD_HTTP_OK : MHD_HTTP_SERVICE_UNAVAILABLE,
				ready      ? "ready"
				: r->known ? why.text
					   : "not ready");
}

static enum MHD_Result add_accept(void *arg, enum MHD_ValueKind kind, const char *name,
				  const char *value)
{
	(void)kind;
	if (value && strcasecmp(name, "Accept") == 0)
		sl_metric_accept_add(arg, sl_span_cstr(value));
	return MHD_YES;
}

static enum MHD_Result get_metrics(struct admin_request *r)
{
	struct sl_metric_accept accept = {0};
	bool openmetrics;
	struct sl_strbuf b;

	MHD_get_connection_values(r->conn, MHD_HEADER_KIND, add_accept, &accept);
	openmetrics = sl_metric_accept_openmetrics(&accept);
	sl_strbuf_grow(&b, METRICS_LIMIT);
	sl_metrics_render(r->admin->g, openmetrics, &b);
	return reply_whole(r, MHD_HTTP_OK,
			   openmetrics
				   ? "application/openmetrics-text; version=1.0.0; charset=utf-8"
				   : "text/plain; version=0.0.4; charset=utf-8",
			   &b);
}

static int add_bytes(const char *bytes, size_t len, void *arg)
{
	struct sl_strbuf *b = arg;

	sl_strbuf_add(b, bytes, len);
	return b->err ? -1 : 0;
}

void admin_stats_write(struct sl_admin *a, const struct admin_request *r, struct sl_strbuf *b)
{
	json_t *o;
	int rc;

	sl_json_memory_begin(STATS_MEMORY);
	o = sl_stats_json(a->g, a->window);
	json_object_set_new(o, "reload", sl_control_reload_json(a->control));
	json_object_set_new(o, "notes", sl_notes_json(a->window->notes));
	if (r)
		json_object_set_new(o, "may_operate", json_boolean(r->role >= SL_ADMIN_OPERATE));
	if (json_dump_callback(o, add_bytes, b, JSON_COMPACT) && !b->err)
		sl_json_memory_lack();
	json_decref(o);
	rc = sl_json_memory_end();
	b->err = b->err ? b->err : rc;
}

static enum MHD_Result get_stats(struct admin_request *r)
{
	struct sl_strbuf b;

	sl_strbuf_grow(&b, admin_limits.replies);
	admin_stats_write(r->admin, r, &b);
	return reply_whole(r, MHD_HTTP_OK, "application/json", &b);
}

static enum MHD_Result get_dashboard(struct admin_request *r)
{
	struct sl_dashboard_file f;

	if (!sl_dashboard_find(r->url, &f))
		return MHD_NO;
	return queue_reply(r->conn, MHD_HTTP_OK, f.type, f.body, f.len, MHD_RESPMEM_PERSISTENT);
}

static enum MHD_Result get_history(struct admin_request *r)
{
	struct sl_strbuf b;

	sl_strbuf_grow(&b, METRICS_LIMIT);
	sl_history_write(r->admin->window->history, &b);
	return reply_whole(r, MHD_HTTP_OK, "application/json", &b);
}

static enum MHD_Result get_requests(struct admin_request *r)
{
	struct sl_err err = SL_ERR(200);
	struct request_filter *f;
	struct event_listener *l;

	/* Any process of the host reaches TCP, and paths may be secret. */
	if (r->conns != &r->admin->servers[ADMIN_OPERATOR].conns)
		return admin_reply_text(r->conn, MHD_HTTP_FORBIDDEN,
					"found a request over TCP; allowed: the Unix socket");
	f = request_filter_new(r->conn, &err);
	if (!f)
		return admin_reply_text(r->conn, MHD_HTTP_BAD_REQUEST, err.text);
	l = event_stream_new(r, REQUESTS_LIMIT);
	if (!l) {
		free(f);
		return admin_reply_text(r->conn, MHD_HTTP_INTERNAL_SERVER_ERROR, "out of memory");
	}
	l->filter = f;
	return event_stream_begin(r, l, &r->admin->readers, "application/x-ndjson");
}

static enum MHD_Result post_drain(struct admin_request *r)
{
	sl_control_drain(r->admin->control);
	return admin_reply_text(r->conn, MHD_HTTP_OK, "draining");
}

static enum MHD_Result post_reload(struct admin_request *r)
{
	static char lines[SL_CFG_ERR_LEN];
	struct sl_err err = {lines, sizeof(lines)};
	json_t *diff = NULL;
	unsigned cnt = 1;
	char text[160];

	if (sl_control_reload(r->admin->control, &diff, &err) == 0)
		return reply_json(r->conn, diff);
	/* Messages quote the file: only for accounts that can read it. */
	if (r->uid == 0 || r->uid == geteuid())
		return queue_reply(r->conn, MHD_HTTP_BAD_REQUEST, "text/plain; charset=utf-8",
				   lines, strlen(lines), MHD_RESPMEM_MUST_COPY);
	for (const char *c = lines; *c; c++)
		cnt += *c == '\n';
	snprintf(text, sizeof(text),
		 "found %u mistake%s; the log names %s, and so does `sluice check`", cnt,
		 cnt == 1 ? "" : "s", cnt == 1 ? "it" : "them");
	return admin_reply_text(r->conn, MHD_HTTP_BAD_REQUEST, text);
}

struct set_args {
	struct sl_svc_ctl ctl;
	const char *pool;
	struct sl_err err;
};

static enum MHD_Result set_arg(void *arg, enum MHD_ValueKind kind, const char *key,
			       const char *value)
{
	struct set_args *s = arg;

	(void)kind;
	if (strcmp(key, "pool") == 0)
		s->pool = value;
	else if (sl_override_set(&s->ctl, key, value ? value : "", &s->err) != 0)
		return MHD_NO;
	return MHD_YES;
}

struct backend_set_args {
	struct sl_backend_override to;
	struct sl_err err;
};

static enum MHD_Result backend_set_arg(void *arg, enum MHD_ValueKind kind, const char *key,
				       const char *value)
{
	struct backend_set_args *s = arg;

	(void)kind;
	if (strcmp(key, "pool") != 0 &&
	    sl_backend_override_take(&s->to, key, value ? value : "", &s->err) != 0)
		return MHD_NO;
	return MHD_YES;
}

static enum MHD_Result set_backend(struct admin_request *r, const char *pool, const char *backend)
{
	struct backend_set_args s = {.err = SL_ERR(160)};

	if (sl_gateway_override(r->admin->g, pool, backend, &s.to) != 0)
		return admin_reply_text(
			r->conn, MHD_HTTP_NOT_FOUND,
			"found no such backend; allowed: POOL/BACKEND, as `sluice status` lists them");
	MHD_get_connection_values(r->conn, MHD_GET_ARGUMENT_KIND, backend_set_arg, &s);
	if (s.err.text[0])
		return admin_reply_text(r->conn, MHD_HTTP_BAD_REQUEST, s.err.text);
	(void)sl_gateway_override_set(r->admin->g, pool, backend, &s.to);
	return reply_json(r->conn, sl_backend_override_json(&s.to));
}

static enum MHD_Result post_set(struct admin_request *r)
{
	const char *backend;
	char pool[64];
	const struct sl_config *cfg = sl_gateway_info(r->admin->g)->cfg;
	struct set_args s = {.err = SL_ERR(160)};
	struct sl_svc_ctl *ctl;
	uint32_t i;

	s.pool = MHD_lookup_connection_value(r->conn, MHD_GET_ARGUMENT_KIND, "pool");
	if (s.pool && sl_backend_override_split(s.pool, pool, &backend))
		return set_backend(r, pool, backend);
	for (i = 0; i < cfg->pool_cnt && s.pool; i++) {
		if (strcmp(cfg->pools[i].name, s.pool) == 0)
			break;
	}
	if (!s.pool || i == cfg->pool_cnt)
		return admin_reply_text(
			r->conn, MHD_HTTP_NOT_FOUND,
			"found no such pool; allowed: pool=NAME, as `sluice status` lists them");
	ctl = sl_gateway_ctl(r->admin->g, sl_gateway_slot(r->admin->g, i));
	s.ctl = *ctl;
	MHD_get_connection_values(r->conn, MHD_GET_ARGUMENT_KIND, set_arg, &s);
	if (s.err.text[0])
		return admin_reply_text(r->conn, MHD_HTTP_BAD_REQUEST, s.err.text);
	__atomic_store_n(&ctl->batch_size, s.ctl.batch_size, __ATOMIC_RELAXED);
	__atomic_store_n(&ctl->shed_level, s.ctl.shed_level, __ATOMIC_RELAXED);
	__atomic_store_n(&ctl->hold_ns, s.ctl.hold_ns, __ATOMIC_RELAXED);
	__atomic_store_n(&ctl->bound_ns, s.ctl.bound_ns, __ATOMIC_RELAXED);
	__atomic_store_n(&ctl->deadline_ns, s.ctl.deadline_ns, __ATOMIC_RELAXED);
	return reply_json(r->conn, sl_override_json(ctl));
}

struct acl_args {
	struct sl_acl_change change;
	struct sl_err err;
};

static enum MHD_Result add_prefix(void *arg, enum MHD_ValueKind kind, const char *key,
				  const char *value)
{
	struct acl_args *e = arg;

	(void)kind;
	return sl_acl_take_arg(&e->change, key, value ? value : "", &e->err) ? MHD_NO : MHD_YES;
}

static enum MHD_Result post_acl(struct admin_request *r)
{
	struct acl_args e = {.change = {.interface = ""}, .err = SL_ERR(160)};
	int rc;

	MHD_get_connection_values(r->conn, MHD_GET_ARGUMENT_KIND, add_prefix, &e);
	if (e.err.text[0])
		return admin_reply_text(r->conn, MHD_HTTP_BAD_REQUEST, e.err.text);
	rc = sl_gateway_acl_change(r->admin->g, e.change.interface, e.change.rules, e.change.cnt,
				   &e.err);
	if (rc)
		return admin_reply_text(r->conn,
					rc == -ENODEV ? MHD_HTTP_NOT_FOUND : MHD_HTTP_BAD_REQUEST,
					e.err.text);
	for (uint32_t i = 0; i < e.change.unban_cnt; i++)
		(void)sl_gateway_unlist(r->admin->g, e.change.interface, &e.change.unban[i]);
	return reply_json(r->conn, sl_acl_json(r->admin->g, e.change.interface));
}

const struct admin_handler admin_handlers[] = {
	{"/", false, get_dashboard},
	{"/dashboard.css", false, get_dashboard},
	{"/dashboard.js", false, get_dashboard},
	{"/uplot.css", false, get_dashboard},
	{"/uplot.js", false, get_dashboard},
	{"/livez", false, get_livez},
	{"/readyz", false, get_readyz},
	{"/metrics", false, get_metrics},
	{"/stats", false, get_stats},
	{"/events", false, admin_events_get},
	{"/history", false, get_history},
	{"/requests", false, get_requests},
	{"/drain", true, post_drain},
	{"/set", true, post_set},
	{"/reload", true, post_reload},
	{"/edge", true, post_acl},
};
const size_t admin_handler_cnt = SL_ARRAY_LEN(admin_handlers);
