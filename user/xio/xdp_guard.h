/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A process that detaches our program from libxdp's dispatcher when the gateway dies.
 *
 * libxdp's dispatcher is attached by netlink and its members are pinned links; no file descriptor
 * of ours holds them, and putting the dispatcher on a link of ours would keep others from joining
 * it, since libxdp replaces the dispatcher whenever a program comes or goes. So somebody who
 * survives SIGKILL of the gateway has to clean up: this child, which waits on a pidfd of its
 * parent, in a session of its own so that signals to the gateway's group or terminal do not reach
 * it.
 */
#ifndef SL_XIO_XDP_GUARD_H
#define SL_XIO_XDP_GUARD_H

#include <stdint.h>

/* Returns the guard's pid or -errno. Call before threads are started and sockets are opened. */
int sl_xdp_guard_start(int ifindex, uint32_t prog_id);

/* The program is detached: the guard is not needed any more. */
void sl_xdp_guard_stop(int pid);

/* Takes program `prog_id` out of the interface's dispatcher; 0 (also when it is not there) or
 * -errno. */
int sl_xdp_undispatch(int ifindex, uint32_t prog_id);

#endif
