/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Priority classes on one connection of the client library: urgent calls overtake a bulk transfer
 * on the way to the server, and urgent replies overtake bulk replies, whose class the server
 * chooses. The tests compare counts: what is on the way when the urgent ones begin stays ahead.
 */
#include <poll.h>
#define HARNESS_ENDPOINTS "shm,tcp,ud"
#include "rpc_harness.h"
#include "sluice/client.h"
#include "suite.h"

enum { BULK = 64, BULK_LEN = 512 << 10, REPLIES = 300, REPLY_LEN = 60 << 10, URGENT = 20 };

static struct shared {
	_Atomic unsigned bulk, urgent, bulk_before_urgent, received, gathered;
	_Atomic bool client_waits;
	bool same_class;
} * shared;

static void setup(void)
{
	shared = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	ck_assert_ptr_ne(shared, MAP_FAILED);
}

static struct sl_rpc_client *open_client(const char *endpoint)
{
	struct sl_rpc_client_options opt = {.size = sizeof(opt),
					    .endpoints = endpoint,
					    .key_file = harness_key(),
					    .own_loop = true};
	char err[512] = "";
	struct sl_rpc_client *c = sl_rpc_client_open(&opt, err, sizeof(err));

	ck_assert_msg(c != NULL, "%s", err);
	ck_assert_msg(
		!sl_rpc_client_wait_connected(c, harness_timeout_s() * 1000, err, sizeof(err)),
		"%s", err);
	return c;
}

/* Ends of calls, in order. */
static struct ends {
	unsigned bulk, urgent, bulk_before_urgent;
} ends;

static void on_bulk_end(void *user_data, uint64_t call, const struct sl_rpc_call_reply *reply)
{
	(void)user_data, (void)call;
	ck_assert_int_eq(reply->error, 0);
	ends.bulk++;
}

static void on_urgent_end(void *user_data, uint64_t call, const struct sl_rpc_call_reply *reply)
{
	(void)user_data, (void)call;
	ck_assert_int_eq(reply->error, 0);
	ends.urgent++;
	ends.bulk_before_urgent = ends.bulk;
}

static void submit(struct sl_rpc_client *c, bool urgent, uint8_t class, size_t len)
{
	static uint8_t bytes[BULK_LEN];
	struct sl_rpc_call_args args = {.size = sizeof(args),
					.path = urgent ? "/urgent" : "/bulk",
					.body = bytes,
					.body_len = len,
					.priority = class,
					.on_end = urgent ? on_urgent_end : on_bulk_end};

	ck_assert_int_eq(sl_rpc_client_submit(c, &args, 1, NULL), 0);
}

static void process_until_all(struct sl_rpc_client *c, unsigned bulk)
{
	uint64_t until_ns = sl_now_ns() + harness_timeout_s() * SL_NS_PER_SEC;

	while (ends.bulk < bulk || ends.urgent < URGENT) {
		ck_assert_uint_lt(sl_now_ns(), until_ns);
		ck_assert_int_ge(sl_rpc_client_process(c), 0);
	}
}

static bool is_urgent(const struct sl_request_view *rq)
{
	return rq->path_len == 7 && memcmp(rq->path, "/urgent", 7) == 0;
}

/* --- calls --- */

static void count(void *arg, struct sl_batch *batch)
{
	(void)arg;
	for (unsigned i = 0; i < batch->count; i++) {
		if (is_urgent(batch->requests[i])) {
			shared->urgent++;
			shared->bulk_before_urgent = shared->bulk;
		} else {
			shared->bulk++;
		}
		sl_reply(batch->requests[i], &(struct sl_reply_args){.status = 200});
	}
}

FIXTURE(setup, NULL)
SUITE_TIMEOUT(120)

