/* SPDX-License-Identifier: Apache-2.0 */
/* Read from the bottom: ud_greet -> take_door -> find_door; greet -> say, await_answer -> look. */
#include "rpc/ud/door.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <time.h>
#include "base/clock.h"
#include "rpc/verbs/home.h"

enum {
	DOOR_RX = 64,
	DOOR_TX = 16,
	DOORS = 64,
	OF_DEVICE = 16,
	WAIT_MS = 50,    /* for an ANSWER; then the next HELLO, to be waited for twice as long */
	SPIN_NS = 50000, /* then it sleeps */
};

struct door {
	struct ud_local local;
	struct ud_pair *pair; /* NULL: it is to be made, by who has taken the door */
	bool taken;
	uint64_t used; /* the higher, the later; 0: there is no pair */
};

/* Of the table, and not of a door that is taken. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t freed = PTHREAD_COND_INITIALIZER;
static struct door doors[DOORS];
static uint64_t turn;

static int left_ms(const struct ud_greeting *g)
{
	uint64_t now = sl_now_ns();

	return now < g->deadline_ns ? (int)((g->deadline_ns - now) / SL_NS_PER_MS) + 1 : 0;
}

/* One that is there; or a place for one, be it that of the door which nobody has used for longest. */
static struct door *find_door(const struct ud_local *l)
{
	struct door *found = NULL;
	unsigned taken = 0;

	for (unsigned i = 0; i < DOORS; i++) {
		struct door *door = &doors[i];
		bool same = ud_local_same(&door->local, l);

		taken += door->taken && same;
		if (door->taken)
			continue;
		if (door->used && same)
			return door;
		if (!found || door->used < found->used)
			found = door;
	}
	return taken < OF_DEVICE ? found : NULL;
}

/* NULL: none is left by then. */
static struct door *take_door(const struct ud_local *l, uint64_t until_ns)
{
	const struct timespec until = {.tv_sec = (time_t)(until_ns / SL_NS_PER_SEC),
				       .tv_nsec = (long)(until_ns % SL_NS_PER_SEC)};
	struct ud_pair *former = NULL;
	struct door *door;

	pthread_mutex_lock(&lock);
	while (!(door = find_door(l)) &&
	       pthread_cond_clockwait(&freed, &lock, CLOCK_MONOTONIC, &until) == 0) {
	}
	if (door && !ud_local_same(&door->local, l)) {
		former = door->pair;
		door->pair = NULL;
		door->local = *l;
	}
	if (door)
		door->taken = true;
	pthread_mutex_unlock(&lock);
	if (former)
		ud_device->close(former);
	return door;
}

static void leave_door(struct door *door)
{
	pthread_mutex_lock(&lock);
	door->taken = false;
	door->used = door->pair ? ++turn : 0;
	pthread_cond_broadcast(&freed);
	pthread_mutex_unlock(&lock);
}

static int say(const struct ud_greeting *g, struct ud_pair *door)
{
	uint8_t *to = ud_device->slot(door);
	int len = to ? g->say(g->arg, door, to) : -EAGAIN;

	if (len < 0)
		return len;
	ud_device->send(door, g->way, g->qpn, (uint32_t)len);
	return ud_device->ring(door);
}

/* 1, 0 not yet, -EIO. */
static int look(const struct ud_greeting *g, struct ud_pair *door)
{
	struct ud_packet packets[UD_POLL];
	int n = ud_device->poll(door, packets, UD_POLL);
	int found = 0;

	for (int i = 0; i < n && !found; i++)
		found = g->is_answer(g->arg, &packets[i]);
	if (n < 0 || ud_device->put_back(door, packets, (unsigned)n))
		return -EIO;
	return found;
}

static int await_answer(const struct ud_greeting *g, struct ud_pair *door, int wait_ms)
{
	uint64_t said_ns = sl_now_ns(), until_ns = said_ns + (uint64_t)wait_ms * SL_NS_PER_MS;
	struct pollfd p = {.fd = door->fd, .events = POLLIN};

	for (;;) {
		int rc = look(g, door);
		uint64_t now_ns = sl_now_ns();

		if (rc)
			return rc < 0 ? rc : 0;
		if (now_ns >= until_ns)
			return -ETIMEDOUT;
		if (now_ns - said_ns < SPIN_NS || !ud_device->arm(door))
			continue;
		if (poll(&p, 1, (int)((until_ns - now_ns) / SL_NS_PER_MS) + 1) > 0)
			ud_device->take_bell(door);
	}
}

static int greet(const struct ud_greeting *g, struct door *door)
{
	int rc, wait_ms = WAIT_MS;

	if (!door->pair)
		door->pair = ud_device->open(g->local, VB_GROUP_BACKEND, DOOR_RX, DOOR_TX, &rc);
	if (!door->pair)
		return rc;
	rc = -ETIMEDOUT;
	for (unsigned i = 0; rc == -ETIMEDOUT && left_ms(g) && (!g->tries || i < g->tries); i++) {
		rc = say(g, door->pair);
		if (!rc && !i && g->meanwhile)
			g->meanwhile(g->arg);
		if (!rc)
			rc = await_answer(g, door->pair,
					  wait_ms < left_ms(g) ? wait_ms : left_ms(g));
		wait_ms *= 2;
	}
	/* The device has gone, or was reset: the next one finds what there is then. */
	if (rc == -EIO) {
		ud_device->close(door->pair);
		door->pair = NULL;
	}
	return rc;
}

int ud_greet(const struct ud_greeting *g)
{
	uint64_t began_ns = sl_now_ns();
	uint64_t has_ns = g->deadline_ns > began_ns ? g->deadline_ns - began_ns : 0;
	struct door *door = take_door(g->local, began_ns + has_ns / 2);
	struct ud_greeting later = *g;
	int rc;

	if (!door)
		return -EBUSY;
	later.deadline_ns += sl_now_ns() - began_ns;
	rc = greet(&later, door);
	leave_door(door);
	return rc;
}
