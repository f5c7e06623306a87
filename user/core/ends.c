/* SPDX-License-Identifier: Apache-2.0 */
/* Who is at the ends of a client's connection. */
#include "core/client.h"

static void datagram_ends(const struct sl_udp_peer *from, struct sl_conn_info *out)
{
	*out = (struct sl_conn_info){
		.local = sl_net_local(&from->path, from->local_port_be),
		.peer = sl_net_remote(&from->path, from->remote_port_be),
	};
}

const struct sl_cfg_listener *sl_listener_of(const struct sl_config *cfg,
					     const struct sl_conn_info *in)
{
	const struct sl_cfg_listener *l = &cfg->listeners[in->listener];

	/* A reload may have given its number to another one. */
	if (in->listener >= cfg->listener_cnt || l->at.port_be != in->local.port_be)
		return NULL;
	return l;
}

void sl_client_ends(const struct sl_client *cl, struct sl_conn_info *out)
{
	if (cl->proto == SL_CLIENT_DATAGRAM && cl->core->datagram_from) {
		datagram_ends(cl->core->datagram_from, out);
	} else if (cl->conn) {
		struct sl_conn s = sl_client_stream(cl);

		s.ops->info(s.self, out);
	} else {
		*out = (struct sl_conn_info){0};
	}
	out->listener = sl_client_listener(cl);
}
