/* SPDX-License-Identifier: Apache-2.0 */
#include "core/core.h"

static uint32_t part_of(double share, uint32_t whole)
{
	uint32_t part = (uint32_t)(share * whole);

	if (share >= 1)
		return 0;
	return part ? part : 1;
}

static void set_quota_limits(struct sl_core *c)
{
	const struct sl_cfg_limits *l = &c->cfg->limits;
	uint32_t *limits = c->quotas.limits;

	limits[SL_QUOTA_CONNECTIONS] =
		l->address_connections > 1 ? (uint32_t)l->address_connections
					   : part_of(l->address_connections, l->max_connections);
	limits[SL_QUOTA_EXCHANGES] = part_of(l->address_exchanges, l->max_exchanges);
	limits[SL_QUOTA_READING] = part_of(l->address_reading, l->max_exchanges);
	limits[SL_QUOTA_FRAMES] = part_of(l->address_frames, c->net->umem->frame_cnt);
	limits[SL_QUOTA_REQUESTS] = l->address_requests;
}

uint32_t sl_core_max_discard(const struct sl_cfg_limits *l)
{
	const uint32_t least = 2 << 20;

	return l->max_body > least ? (uint32_t)l->max_body : least;
}

void sl_core_set_limits(struct sl_core *c)
{
	const struct sl_cfg_limits *l = &c->cfg->limits;

	sl_front_limits_default(&c->limits);
	c->limits.max_head = l->max_head;
	c->limits.max_target = l->max_target;
	c->limits.max_headers = l->max_headers;
	c->limits.max_pipeline = l->max_pipeline;
	c->limits.max_streams = l->max_streams;
	c->limits.max_body = l->max_body;
	c->limits.max_discard = sl_core_max_discard(l);
	c->limits.max_message = l->max_message;
	c->limits.address_connections = l->address_connections;
	if (l->address_connections > 1)
		c->limits.address_connections = l->address_connections / l->max_connections;
	c->limits.address_streams = l->address_exchanges;
	for (uint32_t i = 0; i < c->cfg->route_cnt; i++)
		c->limits.upgrades |= c->cfg->routes[i].upgrade_cnt > 0;
	set_quota_limits(c);
}
