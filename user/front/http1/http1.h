/* SPDX-License-Identifier: Apache-2.0 */
/*
 * HTTP/1.x (RFC 9112) in pure functions, for http1.c, tests, fuzzing and benches.
 *
 *   head    sl_http1_parse()         bytes -> views of them, or the status that refuses them
 *   body    sl_http1_chunked_next()  framing in, views of the data out
 *   reply   sl_http1_format()        struct sl_reply -> the bytes of its head
 *
 * Nothing here copies request bytes, allocates or keeps a pointer. What two recipients could read
 * in two ways is refused: that is what request smuggling lives on.
 */
#ifndef SL_FRONT_HTTP1_H
#define SL_FRONT_HTTP1_H

#include <sys/types.h>
#include "config/defaults.h"
#include "front/front.h"

enum {
	SL_HTTP1_HEADERS_MAX = SL_MAX_HEADERS_LIMIT + 4, /* HTTP/2 has four more than fields */
	SL_HTTP1_METHOD_MAX = 32,      /* a longer method is none that anybody implements: 501 */
	SL_HTTP1_CHUNK_EXT_MAX = 4096, /* bytes of chunk extensions in one body */
	SL_HTTP1_PART_OUT = 16384,     /* longest chunk of a reply, and of most heads */
};

/* A request head. Views point into the parsed bytes. */
struct sl_http1_head {
	struct sl_request rq;
	bool chunked;
	bool keep_alive; /* the client permits another request */
	bool trailers;   /* it takes them behind a reply: RFC 9110 10.1.4 */
	uint8_t minor;   /* of HTTP/1.x */
	uint16_t status; /* refused: the answer; 0 otherwise */
	uint8_t error;   /* refused: enum sl_front_error */
	uint8_t seen;    /* the parser's: which framing fields were there */
	struct sl_span host;
	struct sl_header headers[SL_HTTP1_HEADERS_MAX];
};

/*
 * One head at the start of `in`. Returns its length; 0 if it is incomplete (so far without an
 * error); -1 if it is refused: status and error say why, rq.method is set if it could be read.
 * The verdict does not depend on how many bytes follow the deciding one.
 */
ssize_t sl_http1_parse(struct sl_span in, const struct sl_front_limits *limits,
		       struct sl_http1_head *head);
/* The fields behind the last chunk, and the empty line. Only headers and rq.header_cnt are set. */
ssize_t sl_http1_trailers(struct sl_span in, const struct sl_front_limits *limits,
			  struct sl_http1_head *head);

/* fields.c: the fields that frame or route a request; false: refused. */
bool sl_http1_target(struct sl_span target, struct sl_http1_head *head);
bool sl_http1_field(const struct sl_header *field, struct sl_http1_head *head);
bool sl_http1_framing(struct sl_http1_head *head);
bool sl_http1_authority_ok(struct sl_span authority);
static inline bool sl_http1_refuse(struct sl_http1_head *head, unsigned status,
				   enum sl_front_error error)
{
	head->status = (uint16_t)status;
	head->error = (uint8_t)error;
	return false;
}

/* Decoder of a chunked body; all zero at its start, but for `stops`. */
struct sl_http1_chunked {
	uint64_t left;  /* DATA: bytes of this chunk still to come */
	uint64_t total; /* announced so far */
	uint32_t extra; /* bytes of extensions and trailers so far */
	uint8_t state;  /* enum sl_http1_chunked_state */
	uint8_t digits; /* of this chunk's size */
	bool stops;     /* set by who wants to read the trailers itself: it ends at TRAILER */
	bool unbounded; /* in length: it is not kept */
};

enum sl_http1_chunked_state {
	SL_CHUNKED_SIZE,
	SL_CHUNKED_EXT, /* start of an extension's name */
	SL_CHUNKED_EXT_NAME,
	SL_CHUNKED_EXT_NAME_OVER, /* blanks behind it */
	SL_CHUNKED_EXT_VALUE,     /* start of its value */
	SL_CHUNKED_EXT_TOKEN,
	SL_CHUNKED_EXT_QUOTED,
	SL_CHUNKED_EXT_PAIR, /* behind a backslash */
	SL_CHUNKED_EXT_OVER, /* behind its value, or blanks behind the size */
	SL_CHUNKED_SIZE_LF,
	/* the caller takes `left` bytes, and subtracts them, before it calls again */
	SL_CHUNKED_DATA,
	SL_CHUNKED_DATA_CR,
	SL_CHUNKED_DATA_LF,
	SL_CHUNKED_TRAILER, /* start of a trailer line, or of the last CRLF */
	SL_CHUNKED_TRAILER_NAME,
	SL_CHUNKED_TRAILER_VALUE,
	SL_CHUNKED_TRAILER_LF,
	SL_CHUNKED_LAST_LF,
	SL_CHUNKED_DONE,
};

/*
 * Consumes framing up to data, the end or an error; returns how many bytes. Then the state is
 * DATA (with left > 0), DONE, or waits for more; *status is 0, or the status that refuses the body.
 */
size_t sl_http1_chunked_next(struct sl_http1_chunked *c, struct sl_span in,
			     const struct sl_front_limits *limits, unsigned *status);

/* How the end of a reply's body is told. */
enum sl_http1_framing {
	SL_HTTP1_NO_BODY, /* HEAD, 204, 304: Content-Length is only information */
	SL_HTTP1_LENGTH,
	SL_HTTP1_CHUNKS,
	SL_HTTP1_UNTIL_CLOSE,
};

enum sl_http1_connection {
	SL_HTTP1_PERSIST,
	SL_HTTP1_KEEP_ALIVE,
	SL_HTTP1_CLOSE,
	SL_HTTP1_UPGRADE, /* status 101, and r->upgrade */
};

/*
 * The head of a reply into buf; returns its length, 0 if it does not fit, if the status is none of
 * 200..599 (nor 101 with UPGRADE), or if a name or value could break out of its line. `len` is that of the whole body,
 * SL_LEN_UNKNOWN if it is not known; `date` has 29 bytes. Fields that the gateway itself decides
 * (framing, connection, Date, Server) are left out of r->headers. Trailers are for the end.
 */
size_t sl_http1_format(uint8_t *buf, size_t cap, const struct sl_reply *r, uint64_t len,
		       const char *date, enum sl_http1_framing framing,
		       enum sl_http1_connection connection);
/* An interim reply: r->status and r->headers; 0 as above. */
size_t sl_http1_format_interim(uint8_t *buf, size_t cap, const struct sl_reply *r);
/* The last chunk and r->trailers; 0 as above. */
size_t sl_http1_format_end(uint8_t *buf, size_t cap, const struct sl_reply *r);

#endif
