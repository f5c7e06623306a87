/* SPDX-License-Identifier: Apache-2.0 */
/* Read from the bottom: thread_main -> connect_all -> connect_worker -> sl_dial. */
#include "gateway/dial_impl.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/cpu.h"
#include "base/log.h"
#include "base/min.h"
#include "config/server.h"
#include "sandbox/sandbox.h"

enum {
	BACKOFF_MIN_MS = 20,
	BACKOFF_MAX_MS = 5000,
	WATCH_MS = 20,   /* how soon a lost channel is noticed: workers do not say so */
	FULL_RINGS = 64, /* what the slots of a group take at the most, unless each has SLOTS_MIN */
	SLOTS_MIN = 32,
};
#define WELL_NS SL_NS_PER_SEC /* a connection of that length ends the back-off */

/* What a thread has done for a dialler. */
enum attempt { ATTEMPT_NONE, ATTEMPT_CONNECTED, ATTEMPT_FAILED };

static void set_info(struct sl_dialler *d, unsigned worker, const char *text, enum by by,
		     bool broke)
{
	pthread_mutex_lock(&d->board->lock);
	snprintf(d->workers[worker].text, sizeof(d->workers[worker].text), "%s", text);
	d->workers[worker].released = false;
	sl_move_begin(d, worker, by, broke);
	pthread_mutex_unlock(&d->board->lock);
}

static struct sl_rpc_dial_options options_of(const struct sl_dialler *d, const struct sl_worker *w,
					     const char *endpoint)
{
	struct sl_rpc_config rpc;

	sl_rpc_config_default(&rpc);
	return (struct sl_rpc_dial_options){
		.endpoint = endpoint,
		.key_file = d->backend.key_file,
		.timeout_ms = SL_DIAL_TIMEOUT_MS,
		.worker = (uint16_t)w->index,
		.rdma = {.source = d->backend.source,
			 .device = d->backend.device,
			 .port = d->backend.device_port,
			 .tos = d->backend.tos},
		.owner = d->backend.owner,
		.link = d->workers[w->index].link,
		.bulk_ring_len = rpc.bulk_ring_len,
		.slots = d->slots,
	};
}

struct sl_transport *sl_dial(struct sl_dialler *d, const struct sl_worker *w, const char *endpoint,
			     bool goes_on, struct sl_err *err)
{
	struct sl_rpc_memory mem = {.addr = w->umem.area, .len = w->umem.area_len};
	struct sl_rpc_dial_options opt = options_of(d, w, endpoint);

	opt.mem = &mem;
	opt.goes_on = goes_on;
	return sl_rpc_dial(&opt, err);
}

enum sl_rpc_word sl_dial_ask(struct sl_dialler *d, const struct sl_worker *w, unsigned timeout_ms)
{
	const struct way *way = &d->workers[w->index];
	struct sl_rpc_dial_options opt = options_of(d, w, sl_move_endpoint(d, way->by));

	opt.timeout_ms = timeout_ms;
	return sl_rpc_ask(&opt, way->number);
}

int sl_dial_send(struct sl_dialler *d, struct sl_worker *w, enum sl_worker_verb verb,
		 struct sl_transport *t)
{
	struct way *way = &d->workers[w->index];
	struct sl_worker_msg *m = calloc(1, sizeof(*m));
	int rc;

	if (!m)
		return -ENOMEM;
	*m = (struct sl_worker_msg){
		.verb = verb, .member = way->member, .transport = t, .number = way->number};
	rc = sl_worker_send(w, m);
	if (rc)
		free(m);
	return rc;
}

/* For a new link. NULL: the line in err is of the backend's own endpoint. */
static struct sl_transport *dial_first(struct sl_dialler *d, const struct sl_worker *w, enum by *by,
				       struct sl_err *err)
{
	struct sl_err of_other = SL_ERR(160);
	char of_agent[SL_SERVER_ENDPOINT_LEN];
	const char *endpoint = d->backend.endpoint;
	struct sl_transport *t = NULL;

