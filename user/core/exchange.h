/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An exchange: one request from its first byte to the last byte of its reply, with a time stamp for
 * each stage. States and transitions:
 *
 *   READING --submit--> QUEUED --send--> IN_FLIGHT --reply--> REPLYING --last part--> WHOLE -> done
 *      |  ^------------- lost ------------|                    |
 *      |                 |                |                    |
 *      +-----------------+----------------+--------------------+--failed--> WHOLE or BROKEN
 *
 * A failed exchange is WHOLE with the gateway's own reply, or BROKEN if the front has already begun
 * to send another one.
 *
 * `open` says whether more of the request is to come. A request that is read whole leaves READING
 * with its last byte. A stream (stream.c) is sent when it begins, without the queue; it is QUEUED
 * only until a backend is up. It passes through all states while it is open. Parts that come before
 * the reply is WHOLE are forwarded; later ones are refused.
 *
 * Ownership: the front owns the stream (first member) between begin and done or cancel. `item`
 * belongs to the batcher, or to a stream's pool, while QUEUED. The RPC has the exchange as a cookie
 * while IN_FLIGHT and REPLYING. Request and reply are kept in HELD frames of the exchange, each
 * list with its metadata block in front.
 *
 * The front pulls the reply:
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

struct sl_client;
struct sl_event;
struct sl_backend_ref;
struct sl_buf_ref;

enum sl_exchange_state {
	SL_EX_READING,
	SL_EX_QUEUED,
	SL_EX_IN_FLIGHT, /* at a backend; no reply byte yet */
	SL_EX_REPLYING,  /* at a backend; its reply is being received */
	SL_EX_WHOLE,     /* all of the reply is here */
	SL_EX_BROKEN,    /* failed after the front had begun to send another head */
};

/* Bytes in a chain of frames, in order. */
struct sl_store {
	struct sl_frame *head, *tail;
	uint64_t len; /* not yet taken */
	uint32_t off; /* taken from the first frame */
	uint32_t frames;
};

/* The party that must act before an exchange's bytes can move on. */
enum sl_client_wait {
	SL_WAIT_NONE,
	SL_WAIT_QUEUED,  /* client: to take its reply, behind others */
	SL_WAIT_BODY,    /* client: to send the rest of the request */
	SL_WAIT_REPLY,   /* client: to take the reply that is here */
	SL_WAIT_BACKEND, /* backend: to take the bytes that are here for it */
};

/* Direction of a stream; each has a token bucket. */
enum sl_rate { SL_RATE_IN, SL_RATE_OUT, SL_RATE_CNT };

