/* SPDX-License-Identifier: Apache-2.0 */
#include "core/top_refused.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"

enum { TRIES = 100 };

static struct sl_addr network_of(const struct sl_addr *addr)
{
	struct sl_addr net = {.family = addr->family};

	memcpy(net.addr, addr->addr, net.family == 4 ? 4 : 8);
	return net;
}

const char *sl_top_refused_text(const struct sl_addr *addr, char text[SL_QUOTA_TEXT])
{
	struct sl_addr net = network_of(addr);
	size_t n;

	if (!addr->family) {
		snprintf(text, SL_QUOTA_TEXT, "datagrams");
		return text;
	}
	sl_addr_text(&net, text);
	n = strlen(text);
	if (net.family != 4)
		snprintf(text + n, SL_QUOTA_TEXT - n, "/64");
	return text;
}

static struct sl_top_refused_entry *entry_of(struct sl_top_refused *r, const struct sl_addr *net)
{
	struct sl_top_refused_entry *least = r->list;

	for (unsigned i = 0; i < SL_TOP_REFUSED_CNT; i++) {
		struct sl_top_refused_entry *one = &r->list[i];

		if (one->rank && sl_addr_equal(&one->addr, net))
			return one;
		if (one->rank < least->rank)
			least = one;
	}
	*least = (struct sl_top_refused_entry){.rank = least->rank, .addr = *net};
	return least;
}

static bool may_log(struct sl_top_refused *r, struct sl_top_refused_entry *one, uint64_t now_ns)
{
	const uint64_t span = SL_TOP_REFUSED_LINES_S * SL_NS_PER_SEC;

	if (now_ns < one->logged_ns)
		return false;
	if (now_ns - r->lines_ns >= span) {
		r->lines_ns = now_ns;
		r->lines = 0;
	}
	if (r->lines == SL_TOP_REFUSED_LINES)
		return false;
	r->lines++;
	one->logged_ns = now_ns + span;
	return true;
}

bool sl_top_refused_add(struct sl_top_refused *r, const struct sl_addr *addr,
			enum sl_addr_quota_limit what, uint64_t now_ns)
{
	struct sl_addr net = network_of(addr);
	struct sl_top_refused_entry *one;
	bool log;

	__atomic_store_n(&r->version, r->version + 1, __ATOMIC_RELAXED);
	__atomic_thread_fence(__ATOMIC_RELEASE);
	one = entry_of(r, &net);
	one->rank++;
	one->cnt[what]++;
	log = may_log(r, one, now_ns);
	__atomic_store_n(&r->version, r->version + 1, __ATOMIC_RELEASE);
	return log;
}

static int by_rank(const void *a, const void *b)
{
	const struct sl_top_refused_entry *x = a, *y = b;

	return x->rank < y->rank ? 1 : x->rank > y->rank ? -1 : 0;
}

bool sl_top_refused_read(const struct sl_top_refused *r, struct sl_top_refused *to)
{
	for (unsigned i = 0; i < TRIES; i++) {
		uint64_t before = __atomic_load_n(&r->version, __ATOMIC_ACQUIRE);

		*to = *r;
		__atomic_thread_fence(__ATOMIC_ACQUIRE);
		if (!(before & 1) && before == __atomic_load_n(&r->version, __ATOMIC_RELAXED)) {
			qsort(to->list, SL_TOP_REFUSED_CNT, sizeof(to->list[0]), by_rank);
			return true;
		}
	}
	*to = (struct sl_top_refused){0};
	return false;
}
