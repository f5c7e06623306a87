/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Guarantees of the SDK: any order, any thread, merging, cancellation, budget, streaming, restart,
 * drain.
 */
#include <pthread.h>
#define HARNESS_ENDPOINTS "shm,tcp,ud,ud-lossy"
#include "rpc_harness.h"
#include "rpc/session.h"
#include "suite.h"

enum { N = 100 };

/* Statistics and marks that backend and gateway process share. */
struct shared {
	_Atomic unsigned handled, merged, cancelled_seen, replied_cancelled, held, go;
};
static struct shared *shared;

static void setup(void)
{
	shared = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	ck_assert_ptr_ne(shared, MAP_FAILED);
}

static bool path_is(const struct sl_request_view *rq, const char *path)
{
	return rq->path_len == strlen(path) && memcmp(rq->path, path, rq->path_len) == 0;
}

static void echo_one(struct sl_request_view *rq)
{
	sl_reply(rq, &(struct sl_reply_args){.body = rq->body, .body_len = rq->body_len});
}

static int send_path(struct gateway *g, struct call *c, const char *path, struct sl_span body,
		     uint32_t budget_us)
{
	static uint8_t ring[4096][64]; /* must stay until it was sent */
	static unsigned next;
	uint8_t *meta = ring[next++ % 4096];
	size_t len = put_meta(meta, SL_META_PATH, path);

	return gw_send(g, c, sl_span_of(meta, len), body, budget_us, SL_CLASS_NORMAL);
}

/* --- replies by another thread, last request first --- */

struct deferred {
	pthread_mutex_t lock;
	pthread_cond_t more;
	struct sl_request_view *rq[N];
	unsigned cnt;
};

static void *reply_backwards(void *arg)
{
	struct deferred *d = arg;

	pthread_mutex_lock(&d->lock);
	while (d->cnt < N)
		pthread_cond_wait(&d->more, &d->lock);
	pthread_mutex_unlock(&d->lock);
	while (d->cnt)
		echo_one(d->rq[--d->cnt]);
	return NULL;
}

static void keep_for_thread(void *arg, struct sl_batch *batch)
{
	struct deferred *d = arg;
	static pthread_t thread;

	if (!thread)
		pthread_create(&thread, NULL, reply_backwards, d);
	pthread_mutex_lock(&d->lock);
	for (unsigned i = 0; i < batch->count; i++)
		d->rq[d->cnt++] = batch->requests[i];
	pthread_cond_signal(&d->more);
	pthread_mutex_unlock(&d->lock);
}

FIXTURE(setup, NULL)

TEST_EACH(another_thread_may_answer_in_any_order, endpoint_cnt())
{
	static struct deferred d = {.lock = PTHREAD_MUTEX_INITIALIZER,
				    .more = PTHREAD_COND_INITIALIZER};
	static struct call calls[N];
	static uint32_t body[N];
	const char *ep = endpoint_of(_i);
	struct backend_proc p = backend_start(
		&(struct sl_backend_options){.listen = ep, .on_batch = keep_for_thread, .arg = &d});
	struct gateway g;

	gw_open(&g, ep);
	for (unsigned i = 0; i < N; i++) {
		body[i] = i * 7;
		call_init(&calls[i], 4);
		ck_assert_int_eq(send_path(&g, &calls[i], "/", sl_span_of(&body[i], 4), 0), 0);
	}
	gw_until(&g, g.batches_done == N);
	for (unsigned i = 0; i < N; i++) {
		ck_assert(calls[i].done);
		ck_assert_mem_eq(calls[i].body, &body[i], 4);
		ck_assert_uint_eq(calls[i].done_seq, N - i);
		call_fini(&calls[i]);
	}
	gw_close(&g);
	backend_term(p);
}

/* --- two gateways, one batch --- */

static void wait_then_echo(void *arg, struct sl_batch *batch)
{
	bool from[2] = {false, false};

	(void)arg;
	for (unsigned i = 0; i < batch->count; i++) {
		from[0] |= path_is(batch->requests[i], "/0");
		from[1] |= path_is(batch->requests[i], "/1");
	}
	shared->merged += from[0] && from[1];
	shared->handled += batch->count;
	/* Blocks the handler until the test lets it go on. */
	if (path_is(batch->requests[0], "/first")) {
		while (shared->go < shared->handled)
			usleep(100);
	}
	for (unsigned i = 0; i < batch->count; i++)
		echo_one(batch->requests[i]);
}

