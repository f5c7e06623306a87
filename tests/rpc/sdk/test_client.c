/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The client library (sluice/client.h) against servers in other processes: calls, batches, streams,
 * deadlines, cancellation, retries, lists of servers, both kinds of loop.
 */
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#define HARNESS_ENDPOINTS "shm,tcp,ud"
#include "rpc_harness.h"
#include "sluice/client.h"
#include "suite.h"

enum { THREADS = 4, CALLS = 200, LONG = 3 << 20, WINDOW_LEN = 200 << 10 };

/* Counters that the servers and the test share. */
static struct shared {
	_Atomic unsigned handled, largest_batch, cancelled, begun;
	_Atomic unsigned go;
} * shared;

static void setup(void)
{
	shared = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	ck_assert_ptr_ne(shared, MAP_FAILED);
}

static void wait_for(_Atomic unsigned *value, unsigned least)
{
	uint64_t until_ns = sl_now_ns() + harness_timeout_s() * SL_NS_PER_SEC;

	while (atomic_load(value) < least) {
		ck_assert_uint_lt(sl_now_ns(), until_ns);
		usleep(200);
	}
}

/* --- servers --- */

static bool path_is(const struct sl_request_view *rq, const char *path)
{
	return rq->path_len == strlen(path) && memcmp(rq->path, path, rq->path_len) == 0;
}

static void answer_kind(struct sl_request_view *rq)
{
	static const struct sl_header_arg header = {"x-kind", "header", 6, false};
	const char *value = "";
	size_t value_len = 0;

	sl_request_header(rq, "x-asked", &value, &value_len);
	sl_reply(rq, &(struct sl_reply_args){.body = value,
					     .body_len = value_len,
					     .status = 404,
					     .content_type = "text/plain",
					     .headers = &header,
					     .header_cnt = 1});
}

static void answer_long(struct sl_request_view *rq)
{
	uint8_t *bytes = malloc(LONG);

	for (size_t i = 0; i < LONG; i++)
		bytes[i] = (uint8_t)(i * 7);
	sl_reply(rq, &(struct sl_reply_args){.body = bytes, .body_len = LONG});
	free(bytes);
}

static void answer_one(struct sl_request_view *rq)
{
	if (path_is(rq, "/kind"))
		answer_kind(rq);
	else if (path_is(rq, "/long"))
		answer_long(rq);
	else if (path_is(rq, "/refuse"))
		sl_reply_error(rq, SL_RPC_REFUSED);
	else if (path_is(rq, "/fail"))
		sl_reply_error(rq, SL_RPC_INTERNAL);
	else if (path_is(rq, "/die"))
		_exit(0);
	else
		sl_reply(rq, &(struct sl_reply_args){.body = rq->body, .body_len = rq->body_len});
}

static void on_cancelled(void *arg, struct sl_request_view *rq)
{
	(void)arg;
	shared->cancelled++;
	sl_reply_error(rq, SL_RPC_CANCELLED);
}

static void handle(void *arg, struct sl_batch *batch)
{
	(void)arg;
	if (batch->count > shared->largest_batch)
		shared->largest_batch = batch->count;
	for (unsigned i = 0; i < batch->count; i++) {
		shared->handled++;
		if (!path_is(batch->requests[i], "/never"))
			answer_one(batch->requests[i]);
	}
}

/* Streams: each message comes back, then the number of bytes. */
struct echo {
	size_t len;
};

static void stream_open(void *arg, struct sl_request_view *rq)
{
	(void)arg;
	rq->own = calloc(1, sizeof(struct echo));
}

static void stream_data(void *arg, struct sl_request_view *rq, const void *bytes, size_t len,
			size_t left)
{
	struct echo *e = rq->own;

	(void)arg, (void)bytes, (void)left;
	e->len += len;
	if (len < 100)
		sl_reply(rq, &(struct sl_reply_args){.body = bytes, .body_len = len, .more = true});
}

