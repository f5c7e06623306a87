/* SPDX-License-Identifier: Apache-2.0 */
/* HTTP/1.1 replies. Compares bodies without storing them. */
#ifndef SL_TOOLS_LOAD_REPLY_H
#define SL_TOOLS_LOAD_REPLY_H

#include <stdbool.h>
#include <stdint.h>
#include "base/bytes.h"

enum { SL_REPLY_HEAD_MAX = 2048 };

struct sl_load_reply {
	uint32_t head_len; /* incomplete head */
	uint8_t state;
	bool differs;
	bool close;
	uint16_t status;
	uint64_t left;    /* body or chunk */
	uint64_t body_at; /* body */
	uint8_t head[SL_REPLY_HEAD_MAX];
};

enum sl_reply_verdict { SL_REPLY_MORE, SL_REPLY_COMPLETE, SL_REPLY_MALFORMED };

/*
 * Consumes bytes of *in up to the end of one reply. expect.ptr NULL: any body. r: zeroed at first.
 */
enum sl_reply_verdict sl_load_reply_feed(struct sl_load_reply *r, struct sl_span *in,
					 struct sl_span expect, bool head_request);

#endif
