/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Connections per address (IPv4) or network (IPv6 /64), counted from the end of the handshake,
 * because a SYN does not prove its source. Open addressing with a keyed hash, at most half full.
 * Equal 64-bit hashes share a counter, which no peer can cause without the key.
 */
#include <errno.h>
#include <stdlib.h>
#include "tcp/internal.h"

struct sl_tcp_addr_slot {
	uint64_t hash; /* 0: empty */
	uint32_t cnt;
	uint32_t pad;
};

int sl_tcp_addr_init(struct sl_tcp *t)
{
	uint32_t slots = 64;

	if (!t->cfg.max_conns_per_addr)
		return 0;
	while (slots < 2 * t->cfg.max_conns)
		slots *= 2;
	t->addrs = calloc(slots, sizeof(*t->addrs));
	if (!t->addrs)
		return -ENOMEM;
	t->addr_mask = slots - 1;
	return 0;
}

void sl_tcp_addr_fini(struct sl_tcp *t)
{
	free(t->addrs);
}

static uint64_t addr_hash(const struct sl_tcp *t, const struct sl_net_path *path)
{
	uint64_t words[2] = {sl_tcp_addr_word(path), path->family};
	uint64_t hash = sl_siphash13_words(&t->flows.key, words, 2);

	return hash ? hash : 1;
}

static uint32_t find_slot(const struct sl_tcp *t, uint64_t hash)
{
	uint32_t i = (uint32_t)hash & t->addr_mask;

	while (t->addrs[i].hash && t->addrs[i].hash != hash)
		i = (i + 1) & t->addr_mask;
	return i;
}

static bool is_full(const struct sl_tcp *t, const struct sl_tcp_addr_slot *s,
		    const struct sl_net_path *path, uint16_t listener)
{
	struct sl_addr remote;

	if (!s->hash || s->cnt < t->cfg.max_conns_per_addr)
		return false;
	remote = sl_net_remote(path, 0);
	return !t->ops.stands_for_many || !t->ops.stands_for_many(t->app, listener, &remote);
}

bool sl_tcp_addr_full(const struct sl_tcp *t, const struct sl_net_path *path, uint16_t listener)
{
	return t->addrs && is_full(t, &t->addrs[find_slot(t, addr_hash(t, path))], path, listener);
}

bool sl_tcp_addr_inc(struct sl_tcp *t, const struct sl_net_path *path, uint16_t listener)
{
	struct sl_tcp_addr_slot *s;
	uint64_t hash;

	if (!t->addrs)
		return true;
	hash = addr_hash(t, path);
	s = &t->addrs[find_slot(t, hash)];
	if (is_full(t, s, path, listener))
		return false;
	s->hash = hash;
	s->cnt++;
	return true;
}

void sl_tcp_addr_dec(struct sl_tcp *t, const struct sl_net_path *path)
{
	uint32_t hole;

	if (!t->addrs)
		return;
	hole = find_slot(t, addr_hash(t, path));
	if (!t->addrs[hole].hash || --t->addrs[hole].cnt)
		return;
	/* Deletion without tombstones: later entries move back. */
	for (uint32_t i = (hole + 1) & t->addr_mask; t->addrs[i].hash; i = (i + 1) & t->addr_mask) {
		uint32_t home = (uint32_t)t->addrs[i].hash & t->addr_mask;

		if (((i - home) & t->addr_mask) >= ((i - hole) & t->addr_mask)) {
			t->addrs[hole] = t->addrs[i];
			hole = i;
		}
	}
	t->addrs[hole] = (struct sl_tcp_addr_slot){0};
}
