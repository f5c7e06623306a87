/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Outcomes of requests, and the gateway's replies for them. One list for counters, metrics, tests
 * and all protocols. Each accepted request counts in exactly one entry.
 *
 * X(NAME, "metric_name", HTTP status (RFC 9110), gRPC status, datagram status, Retry-After in
 * seconds (0: none), "text for the client")
 *
 * The gRPC and datagram statuses are suffixes of SL_GRPC_... and SL_DATAGRAM_....
 */
#ifndef SLUICE_OUTCOME_H
#define SLUICE_OUTCOME_H

#define SL_OUTCOMES(X)                                                                             \
	X(OK, "ok", 200, OK, OK, 0, "answered by a backend")                                       \
	X(FIXED, "fixed", 200, UNIMPLEMENTED, OK, 0, "answered by a fixed reply")                  \
	X(NO_ROUTE, "no_route", 404, UNIMPLEMENTED, NO_SERVICE, 0, "no route matches this path")   \
	X(PATH, "path", 400, UNIMPLEMENTED, NO_SERVICE, 0, "ambiguous path")                       \
	X(HOST, "host", 400, UNIMPLEMENTED, NO_SERVICE, 0, "host name required")                   \
	X(MISDIRECTED, "misdirected", 421, UNAVAILABLE, NO_SERVICE, 0,                             \
	  "the certificate of this connection does not cover this host")                           \
	X(METHOD, "method", 405, UNIMPLEMENTED, NO_SERVICE, 0, "method not allowed on this path")  \
	X(UPGRADE, "upgrade", 501, UNIMPLEMENTED, NO_SERVICE, 0,                                   \
	  "this protocol is not among those of its route (key upgrade)")                           \
	X(TOO_LARGE, "too_large", 413, RESOURCE_EXHAUSTED, TOO_LARGE, 0, "request body too large") \
	X(SHED, "shed", 503, RESOURCE_EXHAUSTED, OVERLOADED, 1,                                    \
	  "overloaded: the deadline cannot be met")                                                \
	X(QUEUE_FULL, "queue_full", 503, RESOURCE_EXHAUSTED, OVERLOADED, 1,                        \
	  "overloaded: queue full")                                                                \
	X(FAIR_SHARE, "fair_share", 429, RESOURCE_EXHAUSTED, OVERLOADED, 1,                        \
	  "too many requests from this client")                                                    \
	X(NO_BACKEND, "no_backend", 503, UNAVAILABLE, UNAVAILABLE, 1, "no backend available")      \
	X(NO_MEMORY, "no_memory", 503, RESOURCE_EXHAUSTED, OVERLOADED, 1, "out of buffers")        \
	X(EXPIRED, "expired", 504, DEADLINE_EXCEEDED, EXPIRED, 0, "deadline exceeded")             \
	X(BACKEND_LOST, "backend_lost", 502, UNAVAILABLE, UNAVAILABLE, 0, "backend went away")     \
	X(BACKEND_ERROR, "backend_error", 502, INTERNAL, INTERNAL, 0, "backend error")             \
	X(CLIENT_GONE, "client_gone", 499, CANCELLED, INTERNAL, 0,                                 \
	  "client closed before the reply was sent")                                               \
	X(REQUEST_TIMEOUT, "request_timeout", 408, DEADLINE_EXCEEDED, EXPIRED, 0,                  \
	  "request body did not arrive in time")                                                   \
	X(STREAM_IDLE, "stream_idle", 504, DEADLINE_EXCEEDED, EXPIRED, 0,                          \
	  "stream idle for too long")                                                              \
	X(ADDRESS_LIMIT, "address_limit", 429, RESOURCE_EXHAUSTED, OVERLOADED, 1,                  \
	  "limit of this client address reached")                                                  \
	X(COMPRESSED, "compressed", 415, UNIMPLEMENTED, NO_SERVICE, 0,                             \
	  "compressed messages are not supported by this service")                                 \
	X(NO_MATCH, "no_match", 404, UNIMPLEMENTED, NO_SERVICE, 0,                                 \
	  "unknown model: no pool serves what this body names")                                    \
	X(MATCH_LIMIT, "match_limit", 413, RESOURCE_EXHAUSTED, TOO_LARGE, 0,                       \
	  "the model is named too far behind in this body")                                        \
	X(PREFLIGHT, "preflight", 204, UNIMPLEMENTED, OK, 0, "CORS preflight")                     \
	X(UNAUTHENTICATED, "unauthenticated", 401, UNAUTHENTICATED, NO_SERVICE, 0,                 \
	  "API key required")                                                                      \
	X(RATE_LIMIT, "rate_limit", 429, RESOURCE_EXHAUSTED, OVERLOADED, 1,                        \
	  "rate limit of this client reached")                                                     \
	X(OPEN_LIMIT, "open_limit", 429, RESOURCE_EXHAUSTED, OVERLOADED, 1,                        \
	  "too many open requests of this client")                                                 \
	X(NOT_UNARY, "not_unary", 501, UNIMPLEMENTED, NO_SERVICE, 0,                               \
	  "the call goes on after its message: the route needs stream = yes for such calls")

enum sl_outcome {
#define X(name, metric, http, grpc, datagram, retry_after_s, text) SL_OUTCOME_##name,
	SL_OUTCOMES(X)
#undef X
		SL_OUTCOME_CNT
};

#endif
