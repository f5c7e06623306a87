/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The configuration: a file becomes one const struct, or a line for each mistake.
 *
 * A pool is a group of backends that do the same work, with one queue and one batch controller per
 * worker. All memory belongs to the struct until sl_config_free(). Durations are in nanoseconds,
 * sizes in bytes.
 */
#ifndef SL_CONFIG_CONFIG_H
#define SL_CONFIG_CONFIG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "base/err.h"
#include "config/route.h"
#include "wire/addr.h"
#include "sluice/abi.h"

struct sl_descriptors;
struct sl_tls_server;

enum sl_attach_mode {
	SL_ATTACH_AUTO,
	SL_ATTACH_NATIVE,
	SL_ATTACH_GENERIC,
	SL_ATTACH_ADOPT,
	SL_ATTACH_SOCKET, /* kernel sockets */
};
/* Policies of batch sizes: number in the maps, name in C, name in the file. */
#define SL_POLICIES(X)                                                                             \
	X(0, ADAPTIVE, adaptive)                                                                   \
	X(1, FIXED, fixed)                                                                         \
	X(2, AIMD, aimd)                                                                           \
	X(3, DIRECT, direct)
enum sl_policy {
#define X(number, NAME, name) SL_POLICY_##NAME = number,
	SL_POLICIES(X)
#undef X
		SL_POLICY_CNT
};
enum sl_bound_mode { SL_BOUND_SOFT, SL_BOUND_HARD };
/* Treatment of ambiguous paths. */
enum sl_path_policy {
	SL_PATH_AUTO = -1, /* the value in `limits` */
	SL_PATH_CHECK,
	SL_PATH_REFUSE,
	SL_PATH_NORMALISE,
	SL_PATH_RAW
};
enum sl_fair_by { SL_FAIR_ADDRESS, SL_FAIR_HEADER, SL_FAIR_NONE };

struct sl_cfg_prefix {
	struct sl_addr_prefix of;
	bool deny;
	int line;
};

struct sl_cfg_prefixes {
	struct sl_cfg_prefix *list;
	uint32_t cnt;
};

struct sl_cfg_interface {
	char name[16];
	uint8_t mode; /* enum sl_attach_mode */
	bool zero_copy;
	bool busy_poll;
	uint16_t queues[SL_MAX_QUEUES];
	uint16_t queue_cnt; /* 0: all receive queues */
	uint32_t ring_size;
	uint16_t vlan;                   /* or SL_VLAN_ANY, SL_VLAN_NONE */
	struct sl_cfg_prefixes prefixes; /* the longest that matches decides */
	uint32_t allow_cnt;              /* not 0: unmatched addresses are denied */
	int line;
};

struct sl_cfg_file {
	const char *path;
	int line;
};

/* `Forwarded` fields of clients. */
enum sl_forwarded { SL_FORWARDED_REPLACE, SL_FORWARDED_APPEND };
/* Open requests of a client that has half-closed its connection. */
enum sl_half_close { SL_HALF_CLOSE_CANCEL, SL_HALF_CLOSE_ANSWER };

enum sl_client_cert { SL_CLIENT_CERT_REQUIRE, SL_CLIENT_CERT_OPTIONAL };

struct sl_cfg_tls {
	struct sl_cfg_file *certificates, *keys; /* as many of both */
	uint32_t certificate_cnt, key_cnt;
	struct sl_cfg_file client_ca; /* none: clients show no certificates */
	uint8_t client;               /* enum sl_client_cert */
	struct sl_cfg_file ticket_keys;
	uint32_t handshake_threads;
	int line;
};

struct sl_cfg_listener {
	const char *name;
	struct sl_addr at;   /* zeros: any; family 0: any of both families ("*") */
	bool http, datagram; /* http: HTTP/1.1, HTTP/2 and gRPC */
	bool local;          /* also on kernel sockets */
	const char *socket;  /* path of a Unix socket, instead of `at`; NULL: none */
	const char *group;   /* the socket's; NULL: the account's */
	uint32_t mode;
	uint8_t forwarded; /* enum sl_forwarded */
	uint8_t half_close;
	struct sl_cfg_prefixes proxies; /* peers that must send a PROXY header */
	struct sl_cfg_tls *tls;
	struct sl_tls_server *tls_server;
	int line;
};

