/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Wire format between gateway and backend: messages with a 32-byte little-endian header.
 *
 *   message  = header, body of `fragment_len` bytes
 *   body     = (flag BATCH)  entry[count], then per entry: metadata, payload, both padded to 8
 *              (no BATCH)    CANCEL: u64 request id[count]; WINDOW: struct sl_rpc_window[count];
 *                            others: none
 *
 * Rules of types, flags, windows, credit and streams: user/docs/protocol.md.
 */
#ifndef SL_WIRE_RPC_WIRE_H
#define SL_WIRE_RPC_WIRE_H

#include <stdint.h>
#include "sluice/types.h"

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "structs go out as they lie in memory");

#define SL_RPC_TIME_MAX UINT32_MAX /* 71 min 35 s */

enum {
	SL_RPC_VERSION = 8,
	SL_RPC_SLOT_SIZE = 4096,  /* including the header */
	SL_RPC_COMPACT_MAX = 192, /* short form */
	SL_RPC_MAX_CANCELS = 250, /* ids per CANCEL */
	SL_RPC_MAX_WINDOWS = 64,  /* entries per WINDOW */
	SL_RPC_MAX_INTERLEAVE = 16,
	SL_RPC_MIN_SLOTS = 16,
	SL_RPC_MAX_SLOTS = 4096,
	SL_RPC_MIN_BULK = 64 << 10,
	SL_RPC_MAX_BULK = 256 << 20,
	SL_RPC_WIDE_MAX = 32, /* streams per end with a wider window */
	SL_RPC_MIN_COST = 32, /* least cost of an entry */
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
	SL_RPC_WINDOW,
	SL_RPC_READY,
};

enum { SL_GOAWAY_STAYS = 1 };

/* Flags of a message. Other bits are reserved: sent as zero and ignored. */
enum sl_rpc_flag {
	SL_RPC_BATCH = 1 << 0,
	SL_RPC_FIRST = 1 << 1,
	SL_RPC_LAST = 1 << 2,
	SL_RPC_SPENT = 1 << 3,   /* RDMA: the window is used up */
	SL_RPC_COMPACT = 1 << 4, /* RDMA */
};

struct sl_rpc_header {
	uint8_t version_type; /* version in the high 4 bits, enum sl_rpc_type in the low 4 bits */
	uint8_t flags;
	uint8_t priority; /* enum sl_rpc_class */
	uint8_t status;   /* enum sl_rpc_status */
	uint16_t method;  /* unused: 0 */
	uint16_t count;
	uint32_t fragment_len;
	/* FIRST: total body length; other fragments: offset; CREDIT over RDMA: granted window */
	uint32_t total_or_offset;
	uint64_t id;       /* high 16 bits: generation; low 48 bits: sequence number */
	uint32_t consumed; /* messages, cumulative */
	/* RESPONSE: longest service time, informational; CREDIT over RDMA: confirmed window */
	uint32_t time_us;
};
_Static_assert(sizeof(struct sl_rpc_header) == 32, "wire format");

struct sl_rpc_entry {
	uint64_t id;   /* of the request, unique on the channel while it is open */
	uint32_t len;  /* payload in this entry */
	uint32_t rest; /* payload of the same message in later entries */
	/*
	 * REQUEST: remaining budget; 0 or SL_RPC_TIME_MAX: none, or too long for the field.
	 * RESPONSE: service time.
	 */
	uint32_t time_us;
	/* RESPONSE: size of the computed batch, possibly of several gateways; 0: unknown */
	uint32_t together;
	uint16_t meta_len;
	uint8_t status; /* RESPONSE: enum sl_rpc_status; an error has no payload, rest or MORE */
	uint8_t flags;  /* enum sl_rpc_entry_flag, the same in all entries of a message */
	uint32_t reserved;
};
_Static_assert(sizeof(struct sl_rpc_entry) == 32, "wire format");

struct sl_rpc_compact {
	uint8_t version_type, flags, priority; /* as in the header */
	uint8_t status, entry_flags;           /* as in the entry, like the following fields */
	uint8_t meta_len, together;
	uint8_t reserved;
	uint32_t consumed; /* as in the header */
	uint32_t time_us;
	uint64_t id;
};
_Static_assert(sizeof(struct sl_rpc_compact) == 24, "wire format");

