/* SPDX-License-Identifier: Apache-2.0 */
#include "batch/pick.h"

#include "base/bytes.h"
#include "base/clock.h"
#include "batch/internal.h"

#define GAIN       (1.0 / 16)
#define FAST_GAIN  0.5 /* of a try that was faster than usual */
#define CLIP       4.0 /* longer samples are cut, as a multiple of the usual time */
#define ALIKE      2.0 /* times within this factor are equal */
#define TRY_TIMES  32
#define TRY_MIN_NS 20e6
#define TRY_MAX_NS 10e9
enum { SILENT_TIMES = 8, FIRST_SAMPLES = 4 };

struct pick_candidate {
	unsigned backend;
	double load, time_ns; /* 0: unknown */
};

struct pick_list {
	struct pick_candidate list[SL_BATCH_FEW];
	unsigned cnt, rank;
};

static struct sl_pick_state *state_of(struct sl_batcher *b, unsigned backend)
{
	return &b->backends[backend].pick;
}

static uint32_t waiting_at(const struct sl_batch_backend *be)
{
	return be->direct_requests + be->pick.waiting;
}

static void set_silent(struct sl_batcher *b, unsigned backend, bool silent)
{
	struct sl_pick_state *s = state_of(b, backend);

	if (s->silent == silent)
		return;
	s->silent = silent;
	if (b->ops->silent)
		b->ops->silent(b->app, backend, silent);
}

bool sl_pick_is_silent(const struct sl_batcher *b, unsigned backend, uint64_t now_ns)
{
	const struct sl_batch_backend *be = &b->backends[backend];
	const struct sl_pick_state *s = &be->pick;
	uint64_t limit_ns = b->pool->progress_ns;

	if (!limit_ns || !waiting_at(be) || !s->samples || now_ns <= s->heard_ns + limit_ns)
		return false;
	return (double)(now_ns - s->heard_ns) > SILENT_TIMES * s->time_ns;
}

static unsigned rank_of(struct sl_batcher *b, const struct sl_batch_item *item, unsigned backend,
			uint64_t now_ns)
{
	const struct sl_batch_backend *be = &b->backends[backend];
	bool silent = sl_pick_is_silent(b, backend, now_ns);
	bool tried = be->trial && b->weight_max && waiting_at(be);

	if (sl_unlikely(silent)) {
		if (!be->pick.silent)
			state_of(b, backend)->probe_ns = now_ns + b->pool->progress_ns;
		set_silent(b, backend, true);
		silent = now_ns < be->pick.probe_ns;
	}
	return 4U * tried + 2U * silent + sl_batch_excludes(item, backend);
}

static double load_of(const struct sl_batcher *b, const struct sl_batch_backend *be, bool tunnel)
{
	double waiting = waiting_at(be), begun = be->pick.open - be->pick.waiting;
	double mean = (double)b->open_streams / sl_roster_up_cnt(&b->roster);
	double load = waiting + (tunnel ? begun : begun / (1 + mean));

	if (b->weight_max && be->weight)
		load *= (double)b->weight_max / be->weight;
	return 1 + load;
}

static double known_time(const struct sl_batch_backend *be, bool tunnel)
{
	return tunnel || be->pick.samples < FIRST_SAMPLES ? 0 : be->pick.time_ns;
}

static void add_candidate(struct sl_batcher *b, struct pick_list *c, unsigned backend,
			  unsigned rank, bool tunnel)
{
	const struct sl_batch_backend *be = &b->backends[backend];

	if (rank > c->rank)
		return;
	if (rank < c->rank)
		*c = (struct pick_list){.rank = rank};
	c->list[c->cnt++] = (struct pick_candidate){.backend = backend,
						    .load = load_of(b, be, tunnel),
						    .time_ns = known_time(be, tunnel)};
}

