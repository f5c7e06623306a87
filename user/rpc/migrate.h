/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Moves a link to another transport, see "Migration" in rpc_wire.h. Internal to link.c.
 *
 *             gateway                                   backend
 *   OFFERED   the next one is adopted                   the next one is accepted
 *             PING by the next one              -->
 *                                               <--     PONG by the next one
 *             MIGRATE, the last by the old one  -->
 *   HALF      sends by the new one, hears the old one   hears the new one, sends by the old one
 *                                               <--     MIGRATE, the last by the old one
 *   LEFT      closes the old one                -->     its end: closes the old one
 *
 * A failure before the PONG affects the next transport only.
 */
#ifndef SL_RPC_MIGRATE_H
#define SL_RPC_MIGRATE_H

#include "rpc/link.h"

/* Advances the migration at each poll. Returns 0 or -errno. */
int sl_migrate_step(struct sl_link *l);
/* Handles a received MIGRATE. Returns 0, or -EPROTO if it is unexpected. */
int sl_migrate_handle(struct sl_link *l);
/* Returns true if MIGRATE is due and nothing delays it. */
bool sl_migrate_may_send(const struct sl_link *l);
/*
 * Returns true while MIGRATE waits for the ends of begun messages. Lent bytes must leave on the
 * same transport.
 */
static inline bool sl_migrate_awaits_ends(const struct sl_link *l)
{
	return l->move_due && !l->t->copies;
}
/* Switches the output, after MIGRATE was posted. */
void sl_migrate_sent(struct sl_link *l);

/* Like sl_link_arm(), for a link that migrates. */
bool sl_migrate_arm(struct sl_link *l, bool wants_room);

static inline struct sl_transport *sl_migrate_incoming(const struct sl_link *l)
{
	return l->move == SL_MOVE_HALF ? l->second : l->t;
}

#endif
