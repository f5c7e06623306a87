/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Wire format between gateway and backend: messages with a 32-byte little-endian header.
 *
 *   message  = header, body of `fragment_len` bytes
 *   body     = (flag BATCH)  entry[count], then per entry: metadata, payload, both padded to 8
 *              (no BATCH)    CANCEL: u64 request id[count], at most SL_RPC_MAX_CANCELS; WINDOW:
 *                            struct sl_rpc_window[count], at most SL_RPC_MAX_WINDOWS; others: none
 *
 * REQUEST and RESPONSE always have BATCH, also with count = 1. A body larger than one slot or bulk
 * slice is split into fragments. FIRST has the total length, later ones their offset, and LAST is
 * the end. Fragments of one message arrive in order. Fragments of different ids and classes may
 * interleave, at most SL_RPC_MAX_INTERLEAVE messages at a time. An unfragmented message has FIRST
 * and LAST.
 *
 * Short form, over RDMA only. A REQUEST or RESPONSE that is unfragmented and has one entry without
 * `rest` may have SHORT. Struct sl_rpc_compact replaces header and entry. Padded metadata and
 * unpadded payload follow; the payload ends with the message, whose length the device reports.
 * Receivers accept both forms.
 *
 * Slots. Each message, including CREDIT, uses one receive slot of the peer. The cumulative
 * `consumed` of later messages in the other direction releases slots.
 *
 * Control messages. PONG repeats the id of its PING. GOAWAY of a gateway: it starts no more
 * requests. GOAWAY of a backend: it accepts no more; the gateway answers with its own GOAWAY after
 * its last request. READY revokes a GOAWAY on a connection that has not ended, and is answered like
 * it. The id SL_GOAWAY_STAYS means that the gateway keeps the connection. After any other GOAWAY
 * the gateway closes it after its last request.
 *
 * Receive windows over RDMA. Each side may first use SL_RPC_MIN_SLOTS slots of the peer. The latest
 * CREDIT of the peer then sets the window in `total_or_offset`: the number of messages that may be
 * unconsumed, from SL_RPC_MIN_SLOTS to the slots of the handshake. SPENT in a message says that the
 * window is used up, so the peer may enlarge it. If the window shrinks, only CREDIT may be sent
 * until enough messages are consumed. Once at most the new window minus two is in use, a CREDIT
 * confirms the new window in `time_us`. Until then the old one applies.
 *
 * Migration. A gateway may move a link with all open requests to another transport of the same
 * backend:
 * - It connects with the number of the link and SL_HELLO_RESUME, and sends PING. The backend
 *   answers if it has that link.
 * - It sends MIGRATE as its last message on the old transport. The backend reads the new transport
 *   only after that.
 * - The backend sends MIGRATE as its last message on the old transport, and the gateway closes it.
 *
 * So messages stay in order, and each fragment is sent once. Slot credit is per transport, and
 * CREDIT may follow MIGRATE. Other state is kept. A gateway that gives up before MIGRATE may
 * connect by a third transport, which replaces the second. A link with number 0 cannot migrate.
 *
 * Streams. A REQUEST entry with STREAM opens a stream: metadata, no payload. If it has MORE,
 * entries with PART and its id follow, in messages with count = 1. Each is a message or a piece of
 * one. The last entry has no MORE and no payload, but may have TRAILERs. The reply may start and
 * end at any time, also in parts. Parts of an id that is not open are ignored.
 *
 * The client of a stream with EXPECT sends no payload before 100 (Continue), or only after a
 * time-out. One entry with GO_ON and MORE, without bytes, before the first entry of the reply
 * requests it. Other streams must not have such an entry.
 *
 * Interim replies. An entry with GO_ON, MORE, metadata and no payload is an interim reply: STATUS
 * 1xx except 100 and 101, and HEADERs. A request may have up to SL_RPC_MAX_INTERIM of them before
 * the first entry of its reply. They may be dropped.
 *
 * Credit. Payload needs credit per request. Initially a reply has SL_RPC_INITIAL_WINDOW bytes, the
 * reply of a stream SL_RPC_STREAM_WINDOW, and its parts SL_RPC_PART_WINDOW. WINDOW grants more. An
 * entry costs sl_rpc_cost(). A message that exceeds the credit is split into entries: `rest` is the
 * payload in later entries, which have no metadata. The end of a reply without payload is free.
 * Exceeding the credit is a protocol error. WINDOW for an id that is not open is ignored.
 *
 * Compressed gRPC messages. COMPRESSED is the flag of the message prefix. Lengths and credit count
 * compressed bytes. The headers grpc-encoding and grpc-accept-encoding are passed in both
 * directions.
 */
