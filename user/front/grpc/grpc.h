/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gRPC over HTTP/2 in pure functions: the message prefix, grpc-timeout, statuses, and what a header
 * value may hold.
 *
 * Compressed messages go through as they are, with grpc-encoding and grpc-accept-encoding, which are
 * for client and server to agree on: nothing is decompressed here, so none costs more memory than its
 * bytes. A backend that takes none says so, and the calls that the gateway answers itself take none:
 * then the client is told UNIMPLEMENTED and offered `identity`, as the protocol asks.
 */
#ifndef SL_FRONT_GRPC_H
#define SL_FRONT_GRPC_H

#include <stdbool.h>
#include "base/bytes.h"

enum sl_grpc_status {
	SL_GRPC_OK,
	SL_GRPC_CANCELLED,
	SL_GRPC_UNKNOWN,
	SL_GRPC_INVALID_ARGUMENT,
	SL_GRPC_DEADLINE_EXCEEDED,
	SL_GRPC_NOT_FOUND,
	SL_GRPC_ALREADY_EXISTS,
	SL_GRPC_PERMISSION_DENIED,
	SL_GRPC_RESOURCE_EXHAUSTED,
	SL_GRPC_FAILED_PRECONDITION,
	SL_GRPC_ABORTED,
	SL_GRPC_OUT_OF_RANGE,
	SL_GRPC_UNIMPLEMENTED,
	SL_GRPC_INTERNAL,
	SL_GRPC_UNAVAILABLE,
	SL_GRPC_DATA_LOSS,
	SL_GRPC_UNAUTHENTICATED,
	SL_GRPC_STATUS_CNT,
};

enum { SL_GRPC_PREFIX = 5 }; /* in front of each message: compressed flag, length */

/* application/grpc, perhaps with "+proto" or parameters. */
bool sl_grpc_content_type(struct sl_span type);

/* The status of a call whose HTTP reply is not from a gRPC server. */
enum sl_grpc_status sl_grpc_from_http(unsigned http);

/* "100m": at most 8 digits and one unit. False: malformed. */
bool sl_grpc_timeout(struct sl_span text, uint64_t *ns);

enum { SL_GRPC_COMPRESSED = 1 }; /* the first byte of that; all others are reserved */

static inline void sl_grpc_put_prefix(uint8_t *p, uint32_t len)
{
	p[0] = 0;
	sl_put_be32(p + 1, len);
}

/* As sl_stream.prefix. */
size_t sl_grpc_prefix(uint8_t *to, uint64_t message_len, bool compressed);

/* One direction of a call: messages out of a stream of bytes. All zero at its start. */
struct sl_grpc_reader {
	uint64_t left; /* of the message */
	uint8_t prefix[SL_GRPC_PREFIX];
	uint8_t have; /* bytes of the prefix */
	bool in_message;
	uint32_t messages; /* begun */
};

enum sl_grpc_event {
	SL_GRPC_NEED,   /* all bytes used, more are needed */
	SL_GRPC_BEGIN,  /* a prefix is whole: `left` and prefix[0] are known */
	SL_GRPC_DATA,   /* `data` belongs to the message */
	SL_GRPC_FINISH, /* the message is whole */
};

/* Takes bytes off `in` up to the next event. */
enum sl_grpc_event sl_grpc_read(struct sl_grpc_reader *r, struct sl_span *in, struct sl_span *data);

/* Of text that fits into buf; what does not is cut off at a character. Returns the length. */
size_t sl_grpc_percent_encode(char *buf, size_t cap, struct sl_span text);

/* Standard alphabet, padding optional when decoding. In place is allowed. SIZE_MAX: malformed. */
size_t sl_base64_decode(uint8_t *to, struct sl_span text);
/* Without padding; `to` has room for (len * 4 + 2) / 3. Returns the length. */
size_t sl_base64_encode(char *to, struct sl_span bytes);

bool sl_grpc_is_binary(struct sl_span name); /* metadata whose name ends with -bin */
/* The protocol's own, and of one hop: not metadata. What says how messages are compressed goes on. */
bool sl_grpc_is_reserved(struct sl_span name);

#endif
