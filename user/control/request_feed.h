/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finished requests (core/event.h), from workers to readers:
 *
 *   rings --> access log
 *         --> clients of /requests, each with a filter (`sluice events`)
 *         --> spans for a collector (otlp.h)
 *
 * Lines that a slow client misses are counted. No worker waits. Control thread.
 */
#ifndef SL_CONTROL_REQUEST_FEED_H
#define SL_CONTROL_REQUEST_FEED_H

#include <microhttpd.h>

#include "base/err.h"
#include "control/control.h"
#include "core/event.h"

struct sl_admin;
struct request_filter;

/*
 * Returns the query's filter, for free(), or NULL and err: pool, route, backend, status (503 or
 * 5xx), slow (a duration).
 */
struct request_filter *request_filter_new(struct MHD_Connection *conn, struct sl_err *err);
/* Sets a condition. Returns 0, or -EINVAL and err. */
int request_filter_set(struct request_filter *f, const char *key, const char *value,
		       struct sl_err *err);
/* Returns a filter that all match, for free(), or NULL without memory. */
struct request_filter *request_filter_empty(void);
/* Returns true if all conditions match. */
bool request_filter_matches(const struct request_filter *f, const struct sl_event *e);

/* Writes a record to all clients whose filter matches. */
void admin_requests_put(struct sl_admin *a, const struct sl_event *e, uint64_t unix_ns);
/* Called once a second. Detects clients that have gone. */
void admin_requests_tick(struct sl_admin *a);
/* Returns true if /requests has a client. */
bool admin_requests_wanted(const struct sl_admin *a);

/* Distributes new records. Returns true while there are readers. */
bool sl_request_feed_run(struct sl_control *c);
/* Returns the number of missed lines since the start of the process. */
uint64_t sl_request_feed_missed(void);

#endif
