/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "core/reload.h"
#include "worker/gateway_impl.h"

enum {
	DIAL_WAIT_MS = 1500,  /* a new backend that is not there must not put off the reload */
	EPOCHS_MAX = 64,      /* kept by requests that do not end */
	LAST_WORDS_MS = 2000, /* for replies that were given, and for connections that close */
};

/* --- diallers --- */

static bool has_backend(const struct sl_config *cfg, uint32_t p, uint32_t b)
{
	return p < cfg->pool_cnt && cfg->pools[p].name && b < cfg->pools[p].backend_cnt &&
	       cfg->pools[p].backends[b].name;
}

int sl_diallers_start(struct sl_gateway *g, const struct sl_config *cfg)
{
	for (uint32_t p = 0; p < cfg->pool_cnt; p++) {
		for (uint32_t b = 0; b < cfg->pools[p].backend_cnt; b++) {
			struct sl_dialler **d = &g->diallers[sl_dialler_slot(p, b)];

			if (*d || !has_backend(cfg, p, b))
				continue;
			*d = sl_dialler_start(cfg, p, b, g->workers, g->worker_cnt);
			if (!*d)
				return -1;
		}
	}
	return 0;
}

/* Those of backends that are not in the configuration any more end by and by. */
static void retire_diallers(struct sl_gateway *g, const struct sl_config *cfg)
{
	for (uint32_t p = 0; p < g->service_max; p++) {
		for (uint32_t b = 0; b < SL_MAX_BACKENDS; b++) {
			uint32_t slot = sl_dialler_slot(p, b);

			if (!g->diallers[slot] || has_backend(cfg, p, b))
				continue;
			sl_dialler_ask_stop(g->diallers[slot]);
			g->ending[slot] = g->diallers[slot];
			g->diallers[slot] = NULL;
		}
	}
}

/* True when none is left: until then their places are not given to others. */
static bool reap_diallers(struct sl_gateway *g)
{
	bool all = true;

	for (uint32_t i = 0; i < sl_dialler_slot(g->service_max, 0); i++) {
		if (!g->ending[i])
			continue;
		if (!sl_dialler_ended(g->ending[i])) {
			all = false;
			continue;
		}
		sl_dialler_stop(g->ending[i]);
		g->ending[i] = NULL;
	}
	return all;
}

void sl_diallers_stop(struct sl_gateway *g)
{
	struct sl_dialler **sets[] = {g->diallers, g->ending};

	for (unsigned s = 0; s < 2; s++) {
		for (uint32_t i = 0; sets[s] && i < sl_dialler_slot(g->service_max, 0); i++) {
			if (sets[s][i])
				sl_dialler_ask_stop(sets[s][i]);
		}
	}
	for (unsigned s = 0; s < 2; s++) {
		for (uint32_t i = 0; sets[s] && i < sl_dialler_slot(g->service_max, 0); i++) {
			if (sets[s][i])
				sl_dialler_stop(sets[s][i]);
			if (sets[s])
				sets[s][i] = NULL;
		}
	}
}

/* --- epochs --- */

static void free_epoch(struct sl_gateway *g, struct sl_epoch *e)
{
	for (unsigned i = 0; i < SL_MAX_WORKERS; i++)
		sl_core_change_free(e->changes[i]);
	sl_config_free(e->own);
	if (e != &g->first)
		free(e);
}

/* Those that no exchange and no service of any worker can know of. */
static void free_old_epochs(struct sl_gateway *g)
{
	struct sl_epoch *e = g->epoch->older, *older;

	if (!e)
		return;
	for (unsigned i = 0; i < g->worker_cnt; i++) {
		if (atomic_load_explicit(&g->workers[i].core.settled, memory_order_acquire) !=
		    g->epoch->number)
			return;
	}
	g->epoch->older = NULL;
	g->trim_ns = sl_now_ns() + LAST_WORDS_MS * SL_NS_PER_MS;
	for (; e; e = older) {
		older = e->older;
		free_epoch(g, e);
	}
}

void sl_reload_fini(struct sl_gateway *g)
{
	struct sl_epoch *older;

	if (g->next)
		free_epoch(g, g->next);
	for (struct sl_epoch *e = g->epoch; e; e = older) {
		older = e->older;
		free_epoch(g, e);
	}
}

/* --- the steps --- */

static int make_changes(struct sl_gateway *g, struct sl_epoch *e,
			const struct sl_config *const *living, uint32_t cnt)
{
	for (unsigned i = 0; i < g->worker_cnt; i++) {
		struct sl_core_change *ch =
			sl_core_change_create(&g->workers[i].core, living, cnt, e->cfg, e->number);

		e->changes[i] = ch;
		if (!ch)
			return -ENOMEM;
		ch->listeners = sl_listeners_list(e->cfg, &ch->listener_cnt);
		if (!ch->listeners)
			return -errno;
	}
	return 0;
}

static int tell_all(struct sl_gateway *g, enum sl_worker_verb verb)
{
	int rc = 0;

	for (unsigned i = 0; i < g->worker_cnt; i++) {
		struct sl_worker_msg m = {.verb = verb, .change = g->next->changes[i]};
		int one = sl_worker_tell(&g->workers[i], &m);

		rc = rc ? rc : one;
	}
	return rc;
}

