/* SPDX-License-Identifier: Apache-2.0 */
/* What control.c and reload.c share. */
#ifndef SL_CONTROL_CONTROL_IMPL_H
#define SL_CONTROL_CONTROL_IMPL_H

#include "control/access_log.h"
#include "control/admin.h"
#include "control/control.h"

enum { STATUS_LEN = 256 }; /* of what a service manager shows */

struct sl_control {
	struct sl_control_options opt;
	struct sl_admin *admin;
	struct sl_access_log *log; /* NULL: none */
	struct sl_window window;
	uint32_t service_max;
	int signal_fd;
	uint64_t tick_ns;
	uint64_t drain_until_ns;
	char status_reported[STATUS_LEN];
	bool open_reported; /* that the listeners are open */
	bool ready_reported, draining, stop, fault;
	bool broken;                   /* is_whole() was false */
	struct sl_config *reload_wait; /* checked, until the gateway can take it */
	bool reloading;                /* the gateway is on its way to the next one */
	struct {
		uint64_t asked, handed, in_force; /* reloads count from 1; the last of each kind */
	} reload;
	char reload_refused
		[600]; /* why the gateway refused the last one afterwards; "": it did not */
	char reload_text[1400]; /* what is said when it is there */
	bool reload_warns;
};

/* reload.c: takes a reload further. */
void sl_control_step(struct sl_control *c);

#endif
