/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Each request is carried out once, by the counters of the handler, and answered once, over ways that lose,
 * double and reorder: datagrams here; in a guest a wire with netem (SL_RPC_LOSSY), also of links that go to
 * and fro (SL_RPC_GOES_ON).
 */
#define HARNESS_ENDPOINTS "shm,tcp,ud,ud-lossy"
#include "rpc/session.h"
#include "rpc_load.h"
#include "suite.h"

enum {
	NUMBERS = 1 << 16,
	AFTERWARDS_MS = 500, /* so late nothing is sent once more */
};

/* Seen by both processes. */
static struct shared {
	_Atomic uint32_t carried_out[NUMBERS], unknown;
} * shared;

static void count(void *arg, struct sl_batch *batch)
{
	(void)arg;
	for (unsigned i = 0; i < batch->count; i++) {
		struct sl_request_view *rq = batch->requests[i];
		uint32_t number = NUMBERS;

		if (rq->body_len >= sizeof(number))
			memcpy(&number, rq->body, sizeof(number));
		if (number < NUMBERS)
			shared->carried_out[number]++;
		else
			shared->unknown++;
		sl_reply(rq, &(struct sl_reply_args){.body = rq->body, .body_len = rq->body_len});
	}
}

/* What the way has done, by the datagrams of the gateway's end. */
struct way {
	const struct sl_transport *t;
	uint64_t seen_resent, seen_doubled; /* of t */
	uint64_t resent, doubled;
};

static void look_at(struct way *w, const struct sl_rpc_channel *ch)
{
	const struct sl_transport *t = ch->link.t;

	if (t != w->t)
		w->seen_resent = w->seen_doubled = 0;
	w->t = t;
	w->resent += t->resent - w->seen_resent;
	w->doubled += t->doubled - w->seen_doubled;
	w->seen_resent = t->resent;
	w->seen_doubled = t->doubled;
}

struct numbered {
	struct call c;
	uint8_t *body;
	uint32_t len;
	bool busy;
};

static void end_one(struct numbered *n)
{
	ck_assert_msg(!n->c.failed, "failed: %d", n->c.why);
	ck_assert_uint_eq(n->c.status, SL_RPC_OK);
	ck_assert_uint_eq(n->c.len, n->len);
	ck_assert_mem_eq(n->c.body, n->body, n->len);
	call_fini(&n->c);
	free(n->body);
	n->busy = false;
}

static bool begin_one(struct gateway *g, struct numbered *n, uint32_t number, struct sl_prng *rng)
{
	int rc;

	n->len = (uint32_t)sizeof(number) + load_random_len(rng) % 40000;
	n->body = calloc(1, n->len);
	memcpy(n->body, &number, sizeof(number));
	call_init(&n->c, n->len);
	rc = gw_send(g, &n->c, sl_span_of(NULL, 0), sl_span_of(n->body, n->len), 0,
		     1 + (unsigned)sl_prng_below(rng, 3));
	ck_assert(rc == 0 || rc == -EAGAIN);
	n->busy = rc == 0;
	if (n->busy)
		return true;
	call_fini(&n->c);
	free(n->body);
	return false;
}

static void ask_all(struct gateway *g, struct way *w, unsigned total)
{
	static struct numbered at[LOAD_CALLS];
	struct sl_prng rng;
	uint32_t next = 0;
	unsigned busy;

	sl_prng_seed(&rng, 11);
	do {
		busy = 0;
		for (unsigned i = 0; i < LOAD_CALLS; i++) {
			if (at[i].busy && (at[i].c.done || at[i].c.failed))
				end_one(&at[i]);
			if (!at[i].busy && next < total)
				next += begin_one(g, &at[i], next, &rng);
			busy += at[i].busy;
		}
		gw_turn(g);
		ck_assert_uint_eq(g->downs, 0);
		look_at(w, g->ch);
	} while (busy || next < total);
}

static bool is_lossy(int i)
{
	const char *name = endpoint_list();

	while (i--)
		name = strchr(name, ',') + 1;
	return strncmp(name, "ud-lossy", 8) == 0 ||
	       (getenv("SL_RPC_LOSSY") && strncmp(name, "rdma+ud", 7) == 0);
}

TEST_EACH(each_request_is_carried_out_once, endpoint_cnt())
{
	const char *ep = endpoint_of(_i);
	unsigned total = load_total();
	struct way way = {.t = NULL};
	struct backend_proc p;
	struct gateway g;
	uint64_t until_ns;

	ck_assert_uint_le(total, NUMBERS);
	shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
		      0);
	p = backend_start(&(struct sl_backend_options){.listen = ep, .handle = count});
	gw_open(&g, ep);
	ask_all(&g, &way, total);
	gw_until(&g, g.batches_done == total);
	until_ns = sl_now_ns() + AFTERWARDS_MS * SL_NS_PER_MS;
	while (sl_now_ns() < until_ns)
		gw_turn(&g);
	ck_assert_uint_eq(g.done, total);
	ck_assert_uint_eq(g.failed, 0);
	if (is_lossy(_i) && !g.ways.link) { /* it was: who goes on leaves its counts behind */
		ck_assert_uint_gt(way.resent, 0);
		ck_assert_uint_gt(way.doubled, 0);
	}
	if (g.ways.link)
		ck_assert_uint_ge(g.ways.moves, 3);
	gw_close(&g);
	backend_term(p);
	for (unsigned i = 0; i < NUMBERS; i++)
		ck_assert_uint_eq(shared->carried_out[i], i < total);
	ck_assert_uint_eq(shared->unknown, 0);
}
