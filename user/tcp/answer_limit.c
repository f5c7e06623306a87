/* SPDX-License-Identifier: Apache-2.0 */
/* How often strangers are answered, so that nobody is hit or read out through us. */
#include "tcp/internal.h"

enum {
	CHALLENGE_SHIFT = 24, /* of nanoseconds: 17 ms, so that 16 bits lap in 18 minutes */
	CHALLENGE_GAP = 30,   /* in these: half a second, as Linux's tcp_invalid_ratelimit */
	RSTS_PER_SEC = 500,   /* and as many again at random */
};

static uint16_t challenge_clock(const struct sl_tcp *t)
{
	return (uint16_t)(now_ns(t) >> CHALLENGE_SHIFT);
}

uint16_t sl_tcp_never_challenged(const struct sl_tcp *t)
{
	return (uint16_t)(challenge_clock(t) - CHALLENGE_GAP);
}

bool sl_tcp_may_challenge(const struct sl_tcp *t, uint16_t *at)
{
	uint16_t now = challenge_clock(t);

	if ((uint16_t)(now - *at) < CHALLENGE_GAP)
		return false;
	*at = now;
	return true;
}

/*
 * So many per second and address, not for all together: who forges a victim's segments must not learn
 * from the resets that he gets himself whether the victim's were answered, which says what
 * connections it has. Counters are found by a hash that is another one each second: two addresses
 * that share one do so for that long, and how many it lets through is drawn anew.
 */
static uint16_t *counter_of(struct sl_tcp *t, const struct sl_net_path *path)
{
	uint64_t words[3] = {sl_tcp_addr_word(path), path->family, t->rsts.second};

	return &t->rsts.cnt[sl_siphash13_words(&t->flows.key, words, 3) % SL_TCP_RST_COUNTERS];
}

bool sl_tcp_may_rst(struct sl_tcp *t, const struct sl_net_path *path)
{
	uint64_t second = now_ns(t) / SL_NS_PER_SEC;
	uint16_t *cnt;

	if (second != t->rsts.second) {
		t->rsts = (struct sl_tcp_rst_budget){.second = second};
		t->rsts.each = RSTS_PER_SEC + (uint16_t)sl_prng_below(&t->prng, RSTS_PER_SEC);
	}
	cnt = counter_of(t, path);
	if (*cnt >= t->rsts.each)
		return false;
	++*cnt;
	return true;
}
