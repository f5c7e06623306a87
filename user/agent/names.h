/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Look-ups of server names in a separate thread, because the resolver blocks.
 *
 *   loop: ask ---> [ asked ] ---> thread: getaddrinfo ---> [ answers ] ---> loop: take
 *
 * A caller lends its query from ask until take returns it or forget. The loop's thread makes all
 * calls. `error` of a query is text, empty on success.
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

/* Creates the module without its thread. Returns NULL without memory or descriptor. */
struct agent_names *agent_names_new(void);
/* Starts the thread, which enters the agents' sandbox. Returns 0 or -errno. */
int agent_names_start(struct agent_names *n);
/* A current look-up ends by itself later. */
void agent_names_free(struct agent_names *n);
/* Readable when there are answers. */
int agent_names_fd(const struct agent_names *n);
/* The host must not change while lent. A lent query is ignored. */
void agent_names_ask(struct agent_names *n, struct agent_query *q);
/* Returns an answered query, or NULL. */
struct agent_query *agent_names_take(struct agent_names *n);
/* The query is not answered, read or written any more. */
void agent_names_forget(struct agent_names *n, struct agent_query *q);

/* Fills in addresses or error; blocks. numeric: the host is an address, and no server is asked. */
void agent_names_resolve(struct agent_query *q, bool numeric);

#endif
