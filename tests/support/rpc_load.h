/* SPDX-License-Identifier: Apache-2.0 */
/* Calls of sizes and classes at random, many at a time, of which every reply is right. */
#ifndef SL_TESTS_RPC_LOAD_H
#define SL_TESTS_RPC_LOAD_H

#include "base/rand.h"
#include "rpc_harness.h"

enum { LOAD_CALLS = 64, LOAD_BODY_MAX = 600000 };

/* Calls of each test: SL_RPC_LOAD, fewer where a machine is emulated. */
static inline unsigned load_total(void)
{
	const char *load = getenv("SL_RPC_LOAD");
	unsigned long total = load ? strtoul(load, NULL, 10) : 0;

	return total >= LOAD_CALLS ? (unsigned)total : 3000;
}

static inline struct sl_rpc_config load_config(bool small_rings)
{
	struct sl_rpc_config cfg;

	sl_rpc_config_default(&cfg);
	if (small_rings) {
		cfg.slots = SL_RPC_MIN_SLOTS;
		cfg.bulk_ring_len = SL_RPC_MIN_BULK;
	}
	return cfg;
}

/* A backend's handler. */
static inline void load_echo(void *arg, struct sl_batch *batch)
{
	(void)arg;
	for (unsigned i = 0; i < batch->count; i++) {
		struct sl_request_view *rq = batch->requests[batch->count - 1 - i];

		sl_reply(rq, &(struct sl_reply_args){.body = rq->body, .body_len = rq->body_len});
	}
}

struct load_slot {
	struct call c;
	uint8_t *body;
	uint32_t len;
	bool busy;
};

static inline uint32_t load_random_len(struct sl_prng *rng)
{
	switch (sl_prng_below(rng, 8)) {
	case 0: return (uint32_t)sl_prng_below(rng, LOAD_BODY_MAX);
	case 1:
	case 2: return (uint32_t)sl_prng_below(rng, 20000);
	default: return (uint32_t)sl_prng_below(rng, 200);
	}
}

static inline bool load_start(struct gateway *g, struct load_slot *s, struct sl_prng *rng)
{
	uint8_t *reply = s->c.body;
	uint32_t seed;
	int rc;

	s->len = load_random_len(rng);
	seed = (uint32_t)sl_prng_u64(rng);
	for (uint32_t i = 0; i < s->len; i++)
		s->body[i] = (uint8_t)(i * 31 + seed);
	s->c = (struct call){.body = reply, .cap = LOAD_BODY_MAX};
	rc = gw_send(g, &s->c, sl_span_of(NULL, 0), sl_span_of(s->body, s->len), 30000000,
		     1 + (unsigned)sl_prng_below(rng, 3));
	ck_assert(rc == 0 || rc == -EAGAIN);
	s->busy = rc == 0;
	return s->busy;
}

static inline void load_finish(struct load_slot *s)
{
	ck_assert_msg(!s->c.failed, "failed: %d", s->c.why);
	ck_assert_uint_eq(s->c.status, SL_RPC_OK);
	ck_assert_uint_eq(s->c.len, s->len);
	ck_assert_mem_eq(s->c.body, s->body, s->len);
	s->busy = false;
}

/* load_total() calls to a backend that answers by load_echo; turn() while some are under way. */
static inline void load_carry(struct gateway *g, uint64_t seed, void (*turn)(void *arg), void *arg)
{
	static struct load_slot slots[LOAD_CALLS];
	unsigned total = load_total(), started = 0, busy;
	struct sl_prng rng;

	sl_prng_seed(&rng, seed);
	for (unsigned i = 0; i < LOAD_CALLS; i++) {
		slots[i].body = malloc(LOAD_BODY_MAX);
		call_init(&slots[i].c, LOAD_BODY_MAX);
	}
	do {
		busy = 0;
		for (unsigned i = 0; i < LOAD_CALLS; i++) {
			struct load_slot *s = &slots[i];

			if (s->busy && (s->c.done || s->c.failed))
				load_finish(s);
			if (!s->busy && started < total)
				started += load_start(g, s, &rng);
			busy += s->busy;
		}
		if (busy)
			turn(arg);
		ck_assert_uint_eq(g->downs, 0);
	} while (busy || started < total);
	gw_until(g, g->batches_done == total);
	for (unsigned i = 0; i < LOAD_CALLS; i++) {
		free(slots[i].body);
		call_fini(&slots[i].c);
	}
}

#endif
