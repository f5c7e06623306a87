/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The configuration: one file in, one const struct out, or a line for each mistake, "FILE:LINE:
 * what was found; what is allowed". Nothing here touches the system beyond reading files; what
 * needs the machine (interfaces, key files, backends) is checked by sl_config_check_system().
 *
 *   interface "eth0" { queues = {0, 1}  mode = auto }
 *   workers { count = 2  cpus = {0, 1} }
 *   listener web { address = "10.99.0.1"  port = 8080  protocols = {http, datagram} }
 *   listener safe { port = 443  tls { certificate = {"/etc/sluice/a.pem"}  key = {"/etc/sluice/a.key"} } }
 *   pool score {
 *           backend a { endpoint = "shm:///run/sluice/score.sock" }
 *           batch { policy = adaptive  bound = 10ms }
 *   }
 *   route "/score" { methods = {POST}  pool = score  deadline = 1s }
 *   route "/" { reply = 200  body = "hello\n" }
 *   admin { group = "operators" }
 *   access_log { file = "/var/log/sluice/access.log"  format = json }
 *
 * A pool is a group of backends that do the same work, with one queue and one batch controller per
 * worker. Ownership: everything belongs to the struct until sl_config_free().
 * Durations are nanoseconds, sizes bytes.
 */
#ifndef SL_CONFIG_CONFIG_H
#define SL_CONFIG_CONFIG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "base/err.h"
#include "wire/addr.h"
#include "sluice/abi.h"

struct sl_descriptors;
struct sl_tls_server;

enum sl_attach_mode { SL_ATTACH_AUTO, SL_ATTACH_NATIVE, SL_ATTACH_GENERIC, SL_ATTACH_ADOPT };
/*
 * The policies that decide on batch sizes: number in the maps, name in C, name in the file.
 * Keys, metrics, queue lanes and the policy table (batch/policy.h) are generated from this list.
 */
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
/* Treatment of paths that servers read in several ways. */
enum sl_path_policy {
	SL_PATH_AUTO = -1, /* in a route: the value in `limits` */
	SL_PATH_CHECK,
	SL_PATH_REFUSE,
	SL_PATH_NORMALISE,
	SL_PATH_RAW
};
enum sl_fair_by { SL_FAIR_ADDRESS, SL_FAIR_HEADER, SL_FAIR_NONE };

/* One `allow` or `deny` prefix of client addresses. */
struct sl_cfg_prefix {
	struct sl_addr_prefix of;
	bool deny;
	int line;
};

struct sl_cfg_prefixes {
	struct sl_cfg_prefix *list; /* as the file has them */
	uint32_t cnt;
};

struct sl_cfg_interface {
	char name[16];
	uint8_t mode;   /* enum sl_attach_mode */
	bool zero_copy; /* try it (default) */
	bool busy_poll;
	uint16_t queues[SL_MAX_QUEUES];
	uint16_t queue_cnt; /* 0: all receive queues */
	uint32_t ring_size;
	uint16_t vlan;                   /* SL_VLAN_ANY, SL_VLAN_NONE, or its number */
	struct sl_cfg_prefixes prefixes; /* the longest that matches decides */
	uint32_t allow_cnt;              /* not 0: addresses that match no prefix are denied */
	int line;
};

/* A file that another module reads, and the line that names it. */
struct sl_cfg_file {
	const char *path; /* NULL: none */
	int line;
};

/* `Forwarded` fields of clients: the gateway replaces them, or appends its own. */
enum sl_forwarded { SL_FORWARDED_REPLACE, SL_FORWARDED_APPEND };
/* Open requests of a client that has half-closed its connection: cancelled or answered. */
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
	struct sl_addr at;   /* an address of zeros: any; family 0: any of both families ("*") */
	bool http, datagram; /* http: HTTP/1.1, HTTP/2 and gRPC */
	uint8_t forwarded;   /* enum sl_forwarded */
	uint8_t half_close;  /* enum sl_half_close */
	struct sl_cfg_prefixes proxies;   /* peers that must send a PROXY header */
	struct sl_cfg_tls *tls;           /* NULL: none */
	struct sl_tls_server *tls_server; /* made of it by sl_tls_load() */
	int line;
};

struct sl_cfg_backend {
	const char *name;
	const char *endpoint; /* shm:///path, rdma://addr:port or tcp://host:port */
	const char *first;    /* endpoint used until the one above is connected; NULL: that */
	const char *fallback; /* endpoint used while that cannot be reached; NULL: none */
	const char *key_file;
	const char *source, *device; /* local, for rdma endpoints; NULL: from the IP route */
	uint8_t device_port;         /* 0: any */
	uint8_t tos;
	uint32_t owner; /* account that may listen on shm, beside root and the gateway's own */
	uint32_t concurrency; /* http, h2c: concurrent requests; 0: learnt */
	const char *host;     /* http, h2c: Host of all requests; NULL: the client's */
	int line;
};