static void stream_end(void *arg, struct sl_request_view *rq)
{
	struct echo *e = rq->own;
	char text[32];
	int len = snprintf(text, sizeof(text), "%zu", e->len);

	(void)arg;
	free(e);
	sl_reply(rq, &(struct sl_reply_args){.body = text, .body_len = (size_t)len});
}

static void stream_cancel(void *arg, struct sl_request_view *rq)
{
	(void)arg;
	shared->cancelled++;
	free(rq->own);
	sl_reply_error(rq, SL_RPC_CANCELLED);
}

static const struct sl_stream_ops stream_ops = {.on_open = stream_open,
						.on_data = stream_data,
						.on_end = stream_end,
						.on_cancel = stream_cancel};

static struct backend_proc start_server(const char *endpoint)
{
	return backend_start(&(struct sl_backend_options){.listen = endpoint,
							  .on_batch = handle,
							  .on_cancel = on_cancelled,
							  .on_stream = &stream_ops});
}

/* --- client --- */

static struct sl_rpc_client *open_with(struct sl_rpc_client_options opt)
{
	char err[512] = "";
	struct sl_rpc_client *c;

	opt.size = sizeof(opt);
	opt.key_file = harness_key();
	c = sl_rpc_client_open(&opt, err, sizeof(err));
	ck_assert_msg(c != NULL, "%s", err);
	return c;
}

static struct sl_rpc_client *open_client(const char *endpoints, bool own_loop)
{
	struct sl_rpc_client *c = open_with(
		(struct sl_rpc_client_options){.endpoints = endpoints, .own_loop = own_loop});
	char err[512] = "";
	int rc = sl_rpc_client_wait_connected(c, harness_timeout_s() * 1000, err, sizeof(err));

	ck_assert_msg(rc == 0, "%s", err);
	return c;
}

static struct sl_rpc_call_args args_of(const char *path, const char *body)
{
	return (struct sl_rpc_call_args){.size = sizeof(struct sl_rpc_call_args),
					 .path = path,
					 .body = body,
					 .body_len = strlen(body)};
}

static void expect_echo(struct sl_rpc_client *c, const char *text)
{
	struct sl_rpc_call_args args = args_of("/", text);
	struct sl_rpc_call_reply *reply;

	ck_assert_int_eq(sl_rpc_client_call(c, &args, &reply), 0);
	ck_assert_uint_eq(reply->body_len, strlen(text));
	ck_assert_mem_eq(reply->body, text, strlen(text));
	ck_assert_uint_eq(reply->status, 200);
	sl_rpc_call_reply_free(reply);
}

/* What callbacks have seen. */
struct seen {
	_Atomic unsigned ends, data, writable;
	int error;
	size_t bytes;
	char last[64];
	size_t last_len;
	uint32_t attempts;
};

static void on_end(void *user_data, uint64_t call, const struct sl_rpc_call_reply *reply)
{
	struct seen *s = user_data;

	(void)call;
	s->error = reply->error;
	s->attempts = reply->attempts;
	s->ends++;
}

static void on_data(void *user_data, uint64_t call, const struct sl_rpc_call_reply *reply,
		    const void *bytes, size_t len, size_t left)
{
	struct seen *s = user_data;

	(void)call, (void)reply, (void)left;
	s->bytes += len;
	s->last_len = len < sizeof(s->last) ? len : sizeof(s->last);
	memcpy(s->last, bytes, s->last_len);
	s->data++;
}

static void on_writable(void *user_data, uint64_t call)
{
	struct seen *s = user_data;

	(void)call;
	s->writable++;
}

static uint64_t begin(struct sl_rpc_client *c, struct sl_rpc_call_args args, struct seen *s)
{
	uint64_t call;

	args.user_data = s;
	args.on_end = on_end;
	ck_assert_int_eq(sl_rpc_client_submit(c, &args, 1, &call), 0);
	return call;
}

FIXTURE(setup, NULL)
SUITE_TIMEOUT(120)

