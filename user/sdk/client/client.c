/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>
#include "sdk/client/internal.h"
#include "base/clock.h"
#include "base/err.h"

enum {
	CALLS_DEFAULT = 16384,
	CALLS_MAX = 1 << 20,
	TIMEOUT_DEFAULT_MS = 5000,
	TIMEOUT_MAX_MS = 3600000,
	NUMBERS = 32, /* bounds the interfaces for RC, which register 5 MiB each */
};

static pthread_mutex_t numbers_lock = PTHREAD_MUTEX_INITIALIZER;
static unsigned number_users[NUMBERS];

static unsigned take_number(void)
{
	unsigned best = 0;

	pthread_mutex_lock(&numbers_lock);
	for (unsigned i = 1; i < NUMBERS; i++) {
		if (number_users[i] < number_users[best])
			best = i;
	}
	number_users[best]++;
	pthread_mutex_unlock(&numbers_lock);
	return best;
}

static void release_number(unsigned number)
{
	pthread_mutex_lock(&numbers_lock);
	number_users[number]--;
	pthread_mutex_unlock(&numbers_lock);
}

int sl_cl_copy_struct(void *to, size_t known, size_t first_version, const void *from)
{
	const unsigned char *bytes = from;
	size_t size;

	memcpy(&size, from, sizeof(size));
	if (size < first_version)
		return -EINVAL;
	for (size_t i = known; i < size; i++) {
		if (bytes[i])
			return -E2BIG;
	}
	memset(to, 0, known);
	memcpy(to, from, size < known ? size : known);
	return 0;
}

void sl_cl_wake(struct sl_rpc_client *c)
{
	static const uint64_t one = 1;

	atomic_store(&c->news, true);
	if (!c->asleep)
		return;
	c->asleep = false;
	if (write(c->wake_fd, &one, sizeof(one)) < 0)
		return;
}

static int check_options(struct sl_rpc_client_options *o, const struct sl_rpc_client_options *given,
			 struct sl_err *err)
{
	int rc = sl_cl_copy_struct(o, sizeof(*o), sizeof(*o), given);

	if (rc == -E2BIG)
		return sl_fail(err, -1, "options of a newer library are set");
	if (rc)
		return sl_fail(err, -1, "size: found %zu; allowed: sizeof(options), %zu",
			       given->size, sizeof(*o));
	if (!o->endpoints == !o->members_file)
		return sl_fail(err, -1, "found %s; allowed: one of endpoints and members_file",
			       o->endpoints ? "both" : "none");
	o->connect_timeout_ms = o->connect_timeout_ms ? o->connect_timeout_ms : TIMEOUT_DEFAULT_MS;
	o->max_calls = o->max_calls ? o->max_calls : CALLS_DEFAULT;
	o->max_reply = o->max_reply ? o->max_reply : SL_RPC_MAX_MESSAGE;
	if (o->connect_timeout_ms > TIMEOUT_MAX_MS)
		return sl_fail(err, -1, "connect_timeout_ms: found %u; allowed: at most %d",
			       o->connect_timeout_ms, TIMEOUT_MAX_MS);
	if (o->max_calls > CALLS_MAX)
		return sl_fail(err, -1, "max_calls: found %u; allowed: at most %d", o->max_calls,
			       CALLS_MAX);
	return 0;
}

static int copy_texts(struct sl_rpc_client *c)
{
	if (c->opt.key_file && !(c->key_file = strdup(c->opt.key_file)))
		return -1;
	if (c->opt.members_file && !(c->members_file = strdup(c->opt.members_file)))
		return -1;
	return 0;
}

static int make_slots(struct sl_rpc_client *c)
{
	c->slot_cnt = c->opt.max_calls;
	c->slots = calloc(c->slot_cnt, sizeof(*c->slots));
	if (!c->slots)
		return -1;
	for (uint32_t i = 0; i < c->slot_cnt; i++)
		c->slots[i] = (struct client_slot){.generation = 1, .next_free = i + 1};
	return 0;
}

static struct sl_rpc *make_session(struct sl_rpc_client *c)
{
	struct sl_rpc_config cfg;

	sl_rpc_config_default(&cfg);
	cfg.max_outstanding = c->opt.max_calls;
	cfg.grace_ns = SL_NS_PER_MS;
	return sl_rpc_create(&cfg, NULL, &sl_cl_rpc_ops, c);
}

static void free_client(struct sl_rpc_client *c)
{
	sl_rpc_destroy(c->rpc);
	release_number(c->number);
	pthread_cond_destroy(&c->dial_due);
	pthread_cond_destroy(&c->changed);
	pthread_mutex_destroy(&c->lock);
	free(c->scratch);
	sl_members_free(&c->members);
	free(c->slots);
	free(c->up);
	free(c->key_file);
	free(c->members_file);
	free(c);
}

static struct sl_rpc_client *new_client(const struct sl_rpc_client_options *opt)
{
	struct sl_rpc_client *c = calloc(1, sizeof(*c));
	pthread_condattr_t monotonic;

