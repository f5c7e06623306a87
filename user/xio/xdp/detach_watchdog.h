/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A process that detaches our program from libxdp's dispatcher at the gateway's end.
 *
 * libxdp pins its links: the process has capabilities and must survive SIGKILL of the gateway. It
 * waits, in its own session, for the end of a pipe that only the gateway holds open.
 */
#ifndef SL_XIO_XDP_DETACH_WATCHDOG_H
#define SL_XIO_XDP_DETACH_WATCHDOG_H

#include <stdbool.h>
#include <stdint.h>

struct sl_detach_watchdog {
	int pid; /* 0: none */
	int hold_fd;
};

/* Forks: must precede threads and sockets. Returns 0 or -errno. */
int sl_detach_watchdog_start(struct sl_detach_watchdog *g, int ifindex, uint32_t prog_id);

/* Waits for the watchdog's end. Returns true if it has detached the program. */
bool sl_detach_watchdog_end(struct sl_detach_watchdog *g);

/* Detaches a program from the dispatcher. Returns 0, also if not there, or -errno. */
int sl_xdp_undispatch(int ifindex, uint32_t prog_id);

#endif