TEST_EACH(a_call_returns_the_reply_of_the_server, 2 * endpoint_cnt())
{
	struct backend_proc p = start_server(endpoint_of(_i / 2));
	struct sl_rpc_client *c = open_client(endpoint_of(_i / 2), _i % 2);

	expect_echo(c, "first");
	expect_echo(c, "");
	sl_rpc_client_close(c);
	backend_term(p);
}

TEST_EACH(headers_and_status_pass_in_both_directions, endpoint_cnt())
{
	struct backend_proc p = start_server(endpoint_of(_i));
	struct sl_rpc_client *c = open_client(endpoint_of(_i), false);
	struct sl_header_arg asked = {"x-asked", "question", 8, false};
	struct sl_rpc_call_args args = args_of("/kind", "");
	struct sl_rpc_call_reply *reply;
	const char *value;
	size_t len;

	args.headers = &asked;
	args.header_cnt = 1;
	ck_assert_int_eq(sl_rpc_client_call(c, &args, &reply), 0);
	ck_assert_uint_eq(reply->status, 404);
	ck_assert_mem_eq(reply->content_type, "text/plain", 10);
	ck_assert(sl_rpc_call_reply_header(reply, "x-kind", &value, &len));
	ck_assert_mem_eq(value, "header", len);
	ck_assert(!sl_rpc_call_reply_header(reply, "x-kin", &value, &len));
	ck_assert_mem_eq(reply->body, "question", reply->body_len);
	sl_rpc_call_reply_free(reply);
	sl_rpc_client_close(c);
	backend_term(p);
}

TEST_EACH(a_long_reply_is_collected_and_limited, endpoint_cnt())
{
	struct backend_proc p = start_server(endpoint_of(_i));
	struct sl_rpc_client *c = open_client(endpoint_of(_i), false);
	struct sl_rpc_call_args args = args_of("/long", "");
	struct sl_rpc_call_reply *reply;
	size_t wrong = 0;

	ck_assert_int_eq(sl_rpc_client_call(c, &args, &reply), 0);
	ck_assert_uint_eq(reply->body_len, LONG);
	for (size_t i = 0; i < LONG; i++)
		wrong += ((const uint8_t *)reply->body)[i] != (uint8_t)(i * 7);
	ck_assert_uint_eq(wrong, 0);
	sl_rpc_call_reply_free(reply);
	sl_rpc_client_close(c);
	c = open_with((struct sl_rpc_client_options){.endpoints = endpoint_of(_i),
						     .max_reply = LONG - 1});
	ck_assert_int_eq(sl_rpc_client_call(c, &args, &reply), -EMSGSIZE);
	ck_assert_ptr_null(reply);
	expect_echo(c, "afterwards");
	sl_rpc_client_close(c);
	backend_term(p);
}

TEST_EACH(calls_of_a_batch_reach_the_handler_together, endpoint_cnt())
{
	struct backend_proc p = start_server(endpoint_of(_i));
	struct sl_rpc_client *c = open_client(endpoint_of(_i), true);
	struct sl_rpc_call_args args[CALLS];
	struct sl_rpc_call_reply *replies[CALLS];
	char text[CALLS][16];

	for (unsigned i = 0; i < CALLS; i++) {
		snprintf(text[i], sizeof(text[i]), "call %u", i);
		args[i] = args_of("/", text[i]);
	}
	ck_assert_int_eq(sl_rpc_client_call_batch(c, args, CALLS, replies), 0);
	for (unsigned i = 0; i < CALLS; i++) {
		ck_assert_int_eq(replies[i]->error, 0);
		ck_assert_uint_eq(replies[i]->body_len, strlen(text[i]));
		ck_assert_mem_eq(replies[i]->body, text[i], strlen(text[i]));
		sl_rpc_call_reply_free(replies[i]);
	}
	/* one message: the handler is idle when it arrives */
	ck_assert_uint_eq(shared->largest_batch, CALLS);
	ck_assert_uint_eq(shared->handled, CALLS);
	sl_rpc_client_close(c);
	backend_term(p);
}

