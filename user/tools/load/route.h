/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the kernel knows of the way to an address: our own address for it, and the MAC of the next
 * hop. The kernel resolves it (ARP, neighbour discovery); the load generator reads the result.
 */
#ifndef SL_TOOLS_LOAD_ROUTE_H
#define SL_TOOLS_LOAD_ROUTE_H

#include <stddef.h>
#include <stdint.h>
#include "base/err.h"
#include "wire/addr.h"

struct sl_load_route {
	struct sl_addr local; /* without port */
	uint8_t mac[6];
};

/* The target must be on the interface's own link. 0, or -errno and one line in err. */
int sl_load_find_route(struct sl_load_route *r, const char *ifname, const struct sl_addr *to,
		       struct sl_err *err);

#endif