#ifndef SL_WIRE_RPC_WIRE_H
#define SL_WIRE_RPC_WIRE_H

#include <stdint.h>
#include "sluice/types.h"

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "structs go out as they lie in memory");

#define SL_RPC_TIME_MAX UINT32_MAX /* 71 min 35 s */

enum {
	/*
	 * History. 1: entries of 24 bytes, no WINDOW; 2: no trailers of requests; 3: no GO_ON; 4:
	 * no MIGRATE; 5: no COMPRESSED, no interim replies, 64 KiB of initial credit in both
	 * directions; 6: no READY, proofs without the identity of the receiver; 7: metadata of at
	 * most 16 KiB
	 */
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
	SL_RPC_COMPACT = 1 << 4, /* RDMA: struct sl_rpc_compact is used */
};

struct sl_rpc_header {
	uint8_t version_type; /* version in the high 4 bits, enum sl_rpc_type in the low 4 bits */
	uint8_t flags;
	uint8_t priority; /* enum sl_rpc_class */
	uint8_t status;   /* enum sl_rpc_status */
	uint16_t method;  /* enum sl_method of the first entry, informational */
	uint16_t count;
	uint32_t fragment_len; /* bytes of the body after this header */
	/* FIRST: total body length; other fragments: offset; CREDIT over RDMA: granted window */
	uint32_t total_or_offset;
	uint64_t id;       /* generation in the high 16 bits, sequence number in the low 48 bits */
	uint32_t consumed; /* messages consumed so far, cumulative */
	/*
	 * RESPONSE: longest service time of its entries, informational; CREDIT over RDMA: confirmed
	 * window
	 */
	uint32_t time_us;
};
_Static_assert(sizeof(struct sl_rpc_header) == 32, "wire format");

