/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SL_SOCK_UNIX_H
#define SL_SOCK_UNIX_H

#include <stdbool.h>
#include <sys/types.h>
#include <sys/un.h>

/*
 * Removes a socket at which no process listens (stale_socket.h). Returns false if not removed. May
 * sleep for a second.
 */
bool sl_sock_remove_stale(const struct sockaddr_un *at);

/*
 * Binds and listens. Replaces a stale socket. uid and gid -1: unchanged. No other account can
 * connect before owner and mode are set. Returns a descriptor, or -errno.
 */
int sl_sock_listen_unix(const char *path, uid_t uid, gid_t gid, mode_t mode);

#endif
