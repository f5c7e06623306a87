/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lists of servers from the gateway to its agents, trusted. First "=PATH" for each file of TLS,
 * which the zygote opens: agents get the descriptors in this order. Then a line per server, with
 * TAB between: endpoint, url, name, concurrency; health checks: interval (ns; 0: none), timeout,
 * expect, failures, path, service; TLS: verify, numbers of ca_file, certificate and key (0: none),
 * server_name; host. Texts may be empty. "*" in the endpoint: the agent's number.
 */
#ifndef SL_AGENT_LIST_H
#define SL_AGENT_LIST_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

#include "agent/agent.h"
#include "config/config.h"
#include "config/server.h"

enum { AGENT_LIST_MAX = 256 << 10 };

struct agent_list_line {
	char listen[SL_SERVER_ENDPOINT_LEN];
	char *to, *name, *host;
	uint32_t concurrency;
	struct sl_agent_health health;
	struct sl_agent_tls tls; /* numbers of files instead of descriptors */
	bool served;             /* for the agent */
};

/* Returns the length; 0: no servers; SIZE_MAX: `cap` is too small. */
size_t agent_list_write(char *to, size_t cap, const struct sl_config *cfg);
/*
 * Parses a list, behind its files, for agent `number`. Lines point into the text, which is changed.
 * Returns the number of valid lines.
 */
uint32_t agent_list_parse(char *text, uint32_t number, struct agent_list_line *out, uint32_t max);
/* Copies the next path. Returns false at the end; *at is 0 at the start. */
bool agent_list_next_file(const char *text, size_t len, size_t *at, char path[PATH_MAX]);

/* Descriptors beside a list. */
union agent_list_control {
	struct cmsghdr head;
	uint8_t bytes[CMSG_SPACE(SL_CFG_MAX_SERVER_FILES * sizeof(int))];
};
/* Adds descriptors to a message; `c` must live as long. */
void agent_list_attach(struct msghdr *msg, union agent_list_control *c, const int *fds,
		       unsigned cnt);
/* Returns the number of descriptors of a received message, which are the caller's. */
unsigned agent_list_detach(struct msghdr *msg, int fds[SL_CFG_MAX_SERVER_FILES]);
/* Returns true if a server has a host name. */
bool agent_list_has_names(const char *text, size_t len);

#endif
