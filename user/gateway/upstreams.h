/* SPDX-License-Identifier: Apache-2.0 */
/* Servers with via = stack, opened in the workers. Control thread. */
#ifndef SL_GATEWAY_UPSTREAMS_H
#define SL_GATEWAY_UPSTREAMS_H

#include <stdint.h>

struct sl_gateway;
struct sl_server_check;

/* Returns 0, or -1 and errno; sl_upstreams_close() follows in both cases. */
int sl_upstreams_start(struct sl_gateway *g);
/* Runs health checks, opens and closes servers: in each step, also in a reload. */
void sl_upstreams_follow(struct sl_gateway *g, uint64_t now_ns);
/* Closes all, after the workers' end. */
void sl_upstreams_close(struct sl_gateway *g);

/* Passes a check's result to the server's workers. `why`: NULL: success. */
void sl_upstreams_tell_health(struct sl_gateway *g, const struct sl_server_check *check,
			      const char *why);
/* Returns the number of all workers' requests at a check's server. */
uint32_t sl_upstreams_busy(const struct sl_gateway *g, const struct sl_server_check *check);

#endif