struct sl_rpc_window {
	uint64_t id;
	uint32_t bytes;
	uint32_t reserved;
};
_Static_assert(sizeof(struct sl_rpc_window) == 16, "wire format");

enum sl_rpc_entry_flag {
	SL_ENTRY_IDEMPOTENT = 1 << 0,
	SL_ENTRY_MORE = 1 << 1,       /* more messages of this reply or stream follow */
	SL_ENTRY_NO_MESSAGE = 1 << 2, /* RESPONSE, gRPC: metadata only, no message */
	SL_ENTRY_STREAM = 1 << 3,
	SL_ENTRY_PART = 1 << 4,   /* REQUEST: part of an open stream */
	SL_ENTRY_EXPECT = 1 << 5, /* REQUEST with STREAM and MORE: waits for GO_ON */
	/* RESPONSE: 100 (Continue) or an interim reply, not part of the reply */
	SL_ENTRY_GO_ON = 1 << 6,
	SL_ENTRY_COMPRESSED = 1 << 7, /* gRPC: see grpc-encoding */
};

/*
 * Metadata: a list of fields {u16 tag, u16 length, bytes} without padding. Unknown tags are
 * skipped. The bytes of a HEADER are {u8 name length, name, value}; names are in lower case.
 */
enum sl_meta_tag {
	SL_META_METHOD = 1, /* request: "GET" etc.; absent for gRPC and datagrams */
	SL_META_PATH = 2,   /* request: path after the route's prefix; gRPC: "Service/Method" */
	SL_META_QUERY = 3,  /* request: after '?', as received */
	SL_META_CONTENT_TYPE = 4,
	SL_META_HEADER = 5,       /* header field or gRPC metadata; -bin values are raw bytes */
	SL_META_STATUS = 6,       /* reply: u16 HTTP status, default 200; 1xx in an interim reply */
	SL_META_GRPC_STATUS = 7,  /* reply: u16 gRPC status, default 0 */
	SL_META_GRPC_MESSAGE = 8, /* reply: text */
	SL_META_TRAILER = 9,      /* of a reply or a stream; like HEADER */
	SL_META_PROTOCOL = 10,    /* request: u16 enum sl_proto */
	SL_META_AUTHORITY = 11,   /* request: "host:port" as received */
	SL_META_REASON = 15,      /* reply: reason phrase of HTTP/1.1 */
	/* request: u32 hash of the client's address, keyed by the gateway; absent: unknown */
	SL_META_CLIENT = 14,
	/* request: u64 initial budget in us if the entry's time_us cannot hold it */
	SL_META_BUDGET = 16,
	/* u64 length of the body if it is not complete here; stream: only if the client sent it */
	SL_META_LENGTH = 13,
};

/*
 * First message of each side over shm (the acceptor's with the memory) and tcp. The acceptor may
 * reduce the sizes.
 */
#define SL_RPC_HELLO_MAGIC 0x6c736c75u
enum sl_hello_flag {
	SL_HELLO_RESUME = 1 << 0,   /* continues the link by migration */
	SL_HELLO_EP_CHECK = 1 << 1, /* RDMA: probe of an existing connection */
};
struct sl_rpc_hello {
	uint32_t magic;
	uint8_t version;
	uint8_t status;    /* acceptor: enum sl_rpc_status */
	uint16_t worker;   /* gateway: index of its worker */
	uint64_t epoch;    /* random number of the process */
	uint32_t slots;    /* per direction, a power of two */
	uint32_t bulk_len; /* bytes per direction, a power of two */
	uint32_t slot_size;
	uint32_t flags; /* gateway: enum sl_hello_flag */
	uint64_t link;  /* gateway: random number of the link */
	uint8_t reserved[24];
};
_Static_assert(sizeof(struct sl_rpc_hello) == 64, "wire format");

/*
 * Virtual connections, and authentication of CREQ and CREP: user/docs/protocol.md. Kinds of
 * datagrams:
 *
 *   DATA  the next bytes of the stream; `seq` counts datagrams from 0. Retransmitted until
 *         acknowledged, delivered once and in order
 *   ACK   no bytes; `seq` is that of the next DATA
 *   BYE   like ACK: the sender has closed the connection
 */
#define SL_UD_MAGIC 0x7573u
#define SL_UD_QKEY  0x736c7564u /* of all queue pairs, not secret */

