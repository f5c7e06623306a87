/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which workers a dialler dials for: each pool of an edition has a ring of its diallers, of which each
 * worker uses a part (subset.h). While a reload is under way a dialler stands on two rings, of the edition in
 * force and of the next, and is used by whoever uses it on either; so that what leaves a worker's part goes
 * when the next is in force, and what comes is up by then, or has had its time. A link that is not used any
 * more is let go of, once the worker has enough others: its requests end first.
 *
 *   sl_ring_enter (PREPARE) ---> sl_rings_switch (SWITCH) ---> sl_rings_look, as links come and go
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/min.h"
#include "gateway/dial_impl.h"

struct sl_ring {
	struct sl_list node; /* in the switchboard's */
	char *pool_name;
	uint32_t edition, cnt;
	bool in_force;           /* its edition */
	struct sl_dialler **at;  /* [cnt]; NULL: it could not be made */
	struct sl_subset used[]; /* [worker_cnt] */
};

/* --- who is used --- */

static bool is_used(const struct sl_switchboard *sb, const struct spot *s, unsigned worker)
{
	const struct sl_ring *r = s->ring;
	uint32_t start = r ? sl_subset_start(worker, sb->worker_cnt, r->cnt) : 0;

	return r && (s->at + r->cnt - start) % r->cnt < r->used[worker].width;
}

static void mark(struct sl_dialler *d)
{
	bool changed = false;

	for (unsigned w = 0; w < d->board->worker_cnt; w++) {
		bool used = is_used(d->board, &d->spot, w) || is_used(d->board, &d->next_spot, w);

		changed |= used != atomic_load(&d->workers[w].used);
		atomic_store(&d->workers[w].used, used);
	}
	if (changed && !d->busy && !d->stop)
		sl_due_place(d); /* busy: it is, when that is over */
}

static void mark_all(const struct sl_ring *r)
{
	for (uint32_t i = 0; i < r->cnt; i++) {
		if (r->at[i])
			mark(r->at[i]);
	}
}

/* --- from one edition to the next --- */

static void free_ring(struct sl_ring *r)
{
	sl_list_del(&r->node);
	free(r->pool_name);
	free(r->at);
	free(r);
}

static struct sl_ring *find_ring(const struct sl_switchboard *sb, const char *pool_name)
{
	struct sl_list *at;

	sl_list_for_each (at, &sb->rings) {
		struct sl_ring *r = sl_container_of(at, struct sl_ring, node);

		if (strcmp(r->pool_name, pool_name) == 0)
			return r;
	}
	return NULL;
}

static struct sl_ring *new_ring(const struct sl_switchboard *sb, const struct sl_cfg_pool *pool)
{
	uint32_t cnt = pool->backend_cnt;
	struct sl_ring *r = calloc(1, sizeof(*r) + sb->worker_cnt * sizeof(r->used[0]));

	if (!r)
		return NULL;
	sl_list_init(&r->node);
	r->cnt = cnt;
	r->pool_name = strdup(pool->name);
	r->at = calloc(cnt + 1, sizeof(struct sl_dialler *));
	if (r->pool_name && r->at)
		return r;
	free_ring(r);
	return NULL;
}

static int put_in_order(struct sl_ring *r, const struct sl_cfg_pool *pool,
			struct sl_dialler *const *diallers)
{
	const char **names = calloc(r->cnt + 1, sizeof(*names));
	uint16_t *order = calloc(r->cnt + 1, sizeof(*order));
	int rc = -ENOMEM;

	for (uint32_t i = 0; names && i < r->cnt; i++)
		names[i] = pool->backends[i].name;
	if (names && order)
		rc = sl_subset_order(names, r->cnt, order);
	for (uint32_t i = 0; !rc && i < r->cnt; i++)
		r->at[i] = diallers[order[i]];
	free(names);
	free(order);
	return rc;
}

int sl_ring_enter(struct sl_switchboard *sb, const struct sl_cfg_pool *pool,
		  struct sl_dialler *const *diallers, uint32_t edition)
{
	uint32_t own = sl_subset_size(pool->subset, pool->backend_cnt, sb->worker_cnt);
	struct sl_ring *r = new_ring(sb, pool), *before;
	int rc = r ? put_in_order(r, pool, diallers) : -ENOMEM;

