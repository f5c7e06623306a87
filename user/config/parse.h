/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The state of one run of the parser, shared with the checks that follow it.
 */
#ifndef SL_CONFIG_PARSE_H
#define SL_CONFIG_PARSE_H

#include "config/keys.h"

enum { CONF_MAX_KEYS = 128 };

struct conf_parse {
	struct sl_config *cfg;
	struct conf_arena *arena;
	char *err;
	size_t err_len;
	bool failed; /* err holds the first error; nothing that follows counts */
	/* The innermost block of each kind that has begun. */
	void *obj[CONF_BLOCK_CNT];
	const char *title[CONF_BLOCK_CNT];
	int line[CONF_BLOCK_CNT];
	uint8_t key_seen[CONF_MAX_KEYS];
	struct conf_route_ref *routes;
	uint32_t setting_cap;
};

/* Keeps the first error: "FILE:LINE: " and the text, as one line. */
void conf_fail(struct conf_parse *p, int line, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

/* What no key can see by itself; fills pools of routes and sorts them. False: conf_fail was called.
 */
bool conf_check(struct conf_parse *p);

#endif
