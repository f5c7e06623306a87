/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Servers and their connections. Dialer threads connect, as that blocks; the loop adopts.
 *
 *   DIAL_DUE -> DIAL_RUNS -> [dialed] -> DIAL_IDLE while the channel is up -> DIAL_DUE ...
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include "sdk/client/internal.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/min.h"

enum { SLOTS = 256 };
#define BACKOFF_MIN_NS (50 * SL_NS_PER_MS)
#define BACKOFF_MAX_NS (5 * SL_NS_PER_SEC)
#define STABLE_NS      SL_NS_PER_SEC
#define LOOK_NS        SL_NS_PER_SEC
#define PROBE_LOOK_NS  (200 * SL_NS_PER_MS)

static void report_error(struct sl_rpc_client *c, struct client_server *s, const char *line)
{
	uint64_t now_ns = sl_now_ns();
	bool told;

	pthread_mutex_lock(&c->lock);
	snprintf(c->last_error, sizeof(c->last_error), "%s", line);
	told = s && s->reported_ns && now_ns - s->reported_ns < SL_NS_PER_SEC;
	if (s && !told)
		s->reported_ns = now_ns;
	pthread_mutex_unlock(&c->lock);
	if (!told && c->opt.on_connect_error)
		c->opt.on_connect_error(c->opt.arg, line);
}

static void leave_up(struct client_server *s)
{
	struct sl_rpc_client *c = s->client;

	if (!s->up)
		return;
	s->up = false;
	c->up[s->up_index] = c->up[--c->up_cnt];
	c->up[s->up_index]->up_index = s->up_index;
	atomic_store(&c->count.up, c->up_cnt);
}

static void join_up(struct client_server *s)
{
	struct sl_rpc_client *c = s->client;

	if (s->up || s->leaves)
		return;
	s->up = true;
	s->up_index = c->up_cnt;
	c->up[c->up_cnt++] = s;
	pthread_mutex_lock(&c->lock);
	atomic_store(&c->count.up, c->up_cnt);
	pthread_cond_broadcast(&c->changed);
	pthread_mutex_unlock(&c->lock);
}

static struct client_server *new_server(struct sl_rpc_client *c, const char *endpoint)
{
	struct client_server *s = calloc(1, sizeof(*s));

	if (!s)
		return NULL;
	s->client = c;
	snprintf(s->endpoint, sizeof(s->endpoint), "%s", endpoint);
	s->channel = sl_rpc_channel_new(endpoint, s);
	if (!s->channel) {
		free(s);
		return NULL;
	}
	sl_list_init(&s->dialed);
	sl_list_init(&s->flights);
	s->dial = DIAL_DUE;
	s->backoff_ns = BACKOFF_MIN_NS;
	sl_rpc_channel_join(c->rpc, s->channel);
	return s;
}

static struct client_server *find_server(const struct sl_rpc_client *c, const char *endpoint)
{
	struct sl_list *at;

	sl_list_for_each (at, &c->servers) {
		struct client_server *s = sl_container_of(at, struct client_server, node);

		if (!s->removed && strcmp(s->endpoint, endpoint) == 0)
			return s;
	}
	return NULL;
}

static bool is_member(const struct sl_members *m, const char *endpoint)
{
	for (unsigned i = 0; i < m->cnt; i++) {
		if (strcmp(m->list[i], endpoint) == 0)
			return true;
	}
	return false;
}

static bool apply_members(struct sl_rpc_client *c, const struct sl_members *m)
{
	struct sl_list *at;
	bool ok = true;

	sl_list_for_each (at, &c->servers) {
		struct client_server *s = sl_container_of(at, struct client_server, node);

		if (s->removed || is_member(m, s->endpoint))
			continue;
		s->removed = s->leaves = true;
		leave_up(s);
		c->removed_cnt++;
		atomic_fetch_sub(&c->count.servers, 1);
	}
	for (unsigned i = 0; i < m->cnt; i++) {
		struct client_server *s =
			find_server(c, m->list[i]) ? NULL : new_server(c, m->list[i]);

		if (s) {
			sl_list_add_tail(&c->servers, &s->node);
			atomic_fetch_add(&c->count.servers, 1);
		}
		ok &= s || find_server(c, m->list[i]);
	}
	pthread_cond_broadcast(&c->dial_due);
	return ok;
}

