/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Servers that a worker reaches by its own TCP (via = stack). Each is a backend of the SDK within
 * the worker's thread:
 *
 *   core -> rpc -> shared memory -> sl_backend -> origin -> tcp -> server
 *
 *   sl_upstream_open -> sl_upstream_add -> sl_upstream_leave -> sl_upstream_has_left -> close
 */
#ifndef SL_WORKER_UPSTREAM_H
#define SL_WORKER_UPSTREAM_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "wire/addr.h"

struct origin_authority;
struct sl_net;
struct sl_tcp;
struct sl_umem;
struct sl_upstream;      /* one server, within a worker */
struct sl_upstream_list; /* all servers within a worker, with shared state */

struct sl_upstream_options {
	const char *listen;   /* shm:// endpoint of this worker's server */
	const char *name;     /* "pool/backend" */
	const char *host;     /* Host of requests; NULL: the client's */
	struct sl_addr at;    /* server */
	uint32_t concurrency; /* 0: learnt */
	bool checked;         /* not ready before sl_upstream_set_health() */
	bool h2;              /* HTTP/2 */
	unsigned worker;
};

/*
 * Called before the worker's thread starts. `ports`: local ports of this worker; `conns`: most
 * connections. Returns NULL without memory.
 */
struct sl_upstream_list *sl_upstreams_new(struct sl_tcp *tcp, const struct sl_umem *umem,
					  uint32_t ports, uint32_t conns, uint64_t now_ns);
/* Gives up all servers, and resets all connections, in turns with output of `net`. Worker's end. */
void sl_upstreams_stop(struct sl_upstream_list *l, struct sl_net *net);
/* Does so, and frees the list. The worker's thread has ended. l may be NULL. */
void sl_upstreams_free(struct sl_upstream_list *l);

/* Control thread, until sl_upstream_close(). Copies texts. Returns a server, or NULL and err. */
struct sl_upstream *sl_upstream_open(const struct sl_upstream_options *o, struct sl_err *err);
/* Writes the Host of requests to `at`; `host`: NULL: the address. */
void sl_upstream_authority(struct origin_authority *to, const struct sl_addr *at, const char *host);
/* Returns the number of requests that the server had at the last look. */
uint32_t sl_upstream_busy(const struct sl_upstream *u);
/* Finds the host's local address towards the server; repeated at intervals. */
void sl_upstream_locate(struct sl_upstream *u);
/* Returns true once the worker has given up a leaving server. */
bool sl_upstream_has_left(const struct sl_upstream *u);
/* Frees a server: not added, left, or after the worker's end. */
void sl_upstream_close(struct sl_upstream *u);

/* Worker, from here on. Serves an opened server until it has left. */
void sl_upstream_add(struct sl_upstream_list *l, struct sl_upstream *u, int epoll_fd);
/* Ends new requests; sl_upstream_has_left() follows the last one. */
void sl_upstream_leave(struct sl_upstream *u);
/* Takes the result of a health check by kernel sockets; `why`: "": it succeeded. */
void sl_upstream_set_health(struct sl_upstream *u, const char *why);
/* Sets the time, before upcalls of TCP in a turn. */
void sl_upstreams_set_now(struct sl_upstream_list *l, uint64_t now_ns);
/* Passes on replies that have arrived. Returns the amount of work. */
unsigned sl_upstreams_receive(struct sl_upstream_list *l);
/* Takes requests and sends them. Returns the amount of work. */
unsigned sl_upstreams_send(struct sl_upstream_list *l);
/* Prepares a sleep. Returns false if there is work. sl_upstreams_disarm() follows. */
bool sl_upstreams_arm(struct sl_upstream_list *l);
/* Ends it, in both cases. */
void sl_upstreams_disarm(struct sl_upstream_list *l);
/* Returns the time of the next turn, or UINT64_MAX. */
uint64_t sl_upstreams_next_ns(const struct sl_upstream_list *l);

#endif
