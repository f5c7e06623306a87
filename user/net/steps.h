/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The steps that a received packet takes inside net, in order; each drops and counts what it
 * refuses.
 *
 *   eth_rx -> ip_rx -> deliver -> { tcp, udp, icmp_rx -> tcp, udp }
 */
#ifndef SL_NET_STEPS_H
#define SL_NET_STEPS_H

#include "net/net.h"

enum { SL_NET_DROPPED = -1 };

/* f->data at the Ethernet header; moves it to the IP header. EtherType, or SL_NET_DROPPED. */
int sl_net_eth_rx(struct sl_net *n, struct sl_frame *f);

/* f->data at the IP header; moves it to L4. Protocol (TCP, UDP, ICMP of the family), or DROPPED. */
int sl_net_ip_rx(struct sl_net *n, struct sl_frame *f, int ethertype);

/* f->data at the ICMP header; takes the frame. */
void sl_net_icmp_rx(struct sl_net *n, struct sl_frame *f, uint8_t protocol);

/* Hands checked packets to L4 or ICMP: protocols[i] is that of frames[i]; takes the frames. */
void sl_net_deliver(struct sl_net *n, struct sl_frame **frames, const uint8_t *protocols,
		    unsigned cnt);

#endif