struct sl_cfg_backend {
	const char *name;
	const char *endpoint; /* shm:///path, rdma://addr:port or tcp://host:port */
	const char *first;    /* until `endpoint` is connected; NULL: none */
	const char *fallback; /* while `endpoint` is unreachable; NULL: none */
	const char *key_file;
	const char *source, *device; /* local, of rdma endpoints; NULL: by the IP route */
	uint8_t device_port;         /* 0: any */
	uint8_t tos;
	uint32_t owner;       /* may listen on shm, like root and the gateway's account */
	uint32_t concurrency; /* http, h2c: concurrent requests; 0: learnt */
	const char *host;     /* http, h2c: Host field; NULL: the client's */
	uint8_t via;          /* enum sl_via, of a server, as configured */
	uint8_t way;          /* SL_VIA_AGENT or SL_VIA_STACK; see gateway/ways.h */
	char way_why[96];     /* reason for via = auto */
	uint32_t weight;
	bool backup;          /* used if no other is available */
	const char *zone;     /* NULL: the gateway's */
	uint64_t server_hash; /* of the pool's blocks health and tls; 0: none */
	int line;
};

/* Failures that eject a backend; each value includes those before it. */
enum sl_eject { SL_EJECT_NONE, SL_EJECT_LOST, SL_EJECT_GATEWAY, SL_EJECT_5XX };

enum { SL_CFG_WEIGHT_MAX = 256 };
enum { SL_CFG_MAX_AGENTS = 16, SL_CFG_MAX_SERVERS = 256 /* backends that are servers */ };

struct sl_cfg_batch {
	uint8_t policy; /* enum sl_policy */
	uint32_t max_size;
	uint64_t bound_ns; /* adaptive, aimd: p99 latency bound */
	uint8_t bound_mode;
	uint32_t size;     /* fixed */
	uint64_t delay_ns; /* fixed */
	double eta;        /* adaptive: efficiency knob, 0..1 */
};

/* Connections to a server: an agent's, or the worker's own TCP. */
enum sl_via { SL_VIA_AGENT, SL_VIA_STACK, SL_VIA_AUTO };

/* Returns "agent" or "stack". */
static inline const char *sl_cfg_way_name(const struct sl_cfg_backend *b)
{
	return b->way == SL_VIA_STACK ? "stack" : "agent";
}

/* Health checks of http and h2c servers by agents. */
struct sl_cfg_health {
	bool on;
	const char *path;    /* http */
	const char *service; /* h2c; NULL: the whole server */
	uint32_t expect, failures;
	uint64_t interval_ns, timeout_ns;
	int line;
};

/* TLS to https and h2 servers. */
#define SL_CFG_CA_FILE "/etc/ssl/certs/ca-certificates.crt"
struct sl_cfg_server_tls {
	const char *server_name;                      /* NULL: the endpoint's host */
	struct sl_cfg_file ca_file, certificate, key; /* `path` of the last two may be NULL */
	bool verify;
	int line; /* 0: no block */
};

struct sl_cfg_pool {
	const char *name;
	struct sl_cfg_health health;
	struct sl_cfg_server_tls tls;
	struct sl_cfg_backend *backends;
	uint32_t backend_cnt;
	struct sl_cfg_batch batch;
	uint32_t max_queue; /* per worker */
	uint32_t subset;    /* backends that each worker uses; 0: all */
	uint64_t max_body;
	uint64_t max_reply_head;
	uint32_t max_reply_fields;
	uint8_t eject;           /* enum sl_eject */
	uint32_t eject_failures; /* in a row */
	uint64_t eject_ns;       /* first back-off */
	uint64_t slow_start_ns;  /* 0: none */
	uint64_t progress_ns;    /* 0: backends are never silent */
	uint8_t fair;            /* enum sl_fair_by */
	const char *fair_header;
	int line;
};