struct worker {
	pthread_t thread;
	struct sl_rpc_client *c;
	unsigned number;
};

static void *call_many(void *arg)
{
	struct worker *w = arg;
	char text[32];

	for (unsigned i = 0; i < CALLS; i++) {
		snprintf(text, sizeof(text), "%u of %u", i, w->number);
		expect_echo(w->c, text);
	}
	return NULL;
}

TEST_EACH(threads_share_a_client, endpoint_cnt())
{
	struct backend_proc p = start_server(endpoint_of(_i));
	struct sl_rpc_client *c = open_client(endpoint_of(_i), false);
	struct sl_rpc_client_stats stats = {.size = sizeof(stats)};
	struct worker workers[THREADS];

	for (unsigned i = 0; i < THREADS; i++) {
		workers[i] = (struct worker){.c = c, .number = i};
		ck_assert_int_eq(pthread_create(&workers[i].thread, NULL, call_many, &workers[i]),
				 0);
	}
	for (unsigned i = 0; i < THREADS; i++)
		pthread_join(workers[i].thread, NULL);
	sl_rpc_client_stats(c, &stats);
	ck_assert_uint_eq(stats.calls, THREADS * CALLS);
	ck_assert_uint_eq(stats.replies, THREADS * CALLS);
	ck_assert_uint_eq(stats.open_calls, 0);
	ck_assert_uint_eq(stats.servers_connected, 1);
	sl_rpc_client_close(c);
	backend_term(p);
}

static void run_foreign(struct sl_rpc_client *c, const _Atomic unsigned *ends, unsigned least)
{
	uint64_t until_ns = sl_now_ns() + harness_timeout_s() * SL_NS_PER_SEC, wait_us;
	struct pollfd fd = {.fd = sl_rpc_client_fd(c), .events = POLLIN};

	while (atomic_load(ends) < least) {
		ck_assert_uint_lt(sl_now_ns(), until_ns);
		ck_assert_int_eq(sl_rpc_client_prepare(c, &wait_us), 0);
		poll(&fd, 1, wait_us < 1000000 ? (int)(wait_us / 1000 + !!wait_us) : 1000);
		ck_assert_int_ge(sl_rpc_client_process(c), 0);
		ck_assert_int_eq(sl_rpc_client_fd(c), fd.fd);
	}
}

TEST_EACH(a_foreign_loop_waits_for_one_descriptor, endpoint_cnt())
{
	struct backend_proc p = start_server(endpoint_of(_i));
	struct sl_rpc_client *c = open_with(
		(struct sl_rpc_client_options){.endpoints = endpoint_of(_i), .own_loop = true});
	struct seen seen = {0};

	for (unsigned i = 0; i < 50; i++) {
		begin(c, args_of("/", "loop"), &seen);
		if (i % 5 == 4)
			run_foreign(c, &seen.ends, i + 1);
	}
	ck_assert_int_eq(seen.error, 0);
	sl_rpc_client_close(c);
	backend_term(p);
}

