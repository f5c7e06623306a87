/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The configuration: one file in, one const struct out, or one error line "FILE:LINE: what was
 * found; what is allowed". Nothing here touches the system beyond reading files; what needs the
 * machine (interfaces, key files, backends) is checked by sl_config_check_system().
 *
 *   interface "eth0" { queues = {0, 1}  mode = auto }
 *   workers { count = 2  cpus = {0, 1} }
 *   listener web { address = "10.99.0.1"  port = 8080  protocols = {http, datagram} }
 *   pool score { backend a { endpoint = "shm:///run/sluice/score.sock" }  batch { policy = adaptive
 * bound = 10ms } } route "/score" { methods = {POST}  pool = score  deadline = 1s } route "/" {
 * reply = 200  body = "hello\n" } admin { address = "127.0.0.1"  port = 9900 }
 *
 * A pool is what DESIGN.md calls a service: backends that do the same work, one queue and one batch
 * controller per worker. Ownership: everything belongs to the struct until sl_config_free().
 * Durations are nanoseconds, sizes bytes.
 */
#ifndef SL_CONFIG_CONFIG_H
#define SL_CONFIG_CONFIG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "sluice/abi.h"

struct sl_descriptors;

enum sl_attach_mode { SL_ATTACH_AUTO, SL_ATTACH_NATIVE, SL_ATTACH_GENERIC, SL_ATTACH_ADOPT };
enum sl_policy { SL_POLICY_ADAPTIVE, SL_POLICY_FIXED, SL_POLICY_AIMD };
enum sl_fair_key { SL_FAIR_ADDRESS, SL_FAIR_HEADER, SL_FAIR_NONE };

struct sl_cfg_interface {
	char name[16];
	uint8_t mode;   /* enum sl_attach_mode */
	bool zero_copy; /* try it (default) */
	bool busy_poll;
	uint16_t queues[SL_MAX_QUEUES];
	uint16_t queue_cnt; /* 0: all receive queues */
	uint32_t ring_size;
	int line;
};

struct sl_cfg_listener {
	const char *name;
	uint8_t addr[16]; /* all zero: any */
	uint8_t family;   /* 4, 6; 0: any address of both families ("*") */
	uint16_t port;
	bool http, datagram; /* http: HTTP/1.1, HTTP/2 and gRPC */
	int line;
};

struct sl_cfg_backend {
	const char *name;     /* NULL: vacant */
	const char *endpoint; /* shm:///path or rdma://addr:port */
	const char *fallback; /* endpoint used while the first cannot be reached; NULL: none */
	const char *key_file;
	int line;
};

struct sl_cfg_batch {
	uint8_t policy; /* enum sl_policy */
	uint32_t max_size;
	uint64_t bound_ns; /* adaptive, aimd: p99 latency bound */
	uint32_t size;     /* fixed */
	uint64_t delay_ns; /* fixed */
	double eta;        /* adaptive: efficiency knob, 0..1 */
};

struct sl_cfg_pool {
	const char *name; /* NULL: vacant, see sl_config_align() */
	struct sl_cfg_backend *backends;
	uint32_t backend_cnt;
	struct sl_cfg_batch batch;
	uint32_t max_queue; /* requests waiting, per worker */
	uint64_t max_body;
	uint8_t fair; /* enum sl_fair_key */
	const char *fair_header;
	int line;
};

struct sl_cfg_route {
	const char *prefix; /* path prefix; or "/pkg.Service/" for gRPC; matches at '/' borders */
	uint32_t prefix_len;
	uint32_t methods; /* bit per enum sl_method; 0: those that no other route of it has */
	uint32_t prefix_methods; /* of all routes of this prefix; 0: any */
	int32_t pool;            /* index; -1: fixed reply */
	uint16_t reply_status;
	const char *reply_body;
	uint32_t reply_body_len;
	const char *reply_type;
	uint64_t deadline_ns;        /* 0: none */
	const char *deadline_header; /* milliseconds; NULL none */
	uint64_t max_body;
	int8_t priority;              /* enum sl_rpc_class; -1: from the request's urgency */
	int8_t idempotent;            /* 1 yes, 0 no, -1 by method */
	bool strip_prefix;            /* backend sees the path behind the prefix (default) */
	const char **forward_headers; /* lower case */
	uint32_t forward_header_cnt;
	int8_t policy;             /* overrides the pool's batch policy; -1 not */
	uint16_t datagram_service; /* id by which datagrams name this route; 0 none */
	int line;
};

