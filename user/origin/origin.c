/* SPDX-License-Identifier: Apache-2.0 */
#include "origin/origin.h"

#include <stdlib.h>

#include "origin/scratch.h"

bool origin_init(struct origin *o, size_t bodies_max)
{
	*o = (struct origin){.scratch = calloc(1, sizeof(*o->scratch))};
	sl_capped_init(&o->bodies, bodies_max);
	sl_list_init(&o->unread);
	return o->scratch != NULL;
}

void origin_fini(struct origin *o)
{
	sl_capped_fini(&o->bodies);
	free(o->scratch);
	o->scratch = NULL;
}
