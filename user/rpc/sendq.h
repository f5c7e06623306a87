/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Send queue of one channel: chooses the message whose next slice is posted. No I/O.
 *
 *   control            strict: before everything else
 *   latency, normal,   deficit round robin by bytes, 8 : 4 : 1; inside a class the earliest
 *   bulk               deadline first, then order of arrival, those without one last
 *
 * Posted bytes cannot be overtaken. While a more urgent class is active, they are capped at what
 * the link moves in SL_SENDQ_CAP_NS. A slice is a quarter of that, but at least slice_min.
 * Otherwise a slice is SL_SENDQ_WHOLE, and a ring may be full. dql.h learns a higher cap for slow
 * or distant links, on a shared port below sl_sendq_far().
 *
 * one_class: one list in order of arrival, without slices or cap.
 */
#ifndef SL_RPC_SENDQ_H
#define SL_RPC_SENDQ_H

#include "base/bytes.h"
#include "base/list.h"
#include "wire/rpc_wire.h"

enum {
	SL_SENDQ_CAP_NS = 10000,
	SL_SENDQ_FAR_NS = 100000, /* round trip */
	SL_SENDQ_CAP_MAX = 2 << 20,
	SL_SENDQ_WHOLE = 1 << 20, /* start value */
	SL_SENDQ_WHOLES = 4,
	SL_SENDQ_SLICE_MIN = 8 << 10,
	SL_SENDQ_SLICE_UNIT = 4 << 10, /* slices are multiples */
	SL_SENDQ_QUANTUM = 4 << 10,    /* times the weight */
	SL_SENDQ_STARTED_MAX = 4,      /* begun messages per class */
	SL_SENDQ_LOOK_BACK = 64,
	SL_SENDQ_CLASSES = SL_CLASS_CNT,
};
_Static_assert(SL_SENDQ_STARTED_MAX *SL_SENDQ_CLASSES <= SL_RPC_MAX_INTERLEAVE, "wire");

/* link.c changes the spans while it posts a slice. */
struct sl_send {
	struct sl_list node;
	struct sl_rpc_header header; /* first fragment's */
	uint64_t deadline_ns;        /* UINT64_MAX: none */
	uint32_t total, offset;      /* body bytes */
	uint32_t span_cnt, span;     /* spans before `span` are posted */
	size_t span_skip;            /* posted of that span */
	struct sl_span *spans;
	uint64_t owner;
	uint64_t *cancelled; /* up to header.count ids */
	uint32_t cancelled_cnt;
};

struct sl_sendq {
	struct sl_list queue[SL_SENDQ_CLASSES];
	struct sl_send *last_timed[SL_SENDQ_CLASSES];
	struct sl_send *begun[SL_SENDQ_CLASSES][SL_SENDQ_STARTED_MAX];
	uint32_t started[SL_SENDQ_CLASSES];
	uint32_t deficit[SL_SENDQ_CLASSES];
	uint32_t turn;
	bool granted; /* `turn` has had its quantum */
	bool one_class;
	uint32_t cnt;
	uint64_t bytes;
};

struct sl_send_room {
	uint32_t window; /* body bytes; 0: no slot */
	uint32_t slot_body;
	uint32_t slice_max;
	uint32_t slice_min;
	uint32_t posted; /* of all links of the wire */
	uint32_t own;    /* of this link */
	uint32_t limit;  /* learnt */
	unsigned urgent; /* most urgent; SL_CLASS_CNT: none */
	bool begun_only;
	uint64_t rate_bps;
};

/* Returns a link's cap of posted bytes. */
uint32_t sl_sendq_cap(uint64_t rate_bps, uint32_t slice_min);
/* Returns a port's highest limit: two caps, or bytes for a round trip of SL_SENDQ_FAR_NS. */
uint32_t sl_sendq_far(uint64_t rate_bps, uint32_t slice_min);

/* Makes an empty queue. `one_class`: FIFO. */
void sl_sendq_init(struct sl_sendq *q, bool one_class);
/* Queues a message, which stays the caller's, and sets its priority. */
void sl_sendq_push(struct sl_sendq *q, struct sl_send *s, enum sl_rpc_class class);

/* Returns the message to post next, with *len bytes (0: empty body), or NULL. */
struct sl_send *sl_sendq_next(struct sl_sendq *q, const struct sl_send_room *room, uint32_t *len);
/* Counts a posted slice. Returns true after the last: the message has left. */
bool sl_sendq_posted(struct sl_sendq *q, struct sl_send *s, uint32_t len);

/* Removes a message of which nothing was posted. */
void sl_sendq_remove(struct sl_sendq *q, struct sl_send *s);

/* Removes and returns a message, perhaps begun; NULL: empty. */
struct sl_send *sl_sendq_pop(struct sl_sendq *q);

#endif
