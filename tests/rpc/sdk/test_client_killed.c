/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Servers of the client library that die in each state, speak another version, have another key, or
 * send garbage. Each call ends exactly once, and wait_connected() has one line.
 */
#include <netinet/in.h>
#include <pthread.h>
#include <sys/socket.h>
#include <sys/un.h>
#define HARNESS_ENDPOINTS "shm,tcp,ud"
#include "base/check.h"
#include "rpc_harness.h"
#include "sluice/client.h"
#include "suite.h"

enum { CALLS = 40, LONG = 1 << 20 };

static struct shared {
	_Atomic unsigned handled;
} * shared;

static void setup(void)
{
	shared = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	ck_assert_ptr_ne(shared, MAP_FAILED);
}

/* --- server: one kind of request is answered, one has a long reply, one none --- */

static void handle(void *arg, struct sl_batch *batch)
{
	static uint8_t bytes[LONG];

	(void)arg;
	for (unsigned i = 0; i < batch->count; i++) {
		struct sl_request_view *rq = batch->requests[i];
		char kind = rq->path_len ? rq->path[0] : 's';

		shared->handled++;
		if (kind != 'n')
			sl_reply(rq, &(struct sl_reply_args){.body = bytes,
							     .body_len = kind == 'l' ? LONG : 8});
	}
}

static void on_open(void *arg, struct sl_request_view *rq)
{
	(void)arg, (void)rq;
	shared->handled++;
}

static void on_bytes(void *arg, struct sl_request_view *rq, const void *bytes, size_t len,
		     size_t left)
{
	(void)arg, (void)left;
	sl_reply(rq, &(struct sl_reply_args){.body = bytes, .body_len = len, .more = true});
}

static void on_stream_end(void *arg, struct sl_request_view *rq)
{
	(void)arg;
	sl_reply(rq, &(struct sl_reply_args){.status = 200});
}

static const struct sl_stream_ops stream_ops = {.on_open = on_open,
						.on_data = on_bytes,
						.on_end = on_stream_end,
						.on_cancel = on_stream_end};

/* --- client --- */

struct seen {
	_Atomic unsigned ends, data;
	int error;
};

static void on_end(void *user_data, uint64_t call, const struct sl_rpc_call_reply *reply)
{
	struct seen *s = user_data;

	(void)call;
	s->error = reply->error;
	s->ends++;
}

static void on_data(void *user_data, uint64_t call, const struct sl_rpc_call_reply *reply,
		    const void *bytes, size_t len, size_t left)
{
	struct seen *s = user_data;

	(void)call, (void)reply, (void)bytes, (void)len, (void)left;
	s->data++;
}

static struct sl_rpc_client *open_client(const char *endpoint, const char *key_file)
{
	struct sl_rpc_client_options opt = {.size = sizeof(opt),
					    .endpoints = endpoint,
					    .key_file = key_file,
					    .connect_timeout_ms = 300};
	char err[512] = "";
	struct sl_rpc_client *c = sl_rpc_client_open(&opt, err, sizeof(err));

	ck_assert_msg(c != NULL, "%s", err);
	return c;
}

static void wait_for(_Atomic unsigned *value, unsigned least)
{
	uint64_t until_ns = sl_now_ns() + harness_timeout_s() * SL_NS_PER_SEC;

	while (*value < least) {
		ck_assert_uint_lt(sl_now_ns(), until_ns);
		usleep(200);
	}
}

/* Calls of five kinds in turn: short, long, never answered, stream, stream that is not read. */
static void begin_all(struct sl_rpc_client *c, struct seen *seen)
{
	static const char *const paths[] = {"short", "long", "never", "both", "both"};
	static const uint8_t bytes[LONG];

	for (unsigned i = 0; i < CALLS; i++) {
		unsigned kind = i % SL_ARRAY_LEN(paths);
		struct sl_rpc_call_args args = {.size = sizeof(args),
						.path = paths[kind],
						.body = bytes,
						.body_len = kind < 3 ? i * 1000 : 0,
						.stream = kind >= 3,
						.idempotent = i % 2,
						.on_data = kind == 1 && i % 2 ? NULL : on_data,
						.on_end = on_end,
						.user_data = &seen[i]};
		uint64_t call;

		ck_assert_int_eq(sl_rpc_client_submit(c, &args, 1, &call), 0);
		if (kind == 4)
			sl_rpc_stream_pause(c, call);
		if (kind >= 3)
			ck_assert_int_eq(sl_rpc_stream_send(c, call, bytes, 50000, false), 0);
	}
}

