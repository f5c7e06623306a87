/* SPDX-License-Identifier: Apache-2.0 */
#include "config/server.h"

#include <arpa/inet.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/check.h"
#include "base/fnv.h"
#include "base/num.h"
#include "config/config.h"

enum { HTTP_PORT = 80, HTTPS_PORT = 443 };

/* host [":" port] ["/"]; no path, because it would be ignored. */
static bool parse_host(const char *at, struct sl_server_url *out)
{
	static const char v6[] = "0123456789abcdefABCDEF:.";
	static const char name[] =
		"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._";
	size_t len = strcspn(at, "/"), host_len;
	bool bracketed = at[0] == '[';
	const char *end;
	uint64_t port = out->tls ? HTTPS_PORT : HTTP_PORT;

	if (at[len] && at[len + 1])
		return false;
	at += bracketed;
	len -= bracketed;
	host_len = bracketed ? strcspn(at, "]") : strcspn(at, ":/");
	if (!host_len || host_len >= sizeof(out->host) || (!bracketed && at[0] == '.') ||
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
	struct sl_server_url url = {0};

	return !strchr(text, '/') && parse_host(text, &url);
}

bool sl_server_url_parse(const char *text, struct sl_server_url *out)
{
	static const struct {
		const char *scheme;
		uint8_t proto;
		bool local, tls;
	} all[] = {
		{"http://", SL_SERVER_HTTP1, false, false},
		{"h2c://", SL_SERVER_H2, false, false},
		{"https://", SL_SERVER_HTTP1, false, true},
		{"h2://", SL_SERVER_H2, false, true},
		{"http+unix://", SL_SERVER_HTTP1, true, false},
		{"h2c+unix://", SL_SERVER_H2, true, false},
	};

	for (size_t i = 0; i < SL_ARRAY_LEN(all); i++) {
		size_t len = strlen(all[i].scheme);

		if (strncmp(text, all[i].scheme, len) != 0)
			continue;
		*out = (struct sl_server_url){
			.proto = all[i].proto, .local = all[i].local, .tls = all[i].tls};
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

bool sl_server_name_ok(const char *text)
{
	struct sl_server_url url = {0};
	uint8_t at[16];

	if (strchr(text, ':'))
		return inet_pton(AF_INET6, text, at) == 1;
	return parse_host(text, &url) && strcmp(url.host, text) == 0;
}

bool sl_server_has_tls(const struct sl_cfg_backend *b)
{
	struct sl_server_url url;

	return b->endpoint && sl_server_url_parse(b->endpoint, &url) && url.tls;
}

bool sl_server_is_h2(const struct sl_cfg_backend *b)
{
	struct sl_server_url url;

	return b->endpoint && sl_server_url_parse(b->endpoint, &url) && url.proto == SL_SERVER_H2;
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

static uint64_t hash_text(uint64_t h, const char *text)
{
	return sl_fnv64(h, text, strlen(text) + 1);
}

void sl_server_endpoint(char out[SL_SERVER_ENDPOINT_LEN], uint32_t agent, const char *pool,
			const struct sl_cfg_backend *b)
{
	uint64_t h = SL_FNV64;

	/* After a reload, a changed server has another endpoint. */
	h = hash_text(hash_text(hash_text(h, pool), b->name), b->endpoint) + b->concurrency +
	    b->server_hash;
	if (b->host)
		h = hash_text(h, b->host);
	if (b->way == SL_VIA_STACK)
		snprintf(out, SL_SERVER_ENDPOINT_LEN, "shm://%s/w%u-%016" PRIx64, folder, agent, h);
	else if (agent == SL_SERVER_ANY_AGENT)
		snprintf(out, SL_SERVER_ENDPOINT_LEN, "shm://%s/*-%016" PRIx64, folder, h);
	else
		snprintf(out, SL_SERVER_ENDPOINT_LEN, "shm://%s/%u-%016" PRIx64, folder, agent, h);
}