struct sl_cfg_limits {
	uint32_t max_connections, max_half_open;
	uint32_t max_exchanges;
	uint32_t max_promoted; /* per worker */
	/* Shares of a worker per client address, 0..1; 1: no limit. */
	double address_connections; /* from 2 on: a number of connections */
	double address_exchanges, address_reading, address_frames;
	uint32_t address_requests; /* per second; 0: no limit */
	uint64_t frame_memory;     /* UMEM size per worker */
	uint64_t reorder_memory;
	uint32_t max_head, max_target, max_headers, max_pipeline, max_streams;
	uint64_t max_body, max_message;
	uint64_t header_timeout_ns, idle_timeout_ns, body_timeout_ns, send_timeout_ns;
	uint64_t body_rate, send_rate; /* minimum bytes per second; 0: none */
	uint64_t keepalive_ns, drain_timeout_ns;
	bool rst_closed_ports;
	uint16_t port_first, port_last; /* for own connections to servers; 0: none */
	uint8_t path;                   /* enum sl_path_policy */
};

/* Roles of admin clients; each includes the rights of those before it. */
enum sl_admin_role { SL_ADMIN_NOBODY, SL_ADMIN_READ, SL_ADMIN_OPERATE };
enum { SL_CFG_TOKEN_MIN = 16, SL_CFG_TOKEN_MAX = 256, SL_CFG_SOCKET_MAX = 100 };
#define SL_RUN_DIR "/run/sluice"

struct sl_cfg_admin {
	const char *socket;        /* a path, "auto" or "none" */
	const char *owner, *group; /* the socket's; NULL: as the process starts */
	uint8_t group_role;        /* enum sl_admin_role */
	const char *address;
	uint16_t port;
	const char *token_file;
	const char **hosts; /* allowed values of Host besides the address */
	uint32_t host_cnt;
	int line;
};

enum sl_access_log_format { SL_ACCESS_LOG_JSON, SL_ACCESS_LOG_COMBINED };

/* Optional fields of a line: name in C, name in the file. */
#define SL_LOG_FIELDS(X)                                                                           \
	X(LISTENER, "listener")                                                                    \
	X(TLS, "tls")                                                                              \
	X(TLS_SUBJECT, "tls_subject")                                                              \
	X(KEY, "key")                                                                              \
	X(HOST, "host")                                                                            \
	X(USER_AGENT, "user_agent")                                                                \
	X(REFERER, "referer")                                                                      \
	X(REQUEST_ID, "request_id")                                                                \
	X(TRACE_ID, "trace_id")                                                                    \
	X(ROUTE, "route")                                                                          \
	X(POOL, "pool")                                                                            \
	X(BACKEND, "backend")                                                                      \
	X(BATCH, "batch")                                                                          \
	X(TIMES, "times")
enum sl_log_field {
#define X(name, text) SL_LOG_##name,
	SL_LOG_FIELDS(X)
#undef X
		SL_LOG_NONE,
	SL_LOG_FIELD_CNT = SL_LOG_NONE
};

struct sl_cfg_access_log {
	const char *file; /* a path, or "-"; NULL: none */
	uint8_t format;
	uint32_t fields; /* bit per enum sl_log_field; 0: all */
	double sample;   /* share of successful requests; failures are always logged */
};

/* Addresses that limits refuse too often: the XDP program drops their packets for a time. */
struct sl_cfg_penalty {
	uint32_t after; /* refusals; 0: no penalty */
	uint64_t within_ns, time_ns;
	struct sl_cfg_prefixes except;
	struct sl_quota_table *table;
};

enum { SL_CFG_OTLP_MAX = 250 };

struct sl_cfg_trace {
	bool request_id;
	const char *otlp; /* URL of the collector; NULL: none */
	double sample;    /* share of new traces */
	uint64_t slow_ns; /* 0: no request is slow */
};

/* Returns true if requests get ids or spans. */
static inline bool sl_cfg_traces(const struct sl_cfg_trace *t)
{
	return t->request_id || t->otlp;
}

/* Parses http://ADDRESS:PORT/PATH. Returns false if malformed; *path points into url. */
bool sl_cfg_parse_otlp(const char *url, struct sl_addr *at, const char **path);

