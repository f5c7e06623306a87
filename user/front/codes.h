/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Counters of reply statuses, per route, pool and backend of one worker.
 *
 *   end of an exchange --> route: codes, durations    pool: codes
 *                          backend: codes, time to the first part of its reply
 *
 * A status has a counter of its own if it is in SL_CODES. Others share one counter per class, so
 * that a backend cannot create new ones. The worker writes; the control thread reads.
 *
 * Tests: tests/unit/core/test_codes.c
 */
#ifndef SL_FRONT_CODES_H
#define SL_FRONT_CODES_H

#include <stdbool.h>
#include <stdint.h>

#include "base/hist.h"
#include "base/list.h"
#include "config/config.h"
#include "front/front.h"
#include "front/grpc/grpc.h"
#include "sluice/outcome.h"

/* Registered HTTP statuses, 499 (client closed request), and those of proxies and load shedding. */
/* clang-format off */
#define SL_CODES(X) \
	X(100) X(101) X(103) X(200) X(201) X(202) X(203) X(204) X(205) X(206) X(207) X(208) \
	X(226) X(300) X(301) X(302) X(303) X(304) X(305) X(307) X(308) X(400) X(401) X(402) \
	X(403) X(404) X(405) X(406) X(407) X(408) X(409) X(410) X(411) X(412) X(413) X(414) \
	X(415) X(416) X(417) X(418) X(421) X(422) X(423) X(424) X(425) X(426) X(428) X(429) \
	X(431) X(451) X(499) X(500) X(501) X(502) X(503) X(504) X(505) X(506) X(507) X(508) \
	X(510) X(511) X(520) X(529)
/* clang-format on */

enum {
#define X(code) SL_CODE_##code,
	SL_CODES(X)
#undef X
		SL_CODE_OTHER, /* then one per class, 1xx to 5xx; the first also takes non-HTTP */
	SL_CODE_CNT = SL_CODE_OTHER + 5,
	SL_CODE_GRPC_OTHER = SL_GRPC_STATUS_CNT, /* an undefined gRPC status */
	SL_CODE_GRPC_CNT,
};

struct sl_codes {
	uint64_t http[SL_CODE_CNT];
	uint64_t grpc[SL_CODE_GRPC_CNT]; /* gRPC calls; they are in `http`, too */
};

/* Upper bounds in microseconds: those of OpenTelemetry, and finer ones below. */
/* clang-format off */
#define SL_CODE_BOUNDS_US(X) \
	X(10) X(25) X(50) X(100) X(250) X(500) X(1000) X(2500) X(5000) X(10000) X(25000) \
	X(50000) X(75000) X(100000) X(250000) X(500000) X(750000) X(1000000) X(2500000) \
	X(5000000) X(7500000) X(10000000)
/* clang-format on */

enum {
#define X(us) SL_CODE_BOUND_##us,
	SL_CODE_BOUNDS_US(X)
#undef X
		SL_CODE_BOUND_CNT,
	SL_ROUTE_LABEL = 256,  /* longer ones are cut, and share counters */
	SL_DURATION_SLOTS = 8, /* the last one: statuses without a slot */
	SL_DURATION_OTHER = SL_DURATION_SLOTS - 1,
};

/* Durations of the exchanges with one status. */
struct sl_duration {
	uint16_t index; /* in sl_codes plus 1; 0: free */
	uint64_t sum_ns;
	uint64_t bucket[SL_CODE_BOUND_CNT + 1];
};

/* Routes with the same label share one, and it survives reloads. */
struct sl_route_codes {
	struct sl_list made; /* control */
	uint32_t refs;       /* control */
	struct sl_codes codes;
	struct sl_duration http[SL_DURATION_SLOTS];
	struct sl_duration grpc[SL_DURATION_SLOTS];
	char label[]; /* host and prefix; "": no route */
};

struct sl_backend_codes {
	struct sl_codes codes; /* as the backend sent them */
	uint64_t sum_ns;
	uint64_t bucket[SL_HIST_BUCKETS]; /* sent -> first part of the reply */
};

/* A finished exchange. */
struct sl_code_end {
	unsigned status;      /* HTTP; 0: no reply has begun */
	unsigned grpc_status; /* of the reply */
	uint8_t proto;        /* enum sl_proto */
	bool begun;           /* its head was sent */
	enum sl_outcome outcome;
};

/* Returns the index of an HTTP status in sl_codes.http. */
unsigned sl_code_index(unsigned status);
/* Returns the status of an index; 0: others of their class. */
unsigned sl_code_status(unsigned index);
/* Returns the class of an index: 1 to 5. */
unsigned sl_code_class(unsigned index);
/* Returns the upper bound of a bucket in nanoseconds. */
uint64_t sl_code_bound_ns(unsigned bucket);

/* Returns the HTTP status that the client got, or the outcome's equivalent. */
unsigned sl_code_http(const struct sl_code_end *e);
/* Returns the gRPC status that the client got, or the outcome's equivalent. */
unsigned sl_code_grpc(const struct sl_code_end *e);

/* Returns the class, 1 to 5. A gRPC call counts by its gRPC status: 2: OK, 5: fault of the server. */
unsigned sl_code_end_class(const struct sl_code_end *e);
/* Returns true if the client got class 5, or a reply that broke off for such a reason. */
bool sl_code_failed(const struct sl_code_end *e);

void sl_codes_add(struct sl_codes *c, const struct sl_code_end *e);
/* Counts the exchange and its duration. */
void sl_route_codes_add(struct sl_route_codes *r, const struct sl_code_end *e, uint64_t ns);
/*
 * Returns the counters of a route, which may be NULL, from the list, or new ones. NULL: no memory.
 * The caller gives them back. Control thread.
 */
struct sl_route_codes *sl_route_codes_get(struct sl_list *made, const struct sl_cfg_route *route);
/* Frees them after the last. r may be NULL. Control thread. */
void sl_route_codes_put(struct sl_route_codes *r);
/* Adds `from` to `to`, both with slots of their own. */
void sl_durations_merge(struct sl_duration *to, const struct sl_duration *from);

#endif