static void expect_ends(struct seen *seen)
{
	for (unsigned i = 0; i < CALLS; i++)
		wait_for(&seen[i].ends, 1);
}

/* What the server does when it dies. */
enum state { NEVER_THERE, STOPPED, AT_FIRST_REQUEST, AMID, LEAVES, STATES };

static void die(struct backend_proc p, enum state state)
{
	switch (state) {
	case NEVER_THERE: break;
	case STOPPED:
		usleep(20000);
		backend_kill(p);
		break;
	case AT_FIRST_REQUEST:
		wait_for(&shared->handled, 1);
		backend_kill(p);
		break;
	case AMID:
		wait_for(&shared->handled, CALLS);
		backend_kill(p);
		break;
	default: /* requests without a reply are answered as lost */
		wait_for(&shared->handled, 1);
		kill(p.pid, SIGTERM);
		(void)backend_wait(p);
	}
}

FIXTURE(setup, NULL)
SUITE_TIMEOUT(120)

TEST_EACH(each_call_ends_once_when_the_server_dies, STATES *endpoint_cnt())
{
	const char *endpoint = endpoint_of(_i / STATES);
	struct backend_proc p = {0};
	enum state state = _i % STATES;
	struct seen seen[CALLS] = {{0}};
	struct sl_rpc_client *c;
	char err[512];

	if (state != NEVER_THERE)
		p = backend_start(&(struct sl_backend_options){
			.listen = endpoint, .on_batch = handle, .on_stream = &stream_ops});
	c = open_client(endpoint, harness_key());
	if (state != NEVER_THERE)
		ck_assert_int_eq(sl_rpc_client_wait_connected(c, harness_timeout_s() * 1000, err,
							      sizeof(err)),
				 0);
	if (state == STOPPED)
		backend_pause(p);
	begin_all(c, seen);
	die(p, state);
	expect_ends(seen);
	for (unsigned i = 0; i < CALLS; i++) {
		if (state == NEVER_THERE)
			ck_assert_int_eq(seen[i].error, -EHOSTUNREACH);
		else if (i % 5 == 2 || i % 5 == 3)
			ck_assert_int_ne(seen[i].error, 0);
	}
	sl_rpc_client_close(c);
	for (unsigned i = 0; i < CALLS; i++)
		ck_assert_uint_eq(seen[i].ends, 1);
}

/* --- servers that do not speak the protocol --- */

static int listen_at(const char *endpoint)
{
	struct sockaddr_un un = {.sun_family = AF_UNIX};
	struct sockaddr_in in = {.sin_family = AF_INET, .sin_port = htons(7471)};
	bool shm = strncmp(endpoint, "shm", 3) == 0;
	unsigned a, b, d, one = 1;
	int fd = socket(shm ? AF_UNIX : AF_INET, shm ? SOCK_SEQPACKET : SOCK_STREAM, 0);

	ck_assert_int_ge(fd, 0);
	if (shm) {
		snprintf(un.sun_path, sizeof(un.sun_path), "%s", endpoint + 6);
		unlink(un.sun_path);
		ck_assert_int_eq(bind(fd, (struct sockaddr *)&un, sizeof(un)), 0);
	} else {
		ck_assert_int_eq(sscanf(endpoint, "tcp://127.%u.%u.%u:", &a, &b, &d), 3);
		in.sin_addr.s_addr = htonl(127u << 24 | a << 16 | b << 8 | d);
		setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
		ck_assert_int_eq(bind(fd, (struct sockaddr *)&in, sizeof(in)), 0);
	}
	ck_assert_int_eq(listen(fd, 16), 0);
	return fd;
}

