/* SPDX-License-Identifier: Apache-2.0 */
#include "core/refused.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"

enum { TRIES = 100 };

/* What is one address to the limits. */
static struct sl_addr network_of(const struct sl_addr *addr)
{
	struct sl_addr net = {.family = addr->family};

	memcpy(net.addr, addr->addr, net.family == 4 ? 4 : 8);
	return net;
}

const char *sl_refused_text(const struct sl_addr *addr, char text[SL_ACCOUNT_TEXT])
{
	struct sl_addr net = network_of(addr);
	size_t n;

	if (!addr->family) {
		snprintf(text, SL_ACCOUNT_TEXT, "datagrams");
		return text;
	}
	sl_addr_text(&net, text);
	n = strlen(text);
	if (net.family != 4)
		snprintf(text + n, SL_ACCOUNT_TEXT - n, "/64");
	return text;
}

/* Its place, which may be new. */
static struct sl_refused_one *place_of(struct sl_refused *r, const struct sl_addr *net)
{
	struct sl_refused_one *least = r->list;

	for (unsigned i = 0; i < SL_REFUSED_LISTED; i++) {
		struct sl_refused_one *one = &r->list[i];

		if (one->rank && sl_addr_equal(&one->addr, net))
			return one;
		if (one->rank < least->rank)
			least = one;
	}
	*least = (struct sl_refused_one){.rank = least->rank, .addr = *net};
	return least;
}

static bool may_tell(struct sl_refused *r, struct sl_refused_one *one, uint64_t now_ns)
{
	const uint64_t span = SL_REFUSED_LINES_S * SL_NS_PER_SEC;

	if (now_ns < one->told_ns)
		return false;
	if (now_ns - r->lines_ns >= span) {
		r->lines_ns = now_ns;
		r->lines = 0;
	}
	if (r->lines == SL_REFUSED_LINES)
		return false;
	r->lines++;
	one->told_ns = now_ns + span;
	return true;
}

bool sl_refused_note(struct sl_refused *r, const struct sl_addr *addr, enum sl_account_limit what,
		     uint64_t now_ns)
{
	struct sl_addr net = network_of(addr);
	struct sl_refused_one *one;
	bool tell;

	__atomic_store_n(&r->version, r->version + 1, __ATOMIC_RELAXED);
	__atomic_thread_fence(__ATOMIC_RELEASE);
	one = place_of(r, &net);
	one->rank++;
	one->cnt[what]++;
	tell = may_tell(r, one, now_ns);
	__atomic_store_n(&r->version, r->version + 1, __ATOMIC_RELEASE);
	return tell;
}

static int by_rank(const void *a, const void *b)
{
	const struct sl_refused_one *x = a, *y = b;

	return x->rank < y->rank ? 1 : x->rank > y->rank ? -1 : 0;
}

bool sl_refused_read(const struct sl_refused *r, struct sl_refused *to)
{
	for (unsigned i = 0; i < TRIES; i++) {
		uint64_t before = __atomic_load_n(&r->version, __ATOMIC_ACQUIRE);

		*to = *r;
		__atomic_thread_fence(__ATOMIC_ACQUIRE);
		if (!(before & 1) && before == __atomic_load_n(&r->version, __ATOMIC_RELAXED)) {
			qsort(to->list, SL_REFUSED_LISTED, sizeof(to->list[0]), by_rank);
			return true;
		}
	}
	*to = (struct sl_refused){0};
	return false;
}
