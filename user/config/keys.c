/* SPDX-License-Identifier: Apache-2.0 */
#include "config/keys.h"

#include <stdio.h>
#include <string.h>

#include "base/check.h"
#include "config/defaults.h"
#include "sluice/rpc_wire.h"

#define FIELD(type, field) sizeof(((type *)0)->field), offsetof(type, field)
#define US                 UINT64_C(1000)
#define MS                 UINT64_C(1000000)
#define SEC                UINT64_C(1000000000)
#define KIB                UINT64_C(1024)
#define MIB                (KIB * KIB)
#define GIB                (KIB * MIB)
#define DEFAULT(name)      SL_DEFAULT_TEXT(SL_DEFAULT_##name)

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
/* Those that only say what is let through. */
#define EDGE(name_, type_, list_, f, ...)                                                          \
	{                                                                                          \
		CONF_INTERFACE, list_, false, FIELD(struct sl_cfg_interface, f), name_, &type_,    \
			__VA_ARGS__                                                                \
	}
#define LISTENER(name_, type_, list_, req, f, ...)                                                 \
	{                                                                                          \
		CONF_LISTENER, list_, req, FIELD(struct sl_cfg_listener, f), name_, &type_,        \
			__VA_ARGS__                                                                \
	}
#define TLS(name_, type_, list_, f, ...)                                                           \
	{                                                                                          \
		CONF_TLS, list_, false, FIELD(struct sl_cfg_tls, f), name_, &type_, __VA_ARGS__    \
	}
#define POOL(name_, type_, f, ...)                                                                 \
	{                                                                                          \
		CONF_POOL, false, false, FIELD(struct sl_cfg_pool, f), name_, &type_, __VA_ARGS__  \
	}
#define ENDPOINTS "shm:///PATH (of at most 100 bytes), rdma://ADDRESS:PORT, rdma+ud://ADDRESS:PORT"
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
#define RESPOND(name_, type_, f, ...)                                                              \
	{                                                                                          \
		CONF_RESPOND, false, false, FIELD(struct conf_route_ref, f), name_, &type_,        \
			__VA_ARGS__                                                                \
	}
#define TCP(name_, type_, f, ...)                                                                  \
	{                                                                                          \
		CONF_TCP, false, false, FIELD(struct sl_config, limits.f), name_, &type_,          \
			__VA_ARGS__, .restart = true                                               \
	}
#define MEMORY(name_, type_, f, ...)                                                               \
	{                                                                                          \
		CONF_MEMORY, false, false, FIELD(struct sl_config, limits.f), name_, &type_,       \
			__VA_ARGS__, .restart = true                                               \
	}
#define ADMIN(name_, type_, list_, f, ...)                                                         \
	{                                                                                          \
		CONF_ADMIN, list_, false, FIELD(struct sl_config, admin.f), name_, &type_,         \
			__VA_ARGS__, .restart = true                                               \
	}
#define AGENTS(name_, type_, list_, f, ...)                                                        \
	{                                                                                          \
		CONF_AGENTS, list_, false, FIELD(struct sl_config, agents.f), name_, &type_,       \
			__VA_ARGS__, .restart = true                                               \
	}
#define ACCESS_LOG(name_, type_, list_, f, ...)                                                    \
	{                                                                                          \
		CONF_ACCESS_LOG, list_, false, FIELD(struct sl_config, access_log.f), name_,       \
			&type_, __VA_ARGS__                                                        \
	}

