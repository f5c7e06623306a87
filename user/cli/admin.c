/* SPDX-License-Identifier: Apache-2.0 */
/*
 * HTTP/1.0, one request per connection. Without access to the Unix socket, reads use TCP.
 */
#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/num.h"
#include "base/strbuf.h"
#include "cli/answer.h"
#include "cli/cli.h"
#include "config/config.h"
#include "wire/addr.h"

enum { TIMEOUT_S = 5, ANSWER_LIMIT = 32 << 20 };

static int take_admin_option(const char *text, struct cli_target *t, struct sl_err *err)
{
	const char *colon = strrchr(text, ':');
	size_t len = colon ? (size_t)(colon - text) : 0;
	uint64_t port;

	if (text[0] == '/' && strlen(text) < sizeof(t->socket)) {
		snprintf(t->socket, sizeof(t->socket), "%s", text);
		return 0;
	}
	if (!colon || len >= sizeof(t->address) ||
	    sl_parse_u64_max(sl_span_cstr(colon + 1), 65535, &port) || !port)
		return sl_fail(
			err, -1,
			"found --admin \"%.64s\"; allowed: ADDRESS:PORT, or the path of a socket",
			text);
	if (len > 1 && text[0] == '[' && text[len - 1] == ']')
		snprintf(t->address, sizeof(t->address), "%.*s", (int)len - 2, text + 1);
	else
		snprintf(t->address, sizeof(t->address), "%.*s", (int)len, len ? text : "");
	if (!len)
		snprintf(t->address, sizeof(t->address), "127.0.0.1");
	t->port = (uint16_t)port;
	return 0;
}

static int dial_to(const struct sockaddr *to, socklen_t len)
{
	struct timeval limit = {.tv_sec = TIMEOUT_S};
	int fd = socket(to->sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0), why;

	if (fd < 0)
		return -errno;
	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
	setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit));
	if (connect(fd, to, len) == 0)
		return fd;
	why = -errno;
	close(fd);
	return why;
}

static int dial_unix(const char *path)
{
	struct sockaddr_un sun = {.sun_family = AF_UNIX};

	snprintf(sun.sun_path, sizeof(sun.sun_path), "%s", path);
	return dial_to((struct sockaddr *)&sun, sizeof(sun));
}

static bool in_this_netns(int fd)
{
	struct ucred peer;
	socklen_t len = sizeof(peer);
	struct stat theirs, ours;
	char path[64];

	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &len) != 0)
		return true;
	snprintf(path, sizeof(path), "/proc/%d/ns/net", (int)peer.pid);
	return stat(path, &theirs) != 0 || stat("/proc/self/ns/net", &ours) != 0 ||
	       theirs.st_ino == ours.st_ino;
}

static int find_running(struct cli_target *t, struct sl_err *err)
{
	DIR *dir = opendir(sl_run_dir());
	char path[sizeof(t->socket) + 256];
	struct dirent *e;
	unsigned cnt = 0;

	while (dir && (e = readdir(dir))) {
		bool found;
		int fd;

		snprintf(path, sizeof(path), "%s/%s", sl_run_dir(), e->d_name);
		if (!sl_config_is_admin_socket(e->d_name) || strlen(path) >= sizeof(t->socket))
			continue;
		fd = dial_unix(path);
		found = fd >= 0 ? in_this_netns(fd) : fd == -EACCES;
		if (fd >= 0)
			close(fd);
		if (found)
			memcpy(t->socket, path, strlen(path) + 1);
		cnt += found;
	}
	if (dir)
		closedir(dir);
	if (cnt <= 1)
		return 0;
	return sl_fail(err, -1,
		       "several gateways run here (%u sockets in %s); name one with -c or "
		       "--admin",
		       cnt, sl_run_dir());
}

static int find_by_config(const char *file, bool explicit, struct cli_target *t, struct sl_err *err)
{
	struct sl_config *c = sl_config_load_offline(file, err);
	FILE *token;
	bool ok;

	if (!c)
		return -1;
	token = c->admin.token_file ? fopen(c->admin.token_file, "re") : NULL;
	if (token) {
		if (!fgets(t->token, sizeof(t->token), token))
			t->token[0] = 0;
		t->token[strcspn(t->token, "\r\n\t ")] = 0;
		fclose(token);
	}
	if (!explicit) {
		if (sl_config_admin_socket(c, true, t->socket) && access(t->socket, F_OK) != 0)
			t->socket[0] = 0;
		if (!t->socket[0])
			sl_config_admin_socket(c, false, t->socket);
		snprintf(t->address, sizeof(t->address), "%s", c->admin.address);
		t->port = c->admin.port;
	}
	ok = t->socket[0] || t->port;
	if (!ok)
		sl_err_set(
			err,
			"%s: the admin endpoint is turned off (admin { socket = none port = 0 })",
			file);
	t->by_default = strcmp(c->admin.socket, "auto") == 0 && !explicit;
	sl_config_free(c);
	return ok ? 0 : -1;
}

