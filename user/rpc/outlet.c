/* SPDX-License-Identifier: Apache-2.0 */
#include "rpc/outlet.h"

void sl_outlet_join(struct sl_outlet_use *u, struct sl_outlets *all, uintptr_t port, uint32_t least,
		    uint32_t max)
{
	struct sl_outlet *o = NULL;

	/* The port's entry, or an unused one, or the link's own. */
	for (unsigned i = 0; port && i < SL_OUTLETS_MAX; i++) {
		struct sl_outlet *at = &all->of[i];
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
		*u->o = (struct sl_outlet){.port = o ? port : 0};
		sl_limit_init(&u->o->limit, least, max);
		sl_list_init(&u->o->waiting);
	}
	u->o->links++;
}

void sl_outlet_leave(struct sl_outlet_use *u)
{
	u->o->posted -= u->counted;
	u->o->links--;
	sl_list_del(&u->node);
}

void sl_outlet_wait(struct sl_outlet_use *u, bool has_posted)
{
	if (has_posted)
		sl_list_del(&u->node);
	if (sl_list_empty(&u->node))
		sl_list_add_tail(&u->o->waiting, &u->node);
}
