/* SPDX-License-Identifier: Apache-2.0 */
#include "config/key_rows.h"

#include <stdio.h>
#include <string.h>

#include "base/check.h"
#include "config/client_keys.h"
#include "config/trace_keys.h"
#include "sluice/types.h"

/* clang-format off */
const struct conf_key conf_keys[] = {
	ROOT("user", conf_account, user, 1, 32, .restart = true, .fallback = "sluice",
	     .what = "the name of an account",
	     .help = "account of the running gateway. shm backends must accept it, and it must "
	     	"be able to read this file and key files. root: keeps uid 0 without "
	     	"capabilities"),
	ROOT("zone", conf_string, zone, 1, 63, .what = "a name of 1 to 63 characters",
	     .help = "where this gateway runs, such as a rack or data centre. Pools prefer their "
	     	"backends of this zone (backend.zone); none: zones do not matter"),
	ROOT("log_level", conf_log_level, log_level, .fallback = "info",
	     .what = "one of err, warn, info, debug",
	      .help = "least severe level that is logged"),
	ROOT("request_path", conf_enum, limits.path, .fallback = "check",
	     .names = conf_path_policies + 1,
	     .help = "handling of paths that servers read in several ways: dot segments, empty "
	     	"segments, %2f, encoded letters. check: passes the path unchanged if all "
	     	"readings select one route, else 400. refuse: 400. normalise: rewrites to "
	     	"a plain path, or 400. raw: no check"),
	ROOT_LIST("include", conf_nowhere, file,
		  .what = "paths, or patterns such as \"conf.d/*.conf\", outside of all blocks",
		  .help = "files to read in place of this statement, in the order of their "
		  	"names. Relative paths start at the folder of the including file. At "
		  	"most 8 levels and 512 files. Owner and mode are checked as for this "
		  	"file. A reload reads them again"),
	ROOT_LIST("descriptor_sets", conf_files, descriptor_sets,
		  .restart = true, .what = "paths of compiled descriptor sets (protoc -o)",
		  .help = "gRPC services that reflection reports"),

	INTERFACE("mode", conf_enum, false, mode, .fallback = "auto", .names = conf_attach_modes,
		  .help = "how the XDP program is attached. adopt: the operator has attached it. "
		  	"socket: no XDP; kernel sockets serve the interface, HTTP only. auto: "
		  	"native, generic, or socket where XDP is not possible"),
	INTERFACE("zero_copy", conf_bool, false, zero_copy, .fallback = "yes",
		  .help = "zero-copy AF_XDP if the driver supports it"),
	INTERFACE("busy_poll", conf_bool, false, busy_poll, .fallback = "no",
		  .help = "SO_PREFER_BUSY_POLL on the sockets. Effective only if "
		  	"napi_defer_hard_irqs and gro_flush_timeout of the interface are not "
		  	"0"),
	INTERFACE("queues", conf_queues, true, queues, 0, SL_MAX_QUEUES - 1,
		  .what = "receive queues from 0 to 63, each once",
		  .help = "receive queues to serve; none: all"),
	INTERFACE("ring_size", conf_pow2, false, ring_size, 64, 16384, "2048",
		  .help = "descriptors of each AF_XDP ring"),

	EDGE("vlan", conf_vlan, false, vlan, .fallback = "none",
	     .what = "none, any, or a number from 1 to 4094",
	     .help = "VLAN of the listeners. Packets with another tag go to the kernel. Tags "
	     	"that the NIC strips are read from Linux 6.8 on, else see ethtool -K IF rxvlan off"),
	EDGE("allow", conf_allow, true, prefixes, .what = "prefixes like 192.0.2.0/24 or fd00::/8",
	     .help = "client prefixes that may reach the listeners; all others are denied. The "
	     	"longest prefix of allow and deny decides"),
	EDGE("deny", conf_deny, true, prefixes, .what = "prefixes like 192.0.2.0/24 or fd00::/8",
	     .help = "client prefixes whose packets to the listeners are dropped and counted as "
	     	"denied"),

	WORKERS("count", conf_uint, false, worker_cnt, 1, SL_MAX_WORKERS, "1",
		.help = "worker threads; receive queues are assigned in turn"),
	WORKERS("cpus", conf_cpus, true, cpus, 0, 4095,
		.what = "processors from 0 to 4095, one per worker",
		.help = "processors of the workers; none: not pinned"),
	WORKERS("busy_poll", conf_duration_or_auto, false, spin_ns, 0, 100 * MS, "auto",
		.help = "time that an idle worker polls before it sleeps. auto: the wake-up "
			"latency, measured at the start; eight times that while a reply is due "
			"and polling pays off"),

	LISTENER("address", conf_address, false, false, at, .fallback = "*",
		 .what = "an IPv4 or IPv6 address, or *",
		 .help = "served address; *: any address of the host"),
	LISTENER("port", conf_port, false, true, at.port_be, 1, 65535,
		 .help = "TCP and UDP port; required without socket"),
	LISTENER("socket", conf_unix_path, false, false, socket,
		 .what = "an absolute path of at most 100 bytes",
		 .help = "path of a Unix socket for HTTP, instead of address and port. Clients "
		 	"count as 127.0.0.1. Its folder must exist, and be writable by the "
		 	"account for reloads; use a folder of the listeners' own"),
	LISTENER("mode", conf_file_mode, false, false, mode, .restart = true, .fallback = "0660",
		 .what = "an octal number up to 0777",
		 .help = "access rights of the socket, whose owner is the gateway's account"),
	LISTENER("group", conf_string, false, false, group, 1, 32, .restart = true,
		 .what = "the name of a group", .help = "group of the socket; none: the account's"),
	LISTENER("protocols", conf_protocols, true, false, http, .fallback = "http",
		 .what = "http, datagram",
		 .help = "http: HTTP/1.1, HTTP/2 and gRPC over TCP. datagram: requests over UDP"),

	LISTENER("local", conf_bool, false, false, local, .fallback = "yes",
		 .help = "also serve connections that do not come through an interface block: of "
		 	"this host, its containers, and other interfaces. They take kernel "
		 	"sockets. HTTP only; no: connections are refused"),

	LISTENER("proxy_protocol", conf_proxies, true, false, proxies,
		 .what = "up to 4096 addresses and prefixes as 192.0.2.0/24, no bit set beyond the length",
		 .help = "balancers in front of this listener. Each of their connections must "
		 	"begin with a PROXY header, version 1 or 2, whose addresses are "
		 	"trusted. From others such a header is an error"),

	LISTENER("forwarded", conf_enum, false, false, forwarded, .fallback = "replace",
		 .names = conf_forwarded_ways,
		 .help = "x-forwarded-for, -proto, -host and forwarded (RFC 7239) of clients. "
		 	"replace: dropped for the gateway's own. append: for listeners that "
		 	"only proxies can reach; adds the client and keeps proto and host. "
		 	"Agents pass on all of them, other backends get those in "
		 	"forward_headers"),

	LISTENER("half_close", conf_enum, false, false, half_close, .fallback = "cancel",
		 .names = conf_half_closes,
		 .help = "requests of a client that has closed its sending side. cancel: "
		 	"incomplete requests end, because such a client has usually gone. "
		 	"answer: for clients that still read"),

	TLS("certificate", conf_certificates, true, certificates,
	    .what = "absolute paths of PEM files, up to 256",
	    .help = "certificate files with chains, each host's certificate first. A client's "
	    	"host name selects the exact name, then a wildcard, then the first file"),
	TLS("key", conf_private_keys, true, keys, .what = "absolute paths of PEM files, up to 256",
	    .help = "private keys in the order of certificate. Files that accounts other than "
	    	"owner and group can use are refused"),
	TLS("client_ca", conf_file, false, client_ca, .what = "the absolute path of a PEM file",
	    .help = "issuers of client certificates; none: no client certificates. Backends get "
	    	"sluice-client-subject (RFC 2253) and sluice-client-san, a comma in a name "
	    	"as %2C. Texts over 256 bytes or outside printable ASCII are refused"),
	TLS("verify_client", conf_enum, false, client, .fallback = "require", .names = conf_client_certs,
	    .help = "with client_ca: refuse clients without a certificate, or accept them"),
	TLS("ticket_keys", conf_file, false, ticket_keys, .what = "the absolute path of a file",
	    .help = "keys of session tickets, 80 random bytes each; the first one encrypts. For "
	    	"gateways that share clients. none: own keys, a new one every hour"),
	TLS("handshake_threads", conf_uint, false, handshake_threads, 1,
	    SL_CFG_MAX_HANDSHAKE_THREADS, "1", .restart = true,
	    .help = "threads that compute handshakes; the gateway has as many as the listener "
	    	"with the most"),

	POOL("max_queue", conf_uint, max_queue, 1, 1000000, "4096",
	     .help = "waiting requests per worker; beyond it 503"),
	POOL("max_body", conf_size, max_body, 0, SL_RPC_MAX_MESSAGE, .fallback = "0",
	     .help = "largest request body; 0: limits.max_body"),
	POOL("max_reply_head", conf_size, max_reply_head, 1024, SL_RPC_MAX_META, "65528",
	     .help = "bytes of a reply head; beyond it 502"),
	POOL("max_reply_fields", conf_uint, max_reply_fields, 1, SL_RPC_MAX_FIELDS, "256",
	     .help = "header fields of a reply; beyond it 502"),
	POOL("subset", conf_uint_or_auto, subset, 1, SL_CFG_MAX_BACKENDS, "auto",
	     .help = "backends that each worker connects to, chosen by consistent hashing of "
	     	"their names. A worker borrows others while few of its own are connected. "
	     	"Each backend needs a worker: at least backends / workers. auto: 256, or "
	     	"more if needed"),
	POOL("fair_by", conf_enum, fair, .fallback = "address", .names = conf_fair_keys,
	     .help = "owner of a share of a full queue. Datagrams share one, because their "
	     	"sources are unproven. header: the client chooses its share, so a trusted "
	     	"proxy must set the header"),
	POOL("fair_header", conf_header, fair_header, .what = "the name of a header",
	     .help = "header that names the client, with fair_by = header"),

	POOL("eject", conf_enum, eject, .fallback = "5xx", .names = conf_ejects,
	     .help = "failures that take a backend out for a while. lost: resets, and no reply "
	     	"within route.deadline. gateway: also 502, 503, 504 and UNAVAILABLE. 5xx: "
	     	"also other 5xx, UNKNOWN, INTERNAL and DATA_LOSS. Statuses of clients never "
	     	"count. At most half of the backends are taken out, and only one that "
	     	"fails twice as often as the others"),
	POOL("eject_failures", conf_uint, eject_failures, 1, 1000, "3",
	     .help = "failures in a row that take a backend out; or as many within about 10 s, "
	     	"if half of its requests failed"),
	POOL("eject_time", conf_duration, eject_ns, 100 * MS, 3600 * SEC, "5s",
	     .help = "first time out; doubled for each next one, up to 64 times"),
	POOL("slow_start", conf_duration, slow_start_ns, 0, 3600 * SEC, "10s",
	     .help = "time in which the share of a backend that returns grows from a tenth; 0: "
	     	"none"),
	POOL("progress", conf_duration, progress_ns, 0, 3600 * SEC, "1s",
	     .help = "a backend at which requests wait gets no new ones if none was answered "
	     	"for this time, and for 8 times its usual time, until it answers; 0: never. "
	     	"For streams, and requests that are not batched (policy = direct)"),

	BACKEND("endpoint", conf_backend_endpoint, true, endpoint,
		.what = ENDPOINTS ", tcp://HOST:PORT, http://HOST:PORT, h2c://HOST:PORT, https://HOST:PORT, h2://HOST:PORT, http+unix:///PATH or h2c+unix:///PATH",
		.help = "address of the backend. shm: this host. rdma: reliable connections. "
			"rdma+ud: datagrams, for many backends that are seldom used. tcp: TLS "
			"1.3 with the shared key. http and h2c: an unmodified server, for which "
			"the gateway starts an agent. https and h2: the same with TLS 1.3, see "
			"pool.tls; h2 is HTTP/2, with gRPC"),
	BACKEND("concurrency", conf_uint_or_auto, false, concurrency, 1, 65535, "auto",
		.help = "requests at a time to an unmodified server from each agent. auto: "
			"learnt from latency. While others wait, one client address gets at "
			"most half"),
	BACKEND("host", conf_authority, false, host, .what = "NAME, NAME:PORT or [IPV6]:PORT",
		.help = "Host and :authority for an unmodified server; none: as the client sent "
			"it"),
	BACKEND("via", conf_enum, false, via, .fallback = "agent", .names = conf_vias,
		.help = "connections to an unmodified server. agent: those of an agent process. "
			"stack: of the worker's own TCP, for http:// or h2c://ADDRESS:PORT that is reached "
			"by an interface with XDP. Needs tcp.server_ports. auto: stack where it "
			"is possible at the start or reload, else agent"),
	BACKEND("weight", conf_uint, false, weight, 1, SL_CFG_WEIGHT_MAX, "1",
		.help = "share of the requests, in proportion to other backends that are as fast "
			"and as busy"),
	BACKEND("backup", conf_bool, false, backup, .fallback = "no",
		.help = "gets requests only while no other backend of the pool can"),
	BACKEND("zone", conf_string, false, zone, 1, 63, .what = "a name of 1 to 63 characters",
		.help = "zone of the backend. If it is not the gateway's, it gets requests only "
			"while no backend of the gateway's zone can, and before backups; none: "
			"as in the gateway's zone"),
	BACKEND("bootstrap", conf_endpoint, false, first,
		.what = ENDPOINTS " or tcp://HOST:PORT",
		.help = "second endpoint of the same backend that connects faster, such as "
			"rdma+ud:// beside rdma://. It serves from the start. Busy links move "
			"to endpoint, within limits.max_rc_qps, and may return"),
	BACKEND("fallback", conf_endpoint, false, fallback,
		.what = ENDPOINTS " or tcp://HOST:PORT",
		.help = "second endpoint of the same backend, used while endpoint is "
			"unreachable. Log, status and metrics report it. The gateway returns to "
			"endpoint by itself"),
	BACKEND("key_file", conf_absolute, false, key_file, .what = "the absolute path of a file",
		.help = "shared key that an rdma or tcp peer must prove. Only its owner may be "
			"able to write the file"),
	BACKEND("source", conf_numeric, false, source, .what = "an IPv4 or IPv6 address",
		.help = "local address of an rdma endpoint; none: the route's"),
	BACKEND("device", conf_string, false, device, 1, 63, .what = "the name of an RDMA device",
		.help = "RDMA device of an rdma endpoint, as in `rdma link`; none: the route's"),
	BACKEND("device_port", conf_uint_or_auto, false, device_port, 1, 254, "auto",
		.help = "port of that device"),
	BACKEND("tos", conf_uint, false, tos, 0, 255, "0",
		.help = "type of service of packets to and from an rdma endpoint: DSCP times 4. "
			"Most RoCE fabrics are lossless for one DSCP only, such as 26 (104)"),
	BACKEND("owner", conf_uid, false, owner, .fallback = "0",
		.what = "an account of this host, or its number",
		.help = "account that may listen at an shm endpoint, beside root and the "
			"gateway's own. The listener gets the requests"),

	BATCH("policy", conf_enum, policy, .fallback = "auto", .names = conf_policies,
	      .help = "policy of batch sizes. direct: no request waits for others, for backends "
	      	"with their own queue. auto: adaptive, or direct if a backend is an "
	      	"unmodified server"),
	BATCH("max_size", conf_uint, max_size, 1, SL_RPC_MAX_BATCH, "256",
	      .help = "largest batch"),
	HEALTH("path", conf_string, path, 1, 200, "/", .what = "a path that begins with /",
	       .help = "what http servers are asked, by GET on a connection of its own"),
	HEALTH("service", conf_string, service, 1, 120, .what = "the name of a gRPC service",
	       .help = "what h2c servers are asked by grpc.health.v1; none: the server as a whole"),
	HEALTH("interval", conf_duration, interval_ns, 100 * MS, 3600 * SEC, "2s",
	       .help = "time between checks of a server by each agent, or by the gateway with via = "
	       	"stack, with a tenth of random delay"),
	HEALTH("timeout", conf_duration, timeout_ns, 10 * MS, 3600 * SEC, "1s",
	       .help = "time that a check may take. It does not count while the server has as many "
	       	"requests as backend.concurrency allows"),
	HEALTH("expect", conf_uint, expect, 100, 599, "200", .help = "status of a healthy http server"),
	HEALTH("failures", conf_uint, failures, 1, 1000, "2",
	       .help = "failed checks in a row after which a server gets no requests; one that "
	       	"succeeds ends this"),
	SERVER_TLS("ca_file", conf_file, ca_file, .fallback = SL_CFG_CA_FILE,
		   .what = "the absolute path of a PEM file",
		   .help = "issuers of the certificates of https and h2 servers"),
	SERVER_TLS("server_name", conf_server_name, server_name,
		   .what = "the name of a host, or an address",
		   .help = "name that the certificate must have, and that the server is told "
		   	"(SNI); none: the host of the endpoint. Addresses are not sent as SNI"),
	SERVER_TLS("certificate", conf_file, certificate, .what = "the absolute path of a PEM file",
		   .help = "certificate, with its chain, for servers that require one of their "
		   	"clients"),
	SERVER_TLS("key", conf_file, key, .what = "the absolute path of a PEM file",
		   .help = "private key of certificate. Only agents read it; a file that accounts "
		   	"other than owner and group can use is refused"),
	SERVER_TLS("verify", conf_bool, verify, .fallback = "yes",
		   .help = "no: any certificate is accepted, so a party in between can read "
		   	"and change everything"),
	BATCH("max_latency", conf_duration, bound_ns, 50 * US, 600 * SEC, "50ms",
	      .help = "adaptive, aimd: latency that 99 % of the requests must keep"),
	BATCH("on_overload", conf_enum, bound_mode, .fallback = "soft", .names = conf_bound_modes,
	      .help = "requests that will miss max_latency. soft: refused only during lasting "
	      	"overload. hard: always refused"),
	BATCH("size", conf_uint, size, 1, SL_RPC_MAX_BATCH, "1",
	      .help = "fixed: requests per batch"),
	BATCH("delay", conf_duration, delay_ns, 0, 10 * SEC, "0",
	      .help = "fixed: time that a batch may wait to fill"),
	BATCH("slack_use", conf_share, eta, .fallback = "0",
	      .help = "adaptive: share of the latency slack spent on larger batches; 0 never "
	      	"waits"),

	ROUTE("host", conf_hosts, true, route.hosts,
	      .what = "up to 64 names of hosts, of which \"*.\" may stand in front of one",
	      .help = "hosts of this route. An exact name precedes the longest \"*.suffix\", "
	      	"which precedes routes without hosts; none: any. Within a host: listener, "
	      	"then header, then longest prefix, then methods. Without a match, the "
	      	"next host pattern is tried"),
	ROUTE("listener", conf_route_listeners, true, listeners, .what = "names of listeners",
	      .help = "listeners of this route; none: any"),
	ROUTE("header", conf_header_field, false, route.header,
	      .what = "a text as \"name: value\", of a header that is about more than a connection",
	      .help = "header field that a request must have with exactly this value. Of two "
	      	"such routes the longer prefix wins, then the first in the file"),
	ROUTE("methods", conf_methods, true, route.methods,
	      .what = "GET, HEAD, POST, PUT, DELETE, OPTIONS, PATCH",
	      .help = "methods of this route; GET includes HEAD. Routes of the same prefix may "
	      	"have others; a method of none gets 405. none: all other methods"),
	ROUTE("pool", conf_reference, false, pool, .what = "the name of a pool",
	      .help = "pool that answers"),
	ROUTE("match_body", conf_string, false, pools.member, 1, 256,
	      .what = "the name of a member, of 1 to 256 bytes",
	      .help = "string member of a JSON object in the body, whose value selects a match "
	      	"block, such as \"model\". The body is held back until that member has "
	      	"come; of two, the first counts. pool: for bodies without it, and for "
	      	"values that no block has. Without pool they get 404"),
	ROUTE("match_body_limit", conf_size, false, pools.member_limit, 1, 16 * MIB, "256k",
	      .help = "bytes of a body in which that member is searched"),
	ROUTE("match_body_beyond", conf_enum, false, pools.beyond_default, .fallback = "refuse",
	      .names = conf_match_beyond,
	      .help = "bodies whose first match_body_limit bytes do not have the member. refuse: "
	      	"413. pool: as those without it"),
	ROUTE("redirect", conf_redirect, false, route.redirect, 0, 512,
	      .what = "a text that begins with http:// or https://, with {host} and {path} in it or not",
	      .help = "target of a redirect. {host}: requested host without port. {path}: path "
	      	"with query. Status 308, or 301, 302, 303 or 307 of respond.status"),
	ROUTE("deadline", conf_duration, false, route.deadline_ns, 0, 86400 * SEC, "0",
	      .help = "time for a request that names none; 0: unlimited"),
	ROUTE("deadline_header", conf_header, false, route.deadline_header,
	      .what = "the name of a header",
	      .help = "request header with the remaining time in milliseconds"),
	ROUTE("max_body", conf_size, false, route.max_body, 0, SL_RPC_MAX_MESSAGE, "0",
	      .help = "largest request body, beyond it 413; 0: the pool's"),
	ROUTE("max_reply_head", conf_size, false, route.max_reply_head, 0, SL_RPC_MAX_META, "0",
	      .help = "bytes of a reply head, beyond it 502; 0: the pool's"),
	ROUTE("max_reply_fields", conf_uint, false, route.max_reply_fields, 0, SL_RPC_MAX_FIELDS,
	      "0", .help = "header fields of a reply, beyond it 502; 0: the pool's"),
	ROUTE("priority", conf_enum, false, route.priority, .fallback = "normal",
	      .names = conf_priorities,
	      .help = "priority class towards the backend. auto: the client decides (RFC 9218) "
	      	"and can precede all others"),
	ROUTE("idempotent", conf_enum, false, route.idempotent, .fallback = "auto",
	      .names = conf_idempotence, .help = "the request may be sent again; auto: by its "
	            	"method"),
	ROUTE("hedge", conf_hedge, false, pools.hedge_ns, MS, 3600 * SEC, .fallback = "no",
	      .what = "no, p95, or a time from 1ms to 1h",
	      .help = "send a request that is not answered after this time to a second backend "
	      	"of the pool. The first reply counts, and the other request is cancelled. "
	      	"Only for requests that may be sent again and are not streamed. The pool's "
	      	"retry budget limits it. p95: the time in which 95 of 100 requests of such "
	      	"routes are answered"),
	ROUTE("stream", conf_enum, false, route.streams, .fallback = "auto", .names = conf_streams,
	      .help = "pass requests on while they arrive, unbatched; replies may come "
	      	"meanwhile. Backends need on_stream. Only max_body of the route limits "
	      	"the length. auto: for pools of unmodified servers. Their requests of at "
	      	"most 64 KiB are read first, so that another server can take them. The "
	      	"pool's max_body applies"),
	ROUTE("continue", conf_enum, false, route.backend_continues, .fallback = "gateway",
	      .names = conf_continuers,
	      .help = "with stream: source of 100 (Continue). backend: "
	      	"sl_stream_send_continue() or an unmodified server. If it replies "
	      	"without, the body is not awaited"),
	ROUTE("stream_idle_timeout", conf_duration, false, route.idle_ns, 0, 86400 * SEC, "300s",
	      .help = "streams: longest time without data in either direction; 0: unlimited"),
	ROUTE("stream_timeout", conf_duration, false, route.max_duration_ns, 0, 30 * 86400 * SEC, "0",
	      .help = "streams: longest total time, also for later deadlines of clients; 0: "
	      	"unlimited"),
	ROUTE("max_rate", conf_size, false, route.max_rate, 0, 10 * GIB, "0",
	      .help = "streams: bytes per second of each direction, an eighth of a second at "
	      	"once. The sender is slowed down beyond it. 0: unlimited"),
	ROUTE("upgrade", conf_upgrades, true, route.upgrades,
	      .what = "auto, none, or names of protocols such as websocket, but none that carries HTTP (h2c, http, tls)",
	      .help = "with stream: protocols that clients may upgrade to, by Upgrade "
	      	"(HTTP/1.1) or extended CONNECT (HTTP/2). The backend gets the field "
	      	"upgrade and agrees with status 101; then bytes pass both ways. none: "
	      	"such fields are ignored. auto: websocket if all backends are HTTP/1.1 "
	      	"servers, else none"),
	ROUTE("upgrade_timeout", conf_duration, false, route.upgrade_timeout_ns, 0, 86400 * SEC, "30s",
	      .help = "upgrades: longest time until the backend agrees or refuses, then 504; 0: "
	      	"unlimited"),
	ROUTE("strip_prefix", conf_enum, false, route.strip, .fallback = "auto", .names = conf_strips,
	      .help = "remove the prefix from the path for the backend, except in gRPC calls. "
	      	"auto: yes, but no for unmodified servers"),
	ROUTE("request_path", conf_enum, false, route.path, .fallback = "auto", .names = conf_path_policies,
	      .help = "handling of paths that servers read in several ways; auto: request_path "
	      	"outside of blocks"),
	ROUTE("forward_headers", conf_headers, true, route.forward_headers,
	      .what = "names of headers, none of them hop by hop, or \"*\"",
	      .help = "request headers and stream trailers that the backend gets. \"*\": all, "
	      	"in order, with the requested host and the client's address. This is the "
	      	"default for unmodified servers"),
	CONF_ROUTE_CLIENT_KEYS
	ROUTE("underscores", conf_enum, false, route.underscores, .fallback = "drop",
	      .names = conf_underscores,
	      .help = "request fields with _ in their names, where all fields are passed on. "
	      	"Many servers read x_user as x-user. drop: removes them, except those in "
	      	"forward_headers. pass: for servers that tell the two apart. Names that "
	      	"read like the gateway's own are always dropped"),
	ROUTE("policy", conf_enum, false, route.policy, .fallback = "pool", .names = conf_route_policies,
	      .help = "batch policy in place of the pool's"),
	ROUTE("datagram_service", conf_uint, false, route.datagram_service, 0, 65534, "0",
	      .help = "number of this route in datagrams; 0: unreachable by datagrams"),

	MATCH("pool", conf_reference, true, pool, .what = "the name of a pool",
	      .help = "pool for requests whose body has this value of match_body. The block's "
	      	"name is the value, or the beginning of values if it ends with *: \"llama*\". "
	      	"Of several blocks the longest that fits counts"),

	AFFINITY("by", conf_enum, false, by, .names = conf_affinity_bys,
		 .help = "what requests have in common that go to the same backend of the pool, by "
		 	"consistent hashing. A backend that has clearly more than 1.25 times the "
		 	"average of open requests gets no more. header: value of a header. metadata: the same "
		 	"for gRPC. cookie: value of a cookie. address: the client's. prefix: the "
		 	"beginning of the body, such as a prompt"),
	AFFINITY("name", conf_string, false, name, 1, 64, .what = "the name of a header or cookie",
		 .help = "header or cookie. Requests without it go to any backend"),
	AFFINITY("depths", conf_depths, true, depths,
		 .what = "up to 8 sizes from 64 to 1m, multiples of 64, each larger than the one before",
		 .help = "prefix: depths of the body at which beginnings are compared; default 1k, "
		 	"4k, 16k, 64k. A beginning that goes on in many ways is a shared prompt, so "
		 	"the next depth counts. Shorter bodies go to any backend. A stream is held "
		 	"back until its depth has come"),

	SPLIT("pool", conf_reference, split_pool, .what = "the name of a pool",
	      .help = "pool for a share of the requests that the route's pool would get (canary)"),
	SPLIT("percent", conf_percent, pools.split.share, .what = "a number from 0 to 100",
	      .help = "share of these requests, selected at random"),
	SPLIT("header", conf_split_header, pools.split.header,
	      .what = "a text as \"name: value\", of a header that is about more than a connection",
	      .help = "requests with this field and value go to that pool. Those with another "
	      	"value of it do not. percent applies to all others"),
	MIRROR("pool", conf_reference, mirror_pool, .what = "the name of a pool",
	       .help = "pool that gets copies of requests. Its replies are ignored, and it may be "
	       	"down"),
	MIRROR("percent", conf_percent, pools.mirror.share, .fallback = "100",
	       .what = "a number from 0 to 100", .help = "share of requests, selected at random"),
	MIRROR("max_body", conf_size, pools.mirror.max_body, 0, MIB, "64k",
	       .help = "largest request that is copied"),

	RESPOND("status", conf_uint, route.reply_status, 200, 599,
		.help = "status of a fixed reply, in place of a pool; default 200. With "
			"redirect: 301, 302, 303 or 307"),
	RESPOND("content_type", conf_string, route.reply_type, 1, 128, "text/plain",
		.what = "a media type", .help = "content type of the fixed reply"),
	RESPOND("body", conf_body, route.reply_body, 0, 16384,
		.what = "a text of at most 16384 bytes", .help = "body of the fixed reply"),

	CONF_CLIENT_KEYS

	LIMIT("max_connections", conf_uint, max_connections, 16, 4000000, DEFAULT(MAX_CONNECTIONS),
	      .restart = true, .help = "connections per worker"),
	LIMIT("max_half_open", conf_uint, max_half_open, 16, 1000000, DEFAULT(MAX_HALF_OPEN),
	      .restart = true, .help = "unfinished handshakes per worker, at most a sixteenth "
	            	"of max_connections; beyond it SYN cookies"),
	LIMIT("address_connections", conf_share_or_count, address_connections, 0, 4000000, "0.5",
	      .help = "connections of one IPv4 address or IPv6 /64 per worker: a share of "
	      	"max_connections, or a number. 1: unlimited, as for a proxy in front"),
	LIMIT("address_exchanges", conf_share, address_exchanges, .fallback = "0.75",
	      .help = "share of max_exchanges of one address; beyond it 503"),
	LIMIT("address_reading", conf_share, address_reading, .fallback = "0.25",
	      .help = "share of max_exchanges of one address in requests with incomplete "
	      	"bodies; beyond it 503"),
	LIMIT("address_frames", conf_share, address_frames, .fallback = "0.5",
	      .help = "share of memory.frames for requests and replies of one address; beyond "
	      	"it 429. From three quarters on, the address is slowed down"),
	LIMIT("address_requests", conf_uint, address_requests, 0, 100000000, "250000",
	      .help = "requests per second of one address and worker, with a burst of one "
	      	"second; beyond it 429. 0: unlimited, as for a proxy in front or a load "
	      	"test"),
	LIMIT("max_exchanges", conf_uint, max_exchanges, 16, 1000000, DEFAULT(MAX_EXCHANGES),
	      .restart = true, .help = "open requests per worker"),
	LIMIT("max_rc_qps", conf_uint, max_promoted, 0, 65535, "32",
	      .help = "RC queue pairs per worker to backends with bootstrap. A busy link "
	      	"replaces one with little traffic for at least a second, which returns to "
	      	"bootstrap. 0: all links stay on bootstrap"),
	LIMIT("max_head", conf_size, max_head, 512, 64 * KIB, DEFAULT(MAX_HEAD_KIB) "k",
	      .restart = true, .help = "bytes of request line and headers; beyond it 431"),
	LIMIT("max_target", conf_size, max_target, 64, SL_CFG_TARGET_MAX, DEFAULT(MAX_TARGET_KIB) "k",
	      .help = "bytes of the request line; beyond it 414"),
	LIMIT("max_headers", conf_uint, max_headers, 8, SL_MAX_HEADERS_LIMIT, DEFAULT(MAX_HEADERS),
	      .help = "header fields of a request; beyond it 431"),
	LIMIT("max_pipeline", conf_uint, max_pipeline, 1, 1024, DEFAULT(MAX_PIPELINE),
	      .help = "HTTP/1.1 requests without reply on a connection"),
	LIMIT("max_streams", conf_uint, max_streams, 1, 10000, DEFAULT(MAX_STREAMS),
	      .help = "concurrent HTTP/2 streams of a connection"),
	LIMIT("max_body", conf_size, max_body, 0, SL_RPC_MAX_MESSAGE, DEFAULT(MAX_BODY_MIB) "m",
	      .help = "largest request body, except of streams; beyond it 413"),
	LIMIT("max_message", conf_size, max_message, 1, SL_RPC_MAX_MESSAGE, DEFAULT(MAX_MESSAGE_MIB) "m",
	      .help = "largest gRPC message"),
	LIMIT("header_timeout", conf_duration, header_timeout_ns, 100 * MS, 3600 * SEC, "10s",
	      .help = "longest time until a request head is complete"),
	LIMIT("idle_timeout", conf_duration, idle_timeout_ns, 100 * MS, 86400 * SEC, "60s",
	      .help = "longest time of a connection without requests"),
	LIMIT("body_timeout", conf_duration, body_timeout_ns, 100 * MS, 3600 * SEC, "20s",
	      .help = "longest time without a byte of a request body, and grace of body_rate"),
	LIMIT("body_rate", conf_size, body_rate, 0, GIB, "500",
	      .help = "least bytes per second of a request body on average; 0: any. Streams of "
	      	"silent backends are exempt from both rates"),
	LIMIT("send_timeout", conf_duration, send_timeout_ns, 100 * MS, 3600 * SEC, "30s",
	      .help = "longest time without progress of a reply, per stream, and grace of "
	      	"send_rate"),
	LIMIT("send_rate", conf_size, send_rate, 0, GIB, "500",
	      .help = "least bytes per second of a reply on average; 0: any"),
	LIMIT("drain_timeout", conf_duration, drain_timeout_ns, 0, 3600 * SEC, "15s",
	      .help = "time for requests to finish after SIGTERM"),

	TCP("keepalive", conf_duration, keepalive_ns, 0, 86400 * SEC, DEFAULT(KEEPALIVE_S) "s",
	    .help = "idle time before TCP keep-alive probes; 0: no probes"),
	TCP("server_ports", conf_port_range, port_first, .what = "two ports such as 20000-29999",
	    .help = "local ports of connections to servers with via = stack, divided among the "
	    	"workers. They must be outside of net.ipv4.ip_local_port_range, or listed in "
	    	"net.ipv4.ip_local_reserved_ports; none: no such servers"),
	TCP("rst_closed_ports", conf_bool, rst_closed_ports, .fallback = "no",
	    .help = "answer segments to closed ports of served addresses with RST"),

	MEMORY("frames", conf_size, frame_memory, 4 * MIB, 64 * GIB, "128m",
	       .help = "memory for packets and bodies, per worker"),
	MEMORY("reorder", conf_size, reorder_memory, 0, 64 * GIB, "8m",
	       .help = "part of frames for TCP bytes behind a hole, of all connections of a "
	       	"worker"),

	ADMIN("socket", conf_socket, false, socket, .fallback = "auto",
	      .what = "auto, none, or an absolute path of at most 100 bytes",
	      .help = "Unix socket of the commands drain, set and reload. auto: "
	      	"/run/sluice/INTERFACE.sock of the first interface"),
	ADMIN("owner", conf_string, false, owner, 1, 32, .what = "the name of an account",
	      .help = "account that owns the socket and has the role operate, beside root and "
	      	"the gateway's own"),
	ADMIN("group", conf_string, false, group, 1, 32, .what = "the name of a group",
	      .help = "group whose members may use the socket with group_role"),
	ADMIN("group_role", conf_enum, false, group_role, .fallback = "read", .names = conf_roles,
	      .help = "role of the group. read: status. operate: changes, too"),
	ADMIN("address", conf_numeric, false, address, .fallback = "127.0.0.1",
	      .what = "an IPv4 or IPv6 address",
	      .help = "TCP address of GET requests. Addresses beyond loopback need token_file"),
	ADMIN("port", conf_uint, false, port, 0, 65535, "9900",
	      .help = "TCP port; 0: no TCP"),
	ADMIN("token_file", conf_absolute, false, token_file, .what = "the absolute path of a file",
	      .help = "file (mode 600) with a token of 16 to 256 characters for requests over "
	      	"TCP. Clients send Authorization: Bearer TOKEN, browsers the token as "
	      	"password of any user. /livez and /readyz need none"),
	ADMIN("hosts", conf_admin_hosts, true, hosts, .what = "names, or NAME:PORT",
	      .help = "names that a Host header over TCP may have, besides the address and "
	      	"localhost"),

	AGENTS("count", conf_uint, false, count, 1, SL_CFG_MAX_AGENTS, "1",
	       .help = "agent processes for unmodified servers; workers are assigned in turn"),
	AGENTS("cpus", conf_agent_cpus, true, cpus, 0, 4095,
	       .what = "processors from 0 to 4095, one per agent",
	       .help = "processors of the agents; none: not pinned"),

	ACCESS_LOG("file", conf_log_file, false, file, .restart = true, .what = "an absolute path, or -",
		   .help = "one line per request; -: standard output. Reopened on SIGUSR1 and "
		   	"after a rename or removal. The account must be able to create files "
		   	"in the folder"),
	ACCESS_LOG("format", conf_enum, false, format, .fallback = "json", .names = conf_log_formats,
		   .help = "json: one object per line. combined: the format of other servers, "
		   	"with fewer fields"),
	ACCESS_LOG("fields", conf_log_fields, true, fields,
		   .what = "none, or names of listener, tls, tls_subject, key, host, user_agent, referer, "
			   "request_id, trace_id, route, pool, backend, batch, times",
		   .help = "fields of a line besides time, peer, method, path, status, outcome, "
		   	"reason and bytes; default: all. request_id is the client's "
		   	"X-Request-Id, trace_id comes from traceparent"),
	ACCESS_LOG("sample", conf_share, false, sample, .fallback = "1",
		   .help = "share of requests below status 400 that get a line; all others do"),
	CONF_TRACE_KEYS,
};
/* clang-format on */
const size_t conf_key_cnt = SL_ARRAY_LEN(conf_keys);
_Static_assert(SL_ARRAY_LEN(conf_keys) <= CONF_MAX_KEYS, "a parser has a flag for each key");
