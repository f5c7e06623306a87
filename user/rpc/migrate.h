/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A link that goes on by another transport, as rpc_wire.h has it under "Migration". For link.c.
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
 * Until there is a PONG nothing has changed, and what goes wrong costs the next one only.
 */
#ifndef SL_RPC_MIGRATE_H
#define SL_RPC_MIGRATE_H

#include "rpc/link.h"

/* Each poll of a link that is on the move: time-outs, and what has been left. 0 or -errno. */
int sl_migrate_look(struct sl_link *l);
/* MIGRATE has come. 0; -EPROTO: it has no place here. */
int sl_migrate_take(struct sl_link *l);
/* MIGRATE is due, and nothing keeps it from being sent. */
bool sl_migrate_may_send(const struct sl_link *l);
/*
 * It is to be, behind the ends of all messages that are begun. Lent bytes are read until their last
 * fragment has been: that must not go by the other one.
 */
static inline bool sl_migrate_awaits_ends(const struct sl_link *l)
{
	return l->move_due && !l->t->copies;
}
/* It was: what goes out now goes by the other one. */
void sl_migrate_sent(struct sl_link *l);

/* As sl_link_arm(), of a link that is on the move. */
bool sl_migrate_arm(struct sl_link *l, bool wants_room);

/* By which messages come. */
static inline struct sl_transport *sl_migrate_incoming(const struct sl_link *l)
{
	return l->move == SL_MOVE_HALF ? l->second : l->t;
}

#endif