static void list_candidates(struct sl_batcher *b, struct pick_list *c,
			    const struct sl_batch_item *item, bool tunnel, bool direct,
			    uint64_t now_ns)
{
	uint32_t up = sl_roster_up_cnt(&b->roster);

	for (uint32_t k = 0; k < up && k < SL_BATCH_FEW; k++) {
		uint64_t at = up > SL_BATCH_FEW ? sl_prng_below(&b->prng, up) : k;
		unsigned i = b->roster.order[at];

		if (!direct || b->backends[i].stalled_ns <= now_ns)
			add_candidate(b, c, i, rank_of(b, item, i, now_ns), tunnel);
	}
}

static unsigned find_try(struct sl_batcher *b, const struct pick_list *c, double least_ns,
			 uint64_t now_ns)
{
	for (unsigned k = 0; k < c->cnt; k++) {
		const struct sl_batch_backend *be = &b->backends[c->list[k].backend];

		if (c->list[k].time_ns > ALIKE * least_ns && now_ns >= be->pick.try_ns &&
		    !waiting_at(be))
			return c->list[k].backend;
	}
	return SL_PICK_NONE;
}

static double least_time(const struct pick_list *c)
{
	double least = 0;

	for (unsigned k = 0; k < c->cnt; k++) {
		if (c->list[k].time_ns > 0 && (!(least > 0) || c->list[k].time_ns < least))
			least = c->list[k].time_ns;
	}
	return least;
}

static double cost_of(const struct pick_candidate *c, double least_ns)
{
	return c->load * (c->time_ns > ALIKE * least_ns ? c->time_ns / least_ns : 1);
}

static unsigned choose_least(struct sl_batcher *b, const struct pick_list *c, double least_ns)
{
	unsigned best = 0, ties = 1;

	for (unsigned k = 1; k < c->cnt; k++) {
		double cost = cost_of(&c->list[k], least_ns);
		double than = cost_of(&c->list[best], least_ns);

		if (cost > than)
			continue;
		ties = cost < than ? 1 : ties + 1;
		if (ties == 1 || !sl_prng_below(&b->prng, ties))
			best = k;
	}
	return c->list[best].backend;
}

static unsigned choose_weighted(struct sl_batcher *b, struct pick_list *c, double least_ns)
{
	unsigned list[SL_BATCH_FEW], at, first;
	double cost;

	for (unsigned k = 0; k < c->cnt; k++)
		list[k] = c->list[k].backend;
	at = sl_weight_draw(b, list, c->cnt);
	first = list[at];
	cost = cost_of(&c->list[at], least_ns);
	if (c->cnt == 1)
		return first;
	list[at] = list[--c->cnt];
	c->list[at] = c->list[c->cnt];
	at = sl_weight_draw(b, list, c->cnt);
	return sl_weight_replaces(b, list[at], cost_of(&c->list[at], least_ns), first, cost)
		       ? list[at]
		       : first;
}

static void set_next_try(struct sl_pick_state *s, uint64_t now_ns)
{
	double after = TRY_TIMES * s->time_ns;

	after = after < TRY_MIN_NS ? TRY_MIN_NS : after > TRY_MAX_NS ? TRY_MAX_NS : after;
	s->try_ns = now_ns + (uint64_t)after;
}

static unsigned note_choice(struct sl_batcher *b, unsigned backend, bool tried, uint64_t now_ns)
{
	struct sl_pick_state *s = state_of(b, backend);

	if (sl_unlikely(tried)) {
		s->tried = true;
		set_next_try(s, now_ns);
	}
	if (sl_unlikely(s->silent))
		s->probe_ns = now_ns + b->pool->progress_ns;
	return backend;
}

