/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lists of servers, from the gateway to its agents. A line for each server: endpoint TAB url TAB name
 * TAB concurrency TAB host, which may be empty. "*" of the endpoint stands for the number of the
 * agent. A list comes from the gateway and is trusted.
 */
#ifndef SL_AGENT_LIST_H
#define SL_AGENT_LIST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "config/server.h"

struct sl_config;

enum { AGENT_LIST_MAX = 256 << 10 }; /* bytes */

struct agent_list_line {
	char listen[SL_SERVER_ENDPOINT_LEN];
	char *to, *name, *host;
	uint32_t concurrency;
	bool served; /* the agent's */
};

/* Returns the length; 0: there are no servers, or `cap` bytes are too few. */
size_t agent_list_write(char *to, size_t cap, const struct sl_config *cfg);
/* Reads a list as agent `number`; the lines point into the text, which it changes. */
uint32_t agent_list_parse(char *text, uint32_t number, struct agent_list_line *out, uint32_t max);
/* Returns true if a server has a name that must be looked up. */
bool agent_list_has_names(const char *text, size_t len);

#endif
