/* SPDX-License-Identifier: Apache-2.0 */
#include "rpc/ud/node.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include "base/fnv.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct ud_node *nodes[UD_NODES]; /* by hash */
static struct sl_list idle = {&idle, &idle};
static unsigned cnt;

static struct ud_node **bucket_of(const struct ud_local *l, const uint8_t gid[16], uint8_t tos)
{
	const uint8_t rest[] = {l->port, l->gid_index, tos};

	return &nodes[sl_fnv32(sl_fnv32(SL_FNV32, gid, 16), rest, sizeof(rest)) % UD_NODES];
}

static struct ud_node *find(struct ud_node *first, const struct ud_local *l, const uint8_t gid[16],
			    uint8_t tos)
{
	struct ud_node *n = first;

	while (n && (!ud_local_same(&n->local, l) || memcmp(n->gid, gid, 16) != 0 || n->tos != tos))
		n = n->next;
	return n;
}

/* Of those that nobody has, the one that nobody has had for longest. False: there is none. */
static bool forget_one(void)
{
	struct ud_node *n = sl_list_first(&idle, struct ud_node, idle), **at;

	if (!n)
		return false;
	at = bucket_of(&n->local, n->gid, n->tos);
	while (*at != n)
		at = &(*at)->next;
	*at = n->next;
	sl_list_del(&n->idle);
	ud_device->way_free(n->way);
	free(n);
	cnt--;
	return true;
}

static struct ud_node *add(const struct ud_local *l, const uint8_t gid[16], uint8_t tos)
{
	struct ud_node **bucket, *n;

	if (cnt == UD_NODES && !forget_one())
		return NULL;
	n = malloc(sizeof(*n));
	if (!n)
		return NULL;
	*n = (struct ud_node){.local = *l, .tos = tos, .way = ud_device->way_new(l, gid, tos)};
	if (!n->way) {
		free(n);
		return NULL;
	}
	memcpy(n->gid, gid, 16);
	sl_list_init(&n->idle);
	bucket = bucket_of(l, gid, tos);
	n->next = *bucket;
	*bucket = n;
	cnt++;
	return n;
}

struct ud_node *ud_node_get(const struct ud_local *l, const uint8_t gid[16], uint8_t tos)
{
	struct ud_node *n;

	pthread_mutex_lock(&lock);
	n = find(*bucket_of(l, gid, tos), l, gid, tos);
	if (!n)
		n = add(l, gid, tos);
	if (n && !n->refs++)
		sl_list_del(&n->idle);
	pthread_mutex_unlock(&lock);
	return n;
}

void ud_node_put(struct ud_node *n)
{
	pthread_mutex_lock(&lock);
	if (!--n->refs)
		sl_list_add_tail(&idle, &n->idle);
	pthread_mutex_unlock(&lock);
}
