/* SPDX-License-Identifier: Apache-2.0 */
#include "rpc/tx_port.h"

void sl_tx_port_join(struct sl_tx_port_link *u, struct sl_tx_ports *all, uintptr_t port,
		     uint32_t least, uint32_t max)
{
	struct sl_tx_port *o = NULL;

	for (unsigned i = 0; port && i < SL_TX_PORTS_MAX; i++) {
		struct sl_tx_port *at = &all->list[i];
		bool same = at->links && at->port == port;

		if (same || (!at->links && !o))
			o = at;
		if (same)
			break;
	}
	u->posted = u->counted = 0;
	u->moved_ns = 0;
	sl_list_init(&u->node);
	u->o = o ? o : &u->own;
	if (!o || !o->links) {
		*u->o = (struct sl_tx_port){.port = o ? port : 0};
		sl_dql_init(&u->o->dql, least, max);
		sl_list_init(&u->o->waiting);
	}
	u->o->links++;
}

void sl_tx_port_leave(struct sl_tx_port_link *u)
{
	u->o->posted -= u->counted;
	u->o->links--;
	sl_list_del(&u->node);
}

void sl_tx_port_wait(struct sl_tx_port_link *u, bool has_posted)
{
	if (has_posted)
		sl_list_del(&u->node);
	if (sl_list_empty(&u->node))
		sl_list_add_tail(&u->o->waiting, &u->node);
}
