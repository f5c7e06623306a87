/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Body of a streamed request: framed for the server, kept until the socket takes it.
 *
 * The SDK is paused at ORIGIN_BODY_HIGH kept bytes. Sent pieces are kept for another try until the
 * reply begins or ORIGIN_BODY_REPEAT bytes were added.
 */
#ifndef SL_ORIGIN_BODY_H
#define SL_ORIGIN_BODY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct origin_call;
struct origin_piece;
struct iovec;

enum { ORIGIN_BODY_HIGH = 16 << 10, ORIGIN_BODY_REPEAT = 16 << 10 };

enum origin_framing {
	ORIGIN_PLAIN,   /* unframed: known length, or HTTP/2 */
	ORIGIN_CHUNKED, /* RFC 9112 7.1 */
	ORIGIN_MESSAGES,
};

struct origin_body {
	struct origin_piece *first, **end;
	struct origin_piece *out; /* first unsent piece, or NULL */
	uint64_t left;            /* bytes to come, or SL_LEN_UNKNOWN */
	uint32_t kept;            /* unsent bytes */
	uint32_t total;           /* added bytes, up to ORIGIN_BODY_REPEAT */
	uint8_t framing;
	bool on; /* the request comes in parts */
	bool ended;
	bool begun; /* sending has begun */
	bool flows; /* the SDK is not paused */
	bool taken; /* bytes were added */
	bool once;  /* sent pieces were freed */
	bool in_message;
};

/* Starts an empty body; pauses the SDK. */
void origin_body_init(struct origin_call *call);
/* Starts sending, in this framing unless bytes were added. `length`: or SL_LEN_UNKNOWN. */
void origin_body_begin(struct origin_call *call, enum origin_framing framing, uint64_t length);
/* Frees sent pieces from now on: no repetition. */
void origin_body_once(struct origin_call *call);
/* Rewinds the body for another connection. */
void origin_body_stop(struct origin_call *call);
/*
 * Adds bytes; left: of their message. Returns false beyond the announced length, or without memory.
 */
bool origin_body_add(struct origin_call *call, const void *bytes, size_t len, size_t left);
/* Adds the end and trailers. Returns false if bytes are missing, or without memory. */
bool origin_body_end(struct origin_call *call);
/* Fills up to `max` iovecs with unsent bytes, valid until the next call. Returns their number. */
unsigned origin_body_peek(const struct origin_call *call, struct iovec *to, unsigned max);
/* Marks len bytes as sent; may resume the SDK. */
void origin_body_skip(struct origin_call *call, size_t len);
/* Frees all pieces: no repetition. */
void origin_body_drop(struct origin_call *call);

#endif
