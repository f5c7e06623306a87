/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Each pool of a generation has a ring of dialers. In a reload, a worker uses dialers of both
 * rings. An unused link is released, after its requests, once the worker has enough others.
 *
 *   sl_hash_ring_enter (PREPARE) -> sl_hash_rings_switch (SWITCH) -> sl_hash_rings_update, periodic
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/min.h"
#include "gateway/dial_impl.h"

struct sl_hash_ring {
	struct sl_list node;
	char *pool_name;
	uint32_t generation, cnt;
	bool in_force;
	struct sl_dialer **at; /* [cnt]; NULL: could not be created */
	struct sl_subset used[];
};

static bool is_used(const struct sl_conn_mgr *cm, const struct ring_pos *s, unsigned worker)
{
	const struct sl_hash_ring *r = s->ring;
	uint32_t start = r ? sl_subset_start(worker, cm->worker_cnt, r->cnt) : 0;

	return r && (s->at + r->cnt - start) % r->cnt < r->used[worker].width;
}

static void update_used(struct sl_dialer *d)
{
	bool changed = false;

	for (unsigned w = 0; w < d->mgr->worker_cnt; w++) {
		bool used = is_used(d->mgr, &d->pos, w) || is_used(d->mgr, &d->next_pos, w);

		changed |= used != atomic_load(&d->workers[w].used);
		atomic_store(&d->workers[w].used, used);
	}
	if (changed && !d->busy && !d->stop)
		sl_dial_timer_set(d); /* a busy one sets it at its end */
}

static void update_all_used(const struct sl_hash_ring *r)
{
	for (uint32_t i = 0; i < r->cnt; i++) {
		if (r->at[i])
			update_used(r->at[i]);
	}
}

static void free_ring(struct sl_hash_ring *r)
{
	sl_list_del(&r->node);
	free(r->pool_name);
	free(r->at);
	free(r);
}

static struct sl_hash_ring *find_ring(const struct sl_conn_mgr *cm, const char *pool_name)
{
	struct sl_list *at;

	sl_list_for_each (at, &cm->rings) {
		struct sl_hash_ring *r = sl_container_of(at, struct sl_hash_ring, node);

		if (strcmp(r->pool_name, pool_name) == 0)
			return r;
	}
	return NULL;
}

static struct sl_hash_ring *new_ring(const struct sl_conn_mgr *cm, const struct sl_cfg_pool *pool)
{
	uint32_t cnt = pool->backend_cnt;
	struct sl_hash_ring *r = calloc(1, sizeof(*r) + cm->worker_cnt * sizeof(r->used[0]));

	if (!r)
		return NULL;
	sl_list_init(&r->node);
	r->cnt = cnt;
	r->pool_name = strdup(pool->name);
	r->at = calloc(cnt + 1, sizeof(struct sl_dialer *));
	if (r->pool_name && r->at)
		return r;
	free_ring(r);
	return NULL;
}

static int sort_dialers(struct sl_hash_ring *r, const struct sl_cfg_pool *pool,
			struct sl_dialer *const *dialers)
{
	const char **names = calloc(r->cnt + 1, sizeof(*names));
	uint16_t *order = calloc(r->cnt + 1, sizeof(*order));
	int rc = -ENOMEM;

	for (uint32_t i = 0; names && i < r->cnt; i++)
		names[i] = pool->backends[i].name;
	if (names && order)
		rc = sl_subset_order(names, r->cnt, order);
	for (uint32_t i = 0; !rc && i < r->cnt; i++)
		r->at[i] = dialers[order[i]];
	free(names);
	free(order);
	return rc;
}

int sl_hash_ring_enter(struct sl_conn_mgr *cm, const struct sl_cfg_pool *pool,
		       struct sl_dialer *const *dialers, uint32_t generation)
{
	uint32_t own = sl_subset_size(pool->subset, pool->backend_cnt, cm->worker_cnt);
	struct sl_hash_ring *r = new_ring(cm, pool), *before;
	int rc = r ? sort_dialers(r, pool, dialers) : -ENOMEM;

