/* SPDX-License-Identifier: Apache-2.0 */
/* PINGs are counted, not timed: an end that did not run sent none. */
#include <errno.h>
#include "rpc/link.h"

enum { PINGS_MISSED = 3 };

void sl_link_keep_alive(struct sl_link *l, uint64_t dead_after_ns, uint64_t now_ns)
{
	uint64_t silence = now_ns > l->last_rx_ns ? now_ns - l->last_rx_ns : 0;
	struct sl_keepalive *k = &l->alive;

	if (now_ns < k->next_ns)
		return;
	if (silence < k->silence_ns) {
		k->pings = 0;
		k->next_ns = l->last_rx_ns + k->silence_ns;
		return;
	}
	if (l->last_rx_ns > k->pinged_ns)
		k->pings = 0;
	if (k->pings >= PINGS_MISSED && silence >= dead_after_ns && !l->error)
		l->error = -ETIMEDOUT;
	l->ping_due = true;
	k->pings++;
	k->pinged_ns = now_ns;
	k->next_ns = now_ns + k->interval_ns;
}
