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

size_t agent_list_write(char *to, size_t cap, const struct sl_config *cfg)
{
	size_t len = 0;

	for (uint32_t p = 0; p < cfg->pool_cnt; p++) {
		const struct sl_cfg_pool *pool = &cfg->pools[p];

		for (uint32_t i = 0; pool->name && i < pool->backend_cnt; i++) {
			const struct sl_cfg_backend *b = &pool->backends[i];
			char endpoint[SL_SERVER_ENDPOINT_LEN];

			if (!b->name || !sl_server_is(b))
				continue;
			sl_server_endpoint(endpoint, SL_SERVER_ANY_AGENT, pool->name, b);
			len += (size_t)snprintf(to + len, cap - len, "%s\t%s\t%s/%s\t%u\t",
						endpoint, b->endpoint, pool->name, b->name,
						b->concurrency);
			if (len < cap)
				len += write_health(to + len, cap - len, &pool->health);
			if (len < cap)
				len += (size_t)snprintf(to + len, cap - len, "%s\n",
							b->host ? b->host : "");
			if (len >= cap)
				return 0;
		}
	}
	return len;
}

static uint64_t take_number(char **line)
{
	const char *text = strsep(line, "\t");

	return text ? strtoull(text, NULL, 10) : 0;
}

/* Returns false if fields are missing. */
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
		if (!mark || !s->to || !s->name || !most || !take_health(&line, &s->health))
			continue;
		s->concurrency = (uint32_t)strtoul(most, NULL, 10);
		s->host = *line ? line : NULL;
		snprintf(s->listen, sizeof(s->listen), "%.*s/%u-%s", (int)(mark - endpoint),
			 endpoint, number, mark + 3);
		n++;
	}
	return n;
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