struct sl_exchange {
	struct sl_stream stream;
	struct sl_batch_item item;
	struct sl_core *core;
	struct sl_worker_cfg *wcfg;       /* under which it began, referenced */
	struct sl_client *client;         /* its front has the stream */
	struct sl_addr_quota *quota;      /* the client's */
	const struct sl_cfg_route *route; /* NULL: none matches */
	struct sl_pool *pool;             /* referenced */
	struct sl_svc_hist **hist;        /* the pool's: [SL_STAGE_CNT] */
	struct sl_backend_ref *backend;   /* it was sent there last, referenced */
	struct sl_timer late; /* in core->late: deadline while READING; timer of a stream */
	struct sl_store head; /* stream: metadata, until a backend answers; the rest is `request` */
	struct sl_store kept; /* stream: copy of the first bytes sent */
	struct sl_store request;
	struct sl_event *note;      /* its record; NULL: there is no access log */
	struct sl_buf_ref *buf_ref; /* earlier sends still read the request */
	struct sl_store reply;      /* not taken by the front: metadata block, then body */
	struct sl_store tail;       /* metadata block of the trailers, if it is separate */
	struct sl_store
		rule_values; /* values of reply rules that depend on the request (rules.c) */
	uint64_t reply_len;  /* body as the front pulls it; or SL_LEN_UNKNOWN */
	uint64_t body_len;   /* received so far */
	uint64_t body_max;
	uint64_t rpc_id;
	uint64_t batch; /* number of the batch it was sent in; valid with send_ns */
	uint64_t deadline_ns;
	uint64_t first_ns, take_ns, parse_ns, send_ns, reply_ns; /* time stamps of the stages */
	uint32_t service_us;                                     /* time at the backend */
	uint32_t allowed;       /* methods that a 405 names, bit per enum sl_method */
	uint32_t text_taken;    /* bytes of the gateway's own reply */
	uint32_t taken;         /* bytes of the reply, by the front */
	uint32_t given;         /* bytes of a stream's body sent to its backend */
	uint64_t active_ns;     /* stream: last part in either direction */
	uint64_t reply_part_ns; /* stream: last part of its reply */
	struct {
		uint64_t full_ns; /* when the bucket is full again */
		uint64_t due_ns;  /* when waiting bytes may move on; 0: none wait */
	} rate[SL_RATE_CNT];
	uint32_t part_left;    /* rest of a message that was sent in pieces */
	uint32_t again;        /* bytes at the begin of a stream's body that are sent again */
	uint32_t message_left; /* rest of the message that the front is giving */
	struct sl_list rate_node,
		quota_node; /* in core->min_rate_list and in its quota's `waiting` (min_rate.c) */
	uint64_t check_ns, due_ns; /* next check; when the client is late */
	uint32_t withheld;         /* bytes taken while paused, not yet added to the window */
	uint32_t moved, pace;      /* bytes at the last check; between the last two (min_rate.c) */
	uint32_t frames;           /* charged to its quota */
	uint16_t head_len;         /* length of the block in front of `reply` */
	uint16_t request_meta_len;
	uint16_t trailers_len; /* stream: length of the trailers at the end of `request` */
	uint8_t state;         /* enum sl_exchange_state */
	uint8_t wait;          /* enum sl_client_wait, at the last check */
	uint8_t repeats;       /* retries that count: a backend may have begun it, or is still up */
	uint16_t retries;      /* all retries */
	uint8_t rpc_class;     /* enum sl_rpc_class */
	uint8_t outcome; /* enum sl_outcome; not OK: the gateway replies itself, or why BROKEN */
	bool idempotent;
	bool open;            /* more of the request is to come */
	bool end_sent;        /* stream: all of it was sent */
	bool trusted;         /* counted in core->trusted */
	bool reading;         /* counted in its quota as being read */
	bool in_parts;        /* the reply is several messages */
	uint8_t upgrade;      /* index in route->upgrades, if stream.upgrade */
	bool part_compressed; /* the message sent in pieces is */
	bool decided;         /* the reply has accepted or refused the upgrade */
};

/* Returns the protocol that the stream may be upgraded to. */
static inline struct sl_span sl_exchange_upgrade(const struct sl_exchange *x)
{
	return sl_span_cstr(x->route->upgrades[x->upgrade]);
}

/* Returns true if the RPC has the exchange as a cookie. */
static inline bool sl_exchange_in_flight(const struct sl_exchange *x)
{
	return x->state == SL_EX_IN_FLIGHT || x->state == SL_EX_REPLYING;
}

/* Returns true for a stream that is at a backend or waits for one. */
static inline bool sl_exchange_waits_for_backend(const struct sl_exchange *x)
{
	return x->stream.open_ended && (sl_exchange_in_flight(x) || x->state == SL_EX_QUEUED);
}

/* Returns true if the client must send more before the request can be submitted. */
static inline bool sl_exchange_reads(const struct sl_exchange *x)
{
	return x->open && !x->stream.open_ended;
}

/* Returns true if the body is not read for now, because frames are short (backpressure.c). */
static inline bool sl_exchange_is_paused(const struct sl_exchange *x)
{
	return x->state == SL_EX_READING && sl_exchange_reads(x) && !x->stream.refused &&
	       !sl_list_empty(&x->item.link);
}

/*
 * Appends a chunk: copies it, or takes over its frame. Returns the bytes stored; fewer if frames
 * ran out.
 */
