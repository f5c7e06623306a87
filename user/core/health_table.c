/* SPDX-License-Identifier: Apache-2.0 */
#include "core/health_table.h"

#include <stdlib.h>
#include <string.h>

void sl_health_table_init(struct sl_health_table *t, uint32_t lane_cnt)
{
	t->lane_cnt = lane_cnt;
	atomic_init(&t->changes, 0);
	sl_list_init(&t->pools);
}

static struct sl_pool_health *find_pool(const struct sl_health_table *t, const char *name)
{
	const struct sl_list *at;

	sl_list_for_each (at, &t->pools) {
		struct sl_pool_health *p = sl_container_of(at, struct sl_pool_health, link);

		if (strcmp(p->name, name) == 0)
			return p;
	}
	return NULL;
}

static struct sl_pool_health *new_pool(struct sl_health_table *t, const char *name)
{
	size_t len = strlen(name) + 1;
	struct sl_pool_health *p = calloc(1, sizeof(*p) + len);

	if (!p)
		return NULL;
	memcpy(p->name, name, len);
	p->table = t;
	sl_list_init(&p->backends);
	sl_list_add_tail(&t->pools, &p->link);
	return p;
}

static void free_empty_pool(struct sl_pool_health *p)
{
	if (!sl_list_empty(&p->backends))
		return;
	sl_list_del(&p->link);
	free(p);
}

static struct sl_backend_health *find_backend(const struct sl_pool_health *p, const char *name,
					      const char *endpoint)
{
	const struct sl_list *at;

	sl_list_for_each (at, &p->backends) {
		struct sl_backend_health *h = sl_container_of(at, struct sl_backend_health, link);

		if (strcmp(h->name, name) == 0 && (!endpoint || strcmp(h->endpoint, endpoint) == 0))
			return h;
	}
	return NULL;
}

static struct sl_backend_health *new_backend(struct sl_pool_health *p, uint32_t lane_cnt,
					     const char *name, const char *endpoint)
{
	size_t len = strlen(name) + 1, endpoint_len = strlen(endpoint) + 1;
	struct sl_backend_health *h = calloc(1, sizeof(*h) + len + endpoint_len);
	struct sl_health_lane *lanes = aligned_alloc(64, lane_cnt * sizeof(*lanes));

	if (!h || !lanes) {
		free(h);
		free(lanes);
		return NULL;
	}
	memset(lanes, 0, lane_cnt * sizeof(*lanes));
	memcpy(h->name, name, len);
	memcpy(h->name + len, endpoint, endpoint_len);
	h->endpoint = h->name + len;
	h->pool = p;
	h->health.lanes = lanes;
	h->health.lane_cnt = lane_cnt;
	sl_list_add_head(&p->backends, &h->link);
	return h;
}

struct sl_backend_health *sl_backend_health_get(struct sl_health_table *t, const char *pool,
						const char *name, const char *endpoint)
{
	struct sl_pool_health *p = find_pool(t, pool);
	struct sl_backend_health *h = NULL;

	if (!p)
		p = new_pool(t, pool);
	if (p)
		h = find_backend(p, name, endpoint);
	if (p && !h)
		h = new_backend(p, t->lane_cnt, name, endpoint);
	if (h)
		h->refs++;
	else if (p)
		free_empty_pool(p);
	return h;
}

void sl_backend_health_put(struct sl_backend_health *h)
{
	struct sl_pool_health *p;

	if (!h || --h->refs)
		return;
	p = h->pool;
	sl_list_del(&h->link);
	free(h->health.lanes);
	free(h);
	free_empty_pool(p);
}

struct sl_backend_health *sl_backend_health_find(const struct sl_health_table *t, const char *pool,
						 const char *name)
{
	const struct sl_pool_health *p = find_pool(t, pool);

	return p ? find_backend(p, name, NULL) : NULL;
}
