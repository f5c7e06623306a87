/* SPDX-License-Identifier: Apache-2.0 */
#include "control/acl_api.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"

static const struct {
	const char *name;
	uint8_t action; /* 0: remove the rule */
} verbs[] = {
	{"allow", SL_PREFIX_ALLOW},
	{"deny", SL_PREFIX_DENY},
	{"remove", 0},
	{"forget", 0}, /* former name, for scripts */
};

int sl_acl_take_arg(struct sl_acl_change *c, const char *key, const char *value, struct sl_err *err)
{
	struct sl_addr_prefix p;

	if (strcmp(key, "interface") == 0) {
		c->interface = value;
		return 0;
	}
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
	return sl_fail(err, -EINVAL, "found \"%.64s\"; allowed: interface, allow, deny, remove",
		       key);
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
	return list ? json_pack("{s:s, s:o}", "interface", interface, "prefixes", list) : NULL;
}