static void take_new_members(struct sl_rpc_client *c)
{
	struct sl_members m;

	if (!atomic_load(&c->has_members))
		return;
	pthread_mutex_lock(&c->lock);
	m = c->members;
	c->members = (struct sl_members){0};
	atomic_store(&c->has_members, false);
	(void)apply_members(c, &m);
	pthread_mutex_unlock(&c->lock);
	sl_members_free(&m);
}

static bool is_reapable(const struct client_server *s)
{
	return s->removed && !s->probed && s->dial != DIAL_RUNS && sl_list_empty(&s->dialed) &&
	       sl_list_empty(&s->flights) && !s->in_flight &&
	       sl_rpc_channel_state(s->channel) == SL_RPC_DOWN;
}

void sl_cl_reap_servers(struct sl_rpc_client *c)
{
	struct sl_list *at, *next;

	if (!c->removed_cnt)
		return;
	pthread_mutex_lock(&c->lock);
	sl_list_for_each_safe (at, next, &c->servers) {
		struct client_server *s = sl_container_of(at, struct client_server, node);

		if (!is_reapable(s))
			continue;
		sl_list_del(&s->node);
		sl_rpc_channel_remove(s->channel);
		free(s);
		c->removed_cnt--;
	}
	pthread_mutex_unlock(&c->lock);
	sl_list_for_each (at, &c->servers) {
		struct client_server *s = sl_container_of(at, struct client_server, node);

		if (s->leaves && sl_rpc_channel_state(s->channel) == SL_RPC_UP)
			sl_rpc_channel_drain(s->channel);
	}
}

/* Lock held. The delay is drawn between half and all of the back-off. */
static void schedule_dial(struct client_server *s, uint64_t now_ns)
{
	s->dial = DIAL_DUE;
	s->dial_ns = now_ns + s->backoff_ns / 2 +
		     sl_prng_below(&s->client->dial_prng, s->backoff_ns / 2);
	s->backoff_ns = sl_min_ns(2 * s->backoff_ns, BACKOFF_MAX_NS);
	pthread_cond_signal(&s->client->dial_due);
}

void sl_cl_server_state(struct client_server *s, enum sl_rpc_state state)
{
	struct sl_rpc_client *c = s->client;
	uint64_t now_ns = sl_now_ns();

	if (state == SL_RPC_UP) {
		s->up_ns = s->up_ns ? s->up_ns : now_ns;
		join_up(s);
		return;
	}
	leave_up(s);
	if (state != SL_RPC_DOWN)
		return;
	pthread_mutex_lock(&c->lock);
	if (s->up_ns && now_ns - s->up_ns >= STABLE_NS)
		s->backoff_ns = BACKOFF_MIN_NS;
	s->up_ns = 0;
	if (!s->removed)
		schedule_dial(s, now_ns);
	pthread_mutex_unlock(&c->lock);
}

static void adopt_transport(struct client_server *s, struct sl_transport *t)
{
	struct sl_err err = SL_ERR(256);
	struct sl_rpc_client *c = s->client;
	int rc;

	atomic_fetch_add(&c->count.connects, 1); /* before the channel is up */
	rc = sl_rpc_adopt(s->channel, t, c->now_ns);
	if (!rc)
		return;
	atomic_fetch_sub(&c->count.connects, 1);
	sl_err_set(&err, "%s: cannot watch the connection: %s", s->endpoint, strerror(-rc));
	atomic_fetch_add(&c->count.connect_errors, 1);
	report_error(c, s, err.text);
	sl_cl_server_state(s, SL_RPC_DOWN);
}

