/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdlib.h>
#include "rpc/outstanding.h"

int sl_outstanding_init(struct sl_outstanding *o, uint32_t cap)
{
	*o = (struct sl_outstanding){.cap = cap};
	sl_list_init(&o->unused_requests);
	sl_list_init(&o->unused_batches);
	o->requests = calloc(cap, sizeof(*o->requests));
	o->batches = calloc(cap, sizeof(*o->batches));
	if (!o->requests || !o->batches) {
		sl_outstanding_fini(o);
		return -ENOMEM;
	}
	for (uint32_t i = 0; i < cap; i++) {
		sl_list_add_tail(&o->unused_requests, &o->requests[i].node);
		sl_list_init(&o->requests[i].window);
		sl_list_init(&o->requests[i].parts);
		sl_list_add_tail(&o->unused_batches, &o->batches[i].node);
	}
	return 0;
}

void sl_outstanding_fini(struct sl_outstanding *o)
{
	free(o->requests);
	free(o->batches);
	*o = (struct sl_outstanding){.cap = 0};
}