	if (d->agent_cnt) { /* a server: by the agent that is this worker's */
		sl_server_endpoint(of_agent, w->index % d->agent_cnt, d->pool_name, &d->backend);
		endpoint = of_agent;
	}
	*by = BY_FIRST;
	if (d->backend.first)
		t = sl_dial(d, w, d->backend.first, false, &of_other);
	if (t)
		return t;
	if (d->backend.first && !d->complained)
		sl_log_info("backend %s/%s: worker %u does not begin by its first endpoint: %s",
			    d->pool_name, d->backend.name, w->index, of_other.text);
	*by = BY_OWN;
	t = sl_dial(d, w, endpoint, false, err);
	if (t || !d->backend.fallback)
		return t;
	*by = BY_FALLBACK;
	return sl_dial(d, w, d->backend.fallback, false, &of_other);
}

/* Half as much again at random, so that many gateways do not dial at the same moment. */
static void draw_due(struct sl_dialler *d, unsigned *wait_ms, uint64_t now_ns)
{
	uint64_t jitter;

	pthread_mutex_lock(&d->board->lock);
	jitter = sl_prng_below(&d->board->prng, *wait_ms / 2 + 1);
	pthread_mutex_unlock(&d->board->lock);
	d->due_ns = now_ns + (*wait_ms + jitter) * SL_NS_PER_MS;
	*wait_ms = *wait_ms * 2 < BACKOFF_MAX_MS ? *wait_ms * 2 : BACKOFF_MAX_MS;
}

static void note_failure(struct sl_dialler *d, const char *why)
{
	uint64_t now_ns = sl_now_ns();

	draw_due(d, &d->backoff_ms, now_ns);
	d->connected_ns = 0;
	if (d->complained && now_ns < d->said_ns + SL_DIAL_SAY_NS)
		return;
	sl_log_warn("backend %s/%s: %s; retrying in %llu ms", d->pool_name, d->backend.name, why,
		    (unsigned long long)((d->due_ns - now_ns) / SL_NS_PER_MS));
	d->complained = true;
	d->said_ns = now_ns;
}

/* One attempt for one worker. */
static bool connect_worker(struct sl_dialler *d, struct sl_worker *w)
{
	struct sl_err err = SL_ERR(160);
	struct way *way = &d->workers[w->index];
	struct sl_transport *t;
	enum by by;
	bool broke;

	way->link = sl_rpc_link_number();
	t = dial_first(d, w, &by, &err);
	if (!t) {
		set_info(d, w->index, err.text, BY_OWN, false);
		note_failure(d, err.text);
		return false;
	}
	broke = by == BY_FIRST && way->by == BY_OWN && way->peer == sl_rpc_transport_peer(t);
	way->peer = sl_rpc_transport_peer(t);
	way->number = sl_rpc_transport_number(t);
	set_info(d, w->index, sl_rpc_transport_info(t), by, broke);
	if (by == BY_FALLBACK)
		sl_log_warn("backend %s/%s: %s; worker %u uses its fallback %s: %s", d->pool_name,
			    d->backend.name, err.text, w->index, d->backend.fallback,
			    sl_rpc_transport_info(t));
	else
		sl_log_info("backend %s/%s is up for worker %u: %s", d->pool_name, d->backend.name,
			    w->index, sl_rpc_transport_info(t));
	d->complained = false;
	sl_member_link_set(d->workers[w->index].member, SL_LINK_OFFERED);
	if (sl_dial_send(d, w, SL_WORKER_ADOPT, t)) {
		sl_member_link_set(d->workers[w->index].member, SL_LINK_DOWN);
		sl_rpc_dial_drop(t);
		draw_due(d, &d->backoff_ms, sl_now_ns());
		return false;
	}
	return true;
}

/* For all workers that use it, until one of them fails. */
static enum attempt connect_all(struct sl_dialler *d)
{
	enum attempt done = ATTEMPT_NONE;

