/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Requests in single datagrams: the format of sluice/datagram.h, a cache of retries, and the front.
 */
#ifndef SL_FRONT_DATAGRAM_H
#define SL_FRONT_DATAGRAM_H

#include <stdbool.h>
#include "base/bytes.h"
#include "base/siphash.h"
#include "front/front.h"
#include "sluice/datagram.h"
#include "sluice/drop.h"
#include "wire/addr.h"

/* Views point into the datagram. */
struct sl_datagram {
	uint64_t id;
	uint32_t deadline_us;
	uint16_t service;
	uint16_t reply_max; /* the request's length */
	struct sl_span method;
	struct sl_span payload;
};

enum sl_datagram_verdict {
	SL_DATAGRAM_IS_REQUEST,
	SL_DATAGRAM_IS_MALFORMED,     /* drop: SL_DROP_DGRAM_MALFORMED */
	SL_DATAGRAM_IS_OTHER_VERSION, /* id and reply_max are valid: answer SL_DATAGRAM_VERSION */
};
/* Parses a request. Spans of *out point into `in`. */
enum sl_datagram_verdict sl_datagram_parse(struct sl_span in, struct sl_datagram *out);

/*
 * Formats the head of a reply, sent before *payload. A payload above reply_max or path_max is
 * dropped: SL_DATAGRAM_REPLY_TOO_LARGE.
 */
void sl_datagram_format(const struct sl_datagram *rq, enum sl_datagram_status *status,
			uint16_t code, uint32_t service_us, size_t path_max,
			struct sl_span *payload, uint8_t head[SL_DATAGRAM_HEAD]);

struct sl_datagram_source {
	struct sl_addr peer;
	uint16_t listener;
	uint16_t zero; /* must be zero: hashed and compared as bytes */
};

enum sl_datagram_seen {
	SL_DATAGRAM_NEW,      /* *slot is PENDING: call answered or forget */
	SL_DATAGRAM_PENDING,  /* SL_DROP_DGRAM_DUPLICATE */
	SL_DATAGRAM_ANSWERED, /* *reply must be resent */
	SL_DATAGRAM_AMPLIFY,  /* answer REPLY_TOO_LARGE: the retry is shorter than the reply */
	SL_DATAGRAM_FULL,     /* all slots are pending */
};

/*
 * Requests by (source, id):
 *
 *   FREE -seen-> PENDING -answered-> ANSWERED -ttl, or oldest when a slot is needed-> FREE
 *                   |                                                                  ^
 *                   +-forget, or a reply above reply_cap: a retry is executed again ---+
 */
struct sl_datagram_slot;
struct sl_datagram_cache {
	struct sl_datagram_slot *slots;
	uint32_t *buckets; /* [bucket] index + 1 of the first slot */
	uint8_t *replies;  /* reply_cap bytes per slot; pages are allocated on use */
	uint32_t slot_cnt, bucket_mask, reply_cap;
	uint32_t free_head; /* index + 1 */
	uint32_t oldest, newest;
	uint32_t pending, answered;
	uint64_t ttl_ns;
	struct sl_sipkey key;
};

/* Returns 0, -EINVAL or -ENOMEM. */
int sl_datagram_cache_init(struct sl_datagram_cache *c, uint32_t slots, uint32_t reply_cap,
			   uint64_t ttl_ns, const uint8_t key[16]);
/* Frees the memory. */
void sl_datagram_cache_fini(struct sl_datagram_cache *c);

/*
 * Looks for a request, and adds a new one. *slot: only with NEW. *reply: only with ANSWERED, valid
 * until the next call.
 */
enum sl_datagram_seen sl_datagram_seen(struct sl_datagram_cache *c,
				       const struct sl_datagram_source *src, uint64_t id,
				       size_t reply_max, uint64_t now_ns, uint32_t *slot,
				       struct sl_span *reply);
/* Stores a copy of the reply. */
void sl_datagram_answered(struct sl_datagram_cache *c, uint32_t slot,
			  const uint8_t head[SL_DATAGRAM_HEAD], struct sl_span payload,
			  uint64_t now_ns);
/* Frees the slot without a reply: a retry is executed. */
void sl_datagram_forget(struct sl_datagram_cache *c, uint32_t slot);

/*
 * The front: one endless connection for all peers. Needs sl_front_env.datagram.
 */
struct sl_datagrams;

/* Return path of a reply, private to the core. */
enum { SL_DATAGRAM_WAY_SIZE = 64 };
struct sl_datagram_cb {
	/* May be lost: a retry gets it again. */
	void (*send)(void *conn, const void *way, struct sl_span head, struct sl_span payload);
	size_t (*room)(void *conn, const void *way);
	void (*drop)(void *conn, enum sl_drop why);
};

/* Returns the state of one worker, or NULL. `key`: random. */
struct sl_datagrams *sl_datagrams_create(const struct sl_datagram_cb *ops, uint32_t requests,
					 const uint8_t key[16]);
/* Frees d, which may be NULL. */
void sl_datagrams_destroy(struct sl_datagrams *d);

/* Handles a datagram. Copies `way_len` bytes (at most SL_DATAGRAM_WAY_SIZE) at `way`. */
void sl_datagram_input(void *state, const struct sl_front_env *env,
		       const struct sl_datagram_source *src, const void *way, size_t way_len,
		       struct sl_chunk *chunk);

/* Returns the status for an outcome. */
enum sl_datagram_status sl_datagram_status_of(enum sl_outcome why);

#endif
