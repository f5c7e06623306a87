/* SPDX-License-Identifier: Apache-2.0 */
#include "control/admin.h"

#include <arpa/inet.h>
#include <errno.h>
#include <microhttpd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/list.h"
#include "base/log.h"
#include "base/strbuf.h"
#include "control/dashboard.h"
#include "control/metrics.h"

enum {
	MAX_CONNECTIONS = 64,
	MAX_LISTENERS = 16,
	TIMEOUT_S = 30,
	METRICS_LIMIT = 16 << 20,
	EVENT_LIMIT = 4 << 20,
};

struct sl_admin {
	struct sl_control *control;
	struct sl_gateway *g;
	const struct sl_config *cfg;
	struct sl_window *window;
	struct MHD_Daemon *daemon;
	struct sl_list listeners; /* of /events */
	unsigned listener_cnt;
};

/* A connection on /events. Suspended whenever everything in `text` was sent. */
struct listener {
	struct sl_list link;
	struct sl_admin *admin;
	struct MHD_Connection *conn;
	struct sl_strbuf text;
	size_t sent;
	bool suspended;
};

struct request {
	struct sl_admin *admin;
	struct MHD_Connection *conn;
};

static enum MHD_Result reply(struct MHD_Connection *conn, unsigned status, const char *type,
			     const void *body, size_t len, enum MHD_ResponseMemoryMode mode)
{
	struct MHD_Response *r =
		MHD_create_response_from_buffer(len, (void *)(uintptr_t)body, mode);
	enum MHD_Result res;

	if (!r) {
		if (mode == MHD_RESPMEM_MUST_FREE)
			free((void *)(uintptr_t)body);
		return MHD_NO;
	}
	MHD_add_response_header(r, "Content-Type", type);
	MHD_add_response_header(r, "Cache-Control", "no-store");
	MHD_add_response_header(r, "X-Content-Type-Options", "nosniff");
	if (status == MHD_HTTP_METHOD_NOT_ALLOWED)
		MHD_add_response_header(r, "Allow", "GET, HEAD, POST");
	res = MHD_queue_response(conn, status, r);
	MHD_destroy_response(r);
	return res;
}

static enum MHD_Result reply_text(struct MHD_Connection *conn, unsigned status, const char *text)
{
	char line[640];
	int len = snprintf(line, sizeof(line), "%s\n", text);

	return reply(conn, status, "text/plain; charset=utf-8", line, (size_t)len,
		     MHD_RESPMEM_MUST_COPY);
}

static enum MHD_Result reply_json(struct MHD_Connection *conn, json_t *o)
{
	char *text = o ? json_dumps(o, JSON_COMPACT) : NULL;

	json_decref(o);
	if (!text)
		return reply_text(conn, MHD_HTTP_INTERNAL_SERVER_ERROR, "out of memory");
	return reply(conn, MHD_HTTP_OK, "application/json", text, strlen(text),
		     MHD_RESPMEM_MUST_FREE);
}

static enum MHD_Result get_livez(struct request *r)
{
	return reply_text(r->conn, MHD_HTTP_OK, "ok");
}

static enum MHD_Result get_readyz(struct request *r)
{
	char why[160] = "";
	bool ready = sl_control_ready(r->admin->control, why, sizeof(why));

	return reply_text(r->conn, ready ? MHD_HTTP_OK : MHD_HTTP_SERVICE_UNAVAILABLE,
			  ready ? "ready" : why);
}

static enum MHD_Result get_metrics(struct request *r)
{
	struct sl_strbuf b;

	sl_strbuf_grow(&b, METRICS_LIMIT);
	sl_metrics_render(r->admin->g, &b);
	if (b.err) {
		sl_strbuf_fini(&b);
		return reply_text(r->conn, MHD_HTTP_INTERNAL_SERVER_ERROR, "out of memory");
	}
	/* A growing buffer is malloc()ed: MHD frees it. */
	return reply(r->conn, MHD_HTTP_OK, "text/plain; version=0.0.4; charset=utf-8", b.ptr, b.len,
		     MHD_RESPMEM_MUST_FREE);
}

