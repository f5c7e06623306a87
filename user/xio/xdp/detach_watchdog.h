/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A process that detaches our program from libxdp's dispatcher when the gateway ends, in whatever
 * way.
 *
 * libxdp's dispatcher is attached by netlink and its members are pinned links; no file descriptor
 * of ours holds them, and putting the dispatcher on a link of ours would keep others from joining
 * it, since libxdp replaces the dispatcher whenever a program comes or goes. So somebody has to
 * clean up who survives SIGKILL of the gateway, and who may: the gateway has no capabilities any
 * more, and perhaps another account. It is this child, which waits for the end of a pipe that only
 * the gateway holds open, in a session of its own so that signals to the gateway's group or
 * terminal do not reach it.
 */
#ifndef SL_XIO_XDP_DETACH_WATCHDOG_H
#define SL_XIO_XDP_DETACH_WATCHDOG_H

#include <stdbool.h>
#include <stdint.h>

struct sl_detach_watchdog {
	int pid; /* 0: none */
	int hold_fd;
};

/* 0 or -errno. Call before threads are started and sockets are opened. */
int sl_detach_watchdog_start(struct sl_detach_watchdog *g, int ifindex, uint32_t prog_id);

/* The guard detaches the program and ends; waits for that. True if it did. Takes no rights. */
bool sl_detach_watchdog_end(struct sl_detach_watchdog *g);

/* Takes program `prog_id` out of the interface's dispatcher; 0 (also when it is not there) or
 * -errno. */
int sl_xdp_undispatch(int ifindex, uint32_t prog_id);

#endif
