/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sends spans of finished requests to a collector: OTLP over HTTP, as JSON.
 *
 *   records with SL_TRACE_EXPORT --put--> waiting spans (1 MiB) --> one POST --> collector
 *
 * A POST is sent once a second, or when 256 KiB wait. There is one at a time, and no call waits.
 * It is repeated after a failed connection, a time-out, and 429, 502, 503 or 504. The
 * back-off is 1 s to 30 s. Meanwhile spans wait. Those beyond the limit are dropped and counted. Half
 * of the room is reserved for requests that failed or were slow. Control thread.
 *
 * Tests: tests/unit/control/test_otlp.c, tests/netns/operate/trace.sh
 */
#ifndef SL_CONTROL_OTLP_H
#define SL_CONTROL_OTLP_H

#include "config/config.h"
#include "core/event.h"

struct sl_otlp;

struct sl_otlp_stats {
	uint64_t exported, dropped; /* spans */
	uint64_t failures;          /* requests to the collector */
};

/* Returns an exporter without a collector, or NULL without memory. */
struct sl_otlp *sl_otlp_new(void);
/* Drops what was not sent. o may be NULL. */
void sl_otlp_free(struct sl_otlp *o);
/* Selects the collector. `cfg` need not live on. */
void sl_otlp_configure(struct sl_otlp *o, const struct sl_cfg_trace *cfg);
/* Returns true if there is a collector. */
bool sl_otlp_is_on(const struct sl_otlp *o);
/* Adds the span of a request, if it is exported. unix_ns: its end. */
void sl_otlp_put(struct sl_otlp *o, const struct sl_event *e, uint64_t unix_ns);
/* Sends and receives as much as possible without waiting. */
void sl_otlp_run(struct sl_otlp *o, uint64_t now_ns);
/* Sends what waits, once, for up to 200 ms. Called at the end of the process. */
void sl_otlp_finish(struct sl_otlp *o);
/* Returns the counters since the start. */
struct sl_otlp_stats sl_otlp_stats(void);

#endif
