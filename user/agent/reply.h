/* SPDX-License-Identifier: Apache-2.0 */
/* Fields of a server's reply for the gateway: bounded, without hop-by-hop fields. */
#ifndef SL_AGENT_REPLY_H
#define SL_AGENT_REPLY_H

#include "agent/h1_reply.h"
#include "sluice/backend.h"

enum { AGENT_HEADERS_MAX = SL_RPC_MAX_FIELDS, AGENT_TRAILERS_MAX = SL_RPC_MAX_TRAILERS };
_Static_assert(AGENT_FIELDS_MAX > (int)AGENT_HEADERS_MAX, "a hop has fields of its own");

struct agent_reply_fields {
	struct sl_header_arg at[AGENT_HEADERS_MAX + AGENT_TRAILERS_MAX];
	unsigned cnt;
};

/*
 * Adds the fields of f that may pass. Names become lower case and NUL-terminated in place, over
 * their colon. Returns false if there are too many.
 */
bool agent_reply_take(struct agent_reply_fields *out, const struct agent_fields *f, bool trailers);

#endif
