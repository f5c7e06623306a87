/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Doors of those who dial, where ANSWERs to their HELLOs come. Who says HELLO has one alone until that is
 * answered, or was said often enough: so who is not answered is in few others' way. Of a device there are as
 * many as were in use at once, 16 at the most; of all, 64, and then the one that was not used for longest
 * goes. Any thread.
 */
#ifndef SL_RPC_UD_DOOR_H
#define SL_RPC_UD_DOOR_H

#include "rpc/ud/device.h"

struct ud_greeting {
	const struct ud_local *local;
	void *way;
	uint32_t qpn;   /* of the door there */
	unsigned tries; /* 0: until the time is over */
	uint64_t deadline_ns;
	/* Writes the next HELLO, each with a number of its own: its length, or -errno. */
	int (*say)(void *arg, const struct ud_pair *door, uint8_t *to);
	bool (*is_answer)(void *arg, const struct ud_packet *p);
	void (*meanwhile)(void *arg); /* there is time for this, once; NULL: nothing to do */
	void *arg;
};

/*
 * Blocks. 0 once it is answered, -ETIMEDOUT; -EBUSY: all doors were in use for half of the time, the other
 * half is the caller's; or another -errno. For as long as it has waited for a door the deadline moves.
 */
int ud_greet(const struct ud_greeting *g);

#endif
