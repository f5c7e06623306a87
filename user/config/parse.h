/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The state of one run of the parser, shared with the checks that follow it.
 */
#ifndef SL_CONFIG_PARSE_H
#define SL_CONFIG_PARSE_H

#include "config/keys.h"
#include "config/diagnostics.h"

struct conf_parse {
	struct sl_config *cfg;
	struct conf_arena *arena;
	struct conf_diags mistakes;
	bool stopped; /* scan or libconfuse did: what comes behind is not known */
	bool offline; /* nothing of this host is looked at */
	/*
	 * The innermost block of each kind that has begun; obj is NULL where it is not looked at.
	 */
	void *obj[CONF_BLOCK_CNT];
	const char *title[CONF_BLOCK_CNT];
	int line[CONF_BLOCK_CNT];
	uint8_t key_seen[CONF_MAX_KEYS];
	struct conf_route_ref *routes;
	uint32_t setting_cap;
};

/* diagnostics.c: keeps a mistake; `of` is the object whose block it is in, or NULL. */
void conf_fail(struct conf_parse *p, int line, const void *of, const char *fmt, ...)
	__attribute__((format(printf, 4, 5)));

/* diagnostics.c: names a line in a mistake of another line: "line 7", or "FILE:7" of another file. */
enum { CONF_LINE_NAME = 300 };
const char *conf_line_name(const struct conf_parse *p, int line, int from,
			   char buf[CONF_LINE_NAME]);

/* Returns the `of` of mistakes in the current block of kind b: its object, or &line[b]. */
const void *conf_owner(const struct conf_parse *p, enum conf_block b);

/* parse.c: fills cfg and routes from the text, up to a syntax error. */
void conf_parse_text(struct conf_parse *p, const char *text);
/*
 * parse.c: shrinks arrays to their used length. Streams keep older configurations in memory, so
 * their size matters.
 */
void conf_parse_settle(struct conf_parse *p);
/* check.c: checks that involve several keys; resolves the pools of routes and sorts the routes. */
void conf_check(struct conf_parse *p);
/* system.c: checks interfaces, CPUs, accounts and files of this host. Objects may be incomplete. */
void conf_check_system(const struct sl_config *c, struct conf_diags *m);

#endif
