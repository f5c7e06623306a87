/* SPDX-License-Identifier: Apache-2.0 */
#include "config/config.h"

#include <stdio.h>
#include <string.h>

static bool has_setting(const struct sl_config *c, const char *setting)
{
	for (uint32_t i = 0; i < c->setting_cnt; i++) {
		if (strcmp(c->settings[i].text, setting) == 0)
			return true;
	}
	return false;
}

static const char *setting_key(const char *setting, char *buf, size_t len)
{
	const char *end = strstr(setting, " = ");

	snprintf(buf, len, "%.*s", (int)(end ? end - setting : 0), setting);
	return buf;
}

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

void sl_config_keep(struct sl_config *into, const struct sl_config *from)
{
	struct sl_cfg_limits *next = &into->limits;
	const struct sl_cfg_limits *now = &from->limits;

	into->descriptors = from->descriptors;
	next->max_connections = now->max_connections;
	next->max_half_open = now->max_half_open;
	next->max_exchanges = now->max_exchanges;
	next->frame_memory = now->frame_memory;
	next->reorder_memory = now->reorder_memory;
	next->max_head = now->max_head;
	next->keepalive_ns = now->keepalive_ns;
	next->rst_closed_ports = now->rst_closed_ports;
	next->port_first = now->port_first;
	next->port_last = now->port_last;
	if (next->max_target > next->max_head)
		next->max_target = next->max_head;
	if (next->max_body > next->frame_memory / 2)
		next->max_body = next->frame_memory / 2;
}
