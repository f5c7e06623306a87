/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Former names of keys, valid for one release with a warning. `sluice check --fix` replaces them
 * (fix.h).
 */
#ifndef SL_CONFIG_ALIASES_H
#define SL_CONFIG_ALIASES_H

#include "config/keys.h"

struct conf_alias {
	enum conf_block block; /* block and name in older files */
	const char *name;
	enum conf_block new_block;
	const char *new_name;
	/*
	 * Returns the value in today's words, "" if the key says nothing new, or NULL if `text` is
	 * not allowed. NULL: values are unchanged.
	 */
	const char *(*value)(const char *text);
	const char *allowed; /* if there is a function */
};

/* Returns the alias of that name in a block, or NULL. */
const struct conf_alias *conf_alias_find(enum conf_block block, const char *name);
/* Returns alias number i, or NULL behind the last one. */
const struct conf_alias *conf_alias_at(size_t i);

struct conf_parse;
/*
 * Keeps a warning. Returns the value in today's words, or NULL if there is nothing to set, with a
 * mistake if the value is not allowed.
 */
const char *conf_alias_take(struct conf_parse *p, const struct conf_alias *a, const char *text,
			    int line);

/* Writes a key with its block, such as "pool.batch.max_latency"; returns buf. */
const char *conf_key_path(enum conf_block block, const char *name, char *buf, size_t len);

#endif
