/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "control/admin_impl.h"

static const struct {
	unsigned places, timeout_s;
} budgets[VISITORS] = {
	[PROBE] = {64, 5},
	[READER] = {64, 15},
	[OPERATOR] = {32, 15},
};

/* --- who may come in --- */

static const char *header(struct request *r, const char *name)
{
	return MHD_lookup_connection_value(r->conn, MHD_HEADER_KIND, name);
}

static int fd_of(struct MHD_Connection *conn)
{
	const union MHD_ConnectionInfo *info =
		MHD_get_connection_info(conn, MHD_CONNECTION_INFO_CONNECTION_FD);

	return info ? info->connect_fd : -1;
}

/* Without a Host there is no browser. 0: may come in; else the status and why not. */
static unsigned check_tcp(struct request *r, bool probe, const char **why)
{
	const struct sl_guard *g = &r->admin->guard;
	const char *host = header(r, "Host"), *origin = header(r, "Origin");
	const char *site = header(r, "Sec-Fetch-Site");
	struct sockaddr_storage local = {0};
	socklen_t len = sizeof(local);

	getsockname(fd_of(r->conn), (struct sockaddr *)&local, &len);
	if (host && !sl_guard_host(g, host, (struct sockaddr *)&local)) {
		*why = "found a foreign Host; allowed: the address of this endpoint, localhost, "
		       "and "
		       "those of admin { hosts }";
		return MHD_HTTP_MISDIRECTED_REQUEST;
	}
	if ((origin && !sl_guard_origin(g, origin, (struct sockaddr *)&local)) ||
	    (site && !sl_guard_fetch_site(site))) {
		*why = "found a request of a foreign page; allowed: those of the dashboard";
		return MHD_HTTP_FORBIDDEN;
	}
	r->known = sl_guard_token(g, header(r, "Authorization"));
	if (!r->known && !probe) {
		*why = "found no token; allowed: Authorization: Bearer TOKEN, or Basic with the token as "
		       "password";
		return MHD_HTTP_UNAUTHORIZED;
	}
	r->role = SL_ADMIN_READ;
	return 0;
}

static unsigned check_socket(struct request *r, const char **why)
{
	r->role = sl_guard_role(&r->admin->guard, fd_of(r->conn), &r->uid);
	r->known = r->role >= SL_ADMIN_READ;
	if (r->known)
		return 0;
	*why = "found an account without a role; allowed: root, the gateway's, and those of admin "
	       "{ "
	       "owner, group }";
	return MHD_HTTP_FORBIDDEN;
}

static enum MHD_Result refuse_change(const struct request *r, enum visitor kind)
{
	const struct sl_admin *a = r->admin;
	char text[300];

	if (kind == OPERATOR)
		snprintf(text, sizeof(text),
			 "found an account that may only look; allowed: root, the gateway's, and "
			 "those of admin { owner, group_role = operate }");
	else
		snprintf(text, sizeof(text),
			 "found a POST over TCP; allowed: GET; what changes something goes to %s",
			 a->socket.path[0] ? a->socket.path : "a Unix socket (admin { socket })");
	return sl_page_text(r->conn, MHD_HTTP_FORBIDDEN, text);
}

static bool is_probe(const char *path)
{
	return strcmp(path, "/livez") == 0 || strcmp(path, "/readyz") == 0;
}

static enum MHD_Result answer(struct request *r, enum visitor kind, const char *url,
			      const char *method)
{
	const bool post = strcmp(method, "POST") == 0;

	for (size_t i = 0; i < sl_page_cnt; i++) {
		if (strcmp(sl_pages[i].path, url) != 0)
			continue;
		if (post != sl_pages[i].post ||
		    (!post && strcmp(method, "GET") != 0 && strcmp(method, "HEAD") != 0))
			return sl_page_text(r->conn, MHD_HTTP_METHOD_NOT_ALLOWED,
					    sl_pages[i].post ? "POST only" : "GET only");
		if (post && r->role < SL_ADMIN_OPERATE)
			return refuse_change(r, kind);
		return sl_pages[i].handle(r);
	}
	return sl_page_text(
		r->conn, MHD_HTTP_NOT_FOUND,
		"allowed: / /livez /readyz /metrics /stats /events /drain /reload /set /edge");
}

static enum MHD_Result handle(void *cls, struct MHD_Connection *conn, const char *url,
			      const char *method, const char *version, const char *upload,
			      size_t *upload_len, void **req_cls)
{
	static int seen; /* its address marks a request whose head was taken */
	struct house *h = cls;
	struct request r = {
		.admin = h->admin, .guests = &h->guests, .conn = conn, .uid = UINT32_MAX};
	const char *why = "";
	unsigned status;

	(void)version, (void)upload;
	if (!*req_cls) {
		*req_cls = &seen;
		return MHD_YES;
	}
	if (*upload_len) { /* bodies have no meaning here */
		*upload_len = 0;
		return MHD_YES;
	}
	status = h->kind == OPERATOR ? check_socket(&r, &why) : check_tcp(&r, is_probe(url), &why);
	return status ? sl_page_text(conn, status, why) : answer(&r, h->kind, url, method);
}

/* --- where they come in --- */

/* "GET /livez HTTP/1.1", with or without a query. */
static bool asks_for_probe(const char *head, size_t len)
{
	char path[16];
	size_t n = 0;

	if (len > 4 && memcmp(head, "GET ", 4) == 0)
		head += 4, len -= 4;
	else if (len > 5 && memcmp(head, "HEAD ", 5) == 0)
		head += 5, len -= 5;
	else
		return false;
	while (n < len && n + 1 < sizeof(path) && !strchr(" ?\r\n", head[n]))
		n++;
	memcpy(path, head, n);
	path[n] = 0;
	return is_probe(path);
}