static enum MHD_Result get_stats(struct request *r)
{
	return reply_json(r->conn, sl_stats_json(r->admin->g, r->admin->window));
}

static enum MHD_Result get_dashboard(struct request *r)
{
	return reply(r->conn, MHD_HTTP_OK, "text/html; charset=utf-8", sl_dashboard,
		     sl_dashboard_len(), MHD_RESPMEM_PERSISTENT);
}

static void fill_event(struct listener *l, const char *json)
{
	sl_strbuf_reset(&l->text);
	l->sent = 0;
	sl_strbuf_str(&l->text, "data: ");
	sl_strbuf_str(&l->text, json);
	sl_strbuf_str(&l->text, "\n\n");
	if (l->text.err)
		sl_strbuf_reset(&l->text);
}

static ssize_t read_event(void *arg, uint64_t pos, char *buf, size_t max)
{
	struct listener *l = arg;
	size_t n = l->text.len - l->sent;

	(void)pos;
	if (!n) {
		l->suspended = true;
		MHD_suspend_connection(l->conn);
		return 0;
	}
	if (n > max)
		n = max;
	memcpy(buf, l->text.ptr + l->sent, n);
	l->sent += n;
	return (ssize_t)n;
}

static void free_listener(void *arg)
{
	struct listener *l = arg;

	sl_list_del(&l->link);
	l->admin->listener_cnt--;
	sl_strbuf_fini(&l->text);
	free(l);
}

static enum MHD_Result get_events(struct request *r)
{
	struct sl_admin *a = r->admin;
	struct MHD_Response *resp;
	struct listener *l;
	enum MHD_Result res;
	json_t *stats;
	char *text;

	if (a->listener_cnt >= MAX_LISTENERS)
		return reply_text(r->conn, MHD_HTTP_SERVICE_UNAVAILABLE, "too many listeners");
	l = calloc(1, sizeof(*l));
	if (!l)
		return MHD_NO;
	l->admin = a;
	l->conn = r->conn;
	sl_strbuf_grow(&l->text, EVENT_LIMIT);
	sl_list_init(&l->link);
	resp = MHD_create_response_from_callback(MHD_SIZE_UNKNOWN, 64 << 10, read_event, l,
						 free_listener);
	if (!resp) {
		sl_strbuf_fini(&l->text);
		free(l);
		return MHD_NO;
	}
	sl_list_add_tail(&a->listeners, &l->link);
	a->listener_cnt++;
	stats = sl_stats_json(a->g, a->window);
	text = json_dumps(stats, JSON_COMPACT);
	json_decref(stats);
	if (text)
		fill_event(l, text);
	free(text);
	MHD_add_response_header(resp, "Content-Type", "text/event-stream");
	MHD_add_response_header(resp, "Cache-Control", "no-store");
	res = MHD_queue_response(r->conn, MHD_HTTP_OK, resp);
	MHD_destroy_response(resp);
	return res;
}

static enum MHD_Result post_drain(struct request *r)
{
	sl_control_drain(r->admin->control);
	return reply_text(r->conn, MHD_HTTP_OK, "draining");
}

static enum MHD_Result post_reload(struct request *r)
{
	char err[600];
	json_t *diff = NULL;

	if (sl_control_reload(r->admin->control, &diff, err, sizeof(err)))
		return reply_text(r->conn, MHD_HTTP_BAD_REQUEST, err);
	return reply_json(r->conn, diff);
}

struct set_args {
	struct sl_svc_ctl ctl;
	const char *pool;
	char err[160];
};

static enum MHD_Result take_arg(void *arg, enum MHD_ValueKind kind, const char *key,
				const char *value)
{
	struct set_args *s = arg;

	(void)kind;
	if (strcmp(key, "pool") == 0)
		s->pool = value;
	else if (sl_override_set(&s->ctl, key, value ? value : "", s->err, sizeof(s->err)) != 0)
		return MHD_NO;
	return MHD_YES;
}

static enum MHD_Result post_set(struct request *r)
{
	const struct sl_config *cfg = sl_gateway_info(r->admin->g)->cfg;
	struct set_args s = {.err = ""};
	struct sl_svc_ctl *ctl;
	uint32_t i;

