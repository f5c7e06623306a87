/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gateway/internal.h"

enum { DEFAULTS = 2 };

struct sl_xdp *sl_gateway_find_xdp(struct sl_gateway *g, const char *name)
{
	for (uint32_t i = 0; i < g->xdp_cnt; i++) {
		if (strcmp(g->xdp[i].ifname, name) == 0)
			return &g->xdp[i];
	}
	return NULL;
}

static int apply_to(const struct sl_xdp *x, const struct sl_cfg_interface *ci)
{
	static const uint8_t families[DEFAULTS] = {4, 6};
	struct sl_acl_rule *rules = calloc(ci->prefixes.cnt + DEFAULTS, sizeof(*rules));
	uint32_t cnt = 0;
	int rc;

	if (!rules)
		return -ENOMEM;
	for (; cnt < ci->prefixes.cnt; cnt++) {
		const struct sl_cfg_prefix *p = &ci->prefixes.list[cnt];

		rules[cnt] = (struct sl_acl_rule){
			.prefix = p->of,
			.action = p->deny ? SL_PREFIX_DENY : SL_PREFIX_ALLOW,
			.origin = SL_PREFIX_OF_FILE,
		};
	}
	/* "allow" denies all other clients, unless the file has a rule for 0.0.0.0/0 or ::/0. */
	for (int i = 0; i < DEFAULTS && ci->allow_cnt; i++) {
		bool listed = false;

		for (uint32_t k = 0; k < ci->prefixes.cnt; k++)
			listed |= ci->prefixes.list[k].of.family == families[i] &&
				  !ci->prefixes.list[k].of.len;
		if (!listed)
			rules[cnt++] = (struct sl_acl_rule){.prefix.family = families[i],
							    .action = SL_PREFIX_DENY,
							    .origin = SL_PREFIX_OF_FILE};
	}
	sl_warn_of_hidden_tags(ci, x);
	rc = sl_xdp_acl_vlan(x, ci->vlan);
	if (!rc)
		rc = sl_xdp_acl_apply(x, rules, cnt);
	free(rules);
	return rc;
}

int sl_acl_apply(struct sl_gateway *g, const struct sl_config *cfg)
{
	int rc = 0;

	for (uint32_t i = 0; i < cfg->interface_cnt && !rc; i++) {
		const struct sl_cfg_interface *ci = &cfg->interfaces[i];
		const struct sl_xdp *x = sl_gateway_find_xdp(g, ci->name);

		if (x)
			rc = apply_to(x, ci);
	}
	return rc;
}

int sl_gateway_acl_change(struct sl_gateway *g, const char *ifname, const struct sl_acl_rule *rules,
			  uint32_t cnt, struct sl_err *err)
{
	struct sl_xdp *x = sl_gateway_find_xdp(g, ifname);
	int rc = 0;

	if (!x)
		return sl_fail(
			err, -ENODEV,
			"found interface \"%.64s\"; allowed: those that `sluice status` lists",
			ifname);
	for (uint32_t i = 0; i < cnt && !rc; i++) {
		if (rules[i].action) {
			rc = sl_xdp_acl_set(x, &rules[i]);
			continue;
		}
		rc = sl_xdp_acl_remove(x, &rules[i]);
		if (rc == -ENOENT)
			rc = 0;
	}
	if (rc)
		sl_err_set(err, "interface %s: %s", ifname,
			   rc == -ENOSPC ? "as many prefixes as there is room for" : strerror(-rc));
	return rc;
}

int sl_gateway_acl_list(struct sl_gateway *g, const char *ifname, struct sl_acl_rule *rules,
			uint32_t max)
{
	const struct sl_xdp *x = sl_gateway_find_xdp(g, ifname);

	return x ? sl_xdp_acl_list(x, rules, max) : -ENODEV;
}
