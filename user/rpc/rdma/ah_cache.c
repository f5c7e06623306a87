/* SPDX-License-Identifier: Apache-2.0 */
#include "rpc/rdma/ah_cache.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include "base/clock.h"
#include "base/cpu.h"
#include "base/fnv.h"
#include "rpc/rdma/async_event.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct ah_entry *entries[AH_CACHE_MAX];
static struct sl_list idle = {&idle, &idle};
static unsigned cnt;
static unsigned changes; /* of GID tables */
static pid_t owner;      /* process that made the entries */

/* A forked child must not destroy the handles of its parent. */
static void forget_parents(void)
{
	if (owner == getpid())
		return;
	memset(entries, 0, sizeof(entries));
	sl_list_init(&idle);
	cnt = 0;
	owner = getpid();
}

static struct ah_entry **bucket_of(const struct rdma_local *l, const uint8_t gid[16], uint8_t tos)
{
	const uint8_t rest[] = {l->port, tos};

	return &entries[sl_fnv32(sl_fnv32(SL_FNV32, gid, 16), rest, sizeof(rest)) % AH_CACHE_MAX];
}

static struct ah_entry *find_entry(struct ah_entry *first, const struct rdma_local *l,
				   const uint8_t gid[16], uint8_t tos)
{
	struct ah_entry *n = first;

	while (n &&
	       (!rdma_local_same(&n->local, l) || memcmp(n->gid, gid, 16) != 0 || n->tos != tos))
		n = n->next;
	return n;
}

static void free_entry(struct ah_entry *n)
{
	rdma_device->ah_destroy(n->ah);
	free(n);
	cnt--;
}

static bool evict_one(void)
{
	struct ah_entry *n = sl_list_first(&idle, struct ah_entry, idle), **at;

	if (!n)
		return false;
	at = bucket_of(&n->local, n->gid, n->tos);
	while (*at != n)
		at = &(*at)->next;
	*at = n->next;
	sl_list_del(&n->idle);
	free_entry(n);
	return true;
}

static void drop_all(struct ibv_context *device, const struct ibv_async_event *ev)
{
	(void)device;
	if (ev->event_type != IBV_EVENT_GID_CHANGE)
		return;
	pthread_mutex_lock(&lock);
	changes++;
	forget_parents();
	while (evict_one()) {
	}
	for (unsigned i = 0; i < AH_CACHE_MAX; i++) {
		for (struct ah_entry *n = entries[i]; n; n = n->next)
			n->dropped = true;
		entries[i] = NULL;
	}
	pthread_mutex_unlock(&lock);
}

static struct ah_entry *add_entry(const struct rdma_local *l, const uint8_t gid[16], uint8_t tos,
				  struct ibv_ah *ah)
{
	struct ah_entry **bucket, *n;

	if (cnt == AH_CACHE_MAX && !evict_one())
		return NULL;
	n = malloc(sizeof(*n));
	if (!n)
		return NULL;
	*n = (struct ah_entry){.local = *l, .tos = tos, .ah = ah, .pid = getpid()};
	memcpy(n->gid, gid, 16);
	sl_list_init(&n->idle);
	bucket = bucket_of(l, gid, tos);
	n->next = *bucket;
	*bucket = n;
	cnt++;
	return n;
}

/* Returns a cached entry's reference. Lock held, as for all functions above. */
static struct ah_entry *hold_entry(const struct rdma_local *l, const uint8_t gid[16], uint8_t tos)
{
	struct ah_entry *n;

	forget_parents();
	n = find_entry(*bucket_of(l, gid, tos), l, gid, tos);
	if (n && !n->refs++)
		sl_list_del(&n->idle);
	return n;
}

struct ah_entry *ah_cache_get(const struct rdma_local *l, const uint8_t gid[16], uint8_t tos)
{
	static struct async_event_handler handler = {.event = drop_all};
	struct ah_entry *n;
	bool may_create;
	unsigned before;
	struct ibv_ah *ah;

