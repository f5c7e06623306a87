/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pure functions for gRPC over HTTP/2.
 *
 * Compressed messages, grpc-encoding and grpc-accept-encoding pass unchanged. If the receiver
 * supports none, the status is UNIMPLEMENTED with grpc-accept-encoding `identity`.
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

enum { SL_GRPC_PREFIX = 5 }; /* compressed flag, length */

/* Returns true for application/grpc, also with a suffix (+proto) or parameters. */
bool sl_grpc_content_type(struct sl_span type);

/* Returns the status for an HTTP reply that is not gRPC. */
enum sl_grpc_status sl_grpc_from_http(unsigned http);

/* Parses "100m": at most 8 digits and a unit. Returns false if malformed. */
bool sl_grpc_timeout(struct sl_span text, uint64_t *ns);

/* first prefix byte; other non-zero values are reserved */
enum { SL_GRPC_COMPRESSED = 1 };

/* Writes the prefix of an uncompressed message. */
static inline void sl_grpc_put_prefix(uint8_t *p, uint32_t len)
{
	p[0] = 0;
	sl_put_be32(p + 1, len);
}

/* See sl_stream.prefix. */
size_t sl_grpc_prefix(uint8_t *to, uint64_t message_len, bool compressed);

/* Splits one direction into messages. Initially zero. */
struct sl_grpc_reader {
	uint64_t left;
	uint8_t prefix[SL_GRPC_PREFIX];
	uint8_t have;
	bool in_message;
	uint32_t messages;
};

enum sl_grpc_event {
	SL_GRPC_NEED, /* all used, more needed */
	SL_GRPC_BEGIN,
	SL_GRPC_DATA,
	SL_GRPC_FINISH,
};

/* Reads up to the next event; removes those bytes from `in`. */
enum sl_grpc_event sl_grpc_read(struct sl_grpc_reader *r, struct sl_span *in, struct sl_span *data);

/* Encodes what fits, without splitting a character. Returns the length. */
size_t sl_grpc_percent_encode(char *buf, size_t cap, struct sl_span text);

/*
 * Decodes the standard alphabet; padding optional. `to` may equal the input. Returns the length, or
 * SIZE_MAX if malformed.
 */
size_t sl_base64_decode(uint8_t *to, struct sl_span text);
/* Adds no padding; `to` needs (len * 4 + 2) / 3 bytes. Returns the length. */
size_t sl_base64_encode(char *to, struct sl_span bytes);

/* Returns true for names that end in "-bin". */
bool sl_grpc_is_binary(struct sl_span name);
/* Returns true for protocol fields that are not metadata. Compression fields pass. */
bool sl_grpc_is_reserved(struct sl_span name);

#endif
