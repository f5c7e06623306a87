/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The admin endpoint: libmicrohttpd on a kernel socket, driven by the control thread's loop.
 *
 *   GET  / /livez /readyz /metrics /stats /events (SSE, one event a second)
 *   POST /drain /reload /set?pool=NAME&size=N&hold=D&bound=D&deadline=D&shed=S
 *
 * A POST needs the header "Sluice-Admin: 1": a page of another origin in an operator's browser
 * cannot send that without being asked first, and is refused then.
 */
#ifndef SL_CONTROL_ADMIN_H
#define SL_CONTROL_ADMIN_H

#include <stdint.h>

#include "control/control.h"
#include "control/stats.h"

struct sl_admin;

/* Returns NULL and one line in err. */
struct sl_admin *sl_admin_open(struct sl_control *c, struct sl_gateway *g,
			       const struct sl_config *cfg, struct sl_window *w, char *err,
			       size_t err_len);
void sl_admin_close(struct sl_admin *a);

/* Readable when sl_admin_run() has something to do. */
int sl_admin_fd(const struct sl_admin *a);
uint16_t sl_admin_port(const struct sl_admin *a);
void sl_admin_run(struct sl_admin *a);
/* Sends an event to every listener of /events. */
void sl_admin_tick(struct sl_admin *a);

#endif
