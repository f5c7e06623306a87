/* SPDX-License-Identifier: Apache-2.0 */
/*
 * State of the gateway's agents and their servers, in shared memory. The supervising process writes
 * the entry of each agent; an agent one entry per server. Readers get copies, so wrong values of a
 * broken agent do no harm.
 */
#ifndef SL_CONFIG_AGENT_STATUS_H
#define SL_CONFIG_AGENT_STATUS_H

#include <stdbool.h>
#include <stdint.h>

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
	char why[SL_AGENT_STATUS_WHY];   /* empty: it is up */
	uint32_t up, healthy;
	uint32_t in_flight, waiting;
	uint32_t concurrency; /* given, or learnt */
	uint32_t connections;
};

struct sl_agent_status_server;

/* Maps the memory. Called once, before the agents are forked. Returns 0 or -errno. */
int sl_agent_status_make(void);
/* Sets the entry of an agent. Without it running, its servers' entries are removed. */
void sl_agent_status_set(uint32_t agent, const struct sl_agent_info *info);
/* Returns NULL without memory or a free entry; the server is then not reported. */
struct sl_agent_status_server *sl_agent_status_server_add(uint32_t agent, const char *name);
void sl_agent_status_server_set(struct sl_agent_status_server *s,
				const struct sl_server_info *info);
/* A concurrent reader may get a mix of two texts. */
void sl_agent_status_server_set_why(struct sl_agent_status_server *s, const char *why);
void sl_agent_status_server_remove(struct sl_agent_status_server *s);

/* Returns false if there is no such agent. */
bool sl_agent_status_get(uint32_t agent, struct sl_agent_info *out);
bool sl_agent_status_server_get(uint32_t agent, uint32_t line, struct sl_server_info *out);

#endif
