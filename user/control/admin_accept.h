/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Holds connections of the admin endpoint until their request heads are complete.
 *
 *   accept -> [ waiting: at most ADMIN_ACCEPT_SLOTS, ADMIN_ACCEPT_HEAD_MS ] -> complete head -> enter(fd)
 *
 * At the limit, the address or account with most connections loses its oldest one. One thread. A
 * descriptor belongs to this module until it is passed to enter().
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
 * Receives the descriptor. Its head, only peeked at, ends behind the empty line and is valid during
 * the call.
 */
typedef void admin_enter_fn(void *arg, int fd, bool local, const char *head, size_t len);

/* Returns NULL without memory or descriptor. */
struct admin_acceptor *admin_acceptor_open(admin_enter_fn *enter, void *arg);
/* Takes a listening socket, also on error. Returns 0 or -errno. */
int admin_acceptor_listen(struct admin_acceptor *d, int fd, bool local);
/* Makes admin_acceptor_fd() readable on input of the caller's fd. Returns 0 or -errno. */
int admin_acceptor_watch(struct admin_acceptor *d, int fd);
/* Closes all its descriptors. d may be NULL. */
void admin_acceptor_close(struct admin_acceptor *d);

/* Returns a number per IPv4 address, IPv6 /64 or account at the other end of fd. */
uint64_t admin_peer_id(int fd);

/* Returns a descriptor: readable when admin_acceptor_run(), or a watched fd, has work. */
int admin_acceptor_fd(const struct admin_acceptor *d);
/* Calls enter() for complete heads. Does not wait. */
void admin_acceptor_run(struct admin_acceptor *d, uint64_t now_ns);

#endif
