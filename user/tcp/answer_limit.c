/* SPDX-License-Identifier: Apache-2.0 */
#include "tcp/internal.h"

enum {
	/* units of 17 ms; 16 bits wrap after 18 minutes */
	CHALLENGE_SHIFT = 24,
	CHALLENGE_GAP = 30, /* half a second, as Linux */
	RSTS_PER_SEC = 500, /* plus a random number below it */
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
