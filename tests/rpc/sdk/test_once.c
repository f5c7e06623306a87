/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Each request is carried out once, by the counters of the handler, and answered once, over ways that lose,
 * double and reorder: datagrams here; in a guest a wire with netem (SL_RPC_LOSSY), also of links that go on
 * by RDMA's own connections, and back (SL_RPC_GOES_ON). Such a link may end on such a wire: what had not
 * left is asked again, and what had was carried out once at the most.
 */
#define HARNESS_ENDPOINTS "shm,tcp,ud,ud-lossy"
#include "rpc/session.h"
#include "rpc_load.h"
#include "suite.h"

enum {
	NUMBERS = 1 << 16,
	AFTERWARDS_MS = 500, /* so late nothing is sent once more */
	ENDS_MAX = 20,       /* time at which the link may end */
	MOVES_MIN = 3, /* for a link that survives, however long a switch takes on a lossy wire */
};

enum fate { OPEN, ANSWERED, LOST };

static enum fate fates[NUMBERS];

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

/* Counters of the path, from the datagrams of the gateway's end. */
struct way {
	const struct sl_transport *t;
	uint64_t seen_resent, seen_doubled; /* counters of t */
	uint64_t resent, doubled;
	unsigned moves; /* counters of links that have ended */
	char info[260]; /* messages by the first transport, and by the second at the end */
};

static void look_at(struct way *w, const struct sl_rpc_channel *ch)
{
	const struct sl_transport *t = ch->link.t;

	if (t != w->t)
		w->seen_resent = w->seen_doubled = 0;
	w->t = t;
	snprintf(w->info, sizeof(w->info), "%.120s / %.120s", t->info,
		 ch->link.second ? ch->link.second->info : "-");
	w->resent += t->retransmitted - w->seen_resent;
	w->doubled += t->duplicates - w->seen_doubled;
	w->seen_resent = t->retransmitted;
	w->seen_doubled = t->duplicates;
}

struct numbered {
	struct call c;
	uint8_t *body;
	uint32_t len, number;
	bool busy;
};

static void end_one(struct numbered *n)
{
	if (n->c.failed) {
		ck_assert(n->c.why == SL_RPC_FAIL_DOWN || n->c.why == SL_RPC_FAIL_LOST);
		fates[n->number] = n->c.why == SL_RPC_FAIL_LOST ? LOST : OPEN;
	} else {
		ck_assert_uint_eq(n->c.status, SL_RPC_OK);
		ck_assert_uint_eq(n->c.len, n->len);
		ck_assert_mem_eq(n->c.body, n->body, n->len);
		fates[n->number] = ANSWERED;
	}
	call_fini(&n->c);
	free(n->body);
	n->busy = false;
}

static bool begin_one(struct gateway *g, struct numbered *n, uint32_t number, struct sl_prng *rng)
{
	int rc;

	n->len = (uint32_t)sizeof(number) + load_random_len(rng) % 40000;
	n->number = number;
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

static bool moves_are_due(const struct gateway *g, const struct way *w)
{
	return g->ways.link && w->moves + g->ways.moves < MOVES_MIN;
}

/*
 * Those that are open, until all are answered or the link has ended; more than `total`, which is their
 * number then, where that has not gone on often enough.
 */
static void ask_all(struct gateway *g, struct way *w, unsigned *total)
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
			while (next < *total && fates[next] != OPEN)
				next++;
			*total += next == *total && next < NUMBERS && moves_are_due(g, w);
			if (!at[i].busy && next < *total && !g->downs)
				next += begin_one(g, &at[i], next, &rng);
			busy += at[i].busy;
		}
		gw_turn(g);
		if (!g->downs)
			look_at(w, g->ch);
	} while (busy || (next < *total && !g->downs));
}

static bool is_lossy(int i)
{
	const char *name = endpoint_list();

	while (i--)
		name = strchr(name, ',') + 1;
	return strncmp(name, "ud-lossy", 8) == 0 ||
	       (getenv("SL_RPC_LOSSY") && strncmp(name, "rdma+ud", 7) == 0);
}

/* Nothing that was carried out once is carried out again. */
static void check_counts(unsigned total)
{
	unsigned lost = 0;

	for (unsigned i = 0; i < NUMBERS; i++) {
		ck_assert_uint_le(shared->carried_out[i], i < total);
		ck_assert(i >= total || fates[i] == LOST || shared->carried_out[i] == 1);
		lost += fates[i] == LOST;
	}
	ck_assert_uint_eq(shared->unknown, 0);
	ck_assert_uint_le(lost, total / 2);
}

TEST_EACH(each_request_is_carried_out_once, endpoint_cnt())
{
	const char *ep = endpoint_of(_i);
	unsigned total = load_total(), ends = 0;
	struct way way = {.t = NULL};
	struct backend_proc p;
	struct gateway g;
	uint64_t until_ns;

	ck_assert_uint_le(total, NUMBERS);
	shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
		      0);
	p = backend_start(&(struct sl_backend_options){.listen = ep, .on_batch = count});
	for (;; ends++) {
		gw_open(&g, ep);
		ask_all(&g, &way, &total);
		gw_until(&g, g.batches_done == g.sent);
		way.moves += g.ways.moves;
		if (!g.downs)
			break;
		ck_assert_msg(g.ways.link && getenv("SL_RPC_LOSSY"), "by %s", way.info);
		printf("the link has ended by %s\n", way.info);
		ck_assert_uint_lt(ends, ENDS_MAX);
		gw_close(&g);
	}
	until_ns = sl_now_ns() + AFTERWARDS_MS * SL_NS_PER_MS;
	while (sl_now_ns() < until_ns)
		gw_turn(&g);
	if (is_lossy(_i) && !g.ways.link) { /* counters of a finished run stay */
		ck_assert_uint_gt(way.resent, 0);
		ck_assert_uint_gt(way.doubled, 0);
	}
	if (g.ways.link)
		ck_assert_uint_ge(way.moves, MOVES_MIN);
	gw_close(&g);
	backend_term(p);
	check_counts(total);
}
