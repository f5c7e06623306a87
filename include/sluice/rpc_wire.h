/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The bytes between gateway and backend: one 32-byte little-endian header per message, and what
 * follows it.
 *
 *   message  = header, body of `fragment_len` bytes
 *   body     = (flag BATCH)  entry[count], then per entry: metadata, payload, each padded to 8
 * bytes (no BATCH)    CANCEL: u64 request id[count]; the other types have no body
 *
 * REQUEST and RESPONSE always carry BATCH, also with count = 1. A body larger than one slot or bulk
 * slice is cut into fragments: FIRST states the total length, later ones their offset, LAST ends
 * it. Fragments of one message arrive in order; those of different ids and classes may interleave,
 * of at most SL_RPC_MAX_INTERLEAVE messages. A message that is whole has FIRST and LAST.
 *
 * Every message, CREDIT included, takes one receive slot of the peer, and is given back by the
 * cumulative `consumed` of any later message of the other direction. PONG echoes the id of its
 * PING. GOAWAY says that its sender starts no more requests (gateway) or wants no more (backend); a
 * gateway answers a backend's GOAWAY with its own, behind its last request.
 */
#ifndef SLUICE_RPC_WIRE_H
#define SLUICE_RPC_WIRE_H

#include <stdint.h>

enum {
	SL_RPC_VERSION = 1,
	SL_RPC_SLOT_SIZE = 4096,       /* receive slot, header included */
	SL_RPC_MAX_MESSAGE = 64 << 20, /* payload of one request or reply; more is refused */
	SL_RPC_MAX_BATCH = 1024,
	SL_RPC_MAX_META = 16384,   /* metadata of one request or reply */
	SL_RPC_MAX_BODY = 1 << 30, /* of one message, all fragments */
	SL_RPC_MAX_INTERLEAVE = 16,
	SL_RPC_MIN_SLOTS = 16,
	SL_RPC_MAX_SLOTS = 4096,
	SL_RPC_MIN_BULK = 64 << 10,
	SL_RPC_MAX_BULK = 256 << 20,
};

enum sl_rpc_type {
	SL_RPC_REQUEST = 1,
	SL_RPC_RESPONSE,
	SL_RPC_CREDIT,
	SL_RPC_PING,
	SL_RPC_PONG,
	SL_RPC_CANCEL,
	SL_RPC_MIGRATE,
	SL_RPC_GOAWAY,
	SL_RPC_HELLO,
};

enum sl_rpc_flag {
	SL_RPC_BATCH = 1 << 0,
	SL_RPC_FIRST = 1 << 1,
	SL_RPC_LAST = 1 << 2,
	SL_RPC_IDEMPOTENT = 1 << 3,
	SL_RPC_CRC = 1 << 4,
};

/* Priority classes of the send queue, most urgent first. */
enum sl_rpc_class {
	SL_CLASS_CONTROL,
	SL_CLASS_LATENCY,
	SL_CLASS_NORMAL,
	SL_CLASS_BULK,
	SL_CLASS_CNT
};

/* Outcome of a message or of one request of a batch; HTTP and gRPC statuses are in the metadata. */
enum sl_rpc_status {
	SL_RPC_OK = 0,
	SL_RPC_REFUSED, /* backend is draining or its queue is full: may be retried elsewhere */
	SL_RPC_EXPIRED, /* budget ran out before or during compute */
	SL_RPC_CANCELLED,
	SL_RPC_BAD_REQUEST, /* malformed message */
	SL_RPC_NO_METHOD,
	SL_RPC_TOO_LARGE,
	SL_RPC_INTERNAL,
};

