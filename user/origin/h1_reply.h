/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Strict parser of HTTP/1.x replies (RFC 9112), without chunks. Refuses ambiguity.
 */
#ifndef SL_ORIGIN_H1_REPLY_H
#define SL_ORIGIN_H1_REPLY_H

#include <sys/types.h>
#include "front/front.h"

enum {
	ORIGIN_HEAD_MAX = 64 << 10,
	ORIGIN_FIELDS_MAX = 288,
};

struct origin_fields {
	struct sl_header at[ORIGIN_FIELDS_MAX];
	uint32_t cnt;
};

/* RFC 9112 6.3 */
enum origin_delimiter { ORIGIN_NO_BODY, ORIGIN_LENGTH, ORIGIN_CHUNKS, ORIGIN_UNTIL_CLOSE };

struct origin_h1_reply {
	uint16_t status;
	uint8_t minor;
	uint8_t body;
	bool keep_alive;
	uint64_t length; /* or SL_LEN_UNKNOWN */
	struct sl_span reason;
	const char *wrong;
	struct origin_fields fields;
};

/*
 * Parses a reply head. `to_head`: the request was HEAD. Returns its length; 0: incomplete; -1:
 * refused, with out->wrong. Fields are views of `in`.
 */
ssize_t origin_h1_head(struct sl_span in, bool to_head, struct origin_h1_reply *out);

/* Does the same with trailers. */
ssize_t origin_h1_fields(struct sl_span in, struct origin_fields *out, const char **wrong);

/*
 * Checks a 101 against the protocols that the request named, and against the
 * Sec-WebSocket-Accept, "": any. Returns NULL, or what is wrong. RFC 9110 7.8.
 */
const char *origin_h1_upgrade(const struct origin_fields *f, struct sl_span asked,
			      const char *accept);

#endif
