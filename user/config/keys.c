/* SPDX-License-Identifier: Apache-2.0 */
#include "config/keys.h"

#include <stdio.h>
#include <string.h>

#include "base/check.h"
#include "sluice/rpc_wire.h"

#define FIELD(type, field) sizeof(((type *)0)->field), offsetof(type, field)
#define US                 UINT64_C(1000)
#define MS                 UINT64_C(1000000)
#define SEC                UINT64_C(1000000000)
#define KIB                UINT64_C(1024)
#define MIB                (KIB * KIB)
#define GIB                (KIB * MIB)

static const struct conf_name attach_modes[] = {
	{"auto", SL_ATTACH_AUTO},
	{"native", SL_ATTACH_NATIVE},
	{"generic", SL_ATTACH_GENERIC},
	{"adopt", SL_ATTACH_ADOPT},
	{0},
};
static const struct conf_name fair_keys[] = {
	{"address", SL_FAIR_ADDRESS},
	{"header", SL_FAIR_HEADER},
	{"none", SL_FAIR_NONE},
	{0},
};
static const struct conf_name policies[] = {
	{"adaptive", SL_POLICY_ADAPTIVE},
	{"fixed", SL_POLICY_FIXED},
	{"aimd", SL_POLICY_AIMD},
	{0},
};
static const struct conf_name route_policies[] = {
	{"pool", -1},
	{"adaptive", SL_POLICY_ADAPTIVE},
	{"fixed", SL_POLICY_FIXED},
	{"aimd", SL_POLICY_AIMD},
	{0},
};
static const struct conf_name priorities[] = {
	{"auto", -1},
	{"latency", SL_CLASS_LATENCY},
	{"normal", SL_CLASS_NORMAL},
	{"bulk", SL_CLASS_BULK},
	{0},
};
static const struct conf_name idempotence[] = {
	{"auto", -1},
	{"yes", 1},
	{"no", 0},
	{0},
};

#define ROOT(name_, type_, f, ...)                                                                 \
	{                                                                                          \
		CONF_ROOT, false, false, FIELD(struct sl_config, f), name_, &type_, __VA_ARGS__    \
	}
#define ROOT_LIST(name_, type_, f, ...)                                                            \
	{                                                                                          \
		CONF_ROOT, true, false, FIELD(struct sl_config, f), name_, &type_, __VA_ARGS__     \
	}
#define INTERFACE(name_, type_, list_, f, ...)                                                     \
	{                                                                                          \
		CONF_INTERFACE, list_, false, FIELD(struct sl_cfg_interface, f), name_, &type_,    \
			__VA_ARGS__, .restart = true                                               \
	}
#define WORKERS(name_, type_, list_, f, ...)                                                       \
	{                                                                                          \
		CONF_WORKERS, list_, false, FIELD(struct sl_config, f), name_, &type_,             \
			__VA_ARGS__, .restart = true                                               \
	}
#define LISTENER(name_, type_, list_, req, f, ...)                                                 \
	{                                                                                          \
		CONF_LISTENER, list_, req, FIELD(struct sl_cfg_listener, f), name_, &type_,        \
			__VA_ARGS__                                                                \
	}
#define POOL(name_, type_, f, ...)                                                                 \
	{                                                                                          \
		CONF_POOL, false, false, FIELD(struct sl_cfg_pool, f), name_, &type_, __VA_ARGS__  \
	}
#define BACKEND(name_, type_, req, f, ...)                                                         \
	{                                                                                          \
		CONF_BACKEND, false, req, FIELD(struct sl_cfg_backend, f), name_, &type_,          \
			__VA_ARGS__                                                                \
	}
#define BATCH(name_, type_, f, ...)                                                                \
	{                                                                                          \
		CONF_BATCH, false, false, FIELD(struct sl_cfg_batch, f), name_, &type_,            \
			__VA_ARGS__                                                                \
	}
#define ROUTE(name_, type_, list_, f, ...)                                                         \
	{                                                                                          \
		CONF_ROUTE, list_, false, FIELD(struct conf_route_ref, f), name_, &type_,          \
			__VA_ARGS__                                                                \
	}
#define LIMIT(name_, type_, f, ...)                                                                \
	{                                                                                          \
		CONF_LIMITS, false, false, FIELD(struct sl_config, limits.f), name_, &type_,       \
			__VA_ARGS__                                                                \
	}