	if (!c)
		return NULL;
	c->opt = *opt;
	c->number = take_number();
	c->wake_fd = c->epoll_fd = -1;
	c->waiting_ns = c->retry_ns = UINT64_MAX;
	sl_list_init(&c->servers);
	sl_list_init(&c->open);
	sl_list_init(&c->writable);
	sl_list_init(&c->submitted);
	sl_list_init(&c->commands);
	sl_list_init(&c->dialed);
	for (unsigned i = 0; i < SL_CLASS_CNT; i++)
		sl_list_init(&c->waiting[i]);
	sl_prng_seed(&c->prng, sl_now_ns() ^ (uintptr_t)c);
	sl_prng_seed(&c->dial_prng, ~sl_now_ns() ^ (uintptr_t)c);
	pthread_mutex_init(&c->lock, NULL);
	pthread_condattr_init(&monotonic);
	pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
	pthread_cond_init(&c->changed, &monotonic);
	pthread_cond_init(&c->dial_due, &monotonic);
	pthread_condattr_destroy(&monotonic);
	return c;
}

static void end_waiting(struct sl_rpc_client *c)
{
	struct sl_list *node;

	(void)sl_cl_take_commands(c);
	for (unsigned i = 0; i < SL_CLASS_CNT; i++) {
		while ((node = sl_list_pop_head(&c->waiting[i])))
			sl_cl_call_end(sl_container_of(node, struct client_call, node), -ECANCELED);
	}
}

static void end_calls(struct sl_rpc_client *c)
{
	struct sl_list *node;

	pthread_mutex_lock(&c->lock);
	c->closing = true;
	pthread_mutex_unlock(&c->lock);
	while ((node = sl_list_pop_head(&c->open))) {
		struct client_call *call = sl_container_of(node, struct client_call, node);

		if (call->state == CALL_SENT)
			sl_rpc_cancel(call->server->channel, call->rpc_id);
		sl_cl_call_end(call, -ECANCELED);
	}
	end_waiting(c);
}

void sl_rpc_client_close(struct sl_rpc_client *c)
{
	struct sl_list *node;

	if (!c)
		return;
	sl_cl_loop_stop(c);
	sl_cl_connect_stop(c);
	end_calls(c);
	sl_rpc_destroy(c->rpc);
	c->rpc = NULL;
	while ((node = sl_list_pop_head(&c->servers)))
		free(sl_container_of(node, struct client_server, node));
	if (c->epoll_fd >= 0)
		close(c->epoll_fd);
	if (c->wake_fd >= 0)
		close(c->wake_fd);
	free_client(c);
}

struct sl_rpc_client *sl_rpc_client_open(const struct sl_rpc_client_options *given, char *text,
					 size_t len)
{
	struct sl_err err = {.text = text, .size = len};
	struct sl_rpc_client_options opt;
	struct sl_rpc_client *c;

	if (check_options(&opt, given, &err))
		return NULL;
	c = new_client(&opt);
	if (!c || copy_texts(c) || make_slots(c) || !(c->rpc = make_session(c)) ||
	    (c->wake_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)) < 0) {
		sl_err_set(&err, "no memory or descriptor");
		goto fail;
	}
	if (sl_cl_connect_start(c, &err))
		goto fail;
	if (sl_cl_loop_start(c)) {
		sl_err_set(&err, "no thread or descriptor: %s", strerror(errno));
		goto fail;
	}
	c->opt.endpoints = c->opt.members_file = c->opt.key_file = NULL; /* the program's */
	return c;
fail:
	sl_rpc_client_close(c);
	return NULL;
}

static bool is_connected(void *arg)
{
	return atomic_load(&((struct sl_rpc_client *)arg)->count.up) != 0;
}

int sl_rpc_client_wait_connected(struct sl_rpc_client *c, unsigned timeout_ms, char *text,
				 size_t len)
{
	uint64_t until_ns = sl_now_ns() + timeout_ms * SL_NS_PER_MS;
	struct timespec until = {.tv_sec = (time_t)(until_ns / SL_NS_PER_SEC),
				 .tv_nsec = (long)(until_ns % SL_NS_PER_SEC)};
	struct sl_err err = {.text = text, .size = len};
	int rc = 0;

	if (sl_cl_in_loop(c))
		return sl_fail(&err, -EDEADLK, "called within a callback");
	if (c->opt.own_loop)
		rc = sl_cl_run_until(c, is_connected, c, until_ns);
	pthread_mutex_lock(&c->lock);
	while (!is_connected(c) && rc != -ETIMEDOUT)
		rc = -pthread_cond_timedwait(&c->changed, &c->lock, &until);
	rc = is_connected(c) ? 0 : -ETIMEDOUT;
	if (rc)
		sl_err_set(&err, "%s", *c->last_error ? c->last_error : "no server is connected");
	pthread_mutex_unlock(&c->lock);
	return rc;
}

void sl_rpc_client_stats(const struct sl_rpc_client *client, struct sl_rpc_client_stats *out)
{
	struct sl_rpc_client *c = (struct sl_rpc_client *)(uintptr_t)client;
	struct sl_rpc_client_stats s = {.size = out->size};
	size_t size = out->size < sizeof(s) ? out->size : sizeof(s);

	s.calls = atomic_load(&c->count.calls);
	s.replies = atomic_load(&c->count.replies);
	s.failures = atomic_load(&c->count.failures);
	s.retries = atomic_load(&c->count.retries);
	s.connects = atomic_load(&c->count.connects);
	s.connect_errors = atomic_load(&c->count.connect_errors);
	s.servers = atomic_load(&c->count.servers);
	s.servers_connected = atomic_load(&c->count.up);
	pthread_mutex_lock(&c->lock);
	s.open_calls = c->open_cnt;
	pthread_mutex_unlock(&c->lock);
	memcpy(out, &s, size);
}
