/* SPDX-License-Identifier: Apache-2.0 */
#include "config/parse.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "base/check.h"
#include "base/clock.h"
#include "base/list.h"
#include "base/num.h"

enum { NAME_LEN = 64, MOST_PER_SECOND = 100000000 };
#define DAY_NS     (86400 * SL_NS_PER_SEC)
#define DEEPEST_NS (366 * DAY_NS) /* time to fill a bucket */

bool conf_parse_rate(struct sl_span text, struct sl_cfg_bucket *b)
{
	static const struct {
		const char *unit;
		uint64_t ns;
	} units[] = {
		{"s", SL_NS_PER_SEC},
		{"min", 60 * SL_NS_PER_SEC},
		{"h", 3600 * SL_NS_PER_SEC},
		{"d", DAY_NS},
	};
	const uint8_t *slash = text.len ? memchr(text.ptr, '/', text.len) : NULL;
	const size_t len = slash ? (size_t)(slash - text.ptr) : 0;
	uint64_t n;

	if (!slash || sl_parse_u64_max(sl_span_first(text, len), MOST_PER_SECOND, &n) != 0 || !n)
		return false;
	for (size_t i = 0; i < SL_ARRAY_LEN(units); i++) {
		if (!sl_span_eq(sl_span_skip(text, len + 1), sl_span_cstr(units[i].unit)))
			continue;
		b->tokens = n;
		b->window_ns = units[i].ns;
		return true;
	}
	return false;
}

static bool set_rate(struct conf_value *v)
{
	return conf_parse_rate(sl_span_cstr(v->text),
			       sl_container_of(conf_field(v), struct sl_cfg_bucket, tokens));
}

const struct conf_type conf_rate = {set_rate, NULL};

static size_t name_len(const char *text)
{
	size_t n = 0;

	while (isalnum((unsigned char)text[n]) || text[n] == '_' || text[n] == '-')
		n++;
	return n;
}

static bool set_usage_member(struct conf_value *v)
{
	size_t outer = name_len(v->text), inner;

	if (!outer || outer > NAME_LEN || v->text[outer] != '.')
		return false;
	inner = name_len(v->text + outer + 1);
	return inner && inner <= NAME_LEN && !v->text[outer + 1 + inner] && conf_store_text(v);
}

const struct conf_type conf_usage_member = {set_usage_member, NULL};

static bool set_route_quotas(struct conf_value *v)
{
	struct conf_route_ref *r = v->obj;
	const char *name = conf_arena_strndup(v->arena, v->text, strlen(v->text));

	r->quota_line = v->line;
	if (!name || !name[0] || r->route.quota_cnt == SL_CFG_ROUTE_QUOTAS)
		return false;
	r->quotas[r->route.quota_cnt++] = name;
	return true;
}

const struct conf_type conf_route_quotas = {set_route_quotas, NULL};

uint32_t conf_find_quota(const struct sl_config *c, const char *name)
{
	uint32_t i = 0;

	while (i < c->quota_cnt && strcmp(c->quotas[i].name, name) != 0)
		i++;
	return i;
}

void *conf_new_quota(struct conf_parse *p, const char *title, int line)
{
	struct sl_config *c = p->cfg;
	struct sl_cfg_quota *q;

	if (!c->quotas)
		c->quotas = conf_arena_alloc(p->arena, SL_CFG_MAX_QUOTAS * sizeof(*c->quotas));
	if (!c->quotas || c->quota_cnt == SL_CFG_MAX_QUOTAS)
		return NULL;
	q = &c->quotas[c->quota_cnt++];
	q->name = title;
	q->line = line;
	if (!conf_is_token(title, NAME_LEN))
		conf_fail(p, line, q,
			  "found quota \"%.64s\"; allowed: a name of up to 64 letters, digits and "
			  "- _ .",
			  title);
	return q;
}

