/* SPDX-License-Identifier: Apache-2.0 */
#include "rpc/migrate.h"

#include <errno.h>

#include "base/clock.h"

#define FOLLOW_NS  (5 * SL_NS_PER_SEC) /* per step */
#define HALF_NS    (15 * SL_NS_PER_SEC)
#define OFFERED_NS (30 * SL_NS_PER_SEC) /* backend: until the gateway's MIGRATE */

static bool is_gateway(const struct sl_link *l)
{
	return l->takes == SL_RPC_RESPONSE;
}

static void finish_move(struct sl_link *l, bool moved_on)
{
	struct sl_transport *t = l->second;
	struct sl_list *node;

	if (t->ops->halt)
		t->ops->halt(t);
	while ((node = sl_list_pop_head(&l->retired_in_flight)))
		l->ops->sent(l->ctx, sl_container_of(node, struct sl_send, node));
	l->second = NULL;
	l->move = SL_MOVE_NONE;
	l->move_due = false;
	l->ops->retired(l->ctx, t, moved_on);
}

static int send_control_now(struct sl_transport *t, enum sl_rpc_type type)
{
	const struct sl_rpc_header h = {.version_type = (uint8_t)(SL_RPC_VERSION << 4 | type),
					.flags = SL_RPC_FIRST | SL_RPC_LAST,
					.priority = SL_CLASS_CONTROL};
	int rc = t->ops->post(t, &h, NULL, 0, 0);

	t->ops->flush(t);
	return rc;
}

int sl_link_migrate(struct sl_link *l, struct sl_transport *t, uint64_t now_ns)
{
	int rc;

	/* A gateway offers a third transport only after it has left one. */
	if (!is_gateway(l) && (l->move == SL_MOVE_RETIRED || l->move == SL_MOVE_OFFERED))
		finish_move(l, l->move == SL_MOVE_RETIRED);
	if (l->error || l->move)
		return -EBUSY;
	if (t->peer_epoch != l->t->peer_epoch)
		return -EPROTO;
	rc = is_gateway(l) ? send_control_now(t, SL_RPC_PING) : 0;
	if (rc)
		return rc;
	l->second = t;
	l->move = SL_MOVE_OFFERED;
	l->probed_ok = false;
	l->move_until_ns = now_ns + FOLLOW_NS;
	return 0;
}

void sl_link_check(struct sl_link *l)
{
	(void)l->t->ops->check(l->t);
	if (l->second)
		(void)l->second->ops->check(l->second);
}

int sl_migrate_handle(struct sl_link *l)
{
	enum sl_link_move from = is_gateway(l) ? SL_MOVE_HALF : SL_MOVE_OFFERED;

	if (l->move != from || !l->probed_ok)
		return -EPROTO;
	l->move = from + 1;
	l->move_due = l->move == SL_MOVE_HALF;
	l->move_until_ns = l->now_ns + (l->move_due ? HALF_NS : FOLLOW_NS);
	return 0;
}

bool sl_migrate_may_send(const struct sl_link *l)
{
	bool all_ended = true;

	for (unsigned i = 0; i < SL_SENDQ_CLASSES; i++)
		all_ended &= !l->q.started[i];
	return l->move_due && (all_ended || l->t->copies);
}

void sl_migrate_sent(struct sl_link *l)
{
	struct sl_transport *old = l->t;
	struct sl_list *node;

	old->ops->flush(old);
	while ((node = sl_list_pop_head(&l->in_flight)))
		sl_list_add_tail(&l->retired_in_flight, node);
	sl_tx_port_leave(&l->out);
	l->t = l->second;
	l->second = old;
	sl_link_join(l);
	l->move = l->move == SL_MOVE_OFFERED ? SL_MOVE_HALF : SL_MOVE_RETIRED;
	l->move_due = false;
	l->move_until_ns = l->now_ns + (l->move == SL_MOVE_HALF ? HALF_NS : FOLLOW_NS);
}

/* Polls the next transport for PONG, or PING at a backend, which only then knows it. */
static int probe_second(struct sl_link *l)
{
	struct sl_transport *t = l->second;
	struct sl_message m;
	unsigned type;
	int n;

	(void)t->ops->check(t);
	n = t->ops->poll(t, &m, 1);
	t->ops->flush(t);
	if (n <= 0)
		return n;
	type = m.header.version_type & 15;
	t->ops->release(t, &m);
	if (type != (is_gateway(l) ? SL_RPC_PONG : SL_RPC_PING))
		return -EPROTO;
	l->probed_ok = true;
	l->move_due = is_gateway(l);
	l->move_until_ns = l->now_ns + (is_gateway(l) ? FOLLOW_NS : OFFERED_NS);
	return is_gateway(l) ? 0 : send_control_now(t, SL_RPC_PONG);
}

static int expect_credit(struct sl_transport *t)
{
	struct sl_message m;
	int n;

	(void)t->ops->check(t);
	n = t->ops->poll(t, &m, 1);
	if (n <= 0)
		return n;
	t->ops->release(t, &m);
	return -EPROTO;
}

static bool is_late(const struct sl_link *l)
{
	return l->now_ns >= l->move_until_ns;
}

static bool may_close_retired(const struct sl_link *l)
{
	return l->move == SL_MOVE_RETIRED && is_gateway(l) && sl_list_empty(&l->retired_in_flight);
}

int sl_migrate_step(struct sl_link *l)
{
	int rc = 0;

	switch (l->move) {
	case SL_MOVE_OFFERED:
		rc = l->probed_ok ? l->second->ops->check(l->second) : probe_second(l);
		if (rc || is_late(l))
			finish_move(l, false);
		return 0;
	case SL_MOVE_HALF:
		if (l->move_due)
			rc = expect_credit(l->t);
		break;
	case SL_MOVE_RETIRED:
		rc = expect_credit(l->second);
		if (rc == -EPROTO)
			return rc;
		if (rc || is_late(l) || may_close_retired(l))
			finish_move(l, true);
		return 0;
	default: break;
	}
	return !rc && is_late(l) ? -ETIMEDOUT : rc;
}

/* Arms the old transport. A gateway receives nothing on it in HALF. */
static bool arm_first(struct sl_link *l, bool wants_room)
{
	bool is_deaf = l->move == SL_MOVE_HALF && !l->move_due;

	if (is_deaf && !wants_room && sl_list_empty(&l->in_flight))
		return true;
	return l->t->ops->arm(l->t, wants_room);
}

static bool arm_second(struct sl_link *l)
{
	/* Nothing arrives between PONG and the first MIGRATE. */
	if (l->move == SL_MOVE_OFFERED && l->probed_ok)
		return true;
	return l->second->ops->arm(l->second, !sl_list_empty(&l->retired_in_flight));
}

bool sl_migrate_arm(struct sl_link *l, bool wants_room)
{
	return !may_close_retired(l) && arm_first(l, wants_room || l->move_due) && arm_second(l);
}
