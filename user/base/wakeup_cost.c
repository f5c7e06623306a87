/* SPDX-License-Identifier: Apache-2.0 */
#include "base/wakeup_cost.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/cpu.h"

enum {
	SAMPLES = 15,
	REST_NS = 1000000, /* between wake-ups: the core goes idle */
};

struct wakeup_sleeper {
	int cpu, fd;
	_Atomic uint64_t woken_ns; /* 0: asleep again */
};

static void *sleep_and_stamp(void *arg)
{
	struct wakeup_sleeper *s = arg;
	uint64_t count;

	if (s->cpu >= 0)
		(void)sl_cpu_pin((unsigned)s->cpu);
	for (int i = 0; i < SAMPLES; i++) {
		if (read(s->fd, &count, sizeof(count)) < 0)
			break;
		atomic_store(&s->woken_ns, sl_now_ns());
	}
	return NULL;
}

static uint64_t wake_once(struct wakeup_sleeper *s)
{
	static const struct timespec rest = {.tv_nsec = REST_NS};
	static const uint64_t one = 1;
	uint64_t from_ns;

	nanosleep(&rest, NULL);
	atomic_store(&s->woken_ns, 0);
	from_ns = sl_now_ns();
	if (write(s->fd, &one, sizeof(one)) < 0)
		return 0;
	while (!atomic_load(&s->woken_ns))
		sched_yield();
	return atomic_load(&s->woken_ns) - from_ns;
}

static int by_value(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return (x > y) - (x < y);
}

static uint64_t median_of_wakes(struct wakeup_sleeper *s)
{
	uint64_t cost[SAMPLES];

	for (int i = 0; i < SAMPLES; i++)
		cost[i] = wake_once(s);
	qsort(cost, SAMPLES, sizeof(cost[0]), by_value);
	return cost[SAMPLES / 2];
}

static bool move_off_cpu(int cpu, cpu_set_t *before)
{
	cpu_set_t set;

	if (sched_getaffinity(0, sizeof(*before), before) < 0)
		return false;
	if (cpu < 0)
		return sysconf(_SC_NPROCESSORS_ONLN) > 1;
	memset(&set, 0xff, sizeof(set));
	if (cpu < CPU_SETSIZE)
		CPU_CLR((unsigned)cpu, &set);
	return sched_setaffinity(0, sizeof(set), &set) == 0;
}

uint64_t sl_wakeup_cost_ns(int cpu)
{
	struct wakeup_sleeper s = {.cpu = cpu, .fd = eventfd(0, EFD_CLOEXEC)};
	uint64_t cost = 0;
	cpu_set_t before;
	pthread_t thread;

	if (s.fd < 0)
		return SL_WAKEUP_MIN_NS;
	if (move_off_cpu(cpu, &before)) {
		if (pthread_create(&thread, NULL, sleep_and_stamp, &s) == 0) {
			cost = median_of_wakes(&s);
			pthread_join(thread, NULL);
		}
		(void)sched_setaffinity(0, sizeof(before), &before);
	}
	close(s.fd);
	if (cost < SL_WAKEUP_MIN_NS)
		return SL_WAKEUP_MIN_NS;
	return cost < SL_WAKEUP_MAX_NS ? cost : SL_WAKEUP_MAX_NS;
}
