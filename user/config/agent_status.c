/* SPDX-License-Identifier: Apache-2.0 */
#include "config/agent_status.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#include "config/config.h"

struct sl_agent_status_server {
	_Atomic uint32_t used, up, healthy, in_flight, waiting, concurrency, connections;
	char name[SL_AGENT_STATUS_NAME], why[SL_AGENT_STATUS_WHY];
};

struct agent_status {
	_Atomic uint32_t used, up, pid, restarts, backoff_ms;
	struct sl_agent_status_server servers[SL_CFG_MAX_SERVERS];
};

enum { ENTRIES = SL_CFG_MAX_AGENTS + SL_MAX_WORKERS };
static struct agent_status *agents; /* ENTRIES of them */

int sl_agent_status_make(void)
{
	void *at = mmap(NULL, ENTRIES * sizeof(*agents), PROT_READ | PROT_WRITE,
			MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	if (at == MAP_FAILED)
		return -errno;
	agents = at;
	return 0;
}

void sl_agent_status_set(uint32_t agent, const struct sl_agent_info *info)
{
	struct agent_status *l = &agents[agent];

	atomic_store(&l->up, info->up);
	atomic_store(&l->pid, info->pid);
	atomic_store(&l->restarts, info->restarts);
	atomic_store(&l->backoff_ms, info->backoff_ms);
	atomic_store(&l->used, 1);
	for (uint32_t i = 0; !info->up && i < SL_CFG_MAX_SERVERS; i++)
		atomic_store(&l->servers[i].used, 0);
}

struct sl_agent_status_server *sl_agent_status_server_add(uint32_t agent, const char *name)
{
	struct sl_agent_status_server *s = agents ? agents[agent].servers : NULL;

	for (uint32_t i = 0; s && i < SL_CFG_MAX_SERVERS; i++, s++) {
		if (atomic_load(&s->used))
			continue;
		snprintf(s->name, sizeof(s->name), "%s", name);
		s->why[0] = 0;
		sl_agent_status_server_set(s, &(struct sl_server_info){0});
		atomic_store(&s->used, 1);
		return s;
	}
	return NULL;
}

void sl_agent_status_server_set(struct sl_agent_status_server *s, const struct sl_server_info *info)
{
	atomic_store_explicit(&s->up, info->up, memory_order_relaxed);
	atomic_store_explicit(&s->healthy, info->healthy, memory_order_relaxed);
	atomic_store_explicit(&s->in_flight, info->in_flight, memory_order_relaxed);
	atomic_store_explicit(&s->waiting, info->waiting, memory_order_relaxed);
	atomic_store_explicit(&s->concurrency, info->concurrency, memory_order_relaxed);
	atomic_store_explicit(&s->connections, info->connections, memory_order_relaxed);
}

void sl_agent_status_server_set_why(struct sl_agent_status_server *s, const char *why)
{
	snprintf(s->why, sizeof(s->why), "%s", why);
}

void sl_agent_status_server_remove(struct sl_agent_status_server *s)
{
	atomic_store(&s->used, 0);
}

bool sl_agent_status_get(uint32_t agent, struct sl_agent_info *out)
{
	const struct agent_status *l = agents && agent < SL_CFG_MAX_AGENTS ? &agents[agent] : NULL;

	if (!l || !atomic_load(&l->used))
		return false;
	*out = (struct sl_agent_info){
		.up = atomic_load(&l->up),
		.pid = atomic_load(&l->pid),
		.restarts = atomic_load(&l->restarts),
		.backoff_ms = atomic_load(&l->backoff_ms),
	};
	return true;
}

/* Agents are not trusted: the text is terminated, and its control characters are replaced. */
static void copy_text(char *to, const char *from, size_t size)
{
	memcpy(to, from, size);
	to[size - 1] = 0;
	for (char *c = to; *c; c++) {
		if (*c < ' ' || *c > '~')
			*c = '?';
	}
}

bool sl_agent_status_server_get(uint32_t agent, uint32_t line, struct sl_server_info *out)
{
	const struct sl_agent_status_server *s;

	if (!agents || agent >= (uint32_t)ENTRIES || line >= SL_CFG_MAX_SERVERS)
		return false;
	s = &agents[agent].servers[line];
	if (!atomic_load(&s->used))
		return false;
	*out = (struct sl_server_info){
		.up = atomic_load(&s->up),
		.healthy = atomic_load(&s->healthy),
		.in_flight = atomic_load(&s->in_flight),
		.waiting = atomic_load(&s->waiting),
		.concurrency = atomic_load(&s->concurrency),
		.connections = atomic_load(&s->connections),
	};
	copy_text(out->name, s->name, sizeof(out->name));
	copy_text(out->why, s->why, sizeof(out->why));
	return true;
}
