/* SPDX-License-Identifier: Apache-2.0 */
/* Open connections of one class of the admin endpoint, oldest first. Control thread. */
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
	uint64_t peer_id;                /* admin_peer_id() */
	struct event_listener *listener; /* client of /events, unless being ended */
};

struct admin_conns {
	struct sl_list all;
	unsigned cnt, listener_cnt;
};

/* Makes an empty list. */
void admin_conns_init(struct admin_conns *g);
/* Adds or removes a connection: an MHD_NotifyConnectionCallback. */
void admin_conns_notify(void *conns, struct MHD_Connection *conn, void **context,
			enum MHD_ConnectionNotificationCode what);
/* Returns a connection's entry, or NULL if there was no memory. */
struct admin_conn *admin_conn_of(struct MHD_Connection *conn);
/*
 * Returns the oldest connection of the peer with most, or NULL. `listening`: only clients of
 * /events.
 */
struct admin_conn *admin_conns_find_victim(const struct admin_conns *g, bool listening);

#endif