#define ADMIN(name_, type_, f, ...)                                                                \
	{                                                                                          \
		CONF_ADMIN, false, false, FIELD(struct sl_config, f), name_, &type_, __VA_ARGS__,  \
			.restart = true                                                            \
	}

/* clang-format off */
const struct conf_key conf_keys[] = {
	ROOT("user", conf_account, user, 1, 32, .restart = true, .what = "the name of an account",
	     .help = "account to run as once everything is attached; backends on shm have to "
		     "serve it, and key files be readable for it"),
	ROOT("log_level", conf_log_level, log_level, .fallback = "info",
	     .what = "one of err, warn, info, debug", .help = "what is logged"),
	ROOT_LIST("descriptor_sets", conf_files, descriptor_sets,
		  .restart = true, .what = "paths of compiled descriptor sets (protoc -o)",
		  .help = "gRPC services that reflection tells about"),

	INTERFACE("mode", conf_enum, false, mode, .fallback = "auto", .names = attach_modes,
		  .help = "how the XDP program is attached; adopt: an operator has attached it"),
	INTERFACE("zero_copy", conf_bool, false, zero_copy, .fallback = "yes",
		  .help = "use zero-copy AF_XDP where the driver has it"),
	INTERFACE("busy_poll", conf_bool, false, busy_poll, .fallback = "no",
		  .help = "SO_PREFER_BUSY_POLL on the sockets"),
	INTERFACE("queues", conf_queues, true, queues, 0, SL_MAX_QUEUES - 1,
		  .what = "receive queues from 0 to 63, each once",
		  .help = "queues to serve; none: all of them"),
	INTERFACE("ring_size", conf_pow2, false, ring_size, 64, 16384, "2048",
		  .help = "descriptors in each AF_XDP ring"),

	WORKERS("count", conf_uint, false, worker_cnt, 1, SL_MAX_WORKERS, "1",
		.help = "worker threads; queues are dealt out to them in turn"),
	WORKERS("cpus", conf_cpus, true, cpus, 0, 4095,
		.what = "processors from 0 to 4095, one per worker",
		.help = "processors the workers are pinned to; none: not pinned"),
	WORKERS("spin", conf_duration_or_auto, false, spin_ns, 0, 100 * MS, "auto",
		.help = "how long a worker polls on before it sleeps; auto: as long as waking it "
			"costs, which is measured at the start"),

	LISTENER("address", conf_address, false, false, addr, .fallback = "*",
		 .what = "an IPv4 or IPv6 address, or *",
		 .help = "address that is served; *: any address of the host"),
	LISTENER("port", conf_uint, false, true, port, 1, 65535, .help = "TCP and UDP port"),
	LISTENER("protocols", conf_protocols, true, false, http, .fallback = "http",
		 .what = "http, datagram",
		 .help = "http: HTTP/1.1, HTTP/2 and gRPC over TCP; datagram: requests over UDP"),

	POOL("max_queue", conf_uint, max_queue, 1, 1000000, "4096",
	     .help = "requests waiting in each worker; above it 503"),
	POOL("max_body", conf_size, max_body, 0, SL_RPC_MAX_MESSAGE, .fallback = "0",
	     .help = "largest request body; 0: as limits.max_body"),
	POOL("fair", conf_enum, fair, .fallback = "address", .names = fair_keys,
	     .help = "what shares of a full queue go by"),
	POOL("fair_header", conf_header, fair_header, .what = "the name of a header",
	     .help = "header that names the client; with fair = header"),

	BACKEND("endpoint", conf_endpoint, true, endpoint,
		.what = "shm:///PATH (of at most 100 bytes) or rdma://ADDRESS:PORT",
		.help = "where the backend listens"),
	BACKEND("fallback", conf_endpoint, false, fallback,
		.what = "shm:///PATH (of at most 100 bytes) or rdma://ADDRESS:PORT",
		.help = "endpoint used while the first cannot be reached; log, status and metrics "
			"say so; without it there is no other way"),
	BACKEND("key_file", conf_absolute, false, key_file, .what = "the absolute path of a file",
		.help = "shared key that an rdma peer must prove"),

	BATCH("policy", conf_enum, policy, .fallback = "adaptive", .names = policies,
	      .help = "what decides on the size of batches"),
	BATCH("max_size", conf_uint, max_size, 1, SL_RPC_MAX_BATCH, "256",
	      .help = "no batch is larger"),
	BATCH("bound", conf_duration, bound_ns, 50 * US, 600 * SEC, "50ms",
	      .help = "adaptive, aimd: latency that 99 of 100 requests must keep"),
	BATCH("size", conf_uint, size, 1, SL_RPC_MAX_BATCH, "1", .help = "fixed: requests per batch"),
	BATCH("delay", conf_duration, delay_ns, 0, 10 * SEC, "0",
	      .help = "fixed: how long a batch may wait to be full"),
	BATCH("eta", conf_share, eta, .fallback = "0",
	      .help = "adaptive: 0 never waits, 1 spends all slack on larger batches"),

	ROUTE("methods", conf_methods, true, route.methods,
	      .what = "GET, HEAD, POST, PUT, DELETE, OPTIONS, PATCH",
	      .help = "methods that this route answers, GET also HEAD; other routes of the same "
		      "prefix may have others, what none of them has gets 405; none: all the rest"),
	ROUTE("pool", conf_reference, false, pool, .what = "the name of a pool",
	      .help = "backends that answer"),
	ROUTE("reply", conf_uint, false, route.reply_status, 200, 599,
	      .help = "fixed reply with this status, instead of a pool"),
	ROUTE("body", conf_body, false, route.reply_body, 0, 16384,
	      .what = "a text of at most 16384 bytes", .help = "body of the fixed reply"),
	ROUTE("type", conf_string, false, route.reply_type, 1, 128, "text/plain",
	      .what = "a media type", .help = "content type of the fixed reply"),
	ROUTE("deadline", conf_duration, false, route.deadline_ns, 0, 86400 * SEC, "0",
	      .help = "time a request has unless it says so itself; 0: no end"),
	ROUTE("deadline_header", conf_header, false, route.deadline_header,
	      .what = "the name of a header",
	      .help = "request header with the time that is left, in milliseconds"),
	ROUTE("max_body", conf_size, false, route.max_body, 0, SL_RPC_MAX_MESSAGE, "0",
	      .help = "largest request body, above it 413; 0: as its pool"),
	ROUTE("priority", conf_enum, false, route.priority, .fallback = "auto", .names = priorities,
	      .help = "class on the way to the backend; auto: by the request's urgency"),
	ROUTE("idempotent", conf_enum, false, route.idempotent, .fallback = "auto",
	      .names = idempotence, .help = "may be sent again; auto: by its method"),
	ROUTE("strip_prefix", conf_bool, false, route.strip_prefix, .fallback = "yes",
	      .help = "the backend sees the path behind the prefix only"),
	ROUTE("forward_headers", conf_headers, true, route.forward_headers,
	      .what = "names of headers, none of them hop by hop",
	      .help = "request headers that the backend sees"),
	ROUTE("policy", conf_enum, false, route.policy, .fallback = "pool", .names = route_policies,
	      .help = "batch policy instead of the pool's"),
	ROUTE("datagram_service", conf_uint, false, route.datagram_service, 0, 65534, "0",
	      .help = "number by which datagrams name this route; 0: not reachable by them"),

	LIMIT("max_connections", conf_uint, max_connections, 16, 4000000, "65536",
	      .restart = true, .help = "connections per worker"),
	LIMIT("max_half_open", conf_uint, max_half_open, 16, 1000000, "4096",
	      .restart = true, .help = "unfinished handshakes per worker; above it SYN cookies"),
	LIMIT("max_per_address", conf_uint, max_per_address, 0, 4000000, "0",
	      .restart = true, .help = "connections of one IPv4 address or IPv6 /64 per worker; 0: no limit"),
	LIMIT("max_exchanges", conf_uint, max_exchanges, 16, 1000000, "16384",
	      .restart = true, .help = "requests under way per worker"),
	LIMIT("frame_memory", conf_size, frame_memory, 4 * MIB, 64 * GIB, "128m",
	      .restart = true, .help = "memory for packets and bodies per worker"),
	LIMIT("max_head", conf_size, max_head, 512, 64 * KIB, "16k",
	      .restart = true, .help = "request line and headers; above it 431"),
	LIMIT("max_target", conf_size, max_target, 64, 32 * KIB, "8k",
	      .help = "request line; above it 414"),
	LIMIT("max_headers", conf_uint, max_headers, 8, 1000, "100",
	      .help = "header fields of a request; above it 431"),
	LIMIT("max_pipeline", conf_uint, max_pipeline, 1, 1024, "32",
	      .help = "HTTP/1.1 requests without reply on a connection"),
	LIMIT("max_streams", conf_uint, max_streams, 1, 10000, "128",
	      .help = "HTTP/2 streams at a time on a connection"),
	LIMIT("max_body", conf_size, max_body, 0, SL_RPC_MAX_MESSAGE, "16m",
	      .help = "largest request body; above it 413"),
	LIMIT("max_message", conf_size, max_message, 1, SL_RPC_MAX_MESSAGE, "64m",
	      .help = "largest gRPC message"),
	LIMIT("header_timeout", conf_duration, header_timeout_ns, 100 * MS, 3600 * SEC, "10s",
	      .help = "for a request head to be complete"),
	LIMIT("idle_timeout", conf_duration, idle_timeout_ns, 100 * MS, 86400 * SEC, "60s",
	      .help = "for a connection without requests"),
	LIMIT("body_timeout", conf_duration, body_timeout_ns, 100 * MS, 3600 * SEC, "30s",
	      .help = "without a byte of a request body"),
	LIMIT("send_timeout", conf_duration, send_timeout_ns, 100 * MS, 3600 * SEC, "30s",
	      .help = "without progress of a reply"),
	LIMIT("keepalive", conf_duration, keepalive_ns, 0, 86400 * SEC, "2m",
	      .restart = true, .help = "idle time before TCP keep-alive probes; 0: none"),
	LIMIT("drain_timeout", conf_duration, drain_timeout_ns, 0, 3600 * SEC, "15s",
	      .help = "for requests to finish on SIGTERM"),
	LIMIT("newreno", conf_bool, newreno, .fallback = "no", .restart = true, .help = "NewReno instead of CUBIC"),
	LIMIT("rst_closed_ports", conf_bool, rst_closed_ports, .fallback = "no",
	      .restart = true, .help = "answer segments for closed ports of served addresses"),

	ADMIN("address", conf_admin_address, admin_address, .fallback = "127.0.0.1",
	      .what = "an IPv4 or IPv6 address", .help = "address of the admin endpoint"),
	ADMIN("port", conf_uint, admin_port, 0, 65535, "9900",
	      .help = "port of the admin endpoint; 0: none"),
};
/* clang-format on */
const size_t conf_key_cnt = SL_ARRAY_LEN(conf_keys);