bool conf_bucket_finish(struct sl_cfg_bucket *b)
{
	if (!b->burst)
		b->burst = (uint32_t)(b->tokens * SL_NS_PER_SEC / b->window_ns);
	if (!b->burst)
		b->burst = 1;
	b->token_ns = b->window_ns / b->tokens;
	b->depth_ns = b->burst > DEEPEST_NS / b->token_ns ? UINT64_MAX : b->burst * b->token_ns;
	return b->depth_ns <= DEEPEST_NS;
}

static void check_quota(struct conf_parse *p, struct sl_cfg_quota *q)
{
	if ((q->by == SL_QUOTA_BY_HEADER) != (q->header != NULL))
		conf_fail(p, q->line, q, "found quota \"%s\" with %s; allowed: both or none",
			  q->name,
			  q->header ? "header but not by = header" : "by = header but no header");
	if (!q->bucket.tokens && !q->max_requests && q->by != SL_QUOTA_BY_KEY)
		conf_fail(
			p, q->line, q,
			"found quota \"%s\" without a limit; allowed: rate, max_requests, or both",
			q->name);
	if (q->usage_header && !q->bucket.tokens && q->by != SL_QUOTA_BY_KEY)
		conf_fail(p, q->line, q,
			  "found quota \"%s\" with usage_header but no rate; allowed: both",
			  q->name);
	if (q->usage_member && !q->bucket.tokens && q->by != SL_QUOTA_BY_KEY)
		conf_fail(p, q->line, q,
			  "found quota \"%s\" with usage_member but no rate; allowed: both",
			  q->name);
	if (q->usage_member && q->usage_header)
		conf_fail(p, q->line, q,
			  "found quota \"%s\" with usage_header and usage_member; allowed: one",
			  q->name);
	if (q->bucket.tokens && !conf_bucket_finish(&q->bucket))
		conf_fail(p, q->line, q,
			  "found quota \"%s\" whose burst takes more than 366 days of its rate; "
			  "allowed: less",
			  q->name);
}

void conf_check_quotas(struct conf_parse *p)
{
	for (uint32_t i = 0; i < p->cfg->quota_cnt; i++) {
		if (!conf_diags_has(&p->mistakes, &p->cfg->quotas[i]))
			check_quota(p, &p->cfg->quotas[i]);
	}
}

/* A reply is parsed once, for one member. */
static void use_usage(struct conf_parse *p, struct conf_route_ref *r, const struct sl_cfg_quota *q)
{
	const char *was = r->route.usage_member;

	r->route.charges |= q->usage_header || q->usage_member;
	if (!q->usage_member)
		return;
	if (was && strcmp(was, q->usage_member) != 0)
		conf_fail(p, r->quota_line, r,
			  "found quotas with usage_member = \"%s\" and \"%s\" on one route; "
			  "allowed: the same",
			  was, q->usage_member);
	r->route.usage_member = q->usage_member;
}

void conf_use_quotas(struct conf_parse *p, struct conf_route_ref *r)
{
	const struct sl_config *c = p->cfg;
	uint64_t seen = 0;

	if (conf_diags_has(&p->mistakes, r))
		return;
	for (uint32_t i = 0; i < r->route.quota_cnt; i++) {
		const uint32_t at = conf_find_quota(c, r->quotas[i]);

		if (at == c->quota_cnt || seen & UINT64_C(1) << at) {
			conf_fail(p, r->quota_line, r, "found quotas = \"%.64s\"%s; allowed: %s",
				  r->quotas[i], at == c->quota_cnt ? "" : " twice",
				  at < c->quota_cnt ? "each once"
				  : c->quota_cnt    ? "names of quota blocks"
						    : "none, there is no quota block");
			continue;
		}
		if (c->quotas[at].by == SL_QUOTA_BY_KEY && !r->route.keys)
			conf_fail(p, r->quota_line, r,
				  "found quotas = \"%.64s\" with by = key on a route without "
				  "keys; allowed: keys = NAME on the same route",
				  r->quotas[i]);
		use_usage(p, r, &c->quotas[at]);
		seen |= UINT64_C(1) << at;
		r->route.quotas[i] = (uint8_t)at;
	}
}