	if (rc) {
		if (r)
			free_ring(r);
		return rc;
	}
	pthread_mutex_lock(&sb->lock);
	r->edition = edition;
	before = find_ring(sb, pool->name);
	for (unsigned w = 0; w < sb->worker_cnt; w++)
		sl_subset_begin(&r->used[w], own, r->cnt, before ? &before->used[w] : NULL,
				sl_now_ns());
	for (uint32_t i = 0; i < r->cnt; i++) {
		if (r->at[i])
			r->at[i]->next_spot = (struct spot){.ring = r, .at = i};
	}
	sl_list_add_tail(&sb->rings, &r->node);
	mark_all(r);
	pthread_cond_signal(&sb->wake);
	pthread_mutex_unlock(&sb->lock);
	return 0;
}

bool sl_rings_ready(struct sl_switchboard *sb)
{
	struct sl_list *at;
	bool ready = true;

	pthread_mutex_lock(&sb->lock);
	sl_list_for_each (at, &sb->diallers) {
		const struct sl_dialler *d = sl_container_of(at, struct sl_dialler, node);

		for (unsigned w = 0; w < sb->worker_cnt; w++)
			ready &= !is_used(sb, &d->next_spot, w) || is_used(sb, &d->spot, w) ||
				 sl_member_link(d->workers[w].member) == SL_LINK_UP ||
				 sl_member_link(d->workers[w].member) == SL_LINK_UNREADY;
	}
	pthread_mutex_unlock(&sb->lock);
	return ready;
}

/* Agents of the gateway's own start beside it: that they do not listen yet is no failure. */
static bool is_tried(const struct sl_dialler *d, unsigned worker)
{
	enum sl_member_link link = sl_member_link(d->workers[worker].member);

	if (link == SL_LINK_DOWN)
		return d->tried && !d->busy && !d->connected_ns && !d->agent_cnt;
	return link != SL_LINK_OFFERED;
}

static bool ring_is_tried(const struct sl_ring *r, unsigned worker)
{
	bool has_up = false, all = true;

	for (uint32_t i = 0; i < r->cnt; i++) {
		const struct sl_dialler *d = r->at[i];

		if (!d || !sl_dialler_used(d, worker))
			continue;
		has_up |= sl_member_link(d->workers[worker].member) == SL_LINK_UP;
		all = all && is_tried(d, worker);
	}
	return has_up || all;
}

bool sl_rings_tried(struct sl_switchboard *sb)
{
	struct sl_list *at;
	bool tried = true;

	pthread_mutex_lock(&sb->lock);
	sl_list_for_each (at, &sb->rings) {
		const struct sl_ring *r = sl_container_of(at, struct sl_ring, node);

		for (unsigned w = 0; w < sb->worker_cnt && r->in_force; w++)
			tried = tried && ring_is_tried(r, w);
	}
	pthread_mutex_unlock(&sb->lock);
	return tried;
}

void sl_rings_switch(struct sl_switchboard *sb, uint32_t edition)
{
	struct sl_list *at, *next;

	sl_list_for_each (at, &sb->diallers) {
		struct sl_dialler *d = sl_container_of(at, struct sl_dialler, node);

		d->spot = d->next_spot;
		d->next_spot = (struct spot){0};
		mark(d);
	}
	sl_list_for_each_safe (at, next, &sb->rings) {
		struct sl_ring *r = sl_container_of(at, struct sl_ring, node);

		r->in_force = r->edition == edition;
		if (!r->in_force)
			free_ring(r);
	}
	sb->rings_ns = 0;
}

void sl_rings_end(struct sl_switchboard *sb)
{
	struct sl_list *at, *next;

	sl_list_for_each_safe (at, next, &sb->rings)
		free_ring(sl_container_of(at, struct sl_ring, node));
}

/* --- as links come and go --- */

