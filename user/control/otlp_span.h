/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Formats a request's span as JSON of OTLP (opentelemetry-proto 1.3). Texts of clients are escaped.
 */
#ifndef SL_CONTROL_OTLP_SPAN_H
#define SL_CONTROL_OTLP_SPAN_H

#include "base/strbuf.h"
#include "core/event.h"

enum { SL_OTLP_SPAN_MAX = 8192 }; /* for any record */

/* Appends a span; b->err without room. unix_ns: its end. */
void sl_otlp_span(struct sl_strbuf *b, const struct sl_event *e, uint64_t unix_ns);

#endif
