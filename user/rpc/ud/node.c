/* SPDX-License-Identifier: Apache-2.0 */
#include "rpc/ud/node.h"

#include <pthread.h>
#include <string.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct ud_node nodes[UD_NODES];
static uint64_t turn;

static bool is_at(const struct ud_node *n, const struct ud_local *l, const uint8_t gid[16])
{
	return n->way && ud_local_same(&n->local, l) && !memcmp(n->gid, gid, 16);
}

/* The one of that place, or one that nobody uses, the longest. */
static struct ud_node *place_of(const struct ud_local *l, const uint8_t gid[16])
{
	struct ud_node *oldest = NULL;

	for (unsigned i = 0; i < UD_NODES; i++) {
		struct ud_node *n = &nodes[i];

		if (is_at(n, l, gid))
			return n;
		if (!n->refs && (!oldest || n->used < oldest->used))
			oldest = n;
	}
	return oldest;
}

struct ud_node *ud_node_get(const struct ud_local *l, const uint8_t gid[16])
{
	struct ud_node *n;

	pthread_mutex_lock(&lock);
	n = place_of(l, gid);
	if (n && !is_at(n, l, gid)) {
		if (n->way)
			ud_device->way_free(n->way);
		*n = (struct ud_node){.local = *l, .way = ud_device->way_new(l, gid)};
		memcpy(n->gid, gid, 16);
	}
	if (n && n->way) {
		n->refs++;
		n->used = ++turn;
	} else {
		n = NULL;
	}
	pthread_mutex_unlock(&lock);
	return n;
}

void ud_node_put(struct ud_node *n)
{
	pthread_mutex_lock(&lock);
	n->refs--;
	pthread_mutex_unlock(&lock);
}