enum { SL_CFG_MAX_AGENTS = 16, SL_CFG_MAX_SERVERS = 256 /* backends that are servers */ };

struct sl_cfg_batch {
	uint8_t policy; /* enum sl_policy */
	uint32_t max_size;
	uint64_t bound_ns;  /* adaptive, aimd: p99 latency bound */
	uint8_t bound_mode; /* enum sl_bound_mode */
	uint32_t size;      /* fixed */
	uint64_t delay_ns;  /* fixed */
	double eta;         /* adaptive: efficiency knob, 0..1 */
};

struct sl_cfg_pool {
	const char *name;
	struct sl_cfg_backend *backends;
	uint32_t backend_cnt;
	struct sl_cfg_batch batch;
	uint32_t max_queue; /* requests waiting, per worker */
	uint32_t subset;    /* members that each worker uses: at most backend_cnt; 0: all */
	uint64_t max_body;
	uint64_t max_reply_head;   /* bytes */
	uint32_t max_reply_fields; /* in the head */
	uint8_t fair;              /* enum sl_fair_by */
	const char *fair_header;
	int line;
};

/* A rule for one header field. */
struct sl_cfg_rule {
	const char *name;  /* lower case */
	const char *value; /* new value; NULL: the field is dropped */
	const char *from;  /* not NULL: the prefix in its place, of a field that has it */
	bool varies;       /* the value has places, as {host} */
};

struct sl_cfg_rules {
	const struct sl_cfg_rule *list; /* each name once */
	uint32_t cnt;
	bool varies; /* one of them does */
};

struct sl_cfg_route {
	const char *
		prefix; /* decoded path; or "/pkg.Service/" for gRPC; matches at '/' borders; "*" */
	uint32_t prefix_len;
	const char **hosts; /* names and "*.suffix", lower case; none: any host */
	uint32_t host_cnt;
	const uint16_t *listeners; /* indices; none: any listener */
	uint32_t listener_cnt;
	const char
		*header; /* name in lower case, of a field that must have this value; NULL: none */
	const char *header_value;
	uint32_t methods; /* bit per enum sl_method; 0: those that no other route of it has */
	int32_t pool;     /* index; -1: fixed reply */
	uint16_t reply_status;
	const char *reply_body;
	uint32_t reply_body_len;
	const char *reply_type;
	const char *redirect; /* where to, with {host} and {path} to be put in; NULL: no redirect */
	uint64_t deadline_ns; /* 0: none */
	const char *deadline_header; /* milliseconds; NULL none */
	uint64_t max_body;
	uint64_t max_reply_head;   /* 0: as its pool */
	uint32_t max_reply_fields; /* 0: as its pool */
	int8_t priority;           /* enum sl_rpc_class; -1: from the request's urgency */
	int8_t idempotent;         /* 1 yes, 0 no, -1 by method */
	int8_t path;               /* enum sl_path_policy */
	int8_t strip;              /* as the file says it; -1: not */
	bool strip_prefix;         /* backend sees the path behind the prefix (default) */
	bool forward_all;          /* it gets all fields, the client's Host and its address */
	bool underscores;          /* with forward_all: also fields with '_' in their names */
	int8_t streams;            /* as the file says it; -1: not */
	bool stream;               /* requests go on as they come */
	bool stream_auto;          /* but small ones, which are read first */
	bool upgrade_none;         /* the file says so */
	bool backend_continues;    /* the backend sends 100 (Continue) to a stream's client */
	uint64_t idle_ns, max_duration_ns; /* limits of a stream; 0: none */
	uint64_t upgrade_timeout_ns;       /* until the backend accepts an upgrade; 0: no limit */
	uint64_t max_rate;                 /* bytes per second of a stream and direction; 0: any */
	const char **upgrades; /* protocols that a stream can be upgraded to, lower case */
	uint32_t upgrade_cnt;
	const char **forward_headers; /* lower case */
	uint32_t forward_header_cnt;
	struct sl_cfg_rules request_rules, reply_rules;
	int8_t policy;             /* overrides the pool's batch policy; -1 not */
	uint16_t datagram_service; /* id by which datagrams name this route; 0 none */
	int line;
};