/* The first request is held until all others are there. */
static void gather_then_echo(void *arg, struct sl_batch *batch)
{
	struct sl_backend_stats st = {.size = sizeof(st)};

	shared->held = 1;
	while (path_is(batch->requests[0], "/first") && st.requests < 1 + 2 * N) {
		usleep(100);
		sl_backend_stats(harness_backend, &st);
	}
	shared->go = 1;
	wait_then_echo(arg, batch);
}

TEST_EACH(two_gateways_make_one_batch, endpoint_cnt())
{
	static struct call first, calls[2][N];
	const char *ep = endpoint_of(_i);
	struct backend_proc p = backend_start(
		&(struct sl_backend_options){.listen = ep, .on_batch = gather_then_echo});
	struct gateway g[2];
	unsigned most = 0;

	gw_open(&g[0], ep);
	gw_open(&g[1], ep);
	call_init(&first, 4);
	ck_assert_int_eq(send_path(&g[0], &first, "/first", sl_span_str("x"), 0), 0);
	gw_until(&g[0], shared->held);
	for (unsigned i = 0; i < N; i++) {
		for (unsigned k = 0; k < 2; k++) {
			call_init(&calls[k][i], 4);
			ck_assert_int_eq(send_path(&g[k], &calls[k][i], k ? "/1" : "/0",
						   sl_span_str("y"), 0),
					 0);
			gw_turn(&g[k]);
		}
	}
	gw_until(&g[0], (gw_turn(&g[1]), shared->go));
	/* the replies of several batches wait for one poll, each with its own figure */
	usleep(20000);
	gw_until(&g[0], (gw_turn(&g[1]), g[0].batches_done == N + 1 && g[1].batches_done == N));
	ck_assert_uint_gt(shared->merged, 0);
	/* And each is told how many were computed with it. */
	ck_assert_uint_eq(first.together, 1);
	ck_assert_uint_eq(g[0].batch_ends[0].together, 1);
	for (unsigned i = 0; i < N; i++)
		most = calls[1][i].together > most ? calls[1][i].together : most;
	/* And its own time, whichever reply it came with. */
	ck_assert_uint_eq(g[0].batch_ends[0].service_us, first.service_us);
	for (unsigned i = 0; i < N; i++)
		ck_assert_uint_eq(g[0].batch_ends[1 + i].service_us, calls[0][i].service_us);
	ck_assert_uint_ge(most, 2);
	ck_assert_uint_le(most, 2 * N);
	gw_close(&g[0]);
	gw_close(&g[1]);
	backend_term(p);
}

/* --- budget and cancellation --- */

TEST_EACH(a_late_request_is_not_begun, endpoint_cnt())
{
	static struct call first, second, late, timed_out;
	const char *ep = endpoint_of(_i);
	struct backend_proc p = backend_start(&(struct sl_backend_options){
		.listen = ep, .on_batch = wait_then_echo, .max_batch = 1});
	struct gateway g;
	struct sl_rpc_config cfg;
	struct sl_rpc_stats st;

	sl_rpc_config_default(&cfg);
	cfg.grace_ns = 10 * SL_NS_PER_SEC;
	gw_open_with(&g, ep, &cfg);
	call_init(&first, 4);
	call_init(&second, 4);
	call_init(&late, 4);
	ck_assert_int_eq(send_path(&g, &first, "/first", sl_span_str("x"), 0), 0);
	gw_until(&g, shared->handled == 1);
	ck_assert_int_eq(send_path(&g, &second, "/first", sl_span_str("x"), 0), 0);
	ck_assert_int_eq(send_path(&g, &late, "/", sl_span_str("y"), 1000), 0);
	/* both are there, so that one poll takes both: the budget counts from then */
	usleep(100000);
	shared->go = 1;
	gw_until(&g, shared->handled == 2);
	/* Runs out behind a handler that is busy: answered, never handed over. */
	usleep(20000);
	shared->go = 2;
	gw_until(&g, g.batches_done == 3);
	ck_assert_uint_eq(late.status, SL_RPC_EXPIRED);
	ck_assert_uint_eq(gw_answered(&g, 0, 2), 2); /* a refusal says nothing on the speed */
	ck_assert_uint_eq(shared->handled, 2);
	ck_assert_uint_eq(second.status, SL_RPC_OK);
	/* And the gateway gives up by itself. */
	g.r->cfg.grace_ns = SL_NS_PER_MS;
	call_init(&timed_out, 4);
	ck_assert_int_eq(send_path(&g, &timed_out, "/first", sl_span_str("z"), 2000), 0);
	gw_until(&g, timed_out.failed);
	ck_assert_int_eq(timed_out.why, SL_RPC_FAIL_TIMEOUT);
	shared->go = 3;
	gw_until(&g, g.batches_done == 4);
	sl_rpc_channel_stats(g.ch, &st);
	ck_assert_uint_eq(st.timeouts, 1);
	ck_assert_uint_eq(gw_answered(&g, 3, 3), 0);
	gw_close(&g);
	backend_term(p);
}

