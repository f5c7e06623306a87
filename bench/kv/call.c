/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Load on the server `kv` by the client library.
 *
 *   call ENDPOINT KEY_FILE CONNECTIONS SECONDS
 *   call --spike ENDPOINT KEY_FILE SERVED NEW     time to the first reply of NEW clients that join
 */
#include <string.h>
#include <sys/epoll.h>
#include "sluice/client.h"
#include "load.h"

enum { CONNECTIONS_MAX = 1024 };

struct connection {
	struct sl_rpc_client *client;
	uint64_t sent_ns;
	bool ready;  /* to be prepared before the next sleep */
	bool joined; /* later than the load, and without a reply yet */
};

static struct connection connections[CONNECTIONS_MAX];
static unsigned connection_cnt, running;
static uint32_t first_ns[CONNECTIONS_MAX];
static unsigned first_cnt;
static uint64_t join_ns;
static const char value[LOAD_VALUE_LEN];

static void on_end(void *user_data, uint64_t call, const struct sl_rpc_call_reply *reply);

static void begin(struct connection *c)
{
	bool put = load_is_put();
	char path[32] = "/";
	struct sl_rpc_call_args args = {.size = sizeof(args),
					.method = put ? "PUT" : "GET",
					.path = path,
					.body = value,
					.body_len = put ? sizeof(value) : 0,
					.user_data = c,
					.on_end = on_end};

	load_key(path + 1, sizeof(path) - 1, sl_prng_below(&load.prng, load.keys));
	c->sent_ns = sl_now_ns();
	if (sl_rpc_client_submit(c->client, &args, 1, NULL))
		abort();
}

static void on_end(void *user_data, uint64_t call, const struct sl_rpc_call_reply *reply)
{
	struct connection *c = user_data;
	bool ok = reply->error == 0 && (reply->status == 200 || reply->status == 204);

	(void)call;
	if (c->joined) {
		first_ns[first_cnt++] = (uint32_t)(sl_now_ns() - join_ns);
		c->joined = false;
	}
	if (load_count(c->sent_ns, ok))
		begin(c);
	else
		running--;
}

static bool open_one(struct connection *c, const char *endpoint, const char *key_file, int epoll_fd)
{
	const struct sl_rpc_client_options opt = {.size = sizeof(opt),
						  .endpoints = endpoint,
						  .key_file = key_file,
						  .max_calls = 64,
						  .own_loop = true};
	struct epoll_event ev = {.events = EPOLLIN, .data.ptr = c};
	char err[256];

	c->client = sl_rpc_client_open(&opt, err, sizeof(err));
	if (!c->client) {
		fprintf(stderr, "%s\n", err);
		return false;
	}
	c->ready = true;
	return epoll_ctl(epoll_fd, EPOLL_CTL_ADD, sl_rpc_client_fd(c->client), &ev) == 0;
}

/* Prepares the clients that have run. Returns false if one has work at once. */
static bool prepare_all(void)
{
	bool may_sleep = true;

	for (unsigned i = 0; i < connection_cnt; i++) {
		struct connection *c = &connections[i];
		uint64_t wait_us;

		if (!c->ready)
			continue;
		if (sl_rpc_client_prepare(c->client, &wait_us))
			abort();
		c->ready = wait_us == 0;
		may_sleep &= !c->ready;
	}
	return may_sleep;
}

static void turn(int epoll_fd)
{
	static struct epoll_event events[CONNECTIONS_MAX];
	int n = epoll_wait(epoll_fd, events, CONNECTIONS_MAX, prepare_all() ? 100 : 0);

	for (int i = 0; i < n; i++)
		((struct connection *)events[i].data.ptr)->ready = true;
	for (unsigned i = 0; i < connection_cnt; i++) {
		if (connections[i].ready || !n)
			sl_rpc_client_process(connections[i].client);
		connections[i].ready |= !n;
	}
}

static void on_put(void *user_data, uint64_t call, const struct sl_rpc_call_reply *reply)
{
	(void)user_data, (void)call;
	load.errors += reply->error || (reply->status != 200 && reply->status != 204);
	running--;
}

static bool put(struct connection *c, unsigned key)
{
	char path[32] = "/";
	struct sl_rpc_call_args args = {.size = sizeof(args),
					.method = "PUT",
					.path = path,
					.body = value,
					.body_len = sizeof(value),
					.on_end = on_put};

	load_key(path + 1, sizeof(path) - 1, key);
	c->ready = true;
	running++;
	return sl_rpc_client_submit(c->client, &args, 1, NULL) == 0;
}

/* Fills the store, and connects all, one after the other. */
static bool open_all(const char *endpoint, const char *key_file, unsigned cnt, int epoll_fd)
{
	for (unsigned i = 0; i < cnt || i < load.keys; i++) {
		if (i < cnt &&
		    !open_one(&connections[connection_cnt++], endpoint, key_file, epoll_fd))
			return false;
		if (!put(&connections[i % cnt], i % load.keys))
			return false;
		while (running)
			turn(epoll_fd);
		if (load.errors) {
			fprintf(stderr, "PUT %u of connection %u failed\n", i, i % cnt);
			return false;
		}
	}
	return true;
}

static void begin_all(void)
{
	running = connection_cnt;
	for (unsigned i = 0; i < connection_cnt; i++)
		begin(&connections[i]);
}

static int measure(unsigned seconds, int epoll_fd)
{
	load_begin(seconds);
	begin_all();
	while (running)
		turn(epoll_fd);
	return load_print(seconds);
}

/* The clients that are served go on while the new ones connect. */
static int spike(const char *endpoint, const char *key_file, unsigned cnt, int epoll_fd)
{
	uint64_t warm_ns = sl_now_ns() + SL_NS_PER_SEC / 2;

	load_begin(0);
	begin_all();
	while (sl_now_ns() < warm_ns)
		turn(epoll_fd);
	join_ns = sl_now_ns();
	for (unsigned i = 0; i < cnt; i++) {
		struct connection *c = &connections[connection_cnt];

		if (!open_one(c, endpoint, key_file, epoll_fd))
			return 1;
		connection_cnt++;
		c->joined = true;
		begin(c);
	}
	while (first_cnt < cnt && !load.errors)
		turn(epoll_fd);
	load.end_ns = 0;
	return load_print_first(first_ns, cnt);
}

int main(int argc, char **argv)
{
	bool joins = argc == 6 && strcmp(argv[1], "--spike") == 0;
	char **arg = argv + joins;
	unsigned last = argc == 5 + joins ? (unsigned)atoi(arg[4]) : 0, cnt;
	int epoll_fd = epoll_create1(EPOLL_CLOEXEC), rc;

	load_init();
	cnt = last ? (unsigned)atoi(arg[3]) : 0;
	if (!cnt || cnt + joins * last > CONNECTIONS_MAX || epoll_fd < 0) {
		fputs("usage: call ENDPOINT KEY_FILE CONNECTIONS SECONDS\n"
		      "       call --spike ENDPOINT KEY_FILE SERVED NEW\n",
		      stderr);
		return 2;
	}
	if (!open_all(arg[1], arg[2], cnt, epoll_fd))
		return 1;
	rc = joins ? spike(arg[1], arg[2], last, epoll_fd) : measure(last, epoll_fd);
	for (unsigned i = 0; i < connection_cnt; i++)
		sl_rpc_client_close(connections[i].client);
	return rc;
}
