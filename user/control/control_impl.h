/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SL_CONTROL_CONTROL_IMPL_H
#define SL_CONTROL_CONTROL_IMPL_H

#include "control/access_log.h"
#include "control/admin.h"
#include "control/control.h"
#include "control/otlp.h"

enum { STATUS_LEN = 256 };

struct sl_control {
	struct sl_control_options opt;
	struct sl_admin *admin;
	struct sl_access_log *log; /* NULL: none */
	struct sl_otlp *otlp;
	struct sl_window window;
	uint64_t stages_of; /* configuration shown in the map sl_stages */
	uint32_t service_max;
	int signal_fd;
	uint64_t tick_ns;
	uint64_t drain_until_ns;
	char status_reported[STATUS_LEN];
	bool open_reported;
	bool ready_reported, draining, stop, fault;
	bool restart; /* sl_gateway_needs_restart() */
	bool broken;
	struct sl_config *reload_wait; /* checked; waits for the gateway */
	bool reloading;
	struct {
		uint64_t asked, handed, in_force; /* last numbers, from 1 */
	} reload;
	char reload_refused[600]; /* or "" */
	char reload_text[1400];   /* log line, once in force */
	bool reload_warns;
};

/* Continues a reload, and starts the one that waits. */
void sl_control_step(struct sl_control *c);

#endif
