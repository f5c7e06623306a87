/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Look-ups of server names in a thread.
 *
 * A query is lent until agent_names_take() returns it or agent_names_forget(). Calls: the loop's
 * thread. `error` is empty on success.
 */
#ifndef SL_AGENT_NAMES_H
#define SL_AGENT_NAMES_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>
#include "base/err.h"
#include "base/list.h"

enum { AGENT_ADDRESSES_MAX = 8 };

struct agent_query {
	struct sl_list link;
	void *owner;
	const char *host;
	uint16_t port;
	bool asked;
	char error[96];
	unsigned cnt;
	struct sockaddr_storage addrs[AGENT_ADDRESSES_MAX];
	socklen_t lens[AGENT_ADDRESSES_MAX];
};

struct agent_names;

/* Returns NULL without memory or descriptor. */
struct agent_names *agent_names_new(void);
/* Starts the thread, once; it enters the agents' sandbox. Returns 0 or -errno. */
int agent_names_start(struct agent_names *n);
/* Frees n, which may be NULL; after a current look-up, the thread does. */
void agent_names_free(struct agent_names *n);
/* Returns a descriptor: readable when there are answers. */
int agent_names_fd(const struct agent_names *n);
/* Starts a look-up. The host must not change while lent. A lent query is ignored. */
void agent_names_ask(struct agent_names *n, struct agent_query *q);
/* Returns a finished query, or NULL: no more. */
struct agent_query *agent_names_take(struct agent_names *n);
/* Cancels a query, if lent: it is no longer accessed. */
void agent_names_forget(struct agent_names *n, struct agent_query *q);

/* Looks up; blocks. numeric: the host is an address; asks no server. */
void agent_names_resolve(struct agent_query *q, bool numeric);

#endif
