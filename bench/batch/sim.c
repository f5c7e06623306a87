/* SPDX-License-Identifier: Apache-2.0 */
#include "sim.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/hist.h"
#include "base/rand.h"
#include "batch/batcher.h"
#include "sluice/types.h"

enum { OUTSTANDING = 2, QUEUE_MAX = 4096, RESERVE = 8 };

struct request {
	struct sl_batch_item item;
	struct request *next; /* unused ones */
	uint32_t client;      /* closed loop only */
	bool measured, replied;
};

struct flight {
	struct request *requests[SL_RPC_MAX_BATCH];
	uint32_t cnt;
	uint64_t sent_ns, reply_ns, service_ns;
};

struct machine {
	uint64_t free_ns;
	struct flight flights[OUTSTANDING];
};

struct sim {
	const struct sim_setting *s;
	const struct sim_pattern *p;
	struct sl_batcher *batcher;
	struct sl_cfg_pool pool;
	struct sl_cfg_backend cfg_backends[SIM_BACKENDS];
	struct sl_svc_live live;
	struct machine machines[SIM_BACKENDS];
	struct request *requests, *unused;
	struct sl_prng arrivals, noise, clients;
	struct sl_hist_fine latency;
	double rate; /* at load 1, requests per ns */
	double next_ns, pause_ns;
	bool over;                   /* its client has left */
	double asks_ns[SIM_CLIENTS]; /* closed loop: next request of each client */
	uint64_t now_ns, asked, good, replied, refused, refused_last, batches, batched;
};

static double cost(const struct sim_setting *s, const struct sim_backend *be, uint32_t b)
{
	uint32_t n = be->step ? (b + be->step - 1) / be->step * be->step : b;

	return (be->alpha + be->beta * n) * s->bound_ns;
}

double sim_capacity(const struct sim_setting *s, const struct sim_pattern *p)
{
	double sum = 0;

	for (uint32_t i = 0; i < p->backend_cnt; i++) {
		double best = 0;

		for (uint32_t b = 1; b <= s->max_size; b++) {
			double t = cost(s, &p->backends[i], b);

			if (2 * t + s->rtt_ns <= s->bound_ns)
				best = fmax(best, b / t);
		}
		sum += best;
	}
	return sum * 1e9;
}

double sim_offered(const struct sim_setting *s, const struct sim_pattern *p)
{
	double load = p->load;

	if (p->burst > 0)
		load += (p->burst - p->load) * p->burst_for / p->burst_every;
	return load * sim_capacity(s, p);
}

/* --- backends --- */

static double normal(struct sl_prng *g)
{
	double u = 1 - sl_prng_unit(g);

	return sqrt(-2 * log(u)) * cos(2 * M_PI * sl_prng_unit(g));
}

/* When a backend that begins at `at` has worked for so long; it stands still during stalls. */
static double worked(const struct sim_pattern *p, double at, double work)
{
	double every = p->stall_every_ms * 1e6, stall = p->stall_ms * 1e6;

	while (stall > 0) {
		double last = floor(at / every) * every;

		if (last > 0 && at < last + stall)
			at = last + stall;
		if (at + work <= last + every)
			break;
		work -= last + every - at;
		at = last + every;
	}
	return at + work;
}

static int send_batch(void *app, unsigned backend, struct sl_batch_item **items, unsigned cnt)
{
	struct sim *sim = app;
	const struct sim_pattern *p = sim->p;
	struct machine *m = &sim->machines[backend];
	struct flight *f = m->flights[0].cnt ? &m->flights[1] : &m->flights[0];
	/* A trip has a fixed part and a tail, as wires have. */
	double way = sim->s->rtt_ns / 2 * (0.8 + sl_prng_exp(&sim->noise, 0.2));
	double start = fmax((double)sim->now_ns + way, (double)m->free_ns), time;

	if (f->cnt)
		return -EAGAIN;
	time = cost(sim->s, &p->backends[backend], cnt) * exp(sim->s->noise * normal(&sim->noise));
	if (sl_prng_unit(&sim->noise) < p->slow_share)
		time += sl_prng_exp(&sim->noise, p->slow_ms * 1e6);
	if (p->slow_by > 0 && start >= p->slow_at * sim->s->run * sim->s->bound_ns &&
	    (p->slow_till <= 0 || start < p->slow_till * sim->s->run * sim->s->bound_ns))
		time *= p->slow_by;
	start = worked(p, start, 0);
	time = worked(p, start, time) - start;
	m->free_ns = (uint64_t)(start + time);
	f->cnt = cnt;
	f->sent_ns = sim->now_ns;
	f->service_ns = (uint64_t)time;
	f->reply_ns = (uint64_t)(start + time + way);
	for (unsigned i = 0; i < cnt; i++)
		f->requests[i] = sl_container_of(items[i], struct request, item);
	sim->batches++;
	sim->batched += cnt;
	return 0;
}

