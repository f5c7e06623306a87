/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The steps that a received packet takes inside net, beyond the file that it came in by.
 *
 *   rx.c, handover.c -> sl_net_deliver -> { tcp, udp, sl_net_icmp_rx -> tcp, udp }
 */
#ifndef SL_NET_STEPS_H
#define SL_NET_STEPS_H

#include "net/net.h"

/* f->data at the ICMP header; takes the frame. */
void sl_net_icmp_rx(struct sl_net *n, struct sl_frame *f, uint8_t protocol);

/*
 * Hands checked packets, SL_BURST at most, to L4 or ICMP: protocols[i] is that of frames[i]; takes
 * the frames.
 */
void sl_net_deliver(struct sl_net *n, struct sl_frame **frames, const uint8_t *protocols,
		    unsigned cnt);

#endif
