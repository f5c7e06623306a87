/* SPDX-License-Identifier: Apache-2.0 */
#include "config/server.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/check.h"
#include "base/fnv.h"
#include "base/num.h"
#include "config/config.h"

enum { HTTP_PORT = 80 };

/* host [":" port] ["/"]; a path would be lost, so there is none. */
static bool parse_host(const char *at, struct sl_server_url *out)
{
	static const char v6[] = "0123456789abcdefABCDEF:.";
	static const char name[] =
		"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._";
	size_t len = strcspn(at, "/"), host_len;
	bool bracketed = at[0] == '[';
	const char *end;
	uint64_t port = HTTP_PORT;

	if (at[len] && at[len + 1])
		return false;
	at += bracketed;
	len -= bracketed;
	host_len = bracketed ? strcspn(at, "]") : strcspn(at, ":/");
	if (!host_len || host_len >= sizeof(out->host) ||
	    strspn(at, bracketed ? v6 : name) < host_len || (bracketed && at[host_len] != ']'))
		return false;
	memcpy(out->host, at, host_len);
	end = at + host_len + bracketed;
	if (*end == ':' &&
	    (sl_parse_u64_max(sl_span_of(end + 1, (size_t)(at + len - end - 1)), 65535, &port) ||
	     !port))
		return false;
	out->port = (uint16_t)port;
	return *end == ':' || end == at + len;
}

bool sl_server_authority_ok(const char *text)
{
	struct sl_server_url url;

	return !strchr(text, '/') && parse_host(text, &url);
}

bool sl_server_url_parse(const char *text, struct sl_server_url *out)
{
	static const struct {
		const char *scheme;
		uint8_t proto;
		bool local;
	} all[] = {
		{"http://", SL_SERVER_HTTP1, false},
		{"h2c://", SL_SERVER_H2C, false},
		{"http+unix://", SL_SERVER_HTTP1, true},
		{"h2c+unix://", SL_SERVER_H2C, true},
	};

	for (size_t i = 0; i < SL_ARRAY_LEN(all); i++) {
		size_t len = strlen(all[i].scheme);

		if (strncmp(text, all[i].scheme, len) != 0)
			continue;
		*out = (struct sl_server_url){.proto = all[i].proto, .local = all[i].local};
		text += len;
		if (!out->local)
			return parse_host(text, out);
		len = strlen(text);
		if (text[0] != '/' || len < 2 || len >= sizeof(out->path))
			return false;
		memcpy(out->path, text, len + 1);
		return true;
	}
	return false;
}

bool sl_server_is(const struct sl_cfg_backend *b)
{
	struct sl_server_url url;

	return b->endpoint && sl_server_url_parse(b->endpoint, &url);
}

static char folder[64];

void sl_server_folder_set(const char *path)
{
	snprintf(folder, sizeof(folder), "%s", path);
}

/* The NUL is hashed too, so that the boundary between two texts counts. */
static uint64_t hash_text(uint64_t h, const char *text)
{
	return sl_fnv64(h, text, strlen(text) + 1);
}

void sl_server_endpoint(char out[SL_SERVER_ENDPOINT_LEN], uint32_t agent, const char *pool,
			const struct sl_cfg_backend *b)
{
	uint64_t h = SL_FNV64;

	/* The hash covers all settings: after a reload, a changed server gets another endpoint. */
	h = hash_text(hash_text(hash_text(h, pool), b->name), b->endpoint) + b->concurrency +
	    b->health_hash;
	if (b->host)
		h = hash_text(h, b->host);
	if (agent == SL_SERVER_ANY_AGENT)
		snprintf(out, SL_SERVER_ENDPOINT_LEN, "shm://%s/*-%016" PRIx64, folder, h);
	else
		snprintf(out, SL_SERVER_ENDPOINT_LEN, "shm://%s/%u-%016" PRIx64, folder, agent, h);
}
