/* SPDX-License-Identifier: Apache-2.0 */
#include "core/addr_quota.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/rand.h"

enum { COMPARED_MAX = 16 };

static const char *const limit_names[] = {
#define X(name, metric) metric,
	SL_QUOTA_LIMITS(X)
#undef X
};

static unsigned class_of(const struct sl_addr_quota *a, enum sl_quota_resource rank)
{
	uint32_t most = a->class[rank].most;

	return most < SL_RANK_FLOOR ? 0 : 31u - (unsigned)__builtin_clz(most);
}

void sl_addr_quota_reclassify(struct sl_addr_quotas *t, struct sl_addr_quota *a,
			      enum sl_quota_resource rank, uint32_t cnt)
{
	struct sl_addr_quota_rank *r = &t->ranks[rank];
	struct sl_list *link = &a->ranks[rank];
	unsigned old = class_of(a, rank), new;

	sl_list_del(link);
	if (old && sl_list_empty(&r->classes[old]))
		r->filled &= ~(1u << old);
	a->class[rank].least = 0;
	a->class[rank].most = SL_RANK_FLOOR - 1;
	if (cnt < SL_RANK_FLOOR)
		return;
	new = 31u - (unsigned)__builtin_clz(cnt);
	a->class[rank].least = 3u << (new - 2); /* hysteresis */
	a->class[rank].most = UINT32_MAX >> (31 - new);
	sl_list_add_tail(&r->classes[new], link);
	r->filled |= 1u << new;
}

static const struct sl_list *heaviest_class(const struct sl_addr_quota_rank *r, uint32_t classes)
{
	uint32_t filled = r->filled & classes;

	return filled ? &r->classes[31u - (unsigned)__builtin_clz(filled)] : NULL;
}

static struct sl_addr_quota *first_of(const struct sl_list *class, enum sl_quota_resource rank)
{
	return class ? sl_container_of(class->next, struct sl_addr_quota, ranks[rank]) : NULL;
}

struct sl_addr_quota *sl_addr_quota_heaviest(struct sl_addr_quotas *t, enum sl_quota_resource rank)
{
	return first_of(heaviest_class(&t->ranks[rank], UINT32_MAX), rank);
}

uint32_t sl_addr_quota_most_frames(const struct sl_addr_quotas *t)
{
	const struct sl_list *class = heaviest_class(&t->ranks[SL_RANK_FRAMES], UINT32_MAX), *l;
	uint32_t most = 0, n = 0;

	if (!class)
		return 0;
	sl_list_for_each (l, class) {
		const struct sl_addr_quota *a =
			sl_container_of(l, struct sl_addr_quota, ranks[SL_RANK_FRAMES]);

		if (a->cnt[SL_QUOTA_FRAMES] > most)
			most = a->cnt[SL_QUOTA_FRAMES];
		if (++n == COMPARED_MAX)
			break;
	}
	return most;
}

struct sl_addr_quota *sl_addr_quota_lighter(struct sl_addr_quotas *t, enum sl_quota_resource rank,
					    const struct sl_addr_quota *a)
{
	struct sl_addr_quota_rank *r = &t->ranks[rank];
	unsigned class = class_of(a, rank);
	struct sl_list *next = a->ranks[rank].next;

	if (next != &r->classes[class])
		return sl_container_of(next, struct sl_addr_quota, ranks[rank]);
	return first_of(heaviest_class(r, (1u << class) - 1), rank);
}

void sl_addr_quota_init(struct sl_addr_quota *a)
{
	*a = (struct sl_addr_quota){0};
	for (unsigned i = 0; i < SL_RANK_CNT; i++) {
		sl_list_init(&a->ranks[i]);
		a->class[i].most = SL_RANK_FLOOR - 1;
	}
	sl_list_init(&a->waiting);
	sl_list_init(&a->quiet);
	sl_list_init(&a->idle);
}

static pthread_once_t key_once = PTHREAD_ONCE_INIT;
static uint8_t process_key[16];
static int key_err;

static void draw_key(void)
{
	key_err = sl_rand_bytes(process_key, sizeof(process_key));
}

int sl_addr_quotas_init(struct sl_addr_quotas *t, uint32_t cap, uint64_t *refused,
			struct sl_top_refused *top)
{
	uint32_t slots = 64;
	int rc;

	pthread_once(&key_once, draw_key);
	if (key_err)
		return key_err;
	while (slots < 2 * (cap + 1))
		slots *= 2;
	rc = sl_mempool_init(&t->pool, sizeof(struct sl_addr_quota), 64, cap + 1);
	if (rc)
		return rc;
	t->slots = calloc(slots, sizeof(*t->slots));
	t->mask = slots - 1;
	t->key = sl_sipkey_from(process_key);
	t->refused = refused;
	t->top = top;
	sl_list_init(&t->idle);
	for (unsigned i = 0; i < SL_RANK_CNT; i++) {
		for (unsigned k = 0; k < SL_RANK_CLASSES; k++)
			sl_list_init(&t->ranks[i].classes[k]);
	}
	sl_addr_quota_init(&t->unproven);
	return t->slots ? 0 : -ENOMEM;
}

