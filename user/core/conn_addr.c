/* SPDX-License-Identifier: Apache-2.0 */
#include "core/client.h"

static void datagram_addrs(const struct sl_udp_peer *from, struct sl_conn_info *out)
{
	*out = (struct sl_conn_info){
		.local = sl_net_local(&from->path, from->local_port_be),
		.peer = sl_net_remote(&from->path, from->remote_port_be),
	};
}

int sl_client_find_listener(const struct sl_client *cl)
{
	struct sl_conn t = sl_client_transport(cl);
	SL_UNINIT struct sl_conn_info at;
	int32_t listener;

	if (!cl->kernel)
		return sl_tcp_listener(t.self);
	listener = sl_sock_listener(t.self);
	if (listener != SL_SOCK_BY_ADDRESS)
		return listener;
	t.ops->info(t.self, &at);
	return sl_net_find_listener(cl->core->net, at.local.family, at.local.addr, at.local.port_be,
				    SL_IP_PROTO_TCP);
}

void sl_client_addrs(const struct sl_client *cl, struct sl_conn_info *out)
{
	if (cl->proto == SL_CLIENT_DATAGRAM && cl->core->datagram_from) {
		datagram_addrs(cl->core->datagram_from, out);
	} else if (cl->conn) {
		struct sl_conn s = sl_client_stream(cl);

		s.ops->info(s.self, out);
	} else {
		*out = (struct sl_conn_info){0};
	}
	out->listener = sl_client_listener(cl);
}
