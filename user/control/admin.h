/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The admin endpoint: HTTP by libmicrohttpd, in the control thread's loop.
 *
 *   GET  / /livez /readyz /metrics /stats /history /requests /events (SSE, one a second)
 *   POST /drain /reload /set?pool=NAME&size=N&delay=D&bound=D&deadline=D&shed=S
 *        /edge?interface=NAME&allow=PREFIX&deny=PREFIX&remove=PREFIX
 *
 *   Unix socket   all requests that the role of the peer's account allows
 *   TCP           GET only
 *
 * Probes, TCP clients and socket clients have separate limits (admin_accept.h). Control thread.
 */
#ifndef SL_CONTROL_ADMIN_H
#define SL_CONTROL_ADMIN_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "control/control.h"
#include "control/stats.h"

struct sl_admin;

/*
 * Opens the sockets of `cfg`; needs privileges. The first four arguments must outlive the endpoint.
 * Returns NULL and err.
 */
struct sl_admin *sl_admin_open(struct sl_control *c, struct sl_gateway *g,
			       const struct sl_config *cfg, struct sl_window *w,
			       struct sl_err *err);
/* Ends all connections. a may be NULL. */
void sl_admin_close(struct sl_admin *a);

/* Returns a descriptor: readable when sl_admin_run() has work. */
int sl_admin_fd(const struct sl_admin *a);
/* Returns the socket's path or "". */
const char *sl_admin_path(const struct sl_admin *a);
/* Returns true if sl_admin_run() must be called soon, even without an event. */
bool sl_admin_is_busy(const struct sl_admin *a);
/* Accepts and answers without waiting. */
void sl_admin_run(struct sl_admin *a);
/* Called once a second, for clients of /events and /requests. */
void sl_admin_tick(struct sl_admin *a);

#endif
