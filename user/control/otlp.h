/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sends spans of requests with SL_TRACE_EXPORT to a collector: OTLP over HTTP, as JSON.
 *
 * A POST is sent once a second, or when 256 KiB wait; one at a time. Without a reply, or at 429,
 * 502, 503 or 504, it is repeated after 1 s to 30 s. Spans beyond 1 MiB are dropped and counted.
 * Control thread.
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

/* Returns NULL without memory. */
struct sl_otlp *sl_otlp_new(void);
/* o may be NULL. */
void sl_otlp_free(struct sl_otlp *o);
/* Applies settings, without keeping `cfg`; another collector drops the running POST. */
void sl_otlp_configure(struct sl_otlp *o, const struct sl_cfg_trace *cfg);
/* Returns true if a collector is configured. */
bool sl_otlp_is_on(const struct sl_otlp *o);
/* Adds a request's span, if exported. unix_ns: its end. */
void sl_otlp_put(struct sl_otlp *o, const struct sl_event *e, uint64_t unix_ns);
/* Sends and receives without waiting. */
void sl_otlp_run(struct sl_otlp *o, uint64_t now_ns);
/* Sends waiting spans, for up to 200 ms, and drops the rest. */
void sl_otlp_finish(struct sl_otlp *o);
/* Counters since the start of the process. */
struct sl_otlp_stats sl_otlp_stats(void);

#endif
