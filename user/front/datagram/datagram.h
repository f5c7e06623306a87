/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Requests in single datagrams: sluice/datagram.h in pure functions, a cache that recognises retries,
 * and the front that joins them with the host.
 *
 *   datagram -> sl_datagram_parse -> sl_datagram_seen -> NEW: begin, body, end
 *                                                     -> PENDING: drop
 *                                                     -> ANSWERED: send again
 *   ready -> the whole reply -> sl_datagram_format -> sl_datagram_answered (a copy for retries) -> send
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

/* A request; views point into the datagram. */
struct sl_datagram {
	uint64_t id;
	uint32_t deadline_us;
	uint16_t service;
	uint16_t reply_max; /* bytes of datagram that its reply may have: its own length */
	struct sl_span method;
	struct sl_span payload;
};

enum sl_datagram_verdict {
	SL_DATAGRAM_IS_REQUEST,
	SL_DATAGRAM_IS_MALFORMED,     /* drop: SL_DROP_DGRAM_MALFORMED */
	SL_DATAGRAM_IS_OTHER_VERSION, /* id and reply_max are valid: answer SL_DATAGRAM_VERSION */
};
enum sl_datagram_verdict sl_datagram_parse(struct sl_span in, struct sl_datagram *out);

/*
 * The head of a reply; the caller sends it and behind it *payload. A payload that reply_max or
 * path_max (what udp can send unfragmented) does not allow is dropped, and *status becomes
 * SL_DATAGRAM_REPLY_TOO_LARGE.
 */
void sl_datagram_format(const struct sl_datagram *rq, enum sl_datagram_status *status,
			uint16_t code, uint32_t service_us, size_t path_max,
			struct sl_span *payload, uint8_t head[SL_DATAGRAM_HEAD]);

struct sl_datagram_source {
	struct sl_addr peer;
	uint16_t listener;
	uint16_t zero; /* hashed and compared as bytes */
};

enum sl_datagram_seen {
	SL_DATAGRAM_NEW,      /* *slot is now PENDING: answer or forget it */
	SL_DATAGRAM_PENDING,  /* SL_DROP_DGRAM_DUPLICATE */
	SL_DATAGRAM_ANSWERED, /* *reply is the datagram to send again */
	SL_DATAGRAM_AMPLIFY,  /* the retry is shorter than that: SL_DROP_DGRAM_AMPLIFY */
	SL_DATAGRAM_FULL,     /* as many are pending as there are slots: refuse it */
};

/*
 * Remembers requests by (source, id):
 *
 *   FREE -seen-> PENDING -answered-> ANSWERED -ttl, or the oldest when a slot is wanted-> FREE
 *                   |                                                                      ^
 *                   +-forget, or a reply longer than reply_cap: a retry is computed again--+
 */
struct sl_datagram_slot;
struct sl_datagram_cache {
	struct sl_datagram_slot *slots;
	uint32_t *buckets; /* index of the first slot of a chain, plus one */
	uint8_t *replies;  /* reply_cap bytes per slot; no memory behind them until used */
	uint32_t slot_cnt, bucket_mask, reply_cap;
	uint32_t free_head;      /* index plus one, by next */
	uint32_t oldest, newest; /* ANSWERED in order of time; index plus one */
	uint32_t pending, answered;
	uint64_t ttl_ns;
	struct sl_sipkey key;
};

/* 0, -EINVAL or -ENOMEM. */
int sl_datagram_cache_init(struct sl_datagram_cache *c, uint32_t slots, uint32_t reply_cap,
			   uint64_t ttl_ns, const uint8_t key[16]);
void sl_datagram_cache_fini(struct sl_datagram_cache *c);

enum sl_datagram_seen sl_datagram_seen(struct sl_datagram_cache *c,
				       const struct sl_datagram_source *src, uint64_t id,
				       size_t reply_max, uint64_t now_ns, uint32_t *slot,
				       struct sl_span *reply);
/* The reply as it was sent, in head and payload. */
void sl_datagram_answered(struct sl_datagram_cache *c, uint32_t slot,
			  const uint8_t head[SL_DATAGRAM_HEAD], struct sl_span payload,
			  uint64_t now_ns);
/* No reply was sent: a retry is a new request. */
void sl_datagram_forget(struct sl_datagram_cache *c, uint32_t slot);

/*
 * The front, one for all peers of a worker; as a connection it never ends. Its state is made before
 * it is opened (sl_front_env.datagram), and bytes come by sl_datagram_input in place of `input`.
 */
struct sl_datagrams;

/* Where datagrams go: back the way they came, which only the host understands. */
enum { SL_DATAGRAM_WAY_SIZE = 64 };
struct sl_datagram_host_ops {
	/* One that cannot be sent is lost like any datagram; a retry gets it. */
	void (*send)(void *host, const void *way, struct sl_span head, struct sl_span payload);
	/* Longest datagram that leaves in one piece. */
	size_t (*room)(void *host, const void *way);
	void (*drop)(void *host, enum sl_drop why);
};

/* For so many requests at once. NULL: no memory. */
struct sl_datagrams *sl_datagrams_create(const struct sl_datagram_host_ops *ops, uint32_t requests,
					 const uint8_t key[16]);
/* After close. NULL is allowed. */
void sl_datagrams_destroy(struct sl_datagrams *d);

/* `way` points to SL_DATAGRAM_WAY_SIZE bytes or fewer, as `way_len` says, which are kept. */
void sl_datagram_input(void *state, const struct sl_front_env *env,
		       const struct sl_datagram_source *src, const void *way, size_t way_len,
		       struct sl_chunk *chunk);

/* What a datagram's status is when the gateway answers itself. */
enum sl_datagram_status sl_datagram_status_of(enum sl_outcome why);

#endif
