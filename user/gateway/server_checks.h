/* SPDX-License-Identifier: Apache-2.0 */
/* Health checks of servers with via = stack, over kernel sockets of the host. Control thread. */
#ifndef SL_GATEWAY_SERVER_CHECKS_H
#define SL_GATEWAY_SERVER_CHECKS_H

#include <stdbool.h>
#include <stdint.h>

struct sl_cfg_backend;
struct sl_cfg_pool;
struct sl_gateway;
struct sl_server_check;
struct sl_server_checks;

struct sl_server_checks_ops {
	/* Takes a check's result. `why`: NULL: success. */
	void (*tell)(struct sl_gateway *g, const struct sl_server_check *c, const char *why);
	/* Returns true while the server has all requests of the limit per worker. */
	bool (*is_full)(const struct sl_gateway *g, const struct sl_server_check *c,
			uint32_t concurrency);
};

/* Returns NULL without memory or descriptors. */
struct sl_server_checks *sl_server_checks_new(struct sl_gateway *g,
					      const struct sl_server_checks_ops *ops);
/* Frees the list; each reference was put. NULL is allowed. */
void sl_server_checks_free(struct sl_server_checks *l);
/* Returns a reference to the health check of a server, started if need be. NULL: no memory. */
struct sl_server_check *sl_server_check_get(struct sl_server_checks *l,
					    const struct sl_cfg_pool *pool,
					    const struct sl_cfg_backend *b);
/* Drops a reference; the last one ends the check. NULL is allowed. */
void sl_server_check_put(struct sl_server_check *c);
/* Handles events, starts due checks, without waiting. */
void sl_server_checks_run(struct sl_server_checks *l, uint64_t now_ns);
/* Returns the list's descriptor: readable when sl_server_checks_run() has work. */
int sl_server_checks_fd(const struct sl_server_checks *l);
/* Returns the time of the next check or time-out; UINT64_MAX: none. */
uint64_t sl_server_checks_due_ns(const struct sl_server_checks *l);

#endif
