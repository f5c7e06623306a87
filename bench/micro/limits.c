/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What quotas and API keys cost a request, with 10,000 clients in random order. limits_cost_ns is a
 * rate by a header; the other rows are open requests, keys, and both. The exchange has no client.
 */
#include <openssl/sha.h>
#include <stdlib.h>
#include <string.h>

#include "bench.h"
#include "base/rand.h"
#include "config/api_keys.h"
#include "config/diagnostics.h"
#include "core/api_key.h"
#include "core/exchange.h"
#include "core/pool.h"
#include "core/quota.h"

enum { CLIENTS = 10000, ORDER = 32768, OPS = 2000, TOKEN = 40, LINE = 120 };

static struct sl_core core;
static struct sl_worker_cfg wcfg;
static struct sl_exchange x;
static struct sl_request rq;
static struct sl_header headers[8];
static char tokens[CLIENTS][64];
static uint16_t order[ORDER];
static struct sl_addr_quota address;

static void must(bool ok, const char *what)
{
	if (ok)
		return;
	fprintf(stderr, "bench: %s\n", what);
	exit(1);
}

static void make_request(const char *value, size_t len)
{
	static const char *const names[] = {
		"host",         "user-agent",   "accept",       "accept-encoding",
		"content-type", "x-request-id", "authorization"};

	rq.header_cnt = sizeof(names) / sizeof(names[0]);
	for (unsigned i = 0; i < rq.header_cnt; i++)
		headers[i] = (struct sl_header){sl_span_cstr(names[i]), sl_span_str("a value")};
	headers[rq.header_cnt - 1].value = sl_span_of(value, len);
	rq.headers = headers;
}

static struct sl_api_keys *make_keys(void)
{
	static struct conf_diags mistakes;
	char *text = malloc((size_t)CLIENTS * LINE), *at = text;
	struct sl_api_keys *keys;

	must(text, "no memory");
	for (unsigned i = 0; i < CLIENTS; i++) {
		uint8_t hash[32];

		snprintf(tokens[i], sizeof(tokens[i]), "Bearer %0*u", TOKEN, i * 2654435761u);
		SHA256((const uint8_t *)tokens[i] + 7, TOKEN, hash);
		at += sprintf(at, "key%u ", i);
		for (unsigned k = 0; k < sizeof(hash); k++)
			at += sprintf(at, "%02x", hash[k]);
		*at++ = '\n';
	}
	*at = 0;
	keys = sl_api_keys_parse(text, &mistakes);
	must(keys && !mistakes.cnt, "the keys are refused");
	free(text);
	return keys;
}

static void serve(void *ctx)
{
	const struct sl_cfg_route *route = ctx;

	static unsigned at;

	x.route = route;
	for (unsigned i = 0; i < OPS; i++) {
		const char *token = tokens[order[at++ % ORDER]];

		headers[rq.header_cnt - 1].value = sl_span_of(token, 7 + TOKEN);
		core.now_ns += 1000;
		if (route->keys)
			must(sl_api_key_check(&x, &rq) == SL_OUTCOME_OK, "a key is refused");
		if (route->quota_cnt)
			must(sl_quotas_admit(&x, &rq) == SL_OUTCOME_OK, "a request is refused");
		if (x.quota_open)
			sl_quotas_close(&x);
	}
}

int main(void)
{
	struct sl_err err = SL_ERR(4096);
	struct sl_config *c = sl_config_parse(
		"quota rate { by = header header = authorization rate = 1000000/s }\n"
		"quota address { rate = 100000000/s }\n"
		"quota open { by = header header = authorization max_requests = 9 }\n"
		"quota key { by = key rate = 1000000/s }\nkeys k { file = /k }\n"
		"route /a { respond { } quotas = {address} }\nroute /b { respond { } quotas = {rate} }\n"
		"route /c { respond { } quotas = {open} }\nroute /d { respond { } keys = k }\n"
		"route /e { respond { } keys = k quotas = {key} }\n",
		"bench", &err);
	static const char *const rows[] = {"limits_address_ns", "limits_cost_ns", "limits_open_ns",
					   "limits_key_ns", "limits_key_and_rate_ns"};
	struct sl_prng prng;

	must(c, err.text);
	must(sl_quotas_load(c, NULL, &err) == 0, err.text);
	c->keys[0].keys = make_keys();
	make_request(tokens[0], 7 + TOKEN);
	sl_prng_seed(&prng, 1);
	for (unsigned i = 0; i < ORDER; i++)
		order[i] = (uint16_t)sl_prng_below(&prng, CLIENTS);
	wcfg.cfg = c;
	address.hash = 12345;
	x.core = &core;
	x.wcfg = &wcfg;
	x.quota = &address;
	core.cfg = c;
	core.now_ns = sl_now_ns();
	for (unsigned warm = 0; warm < 10; warm++) {
		for (unsigned i = 0; i < c->route_cnt; i++)
			serve(&c->routes[i]);
	}
	for (unsigned i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		const struct sl_cfg_route *route = c->routes;

		while (route->prefix[1] != (char)('a' + i))
			route++;
		bench_time(rows[i], serve, (void *)(uintptr_t)route, OPS);
	}
	sl_api_keys_free(c->keys[0].keys);
	c->keys[0].keys = NULL;
	sl_config_free(c);
	return 0;
}
