/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A line of the access log. What a client chose (path, method, fields) is escaped: nothing that it sends
 * ends a line, a field or a string before its time, or reaches a terminal as a control character.
 *
 *   json      {"time": "2026-01-31T12:00:00.123456Z", "peer": "10.0.0.2", ..., "total_ns": 81250}
 *   combined  10.0.0.2 - - [31/Jan/2026:12:00:00 +0000] "GET /x HTTP/1.1" 200 5 "-" "curl/8.5"
 */
#ifndef SL_CONTROL_ACCESS_LINE_H
#define SL_CONTROL_ACCESS_LINE_H

#include "base/strbuf.h"
#include "config/config.h"
#include "core/event.h"

enum { SL_ACCESS_LINE_MAX = 8192 }; /* of any event, however much of it is escaped */

/*
 * Appends the line, '\n' included, in the format and with the fields that `cfg` says. unix_ns: when the
 * exchange ended.
 */
void sl_access_line(struct sl_strbuf *b, const struct sl_event *e,
		    const struct sl_cfg_access_log *cfg, uint64_t unix_ns);
/* The HTTP status that the client got; where its protocol has none, that of the same meaning. */
unsigned sl_access_status(const struct sl_event *e);

#endif
