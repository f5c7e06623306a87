/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Kernel sockets that reserve served ports, so that neither another server nor an outgoing
 * connection gets them.
 *
 *   sl_sock_reserve -> [ bound, refuses ] <-> [ listening ] -> close()
 *                         sl_sock_listen --->
 *                         <--- sl_sock_unlisten
 *
 * The caller owns the descriptors. Ports below net.ipv4.ip_unprivileged_port_start need
 * CAP_NET_BIND_SERVICE.
 */
#ifndef SL_SOCK_RESERVE_H
#define SL_SOCK_RESERVE_H

#include <stdint.h>
#include "wire/addr.h"

/*
 * Binds an address and port (IPPROTO_TCP or IPPROTO_UDP). An address that the host does not have
 * is allowed. The socket is exclusive: no SO_REUSEADDR, no SO_REUSEPORT. A UDP socket discards
 * what it receives. Returns a descriptor, or -errno: -EAFNOSUPPORT if the host does not have the
 * family, -EADDRNOTAVAIL for a link-local address of no interface.
 */
int sl_sock_reserve(const struct sl_addr *at, uint8_t protocol);
/* Lets a reserved TCP socket accept connections. Returns 0 or -errno. */
int sl_sock_listen(int fd);
/* Resets connections that were not accepted, and refuses new ones. Returns 0 or -errno. */
int sl_sock_unlisten(int fd);

/* Returns the interface that an accepted TCP connection came by; 0: unknown. */
int sl_sock_ingress(int fd, uint8_t family);

#endif