TEST_EACH(a_stream_passes_messages_both_ways, endpoint_cnt())
{
	struct backend_proc p = start_server(endpoint_of(_i));
	struct sl_rpc_client *c = open_client(endpoint_of(_i), false);
	struct sl_rpc_call_args args = args_of("/stream", "");
	static char bytes[WINDOW_LEN];
	struct seen seen = {0};
	size_t sent = 4;
	uint64_t call;
	int rc;

	args.stream = true;
	args.on_data = on_data;
	args.on_writable = on_writable;
	call = begin(c, args, &seen);
	ck_assert_int_eq(sl_rpc_stream_send(c, call, "ping", 4, false), 0);
	wait_for(&seen.data, 1);
	ck_assert_mem_eq(seen.last, "ping", 4);
	/* more than the credit, and than the client stores */
	for (unsigned i = 0; i < 20; i++) {
		unsigned writable = seen.writable;

		while ((rc = sl_rpc_stream_send(c, call, bytes, sizeof(bytes), false)) == -EAGAIN) {
			wait_for(&seen.writable, writable + 1);
			writable = seen.writable;
		}
		ck_assert_int_eq(rc, 0);
		sent += sizeof(bytes);
	}
	ck_assert_uint_gt(seen.writable, 0);
	while ((rc = sl_rpc_stream_send(c, call, NULL, 0, true)) == -EAGAIN)
		usleep(100);
	ck_assert_int_eq(rc, 0);
	ck_assert_int_eq(sl_rpc_stream_send(c, call, "x", 1, false), -EPIPE);
	wait_for(&seen.ends, 1);
	ck_assert_int_eq(seen.error, 0);
	snprintf(bytes, sizeof(bytes), "%zu", sent);
	ck_assert_uint_eq(seen.last_len, strlen(bytes));
	ck_assert_mem_eq(seen.last, bytes, seen.last_len);
	sl_rpc_client_close(c);
	backend_term(p);
}

TEST_EACH(a_paused_reply_is_stored_within_its_credit, endpoint_cnt())
{
	struct backend_proc p = start_server(endpoint_of(_i));
	struct sl_rpc_client *c = open_client(endpoint_of(_i), false);
	struct sl_rpc_call_args args = args_of("/long", "");
	struct seen seen = {0};
	uint64_t call;

	args.on_data = on_data;
	args.user_data = &seen;
	args.on_end = on_end;
	call = begin(c, args, &seen);
	sl_rpc_stream_pause(c, call);
	expect_echo(c, "in between");
	usleep(50000);
	ck_assert_uint_le(seen.bytes, 4 * SL_RPC_INITIAL_WINDOW);
	ck_assert_uint_eq(seen.ends, 0);
	sl_rpc_stream_resume(c, call);
	wait_for(&seen.ends, 1);
	ck_assert_int_eq(seen.error, 0);
	ck_assert_uint_eq(seen.bytes, LONG);
	sl_rpc_client_close(c);
	backend_term(p);
}

TEST_EACH(a_deadline_ends_a_call_that_is_not_answered, endpoint_cnt())
{
	struct backend_proc p = start_server(endpoint_of(_i));
	struct sl_rpc_client *c = open_client(endpoint_of(_i), false);
	struct sl_rpc_call_args args = args_of("/never", "");
	struct sl_rpc_call_reply *reply;

	args.deadline_us = 20000;
	ck_assert_int_eq(sl_rpc_client_call(c, &args, &reply), -ETIMEDOUT);
	wait_for(&shared->cancelled, 1);
	sl_rpc_client_close(c);
	backend_term(p);
}

TEST_EACH(a_cancelled_call_ends_once_and_the_server_hears_of_it, endpoint_cnt())
{
	struct backend_proc p = start_server(endpoint_of(_i));
	struct sl_rpc_client *c = open_client(endpoint_of(_i), false);
	struct seen seen = {0};
	uint64_t call = begin(c, args_of("/never", ""), &seen);

	wait_for(&shared->handled, 1);
	sl_rpc_client_cancel(c, call);
	sl_rpc_client_cancel(c, call);
	wait_for(&seen.ends, 1);
	ck_assert_int_eq(seen.error, -ECANCELED);
	wait_for(&shared->cancelled, 1);
	sl_rpc_client_cancel(c, call);
	sl_rpc_client_cancel(c, UINT64_MAX);
	expect_echo(c, "after");
	ck_assert_uint_eq(seen.ends, 1);
	sl_rpc_client_close(c);
	backend_term(p);
}