struct sl_cfg_limits {
	uint32_t max_connections, max_half_open;
	uint32_t max_exchanges;
	uint32_t max_promoted; /* connections of a worker */
	/* Shares of a worker that one client address may use, 0..1; 1: no limit. */
	double address_connections; /* from 2 on: a number of connections */
	double address_exchanges, address_reading, address_frames;
	uint32_t address_requests; /* per second; 0: no limit */
	uint64_t frame_memory;     /* per worker: UMEM size */
	uint64_t reorder_memory;
	uint32_t max_head, max_target, max_headers, max_pipeline, max_streams;
	uint64_t max_body, max_message;
	uint64_t header_timeout_ns, idle_timeout_ns, body_timeout_ns, send_timeout_ns;
	uint64_t body_rate, send_rate; /* bytes per second, at the least; 0: any */
	uint64_t keepalive_ns, drain_timeout_ns;
	bool newreno, rst_closed_ports;
	uint8_t path; /* enum sl_path_policy */
};

/* Roles of clients of the admin endpoint; each includes the rights of those before it. */
enum sl_admin_role { SL_ADMIN_NOBODY, SL_ADMIN_READ, SL_ADMIN_OPERATE };
enum { SL_CFG_TOKEN_MIN = 16, SL_CFG_TOKEN_MAX = 256, SL_CFG_SOCKET_MAX = 100 };
#define SL_RUN_DIR "/run/sluice"

struct sl_cfg_admin {
	const char *socket;        /* a path, "auto" or "none" */
	const char *owner, *group; /* account of the socket; NULL: the gateway's at its start */
	uint8_t group_role;        /* enum sl_admin_role */
	const char *address;
	uint16_t port;          /* 0: no TCP */
	const char *token_file; /* NULL: none is asked for */
	const char **hosts;     /* values of Host that are allowed besides the address */
	uint32_t host_cnt;
	int line;
};

enum sl_access_log_format { SL_ACCESS_LOG_JSON, SL_ACCESS_LOG_COMBINED };

/*
 * Optional fields of a line: name in C, name in the file. A line always has time, peer, request,
 * status, outcome, reason and bytes. Keys and lines are generated from this list.
 */
#define SL_LOG_FIELDS(X)                                                                           \
	X(LISTENER, "listener")                                                                    \
	X(TLS, "tls")                                                                              \
	X(TLS_SUBJECT, "tls_subject")                                                              \
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
	uint8_t format;   /* enum sl_access_log_format */
	uint32_t fields;  /* bit per enum sl_log_field; 0: all of them */
	double sample;    /* share of the requests that went well; all others are logged */
};

static inline uint32_t sl_log_fields(const struct sl_cfg_access_log *l)
{
	return l->fields ? l->fields : (1u << SL_LOG_FIELD_CNT) - 1;
}

#define SL_AUTO UINT64_MAX /* a duration that is measured, not given */

struct sl_cfg_setting {
	const char *text; /* "listener web.port = 8080" */
	bool restart;     /* takes effect at the next start only */
};

/* The gateway's own agents, for backends that are servers. */
struct sl_cfg_agents {
	uint32_t count;
	int32_t cpus[SL_CFG_MAX_AGENTS];
	uint32_t cpu_cnt;    /* 0: not pinned */
	uint32_t server_cnt; /* backends that are served by them; 0: none is started */
};

/* Lines of `sl_config` and its parts count through the file and all that it includes. */
struct sl_cfg_location {
	const char *file;
	int line;
};

struct sl_cfg_segment {
	int first; /* line of this piece's first line */
	struct sl_cfg_location at;
};

/* A former name of a key that the file uses. */
struct sl_cfg_former_key {
	int line;
	const char *name, *now; /* "limits.keepalive", "tcp.keepalive" */
};

struct sl_config {
	const char *file;
	struct sl_cfg_segment *pieces; /* segments of the file and its included files */
	uint32_t piece_cnt;
	const char **sources; /* included files, and "FOLDER/" where patterns look for them */
	uint32_t source_cnt;
	struct sl_cfg_former_key *former_keys;
	uint32_t former_key_cnt;
	struct sl_cfg_interface *interfaces;
	uint32_t interface_cnt;
	uint32_t worker_cnt;
	int32_t cpus[SL_MAX_WORKERS]; /* -1: not pinned */
	uint64_t spin_ns;             /* how long a worker polls before it sleeps, or SL_AUTO */
	struct sl_cfg_listener *listeners;
	uint32_t listener_cnt;
	struct sl_cfg_pool *pools;
	uint32_t pool_cnt;
	struct sl_cfg_route *routes; /* longest prefix first */
	uint32_t route_cnt;
	struct sl_cfg_limits limits;
	struct sl_cfg_admin admin;
	struct sl_cfg_access_log access_log;
	struct sl_cfg_agents agents;
	const char *user; /* account after the start; "root": unchanged, without capabilities */
	const char **descriptor_sets; /* gRPC reflection */
	uint32_t descriptor_set_cnt;
	int descriptor_sets_line, cpus_line, user_line;
	struct sl_descriptors *descriptors; /* their index; set by the caller */
	uint8_t log_level;                  /* enum sl_log_level */
	struct sl_cfg_setting *settings;    /* settings in the file's order */
	uint32_t setting_cnt;
	void *arena;
	void (*release)(struct sl_config *c); /* frees what other modules added; NULL: nothing */
};

