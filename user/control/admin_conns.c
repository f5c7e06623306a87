/* SPDX-License-Identifier: Apache-2.0 */
#include "control/admin_conns.h"

#include <stdlib.h>

#include "control/admin_accept.h"

void admin_conns_init(struct admin_conns *g)
{
	*g = (struct admin_conns){0};
	sl_list_init(&g->all);
}

static int fd_of(struct MHD_Connection *conn)
{
	const union MHD_ConnectionInfo *info =
		MHD_get_connection_info(conn, MHD_CONNECTION_INFO_CONNECTION_FD);

	return info ? info->connect_fd : -1;
}

struct admin_conn *admin_conn_of(struct MHD_Connection *conn)
{
	const union MHD_ConnectionInfo *info =
		MHD_get_connection_info(conn, MHD_CONNECTION_INFO_SOCKET_CONTEXT);

	return info ? info->socket_context : NULL;
}

static void add_conn(struct admin_conns *g, struct MHD_Connection *conn, void **context)
{
	struct admin_conn *ac = calloc(1, sizeof(*ac));

	*context = ac;
	if (!ac)
		return;
	ac->conn = conn;
	ac->fd = fd_of(conn);
	ac->peer_id = admin_peer_id(ac->fd);
	sl_list_add_tail(&g->all, &ac->link);
	g->cnt++;
}

static void remove_conn(struct admin_conns *g, struct admin_conn *ac)
{
	if (!ac)
		return;
	sl_list_del(&ac->link);
	g->cnt--;
	free(ac);
}

void admin_conns_notify(void *conns, struct MHD_Connection *conn, void **context,
			enum MHD_ConnectionNotificationCode what)
{
	if (what == MHD_CONNECTION_NOTIFY_STARTED)
		add_conn(conns, conn, context);
	else
		remove_conn(conns, *context);
}

static unsigned count_of_peer(const struct admin_conns *g, uint64_t peer_id, bool listening)
{
	const struct sl_list *l;
	unsigned n = 0;

	sl_list_for_each (l, &g->all) {
		const struct admin_conn *ac = sl_container_of(l, struct admin_conn, link);

		n += ac->peer_id == peer_id && (!listening || ac->listener);
	}
	return n;
}

struct admin_conn *admin_conns_find_victim(const struct admin_conns *g, bool listening)
{
	struct admin_conn *worst = NULL;
	const struct sl_list *l;
	unsigned most = 0;

	sl_list_for_each (l, &g->all) {
		struct admin_conn *ac = sl_container_of(l, struct admin_conn, link);
		unsigned n = count_of_peer(g, ac->peer_id, listening);

		if ((listening && !ac->listener) || n <= most)
			continue;
		worst = ac;
		most = n;
	}
	return worst;
}
