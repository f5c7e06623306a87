/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An exchange: one request from its first byte to the last byte of its reply, with a time stamp per
 * stage. States and owners:
 *
 *   READING --end--> QUEUED --send--> FLIGHT --reply--> REPLYING --> (freed)
 *      |                |  ^------------|  backend lost, may be repeated
 *      +----- error reply at any point: REPLYING, without a backend
 *
 * The stream (first member) is the front's between begin and done/cancel; `item` is the batcher's
 * while QUEUED; the cookie is the RPC's while FLIGHT. Request and stored reply are lists of HELD
 * frames that the exchange owns: metadata block first (in the first frame), then the payload.
 */
#ifndef SL_CORE_EXCHANGE_H
#define SL_CORE_EXCHANGE_H

#include "core/core.h"
#include "sluice/datagram.h"

struct sl_client;
struct sl_dgram_request;

enum sl_exchange_state {
	SL_EX_READING,
	SL_EX_QUEUED,
	SL_EX_FLIGHT,
	SL_EX_REPLYING,
};

/* Bytes in frames, in order. */
struct sl_store {
	struct sl_frame *head, *tail;
	uint64_t len; /* not yet taken */
	uint32_t off; /* taken of the head frame */
	uint32_t frames;
};

struct sl_exchange {
	struct sl_stream stream;
	struct sl_batch_item item;
	struct sl_core *core;
	struct sl_generation *gen; /* that it began under */
	struct sl_client *client;  /* NULL: a datagram, or the client has gone */
	const struct sl_cfg_route *route;
	struct sl_service *service;
	struct sl_store request;
	struct sl_store reply; /* waiting for the front: metadata block (if unsent), then body */
	uint64_t rpc_id;
	uint64_t batch; /* that it was sent in; with send_ns */
	uint64_t deadline_ns;
	uint64_t first_ns, take_ns, parse_ns, send_ns, reply_ns; /* stage stamps */
	uint32_t reply_meta_len; /* > 0: head of the stored reply is a metadata block */
	uint64_t reply_total;    /* body length of the reply, SL_LEN_UNKNOWN */
	uint32_t service_us;
	uint16_t request_meta_len;
	uint8_t state;   /* enum sl_exchange_state */
	uint8_t backend; /* index in the pool while FLIGHT */
	uint8_t retries;
	uint8_t rpc_class; /* enum sl_rpc_class */
	uint8_t outcome;   /* enum sl_outcome */
	bool in_flight;    /* the RPC holds it as a cookie */
	bool idempotent;
	bool reply_started;  /* head given to the front */
	bool reply_complete; /* last byte arrived from the backend */
	bool reply_pending;  /* store holds something the front has to take */
	bool request_ended;
	bool end_sent;                  /* the front has been told the reply's end */
	bool busy;                      /* inside a call of the front: freed when that returns */
	bool over;                      /* done or cancelled while busy */
	struct sl_dgram_request *dgram; /* where the reply goes when there is no client */
};

/* store.c */
/* Appends, copying or taking the chunk's frame; returns bytes stored (fewer: frames exhausted). */
size_t sl_store_append(struct sl_store *s, struct sl_umem *u, struct sl_chunk *chunk);
size_t sl_store_copy(struct sl_store *s, struct sl_umem *u, const void *bytes, size_t len);
/* Next contiguous bytes; empty span at the end. */
struct sl_span sl_store_peek(const struct sl_store *s);
void sl_store_skip(struct sl_store *s, struct sl_umem *u, size_t len);
void sl_store_free(struct sl_store *s, struct sl_umem *u);
/* Moves all of `from` behind what `s` holds. */
void sl_store_splice(struct sl_store *s, struct sl_store *from);
/* All bytes as spans; returns how many, or 0 when there are more than max. */
uint32_t sl_store_spans(const struct sl_store *s, struct sl_span *spans, uint32_t max);

