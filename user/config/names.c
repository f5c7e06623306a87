/* SPDX-License-Identifier: Apache-2.0 */
#include "config/names.h"

#include <stdio.h>
#include <string.h>

enum { NAME_MAX_LEN = 32, FAR = NAME_MAX_LEN };

static unsigned min_of(unsigned a, unsigned b)
{
	return a < b ? a : b;
}

static unsigned edit_distance(const char *a, const char *b)
{
	unsigned d[NAME_MAX_LEN + 1][NAME_MAX_LEN + 1];
	const size_t m = strlen(a), n = strlen(b);

	if (m > NAME_MAX_LEN || n > NAME_MAX_LEN)
		return FAR;
	for (size_t i = 0; i <= m; i++)
		d[i][0] = (unsigned)i;
	for (size_t k = 0; k <= n; k++)
		d[0][k] = (unsigned)k;
	for (size_t i = 1; i <= m; i++) {
		for (size_t k = 1; k <= n; k++) {
			unsigned cost = a[i - 1] != b[k - 1];

			d[i][k] = min_of(min_of(d[i - 1][k], d[i][k - 1]) + 1,
					 d[i - 1][k - 1] + cost);
			if (i > 1 && k > 1 && a[i - 1] == b[k - 2] && a[i - 2] == b[k - 1])
				d[i][k] = min_of(d[i][k], d[i - 2][k - 2] + 1);
		}
	}
	return d[m][n];
}

static void look_at(const char *name, const char *known, unsigned *best, const char **nearest)
{
	unsigned d = edit_distance(name, known);

	if (d < *best) {
		*best = d;
		*nearest = known;
	}
}

static enum conf_block home_of(const char *name)
{
	for (int b = CONF_ROOT; b < CONF_BLOCK_CNT; b++) {
		if (conf_key_find((enum conf_block)b, name) >= 0 ||
		    conf_block_child((enum conf_block)b, name) != CONF_ROOT)
			return (enum conf_block)b;
	}
	return CONF_BLOCK_CNT;
}

void conf_names_hint(enum conf_block b, const char *name, char *buf, size_t len)
{
	unsigned best = (unsigned)strlen(name) / 3 + 1;
	const char *nearest = NULL;
	enum conf_block home = home_of(name);

	buf[0] = 0;
	if (home != CONF_BLOCK_CNT) {
		snprintf(buf, len, " (it belongs %s%s)",
			 home == CONF_ROOT ? "outside of all blocks" : "into ",
			 conf_block_name(home));
		return;
	}
	for (size_t i = 0; i < conf_key_cnt; i++) {
		if (conf_keys[i].block == b)
			look_at(name, conf_keys[i].name, &best, &nearest);
	}
	for (int k = CONF_ROOT + 1; k < CONF_BLOCK_CNT; k++) {
		if (conf_block_parent((enum conf_block)k) == b)
			look_at(name, conf_block_bare((enum conf_block)k), &best, &nearest);
	}
	if (nearest)
		snprintf(buf, len, " (did you mean %s?)", nearest);
}
