/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Simulation with fixed seeds: prompts with Zipf's popularity, and backends with a cache each. The
 * oracle knows the popularities and gives no backend more than 1.25 times its share.
 * Tests: batch/prefer.c batch/affinity.c batch/hot_keys.c
 */
#include <stdio.h>

#include "batch/affinity.h"
#include "fixture.h"
#include "suite.h"

enum { PROMPTS = 100, MEMBERS = 8, PLACES = 16, REQUESTS = 6000, CLIENTS_MAX = 128 };
#define SKEW (1.25 / MEMBERS)

FIXTURE(NULL, tear_down)

static struct sl_prng prng;
static unsigned seen[PROMPTS], got[MEMBERS];
static uint64_t used[MEMBERS][PROMPTS]; /* last use, in requests; 0: not kept */
static struct {
	uint64_t end_ns, sent_ns;
	unsigned backend;
} clients[CLIENTS_MAX];

static double share_of(unsigned prompt)
{
	double sum = 0;

	for (unsigned i = 0; i < PROMPTS; i++)
		sum += 1.0 / (i + 1);
	return 1.0 / (prompt + 1) / sum;
}

static unsigned draw_prompt(void)
{
	double at = sl_prng_unit(&prng);
	unsigned i = 0;

	while (i < PROMPTS - 1 && at >= share_of(i))
		at -= share_of(i++);
	return i;
}

/* Returns true for a hit. The least recently used prompt leaves a full cache. */
static bool look_up(unsigned backend, unsigned prompt, uint64_t now)
{
	uint64_t *cache = used[backend];
	unsigned kept = 0, oldest = PROMPTS;
	bool hit = cache[prompt];

	cache[prompt] = now;
	for (unsigned i = 0; i < PROMPTS; i++) {
		kept += cache[i] != 0;
		if (cache[i] && (oldest == PROMPTS || cache[i] < cache[oldest]))
			oldest = i;
	}
	if (kept > PLACES)
		cache[oldest] = 0;
	return hit;
}

static unsigned oracle_hits(void)
{
	double load[MEMBERS] = {0};
	unsigned kept[MEMBERS] = {0}, hits = 0;

	for (unsigned i = 0; i < PROMPTS; i++) {
		unsigned homes = 0;

		for (double left = share_of(i); left > 1e-12; homes++) {
			unsigned m = MEMBERS;
			double part;

			for (unsigned k = 0; k < MEMBERS; k++) {
				if (kept[k] < PLACES && (m == MEMBERS || load[k] < load[m]))
					m = k;
			}
			ck_assert_uint_lt(m, MEMBERS);
			part = left < SKEW - load[m] ? left : SKEW - load[m];
			kept[m]++;
			load[m] += part;
			left -= part;
		}
		hits += seen[i] > homes ? seen[i] - homes : 0;
	}
	return hits;
}

static unsigned next_client(unsigned cnt)
{
	unsigned first = 0;

	for (unsigned i = 1; i < cnt; i++) {
		if (clients[i].end_ns < clients[first].end_ns)
			first = i;
	}
	return first;
}

static struct sl_affinity *homes_of(unsigned seed)
{
	static char names[MEMBERS][32];
	struct sl_affinity_backend list[MEMBERS];
	struct sl_affinity *a;

	for (unsigned i = 0; i < MEMBERS; i++) {
		snprintf(names[i], sizeof(names[i]), "10.%u.0.%u:80", seed, i);
		list[i] = (struct sl_affinity_backend){names[i], (uint16_t)i};
	}
	a = sl_affinity_create(list, MEMBERS);
	ck_assert_ptr_nonnull(a);
	return a;
}

static unsigned send_prompt(unsigned prompt)
{
	sent_cnt = 0;
	ck_assert_int_eq(submit_item((struct sl_batch_item){.deadline_ns = UINT64_MAX,
							    .key = sl_affinity_mix(prompt + 1)}),
			 SL_OUTCOME_OK);
	sl_batcher_pump(b, now_ns);
	ck_assert_uint_eq(sent_cnt, 1);
	return sent[0].backend;
}

/* A hit takes 1 ms and a miss 6 ms, and backends serve any number at once. Returns the hits. */
static unsigned ask_prompts(unsigned client_cnt, unsigned seed)
{
	unsigned hits = 0;

	start((struct sl_cfg_batch){.policy = SL_POLICY_DIRECT}, MEMBERS);
	sl_batcher_set_affinity(b, homes_of(seed));
	sl_prng_seed(&prng, seed);
	memset(seen, 0, sizeof(seen));
	memset(got, 0, sizeof(got));
	memset(used, 0, sizeof(used));
	memset(clients, 0, sizeof(clients));
	for (unsigned n = 1; n <= REQUESTS; n++) {
		unsigned c = next_client(client_cnt), prompt = draw_prompt();
		bool hit;

		if (clients[c].end_ns) {
			now_ns = clients[c].end_ns;
			sl_batcher_done(b, clients[c].backend, 1, clients[c].sent_ns, 1, 0, now_ns);
		}
		clients[c].backend = send_prompt(prompt);
		hit = look_up(clients[c].backend, prompt, n);
		clients[c].sent_ns = now_ns;
		clients[c].end_ns = now_ns + (hit ? MS : 6 * MS) + sl_prng_below(&prng, MS / 2);
		hits += hit;
		seen[prompt]++;
		got[clients[c].backend]++;
	}
	tear_down();
	return hits;
}

/* Hits of at least 0.95 of the oracle's, and no more for the busiest backend than with one home. */
TEST_EACH(prompts_hit_caches_nearly_as_often_as_with_an_oracle, 3)
{
	static const unsigned client_cnts[] = {8, 32, CLIENTS_MAX};
	unsigned hits = 0, most = 0, best = 0;

	for (unsigned seed = 1; seed <= 8; seed++) {
		hits += ask_prompts(client_cnts[_i], seed);
		best += oracle_hits();
		for (unsigned i = 0; i < MEMBERS; i++)
			most = got[i] > most ? got[i] : most;
	}
	ck_assert_uint_ge(100 * hits, 95 * best);
	ck_assert_uint_le(100 * most * MEMBERS, 160 * REQUESTS);
}
