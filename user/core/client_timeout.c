/* SPDX-License-Identifier: Apache-2.0 */
#include "base/clock.h"
#include "base/min.h"
#include "core/client.h"

enum { TIMER_GRAIN_MS = 250 };
enum { DRAIN_FIRST_S = 1 }; /* for the first bytes of a connection that drains */

static uint64_t phase_limit_ns(const struct sl_client *cl)
{
	const struct sl_cfg_limits *l = &cl->core->cfg->limits;

	if (cl->drains && !cl->proto && cl->phase != SL_CLIENT_SEND)
		return DRAIN_FIRST_S * SL_NS_PER_SEC;
	switch (cl->phase) {
	case SL_CLIENT_HEAD: return l->header_timeout_ns;
	case SL_CLIENT_BODY: return l->body_timeout_ns;
	case SL_CLIENT_SEND: return l->send_timeout_ns;
	case SL_CLIENT_WAIT: return 0;
	default: return l->idle_timeout_ns;
	}
}

uint64_t sl_client_waited_ms(const struct sl_client *cl)
{
	int32_t ms = (int32_t)((uint32_t)(cl->core->now_ns / SL_NS_PER_MS) - cl->phase_ms);

	return ms > 0 ? (uint64_t)ms : 0;
}

static uint64_t waited_ns(const struct sl_client *cl)
{
	return sl_client_waited_ms(cl) * SL_NS_PER_MS;
}

/*
 * Returns the shortest time-out. The timer is never set further ahead, so a change of phase leaves
 * it.
 */
static uint64_t shortest_limit_ns(const struct sl_cfg_limits *l)
{
	uint64_t ns = l->idle_timeout_ns;

	if (l->header_timeout_ns < ns)
		ns = l->header_timeout_ns;
	if (l->body_timeout_ns < ns)
		ns = l->body_timeout_ns;
	return sl_min_ns(l->send_timeout_ns, ns);
}

static uint64_t head_left_ns(const struct sl_client *cl)
{
	const struct sl_front_ops *front = sl_client_front(cl);
	uint64_t since = front && front->head_since ? front->head_since(cl->state) : 0;
	uint64_t due = since + cl->core->cfg->limits.header_timeout_ns;

	if (!since)
		return UINT64_MAX;
	return due > cl->core->now_ns ? due - cl->core->now_ns : 0;
}

static uint64_t unread_ns(struct sl_conn transport)
{
	return transport.ops->unread_ns(transport.self);
}

static uint64_t unread_left_ns(const struct sl_client *cl)
{
	uint64_t limit = cl->core->cfg->limits.send_timeout_ns;
	uint64_t waited = cl->conn ? unread_ns(sl_client_transport(cl)) : 0;

	if (!waited)
		return UINT64_MAX;
	return waited < limit ? limit - waited : 0;
}

void sl_client_arm(struct sl_client *cl)
{
	uint64_t limit = phase_limit_ns(cl);
	uint64_t waited = waited_ns(cl);
	uint64_t soonest = TIMER_GRAIN_MS * SL_NS_PER_MS;
	uint64_t shortest = shortest_limit_ns(&cl->core->cfg->limits);
	uint64_t left = limit > waited ? limit - waited : 0;
	uint64_t head = head_left_ns(cl);

	if (!limit || left > shortest)
		left = shortest;
	if (left > head)
		left = head;
	if (left > unread_left_ns(cl))
		left = unread_left_ns(cl);
	sl_timer_set(&cl->core->wheel, &cl->timer,
		     cl->core->now_ns + (left > soonest ? left : soonest));
}

enum sl_client_due sl_client_due(const struct sl_client *cl)
{
	uint64_t limit = phase_limit_ns(cl);

	if (!unread_left_ns(cl))
		return SL_CLIENT_DUE_UNREAD;
	if (!head_left_ns(cl))
		return SL_CLIENT_DUE_HEAD;
	return limit && waited_ns(cl) >= limit ? SL_CLIENT_DUE_PHASE : SL_CLIENT_DUE_NOT;
}