struct sl_cfg_limits {
	uint32_t max_connections, max_half_open, max_per_address;
	uint32_t max_exchanges;
	uint64_t frame_memory; /* per worker: UMEM size */
	uint32_t max_head, max_target, max_headers, max_pipeline, max_streams;
	uint64_t max_body, max_message;
	uint64_t header_timeout_ns, idle_timeout_ns, body_timeout_ns, send_timeout_ns;
	uint64_t keepalive_ns, drain_timeout_ns;
	bool newreno, rst_closed_ports;
};

#define SL_AUTO UINT64_MAX /* of a duration: not given, but measured */

struct sl_cfg_setting {
	const char *text; /* "listener web.port = 8080" */
	bool restart;     /* takes effect at the next start only */
};

struct sl_config {
	const char *file;
	struct sl_cfg_interface *interfaces;
	uint32_t interface_cnt;
	uint32_t worker_cnt;
	int32_t cpus[SL_MAX_WORKERS]; /* -1: not pinned */
	uint64_t spin_ns;             /* how long a worker polls before it sleeps, or SL_AUTO */
	struct sl_cfg_listener *listeners;
	uint32_t listener_cnt;
	struct sl_cfg_pool *pools;
	uint32_t pool_cnt;
	/* Longest prefix first; routes of one prefix together, one without methods the last. */
	struct sl_cfg_route *routes;
	uint32_t route_cnt;
	struct sl_cfg_limits limits;
	const char *admin_address;
	uint16_t admin_port; /* 0: none */
	const char *user;    /* to run as after start; NULL: stay, but without capabilities */
	const char **descriptor_sets; /* gRPC reflection */
	uint32_t descriptor_set_cnt;
	int descriptor_sets_line, cpus_line, user_line;
	struct sl_descriptors *descriptors; /* their index; set by who starts the gateway */
	uint8_t log_level;                  /* enum sl_log_level */
	struct sl_cfg_setting *settings;    /* what the file says, in its order */
	uint32_t setting_cnt;
	void *arena;
};

enum { SL_CFG_MAX_INTERFACES = 16, SL_CFG_MAX_BACKENDS = 32, SL_CFG_MAX_ROUTES = 1024 };

/*
 * Returns NULL and one line in err. A loaded file must be complete: at least one interface,
 * listener and route; parsed text need not (tests and benches).
 */
struct sl_config *sl_config_load(const char *file, char *err, size_t err_len);
struct sl_config *sl_config_parse(const char *text, const char *name, char *err, size_t err_len);
/* Interfaces exist and have those queues, addresses parse, key files can be read. 0 or -1 and a
 * line. */
int sl_config_check_system(const struct sl_config *c, char *err, size_t err_len);
/*
 * Calls fn with a line for each thing that is allowed, but seldom meant: a listener at an address
 * that this host does not have, a pool that no route leads to.
 */
typedef void sl_config_warn_fn(void *arg, const char *line);
void sl_config_each_warning(const struct sl_config *c, sl_config_warn_fn *fn, void *arg);
void sl_config_free(struct sl_config *c);

/*
 * Calls fn for each setting that only one of the two files has, or has with another value; of those
 * that need a restart, or of those that do not.
 */
typedef void sl_config_diff_fn(void *arg, const char *key);
void sl_config_diff(const struct sl_config *a, const struct sl_config *b, bool restart,
		    sl_config_diff_fn *fn, void *arg);

/*
 * Makes `next` fit a gateway that runs under the living configurations, the newest first:
 *
 *   living  [score, echo, -, -]  +  next [echo, new]  ->  next [-, echo, new, -]
 *
 * A pool keeps its index by its name, which is its service's in the maps, and a backend by all that
 * it says. New ones get an index that is vacant in all of them, of at most service_max and
 * SL_CFG_MAX_BACKENDS. Left behind are vacant places: a pool or backend without a name. Limits that
 * need a restart stay as they are. 0, or -1 and one line in err.
 */
int sl_config_align(struct sl_config *next, const struct sl_config *const *living,
		    uint32_t living_cnt, uint32_t service_max, char *err, size_t err_len);

/* The reference: each key of each block, in the order of the table. */
struct sl_config_key {
	const char *block, *name;
	char allowed[160];
	const char *fallback; /* the default as it would be written; NULL: none */
	bool list, required, restart;
	const char *help;
};
void sl_config_each_key(void (*fn)(void *arg, const struct sl_config_key *key), void *arg);

#endif