struct liar {
	int fd;
	const void *says;
	size_t len;
};

static void *lie(void *arg)
{
	const struct liar *l = arg;
	uint8_t bytes[4096];
	int fd;

	while ((fd = accept(l->fd, NULL, NULL)) >= 0) {
		if (recv(fd, bytes, sizeof(bytes), 0) > 0 && l->len)
			(void)send(fd, l->says, l->len, MSG_NOSIGNAL);
		close(fd);
	}
	return NULL;
}

/* Returns the line that the client has of a server that answers so. */
static const char *line_of(const char *endpoint, const void *says, size_t len)
{
	static char err[512];
	struct liar l = {.fd = listen_at(endpoint), .says = says, .len = len};
	struct sl_rpc_client_stats stats = {.size = sizeof(stats)};
	struct sl_rpc_client *c;
	pthread_t thread;

	ck_assert_int_eq(pthread_create(&thread, NULL, lie, &l), 0);
	c = open_client(endpoint, harness_key());
	do {
		usleep(1000);
		sl_rpc_client_stats(c, &stats);
	} while (!stats.connect_errors);
	ck_assert_int_eq(sl_rpc_client_wait_connected(c, 1, err, sizeof(err)), -ETIMEDOUT);
	sl_rpc_client_close(c);
	shutdown(l.fd, SHUT_RDWR);
	pthread_join(thread, NULL);
	close(l.fd);
	ck_assert_ptr_null(strchr(err, '\n'));
	ck_assert_ptr_nonnull(strstr(err, endpoint));
	return err;
}

TEST(a_server_of_another_version_gives_one_clear_line)
{
	struct sl_rpc_hello hello = {.magic = SL_RPC_HELLO_MAGIC,
				     .version = SL_RPC_VERSION - 1,
				     .slots = 256,
				     .bulk_len = 1 << 22,
				     .slot_size = SL_RPC_SLOT_SIZE};
	const char *line = line_of(endpoint_named("shm", 3), &hello, sizeof(hello));

	ck_assert_msg(strstr(line, "another version: build both from one release") != NULL, "%s",
		      line);
}

TEST_EACH(a_server_that_hangs_up_or_sends_garbage_gives_one_line, 4)
{
	static uint8_t garbage[300];
	char endpoint[128];

	memset(garbage, 0x16, sizeof(garbage));
	snprintf(endpoint, sizeof(endpoint), "%s", endpoint_named(_i & 1 ? "tcp" : "shm", 3));
	(void)line_of(endpoint, garbage, _i & 2 ? sizeof(garbage) : 0);
}

TEST(another_key_gives_one_clear_line)
{
	char endpoint[128], err[512], other[] = "/tmp/sl-key-XXXXXX";
	int fd = mkstemp(other);
	struct sl_rpc_client_stats stats = {.size = sizeof(stats)};
	struct backend_proc p;
	struct sl_rpc_client *c;

	snprintf(endpoint, sizeof(endpoint), "%s", endpoint_named("tcp", 3));
	ck_assert_int_eq(write(fd, "a key that differs from the server's", 36), 36);
	close(fd);
	p = backend_start(&(struct sl_backend_options){.listen = endpoint, .on_batch = handle});
	c = open_client(endpoint, harness_key());
	ck_assert_int_eq(
		sl_rpc_client_wait_connected(c, harness_timeout_s() * 1000, err, sizeof(err)), 0);
	sl_rpc_client_close(c);
	c = open_client(endpoint, other);
	do {
		usleep(1000);
		sl_rpc_client_stats(c, &stats);
	} while (!stats.connect_errors);
	ck_assert_int_eq(sl_rpc_client_wait_connected(c, 1, err, sizeof(err)), -ETIMEDOUT);
	ck_assert_msg(strstr(err, endpoint) && strstr(err, "key") && !strchr(err, '\n'), "%s", err);
	sl_rpc_client_close(c);
	backend_kill(p);
	unlink(other);
}
