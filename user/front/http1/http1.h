/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pure functions for HTTP/1.x (RFC 9112).
 *
 *   head    sl_http1_parse()         bytes -> views of them, or the status that refuses them
 *   body    sl_http1_chunked_next()  framing in, views of the data out
 *   reply   sl_http1_format()        struct sl_reply -> the bytes of its head
 *
 * No function copies request bytes, allocates or keeps a pointer. Ambiguous requests are refused,
 * against request smuggling.
 */
#ifndef SL_FRONT_HTTP1_H
#define SL_FRONT_HTTP1_H

#include <sys/types.h>
#include "config/defaults.h"
#include "front/front.h"

enum {
	SL_HTTP1_HEADERS_MAX = SL_MAX_HEADERS_LIMIT + 4, /* HTTP/2 adds pseudo-fields */
	SL_HTTP1_METHOD_MAX = 32,                        /* longer: 501 */
	SL_HTTP1_CHUNK_EXT_MAX = 4096,                   /* of one body */
	SL_HTTP1_PART_OUT = 16384, /* longest chunk of a reply; usual head limit */
};

/* Views point into the parsed bytes. */
struct sl_http1_head {
	struct sl_request rq;
	bool chunked;
	bool keep_alive;
	bool trailers;    /* accepted by the client, RFC 9110 10.1.4 */
	bool incremental; /* a reply in pieces is useful, RFC 9218 4.2 */
	uint8_t minor;
	uint16_t status; /* refusal; 0: valid */
	uint8_t error;
	uint8_t seen; /* private to the parser */
	struct sl_span host;
	struct sl_header headers[SL_HTTP1_HEADERS_MAX];
};

/*
 * Parses a head. Returns its length, 0 if incomplete, or -1 if refused: `status` and `error` give
 * the cause, and rq.method is set if readable.
 */
ssize_t sl_http1_parse(struct sl_span in, const struct sl_front_limits *limits,
		       struct sl_http1_head *head);
/* Sets only headers and rq.header_cnt. Returns as above. */
ssize_t sl_http1_trailers(struct sl_span in, const struct sl_front_limits *limits,
			  struct sl_http1_head *head);

/* Check and store fields that frame or route a request. Return false to refuse it. */
bool sl_http1_target(struct sl_span target, struct sl_http1_head *head);
bool sl_http1_field(const struct sl_header *field, struct sl_http1_head *head);
bool sl_http1_framing(struct sl_http1_head *head);
bool sl_http1_authority_ok(struct sl_span authority);
/* Sets status and error. Returns false. */
static inline bool sl_http1_refuse(struct sl_http1_head *head, unsigned status,
				   enum sl_front_error error)
{
	head->status = (uint16_t)status;
	head->error = (uint8_t)error;
	return false;
}

/* Zero at start, except `stops` and `unbounded`. */
struct sl_http1_chunked {
	uint64_t left;
	uint64_t total;
	uint32_t extra; /* extensions and trailers */
	uint8_t state;
	uint8_t digits;
	bool stops;     /* stop at TRAILER: the caller parses trailers */
	bool unbounded; /* no length limit: the body is not stored */
};

enum sl_http1_chunked_state {
	SL_CHUNKED_SIZE,
	SL_CHUNKED_EXT,
	SL_CHUNKED_EXT_NAME,
	SL_CHUNKED_EXT_NAME_OVER,
	SL_CHUNKED_EXT_VALUE,
	SL_CHUNKED_EXT_TOKEN,
	SL_CHUNKED_EXT_QUOTED,
	SL_CHUNKED_EXT_PAIR,
	SL_CHUNKED_EXT_OVER, /* after the value, or blanks after the size */
	SL_CHUNKED_SIZE_LF,
	/* the caller consumes `left` bytes and subtracts them */
	SL_CHUNKED_DATA,
	SL_CHUNKED_DATA_CR,
	SL_CHUNKED_DATA_LF,
	SL_CHUNKED_TRAILER,
	SL_CHUNKED_TRAILER_NAME,
	SL_CHUNKED_TRAILER_VALUE,
	SL_CHUNKED_TRAILER_LF,
	SL_CHUNKED_LAST_LF,
	SL_CHUNKED_DONE,
};

/*
 * Parses framing up to data, the end or an error. Returns the bytes used. Then the state is DATA
 * (left > 0) or DONE, or input is needed. *status: 0, or the refusal.
 */
size_t sl_http1_chunked_next(struct sl_http1_chunked *c, struct sl_span in,
			     const struct sl_front_limits *limits, unsigned *status);

enum sl_http1_framing {
	SL_HTTP1_NO_BODY, /* HEAD, 204, 304: Content-Length is informational */
	SL_HTTP1_LENGTH,
	SL_HTTP1_CHUNKS,
	SL_HTTP1_UNTIL_CLOSE,
};

enum sl_http1_connection {
	SL_HTTP1_PERSIST,
	SL_HTTP1_KEEP_ALIVE,
	SL_HTTP1_CLOSE,
	SL_HTTP1_UPGRADE, /* 101 with r->upgrade */
};

/*
 * Formats a reply head without fields that the gateway sets. Returns its length, or 0: no room,
 * invalid status (allowed: 200 to 599, and 101 with UPGRADE), or control characters. `len`: whole
 * body or SL_LEN_UNKNOWN. `date` has 29 bytes.
 */
size_t sl_http1_format(uint8_t *buf, size_t cap, const struct sl_reply *r, uint64_t len,
		       const char *date, enum sl_http1_framing framing,
		       enum sl_http1_connection connection);
/* Returns as above. */
size_t sl_http1_format_interim(uint8_t *buf, size_t cap, const struct sl_reply *r);
/* Formats the last chunk and r->trailers. Returns as above. */
size_t sl_http1_format_end(uint8_t *buf, size_t cap, const struct sl_reply *r);

#endif