/* The server is stopped while the transfer fills the way to it. */
TEST_EACH(urgent_calls_overtake_a_bulk_transfer, endpoint_cnt())
{
	const char *endpoint = endpoint_of(_i);
	struct backend_proc p = backend_start(&(struct sl_backend_options){
		.listen = endpoint, .on_batch = count, .max_batch = 1});
	struct sl_rpc_client *c = open_client(endpoint);

	backend_pause(p);
	for (unsigned i = 0; i < BULK; i++)
		submit(c, false, SL_CLASS_BULK, BULK_LEN);
	for (unsigned i = 0; i < 100; i++)
		ck_assert_int_ge(sl_rpc_client_process(c), 0);
	for (unsigned i = 0; i < URGENT; i++)
		submit(c, true, SL_CLASS_LATENCY, 8);
	ck_assert_int_ge(sl_rpc_client_process(c), 0);
	kill(p.pid, SIGCONT);
	process_until_all(c, BULK);
	ck_assert_uint_eq(shared->urgent, URGENT);
	ck_assert_uint_le(shared->bulk_before_urgent, BULK / 2);
	ck_assert_uint_le(ends.bulk_before_urgent, BULK / 2);
	sl_rpc_client_close(c);
	backend_term(p);
}

/* --- replies --- */

/* Replies to all at once, the bulk ones first. */
static void gather(void *arg, struct sl_batch *batch)
{
	static uint8_t bytes[REPLY_LEN];
	static struct sl_request_view *all[REPLIES + URGENT];
	static unsigned cnt;

	(void)arg;
	for (unsigned i = 0; i < batch->count; i++)
		all[cnt++] = batch->requests[i];
	if (cnt < REPLIES + URGENT)
		return;
	shared->received = cnt;
	while (!shared->client_waits)
		usleep(1000);
	for (unsigned i = 0; i < cnt; i++) {
		bool urgent = is_urgent(all[i]);

		sl_reply(all[i], &(struct sl_reply_args){.size = sizeof(struct sl_reply_args),
							 .body = bytes,
							 .body_len = urgent ? 8 : REPLY_LEN,
							 .priority = urgent || shared->same_class
									     ? 0
									     : SL_CLASS_BULK});
	}
	shared->gathered = cnt;
}

/* Returns how many of REPLIES bulk replies ended before the last urgent one. */
static unsigned overtaken_by_replies(const char *endpoint)
{
	struct backend_proc p = backend_start(&(struct sl_backend_options){
		.listen = endpoint, .on_batch = gather, .max_batch = 1});
	struct sl_rpc_client *c = open_client(endpoint);
	uint64_t until_ns = sl_now_ns() + harness_timeout_s() * SL_NS_PER_SEC;

	for (unsigned i = 0; i < REPLIES; i++)
		submit(c, false, SL_CLASS_LATENCY, 8);
	for (unsigned i = 0; i < URGENT; i++)
		submit(c, true, SL_CLASS_LATENCY, 8);
	while (shared->received < REPLIES + URGENT) {
		ck_assert_uint_lt(sl_now_ns(), until_ns);
		ck_assert_int_ge(sl_rpc_client_process(c), 0);
	}
	/* The client reads nothing while the first of the replies fill the way back. */
	shared->client_waits = true;
	while (shared->gathered < REPLIES + URGENT) {
		ck_assert_uint_lt(sl_now_ns(), until_ns);
		usleep(1000);
	}
	process_until_all(c, REPLIES);
	sl_rpc_client_close(c);
	backend_term(p);
	return ends.bulk_before_urgent;
}

TEST_EACH(the_class_of_a_reply_may_differ_from_its_request, endpoint_cnt())
{
	ck_assert_uint_lt(overtaken_by_replies(endpoint_of(_i)), REPLIES * 3 / 4);
}

TEST_EACH(replies_of_one_class_keep_their_order, endpoint_cnt())
{
	shared->same_class = true;
	ck_assert_uint_eq(overtaken_by_replies(endpoint_of(_i)), REPLIES);
}

/* --- wrong structs --- */

struct newer_args {
	struct sl_reply_args args;
	uint64_t unknown;
};

