/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The agent makes unmodified servers backends of a gateway (README.md). One thread runs them all.
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
	uint32_t expect;
	uint32_t failures;
	const char *path;    /* http; NULL: "/" */
	const char *service; /* h2c: for grpc.health.v1; NULL: the whole server */
};

/* TLS to a server; for https and h2. Descriptors are read, and stay the caller's; -1: none. */
struct sl_agent_tls {
	const char *server_name; /* NULL: the host of the URL */
	bool verify;
	int ca, certificate, key;
};

struct sl_agent_options {
	const char *listen;   /* as in sl_backend_open() */
	const char *to;       /* URL, see config/server.h */
	const char *name;     /* in the log; NULL: `to` */
	const char *host;     /* Host field; NULL: the client's */
	const char *key_file; /* NULL: shm only */
	uint32_t concurrency; /* 0: learnt */
	uint32_t number;      /* of this agent */
	struct sl_agent_health health;
	struct sl_agent_tls tls;
};

/* Returns an agent without servers, or NULL and err; sl_agent_close() frees it. */
struct agent *sl_agent_open(struct sl_err *err);
/*
 * Adds a server; copies the texts. A removed server of the same endpoint with open requests is kept
 * instead. Returns 0, or -1 and err.
 */
int sl_agent_add(struct agent *a, const struct sl_agent_options *opt, struct sl_err *err);
/*
 * Starts the look-up thread, else sl_agent_run() does. Must be called inside the sandbox, before
 * the caller's own filter forbids new threads. Returns 0 or -errno.
 */
int sl_agent_start(struct agent *a);
/* Starts to look up all server names. */
void sl_agent_look_up(struct agent *a);
/* Reads the server's TLS files again; new connections use them. Logs errors. */
void sl_agent_renew(struct agent *a, const char *listen, const struct sl_agent_tls *tls);
/* Removes a server; it is freed when idle. */
void sl_agent_remove(struct agent *a, const char *listen);
/* Calls fn when fd, which stays the caller's, is readable. Returns 0 or -errno. */
int sl_agent_watch(struct agent *a, int fd, void (*fn)(void *arg), void *arg);
/* Runs until sl_agent_stop(), then for up to 5 s until requests end. */
void sl_agent_run(struct agent *a);
/* Ends sl_agent_run(); a second call, at once. Safe in a signal handler. */
void sl_agent_stop(struct agent *a);
/* Closes all and frees a, which may be NULL. */
void sl_agent_close(struct agent *a);

#endif