static bool is_up(const struct sl_dialler *d, unsigned worker)
{
	return sl_member_link(d->workers[worker].member) == SL_LINK_UP &&
	       !d->workers[worker].released;
}

/* It may be unready. */
static bool has_link(const struct sl_dialler *d, unsigned worker)
{
	return (is_up(d, worker) || sl_member_link(d->workers[worker].member) == SL_LINK_UNREADY) &&
	       !d->workers[worker].released;
}

/* Whether somebody is connected with it. */
static bool is_well(const struct sl_dialler *d)
{
	bool well = false;

	for (unsigned w = 0; d && w < d->board->worker_cnt && !well; w++)
		well = is_up(d, w);
	return well;
}

/* False: its worker does not take it now. */
static bool release(struct sl_dialler *d, struct sl_worker *w)
{
	struct way *way = &d->workers[w->index];

	if (sl_dial_send(d, w, SL_WORKER_RELEASE, NULL))
		return false;
	way->released = true;
	return true;
}

/* Links that the worker does not use. False: some are left. */
static bool release_unused(struct sl_switchboard *sb, const struct sl_ring *r, unsigned worker)
{
	for (uint32_t i = 0; i < r->cnt; i++) {
		struct sl_dialler *d = r->at[i];

		if (d && !d->workers[worker].used && has_link(d, worker) &&
		    !release(d, &sb->workers[worker]))
			return false;
	}
	return true;
}

/* well: of each member. When it is to be looked at again though no link has changed. */
static uint64_t look_for(struct sl_switchboard *sb, struct sl_ring *r, unsigned worker,
			 const bool *well, uint64_t now_ns)
{
	struct sl_subset *s = &r->used[worker];
	uint32_t width = s->width, start = sl_subset_start(worker, sb->worker_cnt, r->cnt);
	uint8_t spots[SL_CFG_MAX_BACKENDS];

	for (uint32_t k = 0; k < r->cnt; k++) {
		uint32_t at = (start + k) % r->cnt;

		spots[k] = !well[at]                  ? SL_SPOT_NONE
			   : is_up(r->at[at], worker) ? SL_SPOT_UP
						      : SL_SPOT_OTHERS;
	}
	sl_subset_look(s, spots, r->cnt, now_ns);
	if (s->width != width) {
		sl_log_info("pool %s: worker %u uses %u of %u backends, of which %u are its own",
			    r->pool_name, worker, s->width, r->cnt, s->own);
		mark_all(r);
	}
	if (sl_subset_enough(s, spots) && !release_unused(sb, r, worker))
		return now_ns;
	return sl_subset_due_ns(s, now_ns);
}

void sl_rings_look(struct sl_switchboard *sb, uint64_t now_ns)
{
	struct sl_list *at;

	if (now_ns < sb->rings_ns)
		return;
	sb->rings_ns = UINT64_MAX;
	sl_list_for_each (at, &sb->rings) {
		struct sl_ring *r = sl_container_of(at, struct sl_ring, node);
		bool well[SL_CFG_MAX_BACKENDS];

		if (!r->in_force || r->used[0].own == r->cnt)
			continue; /* all are used */
		for (uint32_t i = 0; i < r->cnt; i++)
			well[i] = is_well(r->at[i]);
		for (unsigned w = 0; w < sb->worker_cnt; w++) {
			uint64_t due_ns = look_for(sb, r, w, well, now_ns);

			sb->rings_ns = sl_min_ns(sb->rings_ns, due_ns);
		}
	}
}

void sl_switchboard_subset(struct sl_switchboard *sb, const char *pool_name, unsigned worker,
			   struct sl_subset_info *out)
{
	const struct sl_ring *r;

	*out = (struct sl_subset_info){0};
	pthread_mutex_lock(&sb->lock);
	r = find_ring(sb, pool_name);
	if (r) {
		out->subset = r->used[worker].own;
		out->borrowed = r->used[worker].width - r->used[worker].own;
		for (uint32_t i = 0; i < r->cnt; i++)
			out->connected += r->at[i] && is_up(r->at[i], worker);
	}
	pthread_mutex_unlock(&sb->lock);
}
