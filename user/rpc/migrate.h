/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Moves a link to another transport, see user/docs/protocol.md. Internal to link.c.
 *
 *             gateway                             backend
 *   OFFERED   adopts the new one                  accepts the new one
 *             PING by the new one           -->
 *                                           <--   PONG by the new one
 *             MIGRATE, last by the old one  -->
 *   HALF      sends by the new one                hears the new one
 *                                           <--   MIGRATE, last by the old one
 *   RETIRED   closes the old one            -->   closes the old one
 *
 * A failure before the PONG affects the new transport only.
 */
#ifndef SL_RPC_MIGRATE_H
#define SL_RPC_MIGRATE_H

#include "rpc/link.h"

/*
 * Continues the migration. Returns 0 or the link's error: -EPROTO, -ETIMEDOUT or the transport's.
 */
int sl_migrate_step(struct sl_link *l);
/* Handles MIGRATE. Returns 0, or -EPROTO if it is unexpected. */
int sl_migrate_handle(struct sl_link *l);
/* Returns true if MIGRATE is due and no lent message is partly sent. */
bool sl_migrate_may_send(const struct sl_link *l);
/* True: MIGRATE waits for begun messages: lent bytes need the same transport. */
static inline bool sl_migrate_awaits_ends(const struct sl_link *l)
{
	return l->move_due && !l->t->copies;
}
/* Switches the output to the next transport, after MIGRATE was posted. */
void sl_migrate_sent(struct sl_link *l);

/* Arms both transports. False: there is work now. */
bool sl_migrate_arm(struct sl_link *l, bool wants_room);

/* Returns the transport of the next message. */
static inline struct sl_transport *sl_migrate_incoming(const struct sl_link *l)
{
	return l->move == SL_MOVE_HALF ? l->second : l->t;
}

#endif