int cli_find_admin(const struct cli_options *o, struct cli_target *t, struct sl_err *err)
{
	*t = (struct cli_target){.port = 0};
	if (o->admin && take_admin_option(o->admin, t, err) != 0)
		return -1;
	if (o->config)
		return find_by_config(o->config, o->admin != NULL, t, err);
	if (o->admin)
		return 0;
	snprintf(t->address, sizeof(t->address), "127.0.0.1");
	t->port = 9900;
	return find_running(t, err);
}

static int dial_admin(const struct cli_target *t, bool reads, struct sl_err *err)
{
	int fd = t->socket[0] ? dial_unix(t->socket) : -ENOENT;
	struct sockaddr_storage ss;
	struct sl_addr at;
	socklen_t len;

	if (fd >= 0 && t->by_default && !in_this_netns(fd)) {
		close(fd);
		return sl_fail(
			err, -1,
			"%s is of a gateway in another network namespace; name yours with --admin",
			t->socket);
	}
	if (fd >= 0)
		return fd;
	if (reads && t->port) {
		if (!sl_addr_parse(&at, t->address))
			return sl_fail(err, -1, "found address \"%s\"; allowed: IPv4 or IPv6",
				       t->address);
		at.port_be = htons(t->port);
		len = sl_addr_to_sockaddr(&at, &ss);
		fd = dial_to((struct sockaddr *)&ss, len);
		if (fd >= 0)
			return fd;
		return sl_fail(err, -1,
			       "no gateway answers at %s port %u (%s); name it with -c or --admin",
			       t->address, t->port, strerror(-fd));
	}
	if (t->socket[0])
		return sl_fail(err, -1, "no gateway answers at %s (%s); name it with -c or --admin",
			       t->socket, strerror(-fd));
	return sl_fail(err, -1,
		       "no gateway's socket is known here; name it with -c or --admin PATH");
}

static bool send_all(int fd, const char *text)
{
	size_t len = strlen(text);

	while (len) {
		ssize_t n = send(fd, text, len, MSG_NOSIGNAL);

		if (n <= 0)
			return false;
		text += n;
		len -= (size_t)n;
	}
	return true;
}

static bool send_request(const struct cli_target *t, int fd, const char *method, const char *path)
{
	const bool v6 = strchr(t->address, ':') != NULL;
	char request[1600];

	snprintf(request, sizeof(request),
		 "%s %s HTTP/1.0\r\nHost: %s%s%s:%u\r\n%s%s%sContent-Length: 0\r\n\r\n", method,
		 path, v6 ? "[" : "", t->address, v6 ? "]" : "", t->port,
		 t->token[0] ? "Authorization: Bearer " : "", t->token, t->token[0] ? "\r\n" : "");
	return send_all(fd, request);
}

static ssize_t take_lines(char *text, size_t len, bool (*take)(void *arg, const char *line),
			  void *arg)
{
	size_t at = 0;
	char *end;

	while ((end = memchr(text + at, '\n', len - at))) {
		*end = 0;
		if (!take(arg, text + at))
			return -1;
		at = (size_t)(end - text) + 1;
	}
	return (ssize_t)at;
}

static int read_lines(int fd, bool (*take)(void *arg, const char *line), void *arg, char *text,
		      size_t size, size_t len)
{
	while (!term_stopped) {
		ssize_t used = take_lines(text, len, take, arg), n;

		if (used < 0)
			return 0;
		len -= (size_t)used;
		memmove(text, text + used, len);
		if (len == size)
			len = 0;
		n = recv(fd, text + len, size - len, 0);
		if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR))
			return -1;
		len += n > 0 ? (size_t)n : 0;
	}
	return 0;
}

