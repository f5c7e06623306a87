/* SPDX-License-Identifier: Apache-2.0 */
/* Load on the server `kv` by the client library: call ENDPOINT KEY_FILE CONNECTIONS SECONDS. */
#include <string.h>
#include <sys/epoll.h>
#include "sluice/client.h"
#include "load.h"

enum { CONNECTIONS_MAX = 1024 };

struct connection {
	struct sl_rpc_client *client;
	uint64_t sent_ns;
	bool ready; /* to be prepared before the next sleep */
};

static struct connection connections[CONNECTIONS_MAX];
static unsigned connection_cnt, running;
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

	load_key(path + 1, sizeof(path) - 1, sl_prng_below(&load.prng, LOAD_KEYS));
	c->sent_ns = sl_now_ns();
	if (sl_rpc_client_submit(c->client, &args, 1, NULL))
		abort();
}

static void on_end(void *user_data, uint64_t call, const struct sl_rpc_call_reply *reply)
{
	struct connection *c = user_data;
	bool ok = reply->error == 0 && (reply->status == 200 || reply->status == 204);

	(void)call;
	if (load_count(c->sent_ns, ok))
		begin(c);
	else
		running--;
}

static bool fill(struct sl_rpc_client *client)
{
	for (unsigned i = 0; i < LOAD_KEYS; i++) {
		char path[32] = "/";
		struct sl_rpc_call_args args = {.size = sizeof(args),
						.method = "PUT",
						.path = path,
						.body = value,
						.body_len = sizeof(value)};
		struct sl_rpc_call_reply *reply;

		load_key(path + 1, sizeof(path) - 1, i);
		if (sl_rpc_client_call(client, &args, &reply))
			return false;
		sl_rpc_call_reply_free(reply);
	}
	return true;
}

static bool open_all(const char *endpoint, const char *key_file, int epoll_fd)
{
	const struct sl_rpc_client_options opt = {.size = sizeof(opt),
						  .endpoints = endpoint,
						  .key_file = key_file,
						  .max_calls = 64,
						  .own_loop = true};
	char err[256];

	for (unsigned i = 0; i < connection_cnt; i++) {
		struct connection *c = &connections[i];
		struct epoll_event ev = {.events = EPOLLIN, .data.ptr = c};

		c->client = sl_rpc_client_open(&opt, err, sizeof(err));
		if (!c->client ||
		    sl_rpc_client_wait_connected(c->client, 10000, err, sizeof(err))) {
			fprintf(stderr, "%s\n", err);
			return false;
		}
		if (epoll_ctl(epoll_fd, EPOLL_CTL_ADD, sl_rpc_client_fd(c->client), &ev))
			return false;
		c->ready = true;
	}
	return fill(connections[0].client);
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

static void run(int epoll_fd)
{
	static struct epoll_event events[CONNECTIONS_MAX];

	while (running) {
		int n = epoll_wait(epoll_fd, events, CONNECTIONS_MAX, prepare_all() ? 100 : 0);

		for (int i = 0; i < n; i++)
			((struct connection *)events[i].data.ptr)->ready = true;
		for (unsigned i = 0; i < connection_cnt; i++) {
			if (connections[i].ready || !n)
				sl_rpc_client_process(connections[i].client);
			connections[i].ready |= !n;
		}
	}
}

int main(int argc, char **argv)
{
	unsigned seconds = argc == 5 ? (unsigned)atoi(argv[4]) : 0;
	int epoll_fd = epoll_create1(EPOLL_CLOEXEC), rc;

	connection_cnt = seconds ? (unsigned)atoi(argv[3]) : 0;
	if (!connection_cnt || connection_cnt > CONNECTIONS_MAX || epoll_fd < 0) {
		fputs("usage: call ENDPOINT KEY_FILE CONNECTIONS SECONDS\n", stderr);
		return 2;
	}
	if (!open_all(argv[1], argv[2], epoll_fd))
		return 1;
	load_begin(seconds);
	running = connection_cnt;
	for (unsigned i = 0; i < connection_cnt; i++)
		begin(&connections[i]);
	run(epoll_fd);
	rc = load_print(seconds);
	for (unsigned i = 0; i < connection_cnt; i++)
		sl_rpc_client_close(connections[i].client);
	return rc;
}
