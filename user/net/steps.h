/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Steps of a packet.
 *
 *   rx.c, handover.c -> sl_net_deliver -> { tcp, udp, sl_net_icmp_rx -> tcp, udp }
 */
#ifndef SL_NET_STEPS_H
#define SL_NET_STEPS_H

#include "net/net.h"

/* Passes on or drops an ICMP packet. Takes the frame, data at the ICMP header. */
void sl_net_icmp_rx(struct sl_net *n, struct sl_frame *f, uint8_t protocol);

/* Passes at most SL_BURST checked packets, data at L4, to tcp, udp or ICMP. Takes them. */
void sl_net_deliver(struct sl_net *n, struct sl_frame **frames, const uint8_t *protocols,
		    unsigned cnt);

/* Sets f->sender, a hash that includes VLAN tags. */
void sl_net_set_sender(const struct sl_net *n, struct sl_frame *f);

/* Returns the interface's first port, or -1. */
int sl_net_port_on(const struct sl_net *n, int ifindex);

#endif