static void refuse_wrong(void *arg, struct sl_batch *batch)
{
	struct newer_args newer = {.args = {.size = sizeof(newer)}, .unknown = 1};
	struct sl_request_view *rq = batch->requests[0];
	struct sl_reply_args args = {.priority = SL_CLASS_CNT};
	bool ok = sl_reply(rq, &args) == -EINVAL;

	(void)arg;
	args = (struct sl_reply_args){.size = sizeof(args) - 8};
	ok &= sl_reply(rq, &args) == -EINVAL;
	ok &= sl_reply(rq, &newer.args) == -E2BIG;
	newer.unknown = 0;
	newer.args.status = ok ? 201 : 500;
	sl_reply(rq, &newer.args);
}

TEST(wrong_structs_are_refused_and_the_request_stays_open)
{
	const char *endpoint = endpoint_of(0);
	struct sl_backend_options opt = {
		.size = sizeof(opt) - 1, .listen = endpoint, .on_batch = refuse_wrong};
	struct sl_rpc_call_args args = {.size = sizeof(args), .path = "/"};
	struct sl_rpc_call_reply *reply;
	struct sl_rpc_client *c;
	struct backend_proc p;
	char err[256];

	ck_assert_ptr_null(sl_backend_open(&opt, err, sizeof(err)));
	ck_assert_ptr_nonnull(strstr(err, "size"));
	opt.size = sizeof(opt);
	p = backend_start(&opt);
	c = open_client(endpoint);
	ck_assert_int_eq(sl_rpc_client_call(c, &args, &reply), 0);
	ck_assert_uint_eq(reply->status, 201);
	sl_rpc_call_reply_free(reply);
	sl_rpc_client_close(c);
	backend_term(p);
}

/* --- a server in a loop of its own --- */

struct order {
	char listen[256];
	bool is_inline;
};

static void answer_all(void *arg, struct sl_batch *batch)
{
	(void)arg;
	for (unsigned i = 0; i < batch->count; i++)
		sl_reply(batch->requests[i], &(struct sl_reply_args){.body = "x", .body_len = 1});
}

/* Exit status 0: the descriptor stays the same, and waits are used. */
static void serve_in_loop(const void *arg)
{
	const struct order *o = arg;
	struct sl_backend_options opt = {.size = sizeof(opt),
					 .listen = o->listen,
					 .on_batch = answer_all,
					 .key_file = harness_key(),
					 .inline_handler = o->is_inline};
	char err[256];
	struct sl_backend *b = sl_backend_open(&opt, err, sizeof(err));
	struct pollfd p = {.fd = b ? sl_backend_fd(b) : -1, .events = POLLIN};
	uint64_t wait_us;
	unsigned waits = 0;
	int handled = 0;

	alarm(3 * harness_timeout_s());
	while (b && handled < URGENT) {
		int n;

		if (sl_backend_prepare(b, &wait_us) || sl_backend_fd(b) != p.fd)
			_exit(5);
		waits += wait_us != 0;
		(void)poll(&p, 1, wait_us < 1000000 ? (int)((wait_us + 999) / 1000) : 1000);
		n = sl_backend_poll(b, 0);
		if (n < 0)
			_exit(6);
		handled += n;
	}
	if (!b || !waits)
		_exit(7);
	for (unsigned i = 0; i < 1000; i++) /* the last replies leave */
		sl_backend_poll(b, 100);
	sl_backend_close(b);
	_exit(0);
}

TEST_EACH(a_server_prepares_its_sleep_in_a_foreign_loop, 2 * endpoint_cnt())
{
	struct order o = {.is_inline = _i % 2};
	struct backend_proc p;
	struct sl_rpc_client *c;

	snprintf(o.listen, sizeof(o.listen), "%s", endpoint_of(_i / 2));
	p.pid = harness_spawn(serve_in_loop, &o, sizeof(o));
	c = open_client(o.listen);
	for (unsigned i = 0; i < URGENT; i++) {
		struct sl_rpc_call_args args = {.size = sizeof(args), .path = "/"};
		struct sl_rpc_call_reply *reply;

		ck_assert_int_eq(sl_rpc_client_call(c, &args, &reply), 0);
		sl_rpc_call_reply_free(reply);
	}
	sl_rpc_client_close(c);
	ck_assert_int_eq(backend_wait(p), 0);
}
