/* SPDX-License-Identifier: Apache-2.0 */
/* Client of the admin endpoint: HTTP/1.0, one request per connection. */
#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include "base/num.h"
#include "base/strbuf.h"
#include "cli/cli.h"
#include "config/config.h"

enum { TIMEOUT_S = 5, ANSWER_LIMIT = 32 << 20 };

int cli_find_admin(const struct cli_options *o, struct cli_target *t, char *err, size_t err_len)
{
	struct sl_config *c;
	const char *colon;
	uint64_t port;
	size_t len;

	snprintf(t->address, sizeof(t->address), "127.0.0.1");
	t->port = 9900;
	if (o->admin) {
		colon = strrchr(o->admin, ':');
		len = colon ? (size_t)(colon - o->admin) : 0;
		if (!colon || len >= sizeof(t->address) ||
		    sl_parse_u64_max(sl_span_cstr(colon + 1), 65535, &port) || !port) {
			snprintf(err, err_len, "found --admin \"%.64s\"; allowed: ADDRESS:PORT",
				 o->admin);
			return -1;
		}
		if (len > 1 && o->admin[0] == '[' && o->admin[len - 1] == ']')
			snprintf(t->address, sizeof(t->address), "%.*s", (int)len - 2,
				 o->admin + 1);
		else if (len)
			snprintf(t->address, sizeof(t->address), "%.*s", (int)len, o->admin);
		t->port = (uint16_t)port;
		return 0;
	}
	if (!o->config)
		return 0;
	c = sl_config_load(o->config, err, err_len);
	if (!c)
		return -1;
	snprintf(t->address, sizeof(t->address), "%s", c->admin_address);
	t->port = c->admin_port;
	if (!t->port)
		snprintf(err, err_len, "%s: the admin endpoint is turned off (admin { port = 0 })",
			 o->config);
	sl_config_free(c);
	return t->port ? 0 : -1;
}

static int dial(const struct cli_target *t, char *err, size_t err_len)
{
	struct sockaddr_in v4 = {.sin_family = AF_INET, .sin_port = htons(t->port)};
	struct sockaddr_in6 v6 = {.sin6_family = AF_INET6, .sin6_port = htons(t->port)};
	struct timeval limit = {.tv_sec = TIMEOUT_S};
	struct sockaddr *sa = (struct sockaddr *)&v4;
	socklen_t len = sizeof(v4);
	int fd;

	if (inet_pton(AF_INET, t->address, &v4.sin_addr) != 1) {
		if (inet_pton(AF_INET6, t->address, &v6.sin6_addr) != 1) {
			snprintf(err, err_len, "found address \"%s\"; allowed: IPv4 or IPv6",
				 t->address);
			return -1;
		}
		sa = (struct sockaddr *)&v6;
		len = sizeof(v6);
	}
	fd = socket(sa->sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (fd >= 0) {
		setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
		setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit));
	}
	if (fd < 0 || connect(fd, sa, len) != 0) {
		snprintf(err, err_len,
			 "no gateway answers at %s port %u (%s); name it with -c or --admin",
			 t->address, t->port, strerror(errno));
		if (fd >= 0)
			close(fd);
		return -1;
	}
	return fd;
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

static void read_all(int fd, struct sl_strbuf *b)
{
	char chunk[16384];
	ssize_t n;

	while ((n = recv(fd, chunk, sizeof(chunk), 0)) > 0)
		sl_strbuf_add(b, chunk, (size_t)n);
}

int cli_admin_ask(const struct cli_target *t, const char *method, const char *path, char **body,
		  char *err, size_t err_len)
{
	struct sl_strbuf b;
	char request[512];
	int fd = dial(t, err, err_len), status = -1;
	const char *start;

	*body = NULL;
	if (fd < 0)
		return -1;
	sl_strbuf_grow(&b, ANSWER_LIMIT);
	snprintf(request, sizeof(request),
		 "%s %s HTTP/1.0\r\nHost: sluice\r\nSluice-Admin: 1\r\nContent-Length: 0\r\n\r\n",
		 method, path);
	if (send_all(fd, request))
		read_all(fd, &b);
	close(fd);
	start = b.err ? NULL : strstr(sl_strbuf_cstr(&b), "\r\n\r\n");
	if (start && strncmp(sl_strbuf_cstr(&b), "HTTP/1.", 7) == 0 && b.len > 12) {
		status = (int)strtol(sl_strbuf_cstr(&b) + 9, NULL, 10);
		*body = strdup(start + 4);
	}
	if (!*body) {
		snprintf(err, err_len, "no HTTP answer from %s port %u: is that a gateway?",
			 t->address, t->port);
		status = -1;
	}
	sl_strbuf_fini(&b);
	return status;
}

json_t *cli_admin_stats(const struct cli_target *t, char *err, size_t err_len)
{
	json_error_t jerr;
	json_t *o = NULL;
	char *body;
	int status = cli_admin_ask(t, "GET", "/stats", &body, err, err_len);

	if (status == 200)
		o = json_loads(body, 0, &jerr);
	if (status >= 0 && !json_is_object(o)) {
		snprintf(err, err_len, "%s port %u answers %d, not the state of a gateway",
			 t->address, t->port, status);
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
