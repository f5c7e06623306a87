/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Health checks of a server by its agent: ready after a success, unready after `failures` in a row.
 */
#ifndef SL_AGENT_PROBE_H
#define SL_AGENT_PROBE_H

#include "agent/tls.h"
#include "origin/health_check.h"

struct agent_server;

struct agent_probe {
	struct agent_watch watch;
	struct origin_timer timer;
	struct agent_server *server; /* NULL: no checks */
	struct origin_check check;
	struct agent_tls *tls; /* NULL: none now */
};

/*
 * Starts checks, if cfg->interval_ns is set. Returns false without memory. Copies `cfg`;
 * agent_probe_fini() frees the copy.
 */
bool agent_probe_init(struct agent_probe *p, struct agent_server *s,
		      const struct sl_agent_health *cfg);
/* Ends checks; allowed for a zeroed probe. */
void agent_probe_fini(struct agent_probe *p);

#endif
