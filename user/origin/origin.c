/* SPDX-License-Identifier: Apache-2.0 */
#include "origin/origin.h"

#include <stdlib.h>

#include "base/clock.h"
#include "origin/scratch.h"

enum { TIMERS_MAX = 1024 };
#define TICK_NS (SL_NS_PER_MS / 4)

bool origin_init(struct origin *o, size_t bodies_max, uint32_t calls_max, uint64_t now_ns)
{
	*o = (struct origin){.scratch = calloc(1, sizeof(*o->scratch)), .now_ns = now_ns};
	sl_capped_init(&o->bodies, bodies_max);
	sl_list_init(&o->unread);
	sl_list_init(&o->dead);
	sl_list_init(&o->dirty);
	sl_wheel_init(&o->wheel, now_ns, TICK_NS);
	return o->scratch &&
	       sl_mempool_init(&o->calls, sizeof(struct origin_call), 64, calls_max) == 0 &&
	       sl_mempool_init(&o->clients, sizeof(struct origin_client), 64, calls_max) == 0;
}

void origin_fini(struct origin *o)
{
	sl_mempool_fini(&o->calls);
	sl_mempool_fini(&o->clients);
	sl_capped_fini(&o->bodies);
	free(o->scratch);
	o->scratch = NULL;
}

static void end_timer(void *arg, struct sl_timer *t)
{
	struct origin_timer *timer = sl_container_of(t, struct origin_timer, t);

	(void)arg;
	timer->fn(timer);
}

void origin_timers_run(struct origin *o)
{
	(void)sl_wheel_advance(&o->wheel, o->now_ns, end_timer, NULL, TIMERS_MAX);
}
