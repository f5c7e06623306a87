/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The demo's arena and its checks.
 *
 *   sl-client: sl1 10.99.0.2, fd99::2 <--veth--> sl0 10.99.0.1, fd99::1: sl-gw
 *                                               sluice, listener port 8080; kernel service port
 * 2222 echo a, echo b, score over shm
 */
#ifndef SL_CLI_DEMO_H
#define SL_CLI_DEMO_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "cli/proc.h"

#define DEMO_GW     "sl-gw"
#define DEMO_CLIENT "sl-client"
#define DEMO_DIR    "/run/sluice-demo"
#define DEMO_V4     "10.99.0.1"
#define DEMO_V6     "fd99::1"

enum { DEMO_PORT = 8080, DEMO_KERNEL_PORT = 2222, DEMO_DIM = 64, DEMO_ROWS = 2000, DEMO_TOP = 5 };

struct demo {
	char bin[4096]; /* folder of this binary, where the backends are too */
	int lock_fd;    /* held while a demo lives */
	pid_t gateway, backends[3], kernel_service;
	bool made_netns;
	unsigned requests, ok, failed;
	char why[512]; /* of the first thing that went wrong */
};

/* Removes what a killed demo left behind. 0, or -1 and a line in why. */
int demo_clear(struct demo *d);
/* Namespaces, backends, gateway: ready. 0, or -1 and a line in why. */
int demo_build(struct demo *d);
/* Ends and removes all of it; safe to call at any point. */
void demo_destroy(struct demo *d);

/* All checks, each one line. 0, or -1 when it was interrupted. */
int demo_checks(struct demo *d);

#endif
