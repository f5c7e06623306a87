/* SPDX-License-Identifier: Apache-2.0 */
/* Two configurations side by side: what differs, and how the next takes the place of those before.
 */
#include "config/config.h"

#include <stdio.h>
#include <string.h>

#include "config/arena.h"

/* --- differences --- */

static bool has_setting(const struct sl_config *c, const char *setting)
{
	for (uint32_t i = 0; i < c->setting_cnt; i++) {
		if (strcmp(c->settings[i].text, setting) == 0)
			return true;
	}
	return false;
}

/* The part in front of " = ", cut off in buf. */
static const char *setting_key(const char *setting, char *buf, size_t len)
{
	const char *end = strstr(setting, " = ");

	snprintf(buf, len, "%.*s", (int)(end ? end - setting : 0), setting);
	return buf;
}

/* A changed value is missing on both sides: the first pass told it. */
static bool told_before(const struct sl_config *x, const struct sl_config *y, const char *key)
{
	char other[1200];

	for (uint32_t i = 0; i < y->setting_cnt; i++) {
		const char *text = y->settings[i].text;

		if (strcmp(setting_key(text, other, sizeof(other)), key) == 0 &&
		    !has_setting(x, text))
			return true;
	}
	return false;
}

void sl_config_diff(const struct sl_config *a, const struct sl_config *b, bool restart,
		    sl_config_diff_fn *fn, void *arg)
{
	char key[1200], last[1200] = "";

	for (int pass = 0; pass < 2; pass++) {
		const struct sl_config *x = pass ? b : a, *y = pass ? a : b;

		for (uint32_t i = 0; i < x->setting_cnt; i++) {
			const struct sl_cfg_setting *s = &x->settings[i];

			if (s->restart != restart || has_setting(y, s->text))
				continue;
			setting_key(s->text, key, sizeof(key));
			if (!(pass && told_before(x, y, key)) && strcmp(last, key) != 0)
				fn(arg, key);
			snprintf(last, sizeof(last), "%s", key);
		}
	}
}

/* --- places --- */

struct aligning {
	struct sl_config *next;
	const struct sl_config *const *living;
	uint32_t living_cnt, service_max;
	char *err;
	size_t err_len;
};

static const struct sl_cfg_pool *pool_at(const struct sl_config *c, uint32_t i)
{
	return i < c->pool_cnt && c->pools[i].name ? &c->pools[i] : NULL;
}

/* The index that the name has in any of them; -1: none. */
static int place_of_pool(const struct aligning *a, const char *name)
{
	for (uint32_t k = 0; k < a->living_cnt; k++) {
		for (uint32_t i = 0; i < a->living[k]->pool_cnt; i++) {
			const struct sl_cfg_pool *p = pool_at(a->living[k], i);

			if (p && strcmp(p->name, name) == 0)
				return (int)i;
		}
	}
	return -1;
}

static int vacant_place(const struct aligning *a, const struct sl_cfg_pool *pools)
{
	for (uint32_t i = 0; i < a->service_max; i++) {
		bool taken = pools[i].name != NULL;

		for (uint32_t k = 0; k < a->living_cnt; k++)
			taken = taken || pool_at(a->living[k], i);
		if (!taken)
			return (int)i;
	}
	return -1;
}

static bool same_text(const char *a, const char *b)
{
	return a && b ? strcmp(a, b) == 0 : a == b;
}

static bool same_backend(const struct sl_cfg_backend *a, const struct sl_cfg_backend *b)
{
	return same_text(a->name, b->name) && same_text(a->endpoint, b->endpoint) &&
	       same_text(a->fallback, b->fallback) && same_text(a->key_file, b->key_file);
}

/* Of the pool at that place: which of its backends is this, or one that none of them has. */
static int place_of_backend(const struct aligning *a, uint32_t pool, const struct sl_cfg_backend *b,
			    uint32_t taken)
{
	for (uint32_t k = 0; k < a->living_cnt; k++) {
		const struct sl_cfg_pool *p = pool_at(a->living[k], pool);

		for (uint32_t i = 0; p && i < p->backend_cnt; i++) {
			if (p->backends[i].name)
				taken |= 1u << i;
			if (same_backend(&p->backends[i], b))
				return (int)i;
		}
	}
	return ~taken ? __builtin_ctz(~taken) : -1;
}