void sl_cl_adopt_dialed(struct sl_rpc_client *c)
{
	struct sl_list *node;

	take_new_members(c);
	pthread_mutex_lock(&c->lock);
	while ((node = sl_list_pop_head(&c->dialed))) {
		struct client_server *s = sl_container_of(node, struct client_server, dialed);
		struct sl_transport *t = s->transport;
		uint32_t forgotten = s->forgotten;
		bool removed = s->removed;

		s->transport = NULL;
		s->forgotten = 0;
		pthread_mutex_unlock(&c->lock);
		sl_rpc_peer_removed(s->channel, forgotten);
		if (t && removed)
			sl_rpc_dial_drop(t);
		else if (t)
			adopt_transport(s, t);
		pthread_mutex_lock(&c->lock);
	}
	pthread_mutex_unlock(&c->lock);
}

/* Lock held. */
static struct client_server *find_due(const struct sl_rpc_client *c, uint64_t now_ns,
				      uint64_t *next_ns)
{
	struct client_server *due = NULL;
	struct sl_list *at;

	sl_list_for_each (at, &c->servers) {
		struct client_server *s = sl_container_of(at, struct client_server, node);

		if (s->dial != DIAL_DUE || s->removed)
			continue;
		if (s->dial_ns <= now_ns && (!due || s->dial_ns < due->dial_ns))
			due = s;
		*next_ns = sl_min_ns(*next_ns, s->dial_ns);
	}
	return due;
}

struct sl_rpc_dial_options sl_cl_dial_options(const struct sl_rpc_client *c,
					      const struct client_server *s)
{
	return (struct sl_rpc_dial_options){
		.endpoint = s->endpoint,
		.key_file = c->key_file,
		.slots = SLOTS,
		.timeout_ms = c->opt.connect_timeout_ms,
		.worker = (uint16_t)c->number,
		.owner = c->opt.listen_user,
	};
}

/* Lock held; released while it connects. */
static void dial_server(struct sl_rpc_client *c, struct client_server *s)
{
	struct sl_err err = SL_ERR(256);
	struct sl_rpc_dial_options opt = sl_cl_dial_options(c, s);
	struct sl_transport *t;

	s->dial = DIAL_RUNS;
	pthread_mutex_unlock(&c->lock);
	t = sl_rpc_dial(&opt, &err);
	if (!t) {
		atomic_fetch_add(&c->count.connect_errors, 1);
		report_error(c, s, err.text);
	}
	pthread_mutex_lock(&c->lock);
	if (!t) {
		schedule_dial(s, sl_now_ns());
		return;
	}
	s->dial = DIAL_IDLE;
	s->transport = t;
	s->number = sl_rpc_transport_number(t);
	if (s->number && !c->has_virtual) {
		c->has_virtual = true;
		pthread_cond_broadcast(&c->dial_due);
	}
	sl_list_del(&s->dialed);
	sl_list_add_tail(&c->dialed, &s->dialed);
	sl_cl_wake(c);
}

/* Lock held; released meanwhile. */
static void look_at_members(struct sl_rpc_client *c)
{
	struct sl_err err = SL_ERR(512);
	struct sl_members m;
	struct stat st;
	uint64_t mtime_ns;

	pthread_mutex_unlock(&c->lock);
	if (stat(c->members_file, &st)) {
		pthread_mutex_lock(&c->lock);
		return; /* being replaced */
	}
	mtime_ns = (uint64_t)st.st_mtim.tv_sec * SL_NS_PER_SEC + (uint64_t)st.st_mtim.tv_nsec;
	if (mtime_ns == c->members_mtime_ns && st.st_ino == c->members_ino) {
		pthread_mutex_lock(&c->lock);
		return;
	}
	c->members_mtime_ns = mtime_ns;
	c->members_ino = st.st_ino;
	if (sl_members_read(&m, c->members_file, &err)) {
		report_error(c, NULL, err.text);
		pthread_mutex_lock(&c->lock);
		return;
	}
	pthread_mutex_lock(&c->lock);
	sl_members_free(&c->members);
	c->members = m;
	atomic_store(&c->has_members, true);
	sl_cl_wake(c);
}

