/* SPDX-License-Identifier: Apache-2.0 */
#include "core/account.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/rand.h"

enum { AMONG = 16 }; /* are compared for one that has most */

static const char *const limit_names[] = {
#define X(name, metric) metric,
	SL_ACCOUNT_LIMITS(X)
#undef X
};

/* --- ranks --- */

/* 0: not ranked. */
static unsigned class_of(const struct sl_account *a, enum sl_account_rank rank)
{
	uint32_t most = a->class[rank].most;

	return most < SL_RANK_FLOOR ? 0 : 31u - (unsigned)__builtin_clz(most);
}

void sl_account_rank(struct sl_accounts *t, struct sl_account *a, enum sl_account_rank rank,
		     uint32_t cnt)
{
	struct sl_rank *r = &t->ranks[rank];
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
	a->class[rank].least = 3u << (new - 2); /* so that nobody goes back and forth at a border */
	a->class[rank].most = UINT32_MAX >> (31 - new);
	sl_list_add_tail(&r->classes[new], link);
	r->filled |= 1u << new;
}

/* Of `classes`, by their bits, the heaviest that has somebody; NULL: none. */
static const struct sl_list *heaviest_class(const struct sl_rank *r, uint32_t classes)
{
	uint32_t filled = r->filled & classes;

	return filled ? &r->classes[31u - (unsigned)__builtin_clz(filled)] : NULL;
}

static struct sl_account *first_of(const struct sl_list *class, enum sl_account_rank rank)
{
	return class ? sl_container_of(class->next, struct sl_account, ranks[rank]) : NULL;
}

struct sl_account *sl_account_heaviest(struct sl_accounts *t, enum sl_account_rank rank)
{
	return first_of(heaviest_class(&t->ranks[rank], UINT32_MAX), rank);
}

uint32_t sl_account_most_frames(const struct sl_accounts *t)
{
	const struct sl_list *class = heaviest_class(&t->ranks[SL_RANK_FRAMES], UINT32_MAX), *l;
	uint32_t most = 0, n = 0;

	if (!class)
		return 0;
	sl_list_for_each (l, class) {
		const struct sl_account *a =
			sl_container_of(l, struct sl_account, ranks[SL_RANK_FRAMES]);

		if (a->cnt[SL_ACCOUNT_FRAMES] > most)
			most = a->cnt[SL_ACCOUNT_FRAMES];
		if (++n == AMONG)
			break;
	}
	return most;
}

struct sl_account *sl_account_lighter(struct sl_accounts *t, enum sl_account_rank rank,
				      const struct sl_account *a)
{
	struct sl_rank *r = &t->ranks[rank];
	unsigned class = class_of(a, rank);
	struct sl_list *next = a->ranks[rank].next;

	if (next != &r->classes[class])
		return sl_container_of(next, struct sl_account, ranks[rank]);
	return first_of(heaviest_class(r, (1u << class) - 1), rank);
}

/* --- the table --- */

static void account_init(struct sl_account *a)
{
	*a = (struct sl_account){0};
	for (unsigned i = 0; i < SL_RANK_CNT; i++) {
		sl_list_init(&a->ranks[i]);
		a->class[i].most = SL_RANK_FLOOR - 1;
	}
	sl_list_init(&a->held);
	sl_list_init(&a->quiet);
	sl_list_init(&a->idle);
}

/* One key for all workers: a backend counts the requests of an address from all of them together. */
static pthread_once_t key_once = PTHREAD_ONCE_INIT;
static uint8_t process_key[16];
static int key_err;

static void draw_key(void)
{
	key_err = sl_rand_bytes(process_key, sizeof(process_key));
}

int sl_accounts_init(struct sl_accounts *t, uint32_t cap, uint64_t *refused, struct sl_refused *who)
{
	uint32_t slots = 64;
	int rc;

	pthread_once(&key_once, draw_key);
	if (key_err)
		return key_err;
	while (slots < 2 * (cap + 1))
		slots *= 2;
	/* One more than can have something: a newcomer always finds an idle one, or this. */
	rc = sl_mempool_init(&t->pool, sizeof(struct sl_account), 64, cap + 1);
	if (rc)
		return rc;
	t->slots = calloc(slots, sizeof(*t->slots));
	t->mask = slots - 1;
	t->key = sl_sipkey_from(process_key);
	t->refused = refused;
	t->who = who;
	sl_list_init(&t->idle);
	for (unsigned i = 0; i < SL_RANK_CNT; i++) {
		for (unsigned k = 0; k < SL_RANK_CLASSES; k++)
			sl_list_init(&t->ranks[i].classes[k]);
	}
	account_init(&t->unproven);
	return t->slots ? 0 : -ENOMEM;
}

void sl_accounts_fini(struct sl_accounts *t)
{
	free(t->slots);
	sl_mempool_fini(&t->pool);
}