static bool place_backends(const struct aligning *a, struct sl_cfg_pool *p, uint32_t place)
{
	struct sl_cfg_backend *old = p->backends, *new;
	uint32_t cnt = p->backend_cnt, taken = 0;

	new = conf_arena_alloc(a->next->arena, SL_CFG_MAX_BACKENDS * sizeof(*new));
	if (!new) {
		snprintf(a->err, a->err_len, "%s:0: found too little memory", a->next->file);
		return false;
	}
	/* What is in flight at a backend that leaves is still counted under its index. */
	p->backend_cnt = 0;
	for (uint32_t k = 0; k < a->living_cnt; k++) {
		const struct sl_cfg_pool *was = pool_at(a->living[k], place);

		if (was && was->backend_cnt > p->backend_cnt)
			p->backend_cnt = was->backend_cnt;
	}
	for (uint32_t i = 0; i < cnt; i++) {
		int at = place_of_backend(a, place, &old[i], taken);

		if (at < 0) {
			snprintf(
				a->err, a->err_len,
				"%s:%d: found more than %d backends of pool \"%s\" with those that "
				"are being removed; allowed: fewer, or again when these are gone",
				a->next->file, old[i].line, SL_CFG_MAX_BACKENDS, p->name);
			return false;
		}
		new[at] = old[i];
		taken |= 1u << at;
		if ((uint32_t)at >= p->backend_cnt)
			p->backend_cnt = (uint32_t)at + 1;
	}
	p->backends = new;
	return true;
}

static void keep_limits(struct sl_cfg_limits *next, const struct sl_cfg_limits *now)
{
	next->max_connections = now->max_connections;
	next->max_half_open = now->max_half_open;
	next->max_per_address = now->max_per_address;
	next->max_exchanges = now->max_exchanges;
	next->frame_memory = now->frame_memory;
	next->max_head = now->max_head;
	next->keepalive_ns = now->keepalive_ns;
	next->newreno = now->newreno;
	next->rst_closed_ports = now->rst_closed_ports;
	/* As the check of the file would have it for those. */
	if (next->max_target > next->max_head)
		next->max_target = next->max_head;
	if (next->max_body > next->frame_memory / 2)
		next->max_body = next->frame_memory / 2;
}

int sl_config_align(struct sl_config *next, const struct sl_config *const *living,
		    uint32_t living_cnt, uint32_t service_max, char *err, size_t err_len)
{
	struct aligning a = {next, living, living_cnt, service_max, err, err_len};
	struct sl_cfg_pool *pools = conf_arena_alloc(next->arena, service_max * sizeof(*pools));
	int place[SL_MAX_SERVICES] = {0};
	uint32_t cnt = 0;

	if (!pools) {
		snprintf(err, err_len, "%s:0: found too little memory", next->file);
		return -1;
	}
	for (uint32_t i = 0; i < next->pool_cnt; i++) {
		place[i] = place_of_pool(&a, next->pools[i].name);
		if (place[i] >= 0)
			pools[place[i]] = next->pools[i];
	}
	for (uint32_t i = 0; i < next->pool_cnt; i++) {
		if (place[i] < 0)
			place[i] = vacant_place(&a, pools);
		if (place[i] < 0) {
			snprintf(err, err_len,
				 "%s:%d: found pool \"%s\" beyond the %u that the maps have room "
				 "for with those that are being removed; allowed: fewer, or a "
				 "restart",
				 next->file, next->pools[i].line, next->pools[i].name, service_max);
			return -1;
		}
		pools[place[i]] = next->pools[i];
		if (!place_backends(&a, &pools[place[i]], (uint32_t)place[i]))
			return -1;
		if ((uint32_t)place[i] >= cnt)
			cnt = (uint32_t)place[i] + 1;
	}
	for (uint32_t i = 0; i < next->route_cnt; i++) {
		if (next->routes[i].pool >= 0)
			next->routes[i].pool = place[next->routes[i].pool];
	}
	next->pools = pools;
	next->pool_cnt = cnt;
	next->descriptors = living[0]->descriptors;
	keep_limits(&next->limits, &living[0]->limits);
	return 0;
}
