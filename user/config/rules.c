/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>
#include <strings.h>

#include "base/bytes.h"
#include "base/check.h"
#include "config/keys.h"

enum { RULES_MAX = 32, NAME_MAX_LEN = 64, VALUE_MAX = 1024 };

static bool is_reserved(const char *name)
{
	static const char *const names[] = {
		"connection", "keep-alive",   "proxy-connection",  "te",
		"trailer",    "upgrade",      "transfer-encoding", "content-length",
		"host",       "content-type", "forwarded",         "expect",
		"date",       "via",          "traceparent",
	};

	for (size_t i = 0; i < SL_ARRAY_LEN(names); i++) {
		if (strcasecmp(names[i], name) == 0)
			return true;
	}
	return strncasecmp(name, "x-forwarded-", 12) == 0 ||
	       strncasecmp(name, "sluice-client-", 14) == 0;
}

static bool add_rule(struct conf_value *v, struct sl_cfg_rule rule, const char *name)
{
	struct sl_cfg_rules *rules = conf_field(v);
	struct sl_cfg_rule *more = conf_arena_alloc(v->arena, (rules->cnt + 1) * sizeof(*more));
	char *lower = conf_arena_strndup(v->arena, name, strlen(name));

	if (!more || !lower || rules->cnt == RULES_MAX || is_reserved(name) ||
	    !conf_is_token(name, NAME_MAX_LEN))
		return false;
	for (char *c = lower; *c; c++)
		*c = (char)sl_ascii_lower((uint8_t)*c);
	for (uint32_t i = 0; i < rules->cnt; i++) {
		if (strcmp(rules->list[i].name, lower) == 0)
			return false;
	}
	if (rules->cnt)
		memcpy(more, rules->list, rules->cnt * sizeof(*more));
	rule.name = lower;
	more[rules->cnt++] = rule;
	rules->list = more;
	rules->varies |= rule.varies;
	return true;
}

static bool parse_replace(const struct conf_value *v, const char *value, struct sl_cfg_rule *rule)
{
	static const char begin[] = "{replace ";
	const char *from = value + sizeof(begin) - 1, *to;
	size_t from_len, to_len;

	if (strncmp(value, begin, sizeof(begin) - 1) != 0)
		return false;
	from_len = strcspn(from, " {}");
	to = from + from_len + 1;
	if (!from_len || from[from_len] != ' ')
		return false;
	to_len = strcspn(to, " {}");
	if (strcmp(to + to_len, "}") != 0)
		return false;
	rule->from = conf_arena_strndup(v->arena, from, from_len);
	rule->value = conf_arena_strndup(v->arena, to, to_len);
	return rule->from && rule->value;
}

static bool parse_places(const char *value, bool *varies)
{
	static const char *const places[] = {"{host}", "{path}", "{scheme}", "{client}"};

	for (const char *p = value; (p = strpbrk(p, "{}"));) {
		size_t n = 0;

		for (size_t i = 0; i < SL_ARRAY_LEN(places) && !n; i++)
			n = strncmp(p, places[i], strlen(places[i])) == 0 ? strlen(places[i]) : 0;
		if (!n)
			return false;
		*varies = true;
		p += n;
	}
	return true;
}

static bool set_rule(struct conf_value *v)
{
	size_t name_len = strcspn(v->text, ":"), len;
	char *name = conf_arena_strndup(v->arena, v->text, name_len);
	const char *value = v->text + name_len;
	struct sl_cfg_rule rule = {0};

	value += *value == ':';
	value += strspn(value, " \t");
	len = strlen(value);
	for (size_t i = 0; i < len; i++) {
		if (((uint8_t)value[i] < ' ' && value[i] != '\t') || value[i] == 0x7f)
			return false;
	}
	if (!name || v->text[name_len] != ':' || !len || len > VALUE_MAX ||
	    strchr(" \t", value[len - 1]))
		return false;
	if (!parse_replace(v, value, &rule)) {
		rule.value = conf_arena_strndup(v->arena, value, len);
		if (!rule.value || !parse_places(value, &rule.varies))
			return false;
	}
	return add_rule(v, rule, name);
}

const struct conf_type conf_set_header = {set_rule, NULL};

static bool drop_rule(struct conf_value *v)
{
	return add_rule(v, (struct sl_cfg_rule){0}, v->text);
}

const struct conf_type conf_drop_header = {drop_rule, NULL};
