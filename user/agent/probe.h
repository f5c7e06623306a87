/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Health checks of a server by its agent: a connection of its own for each probe.
 *
 *   timer -> connect -> send -> receive -> result -> timer
 *              '---- time-out or error ------^
 *
 * A server with health checks is not ready before the first one succeeds. `failures` in a row make
 * it unready, one success ready again.
 */
#ifndef SL_AGENT_PROBE_H
#define SL_AGENT_PROBE_H

#include "origin/probe.h"

struct agent_server;

struct agent_probe {
	struct agent_watch watch;
	struct origin_timer timer; /* next probe, or time-out of this one */
	struct agent_server *server;
	struct sl_agent_health cfg; /* owns its texts; interval_ns 0: no checks */
	struct origin_probe reply;
	int fd; /* -1: none */
	bool sent, settled;
	uint32_t received; /* bytes after the result, which are discarded */
	uint32_t failures; /* in a row */
};

/* Copies the options and schedules the first probe. Returns false without memory. */
bool agent_probe_init(struct agent_probe *p, struct agent_server *s,
		      const struct sl_agent_health *cfg);
void agent_probe_fini(struct agent_probe *p);

#endif
