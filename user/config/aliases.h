/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Former names of keys, valid for one release with a warning. `sluice check --fix` replaces them
 * (fix.h).
 */
#ifndef SL_CONFIG_ALIASES_H
#define SL_CONFIG_ALIASES_H

#include "config/keys.h"

struct conf_alias {
	enum conf_block block;
	const char *name;
	enum conf_block new_block;
	const char *new_name; /* NULL: the key has no effect any more, `value` returns "" */
	/*
	 * Returns today's value, "" if nothing must be set, NULL if `text` is not allowed. NULL:
	 * values are unchanged.
	 */
	const char *(*value)(const char *text);
	const char *allowed; /* if there is a function */
};

/* Returns NULL if the name is no former one. */
const struct conf_alias *conf_alias_find(enum conf_block block, const char *name);
/* Returns NULL behind the last alias. */
const struct conf_alias *conf_alias_at(size_t i);

struct conf_parse;
/*
 * Adds a warning. Returns today's value, or NULL if nothing must be set, with a mistake if the
 * value is not allowed.
 */
const char *conf_alias_take(struct conf_parse *p, const struct conf_alias *a, const char *text,
			    int line);

/* Writes a path such as "pool.batch.max_latency" to buf; returns buf. */
const char *conf_key_path(enum conf_block block, const char *name, char *buf, size_t len);

#endif
