/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The door of the admin endpoint: takes connections, and lets in those that have said what they
 * want.
 *
 *   accept -> [ waiting, at most ADMIN_ACCEPT_SLOTS, ADMIN_ACCEPT_HEAD_MS ] -> complete head -> enter(fd)
 *
 * Who is silent takes nothing from anybody: a connection waits here, outside of the HTTP library,
 * until its head has come. When all places are taken, the oldest one of whoever has most of them
 * (an address, or an account) has to go. The head is only looked at: whoever takes the descriptor
 * reads it again.
 *
 * Called by one thread. Descriptors are the door's until enter() is given them.
 */
#ifndef SL_CONTROL_ADMIN_ACCEPT_H
#define SL_CONTROL_ADMIN_ACCEPT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
	ADMIN_ACCEPT_LISTENERS = 2,
	ADMIN_ACCEPT_SLOTS = 64,
	ADMIN_ACCEPT_HEAD_MS = 5000,
	ADMIN_ACCEPT_HEAD_MAX = 8192,
};

struct admin_acceptor;

/* `head` ends behind its empty line; it is the door's. */
typedef void admin_enter_fn(void *arg, int fd, bool local, const char *head, size_t len);

/* NULL: errno. */
struct admin_acceptor *admin_acceptor_open(admin_enter_fn *enter, void *arg);
/* Takes a listening socket; local: a Unix socket. 0 or -errno; the descriptor is closed then. */
int admin_acceptor_listen(struct admin_acceptor *d, int fd, bool local);
/* Another descriptor whose input makes admin_acceptor_fd() readable. */
int admin_acceptor_watch(struct admin_acceptor *d, int fd);
void admin_acceptor_close(struct admin_acceptor *d);

/* A number of whoever is at the other end of a connection: one for an address, a /64, an account. */
uint64_t admin_peer_id(int fd);

int admin_acceptor_fd(const struct admin_acceptor *d);
void admin_acceptor_run(struct admin_acceptor *d, uint64_t now_ns);

#endif