size_t sl_store_append(struct sl_store *s, struct sl_umem *u, struct sl_chunk *chunk);
/* Appends a copy. Returns the bytes stored; fewer if frames ran out. */
size_t sl_store_copy(struct sl_store *s, struct sl_umem *u, const void *bytes, size_t len);
/* Returns contiguous bytes from `off` on; empty at the end. Walks the frames up to `off`. */
struct sl_span sl_store_span(const struct sl_store *s, size_t off);
static inline struct sl_span sl_store_at(const struct sl_store *s, size_t off)
{
	return off < s->len ? sl_store_span(s, off) : sl_span_of(NULL, 0);
}
/* Copies the first len bytes, which stay. The store must have as many. */
void sl_store_read(const struct sl_store *s, void *to, size_t len);
/* Removes len bytes in front and frees empty frames. */
void sl_store_skip(struct sl_store *s, struct sl_umem *u, size_t len);
static inline void sl_store_free(struct sl_store *s, struct sl_umem *u)
{
	if (!s->head)
		return;
	sl_frame_put_list(u, s->head);
	*s = (struct sl_store){0};
}
/* Moves all of `from` behind the bytes of `s`. */
void sl_store_splice(struct sl_store *s, struct sl_store *from);
/* Fills in all bytes as spans. Returns how many, or 0 if there are more than max. */
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
 * Begins a request of a front. Returns NULL if it is refused. These five are called through struct
 * sl_front_cb with the client as `conn` (request.c).
 */
struct sl_stream *sl_request_begin(void *conn, const struct sl_request *rq);
/* Takes body bytes. Returns how many; 0: the front must keep them and is called again. */
size_t sl_request_body(void *conn, struct sl_stream *st, struct sl_chunk *chunk);
/* Begins a message of len bytes. False: the request was refused. */
bool sl_request_message(void *conn, struct sl_stream *st, uint32_t len, bool compressed);
/* Adds the trailers of a request. */
void sl_request_trailers(void *conn, struct sl_stream *st, const struct sl_header *fields,
			 uint32_t cnt);
/* Ends the request and submits it. */
void sl_request_end(void *conn, struct sl_stream *st);

/* Ends an exchange whose reply was sent, and frees it (exchange.c; through struct sl_front_cb). */
void sl_exchange_done(void *conn, struct sl_stream *st);
/* Ends an exchange that the front gives up, and frees it. */
void sl_exchange_cancel(void *conn, struct sl_stream *st);
/* Notes that the request is complete: client and quota no longer count it as being read. */
void sl_exchange_has_read(struct sl_exchange *x);
/*
 * Ends the exchange for a reason of the gateway: with its own reply, or broken off. The front is
 * notified at the end of this burst, never from within the call.
 */
SL_COLD void sl_exchange_fail(struct sl_exchange *x, enum sl_outcome why);
/*
 * Notifies fronts of what sl_exchange_fail() has ended. Called at the end of a burst; returns how
 * many.
 */
unsigned sl_exchange_notify(struct sl_core *c);

/* Returns true if the quota allows frames for another `len` bytes. */
static inline bool sl_exchange_may_store(struct sl_exchange *x, size_t len)
{
	struct sl_core *c = x->core;

	return sl_addr_quota_admits(&c->quotas, x->quota, SL_QUOTA_FRAMES,
				    (uint32_t)(len >> c->net->umem->frame_shift) + 1);
}

/* Charges the frames that the exchange holds now to its quota. */
static inline void sl_exchange_charge(struct sl_exchange *x)
{
	uint32_t now = x->head.frames + x->kept.frames + x->request.frames + x->reply.frames +
		       x->tail.frames + x->rule_values.frames;

	if (now == x->frames)
		return;
	sl_addr_quota_add_frames(&x->core->quotas, x->quota, (int32_t)(now - x->frames));
	x->frames = now;
}

/*
 * Tells the RPC how many reply bytes are kept, after that or the reply has changed. Only while
 * REPLYING.
 */
void sl_exchange_reply_kept(struct sl_exchange *x);
/* Adds to the histogram of the exchange's pool and stage. */
static inline void sl_stage_add(const struct sl_exchange *x, enum sl_stage stage, uint64_t ns)
{
	struct sl_svc_hist *h = x->hist ? &(*x->hist)[stage] : NULL;

	if (!h)
		return;
	h->count++;
	h->sum_ns += ns;
	sl_hist_add((uint64_t *)h->bucket, ns);
}

/* Returns true if the running upcall has brought bytes for it (backend.c). */
static inline bool sl_exchange_is_lent(const struct sl_exchange *x)
{
	return x->core->loan.x == x;
}

/* Copies all bytes to a store. False: no frame. */
static inline bool sl_exchange_keep(struct sl_exchange *x, struct sl_store *s, struct sl_span bytes)
{
	return sl_store_copy(s, x->core->net->umem, bytes.ptr, bytes.len) == bytes.len;
}

/*
 * Reads the head of the reply. False: there is none yet. These five are called through struct
 * sl_front_cb (reply.c).
 */
