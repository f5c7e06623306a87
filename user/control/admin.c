/* SPDX-License-Identifier: Apache-2.0 */
#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "control/admin_impl.h"
#include "control/request_feed.h"

enum { RUNS = 16 };

struct admin_limits admin_limits = {.events = 64 << 20, .replies = 128 << 20};

static const struct {
	unsigned max_conns, timeout_s;
} budgets[ADMIN_CLASSES] = {
	[ADMIN_PROBE] = {64, 5},
	[ADMIN_READER] = {64, 15},
	[ADMIN_OPERATOR] = {32, 15},
};

static const char *request_header(struct admin_request *r, const char *name)
{
	return MHD_lookup_connection_value(r->conn, MHD_HEADER_KIND, name);
}

static int fd_of(struct MHD_Connection *conn)
{
	const union MHD_ConnectionInfo *info =
		MHD_get_connection_info(conn, MHD_CONNECTION_INFO_CONNECTION_FD);

	return info ? info->connect_fd : -1;
}

static unsigned check_tcp(struct admin_request *r, bool probe, const char **why)
{
	const struct sl_authz *g = &r->admin->authz;
	const char *host = request_header(r, "Host"), *origin = request_header(r, "Origin");
	const char *site = request_header(r, "Sec-Fetch-Site");
	struct sockaddr_storage local = {0};
	socklen_t len = sizeof(local);

	getsockname(fd_of(r->conn), (struct sockaddr *)&local, &len);
	if (host && !sl_authz_host(g, host, (struct sockaddr *)&local)) {
		*why = "found a foreign Host; allowed: the address of this endpoint, localhost, "
		       "and "
		       "those of admin { hosts }";
		return MHD_HTTP_MISDIRECTED_REQUEST;
	}
	if ((origin && !sl_authz_origin(g, origin, (struct sockaddr *)&local)) ||
	    (site && !sl_authz_fetch_site(site))) {
		*why = "found a request of a foreign page; allowed: those of the dashboard";
		return MHD_HTTP_FORBIDDEN;
	}
	r->known = sl_authz_token(g, request_header(r, "Authorization"));
	if (!r->known && !probe) {
		*why = "found no token; allowed: Authorization: Bearer TOKEN, or Basic with the token as "
		       "password";
		return MHD_HTTP_UNAUTHORIZED;
	}
	r->role = SL_ADMIN_READ;
	return 0;
}

