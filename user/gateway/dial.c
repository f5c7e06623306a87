/* SPDX-License-Identifier: Apache-2.0 */
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
	AGENT_START_MS = 1000,
	BACKOFF_MAX_MS = 5000,
	SCAN_MS = 20,
	FULL_RINGS = 64, /* limit of a pool's slots, in default rings */
	SLOTS_MIN = 32,
};
#define STABLE_NS SL_NS_PER_SEC

enum attempt { ATTEMPT_NONE, ATTEMPT_CONNECTED, ATTEMPT_FAILED };

static void set_info(struct sl_dialer *d, unsigned worker, const char *text, enum ep_kind ep,
		     bool broke)
{
	pthread_mutex_lock(&d->mgr->lock);
	snprintf(d->workers[worker].text, sizeof(d->workers[worker].text), "%s", text);
	d->workers[worker].released = false;
	sl_ep_switch_reset(d, worker, ep, broke);
	pthread_mutex_unlock(&d->mgr->lock);
}

static struct sl_transport *dial_first(struct sl_dialer *d, const struct sl_worker *w,
				       enum ep_kind *ep, struct sl_err *err)
{
	struct sl_err of_other = SL_ERR(160);
	char of_agent[SL_SERVER_ENDPOINT_LEN];
	const char *endpoint = d->backend.endpoint;
	struct sl_transport *t = NULL;

	if (d->agent_cnt) {
		sl_server_endpoint(of_agent, w->index % d->agent_cnt, d->pool_name, &d->backend);
		endpoint = of_agent;
	}
	*ep = EP_BOOTSTRAP;
	if (d->backend.first)
		t = sl_dial(d, w, d->backend.first, false, &of_other);
	if (t)
		return t;
	if (d->backend.first && !d->logged_down)
		sl_log_info("backend %s/%s: worker %u does not begin by its first endpoint: %s",
			    d->pool_name, d->backend.name, w->index, of_other.text);
	*ep = EP_PRIMARY;
	t = sl_dial(d, w, endpoint, false, err);
	if (t || !d->backend.fallback)
		return t;
	*ep = EP_FALLBACK;
	return sl_dial(d, w, d->backend.fallback, false, &of_other);
}

static void draw_retry(struct sl_dialer *d, unsigned *wait_ms, uint64_t now_ns)
{
	uint64_t jitter;

	pthread_mutex_lock(&d->mgr->lock);
	jitter = sl_prng_below(&d->mgr->prng, *wait_ms / 2 + 1);
	pthread_mutex_unlock(&d->mgr->lock);
	d->due_ns = now_ns + (*wait_ms + jitter) * SL_NS_PER_MS;
	*wait_ms = *wait_ms * 2 < BACKOFF_MAX_MS ? *wait_ms * 2 : BACKOFF_MAX_MS;
}

static void note_failure(struct sl_dialer *d, const char *why)
{
	uint64_t now_ns = sl_now_ns();

	draw_retry(d, &d->backoff_ms, now_ns);
	d->connected_ns = 0;
	if (d->logged_down && now_ns < d->logged_ns + SL_DIAL_LOG_NS)
		return;
	/* The gateway's own agents start beside it. */
	if (d->agent_cnt && !d->logged_down && d->backoff_ms < AGENT_START_MS)
		return;
	sl_log_warn("backend %s/%s: %s; retrying in %llu ms", d->pool_name, d->backend.name, why,
		    (unsigned long long)((d->due_ns - now_ns) / SL_NS_PER_MS));
	d->logged_down = true;
	d->logged_ns = now_ns;
}

