/* SPDX-License-Identifier: Apache-2.0 */
#include "batch/roster.h"

#include <errno.h>
#include <stdlib.h>

int sl_roster_init(struct sl_roster *r, uint32_t room)
{
	*r = (struct sl_roster){.room = room,
				.order = calloc(room + 1, sizeof(*r->order)),
				.place = calloc(room + 1, sizeof(*r->place))};
	if (!r->order || !r->place) {
		sl_roster_fini(r);
		return -ENOMEM;
	}
	for (uint32_t i = 0; i < room; i++)
		r->place[i] = UINT16_MAX;
	return 0;
}

void sl_roster_fini(struct sl_roster *r)
{
	free(r->order);
	free(r->place);
	r->order = r->place = NULL;
}

void sl_roster_add(struct sl_roster *r, unsigned backend, unsigned batches)
{
	uint32_t last = sl_roster_up_cnt(r);

	if (sl_roster_up(r, backend))
		return;
	r->end[SL_ZONES - 1]++;
	r->order[last] = (uint16_t)backend;
	r->place[backend] = (uint16_t)last;
	for (unsigned n = SL_OUTSTANDING_MAX; n > batches; n--)
		sl_roster_less(r, backend, n);
}

void sl_roster_remove(struct sl_roster *r, unsigned backend)
{
	if (!sl_roster_up(r, backend))
		return;
	for (unsigned n = 0; n < SL_ZONES; n++) {
		if (r->place[backend] < r->end[n])
			sl_roster_swap_(r, backend, --r->end[n]);
	}
	r->place[backend] = UINT16_MAX;
}