	for (unsigned i = 0; i < d->board->worker_cnt; i++) {
		if (!sl_dialler_used(d, i) || sl_member_link(d->workers[i].member) != SL_LINK_DOWN)
			continue;
		if (d->connected_ns && sl_now_ns() >= d->connected_ns + WELL_NS)
			d->short_ms = BACKOFF_MIN_MS;
		if (!connect_worker(d, &d->board->workers[i]))
			return ATTEMPT_FAILED;
		done = ATTEMPT_CONNECTED;
	}
	/* A connection that ends at once is dialled again no sooner than one that was refused. */
	if (done == ATTEMPT_CONNECTED) {
		d->connected_ns = sl_now_ns();
		d->backoff_ms = BACKOFF_MIN_MS;
		draw_due(d, &d->short_ms, d->connected_ns);
	}
	return done;
}

/* One step for one link that is up. */
static void tend_links(struct sl_dialler *d)
{
	for (unsigned i = 0; i < d->board->worker_cnt; i++) {
		uint64_t now_ns = sl_now_ns();

		if (now_ns < sl_due_link_ns(d, i))
			continue;
		if (now_ns >= sl_silence_due_ns(d, i))
			sl_silence_ask(d, &d->board->workers[i]);
		else
			sl_move_try(d, &d->board->workers[i]);
		break;
	}
}

/* With the lock, which it lets go meanwhile. One of those that are free watches, the others wait to be woken. */
static void sleep_on(struct sl_switchboard *sb)
{
	uint64_t due_ns = sl_due_next_ns(sb);
	uint64_t until_ns = sl_min_ns(sb->watch_ns, due_ns);
	struct timespec until = {.tv_sec = (time_t)(until_ns / SL_NS_PER_SEC),
				 .tv_nsec = (long)(until_ns % SL_NS_PER_SEC)};

	if (sb->watched) {
		pthread_cond_wait(&sb->wake, &sb->lock);
		return;
	}
	sb->watched = true;
	pthread_cond_timedwait(&sb->wake, &sb->lock, &until);
	sb->watched = false;
}

static void *thread_main(void *arg)
{
	struct sl_switchboard *sb = arg;

	sl_thread_name_set("dialler");
	sl_sandbox_thread(SL_THREAD_DIALLER);
	pthread_mutex_lock(&sb->lock);
	while (!sb->stop) {
		uint64_t now_ns = sl_now_ns();
		struct sl_dialler *d;
		enum attempt done = ATTEMPT_NONE;
		bool is_due;

		if (now_ns >= sb->watch_ns) {
			sb->watch_ns = now_ns + WATCH_MS * SL_NS_PER_MS;
			sl_moves_allot(sb, now_ns);
			sl_due_watch(sb, now_ns);
			sl_rings_look(sb, now_ns);
		}
		d = sl_due_take(sb, now_ns);
		if (!d) {
			sleep_on(sb);
			continue;
		}
		d->busy = true;
		is_due = d->due_ns <= now_ns;
		pthread_cond_signal(&sb->wake); /* another one watches, or takes the next */
		pthread_mutex_unlock(&sb->lock);
		if (is_due)
			done = connect_all(d);
		if (done != ATTEMPT_FAILED)
			tend_links(d);
		pthread_mutex_lock(&sb->lock);
		d->busy = false;
		d->tried |= done != ATTEMPT_NONE;
		if (!d->stop)
			sl_due_look(d, sl_now_ns());
	}
	pthread_mutex_unlock(&sb->lock);
	return NULL;
}

struct sl_switchboard *sl_switchboard_create(struct sl_worker *workers, unsigned worker_cnt)
{
	struct sl_switchboard *sb = calloc(1, sizeof(*sb));
	pthread_condattr_t attr;

