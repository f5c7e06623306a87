/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A process that detaches our program from libxdp's dispatcher when the gateway ends.
 *
 * libxdp pins the links of members, so cleaning up needs a process that survives SIGKILL of the
 * gateway and keeps the capabilities. In its own session it waits for the end of a pipe that only
 * the gateway holds open.
 */
#ifndef SL_XIO_XDP_DETACH_WATCHDOG_H
#define SL_XIO_XDP_DETACH_WATCHDOG_H

#include <stdbool.h>
#include <stdint.h>

struct sl_detach_watchdog {
	int pid; /* 0: none */
	int hold_fd;
};

/* Forks. Returns 0 or -errno. Must precede threads and sockets. */
int sl_detach_watchdog_start(struct sl_detach_watchdog *g, int ifindex, uint32_t prog_id);

/* Waits for the watchdog's end. Returns true if it has detached the program. Needs no rights. */
bool sl_detach_watchdog_end(struct sl_detach_watchdog *g);

/*
 * Removes a program from the interface's dispatcher. Returns 0 (also if it is not there) or -errno.
 */
int sl_xdp_undispatch(int ifindex, uint32_t prog_id);

#endif
