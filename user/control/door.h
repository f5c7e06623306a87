/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The door of the admin endpoint: takes connections, and lets in those that have said what they
 * want.
 *
 *   accept -> [ waiting, at most SL_DOOR_PLACES, SL_DOOR_HEAD_MS ] -> complete head -> enter(fd)
 *
 * Who is silent takes nothing from anybody: a connection waits here, outside of the HTTP library,
 * until its head has come. When all places are taken, the oldest one of whoever has most of them
 * (an address, or an account) has to go. The head is only looked at: whoever takes the descriptor
 * reads it again.
 *
 * Called by one thread. Descriptors are the door's until enter() is given them.
 */
#ifndef SL_CONTROL_DOOR_H
#define SL_CONTROL_DOOR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
	SL_DOOR_LISTENERS = 2,
	SL_DOOR_PLACES = 64,
	SL_DOOR_HEAD_MS = 5000,
	SL_DOOR_HEAD_MAX = 8192,
};

struct sl_door;

/* `head` ends behind its empty line; it is the door's. */
typedef void sl_door_enter_fn(void *arg, int fd, bool local, const char *head, size_t len);

/* NULL: errno. */
struct sl_door *sl_door_open(sl_door_enter_fn *enter, void *arg);
/* Takes a listening socket; local: a Unix socket. 0 or -errno; the descriptor is closed then. */
int sl_door_listen(struct sl_door *d, int fd, bool local);
/* Another descriptor whose input makes sl_door_fd() readable. */
int sl_door_watch(struct sl_door *d, int fd);
void sl_door_close(struct sl_door *d);

/* A number of whoever is at the other end of a connection: one for an address, a /64, an account. */
uint64_t sl_door_who(int fd);

int sl_door_fd(const struct sl_door *d);
void sl_door_run(struct sl_door *d, uint64_t now_ns);

#endif
