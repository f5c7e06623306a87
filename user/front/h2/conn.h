/* SPDX-License-Identifier: Apache-2.0 */
/*
 * State of one HTTP/2 connection.
 *
 *   bytes in  -> nghttp2 -> recv.c (frames, bodies) -> head.c (request heads) -> core
 *                        flood.c (which frames are allowed, and how many)
 *   bytes out <- nghttp2 <- reply.c, which nghttp2 calls for body bytes         <- core
 *
 * nghttp2 asks for reply bytes when priorities and windows allow. A stream without bytes is
 * deferred until `ready`. One that ends within nghttp2 goes to a list, which sl_h2_settle() frees:
 * nghttp2 never sees a freed stream, and no stream ends within begin, body or end.
 */
#ifndef SL_FRONT_H2_CONN_H
#define SL_FRONT_H2_CONN_H

#include "base/list.h"
#include "base/mempool.h"
#include "front/grpc/grpc.h"
#include "front/h2/h2.h"
#include "front/h2/mem.h"

enum {
	/*
	 * Credit of a stream is a multiple of the frame size: windows, and what is added to them.
	 * An odd rest would make the client end a window with a small frame (recv.c).
	 */
	H2_CREDIT_UNIT = 16 << 10,
	H2_FIRST_WINDOW = 3 * H2_CREDIT_UNIT,
	H2_HELD = 13, /* length of an RST_STREAM frame */
};

struct h2_source {
	uint64_t memory; /* from sl_h2_env.mem */
	uint32_t conns, streams;
	uint32_t calls;  /* from sl_h2_env.calls */
	uint32_t beyond; /* header bytes above the head limit, in this burst */
	uint32_t heads;  /* all header bytes, in this burst */
	uint64_t burst_ns;
};

struct sl_h2_env {
	struct sl_h2_config cfg;
	const struct sl_front_limits *limits;
	struct sl_mempool conns, streams;
	struct sl_mempool calls;   /* without a time limit */
	struct h2_source *sources; /* [cfg.sources] */
	struct sl_list watches;    /* health watches in `calls` */
	struct sl_h2_mem mem;
	uint64_t heads_put_off;
	nghttp2_session_callbacks *callbacks;
	nghttp2_option *option;
	uint8_t *head; /* [limits->max_head]: in a burst of input */
	uint8_t *cookie;
	void *fields; /* reply being submitted; nghttp2 copies them */
};

/* Fields as received: {u16 name length, u16 value length, name, value}... */
struct h2_head {
	uint8_t *buf; /* env->head, or one of sl_front_env.heads between bursts; NULL: no head */
	uint32_t len;
	uint16_t fields; /* cookie crumbs count as one, RFC 9113 8.2.3 */
	bool pooled;
	bool too_large;
	bool cookie;
	bool blanks; /* a value had surrounding blanks: allowed in gRPC only */
	uint16_t seen;
	const char *fault; /* why the request is malformed, or NULL */
	int32_t id;
	uint64_t rx_ns, take_ns;
	/* 0: no head is being received */
	uint64_t since_ns;
};

struct h2_bucket {
	uint64_t full_ns;
};

/*
 * The newest streams. nghttp2 ignores frames for closed streams. They are a protocol error if the
 * client has ended or skipped the stream; otherwise it may not know of our reset.
 */
struct h2_recent {
	int32_t top;     /* highest identifier */
	uint64_t opened; /* bit i: stream top - 2 * i was opened */
	uint64_t over;   /* ... and ended or reset by the client */
};

struct h2_walk {
	uint32_t left;
	uint8_t have;
	uint8_t head[9 +
		     /* frame header; also a PRIORITY dependency or padding length */
		     4];
};

enum h2_conn_flag {
	H2_CLOSED = 1 << 0,
	H2_EOF = 1 << 1,
	H2_DRAIN = 1 << 2,
	H2_LAST = 1 << 3,
	H2_READY = 1 << 4,     /* SETTINGS received */
	H2_FAILED = 1 << 5,    /* no further input */
	H2_BROKEN = 1 << 6,    /* nghttp2 failed: no output either */
	H2_ASKED = 1 << 7,     /* early-reply PING outstanding */
	H2_WAITS = 1 << 9,     /* reply heads wait until the client reads */
	H2_GRPC_CORE = 1 << 8, /* idle.c: resets streams that are not open */
	H2_SETTLED = 1 << 10,  /* our SETTINGS are acknowledged */
};

