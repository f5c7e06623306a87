/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An exchange: one request from its first byte to the last byte of its reply.
 *
 *   READING --submit--> QUEUED --send--> IN_FLIGHT --reply--> REPLYING --last part--> WHOLE -> done
 *      |  ^------------- lost ------------|                    |
 *      |                 |                |                    |
 *      +-----------------+----------------+--------------------+--failed--> WHOLE or BROKEN
 *
 * A failed exchange is WHOLE with the gateway's own reply, or BROKEN if the front has begun to send
 * another one. A request that is read whole leaves READING with its last byte. A stream (stream.c)
 * is sent when it begins, and is QUEUED only until a backend is up. It passes through all states
 * while `open`. Parts that come before the reply is WHOLE are forwarded, later ones refused.
 *
 * Ownership: the front owns the stream (first member) between begin and done or cancel. `item`
 * belongs to the batcher, or to a stream's pool, while QUEUED. The RPC has the exchange as a cookie
 * while IN_FLIGHT and REPLYING. Request and reply are HELD frames, each with its metadata block in
 * front. The front pulls the reply:
 *
 *   RPC's upcall: loan (its memory, until it returns) --what the front has left--> reply, tail
 *                   |                                                                 |
 *                   +---------- head, peek, take, trailers of the front --------------+
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

/* The side that an exchange waits for, and what it must do. */
enum sl_client_wait {
	SL_WAIT_NONE,
	SL_WAIT_QUEUED,  /* client: take its reply, behind others */
	SL_WAIT_BODY,    /* client: send the rest of the request */
	SL_WAIT_REPLY,   /* client: take the reply */
	SL_WAIT_BACKEND, /* backend: take bytes */
};

/* Directions of a stream. */
enum sl_rate { SL_RATE_IN, SL_RATE_OUT, SL_RATE_CNT };

struct sl_exchange {
	struct sl_stream stream;
	struct sl_batch_item item;
	struct sl_core *core;
	struct sl_worker_cfg *wcfg; /* referenced */
	struct sl_client *client;
	struct sl_addr_quota *quota;
	const struct sl_cfg_route *route; /* NULL: none matches */
	const struct sl_cfg_cors *cors;   /* of its route; NULL: none */
	const struct sl_api_key *key;     /* the client's; NULL: none */
	struct sl_pool *pool;             /* referenced */
	struct sl_svc_hist **hist;        /* the pool's: [SL_STAGE_CNT] */
	struct sl_backend_ref *backend;   /* sent there last; referenced */
	struct sl_timer late; /* in core->late: deadline while READING, or stream's timer */
	struct sl_store head; /* stream: metadata, until a backend answers */
	struct sl_store kept; /* stream: copy of what was sent */
	struct sl_store request;
	struct sl_event *note;         /* NULL: no access log */
	struct sl_body_match *match;   /* while its body selects the pool; else NULL */
	struct sl_usage_scan *usage;   /* of its reply's body; NULL: not read */
	struct sl_prefix_hash *prefix; /* while its body is hashed; else NULL */
	struct sl_buf_ref *buf_ref;    /* if earlier sends still read the request */
	struct sl_store reply;         /* not yet taken: metadata block, body */
	struct sl_store tail;          /* separate metadata block of trailers */
	struct sl_store rule_values;   /* for reply rules (rules.c) */
	uint64_t reply_len;            /* body; or SL_LEN_UNKNOWN */
	uint64_t body_len;             /* received */
	uint64_t body_max;
	uint64_t rpc_id;
	uint64_t batch; /* valid with send_ns */
	uint64_t deadline_ns;
	uint64_t first_ns, take_ns, parse_ns, send_ns, reply_ns;
	uint32_t service_us;    /* at the backend */
	uint32_t allowed;       /* named by a 405; bit per enum sl_method */
	uint32_t text_taken;    /* of the gateway's own reply */
	uint32_t taken;         /* of the reply, by the front */
	uint32_t given;         /* stream: body bytes sent */
	uint64_t active_ns;     /* stream: last part, any direction */
	uint64_t reply_part_ns; /* stream: last part of its reply */
	struct {
		uint64_t full_ns; /* token bucket is full */
		uint64_t due_ns;  /* waiting bytes may move; 0: none wait */
	} rate[SL_RATE_CNT];
	uint32_t part_left;                   /* of a message sent in pieces */
	uint32_t again;                       /* stream: first body bytes, sent again */
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
	uint8_t rpc_class; /* enum sl_rpc_class */
	uint8_t outcome;   /* enum sl_outcome; not OK: own reply, or BROKEN */
	uint8_t proto;     /* enum sl_proto */
	/* of the head as given to the front; of the last head from a backend. 0: none */
	uint16_t status, backend_status;
	uint16_t grpc_status; /* of the reply */
	bool idempotent;
	bool own_deadline;     /* the route's, not the client's */
	bool open;             /* more of the request is to come */
	bool end_sent;         /* stream */
	bool trusted;          /* counted in core->trusted */
	bool reading;          /* counted in `quota` */
	bool in_parts;         /* reply of several messages */
	uint8_t upgrade;       /* index in route->upgrades */
	bool key_given;        /* 401: an unknown API key, not none */
	uint8_t quota_open;    /* bit per quota of the route: counted as open */
	uint8_t quota_charged; /* bit per quota of the route: the reply has named its tokens */
	bool charges;          /* its reply may name tokens; not of a mirrored copy */
	uint8_t cors_origin;   /* index + 1 in cors->origins; 0: another or none */
	uint8_t quota_no;      /* quota that has refused it */
	uint32_t quota_wait_s; /* until it would be allowed */
	uint64_t quota_hashes[SL_CFG_ROUTE_QUOTAS]; /* its clients */
	bool part_compressed;
	bool decided; /* on the upgrade */
	bool mirrors; /* a copy goes to another pool */
	bool looks;   /* its body is read for `match` or `prefix` */
	bool held;    /* stream: not sent before these are known */
};

