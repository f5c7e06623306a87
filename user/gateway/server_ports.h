/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Checks tcp.server_ports: XDP redirects all their segments, so the kernel must use none.
 */
#ifndef SL_GATEWAY_SERVER_PORTS_H
#define SL_GATEWAY_SERVER_PORTS_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "base/err.h"

struct sl_config;

/*
 * Refuses ports that the kernel gives to connections, and ports of existing sockets. Returns 0, or
 * -EADDRINUSE and a line. Not thread-safe.
 */
int sl_server_ports_check(const struct sl_config *cfg, struct sl_err *err);

/* Returns true if the list ("1,3-5") has the port. */
bool sl_server_ports_listed(const char *list, unsigned port);
/* Returns the first local port of this range in a table like /proc/net/tcp; 0: none. */
unsigned sl_server_ports_used(FILE *table, unsigned first, unsigned last);

#endif