	if (rc) {
		if (r)
			free_ring(r);
		return rc;
	}
	pthread_mutex_lock(&cm->lock);
	r->generation = generation;
	before = find_ring(cm, pool->name);
	for (unsigned w = 0; w < cm->worker_cnt; w++)
		sl_subset_begin(&r->used[w], own, r->cnt, before ? &before->used[w] : NULL,
				sl_now_ns());
	for (uint32_t i = 0; i < r->cnt; i++) {
		if (r->at[i])
			r->at[i]->next_pos = (struct ring_pos){.ring = r, .at = i};
	}
	sl_list_add_tail(&cm->rings, &r->node);
	update_all_used(r);
	pthread_cond_signal(&cm->wake);
	pthread_mutex_unlock(&cm->lock);
	return 0;
}

bool sl_hash_rings_ready(struct sl_conn_mgr *cm)
{
	struct sl_list *at;
	bool ready = true;

	pthread_mutex_lock(&cm->lock);
	sl_list_for_each (at, &cm->dialers) {
		const struct sl_dialer *d = sl_container_of(at, struct sl_dialer, node);

		for (unsigned w = 0; w < cm->worker_cnt; w++)
			ready &= !is_used(cm, &d->next_pos, w) || is_used(cm, &d->pos, w) ||
				 sl_backend_ref_state(d->workers[w].backend) == SL_BACKEND_UP ||
				 sl_backend_ref_state(d->workers[w].backend) == SL_BACKEND_UNREADY;
	}
	pthread_mutex_unlock(&cm->lock);
	return ready;
}

/*
 * Returns true if connected or failed. Agents start at the same time: their failures do not count.
 */
static bool is_tried(const struct sl_dialer *d, unsigned worker)
{
	enum sl_backend_state link = sl_backend_ref_state(d->workers[worker].backend);

	if (link == SL_BACKEND_DOWN)
		return d->tried && !d->busy && !d->connected_ns && !d->agent_cnt;
	return link != SL_BACKEND_OFFERED;
}

static bool ring_is_tried(const struct sl_hash_ring *r, unsigned worker)
{
	bool has_up = false, all = true;

	for (uint32_t i = 0; i < r->cnt; i++) {
		const struct sl_dialer *d = r->at[i];

		if (!d || !sl_dialer_used(d, worker))
			continue;
		has_up |= sl_backend_ref_state(d->workers[worker].backend) == SL_BACKEND_UP;
		all = all && is_tried(d, worker);
	}
	return has_up || all;
}

bool sl_hash_rings_tried(struct sl_conn_mgr *cm)
{
	struct sl_list *at;
	bool tried = true;

	pthread_mutex_lock(&cm->lock);
	sl_list_for_each (at, &cm->rings) {
		const struct sl_hash_ring *r = sl_container_of(at, struct sl_hash_ring, node);

		for (unsigned w = 0; w < cm->worker_cnt && r->in_force; w++)
			tried = tried && ring_is_tried(r, w);
	}
	pthread_mutex_unlock(&cm->lock);
	return tried;
}

void sl_hash_rings_switch(struct sl_conn_mgr *cm, uint32_t generation)
{
	struct sl_list *at, *next;

	sl_list_for_each (at, &cm->dialers) {
		struct sl_dialer *d = sl_container_of(at, struct sl_dialer, node);

		d->pos = d->next_pos;
		d->next_pos = (struct ring_pos){0};
		update_used(d);
	}
	sl_list_for_each_safe (at, next, &cm->rings) {
		struct sl_hash_ring *r = sl_container_of(at, struct sl_hash_ring, node);

		r->in_force = r->generation == generation;
		if (!r->in_force)
			free_ring(r);
	}
	cm->rings_check_ns = 0;
}

void sl_hash_rings_end(struct sl_conn_mgr *cm)
{
	struct sl_list *at, *next;

	sl_list_for_each_safe (at, next, &cm->rings)
		free_ring(sl_container_of(at, struct sl_hash_ring, node));
}

static bool is_up(const struct sl_dialer *d, unsigned worker)
{
	return sl_backend_ref_state(d->workers[worker].backend) == SL_BACKEND_UP &&
	       !d->workers[worker].released;
}