static inline struct sl_span sl_exchange_upgrade(const struct sl_exchange *x)
{
	return sl_span_cstr(x->route->upgrades[x->upgrade]);
}

static inline bool sl_exchange_in_flight(const struct sl_exchange *x)
{
	return x->state == SL_EX_IN_FLIGHT || x->state == SL_EX_REPLYING;
}

static inline bool sl_exchange_waits_for_backend(const struct sl_exchange *x)
{
	return x->stream.open_ended && (sl_exchange_in_flight(x) || x->state == SL_EX_QUEUED);
}

/* Returns true if the request is neither read whole nor sent. */
static inline bool sl_exchange_reads(const struct sl_exchange *x)
{
	return x->open && (!x->stream.open_ended || x->held);
}

/* See backpressure.c. */
static inline bool sl_exchange_is_paused(const struct sl_exchange *x)
{
	return x->state == SL_EX_READING && sl_exchange_reads(x) && !x->stream.refused &&
	       !sl_list_empty(&x->item.link);
}

/*
 * Appends a chunk: copies it, or takes over its frame. Returns the bytes stored: fewer without
 * frames.
 */
size_t sl_store_append(struct sl_store *s, struct sl_umem *u, struct sl_chunk *chunk);
/* Appends a copy. Returns the bytes stored. */
size_t sl_store_copy(struct sl_store *s, struct sl_umem *u, const void *bytes, size_t len);
/* Returns contiguous bytes from `off` on; empty at the end. Walks frames. */
struct sl_span sl_store_span(const struct sl_store *s, size_t off);
static inline struct sl_span sl_store_at(const struct sl_store *s, size_t off)
{
	return off < s->len ? sl_store_span(s, off) : sl_span_of(NULL, 0);
}
/* The bytes must exist. */
void sl_store_read(const struct sl_store *s, void *to, size_t len);
/* Removes len bytes in front. */
void sl_store_skip(struct sl_store *s, struct sl_umem *u, size_t len);
static inline void sl_store_free(struct sl_store *s, struct sl_umem *u)
{
	if (!s->head)
		return;
	sl_frame_put_list(u, s->head);
	*s = (struct sl_store){0};
}
/* Moves all of `from` to the end of `s`. */
void sl_store_splice(struct sl_store *s, struct sl_store *from);
/* Returns the number of spans; 0: more than max. */
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
 * Begins a request. NULL: refused. These five are sl_front_cb's; `conn` is the client (request.c).
 */
struct sl_stream *sl_request_begin(void *conn, const struct sl_request *rq);
/* Takes body bytes. Returns how many; 0: the front must keep them, and is called again. */
size_t sl_request_body(void *conn, struct sl_stream *st, struct sl_chunk *chunk);
/* Begins a message of len bytes. False: refused. */
bool sl_request_message(void *conn, struct sl_stream *st, uint32_t len, bool compressed);
void sl_request_trailers(void *conn, struct sl_stream *st, const struct sl_header *fields,
			 uint32_t cnt);
void sl_request_end(void *conn, struct sl_stream *st);

/* Ends and frees an exchange whose reply was sent (sl_front_cb). */
void sl_exchange_done(void *conn, struct sl_stream *st);
/* Ends and frees an exchange that the front gives up (sl_front_cb). */
void sl_exchange_cancel(void *conn, struct sl_stream *st);
/* Frees an exchange, and counts nothing. */
void sl_exchange_release(struct sl_exchange *x);
/* Stops counting it as being read: the request is complete. */
void sl_exchange_has_read(struct sl_exchange *x);
/*
 * Ends the exchange with the gateway's own reply, or breaks it off. The front is notified at the
 * end of the burst, never within the call.
 */
