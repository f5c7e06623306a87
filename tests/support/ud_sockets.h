/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A device for virtual connections (rpc/rdma/device.h) on any machine: UDP sockets of 127.0.0.1 in the
 * place of queue pairs, with the port as their number. What is sent may be lost, doubled, or
 * overtaken by the next, by a die that falls the same each time.
 */
#ifndef TESTS_SUPPORT_UD_SOCKETS_H
#define TESTS_SUPPORT_UD_SOCKETS_H

#include "rpc/rdma/device.h"

struct ud_faults {
	unsigned lost, doubled, overtaken; /* of 100 */
};

/* From now on it is the device of this process, and of those that it forks. */
void ud_sockets_use(struct ud_faults faults);

/* The longest datagram of pairs that are opened from now on. */
extern uint32_t ud_sockets_mtu;
/* On the way to who is asked from now on; 0: it is not told. */
extern uint32_t ud_sockets_way_mtu;
/* The device that has all addresses; UD_NOWHERE: none has. What a sign says of that, once: 0 or -errno. */
enum { UD_NOWHERE = 2 };
extern unsigned ud_sockets_seat;
extern int ud_sockets_sign;
/*
 * That device's port goes down, or is back, and those who watch it are told: meanwhile what is sent, and
 * what comes, is lost. Any thread.
 */
void ud_sockets_port(unsigned seat, bool down);
/* Of all hosts where HELLOs are taken. */
extern const uint8_t ud_sockets_gid[16];
/* What was asked for last: of a way, and of each pair, how often by its group below 4. */
extern uint8_t ud_sockets_tos;
extern unsigned ud_sockets_groups[4];
/* Pairs that are rung while it is set are broken from then on. */
extern bool ud_sockets_break;
/* Sees what is sent, before the die falls; NULL: nobody looks. */
extern void (*ud_sockets_tap)(const uint8_t *bytes, uint32_t len, uint32_t to_qpn);

#endif
