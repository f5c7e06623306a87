/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Builds the server's request from the client's, with the fields of a proxy (RFC 9110 7.6, RFC
 * 7239, W3C trace context).
 */
#ifndef SL_ORIGIN_REQUEST_H
#define SL_ORIGIN_REQUEST_H

#include "front/front.h"

struct sl_request_view;

enum { ORIGIN_REQUEST_FIELDS = 160, ORIGIN_REQUEST_SCRATCH = 24 << 10 };

struct origin_request {
	struct sl_span method, path, query, authority;
	struct sl_span upgrade;                         /* or empty */
	struct sl_header fields[ORIGIN_REQUEST_FIELDS]; /* lower case, without Host */
	uint32_t cnt;
	size_t used;
	char scratch[ORIGIN_REQUEST_SCRATCH];
};

/* Value of Host or :authority. */
struct origin_authority {
	char text[270];
	bool always; /* replaces the client's; false: only if missing or invalid */
};

/*
 * Makes a request, valid as long as rq, own and out. False: a field must not reach a server, or too
 * many. `trace`: 24 random bytes, for requests without traceparent.
 */
bool origin_request_make(struct origin_request *out, const struct sl_request_view *rq,
			 const struct origin_authority *own, const uint8_t trace[24]);

/* Takes the next trailer that may be forwarded, a view of *rest; false: no more. */
bool origin_trailer_next(struct sl_span *rest, struct sl_header *out);

#endif
