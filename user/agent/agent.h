/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The agent: servers that know nothing of sluice as backends of it. One thread, one loop over all
 * servers, their connections and the gateways' channels; README.md of this room says how requests
 * travel and what never happens to them.
 */
#ifndef SL_AGENT_AGENT_H
#define SL_AGENT_AGENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "base/err.h"

struct agent;

struct sl_agent_options {
	const char *listen;   /* endpoints for gateways, as of sl_backend_open() */
	const char *to;       /* the server, see config/server.h */
	const char *name;     /* of it, for the log; NULL: `to` */
	const char *host;     /* what all requests call it; NULL: what clients do */
	const char *key_file; /* NULL: shm only */
	uint32_t concurrency; /* requests that the server gets at a time; 0: learnt */
	uint32_t number;      /* of this agent, on the board, if there is one */
};

/* NULL and one line in err. */
struct agent *sl_agent_open(struct sl_err *err);
/*
 * One more server. 0, or -1 and one line in err. The texts are copied. An endpoint that was removed and
 * still has requests is that server's, which then stays.
 */
int sl_agent_add(struct agent *a, const struct sl_agent_options *opt, struct sl_err *err);
/*
 * Starts the thread that looks up names: inside of the sandbox, before the agent's own thread may start
 * none any more. sl_agent_run() does it otherwise. 0 or -errno.
 */
int sl_agent_start(struct agent *a);
/* Looks the names of all servers up again. */
void sl_agent_look_up(struct agent *a);
/* The server that is reached by this endpoint gets no more requests, and goes when it is idle. */
void sl_agent_remove(struct agent *a, const char *listen);
/* Calls fn when fd can be read, from sl_agent_run(). 0 or -errno. */
int sl_agent_watch(struct agent *a, int fd, void (*fn)(void *arg), void *arg);
/* Until sl_agent_stop(): then answers what has come, 5 s at the most. */
void sl_agent_run(struct agent *a);
/* From a signal handler, or a watch. A second one ends at once. */
void sl_agent_stop(struct agent *a);
void sl_agent_close(struct agent *a);

#endif
