/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An exchange: one request from its first byte to the last byte of its reply, with a time stamp per
 * stage. One state, and what may follow it:
 *
 *   READING --submit--> QUEUED --send--> FLIGHT --reply--> REPLYING --last part--> WHOLE --> done
 *      |  ^-------------- lost ------------|                  |
 *      |                  |                |                  |
 *      +------------------+----------------+------------------+-- failed --> WHOLE, the gateway's own
 *                                                                            reply; BROKEN, if the
 *                                                                            front has begun another
 *
 * Whether more of the request is to come is a fact of its own (`open`). Where requests are read
 * whole, the last of them ends READING. On a route that streams (stream.c), an exchange is sent at its
 * begin, past the queue (QUEUED: as soon as a backend is up), and goes through all states while it is
 * open: what comes follows it in parts, and what comes when the reply is WHOLE is refused. It is never
 * sent twice.
 *
 * Who has what. The stream (first member) is the front's between begin and done or cancel; `item` is
 * the batcher's, or a stream's group's, while QUEUED; the cookie is the RPC's while FLIGHT and REPLYING. Request and reply
 * are kept in HELD frames that the exchange owns, each list with its metadata block in front.
 *
 * The reply has one way, and is pulled along it:
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
	SL_EX_IN_FLIGHT, /* with a backend; nothing has come */
	SL_EX_REPLYING,  /* with a backend; a reply comes in */
	SL_EX_WHOLE,     /* all of the reply is here */
	SL_EX_BROKEN,    /* it failed when its head was on its way to the client */
};

/* Bytes in frames, in order. */
struct sl_store {
	struct sl_frame *head, *tail;
	uint64_t len; /* not yet taken */
	uint32_t off; /* taken of the head frame */
	uint32_t frames;
};

/* Whose turn it is to move its bytes: the client's, or not. */
enum sl_client_wait {
	SL_WAIT_NONE,
	SL_WAIT_QUEUED,  /* to take a reply, behind others */
	SL_WAIT_BODY,    /* to send the rest of the request */
	SL_WAIT_REPLY,   /* to take what is there of the reply */
	SL_WAIT_BACKEND, /* not the client's: a stream's backend is to take what is there for it */
};

/* The direction of a stream, with a bucket of its own. */
enum sl_rate { SL_RATE_IN, SL_RATE_OUT, SL_RATE_CNT };

struct sl_exchange {
	struct sl_stream stream;
	struct sl_batch_item item;
	struct sl_core *core;
	struct sl_worker_cfg *wcfg;       /* that it began under, referenced */
	struct sl_client *client;         /* whose front has the stream */
	struct sl_addr_quota *quota;      /* of the client */
	const struct sl_cfg_route *route; /* NULL: none matches */
	struct sl_pool *pool;             /* referenced */
	struct sl_svc_hist **hist;        /* of the group: [SL_STAGE_CNT] */
	struct sl_backend_ref *backend;   /* that it was sent to last, referenced */
	struct sl_timer late; /* in core->late, while READING with a deadline; of streams */
	struct sl_store head; /* of a stream, until a backend answers; the rest is `request` */
	struct sl_store kept; /* of a stream: the begin of its body, which was sent */
	struct sl_store request;
	struct sl_event *note;      /* for its record; NULL: nobody reads those */
	struct sl_buf_ref *buf_ref; /* flights before the last one still read the request */
	struct sl_store reply; /* what the front has left: the block of its head, then its body */
	struct sl_store tail;  /* the block that says how it ends, if that is another one */
	struct sl_store rule_values; /* what rules of the reply say of the request (rules.c) */
	uint64_t reply_len;          /* of the body, as the front will pull it; SL_LEN_UNKNOWN */
	uint64_t body_len;           /* of the request, so far */
	uint64_t body_max;
	uint64_t rpc_id;
	uint64_t batch; /* that it was sent in; with send_ns */
	uint64_t deadline_ns;
	uint64_t first_ns, take_ns, parse_ns, send_ns, reply_ns; /* stage stamps */
	uint32_t service_us;                                     /* that the backend took */
	uint32_t allowed;       /* methods that a 405 names, bit per enum sl_method */
	uint32_t text_taken;    /* of the gateway's own reply */
	uint32_t taken;         /* bytes of the reply, by the front */
	uint32_t given;         /* of a stream's body, to its backend */
	uint64_t active_ns;     /* a stream's: its last part in either direction */
	uint64_t reply_part_ns; /* and of its reply */
	struct {
		uint64_t full_ns; /* when it may move as much as ever again */
		uint64_t due_ns;  /* when what waits for that goes on; 0: nothing does */
	} rate[SL_RATE_CNT];
	uint32_t part_left;    /* of a stream's message that was sent in pieces */
	uint32_t again;        /* bytes at the begin of a stream's body that are sent once more */
	uint32_t message_left; /* of the one that its front is giving */
	struct sl_list rate_node,
		quota_node; /* in core->min_rate_list and its account's, while in min_rate.c's care */
	uint64_t check_ns, due_ns; /* when it is looked at; when its client is late */
	uint32_t withheld; /* of a stream's window: bytes that have come while its body was held */
	uint32_t moved, pace; /* bytes at the last look; since the one before it, at first many */
	uint32_t frames;      /* of request and replies, as its account counts them */
	uint16_t head_len;    /* of the block in front of `reply` */
	uint16_t request_meta_len;
	uint16_t trailers_len; /* of a stream's: the end of `request` */
	uint8_t state;         /* enum sl_exchange_state */
	uint8_t wait;          /* enum sl_client_wait, at the last look */
	uint8_t repeats;       /* retries of what a backend may have begun, or refused while up */
	uint16_t retries;      /* all */
	uint8_t rpc_class;     /* enum sl_rpc_class */
	uint8_t outcome; /* enum sl_outcome; all but OK: the gateway's own reply, or why BROKEN */
	bool idempotent;
	bool open;            /* more of the request is to come */
	bool end_sent;        /* of a stream */
	bool trusted;         /* it counts in core->trusted */
	bool reading;         /* its account counts it so */
	bool in_parts;        /* the reply is several messages */
	uint8_t upgrade;      /* index in the route's, if stream.upgrade */
	bool part_compressed; /* the message that was sent in pieces is */
	bool decided;         /* the reply has said whether it goes on so */
};

