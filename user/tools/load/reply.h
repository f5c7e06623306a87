/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Replies of HTTP/1.1 as a load generator needs them: length and status understood, the body
 * compared as it arrives, nothing kept. Content-Length and chunks.
 */
#ifndef SL_TOOLS_LOAD_REPLY_H
#define SL_TOOLS_LOAD_REPLY_H

#include <stdbool.h>
#include <stdint.h>
#include "base/bytes.h"

enum { SL_REPLY_HEAD_MAX = 2048 };

struct sl_load_reply {
	uint32_t head_len; /* of a head that is not complete yet */
	uint8_t state;
	bool differs; /* the body is not the expected one */
	bool close;   /* the server closes behind it */
	uint16_t status;
	uint64_t left;    /* of the body, or of the chunk */
	uint64_t body_at; /* bytes of body so far */
	uint8_t head[SL_REPLY_HEAD_MAX];
};

enum sl_reply_verdict { SL_REPLY_MORE, SL_REPLY_COMPLETE, SL_REPLY_MALFORMED };

/* Uses bytes from the front of *in up to the end of one reply. expect.ptr NULL: any body. */
enum sl_reply_verdict sl_load_reply_feed(struct sl_load_reply *r, struct sl_span *in,
					 struct sl_span expect, bool head_request);

#endif
