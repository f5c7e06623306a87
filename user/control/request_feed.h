/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finished requests (core/event.h), from the rings of the workers to their readers:
 *
 *   rings --> access log
 *         --> clients of /requests, each with a filter (`sluice events`)
 *         --> spans for a collector (otlp.h)
 *
 * Records stay in the rings while the access log has no room. A client that is too slow misses
 * lines, which are counted (sluice_event_lines_missed_total). No worker ever waits.
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
 * Reads a filter from the query: pool, route, backend, status (503 or 5xx), slow (a duration).
 * Returns NULL and one line in err. free() frees it.
 */
struct request_filter *request_filter_new(struct MHD_Connection *conn, struct sl_err *err);
/* The same from one pair. Returns 0, or -EINVAL and one line in err. */
int request_filter_set(struct request_filter *f, const char *key, const char *value,
		       struct sl_err *err);
struct request_filter *request_filter_empty(void);
bool request_filter_matches(const struct request_filter *f, const struct sl_event *e);

/* Gives a record to the clients whose filters match. */
void admin_requests_put(struct sl_admin *a, const struct sl_event *e, uint64_t unix_ns);
/* Detects clients that have gone. Called once a second. */
void admin_requests_tick(struct sl_admin *a);
bool admin_requests_wanted(const struct sl_admin *a);

/* Distributes new records. Returns true while there are readers. */
bool sl_request_feed_run(struct sl_control *c);
/* Returns the number of lines that clients have missed. */
uint64_t sl_request_feed_missed(void);

#endif
