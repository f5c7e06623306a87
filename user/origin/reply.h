/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SL_ORIGIN_REPLY_H
#define SL_ORIGIN_REPLY_H

#include "origin/h1_reply.h"
#include "sluice/backend.h"

enum { ORIGIN_HEADERS_MAX = SL_RPC_MAX_FIELDS, ORIGIN_TRAILERS_MAX = SL_RPC_MAX_TRAILERS };
_Static_assert(ORIGIN_FIELDS_MAX > (int)ORIGIN_HEADERS_MAX, "a hop has fields of its own");

struct origin_reply_fields {
	struct sl_header_arg at[ORIGIN_HEADERS_MAX + ORIGIN_TRAILERS_MAX];
	unsigned cnt;
};

/*
 * Adds the fields of f that may pass. Names become lower case and NUL-terminated in place, over
 * their colon. False: too many.
 */
bool origin_reply_take(struct origin_reply_fields *out, const struct origin_fields *f,
		       bool trailers);

#endif
