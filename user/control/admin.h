/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The admin endpoint: HTTP by libmicrohttpd, run by the control thread's loop.
 *
 *   GET  / /livez /readyz /metrics /stats /events (SSE, one event a second)
 *   POST /drain /reload /set?pool=NAME&size=N&hold=D&bound=D&deadline=D&shed=S
 *        /edge?interface=NAME&allow=PREFIX&deny=PREFIX&forget=PREFIX
 *
 *   Unix socket   all requests that the role of the peer's account allows
 *   TCP           GET only
 *
 * Probes, TCP clients and socket clients have separate limits. At a limit the oldest connection of
 * the address or account with most connections is closed.
 */
#ifndef SL_CONTROL_ADMIN_H
#define SL_CONTROL_ADMIN_H

#include <stdint.h>

#include "base/err.h"
#include "control/control.h"
#include "control/stats.h"

struct sl_admin;

/* Returns NULL and one line in err on failure. */
struct sl_admin *sl_admin_open(struct sl_control *c, struct sl_gateway *g,
			       const struct sl_config *cfg, struct sl_window *w,
			       struct sl_err *err);
/* Closes all connections. a may be NULL. */
void sl_admin_close(struct sl_admin *a);

/* Readable when sl_admin_run() has work. */
int sl_admin_fd(const struct sl_admin *a);
const char *sl_admin_path(const struct sl_admin *a);
/* Accepts connections and answers requests, without waiting. */
void sl_admin_run(struct sl_admin *a);
/* Sends an event to each client of /events. */
void sl_admin_tick(struct sl_admin *a);

#endif
