/* SPDX-License-Identifier: Apache-2.0 */
/*
 * State of the gateway's agents and their servers, in memory that all of them share. The
 * supervising process writes the entry of each agent. An agent writes one entry per server. Readers
 * get copies, so wrong values of a broken agent do no harm.
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
	char why[SL_AGENT_STATUS_WHY];   /* reason why it is down; empty: it is up */
	uint32_t up;                     /* connections can be made */
	uint32_t in_flight, waiting;
	uint32_t concurrency; /* requests that it gets at a time: given, or learnt */
	uint32_t connections;
};

struct sl_agent_status_server;

/* Maps the memory. Called once, before the agents are forked. Returns 0 or -errno. */
int sl_agent_status_make(void);
/* Sets the entry of an agent. If it does not run, its servers' entries are removed. */
void sl_agent_status_set(uint32_t agent, const struct sl_agent_info *info);
/* Returns NULL if there is no memory or no free entry; this server is then not reported. */
struct sl_agent_status_server *sl_agent_status_server_add(uint32_t agent, const char *name);
void sl_agent_status_server_set(struct sl_agent_status_server *s,
				const struct sl_server_info *info);
/* Sets the reason why it is down, as text. A concurrent reader may get a mix of two texts. */
void sl_agent_status_server_set_why(struct sl_agent_status_server *s, const char *why);
void sl_agent_status_server_remove(struct sl_agent_status_server *s);

/* False: there is none. */
bool sl_agent_status_get(uint32_t agent, struct sl_agent_info *out);
bool sl_agent_status_server_get(uint32_t agent, uint32_t line, struct sl_server_info *out);

#endif
