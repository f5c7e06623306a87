/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who has come into a house of the admin endpoint and is still there: an answer that is not read, a
 * request whose body does not come, a listener of /events.
 *
 *   guests: oldest ---> ... ---> newest      at most `places`, or the next one finds none
 *
 * When all places are taken, or all of those who may listen, the oldest guest of whoever has most
 * of them (an address, or an account) has to go. Most are answered in the turn of the loop in which
 * they come, so that those who stay stand in nobody's way.
 *
 * Called by the control thread.
 */
#ifndef SL_CONTROL_ADMIN_CONNS_H
#define SL_CONTROL_ADMIN_CONNS_H

#include <microhttpd.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/list.h"

struct event_listener;

struct admin_conn {
	struct sl_list link;
	struct MHD_Connection *conn;
	int fd;
	uint64_t peer_id;                /* the same for those of one address or account */
	struct event_listener *listener; /* of /events, and not asked to go (handlers.c) */
};

struct admin_conns {
	struct sl_list all;
	unsigned cnt, listener_cnt;
};

void admin_conns_init(struct admin_conns *g);
/* As MHD_NotifyConnectionCallback, with the guests as its argument. */
void admin_conns_notify(void *conns, struct MHD_Connection *conn, void **context,
			enum MHD_ConnectionNotificationCode what);
/* NULL: there was no memory for it. */
struct admin_conn *admin_conn_of(struct MHD_Connection *conn);
/* Who has to go, of all or of those who listen; NULL: there is none. */
struct admin_conn *admin_conns_find_victim(const struct admin_conns *g, bool listening);

#endif