TEST_EACH(closing_ends_each_call_once, endpoint_cnt())
{
	struct backend_proc p = start_server(endpoint_of(_i));
	struct sl_rpc_client *c = open_client(endpoint_of(_i), _i % 2);
	struct sl_rpc_call_args stream = args_of("/stream", "");
	struct seen seen = {0};

	stream.stream = true;
	stream.on_data = on_data;
	for (unsigned i = 0; i < 20; i++)
		begin(c, i % 2 ? args_of("/never", "x") : stream, &seen);
	sl_rpc_client_close(c);
	ck_assert_uint_eq(seen.ends, 20);
	ck_assert_int_eq(seen.error, -ECANCELED);
	backend_term(p);
}

TEST_EACH(an_error_of_the_server_is_told, endpoint_cnt())
{
	struct backend_proc p = start_server(endpoint_of(_i));
	struct sl_rpc_client *c = open_client(endpoint_of(_i), false);
	struct sl_rpc_call_args args = args_of("/fail", "");
	struct sl_rpc_call_reply *reply;

	ck_assert_int_eq(sl_rpc_client_call(c, &args, &reply), -EREMOTEIO);
	args = args_of("/refuse", "");
	ck_assert_int_eq(sl_rpc_client_call(c, &args, &reply), -EBUSY);
	sl_rpc_client_close(c);
	backend_term(p);
}

/* Of a server that dies: in this process's name, since a path or address has one server. */
static void second_endpoint(const char *first, char *to, size_t len)
{
	if (strncmp(first, "shm", 3) == 0)
		snprintf(to, len, "%.200s2", first);
	else
		snprintf(to, len, "%.*s:7472", (int)(strrchr(first, ':') - first), first);
}

static void wait_for_servers(struct sl_rpc_client *c, unsigned listed, unsigned connected)
{
	uint64_t until_ns = sl_now_ns() + harness_timeout_s() * SL_NS_PER_SEC;
	struct sl_rpc_client_stats stats = {.size = sizeof(stats)};

	do {
		ck_assert_uint_lt(sl_now_ns(), until_ns);
		usleep(1000);
		sl_rpc_client_stats(c, &stats);
	} while (stats.servers != listed || stats.servers_connected != connected);
}

TEST_EACH(only_an_idempotent_call_is_repeated_elsewhere, endpoint_cnt())
{
	char first[240], second[256], both[512];
	struct sl_rpc_call_args args = args_of("/die", "");
	struct sl_rpc_call_reply *reply;
	struct backend_proc p, q;
	struct sl_rpc_client *c;

	snprintf(first, sizeof(first), "%s", endpoint_of(_i));
	second_endpoint(first, second, sizeof(second));
	snprintf(both, sizeof(both), "%s,%s", first, second);
	p = start_server(first);
	q = start_server(second);
	c = open_with((struct sl_rpc_client_options){.endpoints = both, .connect_timeout_ms = 500});
	wait_for_servers(c, 2, 2);
	ck_assert_int_eq(sl_rpc_client_call(c, &args, &reply), -ECONNRESET);
	ck_assert_uint_eq(shared->handled, 1);
	/* One server is left: it dies, too; then no server is connected. */
	args.idempotent = true;
	ck_assert_int_eq(sl_rpc_client_call(c, &args, &reply), -EHOSTUNREACH);
	ck_assert_uint_eq(shared->handled, 2);
	sl_rpc_client_close(c);
	backend_wait(p);
	backend_wait(q);
	if (strncmp(second, "shm://", 6) == 0)
		unlink(second + 6);
}

TEST_EACH(a_call_waits_while_the_server_restarts, endpoint_cnt())
{
	struct backend_proc p = start_server(endpoint_of(_i));
	struct sl_rpc_client *c = open_with((struct sl_rpc_client_options){
		.endpoints = endpoint_of(_i), .connect_timeout_ms = harness_timeout_s() * 1000});
	struct sl_rpc_client_stats stats = {.size = sizeof(stats)};

	expect_echo(c, "before");
	backend_term(p);
	p = start_server(endpoint_of(_i));
	expect_echo(c, "after");
	sl_rpc_client_stats(c, &stats);
	ck_assert_uint_ge(stats.connects, 2);
	sl_rpc_client_close(c);
	backend_term(p);
}