struct sl_rpc_entry {
	uint64_t id;   /* id of the request, unique on the channel while it is open */
	uint32_t len;  /* payload in this entry */
	uint32_t rest; /* payload of the same message in later entries */
	/*
	 * REQUEST: remaining budget; 0 or SL_RPC_TIME_MAX: none, or too long for the field.
	 * RESPONSE: service time.
	 */
	uint32_t time_us;
	/* RESPONSE: size of the batch computed at once, possibly of several gateways; 0: unknown */
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

/* Grants more credit for the reply, or for the stream. */
struct sl_rpc_window {
	uint64_t id;
	uint32_t bytes;
	uint32_t reserved;
};
_Static_assert(sizeof(struct sl_rpc_window) == 16, "wire format");

enum sl_rpc_entry_flag {
	SL_ENTRY_IDEMPOTENT = 1 << 0,
	SL_ENTRY_MORE = 1 << 1,       /* further messages of this reply or stream follow */
	SL_ENTRY_NO_MESSAGE = 1 << 2, /* RESPONSE, gRPC: metadata only, no message */
	SL_ENTRY_STREAM = 1 << 3,     /* REQUEST: opens a stream */
	SL_ENTRY_PART = 1 << 4,       /* REQUEST: part of an open stream */
	SL_ENTRY_EXPECT = 1 << 5,     /* REQUEST with STREAM and MORE: waits for GO_ON */
	/* RESPONSE: 100 (Continue) or an interim reply, not part of the reply */
	SL_ENTRY_GO_ON = 1 << 6,
	SL_ENTRY_COMPRESSED = 1 << 7, /* gRPC: see grpc-encoding */
};

/*
 * Metadata: a list of fields {u16 tag, u16 length, bytes} without padding. Unknown tags are
 * skipped. The bytes of a HEADER are {u8 name length, name, value}; names are in lower case.
 *
 * In a reply in parts (MORE), the first block has the head: status, content type, headers. The last
 * block has the tail: gRPC status, gRPC message, trailers. Other fields are skipped. HTTP/1.1
 * clients get no trailers.
 *
 * gRPC: CONTENT_TYPE is that of the server, e.g. application/grpc+json; default application/grpc. A
 * reply of one part with NO_MESSAGE and without HEADERs is Trailers-Only. Any other reply begins
 * with its HEADERs, also with an error status, and its message reaches the client.
 */
enum sl_meta_tag {
	SL_META_METHOD = 1, /* request: "GET" etc.; absent for gRPC and datagrams */
	SL_META_PATH = 2,   /* request: path after the route's prefix; gRPC: "Service/Method" */
	SL_META_QUERY = 3,  /* request: query string after '?', as received */
	SL_META_CONTENT_TYPE = 4,
	SL_META_HEADER = 5,       /* header field or gRPC metadata; -bin values are raw bytes */
	SL_META_STATUS = 6,       /* reply: u16 HTTP status, default 200; 1xx in an interim reply */
	SL_META_GRPC_STATUS = 7,  /* reply: u16 gRPC status, default 0 */
	SL_META_GRPC_MESSAGE = 8, /* reply: text */
	SL_META_TRAILER = 9,      /* like HEADER: trailer of a reply or a stream */
	SL_META_PROTOCOL = 10,    /* request: u16 enum sl_proto */
	SL_META_AUTHORITY = 11,   /* request: authority "host:port" as received */
	SL_META_REASON = 15,      /* reply: reason phrase of HTTP/1.1 */
	/* request: u32 hash of the client's address, keyed by the gateway; absent: unknown */
	SL_META_CLIENT = 14,
	/* request: u64 initial budget in microseconds if the entry's time_us cannot hold it */
	SL_META_BUDGET = 16,
	/* u64 length of the body if it is not complete here; stream: only if the client sent it */
	SL_META_LENGTH = 13,
};

/*
 * First message of each side: on the Unix socket of shm (the acceptor's with the memory), or in the
 * connection data of RDMA. The acceptor may reduce the sizes.
 */
#define SL_RPC_HELLO_MAGIC 0x6c736c75u
enum sl_hello_flag {
	SL_HELLO_RESUME = 1 << 0,   /* continues the link by migration */
	SL_HELLO_EP_CHECK = 1 << 1, /* virtual connections: probe of an existing connection */
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
 * Virtual connections: a stream of the same messages, split into datagrams of a UD queue pair that
 * many connections share. Two ends with the same key file exchange HELLO and ANSWER. Then each
 * datagram has a header:
 *
 *   DATA  the next bytes of the stream; `seq` counts datagrams from 0. Retransmitted until
 *         acknowledged, delivered once and in order
 *   ACK   no bytes; `seq` is that of the next DATA
 *   BYE   like ACK: the sender has closed the connection
 *
 * Liveness. A gateway that has not heard from its peer sends a HELLO with ASKS, the epoch and the
 * initial `id` of the connection. It creates no connection. The ANSWER is KNOWN, or RESET if the
 * connection does not exist: then nothing sent on it will be executed, and it ends. Both are
 * authenticated and protected against replay.
 *
 * MAC. `mac` is SipHash-2-4 over the datagram and its header, with the upper half of the 64-bit
 * datagram number in place of `mac`. So recorded datagrams cannot be replayed even after `seq` has
 * wrapped.
 *
 * Keys. All use HMAC-SHA-256 with the bytes of the key file. Labels have 16 bytes, zero-padded.
 * - Proof of HELLO: over "sluice ud hello", the receiver's identity, and HELLO up to the proof.
 * - Proof of ANSWER: over "sluice ud answer", the proof of HELLO, and ANSWER up to the proof.
 * - Traffic keys: halves of the HMAC over "sluice ud keys" and the proof of ANSWER; gateway's key
 *   first.
 *
 * The receiver's identity is the acceptor's GID, at the address that the gateway resolved, and the
 * 32-bit number of the queue pair that receives HELLOs. So a HELLO for one acceptor is invalid for
 * another with the same key file.
 */
#define SL_UD_MAGIC 0x7573u
#define SL_UD_QKEY  0x736c7564u /* of all queue pairs, not secret */

enum {
	SL_UD_VERSION =
		/*
		 * History. 1: no number of the link; 2: no ASKS, SL_RPC_VERSION 5; 3: longer
		 * proofs; 4: HELLO without the receiver's identity
		 */
	5,
	SL_UD_WINDOW_MAX = 64, /* unacknowledged datagrams per direction */
	SL_UD_MTU_MIN = 1024,
	SL_UD_PROOF_LEN = 32,
	SL_UD_NONCE_LEN = 16,
	SL_UD_SENDER_ID_LEN = 8,
};

enum sl_ud_kind { SL_UD_DATA = 1, SL_UD_ACK, SL_UD_BYE };

struct sl_ud_header {
	uint64_t mac;
	uint16_t magic;
	uint8_t version, kind; /* enum sl_ud_kind */
	uint32_t to;           /* the receiver's number of the connection */
	uint32_t seq;
	uint32_t ack;    /* all datagrams before this one have arrived */
	uint32_t sacked; /* bit n: datagram ack + 1 + n has arrived */
	uint16_t window; /* datagrams from `ack` on that the sender can receive */
	uint16_t len;    /* of the bytes that follow */
};
_Static_assert(sizeof(struct sl_ud_header) == 32, "wire format");

/* Connection requests and replies, on the queue pair for new peers. */
#define SL_UD_WIREUP_MAGIC 0x6475736cu
struct sl_ud_creq {
	uint32_t magic;
	uint8_t version, tos; /* tos: traffic class of both directions */
	uint16_t worker;
	uint64_t epoch;
	uint32_t number; /* ascending within the sender_id; each is accepted once */
	uint32_t slots;  /* requested */
	uint32_t id;     /* the gateway's number of the connection; ASKS: of the existing one */
	uint32_t mtu;    /* of a datagram, including its header */
	uint32_t answer_qpn;
	uint32_t flags; /* enum sl_hello_flag */
	uint64_t link;
	uint8_t gid[16]; /* source GID of the datagram */
	/*
	 * Random, per process and acceptor. Secret from other acceptors, which could use up its
	 * numbers.
	 */
	uint8_t sender_id[SL_UD_SENDER_ID_LEN];
	uint8_t nonce[SL_UD_NONCE_LEN - SL_UD_SENDER_ID_LEN];
	uint8_t proof[SL_UD_PROOF_LEN];
};
_Static_assert(sizeof(struct sl_ud_creq) == 112, "wire format");

enum sl_ud_verdict { SL_UD_GRANTED, SL_UD_FULL, SL_UD_EP_ALIVE, SL_UD_EP_REMOVED };

struct sl_ud_crep {
	uint32_t magic;
	uint8_t version, verdict; /* enum sl_ud_verdict */
	uint16_t reserved;
	uint64_t epoch;
	uint32_t number; /* that of the HELLO */
	uint32_t slots;  /* granted */
	uint32_t id;     /* the acceptor's number of the connection */
	uint32_t mtu;
	uint32_t qpn; /* destination queue pair */
	uint32_t reserved2;
	uint8_t nonce[SL_UD_NONCE_LEN];
	uint8_t proof[SL_UD_PROOF_LEN];
};
_Static_assert(sizeof(struct sl_ud_crep) == 88, "wire format");
_Static_assert(sizeof(struct sl_ud_crep) <= sizeof(struct sl_ud_creq),
	       "an answer is no amplification");

/* Returns the credit that an entry costs. */
static inline uint32_t sl_rpc_cost(const struct sl_rpc_entry *e)
{
	if (!e->len && !(e->flags & SL_ENTRY_MORE))
		return 0;
	return e->len > SL_RPC_MIN_COST ? e->len : SL_RPC_MIN_COST;
}

static inline uint64_t sl_rpc_pad8(uint64_t len)
{
	return (len + 7) & ~(uint64_t)7;
}

#endif