	s.pool = MHD_lookup_connection_value(r->conn, MHD_GET_ARGUMENT_KIND, "pool");
	for (i = 0; i < cfg->pool_cnt && s.pool; i++) {
		if (cfg->pools[i].name && strcmp(cfg->pools[i].name, s.pool) == 0)
			break;
	}
	if (!s.pool || i == cfg->pool_cnt)
		return reply_text(
			r->conn, MHD_HTTP_NOT_FOUND,
			"found no such pool; allowed: pool=NAME, as `sluice status` lists them");
	ctl = sl_gateway_ctl(r->admin->g, i);
	/* All or nothing: first on a copy. */
	s.ctl = *ctl;
	MHD_get_connection_values(r->conn, MHD_GET_ARGUMENT_KIND, take_arg, &s);
	if (s.err[0])
		return reply_text(r->conn, MHD_HTTP_BAD_REQUEST, s.err);
	__atomic_store_n(&ctl->batch_size, s.ctl.batch_size, __ATOMIC_RELAXED);
	__atomic_store_n(&ctl->shed_level, s.ctl.shed_level, __ATOMIC_RELAXED);
	__atomic_store_n(&ctl->hold_ns, s.ctl.hold_ns, __ATOMIC_RELAXED);
	__atomic_store_n(&ctl->bound_ns, s.ctl.bound_ns, __ATOMIC_RELAXED);
	__atomic_store_n(&ctl->deadline_ns, s.ctl.deadline_ns, __ATOMIC_RELAXED);
	return reply_json(r->conn, sl_override_json(ctl));
}

static const struct {
	const char *path;
	bool post;
	enum MHD_Result (*handle)(struct request *r);
} routes[] = {
	{"/", false, get_dashboard},    {"/livez", false, get_livez},
	{"/readyz", false, get_readyz}, {"/metrics", false, get_metrics},
	{"/stats", false, get_stats},   {"/events", false, get_events},
	{"/drain", true, post_drain},   {"/set", true, post_set},
	{"/reload", true, post_reload},
};

static enum MHD_Result handle(void *cls, struct MHD_Connection *conn, const char *url,
			      const char *method, const char *version, const char *upload,
			      size_t *upload_len, void **req_cls)
{
	static int seen; /* its address marks a request whose head was taken */
	struct request r = {cls, conn};
	bool post = strcmp(method, "POST") == 0;

	(void)version, (void)upload;
	if (!*req_cls) {
		*req_cls = &seen;
		return MHD_YES;
	}
	if (*upload_len) { /* bodies have no meaning here */
		*upload_len = 0;
		return MHD_YES;
	}
	for (size_t i = 0; i < SL_ARRAY_LEN(routes); i++) {
		const char *proof;

		if (strcmp(routes[i].path, url) != 0)
			continue;
		if (post != routes[i].post ||
		    (!post && strcmp(method, "GET") != 0 && strcmp(method, "HEAD") != 0))
			return reply_text(conn, MHD_HTTP_METHOD_NOT_ALLOWED,
					  routes[i].post ? "POST only" : "GET only");
		proof = MHD_lookup_connection_value(conn, MHD_HEADER_KIND, "Sluice-Admin");
		if (post && (!proof || strcmp(proof, "1") != 0))
			return reply_text(
				conn, MHD_HTTP_FORBIDDEN,
				"found no header \"Sluice-Admin: 1\"; allowed: only with it");
		return routes[i].handle(&r);
	}
	return reply_text(conn, MHD_HTTP_NOT_FOUND,
			  "allowed: / /livez /readyz /metrics /stats /events /drain /reload /set");
}

static void log_line(void *arg, const char *fmt, va_list ap)
{
	const struct sl_admin *a = arg;
	char line[256];

	if (!a->daemon) /* while it starts: sl_admin_open tells */
		return;
	vsnprintf(line, sizeof(line), fmt, ap);
	line[strcspn(line, "\n")] = 0;
	SL_LOG_EVERY(UINT64_C(1000000000), SL_LOG_WARN, "admin: %s", line);
}