TEST(a_call_without_a_server_ends_in_time_with_a_reason)
{
	struct sl_rpc_client *c = open_with((struct sl_rpc_client_options){
		.endpoints = "shm:///nonexistent/x.sock", .connect_timeout_ms = 50});
	struct sl_rpc_call_args args = args_of("/", "");
	struct sl_rpc_call_reply *reply;
	char err[512];

	ck_assert_int_eq(sl_rpc_client_wait_connected(c, 20, err, sizeof(err)), -ETIMEDOUT);
	ck_assert_ptr_nonnull(strstr(err, "/nonexistent/x.sock"));
	ck_assert_int_eq(sl_rpc_client_call(c, &args, &reply), -EHOSTUNREACH);
	args.deadline_us = 1000;
	ck_assert_int_eq(sl_rpc_client_call(c, &args, &reply), -ETIMEDOUT);
	sl_rpc_client_close(c);
}

static void write_members(const char *file, const char *text)
{
	char next[64];
	FILE *f;

	snprintf(next, sizeof(next), "%s.new", file);
	f = fopen(next, "we");
	ck_assert_ptr_nonnull(f);
	fputs(text, f);
	fclose(f);
	ck_assert_int_eq(rename(next, file), 0);
}

TEST_EACH(a_file_of_members_is_followed, endpoint_cnt())
{
	char first[240], second[256], text[600], file[] = "/tmp/sl-members-XXXXXX";
	struct backend_proc p, q;
	struct sl_rpc_client *c;
	int fd = mkstemp(file);

	ck_assert_int_ge(fd, 0);
	close(fd);
	snprintf(first, sizeof(first), "%s", endpoint_of(_i));
	second_endpoint(first, second, sizeof(second));
	p = start_server(first);
	q = start_server(second);
	snprintf(text, sizeof(text), "# servers\n%s\n", first);
	write_members(file, text);
	c = open_with(
		(struct sl_rpc_client_options){.members_file = file, .connect_timeout_ms = 500});
	wait_for_servers(c, 1, 1);
	snprintf(text, sizeof(text), "%s # one\n\n%s\n", first, second);
	write_members(file, text);
	wait_for_servers(c, 2, 2);
	/* a file with an error is not applied */
	write_members(file, "http://x\n");
	usleep(1200000);
	wait_for_servers(c, 2, 2);
	snprintf(text, sizeof(text), "%s\n", second);
	write_members(file, text);
	wait_for_servers(c, 1, 1);
	backend_term(p);
	expect_echo(c, "second");
	sl_rpc_client_close(c);
	backend_term(q);
	unlink(file);
	if (strncmp(second, "shm://", 6) == 0)
		unlink(second + 6);
}

/* --- arguments --- */

static void expect_no_client(struct sl_rpc_client_options opt, const char *line)
{
	char err[512] = "";

	ck_assert_ptr_null(sl_rpc_client_open(&opt, err, sizeof(err)));
	ck_assert_str_eq(err, line);
}

TEST(wrong_options_give_one_line)
{
	struct sl_rpc_client_options o = {.size = sizeof(o)};
	struct {
		struct sl_rpc_client_options known;
		uint64_t unknown;
	} newer = {.known = {.size = sizeof(newer), .endpoints = "shm:///x"}, .unknown = 1};
	char err[256];

	expect_no_client(o, "found none; allowed: one of endpoints and members_file");
	o.endpoints = "http://a";
	expect_no_client(o, "endpoints: found \"http://a\"; allowed: shm:///path, "
			    "rdma://address:port, rdma+ud://address:port, tcp://host:port");
	o.endpoints = "shm:///a, shm:///a";
	expect_no_client(o, "endpoints: found shm:///a twice; allowed: once");
	o.endpoints = "shm:///a";
	o.max_calls = 1 << 21;
	expect_no_client(o, "max_calls: found 2097152; allowed: at most 1048576");
	o.size = 8;
	ck_assert_ptr_null(sl_rpc_client_open(&o, err, sizeof(err)));
	ck_assert_ptr_nonnull(strstr(err, "size: found 8; allowed: sizeof(options)"));
	ck_assert_ptr_null(sl_rpc_client_open(&newer.known, err, sizeof(err)));
	ck_assert_str_eq(err, "options of a newer library are set");
}

