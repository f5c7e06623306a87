/* SPDX-License-Identifier: Apache-2.0 */
/* Route to an address: our address, and the MAC of the next hop. */
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

/* Finds the route; blocks. `ifname` must be on its link. Returns 0, or -errno and err. */
int sl_load_find_route(struct sl_load_route *r, const char *ifname, const struct sl_addr *to,
		       struct sl_err *err);

#endif
