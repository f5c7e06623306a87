/* SPDX-License-Identifier: Apache-2.0 */
/* A heap of dialers by due time. A periodic scan finds links that workers have changed. */
#include "gateway/dial_impl.h"

#include <errno.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/log.h"

static bool is_earlier(const struct dial_timer *a, const struct dial_timer *b)
{
	return a->at_ns < b->at_ns;
}

static void place_at(struct sl_conn_mgr *cm, struct dial_timer due, uint32_t at)
{
	cm->timers[at] = due;
	due.d->heap_pos = at + 1;
}

static void sift_up(struct sl_conn_mgr *cm, struct dial_timer due, uint32_t at)
{
	while (at && is_earlier(&due, &cm->timers[(at - 1) / 2])) {
		place_at(cm, cm->timers[(at - 1) / 2], at);
		at = (at - 1) / 2;
	}
	place_at(cm, due, at);
}

static void sift_down(struct sl_conn_mgr *cm, struct dial_timer due, uint32_t at)
{
	for (uint32_t child = 2 * at + 1; child < cm->timer_cnt; child = 2 * at + 1) {
		if (child + 1 < cm->timer_cnt &&
		    is_earlier(&cm->timers[child + 1], &cm->timers[child]))
			child++;
		if (!is_earlier(&cm->timers[child], &due))
			break;
		place_at(cm, cm->timers[child], at);
		at = child;
	}
	place_at(cm, due, at);
}

static void sift(struct sl_conn_mgr *cm, struct dial_timer due, uint32_t at)
{
	if (at && is_earlier(&due, &cm->timers[(at - 1) / 2]))
		sift_up(cm, due, at);
	else
		sift_down(cm, due, at);
}

void sl_dial_timer_cancel(struct sl_dialer *d)
{
	struct sl_conn_mgr *cm = d->mgr;
	uint32_t at = d->heap_pos - 1;

	if (!d->heap_pos)
		return;
	d->heap_pos = 0;
	cm->timer_cnt--;
	if (at < cm->timer_cnt)
		sift(cm, cm->timers[cm->timer_cnt], at);
}

static void set_time(struct sl_dialer *d, uint64_t at_ns)
{
	struct sl_conn_mgr *cm = d->mgr;
	struct dial_timer due = {.at_ns = at_ns, .d = d};

	if (at_ns == UINT64_MAX)
		sl_dial_timer_cancel(d);
	else if (!d->heap_pos)
		sift_up(cm, due, cm->timer_cnt++);
	else if (cm->timers[d->heap_pos - 1].at_ns != at_ns)
		sift(cm, due, d->heap_pos - 1);
}

int sl_dial_timer_reserve(struct sl_conn_mgr *cm, uint32_t cnt)
{
	uint32_t room = cm->timer_cap ? 2 * cm->timer_cap : 16;
	struct dial_timer *due;

	if (cnt <= cm->timer_cap)
		return 0;
	due = reallocarray(cm->timers, room, sizeof(*due));
	if (!due)
		return -ENOMEM;
	cm->timers = due;
	cm->timer_cap = room;
	return 0;
}

uint64_t sl_dial_timer_link_ns(const struct sl_dialer *d, unsigned worker)
{
	uint64_t move = sl_ep_switch_due_ns(d, worker), ask = sl_liveness_due_ns(d, worker);

	return move < ask ? move : ask;
}

void sl_dial_timer_set(struct sl_dialer *d)
{
	uint64_t due = UINT64_MAX;

	d->needs_scan = false;
	for (unsigned i = 0; i < d->mgr->worker_cnt; i++) {
		const struct worker_link *wl = &d->workers[i];
		/* Read first: the next scan must see later changes. */
		enum sl_backend_state link = sl_backend_ref_state(wl->backend);
		uint64_t at;

		if (link != d->seen[i].link)
			d->mgr->rings_check_ns = 0;
		d->seen[i].link = link;
		at = link != SL_BACKEND_DOWN ? sl_dial_timer_link_ns(d, i)
		     : sl_dialer_used(d, i)  ? d->due_ns
					     : UINT64_MAX;
		due = at < due ? at : due;
		d->needs_scan |= wl->offered ||
				 (wl->number && d->seen[i].link != SL_BACKEND_DOWN) ||
				 (d->unready && !d->agent_cnt);
	}
	set_time(d, due);
}

/* Logs when all links of a backend become unready, and then once a minute unless an agent does. */
static void log_readiness(struct sl_dialer *d, uint64_t now_ns)
{
	bool has_unready = false, has_up = false, again;

	for (unsigned i = 0; i < d->mgr->worker_cnt; i++) {
		enum sl_backend_state link = sl_backend_ref_state(d->workers[i].backend);

		has_unready |= link == SL_BACKEND_UNREADY && sl_dialer_used(d, i);
		has_up |= link == SL_BACKEND_UP;
	}
	again = d->unready && !d->agent_cnt && now_ns >= d->logged_ns + SL_DIAL_LOG_NS;
	if (has_unready && !has_up && (!d->unready || again)) {
		sl_log_warn("backend %s/%s is not ready; it gets no new requests", d->pool_name,
			    d->backend.name);
		d->logged_ns = now_ns;
	} else if (d->unready && has_up) {
		sl_log_info("backend %s/%s is ready again", d->pool_name, d->backend.name);
	}
	d->unready = has_unready && !has_up;
}

void sl_dial_timer_update(struct sl_dialer *d, uint64_t now_ns)
{
	d->mgr->update_cnt++;
	log_readiness(d, now_ns);
	sl_ep_switch_note(d, now_ns);
	sl_liveness_note(d);
	sl_dial_timer_set(d);
}

uint64_t sl_dial_timer_next_ns(const struct sl_conn_mgr *cm)
{
	return cm->timer_cnt ? cm->timers[0].at_ns : UINT64_MAX;
}

struct sl_dialer *sl_dial_timer_pop(struct sl_conn_mgr *cm, uint64_t now_ns)
{
	while (sl_dial_timer_next_ns(cm) <= now_ns) {
		struct sl_dialer *d = cm->timers[0].d;

		sl_dial_timer_update(d, now_ns);
		if (d->heap_pos == 1 && cm->timers[0].at_ns <= now_ns) {
			sl_dial_timer_cancel(d);
			return d;
		}
	}
	return NULL;
}

static bool has_changed(const struct sl_dialer *d)
{
	bool changed = false;

	for (unsigned i = 0; i < d->mgr->worker_cnt; i++)
		changed |= sl_backend_ref_state(d->seen[i].backend) != d->seen[i].link;
	return changed;
}

void sl_dial_timer_scan(struct sl_conn_mgr *cm, uint64_t now_ns)
{
	struct sl_list *at;

	sl_list_for_each (at, &cm->dialers) {
		struct sl_dialer *d = sl_container_of(at, struct sl_dialer, node);

		if (!d->stop && !d->busy && (d->needs_scan || has_changed(d)))
			sl_dial_timer_update(d, now_ns);
	}
}
