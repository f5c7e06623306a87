/* SPDX-License-Identifier: Apache-2.0 */
#include "control/guests.h"

#include <stdlib.h>

#include "control/door.h"

void sl_guests_init(struct sl_guests *g)
{
	*g = (struct sl_guests){0};
	sl_list_init(&g->all);
}

static int fd_of(struct MHD_Connection *conn)
{
	const union MHD_ConnectionInfo *info =
		MHD_get_connection_info(conn, MHD_CONNECTION_INFO_CONNECTION_FD);

	return info ? info->connect_fd : -1;
}

struct sl_guest *sl_guest_of(struct MHD_Connection *conn)
{
	const union MHD_ConnectionInfo *info =
		MHD_get_connection_info(conn, MHD_CONNECTION_INFO_SOCKET_CONTEXT);

	return info ? info->socket_context : NULL;
}

static void come_in(struct sl_guests *g, struct MHD_Connection *conn, void **context)
{
	struct sl_guest *guest = calloc(1, sizeof(*guest));

	*context = guest;
	if (!guest)
		return;
	guest->conn = conn;
	guest->fd = fd_of(conn);
	guest->who = sl_door_who(guest->fd);
	sl_list_add_tail(&g->all, &guest->link);
	g->cnt++;
}

static void go(struct sl_guests *g, struct sl_guest *guest)
{
	if (!guest)
		return;
	sl_list_del(&guest->link);
	g->cnt--;
	free(guest);
}

void sl_guests_notify(void *guests, struct MHD_Connection *conn, void **context,
		      enum MHD_ConnectionNotificationCode what)
{
	if (what == MHD_CONNECTION_NOTIFY_STARTED)
		come_in(guests, conn, context);
	else
		go(guests, *context);
}

static unsigned count_of(const struct sl_guests *g, uint64_t who, bool listening)
{
	const struct sl_list *l;
	unsigned n = 0;

	sl_list_for_each (l, &g->all) {
		const struct sl_guest *guest = sl_container_of(l, struct sl_guest, link);

		n += guest->who == who && (!listening || guest->listener);
	}
	return n;
}

struct sl_guest *sl_guests_find(const struct sl_guests *g, bool listening)
{
	struct sl_guest *worst = NULL;
	const struct sl_list *l;
	unsigned most = 0;

	sl_list_for_each (l, &g->all) {
		struct sl_guest *guest = sl_container_of(l, struct sl_guest, link);
		unsigned n = count_of(g, guest->who, listening);

		if ((listening && !guest->listener) || n <= most)
			continue;
		worst = guest;
		most = n;
	}
	return worst;
}