SL_COLD void sl_exchange_fail(struct sl_exchange *x, enum sl_outcome why);
/* Notifies fronts of failed exchanges at the end of a burst. Returns how many. */
unsigned sl_exchange_notify(struct sl_core *c);

static inline bool sl_exchange_may_store(struct sl_exchange *x, size_t len)
{
	struct sl_core *c = x->core;

	return sl_addr_quota_admits(&c->quotas, x->quota, SL_QUOTA_FRAMES,
				    (uint32_t)(len >> c->net->umem->frame_shift) + 1);
}

static inline void sl_exchange_charge(struct sl_exchange *x)
{
	uint32_t now = x->head.frames + x->kept.frames + x->request.frames + x->reply.frames +
		       x->tail.frames + x->rule_values.frames;

	if (now == x->frames)
		return;
	sl_addr_quota_add_frames(&x->core->quotas, x->quota, (int32_t)(now - x->frames));
	x->frames = now;
}

/* Only while REPLYING. */
void sl_exchange_reply_kept(struct sl_exchange *x);
static inline void sl_stage_add(const struct sl_exchange *x, enum sl_stage stage, uint64_t ns)
{
	struct sl_svc_hist *h = x->hist ? &(*x->hist)[stage] : NULL;

	if (!h)
		return;
	h->count++;
	h->sum_ns += ns;
	sl_hist_add((uint64_t *)h->bucket, ns);
}

static inline bool sl_exchange_is_lent(const struct sl_exchange *x)
{
	return x->core->loan.x == x;
}

/* False: no frame. */
static inline bool sl_exchange_keep(struct sl_exchange *x, struct sl_store *s, struct sl_span bytes)
{
	return sl_store_copy(s, x->core->net->umem, bytes.ptr, bytes.len) == bytes.len;
}

/* Reads the head of the reply. False: none yet. These five are sl_front_cb's (reply.c). */
bool sl_reply_head(void *conn, struct sl_stream *st, struct sl_reply_parts *out);
/* Returns the next contiguous bytes of the body. */
struct sl_piece sl_reply_peek(void *conn, struct sl_stream *st);
/* Consumes n peeked bytes. */
void sl_reply_take(void *conn, struct sl_stream *st, size_t n);
bool sl_reply_whole(void *conn, const struct sl_stream *st);
/* Reads the trailers. False: broken. */
bool sl_reply_trailers(void *conn, struct sl_stream *st, struct sl_reply_parts *out);

/* min_rate.c */
enum sl_client_wait sl_exchange_client_wait(const struct sl_exchange *x);
/* Starts the checks of an exchange that waits, or may soon. */
void sl_min_rate_join(struct sl_exchange *x);
static inline void sl_min_rate_leave(struct sl_exchange *x)
{
	sl_list_del(&x->rate_node);
	sl_list_del(&x->quota_node);
}
/*
 * Checks exchanges that are due, until one is late. Returns that or NULL; adds their number to
 * *looked.
 */
struct sl_exchange *sl_min_rate_check(struct sl_core *c, unsigned *looked);
uint64_t sl_min_rate_next_ns(const struct sl_core *c);

/*
 * Thresholds in 1/SL_FRAME_PARTS of all frames (backpressure.c). Bodies of heavy addresses get
 * small windows while fewer than NARROW are free, and are not read while fewer than PAUSE are.
 */
enum { SL_FRAME_PARTS = 16, SL_NARROW_PARTS = 4, SL_PAUSE_PARTS = 3 };
/* Returns false if the front must keep body bytes; it is called again. */
bool sl_body_may_read(struct sl_exchange *x);
/* Opens the window by body bytes taken, or later if the body is paused. */
void sl_body_was_read(struct sl_exchange *x, size_t len);
/* Resumes bodies for which frames are free, at the end of a burst. Returns how many. */
unsigned sl_bodies_resume(struct sl_core *c);
/* Returns true if bodies are paused and no frames come back. */
bool sl_bodies_are_stuck(const struct sl_core *c);
/* Returns when sl_bodies_resume() or eviction is due. */
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
/* Returns true if an exchange can be allocated. */
static inline bool sl_core_has_exchange(const struct sl_core *c, bool for_backend)
{
	uint32_t cap = sl_mempool_capacity(&c->exchanges);

	return cap - sl_mempool_used(&c->exchanges) >
	       (for_backend ? cap / SL_RESERVE_EXCHANGES : 0);
}
/* Ends exchanges of late clients. Returns how many were checked. */
unsigned sl_core_end_late(struct sl_core *c);
/*
 * Relieves shortages at the end of a burst. Returns how many exchanges and connections were ended.
 */
unsigned sl_core_evict(struct sl_core *c);

