/* SPDX-License-Identifier: Apache-2.0 */
/* Names of Unix sockets whose process is dead. */
#ifndef SL_BASE_STALE_SOCKET_H
#define SL_BASE_STALE_SOCKET_H

#include <stdbool.h>
#include <sys/un.h>

/*
 * Returns true if no process listens at the socket, which has that type (SOCK_STREAM). Only
 * ECONNREFUSED proves that: EPROTOTYPE, for example, comes from a living socket of another type. A
 * process that has bound its socket and is about to listen refuses as well. So a younger name is
 * looked at until it is a second old. May sleep that long.
 */
bool sl_socket_is_stale(const struct sockaddr_un *at, int type);

#endif
