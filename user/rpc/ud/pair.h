/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A queue pair for datagrams, with slots of its own to receive into and to send from, all registered
 * once: what it takes does not grow with those who use it. These are the members of
 * ud_verbs_device (device.h).
 *
 *   tx: a ring of slots; [done .. posted) are the device's, [posted .. head) chained, behind it unused
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
int ud_pair_put_back(struct ud_pair *base, const struct ud_packet *packets, unsigned cnt);
bool ud_pair_arm(struct ud_pair *base);
void ud_pair_take_bell(struct ud_pair *base);

#endif