static unsigned check_socket(struct admin_request *r, const char **why)
{
	const char *origin = request_header(r, "Origin"),
		   *site = request_header(r, "Sec-Fetch-Site");
	const struct sockaddr_in loopback = {.sin_family = AF_INET,
					     .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	const struct sockaddr *local = (const struct sockaddr *)&loopback;
	const char *host = request_header(r, "Host");

	/* A browser uses a forwarded port, as of `ssh -L`. */
	if ((origin && !sl_authz_origin(&r->admin->authz, origin, local)) ||
	    (site && (!sl_authz_fetch_site(site) || !host ||
		      !sl_authz_host(&r->admin->authz, host, local)))) {
		*why = "found a request of a foreign page; allowed: those of the dashboard";
		return MHD_HTTP_FORBIDDEN;
	}
	r->role = sl_authz_role(&r->admin->authz, fd_of(r->conn), &r->uid);
	r->known = r->role >= SL_ADMIN_READ;
	if (r->known)
		return 0;
	*why = "found an account without a role; allowed: root, the gateway's, and those of admin "
	       "{ "
	       "owner, group }";
	return MHD_HTTP_FORBIDDEN;
}

static enum MHD_Result refuse_change(const struct admin_request *r, enum admin_class kind)
{
	const struct sl_admin *a = r->admin;
	char text[300];

	if (kind == ADMIN_OPERATOR)
		snprintf(text, sizeof(text),
			 "found an account that may only look; allowed: root, the gateway's, and "
			 "those of admin { owner, group_role = operate }");
	else
		snprintf(text, sizeof(text),
			 "found a POST over TCP; allowed: GET; what changes something goes to %s",
			 a->socket.path[0] ? a->socket.path : "a Unix socket (admin { socket })");
	return admin_reply_text(r->conn, MHD_HTTP_FORBIDDEN, text);
}

static bool is_probe(const char *path)
{
	return strcmp(path, "/livez") == 0 || strcmp(path, "/readyz") == 0;
}

static enum MHD_Result answer_request(struct admin_request *r, enum admin_class kind,
				      const char *url, const char *method)
{
	const bool post = strcmp(method, "POST") == 0;

	r->url = url;
	for (size_t i = 0; i < admin_handler_cnt; i++) {
		if (strcmp(admin_handlers[i].path, url) != 0)
			continue;
		if (post != admin_handlers[i].post ||
		    (!post && strcmp(method, "GET") != 0 && strcmp(method, "HEAD") != 0))
			return admin_refuse_method(r->conn, admin_handlers[i].post);
		if (post && r->role < SL_ADMIN_OPERATE)
			return refuse_change(r, kind);
		return admin_handlers[i].handle(r);
	}
	return admin_reply_text(
		r->conn, MHD_HTTP_NOT_FOUND,
		"allowed: / /livez /readyz /metrics /stats /history /events /requests /drain /reload /set /edge");
}

static enum MHD_Result handle_request(void *cls, struct MHD_Connection *conn, const char *url,
				      const char *method, const char *version, const char *upload,
				      size_t *upload_len, void **req_cls)
{
	static int seen;
	struct admin_server *h = cls;
	struct admin_request r = {
		.admin = h->admin, .conns = &h->conns, .conn = conn, .uid = UINT32_MAX};
	const char *why = "";
	unsigned status;

	(void)version, (void)upload;
	if (!*req_cls) {
		*req_cls = &seen;
		return MHD_YES;
	}
	if (*upload_len) {
		*upload_len = 0;
		return MHD_YES;
	}
	status = h->kind == ADMIN_OPERATOR ? check_socket(&r, &why)
					   : check_tcp(&r, is_probe(url), &why);
	return status ? admin_reply_text(conn, status, why)
		      : answer_request(&r, h->kind, url, method);
}

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

static bool close_conn(struct admin_server *h, struct admin_conn *ac)
{
	unsigned before = h->conns.cnt;

	if (ac->listener)
		admin_events_leave(ac->listener);
	shutdown(ac->fd, SHUT_RDWR);
	MHD_run(h->daemon);
	return h->conns.cnt < before;
}

static void hand_to_server(void *arg, int fd, bool local, const char *head, size_t len)
{
	struct sl_admin *a = arg;
	struct admin_server *h = &a->servers[local                       ? ADMIN_OPERATOR
					     : asks_for_probe(head, len) ? ADMIN_PROBE
									 : ADMIN_READER];
	struct sockaddr_storage peer = {0};
	socklen_t peer_len = sizeof(peer);

	while (h->conns.cnt >= budgets[h->kind].max_conns &&
	       close_conn(h, admin_conns_find_victim(&h->conns, false)))
		;
	getpeername(fd, (struct sockaddr *)&peer, &peer_len);
	/* MHD closes fd if its limit is reached. */
	(void)!MHD_add_connection(h->daemon, fd, (struct sockaddr *)&peer, peer_len);
	MHD_run(h->daemon);
}

static void log_line(void *arg, const char *fmt, va_list ap)
{
	const struct admin_server *h = arg;
	char line[256];

	if (!h->admin->open)
		return;
	vsnprintf(line, sizeof(line), fmt, ap);
	line[strcspn(line, "\n")] = 0;
	/* MHD tries TCP_NODELAY and TCP_CORK on Unix sockets, too. */
	if (h->kind == ADMIN_OPERATOR && strstr(line, "Setting TCP_"))
		return;
	SL_LOG_EVERY(UINT64_C(1000000000), SL_LOG_WARN, "admin: %s", line);
}

static int open_server(struct sl_admin *a, enum admin_class kind)
{
	struct admin_server *h = &a->servers[kind];
	const union MHD_DaemonInfo *info;

	h->admin = a;
	h->kind = kind;
	admin_conns_init(&h->conns);
	h->daemon = MHD_start_daemon(MHD_USE_EPOLL | MHD_USE_NO_LISTEN_SOCKET |
					     MHD_ALLOW_SUSPEND_RESUME | MHD_USE_ERROR_LOG,
				     0, NULL, NULL, handle_request, h, MHD_OPTION_EXTERNAL_LOGGER,
				     log_line, h, MHD_OPTION_CONNECTION_LIMIT,
				     budgets[kind].max_conns, MHD_OPTION_NOTIFY_CONNECTION,
				     admin_conns_notify, &h->conns, MHD_OPTION_CONNECTION_TIMEOUT,
				     budgets[kind].timeout_s, MHD_OPTION_END);
	info = h->daemon ? MHD_get_daemon_info(h->daemon, MHD_DAEMON_INFO_EPOLL_FD) : NULL;
	return info ? admin_acceptor_watch(a->acceptor, info->epoll_fd) : -ENOMEM;
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
	sl_list_init(&a->readers);
	rc = sl_authz_init(&a->authz, &cfg->admin, err);
	a->acceptor = rc ? NULL : admin_acceptor_open(hand_to_server, a);
	if (!a->acceptor)
		rc = -1;
	for (int kind = 0; kind < ADMIN_CLASSES && !rc; kind++)
		rc = open_server(a, (enum admin_class)kind);
	if (!rc)
		rc = sl_admin_bind(cfg, &a->authz, &a->socket, err);
	if (!rc && a->socket.fd >= 0)
		rc = admin_acceptor_listen(a->acceptor, a->socket.fd, true);
	if (!rc && cfg->admin.port) {
		int fd = sl_admin_listen_tcp(cfg, err);

		rc = fd < 0 ? -1 : admin_acceptor_listen(a->acceptor, fd, false);
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
	admin_events_end(a);
	sl_admin_unbind(&a->socket);
	for (int kind = 0; kind < ADMIN_CLASSES; kind++) {
		if (a->servers[kind].daemon)
			MHD_stop_daemon(a->servers[kind].daemon);
	}
	admin_acceptor_close(a->acceptor);
	sl_authz_fini(&a->authz);
	free(a);
}

int sl_admin_fd(const struct sl_admin *a)
{
	return admin_acceptor_fd(a->acceptor);
}

const char *sl_admin_path(const struct sl_admin *a)
{
	return a->socket.path;
}

static void run_servers(struct sl_admin *a)
{
	for (int kind = 0; kind < ADMIN_CLASSES; kind++)
		MHD_run(a->servers[kind].daemon);
}

bool sl_admin_is_busy(const struct sl_admin *a)
{
	MHD_UNSIGNED_LONG_LONG ms;

	for (int kind = 0; kind < ADMIN_CLASSES; kind++) {
		if (MHD_get_timeout(a->servers[kind].daemon, &ms) == MHD_YES && ms == 0)
			return true;
	}
	return false;
}

/* MHD writes a block per call, and its descriptor reports each change once. */
void sl_admin_run(struct sl_admin *a)
{
	admin_acceptor_run(a->acceptor, sl_now_ns());
	for (int i = 0; i < RUNS && (!i || sl_admin_is_busy(a)); i++)
		run_servers(a);
}

void sl_admin_tick(struct sl_admin *a)
{
	admin_events_tick(a);
	admin_requests_tick(a);
	run_servers(a);
}