/* Returns the closed-loop client with the next request. */
static uint32_t next_client(struct sim *sim)
{
	uint32_t next = 0;

	for (uint32_t i = 1; i < sim->p->clients; i++)
		next = sim->asks_ns[i] < sim->asks_ns[next] ? i : next;
	return next;
}

static void ask_later(struct sim *sim, uint32_t client, double bounds)
{
	double mean = bounds * sim->s->bound_ns;

	sim->asks_ns[client] = (double)sim->now_ns + sl_prng_exp(&sim->arrivals, mean);
	if (sim->over)
		return;
	sim->next_ns = sim->asks_ns[next_client(sim)];
}

static void give_back(struct sim *sim, struct request *r)
{
	if (sim->p->clients && r->item.arrived_ns)
		ask_later(sim, r->client, r->replied ? sim->p->think : sim->p->retry);
	r->next = sim->unused;
	sim->unused = r;
}

static void drop_item(void *app, struct sl_batch_item *item, enum sl_outcome why)
{
	struct sim *sim = app;

	(void)why;
	sim->refused++;
	sim->refused_last += (double)sim->now_ns > 0.75 * sim->s->run * sim->s->bound_ns;
	give_back(sim, sl_container_of(item, struct request, item));
}

static const struct sl_batch_ops ops = {.send = send_batch, .drop = drop_item};

static void reply(struct sim *sim, unsigned backend, struct flight *f)
{
	uint64_t took = sim->now_ns - f->sent_ns;

	for (uint32_t i = 0; i < f->cnt; i++) {
		struct request *r = f->requests[i];
		uint64_t latency = sim->now_ns - r->item.arrived_ns;

		(void)sl_batcher_replied(sim->batcher, backend, f->sent_ns, took - f->service_ns);
		if (r->measured) {
			sim->replied++;
			sim->good += (double)latency <= sim->s->bound_ns;
			sl_hist_fine_add(&sim->latency, latency);
		}
		r->replied = true;
		give_back(sim, r);
	}
	sl_batcher_done(sim->batcher, backend, f->cnt, f->sent_ns, f->cnt, f->service_ns,
			sim->now_ns);
	f->cnt = 0;
}

/* --- arrivals --- */

static void draw_next(struct sim *sim)
{
	const struct sim_pattern *p = sim->p;
	double load = p->load;

	if (p->clients) {
		sim->next_ns = sim->asks_ns[next_client(sim)];
		return;
	}
	if (p->burst > 0 && fmod(sim->next_ns / sim->s->bound_ns, p->burst_every) < p->burst_for)
		load = p->burst;
	sim->next_ns += sl_prng_exp(&sim->arrivals, 1 / (load * sim->rate));
}

static void arrive(struct sim *sim)
{
	struct request *r = sim->unused;
	bool measured = (double)sim->now_ns >= sim->s->warm * sim->s->bound_ns;

	uint32_t client = sim->p->clients ? next_client(sim) : 0;

	sim->asks_ns[client] = INFINITY;
	draw_next(sim);
	sim->asked += measured;
	sim->unused = r->next;
	*r = (struct request){
		.item = {.arrived_ns = sim->now_ns,
			 .deadline_ns = sim->p->patient ? UINT64_MAX
							: sim->now_ns + (uint64_t)sim->s->bound_ns,
			 .client = (uint32_t)sl_prng_below(&sim->clients, SIM_CLIENTS),
			 .policy = -1},
		.client = client,
		.measured = measured};
	if (sl_batcher_submit(sim->batcher, &r->item, sim->now_ns) != SL_OUTCOME_OK)
		drop_item(sim, &r->item, SL_OUTCOME_SHED);
}

/* --- a run --- */

static struct flight *next_reply(struct sim *sim, unsigned *backend)
{
	struct flight *next = NULL;

	for (uint32_t i = 0; i < sim->p->backend_cnt; i++) {
		for (unsigned k = 0; k < OUTSTANDING; k++) {
			struct flight *f = &sim->machines[i].flights[k];

			if (f->cnt && (!next || f->reply_ns < next->reply_ns)) {
				next = f;
				*backend = i;
			}
		}
	}
	return next;
}

/* Events within a pause of the gateway are seen after it. */
static void pass_to(struct sim *sim, uint64_t ns)
{
	const struct sim_pattern *p = sim->p;

	if (ns > sim->now_ns)
		sim->now_ns = ns;
	if (p->pause_ms <= 0 || (double)sim->now_ns < sim->pause_ns)
		return;
	sim->now_ns += (uint64_t)sl_prng_exp(&sim->noise, p->pause_ms * 1e6);
	sim->pause_ns = (double)sim->now_ns + sl_prng_exp(&sim->noise, p->pause_every_ms * 1e6);
}

