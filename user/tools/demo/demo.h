/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Setup and checks of the demo.
 *
 *   sl-client: sl1 10.99.0.2, fd99::2 <--veth--> sl0 10.99.0.1, fd99::1: sl-gw
 */
#ifndef SL_TOOLS_DEMO_H
#define SL_TOOLS_DEMO_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "tools/demo/proc.h"

#define DEMO_GW     "sl-gw"
#define DEMO_CLIENT "sl-client"
#define DEMO_DIR    "/run/sluice-demo"
#define DEMO_USER   "nobody"
#define DEMO_HOST   "demo.example"
#define DEMO_CERT   DEMO_DIR "/demo.pem"
#define DEMO_KEY    DEMO_DIR "/demo.key"
#define DEMO_V4     "10.99.0.1"
#define DEMO_V6     "fd99::1"

enum { DEMO_SERVERS = 3 };
enum { DEMO_PORT = 8080, DEMO_KERNEL_PORT = 2222, DEMO_DIM = 64, DEMO_ROWS = 2000, DEMO_TOP = 5 };

struct demo {
	char bin[4096]; /* binary and backends */
	int lock_fd;
	pid_t gateway, backends[5], kernel_service, servers[DEMO_SERVERS];
	bool made_netns;
	unsigned requests, ok, failed;
	uint64_t asked_ns;
	char why[512]; /* first error */
};

/* Removes leftovers. Returns 0, or -1 and a line in `why`. */
int demo_clear(struct demo *d);
/* Starts all. Returns 0, or -1 and a line in `why`; demo_destroy() follows. */
int demo_build(struct demo *d);
/* Ends processes and removes what was made; at any time. */
void demo_destroy(struct demo *d);

/* servers.c. Returns 0, or -1 and a line in `why`. */
int demo_start_servers(struct demo *d);
/* Ends their processes. */
void demo_stop_servers(struct demo *d);
/* Removes their files. */
void demo_remove_servers(void);

/* Runs the checks and counts failures in d. Returns 0, or -1 if interrupted. */
int demo_checks(struct demo *d);
/* Print latencies, and maps. Return false if interrupted. */
bool demo_show_stages(struct demo *d);
bool demo_show_maps(struct demo *d);

#endif