	if (!sb)
		return NULL;
	sb->workers = workers;
	sb->worker_cnt = worker_cnt;
	sl_list_init(&sb->diallers);
	sl_list_init(&sb->with_first);
	sl_list_init(&sb->rings);
	sl_prng_seed(&sb->prng, sl_now_ns() ^ (uintptr_t)sb);
	pthread_mutex_init(&sb->lock, NULL);
	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(&sb->wake, &attr);
	pthread_condattr_destroy(&attr);
	return sb;
}

static void free_dialler(struct sl_dialler *d)
{
	free(d->pool_name);
	free((char *)(uintptr_t)d->backend.name);
	free((char *)(uintptr_t)d->backend.endpoint);
	free((char *)(uintptr_t)d->backend.first);
	free((char *)(uintptr_t)d->backend.fallback);
	free((char *)(uintptr_t)d->backend.key_file);
	free((char *)(uintptr_t)d->backend.source);
	free((char *)(uintptr_t)d->backend.device);
	free((char *)(uintptr_t)d->backend.host);
	free(d);
}

static bool copy_text(const char **to, const char *from)
{
	*to = from ? strdup(from) : NULL;
	return *to || !from;
}

static bool copy_names(struct sl_dialler *d, const char *pool, const struct sl_cfg_backend *b)
{
	d->pool_name = strdup(pool);
	d->backend.owner = b->owner;
	d->backend.concurrency = b->concurrency;
	d->backend.device_port = b->device_port;
	d->backend.tos = b->tos;
	return d->pool_name && copy_text(&d->backend.name, b->name) &&
	       copy_text(&d->backend.endpoint, b->endpoint) &&
	       copy_text(&d->backend.first, b->first) &&
	       copy_text(&d->backend.fallback, b->fallback) &&
	       copy_text(&d->backend.key_file, b->key_file) &&
	       copy_text(&d->backend.source, b->source) &&
	       copy_text(&d->backend.device, b->device) && copy_text(&d->backend.host, b->host);
}

static void enter(struct sl_switchboard *sb, struct sl_dialler *d)
{
	sl_list_add_tail(&sb->diallers, &d->node);
	sl_list_init(&d->first_node);
	if (d->backend.first)
		sl_list_add_tail(&sb->with_first, &d->first_node);
	sb->dialler_cnt++;
	/* In their order, before all that have been dialled. */
	d->due_ns = sb->added++;
	sl_due_look(d, sl_now_ns());
}

struct sl_dialler *sl_dialler_add(struct sl_switchboard *sb, const struct sl_cfg_pool *pool,
				  uint32_t b, struct sl_member *const *members, uint32_t edition,
				  uint32_t agent_cnt)
{
	uint32_t each_has = sl_subset_size(pool->subset, pool->backend_cnt, sb->worker_cnt);
	size_t each = sizeof(struct way) + sizeof(struct seen);
	struct sl_dialler *d = calloc(1, sizeof(*d) + sb->worker_cnt * each);
	struct sl_rpc_config rpc;
	int rc;

	if (!d)
		return NULL;
	d->board = sb;
	d->edition = edition;
	if (sl_server_is(&pool->backends[b]))
		d->agent_cnt = agent_cnt;
	d->backoff_ms = d->short_ms = BACKOFF_MIN_MS;
	d->seen = (struct seen *)&d->workers[sb->worker_cnt];
	for (unsigned i = 0; i < sb->worker_cnt; i++)
		d->seen[i].member = d->workers[i].member = members[i];
	/* Each of many backends has few messages under way, and slots are resident, even pinned. */
	sl_rpc_config_default(&rpc);
	d->slots = rpc.slots;
	while (d->slots > SLOTS_MIN && d->slots * each_has > FULL_RINGS * rpc.slots)
		d->slots /= 2;
	rc = copy_names(d, pool->name, &pool->backends[b]) ? 0 : -ENOMEM;
	pthread_mutex_lock(&sb->lock);
	rc = rc ? rc : sl_due_room(sb, sb->dialler_cnt + 1);
	pthread_mutex_unlock(&sb->lock);
	/* As many threads as there are diallers, up to a bound. */
	if (!rc && sb->thread_cnt <= sb->dialler_cnt && sb->thread_cnt < SL_DIAL_THREADS_MAX) {
		rc = sl_thread_start(&sb->threads[sb->thread_cnt], thread_main, sb);
		sb->thread_cnt += !rc;
	}
	if (rc) {
		free_dialler(d);
		errno = -rc;
		return NULL;
	}
	pthread_mutex_lock(&sb->lock);
	enter(sb, d);
	pthread_cond_signal(&sb->wake);
	pthread_mutex_unlock(&sb->lock);
	return d;
}