static socklen_t to_sockaddr(const struct sl_config *cfg, struct sockaddr_storage *ss)
{
	struct sockaddr_in *v4 = (struct sockaddr_in *)ss;
	struct sockaddr_in6 *v6 = (struct sockaddr_in6 *)ss;

	memset(ss, 0, sizeof(*ss));
	if (inet_pton(AF_INET, cfg->admin_address, &v4->sin_addr) == 1) {
		v4->sin_family = AF_INET;
		v4->sin_port = htons(cfg->admin_port);
		return sizeof(*v4);
	}
	inet_pton(AF_INET6, cfg->admin_address, &v6->sin6_addr);
	v6->sin6_family = AF_INET6;
	v6->sin6_port = htons(cfg->admin_port);
	return sizeof(*v6);
}

struct sl_admin *sl_admin_open(struct sl_control *c, struct sl_gateway *g,
			       const struct sl_config *cfg, struct sl_window *w, char *err,
			       size_t err_len)
{
	struct sl_admin *a = calloc(1, sizeof(*a));
	struct sockaddr_storage ss;
	unsigned flags = MHD_USE_EPOLL | MHD_ALLOW_SUSPEND_RESUME | MHD_USE_ERROR_LOG;

	if (!a) {
		snprintf(err, err_len, "admin: out of memory");
		return NULL;
	}
	*a = (struct sl_admin){.control = c, .g = g, .cfg = cfg, .window = w};
	sl_list_init(&a->listeners);
	to_sockaddr(cfg, &ss);
	if (ss.ss_family == AF_INET6)
		flags |= MHD_USE_IPv6;
	errno = 0;
	a->daemon = MHD_start_daemon(flags, cfg->admin_port, NULL, NULL, handle, a,
				     MHD_OPTION_EXTERNAL_LOGGER, log_line, a, MHD_OPTION_SOCK_ADDR,
				     &ss, MHD_OPTION_CONNECTION_LIMIT, (unsigned)MAX_CONNECTIONS,
				     MHD_OPTION_CONNECTION_TIMEOUT, (unsigned)TIMEOUT_S,
				     MHD_OPTION_END);
	if (!a->daemon) {
		snprintf(err, err_len,
			 "%s: admin endpoint at %s port %u: %s; choose another in admin { }, or "
			 "port = 0 for none",
			 cfg->file, cfg->admin_address, cfg->admin_port,
			 strerror(errno ? errno : EADDRINUSE));
		free(a);
		return NULL;
	}
	return a;
}

void sl_admin_close(struct sl_admin *a)
{
	struct sl_list *pos, *tmp;

	if (!a)
		return;
	sl_list_for_each_safe (pos, tmp, &a->listeners) {
		struct listener *l = sl_container_of(pos, struct listener, link);

		if (l->suspended)
			MHD_resume_connection(l->conn);
		l->suspended = false;
	}
	MHD_stop_daemon(a->daemon);
	free(a);
}

int sl_admin_fd(const struct sl_admin *a)
{
	const union MHD_DaemonInfo *info = MHD_get_daemon_info(a->daemon, MHD_DAEMON_INFO_EPOLL_FD);

	return info ? info->epoll_fd : -1;
}

uint16_t sl_admin_port(const struct sl_admin *a)
{
	const union MHD_DaemonInfo *info =
		MHD_get_daemon_info(a->daemon, MHD_DAEMON_INFO_BIND_PORT);

	return info ? info->port : 0;
}

void sl_admin_run(struct sl_admin *a)
{
	MHD_run(a->daemon);
}

void sl_admin_tick(struct sl_admin *a)
{
	struct sl_list *pos;
	json_t *stats;
	char *text;

	if (sl_list_empty(&a->listeners))
		return;
	stats = sl_stats_json(a->g, a->window);
	text = stats ? json_dumps(stats, JSON_COMPACT) : NULL;
	json_decref(stats);
	if (!text)
		return;
	sl_list_for_each (pos, &a->listeners) {
		struct listener *l = sl_container_of(pos, struct listener, link);

		/* One that has not read its last event yet misses this one. */
		if (!l->suspended)
			continue;
		fill_event(l, text);
		l->suspended = false;
		MHD_resume_connection(l->conn);
	}
	free(text);
	MHD_run(a->daemon);
}
