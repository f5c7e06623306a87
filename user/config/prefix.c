/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>

#include "base/num.h"
#include "config/keys.h"

bool sl_config_parse_prefix(const char *text, struct sl_addr_prefix *p)
{
	const char *slash = strchrnul(text, '/');
	char addr[SL_ADDR_TEXT];
	struct sl_addr a;
	uint64_t len;

	if ((size_t)(slash - text) >= sizeof(addr))
		return false;
	snprintf(addr, sizeof(addr), "%.*s", (int)(slash - text), text);
	if (!sl_addr_parse(&a, addr))
		return false;
	memcpy(p->addr, a.addr, sizeof(p->addr));
	p->family = a.family;
	len = p->family == 4 ? 32 : 128;
	if (*slash && sl_parse_u64_max(sl_span_cstr(slash + 1), len, &len))
		return false;
	p->len = (uint8_t)len;
	/* Refuse bits after the first len: 10.0.0.1/8 could mean 10.0.0.1 or 10.0.0.0/8. */
	for (unsigned bit = p->len; bit < 128; bit++) {
		if (p->addr[bit / 8] & 0x80 >> bit % 8)
			return false;
	}
	return true;
}

static bool add_prefix(struct conf_value *v, struct sl_cfg_prefixes *to, bool deny)
{
	struct sl_cfg_prefix p = {.deny = deny, .line = v->line}, *more;

	if (!sl_config_parse_prefix(v->text, &p.of) || to->cnt == SL_CFG_MAX_PREFIXES)
		return false;
	if ((to->cnt & (to->cnt - 1)) == 0) {
		more = conf_arena_alloc(v->arena, (2 * to->cnt + 1) * sizeof(*more));
		if (!more)
			return false;
		if (to->cnt)
			memcpy(more, to->list, to->cnt * sizeof(*more));
		to->list = more;
	}
	to->list[to->cnt++] = p;
	return true;
}

static bool set_allow(struct conf_value *v)
{
	struct sl_cfg_interface *i = v->obj;

	i->allow_cnt++;
	return add_prefix(v, &i->prefixes, false);
}

const struct conf_type conf_allow = {set_allow, NULL};

static bool set_deny(struct conf_value *v)
{
	return add_prefix(v, &((struct sl_cfg_interface *)v->obj)->prefixes, true);
}

const struct conf_type conf_deny = {set_deny, NULL};

static bool set_proxies(struct conf_value *v)
{
	return add_prefix(v, &((struct sl_cfg_listener *)v->obj)->proxies, false);
}

const struct conf_type conf_proxies = {set_proxies, NULL};

static bool set_except(struct conf_value *v)
{
	return add_prefix(v, &((struct sl_config *)v->obj)->penalty.except, false);
}

const struct conf_type conf_except = {set_except, NULL};

bool sl_config_covers(const struct sl_cfg_prefixes *p, const struct sl_addr *a)
{
	for (uint32_t i = 0; i < p->cnt; i++) {
		const struct sl_addr_prefix *one = &p->list[i].of;
		unsigned whole = one->len / 8, rest = one->len % 8;

		if (one->family == a->family && !memcmp(one->addr, a->addr, whole) &&
		    (!rest || !((one->addr[whole] ^ a->addr[whole]) >> (8 - rest))))
			return true;
	}
	return false;
}
