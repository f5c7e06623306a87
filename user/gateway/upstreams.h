/* SPDX-License-Identifier: Apache-2.0 */
/* Servers with via = stack, opened in the workers. Control thread. */
#ifndef SL_GATEWAY_UPSTREAMS_H
#define SL_GATEWAY_UPSTREAMS_H

#include <stdint.h>

struct sl_gateway;

/* Returns 0, or -1 and errno; sl_upstreams_close() follows in both cases. */
int sl_upstreams_start(struct sl_gateway *g);
/* Runs health checks, opens and closes servers: in each step, also in a reload. */
void sl_upstreams_follow(struct sl_gateway *g, uint64_t now_ns);
/* Closes all, after the workers' end. */
void sl_upstreams_close(struct sl_gateway *g);

#endif