static bool has_link(const struct sl_dialer *d, unsigned worker)
{
	return (is_up(d, worker) ||
		sl_backend_ref_state(d->workers[worker].backend) == SL_BACKEND_UNREADY) &&
	       !d->workers[worker].released;
}

static bool is_up_anywhere(const struct sl_dialer *d)
{
	bool up_anywhere = false;

	for (unsigned w = 0; d && w < d->mgr->worker_cnt && !up_anywhere; w++)
		up_anywhere = is_up(d, w);
	return up_anywhere;
}

static bool release_link(struct sl_dialer *d, struct sl_worker *w)
{
	struct worker_link *wl = &d->workers[w->index];

	if (sl_dial_send(d, w, SL_WORKER_RELEASE, NULL))
		return false;
	wl->released = true;
	return true;
}

static bool release_unused(struct sl_conn_mgr *cm, const struct sl_hash_ring *r, unsigned worker)
{
	for (uint32_t i = 0; i < r->cnt; i++) {
		struct sl_dialer *d = r->at[i];

		if (d && !d->workers[worker].used && has_link(d, worker) &&
		    !release_link(d, &cm->workers[worker]))
			return false;
	}
	return true;
}

static uint64_t update_subset(struct sl_conn_mgr *cm, struct sl_hash_ring *r, unsigned worker,
			      const bool *up_anywhere, uint64_t now_ns)
{
	struct sl_subset *s = &r->used[worker];
	uint32_t width = s->width, start = sl_subset_start(worker, cm->worker_cnt, r->cnt);
	uint8_t states[SL_CFG_MAX_BACKENDS];

	for (uint32_t k = 0; k < r->cnt; k++) {
		uint32_t at = (start + k) % r->cnt;

		states[k] = !up_anywhere[at]           ? SL_SUBSET_NONE
			    : is_up(r->at[at], worker) ? SL_SUBSET_UP
						       : SL_SUBSET_OTHERS;
	}
	sl_subset_look(s, states, r->cnt, now_ns);
	if (s->width != width) {
		sl_log_info("pool %s: worker %u uses %u of %u backends, of which %u are its own",
			    r->pool_name, worker, s->width, r->cnt, s->own);
		update_all_used(r);
	}
	if (sl_subset_enough(s, states) && !release_unused(cm, r, worker))
		return now_ns;
	return sl_subset_due_ns(s, now_ns);
}

void sl_hash_rings_update(struct sl_conn_mgr *cm, uint64_t now_ns)
{
	struct sl_list *at;

	if (now_ns < cm->rings_check_ns)
		return;
	cm->rings_check_ns = UINT64_MAX;
	sl_list_for_each (at, &cm->rings) {
		struct sl_hash_ring *r = sl_container_of(at, struct sl_hash_ring, node);
		bool up_anywhere[SL_CFG_MAX_BACKENDS];

		if (!r->in_force || r->used[0].own == r->cnt)
			continue;
		for (uint32_t i = 0; i < r->cnt; i++)
			up_anywhere[i] = is_up_anywhere(r->at[i]);
		for (unsigned w = 0; w < cm->worker_cnt; w++) {
			uint64_t due_ns = update_subset(cm, r, w, up_anywhere, now_ns);

			cm->rings_check_ns = sl_min_ns(cm->rings_check_ns, due_ns);
		}
	}
}

void sl_conn_mgr_subset(struct sl_conn_mgr *cm, const char *pool_name, unsigned worker,
			struct sl_subset_info *out)
{
	const struct sl_hash_ring *r;

	*out = (struct sl_subset_info){0};
	pthread_mutex_lock(&cm->lock);
	r = find_ring(cm, pool_name);
	if (r) {
		out->subset = r->used[worker].own;
		out->borrowed = r->used[worker].width - r->used[worker].own;
		for (uint32_t i = 0; i < r->cnt; i++)
			out->connected += r->at[i] && is_up(r->at[i], worker);
	}
	pthread_mutex_unlock(&cm->lock);
}
