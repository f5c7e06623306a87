/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The admin endpoint: libmicrohttpd behind a door (admin_accept.h), driven by the control thread's loop.
 *
 *   GET  / /livez /readyz /metrics /stats /events (SSE, one event a second)
 *   POST /drain /reload /set?pool=NAME&size=N&hold=D&bound=D&deadline=D&shed=S
 *        /edge?interface=NAME&allow=PREFIX&deny=PREFIX&forget=PREFIX
 *
 *   Unix socket   all of it, as the role of who connects allows (authz.h)
 *   TCP           GET
 *
 * A connection gets one answer. Probes, readers over TCP and those on the socket have places of
 * their own; of those who stay there the oldest go when others come (admin_conns.h).
 */
#ifndef SL_CONTROL_ADMIN_H
#define SL_CONTROL_ADMIN_H

#include <stdint.h>

#include "base/err.h"
#include "control/control.h"
#include "control/stats.h"

struct sl_admin;

/* Returns NULL and one line in err. */
struct sl_admin *sl_admin_open(struct sl_control *c, struct sl_gateway *g,
			       const struct sl_config *cfg, struct sl_window *w,
			       struct sl_err *err);
void sl_admin_close(struct sl_admin *a);

/* Readable when sl_admin_run() has something to do. */
int sl_admin_fd(const struct sl_admin *a);
/* Of its Unix socket; "" when it has none. */
const char *sl_admin_path(const struct sl_admin *a);
void sl_admin_run(struct sl_admin *a);
/* Sends an event to every listener of /events. */
void sl_admin_tick(struct sl_admin *a);

#endif
