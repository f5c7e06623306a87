/* SPDX-License-Identifier: Apache-2.0 */
/* Counters of a worker's core, by name; written by the worker, read by the control thread. */
#ifndef SL_CORE_STATS_H
#define SL_CORE_STATS_H

#include <stdint.h>
#include "front/front.h"

/* How exchanges ended. Each accepted request adds one to exactly one of these. */
#define SL_OUTCOMES(X)                                                                             \
	X(OK, "ok", "answered by a backend")                                                       \
	X(FIXED, "fixed", "answered by a fixed reply")                                             \
	X(NO_ROUTE, "no_route", "404: no route matches")                                           \
	X(METHOD, "method", "405: the route has other methods")                                    \
	X(TOO_LARGE, "too_large", "413: body above the limit")                                     \
	X(SHED, "shed", "503: shed by the controller, deadline cannot be met")                     \
	X(QUEUE_FULL, "queue_full", "503: queue limit of the service")                             \
	X(FAIR_SHARE, "fair_share", "429: this client's share of the queue is used up")            \
	X(NO_BACKEND, "no_backend", "503: no backend is up")                                       \
	X(NO_MEMORY, "no_memory", "503: exchanges or frames exhausted")                            \
	X(EXPIRED, "expired", "504: deadline passed")                                              \
	X(BACKEND_LOST, "backend_lost", "502: backend went away with the request")                 \
	X(BACKEND_ERROR, "backend_error", "502: backend reported an error")                        \
	X(CLIENT_GONE, "client_gone", "client closed before the reply was sent")                   \
	X(REQUEST_TIMEOUT, "request_timeout", "408: body did not arrive in time")

enum sl_outcome {
#define X(name, metric, help) SL_OUTCOME_##name,
	SL_OUTCOMES(X)
#undef X
		SL_OUTCOME_CNT
};

struct sl_core_stats {
	uint64_t requests; /* begun */
	uint64_t outcomes[SL_OUTCOME_CNT];
	uint64_t front_errors[SL_FRONT_ERR_CNT];
	uint64_t protocols[SL_PROTO_CNT];
	uint64_t retried;          /* sent to another backend after a loss */
	uint64_t batches, batched; /* batches sent, requests in them */
	uint64_t clients_timed_out;
	uint32_t clients;
};

#endif
