/* SPDX-License-Identifier: Apache-2.0 */
/* The table of keys: block, name, type, range, default and help of each. */
#ifndef SL_CONFIG_KEYS_H
#define SL_CONFIG_KEYS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/bytes.h"
#include "config/arena.h"
#include "config/config.h"

enum conf_block {
	CONF_ROOT,
	CONF_INTERFACE,
	CONF_WORKERS,
	CONF_LISTENER,
	CONF_TLS,
	CONF_POOL,
	CONF_BACKEND,
	CONF_BATCH,
	CONF_HEALTH,
	CONF_SERVER_TLS,
	CONF_ROUTE,
	CONF_RESPOND,
	CONF_MATCH,
	CONF_AFFINITY,
	CONF_CORS,
	CONF_SPLIT,
	CONF_MIRROR,
	CONF_LIMITS,
	CONF_TCP,
	CONF_MEMORY,
	CONF_ADMIN,
	CONF_ACCESS_LOG,
	CONF_AGENTS,
	CONF_TRACE,
	CONF_PENALTY,
	CONF_QUOTA,
	CONF_KEYS,
	CONF_BLOCK_CNT,
};

struct conf_key;

/* Target of a value while the file is read. */
struct conf_value {
	struct conf_arena *arena;
	void *obj;
	const struct conf_key *key;
	const char *text;
	int line;
	bool offline; /* no look at this host */
};

struct conf_type {
	/* Returns false if text is not allowed. */
	bool (*set)(struct conf_value *v);
	/* Writes the allowed values, as "a whole number from 1 to 65535". */
	void (*allowed)(const struct conf_key *k, char *buf, size_t len);
};

struct conf_name {
	const char *name;
	int value;
};

struct conf_key {
	uint8_t block; /* enum conf_block */
	bool list, required;
	uint8_t size;
	size_t offset;
	const char *name;
	const struct conf_type *type;
	uint64_t min, max;
	const char *fallback;
	const struct conf_name *names;
	const char *what; /* allowed values; NULL: the type's text */
	const char *help;
	bool restart;
};

extern const struct conf_name conf_attach_modes[], conf_fair_keys[], conf_policies[],
	conf_route_policies[], conf_bound_modes[], conf_priorities[], conf_idempotence[],
	conf_strips[], conf_underscores[], conf_streams[], conf_continuers[], conf_path_policies[],
	conf_log_formats[], conf_forwarded_ways[], conf_half_closes[], conf_client_certs[],
	conf_roles[], conf_match_beyond[], conf_quota_bys[], conf_ejects[], conf_vias[],
	conf_affinity_bys[];
enum {
	CONF_MAX_KEYS = 256,
	CONF_ALLOWED_LEN = 400,
};
extern const struct conf_key conf_keys[];
extern const size_t conf_key_cnt;

/* Returns an index of conf_keys, or -1. */
int conf_key_find(enum conf_block block, const char *name);
/* Returns the name with its parent: "listener", "pool.batch". */
const char *conf_block_name(enum conf_block block);
/* The same without the parent. */
const char *conf_block_bare(enum conf_block block);
/* Returns the outer block. */
enum conf_block conf_block_parent(enum conf_block block);
/* Returns CONF_ROOT if b has no such block. */
enum conf_block conf_block_child(enum conf_block b, const char *name);
/* Writes the allowed values. */
void conf_key_allowed(const struct conf_key *k, char *buf, size_t len);

/* Returns the member that the key sets. */
static inline void *conf_field(const struct conf_value *v)
{
	return (char *)v->obj + v->key->offset;
}

/* Returns true for a valid number. */
static inline bool conf_in_range(const struct conf_key *k, uint64_t n)
{
	return n >= k->min && n <= k->max;
}

/* Copies the value's text into its field. Returns false without memory. */
bool conf_store_text(const struct conf_value *v);

extern const struct conf_type conf_string, conf_account, conf_bool, conf_uint, conf_port, conf_pow2,
	conf_duration, conf_duration_or_auto, conf_size, conf_share, conf_share_or_count, conf_enum,
	conf_address, conf_endpoint, conf_header, conf_absolute, conf_log_level, conf_queues,
	conf_cpus, conf_protocols, conf_methods, conf_headers, conf_upgrades, conf_hosts,
	conf_redirect, conf_proxies, conf_files, conf_reference, conf_body, conf_numeric,
	conf_socket, conf_admin_hosts, conf_vlan, conf_allow, conf_deny, conf_uid, conf_log_file,
	conf_backend_endpoint, conf_authority, conf_uint_or_auto, conf_agent_cpus, conf_file,
	conf_certificates, conf_log_fields, conf_set_header, conf_drop_header, conf_private_keys,
	conf_route_listeners, conf_header_field, conf_nowhere, conf_unix_path, conf_file_mode,
	conf_rate, conf_route_quotas, conf_depths, conf_route_keys, conf_origins, conf_cors_methods,
	conf_cors_headers, conf_percent, conf_split_header, conf_port_range, conf_otlp,
	conf_usage_member, conf_hedge, conf_except, conf_server_name;

/*
 * Splits the header field "name: value" into copies. Returns false if malformed, or without memory.
 */
bool conf_parse_field(struct conf_value *v, const char **name, const char **value);
/* Parses "10.0.0.1", "fd00::1" or "*" (zeros). Returns false if malformed. */
bool conf_parse_address(const char *text, struct sl_addr *a);
/* Parses "100/s" to the rate of *b. Returns false if malformed. */
bool conf_parse_rate(struct sl_span text, struct sl_cfg_bucket *b);
/* Sets a bucket's burst and times by its rate. Returns false if filling takes too long. */
bool conf_bucket_finish(struct sl_cfg_bucket *b);
/* Returns true for a token of RFC 9110 5.6.2 of 1 to max bytes. */
bool conf_is_token(const char *text, size_t max);

/* Routes, with names of objects that may come later in the file. */
struct conf_match_ref {
	struct sl_cfg_match match;
	const char *pool;
};

struct conf_route_ref {
	struct sl_cfg_route route; /* first: keys of the table write here */
	struct sl_cfg_route_pools pools;
	struct conf_match_ref *matches; /* [pools.match_cnt] */
	const char *pool;
	const char **listeners;
	uint32_t listener_cnt;
	const char *quotas[SL_CFG_ROUTE_QUOTAS];
	const char *keys;
	int pool_line, listener_line, quota_line, keys_line;
	int affinity_line; /* 0: no block */
	const char *split_pool, *mirror_pool;
	int split_line, mirror_line, hedge_line;
	bool responds; /* has a respond block */
};

#endif