enum {
	SL_UD_VERSION = 7,
	SL_UD_WINDOW_MAX = 64, /* unacknowledged datagrams per direction */
	SL_UD_MTU_MIN = 1024,
	SL_WIREUP_PROOF_LEN = 32,
	SL_WIREUP_NONCE_LEN = 16,
	SL_WIREUP_SENDER_ID_LEN = 8,
};

enum sl_ud_kind { SL_UD_DATA = 1, SL_UD_ACK, SL_UD_BYE };

struct sl_ud_header {
	uint64_t mac;
	uint16_t magic;
	uint8_t version, kind; /* enum sl_ud_kind */
	uint32_t to;           /* receiver's number of the connection */
	uint32_t seq;
	uint32_t ack;    /* all datagrams before this one have arrived */
	uint32_t sacked; /* bit n: datagram ack + 1 + n has arrived */
	uint16_t window; /* datagrams from `ack` on that the sender can receive */
	uint16_t len;
};
_Static_assert(sizeof(struct sl_ud_header) == 32, "wire format");

/*
 * Connection request (CREQ) and reply (CREP), on the queue pair for new peers. Both kinds of
 * connections use them; members of the other kind are zero.
 */
#define SL_WIREUP_MAGIC 0x6475736cu

enum sl_wireup_want { SL_WIREUP_UD = 1, SL_WIREUP_RC };

struct sl_wireup_creq {
	uint32_t magic;
	uint8_t version, tos; /* tos: traffic class of both directions */
	uint16_t worker;
	uint64_t epoch;
	uint32_t number; /* ascending within the sender_id; each is accepted once */
	uint32_t slots;  /* requested */
	uint32_t answer_qpn;
	uint32_t flags; /* enum sl_hello_flag */
	uint64_t link;
	uint8_t gid[16]; /* source GID of the datagram */
	uint32_t want;   /* enum sl_wireup_want */
	uint32_t id;     /* the gateway's number; EP_CHECK: that of the existing connection */
	uint32_t mtu;    /* MTU of the path; UD: of a datagram, including its header */
	uint32_t bulk_len, qpn, psn, rkey; /* RC: ring and queue pair */
	uint8_t sl, reserved[3];           /* RC: service level of both directions */
	uint64_t bulk;                     /* RC: address of the ring */
	/*
	 * Random, per process and acceptor; secret from other acceptors, which could use up its
	 * numbers.
	 */
	uint8_t sender_id[SL_WIREUP_SENDER_ID_LEN];
	uint8_t nonce[SL_WIREUP_NONCE_LEN - SL_WIREUP_SENDER_ID_LEN];
	uint8_t proof[SL_WIREUP_PROOF_LEN];
};
_Static_assert(sizeof(struct sl_wireup_creq) == 144, "wire format");

enum sl_wireup_verdict {
	SL_WIREUP_GRANTED, /* otherwise the members of connections are zero */
	SL_WIREUP_FULL,
	SL_WIREUP_EP_ALIVE,
	SL_WIREUP_EP_REMOVED,
	SL_WIREUP_BAD_SIZES,
};

struct sl_wireup_crep {
	uint32_t magic;
	uint8_t version, verdict; /* enum sl_wireup_verdict */
	uint16_t reserved;
	uint64_t epoch;
	uint32_t number; /* that of the CREQ */
	uint32_t slots;  /* granted */
	uint32_t id;     /* the acceptor's number of the connection */
	uint32_t mtu;
	uint32_t qpn; /* destination queue pair */
	uint32_t psn, bulk_len, rkey;
	uint64_t bulk;
	uint8_t nonce[SL_WIREUP_NONCE_LEN];
	uint8_t proof[SL_WIREUP_PROOF_LEN];
};
_Static_assert(sizeof(struct sl_wireup_crep) == 104, "wire format");
_Static_assert(sizeof(struct sl_wireup_crep) <= sizeof(struct sl_wireup_creq),
	       "an answer is no amplification");

/* Returns what an entry costs of its stream's window. */
static inline uint32_t sl_rpc_cost(const struct sl_rpc_entry *e)
{
	if (!e->len && !(e->flags & SL_ENTRY_MORE))
		return 0;
	return e->len > SL_RPC_MIN_COST ? e->len : SL_RPC_MIN_COST;
}

/* Rounds up to a multiple of 8. */
static inline uint64_t sl_rpc_pad8(uint64_t len)
{
	return (len + 7) & ~(uint64_t)7;
}

#endif
