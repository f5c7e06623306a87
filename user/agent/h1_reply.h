/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What an HTTP/1.x server answers, read strictly (RFC 9112), in pure functions.
 *
 *   head      agent_h1_head()     bytes -> status, fields, and how the body is framed
 *   chunks    sl_http1_chunked_next() of the front, with `stops` set
 *   trailers  agent_h1_fields()   the lines behind the last chunk
 *
 * Nothing is copied: fields are views of the bytes that were given. What two recipients could read in
 * two ways is refused, since the one behind us may be the other one. What more a server does that is
 * only unusual (no reason phrase, fields without a value) is let pass.
 */
#ifndef SL_AGENT_H1_REPLY_H
#define SL_AGENT_H1_REPLY_H

#include <sys/types.h>
#include "front/front.h"

enum {
	AGENT_HEAD_MAX = 64 << 10, /* bytes of a head, and of trailers */
	AGENT_FIELDS_MAX = 288,    /* with those of this hop */
};

struct agent_fields {
	struct sl_header at[AGENT_FIELDS_MAX];
	uint32_t cnt;
};

/* How the end of a body is told: RFC 9112 6.3. */
enum agent_delimiter { AGENT_NO_BODY, AGENT_LENGTH, AGENT_CHUNKS, AGENT_UNTIL_CLOSE };

struct agent_h1_reply {
	uint16_t status;
	uint8_t minor;         /* of HTTP/1.x */
	uint8_t body;          /* enum agent_delimiter */
	bool keep_alive;       /* another request may follow */
	uint64_t length;       /* Content-Length; SL_LEN_UNKNOWN: not stated */
	struct sl_span reason; /* behind the status; may be empty */
	const char *wrong;     /* refused: what about it */
	struct agent_fields fields;
};

/*
 * One head at the start of `in`; `to_head` says that a HEAD request asked for it. Its length; 0 if
 * it is incomplete, so far without an error; -1: refused, out->wrong says why.
 */
ssize_t agent_h1_head(struct sl_span in, bool to_head, struct agent_h1_reply *out);

/* Field lines up to and with the empty one; as above, with *wrong. */
ssize_t agent_h1_fields(struct sl_span in, struct agent_fields *out, const char **wrong);

#endif