/* Writes the metadata block of a request (meta.c). False: too large, or no frame. */
bool sl_meta_encode(struct sl_exchange *x, const struct sl_request *rq);
/* Appends a stream's trailers. False: too large, or no frame. */
bool sl_meta_encode_trailers(struct sl_exchange *x, const struct sl_header *fields, uint32_t cnt);

/*
 * Stores a redirect's location in x->tail (redirect.c). Returns SL_OUTCOME_FIXED, or why there is
 * none. Called after sl_exchange_fail(), which frees x->tail.
 */
enum sl_outcome sl_redirect_encode(struct sl_exchange *x, const struct sl_request *rq);

/* Queues the request at its pool's batcher (dispatch.c). Returns OK, or the refusal. */
enum sl_outcome sl_dispatch_submit(struct sl_exchange *x);
/* Sends a batch or a stream's head (sl_batch_ops.send). Returns 0 or -errno. */
int sl_dispatch_send(void *pool, unsigned backend, struct sl_batch_item **items, unsigned cnt);

/* Frees the request's frames, but not before the transport has read them (sent_batch.c). */
void sl_sent_batch_release_request(struct sl_exchange *x);
/* Frees a stream's head and kept bytes in the same way. */
void sl_sent_batch_release_head_now(struct sl_exchange *x);
static inline void sl_sent_batch_release(struct sl_exchange *x)
{
	if (x->request.head || x->buf_ref)
		sl_sent_batch_release_request(x);
}
static inline void sl_sent_batch_release_head(struct sl_exchange *x)
{
	if (x->head.head)
		sl_sent_batch_release_head_now(x);
}

static inline bool sl_stream_rate_is_limited(const struct sl_exchange *x)
{
	return x->stream.open_ended && x->route->max_rate;
}
/* Returns how much of `want` may move now. If less, sets x->rate[side].due_ns and the timer. */
size_t sl_stream_rate_grant(struct sl_exchange *x, enum sl_rate side, size_t want);
static inline size_t sl_stream_rate_allowed(struct sl_exchange *x, enum sl_rate side, size_t want)
{
	return sl_stream_rate_is_limited(x) ? sl_stream_rate_grant(x, side, want) : want;
}
/* Takes n bytes from the token bucket. */
void sl_stream_rate_charge(struct sl_exchange *x, enum sl_rate side, size_t n);
static inline void sl_stream_rate_take(struct sl_exchange *x, enum sl_rate side, size_t n)
{
	if (sl_stream_rate_is_limited(x))
		sl_stream_rate_charge(x, side, n);
}
/* Returns true if the stream waits for its rate: less than half of the bucket is left. */
bool sl_stream_rate_waits(const struct sl_exchange *x, enum sl_rate side);
/* Returns true once when that wait is over. */
bool sl_stream_rate_resumes(struct sl_exchange *x, enum sl_rate side);
/* Returns OK, or why the stream must end now. */
enum sl_outcome sl_stream_limits_over(const struct sl_exchange *x);
void sl_stream_limits_arm(struct sl_exchange *x);

/* Sends a stream's head, or queues it (stream.c). Returns OK, or the refusal. */
enum sl_outcome sl_stream_open(struct sl_exchange *x);
/* Returns true if all that was sent is still here. */
bool sl_stream_can_retry(struct sl_exchange *x);
/* Queues the stream again, with what was sent in front. */
void sl_stream_requeue(struct sl_exchange *x);
/* Begins a message. False: no frame. */
bool sl_stream_message(struct sl_exchange *x, uint32_t len, bool compressed);
bool sl_stream_is_full(const struct sl_exchange *x);
/* Takes body bytes. False: no frame. */
bool sl_stream_take(struct sl_exchange *x, struct sl_chunk *chunk);
/* Sends parts within the backend's credit, and the end. */
void sl_stream_pump(struct sl_exchange *x);
/* Counts a piece of the reply, and measures when a part begins. */
void sl_stream_on_reply(struct sl_exchange *x, const struct sl_rpc_reply *r);
/* Decides on an upgrade: 101 starts it, any other status ends the request. */
void sl_stream_on_reply_head(struct sl_exchange *x, struct sl_reply *r);
/* Ends or resumes the stream, or sets the timer again. May free it. */
void sl_stream_on_timer(struct sl_exchange *x);
/* sl_rpc_ops.credit */
void sl_stream_on_credit(void *app, void *cookie);
/* sl_rpc_ops.go_on: 100 (Continue) may be sent. */
void sl_stream_on_continue(void *app, void *cookie);
/* Resumes stalled streams at the end of a burst. Returns how many have room now. */
unsigned sl_streams_retry(struct sl_core *c);
/* Sends queued streams of a pool. Returns how many left the queue. */
unsigned sl_streams_start_waiting(struct sl_pool *g);

#endif
