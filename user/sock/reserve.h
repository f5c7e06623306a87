/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Kernel sockets that keep other servers and outgoing connections from served ports.
 *
 *   sl_sock_reserve -> [ bound, refuses ] <-> [ listening ] -> close()
 *                         sl_sock_listen --->
 *                         <--- sl_sock_unlisten
 *
 * The caller owns the descriptors.
 */
#ifndef SL_SOCK_RESERVE_H
#define SL_SOCK_RESERVE_H

#include <stdint.h>
#include "wire/addr.h"

/*
 * Binds an address, also one that the host does not have, and port (IPPROTO_TCP or IPPROTO_UDP).
 * The socket is exclusive: no SO_REUSEADDR, no SO_REUSEPORT. A UDP socket discards its input.
 * Returns a descriptor, or -errno: -EAFNOSUPPORT without the family, -EADDRNOTAVAIL for a
 * link-local address of no interface.
 */
int sl_sock_reserve(const struct sl_addr *at, uint8_t protocol);
/* Listens at a reserved TCP socket. Returns 0 or -errno. */
int sl_sock_listen(int fd);
/* Resets connections that were not accepted, and refuses new ones. Returns 0 or -errno. */
int sl_sock_unlisten(int fd);

/* Returns the ingress interface of an accepted TCP connection; 0: unknown. */
int sl_sock_ingress(int fd, uint8_t family);

#endif
