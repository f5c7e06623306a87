/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who is due: a heap of diallers by when there is something to be done for them next, those that are
 * due for longest at its top. Read from the bottom: sl_due_watch -> sl_due_look -> put.
 *
 * Whoever changes what a dialler is due for places it anew, with the lock. Workers tell nobody of what they
 * change, a link, a move, a silence: that is why there is a watch. It looks at diallers of which a link has
 * changed, and at the restless ones; of the others it reads the links, which is one load for each.
 */
#include "gateway/dial_impl.h"

#include <errno.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/log.h"

static bool before(const struct due *a, const struct due *b)
{
	return a->at_ns < b->at_ns;
}

static void place(struct sl_switchboard *sb, struct due due, uint32_t at)
{
	sb->due[at] = due;
	due.d->place = at + 1;
}

static void sift_up(struct sl_switchboard *sb, struct due due, uint32_t at)
{
	while (at && before(&due, &sb->due[(at - 1) / 2])) {
		place(sb, sb->due[(at - 1) / 2], at);
		at = (at - 1) / 2;
	}
	place(sb, due, at);
}

static void sift_down(struct sl_switchboard *sb, struct due due, uint32_t at)
{
	for (uint32_t child = 2 * at + 1; child < sb->due_cnt; child = 2 * at + 1) {
		if (child + 1 < sb->due_cnt && before(&sb->due[child + 1], &sb->due[child]))
			child++;
		if (!before(&sb->due[child], &due))
			break;
		place(sb, sb->due[child], at);
		at = child;
	}
	place(sb, due, at);
}

/* In the place of what is there, or at the end. */
static void settle(struct sl_switchboard *sb, struct due due, uint32_t at)
{
	if (at && before(&due, &sb->due[(at - 1) / 2]))
		sift_up(sb, due, at);
	else
		sift_down(sb, due, at);
}

void sl_due_drop(struct sl_dialler *d)
{
	struct sl_switchboard *sb = d->board;
	uint32_t at = d->place - 1;

	if (!d->place)
		return;
	d->place = 0;
	sb->due_cnt--;
	if (at < sb->due_cnt)
		settle(sb, sb->due[sb->due_cnt], at);
}

static void put(struct sl_dialler *d, uint64_t at_ns)
{
	struct sl_switchboard *sb = d->board;
	struct due due = {.at_ns = at_ns, .d = d};

	if (at_ns == UINT64_MAX)
		sl_due_drop(d);
	else if (!d->place)
		sift_up(sb, due, sb->due_cnt++);
	else if (sb->due[d->place - 1].at_ns != at_ns)
		settle(sb, due, d->place - 1);
}

int sl_due_room(struct sl_switchboard *sb, uint32_t cnt)
{
	uint32_t room = sb->due_room ? 2 * sb->due_room : 16;
	struct due *due;

	if (cnt <= sb->due_room)
		return 0;
	due = reallocarray(sb->due, room, sizeof(*due));
	if (!due)
		return -ENOMEM;
	sb->due = due;
	sb->due_room = room;
	return 0;
}

uint64_t sl_due_link_ns(const struct sl_dialler *d, unsigned worker)
{
	uint64_t move = sl_move_due_ns(d, worker), ask = sl_silence_due_ns(d, worker);

	return move < ask ? move : ask;
}

void sl_due_place(struct sl_dialler *d)
{
	uint64_t due = UINT64_MAX;

	d->restless = false;
	for (unsigned i = 0; i < d->board->worker_cnt; i++) {
		const struct way *way = &d->workers[i];
		/* First of all: what it becomes from now on, the watch sees. */
		enum sl_member_link link = sl_member_link(way->member);
		uint64_t at;

		if (link != d->seen[i].link)
			d->board->rings_ns = 0;
		d->seen[i].link = link;
		at = link != SL_LINK_DOWN    ? sl_due_link_ns(d, i)
		     : sl_dialler_used(d, i) ? d->due_ns
					     : UINT64_MAX;
		due = at < due ? at : due;
		d->restless |= way->offered || (way->number && d->seen[i].link != SL_LINK_DOWN) ||
			       (d->unready && !d->agent_cnt);
	}
	put(d, due);
}

/*
 * The log says when all links have become unready, and again while that lasts. An agent of the gateway's
 * own repeats it by itself, with the cause.
 */
static void say_readiness(struct sl_dialler *d, uint64_t now_ns)
{
	bool has_unready = false, has_up = false, again;

	for (unsigned i = 0; i < d->board->worker_cnt; i++) {
		enum sl_member_link link = sl_member_link(d->workers[i].member);

		has_unready |= link == SL_LINK_UNREADY && sl_dialler_used(d, i);
		has_up |= link == SL_LINK_UP;
	}
	again = d->unready && !d->agent_cnt && now_ns >= d->said_ns + SL_DIAL_SAY_NS;
	if (has_unready && !has_up && (!d->unready || again)) {
		sl_log_warn("backend %s/%s is not ready; it gets no new requests", d->pool_name,
			    d->backend.name);
		d->said_ns = now_ns;
	} else if (d->unready && has_up) {
		sl_log_info("backend %s/%s is ready again", d->pool_name, d->backend.name);
	}
	d->unready = has_unready && !has_up;
}

void sl_due_look(struct sl_dialler *d, uint64_t now_ns)
{
	d->board->looks++;
	say_readiness(d, now_ns);
	sl_moves_note(d, now_ns);
	sl_silence_note(d);
	sl_due_place(d);
}

uint64_t sl_due_next_ns(const struct sl_switchboard *sb)
{
	return sb->due_cnt ? sb->due[0].at_ns : UINT64_MAX;
}

struct sl_dialler *sl_due_take(struct sl_switchboard *sb, uint64_t now_ns)
{
	while (sl_due_next_ns(sb) <= now_ns) {
		struct sl_dialler *d = sb->due[0].d;

		/* Who was silent at the last look may have been heard. */
		sl_due_look(d, now_ns);
		if (d->place == 1 && sb->due[0].at_ns <= now_ns) {
			sl_due_drop(d);
			return d;
		}
	}
	return NULL;
}

static bool has_changed(const struct sl_dialler *d)
{
	bool changed = false;

	for (unsigned i = 0; i < d->board->worker_cnt; i++)
		changed |= sl_member_link(d->seen[i].member) != d->seen[i].link;
	return changed;
}

void sl_due_watch(struct sl_switchboard *sb, uint64_t now_ns)
{
	struct sl_list *at;

	sl_list_for_each (at, &sb->diallers) {
		struct sl_dialler *d = sl_container_of(at, struct sl_dialler, node);

		if (!d->stop && !d->busy && (d->restless || has_changed(d)))
			sl_due_look(d, now_ns);
	}
}
