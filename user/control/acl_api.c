/* SPDX-License-Identifier: Apache-2.0 */
#include "control/acl_api.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/clock.h"
#include "core/top_refused.h"

static const struct {
	const char *name;
	uint8_t action;
} verbs[] = {
	{"allow", SL_PREFIX_ALLOW},
	{"deny", SL_PREFIX_DENY},
	{"remove", 0},
	{"forget", 0},
};

static int take_unban(struct sl_acl_change *c, const char *value, struct sl_err *err)
{
	struct sl_addr_prefix p;

	if (!sl_config_parse_prefix(value, &p) || p.len < (p.family == 4 ? 32 : 64))
		return sl_fail(err, -EINVAL,
			       "found unban = \"%.64s\"; allowed: an address, or an IPv6 /64",
			       value);
	if (c->unban_cnt == SL_ACL_CHANGES)
		return sl_fail(err, -EINVAL, "found more than %d addresses; allowed: that many",
			       SL_ACL_CHANGES);
	c->unban[c->unban_cnt++] = sl_addr_of(p.family, p.addr, 0);
	return 0;
}

int sl_acl_take_arg(struct sl_acl_change *c, const char *key, const char *value, struct sl_err *err)
{
	struct sl_addr_prefix p;

	if (strcmp(key, "interface") == 0) {
		c->interface = value;
		return 0;
	}
	if (strcmp(key, "unban") == 0)
		return take_unban(c, value, err);
	for (size_t i = 0; i < SL_ARRAY_LEN(verbs); i++) {
		if (strcmp(verbs[i].name, key) != 0)
			continue;
		if (!sl_config_parse_prefix(value, &p))
			return sl_fail(
				err, -EINVAL,
				"found %s = \"%.64s\"; allowed: a prefix like 192.0.2.0/24 or "
				"fd00::/8",
				key, value);
		if (c->cnt == SL_ACL_CHANGES)
			return sl_fail(err, -EINVAL,
				       "found more than %d prefixes; allowed: that many",
				       SL_ACL_CHANGES);
		c->rules[c->cnt++] = (struct sl_acl_rule){
			.prefix = p, .action = verbs[i].action, .origin = SL_PREFIX_OF_OPERATOR};
		return 0;
	}
	return sl_fail(err, -EINVAL,
		       "found \"%.64s\"; allowed: interface, allow, deny, remove, unban", key);
}

static json_t *offenders_json(struct sl_gateway *g, const char *interface)
{
	struct sl_xdp_offender *list = calloc(SL_MAX_OFFENDERS, sizeof(*list));
	uint32_t cnt = list ? sl_gateway_offenders(g, interface, list, SL_MAX_OFFENDERS) : 0;
	const uint64_t now = sl_now_ns();
	json_t *out = json_array();

	for (uint32_t i = 0; i < cnt; i++) {
		const struct sl_addr source = sl_offender_addr(&list[i].key);
		const uint64_t left = list[i].until_ns > now ? list[i].until_ns - now : 0;
		char text[SL_QUOTA_TEXT];

		json_array_append_new(out, json_pack("{s:s, s:I}", "source",
						     sl_top_refused_text(&source, text), "left_ms",
						     (json_int_t)(left / SL_NS_PER_MS)));
	}
	free(list);
	return out;
}

json_t *sl_acl_json(struct sl_gateway *g, const char *interface)
{
	const uint32_t max = 2 * SL_MAX_PREFIXES;
	struct sl_acl_rule *rules = calloc(max, sizeof(*rules));
	int cnt = rules ? sl_gateway_acl_list(g, interface, rules, max) : -ENOMEM;
	json_t *list = cnt < 0 ? NULL : json_array();

	for (int i = 0; i < cnt && i < (int)max; i++) {
		const struct sl_acl_rule *r = &rules[i];
		const struct sl_addr from = sl_addr_of(r->prefix.family, r->prefix.addr, 0);
		char text[SL_ADDR_TEXT], prefix[SL_ADDR_TEXT + 8];

		snprintf(prefix, sizeof(prefix), "%s/%u", sl_addr_text(&from, text), r->prefix.len);
		json_array_append_new(
			list, json_pack("{s:s, s:s, s:s}", "prefix", prefix, "action",
					r->action == SL_PREFIX_DENY ? "deny" : "allow", "by",
					r->origin == SL_PREFIX_OF_OPERATOR ? "operator" : "file"));
	}
	free(rules);
	return list ? json_pack("{s:s, s:o, s:o}", "interface", interface, "prefixes", list,
				"offenders", offenders_json(g, interface))
		    : NULL;
}
