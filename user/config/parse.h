/* SPDX-License-Identifier: Apache-2.0 */
/* State of one run of the parser and the checks that follow. */
#ifndef SL_CONFIG_PARSE_H
#define SL_CONFIG_PARSE_H

#include "config/keys.h"
#include "config/diagnostics.h"

struct conf_parse {
	struct sl_config *cfg;
	struct conf_arena *arena;
	struct conf_diags mistakes;
	bool stopped; /* scan or libconfuse stopped: the rest is unknown */
	bool offline;
	enum conf_block outer; /* the current block of the root */
	/* The innermost block of each kind; NULL: skipped. */
	void *obj[CONF_BLOCK_CNT];
	const char *title[CONF_BLOCK_CNT];
	int line[CONF_BLOCK_CNT];
	uint8_t key_seen[CONF_MAX_KEYS];
	struct conf_route_ref *routes;
	uint32_t setting_cap;
};

/* Adds a mistake; `of`: the object of its block, or NULL. */
void conf_fail(struct conf_parse *p, int line, const void *of, const char *fmt, ...)
	__attribute__((format(printf, 4, 5)));

/* Names another line: "line 7", or "FILE:7" of another file. */
enum { CONF_LINE_NAME = 300 };
const char *conf_line_name(const struct conf_parse *p, int line, int from,
			   char buf[CONF_LINE_NAME]);

/* Returns the `of` of mistakes in the current block of kind b: its object, or &line[b]. */
const void *conf_owner(const struct conf_parse *p, enum conf_block b);

/* Begins a block's object. NULL: no memory, or at the limit. */
void *conf_new_object(struct conf_parse *p, enum conf_block b, const char *title, int line);
/* Sets defaults of unset keys of block b: lists, or all others. */
void conf_set_defaults(struct conf_parse *p, enum conf_block b, bool lists);
/* Clears key_seen of b for another block. */
void conf_forget_keys(struct conf_parse *p, enum conf_block b);
/* Keeps "path = value" for sl_config_diff(). */
void conf_record_setting(struct conf_parse *p, const char *text, bool restart);

/* Like conf_new_object(). */
void *conf_new_quota(struct conf_parse *p, const char *title, int line);
/* Returns an index, or quota_cnt if there is none. */
uint32_t conf_find_quota(const struct sl_config *c, const char *name);
/* Begins the route's cors. Returns the route. */
void *conf_new_cors(struct conf_parse *p, int line);
/* Adds mistakes of the block. */
void conf_check_cors(struct conf_parse *p, struct conf_route_ref *r);
/* Like conf_new_object(). */
void *conf_new_keys(struct conf_parse *p, const char *title, int line);
/* Returns an index, or key_cnt if there is none. */
uint32_t conf_find_keys(const struct sl_config *c, const char *name);
/* Check blocks, or resolve the name in a route. */
void conf_check_keys(struct conf_parse *p);
void conf_use_keys(struct conf_parse *p, struct conf_route_ref *r);
/* Checks servers that workers connect to. */
void conf_check_via(struct conf_parse *p);
/* Checks the block, and sets server_hash of servers. */
void conf_check_health(struct conf_parse *p, struct sl_cfg_pool *pool);

/* Checks blocks, and adds to server_hash of servers. Must follow conf_check_health(). */
void conf_check_server_tls(struct conf_parse *p);

/* Check blocks, and resolve and check the names in a route. */
void conf_check_quotas(struct conf_parse *p);
void conf_use_quotas(struct conf_parse *p, struct conf_route_ref *r);

/* Fills cfg and routes from the text, up to a syntax error. */
void conf_parse_text(struct conf_parse *p, const char *text);
/* Shrinks arrays: streams keep older configurations. */
void conf_parse_settle(struct conf_parse *p);
/* Returns NULL without room. */
void *conf_new_match(struct conf_parse *p, const char *title, int line);
/* Begins affinity, split or mirror. Returns the route. */
void *conf_begin_route_part(struct conf_parse *p, enum conf_block b, int line);
/* Returns true if the route has a match with that title. */
bool conf_match_is_taken(const struct conf_parse *p, const char *title);
/* Resolves a route's other pools, which must be alike. */
void conf_check_route_pools(struct conf_parse *p, struct conf_route_ref *r);
/* Returns an index; after a mistake pool_cnt. */
uint32_t conf_find_pool(struct conf_parse *p, const struct conf_route_ref *r, int line,
			const char *name);
/* Returns true if all backends are unmodified servers; http1: of HTTP/1.1. */
bool conf_all_servers(const struct sl_cfg_pool *pool, bool http1);
/* Returns true if a backend is an unmodified server. */
bool conf_has_server(const struct sl_cfg_pool *pool);
/* Checks keys together, resolves pools, sorts routes. */
void conf_check(struct conf_parse *p);
/* Checks interfaces, CPUs, accounts and files. Objects may be incomplete. */
void conf_check_system(const struct sl_config *c, struct conf_diags *m);

#endif
