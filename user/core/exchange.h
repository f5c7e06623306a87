/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An exchange: one request from its first byte to the last byte of its reply. Worker's thread only.
 *
 *   READING --submit--> QUEUED --send--> IN_FLIGHT --reply--> REPLYING --last part--> WHOLE -> done
 *      ^------------------ lost ------------'     any --failed--> WHOLE or BROKEN
 *
 * A failed exchange is WHOLE with the gateway's own reply, or BROKEN if the front has begun to send
 * another one. A stream (stream.c) is sent when it begins, and is QUEUED only until a backend is
 * up. It passes through all states while `open`.
 *
 * The front owns the stream (first member) between begin and done or cancel. `item` belongs to the
 * batcher, or to a stream's pool, while QUEUED. The RPC has the exchange as a cookie while
 * IN_FLIGHT and REPLYING. Request and reply are HELD frames with their metadata blocks in front.
 * The front pulls the reply from the loan (the RPC's memory until its upcall returns). The rest
 * moves to `reply` and `tail`.
 */
#ifndef SL_CORE_EXCHANGE_H
#define SL_CORE_EXCHANGE_H

#include "base/cpu.h"
#include "base/hist.h"
#include "core/core.h"
#include "core/router.h"

struct sl_api_key;
struct sl_client;
struct sl_event;
struct sl_backend_ref;
struct sl_buf_ref;
struct sl_body_match;
struct sl_prefix_hash;

enum sl_exchange_state {
	SL_EX_READING,
	SL_EX_QUEUED,
	SL_EX_IN_FLIGHT, /* at a backend; no reply yet */
	SL_EX_REPLYING,
	SL_EX_WHOLE,
	SL_EX_BROKEN,
};

struct sl_store {
	struct sl_frame *head, *tail;
	uint64_t len; /* not yet taken */
	uint32_t off; /* taken from `head` */
	uint32_t frames;
};

enum sl_client_wait {
	SL_WAIT_NONE,
	SL_WAIT_QUEUED,  /* client: take its reply, behind others */
	SL_WAIT_BODY,    /* client: send the rest of the request */
	SL_WAIT_REPLY,   /* client: take the reply */
	SL_WAIT_BACKEND, /* backend: take bytes */
};

enum sl_rate { SL_RATE_IN, SL_RATE_OUT, SL_RATE_CNT };

/* Rare steps of a request. */
enum sl_extra {
	SL_EXTRA_MIRROR = 1, /* a copy goes to another pool */
	SL_EXTRA_CHARGE = 2, /* its reply may name tokens; not of a mirrored copy */
	SL_EXTRA_HEDGE = 4,
	SL_EXTRA_LATE = 8, /* its hedging delay is over */
};

struct sl_exchange {
	struct sl_stream stream;
	struct sl_batch_item item;
	struct sl_core *core;
	struct sl_worker_cfg *wcfg; /* referenced */
	struct sl_client *client;
	struct sl_addr_quota *quota;
	const struct sl_cfg_route *route; /* NULL: none matches */
	const struct sl_cfg_cors *cors;   /* the route's; NULL: none */
	const struct sl_api_key *key;     /* the client's; NULL: none */
	struct sl_pool *pool;             /* referenced */
	struct sl_svc_hist **hist;        /* the pool's: [SL_STAGE_CNT] */
	struct sl_backend_ref *backend;   /* sent there last; referenced */
	struct sl_exchange *twin;         /* its hedge, or of a hedge: the original; NULL: none */
	struct sl_timer late; /* in core->late: deadline while READING, hedge's or stream's timer */
	struct sl_store head; /* stream: metadata, until a backend answers */
	struct sl_store kept; /* stream: copy of what was sent */
	struct sl_store request;
	struct sl_event *note;         /* NULL: no access log */
	struct sl_body_match *match;   /* while its body selects the pool */
	struct sl_usage_scan *usage;   /* scans its reply's body; NULL: not read */
	struct sl_prefix_hash *prefix; /* while its body is hashed */
	struct sl_buf_ref *buf_ref;    /* if earlier sends still read the request */
	struct sl_store reply;         /* not yet taken: metadata block, body */
	struct sl_store tail;          /* separate metadata block of trailers */
	struct sl_store rule_values;   /* for reply rules (rules.c) */
	uint64_t reply_len;            /* body; or SL_LEN_UNKNOWN */
	uint64_t body_len;
	uint64_t body_max;
	uint64_t rpc_id;
	uint64_t batch; /* valid with send_ns */
	uint64_t deadline_ns;
	uint64_t first_ns, take_ns, parse_ns, send_ns, reply_ns;
	uint64_t whole_ns; /* stream: sent whole; valid with awaits_reply */
	uint32_t service_us;
	uint32_t allowed;       /* named by a 405; bit per enum sl_method */
	uint32_t text_taken;    /* of the gateway's own reply */
	uint32_t taken;         /* by the front */
	uint32_t given;         /* stream: body bytes sent */
	uint64_t active_ns;     /* stream: last part, any direction */
	uint64_t reply_part_ns; /* stream: last part of its reply */
	struct {
		uint64_t full_ns; /* token bucket is full */
		uint64_t due_ns;  /* waiting bytes may move; 0: none wait */
	} rate[SL_RATE_CNT];
	uint32_t part_left;                   /* of a message sent in pieces */
	uint32_t again;                       /* stream: first bytes of `request`, sent before */
	uint32_t ahead;                       /* stream: body bytes passed before they are sent */
	uint32_t message_left;                /* of the message that the front is giving */
	struct sl_list rate_node, quota_node; /* min_rate.c */
	uint64_t check_ns, due_ns;
	uint32_t withheld;    /* taken while paused; not yet in the window */
	uint32_t moved, pace; /* bytes at the last check; between the last two */
	uint32_t frames;      /* charged to `quota` */
	uint16_t head_len;    /* metadata block of `reply` */
	uint16_t request_meta_len;
	uint16_t trailers_len; /* stream: at the end of `request` */
	uint8_t state;         /* enum sl_exchange_state */
	uint8_t wait;          /* enum sl_client_wait */
	uint8_t repeats;       /* retries limited by SL_MAX_RETRIES */
	uint16_t retries;
	uint8_t rpc_class;
	uint8_t outcome; /* enum sl_outcome; not OK: own reply, or BROKEN */
	uint8_t proto;   /* enum sl_proto */
	/* as given to the front; as last sent by a backend; 0: none */
	uint16_t status, backend_status;
	uint16_t grpc_status;
	bool idempotent;
	bool own_deadline; /* the route's */
	bool open;         /* more of the request is to come */
	bool end_sent;
	bool awaits_reply;     /* stream: sent whole, no reply has begun */
	bool trusted;          /* counted in core->trusted */
	bool reading;          /* counted in `quota` */
	bool in_parts;         /* reply of several messages */
	uint8_t upgrade;       /* index in route->upgrades */
	bool key_given;        /* 401: an unknown API key, not none */
	uint8_t quota_open;    /* bit per quota of the route: counted as open */
	uint8_t quota_charged; /* bit per quota of the route: the reply has named its tokens */
	uint8_t extra;         /* enum sl_extra */
	bool is_hedge;         /* without client; its frames are the twin's */
	uint8_t cors_origin;   /* index + 1 in cors->origins; 0: another or none */
	uint8_t quota_no;      /* quota that has refused it */
	uint32_t quota_wait_s; /* until it would be allowed */
	uint64_t quota_hashes[SL_CFG_ROUTE_QUOTAS]; /* its clients */
	bool part_compressed;
	bool decided; /* on the upgrade */
	bool looks;   /* its body is read for `match` or `prefix` */
	bool held;    /* stream: not sent before these are known */
};

/* Returns the route's name of the accepted protocol. Only with x->stream.upgrade. */
static inline struct sl_span sl_exchange_upgrade(const struct sl_exchange *x)
{
	return sl_span_cstr(x->route->upgrades[x->upgrade]);
}

/* Returns true while a backend has the exchange. */
static inline bool sl_exchange_in_flight(const struct sl_exchange *x)
{
	return x->state == SL_EX_IN_FLIGHT || x->state == SL_EX_REPLYING;
}

/* Returns true for an open-ended stream that a backend serves, or will serve. */
static inline bool sl_exchange_waits_for_backend(const struct sl_exchange *x)
{
	return x->stream.open_ended && (sl_exchange_in_flight(x) || x->state == SL_EX_QUEUED);
}

/* Returns true if the request is neither read whole nor sent. */
static inline bool sl_exchange_reads(const struct sl_exchange *x)
{
	return x->open && (!x->stream.open_ended || x->held);
}

/* Returns true while the body waits for frames (backpressure.c). */
static inline bool sl_exchange_is_paused(const struct sl_exchange *x)
{
	return x->state == SL_EX_READING && sl_exchange_reads(x) && !x->stream.refused &&
	       !sl_list_empty(&x->item.link);
}

/*
 * Copies a chunk, or takes over its frame (NULL then). Returns the bytes stored: fewer without
 * frames.
 */
size_t sl_store_append(struct sl_store *s, struct sl_umem *u, struct sl_chunk *chunk);
/* Appends a copy. Returns the bytes stored: fewer without frames. */
size_t sl_store_copy(struct sl_store *s, struct sl_umem *u, const void *bytes, size_t len);
/* Returns contiguous bytes from `off`, valid until a change; empty at the end. */
struct sl_span sl_store_span(const struct sl_store *s, size_t off);
/* Calls sl_store_span() if `off` is inside; else empty. */
static inline struct sl_span sl_store_at(const struct sl_store *s, size_t off)
{
	return off < s->len ? sl_store_span(s, off) : sl_span_of(NULL, 0);
}
/* Copies the first `len` bytes, which must exist. */
void sl_store_read(const struct sl_store *s, void *to, size_t len);
/* Removes up to `len` bytes, and frees their frames. */
void sl_store_skip(struct sl_store *s, struct sl_umem *u, size_t len);
/* Frees all frames. */
static inline void sl_store_free(struct sl_store *s, struct sl_umem *u)
{
	if (!s->head)
		return;
	sl_frame_put_list(u, s->head);
	*s = (struct sl_store){0};
}
/* Appends all frames of `from`, and empties it. */
void sl_store_splice(struct sl_store *s, struct sl_store *from);
/* Lists the frames' bytes. Returns the number of spans; 0: none, or more than max. */
static inline uint32_t sl_store_spans(const struct sl_store *s, struct sl_span *spans, uint32_t max)
{
	uint32_t n = 0;

	if (s->frames > max)
		return 0;
	for (const struct sl_frame *f = s->head; f; f = f->next) {
		uint32_t skip = f == s->head ? s->off : 0;

		spans[n++] = sl_span_of(f->data + skip, (size_t)f->len - skip);
	}
	return n;
}

/*
 * Routes a request and begins its exchange. Returns NULL, counted, if none is free or the address
 * has too many. These five are sl_front_cb's; `conn` is the client (request.c).
 */
struct sl_stream *sl_request_begin(void *conn, const struct sl_request *rq);
/* Takes body bytes. Returns how many; 0: the front keeps them, and is called again. */
size_t sl_request_body(void *conn, struct sl_stream *st, struct sl_chunk *chunk);
/* Begins a message of a stream. Returns false if the exchange is refused. */
bool sl_request_message(void *conn, struct sl_stream *st, uint32_t len, bool compressed);
/* Stores trailers of a stream, or fails it. */
void sl_request_trailers(void *conn, struct sl_stream *st, const struct sl_header *fields,
			 uint32_t cnt);
/* Queues the complete request, or sends the stream's end. */
void sl_request_end(void *conn, struct sl_stream *st);

/* Frees an exchange after its reply was sent (sl_front_cb). */
void sl_exchange_done(void *conn, struct sl_stream *st);
/* Frees an exchange that the front gives up (sl_front_cb). */
void sl_exchange_cancel(void *conn, struct sl_stream *st);
/* Frees an exchange in any state, and cancels its work. Counts no outcome. */
void sl_exchange_release(struct sl_exchange *x);
/* Ends the exchange's count as one that reads. May be repeated. */
void sl_exchange_has_read(struct sl_exchange *x);
/*
 * Stops the exchange: the reply to `why` follows; BROKEN if one has begun. Notifies the front at
 * the end of the burst.
 */
SL_COLD void sl_exchange_fail(struct sl_exchange *x, enum sl_outcome why);
/* Calls the fronts of some failed exchanges. Returns how many. */
unsigned sl_exchange_notify(struct sl_core *c);

/* Returns false, counted, if `len` more bytes exceed the address's limit. */
static inline bool sl_exchange_may_store(struct sl_exchange *x, size_t len)
{
	struct sl_core *c = x->core;

	return sl_addr_quota_admits(&c->quotas, x->quota, SL_QUOTA_FRAMES,
				    (uint32_t)(len >> c->net->umem->frame_shift) + 1);
}

/* Charges changed stores' frames to the address. */
static inline void sl_exchange_charge(struct sl_exchange *x)
{
	uint32_t now = x->head.frames + x->kept.frames + x->request.frames + x->reply.frames +
		       x->tail.frames + x->rule_values.frames;

	if (now == x->frames)
		return;
	sl_addr_quota_add_frames(&x->core->quotas, x->quota, (int32_t)(now - x->frames));
	x->frames = now;
}

/* Tells the RPC the kept reply bytes, for credit. Only while REPLYING. */
void sl_exchange_reply_kept(struct sl_exchange *x);
/* Adds a time to the stage's histogram. */
static inline void sl_hist_stage_add(struct sl_svc_hist *stages, enum sl_stage stage, uint64_t ns)
{
	struct sl_svc_hist *h = &stages[stage];

	h->count++;
	h->sum_ns += ns;
	sl_hist_add((uint64_t *)h->bucket, ns);
}

/* Adds a time to the pool's histogram of the stage, if there is one. */
static inline void sl_stage_add(const struct sl_exchange *x, enum sl_stage stage, uint64_t ns)
{
	struct sl_svc_hist *stages = x->hist ? *x->hist : NULL;

	if (stages)
		sl_hist_stage_add(stages, stage, ns);
}

/* Returns true while the exchange has the RPC's bytes (struct sl_loan). */
static inline bool sl_exchange_is_lent(const struct sl_exchange *x)
{
	return x->core->loan.x == x;
}

/* Appends a copy. Returns false without frames; a part may be stored. */
static inline bool sl_exchange_keep(struct sl_exchange *x, struct sl_store *s, struct sl_span bytes)
{
	return sl_store_copy(s, x->core->net->umem, bytes.ptr, bytes.len) == bytes.len;
}

/*
 * Reads the head of the reply. False: there is none yet, or BROKEN. May fail the exchange. These
 * five are sl_front_cb's (reply.c).
 */
bool sl_reply_head(void *conn, struct sl_stream *st, struct sl_reply_parts *out);
/* Returns the next bytes that may be sent, perhaps none, and if more follow, or BROKEN. */
struct sl_piece sl_reply_peek(void *conn, struct sl_stream *st);
/* Removes n of the peeked bytes. May fail the exchange. */
void sl_reply_take(void *conn, struct sl_stream *st, size_t n);
/* Returns true if the reply is complete. */
bool sl_reply_whole(void *conn, const struct sl_stream *st);
/* Reads the trailers of a complete reply. False: it is BROKEN. */
bool sl_reply_trailers(void *conn, struct sl_stream *st, struct sl_reply_parts *out);

/* Returns the awaited step of client or backend. */
enum sl_client_wait sl_exchange_client_wait(const struct sl_exchange *x);
/* Begins the checks of the client's minimum rate. May be repeated. */
void sl_min_rate_join(struct sl_exchange *x);
/* Ends the checks. Must precede the exchange's end. */
static inline void sl_min_rate_leave(struct sl_exchange *x)
{
	if (sl_unlikely(!sl_list_empty(&x->rate_node)))
		sl_list_del(&x->rate_node);
	if (sl_unlikely(!sl_list_empty(&x->quota_node)))
		sl_list_del(&x->quota_node);
}
/*
 * Checks due exchanges. Returns a slow one, which the caller must end, or NULL. Call it until NULL;
 * *looked, from 0, counts and limits checks.
 */
struct sl_exchange *sl_min_rate_check(struct sl_core *c, unsigned *looked);
/* Returns when the next check is due; UINT64_MAX: none. */
uint64_t sl_min_rate_next_ns(const struct sl_core *c);

/*
 * Thresholds in 1/SL_FRAME_PARTS of all frames (backpressure.c). Below NARROW, heavy bodies get
 * small windows; below PAUSE they are not read.
 */
enum { SL_FRAME_PARTS = 16, SL_NARROW_PARTS = 4, SL_PAUSE_PARTS = 3 };
/*
 * Narrows the client's window if frames are short, or pauses the body. False: the front must keep
 * the bytes; it is called again.
 */
bool sl_body_may_read(struct sl_exchange *x);
/* Opens the window by body bytes taken, or later if the body is paused. */
void sl_body_was_read(struct sl_exchange *x, size_t len);
/* Reads paused bodies on while frames suffice. Returns how many. */
unsigned sl_bodies_resume(struct sl_core *c);
/* Returns true if no paused body could be resumed for too long. */
bool sl_bodies_are_stuck(const struct sl_core *c);
/* Returns when to call sl_bodies_resume() or _are_stuck() again; UINT64_MAX: no body is paused. */
uint64_t sl_bodies_next_ns(const struct sl_core *c);

/*
 * Thresholds as 1/n of a memory pool (evict.c). Something is ended while less than SHORT is left.
 * RESERVE is for the gateway's own replies.
 */
enum {
	SL_SHORT_FRAMES = 8,
	SL_SHORT_EXCHANGES = 16,
	SL_SHORT_CLIENTS = 16,
	SL_SHORT_HEADS = 8,
	SL_RESERVE_EXCHANGES = 64,
};
/* Returns true if an exchange is free; `for_backend`: beyond the reserve. */
static inline bool sl_core_has_exchange(const struct sl_core *c, bool for_backend)
{
	uint32_t cap = sl_mempool_capacity(&c->exchanges);

	return cap - sl_mempool_used(&c->exchanges) >
	       (for_backend ? cap / SL_RESERVE_EXCHANGES : 0);
}
/* Ends exchanges below a minimum rate, once per burst. Returns how many were checked. */
unsigned sl_core_end_late(struct sl_core *c);
/* Ends the heaviest exchanges and connections in a shortage. Returns their number. */
unsigned sl_core_evict(struct sl_core *c);

/* Appends the request's head for the backend to x->request. False: no frames, or if too large. */
bool sl_meta_encode(struct sl_exchange *x, const struct sl_request *rq);
/* The same for trailers. */
bool sl_meta_encode_trailers(struct sl_exchange *x, const struct sl_header *fields, uint32_t cnt);

/*
 * Expands a redirect's location into x->tail. Returns SL_OUTCOME_FIXED, or why there is none. Must
 * follow sl_exchange_fail(), which frees x->tail.
 */
enum sl_outcome sl_redirect_encode(struct sl_exchange *x, const struct sl_request *rq);

/*
 * Queues a complete request, no stream. Returns OK, or the refusal with which the caller must fail
 * it.
 */
enum sl_outcome sl_dispatch_submit(struct sl_exchange *x);
/* Sends a batch or a stream's head (sl_batch_ops.send). */
int sl_dispatch_send(void *pool, unsigned backend, struct sl_batch_item **items, unsigned cnt);

/* Frees the request's frames. Those that a sent batch still reads are left to it. */
void sl_sent_batch_release_request(struct sl_exchange *x);
/* The same for a stream's head, and frees kept bytes: no retry is possible. */
void sl_sent_batch_release_head_now(struct sl_exchange *x);
/* Calls sl_sent_batch_release_request() if there is something. */
static inline void sl_sent_batch_release(struct sl_exchange *x)
{
	if (x->request.head || x->buf_ref)
		sl_sent_batch_release_request(x);
}
/* The same for the head. */
static inline void sl_sent_batch_release_head(struct sl_exchange *x)
{
	if (x->head.head)
		sl_sent_batch_release_head_now(x);
}

/* Returns true for a stream whose route has max_rate. */
static inline bool sl_stream_rate_is_limited(const struct sl_exchange *x)
{
	return x->stream.open_ended && x->route->max_rate;
}
/*
 * Returns how many of `want` bytes may move now; if fewer, sets the timer to continue. Only if the
 * rate is limited.
 */
size_t sl_stream_rate_grant(struct sl_exchange *x, enum sl_rate side, size_t want);
/* Returns sl_stream_rate_grant(), or `want` if the rate is not limited. */
static inline size_t sl_stream_rate_allowed(struct sl_exchange *x, enum sl_rate side, size_t want)
{
	return sl_stream_rate_is_limited(x) ? sl_stream_rate_grant(x, side, want) : want;
}
/* Takes tokens for bytes that have moved. */
void sl_stream_rate_charge(struct sl_exchange *x, enum sl_rate side, size_t n);
/* Calls sl_stream_rate_charge() if the rate is limited. */
static inline void sl_stream_rate_take(struct sl_exchange *x, enum sl_rate side, size_t n)
{
	if (sl_stream_rate_is_limited(x))
		sl_stream_rate_charge(x, side, n);
}
/* Returns true if the rate is limited and less than half of the bucket is left. */
bool sl_stream_rate_waits(const struct sl_exchange *x, enum sl_rate side);
/* Returns true once when the time set by sl_stream_rate_grant() has come. */
bool sl_stream_rate_resumes(struct sl_exchange *x, enum sl_rate side);
/* Returns OK, or EXPIRED or STREAM_IDLE if the caller must fail the stream. */
enum sl_outcome sl_stream_limits_over(const struct sl_exchange *x);
/* Sets the timer to the next limit or token. */
void sl_stream_limits_arm(struct sl_exchange *x);

/* Sends or queues the head. Returns OK, or the refusal with which the caller must fail it. */
enum sl_outcome sl_stream_open(struct sl_exchange *x);
/* Prepares a retry: copies the head. False: it was not kept, or without frames. */
bool sl_stream_can_retry(struct sl_exchange *x);
/* Called when a reply has begun. `timed`: the time to it is typical of the backend. */
void sl_stream_answered(struct sl_exchange *x, bool timed);
/* Takes the wait as a sample: a stream with awaits_reply gets no reply. */
void sl_stream_unanswered(struct sl_exchange *x);
/* Queues the stream first, with what was sent in front. Must follow sl_stream_can_retry(). */
void sl_stream_requeue(struct sl_exchange *x);
/* Begins a message. False: no frames: the caller must fail the stream. */
bool sl_stream_message(struct sl_exchange *x, uint32_t len, bool compressed);
/* Returns true if unsent bytes are at the limit. Never for streams with a window. */
bool sl_stream_is_full(const struct sl_exchange *x);
/* Stores a chunk and sends on. Returns false as sl_stream_message(). Not if full. */
bool sl_stream_take(struct sl_exchange *x, struct sl_chunk *chunk);
/*
 * Sends request parts within the backend's credit and max_rate, then the end. Does nothing unless
 * in flight. An upgrade awaits the reply's head. Unsent parts follow without a further call.
 */
void sl_stream_pump(struct sl_exchange *x);
/* Counts a reply part's bytes and time. */
void sl_stream_on_reply(struct sl_exchange *x, const struct sl_rpc_reply *r);
/*
 * Decides an upgrade: 101 starts it; others drop waiting bytes and end the request.
 */
void sl_stream_on_reply_head(struct sl_exchange *x, struct sl_reply *r);
/* Ends the stream at a limit, or moves bytes that waited for the rate. May free it. */
void sl_stream_on_timer(struct sl_exchange *x);
/* Drops bytes kept for a retry, and sends on (sl_rpc_ops.credit). */
void sl_stream_on_credit(void *app, void *cookie);
/* Lets the front send 100 (Continue) (sl_rpc_ops.go_on). */
void sl_stream_on_continue(void *app, void *cookie);
/* Sends stalled streams on, once per burst. Returns how many. */
unsigned sl_streams_retry(struct sl_core *c);
/* Sends a pool's queued streams to serving backends, once per burst. Returns how many. */
unsigned sl_streams_start_waiting(struct sl_pool *g);

#endif
