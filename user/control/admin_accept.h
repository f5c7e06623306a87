/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Accepts connections of the admin endpoint and holds each until its request head is complete.
 *
 *   accept -> [ waiting: at most ADMIN_ACCEPT_SLOTS, ADMIN_ACCEPT_HEAD_MS ] -> complete head -> enter(fd)
 *
 * Silent connections therefore take no resource of the HTTP library. At the limit, the oldest
 * connection of the address or account with most of them is closed.
 *
 * Called by one thread. A descriptor belongs to this module until it is passed to enter().
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

/*
 * Receives the descriptor, whose head was only peeked at. head ends behind its empty line and is
 * valid during the call.
 */
typedef void admin_enter_fn(void *arg, int fd, bool local, const char *head, size_t len);

/* Creates an acceptor without sockets; NULL: no memory or descriptor. */
struct admin_acceptor *admin_acceptor_open(admin_enter_fn *enter, void *arg);
/* Takes over a listening socket. Returns 0, or -errno and has closed fd. */
int admin_acceptor_listen(struct admin_acceptor *d, int fd, bool local);
/* Adds a descriptor whose input makes admin_acceptor_fd() readable. Returns 0 or -errno. */
int admin_acceptor_watch(struct admin_acceptor *d, int fd);
/* Closes all waiting connections and listening sockets. */
void admin_acceptor_close(struct admin_acceptor *d);

/* Returns the same number for an IPv4 address, an IPv6 /64, or an account. */
uint64_t admin_peer_id(int fd);

/* Readable when admin_acceptor_run() has work. */
int admin_acceptor_fd(const struct admin_acceptor *d);
/* Does not wait; calls enter() for complete heads. */
void admin_acceptor_run(struct admin_acceptor *d, uint64_t now_ns);

#endif
