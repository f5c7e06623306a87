/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Counters of reply statuses and durations, per route, pool and backend of one worker.
 *
 * Statuses not in SL_CODES share one counter per class. The worker writes; the control thread
 * reads.
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

/* Registered HTTP statuses, 499 (client closed request), proxies' statuses. */
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
	SL_CODE_GRPC_OTHER = SL_GRPC_STATUS_CNT,
	SL_CODE_GRPC_CNT,
};

struct sl_codes {
	uint64_t http[SL_CODE_CNT];
	uint64_t grpc[SL_CODE_GRPC_CNT]; /* also counted in `http` */
};

/* Microseconds: OpenTelemetry's bounds, and finer ones below. */
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
	SL_ROUTE_LABEL = 256, /* longer ones are cut */
	SL_DURATION_SLOTS = 8,
	SL_DURATION_OTHER = SL_DURATION_SLOTS - 1,
};

struct sl_duration {
	uint16_t index; /* in sl_codes plus 1; 0: free */
	uint64_t sum_ns;
	uint64_t bucket[SL_CODE_BOUND_CNT + 1];
};

/* Routes with the same label share one. It survives reloads. */
struct sl_route_codes {
	struct sl_list made; /* control thread */
	uint32_t refs;       /* control thread */
	struct sl_codes codes;
	struct sl_duration http[SL_DURATION_SLOTS];
	struct sl_duration grpc[SL_DURATION_SLOTS];
	struct sl_exemplars *exemplars; /* exemplar.h; NULL: no traces so far */
	char label[];                   /* host and prefix; "": no route */
};

struct sl_backend_codes {
	struct sl_codes codes;
	uint64_t sum_ns;
	uint64_t bucket[SL_HIST_BUCKETS]; /* sent -> first part of the reply */
};

struct sl_code_end {
	unsigned status; /* HTTP; 0: no reply has begun */
	unsigned grpc_status;
	uint8_t proto; /* enum sl_proto */
	bool begun;    /* its head was sent */
	enum sl_outcome outcome;
};

/* Returns an HTTP status's index in sl_codes.http. */
unsigned sl_code_index(unsigned status);
/* Returns the status of an index; 0: a class. */
unsigned sl_code_status(unsigned index);
/* Returns the class of an index, 1 to 5. */
unsigned sl_code_class(unsigned index);
/* Returns an upper bound; bucket < SL_CODE_BOUND_CNT. */
uint64_t sl_code_bound_ns(unsigned bucket);

/* Return the status that the client got, or the outcome's equivalent. HTTP of gRPC: 200. */
unsigned sl_code_http(const struct sl_code_end *e);
unsigned sl_code_grpc(const struct sl_code_end *e);

/* Returns the class, 1 to 5. gRPC statuses count as 2, 4, or 5 for faults of the server. */
unsigned sl_code_end_class(const struct sl_code_end *e);
/* Returns true if the client got class 5, or a reply that such a reason broke off. */
bool sl_code_failed(const struct sl_code_end *e);

/* Counters of one ending. */
struct sl_code_at {
	uint8_t http; /* in sl_codes.http */
	bool is_grpc;
	uint8_t grpc; /* in sl_codes.grpc, if is_grpc */
};

/* Returns the counters of an ending; sl_codes_add() increments them. */
struct sl_code_at sl_code_find(const struct sl_code_end *e);
static inline void sl_codes_add(struct sl_codes *c, struct sl_code_at at)
{
	c->http[at.http]++;
	if (at.is_grpc)
		c->grpc[at.grpc]++;
}
/* Counts the exchange and its duration. Worker. */
void sl_route_codes_add(struct sl_route_codes *r, struct sl_code_at at, uint64_t ns);
/*
 * Returns counters from `made`, perhaps new, or NULL without memory. `route` may be NULL. Needs
 * sl_route_codes_put(). Control thread.
 */
struct sl_route_codes *sl_route_codes_get(struct sl_list *made, const struct sl_cfg_route *route);
/* Drops a reference (may be NULL); the last frees r. Control thread. */
void sl_route_codes_put(struct sl_route_codes *r);
/* Returns the slot of an index in sl_codes, or SL_DURATION_OTHER. */
unsigned sl_duration_slot(const struct sl_duration *slots, unsigned index);
/* Returns a duration's bucket. */
unsigned sl_duration_bucket(uint64_t ns);
/* Adds SL_DURATION_SLOTS durations, by their statuses. */
void sl_durations_merge(struct sl_duration *to, const struct sl_duration *from);

#endif
