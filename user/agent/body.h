/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What of a request comes in parts, on its way to the server: framed as it goes out, and kept until
 * the socket takes it.
 *
 *   SDK: data, end --> add (frames) --> pieces --> peek, skip --> socket
 *        ^--- pause, resume ---------- kept
 *
 * Where AGENT_BODY_HIGH bytes are kept the SDK is told to wait, so there are never more than these, and
 * what the gateway has had credit for: SL_RPC_PART_WINDOW, of a few streams SL_RPC_INITIAL_WINDOW.
 *
 * Pieces stay when they have been sent, so that the request can be sent again, until the reply begins
 * or AGENT_BODY_REPEAT bytes have come.
 */
#ifndef SL_AGENT_BODY_H
#define SL_AGENT_BODY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct agent;
struct agent_call;
struct agent_piece;
struct iovec;

enum { AGENT_BODY_HIGH = 16 << 10, AGENT_BODY_REPEAT = 16 << 10 };

enum agent_framing {
	AGENT_PLAIN,    /* as it is: its length was said, or frames of HTTP/2 go around it */
	AGENT_CHUNKED,  /* RFC 9112 7.1 */
	AGENT_MESSAGES, /* of gRPC */
};

struct agent_body {
	struct agent_piece *first, **end;
	struct agent_piece *out; /* the first one that has bytes to send; NULL: none */
	uint64_t left;           /* bytes to come; SL_LEN_UNKNOWN: not known */
	uint32_t kept;           /* bytes to send */
	uint32_t total;          /* bytes ever added, up to AGENT_BODY_REPEAT */
	uint8_t framing;         /* enum agent_framing */
	bool on;                 /* the request comes in parts */
	bool ended;              /* no more of it comes */
	bool begun;              /* its connection takes it */
	bool flows;              /* the SDK gives parts; otherwise it was told to wait */
	bool taken;              /* some of it */
	bool once;               /* what has been sent is gone */
	bool in_message;         /* of gRPC: there is more of it to come */
};

/* Of a new call; nothing comes before the next one. */
void agent_body_init(struct agent_call *call);
/* The connection wants it, `length` bytes. */
void agent_body_begin(struct agent_call *call, enum agent_framing framing, uint64_t length);
/* Frees what has been sent, now and from now on: the request cannot be sent again. */
void agent_body_once(struct agent_call *call);
/* The call waits for a connection (again); what was sent and is still here is sent again. */
void agent_body_stop(struct agent_call *call);
/* False: more than was announced, or no memory. */
bool agent_body_add(struct agent_call *call, const void *bytes, size_t len, size_t left);
/* False: less than was announced, or no memory. */
bool agent_body_end(struct agent_call *call);
/* The next bytes, in up to `max` pieces; how many. */
unsigned agent_body_peek(const struct agent_call *call, struct iovec *to, unsigned max);
/* So many of them have gone. */
void agent_body_skip(struct agent_call *call, size_t len);
/* Nobody reads what is kept. */
void agent_body_drop(struct agent_call *call);

#endif
