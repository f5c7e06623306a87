/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A request as the server gets it: what of the client's head goes on, and what a proxy adds
 * (RFC 9110 7.6, RFC 7239, W3C trace context). Bytes are views of the SDK's memory and of `scratch`.
 */
#ifndef SL_AGENT_REQUEST_H
#define SL_AGENT_REQUEST_H

#include "front/front.h"

struct sl_request_view;

enum { AGENT_REQUEST_FIELDS = 160, AGENT_REQUEST_SCRATCH = 24 << 10 };

struct agent_request {
	struct sl_span method, path, query, authority;
	struct sl_span upgrade; /* to which protocols the client wants to; or none */
	struct sl_header fields[AGENT_REQUEST_FIELDS]; /* names in lower case; without Host */
	uint32_t cnt;
	size_t used;
	char scratch[AGENT_REQUEST_SCRATCH];
};

/* What a server is called in Host, or :authority. */
struct agent_authority {
	char text[270];
	bool always; /* also where the client has named another, or else where it has named none */
};

/*
 * False: there is something in it that must not reach a server. `trace` is 24 random bytes for a
 * request without a traceparent.
 */
bool agent_request_make(struct agent_request *out, const struct sl_request_view *rq,
			const struct agent_authority *own, const uint8_t trace[24]);

/* The next of what stands behind the body, as far as it goes on; rest is what is left of the fields. */
bool agent_trailer_next(struct sl_span *rest, struct sl_header *out);

#endif