/* MHD finds that the connection is shut. True: its place is free. */
static bool send_away(struct house *h, struct sl_guest *g)
{
	unsigned before = h->guests.cnt;

	if (g->listener)
		sl_page_leave(g->listener);
	shutdown(g->fd, SHUT_RDWR);
	MHD_run(h->daemon);
	return h->guests.cnt < before;
}

/* What it asks is answered at once, before the next one comes. */
static void enter(void *arg, int fd, bool local, const char *head, size_t len)
{
	struct sl_admin *a = arg;
	struct house *h = &a->houses[local ? OPERATOR : asks_for_probe(head, len) ? PROBE : READER];
	struct sockaddr_storage peer = {0};
	socklen_t peer_len = sizeof(peer);

	while (h->guests.cnt >= budgets[h->kind].places &&
	       send_away(h, sl_guests_find(&h->guests, false)))
		;
	getpeername(fd, (struct sockaddr *)&peer, &peer_len);
	/* Closes it if there is no place. */
	(void)!MHD_add_connection(h->daemon, fd, (struct sockaddr *)&peer, peer_len);
	MHD_run(h->daemon);
}

static void log_line(void *arg, const char *fmt, va_list ap)
{
	const struct house *h = arg;
	char line[256];

	if (!h->admin->open) /* while it starts: sl_admin_open tells */
		return;
	vsnprintf(line, sizeof(line), fmt, ap);
	line[strcspn(line, "\n")] = 0;
	/* TCP_NODELAY and TCP_CORK, which the library sets on Unix sockets too. */
	if (h->kind == OPERATOR && strstr(line, "Setting TCP_"))
		return;
	SL_LOG_EVERY(UINT64_C(1000000000), SL_LOG_WARN, "admin: %s", line);
}

static int open_house(struct sl_admin *a, enum visitor kind)
{
	struct house *h = &a->houses[kind];
	const union MHD_DaemonInfo *info;

	h->admin = a;
	h->kind = kind;
	sl_guests_init(&h->guests);
	h->daemon = MHD_start_daemon(MHD_USE_EPOLL | MHD_USE_NO_LISTEN_SOCKET |
					     MHD_ALLOW_SUSPEND_RESUME | MHD_USE_ERROR_LOG,
				     0, NULL, NULL, handle, h, MHD_OPTION_EXTERNAL_LOGGER, log_line,
				     h, MHD_OPTION_CONNECTION_LIMIT, budgets[kind].places,
				     MHD_OPTION_NOTIFY_CONNECTION, sl_guests_notify, &h->guests,
				     MHD_OPTION_CONNECTION_TIMEOUT, budgets[kind].timeout_s,
				     MHD_OPTION_END);
	info = h->daemon ? MHD_get_daemon_info(h->daemon, MHD_DAEMON_INFO_EPOLL_FD) : NULL;
	return info ? sl_door_watch(a->door, info->epoll_fd) : -ENOMEM;
}

struct sl_admin *sl_admin_open(struct sl_control *c, struct sl_gateway *g,
			       const struct sl_config *cfg, struct sl_window *w, struct sl_err *err)
{
	struct sl_admin *a = calloc(1, sizeof(*a));
	int rc;

	sl_err_set(err, "admin: out of memory");
	if (!a)
		return NULL;
	*a = (struct sl_admin){.control = c, .g = g, .window = w, .socket = {.fd = -1}};
	sl_list_init(&a->listeners);
	rc = sl_guard_init(&a->guard, &cfg->admin, err);
	a->door = rc ? NULL : sl_door_open(enter, a);
	if (!a->door)
		rc = -1;
	for (int kind = 0; kind < VISITORS && !rc; kind++)
		rc = open_house(a, (enum visitor)kind);
	if (!rc)
		rc = sl_admin_bind(cfg, &a->guard, &a->socket, err);
	if (!rc && a->socket.fd >= 0)
		rc = sl_door_listen(a->door, a->socket.fd, true);
	if (!rc && cfg->admin.port) {
		int fd = sl_admin_listen_tcp(cfg, err);

		rc = fd < 0 ? -1 : sl_door_listen(a->door, fd, false);
	}
	if (rc) {
		sl_admin_close(a);
		return NULL;
	}
	a->open = true;
	return a;
}

void sl_admin_close(struct sl_admin *a)
{
	if (!a)
		return;
	sl_pages_end(a);
	sl_admin_unbind(&a->socket);
	for (int kind = 0; kind < VISITORS; kind++) {
		if (a->houses[kind].daemon)
			MHD_stop_daemon(a->houses[kind].daemon);
	}
	sl_door_close(a->door);
	sl_guard_fini(&a->guard);
	free(a);
}

int sl_admin_fd(const struct sl_admin *a)
{
	return sl_door_fd(a->door);
}

const char *sl_admin_path(const struct sl_admin *a)
{
	return a->socket.path;
}

static void run_houses(struct sl_admin *a)
{
	for (int kind = 0; kind < VISITORS; kind++)
		MHD_run(a->houses[kind].daemon);
}

void sl_admin_run(struct sl_admin *a)
{
	sl_door_run(a->door, sl_now_ns());
	run_houses(a);
}

void sl_admin_tick(struct sl_admin *a)
{
	sl_pages_tick(a);
	run_houses(a);
}