/* exchange.c */
/* route NULL: none matches. Returns NULL when exchanges are exhausted. */
struct sl_exchange *sl_exchange_begin(struct sl_core *c, struct sl_client *cl,
				      const struct sl_cfg_route *route, uint32_t fair_addr,
				      const struct sl_request *rq);
size_t sl_exchange_body(struct sl_exchange *x, struct sl_chunk *chunk);
void sl_exchange_end(struct sl_exchange *x);
/* The front has finished with it. */
void sl_exchange_done(struct sl_exchange *x);
/* Nobody wants the reply. */
void sl_exchange_cancel(struct sl_exchange *x);
/*
 * Ends it with the gateway's own reply for `why`, at the end of this burst: never from within a
 * call of a front, so fronts need not be re-entrant.
 */
void sl_exchange_fail(struct sl_exchange *x, enum sl_outcome why);
/* The front can take more of the reply, or it is its turn: pushed at the end of this burst. */
void sl_exchange_resume(struct sl_exchange *x);
/* Frees it unless a front's call is on the stack. */
void sl_exchange_free(struct sl_exchange *x);
/* Sends the replies that sl_exchange_fail() has put off; returns how many. */
unsigned sl_exchange_run_deferred(struct sl_core *c);
/* Bookkeeping around calls of the front that may end the exchange; leave: false when it is gone. */
static inline void sl_exchange_enter(struct sl_exchange *x)
{
	x->busy = true;
}
bool sl_exchange_leave(struct sl_exchange *x);

/* reply.c */
struct sl_reply_parts {
	struct sl_reply reply;
	struct sl_header headers[64];
	struct sl_header trailers[32];
};
/* Decodes a backend's metadata block; false if it is malformed. */
bool sl_reply_decode(struct sl_span meta, struct sl_reply_parts *out);
/* A part of a backend's reply. */
void sl_reply_from_backend(struct sl_exchange *x, const struct sl_rpc_reply *r);
/* The reply broke off before its end. */
void sl_reply_broken(struct sl_exchange *x, enum sl_outcome why);
/* Hands the front what it can take now: all of the gateway's replies start here. */
void sl_reply_push(struct sl_exchange *x);

/* meta.c: the metadata block of a request, into its first frame; false: too large or no frame. */
bool sl_meta_encode(struct sl_exchange *x, const struct sl_request *rq);

/* route.c */
/* The most specific prefix decides; if none of its routes has the method: one of them. */
const struct sl_cfg_route *sl_route_find(const struct sl_config *cfg, struct sl_span path,
					 enum sl_method m);
static inline bool sl_route_allows(const struct sl_cfg_route *r, enum sl_method m)
{
	return !r->methods || (r->methods & 1u << m);
}

/* service.c */
enum sl_outcome sl_service_submit(struct sl_exchange *x);
/* Frees the request's frames, at once or when the transport has read them. */
void sl_service_release(struct sl_exchange *x);
void sl_service_forget(struct sl_exchange *x); /* cancel: out of queue or flight */

/* client.c */
const struct sl_front_ops *sl_client_front(struct sl_client *cl, void **state);
void sl_client_stream_opened(struct sl_client *cl);
void sl_client_stream_closed(struct sl_client *cl);
void sl_client_progress(struct sl_client *cl); /* bytes of a reply left, or room for input came */

/* dgram.c */
int sl_dgram_init(struct sl_core *c);
void sl_dgram_fini(struct sl_core *c);
/* Answers; false: not before all of the reply has come, which is kept until then. */
bool sl_dgram_reply(struct sl_exchange *x, const struct sl_reply *r);
/* What a datagram's status is when the gateway answers itself. */
enum sl_datagram_status sl_dgram_status(enum sl_outcome why);

/* Adds to the histogram of the exchange's service and stage. */
void sl_stage_add(struct sl_core *c, const struct sl_exchange *x, enum sl_stage stage, uint64_t ns);

#endif