static void step(struct sim *sim)
{
	unsigned backend = 0;
	struct flight *f = next_reply(sim, &backend);
	uint64_t due = sl_batcher_next_ns(sim->batcher);
	uint64_t arrival = sim->next_ns < 1e18 ? (uint64_t)sim->next_ns : UINT64_MAX;
	uint64_t at = due > sim->now_ns ? due : sim->now_ns + 1;

	if (f && f->reply_ns <= at && f->reply_ns <= arrival) {
		pass_to(sim, f->reply_ns);
		reply(sim, backend, f);
	} else if (arrival <= at) {
		pass_to(sim, arrival);
		arrive(sim);
	} else {
		pass_to(sim, at);
	}
	sl_batcher_pump(sim->batcher, sim->now_ns);
}

static bool set_up(struct sim *sim, const struct sl_cfg_batch *batch)
{
	const struct sim_setting *s = sim->s;
	uint32_t cnt = QUEUE_MAX + SIM_BACKENDS * OUTSTANDING * SL_RPC_MAX_BATCH + RESERVE;

	sim->pool = (struct sl_cfg_pool){.name = "sim",
					 .backends = sim->cfg_backends,
					 .backend_cnt = sim->p->backend_cnt,
					 .batch = *batch,
					 .max_queue = QUEUE_MAX};
	sim->pool.batch.max_size = s->max_size;
	sim->pool.batch.bound_ns = (uint64_t)s->bound_ns;
	sl_prng_seed(&sim->arrivals, s->seed);
	sl_prng_seed(&sim->noise, s->seed + 1);
	sl_prng_seed(&sim->clients, s->seed + 2);
	sim->rate = sim_capacity(s, sim->p) / 1e9;
	sim->requests = calloc(cnt, sizeof(*sim->requests));
	sim->batcher = sl_batcher_create(&sim->pool, &ops, sim, &sim->live, NULL);
	if (!sim->requests || !sim->batcher ||
	    sl_hist_fine_init(&sim->latency, SL_HIST_SUB_BITS_MAX - 2))
		return false;
	for (uint32_t i = 0; i < cnt; i++)
		give_back(sim, &sim->requests[i]);
	sim->now_ns = 1;
	sl_batcher_seed(sim->batcher, s->seed + 3);
	for (uint32_t i = 0; i < sim->p->backend_cnt; i++)
		sl_batcher_backend(sim->batcher, i, true, sim->now_ns);
	for (uint32_t i = 0; i < sim->p->clients; i++)
		ask_later(sim, i, sim->p->think);
	draw_next(sim);
	return true;
}

static void conclude(const struct sim *sim, struct sim_result *out)
{
	double asked = (double)sim->asked, replied = (double)sim->replied;

	*out = (struct sim_result){
		.goodput =
			(double)sim->good / ((sim->s->run - sim->s->warm) * sim->s->bound_ns / 1e9),
		.p50_ms = (double)sl_hist_fine_quantile(&sim->latency, 0.5) / 1e6,
		.p99_ms = (double)sl_hist_fine_quantile(&sim->latency, 0.99) / 1e6,
		.mean_batch = sim->batches ? (double)sim->batched / (double)sim->batches : 0,
		.shed = asked > 0 ? 1 - replied / asked : 0,
		.refused = sim->refused,
		.refused_last = sim->refused_last,
		.late = asked > 0 ? (replied - (double)sim->good) / asked : 0,
	};
}

bool sim_run(const struct sim_setting *s, const struct sim_pattern *p,
	     const struct sl_cfg_batch *batch, struct sim_result *out)
{
	struct sim *sim = calloc(1, sizeof(*sim));
	unsigned backend;
	bool ok;

	if (!sim)
		return false;
	sim->s = s;
	sim->p = p;
	ok = set_up(sim, batch);
	while (ok && (p->clients ? (double)sim->now_ns : sim->next_ns) < s->run * s->bound_ns)
		step(sim);
	/* Those that have arrived are waited for. */
	sim->over = true;
	sim->next_ns = INFINITY;
	while (ok && (sl_batcher_queue_len(sim->batcher) || next_reply(sim, &backend)))
		step(sim);
	if (ok)
		conclude(sim, out);
	sl_hist_fine_fini(&sim->latency);
	if (sim->batcher)
		sl_batcher_destroy(sim->batcher);
	free(sim->requests);
	free(sim);
	return ok;
}
