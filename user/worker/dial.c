/* SPDX-License-Identifier: Apache-2.0 */
#include "worker/dial.h"

#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/cpu.h"
#include "base/log.h"
#include "base/rand.h"
#include "core/service.h"

enum {
	DIAL_TIMEOUT_MS = 1000,
	BACKOFF_MIN_MS = 20,
	BACKOFF_MAX_MS = 400, /* a backend is to be used again within a second of its return */
	WATCH_MS = 20,        /* how soon a lost channel is noticed */
};

struct sl_dialler {
	char *pool_name;
	struct sl_cfg_backend backend; /* its texts are ours */
	uint32_t pool, index;
	struct sl_worker *workers;
	unsigned worker_cnt;
	pthread_t thread;
	pthread_mutex_t lock; /* stop, info */
	pthread_cond_t wake;
	bool stop;
	_Atomic bool ended;
	unsigned backoff_ms;
	struct sl_prng prng;
	bool complained; /* the log says that it is down */
	struct {
		char text[192];
		bool on_fallback;
	} info[SL_MAX_WORKERS];
};

static void set_info(struct sl_dialler *d, unsigned worker, const char *text, bool on_fallback)
{
	pthread_mutex_lock(&d->lock);
	snprintf(d->info[worker].text, sizeof(d->info[worker].text), "%s", text);
	d->info[worker].on_fallback = on_fallback;
	pthread_mutex_unlock(&d->lock);
}

static struct sl_transport *dial(struct sl_dialler *d, const struct sl_worker *w,
				 const char *endpoint, char *err, size_t err_len)
{
	struct sl_rpc_memory mem = {.addr = w->umem.area, .len = w->umem.area_len};
	struct sl_rpc_config rpc;
	struct sl_rpc_dial_options opt = {
		.endpoint = endpoint,
		.key_file = d->backend.key_file,
		.mem = &mem,
		.timeout_ms = DIAL_TIMEOUT_MS,
		.worker = (uint16_t)w->index,
	};

	sl_rpc_config_default(&rpc);
	opt.bulk_ring_len = rpc.bulk_ring_len;
	opt.slots = rpc.slots;
	return sl_rpc_dial(&opt, err, err_len);
}

static int hand_over(struct sl_dialler *d, struct sl_worker *w, struct sl_transport *t)
{
	struct sl_worker_msg *m = calloc(1, sizeof(*m));
	int rc;

	if (!m)
		return -ENOMEM;
	*m = (struct sl_worker_msg){
		.verb = SL_WORKER_ADOPT, .pool = d->pool, .backend = d->index, .transport = t};
	rc = sl_worker_send(w, m);
	if (rc)
		free(m);
	return rc;
}

/* One attempt for one worker: the backend's own endpoint first, then its fallback, if configured.
 */
static bool connect_worker(struct sl_dialler *d, struct sl_worker *w)
{
	char err[160], err2[160];
	bool fallback = false;
	struct sl_transport *t = dial(d, w, d->backend.endpoint, err, sizeof(err));

	if (!t && d->backend.fallback) {
		t = dial(d, w, d->backend.fallback, err2, sizeof(err2));
		fallback = t != NULL;
	}
	if (!t) {
		set_info(d, w->index, err, false);
		if (!d->complained)
			sl_log_warn("backend %s/%s is down: %s", d->pool_name, d->backend.name,
				    err);
		d->complained = true;
		return false;
	}
	set_info(d, w->index, sl_rpc_transport_info(t), fallback);
	if (fallback)
		sl_log_warn("backend %s/%s: %s; worker %u uses its fallback %s: %s", d->pool_name,
			    d->backend.name, err, w->index, d->backend.fallback,
			    sl_rpc_transport_info(t));
	else
		sl_log_info("backend %s/%s is up for worker %u: %s", d->pool_name, d->backend.name,
			    w->index, sl_rpc_transport_info(t));
	d->complained = false;
	sl_core_link_set(&w->core, d->pool, d->index, SL_LINK_OFFERED);
	if (hand_over(d, w, t)) {
		sl_core_link_set(&w->core, d->pool, d->index, SL_LINK_DOWN);
		sl_rpc_dial_drop(t);
		return false;
	}
	return true;
}

