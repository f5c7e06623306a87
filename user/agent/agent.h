/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The agent makes unmodified servers backends of a gateway (README.md). One thread runs the loop of
 * all servers, connections and channels.
 */
#ifndef SL_AGENT_AGENT_H
#define SL_AGENT_AGENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "base/err.h"

struct agent;

/* Health checks; texts are copied. */
struct sl_agent_health {
	uint64_t interval_ns; /* 0: none */
	uint64_t timeout_ns;
	uint32_t expect;     /* HTTP status */
	uint32_t failures;   /* in a row */
	const char *path;    /* http; NULL: "/" */
	const char *service; /* h2c: asked of grpc.health.v1; NULL: the server as a whole */
};

struct sl_agent_options {
	const char *listen;   /* as in sl_backend_open() */
	const char *to;       /* URL, see config/server.h */
	const char *name;     /* in the log; NULL: `to` */
	const char *host;     /* Host of all requests; NULL: the client's */
	const char *key_file; /* NULL: shm only */
	uint32_t concurrency; /* requests at a time; 0: learnt */
	uint32_t number;      /* this agent, in the shared status */
	struct sl_agent_health health;
};

/* Returns NULL and one line in err on failure. */
struct agent *sl_agent_open(struct sl_err *err);
/*
 * Adds a server; copies the texts. Returns 0, or -1 and one line in err. A removed server of the
 * same endpoint that still has requests stays instead.
 */
int sl_agent_add(struct agent *a, const struct sl_agent_options *opt, struct sl_err *err);
/*
 * Starts the look-up thread. Must be called inside the sandbox, before the caller's own filter
 * forbids new threads; otherwise sl_agent_run() does it. Returns 0 or -errno.
 */
int sl_agent_start(struct agent *a);
/* Starts look-ups of all server names. */
void sl_agent_look_up(struct agent *a);
/* Removes the server of an endpoint; it is freed when idle. */
void sl_agent_remove(struct agent *a, const char *listen);
/* Calls fn from sl_agent_run() when fd is readable. Returns 0 or -errno. */
int sl_agent_watch(struct agent *a, int fd, void (*fn)(void *arg), void *arg);
/* Runs until sl_agent_stop(), then finishes open requests within 5 s. */
void sl_agent_run(struct agent *a);
/* Safe in a signal handler. A second call ends at once. */
void sl_agent_stop(struct agent *a);
void sl_agent_close(struct agent *a);

#endif
