/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Formats a line of the access log. Strings from the client are escaped, so that they can neither end
 * a field or a line nor contain control characters.
 *
 *   json      {"time": "2026-01-31T12:00:00.123456Z", "peer": "10.0.0.2", ..., "total_ns": 81250}
 *   combined  10.0.0.2 - - [31/Jan/2026:12:00:00 +0000] "GET /x HTTP/1.1" 200 5 "-" "curl/8.5"
 */
#ifndef SL_CONTROL_ACCESS_LINE_H
#define SL_CONTROL_ACCESS_LINE_H

#include "base/strbuf.h"
#include "config/config.h"
#include "core/event.h"

enum { SL_ACCESS_LINE_MAX = 8192 }; /* upper bound for any event */

/* Appends a line with its '\n', in the format of cfg. unix_ns: end of the exchange. */
void sl_access_line(struct sl_strbuf *b, const struct sl_event *e,
		    const struct sl_cfg_access_log *cfg, uint64_t unix_ns);
/* Returns the HTTP status of the reply, or the equivalent one. */
unsigned sl_access_status(const struct sl_event *e);
/* Returns the gRPC status of a gRPC call. */
unsigned sl_access_grpc_status(const struct sl_event *e);

#endif
