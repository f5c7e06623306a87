/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Inside of the SDK.
 *
 *   poll thread:  channels -> requests (private copies) -> queue -> batch -> handler
 *   any thread:   sl_reply -> [hand-over stack, if not the poll thread] -> channel's replies
 *   poll thread:  replies -> one RESPONSE message per channel and class -> link
 *
 * Everything belongs to the poll thread, except: a request that a handler has, until it is replied
 * to; the hand-over stack; and the atomics `gone` and `sleeping`. A channel outlives its link while
 * handlers still have requests of it.
 */
#ifndef SL_BACKEND_INTERNAL_H
#define SL_BACKEND_INTERNAL_H

#include <stdatomic.h>
#include "base/cpu.h"
#include "rpc/link.h"
#include "sluice/backend.h"

enum {
	SL_BE_LISTENERS_MAX = 4,
	SL_BE_CHANNELS_MAX = 256,
	SL_BE_OPEN_MAX = 4096,          /* requests of one channel */
	SL_BE_BUCKETS = 1024,           /* of a channel's table of requests by id */
	SL_BE_RESPONSE_MAX = 256 << 10, /* bytes of one RESPONSE of several replies */
};
#define SL_BE_CHANNEL_MEM ((size_t)256 << 20) /* requests of one channel */
#define SL_BE_REQUEST_MEM ((size_t)1 << 30)
#define SL_BE_REPLY_MEM   ((size_t)512 << 20) /* and as much again for other threads' replies */

struct request;

struct reply {
	struct reply *next;
	struct request *rq;
	struct sl_rpc_entry entry;
	enum { REPLY_POOLED, REPLY_MALLOC, REPLY_EMBEDDED } where;
	bool discard; /* nobody waits: only ends the request */
	uint8_t priority;
	uint64_t begun_ns;
};

/* Behind it: metadata, payload, each padded to 8. */
static inline uint8_t *reply_bytes(struct reply *rp)
{
	return (uint8_t *)(rp + 1);
}

enum request_state { REQUEST_ARRIVING, REQUEST_QUEUED, REQUEST_HANDLED };

struct request {
	struct sl_request_view view; /* first: what the handler has */
	struct sl_list node;         /* of the channel's open ones */
	struct sl_list queue;        /* of the backend's queue */
	struct request *hash_next;
	struct channel *channel;
	uint64_t id, deadline_ns; /* UINT64_MAX none */
	uint64_t begun_ns;
	size_t filled, size; /* of the body; what it counts for */
	enum request_state state;
	_Atomic bool gone;    /* nobody waits */
	struct reply closing; /* for short answers: needs no memory */
	uint8_t bytes[];      /* metadata, then the body from a multiple of 16 */
};

struct channel {
	struct sl_list node;
	struct sl_backend *b;
	bool up, peer_goaway;
	struct sl_link link;
	struct sl_list open;
	uint32_t open_cnt;
	size_t mem_used;
	struct reply *replies, **replies_end; /* to be packed */
	uint64_t pinged_ns;                   /* last PING */
	uint32_t pings;                       /* since the gateway was heard */
	struct request *bucket[SL_BE_BUCKETS];
};

struct sl_backend {
	struct sl_backend_options opt;
	struct sl_rpc_listener *listeners[SL_BE_LISTENERS_MAX];
	unsigned listener_cnt;
	struct sl_list channels, queue;
	uint32_t channel_cnt, open_cnt, queue_cnt;
	struct sl_mem request_mem, reply_mem;
	struct sl_reader_scratch scratch;
	struct sl_batch batch;
	struct sl_backend_stats stats;
	uint64_t hash_key, now_ns, tick_ns, active_ns, flushed_ns, flush_gap_ns;
	int epoll_fd, wake_fd;
	_Atomic bool stop;
	/* written by other threads */
	_Atomic(struct reply *) handed SL_ALIGNED(SL_CACHELINE);
	_Atomic size_t foreign_used;
	_Atomic bool sleeping;
};

/* channel.c */
bool sl_be_channel_add(struct sl_backend *b, struct sl_transport *t);
void sl_be_channel_close(struct channel *ch);
/* Every millisecond or so: is the gateway still there? */
void sl_be_channel_tick(struct channel *ch, uint64_t now_ns);
/* Frees it once it is closed and no handler has a request of it. */
bool sl_be_channel_reap(struct channel *ch);
struct request *sl_be_find(const struct channel *ch, uint64_t id);

/* request.c */
struct request *sl_be_request_new(struct channel *ch, const struct sl_part *part);
bool sl_be_request_parse(struct request *rq, const struct sl_part *part);
void sl_be_request_free(struct request *rq);
/* Answers without payload, by the poll thread. */
void sl_be_request_close(struct request *rq, enum sl_rpc_status status);

/* reply.c */
/* A request that could not be taken: 0 or -ENOMEM. */
int sl_be_refuse(struct channel *ch, const struct sl_part *part, enum sl_rpc_status status);
void sl_be_replies_take(struct sl_backend *b);
void sl_be_replies_pack(struct channel *ch);
void sl_be_replies_sent(struct sl_backend *b, struct sl_send *s);
void sl_be_reply_free(struct sl_backend *b, struct reply *rp);

/* batch.c: one batch of what is queued; how many requests. */
unsigned sl_be_batch_run(struct sl_backend *b);
void sl_be_flush(struct sl_backend *b);

/* The backend whose poll this thread is in. */
extern _Thread_local struct sl_backend *sl_be_polling;

#endif