void sl_dialler_keep(struct sl_dialler *d, uint32_t edition)
{
	d->edition = edition;
}

bool sl_dialler_used(const struct sl_dialler *d, unsigned worker)
{
	return atomic_load(&d->workers[worker].used);
}

void sl_switchboard_allow(struct sl_switchboard *sb, uint32_t max_promoted)
{
	pthread_mutex_lock(&sb->lock);
	sb->max_promoted = max_promoted;
	pthread_mutex_unlock(&sb->lock);
}

void sl_switchboard_switch(struct sl_switchboard *sb, uint32_t edition)
{
	struct sl_list *at;

	pthread_mutex_lock(&sb->lock);
	sb->stopped_cnt = 0;
	sl_list_for_each (at, &sb->diallers) {
		struct sl_dialler *d = sl_container_of(at, struct sl_dialler, node);

		d->stop = d->edition != edition;
		sb->stopped_cnt += d->stop;
		if (d->stop)
			sl_due_drop(d);
	}
	sl_rings_switch(sb, edition);
	pthread_mutex_unlock(&sb->lock);
}

static void end_dialler(struct sl_dialler *d)
{
	struct sl_switchboard *sb = d->board;

	sl_due_drop(d);
	sl_list_del(&d->node);
	sl_list_del(&d->first_node);
	sb->dialler_cnt--;
	sb->stopped_cnt -= d->stop;
	for (unsigned i = 0; i < sb->worker_cnt; i++)
		atomic_store_explicit(&d->workers[i].member->released, true, memory_order_release);
	free_dialler(d);
}

void sl_switchboard_reap(struct sl_switchboard *sb)
{
	struct sl_list *at, *next;

	pthread_mutex_lock(&sb->lock);
	for (at = sb->diallers.next; sb->stopped_cnt && at != &sb->diallers; at = next) {
		struct sl_dialler *d = sl_container_of(at, struct sl_dialler, node);

		next = at->next;
		if (d->stop && !d->busy)
			end_dialler(d);
	}
	pthread_mutex_unlock(&sb->lock);
}

void sl_switchboard_destroy(struct sl_switchboard *sb)
{
	struct sl_list *at, *next;

	if (!sb)
		return;
	pthread_mutex_lock(&sb->lock);
	sb->stop = true;
	pthread_cond_broadcast(&sb->wake);
	pthread_mutex_unlock(&sb->lock);
	for (unsigned i = 0; i < sb->thread_cnt; i++)
		pthread_join(sb->threads[i], NULL);
	sl_rings_end(sb);
	sl_list_for_each_safe (at, next, &sb->diallers)
		end_dialler(sl_container_of(at, struct sl_dialler, node));
	pthread_cond_destroy(&sb->wake);
	pthread_mutex_destroy(&sb->lock);
	free(sb->due);
	free(sb);
}

void sl_dialler_info(struct sl_dialler *d, unsigned worker, struct sl_backend_info *out)
{
	pthread_mutex_lock(&d->board->lock);
	snprintf(out->info, sizeof(out->info), "%s", d->workers[worker].text);
	out->on_fallback = d->workers[worker].by == BY_FALLBACK;
	out->dialled = d->workers[worker].stats;
	pthread_mutex_unlock(&d->board->lock);
}
