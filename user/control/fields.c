/* SPDX-License-Identifier: Apache-2.0 */
#include "control/fields.h"

#include <string.h>

#include "base/check.h"
#include "config/agent_status.h"
#include "gateway/gateway.h"

/* clang-format off */
#define FIELD(type, field, kind, help) \
	{#field, offsetof(struct type, field), sizeof(((struct type *)0)->field), kind, help}
#define COUNTER(type, field, help) FIELD(type, field, FIELD_COUNTER, help)
#define GAUGE(type, field, help)   FIELD(type, field, FIELD_GAUGE, help)

static const struct stat_field worker_list[] = {
	COUNTER(sl_worker_info, loops, "rounds of the worker's loop"),
	COUNTER(sl_worker_info, busy_loops, "rounds with something to do"),
	COUNTER(sl_worker_info, nexthop_changes,
		"connections whose packets came by another router, interface or VLAN"),
	COUNTER(sl_worker_info, kernel_resends,
		"packets sent again by the kernel, whose routes may have changed"),
	COUNTER(sl_worker_info, sleeps, "times the worker slept for events"),
	GAUGE(sl_worker_info, frames, "frames of the worker's UMEM"),
	GAUGE(sl_worker_info, frames_free, "frames without an owner"),
	GAUGE(sl_worker_info, exchanges, "exchanges that the configuration allows"),
	GAUGE(sl_worker_info, exchanges_used, "requests under way"),
	GAUGE(sl_worker_info, clients, "client connections"),
	GAUGE(sl_worker_info, conn_bytes, "memory of one idle connection in all layers"),
};

static const struct stat_field tcp_list[] = {
	COUNTER(sl_tcp_stats, accepted, "connections accepted"),
	COUNTER(sl_tcp_stats, active_opens, "connections opened"),
	COUNTER(sl_tcp_stats, closed, "connections closed"),
	COUNTER(sl_tcp_stats, resets_in, "connections reset by the peer"),
	COUNTER(sl_tcp_stats, resets_out, "resets sent"),
	COUNTER(sl_tcp_stats, timeouts, "connections given up after silence"),
	COUNTER(sl_tcp_stats, segs_in, "segments received"),
	COUNTER(sl_tcp_stats, segs_out, "segments sent"),
	COUNTER(sl_tcp_stats, bytes_in, "bytes received in order"),
	COUNTER(sl_tcp_stats, bytes_out, "bytes sent, each counted once"),
	COUNTER(sl_tcp_stats, retransmits, "segments sent again"),
	COUNTER(sl_tcp_stats, fast_retransmits, "recoveries without a timeout"),
	COUNTER(sl_tcp_stats, rto_fired, "retransmission timeouts"),
	COUNTER(sl_tcp_stats, tlp_probes, "tail loss probes"),
	COUNTER(sl_tcp_stats, syn_cookies_sent, "SYNs answered with a cookie"),
	COUNTER(sl_tcp_stats, syn_cookies_ok, "connections accepted by a cookie"),
	COUNTER(sl_tcp_stats, challenge_acks, "challenge ACKs sent"),
	COUNTER(sl_tcp_stats, ooo_segs, "segments received out of order"),
	COUNTER(sl_tcp_stats, sack_scans_skipped, "acknowledgements with SACK blocks that were not looked at: too many before had no news"),
	COUNTER(sl_tcp_stats, acks_put_off, "acknowledgements with SACK blocks that were not looked at: their address had used its share of the turn"),
	COUNTER(sl_tcp_stats, sends_put_off, "times that a connection had used its share of a turn and continued behind others"),
	COUNTER(sl_tcp_stats, linger_aborts, "connections reset because their peers went on sending, beyond the limit, after they were closed"),
	COUNTER(sl_tcp_stats, zero_windows, "zero windows told to peers: bytes came faster than they were taken"),
	GAUGE(sl_tcp_stats, conns, "connections in the table"),
	GAUGE(sl_tcp_stats, half_open, "handshakes under way"),
	GAUGE(sl_tcp_stats, time_wait, "connections in TIME-WAIT"),
};

static const struct stat_field sock_list[] = {
	COUNTER(sl_sock_stats, accepted, "connections accepted by kernel sockets"),
	COUNTER(sl_sock_stats, refused, "connections reset at once: over a limit, or no local listener"),
	COUNTER(sl_sock_stats, accept_failures, "failed accepts, as without free descriptors"),
	COUNTER(sl_sock_stats, closed, "connections closed"),
	COUNTER(sl_sock_stats, resets_in, "connections reset by the peer"),
	COUNTER(sl_sock_stats, resets_out, "connections reset by the gateway"),
	COUNTER(sl_sock_stats, timeouts, "closed connections whose peers did not end in time"),
	COUNTER(sl_sock_stats, bytes_in, "bytes received"),
	COUNTER(sl_sock_stats, bytes_out, "bytes sent"),
	COUNTER(sl_sock_stats, reads, "system calls to receive"),
	COUNTER(sl_sock_stats, writes, "system calls to send"),
	GAUGE(sl_sock_stats, conns, "connections on kernel sockets"),
};

static const struct stat_field udp_list[] = {
	COUNTER(sl_udp_stats, datagrams_in, "datagrams received"),
	COUNTER(sl_udp_stats, datagrams_out, "datagrams sent"),
	COUNTER(sl_udp_stats, bytes_in, "bytes received in datagrams"),
	COUNTER(sl_udp_stats, bytes_out, "bytes sent in datagrams"),
};

static const struct stat_field h2_list[] = {
	GAUGE(sl_h2_stats, connections, "HTTP/2 connections"),
	GAUGE(sl_h2_stats, streams, "HTTP/2 streams open"),
	GAUGE(sl_h2_stats, calls, "gRPC health and reflection calls that the gateway answers itself"),
	GAUGE(sl_h2_stats, memory, "bytes that HTTP/2 connections hold"),
	COUNTER(sl_h2_stats, heads_put_off, "pauses in heads of a client address that had used its share of a burst"),
};

static const struct stat_field tls_list[] = {
	COUNTER(sl_tls_stats, full, "full handshakes"),
	COUNTER(sl_tls_stats, resumed, "handshakes that went by a ticket"),
	COUNTER(sl_tls_stats, steps, "steps of handshakes that threads made"),
	COUNTER(sl_tls_stats, waited_ns, "time that these lay in the threads' queues"),
	COUNTER(sl_tls_stats, records_in, "records opened"),
	COUNTER(sl_tls_stats, records_out, "records sealed"),
	COUNTER(sl_tls_stats, key_updates, "changes of keys on connections, both ways"),
	GAUGE(sl_tls_stats, handshakes, "handshakes under way"),
	GAUGE(sl_tls_stats, queued, "of them, those that the threads have"),
	GAUGE(sl_tls_stats, conn_bytes, "memory that TLS adds to an idle connection"),
};

static const struct stat_field core_list[] = {
	COUNTER(sl_core_stats, requests, "requests begun"),
	COUNTER(sl_core_stats, retried, "requests sent to another backend after a loss"),
	COUNTER(sl_core_stats, retries_refused, "lost requests that were not sent again, as the retry budget was spent"),
	COUNTER(sl_core_stats, batches, "batches sent"),
	COUNTER(sl_core_stats, batched, "requests in them"),
	COUNTER(sl_core_stats, access_log_dropped, "finished requests that the access log and `sluice events` lack, as they were not read fast enough"),
	COUNTER(sl_core_stats, trace_spans_dropped, "spans of finished requests that the exporter did not read fast enough"),
	COUNTER(sl_core_stats, clients_timed_out, "client connections closed for being idle or slow"),
	COUNTER(sl_core_stats, request_windows_shrunk, "times that the window of a heavy client's body was made smaller, as frames got fewer"),
	COUNTER(sl_core_stats, request_reads_paused, "times that a heavy client's body was not read for a while, as few frames were left"),
	COUNTER(sl_core_stats, slow_bodies, "requests ended as their bodies came too slowly"),
	GAUGE(sl_core_stats, streams, "requests under way that are passed on as they come"),
	COUNTER(sl_core_stats, stream_parts_in, "parts of such requests, sent to backends"),
	COUNTER(sl_core_stats, stream_bytes_in, "bytes in them"),
	COUNTER(sl_core_stats, stream_parts_out, "parts of their replies, from backends"),
	COUNTER(sl_core_stats, stream_bytes_out, "bytes in them"),
	COUNTER(sl_core_stats, stream_waits, "times that one of them had used up its max_rate"),
	COUNTER(sl_core_stats, upgrades_ignored, "requests to backends whose Upgrade was ignored, as the route lacks stream or upgrade"),
	COUNTER(sl_core_stats, bodies_matched, "requests whose body selected a match block"),
	COUNTER(sl_core_stats, bodies_unmatched, "requests of routes with match_body that no match block fits"),
	COUNTER(sl_core_stats, bodies_beyond, "requests whose match_body member is beyond match_body_limit, or nested too deeply"),
	COUNTER(sl_core_stats, affinity_hits, "requests with a key of affinity, sent to its first backend that was up"),
	COUNTER(sl_core_stats, affinity_misses, "requests with such a key, sent to another backend, because that one was busy or had refused"),
	COUNTER(sl_core_stats, split_requests, "requests that a split block gave to its pool"),
	COUNTER(sl_core_stats, hedges, "second copies of requests that were not answered in time (hedge of a route)"),
	COUNTER(sl_core_stats, hedges_won, "second copies that were answered first"),
	COUNTER(sl_core_stats, hedges_refused, "second copies not made, as the pool's retry budget was used up"),
	COUNTER(sl_core_stats, mirrored, "copies of requests, sent to the pool of a mirror block"),
	COUNTER(sl_core_stats, mirror_dropped, "copies not made: no backend is up, too large, a stream, or their share of memory is in use"),
	COUNTER(sl_core_stats, mirror_failures, "copies that ended without a reply"),
	COUNTER(sl_core_stats, proxy_headers, "PROXY headers believed"),
	COUNTER(sl_core_stats, api_keys_missing, "requests refused as they had no API key"),
	COUNTER(sl_core_stats, api_keys_unknown, "requests refused as their API key is in no file, malformed, or there twice"),
	COUNTER(sl_core_stats, proxy_malformed, "connections reset for a bad PROXY header, or none"),
	COUNTER(sl_core_stats, slow_readers, "replies ended as their clients took them too slowly"),
	COUNTER(sl_core_stats, unmatched_datagrams, "datagrams from backends that are no virtual connection's"),
};

static const struct stat_field port_list[] = {
	COUNTER(sl_port_stats, rx_packets, "frames received"),
	COUNTER(sl_port_stats, rx_bytes, "bytes received"),
	COUNTER(sl_port_stats, tx_packets, "frames sent"),
	COUNTER(sl_port_stats, tx_bytes, "bytes sent"),
	COUNTER(sl_port_stats, rx_wakeups, "wake-ups for the fill ring"),
	COUNTER(sl_port_stats, tx_wakeups, "wake-ups for the tx ring"),
	COUNTER(sl_port_stats, rx_dropped, "frames dropped for other reasons, also of invalid packets longer than a frame"),
	COUNTER(sl_port_stats, rx_ring_full, "frames dropped by the kernel as the rx ring was full"),
	COUNTER(sl_port_stats, fill_empty, "frames dropped by the kernel as the fill ring was empty"),
	COUNTER(sl_port_stats, tx_invalid, "descriptors refused by the kernel"),
};

static const struct stat_field backend_list[] = {
	COUNTER(sl_rpc_stats, batches_sent, "batches sent to the backend"),
	COUNTER(sl_rpc_stats, requests_sent, "requests sent to the backend"),
	COUNTER(sl_rpc_stats, replies, "replies from the backend"),
	COUNTER(sl_rpc_stats, failures, "requests that ended without a reply"),
	COUNTER(sl_rpc_stats, bytes_sent, "bytes sent to the backend"),
	COUNTER(sl_rpc_stats, bytes_received, "bytes received from the backend"),
	COUNTER(sl_rpc_stats, credit_stalls, "times a send waited for credits"),
	COUNTER(sl_rpc_stats, messages_sent, "RPC messages sent"),
	COUNTER(sl_rpc_stats, messages_received, "RPC messages received"),
	COUNTER(sl_rpc_stats, doorbells, "times the transport was rung"),
	COUNTER(sl_rpc_stats, late_replies, "replies, or messages of them, that nobody waited for"),
	COUNTER(sl_rpc_stats, bad_messages, "messages that broke the protocol"),
	COUNTER(sl_rpc_stats, over_credit, "channels lost as the peer sent beyond its credit"),
	COUNTER(sl_rpc_stats, no_slot, "channels lost as the peer had no receive slot"),
	COUNTER(sl_rpc_stats, peer_restarts, "channels lost because the peer process no longer knew the virtual connection"),
	COUNTER(sl_rpc_stats, datagrams_retransmitted, "datagrams of a virtual connection that were sent again"),
	COUNTER(sl_rpc_stats, datagrams_duplicate, "datagrams of a virtual connection that came again"),
	COUNTER(sl_rpc_stats, datagrams_bad_mac, "datagrams for a virtual connection that its peer has not sealed"),
	GAUGE(sl_rpc_stats, outstanding, "requests without a reply yet"),
	GAUGE(sl_rpc_stats, slots_free, "free message slots at the peer"),
	GAUGE(sl_rpc_stats, slots, "message slots at the peer"),
};

static const struct stat_field dial_list[] = {
	COUNTER(sl_dial_stats, promotions, "times that the connection went on from first by the backend's own endpoint"),
	COUNTER(sl_dial_stats, demotions, "times that it went back to first, with little to do, for another one"),
	COUNTER(sl_dial_stats, promotions_refused, "times that it was worth that, and limits.max_promoted were there"),
};

static const struct stat_field health_list[] = {
	COUNTER(sl_backend_health_info, faults, "requests that counted against the backend (pool.eject)"),
	COUNTER(sl_backend_health_info, ejections, "times that the backend was taken out for its failures"),
	GAUGE(sl_backend_health_info, ejected, "1 while the backend is taken out"),
	COUNTER(sl_backend_health_info, silences, "times that the backend got no new requests, because it answered none (pool.progress)"),
	GAUGE(sl_backend_health_info, silent, "1 while the backend gets no new requests, because it answers none"),
	GAUGE(sl_backend_health_info, trial, "1 while the backend is tried again, with one request at a time"),
	GAUGE(sl_backend_health_info, drained, "1 while an operator has taken the backend out"),
	GAUGE(sl_backend_health_info, weight, "weight of the backend, without slow start"),
};

#define POLICY_TEXT(number, NAME, name) " " #number " " #name
static const struct stat_field live_list[] = {
	GAUGE(sl_svc_live, batch_cap, "largest batch that keeps the latency bound"),
	GAUGE(sl_svc_live, batch_low, "smallest batch that keeps up with the arrivals"),
	GAUGE(sl_svc_live, batch_last, "size of the last batch"),
	GAUGE(sl_svc_live, hold_ns, "time a batch may be held for more requests"),
	GAUGE(sl_svc_live, arrival_mhz, "arrival rate of requests"),
	GAUGE(sl_svc_live, alpha_ns, "service time of a batch, the part of the batch"),
	GAUGE(sl_svc_live, beta_ns, "service time of a batch, the part of each request"),
	GAUGE(sl_svc_live, dev_ns, "mean deviation of the service time"),
	GAUGE(sl_svc_live, rtt_ns, "RPC round trip without compute"),
	GAUGE(sl_svc_live, bound_ns, "latency bound in force"),
	GAUGE(sl_svc_live, queued, "requests waiting"),
	GAUGE(sl_svc_live, in_flight, "requests at the backends"),
	GAUGE(sl_svc_live, shed_level, "new connections refused, of 65536"),
	GAUGE(sl_svc_live, policy, "batch policy:" SL_POLICIES(POLICY_TEXT)),
	COUNTER(sl_svc_live, shed, "requests answered 429 or 503"),
	COUNTER(sl_svc_live, batches, "batches sent"),
	COUNTER(sl_svc_live, requests, "requests in them"),
};

static const struct stat_field subset_list[] = {
	GAUGE(sl_subset_info, subset, "backends of the pool that the worker uses"),
	GAUGE(sl_subset_info, borrowed, "others that it uses meanwhile, as it is connected with few of those"),
	GAUGE(sl_subset_info, connected, "backends of the pool that it is connected with"),
};

static const struct stat_field agent_list[] = {
	GAUGE(sl_agent_info, up, "1 while the agent runs"),
	COUNTER(sl_agent_info, restarts, "times that it has started again"),
	GAUGE(sl_agent_info, backoff_ms, "pause before it starts the next time"),
};

static const struct stat_field server_list[] = {
	GAUGE(sl_server_info, up, "1 while the agent can connect to the server, and is answered"),
	GAUGE(sl_server_info, healthy, "1 while the server passes its health checks, or has none"),
	GAUGE(sl_server_info, in_flight, "requests that the server has from this agent"),
	GAUGE(sl_server_info, waiting, "requests that wait for it"),
	GAUGE(sl_server_info, concurrency, "requests that it gets at a time, given or learnt"),
	GAUGE(sl_server_info, connections, "connections to it"),
};
/* clang-format on */

#define TABLE(list)                                                                                \
	{                                                                                          \
		list, SL_ARRAY_LEN(list)                                                           \
	}
const struct stat_table worker_fields = TABLE(worker_list), tcp_fields = TABLE(tcp_list),
			udp_fields = TABLE(udp_list), sock_fields = TABLE(sock_list),
			h2_fields = TABLE(h2_list), tls_fields = TABLE(tls_list),
			core_fields = TABLE(core_list), port_fields = TABLE(port_list),
			backend_fields = TABLE(backend_list), dial_fields = TABLE(dial_list),
			live_fields = TABLE(live_list), subset_fields = TABLE(subset_list),
			agent_fields = TABLE(agent_list), server_fields = TABLE(server_list),
			health_fields = TABLE(health_list);

uint64_t field_value(const struct stat_field *f, const void *obj)
{
	const char *at = (const char *)obj + f->offset;
	uint64_t v64;
	uint32_t v32;

	if (f->size == sizeof(v32)) {
		memcpy(&v32, at, sizeof(v32));
		return v32;
	}
	memcpy(&v64, at, sizeof(v64));
	return v64;
}

#define X(name, metric, help) {metric, help},
const struct stat_name verdict_names[] = {SL_RX_VERDICTS(X)};
const struct stat_name drop_names[] = {SL_DROPS(X)};
#undef X
#define X(name, metric, http, grpc, datagram, retry_after_s, text) {metric, #http ": " text},
const struct stat_name outcome_names[] = {SL_OUTCOMES(X)};
#undef X
#define X(name, metric) {metric, NULL},
const struct stat_name error_names[] = {SL_FRONT_ERRORS(X)};
#undef X

#define X(name, metric) {metric, NULL},
const struct stat_name address_limit_names[] = {SL_QUOTA_LIMITS(X)};
#undef X

const struct stat_name rank_names[] = {
	[SL_RANK_EXCHANGES] = {"exchanges", NULL},
	[SL_RANK_FRAMES] = {"frames", NULL},
};
_Static_assert(SL_ARRAY_LEN(rank_names) == SL_RANK_CNT, "a name for each resource");

const struct stat_name evicted_names[] = {
	[SL_EVICTED_IDLE_CONNECTION] = {"idle_connection", NULL},
	[SL_EVICTED_PARTIAL_HEAD] = {"partial_head", NULL},
};
_Static_assert(SL_ARRAY_LEN(evicted_names) == SL_EVICTED_CNT, "a name for each kind");

const struct stat_name tls_end_names[] = {
#define X(name, alert, metric, help) {metric, help},
	SL_TLS_ENDS(X)
#undef X
};
_Static_assert(SL_ARRAY_LEN(tls_end_names) == SL_TLS_END_CNT, "a name for each end");

const struct stat_name protocol_names[] = {
	[SL_PROTO_HTTP1] = {"http1", NULL},
	[SL_PROTO_HTTP2] = {"http2", NULL},
	[SL_PROTO_GRPC] = {"grpc", NULL},
	[SL_PROTO_DATAGRAM] = {"datagram", NULL},
};
_Static_assert(SL_ARRAY_LEN(protocol_names) == SL_PROTO_CNT, "a name for each protocol");

const struct stat_name stage_names[] = {
	[SL_STAGE_WIRE] = {"wire", "XDP program to user space"},
	[SL_STAGE_PARSE] = {"parse", "to the complete request"},
	[SL_STAGE_QUEUE] = {"queue", "to a batch"},
	[SL_STAGE_SEND] = {"send", "to the transport"},
	[SL_STAGE_COMPUTE] = {"compute", "at the backend, as it says"},
	[SL_STAGE_RPC] = {"rpc", "to the backend and back, without compute"},
	[SL_STAGE_REPLY] = {"reply", "to the last byte of the reply"},
	[SL_STAGE_TOTAL] = {"total", "first byte of the request to last byte of the reply"},
	[SL_STAGE_FIRST] = {"first", "of a stream: to the first part of its reply"},
	[SL_STAGE_GAP] = {"gap", "of a stream: between parts of its reply"},
};
_Static_assert(SL_ARRAY_LEN(stage_names) == SL_STAGE_CNT, "a name for each stage");

const char *rpc_state_name(unsigned state)
{
	static const char *const names[] = {
		[SL_RPC_DOWN] = "down",
		[SL_RPC_CONNECTING] = "connecting",
		[SL_RPC_UP] = "up",
		[SL_RPC_DRAINING] = "not ready",
	};

	return state < SL_ARRAY_LEN(names) ? names[state] : "unknown";
}
