/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fields that are the gateway's to say: from where a request came and by which door (forwarded is of
 * RFC 7239), who its client has proven to be. What a client sends under these names is not passed on
 * as it is, nor does its Connection field take them away.
 */
#ifndef SL_FRONT_SAID_H
#define SL_FRONT_SAID_H

#include <stdbool.h>
#include "base/bytes.h"

enum sl_said {
	SL_SAID_FOR,
	SL_SAID_PROTO,
	SL_SAID_HOST,
	SL_SAID_PORT, /* only ever handed on: ours is in the host */
	SL_SAID_FORWARDED,
	SL_SAID_SUBJECT,
	SL_SAID_SAN,
	SL_SAID_CNT
};

/* In lower case. */
extern const struct sl_span sl_said_names[SL_SAID_CNT];

/*
 * Returns true if `name` is `lower` to a server that reads every byte but letters and digits as one
 * and the same, as CGI does (RFC 3875 4.1.18) and with it WSGI, Rack, PHP: x_forwarded_for.
 */
bool sl_said_folds_to(struct sl_span name, struct sl_span lower);
/* Returns true if a server can take the name for one of these. */
bool sl_said_is(struct sl_span name);
/* Returns true if a server can take the name, and the gateway does not, for one that frames a body. */
bool sl_said_is_framing(struct sl_span name);

#endif
