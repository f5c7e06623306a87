/* SPDX-License-Identifier: Apache-2.0 */
/* Netlink: events of rtnetlink, and features of a device by the family "netdev" (Linux 6.3). */
#ifndef SL_XIO_NETDEV_H
#define SL_XIO_NETDEV_H

#include <stdbool.h>
#include <stdint.h>
#include "wire/addr.h"

/* Returns a non-blocking rtnetlink socket that receives events of these RTMGRP_*, or -errno. */
int sl_netdev_events(uint32_t groups);

/*
 * Returns true if an XDP program that is bound to the device can read stripped VLAN tags (Linux
 * 6.8). False on any error. Blocks for the kernel's answer.
 */
bool sl_netdev_has_tags(int ifindex);

/*
 * Asks for the host's route. Sets the interface, and whether the address is the host's own. Returns
 * 0 or -errno. Blocks for the kernel's answer.
 */
int sl_netdev_route(const struct sl_addr *to, int *ifindex, bool *local);

#endif