/* Returns a bit per field to log; none configured: all. */
static inline uint32_t sl_log_fields(const struct sl_cfg_access_log *l)
{
	return l->fields ? l->fields : (1u << SL_LOG_FIELD_CNT) - 1;
}

#define SL_AUTO UINT64_MAX /* the duration is measured */

struct sl_cfg_setting {
	const char *text; /* "listener web.port = 8080" */
	bool restart;     /* takes effect at the next start */
};

struct sl_cfg_agents {
	uint32_t count;
	int32_t cpus[SL_CFG_MAX_AGENTS];
	uint32_t cpu_cnt;    /* 0: not pinned */
	uint32_t server_cnt; /* 0: no agents */
};

/* Line numbers of struct sl_config count in the file merged with its includes. */
struct sl_cfg_location {
	const char *file;
	int line;
};

struct sl_cfg_segment {
	int first; /* merged line of its first line */
	struct sl_cfg_location at;
};

struct sl_cfg_former_key {
	int line;
	const char *name, *now; /* "limits.keepalive", "tcp.keepalive"; NULL: has no effect */
};

struct sl_config {
	const char *file;
	uint64_t number;               /* from 1; of no other in the process, unlike the address */
	struct sl_cfg_segment *pieces; /* of the file and its includes */
	uint32_t piece_cnt;
	const char **sources; /* included files, and "FOLDER/" of patterns */
	uint32_t source_cnt;
	struct sl_cfg_former_key *former_keys;
	uint32_t former_key_cnt;
	struct sl_cfg_interface *interfaces;
	uint32_t interface_cnt;
	uint32_t worker_cnt;
	int32_t cpus[SL_MAX_WORKERS]; /* -1: not pinned */
	uint64_t spin_ns;             /* polling before a sleep, or SL_AUTO */
	struct sl_cfg_listener *listeners;
	uint32_t listener_cnt;
	struct sl_cfg_pool *pools;
	uint32_t pool_cnt;
	struct sl_cfg_route *routes; /* longest prefix first */
	uint32_t route_cnt;
	struct sl_cfg_quota *quotas;
	uint32_t quota_cnt;
	struct sl_cfg_keys *keys;
	uint32_t key_cnt;
	struct sl_cfg_limits limits;
	struct sl_cfg_admin admin;
	struct sl_cfg_access_log access_log;
	struct sl_cfg_trace trace;
	struct sl_cfg_penalty penalty;
	struct sl_cfg_agents agents;
	const char *zone;
	const char *user; /* account after the start; "root": unchanged, without capabilities */
	const char **descriptor_sets; /* gRPC reflection */
	uint32_t descriptor_set_cnt;
	int descriptor_sets_line, cpus_line, user_line;
	struct sl_descriptors *descriptors; /* set by the caller */
	uint8_t log_level;
	struct sl_cfg_setting *settings;
	uint32_t setting_cnt;
	void *arena;
	/* Free what other modules added. */
	void (*release[3])(struct sl_config *c);
};

/* Registers a function for sl_config_free(), once. */
void sl_config_on_free(struct sl_config *c, void (*fn)(struct sl_config *c));

/*
 * Parses "192.0.2.0/24", "fd00::/8" or an address. Returns false if bits are set beyond its length.
 */
bool sl_config_parse_prefix(const char *text, struct sl_addr_prefix *p);
/* Returns true if a prefix contains the address; ignores `deny`. */
bool sl_config_covers(const struct sl_cfg_prefixes *p, const struct sl_addr *a);

/* Returns true if no client gets replies of the pool. */
bool sl_cfg_is_mirror_only(const struct sl_config *c, uint32_t pool);

enum {
	SL_CFG_FILE_MAX = 4 << 20, /* bytes, with includes */
	SL_CFG_INCLUDE_DEPTH = 8,  /* nested files */
	SL_CFG_MAX_INCLUDES = 512,
	SL_CFG_TARGET_MAX = 32 << 10, /* bytes of a request target */
	SL_CFG_MAX_PREFIXES = 4096,   /* per interface */
	SL_CFG_MAX_INTERFACES = 16,
	SL_CFG_MAX_BACKENDS = 1024, /* per pool */
	SL_CFG_SUBSET = 256,        /* per worker */
	SL_CFG_MAX_ROUTES = 1024,
	SL_CFG_MAX_HOSTS = 64,         /* per route */
	SL_CFG_MAX_MATCHES = 32,       /* per route */
	SL_CFG_MAX_CERTIFICATES = 256, /* per listener */
	SL_CFG_MAX_SERVER_FILES = 64,  /* of all pools' tls blocks, each counted once */
	SL_CFG_MAX_HANDSHAKE_THREADS = 16
};

