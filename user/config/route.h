/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SL_CONFIG_ROUTE_H
#define SL_CONFIG_ROUTE_H

#include <stdbool.h>
#include <stdint.h>

struct sl_api_keys;
struct sl_quota_table;

/* Token bucket. The times follow from the rate. */
struct sl_cfg_bucket {
	uint64_t tokens, window_ns; /* rate; no tokens: no limit */
	uint32_t burst;             /* tokens of a full bucket */
	uint64_t token_ns, depth_ns;
};

enum sl_quota_by { SL_QUOTA_BY_ADDRESS, SL_QUOTA_BY_HEADER, SL_QUOTA_BY_KEY, SL_QUOTA_BY_ROUTE };
enum { SL_CFG_MAX_QUOTAS = 64, SL_CFG_ROUTE_QUOTAS = 4 };

/* Limits per client. */
struct sl_cfg_quota {
	const char *name;
	uint8_t by;
	const char *header; /* lower case; NULL: another `by` */
	struct sl_cfg_bucket bucket;
	const char *usage_header; /* reply field with the tokens used; NULL: none */
	const char *usage_member; /* "OUTER.INNER" of JSON replies; NULL: none */
	uint32_t max_requests;    /* open at a time; 0: no limit */
	uint32_t clients;         /* table size */
	struct sl_quota_table *table;
	int line;
};

/* Cross-origin resource sharing (Fetch standard, 3.2). */
struct sl_cfg_cors {
	const char **origins;                   /* "https://host:port", or "*" alone */
	uint32_t origin_cnt;                    /* 0: no block */
	const char *methods, *headers, *expose; /* values of fields; NULL: none */
	uint64_t max_age_ns;
	bool credentials;
	int line;
};
enum { SL_CFG_MAX_ORIGINS = 64 };

struct sl_cfg_keys {
	const char *name, *file;
	const char *header; /* lower case */
	bool bearer;        /* the header is authorization, with the scheme Bearer */
	bool forward;
	struct sl_api_keys *keys;
	int line;
};
enum { SL_CFG_MAX_KEYS = 16 };

struct sl_cfg_rule {
	const char *name;  /* lower case */
	const char *value; /* new value; NULL: the field is dropped */
	const char *from;  /* not NULL: prefix to replace */
	bool varies;       /* has places such as {host} */
};

struct sl_cfg_rules {
	const struct sl_cfg_rule *list;
	uint32_t cnt;
	bool varies;
};

/* Values of the body's member, and their pool. */
struct sl_cfg_match {
	const char *text; /* UTF-8, without the * at its end */
	uint32_t len;
	bool prefix;
	int32_t pool;
	int line;
};

enum sl_affinity_by {
	SL_AFFINITY_BY_NONE,
	SL_AFFINITY_BY_HEADER,
	SL_AFFINITY_BY_COOKIE,
	SL_AFFINITY_BY_ADDRESS,
	SL_AFFINITY_BY_PREFIX,
};

/* Requests with the same value go to one backend. */
struct sl_cfg_affinity {
	uint8_t by;
	const char *name;
	uint32_t depths[8]; /* of the body, ascending; multiples of 64 */
	uint32_t depth_cnt;
};

/* Requests for another pool instead (canary). */
struct sl_cfg_split {
	int32_t pool; /* -1: none */
	double share;
	const char *header; /* overrides the share if present; NULL: none */
	const char *value;
};

/* Copies of requests, whose replies are ignored. */
struct sl_cfg_mirror {
	int32_t pool; /* -1: none */
	double share;
	uint64_t max_body;
};

#define SL_HEDGE_P95 UINT64_MAX

/* Choice of the pool, and of the backends in it. */
struct sl_cfg_route_pools {
	const char *member; /* of the JSON body (match_body); NULL: none */
	uint64_t member_limit;
	bool beyond_default; /* bodies with the member behind the limit go to the route's pool */
	bool no_default;     /* no pool without a match; route.pool is the first match's */
	struct sl_cfg_match *matches; /* the first that fits decides */
	uint32_t match_cnt;
	struct sl_cfg_affinity affinity;
	struct sl_cfg_split split;
	struct sl_cfg_mirror mirror;
	uint64_t hedge_ns; /* 0: no; SL_HEDGE_P95 */
};

struct sl_cfg_route {
	/* Decoded path, which matches at '/' borders; "/pkg.Service/" for gRPC; or "*". */
	const char *prefix;
	uint32_t prefix_len;
	const char **hosts; /* lower case, or "*.suffix"; none: any host */
	uint32_t host_cnt;
	const uint16_t *listeners; /* indices; none: any listener */
	uint32_t listener_cnt;
	const char *header; /* must have this value; NULL: none */
	const char *header_value;
	uint32_t methods; /* bit per enum sl_method; 0: those without another route */
	int32_t pool;     /* -1: fixed reply */
	struct sl_cfg_route_pools *pools; /* NULL: only `pool`, and any backend */
	uint16_t reply_status;
	const char *reply_body;
	uint32_t reply_body_len;
	const char *reply_type;
	const char *redirect; /* target with {host} and {path}; NULL: no redirect */
	uint64_t deadline_ns;
	const char *deadline_header; /* milliseconds */
	uint64_t max_body;
	uint64_t max_reply_head;   /* 0: as its pool */
	uint32_t max_reply_fields; /* 0: as its pool */
	int8_t priority;           /* enum sl_rpc_class; -1: from the request's urgency */
	int8_t idempotent;         /* 1 yes, 0 no, -1 by method */
	int8_t path;               /* enum sl_path_policy */
	int8_t strip;              /* -1: not in the file */
	bool strip_prefix;
	bool forward_all; /* all fields, Host and client address */
	bool underscores; /* also fields with '_' */
	int8_t streams;   /* -1: not in the file */
	bool stream;
	bool stream_auto; /* except small ones */
	bool upgrade_none;
	bool backend_continues;
	uint64_t idle_ns, max_duration_ns; /* limits of a stream; 0: none */
	uint64_t upgrade_timeout_ns;       /* 0: no limit */
	uint64_t max_rate;                 /* bytes per second and direction; 0: any */
	const char **upgrades;             /* lower case */
	uint32_t upgrade_cnt;
	const char **forward_headers;
	uint32_t forward_header_cnt;
	struct sl_cfg_rules request_rules, reply_rules;
	struct sl_cfg_cors cors;
	const struct sl_cfg_keys *keys; /* NULL: requests need no key */
	uint8_t quotas[SL_CFG_ROUTE_QUOTAS];
	uint32_t quota_cnt;
	bool charges;
	const char *usage_member; /* NULL: none */
	int8_t policy;            /* -1: as the pool */
	uint16_t datagram_service;
	int line;
};

/* Returns true if requests of the route may go to the pool, mirrors aside. */
static inline bool sl_cfg_route_has_pool(const struct sl_cfg_route *r, int32_t pool)
{
	for (uint32_t i = 0; r->pools && i < r->pools->match_cnt; i++) {
		if (r->pools->matches[i].pool == pool)
			return true;
	}
	return r->pool == pool || (r->pools && r->pools->split.pool == pool);
}

/* Returns true if the route sends copies to the pool. */
static inline bool sl_cfg_route_mirrors_to(const struct sl_cfg_route *r, int32_t pool)
{
	return r->pools && r->pools->mirror.pool == pool;
}

#endif