static bool connect_worker(struct sl_dialer *d, struct sl_worker *w)
{
	struct sl_err err = SL_ERR(160);
	struct worker_link *wl = &d->workers[w->index];
	struct sl_transport *t;
	enum ep_kind ep;
	bool broke;

	wl->link = sl_rpc_link_number();
	t = dial_first(d, w, &ep, &err);
	if (!t) {
		set_info(d, w->index, err.text, EP_PRIMARY, false);
		note_failure(d, err.text);
		return false;
	}
	broke = ep == EP_BOOTSTRAP && wl->ep == EP_PRIMARY && wl->peer == sl_rpc_transport_peer(t);
	wl->peer = sl_rpc_transport_peer(t);
	wl->number = sl_rpc_transport_number(t);
	set_info(d, w->index, sl_rpc_transport_info(t), ep, broke);
	if (ep == EP_FALLBACK)
		sl_log_warn("backend %s/%s: %s; worker %u uses its fallback %s: %s", d->pool_name,
			    d->backend.name, err.text, w->index, d->backend.fallback,
			    sl_rpc_transport_info(t));
	else
		sl_log_info("backend %s/%s is up for worker %u: %s", d->pool_name, d->backend.name,
			    w->index, sl_rpc_transport_info(t));
	d->logged_down = false;
	sl_backend_ref_set_state(d->workers[w->index].backend, SL_BACKEND_OFFERED);
	if (sl_dial_send(d, w, SL_WORKER_ADOPT, t)) {
		sl_backend_ref_set_state(d->workers[w->index].backend, SL_BACKEND_DOWN);
		sl_rpc_dial_drop(t);
		draw_retry(d, &d->backoff_ms, sl_now_ns());
		return false;
	}
	return true;
}

static enum attempt connect_all(struct sl_dialer *d)
{
	enum attempt done = ATTEMPT_NONE;

	for (unsigned i = 0; i < d->mgr->worker_cnt; i++) {
		if (!sl_dialer_used(d, i) ||
		    sl_backend_ref_state(d->workers[i].backend) != SL_BACKEND_DOWN)
			continue;
		if (d->connected_ns && sl_now_ns() >= d->connected_ns + STABLE_NS)
			d->reconnect_ms = BACKOFF_MIN_MS;
		if (!connect_worker(d, &d->mgr->workers[i]))
			return ATTEMPT_FAILED;
		done = ATTEMPT_CONNECTED;
	}
	/* Connections that end at once must not be retried faster than failures. */
	if (done == ATTEMPT_CONNECTED) {
		d->connected_ns = sl_now_ns();
		d->backoff_ms = BACKOFF_MIN_MS;
		draw_retry(d, &d->reconnect_ms, d->connected_ns);
	}
	return done;
}

static void maintain_links(struct sl_dialer *d)
{
	for (unsigned i = 0; i < d->mgr->worker_cnt; i++) {
		uint64_t now_ns = sl_now_ns();

		if (now_ns < sl_dial_timer_link_ns(d, i))
			continue;
		if (now_ns >= sl_liveness_due_ns(d, i))
			sl_liveness_probe(d, &d->mgr->workers[i]);
		else
			sl_ep_switch_try(d, &d->mgr->workers[i]);
		break;
	}
}

static void wait_for_work(struct sl_conn_mgr *cm)
{
	uint64_t due_ns = sl_dial_timer_next_ns(cm);
	uint64_t until_ns = sl_min_ns(cm->scan_ns, due_ns);
	struct timespec until = {.tv_sec = (time_t)(until_ns / SL_NS_PER_SEC),
				 .tv_nsec = (long)(until_ns % SL_NS_PER_SEC)};

	if (cm->scanning) {
		pthread_cond_wait(&cm->wake, &cm->lock);
		return;
	}
	cm->scanning = true;
	pthread_cond_timedwait(&cm->wake, &cm->lock, &until);
	cm->scanning = false;
}

