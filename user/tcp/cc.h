/* SPDX-License-Identifier: Apache-2.0 */
/* Interface of congestion control. Recovery is common to all (recovery.c). */
#ifndef SL_TCP_CC_H
#define SL_TCP_CC_H

#include <stdint.h>

struct sl_tcp_conn;

struct sl_tcp_cc_ops {
	const char *name;
	/* Called when the connection is established or slow start begins again. */
	void (*start)(struct sl_tcp_conn *c);
	/* Called outside fast recovery while cwnd was the limit. */
	void (*acked)(struct sl_tcp_conn *c, uint32_t acked, uint32_t rtt_us);
	/* Returns the new ssthresh; cwnd still has its old value. */
	uint32_t (*loss)(struct sl_tcp_conn *c);
	/* Called after fast recovery with cwnd set; the union conn.cc is free again. */
	void (*recovered)(struct sl_tcp_conn *c);
};

extern const struct sl_tcp_cc_ops sl_tcp_cc_cubic;
extern const struct sl_tcp_cc_ops sl_tcp_cc_newreno;

/* Slow start with HyStart++ (RFC 9406). */
void sl_tcp_slow_start_begin(struct sl_tcp_conn *c);
/*
 * Grows cwnd in slow start. Returns the bytes left for congestion avoidance, which then owns the
 * union conn.cc.
 */
uint32_t sl_tcp_slow_start_acked(struct sl_tcp_conn *c, uint32_t acked, uint32_t rtt_us);
/* Ends slow start; the union is zero. */
void sl_tcp_slow_start_end(struct sl_tcp_conn *c);

#endif