/* "192.0.2.0/24", "fd00::/8", or an address; false if it is none, or has bits beyond its length. */
bool sl_config_parse_prefix(const char *text, struct sl_addr_prefix *p);
/* Returns true if one of the prefixes contains the address; `deny` is not considered. */
bool sl_config_covers(const struct sl_cfg_prefixes *p, const struct sl_addr *a);

enum {
	SL_CFG_FILE_MAX = 4 << 20,    /* bytes of a file and all that it includes */
	SL_CFG_INCLUDE_DEPTH = 8,     /* files that include each other, one in the other */
	SL_CFG_MAX_INCLUDES = 512,    /* files that a configuration includes */
	SL_CFG_TARGET_MAX = 32 << 10, /* bytes of a request target */
	SL_CFG_MAX_PREFIXES = 4096,   /* per interface */
	SL_CFG_MAX_INTERFACES = 16,
	SL_CFG_MAX_BACKENDS = 1024, /* per pool */
	SL_CFG_SUBSET = 256,        /* default number of backends per worker */
	SL_CFG_MAX_ROUTES = 1024,
	SL_CFG_MAX_HOSTS = 64,         /* per route */
	SL_CFG_MAX_CERTIFICATES = 256, /* per listener */
	SL_CFG_MAX_HANDSHAKE_THREADS = 16
};

/*
 * Returns NULL and in err a line for each mistake, with '\n' between them; those for which err has
 * no room are counted in the last line. A loaded file must be complete: at least one interface,
 * listener and route; parsed text need not (tests and benches).
 */
enum { SL_CFG_ERR_LEN = 32 << 10 }; /* holds most of what a file can have wrong */
struct sl_config *sl_config_load(const char *file, struct sl_err *err);
/*
 * The same, but nothing of this host is looked at: neither accounts nor the file's owner and mode.
 * sl_config_load() requires a file that root, the caller's account or the account behind sudo
 * owns and no other account can write. If it returns NULL, err has the mistakes of sl_config_check_system() too.
 */
struct sl_config *sl_config_load_offline(const char *file, struct sl_err *err);
/* Returns true if the file is correct as far as it goes, but names no interface. */
bool sl_config_lacks_interface(const char *file);
struct sl_config *sl_config_parse(const char *text, const char *name, struct sl_err *err);
/* Interfaces exist and have those queues, key files can be read. 0 or -1 and lines as above. */
int sl_config_check_system(const struct sl_config *c, struct sl_err *err);
/*
 * Calls fn with a line for each thing that is allowed, but seldom meant: a listener at an address
 * that this host does not have, a pool that no route leads to, the former name of a key.
 */
/* `line`: "FILE:LINE: text", without the word warning. */
typedef void sl_config_warn_fn(void *arg, const char *line);
void sl_config_each_warning(const struct sl_config *c, sl_config_warn_fn *fn, void *arg);
/* The same for former names of keys only, which is part of sl_config_each_warning(). */
void sl_config_each_former_key(const struct sl_config *c, sl_config_warn_fn *fn, void *arg);
void sl_config_free(struct sl_config *c);
/* The file and line of a line that a part of the configuration has. */
struct sl_cfg_location sl_config_location(const struct sl_config *c, int line);

/*
 * Where the admin endpoint's Unix socket is: what the file says, or by default
 * SL_RUN_DIR/INTERFACE.sock; "" for none. `in_netns`: the default of a gateway in a network
 * namespace where another one has that name; false if there is no such.
 */
bool sl_config_admin_socket(const struct sl_config *c, bool in_netns, char path[108]);
/*
 * Returns true if `file` is a default name, "eth0.sock" or "eth0@4026531840.sock", of an interface
 * of this network namespace. Other names in SL_RUN_DIR are not a gateway's.
 */
bool sl_config_is_admin_socket(const char *file);

/*
 * Calls fn for each setting that only one of the two files has, or has with another value; of those
 * that need a restart, or of those that do not.
 */
typedef void sl_config_diff_fn(void *arg, const char *key);
void sl_config_diff(const struct sl_config *a, const struct sl_config *b, bool restart,
		    sl_config_diff_fn *fn, void *arg);

/* Copies settings that need a restart from `now` to `next`. */
void sl_config_keep(struct sl_config *next, const struct sl_config *now);

/* The reference: each key of each block, in the order of the table. */
struct sl_config_key {
	const char *block, *name;
	char allowed[400];
	const char *fallback; /* the default as it would be written; NULL: none */
	bool list, required, restart;
	const char *help;
};
void sl_config_each_key(void (*fn)(void *arg, const struct sl_config_key *key), void *arg);

#endif
