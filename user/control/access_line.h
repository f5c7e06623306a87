/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Formats a line of the access log. Strings from clients are escaped.
 *
 *   json      {"time": "2026-01-31T12:00:00.123456Z", "peer": "10.0.0.2", ..., "total_ns": 81250}
 *   combined  10.0.0.2 - - [31/Jan/2026:12:00:00 +0000] "GET /x HTTP/1.1" 200 5 "-" "curl/8.5"
 */
#ifndef SL_CONTROL_ACCESS_LINE_H
#define SL_CONTROL_ACCESS_LINE_H

#include "base/strbuf.h"
#include "config/config.h"
#include "core/event.h"

enum { SL_ACCESS_LINE_MAX = 8192 }; /* for any event */

/* Appends a line with its '\n'; b->err without room. unix_ns: end of the exchange. */
void sl_access_line(struct sl_strbuf *b, const struct sl_event *e,
		    const struct sl_cfg_access_log *cfg, uint64_t unix_ns);
/* Returns the reply's HTTP status, or the equivalent of another status. */
unsigned sl_access_status(const struct sl_event *e);
/* Returns the reply's gRPC status, or the equivalent. */
unsigned sl_access_grpc_status(const struct sl_event *e);
/* Returns the name of the outcome, or of the error of a request that had no exchange. */
const char *sl_access_outcome(const struct sl_event *e);
/* Returns its explanation, a static text. */
struct sl_span sl_access_reason(const struct sl_event *e);

#endif
