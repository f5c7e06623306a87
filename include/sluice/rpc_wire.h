/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The bytes between gateway and backend: one 32-byte little-endian header per message, and what
 * follows it.
 *
 *   message  = header, body of `fragment_len` bytes
 *   body     = (flag BATCH)  entry[count], then per entry: metadata, payload, each padded to 8 bytes
 *              (no BATCH)    CANCEL: u64 request id[count], SL_RPC_MAX_CANCELS at the most; WINDOW:
 *                            struct sl_rpc_window[count], SL_RPC_MAX_WINDOWS; others have no body
 *
 * REQUEST and RESPONSE always carry BATCH, also with count = 1. A body larger than one slot or bulk
 * slice is cut into fragments: FIRST states the total length, later ones their offset, LAST ends
 * it. Fragments of one message arrive in order; those of different ids and classes may interleave,
 * of at most SL_RPC_MAX_INTERLEAVE messages. A message that is whole has FIRST and LAST.
 *
 * Short form, over RDMA only, where most messages have a few bytes: one with SHORT is a REQUEST or
 * RESPONSE, whole, of one entry without `rest`, and begins with struct sl_rpc_short, which has what header
 * and entry would say. Metadata, padded, and payload, not padded, follow; the payload's length is what
 * is left of the message's, which the device tells. Both forms are taken wherever both can be.
 *
 * Every message, CREDIT included, takes one receive slot of the peer, and is given back by the
 * cumulative `consumed` of any later message of the other direction. PONG echoes the id of its
 * PING. GOAWAY says that its sender starts no more requests (gateway) or wants no more (backend); a
 * gateway answers a backend's GOAWAY with its own, behind its last request. READY takes it back, on a
 * connection that has not ended yet; who has answered it answers that, too. A backend's GOAWAY with the
 * id SL_GOAWAY_STAYS says that the backend is not ready for now: the gateway keeps the connection. After
 * any other one the gateway closes the connection as soon as its requests have ended.
 *
 * Windows over RDMA. There each end begins with SL_RPC_MIN_SLOTS slots of the peer's, and goes on with
 * what the peer's latest CREDIT says, in `total_or_offset`: so many messages beyond those that it has
 * consumed, no fewer than SL_RPC_MIN_SLOTS and no more than the slots of the handshake. SPENT says that
 * with this message the window is used up, and the peer may grant more. It may also grant less: then
 * nothing but CREDIT is sent while that many messages are under way. Once there are fewer, but for two
 * slots, a CREDIT says in `time_us` that its sender keeps to the new window; before, it is the former.
 *
 * Migration. A gateway may go on by another transport to the same backend, with all that is open. It
 * connects by that with the link's number and SL_HELLO_GOES_ON, and says PING by it, which the backend
 * answers if it has such a link. Then the gateway says MIGRATE, its last message by the old one; the
 * backend, which takes what comes by the new one behind that only, answers with its own MIGRATE, its
 * last message by the old one, and the gateway closes that. So messages keep their order, and each
 * fragment is carried once, by either. Credit for slots is each transport's own, and CREDIT still comes
 * behind MIGRATE; all else goes on as it was. A gateway that gives it up before MIGRATE may come by a
 * third one, which takes the second's place. A link whose number is 0 has none, and does not go on.
 *
 * Streams. A REQUEST entry with STREAM opens one: metadata, no payload. While it says MORE the
 * request is open, and entries with PART and its id follow, each a message or a piece of one, in
 * messages of their own (count = 1), until one without MORE, which has no payload, and may have
 * metadata: TRAILERs. The reply may come, in parts too, and end, at any time; parts for an id that
 * is not open (any more) go nowhere.
 *
 * The client of a stream with EXPECT sends no payload before it is told to, or not for a while. An
 * entry with GO_ON and MORE, of no bytes, tells it: once, before the first one of the reply. No other
 * stream has such an entry, nor has a second one.
 *
 * Interim replies. An entry with GO_ON and MORE that has metadata, and no payload, is no part of the
 * reply either: STATUS, which is 1xx, but neither 100 nor 101, and HEADERs, as 103 (Early Hints, RFC
 * 8297). Any request may have up to SL_RPC_MAX_INTERIM of them before the first entry of its reply. A
 * client that has no place for one, or does not read, gets it not.
 *
 * Credit. So that a slow client stops its backend and nobody stores what the other end cannot use,
 * payload needs credit, per request: SL_RPC_INITIAL_WINDOW bytes of its reply to begin with; of a
 * stream, of which there may be many that stand still, SL_RPC_STREAM_WINDOW of its reply and
 * SL_RPC_PART_WINDOW of its parts; and more as WINDOW says. An entry costs sl_rpc_cost() of it. A
 * message for which the credit is too short is cut into entries: each says in `rest` how much of it is
 * still to come, the next one of that id goes on with it and has no metadata. The end of a reply that
 * has no payload is always free. Who sends beyond its credit has broken the protocol. WINDOW for an id
 * that is not open (any more) does no harm.
 *
 * Compressed messages of gRPC. COMPRESSED is what stands in front of the message between client and
 * server, and all lengths and all credit are of the bytes as they are: nobody between the two takes
 * them apart. The headers grpc-encoding and grpc-accept-encoding go both ways as any other.
 */
