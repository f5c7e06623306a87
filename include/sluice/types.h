/* SPDX-License-Identifier: Apache-2.0 */
/* Types and limits shared by the libraries for backends and clients. */
#ifndef SLUICE_TYPES_H
#define SLUICE_TYPES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Removed in the next release. */
#define SL_DEPRECATED(text) __attribute__((deprecated(text)))

enum {
	SL_RPC_MAX_MESSAGE = 64 << 20, /* payload of a request or reply */
	SL_RPC_MAX_BATCH = 1024,
	SL_RPC_MAX_BODY = 1 << 30, /* body of one message, all fragments */
	SL_RPC_MAX_META = 65528,   /* metadata of a reply */
	SL_RPC_MAX_ASKED = 16384,  /* metadata of a request, and of the end of a stream */
	SL_RPC_MAX_FIELDS = 256,   /* headers of a reply */
	SL_RPC_MAX_TRAILERS = 128,
	SL_RPC_MAX_INTERIM = 8, /* interim replies per request */
	/* Initial credit of a reply; window of an active stream. */
	SL_RPC_INITIAL_WINDOW = 64 << 10,
	SL_RPC_STREAM_WINDOW = 32 << 10, /* initial, of a stream's reply */
	/* initial, of a stream's parts */
	SL_RPC_PART_WINDOW = 16 << 10,
};

/* Priority classes, most urgent first. */
enum sl_rpc_class {
	SL_CLASS_CONTROL,
	SL_CLASS_LATENCY,
	SL_CLASS_NORMAL,
	SL_CLASS_BULK,
	SL_CLASS_CNT
};

/* Result of a message or a request. HTTP and gRPC statuses are in the metadata. */
enum sl_rpc_status {
	SL_RPC_OK = 0,
	SL_RPC_REFUSED, /* draining or overloaded: may be retried elsewhere */
	SL_RPC_EXPIRED, /* budget expired before or during the computation */
	SL_RPC_CANCELLED,
	SL_RPC_BAD_REQUEST, /* malformed message */
	SL_RPC_NO_METHOD,
	SL_RPC_TOO_LARGE,
	SL_RPC_INTERNAL,
	/* may have been executed: must not be repeated */
	SL_RPC_LOST,
	SL_RPC_COMPRESSED, /* unsupported compressed message */
	SL_RPC_UNANSWERED, /* like LOST, but without any reply: may be repeated if idempotent */
};

/* Protocol of the program that made the request. */
enum sl_proto { SL_PROTO_HTTP1, SL_PROTO_HTTP2, SL_PROTO_GRPC, SL_PROTO_DATAGRAM, SL_PROTO_CNT };

struct sl_header_arg {
	const char *name; /* lower case */
	const void *value;
	size_t value_len;
	bool trailer;
};

#endif
