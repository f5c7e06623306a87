/* SPDX-License-Identifier: Apache-2.0 */
/* Multiply-shift hashing with a secret factor. */
#include "tcp/internal.h"

struct sl_tcp_share *sl_tcp_share_of(struct sl_tcp *t, const struct sl_net_path *path)
{
	uint64_t hash = (sl_tcp_addr_word(path) + 1) * t->share_key;
	struct sl_tcp_share *s = &t->shares[hash >> (64 - SL_TCP_SHARE_BITS)];

	if (s->turn != t->turn)
		*s = (struct sl_tcp_share){.turn = t->turn};
	return s;
}
