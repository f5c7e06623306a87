/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory of the program: bodies arrive in pinned rows, are computed there and leave from there. A
 * row is overwritten as soon as the SDK returns it.
 */
#include <stdatomic.h>
#include "rpc_harness.h"
#include "suite.h"

enum { ROWS = 8, ROW = 128 << 10, CALLS = 400, AT_ONCE = 2 * ROWS };

/* Counters that the backend process reports. */
static struct shared {
	_Atomic unsigned placed, given_back, done, elsewhere, wrong;
	_Atomic unsigned long locked_kib;
} * shared;

static void setup(void)
{
	shared = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	ck_assert_ptr_ne(shared, MAP_FAILED);
}

/* --- the backend --- */

static struct row {
	uint8_t *bytes;
	_Atomic int users; /* the request that was placed there, and the reply that is lent */
} rows[ROWS];

static void let_go(struct row *r)
{
	if (atomic_load(&r->users) == 1)
		memset(r->bytes, 0xff, ROW);
	atomic_fetch_sub(&r->users, 1);
}

static void *place(void *arg, struct sl_request_view *rq)
{
	(void)arg;
	for (unsigned i = 0; i < ROWS && rq->body_len <= ROW; i++) {
		if (atomic_load(&rows[i].users))
			continue;
		atomic_store(&rows[i].users, 1);
		rq->own = &rows[i];
		shared->placed++;
		return rows[i].bytes;
	}
	return NULL;
}

static void unplace(void *arg, struct sl_request_view *rq)
{
	(void)arg;
	shared->given_back++;
	let_go(rq->own);
}

static void on_done(void *arg)
{
	shared->done++;
	let_go(arg);
}

static void compute(void *arg, struct sl_batch *batch)
{
	(void)arg;
	for (unsigned i = 0; i < batch->count; i++) {
		struct sl_request_view *rq = batch->requests[i];
		struct sl_reply_args a = {.body = rq->body, .body_len = rq->body_len};
		struct row *r = rq->own;
		uint8_t *bytes = (uint8_t *)(uintptr_t)rq->body;

		for (size_t k = 0; k < rq->body_len; k++)
			bytes[k] ^= 0x5a;
		if (!r) {
			shared->elsewhere++;
			sl_reply(rq, &a);
			continue;
		}
		shared->wrong += rq->body != r->bytes;
		atomic_fetch_add(&r->users, 1);
		if (sl_reply_ref(rq, &a, on_done, r))
			let_go(r);
	}
}

static unsigned long locked_kib(void)
{
	char line[128];
	unsigned long kib = 0;
	FILE *f = fopen("/proc/self/status", "r");

	while (f && fgets(line, sizeof(line), f)) {
		if (strncmp(line, "VmLck:", 6) == 0)
			kib = strtoul(line + 6, NULL, 10);
	}
	if (f)
		fclose(f);
	return kib;
}

/* As cudaHostAlloc() has it: whole pages that stay where they are. */
static void serve(const void *arg)
{
	uint8_t *arena = mmap(NULL, (size_t)ROWS * ROW, PROT_READ | PROT_WRITE,
			      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct sl_backend_options opt = {.on_batch = compute,
					 .place = place,
					 .unplace = unplace,
					 .memory = arena,
					 .memory_len = (size_t)ROWS * ROW};
	struct backend_order order = {.opt = opt};

	if (arena == MAP_FAILED || mlock(arena, (size_t)ROWS * ROW))
		_exit(5);
	for (unsigned i = 0; i < ROWS; i++)
		rows[i].bytes = arena + (size_t)i * ROW;
	shared->locked_kib = locked_kib();
	snprintf(order.listen, sizeof(order.listen), "%s", (const char *)arg);
	backend_main(&order);
}

/* --- the gateway --- */

static uint8_t bodies[CALLS][ROW];
static struct call calls[CALLS];

static size_t len_of(unsigned i)
{
	return i % 5 ? 1 + (size_t)i * 331 % ROW : ROW;
}

static void send_next(struct gateway *g, unsigned i)
{
	for (size_t k = 0; k < len_of(i); k++)
		bodies[i][k] = (uint8_t)(k * 13 + i);
	call_init(&calls[i], len_of(i));
	ck_assert_int_eq(gw_send(g, &calls[i], sl_span_of(NULL, 0),
				 sl_span_of(bodies[i], len_of(i)), 0, SL_CLASS_NORMAL),
			 0);
}

static void check(unsigned i)
{
	ck_assert_uint_eq(calls[i].status, SL_RPC_OK);
	ck_assert_uint_eq(calls[i].len, len_of(i));
	for (size_t k = 0; k < len_of(i); k++)
		calls[i].body[k] ^= 0x5a;
	ck_assert_mem_eq(calls[i].body, bodies[i], len_of(i));
	call_fini(&calls[i]);
}

FIXTURE(setup, NULL)

TEST_EACH(bodies_come_and_go_without_a_copy_of_the_sdks, endpoint_cnt())
{
	const char *ep = endpoint_of(_i);
	struct backend_proc p = {harness_spawn(serve, ep, strlen(ep) + 1)};
	const unsigned cnt = harness_part(CALLS);
	struct gateway g;

	gw_open(&g, ep);
	for (unsigned i = 0; i < cnt; i++) {
		gw_until(&g, i - g.done < AT_ONCE);
		send_next(&g, i);
	}
	gw_until(&g, g.done == cnt);
	for (unsigned i = 0; i < cnt; i++)
		check(i);
	gw_close(&g);
	backend_term(p);
	ck_assert_uint_ge(shared->locked_kib, ROWS * (ROW >> 10));
	ck_assert_uint_eq(shared->wrong, 0);
	ck_assert_uint_ge(shared->placed,
			  ROWS); /* a request without a row uses memory of the SDK */
	ck_assert_uint_eq(shared->placed + shared->elsewhere, cnt);
	ck_assert_uint_eq(shared->given_back, shared->placed);
	ck_assert_uint_eq(shared->done, shared->placed);
}