static void watch_cancel(void *arg, struct sl_batch *batch)
{
	struct sl_request_view **held = arg;

	for (unsigned i = 0; i < batch->count; i++) {
		struct sl_request_view *rq = batch->requests[i];

		shared->handled++;
		if (path_is(rq, "/hold")) {
			*held = rq;
		} else if (path_is(rq, "/ask")) {
			shared->cancelled_seen = sl_request_cancelled(*held);
			shared->replied_cancelled =
				sl_reply(*held,
					 &(struct sl_reply_args){.body = "late", .body_len = 4}) ==
				-ECANCELED;
			echo_one(rq);
		} else {
			echo_one(rq);
		}
	}
}

TEST_EACH(a_handler_sees_that_a_request_was_cancelled, endpoint_cnt())
{
	static struct call held, ask;
	static struct sl_request_view *in_handler;
	const char *ep = endpoint_of(_i);
	struct backend_proc p = backend_start(&(struct sl_backend_options){
		.listen = ep, .on_batch = watch_cancel, .arg = &in_handler});
	struct gateway g;
	struct sl_rpc_stats st;

	gw_open(&g, ep);
	call_init(&held, 4);
	call_init(&ask, 4);
	ck_assert_int_eq(send_path(&g, &held, "/hold", sl_span_str("x"), 0), 0);
	gw_until(&g, shared->handled == 1);
	sl_rpc_cancel(g.ch, held.id);
	sl_rpc_cancel(g.ch, held.id);
	ck_assert_uint_eq(g.batches_done, 0); /* not from within */
	gw_until(&g, g.batches_done == 1);
	ck_assert_int_eq(send_path(&g, &ask, "/ask", sl_span_str("y"), 0), 0);
	gw_until(&g, ask.done);
	ck_assert(!held.done && !held.failed);
	ck_assert_uint_eq(shared->cancelled_seen, 1);
	ck_assert_uint_eq(shared->replied_cancelled, 1);
	gw_until(&g, g.batches_done == 2);
	ck_assert_uint_eq(gw_answered(&g, 0, 0), 0);
	ck_assert_uint_eq(gw_answered(&g, 1, 1), 1);
	sl_rpc_channel_stats(g.ch, &st);
	ck_assert_uint_eq(st.late_replies, 0);
	ck_assert_uint_eq(st.cancels, 1);
	gw_close(&g);
	backend_term(p);
}

/* --- streaming, headers, limits --- */

static void stream(void *arg, struct sl_batch *batch)
{
	(void)arg;
	for (unsigned i = 0; i < batch->count; i++) {
		struct sl_request_view *rq = batch->requests[i];
		const char *value = NULL;
		size_t len = 0;
		struct sl_header_arg h[] = {{.name = "x-a", .value_len = 1, .value = "b"},
					    {.name = "x-t", .trailer = true}};
		struct sl_reply_args a = {.content_type = "t/t",
					  .status = 201,
					  .grpc_status = 7,
					  .grpc_message = "no",
					  .headers = h,
					  .header_cnt = 2,
					  .more = true};

		if (sl_request_header(rq, "x-none", &value, &len) ||
		    sl_request_header(rq, "x-n", &value, &len) ||
		    !sl_request_header(rq, "x-name", &value, &len)) {
			sl_reply_error(rq, SL_RPC_INTERNAL);
			continue;
		}
		a.body = value;
		a.body_len = len;
		for (unsigned k = 0; k < 5; k++)
			sl_reply(rq, &a);
		a.body_len = SL_RPC_MAX_MESSAGE + 1ul;
		if (sl_reply(rq, &a) != -EMSGSIZE)
			_exit(9);
		a.body_len = 0;
		a.more = false;
		a.no_message = true;
		sl_reply(rq, &a);
	}
}

