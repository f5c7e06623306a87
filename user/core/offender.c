/* SPDX-License-Identifier: Apache-2.0 */
#include "core/offender.h"

#include "base/bytes.h"
#include "core/client.h"
#include "core/quota_table.h"

enum { WORDS = 2 };

/* Returns true if many clients may have the address: an HTTP proxy in front, or link-local. */
static bool is_shared(const struct sl_client *cl, const struct sl_addr *a)
{
	const struct sl_config *cfg = cl->core->cfg;

	if (a->family == 6 && a->addr[0] == 0xfe && (a->addr[1] & 0xc0) == 0x80)
		return true;
	return cl->listener < cfg->listener_cnt &&
	       cfg->listeners[cl->listener].forwarded == SL_FORWARDED_APPEND;
}

void sl_offender_count(const struct sl_client *cl, const struct sl_addr *peer)
{
	struct sl_core *c = cl->core;
	const struct sl_cfg_penalty *p = &c->cfg->penalty;
	const struct sl_addr *a = peer ? peer : &sl_client_quota(cl)->addr;
	uint64_t words[WORDS], token_ns;
	struct sl_quota_bucket *b;

	/* Family 0: datagrams, whose sources are unproven. */
	if (!p->after || !a->family || cl->kernel || cl->proxied || is_shared(cl, a))
		return;
	words[0] = a->family == 4 ? sl_get_be32(a->addr) : sl_get_be64(a->addr);
	words[1] = a->family;
	token_ns = p->within_ns / p->after;
	b = sl_quota_find(p->table, sl_siphash13_words(&p->table->key, words, WORDS), c->now_ns);
	if (!sl_quota_take(b, token_ns, token_ns, token_ns * p->after, c->now_ns))
		return;
	if (sl_ring_put_burst(c->offenders, words, WORDS) == WORDS)
		sl_quota_return(b, token_ns * p->after); /* the next report needs as many */
}

bool sl_offender_take(struct sl_ring *r, struct sl_addr *net)
{
	uint64_t words[WORDS];

	if (sl_ring_get_burst(r, words, WORDS) != WORDS)
		return false;
	*net = (struct sl_addr){.family = (uint8_t)words[1]};
	if (net->family == 4)
		sl_put_be32(net->addr, (uint32_t)words[0]);
	else
		sl_put_be64(net->addr, words[0]);
	return true;
}
