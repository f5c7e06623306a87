/* SPDX-License-Identifier: Apache-2.0 */
#include "rpc/limit.h"

enum { LOOKS = 20 };

void sl_limit_init(struct sl_limit *l, uint32_t least, uint32_t max)
{
	*l = (struct sl_limit){.bytes = least, .least = least, .spare = UINT32_MAX};
	l->max = max < least ? least : max;
}

static void start_over(struct sl_limit *l)
{
	l->spare = UINT32_MAX;
	l->looks = 0;
}

void sl_limit_look(struct sl_limit *l, uint32_t left)
{
	if (!left) {
		l->bytes += l->bytes / 4;
		l->bytes = l->bytes < l->max ? l->bytes : l->max;
		start_over(l);
		return;
	}
	l->spare = left < l->spare ? left : l->spare;
	if (++l->looks < LOOKS)
		return;
	/* Only half: the slack may be momentary. */
	l->bytes -= l->spare / 2 < l->bytes ? l->spare / 2 : l->bytes;
	l->bytes = l->bytes > l->least ? l->bytes : l->least;
	start_over(l);
}
