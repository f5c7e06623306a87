/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Open connections of one class of the admin endpoint, oldest first: unread replies, incomplete
 * bodies, clients of /events. Called by the control thread.
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
	uint64_t peer_id;                /* one number per address or account */
	struct event_listener *listener; /* client of /events that is not being ended */
};

struct admin_conns {
	struct sl_list all;
	unsigned cnt, listener_cnt;
};

/* Makes an empty list. */
void admin_conns_init(struct admin_conns *g);
/* An MHD_NotifyConnectionCallback; its first argument is the list. */
void admin_conns_notify(void *conns, struct MHD_Connection *conn, void **context,
			enum MHD_ConnectionNotificationCode what);
/* Returns NULL if there was no memory for the entry. */
struct admin_conn *admin_conn_of(struct MHD_Connection *conn);
/*
 * Returns the oldest connection of the peer with most (of all, or of the clients of /events), or
 * NULL.
 */
struct admin_conn *admin_conns_find_victim(const struct admin_conns *g, bool listening);

#endif
