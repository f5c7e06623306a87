/* SPDX-License-Identifier: Apache-2.0 */
/* Buffers without state between upcalls and calls into the protocols. */
#ifndef SL_ORIGIN_SCRATCH_H
#define SL_ORIGIN_SCRATCH_H

#include "origin/h1.h"
#include "origin/h2.h"

struct origin_scratch {
	struct origin_request request;
	struct origin_reply_fields fields;
	struct origin_h2_head head;
	nghttp2_nv trailers[ORIGIN_REQUEST_FIELDS];
	uint8_t text[ORIGIN_H1_TX]; /* head of an HTTP/1.1 request */
	uint8_t input[256 << 10];   /* HTTP/2 */
};

#endif
