/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The send queue of one channel: decides which message's next slice is posted. Lists and counts
 * only, no I/O.
 *
 *   control            strict: before everything else
 *   latency, normal,   deficit round robin by bytes, 8 : 4 : 1; inside a class the earliest
 *   bulk               deadline first, then order of arrival, those without one last
 *
 * Clients choose deadlines, and how much waits where a backend takes nothing. So the place of one that
 * comes is looked for among the last SL_SENDQ_LOOK_BACK only: it passes no more, unless it is
 * before all others.
 *
 * What is posted cannot be overtaken. So while something more urgent is about, posted, unfinished
 * bytes are capped at what the link moves in SL_SENDQ_CAP_NS, and slices are a quarter of that, but
 * not so short that their own messages cost much (slice_min). Otherwise nobody is kept waiting:
 * slices are SL_SENDQ_WHOLE, and as many may be posted as a ring of the usual size holds, which is
 * what the first urgent message after a while meets. A link that is slower or further away than it
 * says, and a receiver or sender that takes longer to come back to the ring (it sleeps, computes, is
 * not scheduled), need more: limit.h learns how much. What a port has posted delays all who share
 * it, so there it learns no more than a network of queue pairs needs (sl_sendq_far).
 *
 * With one_class there is one list in order of arrival, without slices or cap.
 */
#ifndef SL_RPC_SENDQ_H
#define SL_RPC_SENDQ_H

#include "base/bytes.h"
#include "base/list.h"
#include "sluice/rpc_wire.h"

enum {
	SL_SENDQ_CAP_NS = 10000,
	SL_SENDQ_FAR_NS = 100000, /* there and back */
	SL_SENDQ_CAP_MAX = 2 << 20,
	SL_SENDQ_WHOLE = 1 << 20, /* (start) */
	SL_SENDQ_WHOLES = 4,
	SL_SENDQ_SLICE_MIN = 8 << 10,
	SL_SENDQ_SLICE_UNIT = 4 << 10, /* slices are multiples: copies stay aligned */
	SL_SENDQ_QUANTUM = 4 << 10,    /* times the weight */
	SL_SENDQ_STARTED_MAX = 4,      /* messages of one class begun and not finished */
	SL_SENDQ_LOOK_BACK = 64,
	SL_SENDQ_CLASSES = SL_CLASS_CNT,
};
_Static_assert(SL_SENDQ_STARTED_MAX *SL_SENDQ_CLASSES <= SL_RPC_MAX_INTERLEAVE, "wire");

/* One message, queued or being posted. Spans may be changed by link.c while it posts a slice. */
struct sl_send {
	struct sl_list node;
	struct sl_rpc_header header; /* of its first fragment */
	uint64_t deadline_ns;        /* UINT64_MAX none */
	uint32_t total, offset;      /* bytes of body: all, posted */
	uint32_t span_cnt, span;     /* spans before `span` are posted */
	size_t span_skip;            /* and so many bytes of that one */
	struct sl_span *spans;
	uint64_t owner;      /* the user's */
	uint64_t *cancelled; /* of header.count: requests of which CANCEL goes behind all of it */
	uint32_t cancelled_cnt;
};

struct sl_sendq {
	struct sl_list queue[SL_SENDQ_CLASSES];
	struct sl_send *last_timed[SL_SENDQ_CLASSES]; /* behind it are those without a deadline */
	struct sl_send *begun[SL_SENDQ_CLASSES][SL_SENDQ_STARTED_MAX]; /* in the order of that */
	uint32_t started[SL_SENDQ_CLASSES];
	uint32_t deficit[SL_SENDQ_CLASSES];
	uint32_t turn;
	bool granted; /* the class whose turn it is has had its quantum */
	bool one_class;
	uint32_t cnt;
	uint64_t bytes; /* not yet posted */
};

/* What the transport could take. */
struct sl_send_room {
	uint32_t window;    /* bytes of body in one message; 0 no slot */
	uint32_t slot_body; /* bytes of body that fit a slot */
	uint32_t slice_max; /* the transport's bulk_max */
	uint32_t slice_min; /* the transport's */
	uint32_t posted;    /* bytes on their way, of all that share the wire */
	uint32_t own;       /* of this link: what holds back the most urgent */
	uint32_t limit;     /* of those, as learnt */
	unsigned urgent;    /* the most urgent class that is about; SL_CLASS_CNT: none */
	bool begun_only;    /* no message is to be begun: what is, comes to its end */
	uint64_t rate_bps;
};

/* The cap to begin with, from the rate. */
uint32_t sl_sendq_cap(uint64_t rate_bps, uint32_t slice_min);
/* What a port may learn: two caps, or what keeps it busy with peers SL_SENDQ_FAR_NS away. */
uint32_t sl_sendq_far(uint64_t rate_bps, uint32_t slice_min);

void sl_sendq_init(struct sl_sendq *q, bool one_class);
void sl_sendq_push(struct sl_sendq *q, struct sl_send *s, enum sl_rpc_class class);

/* The message whose slice of *len bytes (0 for an empty body) goes next; NULL: none may go. */
struct sl_send *sl_sendq_next(struct sl_sendq *q, const struct sl_send_room *room, uint32_t *len);
/* That slice was posted. True: it was the last, and the message has left the queue. */
bool sl_sendq_posted(struct sl_sendq *q, struct sl_send *s, uint32_t len);

/* Takes out one of which nothing was posted. */
void sl_sendq_remove(struct sl_sendq *q, struct sl_send *s);

/* Takes any message out, for tear-down; NULL when empty. */
struct sl_send *sl_sendq_pop(struct sl_sendq *q);

#endif