struct sl_rpc_header {
	uint8_t version_type; /* version in the high four bits, enum sl_rpc_type in the low */
	uint8_t flags;
	uint8_t priority;         /* enum sl_rpc_class */
	uint8_t status;           /* enum sl_rpc_status */
	uint16_t method;          /* enum sl_method of the first entry; informational */
	uint16_t count;           /* requests in this message */
	uint32_t fragment_len;    /* bytes of body behind this header */
	uint32_t total_or_offset; /* FIRST: total body length; else offset of this fragment */
	uint64_t id;              /* generation in the high 16 bits, sequence in the low 48 */
	uint32_t consumed;        /* messages consumed from the peer since the start, cumulative */
	uint32_t time_us; /* request: remaining budget; response: service time of the whole batch */
};
_Static_assert(sizeof(struct sl_rpc_header) == 32, "wire format");

struct sl_rpc_entry {
	uint64_t id;  /* of the request, unique on this channel while it is outstanding */
	uint32_t len; /* payload */
	uint16_t meta_len;
	uint8_t status;    /* response: enum sl_rpc_status */
	uint8_t flags;     /* enum sl_rpc_entry_flag */
	uint32_t time_us;  /* request: remaining budget, 0 none; response: service time of this
			      request */
	uint32_t together; /* response: requests that the backend computed at once, perhaps of
			      several gateways; 0 not known */
};
_Static_assert(sizeof(struct sl_rpc_entry) == 24, "wire format");

enum sl_rpc_entry_flag {
	SL_ENTRY_IDEMPOTENT = 1 << 0,
	SL_ENTRY_MORE =
		1 << 1, /* response: further parts of this reply follow (server streaming) */
	SL_ENTRY_NO_MESSAGE = 1 << 2, /* response: gRPC: metadata only, its payload is no message */
};

/*
 * Metadata of a request or reply: a list of fields, each {u16 tag, u16 length, bytes}, no padding
 * between them. Unknown tags are skipped. A HEADER's bytes are {u8 name length, name, value}; names
 * are lower case.
 *
 * Of a reply in parts (MORE), the first part's block says how it begins: status, content type,
 * headers. The last part's block says how it ends: gRPC status, gRPC message, trailers; in HTTP/1.1
 * these have no place. Whatever else the blocks of a reply in parts hold is skipped.
 */
enum sl_meta_tag {
	SL_META_METHOD = 1, /* request: "GET", "POST" ...; absent for gRPC and datagrams */
	SL_META_PATH = 2,   /* request: the path after the route's prefix; gRPC: "Service/Method" */
	SL_META_QUERY = 3,  /* request: after '?', as received */
	SL_META_CONTENT_TYPE = 4,
	SL_META_HEADER = 5,       /* header or gRPC metadata; -bin values are raw bytes */
	SL_META_STATUS = 6,       /* reply: u16 HTTP status, default 200 */
	SL_META_GRPC_STATUS = 7,  /* reply: u16 gRPC status, default 0 */
	SL_META_GRPC_MESSAGE = 8, /* reply: text */
	SL_META_TRAILER = 9,      /* reply: like HEADER, sent as trailer */
	SL_META_PROTOCOL = 10,    /* request: u16 enum sl_proto */
};

/*
 * First words of both sides, before there are slots: over the Unix socket of shm (the acceptor's
 * together with the memory), in the connection data of verbs. The acceptor's may lower the sizes.
 */
#define SL_RPC_HELLO_MAGIC 0x6c736c75u
struct sl_rpc_hello {
	uint32_t magic;
	uint8_t version;
	uint8_t status;    /* acceptor: enum sl_rpc_status, OK or why not */
	uint16_t worker;   /* dialler: which worker of its gateway */
	uint64_t epoch;    /* drawn at random when the process started */
	uint32_t slots;    /* per direction, a power of two */
	uint32_t bulk_len; /* bytes per direction, a power of two */
	uint32_t slot_size;
	uint32_t flags;
	uint8_t reserved[32];
};
_Static_assert(sizeof(struct sl_rpc_hello) == 64, "wire format");

static inline uint64_t sl_rpc_pad8(uint64_t len)
{
	return (len + 7) & ~(uint64_t)7;
}

#endif