#ifndef SLUICE_RPC_WIRE_H
#define SLUICE_RPC_WIRE_H

#include <stdint.h>

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "structs go out as they lie in memory");

#define SL_RPC_TIME_MAX UINT32_MAX /* 71 min 35 s */

enum {
	/*
	 * 1: entries of 24 bytes, no WINDOW; 2: no trailers of requests; 3: no GO_ON; 4: no MIGRATE;
	 * 5: no COMPRESSED, no interim replies, 64 KiB of credit in both directions to begin with; 6: no
	 * READY, proofs that do not say whom they are for; 7: metadata of 16 KiB at the most
	 */
	SL_RPC_VERSION = 8,
	SL_RPC_SLOT_SIZE = 4096,       /* receive slot, header included */
	SL_RPC_SHORT_MAX = 192,        /* a message in the short form */
	SL_RPC_MAX_MESSAGE = 64 << 20, /* payload of one request or reply; more is refused */
	SL_RPC_MAX_BATCH = 1024,
	SL_RPC_MAX_META = 65528,  /* metadata of one reply */
	SL_RPC_MAX_ASKED = 16384, /* of one request, and of the end of a stream */
	SL_RPC_MAX_FIELDS = 256,  /* HEADERs of one reply; TRAILERs: SL_RPC_MAX_TRAILERS */
	SL_RPC_MAX_TRAILERS = 128,
	SL_RPC_MAX_INTERIM = 8,    /* interim replies to one request */
	SL_RPC_MAX_CANCELS = 250,  /* ids of one CANCEL */
	SL_RPC_MAX_WINDOWS = 64,   /* of one WINDOW */
	SL_RPC_MAX_BODY = 1 << 30, /* of one message, all fragments */
	SL_RPC_MAX_INTERLEAVE = 16,
	SL_RPC_MIN_SLOTS = 16,
	SL_RPC_MAX_SLOTS = 4096,
	SL_RPC_MIN_BULK = 64 << 10,
	SL_RPC_MAX_BULK = 256 << 20,
	/* Credit to begin with. The first is all that a stream that moves is given, too. */
	SL_RPC_INITIAL_WINDOW = 64 << 10,
	SL_RPC_STREAM_WINDOW = 32 << 10, /* of the reply of one */
	SL_RPC_PART_WINDOW = 16 << 10,   /* of its parts: who keeps them needs more than they are */
	SL_RPC_WIDE_MAX = 32,            /* streams of one end that have more, at a time */
	SL_RPC_MIN_COST = 32,            /* of an entry, however short */
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

/* Of a message; the other bits are reserved: sent as zero, and not looked at. */
enum sl_rpc_flag {
	SL_RPC_BATCH = 1 << 0,
	SL_RPC_FIRST = 1 << 1,
	SL_RPC_LAST = 1 << 2,
	SL_RPC_SPENT = 1 << 3, /* verbs: the window is used up */
	SL_RPC_SHORT = 1 << 4, /* verbs: struct sl_rpc_short stands here */
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
	SL_RPC_LOST, /* what computes it went away, and it may have been at work: not to be repeated */
	SL_RPC_COMPRESSED, /* its message is, and the backend takes none such */
	SL_RPC_UNANSWERED, /* as LOST, but nothing has answered it: may be repeated if idempotent */
};

struct sl_rpc_header {
	uint8_t version_type; /* version in the high four bits, enum sl_rpc_type in the low */
	uint8_t flags;
	uint8_t priority;         /* enum sl_rpc_class */
	uint8_t status;           /* enum sl_rpc_status */
	uint16_t method;          /* enum sl_method of the first entry; informational */
	uint16_t count;           /* requests in this message */
	uint32_t fragment_len;    /* bytes of body behind this header */
	uint32_t total_or_offset; /* FIRST: total body length; else offset of this fragment; CREDIT
				     over verbs: the window that is granted */
	uint64_t id;              /* generation in the high 16 bits, sequence in the low 48 */
	uint32_t consumed;        /* messages consumed from the peer since the start, cumulative */
	uint32_t time_us; /* response: the longest of its entries, of all batches; informational;
			     CREDIT over verbs: the window that is kept to */
};
_Static_assert(sizeof(struct sl_rpc_header) == 32, "wire format");

struct sl_rpc_entry {
	uint64_t id;       /* of the request, unique on this channel while it is outstanding */
	uint32_t len;      /* payload */
	uint32_t rest;     /* of the same message: payload of further entries */
	uint32_t time_us;  /* request: remaining budget; 0 or SL_RPC_TIME_MAX: none, or longer than
			      the field holds; response: service time of this request */
	uint32_t together; /* response: requests that the backend computed at once, perhaps of
			      several gateways; 0 not known */
	uint16_t meta_len;
	uint8_t status; /* response: enum sl_rpc_status; an error has no payload, rest, MORE */
	uint8_t flags;  /* enum sl_rpc_entry_flag; the same in all entries of a message */
	uint32_t reserved;
};
_Static_assert(sizeof(struct sl_rpc_entry) == 32, "wire format");

struct sl_rpc_short {
	uint8_t version_type, flags, priority; /* as in the header */
	uint8_t status, entry_flags;           /* as in the entry, and so are the other ones */
	uint8_t meta_len, together;
	uint8_t reserved;
	uint32_t consumed; /* as in the header */
	uint32_t time_us;
	uint64_t id;
};
_Static_assert(sizeof(struct sl_rpc_short) == 24, "wire format");

/* So many bytes more may be sent of the reply to this request, or of its stream. */
struct sl_rpc_window {
	uint64_t id;
	uint32_t bytes;
	uint32_t reserved;
};
_Static_assert(sizeof(struct sl_rpc_window) == 16, "wire format");

enum sl_rpc_entry_flag {
	SL_ENTRY_IDEMPOTENT = 1 << 0,
	SL_ENTRY_MORE = 1 << 1, /* further messages of this reply, or of this stream, follow */
	SL_ENTRY_NO_MESSAGE = 1 << 2, /* response: gRPC: metadata only, its payload is no message */
	SL_ENTRY_STREAM = 1 << 3,     /* request: opens a stream */
	SL_ENTRY_PART = 1 << 4,       /* request: of a stream that is open */
	SL_ENTRY_EXPECT = 1 << 5, /* request: with STREAM and MORE: its client waits for GO_ON */
	SL_ENTRY_GO_ON = 1 << 6,  /* response: no part of the reply: 100 (Continue), or interim */
	SL_ENTRY_COMPRESSED = 1 << 7, /* gRPC: its message is, as the header grpc-encoding says */
};

/*
 * Metadata of a request or reply: a list of fields, each {u16 tag, u16 length, bytes}, no padding
 * between them. Unknown tags are skipped. A HEADER's bytes are {u8 name length, name, value}; names
 * are lower case.
 *
 * Of a reply in parts (MORE), the first part's block says how it begins: status, content type,
 * headers. The last part's block says how it ends: gRPC status, gRPC message, trailers; in HTTP/1.1
 * these have no place. Whatever else the blocks of a reply in parts hold is skipped.
 *
 * gRPC: CONTENT_TYPE is the one that the server sent, e.g. application/grpc+json; absent: application/
 * grpc. A reply of one part with NO_MESSAGE and without HEADERs is Trailers-Only. Any other reply begins
 * with its HEADERs, also if its status is an error; its message, if it has one, reaches the client.
 */
enum sl_meta_tag {
	SL_META_METHOD = 1, /* request: "GET", "POST" ...; absent for gRPC and datagrams */
	SL_META_PATH = 2,   /* request: the path after the route's prefix; gRPC: "Service/Method" */
	SL_META_QUERY = 3,  /* request: after '?', as received */
	SL_META_CONTENT_TYPE = 4,
	SL_META_HEADER = 5,       /* header or gRPC metadata; -bin values are raw bytes */
	SL_META_STATUS = 6,       /* reply: u16 HTTP status, default 200; 1xx of an interim one */
	SL_META_GRPC_STATUS = 7,  /* reply: u16 gRPC status, default 0 */
	SL_META_GRPC_MESSAGE = 8, /* reply: text */
	SL_META_TRAILER = 9,      /* like HEADER: of a reply's end, of the end of a stream */
	SL_META_PROTOCOL = 10,    /* request: u16 enum sl_proto */
	SL_META_AUTHORITY = 11,   /* request: whom the client wanted, "host:port" as it wrote it */
	SL_META_REASON = 15,      /* reply: text behind the status, for HTTP/1.1 */
	SL_META_CLIENT = 14,      /* request: u32 hash of the client's address, by a key of the
				     gateway; absent: unknown */
	SL_META_BUDGET = 16,      /* request: u64 microseconds left at its begin, where the entry's
				     time_us is too short for them */
	SL_META_LENGTH = 13,      /* u64 length of the body, where that is not all here; of a
				     request: of a stream, where the client has said it */
};

/*
 * First words of both sides, before there are slots: over the Unix socket of shm (the acceptor's
 * together with the memory), in the connection data of verbs. The acceptor's may lower the sizes.
 */
#define SL_RPC_HELLO_MAGIC 0x6c736c75u
enum sl_hello_flag {
	SL_HELLO_GOES_ON = 1 << 0, /* by this, what that link has carried so far */
	SL_HELLO_ASKS = 1 << 1,    /* virtual connections: after one that there is */
};
struct sl_rpc_hello {
	uint32_t magic;
	uint8_t version;
	uint8_t status;    /* acceptor: enum sl_rpc_status, OK or why not */
	uint16_t worker;   /* dialer: which worker of its gateway */
	uint64_t epoch;    /* drawn at random when the process started */
	uint32_t slots;    /* per direction, a power of two */
	uint32_t bulk_len; /* bytes per direction, a power of two */
	uint32_t slot_size;
	uint32_t flags; /* dialer: enum sl_hello_flag */
	uint64_t link;  /* dialer: of its own, drawn at random for each that it begins */
	uint8_t reserved[24];
};
_Static_assert(sizeof(struct sl_rpc_hello) == 64, "wire format");

/*
 * Virtual connections: the same messages, one behind the other as over a stream, cut into datagrams
 * of an unreliable queue pair (UD) that many connections share. Two ends that have the same key file
 * meet by HELLO and ANSWER; from then on each datagram has a header:
 *
 *   DATA  the bytes that follow in the stream; `seq` counts datagrams, from 0. Sent again until the
 *         other end has it; delivered once, in order
 *   ACK   no bytes; `seq` is that of the next DATA
 *   BYE   like ACK: the sender has closed the connection
 *
 * A peer that has started again has other queue pairs: what is sent to the former ones reaches nobody.
 * So a dialer that has not been heard for a while asks, where HELLOs are taken now, after its
 * connection, by a HELLO with ASKS, the epoch and the `id` that the connection began with. It makes no
 * connection; the ANSWER says KNOWN, or RESET: there is no such connection here, whatever is sent to it
 * is not carried out, and it may end at once. Question and answer are proven and are good for once as
 * any HELLO and ANSWER are, and the answer is the shorter one.
 *
 * `mac` is SipHash-2-4 over the datagram, header included, with the upper half of the 64-bit number
 * of the datagram in the place of `mac`: so what was recorded cannot be sent again, not even when
 * `seq` has wrapped. Each direction has a key of its own: the halves, dialer's first, of HMAC-SHA-256 by
 * the key file's bytes over "sluice ud keys" and the ANSWER's proof. That is over "sluice ud answer", the
 * HELLO's proof and all of ANSWER before it, and the HELLO's over "sluice ud hello", the door that it is for,
 * and all of HELLO before it: so the keys are of what both ends have drawn at random. Labels have 16 bytes,
 * zeros behind the text. The door is the acceptor's GID, of the address that the dialer has asked at and the
 * acceptor listens at, and the number of the queue pair where HELLOs are taken, 32 bits, as the acceptor has
 * answered: so a HELLO for one acceptor is none for another one that has the same key file.
 */
#define SL_UD_MAGIC 0x7573u
#define SL_UD_QKEY  0x736c7564u /* of all queue pairs: no secret */

enum {
	SL_UD_VERSION =
		5, /* 1: no number of the link; 2: no ASKS, SL_RPC_VERSION 5; 3: longer proofs; 4:
		      HELLO is for any door */
	SL_UD_WINDOW_MAX = 64, /* datagrams of one direction under way */
	SL_UD_MTU_MIN = 1024,
	SL_UD_PROOF_LEN = 32,
	SL_UD_NONCE_LEN = 16,
	SL_UD_SERIES_LEN = 8,
};

enum sl_ud_kind { SL_UD_DATA = 1, SL_UD_ACK, SL_UD_BYE };

struct sl_ud_header {
	uint64_t mac;
	uint16_t magic;
	uint8_t version, kind; /* enum sl_ud_kind */
	uint32_t to;           /* the connection, by the receiver's number */
	uint32_t seq;
	uint32_t ack;    /* all datagrams before this one have arrived */
	uint32_t sacked; /* bit n: so has datagram ack + 1 + n */
	uint16_t window; /* datagrams from `ack` on that the sender of this has room for */
	uint16_t len;    /* of what follows */
};
_Static_assert(sizeof(struct sl_ud_header) == 32, "wire format");

/* To the queue pair at which a host waits for those who are new, and back. */
#define SL_UD_HELLO_MAGIC 0x6475736cu
struct sl_ud_hello {
	uint32_t magic;
	uint8_t version, tos; /* tos: of packets in both directions */
	uint16_t worker;
	uint64_t epoch;
	uint32_t number; /* of this series', ascending: each is taken once */
	uint32_t slots;  /* asked for */
	uint32_t id;     /* the connection, by the dialer's number; ASKS: that which there is */
	uint32_t mtu;    /* of a datagram, header included */
	uint32_t answer_qpn;
	uint32_t flags; /* enum sl_hello_flag */
	uint64_t link;
	uint8_t gid[16]; /* the dialer's, which the datagram comes from */
	/* Of one process' HELLOs to one acceptor: nobody else is told which, and so can use up its numbers. */
	uint8_t series[SL_UD_SERIES_LEN];
	uint8_t nonce[SL_UD_NONCE_LEN - SL_UD_SERIES_LEN];
	uint8_t proof[SL_UD_PROOF_LEN];
};
_Static_assert(sizeof(struct sl_ud_hello) == 112, "wire format");

enum sl_ud_verdict { SL_UD_GRANTED, SL_UD_FULL, SL_UD_KNOWN, SL_UD_RESET };

struct sl_ud_answer {
	uint32_t magic;
	uint8_t version, verdict; /* enum sl_ud_verdict */
	uint16_t reserved;
	uint64_t epoch;
	uint32_t number; /* of the HELLO */
	uint32_t slots;  /* granted */
	uint32_t id;     /* the connection, by the acceptor's number */
	uint32_t mtu;
	uint32_t qpn; /* where datagrams go */
	uint32_t reserved2;
	uint8_t nonce[SL_UD_NONCE_LEN];
	uint8_t proof[SL_UD_PROOF_LEN];
};
_Static_assert(sizeof(struct sl_ud_answer) == 88, "wire format");
_Static_assert(sizeof(struct sl_ud_answer) <= sizeof(struct sl_ud_hello), "no door is a lever");

/* What an entry takes of the credit of its request. */
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