	async_event_subscribe(&handler);
	pthread_mutex_lock(&lock);
	before = changes;
	n = hold_entry(l, gid, tos);
	may_create = !n && (cnt < AH_CACHE_MAX || !sl_list_empty(&idle));
	pthread_mutex_unlock(&lock);
	/* Unlocked: it may take long. */
	ah = may_create ? rdma_device->ah_create(l, gid, tos) : NULL;
	if (!ah)
		return n;
	pthread_mutex_lock(&lock);
	n = hold_entry(l, gid, tos);
	if (!n && changes == before && add_entry(l, gid, tos, ah)) {
		n = hold_entry(l, gid, tos);
		ah = NULL;
	}
	pthread_mutex_unlock(&lock);
	if (ah)
		rdma_device->ah_destroy(ah);
	return n;
}

static struct ah_job {
	struct rdma_local local;
	uint8_t gid[16], tos;
} job;
static bool job_running;
static pid_t job_pid;
static pthread_cond_t job_done = PTHREAD_COND_INITIALIZER;

static void *run_job(void *unused)
{
	struct ah_entry *n = ah_cache_get(&job.local, job.gid, job.tos);

	(void)unused;
	if (n)
		ah_cache_put(n);
	pthread_mutex_lock(&lock);
	job_running = false;
	pthread_cond_broadcast(&job_done);
	pthread_mutex_unlock(&lock);
	return NULL;
}

static void start_job(const struct rdma_local *l, const uint8_t gid[16], uint8_t tos)
{
	pthread_t thread;

	job = (struct ah_job){.local = *l, .tos = tos};
	memcpy(job.gid, gid, 16);
	job_pid = getpid();
	job_running = sl_thread_start(&thread, run_job, NULL) == 0;
	if (job_running)
		pthread_detach(thread);
}

/*
 * Returns true if a resolving thread runs. A forked child has none, and must not use a shared
 * condition. Lock held.
 */
static bool is_job_running(void)
{
	if (job_running && job_pid != getpid()) {
		job_running = false;
		pthread_cond_init(&job_done, NULL);
	}
	return job_running;
}

/* Waits a limited time for the thread. Lock held. */
static void await_job(void)
{
	static uint64_t left_ns, again_ns;
	uint64_t began_ns = sl_now_ns(), until_ns, took_ns;
	struct timespec until;

	if (began_ns >= again_ns) {
		left_ns = AH_WAIT_MS * SL_NS_PER_MS;
		again_ns = began_ns + AH_WAIT_PERIOD_MS * SL_NS_PER_MS;
	}
	until_ns = began_ns + left_ns;
	until = (struct timespec){.tv_sec = (time_t)(until_ns / SL_NS_PER_SEC),
				  .tv_nsec = (long)(until_ns % SL_NS_PER_SEC)};
	while (job_running &&
	       pthread_cond_clockwait(&job_done, &lock, CLOCK_MONOTONIC, &until) == 0) {
	}
	took_ns = sl_now_ns() - began_ns;
	left_ns -= took_ns < left_ns ? took_ns : left_ns;
}

static struct ah_entry *get_by_thread(const struct rdma_local *l, const uint8_t gid[16],
				      uint8_t tos)
{
	struct ah_entry *n;

	pthread_mutex_lock(&lock);
	n = hold_entry(l, gid, tos);
	if (!n && !is_job_running()) {
		start_job(l, gid, tos);
		await_job();
		n = hold_entry(l, gid, tos);
	}
	pthread_mutex_unlock(&lock);
	return n;
}

struct ah_entry *ah_cache_get_nowait(const struct rdma_local *l, const uint8_t gid[16], uint8_t tos)
{
	struct ah_entry *n;

	pthread_mutex_lock(&lock);
	n = hold_entry(l, gid, tos);
	pthread_mutex_unlock(&lock);
	if (n)
		return n;
	if (rdma_device->neigh_resolved && rdma_device->neigh_resolved(l, gid))
		return ah_cache_get(l, gid, tos);
	return get_by_thread(l, gid, tos);
}

void ah_cache_hold(struct ah_entry *n)
{
	pthread_mutex_lock(&lock);
	n->refs++;
	pthread_mutex_unlock(&lock);
}

void ah_cache_put(struct ah_entry *n)
{
	bool unused;

	pthread_mutex_lock(&lock);
	unused = !--n->refs && n->pid == getpid();
	if (unused && n->dropped)
		free_entry(n);
	else if (unused)
		sl_list_add_tail(&idle, &n->idle);
	pthread_mutex_unlock(&lock);
}