static char *read_head(int fd, char *text, size_t size, size_t *len)
{
	char *end = NULL;
	ssize_t n = 1;

	for (*len = 0; !end && *len < size - 1 && n > 0;) {
		n = recv(fd, text + *len, size - 1 - *len, 0);
		*len += n > 0 ? (size_t)n : 0;
		text[*len] = 0;
		end = strstr(text, "\r\n\r\n");
	}
	return end ? end + 4 : NULL;
}

int cli_admin_stream(const struct cli_target *t, const char *path,
		     bool (*take)(void *arg, const char *line), void *arg, struct sl_err *err)
{
	static char text[64 << 10];
	int fd = dial_admin(t, true, err), rc = -1;
	char *body = NULL;
	size_t len;

	if (fd < 0)
		return -1;
	sl_err_set(err, "the gateway has ended the connection");
	if (send_request(t, fd, "GET", path))
		body = read_head(fd, text, sizeof(text), &len);
	if (body && strtol(text + 9, NULL, 10) == 200) {
		len -= (size_t)(body - text);
		memmove(text, body, len);
		rc = read_lines(fd, take, arg, text, sizeof(text), len);
	} else if (body) {
		ssize_t n = recv(fd, text + len, sizeof(text) - 1 - len, 0);

		text[len + (n > 0 ? (size_t)n : 0)] = 0;
		sl_err_set(err, "%.*s", (int)strcspn(body, "\n"), body);
	}
	close(fd);
	return rc;
}

static int read_answer(int fd, struct sl_strbuf *b, bool *ended, struct sl_err *err)
{
	char chunk[16384];
	ssize_t n = 1;

	while ((n > 0 && !b->err) || (n < 0 && errno == EINTR && !term_stopped)) {
		n = recv(fd, chunk, sizeof(chunk), 0);
		if (n > 0)
			sl_strbuf_add(b, chunk, (size_t)n);
	}
	*ended = n == 0;
	if (b->err == -ENOSPC)
		return sl_fail(err, -1, "found an answer of more than %d MiB; allowed: that many",
			       ANSWER_LIMIT >> 20);
	return b->err ? sl_fail(err, -1, "out of memory") : 0;
}

int cli_admin_ask(const struct cli_target *t, const char *method, const char *path, char **body,
		  struct sl_err *err)
{
	int fd = dial_admin(t, strcmp(method, "GET") == 0, err), status = -1;
	struct sl_err why = SL_ERR(160);
	struct sl_strbuf b;
	bool ended;

	*body = NULL;
	if (fd < 0)
		return -1;
	sl_err_set(&why, "no HTTP answer; is that a gateway?");
	sl_strbuf_grow(&b, ANSWER_LIMIT);
	if (send_request(t, fd, method, path) && read_answer(fd, &b, &ended, &why) == 0 &&
	    b.len >= 5 && memcmp(b.ptr, "HTTP/", 5) == 0)
		status = cli_answer_take(sl_strbuf_span(&b), ended, body, &why);
	if (status < 0)
		sl_err_set(err, "%s: %s", t->socket[0] ? t->socket : t->address, why.text);
	close(fd);
	sl_strbuf_fini(&b);
	return status;
}

json_t *cli_admin_stats(const struct cli_target *t, struct sl_err *err)
{
	json_error_t jerr;
	json_t *o = NULL;
	char *body;
	int status = cli_admin_ask(t, "GET", "/stats", &body, err);

	if (status == 200)
		o = json_loads(body, 0, &jerr);
	if (status >= 0 && !json_is_object(o)) {
		sl_err_set(err, "%s answers %d, not the state of a gateway",
			   t->socket[0] ? t->socket : t->address, status);
		json_decref(o);
		o = NULL;
	}
	free(body);
	return o;
}

double cli_number(const json_t *o, const char *key)
{
	return json_number_value(json_object_get(o, key));
}

const char *cli_text(const json_t *o, const char *key)
{
	const char *s = json_string_value(json_object_get(o, key));

	return s ? s : "";
}

double cli_sum_workers(const json_t *stats, const char *path)
{
	const json_t *workers = json_object_get(stats, "workers");
	double sum = 0;

	for (size_t w = 0; w < json_array_size(workers); w++) {
		const json_t *o = json_array_get(workers, w);
		char part[64];
		const char *at = path, *dot;

		while ((dot = strchr(at, '.'))) {
			snprintf(part, sizeof(part), "%.*s", (int)(dot - at), at);
			o = json_object_get(o, part);
			at = dot + 1;
		}
		sum += cli_number(o, at);
	}
	return sum;
}