/* clang-format off */
const struct conf_key conf_keys[] = {
	ROOT("user", conf_account, user, 1, 32, .restart = true, .fallback = "sluice",
	     .what = "the name of an account",
	     .help = "account to run as once everything is attached; backends on shm have to "
		     "serve it, and this file and key files be readable for it; root: stay uid 0, "
		     "without capabilities"),
	ROOT("log_level", conf_log_level, log_level, .fallback = "info",
	     .what = "one of err, warn, info, debug", .help = "what is logged"),
	ROOT("request_path", conf_enum, limits.path, .fallback = "check",
	     .names = conf_path_policies + 1,
	     .help = "what happens to paths that servers read in several ways (dot segments, empty "
		     "segments, %2f, encoded letters). check: passes a path on unchanged where all "
		     "readings lead to one route; 400 where the decoded path leaves its route or climbs "
		     "above the root. refuse: 400. normalise: makes a plain path, or 400. raw: no check"),
	/* Its text replaces the statement before any key is read, include.h. */
	ROOT_LIST("include", conf_nowhere, file,
		  .what = "paths, or patterns such as \"conf.d/*.conf\", outside of all blocks",
		  .help = "files that are read in its place, those of a pattern in the order of their "
			  "names; paths are relative to the folder of the file that includes them. "
			  "Included files may include others, up to 8 levels and 512 files; their "
			  "owner and mode are checked as those of this file; a reload reads them again"),
	ROOT_LIST("descriptor_sets", conf_files, descriptor_sets,
		  .restart = true, .what = "paths of compiled descriptor sets (protoc -o)",
		  .help = "gRPC services that reflection tells about"),

	INTERFACE("mode", conf_enum, false, mode, .fallback = "auto", .names = conf_attach_modes,
		  .help = "how the XDP program is attached; adopt: an operator has attached it"),
	INTERFACE("zero_copy", conf_bool, false, zero_copy, .fallback = "yes",
		  .help = "use zero-copy AF_XDP where the driver has it"),
	INTERFACE("busy_poll", conf_bool, false, busy_poll, .fallback = "no",
		  .help = "SO_PREFER_BUSY_POLL on the sockets; effective only if the interface's "
			  "napi_defer_hard_irqs and gro_flush_timeout in sysfs are not 0"),
	INTERFACE("queues", conf_queues, true, queues, 0, SL_MAX_QUEUES - 1,
		  .what = "receive queues from 0 to 63, each once",
		  .help = "queues to serve; none: all of them"),
	INTERFACE("ring_size", conf_pow2, false, ring_size, 64, 16384, "2048",
		  .help = "descriptors in each AF_XDP ring"),

	EDGE("vlan", conf_vlan, false, vlan, .fallback = "none",
	     .what = "none, any, or a number from 1 to 4094",
	     .help = "VLAN from which the listeners are reached; what has another tag is the "
		     "kernel's. A NIC that takes tags off (ethtool -K IF rxvlan off) hides them"),
	EDGE("allow", conf_allow, true, prefixes, .what = "prefixes like 192.0.2.0/24 or fd00::/8",
	     .help = "clients that reach the listeners, if there is one: all others are denied; of "
		     "allow and deny the longest prefix decides"),
	EDGE("deny", conf_deny, true, prefixes, .what = "prefixes like 192.0.2.0/24 or fd00::/8",
	     .help = "clients whose packets to the listeners are dropped, and counted as denied"),

	WORKERS("count", conf_uint, false, worker_cnt, 1, SL_MAX_WORKERS, "1",
		.help = "worker threads; queues are dealt out to them in turn"),
	WORKERS("cpus", conf_cpus, true, cpus, 0, 4095,
		.what = "processors from 0 to 4095, one per worker",
		.help = "processors the workers are pinned to; none: not pinned"),
	WORKERS("busy_poll", conf_duration_or_auto, false, spin_ns, 0, 100 * MS, "auto",
		.help = "how long a worker polls on before it sleeps; auto: as long as waking it "
			"costs, which is measured at the start, or eight times that for a "
			"backend's reply, while that is worth it"),

	LISTENER("address", conf_address, false, false, at, .fallback = "*",
		 .what = "an IPv4 or IPv6 address, or *",
		 .help = "address that is served; *: any address of the host"),
	LISTENER("port", conf_port, false, true, at.port_be, 1, 65535, .help = "TCP and UDP port"),
	LISTENER("protocols", conf_protocols, true, false, http, .fallback = "http",
		 .what = "http, datagram",
		 .help = "http: HTTP/1.1, HTTP/2 and gRPC over TCP; datagram: requests over UDP"),

	LISTENER("proxy_protocol", conf_proxies, true, false, proxies,
		 .what = "up to 4096 addresses and prefixes as 192.0.2.0/24, no bit set beyond the length",
		 .help = "balancers in front of this listener: each of their connections begins with a "
			 "PROXY header, version 1 or 2, and what it says of the client is believed; "
			 "from others such a header is an error"),

	LISTENER("forwarded", conf_enum, false, false, forwarded, .fallback = "replace",
		 .names = conf_forwarded_ways,
		 .help = "x-forwarded-for, -proto, -host and forwarded (RFC 7239) that clients send here: "
			 "replace drops them for the gateway's own; append, for listeners that only "
			 "proxies reach, adds the client to the lists and leaves proto and host; servers "
			 "behind an agent get all of them, other backends those in forward_headers"),

	LISTENER("half_close", conf_enum, false, false, half_close, .fallback = "cancel",
		 .names = conf_half_closes,
		 .help = "what becomes of requests whose client has closed its side of the connection: "
			 "cancel ends those that have no whole answer yet, and the backend stops "
			 "computing, since nothing tells a client that is gone from one that reads on; "
			 "answer is for clients that do"),

	TLS("certificate", conf_certificates, true, certificates,
	    .what = "absolute paths of PEM files, up to 256",
	    .help = "certificates with their chains, each host's first and then its issuers; a client "
		    "that names a host gets the one that has its name, else one with a wildcard for "
		    "it, else the first"),
	TLS("key", conf_private_keys, true, keys, .what = "absolute paths of PEM files, up to 256",
	    .help = "the key of each certificate, in the same order; files that others than owner and "
		    "group may use are refused"),
	TLS("client_ca", conf_file, false, client_ca, .what = "the absolute path of a PEM file",
	    .help = "issuers of certificates that clients show; none: they show none. Backends get "
		    "subject (RFC 2253) and alternative names as sluice-client-subject and "
		    "sluice-client-san, a comma in a name as %2C; who has a text of more than 256 "
		    "bytes, or of other than printable ASCII, is refused"),
	TLS("verify_client", conf_enum, false, client, .fallback = "require", .names = conf_client_certs,
	    .help = "with client_ca: whether a client without a certificate is refused"),
	TLS("ticket_keys", conf_file, false, ticket_keys, .what = "the absolute path of a file",
	    .help = "keys of session tickets, 80 random bytes each, of which the first seals; for "
		    "gateways that share clients; none: the gateway's own, a new one every hour"),
	TLS("handshake_threads", conf_uint, false, handshake_threads, 1,
	    SL_CFG_MAX_HANDSHAKE_THREADS, "1", .restart = true,
	    .help = "threads that make its handshakes; the gateway has as many as the listener that "
		"wants most"),

	POOL("max_queue", conf_uint, max_queue, 1, 1000000, "4096",
	     .help = "requests waiting in each worker; above it 503"),
	POOL("max_body", conf_size, max_body, 0, SL_RPC_MAX_MESSAGE, .fallback = "0",
	     .help = "largest request body; 0: as limits.max_body"),
	POOL("max_reply_head", conf_size, max_reply_head, 1024, SL_RPC_MAX_META, "65528",
	     .help = "bytes of the head of a reply, above it 502"),
	POOL("max_reply_fields", conf_uint, max_reply_fields, 1, SL_RPC_MAX_FIELDS, "256",
	     .help = "fields of the head of a reply, above it 502"),
	POOL("subset", conf_uint_or_auto, subset, 1, SL_CFG_MAX_BACKENDS, "auto",
	     .help = "backends that each worker uses and connects with, so many that each has a worker; "
		     "which they are goes by their names, and changes little when one comes or goes; "
		     "a worker that is connected with few of its own uses others meanwhile; auto: all "
		     "of up to 256, of more 256 or as many as leave out none"),
	POOL("fair_by", conf_enum, fair, .fallback = "address", .names = conf_fair_keys,
	     .help = "what shares of a full queue go by; datagrams, whose sources nothing proves, "
		     "have one share together; header: the client chooses whose share it takes, so "
		     "only where somebody trusted sets that header"),
	POOL("fair_header", conf_header, fair_header, .what = "the name of a header",
	     .help = "header that names the client, with fair_by = header"),

	BACKEND("endpoint", conf_backend_endpoint, true, endpoint,
		.what = ENDPOINTS ", tcp://HOST:PORT, http://HOST:PORT, h2c://HOST:PORT, http+unix:///PATH or h2c+unix:///PATH",
		.help = "where the backend listens: on this host, over RDMA (+ud: by datagrams, which "
			"connects in one round trip and pins nothing per backend, for backends that are "
			"many and seldom used), or over TCP (TLS 1.3 with the shared key); with http and h2c (HTTP/2, gRPC) a server that knows nothing of "
			"sluice, in front of which the gateway starts an agent of its own"),
	BACKEND("concurrency", conf_uint_or_auto, false, concurrency, 1, 65535, "auto",
		.help = "requests that such a server gets at a time from each agent; auto: learnt from its "
			"latency; while others wait, a client address gets half of them at most"),
	BACKEND("host", conf_authority, false, host, .what = "NAME, NAME:PORT or [IPV6]:PORT",
		.help = "what such a server is asked for (Host, and :authority of HTTP/2), where it "
			"tells its sites apart by names that clients do not use; none: what the "
			"client has asked for"),
	BACKEND("bootstrap", conf_endpoint, false, first,
		.what = ENDPOINTS " or tcp://HOST:PORT",
		.help = "endpoint of the same backend that is quicker to connect to, such as rdma+ud:// "
			"beside rdma://: it serves from the first moment on, and the connection goes "
			"on by the other one, with all that is under way, when it carries enough to be "
			"worth that (limits.max_rc_qps), and may come back"),
	BACKEND("fallback", conf_endpoint, false, fallback,
		.what = ENDPOINTS " or tcp://HOST:PORT",
		.help = "endpoint used while the backend's own cannot be reached, of the same backend; "
			"log, status and metrics say so, and the gateway goes back by itself; "
			"without it there is no other way"),
	BACKEND("key_file", conf_absolute, false, key_file, .what = "the absolute path of a file",
		.help = "shared key that an rdma or tcp peer must prove; only its owner may be able "
			"to write it"),
	BACKEND("source", conf_numeric, false, source, .what = "an IPv4 or IPv6 address",
		.help = "address of this host that an rdma endpoint is reached from; without it, the route's"),
	BACKEND("device", conf_string, false, device, 1, 63, .what = "the name of an RDMA device",
		.help = "RDMA device that an rdma endpoint is reached by, as in `rdma link`; without it, "
			"the one that the route goes by"),
	BACKEND("device_port", conf_uint_or_auto, false, device_port, 1, 254, "auto",
		.help = "port of that device"),
	BACKEND("tos", conf_uint, false, tos, 0, 255, "0",
		.help = "type of service of the packets to and from an rdma endpoint, a DSCP times four: "
			"most RoCE fabrics are lossless for one only, such as 104 (DSCP 26)"),
	BACKEND("owner", conf_uid, false, owner, .fallback = "0",
		.what = "an account of this host, or its number",
		.help = "account that may listen at an shm endpoint, beside root and the gateway's "
			"own: whoever listens gets the requests"),

	BATCH("policy", conf_enum, policy, .fallback = "auto", .names = conf_policies,
	      .help = "what decides on the size of batches; direct: nothing waits for others, as "
		      "for backends that queue by themselves; auto: adaptive, but direct where a "
		      "backend is a server"),
	BATCH("max_size", conf_uint, max_size, 1, SL_RPC_MAX_BATCH, "256",
	      .help = "no batch is larger"),
	BATCH("max_latency", conf_duration, bound_ns, 50 * US, 600 * SEC, "50ms",
	      .help = "adaptive, aimd: latency that 99 of 100 requests must keep"),
	BATCH("on_overload", conf_enum, bound_mode, .fallback = "soft", .names = conf_bound_modes,
	      .help = "requests that will miss max_latency: soft refuses them only while the load stays "
		      "above what can be served in time; hard always refuses them"),
	BATCH("size", conf_uint, size, 1, SL_RPC_MAX_BATCH, "1", .help = "fixed: requests per batch"),
	BATCH("delay", conf_duration, delay_ns, 0, 10 * SEC, "0",
	      .help = "fixed: how long a batch may wait to be full"),
	BATCH("slack_use", conf_share, eta, .fallback = "0",
	      .help = "adaptive: 0 never waits, 1 spends all slack on larger batches"),

	ROUTE("host", conf_hosts, true, route.hosts,
	      .what = "up to 64 names of hosts, of which \"*.\" may stand in front of one",
	      .help = "hosts that this route answers; a name before the longest \"*.suffix\", that "
		      "before a route without hosts; none: any host. Of the routes of a host those "
		      "with the listener go first, of these those with a header that is there, then "
		      "the longest prefix; methods come last. Where no prefix matches, the next are asked"),
	ROUTE("listener", conf_route_listeners, true, listeners, .what = "names of listeners",
	      .help = "listeners that this route answers at; none: at any"),
	ROUTE("header", conf_header_field, false, route.header,
	      .what = "a text as \"name: value\", of a header that is about more than a connection",
	      .help = "header that a request must have, with exactly this value, as for a canary; of "
		      "two such routes the longer prefix wins, then the first in the file"),
	ROUTE("methods", conf_methods, true, route.methods,
	      .what = "GET, HEAD, POST, PUT, DELETE, OPTIONS, PATCH",
	      .help = "methods that this route answers, GET also HEAD; other routes of the same "
		      "prefix may have others, what none of them has gets 405; none: all the rest"),
	ROUTE("pool", conf_reference, false, pool, .what = "the name of a pool",
	      .help = "backends that answer"),
	ROUTE("redirect", conf_redirect, false, route.redirect, 0, 512,
	      .what = "a text that begins with http:// or https://, with {host} and {path} in it or not",
	      .help = "where to send the client instead; {host}: the host that it asked for, without "
		      "port; {path}: the path with its query; status 308, or 301, 302, 303 or "
		      "307 of respond.status"),
	ROUTE("deadline", conf_duration, false, route.deadline_ns, 0, 86400 * SEC, "0",
	      .help = "time a request has unless it says so itself; 0: no end"),
	ROUTE("deadline_header", conf_header, false, route.deadline_header,
	      .what = "the name of a header",
	      .help = "request header with the time that is left, in milliseconds"),
	ROUTE("max_body", conf_size, false, route.max_body, 0, SL_RPC_MAX_MESSAGE, "0",
	      .help = "largest request body, above it 413; 0: as its pool"),
	ROUTE("max_reply_head", conf_size, false, route.max_reply_head, 0, SL_RPC_MAX_META, "0",
	      .help = "bytes of the head of a reply, above it 502; 0: as its pool"),
	ROUTE("max_reply_fields", conf_uint, false, route.max_reply_fields, 0, SL_RPC_MAX_FIELDS,
	      "0", .help = "fields of the head of a reply, above it 502; 0: as its pool"),
	ROUTE("priority", conf_enum, false, route.priority, .fallback = "normal",
	      .names = conf_priorities,
	      .help = "class on the way to the backend; auto: as the client says (RFC 9218), who "
		      "then may put itself before all others"),
	ROUTE("idempotent", conf_enum, false, route.idempotent, .fallback = "auto",
	      .names = conf_idempotence, .help = "may be sent again; auto: by its method"),
	ROUTE("stream", conf_enum, false, route.streams, .fallback = "auto", .names = conf_streams,
	      .help = "requests are passed on as they come, each by itself, and replies may come "
		      "meanwhile; backends need on_stream; max_body of the route is the only limit "
		      "of their length; auto: where all backends of the pool are servers, but requests "
		      "of at most 64 KiB are read first, so that they can go to another server, and "
		      "max_body of the pool counts too"),
	ROUTE("continue", conf_enum, false, route.backend_continues, .fallback = "gateway",
	      .names = conf_continuers,
	      .help = "with stream: who says 100 (Continue) to a client that expects it; backend: one "
		      "that calls sl_stream_go_on(), or a server; if it answers without, the body is "
		      "not awaited"),
	ROUTE("stream_idle_timeout", conf_duration, false, route.idle_ns, 0, 86400 * SEC, "300s",
	      .help = "of streams: longest time without a part in either direction; 0: no end"),
	ROUTE("stream_timeout", conf_duration, false, route.max_duration_ns, 0, 30 * 86400 * SEC, "0",
	      .help = "of streams: longest time in all, also if their clients say a later deadline; "
		      "0: no end"),
	ROUTE("max_rate", conf_size, false, route.max_rate, 0, 10 * GIB, "0",
	      .help = "of streams: bytes per second of each in each direction, an eighth of a second's "
		      "worth at once; what is beyond waits where it comes from; 0: any"),
	ROUTE("upgrade", conf_upgrades, true, route.upgrades,
	      .what = "auto, none, or names of protocols such as websocket, but none that carries HTTP (h2c, http, tls)",
	      .help = "with stream: protocols that a client may ask to go on in, by Upgrade (HTTP/1.1) or "
		      "extended CONNECT (HTTP/2); the backend gets the field upgrade and agrees by "
		      "status 101, then bytes go both ways as they are; none: such fields are ignored; "
		      "auto: websocket where all backends are servers of HTTP/1.1, else none"),
	ROUTE("upgrade_timeout", conf_duration, false, route.upgrade_timeout_ns, 0, 86400 * SEC, "30s",
	      .help = "of upgrades: longest time until the backend agrees or refuses, then 504; 0: no "
		      "end"),
	ROUTE("strip_prefix", conf_enum, false, route.strip, .fallback = "auto", .names = conf_strips,
	      .help = "the backend sees the path behind the prefix only, but for calls of gRPC, which "
		      "keep theirs; auto: yes, but not where it is a server"),
	ROUTE("request_path", conf_enum, false, route.path, .fallback = "auto", .names = conf_path_policies,
	      .help = "what becomes of paths that servers read in several ways, where they lead to this "
		      "route; auto: as request_path outside of blocks says"),
	ROUTE("forward_headers", conf_headers, true, route.forward_headers,
	      .what = "names of headers, none of them hop by hop, or \"*\"",
	      .help = "request headers that the backend sees, and trailers of streams; \"*\": all of them, in order, with "
		      "the host that was asked for and the client's address, as an agent on another "
		      "host wants it; so it is without where the pool has servers"),
	ROUTE("set_header", conf_set_header, true, route.request_rules,
	      .what = "up to 32 texts as \"name: value\", each name once, none of a connection, a body or the gateway's own",
	      .help = "request headers that the backend gets, whatever the client says: with {host}, "
		      "{path} (and its query), {scheme} and {client} in the value; or \"name: {replace FROM "
		      "TO}\", which puts TO in the place of FROM at the begin of what the client says"),
	ROUTE("drop_header", conf_drop_header, true, route.request_rules,
	      .what = "names of headers, each once, none of a connection, a body or the gateway's own",
	      .help = "request headers and trailers that the backend does not get"),
	ROUTE("set_reply_header", conf_set_header, true, route.reply_rules,
	      .what = "up to 32 texts as \"name: value\", each name once, none of a connection, a body or the gateway's own",
	      .help = "as set_header, of replies: in place of what the backend says; also of the gateway's own"),
	ROUTE("drop_reply_header", conf_drop_header, true, route.reply_rules,
	      .what = "names of headers, each once, none of a connection, a body or the gateway's own",
	      .help = "reply headers that the client does not get"),
	ROUTE("underscores", conf_enum, false, route.underscores, .fallback = "drop",
	      .names = conf_underscores,
	      .help = "what becomes of request headers and trailers with _ in their names where all are "
		      "passed on: many servers read x_user as x-user, so such fields are dropped, but "
		      "those that forward_headers names; pass: they go on, for servers that tell the "
		      "two apart. Names that would be read as one of the gateway's own (sluice-client-subject, "
		      "x-forwarded-for and others) are dropped always"),
	ROUTE("policy", conf_enum, false, route.policy, .fallback = "pool", .names = conf_route_policies,
	      .help = "batch policy instead of the pool's"),
	ROUTE("datagram_service", conf_uint, false, route.datagram_service, 0, 65534, "0",
	      .help = "number by which datagrams name this route; 0: not reachable by them"),

	RESPOND("status", conf_uint, route.reply_status, 200, 599,
		.help = "status of a fixed reply, instead of a pool; without it 200. Beside redirect: 301, "
			"302, 303 or 307"),
	RESPOND("content_type", conf_string, route.reply_type, 1, 128, "text/plain",
		.what = "a media type", .help = "content type of the fixed reply"),
	RESPOND("body", conf_body, route.reply_body, 0, 16384,
		.what = "a text of at most 16384 bytes", .help = "body of the fixed reply"),

	LIMIT("max_connections", conf_uint, max_connections, 16, 4000000, DEFAULT(MAX_CONNECTIONS),
	      .restart = true, .help = "connections per worker"),
	LIMIT("max_half_open", conf_uint, max_half_open, 16, 1000000, DEFAULT(MAX_HALF_OPEN),
	      .restart = true, .help = "unfinished handshakes per worker, at most a sixteenth of "
					"max_connections; above it SYN cookies"),
	LIMIT("address_connections", conf_share_or_count, address_connections, 0, 4000000, "0.5",
	      .help = "connections that one IPv4 address or IPv6 /64 may have in a worker, as a share of "
		      "max_connections or as a number; 1: no limit, as for a proxy in front"),
	LIMIT("address_exchanges", conf_share, address_exchanges, .fallback = "0.75",
	      .help = "share of max_exchanges that one address may have; above it 503"),
	LIMIT("address_reading", conf_share, address_reading, .fallback = "0.25",
	      .help = "share of max_exchanges that one address may have in requests whose body is "
		      "not complete; above it 503"),
	LIMIT("address_frames", conf_share, address_frames, .fallback = "0.5",
	      .help = "share of memory.frames that requests and replies of one address may take; above "
		      "it 429, and from three quarters of it on its connections send a little at a "
		      "time"),
	LIMIT("address_requests", conf_uint, address_requests, 0, 100000000, "250000",
	      .help = "requests that one address may begin per second and worker, with one second's at "
		      "once; above it 429; 0: no limit, as for a proxy in front, or a test of load "
		      "from one host"),
	LIMIT("max_exchanges", conf_uint, max_exchanges, 16, 1000000, DEFAULT(MAX_EXCHANGES),
	      .restart = true, .help = "requests under way per worker"),
	LIMIT("max_rc_qps", conf_uint, max_promoted, 0, 65535, "32",
	      .help = "RDMA connections (RC queue pairs) of each worker to backends with a bootstrap "
		      "endpoint. A busy connection takes the place of one that has had little traffic "
		      "for at least a second, which goes back to bootstrap. 0: all stay there"),
	LIMIT("max_head", conf_size, max_head, 512, 64 * KIB, DEFAULT(MAX_HEAD_KIB) "k",
	      .restart = true, .help = "request line and headers; above it 431"),
	LIMIT("max_target", conf_size, max_target, 64, SL_CFG_TARGET_MAX, DEFAULT(MAX_TARGET_KIB) "k",
	      .help = "request line; above it 414"),
	LIMIT("max_headers", conf_uint, max_headers, 8, SL_MAX_HEADERS_LIMIT, DEFAULT(MAX_HEADERS),
	      .help = "header fields of a request; above it 431"),
	LIMIT("max_pipeline", conf_uint, max_pipeline, 1, 1024, DEFAULT(MAX_PIPELINE),
	      .help = "HTTP/1.1 requests without reply on a connection"),
	LIMIT("max_streams", conf_uint, max_streams, 1, 10000, DEFAULT(MAX_STREAMS),
	      .help = "HTTP/2 streams at a time on a connection"),
	LIMIT("max_body", conf_size, max_body, 0, SL_RPC_MAX_MESSAGE, DEFAULT(MAX_BODY_MIB) "m",
	      .help = "largest request body, but of streams; above it 413"),
	LIMIT("max_message", conf_size, max_message, 1, SL_RPC_MAX_MESSAGE, DEFAULT(MAX_MESSAGE_MIB) "m",
	      .help = "largest gRPC message"),
	LIMIT("header_timeout", conf_duration, header_timeout_ns, 100 * MS, 3600 * SEC, "10s",
	      .help = "for a request head to be complete"),
	LIMIT("idle_timeout", conf_duration, idle_timeout_ns, 100 * MS, 86400 * SEC, "60s",
	      .help = "for a connection without requests"),
	LIMIT("body_timeout", conf_duration, body_timeout_ns, 100 * MS, 3600 * SEC, "20s",
	      .help = "without a byte of a request body, and what a client may be behind body_rate"),
	LIMIT("body_rate", conf_size, body_rate, 0, GIB, "500",
	      .help = "bytes a second that a request body must come with in the long run; 0: any; "
		      "streams whose backend has nothing to say are exempt from both rates"),
	LIMIT("send_timeout", conf_duration, send_timeout_ns, 100 * MS, 3600 * SEC, "30s",
	      .help = "without progress of a reply, per stream, and what a client may be behind "
		      "send_rate"),
	LIMIT("send_rate", conf_size, send_rate, 0, GIB, "500",
	      .help = "bytes a second that a reply must be taken with in the long run; 0: any"),
	LIMIT("drain_timeout", conf_duration, drain_timeout_ns, 0, 3600 * SEC, "15s",
	      .help = "for requests to finish on SIGTERM"),

	TCP("congestion", conf_enum, newreno, .fallback = "cubic", .names = conf_congestion,
	    .help = "congestion control (RFC 9438, RFC 6582)"),
	TCP("keepalive", conf_duration, keepalive_ns, 0, 86400 * SEC, DEFAULT(KEEPALIVE_S) "s",
	    .help = "idle time before TCP keep-alive probes; 0: no probes"),
	TCP("rst_closed_ports", conf_bool, rst_closed_ports, .fallback = "no",
	    .help = "answer segments to closed ports of served addresses with RST"),

	MEMORY("frames", conf_size, frame_memory, 4 * MIB, 64 * GIB, "128m",
	       .help = "memory for packets and bodies, for each worker"),
	MEMORY("reorder", conf_size, reorder_memory, 0, 64 * GIB, "8m",
	       .help = "part of frames that may hold TCP bytes behind a hole, of all connections of a "
		       "worker together"),

	ADMIN("socket", conf_socket, false, socket, .fallback = "auto",
	      .what = "auto, none, or an absolute path of at most 100 bytes",
	      .help = "Unix socket that takes what changes something (drain, set, reload); auto: "
		      "/run/sluice/INTERFACE.sock of the first interface"),
	ADMIN("owner", conf_string, false, owner, 1, 32, .what = "the name of an account",
	      .help = "account that owns the socket and operates, beside root and the gateway's own"),
	ADMIN("group", conf_string, false, group, 1, 32, .what = "the name of a group",
	      .help = "group whose members may use the socket, as group_role says"),
	ADMIN("group_role", conf_enum, false, group_role, .fallback = "read", .names = conf_roles,
	      .help = "what members of the group may do: look, or change things too"),
	ADMIN("address", conf_numeric, false, address, .fallback = "127.0.0.1",
	      .what = "an IPv4 or IPv6 address",
	      .help = "address at which GETs are answered over TCP; beyond loopback only with a "
		      "token_file"),
	ADMIN("port", conf_uint, false, port, 0, 65535, "9900", .help = "its port; 0: no TCP"),
	ADMIN("token_file", conf_absolute, false, token_file, .what = "the absolute path of a file",
	      .help = "file (mode 600) with a token of 16 to 256 characters, which whoever asks "
		      "over TCP must show (Authorization: Bearer TOKEN, or in a browser as the "
		      "password of any user); /livez and /readyz are "
		      "answered without"),
	ADMIN("hosts", conf_admin_hosts, true, hosts, .what = "names, or NAME:PORT",
	      .help = "names besides the address and localhost that a Host header over TCP may have"),

	AGENTS("count", conf_uint, false, count, 1, SL_CFG_MAX_AGENTS, "1",
	       .help = "processes that stand in front of backends which are servers; workers "
		       "are dealt out to them in turn"),
	AGENTS("cpus", conf_agent_cpus, true, cpus, 0, 4095,
	       .what = "processors from 0 to 4095, one per agent",
	       .help = "processors the agents are pinned to; none: not pinned"),

	ACCESS_LOG("file", conf_log_file, false, file, .restart = true, .what = "an absolute path, or -",
		   .help = "a line for each request that was read; opened again on SIGUSR1, and when "
			   "it was renamed or removed, for which its folder has to let the gateway's "
			   "account make files; -: standard output"),
	ACCESS_LOG("format", conf_enum, false, format, .fallback = "json", .names = conf_log_formats,
		   .help = "json: an object in each line; combined: as other servers have it, with "
			   "less in it"),
	ACCESS_LOG("fields", conf_log_fields, true, fields,
		   .what = "none, or names of listener, tls, tls_subject, host, user_agent, referer, "
			   "request_id, trace_id, route, pool, backend, batch, times",
		   .help = "what lines have beside time, peer, method, path, status, outcome, reason "
			   "and bytes; by default all. request_id is the client's X-Request-Id, trace_id "
			   "of its traceparent"),
	ACCESS_LOG("sample", conf_share, false, sample, .fallback = "1",
		   .help = "share of the requests answered below 400 that gets a line; all others "
			   "do"),
};
/* clang-format on */
const size_t conf_key_cnt = SL_ARRAY_LEN(conf_keys);
_Static_assert(SL_ARRAY_LEN(conf_keys) <= CONF_MAX_KEYS, "a parser has a flag for each key");