/* What it would go on as. */
static inline struct sl_span sl_exchange_upgrade(const struct sl_exchange *x)
{
	return sl_span_cstr(x->route->upgrades[x->upgrade]);
}

/* The RPC has it as a cookie. */
static inline bool sl_exchange_in_flight(const struct sl_exchange *x)
{
	return x->state == SL_EX_IN_FLIGHT || x->state == SL_EX_REPLYING;
}

/* A stream that its backend has, or that waits for one. */
static inline bool sl_exchange_waits_for_backend(const struct sl_exchange *x)
{
	return x->stream.open_ended && (sl_exchange_in_flight(x) || x->state == SL_EX_QUEUED);
}

/* Its client is to send more of it, before it can go on. */
static inline bool sl_exchange_reads(const struct sl_exchange *x)
{
	return x->open && !x->stream.open_ended;
}

/* Its bytes are not read for now, for want of frames (backpressure.c). */
static inline bool sl_exchange_is_paused(const struct sl_exchange *x)
{
	return x->state == SL_EX_READING && sl_exchange_reads(x) && !x->stream.refused &&
	       !sl_list_empty(&x->item.link);
}

/* store.c */
/* Appends, copying or taking the chunk's frame; returns bytes stored (fewer: frames exhausted). */
size_t sl_store_append(struct sl_store *s, struct sl_umem *u, struct sl_chunk *chunk);
size_t sl_store_copy(struct sl_store *s, struct sl_umem *u, const void *bytes, size_t len);
/* Contiguous bytes from `off` on, which lies in one of the first frames; empty at the end. */
struct sl_span sl_store_span(const struct sl_store *s, size_t off);
static inline struct sl_span sl_store_at(const struct sl_store *s, size_t off)
{
	return off < s->len ? sl_store_span(s, off) : sl_span_of(NULL, 0);
}
/* Copies the first len bytes, which stay; there must be as many. */
void sl_store_read(const struct sl_store *s, void *to, size_t len);
void sl_store_skip(struct sl_store *s, struct sl_umem *u, size_t len);
static inline void sl_store_free(struct sl_store *s, struct sl_umem *u)
{
	if (!s->head)
		return;
	sl_frame_put_list(u, s->head);
	*s = (struct sl_store){0};
}
/* Moves all of `from` behind what `s` holds. */
void sl_store_splice(struct sl_store *s, struct sl_store *from);
/* All bytes as spans; returns how many, or 0 when there are more than max. */
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

/* request.c: as its front pushes it, as in struct sl_front_cb; the host is the client. */
struct sl_stream *sl_request_begin(void *conn, const struct sl_request *rq);
size_t sl_request_body(void *conn, struct sl_stream *st, struct sl_chunk *chunk);
bool sl_request_message(void *conn, struct sl_stream *st, uint32_t len, bool compressed);
void sl_request_trailers(void *conn, struct sl_stream *st, const struct sl_header *fields,
			 uint32_t cnt);
void sl_request_end(void *conn, struct sl_stream *st);

/* exchange.c: of struct sl_front_cb too. */
void sl_exchange_done(void *conn, struct sl_stream *st);
void sl_exchange_cancel(void *conn, struct sl_stream *st);
/* Its request is whole: neither client nor account count it any more as one that is read. */
void sl_exchange_has_read(struct sl_exchange *x);
/*
 * It ends for a reason of the gateway's: with its own reply, or broken off. Its front hears of it at
 * the end of this burst, never from within the call.
 */
