/* SPDX-License-Identifier: Apache-2.0 */
/* Congestion control: CUBIC (RFC 9438) behind slow start. Recovery is in recovery.c. */
#ifndef SL_TCP_CC_H
#define SL_TCP_CC_H

#include <stdint.h>

struct sl_tcp_conn;

/* Grows cwnd, which was the limit, outside fast recovery. rtt_us 0: no sample. */
void sl_tcp_cubic_acked(struct sl_tcp_conn *c, uint32_t acked, uint32_t rtt_us);
/* Returns the new ssthresh after a loss; cwnd still has its old value. */
uint32_t sl_tcp_cubic_loss(struct sl_tcp_conn *c);

/* Begins slow start with HyStart++ (RFC 9406), which owns conn.cc. */
void sl_tcp_slow_start_begin(struct sl_tcp_conn *c);
/*
 * Grows cwnd in slow start. Returns the bytes left for congestion avoidance, which then owns
 * conn.cc. rtt_us 0: no sample.
 */
uint32_t sl_tcp_slow_start_acked(struct sl_tcp_conn *c, uint32_t acked, uint32_t rtt_us);
/* Ends slow start, or fast recovery with cwnd set; zeroes conn.cc. */
void sl_tcp_slow_start_end(struct sl_tcp_conn *c);

#endif
