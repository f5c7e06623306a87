/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/list.h"

#include <arpa/inet.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "config/config.h"

static size_t write_health(char *to, size_t cap, const struct sl_cfg_health *h)
{
	return (size_t)snprintf(to, cap, "%" PRIu64 "\t%" PRIu64 "\t%u\t%u\t%s\t%s\t",
				h->on ? h->interval_ns : 0, h->timeout_ns, h->expect, h->failures,
				h->path ? h->path : "", h->service ? h->service : "");
}

struct list_files {
	const char *paths[SL_CFG_MAX_SERVER_FILES];
	uint32_t cnt;
};

static uint32_t number_file(struct list_files *f, const char *path)
{
	uint32_t i = 0;

	if (!path)
		return 0;
	while (i < f->cnt && strcmp(f->paths[i], path) != 0)
		i++;
	if (i == SL_CFG_MAX_SERVER_FILES)
		return 0;
	f->paths[i] = path;
	f->cnt += i == f->cnt;
	return i + 1;
}

static size_t write_tls(char *to, size_t cap, const struct sl_cfg_server_tls *t,
			struct list_files *files)
{
	return (size_t)snprintf(to, cap, "%u\t%u\t%u\t%u\t%s\t", t->verify,
				number_file(files, t->verify ? t->ca_file.path : NULL),
				number_file(files, t->certificate.path),
				number_file(files, t->key.path),
				t->server_name ? t->server_name : "");
}

static bool has_line(const struct sl_cfg_backend *b)
{
	return b->name && sl_server_is(b) && b->way == SL_VIA_AGENT;
}

static size_t write_files(char *to, size_t cap, const struct sl_config *cfg,
			  struct list_files *files)
{
	size_t len = 0;

	for (uint32_t p = 0; p < cfg->pool_cnt; p++) {
		const struct sl_cfg_pool *pool = &cfg->pools[p];

		for (uint32_t i = 0; pool->name && i < pool->backend_cnt; i++) {
			if (has_line(&pool->backends[i]) && sl_server_has_tls(&pool->backends[i]))
				(void)write_tls(to, 0, &pool->tls, files);
		}
	}
	for (uint32_t i = 0; i < files->cnt && len < cap; i++)
		len += (size_t)snprintf(to + len, cap - len, "=%s\n", files->paths[i]);
	return len;
}

size_t agent_list_write(char *to, size_t cap, const struct sl_config *cfg)
{
	static const struct sl_cfg_server_tls no_tls;
	struct list_files files = {.cnt = 0};
	size_t len = write_files(to, cap, cfg, &files);

	if (len >= cap)
		return SIZE_MAX;
	for (uint32_t p = 0; p < cfg->pool_cnt; p++) {
		const struct sl_cfg_pool *pool = &cfg->pools[p];

		for (uint32_t i = 0; pool->name && i < pool->backend_cnt; i++) {
			const struct sl_cfg_backend *b = &pool->backends[i];
			char endpoint[SL_SERVER_ENDPOINT_LEN];

			if (!has_line(b))
				continue;
			sl_server_endpoint(endpoint, SL_SERVER_ANY_AGENT, pool->name, b);
			len += (size_t)snprintf(to + len, cap - len, "%s\t%s\t%s/%s\t%u\t",
						endpoint, b->endpoint, pool->name, b->name,
						b->concurrency);
			if (len < cap)
				len += write_health(to + len, cap - len, &pool->health);
			if (len < cap)
				len += write_tls(to + len, cap - len,
						 sl_server_has_tls(b) ? &pool->tls : &no_tls,
						 &files);
			if (len < cap)
				len += (size_t)snprintf(to + len, cap - len, "%s\n",
							b->host ? b->host : "");
			if (len >= cap)
				return SIZE_MAX;
		}
	}
	return len;
}

static uint64_t take_number(char **line)
{
	const char *text = strsep(line, "\t");

	return text ? strtoull(text, NULL, 10) : 0;
}

static bool take_health(char **line, struct sl_agent_health *out)
{
	out->interval_ns = take_number(line);
	out->timeout_ns = take_number(line);
	out->expect = (uint32_t)take_number(line);
	out->failures = (uint32_t)take_number(line);
	out->path = strsep(line, "\t");
	out->service = strsep(line, "\t");
	return *line != NULL;
}

