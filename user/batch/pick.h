/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Choice of a backend for a request without batch: a stream, or of a direct pool. The least
 * predicted completion wins (Finagle's "peak EWMA", README.md).
 *
 * A backend that gets nothing because it was slow is tried now and then. It is silent if requests
 * wait and none was answered for pool.progress, and for 8 times its usual time. It gets one new
 * request per pool.progress then.
 */
#ifndef SL_BATCH_PICK_H
#define SL_BATCH_PICK_H

#include "batch/batcher.h"

enum { SL_PICK_NONE = UINT16_MAX };

struct sl_pick_state {
	double time_ns;    /* usual, to the head of a reply; 0: unknown */
	uint32_t samples;  /* up to as many as it takes to know the time */
	uint32_t open;     /* streams, until they end */
	uint32_t waiting;  /* of these: sent whole, without a reply */
	uint64_t heard_ns; /* last reply, or begin of the wait */
	uint64_t try_ns;   /* it is tried, however slow it was */
	uint64_t probe_ns; /* silent: it may get one more request */
	bool tried;        /* the next sample is of a try */
	bool silent;       /* as reported */
};

/*
 * Returns a backend for a stream, SL_PICK_NONE if none is up. `tunnel`: it has no time, so the
 * number of streams decides.
 */
unsigned sl_pick_for_stream(struct sl_batcher *b, const struct sl_batch_item *item, bool tunnel,
			    uint64_t now_ns);
/* Counts a sent stream head; sl_pick_stream_done() must follow. */
void sl_pick_stream_sent(struct sl_batcher *b, unsigned backend);
/* Counts a stream sent whole; sl_pick_stream_waited() must follow. */
void sl_pick_stream_waits(struct sl_batcher *b, unsigned backend, uint64_t now_ns);
/* Ends the wait. If answered, call sl_pick_answered() before. */
void sl_pick_stream_waited(struct sl_batcher *b, unsigned backend);
/* Ends the stream at the backend. */
void sl_pick_stream_done(struct sl_batcher *b, unsigned backend);
/* Returns how many streams the backend has. */
uint32_t sl_pick_streams(const struct sl_batcher *b, unsigned backend);
/*
 * Called when a reply has begun. took_ns: since the request was sent whole; 0: says nothing about
 * the time.
 */
void sl_pick_answered(struct sl_batcher *b, unsigned backend, uint64_t took_ns, uint64_t now_ns);
/* Notes that a request ended without a reply after that time. */
void sl_pick_unanswered(struct sl_batcher *b, unsigned backend, uint64_t waited_ns,
			uint64_t now_ns);

#endif