/* True when told to stop. */
static bool pause_ms(struct sl_dialler *d, unsigned ms)
{
	struct timespec until;
	uint64_t ns;
	bool stop;

	clock_gettime(CLOCK_MONOTONIC, &until);
	ns = (uint64_t)until.tv_nsec + ms * SL_NS_PER_MS;
	until.tv_sec += (time_t)(ns / SL_NS_PER_SEC);
	until.tv_nsec = (long)(ns % SL_NS_PER_SEC);
	pthread_mutex_lock(&d->lock);
	while (!d->stop && pthread_cond_timedwait(&d->wake, &d->lock, &until) == 0)
		;
	stop = d->stop;
	pthread_mutex_unlock(&d->lock);
	return stop;
}

static void *dialler_main(void *arg)
{
	struct sl_dialler *d = arg;
	unsigned wait = 0;

	sl_thread_name_set("dialler");
	while (!pause_ms(d, wait)) {
		bool failed = false;

		for (unsigned i = 0; i < d->worker_cnt && !failed; i++) {
			if (sl_core_link(&d->workers[i].core, d->pool, d->index) == SL_LINK_DOWN)
				failed = !connect_worker(d, &d->workers[i]);
		}
		if (!failed) {
			d->backoff_ms = BACKOFF_MIN_MS;
			wait = WATCH_MS;
			continue;
		}
		/* Half of it is jitter, so that many gateways do not knock at the same moment. */
		wait = d->backoff_ms / 2 + (unsigned)sl_prng_below(&d->prng, d->backoff_ms / 2 + 1);
		d->backoff_ms =
			d->backoff_ms * 2 < BACKOFF_MAX_MS ? d->backoff_ms * 2 : BACKOFF_MAX_MS;
	}
	atomic_store_explicit(&d->ended, true, memory_order_release);
	return NULL;
}

static void free_dialler(struct sl_dialler *d)
{
	pthread_cond_destroy(&d->wake);
	pthread_mutex_destroy(&d->lock);
	free(d->pool_name);
	free((char *)(uintptr_t)d->backend.name);
	free((char *)(uintptr_t)d->backend.endpoint);
	free((char *)(uintptr_t)d->backend.fallback);
	free((char *)(uintptr_t)d->backend.key_file);
	free(d);
}

static bool copy_text(const char **to, const char *from)
{
	*to = from ? strdup(from) : NULL;
	return *to || !from;
}

static bool copy_names(struct sl_dialler *d, const struct sl_cfg_pool *pool,
		       const struct sl_cfg_backend *b)
{
	d->pool_name = strdup(pool->name);
	return d->pool_name && copy_text(&d->backend.name, b->name) &&
	       copy_text(&d->backend.endpoint, b->endpoint) &&
	       copy_text(&d->backend.fallback, b->fallback) &&
	       copy_text(&d->backend.key_file, b->key_file);
}

struct sl_dialler *sl_dialler_start(const struct sl_config *cfg, uint32_t pool, uint32_t backend,
				    struct sl_worker *workers, unsigned worker_cnt)
{
	struct sl_dialler *d = calloc(1, sizeof(*d));
	pthread_condattr_t attr;
	sigset_t all, old;
	int rc;

	if (!d)
		return NULL;
	d->pool = pool;
	d->index = backend;
	d->workers = workers;
	d->worker_cnt = worker_cnt;
	d->backoff_ms = BACKOFF_MIN_MS;
	sl_prng_seed(&d->prng, sl_now_ns() ^ (uintptr_t)d);
	pthread_mutex_init(&d->lock, NULL);
	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(&d->wake, &attr);
	pthread_condattr_destroy(&attr);
	if (!copy_names(d, &cfg->pools[pool], &cfg->pools[pool].backends[backend])) {
		free_dialler(d);
		errno = ENOMEM;
		return NULL;
	}
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	rc = pthread_create(&d->thread, NULL, dialler_main, d);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	if (rc) {
		free_dialler(d);
		errno = rc;
		return NULL;
	}
	return d;
}

void sl_dialler_ask_stop(struct sl_dialler *d)
{
	pthread_mutex_lock(&d->lock);
	d->stop = true;
	pthread_cond_signal(&d->wake);
	pthread_mutex_unlock(&d->lock);
}

bool sl_dialler_ended(const struct sl_dialler *d)
{
	return atomic_load_explicit(&d->ended, memory_order_acquire);
}

void sl_dialler_stop(struct sl_dialler *d)
{
	sl_dialler_ask_stop(d);
	pthread_join(d->thread, NULL);
	free_dialler(d);
}

void sl_dialler_info(struct sl_dialler *d, unsigned worker, struct sl_backend_info *out)
{
	pthread_mutex_lock(&d->lock);
	snprintf(out->info, sizeof(out->info), "%s", d->info[worker].text);
	out->on_fallback = d->info[worker].on_fallback;
	pthread_mutex_unlock(&d->lock);
}