static bool take_tls(char **line, struct sl_agent_tls *out)
{
	const char *name;

	out->verify = take_number(line);
	out->ca = (int)take_number(line);
	out->certificate = (int)take_number(line);
	out->key = (int)take_number(line);
	name = strsep(line, "\t");
	out->server_name = name && *name ? name : NULL;
	return *line != NULL;
}

uint32_t agent_list_parse(char *text, uint32_t number, struct agent_list_line *out, uint32_t max)
{
	uint32_t n = 0;
	char *line, *rest = text;

	while (n < max && (line = strsep(&rest, "\n")) && *line) {
		struct agent_list_line *s = &out[n];
		const char *endpoint = strsep(&line, "\t"), *mark = strstr(endpoint, "/*-"), *most;

		s->to = strsep(&line, "\t");
		s->name = strsep(&line, "\t");
		most = strsep(&line, "\t");
		if (!mark || !s->to || !s->name || !most || !take_health(&line, &s->health) ||
		    !take_tls(&line, &s->tls))
			continue;
		s->concurrency = (uint32_t)strtoul(most, NULL, 10);
		s->host = *line ? line : NULL;
		snprintf(s->listen, sizeof(s->listen), "%.*s/%u-%s", (int)(mark - endpoint),
			 endpoint, number, mark + 3);
		n++;
	}
	return n;
}

void agent_list_attach(struct msghdr *msg, union agent_list_control *c, const int *fds,
		       unsigned cnt)
{
	memset(c, 0, sizeof(*c));
	c->head = (struct cmsghdr){.cmsg_level = SOL_SOCKET,
				   .cmsg_type = SCM_RIGHTS,
				   .cmsg_len = CMSG_LEN(cnt * sizeof(int))};
	memcpy(CMSG_DATA(&c->head), fds, cnt * sizeof(int));
	msg->msg_control = c;
	msg->msg_controllen = CMSG_SPACE(cnt * sizeof(int));
}

unsigned agent_list_detach(struct msghdr *msg, int fds[SL_CFG_MAX_SERVER_FILES])
{
	const struct cmsghdr *c = CMSG_FIRSTHDR(msg);
	size_t len;

	if (!c || c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
		return 0;
	len = c->cmsg_len - CMSG_LEN(0);
	if (len > SL_CFG_MAX_SERVER_FILES * sizeof(int))
		len = SL_CFG_MAX_SERVER_FILES * sizeof(int);
	memcpy(fds, CMSG_DATA(c), len);
	return (unsigned)(len / sizeof(int));
}

bool agent_list_next_file(const char *text, size_t len, size_t *at, char path[PATH_MAX])
{
	const char *end = *at < len ? memchr(text + *at, '\n', len - *at) : NULL;
	size_t n = end ? (size_t)(end - text) - *at : 0;

	if (!n || text[*at] != '=' || n > PATH_MAX)
		return false;
	memcpy(path, text + *at + 1, n - 1);
	path[n - 1] = 0;
	*at += n + 1;
	return true;
}

static bool line_has_name(const char *line, const char *end)
{
	const char *from = memchr(line, '\t', (size_t)(end - line));
	const char *to = from ? memchr(from + 1, '\t', (size_t)(end - from - 1)) : NULL;
	struct sl_server_url u;
	uint8_t at[16];
	char url[512];

	if (!to || to - from > (ptrdiff_t)sizeof(url))
		return false;
	memcpy(url, from + 1, (size_t)(to - from - 1));
	url[to - from - 1] = 0;
	return sl_server_url_parse(url, &u) && !u.local && inet_pton(AF_INET, u.host, at) != 1 &&
	       inet_pton(AF_INET6, u.host, at) != 1;
}

bool agent_list_has_names(const char *text, size_t len)
{
	const char *end = text + len, *stop;

	for (; text < end; text = stop + 1) {
		stop = memchr(text, '\n', (size_t)(end - text));
		if (!stop)
			return false;
		if (line_has_name(text, stop))
			return true;
	}
	return false;
}