static bool all_reached(const struct sl_gateway *g, enum sl_core_step step)
{
	for (unsigned i = 0; i < g->worker_cnt; i++) {
		if (atomic_load_explicit(&g->next->changes[i]->step, memory_order_acquire) <
		    (int)step)
			return false;
	}
	return true;
}

/* A service that comes to a vacant place begins with nothing counted and nothing overridden. */
static void clear_maps(struct sl_gateway *g, const struct sl_config *next)
{
	for (uint32_t p = 0; p < next->pool_cnt; p++) {
		bool known = false;

		for (const struct sl_epoch *e = g->epoch; e; e = e->older)
			known = known || (p < e->cfg->pool_cnt && e->cfg->pools[p].name);
		if (known || !next->pools[p].name)
			continue;
		memset(sl_gateway_ctl(g, p), 0, sizeof(struct sl_svc_ctl));
		for (unsigned w = 0; w < g->worker_cnt; w++) {
			memset(sl_xdp_hist(&g->xdp[0], w, p, 0), 0,
			       SL_STAGE_CNT * sizeof(struct sl_svc_hist));
			memset(sl_xdp_live(&g->xdp[0], w, p), 0, sizeof(struct sl_svc_live));
		}
	}
}

static uint32_t list_living(const struct sl_gateway *g, const struct sl_config **living)
{
	uint32_t n = 0;

	for (const struct sl_epoch *e = g->epoch; e && n < EPOCHS_MAX; e = e->older)
		living[n++] = e->cfg;
	return n;
}

int sl_gateway_reload(struct sl_gateway *g, struct sl_config *next, char *err, size_t err_len)
{
	const struct sl_config *living[EPOCHS_MAX];
	struct sl_epoch *e;
	uint32_t cnt;
	int rc;

	free_old_epochs(g);
	if (g->reload != SL_RELOAD_NONE || !reap_diallers(g))
		return -EBUSY;
	cnt = list_living(g, living);
	if (cnt == EPOCHS_MAX) {
		snprintf(err, err_len, "%s: requests that do not end keep %d older configurations",
			 next->file, EPOCHS_MAX - 1);
		return -EAGAIN;
	}
	if (sl_config_align(next, living, cnt, g->service_max, err, err_len))
		return -EINVAL;
	e = calloc(1, sizeof(*e));
	if (!e) {
		snprintf(err, err_len, "%s: out of memory", next->file);
		return -ENOMEM;
	}
	e->cfg = next;
	e->number = g->epoch->number + 1;
	clear_maps(g, next); /* before batchers look at what they start from */
	rc = make_changes(g, e, living, cnt);
	if (rc) {
		snprintf(err, err_len, "%s: %s", next->file, strerror(-rc));
		free_epoch(g, e); /* without `own`: next is still the caller's */
		return rc;
	}
	e->own = next;
	g->next = e;
	g->reload = SL_RELOAD_PREPARE;
	g->dial_until_ns = sl_now_ns() + DIAL_WAIT_MS * SL_NS_PER_MS;
	tell_all(g, SL_WORKER_PREPARE);
	if (sl_diallers_start(g, next))
		sl_log_err("reload: cannot start a dialler: %s", strerror(errno));
	return 0;
}

/* What is dialled for the first time is up with all workers, or has had its time. */
static bool links_ready(const struct sl_gateway *g)
{
	const struct sl_config *next = g->next->cfg;

	if (sl_now_ns() >= g->dial_until_ns)
		return true;
	for (uint32_t p = 0; p < next->pool_cnt; p++) {
		for (uint32_t b = 0; b < next->pools[p].backend_cnt; b++) {
			if (!has_backend(next, p, b) || has_backend(g->cfg, p, b))
				continue;
			for (unsigned w = 0; w < g->worker_cnt; w++) {
				if (sl_core_link(&g->workers[w].core, p, b) != SL_LINK_UP)
					return false;
			}
		}
	}
	return true;
}

static void finish(struct sl_gateway *g)
{
	struct sl_net_listener *list;
	uint32_t cnt;
	int rc = 0;

	for (unsigned i = 0; i < g->worker_cnt; i++)
		sl_core_change_tidy(g->next->changes[i]);
	g->next->older = g->epoch;
	g->epoch = g->next;
	g->next = NULL;
	g->reload = SL_RELOAD_NONE;
	list = sl_listeners_list(g->cfg, &cnt);
	rc = list ? sl_listeners_apply(g, g->cfg, list, cnt) : -errno;
	if (rc)
		sl_log_err("reload: cannot set the listeners: %s", strerror(-rc));
}

bool sl_gateway_step(struct sl_gateway *g)
{
	free_old_epochs(g);
	reap_diallers(g);
	if (g->stale_cnt && !g->epoch->older && sl_now_ns() >= g->trim_ns)
		sl_listeners_trim(g);
	if (g->reload == SL_RELOAD_PREPARE && all_reached(g, SL_CHANGE_PREPARED) &&
	    links_ready(g)) {
		const struct sl_config *before = g->cfg;

		g->cfg = g->next->cfg;
		if (sl_info_resize(g)) { /* tried again at the next step */
			g->cfg = before;
			return true;
		}
		retire_diallers(g, g->cfg);
		g->reload = SL_RELOAD_SWITCH;
		tell_all(g, SL_WORKER_SWITCH);
	}
	if (g->reload == SL_RELOAD_SWITCH && all_reached(g, SL_CHANGE_SWITCHED))
		finish(g);
	return g->reload != SL_RELOAD_NONE;
}
