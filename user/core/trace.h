/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Traces (W3C Trace Context) and request ids, kept in the record of an exchange (event.h) and
 * passed on.
 */
#ifndef SL_CORE_TRACE_H
#define SL_CORE_TRACE_H

#include "core/event.h"

enum {
	SL_TRACE_SAMPLED = 1 << 0, /* as in traceparent */
	SL_TRACE_SPAN = 1 << 1,    /* there is a collector */
	SL_TRACE_PARENT = 1 << 2,  /* continues the client's trace */
	SL_TRACE_ID = 1 << 3,      /* x-request-id is sent */
	SL_TRACE_EXPORT = 1 << 4,  /* set at the end */
	SL_TRACE_KEEP = 1 << 5,    /* exported as it failed or was slow */
	SL_TRACE_ONLY = 1 << 6,    /* began without a reader: a record only if it is exported */
};

struct sl_tlv_writer;

/*
 * Sets trace ids in e, if tracing is on: the client's if valid, else new ones that may be sampled.
 * Worker.
 */
void sl_trace_begin(struct sl_core *c, struct sl_event *e, const struct sl_request *rq);
/* Returns the client's request id, or the trace's, written to hex. */
struct sl_span sl_trace_request_id(const struct sl_event *e, struct sl_span client, char hex[32]);
/* Writes 2 * len digits, without NUL. */
void sl_trace_hex(char *to, const uint8_t *id, size_t len);
/* Decides if the span is exported: sampled, failed or slow. */
void sl_trace_end(const struct sl_cfg_trace *cfg, struct sl_event *e);

/* Returns true for a client's field that sl_trace_put() replaces. */
bool sl_trace_hides(const struct sl_exchange *x, struct sl_span name);
/* Writes traceparent, tracestate and x-request-id for the backend. */
void sl_trace_put(struct sl_tlv_writer *w, const struct sl_exchange *x,
		  const struct sl_request *rq);
/* Adds x-request-id, unless the backend has sent one or there is no room. */
void sl_trace_reply(const struct sl_exchange *x, struct sl_reply_parts *out);

#endif
