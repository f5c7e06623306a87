/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SL_BASE_STALE_SOCKET_H
#define SL_BASE_STALE_SOCKET_H

#include <stdbool.h>
#include <sys/un.h>

/*
 * Returns true if no process listens at the socket of type `type`. Only ECONNREFUSED proves that: a
 * living socket of another type gives EPROTOTYPE. A process between bind() and listen() refuses,
 * too, so a name is watched until a second old. May sleep that long.
 */
bool sl_socket_is_stale(const struct sockaddr_un *at, int type);

#endif