static void *thread_main(void *arg)
{
	struct sl_conn_mgr *cm = arg;

	sl_thread_name_set("dialer");
	sl_sandbox_thread(SL_THREAD_DIALER);
	pthread_mutex_lock(&cm->lock);
	while (!cm->stop) {
		uint64_t now_ns = sl_now_ns();
		struct sl_dialer *d;
		enum attempt done = ATTEMPT_NONE;
		bool is_due;

		if (now_ns >= cm->scan_ns) {
			cm->scan_ns = now_ns + SCAN_MS * SL_NS_PER_MS;
			sl_promotion_update(cm, now_ns);
			sl_dial_timer_scan(cm, now_ns);
			sl_hash_rings_update(cm, now_ns);
		}
		d = sl_dial_timer_pop(cm, now_ns);
		if (!d) {
			wait_for_work(cm);
			continue;
		}
		d->busy = true;
		is_due = d->due_ns <= now_ns;
		pthread_cond_signal(&cm->wake);
		pthread_mutex_unlock(&cm->lock);
		if (is_due)
			done = connect_all(d);
		if (done != ATTEMPT_FAILED)
			maintain_links(d);
		pthread_mutex_lock(&cm->lock);
		d->busy = false;
		d->tried |= done != ATTEMPT_NONE;
		if (!d->stop)
			sl_dial_timer_update(d, sl_now_ns());
	}
	pthread_mutex_unlock(&cm->lock);
	return NULL;
}

struct sl_conn_mgr *sl_conn_mgr_create(struct sl_worker *workers, unsigned worker_cnt)
{
	struct sl_conn_mgr *cm = calloc(1, sizeof(*cm));
	pthread_condattr_t attr;

	if (!cm)
		return NULL;
	cm->workers = workers;
	cm->worker_cnt = worker_cnt;
	sl_list_init(&cm->dialers);
	sl_list_init(&cm->with_bootstrap);
	sl_list_init(&cm->rings);
	sl_prng_seed(&cm->prng, sl_now_ns() ^ (uintptr_t)cm);
	pthread_mutex_init(&cm->lock, NULL);
	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(&cm->wake, &attr);
	pthread_condattr_destroy(&attr);
	return cm;
}

static void free_dialer(struct sl_dialer *d)
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

