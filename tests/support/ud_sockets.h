/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A device for virtual connections (rpc/rdma/device.h) on any machine. UDP sockets of 127.0.0.1 stand
 * in for queue pairs, with the port as their number. Datagrams may be lost, duplicated or
 * reordered, by a generator with a fixed seed.
 */
#ifndef TESTS_SUPPORT_UD_SOCKETS_H
#define TESTS_SUPPORT_UD_SOCKETS_H

#include "rpc/rdma/device.h"

struct ud_faults {
	unsigned lost, doubled, overtaken; /* per cent */
};

/* From now on it is the device of this process, and of those that it forks. */
void ud_sockets_use(struct ud_faults faults);

/* What a SIDR query is answered with. */
struct ud_sockets_reply {
	uint64_t epoch;
	uint32_t qpn, reserved;
};

/* The longest datagram of pairs that are opened from now on. */
extern uint32_t ud_sockets_mtu;
/* MTU of the path to the next peer; 0: unknown */
extern uint32_t ud_sockets_way_mtu;
/*
 * The device that has all addresses; UD_NOWHERE: none. Result of its SIDR service, once: 0 or
 * -errno.
 */
enum { UD_NOWHERE = 2 };
extern unsigned ud_sockets_seat;
extern int ud_sockets_sign;
/*
 * Takes that device's port down, or up again, and notifies its watchers. Datagrams are lost
 * meanwhile. Any thread.
 */
void ud_sockets_port(unsigned seat, bool down);
/* GID of all hosts with a listener. */
extern const uint8_t ud_sockets_gid[16];
/* Last traffic class; and how many queue pairs were opened, by their group below 4. */
extern uint8_t ud_sockets_tos;
extern unsigned ud_sockets_groups[4];
/* Pairs that are rung while it is set are broken from then on. */
extern bool ud_sockets_break;
/* Sees each datagram before faults are applied; NULL: not used. */
extern void (*ud_sockets_tap)(const uint8_t *bytes, uint32_t len, uint32_t to_qpn);

#endif
