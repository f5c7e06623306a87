/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/list.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "config/config.h"

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
			len += (size_t)snprintf(to + len, cap - len, "%s\t%s\t%s/%s\t%u\t%s\n",
						endpoint, b->endpoint, pool->name, b->name,
						b->concurrency, b->host ? b->host : "");
			if (len >= cap)
				return 0;
		}
	}
	return len;
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
		if (!mark || !s->to || !s->name || !most || !line)
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
