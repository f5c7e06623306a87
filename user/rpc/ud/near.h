/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whether a way to a host can be made at once: it is this host, or the kernel knows the next one on the
 * way there. It is asked by netlink, and asks no host. False also: nobody can tell. Any thread.
 */
#ifndef SL_RPC_UD_NEAR_H
#define SL_RPC_UD_NEAR_H

#include "rpc/ud/device.h"

bool ud_is_near(const struct ud_local *l, const uint8_t gid[16]);
/* The same of addresses as they are in GIDs, by that interface. */
bool ud_is_near_by(unsigned ifindex, const uint8_t from[16], const uint8_t to[16]);

#endif
