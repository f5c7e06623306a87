/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the gateway's agents tell of themselves: numbers in memory that they share with it. A line for
 * each agent, written by the process that keeps them, and in it one for each of its servers, written
 * by the agent. Readers get copies; lines of an agent that breaks are worth nothing, and do no harm.
 */
#ifndef SL_CONFIG_AGENT_STATUS_H
#define SL_CONFIG_AGENT_STATUS_H

#include <stdbool.h>
#include <stdint.h>

enum { SL_AGENT_STATUS_NAME = 128, SL_AGENT_STATUS_WHY = 96 };

struct sl_agent_info {
	uint32_t up; /* it runs */
	uint32_t pid;
	uint32_t restarts;
	uint32_t backoff_ms; /* before it starts the next time */
};

/* A server as one agent sees it. */
struct sl_server_info {
	char name[SL_AGENT_STATUS_NAME]; /* "pool/backend" */
	char why[SL_AGENT_STATUS_WHY];   /* it is not up; empty: it is */
	uint32_t up;                     /* connections can be made */
	uint32_t in_flight, waiting;
	uint32_t concurrency; /* requests that it gets at a time: given, or learnt */
	uint32_t connections;
};

struct sl_agent_status_server;

/* Once, before the agents are forked. 0 or -errno. */
int sl_agent_status_make(void);
/* One that does not run has no servers. */
void sl_agent_status_set(uint32_t agent, const struct sl_agent_info *info);
/* NULL: there is no board, or it is full: then nobody reads of this server. */
struct sl_agent_status_server *sl_agent_status_server_add(uint32_t agent, const char *name);
void sl_agent_status_server_set(struct sl_agent_status_server *s,
				const struct sl_server_info *info);
/* Why it is down, for people; read while it is written it may be mixed up. */
void sl_agent_status_server_set_why(struct sl_agent_status_server *s, const char *why);
void sl_agent_status_server_remove(struct sl_agent_status_server *s);

/* False: there is none. */
bool sl_agent_status_get(uint32_t agent, struct sl_agent_info *out);
bool sl_agent_status_server_get(uint32_t agent, uint32_t line, struct sl_server_info *out);

#endif
