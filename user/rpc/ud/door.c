/* SPDX-License-Identifier: Apache-2.0 */
/* Read from the bottom: ud_greet -> say, await_answer -> look. */
#include "rpc/ud/door.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include "base/clock.h"
#include "rpc/verbs/home.h"

enum {
	DOOR_RX = 64,
	DOOR_TX = 16,
	DOORS = 16,
	WAIT_MS = 50,    /* for an ANSWER; then the next HELLO, to be waited for twice as long */
	SPIN_NS = 50000, /* then it sleeps */
};

struct door {
	struct ud_local local;
	struct ud_pair *pair; /* NULL: unused */
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct door doors[DOORS];

static int left_ms(const struct ud_greeting *g)
{
	uint64_t now = sl_now_ns();

	return now < g->deadline_ns ? (int)((g->deadline_ns - now) / SL_NS_PER_MS) + 1 : 0;
}

static struct door *door_of(const struct ud_local *l)
{
	struct door *door = NULL;
	int rc;

	for (unsigned i = 0; i < DOORS && !door; i++) {
		if (!doors[i].pair || ud_local_same(&doors[i].local, l))
			door = &doors[i];
	}
	if (!door || door->pair)
		return door;
	door->local = *l;
	door->pair = ud_device->open(l, VB_GROUP_BACKEND, DOOR_RX, DOOR_TX, &rc);
	return door->pair ? door : NULL;
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

static int greet(const struct ud_greeting *g)
{
	struct door *door = door_of(g->local);
	int rc = door ? -ETIMEDOUT : -ENOMEM, wait_ms = WAIT_MS;

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
	if (rc == -EIO && door) {
		ud_device->close(door->pair);
		door->pair = NULL;
	}
	return rc;
}

int ud_greet(const struct ud_greeting *g)
{
	int rc;

	pthread_mutex_lock(&lock);
	rc = greet(g);
	pthread_mutex_unlock(&lock);
	return rc;
}