static unsigned pick_backend(struct sl_batcher *b, const struct sl_batch_item *item, bool tunnel,
			     bool direct, uint64_t now_ns)
{
	SL_UNINIT struct pick_list c;
	double least_ns;
	unsigned due;

	c.cnt = 0;
	c.rank = UINT32_MAX;
	if (sl_prefer_any(b, item)) {
		due = sl_prefer_backend(b, SL_POLICY_DIRECT, item, now_ns);
		if (due != SL_AFFINITY_NONE)
			return due;
	}
	list_candidates(b, &c, item, tunnel, direct, now_ns);
	if (!c.cnt)
		return SL_PICK_NONE;
	least_ns = least_time(&c);
	due = find_try(b, &c, least_ns, now_ns);
	if (sl_unlikely(due != SL_PICK_NONE))
		return note_choice(b, due, true, now_ns);
	due = b->weight_max ? choose_weighted(b, &c, least_ns) : choose_least(b, &c, least_ns);
	return note_choice(b, due, false, now_ns);
}

unsigned sl_pick_for_stream(struct sl_batcher *b, const struct sl_batch_item *item, bool tunnel,
			    uint64_t now_ns)
{
	if (sl_prefer_any(b, item))
		sl_prefer_note(b, item);
	return pick_backend(b, item, tunnel, false, now_ns);
}

unsigned sl_pick_direct(struct sl_batcher *b, const struct sl_batch_item *item, uint64_t now_ns)
{
	return pick_backend(b, item, false, true, now_ns);
}

void sl_pick_begin_wait(struct sl_batcher *b, unsigned backend, uint64_t now_ns)
{
	if (!waiting_at(&b->backends[backend]))
		state_of(b, backend)->heard_ns = now_ns;
}

void sl_pick_end_wait(struct sl_batcher *b, unsigned backend)
{
	if (!waiting_at(&b->backends[backend]))
		set_silent(b, backend, false);
}

void sl_pick_stream_sent(struct sl_batcher *b, unsigned backend)
{
	state_of(b, backend)->open++;
	b->open_streams++;
}

void sl_pick_stream_waits(struct sl_batcher *b, unsigned backend, uint64_t now_ns)
{
	sl_pick_begin_wait(b, backend, now_ns);
	state_of(b, backend)->waiting++;
}

void sl_pick_stream_waited(struct sl_batcher *b, unsigned backend)
{
	state_of(b, backend)->waiting--;
	sl_pick_end_wait(b, backend);
}

void sl_pick_stream_done(struct sl_batcher *b, unsigned backend)
{
	state_of(b, backend)->open--;
	b->open_streams--;
}

uint32_t sl_pick_streams(const struct sl_batcher *b, unsigned backend)
{
	return b->backends[backend].pick.open;
}

/*
 * A try clearly faster than usual is repeated at once. The fastest of the first samples counts:
 * servers start slowly.
 */
static void add_sample(struct sl_pick_state *s, double took_ns, uint64_t now_ns)
{
	bool faster = s->tried && took_ns * ALIKE < s->time_ns;

	if (s->samples && took_ns > CLIP * s->time_ns)
		took_ns = CLIP * s->time_ns;
	if (s->samples >= FIRST_SAMPLES)
		s->time_ns += (faster ? FAST_GAIN : GAIN) * (took_ns - s->time_ns);
	else if (!s->samples++ || took_ns < s->time_ns)
		s->time_ns = took_ns;
	s->tried = faster;
	if (faster)
		s->try_ns = now_ns;
	else
		set_next_try(s, now_ns);
}

void sl_pick_answered(struct sl_batcher *b, unsigned backend, uint64_t took_ns, uint64_t now_ns)
{
	struct sl_pick_state *s = state_of(b, backend);

	s->heard_ns = now_ns;
	set_silent(b, backend, false);
	if (took_ns)
		add_sample(s, (double)took_ns, now_ns);
}

void sl_pick_unanswered(struct sl_batcher *b, unsigned backend, uint64_t waited_ns, uint64_t now_ns)
{
	struct sl_pick_state *s = state_of(b, backend);

	if (s->samples && (double)waited_ns > s->time_ns)
		add_sample(s, (double)waited_ns, now_ns);
}

void sl_pick_forget(struct sl_batcher *b, unsigned backend)
{
	struct sl_pick_state *s = state_of(b, backend);

	s->samples = 0;
	s->time_ns = 0;
	s->tried = false;
}