struct h2_conn {
	nghttp2_session *session;
	struct sl_h2_env *env;
	struct h2_source *source;
	const struct sl_front_env *front;
	void *conn;
	struct sl_list streams;
	struct sl_list ended; /* closed by nghttp2, to be freed */
	const uint8_t *out;
	size_t out_len;
	struct sl_chunk *chunk;
	const uint8_t *walked; /* earlier input has passed the guard */
	/* body bytes not taken; the next input is theirs */
	struct h2_stream *stuck;
	size_t stuck_len;
	struct h2_head head;
	uint64_t drain_ns;       /* first GOAWAY */
	struct h2_bucket resets; /* streams aborted by the client or for its error */
	struct h2_bucket controls;
	uint32_t updates; /* WINDOW_UPDATEs not counted as control frames */
	uint32_t told;    /* uncompressed bytes of the head */
	uint32_t beyond;  /* header bytes above the limit, not charged yet */
	struct h2_recent recent;
	struct h2_walk walk;
	struct sl_h2_budget budget;
	uint16_t flags;
	uint8_t continuations;
	uint8_t held_len;
	uint8_t held[H2_HELD]; /* idle.c: start of a frame not read yet */
	uint16_t watches;      /* open, with complete request */
	uint16_t watching;     /* all health watches */
	uint32_t taken;
};

enum h2_stream_flag {
	ST_GRPC = 1 << 0,
	ST_HEAD_SENT = 1 << 1,
	ST_RX_OVER = 1 << 2,
	ST_END_SENT = 1 << 3,
	ST_DROP = 1 << 4,
	ST_LOCAL = 1 << 5, /* answered by the front, no stream of the core */
	ST_CALL = 1 << 6,  /* ST_LOCAL with `call` */
	ST_LENGTH = 1 << 7,
	ST_ASKED = 1 << 8, /* early reply; a PING follows */
	ST_WAITS = 1 << 9,
	ST_EXPECT = 1 << 11,
	ST_CONNECT = 1 << 10,   /* extended CONNECT, RFC 8441 */
	ST_MALFORMED = 1 << 12, /* reset follows, RFC 9113 8.1.1 */
};

struct h2_stream {
	struct sl_list link;
	struct h2_conn *conn;
	struct sl_stream *st;
	int32_t id;
	uint16_t flags;
	uint8_t method;
	uint8_t cut_off;      /* status that replaces the reply's */
	uint64_t body_left;   /* content-length's; SL_LEN_UNKNOWN: none */
	uint64_t deadline_ns; /* 0: none */
	uint32_t given;       /* body bytes whose window is not reopened yet */
	uint32_t credit;      /* body bytes not yet added to the window */
	uint32_t came;        /* body bytes, up to the first window */
	uint32_t window;
	struct sl_span text_left; /* ST_LOCAL: rest of `text`; after a cut-off: grpc-message */
	struct sl_grpc_reader in;
	struct h2_call *call;
	char text[64];
};

/* Returns NULL if memory is short or the address has too many streams. sl_h2_settle() frees it. */
struct h2_stream *sl_h2_stream_new(struct h2_conn *c, int32_t id);
/* Writes frames that fit, and pulls waiting heads. */
void sl_h2_flush(struct h2_conn *c);
/* Frees ended streams; closes the connection if it is over. Must not be called within nghttp2. */
void sl_h2_settle(struct h2_conn *c);
/* Counts, and queues GOAWAY with `code`; no further input. */
SL_COLD void sl_h2_fail(struct h2_conn *c, uint32_t code, enum sl_front_error error);
/* Counts an error. */
void sl_h2_count(const struct h2_conn *c, enum sl_front_error error);

/* Exceeding a limit ends the connection. Initialises a connection. */
void sl_h2_flood_open(struct h2_conn *c);
/* Charges a client's RST_STREAM. `s` NULL: unknown stream. */
void sl_h2_flood_abandoned(struct h2_conn *c, const struct h2_stream *s);
/* Gives a reset back for a complete reply. */
void sl_h2_flood_served(struct h2_conn *c);
/* Allows more WINDOW_UPDATEs, for a stream or reply bytes. */
void sl_h2_flood_credit(struct h2_conn *c);
/* Charges our reset, if `code` shows a client error. */
void sl_h2_flood_reset(struct h2_conn *c, uint32_t code);
enum h2_verdict { H2_GO_ON, H2_PAUSE, H2_END };
/* Charges a field of a head. H2_PAUSE: other connections first; H2_END: the connection failed. */
enum h2_verdict sl_h2_flood_field(struct h2_conn *c, size_t len);
/* Checks frames up to `end`, read by nghttp2. Returns false if the connection failed. */
bool sl_h2_flood_until(struct h2_conn *c, const uint8_t *end);

/* Detects the gRPC C core. */
void sl_h2_idle_settings(struct h2_conn *c, const nghttp2_settings *s);
/*
 * Like nghttp2_session_mem_recv(), but removes RST_STREAM of streams that are not open. c->walked
 * must equal p. Returns the bytes used, or an error of nghttp2.
 */
