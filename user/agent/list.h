/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lists of servers from the gateway to its agents, trusted. A line per server, with TAB between:
 * endpoint, url, name, concurrency; of health checks: interval (ns; 0: none), timeout, expect,
 * failures, path, service; host. The last three may be empty. "*" in the endpoint stands for the
 * agent's number.
 */
#ifndef SL_AGENT_LIST_H
#define SL_AGENT_LIST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "agent/agent.h"
#include "config/server.h"

struct sl_config;

enum { AGENT_LIST_MAX = 256 << 10 };

struct agent_list_line {
	char listen[SL_SERVER_ENDPOINT_LEN];
	char *to, *name, *host;
	uint32_t concurrency;
	struct sl_agent_health health;
	bool served; /* free for the agent's use */
};

/* Returns the length; 0 without servers or if `cap` is too small. */
size_t agent_list_write(char *to, size_t cap, const struct sl_config *cfg);
/* Parses a list for agent `number`. Lines point into the text, which is changed. */
uint32_t agent_list_parse(char *text, uint32_t number, struct agent_list_line *out, uint32_t max);
/* Returns true if a server has a host name. */
bool agent_list_has_names(const char *text, size_t len);

#endif