static const char *const block_names[CONF_BLOCK_CNT] = {
	[CONF_ROOT] = "",
	[CONF_INTERFACE] = "interface",
	[CONF_WORKERS] = "workers",
	[CONF_LISTENER] = "listener",
	[CONF_POOL] = "pool",
	[CONF_BACKEND] = "pool.backend",
	[CONF_BATCH] = "pool.batch",
	[CONF_ROUTE] = "route",
	[CONF_LIMITS] = "limits",
	[CONF_ADMIN] = "admin",
};

const char *conf_block_name(enum conf_block block)
{
	return block_names[block];
}

int conf_key_find(enum conf_block block, const char *name)
{
	for (size_t i = 0; i < conf_key_cnt; i++) {
		if (conf_keys[i].block == block && strcmp(conf_keys[i].name, name) == 0)
			return (int)i;
	}
	return -1;
}

void conf_key_allowed(const struct conf_key *k, char *buf, size_t len)
{
	if (k->what)
		snprintf(buf, len, "%s", k->what);
	else
		k->type->allowed(k, buf, len);
}

void sl_config_each_key(void (*fn)(void *arg, const struct sl_config_key *key), void *arg)
{
	for (size_t i = 0; i < conf_key_cnt; i++) {
		const struct conf_key *k = &conf_keys[i];
		struct sl_config_key doc = {
			.block = block_names[k->block],
			.name = k->name,
			.fallback = k->fallback,
			.list = k->list,
			.required = k->required,
			.restart = k->restart,
			.help = k->help,
		};

		conf_key_allowed(k, doc.allowed, sizeof(doc.allowed));
		fn(arg, &doc);
	}
}
