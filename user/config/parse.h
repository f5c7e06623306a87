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
	bool stopped; /* scan or libconfuse did: what comes behind is not known */
	bool offline;
	/* The innermost block of each kind; NULL: skipped. */
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

/* objects.c: begins the object of a block. Returns NULL without memory, or if there are too many. */
void *conf_new_object(struct conf_parse *p, enum conf_block b, const char *title, int line);
/* parse.c: gives unset keys of block b their defaults: those that are lists, or the others. */
void conf_set_defaults(struct conf_parse *p, enum conf_block b, bool lists);
/* parse.c: forgets which keys of kind b were set: another block begins. */
void conf_forget_keys(struct conf_parse *p, enum conf_block b);
/* parse.c: keeps "path = value" for the comparison of a reload. */
void conf_record_setting(struct conf_parse *p, const char *text, bool restart);

/* quotas.c: begins a quota; NULL: one too many. */
void *conf_new_quota(struct conf_parse *p, const char *title, int line);
/* quotas.c: returns the index of a quota, or quota_cnt. */
uint32_t conf_find_quota(const struct sl_config *c, const char *name);
/* cors.c: begins the block of the route, and checks it. */
void *conf_new_cors(struct conf_parse *p, int line);
void conf_check_cors(struct conf_parse *p, struct conf_route_ref *r);
/* keys_block.c: the same for API keys. */
void *conf_new_keys(struct conf_parse *p, const char *title, int line);
uint32_t conf_find_keys(const struct sl_config *c, const char *name);
void conf_check_keys(struct conf_parse *p);
void conf_use_keys(struct conf_parse *p, struct conf_route_ref *r);
/* health.c: checks a pool's health checks, and gives them to its servers. */
void conf_check_health(struct conf_parse *p, struct sl_cfg_pool *pool);

/* quotas.c: checks each quota, and resolves the names in a route. */
void conf_check_quotas(struct conf_parse *p);
void conf_use_quotas(struct conf_parse *p, struct conf_route_ref *r);

/* parse.c: fills cfg and routes from the text, up to a syntax error. */
void conf_parse_text(struct conf_parse *p, const char *text);
/* parse.c: shrinks arrays, because streams keep older configurations in memory. */
void conf_parse_settle(struct conf_parse *p);
/* route_pools.c: begins a match block of the current route. Returns NULL without room. */
void *conf_new_match(struct conf_parse *p, const char *title, int line);
/* route_pools.c: begins an affinity, split or mirror block. Returns the route. */
void *conf_begin_route_part(struct conf_parse *p, enum conf_block b, int line);
bool conf_match_is_taken(const struct conf_parse *p, const char *title);
/* route_pools.c: resolves the pools of a route besides its own, and checks that they are alike. */
void conf_check_route_pools(struct conf_parse *p, struct conf_route_ref *r);
/* check.c: returns the index of a pool; cfg->pool_cnt, after a mistake, if none has the name. */
uint32_t conf_find_pool(struct conf_parse *p, const struct conf_route_ref *r, int line,
			const char *name);
/* check.c: returns true if all backends are unmodified servers (of HTTP/1.1). */
bool conf_all_servers(const struct sl_cfg_pool *pool, bool http1);
/* check.c: returns true if any backend is an unmodified server. */
bool conf_has_server(const struct sl_cfg_pool *pool);
/* check.c: checks several keys together; resolves pools and sorts routes. */
void conf_check(struct conf_parse *p);
/* system.c: checks interfaces, CPUs, accounts and files of this host. Objects may be incomplete. */
void conf_check_system(const struct sl_config *c, struct conf_diags *m);

#endif
