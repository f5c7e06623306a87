/* SPDX-License-Identifier: Apache-2.0 */
/*
 * State of the agents and their servers, in shared memory. The supervising process writes the
 * agents' entries, and each agent those of its servers.
 */
#ifndef SL_CONFIG_AGENT_STATUS_H
#define SL_CONFIG_AGENT_STATUS_H

#include <stdbool.h>
#include <stdint.h>

/* Entries of workers, for servers with via = stack, follow those of agents. */
#define SL_AGENT_STATUS_WORKER(w) (SL_CFG_MAX_AGENTS + (w))

enum { SL_AGENT_STATUS_NAME = 128, SL_AGENT_STATUS_WHY = 96 };

struct sl_agent_info {
	uint32_t up;
	uint32_t pid;
	uint32_t restarts;
	uint32_t backoff_ms;
};

/* A server as one agent sees it. */
struct sl_server_info {
	char name[SL_AGENT_STATUS_NAME]; /* "pool/backend" */
	char why[SL_AGENT_STATUS_WHY];   /* empty: up */
	uint32_t up, healthy;
	uint32_t in_flight, waiting;
	uint32_t concurrency; /* given, or learnt */
	uint32_t connections;
};

struct sl_agent_status_server;

/* Makes the table. Returns 0 or -errno. Called once, before the agents are forked. */
int sl_agent_status_make(void);
/* Sets the entry of an agent, and removes those of its servers if it does not run. */
void sl_agent_status_set(uint32_t agent, const struct sl_agent_info *info);
/*
 * Returns a server's entry; NULL: none is free, or no table. Concurrent calls need different
 * agents.
 */
struct sl_agent_status_server *sl_agent_status_server_add(uint32_t agent, const char *name);
/* Sets all but the texts. */
void sl_agent_status_server_set(struct sl_agent_status_server *s,
				const struct sl_server_info *info);
/* Sets `why`. A concurrent reader may get a mix of two texts. */
void sl_agent_status_server_set_why(struct sl_agent_status_server *s, const char *why);
/* Frees the entry. */
void sl_agent_status_server_remove(struct sl_agent_status_server *s);

/* Return a copy, or false if there is no such agent, or nothing at `line`. Any thread. */
bool sl_agent_status_get(uint32_t agent, struct sl_agent_info *out);
bool sl_agent_status_server_get(uint32_t agent, uint32_t line, struct sl_server_info *out);

#endif
