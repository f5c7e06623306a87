/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Strict parser of HTTP/1.x replies (RFC 9112), pure functions. sl_http1_chunked_next() reads
 * chunks. Fields are views of the input. Input that two recipients could read differently is
 * refused (response splitting). Unusual but unambiguous input passes: no reason phrase, empty
 * values.
 */
#ifndef SL_ORIGIN_H1_REPLY_H
#define SL_ORIGIN_H1_REPLY_H

#include <sys/types.h>
#include "front/front.h"

enum {
	ORIGIN_HEAD_MAX = 64 << 10, /* bytes */
	ORIGIN_FIELDS_MAX = 288,
};

struct origin_fields {
	struct sl_header at[ORIGIN_FIELDS_MAX];
	uint32_t cnt;
};

/* End of a body (RFC 9112 6.3). */
enum origin_delimiter { ORIGIN_NO_BODY, ORIGIN_LENGTH, ORIGIN_CHUNKS, ORIGIN_UNTIL_CLOSE };

struct origin_h1_reply {
	uint16_t status;
	uint8_t minor;
	uint8_t body; /* enum origin_delimiter */
	bool keep_alive;
	uint64_t length; /* Content-Length, or SL_LEN_UNKNOWN */
	struct sl_span reason;
	const char *wrong; /* reason of a refusal */
	struct origin_fields fields;
};

/*
 * Parses a reply head. `to_head`: the request was HEAD. Returns its length, 0 if incomplete, or -1
 * with the reason in out->wrong.
 */
ssize_t origin_h1_head(struct sl_span in, bool to_head, struct origin_h1_reply *out);

/*
 * Parses field lines up to the empty line. Returns as origin_h1_head(), with the reason in *wrong.
 */
ssize_t origin_h1_fields(struct sl_span in, struct origin_fields *out, const char **wrong);

#endif
