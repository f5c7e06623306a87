/* SPDX-License-Identifier: Apache-2.0 */
#include "batch/hot_keys.h"

static uint32_t recent_cnt(const struct sl_hot_keys *h, const struct sl_hot_key *k)
{
	unsigned halved = (uint16_t)(h->epoch - k->epoch);

	return halved < 32 ? k->cnt >> halved : 0;
}

static uint16_t tag_of(uint64_t key)
{
	return (uint16_t)(key >> 48);
}

void sl_hot_keys_add(struct sl_hot_keys *h, uint64_t key, uint32_t backends)
{
	struct sl_hot_key *set = h->at[key % SL_HOT_KEYS_SETS], *rarest = set;
	uint32_t cnt = 0;

	if (h->total >= SL_HOT_KEYS_WINDOW * backends) {
		h->total /= 2;
		h->epoch++;
	}
	h->total++;
	for (unsigned i = 0; i < SL_HOT_KEYS_WAYS; i++) {
		if (set[i].cnt && set[i].tag == tag_of(key)) {
			rarest = &set[i];
			cnt = recent_cnt(h, rarest);
			break;
		}
		if (recent_cnt(h, &set[i]) < recent_cnt(h, rarest))
			rarest = &set[i];
	}
	*rarest = (struct sl_hot_key){.cnt = cnt + 1, .tag = tag_of(key), .epoch = h->epoch};
}

uint32_t sl_hot_keys_cnt(const struct sl_hot_keys *h, uint64_t key)
{
	const struct sl_hot_key *set = h->at[key % SL_HOT_KEYS_SETS];

	for (unsigned i = 0; i < SL_HOT_KEYS_WAYS; i++) {
		if (set[i].cnt && set[i].tag == tag_of(key))
			return recent_cnt(h, &set[i]);
	}
	return 0;
}