static void wait_for_due(struct sl_rpc_client *c, uint64_t until_ns)
{
	struct timespec until = {.tv_sec = (time_t)(until_ns / SL_NS_PER_SEC),
				 .tv_nsec = (long)(until_ns % SL_NS_PER_SEC)};

	if (until_ns == UINT64_MAX)
		pthread_cond_wait(&c->dial_due, &c->lock);
	else
		pthread_cond_timedwait(&c->dial_due, &c->lock, &until);
}

static uint64_t look_around(struct sl_rpc_client *c, uint64_t now_ns)
{
	if (c->members_file && now_ns >= c->members_look_ns) {
		c->members_look_ns = now_ns + LOOK_NS;
		look_at_members(c);
	}
	if (c->has_virtual)
		sl_cl_probe_silent(c);
	return c->has_virtual    ? now_ns + PROBE_LOOK_NS
	       : c->members_file ? c->members_look_ns
				 : UINT64_MAX;
}

static void *dialer_main(void *arg)
{
	struct sl_rpc_client *c = arg;
	bool looks;

	pthread_mutex_lock(&c->lock);
	looks = !c->has_looker;
	c->has_looker = true;
	while (!c->dial_stop) {
		uint64_t now_ns = sl_now_ns();
		uint64_t next_ns = looks ? look_around(c, now_ns) : UINT64_MAX;
		struct client_server *s = c->dial_stop ? NULL : find_due(c, now_ns, &next_ns);

		if (s)
			dial_server(c, s);
		else if (!c->dial_stop)
			wait_for_due(c, next_ns);
	}
	pthread_mutex_unlock(&c->lock);
	return NULL;
}

static int read_members(struct sl_rpc_client *c, struct sl_members *m, struct sl_err *err)
{
	struct stat st;

	if (!c->members_file)
		return sl_members_parse(m, c->opt.endpoints, err);
	if (!stat(c->members_file, &st)) {
		c->members_mtime_ns =
			(uint64_t)st.st_mtim.tv_sec * SL_NS_PER_SEC + (uint64_t)st.st_mtim.tv_nsec;
		c->members_ino = st.st_ino;
		c->members_look_ns = sl_now_ns() + LOOK_NS;
	}
	return sl_members_read(m, c->members_file, err);
}

int sl_cl_connect_start(struct sl_rpc_client *c, struct sl_err *err)
{
	struct sl_members m;
	unsigned cnt;
	bool ok;

	if (read_members(c, &m, err))
		return -1;
	c->up = calloc(SL_MEMBERS_MAX, sizeof(struct client_server *));
	pthread_mutex_lock(&c->lock);
	ok = c->up && apply_members(c, &m);
	pthread_mutex_unlock(&c->lock);
	cnt = c->members_file || m.cnt > SL_CL_DIALERS_MAX ? SL_CL_DIALERS_MAX : m.cnt;
	sl_members_free(&m);
	if (!ok)
		return sl_fail(err, -1, "out of memory");
	sl_rpc_preload();
	while (c->dialer_cnt < cnt) {
		int rc = sl_thread_start(&c->dialers[c->dialer_cnt], dialer_main, c);

		if (rc)
			return sl_fail(err, -1, "no thread: %s", strerror(-rc));
		c->dialer_cnt++;
	}
	return 0;
}

void sl_cl_connect_stop(struct sl_rpc_client *c)
{
	struct sl_list *node;

	pthread_mutex_lock(&c->lock);
	c->dial_stop = true;
	pthread_cond_broadcast(&c->dial_due);
	pthread_mutex_unlock(&c->lock);
	while (c->dialer_cnt)
		pthread_join(c->dialers[--c->dialer_cnt], NULL);
	while ((node = sl_list_pop_head(&c->dialed)))
		sl_rpc_dial_drop(sl_container_of(node, struct client_server, dialed)->transport);
}