TEST(wrong_arguments_of_a_call_change_nothing)
{
	struct sl_rpc_client *c = open_with(
		(struct sl_rpc_client_options){.endpoints = "shm:///nonexistent", .max_calls = 2});
	struct sl_header_arg split = {"x-a", "b\r\nc", 4, false}, upper = {"X-A", "b", 1, false};
	struct sl_rpc_call_args args[3] = {args_of("/", ""), args_of("/", ""), args_of("/", "")};
	struct sl_rpc_client_stats stats = {.size = sizeof(stats)};
	struct seen seen = {0};
	uint64_t calls[3];

	for (unsigned i = 0; i < 3; i++) {
		args[i].on_end = on_end;
		args[i].user_data = &seen;
	}
	ck_assert_int_eq(sl_rpc_client_submit(c, args, 3, calls), -EAGAIN);
	ck_assert_int_eq(sl_rpc_client_submit(c, args, 0, calls), -EINVAL);
	args[1].priority = SL_CLASS_CNT;
	ck_assert_int_eq(sl_rpc_client_submit(c, args, 2, calls), -EINVAL);
	args[1].priority = 0;
	args[1].header_cnt = 1;
	args[1].headers = &split;
	ck_assert_int_eq(sl_rpc_client_submit(c, args, 2, calls), -EINVAL);
	args[1].headers = &upper;
	ck_assert_int_eq(sl_rpc_client_submit(c, args, 2, calls), -EINVAL);
	args[1].header_cnt = 0;
	args[1].body_len = (size_t)SL_RPC_MAX_MESSAGE + 1;
	ck_assert_int_eq(sl_rpc_client_submit(c, args, 2, calls), -EMSGSIZE);
	args[1].body_len = 0;
	args[1].stream = true;
	ck_assert_int_eq(sl_rpc_client_submit(c, args, 2, calls), -EINVAL);
	sl_rpc_client_stats(c, &stats);
	ck_assert_uint_eq(stats.calls, 0);
	ck_assert_uint_eq(stats.open_calls, 0);
	ck_assert_uint_eq(seen.ends, 0);
	args[1].stream = false;
	ck_assert_int_eq(sl_rpc_client_submit(c, args, 2, calls), 0);
	sl_rpc_client_close(c);
	ck_assert_uint_eq(seen.ends, 2);
}

static void call_within(void *user_data, uint64_t call, const struct sl_rpc_call_reply *reply)
{
	struct seen *s = user_data;
	struct sl_rpc_call_args args = args_of("/", "");
	struct sl_rpc_call_reply *inner;

	(void)call, (void)reply;
	s->error = sl_rpc_client_call(*(struct sl_rpc_client **)s->last, &args, &inner);
	s->ends++;
}

TEST(waiting_within_a_callback_is_an_error)
{
	struct sl_rpc_client *c = open_with((struct sl_rpc_client_options){
		.endpoints = "shm:///nonexistent", .connect_timeout_ms = 10});
	struct sl_rpc_call_args args = args_of("/", "");
	struct seen seen = {0};

	memcpy(seen.last, &c, sizeof(struct sl_rpc_client *));
	args.on_end = call_within;
	args.user_data = &seen;
	ck_assert_int_eq(sl_rpc_client_submit(c, &args, 1, NULL), 0);
	wait_for(&seen.ends, 1);
	ck_assert_int_eq(seen.error, -EDEADLK);
	sl_rpc_client_close(c);
}
