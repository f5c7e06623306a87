/* SPDX-License-Identifier: Apache-2.0 */
#include "batch/internal.h"

#define CLEARLY 1.25

void sl_batcher_weigh(struct sl_batcher *b, unsigned backend, uint32_t weight, bool trial)
{
	b->backends[backend].weight = weight;
	b->backends[backend].trial = trial;
}

void sl_batcher_weighted(struct sl_batcher *b, uint32_t most)
{
	b->weight_max = most;
}

void sl_batcher_forget(struct sl_batcher *b, unsigned backend)
{
	bool up = b->controller.backends[backend].up;

	sl_controller_begin(&b->controller, backend);
	b->controller.backends[backend].up = up;
	sl_pick_forget(b, backend);
}

unsigned sl_weight_draw(struct sl_batcher *b, const unsigned *list, unsigned cnt)
{
	uint64_t sum = 0, at;

	for (unsigned i = 0; i < cnt; i++)
		sum += b->backends[list[i]].weight;
	at = sl_prng_below(&b->prng, sum);
	for (unsigned i = 0; i < cnt; i++) {
		uint32_t weight = b->backends[list[i]].weight;

		if (at < weight)
			return i;
		at -= weight;
	}
	return 0;
}

bool sl_weight_admits(struct sl_batcher *b, unsigned backend)
{
	return sl_prng_below(&b->prng, b->weight_max) < b->backends[backend].weight;
}

bool sl_weight_replaces(struct sl_batcher *b, unsigned second, double second_ns, unsigned first,
			double first_ns)
{
	uint32_t weight = b->backends[second].weight, than = b->backends[first].weight;

	if (second_ns * CLEARLY >= first_ns)
		return false;
	return weight >= than || sl_prng_below(&b->prng, than) < weight;
}