SL_COLD void sl_exchange_fail(struct sl_exchange *x, enum sl_outcome why);
/* The end of a burst: tells fronts of what sl_exchange_fail() has put off; returns how many. */
unsigned sl_exchange_notify(struct sl_core *c);

/* Whether its account may have what another `len` bytes take. */
static inline bool sl_exchange_may_store(struct sl_exchange *x, size_t len)
{
	struct sl_core *c = x->core;

	return sl_addr_quota_admits(&c->quotas, x->quota, SL_QUOTA_FRAMES,
				    (uint32_t)(len >> c->net->umem->frame_shift) + 1);
}

/* Its account learns what it holds now. */
static inline void sl_exchange_charge(struct sl_exchange *x)
{
	uint32_t now = x->head.frames + x->kept.frames + x->request.frames + x->reply.frames +
		       x->tail.frames + x->rule_values.frames;

	if (now == x->frames)
		return;
	sl_addr_quota_add_frames(&x->core->quotas, x->quota, (int32_t)(now - x->frames));
	x->frames = now;
}

/* While REPLYING: how much of the reply is kept has changed, or more of it has come. */
void sl_exchange_reply_kept(struct sl_exchange *x);
/* Adds to the histogram of the exchange's group and stage. */
static inline void sl_stage_add(const struct sl_exchange *x, enum sl_stage stage, uint64_t ns)
{
	struct sl_svc_hist *h = x->hist ? &(*x->hist)[stage] : NULL;

	if (!h)
		return;
	h->count++;
	h->sum_ns += ns;
	sl_hist_add((uint64_t *)h->bucket, ns);
}

/* The upcall that is on the stack has brought bytes for it (backend.c). */
static inline bool sl_exchange_is_lent(const struct sl_exchange *x)
{
	return x->core->loan.x == x;
}

/* All of them, or false: no frame. */
static inline bool sl_exchange_keep(struct sl_exchange *x, struct sl_store *s, struct sl_span bytes)
{
	return sl_store_copy(s, x->core->net->umem, bytes.ptr, bytes.len) == bytes.len;
}

/* reply.c: as its front pulls it, as in struct sl_front_cb. */
bool sl_reply_head(void *conn, struct sl_stream *st, struct sl_reply_parts *out);
struct sl_piece sl_reply_peek(void *conn, struct sl_stream *st);
void sl_reply_take(void *conn, struct sl_stream *st, size_t n);
bool sl_reply_whole(void *conn, const struct sl_stream *st);
bool sl_reply_trailers(void *conn, struct sl_stream *st, struct sl_reply_parts *out);

/* min_rate.c: clients that are too slow */
enum sl_client_wait sl_exchange_client_wait(const struct sl_exchange *x);
/* It is or may become the client's turn. */
void sl_min_rate_join(struct sl_exchange *x);
static inline void sl_min_rate_leave(struct sl_exchange *x)
{
	sl_list_del(&x->rate_node);
	sl_list_del(&x->quota_node);
}
/* Looks at those that are due to be, until one is late: that one, or NULL. Counts in *looked. */
struct sl_exchange *sl_min_rate_check(struct sl_core *c, unsigned *looked);
uint64_t sl_min_rate_next_ns(const struct sl_core *c);

/*
 * backpressure.c: parts of all frames. With less than NARROW left heavy bodies get small windows, with less
 * than HOLD they are not read.
 */
enum { SL_FRAME_PARTS = 16, SL_NARROW_PARTS = 4, SL_PAUSE_PARTS = 3 };
/* Bytes of its body are here. False: they are to stay where they are, and are asked for later. */
bool sl_body_may_read(struct sl_exchange *x);
/* They were taken: its window opens by them, or does not yet. */
void sl_body_was_read(struct sl_exchange *x, size_t len);
/* The end of a burst: those for which there are frames again; returns how many. */
unsigned sl_bodies_resume(struct sl_core *c);
/* They wait, and nobody else gives frames back. */
bool sl_bodies_are_stuck(const struct sl_core *c);
uint64_t sl_bodies_next_ns(const struct sl_core *c);

/*
 * evict.c: parts of a pool, as 1/n. With less than SHORT left something gives way; the RESERVE is for
 * what the gateway answers itself.
 */