bool sl_reply_head(void *conn, struct sl_stream *st, struct sl_reply_parts *out);
/* Returns the next contiguous bytes of the body and what follows them. */
struct sl_piece sl_reply_peek(void *conn, struct sl_stream *st);
/* Consumes n bytes that sl_reply_peek() returned. */
void sl_reply_take(void *conn, struct sl_stream *st, size_t n);
/* Returns true if all of the reply is here. */
bool sl_reply_whole(void *conn, const struct sl_stream *st);
/* Reads the trailers. False: the reply is broken. */
bool sl_reply_trailers(void *conn, struct sl_stream *st, struct sl_reply_parts *out);

/* Returns what the exchange waits for now (min_rate.c). */
enum sl_client_wait sl_exchange_client_wait(const struct sl_exchange *x);
/* Starts the checks: the exchange waits for its client, or may soon. */
void sl_min_rate_join(struct sl_exchange *x);
/* Ends the checks. */
static inline void sl_min_rate_leave(struct sl_exchange *x)
{
	sl_list_del(&x->rate_node);
	sl_list_del(&x->quota_node);
}
/*
 * Checks exchanges that are due, until one is late. Returns that one or NULL; adds the number
 * checked to *looked.
 */
struct sl_exchange *sl_min_rate_check(struct sl_core *c, unsigned *looked);
/* Returns when the next check is due. */
uint64_t sl_min_rate_next_ns(const struct sl_core *c);

/*
 * Thresholds in 1/SL_FRAME_PARTS of all frames (backpressure.c). If fewer than NARROW are free,
 * bodies of heavy addresses get small windows. If fewer than PAUSE are free, they are not read.
 */
enum { SL_FRAME_PARTS = 16, SL_NARROW_PARTS = 4, SL_PAUSE_PARTS = 3 };
/* Called when bytes of the body are here. False: the front must keep them, and is called again. */
bool sl_body_may_read(struct sl_exchange *x);
/*
 * Counts bytes of the body that were taken: the window opens by them, or later if the body is
 * paused.
 */
void sl_body_was_read(struct sl_exchange *x, size_t len);
/*
 * Resumes bodies for which frames are free again. Called at the end of a burst; returns how many.
 */
unsigned sl_bodies_resume(struct sl_core *c);
/* Returns true if bodies are paused and no frames have come back for a while. */
bool sl_bodies_are_stuck(const struct sl_core *c);
/* Returns when sl_bodies_resume() or eviction is due. */
uint64_t sl_bodies_next_ns(const struct sl_core *c);

/*
 * Thresholds as 1/n of a memory pool (evict.c). If less than SHORT is left, something is ended.
 * RESERVE is kept for replies of the gateway itself.
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
/* Ends exchanges whose clients are late. Returns how many were checked. */
unsigned sl_core_end_late(struct sl_core *c);
/*
 * Ends what is needed to relieve a shortage. Called at the end of a burst; returns how many were
 * ended.
 */
unsigned sl_core_evict(struct sl_core *c);

/*
 * Writes the metadata block of a request to its first frame (meta.c). False: too large, or no
 * frame.
 */
bool sl_meta_encode(struct sl_exchange *x, const struct sl_request *rq);
/* Appends the trailers of a stream. False: too large, or no frame. */
bool sl_meta_encode_trailers(struct sl_exchange *x, const struct sl_header *fields, uint32_t cnt);

/*
 * Stores the location of a redirect in x->tail (redirect.c). Returns SL_OUTCOME_FIXED, or why there
 * is none. Called after sl_exchange_fail(), which frees x->tail.
 */
enum sl_outcome sl_redirect_encode(struct sl_exchange *x, const struct sl_request *rq);

/* Queues the request at its pool's batcher (dispatch.c). Returns OK, or why it is refused. */
enum sl_outcome sl_dispatch_submit(struct sl_exchange *x);
/*
 * Sends a batch, or the head of a stream, to a backend (struct sl_batch_ops.send). Returns 0 or
 * -errno.
 */
int sl_dispatch_send(void *pool, unsigned backend, struct sl_batch_item **items, unsigned cnt);