TEST_EACH(a_reply_may_come_in_parts_with_headers, endpoint_cnt())
{
	static const uint8_t expected[] = "\x04\0\x03\0t/t\x06\0\x02\0\xc9\0\x07\0\x02\0\x07\0"
					  "\x08\0\x02\0no\x05\0\x05\0\x03x-ab\x09\0\x04\0\x03x-t";
	static uint8_t meta[64];
	const char *ep = endpoint_of(_i);
	struct backend_proc p =
		backend_start(&(struct sl_backend_options){.listen = ep, .on_batch = stream});
	struct gateway g;
	struct call c, none;
	size_t len = put_meta(meta, SL_META_HEADER, "\x06x-namevalue");

	gw_open(&g, ep);
	call_init(&c, 64);
	call_init(&none, 64);
	ck_assert_int_eq(
		gw_send(&g, &c, sl_span_of(meta, len), sl_span_of(NULL, 0), 0, SL_CLASS_NORMAL), 0);
	ck_assert_int_eq(send_path(&g, &none, "/", sl_span_of(NULL, 0), 0), 0);
	gw_until(&g, g.batches_done == 2);
	ck_assert(c.done);
	ck_assert_uint_eq(c.messages, 6);
	ck_assert_uint_eq(c.no_messages, 1);
	ck_assert_uint_eq(c.len, 25);
	ck_assert_mem_eq(c.body, "valuevaluevaluevaluevalue", 25);
	ck_assert_uint_eq(c.meta_len, sizeof(expected) - 1);
	ck_assert_mem_eq(c.meta, expected, sizeof(expected) - 1);
	ck_assert_uint_eq(none.status, SL_RPC_INTERNAL);
	gw_close(&g);
	backend_term(p);
}

/* --- life of the endpoint --- */

static void echo(void *arg, struct sl_batch *batch)
{
	(void)arg;
	for (unsigned i = 0; i < batch->count; i++)
		echo_one(batch->requests[i]);
}

TEST_EACH(a_backend_may_be_started_again, endpoint_cnt())
{
	const char *ep = endpoint_of(_i);
	struct sl_backend_options opt = {.listen = ep, .on_batch = echo, .key_file = harness_key()};
	struct backend_proc p = backend_start(&opt);
	struct gateway g;
	struct call c[2];
	char err[256] = "";

	gw_open(&g, ep);
	/* A second one on the same endpoint is told so, and does not disturb the first. */
	ck_assert_ptr_null(sl_backend_open(&opt, err, sizeof(err)));
	ck_assert_msg(strstr(err, "in use") != NULL, "%s", err);
	call_init(&c[0], 8);
	call_init(&c[1], 8);
	ck_assert_int_eq(send_path(&g, &c[0], "/", sl_span_str("one"), 0), 0);
	gw_until(&g, c[0].done);
	backend_kill(p);
	gw_until(&g, g.downs == 1);
	ck_assert_int_eq(send_path(&g, &c[1], "/", sl_span_str("two"), 0), -ENOTCONN);
	p = backend_start(&opt); /* replaces the dead one's socket file */
	ck_assert_int_eq(sl_rpc_adopt(g.ch, gw_dial(ep, 256, 4 << 20), sl_now_ns()), 0);
	ck_assert_int_eq(send_path(&g, &c[1], "/", sl_span_str("two"), 0), 0);
	gw_until(&g, c[1].done);
	ck_assert_mem_eq(c[1].body, "two", 3);
	gw_until(&g, g.batches_done == 2);
	gw_close(&g);
	backend_term(p);
}

