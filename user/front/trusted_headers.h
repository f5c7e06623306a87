/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fields that describe a request's origin: client address, listener (RFC 7239), client certificate,
 * API key. A client's values are not passed on unchanged, and its Connection field cannot remove
 * them.
 */
#ifndef SL_FRONT_TRUSTED_HEADERS_H
#define SL_FRONT_TRUSTED_HEADERS_H

#include <stdbool.h>
#include "base/bytes.h"

enum sl_trusted_header {
	SL_TRUSTED_FOR,
	SL_TRUSTED_PROTO,
	SL_TRUSTED_HOST,
	SL_TRUSTED_PORT, /* passed on only; the host field has the gateway's port */
	SL_TRUSTED_FORWARDED,
	SL_TRUSTED_SUBJECT,
	SL_TRUSTED_SAN,
	SL_TRUSTED_KEY,
	SL_TRUSTED_CNT
};

extern const struct sl_span sl_trusted_header_names[SL_TRUSTED_CNT];

/*
 * Returns true if `name` equals `lower` once all bytes but letters and digits are mapped to one
 * character. CGI (RFC 3875 4.1.18), WSGI, Rack and PHP do so.
 */
bool sl_trusted_header_folds_to(struct sl_span name, struct sl_span lower);
/* Returns true if a server could read `name` as one of these fields. */
bool sl_trusted_header_is(struct sl_span name);
/* Returns true if only a server could read `name` as framing a body. */
bool sl_trusted_header_is_framing(struct sl_span name);

#endif