/* Frees the request's frames, at once or when the transport has read them (sent_batch.c). */
void sl_sent_batch_release_request(struct sl_exchange *x);
/* Frees a stream's head and kept bytes in the same way: the stream cannot be sent again. */
void sl_sent_batch_release_head_now(struct sl_exchange *x);
/* Frees the request's frames if there are any. */
static inline void sl_sent_batch_release(struct sl_exchange *x)
{
	if (x->request.head || x->buf_ref)
		sl_sent_batch_release_request(x);
}
/* Frees a stream's head if there is one. */
static inline void sl_sent_batch_release_head(struct sl_exchange *x)
{
	if (x->head.head)
		sl_sent_batch_release_head_now(x);
}

/* Returns true for a stream with a rate limit (stream_limits.c). */
static inline bool sl_stream_rate_is_limited(const struct sl_exchange *x)
{
	return x->stream.open_ended && x->route->max_rate;
}
/*
 * Returns how much of `want` may move now. If that is less, sets x->rate[side].due_ns and the
 * timer.
 */
size_t sl_stream_rate_grant(struct sl_exchange *x, enum sl_rate side, size_t want);
/* Returns how much of `want` may move now; all of it without a limit. */
static inline size_t sl_stream_rate_allowed(struct sl_exchange *x, enum sl_rate side, size_t want)
{
	return sl_stream_rate_is_limited(x) ? sl_stream_rate_grant(x, side, want) : want;
}
/* Takes n bytes from the bucket. */
void sl_stream_rate_charge(struct sl_exchange *x, enum sl_rate side, size_t n);
/* Takes n bytes from the bucket, if there is one. */
static inline void sl_stream_rate_take(struct sl_exchange *x, enum sl_rate side, size_t n)
{
	if (sl_stream_rate_is_limited(x))
		sl_stream_rate_charge(x, side, n);
}
/*
 * Returns true if less than half of the bucket is left: the stream waits for its rate, not for
 * client or backend.
 */
bool sl_stream_rate_waits(const struct sl_exchange *x, enum sl_rate side);
/* Returns true, once, when the wait for the bucket of this side is over. */
bool sl_stream_rate_resumes(struct sl_exchange *x, enum sl_rate side);
/* Returns why the stream must end now, or OK. */
enum sl_outcome sl_stream_limits_over(const struct sl_exchange *x);
/* Sets the stream's timer to whatever is due first. */
void sl_stream_limits_arm(struct sl_exchange *x);

/*
 * Begins a stream: sends it, or lets it wait for a backend (stream.c). Returns OK, or why it is
 * refused.
 */
enum sl_outcome sl_stream_open(struct sl_exchange *x);
/* Returns true if the stream can be sent to another backend: all that was sent is still here. */
bool sl_stream_can_retry(struct sl_exchange *x);
/* Lets the stream wait for a backend, with what was sent in front. */
void sl_stream_requeue(struct sl_exchange *x);
/* Begins a message of len bytes. False: no frame. */
bool sl_stream_message(struct sl_exchange *x, uint32_t len, bool compressed);
/* Returns true if no more is taken before something was sent. */
bool sl_stream_is_full(const struct sl_exchange *x);
/* Takes a chunk of the body. False: no frame. */
bool sl_stream_take(struct sl_exchange *x, struct sl_chunk *chunk);
/* Sends what the backend has granted credit for, and the end. */
void sl_stream_pump(struct sl_exchange *x);
/* Counts a part of the reply. */
void sl_stream_on_reply(struct sl_exchange *x, const struct sl_rpc_reply *r);
/*
 * Decides on an upgrade by the head of the reply: 101 starts it, any other status ends the request.
 */
void sl_stream_on_reply_head(struct sl_exchange *x, struct sl_reply *r);
/*
 * Called when the stream's timer fires: ends it, resumes it or sets the timer again. May free it.
 */
void sl_stream_on_timer(struct sl_exchange *x);
/* The backend has granted credit (struct sl_rpc_ops). */
void sl_stream_on_credit(void *app, void *cookie);
/* The backend wants the body: 100 (Continue) may be sent (struct sl_rpc_ops). */
void sl_stream_on_continue(void *app, void *cookie);
/*
 * Resumes streams for which the RPC had no room. Called at the end of a burst; returns how many
 * have room now.
 */
unsigned sl_streams_retry(struct sl_core *c);
/* Sends streams that wait for a backend of this pool. Returns how many left the queue. */
unsigned sl_streams_start_waiting(struct sl_pool *g);

#endif
