/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Requests in single datagrams: sluice/datagram.h in pure functions, and a cache that recognises
 * retries. It sends nothing; the core joins it with udp.
 *
 *   datagram -> sl_datagram_parse -> sl_datagram_seen -> NEW: to a backend
 *                                                     -> PENDING: drop  -> ANSWERED: send again
 *   reply    -> sl_datagram_format -> sl_datagram_answered (keeps a copy for retries)
 */
#ifndef SL_FRONT_DATAGRAM_H
#define SL_FRONT_DATAGRAM_H

#include <stdbool.h>
#include "base/bytes.h"
#include "base/siphash.h"
#include "sluice/datagram.h"

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
	uint8_t addr[16]; /* IPv4: first four bytes, the rest zero */
	uint16_t port_be;
	uint16_t listener;
	uint32_t family;
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

#endif
