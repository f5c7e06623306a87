/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Formats the span of a finished request as JSON of OTLP (opentelemetry-proto 1.3). Texts of
 * clients are escaped, and invalid UTF-8 is replaced.
 *
 * Tests: tests/unit/control/test_otlp.c
 */
#ifndef SL_CONTROL_OTLP_SPAN_H
#define SL_CONTROL_OTLP_SPAN_H

#include "base/strbuf.h"
#include "core/event.h"

enum { SL_OTLP_SPAN_MAX = 8192 }; /* upper bound for any record */

/* Appends a span. unix_ns: its end. */
void sl_otlp_span(struct sl_strbuf *b, const struct sl_event *e, uint64_t unix_ns);

#endif
