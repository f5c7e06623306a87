/* SPDX-License-Identifier: Apache-2.0 */
#include "rpc/ud/node.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include "base/clock.h"
#include "base/cpu.h"
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

/* By that way, which is the node's from now on, if there is room for it. */
static struct ud_node *add(const struct ud_local *l, const uint8_t gid[16], uint8_t tos, void *way)
{
	struct ud_node **bucket, *n;

	if (cnt == UD_NODES && !forget_one())
		return NULL;
	n = malloc(sizeof(*n));
	if (!n)
		return NULL;
	*n = (struct ud_node){.local = *l, .tos = tos, .way = way};
	memcpy(n->gid, gid, 16);
	sl_list_init(&n->idle);
	bucket = bucket_of(l, gid, tos);
	n->next = *bucket;
	*bucket = n;
	cnt++;
	return n;
}

/* With the lock, as all of the above. */
static struct ud_node *hold(const struct ud_local *l, const uint8_t gid[16], uint8_t tos)
{
	struct ud_node *n = find(*bucket_of(l, gid, tos), l, gid, tos);

	if (n && !n->refs++)
		sl_list_del(&n->idle);
	return n;
}

struct ud_node *ud_node_get(const struct ud_local *l, const uint8_t gid[16], uint8_t tos)
{
	struct ud_node *n;
	bool may_add;
	void *way;

	pthread_mutex_lock(&lock);
	n = hold(l, gid, tos);
	may_add = !n && (cnt < UD_NODES || !sl_list_empty(&idle));
	pthread_mutex_unlock(&lock);
	/* Others go on meanwhile, and may make the same one. */
	way = may_add ? ud_device->way_new(l, gid, tos) : NULL;
	if (!way)
		return n;
	pthread_mutex_lock(&lock);
	n = hold(l, gid, tos);
	if (!n && add(l, gid, tos, way)) {
		n = hold(l, gid, tos);
		way = NULL;
	}
	pthread_mutex_unlock(&lock);
	if (way)
		ud_device->way_free(way);
	return n;
}

/* --- for those who do not wait --- */

/* One at a time, of a thread that ends with it. */
static struct errand {
	struct ud_local local;
	uint8_t gid[16], tos;
} errand;
static bool under_way;
static pid_t whose; /* the thread's process */
static pthread_cond_t back = PTHREAD_COND_INITIALIZER;

static void *run_errand(void *unused)
{
	struct ud_node *n = ud_node_get(&errand.local, errand.gid, errand.tos);

	(void)unused;
	if (n)
		ud_node_put(n); /* it stays known */
	pthread_mutex_lock(&lock);
	under_way = false;
	pthread_cond_broadcast(&back);
	pthread_mutex_unlock(&lock);
	return NULL;
}

static void send_out(const struct ud_local *l, const uint8_t gid[16], uint8_t tos)
{
	pthread_t thread;

	errand = (struct errand){.local = *l, .tos = tos};
	memcpy(errand.gid, gid, 16);
	whose = getpid();
	under_way = sl_thread_start(&thread, run_errand, NULL) == 0;
	if (under_way)
		pthread_detach(thread);
}

/* With the lock. A child has not got the thread, nor may it use a condition that others wait for. */
static bool is_under_way(void)
{
	if (under_way && whose != getpid()) {
		under_way = false;
		pthread_cond_init(&back, NULL);
	}
	return under_way;
}

/* With the lock, for what is left of the time for that; others may come as often as they like. */
static void await_errand(void)
{
	static uint64_t left_ns, again_ns;
	uint64_t began_ns = sl_now_ns(), until_ns, took_ns;
	struct timespec until;

	if (began_ns >= again_ns) {
		left_ns = UD_MEET_MS * SL_NS_PER_MS;
		again_ns = began_ns + UD_MEET_EACH_MS * SL_NS_PER_MS;
	}
	until_ns = began_ns + left_ns;
	until = (struct timespec){.tv_sec = (time_t)(until_ns / SL_NS_PER_SEC),
				  .tv_nsec = (long)(until_ns % SL_NS_PER_SEC)};
	while (under_way && pthread_cond_clockwait(&back, &lock, CLOCK_MONOTONIC, &until) == 0) {
	}
	took_ns = sl_now_ns() - began_ns;
	left_ns -= took_ns < left_ns ? took_ns : left_ns;
}

/* One that is not known: by a thread, which it is waited for a while. */
static struct ud_node *fetch(const struct ud_local *l, const uint8_t gid[16], uint8_t tos)
{
	struct ud_node *n;

	pthread_mutex_lock(&lock);
	n = hold(l, gid, tos);
	if (!n && !is_under_way()) {
		send_out(l, gid, tos);
		await_errand();
		n = hold(l, gid, tos);
	}
	pthread_mutex_unlock(&lock);
	return n;
}

struct ud_node *ud_node_meet(const struct ud_local *l, const uint8_t gid[16], uint8_t tos)
{
	struct ud_node *n;

	pthread_mutex_lock(&lock);
	n = hold(l, gid, tos);
	pthread_mutex_unlock(&lock);
	if (n)
		return n;
	/* A thread would have to get a processor first. */
	if (ud_device->is_near && ud_device->is_near(l, gid))
		return ud_node_get(l, gid, tos);
	return fetch(l, gid, tos);
}

void ud_node_put(struct ud_node *n)
{
	pthread_mutex_lock(&lock);
	if (!--n->refs)
		sl_list_add_tail(&idle, &n->idle);
	pthread_mutex_unlock(&lock);
}