ssize_t sl_h2_idle_read(struct h2_conn *c, const uint8_t *p, size_t len);

/* Creates nghttp2's callbacks. The caller frees *out. Returns 0 or -1. */
int sl_h2_callbacks(nghttp2_session_callbacks **out);
/* Returns the body bytes that the core took (gRPC: without prefixes). */
size_t sl_h2_deliver(struct h2_stream *s, const uint8_t *ptr, size_t len);
/* Passes the request's end to the core, or refuses an incomplete one. */
void sl_h2_request_over(struct h2_stream *s);
/* Drops client bytes of a stream that switched protocols. */
void sl_h2_upgrade_drain(struct h2_stream *s);
/* Reopens the window by st->passed. */
void sl_h2_passed(struct h2_stream *s);

/* Returns true if the reply was sent before the request's end. */
bool sl_h2_early_reply_pending(const struct h2_stream *s);
/* Sends a PING behind early replies without one. */
void sl_h2_early_reply_ping(struct h2_conn *c);
/* Returns true for that PING's bytes. */
bool sl_h2_early_reply_is_mark(const uint8_t mark[8]);
/* Resets the streams before an acknowledged PING. */
void sl_h2_early_reply_acked(struct h2_conn *c);
/* Ends the core's streams of early replies. Must not be called within nghttp2. */
void sl_h2_early_reply_finish(struct h2_conn *c);

/* Begins a stream's head; drops an earlier one. */
void sl_h2_head_begin(struct h2_conn *c, int32_t id);
/* Copies a field of the head, unless it is too large or malformed. */
void sl_h2_head_field(struct h2_conn *c, struct sl_span name, struct sl_span value);
/* Resets a malformed request's stream (RFC 9113 8.1.1). */
void sl_h2_malformed(struct h2_stream *s);
/* Passes gathered trailers to the core, or resets the stream. */
void sl_h2_trailers(struct h2_conn *c, struct h2_stream *s);
/* Returns the value without surrounding blanks (RFC 9110 5.6.3). */
struct sl_span sl_h2_trim(struct sl_span value);
/* Checks the complete head, and begins or refuses the request; drops the head. s NULL: refused. */
void sl_h2_head_end(struct h2_conn *c, struct h2_stream *s, bool end);
/* Moves an incomplete head out of the shared buffer, between bursts. */
void sl_h2_head_keep(struct h2_conn *c);
/* Frees the head. */
void sl_h2_head_drop(struct h2_conn *c);

/* Checks a field. Returns false, and sets h->fault, if malformed. */
bool sl_h2_message_field(struct h2_head *h, struct sl_span name, struct sl_span value,
			 bool upgrades);
/* Returns why the complete head is malformed (static), or NULL. */
const char *sl_h2_message_fault(const struct h2_head *h);
/* Returns false if malformed. */
bool sl_h2_message_trailer(struct sl_span name, struct sl_span value);

/* Returns the size of sl_h2_env.fields. */
size_t sl_h2_reply_scratch(void);
/* ST_CALL: sends headers, body bytes from `read`, then trailers. */
void sl_h2_call_head(struct h2_stream *s, nghttp2_data_source_read_callback read);
/* Submits them. Returns false on failure. text: may be NULL. */
bool sl_h2_call_trailers(struct h2_stream *s, enum sl_grpc_status status, const char *text);
/* Answers without a stream of the core. */
void sl_h2_answer(struct h2_stream *s, unsigned http, enum sl_grpc_status grpc, const char *text,
		  struct sl_span request_id);
/* Counts and records a request that is refused without an exchange, and answers it. rq: front.h. */
void sl_h2_refuse(struct h2_stream *s, const struct sl_request *rq, enum sl_front_error error,
		  unsigned http, enum sl_grpc_status grpc, const char *text);
/* Ends a begun reply with this status. text: static. */
void sl_h2_cut_off(struct h2_stream *s, enum sl_grpc_status grpc, const char *text);
/* Sends 100 (Continue) if due and allowed. */
void sl_h2_continue(struct h2_stream *s);
/* Sends an interim reply if possible; not for gRPC. */
void sl_h2_interim(struct h2_stream *s, const struct sl_reply *r);
/* Sends the head if there is one, or resumes the body. */
void sl_h2_pull(struct h2_stream *s);
/* Pulls waiting heads. Returns false if none waits or the client has not read. */
bool sl_h2_pull_waiting(struct h2_conn *c);

/* Returns the connection of a front's state. */
static inline struct h2_conn *sl_h2_conn(void *state)
{
	return *(struct h2_conn **)state;
}

#endif
