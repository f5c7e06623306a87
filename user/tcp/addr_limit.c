/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Connections per address (IPv4) or network (IPv6 /64): an open-addressing table of counters by
 * keyed hash, sized so that it is never more than half full. Two addresses of equal 64-bit hash
 * would share a counter, which no peer can arrange without the key.
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
	uint64_t word = path->family == 4 ? sl_get_be32(path->remote) : sl_get_be64(path->remote);
	uint64_t words[2] = {word, path->family};
	uint64_t hash = sl_siphash13_words(&t->flows.key, words, 2);

	return hash ? hash : 1;
}

/* The address's slot, or the empty one where it would stand. */
static uint32_t find_slot(const struct sl_tcp *t, uint64_t hash)
{
	uint32_t i = (uint32_t)hash & t->addr_mask;

	while (t->addrs[i].hash && t->addrs[i].hash != hash)
		i = (i + 1) & t->addr_mask;
	return i;
}

bool sl_tcp_addr_inc(struct sl_tcp *t, const struct sl_net_path *path)
{
	struct sl_tcp_addr_slot *s;
	uint64_t hash;

	if (!t->addrs)
		return true;
	hash = addr_hash(t, path);
	s = &t->addrs[find_slot(t, hash)];
	if (s->hash && s->cnt >= t->cfg.max_conns_per_addr)
		return false;
	s->hash = hash;
	s->cnt++;
	return true;
}

/* Deletion by moving back what follows: no tombstones, so probes stay short for ever. */
static void delete_slot(struct sl_tcp *t, uint32_t hole)
{
	for (uint32_t i = (hole + 1) & t->addr_mask; t->addrs[i].hash; i = (i + 1) & t->addr_mask) {
		uint32_t home = (uint32_t)t->addrs[i].hash & t->addr_mask;

		if (((i - home) & t->addr_mask) >= ((i - hole) & t->addr_mask)) {
			t->addrs[hole] = t->addrs[i];
			hole = i;
		}
	}
	t->addrs[hole] = (struct sl_tcp_addr_slot){0};
}

void sl_tcp_addr_dec(struct sl_tcp *t, const struct sl_net_path *path)
{
	uint32_t i;

	if (!t->addrs)
		return;
	i = find_slot(t, addr_hash(t, path));
	if (t->addrs[i].hash && --t->addrs[i].cnt == 0)
		delete_slot(t, i);
}