static uint64_t hash_of(const struct sl_accounts *t, const struct sl_addr *peer)
{
	uint64_t word = peer->family == 4 ? sl_get_be32(peer->addr) : sl_get_be64(peer->addr);
	uint64_t words[2] = {word, peer->family};
	uint64_t hash = sl_siphash13_words(&t->key, words, 2);

	return hash ? hash : 1;
}

static struct sl_account *at(struct sl_accounts *t, uint32_t slot)
{
	return sl_mempool_at(&t->pool, t->slots[slot] - 1);
}

/* The slot of the account, or the empty one where it would stand. */
static uint32_t find_slot(struct sl_accounts *t, uint64_t hash)
{
	uint32_t i = (uint32_t)hash & t->mask;

	while (t->slots[i] && at(t, i)->hash != hash)
		i = (i + 1) & t->mask;
	return i;
}

/* Deletion by moving back what follows: no tombstones, so probes stay short for ever. */
static void delete_slot(struct sl_accounts *t, uint32_t hole)
{
	for (uint32_t i = (hole + 1) & t->mask; t->slots[i]; i = (i + 1) & t->mask) {
		uint32_t home = (uint32_t)at(t, i)->hash & t->mask;

		if (((i - home) & t->mask) >= ((i - hole) & t->mask)) {
			t->slots[hole] = t->slots[i];
			hole = i;
		}
	}
	t->slots[hole] = 0;
}

static void forget(struct sl_accounts *t, struct sl_account *a)
{
	delete_slot(t, find_slot(t, a->hash));
	sl_list_del(&a->idle);
	sl_mempool_put(&t->pool, a);
}

static struct sl_account *new_account(struct sl_accounts *t, uint64_t hash,
				      const struct sl_addr *peer)
{
	struct sl_account *idle = sl_list_first(&t->idle, struct sl_account, idle);
	struct sl_account *a = sl_mempool_get(&t->pool);

	if (!a && idle) {
		forget(t, idle);
		a = sl_mempool_get(&t->pool);
	}
	if (!a)
		return NULL;
	account_init(a);
	a->hash = hash;
	a->addr = *peer;
	t->slots[find_slot(t, hash)] = sl_mempool_index(&t->pool, a) + 1;
	return a;
}

struct sl_account *sl_account_open(struct sl_accounts *t, const struct sl_addr *peer)
{
	uint64_t hash = hash_of(t, peer);
	uint32_t slot = find_slot(t, hash);
	struct sl_account *a = t->slots[slot] ? at(t, slot) : new_account(t, hash, peer);

	if (!a || !sl_account_admits(t, a, SL_ACCOUNT_CONNECTIONS, 1))
		return NULL;
	sl_list_del(&a->idle);
	a->cnt[SL_ACCOUNT_CONNECTIONS]++;
	return a;
}

void sl_account_close(struct sl_accounts *t, struct sl_account *a, uint64_t now_ns)
{
	if (--a->cnt[SL_ACCOUNT_CONNECTIONS])
		return;
	if (a->requests_ns <= now_ns)
		forget(t, a);
	else
		sl_list_add_tail(&t->idle, &a->idle);
}

/* --- limits --- */

const char *sl_account_text(const struct sl_account *a, char text[SL_ACCOUNT_TEXT])
{
	return sl_refused_text(&a->addr, text);
}

bool sl_account_refuse(struct sl_accounts *t, const struct sl_account *a,
		       enum sl_account_limit what)
{
	char who[SL_ACCOUNT_TEXT];

	t->refused[what]++;
	if (sl_refused_note(t->who, &a->addr, what, sl_now_ns()))
		sl_log_warn("client %s has %u of %s, its limit is %u: more is refused",
			    sl_account_text(a, who), a->cnt[what], limit_names[what],
			    t->limits[what]);
	return false;
}

bool sl_account_may_queue(struct sl_accounts *t, struct sl_account *a)
{
	uint32_t limit = t->limits[SL_ACCOUNT_FRAMES];

	return !limit || a->cnt[SL_ACCOUNT_FRAMES] < limit - limit / 4 ||
	       sl_account_refuse(t, a, SL_ACCOUNT_FRAMES);
}

/* A bucket of one second's requests, as the time when it is full: RFC 2697's idea, in one word. */
bool sl_account_take_request(struct sl_accounts *t, struct sl_account *a, uint64_t now_ns)
{
	uint32_t rate = t->limits[SL_ACCOUNT_REQUESTS];

	if (a->requests_ns < now_ns)
		a->requests_ns = now_ns;
	if (a->requests_ns + SL_NS_PER_SEC / rate > now_ns + SL_NS_PER_SEC) {
		a->cnt[SL_ACCOUNT_REQUESTS] = rate;
		return sl_account_refuse(t, a, SL_ACCOUNT_REQUESTS);
	}
	a->requests_ns += SL_NS_PER_SEC / rate;
	return true;
}