void sl_addr_quotas_fini(struct sl_addr_quotas *t)
{
	free(t->slots);
	sl_mempool_fini(&t->pool);
}

static uint64_t hash_of(const struct sl_addr_quotas *t, const struct sl_addr *peer)
{
	uint64_t word = peer->family == 4 ? sl_get_be32(peer->addr) : sl_get_be64(peer->addr);
	uint64_t words[2] = {word, peer->family};
	uint64_t hash = sl_siphash13_words(&t->key, words, 2);

	return hash ? hash : 1;
}

static struct sl_addr_quota *quota_at(struct sl_addr_quotas *t, uint32_t slot)
{
	return sl_mempool_at(&t->pool, t->slots[slot] - 1);
}

static uint32_t find_slot(struct sl_addr_quotas *t, uint64_t hash)
{
	uint32_t i = (uint32_t)hash & t->mask;

	while (t->slots[i] && quota_at(t, i)->hash != hash)
		i = (i + 1) & t->mask;
	return i;
}

static void delete_slot(struct sl_addr_quotas *t, uint32_t hole)
{
	for (uint32_t i = (hole + 1) & t->mask; t->slots[i]; i = (i + 1) & t->mask) {
		uint32_t home = (uint32_t)quota_at(t, i)->hash & t->mask;

		if (((i - home) & t->mask) >= ((i - hole) & t->mask)) {
			t->slots[hole] = t->slots[i];
			hole = i;
		}
	}
	t->slots[hole] = 0;
}

static void drop_quota(struct sl_addr_quotas *t, struct sl_addr_quota *a)
{
	delete_slot(t, find_slot(t, a->hash));
	sl_list_del(&a->idle);
	sl_mempool_put(&t->pool, a);
}

static struct sl_addr_quota *new_quota(struct sl_addr_quotas *t, uint64_t hash,
				       const struct sl_addr *peer)
{
	struct sl_addr_quota *idle = sl_list_first(&t->idle, struct sl_addr_quota, idle);
	struct sl_addr_quota *a = sl_mempool_get(&t->pool);

	if (!a && idle) {
		drop_quota(t, idle);
		a = sl_mempool_get(&t->pool);
	}
	if (!a)
		return NULL;
	sl_addr_quota_init(a);
	a->hash = hash;
	a->addr = *peer;
	t->slots[find_slot(t, hash)] = sl_mempool_index(&t->pool, a) + 1;
	return a;
}

struct sl_addr_quota *sl_addr_quota_open(struct sl_addr_quotas *t, const struct sl_addr *peer)
{
	uint64_t hash = hash_of(t, peer);
	uint32_t slot = find_slot(t, hash);
	struct sl_addr_quota *a = t->slots[slot] ? quota_at(t, slot) : new_quota(t, hash, peer);

	if (!a || !sl_addr_quota_admits(t, a, SL_QUOTA_CONNECTIONS, 1))
		return NULL;
	sl_list_del(&a->idle);
	a->cnt[SL_QUOTA_CONNECTIONS]++;
	return a;
}

void sl_addr_quota_close(struct sl_addr_quotas *t, struct sl_addr_quota *a, uint64_t now_ns)
{
	if (--a->cnt[SL_QUOTA_CONNECTIONS])
		return;
	if (a->requests_ns <= now_ns)
		drop_quota(t, a);
	else
		sl_list_add_tail(&t->idle, &a->idle);
}

const char *sl_addr_quota_text(const struct sl_addr_quota *a, char text[SL_QUOTA_TEXT])
{
	return sl_top_refused_text(&a->addr, text);
}

bool sl_addr_quota_refuse(struct sl_addr_quotas *t, const struct sl_addr_quota *a,
			  enum sl_addr_quota_limit what)
{
	char addr_text[SL_QUOTA_TEXT];

	t->refused[what]++;
	if (sl_top_refused_add(t->top, &a->addr, what, sl_now_ns()))
		sl_log_warn("client %s: %u of %s in use, limit %u; more is refused",
			    sl_addr_quota_text(a, addr_text), a->cnt[what], limit_names[what],
			    t->limits[what]);
	return false;
}

bool sl_addr_quota_may_queue(struct sl_addr_quotas *t, struct sl_addr_quota *a)
{
	uint32_t limit = t->limits[SL_QUOTA_FRAMES];

	return !limit || a->cnt[SL_QUOTA_FRAMES] < limit - limit / 4 ||
	       sl_addr_quota_refuse(t, a, SL_QUOTA_FRAMES);
}

bool sl_addr_quota_take_request(struct sl_addr_quotas *t, struct sl_addr_quota *a, uint64_t now_ns)
{
	uint32_t rate = t->limits[SL_QUOTA_REQUESTS];

	if (a->requests_ns < now_ns)
		a->requests_ns = now_ns;
	if (a->requests_ns + SL_NS_PER_SEC / rate > now_ns + SL_NS_PER_SEC) {
		a->cnt[SL_QUOTA_REQUESTS] = rate;
		return sl_addr_quota_refuse(t, a, SL_QUOTA_REQUESTS);
	}
	a->requests_ns += SL_NS_PER_SEC / rate;
	return true;
}
