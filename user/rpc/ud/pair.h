/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A queue pair for datagrams, with slots of its own to receive into and to send from: what it takes does
 * not grow with those who use it. It begins with a part of them, as registering memory is most of what it
 * takes to make one. Once a poll finds something in half of these, or none is left to send from, the rest
 * is made, by the thread that hears of devices (verbs/event.c), and taken by the next polls. These are
 * the members of ud_verbs_device (device.h).
 *
 *   tx: slots in turn; [done .. posted) are the device's, [posted .. head) chained, behind it unused
 *   rx: each slot is in the receive queue, or of whoever polled it until put back
 */
#ifndef SL_RPC_UD_PAIR_H
#define SL_RPC_UD_PAIR_H

#include "rpc/ud/device.h"

struct ud_pair *ud_pair_open(const struct ud_local *l, unsigned group, uint32_t rx_cnt,
			     uint32_t tx_cnt, int *rc);
void ud_pair_close(struct ud_pair *base);
uint8_t *ud_pair_slot(struct ud_pair *base);
void ud_pair_send(struct ud_pair *base, void *way, uint32_t qpn, uint32_t len);
int ud_pair_ring(struct ud_pair *base);
int ud_pair_poll(struct ud_pair *base, struct ud_packet *packets, unsigned max);
bool ud_pair_is_from(const struct ud_packet *p, const uint8_t gid[16]);
int ud_pair_put_back(struct ud_pair *base, const struct ud_packet *packets, unsigned cnt);
bool ud_pair_arm(struct ud_pair *base);
void ud_pair_take_bell(struct ud_pair *base);

/* The rest of those who want it. Blocks, as does meanwhile who closes one of these; one thread calls it. */
void ud_pairs_grow(void);

#endif