static bool copy_names(struct sl_dialer *d, const char *pool, const struct sl_cfg_backend *b)
{
	d->pool_name = strdup(pool);
	d->backend.owner = b->owner;
	d->backend.concurrency = b->concurrency;
	d->backend.way = b->way;
	d->backend.server_hash = b->server_hash;
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

static void register_dialer(struct sl_conn_mgr *cm, struct sl_dialer *d)
{
	sl_list_add_tail(&cm->dialers, &d->node);
	sl_list_init(&d->bootstrap_node);
	if (d->backend.first)
		sl_list_add_tail(&cm->with_bootstrap, &d->bootstrap_node);
	cm->dialer_cnt++;
	d->due_ns = cm->added++;
	sl_dial_timer_update(d, sl_now_ns());
}

struct sl_dialer *sl_dialer_add(struct sl_conn_mgr *cm, const struct sl_cfg_pool *pool, uint32_t b,
				struct sl_backend_ref *const *backends, uint32_t generation,
				uint32_t agent_cnt)
{
	uint32_t each_has = sl_subset_size(pool->subset, pool->backend_cnt, cm->worker_cnt);
	size_t each = sizeof(struct worker_link) + sizeof(struct link_snapshot);
	struct sl_dialer *d = calloc(1, sizeof(*d) + cm->worker_cnt * each);
	struct sl_rpc_config rpc;
	int rc;

	if (!d)
		return NULL;
	d->mgr = cm;
	d->generation = generation;
	if (sl_server_is(&pool->backends[b]))
		d->agent_cnt = pool->backends[b].way == SL_VIA_STACK ? cm->worker_cnt : agent_cnt;
	d->backoff_ms = d->reconnect_ms = BACKOFF_MIN_MS;
	d->seen = (struct link_snapshot *)&d->workers[cm->worker_cnt];
	for (unsigned i = 0; i < cm->worker_cnt; i++)
		d->seen[i].backend = d->workers[i].backend = backends[i];
	/* Slots are pinned memory; with many backends each has few requests. */
	sl_rpc_config_default(&rpc);
	d->slots = rpc.slots;
	while (d->slots > SLOTS_MIN && d->slots * each_has > FULL_RINGS * rpc.slots)
		d->slots /= 2;
	rc = copy_names(d, pool->name, &pool->backends[b]) ? 0 : -ENOMEM;
	pthread_mutex_lock(&cm->lock);
	rc = rc ? rc : sl_dial_timer_reserve(cm, cm->dialer_cnt + 1);
	pthread_mutex_unlock(&cm->lock);
	if (!rc && cm->thread_cnt <= cm->dialer_cnt && cm->thread_cnt < SL_DIAL_THREADS_MAX) {
		rc = sl_thread_start(&cm->threads[cm->thread_cnt], thread_main, cm);
		cm->thread_cnt += !rc;
	}
	if (rc) {
		free_dialer(d);
		errno = -rc;
		return NULL;
	}
	pthread_mutex_lock(&cm->lock);
	register_dialer(cm, d);
	pthread_cond_signal(&cm->wake);
	pthread_mutex_unlock(&cm->lock);
	return d;
}

void sl_dialer_keep(struct sl_dialer *d, uint32_t generation)
{
	d->generation = generation;
}

void sl_conn_mgr_set_max_promoted(struct sl_conn_mgr *cm, uint32_t max_promoted)
{
	pthread_mutex_lock(&cm->lock);
	cm->max_promoted = max_promoted;
	pthread_mutex_unlock(&cm->lock);
}

void sl_conn_mgr_switch(struct sl_conn_mgr *cm, uint32_t generation)
{
	struct sl_list *at;

	pthread_mutex_lock(&cm->lock);
	cm->stopped_cnt = 0;
	sl_list_for_each (at, &cm->dialers) {
		struct sl_dialer *d = sl_container_of(at, struct sl_dialer, node);

		d->stop = d->generation != generation;
		cm->stopped_cnt += d->stop;
		if (d->stop)
			sl_dial_timer_cancel(d);
	}
	sl_hash_rings_switch(cm, generation);
	pthread_mutex_unlock(&cm->lock);
}

static void end_dialer(struct sl_dialer *d)
{
	struct sl_conn_mgr *cm = d->mgr;

	sl_dial_timer_cancel(d);
	sl_list_del(&d->node);
	sl_list_del(&d->bootstrap_node);
	cm->dialer_cnt--;
	cm->stopped_cnt -= d->stop;
	for (unsigned i = 0; i < cm->worker_cnt; i++)
		atomic_store_explicit(&d->workers[i].backend->released, true, memory_order_release);
	free_dialer(d);
}

void sl_conn_mgr_reap(struct sl_conn_mgr *cm)
{
	struct sl_list *at, *next;

	pthread_mutex_lock(&cm->lock);
	for (at = cm->dialers.next; cm->stopped_cnt && at != &cm->dialers; at = next) {
		struct sl_dialer *d = sl_container_of(at, struct sl_dialer, node);

		next = at->next;
		if (d->stop && !d->busy)
			end_dialer(d);
	}
	pthread_mutex_unlock(&cm->lock);
}

void sl_conn_mgr_destroy(struct sl_conn_mgr *cm)
{
	struct sl_list *at, *next;

	if (!cm)
		return;
	pthread_mutex_lock(&cm->lock);
	cm->stop = true;
	pthread_cond_broadcast(&cm->wake);
	pthread_mutex_unlock(&cm->lock);
	for (unsigned i = 0; i < cm->thread_cnt; i++)
		pthread_join(cm->threads[i], NULL);
	sl_hash_rings_end(cm);
	sl_list_for_each_safe (at, next, &cm->dialers)
		end_dialer(sl_container_of(at, struct sl_dialer, node));
	pthread_cond_destroy(&cm->wake);
	pthread_mutex_destroy(&cm->lock);
	free(cm->timers);
	free(cm);
}

void sl_dialer_info(struct sl_dialer *d, unsigned worker, struct sl_backend_info *out)
{
	pthread_mutex_lock(&d->mgr->lock);
	snprintf(out->info, sizeof(out->info), "%s", d->workers[worker].text);
	out->on_fallback = d->workers[worker].ep == EP_FALLBACK;
	out->dialled = d->workers[worker].stats;
	pthread_mutex_unlock(&d->mgr->lock);
}