/* SIGTERM: what was sent is answered, then the channel ends in order. */
TEST_EACH(sent_requests_are_answered_before_the_end, endpoint_cnt())
{
	static struct call first, calls[N];
	const char *ep = endpoint_of(_i);
	struct backend_proc p = backend_start(
		&(struct sl_backend_options){.listen = ep, .on_batch = wait_then_echo});
	struct gateway g;

	gw_open(&g, ep);
	call_init(&first, 4);
	ck_assert_int_eq(send_path(&g, &first, "/first", sl_span_str("x"), 0), 0);
	gw_until(&g, shared->handled == 1);
	for (unsigned i = 0; i < N; i++) {
		call_init(&calls[i], 4);
		ck_assert_int_eq(send_path(&g, &calls[i], "/", sl_span_str("y"), 0), 0);
	}
	gw_turn(&g);
	kill(p.pid, SIGTERM);
	shared->go = 1;
	gw_until(&g, g.downs == 1);
	ck_assert_uint_eq(g.drains, 1);
	ck_assert_uint_eq(g.done, N + 1);
	ck_assert_uint_eq(g.failed, 0);
	for (unsigned i = 0; i < N; i++)
		ck_assert_uint_eq(calls[i].status, SL_RPC_OK);
	ck_assert_int_eq(backend_wait(p), 0);
	gw_close(&g);
}

/* Event mode on both sides: no wake-up is lost, however requests and sleeps meet. */
TEST_EACH(no_wake_up_is_lost, endpoint_cnt())
{
	const char *ep = endpoint_of(_i);
	struct backend_proc p =
		backend_start(&(struct sl_backend_options){.listen = ep, .on_batch = echo});
	const unsigned cnt = harness_part(3000);
	struct gateway g;
	uint32_t body = 0;

	gw_open(&g, ep);
	for (unsigned i = 0; i < cnt; i++) {
		struct call c;
		uint8_t reply[4];

		c = (struct call){.body = reply, .cap = 4};
		body = i;
		if (i % 16 == 0)
			usleep(i % 700); /* the backend is asleep, or about to be */
		ck_assert_int_eq(send_path(&g, &c, "/", sl_span_of(&body, 4), 0), 0);
		while (!c.done) {
			uint64_t now = sl_now_ns();

			sl_rpc_poll(g.r, now);
			sl_rpc_flush(g.r, now);
			if (c.done || !sl_rpc_arm(g.r))
				continue;
			harness_sleep(sl_rpc_fd(g.r));
			sl_rpc_disarm(g.r, true);
		}
		ck_assert_mem_eq(reply, &body, 4);
	}
	gw_until(&g, g.batches_done == cnt);
	gw_close(&g);
	backend_term(p);
}

/* Over RDMA it is pinned, which takes as long as the rest of a connection. */
TEST_EACH(a_ring_is_as_long_as_suits_its_transport, endpoint_cnt())
{
	const char *ep = endpoint_of(_i);
	struct sl_backend_options opt = {.listen = ep, .on_batch = echo, .key_file = harness_key()};
	struct backend_proc p = backend_start(&opt);
	struct gateway g;
	uint32_t len;

	gw_open(&g, ep);
	len = g.ch->link.t->credits.bulk_len;
	if (strncmp(ep, "shm://", 6) == 0)
		ck_assert_uint_eq(len, 4 << 20);
	if (strncmp(ep, "rdma://", 7) == 0)
		ck_assert_uint_eq(len, 1 << 20);
	gw_close(&g);
	backend_term(p);
}

TEST_EACH(an_unknown_endpoint_is_refused, 1)
{
	struct sl_rpc_dial_options opt = {
		.endpoint = "udp://x", .bulk_ring_len = 1 << 20, .slots = 64, .timeout_ms = 100};
	struct sl_err err = SL_ERR(256);
	uint64_t start;

	(void)_i;
	ck_assert_ptr_null(sl_rpc_dial(&opt, &err));
	ck_assert_ptr_nonnull(strstr(err.text, "expected shm:///path"));
	opt.endpoint = "shm:///tmp/sl-rpc-nobody-there.sock";
	start = sl_now_ns();
	ck_assert_ptr_null(sl_rpc_dial(&opt, &err));
	ck_assert_ptr_nonnull(strstr(err.text, "is the backend running?"));
	ck_assert_uint_lt(sl_now_ns() - start, 10 * SL_NS_PER_SEC);
	opt.endpoint = "shm://relative";
	ck_assert_ptr_null(sl_rpc_dial(&opt, &err));
	ck_assert_ptr_nonnull(strstr(err.text, "absolute path"));
}