enum { SL_CFG_ERR_LEN = 32 << 10 };
/*
 * Reads a file, which must have a listener and a route. Returns a configuration to be freed; NULL:
 * mistakes. err has a line for each, "FILE:LINE: found X; allowed: Y"; the last one counts those
 * without room.
 */
struct sl_config *sl_config_load(const char *file, struct sl_err *err);
/*
 * The same, without the host's accounts and the file's owner and mode. sl_config_load() requires a
 * file that root, the caller or the account behind sudo owns and no other account can write. Its
 * err also has mistakes of sl_config_check_system().
 */
struct sl_config *sl_config_load_offline(const char *file, struct sl_err *err);
/* Returns true if the file's only mistake is that it names no interface. */
bool sl_config_lacks_interface(const char *file);
/* The same for a text; `name` is the file's, in err. Needs no listener or route. */
struct sl_config *sl_config_parse(const char *text, const char *name, struct sl_err *err);
/* Checks interfaces, queues and key files. Returns 0, or -1 and lines as above. */
int sl_config_check_system(const struct sl_config *c, struct sl_err *err);
/* `line`: "FILE:LINE: text", without the word warning. */
typedef void sl_config_warn_fn(void *arg, const char *line);
/* Calls fn for what is allowed, but seldom intended, such as a pool without a route. */
void sl_config_each_warning(const struct sl_config *c, sl_config_warn_fn *fn, void *arg);
/* The same for former key names only. */
void sl_config_each_former_key(const struct sl_config *c, sl_config_warn_fn *fn, void *arg);
/* Frees a configuration. NULL is allowed. */
void sl_config_free(struct sl_config *c);
/* Returns file and line of a merged line number. The name belongs to c. */
struct sl_cfg_location sl_config_location(const struct sl_config *c, int line);

/*
 * Writes the admin socket's path, by default SL_RUN_DIR/INTERFACE.sock; "": none. `in_netns`: the
 * default if a gateway of another network namespace has that name; false: none.
 */
bool sl_config_admin_socket(const struct sl_config *c, bool in_netns, char path[108]);
/*
 * Returns true for this network namespace's default names: "eth0.sock" or "eth0@4026531840.sock".
 */
bool sl_config_is_admin_socket(const char *file);

/* Returns true if an interface may get an XDP program. */
bool sl_config_has_xdp(const struct sl_config *c);
/* Returns a worker's maximum of connections to servers with via = stack. */
uint32_t sl_config_server_ports(const struct sl_config *c);

/*
 * Returns the folder of sockets: SL_RUN_DIR for root or if writable, else $XDG_RUNTIME_DIR/sluice,
 * else /tmp/sluice-UID. The first call decides.
 */
const char *sl_run_dir(void);
/* Makes that folder. Returns 0 or -errno; -EPERM: another account owns it or can write. */
int sl_run_dir_make(void);

typedef void sl_config_diff_fn(void *arg, const char *key);
/* Calls fn for each different setting that needs a restart, or that does not. */
void sl_config_diff(const struct sl_config *a, const struct sl_config *b, bool restart,
		    sl_config_diff_fn *fn, void *arg);

/* Copies settings that need a restart from `now` to `next`. */
void sl_config_keep(struct sl_config *next, const struct sl_config *now);

/* A key of the reference. */
struct sl_config_key {
	const char *block, *name;
	char allowed[400];
	const char *fallback;
	bool list, required, restart;
	const char *help;
};
/* Calls fn for each key; the struct is valid during the call. */
void sl_config_each_key(void (*fn)(void *arg, const struct sl_config_key *key), void *arg);

#endif