enum {
	SL_SHORT_FRAMES = 8,
	SL_SHORT_EXCHANGES = 16,
	SL_SHORT_CLIENTS = 16,
	SL_SHORT_HEADS = 8,
	SL_RESERVE_EXCHANGES = 64,
};
static inline bool sl_core_has_exchange(const struct sl_core *c, bool for_backend)
{
	uint32_t cap = sl_mempool_capacity(&c->exchanges);

	return cap - sl_mempool_used(&c->exchanges) >
	       (for_backend ? cap / SL_RESERVE_EXCHANGES : 0);
}
/* Ends those whose clients are late; returns how many were looked at. */
unsigned sl_core_end_late(struct sl_core *c);
/* The end of a burst; returns how many were ended. */
unsigned sl_core_evict(struct sl_core *c);

/* meta.c: the metadata block of a request, into its first frame; false: too large or no frame. */
bool sl_meta_encode(struct sl_exchange *x, const struct sl_request *rq);
/* Of a stream's end, behind what there is of it; false likewise. */
bool sl_meta_encode_trailers(struct sl_exchange *x, const struct sl_header *fields, uint32_t cnt);

/*
 * redirect.c: where a redirect leads, for as long as its reply takes; FIXED, or why there is none.
 * After sl_exchange_fail(), which forgets it.
 */
enum sl_outcome sl_redirect_encode(struct sl_exchange *x, const struct sl_request *rq);

/* dispatch.c */
enum sl_outcome sl_dispatch_submit(struct sl_exchange *x);
/* As struct sl_batch_ops.send of a group; of streams too. 0 or -errno. */
int sl_dispatch_send(void *pool, unsigned backend, struct sl_batch_item **items, unsigned cnt);

/* sent_batch.c: frees the request's frames, at once or when the transport has read them. */
void sl_sent_batch_release_request(struct sl_exchange *x);
/* The same of a stream's head, and of what is kept beside it: it cannot go again. */
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

/* stream_limits.c: time and rate of streams; other exchanges have none. */
static inline bool sl_stream_rate_is_limited(const struct sl_exchange *x)
{
	return x->stream.open_ended && x->route->max_rate;
}
/*
 * How much of `want` may move now, of other exchanges all; if that
 * is less, x->rate[side].due_ns is set.
 */
size_t sl_stream_rate_grant(struct sl_exchange *x, enum sl_rate side, size_t want);
static inline size_t sl_stream_rate_allowed(struct sl_exchange *x, enum sl_rate side, size_t want)
{
	return sl_stream_rate_is_limited(x) ? sl_stream_rate_grant(x, side, want) : want;
}
/* So much has moved. */
void sl_stream_rate_charge(struct sl_exchange *x, enum sl_rate side, size_t n);
static inline void sl_stream_rate_take(struct sl_exchange *x, enum sl_rate side, size_t n)
{
	if (sl_stream_rate_is_limited(x))
		sl_stream_rate_charge(x, side, n);
}
/* It has used up what may move at once: nobody else has to move anything now. */
bool sl_stream_rate_waits(const struct sl_exchange *x, enum sl_rate side);
/* What has waited on this side is due: it goes on. */
bool sl_stream_rate_resumes(struct sl_exchange *x, enum sl_rate side);
/* Why it has to end now; OK: it has not. */
enum sl_outcome sl_stream_limits_over(const struct sl_exchange *x);
/* Sets its timer for whatever is due first. */
void sl_stream_limits_arm(struct sl_exchange *x);

/* stream.c: requests that are passed on as they come */
enum sl_outcome sl_stream_open(struct sl_exchange *x);
/* A stream of which nothing has been answered, and no part sent, goes to a backend once more. */
bool sl_stream_can_retry(struct sl_exchange *x);
void sl_stream_requeue(struct sl_exchange *x);
/* A message of so many bytes begins; false: no frame. */
bool sl_stream_message(struct sl_exchange *x, uint32_t len, bool compressed);
/* Nothing more is taken before something was passed on. */
bool sl_stream_is_full(const struct sl_exchange *x);
/* False: no frame. */
bool sl_stream_take(struct sl_exchange *x, struct sl_chunk *chunk);
/* Sends what there is credit for, and the end. */
void sl_stream_pump(struct sl_exchange *x);
/* A piece of its reply has come. */
void sl_stream_on_reply(struct sl_exchange *x, const struct sl_rpc_reply *r);
/* How the reply begins to one that may go on in another protocol: it does so now, or is over. */
void sl_stream_on_reply_head(struct sl_exchange *x, struct sl_reply *r);
/* Its timer: it has had its time, or has not; or it may go on. It may be gone afterwards. */
void sl_stream_on_timer(struct sl_exchange *x);
/* Of sl_rpc_ops. */
void sl_stream_on_credit(void *app, void *cookie);
void sl_stream_on_continue(void *app, void *cookie);
/* The end of a burst: some of those for which the RPC had no room; returns how many it has now. */
unsigned sl_streams_retry(struct sl_core *c);
/* The same of those that wait for a backend of this group. */
unsigned sl_streams_start_waiting(struct sl_pool *g);

#endif
